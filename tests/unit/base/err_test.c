/* err_test.c: error texts: cut, joined, quoted in themselves. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/err.h"
#include "proto/base/text.h"
#include "tests/lib/aborts.h"

static void set_returns_its_code(void **state)
{
    (void)state;
    struct err err = {.code = 0};
    assert_int_equal(err_set(&err, -ENOENT, "node '%s' is not in job %u", "gpu-7", 3u), -ENOENT);
    assert_int_equal(err.code, -ENOENT);
    assert_string_equal(err.text, "node 'gpu-7' is not in job 3");
    assert_int_equal(err_set(NULL, -EINVAL, "nobody reads %d", 1), -EINVAL);
}

static void newline_at_the_end_goes(void **state)
{
    (void)state;
    struct err err = {.code = 0};
    (void)err_set(&err, -EIO, "disk I/O error\r\n\n");
    assert_string_equal(err.text, "disk I/O error");
    (void)err_set(&err, -EIO, "\n");
    assert_string_equal(err.text, "");
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    char text[2 * ERR_TEXT_SIZE];
    struct err err = {.code = 0};
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    (void)err_set(&err, -EIO, "%s", text);
    assert_int_equal(strlen(err.text), ERR_TEXT_SIZE - 1);
    assert_int_equal(err_wrap(&err, "%s", text), -EIO);
    assert_int_equal(strlen(err.text), ERR_TEXT_SIZE - 1);
}

static void letters_stay_whole(void **state)
{
    (void)state;
    char text[2 * ERR_TEXT_SIZE];
    for (size_t i = 0; i < sizeof(text); i += 2) {
        memcpy(text + i, "\xc3\xbc", 2);
    }
    text[sizeof(text) - 2] = '\0';
    for (size_t before = 0; before < 3; before++) {
        struct err err = {.code = 0};
        (void)err_set(&err, -EIO, "%.*s%s", (int)before, "::", text);
        assert_true(text_is_utf8(err.text, strlen(err.text)));
        assert_true(strlen(err.text) >= ERR_TEXT_SIZE - 2);
        (void)err_wrap(&err, "%.*s", (int)before, text);
        assert_true(text_is_utf8(err.text, strlen(err.text)));
        assert_true(strlen(err.text) >= ERR_TEXT_SIZE - 2);
        (void)err_wrap(&err, "%.*s%s", (int)before, "::", text);
        assert_true(text_is_utf8(err.text, strlen(err.text)));
        (void)err_set(&err, -EIO, "%.*s is empty", (int)(97 + before), text);
        assert_true(text_is_utf8(err.text, strlen(err.text)));
    }
}

static void wrap_puts_a_prefix(void **state)
{
    (void)state;
    struct err err = {.code = 0};
    (void)err_set(&err, -EACCES, "permission denied");
    assert_int_equal(err_wrap(&err, "open '%s'", "/srv/k.db"), -EACCES);
    assert_string_equal(err.text, "open '/srv/k.db': permission denied");
    assert_int_equal(err.code, -EACCES);
    assert_true(err_wrap(NULL, "no text") < 0);
}

static void text_may_quote_itself(void **state)
{
    (void)state;
    struct err err = {.code = 0};
    (void)err_set(&err, -EIO, "first");
    assert_int_equal(err_set(&err, -EAGAIN, "again after: %s", err.text), -EAGAIN);
    assert_string_equal(err.text, "again after: first");
}

static void positive_code(void *context)
{
    (void)err_set(context, EIO, "wrong sign");
}

static void positive_code_is_our_mistake(void **state)
{
    (void)state;
    struct err err = {.code = 0};
    assert_true(aborts(positive_code, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_returns_its_code),         cmocka_unit_test(newline_at_the_end_goes),
        cmocka_unit_test(long_texts_are_cut),           cmocka_unit_test(wrap_puts_a_prefix),
        cmocka_unit_test(text_may_quote_itself),        cmocka_unit_test(letters_stay_whole),
        cmocka_unit_test(positive_code_is_our_mistake),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
