/* view_test.c: when a controller that has just started may judge; and in which kind of time a job's
 * seconds end up. */
#include "tests/lib/test.h"

#include "controller/core/core.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { FIRST_MS = 1000, GRACE_MS = 15000, GRACE_MAX_MS = 60000, QUIET_MS = 3000, NODES = 64 };

struct start {
    struct core *core;
    uint64_t now_ms;
};

static void step(struct start *start, uint64_t now_ms, struct event *event)
{
    struct core_output output;
    start->now_ms = now_ms;
    event->now_ms = now_ms;
    event->wall_ms = 1764000000000 + now_ms;
    core_step(start->core, event, &output);
}

static void begin(struct start *start)
{
    struct core_limits limits = core_limits_default;
    limits.agents = NODES;
    struct core_config config = {0};
    struct event event = {.kind = EVENT_START};
    (void)text_copy(event.u.start.cluster_id, CLUSTER_ID_SIZE, "00112233445566778899aabbccddeeff");
    (void)text_copy(event.u.start.store_id, CLUSTER_ID_SIZE, "ffeeddccbbaa99887766554433221100");
    assert_int_equal(core_create(&limits, &config, 1, &start->core), 0);
    assert_false(core_ready(start->core));
    step(start, FIRST_MS, &event);
}

/* A tick at each deadline before then, as a driver owes them. */
static void pass(struct start *start, uint64_t after_ms)
{
    uint64_t due = core_deadline_ms(start->core);
    while (due < FIRST_MS + after_ms) {
        struct event tick = {.kind = EVENT_TICK};
        step(start, due > start->now_ms ? due : start->now_ms, &tick);
        due = core_deadline_ms(start->core);
    }
}

static bool ready_at(struct start *start, uint64_t after_ms)
{
    struct event tick = {.kind = EVENT_TICK};
    pass(start, after_ms);
    step(start, FIRST_MS + after_ms, &tick);
    return core_ready(start->core);
}

static void hello(struct start *start, uint64_t after_ms, uint32_t node)
{
    struct msg_hello hello = {.incarnation = 1, .peer_port = 1};
    (void)text_format(hello.node, NAME_SIZE, "n-%u", node);
    (void)text_format(hello.boot_id, BOOT_ID_SIZE, "boot-%u", node);
    (void)text_copy(hello.address, ADDRESS_SIZE, "127.0.0.1");
    struct event event = {.kind = EVENT_HELLO, .session = node + 1, .u.hello = &hello};
    pass(start, after_ms);
    step(start, FIRST_MS + after_ms, &event);
}

static void test_ready_after_the_grace(void **state)
{
    (void)state;
    struct start start;
    begin(&start);
    assert_false(ready_at(&start, GRACE_MS - 1));
    assert_true(ready_at(&start, GRACE_MS));
    (void)core_free(start.core);
}

static void test_ready_when_nobody_new_comes(void **state)
{
    (void)state;
    struct start start;
    begin(&start);
    hello(&start, GRACE_MS - 100, 0);
    assert_false(ready_at(&start, GRACE_MS));
    assert_false(ready_at(&start, GRACE_MS - 100 + QUIET_MS - 1));
    assert_true(ready_at(&start, GRACE_MS - 100 + QUIET_MS));
    (void)core_free(start.core);
}

static void test_ready_though_they_come_and_come(void **state)
{
    (void)state;
    struct start start;
    begin(&start);
    for (uint32_t i = 1; i < GRACE_MAX_MS / 1000; i++) {
        hello(&start, i * 1000, i);
        assert_false(core_ready(start.core));
    }
    assert_false(ready_at(&start, GRACE_MAX_MS - 1));
    assert_true(ready_at(&start, GRACE_MAX_MS));
    (void)core_free(start.core);
}

/* Timings that a site does not set are those of the header; what it sets stays. */
static void test_timings_by_default(void **state)
{
    (void)state;
    struct start start;
    begin(&start);
    const struct core_config *c = core_config_of(start.core);
    assert_int_equal(c->start_grace_ms, GRACE_MS);
    assert_int_equal(c->start_quiet_ms, QUIET_MS);
    assert_int_equal(c->start_grace_max_ms, GRACE_MAX_MS);
    assert_int_equal(c->reconnect_grace_ms, 3000);
    assert_int_equal(c->beat_ms, 1000);
    assert_int_equal(c->probe_timeout_ms, 1000);
    assert_int_equal(c->evidence_quiet_ms, 2000);
    assert_int_equal(c->evidence_max_ms, 10000);
    assert_int_equal(c->evidence_gone_ms, 300);
    assert_int_equal(c->kill_extra_ms, 10000);
    assert_int_equal(c->launch_timeout_ms, 20000);
    assert_int_equal(c->check_timeout_ms, 5000);
    assert_int_equal(c->end_grace_ms, 10 * 60 * 1000);
    assert_int_equal(c->agent_away_ms, 10 * 60 * 1000);
    assert_int_equal(c->probation_ms, 24 * 3600 * 1000);
    assert_int_equal(c->port_low, 29400);
    assert_int_equal(c->port_high, 29999);
    (void)core_free(start.core);
    const struct core_config own = {.start_grace_ms = 500, .port_low = 1, .port_high = 2};
    assert_int_equal(core_create(&core_limits_default, &own, 1, &start.core), 0);
    c = core_config_of(start.core);
    assert_int_equal(c->start_grace_ms, 500);
    assert_int_equal(c->start_quiet_ms, 500); /* never longer than the grace */
    assert_int_equal(c->port_low, 1);
    assert_int_equal(c->port_high, 2);
    (void)core_free(start.core);
}

/* ---- where the time goes ---------------------------------------------------------------------- */

static struct rig *running(uint32_t *ret_job)
{
    struct rig *rig = rig_create(6, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    assert_int_equal(core_job(rig->core, *ret_job)->d.restore_step, 0); /* from the beginning */
    assert_int_equal(core_job(rig->core, *ret_job)->d.restore_attempt, 0);
    rig_run(rig, 10000);
    return rig;
}

static uint64_t spent(const struct rig *rig, uint32_t job, uint8_t kind)
{
    return core_job(rig->core, job)->d.time_ms[kind];
}

static void test_steps_of_a_job_that_ended_well_count(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    rig_end_all(rig, job, RANK_EXITED, 0);
    assert_true(rig_until(rig, job, JOB_SUCCEEDED, 5000));
    assert_in_range(spent(rig, job, TIME_PRODUCTIVE), 10000, 10100);
    assert_int_equal(spent(rig, job, TIME_LOST_WORK), 0);
    rig_free(rig);
}

static void test_steps_that_nobody_saved_are_lost(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
    assert_true(rig_until(rig, job, JOB_CANCELLED, 20000));
    assert_in_range(spent(rig, job, TIME_LOST_WORK), 10000, 10100);
    assert_int_equal(spent(rig, job, TIME_PRODUCTIVE), 0);
    rig_free(rig);
}

static void test_steps_that_were_saved_count(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    rig_save(rig, job, core_job(rig->core, job)->step);
    rig_run(rig, 2000);
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_in_range(spent(rig, job, TIME_PRODUCTIVE), 10000, 10100);
    assert_in_range(spent(rig, job, TIME_LOST_WORK), 1900, 2100);
    rig_free(rig);
}

/* ---- what failures use up --------------------------------------------------------------------- */

static void fail_once(struct rig *rig, uint32_t job, bool host)
{
    uint32_t node = rig_node_of(rig, job, 1);
    if (host) {
        rig_kill_node(rig, node, RIG_PEER_NOTHING);
    } else {
        rig_end_rank(rig, node, 0, RANK_EXITED, 1);
    }
    assert_true(rig_until(rig, job, JOB_RECOVERING, 20000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
}

static void test_each_failure_uses_its_own_budget(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    const struct record_image_job *d = &core_job(rig->core, job)->d;
    fail_once(rig, job, false);
    assert_int_equal(d->used_unknown, 1);
    assert_int_equal(d->no_progress, 1);
    assert_int_equal(d->other_no_progress, 0);
    assert_int_equal(d->same_failure, 1);
    fail_once(rig, job, true); /* not the program's */
    assert_int_equal(d->used_unknown, 1);
    assert_int_equal(d->no_progress, 1);
    assert_int_equal(d->other_no_progress, 1);
    assert_int_equal(d->same_failure, 1);
    rig_save(rig, job, core_job(rig->core, job)->step_top);
    assert_int_equal(d->used_unknown, 0);
    assert_int_equal(d->no_progress, 0);
    assert_int_equal(d->other_no_progress, 0);
    assert_int_equal(d->same_failure, 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timings_by_default),
        cmocka_unit_test(test_ready_after_the_grace),
        cmocka_unit_test(test_ready_when_nobody_new_comes),
        cmocka_unit_test(test_ready_though_they_come_and_come),
        cmocka_unit_test(test_steps_of_a_job_that_ended_well_count),
        cmocka_unit_test(test_steps_that_nobody_saved_are_lost),
        cmocka_unit_test(test_steps_that_were_saved_count),
        cmocka_unit_test(test_each_failure_uses_its_own_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
