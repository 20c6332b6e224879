/* message_fuzz.c: bytes into wire_decode() (F8), in two ways.
 *
 * First byte even: the rest is a kind and a body as they are. Odd: the rest seeds a valid message
 * and then changes bytes of its body, which gets past the outer layers far more often than chance
 * would. Whatever is accepted must be sendable, must come back equal, and must then be stable. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/message.h"
#include "proto/base/prng.h"
#include "proto/wire/frame.h"
#include "proto/wire/wire.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/message_random.h"

enum { STORAGE_SIZE = 64, SEED_SIZE = 4, EDIT_SIZE = 3 };

static void check_accepted(const struct message *message)
{
    struct buf first;
    struct buf second;
    struct message back;
    buf_init(&first, FRAME_SIZE_MAX);
    buf_init(&second, FRAME_SIZE_MAX);
    CHECK(wire_encode(message, &first, NULL) == 0);
    CHECK(wire_decode(message->kind, first.data + FRAME_HEADER_SIZE, first.size - FRAME_HEADER_SIZE,
                      &back, NULL) == 0);
    CHECK(wire_encode(&back, &second, NULL) == 0);
    CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    message_done(&back);
    buf_done(&first);
    buf_done(&second);
}

/* The body is copied to its exact size, so that a read beyond it is seen. */
static void decode(uint8_t kind, const uint8_t *body, size_t size)
{
    struct message message;
    struct err err;
    uint8_t *copy = mem_alloc(size, 1);
    if (size > 0) {
        memcpy(copy, body, size);
    }
    int r = wire_decode(kind, copy, size, &message, &err);
    mem_free(copy);
    if (r < 0) {
        CHECK(err.code == r && err.text[0] != '\0');
        return;
    }
    check_accepted(&message);
    message_done(&message);
}

/* Changes one byte of the body, cuts it, or doubles a stretch of it, as three bytes say. */
static void edit(struct buf *body, const uint8_t *how)
{
    if (body->size == 0) {
        return;
    }
    size_t at = ((size_t)how[0] << 8 | how[1]) % body->size;
    if (how[2] < 8) {
        body->size = at;
    } else if (how[2] < 16) {
        size_t stretch = body->size - at < 32 ? body->size - at : 32;
        uint8_t bytes[32];
        memcpy(bytes, body->data + at, stretch);
        CHECK(buf_put(body, bytes, stretch) == 0);
    } else {
        body->data[at] = how[2];
    }
}

static void decode_edited(const uint8_t *data, size_t size)
{
    uint64_t seed = 0;
    for (size_t i = 0; i < SEED_SIZE; i++) {
        seed = seed << 8 | data[i];
    }
    char storage[STORAGE_SIZE];
    struct prng prng;
    struct message message;
    struct buf body;
    prng_seed(&prng, seed);
    uint8_t kind = message_kinds[prng_below(&prng, message_kind_count)];
    message_random(&prng, kind, storage, sizeof storage, &message);
    buf_init(&body, FRAME_SIZE_MAX + (size / EDIT_SIZE) * 32);
    CHECK(wire_encode(&message, &body, NULL) == 0);
    buf_consume(&body, FRAME_HEADER_SIZE);
    for (size_t at = SEED_SIZE; at + EDIT_SIZE <= size; at += EDIT_SIZE) {
        edit(&body, data + at);
    }
    decode(kind, body.data, body.size);
    buf_done(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + SEED_SIZE) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        decode(data[1], data + 2, size - 2);
    } else {
        decode_edited(data + 1, size - 1);
    }
    return 0;
}

/* One good message of each kind, in the first way. */
size_t fuzz_example_count(void)
{
    return message_kind_count * 4;
}

size_t fuzz_example(size_t index, uint8_t *target, size_t size_max)
{
    char storage[STORAGE_SIZE];
    struct prng prng;
    struct message message;
    struct buf frame;
    prng_seed(&prng, index);
    uint8_t kind = message_kinds[index % message_kind_count];
    message_random(&prng, kind, storage, sizeof storage, &message);
    buf_init(&frame, FRAME_SIZE_MAX);
    CHECK(wire_encode(&message, &frame, NULL) == 0);
    size_t body = frame.size - FRAME_HEADER_SIZE;
    CHECK(body + 2 <= size_max);
    target[0] = 0;
    target[1] = kind;
    memcpy(target + 2, frame.data + FRAME_HEADER_SIZE, body);
    buf_done(&frame);
    return body + 2;
}
