/* store_crash_test.c: the process dies at every single write, sync, truncation and removal in turn.
 * Each time: what was reported durable is there, batches are whole or not there at all, and the
 * tables are what the journal says. That the power goes instead is tests/fault/power_test.c. */
#include "tests/unit/db/fault_history.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/db/fault_vfs.h"

/* One life and its end at operation n; true when the child came through without being struck. */
static bool live_and_die(const struct folder *folder, uint64_t n, uint64_t *ret_durable)
{
    int report[2];
    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)fault_vfs();
        fault_set(FAULT_KILL, FAULT_CHANGES, n, true, 0);
        int code = history_write(folder, report[1], NULL);
        _exit(code == 0 ? 0 : 1);
    }
    (void)close(report[1]);
    *ret_durable = 0;
    uint64_t durable = 0;
    while (read(report[0], &durable, sizeof(durable)) == sizeof(durable)) {
        *ret_durable = durable;
    }
    (void)close(report[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == FAULT_EXIT_CODE);
    return WEXITSTATUS(status) == 0;
}

static void killed_at_every_operation(void **state)
{
    (void)state;
    uint64_t lives = 0;
    uint64_t empty = 0;
    uint64_t kept = 0;
    bool through = false;
    for (uint64_t n = 1; !through; n += HISTORY_STEP, lives++) {
        assert_true(n < HISTORY_POINTS_MAX);
        struct folder folder;
        folder_make_fast(&folder);
        uint64_t durable = 0;
        through = live_and_die(&folder, n, &durable);
        kept = history_check(&folder, durable, lives % HISTORY_REBUILD_EVERY == 0);
        empty += kept == 0 ? 1 : 0;
        folder_remove(&folder);
    }
    print_message("ended at each of %llu operations, %llu times before the first record\n",
                  (unsigned long long)lives - 1, (unsigned long long)empty);
    assert_true(empty > 3 && lives - empty > 12); /* before and amid the writing */
    assert_true(kept > 80);                       /* and once not at all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
