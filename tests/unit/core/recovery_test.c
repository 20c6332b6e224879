/* recovery_test.c: the main job through the core: a node dies, a rank dies, an operator drains, the
 * controller is killed, and what must hold in each case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

static struct rig *running(uint32_t nodes, uint32_t slots, uint32_t *ret_job)
{
    struct rig *rig = rig_create(nodes, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", slots);
    *ret_job = rig_submit(rig, &spec);
    assert_int_not_equal(*ret_job, 0);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    return rig;
}

static const struct recovery *last_recovery(const struct rig *rig)
{
    const struct recovery *last = NULL;
    const struct recovery *one;
    for (uint32_t i = 0; (one = core_recovery_at(rig->core, i)) != NULL; i++) {
        last = one;
    }
    return last;
}

static void test_job_starts_and_succeeds(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_end_all(rig, job, RANK_EXITED, 0);
    assert_true(rig_until(rig, job, JOB_SUCCEEDED, 5000));
    assert_int_equal(rig_count(rig, RECORD_slot_done_kind), 4);
    rig_run(rig, 2000);
    for (uint32_t i = 0; i < 6; i++) { /* everybody is released (case A5) */
        assert_string_equal(core_node_role_word(rig->core, core_node(rig->core, i + 1)), "spare");
    }
    rig_replay_check(rig);
    rig_free(rig);
}

static void test_node_dies_and_a_spare_takes_its_slot(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 2000);
    rig_save(rig, job, 10);
    rig_run(rig, 1000);
    uint32_t victim = rig_node_of(rig, job, 2);
    uint32_t kept = rig_node_of(rig, job, 0);
    uint64_t killed_at = rig->now_ms;
    rig_kill_node(rig, victim, RIG_PEER_REFUSED);
    rig_end_rank(rig, kept, 0, RANK_EXITED, 1); /* its peers notice */
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    assert_true(rig->now_ms - killed_at < 3500 + 2500);
    assert_int_not_equal(rig_node_of(rig, job, 2), victim);
    assert_int_equal(rig_node_of(rig, job, 0), kept);
    const struct recovery *r = last_recovery(rig);
    assert_int_equal(r->d.outcome, OUTCOME_RECOVERED);
    assert_int_equal(r->d.moved_nodes, 1);
    assert_int_equal(r->d.shifted_ranks, 0);
    assert_int_equal(r->d.restore_step, 10);
    assert_true(r->d.lost_steps >= 1);
    assert_int_equal(rig_last(rig, RECORD_blamed_kind)->u.blamed.node, victim + 1);
    rig_replay_check(rig);
    rig_free(rig);
}

static void test_silent_host_is_lost_within_5_s(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t victim = rig_node_of(rig, job, 1);
    rig->steps_stopped = true; /* the others wait for it */
    uint64_t at = rig->now_ms;
    /* the host goes dark: no FIN, beats just stop */
    rig->nodes[victim].agent_up = false;
    rig->nodes[victim].host_up = false;
    rig->nodes[victim].peer = RIG_PEER_NOTHING;
    while (rig_count(rig, RECORD_node_lost_kind) == 0 && rig->now_ms < at + 20000) {
        rig_run(rig, 10);
    }
    assert_true(rig->now_ms - at <= 5000);
    assert_int_equal(rig_last(rig, RECORD_node_lost_kind)->u.node_lost.node, victim + 1);
    rig->steps_stopped = false;
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    rig_free(rig);
}

static void test_agent_alone_killed_is_never_lost_while_steps_move(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t victim = rig_node_of(rig, job, 1);
    rig_kill_agent(rig, victim, RIG_PEER_REFUSED);
    rig_run(rig, 60000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig_connect(rig, victim);
    rig_run(rig, 2000);
    assert_int_equal(core_node(rig->core, victim + 1)->link, LINK_UP);
    rig_free(rig);
}

static void test_frozen_node_is_lost(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t victim = rig_node_of(rig, job, 1);
    uint64_t at = rig->now_ms;
    rig->steps_stopped = true;
    rig->nodes[victim].agent_up = false; /* SIGSTOP of agent and ranks: the session stays open */
    rig->nodes[victim].host_up = false;
    rig->nodes[victim].peer = RIG_PEER_SILENT;
    while (rig_count(rig, RECORD_node_lost_kind) == 0 && rig->now_ms < at + 20000) {
        rig_run(rig, 10);
    }
    assert_in_range(rig->now_ms - at, 3000, 7500);
    rig_free(rig);
}

static void test_rank_ends_and_the_attempt_restarts_in_place(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 500);
    uint32_t before[4];
    for (uint32_t i = 0; i < 4; i++) {
        before[i] = rig_node_of(rig, job, i);
    }
    rig_end_rank(rig, before[3], 1, RANK_SIGNALED, 9);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 50)); /* stop before blame */
    assert_int_equal(rig_count(rig, RECORD_verdict_kind), 0);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(rig_node_of(rig, job, i), before[i]);
    }
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    assert_int_equal(
        core_job(rig->core, job)->d.used_unknown + core_job(rig->core, job)->d.used_user, 1);
    rig_replay_check(rig);
    rig_free(rig);
}

static void test_drain_saves_first_and_loses_nothing(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 500);
    uint32_t leaving = rig_node_of(rig, job, 2);
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, rig->nodes[leaving].name, WHEN_CHECKPOINT), 0);
    rig_run(rig, 200);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    assert_true(core_job(rig->core, job)->d.stop_request);
    rig_run(rig, 1000);
    rig->steps_stopped = true;
    rig_run(rig, 1100);
    rig_save(rig, job, core_job(rig->core, job)->step);
    rig->steps_stopped = false;
    rig_end_all(rig, job, RANK_EXITED, 75);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1500));
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    const struct recovery *r = last_recovery(rig);
    assert_int_equal(r->d.cause, CAUSE_PLANNED);
    assert_int_equal(r->d.lost_steps, 0);
    assert_int_equal(r->d.moved_nodes, 1);
    bool star;
    assert_string_equal(core_node_state_word(rig->core, core_node(rig->core, leaving + 1), &star),
                        "drained");
    assert_int_equal(rig_nodes(rig, REQUEST_UNDRAIN, rig->nodes[leaving].name, 0), 0);
    rig_run(rig, 2000);
    assert_string_equal(core_node_role_word(rig->core, core_node(rig->core, leaving + 1)), "spare");
    rig_replay_check(rig);
    rig_free(rig);
}

static void test_controller_restart_in_every_phase(void **state)
{
    (void)state;
    for (uint8_t phase = PHASE_STOP; phase <= PHASE_FIRST_STEP; phase++) {
        uint32_t job;
        struct rig *rig = running(6, 4, &job);
        rig_run(rig, 500);
        rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
        if (!rig_until_phase(rig, job, phase, 4000)) {
            rig_free(rig); /* phases that pass within one step cannot be stopped in */
            continue;
        }
        rig_restart(rig, 500);
        assert_true(rig_until(rig, job, JOB_RUNNING, 30000));
        assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
        for (uint32_t i = 0; i < 4; i++) { /* nothing started twice: 2 ranks, 2 attempts */
            assert_int_equal(rig->starts[rig_node_of(rig, job, i)], 4);
        }
        rig_replay_check(rig);
        rig_free(rig);
    }
}

static void test_budget_counts_over_restarts(void **state) /* case A11 */
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    for (int i = 0; i < 3; i++) {
        /* never at the same step: that would be the job's own fault */
        rig_run(rig, 500 + 700 * (uint64_t)i);
        /* another node each time: twice the same would be the node's fault */
        rig_end_rank(rig, rig_node_of(rig, job, (uint32_t)i), 0, RANK_SIGNALED, 9);
        assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
        if (i < 2) {
            rig_restart(rig, 100);
            rig_run(rig, 2000);
        }
    }
    assert_int_equal(core_job(rig->core, job)->d.no_progress, 3);
    rig_run(rig, 3300);
    rig_end_rank(rig, rig_node_of(rig, job, 3), 0, RANK_SIGNALED, 9);
    /* ends that say nothing are nobody's fault, so a person is asked and the job does not fail */
    assert_true(rig_until(rig, job, JOB_HELD, 5000));
    assert_true(strstr(core_job(rig->core, job)->d.reason, "checkpoint") != NULL);
    rig_free(rig);
}

/* Hosts that die one after the other are no failure of the job; after ten of them without a
 * checkpoint in between somebody has to look. */
static void test_ten_hosts_may_die(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(18, 4, &job);
    for (uint32_t i = 0; i < 11; i++) {
        rig_run(rig, 1000 + 1000 * (uint64_t)i); /* never at the same step */
        assert_int_equal(core_job(rig->core, job)->d.no_progress, 0);
        assert_int_equal(core_job(rig->core, job)->d.other_no_progress, i);
        rig_kill_node(rig, rig_node_of(rig, job, i % 4), RIG_PEER_NOTHING);
        assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
        assert_true(rig_until(rig, job, i < 10 ? JOB_RUNNING : JOB_HELD, 20000));
    }
    assert_non_null(strstr(core_job(rig->core, job)->d.reason, "11 recoveries from faults around"));
    rig_replay_check(rig);
    rig_free(rig);
}

static void test_cancel_wins_in_every_phase(void **state)
{
    (void)state;
    for (uint8_t phase = PHASE_STOP; phase <= PHASE_FIRST_STEP; phase++) {
        uint32_t job;
        struct rig *rig = running(6, 4, &job);
        rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
        (void)rig_until_phase(rig, job, phase,
                              3000); /* or running again: cancel must win there too */
        assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
        assert_true(rig_until(rig, job, JOB_CANCELLED, 20000));
        rig_replay_check(rig);
        rig_free(rig);
    }
}

static void test_node_that_cannot_be_emptied_is_fenced_and_swapped(void **state) /* D1 */
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t stuck = rig_node_of(rig, job, 2);
    rig->nodes[stuck].ignore_stop = true;
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 100));
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    assert_int_not_equal(rig_node_of(rig, job, 2), stuck);
    assert_int_equal(core_mark_count(rig->core, stuck + 1), 1);
    rig->nodes[stuck].ignore_stop = false;
    rig_run(rig, 3000);
    assert_int_equal(core_mark_count(rig->core, stuck + 1), 0); /* proven empty: usable again */
    rig_free(rig);
}

static void test_no_spare_waits_and_goes_on(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(4, 4, &job);
    uint32_t victim = rig_node_of(rig, job, 1);
    rig_kill_node(rig, victim, RIG_PEER_REFUSED);
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    rig_run(rig, 10000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RECOVERING);
    assert_true(core_job(rig->core, job)->waiting_spare);
    rig->nodes[victim].host_up = true;
    rig->nodes[victim].incarnation++;
    text_copy(rig->nodes[victim].boot_id, BOOT_ID_SIZE, "99999999-0000-0000-0000-000000000000");
    rig_connect(rig, victim);
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    rig_free(rig);
}

static void say_fault(struct rig *rig, uint32_t node, uint8_t severity)
{
    struct message m = {.kind = MSG_FACT};
    struct fact *fact = &m.u.fact.fact;
    *fact = (struct fact){.source = FACT_PROBE,
                          .severity = severity,
                          .sequence = ++rig->nodes[node].fact_sequence,
                          .rank = -1,
                          .gpu = -1,
                          .port = -1,
                          .code = 48};
    text_copy(fact->text, TEXT_SIZE, "xid 48");
    rig_send(rig, node, &m);
}

/* A failure some steps after a save, where a job may lose so many; how many it loses. */
static uint64_t lose_steps(uint64_t max_lost, uint8_t *ret_state)
{
    struct rig *rig = rig_create(6, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    spec.max_lost = max_lost;
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    rig_run(rig, 3000);
    rig_save(rig, job, core_job(rig->core, job)->step);
    rig_run(rig, 2000);
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    rig_run(rig, 10000);
    *ret_state = core_job(rig->core, job)->d.state;
    const uint64_t lost = last_recovery(rig)->d.lost_steps;
    rig_free(rig);
    return lost;
}

/* As many as the job file allows are lost without a question; one more is asked about. */
static void test_as_many_steps_as_allowed_may_be_lost(void **state)
{
    (void)state;
    uint8_t then;
    const uint64_t lost = lose_steps(0, &then);
    assert_int_equal(then, JOB_RUNNING);
    assert_true(lost > 1);
    (void)lose_steps(lost, &then);
    assert_int_equal(then, JOB_RUNNING);
    (void)lose_steps(lost - 1, &then);
    assert_int_equal(then, JOB_HELD);
}

/* However long the recovery stands, first for a listing that does not come and then for a spare: one
 * fault is one strike. */
static void test_one_fault_is_one_strike(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    spec.reader = READER_KEEPSTEP;
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    uint32_t victim = rig_node_of(rig, job, 2);
    rig->save_silent = true;
    say_fault(rig, victim, 3);
    rig_run(rig, 10000);
    assert_int_equal(core_node(rig->core, victim + 1)->d.job, job);
    assert_int_equal(rig_count(rig, RECORD_strike_kind), 1);
    rig_run(rig, 60000);
    assert_true(core_job(rig->core, job)->waiting_spare);
    assert_int_equal(rig_count(rig, RECORD_strike_kind), 1);
    assert_int_equal(core_mark_count(rig->core, victim + 1), 1);
    rig_free(rig);
}

/* The job is cancelled before anybody is blamed: a node that is broken stays out, and one that only
 * said something does not. */
static void test_a_fault_outlives_a_cancelled_job(void **state)
{
    (void)state;
    for (uint8_t severity = 2; severity <= 3; severity++) {
        uint32_t job;
        struct rig *rig = running(4, 4, &job);
        uint32_t node = rig_node_of(rig, job, 2);
        say_fault(rig, node, severity);
        assert_int_equal(core_job(rig->core, job)->d.state, JOB_RECOVERING);
        assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
        assert_true(rig_until(rig, job, JOB_CANCELLED, 20000));
        assert_int_equal(core_mark_count(rig->core, node + 1), severity == 3 ? 1 : 0);
        rig_run(rig, 2000);
        assert_true(core_node_usable(rig->core, core_node(rig->core, node + 1)) == (severity == 2));
        rig_replay_check(rig);
        rig_free(rig);
    }
}

/* Cancelled in phase check, while an agent that was wrong about the end of the attempt before says
 * so: cancelled is said when its ranks are gone, or their node fenced. */
static void test_a_cancel_waits_for_ranks_that_turn_up(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    for (uint32_t i = 0; i < 6; i++) {
        rig->nodes[i].ignore_check = true;
    }
    rig_end_rank(rig, rig_node_of(rig, job, 2), 0, RANK_EXITED, 1);
    assert_true(rig_until_phase(rig, job, PHASE_CHECK, 10000));
    struct rig_node *node = &rig->nodes[rig_node_of(rig, job, 1)];
    node->ignore_stop = true;
    node->attempts[0].report.empty = false;
    node->attempts[0].report.ranks[0].state = RANK_RUNNING;
    rig_run(rig, 2000);
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
    rig_run(rig, 5000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_STOPPING);
    assert_true(rig_until(rig, job, JOB_CANCELLED, 60000));
    const uint32_t id = core_node_find(rig->core, node->name);
    assert_string_equal(core_mark(rig->core, id, 0)->d.code, "unproven");
    rig_replay_check(rig);
    rig_free(rig);
}

static void test_empty_store_stops_nobody(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig->record_count = 0; /* the database is gone */
    for (uint32_t i = 0; i < rig->node_count; i++) {
        rig->nodes[i].cluster_id[0] = '\0'; /* even where the cluster id does not protect */
    }
    rig_restart(rig, 100);
    rig_run(rig, 20000);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t running_ranks = 0;
        for (uint32_t n = 0; n < rig->node_count; n++) {
            for (uint32_t a = 0; a < rig->nodes[n].attempt_count; a++) {
                running_ranks += rig->nodes[n].attempts[a].report.ranks[0].state == RANK_RUNNING;
            }
        }
        assert_int_equal(running_ranks, 4);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_non_null(core_foreign_at(rig->core, i)); /* listed, for a person to adopt or stop */
    }
    rig_free(rig);
}

static void test_yesterdays_store_stops_nobody(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t yesterday = rig->record_count;
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    rig_run(rig, 50);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    uint32_t holder = rig_node_of(rig, job, 1);
    rig->record_count = yesterday;
    rig_restart(rig, 100);
    rig_run(rig, 20000);
    assert_true(core_held(rig->core));
    assert_int_equal(rig->nodes[holder].attempts[0].report.ranks[0].state, RANK_RUNNING);
    rig_free(rig);
}

static void test_a_bad_command_is_a_launch_error(void **state) /* E11 */
{
    (void)state;
    struct rig *rig = rig_create(6, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("bad", 4);
    rig->init_ms = 100000;
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until_phase(rig, job, PHASE_INITIALISE, 3000));
    rig_end_all(rig, job, RANK_EXITED, 127);
    assert_true(rig_until(rig, job, JOB_FAILED, 20000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 0);
    assert_int_equal(rig_count(rig, RECORD_blamed_kind), 0);
    rig_free(rig);
}

static void test_two_triggers_make_one_attempt(void **state) /* A19 */
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t victim = rig_node_of(rig, job, 1);
    rig_end_rank(rig, victim, 0, RANK_EXITED, 1);
    rig_nodes(rig, REQUEST_DRAIN, rig->nodes[victim].name, WHEN_NOW);
    rig_kill_node(rig, victim, RIG_PEER_NOTHING);
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    assert_int_equal(rig_count(rig, RECORD_attempt_made_kind), 2);
    rig_free(rig);
}

static void test_controller_stall_kills_nobody(void **state) /* B4 */
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig->now_ms += 40000; /* SIGSTOP of the controller: nothing arrives, then all at once */
    rig_run(rig, 10000);
    assert_int_equal(rig_count(rig, RECORD_node_lost_kind), 0);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RUNNING);
    rig_free(rig);
}

static void test_hang_is_found(void **state) /* B20 */
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 2000);
    rig->steps_stopped = true;
    rig_run(rig, 31500);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RECOVERING);
    assert_int_equal(last_recovery(rig)->d.cause, CAUSE_HANG);
    rig_free(rig);
}

/* Whoever says that it runs the attempt has heard its order: nothing is sent with every beat. */
static void test_an_order_is_said_once(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 2000);
    const uint32_t heard = rig->nodes[rig_node_of(rig, job, 2)].runs_heard;
    assert_true(heard > 0);
    rig_run(rig, 20000);
    assert_int_equal(rig->nodes[rig_node_of(rig, job, 2)].runs_heard, heard);
    rig_free(rig);
}

/* The end of a rank may be heard before any beat has told of its attempt. */
static void test_an_end_that_is_heard_first(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t node = rig_node_of(rig, job, 2);
    struct message m = {.kind = MSG_BEAT};
    m.u.beat.sequence = ++rig->nodes[node].beat;
    m.u.beat.sent_ms = rig->now_ms;
    m.u.beat.checks_ok = true;
    rig_send(rig, node, &m); /* it knows of nothing yet */
    m = (struct message){.kind = MSG_RANK_ENDS};
    m.u.rank_ends.sequence = 1;
    m.u.rank_ends.report = rig->nodes[node].attempts[0].report;
    m.u.rank_ends.report.ranks[1].state = RANK_EXITED;
    m.u.rank_ends.report.ranks[1].code = 3;
    rig_send(rig, node, &m);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RECOVERING);
    const struct record_fact_kept *fact = &rig_last(rig, RECORD_fact_kept_kind)->u.fact_kept;
    assert_int_equal(fact->rank, 5);
    assert_int_equal(fact->code, 3);
    rig_free(rig);
}

/* A beat of a node that says it runs attempt 0 of the job, and whether it has seen a stop. */
static void beat_of_stray(struct rig *rig, uint32_t node, uint32_t job, bool stop_seen)
{
    struct message m = {.kind = MSG_BEAT};
    struct attempt_report *report = &m.u.beat.attempts[0];
    m.u.beat.sequence = ++rig->nodes[node].beat;
    m.u.beat.sent_ms = rig->now_ms;
    m.u.beat.checks_ok = true;
    m.u.beat.attempt_count = 1;
    report->job = job;
    report->shim_alive = true;
    report->stop_seen = stop_seen;
    report->rank_count = RIG_RANKS;
    report->ranks[0].state = RANK_RUNNING;
    report->ranks[1].state = RANK_RUNNING;
    rig_send(rig, node, &m);
}

/* Ranks where none should run, and the order to stop them may be lost on its way: who does not know
 * of it is told with each beat, who does and takes its time is not. */
static void test_who_has_not_heard_the_stop_is_told_again(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    uint32_t stray = 0;
    while (core_node(rig->core, stray + 1)->d.job != 0) {
        stray++;
    }
    const uint32_t *heard = &rig->nodes[stray].stops_heard;
    for (uint32_t i = 1; i <= 3; i++) {
        beat_of_stray(rig, stray, job, false);
        assert_int_equal(*heard, i);
    }
    beat_of_stray(rig, stray, job, true); /* news: it may be that it asks for what to do */
    assert_int_equal(*heard, 4);
    beat_of_stray(rig, stray, job, true);
    beat_of_stray(rig, stray, job, true);
    assert_int_equal(*heard, 4);
    rig_free(rig);
}

static void test_late_commit_is_refused(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_save(rig, job, 5);
    uint32_t writer = rig_node_of(rig, job, 0);
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    rig_run(rig, 50);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    struct message m = {.kind = MSG_CHECKPOINT};
    m.u.checkpoint.kind = CHECKPOINT_COMMIT;
    m.u.checkpoint.job = job;
    m.u.checkpoint.attempt = 0;
    m.u.checkpoint.step = 9;
    rig_send(rig, writer, &m);
    const struct checkpoint *best = core_checkpoint_best(rig->core, core_job(rig->core, job));
    assert_int_equal(best->d.step, 5);
    rig_free(rig);
}

static void test_bad_spare_is_marked_and_the_next_taken(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    uint32_t victim = rig_node_of(rig, job, 1);
    for (uint32_t i = 0; i < 6; i++) {
        if (core_node(rig->core, i + 1)->d.job == 0) {
            rig->nodes[i].check_fails = true; /* one of the two */
            break;
        }
    }
    rig_kill_node(rig, victim, RIG_PEER_NOTHING);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 10000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_free(rig);
}

/* Whoever stays has been checked when it came in. The port alone is new. */
static void test_a_restart_in_place_asks_for_a_port_only(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(4, 4, &job);
    for (uint32_t slot = 1; slot < 4; slot++) {
        rig->nodes[rig_node_of(rig, job, slot)].check_fails = true;
    }
    rig->nodes[rig_node_of(rig, job, 0)].port_taken = true;
    const uint32_t ports = rig_count(rig, RECORD_port_chosen_kind);
    rig_end_rank(rig, rig_node_of(rig, job, 2), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    assert_int_equal(rig_count(rig, RECORD_port_chosen_kind), ports + 2);
    rig_free(rig);
}

static void test_port_in_use_takes_the_next(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 1);
    rig_connect_all(rig);
    for (uint32_t i = 0; i < 4; i++) {
        rig->nodes[i].port_taken = true;
    }
    struct job_spec spec = rig_spec("demo", 4);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    assert_int_equal(rig_count(rig, RECORD_port_chosen_kind), 2);
    rig_free(rig);
}

static void test_time_sums_to_wall(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, 4, &job);
    rig_run(rig, 1000);
    rig_save(rig, job, 5);
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    rig_run(rig, 50);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    rig_run(rig, 1000);
    rig_end_all(rig, job, RANK_EXITED, 0);
    assert_true(rig_until(rig, job, JOB_SUCCEEDED, 5000));
    const struct job *j = core_job(rig->core, job);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < time_kind_count; i++) {
        sum += j->d.time_ms[i];
    }
    assert_int_equal(sum, j->d.state_service_ms - j->d.submitted_service_ms);
    assert_true(j->d.time_ms[TIME_PRODUCTIVE] > 0 && j->d.time_ms[TIME_STOP] > 0);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_starts_and_succeeds),
        cmocka_unit_test(test_node_dies_and_a_spare_takes_its_slot),
        cmocka_unit_test(test_silent_host_is_lost_within_5_s),
        cmocka_unit_test(test_agent_alone_killed_is_never_lost_while_steps_move),
        cmocka_unit_test(test_frozen_node_is_lost),
        cmocka_unit_test(test_rank_ends_and_the_attempt_restarts_in_place),
        cmocka_unit_test(test_drain_saves_first_and_loses_nothing),
        cmocka_unit_test(test_controller_restart_in_every_phase),
        cmocka_unit_test(test_budget_counts_over_restarts),
        cmocka_unit_test(test_ten_hosts_may_die),
        cmocka_unit_test(test_cancel_wins_in_every_phase),
        cmocka_unit_test(test_node_that_cannot_be_emptied_is_fenced_and_swapped),
        cmocka_unit_test(test_no_spare_waits_and_goes_on),
        cmocka_unit_test(test_as_many_steps_as_allowed_may_be_lost),
        cmocka_unit_test(test_one_fault_is_one_strike),
        cmocka_unit_test(test_a_fault_outlives_a_cancelled_job),
        cmocka_unit_test(test_a_cancel_waits_for_ranks_that_turn_up),
        cmocka_unit_test(test_empty_store_stops_nobody),
        cmocka_unit_test(test_yesterdays_store_stops_nobody),
        cmocka_unit_test(test_a_bad_command_is_a_launch_error),
        cmocka_unit_test(test_two_triggers_make_one_attempt),
        cmocka_unit_test(test_controller_stall_kills_nobody),
        cmocka_unit_test(test_hang_is_found),
        cmocka_unit_test(test_an_order_is_said_once),
        cmocka_unit_test(test_an_end_that_is_heard_first),
        cmocka_unit_test(test_who_has_not_heard_the_stop_is_told_again),
        cmocka_unit_test(test_late_commit_is_refused),
        cmocka_unit_test(test_bad_spare_is_marked_and_the_next_taken),
        cmocka_unit_test(test_a_restart_in_place_asks_for_a_port_only),
        cmocka_unit_test(test_port_in_use_takes_the_next),
        cmocka_unit_test(test_time_sums_to_wall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
