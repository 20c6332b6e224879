/* abort_test.c: the callback that ends what hangs: when it comes, how often, and that it leaves in
 * good order with the program. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "tests/unit/rank/rank_rig.h"

enum { SOON_S = 10, QUIET_MS = 150 };

struct heard {
    sem_t calls;
    sem_t leave; /* the callback stays until this is posted, when it is told to */
    bool stay;
    _Atomic int attached;
    _Atomic int blocked; /* SIGUSR1 was */
    pthread_t thread;
};

static void callback(void *argument)
{
    struct heard *heard = argument;
    sigset_t set;
    heard->thread = pthread_self();
    atomic_store(&heard->attached, keepstep_attached());
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
    atomic_store(&heard->blocked, sigismember(&set, SIGUSR1));
    assert_int_equal(sem_post(&heard->calls), 0);
    if (heard->stay) {
        assert_int_equal(sem_wait(&heard->leave), 0);
    }
}

static void heard_init(struct heard *heard)
{
    memset(heard, 0, sizeof(*heard));
    assert_int_equal(sem_init(&heard->calls, 0, 0), 0);
    assert_int_equal(sem_init(&heard->leave, 0, 0), 0);
}

static bool was_called(struct heard *heard, uint64_t ms)
{
    struct timespec until;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int result = 0;
    do {
        result = sem_timedwait(&heard->calls, &until);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

static void begin(struct rank_rig *rig)
{
    rank_rig_begin(rig, 5, 0);
    assert_int_equal(keepstep_init(), 0);
}

static void order_abort(const struct rank_rig *rig, uint32_t below)
{
    assert_int_equal(mailbox_abort_write(rig->fd, below), 0);
    assert_int_equal(mailbox_wake(rig->fd, rig->map), 0);
}

static void order_attempt(const struct rank_rig *rig, uint32_t attempt)
{
    struct mailbox_order order;
    rank_rig_order(&order, 5, attempt);
    assert_int_equal(mailbox_order_write(rig->fd, &order), 0);
    assert_int_equal(mailbox_wake(rig->fd, rig->map), 0);
}

static void test_no_agent(void **state)
{
    struct heard heard;
    (void)state;
    heard_init(&heard);
    assert_int_equal(unsetenv("KEEPSTEP_MAILBOX"), 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_on_abort(callback, &heard), 0);
    assert_int_equal(keepstep_on_abort(NULL, NULL), 0);
    keepstep_finish();
    assert_false(was_called(&heard, 0));
}

/* On the agent's order: at once, from another thread, without the program's signals, once. */
static void test_order(void **state)
{
    struct rank_rig rig;
    struct heard heard;
    (void)state;
    heard_init(&heard);
    begin(&rig);
    assert_int_equal(keepstep_on_abort(callback, &heard), 0);
    order_abort(&rig, 3); /* attempts before the present one */
    assert_false(was_called(&heard, QUIET_MS));
    uint64_t ordered_ms = rank_rig_now_ms();
    order_abort(&rig, 4);
    assert_true(was_called(&heard, 1000 * SOON_S));
    assert_true(rank_rig_now_ms() - ordered_ms < 900); /* by the futex, not by the look each 1 s */
    assert_false(pthread_equal(heard.thread, pthread_self()));
    assert_int_equal(heard.attached, 1);
    assert_int_equal(heard.blocked, 1);
    order_abort(&rig, 4);
    order_abort(&rig, 5);
    assert_false(was_called(&heard, QUIET_MS));
    rank_rig_end(&rig);
}

/* A newer attempt says the same; the next one has its own call. */
static void test_newer_attempt(void **state)
{
    struct rank_rig rig;
    struct heard heard;
    struct keepstep_restore restore;
    (void)state;
    heard_init(&heard);
    begin(&rig);
    assert_int_equal(keepstep_on_abort(callback, &heard), 0);
    order_attempt(&rig, 4);
    assert_true(was_called(&heard, 1000 * SOON_S));
    assert_int_equal(keepstep_restore_info(&restore), 1);
    assert_int_equal(restore.attempt, 3); /* looking took nothing over */
    assert_int_equal(keepstep_next_attempt(1000, &restore), 1);
    assert_int_equal(restore.attempt, 4);
    assert_false(was_called(&heard, QUIET_MS));
    order_attempt(&rig, 7);
    assert_true(was_called(&heard, 1000 * SOON_S));
    rank_rig_end(&rig);
}

/* Said while the attempt is over already: at once. Taken back: never. Changed: the new one. */
static void test_late_and_changed(void **state)
{
    struct rank_rig rig;
    struct heard first;
    struct heard second;
    (void)state;
    heard_init(&first);
    heard_init(&second);
    begin(&rig);
    assert_int_equal(keepstep_on_abort(callback, &first), 0);
    assert_int_equal(keepstep_on_abort(NULL, NULL), 0);
    order_abort(&rig, 4);
    assert_false(was_called(&first, QUIET_MS));
    assert_int_equal(keepstep_on_abort(callback, &second), 0);
    assert_true(was_called(&second, 1000 * SOON_S));
    assert_false(was_called(&first, 0));
    rank_rig_end(&rig);
}

static void *finish_run(void *context)
{
    keepstep_finish();
    assert_int_equal(sem_post(context), 0);
    return NULL;
}

/* keepstep_finish waits for a callback that is under way: its argument may go afterwards. */
static void test_finish_waits(void **state)
{
    struct rank_rig rig;
    struct heard heard;
    sem_t finished;
    pthread_t thread;
    (void)state;
    heard_init(&heard);
    heard.stay = true;
    assert_int_equal(sem_init(&finished, 0, 0), 0);
    begin(&rig);
    assert_int_equal(keepstep_on_abort(callback, &heard), 0);
    order_abort(&rig, 4);
    assert_true(was_called(&heard, 1000 * SOON_S));
    assert_int_equal(pthread_create(&thread, NULL, finish_run, &finished), 0);
    const struct timespec a_while = {.tv_nsec = QUIET_MS * 1000000L};
    assert_int_equal(nanosleep(&a_while, NULL), 0); /* that nothing happens has no event */
    assert_int_equal(sem_trywait(&finished), -1);
    assert_int_equal(sem_post(&heard.leave), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sem_trywait(&finished), 0);
    rank_rig_end(&rig);
}

/* Detached and attached again without a pause, many times, while orders come: no thread is left
 * behind, none meets an attachment that is not its own, and a finish takes no slice of a wait. */
static void test_again_and_again(void **state)
{
    struct rank_rig rig;
    struct heard heard;
    uint32_t called = 0;
    (void)state;
    heard_init(&heard);
    begin(&rig);
    uint64_t begun_ms = rank_rig_now_ms();
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(keepstep_init(), 0);
        assert_int_equal(keepstep_on_abort(callback, &heard), 0);
        order_abort(&rig, i % 2 == 0 ? 4 : 0);
        if (i % 4 == 0) {
            assert_true(was_called(&heard, 1000 * SOON_S));
            called++;
        }
        keepstep_finish();
        while (was_called(&heard, 0)) {
            called++;
        }
    }
    assert_true(called >= 50 && called <= 200);
    assert_true(rank_rig_now_ms() - begun_ms < 200 * 500);
    rank_rig_end(&rig);
}

/* A child of fork() is not the rank: it hears nothing and ends without waiting for anybody. */
static void test_child(void **state)
{
    struct rank_rig rig;
    struct heard heard;
    int status = 0;
    (void)state;
    heard_init(&heard);
    begin(&rig);
    assert_int_equal(keepstep_on_abort(callback, &heard), 0);
    pid_t child = fork();
    if (child == 0) {
        keepstep_finish();
        _exit(keepstep_on_abort(callback, &heard) == 0 && keepstep_attached() == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    order_abort(&rig, 4);
    assert_true(was_called(&heard, 1000 * SOON_S));
    rank_rig_end(&rig);
}

/* The two writers of the flags keep each other's words; garbage there asks for nothing. */
static void test_flags_share(void **state)
{
    struct rank_rig rig;
    struct heard heard;
    struct mailbox_flags garbage;
    (void)state;
    heard_init(&heard);
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(mailbox_flags_write(rig.fd, 1, true), 0);
    assert_int_equal(mailbox_abort_write(rig.fd, 2), 0);
    assert_int_equal(keepstep_should_checkpoint(), 1);
    assert_int_equal(keepstep_should_stop(), 1);
    memset(&garbage, 0xff, sizeof(garbage));
    assert_int_equal(
        pwrite(rig.fd, &garbage, sizeof(garbage), (off_t)offsetof(struct mailbox_file, flags)),
        (ssize_t)sizeof(garbage));
    assert_int_equal(keepstep_on_abort(callback, &heard), 0);
    assert_int_equal(mailbox_wake(rig.fd, rig.map), 0);
    assert_false(was_called(&heard, QUIET_MS));
    assert_int_equal(keepstep_should_stop(), 1); /* the last good words */
    assert_int_equal(mailbox_flags_write(rig.fd, 1, false), 0);
    assert_int_equal(keepstep_should_stop(), 0);
    assert_false(was_called(&heard, 0));
    rank_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_agent),      cmocka_unit_test(test_order),
        cmocka_unit_test(test_newer_attempt), cmocka_unit_test(test_late_and_changed),
        cmocka_unit_test(test_finish_waits),  cmocka_unit_test(test_again_and_again),
        cmocka_unit_test(test_child),         cmocka_unit_test(test_flags_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
