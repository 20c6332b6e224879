/* frame_fuzz.c: bytes into the frame reader (F8). The same stream whole and in pieces must give
 * the same frames and the same end, and every frame given out must hold what its header promised.
 *
 * First byte: who sends. Second: where the pieces are cut. Third, if odd: each following stretch of
 * the input gets a true header put before it, so that the reader stays in step. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/message.h"
#include "proto/base/prng.h"
#include "proto/wire/frame.h"
#include "proto/wire/kinds.h"
#include "proto/wire/wire.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/message_random.h"

enum { SETUP_SIZE = 3, STREAM_MAX = 1 << 22 };

static const enum frame_from sides[] = {FRAME_FROM_AGENT, FRAME_FROM_CONTROLLER, FRAME_FROM_ASKER,
                                        FRAME_FROM_PEER};

struct outcome {
    uint64_t digest; /* of all frames */
    uint64_t count;
    uint64_t unknown;
    int end; /* 0 or the error */
    bool partial;
};

static void fold(struct outcome *outcome, const struct frame *frame)
{
    const struct wire_kind *kind = kinds_find(frame->kind);
    CHECK(kind != NULL);
    CHECK(frame->size <= kind->size_max);
    CHECK((frame->body == NULL) == (frame->size == 0));
    outcome->count++;
    outcome->digest = hash_u64(outcome->digest, (uint64_t)frame->kind << 32 | frame->size);
    if (frame->size > 0) {
        outcome->digest = hash_bytes(outcome->digest, frame->body, frame->size);
    }
}

/* prng: NULL = all at once, else pieces of random sizes. */
static struct outcome read_all(enum frame_from from, const struct buf *stream, struct prng *prng)
{
    struct outcome outcome = {.digest = HASH_INIT};
    struct frame_reader reader;
    struct err err;
    frame_reader_init(&reader, from);
    size_t at = 0;
    while (at < stream->size && outcome.end == 0) {
        size_t left = stream->size - at;
        size_t piece = prng == NULL ? left : (size_t)prng_between(prng, 1, 40);
        piece = piece < left ? piece : left;
        const uint8_t *data = stream->data + at;
        at += piece;
        struct frame frame;
        int r;
        while ((r = frame_reader_take(&reader, &data, &piece, &frame, &err)) == 1) {
            fold(&outcome, &frame);
        }
        CHECK(r <= 0 && (r < 0 || piece == 0));
        CHECK(reader.buf.size <= FRAME_SIZE_MAX);
        outcome.end = r;
    }
    outcome.unknown = reader.unknown_count;
    outcome.partial = outcome.end == 0 && frame_reader_is_partial(&reader);
    frame_reader_done(&reader);
    return outcome;
}

/* Cuts the input into bodies and puts a header before each: byte 0 is the kind, byte 1 the size. */
static void build_stream(const uint8_t *data, size_t size, struct buf *stream)
{
    while (size >= 2) {
        uint8_t header[FRAME_HEADER_SIZE];
        size_t body = data[1] < size - 2 ? data[1] : size - 2;
        frame_header_write(header, data[0], (uint32_t)body);
        CHECK(buf_put(stream, header, sizeof header) == 0);
        CHECK(buf_put(stream, data + 2, body) == 0);
        data += 2 + body;
        size -= 2 + body;
    }
    CHECK(buf_put(stream, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < SETUP_SIZE || size > STREAM_MAX / 8) {
        return 0;
    }
    enum frame_from from = sides[data[0] % ARRAY_SIZE(sides)];
    struct prng prng;
    struct buf stream;
    prng_seed(&prng, data[1]);
    buf_init(&stream, STREAM_MAX);
    if (data[2] % 2 == 1) {
        build_stream(data + SETUP_SIZE, size - SETUP_SIZE, &stream);
    } else {
        CHECK(buf_put(&stream, data + SETUP_SIZE, size - SETUP_SIZE) == 0);
    }
    struct outcome whole = read_all(from, &stream, NULL);
    struct outcome pieces = read_all(from, &stream, &prng);
    CHECK(whole.digest == pieces.digest);
    CHECK(whole.count == pieces.count);
    CHECK(whole.unknown == pieces.unknown);
    CHECK(whole.end == pieces.end);
    CHECK(whole.partial == pieces.partial);
    buf_done(&stream);
    return 0;
}

/* Streams of several frames that one side may send. */
size_t fuzz_example_count(void)
{
    return 32;
}

size_t fuzz_example(size_t index, uint8_t *target, size_t size_max)
{
    struct prng prng;
    struct message message;
    struct buf stream;
    prng_seed(&prng, index);
    buf_init(&stream, size_max - SETUP_SIZE);
    enum frame_from from = sides[index % ARRAY_SIZE(sides)];
    for (size_t i = 0; i < 12; i++) {
        uint8_t kind = message_kinds[prng_below(&prng, message_kind_count)];
        message_random(&prng, kind, NULL, 0, &message);
        if ((kinds_find(kind)->from & from) != 0) {
            CHECK(wire_encode(&message, &stream, NULL) == 0);
        }
    }
    target[0] = (uint8_t)(index % ARRAY_SIZE(sides));
    target[1] = (uint8_t)index;
    target[2] = 0;
    if (stream.size > 0) {
        memcpy(target + SETUP_SIZE, stream.data, stream.size);
    }
    size_t size = stream.size;
    buf_done(&stream);
    return size + SETUP_SIZE;
}
