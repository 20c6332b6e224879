/* store_replay_test.c: the journal read back: from the last whole snapshot, past rows that cannot be
 * read, not past holes; projections folded again; schemas moved forward. */
#include "tests/unit/db/db_help.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

struct rig {
    struct folder folder;
    struct record_random *world;
};

static int rig_up(void **state)
{
    struct rig *rig = mem_alloc(1, sizeof(*rig));
    folder_make(&rig->folder);
    rig->world = world_new(11);
    *state = rig;
    return 0;
}

static int rig_down(void **state)
{
    struct rig *rig = *state;
    folder_remove(&rig->folder);
    (void)mem_free(rig->world);
    (void)mem_free(rig);
    return 0;
}

/* Appends a snapshot of the world; returns how many images it has. */
static uint32_t append_snapshot(struct store *store, struct record_random *world)
{
    struct record *images = mem_alloc(64, sizeof(*images));
    uint32_t count = record_random_images(world, images, 64);
    uint64_t ticket = 0;
    store_snapshot_begin(store);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(store_snapshot_add(&images[i], store), 0);
    }
    assert_int_equal(store_snapshot_end(store, 0, &ticket, NULL), 0);
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, NULL), 0);
    (void)mem_free(images);
    return count;
}

/* Digest of `count` records of a world's history from its start, images left out. */
static uint64_t digest_of_history(uint64_t seed, uint32_t count)
{
    struct record_random *world = world_new(seed);
    uint64_t digest = HASH_INIT;
    struct record *record = mem_alloc(1, sizeof(*record));
    for (uint32_t i = 0; i < count; i++) {
        record_random_next(world, record);
        digest = record_sum(digest, record);
    }
    (void)mem_free(record);
    (void)mem_free(world);
    return digest;
}

static void an_empty_journal(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    struct replay_sum sum;
    replay_into(store, 0, &sum);
    assert_int_equal(sum.count, 0);
    assert_int_equal(sum.replayed.first, 0);
    assert_false(sum.replayed.from_snapshot);
    close_store(store);
}

static void everything_comes_back_after_a_restart(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    struct record *records = records_take(rig->world, 2000);
    uint64_t digest = HASH_INIT;
    for (uint32_t i = 0; i < 2000; i++) {
        digest = record_sum(digest, &records[i]);
    }
    assert_int_equal(store_append_sync(store, records, 2000, HELP_WAIT_MS, NULL), 0);
    records_free(records, 2000);
    close_store(store);
    store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
    struct replay_sum sum;
    replay_into(store, 0, &sum);
    assert_int_equal(sum.count, 2000);
    assert_true(sum.digest == digest);
    assert_int_equal(sum.replayed.records, 2000);
    assert_int_equal(sum.replayed.first, 1);
    assert_int_equal(sum.replayed.last, 2000);
    replay_into(store, 1990, &sum);
    assert_int_equal(sum.count, 11);
    close_store(store);
}

static void a_start_reads_the_snapshot_and_the_tail(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 500, 20);
    (void)append_snapshot(store, rig->world);
    append_history(store, rig->world, 300, 20);
    uint32_t images = append_snapshot(store, rig->world);
    struct store_status status;
    store_status(store, &status);
    assert_int_equal(status.since_snapshot, 0);
    append_history(store, rig->world, 70, 20);
    store_status(store, &status);
    assert_int_equal(status.since_snapshot, 70);
    struct replay_sum sum;
    replay_into(store, 0, &sum);
    assert_true(sum.replayed.from_snapshot);
    assert_int_equal(sum.count, images + 70);
    assert_int_equal(sum.replayed.snapshots_broken, 0);
    /* All facts, no images, when asked for them. */
    replay_into(store, 1, &sum);
    assert_int_equal(sum.count, 870);
    close_store(store);
    store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
    store_status(store, &status);
    assert_int_equal(status.since_snapshot, 70);
    close_store(store);
}

/* A snapshot of which rows are missing, or one that cannot be read, is passed over for the one
 * before it, and its images are not taken for facts. */
static void a_torn_snapshot_is_passed_over(void **state)
{
    static const char *const breaks[] = {
        "UPDATE journal SET body = '{' WHERE seq = (SELECT max(seq) - 3 FROM journal WHERE kind = "
        "'snapshot_end')",
        "UPDATE journal SET body = '{\"records\":3}' WHERE kind = 'snapshot_end' AND seq > 600",
        "UPDATE journal SET kind = 'acted', body = '{}' WHERE seq = (SELECT max(seq) - 3 FROM "
        "journal WHERE kind = 'snapshot_end')",
        "UPDATE journal SET body = 'x' WHERE kind = 'snapshot_end' AND seq > 600",
    };
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 500, 20);
    uint32_t images = append_snapshot(store, rig->world);
    append_history(store, rig->world, 300, 20);
    (void)append_snapshot(store, rig->world);
    append_history(store, rig->world, 70, 20);
    close_store(store);
    change_file(&rig->folder, "CREATE TABLE keep AS SELECT * FROM journal");
    for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
        change_file(&rig->folder, breaks[i]);
        store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
        struct replay_sum sum;
        replay_into(store, 0, &sum);
        assert_true(sum.replayed.from_snapshot);
        assert_int_equal(sum.replayed.snapshots_broken, 1);
        assert_int_equal(sum.count, images + 370 + (i == 2 ? 1 : 0));
        close_store(store);
        change_file(&rig->folder, "DELETE FROM journal; INSERT INTO journal SELECT * FROM keep");
    }
}

/* The commit thread writes a snapshot in one piece; a journal elsewhere may not. */
static void a_snapshot_without_its_end(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 500, 20);
    uint32_t images = append_snapshot(store, rig->world);
    close_store(store);
    uint64_t last = 500 + images + 1; /* without the end mark */
    change_file(&rig->folder, "DELETE FROM journal WHERE kind = 'snapshot_end'");
    change_file(&rig->folder, "UPDATE writer SET seq = seq - 1");
    store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
    struct replay_sum sum;
    replay_into(store, 0, &sum);
    assert_false(sum.replayed.from_snapshot);
    assert_int_equal(sum.count, 500);
    assert_int_equal(sum.replayed.last, last);
    close_store(store);
}

static void a_snapshot_may_be_called_off(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 10, 5);
    struct record *images = mem_alloc(64, sizeof(*images));
    uint32_t count = record_random_images(rig->world, images, 64);
    struct err err = {0};
    store_snapshot_begin(store);
    assert_int_equal(store_snapshot_end(store, 0, NULL, &err), -EINVAL);
    store_snapshot_begin(store);
    assert_int_equal(store_snapshot_add(&images[0], store), 0);
    assert_int_equal(store_snapshot_end(store, -EIO, NULL, &err), -EIO);
    store_snapshot_begin(store);
    int code = 0;
    for (uint32_t i = 0; i <= STORE_SNAPSHOT_MAX && code == 0; i++) {
        code = store_snapshot_add(&images[i % count], store);
    }
    assert_int_equal(code, -ENOBUFS);
    assert_int_equal(store_snapshot_end(store, code, NULL, &err), -ENOBUFS);
    append_history(store, rig->world, 10, 5);
    (void)mem_free(images);
    close_store(store);
    assert_int_equal(number_of(&rig->folder, "SELECT count(*) FROM journal"), 20);
}

static void a_snapshot_is_due_after_many_records(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, STORE_SNAPSHOT_EVERY - 1, 8000);
    assert_false(store_snapshot_due(store));
    append_history(store, rig->world, 1, 1);
    assert_true(store_snapshot_due(store));
    (void)append_snapshot(store, rig->world);
    assert_false(store_snapshot_due(store));
    close_store(store);
}

/* One job's row is in pieces: it is named with its job, and everything else comes back. */
static void a_bad_row_names_its_job(void **state)
{
    static const struct {
        const char *change;
        const char *says;
    } cases[] = {
        {"body = 'garbage'", "JSON"},
        {"body = '{\"job\":\"x\"}'", "'job'"},
        {"body = '{\"to\":\"nowhere\"}'", "'to'"},
        {"severity = 'loud'", "severity"},
        {"message = hex(randomblob(400))", "too long"},
        {"subject = hex(randomblob(400))", "too long"},
    };
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 800, 20);
    close_store(store);
    int64_t seq = number_of(&rig->folder, "SELECT max(seq) FROM journal WHERE kind = 'job_moved'");
    int64_t job = number_of(&rig->folder, "SELECT job FROM journal WHERE kind = 'job_moved' "
                                          "ORDER BY seq DESC LIMIT 1");
    change_file(&rig->folder, "CREATE TABLE keep AS SELECT * FROM journal");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char sql[160];
        (void)text_format(sql, sizeof(sql), "UPDATE journal SET %s WHERE seq = %lld",
                          cases[i].change, (long long)seq);
        change_file(&rig->folder, sql);
        store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
        struct replay_sum sum;
        replay_into(store, 0, &sum);
        assert_int_equal(sum.count, 799);
        assert_int_equal(sum.replayed.bad, 1);
        assert_int_equal(sum.bad_sequence, seq);
        assert_int_equal(sum.bad_job, job);
        assert_int_equal(sum.last, 800);
        if (strstr(sum.bad_reason, cases[i].says) == NULL) {
            fail_msg("'%s' does not say %s", sum.bad_reason, cases[i].says);
        }
        append_history(store, rig->world, 1, 1); /* life goes on */
        close_store(store);
        change_file(&rig->folder, "DELETE FROM journal; INSERT INTO journal SELECT * FROM keep;"
                                  "UPDATE writer SET seq = 800");
    }
}

static int stop_at_five(const struct record *record, void *context)
{
    (void)context;
    return record->sequence == 5 ? -ECANCELED : 0;
}

static int stop_at_bad(const struct store_bad *bad, void *context)
{
    (void)context;
    assert_string_equal(bad->kind, "store_opened");
    return -EDOM;
}

static void a_visitor_may_end_it(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 20, 20);
    struct store_visitor visitor = {stop_at_five, stop_at_bad, NULL};
    struct store_replayed replayed;
    struct err err = {0};
    assert_int_equal(store_replay(store, 0, &visitor, &replayed, &err), -ECANCELED);
    assert_int_equal(replayed.last, 5);
    close_store(store);
    change_file(&rig->folder, "UPDATE journal SET body = '' WHERE seq = 1");
    store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
    assert_int_equal(store_replay(store, 0, &visitor, &replayed, &err), -EDOM);
    close_store(store);
}

static void replay_fails(const struct rig *rig, const char *change, int code, const char *says)
{
    change_file(&rig->folder, change);
    struct store *store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
    struct replay_sum sum = {0};
    struct store_visitor visitor = {stop_at_five, stop_at_bad, &sum};
    struct err err = {0};
    assert_int_equal(store_replay(store, 10, &visitor, NULL, &err), code);
    if (strstr(err.text, says) == NULL) {
        fail_msg("'%s' does not say '%s'", err.text, says);
    }
    close_store(store);
}

static void holes_and_newer_records_end_it(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 40, 20);
    close_store(store);
    replay_fails(rig, "UPDATE journal SET version = 2 WHERE seq = 30", -EPROTONOSUPPORT,
                 "record 30 is of kind");
    replay_fails(rig, "UPDATE journal SET kind = 'node_dreamt' WHERE seq = 25", -EPROTONOSUPPORT,
                 "'node_dreamt'");
    replay_fails(rig, "DELETE FROM journal WHERE seq IN (20, 21)", -EUCLEAN,
                 "records 20 to 21 are missing");
}

/* The heart of it: what is folded again is what was folded at the time, table by table. */
static void a_rebuild_gives_the_same_tables(void **state)
{
    struct rig *rig = *state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct folder folder;
        folder_make(&folder);
        struct record_random *world = world_new(seed);
        struct store *store = open_store(&folder, STORE_CREATE, NULL);
        append_history(store, world, 2500, 60);
        (void)append_snapshot(store, world);
        append_history(store, world, 500, 60);
        struct store_status status;
        store_status(store, &status);
        assert_int_equal(status.projection_faults, 0);
        close_store(store);
        char *before = dump_of(&folder, NULL);
        assert_true(strlen(before) > 100000); /* there is something to compare */
        close_store(open_store(&folder, STORE_REBUILD, NULL));
        char *after = dump_of(&folder, NULL);
        assert_string_equal(after, before);
        /* And from nothing: the tables of before play no part. */
        change_file(&folder, "DELETE FROM nodes; DROP TABLE events; UPDATE jobs SET name = 'x'");
        close_store(open_store(&folder, STORE_REBUILD, NULL));
        (void)mem_free(after);
        after = dump_of(&folder, NULL);
        assert_string_equal(after, before);
        (void)mem_free(before);
        (void)mem_free(after);
        (void)mem_free(world);
        folder_remove(&folder);
    }
    (void)rig;
}

static void a_rebuild_passes_over_bad_rows(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 300, 20);
    close_store(store);
    int64_t events = number_of(&rig->folder, "SELECT count(*) FROM events");
    change_file(&rig->folder, "UPDATE journal SET body = '[' WHERE seq = (SELECT max(seq) FROM "
                              "events)");
    close_store(open_store(&rig->folder, STORE_REBUILD, NULL));
    assert_int_equal(number_of(&rig->folder, "SELECT count(*) FROM events"), events - 1);
}

/* ---- schemas ------------------------------------------------------------------------------- */

enum { NOW = STORE_SCHEMA_VERSION };

static const struct store_migration steps[] = {
    {NOW + 1, "CREATE TABLE two (x INTEGER) STRICT; INSERT INTO two VALUES (2)", false},
    {NOW + 2, "ALTER TABLE journal ADD COLUMN colour TEXT", true},
};
static const struct store_migration wrong[] = {
    {NOW + 1, "CREATE TABLE two (x INTEGER) STRICT", false},
    {NOW + 2, "INSERT INTO nowhere VALUES (1)", false},
};

static sqlite3 *open_raw(const struct rig *rig)
{
    sqlite3 *db = NULL;
    assert_int_equal(sql_open(rig->folder.database, SQL_WRITER, NULL, &db, NULL), 0);
    return db;
}

static void a_schema_moves_forward_whole(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 300, 20);
    close_store(store);
    char *before = dump_of(&rig->folder, "events");
    struct err err = {0};
    sqlite3 *db = open_raw(rig);
    assert_int_equal(store_schema_migrate(db, rig->folder.database, NOW, steps, 2, &err), 0);
    (void)sql_close(db);
    assert_int_equal(number_of(&rig->folder, "PRAGMA user_version"), NOW + 2);
    assert_int_equal(number_of(&rig->folder, "SELECT count(colour) FROM journal"), 0);
    char *after = dump_of(&rig->folder, "events"); /* folded again */
    assert_string_equal(after, before);
    (void)mem_free(before);
    (void)mem_free(after);
    /* The copy from before is a whole store of the old version. */
    struct folder copy = rig->folder;
    (void)text_format(copy.database, sizeof(copy.database), "%s.v%d", rig->folder.database, NOW);
    store = open_store(&copy, STORE_READ_WRITE, NULL);
    struct replay_sum sum;
    replay_into(store, 0, &sum);
    assert_int_equal(sum.count, 300);
    close_store(store);
}

static void a_schema_that_is_up_to_date_is_left_alone(void **state)
{
    struct rig *rig = *state;
    close_store(open_store(&rig->folder, STORE_CREATE, NULL));
    sqlite3 *db = open_raw(rig);
    assert_int_equal(store_schema_migrate(db, rig->folder.database, NOW + 2, steps, 2, NULL), 0);
    assert_int_equal(store_schema_migrate(db, rig->folder.database, NOW, NULL, 0, NULL), 0);
    (void)sql_close(db);
    char copy[HELP_PATH_SIZE];
    (void)text_format(copy, sizeof(copy), "%s.v%d", rig->folder.database, NOW);
    struct stat status;
    assert_int_equal(stat(copy, &status), -1);
}

static void a_failed_migration_changes_nothing(void **state)
{
    struct rig *rig = *state;
    struct store *store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(store, rig->world, 300, 20);
    close_store(store);
    struct err err = {0};
    sqlite3 *db = open_raw(rig);
    assert_true(store_schema_migrate(db, rig->folder.database, NOW, wrong, 2, &err) < 0);
    assert_non_null(strstr(err.text, "it is as it was"));
    /* An old copy is never written over. */
    assert_true(store_schema_migrate(db, rig->folder.database, NOW, steps, 2, &err) < 0);
    assert_non_null(strstr(err.text, "move it away"));
    (void)sql_close(db);
    assert_int_equal(number_of(&rig->folder, "PRAGMA user_version"), NOW);
    assert_int_equal(
        number_of(&rig->folder, "SELECT count(*) FROM sqlite_schema WHERE name = 'two'"), 0);
    close_store(open_store(&rig->folder, STORE_READ_WRITE, NULL));
}

static void the_history_itself_is_repeatable(void **state)
{
    (void)state;
    assert_true(digest_of_history(4, 3000) == digest_of_history(4, 3000));
    assert_true(digest_of_history(4, 3000) != digest_of_history(5, 3000));
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, rig_up, rig_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(an_empty_journal),
        IN_A_FOLDER(everything_comes_back_after_a_restart),
        IN_A_FOLDER(a_start_reads_the_snapshot_and_the_tail),
        IN_A_FOLDER(a_torn_snapshot_is_passed_over),
        IN_A_FOLDER(a_snapshot_without_its_end),
        IN_A_FOLDER(a_snapshot_may_be_called_off),
        IN_A_FOLDER(a_snapshot_is_due_after_many_records),
        IN_A_FOLDER(a_bad_row_names_its_job),
        IN_A_FOLDER(a_visitor_may_end_it),
        IN_A_FOLDER(holes_and_newer_records_end_it),
        IN_A_FOLDER(a_rebuild_gives_the_same_tables),
        IN_A_FOLDER(a_rebuild_passes_over_bad_rows),
        IN_A_FOLDER(a_schema_moves_forward_whole),
        IN_A_FOLDER(a_schema_that_is_up_to_date_is_left_alone),
        IN_A_FOLDER(a_failed_migration_changes_nothing),
        cmocka_unit_test(the_history_itself_is_repeatable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
