/* step_reader_test.c: the newest step in outputs of all kinds, and the helper that reads files. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/io/step_follow.h"
#include "agent/io/step_reader.h"
#include "agent/io/used_time.h"
#include "proto/base/check.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"

enum { WAIT_MS = 20000 };

static struct step_pattern *compile(const char *text)
{
    struct step_pattern *pattern = NULL;
    assert_int_equal(step_pattern_compile(text, &pattern, NULL), 0);
    return pattern;
}

static uint64_t newest(struct step_reader *reader, const struct step_pattern *pattern,
                       const char *bytes, size_t size)
{
    reader->found = false;
    assert_int_equal(step_reader_put(reader, pattern, bytes, size), 0);
    return reader->found ? reader->step : UINT64_MAX;
}

#define NEWEST(text) newest(&reader, pattern, text, sizeof(text) - 1)

static void only_whole_lines_count(void **state)
{
    (void)state;
    struct step_reader reader = {.size = 0};
    struct step_pattern *pattern = compile("step (\\d+)");
    assert_int_equal(NEWEST("step 1\nstep 2\nstep 3"), 2);
    assert_int_equal(NEWEST("4"), UINT64_MAX);
    assert_int_equal(NEWEST("\n"), 34);
    assert_int_equal(NEWEST("\rstep 5 |##  |\rstep 6 |### |"), 5);
    assert_int_equal(NEWEST("\r\n\n\n"), 6);
    assert_int_equal(NEWEST("\0\0step\0"
                            "7\0\n"),
                     7);
    step_reader_jump(&reader, false);
    assert_int_equal(NEWEST("tep 8\nstep 9\n"), 9);
    assert_int_equal(NEWEST("half of st"), UINT64_MAX);
    step_reader_jump(&reader, true);
    assert_int_equal(NEWEST("step 10\n"), 10);
    (void)step_pattern_free(pattern);
}

/* Of a line that is too long the beginning is looked at, once it has ended. */
static void giant_lines_are_cut(void **state)
{
    (void)state;
    static char giant[3 * STEP_LINE_SIZE];
    struct step_reader reader = {.size = 0};
    struct step_pattern *pattern = compile("step (\\d+)");
    memset(giant, 'x', sizeof giant);
    memcpy(giant, "step 1 ", 7);
    memcpy(giant + sizeof giant - 8, "step 2 \n", 8);
    for (size_t at = 0; at < sizeof giant; at += 1000) {
        const size_t size = sizeof giant - at < 1000 ? sizeof giant - at : 1000;
        const uint64_t step = newest(&reader, pattern, giant + at, size);
        assert_int_equal(step, at + size == sizeof giant ? 1 : UINT64_MAX);
    }
    assert_int_equal(NEWEST("step 3\n"), 3);
    (void)step_pattern_free(pattern);
}

/* However the bytes are cut into pieces, the steps are the same. */
static void pieces_do_not_matter(void **state)
{
    (void)state;
    static char bytes[40000];
    struct step_pattern *pattern = compile("[s-z](\\d+)");
    struct prng prng;
    prng_seed(&prng, 11);
    for (unsigned round = 0; round < 50; round++) {
        struct step_reader whole = {.size = 0};
        struct step_reader pieces = {.size = 0};
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = "\n\r\0s1234567\xff"[prng_below(&prng, round % 2 == 0 ? 12 : 400) % 12];
        }
        assert_int_equal(step_reader_put(&whole, pattern, bytes, sizeof bytes), 0);
        for (size_t at = 0; at < sizeof bytes;) {
            size_t size = 1 + prng_below(&prng, 999);
            size = size < sizeof bytes - at ? size : sizeof bytes - at;
            assert_int_equal(step_reader_put(&pieces, pattern, bytes + at, size), 0);
            at += size;
        }
        assert_int_equal(whole.found, pieces.found);
        assert_int_equal(whole.step, pieces.step);
        assert_int_equal(whole.size, pieces.size);
    }
    (void)step_pattern_free(pattern);
}

/* ---- the helper ------------------------------------------------------------------------------ */

struct helper {
    char folder[64];
    char path[96];
    pid_t pid;
    FILE *said;
};

static struct helper begin(const char *pattern)
{
    struct helper helper = {.folder = "/tmp/ks-steps-XXXXXX"};
    int ends[2];
    char used[16];
    assert_non_null(mkdtemp(helper.folder));
    (void)text_format(helper.path, sizeof helper.path, "%s/rank-0.log", helper.folder);
    (void)text_format(used, sizeof used, "%d", (int)getsid(0));
    assert_int_equal(pipe(ends), 0);
    (void)fflush(stdout);
    helper.pid = fork();
    if (helper.pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        _exit(step_follow(helper.path, pattern, used));
    }
    (void)close(ends[1]);
    helper.said = fdopen(ends[0], "r");
    assert_non_null(helper.said);
    return helper;
}

static void print(const struct helper *helper, const char *bytes, size_t size)
{
    const int fd = open(helper->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(close(fd), 0);
}

/* Reads on until it says this step. */
static void wait_step(const struct helper *helper, uint64_t wanted)
{
    char line[128];
    char begin_of[32];
    (void)text_format(begin_of, sizeof begin_of, "step 0 %llu ", (unsigned long long)wanted);
    while (fgets(line, sizeof line, helper->said) != NULL) {
        if (strncmp(line, begin_of, strlen(begin_of)) == 0) {
            return;
        }
        if (strncmp(line, "step", 4) == 0) {
            fail_msg("%s instead of %s", line, begin_of);
        }
    }
    fail_msg("it ended before %s", begin_of);
}

static void end(struct helper *helper)
{
    int status = 0;
    (void)fclose(helper->said);
    (void)unlink(helper->path);
    (void)rmdir(helper->folder);
    assert_int_equal(waitpid(helper->pid, &status, 0), helper->pid); /* nobody listens: it ends */
    assert_true(WIFEXITED(status) || WTERMSIG(status) == SIGPIPE);
}

static void files_are_followed(void **state)
{
    (void)state;
    static char garbage[5 << 20];
    (void)alarm(WAIT_MS / 1000);
    struct helper helper = begin("step (\\d+)");
    print(&helper, "step 1\n", 7);
    wait_step(&helper, 1);
    print(&helper, "step 2\nste", 10);
    wait_step(&helper, 2);
    print(&helper, "p 3\n", 4);
    wait_step(&helper, 3);
    struct prng prng;
    prng_seed(&prng, 3);
    for (size_t i = 0; i < sizeof garbage; i++) {
        garbage[i] = (char)prng_next(&prng);
    }
    print(&helper, garbage, sizeof garbage); /* more than is read at a time */
    print(&helper, "\nstep 4\n", 8);
    wait_step(&helper, 4);
    assert_int_equal(truncate(helper.path, 0), 0);
    (void)poll(NULL, 0, 2 * FOLLOW_LOOK_MS); /* it has looked, and nothing tells of that */
    print(&helper, "step 5\n", 7);
    wait_step(&helper, 5);
    end(&helper);
    (void)alarm(0);
}

/* A file that nobody may open as it is: a link, and what is no file. */
static void links_are_not_followed(void **state)
{
    (void)state;
    (void)alarm(WAIT_MS / 1000);
    struct helper helper = begin("step (\\d+)");
    char other[128];
    (void)text_format(other, sizeof other, "%s/other", helper.folder);
    struct helper elsewhere = helper;
    (void)text_copy(elsewhere.path, sizeof elsewhere.path, other);
    print(&elsewhere, "step 1\n", 7);
    assert_int_equal(symlink(other, helper.path), 0);
    (void)poll(NULL, 0, 2 * FOLLOW_LOOK_MS);
    assert_int_equal(unlink(helper.path), 0);
    print(&helper, "step 2\n", 7);
    wait_step(&helper, 2); /* and never 1 */
    assert_int_equal(unlink(other), 0);
    end(&helper);
    (void)alarm(0);
}

/* An output that is not there: nothing is said, for who is silent has seen nothing. */
static void what_cannot_be_read_is_not_still(void **state)
{
    (void)state;
    struct helper helper = begin("step (\\d+)");
    struct pollfd said = {.fd = fileno(helper.said), .events = POLLIN};
    assert_int_equal(poll(&said, 1, FOLLOW_STILL_MS + 2 * FOLLOW_LOOK_MS), 0);
    print(&helper, "step 1\n", 7);
    wait_step(&helper, 1);
    assert_int_equal(poll(&said, 1, WAIT_MS), 1); /* and now `used`, or `still` */
    end(&helper);
}

static void bad_orders_are_refused(void **state)
{
    (void)state;
    char paths[8192] = "";
    for (unsigned i = 0; i < 17; i++) {
        (void)text_format(paths + strlen(paths), sizeof paths - strlen(paths), "/tmp/%u\n", i);
    }
    const int saved = dup(STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)fflush(stdout);
    const pid_t pid = fork(); /* it limits its own process */
    if (pid == 0) {
        (void)dup2(nowhere, STDOUT_FILENO);
        const bool good = step_follow(paths, "(\\d+)", "") == EINVAL &&
                          step_follow("/tmp/x", "\\d+", "") == EINVAL;
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(saved);
    (void)close(nowhere);
}

/* ---- processor time -------------------------------------------------------------------------- */

static void burn(uint64_t *used_ms, const char *whose, uint64_t least_ms)
{
    volatile uint64_t sum = 0;
    do {
        for (unsigned i = 0; i < 1000000; i++) {
            sum += i;
        }
        assert_int_equal(used_time_read(whose, used_ms), 0);
    } while (*used_ms < least_ms && sum > 0);
}

static void used_time_is_read(void **state)
{
    (void)state;
    uint64_t used = 0;
    char session[32];
    char two[48];
    (void)alarm(WAIT_MS / 1000);
    (void)text_format(session, sizeof session, "%d", (int)getsid(0));
    (void)text_format(two, sizeof two, "1999999999,%d", (int)getsid(0));
    assert_int_equal(used_time_read(session, &used), 0);
    burn(&used, two, used + 50);
    assert_int_equal(used_time_read("1999999999", &used), -ENOENT);
    assert_int_equal(used_time_read("", &used), -ENOENT);
    assert_int_equal(used_time_read("/nowhere", &used), -ENOENT);
    assert_int_equal(used_time_read("/proc/self", &used), -ENOENT); /* no cgroup */
    char folder[] = "/tmp/ks-cgroup-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    (void)text_format(path, sizeof path, "%s/cpu.stat", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "usage_usec 4711042\nuser_usec 1\n");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(used_time_read(folder, &used), 0);
    assert_int_equal(used, 4711);
    (void)unlink(path);
    (void)rmdir(folder);
    (void)alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_whole_lines_count),
        cmocka_unit_test(giant_lines_are_cut),
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(files_are_followed),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(what_cannot_be_read_is_not_still),
        cmocka_unit_test(bad_orders_are_refused),
        cmocka_unit_test(used_time_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
