/* repair_test.c: every arrow of a node's repair, and what must not begin one. Faults are probes'
 * facts on idle nodes, whose advice says the lane; the hooks are the rig's. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "controller/core/impl.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

#define MINUTE_MS (60ull * 1000)
#define HOUR_MS   (60 * MINUTE_MS)

enum { ALL_HOOKS = 1 << HOOK_GPU_RESET | 1 << HOOK_REBOOT | 1 << HOOK_DIAG | 1 << HOOK_TICKET };

static struct rig *fleet(uint32_t nodes, uint32_t hooks)
{
    struct core_limits limits = core_limits_default;
    struct core_config config = {0};
    limits.agents = RIG_NODES_MAX;
    for (uint32_t i = 0; i < repair_hook_count; i++) {
        config.repair_hooks[i] = (hooks >> i & 1) != 0;
    }
    struct rig *rig = rig_create_with(nodes, 1, &limits, &config);
    rig_connect_all(rig);
    return rig;
}

static void done(struct rig *rig)
{
    rig_replay_check(rig);
    rig_free(rig);
}

static const struct node *node_of(const struct rig *rig, uint32_t index)
{
    return core_node(rig->core, core_node_find(rig->core, rig->nodes[index].name));
}

static void fault(struct rig *rig, uint32_t index, uint8_t advice)
{
    struct message m = {.kind = MSG_FACT};
    m.u.fact.fact = (struct fact){.source = FACT_PROBE,
                                  .severity = 3,
                                  .rank = -1,
                                  .gpu = 0,
                                  .port = -1,
                                  .code = 79,
                                  .label = LABEL_HARDWARE,
                                  .role = ROLE_ROOT,
                                  .advice = advice,
                                  .sequence = ++rig->nodes[index].fact_sequence};
    text_copy(m.u.fact.fact.text, TEXT_SIZE, "GPU 0 is lost");
    rig_send_sure(rig, index, &m);
}

static void expect(const struct rig *rig, uint32_t index, uint8_t state, uint8_t lane)
{
    const struct node *node = node_of(rig, index);
    assert_string_equal(WORD(repair_state, node->d.repair), WORD(repair_state, state));
    assert_string_equal(WORD(repair_lane, node->d.repair_lane), WORD(repair_lane, lane));
}

/* Whatever state it is in: a replay and a snapshot come to the same, and so does a new controller. */
static void restart(struct rig *rig)
{
    rig_replay_check(rig);
    uint64_t before = core_digest(rig->core);
    rig_restart(rig, 100);
    rig_run(rig, 3000);
    assert_int_not_equal(core_digest(rig->core), before); /* a term has begun */
}

static uint32_t request(struct rig *rig, const struct request *wanted, uint32_t index)
{
    struct request copy = *wanted;
    uint32_t id = node_of(rig, index)->d.node;
    copy.nodes = &id;
    copy.node_count = 1;
    return (uint32_t)-rig_request(rig, &copy);
}

/* ---- the table ------------------------------------------------------------------------------ */

static void test_no_other_moves(void **state)
{
    (void)state;
    static const char *const allowed[repair_state_count] = {
        [REPAIR_NONE] = "ordered person",
        [REPAIR_WAITING] = "none ordered person",
        [REPAIR_ORDERED] = "none waiting ordered validating person",
        [REPAIR_VALIDATING] = "none waiting ordered person",
        [REPAIR_PERSON] = "none",
    };
    for (uint8_t from = 0; from < repair_state_count; from++) {
        for (uint8_t to = 0; to < repair_state_count; to++) {
            bool is = strstr(allowed[from], WORD(repair_state, to)) != NULL;
            assert_int_equal(repair_move_allowed(from, to), is);
        }
    }
    assert_false(repair_move_allowed(repair_state_count, REPAIR_NONE));
    assert_false(repair_move_allowed(REPAIR_NONE, repair_state_count));
}

static void test_a_foreign_move_is_refused(void **state)
{
    (void)state;
    struct rig *rig = fleet(1, ALL_HOOKS);
    struct err err = {0};
    struct record record = {.kind = RECORD_repair_moved_kind};
    record.u.repair_moved = (struct record_repair_moved){.node = 1, .repair = REPAIR_VALIDATING};
    struct core *core;
    assert_int_equal(core_create(&rig->limits, &rig->config, 1, &core), 0);
    for (uint32_t i = 0; i < rig->record_count; i++) {
        assert_int_equal(core_replay(core, &rig->records[i], &err), 0);
    }
    assert_int_equal(core_replay(core, &record, &err), -EINVAL);
    assert_non_null(strstr(err.text, "none to validating"));
    record.u.repair_moved.node = 7;
    assert_int_equal(core_replay(core, &record, &err), -EINVAL);
    core_free(core);
    done(rig);
}

/* ---- from none ------------------------------------------------------------------------------ */

static void test_ordered_after_a_minute(void **state)
{
    (void)state;
    struct rig *rig = fleet(3, ALL_HOOKS);
    fault(rig, 1, ADVICE_EVICT_RESET);
    rig_run(rig, MINUTE_MS - 100);
    expect(rig, 1, REPAIR_NONE, LANE_NONE);
    rig_run(rig, 200);
    expect(rig, 1, REPAIR_ORDERED, LANE_GPU_RESET);
    assert_int_equal(rig->nodes[1].repair_hook, HOOK_GPU_RESET);
    assert_int_equal(rig->nodes[1].repair_order, 1);
    assert_int_equal(rig->hook_starts, 1);
    assert_int_equal(node_of(rig, 1)->d.life, NODE_OUT);
    assert_int_equal(node_of(rig, 1)->d.must_pass, VALIDATION_QUICK);
    done(rig);
}

static void test_the_advice_says_the_lane(void **state)
{
    (void)state;
    static const struct {
        uint8_t advice;
        uint8_t lane;
        uint8_t validation;
    } rows[] = {{ADVICE_EVICT_RESET, LANE_GPU_RESET, VALIDATION_QUICK},
                {ADVICE_EVICT_REBOOT, LANE_REBOOT, VALIDATION_QUICK},
                {ADVICE_EVICT_DIAG, LANE_DIAG, VALIDATION_FULL},
                {ADVICE_EVICT, LANE_DIAG, VALIDATION_FULL}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct rig *rig = fleet(2, ALL_HOOKS);
        fault(rig, 0, rows[i].advice);
        rig_run(rig, MINUTE_MS + 100);
        expect(rig, 0, REPAIR_ORDERED, rows[i].lane);
        assert_int_equal(node_of(rig, 0)->d.must_pass, rows[i].validation);
        done(rig);
    }
    struct rig *rig = fleet(2, ALL_HOOKS);
    fault(rig, 0, ADVICE_EVICT_RMA);
    rig_run(rig, MINUTE_MS + 100);
    expect(rig, 0, REPAIR_ORDERED, LANE_RMA);
    assert_int_equal(rig->nodes[0].repair_hook, HOOK_TICKET);
    done(rig);
}

/* So does that of a fact about a job's node; one that asks for no lane is looked for, and where no
 * hook does that a person is asked: it does not just stay out. */
static void test_an_evicted_node_has_a_lane(void **state)
{
    (void)state;
    for (int hooks = 0; hooks < 2; hooks++) {
        struct rig *rig = fleet(4, hooks ? ALL_HOOKS : 0);
        struct job_spec spec = rig_spec("demo", 2);
        uint32_t job = rig_submit(rig, &spec);
        assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
        uint32_t bad = rig_node_of(rig, job, 1);
        fault(rig, bad, ADVICE_EVICT);
        assert_true(rig_until(rig, job, JOB_RECOVERING, 20000));
        assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
        const struct record *verdict = rig_last(rig, RECORD_verdict_kind);
        assert_int_equal(verdict->u.verdict.owner, OWNER_HARDWARE);
        assert_true(verdict->u.verdict.evict);
        assert_int_equal(node_of(rig, bad)->d.must_pass, VALIDATION_FULL);
        rig_run(rig, MINUTE_MS + 100);
        expect(rig, bad, hooks ? REPAIR_ORDERED : REPAIR_PERSON, LANE_DIAG);
        done(rig);
    }
}

static void test_not_while_somebody_else_has_it(void **state)
{
    (void)state;
    struct rig *rig = fleet(6, ALL_HOOKS);
    for (uint32_t i = 0; i < 4; i++) {
        fault(rig, i, ADVICE_EVICT_RESET);
    }
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, "n-0001", WHEN_NOW), 0);
    assert_int_equal(rig_nodes(rig, REQUEST_CORDON, "n-0002", WHEN_NOW), 0);
    struct message m = {.kind = MSG_GOODBYE};
    m.u.goodbye.kind = GOODBYE_REBOOT;
    rig_send(rig, 2, &m);
    rig_run(rig, 5 * MINUTE_MS);
    for (uint32_t i = 0; i < 3; i++) {
        expect(rig, i, REPAIR_NONE, LANE_NONE);
    }
    expect(rig, 3, REPAIR_NONE, LANE_GPU_RESET); /* and is mended by now */
    assert_int_equal(rig->hook_starts, 1);
    done(rig);
}

static void test_not_without_a_fault(void **state)
{
    (void)state;
    struct rig *rig = fleet(3, ALL_HOOKS);
    fault(rig, 0, ADVICE_EVICT_RESET);
    rig_run(rig, MINUTE_MS / 2);
    assert_int_equal(
        request(rig, &(struct request){.verb = REQUEST_UNDRAIN, .clear_code = "fatal-signal"}, 0),
        0);
    fault(rig, 1, ADVICE_EVICT_RESET);
    assert_int_equal(rig_nodes(rig, REQUEST_REMOVE, "n-0002", WHEN_NOW), 0);
    rig_nodes(rig, REQUEST_DRAIN, "n-0003", WHEN_NOW);
    rig_run(rig, 3 * MINUTE_MS);
    assert_int_equal(rig->hook_starts, 0);
    assert_int_equal(rig_count(rig, RECORD_repair_moved_kind), 0);
    done(rig);
}

static void test_no_hook_asks_a_person(void **state)
{
    (void)state;
    struct rig *rig = fleet(2, 0);
    fault(rig, 0, ADVICE_EVICT_RESET);
    rig_run(rig, MINUTE_MS + 100);
    expect(rig, 0, REPAIR_PERSON, LANE_GPU_RESET);
    assert_non_null(strstr(node_of(rig, 0)->d.repair_text, "keepstep undrain n-0001 --reason"));
    rig_run(rig, HOUR_MS / 4);
    assert_int_equal(rig_count(rig, RECORD_repair_moved_kind), 1); /* said once */
    done(rig);
}

/* A lane that the site has no hook for is passed over. */
static void test_a_lane_without_a_hook_is_passed_over(void **state)
{
    (void)state;
    struct rig *rig = fleet(2, 1 << HOOK_DIAG);
    fault(rig, 0, ADVICE_EVICT_RESET);
    rig_run(rig, MINUTE_MS + 100);
    expect(rig, 0, REPAIR_ORDERED, LANE_DIAG);
    done(rig);
}

static void test_held_says_what_it_would_do(void **state)
{
    (void)state;
    struct rig *rig = fleet(2, ALL_HOOKS);
    struct request pause = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_PAUSE};
    rig_request(rig, &pause);
    fault(rig, 0, ADVICE_EVICT_RESET);
    rig_run(rig, 3 * MINUTE_MS);
    expect(rig, 0, REPAIR_NONE, LANE_NONE);
    uint32_t said = 0;
    for (uint32_t i = 0; i < rig->record_count; i++) {
        said += rig->records[i].kind == RECORD_acted_kind &&
                        text_equal(rig->records[i].u.acted.verb, "would")
                    ? 1
                    : 0;
    }
    assert_int_equal(said, 1);
    struct request resume = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_RESUME};
    rig_request(rig, &resume);
    rig_run(rig, 100);
    expect(rig, 0, REPAIR_ORDERED, LANE_GPU_RESET);
    done(rig);
}

/* ---- from ordered --------------------------------------------------------------------------- */

static struct rig *ordered(uint8_t advice)
{
    struct rig *rig = fleet(3, ALL_HOOKS);
    rig->hook_ms = 60 * 60000;
    fault(rig, 0, advice);
    rig_run(rig, MINUTE_MS + 100);
    assert_int_equal(node_of(rig, 0)->d.repair, REPAIR_ORDERED);
    return rig;
}

static void test_mended_and_on_probation(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig->nodes[0].ignore_validation = true;
    rig_end_hook(rig, 0, true, "reset 8 GPUs");
    expect(rig, 0, REPAIR_VALIDATING, LANE_GPU_RESET);
    assert_non_null(strstr(node_of(rig, 0)->d.repair_text, "reset 8 GPUs"));
    assert_int_equal(core_mark_count(rig->core, 1), 1); /* not before it has passed */
    restart(rig);
    expect(rig, 0, REPAIR_VALIDATING, LANE_GPU_RESET);
    rig->nodes[0].ignore_validation = false;
    rig_run(rig, 11000); /* asked again */
    expect(rig, 0, REPAIR_NONE, LANE_GPU_RESET);
    assert_int_equal(core_mark_count(rig->core, 1), 0);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_PROBATION);
    assert_int_equal(node_of(rig, 0)->d.must_pass, VALIDATION_NONE);
    const struct record *cleared = rig_last(rig, RECORD_mark_cleared_kind);
    assert_string_equal(cleared->u.mark_cleared.actor, "keepstep");
    assert_non_null(strstr(cleared->u.mark_cleared.text, "repaired: gpu-reset"));
    done(rig);
}

/* The same order again, whether or not the first hook ever ran. */
static void test_a_new_controller_orders_it_again(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    assert_int_equal(rig->hook_starts, 1);
    restart(rig);
    expect(rig, 0, REPAIR_ORDERED, LANE_GPU_RESET);
    assert_int_equal(rig->hook_starts, 2);
    assert_int_equal(rig->repairs[0], 1);
    assert_int_equal(rig->nodes[0].repair_order, 1);
    rig_end_hook(rig, 0, true, "");
    rig_run(rig, 100);
    expect(rig, 0, REPAIR_NONE, LANE_GPU_RESET);
    done(rig);
}

/* … but not while automation is held: nobody knows what has become of the node meanwhile. */
static void test_held_it_is_not_ordered_again(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    struct request pause = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_PAUSE};
    struct request resume = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_RESUME};
    rig_request(rig, &pause);
    restart(rig);
    rig_run(rig, 40 * MINUTE_MS);
    expect(rig, 0, REPAIR_ORDERED, LANE_GPU_RESET);
    assert_int_equal(rig->hook_starts, 1);
    rig_request(rig, &resume);
    rig_run(rig, 100);
    assert_int_equal(rig->hook_starts, 2);
    assert_int_equal(rig->nodes[0].repair_order, 1);
    rig_run(rig, 32 * MINUTE_MS);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT); /* its time counts from then on */
    done(rig);
}

/* A backup of the time of its repair is put back when it has long been at work again. Started again,
 * the hook would end ranks in good health, whether or not the store knows of their job. */
static void test_a_backup_orders_nothing(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        struct rig *rig = fleet(2, ALL_HOOKS);
        struct job_spec spec = rig_spec("demo", 2);
        spec.held_at_submit = known;
        uint32_t job = known ? rig_submit(rig, &spec) : 0;
        struct request clear = {.verb = REQUEST_UNDRAIN, .clear_code = "fatal-signal"};
        struct request adopt = {.verb = REQUEST_ADOPT};
        fault(rig, 0, ADVICE_EVICT_RESET);
        rig->hook_ms = 20000;
        rig_run(rig, MINUTE_MS + 100);
        expect(rig, 0, REPAIR_ORDERED, LANE_GPU_RESET);
        uint32_t copy = rig->record_count;
        rig_run(rig, MINUTE_MS);
        expect(rig, 0, REPAIR_NONE, LANE_GPU_RESET);
        if (known) {
            assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
        } else {
            job = rig_submit(rig, &spec);
        }
        assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
        uint64_t starts = rig->starts[0];
        rig->record_count = copy;
        rig_restart(rig, 1000);
        rig_run(rig, known ? 300 : 10 * MINUTE_MS); /* before it is ready, or long after */
        assert_int_equal(core_held(rig->core), known);
        expect(rig, 0, known ? REPAIR_ORDERED : REPAIR_NONE, LANE_GPU_RESET);
        if (known) {
            assert_int_equal(request(rig, &clear, 0), 0);
            assert_int_equal(rig_request(rig, &adopt), 0);
            assert_int_equal(node_of(rig, 0)->d.job, job);
            rig_run(rig, 10 * MINUTE_MS);
            expect(rig, 0, REPAIR_NONE, LANE_GPU_RESET);
            assert_int_equal(node_of(rig, 0)->d.life, NODE_ACTIVE);
        }
        assert_int_equal(rig->hook_starts, 1);
        assert_int_equal(rig->starts[0], starts);
        assert_int_equal(rig->nodes[0].stops_heard, 0);
        done(rig);
    }
}

static void test_a_hook_that_is_gone_is_passed_over(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig->config.repair_hooks[HOOK_GPU_RESET] = false;
    restart(rig);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    assert_non_null(strstr(node_of(rig, 0)->d.repair_text, "no such hook any more"));
    assert_int_equal(rig->nodes[0].repair_order, 2);
    done(rig);
}

/* What is told to come next is what a hook can do. */
static void test_what_comes_next(void **state)
{
    char next[TEXT_SIZE];
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    core_repair_next(rig->core, node_of(rig, 0), next);
    assert_non_null(strstr(next, "if it does not help: reboot"));
    rig->config.repair_hooks[HOOK_REBOOT] = false;
    restart(rig);
    core_repair_next(rig->core, node_of(rig, 0), next);
    assert_non_null(strstr(next, "if it does not help: diag"));
    done(rig);
}

static void test_a_failed_hook_is_followed_by_the_next_lane(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig_end_hook(rig, 0, false, "exit 3");
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    assert_non_null(strstr(node_of(rig, 0)->d.repair_text, "hooks.gpu_reset failed: exit 3"));
    assert_int_equal(node_of(rig, 0)->d.must_pass, VALIDATION_FULL); /* the second try */
    rig_end_hook(rig, 0, false, "exit 3");
    expect(rig, 0, REPAIR_ORDERED, LANE_DIAG);
    rig_end_hook(rig, 0, false, "exit 3");
    expect(rig, 0, REPAIR_ORDERED, LANE_RMA);
    rig_end_hook(rig, 0, true, "DC-4519");
    expect(rig, 0, REPAIR_PERSON, LANE_RMA);
    assert_int_equal(rig->repairs[0], 4);
    restart(rig);
    expect(rig, 0, REPAIR_PERSON, LANE_RMA);
    assert_int_equal(rig->hook_starts, 4); /* the ticket is not filed twice */
    done(rig);
}

static void test_a_ticket_that_cannot_be_filed_asks_a_person(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RMA);
    rig_end_hook(rig, 0, false, "exit 1");
    expect(rig, 0, REPAIR_PERSON, LANE_RMA);
    assert_non_null(strstr(node_of(rig, 0)->d.repair_text, "hooks.ticket failed"));
    done(rig);
}

static void test_a_hook_that_hangs_has_failed(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig_run(rig, 30 * MINUTE_MS + 30000); /* its driver ends it at 30 min and would say so */
    expect(rig, 0, REPAIR_ORDERED, LANE_GPU_RESET);
    rig_run(rig, MINUTE_MS);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    done(rig);
}

static void test_only_the_answer_of_this_order_counts(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    struct event event = {.kind = EVENT_REPAIRED};
    event.u.repaired.node = 1;
    event.u.repaired.order = 2;
    event.u.repaired.ok = true;
    rig_step(rig, &event);
    expect(rig, 0, REPAIR_ORDERED, LANE_GPU_RESET);
    event.u.repaired.order = 1;
    event.u.repaired.ok = false;
    rig_step(rig, &event);
    rig_step(rig, &event); /* said twice */
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    event.u.repaired.node = 99;
    rig_step(rig, &event);
    event.u.repaired.node = 2; /* nothing is ordered there */
    rig_step(rig, &event);
    expect(rig, 1, REPAIR_NONE, LANE_NONE);
    rig_nodes(rig, REQUEST_REMOVE, "n-0001", WHEN_NOW);
    event.u.repaired.node = 1;
    event.u.repaired.order = 2;
    rig_step(rig, &event);
    expect(rig, 0, REPAIR_NONE, LANE_REBOOT);
    done(rig);
}

/* It stays out for as long as a program of the site is at it. */
static void test_out_until_the_hook_has_ended(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    struct request clear = {.verb = REQUEST_UNDRAIN, .clear_code = "fatal-signal"};
    assert_int_equal(request(rig, &clear, 0), 0);
    assert_non_null(strstr(rig->reply_text, "being repaired"));
    rig_run(rig, 5000);
    assert_int_equal(core_mark_count(rig->core, 1), 0);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_OUT);
    assert_false(core_node_usable(rig->core, node_of(rig, 0)));
    rig_end_hook(rig, 0, false, "exit 1"); /* nothing is left that the next lane could mend */
    expect(rig, 0, REPAIR_NONE, LANE_GPU_RESET);
    rig_run(rig, 5000);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_READY); /* it has passed its quick checks */
    assert_int_equal(rig->nodes[0].validations, 1);
    done(rig);
}

/* ---- from validating ------------------------------------------------------------------------ */

static void test_checks_that_fail_are_followed_by_the_next_lane(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig->nodes[0].validation_fails = true;
    rig_end_hook(rig, 0, true, "");
    rig_run(rig, 100);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    assert_non_null(strstr(node_of(rig, 0)->d.repair_text, "ECC errors"));
    done(rig);
}

static void test_no_answer_is_a_failure(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig->nodes[0].ignore_validation = true;
    rig_end_hook(rig, 0, true, "");
    rig_run(rig, MINUTE_MS);
    expect(rig, 0, REPAIR_VALIDATING, LANE_GPU_RESET);
    assert_true(rig->nodes[0].validations > 3); /* said again, in case it was lost */
    rig_run(rig, MINUTE_MS / 2);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    done(rig);
}

static void test_a_node_that_stays_away_has_not_passed(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_end_hook(rig, 0, true, "");
    rig_run(rig, 29 * MINUTE_MS);
    expect(rig, 0, REPAIR_VALIDATING, LANE_GPU_RESET);
    rig_run(rig, 2 * MINUTE_MS);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    done(rig);
}

/* A boot of twenty minutes, then checks of as many; but not for ever, where it ends again each time. */
static void test_a_slow_boot_and_long_checks(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_DIAG);
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_end_hook(rig, 0, true, "");
    rig->nodes[0].ignore_validation = true;
    rig_run(rig, 20 * MINUTE_MS);
    rig_boot(rig, 0, true);
    rig_run(rig, 20 * MINUTE_MS);
    expect(rig, 0, REPAIR_VALIDATING, LANE_DIAG);
    rig->nodes[0].ignore_validation = false;
    rig_run(rig, MINUTE_MS);
    expect(rig, 0, REPAIR_NONE, LANE_DIAG);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_PROBATION);
    done(rig);
    rig = ordered(ADVICE_EVICT_DIAG);
    rig->nodes[0].ignore_validation = true;
    rig_end_hook(rig, 0, true, "");
    for (int boot = 0; boot < 5; boot++) {
        rig_run(rig, 11 * MINUTE_MS);
        expect(rig, 0, REPAIR_VALIDATING, LANE_DIAG);
        rig_boot(rig, 0, true);
    }
    rig_run(rig, 7 * MINUTE_MS);
    expect(rig, 0, REPAIR_ORDERED, LANE_RMA);
    done(rig);
}

static void test_an_operator_takes_it_over(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    rig->nodes[0].ignore_validation = true;
    rig_end_hook(rig, 0, true, "");
    rig_run(rig, 100);
    rig_nodes(rig, REQUEST_DRAIN, "n-0001", WHEN_NOW);
    rig_run(rig, 100);
    expect(rig, 0, REPAIR_NONE, LANE_GPU_RESET);
    assert_int_equal(core_mark_count(rig->core, 1), 2);
    rig_run(rig, 5 * MINUTE_MS);
    assert_int_equal(rig->hook_starts, 1);
    done(rig);
}

/* It is vouched for while its checks run, or while the next lane waits: nothing is left to be asked. */
static void test_a_person_vouches_for_it(void **state)
{
    (void)state;
    for (int waiting = 0; waiting < 2; waiting++) {
        struct rig *rig = ordered(ADVICE_EVICT_RESET);
        struct request pause = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_PAUSE};
        struct request resume = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_RESUME};
        struct request undrain = {.verb = REQUEST_UNDRAIN, .skip_validation = true};
        text_copy(undrain.reason, TEXT_SIZE, "seated the card again");
        rig->nodes[0].ignore_validation = true;
        if (waiting) {
            rig_request(rig, &pause);
        }
        rig_end_hook(rig, 0, waiting == 0, "");
        expect(rig, 0, waiting ? REPAIR_WAITING : REPAIR_VALIDATING,
               waiting ? LANE_REBOOT : LANE_GPU_RESET);
        assert_int_equal(request(rig, &undrain, 0), 0);
        expect(rig, 0, REPAIR_NONE, waiting ? LANE_REBOOT : LANE_GPU_RESET);
        assert_int_equal(core_mark_count(rig->core, 1), 0);
        rig_request(rig, &resume);
        rig_run(rig, HOUR_MS);
        assert_int_equal(rig->hook_starts, 1);
        assert_int_equal(node_of(rig, 0)->d.life, NODE_PROBATION);
        done(rig);
    }
}

/* ---- from person ---------------------------------------------------------------------------- */

static void test_a_person_gives_it_back(void **state)
{
    (void)state;
    struct rig *rig = fleet(2, 0);
    fault(rig, 0, ADVICE_EVICT_RESET);
    rig_run(rig, MINUTE_MS + 100);
    rig_nodes(rig, REQUEST_DRAIN, "n-0001", WHEN_NOW); /* it is a person's already */
    rig_run(rig, 100);
    expect(rig, 0, REPAIR_PERSON, LANE_GPU_RESET);
    rig->nodes[0].ignore_validation = true;
    assert_int_equal(request(rig, &(struct request){.verb = REQUEST_UNDRAIN}, 0), 0);
    assert_non_null(strstr(rig->reply_text, "validating (full)"));
    expect(rig, 0, REPAIR_NONE, LANE_GPU_RESET);
    rig_run(rig, 3000);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_CHECKING);
    restart(rig);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_CHECKING);
    assert_int_equal(rig->nodes[0].validation_level, VALIDATE_FULL);
    rig->nodes[0].ignore_validation = false;
    rig_run(rig, 11000);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_PROBATION);
    done(rig);
}

/* ---- again, and many ------------------------------------------------------------------------ */

static void mend(struct rig *rig, uint32_t index, uint8_t advice, uint8_t lane)
{
    fault(rig, index, advice);
    rig_run(rig, MINUTE_MS + 100);
    expect(rig, index, REPAIR_ORDERED, lane);
    rig_run(rig, rig->hook_ms + 1000);
    expect(rig, index, REPAIR_NONE, lane);
}

static void test_the_second_of_a_kind_begins_higher(void **state)
{
    (void)state;
    struct rig *rig = fleet(3, ALL_HOOKS);
    mend(rig, 0, ADVICE_EVICT_RESET, LANE_GPU_RESET);
    rig_restart(rig, 23 * HOUR_MS);
    rig_run(rig, 3000);
    mend(rig, 0, ADVICE_EVICT_RESET, LANE_REBOOT);
    rig_restart(rig, 25 * HOUR_MS); /* long enough ago */
    rig_run(rig, 3000);
    mend(rig, 0, ADVICE_EVICT_RESET, LANE_GPU_RESET);
    done(rig);
}

/* The breaker for silence looks at ten seconds. */
static void kill_some(struct rig *rig, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        rig_kill_node(rig, i, RIG_PEER_NOTHING);
        rig_run(rig, 4000);
    }
}

static void test_so_many_at_once(void **state)
{
    (void)state;
    struct rig *rig = fleet(16, ALL_HOOKS);
    rig->hook_ms = 10 * 60000;
    kill_some(rig, 0, 10);
    rig_run(rig, 4 * MINUTE_MS);
    assert_int_equal(rig->hook_starts, 8);
    expect(rig, 8, REPAIR_NONE, LANE_NONE);
    rig_end_hook(rig, 3, true, "");
    rig_run(rig, 1000);
    assert_int_equal(rig->hook_starts, 9);
    /* One whose hook has failed waits for its turn, too. */
    struct rig_node *failed = &rig->nodes[4];
    uint32_t order = failed->repair_order;
    struct event event = {.kind = EVENT_REPAIRED};
    event.u.repaired.node = core_node_find(rig->core, failed->name);
    event.u.repaired.order = order;
    rig_step(rig, &event);
    assert_int_equal(rig->hook_starts, 10);
    restart(rig);
    done(rig);
}

static void test_waits_for_its_turn(void **state)
{
    (void)state;
    struct rig *rig = ordered(ADVICE_EVICT_RESET);
    struct request pause = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_PAUSE};
    rig_request(rig, &pause);
    rig_end_hook(rig, 0, false, "exit 1");
    expect(rig, 0, REPAIR_WAITING, LANE_REBOOT);
    restart(rig);
    expect(rig, 0, REPAIR_WAITING, LANE_REBOOT);
    assert_int_equal(rig->hook_starts, 1);
    struct request clear = {.verb = REQUEST_UNDRAIN, .clear_code = "fatal-signal"};
    assert_int_equal(request(rig, &clear, 0), 0);
    rig_run(rig, 2000);
    expect(rig, 0, REPAIR_NONE, LANE_REBOOT);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_READY);
    done(rig);
}

/* ---- silent, or not proven empty ------------------------------------------------------------- */

static void test_silent_is_power_cycled_after_two_minutes(void **state)
{
    (void)state;
    struct rig *rig = fleet(4, ALL_HOOKS);
    fault(rig, 0, ADVICE_EVICT_RESET); /* what it had before is no reason to reset a dead host */
    rig->hook_ms = 10 * 60000;
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_run(rig, MINUTE_MS + 30000);
    expect(rig, 0, REPAIR_NONE, LANE_NONE);
    rig_run(rig, MINUTE_MS);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    rig_end_hook(rig, 0, false, "no power"); /* diag needs a host that answers */
    expect(rig, 0, REPAIR_ORDERED, LANE_RMA);
    rig_end_hook(rig, 0, true, "DC-4519");
    rig_boot(rig, 0, true);
    rig_run(rig, 5000);
    expect(rig, 0, REPAIR_PERSON, LANE_RMA); /* it had a fault before it fell silent */
    done(rig);
}

static void test_silent_before_a_restart(void **state)
{
    (void)state;
    struct rig *rig = fleet(4, ALL_HOOKS);
    rig->hook_ms = 10 * 60000;
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_run(rig, MINUTE_MS);
    rig_restart(rig, HOUR_MS); /* all were silent for an hour: nobody was there to hear them */
    rig_run(rig, MINUTE_MS);
    assert_int_equal(rig->hook_starts, 0);
    rig_run(rig, 2 * MINUTE_MS);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    assert_int_equal(rig->hook_starts, 1);
    done(rig);
}

static void test_silent_and_back_by_itself(void **state)
{
    (void)state;
    struct rig *rig = fleet(4, ALL_HOOKS);
    rig->hook_ms = 10 * 60000;
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_run(rig, 2 * MINUTE_MS + 5000);
    expect(rig, 0, REPAIR_ORDERED, LANE_REBOOT);
    rig_end_hook(rig, 0, false, "no power");
    rig_end_hook(rig, 0, true, "DC-4519");
    expect(rig, 0, REPAIR_PERSON, LANE_RMA);
    rig_boot(rig, 0, false);
    rig_run(rig, 5000);
    expect(rig, 0, REPAIR_NONE, LANE_RMA);
    assert_int_equal(rig->nodes[0].validation_level, VALIDATE_FULL);
    assert_int_equal(node_of(rig, 0)->d.life, NODE_PROBATION);
    done(rig);
}

static void test_silent_without_that_hook_is_left_alone(void **state)
{
    (void)state;
    struct rig *rig = fleet(4, ALL_HOOKS & ~(1u << HOOK_REBOOT));
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_run(rig, 10 * MINUTE_MS);
    expect(rig, 0, REPAIR_NONE, LANE_NONE);
    done(rig);
}

static void test_ranks_that_do_not_end_are_rebooted_away(void **state)
{
    (void)state;
    struct rig *rig = fleet(4, ALL_HOOKS);
    struct job_spec spec = rig_spec("demo", 2);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    uint32_t stuck = rig_node_of(rig, job, 1);
    rig->nodes[stuck].ignore_stop = true;
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 20000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_non_null(mark_find(rig->core, node_of(rig, stuck)->d.node, MARK_RECOVERY, "unproven"));
    rig_run(rig, 2 * MINUTE_MS + 1000);
    expect(rig, stuck, REPAIR_ORDERED, LANE_REBOOT);
    rig_run(rig, 30000);
    expect(rig, stuck, REPAIR_NONE, LANE_REBOOT);
    assert_int_equal(node_of(rig, stuck)->d.life, NODE_PROBATION);
    done(rig);
}

static void test_gone_on_purpose_is_left_alone(void **state)
{
    (void)state;
    struct rig *rig = fleet(4, ALL_HOOKS);
    struct message m = {.kind = MSG_GOODBYE};
    m.u.goodbye.kind = GOODBYE_GONE;
    rig_send(rig, 0, &m);
    rig_kill_node(rig, 0, RIG_PEER_NOTHING);
    rig_run(rig, 5 * MINUTE_MS);
    assert_true(node_of(rig, 0)->d.lost);
    expect(rig, 0, REPAIR_NONE, LANE_NONE);
    done(rig);
}

static void test_a_rack_without_power_is_left_alone(void **state)
{
    (void)state;
    struct rig *rig = fleet(8, ALL_HOOKS);
    struct job_spec spec = rig_spec("demo", 6);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    uint32_t first = rig_node_of(rig, job, 0) / 2 * 2; /* two to a rack */
    rig_kill_node(rig, first, RIG_PEER_NOTHING);
    rig_kill_node(rig, first + 1, RIG_PEER_NOTHING);
    rig_run(rig, 6 * MINUTE_MS);
    const struct record *verdict = rig_last(rig, RECORD_verdict_kind);
    assert_int_equal(verdict->u.verdict.owner, OWNER_FACILITY);
    assert_int_equal(rig->hook_starts, 0);
    done(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_other_moves),
        cmocka_unit_test(test_a_foreign_move_is_refused),
        cmocka_unit_test(test_ordered_after_a_minute),
        cmocka_unit_test(test_the_advice_says_the_lane),
        cmocka_unit_test(test_an_evicted_node_has_a_lane),
        cmocka_unit_test(test_not_while_somebody_else_has_it),
        cmocka_unit_test(test_not_without_a_fault),
        cmocka_unit_test(test_no_hook_asks_a_person),
        cmocka_unit_test(test_a_lane_without_a_hook_is_passed_over),
        cmocka_unit_test(test_held_says_what_it_would_do),
        cmocka_unit_test(test_mended_and_on_probation),
        cmocka_unit_test(test_a_new_controller_orders_it_again),
        cmocka_unit_test(test_held_it_is_not_ordered_again),
        cmocka_unit_test(test_a_backup_orders_nothing),
        cmocka_unit_test(test_a_hook_that_is_gone_is_passed_over),
        cmocka_unit_test(test_what_comes_next),
        cmocka_unit_test(test_a_failed_hook_is_followed_by_the_next_lane),
        cmocka_unit_test(test_a_ticket_that_cannot_be_filed_asks_a_person),
        cmocka_unit_test(test_a_hook_that_hangs_has_failed),
        cmocka_unit_test(test_only_the_answer_of_this_order_counts),
        cmocka_unit_test(test_out_until_the_hook_has_ended),
        cmocka_unit_test(test_checks_that_fail_are_followed_by_the_next_lane),
        cmocka_unit_test(test_no_answer_is_a_failure),
        cmocka_unit_test(test_a_node_that_stays_away_has_not_passed),
        cmocka_unit_test(test_a_slow_boot_and_long_checks),
        cmocka_unit_test(test_an_operator_takes_it_over),
        cmocka_unit_test(test_a_person_vouches_for_it),
        cmocka_unit_test(test_a_person_gives_it_back),
        cmocka_unit_test(test_the_second_of_a_kind_begins_higher),
        cmocka_unit_test(test_so_many_at_once),
        cmocka_unit_test(test_waits_for_its_turn),
        cmocka_unit_test(test_silent_is_power_cycled_after_two_minutes),
        cmocka_unit_test(test_silent_before_a_restart),
        cmocka_unit_test(test_silent_and_back_by_itself),
        cmocka_unit_test(test_silent_without_that_hook_is_left_alone),
        cmocka_unit_test(test_ranks_that_do_not_end_are_rebooted_away),
        cmocka_unit_test(test_gone_on_purpose_is_left_alone),
        cmocka_unit_test(test_a_rack_without_power_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
