/* agent_link_test.c: an agent and its controller: hello, cluster, term, beats, and a controller
 * that is away. */
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_core/core_rig.h"

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
    assert_int_equal(rig_counters(rig).wrong_cluster, 1);
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
    assert_int_equal(rig_counters(rig).lower_term, 1);
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_pass(rig, 5000);
    rig->term = 6;
    rig_connect(rig);
    assert_non_null(rig_action(rig, AGENT_ACTION_HANG_UP, 0));
    assert_int_equal(rig_counters(rig).lower_term, 2);
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

/* B14: the ceiling doubles up to 5 s, and no connect that leads to no welcome lowers it. */
static void test_backoff_is_bounded(void **state)
{
    struct core_rig *rig = *state;
    rig_simple(rig, AGENT_EVENT_START);
    rig_scanned(rig, 0);
    uint64_t longest = 0;
    for (int i = 0; i < 40; i++) {
        if (i % 2 == 1) { /* somebody listens there who welcomes nobody */
            rig_simple(rig, AGENT_EVENT_LINK_UP);
        }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_hello_before_anything),
        RIG_TEST(test_cluster_is_learned_and_kept),
        RIG_TEST(test_lower_term_is_refused),
        RIG_TEST(test_higher_term_is_durable_first),
        RIG_TEST(test_backoff_is_bounded),
        RIG_TEST(test_silent_controller_is_dialled_again),
        RIG_TEST(test_beats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
