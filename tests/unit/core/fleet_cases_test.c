/* fleet_cases_test.c: what users of other systems saw go wrong in large clusters, each at the size
 * that this is made for: 2,112 nodes, of which 2,048 hold slots. The letter and number before each
 * is the case's. What is decided here needs no network: the same over real connections is in
 * tests/e2e/swarm_fleet_test.py, the same cases with few nodes and every line of the trace are in
 * tests/scenario. Times are virtual. */
#include "tests/lib/test.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { NODES = 2112, SLOTS = 2048, RACK = 32, RANKS = SLOTS * RIG_RANKS, GRACE_MS = 15000 };

/* All nodes, this many to a rack, and a job on as many as it wants, which runs. */
static struct rig *fleet(uint32_t rack, uint32_t start_grace_ms, uint32_t *ret_job)
{
    struct core_limits limits = core_limits_default;
    struct core_config config = {.start_grace_ms = start_grace_ms};
    struct rig *rig = rig_create_with(NODES, 1, &limits, &config);
    rig->unchecked = true;
    rig->together = true;
    for (uint32_t i = 0; i < NODES; i++) {
        (void)text_format(rig->nodes[i].rack, NAME_SIZE, "rack-%03u", i / rack);
    }
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("fleet", SLOTS);
    spec.tensor = 2;
    spec.pipeline = 16; /* a replica is 16 slots: half a rack */
    spec.data = SLOTS / 16;
    spec.retries_unknown = 100; /* it is struck again and again */
    spec.no_progress_limit = 100;
    *ret_job = rig_submit(rig, &spec);
    assert_int_not_equal(*ret_job, 0);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 60000));
    rig_run(rig, 1000);
    return rig;
}

static struct rig *running(uint32_t rack, uint32_t *ret_job)
{
    return fleet(rack, 0, ret_job);
}

static uint32_t starts(const struct rig *rig)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        sum += rig->starts[i];
    }
    return (uint32_t)sum;
}

/* Nodes on which ranks of this attempt live. */
static uint32_t at_work(const struct rig *rig, uint32_t attempt)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t k = 0; k < rig->nodes[i].attempt_count; k++) {
            const struct attempt_report *report = &rig->nodes[i].attempts[k].report;
            count += report->attempt == attempt && !report->empty ? 1 : 0;
        }
    }
    return count;
}

static bool has_mark(const struct rig *rig, uint32_t node, const char *code)
{
    for (uint32_t i = 0; i < core_mark_count(rig->core, node + 1); i++) {
        if (text_equal(core_mark(rig->core, node + 1, i)->d.code, code)) {
            return true;
        }
    }
    return false;
}

/* A rank of this slot's ends by a signal: what there is to recover from in many of these cases. */
static void strike(struct rig *rig, uint32_t job, uint32_t slot)
{
    rig_end_rank(rig, rig_node_of(rig, job, slot), 0, RANK_SIGNALED, 9);
}

/* The time until the job steps again. */
static uint64_t recover(struct rig *rig, uint32_t job)
{
    const uint64_t from_ms = rig->now_ms;
    assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    return rig->now_ms - from_ms;
}

/* E6: starts are handed out side by side. One after the other, each waiting for the report of the
 * one before, would take 2,048 ticks; here all of them come with one. */
static void starts_go_out_together(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(RACK, &job);
    strike(rig, job, 7);
    (void)recover(rig, job);
    const uint64_t first_ms = rig->nodes[rig_node_of(rig, job, 0)].attempts[0].started_ms;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const struct rig_node *node = &rig->nodes[rig_node_of(rig, job, slot)];
        assert_int_equal(node->attempt_count, 1);
        assert_int_equal(node->attempts[0].report.attempt, 1);
        assert_int_equal(node->attempts[0].started_ms, first_ms);
    }
    assert_int_equal(starts(rig), 2 * RANKS);
    rig_free(rig);
}

/* A14: the network falls apart into two halves at the moment when the job must be restarted. The
 * half that nobody reaches goes on with its attempt, so there must be no other one beside it: not
 * until it is heard again and has stopped. Nobody is replaced. */
static void two_halves_make_one_attempt(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(RACK, &job);
    uint32_t struck = 0;
    while (rig_node_of(rig, job, struck) >= NODES / 2) {
        struck++;
    }
    for (uint32_t i = NODES / 2; i < NODES; i++) {
        rig_kill_agent(rig, i, RIG_PEER_NOTHING); /* ranks live on */
    }
    strike(rig, job, struck);
    for (uint32_t second = 0; second < 60; second++) {
        rig_run(rig, 1000);
        assert_int_equal(at_work(rig, 1), 0);
    }
    const uint32_t apart = at_work(rig, 0);
    assert_in_range(apart, SLOTS / 2 - 64, SLOTS / 2 + 64); /* the others have stopped */
    assert_true(core_globals(rig->core)->breaker_open);
    for (uint32_t i = NODES / 2; i < NODES; i++) {
        assert_int_equal(core_mark_count(rig->core, i + 1), 0);
        rig_connect(rig, i);
        if (i % RACK == 0) { /* not all of them at one moment */
            rig_run(rig, 50);
            assert_true(at_work(rig, 0) == 0 || at_work(rig, 1) == 0);
        }
    }
    while (core_job(rig->core, job)->d.state != JOB_RUNNING) {
        rig_run(rig, 100);
        assert_true(at_work(rig, 0) == 0 || at_work(rig, 1) == 0);
        assert_true(rig->now_ms < 300000);
    }
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    assert_int_equal(starts(rig), 2 * RANKS);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    assert_int_equal(rig_count(rig, RECORD_slot_taken_kind), SLOTS);
    rig_free(rig);
}

/* A19: at one moment a rank's end is reported, the node falls silent, its connection closes and an
 * operator has it leave at once: one recovery, one new attempt. */
static void triggers_merge(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(RACK, &job);
    const uint32_t victim = rig_node_of(rig, job, 1234);
    rig_end_rank(rig, victim, 0, RANK_EXITED, 1);
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, rig->nodes[victim].name, WHEN_NOW), 0);
    rig_kill_node(rig, victim, RIG_PEER_NOTHING);
    (void)recover(rig, job);
    rig_run(rig, 20000);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    assert_int_equal(rig_count(rig, RECORD_attempt_made_kind), 2);
    assert_int_equal(rig_count(rig, RECORD_recovery_opened_kind), 2); /* the start is one */
    assert_int_equal(rig_count(rig, RECORD_slot_taken_kind), SLOTS + 1);
    assert_int_not_equal(rig_node_of(rig, job, 1234), victim);
    rig_free(rig);
}

/* B1: the management network drops all that 302 nodes of all racks say, and nobody else reaches
 * them either; their ranks train on. That is more than can be a fault of theirs: nothing is
 * evicted, and it is said. B4: hardly is that over, the controller stands still for 40 s. */
static void our_own_view_fails(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(RACK, &job);
    const uint64_t step = core_job(rig->core, job)->step_top;
    for (uint32_t i = 0; i < NODES; i += 7) {
        rig->nodes[i].agent_up = false;
        rig->nodes[i].peer = RIG_PEER_NOTHING;
    }
    rig_run(rig, 20000);
    assert_true(core_globals(rig->core)->breaker_open);
    const struct record_breaker *breaker = &rig_last(rig, RECORD_breaker_kind)->u.breaker;
    assert_int_equal(breaker->limit, NODES * 5 / 100);
    assert_true(breaker->suspects > breaker->limit);
    assert_true(core_job(rig->core, job)->step_top > step + 100);
    for (uint32_t i = 0; i < NODES; i += 7) {
        rig->nodes[i].agent_up = true;
    }
    rig_run(rig, 40000);
    assert_false(core_globals(rig->core)->breaker_open);
    rig->now_ms += 40000; /* nothing was heard, since nobody listened */
    rig_run(rig, 10000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    assert_int_equal(rig_count(rig, RECORD_incident_opened_kind), 0);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    assert_int_equal(starts(rig), RANKS);
    rig_free(rig);
}

/* B3: a node comes back from a boot without a goodbye. It is replaced, checked, and on probation:
 * while there is any other spare, that one is taken. */
static void unclean_boot_is_the_last_choice(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(RACK, &job);
    const uint32_t crashed = rig_node_of(rig, job, 500);
    rig_boot(rig, crashed, false);
    (void)recover(rig, job);
    assert_int_not_equal(rig_node_of(rig, job, 500), crashed);
    rig_run(rig, 5000);
    const struct node *node = core_node(rig->core, crashed + 1);
    assert_int_equal(node->d.life, NODE_PROBATION);
    assert_true(core_node_usable(rig->core, node));
    /* Both neighbours of this slot are in its rack, and so is no other spare: it is the nearest. */
    const uint32_t next = rig_node_of(rig, job, 508);
    assert_int_equal(next / RACK, crashed / RACK);
    rig_kill_node(rig, next, RIG_PEER_NOTHING);
    (void)recover(rig, job);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 2);
    assert_int_equal(node->d.job, 0);
    rig_free(rig);
}

/* B5: a rack of 20 dies at once: one incident that blames what they share, one recovery, and as
 * many nodes moved as were lost. The breaker does not take it for our own blindness. */
static void a_rack_is_one_incident(void **state)
{
    (void)state;
    enum { TWENTY = 20 };
    uint32_t job;
    struct rig *rig = running(TWENTY, &job);
    const uint32_t first = rig_node_of(rig, job, 700) / TWENTY * TWENTY;
    uint32_t held = 0;
    for (uint32_t i = first; i < first + TWENTY; i++) {
        held += core_node(rig->core, i + 1)->d.job == job ? 1 : 0;
        rig_kill_node(rig, i, RIG_PEER_NOTHING);
    }
    assert_true(held > 1);
    (void)recover(rig, job);
    rig_run(rig, 20000);
    assert_int_equal(rig_count(rig, RECORD_incident_opened_kind), 1);
    assert_string_equal(rig_last(rig, RECORD_verdict_kind)->u.verdict.rule, "lost-together");
    assert_int_equal(rig_last(rig, RECORD_verdict_kind)->u.verdict.owner, OWNER_FACILITY);
    assert_int_equal(rig_count(rig, RECORD_recovery_opened_kind), 2); /* the start is one */
    assert_int_equal(rig_last(rig, RECORD_recovery_plan_kind)->u.recovery_plan.moved_nodes, held);
    assert_int_equal(rig_last(rig, RECORD_recovery_plan_kind)->u.recovery_plan.shifted_ranks, 0);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), TWENTY);
    assert_int_equal(rig_count(rig, RECORD_breaker_kind), 0);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_free(rig);
}

/* D8: nodes that cannot be emptied are swapped when the time for that is over, and not waited for:
 * it takes as long with five of them as with one, although none ever ends. */
static void stuck_nodes_are_not_waited_for(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(RACK, &job);
    static const uint32_t stuck[] = {1000, 50, 150, 250, 350, 450}; /* slots: one, then five */
    strike(rig, job, 3);
    const uint64_t easy_ms = recover(rig, job);
    uint64_t took_ms[2];
    for (uint32_t round = 0; round < 2; round++) {
        rig_run(rig, 5000);
        for (uint32_t i = round; i < (round == 0 ? 1u : ARRAY_SIZE(stuck)); i++) {
            const uint32_t node = rig_node_of(rig, job, stuck[i]);
            rig->nodes[node].ignore_stop = true;
        }
        strike(rig, job, 10 + 100 * round);
        took_ms[round] = recover(rig, job);
        assert_int_equal(core_job(rig->core, job)->d.attempt, 2 + round);
    }
    uint32_t unproven = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        unproven += has_mark(rig, i, "unproven") ? 1 : 0;
        assert_int_equal(has_mark(rig, i, "unproven"), rig->nodes[i].ignore_stop);
        assert_true(!rig->nodes[i].ignore_stop || core_node(rig->core, i + 1)->d.job == 0);
    }
    assert_int_equal(unproven, ARRAY_SIZE(stuck));
    assert_true(took_ms[0] > easy_ms);
    assert_in_range(took_ms[0], took_ms[1] - 200, took_ms[1] + 200);
    assert_true(took_ms[0] < 20000); /* grace 2 s, 10 s more, and what a recovery takes */
    rig_free(rig);
}

/* D10: a node falls silent as its job must stop: every phase goes on without it as soon as it is
 * lost, long before the time to stop is over. The same for a cancel. */
static void no_step_waits_for_the_dead(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(RACK, &job);
    rig_quiet(rig, rig_node_of(rig, job, 900), RIG_PEER_NOTHING);
    strike(rig, job, 3);
    assert_true(recover(rig, job) < 10000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 1);
    rig_run(rig, 1000);
    const uint64_t from_ms = rig->now_ms;
    const uint32_t dark = rig_node_of(rig, job, 901);
    rig_quiet(rig, dark, RIG_PEER_NOTHING);
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
    assert_true(rig_until(rig, job, JOB_CANCELLED, 10000));
    assert_true(rig->now_ms - from_ms > 2000); /* it was heard a moment ago: that takes its time */
    assert_true(has_mark(rig, dark, "unproven"));
    rig_free(rig);
}

/* A15, F4: kill -9 of the controller, a minute without one. Ranks step on, agents come back early
 * and late, and until the grace is over nobody is lost, whoever is missing; then the one that is
 * really gone is, and it alone. */
static void nobody_is_judged_after_a_start(void **state)
{
    (void)state;
    enum { LATE = 200 };
    uint32_t job;
    struct rig *rig = fleet(RACK, GRACE_MS, &job);
    const uint64_t step = core_job(rig->core, job)->step_top;
    const uint32_t gone = rig_node_of(rig, job, 77);
    for (uint32_t i = 0; i < LATE; i++) {
        rig->nodes[i * 10 + 1].agent_up = false; /* not back yet when it begins */
    }
    rig_quiet(rig, gone, RIG_PEER_NOTHING);
    rig_restart(rig, 60000);
    for (uint32_t i = 0; i < LATE; i++) {
        rig_run(rig, 50);
        if (i * 10 + 1 != gone) {
            rig_connect(rig, i * 10 + 1);
        }
    }
    rig_run(rig, GRACE_MS - 50 * LATE - 1000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    assert_true(core_job(rig->core, job)->step_top > step + 600); /* of 100 ms each */
    assert_int_equal(starts(rig), RANKS);
    (void)recover(rig, job);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 1);
    assert_int_equal(rig_last(rig, RECORD_node_lost_kind)->u.node_lost.node, gone + 1);
    assert_int_equal(rig_count(rig, RECORD_slot_taken_kind), SLOTS + 1);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_go_out_together),
        cmocka_unit_test(two_halves_make_one_attempt),
        cmocka_unit_test(triggers_merge),
        cmocka_unit_test(our_own_view_fails),
        cmocka_unit_test(unclean_boot_is_the_last_choice),
        cmocka_unit_test(a_rack_is_one_incident),
        cmocka_unit_test(stuck_nodes_are_not_waited_for),
        cmocka_unit_test(no_step_waits_for_the_dead),
        cmocka_unit_test(nobody_is_judged_after_a_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
