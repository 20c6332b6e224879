/* line_cursor_test.c: a cursor stays within what it borrows, and takes no more than it says. */
#include <string.h>

#include "agent/core/line_cursor.h"
#include "tests/lib/test.h"

/* What follows the borrowed bytes is somebody else's, also where it would fit. */
static void test_the_end(void **state)
{
    (void)state;
    uint64_t number = 0;
    struct line_cursor digits = {.text = "12345", .size = 3};
    assert_true(cursor_take_number(&digits, &number));
    assert_int_equal(number, 123);
    assert_int_equal(cursor_left(&digits), 0);
    assert_int_equal(cursor_here(&digits), '\0');
    assert_false(cursor_take_byte(&digits, '4'));
    assert_false(cursor_take(&digits, "45"));

    uint32_t hex = 0;
    struct line_cursor word = {.text = "0xabcd", .size = 4};
    assert_true(cursor_take_hex(&word, &hex));
    assert_int_equal(hex, 0xab);

    struct line_cursor name = {.text = "node-7", .size = 4};
    assert_int_equal(cursor_take_name(&name, 10), 4);
    struct line_cursor blanks = {.text = "    ", .size = 2};
    assert_true(cursor_take_blanks(&blanks));
    assert_int_equal(blanks.at, 2);
    assert_false(cursor_take_blanks(&blanks));
    const struct line_cursor rest = {.text = "abc:", .size = 3};
    assert_int_equal(cursor_span(&rest, ":"), 3);
    struct line_cursor find = {.text = "to here", .size = 6};
    assert_false(cursor_find(&find, "here"));
    assert_true(cursor_find(&find, "her"));
    assert_int_equal(find.at, 6);
}

static void test_so_many_at_most(void **state)
{
    (void)state;
    uint64_t number = 0;
    struct line_cursor digits = {.text = "1234567890123456789", .size = 19};
    assert_true(cursor_take_number(&digits, &number));
    assert_true(number == 123456789012345678ull);
    assert_int_equal(cursor_here(&digits), '9');

    uint32_t hex = 0;
    struct line_cursor word = {.text = "1234567890abcdef012", .size = 19};
    assert_true(cursor_take_hex(&word, &hex));
    assert_int_equal(hex, 0xabcdef01);
    assert_int_equal(cursor_here(&word), '2');

    struct line_cursor name = {.text = "node-7", .size = 6};
    assert_int_equal(cursor_take_name(&name, 4), 4);
    struct line_cursor three = {.text = "123", .size = 3};
    struct line_cursor again = three;
    assert_true(cursor_take_digits(&again, 3, 3));
    again = three;
    assert_false(cursor_take_digits(&again, 4, 9));
    again = three;
    assert_false(cursor_take_digits(&again, 1, 2));
}

static void test_copies(void **state)
{
    char small[4];
    (void)state;
    line_copy(small, sizeof(small), "abc", 3);
    assert_string_equal(small, "abc");
    line_copy(small, sizeof(small), "abcd", 4);
    assert_string_equal(small, "abc");
    line_copy(small, sizeof(small), "a\n\x7f", 3);
    assert_string_equal(small, "a??");
    line_copy(small, sizeof(small), " ~\xc3", 3);
    assert_string_equal(small, " ~?");
    assert_int_equal(line_small(INT32_MAX), INT32_MAX);
    assert_int_equal(line_small((uint64_t)INT32_MAX + 1), INT32_MAX);
    assert_int_equal(line_small(7), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_end),
        cmocka_unit_test(test_so_many_at_most),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
