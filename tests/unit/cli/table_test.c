/* table_test.c: tables and values as people read them. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "tests/unit/cli/cli_help.h"

static void print_table(void *context)
{
    table_print(context);
}

static void columns_are_as_wide_as_their_cells(void **state)
{
    (void)state;
    static const char *const heads[] = {"NAME", ">STEP", "NOTE"};
    struct table table;
    table_init(&table, 3, heads);
    table_text(&table, "llama-405b");
    table_cell(&table, "%d", 7);
    table_text(&table, "a\nb\033[31m"); /* one line, and no commands to the terminal */
    table_text(&table, "x");
    table_cell(&table, "%s", "184,223");
    table_text(&table, "");
    assert_string_equal(stdout_of(print_table, &table), "NAME           STEP  NOTE\n"
                                                        "llama-405b        7  a b [31m\n"
                                                        "x           184,223  \n");
}

static void a_table_without_rows_is_its_heads(void **state)
{
    (void)state;
    static const char *const heads[] = {"A", ">B"};
    struct table table;
    table_init(&table, 2, heads);
    assert_string_equal(stdout_of(print_table, &table), "A  B\n");
}

static void long_cells_are_never_cut(void **state)
{
    (void)state;
    static const char *const heads[] = {"NODES"};
    char nodes[3000];
    struct table table;
    memset(nodes, 'n', sizeof nodes - 1);
    nodes[sizeof nodes - 1] = '\0';
    table_init(&table, 1, heads);
    table_text(&table, nodes);
    const char *text = stdout_of(print_table, &table);
    assert_int_equal(strlen(text), strlen("NODES\n") + sizeof nodes);
}

static void members_become_cells(void **state)
{
    (void)state;
    static const char *const heads[] = {"A"};
    json_t *object = json_of("{\"n\": 1234567, \"minus\": -1, \"t\": \"word\", \"e\": \"\","
                             "\"null\": null, \"yes\": true, \"r\": 0.5, \"list\": [1]}");
    static const struct {
        const char *key;
        const char *cell;
    } cases[] = {{"n", "1,234,567"}, {"minus", "-1"}, {"t", "word"}, {"e", "-"},   {"null", "-"},
                 {"yes", "yes"},     {"r", "0.500"},  {"list", "-"}, {"none", "-"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[64];
        struct table table;
        table_init(&table, 1, heads);
        table_member(&table, object, cases[i].key);
        (void)snprintf(expected, sizeof expected, "A\n%s\n", cases[i].cell);
        assert_string_equal(stdout_of(print_table, &table), expected);
    }
    json_decref(object);
}

/* Separators are for tables; elsewhere a number may be copied. */
static void numbers_outside_tables_are_plain(void **state)
{
    (void)state;
    char text[64];
    json_t *object = json_of("{\"n\": 1234567}");
    assert_string_equal(text_of(object, "n", text, sizeof text), "1234567");
    assert_int_equal(number(object, "n"), 1234567);
    assert_int_equal(number(object, "m"), 0);
    assert_string_equal(member(object, "n"), "");
    assert_false(truth(object, "n"));
    json_decref(object);
}

static void counts_have_separators(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {16384, "16,384"},
                 {100000, "100,000"},
                 {1000000, "1,000,000"},
                 {UINT64_MAX, "18,446,744,073,709,551,615"}};
    char text[40];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        count_format(cases[i].value, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void seconds_have_a_fitting_unit(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *text;
    } cases[] = {{"{\"s\": 0.081}", "81 ms"}, {"{\"s\": 12.14}", "12.1 s"},
                 {"{\"s\": 250}", "4m10s"},   {"{\"s\": 0}", ""},
                 {"{\"s\": null}", ""},       {"{}", ""}};
    char text[40];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *object = json_of(cases[i].json);
        assert_string_equal(seconds_of(object, "s", text, sizeof text), cases[i].text);
        json_decref(object);
    }
}

static void nodes_are_counted_when_there_are_more(void **state)
{
    (void)state;
    char text[64];
    nodes_format("gpu-0001", 1, text, sizeof text);
    assert_string_equal(text, "gpu-0001");
    nodes_format("gpu-[0001-1040]", 1040, text, sizeof text);
    assert_string_equal(text, "1,040 nodes (gpu-[0001-1040])");
    assert_string_equal(plural(1, "slot", "slots"), "slot");
    assert_string_equal(plural(0, "slot", "slots"), "slots");
}

static void times_that_are_none_are_a_dash(void **state)
{
    (void)state;
    char text[40];
    json_t *object = json_of("{\"a\": \"yesterday\", \"b\": 5, \"c\": \"2999-01-01T00:00:00Z\","
                             "\"d\": \"2001-01-01T00:00:00.000Z\"}");
    assert_string_equal(ago_of(object, "a", text, sizeof text), "-");
    assert_string_equal(ago_of(object, "b", text, sizeof text), "-");
    assert_string_equal(ago_of(object, "none", text, sizeof text), "-");
    assert_string_equal(ago_of(object, "c", text, sizeof text), "0s"); /* a clock that is ahead */
    assert_non_null(strchr(ago_of(object, "d", text, sizeof text), 'd'));
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_cells),
        cmocka_unit_test(a_table_without_rows_is_its_heads),
        cmocka_unit_test(long_cells_are_never_cut),
        cmocka_unit_test(members_become_cells),
        cmocka_unit_test(numbers_outside_tables_are_plain),
        cmocka_unit_test(counts_have_separators),
        cmocka_unit_test(seconds_have_a_fitting_unit),
        cmocka_unit_test(nodes_are_counted_when_there_are_more),
        cmocka_unit_test(times_that_are_none_are_a_dash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
