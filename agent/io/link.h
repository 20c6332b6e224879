/* link.h: the connection to the controller: bytes, TLS and frames; knows no orders.
 *
 * link_dial: resolve, connect, TLS handshake where there is a key: then AGENT_EVENT_LINK_UP. Every
 * failure before or after it is one AGENT_EVENT_LINK_DOWN with the reason: no such host, refused,
 * no TLS or a wrong key, garbage or a frame too long, a message that breaks a rule, closed by the
 * other side, the kernel's user timeout of 6 s, or more than LINK_QUEUE_MAX bytes that it does not
 * take. A hang-up that the core ordered says nothing. */
#ifndef KEEPSTEP_AGENT_LINK_H
#define KEEPSTEP_AGENT_LINK_H

#include "agent/io/agent_io.h"
#include "proto/base/err.h"

enum { LINK_QUEUE_MAX = 4 << 20, LINK_USER_TIMEOUT_MS = 6000, LINK_READ_SIZE = 16 << 10 };

/* Loads the key file where options name one. */
MUST_CHECK int link_create(struct agent_io *io, struct agent_link_io **ret_link, struct err *err);
void link_close(struct agent_link_io *link); /* now; free after the loop has run dry */
struct agent_link_io *link_free(struct agent_link_io *link);

void link_dial(struct agent_link_io *link);
void link_hang_up(struct agent_link_io *link);
/* Dropped without a connection: whatever matters is said again in the next session. */
void link_send(struct agent_link_io *link, const struct message *message);
/* Sends what waits, at most for a second, then closes the connection for good. */
void link_finish(struct agent_link_io *link);
bool link_is_finished(const struct agent_link_io *link);

#endif
