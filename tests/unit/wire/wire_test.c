/* wire_test.c: what is sent arrives, and nothing else does any harm: every kind of message, random,
 * largest, truncated at every byte, with every byte changed, with fields of later versions. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/message.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/kinds.h"
#include "proto/wire/wire.h"
#include "tests/lib/message_random.h"
#include "tests/unit/wire/raw.h"

static char storage[MESSAGE_TEXT_MAX];

/* Takes the borrowed text out of a message, so that the rest can be compared as bytes. */
static const char *take_text(struct message *message, uint32_t *ret_size)
{
    const char **text = NULL;
    switch (message->kind) {
    case MSG_DESIRED:
        text = &message->u.desired.spec;
        *ret_size = message->u.desired.spec_size;
        break;
    case MSG_CHECK:
        text = &message->u.check.spec;
        *ret_size = message->u.check.spec_size;
        break;
    case MSG_SAVE_ASK:
        text = &message->u.save_ask.spec;
        *ret_size = message->u.save_ask.spec_size;
        break;
    case MSG_LOG_DATA:
        text = &message->u.log_data.text;
        *ret_size = message->u.log_data.size;
        break;
    case MSG_SNAPSHOT_DATA:
        text = &message->u.snapshot_data.text;
        *ret_size = message->u.snapshot_data.size;
        break;
    }
    const char *taken = NULL;
    if (text != NULL) {
        taken = *text;
        *text = NULL;
    }
    return taken;
}

static void expect_equal(const struct message *a, const struct message *b)
{
    struct message left;
    struct message right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    uint32_t left_size = 0;
    uint32_t right_size = 0;
    const char *left_text = take_text(&left, &left_size);
    const char *right_text = take_text(&right, &right_size);
    assert_memory_equal(&left, &right, sizeof left);
    assert_int_equal(left_size, right_size);
    if (left_size > 0) {
        assert_memory_equal(left_text, right_text, left_size);
    }
}

/* The body of the one frame in out; checks its header on the way. */
static struct frame only_frame(struct frame_reader *reader, const struct buf *out, uint8_t kind)
{
    struct frame frame = {0};
    const uint8_t *data = out->data;
    size_t size = out->size;
    int side = kinds_find(kind)->from;
    frame_reader_init(reader, (enum frame_from)side);
    assert_int_equal(frame_reader_take(reader, &data, &size, &frame, NULL), 1);
    assert_int_equal(size, 0);
    assert_int_equal(frame.kind, kind);
    return frame;
}

static void round_trip(const struct message *message)
{
    struct buf out;
    struct err err = {0};
    struct message back;
    struct frame_reader reader;
    buf_init(&out, FRAME_SIZE_MAX);
    if (wire_encode(message, &out, &err) != 0) {
        fail_msg("encode: %s", err.text);
    }
    struct frame frame = only_frame(&reader, &out, message->kind);
    if (wire_decode(frame.kind, frame.body, frame.size, &back, &err) != 0) {
        fail_msg("decode: %s", err.text);
    }
    expect_equal(message, &back);
    message_done(&back);
    message_done(&back); /* does nothing */
    frame_reader_done(&reader);
    buf_done(&out);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct prng prng;
    struct message message;
    prng_seed(&prng, 11);
    for (size_t kind = 0; kind < message_kind_count; kind++) {
        for (size_t i = 0; i < 200; i++) {
            message_random(&prng, message_kinds[kind], storage, sizeof storage, &message);
            round_trip(&message);
        }
    }
}

static void test_zero_travels(void **state)
{
    (void)state;
    struct message message = {.kind = MSG_ACK};
    round_trip(&message);
    message = (struct message){.kind = MSG_BEAT};
    round_trip(&message);
    struct buf out;
    buf_init(&out, 64);
    assert_int_equal(wire_encode(&message, &out, NULL), 0);
    assert_int_equal(out.size, FRAME_HEADER_SIZE); /* absent is zero */
    buf_done(&out);
}

/* The largest message of today leaves room in its kind's limit for fields of later versions. */
static void test_largest(void **state)
{
    (void)state;
    struct message message;
    for (size_t i = 0; i < message_kind_count; i++) {
        uint8_t number = message_kinds[i];
        const struct wire_kind *kind = kinds_find(number);
        message_largest(number, storage, sizeof storage, &message);
        round_trip(&message);
        struct buf out;
        buf_init(&out, FRAME_SIZE_MAX);
        assert_int_equal(wire_encode(&message, &out, NULL), 0);
        uint32_t text_size = 0;
        (void)take_text(&message, &text_size);
        size_t rest = out.size - text_size;
        if (rest > (kind->size_max - text_size) / 2) {
            fail_msg("%s: %zu of %u bytes", message_kind_name(number), rest,
                     kind->size_max - text_size);
        }
        buf_done(&out);
    }
}

/* Decodes what may be anything. What is accepted must be sendable again, and then be stable. */
static int try_decode(uint8_t kind, const uint8_t *body, size_t size)
{
    struct message message;
    struct err err = {0};
    int r = wire_decode(kind, body, size, &message, &err);
    if (r < 0) {
        assert_true(r == -EBADMSG || r == -EMSGSIZE);
        assert_true(strlen(err.text) > 0);
        return r;
    }
    round_trip(&message);
    message_done(&message);
    return r;
}

static void with_frame(uint8_t kind, uint64_t seed, size_t text_max,
                       void (*with)(uint8_t kind, uint8_t *body, size_t size))
{
    struct prng prng;
    struct message message;
    struct buf out;
    prng_seed(&prng, seed);
    message_random(&prng, kind, storage, text_max, &message);
    buf_init(&out, FRAME_SIZE_MAX);
    assert_int_equal(wire_encode(&message, &out, NULL), 0);
    /* A copy of its own, so that a read past the end is seen. */
    size_t size = out.size - FRAME_HEADER_SIZE;
    uint8_t *body = mem_alloc(size, 1);
    memcpy(body, out.data + FRAME_HEADER_SIZE, size);
    with(kind, body, size);
    mem_free(body);
    buf_done(&out);
}

static void truncate_everywhere(uint8_t kind, uint8_t *body, size_t size)
{
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *part = mem_alloc(cut, 1);
        memcpy(part, body, cut);
        (void)try_decode(kind, part, cut); /* a cut between two fields is a message */
        mem_free(part);
    }
}

static void test_truncated(void **state)
{
    (void)state;
    for (size_t i = 0; i < message_kind_count; i++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            with_frame(message_kinds[i], seed, 200, truncate_everywhere);
        }
    }
}

static void flip_everywhere(uint8_t kind, uint8_t *body, size_t size)
{
    size_t refused = 0;
    for (size_t at = 0; at < size; at++) {
        uint8_t good = body[at];
        for (unsigned bit = 0; bit < 8; bit++) {
            body[at] = (uint8_t)(good ^ 1u << bit);
            refused += try_decode(kind, body, size) < 0;
        }
        body[at] = 0xff;
        refused += try_decode(kind, body, size) < 0;
        body[at] = good;
    }
    assert_true(size < 4 || refused > 0);
}

static void test_every_byte_changed(void **state)
{
    (void)state;
    for (size_t i = 0; i < message_kind_count; i++) {
        for (uint64_t seed = 1; seed <= 2; seed++) {
            with_frame(message_kinds[i], seed, 100, flip_everywhere);
        }
    }
}

static void add_unknown_fields(uint8_t kind, uint8_t *body, size_t size)
{
    struct buf more;
    struct message with;
    struct message without;
    buf_init(&more, FRAME_BODY_MAX);
    raw_varint(&more, 1000, 77);
    raw_text(&more, 1001, "from a later version");
    assert_int_equal(buf_put(&more, body, size), 0);
    raw_varint(&more, 536870911, UINT64_MAX);
    raw_bytes(&more, 1001, "\x00\xff", 2);
    assert_int_equal(wire_decode(kind, more.data, more.size, &with, NULL), 0);
    assert_int_equal(wire_decode(kind, body, size, &without, NULL), 0);
    expect_equal(&with, &without);
    message_done(&with);
    message_done(&without);
    buf_done(&more);
}

static void test_unknown_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < message_kind_count; i++) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            with_frame(message_kinds[i], seed, 100, add_unknown_fields);
        }
    }
}

/* Every allocation of a decoding fails once: an error, and nothing is lost. A small message needs
 * none; among all of them there are some that do. */
static uint64_t refused;

static void fail_every_allocation(uint8_t kind, uint8_t *body, size_t size)
{
    struct message message;
    uint64_t nth = 1;
    int r;
    do {
        mem_fail_at(nth++);
        r = wire_decode(kind, body, size, &message, NULL);
        assert_true(r == 0 || r == -ENOMEM);
    } while (r < 0);
    mem_fail_at(0);
    message_done(&message);
    refused += nth - 2;
}

static void test_no_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < message_kind_count; i++) {
        with_frame(message_kinds[i], 3, 100, fail_every_allocation);
    }
    assert_true(refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_zero_travels),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_unknown_fields),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
