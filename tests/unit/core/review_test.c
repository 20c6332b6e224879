/* review_test.c: what a hostile reading of the core found: ways in which a healthy job was stopped, a
 * node used too early, or a request could abort the controller. One test for each. */
#include "tests/lib/test.h"

#include <string.h>

#include "controller/core/layout.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

static struct rig *running(uint32_t nodes, uint32_t slots, uint32_t *ret_job)
{
    struct rig *rig = rig_create(nodes, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", slots);
    *ret_job = rig_submit(rig, &spec);
    assert_int_not_equal(*ret_job, 0);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 10000));
    return rig;
}

/* The controller's own network fails: every agent is silent, and the labels (one feed, two racks)
 * must not make that look like a fault of theirs. */
static void test_cut_off_controller_loses_nobody(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(4, 4, &job);
    for (uint32_t i = 0; i < 4; i++) {
        rig_kill_agent(rig, i, RIG_PEER_NOTHING); /* the ranks live on */
    }
    rig_run(rig, 60000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    for (uint32_t i = 0; i < 4; i++) {
        rig_connect(rig, i);
    }
    rig_run(rig, 5000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    rig_free(rig);
}

/* The node's attempts as it reports them, but its ranks at this step and the beat this old. */
static void send_old_beat(struct rig *rig, uint32_t node, uint64_t step, uint64_t age_ms)
{
    struct rig_node *from = &rig->nodes[node];
    struct message m = {.kind = MSG_BEAT};
    m.u.beat.sequence = ++from->beat;
    m.u.beat.sent_ms = rig->now_ms - age_ms;
    m.u.beat.checks_ok = true;
    m.u.beat.attempt_count = 1;
    m.u.beat.attempts[0] = from->attempts[0].report;
    for (uint32_t i = 0; i < 2; i++) {
        m.u.beat.attempts[0].ranks[i].step = step;
    }
    rig_send(rig, node, &m);
}

/* A node dies while the beats of another are late on their way: the steps in them were done before,
 * and must not make the dead node look like one whose agent alone is silent. */
static void test_late_beats_are_no_witness(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 3000);
    uint32_t victim = rig_node_of(rig, job, 2);
    uint32_t late = rig_node_of(rig, job, 0);
    uint64_t step = core_job(rig->core, job)->step_top;
    rig->nodes[late].beat_at_ms = UINT64_MAX; /* by hand, from here on */
    rig_run(rig, 500);
    rig_kill_node(rig, victim, RIG_PEER_NOTHING);
    rig_run(rig, 200);
    send_old_beat(rig, late, step + 1, 700);
    rig_run(rig, 100);
    send_old_beat(rig, late, step + 20, 350);
    rig_run(rig, 100);
    for (uint32_t i = 0; core_mark(rig->core, victim + 1, i) != NULL; i++) {
        assert_string_not_equal(core_mark(rig->core, victim + 1, i)->d.code, "agent-silent");
    }
    rig->nodes[late].beat_at_ms = rig->now_ms;
    rig_run(rig, 8000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 1);
    rig_free(rig);
}

/* The clocks of two hosts drift apart by seconds in days; here, in minutes. What a node's first beats
 * said of its clock must not make its later ones look old. */
static void test_a_slow_clock_still_bears_witness(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    for (uint32_t i = 0; i < 6; i++) {
        rig->nodes[i].clock_slow_ppm = 50000;
    }
    rig_run(rig, 600000); /* half a minute apart by now */
    uint32_t victim = rig_node_of(rig, job, 2);
    rig_kill_agent(rig, victim, RIG_PEER_REFUSED);
    rig_run(rig, 10000);
    const struct mark *mark = core_mark(rig->core, victim + 1, 0);
    assert_non_null(mark);
    assert_string_equal(mark->d.code, "agent-silent");
    rig_free(rig);
}

/* A node that was cut off has ended its own ranks, and is back: nobody here wanted that, so the
 * attempt is over as with any other end. */
static void test_ranks_that_their_node_ended_are_missed(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 1000);
    struct rig_attempt *attempt = &rig->nodes[rig_node_of(rig, job, 2)].attempts[0];
    attempt->report.stop_seen = true;
    attempt->report.empty = true;
    attempt->report.shim_alive = false;
    text_copy(attempt->report.text, TEXT_SIZE, "ended by its own node: no controller");
    for (uint32_t i = 0; i < 2; i++) {
        attempt->report.ranks[i].state = RANK_SIGNALED;
        attempt->report.ranks[i].code = 15;
        attempt->report.ranks[i].after_stop = true;
        attempt->report.ranks[i].end_sequence = i + 1;
    }
    rig_run(rig, 10000); /* it goes on by itself, as an attempt of its own */
    assert_true(rig_until(rig, job, JOB_RUNNING, 30000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_free(rig);
}

static void test_last_rank_may_take_its_time(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(4, 4, &job);
    rig_run(rig, 1000);
    rig->steps_stopped = true;
    for (uint32_t slot = 0; slot < 3; slot++) {
        rig_end_rank(rig, rig_node_of(rig, job, slot), 0, RANK_EXITED, 0);
        rig_end_rank(rig, rig_node_of(rig, job, slot), 1, RANK_EXITED, 0);
    }
    rig_run(rig, 120000); /* it writes its last files */
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig_end_rank(rig, rig_node_of(rig, job, 3), 0, RANK_EXITED, 0);
    rig_end_rank(rig, rig_node_of(rig, job, 3), 1, RANK_EXITED, 0);
    assert_true(rig_until(rig, job, JOB_SUCCEEDED, 5000));
    rig_free(rig);
}

static struct message fatal_fact(uint64_t sequence, uint32_t job, uint32_t attempt)
{
    struct message m = {.kind = MSG_FACT};
    m.u.fact.fact.source = FACT_PROBE;
    m.u.fact.fact.severity = 3;
    m.u.fact.fact.sequence = sequence;
    m.u.fact.fact.job = job;
    m.u.fact.fact.attempt = attempt;
    m.u.fact.fact.rank = -1;
    m.u.fact.fact.gpu = 0;
    m.u.fact.fact.port = -1;
    m.u.fact.fact.code = 79;
    text_copy(m.u.fact.fact.text, TEXT_SIZE, "xid 79");
    return m;
}

static void test_fact_said_again_ends_no_other_attempt(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t teller = rig_node_of(rig, job, 1);
    struct message fact = fatal_fact(7, job, 0);
    rig_end_rank(rig, rig_node_of(rig, job, 2), 0, RANK_EXITED, 1);
    rig_run(rig, 50);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_send(rig, teller, &fact); /* of attempt 0: its ack was lost */
    rig_run(rig, 3000);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig_free(rig);
}

static void test_fatal_fact_takes_a_spare_out(void **state)
{
    (void)state;
    struct rig *rig = rig_create(2, 1);
    rig_connect_all(rig);
    struct message fact = fatal_fact(1, 0, 0);
    rig_send(rig, 0, &fact);
    rig_run(rig, 2000);
    assert_string_equal(core_node_role_word(rig->core, core_node(rig->core, 1)), "-");
    assert_string_equal(core_node_role_word(rig->core, core_node(rig->core, 2)), "spare");
    rig_free(rig);
}

static void test_node_with_foreign_ranks_is_no_spare(void **state)
{
    (void)state;
    struct rig *rig = rig_create(2, 1);
    struct rig_attempt *foreign = &rig->nodes[0].attempts[0];
    rig->nodes[0].attempt_count = 1;
    foreign->report.job = 99;
    foreign->report.attempt = 3;
    foreign->report.foreign = true;
    foreign->report.rank_count = RIG_RANKS;
    for (uint32_t i = 0; i < RIG_RANKS; i++) {
        foreign->report.ranks[i].state = RANK_RUNNING;
    }
    rig_connect_all(rig);
    rig_run(rig, 3000);
    assert_string_equal(core_node_role_word(rig->core, core_node(rig->core, 1)), "-");
    rig_free(rig);
}

static void test_ports_are_not_tried_for_ever(void **state)
{
    (void)state;
    struct rig *rig = rig_create(3, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 2);
    for (uint32_t i = 0; i < 3; i++) {
        rig->nodes[i].port_never = true;
    }
    uint32_t job = rig_submit(rig, &spec);
    rig_run(rig, 10000);
    assert_true(rig_count(rig, RECORD_port_chosen_kind) < 40);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_HELD); /* nobody passes: a person */
    rig_free(rig);
}

/* Jobs of different sizes, most of them cancelled, leave holes between the others. */
static void test_submit_into_a_full_table_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_create(1, 1);
    uint32_t jobs[48];
    rig_connect_all(rig);
    for (uint32_t i = 0; i < 30; i++) {
        char name[NAME_SIZE];
        text_format(name, sizeof name, "job-%u", i);
        struct job_spec spec = rig_spec(name, i % 2 == 0 ? 128 : 129);
        jobs[i] = rig_submit(rig, &spec);
        assert_int_not_equal(jobs[i], 0);
    }
    for (uint32_t i = 0; i < 29; i++) {
        assert_int_equal(rig_job(rig, REQUEST_CANCEL, jobs[i]), 0);
    }
    rig_run(rig, 200);
    struct job_spec spec = rig_spec("large", 4000);
    (void)rig_submit(rig, &spec); /* taken or refused, never an abort */
    assert_true(rig->reply_text[0] != '\0');
    rig_free(rig);
}

static int take_image(const struct record *record, void *context)
{
    return core_replay(context, record, NULL);
}

static void test_save_in_flight_over_a_snapshot(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(4, 4, &job);
    rig_run(rig, 3000);
    struct message begin = {.kind = MSG_CHECKPOINT};
    begin.u.checkpoint.kind = CHECKPOINT_BEGIN;
    begin.u.checkpoint.job = job;
    begin.u.checkpoint.step = 20;
    rig_send(rig, rig_node_of(rig, job, 0), &begin);
    uint64_t began = core_checkpoint_at(rig->core, 0)->began_ms;
    struct core *image;
    assert_int_equal(core_create(&rig->limits, &rig->config, 1, &image), 0);
    assert_int_equal(core_snapshot(rig->core, take_image, image), 0);
    assert_int_equal(core_checkpoint_at(image, 0)->began_ms, began);
    core_free(image);
    rig_free(rig);
}

/* Said again, it is so already: no record, and the answer says it; nor does a dry run write any. */
static void test_automation_said_again_writes_nothing(void **state)
{
    (void)state;
    struct rig *rig = rig_create(1, 1);
    static const uint8_t words[] = {AUTOMATION_ACT,   AUTOMATION_RESUME, AUTOMATION_OBSERVE,
                                    AUTOMATION_PAUSE, AUTOMATION_RESUME, AUTOMATION_ACT};
    static const uint32_t records[] = {0, 0, 1, 2, 3, 4};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        struct request request = {.verb = REQUEST_AUTOMATION, .automation = words[i]};
        uint32_t before = rig->record_count;
        request.dry_run = true;
        assert_int_equal(rig_request(rig, &request), 0);
        assert_int_equal(rig->record_count, before);
        request.dry_run = false;
        assert_int_equal(rig_request(rig, &request), 0);
        assert_int_equal(rig_count(rig, RECORD_automation_kind), records[i]);
        before = rig->record_count;
        assert_int_equal(rig_request(rig, &request), 0);
        assert_int_equal(rig->record_count, before);
        assert_non_null(strstr(rig->reply_text, "already"));
    }
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_off_controller_loses_nobody),
        cmocka_unit_test(test_late_beats_are_no_witness),
        cmocka_unit_test(test_a_slow_clock_still_bears_witness),
        cmocka_unit_test(test_ranks_that_their_node_ended_are_missed),
        cmocka_unit_test(test_last_rank_may_take_its_time),
        cmocka_unit_test(test_fact_said_again_ends_no_other_attempt),
        cmocka_unit_test(test_fatal_fact_takes_a_spare_out),
        cmocka_unit_test(test_node_with_foreign_ranks_is_no_spare),
        cmocka_unit_test(test_ports_are_not_tried_for_ever),
        cmocka_unit_test(test_submit_into_a_full_table_is_refused),
        cmocka_unit_test(test_save_in_flight_over_a_snapshot),
        cmocka_unit_test(test_automation_said_again_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
