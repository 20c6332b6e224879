/* quarantine_test.c: a row about a node that cannot be read, each kind of them in turn, or one about
 * a job. The controller starts, says so, leaves that one alone and goes on with all the others. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { SLOTS = 3, NODES = 6 };

struct bad {
    struct rig *rig;
    uint32_t job;
    uint32_t node; /* id */
};

/* The index of the first record of this kind about that node. */
static uint32_t find(const struct rig *rig, uint16_t kind, uint32_t node)
{
    for (uint32_t i = 0; i < rig->record_count; i++) {
        if (rig->records[i].kind == kind && rig->records[i].node == node) {
            return i;
        }
    }
    fail_msg("no record of kind %u about node %u", kind, node);
    return 0;
}

/* A new controller reads the journal, where record `bad` is in pieces. */
static void restart_without(struct rig *rig, uint32_t bad)
{
    core_free(rig->core);
    assert_int_equal(core_create(&rig->limits, &rig->config, 7, &rig->core), 0);
    for (uint32_t i = 0; i < rig->record_count; i++) {
        const struct record *record = &rig->records[i];
        struct err err = {0};
        if (i == bad && record_owner(record->kind) == RECORD_OF_JOB) {
            core_quarantine(rig->core, record->job);
        } else if (i == bad) {
            assert_int_equal(record_owner(record->kind), RECORD_OF_NODE);
            assert_int_equal(core_quarantine_node(rig->core, record->node, record->subject + 5), 0);
        } else if (core_replay(rig->core, record, &err) < 0) {
            fail_msg("record %u: %s", i, err.text);
        }
    }
    core_check(rig->core);
    rig->now_ms += 1000;
    struct event event = {.kind = EVENT_START};
    rig_step(rig, &event);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        rig->nodes[i].session = 0;
        if (rig->nodes[i].agent_up) {
            rig_connect(rig, i);
        }
    }
    rig_run(rig, 3000);
}

static struct bad running(void)
{
    struct bad bad = {.rig = rig_create(NODES, 1)};
    rig_connect_all(bad.rig);
    struct job_spec spec = rig_spec("demo", SLOTS);
    bad.job = rig_submit(bad.rig, &spec);
    assert_true(rig_until(bad.rig, bad.job, JOB_RUNNING, 10000));
    rig_save(bad.rig, bad.job, core_job(bad.rig->core, bad.job)->step);
    return bad;
}

static void expect_alone(const struct bad *bad)
{
    const struct core *core = bad->rig->core;
    const struct node *node = core_node(core, bad->node);
    assert_string_equal(core_node_state_word(core, node, NULL), "unknown");
    assert_false(core_node_usable(core, node));
    bool said = false;
    for (uint32_t i = 0; i < core_mark_count(core, bad->node); i++) {
        said = said || text_equal(core_mark(core, bad->node, i)->d.code, "quarantined");
    }
    assert_true(said);
}

/* Of a spare: the job goes on and recovers onto another one. */
static void spare_without(uint16_t kind)
{
    struct bad bad = running();
    for (uint32_t id = 1; id <= NODES; id++) {
        bad.node = core_node(bad.rig->core, id)->d.job == 0 ? id : bad.node;
    }
    restart_without(bad.rig, find(bad.rig, kind, bad.node));
    expect_alone(&bad);
    assert_int_equal(core_job(bad.rig->core, bad.job)->d.state, JOB_RUNNING);
    rig_kill_node(bad.rig, rig_node_of(bad.rig, bad.job, 1), RIG_PEER_NOTHING);
    assert_true(rig_until(bad.rig, bad.job, JOB_RECOVERING, 20000));
    assert_true(rig_until(bad.rig, bad.job, JOB_RUNNING, 20000));
    assert_int_equal(core_node(bad.rig->core, bad.node)->d.job, 0);
    expect_alone(&bad);
    rig_run(bad.rig, 30000);
    assert_int_equal(core_job(bad.rig->core, bad.job)->d.attempt, 1);
    rig_free(bad.rig);
}

static void test_spare(void **state)
{
    (void)state;
    static const uint16_t kinds[] = {RECORD_node_joined_kind, RECORD_node_session_kind,
                                     RECORD_node_moved_kind, RECORD_inventory_accepted_kind};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        spare_without(kinds[i]);
    }
}

/* Of a node at work: its ranks are left alone, and nobody is stopped for it. When the job moves on
 * for another reason, it is not waited for, and not used again. */
static void holder_without(uint16_t kind)
{
    struct bad bad = running();
    uint32_t index = rig_node_of(bad.rig, bad.job, 1);
    bad.node = core_node_find(bad.rig->core, bad.rig->nodes[index].name);
    uint64_t before = bad.rig->starts[index];
    restart_without(bad.rig, find(bad.rig, kind, bad.node));
    expect_alone(&bad);
    rig_run(bad.rig, 60000);
    const struct job *job = core_job(bad.rig->core, bad.job);
    assert_int_equal(job->d.state, JOB_RUNNING);
    assert_int_equal(job->d.attempt, 0);
    assert_int_equal(rig_node_of(bad.rig, bad.job, 1), index);
    assert_true(job->step > 500);
    rig_kill_node(bad.rig, rig_node_of(bad.rig, bad.job, 2), RIG_PEER_NOTHING);
    assert_true(rig_until(bad.rig, bad.job, JOB_RECOVERING, 20000));
    assert_true(rig_until(bad.rig, bad.job, JOB_RUNNING, 60000));
    assert_int_not_equal(rig_node_of(bad.rig, bad.job, 1), index);
    assert_false(bad.rig->nodes[index].attempts[0].report.stop_seen);
    assert_true(bad.rig->starts[index] == before);
    rig_free(bad.rig);
}

static void test_holder(void **state)
{
    (void)state;
    holder_without(RECORD_node_joined_kind);
    holder_without(RECORD_node_moved_kind);
    holder_without(RECORD_node_session_kind);
}

/* The row is behind a snapshot at the next start: the mark still says it. */
static int into(const struct record *record, void *context)
{
    struct err err = {0};
    return core_replay(context, record, &err);
}

static void test_snapshot_keeps_it(void **state)
{
    (void)state;
    struct bad bad = running();
    bad.node = NODES;
    restart_without(bad.rig, find(bad.rig, RECORD_node_moved_kind, bad.node));
    uint64_t digest = core_digest(bad.rig->core);
    struct core *image;
    assert_int_equal(core_create(&bad.rig->limits, &bad.rig->config, 7, &image), 0);
    assert_int_equal(core_snapshot(bad.rig->core, into, image), 0);
    assert_true(core_digest(image) == digest);
    core_free(bad.rig->core);
    bad.rig->core = image;
    struct event event = {.kind = EVENT_START};
    rig_step(bad.rig, &event);
    expect_alone(&bad);
    struct request request = {.verb = REQUEST_UNDRAIN, .nodes = &bad.node, .node_count = 1};
    text_copy(request.clear_code, NAME_SIZE, "quarantined");
    assert_int_equal(rig_request(bad.rig, &request), 0); /* a word does not make it readable */
    expect_alone(&bad);
    rig_free(bad.rig);
}

/* A row about a node that nobody has heard of says that more is missing than one row. */
static void test_unknown_node_is_no_node(void **state)
{
    (void)state;
    struct core *core;
    assert_int_equal(core_create(&core_limits_default, NULL, 7, &core), 0);
    assert_int_equal(core_quarantine_node(core, 2, "n-0002"), -EINVAL);
    assert_int_equal(core_quarantine_node(core, 0, "n-0000"), -EINVAL);
    assert_int_equal(core_quarantine_node(core, 1, "no/name"), 0);
    assert_string_equal(core_node(core, 1)->d.name, "unreadable-1");
    core_free(core);
}

/* Ranks of the running attempt on a node without a slot: one of the two is wrong here, and nobody
 * knows which. They are listed, and not stopped. */
static void test_misplaced_ranks_live_on(void **state)
{
    (void)state;
    struct bad bad = running();
    uint32_t index = rig_node_of(bad.rig, bad.job, 1);
    struct rig_node *there = &bad.rig->nodes[index];
    struct rig_node *here = NULL;
    for (uint32_t i = 0; i < NODES && here == NULL; i++) {
        here = bad.rig->nodes[i].attempt_count == 0 ? &bad.rig->nodes[i] : NULL;
    }
    here->attempts[here->attempt_count++] = there->attempts[0];
    rig_run(bad.rig, 30000);
    assert_int_equal(here->attempt_count, 1);
    assert_false(here->attempts[0].report.stop_seen);
    assert_false(here->attempts[0].report.empty);
    assert_non_null(core_foreign_at(bad.rig->core, 0));
    rig_free(bad.rig);
}

/* What the mark tells people to do works: removed, and joined anew by a restarted agent. */
static void test_removed_and_joined_anew(void **state)
{
    (void)state;
    struct bad bad = running();
    for (uint32_t id = 1; id <= NODES; id++) {
        bad.node = core_node(bad.rig->core, id)->d.job == 0 ? id : bad.node;
    }
    uint32_t row = find(bad.rig, RECORD_node_moved_kind, bad.node);
    restart_without(bad.rig, row);
    const char *name = core_node(bad.rig->core, bad.node)->d.name;
    assert_int_equal(rig_nodes(bad.rig, REQUEST_REMOVE, name, WHEN_NOW), 0);
    rig_boot(bad.rig, bad.node - 1, true);
    rig_run(bad.rig, 3000);
    assert_true(core_node_usable(bad.rig->core, core_node(bad.rig->core, bad.node)));
    restart_without(bad.rig, row); /* the row is still there, and of an earlier life */
    assert_true(core_node_usable(bad.rig->core, core_node(bad.rig->core, bad.node)));
    rig_free(bad.rig);
}

/* Of a job: what it has is not known for sure. Its ranks train on, and nothing that they say is
 * kept, so that what was kept before is not made worse. */
static void test_job(void **state)
{
    (void)state;
    struct bad bad = running();
    uint32_t row = 0;
    while (bad.rig->records[row].kind != RECORD_checkpoint_moved_kind) {
        row++;
    }
    restart_without(bad.rig, row);
    const struct job *job = core_job(bad.rig->core, bad.job);
    assert_true(job->d.quarantined);
    const uint32_t records = bad.rig->record_count;
    assert_int_equal(rig_job(bad.rig, REQUEST_CANCEL, bad.job), -EBUSY);
    assert_non_null(strstr(bad.rig->reply_text, "its ranks are left alone"));
    rig_save(bad.rig, bad.job, 1000);
    assert_false(bad.rig->save_answer.accepted);
    assert_string_equal(bad.rig->save_answer.text, "no such job is at work here");
    rig_run(bad.rig, 60000);
    assert_int_equal(bad.rig->record_count, records);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const struct rig_node *node = &bad.rig->nodes[rig_node_of(bad.rig, bad.job, slot)];
        assert_int_equal(node->attempt_count, 1);
        assert_false(node->attempts[0].report.stop_seen);
    }
    rig_free(bad.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spare),
        cmocka_unit_test(test_holder),
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_snapshot_keeps_it),
        cmocka_unit_test(test_unknown_node_is_no_node),
        cmocka_unit_test(test_misplaced_ranks_live_on),
        cmocka_unit_test(test_removed_and_joined_anew),
    };
    return cmocka_run_group_tests_name("quarantine", tests, NULL, NULL);
}
