/* refuse_test.c: bodies that no honest sender makes and messages that must not leave: what is
 * refused, with which words, and what is mapped to something harmless instead. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/base/check.h"
#include "proto/base/message.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/kinds.h"
#include "proto/wire/wire.h"
#include "tests/lib/message_random.h"
#include "tests/unit/wire/raw.h"

#define CLUSTER "0123456789abcdef0123456789abcdef"

static void expect_refused(uint8_t kind, struct buf *body, int code, const char *text)
{
    struct message message;
    struct message before;
    struct err err = {0};
    memset(&message, 0x5a, sizeof message);
    memcpy(&before, &message, sizeof before);
    int r = wire_decode(kind, body->data, body->size, &message, &err);
    if (r != code || strstr(err.text, text) == NULL) {
        fail_msg("wanted %d '%s', got %d '%s'", code, text, r, err.text);
    }
    assert_memory_equal(&message, &before, sizeof before); /* untouched on failure */
    buf_clear(body);
}

static void decode(uint8_t kind, struct buf *body, struct message *ret_message)
{
    struct err err = {0};
    if (wire_decode(kind, body->data, body->size, ret_message, &err) != 0) {
        fail_msg("%s", err.text);
    }
    buf_clear(body);
}

static void test_numbers(void **state)
{
    (void)state;
    struct buf body;
    buf_init(&body, FRAME_BODY_MAX);
    raw_varint(&body, 1, UINT64_C(1) << 63);
    expect_refused(MSG_ACK, &body, -EBADMSG, "ack: term: 9223372036854775808 is above");
    raw_text(&body, 2, "n1");
    raw_text(&body, 3, "boot");
    raw_varint(&body, 10, 65536); /* would be 0 in the struct's 16 bits */
    expect_refused(MSG_HELLO, &body, -EBADMSG, "hello: peer_port: 65536 is above 65535");
    raw_varint(&body, 2, 256); /* would be 0 in 8 bits */
    expect_refused(MSG_FACT, &body, -EBADMSG, "fact: severity: 256 is above 3");
    raw_varint(&body, 5, 3); /* sint32 -2 */
    expect_refused(MSG_FACT, &body, -EBADMSG, "fact: rank: -2 is not within -1 and 1048575");
    raw_varint(&body, 6, 32); /* sint32 16 */
    expect_refused(MSG_FACT, &body, -EBADMSG, "fact: gpu: 16 is not within -1 and 15");
    raw_varint(&body, 3, 2); /* sint32 1: errors are negative */
    expect_refused(MSG_LOG_DATA, &body, -EBADMSG, "log_data: error: 1 is not within -4095 and 0");
    raw_varint(&body, 6, 1024 * 1024 + 1);
    expect_refused(MSG_LOG_READ, &body, -EBADMSG, "tail_bytes");
    buf_done(&body);
}

static void test_texts(void **state)
{
    (void)state;
    struct buf body;
    struct message message;
    char text[TEXT_SIZE + 1];
    buf_init(&body, FRAME_BODY_MAX);
    raw_text(&body, 2, "\xc3\x28");
    expect_refused(MSG_GOODBYE, &body, -EBADMSG, "goodbye: text: the text is not UTF-8");
    raw_text(&body, 2, "\xed\xa0\x80"); /* a surrogate */
    expect_refused(MSG_GOODBYE, &body, -EBADMSG, "not UTF-8");
    raw_bytes(&body, 2, "a\0b", 3);
    expect_refused(MSG_GOODBYE, &body, -EBADMSG, "not UTF-8 or has control bytes");
    raw_text(&body, 2, "clear\x1b[2J");
    expect_refused(MSG_GOODBYE, &body, -EBADMSG, "control bytes");
    memset(text, 'x', sizeof text);
    raw_bytes(&body, 2, text, TEXT_SIZE);
    expect_refused(MSG_GOODBYE, &body, -EBADMSG, "text: 192 bytes of at most 191");
    raw_bytes(&body, 2, text, TEXT_SIZE - 1);
    decode(MSG_GOODBYE, &body, &message);
    assert_int_equal(strlen(message.u.goodbye.text), TEXT_SIZE - 1);
    raw_bytes(&body, 5, "\xff", 1);
    expect_refused(MSG_SNAPSHOT_DATA, &body, -EBADMSG,
                   "snapshot_data: text: the text is not UTF-8");
    raw_bytes(&body, 4, "\xff\0", 2); /* a log may hold anything */
    decode(MSG_LOG_DATA, &body, &message);
    assert_int_equal(message.u.log_data.size, 2);
    assert_memory_equal(message.u.log_data.text, "\xff\0", 3); /* and a NUL behind it */
    message_done(&message);
    assert_null(message.u.log_data.text);
    buf_done(&body);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "-gpu", "a b", "../etc", "n\xc3\xbc", "a/b", "a\nb"};
    struct buf body;
    buf_init(&body, FRAME_BODY_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        raw_text(&body, 2, bad[i]);
        expect_refused(MSG_PEER_QUESTION, &body, -EBADMSG, "peer_question: asker: ");
    }
    expect_refused(MSG_PEER_REPLY, &body, -EBADMSG, "peer_reply: node: the text is not a name");
    raw_text(&body, 2, "node-1");
    expect_refused(MSG_HELLO, &body, -EBADMSG, "hello: boot_id");
    buf_done(&body);
}

static void test_other_texts(void **state)
{
    (void)state;
    static const struct {
        uint8_t kind;
        uint32_t field;
        const char *text;
        const char *fault;
    } cases[] = {
        {MSG_WELCOME, 2, "0123", "cluster_id: the text does not have"},
        {MSG_WELCOME, 2, "0123456789ABCDEF0123456789abcdef", "cluster_id: the text does not have"},
        {MSG_WELCOME, 2, CLUSTER "0", "33 bytes of at most 32"},
        {MSG_CHECKPOINT, 10, "xyz", "hash: the text does not have"},
        {MSG_CHECKPOINT, 11, "/a\nb", "directory: the text is not one line"},
        {MSG_EXCHANGE, 5, "a\tkey", "key: the text is not one line"},
        {MSG_EXCHANGE, 5, "", "key: the text is not one line"},
        {MSG_PEER_ASK, 3, "example.org", "address: the text is not a numeric"},
        {MSG_PEER_ASK, 3, "1.2.3.4%eth0", "address: the text is not a numeric"},
        {MSG_PEER_ASK, 3, "fe80::1%", "address: the text is not a numeric"},
        {MSG_PEER_ASK, 3, "1.2.3", "address: the text is not a numeric"},
    };
    struct buf body;
    buf_init(&body, FRAME_BODY_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (cases[i].kind == MSG_PEER_ASK) {
            raw_text(&body, 2, "node-1");
        }
        raw_text(&body, cases[i].field, cases[i].text);
        expect_refused(cases[i].kind, &body, -EBADMSG, cases[i].fault);
    }
    raw_text(&body, 2, "node-1");
    expect_refused(MSG_PEER_ASK, &body, -EBADMSG, "peer_ask: an address, a port and a time-out");
    buf_done(&body);
}

/* A value that a later version may have sent is harmless where the .proto names a fallback. */
static void test_enums(void **state)
{
    (void)state;
    static const uint64_t strange[] = {7, 255, 256, 4711, INT32_MAX, UINT64_MAX};
    struct buf body;
    struct buf rank;
    struct buf attempt;
    struct message message;
    buf_init(&body, FRAME_BODY_MAX);
    buf_init(&rank, FRAME_BODY_MAX);
    buf_init(&attempt, FRAME_BODY_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(strange); i++) {
        raw_varint(&body, 1, strange[i]);
        decode(MSG_GOODBYE, &body, &message);
        assert_int_equal(message.u.goodbye.kind, GOODBYE_RESTART);
        raw_varint(&body, 1, strange[i]);
        decode(MSG_WELCOME, &body, &message);
        assert_int_equal(message.u.welcome.result, HELLO_VERSION);
        raw_text(&body, 1, CLUSTER);
        raw_varint(&body, 4, strange[i]);
        decode(MSG_DESIRED, &body, &message);
        assert_int_equal(message.u.desired.mode, DESIRED_NONE);
        raw_varint(&body, 1, strange[i] == 7 ? 9 : strange[i]);
        decode(MSG_FACT, &body, &message);
        assert_int_equal(message.u.fact.fact.source, FACT_PROBE);
        raw_varint(&body, 1, strange[i]);
        raw_text(&body, 5, "key");
        expect_refused(MSG_EXCHANGE, &body, -EBADMSG, "exchange: kind");
        raw_varint(&rank, 2, strange[i]);
        raw_message(&attempt, 10, &rank);
        raw_message(&body, 5, &attempt);
        decode(MSG_BEAT, &body, &message);
        assert_int_equal(message.u.beat.attempts[0].ranks[0].phase, PHASE_IDLE);
        raw_varint(&rank, 1, strange[i]);
        buf_clear(&attempt);
        raw_varint(&attempt, 1, 3);
        raw_message(&attempt, 10, &rank);
        raw_message(&body, 5, &attempt);
        expect_refused(MSG_BEAT, &body, -EBADMSG, "beat: attempts[0].ranks[0]: state: ");
        buf_clear(&rank);
        buf_clear(&attempt);
    }
    buf_done(&body);
    buf_done(&rank);
    buf_done(&attempt);
}

static void test_counts(void **state)
{
    (void)state;
    struct buf body;
    struct buf ranks;
    buf_init(&body, FRAME_BODY_MAX);
    buf_init(&ranks, FRAME_BODY_MAX);
    for (size_t i = 0; i < ATTEMPTS_PER_NODE_MAX + 1; i++) {
        raw_bytes(&body, 5, "", 0);
    }
    expect_refused(MSG_BEAT, &body, -EBADMSG, "beat: attempts: 5 of at most 4");
    for (size_t i = 0; i < RANKS_PER_NODE_MAX + 1; i++) {
        raw_bytes(&ranks, 10, "", 0);
    }
    raw_message(&body, 2, &ranks);
    expect_refused(MSG_RANK_ENDS, &body, -EBADMSG, "rank_ends: report: ranks: 17 of at most 16");
    raw_bytes(&body, 5, "", 0);
    raw_message(&body, 5, &ranks);
    expect_refused(MSG_BEAT, &body, -EBADMSG, "beat: attempts[1]: ranks: 17 of at most 16");
    buf_clear(&ranks);
    for (size_t i = 0; i < GPUS_MAX + 1; i++) {
        raw_text(&ranks, 1, "GPU");
    }
    raw_message(&body, 12, &ranks);
    raw_text(&body, 2, "n");
    raw_text(&body, 3, "b");
    expect_refused(MSG_HELLO, &body, -EBADMSG, "hello: inventory: gpu_uuid: 17 of at most 16");
    char value[EXCHANGE_VALUE_MAX + 1] = {0};
    raw_text(&body, 5, "key");
    raw_bytes(&body, 6, value, sizeof value);
    expect_refused(MSG_EXCHANGE, &body, -EBADMSG, "exchange: value: 4097 of at most 4096");
    buf_clear(&ranks);
    raw_varint(&ranks, 9, WIRE_WORLD_MAX - 1);
    raw_bytes(&ranks, 10, "", 0);
    raw_bytes(&ranks, 10, "", 0);
    raw_message(&body, 2, &ranks);
    expect_refused(MSG_RANK_ENDS, &body, -EBADMSG, "rank_ends: report: ranks 1048575 and 2 on");
    buf_done(&body);
    buf_done(&ranks);
}

/* Bodies that are short on the wire and long in memory. */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    static const struct {
        uint8_t kind;
        uint32_t field;
    } cases[] = {{MSG_BEAT, 5}, {MSG_HELLO, 13}, {MSG_BEAT, 999}, {MSG_DESIRED, 999}};
    struct buf body;
    buf_init(&body, FRAME_BODY_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint32_t size_max = kinds_find(cases[i].kind)->size_max;
        while (body.size + 4 <= size_max) {
            raw_bytes(&body, cases[i].field, "", 0);
        }
        expect_refused(cases[i].kind, &body, -EMSGSIZE, "unpacks into more memory");
    }
    for (size_t i = 0; i < 600; i++) { /* each allocation small, all together not */
        raw_bytes(&body, 5, "", 0);
    }
    expect_refused(MSG_BEAT, &body, -EMSGSIZE, "unpacks into more memory");
    for (size_t i = 0; i < kinds_find(MSG_ACK)->size_max + 1; i++) {
        assert_int_equal(buf_put(&body, "", 1), 0);
    }
    expect_refused(MSG_ACK, &body, -EMSGSIZE, "ack: 4097 bytes, at most 4096");
    buf_done(&body);
}

static void test_not_protobuf(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "\x0b\x0c",                                     /* a group */
        "\x0a\xff\xff\xff\xff\x0f",                     /* a length of 4 GiB */
        "\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", /* a varint without an end */
        "\x07\x01",                                     /* a wire type that does not exist */
        "\x12\x05zz",                                   /* cut */
    };
    struct buf body;
    buf_init(&body, FRAME_BODY_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        assert_int_equal(buf_put(&body, bodies[i], strlen(bodies[i])), 0);
        expect_refused(MSG_GOODBYE, &body, -EBADMSG, "goodbye: the body is not a protobuf message");
    }
    expect_refused(200, &body, -ENOTSUP, "kind 200");
    expect_refused(0, &body, -ENOTSUP, "kind 0");
    buf_done(&body);
}

/* One thing wrong with an otherwise good order to run. */
static void test_desired_run(void **state)
{
    (void)state;
    struct message good;
    struct buf out;
    buf_init(&out, FRAME_SIZE_MAX);
    message_largest(MSG_DESIRED, NULL, 0, &good);
    assert_int_equal(wire_encode(&good, &out, NULL), 0);
    size_t size = out.size;
#define BROKEN(change, words)                                                                      \
    {                                                                                              \
        struct message message = good;                                                             \
        struct msg_desired *desired = &message.u.desired;                                          \
        struct err err = {0};                                                                      \
        change;                                                                                    \
        assert_int_equal(wire_encode(&message, &out, &err), -EINVAL);                              \
        if (strstr(err.text, words) == NULL) {                                                     \
            fail_msg("'%s' does not say '%s'", err.text, words);                                   \
        }                                                                                          \
        assert_int_equal(out.size, size);                                                          \
    }
    BROKEN(desired->cluster_id[0] = '\0', "no cluster id");
    BROKEN(desired->tensor = 0, "layout of 0 x");
    BROKEN(desired->data--, "in a world of");
    BROKEN(desired->world = 15, "are not in a world of 15");
    BROKEN(desired->rank_count = 0, "0 ranks");
    BROKEN(desired->rank_count = 17, "rank_count: 17 is above 16");
    BROKEN(desired->first_rank = desired->world - 1, "are not in a world");
    BROKEN(desired->first_rank = UINT32_MAX, "first_rank");
    BROKEN(desired->slot = desired->slot_count, "slot");
    BROKEN(desired->job_name[0] = '\0', "no job name");
    BROKEN(desired->master_port = 0, "without a rendezvous");
    BROKEN(desired->master_address[0] = '\0', "without a rendezvous");
    BROKEN((void)text_copy(desired->order, 16, "tp-cp-pp"), "order");
    BROKEN((void)text_copy(desired->order, 16, "tp-cp-pp-pp"), "order");
    BROKEN((void)text_copy(desired->order, 16, "tp-cp-pp-dp-"), "order");
    BROKEN((void)text_copy(desired->order, 16, "tp-cp-pp-xx"), "order");
    BROKEN((void)text_copy(desired->order, 16, "tp-cp_pp-dp"), "order");
    BROKEN((void)text_copy(desired->order, 16, "tp-cp-pp-"), "order");
    BROKEN((void)text_copy(desired->order, 16, ""), "order");
#undef BROKEN
    good.u.desired.start = false; /* then nothing is dialled yet */
    good.u.desired.master_port = 0;
    assert_int_equal(wire_encode(&good, &out, NULL), 0);
    good.u.desired.mode = DESIRED_STOP; /* and a stop needs no layout */
    good.u.desired.tensor = 0;
    assert_int_equal(wire_encode(&good, &out, NULL), 0);
    buf_done(&out);
}

/* A rank's detail says nothing that a reader would have to doubt. */
static void test_rank_detail(void **state)
{
    (void)state;
    struct message good;
    struct buf out;
    buf_init(&out, FRAME_SIZE_MAX);
    message_largest(MSG_RANK_DETAIL, NULL, 0, &good);
    assert_int_equal(wire_encode(&good, &out, NULL), 0);
#define BROKEN(change, words)                                                                      \
    {                                                                                              \
        struct message message = good;                                                             \
        struct msg_rank_detail *detail = &message.u.rank_detail;                                   \
        struct err err = {0};                                                                      \
        change;                                                                                    \
        assert_int_equal(wire_encode(&message, &out, &err), -EINVAL);                              \
        if (strstr(err.text, words) == NULL) {                                                     \
            fail_msg("'%s' does not say '%s'", err.text, words);                                   \
        }                                                                                          \
    }
    BROKEN(detail->rank = UINT32_MAX, "rank: ");
    BROKEN(detail->step_count = STEPS_MAX + 1, "steps: 33 of at most 32");
    BROKEN(detail->hash_count = HASHES_MAX + 1, "hashes: 9 of at most 8");
    BROKEN(detail->communicator_count = COMMUNICATORS_MAX + 1, "communicators: 17 of at most 16");
    BROKEN(detail->steps[3].step = 0, "steps[3]: step 0");
    BROKEN(detail->hashes[7].step = 0, "hashes[7]: step 0");
    BROKEN(detail->communicators[0].name[0] = '\0', "communicators[0]: name");
    BROKEN(detail->communicators[0].peer = -2, "communicators[0]: peer");
    BROKEN(detail->communicators[2].enqueued--, "communicators[2]: more operations complete");
#undef BROKEN
    buf_done(&out);
}

static void expect_unsendable(const struct message *message, const char *words)
{
    struct buf out;
    struct err err = {0};
    buf_init(&out, FRAME_SIZE_MAX);
    assert_int_equal(wire_encode(message, &out, &err), -EINVAL);
    if (strstr(err.text, words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.text, words);
    }
    assert_int_equal(out.size, 0);
    buf_done(&out);
}

static void test_unsendable(void **state)
{
    (void)state;
    struct message message = {.kind = MSG_BEAT};
    message.u.beat.attempt_count = ATTEMPTS_PER_NODE_MAX + 1;
    expect_unsendable(&message, "beat: attempts: 5 of at most 4");
    message.u.beat.attempt_count = 3;
    message.u.beat.attempts[2].rank_count = 1;
    message.u.beat.attempts[2].ranks[0].state = RANK_UNSTARTED + 1;
    expect_unsendable(&message, "beat: attempts[2].ranks[0]: state: 5 is above 4");
    message.u.beat.attempts[2].ranks[0].state = RANK_RUNNING;
    memset(message.u.beat.attempts[1].text, 'x', TEXT_SIZE);
    expect_unsendable(&message, "beat: attempts[1]: text: the text is not terminated");
    message = (struct message){.kind = MSG_PEER_QUESTION};
    expect_unsendable(&message, "asker: the text is not a name");
    message = (struct message){.kind = MSG_LOG_DATA, .u.log_data = {.size = 1}};
    expect_unsendable(&message, "log_data: text: a size of 1 but no text");
    message.u.log_data = (struct msg_log_data){.size = LOG_CHUNK_MAX + 1, .text = "x"};
    expect_unsendable(&message, "log_data: text: 65537 of at most 65536");
    message = (struct message){.kind = MSG_EXCHANGE,
                               .u.exchange = {.kind = EXCHANGE_GET, .key = "k", .size = 1}};
    expect_unsendable(&message, "exchange: a get with a value");
    message = (struct message){.kind = 77};
    struct err err;
    struct buf out;
    buf_init(&out, 64);
    assert_int_equal(wire_encode(&message, &out, &err), -ENOTSUP);
    buf_done(&out);
}

static void test_no_room(void **state)
{
    (void)state;
    struct message message = {.kind = MSG_ACK, .u.ack = {.term = 300}};
    struct buf out;
    struct err err = {0};
    buf_init(&out, 14);
    assert_int_equal(wire_encode(&message, &out, &err), -EMSGSIZE);
    assert_non_null(strstr(err.text, "ack: a frame of 15 bytes, room for 14"));
    assert_int_equal(out.size, 0);
    assert_false(out.overflow);
    message.u.ack.term = 1;
    assert_int_equal(wire_encode(&message, &out, &err), 0); /* 14 bytes */
    buf_done(&out);
}

/* What is not UTF-8 in a sentence does not keep a message from leaving. */
static void test_sentences_are_cleaned(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"fine \xc3\xbc \xf0\x9f\x98\x80", "fine \xc3\xbc \xf0\x9f\x98\x80"},
        {"cut \xe2\x82", "cut ??"},
        {"\xff\xc3\xbc\x80 bell\a tab\t", "?\xc3\xbc? bell? tab\t"},
        {"a\x1b[31m\r\n", "a?[31m?\n"},
        {"\xf0\x9f\x98", "???"},
        {"\x80\xf0\x9f\x98\x80\xe2\x82\xac\x80", "?\xf0\x9f\x98\x80\xe2\x82\xac?"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct message message = {.kind = MSG_GOODBYE};
        struct message back;
        struct buf out;
        buf_init(&out, FRAME_SIZE_MAX);
        assert_true(text_copy(message.u.goodbye.text, TEXT_SIZE, cases[i].from));
        assert_int_equal(wire_encode(&message, &out, NULL), 0);
        assert_int_equal(wire_decode(MSG_GOODBYE, out.data + FRAME_HEADER_SIZE,
                                     out.size - FRAME_HEADER_SIZE, &back, NULL),
                         0);
        assert_string_equal(back.u.goodbye.text, cases[i].to);
        buf_done(&out);
    }
    /* The worst of all sentences still fits the encoder's memory. */
    struct message worst;
    struct buf out;
    buf_init(&out, FRAME_SIZE_MAX);
    message_largest(MSG_HELLO, NULL, 0, &worst);
    for (size_t i = 0; i < ATTEMPTS_PER_NODE_MAX; i++) {
        memset(worst.u.hello.attempts[i].text, 0xff, TEXT_SIZE - 1);
    }
    memset(worst.u.hello.version, 0xff, NAME_SIZE - 1);
    memset(worst.u.hello.inventory.driver, 0xff, NAME_SIZE - 1);
    assert_int_equal(wire_encode(&worst, &out, NULL), 0);
    buf_done(&out);
}

static void expect_bytes(const struct message *message, const uint8_t *expected, size_t size)
{
    struct buf out;
    buf_init(&out, 64);
    assert_int_equal(wire_encode(message, &out, NULL), 0);
    assert_int_equal(out.size, size);
    assert_memory_equal(out.data, expected, size);
    buf_done(&out);
}

/* The examples of PROTOCOL.md. */
static void test_golden_bytes(void **state)
{
    (void)state;
    static const uint8_t question[] = {
        'K',  'S',  'T',  'P', 0x01, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, /* header */
        0x08, 0xb9, 0x60,                                                      /* nonce 12345 */
        0x12, 0x07, 'g',  'p', 'u',  '-',  '0',  '4',  '1',                    /* asker */
    };
    static const uint8_t ack[] = {
        'K',  'S',  'T',  'P',  0x01, 0x21, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, /* header */
        0x08, 0x07, 0x10, 0xac, 0x02, 0x18, 0x02, 0x20, 0x05,
    };
    struct message message = {
        .kind = MSG_PEER_QUESTION,
        .u.peer_question = {.nonce = 12345, .asker = "gpu-041"},
    };
    expect_bytes(&message, question, sizeof question);
    message = (struct message){
        .kind = MSG_ACK,
        .u.ack = {.term = 7, .beat_sequence = 300, .fact_sequence = 2, .ends_sequence = 5},
    };
    expect_bytes(&message, ack, sizeof ack);
}

static void test_versions(void **state)
{
    (void)state;
    assert_true(wire_protocol_fits(WIRE_PROTOCOL));
    assert_true(wire_protocol_fits(WIRE_PROTOCOL + 1));
    assert_false(wire_protocol_fits(WIRE_PROTOCOL + 2));
    assert_true(WIRE_MINOR == 0 || wire_protocol_fits(WIRE_PROTOCOL - 1));
    assert_false(wire_protocol_fits(WIRE_PROTOCOL + (1 << 16)));
    assert_false(wire_protocol_fits(WIRE_PROTOCOL - (1 << 16)));
    assert_false(wire_protocol_fits(0));
    assert_false(wire_protocol_fits(UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_other_texts),
        cmocka_unit_test(test_enums),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_rank_detail),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_not_protobuf),
        cmocka_unit_test(test_desired_run),
        cmocka_unit_test(test_unsendable),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_sentences_are_cleaned),
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
