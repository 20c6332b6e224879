/* agents_tls_test.c: the agents' port with a key: who has it is in, as the node that it proved to
 * be, and nobody else. */
#include "tests/unit/io/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/io/tls.h"
#include "proto/base/text.h"
#include "proto/wire/wire.h"

#define KEY   "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define OTHER "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define BOOT  "11111111-1111-1111-1111-111111111111"

static void write_key(char path[64], const char *text)
{
    assert_true(text_copy(path, 64, "/tmp/keepstep-key-XXXXXX"));
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

/* A TLS client over a test client's socket. */
struct secure {
    struct client client; /* its socket; its reader reads plain bytes */
    struct tls_key *key;
    struct tls *tls;
    bool failed;
    bool ended;
};

static void secure_open(struct bench *bench, struct secure *secure, const char *key_text,
                        const char *identity)
{
    char path[64];
    struct err err = {0};
    memset(secure, 0, sizeof(*secure));
    write_key(path, key_text);
    client_open(bench, &secure->client);
    assert_int_equal(tls_key_load(path, TLS_CLIENT, identity, &secure->key, &err), 0);
    assert_int_equal(tls_create(secure->key, &secure->tls, &err), 0);
    (void)unlink(path);
    assert_int_equal(tls_advance(secure->tls, &err), 0);
}

static void secure_close(struct secure *secure)
{
    client_close(&secure->client);
    (void)tls_free(secure->tls);
    (void)tls_key_free(secure->key);
}

static void flush(struct secure *secure)
{
    struct buf *output = tls_output(secure->tls);
    client_send_bytes(&secure->client, output->data, output->size);
    buf_clear(output);
}

/* Moves bytes both ways once. */
static void move(struct secure *secure)
{
    struct err err = {0};
    uint8_t bytes[16384];
    flush(secure);
    ssize_t size = recv(secure->client.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN)) {
        secure->ended = true;
        return;
    }
    if (size > 0 && (tls_feed(secure->tls, bytes, (size_t)size, &err) < 0 ||
                     tls_advance(secure->tls, &err) < 0)) {
        secure->failed = true;
    }
    flush(secure);
}

static bool is_ready(void *context)
{
    struct secure *secure = context;
    move(secure);
    return tls_ready(secure->tls) || secure->failed || secure->ended;
}

static bool is_ended(void *context)
{
    struct secure *secure = context;
    move(secure);
    return secure->ended;
}

static bool has_message(void *context)
{
    struct secure *secure = context;
    struct err err = {0};
    uint8_t plain[16384];
    move(secure);
    int size = tls_read(secure->tls, plain, sizeof(plain), &err);
    if (size <= 0) {
        return secure->ended;
    }
    const uint8_t *data = plain;
    size_t left = (size_t)size;
    struct frame frame;
    assert_int_equal(frame_reader_take(&secure->client.reader, &data, &left, &frame, &err), 1);
    assert_int_equal(wire_decode(frame.kind, frame.body, frame.size, &secure->client.message, &err),
                     0);
    secure->client.has_message = true;
    return true;
}

static void say_hello(struct secure *secure, const char *node)
{
    static struct message message;
    struct buf frame;
    struct err err = {0};
    message = (struct message){.kind = MSG_HELLO};
    assert_true(text_copy(message.u.hello.node, NAME_SIZE, node));
    assert_true(text_copy(message.u.hello.boot_id, BOOT_ID_SIZE, BOOT));
    message.u.hello.protocol = WIRE_PROTOCOL;
    buf_init(&frame, FRAME_SIZE_MAX);
    assert_int_equal(wire_encode(&message, &frame, &err), 0);
    assert_int_equal(tls_write(secure->tls, frame.data, frame.size, &err), 0);
    buf_done(&frame);
    flush(secure);
}

static void open_bench(struct bench *bench)
{
    char path[64];
    write_key(path, KEY);
    const struct bench_options options = {.key_file = path};
    bench_open(bench, &options);
    (void)unlink(path);
}

enum { WELCOMED = -1 };

/* One agent with that key and identity says that it is that node: WELCOMED, or how it ends. */
static void meet(const char *key, const char *identity, const char *node, bool ready, int end)
{
    struct bench bench;
    static struct secure secure;
    open_bench(&bench);
    secure_open(&bench, &secure, key, identity);
    assert_true(bench_until(&bench, is_ready, &secure, 3000));
    bool shook = tls_ready(secure.tls) && !secure.failed && !secure.ended;
    if (ready) {
        assert_true(shook);
        say_hello(&secure, node);
    }
    if (end == WELCOMED) {
        assert_true(bench_until(&bench, has_message, &secure, 3000));
        assert_true(secure.client.has_message);
        assert_int_equal(secure.client.message.kind, MSG_WELCOME);
        assert_int_equal(secure.client.message.u.welcome.result, HELLO_WELCOME);
        assert_string_equal(core_node(bench.core, 1)->d.name, node);
    } else {
        assert_true(bench_until(&bench, is_ended, &secure, 3000));
        assert_int_equal(agents_figures(bench.agents).ends[end], 1);
        assert_int_equal(core_node_count(bench.core), 0);
    }
    secure_close(&secure);
    bench_close(&bench);
}

static void test_own_name(void **state)
{
    (void)state;
    meet(KEY, "gpu-0001", "gpu-0001", true, WELCOMED);
}

static void test_cluster_identity(void **state)
{
    (void)state;
    meet(KEY, TLS_IDENTITY_ANY, "gpu-0042", true, WELCOMED);
}

static void test_forged_name(void **state)
{
    (void)state;
    meet(KEY, "gpu-0001", "gpu-0002", true, SESSION_END_FORGED);
}

static void test_wrong_key(void **state)
{
    (void)state;
    meet(OTHER, "gpu-0001", "gpu-0001", false, SESSION_END_KEY);
}

/* A plain hello to a port that wants TLS. */
static void test_no_tls(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    open_bench(&bench);
    client_open(&bench, &client);
    client_hello(&client, "gpu-0001", BOOT, 1);
    uint8_t bytes[1024];
    uint64_t until = loop_now_ms() + 3000;
    ssize_t size = -1;
    while (size != 0 && loop_now_ms() < until) {
        bench_run(&bench, 5);
        size = recv(client.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    }
    assert_int_equal(size, 0);
    assert_int_equal(agents_figures(bench.agents).ends[SESSION_END_GARBAGE], 1);
    assert_int_equal(core_node_count(bench.core), 0);
    client_close(&client);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_name),    cmocka_unit_test(test_cluster_identity),
        cmocka_unit_test(test_forged_name), cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_no_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
