/* turns_test.c: what a turn of the driver brings at once is looked at once, and comes to the same; and
 * who is found by a name, a session or a label is who has it. */
#include "tests/lib/test.h"

#include <string.h>

#include "controller/core/core.h"
#include "controller/core/state.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { NODES = 40, FIRST_MS = 1000 };

struct turns {
    struct core *core;
    uint64_t now_ms;
    uint32_t looks; /* deadlines that were owed at once */
};

static struct core_output step(struct turns *turns, struct event *event)
{
    struct core_output output;
    event->now_ms = turns->now_ms;
    event->wall_ms = 1764000000000 + turns->now_ms;
    core_step(turns->core, event, &output);
    return output;
}

static void begin(struct turns *turns)
{
    struct core_limits limits = core_limits_default;
    limits.agents = NODES;
    struct core_config config = {.start_grace_ms = 1000, .start_quiet_ms = 100};
    *turns = (struct turns){.now_ms = FIRST_MS};
    assert_int_equal(core_create(&limits, &config, 1, &turns->core), 0);
    struct event event = {.kind = EVENT_START};
    (void)text_copy(event.u.start.cluster_id, CLUSTER_ID_SIZE, "00112233445566778899aabbccddeeff");
    (void)text_copy(event.u.start.store_id, CLUSTER_ID_SIZE, "ffeeddccbbaa99887766554433221100");
    (void)step(turns, &event);
}

static struct message *hello(uint32_t node)
{
    static struct message message;
    memset(&message, 0, sizeof(message));
    message.kind = MSG_HELLO;
    struct msg_hello *u = &message.u.hello;
    (void)text_format(u->node, NAME_SIZE, "n-%u", node);
    (void)text_format(u->boot_id, BOOT_ID_SIZE, "boot-%u", node);
    (void)text_copy(u->address, ADDRESS_SIZE, "127.0.0.1");
    u->incarnation = 1;
    u->peer_port = 1;
    return &message;
}

static uint64_t session_of(uint32_t node)
{
    return (uint64_t)(node + 1) << 16 | node; /* as the driver numbers them */
}

/* All nodes say hello and send a beat, then every fourth connection closes. */
static void play(struct turns *turns, bool more)
{
    for (uint32_t node = 0; node < NODES; node++) {
        struct event event = {.kind = EVENT_HELLO,
                              .more = more,
                              .session = session_of(node),
                              .u.hello = &hello(node)->u.hello};
        (void)step(turns, &event);
        turns->looks += core_deadline_ms(turns->core) <= turns->now_ms ? 1 : 0;
        struct message beat = {.kind = MSG_BEAT};
        beat.u.beat = (struct msg_beat){.sequence = 1, .sent_ms = 1, .checks_ok = true};
        event = (struct event){
            .kind = EVENT_MESSAGE, .more = more, .session = session_of(node), .u.message = &beat};
        (void)step(turns, &event);
    }
    for (uint32_t node = 0; node < NODES; node += 4) {
        struct event event = {.kind = EVENT_CLOSED, .more = more, .session = session_of(node)};
        (void)step(turns, &event);
    }
    struct event tick = {.kind = EVENT_TICK};
    (void)step(turns, &tick);
    core_check(turns->core);
}

static void test_one_look_comes_to_the_same(void **state)
{
    (void)state;
    struct turns single, together;
    begin(&single);
    begin(&together);
    play(&single, false);
    play(&together, true);
    assert_int_equal(single.looks, 0);
    assert_int_equal(together.looks, NODES); /* owed from the first event on */
    assert_int_equal(core_digest(single.core), core_digest(together.core));
    assert_true(core_deadline_ms(together.core) > together.now_ms);
    assert_int_equal(core_deadline_ms(single.core), core_deadline_ms(together.core));
    (void)core_free(single.core);
    (void)core_free(together.core);
}

static void test_names_and_sessions(void **state)
{
    (void)state;
    struct turns turns;
    begin(&turns);
    play(&turns, true);
    for (uint32_t node = 0; node < NODES; node++) {
        char name[NAME_SIZE];
        (void)text_format(name, sizeof(name), "n-%u", node);
        uint32_t id = core_node_find(turns.core, name);
        assert_int_equal(id, node + 1);
        assert_int_equal(core_node(turns.core, id)->session, node % 4 == 0 ? 0 : session_of(node));
    }
    assert_int_equal(core_node_find(turns.core, "n-40"), 0);
    /* Another session whose number falls on the same place: both are found. */
    const uint64_t other = session_of(1) + (1ull << 40);
    struct event event = {.kind = EVENT_HELLO, .session = other, .u.hello = &hello(4)->u.hello};
    (void)step(&turns, &event);
    assert_int_equal(core_node(turns.core, 5)->session, other);
    struct message beat = {.kind = MSG_BEAT};
    beat.u.beat = (struct msg_beat){.sequence = 7, .sent_ms = 2, .checks_ok = true};
    event = (struct event){.kind = EVENT_MESSAGE, .session = session_of(1), .u.message = &beat};
    (void)step(&turns, &event);
    assert_int_equal(core_node(turns.core, 2)->beat_sequence, 7);
    assert_int_equal(core_node(turns.core, 5)->beat_sequence, 0);
    (void)core_free(turns.core);
}

/* Another host says that it is this node; whoever is there is asked whether it still is. */
static void claim(struct turns *turns, uint32_t node, uint64_t session)
{
    struct message *other = hello(node);
    (void)text_copy(other->u.hello.boot_id, BOOT_ID_SIZE, "another");
    struct event event = {.kind = EVENT_HELLO, .session = session, .u.hello = &other->u.hello};
    struct core_output output = step(turns, &event);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < output.action_count; i++) {
        const struct action *action = &output.actions[i];
        asked += action->kind == ACTION_PING && action->session == session_of(node) ? 1 : 0;
    }
    assert_int_equal(asked, 1);
}

static uint64_t session_now(const struct turns *turns, uint32_t node)
{
    return core_node(turns->core, node + 1)->session;
}

/* Two are asked at a time: the answer of one says nothing of the other. */
static void test_an_answer_is_about_one_node(void **state)
{
    (void)state;
    struct turns turns;
    begin(&turns);
    play(&turns, false);
    claim(&turns, 1, 901);
    claim(&turns, 2, 902);
    struct event gone = {.kind = EVENT_PINGED, .session = session_of(2)};
    (void)step(&turns, &gone);
    assert_int_equal(session_now(&turns, 2), 902);
    assert_int_equal(session_now(&turns, 1), session_of(1));
    struct event alive = {.kind = EVENT_PINGED, .session = session_of(1), .u.pinged_alive = true};
    struct core_output output = step(&turns, &alive);
    assert_int_equal(session_now(&turns, 1), session_of(1));
    uint32_t refused = 0;
    for (uint32_t i = 0; i < output.action_count; i++) {
        const struct action *action = &output.actions[i];
        refused += action->kind == ACTION_CLOSE && action->session == 901 ? 1 : 0;
    }
    assert_int_equal(refused, 1);
    (void)step(&turns, &alive); /* said again: nobody waits */
    assert_int_equal(session_now(&turns, 1), session_of(1));
    (void)core_free(turns.core);
}

/* Each job may start only when those before it have: one a round of consequences, as the later ones
 * go before. What the rounds of one step did not come to is not left to the next chance event. */
static void test_what_is_left_is_looked_at_soon(void **state)
{
    (void)state;
    enum { JOBS = 12, SOON_MS = 100 };
    struct rig *rig = rig_create(JOBS, 1);
    struct request request = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_PAUSE};
    assert_int_equal(rig_request(rig, &request), 0);
    rig_connect_all(rig);
    for (uint32_t i = 0; i < JOBS; i++) {
        char name[NAME_SIZE];
        (void)text_format(name, sizeof(name), "job-%u", i);
        struct job_spec spec = rig_spec(name, 1);
        spec.priority = i + 1;
        assert_int_not_equal(rig_submit(rig, &spec), 0);
    }
    rig_run(rig, 20000);
    request.automation = AUTOMATION_RESUME;
    struct event event = {.kind = EVENT_REQUEST, .now_ms = rig->now_ms, .u.request = &request};
    struct core_output output;
    core_step(rig->core, &event, &output); /* by hand: an answer to what it orders brings a look */
    assert_int_equal(core_job_at(rig->core, 0)->d.state, JOB_PENDING);
    assert_int_equal(core_job_at(rig->core, JOBS - 1)->d.state, JOB_STARTING);
    uint64_t due_ms = core_deadline_ms(rig->core);
    assert_in_range(due_ms, rig->now_ms, rig->now_ms + SOON_MS);
    event = (struct event){.kind = EVENT_TICK, .now_ms = due_ms};
    core_step(rig->core, &event, &output);
    assert_int_equal(core_job_at(rig->core, 0)->d.state, JOB_STARTING);
    rig_free(rig);
}

/* An agent that hears nothing for 6 s dials anew, by its own clock: also of a controller whose clock
 * stands still again and again, since it does not run. */
static void test_beats_are_answered_while_our_clock_stands(void **state)
{
    (void)state;
    struct turns turns;
    begin(&turns);
    struct event event = {
        .kind = EVENT_HELLO, .session = session_of(0), .u.hello = &hello(0)->u.hello};
    (void)step(&turns, &event);
    uint32_t unanswered = 0;
    uint32_t acks = 0;
    for (uint64_t beat = 1; beat <= 12; beat++) {
        struct message message = {.kind = MSG_BEAT};
        message.u.beat = (struct msg_beat){.sequence = beat, .checks_ok = true};
        turns.now_ms += 1000;
        event = (struct event){.kind = EVENT_MESSAGE,
                               .idle_ms = 1000,
                               .session = session_of(0),
                               .u.message = &message};
        struct core_output output = step(&turns, &event);
        unanswered++;
        for (uint32_t i = 0; i < output.action_count; i++) {
            if (output.actions[i].message == MSG_ACK) {
                assert_int_equal(output.actions[i].u.ack.beat_sequence, beat);
                unanswered = 0;
                acks++;
            }
        }
        assert_true(unanswered < 4);
    }
    assert_int_equal(acks, 3); /* and not each of them: that would double what a beat costs */
    (void)core_free(turns.core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_look_comes_to_the_same),
        cmocka_unit_test(test_names_and_sessions),
        cmocka_unit_test(test_beats_are_answered_while_our_clock_stands),
        cmocka_unit_test(test_an_answer_is_about_one_node),
        cmocka_unit_test(test_what_is_left_is_looked_at_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
