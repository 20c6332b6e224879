/* frame_test.c: cutting frames out of streams that are split anywhere, cut short, or hostile. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/base/check.h"
#include "proto/base/message.h"
#include "proto/base/prng.h"
#include "proto/wire/frame.h"
#include "proto/wire/kinds.h"
#include "tests/lib/message_random.h"

/* Appends a header with anything in it, and a body of that many bytes of `fill`. */
static void put_frame(struct buf *buf, uint8_t version, uint8_t kind, uint16_t flags, uint32_t size,
                      size_t sent, uint8_t fill)
{
    uint8_t header[FRAME_HEADER_SIZE] = {'K',
                                         'S',
                                         'T',
                                         'P',
                                         version,
                                         kind,
                                         (uint8_t)(flags >> 8),
                                         (uint8_t)flags,
                                         (uint8_t)(size >> 24),
                                         (uint8_t)(size >> 16),
                                         (uint8_t)(size >> 8),
                                         (uint8_t)size};
    assert_int_equal(buf_put(buf, header, sizeof header), 0);
    for (size_t i = 0; i < sent; i++) {
        assert_int_equal(buf_put(buf, &fill, 1), 0);
    }
}

static int take_all(struct frame_reader *reader, const struct buf *stream, struct frame *ret_frame,
                    struct err *err)
{
    const uint8_t *data = stream->data;
    size_t size = stream->size;
    return frame_reader_take(reader, &data, &size, ret_frame, err);
}

static void expect_refused(enum frame_from from, const struct buf *stream, int code,
                           const char *text)
{
    struct frame_reader reader;
    struct frame frame;
    struct err err = {0};
    frame_reader_init(&reader, from);
    assert_int_equal(take_all(&reader, stream, &frame, &err), code);
    if (strstr(err.text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", err.text, text);
    }
    assert_true(reader.buf.capacity <= 1024);                        /* refused from the header */
    assert_int_equal(take_all(&reader, stream, &frame, &err), code); /* broken for good */
    frame_reader_done(&reader);
}

static void test_header_bytes(void **state)
{
    (void)state;
    uint8_t header[FRAME_HEADER_SIZE];
    frame_header_write(header, MSG_ACK, 0x00012345);
    const uint8_t expected[] = {'K', 'S', 'T', 'P', 1, 33, 0, 0, 0, 1, 0x23, 0x45};
    assert_memory_equal(header, expected, sizeof expected);
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    struct buf stream;
    struct frame_reader reader;
    struct frame frame = {0};
    buf_init(&stream, 4096);
    put_frame(&stream, 1, MSG_BEAT, 0, 5, 5, 0xab);
    frame_reader_init(&reader, FRAME_FROM_AGENT);
    for (size_t i = 0; i < stream.size; i++) {
        assert_int_equal(frame_reader_is_partial(&reader), i > 0);
        const uint8_t *data = stream.data + i;
        size_t size = 1;
        int r = frame_reader_take(&reader, &data, &size, &frame, NULL);
        assert_int_equal(r, i + 1 == stream.size);
        assert_int_equal(size, 0);
    }
    assert_false(frame_reader_is_partial(&reader));
    assert_int_equal(frame.kind, MSG_BEAT);
    assert_int_equal(frame.size, 5);
    assert_memory_equal(frame.body, "\xab\xab\xab\xab\xab", 5);
    frame_reader_done(&reader);
    buf_done(&stream);
}

static void test_several_in_one_chunk(void **state)
{
    (void)state;
    struct buf stream;
    struct frame_reader reader;
    struct frame frame;
    buf_init(&stream, 4096);
    put_frame(&stream, 1, MSG_ACK, 0, 0, 0, 0); /* an empty body is a message of zeros */
    put_frame(&stream, 1, MSG_DESIRED, 0, 3, 3, 7);
    put_frame(&stream, 1, MSG_ACK, 0x00ff, 1, 1, 9); /* flags that may be ignored */
    put_frame(&stream, 1, MSG_ACK, 0, 4, 2, 9);      /* not yet whole */
    frame_reader_init(&reader, FRAME_FROM_CONTROLLER);
    const uint8_t *data = stream.data;
    size_t size = stream.size;
    assert_int_equal(frame_reader_take(&reader, &data, &size, &frame, NULL), 1);
    assert_int_equal(frame.kind, MSG_ACK);
    assert_int_equal(frame.size, 0);
    assert_null(frame.body);
    assert_int_equal(frame_reader_take(&reader, &data, &size, &frame, NULL), 1);
    assert_int_equal(frame.kind, MSG_DESIRED);
    assert_memory_equal(frame.body, "\7\7\7", 3);
    assert_int_equal(frame_reader_take(&reader, &data, &size, &frame, NULL), 1);
    assert_int_equal(frame.kind, MSG_ACK);
    assert_memory_equal(frame.body, "\t", 1);
    assert_int_equal(frame_reader_take(&reader, &data, &size, &frame, NULL), 0);
    assert_int_equal(size, 0);
    assert_true(frame_reader_is_partial(&reader));
    frame_reader_done(&reader);
    buf_done(&stream);
}

/* A stream of random frames, known kinds and others, cut at random places, gives the known ones. */
static void split_at_random(struct prng *prng)
{
    enum { FRAMES = 40 };
    struct buf stream;
    struct frame_reader reader;
    struct frame frame;
    uint32_t sizes[FRAMES];
    size_t known = 0;
    uint64_t unknown = 0;
    buf_init(&stream, FRAMES * FRAME_SIZE_MAX);
    for (size_t i = 0; i < FRAMES; i++) {
        bool is_known = prng_chance_ppm(prng, 700000);
        uint32_t size = (uint32_t)prng_below(prng, prng_chance_ppm(prng, 100000) ? 15000 : 300);
        put_frame(&stream, 1, is_known ? MSG_HELLO : 200, 0, size, size, (uint8_t)known);
        if (is_known) {
            sizes[known++] = size;
        } else {
            unknown++;
        }
    }
    frame_reader_init(&reader, FRAME_FROM_AGENT);
    size_t at = 0;
    size_t got = 0;
    while (at < stream.size) {
        size_t size = (size_t)prng_between(prng, 1, 700);
        size = size < stream.size - at ? size : stream.size - at;
        const uint8_t *data = stream.data + at;
        at += size;
        while (frame_reader_take(&reader, &data, &size, &frame, NULL) == 1) {
            assert_true(got < known);
            assert_int_equal(frame.size, sizes[got]);
            for (uint32_t i = 0; i < frame.size; i++) {
                assert_int_equal(frame.body[i], (uint8_t)got);
            }
            got++;
        }
        assert_int_equal(size, 0);
        assert_int_equal(reader.broken, 0);
    }
    assert_int_equal(got, known);
    assert_int_equal(reader.unknown_count, unknown);
    frame_reader_done(&reader);
    buf_done(&stream);
}

static void test_random_splits(void **state)
{
    (void)state;
    struct prng prng;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        prng_seed(&prng, seed);
        split_at_random(&prng);
    }
}

static void test_unknown_kind_is_skipped(void **state)
{
    (void)state;
    struct buf stream;
    struct frame_reader reader;
    struct frame frame;
    buf_init(&stream, 2 * FRAME_SIZE_MAX);
    put_frame(&stream, 1, 250, 0, FRAME_BODY_MAX, FRAME_BODY_MAX, 1);
    put_frame(&stream, 1, 0, 0, 0, 0, 1);
    put_frame(&stream, 1, MSG_GOODBYE, 0, 1, 1, 2);
    frame_reader_init(&reader, FRAME_FROM_AGENT);
    assert_int_equal(take_all(&reader, &stream, &frame, NULL), 1);
    assert_int_equal(frame.kind, MSG_GOODBYE);
    assert_int_equal(reader.unknown_count, 2);
    assert_int_equal(reader.unknown_kind, 0);
    assert_true(reader.buf.capacity <= 1024); /* skipped, not gathered */
    frame_reader_done(&reader);
    buf_done(&stream);
}

static void test_bad_headers(void **state)
{
    (void)state;
    static const struct {
        uint8_t version, kind;
        uint16_t flags;
        uint32_t size;
        int code;
        const char *text;
    } cases[] = {
        {0, MSG_HELLO, 0, 1, -EPROTONOSUPPORT, "protocol version 0"},
        {2, MSG_HELLO, 0, 1, -EPROTONOSUPPORT, "protocol version 2"},
        {1, MSG_HELLO, 0x0100, 1, -EPROTONOSUPPORT, "critical flags 0100"},
        {1, MSG_HELLO, 0, UINT32_MAX, -EMSGSIZE, "with 4294967295 bytes"},
        {1, MSG_HELLO, 0, 0x80000000, -EMSGSIZE, "hello"},
        {1, 250, 0, FRAME_BODY_MAX + 1, -EMSGSIZE, "unknown"},
        {1, 250, 0, UINT32_MAX, -EMSGSIZE, "unknown"},
        {1, MSG_WELCOME, 0, 1, -EPROTO, "welcome"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct buf stream;
        buf_init(&stream, 4096);
        put_frame(&stream, cases[i].version, cases[i].kind, cases[i].flags, cases[i].size, 0, 0);
        expect_refused(FRAME_FROM_AGENT, &stream, cases[i].code, cases[i].text);
        buf_done(&stream);
    }
}

static void test_not_our_protocol(void **state)
{
    (void)state;
    static const char *const texts[] = {"GET / HTTP/1.1\r\n\r\n",
                                        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03x",
                                        "KSTQ\1\1\0\0\0\0\0\0", "SSH-2.0-OpenSSH_9.2\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct buf stream;
        buf_init(&stream, 4096);
        assert_int_equal(buf_put(&stream, texts[i], 12), 0);
        expect_refused(FRAME_FROM_AGENT, &stream, -EBADMSG, "not a Keepstep peer");
        buf_done(&stream);
    }
}

/* Each kind at its limit and one byte above it, from each side. */
static void test_limits_and_sides(void **state)
{
    (void)state;
    static const enum frame_from sides[] = {FRAME_FROM_AGENT, FRAME_FROM_CONTROLLER,
                                            FRAME_FROM_ASKER, FRAME_FROM_PEER};
    for (size_t i = 0; i < message_kind_count; i++) {
        const struct wire_kind *kind = kinds_find(message_kinds[i]);
        assert_true(kind->size_max <= FRAME_BODY_MAX);
        for (size_t side = 0; side < ARRAY_SIZE(sides); side++) {
            struct buf stream;
            buf_init(&stream, 4096);
            put_frame(&stream, 1, message_kinds[i], 0, kind->size_max + 1, 0, 0);
            bool may = (kind->from & sides[side]) != 0;
            expect_refused(sides[side], &stream, may ? -EMSGSIZE : -EPROTO, "frame of kind");
            stream.data[FRAME_HEADER_SIZE - 4] = 0; /* the limit is below 16 MiB */
            stream.data[FRAME_HEADER_SIZE - 3] = (uint8_t)(kind->size_max >> 16);
            stream.data[FRAME_HEADER_SIZE - 2] = (uint8_t)(kind->size_max >> 8);
            stream.data[FRAME_HEADER_SIZE - 1] = (uint8_t)kind->size_max;
            struct frame_reader reader;
            struct frame frame;
            frame_reader_init(&reader, sides[side]);
            assert_int_equal(take_all(&reader, &stream, &frame, NULL), may ? 0 : -EPROTO);
            assert_true(reader.buf.capacity <= 1024); /* memory comes with bytes, not with claims */
            frame_reader_done(&reader);
            buf_done(&stream);
        }
    }
}

static void test_memory_is_given_back(void **state)
{
    (void)state;
    struct buf stream;
    struct frame_reader reader;
    struct frame frame;
    buf_init(&stream, FRAME_SIZE_MAX * 2);
    put_frame(&stream, 1, MSG_LOG_DATA, 0, 65536, 65536, 1);
    put_frame(&stream, 1, MSG_GOODBYE, 0, 1, 1, 1);
    frame_reader_init(&reader, FRAME_FROM_AGENT);
    const uint8_t *data = stream.data;
    size_t size = stream.size;
    assert_int_equal(frame_reader_take(&reader, &data, &size, &frame, NULL), 1);
    assert_true(reader.buf.capacity > 65536);
    assert_int_equal(frame_reader_take(&reader, &data, &size, &frame, NULL), 1);
    assert_true(reader.buf.capacity <= 16384);
    frame_reader_done(&reader);
    frame_reader_done(&reader);
    frame_reader_done(NULL);
    buf_done(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_bytes),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_several_in_one_chunk),
        cmocka_unit_test(test_random_splits),
        cmocka_unit_test(test_unknown_kind_is_skipped),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_not_our_protocol),
        cmocka_unit_test(test_limits_and_sides),
        cmocka_unit_test(test_memory_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
