/* saves_test.c: checkpoints that are found by looking: before a restore, while a job runs, and what
 * a person or the job file wants of single ones. */
#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"
#include "tests/lib/test.h"

enum { LISTED_AGAIN_MS = 16000 };

static struct rig *with_folder(uint8_t reader)
{
    struct rig *rig = rig_create(6, 1);
    rig->no_library = reader != READER_KEEPSTEP;
    rig_connect_all(rig);
    return rig;
}

static uint32_t submit(struct rig *rig, uint8_t reader)
{
    struct job_spec spec = rig_spec("demo", 4);
    spec.reader = reader;
    uint32_t job = rig_submit(rig, &spec);
    assert_int_not_equal(job, 0);
    return job;
}

static uint32_t running(struct rig *rig, uint8_t reader)
{
    uint32_t job = submit(rig, reader);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    return job;
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

static const struct checkpoint *of_step(const struct rig *rig, uint32_t job, uint64_t step)
{
    return core_checkpoint_of_step(rig->core, core_job(rig->core, job), step);
}

static void expect(const struct rig *rig, uint32_t job, uint64_t step, uint8_t state,
                   const char *note)
{
    const struct checkpoint *one = of_step(rig, job, step);
    assert_non_null(one);
    assert_string_equal(WORD(checkpoint_state, one->d.state), WORD(checkpoint_state, state));
    if (strstr(one->d.note, note) == NULL) {
        fail_msg("'%s' does not say '%s'", one->d.note, note);
    }
}

static uint64_t restored(const struct rig *rig, uint32_t job)
{
    return core_job(rig->core, job)->d.restore_step;
}

static void fail_a_rank(struct rig *rig, uint32_t job)
{
    rig_end_rank(rig, rig_node_of(rig, job, 0), 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
}

static void end(struct rig *rig)
{
    rig_replay_check(rig);
    rig_free(rig);
}

/* ---- found by looking ------------------------------------------------------------------------- */

static void test_a_first_start_takes_what_is_there(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MEGATRON);
    (void)rig_lay(rig, 100, 0);
    struct rig_save *newest = rig_lay(rig, 200, 0);
    newest->spoilt = true;
    text_copy(newest->text, TEXT_SIZE, "1 of 2 mp_rank_* folders have their weights");
    uint32_t job = running(rig, READER_MEGATRON);
    assert_int_equal(restored(rig, job), 100);
    assert_string_equal(rig->order.restore_directory, "/ckpt/step-100");
    expect(rig, job, 100, CKPT_COMPLETE, "");
    expect(rig, job, 200, CKPT_INCOMPLETE, "1 of 2 mp_rank_*");
    const struct recovery *start = last_recovery(rig);
    assert_int_equal(start->d.skipped, 1);
    assert_true(core_recovery_skipped(start, of_step(rig, job, 200)));
    assert_false(core_recovery_skipped(start, of_step(rig, job, 100)));
    end(rig);
}

/* A node that does not answer now would not answer this either. */
static void test_a_quiet_node_is_not_asked(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MEGATRON);
    (void)rig_lay(rig, 10, 0);
    rig_quiet(rig, 0, RIG_PEER_OK);
    rig_run(rig, 4000);
    assert_int_equal(core_node(rig->core, 1)->link, LINK_SUSPECT);
    assert_int_not_equal(core_node(rig->core, 1)->session, 0);
    uint32_t job = submit(rig, READER_MEGATRON);
    assert_true(rig_until_phase(rig, job, PHASE_LAUNCH, 2000));
    assert_int_equal(restored(rig, job), 10);
    end(rig);
}

/* Two attempts came as far as that: what the later one wrote has all that was mended since. */
static void test_of_one_step_the_later_attempt_is_taken(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    for (uint32_t attempt = 0; attempt < 3; attempt++) {
        (void)rig_lay(rig, 10, attempt);
    }
    uint32_t job = running(rig, READER_KEEPSTEP);
    assert_int_equal(restored(rig, job), 10);
    assert_int_equal(core_job(rig->core, job)->d.restore_attempt, 2);
    end(rig);
}

static void test_a_save_is_seen_while_it_runs(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MARKER);
    uint32_t job = running(rig, READER_MARKER);
    assert_int_equal(restored(rig, job), 0);
    struct rig_save *save = rig_lay(rig, 50, 0);
    save->spoilt = true; /* it is being written */
    rig_run(rig, LISTED_AGAIN_MS);
    expect(rig, job, 50, CKPT_INCOMPLETE, "");
    save->spoilt = false;
    save->hash[0] = 'f';
    save->written_ms = rig->now_ms;
    rig_run(rig, LISTED_AGAIN_MS);
    expect(rig, job, 50, CKPT_COMPLETE, "");
    uint64_t settled = core_job(rig->core, job)->d.time_ms[TIME_PRODUCTIVE];
    assert_true(settled > 0);
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 50);
    assert_string_equal(rig->order.restore_directory, "/ckpt/step-50");
    end(rig);
}

/* A save that ended after the last look is not lost: it is looked again before each restore. */
static void test_the_last_save_is_found_before_the_restore(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_TORCH_DCP);
    uint32_t job = running(rig, READER_TORCH_DCP);
    (void)rig_lay(rig, 70, 0);
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 70);
    end(rig);
}

static void test_what_changed_since_it_was_recorded_is_passed_over(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MARKER);
    (void)rig_lay(rig, 10, 0);
    struct rig_save *save = rig_lay(rig, 20, 0);
    uint32_t job = running(rig, READER_MARKER);
    assert_int_equal(restored(rig, job), 20);
    save->hash[0] = 'f'; /* a writer that nobody knows of */
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    expect(rig, job, 20, CKPT_SUSPECT, "sizes or times differ");
    assert_int_equal(last_recovery(rig)->d.skipped, 1);
    end(rig);
}

static void test_what_is_gone_is_passed_over(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MARKER);
    (void)rig_lay(rig, 10, 0);
    (void)rig_lay(rig, 20, 0);
    uint32_t job = running(rig, READER_MARKER);
    rig->save_count = 1;
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    expect(rig, job, 20, CKPT_INCOMPLETE, "its folder is gone");
    end(rig);
}

/* After a rollback the program writes the same folder again. */
static void test_a_folder_written_anew_is_a_new_checkpoint(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MARKER);
    (void)rig_lay(rig, 10, 0);
    struct rig_save *save = rig_lay(rig, 20, 0);
    uint32_t job = running(rig, READER_MARKER);
    save->spoilt = true;
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    save->spoilt = false;
    save->hash[0] = 'f';
    rig_run(rig, LISTED_AGAIN_MS);
    expect(rig, job, 20, CKPT_COMPLETE, "");
    assert_int_equal(of_step(rig, job, 20)->d.attempt, 1);
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 20);
    end(rig);
}

/* E1 for programs that do not use the library: two that end at once on one checkpoint spoil it. */
static void test_two_failures_at_load_without_the_library(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MEGATRON);
    (void)rig_lay(rig, 10, 0);
    uint32_t job = running(rig, READER_MEGATRON);
    (void)rig_lay(rig, 20, 0);
    rig_run(rig, 30 * 60 * 1000);
    expect(rig, job, 20, CKPT_COMPLETE, "");
    fail_a_rank(rig, job); /* of something else */
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_string_not_equal(rig_last(rig, RECORD_verdict_kind)->u.verdict.rule, "load-failed");
    assert_int_equal(restored(rig, job), 20);
    for (int i = 0; i < 2; i++) {
        fail_a_rank(rig, job);
        assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
        assert_string_equal(rig_last(rig, RECORD_verdict_kind)->u.verdict.rule, "load-failed");
    }
    assert_int_equal(restored(rig, job), 10);
    expect(rig, job, 20, CKPT_CORRUPT, "two attempts failed while loading it");
    end(rig);
}

/* A node that goes away while its ranks load says nothing about what they load. */
static void test_a_node_lost_at_load_spoils_nothing(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MEGATRON);
    (void)rig_lay(rig, 10, 0);
    uint32_t job = running(rig, READER_MEGATRON);
    (void)rig_lay(rig, 20, 0);
    rig_run(rig, 30 * 60 * 1000);
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    for (int i = 0; i < 2; i++) {
        rig_kill_node(rig, rig_node_of(rig, job, 1), RIG_PEER_NOTHING);
        assert_true(rig_until(rig, job, JOB_RECOVERING, 20000));
        assert_int_equal(core_job(rig->core, job)->d.restore_failures, 0);
        assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
        assert_int_equal(restored(rig, job), 20);
    }
    expect(rig, job, 20, CKPT_COMPLETE, "");
    end(rig);
}

/* ---- it cannot be seen ------------------------------------------------------------------------- */

static void test_a_folder_that_cannot_be_seen_holds_a_first_start(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MEGATRON);
    rig->save_error = -EIO;
    (void)rig_lay(rig, 100, 0);
    uint32_t job = submit(rig, READER_MEGATRON);
    assert_true(rig_until(rig, job, JOB_HELD, 60000));
    assert_non_null(strstr(core_job(rig->core, job)->d.reason, "storage is sick"));
    assert_int_equal(rig->listings, 2); /* on two nodes */
    rig->save_error = 0;
    assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 100);
    end(rig);
}

/* A person mends the folder of a held job: what a look saw half-way says nothing. */
static void test_a_look_is_forgotten_when_the_job_is_held(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    rig_save(rig, job, 10);
    rig->save_silent = true; /* the answer is on its way for long */
    assert_int_equal(rig_job(rig, REQUEST_HOLD, job), 0);
    for (uint32_t i = 0; i < 3000 && core_job(rig->core, job)->d.state != JOB_HELD; i++) {
        rig_run(rig, 100);
    }
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_HELD);
    assert_true(rig->listings > 1);
    assert_int_equal(core_job(rig->core, job)->saves.list.nonce, 0);
    end(rig);
}

static void test_silence_does_not_stop_a_recovery(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    rig_save(rig, job, 10);
    rig->save_silent = true;
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10); /* what was committed is known without looking */
    assert_non_null(strstr(core_job(rig->core, job)->saves.text, "no answer"));
    end(rig);
}

/* ---- told of by the library ---------------------------------------------------------------------- */

static struct rig_save *committed(struct rig *rig, uint32_t job, uint64_t step)
{
    rig_save(rig, job, step);
    struct rig_save *save = rig_lay(rig, step, core_job(rig->core, job)->d.attempt);
    text_copy(save->hash, HASH_TEXT_SIZE, of_step(rig, job, step)->d.hash);
    text_copy(save->directory, PATH_SIZE, of_step(rig, job, step)->d.directory);
    return save;
}

static void test_a_torn_one_is_passed_over_at_once(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    (void)committed(rig, job, 10);
    struct rig_save *torn = committed(rig, job, 20);
    torn->spoilt = true;
    text_copy(torn->text, TEXT_SIZE, "shard-00001.bin has 5 bytes, the manifest says 9");
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    expect(rig, job, 20, CKPT_CORRUPT, "shard-00001.bin has 5 bytes");
    assert_int_equal(last_recovery(rig)->d.skipped, 1);
    end(rig);
}

static void test_what_nobody_committed_is_never_taken(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    (void)committed(rig, job, 10);
    (void)rig_lay(rig, 900, 0); /* of a late writer: whole, and of this job */
    struct rig_save *other = committed(rig, job, 20);
    other->hash[0] = other->hash[0] == 'f' ? '0' : 'f'; /* a manifest in another's place */
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    assert_null(of_step(rig, job, 900));
    expect(rig, job, 20, CKPT_SUSPECT, "not the one that was committed");
    end(rig);
}

/* What a program commits without a manifest, or elsewhere, cannot be judged by looking. */
static void test_a_commit_without_a_manifest_stands(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    (void)committed(rig, job, 10);
    rig_save(rig, job, 20); /* nobody finds it */
    struct checkpoint *bare = (struct checkpoint *)(uintptr_t)of_step(rig, job, 20);
    bare->d.hash[0] = '\0';
    struct rig_save *seen = rig_lay(rig, 20, 0);
    seen->spoilt = true;
    text_copy(seen->text, TEXT_SIZE, "it has no manifest.json");
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 20);
    expect(rig, job, 20, CKPT_COMPLETE, "");
    rig_free(rig);
}

static void test_a_missing_one_of_the_library(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    (void)committed(rig, job, 10);
    rig_save(rig, job, 20); /* beside the other one, and gone */
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    expect(rig, job, 20, CKPT_INCOMPLETE, "its folder is gone");
    end(rig);
}

static void test_one_elsewhere_is_not_missed(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    struct rig_save *other = committed(rig, job, 10);
    text_copy(other->directory, PATH_SIZE, "/elsewhere/step-10.a-0");
    rig_save(rig, job, 20);
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 20);
    end(rig);
}

/* ---- all of them are gone ------------------------------------------------------------------- */

/* Of the library's format or another: all that is known is gone from where it was. */
static struct rig *with_nothing_left(uint8_t reader, uint32_t *ret_job)
{
    struct rig *rig = with_folder(reader);
    uint32_t job = running(rig, reader);
    text_copy(rig->save_place, PATH_SIZE, "/ckpt");
    if (reader == READER_KEEPSTEP) {
        (void)committed(rig, job, 10);
        (void)committed(rig, job, 20);
    } else {
        (void)rig_lay(rig, 10, 0);
        (void)rig_lay(rig, 20, 0);
        rig_run(rig, 20000); /* a look while it runs */
    }
    rig->listings = 0;
    *ret_job = job;
    return rig;
}

static void test_a_missing_mount_is_not_an_empty_folder(void **state)
{
    (void)state;
    const uint8_t readers[] = {READER_KEEPSTEP, READER_MARKER};
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        uint32_t job;
        struct rig *rig = with_nothing_left(readers[i], &job);
        struct rig_save kept[2] = {rig->saves[0], rig->saves[1]};
        rig->save_count = 0;
        fail_a_rank(rig, job);
        assert_true(rig_until(rig, job, JOB_HELD, 60000));
        assert_int_equal(rig->listings, 2); /* on two nodes */
        const char *reason = core_job(rig->core, job)->d.reason;
        assert_non_null(strstr(reason, "none of its checkpoints, up to step 20, is seen by "));
        assert_non_null(strstr(reason, "keepstep release demo"));
        for (uint32_t n = 1; n <= core_node_count(rig->core); n++) { /* no node is at fault */
            assert_int_equal(core_mark_count(rig->core, n), 0);
        }
        memcpy(rig->saves, kept, sizeof kept); /* mounted again */
        rig->save_count = 2;
        assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
        assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
        assert_int_equal(restored(rig, job), 20);
        end(rig);
    }
}

static void test_what_stays_away_is_given_up_by_a_person(void **state)
{
    (void)state;
    const uint8_t readers[] = {READER_KEEPSTEP, READER_MARKER};
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        uint32_t job;
        struct rig *rig = with_nothing_left(readers[i], &job);
        rig->save_count = 0;
        fail_a_rank(rig, job);
        assert_true(rig_until(rig, job, JOB_HELD, 60000));
        assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
        assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
        assert_int_equal(restored(rig, job), 0);
        expect(rig, job, 10, CKPT_INCOMPLETE, "its folder is gone");
        expect(rig, job, 20, CKPT_INCOMPLETE, "its folder is gone");
        end(rig);
    }
}

/* Something that is no checkpoint lies there still: that is no answer, and no new question. */
static void test_a_torn_leftover_does_not_hold_the_job_for_ever(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = with_nothing_left(READER_KEEPSTEP, &job);
    rig->save_count = 0;
    rig_lay(rig, 15, 7)->spoilt = true;
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_HELD, 60000));
    assert_non_null(strstr(core_job(rig->core, job)->d.reason, "none of its checkpoints"));
    assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 0);
    end(rig);
}

/* A commit without a manifest is never listed. Older than the rest it does not answer for them; newer
 * it is what is restored, and one look alone does not give the others up. */
static void test_one_that_is_never_listed_hides_nothing(void **state)
{
    (void)state;
    for (uint64_t bare = 5; bare <= 25; bare += 20) {
        struct rig *rig = with_folder(READER_KEEPSTEP);
        uint32_t job = running(rig, READER_KEEPSTEP);
        text_copy(rig->save_place, PATH_SIZE, "/ckpt");
        for (uint64_t step = 5; step <= bare; step += 5) {
            rig_save(rig, job, step);
        }
        if (bare == 5) {
            rig_save(rig, job, 10);
        }
        ((struct checkpoint *)(uintptr_t)of_step(rig, job, bare))->d.hash[0] = '\0';
        fail_a_rank(rig, job);
        assert_true(rig_until(rig, job, bare == 5 ? JOB_HELD : JOB_RUNNING, 60000));
        expect(rig, job, 10, CKPT_COMPLETE, "");
        if (bare == 25) {
            assert_int_equal(restored(rig, job), 25);
        }
        rig_free(rig); /* its journal knows the hash */
    }
}

/* A release answers the question that was asked, and no other. */
static void test_a_release_for_another_reason_gives_up_nothing(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = with_nothing_left(READER_KEEPSTEP, &job);
    assert_int_equal(rig_job(rig, REQUEST_HOLD, job), 0);
    assert_true(rig_until(rig, job, JOB_HELD, 300000));
    rig->save_count = 0;
    assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
    rig_run(rig, 30000);
    assert_int_equal(core_job(rig->core, job)->d.state, JOB_HELD);
    assert_non_null(strstr(core_job(rig->core, job)->d.reason, "none of its checkpoints"));
    assert_int_equal(rig_job(rig, REQUEST_RELEASE, job), 0);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 0);
    end(rig);
}

static void test_one_node_without_the_mount_is_not_believed(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = with_nothing_left(READER_KEEPSTEP, &job);
    rig->save_blind = rig_node_of(rig, job, 0) + 1; /* the first that is asked */
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(rig->listings, 2);
    assert_int_equal(restored(rig, job), 20);
    end(rig);
}

/* ---- parts ----------------------------------------------------------------------------------------- */

static void test_missing_parts_are_known(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    rig_lay(rig, 10, 0)->parts = PART_WEIGHTS;
    uint32_t job = running(rig, READER_KEEPSTEP);
    assert_int_equal(restored(rig, job), 10);
    assert_int_equal(last_recovery(rig)->d.parts, PART_WEIGHTS);
    assert_int_equal(rig_last(rig, RECORD_recovery_plan_kind)->event.severity, SEVERITY_WARN);
    end(rig);
}

/* ---- pins ------------------------------------------------------------------------------------------ */

static int32_t ask(struct rig *rig, uint8_t verb, uint32_t job, uint64_t step)
{
    struct request request = {.verb = verb, .job = job, .has_step = step != 0, .step = step};
    text_copy(request.reason, TEXT_SIZE, "before lr change");
    return rig_request(rig, &request);
}

static void test_pins(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    assert_int_equal(ask(rig, REQUEST_PIN, job, 0), -ENOENT);
    (void)committed(rig, job, 10);
    assert_int_equal(ask(rig, REQUEST_PIN, job, 11), -ENOENT);
    assert_int_equal(ask(rig, REQUEST_PIN, job, 0), 0);
    assert_string_equal(of_step(rig, job, 10)->d.pinned_by, "sre");
    assert_string_equal(of_step(rig, job, 10)->d.pinned_why, "before lr change");
    assert_int_equal(rig_count(rig, RECORD_checkpoint_pinned_kind), 1);
    assert_int_equal(ask(rig, REQUEST_PIN, job, 10), 0); /* again: nothing is to be done */
    assert_int_equal(rig_count(rig, RECORD_checkpoint_pinned_kind), 1);
    rig_restart(rig, 100);
    assert_string_equal(of_step(rig, job, 10)->d.pinned_by, "sre");
    assert_int_equal(ask(rig, REQUEST_UNPIN, job, 10), 0);
    assert_string_equal(of_step(rig, job, 10)->d.pinned_by, "");
    end(rig);
}

/* ---- verify ------------------------------------------------------------------------------------------ */

static void test_verify(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    (void)committed(rig, job, 10);
    struct rig_save *bad = committed(rig, job, 20);
    bad->corrupt = true;
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 10), 0);
    rig_run(rig, 50);
    expect(rig, job, 10, CKPT_VERIFIED, "all hashes read again on n-");
    assert_int_equal(core_job(rig->core, job)->saves.work.nonce, 0);
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 0), 0); /* the newest */
    rig_run(rig, 50);
    expect(rig, job, 20, CKPT_CORRUPT, "its hash is wrong");
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    end(rig);
}

static void test_a_verification_that_finds_nothing_out(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    (void)committed(rig, job, 10);
    rig->save_silent = true;
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 10), 0);
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 10), -EBUSY);
    assert_int_equal(core_job(rig->core, job)->saves.work.step, 10);
    rig_run(rig, 65000);
    expect(rig, job, 10, CKPT_COMPLETE, "could not be verified");
    assert_int_equal(core_job(rig->core, job)->saves.work.nonce, 0);
    rig->save_silent = false;
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 10), 0);
    rig_run(rig, 50);
    expect(rig, job, 10, CKPT_VERIFIED, "");
    end(rig);
}

static void test_verify_needs_hashes(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_MEGATRON);
    (void)rig_lay(rig, 10, 0);
    uint32_t job = running(rig, READER_MEGATRON);
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 10), -EINVAL);
    assert_non_null(strstr(rig->reply_text, "megatron have no hashes"));
    end(rig);
}

/* It says so, whether there is a hash of it already or not, and asks nobody to read it. */
static void test_what_is_not_whole_is_not_verified(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    struct message m = {.kind = MSG_CHECKPOINT};
    m.u.checkpoint = (struct msg_checkpoint){.kind = CHECKPOINT_BEGIN, .job = job, .step = 10};
    rig_send(rig, rig_node_of(rig, job, 0), &m);
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 10), -EBUSY);
    assert_non_null(strstr(rig->reply_text, "step 10 is writing: there is nothing to verify"));
    text_copy(m.u.checkpoint.hash, HASH_TEXT_SIZE, "0123456789abcdef0123456789abcdef");
    m.u.checkpoint.step = 20;
    rig_send(rig, rig_node_of(rig, job, 0), &m);
    assert_int_equal(ask(rig, REQUEST_VERIFY, job, 20), -EBUSY);
    assert_non_null(strstr(rig->reply_text, "step 20 is writing: there is nothing to verify"));
    assert_int_equal(rig->errands, 0);
    assert_int_equal(core_job(rig->core, job)->saves.work.nonce, 0);
    end(rig);
}

/* ---- what the job file keeps --------------------------------------------------------------------------- */

static uint32_t keeping(struct rig *rig, uint32_t last)
{
    struct job_spec spec = rig_spec("demo", 4);
    spec.reader = READER_KEEPSTEP;
    spec.keep_last = last;
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    return job;
}

static void test_nothing_is_removed_unless_asked(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = running(rig, READER_KEEPSTEP);
    for (uint64_t step = 10; step <= 60; step += 10) {
        (void)committed(rig, job, step);
        rig_run(rig, 200);
    }
    assert_int_equal(rig->errands, 0);
    assert_int_equal(rig->save_count, 6);
    end(rig);
}

static void test_the_newest_and_the_pinned_stay(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = keeping(rig, 2);
    for (uint64_t step = 10; step <= 20; step += 10) {
        (void)committed(rig, job, step);
        rig_run(rig, 200);
    }
    assert_int_equal(rig->errands, 0); /* two are kept */
    assert_int_equal(ask(rig, REQUEST_PIN, job, 10), 0);
    for (uint64_t step = 30; step <= 60; step += 10) {
        (void)committed(rig, job, step);
        rig_run(rig, 200);
    }
    assert_int_equal(rig_count(rig, RECORD_checkpoint_removed_kind), 3);
    assert_null(of_step(rig, job, 20));
    assert_null(of_step(rig, job, 40));
    expect(rig, job, 10, CKPT_COMPLETE, "");
    expect(rig, job, 50, CKPT_COMPLETE, "");
    expect(rig, job, 60, CKPT_COMPLETE, "");
    assert_int_equal(rig->save_count, 3);
    assert_string_equal(rig->save_ask.job_name, "demo");
    assert_int_equal(strlen(rig->save_ask.hash), HASH_TEXT_SIZE - 1);
    end(rig);
}

static void test_the_one_that_was_restored_stays(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = keeping(rig, 1);
    (void)committed(rig, job, 10);
    fail_a_rank(rig, job);
    assert_true(rig_until(rig, job, JOB_RUNNING, 60000));
    assert_int_equal(restored(rig, job), 10);
    (void)committed(rig, job, 20);
    (void)committed(rig, job, 30);
    rig_run(rig, 500);
    expect(rig, job, 10, CKPT_COMPLETE, "");
    assert_null(of_step(rig, job, 20));
    end(rig);
}

static void test_a_removal_that_fails_is_not_repeated(void **state)
{
    (void)state;
    struct rig *rig = with_folder(READER_KEEPSTEP);
    uint32_t job = keeping(rig, 1);
    (void)committed(rig, job, 10);
    rig->save_error = -EACCES;
    (void)committed(rig, job, 20);
    rig_run(rig, 3000);
    assert_int_equal(rig->errands, 1);
    expect(rig, job, 10, CKPT_COMPLETE, "could not be removed: storage is sick");
    end(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_first_start_takes_what_is_there),
        cmocka_unit_test(test_a_quiet_node_is_not_asked),
        cmocka_unit_test(test_of_one_step_the_later_attempt_is_taken),
        cmocka_unit_test(test_a_save_is_seen_while_it_runs),
        cmocka_unit_test(test_the_last_save_is_found_before_the_restore),
        cmocka_unit_test(test_what_changed_since_it_was_recorded_is_passed_over),
        cmocka_unit_test(test_what_is_gone_is_passed_over),
        cmocka_unit_test(test_a_folder_written_anew_is_a_new_checkpoint),
        cmocka_unit_test(test_two_failures_at_load_without_the_library),
        cmocka_unit_test(test_a_node_lost_at_load_spoils_nothing),
        cmocka_unit_test(test_a_folder_that_cannot_be_seen_holds_a_first_start),
        cmocka_unit_test(test_a_look_is_forgotten_when_the_job_is_held),
        cmocka_unit_test(test_a_missing_mount_is_not_an_empty_folder),
        cmocka_unit_test(test_what_stays_away_is_given_up_by_a_person),
        cmocka_unit_test(test_a_torn_leftover_does_not_hold_the_job_for_ever),
        cmocka_unit_test(test_one_that_is_never_listed_hides_nothing),
        cmocka_unit_test(test_a_release_for_another_reason_gives_up_nothing),
        cmocka_unit_test(test_one_node_without_the_mount_is_not_believed),
        cmocka_unit_test(test_silence_does_not_stop_a_recovery),
        cmocka_unit_test(test_a_torn_one_is_passed_over_at_once),
        cmocka_unit_test(test_what_nobody_committed_is_never_taken),
        cmocka_unit_test(test_a_commit_without_a_manifest_stands),
        cmocka_unit_test(test_a_missing_one_of_the_library),
        cmocka_unit_test(test_one_elsewhere_is_not_missed),
        cmocka_unit_test(test_missing_parts_are_known),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_a_verification_that_finds_nothing_out),
        cmocka_unit_test(test_verify_needs_hashes),
        cmocka_unit_test(test_what_is_not_whole_is_not_verified),
        cmocka_unit_test(test_nothing_is_removed_unless_asked),
        cmocka_unit_test(test_the_newest_and_the_pinned_stay),
        cmocka_unit_test(test_the_one_that_was_restored_stays),
        cmocka_unit_test(test_a_removal_that_fails_is_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
