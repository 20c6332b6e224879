/* breaker_test.c: the two breakers at their limits: how much silence is too much, and whose; how many
 * evictions, counted from what. */
#include "tests/lib/test.h"

#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { FLEET = 120, FLOOR = 4 };

/* A fleet of racks of that size, in which a job holds a few nodes; pool: of all others. */
static struct rig *fleet(uint32_t nodes, uint32_t rack, uint32_t slots, const char *pool)
{
    struct rig *rig = rig_create(nodes, 1);
    for (uint32_t i = 0; i < nodes; i++) {
        text_format(rig->nodes[i].rack, NAME_SIZE, "rack-%u", i / rack);
        if (i >= slots) {
            text_copy(rig->nodes[i].pool, NAME_SIZE, pool);
        }
    }
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", slots);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    rig_run(rig, 1000);
    return rig;
}

/* The first `count` spares, every `step`th; their hosts are gone. */
static void silence(struct rig *rig, uint32_t count, uint32_t step)
{
    for (uint32_t i = 0; count > 0; i += step) {
        if (core_node(rig->core, i + 1)->d.job == 0) {
            rig_kill_node(rig, i, RIG_PEER_NOTHING);
            count--;
        }
    }
}

static bool is_open(const struct rig *rig)
{
    return core_globals(rig->core)->breaker_open;
}

/* One of twenty: what a job could have counts beside what it has. */
static void test_a_twentieth_may_fall_silent(void **state)
{
    (void)state;
    struct rig *rig = fleet(FLEET, 1, 4, "");
    silence(rig, FLEET / 20, 2);
    rig_run(rig, 20000);
    assert_false(is_open(rig));
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), FLEET / 20);
    rig_free(rig);
    rig = fleet(FLEET, 1, 4, "");
    silence(rig, FLEET / 20 + 1, 2);
    rig_run(rig, 20000);
    assert_true(is_open(rig));
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    const struct record_breaker *breaker = &rig_last(rig, RECORD_breaker_kind)->u.breaker;
    assert_int_equal(breaker->limit, FLEET / 20);
    assert_int_equal(breaker->suspects, FLEET / 20 + 1);
    rig_free(rig);
}

/* A job that is over wants no spares: then their silence opens nothing, and raises no limit. */
static void test_spares_of_nobody_do_not_count(void **state)
{
    (void)state;
    struct rig *rig = fleet(FLEET, 1, 4, "");
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, core_job_find(rig->core, "demo")), 0);
    rig_run(rig, 5000);
    silence(rig, FLEET / 20 + 1, 2);
    rig_run(rig, 20000);
    assert_false(is_open(rig));
    rig_free(rig);
}

/* Whole racks are theirs, not ours: one or two, silent for the most part, and not most of all. */
static void test_racks_may_fall_silent_together(void **state)
{
    (void)state;
    enum { RACK = 8 };
    for (uint32_t racks = 1; racks <= 3; racks++) {
        struct rig *rig = fleet(FLEET / 2, RACK, 4, "");
        for (uint32_t i = 0; i < racks * RACK; i++) {
            rig_kill_node(rig, 3 * RACK + i, RIG_PEER_NOTHING);
        }
        rig_run(rig, 20000);
        assert_int_equal(is_open(rig), racks > 2);
        assert_int_equal(rig_count(rig, RECORD_node_lost_kind), racks > 2 ? 0 : racks * RACK);
        rig_free(rig);
    }
}

/* So many of each of two racks, but not the most of them: it is not the racks. */
static void test_a_part_of_a_rack_is_no_rack(void **state)
{
    (void)state;
    enum { RACK = 8 };
    for (uint32_t silent = RACK / 2; silent <= RACK / 2 + 1; silent++) {
        struct rig *rig = fleet(FLEET / 2, RACK, 4, "");
        for (uint32_t i = 0; i < 2 * silent; i++) {
            rig_quiet(rig, (4 + i % 2) * RACK + i / 2,
                      RIG_PEER_NOTHING); /* idle, and all at once */
        }
        rig_run(rig, 20000);
        assert_int_equal(is_open(rig), silent * 2 <= RACK);
        rig_free(rig);
    }
}

/* A site that says no racks: nobody can say that it is theirs. */
static void test_without_labels_it_is_ours(void **state)
{
    (void)state;
    struct rig *rig = rig_create(FLEET / 2, 1);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        rig->nodes[i].rack[0] = '\0';
    }
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    assert_true(rig_until(rig, rig_submit(rig, &spec), JOB_RUNNING, 10000));
    silence(rig, FLOOR + 1, 2);
    rig_run(rig, 20000);
    assert_true(is_open(rig));
    rig_free(rig);
}

/* ---- evictions -------------------------------------------------------------------------------- */

static void fatal(struct rig *rig, uint32_t node)
{
    struct message m = {.kind = MSG_FACT};
    struct fact *fact = &m.u.fact.fact;
    *fact = (struct fact){.source = FACT_PROBE,
                          .severity = 3,
                          .sequence = ++rig->nodes[node].fact_sequence,
                          .rank = -1,
                          .port = -1,
                          .code = 79};
    text_copy(fact->text, TEXT_SIZE, "xid 79");
    rig_send(rig, node, &m);
}

/* Time goes by in which no controller runs: the next one counts on. */
static void pass(struct rig *rig, uint64_t ms)
{
    rig_restart(rig, ms - 2000);
    rig_run(rig, 2000);
    assert_true(core_ready(rig->core));
}

/* Idle nodes that report a fatal fault, one after the other, in racks of their own. */
static void test_the_fifth_by_one_rule_in_a_day(void **state)
{
    (void)state;
    struct rig *rig = fleet(20, 1, 4, "");
    for (uint32_t i = 0; i < FLOOR; i++) {
        fatal(rig, 19 - i);
        pass(rig, 2 * 3600 * 1000);
        assert_false(core_globals(rig->core)->paused);
    }
    fatal(rig, 19 - FLOOR);
    assert_true(core_globals(rig->core)->paused);
    assert_non_null(strstr(core_held_text(rig->core), "5 by fatal-signal within 24 h"));
    assert_non_null(strstr(core_held_text(rig->core), "the limit is 4"));
    /* A person has looked: what was before counts no more. */
    struct request request = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_RESUME};
    assert_int_equal(rig_request(rig, &request), 0);
    rig_run(rig, 10);
    fatal(rig, 19 - FLOOR - 1);
    assert_false(core_globals(rig->core)->paused);
    rig_free(rig);
}

static void test_a_day_later_it_is_forgotten(void **state)
{
    (void)state;
    struct rig *rig = fleet(20, 1, 4, "");
    fatal(rig, 19);
    pass(rig, 24 * 3600 * 1000 + 20);
    for (uint32_t i = 1; i < FLOOR + 1; i++) {
        fatal(rig, 19 - i);
    }
    assert_false(core_globals(rig->core)->paused);
    fatal(rig, 19 - FLOOR - 1);
    assert_true(core_globals(rig->core)->paused);
    rig_free(rig);
}

/* A quarter of what is ready may go by one rule in a day, and eight by all rules in an hour. */
static void test_a_large_fleet_has_larger_limits(void **state)
{
    (void)state;
    struct rig *rig = fleet(60, 1, 4, "");
    uint32_t gone = 0;
    while (!core_globals(rig->core)->paused && gone < 40) {
        fatal(rig, 59 - gone++);
    }
    assert_int_equal(gone, 9);
    assert_non_null(strstr(core_held_text(rig->core), "9 by what was found on nodes within 1 h"));
    assert_non_null(strstr(core_held_text(rig->core), "the limit is 8"));
    rig_free(rig);
    rig = fleet(60, 1, 4, "");
    gone = 0;
    while (!core_globals(rig->core)->paused && gone < 40) {
        fatal(rig, 59 - gone++);
        pass(rig, 3600 * 1000 + 20);
    }
    assert_int_equal(gone, 12); /* of 44 that are still ready then, a quarter is 11 */
    rig_free(rig);
}

static void recover(struct rig *rig, uint32_t job)
{
    assert_true(rig_until(rig, job, JOB_RECOVERING, 20000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_save(rig, job, core_job(rig->core, job)->step_top); /* its budgets are whole again */
}

/* Hosts that fall silent are the other breaker's, and a program that fails takes nobody out. */
static void test_what_is_no_eviction_does_not_count(void **state)
{
    (void)state;
    struct rig *rig = fleet(34, 1, 4, "");
    uint32_t job = core_job_find(rig->core, "demo");
    for (uint32_t i = 0; i < 10; i++) {
        rig_kill_node(rig, rig_node_of(rig, job, i % 4), RIG_PEER_NOTHING);
        recover(rig, job);
        rig_end_rank(rig, rig_node_of(rig, job, i % 4), 0, RANK_EXITED, 1);
        recover(rig, job);
    }
    assert_int_equal(rig_count(rig, RECORD_verdict_kind), 20);
    for (uint32_t i = 0; i < FLOOR; i++) {
        fatal(rig, 33 - i);
        assert_false(core_globals(rig->core)->paused);
    }
    fatal(rig, 33 - FLOOR);
    assert_true(core_globals(rig->core)->paused); /* these alone are what counts */
    assert_non_null(strstr(core_held_text(rig->core), "5 by fatal-signal within 24 h"));
    rig_free(rig);
}

/* A GPU of each of so many nodes of the job falls off the bus, in one window. */
static void break_nodes(struct rig *rig, uint32_t job, uint32_t count)
{
    for (uint32_t slot = 0; slot < count; slot++) {
        uint32_t node = rig_node_of(rig, job, slot);
        struct message m = {.kind = MSG_FACT};
        struct fact *fact = &m.u.fact.fact;
        *fact = (struct fact){.source = FACT_PROBE,
                              .severity = 3,
                              .node = node + 1,
                              .job = job,
                              .attempt = core_job(rig->core, job)->d.attempt,
                              .rank = -1,
                              .port = -1,
                              .code = 79,
                              .receive_ms = rig->now_ms,
                              .sequence = ++rig->nodes[node].fact_sequence};
        text_copy(fact->text, TEXT_SIZE, "xid 79");
        rig_send(rig, node, &m);
    }
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    rig_run(rig, 20000);
}

/* One incident that takes four is one failure, unless it takes more of them; of one rack it is one
 * failure, however many. */
static void test_many_nodes_of_one_incident(void **state)
{
    (void)state;
    for (uint32_t count = FLOOR; count <= FLOOR + 1; count++) {
        struct rig *rig = fleet(24, 1, 8, "");
        uint32_t job = core_job_find(rig->core, "demo");
        break_nodes(rig, job, count);
        const struct record_verdict *verdict = &rig_last(rig, RECORD_verdict_kind)->u.verdict;
        assert_int_equal(verdict->owner, OWNER_HARDWARE);
        assert_int_equal(verdict->blamed, count);
        assert_int_equal(core_globals(rig->core)->paused, count > FLOOR);
        assert_int_equal(rig_count(rig, RECORD_strike_kind), count > FLOOR ? 0 : count);
        rig_free(rig);
    }
    struct rig *rig = fleet(24, 24, 8, ""); /* all are of one rack */
    uint32_t job = core_job_find(rig->core, "demo");
    break_nodes(rig, job, 8);
    const struct record_verdict *verdict = &rig_last(rig, RECORD_verdict_kind)->u.verdict;
    assert_int_equal(verdict->owner, OWNER_FACILITY);
    assert_false(core_globals(rig->core)->paused);
    assert_int_equal(rig_count(rig, RECORD_strike_kind), 8);
    rig_free(rig);
}

/* Checks that fail, of nodes that were in use or of nodes that were out anyway: a day of repairs that
 * do not help takes nobody, and pauses nothing. */
static void test_only_spares_that_fail_their_checks_count(void **state)
{
    (void)state;
    for (int out = 0; out < 2; out++) {
        struct rig *rig = fleet(20, 1, 4, "");
        for (uint32_t i = 0; i < FLOOR + 2; i++) {
            struct rig_node *node = &rig->nodes[19 - i];
            uint32_t id = core_node_find(rig->core, node->name);
            struct request validate = {.verb = REQUEST_VALIDATE,
                                       .validation = VALIDATION_QUICK,
                                       .nodes = &id,
                                       .node_count = 1};
            node->validation_fails = true;
            if (out) {
                assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, node->name, WHEN_NOW), 0);
            }
            assert_int_equal(rig_request(rig, &validate), 0);
            rig_run(rig, 3000);
            assert_int_equal(core_node(rig->core, id)->d.life, NODE_OUT);
            assert_int_equal(core_mark_count(rig->core, id), out + 1);
            assert_int_equal(core_globals(rig->core)->paused, !out && i >= FLOOR);
        }
        rig_replay_check(rig);
        rig_free(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_twentieth_may_fall_silent),
        cmocka_unit_test(test_spares_of_nobody_do_not_count),
        cmocka_unit_test(test_racks_may_fall_silent_together),
        cmocka_unit_test(test_a_part_of_a_rack_is_no_rack),
        cmocka_unit_test(test_without_labels_it_is_ours),
        cmocka_unit_test(test_the_fifth_by_one_rule_in_a_day),
        cmocka_unit_test(test_what_is_no_eviction_does_not_count),
        cmocka_unit_test(test_many_nodes_of_one_incident),
        cmocka_unit_test(test_only_spares_that_fail_their_checks_count),
        cmocka_unit_test(test_a_day_later_it_is_forgotten),
        cmocka_unit_test(test_a_large_fleet_has_larger_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
