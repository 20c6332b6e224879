/* agent_core_test.c: the rules of an agent, one test each; every step also checks all invariants
 * and that the records fold to the same state (core_rig.c). */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_core/core_rig.h"

static int setup(void **state)
{
    struct core_rig *rig = mem_alloc(1, sizeof(*rig));
    rig_open(rig);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    rig_close(*state);
    mem_free(*state);
    return 0;
}

static struct agent_counters counters(const struct core_rig *rig)
{
    struct agent_view view;
    agent_core_view(rig->core, &view);
    return view.counters;
}

/* ---- the link ------------------------------------------------------------------------------ */

static void test_hello_before_anything(void **state)
{
    struct core_rig *rig = *state;
    rig_simple(rig, AGENT_EVENT_START);
    assert_non_null(rig_action(rig, AGENT_ACTION_SCAN, 0));
    assert_null(rig_action(rig, AGENT_ACTION_DIAL, 0)); /* hello must know what runs here */
    rig_scanned(rig, 0);
    assert_non_null(rig_action(rig, AGENT_ACTION_DIAL, 0));
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    const struct message *hello = rig_sent(rig, MSG_HELLO);
    assert_non_null(hello);
    assert_string_equal(hello->u.hello.node, "gpu-0001");
    assert_string_equal(hello->u.hello.cluster_id, "");
    assert_true(hello->u.hello.clean_boot);
    rig_tick(rig, 2000);
    assert_null(rig_sent(rig, MSG_BEAT)); /* nothing before the welcome */
}

static void test_cluster_is_learned_and_kept(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    assert_true(rig_recorded(rig, AGENT_RECORD_CLUSTER));
    assert_true(rig_recorded(rig, AGENT_RECORD_TERM));
    assert_non_null(rig_sent(rig, MSG_BEAT));
    rig_restart(rig);
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    assert_string_equal(rig_sent(rig, MSG_HELLO)->u.hello.cluster_id, RIG_CLUSTER);
    struct message message = {.kind = MSG_WELCOME};
    message.u.welcome.term = 9;
    (void)text_copy(message.u.welcome.cluster_id, CLUSTER_ID_SIZE, RIG_OTHER_CLUSTER);
    rig_message(rig, &message);
    assert_non_null(rig_action(rig, AGENT_ACTION_HANG_UP, 0));
    assert_int_equal(rig->output->record_count, 0);
    assert_int_equal(counters(rig).wrong_cluster, 1);
}

static void test_lower_term_is_refused(void **state)
{
    struct core_rig *rig = *state;
    rig->term = 7;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct msg_desired stop = rig_stop_order(rig, 1, 0);
    stop.term = 6;
    rig_order(rig, &stop);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
    assert_int_equal(counters(rig).lower_term, 1);
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_pass(rig, 5000);
    rig->term = 6;
    rig_connect(rig);
    assert_non_null(rig_action(rig, AGENT_ACTION_HANG_UP, 0));
    assert_int_equal(counters(rig).lower_term, 2);
}

static void test_higher_term_is_durable_first(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct msg_desired run = rig_run_order(rig, 1, 0);
    run.term = 4;
    rig_order(rig, &run);
    assert_int_equal(rig->output->records[0].kind, AGENT_RECORD_TERM);
    assert_int_equal(rig->output->records[0].number, 4);
}

static void test_backoff_is_bounded(void **state)
{
    struct core_rig *rig = *state;
    rig_simple(rig, AGENT_EVENT_START);
    rig_scanned(rig, 0);
    uint64_t longest = 0;
    for (int i = 0; i < 40; i++) {
        rig_simple(rig, AGENT_EVENT_LINK_DOWN);
        const uint64_t due = agent_core_deadline_ms(rig->core);
        const uint64_t wait = due > rig->now_ms ? due - rig->now_ms : 0;
        assert_true(wait <= 5000);
        assert_true(i > 0 || wait <= 100);
        longest = wait > longest ? wait : longest;
        rig_tick(rig, wait);
        assert_int_equal(rig_actions(rig, AGENT_ACTION_DIAL), 1);
    }
    assert_true(longest > 2500);
}

static void test_silent_controller_is_dialled_again(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_pass(rig, 5900);
    assert_null(rig_action(rig, AGENT_ACTION_HANG_UP, 0));
    rig_trace_begin(rig);
    rig_pass(rig, 12000);
    assert_non_null(strstr(rig->trace, "link session -> closed: the controller is silent"));
    assert_non_null(strstr(rig->trace, "link closed -> dialing"));
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_beats(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    const uint64_t first = rig_sent(rig, MSG_BEAT)->u.beat.sequence;
    rig_tick(rig, 999);
    assert_null(rig_sent(rig, MSG_BEAT));
    rig_tick(rig, 1);
    assert_int_equal(rig_sent(rig, MSG_BEAT)->u.beat.sequence, first + 1);
    rig_tick(rig, 200);
    assert_null(rig_sent(rig, MSG_BEAT));
    rig_running(rig, 1, 0); /* a change: at once */
    rig_tick(rig, 50);
    assert_non_null(rig_sent(rig, MSG_BEAT));
    assert_int_equal(rig_sent(rig, MSG_BEAT)->u.beat.attempts[0].ranks[0].state, RANK_RUNNING);
}

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
    assert_int_equal(counters(rig).lower_attempt, 1);
    struct msg_desired order = rig_stop_order(rig, 1, 5);
    (void)text_copy(order.cluster_id, CLUSTER_ID_SIZE, RIG_OTHER_CLUSTER);
    rig_order(rig, &order);
    assert_int_equal(counters(rig).wrong_cluster, 1);
    order = rig_stop_order(rig, 1, 5);
    order.sequence = 1;
    rig_order(rig, &order);
    assert_int_equal(counters(rig).lower_sequence, 1);
    order = rig_stop_order(rig, 1, 5);
    (void)text_copy(order.job_name, NAME_SIZE, "somebody-elses");
    rig_order(rig, &order);
    order = rig_run_order(rig, 2, 0);
    order.rank_count = RANKS_PER_NODE_MAX + 1;
    rig_order(rig, &order);
    assert_int_equal(counters(rig).bad_message, 2);
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
    assert_int_equal(counters(rig).lower_attempt, 1);
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
    assert_int_equal(counters(rig).lower_attempt, 1);
    assert_int_equal(rig_state(rig, 4, 2, NULL), AGENT_ATTEMPT_RUNNING);
    rig_run(rig, 4, 2);
    assert_true(rig_recorded(rig, AGENT_RECORD_ORDER));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_START), 0);
    struct attempt_report report;
    assert_int_equal(rig_state(rig, 4, 2, &report), AGENT_ATTEMPT_RUNNING);
    assert_false(report.foreign);
}

static void rig_stop_forget(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    struct msg_desired stop = rig_stop_order(rig, job, attempt);
    stop.forget = true;
    rig_order(rig, &stop);
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
    rig_stop_forget(rig, 1, 0);
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
    rig_stop_forget(rig, 1, 0);
    lose_shim(rig, 1, 0);
    rig_pass(rig, 3000);
    rig_orphans(rig, 1, 0, 0, false);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_KILLING);
}

/* ---- reports --------------------------------------------------------------------------------- */

static void test_ends_are_said_until_acknowledged(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_shim_view view = rig_view();
    view.attached = false;
    view.ranks[1].state = RANK_EXITED;
    view.ranks[1].code = 93;
    view.ranks[1].end_sequence = 3;
    view.ranks[1].end_ms = rig->now_ms;
    rig_shim(rig, 1, 0, &view);
    const struct message *ends = rig_sent(rig, MSG_RANK_ENDS);
    assert_non_null(ends); /* at once */
    assert_int_equal(ends->u.rank_ends.report.ranks[1].code, 93);
    const uint64_t sequence = ends->u.rank_ends.sequence;
    rig_tick(rig, 1000);
    assert_non_null(rig_sent(rig, MSG_RANK_ENDS)); /* with every beat */
    assert_int_equal(rig_sent(rig, MSG_RANK_ENDS)->u.rank_ends.report.ranks[1].phase_age_ms, 1000);
    struct message ack = {.kind = MSG_ACK};
    ack.u.ack.term = 1;
    ack.u.ack.ends_sequence = sequence - 1;
    rig_message(rig, &ack);
    rig_tick(rig, 1000);
    assert_non_null(rig_sent(rig, MSG_RANK_ENDS));
    ack.u.ack.ends_sequence = sequence;
    rig_message(rig, &ack);
    rig_tick(rig, 1000);
    assert_null(rig_sent(rig, MSG_RANK_ENDS));
}

static void test_ends_of_a_time_away(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_restart_unscanned(rig);
    struct agent_shim_view view = rig_view();
    view.alive = false;
    view.empty = true;
    view.ranks[0].state = RANK_EXITED;
    view.ranks[0].code = 75;
    view.ranks[0].end_sequence = 1;
    view.ranks[1].state = RANK_SIGNALED;
    view.ranks[1].code = SIGSEGV;
    view.ranks[1].end_sequence = 2;
    rig_shim(rig, 1, 0, &view);
    rig_scanned(rig, 0);
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    const struct attempt_report *report = &rig_sent(rig, MSG_HELLO)->u.hello.attempts[0];
    assert_int_equal(report->ranks[0].code, 75);
    assert_int_equal(report->ranks[1].code, SIGSEGV);
    assert_false(report->ranks[1].after_stop);
    assert_true(report->empty);
}

static void test_facts(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_tick(rig, 1000);
    const struct fact fact = {.source = FACT_PROBE, .code = 79, .rank = -1, .gpu = 3};
    struct agent_event event = {.kind = AGENT_EVENT_FACT, .fact = &fact};
    rig_step(rig, &event);
    rig_tick(rig, 50);
    const struct message *sent = rig_sent(rig, MSG_FACT);
    assert_non_null(sent);
    const uint64_t sequence = sent->u.fact.fact.sequence;
    rig_tick(rig, 1000);
    assert_non_null(rig_sent(rig, MSG_FACT));
    struct message ack = {.kind = MSG_ACK};
    ack.u.ack.term = 1;
    ack.u.ack.fact_sequence = sequence;
    rig_message(rig, &ack);
    rig_tick(rig, 1000);
    assert_null(rig_sent(rig, MSG_FACT));
    rig_restart(rig); /* numbers of a later life are larger */
    rig_connect(rig);
    rig_step(rig, &event);
    rig_tick(rig, 1000);
    assert_true(rig_sent(rig, MSG_FACT)->u.fact.fact.sequence > sequence);
}

static void test_health_is_told(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct agent_event event = {.kind = AGENT_EVENT_HEALTH, .text = "disk full"};
    rig_step(rig, &event);
    rig_tick(rig, 50);
    assert_false(rig_sent(rig, MSG_BEAT)->u.beat.checks_ok);
    assert_string_equal(rig_sent(rig, MSG_BEAT)->u.beat.checks_text, "disk full");
}

static void test_goodbye(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_event event = {.kind = AGENT_EVENT_GOODBYE, .goodbye = GOODBYE_RESTART};
    rig_step(rig, &event);
    assert_true(rig_recorded(rig, AGENT_RECORD_GOODBYE));
    assert_non_null(rig_sent(rig, MSG_GOODBYE));
    assert_non_null(rig_action(rig, AGENT_ACTION_EXIT, 0));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 0);
    (void)text_copy(rig->identity.boot_id, BOOT_ID_SIZE, "boot-2");
    rig_restart(rig);
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    assert_true(rig_sent(rig, MSG_HELLO)->u.hello.clean_boot);
    (void)text_copy(rig->identity.boot_id, BOOT_ID_SIZE, "boot-3"); /* without a goodbye */
    rig_restart(rig);
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    assert_false(rig_sent(rig, MSG_HELLO)->u.hello.clean_boot);
}

/* ---- mail ------------------------------------------------------------------------------------- */

static void mail(struct core_rig *rig, const struct agent_mail *mail_now)
{
    struct agent_event event = {.kind = AGENT_EVENT_MAIL, .job = 1, .mail = mail_now};
    rig_step(rig, &event);
}

static void test_exchange(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mail put = {.kind = AGENT_MAIL_EXCHANGE, .local_rank = 0, .id = 1};
    put.u.exchange.kind = EXCHANGE_PUT;
    put.u.exchange.size = 3;
    memcpy(put.u.exchange.value, "abc", 3);
    (void)text_copy(put.u.exchange.key, EXCHANGE_KEY_SIZE, "nccl");
    mail(rig, &put);
    assert_non_null(rig_sent(rig, MSG_EXCHANGE));
    mail(rig, &put); /* seen at every scan of the mailbox */
    assert_null(rig_sent(rig, MSG_EXCHANGE));
    struct agent_mail get = {.kind = AGENT_MAIL_EXCHANGE, .local_rank = 1, .id = 1};
    get.u.exchange.kind = EXCHANGE_GET;
    (void)text_copy(get.u.exchange.key, EXCHANGE_KEY_SIZE, "nccl");
    mail(rig, &get); /* a local rank put it */
    assert_int_equal(rig_action(rig, AGENT_ACTION_MAIL_ANSWER, 0)->u.mail.size, 3);
    get.id = 2;
    (void)text_copy(get.u.exchange.key, EXCHANGE_KEY_SIZE, "other");
    mail(rig, &get);
    assert_int_equal(rig_sent(rig, MSG_EXCHANGE)->u.exchange.kind, EXCHANGE_GET);
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_pass(rig, 200);
    rig_connect(rig);
    uint32_t sent = 0;
    for (uint32_t i = 0; i < rig->output->action_count; i++) {
        sent += rig->output->actions[i].kind == AGENT_ACTION_SEND &&
                rig->output->actions[i].u.message.kind == MSG_EXCHANGE;
    }
    assert_int_equal(sent, 2); /* the put and the open get, anew in every session */
    struct message value = {.kind = MSG_EXCHANGE};
    value.u.exchange.kind = EXCHANGE_VALUE;
    value.u.exchange.job = 1;
    value.u.exchange.attempt = 1; /* of another attempt: unreadable */
    value.u.exchange.rank = 1;
    (void)text_copy(value.u.exchange.key, EXCHANGE_KEY_SIZE, "other");
    rig_message(rig, &value);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 0);
    value.u.exchange.attempt = 0;
    rig_message(rig, &value);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 1);
}

static void test_checkpoints(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mail commit = {.kind = AGENT_MAIL_CHECKPOINT, .local_rank = 0, .id = 9};
    commit.u.checkpoint.kind = CHECKPOINT_COMMIT;
    commit.u.checkpoint.step = 100;
    mail(rig, &commit);
    const struct message *sent = rig_sent(rig, MSG_CHECKPOINT);
    assert_non_null(sent);
    const uint64_t sequence = sent->u.checkpoint.sequence;
    rig_tick(rig, 5000);
    assert_int_equal(rig_sent(rig, MSG_CHECKPOINT)->u.checkpoint.sequence, sequence);
    struct message said = {.kind = MSG_CHECKPOINT_ANSWER};
    said.u.checkpoint_answer = (struct msg_checkpoint_answer){.sequence = sequence, .job = 1};
    (void)text_copy(said.u.checkpoint_answer.text, TEXT_SIZE, "attempt 0 is over");
    rig_message(rig, &said);
    const struct agent_action *answer = rig_action(rig, AGENT_ACTION_MAIL_ANSWER, 0);
    assert_non_null(answer);
    assert_int_equal(answer->u.mail.id, 9);
    assert_int_equal(answer->u.mail.status, -ESTALE);
    rig_tick(rig, 20000);
    assert_null(rig_sent(rig, MSG_CHECKPOINT));
}

static void test_mail_past_its_limit(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mail commit = {.kind = AGENT_MAIL_CHECKPOINT};
    for (uint32_t i = 0; i < rig->limits.checkpoints; i++) {
        commit.id = i + 1;
        mail(rig, &commit);
        assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 0);
    }
    commit.id = 1000;
    mail(rig, &commit);
    assert_int_equal(rig_action(rig, AGENT_ACTION_MAIL_ANSWER, 0)->u.mail.status, -ENOSPC);
}

static void test_save_request(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct msg_desired run = rig_run_order(rig, 1, 0);
    run.save_request = 1;
    run.stop_request = true;
    rig_order(rig, &run);
    const struct agent_action *action = rig_action(rig, AGENT_ACTION_MAIL_REQUEST, 0);
    assert_non_null(action);
    assert_int_equal(action->u.request.save_request, 1);
    assert_true(action->u.request.stop_request);
    rig_tick(rig, 1000);
    assert_null(rig_action(rig, AGENT_ACTION_MAIL_REQUEST, 0));
}

/* What a program says of itself is passed on with the names of its rank, in a session, and never of
 * ranks that are not here. */
static void test_detail(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_detail detail = {.local_rank = 1};
    detail.detail.rank = 77; /* the driver knows nothing of it */
    detail.detail.step_count = 1;
    detail.detail.steps[0].step = 5;
    struct agent_event event = {.kind = AGENT_EVENT_DETAIL, .job = 1, .detail = &detail};
    rig_step(rig, &event);
    const struct message *sent = rig_sent(rig, MSG_RANK_DETAIL);
    assert_non_null(sent);
    struct attempt_report report;
    (void)rig_state(rig, 1, 0, &report);
    assert_int_equal(sent->u.rank_detail.job, 1);
    assert_int_equal(sent->u.rank_detail.rank, report.first_rank + 1);
    assert_int_equal(sent->u.rank_detail.steps[0].step, 5);
    detail.local_rank = report.rank_count;
    rig_step(rig, &event);
    assert_null(rig_sent(rig, MSG_RANK_DETAIL));
    detail.local_rank = 0;
    event.attempt = 1;
    rig_step(rig, &event);
    assert_null(rig_sent(rig, MSG_RANK_DETAIL));
    event.attempt = 0;
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_step(rig, &event);
    assert_null(rig_sent(rig, MSG_RANK_DETAIL));
}

/* A stop after a failure lets what hangs be aborted, once and before the ranks are told to end; a
 * stop that was planned does not. */
static void test_abort(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_running(rig, 2, 0);
    rig_stop(rig, 2, 0);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ABORT), 0);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 1);
    struct msg_desired stop = rig_stop_order(rig, 1, 0);
    stop.abort = true;
    rig_order(rig, &stop);
    const struct agent_action *action = rig_action(rig, AGENT_ACTION_MAIL_ABORT, 0);
    assert_non_null(action);
    assert_int_equal(action->job, 1);
    assert_int_equal(action->attempt, 0);
    assert_true(action < rig_action(rig, AGENT_ACTION_TERM, 0));
    stop.sequence++;
    rig_order(rig, &stop);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ABORT), 0);
    /* A new agent hears it again, in case the old one died before it was done. */
    rig_restart(rig);
    struct agent_shim_view view = rig_view();
    view.attached = true;
    rig_shim(rig, 1, 0, &view);
    rig_connect(rig);
    stop.sequence++;
    rig_order(rig, &stop);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ABORT), 1);
}

/* ---- peers and the fence ------------------------------------------------------------------------ */

static struct msg_peers peers_from(uint32_t first, uint32_t count)
{
    struct msg_peers peers = {.peer_count = count};
    for (uint32_t i = 0; i < count; i++) {
        (void)text_format(peers.peers[i].name, NAME_SIZE, "gpu-%u", first + i);
        (void)text_format(peers.peers[i].address, ADDRESS_SIZE, "10.0.0.%u", first + i);
        peers.peers[i].port = 7445;
    }
    return peers;
}

static void tell_peers(struct core_rig *rig, const struct msg_peers *peers)
{
    struct message message = {.kind = MSG_PEERS, .u.peers = *peers};
    rig_message(rig, &message);
}

static void test_peer_ask_is_answered(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct message ask = {.kind = MSG_PEER_ASK};
    ask.u.peer_ask.nonce = 100;
    ask.u.peer_ask.port = 7445;
    ask.u.peer_ask.timeout_ms = 500;
    (void)text_copy(ask.u.peer_ask.target, NAME_SIZE, "gpu-9");
    (void)text_copy(ask.u.peer_ask.address, ADDRESS_SIZE, "10.0.0.9");
    rig_message(rig, &ask);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_PEER_PROBE), 1);
    struct agent_event event = {
        .kind = AGENT_EVENT_PEER_PROBED, .nonce = 100, .answer = PEER_REFUSED};
    rig_step(rig, &event);
    assert_int_equal(rig_sent(rig, MSG_PEER_SAID)->u.peer_said.answer, PEER_REFUSED);
}

/* rig_step compares the digest with that of a replay, so what is told is durable. */
static void test_peers_are_kept(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    const uint32_t before = rig->record_count;
    const struct msg_peers eight = peers_from(1, 8);
    tell_peers(rig, &eight);
    assert_int_equal(rig->record_count, before + 8);
    tell_peers(rig, &eight); /* the same again */
    assert_int_equal(rig->record_count, before + 8);
    const struct msg_peers nobody = {0};
    tell_peers(rig, &nobody);
    assert_int_equal(rig->record_count, before + 8);
    const struct msg_peers three = peers_from(6, 3); /* a shorter list replaces the whole one */
    tell_peers(rig, &three);
    assert_int_equal(rig->record_count, before + 11);
    const uint64_t digest = agent_core_digest(rig->core);
    tell_peers(rig, &eight);
    assert_true(agent_core_digest(rig->core) != digest);
    tell_peers(rig, &three);
    assert_true(agent_core_digest(rig->core) == digest);
}

static void test_impossible_peers_are_refused(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    const uint32_t before = rig->record_count;
    struct msg_peers peers = peers_from(1, 4);
    peers.peers[2].port = 0;
    tell_peers(rig, &peers);
    peers = peers_from(1, 4);
    peers.peers[3].address[0] = '\0';
    tell_peers(rig, &peers);
    peers = peers_from(1, 4);
    (void)text_copy(peers.peers[0].name, NAME_SIZE, rig->identity.node);
    tell_peers(rig, &peers);
    assert_int_equal(rig->record_count, before);
    assert_int_equal(counters(rig).bad_message, 3);
}

static void test_peer_question(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct agent_event event = {.kind = AGENT_EVENT_PEER_QUESTION, .nonce = 3, .token = 17};
    rig_step(rig, &event);
    const struct agent_action *action = rig_action(rig, AGENT_ACTION_PEER_REPLY, 0);
    assert_int_equal(action->token, 17);
    assert_true(action->u.reply.controller_up);
    assert_string_equal(action->u.reply.node, "gpu-0001");
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_step(rig, &event);
    assert_false(rig_action(rig, AGENT_ACTION_PEER_REPLY, 0)->u.reply.controller_up);
}

/* Runs with mailboxes at step 5, then loses the controller for `away`; `up` of the four peers that
 * are asked have theirs. */
static void fence_with(struct core_rig *rig, bool moving, uint64_t away, uint32_t up, uint32_t told,
                       bool restart)
{
    rig_begin(rig);
    const struct msg_peers peers = peers_from(2, told);
    tell_peers(rig, &peers);
    rig_running(rig, 1, 0);
    if (restart) {
        const struct agent_shim_view view = rig_view();
        rig_restart_unscanned(rig);
        rig_shim(rig, 1, 0, &view);
        rig_scanned(rig, 0);
    } else {
        rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    }
    const uint64_t end = rig->now_ms + away;
    uint64_t step = 5;
    uint32_t answered = 0;
    while (rig->now_ms < end) {
        for (uint32_t i = 0; i < 2; i++) {
            const struct agent_mailbox_view view = {.valid = true,
                                                    .local_rank = i,
                                                    .phase = PHASE_STEP,
                                                    .step = step,
                                                    .step_ms = 1000,
                                                    .changed_ms = moving ? rig->now_ms : 1000};
            struct agent_event event = {.kind = AGENT_EVENT_MAILBOX, .job = 1, .mailbox = &view};
            rig_step(rig, &event);
        }
        step += moving;
        rig_tick(rig, 1000);
        struct agent_probe probes[AGENT_FENCE_ASKED];
        const uint32_t count = rig_actions(rig, AGENT_ACTION_PEER_PROBE);
        assert_true(count <= AGENT_FENCE_ASKED);
        for (uint32_t i = 0; i < count; i++) {
            probes[i] = rig_action(rig, AGENT_ACTION_PEER_PROBE, i)->u.probe;
        }
        for (uint32_t i = 0; i < count; i++) {
            struct agent_event event = {.kind = AGENT_EVENT_PEER_PROBED,
                                        .nonce = probes[i].nonce,
                                        .answer = PEER_ANSWERS,
                                        .controller_up = answered++ % 4 < up};
            rig_step(rig, &event);
        }
    }
}

static void fence(struct core_rig *rig, bool moving, uint64_t away, uint32_t up)
{
    fence_with(rig, moving, away, up, 5, false);
}

/* Cut off right after its own start, too: it knows its peers from the life before. */
static void test_fence_by_an_agent_that_never_had_a_session(void **state)
{
    struct core_rig *rig = *state;
    fence_with(rig, false, 700000, 4, 5, true);
    assert_true(rig_state(rig, 1, 0, NULL) >= AGENT_ATTEMPT_STOPPING);
}

static void test_fence_not_with_too_few_to_ask(void **state)
{
    struct core_rig *rig = *state;
    fence_with(rig, false, 900000, 4, 3, false);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_fence_all_three(void **state)
{
    struct core_rig *rig = *state;
    fence(rig, false, 700000, 3);
    struct attempt_report report;
    assert_true(rig_state(rig, 1, 0, &report) >= AGENT_ATTEMPT_STOPPING);
    assert_non_null(strstr(report.text, "ended by its own node"));
}

static void test_fence_not_while_steps_move(void **state)
{
    struct core_rig *rig = *state;
    fence(rig, true, 2000000, 4);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_fence_not_before_its_time(void **state)
{
    struct core_rig *rig = *state;
    fence(rig, false, 599000, 4);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_fence_not_when_peers_are_alone_too(void **state)
{
    struct core_rig *rig = *state;
    fence(rig, false, 900000, 2);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_fence_never_when_off(void **state)
{
    struct core_rig *rig = *state;
    rig_close(rig);
    rig_open(rig);
    (void)agent_core_free(rig->core);
    rig->identity.fence_after_ms = 0;
    assert_int_equal(agent_core_create(&rig->limits, 7, &rig->identity, &rig->core), 0);
    fence(rig, false, 900000, 4);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_check_is_passed_on(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct message check = {.kind = MSG_CHECK};
    check.u.check.nonce = 8;
    check.u.check.job = 1;
    check.u.check.port = 29500;
    rig_message(rig, &check);
    assert_int_equal(rig_action(rig, AGENT_ACTION_CHECK, 0)->u.check.port, 29500);
    rig_message(rig, &check);
    assert_null(rig_action(rig, AGENT_ACTION_CHECK, 0)); /* is under way */
    struct agent_event event = {
        .kind = AGENT_EVENT_CHECKED, .job = 1, .nonce = 8, .ok = true, .port_free = true};
    rig_step(rig, &event);
    assert_true(rig_sent(rig, MSG_CHECK_RESULT)->u.check_result.port_free);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_places_are_reused(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    for (uint32_t attempt = 0; attempt < 40; attempt++) {
        rig_running(rig, 1, attempt);
        rig_ended(rig, 1, attempt, RANK_EXITED, 1);
        const struct message *ends = rig_sent(rig, MSG_RANK_ENDS);
        assert_non_null(ends);
        struct message ack = {.kind = MSG_ACK};
        ack.u.ack.term = 1;
        ack.u.ack.ends_sequence = ends->u.rank_ends.sequence;
        rig_message(rig, &ack);
    }
    assert_int_equal(rig_state(rig, 1, 39, NULL), AGENT_ATTEMPT_EMPTY);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_NONE);
}

static void test_jobs_are_dropped_when_idle(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    for (uint32_t job = 2; job < 200; job++) {
        struct msg_desired stop = rig_stop_order(rig, job, 0);
        stop.forget = true;
        rig_order(rig, &stop);
    }
    assert_int_equal(counters(rig).too_many, 0);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_RUNNING);
}

static void test_create_refuses_small_limits(void **state)
{
    struct core_rig *rig = *state;
    struct agent_core *core = NULL;
    struct agent_limits limits = rig->limits;
    limits.attempts = 3;
    assert_int_equal(agent_core_create(&limits, 1, &rig->identity, &core), -EINVAL);
    limits = rig->limits;
    limits.output_actions = 40;
    assert_int_equal(agent_core_create(&limits, 1, &rig->identity, &core), -EINVAL);
    struct agent_identity nobody = rig->identity;
    nobody.node[0] = '\0';
    assert_int_equal(agent_core_create(&rig->limits, 1, &nobody, &core), -EINVAL);
    const struct agent_record strange = {.kind = 200};
    assert_int_equal(agent_core_create(&rig->limits, 1, &rig->identity, &core), 0);
    assert_int_equal(agent_core_replay(core, &strange), -EINVAL);
    (void)agent_core_free(core);
}

/* ---- one whole life as it reads in the log -------------------------------------------------------- */

static void test_trace(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_trace_begin(rig);
    rig_running(rig, 7, 131);
    rig_stop(rig, 7, 131);
    rig_tick(rig, 2000);
    rig_ended(rig, 7, 131, RANK_SIGNALED, SIGKILL);
    struct msg_desired forget = rig_stop_order(rig, 7, 131);
    forget.forget = true;
    rig_order(rig, &forget);
    assert_string_equal(rig->trace,
                        "job 7 attempt 131 wanted: ranks 0..1\n"
                        "job 7 attempt 131 none -> ordered: the controller's order\n"
                        "job 7 attempt 131 ordered -> starting: its shim answers\n"
                        "job 7 attempt 131 starting -> running: every rank is started\n"
                        "job 7 attempt 131 running -> stopping: stop order\n"
                        "job 7 attempt 131 stopping -> killing: the grace is over\n"
                        "job 7 attempt 131 killing -> empty: its shim has no child left\n"
                        "job 7 attempt 131 empty -> none: its end is recorded\n");
}

#define T(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_hello_before_anything),
        T(test_cluster_is_learned_and_kept),
        T(test_lower_term_is_refused),
        T(test_higher_term_is_durable_first),
        T(test_backoff_is_bounded),
        T(test_silent_controller_is_dialled_again),
        T(test_beats),
        T(test_order_is_durable_before_the_start),
        T(test_an_attempt_starts_once),
        T(test_start_after_a_crash_between_record_and_act),
        T(test_hold_does_not_start),
        T(test_refusals),
        T(test_no_opinion_leaves_everything),
        T(test_stopped_attempts_stay_stopped),
        T(test_term_kill_unclean),
        T(test_next_attempt_waits_for_proof),
        T(test_stop_goes_on_after_a_restart),
        T(test_stop_of_what_was_never_begun),
        T(test_stop_of_what_is_empty_is_told_at_once),
        T(test_forget),
        T(test_foreign_is_reported_and_left),
        T(test_foreign_is_adopted),
        T(test_orphans),
        T(test_orphans_have_no_grace),
        T(test_no_waiver_before_the_deadline),
        T(test_orphans_that_end_are_reported),
        T(test_an_end_beside_a_living_shim_is_not_believed),
        T(test_nothing_found_is_no_proof),
        T(test_ends_are_said_until_acknowledged),
        T(test_ends_of_a_time_away),
        T(test_facts),
        T(test_health_is_told),
        T(test_goodbye),
        T(test_exchange),
        T(test_checkpoints),
        T(test_mail_past_its_limit),
        T(test_save_request),
        T(test_detail),
        T(test_abort),
        T(test_peer_question),
        T(test_peer_ask_is_answered),
        T(test_peers_are_kept),
        T(test_impossible_peers_are_refused),
        T(test_fence_by_an_agent_that_never_had_a_session),
        T(test_fence_not_with_too_few_to_ask),
        T(test_fence_all_three),
        T(test_fence_not_while_steps_move),
        T(test_fence_not_before_its_time),
        T(test_fence_not_when_peers_are_alone_too),
        T(test_fence_never_when_off),
        T(test_check_is_passed_on),
        T(test_places_are_reused),
        T(test_jobs_are_dropped_when_idle),
        T(test_create_refuses_small_limits),
        T(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
