/* store_commit.c: the commit thread. It takes what waits, writes it with all projections in one
 * transaction, says so, and copies the WAL back when it has grown.
 *
 *            work waits                    COMMIT said yes
 *     idle ------------> writing ------------------------------> published -> idle
 *                         |    ^                                     ^
 *        error before     |    | back-off, the same group            | it is there
 *        COMMIT           v    |                                     |
 *                        failed ------        error in COMMIT    unknown (reads back, backs off)
 *                         ^    it is not there                       |
 *                         +------------------------------------------+
 *     The writer row is not ours, or another file lies at our path: fenced, for ever.
 *
 * The group of a failed try is tried again unchanged, so that "is it there?" has one answer. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "db/store_internal.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum outcome { COMMITTED, FAILED, UNKNOWN, FENCED };

/* Whole batches from the front of the queue. They stay in the queue, where only the last one's
 * `next` may change under our eyes, and that one is not followed. */
struct group {
    struct store_batch *first;
    struct store_batch *last;
    uint32_t records;
    uint32_t batches;
};

uint64_t store_clock_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void store_clock_after(uint32_t ms, struct timespec *ret_when)
{
    (void)clock_gettime(CLOCK_MONOTONIC, ret_when);
    ret_when->tv_sec += ms / 1000;
    ret_when->tv_nsec += (long)(ms % 1000) * 1000000;
    if (ret_when->tv_nsec >= 1000000000) {
        ret_when->tv_sec++;
        ret_when->tv_nsec -= 1000000000;
    }
}

/* ---- the connection ------------------------------------------------------------------------ */

int store_place_read(sqlite3 *db, struct store_place *ret_place, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sql_prepare(db, "SELECT writer, ticket, seq FROM writer", &statement, err);
    if (code < 0) {
        return code;
    }
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        *ret_place = (struct store_place){
            .ticket = (uint64_t)sqlite3_column_int64(statement, 1),
            .sequence = (uint64_t)sqlite3_column_int64(statement, 2),
        };
        (void)text_copy(ret_place->writer, sizeof(ret_place->writer),
                        sql_column_text(statement, 0)); /* a longer one is not ours */
    } else if (rc == SQLITE_DONE) {
        code = err_set(err, -EUCLEAN, "the row of its last writer is missing");
    } else {
        code = sql_error(db, rc, err, "reading the last writer");
    }
    (void)sqlite3_finalize(statement); /* repeats the error of step */
    return code;
}

/* SQLite calls it after each commit; pages: what the WAL holds now. */
static int wal_grew(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    struct store *store = context;
    store->wal_pages = (uint64_t)pages;
    return SQLITE_OK;
}

int store_commit_prepare(struct store *store, struct err *err)
{
    static const char insert[] = "INSERT INTO journal (" STORE_ROW_COLUMNS
                                 ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
                                 "?13, ?14)";
    static const char claim[] = "UPDATE writer SET writer = ?1, ticket = ?2, seq = ?3 "
                                "WHERE writer = ?4 AND ticket = ?5 AND seq = ?6";
    int64_t page_size = 0;
    int code = sql_integer(store->db, "PRAGMA page_size", &page_size, err);
    code = code == 0 ? sql_prepare(store->db, insert, &store->insert, err) : code;
    code = code == 0 ? sql_prepare(store->db, claim, &store->claim, err) : code;
    code = code == 0 ? projection_create(store->db, &store->projection, err) : code;
    code = code == 0 ? store_place_read(store->db, &store->place, err) : code;
    if (code == 0) {
        store->page_size = (uint64_t)page_size;
        (void)sqlite3_wal_hook(store->db, wal_grew, store); /* returns the hook before: none */
    }
    return code;
}

void store_commit_release(struct store *store)
{
    (void)sqlite3_finalize(store->insert); /* both repeat the last step's error */
    (void)sqlite3_finalize(store->claim);
    store->insert = NULL;
    store->claim = NULL;
    store->projection = projection_free(store->projection);
}

/* ---- one transaction ----------------------------------------------------------------------- */

static uint64_t last_sequence(const struct group *group)
{
    return group->last->last->row.sequence;
}

/* Moves the writer row from where we left it: -ESTALE when it is not there any more. */
static int claim(struct store *store, const struct group *group, struct err *err)
{
    sqlite3_stmt *claim = store->claim;
    /* Binding fails only on misuse, or for want of a few bytes: then the step finds no row. */
    (void)sqlite3_bind_text(claim, 1, store->writer, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(claim, 2, (int64_t)group->last->ticket);
    (void)sqlite3_bind_int64(claim, 3, (int64_t)last_sequence(group));
    (void)sqlite3_bind_text(claim, 4, store->place.writer, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(claim, 5, (int64_t)store->place.ticket);
    (void)sqlite3_bind_int64(claim, 6, (int64_t)store->place.sequence);
    int code = sql_run(claim, err);
    if (code == 0 && sqlite3_changes(store->db) != 1) {
        code =
            err_set(err, -ESTALE, "another process wrote the database %s; this controller must end",
                    store->path);
    }
    return code;
}

static int insert_row(sqlite3_stmt *insert, const struct store_entry *entry, struct err *err)
{
    const struct store_row *row = &entry->row;
    const uint64_t numbers[] = {row->sequence, row->service_ms, row->wall_ms};
    for (int i = 0; i < 3; i++) {
        (void)sqlite3_bind_int64(insert, i + 1, (int64_t)(numbers[i] & INT64_MAX));
    }
    (void)sqlite3_bind_text(insert, 4, row->kind, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(insert, 5, row->version);
    (void)sqlite3_bind_text(insert, 6, row->subject, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(insert, 7, row->job);
    (void)sqlite3_bind_int64(insert, 8, row->node);
    (void)sqlite3_bind_int64(insert, 9, row->recovery);
    (void)sqlite3_bind_text(insert, 10, row->event, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(insert, 11, WORD(severity, row->severity), -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(insert, 12, row->message, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(insert, 13, entry->json, (int)entry->json_size, SQLITE_STATIC);
    if (row->text != NULL) {
        (void)sqlite3_bind_text(insert, 14, row->text, (int)row->text_size, SQLITE_STATIC);
    }
    int code = sql_run(insert, err); /* a value that could not be bound breaks NOT NULL */
    return code == -EEXIST
               ? err_set(err, -ESTALE, "record %llu is in the journal already, and not from us",
                         (unsigned long long)row->sequence)
               : code;
}

static int write_entries(struct store *store, const struct group *group, struct err *err)
{
    const struct store_batch *batch = group->first;
    for (;;) {
        for (const struct store_entry *entry = batch->first; entry != NULL; entry = entry->next) {
            int code = insert_row(store->insert, entry, err);
            code = code == 0 ? projection_apply(store->projection, &entry->row, err) : code;
            if (code < 0) {
                return code;
            }
        }
        if (batch == group->last) {
            return 0;
        }
        batch = batch->next;
    }
}

static void roll_back(struct store *store)
{
    if (sqlite3_get_autocommit(store->db) == 0) {
        int code = sql_exec(store->db, "ROLLBACK", NULL);
        (void)code; /* SQLite rolls back by itself where it cannot be asked to */
    }
}

/* After an error in COMMIT: does the journal have the group? */
static enum outcome read_back(struct store *store, const struct group *group, struct err *err)
{
    struct store_place place;
    roll_back(store);
    if (store_place_read(store->db, &place, err) < 0) {
        return UNKNOWN;
    }
    bool ours = text_equal(place.writer, store->writer);
    if (ours && place.ticket == group->last->ticket && place.sequence == last_sequence(group)) {
        return COMMITTED;
    }
    if (text_equal(place.writer, store->place.writer) && place.ticket == store->place.ticket &&
        place.sequence == store->place.sequence) {
        return FAILED;
    }
    (void)err_set(err, -ESTALE, "another process wrote the database %s; this controller must end",
                  store->path);
    return FENCED;
}

static enum outcome write_group(struct store *store, const struct group *group, struct err *err)
{
    int code = store_file_is_same(store->path, store->lock_fd, err);
    code = code == 0 ? sql_exec(store->db, "BEGIN IMMEDIATE", err) : code;
    code = code == 0 ? claim(store, group, err) : code;
    code = code == 0 ? write_entries(store, group, err) : code;
    if (code < 0) {
        roll_back(store);
        return code == -ESTALE ? FENCED : FAILED;
    }
    uint64_t first = store->place.sequence + 1;
    if (store->options.hook != NULL) {
        store->options.hook(STORE_BEFORE_COMMIT, first, last_sequence(group),
                            store->options.hook_context);
    }
    code = sql_exec(store->db, "COMMIT", err);
    if (code < 0) {
        return read_back(store, group, err);
    }
    if (store->options.hook != NULL) {
        store->options.hook(STORE_AFTER_COMMIT, first, last_sequence(group),
                            store->options.hook_context);
    }
    return COMMITTED;
}

/* Copies the WAL back into the file, as far as readers let it. What goes wrong here shows up as a
 * WAL that grows, which is looked at. */
static void checkpoint(struct store *store)
{
    if (store->wal_pages < store->checkpointed_pages) {
        store->checkpointed_pages = 0; /* it has begun anew */
    }
    if (store->wal_pages - store->checkpointed_pages >= STORE_CHECKPOINT_PAGES) {
        (void)sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        store->checkpointed_pages = store->wal_pages;
    }
}

/* ---- the queue, under the mutex ------------------------------------------------------------ */

static void wake_owner(const struct store *store)
{
    uint64_t one = 1;
    ssize_t written = write(store->wake_fd, &one, sizeof(one));
    CHECK(written == (ssize_t)sizeof(one)); /* a counter of 2^64 - 2 is never full */
}

static struct group take_group(const struct store *store)
{
    struct group group = {store->first, store->first, store->first->count, 1};
    for (struct store_batch *next = group.last->next; next != NULL; next = next->next) {
        if (group.records + next->count > STORE_GROUP_MAX) {
            break;
        }
        group.last = next;
        group.records += next->count;
        group.batches++;
    }
    return group;
}

static void release(struct store *store, const struct group *group)
{
    struct store_batch *batch = store->first;
    for (uint32_t i = 0; i < group->batches; i++) {
        struct store_batch *next = batch->next;
        store->status.pending_records -= batch->count;
        store->status.pending_bytes -= batch->bytes;
        (void)store_batch_free(batch);
        batch = next;
    }
    store->first = batch;
    store->last = batch == NULL ? NULL : store->last;
}

static void publish(struct store *store, const struct group *group, uint64_t took_us)
{
    struct store_status *status = &store->status;
    (void)text_copy(store->place.writer, sizeof(store->place.writer), store->writer);
    store->place.ticket = group->last->ticket;
    store->place.sequence = last_sequence(group);
    status->condition = STORE_COMMITTING;
    status->reason[0] = '\0';
    status->tries = 0;
    status->durable_ticket = store->place.ticket;
    status->durable_sequence = store->place.sequence;
    status->commits++;
    status->commit_us_last = took_us;
    status->commit_us_max = took_us > status->commit_us_max ? took_us : status->commit_us_max;
    status->wal_bytes = store->wal_pages * store->page_size;
    status->wal_alarm = status->wal_bytes > store->wal_alarm_bytes;
    const char *fault = "";
    status->projection_faults = projection_faults(store->projection, &fault);
    (void)text_copy(status->projection_fault, sizeof(status->projection_fault), fault);
    release(store, group);
}

static void note_failure(struct store *store, enum outcome outcome, const struct err *reason)
{
    struct store_status *status = &store->status;
    status->condition = outcome == FENCED ? STORE_FENCED : STORE_RETRYING;
    status->tries++;
    (void)text_format(status->reason, sizeof(status->reason),
                      outcome == FENCED ? "%s" : "the journal cannot be written, trying again: %s",
                      reason->text);
}

/* Doubled with each failure, never past the end of a close. */
static uint32_t back_off_ms(const struct store *store)
{
    uint32_t ms = STORE_RETRY_FIRST_MS;
    for (uint32_t i = 1; i < store->status.tries && ms < STORE_RETRY_LAST_MS; i++) {
        ms *= 2;
    }
    return ms < STORE_RETRY_LAST_MS ? ms : STORE_RETRY_LAST_MS;
}

static bool gives_up(const struct store *store)
{
    return store->stopping && store_clock_us() >= store->stop_us;
}

/* Waits out the back-off; a close wakes it, to try at once and then in short turns. */
static void back_off(struct store *store)
{
    struct timespec when;
    uint32_t ms = back_off_ms(store);
    store_clock_after(store->stopping && ms > STORE_RETRY_FIRST_MS ? STORE_RETRY_FIRST_MS : ms,
                      &when);
    bool was_stopping = store->stopping;
    int rc = 0;
    while (rc == 0 && store->stopping == was_stopping) {
        rc = pthread_cond_timedwait(&store->work, &store->mutex, &when);
    }
}

static bool wait_for_work(struct store *store)
{
    while (store->first == NULL && !store->stopping) {
        int rc = pthread_cond_wait(&store->work, &store->mutex);
        CHECK(rc == 0);
    }
    return store->first != NULL && store->status.condition != STORE_FENCED;
}

/* Writes one group, however often it takes. false: fenced, or given up at a close. */
static bool commit_next(struct store *store)
{
    struct group group = take_group(store);
    enum outcome outcome = FAILED;
    while (outcome != COMMITTED) {
        struct err reason = {0};
        pthread_mutex_unlock(&store->mutex);
        uint64_t began_us = store_clock_us();
        outcome = outcome == UNKNOWN ? read_back(store, &group, &reason)
                                     : write_group(store, &group, &reason);
        uint64_t took_us = store_clock_us() - began_us;
        pthread_mutex_lock(&store->mutex);
        if (outcome == COMMITTED) {
            publish(store, &group, took_us);
        } else {
            note_failure(store, outcome, &reason);
        }
        pthread_cond_broadcast(&store->done);
        wake_owner(store);
        if (outcome == FENCED || (outcome != COMMITTED && gives_up(store))) {
            return false;
        }
        if (outcome != COMMITTED) {
            back_off(store);
        }
    }
    return true;
}

void *store_commit_thread(void *context)
{
    struct store *store = context;
    pthread_mutex_lock(&store->mutex);
    while (wait_for_work(store) && commit_next(store)) {
        pthread_mutex_unlock(&store->mutex);
        checkpoint(store);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}
