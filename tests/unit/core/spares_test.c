/* spares_test.c: whose the spares are, how many a job keeps, and when there are too few. */
#include <errno.h>
#include <string.h>

#include "controller/core/estimate.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"
#include "tests/lib/test.h"

#define HOUR_MS (3600ull * 1000)
#define DAY_MS  (24 * HOUR_MS)

static uint32_t submit(struct rig *rig, const char *name, uint32_t slots, uint32_t reserve)
{
    struct job_spec spec = rig_spec(name, slots);
    spec.reserve = reserve;
    uint32_t job = rig_submit(rig, &spec);
    assert_int_not_equal(job, 0);
    return job;
}

static uint32_t running(struct rig *rig, const char *name, uint32_t slots, uint32_t reserve)
{
    uint32_t job = submit(rig, name, slots, reserve);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    return job;
}

static struct rig *fleet(uint32_t nodes)
{
    struct rig *rig = rig_create(nodes, 1);
    rig_connect_all(rig);
    return rig;
}

static void end(struct rig *rig)
{
    rig_replay_check(rig);
    rig_free(rig);
}

static uint8_t state_of(const struct rig *rig, uint32_t job)
{
    return core_job(rig->core, job)->d.state;
}

static void kill_slot(struct rig *rig, uint32_t job, uint32_t slot)
{
    rig_kill_node(rig, rig_node_of(rig, job, slot), RIG_PEER_NOTHING);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
}

/* Index of a node that nobody uses. */
static uint32_t a_spare(const struct rig *rig)
{
    for (uint32_t i = rig->node_count; i-- > 0;) {
        uint32_t id = core_node_find(rig->core, rig->nodes[i].name);
        if (id != 0 && core_node_usable(rig->core, core_node(rig->core, id))) {
            return i;
        }
    }
    fail_msg("there is no spare");
    return 0;
}

static void says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", text, part);
    }
}

/* ---- for whom ----------------------------------------------------------------------------------- */

static void a_reserve_is_not_given_to_new_jobs(void **state)
{
    (void)state;
    struct rig *rig = fleet(6);
    uint32_t first = running(rig, "first", 3, 2);
    uint32_t second = submit(rig, "second", 2, 0);
    says(rig->reply_text, "3 usable now, 2 of them kept for other jobs");
    rig_run(rig, 60000);
    assert_int_equal(state_of(rig, second), JOB_PENDING);
    uint32_t small = submit(rig, "small", 1, 0); /* would fit, but it comes after `second` */
    rig_run(rig, 10000);
    assert_int_equal(state_of(rig, small), JOB_PENDING);
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, first), 0);
    assert_true(rig_until(rig, second, JOB_RUNNING, 60000));
    assert_true(rig_until(rig, small, JOB_RUNNING, 60000));
    end(rig);
}

static void priority_does_not_take_a_reserve(void **state)
{
    (void)state;
    struct rig *rig = fleet(4);
    (void)running(rig, "low", 2, 2);
    struct job_spec spec = rig_spec("high", 1);
    spec.priority = 100;
    uint32_t high = rig_submit(rig, &spec);
    rig_run(rig, 60000);
    assert_int_equal(state_of(rig, high), JOB_PENDING);
    end(rig);
}

static void a_job_takes_its_own_reserve(void **state)
{
    (void)state;
    struct rig *rig = fleet(5);
    uint32_t job = running(rig, "demo", 3, 2);
    kill_slot(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    kill_slot(rig, job, 2);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    end(rig);
}

static void another_recovery_waits_and_says_why(void **state)
{
    (void)state;
    struct rig *rig = fleet(6);
    uint32_t first = running(rig, "first", 3, 2);
    uint32_t other = running(rig, "other", 1, 0);
    uint32_t dead = rig_node_of(rig, other, 0);
    kill_slot(rig, other, 0);
    rig_run(rig, 60000);
    assert_int_equal(state_of(rig, other), JOB_RECOVERING);
    says(core_job(rig->core, other)->wait_text, "2 of them kept for other jobs");
    assert_int_equal(state_of(rig, first), JOB_RUNNING);
    rig_boot(rig, dead, true); /* one more than the reserve */
    assert_true(rig_until(rig, other, JOB_RUNNING, 60000));
    end(rig);
}

/* Several spares come at once. The one job keeps a single one, but lacks two and goes first: of two
 * the other job, which is asked before it, gets none; of three it gets one. */
static void what_is_lacking_beyond_a_reserve_is_kept_too(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 3; count++) {
        struct rig *rig = fleet(4 + count);
        uint32_t low = running(rig, "low", 1, 0);
        struct job_spec spec = rig_spec("high", 3);
        spec.reserve = 1;
        spec.priority = 100;
        uint32_t high = rig_submit(rig, &spec);
        assert_true(rig_until(rig, high, JOB_RUNNING, 60000));
        uint32_t spares[3];
        for (uint32_t i = 0; i < count; i++) {
            const char *name = rig->nodes[a_spare(rig)].name;
            spares[i] = core_node_find(rig->core, name);
            assert_int_equal(rig_nodes(rig, REQUEST_CORDON, name, WHEN_NOW), 0);
        }
        rig_kill_node(rig, rig_node_of(rig, high, 0), RIG_PEER_NOTHING);
        rig_kill_node(rig, rig_node_of(rig, high, 1), RIG_PEER_NOTHING);
        kill_slot(rig, low, 0);
        rig_run(rig, 60000);
        assert_int_equal(state_of(rig, high), JOB_RECOVERING);
        assert_int_equal(state_of(rig, low), JOB_RECOVERING);
        struct request all = {.verb = REQUEST_UNCORDON, .nodes = spares, .node_count = count};
        assert_int_equal(rig_request(rig, &all), 0);
        assert_true(rig_until(rig, high, JOB_RUNNING, 60000));
        rig_run(rig, 60000);
        assert_int_equal(state_of(rig, low), count == 2 ? JOB_RECOVERING : JOB_RUNNING);
        end(rig);
    }
}

static void a_drain_cannot_use_what_is_kept(void **state)
{
    (void)state;
    struct rig *rig = fleet(6);
    uint32_t first = running(rig, "first", 3, 2);
    uint32_t other = running(rig, "other", 1, 0);
    const char *theirs = rig->nodes[rig_node_of(rig, other, 0)].name;
    const char *ours = rig->nodes[rig_node_of(rig, first, 0)].name;
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, theirs, WHEN_NOW), -ENOSPC);
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, ours, WHEN_NOW), 0);
    assert_true(rig_until(rig, first, JOB_RECOVERING, 10000));
    assert_true(rig_until(rig, first, JOB_RUNNING, 60000));
    end(rig);
}

/* Two reserves and too few spares: the older one is full, and its job still gets what it keeps. */
static void reserves_are_filled_by_priority_then_age(void **state)
{
    (void)state;
    struct rig *rig = fleet(7);
    uint32_t first = running(rig, "first", 2, 2);
    uint32_t second = running(rig, "second", 2, 2);
    struct core_spares spares;
    core_spares(rig->core, core_job(rig->core, first), &spares);
    assert_int_equal(spares.ready, 2);
    core_spares(rig->core, core_job(rig->core, second), &spares);
    assert_int_equal(spares.ready, 1);
    assert_int_equal(spares.suiting, 3);
    kill_slot(rig, second, 0);
    assert_true(rig_until(rig, second, JOB_RUNNING, 60000));
    kill_slot(rig, second, 0);
    rig_run(rig, 30000);
    assert_int_equal(state_of(rig, second), JOB_RECOVERING);
    kill_slot(rig, first, 0);
    assert_true(rig_until(rig, first, JOB_RUNNING, 60000));
    end(rig);
}

/* What runs nothing loses nothing. */
static void a_held_job_keeps_no_spares(void **state)
{
    (void)state;
    struct rig *rig = fleet(5);
    uint32_t first = running(rig, "first", 2, 3);
    uint32_t second = submit(rig, "second", 3, 0);
    rig_run(rig, 30000);
    assert_int_equal(state_of(rig, second), JOB_PENDING);
    assert_int_equal(rig_job(rig, REQUEST_HOLD, first), 0);
    assert_true(rig_until(rig, first, JOB_HELD, 400000));
    assert_true(rig_until(rig, second, JOB_RUNNING, 60000));
    end(rig);
}

/* A reserve of nodes that who asks could not use anyway takes nothing from it. */
static void other_nodes_are_kept_first(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 1);
    for (uint32_t i = 0; i < 4; i++) {
        text_copy(rig->nodes[i].pool, NAME_SIZE, "a");
    }
    rig_connect_all(rig);
    (void)running(rig, "anywhere", 2, 2); /* of 8 nodes, in two pools */
    struct job_spec spec = rig_spec("there", 4);
    text_copy(spec.exclude, sizeof spec.exclude, "n-0003,n-0004");
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    end(rig);
}

/* ---- too few ------------------------------------------------------------------------------------ */

static void too_few_is_said_once_and_taken_back(void **state)
{
    (void)state;
    struct rig *rig = fleet(5);
    uint32_t job = running(rig, "demo", 3, 2);
    rig_run(rig, 60000);
    assert_int_equal(rig_count(rig, RECORD_spares_low_kind), 0);
    uint32_t dead = a_spare(rig);
    rig_kill_node(rig, dead, RIG_PEER_NOTHING);
    rig_run(rig, 120000);
    assert_int_equal(rig_count(rig, RECORD_spares_low_kind), 1);
    const struct record *record = rig_last(rig, RECORD_spares_low_kind);
    assert_true(record->u.spares_low.low);
    assert_int_equal(record->u.spares_low.ready, 1);
    assert_int_equal(record->u.spares_low.wanted, 2);
    assert_string_equal(record->event.type, "SparesLow");
    says(record->event.message, "1 ready, 2 wanted");
    rig_restart(rig, 1000);
    rig_run(rig, 120000);
    assert_int_equal(rig_count(rig, RECORD_spares_low_kind), 1);
    assert_true(core_job(rig->core, job)->d.spares_low);
    rig_boot(rig, dead, true);
    rig_run(rig, 120000);
    assert_int_equal(rig_count(rig, RECORD_spares_low_kind), 2);
    assert_string_equal(rig_last(rig, RECORD_spares_low_kind)->event.type, "SparesReady");
    assert_false(core_job(rig->core, job)->d.spares_low);
    end(rig);
}

static void a_short_gap_is_not_said(void **state)
{
    (void)state;
    struct rig *rig = fleet(5);
    (void)running(rig, "demo", 3, 2);
    rig_run(rig, 20000);
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t spare = a_spare(rig);
        rig_kill_agent(rig, spare, RIG_PEER_REFUSED);
        rig_run(rig, 4000);
        rig->nodes[spare].agent_up = true;
        rig_connect(rig, spare);
        rig_run(rig, 20000);
    }
    assert_int_equal(rig_count(rig, RECORD_spares_low_kind), 0);
    end(rig);
}

static void the_limit_may_be_another_than_the_reserve(void **state)
{
    (void)state;
    struct rig *rig = fleet(6);
    struct job_spec spec = rig_spec("demo", 3);
    spec.reserve = 3;
    spec.min_ready = 2;
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    kill_slot(rig, job, 0);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 60000);
    assert_int_equal(rig_count(rig, RECORD_spares_low_kind), 0); /* 2 of 3 are left */
    kill_slot(rig, job, 0);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 60000);
    assert_int_equal(rig_count(rig, RECORD_spares_low_kind), 1);
    assert_int_equal(rig_last(rig, RECORD_spares_low_kind)->u.spares_low.wanted, 2);
    end(rig);
}

/* ---- auto --------------------------------------------------------------------------------------- */

static uint32_t best_of(const struct record_reserve_chosen *u, uint32_t nodes)
{
    struct estimate_spares_input input = {.nodes = nodes,
                                          .node_gap_ms = u->reserve_gap_ms,
                                          .away_ms = u->reserve_away_ms,
                                          .enough_q32 = ESTIMATE_Q32_99};
    return estimate_spares(&input);
}

static uint32_t running_auto(struct rig *rig, uint32_t slots)
{
    struct job_spec spec = rig_spec("demo", slots);
    spec.reserve_auto = true;
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 1000);
    return job;
}

/* Four nodes that fail each 263 days and are away for one: 1.5 % of the time one of them is. */
static void the_first_choice_is_what_is_assumed(void **state)
{
    (void)state;
    struct rig *rig = fleet(8);
    uint32_t job = running_auto(rig, 4);
    assert_int_equal(rig_count(rig, RECORD_reserve_chosen_kind), 1);
    const struct record_reserve_chosen *u =
        &rig_last(rig, RECORD_reserve_chosen_kind)->u.reserve_chosen;
    assert_int_equal(u->reserve_wanted, 1);
    assert_int_equal(u->reserve_losses, 0);
    assert_int_equal(u->reserve_away_ms, DAY_MS);
    assert_in_range(u->reserve_gap_ms, 263 * DAY_MS, 264 * DAY_MS);
    uint32_t other = submit(rig, "other", 4, 0);
    rig_run(rig, 30000);
    assert_int_equal(state_of(rig, other), JOB_PENDING); /* it is kept as a given one is */
    assert_int_equal(core_job(rig->core, job)->d.reserve_wanted, 1);
    end(rig);
}

static void two_nodes_need_none(void **state)
{
    (void)state;
    struct rig *rig = fleet(4);
    (void)running_auto(rig, 2);
    assert_int_equal(rig_last(rig, RECORD_reserve_chosen_kind)->u.reserve_chosen.reserve_wanted, 0);
    end(rig);
}

/* Each failure takes a node, which stays away. */
static void losses_raise_it_and_a_quiet_week_lowers_it(void **state)
{
    (void)state;
    struct rig *rig = fleet(24);
    uint32_t job = running_auto(rig, 4);
    for (uint32_t i = 0; i < 14; i++) {
        kill_slot(rig, job, 1);
        assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
        rig_run(rig, 1000);
        rig_save(rig, job, core_job(rig->core, job)->step);
    }
    rig_run(rig, 610000);
    assert_int_equal(rig_count(rig, RECORD_reserve_chosen_kind), 2);
    const struct record_reserve_chosen *u =
        &rig_last(rig, RECORD_reserve_chosen_kind)->u.reserve_chosen;
    assert_true(u->reserve_wanted >= 2);
    assert_in_range(u->reserve_losses, 12, 14);
    assert_int_equal(u->reserve_wanted, best_of(u, 4));
    uint32_t before = u->reserve_wanted;
    rig_restart(rig, 20 * HOUR_MS); /* service time goes on, and nobody is back yet */
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 60000);
    assert_int_equal(rig_count(rig, RECORD_reserve_chosen_kind), 3);
    u = &rig_last(rig, RECORD_reserve_chosen_kind)->u.reserve_chosen;
    assert_true(u->reserve_wanted > before);
    assert_int_equal(u->reserve_wanted, best_of(u, 4));
    for (uint32_t i = 0; i < rig->node_count; i++) {
        if (!rig->nodes[i].agent_up) {
            rig_boot(rig, i, true);
        }
    }
    rig_run(rig, 700000);
    struct core_spares spares;
    core_spares(rig->core, core_job(rig->core, job), &spares);
    assert_true(spares.best < u->reserve_wanted); /* they were away for less than was feared */
    assert_int_equal(rig_count(rig, RECORD_reserve_chosen_kind), 3); /* not within a day */
    rig_restart(rig, 7 * DAY_MS);                                    /* all of that is long ago */
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 60000);
    assert_int_equal(rig_count(rig, RECORD_reserve_chosen_kind), 4);
    u = &rig_last(rig, RECORD_reserve_chosen_kind)->u.reserve_chosen;
    assert_int_equal(u->reserve_losses, 0);
    assert_int_equal(u->reserve_wanted, best_of(u, 4));
    end(rig);
}

static void how_long_nodes_are_away_is_measured(void **state)
{
    (void)state;
    struct rig *rig = fleet(6);
    uint32_t job = running(rig, "demo", 4, 0);
    uint32_t dead = rig_node_of(rig, job, 1);
    kill_slot(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 600000);
    assert_int_equal(core_globals(rig->core)->returns, 0);
    rig_boot(rig, dead, true);
    rig_run(rig, 60000);
    assert_int_equal(core_globals(rig->core)->returns, 1);
    assert_in_range(core_globals(rig->core)->returns_ms, 595000, 660000);
    struct core_spares spares;
    core_spares(rig->core, core_job(rig->core, job), &spares);
    assert_int_equal(spares.away_ms, (DAY_MS + core_globals(rig->core)->returns_ms) / 2);
    assert_int_equal(spares.losses, 1);
    end(rig);
}

static void strikes_are_halved_each_week(void **state)
{
    (void)state;
    struct rig *rig = fleet(6);
    uint32_t job = running(rig, "demo", 4, 0);
    uint32_t dead = rig_node_of(rig, job, 1);
    kill_slot(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    uint32_t id = core_node_find(rig->core, rig->nodes[dead].name);
    assert_int_equal(rig_last(rig, RECORD_strike_kind)->u.strike.weight_milli, 1000);
    assert_in_range(core_strikes_milli(rig->core, core_node(rig->core, id)), 998, 1000);
    rig_restart(rig, 7 * DAY_MS);
    assert_in_range(core_strikes_milli(rig->core, core_node(rig->core, id)), 498, 501);
    rig_restart(rig, 7 * DAY_MS);
    assert_in_range(core_strikes_milli(rig->core, core_node(rig->core, id)), 248, 251);
    assert_int_equal(core_node(rig->core, id)->d.strikes, 1);
    end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reserve_is_not_given_to_new_jobs),
        cmocka_unit_test(priority_does_not_take_a_reserve),
        cmocka_unit_test(a_job_takes_its_own_reserve),
        cmocka_unit_test(another_recovery_waits_and_says_why),
        cmocka_unit_test(what_is_lacking_beyond_a_reserve_is_kept_too),
        cmocka_unit_test(a_drain_cannot_use_what_is_kept),
        cmocka_unit_test(reserves_are_filled_by_priority_then_age),
        cmocka_unit_test(a_held_job_keeps_no_spares),
        cmocka_unit_test(other_nodes_are_kept_first),
        cmocka_unit_test(too_few_is_said_once_and_taken_back),
        cmocka_unit_test(a_short_gap_is_not_said),
        cmocka_unit_test(the_limit_may_be_another_than_the_reserve),
        cmocka_unit_test(the_first_choice_is_what_is_assumed),
        cmocka_unit_test(two_nodes_need_none),
        cmocka_unit_test(losses_raise_it_and_a_quiet_week_lowers_it),
        cmocka_unit_test(how_long_nodes_are_away_is_measured),
        cmocka_unit_test(strikes_are_halved_each_week),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
