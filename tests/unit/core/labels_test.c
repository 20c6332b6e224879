/* labels_test.c: what a catalogue made of a line goes from the agent's fact into the verdict, the
 * plan and the journal. */
#include <string.h>

#include "controller/core/impl.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"
#include "tests/lib/test.h"

static struct rig *running(uint32_t *ret_job)
{
    struct rig *rig = rig_create(8, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    *ret_job = rig_submit(rig, &spec);
    assert_int_not_equal(*ret_job, 0);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    return rig;
}

static void say(struct rig *rig, uint32_t job, uint32_t slot, const char *signal, uint8_t label,
                uint8_t advice, const char *subject)
{
    uint32_t node = rig_node_of(rig, job, slot);
    struct message m = {.kind = MSG_FACT};
    struct fact *fact = &m.u.fact.fact;
    *fact = (struct fact){.source = FACT_LOG,
                          .severity = signal_severity(label, advice, ROLE_ROOT),
                          .node = node + 1,
                          .job = job,
                          .attempt = core_job(rig->core, job)->d.attempt,
                          .rank = -1,
                          .gpu = -1,
                          .port = -1,
                          .receive_ms = rig->now_ms,
                          .sequence = ++rig->nodes[node].fact_sequence,
                          .label = label,
                          .advice = advice,
                          .role = ROLE_ROOT};
    text_copy(fact->signal, sizeof fact->signal, signal);
    text_copy(fact->subject, sizeof fact->subject, subject);
    text_format(fact->text, sizeof fact->text, "%s %s", signal, subject);
    rig_send(rig, node, &m);
}

/* What was said ends nothing; the program dies of it by itself, and then it counts. */
static void dies(struct rig *rig, uint32_t job, uint32_t slot)
{
    rig_run(rig, 500);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(core_job(rig->core, job)->d.incident, 0);
    rig_end_rank(rig, rig_node_of(rig, job, slot), 0, RANK_EXITED, 1);
}

static const struct record_verdict *verdict(const struct rig *rig)
{
    return &rig_last(rig, RECORD_verdict_kind)->u.verdict;
}

static void labels_are_kept_and_decide(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    uint32_t victim = rig_node_of(rig, job, 2);
    say(rig, job, 2, "xid-119", LABEL_SOFTWARE, ADVICE_EVICT_RESET, "0000:ba:00");
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    say(rig, job, 1, "xid-45", LABEL_CASCADE, ADVICE_FOLLOW, "0000:1b:00");
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_int_not_equal(rig_node_of(rig, job, 2), victim);
    assert_int_equal(verdict(rig)->owner, OWNER_SOFTWARE);
    assert_int_equal(verdict(rig)->action, DO_EVICT);
    assert_int_equal(verdict(rig)->lane, LANE_GPU_RESET);
    const struct record_image_fact *fact = core_fact_at(rig->core, 0);
    assert_int_equal(fact->label, LABEL_SOFTWARE);
    assert_int_equal(fact->advice, ADVICE_EVICT_RESET);
    assert_int_equal(fact->role, ROLE_ROOT);
    assert_string_equal(fact->signal, "xid-119");
    assert_string_equal(fact->subject, "0000:ba:00");
    rig_replay_check(rig);
    rig_free(rig);
}

/* Twice on one device, over two attempts and a restart of the controller: no longer the program's. */
static void a_device_is_remembered(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    uint32_t node = rig_node_of(rig, job, 1);
    say(rig, job, 1, "xid-31", LABEL_USER, ADVICE_RESTART_FAIL, "0000:1b:00");
    dies(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_string_equal(verdict(rig)->rule, "user-error");
    assert_int_equal(verdict(rig)->action, DO_RESTART);
    assert_int_equal(rig_node_of(rig, job, 1), node);
    rig_restart(rig, 2000);
    rig_run(rig, 20000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    say(rig, job, 1, "xid-31", LABEL_USER, ADVICE_RESTART_FAIL, "0000:1b:00");
    dies(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_string_equal(verdict(rig)->rule, "device-repeat");
    assert_int_equal(verdict(rig)->lane, LANE_DIAG);
    assert_int_not_equal(rig_node_of(rig, job, 1), node);
    rig_replay_check(rig);
    rig_free(rig);
}

/* What the judge calls the program's fault uses the program's retry before it ends the job. */
static void a_retry_before_the_end(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    say(rig, job, 1, "python-keyerror", LABEL_USER, ADVICE_FAIL, "");
    dies(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_int_equal(verdict(rig)->action, DO_RESTART);
    assert_int_equal(verdict(rig)->owner, OWNER_USER);
    say(rig, job, 1, "python-keyerror", LABEL_USER, ADVICE_FAIL, "");
    dies(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_FAILED, 60000));
    assert_int_equal(verdict(rig)->action, DO_FAIL);
    rig_replay_check(rig);
    rig_free(rig);
}

/* A new driver tells one thing of every node, and all ranks run: nobody leaves for it. */
static void one_reading_of_all_nodes(void **state)
{
    (void)state;
    struct rig *rig = rig_create(8, 1);
    for (uint32_t i = 0; i < 8; i++) {
        text_format(rig->nodes[i].rack, NAME_SIZE, "rack-%u", i);
    }
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    uint32_t first = rig_node_of(rig, job, 0);
    for (uint32_t time = 0; time < 2; time++) {
        for (uint32_t slot = 0; slot < 4; slot++) {
            say(rig, job, slot, "gpu-needs-reset", LABEL_HARDWARE, ADVICE_EVICT_RESET, "gpu=0");
        }
        assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
        assert_true(rig_until(rig, job, time == 0 ? JOB_RUNNING : JOB_HELD, 20000));
        assert_string_equal(verdict(rig)->rule, "same-reading");
        assert_int_equal(verdict(rig)->action, time == 0 ? DO_RESTART : DO_HOLD);
        assert_int_equal(verdict(rig)->blamed, 0);
        assert_int_equal(rig_node_of(rig, job, 0), first);
    }
    rig_replay_check(rig);
    rig_free(rig);
}

static void storage_holds_the_job(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    for (uint32_t slot = 0; slot < 4; slot++) {
        say(rig, job, slot, "nfs-stall", LABEL_STORAGE, ADVICE_HOLD_STORAGE, "10.9.0.16");
    }
    dies(rig, job, 2);
    assert_true(rig_until(rig, job, JOB_HELD, 20000));
    assert_string_equal(verdict(rig)->rule, "storage-many");
    assert_int_equal(verdict(rig)->owner, OWNER_STORAGE);
    assert_int_equal(verdict(rig)->lane, LANE_STORAGE);
    assert_int_equal(verdict(rig)->blamed, 0);
    rig_replay_check(rig);
    rig_free(rig);
}

/* Something is left there from before: the node keeps its slot, and is named for the cleaning. */
static void a_node_to_be_cleaned_keeps_its_slot(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    say(rig, job, 1, "port-in-use", LABEL_SOFTWARE, ADVICE_CLEAN, "29700");
    dies(rig, job, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_int_equal(verdict(rig)->action, DO_RESTART);
    assert_int_equal(verdict(rig)->lane, LANE_CLEAN);
    assert_int_equal(rig_last(rig, RECORD_blamed_kind)->u.blamed.node,
                     rig_node_of(rig, job, 1) + 1);
    rig_replay_check(rig);
    rig_free(rig);
}

/* Signs end nothing; when an attempt ends within a minute they are evidence, and later a repeat. */
static void signs_before_an_end(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    uint32_t node = rig_node_of(rig, job, 1);
    for (uint32_t time = 0; time < 2; time++) {
        say(rig, job, 1, READING_PORT_DOWN, LABEL_NETWORK, ADVICE_WATCH, "mlx5_3/1");
        say(rig, job, 1, READING_PORT_DOWN, LABEL_NETWORK, ADVICE_WATCH, "mlx5_3/1");
        rig_run(rig, 500);
        say(rig, job, 1, READING_PORT_UP, LABEL_NETWORK, ADVICE_WATCH, "mlx5_3/1");
        assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
        assert_int_equal(core_job(rig->core, job)->d.incident, 0);
        assert_null(core_fact_at(rig->core, 0));
        if (time == 0) {
            rig_run(rig, 100000);
        }
    }
    rig_end_rank(rig, rig_node_of(rig, job, 3), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_int_equal(rig_count(rig, RECORD_fact_kept_kind), 3); /* not those of before */
    assert_string_equal(verdict(rig)->rule, "port");
    assert_int_equal(verdict(rig)->action, DO_EVICT); /* twice in five minutes */
    assert_int_not_equal(rig_node_of(rig, job, 1), node);
    rig_replay_check(rig);
    /* two minutes later it has to do with nothing */
    rig_run(rig, 120000);
    rig_end_rank(rig, rig_node_of(rig, job, 3), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_string_not_equal(verdict(rig)->rule, "port");
    rig_free(rig);
}

/* A failure that began three minutes before it was known: what was told when it began counts. */
static void signs_before_a_hang(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        uint32_t job;
        struct rig *rig = running(&job);
        say(rig, job, 1, "xid-63", LABEL_HARDWARE, ADVICE_WATCH, "0000:cb:00");
        rig_run(rig, late == 0 ? 30000 : 90000);
        uint64_t since_ms = service_now(rig->core);
        rig_run(rig, 180000);
        struct fact fact = {.source = FACT_NO_PROGRESS,
                            .severity = 2,
                            .job = job,
                            .attempt = core_job(rig->core, job)->d.attempt,
                            .rank = -1,
                            .gpu = -1,
                            .port = -1,
                            .receive_ms = rig->now_ms};
        recovery_fact(rig->core, job_at(rig->core, job), &fact, since_ms);
        assert_non_null(core_fact_at(rig->core, 0));
        assert_int_equal(core_fact_at(rig->core, 1) != NULL, late == 0);
        rig_free(rig);
    }
}

/* A port that was away for five seconds and is back has nothing to do with a rank that ends
 * elsewhere: its node stays. "Up again" is told as what it is, benign. */
static void a_port_that_is_back_evicts_nobody(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    uint32_t node = rig_node_of(rig, job, 1);
    say(rig, job, 1, READING_PORT_DOWN, LABEL_NETWORK, ADVICE_WATCH, "mlx5_3/1");
    rig_run(rig, 5000);
    say(rig, job, 1, READING_PORT_UP, LABEL_BENIGN, ADVICE_NONE, "mlx5_3/1");
    rig_run(rig, 40000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig_end_rank(rig, rig_node_of(rig, job, 3), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_int_equal(verdict(rig)->action, DO_RESTART);
    assert_int_equal(rig_node_of(rig, job, 1), node);
    assert_int_equal(core_mark_count(rig->core, node + 1), 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_kept_and_decide),
        cmocka_unit_test(a_device_is_remembered),
        cmocka_unit_test(a_retry_before_the_end),
        cmocka_unit_test(one_reading_of_all_nodes),
        cmocka_unit_test(storage_holds_the_job),
        cmocka_unit_test(a_node_to_be_cleaned_keeps_its_slot),
        cmocka_unit_test(signs_before_an_end),
        cmocka_unit_test(a_port_that_is_back_evicts_nobody),
        cmocka_unit_test(signs_before_a_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
