/* wire.h: a struct message to a frame, and a frame's body to a struct message.
 *
 * What these two let pass is the same: what wire_encode() builds, wire_decode() of the same version
 * takes, and the message that comes out is equal but for fields that do not travel (fact.node and
 * fact.receive_ms: the receiver fills them in) and bytes that were not UTF-8.
 *
 * Guaranteed of a decoded message, so that nobody needs to check again:
 *   - texts are terminated, UTF-8 without control bytes other than tab and newline; those called
 *     names are "" or pass text_is_name(), node names and others that are required are not "";
 *     cluster ids and hashes are "" or all their hex digits; addresses "" or numeric
 *   - counts are within their arrays; enums have one of their values; ranks, slots and worlds are
 *     below WIRE_WORLD_MAX or not above it; a rank, GPU or port "of nobody" is -1
 *   - sequences, terms, steps, sizes and incarnations are at most 2^63-1
 *   - of a DESIRED_RUN: 1 … 16 ranks inside the world, slot < slot_count, tensor x context x
 *     pipeline x data = world, a job name, an order; an address and port when it says start
 * Whether it is stale (cluster, term, attempt, incarnation) is for the receiver's core to judge;
 * what its sender may say in a kind that it may send (an exchange's kind, a fact's source, which
 * node and rank it speaks for) is for the session. */
#ifndef KEEPSTEP_WIRE_WIRE_H
#define KEEPSTEP_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

enum {
    WIRE_MAJOR = 1,
    WIRE_MINOR = 1,
    WIRE_PROTOCOL = WIRE_MAJOR << 16 | WIRE_MINOR, /* for msg_hello.protocol */
    WIRE_WORLD_MAX = 1 << 20,                      /* ranks and slots of a job */
    WIRE_GRACE_MS_MAX = 24 * 3600 * 1000,
    WIRE_PEER_TIMEOUT_MS_MAX = 60 * 1000,
    WIRE_LOG_TAIL_MAX = 1024 * 1024,
};

/* true when this program and a peer of that protocol understand each other: the same major version
 * and at most one minor version apart, either way. */
bool wire_protocol_fits(uint32_t protocol);

/* Appends one whole frame to out. A sentence for people (text, checks_text, version, driver) that
 * is not valid UTF-8 goes out with question marks in place of the bad bytes; anything else that a
 * receiver would refuse is an error here, and out is as it was.
 *
 *   -ENOTSUP   no such kind
 *   -EINVAL    a field breaks a rule: err has its path and what is wrong
 *   -EMSGSIZE  no room in out (out's overflow flag is left alone)
 */
MUST_CHECK int wire_encode(const struct message *message, struct buf *out, struct err *err);

/* Fills *ret_message from the body of one frame. Unknown fields are ignored, unknown values of
 * enums that have a fallback become it. Uses no more memory than four times what a body of this
 * kind may have, whatever the body says. *ret_message is untouched on failure.
 *
 * Texts marked "borrowed" in message.h belong to the decoded message: message_done() frees them,
 * until then they may be read; they are NUL-terminated, which their size does not count.
 *
 *   -ENOTSUP   no such kind
 *   -EMSGSIZE  a body longer than its kind may be, or that unpacks into too much
 *   -EBADMSG   not protobuf, or a field breaks a rule: err has its path and what is wrong
 *   -ENOMEM    the system refused memory
 */
MUST_CHECK int wire_decode(uint8_t kind, const uint8_t *body, size_t size,
                           struct message *ret_message, struct err *err);

/* Frees the texts of a message that wire_decode() filled; a second call does nothing. Never for a
 * message made by hand: its texts are somebody else's. */
void message_done(struct message *message);

#endif
