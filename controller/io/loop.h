/* loop.h: the libuv driver of the one core: events in, records to the store, and only when they are
 * durable, actions and answers out.
 *
 * One turn, in uv_prepare, right before the loop would block: every queued event of the agents is
 * stepped, then a tick when one is due, then requests of people for at most LOOP_REQUEST_US; what
 * they made true is one store_append; what they ordered is held until the store says that this
 * batch is durable. Batches leave in order, so that an action never overtakes the fact it rests on.
 * The core is never rolled back: when the disk fails, everything waits.
 *
 * One thread, the loop's. No function may be called from another. */
#ifndef KEEPSTEP_IO_LOOP_H
#define KEEPSTEP_IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "controller/core/core.h"
#include "controller/core/event.h"
#include "controller/io/drill.h"
#include "db/store.h"
#include "proto/base/err.h"

enum {
    LOOP_EVENTS_MAX = 4096,   /* queued events of agents; the next one has them stepped at once */
    LOOP_REQUESTS_MAX = 1024, /* requests without an answer; the next one is refused */
    LOOP_PAUSE_US = 4000,     /* so long long work may take before others are looked after */
    LOOP_REQUEST_US = 2000,   /* of one turn for requests; the rest waits for the next turn */
};

struct loop;

struct loop_options {
    uv_loop_t *uv;
    struct core *core;         /* replayed (replay.h), nothing stepped yet */
    struct store *store;       /* open */
    const struct drill *drill; /* NULL: none */
    const char *cluster_id;    /* of the cluster that a new store is for; NULL or "": a new one */
};

/* All pointers in the options are borrowed until loop_free(). */
MUST_CHECK int loop_create(const struct loop_options *options, struct loop **ret_loop,
                           struct err *err);
/* Begins the new term (EVENT_START). A new store gets its ids from the system's randomness, but for
 * a cluster id that was given. -EINVAL: the store is of another cluster than the given one. */
MUST_CHECK int loop_start(struct loop *loop, struct err *err);
/* Takes no more events, appends what is left and, when there is anything new, a snapshot. */
void loop_finish(struct loop *loop);
/* Closes its handles; the uv loop must run once more before loop_free(). */
void loop_close(struct loop *loop);
struct loop *loop_free(struct loop *loop);

/* ---- events, for agents.c ------------------------------------------------------------------ */

void loop_hello(struct loop *loop, uint64_t session, struct message *message);   /* takes message */
void loop_message(struct loop *loop, uint64_t session, struct message *message); /* same */
void loop_closed(struct loop *loop, uint64_t session);
void loop_pinged(struct loop *loop, uint64_t session, bool alive);
void loop_fenced(struct loop *loop, uint32_t node, bool ok); /* answer to ACTION_FENCE */
/* Answer to ACTION_REPAIR; text: at most TEXT_SIZE, copied. */
void loop_repaired(struct loop *loop, uint32_t node, uint32_t order, bool ok, const char *text);

/* Carries out one durable action other than ACTION_REPLY, borrowed for the call; NULL: these were
 * all for now. It may queue events; it must not run the loop. */
typedef void loop_carrier(void *context, const struct action *action);
void loop_set_carrier(struct loop *loop, loop_carrier *carrier, void *context);

/* ---- for the REST room --------------------------------------------------------------------- */

struct loop_answer {
    int32_t result; /* as in ACTION_REPLY */
    uint32_t job;
    bool changed;
    const char *text;  /* borrowed for the call */
    uint64_t revision; /* durable sequence when the answer was released */
};
typedef void loop_reply(void *context, const struct loop_answer *answer);
typedef void loop_callback(void *context);

/* Queues a copy of the request (its id is not looked at); reply is called exactly once, when the
 * answer is durable, never from within this call. -EAGAIN when too many wait. */
MUST_CHECK int loop_request(struct loop *loop, const struct request *request, loop_reply *reply,
                            void *context);
/* Calls back when everything that was stepped so far is durable: at once if it already is. What
 * loop_core() shows now may be shown to people then. */
void loop_when_durable(struct loop *loop, loop_callback *callback, void *context);
/* Calls back after every commit of at least one record. At most LOOP_WATCHERS_MAX of them; -ENOSPC.
 */
enum { LOOP_WATCHERS_MAX = 8 };
MUST_CHECK int loop_on_commit(struct loop *loop, loop_callback *callback, void *context);
/* Calls back amid long work, such as the orders for a whole fleet, LOOP_PAUSE_US after the last time
 * at the earliest: people who only look need not wait for all of it. What the callback sees
 * of the core is whole; what it asks for is done later, as ever. One of them; NULL: nobody. */
void loop_set_pause(struct loop *loop, loop_callback *callback, void *context);
/* For those who do such work piece by piece: pauses when it is time to. */
void loop_may_pause(struct loop *loop);
/* Drops every reply and callback of this context: the caller goes away. Requests still happen. */
void loop_forget(struct loop *loop, const void *context);

const struct core *loop_core(const struct loop *loop);
struct store *loop_store(const struct loop *loop);
uv_loop_t *loop_uv(const struct loop *loop);
struct message_pool *loop_messages(struct loop *loop); /* what agents said comes out of it */
uint64_t loop_revision(const struct loop *loop);       /* sequence of the last durable record */
/* … of the last one that was stepped, durable or not: what loop_core() shows now. */
uint64_t loop_core_revision(const struct loop *loop);
uint64_t loop_now_ms(void); /* the monotonic clock of all events */
uint64_t loop_wall_ms(void);

/* True when requests are answered and nodes are judged; else text says why not. */
enum { LOOP_READY_TEXT_SIZE = 320 };
bool loop_is_ready(const struct loop *loop, char text[LOOP_READY_TEXT_SIZE]);

/* The driver cannot go on (another controller took the journal, or it cannot be written and too
 * much waits): the callback is called once and the process must end. */
typedef void loop_fatal(void *context, const char *text);
void loop_set_fatal(struct loop *loop, loop_fatal *fatal, void *context);

struct loop_figures {
    uint64_t turns;
    uint64_t events; /* stepped, requests and ticks included */
    uint64_t records;
    uint64_t actions;
    uint64_t requests_refused;
    uint32_t events_max;  /* most that were queued at a time */
    uint32_t batches;     /* held now */
    uint64_t turn_us_max; /* longest turn */
    uint64_t turn_us;     /* all turns */
    uint64_t snapshots;
};
struct loop_figures loop_figures(const struct loop *loop);

#endif
