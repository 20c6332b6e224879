/* interval_test.c: how often a job is asked for a save: by its file, or as the core chooses. */
#include <string.h>

#include "controller/core/estimate.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"
#include "tests/lib/test.h"

#define DAY_MS (24ull * 3600 * 1000)

static struct rig *with_savers(uint32_t takes_ms, uint32_t stall_ms)
{
    struct rig *rig = rig_create(8, 1);
    rig->save_takes_ms = takes_ms;
    rig->save_stall_ms = stall_ms;
    rig_connect_all(rig);
    return rig;
}

static uint32_t running(struct rig *rig, uint64_t interval_ms, bool is_auto)
{
    struct job_spec spec = rig_spec("demo", 4);
    spec.save_interval_ms = interval_ms;
    spec.save_auto = is_auto;
    uint32_t job = rig_submit(rig, &spec);
    assert_int_not_equal(job, 0);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    return job;
}

static void end(struct rig *rig)
{
    rig_replay_check(rig);
    rig_free(rig);
}

static const struct record_interval_chosen *last_choice(const struct rig *rig)
{
    const struct record *record = rig_last(rig, RECORD_interval_chosen_kind);
    assert_non_null(record);
    return &record->u.interval_chosen;
}

/* Service time of the n-th save's begin (from 0) and how many there are in all. */
static uint32_t begins(const struct rig *rig, uint32_t n, uint64_t *ret_ms)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->record_count; i++) {
        const struct record *record = &rig->records[i];
        if (record->kind == RECORD_checkpoint_moved_kind &&
            record->u.checkpoint_moved.state == CKPT_WRITING && count++ == n) {
            *ret_ms = record->service_ms;
        }
    }
    return count;
}

/* ---- by the file ------------------------------------------------------------------------------ */

static void saves_come_as_the_file_says(void **state)
{
    (void)state;
    struct rig *rig = with_savers(2000, 100);
    (void)running(rig, 30000, false);
    rig_run(rig, 200000);
    uint64_t before = 0;
    uint64_t at = 0;
    uint32_t count = begins(rig, 0, &before);
    assert_in_range(count, 6, 7);
    for (uint32_t n = 1; n < count; n++, before = at) {
        (void)begins(rig, n, &at);
        assert_in_range(at - before, 30000, 31000); /* from begin to begin */
    }
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), count);
    assert_string_equal(rig_last(rig, RECORD_save_asked_kind)->event.type, ""); /* no event each */
    assert_int_equal(rig_count(rig, RECORD_interval_chosen_kind), 0);
    end(rig);
}

static void without_an_interval_nobody_asks(void **state)
{
    (void)state;
    struct rig *rig = with_savers(2000, 100);
    (void)running(rig, 0, false);
    rig_run(rig, 300000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 0);
    end(rig);
}

static void a_program_without_the_library_is_not_asked(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 1);
    rig->no_library = true;
    rig_connect_all(rig);
    uint32_t job = running(rig, 30000, true);
    struct core_interval interval;
    rig_run(rig, 300000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 0);
    core_interval(rig->core, core_job(rig->core, job), &interval);
    assert_false(interval.asks);
    end(rig);
}

static void any_save_starts_the_clock_again(void **state)
{
    (void)state;
    struct rig *rig = with_savers(2000, 100);
    uint32_t job = running(rig, 30000, false);
    for (uint64_t step = 100; step <= 1000; step += 100) {
        rig_run(rig, 20000);
        rig_save(rig, job, step); /* the program's own */
    }
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 0);
    rig_run(rig, 31000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 1);
    end(rig);
}

static void a_program_that_does_not_answer_is_asked_again_much_later(void **state)
{
    (void)state;
    struct rig *rig = with_savers(0, 0);
    uint32_t job = running(rig, 30000, false);
    rig_run(rig, 300000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 1);
    rig_run(rig, 340000); /* what it was asked may never have reached it */
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 2);
    rig_kill_node(rig, rig_node_of(rig, job, 1), RIG_PEER_NOTHING); /* the next attempt may */
    assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 31000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 3);
    end(rig);
}

static void a_save_that_never_ends_is_given_twice_the_time(void **state)
{
    (void)state;
    struct rig *rig = with_savers(3600000, 0);
    (void)running(rig, 30000, false);
    rig_run(rig, 80000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 1);
    rig_run(rig, 12000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 2);
    end(rig);
}

static void nobody_asks_amid_a_planned_stop(void **state)
{
    (void)state;
    struct rig *rig = with_savers(0, 0);
    struct job_spec spec = rig_spec("demo", 4);
    spec.save_interval_ms = 5000;
    spec.save_on_drain = true;
    spec.drain_wait_ms = 60000;
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    const char *name = rig->nodes[rig_node_of(rig, job, 1)].name;
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, name, WHEN_CHECKPOINT), 0);
    rig_run(rig, 30000);
    assert_true(core_job(rig->core, job)->d.stop_request);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 1); /* the stop's own */
    end(rig);
}

/* ---- auto --------------------------------------------------------------------------------------- */

static uint64_t best_of(const struct record_interval_chosen *u)
{
    struct estimate_interval_input input = {.stall_ms = u->interval_stall_ms,
                                            .save_ms = u->interval_save_ms,
                                            .gap_ms = u->interval_gap_ms};
    return estimate_interval_ms(&input);
}

/* Not measured: soon. Measured, four nodes and no failure: a failure a day is assumed, and what has
 * run without one is added. */
static void the_first_save_is_measured(void **state)
{
    (void)state;
    struct rig *rig = with_savers(3000, 500);
    uint32_t job = running(rig, 0, true);
    rig_run(rig, 1000);
    assert_int_equal(last_choice(rig)->interval_saves, 0);
    assert_int_equal(last_choice(rig)->interval_ms, 120000);
    rig_run(rig, 124000);
    const struct record_interval_chosen *u = last_choice(rig);
    assert_int_equal(u->interval_saves, 1);
    assert_int_equal(u->interval_stall_ms, 500);
    assert_in_range(u->interval_save_ms, 3000, 3100);
    assert_int_equal(u->interval_failures, 0);
    assert_in_range(u->interval_span_ms, 120000, 125000);
    assert_int_equal(u->interval_gap_ms, DAY_MS + u->interval_span_ms);
    assert_int_equal(u->interval_ms, best_of(u));
    assert_in_range(u->interval_ms, 285000, 300000); /* sqrt(2 x 0.5 s x 1 d) = 294 s */
    assert_int_equal(core_job(rig->core, job)->d.interval_ms, u->interval_ms);
    end(rig);
}

/* The short form says begin and commit at once, and no shards: a minute's save looks like none. */
static void a_save_that_tells_nothing_is_not_taken_for_free(void **state)
{
    (void)state;
    struct rig *rig = with_savers(0, 0);
    uint32_t job = running(rig, 0, true);
    for (uint64_t step = 10; step <= 30; step += 10) {
        struct message m = {.kind = MSG_CHECKPOINT};
        struct msg_checkpoint *u = &m.u.checkpoint;
        u->job = job;
        u->step = step;
        text_copy(u->directory, PATH_SIZE, "/ckpt/plain");
        u->kind = CHECKPOINT_BEGIN;
        rig_send_sure(rig, rig_node_of(rig, job, 0), &m);
        u->kind = CHECKPOINT_COMMIT;
        rig_send_sure(rig, rig_node_of(rig, job, 0), &m);
        rig_run(rig, 5000);
    }
    assert_int_equal(last_choice(rig)->interval_ms, 600000);
    assert_int_equal(last_choice(rig)->interval_saves, 0);
    end(rig);
}

static void a_choice_that_is_near_stays(void **state)
{
    (void)state;
    struct rig *rig = with_savers(3000, 500);
    (void)running(rig, 0, true);
    rig_run(rig, 3600000);
    uint64_t unused = 0;
    assert_in_range(begins(rig, 0, &unused), 12, 13);
    assert_int_equal(rig_count(rig, RECORD_interval_chosen_kind), 2);
    end(rig);
}

static void a_save_that_takes_longer_is_learned(void **state)
{
    (void)state;
    struct rig *rig = with_savers(3000, 500);
    (void)running(rig, 0, true);
    rig_run(rig, 1500000);
    assert_int_equal(rig_count(rig, RECORD_interval_chosen_kind), 2);
    rig->save_takes_ms = 40000;
    rig->save_stall_ms = 20000; /* one alone is an exception: the median counts */
    rig_run(rig, 400000);
    assert_int_equal(rig_count(rig, RECORD_interval_chosen_kind), 2);
    rig_run(rig, 2400000);
    assert_int_equal(rig_count(rig, RECORD_interval_chosen_kind), 3);
    assert_int_equal(last_choice(rig)->interval_stall_ms, 20000);
    assert_int_equal(last_choice(rig)->interval_ms, best_of(last_choice(rig)));
    end(rig);
}

static void no_two_saves_overlap(void **state)
{
    (void)state;
    struct rig *rig = with_savers(400000, 1);
    (void)running(rig, 0, true);
    rig_run(rig, 600000);
    assert_in_range(last_choice(rig)->interval_save_ms, 400000, 400100);
    assert_int_equal(last_choice(rig)->interval_ms, last_choice(rig)->interval_save_ms);
    end(rig);
}

static void free_saves_are_not_asked_for_at_every_step(void **state)
{
    (void)state;
    struct rig *rig = with_savers(10, 0);
    (void)running(rig, 0, true);
    rig_run(rig, 200000);
    assert_int_equal(last_choice(rig)->interval_stall_ms, 0);
    assert_in_range(last_choice(rig)->interval_ms, 10000, 14000); /* 1 ms counts as the least */
    end(rig);
}

/* What fails often saves often. Planned restarts and the start are no failures. */
static void failures_shorten_it(void **state)
{
    (void)state;
    struct rig *rig = with_savers(3000, 500);
    uint32_t job = running(rig, 0, true);
    rig_run(rig, 130000);
    uint64_t before = last_choice(rig)->interval_ms;
    assert_int_equal(rig_job(rig, REQUEST_RESTART, job), 0);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    for (uint32_t i = 0; i < 3; i++) {
        rig_kill_node(rig, rig_node_of(rig, job, 1), RIG_PEER_NOTHING);
        assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
        assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
        rig_run(rig, 400000); /* a save is due in that time */
    }
    const struct record_interval_chosen *u = last_choice(rig);
    assert_true(u->interval_ms < before);
    assert_in_range(u->interval_failures, 2, 3); /* chosen at the second, or the third is near it */
    assert_int_equal(u->interval_gap_ms,
                     (DAY_MS + u->interval_span_ms) / (u->interval_failures + 1));
    assert_int_equal(u->interval_ms, best_of(u));
    end(rig);
}

static void a_new_controller_goes_on_with_it(void **state)
{
    (void)state;
    struct rig *rig = with_savers(3000, 500);
    uint32_t job = running(rig, 0, true);
    rig_run(rig, 130000);
    uint64_t chosen = core_job(rig->core, job)->d.interval_ms;
    uint32_t asked = rig_count(rig, RECORD_save_asked_kind);
    uint64_t digest = core_digest(rig->core);
    rig_restart(rig, 1000);
    assert_int_equal(core_job(rig->core, job)->d.interval_ms, chosen);
    rig_run(rig, 100000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), asked); /* not due yet */
    assert_int_equal(rig_count(rig, RECORD_interval_chosen_kind), 2);
    rig_run(rig, chosen);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), asked + 1);
    assert_int_not_equal(core_digest(rig->core), digest);
    end(rig);
}

static void a_request_on_its_way_is_not_made_twice(void **state)
{
    (void)state;
    struct rig *rig = with_savers(0, 0);
    (void)running(rig, 30000, false);
    rig_run(rig, 31000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 1);
    rig_restart(rig, 1000);
    rig_run(rig, 100000);
    assert_int_equal(rig_count(rig, RECORD_save_asked_kind), 1);
    end(rig);
}

static void the_gain_is_shown(void **state)
{
    (void)state;
    struct rig *rig = with_savers(3000, 500);
    uint32_t job = running(rig, 20000, false);
    struct core_interval interval;
    rig_run(rig, 100000);
    core_interval(rig->core, core_job(rig->core, job), &interval);
    assert_int_equal(interval.origin, ORIGIN_FILE);
    assert_int_equal(interval.each_ms, 20000);
    assert_true(interval.asks);
    assert_in_range(interval.best_ms, 280000, 300000);
    assert_in_range(interval.cost_ppm, 25000, 25300);    /* 0.5 s of 20 s */
    assert_in_range(interval.best_cost_ppm, 3350, 3450); /* sqrt(2 x 0.5 s / 1 d) = 0.34 % */
    end(rig);
}

static void what_a_program_does_by_itself_is_shown(void **state)
{
    (void)state;
    struct rig *rig = with_savers(0, 0);
    uint32_t job = running(rig, 0, false);
    struct core_interval interval;
    core_interval(rig->core, core_job(rig->core, job), &interval);
    assert_int_equal(interval.origin, ORIGIN_PROGRAM);
    assert_int_equal(interval.each_ms, 0);
    assert_int_equal(interval.best_ms, 0);
    rig_run(rig, 10000);
    rig_save(rig, job, 10);
    rig_run(rig, 40000);
    rig_save(rig, job, 20);
    core_interval(rig->core, core_job(rig->core, job), &interval);
    assert_in_range(interval.each_ms, 40000, 40100);
    assert_int_equal(interval.saves, 2);
    /* A failure lies between the last two: their distance tells nothing of the program. */
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_save(rig, job, 30);
    core_interval(rig->core, core_job(rig->core, job), &interval);
    assert_int_equal(interval.each_ms, 0);
    end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_come_as_the_file_says),
        cmocka_unit_test(without_an_interval_nobody_asks),
        cmocka_unit_test(a_program_without_the_library_is_not_asked),
        cmocka_unit_test(any_save_starts_the_clock_again),
        cmocka_unit_test(a_program_that_does_not_answer_is_asked_again_much_later),
        cmocka_unit_test(a_save_that_never_ends_is_given_twice_the_time),
        cmocka_unit_test(nobody_asks_amid_a_planned_stop),
        cmocka_unit_test(the_first_save_is_measured),
        cmocka_unit_test(a_save_that_tells_nothing_is_not_taken_for_free),
        cmocka_unit_test(a_choice_that_is_near_stays),
        cmocka_unit_test(a_save_that_takes_longer_is_learned),
        cmocka_unit_test(no_two_saves_overlap),
        cmocka_unit_test(free_saves_are_not_asked_for_at_every_step),
        cmocka_unit_test(failures_shorten_it),
        cmocka_unit_test(a_new_controller_goes_on_with_it),
        cmocka_unit_test(a_request_on_its_way_is_not_made_twice),
        cmocka_unit_test(the_gain_is_shown),
        cmocka_unit_test(what_a_program_does_by_itself_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
