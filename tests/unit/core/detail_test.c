/* detail_test.c: what ranks' programs say of themselves: believed of whom, kept for how long, and
 * the condition when they number their ranks in another way than the job file. */
#include "tests/lib/test.h"

#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

static struct rig *running(uint32_t *ret_job)
{
    struct rig *rig = rig_create(4, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 2); /* data 4, two ranks a node */
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    return rig;
}

/* `node` (an index) says it. */
static void tell(struct rig *rig, uint32_t node, uint32_t job, uint32_t attempt, uint32_t rank,
                 uint32_t data)
{
    struct message message = {.kind = MSG_RANK_DETAIL};
    struct msg_rank_detail *detail = &message.u.rank_detail;
    detail->job = job;
    detail->attempt = attempt;
    detail->rank = rank;
    detail->has_coordinates = true;
    detail->coordinates.data = data;
    detail->step_count = 1;
    detail->steps[0] = (struct step_report){.step = 7, .total_us = 100, .compute_us = 60};
    detail->communicator_count = 1;
    detail->communicators[0] = (struct communicator_report){.name = "dp",
                                                            .axis = AXIS_DATA,
                                                            .operation = OPERATION_ALL_REDUCE,
                                                            .peer = -1,
                                                            .enqueued = 9,
                                                            .completed = 8};
    rig_send(rig, node, &message);
}

static const struct job *job_of(const struct rig *rig, uint32_t job)
{
    return core_job(rig->core, job);
}

static void test_kept_and_no_record(void **state)
{
    uint32_t job;
    struct rig *rig = running(&job);
    (void)state;
    const uint32_t records = rig->record_count;
    assert_null(core_rank_detail(rig->core, job_of(rig, job), 3));
    tell(rig, rig_node_of(rig, job, 1), job, 0, 3, 3);
    const struct rank_detail *detail = core_rank_detail(rig->core, job_of(rig, job), 3);
    assert_non_null(detail);
    assert_int_equal(detail->d.steps[0].compute_us, 60);
    assert_int_equal(detail->d.communicators[0].completed, 8);
    assert_null(core_rank_detail(rig->core, job_of(rig, job), 2));
    assert_null(core_rank_detail(rig->core, job_of(rig, job), 4));
    assert_null(core_rank_detail(rig->core, job_of(rig, job), UINT32_MAX));
    assert_int_equal(rig->record_count, records);
    rig_replay_check(rig);
    rig_free(rig);
}

/* A node speaks only for the ranks of its own slot in the attempt that runs. */
static void test_not_believed(void **state)
{
    uint32_t job;
    struct rig *rig = running(&job);
    (void)state;
    const uint32_t holder = rig_node_of(rig, job, 1);
    uint32_t spare = 0;
    while (spare == holder || spare == rig_node_of(rig, job, 0)) {
        spare++;
    }
    tell(rig, holder, job, 0, 1, 1);              /* of the other slot */
    tell(rig, holder, job, 0, 4, 0);              /* of no slot */
    tell(rig, holder, job, 0, (1u << 20) - 1, 0); /* same */
    tell(rig, holder, job, 1, 3, 3);              /* of an attempt to come */
    tell(rig, holder, job + 1, 0, 3, 3);          /* of no job */
    tell(rig, spare, job, 0, 3, 3);               /* of a node without a slot */
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_null(core_rank_detail(rig->core, job_of(rig, job), rank));
    }
    rig_free(rig);
}

/* Another attempt begins with nothing told. */
static void test_forgotten_with_the_attempt(void **state)
{
    uint32_t job;
    uint32_t rank = 99;
    struct rig *rig = running(&job);
    (void)state;
    tell(rig, rig_node_of(rig, job, 0), job, 0, 0, 3);
    tell(rig, rig_node_of(rig, job, 1), job, 0, 3, 3);
    assert_int_equal(core_job_misplaced(rig->core, job_of(rig, job), &rank), 1);
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    assert_int_equal(job_of(rig, job)->d.attempt, 1);
    assert_null(core_rank_detail(rig->core, job_of(rig, job), 3));
    assert_int_equal(core_job_misplaced(rig->core, job_of(rig, job), &rank), 0);
    tell(rig, rig_node_of(rig, job, 1), job, 0, 3, 3); /* late, of the old one */
    assert_null(core_rank_detail(rig->core, job_of(rig, job), 3));
    tell(rig, rig_node_of(rig, job, 1), job, 1, 3, 3);
    assert_non_null(core_rank_detail(rig->core, job_of(rig, job), 3));
    rig_free(rig);
}

/* layout-mismatch: shown at once, counted, and gone when the program says otherwise. */
static void test_misplaced(void **state)
{
    uint32_t job;
    uint32_t rank = 99;
    struct rig *rig = running(&job);
    (void)state;
    for (uint32_t i = 0; i < 4; i++) { /* this program numbers its replicas backwards */
        tell(rig, rig_node_of(rig, job, i / 2), job, 0, i, 3 - i);
    }
    assert_int_equal(core_job_misplaced(rig->core, job_of(rig, job), &rank), 4);
    assert_int_equal(rank, 0);
    assert_int_equal(core_rank_coordinates(job_of(rig, job), 2).data, 2);
    assert_non_null(strstr(rig->trace, "rank 1 computed tp 0 cp 0 pp 0 dp 2, its layout says tp 0 "
                                       "cp 0 pp 0 dp 1"));
    tell(rig, rig_node_of(rig, job, 0), job, 0, 0, 0);
    assert_int_equal(core_job_misplaced(rig->core, job_of(rig, job), &rank), 3);
    assert_int_equal(rank, 1);
    for (uint32_t i = 1; i < 4; i++) {
        tell(rig, rig_node_of(rig, job, i / 2), job, 0, i, i);
    }
    assert_int_equal(core_job_misplaced(rig->core, job_of(rig, job), &rank), 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_and_no_record),
        cmocka_unit_test(test_not_believed),
        cmocka_unit_test(test_forgotten_with_the_attempt),
        cmocka_unit_test(test_misplaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
