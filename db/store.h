/* store.h: the journal and what is read back from it. One SQLite file.
 *
 * The journal is the truth: one row a record, in order, without holes. Every other table is a
 * projection, written from the record in the same transaction, and can be thrown away and folded
 * again (STORE_REBUILD). A store is used by one thread, its owner's; commits happen on a thread of
 * the store's own, so that no disk ever holds up the owner.
 *
 * The contract, which a replicated journal could keep just as well:
 *   - Batches become durable in the order of store_append, each wholly or not at all.
 *   - A batch ends as *committed* (its ticket is <= durable_ticket), or stays pending while the
 *     store is STORE_RETRYING (the same batch is tried again, for ever, with a back-off; `reason`
 *     says why), or the store is STORE_FENCED: somebody else wrote this journal, the process must
 *     end. After an error in COMMIT itself nobody knows; the store reads back and finds out.
 *   - What was reported durable survives a crash of the process and of the machine.
 *
 *     store_open -> store_replay -> store_append … -> store_poll (when store_wake_fd is readable)
 *     -> store_snapshot_* now and then -> store_close
 *
 * Errors of store_open, each with one sentence that says what, where and what to do; nothing has
 * been written then: -ENOENT (folder or file is not there), -EACCES, -EROFS, -EREMOTE (network
 * file system), -EBUSY (another controller has it), -EMEDIUMTYPE (not a store of ours),
 * -EPROTONOSUPPORT (of a newer version), -EUCLEAN (damaged). */
#ifndef KEEPSTEP_DB_STORE_H
#define KEEPSTEP_DB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "controller/core/record.h"
#include "proto/base/err.h"

struct store;
struct store_reader;

enum {
    STORE_SCHEMA_VERSION = 2,
    STORE_SNAPSHOT_EVERY = 50000, /* records between two snapshots */
    STORE_PENDING_MAX = 262144,   /* records that wait for the disk; store_append refuses more */
    STORE_SNAPSHOT_MAX = 131072,  /* records of one snapshot */
    STORE_GROUP_MAX = 8192,       /* records of several batches in one transaction */
    STORE_QUERY_MS = 2000,        /* a reader's query may take this long */
    STORE_QUERY_ROWS_MAX = 10000, /* and give this many rows */
    STORE_WAL_ALARM_MIB = 256,    /* a write-ahead log above this is an alarm */
    STORE_RETRY_FIRST_MS = 20,    /* back-off of failed commits: doubled … */
    STORE_RETRY_LAST_MS = 2000,   /* … up to this */
};

enum store_mode {
    STORE_CREATE,     /* make a new store where there is none, else open the one there */
    STORE_READ_WRITE, /* it must be there */
    STORE_REBUILD,    /* same, and all projections are dropped and folded again from the journal */
};

/* For drills: called on the commit thread around each COMMIT; last is the sequence of the last
 * record of the transaction. It may end the process, and nothing else. */
enum store_stage { STORE_BEFORE_COMMIT, STORE_AFTER_COMMIT };
typedef void store_hook(enum store_stage stage, uint64_t first, uint64_t last, void *context);

/* All may be 0. Pointers are borrowed until store_close. */
struct store_options {
    store_hook *hook;
    void *hook_context;
    uint64_t wal_alarm_bytes; /* 0: STORE_WAL_ALARM_MIB */
    const char *vfs;          /* name of an SQLite VFS; tests put their faults there */
    /* statfs's f_type of an open descriptor; tests say what they like. NULL: the real one. */
    int64_t (*file_system)(int fd, void *context);
    void *file_system_context;
};

enum store_condition {
    STORE_COMMITTING, /* all is well */
    STORE_RETRYING,   /* the last try failed; `reason` */
    STORE_FENCED,     /* another writer; nothing will ever be committed again; `reason` */
};

struct store_status {
    uint8_t condition;          /* enum store_condition */
    char reason[ERR_TEXT_SIZE]; /* "" while committing */
    uint32_t tries;             /* failed ones in a row */
    uint64_t durable_ticket;    /* batches up to this one are committed */
    uint64_t last_ticket;       /* given out by store_append */
    uint64_t durable_sequence;  /* last record in the journal */
    uint32_t pending_records;   /* appended, not yet durable; the core wants to know */
    uint64_t pending_bytes;     /* memory that they take */
    uint64_t since_snapshot;    /* records after the last snapshot, pending ones included */
    uint64_t wal_bytes;         /* size of the write-ahead log at the last commit */
    bool wal_alarm;             /* above the limit: a reader that never ends, or a full disk */
    uint64_t commits;           /* transactions of this process */
    uint64_t commit_us_last;    /* how long the last one took */
    uint64_t commit_us_max;
    uint64_t projection_faults; /* statements that a record broke: --rebuild is due; a bug */
    char projection_fault[ERR_TEXT_SIZE]; /* the first of them */
};

/* Opens the store, takes the lock that is held until store_close, checks the file, migrates an
 * older schema (after a copy beside it, path.v<N>), rebuilds when asked. options may be NULL. */
MUST_CHECK int store_open(const char *path, enum store_mode mode,
                          const struct store_options *options, struct store **ret_store,
                          struct err *err);

/* Waits until all is durable, timeout_ms at most, then ends the thread and closes. Takes NULL.
 * -EIO with the number of records that were lost when it was not; the store is gone either way. */
int store_close(struct store *store, uint32_t timeout_ms, struct err *err);

/* True when the journal has no record: the owner's core will begin a new store. */
bool store_is_empty(struct store *store);

/* ---- append ------------------------------------------------------------------------------ */

/* Hands a batch over; everything is copied, record.text too. The records' `sequence` is not looked
 * at: they get *ret_sequence onwards (may be NULL), final once durable. *ret_ticket (may be NULL)
 * is compared with durable_ticket. A batch of 0 records gives the ticket of the last one.
 * -ENOBUFS: too much waits, nothing was taken; -ESTALE: fenced. */
MUST_CHECK int store_append(struct store *store, const struct record *records, uint32_t count,
                            uint64_t *ret_ticket, uint64_t *ret_sequence, struct err *err);

/* Waits until a ticket is durable: 0, -ETIMEDOUT with the store's reason, -ESTALE. */
MUST_CHECK int store_wait(struct store *store, uint64_t ticket, uint32_t timeout_ms,
                          struct err *err);

/* Both in one, for tools and tests. After a failure the batch is still pending. */
MUST_CHECK int store_append_sync(struct store *store, const struct record *records, uint32_t count,
                                 uint32_t timeout_ms, struct err *err);

/* Readable (level) when the status has changed since the last store_poll. Owned by the store. */
int store_wake_fd(const struct store *store);
void store_poll(struct store *store, struct store_status *ret_status);   /* and clears it */
void store_status(struct store *store, struct store_status *ret_status); /* only looks */

/* ---- snapshots --------------------------------------------------------------------------- */

/* The whole state as image records, in a row and in one transaction, with marks around it, so that
 * the next start reads these and what came after. The state must be the fold of exactly what was
 * appended so far. Between begin and end no append.
 *     store_snapshot_begin(store);
 *     rc = core_snapshot(core, store_snapshot_add, store);
 *     rc = store_snapshot_end(store, rc, &ticket, &err);
 * store_snapshot_add is a core_visit_record. end with a walk result other than 0 drops what was
 * gathered and returns it. -ENOBUFS, -ESTALE as store_append; -EINVAL when there was no record. */
bool store_snapshot_due(struct store *store);
void store_snapshot_begin(struct store *store);
MUST_CHECK int store_snapshot_add(const struct record *record, void *store);
MUST_CHECK int store_snapshot_end(struct store *store, int walk_result, uint64_t *ret_ticket,
                                  struct err *err);

/* ---- replay ------------------------------------------------------------------------------ */

/* A row that is there and cannot be read as a record. */
struct store_bad {
    uint64_t sequence;
    uint32_t job; /* whose records must be kept and ignored from now on; 0 = of no job */
    uint32_t node;
    const char *kind;
    const char *subject;
    const char *reason;
};

/* Each returns 0 to go on; anything else ends the replay and is returned. `record` and its text
 * are borrowed for the call. */
struct store_visitor {
    int (*record)(const struct record *record, void *context);
    int (*bad)(const struct store_bad *bad, void *context);
    void *context;
};

struct store_replayed {
    uint64_t records;          /* visited */
    uint64_t bad;              /* rows that could not be read */
    uint64_t first;            /* sequence at which the replay began; 0 = empty journal */
    uint64_t last;             /* last sequence seen */
    uint32_t snapshots_broken; /* torn or unreadable ones that were passed over */
    bool from_snapshot;
};

/* from = 0: the last whole snapshot (its images), then every fact after it: the way to start.
 * from > 0: every fact from that sequence on; images are not visited.
 * -EPROTONOSUPPORT: a record of a newer version; -EUCLEAN: records are missing in the middle. */
MUST_CHECK int store_replay(struct store *store, uint64_t from, const struct store_visitor *visitor,
                            struct store_replayed *ret_replayed, struct err *err);

/* ---- questions --------------------------------------------------------------------------- */

/* A read-only connection, beside the writer and never in its way; one thread at a time each. Any
 * number of them, in any process. Sees what is durable. Close it before store_close. */
MUST_CHECK int store_reader_open(const char *path, struct store_reader **ret_reader,
                                 struct err *err);
struct store_reader *store_reader_close(struct store_reader *reader); /* takes NULL, returns NULL */
void store_reader_limit(struct store_reader *reader, uint32_t query_ms); /* tests */

/* Rows as an array of objects (owned by the caller), at most `limit` of them. parameters: an array
 * for ?1, ?2 … of integers, texts, booleans, nulls; borrowed; may be NULL. The SQL is ours, never a
 * user's. *ret_more (may be NULL): there were more rows. -ETIMEDOUT after STORE_QUERY_MS. */
MUST_CHECK int store_query_json(struct store_reader *reader, const char *sql,
                                const json_t *parameters, uint32_t limit, json_t **ret_rows,
                                bool *ret_more, struct err *err);

/* What `watch events` shows. 0, NULL and "" mean any. */
struct store_event_filter {
    uint64_t after;         /* sequence; events after it */
    uint64_t until;         /* sequence; events up to it: bounds what one question looks through */
    uint64_t wall_from_ms;  /* not older than this */
    const char *type;       /* exact */
    const char *subject;    /* exact, "job/llama" */
    uint8_t severity_least; /* enum severity_word */
    uint32_t job;
    uint32_t node;
    uint32_t recovery;
};

/* {revision, wall_ms, type, severity, subject, job, job_id, node, node_id, recovery, attempt, actor,
 * message, kind, data}, oldest first; job and node are names or null, data is the record's body. */
MUST_CHECK int store_events(struct store_reader *reader, const struct store_event_filter *filter,
                            uint32_t limit, json_t **ret_rows, bool *ret_more, struct err *err);
/* The newest `limit` of them instead, still oldest first. */
MUST_CHECK int store_events_last(struct store_reader *reader,
                                 const struct store_event_filter *filter, uint32_t limit,
                                 json_t **ret_rows, struct err *err);

/* The stored file of a job, as its JSON text: owned by the caller (mem_free). revision 0: newest.
 * -ENOENT when there is none. */
MUST_CHECK int store_spec_text(struct store_reader *reader, uint32_t job, uint32_t revision,
                               char **ret_text, size_t *ret_size, struct err *err);

#endif
