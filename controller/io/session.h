/* session.h: one connection of an agent: bytes in, messages out, and back.
 *
 * Knows TLS, frames, deadlines and limits; knows nothing of nodes. Its owner (agents.c) gets
 * whole, valid messages and one end. Whatever a peer sends can only end its own session. */
#ifndef KEEPSTEP_IO_SESSION_H
#define KEEPSTEP_IO_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "controller/io/tls.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

enum {
    SESSION_HELLO_MS = 10000,       /* from the connection to a whole hello */
    SESSION_FRAME_MS = 10000,       /* from a frame's first byte to its last */
    SESSION_LINGER_MS = 2000,       /* for the last words to arrive before the end */
    SESSION_USER_TIMEOUT_MS = 6000, /* sent and not acknowledged by the peer's kernel */
    SESSION_QUEUE_MAX = 1 << 20,    /* bytes that a slow reader may let wait */
    SESSION_HOLD_MAX = 256 << 10,   /* bytes that may come before the hello is answered */
    SESSION_UNKNOWN_MAX = 1000,     /* frames of unknown kinds in one session */
    SESSION_READ_SIZE = 64 << 10,
    SESSION_PEER_SIZE = 64,
};

/* Why a session ended: counted by agents.c, shown in metrics. */
#define SESSION_ENDS(X)                                                                            \
    X(SESSION_END_PEER, "closed_by_peer")                                                          \
    X(SESSION_END_NETWORK, "connection_broken")                                                    \
    X(SESSION_END_CORE, "closed_by_controller")                                                    \
    X(SESSION_END_NO_HELLO, "no_hello")                                                            \
    X(SESSION_END_GARBAGE, "garbage")                                                              \
    X(SESSION_END_VERSION, "old_version")                                                          \
    X(SESSION_END_TOO_LONG, "frame_too_long")                                                      \
    X(SESSION_END_HALF_FRAME, "half_frame")                                                        \
    X(SESSION_END_INVALID, "invalid_message")                                                      \
    X(SESSION_END_UNEXPECTED, "unexpected_message")                                                \
    X(SESSION_END_KEY, "wrong_key")                                                                \
    X(SESSION_END_FORGED, "forged_node")                                                           \
    X(SESSION_END_SLOW, "slow_reader")                                                             \
    X(SESSION_END_FULL, "limit_reached")                                                           \
    X(SESSION_END_STOP, "controller_stops")

enum session_end {
#define X(constant, word) constant,
    SESSION_ENDS(X)
#undef X
};
#define X(constant, word) +1
enum { SESSION_END_COUNT = 0 SESSION_ENDS(X) };
#undef X
const char *session_end_word(enum session_end end);

struct session;

struct session_owner {
    /* A valid message, out of `messages`; it is the owner's from now on: message_pool_give(). */
    void (*message)(void *context, struct session *session, struct message *message);
    /* No more messages will come and nothing more can be sent; called once, never from within
     * session_send() or session_end(). text says what happened, for the log. */
    void (*ended)(void *context, struct session *session, enum session_end end, const char *text);
    /* The memory is about to be freed: the last call. */
    void (*freed)(void *context, struct session *session);
    void *context;
    struct message_pool *messages; /* borrowed for the sessions' lives */
    uint8_t *read_buffer;          /* SESSION_READ_SIZE bytes, shared by all sessions of one loop */
};

/* Takes the waiting connection of a listening handle. key: NULL = no TLS. key and owner are
 * borrowed for the session's life. -errno when the connection is already gone; nothing is left. */
MUST_CHECK int session_accept(uv_stream_t *listener, uint64_t id, struct tls_key *key,
                              const struct session_owner *owner, struct session **ret_session,
                              struct err *err);

uint64_t session_id(const struct session *session);
const char *session_peer(const struct session *session);     /* "10.0.0.7:40112" */
const char *session_identity(const struct session *session); /* proved by TLS; "" without */
void session_set_owner_data(struct session *session, void *data);
void *session_owner_data(const struct session *session);
/* Monotonic time at which the last whole frame came; 0 = none yet. */
uint64_t session_heard_ms(const struct session *session);

uint64_t session_unknown_count(const struct session *session); /* frames of unknown kinds skipped */

/* Between the hello and its answer bytes are kept but not read as messages. After release they are
 * read in a later turn of the loop, never from within the call. */
void session_hold(struct session *session);
void session_release(struct session *session);

/* One whole frame. A peer that does not read is ended soon after (SESSION_END_SLOW). After the end
 * it does nothing. frame is copied. */
void session_send(struct session *session, const uint8_t *frame, size_t size);

/* Ends it after what was sent; `ended` is called in a later turn of the loop. A second call does
 * nothing. */
void session_end(struct session *session, enum session_end end, const char *text);
bool session_is_over(const struct session *session);

/* Looks at the deadlines; the owner calls it a few times a second. */
void session_sweep(struct session *session, uint64_t now_ms);

#endif
