/* finding_test.c: the lines between a probe's process and the agent, and what is no such line. */
#include <errno.h>
#include <string.h>

#include "agent/core/finding.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

static const char good[] =
    "state\tmlx5_3/1\twarn\tnetwork\tdegrade_watch\tsymptom\tib-port-down\tmlx5_3:1\tprobe\t-1\t3\t"
    "-7\t1\tmlx5_3/1 state=1:DOWN";

static int parse(const char *line, struct finding_line *ret_line)
{
    return finding_line_parse(line, strlen(line), ret_line);
}

static void test_there_and_back(void **state)
{
    struct finding_line line;
    struct finding_line again;
    char text[FINDING_LINE_MAX + 1];
    (void)state;
    assert_int_equal(parse(good, &line), 0);
    assert_int_equal(line.kind, LINE_STATE);
    assert_int_equal(line.finding.verdict, VERDICT_WARN);
    assert_int_equal(line.finding.label, LABEL_NETWORK);
    assert_int_equal(line.finding.advice, ADVICE_WATCH);
    assert_int_equal(line.finding.role, ROLE_SYMPTOM);
    assert_int_equal(line.finding.gpu, -1);
    assert_int_equal(line.finding.port, 3);
    assert_int_equal(line.finding.code, -7);
    assert_int_equal(line.finding.severity, 1);
    assert_string_equal(line.finding.subject, "mlx5_3:1");
    assert_true(finding_line_format(LINE_STATE, &line.finding, text, sizeof(text)));
    assert_string_equal(text, good);
    line.finding.source = FACT_LOG;
    assert_true(finding_line_format(LINE_EVENT, &line.finding, text, sizeof(text)));
    assert_int_equal(parse(text, &again), 0);
    assert_int_equal(again.kind, LINE_EVENT);
    assert_memory_equal(&again.finding, &line.finding, sizeof(line.finding));
}

/* Whatever a driver, a file or a site's program puts into a text, the line stays one line with its
 * fields, and the longest of all fits. */
static void test_dirty_texts_stay_in_their_fields(void **state)
{
    struct finding finding;
    struct finding_line line;
    char text[FINDING_LINE_MAX + 1];
    (void)state;
    memset(&finding, 0, sizeof(finding));
    memset(finding.key, '\t', sizeof(finding.key) - 1);
    memset(finding.subject, '\n', sizeof(finding.subject) - 1);
    memset(finding.text, '\xff', sizeof(finding.text) - 1);
    memset(finding.signal, 'x', sizeof(finding.signal) - 1);
    finding.source = FACT_PROBE;
    finding.code = INT32_MIN;
    assert_true(finding_line_format(LINE_STATE, &finding, text, sizeof(text)));
    assert_null(strchr(text, '\n'));
    assert_int_equal(parse(text, &line), 0);
    assert_int_equal(line.finding.code, INT32_MIN);
}

static void test_other_lines(void **state)
{
    struct finding_line line;
    (void)state;
    assert_int_equal(parse("begin", &line), 0);
    assert_int_equal(line.kind, LINE_BEGIN);
    assert_int_equal(parse("note\tcursor\tx 5", &line), 0);
    assert_string_equal(line.value, "x 5");
    assert_int_equal(parse("gpu\t15\tGPU-a\t0000:3b:00", &line), 0);
    assert_int_equal(line.index, 15);
    assert_int_equal(parse("end\t", &line), 0);
    assert_int_equal(line.kind, LINE_END);
}

/* What a line does not say is empty. */
static void test_the_rest_is_empty(void **state)
{
    struct finding_line line;
    (void)state;
    memset(&line, 'x', sizeof(line));
    assert_int_equal(parse("begin", &line), 0);
    assert_string_equal(line.name, "");
    assert_string_equal(line.value, "");
    assert_string_equal(line.text, "");
    assert_int_equal(line.index, 0);
    assert_string_equal(line.finding.key, "");
    assert_string_equal(line.finding.signal, "");
}

/* `good` with one field replaced. */
static int parse_with(uint32_t field, const char *value)
{
    char text[FINDING_LINE_MAX + 1];
    struct finding_line line;
    const char *at = good;
    for (uint32_t i = 0; i < field; i++) {
        at = strchr(at, '\t') + 1;
    }
    const char *end = at + strcspn(at, "\t");
    assert_true(text_format(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, value, end));
    return parse(text, &line);
}

static void test_what_is_refused(void **state)
{
    static const char *const lines[] = {"",
                                        "begin\t",
                                        "begin ",
                                        "state",
                                        "state\tk",
                                        "note\ta",
                                        "note\ta\tb\tc",
                                        "gpu\t16\ta\tb",
                                        "gpu\t-1\ta\tb",
                                        "gpu\t1\ta",
                                        "end",
                                        "end\ta\tb",
                                        "unknown\t",
                                        "note\ta\tb\x01c",
                                        "note\ta\t\xff\xfe",
                                        "end\tline\nline"};
    static const struct {
        uint32_t field;
        const char *value;
    } fields[] = {{1, ""},
                  {2, "bad"},
                  {2, ""},
                  {3, "hardware"},
                  {4, "evict"},
                  {5, "x"},
                  {6, "a b"},
                  {8, "rank"},
                  {9, "16"},
                  {9, "-2"},
                  {10, "16"},
                  {10, "x"},
                  {11, "2147483648"},
                  {12, "4"},
                  {12, "-1"},
                  {12, ""},
                  {13, "\x1b"}};
    struct finding_line line;
    (void)state;
    memset(&line, 0x5a, sizeof(line));
    const struct finding_line before = line;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(parse(lines[i], &line), -EINVAL);
    }
    assert_memory_equal(&line, &before, sizeof(line));
    assert_int_equal(parse_with(13, "another text"), 0);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        assert_int_equal(parse_with(fields[i].field, fields[i].value), -EINVAL);
    }
    char longest[FINDING_LINE_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(finding_line_parse(longest, sizeof(longest), &line), -EINVAL);
}

/* Any bytes: no crash, and what is taken can be said again. */
static void test_random_lines(void **state)
{
    struct prng prng;
    (void)state;
    prng_seed(&prng, 7);
    for (uint32_t i = 0; i < 200000; i++) {
        char text[FINDING_LINE_MAX + 1];
        char bytes[sizeof(good)];
        struct finding_line line;
        memcpy(bytes, good, sizeof(good));
        const uint64_t changes = prng_between(&prng, 1, 4);
        for (uint64_t k = 0; k < changes; k++) {
            bytes[prng_between(&prng, 0, sizeof(good) - 2)] =
                (char)prng_between(&prng, 0, k % 2 == 0 ? 255 : '9');
        }
        const size_t size = prng_between(&prng, 0, sizeof(good) - 1);
        if (finding_line_parse(bytes, size, &line) == 0 && line.kind == LINE_STATE) {
            assert_true(finding_line_format(LINE_STATE, &line.finding, text, sizeof(text)));
            assert_int_equal(parse(text, &line), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_dirty_texts_stay_in_their_fields),
        cmocka_unit_test(test_other_lines),
        cmocka_unit_test(test_the_rest_is_empty),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_random_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
