/* marks_test.c: how many marks a node may have, and what becomes of the next one: never silence. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { NODES = 4 };

/* Appends a record to the journal, as a controller of the past would have left it. */
static struct record *append(struct rig *rig, uint16_t kind, uint32_t node)
{
    assert_true(rig->record_count < rig->record_room);
    const struct record *last = &rig->records[rig->record_count - 1];
    struct record *record = &rig->records[rig->record_count++];
    *record = (struct record){.kind = kind,
                              .version = RECORD_VERSION,
                              .service_ms = last->service_ms,
                              .wall_ms = last->wall_ms,
                              .node = node};
    return record;
}

static void mark(struct rig *rig, uint32_t node, uint8_t owner, uint32_t number)
{
    struct record *record = append(rig, RECORD_mark_set_kind, node);
    record->u.mark_set.node = node;
    record->u.mark_set.owner = owner;
    record->u.mark_set.level = MARK_NO_NEW;
    text_format(record->u.mark_set.code, NAME_SIZE, "old-%u", number);
    text_copy(record->u.mark_set.actor, NAME_SIZE, "keepstep");
}

static struct rig *marked(uint32_t count)
{
    struct rig *rig = rig_create(NODES, 1);
    rig_connect_all(rig);
    for (uint32_t node = 1; node <= NODES; node++) {
        for (uint32_t i = 0; i < count; i++) {
            mark(rig, node, MARK_HEALTH, i);
        }
        if (count == 0) {
            continue;
        }
        struct record *moved = append(rig, RECORD_node_moved_kind, node);
        moved->u.node_moved.node = node;
        moved->u.node_moved.from = NODE_READY;
        moved->u.node_moved.to = NODE_OUT;
    }
    rig_restart(rig, 100);
    rig_run(rig, 2000);
    return rig;
}

static bool has(const struct rig *rig, uint32_t node, const char *code)
{
    for (uint32_t i = 0; i < core_mark_count(rig->core, node); i++) {
        if (text_equal(core_mark(rig->core, node, i)->d.code, code)) {
            return true;
        }
    }
    return false;
}

/* The bound is each node's own: all of them may be full at once, whatever limits.agents is. */
static void test_every_node_may_be_full(void **state)
{
    (void)state;
    struct rig *rig = marked(MARKS_OF_OTHERS - 1);
    for (uint32_t node = 1; node <= NODES; node++) {
        const char *name = core_node(rig->core, node)->d.name;
        assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, name, WHEN_JOB_END), 0);
        assert_true(has(rig, node, "drain"));
        assert_int_equal(core_mark_count(rig->core, node), MARKS_OF_OTHERS);
    }
    rig_replay_check(rig);
    rig_free(rig);
}

/* An operator's is refused, of all nodes of the request or of none; the same again is none more. */
static void test_one_more_is_refused(void **state)
{
    (void)state;
    struct rig *rig = marked(MARKS_OF_OTHERS - 1);
    const uint32_t both[] = {1, 2};
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, core_node(rig->core, 2)->d.name, WHEN_JOB_END),
                     0);
    struct request request = {.verb = REQUEST_CORDON, .nodes = both, .node_count = 2};
    assert_int_equal(rig_request(rig, &request), -ENOSPC);
    assert_non_null(strstr(rig->reply_text, "n-0002 has 12 marks"));
    assert_false(has(rig, 1, "cordon"));
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, core_node(rig->core, 2)->d.name, WHEN_NOW), 0);
    rig_free(rig);
}

static void fault(struct rig *rig, uint32_t node)
{
    struct message m = {.kind = MSG_FACT};
    m.u.fact.fact.source = FACT_PROBE;
    m.u.fact.fact.severity = 3;
    m.u.fact.fact.sequence = 1;
    m.u.fact.fact.rank = -1;
    text_copy(m.u.fact.fact.text, TEXT_SIZE, "xid 79");
    rig_send(rig, node, &m);
}

/* The mark that an undrain names as left is one of its own nodes, whatever marks it took away. */
static void test_what_an_undrain_leaves(void **state)
{
    (void)state;
    const uint32_t both[] = {1, 2};
    struct request request = {.verb = REQUEST_UNDRAIN, .nodes = both, .node_count = 2};
    struct rig *rig = marked(0);
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, core_node(rig->core, 2)->d.name, WHEN_NOW), 0);
    fault(rig, 0);
    fault(rig, 2);
    assert_int_equal(rig_request(rig, &request), 0);
    assert_non_null(strstr(rig->reply_text, "1 still marked, such as n-0001 by health/"));
    rig_free(rig);
}

/* Automation's own is said in an event; those that keep a node out of use always find room. */
static void test_what_automation_cannot_keep_is_said(void **state)
{
    (void)state;
    struct rig *rig = marked(MARKS_OF_OTHERS);
    fault(rig, 0);
    assert_false(has(rig, 1, "fatal-signal"));
    assert_string_equal(rig_last(rig, RECORD_acted_kind)->event.type, "MarkRefused");
    assert_non_null(strstr(rig_last(rig, RECORD_acted_kind)->event.message, "xid 79"));
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_run(rig, 10000);
    assert_true(has(rig, 1, "unproven"));
    rig_replay_check(rig);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_node_may_be_full),
        cmocka_unit_test(test_one_more_is_refused),
        cmocka_unit_test(test_what_an_undrain_leaves),
        cmocka_unit_test(test_what_automation_cannot_keep_is_said),
    };
    return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
