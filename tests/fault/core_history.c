/* core_history.c: see the header. */
#include "tests/fault/core_history.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { NODES = 6, SLOTS = 3 };

static const struct core_limits limits = {
    .agents = 16,
    .jobs = 4,
    .slots = 16,
    .incidents = 32,
    .facts = 128,
    .recoveries = 32,
    .checkpoints = 64,
    .foreign = 16,
    .pending_records = 10000,
};

/* ---- deciding ------------------------------------------------------------------------------ */

static void decide(struct rig *rig)
{
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("llama", SLOTS);
    uint32_t job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, job, JOB_RUNNING, 5000));
    rig_run(rig, 2000);
    rig_save(rig, job, 10);
    rig_run(rig, 500);
    rig_kill_node(rig, rig_node_of(rig, job, 2), RIG_PEER_REFUSED);
    uint32_t kept = rig_node_of(rig, job, 0);
    rig_end_rank(rig, kept, 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 15000));
    rig_run(rig, 1000);
    rig_end_rank(rig, kept, 1, RANK_EXITED, 75);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 15000));
    assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
    rig_run(rig, 3000);
}

static struct core *empty_core(const struct history *history)
{
    struct core *core = NULL;
    assert_int_equal(core_create(&history->rig->limits, &history->rig->config, 99, &core), 0);
    return core;
}

struct history *history_create(void)
{
    struct history *history = mem_alloc(1, sizeof(*history));
    const struct core_config config = {0};
    history->rig = rig_create_with(NODES, 1, &limits, &config);
    decide(history->rig);
    const struct rig *rig = history->rig;
    history->commits = rig->commit_count;
    history->digests = mem_alloc(history->commits + 1, sizeof(*history->digests));
    struct core *core = empty_core(history);
    history->digests[0] = core_digest(core);
    uint32_t record = 0;
    for (uint32_t commit = 0; commit < history->commits; commit++) {
        for (; record < rig->commit_ends[commit]; record++) {
            assert_int_equal(core_replay(core, &rig->records[record], NULL), 0);
        }
        history->digests[commit + 1] = core_digest(core);
    }
    assert_true(core_digest(core) == core_digest(rig->core));
    (void)core_free(core);
    history_snapshot_at(history, history->commits * 3 / 4);
    return history;
}

void history_snapshot_at(struct history *history, uint32_t commits)
{
    (void)core_free(history->snapshot);
    history->snapshot = empty_core(history);
    history->snapshot_at = commits;
    for (uint32_t i = 0; commits > 0 && i < history->rig->commit_ends[commits - 1]; i++) {
        assert_int_equal(core_replay(history->snapshot, &history->rig->records[i], NULL), 0);
    }
}

struct history *history_free(struct history *history)
{
    if (history != NULL) {
        (void)core_free(history->snapshot);
        (void)mem_free(history->digests);
        (void)rig_free(history->rig);
    }
    return mem_free(history);
}

/* ---- writing ------------------------------------------------------------------------------- */

int history_append(const struct history *history, struct store *store, uint32_t commit,
                   uint64_t *ret_ticket, struct err *err)
{
    const uint32_t *ends = history->rig->commit_ends;
    uint32_t first = commit > 0 ? ends[commit - 1] : 0;
    return store_append(store, &history->rig->records[first], ends[commit] - first, ret_ticket,
                        NULL, err);
}

int history_append_snapshot(const struct history *history, struct store *store,
                            uint64_t *ret_ticket, struct err *err)
{
    store_snapshot_begin(store);
    int walk = core_snapshot(history->snapshot, store_snapshot_add, store);
    return store_snapshot_end(store, walk, ret_ticket, err);
}

/* ---- reading back -------------------------------------------------------------------------- */

struct folding {
    struct core *core;
    uint64_t facts;
    struct err *err;
};

static int fold_one(const struct record *record, void *context)
{
    struct folding *folding = context;
    folding->facts += record->kind < RECORD_FIRST_IMAGE ? 1 : 0;
    return core_replay(folding->core, record, folding->err);
}

static int no_bad_rows(const struct store_bad *bad, void *context)
{
    struct folding *folding = context;
    return err_set(folding->err, -EUCLEAN, "record %llu (%s): %s",
                   (unsigned long long)bad->sequence, bad->kind, bad->reason);
}

int history_fold(const struct history *history, struct store *store, uint64_t from,
                 uint64_t *ret_digest, uint64_t *ret_facts, struct err *err)
{
    struct folding folding = {.core = empty_core(history), .err = err};
    struct store_visitor visitor = {fold_one, no_bad_rows, &folding};
    int code = store_replay(store, from, &visitor, NULL, err);
    if (code == 0) {
        core_check(folding.core);
        *ret_digest = core_digest(folding.core);
        *ret_facts = folding.facts;
    }
    (void)core_free(folding.core);
    return code;
}

static int judge_fold(const struct history *history, struct store *store, uint32_t *ret_commits,
                      struct err *err)
{
    const uint32_t *ends = history->rig->commit_ends;
    uint64_t digest = 0;
    uint64_t from_snapshot = 0;
    uint64_t facts = 0;
    uint64_t later = 0;
    int code = history_fold(history, store, 1, &digest, &facts, err);
    code = code == 0 ? history_fold(history, store, 0, &from_snapshot, &later, err) : code;
    if (code < 0) {
        return code;
    }
    uint32_t commits = 0;
    while (commits < history->commits && ends[commits] <= facts) {
        commits++;
    }
    if ((commits > 0 ? ends[commits - 1] : 0) != facts) {
        return err_set(err, -EUCLEAN, "half a commit: %llu records", (unsigned long long)facts);
    }
    if (digest != history->digests[commits] || from_snapshot != digest) {
        return err_set(err, -EUCLEAN, "after %u commits the fold is another", commits);
    }
    *ret_commits = commits;
    return 0;
}

const char *history_judge(const struct history *history, const struct folder *folder,
                          uint32_t least, uint32_t *ret_commits, struct err *reason)
{
    struct store *store = NULL;
    int code = store_open(folder->database, STORE_CREATE, NULL, &store, reason);
    if (code < 0) {
        return reason->text;
    }
    *ret_commits = 0;
    code = judge_fold(history, store, ret_commits, reason);
    if (code == 0 && *ret_commits < least) {
        code = err_set(reason, -ENODATA, "%u commits were acknowledged, %u are there", least,
                       *ret_commits);
    }
    (void)store_close(store, HELP_WAIT_MS, NULL); /* nothing was appended */
    if (code == 0) {
        int64_t damaged = number_of(
            folder, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'");
        code = damaged > 0 ? err_set(reason, -EUCLEAN, "integrity_check finds damage") : 0;
    }
    return code < 0 ? reason->text : NULL;
}

void history_go_on(const struct history *history, const struct folder *folder, uint32_t commits)
{
    struct err err = {0};
    struct store *store = open_store(folder, STORE_READ_WRITE, NULL);
    for (; commits < history->commits; commits++) {
        assert_int_equal(history_append(history, store, commits, NULL, &err), 0);
    }
    close_store(store);
    const char *wrong = history_judge(history, folder, history->commits, &commits, &err);
    if (wrong != NULL) {
        fail_msg("after going on: %s", wrong);
    }
    char *before = dump_of(folder, NULL);
    close_store(open_store(folder, STORE_REBUILD, NULL));
    char *after = dump_of(folder, NULL);
    assert_string_equal(after, before);
    (void)mem_free(before);
    (void)mem_free(after);
}

/* ---- how much ------------------------------------------------------------------------------ */

#if defined(__has_feature)
#define HAS(feature) __has_feature(feature)
#else
#define HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || HAS(thread_sanitizer) || defined(__SANITIZE_ADDRESS__) ||      \
    HAS(address_sanitizer)
static const uint64_t visits = VISITS_SANITIZED;
#else
static const uint64_t visits = VISITS;
#endif

uint64_t history_stride(uint64_t points)
{
    const char *all = getenv("KEEPSTEP_TEST_ALL");
    return (all != NULL && text_equal(all, "1")) || points <= visits ? 1 : points / visits;
}
