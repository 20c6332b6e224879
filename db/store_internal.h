/* store_internal.h: what the parts of the store share. Internal to db/ and to its tests.
 *
 * Threads: the owner's thread appends, the commit thread writes. Under `mutex`: the queue, the
 * status, started and stopping. The connection, the projection and the writer's place belong to the
 * owner until the commit thread starts (with the first append), then to it, and to the owner again
 * when it has ended. */
#ifndef KEEPSTEP_DB_STORE_INTERNAL_H
#define KEEPSTEP_DB_STORE_INTERNAL_H

#include <pthread.h>
#include <time.h>

#include "db/projection.h"
#include "db/sql.h"
#include "db/store.h"
#include "proto/base/buf.h"

enum {
    STORE_APPLICATION_ID = 0x4b535450, /* "KSTP", in the file's header */
    STORE_WRITER_SIZE = 33,            /* 32 hex digits */
    STORE_CHECKPOINT_PAGES = 1000,     /* the WAL is copied back when it has grown by this */
};

#define STORE_MARK_BEGIN "snapshot_begin"
#define STORE_MARK_END   "snapshot_end"

/* A record on its way to the disk: one block of memory, everything in `row` points into it. */
struct store_entry {
    struct store_entry *next;
    size_t size; /* of the block */
    const char *json;
    size_t json_size;
    struct store_row row;
};

struct store_batch {
    struct store_batch *next;
    uint64_t ticket;
    uint32_t count;
    size_t bytes;
    bool snapshot;
    struct store_entry *first;
    struct store_entry *last;
};

/* What the row of table `writer` says. */
struct store_place {
    char writer[STORE_WRITER_SIZE];
    uint64_t ticket;
    uint64_t sequence;
};

struct store {
    char *path; /* real and absolute */
    struct store_options options;
    int lock_fd; /* the file itself, flocked; closed after every connection */
    int wake_fd; /* eventfd */

    sqlite3 *db;
    struct projection *projection;
    sqlite3_stmt *insert;
    sqlite3_stmt *claim;
    struct store_place place;       /* as it was committed last */
    char writer[STORE_WRITER_SIZE]; /* this process */
    uint64_t page_size;
    uint64_t wal_pages;          /* in the WAL after the last commit */
    uint64_t checkpointed_pages; /* of these, there were so many at the last checkpoint */
    uint64_t wal_alarm_bytes;

    struct buf scratch;            /* the owner's, for encoding */
    struct store_batch *gathering; /* the owner's: the snapshot between begin and end */
    int gathering_code;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;   /* the commit thread waits for it */
    pthread_cond_t done;   /* store_wait waits for it */
    pthread_t thread;
    bool started;
    bool stopping;
    uint64_t stop_us; /* when a close gives up */
    uint64_t next_sequence;
    uint64_t snapshot_sequence; /* of the last snapshot's end, appended or committed */
    struct store_batch *first;
    struct store_batch *last;
    struct store_status status;
};

/* ---- store_file.c: is this file one that we may open? ------------------------------------- */

/* Finds the file, refuses network file systems, takes the lock, reads the header. *ret_path: owned
 * by the caller (mem_free); *ret_fd holds the lock. The file must exist. */
MUST_CHECK int store_file_lock(const char *path, const struct store_options *options,
                               char **ret_path, int *ret_fd, struct err *err);
/* Makes a new, empty store of the present schema at path, where no file is. */
MUST_CHECK int store_file_create(const char *path, const struct store_options *options,
                                 struct err *err);
/* 0: still ours; -ENOENT: moved away or deleted; -ESTALE: another file took its place. */
MUST_CHECK int store_file_is_same(const char *path, int fd, struct err *err);
/* Looks into a locked file without leaving a trace: application, version, damage. rebuild: damage
 * of projections is no reason to refuse. */
MUST_CHECK int store_file_check(const char *path, const struct store_options *options, bool rebuild,
                                int64_t *ret_version, struct err *err);

/* ---- store_schema.c ------------------------------------------------------------------------ */

/* One step from version - 1 to `version`, inside a transaction. */
struct store_migration {
    int64_t version;
    const char *sql;
    bool refold; /* projections are dropped and folded anew afterwards */
};

/* The whole schema into an empty file, in one transaction. */
MUST_CHECK int store_schema_create(sqlite3 *db, struct err *err);
/* Copies the file to "path.v<from>", then runs what is due in one transaction. */
MUST_CHECK int store_schema_migrate(sqlite3 *db, const char *path, int64_t from,
                                    const struct store_migration *migrations, uint32_t count,
                                    struct err *err);
/* What is due for the present version. */
MUST_CHECK int store_schema_update(sqlite3 *db, const char *path, int64_t from, struct err *err);
/* Drops the projections and folds the whole journal again, in one transaction. */
MUST_CHECK int store_schema_rebuild(sqlite3 *db, struct err *err);

/* ---- store_commit.c ------------------------------------------------------------------------ */

MUST_CHECK int store_commit_prepare(struct store *store, struct err *err);
void store_commit_release(struct store *store); /* statements and projection */
void *store_commit_thread(void *store);
MUST_CHECK int store_place_read(sqlite3 *db, struct store_place *ret_place, struct err *err);

/* ---- store_replay.c ------------------------------------------------------------------------ */

/* The journal's columns in this order; store_row_read takes a statement that selects them. */
#define STORE_ROW_COLUMNS                                                                          \
    "seq, service_ms, wall_ms, kind, version, subject, job, node, recovery, event, severity, "     \
    "message, body, text"
bool store_row_is_mark(sqlite3_stmt *statement);
/* Fills a record from the present row; its text is borrowed until the next step. -EINVAL with the
 * reason: the row cannot be read. -EPROTONOSUPPORT: written by a newer version. */
MUST_CHECK int store_row_read(sqlite3_stmt *statement, struct record *ret_record, struct err *err);
/* Borrowed pointers into a record, for the projections. */
void store_row_of(const struct record *record, struct store_row *ret_row);
MUST_CHECK int store_last_snapshot(sqlite3 *db, uint64_t *ret_sequence, struct err *err);

/* ---- store_queue.c ------------------------------------------------------------------------- */

struct store_batch *store_batch_create(void);
struct store_batch *store_batch_free(struct store_batch *batch); /* takes NULL, returns NULL */
/* Adds a copy. scratch: any buffer of at least JOURNAL_JSON_MAX. */
void store_batch_add(struct store_batch *batch, const struct record *record, struct buf *scratch);
/* Adds a mark of a snapshot to a batch that is not empty; json: its body. */
void store_batch_mark(struct store_batch *batch, const char *kind, const char *json, bool at_front);

/* ---- the rest ------------------------------------------------------------------------------ */

uint64_t store_clock_us(void);                                  /* monotonic */
void store_clock_after(uint32_t ms, struct timespec *ret_when); /* for pthread_cond_timedwait */

#endif
