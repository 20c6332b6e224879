/* checkpoint_test.c: what ranks tell of their saves is answered, each message once and truly: a rank
 * whose save was refused must not believe that it was kept, and one that hears nothing waits. */
#include "tests/lib/test.h"

#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { SLOTS = 4, NODES = 6 };

static struct rig *running(uint32_t *ret_job)
{
    struct rig *rig = rig_create(NODES, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", SLOTS);
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    return rig;
}

static void end(struct rig *rig)
{
    rig_replay_check(rig);
    (void)rig_free(rig);
}

/* A word of the rank that is the first of its slot; who holds it sends it. */
static struct msg_checkpoint word(const struct rig *rig, uint32_t job, uint8_t kind, uint64_t step,
                                  uint32_t rank)
{
    struct msg_checkpoint u = {.kind = kind,
                               .job = job,
                               .attempt = core_job(rig->core, job)->d.attempt,
                               .step = step,
                               .rank = rank,
                               .sequence = 100 + step,
                               .shard_count = SLOTS * RIG_RANKS};
    text_format(u.directory, PATH_SIZE, "/ckpt/step-%llu", (unsigned long long)step);
    return u;
}

/* Sends it from that node; the answer has to name what was sent. */
static void tell(struct rig *rig, uint32_t node, const struct msg_checkpoint *u, bool accepted,
                 const char *text)
{
    struct message message = {.kind = MSG_CHECKPOINT, .u.checkpoint = *u};
    uint32_t before = rig->save_answers;
    rig_send(rig, node, &message);
    assert_int_equal(rig->save_answers, before + 1);
    assert_int_equal(rig->save_answer_node, node);
    const struct msg_checkpoint_answer *said = &rig->save_answer;
    assert_int_equal(said->sequence, u->sequence);
    assert_int_equal(said->job, u->job);
    assert_int_equal(said->attempt, u->attempt);
    assert_int_equal(said->step, u->step);
    assert_int_equal(said->rank, u->rank);
    assert_int_equal(said->kind, u->kind);
    assert_int_equal(said->accepted, accepted);
    assert_string_equal(said->text, text);
}

static void tell_own(struct rig *rig, const struct msg_checkpoint *u, bool accepted,
                     const char *text)
{
    tell(rig, rig_node_of(rig, u->job, u->rank / RIG_RANKS), u, accepted, text);
}

static const struct checkpoint *of_step(const struct rig *rig, uint32_t job, uint64_t step)
{
    return core_checkpoint_find(rig->core, job, core_job(rig->core, job)->d.attempt, step);
}

static void test_each_word_is_answered(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    struct msg_checkpoint begin = word(rig, job, CHECKPOINT_BEGIN, 10, 0);
    tell_own(rig, &begin, true, "");
    assert_int_equal(of_step(rig, job, 10)->d.state, CKPT_WRITING);
    tell_own(rig, &begin, true, ""); /* as after a lost answer: nothing begins twice */
    for (uint32_t rank = 0; rank < SLOTS * RIG_RANKS; rank++) {
        struct msg_checkpoint shard = word(rig, job, CHECKPOINT_SHARD, 10, rank);
        shard.stall_ms = 300 - rank;
        tell_own(rig, &shard, true, "");
    }
    assert_int_equal(of_step(rig, job, 10)->shards_seen, SLOTS * RIG_RANKS);
    rig_run(rig, 700);
    struct msg_checkpoint commit = word(rig, job, CHECKPOINT_COMMIT, 10, 0);
    commit.stall_ms = 20; /* of this rank; the longest of all counts */
    commit.bytes = 12345;
    tell_own(rig, &commit, true, "");
    const struct record_image_checkpoint *d = &of_step(rig, job, 10)->d;
    assert_int_equal(d->state, CKPT_COMPLETE);
    assert_int_equal(d->stall_ms, 300);
    assert_int_equal(d->took_ms, 700);
    assert_int_equal(d->bytes, 12345);
    uint32_t moved = rig_count(rig, RECORD_checkpoint_moved_kind);
    tell_own(rig, &commit, true, ""); /* again: kept as it is */
    assert_int_equal(rig_count(rig, RECORD_checkpoint_moved_kind), moved);
    end(rig);
}

static void test_a_shard_after_the_commit_changes_nothing(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    rig_save(rig, job, 10);
    struct msg_checkpoint shard = word(rig, job, CHECKPOINT_SHARD, 10, 3);
    shard.stall_ms = 5000;
    tell_own(rig, &shard, true, "");
    assert_int_equal(of_step(rig, job, 10)->shards_seen, 0);
    assert_int_equal(of_step(rig, job, 10)->stall_ms, 0);
    end(rig);
}

static void test_only_its_own_rank_may_speak(void **state)
{
    (void)state;
    static const char *const no_rank = "this node does not hold that rank";
    uint32_t job;
    struct rig *rig = running(&job);
    struct msg_checkpoint shard = word(rig, job, CHECKPOINT_SHARD, 10, 2);
    uint32_t holder = rig_node_of(rig, job, 1);
    tell(rig, holder, &shard, true, "");
    shard.rank = 1; /* the last of the slot before, and the first of the next */
    tell(rig, holder, &shard, false, no_rank);
    shard.rank = 4;
    tell(rig, holder, &shard, false, no_rank);
    shard.rank = 3;
    tell(rig, holder, &shard, true, "");
    uint32_t spare = 0;
    while (core_node(rig->core, spare + 1)->d.job != 0) {
        spare++;
    }
    shard.rank = 0;
    tell(rig, spare, &shard, false, no_rank);
    struct msg_checkpoint commit = word(rig, job, CHECKPOINT_COMMIT, 10, 2);
    tell(rig, holder, &commit, false, "only rank 0 commits");
    assert_null(of_step(rig, job, 10));
    shard.job = job + 1;
    tell(rig, holder, &shard, false, "no such job is at work here");
    end(rig);
}

static void test_who_is_late_is_told_so(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    struct msg_checkpoint begin = word(rig, job, CHECKPOINT_BEGIN, 10, 0);
    tell_own(rig, &begin, true, "");
    struct msg_checkpoint late = word(rig, job, CHECKPOINT_COMMIT, 10, 0);
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    assert_true(rig_until_phase(rig, job, PHASE_CHECK, 10000) ||
                core_job(rig->core, job)->d.attempt == 1);
    rig_run(rig, 20);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    tell_own(rig, &late, false, "its attempt is over");
    assert_int_equal(core_checkpoint_find(rig->core, job, 0, 10)->d.state, CKPT_INCOMPLETE);
    struct msg_checkpoint early = word(rig, job, CHECKPOINT_BEGIN, 10, 0);
    early.attempt = 2; /* nobody may run that yet */
    tell_own(rig, &early, false, "its attempt is over");
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    uint32_t writer = rig_node_of(rig, job, 0);
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
    assert_true(rig_until(rig, job, JOB_CANCELLED, 20000));
    early.attempt = 1;
    tell(rig, writer, &early, false, "no such job is at work here");
    end(rig);
}

/* The stop is ordered, and the writer is quicker: what it has written whole is not thrown away. */
static void test_a_commit_counts_until_the_next_attempt(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(&job);
    struct msg_checkpoint begin = word(rig, job, CHECKPOINT_BEGIN, 10, 0);
    tell_own(rig, &begin, true, "");
    rig_end_rank(rig, rig_node_of(rig, job, 1), 0, RANK_EXITED, 1);
    rig_run(rig, 10);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_RECOVERING);
    struct msg_checkpoint commit = word(rig, job, CHECKPOINT_COMMIT, 10, 0);
    tell_own(rig, &commit, true, "");
    assert_true(rig_until(rig, job, JOB_RUNNING, 10000));
    assert_int_equal(core_job(rig->core, job)->d.restore_step, 10);
    end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_word_is_answered),
        cmocka_unit_test(test_a_shard_after_the_commit_changes_nothing),
        cmocka_unit_test(test_only_its_own_rank_may_speak),
        cmocka_unit_test(test_who_is_late_is_told_so),
        cmocka_unit_test(test_a_commit_counts_until_the_next_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
