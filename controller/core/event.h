/* event.h: what may happen to the core (events) and what it orders (actions).
 *
 * Events are validated by the driver: sessions are authenticated, messages decoded and within their
 * bounds. Everything that pointers here point to is borrowed for the one call of core_step. */
#ifndef KEEPSTEP_CORE_EVENT_H
#define KEEPSTEP_CORE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/core/record.h"
#include "proto/base/message.h"

/* ---- events ------------------------------------------------------------------------------ */

enum event_kind {
    EVENT_START,    /* first event of a process, after all replays: a new term begins */
    EVENT_TICK,     /* core_deadline_ms has come, or any other reason to look at the clock */
    EVENT_HELLO,    /* a new session said who it is; session ids are the driver's, never reused */
    EVENT_MESSAGE,  /* a message on a session that was welcomed */
    EVENT_CLOSED,   /* the session's connection is gone (also after ACTION_CLOSE) */
    EVENT_PINGED,   /* answer to ACTION_PING: does the old session still answer? */
    EVENT_REQUEST,  /* an operator's or a user's request */
    EVENT_STORE,    /* commits began to fail, or work again */
    EVENT_FENCED,   /* the hook of ACTION_FENCE has ended, or cannot be started */
    EVENT_REPAIRED, /* … of ACTION_REPAIR */
};

enum request_verb {
    REQUEST_SUBMIT,
    REQUEST_CANCEL,
    REQUEST_HOLD,
    REQUEST_RELEASE,    /* of a held job; also approves a rollback over max_lost */
    REQUEST_CHECKPOINT, /* ask rank 0 for a save now */
    REQUEST_PIN,        /* a checkpoint is never removed; `step` */
    REQUEST_UNPIN,
    REQUEST_VERIFY,  /* a checkpoint is read again on a node; `step` */
    REQUEST_RESTART, /* planned restart with the current spec */
    REQUEST_DRAIN,
    REQUEST_UNDRAIN,
    REQUEST_CORDON,
    REQUEST_UNCORDON,
    /* Forgets nodes that hold no slot: marks, suspicion, inventory and strikes go, the name's history
     * stays in the store. An agent that was there when its node was removed is refused from then on
     * (HELLO_RETIRED); a later start of it, or another boot, is a new node that joins and is checked
     * like any other, under the same id. */
    REQUEST_REMOVE,
    REQUEST_ADOPT, /* foreign ranks on the nodes, or counters of a newer store */
    REQUEST_STOP_FOREIGN,
    REQUEST_AUTOMATION, /* pause, resume, observe, act */
    REQUEST_VALIDATE,   /* nodes without a slot show that they are fit; `validation` */
};

enum automation_word { AUTOMATION_PAUSE, AUTOMATION_RESUME, AUTOMATION_OBSERVE, AUTOMATION_ACT };

struct request {
    uint64_t id; /* the driver's; comes back in ACTION_REPLY */
    uint8_t verb;
    bool dry_run; /* same checks, same answer text, nothing changes */
    char actor[NAME_SIZE];
    char reason[TEXT_SIZE];
    /* nodes: ids (core_node_find) of one transaction: all or none */
    const uint32_t *nodes;
    uint32_t node_count;
    uint8_t when;               /* enum leave_when_word */
    bool accept_inventory;      /* undrain */
    char clear_code[NAME_SIZE]; /* undrain: also clear marks of other owners with this code */
    bool skip_validation;       /* undrain: a person vouches for the node; needs a reason */
    uint8_t validation;         /* validate: enum validation_word, quick or full */
    uint8_t automation;         /* enum automation_word */
    /* jobs */
    uint32_t job;
    bool after_checkpoint; /* restart: a save first, waited for up to checkpoint.drain_wait, and not
                              at once; a hold asks for one always, as a drain does by its `when` */
    bool has_step;         /* pin, unpin, verify: of this step; else the newest usable one */
    uint64_t step;
    const struct job_spec *spec; /* submit */
    const char *text;            /* submit: the file's tree as JSON */
    uint32_t text_size;
};

enum event_store_state { STORE_OK, STORE_FAILING };

struct event {
    uint8_t kind;
    uint64_t now_ms;          /* monotonic of this process; never goes back */
    uint64_t wall_ms;         /* shown and stored, never compared */
    uint32_t pending_records; /* appended and not yet durable */
    /* So much of the time since the last event counts for no limit: the driver vouches that nobody
     * fell silent in it and that nothing was due but the silence of those who were not asked. */
    uint64_t idle_ms;
    bool more; /* others have happened by now too: what follows from all of them is looked at once,
                  at the TICK that core_deadline_ms() then owes at once */
    uint64_t session; /* HELLO, MESSAGE, CLOSED, PINGED */
    union {
        struct {
            char cluster_id[CLUSTER_ID_SIZE]; /* of a new store, made by the driver's randomness */
            char store_id[CLUSTER_ID_SIZE];
        } start;
        const struct msg_hello *hello;
        const struct message *message;
        bool pinged_alive;
        const struct request *request;
        uint8_t store; /* enum event_store_state */
        struct {
            uint32_t node;
            bool ok;
        } fenced;
        struct {
            uint32_t node;
            uint32_t order;       /* of the action */
            bool ok;              /* it ended with 0 */
            char text[TEXT_SIZE]; /* the last line that it printed, and how it ended if not so */
        } repaired;
    } u;
};

/* ---- actions ----------------------------------------------------------------------------- */

enum action_kind {
    ACTION_SEND,  /* a message to a session; u holds it in compact form */
    ACTION_CLOSE, /* close the session after what was sent; text says why */
    ACTION_PING,  /* does this session's agent answer within 2 s? -> EVENT_PINGED */
    ACTION_REPLY, /* answer of a request: result 0 or -errno, text for the person */
    ACTION_FENCE, /* hooks.fence_node for a node, where a site has one -> EVENT_FENCED; said again by
                     a new controller as long as it has no answer, so the hook must bear that */
    ACTION_REPAIR, /* a hook that mends a node -> EVENT_REPAIRED; the same holds: said again, with the
                      same order, by a new controller */
};

/* An action leaves only after the records of its own and all earlier steps are durable. Losing one
 * (a crash between commit and act) must be harmless: all of them are level or asked for again. */
struct action {
    uint8_t kind;
    uint8_t message; /* SEND: enum message_kind */
    uint64_t session;
    uint32_t node; /* 0 before the session is welcomed */
    union {
        struct msg_welcome welcome;
        struct msg_ack ack;
        struct msg_desired desired;   /* spec stays NULL: the driver attaches the job's text */
        struct msg_check check;       /* same */
        struct msg_save_ask save_ask; /* same */
        struct msg_checkpoint_answer checkpoint_answer;
        struct msg_peer_ask peer_ask;
        struct msg_snapshot_ask snapshot_ask;
        struct msg_validate validate;
        struct {
            uint32_t order; /* the node's, growing: with it, the name of this repair */
            uint32_t incident;
            uint8_t hook; /* enum repair_hook_word */
            uint8_t lane; /* enum repair_lane_word */
            char reason[TEXT_SIZE];
        } repair;
        struct {
            uint32_t count;
            uint32_t nodes[PEERS_KNOWN_MAX];
        } peers;
        struct {
            uint64_t request;
            int32_t result; /* 0, -ENOENT no such object, -EBUSY conflict, -EPERM, -ENOSPC no
                               spare or node, -EAGAIN paused or breaker, -EINVAL bad request */
            uint32_t job;   /* submit: its id */
            bool changed;   /* false: nothing was to be done (idempotent repeat) */
            char text[TEXT_SIZE];
        } reply;
        char text[TEXT_SIZE]; /* CLOSE */
    } u;
};

/* The whole message of an ACTION_SEND, for drivers that encode or pass on whole messages. */
struct core;
void action_message(const struct core *core, const struct action *action,
                    struct message *ret_message);

struct core_output {
    const struct record *records; /* owned by the core, valid until the next step */
    uint32_t record_count;
    const struct action *actions; /* same */
    uint32_t action_count;
    const char *trace; /* lines "[t] node gpu-0001 ready -> active: …\n"; "" when none */
};

#endif
