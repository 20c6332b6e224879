/* agent_peers_test.c: peers ask and are asked, and when an agent that is cut off ends its own ranks. */
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_core/core_rig.h"

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
    assert_int_equal(rig_counters(rig).bad_message, 3);
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

/* Four that are known are as many as are asked. */
static void test_fence_with_just_enough_to_ask(void **state)
{
    struct core_rig *rig = *state;
    fence_with(rig, false, 700000, 4, AGENT_FENCE_ASKED, false);
    assert_true(rig_state(rig, 1, 0, NULL) >= AGENT_ATTEMPT_STOPPING);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_peer_question),
        RIG_TEST(test_peer_ask_is_answered),
        RIG_TEST(test_peers_are_kept),
        RIG_TEST(test_impossible_peers_are_refused),
        RIG_TEST(test_fence_by_an_agent_that_never_had_a_session),
        RIG_TEST(test_fence_not_with_too_few_to_ask),
        RIG_TEST(test_fence_with_just_enough_to_ask),
        RIG_TEST(test_fence_all_three),
        RIG_TEST(test_fence_not_while_steps_move),
        RIG_TEST(test_fence_not_before_its_time),
        RIG_TEST(test_fence_not_when_peers_are_alone_too),
        RIG_TEST(test_fence_never_when_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
