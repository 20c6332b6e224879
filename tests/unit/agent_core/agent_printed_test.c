/* agent_printed_test.c: whose step a report shows: the mailbox's or the one that was printed. */
#include "tests/lib/test.h"

#include "tests/unit/agent_core/core_rig.h"

enum { PRINTED_AT_MS = 400, FRESH_MS = 15000 };

static int setup(void **state)
{
    static struct core_rig rig;
    rig_open(&rig);
    rig_begin(&rig);
    rig_running(&rig, 1, 0);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_close(*state);
    return 0;
}

static void mailbox(struct core_rig *rig, uint32_t local_rank, uint64_t step)
{
    const struct agent_mailbox_view view = {.valid = true,
                                            .local_rank = local_rank,
                                            .phase = PHASE_CHECKPOINT,
                                            .step = step,
                                            .step_ms = 70,
                                            .changed_ms = rig->now_ms};
    struct agent_event event = {.kind = AGENT_EVENT_MAILBOX, .job = 1, .mailbox = &view};
    rig_step(rig, &event);
}

static void printed(struct core_rig *rig, uint32_t local_rank, uint64_t step, bool alone)
{
    const struct agent_printed view = {.local_rank = local_rank,
                                       .alone = alone,
                                       .step = step,
                                       .step_ms = 90,
                                       .changed_ms = rig->now_ms - PRINTED_AT_MS};
    struct agent_event event = {.kind = AGENT_EVENT_PRINTED, .job = 1, .printed = &view};
    rig_step(rig, &event);
}

static struct attempt_report report_of(struct core_rig *rig)
{
    struct attempt_report report;
    (void)rig_state(rig, 1, 0, &report);
    return report;
}

static void test_a_printed_step_is_reported(void **state)
{
    struct core_rig *rig = *state;
    rig_pass(rig, 1000);
    printed(rig, 1, 40, false);
    assert_non_null(rig_sent(rig, MSG_BEAT)); /* the first one at once */
    const struct attempt_report report = report_of(rig);
    const struct rank_report *rank = &report.ranks[1];
    assert_true(rank->prints && !rank->has_mailbox);
    assert_int_equal(rank->step, 40);
    assert_int_equal(rank->step_ms, 90);
    assert_int_equal(rank->phase, PHASE_STEP);
    assert_int_equal(rank->phase_age_ms, PRINTED_AT_MS);
    assert_false(report.ranks[0].prints);
    assert_int_equal(report.ranks[0].phase_age_ms, 0);
    printed(rig, 1, 30, false); /* it has gone back: the newest one counts */
    assert_int_equal(report_of(rig).ranks[1].step, 30);
}

static void test_the_mailbox_goes_first(void **state)
{
    struct core_rig *rig = *state;
    rig_pass(rig, 1000);
    printed(rig, 0, 40, false);
    mailbox(rig, 0, 0); /* the library, but no step of it */
    struct attempt_report report = report_of(rig);
    assert_true(report.ranks[0].prints && report.ranks[0].has_mailbox);
    assert_int_equal(report.ranks[0].step, 40);
    assert_int_equal(report.ranks[0].phase, PHASE_CHECKPOINT);
    mailbox(rig, 0, 7);
    report = report_of(rig);
    assert_false(report.ranks[0].prints);
    assert_int_equal(report.ranks[0].step, 7);
    assert_int_equal(report.ranks[0].step_ms, 70);
}

static void test_unless_only_the_output_counts(void **state)
{
    struct core_rig *rig = *state;
    rig_pass(rig, 1000);
    mailbox(rig, 0, 7);
    printed(rig, 0, 40, true);
    const struct attempt_report report = report_of(rig);
    assert_true(report.ranks[0].prints);
    assert_int_equal(report.ranks[0].step, 40);
}

static void test_what_is_no_step_changes_nothing(void **state)
{
    struct core_rig *rig = *state;
    rig_pass(rig, 1000);
    printed(rig, 0, 0, false);
    printed(rig, 2, 5, false); /* there is no such rank */
    const struct attempt_report report = report_of(rig);
    assert_false(report.ranks[0].prints);
    assert_false(report.reads_output);
}

/* A reader that says nothing any more is no program that stands still. */
static void test_reading_grows_old(void **state)
{
    struct core_rig *rig = *state;
    rig_pass(rig, 1000);
    struct agent_event event = {.kind = AGENT_EVENT_READING, .job = 1, .used_ms = 1234};
    rig_step(rig, &event);
    struct attempt_report report = report_of(rig);
    assert_true(report.reads_output);
    assert_int_equal(report.used_ms, 1234);
    rig_pass(rig, FRESH_MS - 1000);
    assert_true(report_of(rig).reads_output);
    rig_pass(rig, 2000);
    report = report_of(rig);
    assert_false(report.reads_output);
    assert_int_equal(report.used_ms, 0);
    printed(rig, 0, 5, false);
    assert_true(report_of(rig).reads_output);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_printed_step_is_reported),
        TEST(test_the_mailbox_goes_first),
        TEST(test_unless_only_the_output_counts),
        TEST(test_what_is_no_step_changes_nothing),
        TEST(test_reading_grows_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
