/* message.h: what a controller and an agent say to each other, as plain structs. Pure.
 *
 * One definition for everybody: proto/wire turns these into protobuf frames and back, both cores
 * speak them, the simulator passes them on unchanged. All text is NUL-terminated, all arrays have
 * fixed bounds, so a message can be copied by assignment. Rules:
 *
 *   - Messages carry level state, never edges: losing, repeating or reordering one is harmless.
 *   - Every message that is about ranks carries (job, attempt); the session carries (node,
 *     incarnation); everything from the controller carries (cluster id, term).
 *   - `text` pointers marked "borrowed" belong to the sender until the frame is built, and to the
 *     decoder's message until message_done(); the cores never look at them.
 *
 * Times are milliseconds. *_ms without a word are monotonic times of the sender. */
#ifndef KEEPSTEP_BASE_MESSAGE_H
#define KEEPSTEP_BASE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/signal.h"

enum {
    NAME_SIZE = 64,       /* node, job, rack, pool names, with the NUL */
    CLUSTER_ID_SIZE = 33, /* 32 hex digits */
    BOOT_ID_SIZE = 37,    /* a UUID */
    ADDRESS_SIZE = 64,    /* numeric address, IPv4 or IPv6 */
    TEXT_SIZE = 192,      /* one sentence for people */
    PATH_SIZE = 512,
    UUID_SIZE = 48,      /* GPU UUID as NVML prints it */
    HASH_TEXT_SIZE = 33, /* XXH3-128 in hex */
    RANKS_PER_NODE_MAX = 16,
    GPUS_MAX = 16,
    PORTS_MAX = 16,            /* network ports with a leaf switch each */
    ATTEMPTS_PER_NODE_MAX = 4, /* jobs (or old attempts) that one node reports at a time */
    COMMUNICATORS_MAX = 16,    /* that one rank tells of */
    COMMUNICATOR_NAME_SIZE = 16,
    STEPS_MAX = 32, /* that one rank tells of: the last ones */
    HASHES_MAX = 8,
    EXCHANGE_KEY_SIZE = 64,
    EXCHANGE_VALUE_MAX = 4096,
    PEERS_KNOWN_MAX = 8,   /* other agents that one agent is told of */
    SPEC_TEXT_MAX = 65536, /* bytes of the JSON that travels with DESIRED and CHECK */
};

/* ---- what one node is ------------------------------------------------------------------- */

struct inventory {
    uint32_t gpu_count;
    char gpu_uuid[GPUS_MAX][UUID_SIZE];
    uint32_t port_count;
    char port_leaf[PORTS_MAX][NAME_SIZE]; /* the leaf switch behind each port; [0] is leaf_group */
    uint64_t memory_bytes;
    uint32_t cpu_count;
    char driver[NAME_SIZE];
};

struct labels {
    char rack[NAME_SIZE];
    char feed[NAME_SIZE];
    char pool[NAME_SIZE];
    char pod[NAME_SIZE];
};

/* ---- what runs there -------------------------------------------------------------------- */

enum rank_state {
    RANK_NONE, /* never started */
    RANK_RUNNING,
    RANK_EXITED,    /* code is the exit status */
    RANK_SIGNALED,  /* code is the signal's number; 0: it ended, and how is not known */
    RANK_UNSTARTED, /* could not be started: code is an errno */
};

enum rank_phase { PHASE_INIT, PHASE_RESTORE, PHASE_STEP, PHASE_CHECKPOINT, PHASE_EVAL, PHASE_IDLE };

/* What one rank says of itself through its mailbox, and what the shim says of it. */
struct rank_report {
    uint8_t state;    /* enum rank_state */
    uint8_t phase;    /* enum rank_phase; PHASE_INIT until the mailbox says otherwise */
    bool has_mailbox; /* the program uses the library */
    bool after_stop;  /* it began to end after our own stop order reached this node */
    int32_t code;
    uint64_t end_sequence; /* the shim's number of this end, 0 while alive */
    uint64_t step;         /* last completed step; 0 = none */
    uint32_t
        phase_age_ms; /* since the phase or step last changed; of an ended rank: since its end */
    uint32_t step_ms; /* median of the last 32 steps, 0 = unknown */
    uint32_t compute_ms;
    bool prints; /* step, its age and step_ms were read from what the rank prints */
};

/* One attempt of one job on one node: always the whole truth about it, never a difference. */
struct attempt_report {
    uint32_t job;
    uint32_t attempt;
    bool foreign; /* found running, started by nobody this agent knows an order of */
    bool shim_alive;
    bool empty;        /* proven: no process of this attempt is left on the node */
    bool unclean;      /* KILL was sent and the deadline passed: cannot be emptied */
    bool stop_seen;    /* a stop order for this attempt has reached the node */
    bool refused;      /* the launch could not be carried out; text says why */
    bool reads_output; /* what its ranks print is being read: their steps count as seen */
    uint32_t first_rank;
    uint32_t rank_count;
    uint64_t used_ms; /* processor time of its processes here, as last looked at; 0 = not known */
    struct rank_report ranks[RANKS_PER_NODE_MAX];
    char text[TEXT_SIZE];
};

/* ---- agent -> controller ---------------------------------------------------------------- */

struct msg_hello {
    char cluster_id[CLUSTER_ID_SIZE]; /* "" from an agent that never met a controller */
    char node[NAME_SIZE];
    char boot_id[BOOT_ID_SIZE];
    uint64_t incarnation; /* agent start, ms since boot + random low bits; later start = larger */
    bool clean_boot;      /* the last agent on this node said goodbye, or this boot is unchanged */
    uint64_t term_seen;
    char version[NAME_SIZE];
    uint32_t protocol;
    char
        address[ADDRESS_SIZE]; /* for MASTER_ADDR: of the interface that network.rendezvous names */
    uint16_t peer_port;        /* where it answers peer questions, same address */
    struct labels labels;
    struct inventory inventory;
    uint32_t attempt_count;
    struct attempt_report attempts[ATTEMPTS_PER_NODE_MAX];
};

/* Every second, and at once when a rank's state changes. */
struct msg_beat {
    uint64_t sequence; /* of this session, from 1 */
    uint64_t sent_ms;
    bool checks_ok; /* the node's own quick checks */
    char checks_text[TEXT_SIZE];
    uint32_t attempt_count;
    struct attempt_report attempts[ATTEMPTS_PER_NODE_MAX];
};

/* All ends of one attempt on this node so far; sent at once, again with every beat until acked. */
struct msg_rank_ends {
    uint64_t sequence;
    struct attempt_report report;
};

/* The ranks that a communicator joins: those that differ in this coordinate alone. OTHER: those
 * that give it the same name. */
enum communicator_axis {
    AXIS_OTHER,
    AXIS_WORLD,
    AXIS_TENSOR,
    AXIS_CONTEXT,
    AXIS_PIPELINE,
    AXIS_DATA
};
enum collective_operation {
    OPERATION_NONE, /* nothing is enqueued */
    OPERATION_OTHER,
    OPERATION_ALL_REDUCE,
    OPERATION_ALL_GATHER,
    OPERATION_REDUCE_SCATTER,
    OPERATION_BROADCAST,
    OPERATION_REDUCE,
    OPERATION_ALL_TO_ALL,
    OPERATION_SEND,
    OPERATION_RECEIVE,
    OPERATION_BARRIER,
};

/* A number of the program as the bits of an IEEE 754 float: the cores count in integers, and
 * positive ones compare as their bits do. 0 = not told; a zero that was told is -0.0. */
typedef uint32_t real_bits;

struct communicator_report { /* without a hole, as its neighbours: tests look at every byte */
    char name[COMMUNICATOR_NAME_SIZE];
    uint64_t enqueued; /* operations since it was made */
    uint64_t completed;
    int32_t peer;       /* of a send or receive: rank in the communicator; else -1 */
    uint16_t axis;      /* enum communicator_axis */
    uint16_t operation; /* enum collective_operation: of the oldest one that is not complete */
};
struct step_report {
    uint64_t step;
    uint32_t total_us;
    uint32_t compute_us; /* device time where there is a GPU; 0 = not told */
    real_bits loss;
    real_bits gradient_norm;
};
struct hash_report {
    uint64_t step;
    uint64_t hash; /* of the rank's parameters after it; any 64 bits */
};
struct rank_coordinates {
    uint32_t tensor, context, pipeline, data;
};

/* What one rank's program says beside its progress, whole each time: when something changed, at
 * most once a second, and at least every 10 s. Steps and hashes oldest first. */
struct msg_rank_detail {
    uint32_t job;
    uint32_t attempt;
    uint32_t rank; /* global */
    bool has_coordinates;
    struct rank_coordinates coordinates; /* as the program computed them */
    uint32_t step_count;
    uint32_t hash_count;
    uint32_t communicator_count;
    struct step_report steps[STEPS_MAX];
    struct hash_report hashes[HASHES_MAX];
    struct communicator_report communicators[COMMUNICATORS_MAX];
};

enum goodbye_kind { GOODBYE_RESTART, GOODBYE_REBOOT, GOODBYE_GONE };
struct msg_goodbye {
    uint8_t kind; /* enum goodbye_kind */
    char text[TEXT_SIZE];
};

enum fact_source {
    FACT_CONNECTION, /* the controller's own: link lost and second opinion agreed */
    FACT_AGENT_DOWN,
    FACT_RANK_END,
    FACT_NO_PROGRESS,
    FACT_PROBE, /* a health probe on the node */
    FACT_LOG,
    FACT_OPERATOR,
    FACT_CHECK,  /* a spare's quick check failed */
    FACT_LAUNCH, /* a node could not start its ranks */
};

/* One piece of evidence. Agents send FACT_PROBE and FACT_LOG; the others the core makes itself. */
struct fact {
    uint8_t source;   /* enum fact_source */
    uint8_t severity; /* 0 info, 1 warning, 2 fatal for the attempt, 3 fatal for the node */
    uint32_t node;    /* the core's node id; 0 in an agent's message (its session says who) */
    uint32_t job;
    uint32_t attempt;
    int32_t rank; /* -1: not about a rank */
    int32_t gpu;  /* -1: not about a GPU */
    int32_t port;
    int32_t code;        /* exit code, signal (negative), Xid; of no progress: how sure it is
                          * who is guilty, 0 low, 1 medium, 2 high */
    uint64_t sequence;   /* of the sender; re-sent until acked, seen twice = dropped */
    uint64_t receive_ms; /* the controller's wall time of receipt minus the node's offset */
    /* What its line or reading says; label 0: it was not looked up, code and severity must do. */
    uint8_t label;  /* enum signal_label */
    uint8_t advice; /* enum signal_advice */
    uint8_t role;   /* enum signal_role */
    char signal[SIGNAL_NAME_SIZE];
    char subject[SIGNAL_SUBJECT_SIZE];
    char text[TEXT_SIZE];
};
struct msg_fact {
    struct fact fact;
};

enum peer_answer {
    PEER_ANSWERS, /* the agent process answered with its name and incarnation */
    PEER_REFUSED, /* connection refused: the host lives, the agent does not */
    PEER_SILENT,  /* accepted, but no answer: the process is stopped */
    PEER_NOTHING, /* the connect itself was not answered */
    PEER_LEFT,    /* answered as another incarnation or another name */
};

/* The controller asks agent A about node B; A asks B's peer port and tells what it saw. */
struct msg_peer_ask {
    uint64_t nonce;
    char target[NAME_SIZE];
    char address[ADDRESS_SIZE];
    uint16_t port;
    uint32_t timeout_ms;
};
struct msg_peer_said {
    uint64_t nonce;
    char target[NAME_SIZE];
    uint8_t answer; /* enum peer_answer */
    uint64_t incarnation;
    bool controller_up; /* the target's own controller link */
};
/* Agent to agent, on the peer port. */
struct msg_peer_question {
    uint64_t nonce;
    char asker[NAME_SIZE];
};
struct msg_peer_reply {
    uint64_t nonce;
    char node[NAME_SIZE];
    uint64_t incarnation;
    bool controller_up;
};

/* Other agents of the cluster, for an agent that is cut off from its controller: the last list told
 * stands. Sent in each session and with an order to run, when it has changed. */
struct known_peer {
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
    uint16_t port;
};
struct msg_peers {
    uint32_t peer_count;
    struct known_peer peers[PEERS_KNOWN_MAX]; /* other racks first */
};

/* Checkpoints: each rank's shard is reported once it is durable under its final name; rank 0's
 * manifest last. Re-sent until answered by msg_checkpoint_answer. */
struct msg_checkpoint {
    enum { CHECKPOINT_BEGIN, CHECKPOINT_SHARD, CHECKPOINT_COMMIT } kind;
    uint64_t sequence;
    uint32_t job;
    uint32_t attempt;
    uint64_t step;
    uint32_t rank;             /* global rank that says it */
    uint32_t shard_count;      /* BEGIN, COMMIT: shards that make it complete */
    uint32_t parts;            /* COMMIT: bit set of enum checkpoint_part */
    uint64_t bytes;            /* SHARD: its size; COMMIT: the sum in the manifest */
    char hash[HASH_TEXT_SIZE]; /* SHARD: of the file; COMMIT: of the manifest */
    char directory[PATH_SIZE]; /* the folder step-S.a-A, absolute */
    uint32_t stall_ms;         /* SHARD: how long training stood for it */
};
enum checkpoint_part {
    PART_WEIGHTS = 1,
    PART_OPTIMIZER = 2,
    PART_SCHEDULER = 4,
    PART_DATA = 8,
    PART_RNG = 16,
    PARTS_ALL = 31,
};

/* Keys that ranks of one attempt exchange (NCCL unique ids). Agents keep those put by their own
 * ranks and send them again after a new session. A get without an answer stays open. */
struct msg_exchange {
    enum { EXCHANGE_PUT, EXCHANGE_GET, EXCHANGE_VALUE } kind;
    uint32_t job;
    uint32_t attempt;
    uint32_t rank; /* who puts or asks; VALUE: whom it is for */
    char key[EXCHANGE_KEY_SIZE];
    uint32_t size;
    uint8_t value[EXCHANGE_VALUE_MAX];
};

/* What lies in a job's checkpoint folder, as an agent sees it that looked as the job's user. A
 * listing answers with any number of FOUND and then DONE; the other tasks with PROGRESS and DONE. */
enum save_word { SAVE_FOUND, SAVE_PROGRESS, SAVE_DONE };
struct msg_save_said {
    uint64_t nonce; /* of the msg_save_ask */
    uint32_t job;
    uint8_t word;  /* enum save_word */
    int32_t error; /* DONE: 0, or -errno: it could not be done; text says why */
    bool ok;       /* FOUND: complete; DONE: of a listing: all was seen; else: whole, or removed */
    uint64_t step;
    uint32_t attempt;          /* FOUND, where the folder's name says it */
    uint32_t parts;            /* FOUND: bit set of enum checkpoint_part; 0 = it does not say */
    uint32_t files;            /* FOUND: its files; DONE: folders seen */
    uint64_t bytes;            /* FOUND, PROGRESS: of all its files */
    uint64_t bytes_done;       /* PROGRESS */
    uint64_t age_ms;           /* FOUND: since its newest change */
    uint64_t took_ms;          /* FOUND: from its first file's change to its last one's */
    char hash[HASH_TEXT_SIZE]; /* FOUND: the manifest's, or one over names, sizes and times */
    char directory[PATH_SIZE]; /* FOUND: absolute; DONE of a listing: the folder looked into */
    char text[TEXT_SIZE];      /* FOUND: why it is incomplete; DONE: what is wrong */
};

struct msg_check_result {
    uint64_t nonce;
    uint32_t job;
    bool ok;
    bool port_free; /* meaningful when a port was asked for */
    char text[TEXT_SIZE];
};

/* The node has shown whether it is fit: what msg_validate asked for has ended. */
struct msg_validated {
    uint64_t nonce; /* of the msg_validate */
    bool ok;
    char text[TEXT_SIZE]; /* what was looked at, or what is wrong */
};

enum { LOG_CHUNK_MAX = 65536, SNAPSHOT_TEXT_MAX = 65536 };
struct msg_log_data {
    uint64_t nonce;
    bool last;
    int32_t error; /* 0 or -errno */
    uint32_t size;
    const char *text; /* borrowed, size bytes */
};
struct msg_snapshot_data {
    uint64_t nonce;
    uint32_t job;
    uint32_t attempt;
    uint32_t round;
    uint32_t size;
    const char *text; /* borrowed JSON: per rank step, phase, stack … */
};

/* ---- controller -> agent ---------------------------------------------------------------- */

enum hello_result {
    HELLO_WELCOME,
    HELLO_WRONG_CLUSTER,
    HELLO_STALE,     /* an incarnation that a newer one replaced */
    HELLO_DUPLICATE, /* another boot id with this name is alive */
    HELLO_VERSION,
    HELLO_FULL,    /* limits.agents */
    HELLO_RETIRED, /* node was removed while this agent ran: its next start is a new node */
};
struct msg_welcome {
    uint8_t result; /* enum hello_result; anything but WELCOME closes the session */
    char cluster_id[CLUSTER_ID_SIZE];
    uint64_t term;
    char text[TEXT_SIZE];
};

/* Sent at least every 3 s: what has been received, so that the sender may forget it. */
struct msg_ack {
    uint64_t term;
    uint64_t beat_sequence;
    uint64_t fact_sequence; /* all facts up to here are kept */
    uint64_t ends_sequence; /* last msg_rank_ends folded */
};

enum desired_mode {
    DESIRED_NONE, /* no opinion: go on with whatever runs */
    DESIRED_RUN,  /* exactly this attempt with these ranks */
    DESIRED_STOP, /* nothing of this job with attempt <= this one may run */
};

/* What the controller wants of one job on one node. Level state: sent on every change and on every
 * new session; the receiver refuses a lower term, another cluster id, or a lower attempt. */
struct msg_desired {
    char cluster_id[CLUSTER_ID_SIZE];
    uint64_t term;
    uint64_t sequence; /* per node, only grows within a term: an older one is dropped */
    uint8_t mode;      /* enum desired_mode */
    uint32_t job;
    char job_name[NAME_SIZE];
    uint32_t attempt;
    /* STOP */
    uint32_t grace_ms; /* between TERM and KILL */
    bool abort;        /* the attempt has failed: what hangs in a collective may be aborted */
    bool forget;       /* the end is recorded: the agent may drop the attempt's state once empty */
    /* RUN */
    uint32_t slot;
    uint32_t slot_count;
    uint32_t first_rank;
    uint32_t rank_count;
    uint32_t world;
    uint16_t tensor, context, pipeline, data;
    char order[16]; /* tp-cp-pp-dp */
    char master_address[ADDRESS_SIZE];
    uint16_t master_port;
    bool start;            /* false: hold this slot (proof of port, checks) but do not start yet */
    uint64_t restore_step; /* 0 = from the beginning */
    uint32_t restore_attempt;          /* the attempt that wrote it */
    char restore_directory[PATH_SIZE]; /* its folder; "": checkpoint.dir/step-S.a-A */
    uint32_t save_request;             /* rank 0's node: grows by one for each save asked for */
    bool stop_request;                 /* rank 0's node: stop after the save that was asked for */
    uint32_t spec_revision;
    /* The job's `run`, `checkpoint`, `signals` … as one JSON text; borrowed; NULL in the cores. */
    uint32_t spec_size;
    const char *spec;
};

/* Quick check of an incoming node as the job's user, and the proof of the rendezvous port. */
struct msg_check {
    uint64_t nonce;
    uint32_t job;
    uint32_t attempt;
    uint16_t port; /* 0: none asked; else: can it be bound now? */
    uint64_t restore_step;
    uint32_t restore_attempt;
    char restore_directory[PATH_SIZE]; /* as in msg_desired */
    uint32_t spec_size;
    const char *spec; /* borrowed, as in msg_desired */
};

/* Look into the job's checkpoint folder, as the job's user, in a child with a deadline. */
enum save_task {
    SAVE_LIST,   /* what is there, newest first */
    SAVE_VERIFY, /* read one again, and compare every hash with its manifest */
    SAVE_REMOVE, /* one whose manifest names this job: into the trash folder, then away */
};
struct msg_save_ask {
    uint64_t nonce;
    uint8_t task; /* enum save_task */
    uint32_t job;
    char job_name[NAME_SIZE];
    uint32_t timeout_ms; /* VERIFY: without progress; else: for all of it */
    /* VERIFY, REMOVE */
    uint64_t step;
    uint32_t attempt;
    char directory[PATH_SIZE];
    char hash[HASH_TEXT_SIZE]; /* of its manifest */
    uint32_t spec_size;
    const char *spec; /* borrowed, as in msg_desired */
};

struct msg_checkpoint_answer {
    uint64_t sequence;
    uint32_t job;
    uint32_t attempt;
    uint64_t step;
    uint32_t rank;
    uint8_t kind; /* of the message it answers */
    bool accepted;
    char text[TEXT_SIZE];
};

struct msg_log_read {
    uint64_t nonce;
    uint32_t job;
    char job_name[NAME_SIZE];
    uint32_t attempt;
    uint32_t rank;
    uint64_t tail_bytes; /* the last so many bytes; at most 1 MiB */
};

struct msg_snapshot_ask {
    uint64_t nonce;
    uint32_t job;
    uint32_t attempt;
    uint32_t round;
};

/* A node that comes back shows that it is fit. Said again with the same nonce until it is answered;
 * a newer nonce asks anew. Only of agents of VALIDATE_MINOR or later. */
enum validate_level {
    VALIDATE_QUICK, /* its own probes */
    VALIDATE_FULL,  /* and the site's programs */
};
enum { VALIDATE_MINOR = 1 };
struct msg_validate {
    uint64_t nonce;
    uint8_t level;       /* enum validate_level */
    uint32_t timeout_ms; /* for all of it */
};

/* ---- the envelope ----------------------------------------------------------------------- */

/* Numbers are part of the wire contract: never renumber. */
#define MESSAGE_KINDS(X)                                                                           \
    X(1, HELLO, hello)                                                                             \
    X(2, BEAT, beat)                                                                               \
    X(3, GOODBYE, goodbye)                                                                         \
    X(4, RANK_ENDS, rank_ends)                                                                     \
    X(5, FACT, fact)                                                                               \
    X(6, PEER_SAID, peer_said)                                                                     \
    X(7, CHECKPOINT, checkpoint)                                                                   \
    X(8, EXCHANGE, exchange)                                                                       \
    X(9, CHECK_RESULT, check_result)                                                               \
    X(10, LOG_DATA, log_data)                                                                      \
    X(11, SNAPSHOT_DATA, snapshot_data)                                                            \
    X(12, RANK_DETAIL, rank_detail)                                                                \
    X(13, SAVE_SAID, save_said)                                                                    \
    X(14, VALIDATED, validated)                                                                    \
    X(32, WELCOME, welcome)                                                                        \
    X(33, ACK, ack)                                                                                \
    X(34, DESIRED, desired)                                                                        \
    X(35, CHECK, check)                                                                            \
    X(36, CHECKPOINT_ANSWER, checkpoint_answer)                                                    \
    X(37, PEER_ASK, peer_ask)                                                                      \
    X(38, LOG_READ, log_read)                                                                      \
    X(39, SNAPSHOT_ASK, snapshot_ask)                                                              \
    X(40, PEERS, peers)                                                                            \
    X(41, SAVE_ASK, save_ask)                                                                      \
    X(42, VALIDATE, validate)                                                                      \
    X(64, PEER_QUESTION, peer_question)                                                            \
    X(65, PEER_REPLY, peer_reply)

enum message_kind {
#define X(number, upper, lower) MSG_##upper = number,
    MESSAGE_KINDS(X)
#undef X
};

struct message {
    uint8_t kind; /* enum message_kind */
    union {
#define X(number, upper, lower) struct msg_##lower lower;
        MESSAGE_KINDS(X)
#undef X
    } u;
};

const char *message_kind_name(uint8_t kind);               /* "hello" …; "unknown" */
const char *communicator_axis_word(uint32_t axis);         /* "tensor" …; "other" */
const char *collective_operation_word(uint32_t operation); /* "all-reduce" …; "other" */

#endif
