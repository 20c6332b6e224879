/* text_test.c: copies that cut, orders that are total, numbers at their limits. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"

static void copy_terminates_and_tells(void **state)
{
    (void)state;
    char target[6];
    assert_true(text_copy(target, sizeof(target), "12345"));
    assert_string_equal(target, "12345");
    assert_false(text_copy(target, sizeof(target), "123456"));
    assert_string_equal(target, "12345");
    assert_true(text_copy(target, sizeof(target), ""));
    assert_string_equal(target, "");
    assert_false(text_copy(target, 1, "x"));
    assert_string_equal(target, "");
}

static void cuts_keep_characters_whole(void **state)
{
    (void)state;
    char target[8];
    assert_false(text_copy(target, 5, "abc\xc3\xa4z")); /* the a-umlaut has 2 bytes and one place */
    assert_string_equal(target, "abc");
    assert_false(text_copy(target, 6, "abc\xc3\xa4z"));
    assert_string_equal(target, "abc\xc3\xa4");
    assert_false(text_copy(target, 5, "a\xf0\x9f\x98\x80"));
    assert_string_equal(target, "a");
    assert_false(text_format(target, 4, "%s", "\xe2\x82\xac\xe2\x82\xac"));
    assert_string_equal(target, "\xe2\x82\xac");
    assert_false(text_copy(target, 4, "\x80\x80\x80\x80\x80")); /* not UTF-8: bytes are bytes */
    assert_int_equal(strlen(target), 3);
}

/* Letters of one to four bytes, cut at every size and by a precision at every byte: what comes out is
 * UTF-8, and as much of what went in as has room. */
static void sentences_are_cut_between_letters(void **state)
{
    (void)state;
    static const char *const letters[] = {"a", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t one = 0; one < ARRAY_SIZE(letters); one++) {
        const size_t width = strlen(letters[one]);
        char name[64] = "";
        while (strlen(name) + width < sizeof(name)) {
            memcpy(name + strlen(name), letters[one], width + 1);
        }
        for (size_t size = 1; size <= strlen(name); size++) {
            char text[80];
            assert_false(text_sentence(text, size, "%s!", name));
            assert_int_equal(strlen(text), (size - 1) / width * width);
            assert_memory_equal(text, name, strlen(text));
            assert_true(text_sentence(text, sizeof(text), "%.*s", (int)size, name));
            assert_int_equal(strlen(text), size / width * width);
            assert_memory_equal(text, name, strlen(text));
            assert_true(text_sentence(text, sizeof(text), "%.*s: lost", (int)size, name));
            assert_true(text_is_utf8(text, strlen(text)));
            assert_memory_equal(text, name, size / width * width);
            assert_non_null(strstr(text, ": lost"));
            assert_int_equal(strchr(text, '?') == NULL, size % width == 0);
        }
    }
}

static void sentences_are_utf8(void **state)
{
    (void)state;
    char text[32];
    assert_true(text_sentence(text, sizeof(text), "K\xe4se \x1b[1m %s", "\xc3\xbc\xff"));
    assert_string_equal(text, "K?se ?[1m \xc3\xbc");
    assert_true(text_sentence(text, sizeof(text), "%s", "\x80\x80"));
    assert_string_equal(text, "??");
    assert_true(text_sentence(text, sizeof(text), "%s", "\xc3"));
    assert_string_equal(text, "");
}

static void format_tells_when_it_cuts(void **state)
{
    (void)state;
    char target[8];
    assert_true(text_format(target, sizeof(target), "%d-%s", 12, "abcd"));
    assert_string_equal(target, "12-abcd");
    assert_false(text_format(target, sizeof(target), "%d-%s", 12, "abcde"));
    assert_string_equal(target, "12-abcd");
}

static void order_is_by_value_of_digits(void **state)
{
    (void)state;
    const char *const sorted[] = {
        "",
        "gpu-1",
        "gpu-2",
        "gpu-09",
        "gpu-9",
        "gpu-10",
        "gpu-10-ib0",
        "gpu-10-ib2",
        "gpu-10-ib10",
        "gpu-18446744073709551616",
        "gpu-18446744073709551617",
        "gpux",
        "h",
    };
    for (size_t a = 0; a < ARRAY_SIZE(sorted); a++) {
        for (size_t b = 0; b < ARRAY_SIZE(sorted); b++) {
            int expected = a < b ? -1 : a > b;
            assert_int_equal(text_order(sorted[a], sorted[b]), expected);
        }
    }
}

static void random_word(struct prng *prng, char *word, size_t size)
{
    size_t length = prng_below(prng, size);
    for (size_t index = 0; index < length; index++) {
        word[index] = "0019a-"[prng_below(prng, 6)];
    }
    word[length] = '\0';
}

static void order_is_total(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 11);
    for (unsigned round = 0; round < 200000; round++) {
        char a[7];
        char b[7];
        char c[7];
        random_word(&prng, a, sizeof(a));
        random_word(&prng, b, sizeof(b));
        random_word(&prng, c, sizeof(c));
        assert_int_equal(text_order(a, b), -text_order(b, a));
        assert_int_equal(text_order(a, b) == 0, strcmp(a, b) == 0);
        if (text_order(a, b) < 0 && text_order(b, c) < 0) {
            assert_true(text_order(a, c) < 0);
        }
    }
}

static void names(void **state)
{
    (void)state;
    assert_true(text_is_name("gpu-0412", 64));
    assert_true(text_is_name("a", 2));
    assert_true(text_is_name("4x.y_z-", 64));
    assert_false(text_is_name("", 64));
    assert_false(text_is_name("-a", 64));
    assert_false(text_is_name(".a", 64));
    assert_false(text_is_name("a b", 64));
    assert_false(text_is_name("a/b", 64));
    assert_false(text_is_name("a\n", 64));
    assert_false(text_is_name("\xc3\xa4", 64));
    assert_true(text_is_name("123", 4));
    assert_false(text_is_name("1234", 4));
}

static bool utf8(const char *text)
{
    return text_is_utf8(text, strlen(text));
}

static void utf8_is_strict(void **state)
{
    (void)state;
    assert_true(utf8(""));
    assert_true(utf8("tab\tand\nnewline"));
    assert_true(utf8("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"));
    assert_false(text_is_utf8("a\0b", 3));
    assert_false(utf8("\x1b[31m"));
    assert_false(utf8("\r"));
    assert_false(utf8("\x7f"));
    assert_false(utf8("\xc2\x9b"));         /* the 8-bit control sequence introducer */
    assert_false(utf8("\xc0\xaf"));         /* overlong '/' */
    assert_false(utf8("\xe0\x80\xaf"));     /* the same in three */
    assert_false(utf8("\xf0\x80\x80\xaf")); /* and in four bytes */
    assert_false(utf8("\xed\xa0\x80"));     /* a surrogate */
    assert_false(utf8("\xf4\x90\x80\x80")); /* over U+10FFFF */
    assert_false(utf8("\xf8\x88\x80\x80\x80"));
    assert_false(utf8("\xc3"));
    assert_false(utf8("\xc3"
                      "a"));
    assert_false(utf8("\x80"));
}

/* Long texts are looked at in words: every byte in every place counts all the same. */
static void utf8_sees_every_byte(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool good = (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\n';
        for (size_t place = 0; place < 27; place++) {
            char text[27];
            memset(text, place % 2 == 0 ? ' ' : '~', sizeof(text));
            text[place] = (char)byte;
            assert_int_equal(text_is_utf8(text, sizeof(text)), good);
        }
    }
    assert_true(utf8("seven b\xc3\xa4 and then more of it"));
    assert_false(utf8("seven b\xc3 and then more of it"));
}

static void unsigned_numbers(void **state)
{
    (void)state;
    uint64_t value = 77;
    assert_int_equal(text_to_u64("0", UINT64_MAX, &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(text_to_u64("18446744073709551615", UINT64_MAX, &value), 0);
    assert_int_equal(value, UINT64_MAX);
    value = 77;
    assert_int_equal(text_to_u64("18446744073709551616", UINT64_MAX, &value), -ERANGE);
    assert_int_equal(text_to_u64("99999999999999999999999999", UINT64_MAX, &value), -ERANGE);
    assert_int_equal(text_to_u64("65536", 65535, &value), -ERANGE);
    const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "0x1", "1e3", "1.0", "1_000", "a"};
    for (size_t index = 0; index < ARRAY_SIZE(bad); index++) {
        assert_int_equal(text_to_u64(bad[index], UINT64_MAX, &value), -EINVAL);
    }
    /* Garbage after too many digits is garbage. */
    assert_int_equal(text_to_u64("99999999999999999999999999x", UINT64_MAX, &value), -EINVAL);
    assert_int_equal(value, 77);
}

static void signed_numbers(void **state)
{
    (void)state;
    int64_t value = 77;
    assert_int_equal(text_to_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MIN);
    assert_int_equal(text_to_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(text_to_i64("-0", INT64_MIN, INT64_MAX, &value), 0);
    assert_int_equal(value, 0);
    value = 77;
    assert_int_equal(text_to_i64("9223372036854775808", INT64_MIN, INT64_MAX, &value), -ERANGE);
    assert_int_equal(text_to_i64("-9223372036854775809", INT64_MIN, INT64_MAX, &value), -ERANGE);
    assert_int_equal(text_to_i64("-1", 0, 5, &value), -ERANGE);
    assert_int_equal(text_to_i64("6", 0, 5, &value), -ERANGE);
    assert_int_equal(text_to_i64("--1", -5, 5, &value), -EINVAL);
    assert_int_equal(text_to_i64("-", -5, 5, &value), -EINVAL);
    assert_int_equal(value, 77);
}

static void closest_word(void **state)
{
    (void)state;
    const char *const words[] = {"interval", "keep_last", "verify", "dir", "drain_wait"};
    size_t count = ARRAY_SIZE(words);
    assert_string_equal(text_closest("intervall", words, count), "interval");
    assert_string_equal(text_closest("itnerval", words, count), "interval");
    assert_string_equal(text_closest("keep-last", words, count), "keep_last");
    assert_string_equal(text_closest("dri", words, count), "dir");
    assert_string_equal(text_closest("verify", words, count), "verify");
    assert_null(text_closest("checkpoint", words, count));
    assert_null(text_closest("", words, count));
    assert_null(text_closest("x", words, 0));
    char giant[200];
    memset(giant, 'a', sizeof(giant));
    giant[sizeof(giant) - 1] = '\0';
    assert_null(text_closest(giant, words, count));
}

static void words_fit_their_number(void **state)
{
    (void)state;
    assert_string_equal(text_plural(0, "node", "nodes"), "nodes");
    assert_string_equal(text_plural(1, "node", "nodes"), "node");
    assert_string_equal(text_plural(2, "node", "nodes"), "nodes");
    assert_string_equal(text_plural((1ull << 32) + 1, "node", "nodes"), "nodes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_terminates_and_tells),
        cmocka_unit_test(cuts_keep_characters_whole),
        cmocka_unit_test(sentences_are_cut_between_letters),
        cmocka_unit_test(sentences_are_utf8),
        cmocka_unit_test(format_tells_when_it_cuts),
        cmocka_unit_test(order_is_by_value_of_digits),
        cmocka_unit_test(order_is_total),
        cmocka_unit_test(names),
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(utf8_sees_every_byte),
        cmocka_unit_test(unsigned_numbers),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(closest_word),
        cmocka_unit_test(words_fit_their_number),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
