/* tls.h: TLS 1.3 with a pre-shared key, over buffers: no socket, no loop, no blocking.
 *
 * Whoever owns the connection feeds what the network brought with tls_feed(), reads plain bytes
 * with tls_read(), and sends what tls_output() holds. The handshake runs by itself inside
 * tls_advance(). One key serves the whole cluster; the peer's identity is the name of its node, or
 * TLS_IDENTITY_ANY for one that may speak as any node.
 *
 * All failures are the peer's or the network's: -EBADMSG (not TLS, or broken), -EACCES (wrong key),
 * -EPROTO (anything else), with a text. After one the session is good for nothing but tls_free().
 */
#ifndef KEEPSTEP_IO_TLS_H
#define KEEPSTEP_IO_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

#define TLS_IDENTITY_ANY "keepstep"

enum {
    TLS_KEY_SIZE_MIN = 16, /* bytes; `keepstep admin key init` makes 32 */
    TLS_KEY_SIZE_MAX = 64,
    TLS_IDENTITY_SIZE = 64,
    TLS_OUTPUT_MAX = 4 << 20, /* encrypted bytes that wait to be sent */
    TLS_INPUT_MAX = 1 << 20,  /* encrypted bytes that wait to be read */
};

enum tls_side { TLS_SERVER, TLS_CLIENT };

struct tls_key; /* the secret and what GnuTLS needs for every session of one side */
struct tls;     /* one connection */

/* Reads a key file: one line, the key in hex or base64. -EPERM when others may read the file or it
 * is not the reader's or root's, -EINVAL when it holds no key. identity is copied; a server ignores
 * it (NULL). The key is kept for the lifetime of *ret_key; free it after the last session. */
MUST_CHECK int tls_key_load(const char *path, enum tls_side side, const char *identity,
                            struct tls_key **ret_key, struct err *err);
struct tls_key *tls_key_free(struct tls_key *key);

/* key is borrowed for the session's life. */
MUST_CHECK int tls_create(struct tls_key *key, struct tls **ret_tls, struct err *err);
struct tls *tls_free(struct tls *tls);

/* Takes bytes of the network. -EMSGSIZE when more wait than TLS_INPUT_MAX. */
MUST_CHECK int tls_feed(struct tls *tls, const void *data, size_t size, struct err *err);
/* Goes on with the handshake as far as what was fed allows. 0 in any case but a failure. A client
 * calls it once to begin. */
MUST_CHECK int tls_advance(struct tls *tls, struct err *err);
bool tls_ready(const struct tls *tls); /* the handshake is over, the peer has the key */
/* Identity that the peer proved; "" before tls_ready(). Borrowed. */
const char *tls_identity(const struct tls *tls);

/* Plain bytes: > 0 how many, -EAGAIN none for now, 0 the peer ended the session in order. */
MUST_CHECK int tls_read(struct tls *tls, void *target, size_t size, struct err *err);
/* Encrypts all of it into tls_output(). -EMSGSIZE past TLS_OUTPUT_MAX, -EAGAIN before tls_ready().
 */
MUST_CHECK int tls_write(struct tls *tls, const void *data, size_t size, struct err *err);
/* What must go to the network, oldest first; the caller consumes it. Borrowed. */
struct buf *tls_output(struct tls *tls);
/* Says goodbye to the peer, as far as possible: adds to tls_output(). */
void tls_bye(struct tls *tls);

#endif
