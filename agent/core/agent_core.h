/* agent_core.h: the decisions of one node, without any I/O. Pure.
 *
 * The same contract as the controller's core: what happened goes in as an event with its time, what
 * became durably true comes out as records, what must be done comes out as actions. The driver
 * writes the records down before it carries out the actions of the same step, and after a crash
 * folds all records back with agent_core_replay(). The driver may be killed at any line: an attempt
 * never starts twice, a stop that was obeyed stays obeyed, a lower term stays refused.
 *
 * What it decides: when to dial the controller and when to hang up; which of its orders to believe
 * (cluster id, term, sequence, attempt); when to start the shim of an attempt, to TERM and KILL its
 * ranks, to sweep what has no shim, to forget; what to tell the controller and to tell it again;
 * what ranks get from their mailboxes; when to ask peers, and the one case in which ranks are ended
 * without an order.
 *
 * Nothing is allocated after agent_core_create(). No clock: `now_ms` is monotonic and drives
 * decisions, `wall_ms` is only stored and shown. The output belongs to the caller, so that one
 * output serves the cores of a whole simulated fleet. */
#ifndef KEEPSTEP_AGENT_CORE_H
#define KEEPSTEP_AGENT_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"

enum {
    AGENT_TRACE_SIZE = 224,
    AGENT_PEERS_MAX = 8,    /* peers known from configuration, for the fence rule */
    AGENT_FENCE_ASKED = 4,  /* peers that are asked before ranks are ended without an order */
    AGENT_FENCE_AGREED = 3, /* of these, so many must have their controller */
    AGENT_LOGS_KEPT = 10,   /* attempts of a job whose logs stay on the node */
};

/* Every array of the core has its size here. Zero is not allowed unless said. */
struct agent_limits {
    uint32_t attempts;       /* attempts kept at a time, running or ended; at least 4 */
    uint32_t jobs;           /* jobs whose highest attempt is remembered; at least `attempts` */
    uint32_t exchange_keys;  /* keys put by local ranks; may be 0 */
    uint32_t exchange_gets;  /* gets without an answer yet; may be 0 */
    uint32_t checkpoints;    /* checkpoint messages without an answer; may be 0 */
    uint32_t facts;          /* facts without an acknowledgement; may be 0 */
    uint32_t questions;      /* peer probes and checks under way; may be 0 */
    uint32_t output_records; /* of struct agent_output; at least 12 + 4 x attempts */
    uint32_t output_actions; /* at least 32 + 6 x attempts */
    uint32_t output_traces;  /* older lines win, further ones are dropped; 0: nobody reads any */
};
/* What the shipped agent uses. */
void agent_limits_default(struct agent_limits *ret_limits);

/* Who this is: fixed for the life of the process. */
struct agent_identity {
    char node[NAME_SIZE];
    char boot_id[BOOT_ID_SIZE];
    uint64_t incarnation; /* larger for a later start of the same boot */
    char version[NAME_SIZE];
    uint32_t protocol; /* of the wire */
    char address[ADDRESS_SIZE];
    uint16_t peer_port;
    struct labels labels;
    struct inventory inventory;
    uint64_t fence_after_ms; /* 0: ranks are never ended without an order */
    uint32_t peer_count;     /* known from configuration; others are told by the controller */
    struct known_peer peers[AGENT_PEERS_MAX];
};

/* ---- records ---------------------------------------------------------------------------- */

/* Durable facts. Numbers are the journal's: never renumber. Field use is named beside each. */
#define AGENT_RECORD_KINDS(X)                                                                      \
    X(1, LIFE, "life")       /* an agent started: number = life, name = boot id */                 \
    X(2, CLUSTER, "cluster") /* name = cluster id */                                               \
    X(3, TERM, "term")       /* number = highest term obeyed */                                    \
    X(4, ORDER, "order")     /* job attempt name first_rank rank_count: before its shim starts */  \
    X(5, STOP, "stop")       /* job, attempt = at most; number = grace_ms; name; text = why */     \
    X(6, EMPTY, "empty")     /* job attempt: proven, nothing of it is left */                      \
    X(7, REFUSED, "refused") /* job attempt, text = why it could not be launched */                \
    X(8, FORGET, "forget")   /* job attempt: the controller has its end */                         \
    X(9, GOODBYE, "goodbye") /* number = enum goodbye_kind */                                      \
    X(10, JOB, "job")   /* image: attempt = highest ordered + 1, number = stopped + 1,        \
                                first_rank = grace_ms, rank_count = forgotten + 1, name */    \
    X(11, DROP, "drop") /* job: no longer remembered, its place is needed */                       \
    X(12, PEER, "peer") /* name, text = address, number = port, rank_count = its place in the    \
                           list of peers; what stood there and behind it is forgotten */

enum agent_record_kind {
#define X(number, upper, word) AGENT_RECORD_##upper = number,
    AGENT_RECORD_KINDS(X)
#undef X
};

struct agent_record {
    uint8_t kind; /* enum agent_record_kind */
    uint64_t wall_ms;
    uint64_t number;
    uint32_t job;
    uint32_t attempt;
    uint32_t first_rank;
    uint32_t rank_count;
    char name[NAME_SIZE];
    char text[TEXT_SIZE];
};
const char *agent_record_word(uint8_t kind); /* "order" …; NULL for an unknown kind */

/* ---- events ----------------------------------------------------------------------------- */

enum agent_event_kind {
    AGENT_EVENT_START,         /* once, after the replay */
    AGENT_EVENT_TICK,          /* agent_core_deadline_ms() has come */
    AGENT_EVENT_LINK_UP,       /* the dialled connection stands; `text` unused */
    AGENT_EVENT_LINK_DOWN,     /* it could not be made, or ended; text = why */
    AGENT_EVENT_MESSAGE,       /* a message of the controller on the standing connection */
    AGENT_EVENT_SHIM,          /* the whole state of one shim, live or read from its record */
    AGENT_EVENT_SHIM_LOST,     /* the shim of (job, attempt) is gone and has not proven empty */
    AGENT_EVENT_ORPHANS,       /* processes with the cookie of (job, attempt) outside a live shim */
    AGENT_EVENT_ORPHAN_ENDED,  /* a rank without a living shim has ended; nobody knows how */
    AGENT_EVENT_SCANNED,       /* AGENT_ACTION_SCAN for this job (0: all) has been answered */
    AGENT_EVENT_LAUNCH_FAILED, /* the shim of (job, attempt) could not be started at all */
    AGENT_EVENT_MAILBOX,       /* what one rank's mailbox says now */
    AGENT_EVENT_MAIL,          /* a request out of a rank's mailbox */
    AGENT_EVENT_DETAIL,        /* what a rank's mailbox says beside its progress, whole: when it
                                 changed, and from time to time for a new session */
    AGENT_EVENT_PRINTED,       /* a rank printed another step */
    AGENT_EVENT_READING,       /* the ranks' outputs are being read, every few seconds */
    AGENT_EVENT_PEER_QUESTION, /* another agent asks; token comes back in the answer's action */
    AGENT_EVENT_PEER_PROBED,   /* AGENT_ACTION_PEER_PROBE has an outcome */
    AGENT_EVENT_CHECKED,       /* AGENT_ACTION_CHECK has an outcome */
    AGENT_EVENT_VALIDATED,     /* AGENT_ACTION_VALIDATE of this nonce has one */
    AGENT_EVENT_FACT,          /* a probe's evidence; sequence is given here */
    AGENT_EVENT_HEALTH,        /* ok, or text says what is wrong: with the agent's own means, or
                                 (by_probes) with what its probes look at */
    AGENT_EVENT_GOODBYE,       /* the agent shall end; ranks stay */
};

/* One shim's view of one attempt, always whole. */
struct agent_shim_view {
    char cluster_id[CLUSTER_ID_SIZE]; /* under which it was launched */
    char job_name[NAME_SIZE];
    bool alive;    /* it answers now */
    bool attached; /* first view since this agent connected to it: orders must be said again */
    bool started;  /* every rank has been forked (or has failed to be) */
    bool empty;    /* proven: no process is left */
    uint32_t first_rank;
    uint32_t rank_count;
    struct {
        uint8_t state;   /* enum rank_state */
        bool after_stop; /* it ended after the shim had been told to end it */
        int32_t code;
        uint64_t end_sequence;
        uint64_t end_ms; /* monotonic; 0: alive, or not known */
    } ranks[RANKS_PER_NODE_MAX];
    char text[TEXT_SIZE]; /* why a rank could not be started; "" */
};

struct agent_mailbox_view {
    uint32_t local_rank;
    bool valid;    /* the program uses the library; otherwise nothing below counts */
    uint8_t phase; /* enum rank_phase; other values are read as PHASE_INIT */
    uint64_t step;
    uint64_t changed_ms; /* monotonic, when phase or step last changed */
    uint32_t step_ms;
    uint32_t compute_ms;
};

/* What a rank's output says: the newest step in it. It counts where the rank's mailbox tells of no
 * step, and always when the job wants no other source (alone). */
struct agent_printed {
    uint32_t local_rank;
    bool alone;
    uint64_t step;       /* 0 is no step, as everywhere */
    uint64_t changed_ms; /* monotonic, when it was printed */
    uint32_t step_ms;    /* median of the last ones, as far as lines tell; 0 = unknown */
};

/* A request of a rank. `id` is the mailbox's own and comes back in the answer. */
enum agent_mail_kind { AGENT_MAIL_EXCHANGE, AGENT_MAIL_CHECKPOINT };
struct agent_mail {
    uint32_t local_rank;
    uint64_t id;
    uint8_t kind; /* enum agent_mail_kind */
    union {
        struct msg_exchange exchange; /* kind PUT or GET, key, size, value; the rest is filled in */
        struct msg_checkpoint checkpoint; /* kind … stall_ms; sequence, job … are filled in */
    } u;
};

struct agent_detail {
    uint32_t local_rank;
    struct msg_rank_detail detail; /* job, attempt and rank are filled in */
};

/* What is true at the beginning of a step. Pointers are borrowed for the call. */
struct agent_event {
    uint8_t kind; /* enum agent_event_kind */
    uint64_t now_ms;
    uint64_t wall_ms;
    uint32_t job; /* of SHIM … READING, CHECKED */
    uint32_t attempt;
    uint32_t count;       /* ORPHANS: processes found */
    uint32_t local_rank;  /* ORPHAN_ENDED */
    uint64_t nonce;       /* PEER_PROBED, CHECKED, VALIDATED: of the action; PEER_QUESTION: of the
                             question */
    uint64_t token;       /* PEER_QUESTION: the driver's own */
    uint64_t incarnation; /* PEER_PROBED: of the peer that answered */
    uint64_t used_ms;     /* READING: processor time of (job, attempt) since its ranks began; it
                             may fall when processes end; 0: not known */
    bool controller_up;   /* PEER_PROBED */
    bool ok;          /* CHECKED, VALIDATED, HEALTH; ORPHANS with count 0: proven that none is left;
                             ORPHAN_ENDED: now; else before anybody looked */
    bool port_free;   /* CHECKED */
    bool by_probes;   /* HEALTH */
    uint8_t answer;   /* PEER_PROBED: enum peer_answer */
    uint8_t goodbye;  /* GOODBYE: enum goodbye_kind */
    const char *text; /* LINK_DOWN, LAUNCH_FAILED, CHECKED, VALIDATED, HEALTH, GOODBYE; may be
                             NULL */
    const struct message *message;            /* MESSAGE */
    const struct agent_shim_view *shim;       /* SHIM */
    const struct agent_mailbox_view *mailbox; /* MAILBOX */
    const struct agent_printed *printed;      /* PRINTED */
    const struct agent_mail *mail;            /* MAIL */
    const struct agent_detail *detail;        /* DETAIL */
    const struct fact *fact;                  /* FACT */
};

/* ---- actions ---------------------------------------------------------------------------- */

enum agent_action_kind {
    AGENT_ACTION_DIAL,         /* connect to the controller; answer LINK_UP or LINK_DOWN */
    AGENT_ACTION_HANG_UP,      /* close it; no LINK_DOWN follows */
    AGENT_ACTION_SEND,         /* u.message, on the standing connection */
    AGENT_ACTION_SCAN,         /* look for shims and cookies of `job` (0: all): SHIM, ORPHANS,
                                 then one SCANNED */
    AGENT_ACTION_START,        /* start the shim: u.start; SHIM views or LAUNCH_FAILED follow */
    AGENT_ACTION_TERM,         /* through the live shim: TERM all ranks of (job, attempt) */
    AGENT_ACTION_KILL,         /* through the live shim: KILL everything of (job, attempt) */
    AGENT_ACTION_SWEEP,        /* no live shim: KILL all that is found of (job, attempt). A launch
                                 under way is waited for and one never begun is made impossible;
                                 then SHIM, if a shim lives after all, or ORPHANS */
    AGENT_ACTION_FORGET,       /* drop the state of (job, attempt), keep the newest logs */
    AGENT_ACTION_MAIL_ANSWER,  /* u.mail */
    AGENT_ACTION_MAIL_REQUEST, /* u.request: what the controller asks of global rank 0 */
    AGENT_ACTION_MAIL_ABORT, /* the ranks of (job, attempt) may abort what hangs in a collective */
    AGENT_ACTION_PEER_PROBE, /* u.probe; PEER_PROBED follows within timeout_ms + 1 s */
    AGENT_ACTION_PEER_REPLY, /* u.reply to the question with this token */
    AGENT_ACTION_CHECK,      /* u.check; CHECKED follows */
    AGENT_ACTION_VALIDATE,   /* u.validate; VALIDATED follows; what was under way is given up */
    AGENT_ACTION_LOG_READ,   /* u.log: the driver sends the LOG_DATA itself */
    AGENT_ACTION_SNAPSHOT,   /* u.snapshot: the driver sends the SNAPSHOT_DATA itself */
    AGENT_ACTION_SAVES,      /* u.saves: the driver sends the SAVE_SAID itself */
    AGENT_ACTION_EXIT,       /* everything said: flush, close, end the process with 0 */
};

struct agent_mail_answer {
    uint8_t kind; /* enum agent_mail_kind: ids of the two are not related */
    uint32_t local_rank;
    uint64_t id;
    int32_t status; /* 0 or -errno */
    bool accepted;  /* checkpoints */
    uint32_t size;
    uint8_t value[EXCHANGE_VALUE_MAX];
    char text[TEXT_SIZE];
};

struct agent_mail_request {
    uint32_t save_request;
    bool stop_request;
};

struct agent_probe {
    uint64_t nonce;
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
    uint16_t port;
    uint32_t timeout_ms;
};

struct agent_action {
    uint8_t kind; /* enum agent_action_kind */
    uint32_t job;
    uint32_t attempt;
    uint64_t token; /* PEER_REPLY */
    union {
        struct message message;
        struct msg_desired start; /* the order, its spec NULL: the driver keeps it by job and
                                     spec_revision */
        struct agent_mail_answer mail;
        struct agent_mail_request request;
        struct agent_probe probe;
        struct msg_peer_reply reply;
        struct msg_check check;
        struct msg_validate validate;
        struct msg_log_read log;
        struct msg_snapshot_ask snapshot;
        struct msg_save_ask saves; /* its spec NULL: the driver keeps it by job */
    } u;
};

/* Result of one step: arrays owned by the output, valid until the next step that uses it. Records
 * first become durable, then the actions are carried out in their order. */
struct agent_output {
    uint32_t record_count;
    uint32_t action_count;
    uint32_t trace_count;
    uint32_t trace_dropped;
    struct agent_record *records;
    struct agent_action *actions;
    char (*traces)[AGENT_TRACE_SIZE]; /* one line for every move of a lifecycle */
    uint32_t record_max;
    uint32_t action_max;
    uint32_t trace_max;
};
/* limits must be those of every core that will write into it (or larger). */
MUST_CHECK int agent_output_create(const struct agent_limits *limits,
                                   struct agent_output **ret_output);
struct agent_output *agent_output_free(struct agent_output *output); /* takes NULL, returns NULL */

/* ---- the core --------------------------------------------------------------------------- */

struct agent_core;

/* -EINVAL: a limit is under its least value, or the identity has no node name. */
MUST_CHECK int agent_core_create(const struct agent_limits *limits, uint64_t seed,
                                 const struct agent_identity *identity,
                                 struct agent_core **ret_core);
struct agent_core *agent_core_free(struct agent_core *core); /* takes NULL, returns NULL */

/* Folds one durable fact; decides nothing. Before AGENT_EVENT_START only. -EINVAL: a kind that this
 * version does not know, or a record that cannot follow the ones before. */
MUST_CHECK int agent_core_replay(struct agent_core *core, const struct agent_record *record);

/* Takes one event in and overwrites the output. Never fails on what a peer, a rank or an operator
 * sent: that is counted and traced. Errors: -EINVAL for an event kind that does not exist. */
MUST_CHECK int agent_core_step(struct agent_core *core, const struct agent_event *event,
                               struct agent_output *output);

/* When the driver owes the next TICK; UINT64_MAX when none is due. May lie in the past: now. */
uint64_t agent_core_deadline_ms(const struct agent_core *core);

void agent_core_check(const struct agent_core *core); /* every invariant; aborts */

/* All durable state: equal for the live core and for one that replayed its records. */
uint64_t agent_core_digest(const struct agent_core *core);

/* The fewest records that fold to the present durable state, for the rewriting of the journal.
 * A visitor's non-zero result ends the walk and is returned. */
typedef int agent_record_visit(const struct agent_record *record, void *context);
int agent_core_snapshot(const struct agent_core *core, agent_record_visit *visit, void *context);

/* ---- what a driver, a test or a judge may look at ---------------------------------------- */

/* Where an attempt stands on this node; the diagram is in agent_attempt.c. */
#define AGENT_ATTEMPT_STATES(X)                                                                    \
    X(NONE, "none")                                                                                \
    X(ORDERED, "ordered")                                                                          \
    X(STARTING, "starting")                                                                        \
    X(RUNNING, "running")                                                                          \
    X(ORPHANED, "orphaned")                                                                        \
    X(STOPPING, "stopping")                                                                        \
    X(KILLING, "killing")                                                                          \
    X(UNCLEAN, "unclean")                                                                          \
    X(EMPTY, "empty")                                                                              \
    X(REFUSED, "refused")

enum agent_attempt_state {
#define X(upper, word) AGENT_ATTEMPT_##upper,
    AGENT_ATTEMPT_STATES(X)
#undef X
};
const char *agent_attempt_state_word(uint8_t state);

/* Things that were refused, each with its number of times. */
struct agent_counters {
    uint64_t wrong_cluster;
    uint64_t lower_term;
    uint64_t lower_sequence;
    uint64_t lower_attempt;
    uint64_t bad_message; /* not for an agent, or with impossible values */
    uint64_t too_many;    /* past a limit */
    uint64_t dials;
    uint64_t sessions;
    uint64_t beats;
};

struct agent_view {
    char cluster_id[CLUSTER_ID_SIZE];
    uint64_t term;
    uint64_t life; /* number of this agent's life */
    bool scanned;  /* what runs here has been looked at: from now on the controller is dialled */
    bool session;  /* the controller has welcomed us on the standing connection */
    uint32_t facts_free;  /* so many more facts can be taken in */
    uint64_t fact_last;   /* sequence number of the newest one; 0: there was none in this life */
    uint64_t facts_below; /* all facts of this life with lower numbers are acknowledged */
    struct agent_counters counters;
};
void agent_core_view(const struct agent_core *core, struct agent_view *ret_view);

/* The index-th kept attempt as the controller is told of it; false past the last. state may be
 * NULL. */
bool agent_core_attempt(const struct agent_core *core, uint32_t index,
                        struct attempt_report *ret_report, uint8_t *ret_state);

#endif
