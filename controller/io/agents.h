/* agents.h: the port for agents: sessions to events, actions to frames.
 *
 * A session's life: connected -> hello read (EVENT_HELLO; its bytes are held) -> welcomed by the
 * core (ACTION_SEND of a welcome; from then on it speaks as that node) -> ended (EVENT_CLOSED).
 * A node speaks only for itself: the name in its hello must be the one its TLS identity proved,
 * unless the identity is the cluster's own; everything later is about that node whatever it says.
 */
#ifndef KEEPSTEP_IO_AGENTS_H
#define KEEPSTEP_IO_AGENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/io/loop.h"
#include "controller/io/session.h"
#include "controller/io/spec_cache.h"
#include "proto/base/err.h"

enum {
    AGENTS_BACKLOG = 4096,
    AGENTS_SWEEP_MS = 250,
    AGENTS_PING_MS = 2000,     /* for an old session to prove that it lives */
    AGENTS_PING_AFTER_MS = 10, /* what was in the kernel's buffer before the ping proves nothing */
    AGENTS_SESSIONS_MAX = 65535,
    AGENTS_LOG_LINES_PER_S = 20, /* about sessions of nobody; the rest is counted only */
};

struct agents;

struct agents_options {
    const char *address; /* "127.0.0.1:7444", "[::1]:7444"; port 0: any */
    struct tls_key *key; /* borrowed; NULL: no TLS */
    uint32_t sessions_max;
    struct spec_cache *specs; /* borrowed; NULL: orders travel without the job's file (tests) */
};

/* Listens at once. -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, -EINVAL with what to do; nothing is left
 * then once the uv loop has run. The caller hands it durable actions through agents_carry(). */
MUST_CHECK int agents_create(struct loop *loop, const struct agents_options *options,
                             struct agents **ret_agents, struct err *err);
/* Ends every session and the listener; the uv loop must run until agents_is_closed(). */
void agents_close(struct agents *agents);
bool agents_is_closed(const struct agents *agents);
struct agents *agents_free(struct agents *agents); /* after that; takes NULL */

/* Splits "host:port"; *ret_loopback says whether only this machine can reach it. */
MUST_CHECK int agents_parse_address(const char *text, struct sockaddr_storage *ret_address,
                                    bool *ret_loopback, struct err *err);
uint16_t agents_port(const struct agents *agents); /* the real one when it was 0 */

/* Carries out a durable ACTION_SEND, ACTION_CLOSE or ACTION_PING. What is to be sent may wait until
 * agents_flush(), which the caller owes before the loop goes on. */
void agents_carry(struct agents *agents, const struct action *action);
void agents_flush(struct agents *agents);
/* Sends a message that rests on nothing durable (relays). false when the session is gone. */
bool agents_send(struct agents *agents, uint64_t session, const struct message *message);
bool agents_has_session(const struct agents *agents, uint64_t session);

/* Messages that the core does not need. message: true when it took care of it (the struct stays
 * the caller's). closed: a welcomed session is gone. */
struct agents_relay {
    bool (*message)(void *context, uint64_t session, uint32_t node, const struct message *message);
    void (*closed)(void *context, uint64_t session);
    void *context;
};
void agents_set_relay(struct agents *agents, const struct agents_relay *relay);

struct agents_figures {
    uint32_t sessions; /* open now, not yet welcomed ones included */
    uint32_t welcomed; /* … of these, bound to a node */
    uint64_t accepted; /* connections, ever */
    uint64_t messages;
    uint64_t frames_sent;
    uint64_t bytes_sent;
    uint64_t encode_errors; /* a message of ours that broke a rule: a bug */
    uint64_t unknown_kinds; /* frames skipped */
    uint64_t ends[SESSION_END_COUNT];
    uint64_t log_suppressed;
};
struct agents_figures agents_figures(const struct agents *agents);

#endif
