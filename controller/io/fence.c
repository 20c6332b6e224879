/* fence.c: one struct run for each child: waiting -> spawned -> exited (or killed at its deadline)
 * -> both handles closed -> freed, and the next one of those that wait is spawned. */
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
    uint32_t node;
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
};

struct fence {
    uv_loop_t *uv;
    char *program;
    fence_ended *ended;
    void *context;
    struct run *runs;
    uint32_t run_count;
    struct run *waiting; /* oldest first */
    bool closed;
};

static void start(struct fence *fence, struct run *run);

struct fence *fence_create(uv_loop_t *uv, const char *program, fence_ended *ended, void *context)
{
    struct fence *fence = mem_alloc(1, sizeof(*fence));
    fence->uv = uv;
    fence->program = mem_strdup(program);
    fence->ended = ended;
    fence->context = context;
    return fence;
}

static void start_next(struct fence *fence)
{
    struct run *run = fence->waiting;
    if (run != NULL && fence->run_count < FENCE_RUNS_MAX) {
        fence->waiting = run->next;
        start(fence, run);
    }
}

static void closed_cb(uv_handle_t *handle)
{
    struct run *run = handle->data;
    struct fence *fence = run->fence;
    run->handles--;
    if (run->handles > 0) {
        return;
    }
    struct run **link = &fence->runs;
    while (*link != run) {
        link = &(*link)->next;
    }
    *link = run->next;
    fence->run_count--;
    (void)mem_free(run);
    start_next(fence);
}

static void close_run(struct run *run, bool ok)
{
    if (uv_is_closing((uv_handle_t *)&run->process)) {
        return;
    }
    uv_close((uv_handle_t *)&run->process, closed_cb);
    uv_close((uv_handle_t *)&run->timer, closed_cb);
    if (!run->fence->closed) {
        run->fence->ended(run->fence->context, run->node, ok);
    }
}

static void exit_cb(uv_process_t *process, int64_t status, int signal)
{
    struct run *run = process->data;
    char text[48];
    bool ok = status == 0 && signal == 0;
    (void)text_format(text, sizeof(text), signal != 0 ? "signal %d" : "exit %d",
                      signal != 0 ? signal : (int)status); /* fits */
    log_line(ok ? LOG_INFO : LOG_ERROR, "fence-ended", "the fencing program has ended", "node",
             run->name, "status", text, NULL);
    close_run(run, ok);
}

static void timeout_cb(uv_timer_t *timer)
{
    struct run *run = timer->data;
    log_line(LOG_ERROR, "fence-timeout", "the fencing program took too long and is killed", "node",
             run->name, NULL);
    (void)uv_process_kill(&run->process, SIGKILL); /* gone already: exit_cb follows */
}

static void start(struct fence *fence, struct run *run)
{
    run->handles = 2;
    run->process.data = run;
    run->timer.data = run;
    run->next = fence->runs;
    fence->runs = run;
    fence->run_count++;
    char *arguments[] = {fence->program, run->name, run->address, NULL};
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
        log_line(LOG_ERROR, "fence-failed", "the fencing program cannot be started", "node",
                 run->name, "program", fence->program, "error", uv_strerror(result), NULL);
        close_run(run, false);
        return;
    }
    CHECK(uv_timer_start(&run->timer, timeout_cb, FENCE_TIMEOUT_MS, 0) == 0);
}

void fence_node(struct fence *fence, uint32_t node, const char *name, const char *address)
{
    struct run *run = mem_alloc(1, sizeof(*run));
    run->fence = fence;
    run->node = node;
    (void)text_copy(run->name, sizeof(run->name), name); /* both fit */
    (void)text_copy(run->address, sizeof(run->address), address);
    struct run **last = &fence->waiting;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = run;
    start_next(fence);
}

uint32_t fence_running(const struct fence *fence)
{
    return fence->run_count;
}

static void forget_waiting(struct fence *fence)
{
    while (fence->waiting != NULL) {
        struct run *next = fence->waiting->next;
        (void)mem_free(fence->waiting);
        fence->waiting = next;
    }
}

void fence_close(struct fence *fence)
{
    if (fence == NULL) {
        return;
    }
    fence->closed = true;
    forget_waiting(fence);
    for (struct run *run = fence->runs; run != NULL; run = run->next) {
        (void)uv_process_kill(&run->process, SIGKILL); /* gone already: fine */
        close_run(run, false);
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
