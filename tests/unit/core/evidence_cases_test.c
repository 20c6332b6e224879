/* evidence_cases_test.c: what other systems got wrong between a signal and its verdict, by the names
 * of the design's cases: A20, B15, C10. */
#include "tests/lib/test.h"

#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

static struct rig *running(uint32_t nodes, uint32_t slots, uint32_t *ret_job)
{
    struct rig *rig = rig_create(nodes, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", slots);
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 10000));
    return rig;
}

static void tell_xid(struct rig *rig, uint32_t node, uint32_t job, uint32_t attempt)
{
    struct message m = {.kind = MSG_FACT};
    m.u.fact.fact = (struct fact){.source = FACT_PROBE,
                                  .severity = 3,
                                  .sequence = ++rig->nodes[node].fact_sequence,
                                  .job = job,
                                  .attempt = attempt,
                                  .rank = -1,
                                  .port = -1,
                                  .code = 79,
                                  .label = LABEL_HARDWARE,
                                  .advice = ADVICE_EVICT_REBOOT,
                                  .role = ROLE_ROOT};
    text_copy(m.u.fact.fact.signal, SIGNAL_NAME_SIZE, "xid-79");
    text_copy(m.u.fact.fact.text, TEXT_SIZE, "GPU has fallen off the bus");
    rig_send(rig, node, &m);
}

/* A20: what is found about a node concerns that node: not whoever has its slot by then. */
static void test_a_late_finding_does_not_hit_who_has_the_slot_now(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t before = rig_node_of(rig, job, 1);
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, rig->nodes[before].name, WHEN_NOW), 0);
    rig_run(rig, 10000);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    uint32_t after = rig_node_of(rig, job, 1);
    assert_int_not_equal(after, before);
    uint32_t attempt = core_job(rig->core, job)->d.attempt;
    tell_xid(rig, before, job, attempt - 1); /* of the attempt that it was in */
    rig_run(rig, 5000);
    tell_xid(rig, before, 0, 0); /* … and of none */
    rig_run(rig, 5000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(core_job(rig->core, job)->d.attempt, attempt);
    assert_int_equal(rig_node_of(rig, job, 1), after);
    assert_int_equal(core_mark_count(rig->core, after + 1), 0);
    assert_true(core_mark_count(rig->core, before + 1) > 1); /* the drain, and what was found */
    rig_free(rig);
}

/* B15: a check that ends well after an operator took the node out gives nothing back. */
static void test_a_slow_check_does_not_undo_a_drain(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t spare = 0;
    while (core_node(rig->core, spare + 1)->d.job != 0) {
        spare++;
    }
    const char *name = rig->nodes[spare].name;
    rig_nodes(rig, REQUEST_DRAIN, name, WHEN_NOW);
    rig->nodes[spare].ignore_validation = true; /* it takes its time */
    rig_nodes(rig, REQUEST_UNDRAIN, name, WHEN_NOW);
    rig_run(rig, 10000);
    assert_int_equal(core_node(rig->core, spare + 1)->d.life, NODE_CHECKING);
    assert_true(rig->nodes[spare].validations > 0);
    rig_nodes(rig, REQUEST_DRAIN, name, WHEN_NOW);
    rig_run(rig, 20000);
    struct message passed = {.kind = MSG_VALIDATED};
    for (uint64_t nonce = 1; nonce < 64; nonce++) { /* whatever it was asked by */
        passed.u.validated = (struct msg_validated){.nonce = nonce, .ok = true};
        rig_send(rig, spare, &passed);
    }
    rig_run(rig, 5000);
    assert_int_equal(core_node(rig->core, spare + 1)->d.life, NODE_OUT);
    assert_non_null(core_mark(rig->core, spare + 1, 0));
    assert_string_equal(core_mark(rig->core, spare + 1, 0)->d.code, "drain");
    rig_free(rig);
}

static bool says(const char *text)
{
    return text[0] != '\0';
}

/* Who, why, and on what evidence. */
static void check_attribution(const struct record *record)
{
    switch (record->kind) {
    case RECORD_mark_set_kind:
        assert_true(says(record->u.mark_set.actor));
        assert_true(says(record->u.mark_set.text) ||
                    !text_equal(record->u.mark_set.actor, "keepstep"));
        assert_true(record->node != 0 && says(record->subject));
        return;
    case RECORD_mark_cleared_kind:
        assert_true(says(record->u.mark_cleared.actor));
        return;
    case RECORD_verdict_kind:
        assert_true(says(record->u.verdict.rule) && says(record->u.verdict.why));
        assert_true(record->u.verdict.incident != 0 && record->job != 0);
        return;
    case RECORD_strike_kind:
        assert_true(record->u.strike.incident != 0 && record->node != 0);
        return;
    case RECORD_acted_kind:
        assert_true(says(record->u.acted.actor) && says(record->u.acted.verb));
        return;
    case RECORD_repair_moved_kind:
        assert_true(says(record->u.repair_moved.repair_text) && record->node != 0);
        return;
    case RECORD_slot_taken_kind:
        assert_true(record->job != 0 && record->node != 0);
        return;
    default:
        return;
    }
}

/* C10: after failures, a drain and an undrain each action says who did it and why. */
static void test_every_action_says_who_and_why(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(10, 4, &job);
    tell_xid(rig, rig_node_of(rig, job, 0), job, 0);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_end_rank(rig, rig_node_of(rig, job, 2), 0, RANK_SIGNALED, 11);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    rig_kill_node(rig, rig_node_of(rig, job, 3), RIG_PEER_NOTHING);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 20000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    const char *name = rig->nodes[rig_node_of(rig, job, 1)].name;
    rig_nodes(rig, REQUEST_DRAIN, name, WHEN_NOW);
    rig_run(rig, 30000);
    rig_nodes(rig, REQUEST_UNDRAIN, name, WHEN_NOW);
    rig_run(rig, 200000);
    assert_true(rig_count(rig, RECORD_verdict_kind) >= 3);
    assert_true(rig_count(rig, RECORD_strike_kind) >= 2);
    assert_true(rig_count(rig, RECORD_acted_kind) >= 2);
    for (uint32_t i = 0; i < rig->record_count; i++) {
        check_attribution(&rig->records[i]);
    }
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_finding_does_not_hit_who_has_the_slot_now),
        cmocka_unit_test(test_a_slow_check_does_not_undo_a_drain),
        cmocka_unit_test(test_every_action_says_who_and_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
