/* agent_state.h: the inside of the agent's core; for agent/core alone. Pure.
 *
 * State is of two sorts. Durable state changes only in agent_apply(), by a record; it is what
 * agent_core_digest() covers and what a replay brings back. Soft state (links, timers, mailbox
 * views, what was sent) is rebuilt from what the next events say. Each field below says which. */
#ifndef KEEPSTEP_AGENT_STATE_H
#define KEEPSTEP_AGENT_STATE_H

#include <errno.h>

#include "agent/core/agent_core.h"
#include "proto/base/check.h"
#include "proto/base/prng.h"

enum {
    AGENT_BEAT_MS = 1000,
    AGENT_BEAT_GAP_MS = 50,  /* between two beats that changes ask for */
    AGENT_SILENCE_MS = 6000, /* a controller that says nothing so long is dialled again */
    AGENT_BACKOFF_FIRST_MS = 100,
    AGENT_BACKOFF_MAX_MS = 5000,
    AGENT_KILL_DEADLINE_MS = 10000, /* from KILL to `unclean` */
    AGENT_KILL_AGAIN_MS = 5000,
    AGENT_SWEEP_AGAIN_MS = 500,
    AGENT_SWEEP_LOST_MS = 15000, /* a sweep that never came back is asked for again */
    AGENT_SCAN_LOST_MS = 15000,
    AGENT_GRACE_DEFAULT_MS = 2000, /* for the older attempts that a newer RUN implies to stop */
    AGENT_GRACE_MAX_MS = 600000,
    AGENT_CHECKPOINT_AGAIN_MS = 5000,
    AGENT_QUESTION_LOST_MS = 60000,
    AGENT_FENCE_ROUND_MS = 3000,       /* peers have so long to answer */
    AGENT_FENCE_AGAIN_MS = 60000,      /* after a round that did not agree */
    AGENT_FENCE_LOOK_MS = 5000,        /* between two looks at the limits of ranks */
    AGENT_LIMIT_START_MS = 20 * 60000, /* init, restore and the first step */
    AGENT_LIMIT_CHECKPOINT_MS = 30 * 60000,
    AGENT_LIMIT_EVAL_MS = 60 * 60000,
    AGENT_LIMIT_STEP_MS = 30000, /* at least; else 5 x the median step */
    AGENT_READ_FRESH_MS = 15000, /* whoever reads outputs says something this often */
    AGENT_SEQUENCE_BITS = 24,    /* of a sequence number, below the life's number */
    AGENT_FACTS_PER_BEAT = 8,
    AGENT_ATTEMPTS_LIMIT = 64, /* limits.attempts at most */
};

/* What can happen to an attempt; the moves are one table in agent_attempt.c. */
enum agent_attempt_event {
    ATTEMPT_EV_ORDER,      /* the controller's RUN is durable */
    ATTEMPT_EV_FOUND,      /* a shim lives that nobody here knows an order of */
    ATTEMPT_EV_FOUND_DEAD, /* the same, without a living shim */
    ATTEMPT_EV_SHIM_UP,    /* its shim answers */
    ATTEMPT_EV_STARTED,    /* every rank has been forked */
    ATTEMPT_EV_SHIM_LOST,  /* its shim is gone and proved nothing */
    ATTEMPT_EV_STOP,       /* a stop is durable that covers it */
    ATTEMPT_EV_GRACE,      /* TERM had its time */
    ATTEMPT_EV_DEADLINE,   /* KILL had its time */
    ATTEMPT_EV_EMPTIED,    /* proven: nothing is left */
    ATTEMPT_EV_REFUSED,    /* it could not be launched; nothing ran */
    ATTEMPT_EV_FORGET,
};

struct agent_rank {
    uint8_t state; /* enum rank_state */
    uint8_t phase;
    bool has_mailbox;
    bool after_stop;
    int32_t code;
    uint64_t end_sequence;
    uint64_t end_ms;
    uint64_t step;
    uint64_t changed_ms;
    uint32_t step_ms;
    uint32_t compute_ms;
    struct agent_printed printed; /* step 0: it has printed none */
};

struct agent_attempt {
    uint8_t state; /* soft, enum agent_attempt_state; NONE: this place is free */
    /* durable */
    uint32_t job;
    uint32_t attempt;
    uint32_t first_rank;
    uint32_t rank_count;
    bool ordered;         /* an ORDER record stands for it */
    bool durable_empty;   /* an EMPTY record does */
    bool durable_refused; /* a REFUSED record does */
    /* soft */
    bool foreign;  /* found here, and no order is known */
    bool launched; /* START was ordered in this life */
    bool shim_alive;
    bool stop_seen; /* as the job's stop_below says, for reports */
    bool forget;    /* the controller has the end */
    bool term_sent; /* to the living shim, since it was attached */
    bool kill_sent;
    bool sweeping; /* a SWEEP is under way */
    bool ends_acked;
    bool ends_due;
    bool abort_told;
    uint32_t told_save;
    bool told_stop;
    uint64_t kill_ms;       /* when TERM has had its time */
    uint64_t unclean_ms;    /* when KILL has had its */
    uint64_t again_ms;      /* next KILL or SWEEP */
    uint64_t ends_sequence; /* 0: no rank has ended */
    uint64_t read_ms;       /* when something last came of reading its outputs; 0: never */
    uint64_t used_ms;       /* processor time, as last told; 0: not known */
    char text[TEXT_SIZE];   /* durable with durable_refused */
    char cluster_id[CLUSTER_ID_SIZE];
    char job_name[NAME_SIZE];
    struct agent_rank ranks[RANKS_PER_NODE_MAX];
};

enum agent_scan_state { SCAN_NONE, SCAN_ASKED, SCAN_DONE };

struct agent_job {
    bool used;
    /* soft */
    bool want;    /* `desired` is a RUN that stands */
    bool forget;  /* with the last STOP */
    uint8_t scan; /* enum agent_scan_state, for the launch that is wanted */
    /* durable */
    uint32_t job;
    uint32_t order_below; /* highest ordered attempt + 1; 0: none */
    uint32_t stop_below;  /* attempts below it are stopped for good; 0: none */
    uint32_t over_below;  /* highest forgotten attempt + 1; 0: none */
    uint32_t grace_ms;
    /* soft */
    uint64_t scan_ms;
    uint64_t term; /* of the last order believed, with `sequence` */
    uint64_t sequence;
    struct msg_desired desired;
    char name[NAME_SIZE]; /* durable */
};

struct agent_key {
    bool used;
    bool due; /* to be sent */
    struct msg_exchange put;
};

struct agent_get {
    bool used;
    bool due;
    uint32_t local_rank;
    uint64_t id; /* of the mailbox request */
    uint32_t job;
    uint32_t attempt;
    uint32_t rank;
    char key[EXCHANGE_KEY_SIZE];
};

struct agent_checkpoint {
    bool used;
    uint64_t send_ms; /* when it is to be sent (again) */
    uint32_t local_rank;
    uint64_t id;
    struct msg_checkpoint message;
};

enum agent_question_kind { QUESTION_NONE, QUESTION_PEER, QUESTION_FENCE, QUESTION_CHECK };

struct agent_question {
    uint8_t kind;   /* enum agent_question_kind */
    uint64_t nonce; /* the controller's; FENCE: our own */
    uint64_t asked_ms;
    uint32_t job;
    char name[NAME_SIZE];
};

enum agent_link_state {
    LINK_CLOSED, /* dial_ms says when to dial */
    LINK_DIALING,
    LINK_HELLO, /* stands, hello is sent, no welcome yet */
    LINK_SESSION,
};

struct agent_link {
    uint8_t state; /* enum agent_link_state */
    uint32_t failures;
    uint64_t dial_ms;
    uint64_t heard_ms;   /* on this connection */
    uint64_t session_ms; /* any controller that welcomed us: last message; for the fence rule */
    uint64_t beat_sequence;
    uint64_t beat_ms; /* last one sent */
    bool beat_due;
};

struct agent_fence {
    uint64_t next_ms;  /* no round before */
    uint64_t until_ms; /* the running round's end; 0: none runs */
    uint32_t asked;
    uint32_t agreed;
    uint32_t answered;
    uint64_t nonce;
};

/* What the controller last asked of this node's fitness: agent_validate.c. */
struct agent_validation {
    uint64_t nonce; /* of the newest ask, that the answer is for; 0: none was */
    uint64_t run;   /* of the action, which may be for an earlier ask */
    uint8_t level;  /* enum validate_level */
    bool running;
    bool ok; /* once it has ended; so is text */
    char text[TEXT_SIZE];
};

/* What every step reads stands first and together, with what tells how far it must look; names and
 * lists come last. */
struct agent_core {
    struct agent_limits limits;
    uint32_t attempt_top; /* from this place on, attempts were never used: nobody looks there */
    uint32_t job_top;     /* the same of jobs */
    uint64_t now_ms;
    uint64_t wall_ms;
    struct agent_output *out;       /* borrowed during a step, else NULL */
    struct agent_attempt *attempts; /* durable, as far as each says */
    struct agent_job *jobs;         /* the same */
    /* soft */
    bool started;
    bool scanned; /* the first whole look at this node has ended */
    bool leaving; /* goodbye was ordered */
    bool clean_boot;
    bool unwell[2]; /* as the agent's own means say; as its probes say */
    uint32_t fact_count;
    uint32_t fact_next;   /* of this session: the first one not sent yet */
    struct fact *facts;   /* oldest first */
    uint64_t fact_last;   /* number of the newest one */
    uint64_t mail_due_ms; /* before then none of keys, gets and checkpoints is due */
    struct agent_link link;
    struct agent_fence fence;
    uint64_t sequence; /* low part of the next sequence number */
    /* durable */
    uint64_t term;
    uint64_t life;
    bool said_goodbye; /* the last life did */
    char cluster_id[CLUSTER_ID_SIZE];
    char boot_id[BOOT_ID_SIZE]; /* of the last life */
    uint32_t peer_count;        /* told by the controller; identity.peers are asked beside them */
    struct known_peer peers[PEERS_KNOWN_MAX];
    /* soft */
    struct agent_counters counters;
    char health_text[2][TEXT_SIZE]; /* why */
    struct agent_key *keys;
    struct agent_get *gets;
    struct agent_checkpoint *checkpoints;
    struct agent_question *questions;
    struct prng prng;
    struct agent_identity identity;
    struct agent_validation validation;
};

/* agent_output.c: what a step says. All need core->out. */
struct agent_action *agent_emit(struct agent_core *core, uint8_t kind); /* zeroed but for kind */
bool agent_emit_room(const struct agent_core *core);
struct message *agent_emit_send(struct agent_core *core, uint8_t message_kind);
/* Applies the record and puts it out; kind and fields as in agent_core.h, wall_ms is filled in. */
void agent_emit_record(struct agent_core *core, struct agent_record *record);
void agent_trace(struct agent_core *core, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t agent_next_sequence(struct agent_core *core);

/* agent_record.c */
void agent_peer_record(const struct known_peer *peer, uint32_t index,
                       struct agent_record *ret_record);
MUST_CHECK int agent_apply(struct agent_core *core, const struct agent_record *record);
struct agent_job *agent_job_find(const struct agent_core *core, uint32_t job); /* or NULL */
struct agent_attempt *agent_attempt_find(const struct agent_core *core, uint32_t job,
                                         uint32_t attempt);              /* or NULL */
struct agent_attempt *agent_attempt_free_place(struct agent_core *core); /* or NULL */
struct agent_job *agent_job_free_place(struct agent_core *core);         /* or NULL */

/* agent_attempt.c: the life of an attempt on this node. */
void agent_attempt_move(struct agent_core *core, struct agent_attempt *attempt, uint8_t event,
                        const char *why);
bool agent_attempt_over(const struct agent_attempt *attempt); /* EMPTY or REFUSED */
bool agent_attempt_ours(const struct agent_core *core, const struct agent_attempt *attempt);
void agent_attempts_restore(struct agent_core *core); /* after the replay */
void agent_attempts_tick(struct agent_core *core);
void agent_attempt_stop(struct agent_core *core, struct agent_attempt *attempt, uint32_t grace_ms);
void agent_attempt_forget(struct agent_core *core, struct agent_attempt *attempt);
/* A place for one more attempt, if need be by forgetting an ended one: for a launch also one whose
 * ends are not acknowledged yet, since the controller has moved on. NULL: all are live. */
struct agent_attempt *agent_attempt_place(struct agent_core *core, bool for_launch);
uint64_t agent_attempts_deadline(const struct agent_core *core);
void agent_on_shim(struct agent_core *core, const struct agent_event *event);
void agent_on_shim_lost(struct agent_core *core, const struct agent_event *event);
void agent_on_orphans(struct agent_core *core, const struct agent_event *event);
void agent_on_orphan_ended(struct agent_core *core, const struct agent_event *event);
void agent_on_launch_failed(struct agent_core *core, const struct agent_event *event);
void agent_on_mailbox(struct agent_core *core, const struct agent_event *event);
void agent_on_output(struct agent_core *core, const struct agent_event *event);
/* Its step is the one that it printed: see struct agent_printed. */
bool agent_rank_prints(const struct agent_rank *rank);

/* agent_order.c: what the controller wants. */
void agent_on_desired(struct agent_core *core, const struct msg_desired *desired);
void agent_on_scanned(struct agent_core *core, const struct agent_event *event);
void agent_orders_tick(struct agent_core *core);
uint64_t agent_orders_deadline(const struct agent_core *core);
/* Makes a stop of (job, at most attempt) durable and begins it. */
/* Orders to run of which nothing was begun are forgotten with their session: the next hello would
 * say that nothing is here, and so it must stay until they are given again. */
void agent_order_unstarted_drop(struct agent_core *core);
void agent_order_stop(struct agent_core *core, struct agent_job *job, uint32_t at_most,
                      uint32_t grace_ms, const char *why);

/* agent_link.c: the session. */
void agent_on_link_up(struct agent_core *core);
void agent_on_link_down(struct agent_core *core, const char *why);
void agent_on_message(struct agent_core *core, const struct message *message);
void agent_on_fact(struct agent_core *core, const struct fact *fact);
void agent_link_tick(struct agent_core *core); /* last of a step: sends what is due */
uint64_t agent_link_deadline(const struct agent_core *core);
bool agent_link_good(const struct agent_core *core); /* what peers are told */

/* agent_report.c */
void agent_report_fill(const struct agent_core *core, const struct agent_attempt *attempt,
                       struct attempt_report *ret_report);
/* The attempts that the controller must hear of, most urgent first. */
uint32_t agent_report_all(const struct agent_core *core,
                          struct attempt_report reports[ATTEMPTS_PER_NODE_MAX]);

/* agent_mail.c: what ranks ask. */
void agent_on_mail(struct agent_core *core, const struct agent_event *event);
/* Passed on to the controller as it is, when there is a session: the driver says it again. */
void agent_on_detail(struct agent_core *core, const struct agent_event *event);
void agent_on_exchange(struct agent_core *core, const struct msg_exchange *exchange);
void agent_on_checkpoint_answer(struct agent_core *core,
                                const struct msg_checkpoint_answer *answer);
void agent_mail_session(struct agent_core *core); /* everything is due again */
/* Nobody is left to ask: keys and open gets go; saves that wait for an answer stay. */
void agent_mail_end(struct agent_core *core, uint32_t job, uint32_t attempt);
void agent_mail_forget(struct agent_core *core, uint32_t job, uint32_t attempt);
void agent_mail_flush(struct agent_core *core);
uint64_t agent_mail_deadline(const struct agent_core *core);
uint64_t agent_mail_next_due(const struct agent_core *core); /* looks through all */

/* agent_peer.c: questions in all directions, and the fence. */
void agent_on_peer_question(struct agent_core *core, const struct agent_event *event);
void agent_on_peers(struct agent_core *core, const struct msg_peers *peers);
void agent_on_peer_ask(struct agent_core *core, const struct msg_peer_ask *ask);
void agent_on_peer_probed(struct agent_core *core, const struct agent_event *event);
void agent_on_check(struct agent_core *core, const struct msg_check *check);
void agent_on_checked(struct agent_core *core, const struct agent_event *event);

/* agent_validate.c */
void agent_on_validate(struct agent_core *core, const struct msg_validate *ask);
void agent_on_validated(struct agent_core *core, const struct agent_event *event);
void agent_peers_tick(struct agent_core *core);
uint64_t agent_peers_deadline(const struct agent_core *core);

#endif
