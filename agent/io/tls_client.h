/* tls_client.h: TLS 1.3 with the cluster's pre-shared key, as the client, over buffers: no socket,
 * no loop. What the network brought is fed in, what must go out is taken from the output.
 *
 * Errors end the session: -EBADMSG not TLS or broken, -EACCES the controller has another key,
 * -EPROTO anything else. */
#ifndef KEEPSTEP_AGENT_TLS_CLIENT_H
#define KEEPSTEP_AGENT_TLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

struct tls_client_key;
struct tls_client;

/* One line of 16 to 64 bytes in hex or base64, readable by its owner alone (us or root). identity:
 * the node's name, which the controller compares with the hello. */
MUST_CHECK int tls_client_key_load(const char *path, const char *identity,
                                   struct tls_client_key **ret_key, struct err *err);
struct tls_client_key *tls_client_key_free(struct tls_client_key *key);

MUST_CHECK int tls_client_create(struct tls_client_key *key, struct tls_client **ret_tls,
                                 struct err *err);
struct tls_client *tls_client_free(struct tls_client *tls);

/* Takes bytes of the network (may be none: the first call begins the handshake). */
MUST_CHECK int tls_client_feed(struct tls_client *tls, const void *data, size_t size,
                               struct err *err);
bool tls_client_ready(const struct tls_client *tls);
/* > 0 bytes read, 0 the peer ended the session, -EAGAIN nothing for now. */
MUST_CHECK int tls_client_read(struct tls_client *tls, void *target, size_t size, struct err *err);
MUST_CHECK int tls_client_write(struct tls_client *tls, const void *data, size_t size,
                                struct err *err);
struct buf *tls_client_output(struct tls_client *tls); /* borrowed; the caller consumes it */

#endif
