/* fence.c: one struct run for each child: spawned -> exited (or killed at its deadline) -> both
 * handles closed -> freed. */
#include "controller/io/fence.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/message.h"
#include "proto/base/text.h"

struct run {
    uv_process_t process;
    uv_timer_t timer;
    struct fence *fence;
    struct run *next;
    int handles; /* still to be closed */
    char node[NAME_SIZE];
};

struct fence {
    uv_loop_t *uv;
    char *program;
    struct run *runs;
    uint32_t run_count;
};

struct fence *fence_create(uv_loop_t *uv, const char *program)
{
    struct fence *fence = mem_alloc(1, sizeof(*fence));
    fence->uv = uv;
    fence->program = mem_strdup(program);
    return fence;
}

static void closed_cb(uv_handle_t *handle)
{
    struct run *run = handle->data;
    run->handles--;
    if (run->handles > 0) {
        return;
    }
    struct run **link = &run->fence->runs;
    while (*link != run) {
        link = &(*link)->next;
    }
    *link = run->next;
    run->fence->run_count--;
    (void)mem_free(run);
}

static void close_run(struct run *run)
{
    if (!uv_is_closing((uv_handle_t *)&run->process)) {
        uv_close((uv_handle_t *)&run->process, closed_cb);
        uv_close((uv_handle_t *)&run->timer, closed_cb);
    }
}

static void exit_cb(uv_process_t *process, int64_t status, int signal)
{
    struct run *run = process->data;
    char text[48];
    (void)text_format(text, sizeof(text), signal != 0 ? "signal %d" : "exit %d",
                      signal != 0 ? signal : (int)status); /* fits */
    log_line(status == 0 && signal == 0 ? LOG_INFO : LOG_ERROR, "fence-ended",
             "the fencing program has ended", "node", run->node, "status", text, NULL);
    close_run(run);
}

static void timeout_cb(uv_timer_t *timer)
{
    struct run *run = timer->data;
    log_line(LOG_ERROR, "fence-timeout", "the fencing program took too long and is killed", "node",
             run->node, NULL);
    (void)uv_process_kill(&run->process, SIGKILL); /* gone already: exit_cb follows */
}

void fence_node(struct fence *fence, const char *node, const char *address)
{
    if (fence->run_count >= FENCE_RUNS_MAX) {
        log_line(LOG_ERROR, "fence-busy", "too many fencing programs run, this one is not started",
                 "node", node, NULL);
        return;
    }
    struct run *run = mem_alloc(1, sizeof(*run));
    run->fence = fence;
    run->handles = 2;
    run->process.data = run;
    run->timer.data = run;
    (void)text_copy(run->node, sizeof(run->node), node); /* a node's name fits */
    run->next = fence->runs;
    fence->runs = run;
    fence->run_count++;
    char *arguments[] = {fence->program, run->node, (char *)(uintptr_t)address, NULL};
    char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char *environment[] = {path, NULL};
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
    };
    uv_process_options_t options = {
        .exit_cb = exit_cb,
        .file = fence->program,
        .args = arguments,
        .env = environment,
        .stdio = stdio,
        .stdio_count = 3,
    };
    CHECK(uv_timer_init(fence->uv, &run->timer) == 0);
    int result = uv_spawn(fence->uv, &run->process, &options);
    if (result < 0) {
        log_line(LOG_ERROR, "fence-failed", "the fencing program cannot be started", "node", node,
                 "program", fence->program, "error", uv_strerror(result), NULL);
        close_run(run);
        return;
    }
    CHECK(uv_timer_start(&run->timer, timeout_cb, FENCE_TIMEOUT_MS, 0) == 0);
}

uint32_t fence_running(const struct fence *fence)
{
    return fence->run_count;
}

void fence_close(struct fence *fence)
{
    for (struct run *run = fence != NULL ? fence->runs : NULL; run != NULL; run = run->next) {
        (void)uv_process_kill(&run->process, SIGKILL); /* gone already: fine */
        close_run(run);
    }
}

struct fence *fence_free(struct fence *fence)
{
    if (fence == NULL) {
        return NULL;
    }
    (void)mem_free(fence->program);
    return mem_free(fence);
}
