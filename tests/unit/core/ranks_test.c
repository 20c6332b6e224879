/* ranks_test.c: which ranks run where follows from the layout and from nothing else, and a node
 * that is gone is replaced however it went.
 *
 *   E8   silent, said goodbye for good, shut down, removed: the same recovery
 *   E10  rank = f(slot), in every attempt, whoever was heard of first (A4: survivors stay) */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { NODES = 12, SLOTS = 5, SEEDS = 60, ROUNDS = 4 };

/* ---- E10 ----------------------------------------------------------------------------------- */

static void shuffle(struct prng *prng, uint32_t order[NODES])
{
    for (uint32_t i = 0; i < NODES; i++) {
        const uint32_t other = (uint32_t)prng_below(prng, i + 1);
        order[i] = i;
        order[i] = order[other];
        order[other] = i;
    }
}

/* Agents that are up say hello, in any order. */
static void connect_shuffled(struct rig *rig, struct prng *prng, const bool up[NODES])
{
    uint32_t order[NODES];
    shuffle(prng, order);
    for (uint32_t i = 0; i < NODES; i++) {
        if (up[order[i]]) {
            rig_connect(rig, order[i]);
            rig_run(rig, prng_below(prng, 3) * 10);
        }
    }
}

/* Each slot's ranks run on its holder, and nobody else runs any of this attempt. */
static void check_rows(const struct rig *rig, uint32_t job)
{
    const uint32_t attempt = core_job(rig->core, job)->d.attempt;
    bool seen[SLOTS] = {false};
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t k = 0; k < rig->nodes[i].attempt_count; k++) {
            const struct attempt_report *report = &rig->nodes[i].attempts[k].report;
            if (report->attempt != attempt || report->empty || !rig->nodes[i].host_up) {
                continue;
            }
            assert_int_equal(report->first_rank % RIG_RANKS, 0);
            assert_int_equal(report->rank_count, RIG_RANKS);
            const uint32_t slot = report->first_rank / RIG_RANKS;
            assert_true(slot < SLOTS && !seen[slot]);
            seen[slot] = true;
            assert_int_equal(rig_node_of(rig, job, slot), i);
        }
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        assert_true(seen[slot]);
    }
}

/* The controller is killed, and the agents come back to the new one as chance has it. */
static void begin_anew(struct rig *rig, struct prng *prng)
{
    bool up[NODES];
    for (uint32_t i = 0; i < NODES; i++) {
        up[i] = rig->nodes[i].agent_up;
        rig->nodes[i].agent_up = false;
    }
    rig_restart(rig, prng_below(prng, 3000));
    connect_shuffled(rig, prng, up);
    rig_run(rig, 2000);
}

static void one_history(uint64_t seed)
{
    struct prng prng;
    prng_seed(&prng, seed);
    struct rig *rig = rig_create_small(NODES, seed);
    bool all[NODES];
    memset(all, true, sizeof(all));
    connect_shuffled(rig, &prng, all);
    rig_run(rig, 2500);
    struct job_spec spec = rig_spec("demo", SLOTS);
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    check_rows(rig, job);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t before[SLOTS];
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            before[slot] = rig_node_of(rig, job, slot);
        }
        const uint32_t attempt = core_job(rig->core, job)->d.attempt;
        const uint32_t struck = (uint32_t)prng_below(&prng, SLOTS);
        if (prng_below(&prng, 3) == 0) {
            begin_anew(rig, &prng);
        }
        rig_save(rig, job, core_job(rig->core, job)->step_top);
        rig_kill_node(rig, before[struck], RIG_PEER_NOTHING);
        assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
        rig_run(rig, prng_below(&prng, 100) * 10);
        if (prng_below(&prng, 3) == 0) {
            begin_anew(rig, &prng);
        }
        assert_true(rig_until(rig, job, JOB_RUNNING, 40000));
        assert_int_equal(core_job(rig->core, job)->d.attempt, attempt + 1);
        check_rows(rig, job);
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            assert_int_equal(rig_node_of(rig, job, slot) != before[slot], slot == struck);
        }
    }
    rig_replay_check(rig);
    rig_free(rig);
}

static void ranks_follow_the_layout(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        one_history(seed);
    }
}

/* ---- E8 ------------------------------------------------------------------------------------ */

enum way { FALLS_SILENT, CLOSES, SAYS_GONE, SHUTS_DOWN, IS_REMOVED };

static void go(struct rig *rig, uint32_t node, enum way way)
{
    struct message goodbye = {.kind = MSG_GOODBYE};
    if (way == FALLS_SILENT || way == IS_REMOVED) {
        rig_quiet(rig, node, RIG_PEER_NOTHING);
        return;
    }
    if (way != CLOSES) {
        goodbye.u.goodbye.kind = way == SAYS_GONE ? GOODBYE_GONE : GOODBYE_REBOOT;
        rig_send(rig, node, &goodbye);
    }
    rig_kill_node(rig, node, RIG_PEER_NOTHING);
}

/* Its registration is deleted as soon as that is allowed: never while it holds a slot. */
static void forget(struct rig *rig, uint32_t node)
{
    const char *name = rig->nodes[node].name;
    assert_int_equal(rig_nodes(rig, REQUEST_REMOVE, name, WHEN_NOW), -EBUSY);
    assert_non_null(strstr(rig->reply_text, "holds slot 2 of demo"));
    const struct node *known = core_node(rig->core, node + 1);
    while (known->d.job != 0) {
        rig_run(rig, 10);
        assert_true(rig->now_ms < 60000);
    }
    assert_int_equal(rig_nodes(rig, REQUEST_REMOVE, name, WHEN_NOW), 0);
    assert_true(known->d.removed);
}

static void gone_is_gone(void **state)
{
    (void)state;
    uint32_t first[SLOTS] = {0};
    for (uint32_t way = FALLS_SILENT; way <= IS_REMOVED; way++) {
        struct rig *rig = rig_create_small(NODES, 1);
        rig_connect_all(rig);
        struct job_spec spec = rig_spec("demo", SLOTS);
        const uint32_t job = rig_submit(rig, &spec);
        assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
        rig_save(rig, job, 3);
        rig_run(rig, 1000);
        const uint32_t node = rig_node_of(rig, job, 2);
        go(rig, node, (enum way)way);
        assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
        if (way == IS_REMOVED) {
            forget(rig, node);
        }
        assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
        assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
        assert_int_equal(core_job(rig->core, job)->d.restore_step, 3);
        assert_int_equal(rig_count(rig, RECORD_recovery_opened_kind), 2); /* the start is one */
        assert_int_equal(rig_last(rig, RECORD_recovery_plan_kind)->u.recovery_plan.moved_nodes, 1);
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            first[slot] = way == FALLS_SILENT ? rig_node_of(rig, job, slot) : first[slot];
            assert_int_equal(rig_node_of(rig, job, slot), first[slot]);
        }
        assert_int_not_equal(first[2], node);
        rig_replay_check(rig);
        rig_free(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_follow_the_layout),
        cmocka_unit_test(gone_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
