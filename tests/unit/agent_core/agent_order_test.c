/* agent_order_test.c: what an order starts and stops, once, and over a restart of the agent. */
#include <signal.h>

#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_core/core_rig.h"

/* ---- orders -------------------------------------------------------------------------------- */

static void test_order_is_durable_before_the_start(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_run(rig, 1, 0);
    assert_non_null(rig_action(rig, AGENT_ACTION_SCAN, 0));
    assert_null(rig_action(rig, AGENT_ACTION_START, 0));
    rig_scanned(rig, 1);
    assert_true(rig_recorded(rig, AGENT_RECORD_ORDER));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 1);
    rig_run(rig, 1, 0); /* level state: said again */
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0);
}

static void fail_launch(struct core_rig *rig, uint32_t job)
{
    struct agent_event event = {
        .kind = AGENT_EVENT_LAUNCH_FAILED, .job = job, .text = "no memory for a process"};
    rig_step(rig, &event);
}

/* No process was made: that is told with its reason, and it is not tried again. */
static void test_a_launch_that_fails_is_told(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_run(rig, 1, 0);
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 1);
    fail_launch(rig, 1);
    assert_true(rig_recorded(rig, AGENT_RECORD_REFUSED));
    const struct message *ends = rig_sent(rig, MSG_RANK_ENDS);
    assert_non_null(ends);
    assert_true(ends->u.rank_ends.report.refused);
    assert_string_equal(ends->u.rank_ends.report.text, "no memory for a process");
    assert_int_equal(ends->u.rank_ends.report.ranks[0].state, RANK_UNSTARTED);
    rig_run(rig, 1, 0);
    rig_pass(rig, 5000);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_REFUSED);
    /* A word that comes when its ranks run, or have run, is none. */
    rig_running(rig, 2, 0);
    fail_launch(rig, 2);
    assert_int_equal(rig_state(rig, 2, 0, NULL), AGENT_ATTEMPT_RUNNING);
    rig_ended(rig, 2, 0, RANK_EXITED, 0);
    fail_launch(rig, 2);
    assert_int_equal(rig_state(rig, 2, 0, NULL), AGENT_ATTEMPT_EMPTY);
}

static void test_an_attempt_starts_once(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_ended(rig, 1, 0, RANK_EXITED, 1);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_EMPTY);
    assert_true(rig_recorded(rig, AGENT_RECORD_EMPTY));
    rig_run(rig, 1, 0);
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0);
    rig_restart(rig);
    rig_connect(rig);
    rig_run(rig, 1, 0);
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0);
}

static void test_start_after_a_crash_between_record_and_act(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_run(rig, 1, 0);
    rig_scanned(rig, 1); /* the ORDER is durable; the agent dies before it acts */
    rig_restart(rig);
    rig_connect(rig);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_ORDERED);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0); /* not without being told */
    rig_run(rig, 1, 0);
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 1);
    assert_false(rig_recorded(rig, AGENT_RECORD_ORDER));
}

static void test_hold_does_not_start(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct msg_desired hold = rig_run_order(rig, 1, 0);
    hold.start = false;
    rig_order(rig, &hold);
    rig_scanned(rig, 1);
    rig_pass(rig, 3000);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_NONE);
    rig_running(rig, 1, 0);
}

static void test_refusals(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 5);
    rig_run(rig, 1, 4);
    assert_int_equal(rig_counters(rig).lower_attempt, 1);
    struct msg_desired order = rig_stop_order(rig, 1, 5);
    (void)text_copy(order.cluster_id, CLUSTER_ID_SIZE, RIG_OTHER_CLUSTER);
    rig_order(rig, &order);
    assert_int_equal(rig_counters(rig).wrong_cluster, 1);
    order = rig_stop_order(rig, 1, 5);
    order.sequence = 1;
    rig_order(rig, &order);
    assert_int_equal(rig_counters(rig).lower_sequence, 1);
    order = rig_stop_order(rig, 1, 5);
    (void)text_copy(order.job_name, NAME_SIZE, "somebody-elses");
    rig_order(rig, &order);
    order = rig_run_order(rig, 2, 0);
    order.rank_count = RANKS_PER_NODE_MAX + 1;
    rig_order(rig, &order);
    assert_int_equal(rig_counters(rig).bad_message, 2);
    rig_stop(rig, 2, 7); /* another job's stop */
    rig_stop(rig, 1, 4); /* an older attempt's stop */
    assert_int_equal(rig_state(rig, 1, 5, NULL), AGENT_ATTEMPT_RUNNING);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 0);
}

static void test_no_opinion_leaves_everything(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct msg_desired none = rig_stop_order(rig, 1, 0);
    none.mode = DESIRED_NONE;
    rig_order(rig, &none);
    rig_pass(rig, 3000);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
    rig_run(rig, 1, 1); /* wanted, and then no opinion before it could start */
    rig_order(rig, &none);
    none.sequence = ++rig->sequence;
    rig_order(rig, &none);
    rig_ended(rig, 1, 0, RANK_EXITED, 0);
    rig_scanned(rig, 1);
    assert_int_equal(rig_state(rig, 1, 1, NULL), AGENT_ATTEMPT_NONE);
}

static void test_stopped_attempts_stay_stopped(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_stop(rig, 1, 3); /* never was here: seen and empty all the same */
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 1, 3, &report), AGENT_ATTEMPT_EMPTY);
    assert_true(report.stop_seen && report.empty);
    rig_restart(rig);
    rig_connect(rig);
    rig_run(rig, 1, 3); /* a RUN that was under way when the stop overtook it */
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0);
    assert_int_equal(rig_counters(rig).lower_attempt, 1);
}

/* ---- stopping ------------------------------------------------------------------------------ */

static void test_term_kill_unclean(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_stop(rig, 1, 0);
    assert_true(rig_recorded(rig, AGENT_RECORD_STOP));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 1);
    rig_tick(rig, 1999);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_KILL), 0);
    rig_tick(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_KILL), 1);
    rig_tick(rig, 9999);
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 1, 0, &report), AGENT_ATTEMPT_KILLING);
    rig_tick(rig, 1);
    assert_int_equal(rig_state(rig, 1, 0, &report), AGENT_ATTEMPT_UNCLEAN);
    assert_true(report.unclean && !report.empty);
    rig_ended(rig, 1, 0, RANK_SIGNALED, SIGKILL); /* it let go after all */
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_EMPTY);
}

static void test_next_attempt_waits_for_proof(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_run(rig, 1, 1); /* the stop was lost; a newer attempt says as much */
    assert_true(rig_recorded(rig, AGENT_RECORD_STOP));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 1);
    rig_scanned(rig, 1);
    rig_pass(rig, 30000);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_UNCLEAN);
    assert_int_equal(rig_state(rig, 1, 1, NULL), AGENT_ATTEMPT_NONE);
    rig_ended(rig, 1, 0, RANK_SIGNALED, SIGKILL);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_SCAN), 1);
    rig_scanned(rig, 1);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 1);
}

static void test_stop_goes_on_after_a_restart(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_stop(rig, 1, 0);
    rig_restart_unscanned(rig);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_STOPPING);
    const struct agent_shim_view view = rig_view();
    rig_shim(rig, 1, 0, &view);
    rig_scanned(rig, 0);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 1); /* not a word from a controller yet */
}

static void test_stop_of_what_was_never_begun(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_run(rig, 1, 0);
    rig_scanned(rig, 1);
    rig_stop(rig, 1, 0); /* the shim has not come up */
    assert_int_equal(rig_actions(rig, AGENT_ACTION_SWEEP), 1);
    const struct agent_shim_view view = rig_view();
    rig_shim(rig, 1, 0, &view); /* it does now */
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 1);
    rig_ended(rig, 1, 0, RANK_SIGNALED, SIGTERM);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_EMPTY);
}

/* Ranks that ended by themselves before the stop came: the controller still waits for the word that
 * the stop was seen. */
static void test_stop_of_what_is_empty_is_told_at_once(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_ended(rig, 1, 0, RANK_EXITED, 1);
    rig_tick(rig, 50);
    assert_true(rig_sent(rig, MSG_BEAT)->u.beat.attempts[0].empty);
    assert_false(rig_sent(rig, MSG_BEAT)->u.beat.attempts[0].stop_seen);
    rig_tick(rig, 200);
    assert_null(rig_sent(rig, MSG_BEAT));
    rig_stop(rig, 1, 0);
    const struct message *beat = rig_sent(rig, MSG_BEAT);
    assert_non_null(beat);
    assert_true(beat->u.beat.attempts[0].stop_seen);
}

static void test_forget(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct msg_desired stop = rig_stop_order(rig, 1, 0);
    stop.forget = true;
    rig_order(rig, &stop);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_STOPPING); /* first empty */
    rig_ended(rig, 1, 0, RANK_SIGNALED, SIGTERM);
    assert_true(rig_recorded(rig, AGENT_RECORD_FORGET));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_FORGET), 1);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_NONE);
    /* killed before the folder was removed: found again, removed again, not reported */
    rig_restart_unscanned(rig);
    rig_ended(rig, 1, 0, RANK_SIGNALED, SIGTERM);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_FORGET), 1);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_order_is_durable_before_the_start),
        RIG_TEST(test_a_launch_that_fails_is_told),
        RIG_TEST(test_an_attempt_starts_once),
        RIG_TEST(test_start_after_a_crash_between_record_and_act),
        RIG_TEST(test_hold_does_not_start),
        RIG_TEST(test_refusals),
        RIG_TEST(test_no_opinion_leaves_everything),
        RIG_TEST(test_stopped_attempts_stay_stopped),
        RIG_TEST(test_term_kill_unclean),
        RIG_TEST(test_next_attempt_waits_for_proof),
        RIG_TEST(test_stop_goes_on_after_a_restart),
        RIG_TEST(test_stop_of_what_was_never_begun),
        RIG_TEST(test_stop_of_what_is_empty_is_told_at_once),
        RIG_TEST(test_forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
