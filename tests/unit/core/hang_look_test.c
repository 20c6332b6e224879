/* hang_look_test.c: when a job hangs, and what of the things that ranks told is believed then. */
#include "tests/lib/test.h"

#include <string.h>

#include "controller/core/state.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { STEP_LIMIT_MS = 30000 };

/* Four slots of two ranks, all in data parallel; they have made a few steps. */
static struct rig *running(uint32_t *ret_job)
{
    struct rig *rig = rig_create(6, 1);
    rig->synchronous = true;
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    rig_run(rig, 2000);
    return rig;
}

static const struct job *job_of(const struct rig *rig, uint32_t job)
{
    return core_job(rig->core, job);
}

/* The rank has completed so many all-reduces; `in`: and is in the next. */
static void tell(struct rig *rig, uint32_t job, uint32_t rank, uint64_t completed, bool in)
{
    const struct communicator_report one = {.name = "data",
                                            .axis = AXIS_DATA,
                                            .operation = in ? OPERATION_ALL_REDUCE : OPERATION_NONE,
                                            .enqueued = completed + (in ? 1 : 0),
                                            .completed = completed,
                                            .peer = -1};
    rig_tell(rig, job, rank, &one, 1);
}

/* The ranks of slot 1 stand still, and rank 3 is the one that all wait for. */
static void hang(struct rig *rig, uint32_t job)
{
    rig->nodes[rig_node_of(rig, job, 1)].hang = true;
    for (uint32_t rank = 0; rank < 8; rank++) {
        tell(rig, job, rank, 7, rank != 3);
    }
}

static const struct record_fact_kept *fact_of(const struct rig *rig)
{
    const struct record *record = rig_last(rig, RECORD_fact_kept_kind);
    return record == NULL ? NULL : &record->u.fact_kept;
}

static void test_the_rank_is_named(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    hang(rig, job);
    const uint64_t begun = rig->now_ms;
    assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
    assert_in_range(rig->now_ms - begun, STEP_LIMIT_MS - 1000, STEP_LIMIT_MS);
    const struct record_fact_kept *fact = fact_of(rig);
    assert_int_equal(fact->rank, 3);
    assert_int_equal(fact->node, core_slot(rig->core, job_of(rig, job), 1)->d.node);
    assert_int_equal(fact->code, CONFIDENCE_HIGH);
    assert_non_null(strstr(fact->text, "stopped before all-reduce 8 of data; 7 ranks wait for it"));
    assert_true(rig_until(rig, job, JOB_RECOVERING, 5000));
    rig_run(rig, 1000);
    const struct record_verdict *verdict = &rig_last(rig, RECORD_verdict_kind)->u.verdict;
    assert_string_equal(verdict->rule, "hang");
    assert_int_equal(verdict->confidence, CONFIDENCE_HIGH);
    assert_int_equal(rig_last(rig, RECORD_blamed_kind)->u.blamed.node, fact->node);
    rig_replay_check(rig);
    rig_free(rig);
}

/* What an earlier attempt told says nothing of this one. */
static void test_of_another_attempt(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    hang(rig, job);
    rig->nodes[rig_node_of(rig, job, 1)].hang = false;
    rig_run(rig, 2000);
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    rig_run(rig, 2000);
    rig->nodes[rig_node_of(rig, job, 1)].hang = true;
    assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
    assert_int_equal(fact_of(rig)->rank, -1);
    assert_int_equal(fact_of(rig)->code, CONFIDENCE_LOW);
    rig_free(rig);
}

/* Two repetitions are missing: what it told before is not believed any more. The first rank of all
 * is no other than the rest. */
static void test_stale_is_silent(void **state)
{
    (void)state;
    for (uint32_t silent = 0; silent <= 3; silent += 3) {
        uint32_t job;
        struct rig *rig = running(&job);
        uint32_t node = rig_node_of(rig, job, silent / RIG_RANKS);
        rig->nodes[node].hang = true;
        for (uint32_t rank = 0; rank < 8; rank++) {
            tell(rig, job, rank, 7, true); /* that one as if it waited, and for the last time */
        }
        rig_run(rig, 10);
        rig->nodes[node].told[silent % RIG_RANKS].next_ms = 0;
        assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
        assert_int_equal(fact_of(rig)->severity, 1); /* the list of the silent comes last */
        char text[TEXT_SIZE];
        (void)text_format(text, sizeof(text), "1 rank tells nothing: %u", silent);
        assert_string_equal(fact_of(rig)->text, text);
        (void)text_format(text, sizeof(text),
                          "rank %u on %s tells nothing; 7 ranks wait for it, at all-reduce 8 of "
                          "data",
                          silent, rig->nodes[node].name);
        assert_non_null(strstr(rig->trace, text));
        rig_free(rig);
    }
}

/* From the moment when the last rank moved, whichever it was, the time is lost. */
static void test_lost_since_the_last_move(void **state)
{
    (void)state;
    struct rig *rig = rig_create(2, 1);
    rig->synchronous = true;
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 1);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    rig_run(rig, 2000);
    rig->nodes[rig_node_of(rig, job, 0)].hang = true;
    rig_run(rig, 1000); /* what it had done is told by now */
    const uint64_t begun = core_service_ms(rig->core) - 1000;
    assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
    const struct recovery *recovery = core_recovery(rig->core, job_of(rig, job)->d.recovery);
    assert_in_range(recovery->d.opened_service_ms, begun - 1000, begun + 1000);
    rig_free(rig);
}

/* A program that numbers its ranks in another way: nothing that rests on the layout is asked. */
static void test_misplaced(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    hang(rig, job);
    struct rig_told *told = &rig->nodes[rig_node_of(rig, job, 2)].told[0];
    told->detail.has_coordinates = true;
    told->detail.coordinates.data = 6; /* of rank 4 */
    assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
    assert_int_equal(fact_of(rig)->rank, -1);
    rig_free(rig);
}

/* An agent that speaks of ranks far from its slot's: nothing is looked up by its numbers. */
static void test_ranks_of_another_slot(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    hang(rig, job);
    rig->nodes[rig_node_of(rig, job, 2)].attempts[0].report.first_rank = 100000;
    assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
    assert_int_equal(fact_of(rig)->rank, 3);
    rig_free(rig);
}

/* Ranks that tell something new when their limit is over are looked at again, 5 s later at most. */
static void test_the_second_look(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    hang(rig, job);
    const uint64_t begun = rig->now_ms;
    rig_run(rig, STEP_LIMIT_MS - 3000);
    tell(rig, job, 5, 6, true); /* still on its way; now it stands */
    rig_run(rig, 1000);
    tell(rig, job, 5, 7, true);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 60000));
    assert_in_range(rig->now_ms - begun, STEP_LIMIT_MS + 2500, STEP_LIMIT_MS + 4000);
    assert_int_equal(fact_of(rig)->rank, 3);
    assert_int_equal(fact_of(rig)->code, CONFIDENCE_HIGH);
    rig_free(rig);
    rig = running(&job);
    hang(rig, job);
    const uint64_t again = rig->now_ms;
    for (uint64_t i = 0; job_of(rig, job)->d.state == JOB_RUNNING && i < 60; i++) {
        tell(rig, job, 5, i, true); /* goes on for ever, and completes no step */
        rig_run(rig, 1000);
    }
    assert_in_range(rig->now_ms - again, STEP_LIMIT_MS + 3000, STEP_LIMIT_MS + 6000);
    assert_int_equal(fact_of(rig)->rank, 3);
    assert_int_equal(fact_of(rig)->code, CONFIDENCE_MEDIUM);
    rig_free(rig);
}

/* ---- limits --------------------------------------------------------------------------------- */

static uint64_t limit(const struct rig *rig, uint32_t job, uint8_t phase)
{
    return core_job_limit_ms(job_of(rig, job), phase);
}

/* One rank of slot 2 stays in this phase for so long; all others wait for it. */
static void stay(struct rig *rig, uint32_t job, uint8_t phase, uint64_t ms)
{
    struct rig_node *node = &rig->nodes[rig_node_of(rig, job, 2)];
    node->hang = true;
    node->stuck = 2;
    node->stuck_phase = phase;
    rig_run(rig, ms);
    node->hang = false;
    node->stuck = 0;
    rig_run(rig, 3000);
    assert_int_equal(job_of(rig, job)->d.state, JOB_RUNNING);
}

static void test_limits_are_learned(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    assert_int_equal(limit(rig, job, PHASE_INIT), 60000);
    assert_int_equal(limit(rig, job, PHASE_RESTORE), 60000);
    assert_int_equal(limit(rig, job, PHASE_CHECKPOINT), 30 * 60000);
    assert_int_equal(limit(rig, job, PHASE_EVAL), 60 * 60000);
    assert_true(limit(rig, job, PHASE_IDLE) == UINT64_MAX);
    assert_int_equal(limit(rig, job, PHASE_STEP), STEP_LIMIT_MS);
    stay(rig, job, PHASE_CHECKPOINT, 150000); /* five times as long as a step may take */
    stay(rig, job, PHASE_CHECKPOINT, 4000);
    assert_int_equal(limit(rig, job, PHASE_CHECKPOINT), 30 * 60000); /* seen twice */
    stay(rig, job, PHASE_CHECKPOINT, 4000);
    assert_in_range(limit(rig, job, PHASE_CHECKPOINT), 447000, 453000);
    for (uint32_t i = 0; i < 3; i++) {
        stay(rig, job, PHASE_EVAL, 4000);
    }
    assert_int_equal(limit(rig, job, PHASE_EVAL), 60000); /* not less */
    rig->step_ms = 9000;
    rig_run(rig, 20000);
    assert_int_equal(limit(rig, job, PHASE_STEP), 45000);
    rig_replay_check(rig);
    rig_restart(rig, 500); /* what was learned is forgotten, and the long limits hold again */
    rig_run(rig, 3000);
    assert_int_equal(limit(rig, job, PHASE_CHECKPOINT), 30 * 60000);
    rig_free(rig);
}

/* hang.warmup_steps: after a start each may take as long as the first; a person's word counts. */
static void test_steps_warm_up(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    struct job changed = *job_of(rig, job);
    assert_int_equal(core_job_limit_ms(&changed, PHASE_STEP), STEP_LIMIT_MS);
    changed.d.restore_step = changed.step > 0 ? changed.step - 1 : 0;
    changed.d.warmup_steps = 5;
    assert_int_equal(core_job_limit_ms(&changed, PHASE_STEP), changed.d.first_step_ms);
    changed.d.step_timeout_ms = 7000;
    assert_int_equal(core_job_limit_ms(&changed, PHASE_STEP), 7000);
    changed.d.step_timeout_ms = 0;
    changed.step = changed.d.restore_step + 5;
    assert_int_equal(core_job_limit_ms(&changed, PHASE_STEP), STEP_LIMIT_MS);
    rig_free(rig);
}

/* Slots that save the same step are one save; a phase that ends with its attempt taught nothing. */
static void test_what_counts_as_seen(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    for (uint32_t i = 0; i < 4; i++) {
        struct rig_node *node = &rig->nodes[rig_node_of(rig, job, i)];
        node->hang = true;
        node->stuck = UINT8_MAX;
        node->stuck_phase = PHASE_CHECKPOINT;
    }
    rig_run(rig, 5000);
    for (uint32_t i = 0; i < 4; i++) {
        rig->nodes[rig_node_of(rig, job, i)].hang = false;
    }
    rig_run(rig, 3000);
    assert_int_equal(job_of(rig, job)->history[PHASE_CHECKPOINT].count, 1);
    assert_in_range(job_of(rig, job)->history[PHASE_CHECKPOINT].longest_ms, 4000, 6000);
    struct rig_node *node = &rig->nodes[rig_node_of(rig, job, 2)];
    node->hang = true;
    node->stuck = 2;
    node->stuck_phase = PHASE_CHECKPOINT;
    rig_run(rig, 20000);
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    node->hang = false;
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    rig_run(rig, 2000);
    assert_int_equal(job_of(rig, job)->history[PHASE_CHECKPOINT].count, 1);
    assert_int_equal(job_of(rig, job)->history[PHASE_INIT].count, 2); /* of two attempts */
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rank_is_named),
        cmocka_unit_test(test_of_another_attempt),
        cmocka_unit_test(test_lost_since_the_last_move),
        cmocka_unit_test(test_stale_is_silent),
        cmocka_unit_test(test_misplaced),
        cmocka_unit_test(test_the_second_look),
        cmocka_unit_test(test_limits_are_learned),
        cmocka_unit_test(test_steps_warm_up),
        cmocka_unit_test(test_what_counts_as_seen),
        cmocka_unit_test(test_ranks_of_another_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
