/* store_append_test.c: batches in order, tickets and sequences, what the status says while the disk
 * is busy, and when somebody else writes. */
#include "tests/unit/db/db_help.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static int folder_up(void **state)
{
    struct folder *folder = mem_alloc(1, sizeof(*folder));
    folder_make(folder);
    *state = folder;
    return 0;
}

static int folder_down(void **state)
{
    folder_remove(*state);
    (void)mem_free(*state);
    return 0;
}

static bool readable(const struct store *store, int timeout_ms)
{
    struct pollfd wake = {.fd = store_wake_fd(store), .events = POLLIN};
    return poll(&wake, 1, timeout_ms) == 1;
}

static void batches_become_rows_in_order(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(1);
    uint64_t digest = HASH_INIT;
    uint64_t ticket = 0;
    uint64_t sequence_due = 1;
    for (uint64_t batch = 1; batch <= 50; batch++) {
        uint32_t size = 1 + (uint32_t)batch % 7;
        struct record *records = records_take(world, size);
        uint64_t sequence = 0;
        assert_int_equal(store_append(store, records, size, &ticket, &sequence, NULL), 0);
        assert_int_equal(ticket, batch);
        assert_int_equal(sequence, sequence_due);
        sequence_due += size;
        for (uint32_t i = 0; i < size; i++) {
            digest = record_sum(digest, &records[i]);
        }
        records_free(records, size); /* everything was copied */
    }
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, NULL), 0);
    struct store_status status;
    store_status(store, &status);
    assert_int_equal(status.durable_ticket, 50);
    assert_int_equal(status.durable_sequence, sequence_due - 1);
    assert_int_equal(status.pending_records, 0);
    assert_int_equal(status.pending_bytes, 0);
    assert_in_range(status.commits, 1, 50);
    assert_int_equal(status.projection_faults, 0);
    struct replay_sum sum;
    replay_into(store, 1, &sum);
    assert_int_equal(sum.count, sequence_due - 1);
    assert_true(sum.digest == digest);
    (void)mem_free(world);
    close_store(store);
}

static void the_owner_is_woken(void **state)
{
    struct store *store = open_store(*state, STORE_CREATE, NULL);
    struct record_random *world = world_new(1);
    struct record *records = records_take(world, 3);
    uint64_t ticket = 0;
    assert_false(readable(store, 0));
    assert_int_equal(store_append(store, records, 3, &ticket, NULL, NULL), 0);
    assert_true(readable(store, HELP_WAIT_MS));
    struct store_status status;
    store_poll(store, &status);
    assert_int_equal(status.durable_ticket, ticket);
    assert_int_equal(status.condition, STORE_COMMITTING);
    assert_string_equal(status.reason, "");
    assert_false(readable(store, 0));
    records_free(records, 3);
    (void)mem_free(world);
    close_store(store);
}

static void an_empty_batch_has_the_last_ticket(void **state)
{
    struct store *store = open_store(*state, STORE_CREATE, NULL);
    struct record_random *world = world_new(1);
    uint64_t ticket = 7;
    assert_int_equal(store_append(store, NULL, 0, &ticket, NULL, NULL), 0);
    assert_int_equal(ticket, 0);
    assert_int_equal(store_wait(store, ticket, 0, NULL), 0);
    append_history(store, world, 3, 1);
    assert_int_equal(store_append(store, NULL, 0, &ticket, NULL, NULL), 0);
    assert_int_equal(ticket, 3);
    (void)mem_free(world);
    close_store(store);
}

static void sequences_go_on_after_a_restart(void **state)
{
    const struct folder *folder = *state;
    struct record_random *world = world_new(9);
    for (uint64_t run = 0; run < 4; run++) {
        struct store *store = open_store(folder, STORE_CREATE, NULL);
        assert_true(store_is_empty(store) == (run == 0));
        uint64_t sequence = 0;
        struct record *record = records_take(world, 1);
        assert_int_equal(store_append(store, record, 1, NULL, &sequence, NULL), 0);
        assert_int_equal(sequence, run * 11 + 1);
        assert_false(store_is_empty(store));
        records_free(record, 1);
        append_history(store, world, 10, 3);
        close_store(store);
    }
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 44);
    assert_int_equal(number_of(folder, "SELECT max(seq) FROM journal"), 44);
    (void)mem_free(world);
}

static void close_waits_for_what_is_queued(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    struct record *records = records_take(world, 500);
    for (uint32_t i = 0; i < 500; i++) {
        assert_int_equal(store_append(store, &records[i], 1, NULL, NULL, NULL), 0);
    }
    close_store(store);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 500);
    records_free(records, 500);
    (void)mem_free(world);
}

/* One that is only looked at writes nothing at all: not even that it was there. */
static void without_an_append_nothing_is_written(void **state)
{
    const struct folder *folder = *state;
    struct record_random *world = world_new(2);
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    append_history(store, world, 50, 5);
    close_store(store);
    size_t size = 0;
    char *before = contents_of(folder->database, &size);
    store = open_store(folder, STORE_READ_WRITE, NULL);
    struct replay_sum sum;
    replay_into(store, 0, &sum);
    assert_int_equal(sum.count, 50);
    close_store(store);
    size_t size_after = 0;
    char *after = contents_of(folder->database, &size_after);
    assert_int_equal(size_after, size);
    assert_memory_equal(after, before, size);
    (void)mem_free(before);
    (void)mem_free(after);
    (void)mem_free(world);
}

static sqlite3 *somebody(const struct folder *folder)
{
    sqlite3 *db = NULL;
    assert_int_equal(sql_open(folder->database, SQL_WRITER, NULL, &db, NULL), 0);
    return db;
}

static void wait_for_condition(struct store *store, enum store_condition wanted,
                               struct store_status *ret_status)
{
    uint64_t end_us = store_clock_us() + UINT64_C(1000) * HELP_WAIT_MS;
    do {
        (void)readable(store, 100);
        store_poll(store, ret_status);
    } while (ret_status->condition != wanted && store_clock_us() < end_us);
    assert_int_equal(ret_status->condition, wanted);
}

static void a_locked_database_is_waited_for(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    append_history(store, world, 20, 5);
    sqlite3 *db = somebody(folder);
    assert_int_equal(sql_exec(db, "BEGIN IMMEDIATE", NULL), 0);
    struct record *records = records_take(world, 4);
    uint64_t ticket = 0;
    assert_int_equal(store_append(store, records, 4, &ticket, NULL, NULL), 0);
    struct store_status status;
    wait_for_condition(store, STORE_RETRYING, &status);
    assert_non_null(strstr(status.reason, "locked"));
    assert_int_equal(status.pending_records, 4);
    assert_true(status.pending_bytes > 0);
    assert_true(status.durable_ticket < ticket);
    struct err err = {0};
    assert_int_equal(store_wait(store, ticket, 1, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "locked"));
    assert_int_equal(store_append(store, records, 4, &ticket, NULL, NULL), 0); /* more may come */
    assert_int_equal(sql_exec(db, "COMMIT", NULL), 0);
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, NULL), 0);
    store_status(store, &status);
    assert_int_equal(status.condition, STORE_COMMITTING);
    assert_int_equal(status.tries, 0);
    (void)sql_close(db);
    records_free(records, 4);
    (void)mem_free(world);
    close_store(store);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 28);
}

static void a_close_that_cannot_write_says_what_is_lost(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    append_history(store, world, 20, 5);
    sqlite3 *db = somebody(folder);
    assert_int_equal(sql_exec(db, "BEGIN IMMEDIATE", NULL), 0);
    struct record *records = records_take(world, 4);
    assert_int_equal(store_append(store, records, 4, NULL, NULL, NULL), 0);
    struct err err = {0};
    assert_int_equal(store_close(store, 50, &err), -EIO);
    assert_non_null(strstr(err.text, "4 records are not in the database"));
    (void)sql_close(db);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 20);
    records_free(records, 4);
    (void)mem_free(world);
}

/* Another controller on another machine, or a person with an UPDATE: our word is no longer the
 * last, so nothing more is written, ever. */
static void another_writer_fences(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    append_history(store, world, 20, 5);
    sqlite3 *db = somebody(folder);
    assert_int_equal(sql_exec(db, "UPDATE writer SET writer = 'somebody else'", NULL), 0);
    (void)sql_close(db);
    struct record *records = records_take(world, 4);
    uint64_t ticket = 0;
    assert_int_equal(store_append(store, records, 4, &ticket, NULL, NULL), 0);
    struct err err = {0};
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, &err), -ESTALE);
    assert_non_null(strstr(err.text, "must end"));
    struct store_status status;
    store_status(store, &status);
    assert_int_equal(status.condition, STORE_FENCED);
    assert_int_equal(store_append(store, records, 4, NULL, NULL, &err), -ESTALE);
    assert_int_equal(store_close(store, 1000, &err), -EIO);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 20);
    records_free(records, 4);
    (void)mem_free(world);
}

/* A row that somebody put where ours would go. */
static void a_foreign_row_fences(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    append_history(store, world, 20, 5);
    sqlite3 *db = somebody(folder);
    assert_int_equal(sql_exec(db,
                              "INSERT INTO journal SELECT 22, service_ms, wall_ms, kind, version, "
                              "subject, job, node, recovery, event, severity, message, body, text "
                              "FROM journal WHERE seq = 20",
                              NULL),
                     0);
    (void)sql_close(db);
    struct record *records = records_take(world, 4);
    struct err err = {0};
    assert_int_equal(store_append_sync(store, records, 4, HELP_WAIT_MS, &err), -ESTALE);
    assert_non_null(strstr(err.text, "record 22"));
    (void)store_close(store, 0, NULL);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 21);
    records_free(records, 4);
    (void)mem_free(world);
}

static void a_file_that_was_moved_is_waited_for(void **state)
{
    const struct folder *folder = *state;
    char away[HELP_PATH_SIZE];
    (void)text_format(away, sizeof(away), "%s/away", folder->path);
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    append_history(store, world, 20, 5);
    assert_int_equal(rename(folder->database, away), 0);
    struct record *records = records_take(world, 4);
    uint64_t ticket = 0;
    assert_int_equal(store_append(store, records, 4, &ticket, NULL, NULL), 0);
    struct store_status status;
    wait_for_condition(store, STORE_RETRYING, &status);
    assert_non_null(strstr(status.reason, "moved away or deleted"));
    assert_int_equal(rename(away, folder->database), 0);
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, NULL), 0);
    close_store(store);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 24);
    records_free(records, 4);
    (void)mem_free(world);
}

static void another_file_in_its_place_fences(void **state)
{
    const struct folder *folder = *state;
    char away[HELP_PATH_SIZE];
    (void)text_format(away, sizeof(away), "%s/away", folder->path);
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    append_history(store, world, 20, 5);
    assert_int_equal(rename(folder->database, away), 0);
    struct store_options options = {0};
    assert_int_equal(store_file_create(folder->database, &options, NULL), 0);
    struct record *records = records_take(world, 4);
    struct err err = {0};
    assert_int_equal(store_append_sync(store, records, 4, HELP_WAIT_MS, &err), -ESTALE);
    assert_non_null(strstr(err.text, "put in the place"));
    (void)store_close(store, 0, NULL);
    records_free(records, 4);
    (void)mem_free(world);
}

static void too_much_is_refused(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    append_history(store, world, 5, 5);
    sqlite3 *db = somebody(folder);
    assert_int_equal(sql_exec(db, "BEGIN IMMEDIATE", NULL), 0);
    struct record *records = records_take(world, 1024);
    struct err err = {0};
    for (uint32_t i = 0; i < STORE_PENDING_MAX / 1024; i++) {
        assert_int_equal(store_append(store, records, 1024, NULL, NULL, &err), 0);
    }
    uint64_t sequence = 0;
    assert_int_equal(store_append(store, records, 1, NULL, &sequence, &err), -ENOBUFS);
    assert_int_equal(sequence, 0);
    assert_non_null(strstr(err.text, "262144"));
    (void)store_close(store, 0, NULL);
    assert_int_equal(sql_exec(db, "COMMIT", NULL), 0);
    (void)sql_close(db);
    records_free(records, 1024);
    (void)mem_free(world);
}

/* A reader that never ends its look keeps the log from being copied back. */
static void a_growing_log_is_an_alarm(void **state)
{
    const struct folder *folder = *state;
    struct store_options options = {.wal_alarm_bytes = 12u << 20};
    struct store *store = open_store(folder, STORE_CREATE, &options);
    struct record_random *world = world_new(2);
    append_history(store, world, 100, 5);
    sqlite3 *reader = NULL;
    int64_t count = 0;
    assert_int_equal(sql_open(folder->database, SQL_READER, NULL, &reader, NULL), 0);
    assert_int_equal(sql_exec(reader, "BEGIN", NULL), 0);
    assert_int_equal(sql_integer(reader, "SELECT count(*) FROM journal", &count, NULL), 0);
    struct store_status status;
    for (int i = 0; i < 200; i++) {
        append_history(store, world, 100, 100);
        store_status(store, &status);
        if (status.wal_alarm) {
            break;
        }
    }
    assert_true(status.wal_alarm);
    assert_true(status.wal_bytes > options.wal_alarm_bytes);
    assert_int_equal(status.condition, STORE_COMMITTING);
    assert_int_equal(sql_exec(reader, "COMMIT", NULL), 0);
    for (int i = 0; i < 200 && status.wal_alarm; i++) {
        append_history(store, world, 100, 100);
        store_status(store, &status);
    }
    assert_false(status.wal_alarm);
    (void)sql_close(reader);
    (void)mem_free(world);
    close_store(store);
}

static void the_log_is_copied_back(void **state)
{
    struct store *store = open_store(*state, STORE_CREATE, NULL);
    struct record_random *world = world_new(2);
    struct store_status status;
    for (int i = 0; i < 60; i++) {
        append_history(store, world, 400, 100);
        store_status(store, &status);
        assert_true(status.wal_bytes < 64u << 20);
    }
    (void)mem_free(world);
    close_store(store);
}

struct hook_log {
    _Atomic uint64_t before;
    _Atomic uint64_t after;
    _Atomic bool wrong;
};

static void note(enum store_stage stage, uint64_t first, uint64_t last, void *context)
{
    struct hook_log *log = context;
    bool good = stage == STORE_BEFORE_COMMIT ? first == log->after + 1 && last >= first
                                             : last == log->before;
    log->wrong = log->wrong || !good;
    if (stage == STORE_BEFORE_COMMIT) {
        log->before = last;
    } else {
        log->after = last;
    }
}

static void the_hook_sees_every_commit(void **state)
{
    struct hook_log log = {0};
    struct store_options options = {.hook = note, .hook_context = &log};
    struct store *store = open_store(*state, STORE_CREATE, &options);
    struct record_random *world = world_new(2);
    append_history(store, world, 300, 7);
    close_store(store);
    assert_int_equal(log.before, 300);
    assert_int_equal(log.after, 300);
    assert_false(log.wrong);
    (void)mem_free(world);
}

/* Whatever a peer says may be in a record; no value may stop the journal. */
static void no_content_stops_the_journal(void **state)
{
    const struct folder *folder = *state;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct prng prng;
    prng_seed(&prng, 5);
    struct record *record = mem_alloc(1, sizeof(*record));
    struct err err = {0};
    uint64_t ticket = 0;
    uint64_t digest = HASH_INIT;
    uint64_t count = 0;
    for (uint16_t kind = 1; kind < RECORD_FIRST_IMAGE; kind++) {
        for (int round = 0; record_table(kind) != NULL && round < 20; round++) {
            record_random_any(&prng, kind, record);
            digest = record_sum(digest, record);
            count++;
            assert_int_equal(store_append(store, record, 1, &ticket, NULL, &err), 0);
        }
    }
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, &err), 0);
    struct store_status status;
    store_status(store, &status);
    if (status.projection_faults > 0) {
        fail_msg("%s", status.projection_fault);
    }
    struct replay_sum sum;
    replay_into(store, 1, &sum);
    assert_int_equal(sum.count, count);
    assert_true(sum.digest == digest);
    close_store(store);
    (void)mem_free(record);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_up, folder_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(batches_become_rows_in_order),
        IN_A_FOLDER(the_owner_is_woken),
        IN_A_FOLDER(an_empty_batch_has_the_last_ticket),
        IN_A_FOLDER(sequences_go_on_after_a_restart),
        IN_A_FOLDER(close_waits_for_what_is_queued),
        IN_A_FOLDER(without_an_append_nothing_is_written),
        IN_A_FOLDER(a_locked_database_is_waited_for),
        IN_A_FOLDER(a_close_that_cannot_write_says_what_is_lost),
        IN_A_FOLDER(another_writer_fences),
        IN_A_FOLDER(a_foreign_row_fences),
        IN_A_FOLDER(a_file_that_was_moved_is_waited_for),
        IN_A_FOLDER(another_file_in_its_place_fences),
        IN_A_FOLDER(too_much_is_refused),
        IN_A_FOLDER(a_growing_log_is_an_alarm),
        IN_A_FOLDER(the_log_is_copied_back),
        IN_A_FOLDER(the_hook_sees_every_commit),
        IN_A_FOLDER(no_content_stops_the_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
