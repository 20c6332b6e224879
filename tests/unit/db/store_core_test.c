/* store_core_test.c: the real core's records through the real store: what comes back folds to the
 * same state, from a snapshot too, and the tables say what the core says. */
#include "tests/unit/db/db_help.h"

#include <errno.h>
#include <string.h>

#include "controller/core/state.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { JOB_SLOTS = 4 };

struct bench {
    struct folder folder;
    struct store *store;
    struct rig *rig;
    uint32_t job;
    uint32_t stored; /* of the rig's records */
};

static void store_rest(struct bench *bench)
{
    struct rig *rig = bench->rig;
    struct err err = {0};
    while (bench->stored < rig->record_count) {
        if (store_append(bench->store, &rig->records[bench->stored], 1, NULL, NULL, &err) < 0) {
            fail_msg("%s", err.text);
        }
        bench->stored++;
    }
    assert_int_equal(store_append_sync(bench->store, NULL, 0, HELP_WAIT_MS, &err), 0);
}

/* A job runs, saves, loses a node, is drained of another and loses a rank. */
static void live(struct bench *bench)
{
    struct rig *rig = bench->rig;
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("llama", JOB_SLOTS);
    bench->job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, bench->job, JOB_RUNNING, 5000));
    rig_run(rig, 2000);
    rig_save(rig, bench->job, 10);
    rig_run(rig, 1000);
    uint32_t kept = rig_node_of(rig, bench->job, 0);
    rig_kill_node(rig, rig_node_of(rig, bench->job, 2), RIG_PEER_REFUSED);
    rig_end_rank(rig, kept, 0, RANK_EXITED, 1);
    assert_true(rig_until(rig, bench->job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, bench->job, JOB_RUNNING, 15000));
    rig_run(rig, 3000);
    rig_end_rank(rig, kept, 1, RANK_EXITED, 75);
    assert_true(rig_until(rig, bench->job, JOB_RECOVERING, 1000));
    assert_true(rig_until(rig, bench->job, JOB_RUNNING, 15000));
    rig_run(rig, 2000);
}

static int bench_up(void **state)
{
    struct bench *bench = mem_alloc(1, sizeof(*bench));
    folder_make_fast(&bench->folder);
    bench->store = open_store(&bench->folder, STORE_CREATE, NULL);
    bench->rig = rig_create(8, 1);
    live(bench);
    store_rest(bench);
    *state = bench;
    return 0;
}

static int bench_down(void **state)
{
    struct bench *bench = *state;
    close_store(bench->store);
    folder_remove(&bench->folder);
    (void)rig_free(bench->rig);
    (void)mem_free(bench);
    return 0;
}

/* ---- replay -------------------------------------------------------------------------------- */

struct folding {
    struct core *core;
    uint32_t quarantined;
};

/* What a driver does: a record of a job that was set aside, and does not fit any more, is passed
 * over. */
static int fold(const struct record *record, void *context)
{
    struct folding *folding = context;
    struct err err = {0};
    int code = core_replay(folding->core, record, &err);
    if (code == -EINVAL && record->job != 0 && record->job == folding->quarantined) {
        return 0;
    }
    if (code < 0) {
        print_message("record %llu: %s\n", (unsigned long long)record->sequence, err.text);
    }
    return code;
}

static int set_aside(const struct store_bad *bad, void *context)
{
    struct folding *folding = context;
    if (bad->job == 0) {
        return -EBADMSG;
    }
    folding->quarantined = bad->job;
    core_quarantine(folding->core, bad->job);
    return 0;
}

static struct core *replayed(struct bench *bench, uint64_t from, struct store_replayed *ret_how,
                             uint32_t *ret_quarantined)
{
    struct folding folding = {0};
    struct err err = {0};
    assert_int_equal(core_create(&bench->rig->limits, &bench->rig->config, 99, &folding.core), 0);
    struct store_visitor visitor = {fold, set_aside, &folding};
    if (store_replay(bench->store, from, &visitor, ret_how, &err) < 0) {
        fail_msg("%s", err.text);
    }
    core_check(folding.core);
    if (ret_quarantined != NULL) {
        *ret_quarantined = folding.quarantined;
    }
    return folding.core;
}

static void restart_store(struct bench *bench, const char *change)
{
    close_store(bench->store);
    if (change != NULL) {
        change_file(&bench->folder, change);
    }
    bench->store = open_store(&bench->folder, STORE_READ_WRITE, NULL);
}

static void the_state_comes_back(void **state)
{
    struct bench *bench = *state;
    restart_store(bench, NULL);
    struct store_replayed how;
    struct core *core = replayed(bench, 0, &how, NULL);
    assert_false(how.from_snapshot);
    assert_int_equal(how.records, bench->rig->record_count);
    assert_true(core_digest(core) == core_digest(bench->rig->core));
    (void)core_free(core);
}

static void and_from_a_snapshot(void **state)
{
    struct bench *bench = *state;
    uint64_t ticket = 0;
    store_snapshot_begin(bench->store);
    int walk = core_snapshot(bench->rig->core, store_snapshot_add, bench->store);
    assert_int_equal(store_snapshot_end(bench->store, walk, &ticket, NULL), 0);
    uint32_t before = bench->rig->record_count;
    assert_int_equal(rig_job(bench->rig, REQUEST_CANCEL, bench->job), 0);
    rig_run(bench->rig, 3000);
    assert_true(bench->rig->record_count > before);
    store_rest(bench);
    restart_store(bench, NULL);
    struct store_replayed how;
    struct core *core = replayed(bench, 0, &how, NULL);
    assert_true(how.from_snapshot);
    assert_true(core_digest(core) == core_digest(bench->rig->core));
    (void)core_free(core);
    core = replayed(bench, 1, &how, NULL); /* and still from the very beginning */
    assert_true(core_digest(core) == core_digest(bench->rig->core));
    (void)core_free(core);
}

/* One row of a job is in pieces: the controller starts, with that job set aside. */
static void a_bad_row_sets_its_job_aside(void **state)
{
    struct bench *bench = *state;
    restart_store(bench, "UPDATE journal SET body = '{' WHERE seq = (SELECT max(seq) FROM journal "
                         "WHERE kind = 'attempt_made')");
    struct store_replayed how;
    uint32_t quarantined = 0;
    struct core *core = replayed(bench, 0, &how, &quarantined);
    assert_int_equal(how.bad, 1);
    assert_int_equal(quarantined, bench->job);
    assert_int_equal(core_node_count(core), 8);
    (void)core_free(core);
}

/* ---- the tables ---------------------------------------------------------------------------- */

static int64_t asked(const struct bench *bench, const char *form, uint32_t id)
{
    char sql[256];
    (void)text_format(sql, sizeof(sql), "%s%u", form, id);
    return number_of(&bench->folder, sql);
}

static void the_tables_agree_with_the_core(void **state)
{
    struct bench *bench = *state;
    const struct core *core = bench->rig->core;
    const struct job *job = core_job(core, bench->job);
    for (uint32_t id = 1; id <= core_node_count(core); id++) {
        const struct node *node = core_node(core, id);
        char sql[256];
        (void)text_format(sql, sizeof(sql),
                          "SELECT count(*) FROM nodes WHERE life = '%s' AND name = '%s' AND lost = "
                          "%d AND job = %u AND slot = %u AND strikes = %u AND node = ",
                          WORD(node_life, node->d.life), node->d.name, node->d.lost ? 1 : 0,
                          node->d.job, node->d.slot, node->d.strikes);
        assert_int_equal(asked(bench, sql, id), 1);
        assert_int_equal(asked(bench, "SELECT count(*) FROM marks WHERE node = ", id),
                         core_mark_count(core, id));
    }
    for (uint32_t slot = 0; slot < job->slot_count; slot++) {
        uint32_t node = core_slot(core, job, slot)->d.node;
        assert_int_equal(asked(bench, "SELECT node FROM slots WHERE slot = ", slot), node);
        assert_int_equal(
            asked(bench, "SELECT node FROM slot_log WHERE to_seq IS NULL AND slot = ", slot), node);
    }
    assert_int_equal(asked(bench, "SELECT attempt FROM jobs WHERE job = ", bench->job),
                     job->d.attempt);
    assert_int_equal(asked(bench, "SELECT count(*) FROM attempts WHERE job = ", bench->job),
                     job->d.attempt + 1);
    for (uint32_t kind = 0; kind < time_kind_count; kind++) {
        char sql[160];
        (void)text_format(sql, sizeof(sql),
                          "SELECT coalesce(sum(ms), 0) FROM job_times WHERE kind = '%s' AND job = ",
                          WORD(time_kind, kind));
        assert_int_equal(asked(bench, sql, bench->job), job->d.time_ms[kind]);
    }
}

static void recoveries_and_phases_agree(void **state)
{
    struct bench *bench = *state;
    const struct recovery *recovery = NULL;
    uint32_t count = 0;
    for (; (recovery = core_recovery_at(bench->rig->core, count)) != NULL; count++) {
        uint32_t id = recovery->d.recovery;
        for (uint32_t phase = 0; phase < phase_count; phase++) {
            char sql[160];
            (void)text_format(sql, sizeof(sql),
                              "SELECT coalesce(sum(ms), 0) FROM recovery_phases WHERE phase = '%s' "
                              "AND recovery = ",
                              WORD(phase, phase));
            assert_int_equal(asked(bench, sql, id), recovery->d.phase_ms[phase]);
        }
        assert_int_equal(asked(bench, "SELECT lost_steps FROM recoveries WHERE recovery = ", id),
                         recovery->d.lost_steps);
        assert_int_equal(
            asked(bench, "SELECT opened_wall_ms FROM recoveries WHERE recovery = ", id),
            recovery->d.opened_wall_ms);
        assert_int_equal(asked(bench,
                               "SELECT took_ms = (SELECT sum(ms) FROM phases AS p WHERE "
                               "p.recovery = r.recovery) FROM recoveries AS r WHERE "
                               "recovery = ",
                               id),
                         1);
    }
    assert_int_equal(count, 3); /* start, node, rank */
    assert_int_equal(number_of(&bench->folder, "SELECT count(*) FROM recoveries"), 3);
    assert_int_equal(number_of(&bench->folder, "SELECT count(*) FROM checkpoints WHERE state = "
                                               "'complete' AND step = 10"),
                     1);
}

static void a_rebuild_of_a_real_history(void **state)
{
    struct bench *bench = *state;
    char *before = dump_of(&bench->folder, NULL);
    close_store(bench->store);
    bench->store = open_store(&bench->folder, STORE_REBUILD, NULL);
    char *after = dump_of(&bench->folder, NULL);
    assert_string_equal(after, before);
    (void)mem_free(before);
    (void)mem_free(after);
}

#define WITH_A_CORE(test) cmocka_unit_test_setup_teardown(test, bench_up, bench_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_CORE(the_state_comes_back),         WITH_A_CORE(and_from_a_snapshot),
        WITH_A_CORE(a_bad_row_sets_its_job_aside), WITH_A_CORE(the_tables_agree_with_the_core),
        WITH_A_CORE(recoveries_and_phases_agree),  WITH_A_CORE(a_rebuild_of_a_real_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
