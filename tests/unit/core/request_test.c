/* request_test.c: what requests are answered, at the edges of what they ask for; and that a dry run
 * says it and does nothing. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

static int32_t submit(struct rig *rig, const char *name, uint32_t slots, bool dry_run)
{
    struct job_spec spec = rig_spec(name, slots);
    struct request request = {.verb = REQUEST_SUBMIT, .spec = &spec, .dry_run = dry_run};
    text_copy(request.actor, NAME_SIZE, "sre");
    return rig_request(rig, &request);
}

static void test_a_dry_run_says_whether_it_would_start(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 1);
    rig_connect_all(rig);
    uint32_t records = rig->record_count;
    assert_int_equal(submit(rig, "demo", 4, true), 0);
    assert_string_equal(rig->reply_text, "4 nodes wanted, 4 usable now; would start now");
    assert_int_equal(submit(rig, "demo", 5, true), 0);
    assert_string_equal(rig->reply_text, "5 nodes wanted, 4 usable now; would wait for nodes");
    assert_int_equal(submit(rig, "demo", 1, true), 0);
    assert_string_equal(rig->reply_text, "1 node wanted, 4 usable now; would start now");
    assert_int_equal(rig->record_count, records);
    assert_null(core_job_at(rig->core, 0));
    rig_free(rig);
}

/* rig_request() takes a job that is there for one that was accepted; this asks. */
static int32_t ask(struct rig *rig, const struct request *request)
{
    struct request copy = *request;
    struct event event = {.kind = EVENT_REQUEST, .u.request = &copy};
    copy.id = 1;
    text_copy(copy.actor, NAME_SIZE, "sre");
    rig_step(rig, &event);
    return rig->reply_result;
}

/* The same file again is no other job, for who never saw the answer; another one needs another name,
 * and so does one of which it is not known whether it is the same. */
static void test_a_name_is_taken(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 2);
    spec.text_hash = 1;
    struct request request = {.verb = REQUEST_SUBMIT, .spec = &spec};
    assert_int_equal(ask(rig, &request), 0);
    uint32_t job = rig->reply_job;
    assert_int_equal(ask(rig, &request), 0);
    assert_int_equal(rig->reply_job, job);
    assert_non_null(strstr(rig->reply_text, "demo was submitted already and is "));
    spec.text_hash = 2;
    assert_int_equal(ask(rig, &request), -EBUSY);
    assert_non_null(strstr(rig->reply_text, "choose another name"));
    struct job_spec other = rig_spec("other", 2);
    other.text_hash = 0;
    request.spec = &other;
    assert_int_equal(ask(rig, &request), 0);
    assert_int_equal(ask(rig, &request), -EBUSY);
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
    assert_true(rig_until(rig, job, JOB_CANCELLED, 20000));
    request.spec = &spec;
    assert_int_equal(ask(rig, &request), 0);
    assert_int_not_equal(rig->reply_job, job);
    rig_free(rig);
}

/* Automation is paused: for each wish it is said what would be done, and why it would. */
static void test_what_a_paused_automation_would_do(void **state)
{
    (void)state;
    struct rig *rig = rig_create(6, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    struct request request = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_PAUSE};
    assert_int_equal(rig_request(rig, &request), 0);
    assert_string_equal(core_job(rig->core, job)->would, "");
    assert_int_equal(rig_job(rig, REQUEST_HOLD, job), 0);
    rig_run(rig, 1000);
    const char *would = core_job(rig->core, job)->would;
    assert_string_equal(would, "stop it after a save, to hold it");
    assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
    rig_run(rig, 1000);
    assert_string_equal(would, "");
    const char *node = rig->nodes[rig_node_of(rig, job, 2)].name;
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, node, WHEN_CHECKPOINT), 0);
    rig_run(rig, 1000);
    assert_string_equal(would, "stop it, to move it off nodes that are to leave");
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig_free(rig);
}

/* ---- nodes ------------------------------------------------------------------------------------ */

static struct rig *running(uint32_t nodes, uint32_t *ret_job)
{
    struct rig *rig = rig_create(nodes, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    rig_run(rig, 2000);
    return rig;
}

/* The holders of the first slots, then the first spares. */
static struct request of_nodes(const struct rig *rig, uint8_t verb, uint32_t holders,
                               uint32_t spares)
{
    struct request request = {.verb = verb, .when = WHEN_NOW};
    uint32_t job = core_job_find(rig->core, "demo");
    text_copy(request.actor, NAME_SIZE, "sre");
    static uint32_t nodes[RIG_NODES_MAX];
    for (uint32_t slot = 0; slot < holders; slot++) {
        nodes[request.node_count++] = rig_node_of(rig, job, slot) + 1;
    }
    for (uint32_t id = 1; spares > 0; id++) {
        if (core_node(rig->core, id)->d.job == 0) {
            nodes[request.node_count++] = id;
            spares--;
        }
    }
    request.nodes = nodes;
    return request;
}

static void expect_reply(struct rig *rig, const struct request *request, int32_t result,
                         const char *text)
{
    assert_int_equal(rig_request(rig, request), result);
    if (strncmp(rig->reply_text, text, strlen(text)) != 0) {
        fail_msg("`%s` instead of `%s`", rig->reply_text, text);
    }
}

/* First as a dry run, which says the same and changes nothing. */
static void expect_both(struct rig *rig, struct request *request, int32_t result, const char *text)
{
    uint32_t records = rig->record_count;
    request->dry_run = true;
    expect_reply(rig, request, result, text);
    assert_int_equal(rig->record_count, records);
    request->dry_run = false;
    expect_reply(rig, request, result, text);
    assert_true(result < 0 ? rig->record_count == records : rig->record_count > records);
}

static void test_a_drain_says_what_moves(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(7, &job); /* three spares */
    struct request request = of_nodes(rig, REQUEST_DRAIN, 3, 1);
    expect_both(rig, &request, -ENOSPC,
                "4 nodes hold 3 slots and 2 spares are ready; nothing was changed");
    request = of_nodes(rig, REQUEST_DRAIN, 2, 2);
    expect_both(rig, &request, -ENOSPC, "4 nodes hold 2 slots and 1 spare is ready");
    request = of_nodes(rig, REQUEST_DRAIN, 0, 1);
    expect_both(rig, &request, 0, "1 node holds no slot: nothing has to move");
    request = of_nodes(rig, REQUEST_DRAIN, 4, 0);
    request.when = WHEN_JOB_END;
    expect_both(rig, &request, 0, "4 nodes hold 4 slots and keep them until the job ends");
    rig_run(rig, 5000);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    request = of_nodes(rig, REQUEST_DRAIN, 2, 0);
    expect_both(rig, &request, 0,
                "2 nodes hold 2 slots; 2 of 2 ready spares would take them; when: now, ");
    assert_non_null(strstr(rig->reply_text, " of demo done again"));
    rig_run(rig, 100);
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_free(rig);
}

static void test_a_cordon_keeps_the_slots(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, &job);
    struct request request = of_nodes(rig, REQUEST_CORDON, 1, 1);
    expect_both(rig, &request, 0, "2 nodes cordoned; they keep their slots and are not chosen");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(core_mark_count(rig->core, request.nodes[i]), 1);
        assert_string_equal(core_mark(rig->core, request.nodes[i], 0)->d.code, "cordon");
    }
    request.verb = REQUEST_UNCORDON;
    expect_both(rig, &request, 0, "2 nodes: checked, then spare");
    assert_int_equal(core_mark_count(rig->core, request.nodes[0]), 0);
    assert_int_equal(core_mark_count(rig->core, request.nodes[1]), 0);
    request = of_nodes(rig, REQUEST_CORDON, 1, 0);
    expect_both(rig, &request, 0, "1 node cordoned; it keeps its slot and is not chosen again");
    static const uint32_t nobody = 99;
    request.nodes = &nobody;
    expect_both(rig, &request, -ENOENT, "node 1 of the list does not exist; nothing was changed");
    request.node_count = 0;
    expect_both(rig, &request, -EINVAL, "no node is named");
    rig_run(rig, 5000);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    rig_free(rig);
}

static void test_a_node_at_work_is_not_removed(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, &job);
    struct request request = of_nodes(rig, REQUEST_REMOVE, 1, 1);
    expect_both(rig, &request, -EBUSY, "n-0001 holds slot 0 of demo; keepstep drain n-0001 first");
    request = of_nodes(rig, REQUEST_REMOVE, 0, 2);
    uint32_t first = request.nodes[0];
    expect_both(rig, &request, 0, "2 nodes removed");
    assert_true(core_node(rig->core, first)->d.removed);
    expect_both(rig, &request, -ENOENT, "node 1 of the list does not exist");
    rig_free(rig);
}

/* ---- jobs ------------------------------------------------------------------------------------- */

static void test_a_job_that_is_not_there(void **state)
{
    (void)state;
    static const uint8_t verbs[] = {REQUEST_CANCEL, REQUEST_HOLD, REQUEST_RELEASE, REQUEST_RESTART};
    uint32_t job;
    struct rig *rig = running(6, &job);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        struct request request = {.verb = verbs[i], .job = job + 1};
        expect_both(rig, &request, -ENOENT, "there is no such job");
    }
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig_free(rig);
}

static void test_a_restart_of_what_does_not_run(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, &job);
    struct request request = {.verb = REQUEST_RESTART, .job = job};
    expect_both(rig, &request, 0, "demo: restarts now from its newest checkpoint, ");
    assert_int_equal(rig->reply_job, job);
    expect_both(rig, &request, -EBUSY, "demo is recovering; only a running job is restarted");
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_free(rig);
}

/* What a hold does depends on where the job stands, and the answer says it. */
static void test_a_hold_says_how_it_comes_about(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, &job);
    struct request hold = {.verb = REQUEST_HOLD, .job = job};
    struct request release = {.verb = REQUEST_RELEASE, .job = job};
    expect_reply(rig, &release, 0, "demo is not held");
    expect_both(rig, &hold, 0, "demo: a save is asked for and waited for up to ");
    assert_non_null(strstr(rig->reply_text, ", then it is held"));
    expect_reply(rig, &hold, 0, "demo is held");
    assert_true(rig_until(rig, job, JOB_HELD, 100000));
    expect_both(rig, &release, 0, "demo ");
    assert_string_equal(rig->reply_text, "demo goes on");
    expect_both(rig, &hold, 0, "demo: is recovering: held as soon as that is through");
    assert_true(rig_until(rig, job, JOB_HELD, 100000));
    struct job_spec spec = rig_spec("saves", 2);
    spec.save_on_drain = false;
    uint32_t other = rig_submit(rig, &spec);
    assert_true(rig_until(rig, other, JOB_RUNNING, 20000));
    hold.job = other;
    expect_both(rig, &hold, 0, "saves: stops and is held: its file says checkpoint.on_drain: none");
    struct job_spec waits = rig_spec("waits", 5);
    uint32_t third = rig_submit(rig, &waits);
    assert_int_equal(core_job(rig->core, third)->d.state, JOB_PENDING);
    hold.job = third;
    expect_both(rig, &hold, 0, "waits: held before its start");
    assert_int_equal(core_job(rig->core, third)->d.state, JOB_HELD);
    struct request cancel = {.verb = REQUEST_CANCEL, .job = third};
    expect_both(rig, &cancel, 0, "waits: stopping its ranks (grace ");
    rig_run(rig, 1000);
    assert_int_equal(core_job(rig->core, third)->d.state, JOB_CANCELLED);
    expect_reply(rig, &cancel, 0, "waits is cancelled");
    expect_reply(rig, &hold, -EBUSY, "waits is cancelled already");
    rig_free(rig);
}

static void test_a_pin_needs_something_to_keep(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, &job);
    struct message m = {.kind = MSG_CHECKPOINT};
    m.u.checkpoint = (struct msg_checkpoint){.kind = CHECKPOINT_BEGIN, .job = job, .step = 40};
    struct request request = {.verb = REQUEST_PIN, .job = job};
    text_copy(request.actor, NAME_SIZE, "sre");
    expect_both(rig, &request, -ENOENT, "demo: demo has no usable checkpoint yet");
    rig_send(rig, rig_node_of(rig, job, 0), &m);
    request.has_step = true;
    request.step = 40;
    expect_both(rig, &request, -EBUSY, "demo: step 40 is writing: there is nothing to keep");
    request.step = 39;
    expect_both(rig, &request, -ENOENT, "demo: demo has no checkpoint of step 39");
    rig_save(rig, job, 20);
    request.step = 20;
    expect_both(rig, &request, 0, "demo: step 20 is pinned: it is never removed");
    expect_reply(rig, &request, 0, "demo: step 20 is pinned already");
    request.verb = REQUEST_UNPIN;
    expect_both(rig, &request, 0, "demo: step 20 may be removed when its time has come");
    expect_reply(rig, &request, 0, "demo: step 20 is not pinned");
    rig_free(rig);
}

/* A quarter of what may be kept at all: the newest must always have room. */
static void test_pins_have_a_limit(void **state)
{
    (void)state;
    enum { KEPT = 8 };
    struct core_limits limits = core_limits_default;
    struct core_config config = {0};
    limits.jobs = 2;
    limits.checkpoints = KEPT;
    struct rig *rig = rig_create_with(6, 1, &limits, &config);
    rig_connect_all(rig);
    rig_run(rig, 20000);
    struct job_spec spec = rig_spec("demo", 4);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 30000));
    struct request request = {.verb = REQUEST_PIN, .job = job};
    text_copy(request.actor, NAME_SIZE, "sre");
    uint32_t pinned = 0;
    for (uint64_t step = 10; step < 10 * KEPT; step += 10) {
        rig_save(rig, job, step);
        pinned += rig_request(rig, &request) == 0 ? 1 : 0;
    }
    assert_int_equal(pinned, KEPT / 4);
    assert_non_null(strstr(rig->reply_text, "2 checkpoints are pinned, which is the limit"));
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dry_run_says_whether_it_would_start),
        cmocka_unit_test(test_a_name_is_taken),
        cmocka_unit_test(test_what_a_paused_automation_would_do),
        cmocka_unit_test(test_a_drain_says_what_moves),
        cmocka_unit_test(test_a_cordon_keeps_the_slots),
        cmocka_unit_test(test_a_node_at_work_is_not_removed),
        cmocka_unit_test(test_a_job_that_is_not_there),
        cmocka_unit_test(test_a_restart_of_what_does_not_run),
        cmocka_unit_test(test_a_hold_says_how_it_comes_about),
        cmocka_unit_test(test_a_pin_needs_something_to_keep),
        cmocka_unit_test(test_pins_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
