/* fleet_test.c: what one loss means to a whole fleet: 2,112 nodes, of which 2,048 hold slots.
 *
 * A8: the ranks that survive sit in a receive that never returns, and nobody of theirs gives up.
 * They must be stopped in under 15 s, all of them, and only then may anything start again. Times are
 * virtual: what the controller waits for, without networks and disks. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/core_rig.h"
#include "tests/lib/test.h"

enum { NODES = 2112, SLOTS = 2048, VICTIM_SLOT = 1234, BOUND_MS = 15000 };

static struct rig *fleet(uint32_t *ret_job)
{
    struct core_limits limits = core_limits_default;
    struct core_config config = {0};
    struct rig *rig = rig_create_with(NODES, 1, &limits, &config);
    rig->synchronous = false;
    rig->unchecked = true;
    rig->together = true;
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("fleet", SLOTS);
    spec.tensor = 2;
    spec.data = SLOTS;
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 10000));
    rig_run(rig, 1000);
    rig->steps_stopped = true; /* from now on each waits for what never comes */
    return rig;
}

static uint64_t starts_of(const struct rig *rig)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        sum += rig->starts[i];
    }
    return sum;
}

/* How many nodes hold the stop order of attempt 0 and when the last of them got it. */
static uint32_t stopped(const struct rig *rig, uint32_t job, uint64_t *ret_last_ms)
{
    uint32_t count = 0;
    *ret_last_ms = 0;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        for (uint32_t k = 0; k < rig->nodes[i].attempt_count; k++) {
            const struct rig_attempt *a = &rig->nodes[i].attempts[k];
            if (a->report.job != job || a->report.attempt != 0 || a->stop_seen_ms == 0) {
                continue;
            }
            count++;
            *ret_last_ms = a->stop_seen_ms > *ret_last_ms ? a->stop_seen_ms : *ret_last_ms;
        }
    }
    return count;
}

static void expect_stopped(struct rig *rig, uint32_t job, const char *how)
{
    const uint64_t lost_ms = rig->now_ms;
    const uint64_t before = starts_of(rig);
    uint64_t last_ms = 0;
    while (stopped(rig, job, &last_ms) == 0) {
        assert_true(rig->now_ms < lost_ms + 2 * BOUND_MS);
        rig_run(rig, 10);
    }
    assert_int_equal(stopped(rig, job, &last_ms), SLOTS - 1); /* all of them, and at once */
    const uint64_t ordered_ms = last_ms - lost_ms;
    assert_int_equal(starts_of(rig), before); /* nothing starts before all of it is over */
    assert_int_equal(rig_last(rig, RECORD_node_lost_kind)->u.node_lost.node,
                     core_slot(rig->core, core_job(rig->core, job), VICTIM_SLOT)->d.node);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 1);
    rig->steps_stopped = false;
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    printf("%s: %d survivors hold the stop order %llu ms after the loss; the next attempt steps "
           "after %llu ms (virtual time)\n",
           how, SLOTS - 1, (unsigned long long)ordered_ms,
           (unsigned long long)(rig->now_ms - lost_ms));
    assert_true(ordered_ms < BOUND_MS);
    assert_int_equal(starts_of(rig), before + SLOTS * RIG_RANKS); /* each once */
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        for (uint32_t k = 0; k < rig->nodes[i].attempt_count; k++) {
            const struct rig_attempt *a = &rig->nodes[i].attempts[k];
            assert_true(a->report.attempt == 1 || a->report.empty || !rig->nodes[i].host_up);
        }
    }
}

static void a_node_dies(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = fleet(&job);
    rig_kill_node(rig, rig_node_of(rig, job, VICTIM_SLOT), RIG_PEER_NOTHING);
    expect_stopped(rig, job, "its connection closes");
    rig_free(rig);
}

/* A12: what it drops is all that it would have said. It is counted no more, and it is shown why. */
static void a_node_falls_silent(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = fleet(&job);
    const uint32_t silent = rig_node_of(rig, job, VICTIM_SLOT);
    rig_quiet(rig, silent, RIG_PEER_NOTHING);
    expect_stopped(rig, job, "it falls silent");
    const struct node *node = core_node(rig->core, silent + 1);
    bool star;
    assert_string_equal(core_node_state_word(rig->core, node, &star), "down");
    assert_int_equal(node->d.lost_how, LOST_SILENT);
    assert_string_equal(core_node_role_word(rig->core, node), "-");
    assert_non_null(strstr(core_mark(rig->core, silent + 1, 0)->d.text, "lost"));
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_dies),
        cmocka_unit_test(a_node_falls_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
