/* log_steps_test.c: progress by printed steps, where scenarios do not reach: patterns that never
 * match, outputs that nobody reads, and what a limit is learned from. */
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"
#include "tests/lib/test.h"

static struct rig *printing(uint32_t nodes, uint64_t every)
{
    struct rig *rig = rig_create(nodes, 1);
    rig->synchronous = true;
    rig->no_library = true;
    rig->print_every = every;
    rig_connect_all(rig);
    return rig;
}

static uint32_t submit(struct rig *rig, uint8_t log_steps)
{
    struct job_spec spec = rig_spec("demo", 4);
    spec.log_steps = log_steps;
    spec.reader = READER_MARKER;
    const uint32_t job = rig_submit(rig, &spec);
    assert_int_not_equal(job, 0);
    return job;
}

static bool said(const struct rig *rig, const char *text)
{
    return strstr(rig->trace, text) != NULL;
}

/* The programs work, and print something else than the job file says. */
static void a_pattern_that_never_matches_stops_nothing(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 1000000);
    const uint32_t job = submit(rig, LOG_STEPS_ELSE);
    assert_false(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_STARTING);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_true(said(rig, "matches hang.log_pattern"));
    rig_run(rig, 3600000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    (void)rig_free(rig);
}

/* Nothing is printed and nothing used: it hangs before its first step. */
static void a_start_that_hangs_is_seen(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    const uint32_t job = submit(rig, LOG_STEPS_ELSE);
    rig->steps_stopped = true;
    assert_true(rig_until_phase(rig, job, PHASE_FIRST_STEP, 60000));
    rig_run(rig, 62000);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    assert_true(said(rig, "did not complete a first step in time"));
    assert_false(said(rig, "matches hang.log_pattern"));
    (void)rig_free(rig);
}

/* The first step is made in time, and the line that tells of it comes when five are done. */
static void a_first_line_may_be_late(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    const uint32_t job = submit(rig, LOG_STEPS_ELSE);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig->step_ms = 20000;
    rig_run(rig, 260000);
    assert_in_range(core_job(rig->core, job)->log.gap_max_ms, 100000, 201000);
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 120000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    (void)rig_free(rig);
}

static void what_nobody_reads_does_not_hang(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    struct job_spec spec = rig_spec("demo", 4);
    spec.log_steps = LOG_STEPS_ELSE;
    spec.step_timeout_ms = 5000;
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig->output_unread = true;
    rig_run(rig, 600000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig->output_unread = false;
    rig_run(rig, 5000);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    rig->steps_stopped = true;
    rig_run(rig, 8000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RECOVERING);
    (void)rig_free(rig);
}

static void steps_count_only_where_they_are_wanted(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    const uint32_t job = submit(rig, LOG_STEPS_NEVER);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig->steps_stopped = true;
    rig_run(rig, 3600000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(core_job(rig->core, job)->step, 0);
    (void)rig_free(rig);
}

static void pause_for(struct rig *rig, uint64_t ms)
{
    rig->steps_stopped = true;
    rig->spins = true;
    rig_run(rig, ms);
    rig->steps_stopped = false;
    rig->spins = false;
    rig_run(rig, 10000);
}

/* How long it takes from the last step to the recovery. */
static uint64_t hang_takes_ms(struct rig *rig, uint32_t job)
{
    rig->steps_stopped = true;
    const uint64_t begun = rig->now_ms;
    assert_true(rig_until(rig, job, JOB_RECOVERING, 3600000));
    rig->steps_stopped = false;
    assert_true(rig_until(rig, job, JOB_RUNNING, 120000));
    return rig->now_ms - begun;
}

/* Ten minutes, until both a save and a long pause that was none were seen: then three times the
 * longest healthy gap. */
static void the_limit_is_learned(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    const uint32_t job = submit(rig, LOG_STEPS_ELSE);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 20000);
    pause_for(rig, 60000); /* whatever it was */
    uint64_t took = hang_takes_ms(rig, job);
    assert_in_range(took, 595000, 625000);
    rig_lay(rig, 5, 0); /* long before the pause */
    rig_run(rig, 40000);
    took = hang_takes_ms(rig, job);
    assert_in_range(took, 180000, 205000);
    pause_for(rig, 400000); /* a longer one: left alone, since it was at work */
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    took = hang_takes_ms(rig, job);
    assert_in_range(took, 1200000, 1230000);
    (void)rig_free(rig);
}

/* A few short steps among long ones do not make the long ones suspicious. */
static void the_usual_gap_decides(void **state)
{
    (void)state;
    enum { SHORT_MS = 10000, LONG_MS = 150000, SHORT = 5, LONG = 9 };
    struct rig *rig = printing(6, 1);
    const uint32_t job = submit(rig, LOG_STEPS_ELSE);
    rig->step_ms = SHORT_MS;
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, SHORT * SHORT_MS);
    for (uint32_t i = 0; i < LONG; i++) {
        pause_for(rig, LONG_MS - SHORT_MS);
    }
    assert_in_range(core_job(rig->core, job)->log.gap_max_ms, LONG_MS, LONG_MS + 2000);
    rig->steps_stopped = true;
    rig_run(rig, 5 * LONG_MS - SHORT_MS);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 2 * SHORT_MS));
    (void)rig_free(rig);
}

/* A program that begins again by itself, from a step long ago. */
static void steps_that_go_back_are_no_gap(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    const uint32_t job = submit(rig, LOG_STEPS_ELSE);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 200000);
    const uint64_t top = core_job(rig->core, job)->log.step;
    rig->print_from = top - 5;
    rig_run(rig, 100000);
    assert_in_range(core_job(rig->core, job)->log.step, 5, top - 5);
    rig_run(rig, 200000);
    assert_true(core_job(rig->core, job)->log.step > top);
    assert_in_range(core_job(rig->core, job)->log.gap_max_ms, 1, 20000);
    (void)rig_free(rig);
}

/* Committed by a program that uses the library for that alone. */
static void save_now(struct rig *rig, uint32_t job)
{
    const uint64_t step = core_job(rig->core, job)->log.step;
    rig_save(rig, job, step);
    struct rig_save *save = rig_lay(rig, step, 0);
    const struct checkpoint *known =
        core_checkpoint_of_step(rig->core, core_job(rig->core, job), step);
    assert_non_null(known);
    text_copy(save->hash, HASH_TEXT_SIZE, known->d.hash);
    text_copy(save->directory, PATH_SIZE, known->d.directory);
}

/* The last checkpoint alone is kept: the pause in which an older one was made was a save still. */
static void a_save_that_was_removed_was_one(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    struct job_spec spec = rig_spec("demo", 4);
    spec.log_steps = LOG_STEPS_ALONE;
    spec.reader = READER_KEEPSTEP;
    spec.keep_last = 1;
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 20000);
    save_now(rig, job);
    pause_for(rig, 60000);
    rig_run(rig, 40000);
    save_now(rig, job);
    rig_run(rig, 120000);
    assert_true(rig_count(rig, RECORD_checkpoint_removed_kind) > 0);
    assert_in_range(hang_takes_ms(rig, job), 595000, 625000);
    (void)rig_free(rig);
}

/* A hiccup is no evaluation: what comes may still take longer than all before. */
static void a_hiccup_shortens_no_limit(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    const uint32_t job = submit(rig, LOG_STEPS_ELSE);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_run(rig, 20000);
    rig_lay(rig, 5, 0);
    pause_for(rig, 12000);
    rig_run(rig, 120000);
    assert_in_range(hang_takes_ms(rig, job), 595000, 625000);
    (void)rig_free(rig);
}

/* The time that nobody read is neither a gap nor time without a step. */
static void unread_time_counts_for_nothing(void **state)
{
    (void)state;
    struct rig *rig = printing(6, 5);
    struct job_spec spec = rig_spec("demo", 4);
    spec.log_steps = LOG_STEPS_ELSE;
    spec.step_timeout_ms = 60000;
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig->output_unread = true;
    rig_run(rig, 300000);
    rig->output_unread = false;
    rig_run(rig, 20000);
    assert_in_range(core_job(rig->core, job)->log.gap_max_ms, 1, 20000);
    rig->output_unread = true;
    rig->steps_stopped = true; /* what it prints meanwhile is passed over */
    rig_run(rig, 300000);
    rig->output_unread = false;
    rig_run(rig, 50000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 12000));
    (void)rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_that_never_matches_stops_nothing),
        cmocka_unit_test(a_start_that_hangs_is_seen),
        cmocka_unit_test(a_first_line_may_be_late),
        cmocka_unit_test(what_nobody_reads_does_not_hang),
        cmocka_unit_test(steps_count_only_where_they_are_wanted),
        cmocka_unit_test(the_limit_is_learned),
        cmocka_unit_test(the_usual_gap_decides),
        cmocka_unit_test(steps_that_go_back_are_no_gap),
        cmocka_unit_test(a_save_that_was_removed_was_one),
        cmocka_unit_test(a_hiccup_shortens_no_limit),
        cmocka_unit_test(unread_time_counts_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
