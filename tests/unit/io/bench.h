/* bench.h: a whole controller without a process: store in a new folder, core, loop, agents, relay;
 * and the other end of its connections, played by the test in the same thread. */
#ifndef KEEPSTEP_TESTS_UNIT_IO_BENCH_H
#define KEEPSTEP_TESTS_UNIT_IO_BENCH_H

#include "tests/lib/test.h"

#include <stdbool.h>
#include <uv.h>

#include "controller/core/state.h"
#include "controller/io/agents.h"
#include "controller/io/loop.h"
#include "controller/io/relay.h"
#include "controller/io/spec_cache.h"
#include "proto/base/message.h"
#include "proto/wire/frame.h"

struct bench_options {
    uint32_t sessions_max; /* 0: 64 */
    store_hook *hook;      /* runs on the commit thread */
    void *hook_context;
    const char *key_file; /* NULL: no TLS */
};

struct bench {
    uv_loop_t uv;
    char folder[64];
    char database[96];
    struct store *store;
    struct core *core;
    struct loop *loop;
    struct spec_cache *specs;
    struct tls_key *key;
    struct agents *agents;
    struct relay *relay;
    uint32_t carried; /* actions that were released */
};

void bench_open(struct bench *bench, const struct bench_options *options);
void bench_close(struct bench *bench);
/* Runs the loop until test() is true; false when it still is not after so long. */
bool bench_until(struct bench *bench, bool (*test)(void *context), void *context,
                 uint32_t timeout_ms);
void bench_run(struct bench *bench, uint32_t for_ms);

/* The agent's end. */
struct client {
    struct bench *bench;
    int fd; /* -1: closed */
    struct frame_reader reader;
    uint8_t bytes[65536];
    const uint8_t *data;
    size_t size;
    bool eof;
    struct message message; /* the last one taken */
    bool has_message;
};

void client_open(struct bench *bench, struct client *client);
void client_close(struct client *client);
void client_send_bytes(struct client *client, const void *data, size_t size);
void client_send(struct client *client, const struct message *message);
void client_hello(struct client *client, const char *node, const char *boot_id,
                  uint64_t incarnation);
/* Waits for the next message; NULL when the connection ended or nothing came for 5 s. Borrowed
 * until the next call. */
const struct message *client_take(struct client *client);
/* Skips others until one of that kind comes; fails the test when none does. */
const struct message *client_expect(struct client *client, uint8_t kind);
/* Waits until the controller has closed the connection; false after so long. */
bool client_is_ended(struct client *client, uint32_t timeout_ms);

#endif
