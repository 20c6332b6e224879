/* request_test.c: what requests are answered, at the edges of what they ask for; and that a dry run
 * says it and does nothing. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dry_run_says_whether_it_would_start),
        cmocka_unit_test(test_what_a_paused_automation_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
