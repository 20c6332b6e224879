/* agents_test.c: what a peer may do to the agents' port, and what a good agent gets. Every bad peer
 * costs its own session and one count, nothing else: a good one goes on beside it. */
#include "tests/unit/io/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/text.h"
#include "proto/wire/wire.h"

#define BOOT_A "11111111-1111-1111-1111-111111111111"
#define BOOT_B "22222222-2222-2222-2222-222222222222"

static const struct bench_options plain = {0};

static struct message beat(uint64_t sequence)
{
    struct message message = {.kind = MSG_BEAT};
    message.u.beat.sequence = sequence;
    message.u.beat.sent_ms = sequence * 1000;
    message.u.beat.checks_ok = true;
    return message;
}

static void join(struct bench *bench, struct client *client, const char *node)
{
    client_open(bench, client);
    client_hello(client, node, BOOT_A, 1);
    const struct message *message = client_expect(client, MSG_WELCOME);
    assert_int_equal(message->u.welcome.result, HELLO_WELCOME);
}

/* ---- good agents --------------------------------------------------------------------------- */

static void test_welcome(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    bench_open(&bench, &plain);
    client_open(&bench, &client);
    client_hello(&client, "gpu-0001", BOOT_A, 1);
    const struct message *message = client_take(&client);
    assert_non_null(message);
    assert_int_equal(message->kind, MSG_WELCOME); /* before anything else */
    assert_int_equal(message->u.welcome.result, HELLO_WELCOME);
    assert_int_equal(strlen(message->u.welcome.cluster_id), CLUSTER_ID_SIZE - 1);
    /* What was answered is durable: the revision covers the node's record. */
    assert_true(loop_revision(bench.loop) > 0);
    uint32_t id = core_node_find(bench.core, "gpu-0001");
    assert_int_not_equal(id, 0);
    assert_int_equal(core_node(bench.core, id)->link, LINK_UP);
    assert_int_equal(agents_figures(bench.agents).welcomed, 1);
    client_close(&client);
    bench_run(&bench, 50);
    assert_int_equal(core_node(bench.core, id)->session, 0);
    assert_int_equal(agents_figures(bench.agents).ends[SESSION_END_PEER], 1);
    assert_int_equal(agents_figures(bench.agents).welcomed, 0);
    bench_close(&bench);
}

/* An agent may send its beat right behind its hello: it is held and read after the welcome. */
static void test_pipelined(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    bench_open(&bench, &plain);
    client_open(&bench, &client);
    client_hello(&client, "gpu-0001", BOOT_A, 1);
    for (uint64_t sequence = 1; sequence <= 3; sequence++) {
        struct message message = beat(sequence);
        client_send(&client, &message);
    }
    (void)client_expect(&client, MSG_WELCOME);
    bench_run(&bench, 50);
    uint32_t id = core_node_find(bench.core, "gpu-0001");
    assert_int_equal(core_node(bench.core, id)->beat_sequence, 3);
    client_close(&client);
    bench_close(&bench);
}

/* A message that arrives one byte a time is a message like any other. */
static void test_byte_by_byte(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    bench_open(&bench, &plain);
    join(&bench, &client, "gpu-0001");
    struct buf frame;
    struct err err = {0};
    buf_init(&frame, FRAME_SIZE_MAX);
    struct message message = beat(7);
    assert_int_equal(wire_encode(&message, &frame, &err), 0);
    for (size_t index = 0; index < frame.size; index++) {
        client_send_bytes(&client, &frame.data[index], 1);
        bench_run(&bench, 1);
    }
    bench_run(&bench, 20);
    assert_int_equal(core_node(bench.core, 1)->beat_sequence, 7);
    buf_done(&frame);
    client_close(&client);
    bench_close(&bench);
}

/* ---- bad peers ----------------------------------------------------------------------------- */

/* Sends the bytes as a stranger; the session must end for that reason, with a good agent beside it
 * that notices nothing. */
static void stranger(const void *bytes, size_t size, enum session_end end, bool closes)
{
    struct bench bench;
    static struct client good;
    static struct client bad;
    bench_open(&bench, &plain);
    join(&bench, &good, "gpu-0001");
    client_open(&bench, &bad);
    client_send_bytes(&bad, bytes, size);
    if (closes) {
        assert_int_equal(shutdown(bad.fd, SHUT_WR), 0);
    }
    assert_true(client_is_ended(&bad, 3000));
    struct agents_figures figures = agents_figures(bench.agents);
    assert_int_equal(figures.ends[end], 1);
    for (int other = 0; other < SESSION_END_COUNT; other++) {
        assert_int_equal(figures.ends[other], other == (int)end ? 1 : 0);
    }
    struct message message = beat(2);
    client_send(&good, &message);
    bench_run(&bench, 20);
    assert_int_equal(core_node(bench.core, 1)->beat_sequence, 2);
    assert_int_equal(core_node_count(bench.core), 1);
    client_close(&bad);
    client_close(&good);
    bench_close(&bench);
}

static void test_garbage(void **state)
{
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    stranger(request, sizeof(request) - 1, SESSION_END_GARBAGE, false);
}

static void test_half_frame(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_HEADER_SIZE + 10] = {0};
    frame_header_write(bytes, MSG_HELLO, 100);
    stranger(bytes, sizeof(bytes), SESSION_END_HALF_FRAME, true);
}

static void test_frame_of_4_gib(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_write(bytes, MSG_HELLO, 0);
    memset(bytes + 8, 0xff, 4);
    stranger(bytes, sizeof(bytes), SESSION_END_TOO_LONG, false);
}

static void test_old_version(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_write(bytes, MSG_HELLO, 0);
    bytes[4] = 0;
    stranger(bytes, sizeof(bytes), SESSION_END_VERSION, false);
}

static void test_unknown_first(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_write(bytes, 200, 0);
    stranger(bytes, sizeof(bytes), SESSION_END_UNEXPECTED, false);
}

static void test_invalid_hello(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_HEADER_SIZE + 4] = {0};
    frame_header_write(bytes, MSG_HELLO, 4);
    memset(bytes + FRAME_HEADER_SIZE, 0xff, 4);
    stranger(bytes, sizeof(bytes), SESSION_END_INVALID, false);
}

static void test_beat_before_hello(void **state)
{
    (void)state;
    struct buf frame;
    struct err err = {0};
    buf_init(&frame, FRAME_SIZE_MAX);
    struct message message = beat(1);
    assert_int_equal(wire_encode(&message, &frame, &err), 0);
    stranger(frame.data, frame.size, SESSION_END_UNEXPECTED, false);
    buf_done(&frame);
}

static void test_controllers_message(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_write(bytes, MSG_ACK, 0);
    stranger(bytes, sizeof(bytes), SESSION_END_UNEXPECTED, false);
}

/* Sends one message on a welcomed session that must end for it. */
static void betrayed(const struct message *message, enum session_end end)
{
    struct bench bench;
    static struct client client;
    bench_open(&bench, &plain);
    join(&bench, &client, "gpu-0001");
    client_send(&client, message);
    assert_true(client_is_ended(&client, 3000));
    assert_int_equal(agents_figures(bench.agents).ends[end], 1);
    assert_int_equal(core_node(bench.core, 1)->session, 0);
    client_close(&client);
    bench_close(&bench);
}

static void test_second_hello(void **state)
{
    (void)state;
    static struct message message = {.kind = MSG_HELLO};
    assert_true(text_copy(message.u.hello.node, NAME_SIZE, "gpu-0002"));
    assert_true(text_copy(message.u.hello.boot_id, BOOT_ID_SIZE, BOOT_A));
    message.u.hello.protocol = WIRE_PROTOCOL;
    betrayed(&message, SESSION_END_UNEXPECTED);
}

static void test_forged_fact(void **state)
{
    (void)state;
    struct message message = {.kind = MSG_FACT};
    message.u.fact.fact =
        (struct fact){.source = FACT_CONNECTION, .rank = -1, .gpu = -1, .port = -1, .sequence = 1};
    betrayed(&message, SESSION_END_UNEXPECTED);
}

static void test_forged_value(void **state)
{
    (void)state;
    static struct message message = {.kind = MSG_EXCHANGE};
    message.u.exchange.kind = EXCHANGE_VALUE;
    message.u.exchange.job = 1;
    assert_true(text_copy(message.u.exchange.key, EXCHANGE_KEY_SIZE, "k"));
    betrayed(&message, SESSION_END_UNEXPECTED);
}

/* A newer agent's kinds are skipped, counted, and harm nobody. */
static void test_unknown_later(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    bench_open(&bench, &plain);
    join(&bench, &client, "gpu-0001");
    uint8_t bytes[FRAME_HEADER_SIZE + 3] = {0};
    frame_header_write(bytes, 200, 3);
    client_send_bytes(&client, bytes, sizeof(bytes));
    client_send_bytes(&client, bytes, sizeof(bytes));
    struct message message = beat(5);
    client_send(&client, &message);
    bench_run(&bench, AGENTS_SWEEP_MS + 100);
    assert_int_equal(core_node(bench.core, 1)->beat_sequence, 5);
    assert_int_equal(agents_figures(bench.agents).unknown_kinds, 2);
    client_close(&client);
    bench_close(&bench);
}

static void refused(const struct message *hello, uint8_t result)
{
    struct bench bench;
    static struct client client;
    bench_open(&bench, &plain);
    client_open(&bench, &client);
    client_send(&client, hello);
    const struct message *message = client_take(&client);
    assert_non_null(message); /* it is told why, before the end */
    assert_int_equal(message->kind, MSG_WELCOME);
    assert_int_equal(message->u.welcome.result, result);
    assert_true(message->u.welcome.text[0] != '\0');
    assert_true(client_is_ended(&client, 3000));
    client_close(&client);
    bench_close(&bench);
}

static void test_wrong_cluster(void **state)
{
    (void)state;
    static struct message message = {.kind = MSG_HELLO};
    assert_true(text_copy(message.u.hello.node, NAME_SIZE, "gpu-0002"));
    assert_true(text_copy(message.u.hello.boot_id, BOOT_ID_SIZE, BOOT_A));
    assert_true(
        text_copy(message.u.hello.cluster_id, CLUSTER_ID_SIZE, "00112233445566778899aabbccddeeff"));
    message.u.hello.protocol = WIRE_PROTOCOL;
    refused(&message, HELLO_WRONG_CLUSTER);
}

static void test_far_minor_version(void **state)
{
    (void)state;
    static struct message message = {.kind = MSG_HELLO};
    assert_true(text_copy(message.u.hello.node, NAME_SIZE, "gpu-0002"));
    assert_true(text_copy(message.u.hello.boot_id, BOOT_ID_SIZE, BOOT_A));
    message.u.hello.protocol = WIRE_PROTOCOL + 7;
    refused(&message, HELLO_VERSION);
}

/* ---- limits and time ----------------------------------------------------------------------- */

static bool is_slow(void *context)
{
    const struct bench *bench = context;
    return agents_figures(bench->agents).ends[SESSION_END_SLOW] == 1;
}

static void test_slow_reader(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    static struct client other;
    bench_open(&bench, &plain);
    join(&bench, &client, "gpu-0001");
    join(&bench, &other, "gpu-0002");
    uint64_t session = core_node(bench.core, 1)->session;
    static char spec[SPEC_TEXT_MAX];
    memset(spec, ' ', sizeof(spec));
    struct message message = {.kind = MSG_CHECK};
    message.u.check =
        (struct msg_check){.nonce = 1, .job = 1, .spec = spec, .spec_size = sizeof(spec)};
    spec[0] = '{';
    spec[1] = '}';
    /* Nobody reads at the other end: what the kernel does not take is bounded. */
    int sent = 0;
    while (sent < 1000 && agents_send(bench.agents, session, &message) && !is_slow(&bench)) {
        bench_run(&bench, 1);
        sent++;
    }
    assert_true(sent < 1000);
    assert_true(bench_until(&bench, is_slow, &bench, 1000));
    assert_int_equal(core_node(bench.core, 1)->session, 0);
    assert_int_not_equal(core_node(bench.core, 2)->session, 0);
    client_close(&client);
    client_close(&other);
    bench_close(&bench);
}

static void test_too_many(void **state)
{
    (void)state;
    struct bench bench;
    static struct client clients[3];
    const struct bench_options options = {.sessions_max = 2};
    bench_open(&bench, &options);
    join(&bench, &clients[0], "gpu-0001");
    join(&bench, &clients[1], "gpu-0002");
    client_open(&bench, &clients[2]);
    assert_true(client_is_ended(&clients[2], 1000));
    assert_int_equal(agents_figures(bench.agents).ends[SESSION_END_FULL], 1);
    client_close(&clients[0]);
    bench_run(&bench, 100);
    client_close(&clients[2]);
    join(&bench, &clients[2], "gpu-0003"); /* a place is free again */
    client_close(&clients[1]);
    client_close(&clients[2]);
    bench_close(&bench);
}

/* Two hosts with one name: the old session proves by its beats that it lives, the new one goes. */
static void test_duplicate_refused(void **state)
{
    (void)state;
    struct bench bench;
    static struct client first;
    static struct client second;
    bench_open(&bench, &plain);
    join(&bench, &first, "gpu-0001");
    client_open(&bench, &second);
    client_hello(&second, "gpu-0001", BOOT_B, 1);
    bench_run(&bench, 100);
    struct message message = beat(2);
    client_send(&first, &message);
    const struct message *answer = client_expect(&second, MSG_WELCOME);
    assert_int_equal(answer->u.welcome.result, HELLO_DUPLICATE);
    assert_true(client_is_ended(&second, 3000));
    assert_int_equal(agents_figures(bench.agents).welcomed, 1);
    client_close(&second);
    client_close(&first);
    bench_close(&bench);
}

/* The old session says nothing for 2 s: its host is gone, the name moves on. */
static void test_duplicate_replaces_dead(void **state)
{
    (void)state;
    struct bench bench;
    static struct client first;
    static struct client second;
    bench_open(&bench, &plain);
    join(&bench, &first, "gpu-0001");
    client_open(&bench, &second);
    client_hello(&second, "gpu-0001", BOOT_B, 1);
    uint64_t start = loop_now_ms();
    const struct message *answer = client_expect(&second, MSG_WELCOME);
    assert_int_equal(answer->u.welcome.result, HELLO_WELCOME);
    assert_true(loop_now_ms() - start >= AGENTS_PING_MS);
    assert_true(client_is_ended(&first, 3000));
    client_close(&second);
    client_close(&first);
    bench_close(&bench);
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void test_addresses(void **state)
{
    (void)state;
    struct sockaddr_storage address;
    struct err err = {0};
    bool loopback;
    assert_int_equal(agents_parse_address("127.0.0.1:7444", &address, &loopback, &err), 0);
    assert_true(loopback);
    assert_int_equal(agents_parse_address("127.3.2.1:1", &address, &loopback, &err), 0);
    assert_true(loopback);
    assert_int_equal(agents_parse_address("[::1]:7444", &address, &loopback, &err), 0);
    assert_true(loopback);
    assert_int_equal(agents_parse_address("0.0.0.0:7444", &address, &loopback, &err), 0);
    assert_false(loopback);
    assert_int_equal(agents_parse_address("[::]:7444", &address, &loopback, &err), 0);
    assert_false(loopback);
    assert_int_equal(agents_parse_address("10.0.0.1:65535", &address, &loopback, &err), 0);
    assert_false(loopback);
    static const char *const bad[] = {"",      "7444",          "localhost:7444",  "127.0.0.1:",
                                      ":7444", "127.0.0.1:x",   "127.0.0.1:65536", "::1:7444",
                                      "[::1]", "[127.0.0.1]:1", "1.2.3:4",         "[:1"};
    for (size_t index = 0; index < sizeof(bad) / sizeof(bad[0]); index++) {
        assert_int_equal(agents_parse_address(bad[index], &address, &loopback, &err), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_welcome),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_half_frame),
        cmocka_unit_test(test_frame_of_4_gib),
        cmocka_unit_test(test_old_version),
        cmocka_unit_test(test_unknown_first),
        cmocka_unit_test(test_invalid_hello),
        cmocka_unit_test(test_beat_before_hello),
        cmocka_unit_test(test_controllers_message),
        cmocka_unit_test(test_second_hello),
        cmocka_unit_test(test_forged_fact),
        cmocka_unit_test(test_forged_value),
        cmocka_unit_test(test_unknown_later),
        cmocka_unit_test(test_wrong_cluster),
        cmocka_unit_test(test_far_minor_version),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_duplicate_refused),
        cmocka_unit_test(test_duplicate_replaces_dead),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
