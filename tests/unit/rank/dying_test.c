/* dying_test.c: ranks that die while they write, and agents that are gone. The agent must read
 * nothing but what the rank said whole, and the next program must start on what is left. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/rank/attach.h"
#include "agent/rank/keepstep.h"
#include "proto/base/prng.h"
#include "tests/unit/rank/rank_rig.h"

enum { DEATHS = 200 };

/* ---- at chosen points --------------------------------------------------------------------- */

/* Three whole steps and a save, then each of these leaves one write half done and dies there. */
static void die_in_status(struct attach *attach)
{
    attach_status_begin(attach);
    attach->file->status.step_count = 999;
    attach->file->status.phase = MAILBOX_PHASE_EVAL;
}

static void die_after_status_opened(struct attach *attach)
{
    attach_status_begin(attach);
}

static struct mailbox_request *next_slot(struct attach *attach)
{
    uint64_t number = attach->file->status.request_count + 1;
    return &attach->file->requests[number % MAILBOX_REQUESTS];
}

static void die_in_request(struct attach *attach)
{
    struct mailbox_request *slot = next_slot(attach);
    slot->number = 0;
    slot->kind = MAILBOX_COMMIT;
    slot->step = 4;
    memcpy(slot->path, "/half", 6);
}

static void die_before_checksum_fits(struct attach *attach)
{
    struct mailbox_request *slot = next_slot(attach);
    die_in_request(attach);
    slot->number = attach->file->status.request_count + 1;
}

static void die_in_put(struct attach *attach)
{
    struct mailbox_put *put = &attach->file->puts[1];
    put->attempt = attach->file->status.attempt;
    put->size = 4;
    memcpy(put->key, "key", 4);
    put->number = 2;
}

static void die_in_get(struct attach *attach)
{
    struct mailbox_get *get = &attach->file->gets[1];
    get->attempt = attach->file->status.attempt;
    memcpy(get->key, "key", 4);
    get->number = 1 + MAILBOX_GETS;
}

static void live_and_die(void (*die)(struct attach *attach))
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        int result = keepstep_init();
        for (uint64_t step = 1; step <= 3 && result == 0; step++) {
            result = keepstep_step(step);
        }
        result = result == 0 ? keepstep_checkpoint_done(3, "/data/step-3.a-3") : result;
        result = result == 0 ? keepstep_exchange_put("whole", "value", 5) : result;
        struct attach *attach = result == 0 ? attach_lock() : NULL;
        if (attach != NULL) {
            die(attach);
            (void)raise(SIGKILL);
        }
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_chosen_points(void **state)
{
    static void (*const points[])(struct attach * attach) = {
        die_after_status_opened,  die_in_status, die_in_request,
        die_before_checksum_fits, die_in_put,    die_in_get,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        struct rank_rig rig;
        struct mailbox_view view = {.phase = MAILBOX_PHASE_RESTORE, .step = 77};
        rank_rig_begin(&rig, 0, 0);
        live_and_die(points[i]);
        assert_int_equal(mailbox_read(rig.fd, rank_rig_now_ms(), &view), 0);
        if (i < 2) {
            assert_true(view.torn);
            assert_int_equal(view.step, 77); /* the last good copy stays */
            assert_int_equal(view.phase, MAILBOX_PHASE_RESTORE);
        } else {
            assert_false(view.torn);
            assert_int_equal(view.step, 3);
        }
        assert_int_equal(rank_rig_requests(&rig), 2); /* begin and commit; nothing half */
        assert_int_equal(rank_rig_puts(&rig), 1);
        assert_int_equal(rank_rig_gets(&rig), 0);

        /* The next program takes it over whole. */
        assert_int_equal(keepstep_init(), 0);
        assert_int_equal(keepstep_step(4), 0);
        assert_int_equal(mailbox_read(rig.fd, rank_rig_now_ms(), &view), 0);
        assert_false(view.torn);
        assert_int_equal(view.step, 4);
        assert_int_equal(view.steps_held, 1);
        assert_int_equal(keepstep_checkpoint_done(4, "/data/step-4.a-3"), 0);
        assert_int_equal(rank_rig_requests(&rig), 4);
        rank_rig_end(&rig);
    }
}

/* ---- at any point ------------------------------------------------------------------------- */

/* Every word that this writer says follows from its step, so that a mixture shows. */
static void write_for_ever(void)
{
    char path[64];
    int pipeline = keepstep_communicator("pp", KEEPSTEP_AXIS_PIPELINE);
    for (uint64_t step = 1;; step++) {
        (void)keepstep_step_begin(step);
        (void)keepstep_step_compute(step);
        (void)keepstep_loss(step, (double)step);
        (void)keepstep_step_end(step);
        (void)keepstep_parameter_hash(step, step * 3);
        (void)keepstep_collective(pipeline, step * 2, step, KEEPSTEP_SEND, (int32_t)step);
        (void)snprintf(path, sizeof(path), "/data/step-%llu.a-3", (unsigned long long)step);
        (void)keepstep_checkpoint_done(step, path);
    }
}

static void check_view(const struct mailbox_view *view)
{
    for (uint32_t i = 0; i < view->steps_held; i++) {
        const struct mailbox_step *step = &view->steps[i];
        assert_int_equal(step->compute_us, step->step);
        assert_int_equal(step->loss, mailbox_real((double)step->step));
        assert_true(i == 0 || step->step == view->steps[i - 1].step + 1);
    }
    for (uint32_t i = 0; i < view->hashes_held; i++) {
        assert_int_equal(view->hashes[i].hash, view->hashes[i].step * 3);
    }
    for (uint32_t i = 0; i < view->communicator_count; i++) {
        const struct mailbox_communicator *one = &view->communicators[i];
        assert_string_equal(one->name, "pp");
        assert_int_equal(one->enqueued, 2 * one->completed);
        assert_int_equal(one->peer, one->completed == 0 ? -1 : (int32_t)one->completed);
    }
    assert_true(view->steps_held == 0 || view->steps[view->steps_held - 1].step == view->step);
}

static uint32_t check_requests(const struct rank_rig *rig)
{
    struct mailbox_request request;
    uint32_t cursor = 0;
    uint32_t count = 0;
    char path[64];
    while (mailbox_next_request(rig->fd, &cursor, &request) == 1) {
        (void)snprintf(path, sizeof(path), "/data/step-%llu.a-3", (unsigned long long)request.step);
        assert_true(request.kind == MAILBOX_BEGIN || strcmp(request.path, path) == 0);
        count++;
    }
    return count;
}

static pid_t writer_start(void)
{
    pid_t child = fork();
    if (child == 0) {
        if (keepstep_init() == 0 && keepstep_attached() == 1) {
            write_for_ever();
        }
        _exit(1);
    }
    assert_true(child > 0);
    return child;
}

static void test_killed_at_random(void **state)
{
    struct rank_rig rig;
    struct prng prng;
    uint32_t torn = 0;
    uint32_t whole = 0;
    uint64_t step_last = 0;
    (void)state;
    prng_seed(&prng, 11);
    rank_rig_begin(&rig, 0, 0);
    for (uint32_t death = 0; death < DEATHS; death++) {
        struct mailbox_view view = {0};
        int status = 0;
        pid_t child = writer_start();
        do { /* until it writes; and readers meet it at work */
            assert_int_equal(mailbox_read(rig.fd, rank_rig_now_ms(), &view), 0);
            check_view(&view);
        } while (view.pid != (uint32_t)child || view.step < 2);
        const struct timespec a_while = {.tv_nsec = (long)prng_below(&prng, 300000)};
        assert_int_equal(nanosleep(&a_while, NULL), 0);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(mailbox_read(rig.fd, rank_rig_now_ms(), &view), 0);
        check_view(&view); /* torn: the last good copy, which is one of a moment too */
        assert_true(view.step >= 2);
        torn += view.torn;
        whole += !view.torn;
        step_last += view.step;
        assert_true(check_requests(&rig) > 0);
        assert_int_equal(rank_rig_puts(&rig), 0);
    }
    (void)printf("# %d deaths: %u inside of a status write, %u outside; %llu steps in all\n",
                 (int)DEATHS, torn, whole, (unsigned long long)step_last);
    assert_int_equal(torn + whole, DEATHS);
    assert_true(whole > 0);
    rank_rig_end(&rig);
}

/* ---- the agent is gone -------------------------------------------------------------------- */

/* The folder went with the agent: nothing blocks, nothing fails that trains. */
static void test_agent_gone(void **state)
{
    struct rank_rig rig;
    char value[8];
    size_t size = 0;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(unlinkat(rig.dir_fd, "0", 0), 0);
    uint64_t begun_ms = rank_rig_now_ms();
    for (uint64_t step = 1; step <= 1000; step++) {
        assert_int_equal(keepstep_step(step), 0);
        assert_int_equal(keepstep_loss(step, 1), 0);
        assert_int_equal(keepstep_should_checkpoint(), 0);
        assert_int_equal(keepstep_checkpoint_done(step, "/data/x"), 0);
    }
    assert_int_equal(keepstep_exchange_put("k", "v", 1), 0);
    assert_int_equal(keepstep_exchange_get("other", value, sizeof(value), &size, 50), -ETIMEDOUT);
    assert_int_equal(keepstep_checkpoint_result(50, NULL), 0);
    assert_true(rank_rig_now_ms() - begun_ms < 10000);
    keepstep_finish();
    /* And a program that comes now finds no mailbox, says so, and trains as if alone. */
    assert_int_equal(keepstep_init(), -ENOENT);
    assert_int_equal(keepstep_attached(), 0);
    assert_int_equal(keepstep_step(1001), 0);
    rank_rig_end(&rig);
}

/* An agent that died inside an order: the program keeps the one that it has; the next agent's
 * whole one is taken. */
static void test_agent_died_in_order(void **state)
{
    struct rank_rig rig;
    struct keepstep_restore restore;
    struct mailbox_order order;
    uint64_t odd = 7;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    const off_t at = (off_t)offsetof(struct mailbox_file, order);
    assert_int_equal(pwrite(rig.fd, &odd, sizeof(odd), at), (ssize_t)sizeof(odd));
    assert_int_equal(keepstep_restore_info(&restore), 1);
    assert_int_equal(restore.step, 40);
    assert_int_equal(keepstep_next_attempt(50, &restore), 0);
    keepstep_finish();
    assert_int_equal(keepstep_init(), -EBADMSG); /* a fresh one has no earlier copy */
    assert_int_equal(keepstep_attached(), 0);
    rank_rig_order(&order, 0, 4);
    assert_int_equal(mailbox_order_write(rig.fd, &order), 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_restore_info(&restore), 1);
    assert_int_equal(restore.attempt, 4);
    rank_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_points),
        cmocka_unit_test(test_killed_at_random),
        cmocka_unit_test(test_agent_gone),
        cmocka_unit_test(test_agent_died_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
