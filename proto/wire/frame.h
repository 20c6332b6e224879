/* frame.h: how messages are cut out of a byte stream.
 *
 * A frame is a header of 12 bytes, all big endian, and a body:
 *
 *     0  magic    4  "KSTP"
 *     4  version  1  major version of the protocol; this place is the same in every version
 *     5  kind     1  enum message_kind
 *     6  flags    2  high byte: a receiver that does not know a set bit must refuse the frame;
 *                    low byte: it may ignore it. None is defined, a sender writes 0
 *     8  size     4  bytes of the body: one protobuf message of keepstep.proto
 *
 * Everything that can be refused is refused from the header, before the body is waited for or any
 * memory is taken: a length of 4 GiB costs the sender its connection and the receiver nothing. A
 * reader never holds more than one frame, and memory grows only as bytes arrive. */
#ifndef KEEPSTEP_WIRE_FRAME_H
#define KEEPSTEP_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

enum {
    FRAME_HEADER_SIZE = 12,
    FRAME_BODY_MAX = 128 * 1024, /* of any kind, known or not; most known ones have far less */
    FRAME_SIZE_MAX = FRAME_HEADER_SIZE + FRAME_BODY_MAX,
};

/* Who stands at the other end; bits, because a kind may be sent by more than one. */
enum frame_from {
    FRAME_FROM_AGENT = 1,
    FRAME_FROM_CONTROLLER = 2,
    FRAME_FROM_ASKER = 4, /* on the peer port: the agent that dialled */
    FRAME_FROM_PEER = 8,  /* on the peer port: the agent that was asked */
};

struct frame {
    uint8_t kind; /* always one that wire_decode() knows */
    uint32_t size;
    const uint8_t *body; /* borrowed from the reader until its next call; NULL if size is 0 */
};

struct frame_reader {
    struct buf buf;         /* header and body so far of the frame being read */
    uint32_t skip;          /* bytes of an unknown frame's body still to come and be dropped */
    int broken;             /* -errno once the stream cannot be read any further */
    uint8_t from;           /* enum frame_from */
    bool whole;             /* buf holds a frame that the caller still looks at */
    uint8_t unknown_kind;   /* the last one skipped */
    uint64_t unknown_count; /* frames of unknown kinds skipped: worth a counted warning */
};

/* from: who sends what will be read. Done also after init alone. */
void frame_reader_init(struct frame_reader *reader, enum frame_from from);
void frame_reader_done(struct frame_reader *reader);

/* Takes bytes from *data (moving *data and *size on) until one frame is whole.
 *
 *   1  *ret_frame is filled; call again for what may be left in *data
 *   0  all bytes are taken and more are needed; *ret_frame is untouched
 *  <0  the stream is broken for good, say err and close: every later call says the same
 *      -EBADMSG          no magic: not our protocol
 *      -EPROTONOSUPPORT  another major version, or a flag that must be understood
 *      -EMSGSIZE         a body longer than its kind may be
 *      -EPROTO           a kind that this sender may not send
 *
 * A frame of an unknown kind is dropped and counted, so that a newer peer may send new kinds. */
MUST_CHECK int frame_reader_take(struct frame_reader *reader, const uint8_t **data, size_t *size,
                                 struct frame *ret_frame, struct err *err);

/* true in the middle of a frame: a stream that ends here was cut. */
bool frame_reader_is_partial(const struct frame_reader *reader);

/* Writes the header of a frame; size is at most FRAME_BODY_MAX. */
void frame_header_write(uint8_t header[FRAME_HEADER_SIZE], uint8_t kind, uint32_t size);

#endif
