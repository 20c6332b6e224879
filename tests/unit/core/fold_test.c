/* fold_test.c: what a journal may say and what it may not. A record that cannot belong to the state
 * is refused with its reason and changes nothing; past a limit the oldest that nobody needs goes, or
 * the record is refused; and every reader of the state ends where the state does. */
#include "tests/lib/test.h"

#include <string.h>

#include "controller/core/core.h"
#include "controller/core/state.h"
#include "proto/base/text.h"

enum { AGENTS = 3, JOBS = 2, SLOTS = 5, INCIDENTS = 2, FACTS = 3, RECOVERIES = 2, SAVES = 4 };
enum { FOREIGN = 2 };

#define REC(name, ...)                                                                             \
    (&(struct record){.kind = RECORD_##name##_kind,                                                \
                      .version = RECORD_VERSION,                                                   \
                      .service_ms = 1000,                                                          \
                      .wall_ms = 5000,                                                             \
                      .u.name = {__VA_ARGS__}})

static void take(struct core *core, const struct record *record)
{
    struct err err = {0};
    if (core_replay(core, record, &err) < 0) {
        fail_msg("kind %u is refused: %s", record->kind, err.text);
    }
    core_check(core);
}

static void refuse(struct core *core, const struct record *record, const char *why)
{
    struct err err = {0};
    uint64_t digest = core_digest(core);
    assert_true(core_replay(core, record, &err) < 0);
    if (strstr(err.text, why) == NULL) {
        fail_msg("kind %u is refused with `%s`, not with `%s`", record->kind, err.text, why);
    }
    assert_int_equal(core_digest(core), digest);
    core_check(core);
}

static struct record *submitted(uint32_t job, const char *name, uint32_t slots)
{
    static struct record record;
    record = *REC(job_submitted, .job = job, .tensor = 1, .context = 1, .pipeline = 1,
                  .data = slots, .ranks_per_node = 1);
    text_copy(record.u.job_submitted.name, NAME_SIZE, name);
    return &record;
}

static struct record *joined(uint32_t node, const char *name)
{
    static struct record record;
    record = *REC(node_joined, .node = node);
    text_copy(record.u.node_joined.name, NAME_SIZE, name);
    return &record;
}

/* Two nodes, and the job 1 of two slots. */
static struct core *begin(void)
{
    struct core_limits limits = core_limits_default;
    limits.agents = AGENTS;
    limits.jobs = JOBS;
    limits.slots = SLOTS;
    limits.incidents = INCIDENTS;
    limits.facts = FACTS;
    limits.recoveries = RECOVERIES;
    limits.checkpoints = SAVES;
    limits.foreign = FOREIGN;
    struct core_config config = {0};
    struct core *core;
    assert_int_equal(core_create(&limits, &config, 1, &core), 0);
    take(core, joined(1, "n-1"));
    take(core, joined(2, "n-2"));
    take(core, submitted(1, "one", 2));
    return core;
}

/* ---- what is not there ------------------------------------------------------------------------ */

static void test_what_is_not_there(void **state)
{
    (void)state;
    struct core *core = begin();
    const char *node = "there is no node 9";
    const char *job = "there is no job 9";
    const char *recovery = "there is no recovery 9";
    refuse(core, REC(node_session, .node = 9), node);
    refuse(core, REC(node_moved, .node = 9), node);
    refuse(core, REC(node_lost, .node = 9), node);
    refuse(core, REC(node_back, .node = 9), node);
    refuse(core, REC(node_removed, .node = 9), node);
    refuse(core, REC(node_fence, .node = 9), node);
    refuse(core, REC(inventory_accepted, .node = 9), node);
    refuse(core, REC(mark_set, .node = 9), node);
    refuse(core, REC(strike, .node = 9), node);
    refuse(core, REC(image_mark, .node = 9), node);
    refuse(core, REC(mark_cleared, .node = 9), "node 9 has no mark");
    refuse(core, REC(slot_taken, .job = 1, .node = 9), node);
    refuse(core, REC(slot_left, .job = 1, .node = 9), node);
    refuse(core, REC(slot_taken, .job = 9, .node = 1), job);
    refuse(core, REC(slot_left, .job = 9, .node = 1), job);
    refuse(core, REC(slot_done, .job = 9), job);
    refuse(core, REC(image_slot, .job = 9), job);
    refuse(core, REC(job_moved, .job = 9), job);
    refuse(core, REC(cancel_asked, .job = 9), job);
    refuse(core, REC(hold_asked, .job = 9), job);
    refuse(core, REC(rollback_approved, .job = 9), job);
    refuse(core, REC(job_quarantined, .job = 9), job);
    refuse(core, REC(attempt_made, .job = 9), job);
    refuse(core, REC(attempt_ended, .job = 9), job);
    refuse(core, REC(port_chosen, .job = 9), job);
    refuse(core, REC(launch_ordered, .job = 9), job);
    refuse(core, REC(save_asked, .job = 9), job);
    refuse(core, REC(budget_used, .job = 9), job);
    refuse(core, REC(time_settled, .job = 9), job);
    refuse(core, REC(incident_opened, .job = 9), job);
    refuse(core, REC(recovery_opened, .job = 9), job);
    refuse(core, REC(verdict, .incident = 9), "incident 9, which is not known");
    refuse(core, REC(blamed, .incident = 9), "incident 9, which is not known");
    refuse(core, REC(recovery_merged, .recovery = 9), recovery);
    refuse(core, REC(recovery_phase, .recovery = 9), recovery);
    refuse(core, REC(recovery_plan, .recovery = 9), recovery);
    refuse(core, REC(recovery_closed, .recovery = 9), recovery);
    refuse(core, REC(foreign_resolved, .node = 1, .job = 9), "no foreign ranks of job 9");
    struct record unknown = {.kind = 63};
    refuse(core, &unknown, "record kind 63 is not known");
    unknown.kind = RECORD_KIND_MAX + 1;
    refuse(core, &unknown, "is not known");
    (void)core_free(core);
}

static void test_what_does_not_follow(void **state)
{
    (void)state;
    struct core *core = begin();
    refuse(core, joined(2, "n-2"), "does not follow node 2");
    refuse(core, joined(4, "n-4"), "does not follow node 2");
    refuse(core, REC(image_core, .term = 3), "into an empty core");
    refuse(core, REC(slot_taken, .job = 1, .slot = 2, .node = 1), "job one has no slot 2");
    refuse(core, REC(node_moved, .node = 1, .from = NODE_READY, .to = NODE_OUT), "it is joining");
    refuse(core, REC(node_moved, .node = 1, .from = NODE_JOINING, .to = NODE_ACTIVE),
           "cannot move");
    refuse(core, REC(job_moved, .job = 1, .from = JOB_RUNNING, .to = JOB_FAILED), "it is pending");
    refuse(core, REC(job_moved, .job = 1, .from = JOB_PENDING, .to = JOB_RUNNING), "cannot move");
    refuse(core, REC(attempt_made, .job = 1, .attempt = 1), "does not follow");
    take(core, REC(attempt_made, .job = 1, .attempt = 0));
    refuse(core, REC(attempt_made, .job = 1, .attempt = 0), "does not follow attempt 0");
    refuse(core, REC(launch_ordered, .job = 1, .attempt = 1), "which is at 0");
    take(core, REC(launch_ordered, .job = 1, .attempt = 0));
    take(core, REC(term_began, .term = 5));
    refuse(core, REC(term_began, .term = 5), "term 5 does not follow term 5");
    struct record opened = *REC(store_opened, .cluster_id = "c", .store_id = "s");
    take(core, &opened);
    refuse(core, &opened, "opened twice");
    refuse(core, REC(time_settled, .job = 1, .until_service_ms = 999, .ms = 0), "does not join");
    refuse(core, REC(time_settled, .job = 1, .until_service_ms = 1500, .ms = 499), "does not join");
    take(core, REC(time_settled, .job = 1, .until_service_ms = 1500, .ms = 500));
    refuse(core, REC(slot_done, .job = 1, .slot = 0, .attempt = 1), "is done twice");
    take(core, REC(slot_done, .job = 1, .slot = 0, .attempt = 0, .step = 7));
    refuse(core, REC(slot_done, .job = 1, .slot = 0, .attempt = 0), "is done twice");
    (void)core_free(core);
}

static void test_who_holds_a_slot(void **state)
{
    (void)state;
    struct core *core = begin();
    struct err err = {0};
    take(core, submitted(2, "two", 2));
    /* One record alone leaves a node between two lives: the core is not checked in between. */
    assert_int_equal(core_replay(core, REC(slot_taken, .job = 1, .slot = 0, .node = 1), &err), 0);
    uint64_t digest = core_digest(core);
    assert_true(core_replay(core, REC(slot_taken, .job = 1, .slot = 0, .node = 2), &err) < 0);
    assert_true(core_replay(core, REC(slot_taken, .job = 1, .slot = 1, .node = 1), &err) < 0);
    assert_true(core_replay(core, REC(slot_left, .job = 1, .slot = 0, .node = 2), &err) < 0);
    assert_true(core_replay(core, REC(slot_left, .job = 1, .slot = 1, .node = 1), &err) < 0);
    assert_true(core_replay(core, REC(slot_left, .job = 2, .slot = 0, .node = 1), &err) < 0);
    assert_true(core_replay(core, REC(node_removed, .node = 1), &err) < 0);
    assert_non_null(strstr(err.text, "still holds a slot"));
    assert_int_equal(core_digest(core), digest);
    take(core, REC(slot_left, .job = 1, .slot = 0, .node = 1));
    assert_int_equal(core_node(core, 1)->d.job, 0);
    assert_int_equal(core_slot(core, core_job(core, 1), 0)->d.node, 0);
    take(core, REC(node_removed, .node = 1));
    (void)core_free(core);
}

/* ---- limits ----------------------------------------------------------------------------------- */

static void test_nodes_and_marks(void **state)
{
    (void)state;
    struct core *core = begin();
    take(core, joined(3, "n-3"));
    refuse(core, joined(4, "n-4"), "(limit 3)");
    struct record node = *REC(image_node, .node = 4, .name = "n-4");
    refuse(core, &node, "out of order");
    for (uint32_t i = 0; i < MARKS_PER_NODE; i++) {
        struct record mark = *REC(mark_set, .node = 1, .owner = MARK_HEALTH);
        text_format(mark.u.mark_set.code, NAME_SIZE, "c-%u", i);
        take(core, &mark);
        take(core, &mark); /* the same again is no other mark */
        assert_int_equal(core_mark_count(core, 1), i + 1);
    }
    refuse(core, REC(mark_set, .node = 1, .owner = MARK_HEALTH, .code = "more"), "marks already");
    refuse(core, REC(image_mark, .node = 1, .owner = MARK_HEALTH, .code = "more"), "marks already");
    take(core, REC(mark_set, .node = 2, .owner = MARK_OPERATOR, .code = "c-0"));
    refuse(core, REC(mark_cleared, .node = 1, .owner = MARK_OPERATOR, .code = "c-0"), "no mark");
    take(core, REC(mark_cleared, .node = 1, .owner = MARK_HEALTH, .code = "c-1"));
    assert_int_equal(core_mark_count(core, 1), MARKS_PER_NODE - 1);
    assert_string_equal(core_mark(core, 1, 0)->d.code, "c-0");
    assert_string_equal(core_mark(core, 1, 1)->d.code, "c-2");
    assert_null(core_mark(core, 1, MARKS_PER_NODE - 1));
    assert_int_equal(core_mark_count(core, 2), 1);
    assert_int_equal(core_mark(core, 2, 0)->d.owner, MARK_OPERATOR);
    assert_null(core_mark(core, 2, 1));
    assert_null(core_mark(core, 3, 0));
    (void)core_free(core);
}

static void test_jobs_and_their_slots(void **state)
{
    (void)state;
    struct core *core = begin();
    refuse(core, submitted(2, "none", 0), "impossible layout");
    struct record fat = *submitted(2, "fat", RANKS_PER_NODE_MAX + 1);
    fat.u.job_submitted.ranks_per_node = RANKS_PER_NODE_MAX + 1;
    refuse(core, &fat, "impossible layout");
    struct record vast = *submitted(2, "vast", 1 << 12);
    vast.u.job_submitted.tensor = 1 << 12; /* 2^24 ranks: more than anybody has */
    vast.u.job_submitted.ranks_per_node = 8;
    refuse(core, &vast, "impossible layout");
    refuse(core, submitted(2, "big", SLOTS - 1), "no room for 4 slots (limits.slots 5)");
    take(core, submitted(2, "two", 2));
    refuse(core, submitted(3, "three", 1), "more than 2 jobs (limits.jobs)");
    take(core, REC(job_moved, .job = 1, .from = JOB_PENDING, .to = JOB_STOPPING));
    take(core, REC(job_moved, .job = 1, .from = JOB_STOPPING, .to = JOB_CANCELLED));
    refuse(core, submitted(3, "big", SLOTS - 1), "no room for 4 slots");
    assert_int_equal(core_job_find(core, "two"), 2);
    take(core, submitted(3, "three", 2)); /* where the slots of the first had been */
    assert_null(core_job(core, 1));
    assert_int_equal(core_job_find(core, "one"), 0);
    assert_int_equal(core_globals(core)->job_next, 4);
    for (uint32_t job = 2; job <= 3; job++) {
        for (uint32_t slot = 0; slot < 2; slot++) {
            const struct slot *one = core_slot(core, core_job(core, job), slot);
            assert_int_equal(one->d.job, job);
            assert_int_equal(one->d.slot, slot);
        }
        assert_null(core_slot(core, core_job(core, job), 2));
    }
    (void)core_free(core);
}

static void test_incidents_and_their_facts(void **state)
{
    (void)state;
    struct core *core = begin();
    take(core, submitted(2, "two", 2));
    take(core, REC(incident_opened, .incident = 1, .job = 1));
    take(core, REC(incident_opened, .incident = 2, .job = 2));
    refuse(core, REC(incident_opened, .incident = 3, .job = 1), "more than 2 open incidents");
    for (uint32_t i = 0; i < FACTS + 1; i++) { /* one more than there is room for */
        take(core, REC(fact_kept, .incident = 1 + i % 2, .node = i));
        take(core, REC(blamed, .incident = 1 + i % 2, .node = 1 + i));
    }
    assert_int_equal(core_incident(core, 1)->d.first_blamed, 1);
    assert_int_equal(core_incident(core, 2)->d.first_blamed, 2);
    assert_non_null(core_fact_at(core, FACTS - 1));
    assert_null(core_fact_at(core, FACTS));
    assert_int_equal(core_fact_at(core, FACTS - 1)->node, FACTS - 1);
    assert_int_equal(core_blamed_at(core, FACTS - 1)->node, FACTS);
    assert_null(core_blamed_at(core, FACTS));
    refuse(core, REC(image_fact, .incident = 1), "more than 3");
    refuse(core, REC(image_blamed, .incident = 1), "more than 3");
    refuse(core, REC(image_incident, .incident = 9), "more than 2");
    /* Nobody is busy with the first any more: it goes, and what was kept of it. */
    take(core, REC(recovery_opened, .recovery = 1, .job = 1, .incident = 1));
    take(core, REC(recovery_closed, .recovery = 1, .outcome = OUTCOME_RECOVERED));
    take(core, REC(fact_kept, .incident = 2, .node = 7));
    take(core, REC(blamed, .incident = 2, .node = 8));
    assert_int_equal(core_fact_at(core, 0)->node, 1); /* both of the first have made room */
    assert_int_equal(core_fact_at(core, 1)->node, 7);
    assert_null(core_fact_at(core, 2));
    assert_int_equal(core_blamed_at(core, 0)->node, 2);
    assert_int_equal(core_blamed_at(core, 1)->node, 8);
    assert_null(core_blamed_at(core, 2));
    take(core, REC(incident_opened, .incident = 3, .job = 1));
    assert_null(core_incident(core, 1));
    assert_int_equal(core_incident_at(core, 0)->d.incident, 2);
    assert_int_equal(core_incident_at(core, 1)->d.incident, 3);
    assert_null(core_incident_at(core, 2));
    assert_int_equal(core_globals(core)->incident_next, 4);
    (void)core_free(core);
}

static void test_recoveries(void **state)
{
    (void)state;
    struct core *core = begin();
    take(core, submitted(2, "two", 2));
    take(core, REC(recovery_opened, .recovery = 1, .job = 1));
    refuse(core, REC(recovery_opened, .recovery = 2, .job = 1), "already recovers (1)");
    take(core, REC(recovery_opened, .recovery = 2, .job = 2, .since_service_ms = 400));
    assert_int_equal(core_recovery(core, 2)->d.opened_wall_ms, 5000 - 600);
    refuse(core, REC(image_recovery, .recovery = 9), "more than 2");
    take(core, REC(recovery_closed, .recovery = 2, .outcome = OUTCOME_RECOVERED));
    assert_int_equal(core_recovery(core, 2)->d.phase_ms[PHASE_DETECT], 600);
    assert_true(core_job(core, 2)->d.stepped);
    assert_int_equal(core_job(core, 2)->d.recovery, 0);
    take(core, REC(recovery_opened, .recovery = 3, .job = 2)); /* the one that is over goes */
    assert_non_null(core_recovery(core, 1));
    assert_null(core_recovery(core, 2));
    assert_int_equal(core_recovery_at(core, 1)->d.recovery, 3);
    assert_null(core_recovery_at(core, 2));
    take(core, REC(recovery_closed, .recovery = 1, .outcome = OUTCOME_FAILED));
    assert_false(core_job(core, 1)->d.stepped);
    take(core, REC(recovery_opened, .recovery = 4, .job = 1));
    take(core, REC(job_moved, .job = 1, .from = JOB_PENDING, .to = JOB_STOPPING));
    take(core, REC(job_moved, .job = 1, .from = JOB_STOPPING, .to = JOB_CANCELLED));
    take(core, submitted(3, "three", 2)); /* 1 is forgotten, its recovery not */
    refuse(core, REC(recovery_opened, .recovery = 5, .job = 3), "more than 2 open recoveries");
    (void)core_free(core);
}

static void test_what_a_recovery_adds_up(void **state)
{
    (void)state;
    struct core *core = begin();
    take(core, REC(incident_opened, .incident = 1, .job = 1));
    take(core, REC(recovery_opened, .recovery = 1, .job = 1, .incident = 1, .cause = CAUSE_RANK));
    take(core, REC(verdict, .incident = 2 - 1, .owner = OWNER_HARDWARE, .evict = false));
    assert_int_equal(core_recovery(core, 1)->d.cause, CAUSE_RANK); /* nobody is put out */
    take(core, REC(verdict, .incident = 1, .owner = OWNER_HARDWARE, .evict = true));
    assert_int_equal(core_recovery(core, 1)->d.cause, CAUSE_NODE);
    take(core, REC(recovery_plan, .recovery = 1, .attempt = 1, .last_step = 50, .lost_steps = 10,
                   .moved_nodes = 1, .shifted_ranks = 2, .skipped = 3));
    take(core, REC(recovery_merged, .recovery = 1, .incident = 1, .cause = CAUSE_HANG));
    assert_int_equal(core_recovery(core, 1)->d.cause, CAUSE_NODE); /* what it began with */
    take(core, REC(recovery_plan, .recovery = 1, .attempt = 2, .last_step = 40, .lost_steps = 5,
                   .moved_nodes = 1, .shifted_ranks = 2, .skipped = 1));
    const struct record_image_recovery *d = &core_recovery(core, 1)->d;
    assert_int_equal(d->last_step, 50);
    assert_int_equal(d->lost_steps, 15);
    assert_int_equal(d->moved_nodes, 2);
    assert_int_equal(d->shifted_ranks, 4);
    assert_int_equal(d->skipped, 1);
    assert_int_equal(d->merged, 1);
    assert_true(d->planned);
    take(core, REC(verdict, .incident = 1, .owner = OWNER_PLANNED, .evict = true));
    assert_int_equal(d->cause, CAUSE_PLANNED);
    take(core, REC(recovery_merged, .recovery = 1, .incident = 1, .cause = CAUSE_HANG));
    assert_int_equal(d->cause, CAUSE_HANG); /* a failure says more than a wish */
    take(core, REC(recovery_closed, .recovery = 1, .outcome = OUTCOME_RECOVERED));
    take(core, REC(verdict, .incident = 1, .owner = OWNER_HARDWARE, .evict = true));
    assert_int_equal(d->cause, CAUSE_HANG); /* what is closed stays as it was told */
    (void)core_free(core);
}

static struct record *save(uint32_t job, uint64_t step, uint8_t checkpoint_state)
{
    static struct record record;
    record = *REC(checkpoint_moved, .job = job, .step = step, .state = checkpoint_state);
    return &record;
}

static void test_checkpoints(void **state)
{
    (void)state;
    struct core *core = begin();
    take(core, save(1, 10, CKPT_COMPLETE));
    take(core, save(1, 20, CKPT_COMPLETE));
    struct record pin = *REC(checkpoint_pinned, .job = 1, .step = 12, .pinned_by = "sre");
    for (uint64_t step = 12; step <= 14; step += 2) {
        take(core, save(1, step, CKPT_INCOMPLETE));
        pin.u.checkpoint_pinned.step = step;
        take(core, &pin);
    }
    struct record image = *REC(image_checkpoint, .job = 1, .step = 99);
    refuse(core, &image, "more than 4 checkpoints");
    take(core, save(1, 30, CKPT_WRITING)); /* what a restore would take is what stays */
    assert_null(core_checkpoint_find(core, 1, 0, 10));
    assert_int_equal(core_checkpoint_at(core, 0)->d.step, 20);
    assert_int_equal(core_checkpoint_at(core, 1)->d.step, 12);
    assert_int_equal(core_checkpoint_at(core, 3)->d.step, 30);
    assert_null(core_checkpoint_at(core, 4));
    pin.u.checkpoint_pinned.step = 30;
    take(core, &pin);
    refuse(core, save(1, 40, CKPT_COMPLETE), "more than 4 checkpoints");
    pin.u.checkpoint_pinned.step = 99; /* one that was forgotten: nothing to pin */
    take(core, &pin);
    assert_string_equal(core_checkpoint_at(core, 0)->d.pinned_by, "");
    take(core, REC(checkpoint_removed, .job = 1, .step = 99));
    take(core, REC(checkpoint_removed, .job = 1, .attempt = 1, .step = 20));
    take(core, REC(checkpoint_removed, .job = 2, .step = 20));
    assert_non_null(core_checkpoint_at(core, 3));
    take(core, REC(checkpoint_removed, .job = 1, .step = 20));
    assert_int_equal(core_checkpoint_at(core, 0)->d.step, 12);
    assert_null(core_checkpoint_at(core, 3));
    (void)core_free(core);
}

static void test_foreign_ranks(void **state)
{
    (void)state;
    struct core *core = begin();
    for (uint32_t i = 1; i <= FOREIGN + 1; i++) {
        take(core, REC(foreign_seen, .node = 1, .job = 10 + i, .attempt = i, .term = 3));
        take(core, REC(foreign_seen, .node = 1, .job = 10 + i, .attempt = i, .term = 3));
    }
    assert_int_equal(core_globals(core)->job_next, 14); /* never given to another job */
    assert_int_equal(core_foreign_at(core, 0)->d.job, 12);
    assert_int_equal(core_foreign_at(core, 1)->d.job, 13);
    assert_null(core_foreign_at(core, 2));
    refuse(core, REC(image_foreign, .node = 1, .job = 9), "more than 2");
    refuse(core, REC(foreign_resolved, .node = 1, .job = 11, .attempt = 1), "no foreign ranks");
    refuse(core, REC(foreign_resolved, .node = 2, .job = 12, .attempt = 2), "no foreign ranks");
    refuse(core, REC(foreign_resolved, .node = 1, .job = 12, .attempt = 3), "no foreign ranks");
    take(core, REC(foreign_resolved, .node = 1, .job = 13, .attempt = 3, .stopped = true));
    assert_false(core_foreign_at(core, 0)->d.resolved);
    assert_true(core_foreign_at(core, 1)->d.resolved && core_foreign_at(core, 1)->d.stop);
    (void)core_free(core);
}

static void test_the_breaker_for_silence(void **state)
{
    (void)state;
    struct core *core = begin();
    const struct record_image_core *g = core_globals(core);
    take(core, REC(breaker, .open = true));
    assert_true(g->breaker_open && !g->silence_paged);
    assert_int_equal(g->silenced_service_ms, 1000);
    struct record still = *REC(breaker, .open = true, .paged = true);
    still.service_ms = 2000;
    take(core, &still);
    assert_true(g->breaker_open && g->silence_paged);
    assert_int_equal(g->silenced_service_ms, 1000); /* since it opened */
    take(core, REC(breaker, .open = false));
    assert_false(g->breaker_open || g->silence_paged);
    assert_int_equal(g->silenced_service_ms, 0);
    (void)core_free(core);
}

/* A row of a job could not be read: what no longer fits of it is passed over, of others not. */
static void test_what_is_missed_of_a_quarantined_job(void **state)
{
    (void)state;
    struct core *core = begin();
    struct record asked = *REC(cancel_asked, .job = 9);
    asked.job = 9;
    refuse(core, &asked, "there is no job 9");
    core_quarantine(core, 9);
    take(core, &asked);
    core_quarantine(core, 9); /* two of its rows */
    core_quarantine(core, 8);
    take(core, &asked);
    asked.job = asked.u.cancel_asked.job = 8;
    take(core, &asked);
    asked.job = asked.u.cancel_asked.job = 7;
    refuse(core, &asked, "there is no job 7");
    assert_false(core_job(core, 1)->d.quarantined);
    core_quarantine(core, 1);
    assert_true(core_job(core, 1)->d.quarantined);
    (void)core_free(core);
}

static void test_automation(void **state)
{
    (void)state;
    struct core *core = begin();
    const struct record_image_core *g = core_globals(core);
    take(core, REC(automation, .observe = true));
    assert_true(g->observe && !g->paused);
    take(core, REC(automation, .paused = true, .cause = "why"));
    assert_true(!g->observe && g->paused);
    assert_string_equal(g->paused_cause, "why");
    assert_int_equal(g->resumed_service_ms, 0);
    take(core, REC(automation, .paused = false));
    assert_false(g->paused);
    assert_int_equal(g->resumed_service_ms, 1000);
    struct record again = *REC(automation, .observe = true);
    again.service_ms = 3000; /* it was not paused: nobody resumes it */
    take(core, &again);
    assert_int_equal(g->resumed_service_ms, 1000);
    (void)core_free(core);
}

static void test_readers_of_nothing(void **state)
{
    (void)state;
    struct core *core = begin();
    assert_null(core_node(core, 0));
    assert_null(core_node(core, 3));
    assert_int_equal(core_node_count(core), 2);
    assert_null(core_job(core, 0));
    assert_non_null(core_job_at(core, 0));
    assert_null(core_job_at(core, 1));
    assert_null(core_incident(core, 0));
    assert_null(core_incident_at(core, 0));
    assert_null(core_recovery(core, 0));
    assert_null(core_recovery_at(core, 0));
    assert_null(core_checkpoint_at(core, 0));
    assert_null(core_checkpoint_best(core, core_job(core, 1)));
    assert_null(core_fact_at(core, 0));
    assert_null(core_blamed_at(core, 0));
    assert_null(core_foreign_at(core, 0));
    assert_null(core_mark(core, 1, 0));
    (void)core_free(core);
}

/* ---- what a plan passed over ------------------------------------------------------------------ */

static void test_what_a_plan_passed_over(void **state)
{
    (void)state;
    const struct recovery made = {.d = {.planned = true,
                                        .skipped = 1,
                                        .job = 4,
                                        .attempt = 2,
                                        .restore_step = 100,
                                        .cause = CAUSE_RANK}};
    const struct checkpoint bad = {
        .d = {.job = 4, .attempt = 2, .step = 101, .state = CKPT_CORRUPT}};
    assert_true(core_recovery_skipped(&made, &bad));
    static const uint8_t spoilt[] = {CKPT_INCOMPLETE, CKPT_CORRUPT, CKPT_SUSPECT};
    for (uint8_t one = 0; one < checkpoint_state_count; one++) {
        struct checkpoint other = bad;
        other.d.state = one;
        assert_int_equal(core_recovery_skipped(&made, &other),
                         memchr(spoilt, one, sizeof spoilt) != NULL);
    }
    struct recovery recovery = made;
    recovery.d.planned = false;
    assert_false(core_recovery_skipped(&recovery, &bad));
    recovery = made;
    recovery.d.skipped = 0;
    assert_false(core_recovery_skipped(&recovery, &bad));
    struct checkpoint checkpoint = bad;
    checkpoint.d.job = 5;
    assert_false(core_recovery_skipped(&made, &checkpoint));
    checkpoint = bad;
    checkpoint.d.step = 100; /* it is no newer than what was restored */
    assert_false(core_recovery_skipped(&made, &checkpoint));
    checkpoint = bad;
    checkpoint.d.attempt = 3; /* of a later attempt: it was not there */
    assert_false(core_recovery_skipped(&made, &checkpoint));
    checkpoint.d.attempt = 1;
    assert_true(core_recovery_skipped(&made, &checkpoint));
    checkpoint.d.attempt = 3; /* a start has no attempt before it: all that lies there counts */
    recovery = made;
    recovery.d.cause = CAUSE_START;
    assert_true(core_recovery_skipped(&recovery, &checkpoint));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_not_there),
        cmocka_unit_test(test_what_does_not_follow),
        cmocka_unit_test(test_who_holds_a_slot),
        cmocka_unit_test(test_nodes_and_marks),
        cmocka_unit_test(test_jobs_and_their_slots),
        cmocka_unit_test(test_incidents_and_their_facts),
        cmocka_unit_test(test_recoveries),
        cmocka_unit_test(test_what_a_recovery_adds_up),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_foreign_ranks),
        cmocka_unit_test(test_the_breaker_for_silence),
        cmocka_unit_test(test_automation),
        cmocka_unit_test(test_what_is_missed_of_a_quarantined_job),
        cmocka_unit_test(test_readers_of_nothing),
        cmocka_unit_test(test_what_a_plan_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
