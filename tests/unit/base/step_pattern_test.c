/* step_pattern_test.c: what patterns find in lines, and which are refused with which words. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/prng.h"
#include "proto/base/step_pattern.h"

static struct step_pattern *compile(const char *text)
{
    struct step_pattern *pattern = NULL;
    struct err err = {0};
    const int r = step_pattern_compile(text, &pattern, &err);
    if (r != 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return pattern;
}

static void steps_are_found(void **state)
{
    (void)state;
    const uint64_t none = UINT64_MAX;
    const struct {
        const char *pattern;
        const char *line;
        uint64_t step;
    } cases[] = {
        {"iteration\\s+(\\d+)/",
         " [2026-01-01 00:00:00] iteration     1200/  100000 | consumed samples: 614400", 1200},
        {"iteration\\s+(\\d+)/", "validation loss at iteration 1200 | lm loss", none},
        {"step (\\d+)", "step 7 of 9", 7},
        {"step (\\d+)", "step x, step 8", 8},
        {"step (\\d+)", "Step 7", none},
        {"(?:step|iter)[ =:]+(\\d+)", "iter: 31", 31},
        {"(?:step|iter)[ =:]+(\\d+)", "step=32", 32},
        {"^(\\d+)\\s", "12 loss 1.0", 12},
        {"^(\\d+)\\s", " 12 loss 1.0", none},
        {"(\\d+)$", "done 99", 99},
        {"step ([\\d,]+)", "step 1,234,567 done", 1234567},
        {"step ([\\d,]+)", "step ,5", none},
        {"\\[(\\d{1,3})\\]", "[4711] [17]", 17},
        {"a\\.b\\*\\(\\/(\\d+)", "a.b*(/5", 5},
        {"x{2}(\\d+)y?", "xx6", 6},
        {"[^\\s]=(\\d+)", "a =1 b=2", 2},
        {"[]a](\\d+)", "]3", 3},
        {"[[:alpha:]]+(\\d+)", "abc4", 4},
        {"\\w+\\t(\\d+)", "loss_1\t5", 5},
        {"\\Dz(\\d+)\\S", "az1 az11x", 11},
        {"(\\d+)\\W", "a1b2 ", 2},
        {"\xc3\xa9tape (\\d+)", "\xc3\xa9tape 9", 9},
        {"step (.*)", "step five", none},
        {"step (\\d*)", "step ", none},
        {"step (\\d+)|none", "none", none},
        {"step (\\d+)", "step 9223372036854775807", INT64_MAX},
        {"step (\\d+)", "step 9223372036854775808", none},
        {"step (\\d+)", "step 99999999999999999999999999999999999999999999", none},
        {"step (\\d+)", "step 00000000000000000000000000000000000000000012", none},
        {"step (\\d+)", "step 0012", 12},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct step_pattern *pattern = compile(cases[i].pattern);
        uint64_t step = none;
        const int r = step_pattern_find(pattern, cases[i].line, &step);
        if (r != (cases[i].step != none) || step != cases[i].step) {
            fail_msg("%s in '%s': %d, %llu", cases[i].pattern, cases[i].line, r,
                     (unsigned long long)step);
        }
        assert_null(step_pattern_free(pattern));
    }
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    const struct {
        const char *pattern;
        const char *said;
    } cases[] = {
        {"step \\d+", "no group that holds the step"},
        {"(step|iter) (\\d+)", "write the other one (?:"},
        {"step (\\d+", "not closed"},
        {"step \\d+)", "closes nothing"},
        {"step [\\d", "a [ is not closed"},
        {"step (\\d)+", "goes into it"},
        {"(?:step (\\d+))*", "goes into it"},
        {"step (\\d+?)", "no lazy repeats"},
        {"step (\\d++)", "repeats of repeats"},
        {"*step (\\d+)", "write \\*"},
        {"(?:|+)(\\d+)", "write \\+"},
        {"(?=x)(\\d+)", "only (?:"},
        {"(?", "only (?:"},
        {"(\\d+) \\1", "no back references"},
        {"\\bstep (\\d+)", "\\b is not known"},
        {"step (\\d+)\\", "ends in a backslash"},
        {"step [\\.] (\\d+)", "in [ ] a backslash"},
        {"step [[=a=]](\\d+)", "only [:name:]"},
        {"step [[:nothing:]](\\d+)", "class"},
        {"step [\xc3\xa9](\\d+)", "of ASCII"},
        {"\xc3\xa9+ (\\d+)", "beyond ASCII"},
        {"step [z-a](\\d+)", "ange"},
        {"step {(\\d+)}", "write \\{"},
        {"x{3,2}(\\d+)", "write \\{"},
        {"x{,2}(\\d+)", "write \\{"},
        {"x{65}(\\d+)", "more than 64"},
        {"x{40}y{40}(\\d+)", "more than 64"},
        {"x{99999999999999999999}(\\d+)", "more than 64"},
        {"(?:a{30}){30}(\\d+)", "behind a group"},
        {"(?:(?:(?:(?:(?:a{60})+)+)+)+)+(\\d+)", "a + around another one doubles it"},
        {"step\n(\\d+)", "control character"},
        {"((((((((((((((((((\\d+))))))))))))))))))", "two groups"},
        {"(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(?:(\\d+)", "in each other"},
        {"", "no group"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct step_pattern *pattern = NULL;
        struct err err = {0};
        const int r = step_pattern_compile(cases[i].pattern, &pattern, &err);
        if (r != -EINVAL || strstr(err.text, cases[i].said) == NULL) {
            fail_msg("%s: %d, %s", cases[i].pattern, r, err.text);
        }
        assert_null(pattern);
    }
}

static void the_length_is_bounded(void **state)
{
    (void)state;
    char text[STEP_PATTERN_SIZE + 1];
    struct step_pattern *pattern = NULL;
    struct err err = {0};
    /* the longest translation: everything is \w */
    for (size_t i = 0; i < STEP_PATTERN_SIZE - 6; i++) {
        text[i] = i % 2 == 0 ? '\\' : 'w';
    }
    memcpy(text + STEP_PATTERN_SIZE - 6, "(\\d+)", 6);
    pattern = compile(text);
    pattern = step_pattern_free(pattern);
    memset(text, 'a', STEP_PATTERN_SIZE);
    text[STEP_PATTERN_SIZE] = '\0';
    assert_int_equal(step_pattern_compile(text, &pattern, &err), -EINVAL);
    assert_non_null(strstr(err.text, "at most 127 bytes"));
}

/* regcomp() would make 1.5 GB of 89 bytes. */
static void repeats_of_groups_are_bounded(void **state)
{
    (void)state;
    char text[STEP_PATTERN_SIZE] = "";
    struct step_pattern *pattern = NULL;
    struct err err = {0};
    for (size_t i = 0; i < 16; i++) {
        memcpy(text + 3 * i, "(?:", 3);
    }
    memcpy(text + 48, ".{60}", 5);
    for (size_t i = 0; i < 16; i++) {
        memcpy(text + 53 + 2 * i, ")+", 2);
    }
    memcpy(text + 85, "(\\d)", 4);
    assert_int_equal(step_pattern_compile(text, &pattern, &err), -EINVAL);
    assert_non_null(strstr(err.text, "more than 1024 characters"));
    for (size_t i = 0; i < 16; i++) { /* which it does not write out */
        text[54 + 2 * i] = '*';
    }
    assert_int_equal(step_pattern_compile(text, &pattern, &err), 0);
    assert_null(step_pattern_free(pattern));
    pattern = compile("(?:\\w+[ :=])+step[ :=]+(\\d+)"); /* as people write */
    assert_null(step_pattern_free(pattern));
}

/* Any text is either refused with words or a pattern that searches. */
static void any_text_is_survived(void **state)
{
    (void)state;
    static const char alphabet[] = "()[]{}|*+?.^$\\dswDSWt:=,-0123abc \xc3\xa9\n";
    struct prng prng;
    uint32_t good = 0;
    prng_seed(&prng, 5);
    for (unsigned round = 0; round < 20000; round++) {
        char text[48] = "";
        struct step_pattern *pattern = NULL;
        struct err err = {0};
        const size_t size = prng_below(&prng, sizeof text - 8);
        for (size_t i = 0; i < size; i++) {
            text[i] = alphabet[prng_below(&prng, sizeof alphabet - 1)];
        }
        memcpy(text + size, "(\\d+)", 6);
        if (step_pattern_compile(text, &pattern, &err) != 0) {
            assert_true(err.text[0] != '\0');
            continue;
        }
        uint64_t step = 0;
        good++;
        assert_int_not_equal(step_pattern_find(pattern, "abc 123 step 7: (0) dsw==", &step),
                             -EINVAL);
        assert_null(step_pattern_free(pattern));
    }
    assert_true(good > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_found),       cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(the_length_is_bounded), cmocka_unit_test(repeats_of_groups_are_bounded),
        cmocka_unit_test(any_text_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
