/* line_pattern_test.c: what each part of a pattern takes, and what is refused. */
#include <string.h>

#include "agent/core/line_pattern.h"
#include "proto/base/check.h"
#include "tests/lib/test.h"

static struct line_pattern read_pattern(const char *text, struct line_item *items)
{
    struct err err = {0};
    struct line_pattern pattern = {.items = items};
    if (line_pattern_read(text, strlen(text), items, &pattern.count, &err) != 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return pattern;
}

static bool match(const char *pattern, const char *line, struct line_found *ret_found)
{
    struct line_item items[LINE_ITEMS_MAX];
    const struct line_pattern read = read_pattern(pattern, items);
    return line_pattern_match(&read, line, strlen(line), 0, ret_found);
}

static void check_match(const char *pattern, const char *line, bool expected)
{
    struct line_found found;
    if (match(pattern, line, &found) != expected) {
        fail_msg("'%s' %s '%s'", pattern, expected ? "does not match" : "matches", line);
    }
}

static void test_items(void **state)
{
    static const struct {
        const char *pattern;
        const char *line;
        bool expected;
    } cases[] = {
        {"word", "a word here", true},
        {"word", "a wor", false},
        {"one*two", "one and two", true},
        {"one*two", "onetwo", true},
        {"one*two", "two one", false},
        {"one*two*three", "one three two three", true},
        {"CPU#%d stuck", "CPU#18 stuck", true},
        {"CPU#%d stuck", "CPU# stuck", false},
        {"CPU#%d stuck", "CPU#-3 stuck", true},
        {"addr %x end", "addr 0xdeadBEEF end", true},
        {"addr %x end", "addr 18f31d80 end", true},
        {"addr %x end", "addr xyz end", false},
        {"server %s not", "server 10.9.0.16 not", true},
        {"server %s not", "server a b not", false},
        {"server %s:/x", "server fs1:/x", true},
        {"two%_blanks", "two \t blanks", true},
        {"two%_blanks", "twoblanks", false},
        {"fault {up|down} now", "fault down now", true},
        {"fault {up|down} now", "fault sideways now", false},
        {"error{s|} here", "error here", true},
        {"error{s|} here", "errors here", true},
        {"norm: %>20 |", "norm: 20.5 |", true},
        {"norm: %>20 |", "norm: 19.99 |", false},
        {"norm: %>20", "norm: 960.412", true},
        {"reasons=%&e8", "reasons=0x0000000000000048", true},
        {"reasons=%&e8", "reasons=0x0000000000000004", false},
        {"reasons=%&e8", "reasons=0x80", true},
        {"%P: gone", "mlx5 0000:3b:00.0: gone", true},
        {"%P: gone", "mlx5 3b:00.0: gone", true},
        {"%P: gone", "mlx5 3b00: gone", false},
        {"^begin", "begin", true},
        {"^begin", "not begin", false},
        {"^begin", "first part|begin", true},
        {"^begin", "first part|  begin", true},
        {"the end$", "this is the end", true},
        {"the end$", "the end of it", false},
        {"the end$", "the end, no, the end\n", true},
        {"100%% full", "100% full", true},
        {"a %* star", "a * star", true},
        {"a %{ brace", "a { brace", true},
        {"%^ hat %$ cash", "^ hat $ cash", true},
        {"cost $ here", "cost $ here", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        check_match(cases[i].pattern, cases[i].line, cases[i].expected);
    }
}

static void test_what_is_taken(void **state)
{
    struct line_found found;
    (void)state;
    assert_true(match("server %S error %D on rank %R gpu=%G at %P",
                      "nfs: server fs-1.example error -13 on rank 784 gpu=3 at 0000:3b:00.0",
                      &found));
    assert_int_equal(found.subject_size, strlen("fs-1.example"));
    assert_memory_equal(found.subject, "fs-1.example", found.subject_size);
    assert_true(found.has_code);
    assert_int_equal(found.code, -13);
    assert_int_equal(found.rank, 784);
    assert_int_equal(found.gpu, 3);
    assert_int_equal(found.pci_size, strlen("0000:3b:00.0"));
}

/* A segment that fits halfway leaves nothing behind of what it took there. */
static void test_a_false_start_takes_nothing(void **state)
{
    struct line_found found;
    (void)state;
    assert_true(match("task %S:%D blocked", "task a:x task b:7 blocked", &found));
    assert_memory_equal(found.subject, "b", 1);
    assert_int_equal(found.code, 7);
    assert_false(match("task %S:%D blocked", "task a:7 block", &found));
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *pattern;
        const char *says;
    } cases[] = {
        {"ends in %", "ends in %"},
        {"has %q in it", "%q is not known"},
        {"norm: %>x", "needs a number"},
        {"has {open", "is not closed"},
        {"has {a%d|b} in it", "plain text only"},
        {"has {a{b}} in it", "plain text only"},
        {"%d*%x", "at least 3 characters"},
        {"ab*cd", "at least 3 characters"},
        {"{abc|de}", "at least 3 characters"},
        {"call {reg|reg_mr} failed", "'reg_mr' can never be taken behind 'reg': longer ones first"},
        {"error{|s} here", "can never be taken behind ''"},
        {"\x01\x02\x03", "at least 3 characters"},
        {"", "1 to 255 bytes"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = {0};
        struct line_item items[LINE_ITEMS_MAX];
        size_t count = 0;
        assert_int_not_equal(
            line_pattern_read(cases[i].pattern, strlen(cases[i].pattern), items, &count, &err), 0);
        if (strstr(err.text, cases[i].says) == NULL) {
            fail_msg("%s: %s", cases[i].pattern, err.text);
        }
    }
}

static void check_key(const char *pattern, const char *const *pieces, size_t count)
{
    struct line_item items[LINE_ITEMS_MAX];
    const struct line_pattern read = read_pattern(pattern, items);
    const struct line_key key = line_pattern_key(&read);
    size_t at = 0;
    const char *text;
    size_t size;
    for (size_t i = 0; i < count; i++) {
        assert_true(line_key_piece(&key, &at, &text, &size));
        assert_int_equal(size, strlen(pieces[i]));
        assert_memory_equal(text, pieces[i], size);
    }
    assert_false(line_key_piece(&key, &at, &text, &size));
}

static void test_keys(void **state)
{
    (void)state;
    check_key("a*longest*mid", (const char *const[]){"longest"}, 1);
    check_key("^NCCL INFO", (const char *const[]){"NCCL INFO"}, 1);
    check_key("abc%ddefg{x|y}", (const char *const[]){"defg"}, 1);
    check_key("at {first|second} x", (const char *const[]){"first", "second"}, 2);
    check_key("one %% twenty", (const char *const[]){" twenty"}, 1);
    check_key("exactly sixteen.. and more of it", (const char *const[]){"exactly sixteen."}, 1);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {
        {"0000:3b:00.0:", 12},
        {"0000:3b:00)", 10},
        {"3b:00.7 x", 7},
        {"00000000:3B:00.0", 16},
        {"3b:00", 5},
        {"3b:0", 0},
        {"0000:3b", 0},
        {"0000:3b:0", 0},
        {"", 0},
        {"xx:yy", 0},
        {"123:45:67", 9},
        {"1:2:3", 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(line_pci_size(cases[i].text, strlen(cases[i].text)), cases[i].size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_what_is_taken),
        cmocka_unit_test(test_a_false_start_takes_nothing),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
