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

/* Only a root can take a node out, and what is no root or symptom ends nothing. */
static void test_severity_follows_advice_and_role(void **state)
{
    (void)state;
    for (uint32_t advice = 0; advice < signal_advice_count; advice++) {
        assert_int_equal(signal_severity(advice, ROLE_NOISE), 0);
        assert_int_equal(signal_severity(advice, ROLE_CASCADE), 0);
        assert_true(signal_severity(advice, ROLE_SYMPTOM) < 3);
    }
    assert_int_equal(signal_severity(ADVICE_EVICT_RESET, ROLE_ROOT), 3);
    assert_int_equal(signal_severity(ADVICE_EVICT_RMA, ROLE_ROOT), 3);
    assert_int_equal(signal_severity(ADVICE_EVICT, ROLE_SYMPTOM), 2);
    assert_int_equal(signal_severity(ADVICE_FAIL, ROLE_ROOT), 2);
    assert_int_equal(signal_severity(ADVICE_WATCH, ROLE_ROOT), 1);
    assert_int_equal(signal_severity(ADVICE_FOLLOW, ROLE_ROOT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_and_numbers_agree),
        cmocka_unit_test(test_other_words_are_none),
        cmocka_unit_test(test_severity_follows_advice_and_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
