/* config_test.c: job files as people write them: right, wrong in ten ways at once, and hostile. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/config.h"
#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"

static const struct config_key keys[] = {
    {.path = "name", .type = CONFIG_NAME, .required = true, .doc = "the job's name"},
    {.path = "comment", .type = CONFIG_TEXT},
    {.path = "labels", .type = CONFIG_TEXT_MAP, .default_text = "", .min = 0, .max = 3},
    {.path = "run", .type = CONFIG_GROUP, .required = true, .doc = "what to run"},
    {.path = "run.command", .type = CONFIG_TEXT_LIST, .required = true, .min = 1, .max = 100},
    {.path = "run.umask", .type = CONFIG_TEXT, .default_text = "0022"},
    {.path = "run.log_max",
     .type = CONFIG_SIZE,
     .default_text = "1GiB",
     .min = 4096,
     .max = INT64_MAX},
    {.path = "run.ports", .type = CONFIG_INT_LIST, .default_text = "1,2"},
    {.path = "run.inherit_env", .type = CONFIG_TEXT_LIST, .default_text = "PATH,HOME"},
    {.path = "layout.tensor", .type = CONFIG_INT, .default_text = "1", .min = 1, .max = 64},
    {.path = "layout.data", .type = CONFIG_INT, .required = true, .min = 1, .max = 100000},
    {.path = "checkpoint", .type = CONFIG_GROUP},
    {.path = "checkpoint.interval",
     .type = CONFIG_AUTO_DURATION,
     .default_text = "auto",
     .min = 1000,
     .max = 86400000},
    {.path = "checkpoint.keep_last", .type = CONFIG_AUTO_INT, .default_text = "0", .max = 1000},
    {.path = "checkpoint.verify",
     .type = CONFIG_ENUM,
     .default_text = "checksum",
     .words = "none|manifest|checksum"},
    {.path = "recovery.slack",
     .type = CONFIG_RATIO,
     .default_text = "1.10",
     .min = 1000000,
     .max = 10000000},
    {.path = "recovery.enabled", .type = CONFIG_BOOL, .default_text = "true"},
    {.path = "recovery.budget.window", .type = CONFIG_DURATION, .default_text = "1d"},
    {.path = "recovery.budget.rank",
     .type = CONFIG_INT,
     .default_text = "-3",
     .min = -10,
     .max = 10},
};

static const char smallest[] = "name: llama-405b\n"
                               "run: {command: [python, -u, train.py]}\n"
                               "layout: {data: 128}\n";

static json_t *parse(const char *text)
{
    struct config_report report;
    json_t *tree = NULL;
    int result = config_parse_yaml(text, strlen(text), keys, ARRAY_SIZE(keys), &tree, &report);
    if (result != 0) {
        print_message("line %d: %s: %s\n", report.problems[0].line, report.problems[0].path,
                      report.problems[0].text);
    }
    assert_int_equal(result, 0);
    assert_int_equal(report.total, 0);
    return tree;
}

/* Parses a faulty document; the report is the caller's to look at. */
static void parse_faulty(const char *text, struct config_report *report)
{
    json_t *tree = NULL;
    assert_int_equal(config_parse_yaml(text, strlen(text), keys, ARRAY_SIZE(keys), &tree, report),
                     -EINVAL);
    assert_null(tree);
    assert_true(report->count > 0);
    assert_int_equal(report->total, report->count);
}

static void expect_problem(const struct config_report *report, size_t index, int line, int column,
                           const char *path, const char *text)
{
    assert_true(index < report->count);
    const struct config_problem *problem = &report->problems[index];
    assert_string_equal(problem->path, path);
    assert_int_equal(problem->line, line);
    assert_int_equal(problem->column, column);
    if (strstr(problem->text, text) == NULL) {
        print_message("'%s' is not in '%s'\n", text, problem->text);
    }
    assert_non_null(strstr(problem->text, text));
}

/* The same, wherever it stands among others. */
static void expect_somewhere(const struct config_report *report, int line, int column,
                             const char *path, const char *text)
{
    for (size_t index = 0; index < report->count; index++) {
        const struct config_problem *problem = &report->problems[index];
        if (problem->line == line && problem->column == column &&
            strcmp(problem->path, path) == 0 && strstr(problem->text, text) != NULL) {
            return;
        }
    }
    for (size_t index = 0; index < report->count; index++) {
        print_message("%d:%d %s: %s\n", report->problems[index].line,
                      report->problems[index].column, report->problems[index].path,
                      report->problems[index].text);
    }
    fail_msg("no problem %d:%d %s: %s", line, column, path, text);
}

static void the_smallest_file_gets_every_default(void **state)
{
    (void)state;
    json_t *tree = parse(smallest);
    assert_string_equal(config_text(tree, "name"), "llama-405b");
    assert_string_equal(config_text(tree, "comment"), ""); /* absent, no default */
    assert_null(config_get(tree, "comment"));
    assert_int_equal(json_array_size(config_get(tree, "run.command")), 3);
    assert_string_equal(json_string_value(json_array_get(config_get(tree, "run.command"), 1)),
                        "-u");
    assert_string_equal(config_text(tree, "run.umask"), "0022");
    assert_int_equal(config_int(tree, "run.log_max"), 1 << 30);
    assert_int_equal(json_array_size(config_get(tree, "run.ports")), 2);
    assert_int_equal(json_array_size(config_get(tree, "run.inherit_env")), 2);
    assert_int_equal(json_object_size(config_get(tree, "labels")), 0);
    assert_int_equal(config_int(tree, "layout.tensor"), 1);
    assert_int_equal(config_int(tree, "layout.data"), 128);
    assert_string_equal(config_text(tree, "checkpoint.interval"), "auto");
    assert_int_equal(config_int(tree, "checkpoint.keep_last"), 0);
    assert_string_equal(config_text(tree, "checkpoint.verify"), "checksum");
    assert_int_equal(config_int(tree, "recovery.slack"), 1100000);
    assert_true(config_bool(tree, "recovery.enabled"));
    assert_int_equal(config_int(tree, "recovery.budget.window"), 86400000);
    assert_int_equal(config_int(tree, "recovery.budget.rank"), -3);
    json_decref(tree);
}

static void types_come_from_the_table(void **state)
{
    (void)state;
    json_t *tree = parse("name: no\n"
                         "comment: 1e3\n"
                         "labels: {team: null, on: yes, zip: 0755}\n"
                         "run:\n"
                         "  command: [1, 0x10, true, ~, \"\", 'it''s']\n"
                         "  umask: 0027\n"
                         "  log_max: 64KiB\n"
                         "  ports: [8080, -1]\n"
                         "layout:\n"
                         "  data: \"16\"\n"
                         "checkpoint: {interval: 10m, keep_last: 5, verify: none}\n"
                         "recovery: {slack: 2, enabled: No, budget: {window: 1h30m, rank: -10}}\n");
    assert_string_equal(config_text(tree, "name"), "no");
    assert_string_equal(config_text(tree, "comment"), "1e3");
    assert_string_equal(config_text(tree, "labels.team"), "null");
    assert_string_equal(config_text(tree, "labels.on"), "yes");
    assert_string_equal(config_text(tree, "labels.zip"), "0755");
    assert_string_equal(config_text(tree, "run.umask"), "0027");
    const json_t *command = config_get(tree, "run.command");
    assert_string_equal(json_string_value(json_array_get(command, 0)), "1");
    assert_string_equal(json_string_value(json_array_get(command, 3)), "~");
    assert_string_equal(json_string_value(json_array_get(command, 4)), "");
    assert_string_equal(json_string_value(json_array_get(command, 5)), "it's");
    assert_int_equal(config_int(tree, "run.log_max"), 65536);
    assert_int_equal(json_integer_value(json_array_get(config_get(tree, "run.ports"), 1)), -1);
    assert_int_equal(config_int(tree, "layout.data"), 16);
    assert_int_equal(config_int(tree, "checkpoint.interval"), 600000);
    assert_int_equal(config_int(tree, "checkpoint.keep_last"), 5);
    assert_int_equal(config_int(tree, "recovery.slack"), 2000000);
    assert_false(config_bool(tree, "recovery.enabled"));
    assert_int_equal(config_int(tree, "recovery.budget.window"), 5400000);
    json_decref(tree);
}

static void ten_faults_are_ten_problems(void **state)
{
    (void)state;
    struct config_report report;
    parse_faulty("name: -llama\n"                     /* 1: not a name */
                 "nmae: llama\n"                      /* 2: unknown, near name */
                 "run:\n"                             /*    */
                 "  command: python train.py\n"       /* 3: no list */
                 "  log_max: 12\n"                    /* 4: too small */
                 "  command: [a]\n"                   /* 5: twice */
                 "layout: {tensor: eight, data: 0}\n" /* 6: no number, 7: too small */
                 "checkpoint:\n"                      /*    */
                 "  interval: 10\n"                   /* 8: no unit */
                 "  verify: checksums\n"              /* 9: not one of the words */
                 "recovery:\n"                        /*    */
                 "  slack: 1.2345678\n",              /* 10: too many places */
                 &report);
    assert_int_equal(report.total, 10);
    expect_problem(&report, 0, 1, 7, "name", "expects a name");
    expect_problem(&report, 1, 2, 1, "nmae", "did you mean name?");
    assert_string_equal(report.problems[1].hint, "name");
    expect_problem(&report, 2, 4, 12, "run.command", "expects a list");
    expect_problem(&report, 3, 5, 12, "run.log_max", "at least 4096 bytes");
    expect_problem(&report, 4, 6, 3, "run.command", "twice: the first is in line 4");
    expect_problem(&report, 5, 7, 18, "layout.tensor", "whole number, not 'eight'");
    expect_problem(&report, 6, 7, 31, "layout.data", "from 1 to 100000");
    expect_problem(&report, 7, 9, 13, "checkpoint.interval", "not a duration");
    expect_problem(&report, 8, 10, 11, "checkpoint.verify", "none|manifest|checksum");
    assert_string_equal(report.problems[8].hint, "checksum");
    expect_problem(&report, 9, 12, 10, "recovery.slack", "at most 6 places");
}

static void what_yaml_offers_and_we_refuse(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int line, column;
        const char *path, *says;
    } cases[] = {
        {"name: &a llama\n", 1, 7, "name", "anchors"},
        {"name: *a\n", 1, 7, "name", "aliases"},
        {"name: !!str llama\n", 1, 7, "name", "tags"},
        {"run: &r {command: [a]}\n", 1, 6, "run", "anchors"},
        {"run: !x {command: [a]}\n", 1, 6, "run", "tags"},
        {"run:\n  <<: {command: [a]}\n", 2, 3, "run", "merge keys"},
        {"? [a]\n: b\n", 1, 3, "", "a key must be a plain word"},
        {"? {a: b}\n: {c: d}\n", 1, 3, "", "a key must be a plain word"},
        {"name: a\n---\nname: b\n", 2, 1, "", "a second document"},
        {"- a\n- b\n", 1, 1, "", "must be a map"},
        {"just text\n", 1, 1, "", "must be a map"},
        {"name: \"a\\0b\"\n", 1, 7, "", "control characters"},
        {"name: \"\\e[31m\"\n", 1, 7, "", "control characters"},
        {"\"\\e\": 1\n", 1, 1, "", "control characters"},
        {"name: [a\n", 2, 1, "", "not YAML"},
        {"name: a\n\tb: c\n", 2, 1, "", "not YAML"},
        {"name: a\nx: \xff\xfe\n", 2, 1, "", "not readable as UTF-8"},
        {"name: a: b\n", 1, 8, "", "not YAML"},
        {"%YAML 3.0\n---\nname: a\n", 1, 1, "", "not YAML"},
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        struct config_report report;
        parse_faulty(cases[index].text, &report);
        expect_somewhere(&report, cases[index].line, cases[index].column, cases[index].path,
                         cases[index].says);
    }
}

static void missing_keys(void **state)
{
    (void)state;
    struct config_report report;
    parse_faulty("", &report);
    assert_int_equal(report.total, 3);
    expect_problem(&report, 0, 1, 1, "name", "is missing: the job's name");
    expect_problem(&report, 1, 1, 1, "run", "is missing: what to run"); /* and not its children */
    expect_problem(&report, 2, 1, 1, "layout.data", "is missing");
    parse_faulty("# nothing\nname: a\nlayout:\n  tensor: 2\nrun:\n", &report);
    assert_int_equal(report.total, 2);
    expect_problem(&report, 0, 3, 1, "layout.data", "is missing");
    expect_problem(&report, 1, 5, 1, "run.command", "is missing");
}

static void values_of_the_wrong_shape(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int line, column;
        const char *path, *says;
    } cases[] = {
        {"name: [a]\n", 4, 7, "name", "not a list"},
        {"comment: {a: b}\nname: a\n", 4, 10, "comment", "not a map"},
        {"comment:\nname: a\n", 4, 9, "comment", "has no value: write \"\""},
        {"labels: [a]\nname: a\n", 4, 9, "labels", "expects a map"},
        {"labels: {a: [b]}\nname: a\n", 4, 13, "labels.a", "not a list"},
        {"labels: {a: 1, b: 2, c: 3, d: 4}\nname: a\n", 4, 9, "labels", "number of entries"},
        {"name: a\ncheckpoint: 5\n", 5, 13, "checkpoint", "expects keys of its own"},
        {"name: a\ncheckpoint: [5]\n", 5, 13, "checkpoint", "not a list"},
        {"name: a\nrecovery: {budget: {rank: 11}}\n", 5, 27, "recovery.budget.rank",
         "from -10 to 10"},
        {"name: a\nrecovery: {budget: {rank: 007}}\n", 5, 27, "recovery.budget.rank",
         "without leading zeros"},
        {"name: a\nrecovery: {budget: {rnak: 7}}\n", 5, 21, "recovery.budget.rnak",
         "did you mean rank?"},
        {"name: a\ninterval: 10m\n", 5, 1, "interval", "did you mean checkpoint.interval?"},
        {"name: a\nqqqqqqqq: 10m\n", 5, 1, "qqqqqqqq", "no such key"},
        {"name: a\n\"run.umask\": 22\n", 5, 1, "run.umask", "no such key"},
        {"name: a\ncheckpoint: {interval: 1ms}\n", 5, 24, "checkpoint.interval", "from 1s to 1d"},
        {"name: a\nrecovery: {enabled: maybe}\n", 5, 21, "recovery.enabled", "true or false"},
        {"name: a\nrecovery: {slack: 0.5}\n", 5, 19, "recovery.slack",
         "from 1.000000 to 10.000000"},
        {"name: a\nrecovery: {slack: 1e1}\n", 5, 19, "recovery.slack", "decimal number"},
        {"name: a\nrecovery: {slack: 99999999999999999999}\n", 5, 19, "recovery.slack",
         "decimal number"},
        {"name: a\ncheckpoint: {keep_last: autos}\n", 5, 25, "checkpoint.keep_last",
         "whole number"},
        {"name: a\ncheckpoint: {keep_last: 99999999999999999999}\n", 5, 25, "checkpoint.keep_last",
         "too large"},
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        struct config_report report;
        char text[512];
        assert_true(text_format(text, sizeof(text), "run: {command: [x]}\nlayout:\n  data: 8\n%s",
                                cases[index].text));
        parse_faulty(text, &report);
        assert_int_equal(report.total, 1);
        expect_problem(&report, 0, cases[index].line, cases[index].column, cases[index].path,
                       cases[index].says);
    }
}

static void every_faulty_element_is_told(void **state)
{
    (void)state;
    struct config_report report;
    parse_faulty("name: a\nlayout: {data: 1}\nrun:\n  command: []\n"
                 "  ports: [1, x, 3, [4], 5y]\n",
                 &report);
    assert_int_equal(report.total, 4);
    expect_problem(&report, 0, 4, 12, "run.command", "number of elements: from 1 to 100");
    expect_problem(&report, 1, 5, 14, "run.ports[1]", "not 'x'");
    expect_problem(&report, 2, 5, 20, "run.ports[3]", "not a list");
    expect_problem(&report, 3, 5, 25, "run.ports[4]", "not '5y'");
}

static void more_problems_than_are_kept(void **state)
{
    (void)state;
    struct config_report report;
    char text[8192] = "";
    size_t used = 0;
    for (unsigned number = 0; number < 200; number++) {
        assert_true(text_format(text + used, sizeof(text) - used, "unknown%u: 1\n", number));
        used += strlen(text + used);
    }
    json_t *tree = NULL;
    assert_int_equal(config_parse_yaml(text, used, keys, ARRAY_SIZE(keys), &tree, &report),
                     -EINVAL);
    assert_int_equal(report.count, CONFIG_PROBLEMS_MAX);
    assert_int_equal(report.total, 203);
    expect_problem(&report, 0, 1, 1, "unknown0", "no such key");
    expect_problem(&report, 63, 64, 1, "unknown63", "no such key");
}

static void limits_of_the_document(void **state)
{
    (void)state;
    struct config_report report;
    json_t *tree = NULL;
    CLEANUP_FREE char *text = mem_alloc(CONFIG_SIZE_MAX + 2, 1);
    memset(text, '#', CONFIG_SIZE_MAX + 1);
    assert_int_equal(
        config_parse_yaml(text, CONFIG_SIZE_MAX + 1, keys, ARRAY_SIZE(keys), &tree, &report),
        -E2BIG);
    expect_problem(&report, 0, 1, 1, "", "1048577 bytes");
    memset(text, '[', 100000);
    assert_int_equal(config_parse_yaml(text, 100000, keys, ARRAY_SIZE(keys), &tree, &report),
                     -EINVAL);
    expect_problem(&report, 0, 1, 17, "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]",
                   "nested too deeply");
    size_t used = 0;
    for (unsigned number = 0; number < 1100; number++) {
        used += (size_t)snprintf(text + used, 32, "k%u: 1\n", number);
    }
    assert_int_equal(config_parse_yaml(text, used, keys, ARRAY_SIZE(keys), &tree, &report),
                     -EINVAL);
    expect_problem(&report, 0, 1025, 1, "", "more than 1024 entries");
    memset(text, ',', 400000);
    for (size_t index = 0; index < 400000; index += 2) {
        text[index] = 'a';
    }
    memcpy(text, "a: [", 4);
    assert_int_equal(config_parse_yaml(text, 400000, keys, ARRAY_SIZE(keys), &tree, &report),
                     -EINVAL);
    expect_problem(&report, 0, 1, 131073, "", "more than 65536 values");
    assert_null(tree);
}

static void lines_are_known_until_dropped(void **state)
{
    (void)state;
    json_t *tree = parse("# a comment\nname: a\nlayout:\n  tensor: 2\n  data: 4\n"
                         "run:\n  command:\n    - x\n");
    assert_int_equal(config_line(tree, "name"), 2);
    assert_int_equal(config_line(tree, "layout.tensor"), 4);
    assert_int_equal(config_line(tree, "run.command"), 7);
    assert_int_equal(config_line(tree, "run.umask"), 0);
    assert_int_equal(config_column(tree, "layout.tensor"), 3);
    assert_int_equal(config_column(tree, "run.umask"), 0);
    assert_non_null(json_object_get(tree, CONFIG_LINES_KEY));
    config_lines_drop(tree);
    assert_null(json_object_get(tree, CONFIG_LINES_KEY));
    assert_int_equal(config_line(tree, "name"), 0);
    config_lines_drop(tree);
    json_decref(tree);
}

static void a_reader_gives_the_tree_with_its_faults(void **state)
{
    (void)state;
    static const char text[] = "name: 7 7\nlayout:\n  tensor: many\n  data: 4\nnonsense: 1\n";
    struct config_report report;
    json_t *tree = NULL;
    int result = config_read_yaml(text, sizeof(text) - 1, keys, ARRAY_SIZE(keys), &tree, &report);
    assert_int_equal(result, -EINVAL);
    assert_non_null(tree);
    assert_null(config_get(tree, "name")); /* it has no default */
    assert_int_equal(config_int(tree, "layout.tensor"), 1);
    assert_int_equal(config_int(tree, "layout.data"), 4);
    assert_int_equal(config_line(tree, "layout.tensor"), 3);
    assert_true(config_has_problem(&report, "layout.tensor"));
    assert_true(config_has_problem(&report, "layout"));
    assert_false(config_has_problem(&report, "layout.data"));
    assert_false(config_has_problem(&report, "lay"));
    json_decref(tree);
    /* What is no map of keys gives nothing to go on with. */
    assert_int_equal(config_read_yaml("- a\n", 4, keys, ARRAY_SIZE(keys), &tree, &report), -EINVAL);
    assert_null(tree);
    assert_int_equal(config_read_yaml("a: [\n", 5, keys, ARRAY_SIZE(keys), &tree, &report),
                     -EINVAL);
    assert_null(tree);
}

static void a_problem_may_be_added_later(void **state)
{
    (void)state;
    struct config_report report = {.count = 0};
    config_problem_add(&report, 9, 1, "layout", "", "%d x %d is not %d", 2, 3, 7);
    config_problem_add(&report, 3, 5, "run\x1b[m", "hint", "\xff evil");
    assert_int_equal(report.count, 2);
    expect_problem(&report, 0, 3, 5, "run?[m", "? evil");
    expect_problem(&report, 1, 9, 1, "layout", "2 x 3 is not 7");
}

static void json_reads_as_yaml_does(void **state)
{
    (void)state;
    struct config_report report;
    json_t *from_json = NULL;
    json_t *again = NULL;
    json_t *from_yaml = parse("name: a\ncomment: hello\nlabels: {x: '1'}\n"
                              "run: {command: [x], log_max: 1MiB, ports: [7]}\n"
                              "layout: {data: 4}\ncheckpoint: {interval: 90s, keep_last: 2}\n"
                              "recovery: {slack: 1.25, enabled: false}\n");
    config_lines_drop(from_yaml);
    json_t *body = json_loads("{\"name\":\"a\",\"comment\":\"hello\",\"labels\":{\"x\":\"1\"},"
                              "\"run\":{\"command\":[\"x\"],\"log_max\":\"1MiB\",\"ports\":[7]},"
                              "\"layout\":{\"data\":4},"
                              "\"checkpoint\":{\"interval\":\"90s\",\"keep_last\":2},"
                              "\"recovery\":{\"slack\":1.25,\"enabled\":false}}",
                              0, NULL);
    assert_non_null(body);
    assert_int_equal(config_parse_json(body, keys, ARRAY_SIZE(keys), &from_json, &report), 0);
    assert_true(json_equal(from_yaml, from_json));
    /* What was stored reads back as itself: milliseconds, bytes, parts per million. */
    assert_int_equal(config_parse_json(from_json, keys, ARRAY_SIZE(keys), &again, &report), 0);
    assert_true(json_equal(from_json, again));
    json_decref(body);
    json_decref(from_yaml);
    json_decref(from_json);
    json_decref(again);
}

static void json_types_are_strict(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const char *path, *says;
    } cases[] = {
        {"\"comment\":5", "comment", "expects a text"},
        {"\"comment\":null", "comment", "has no value"},
        {"\"layout\":{\"data\":\"4\"}", "layout.data", "whole number"},
        {"\"layout\":{\"data\":4.0}", "layout.data", "whole number"},
        {"\"layout\":{\"data\":true}", "layout.data", "whole number"},
        {"\"layout\":{\"data\":[]}", "layout.data", "not a list"},
        {"\"layout\":7", "layout", "expects keys of its own"},
        {"\"recovery\":{\"enabled\":\"true\"}", "recovery.enabled", "true or false"},
        {"\"recovery\":{\"enabled\":1}", "recovery.enabled", "true or false"},
        {"\"recovery\":{\"slack\":1e300}", "recovery.slack", "too large"},
        {"\"recovery\":{\"slack\":true}", "recovery.slack", "decimal number"},
        {"\"checkpoint\":{\"interval\":-5}", "checkpoint.interval", "expects a duration"},
        {"\"checkpoint\":{\"verify\":1}", "checkpoint.verify", "expects one of"},
        {"\"run\":{\"command\":[\"x\"],\"log_max\":1.5}", "run.log_max", "expects a size"},
        {"\"run\":{\"command\":[\"x\",2]}", "run.command[1]", "expects a text"},
        {"\"$lines\":{}", "$lines", "no such key"},
        {"\"comment\":\"\\u001b[2J\"", "", "control characters"},
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        struct config_report report;
        json_t *tree = NULL;
        char text[512];
        bool has_run = strstr(cases[index].text, "\"run\"") != NULL;
        bool has_layout = strstr(cases[index].text, "\"layout\"") != NULL;
        assert_true(text_format(text, sizeof(text), "{\"name\":\"a\",%s%s%s}",
                                has_run ? "" : "\"run\":{\"command\":[\"x\"]},",
                                has_layout ? "" : "\"layout\":{\"data\":4},", cases[index].text));
        json_t *body = json_loads(text, 0, NULL);
        assert_non_null(body);
        assert_int_equal(config_parse_json(body, keys, ARRAY_SIZE(keys), &tree, &report), -EINVAL);
        if (strcmp(cases[index].path, "layout") != 0) { /* that one also misses layout.data */
            assert_int_equal(report.total, 1);
        }
        expect_problem(&report, 0, 0, 0, cases[index].path, cases[index].says);
        json_decref(body);
    }
}

static void json_of_the_wrong_shape(void **state)
{
    (void)state;
    struct config_report report;
    json_t *tree = NULL;
    const char *const texts[] = {"[]", "5", "\"a\"", "null"};
    for (size_t index = 0; index < ARRAY_SIZE(texts); index++) {
        json_t *body = json_loads(texts[index], JSON_DECODE_ANY, NULL);
        assert_int_equal(config_parse_json(body, keys, ARRAY_SIZE(keys), &tree, &report), -EINVAL);
        expect_problem(&report, 0, 0, 0, "", "must be a map");
        json_decref(body);
    }
    char deep[128] = "";
    memset(deep, '[', 40);
    memset(deep + 40, ']', 40);
    json_t *body = json_loads(deep, 0, NULL);
    assert_non_null(body);
    assert_int_equal(config_parse_json(body, keys, ARRAY_SIZE(keys), &tree, &report), -EINVAL);
    expect_problem(&report, 0, 0, 0, "", "nested too deeply");
    json_decref(body);
}

/* Good documents with bytes changed, and bytes from YAML's own alphabet: the reader must come back
 * with a tree or with problems, and never with both or neither. */
static void random_bytes(void **state)
{
    (void)state;
    static const char alphabet[] = "abn:: -[]{},\n\n  &*!|>'\"#%@?~0<\t\\x-";
    struct prng prng;
    prng_seed(&prng, 17);
    unsigned good = 0;
    for (unsigned round = 0; round < 20000; round++) {
        char text[256];
        size_t size = sizeof(smallest) - 1;
        memcpy(text, smallest, size);
        if (round % 2 == 0) {
            for (uint64_t change = prng_below(&prng, 4); change > 0; change--) {
                text[prng_below(&prng, size)] = (char)prng_next(&prng);
            }
        } else {
            size = prng_below(&prng, sizeof(text));
            for (size_t index = 0; index < size; index++) {
                text[index] = alphabet[prng_below(&prng, sizeof(alphabet) - 1)];
            }
        }
        struct config_report report;
        json_t *tree = NULL;
        int result = config_parse_yaml(text, size, keys, ARRAY_SIZE(keys), &tree, &report);
        assert_int_equal(result == 0, tree != NULL);
        assert_int_equal(result == 0, report.total == 0);
        assert_true(result == 0 || result == -EINVAL);
        for (size_t index = 0; index < report.count; index++) {
            const struct config_problem *problem = &report.problems[index];
            assert_true(text_is_utf8(problem->text, strlen(problem->text)));
            assert_true(text_is_utf8(problem->path, strlen(problem->path)));
            assert_true(problem->text[0] != '\0');
        }
        good += result == 0;
        json_decref(tree);
    }
    assert_in_range(good, 1000, 19000); /* both outcomes were seen */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_file_gets_every_default),
        cmocka_unit_test(types_come_from_the_table),
        cmocka_unit_test(ten_faults_are_ten_problems),
        cmocka_unit_test(what_yaml_offers_and_we_refuse),
        cmocka_unit_test(missing_keys),
        cmocka_unit_test(values_of_the_wrong_shape),
        cmocka_unit_test(every_faulty_element_is_told),
        cmocka_unit_test(more_problems_than_are_kept),
        cmocka_unit_test(limits_of_the_document),
        cmocka_unit_test(lines_are_known_until_dropped),
        cmocka_unit_test(a_reader_gives_the_tree_with_its_faults),
        cmocka_unit_test(a_problem_may_be_added_later),
        cmocka_unit_test(json_reads_as_yaml_does),
        cmocka_unit_test(json_types_are_strict),
        cmocka_unit_test(json_of_the_wrong_shape),
        cmocka_unit_test(random_bytes),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
