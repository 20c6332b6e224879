/* agent_core_test.c: the limits of an agent, and one whole life of an attempt as it reads in the log. */
#include <errno.h>
#include <signal.h>

#include "tests/lib/test.h"
#include "tests/unit/agent_core/core_rig.h"

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
    assert_int_equal(rig_counters(rig).too_many, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_places_are_reused),
        RIG_TEST(test_jobs_are_dropped_when_idle),
        RIG_TEST(test_create_refuses_small_limits),
        RIG_TEST(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
