/* signal_test.c: every word has its number, and an advice its weight. */
#include <string.h>

#include "proto/base/signal.h"
#include "tests/lib/test.h"

static void test_words_and_numbers_agree(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < signal_label_count; i++) {
        const char *word = signal_label_word(i);
        assert_int_equal(signal_label_of(word, strlen(word)), i);
    }
    for (uint32_t i = 0; i < signal_advice_count; i++) {
        const char *word = signal_advice_word(i);
        assert_int_equal(signal_advice_of(word, strlen(word)), i);
    }
    for (uint32_t i = 0; i < signal_role_count; i++) {
        const char *word = signal_role_word(i);
        assert_int_equal(signal_role_of(word, strlen(word)), i);
    }
}

static void test_other_words_are_none(void **state)
{
    (void)state;
    assert_int_equal(signal_label_of("hardware", 8), -1);
    assert_int_equal(signal_label_of("", 0), -1);
    assert_int_equal(signal_advice_of("evict_node_rma", 10), ADVICE_EVICT);
    assert_int_equal(signal_advice_of("evict_node_rm", 13), -1);
    assert_int_equal(signal_role_of("Root", 4), -1);
    assert_string_equal(signal_label_word(signal_label_count), "?");
    assert_string_equal(signal_advice_word(UINT32_MAX), "?");
    assert_string_equal(signal_role_word(signal_role_count), "?");
}

/* What a program of the job, or of anybody, may bring about by a line: nothing but evidence. */
static void test_no_line_of_a_program_ends_an_attempt(void **state)
{
    (void)state;
    static const uint8_t others[] = {LABEL_USER,     LABEL_NETWORK,  LABEL_STORAGE,
                                     LABEL_FACILITY, LABEL_OPERATOR, LABEL_TRANSIENT};
    for (uint32_t advice = 0; advice < signal_advice_count; advice++) {
        for (size_t i = 0; i < sizeof(others); i++) {
            assert_true(signal_severity(others[i], advice, ROLE_ROOT) < 2);
        }
        for (uint32_t label = 0; label < signal_label_count; label++) {
            assert_int_equal(signal_severity(label, advice, ROLE_NOISE), 0);
            assert_int_equal(signal_severity(label, advice, ROLE_CASCADE), 0);
            assert_true(signal_severity(label, advice, ROLE_SYMPTOM) < 2);
        }
    }
}

static void test_a_broken_node_is_stopped(void **state)
{
    (void)state;
    assert_int_equal(signal_severity(LABEL_HARDWARE, ADVICE_EVICT, ROLE_ROOT), 3);
    assert_int_equal(signal_severity(LABEL_HARDWARE, ADVICE_EVICT_RESET, ROLE_ROOT), 3);
    assert_int_equal(signal_severity(LABEL_HARDWARE, ADVICE_EVICT_RMA, ROLE_ROOT), 3);
    assert_int_equal(signal_severity(LABEL_SOFTWARE, ADVICE_EVICT_RESET, ROLE_ROOT), 3);
    /* a service that ran out of memory, a link narrower than it might be, a corrected error */
    assert_int_equal(signal_severity(LABEL_SOFTWARE, ADVICE_EVICT, ROLE_ROOT), 1);
    assert_int_equal(signal_severity(LABEL_HARDWARE, ADVICE_EVICT_DIAG, ROLE_ROOT), 1);
    assert_int_equal(signal_severity(LABEL_HARDWARE, ADVICE_WATCH, ROLE_ROOT), 1);
    assert_int_equal(signal_severity(LABEL_CASCADE, ADVICE_FOLLOW, ROLE_ROOT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_and_numbers_agree),
        cmocka_unit_test(test_other_words_are_none),
        cmocka_unit_test(test_no_line_of_a_program_ends_an_attempt),
        cmocka_unit_test(test_a_broken_node_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
