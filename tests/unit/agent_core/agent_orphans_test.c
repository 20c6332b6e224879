/* agent_orphans_test.c: attempts that the controller did not order, and those whose shim is gone. */
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_core/core_rig.h"

/* ---- foreign and orphaned -------------------------------------------------------------------- */

static void test_foreign_is_reported_and_left(void **state)
{
    struct core_rig *rig = *state;
    rig_simple(rig, AGENT_EVENT_START);
    struct agent_shim_view view = rig_view();
    rig_shim(rig, 4, 2, &view);
    (void)text_copy(view.cluster_id, CLUSTER_ID_SIZE, RIG_OTHER_CLUSTER);
    rig_shim(rig, 4, 1, &view);
    rig_scanned(rig, 0);
    rig_connect(rig);
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 4, 2, &report), AGENT_ATTEMPT_RUNNING);
    assert_true(report.foreign);
    rig_pass(rig, 5000);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 0);
    rig_stop(rig, 4, 2); /* names the job: ours ends, another cluster's never */
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 1);
    assert_int_equal(rig_state(rig, 4, 2, NULL), AGENT_ATTEMPT_STOPPING);
    assert_int_equal(rig_state(rig, 4, 1, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_foreign_is_adopted(void **state)
{
    struct core_rig *rig = *state;
    rig_simple(rig, AGENT_EVENT_START);
    const struct agent_shim_view view = rig_view();
    rig_shim(rig, 4, 2, &view);
    rig_scanned(rig, 0);
    rig_connect(rig);
    rig_run(rig, 4, 1); /* an old store */
    assert_int_equal(rig_counters(rig).lower_attempt, 1);
    assert_int_equal(rig_state(rig, 4, 2, NULL), AGENT_ATTEMPT_RUNNING);
    rig_run(rig, 4, 2);
    assert_true(rig_recorded(rig, AGENT_RECORD_ORDER));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0);
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 4, 2, &report), AGENT_ATTEMPT_RUNNING);
    assert_false(report.foreign);
}

static void stop_and_forget(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    struct msg_desired stop = rig_stop_order(rig, job, attempt);
    stop.forget = true;
    rig_order(rig, &stop);
}

/* Its folder is what keeps it from being started again, until the controller says that it may go. */
static void test_foreign_is_kept_until_it_may_go(void **state)
{
    struct core_rig *rig = *state;
    rig_simple(rig, AGENT_EVENT_START);
    struct agent_shim_view view = rig_view();
    rig_shim(rig, 4, 2, &view);
    rig_scanned(rig, 0);
    rig_connect(rig);
    rig_stop(rig, 4, 2);
    rig_ended(rig, 4, 2, RANK_SIGNALED, 15);
    rig_pass(rig, 5000);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_FORGET), 0);
    assert_int_equal(rig_state(rig, 4, 2, NULL), AGENT_ATTEMPT_EMPTY);
    stop_and_forget(rig, 4, 2);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_FORGET), 1);
    assert_int_equal(rig_state(rig, 4, 2, NULL), AGENT_ATTEMPT_NONE);
}

static void lose_shim(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    struct agent_event event = {.kind = AGENT_EVENT_SHIM_LOST, .job = job, .attempt = attempt};
    rig_step(rig, &event);
}

static void orphan_ended(struct core_rig *rig, uint32_t job, uint32_t attempt, uint32_t local_rank,
                         bool seen)
{
    struct agent_event event = {.kind = AGENT_EVENT_ORPHAN_ENDED,
                                .job = job,
                                .attempt = attempt,
                                .local_rank = local_rank,
                                .ok = seen};
    rig_step(rig, &event);
}

static void test_orphans(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    lose_shim(rig, 1, 0);
    rig_orphans(rig, 1, 0, 2, false);
    rig_pass(rig, 20000);
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 1, 0, &report), AGENT_ATTEMPT_ORPHANED); /* nobody said stop */
    assert_false(report.shim_alive);
    rig_pass(rig, 10);
    rig_connect(rig);
    rig_run(rig, 1, 1); /* before a launch of the same job they are swept */
    assert_int_equal(rig_actions(rig, AGENT_ACTION_SWEEP), 1);
    rig_orphans(rig, 1, 0, 1, false);
    rig_tick(rig, 500);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_SWEEP), 1);
    rig_orphans(rig, 1, 0, 0, true);
    assert_int_equal(rig_state(rig, 1, 0, &report), AGENT_ATTEMPT_EMPTY);
    assert_int_equal(report.ranks[0].state, RANK_SIGNALED);
    assert_int_equal(report.ranks[0].code, 0); /* how it ended is not known */
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 1);
}

/* Nobody waits for them, so nobody but the agent can say that one has ended. */
static void test_orphans_that_end_are_reported(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    lose_shim(rig, 1, 0);
    rig_orphans(rig, 1, 0, 2, false);
    orphan_ended(rig, 1, 0, 1, true);
    const struct message *said = rig_sent(rig, MSG_RANK_ENDS);
    assert_non_null(said);
    const struct attempt_report *report = &said->u.rank_ends.report;
    assert_int_equal(report->ranks[0].state, RANK_RUNNING);
    assert_int_equal(report->ranks[1].state, RANK_SIGNALED);
    assert_int_equal(report->ranks[1].code, 0); /* how it ended is not known */
    assert_false(report->ranks[1].after_stop);
    assert_true(strstr(report->text, "is not known") != NULL);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_ORPHANED);
    rig_tick(rig, 400);
    struct attempt_report later;
    (void)rig_state(rig, 1, 0, &later);
    assert_int_equal(later.ranks[1].phase_age_ms, 400); /* it was seen to end */
    orphan_ended(rig, 1, 0, 1, false);                  /* said twice */
    assert_null(rig_sent(rig, MSG_RANK_ENDS));
    orphan_ended(rig, 1, 0, 7, true); /* there is no such rank */
    orphan_ended(rig, 9, 0, 0, true); /* and no such attempt */
    assert_null(rig_sent(rig, MSG_RANK_ENDS));
    struct agent_shim_view view = rig_view(); /* its records alone still say that both run */
    view.alive = false;
    rig_shim(rig, 1, 0, &view);
    (void)rig_state(rig, 1, 0, &later);
    assert_int_equal(later.ranks[1].state, RANK_SIGNALED);
    rig_stop(rig, 1, 0);
    orphan_ended(rig, 1, 0, 0, false);
    (void)rig_state(rig, 1, 0, &later);
    assert_int_equal(later.ranks[0].state, RANK_SIGNALED);
    assert_true(later.ranks[0].after_stop);
}

/* A living parent knows better. */
static void test_an_end_beside_a_living_shim_is_not_believed(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    orphan_ended(rig, 1, 0, 0, true);
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 1, 0, &report), AGENT_ATTEMPT_RUNNING);
    assert_int_equal(report.ranks[0].state, RANK_RUNNING);
}

static void test_nothing_found_is_no_proof(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_stop(rig, 1, 0);
    lose_shim(rig, 1, 0);
    for (int i = 0; i < 40; i++) {
        rig_orphans(rig, 1, 0, 0, false);
        rig_pass(rig, 500);
    }
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 1, 0, &report), AGENT_ATTEMPT_UNCLEAN);
    assert_non_null(strstr(report.text, "no proof"));
    /* A person vouches for the node: what is not found is gone, but what is found is not. */
    rig_pass(rig, 10);
    rig_connect(rig); /* the session did not outlive the silence */
    stop_and_forget(rig, 1, 0);
    rig_orphans(rig, 1, 0, 1, false);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_UNCLEAN);
    rig_pass(rig, 500);
    rig_orphans(rig, 1, 0, 0, false);
    assert_true(rig_recorded(rig, AGENT_RECORD_EMPTY));
    rig_pass(rig, 500);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_NONE);
}

/* A long grace is for TERM, which needs a shim: whether orphans can be killed is known without it. */
static void test_orphans_have_no_grace(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    lose_shim(rig, 1, 0);
    struct msg_desired stop = rig_stop_order(rig, 1, 0);
    stop.grace_ms = 60000;
    rig_order(rig, &stop);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_KILLING);
    rig_pass(rig, 11000);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_UNCLEAN);
}

/* While KILL still has time, nobody's word counts for a proof. */
static void test_no_waiver_before_the_deadline(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    stop_and_forget(rig, 1, 0);
    lose_shim(rig, 1, 0);
    rig_pass(rig, 3000);
    rig_orphans(rig, 1, 0, 0, false);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_KILLING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_foreign_is_reported_and_left),
        RIG_TEST(test_foreign_is_adopted),
        RIG_TEST(test_foreign_is_kept_until_it_may_go),
        RIG_TEST(test_orphans),
        RIG_TEST(test_orphans_have_no_grace),
        RIG_TEST(test_no_waiver_before_the_deadline),
        RIG_TEST(test_orphans_that_end_are_reported),
        RIG_TEST(test_an_end_beside_a_living_shim_is_not_believed),
        RIG_TEST(test_nothing_found_is_no_proof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
