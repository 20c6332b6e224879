/* mailbox.h: the file through which one rank and the node's agent speak. Libc only.
 *
 * One fixed-size file per local rank on tmpfs, named to the rank by KEEPSTEP_MAILBOX. The agent
 * makes it (mailbox_create) before the shim starts the rank; the rank's library (keepstep.c) maps
 * it. THE AGENT NEVER DEREFERENCES A MAPPING of it: it reads with pread and answers with pwrite, so
 * that a file that was truncated is an error (-ENODATA) and not a SIGBUS. What the rank wrote is
 * hostile: everything that this reader returns has been bounded and terminated.
 *
 * WHO WRITES WHAT (each area starts on a page of its own)
 *
 *   header    agent, once        magic, version, size, who this is
 *   order     agent              attempt, coordinates, rendezvous, restore; sequence lock
 *   flags     agent              save and stop requests, order to abort: self-checking words
 *   answers   agent              one per request slot, checksummed, number written last
 *   values    agent              one per get slot, checksummed, number written last
 *   status    rank               words, rings of steps and parameter hashes, communicators: all
 *                                under one sequence lock; doorbell
 *   requests  rank               ring of REQUESTS slots: checkpoint begin / shard / commit
 *   puts      rank               table: keys it gives to the other ranks of its attempt
 *   gets      rank               table: keys it asks for
 *
 * Level state everywhere: an agent that was killed at any line opens the file, scans requests, puts
 * and gets again, and goes on. Nothing is consumed by being read; a request is over when its answer
 * is written.
 *
 * WAKING. Rank to agent: after a request, put, get or change of phase the library pwrites the
 * doorbell word, so that an inotify watch (IN_MODIFY) on the file fires; also scan at every beat.
 * The agent's own pwrites fire the watch too; a scan writes nothing by itself, so this ends. Steps
 * ring only for the first step of an attempt. Agent to rank: mailbox_wake() after one or more
 * writes: a futex on header.wake, named by a read-only mapping that is never dereferenced.
 *
 * HOW EACH CALL OF keepstep.h TRAVELS (messages of proto/base/message.h)
 *
 *   step_begin, step_end, phase    status -> mailbox_read() -> rank_report.{phase, step, step_ms,
 *                                  compute_ms, phase_age_ms}. enum mailbox_phase = enum rank_phase
 *   coordinates, step_compute,     status -> mailbox_read() -> msg_rank_detail, at most once a
 *   loss, gradient_norm,           second and only when something changed. The controller compares
 *   communicator, collective,      the coordinates with its layout: `layout-mismatch`
 *   parameter_hash
 *   checkpoint_begin (rank 0)      request BEGIN  -> msg_checkpoint BEGIN {step, shard_count}
 *   checkpoint_shard               request SHARD  -> msg_checkpoint SHARD {step, bytes, hash,
 *                                  stall_ms, directory: the shard's path}
 *   checkpoint_commit (rank 0)     request COMMIT -> msg_checkpoint COMMIT {step, shard_count,
 *                                  parts, hash: of the manifest, directory; bytes 0: the sum
 *                                  of the shards}. shard_count 0: the program's own format
 *     msg_checkpoint.sequence = request.number, job from the header, attempt from the request.
 *     msg_checkpoint_answer {sequence, accepted, text} -> mailbox_answer_write(), mailbox_wake().
 *     Sent again in every new session while unanswered; the controller takes repeats.
 *   should_checkpoint, should_stop msg_desired.{save_request, stop_request} of rank 0's node ->
 *                                  mailbox_flags_write(). status.save_served is the save_request
 *                                  that the last checkpoint_begin answered
 *   on_abort                       msg_desired STOP {abort}, or any order for a newer attempt ->
 *                                  mailbox_abort_write() for every rank, mailbox_wake()
 *   exchange_put                   put -> msg_exchange PUT; again in every new session
 *   exchange_get                   get -> msg_exchange GET (or answered by the agent from another
 *                                  local rank's put); msg_exchange VALUE -> mailbox_value_write()
 *   restore_info                   msg_desired RUN {restore_step, restore_attempt, …} -> order
 *   next_attempt (in-process)      a higher msg_desired RUN -> mailbox_order_write(); the rank
 *                                  acknowledges by status.attempt = order.attempt
 *
 * Requests, puts and gets carry the attempt they belong to: the agent drops those of another than
 * the current one, so a key of an old attempt is unreadable. A full ring overwrites its oldest
 * request (the newest checkpoint is the one that counts): numbers then jump, which is shown as
 * view.dropped. */
#ifndef KEEPSTEP_RANK_MAILBOX_H
#define KEEPSTEP_RANK_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MAILBOX_VERSION = 2,
    MAILBOX_STEPS = 32,
    MAILBOX_COMMUNICATORS = 16,          /* COMMUNICATORS_MAX */
    MAILBOX_COMMUNICATOR_NAME_SIZE = 16, /* COMMUNICATOR_NAME_SIZE */
    MAILBOX_HASHES = 8,                  /* HASHES_MAX */
    MAILBOX_REQUESTS = 64,
    MAILBOX_PUTS = 16,
    MAILBOX_GETS = 16,
    MAILBOX_KEY_SIZE = 64,     /* EXCHANGE_KEY_SIZE */
    MAILBOX_VALUE_MAX = 4096,  /* EXCHANGE_VALUE_MAX */
    MAILBOX_PATH_SIZE = 512,   /* PATH_SIZE */
    MAILBOX_HASH_SIZE = 33,    /* HASH_TEXT_SIZE */
    MAILBOX_TEXT_SIZE = 192,   /* TEXT_SIZE */
    MAILBOX_ADDRESS_SIZE = 64, /* ADDRESS_SIZE */
    MAILBOX_ORDER_SIZE = 16,   /* "tp-cp-pp-dp" */
    MAILBOX_PAGE = 4096,
};
/* ThreadSanitizer does not follow fences, and says so. What they order lies between two processes,
 * which it does not follow either. */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

#define MAILBOX_STEP_MAX (UINT64_C(1) << 62)   /* more is garbage */
#define MAILBOX_MAGIC    0x31584f424d534b00ull /* "\0KSMBOX1" in the file */

enum mailbox_phase { /* the numbers of enum rank_phase */
                     MAILBOX_PHASE_INIT,
                     MAILBOX_PHASE_RESTORE,
                     MAILBOX_PHASE_STEP,
                     MAILBOX_PHASE_CHECKPOINT,
                     MAILBOX_PHASE_EVAL,
                     MAILBOX_PHASE_IDLE,
};
enum { MAILBOX_PHASE_COUNT = 6 };

enum mailbox_axis { /* the numbers of enum communicator_axis */
                    MAILBOX_AXIS_OTHER,
                    MAILBOX_AXIS_WORLD,
                    MAILBOX_AXIS_TENSOR,
                    MAILBOX_AXIS_CONTEXT,
                    MAILBOX_AXIS_PIPELINE,
                    MAILBOX_AXIS_DATA,
};
enum { MAILBOX_AXIS_COUNT = 6 };
enum mailbox_operation { /* the numbers of enum collective_operation */
                         MAILBOX_OPERATION_NONE,
                         MAILBOX_OPERATION_OTHER,
                         MAILBOX_OPERATION_ALL_REDUCE,
                         MAILBOX_OPERATION_ALL_GATHER,
                         MAILBOX_OPERATION_REDUCE_SCATTER,
                         MAILBOX_OPERATION_BROADCAST,
                         MAILBOX_OPERATION_REDUCE,
                         MAILBOX_OPERATION_ALL_TO_ALL,
                         MAILBOX_OPERATION_SEND,
                         MAILBOX_OPERATION_RECEIVE,
                         MAILBOX_OPERATION_BARRIER,
};
enum { MAILBOX_OPERATION_COUNT = 11 };

/* ---- the file --------------------------------------------------------------------------- */

struct mailbox_header {
    uint64_t magic;
    uint32_t version;
    uint32_t size; /* of the file: sizeof(struct mailbox_file) */
    uint32_t job;
    uint32_t rank;      /* global, at creation */
    uint32_t save_base; /* flags.save_request at creation: saves asked for before are not ours */
    uint32_t wake;      /* the futex word; grows with each mailbox_wake */
};

struct mailbox_coordinates {
    uint32_t tensor, context, pipeline, data;
};

/* What the controller wants of this rank now. Written whole, under `lock` (odd: being written). */
struct mailbox_order {
    uint64_t lock;
    uint32_t attempt;
    uint32_t rank, world;
    uint32_t local_rank, local_world;
    uint32_t slot, slot_count;
    struct mailbox_coordinates sizes;       /* of the layout */
    struct mailbox_coordinates coordinates; /* of this rank */
    char order[MAILBOX_ORDER_SIZE];
    uint32_t master_port;
    char master_address[MAILBOX_ADDRESS_SIZE];
    uint32_t restore_attempt;
    uint64_t restore_step;                        /* 0 = from the beginning */
    char restore_directory[MAILBOX_PATH_SIZE];    /* "" = none */
    char checkpoint_directory[MAILBOX_PATH_SIZE]; /* where step-S.a-A folders go; "" = unknown */
    uint64_t checksum;
};

/* One pwrite; `check` is the checksum of the words before it, or they are not believed. */
struct mailbox_flags {
    uint32_t save_request;
    uint32_t stop_request; /* 0 or 1 */
    uint32_t abort_below;  /* attempts below it are over: communicators may be aborted; 0 = none */
    uint32_t reserved;
    uint64_t check;
};

/* A number of the program, as the bits of an IEEE 754 float: so it passes through programs that
 * count in integers only, and positive ones compare as their bits do. 0 = the program did not say;
 * a zero that it said is -0.0. mailbox_real() makes it. */
typedef uint32_t mailbox_real_bits;

struct mailbox_step {
    uint64_t step;
    uint64_t end_us; /* CLOCK_MONOTONIC */
    uint32_t total_us;
    uint32_t compute_us; /* 0 = the program did not say */
    mailbox_real_bits loss;
    mailbox_real_bits gradient_norm;
};

/* How far a communicator has come, in operations since it was made. */
struct mailbox_communicator {
    char name[MAILBOX_COMMUNICATOR_NAME_SIZE];
    uint64_t enqueued;
    uint64_t completed; /* <= enqueued */
    uint32_t axis;      /* enum mailbox_axis */
    uint32_t operation; /* enum mailbox_operation: of the oldest one that is not complete */
    int32_t peer;       /* of a send or receive: rank in the communicator; else -1 */
    uint32_t reserved;
};

/* A hash of this rank's parameters after `step`. */
struct mailbox_hash {
    uint64_t step; /* 0 = none */
    uint64_t hash;
};

struct mailbox_status {
    uint64_t lock; /* odd: being written */
    uint32_t pid;
    uint32_t attempt; /* the one that the library works for: acknowledges order.attempt */
    uint32_t phase;   /* enum mailbox_phase */
    uint32_t save_served;
    uint64_t phase_since_ms;  /* CLOCK_MONOTONIC */
    uint64_t step_begun;      /* 0 = none */
    uint64_t step_since_ms;   /* when a step last began or ended */
    uint64_t step_completed;  /* 0 = none */
    uint64_t step_count;      /* how many completed: the newest is ring[(step_count - 1) % STEPS] */
    uint64_t request_count;   /* requests ever made */
    uint64_t request_dropped; /* of them: overwritten before they were answered */
    uint64_t exchange_count;  /* puts and gets ever made */
    uint32_t has_coordinates;
    struct mailbox_coordinates coordinates; /* as the program computed them */
    uint32_t finished;                      /* keepstep_finish was called */
    uint32_t communicator_count;
    uint32_t reserved;
    uint64_t hash_count; /* told so far: the newest is hashes[(hash_count - 1) % HASHES] */
    struct mailbox_step ring[MAILBOX_STEPS];
    struct mailbox_hash hashes[MAILBOX_HASHES];
    struct mailbox_communicator communicators[MAILBOX_COMMUNICATORS];
};

enum mailbox_request_kind { MAILBOX_BEGIN = 1, MAILBOX_SHARD = 2, MAILBOX_COMMIT = 3 };
struct mailbox_request {
    uint64_t number; /* from 1; its slot is number % MAILBOX_REQUESTS; 0 = empty */
    uint32_t kind;   /* enum mailbox_request_kind */
    uint32_t attempt;
    uint32_t rank; /* global */
    uint32_t shard_count;
    uint32_t parts;
    uint32_t stall_ms;
    uint64_t step;
    uint64_t bytes;
    char hash[MAILBOX_HASH_SIZE + 7];
    char path[MAILBOX_PATH_SIZE];
    uint64_t checksum; /* FNV-1a of the bytes before it, as in all that follow */
};

struct mailbox_answer {
    uint64_t number; /* of the request; written after the rest */
    int32_t result;  /* 0 accepted, else -errno: -ESTALE refused */
    uint32_t reserved;
    char text[MAILBOX_TEXT_SIZE];
    uint64_t checksum;
};

struct mailbox_put {
    uint64_t number; /* 0 = free */
    uint32_t attempt;
    uint32_t size;
    char key[MAILBOX_KEY_SIZE];
    uint8_t value[MAILBOX_VALUE_MAX];
    uint64_t checksum;
};

struct mailbox_get {
    uint64_t number; /* 0 = free; index = number % MAILBOX_GETS; open until the value's equals it */
    uint32_t attempt;
    uint32_t reserved;
    char key[MAILBOX_KEY_SIZE];
    uint64_t checksum;
};

struct mailbox_value {
    uint64_t number; /* of the get; written after the rest */
    int32_t result;  /* 0, or -errno: there will be no value */
    uint32_t size;
    uint8_t value[MAILBOX_VALUE_MAX];
    uint64_t checksum;
};

#define MAILBOX_AREA(declaration) declaration __attribute__((aligned(MAILBOX_PAGE)))
struct mailbox_file {
    MAILBOX_AREA(struct mailbox_header header);
    MAILBOX_AREA(struct mailbox_order order);
    MAILBOX_AREA(struct mailbox_flags flags);
    MAILBOX_AREA(struct mailbox_answer answers[MAILBOX_REQUESTS]);
    MAILBOX_AREA(struct mailbox_value values[MAILBOX_GETS]);
    MAILBOX_AREA(struct mailbox_status status);
    uint64_t doorbell;
    MAILBOX_AREA(struct mailbox_request requests[MAILBOX_REQUESTS]);
    MAILBOX_AREA(struct mailbox_put puts[MAILBOX_PUTS]);
    MAILBOX_AREA(struct mailbox_get gets[MAILBOX_GETS]);
};

/* ---- the agent's side (mailbox.c): 0 or -errno; none of these blocks or maps ------------- */

/* Makes dir_fd/name (O_EXCL, 0600, every page allocated, owned by uid:gid when they differ from
 * ours) with the order and the flags in it, and opens it. order->lock and checksum are ignored.
 * *ret_fd is the caller's. On failure nothing stays. -EEXIST: there is one; mailbox_open it, or,
 * when that says -EBADMSG or -ENODATA, an agent died while it made it: unlink it and make it
 * again. The header comes last, so a half-made one is never taken for whole. */
int mailbox_create(int dir_fd, const char *name, uint32_t uid, uint32_t gid, uint32_t job,
                   const struct mailbox_order *order, uint32_t save_request, int *ret_fd);
/* -ENOENT, -ENODATA (wrong size), -EBADMSG (not a mailbox), -EPROTO (version), -ELOOP (a link). */
int mailbox_open(int dir_fd, const char *name, int *ret_fd);

/* What the rank says, kept by the caller from read to read (zeroed before the first). When three
 * readings in a row met a writer at work (a rank that was stopped or killed inside one), `torn` is
 * set and everything else stays the last good copy. */
struct mailbox_view {
    bool torn;
    bool valid; /* a good copy was read at least once */
    bool has_coordinates;
    bool finished;
    uint32_t pid; /* as claimed; never signal it */
    uint32_t attempt;
    uint8_t phase; /* < MAILBOX_PHASE_COUNT */
    uint32_t save_served;
    uint64_t step;       /* last completed, 0 = none */
    uint64_t step_begun; /* 0 = none */
    uint64_t changed_ms; /* CLOCK_MONOTONIC when phase or step last changed; never in the future */
    uint32_t step_ms;    /* median of the ring, 0 = unknown */
    uint32_t compute_ms; /* same */
    uint64_t step_count;
    uint32_t steps_held; /* entries of `steps`, oldest first */
    struct mailbox_step steps[MAILBOX_STEPS];
    struct mailbox_coordinates coordinates;
    uint32_t hashes_held; /* entries of `hashes`, oldest first */
    struct mailbox_hash hashes[MAILBOX_HASHES];
    uint32_t communicator_count; /* each: a clean name, axis and operation known, counts in order */
    struct mailbox_communicator communicators[MAILBOX_COMMUNICATORS];
    uint64_t dropped; /* requests that were overwritten before they were answered */
    /* As claimed. Each is raised after the slot is whole: where it did not move, nothing is new. */
    uint64_t request_count;
    uint64_t exchange_count;
};
/* 0 (also when torn), -ENODATA: truncated, -EBADMSG: garbage (view unchanged). now_ms:
 * CLOCK_MONOTONIC, to bound what the rank claims. */
int mailbox_read(int fd, uint64_t now_ms, struct mailbox_view *view);

/* Walks what is open: *cursor = 0 first, call until it returns 0; 1 = *ret is one, checked and
 * terminated (slots that are torn or garbage are passed over; a torn one rings again when whole).
 * Requests come in no order; -ENODATA: truncated. */
int mailbox_next_request(int fd, uint32_t *cursor, struct mailbox_request *ret_request);
/* The request of that number alone: 1 when it is whole and open, 0 when not (any more). */
int mailbox_request_at(int fd, uint64_t number, struct mailbox_request *ret_request);
int mailbox_next_put(int fd, uint32_t *cursor, struct mailbox_put *ret_put);
int mailbox_next_get(int fd, uint32_t *cursor, struct mailbox_get *ret_get);

/* Answers. text: cut to size, may be NULL. Answering twice is harmless. */
int mailbox_answer_write(int fd, uint64_t number, int32_t result, const char *text);
/* For the open get that has this number; -ENOENT: none (any more). size <= MAILBOX_VALUE_MAX. */
int mailbox_value_write(int fd, uint64_t number, int32_t result, const void *value, uint32_t size);
/* Each keeps the words of the other, also after a restart of the agent: they are read back, and a
 * rank that scribbled over them only finds itself asked for nothing. */
int mailbox_flags_write(int fd, uint32_t save_request, bool stop_request);
int mailbox_abort_write(int fd, uint32_t abort_below);
int mailbox_order_write(int fd, const struct mailbox_order *order);

/* The futex's name: one read-only page, only ever handed to the kernel. *ret_map is the caller's:
 * mailbox_unmap_wake. mailbox_wake also grows the word by pwrite. */
int mailbox_map_wake(int fd, void **ret_map);
void mailbox_unmap_wake(void *map);
int mailbox_wake(int fd, void *map);

/* Both sides. */
uint64_t mailbox_checksum(const void *data, size_t size); /* FNV-1a 64 */
mailbox_real_bits mailbox_real(double value);
/* 1..15 printable ASCII characters, none that JSON would have to escape. */
bool mailbox_communicator_name_is_good(const char *name);

#endif
