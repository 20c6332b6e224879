/* frame.c: see frame.h. One path for every split of the stream: bytes are copied into the reader's
 * buffer, first up to a whole header, then up to a whole body. Frames are small; the copy is not
 * what costs. */
#include "proto/wire/frame.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/message.h"
#include "proto/wire/kinds.h"
#include "proto/wire/wire.h"

static const uint8_t magic[4] = {'K', 'S', 'T', 'P'};

/* A reader that once held a large frame gives the memory back: there is one for every node. */
enum { KEEP_CAPACITY_MAX = 16 * 1024 };

struct header {
    uint8_t version;
    uint8_t kind;
    uint16_t flags;
    uint32_t size;
};

static struct header header_read(const uint8_t *bytes)
{
    return (struct header){
        .version = bytes[4],
        .kind = bytes[5],
        .flags = (uint16_t)(bytes[6] << 8 | bytes[7]),
        .size = (uint32_t)bytes[8] << 24 | (uint32_t)bytes[9] << 16 | (uint32_t)bytes[10] << 8 |
                bytes[11],
    };
}

void frame_header_write(uint8_t header[FRAME_HEADER_SIZE], uint8_t kind, uint32_t size)
{
    CHECK(size <= FRAME_BODY_MAX);
    memcpy(header, magic, sizeof magic);
    header[4] = WIRE_MAJOR;
    header[5] = kind;
    header[6] = 0;
    header[7] = 0;
    header[8] = (uint8_t)(size >> 24);
    header[9] = (uint8_t)(size >> 16);
    header[10] = (uint8_t)(size >> 8);
    header[11] = (uint8_t)size;
}

/* Refuses all that can be seen to be wrong from the header. */
static int header_check(const struct frame_reader *reader, const uint8_t *bytes, struct err *err)
{
    if (memcmp(bytes, magic, sizeof magic) != 0) {
        return err_set(err, -EBADMSG,
                       "not a Keepstep peer: the frame begins with %02x %02x %02x %02x", bytes[0],
                       bytes[1], bytes[2], bytes[3]);
    }
    struct header header = header_read(bytes);
    if (header.version != WIRE_MAJOR) {
        return err_set(err, -EPROTONOSUPPORT, "the peer speaks protocol version %u, this is %d",
                       header.version, WIRE_MAJOR);
    }
    if ((header.flags & 0xff00) != 0) {
        return err_set(err, -EPROTONOSUPPORT, "frame of kind %u with unknown critical flags %04x",
                       header.kind, header.flags);
    }
    const struct wire_kind *kind = kinds_find(header.kind);
    if (kind != NULL && (kind->from & reader->from) == 0) {
        return err_set(err, -EPROTO, "frame of kind %u (%s) from the wrong side", header.kind,
                       message_kind_name(header.kind));
    }
    uint32_t size_max = kind != NULL ? kind->size_max : FRAME_BODY_MAX;
    if (header.size > size_max) {
        return err_set(err, -EMSGSIZE, "frame of kind %u (%s) with %u bytes, at most %u",
                       header.kind, message_kind_name(header.kind), header.size, size_max);
    }
    return 0;
}

void frame_reader_init(struct frame_reader *reader, enum frame_from from)
{
    *reader = (struct frame_reader){.from = (uint8_t)from};
    buf_init(&reader->buf, FRAME_SIZE_MAX);
}

void frame_reader_done(struct frame_reader *reader)
{
    if (reader != NULL) {
        buf_done(&reader->buf);
    }
}

/* Forgets the frame in the buffer. */
static void start_over(struct frame_reader *reader)
{
    if (reader->buf.capacity > KEEP_CAPACITY_MAX) {
        buf_done(&reader->buf);
    }
    buf_clear(&reader->buf);
    reader->whole = false;
}

/* Moves bytes from the input to the buffer until the buffer has `wanted`; true when it has. */
static bool fill(struct frame_reader *reader, size_t wanted, const uint8_t **data, size_t *size)
{
    size_t missing = wanted - reader->buf.size;
    size_t part = missing < *size ? missing : *size;
    CHECK(buf_put(&reader->buf, *data, part) == 0); /* wanted is at most the buffer's maximum */
    *data += part;
    *size -= part;
    return part == missing;
}

static void skip_unknown(struct frame_reader *reader, const uint8_t **data, size_t *size)
{
    size_t part = reader->skip < *size ? reader->skip : *size;
    reader->skip -= (uint32_t)part;
    *data += part;
    *size -= part;
}

int frame_reader_take(struct frame_reader *reader, const uint8_t **data, size_t *size,
                      struct frame *ret_frame, struct err *err)
{
    if (reader->broken < 0) {
        return err_set(err, reader->broken, "the stream was broken before");
    }
    if (reader->whole) {
        start_over(reader);
    }
    while (*size > 0) {
        if (reader->skip > 0) {
            skip_unknown(reader, data, size);
            continue;
        }
        if (reader->buf.size < FRAME_HEADER_SIZE) {
            if (!fill(reader, FRAME_HEADER_SIZE, data, size)) {
                return 0;
            }
            reader->broken = header_check(reader, reader->buf.data, err);
            if (reader->broken < 0) {
                return reader->broken;
            }
        }
        struct header header = header_read(reader->buf.data);
        if (kinds_find(header.kind) == NULL) {
            reader->unknown_kind = header.kind;
            reader->unknown_count++;
            reader->skip = header.size;
            start_over(reader);
            continue;
        }
        if (!fill(reader, FRAME_HEADER_SIZE + header.size, data, size)) {
            return 0;
        }
        reader->whole = true;
        *ret_frame = (struct frame){
            .kind = header.kind,
            .size = header.size,
            .body = header.size > 0 ? reader->buf.data + FRAME_HEADER_SIZE : NULL,
        };
        return 1;
    }
    return 0;
}

bool frame_reader_is_partial(const struct frame_reader *reader)
{
    return reader->skip > 0 || (reader->buf.size > 0 && !reader->whole);
}
