/* fence_test.c: the site's program gets the name and the address and nothing of our environment;
 * one that cannot be started harms nobody. */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "controller/io/fence.h"
#include "proto/base/log.h"

static void write_program(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

struct ended {
    uint32_t count;
    uint32_t good;
    uint32_t node;
};

static void note(void *context, uint32_t node, bool ok)
{
    struct ended *ended = context;
    ended->count++;
    ended->good += ok ? 1 : 0;
    ended->node = node;
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
    (void)snprintf(text, sizeof(text), "#!/bin/sh\necho \"$1|$2|$#|$SECRET_OF_OURS\" >%s\nexit 3\n",
                   output);
    write_program(program, text);
    assert_int_equal(setenv("SECRET_OF_OURS", "leaked", 1), 0);
    log_init("test", LOG_ERROR);
    uv_loop_t uv;
    assert_int_equal(uv_loop_init(&uv), 0);
    struct fence *fence = fence_create(&uv, program, note, &ended);
    fence_node(fence, 7, "gpu-0007", "10.0.0.7");
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    char got[128] = "";
    int fd = open(output, O_RDONLY);
    assert_true(fd >= 0);
    assert_true(read(fd, got, sizeof(got) - 1) > 0);
    (void)close(fd);
    assert_string_equal(got, "gpu-0007|10.0.0.7|2|\n");
    assert_int_equal(ended.count, 1);
    assert_int_equal(ended.good, 0); /* it ended with 3 */
    assert_int_equal(ended.node, 7);
    write_program(program, "#!/bin/sh\nexit 0\n");
    fence_node(fence, 8, "gpu-0008", "10.0.0.8");
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(ended.count, 2);
    assert_int_equal(ended.good, 1);
    assert_int_equal(ended.node, 8);
    fence_close(fence);
    fence = fence_free(fence);
    assert_int_equal(uv_loop_close(&uv), 0);
    (void)unlink(output);
    (void)unlink(program);
    (void)rmdir(folder);
}

static void test_program_is_not_there(void **state)
{
    (void)state;
    struct ended ended = {0};
    log_init("test", LOG_ERROR);
    uv_loop_t uv;
    assert_int_equal(uv_loop_init(&uv), 0);
    struct fence *fence = fence_create(&uv, "/nonexistent/fence", note, &ended);
    fence_node(fence, 7, "gpu-0007", "10.0.0.7");
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(ended.count, 1);
    assert_int_equal(ended.good, 0);
    fence_close(fence);
    fence = fence_free(fence);
    assert_int_equal(uv_loop_close(&uv), 0);
}

static void test_all_get_their_turn(void **state)
{
    (void)state;
    struct ended ended = {0};
    log_init("test", LOG_ERROR);
    uv_loop_t uv;
    assert_int_equal(uv_loop_init(&uv), 0);
    struct fence *fence = fence_create(&uv, "/bin/true", note, &ended);
    for (int run = 0; run < 2 * FENCE_RUNS_MAX + 3; run++) {
        fence_node(fence, 7, "gpu-0007", "10.0.0.7");
    }
    assert_int_equal(uv_run(&uv, UV_RUN_DEFAULT), 0);
    assert_int_equal(ended.count, 2 * FENCE_RUNS_MAX + 3);
    assert_int_equal(ended.good, ended.count);
    fence_close(fence);
    fence = fence_free(fence);
    assert_int_equal(uv_loop_close(&uv), 0);
}

/* More than FENCE_RUNS_MAX at a time wait for their turn; at the end those that hang are killed. */
static void test_limit_and_end(void **state)
{
    (void)state;
    struct ended ended = {0};
    log_init("test", LOG_ERROR);
    uv_loop_t uv;
    assert_int_equal(uv_loop_init(&uv), 0);
    struct fence *fence =
        fence_create(&uv, "/bin/sh", note, &ended); /* `sh NODE ADDRESS`: fails at once */
    for (int run = 0; run < 2 * FENCE_RUNS_MAX; run++) {
        fence_node(fence, 7, "gpu-0007", "10.0.0.7");
    }
    assert_int_equal(fence_running(fence), FENCE_RUNS_MAX);
    fence_close(fence);
    (void)uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(fence_running(fence), 0);
    fence = fence_free(fence);
    assert_int_equal(uv_loop_close(&uv), 0); /* no handle is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_the_program),
        cmocka_unit_test(test_program_is_not_there),
        cmocka_unit_test(test_all_get_their_turn),
        cmocka_unit_test(test_limit_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
