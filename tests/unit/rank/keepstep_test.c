/* keepstep_test.c: each call of the library as the agent sees it. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "tests/unit/rank/rank_rig.h"

static const char hash[] = "0123456789abcdef0123456789abcdef";

static void view_read(const struct rank_rig *rig, struct mailbox_view *ret_view)
{
    memset(ret_view, 0, sizeof(*ret_view));
    assert_int_equal(mailbox_read(rig->fd, rank_rig_now_ms(), ret_view), 0);
    assert_true(ret_view->valid);
    assert_false(ret_view->torn);
}

/* Without an agent every call is harmless. */
static void test_no_agent(void **state)
{
    struct keepstep_restore restore;
    char value[8];
    char text[KEEPSTEP_TEXT_SIZE];
    size_t size = 0;
    (void)state;
    assert_int_equal(unsetenv("KEEPSTEP_MAILBOX"), 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_attached(), 0);
    assert_int_equal(keepstep_phase(KEEPSTEP_EVAL), 0);
    assert_int_equal(keepstep_step_begin(1), 0);
    assert_int_equal(keepstep_step_end(1), 0);
    assert_int_equal(keepstep_step(2), 0);
    assert_int_equal(keepstep_step_compute(5), 0);
    assert_int_equal(keepstep_coordinates(0, 0, 0, 0), 0);
    assert_int_equal(keepstep_should_checkpoint(), 0);
    assert_int_equal(keepstep_should_stop(), 0);
    assert_int_equal(keepstep_checkpoint_begin(1, 1), 0);
    assert_int_equal(keepstep_checkpoint_shard("/a", 1, hash), 0);
    assert_int_equal(keepstep_checkpoint_commit("/a", hash, 1), 0);
    assert_int_equal(keepstep_checkpoint_result(1000000, text), 1);
    assert_int_equal(keepstep_checkpoint_done(1, "/a"), 0);
    memset(&restore, 0x55, sizeof(restore));
    assert_int_equal(keepstep_restore_info(&restore), 0);
    assert_int_equal(restore.step, 0);
    assert_int_equal(restore.world, 0);
    assert_int_equal(keepstep_next_attempt(1000000, &restore), 0);
    assert_int_equal(keepstep_exchange_put("k", "v", 1), 0);
    assert_int_equal(keepstep_exchange_get("k", value, sizeof(value), &size, 1000000), -ENOTCONN);
    keepstep_finish();
}

static void test_progress(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_attached(), 1);
    view_read(&rig, &view);
    assert_int_equal(view.phase, MAILBOX_PHASE_INIT);
    assert_int_equal(view.attempt, 3);
    assert_int_equal(view.pid, getpid());
    assert_int_equal(view.step, 0);
    assert_int_equal(view.step_ms, 0);

    assert_int_equal(keepstep_phase(KEEPSTEP_RESTORE), 0);
    view_read(&rig, &view);
    assert_int_equal(view.phase, MAILBOX_PHASE_RESTORE);

    for (uint64_t step = 41; step <= 90; step++) {
        assert_int_equal(keepstep_step_begin(step), 0);
        assert_int_equal(keepstep_step_compute(5000), 0);
        if (step % 25 == 0) {
            (void)poll(NULL, 0, 3);
        }
        assert_int_equal(keepstep_step_end(step), 0);
    }
    assert_int_equal(keepstep_step_begin(91), 0);
    view_read(&rig, &view);
    assert_int_equal(view.phase, MAILBOX_PHASE_STEP);
    assert_int_equal(view.step, 90);
    assert_int_equal(view.step_begun, 91);
    assert_int_equal(view.step_count, 50);
    assert_int_equal(view.steps_held, MAILBOX_STEPS);
    for (uint32_t i = 0; i < MAILBOX_STEPS; i++) {
        assert_int_equal(view.steps[i].step, 59 + i);
        assert_true(view.steps[i].step != 75 || view.steps[i].total_us >= 3000);
    }
    assert_int_equal(view.compute_ms, 5);
    assert_true(view.step_ms >= 1);
    assert_true(view.changed_ms <= rank_rig_now_ms());
    assert_true(view.changed_ms + 10000 > rank_rig_now_ms());

    assert_int_equal(keepstep_coordinates(1, 0, 1, 3), 0);
    view_read(&rig, &view);
    assert_true(view.has_coordinates);
    assert_int_equal(view.coordinates.data, 3);
    keepstep_finish();
    view_read(&rig, &view);
    assert_true(view.finished);
    assert_int_equal(keepstep_attached(), 0);
    rank_rig_end(&rig);
}

static void test_short_form(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    (void)poll(NULL, 0, 5);
    assert_int_equal(keepstep_step(1), 0);
    (void)poll(NULL, 0, 5);
    assert_int_equal(keepstep_step(2), 0);
    view_read(&rig, &view);
    assert_int_equal(view.step, 2);
    assert_int_equal(view.step_begun, 3);
    assert_true(view.steps[0].total_us >= 5000 && view.steps[1].total_us >= 5000);
    assert_int_equal(keepstep_step(0), -EINVAL);
    assert_int_equal(keepstep_step(UINT64_MAX), -EINVAL);
    assert_int_equal(keepstep_phase(-1), -EINVAL);
    assert_int_equal(keepstep_phase(6), -EINVAL);
    view_read(&rig, &view);
    assert_int_equal(view.step, 2);
    assert_int_equal(keepstep_checkpoint_done(2, "/data/mine"), 0);
    view_read(&rig, &view);
    assert_int_equal(view.phase, MAILBOX_PHASE_STEP);
    assert_int_equal(rank_rig_requests(&rig), 2);
    rank_rig_end(&rig);
}

static void test_save_and_stop(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view;
    (void)state;
    rank_rig_begin(&rig, 0, UINT32_MAX); /* counters wrap */
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_should_checkpoint(), 0);
    assert_int_equal(keepstep_should_stop(), 0);
    assert_int_equal(mailbox_flags_write(rig.fd, 0, false), 0);
    assert_int_equal(keepstep_should_checkpoint(), 1);
    assert_int_equal(keepstep_should_checkpoint(), 1);
    assert_int_equal(mailbox_flags_write(rig.fd, 0, true), 0);
    assert_int_equal(keepstep_should_stop(), 1);
    assert_int_equal(keepstep_checkpoint_begin(7, 1), 0);
    assert_int_equal(keepstep_should_checkpoint(), 0);
    assert_int_equal(keepstep_should_stop(), 1);
    view_read(&rig, &view);
    assert_int_equal(view.save_served, 0);
    assert_int_equal(view.phase, MAILBOX_PHASE_CHECKPOINT);
    /* Words that do not fit each other (an agent died in its write) are not believed. */
    struct mailbox_flags torn = {.save_request = 5, .stop_request = 0, .check = 1};
    assert_int_equal(pwrite(rig.fd, &torn, sizeof(torn), offsetof(struct mailbox_file, flags)),
                     sizeof(torn));
    assert_int_equal(keepstep_should_checkpoint(), 0);
    assert_int_equal(keepstep_should_stop(), 1);
    rank_rig_end(&rig);

    rank_rig_begin(&rig, 5, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(mailbox_flags_write(rig.fd, 1, true), 0);
    assert_int_equal(keepstep_should_checkpoint(), 0);
    assert_int_equal(keepstep_should_stop(), 0);
    rank_rig_end(&rig);
}

static void test_checkpoint(void **state)
{
    struct rank_rig rig;
    struct mailbox_request request;
    char text[KEEPSTEP_TEXT_SIZE];
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_checkpoint_result(0, text), -ENOENT);
    assert_int_equal(keepstep_checkpoint_shard("/data/s", 1, hash), -EINVAL);
    assert_int_equal(keepstep_checkpoint_commit("/data/s", hash, 1), -EINVAL);

    assert_int_equal(keepstep_checkpoint_begin(50, 16), 0);
    rank_rig_request(&rig, &request);
    assert_int_equal(request.kind, MAILBOX_BEGIN);
    assert_int_equal(request.step, 50);
    assert_int_equal(request.shard_count, 16);
    assert_int_equal(request.attempt, 3);
    assert_int_equal(mailbox_answer_write(rig.fd, request.number, 0, NULL), 0);

    (void)poll(NULL, 0, 5);
    assert_int_equal(keepstep_checkpoint_shard("/data/step-50.a-3/0", 1234567890123, hash), 0);
    rank_rig_request(&rig, &request);
    assert_int_equal(request.kind, MAILBOX_SHARD);
    assert_true(request.bytes == 1234567890123);
    assert_string_equal(request.hash, hash);
    assert_string_equal(request.path, "/data/step-50.a-3/0");
    assert_true(request.stall_ms >= 5);
    assert_int_equal(mailbox_answer_write(rig.fd, request.number, 0, NULL), 0);

    assert_int_equal(keepstep_checkpoint_commit("/data/step-50.a-3", NULL, KEEPSTEP_RNG), 0);
    rank_rig_request(&rig, &request);
    assert_int_equal(request.kind, MAILBOX_COMMIT);
    assert_int_equal(request.parts, KEEPSTEP_RNG);
    assert_string_equal(request.hash, "");
    assert_int_equal(keepstep_checkpoint_result(0, text), 0);
    assert_int_equal(mailbox_answer_write(rig.fd, request.number, -ESTALE, "attempt 4 is current"),
                     0);
    assert_int_equal(keepstep_checkpoint_result(0, text), -ESTALE);
    assert_string_equal(text, "attempt 4 is current");
    assert_int_equal(rank_rig_requests(&rig), 0);

    assert_int_equal(keepstep_checkpoint_begin(0, 1), -EINVAL);
    assert_int_equal(keepstep_checkpoint_begin(60, 1), 0);
    assert_int_equal(keepstep_checkpoint_shard("relative", 1, hash), -EINVAL);
    assert_int_equal(keepstep_checkpoint_shard("/a", 1, "ABC"), -EINVAL);
    assert_int_equal(keepstep_checkpoint_shard(NULL, 1, hash), -EINVAL);
    assert_int_equal(keepstep_checkpoint_commit("/a", "zz", 0), -EINVAL);
    rank_rig_end(&rig);

    /* Other ranks tell their shards only. */
    rank_rig_begin(&rig, 4, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_checkpoint_begin(50, 16), 0);
    assert_int_equal(rank_rig_requests(&rig), 0);
    assert_int_equal(keepstep_checkpoint_shard("/data/s", 1, hash), 0);
    rank_rig_request(&rig, &request);
    assert_int_equal(request.rank, 4);
    assert_int_equal(keepstep_checkpoint_commit("/data", hash, 1), -EINVAL);
    rank_rig_end(&rig);
}

/* Nobody answers for long: the newest requests are the ones that stay, and the loss shows. */
static void test_ring_overflow(void **state)
{
    struct rank_rig rig;
    struct mailbox_request request;
    struct mailbox_view view;
    uint32_t cursor = 0;
    uint64_t lowest = UINT64_MAX;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    for (uint64_t step = 1; step <= 100; step++) {
        assert_int_equal(keepstep_checkpoint_begin(step, 1), 0);
    }
    assert_int_equal(rank_rig_requests(&rig), MAILBOX_REQUESTS);
    while (mailbox_next_request(rig.fd, &cursor, &request) == 1) {
        lowest = request.step < lowest ? request.step : lowest;
    }
    assert_int_equal(lowest, 100 - MAILBOX_REQUESTS + 1);
    view_read(&rig, &view);
    assert_int_equal(view.dropped, 100 - MAILBOX_REQUESTS);
    rank_rig_end(&rig);
}

/* The counts say what is new, so that an agent that was rung need not read all tables. */
static void test_counts(void **state)
{
    struct rank_rig rig;
    struct mailbox_request request;
    struct mailbox_view view;
    char value[8];
    size_t size = 0;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    view_read(&rig, &view);
    assert_int_equal(view.request_count, 0);
    assert_int_equal(view.exchange_count, 0);
    assert_int_equal(keepstep_checkpoint_begin(1, 1), 0);
    assert_int_equal(keepstep_checkpoint_shard("/data/s", 1, hash), 0);
    assert_int_equal(keepstep_exchange_put("k", "v", 1), 0);
    assert_int_not_equal(keepstep_exchange_get("other", value, sizeof(value), &size, 0), 0);
    view_read(&rig, &view);
    assert_int_equal(view.request_count, 2);
    assert_int_equal(view.exchange_count, 2);
    assert_int_equal(mailbox_request_at(rig.fd, 2, &request), 1);
    assert_int_equal(request.kind, MAILBOX_SHARD);
    assert_int_equal(mailbox_answer_write(rig.fd, 2, 0, NULL), 0);
    assert_int_equal(mailbox_request_at(rig.fd, 2, &request), 0); /* answered */
    assert_int_equal(mailbox_request_at(rig.fd, 3, &request), 0); /* never made */
    assert_int_equal(mailbox_request_at(rig.fd, 1, &request), 1);
    assert_int_equal(mailbox_request_at(rig.fd, 1 + MAILBOX_REQUESTS, &request), 0);

    /* A program that begins anew in the same mailbox goes on counting. */
    keepstep_finish();
    assert_int_equal(keepstep_init(), 0);
    view_read(&rig, &view);
    assert_int_equal(view.request_count, 2);
    assert_int_equal(view.exchange_count, 2);
    rank_rig_end(&rig);
}

static void test_restore(void **state)
{
    struct rank_rig rig;
    struct keepstep_restore restore;
    struct mailbox_order order;
    struct mailbox_view view;
    (void)state;
    rank_rig_begin(&rig, 13, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_restore_info(&restore), 1);
    assert_int_equal(restore.attempt, 3);
    assert_int_equal(restore.rank, 13);
    assert_int_equal(restore.world, 16);
    assert_int_equal(restore.data_rank, 3);
    assert_int_equal(restore.data, 4);
    assert_int_equal(restore.master_port, 29500);
    assert_string_equal(restore.master_address, "10.0.0.7");
    assert_int_equal(restore.step, 40);
    assert_int_equal(restore.checkpoint_attempt, 2);
    assert_string_equal(restore.directory, "/data/step-40.a-2");
    assert_string_equal(restore.checkpoint_directory, "/data");

    /* An agent that died in its write: the last good one stands; its successor mends it. */
    uint64_t odd = 7;
    assert_int_equal(pwrite(rig.fd, &odd, 8, offsetof(struct mailbox_file, order)), 8);
    assert_int_equal(keepstep_restore_info(&restore), 1);
    assert_int_equal(restore.step, 40);
    assert_int_equal(keepstep_next_attempt(0, &restore), 0);
    rank_rig_order(&order, 5, 4);
    order.restore_step = 60;
    assert_int_equal(mailbox_order_write(rig.fd, &order), 0);
    /* Not this program's before it takes it. */
    assert_int_equal(keepstep_restore_info(&restore), 1);
    assert_int_equal(restore.attempt, 3);
    assert_int_equal(keepstep_step(41), 0);
    assert_int_equal(keepstep_exchange_put("k", "old", 3), 0);
    assert_int_equal(keepstep_next_attempt(0, &restore), 1);
    assert_int_equal(restore.attempt, 4);
    assert_int_equal(restore.rank, 5);
    assert_int_equal(restore.step, 60);
    assert_int_equal(rank_rig_puts(&rig), 0);
    view_read(&rig, &view);
    assert_int_equal(view.attempt, 4);
    assert_int_equal(view.step, 0);
    assert_int_equal(view.phase, MAILBOX_PHASE_INIT);
    assert_int_equal(keepstep_next_attempt(0, &restore), 0);
    /* A lower one is never taken. */
    rank_rig_order(&order, 5, 2);
    assert_int_equal(mailbox_order_write(rig.fd, &order), 0);
    assert_int_equal(keepstep_next_attempt(0, &restore), 0);
    rank_rig_end(&rig);
}

static void test_exchange(void **state)
{
    static uint8_t big[KEEPSTEP_VALUE_MAX + 1];
    struct rank_rig rig;
    struct mailbox_put put;
    struct mailbox_get get;
    uint32_t cursor = 0;
    uint8_t value[KEEPSTEP_VALUE_MAX];
    size_t size = 0;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    memset(big, 0xa5, sizeof(big));
    assert_int_equal(keepstep_exchange_put("nccl/tp0", big, KEEPSTEP_VALUE_MAX), 0);
    assert_int_equal(keepstep_exchange_put("nccl/tp0", big, KEEPSTEP_VALUE_MAX), 0);
    assert_int_equal(keepstep_exchange_put("nccl/tp0", big, 3), -EEXIST);
    assert_int_equal(keepstep_exchange_put("other", big, KEEPSTEP_VALUE_MAX + 1), -EMSGSIZE);
    assert_int_equal(keepstep_exchange_put("", big, 1), -EINVAL);
    assert_int_equal(keepstep_exchange_put("a\n", big, 1), -EINVAL);
    assert_int_equal(mailbox_next_put(rig.fd, &cursor, &put), 1);
    assert_string_equal(put.key, "nccl/tp0");
    assert_int_equal(put.size, KEEPSTEP_VALUE_MAX);
    assert_int_equal(put.attempt, 3);
    assert_memory_equal(put.value, big, KEEPSTEP_VALUE_MAX);
    assert_int_equal(mailbox_next_put(rig.fd, &cursor, &put), 0);
    /* One's own needs no agent. */
    assert_int_equal(keepstep_exchange_get("nccl/tp0", value, sizeof(value), &size, 0), 0);
    assert_int_equal(size, KEEPSTEP_VALUE_MAX);
    assert_int_equal(rank_rig_gets(&rig), 0);

    assert_int_equal(keepstep_exchange_get("peer", value, sizeof(value), &size, 0), -ETIMEDOUT);
    assert_int_equal(keepstep_exchange_get("peer", value, sizeof(value), &size, 20), -ETIMEDOUT);
    rank_rig_get(&rig, &get);
    assert_string_equal(get.key, "peer");
    assert_int_equal(get.attempt, 3);
    assert_int_equal(mailbox_value_write(rig.fd, get.number + 1, 0, "x", 1), -ENOENT);
    assert_int_equal(mailbox_value_write(rig.fd, get.number, 0, big, KEEPSTEP_VALUE_MAX + 1),
                     -EMSGSIZE);
    assert_int_equal(mailbox_value_write(rig.fd, get.number, 0, "hello", 5), 0);
    assert_int_equal(rank_rig_gets(&rig), 0);
    assert_int_equal(keepstep_exchange_get("peer", value, 4, &size, 0), -EMSGSIZE);
    assert_int_equal(keepstep_exchange_get("peer", value, 5, &size, 0), 0);
    assert_int_equal(size, 5);
    assert_memory_equal(value, "hello", 5);
    /* It stays, for whoever asks again. */
    assert_int_equal(keepstep_exchange_get("peer", value, 5, &size, 0), 0);

    for (uint32_t i = 1; i < KEEPSTEP_PUTS_MAX; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        assert_int_equal(keepstep_exchange_put(key, NULL, 0), 0);
    }
    assert_int_equal(keepstep_exchange_put("one-more", "x", 1), -ENOSPC);
    for (uint32_t i = 0; i < MAILBOX_GETS; i++) {
        char key[2] = {(char)('A' + i), '\0'};
        assert_int_equal(keepstep_exchange_get(key, value, 5, &size, 0), -ETIMEDOUT);
    }
    assert_int_equal(keepstep_exchange_get("Z", value, 5, &size, 0), -EBUSY);
    cursor = 0;
    assert_int_equal(mailbox_next_get(rig.fd, &cursor, &get), 1);
    assert_int_equal(mailbox_value_write(rig.fd, get.number, -ENOENT, NULL, 0), 0);
    assert_int_equal(keepstep_exchange_get(get.key, value, 5, &size, 0), -ENOENT);
    assert_int_equal(keepstep_exchange_get("Z", value, 5, &size, 0), -ETIMEDOUT);
    rank_rig_end(&rig);
}

/* A waiter is woken by the agent's write and not by its own clock. */
struct waiter {
    int result;
    uint64_t took_ms;
    char value[16];
    size_t size;
};

static void *waiter_run(void *context)
{
    struct waiter *waiter = context;
    uint64_t begun = rank_rig_now_ms();
    waiter->result =
        keepstep_exchange_get("late", waiter->value, sizeof(waiter->value), &waiter->size, 60000);
    waiter->took_ms = rank_rig_now_ms() - begun;
    return NULL;
}

static void test_doorbell_and_futex(void **state)
{
    struct rank_rig rig;
    struct mailbox_get get;
    struct waiter waiter = {0};
    pthread_t thread;
    char events[4096];
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(watch, getenv("KEEPSTEP_MAILBOX"), IN_MODIFY) >= 0);
    assert_int_equal(pthread_create(&thread, NULL, waiter_run, &waiter), 0);
    struct pollfd event = {.fd = watch, .events = POLLIN};
    assert_int_equal(poll(&event, 1, 10000), 1); /* the doorbell */
    assert_true(read(watch, events, sizeof(events)) > 0);
    rank_rig_get(&rig, &get);
    (void)poll(NULL, 0, 30);
    assert_int_equal(mailbox_value_write(rig.fd, get.number, 0, "now", 3), 0);
    assert_int_equal(mailbox_wake(rig.fd, rig.map), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter.result, 0);
    assert_int_equal(waiter.size, 3);
    assert_true(waiter.took_ms < 700); /* far less than the second after which it looks itself */

    /* Steps are told without a system call; phases ring. */
    assert_int_equal(keepstep_step(1), 0);
    while (read(watch, events, sizeof(events)) > 0) {
    }
    for (uint64_t step = 2; step < 100; step++) {
        assert_int_equal(keepstep_step(step), 0);
    }
    assert_int_equal(poll(&event, 1, 0), 0);
    assert_int_equal(keepstep_phase(KEEPSTEP_EVAL), 0);
    assert_int_equal(poll(&event, 1, 10000), 1);
    (void)close(watch);
    rank_rig_end(&rig);
}

static void *finisher_run(void *context)
{
    (void)context;
    (void)poll(NULL, 0, 30);
    keepstep_finish();
    return NULL;
}

/* Finishing under somebody who waits is safe. */
static void test_finish_while_waiting(void **state)
{
    struct rank_rig rig;
    pthread_t thread;
    char value[8];
    size_t size;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(pthread_create(&thread, NULL, finisher_run, NULL), 0);
    assert_int_equal(keepstep_exchange_get("k", value, sizeof(value), &size, 60000), -ENOTCONN);
    assert_int_equal(pthread_join(thread, NULL), 0);
    rank_rig_end(&rig);
}

/* A forked child is not the rank; nor is a second program of the same environment. */
static void test_children(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view;
    int wait_status = 0;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_step(5), 0);
    pid_t child = fork();
    if (child == 0) {
        bool quiet = keepstep_attached() == 0 && keepstep_step(99) == 0 &&
                     keepstep_init() == -EBUSY && keepstep_attached() == 0;
        _exit(quiet ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_int_equal(wait_status, 0);
    view_read(&rig, &view);
    assert_int_equal(view.step, 5);
    assert_int_equal(keepstep_step(6), 0);
    view_read(&rig, &view);
    assert_int_equal(view.step, 6);
    rank_rig_end(&rig);
}

/* The rank dies anywhere, even inside a write; a new program of the rank goes on. */
static void test_dead_rank(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view;
    struct mailbox_request request;
    int wait_status = 0;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        bool good =
            keepstep_init() == 0 && keepstep_step(5) == 0 && keepstep_checkpoint_begin(5, 1) == 0;
        uint64_t odd = 0;
        const size_t lock = offsetof(struct mailbox_file, status);
        good = good && pread(rig.fd, &odd, 8, (off_t)lock) == 8;
        odd |= 1;
        good = good && pwrite(rig.fd, &odd, 8, (off_t)lock) == 8;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_int_equal(wait_status, 0);
    memset(&view, 0, sizeof(view));
    view.step = 4; /* the last good copy stands */
    assert_int_equal(mailbox_read(rig.fd, rank_rig_now_ms(), &view), 0);
    assert_true(view.torn);
    assert_int_equal(view.step, 4);
    /* What it asked for is still there, and numbers go on growing after it. */
    rank_rig_request(&rig, &request);
    uint64_t number = request.number;
    assert_int_equal(keepstep_init(), 0);
    view_read(&rig, &view);
    assert_int_equal(view.step, 0);
    assert_int_equal(keepstep_checkpoint_begin(6, 1), 0);
    assert_int_equal(mailbox_answer_write(rig.fd, number, 0, NULL), 0);
    rank_rig_request(&rig, &request);
    assert_true(request.number > number);
    rank_rig_end(&rig);
}

struct stepper {
    uint64_t base;
    atomic_bool *over;
};

static void *steps_run(void *context)
{
    const struct stepper *stepper = context;
    for (uint64_t i = 0; !atomic_load(stepper->over); i++) {
        (void)keepstep_step(stepper->base + i);
        (void)keepstep_should_checkpoint();
    }
    return NULL;
}

/* Four threads tell steps without a pause while the agent reads: every reading is whole or says
 * that it is torn, and whole ones come. */
static void test_threads_against_reader(void **state)
{
    struct rank_rig rig;
    pthread_t threads[4];
    struct stepper steppers[4];
    struct mailbox_view view = {0};
    atomic_bool over = false;
    uint32_t good = 0;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    for (uint64_t i = 0; i < 4; i++) {
        steppers[i] = (struct stepper){1 + i * 1000000000, &over};
        assert_int_equal(pthread_create(&threads[i], NULL, steps_run, &steppers[i]), 0);
    }
    uint64_t deadline_ms = rank_rig_now_ms() + 20000;
    while (good < 200 && rank_rig_now_ms() < deadline_ms) {
        assert_int_equal(mailbox_read(rig.fd, rank_rig_now_ms(), &view), 0);
        if (!view.torn && view.steps_held > 0) {
            good++;
            assert_int_equal(view.steps[view.steps_held - 1].step, view.step);
            assert_int_equal(view.step_begun, view.step + 1);
        }
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(good, 200);
    rank_rig_end(&rig);
}

static void test_bad_mailboxes(void **state)
{
    struct rank_rig rig;
    uint32_t version = 99;
    (void)state;
    assert_int_equal(setenv("KEEPSTEP_MAILBOX", "/dev/shm/none-such", 1), 0);
    assert_int_equal(keepstep_init(), -ENOENT);
    assert_int_equal(setenv("KEEPSTEP_MAILBOX", "/etc/passwd", 1), 0);
    assert_int_not_equal(keepstep_init(), 0);
    assert_int_equal(setenv("KEEPSTEP_MAILBOX", "", 1), 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_attached(), 0);

    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(pwrite(rig.fd, &version, 4, offsetof(struct mailbox_header, version)), 4);
    assert_int_equal(keepstep_init(), -EPROTO);
    assert_int_equal(pwrite(rig.fd, "garbage!", 8, 0), 8);
    assert_int_equal(keepstep_init(), -EBADMSG);
    assert_int_equal(ftruncate(rig.fd, 4096), 0);
    assert_int_equal(keepstep_init(), -EBADMSG);
    assert_int_equal(keepstep_attached(), 0);
    assert_int_equal(keepstep_step(1), 0);
    rank_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_agent),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_short_form),
        cmocka_unit_test(test_save_and_stop),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_ring_overflow),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_doorbell_and_futex),
        cmocka_unit_test(test_finish_while_waiting),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_dead_rank),
        cmocka_unit_test(test_threads_against_reader),
        cmocka_unit_test(test_bad_mailboxes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
