/* store.c: the owner's side: opening and closing, handing batches over, looking at the status. */
#include "db/store.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/journal_json.h"
#include "db/store_internal.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* ---- opening ------------------------------------------------------------------------------- */

static void name_writer(char *target, size_t size)
{
    uint64_t numbers[2] = {0};
    ssize_t got = getrandom(numbers, sizeof(numbers), 0);
    CHECK(got == (ssize_t)sizeof(numbers)); /* cannot fail for 16 bytes on a running system */
    (void)text_format(target, size, "%016llx%016llx", (unsigned long long)numbers[0],
                      (unsigned long long)numbers[1]);
}

/* Everything after the lock and the checks: connection, schema, statements, place. */
static int connect_to(struct store *store, enum store_mode mode, int64_t version, struct err *err)
{
    int code = sql_open(store->path, SQL_WRITER, store->options.vfs, &store->db, err);
    code = code == 0 ? store_schema_update(store->db, store->path, version, err) : code;
    code = code == 0 && mode == STORE_REBUILD ? store_schema_rebuild(store->db, err) : code;
    code = code == 0 ? store_commit_prepare(store, err) : code;
    code = code == 0 ? store_last_snapshot(store->db, &store->snapshot_sequence, err) : code;
    if (code < 0) {
        return err_wrap(err, "the database %s", store->path);
    }
    store->next_sequence = store->place.sequence + 1;
    store->status.durable_sequence = store->place.sequence;
    return 0;
}

static void init_threads(struct store *store)
{
    pthread_condattr_t attributes;
    int rc = pthread_condattr_init(&attributes);
    rc = rc == 0 ? pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) : rc;
    rc = rc == 0 ? pthread_cond_init(&store->work, &attributes) : rc;
    rc = rc == 0 ? pthread_cond_init(&store->done, &attributes) : rc;
    rc = rc == 0 ? pthread_mutex_init(&store->mutex, NULL) : rc;
    CHECK(rc == 0); /* glibc's never fail with these arguments */
    (void)pthread_condattr_destroy(&attributes);
}

static struct store *store_create(const struct store_options *options)
{
    struct store *store = mem_alloc(1, sizeof(*store));
    store->options = options != NULL ? *options : (struct store_options){0};
    store->lock_fd = -1;
    store->wake_fd = -1;
    store->wal_alarm_bytes = store->options.wal_alarm_bytes > 0
                                 ? store->options.wal_alarm_bytes
                                 : (uint64_t)STORE_WAL_ALARM_MIB * 1024 * 1024;
    buf_init(&store->scratch, JOURNAL_JSON_MAX);
    name_writer(store->writer, sizeof(store->writer));
    init_threads(store);
    return store;
}

/* Takes half-opened ones. */
static void store_free(struct store *store)
{
    store_commit_release(store);
    store->db = sql_close(store->db);
    (void)store_batch_free(store->gathering);
    while (store->first != NULL) {
        struct store_batch *next = store->first->next;
        (void)store_batch_free(store->first);
        store->first = next;
    }
    if (store->wake_fd >= 0) {
        (void)close(store->wake_fd); /* an eventfd has nothing to lose */
    }
    /* Last: closing any descriptor of the file drops SQLite's own locks on it. */
    if (store->lock_fd >= 0) {
        (void)close(store->lock_fd); /* never written through */
    }
    buf_done(&store->scratch);
    (void)pthread_cond_destroy(&store->work);
    (void)pthread_cond_destroy(&store->done);
    (void)pthread_mutex_destroy(&store->mutex);
    (void)mem_free(store->path);
    (void)mem_free(store);
}

int store_open(const char *path, enum store_mode mode, const struct store_options *options,
               struct store **ret_store, struct err *err)
{
    struct store *store = store_create(options);
    struct stat status;
    int code = 0;
    if (mode == STORE_CREATE && stat(path, &status) < 0 && errno == ENOENT) {
        code = store_file_create(path, &store->options, err);
    }
    code = code == 0 ? store_file_lock(path, &store->options, &store->path, &store->lock_fd, err)
                     : code;
    int64_t version = 0;
    code = code == 0 ? store_file_check(store->path, &store->options, mode == STORE_REBUILD,
                                        &version, err)
                     : code;
    code = code == 0 ? connect_to(store, mode, version, err) : code;
    if (code == 0) {
        store->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        code =
            store->wake_fd < 0 ? err_set(err, -errno, "an eventfd: %s", strerrordesc_np(errno)) : 0;
    }
    if (code < 0) {
        store_free(store);
        return code;
    }
    *ret_store = store;
    return 0;
}

int store_close(struct store *store, uint32_t timeout_ms, struct err *err)
{
    if (store == NULL) {
        return 0;
    }
    if (store->started) {
        pthread_mutex_lock(&store->mutex);
        store->stopping = true;
        store->stop_us = store_clock_us() + (uint64_t)timeout_ms * 1000;
        pthread_cond_signal(&store->work);
        pthread_mutex_unlock(&store->mutex);
        int rc = pthread_join(store->thread, NULL);
        CHECK(rc == 0);
    }
    int code = 0;
    if (store->status.pending_records > 0) {
        code = err_set(err, -EIO, "%u records are not in the database %s: %.120s",
                       store->status.pending_records, store->path, store->status.reason);
    }
    store_free(store);
    return code;
}

bool store_is_empty(struct store *store)
{
    pthread_mutex_lock(&store->mutex);
    bool empty = store->next_sequence == 1;
    pthread_mutex_unlock(&store->mutex);
    return empty;
}

/* ---- append -------------------------------------------------------------------------------- */

/* With the first batch, so that a store that is only read stays untouched. Called with the mutex. */
static int start_thread(struct store *store, struct err *err)
{
    if (store->started) {
        return 0;
    }
    int rc = pthread_create(&store->thread, NULL, store_commit_thread, store);
    if (rc != 0) {
        return err_set(err, -rc, "the commit thread cannot be started: %s", strerrordesc_np(rc));
    }
    store->started = true;
    return 0;
}

static int refuse(const struct store *store, uint32_t count, struct err *err)
{
    const struct store_status *status = &store->status;
    if (status->condition == STORE_FENCED) {
        return err_set(err, -ESTALE, "%s", status->reason);
    }
    if (count > STORE_PENDING_MAX - status->pending_records) {
        return err_set(err, -ENOBUFS, "%u records wait to be written, the limit is %d: %.120s",
                       status->pending_records, STORE_PENDING_MAX, status->reason);
    }
    return 0;
}

/* Gives the batch its ticket and its records their sequences, and queues it. With the mutex. */
static void enqueue(struct store *store, struct store_batch *batch)
{
    struct store_status *status = &store->status;
    status->last_ticket++;
    batch->ticket = status->last_ticket;
    for (struct store_entry *entry = batch->first; entry != NULL; entry = entry->next) {
        entry->row.sequence = store->next_sequence;
        store->next_sequence++;
    }
    if (batch->snapshot) {
        store->snapshot_sequence = store->next_sequence - 1;
    }
    if (store->last == NULL) {
        store->first = batch;
    } else {
        store->last->next = batch;
    }
    store->last = batch;
    status->pending_records += batch->count;
    status->pending_bytes += batch->bytes;
    pthread_cond_signal(&store->work);
}

/* Takes the batch over in every case. */
static int queue_take(struct store *store, struct store_batch *batch, uint64_t *ret_ticket,
                      uint64_t *ret_sequence, struct err *err)
{
    pthread_mutex_lock(&store->mutex);
    int code = refuse(store, batch->count, err);
    if (code == 0 && batch->count > 0) {
        code = start_thread(store, err);
    }
    if (code == 0) {
        uint64_t sequence = store->next_sequence;
        if (batch->count > 0) {
            enqueue(store, TAKE(batch));
        }
        if (ret_ticket != NULL) {
            *ret_ticket = store->status.last_ticket;
        }
        if (ret_sequence != NULL) {
            *ret_sequence = sequence;
        }
    }
    pthread_mutex_unlock(&store->mutex);
    (void)store_batch_free(batch);
    return code;
}

int store_append(struct store *store, const struct record *records, uint32_t count,
                 uint64_t *ret_ticket, uint64_t *ret_sequence, struct err *err)
{
    CHECK(store->gathering == NULL); /* a snapshot is of one moment */
    struct store_batch *batch = store_batch_create();
    for (uint32_t i = 0; i < count; i++) {
        store_batch_add(batch, &records[i], &store->scratch);
    }
    return queue_take(store, batch, ret_ticket, ret_sequence, err);
}

int store_wait(struct store *store, uint64_t ticket, uint32_t timeout_ms, struct err *err)
{
    struct timespec when;
    store_clock_after(timeout_ms, &when);
    int code = 0;
    pthread_mutex_lock(&store->mutex);
    while (code == 0 && store->status.durable_ticket < ticket) {
        if (store->status.condition == STORE_FENCED) {
            code = err_set(err, -ESTALE, "%s", store->status.reason);
        } else if (pthread_cond_timedwait(&store->done, &store->mutex, &when) != 0 &&
                   store->status.durable_ticket < ticket) {
            code = err_set(err, -ETIMEDOUT, "not durable after %u ms: %.180s", timeout_ms,
                           store->status.reason);
        }
    }
    pthread_mutex_unlock(&store->mutex);
    return code;
}

int store_append_sync(struct store *store, const struct record *records, uint32_t count,
                      uint32_t timeout_ms, struct err *err)
{
    uint64_t ticket = 0;
    int code = store_append(store, records, count, &ticket, NULL, err);
    return code == 0 ? store_wait(store, ticket, timeout_ms, err) : code;
}

int store_wake_fd(const struct store *store)
{
    return store->wake_fd;
}

void store_status(struct store *store, struct store_status *ret_status)
{
    pthread_mutex_lock(&store->mutex);
    *ret_status = store->status;
    ret_status->since_snapshot = store->next_sequence - 1 - store->snapshot_sequence;
    pthread_mutex_unlock(&store->mutex);
}

void store_poll(struct store *store, struct store_status *ret_status)
{
    uint64_t count = 0;
    ssize_t size = read(store->wake_fd, &count, sizeof(count));
    (void)size; /* EAGAIN: nothing new; the status is the truth in any case */
    store_status(store, ret_status);
}

/* ---- snapshots ----------------------------------------------------------------------------- */

bool store_snapshot_due(struct store *store)
{
    struct store_status status;
    store_status(store, &status);
    return status.since_snapshot >= STORE_SNAPSHOT_EVERY;
}

void store_snapshot_begin(struct store *store)
{
    CHECK(store->gathering == NULL);
    store->gathering = store_batch_create();
    store->gathering->snapshot = true;
}

int store_snapshot_add(const struct record *record, void *context)
{
    struct store *store = context;
    CHECK(store->gathering != NULL);
    CHECK(record->kind >= RECORD_FIRST_IMAGE);
    if (store->gathering->count >= STORE_SNAPSHOT_MAX) {
        return -ENOBUFS;
    }
    store_batch_add(store->gathering, record, &store->scratch);
    return 0;
}

int store_snapshot_end(struct store *store, int walk_result, uint64_t *ret_ticket, struct err *err)
{
    struct store_batch *batch = TAKE(store->gathering);
    CHECK(batch != NULL);
    if (walk_result != 0 || batch->count == 0) {
        (void)store_batch_free(batch);
        int code = walk_result != 0 ? walk_result : -EINVAL;
        return err_set(err, code < 0 ? code : -EINVAL, "no snapshot was made: %s",
                       walk_result == -ENOBUFS ? "the state has more objects than one may hold"
                       : walk_result != 0      ? "the walk over the state ended early"
                                               : "the state has no record");
    }
    char body[48];
    (void)text_format(body, sizeof(body), "{\"records\":%u}", batch->count);
    store_batch_mark(batch, STORE_MARK_BEGIN, body, true);
    store_batch_mark(batch, STORE_MARK_END, body, false);
    return queue_take(store, batch, ret_ticket, NULL, err);
}
