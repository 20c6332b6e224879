/* bench.c: see bench.h. */
#include "tests/unit/io/bench.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/io/replay.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/wire/wire.h"

enum { WAIT_MS = 5000 };

static void carry(void *context, const struct action *action)
{
    struct bench *bench = context;
    if (action == NULL) {
        agents_flush(bench->agents);
        return;
    }
    bench->carried++;
    agents_carry(bench->agents, action);
}

static void open_store(struct bench *bench, const struct bench_options *options)
{
    struct err err = {0};
    struct store_options store_options = {
        .hook = options->hook,
        .hook_context = options->hook_context,
    };
    if (store_open(bench->database, STORE_CREATE, &store_options, &bench->store, &err) < 0) {
        fail_msg("%s", err.text);
    }
    struct core_config config = {.start_grace_ms = 1, .start_quiet_ms = 1, .start_grace_max_ms = 2};
    assert_int_equal(core_create(&core_limits_default, &config, 1, &bench->core), 0);
    struct replay_report report;
    if (replay_journal(bench->store, bench->core, &report, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

void bench_open(struct bench *bench, const struct bench_options *options)
{
    struct err err = {0};
    memset(bench, 0, sizeof(*bench));
    log_init("test", LOG_ERROR);
    assert_true(text_copy(bench->folder, sizeof(bench->folder), "/tmp/keepstep-io-XXXXXX"));
    assert_non_null(mkdtemp(bench->folder));
    assert_true(text_format(bench->database, sizeof(bench->database), "%s/k.db", bench->folder));
    open_store(bench, options);
    assert_int_equal(uv_loop_init(&bench->uv), 0);
    struct loop_options loop_options = {
        .uv = &bench->uv, .core = bench->core, .store = bench->store};
    assert_int_equal(loop_create(&loop_options, &bench->loop, &err), 0);
    assert_int_equal(spec_cache_create(bench->database, &bench->specs, &err), 0);
    if (options->key_file != NULL &&
        tls_key_load(options->key_file, TLS_SERVER, NULL, &bench->key, &err) < 0) {
        fail_msg("%s", err.text);
    }
    struct agents_options agents_options = {
        .address = "127.0.0.1:0",
        .key = bench->key,
        .sessions_max = options->sessions_max != 0 ? options->sessions_max : 64,
        .specs = bench->specs,
    };
    if (agents_create(bench->loop, &agents_options, &bench->agents, &err) < 0) {
        fail_msg("%s", err.text);
    }
    bench->relay = relay_create(bench->loop, bench->agents);
    loop_set_carrier(bench->loop, carry, bench);
    assert_int_equal(loop_start(bench->loop, &err), 0);
}

static void remove_folder(const char *folder)
{
    DIR *open = opendir(folder);
    assert_non_null(open);
    const struct dirent *entry;
    while ((entry = readdir(open)) != NULL) {
        char path[512];
        assert_true(text_format(path, sizeof(path), "%s/%s", folder, entry->d_name));
        if (entry->d_name[0] != '.') {
            (void)unlink(path);
        }
    }
    (void)closedir(open);
    (void)rmdir(folder);
}

void bench_close(struct bench *bench)
{
    struct err err = {0};
    relay_close(bench->relay);
    agents_close(bench->agents);
    loop_finish(bench->loop);
    loop_close(bench->loop);
    (void)uv_run(&bench->uv, UV_RUN_DEFAULT);
    assert_true(agents_is_closed(bench->agents));
    assert_int_equal(uv_loop_close(&bench->uv), 0);
    (void)relay_free(bench->relay);
    (void)agents_free(bench->agents);
    (void)spec_cache_free(bench->specs);
    (void)loop_free(bench->loop);
    core_check(bench->core);
    (void)core_free(bench->core);
    if (store_close(bench->store, WAIT_MS, &err) < 0) {
        fail_msg("%s", err.text);
    }
    (void)tls_key_free(bench->key);
    remove_folder(bench->folder);
}

static void nudge_cb(uv_timer_t *timer)
{
    (void)timer; /* ends one wait of the loop */
}

/* One turn of the loop, at most so long. */
static void turn(struct bench *bench, uint32_t wait_ms)
{
    uv_timer_t timer;
    assert_int_equal(uv_timer_init(&bench->uv, &timer), 0);
    assert_int_equal(uv_timer_start(&timer, nudge_cb, wait_ms, 0), 0);
    (void)uv_run(&bench->uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&bench->uv, UV_RUN_NOWAIT);
}

bool bench_until(struct bench *bench, bool (*test)(void *context), void *context,
                 uint32_t timeout_ms)
{
    uint64_t end = loop_now_ms() + timeout_ms;
    while (!test(context)) {
        if (loop_now_ms() >= end) {
            return false;
        }
        turn(bench, 5);
    }
    return true;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

void bench_run(struct bench *bench, uint32_t for_ms)
{
    (void)bench_until(bench, never, NULL, for_ms);
}

/* ---- the agent's end ----------------------------------------------------------------------- */

void client_open(struct bench *bench, struct client *client)
{
    memset(client, 0, sizeof(*client));
    client->bench = bench;
    frame_reader_init(&client->reader, FRAME_FROM_CONTROLLER);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client->fd >= 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(agents_port(bench->agents)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    assert_int_equal(connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

void client_close(struct client *client)
{
    if (client->fd >= 0) {
        (void)close(client->fd);
        client->fd = -1;
    }
    frame_reader_done(&client->reader);
    if (client->has_message) {
        message_done(&client->message);
        client->has_message = false;
    }
}

void client_send_bytes(struct client *client, const void *data, size_t size)
{
    const uint8_t *from = data;
    while (size > 0) {
        ssize_t part = send(client->fd, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (part < 0 && errno == EAGAIN) {
            bench_run(client->bench, 1);
            continue;
        }
        if (part < 0) {
            return; /* the controller closed; the test looks at that */
        }
        from += part;
        size -= (size_t)part;
    }
}

void client_send(struct client *client, const struct message *message)
{
    struct buf frame;
    struct err err = {0};
    buf_init(&frame, FRAME_SIZE_MAX);
    if (wire_encode(message, &frame, &err) < 0) {
        fail_msg("%s", err.text);
    }
    client_send_bytes(client, frame.data, frame.size);
    buf_done(&frame);
}

void client_hello(struct client *client, const char *node, const char *boot_id,
                  uint64_t incarnation)
{
    static struct message message;
    message = (struct message){.kind = MSG_HELLO};
    struct msg_hello *hello = &message.u.hello;
    assert_true(text_copy(hello->node, sizeof(hello->node), node));
    assert_true(text_copy(hello->boot_id, sizeof(hello->boot_id), boot_id));
    hello->incarnation = incarnation;
    hello->protocol = WIRE_PROTOCOL;
    hello->clean_boot = true;
    assert_true(text_copy(hello->address, sizeof(hello->address), "127.0.0.1"));
    assert_true(text_copy(hello->version, sizeof(hello->version), "test"));
    client_send(client, &message);
}

static bool came(void *context)
{
    struct client *client = context;
    if (client->has_message || client->eof) {
        return true;
    }
    for (;;) {
        struct frame frame;
        struct err err = {0};
        int result = frame_reader_take(&client->reader, &client->data, &client->size, &frame, &err);
        assert_true(result >= 0);
        if (result == 1) {
            result = wire_decode(frame.kind, frame.body, frame.size, &client->message, &err);
            if (result < 0) {
                fail_msg("%s", err.text);
            }
            client->has_message = true;
            return true;
        }
        ssize_t part = recv(client->fd, client->bytes, sizeof(client->bytes), MSG_DONTWAIT);
        if (part < 0 && errno == EAGAIN) {
            return false;
        }
        if (part <= 0) {
            client->eof = true;
            return true;
        }
        client->data = client->bytes;
        client->size = (size_t)part;
    }
}

const struct message *client_take(struct client *client)
{
    if (client->has_message) {
        message_done(&client->message);
        client->has_message = false;
    }
    (void)bench_until(client->bench, came, client, WAIT_MS);
    return client->has_message ? &client->message : NULL;
}

const struct message *client_expect(struct client *client, uint8_t kind)
{
    for (;;) {
        const struct message *message = client_take(client);
        if (message == NULL) {
            fail_msg("no message of kind %s came", message_kind_name(kind));
        }
        if (message->kind == kind) {
            return message;
        }
    }
}

static bool ended(void *context)
{
    struct client *client = context;
    while (came(client) && !client->eof) {
        message_done(&client->message);
        client->has_message = false;
    }
    return client->eof;
}

bool client_is_ended(struct client *client, uint32_t timeout_ms)
{
    return bench_until(client->bench, ended, client, timeout_ms);
}
