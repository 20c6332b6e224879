/* site_program_test.c: the site's program gets the name and the address, what the repair is, and
 * nothing else of our environment; its last line comes back; one that hangs, floods, leaves children
 * behind or cannot be started harms nobody. */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "controller/io/site_program.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

static void write_program(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, 0700), 0);
    (void)close(fd);
}

struct ended {
    uint32_t count;
    uint32_t good;
    uint32_t node;
    struct site_end last;
};

static void note(void *context, const struct site_end *end)
{
    struct ended *ended = context;
    ended->count++;
    ended->good += end->ok ? 1 : 0;
    ended->node = end->node;
    ended->last = *end;
}

static struct site_program *create(uv_loop_t *uv, const char *program, uint32_t timeout_ms,
                                   struct ended *ended)
{
    log_init("test", LOG_ERROR + 1);
    assert_int_equal(uv_loop_init(uv), 0);
    return site_program_create(uv, "diag", program, timeout_ms, note, ended);
}

static void run_for(struct site_program *site, uint32_t node, const char *name, const char *address)
{
    struct site_order order = {.node = node};
    (void)snprintf(order.name, sizeof(order.name), "%s", name);
    (void)snprintf(order.address, sizeof(order.address), "%s", address);
    site_program_start(site, &order);
}

/* Runs this text of a shell once, as a repair, until nothing is left to be waited for. */
static struct site_end run_text(const char *text, uint32_t timeout_ms)
{
    struct ended ended = {0};
    char program[] = "/tmp/keepstep-site-XXXXXX";
    int fd = mkstemp(program);
    assert_true(fd >= 0);
    (void)close(fd);
    write_program(program, text);
    uv_loop_t uv;
    struct site_program *site = create(&uv, program, timeout_ms, &ended);
    struct site_order order = {.node = 7,
                               .order = 3,
                               .name = "gpu-0007",
                               .address = "10.0.0.7",
                               .lane = "gpu-reset",
                               .incident = "I-0042",
                               .reason = "xid 79\non GPU 3"};
    site_program_start(site, &order);
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(ended.count, 1);
    assert_int_equal(ended.last.node, 7);
    assert_int_equal(ended.last.order, 3);
    site_program_close(site);
    site = site_program_free(site);
    assert_int_equal(uv_loop_close(&uv), 0);
    (void)unlink(program);
    return ended.last;
}

static void test_what_a_repair_is_told(void **state)
{
    (void)state;
    struct site_end end = run_text("#!/bin/sh\n"
                                   "echo \"$KEEPSTEP_NODE|$KEEPSTEP_REPAIR|$KEEPSTEP_LANE|"
                                   "$KEEPSTEP_INCIDENT|$KEEPSTEP_REASON\"\n",
                                   60000);
    assert_true(end.ok);
    assert_string_equal(end.text, "gpu-0007|gpu-0007-3|gpu-reset|I-0042|xid 79?on GPU 3");
}

static void test_the_last_line_comes_back(void **state)
{
    (void)state;
    struct site_end end = run_text("#!/bin/sh\necho one\necho two >&2\necho\nexit 4\n", 60000);
    assert_false(end.ok);
    assert_string_equal(end.text, "exit 4: two");
    end = run_text("#!/bin/sh\nprintf 'no end of line'\n", 60000);
    assert_true(end.ok);
    assert_string_equal(end.text, "no end of line");
    end = run_text("#!/bin/sh\nprintf '\\033[31mr\\377d\\n'\n", 60000);
    assert_string_equal(end.text, "?[31mr?d");
    end = run_text("#!/bin/sh\nkill -9 $$\n", 60000);
    assert_false(end.ok);
    assert_string_equal(end.text, "signal 9");
}

/* Much more than a pipe holds, and a line without an end. */
static void test_floods_are_bounded(void **state)
{
    (void)state;
    struct site_end end =
        run_text("#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\necho\nyes | head -n 200000\n"
                 "echo done\n",
                 60000);
    assert_true(end.ok);
    assert_string_equal(end.text, "done");
}

static pid_t read_pid(const char *path)
{
    char text[32] = "";
    uint64_t pid = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    (void)fclose(file);
    text[strcspn(text, "\n")] = '\0';
    assert_int_equal(text_to_u64(text, INT32_MAX, &pid), 0);
    return (pid_t)pid;
}

/* It and what it has started are killed; what it leaves behind at its own end is not waited for. */
static void test_hangs_and_orphans(void **state)
{
    (void)state;
    char path[] = "/tmp/keepstep-pid-XXXXXX";
    char text[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)snprintf(text, sizeof(text), "#!/bin/sh\nsleep 300 &\necho $! >%s\necho waits\nwait\n",
                   path);
    struct site_end end = run_text(text, 300);
    assert_false(end.ok);
    assert_string_equal(end.text, "signal 9, not done in time: waits");
    for (int turn = 0; turn < 200 && kill(read_pid(path), 0) == 0; turn++) {
        (void)poll(NULL, 0, 10); /* its new parent has to take its end */
    }
    assert_int_equal(kill(read_pid(path), 0), -1);
    (void)snprintf(text, sizeof(text), "#!/bin/sh\nsleep 300 &\necho $! >%s\necho left it\n", path);
    end = run_text(text, 60000);
    assert_true(end.ok);
    assert_string_equal(end.text, "left it");
    (void)kill(read_pid(path), SIGKILL);
    (void)unlink(path);
}

static void test_runs_the_program(void **state)
{
    (void)state;
    struct ended ended = {0};
    char folder[] = "/tmp/keepstep-fence-XXXXXX";
    char program[64];
    char output[64];
    char text[256];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(program, sizeof(program), "%s/fence", folder);
    (void)snprintf(output, sizeof(output), "%s/out", folder);
    (void)snprintf(text, sizeof(text),
                   "#!/bin/sh\necho \"$1|$2|$#|$SECRET_OF_OURS|$KEEPSTEP_REPAIR\" >%s\n"
                   "exit 3\n",
                   output);
    write_program(program, text);
    assert_int_equal(setenv("SECRET_OF_OURS", "leaked", 1), 0);
    uv_loop_t uv;
    struct site_program *site = create(&uv, program, 60000, &ended);
    run_for(site, 7, "gpu-0007", "10.0.0.7");
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    char got[128] = "";
    int fd = open(output, O_RDONLY);
    assert_true(fd >= 0);
    assert_true(read(fd, got, sizeof(got) - 1) > 0);
    (void)close(fd);
    assert_string_equal(got, "gpu-0007|10.0.0.7|2||\n");
    assert_int_equal(ended.count, 1);
    assert_int_equal(ended.good, 0); /* it ended with 3 */
    assert_int_equal(ended.node, 7);
    write_program(program, "#!/bin/sh\nexit 0\n");
    run_for(site, 8, "gpu-0008", "10.0.0.8");
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(ended.count, 2);
    assert_int_equal(ended.good, 1);
    assert_int_equal(ended.node, 8);
    site_program_close(site);
    site = site_program_free(site);
    assert_int_equal(uv_loop_close(&uv), 0);
    (void)unlink(output);
    (void)unlink(program);
    (void)rmdir(folder);
}

static void test_program_is_not_there(void **state)
{
    (void)state;
    struct ended ended = {0};
    uv_loop_t uv;
    struct site_program *site = create(&uv, "/nonexistent/fence", 60000, &ended);
    run_for(site, 7, "gpu-0007", "10.0.0.7");
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(ended.count, 1);
    assert_int_equal(ended.good, 0);
    site_program_close(site);
    site = site_program_free(site);
    assert_int_equal(uv_loop_close(&uv), 0);
}

/* So many descriptors too few that its pipe cannot be made, or the process behind it: it has failed,
 * and the next one runs. */
static void test_no_descriptor_is_left(void **state)
{
    (void)state;
    for (rlim_t left = 0; left < 4; left += 2) {
        struct ended ended = {0};
        struct rlimit before;
        uv_loop_t uv;
        struct site_program *site = create(&uv, "/bin/true", 60000, &ended);
        const int next = dup(0);
        assert_true(next >= 0);
        (void)close(next);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        const struct rlimit none = {(rlim_t)next + left, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        run_for(site, 7, "gpu-0007", "10.0.0.7");
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
        assert_int_equal(ended.count, 1);
        assert_int_equal(ended.good, 0);
        assert_string_equal(ended.last.text, "too many open files");
        assert_int_equal(site_program_running(site), 0);
        run_for(site, 8, "gpu-0008", "10.0.0.8");
        assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
        assert_int_equal(ended.good, 1);
        site_program_close(site);
        site = site_program_free(site);
        assert_int_equal(uv_loop_close(&uv), 0);
    }
}

static void test_all_get_their_turn(void **state)
{
    (void)state;
    struct ended ended = {0};
    uv_loop_t uv;
    struct site_program *site = create(&uv, "/bin/true", 60000, &ended);
    for (int run = 0; run < 2 * SITE_RUNS_MAX + 3; run++) {
        run_for(site, 7, "gpu-0007", "10.0.0.7");
    }
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(ended.count, 2 * SITE_RUNS_MAX + 3);
    assert_int_equal(ended.good, ended.count);
    site_program_close(site);
    site = site_program_free(site);
    assert_int_equal(uv_loop_close(&uv), 0);
}

/* More than SITE_RUNS_MAX at a time wait for their turn; at the end those that hang are killed. */
static void test_limit_and_end(void **state)
{
    (void)state;
    struct ended ended = {0};
    uv_loop_t uv;
    struct site_program *site =
        create(&uv, "/bin/sh", 60000, &ended); /* `sh NODE ADDRESS`: fails at once */
    for (int run = 0; run < 2 * SITE_RUNS_MAX; run++) {
        run_for(site, 7, "gpu-0007", "10.0.0.7");
    }
    assert_int_equal(site_program_running(site), SITE_RUNS_MAX);
    site_program_close(site);
    (void)uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(site_program_running(site), 0);
    site = site_program_free(site);
    assert_int_equal(uv_loop_close(&uv), 0); /* no handle is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_the_program),
        cmocka_unit_test(test_what_a_repair_is_told),
        cmocka_unit_test(test_the_last_line_comes_back),
        cmocka_unit_test(test_floods_are_bounded),
        cmocka_unit_test(test_hangs_and_orphans),
        cmocka_unit_test(test_program_is_not_there),
        cmocka_unit_test(test_no_descriptor_is_left),
        cmocka_unit_test(test_all_get_their_turn),
        cmocka_unit_test(test_limit_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
