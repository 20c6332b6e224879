/* adopt_test.c: a store from before a swap under running ranks: what adopting makes of the reports,
 * and what it refuses because they do not fit together. In none of these may ranks be stopped. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { SLOTS = 3, NODES = 5 };

struct old {
    struct rig *rig;
    uint32_t job;
    uint32_t lost;  /* index of the node that this store still believes in */
    uint32_t spare; /* … and of the one that came in its place */
};

/* started: the copy is from a running job, else from before its first start. */
static struct old old_store(bool started)
{
    struct old old = {.rig = rig_create(NODES, 1)};
    struct rig *rig = old.rig;
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", SLOTS);
    old.job = rig_submit(rig, &spec);
    uint32_t submitted = 0;
    while (rig->records[submitted++].kind != RECORD_job_submitted_kind) {
    }
    assert_true(rig_until(rig, old.job, JOB_RUNNING, 10000));
    rig_save(rig, old.job, core_job(rig->core, old.job)->step);
    uint32_t copy = started ? rig->record_count : submitted;
    old.lost = rig_node_of(rig, old.job, 1);
    rig_kill_node(rig, old.lost, RIG_PEER_NOTHING);
    assert_true(rig_until(rig, old.job, JOB_RECOVERING, 10000));
    assert_true(rig_until(rig, old.job, JOB_RUNNING, 10000));
    old.spare = rig_node_of(rig, old.job, 1);
    rig_run(rig, 1000);
    rig->record_count = copy;
    rig_restart(rig, 1000);
    rig_run(rig, 3000);
    return old;
}

static uint64_t starts(const struct rig *rig)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        count += rig->starts[i];
    }
    return count;
}

static uint32_t alive(const struct rig *rig, uint32_t attempt)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        for (uint32_t k = 0; k < rig->nodes[i].attempt_count; k++) {
            const struct attempt_report *report = &rig->nodes[i].attempts[k].report;
            bool runs = report->attempt == attempt && report->rank_count > 0 && !report->empty;
            count += runs ? 1 : 0;
        }
    }
    return count;
}

static int32_t adopt(struct rig *rig)
{
    struct request request = {.verb = REQUEST_ADOPT};
    return rig_request(rig, &request);
}

static void expect_refusal(struct old *old, const char *part)
{
    uint64_t digest = core_digest(old->rig->core);
    assert_int_equal(adopt(old->rig), -EBUSY);
    if (strstr(old->rig->reply_text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", old->rig->reply_text, part);
    }
    assert_true(core_digest(old->rig->core) == digest);
    assert_true(core_held(old->rig->core));
    rig_run(old->rig, 20000);
    assert_int_equal(alive(old->rig, 1), SLOTS);
}

static void expect_adopted(struct old *old)
{
    uint64_t before = starts(old->rig);
    assert_int_equal(adopt(old->rig), 0);
    assert_false(core_held(old->rig->core));
    const struct job *job = core_job(old->rig->core, old->job);
    assert_int_equal(job->d.state, JOB_RUNNING);
    assert_int_equal(job->d.attempt, 1);
    assert_int_equal(rig_node_of(old->rig, old->job, 1), old->spare);
    rig_run(old->rig, 20000);
    job = core_job(old->rig->core, old->job);
    assert_int_equal(job->d.state, JOB_RUNNING);
    assert_int_equal(job->d.attempt, 1);
    assert_int_equal(alive(old->rig, 1), SLOTS);
    assert_true(starts(old->rig) == before);
    rig_replay_check(old->rig);
    rig_free(old->rig);
}

static struct attempt_report *report_of(struct old *old, uint32_t index)
{
    struct rig_node *node = &old->rig->nodes[index];
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        if (node->attempts[i].report.attempt == 1) {
            return &node->attempts[i].report;
        }
    }
    fail_msg("node %s runs nothing of attempt 1", node->name);
    return NULL;
}

/* ---- what fits ------------------------------------------------------------------------------ */

static void test_slots_follow_the_reports(void **state)
{
    (void)state;
    struct old old = old_store(true);
    assert_true(core_held(old.rig->core));
    assert_int_equal(rig_node_of(old.rig, old.job, 1), old.lost);
    struct request dry = {.verb = REQUEST_ADOPT, .dry_run = true};
    uint64_t digest = core_digest(old.rig->core);
    assert_int_equal(rig_request(old.rig, &dry), 0);
    assert_non_null(strstr(old.rig->reply_text, "demo at attempt 1, 1 slot moved"));
    assert_true(core_digest(old.rig->core) == digest);
    expect_adopted(&old);
}

/* The copy is from before the job's first start: it never had an attempt. */
static void test_job_that_never_started_here(void **state)
{
    (void)state;
    struct old old = old_store(false);
    assert_int_equal(core_job(old.rig->core, old.job)->d.state, JOB_PENDING);
    expect_adopted(&old);
}

/* Two holders have changed places: both slots are left before either is taken. */
static void test_holders_changed_places(void **state)
{
    (void)state;
    struct old old = old_store(true);
    struct attempt_report *a = report_of(&old, rig_node_of(old.rig, old.job, 0));
    struct attempt_report *b = report_of(&old, rig_node_of(old.rig, old.job, 2));
    uint32_t first = a->first_rank;
    a->first_rank = b->first_rank;
    b->first_rank = first;
    rig_run(old.rig, 2000);
    expect_adopted(&old);
}

/* The newest attempt had been ordered to stop: it is not started again, the next one is. */
static void test_stopped_attempt_goes_on(void **state)
{
    (void)state;
    struct old old = old_store(true);
    for (uint32_t i = 0; i < NODES; i++) {
        if (i != old.lost && old.rig->nodes[i].attempt_count > 0) {
            report_of(&old, i)->stop_seen = true;
        }
    }
    rig_run(old.rig, 2000);
    assert_int_equal(adopt(old.rig), 0);
    assert_int_equal(core_job(old.rig->core, old.job)->d.state, JOB_RECOVERING);
    assert_true(rig_until(old.rig, old.job, JOB_RUNNING, 20000));
    assert_int_equal(core_job(old.rig->core, old.job)->d.attempt, 2);
    assert_int_equal(alive(old.rig, 1), 0);
    rig_replay_check(old.rig);
    rig_free(old.rig);
}

/* This store believes the node in a slot of one job, and it reports ranks of another: it is taken out
 * of the one before it is put into the other, also where the first has open slots. */
static void test_holder_went_to_another_job(void **state)
{
    (void)state;
    struct old old = old_store(true);
    struct job_spec spec = rig_spec("other", 1);
    uint32_t other = rig_submit(old.rig, &spec);
    assert_int_not_equal(other, 0);
    for (uint32_t i = 0; i < NODES; i++) {
        if (i != old.lost && old.rig->nodes[i].attempt_count > 0) {
            report_of(&old, i)->stop_seen = true;
        }
    }
    struct rig_node *holder = &old.rig->nodes[old.lost];
    holder->attempt_count = 1;
    holder->attempts[0] =
        (struct rig_attempt){.report = {.job = other, .attempt = 0, .rank_count = RIG_RANKS},
                             .started_ms = old.rig->now_ms,
                             .world = RIG_RANKS};
    for (uint32_t i = 0; i < RIG_RANKS; i++) {
        holder->attempts[0].report.ranks[i].state = RANK_RUNNING;
    }
    rig_connect(old.rig, old.lost);
    rig_run(old.rig, 2000);
    assert_int_equal(core_node(old.rig->core, old.lost + 1)->d.job, old.job);
    assert_int_equal(adopt(old.rig), 0);
    assert_int_equal(core_job(old.rig->core, other)->d.state, JOB_RUNNING);
    assert_int_equal(rig_node_of(old.rig, other, 0), old.lost);
    assert_int_equal(core_job(old.rig->core, old.job)->d.state, JOB_RECOVERING);
    assert_true(rig_until(old.rig, old.job, JOB_RUNNING, 20000));
    assert_int_equal(core_job(old.rig->core, other)->d.attempt, 0);
    rig_replay_check(old.rig);
    rig_free(old.rig);
}

/* ---- what does not fit ---------------------------------------------------------------------- */

static void test_two_claim_one_slot(void **state)
{
    (void)state;
    struct old old = old_store(true);
    report_of(&old, rig_node_of(old.rig, old.job, 0))->first_rank = RIG_RANKS;
    rig_run(old.rig, 2000);
    expect_refusal(&old, "both report slot 1 of demo at attempt 1");
    rig_free(old.rig);
}

static void test_nobody_claims_a_slot(void **state)
{
    (void)state;
    struct old old = old_store(true);
    rig_kill_agent(old.rig, old.spare, RIG_PEER_REFUSED); /* its ranks live on */
    rig_run(old.rig, 2000);
    char text[TEXT_SIZE];
    (void)text_format(text, sizeof text,
                      "nobody reports slot 1 of demo at attempt 1 (here %s holds it)",
                      old.rig->nodes[old.lost].name);
    expect_refusal(&old, text);
    rig_connect(old.rig, old.spare);
    rig_run(old.rig, 2000);
    expect_adopted(&old);
}

/* It claimed the slot, and says nothing of it any more. */
static void test_a_claim_ends_with_its_report(void **state)
{
    (void)state;
    struct old old = old_store(true);
    struct rig_node *spare = &old.rig->nodes[old.spare];
    assert_int_equal(spare->attempt_count, 1);
    spare->attempts[1] = spare->attempts[0];
    spare->attempts[0].report.attempt = 0;
    spare->attempts[0].report.empty = true;
    spare->attempt_count = 2;
    rig_run(old.rig, 2000);
    const struct rig_attempt claim = spare->attempts[1];
    spare->attempt_count = 1;
    rig_run(old.rig, 2000);
    assert_int_equal(adopt(old.rig), -EBUSY);
    assert_non_null(strstr(old.rig->reply_text, "nobody reports slot 1 of demo at attempt 1"));
    spare->attempts[0] = claim;
    spare->attempts[0].report.rank_count = 0; /* of an attempt that it never began */
    rig_run(old.rig, 2000);
    assert_int_equal(adopt(old.rig), -EBUSY);
    spare->attempts[0] = claim;
    rig_run(old.rig, 2000);
    expect_adopted(&old);
}

static void test_ranks_of_another_shape(void **state)
{
    (void)state;
    struct old old = old_store(true);
    report_of(&old, old.spare)->first_rank = RIG_RANKS + 1;
    rig_run(old.rig, 2000);
    expect_refusal(&old, "reports ranks 3 to 4 of demo, which has 3 slots of 2 here");
    report_of(&old, old.spare)->first_rank = SLOTS * RIG_RANKS;
    rig_run(old.rig, 2000);
    expect_refusal(&old, "reports ranks 6 to 7 of demo");
    rig_free(old.rig);
}

static void test_a_counter_without_a_successor(void **state)
{
    (void)state;
    struct old old = old_store(true);
    report_of(&old, old.spare)->attempt = UINT32_MAX;
    rig_run(old.rig, 2000);
    assert_int_equal(adopt(old.rig), -EBUSY);
    assert_non_null(strstr(old.rig->reply_text, "no counter goes past that"));
    rig_free(old.rig);
}

/* A mark from the lost past would have the job leave the node the moment it is adopted. */
static void test_marked_node_is_undrained_first(void **state)
{
    (void)state;
    struct old old = old_store(true);
    const char *name = old.rig->nodes[old.spare].name;
    assert_int_equal(rig_nodes(old.rig, REQUEST_DRAIN, name, WHEN_NOW), 0);
    expect_refusal(&old, "has a mark that would take it out at once");
    assert_int_equal(rig_nodes(old.rig, REQUEST_UNDRAIN, name, WHEN_NOW), 0);
    expect_adopted(&old);
}

/* A cancel from an older store would not reach the ranks: it says so, and works once adopted. */
static void test_cancel_waits_for_adopt(void **state)
{
    (void)state;
    struct old old = old_store(true);
    assert_int_equal(rig_job(old.rig, REQUEST_CANCEL, old.job), -EBUSY);
    assert_int_equal(adopt(old.rig), 0);
    assert_int_equal(rig_job(old.rig, REQUEST_CANCEL, old.job), 0);
    assert_true(rig_until(old.rig, old.job, JOB_CANCELLED, 20000));
    assert_int_equal(alive(old.rig, 1), 0);
    rig_free(old.rig);
}

/* ---- ranks of nobody -------------------------------------------------------------------------- */

/* Ranks of a running job on so many nodes that hold no slot of it. */
static struct rig *with_strays(uint32_t count, uint32_t strays[])
{
    struct rig *rig = rig_create(NODES, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", SLOTS);
    const uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    uint32_t found = 0;
    for (uint32_t i = 0; i < NODES && found < count; i++) {
        if (rig->nodes[i].attempt_count == 0) {
            strays[found++] = i;
            rig->nodes[i].attempts[0] = rig->nodes[rig_node_of(rig, job, 1)].attempts[0];
            rig->nodes[i].attempt_count = 1;
        }
    }
    assert_int_equal(found, count);
    rig_run(rig, 2000);
    return rig;
}

/* Said also when it is the only thing that an adoption did, and not when there was nothing. */
static void test_one_set_alone_is_a_change(void **state)
{
    (void)state;
    uint32_t stray;
    struct rig *rig = with_strays(1, &stray);
    assert_int_equal(adopt(rig), 0);
    assert_string_equal(rig->reply_text, "1 set of foreign ranks adopted");
    assert_true(rig->reply_changed);
    assert_int_equal(rig->reply_job, 0); /* it is about all of them */
    assert_int_equal(adopt(rig), 0);
    assert_string_equal(rig->reply_text, "0 sets of foreign ranks adopted");
    assert_false(rig->reply_changed);
    rig_replay_check(rig);
    rig_free(rig);
}

/* Ranks end on the nodes that a person names, on no others; without a name, on all that are left. */
static void test_foreign_ranks_end_where_they_are_named(void **state)
{
    (void)state;
    uint32_t strays[2];
    struct rig *rig = with_strays(2, strays);
    const uint32_t id = strays[0] + 1;
    struct request request = {.verb = REQUEST_STOP_FOREIGN, .nodes = &id, .node_count = 1};
    assert_int_equal(rig_request(rig, &request), 0);
    assert_string_equal(rig->reply_text, "1 set of foreign ranks told to stop");
    assert_true(rig->reply_changed);
    rig_run(rig, 2000);
    assert_true(rig->nodes[strays[0]].stops_heard > 0);
    assert_int_equal(rig->nodes[strays[1]].stops_heard, 0);
    request.node_count = 0;
    assert_int_equal(rig_request(rig, &request), 0);
    rig_run(rig, 2000);
    assert_true(rig->nodes[strays[1]].stops_heard > 0);
    assert_int_equal(alive(rig, 0), SLOTS);
    rig_replay_check(rig);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_follow_the_reports),
        cmocka_unit_test(test_job_that_never_started_here),
        cmocka_unit_test(test_holders_changed_places),
        cmocka_unit_test(test_stopped_attempt_goes_on),
        cmocka_unit_test(test_holder_went_to_another_job),
        cmocka_unit_test(test_two_claim_one_slot),
        cmocka_unit_test(test_nobody_claims_a_slot),
        cmocka_unit_test(test_a_claim_ends_with_its_report),
        cmocka_unit_test(test_ranks_of_another_shape),
        cmocka_unit_test(test_a_counter_without_a_successor),
        cmocka_unit_test(test_marked_node_is_undrained_first),
        cmocka_unit_test(test_cancel_waits_for_adopt),
        cmocka_unit_test(test_one_set_alone_is_a_change),
        cmocka_unit_test(test_foreign_ranks_end_where_they_are_named),
    };
    return cmocka_run_group_tests_name("adopt", tests, NULL, NULL);
}
