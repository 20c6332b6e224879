/* watch_test.c: the end of a process that is not ours to wait for. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shim/record.h"
#include "agent/shim/shim.h"
#include "tests/lib/test.h"

enum { END_MS = 5000 };

/* A process that waits to be killed. */
static struct shim_rank_status child(void)
{
    struct shim_process process;
    const pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    assert_int_equal(shim_record_process(pid, &process), 0);
    return (struct shim_rank_status){
        .state = SHIM_RANK_RUNNING, .pid = pid, .start_ticks = process.start_ticks};
}

static bool is_readable(int fd, int wait_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, wait_ms) == 1;
}

static void test_an_end_is_seen(void **state)
{
    (void)state;
    const struct shim_rank_status rank = child();
    int fd = -1;
    assert_int_equal(shim_rank_watch(&rank, &fd), 0);
    assert_false(is_readable(fd, 0));
    assert_int_equal(kill(rank.pid, SIGKILL), 0);
    assert_true(is_readable(fd, END_MS));
    assert_int_equal(close(fd), 0);
    assert_int_equal(shim_rank_watch(&rank, &fd), -ESRCH); /* a zombie has ended */
    assert_int_equal(waitpid(rank.pid, NULL, 0), rank.pid);
    assert_int_equal(shim_rank_watch(&rank, &fd), -ESRCH);
}

static void test_who_took_its_number_is_not_it(void **state)
{
    (void)state;
    const struct shim_rank_status rank = child();
    struct shim_rank_status other = rank;
    other.start_ticks--;
    int fd = -1;
    assert_int_equal(shim_rank_watch(&other, &fd), -ESRCH);
    assert_int_equal(fd, -1);
    assert_int_equal(kill(rank.pid, SIGKILL), 0);
    assert_int_equal(waitpid(rank.pid, NULL, 0), rank.pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_end_is_seen),
        cmocka_unit_test(test_who_took_its_number_is_not_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
