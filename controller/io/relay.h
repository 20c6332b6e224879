/* relay.h: what passes through the controller without being a decision: exchanged keys, log reads,
 * snapshots of what ranks do. Nothing here is durable; an agent's part of it is asked for again
 * after a reconnect, a person's answer fails with a reason. */
#ifndef KEEPSTEP_IO_RELAY_H
#define KEEPSTEP_IO_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/io/agents.h"
#include "controller/io/exchange.h"
#include "controller/io/loop.h"
#include "proto/base/err.h"

enum {
    RELAY_READS_MAX = 64,     /* log reads and snapshots that wait at a time */
    RELAY_TIMEOUT_MS = 10000, /* for the next piece of an answer */
    RELAY_TAIL_MAX = 1 << 20, /* bytes of one log read */
};

struct relay;

/* Registers itself with agents; both are borrowed and outlive it. */
struct relay *relay_create(struct loop *loop, struct agents *agents);
/* Fails what waits. Its timer closes on the uv loop; relay_free() after that. */
void relay_close(struct relay *relay);
struct relay *relay_free(struct relay *relay);

/* One piece of an answer. error: 0, or -errno and then this is the last call (-ETIMEDOUT: no
 * answer, -ENOTCONN: the agent went away, else the agent's own: -ENOENT no such file …). last: no
 * more calls. data is borrowed for the call and is any bytes. */
struct relay_piece {
    int error;
    const char *data;
    uint32_t size;
    bool last;
};
typedef void relay_reply(void *context, const struct relay_piece *piece);

/* Asks the node that holds (node 0) or held the rank for the last tail_bytes of its output. reply
 * is never called from within. -ENOENT no such job, -ERANGE no such rank, -ESRCH nobody holds the
 * slot now, -ENOTCONN the agent is not connected, -EAGAIN too many wait. */
MUST_CHECK int relay_log_read(struct relay *relay, uint32_t job, uint32_t attempt, uint32_t rank,
                              uint32_t node, uint64_t tail_bytes, relay_reply *reply, void *context,
                              struct err *err);
/* What the ranks of that attempt on that node are doing: one piece of JSON. Same errors. */
MUST_CHECK int relay_snapshot(struct relay *relay, uint32_t job, uint32_t attempt, uint32_t node,
                              relay_reply *reply, void *context, struct err *err);
/* The caller goes away: no more replies to this context. */
void relay_forget(struct relay *relay, const void *context);

struct relay_figures {
    struct exchange_figures exchange;
    uint64_t puts;
    uint64_t gets;
    uint64_t stale;   /* of an attempt that is not the current one, or of another node's rank */
    uint64_t refused; /* at a limit, or a second value for a key */
    uint64_t reads;
    uint64_t reads_failed;
};
struct relay_figures relay_figures(const struct relay *relay);

#endif
