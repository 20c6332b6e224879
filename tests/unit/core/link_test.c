/* link_test.c: who is asked about a silent node, and what its silence alone must not decide. */
#include <string.h>

#include "tests/lib/core_rig.h"
#include "tests/lib/test.h"

enum { NODES = 2400, CUT_OFF = NODES / 2 };

/* One peer alone can be asked, so that its word takes a while to count. */
static void test_who_is_gone_is_lost_once(void **state)
{
    (void)state;
    struct rig *rig = rig_create(2, 1);
    rig_connect_all(rig);
    rig_run(rig, 1500);
    rig_quiet(rig, 1, RIG_PEER_NOTHING);
    struct message goodbye = {.kind = MSG_GOODBYE, .u.goodbye.kind = GOODBYE_REBOOT};
    rig_send(rig, 1, &goodbye);
    rig_run(rig, 5000);
    assert_int_not_equal(core_node(rig->core, 2)->suspect_ms, 0);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    rig_kill_agent(rig, 1, RIG_PEER_NOTHING); /* the connection closes */
    assert_true(core_node(rig->core, 2)->d.lost);
    assert_int_equal(core_node(rig->core, 2)->suspect_ms, 0);
    rig_run(rig, 20000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 1);
    rig_free(rig);
}

/* The path to all racks of one half breaks: more nodes than may be asked about at a time, in a row,
 * and the breaker takes it for their own trouble. Every one is asked about before it is judged. */
static void test_half_a_fleet_is_asked_about(void **state)
{
    (void)state;
    struct core_limits limits = core_limits_default;
    struct core_config config = {0};
    limits.agents = NODES;
    struct rig *rig = rig_create_with(NODES, 1, &limits, &config);
    rig->unchecked = true;
    rig->together = true;
    for (uint32_t i = 0; i < NODES; i++) {
        memcpy(rig->nodes[i].rack, i < CUT_OFF ? "cut" : "off", sizeof "cut");
    }
    rig_connect_all(rig);
    rig_run(rig, 2000);
    for (uint32_t i = 0; i < CUT_OFF; i++) {
        rig_kill_agent(rig, i, RIG_PEER_OK);
    }
    rig_run(rig, 14000);
    assert_false(core_globals(rig->core)->breaker_open);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    for (uint32_t i = 0; i < CUT_OFF; i++) {
        assert_int_equal(core_node(rig->core, i + 1)->answer, PEER_ANSWERS);
    }
    core_check(rig->core);
    rig_free(rig);
}

static void freeze_agent(struct rig *rig, uint32_t job, uint32_t slot)
{
    struct rig_node *node = &rig->nodes[rig_node_of(rig, job, slot)];
    node->agent_up = false;
    node->peer = RIG_PEER_SILENT;
}

/* Whose steps were to tell that a node still works falls silent too, before they do: another one of
 * the job tells it, and of both. */
static void test_another_witness(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 1);
    rig_connect_all(rig);
    rig->step_ms = 5000;
    struct job_spec spec = rig_spec("demo", 4);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 30000));
    rig_run(rig, 8000);
    freeze_agent(rig, job, 1);
    const struct node *silent = core_node(rig->core, rig_node_of(rig, job, 1) + 1);
    while (silent->witness == 0) {
        assert_false(silent->agent_silent);
        rig_run(rig, 10);
    }
    assert_int_equal(silent->witness, rig_node_of(rig, job, 0) + 1);
    freeze_agent(rig, job, 0);
    rig_run(rig, 60000);
    assert_true(silent->agent_silent);
    assert_true(core_node(rig->core, rig_node_of(rig, job, 0) + 1)->agent_silent);
    rig_run(rig, 700000); /* longer than an agent may be away that nobody vouches for */
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    rig_free(rig);
}

/* A controller that is late every second still sees who is silent. */
static void test_stalls_in_a_row_hide_nobody(void **state)
{
    (void)state;
    struct rig *rig = rig_create(12, 1);
    rig_connect_all(rig);
    rig_run(rig, 2000);
    rig_quiet(rig, 3, RIG_PEER_NOTHING);
    for (uint32_t i = 0; i < 60 && rig_count(rig, RECORD_node_lost_kind) == 0; i++) {
        rig_run(rig, 700);
        const uint64_t deadline = core_deadline_ms(rig->core);
        rig->now_ms = (deadline > rig->now_ms ? deadline : rig->now_ms) + 300;
        rig_event(rig, EVENT_TICK, 0);
    }
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 1);
    rig_free(rig);
}

/* The controller stands still, wakes, and looks at its limits before it reads what was sent. */
static void test_what_lies_in_the_sockets_is_read_first(void **state)
{
    (void)state;
    struct rig *rig = rig_create(40, 1);
    rig_connect_all(rig);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        rig->nodes[i].beat_at_ms += 25ull * i; /* not all in one moment */
    }
    rig_run(rig, 2000);
    for (uint64_t stall_ms = 1000; stall_ms <= 64000; stall_ms *= 2) {
        rig_run(rig, 10000 + stall_ms % 997); /* beats are of some age */
        rig->now_ms += stall_ms;
        for (uint32_t i = 0; i < 5; i++) { /* so long it reads */
            rig_event(rig, EVENT_TICK, 0);
            rig->now_ms += 100;
        }
        for (uint32_t n = 1; n <= core_node_count(rig->core); n++) {
            assert_int_equal(core_node(rig->core, n)->suspect_ms, 0);
        }
    }
    rig_run(rig, 10000);
    assert_false(core_globals(rig->core)->breaker_open);
    rig->now_ms += 8000;
    rig_event(rig, EVENT_TICK, 0);
    rig_quiet(rig, 3, RIG_PEER_NOTHING); /* one is silent from then on: it is found */
    rig_run(rig, 10000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 1);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_gone_is_lost_once),
        cmocka_unit_test(test_another_witness),
        cmocka_unit_test(test_stalls_in_a_row_hide_nobody),
        cmocka_unit_test(test_what_lies_in_the_sockets_is_read_first),
        cmocka_unit_test(test_half_a_fleet_is_asked_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
