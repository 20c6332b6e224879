/* shim.h: the contract between `keepstep-ranks` (the shim) and whoever starts it (agent/io).
 *
 * The shim is the parent of all ranks of one (job, attempt) on one node. It lives outside the
 * agent's life: an agent may die, be upgraded and come back, and no exit code is lost. Everything
 * here is libc only. The shim links launch.c, record.c and sweep.c; an agent links launch.c,
 * record.c and client.c and opens nothing else of this room.
 *
 * THE FOLDER. One per attempt, made by the agent, 0700, on a local disk (not tmpfs: the ends must
 * survive): STATE/ranks/job-<id>/attempt-<n>/ with
 *
 *   launch   all parameters, written once by shim_launch_write() before the shim is started
 *   lock     held (POSIX lock) by the living shim: shim_alive() asks who has it
 *   ends     fixed-size records, each durable before anybody is told: shim_ends_read()
 *   sock     Unix stream socket, 0600, peers of the same uid or root: shim_connect()
 *   log      what the shim has to say to people, one line each
 *
 * STARTING. The agent runs `keepstep-ranks --dir FOLDER`, reads its stderr (one line when refused)
 * and waits for its exit, which comes within a second and means:
 *
 *   SHIM_EXIT_OK        the shim is up (its own session, re-parented); every rank's process exists,
 *                       is recorded, and has been told to go on to exec
 *   SHIM_EXIT_BAD       the launch file is missing, torn, garbage, or asks for what is not allowed
 *   SHIM_EXIT_RUNNING   another shim holds the lock: connect to it
 *   SHIM_EXIT_SPENT     this attempt was begun before and its shim is gone: never run again. Read
 *                       `ends`; sweep what is left (below); ask for the next attempt
 *   SHIM_EXIT_SYSTEM    the system refused (disk full, no processes); no program ran. The next try
 *                       may say SPENT, when it was refused after the attempt was recorded as begun
 *
 * A rank starts at most once whatever dies when: the OPEN record is durable before the first
 * fork, and each child is in the cgroup, and waits until its START record (pid, start time) is
 * durable, before it goes on to exec; when the shim dies before that, the child ends without having
 * run anything. So: no OPEN record, nothing ever ran; OPEN without START, no program ran; START, it
 * may have run. Under a service manager the agent's unit needs KillMode=process.
 *
 * TALKING. Every request (struct shim_request) is answered by one struct shim_status, the whole
 * level state; after SHIM_SUBSCRIBE one more follows each change. TERM and KILL are answered when
 * the order is durable and the signals are sent, not when the processes are gone. Losing the
 * connection loses nothing: connect again and ask. Frames have fixed sizes and host byte order.
 * The shim never waits for a rank: a process in D state delays no answer.
 *
 *   TERM   to the process groups of all ranks (each rank leads its own session).
 *   KILL   cgroup.kill where there is a cgroup; otherwise, and in addition, the process groups and
 *          all descendants (the shim is a subreaper, so what was double-forked away is still its
 *          descendant); again on every change until empty.
 *   empty  no child left (ECHILD) and, with a cgroup, populated 0. Zombies are reaped at once.
 *
 * ENDING. When empty, the shim writes the EMPTY record, tells its clients, and exits by itself. So
 * an agent decides: lock held: connect. Not held and EMPTY recorded: over, all ends known. Not held
 * and no EMPTY record: the shim died; its ranks are orphans (their codes are lost), the attempt is
 * never run again, and `keepstep-ranks --dir FOLDER --sweep [--kill]` (a process of its own, since
 * reading /proc may hang; give it a deadline) prints one line "pid <n> <how found>" each and exits
 *
 *   SHIM_EXIT_OK        nothing is left, and a cgroup's populated 0 proves it
 *   SHIM_EXIT_UNPROVEN  nothing was found, but without a cgroup this is no proof
 *   SHIM_EXIT_ALIVE     something is (with --kill: was just killed and may still be) alive: again
 *   SHIM_EXIT_RUNNING   a living shim owns them: not swept
 *
 * OUTPUT is the rank's own descriptor; the shim has none of it and so cannot trim it, nor hang on
 * the file system where it lies. A limit (head and tail kept) belongs to the helper that reads logs
 * as the job's user: fallocate(FALLOC_FL_PUNCH_HOLE) in the middle of an append-only file moves no
 * offset of the writer.
 *
 * An orphan is found by its cgroup, by its recorded pid and start time, or by KEEPSTEP_COOKIE in
 * its environment. */
#ifndef KEEPSTEP_SHIM_SHIM_H
#define KEEPSTEP_SHIM_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SHIM_RANKS_MAX = 16,               /* RANKS_PER_NODE_MAX of the wire */
    SHIM_TEXT_MAX = 128 * 1024 - 1,    /* one argument, variable or path, without its NUL */
    SHIM_LIST_MAX = 2048,              /* elements of one argv or env list */
    SHIM_GROUPS_MAX = 256,             /* supplementary groups */
    SHIM_LAUNCH_MAX = 4 * 1024 * 1024, /* bytes of a launch file */
    SHIM_COOKIE_SIZE = 33,             /* 32 hex digits and the NUL */
    SHIM_PATH_SIZE = 4096,
};

#define SHIM_FILE_LAUNCH "launch"
#define SHIM_FILE_LOCK   "lock"
#define SHIM_FILE_ENDS   "ends"
#define SHIM_FILE_SOCK   "sock"
#define SHIM_FILE_LOG    "log"
#define SHIM_COOKIE_KEY  "KEEPSTEP_COOKIE" /* set by the shim itself; not to be in the lists */

enum shim_exit {
    SHIM_EXIT_OK = 0,
    SHIM_EXIT_USAGE = 2,
    SHIM_EXIT_BAD = 3,
    SHIM_EXIT_RUNNING = 4,
    SHIM_EXIT_SPENT = 5,
    SHIM_EXIT_SYSTEM = 6,
    SHIM_EXIT_ALIVE = 10,
    SHIM_EXIT_UNPROVEN = 11,
    SHIM_EXIT_CRASH = 99, /* --crash-at struck (tests) */
};

/* ---- the launch file -------------------------------------------------------------------- */

/* All pointers are borrowed, for both directions: the encoder reads the caller's memory, decoded
 * ones point into the decoder's. Lists are `count` texts; the decoder adds a NULL after the last.
 */
struct shim_list {
    uint32_t count;
    const char *const *items;
};

struct shim_launch_rank {
    uint32_t rank;         /* global */
    struct shim_list argv; /* at least one; argv[0] is looked up in the PATH of env */
    struct shim_list env;  /* "KEY=value", after and above the common ones */
    const char *output;    /* stdout and stderr: opened by the rank's process as its user, with
                              O_APPEND|O_CREAT|O_NOFOLLOW, relative to workdir; missing folders of
                              it are made by that user; "" is /dev/null */
};

struct shim_launch {
    uint32_t job;
    uint32_t attempt;
    char cookie[SHIM_COOKIE_SIZE]; /* 32 random lower-case hex digits of this (job, attempt) */
    uint32_t uid;                  /* of every rank; a shim that is not root takes only its own */
    uint32_t gid;
    uint32_t group_count;
    uint32_t groups[SHIM_GROUPS_MAX]; /* supplementary, all of them */
    bool allow_root;                  /* uid 0 is refused without it */
    uint32_t umask;                   /* 0..0777 */
    uint64_t core_bytes;              /* RLIMIT_CORE, soft; UINT64_MAX = unlimited */
    const char *workdir;              /* absolute */
    const char *cgroup; /* absolute path of a v2 cgroup of this attempt alone, made by the shim when
                           missing; "" or one that cannot be used: done without (the status and the
                           OPEN record say which) */
    struct shim_list env; /* common: HOME, USER, PATH … nothing is inherited from the shim */
    uint32_t rank_count;  /* 1..SHIM_RANKS_MAX */
    struct shim_launch_rank ranks[SHIM_RANKS_MAX]; /* index = local rank */
};

/* Writes FOLDER/launch by temporary name, fsync, rename, fsync of the folder. dir_fd: the open
 * folder. -EINVAL: a limit or rule above is broken; -EEXIST: there is one with other content
 * (an attempt's parameters never change; the same content again is 0). */
int shim_launch_write(int dir_fd, const struct shim_launch *launch);

/* Reads and checks all of it. *ret_memory owns what the launch points into: free(3) it.
 * -ENOENT, -EBADMSG (torn or garbage), -EPROTO (another version), -EINVAL (a rule is broken). */
int shim_launch_read(int dir_fd, struct shim_launch *ret_launch, void **ret_memory);

/* The same on bytes; for tests and fuzzing. *ret_bytes is malloc'ed. The decoder changes nothing in
 * `bytes` and points into it; *ret_memory owns only the lists. */
int shim_launch_encode(const struct shim_launch *launch, uint8_t **ret_bytes, size_t *ret_size);
int shim_launch_decode(const uint8_t *bytes, size_t size, struct shim_launch *ret_launch,
                       void **ret_memory);

/* ---- the ends file ---------------------------------------------------------------------- */

enum shim_record_kind {
    SHIM_RECORD_OPEN = 1,      /* the attempt is begun; pid, start_ticks: the shim; code: 1 = with
                                  a cgroup; rank: how many there are */
    SHIM_RECORD_START = 2,     /* rank (local), pid, start_ticks; code: the global rank */
    SHIM_RECORD_EXITED = 3,    /* code: exit status */
    SHIM_RECORD_SIGNALED = 4,  /* code: signal number */
    SHIM_RECORD_UNSTARTED = 5, /* code: errno; stage: where. No program ran */
    SHIM_RECORD_ORDER = 6,     /* code: SIGTERM or SIGKILL, the first of each */
    SHIM_RECORD_EMPTY = 7,     /* proven: nothing is left; the last record */
};

/* Where the way to exec ended. */
enum shim_stage {
    SHIM_STAGE_NONE,
    SHIM_STAGE_SESSION,
    SHIM_STAGE_LIMITS,
    SHIM_STAGE_USER,
    SHIM_STAGE_WORKDIR,
    SHIM_STAGE_OUTPUT,
    SHIM_STAGE_EXEC,
};
const char *shim_stage_name(uint32_t stage); /* "workdir" …; "unknown" */

/* 80 bytes, host byte order (the file never leaves its host). */
struct shim_record {
    uint32_t magic; /* SHIM_RECORD_MAGIC */
    uint32_t kind;
    uint64_t sequence; /* 1, 2, 3 … in this file; of an end: rank_report.end_sequence */
    uint32_t job;
    uint32_t attempt;
    uint32_t rank; /* local */
    int32_t pid;
    uint64_t start_ticks; /* field 22 of /proc/<pid>/stat: with the pid it names one process */
    int32_t code;
    uint16_t stage;      /* UNSTARTED: enum shim_stage */
    uint16_t after_stop; /* an end: 1 = it began after the first TERM or KILL order */
    uint64_t wall_ms;    /* since 1970, for people */
    uint64_t mono_ms;    /* CLOCK_MONOTONIC of this boot */
    uint64_t boot_hash;  /* FNV-1a of the kernel's boot id: pids of another boot mean nothing */
    uint64_t checksum;   /* FNV-1a of the bytes before it */
};
#define SHIM_RECORD_MAGIC 0x5245534bu /* "KSER" */
enum { SHIM_RECORDS_MAX = 64 };
_Static_assert(sizeof(struct shim_record) == 80, "the file's layout");

/* Folds all whole records of FOLDER/ends, in order; a torn or foreign tail ends the reading and is
 * counted, never an error. -ENOENT: no such file (never begun). */
struct shim_ends {
    uint32_t count;
    bool torn; /* bytes that are no record follow the last good one */
    struct shim_record records[SHIM_RECORDS_MAX];
};
int shim_ends_read(int dir_fd, struct shim_ends *ret_ends);

/* ---- the socket ------------------------------------------------------------------------- */

enum shim_op {
    SHIM_LIST = 1,
    SHIM_TERM = 2,
    SHIM_KILL = 3,
    SHIM_SUBSCRIBE = 4,
};

struct shim_request { /* 16 bytes */
    uint32_t magic;   /* SHIM_WIRE_MAGIC */
    uint32_t op;
    uint64_t nonce; /* comes back in the answer; 0 is kept for pushed changes */
};
#define SHIM_WIRE_MAGIC 0x3157534bu /* "KSW1" */

enum shim_rank_state { /* the numbers of enum rank_state in proto/base/message.h, and STARTING */
                       SHIM_RANK_NONE = 0,
                       SHIM_RANK_RUNNING = 1,
                       SHIM_RANK_EXITED = 2,
                       SHIM_RANK_SIGNALED = 3,
                       SHIM_RANK_UNSTARTED = 4,
                       SHIM_RANK_STARTING = 5, /* forked, exec not yet reached (a hung file system
                                                  …): RANK_RUNNING */
};

struct shim_rank_status {
    uint32_t rank;      /* global */
    uint8_t state;      /* enum shim_rank_state */
    uint8_t stage;      /* UNSTARTED: enum shim_stage */
    uint8_t after_stop; /* 1: began to end after the first TERM or KILL */
    uint8_t reserved;
    int32_t code;
    int32_t pid;
    uint64_t start_ticks;
    uint64_t end_sequence; /* of its end record; 0 while alive */
    uint64_t end_wall_ms;
    uint64_t end_mono_ms;
};

struct shim_status {
    uint32_t magic; /* SHIM_WIRE_MAGIC */
    uint32_t size;  /* sizeof(struct shim_status) */
    uint64_t nonce; /* of the request; 0: a change, told to subscribers */
    uint32_t job;
    uint32_t attempt;
    int32_t shim_pid;
    uint32_t rank_count;
    uint8_t empty; /* these four: 0 or 1 */
    uint8_t term_ordered;
    uint8_t kill_ordered;
    uint8_t has_cgroup;
    int32_t error; /* of the request: 0, -EINVAL unknown op, -EIO the order could not be recorded */
    uint64_t sequence;    /* of the last durable record */
    uint32_t alive_count; /* ranks whose process is not reaped yet */
    uint32_t reserved;
    struct shim_rank_status ranks[SHIM_RANKS_MAX]; /* index = local rank */
};

/* Client side (client.c). Nothing here blocks.
 * shim_alive: 1 and the shim's pid, 0 nobody holds the lock, or -errno.
 * shim_connect: a connected non-blocking close-on-exec descriptor; -ECONNREFUSED or -ENOENT: no
 *   shim there (look at shim_alive again); -EAGAIN: it does not accept (stopped).
 * shim_send: -EAGAIN when the socket is full (it never is with one request at a time).
 * shim_receive: reads what is there into *buffer and returns 1 when ret_status is a whole, checked
 *   one, 0 when more is to come, -ECONNRESET at the end, -EBADMSG garbage. Call until it gives 0.
 */
struct shim_buffer {
    uint32_t filled;
    uint8_t bytes[sizeof(struct shim_status)];
};
int shim_alive(int dir_fd, int32_t *ret_pid);
int shim_connect(int dir_fd, int *ret_fd);
int shim_send(int fd, uint32_t op, uint64_t nonce);
int shim_receive(int fd, struct shim_buffer *buffer, struct shim_status *ret_status);

/* A close-on-exec descriptor of a rank's process, for an agent whose shim is gone: it becomes readable
 * when the process ends. -ESRCH: it has ended (a zombie has, too; so has everything of another boot);
 * any other -errno: whether it lives, or how to watch it, cannot be found out here. */
int shim_rank_watch(const struct shim_rank_status *rank, int *ret_fd);

/* The end of each rank from the records alone, as a living shim would have told it; a rank with
 * START and no end is RUNNING with its pid (an orphan, when the shim is gone). */
void shim_status_fold(const struct shim_ends *ends, struct shim_status *ret_status);

#endif
