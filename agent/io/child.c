/* child.c: a process, a pipe and a timer, freed together. The process's end counts, not the pipe's:
 * a program that leaves a daemon behind (the shim does) leaves the pipe open with it. */
#include "agent/io/child.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"

enum { CHILD_HANDLES = 3, CHILD_READ_SIZE = 4096 };

struct child {
    struct child *next;
    struct child_set *set;
    uv_process_t process;
    uv_pipe_t pipe;
    uv_timer_t timer;
    int open_handles;
    bool exited;
    bool survives;
    bool group;
    bool cut;
    uint64_t patience_ms; /* 0: the deadline is fixed */
    child_line *line;
    child_done *done; /* NULL: told, or given up */
    void *context;
    struct buf output;
    char bytes[CHILD_READ_SIZE];
};

static void unlink_child(struct child *child)
{
    struct child **at = &child->set->first;
    while (*at != child) {
        at = &(*at)->next;
    }
    *at = child->next;
    child->set->count--;
}

static void closed_cb(uv_handle_t *handle)
{
    struct child *child = handle->data;
    child->open_handles--;
    if (child->open_handles == 0) {
        unlink_child(child);
        buf_done(&child->output);
        mem_free(child);
    }
}

static void close_all(struct child *child)
{
    uv_handle_t *handles[CHILD_HANDLES] = {
        (uv_handle_t *)&child->process, (uv_handle_t *)&child->pipe, (uv_handle_t *)&child->timer};
    for (int i = 0; i < CHILD_HANDLES; i++) {
        if (!uv_is_closing(handles[i])) {
            uv_close(handles[i], closed_cb);
        }
    }
}

/* Hands on the whole lines that have gathered. */
static void take_lines(struct child *child)
{
    char *text = (char *)child->output.data;
    size_t used = 0;
    const char *end = NULL;
    while (child->output.size > used &&
           (end = memchr(text + used, '\n', child->output.size - used)) != NULL) {
        const size_t size = (size_t)(end - text) - used;
        text[used + size] = '\0';
        if (child->done != NULL) {
            child->line(child->context, text + used, size);
        }
        used += size + 1;
    }
    buf_consume(&child->output, used);
}

/* The last line of a program that ended without a newline behind it. */
static void take_rest(struct child *child)
{
    if (child->line != NULL && child->done != NULL && !child->cut && child->output.size > 0) {
        child->line(child->context, buf_text(&child->output), child->output.size);
        buf_clear(&child->output);
    }
}

static void put_output(struct child *child, const char *data, size_t size)
{
    const size_t room = child->output.size_max - child->output.size;
    if (size > room) {
        child->cut = true;
        size = room;
    }
    const int r = buf_put(&child->output, data, size);
    CHECK(r == 0);
    if (child->line != NULL) {
        take_lines(child);
    }
}

static void end_process(struct child *child)
{
    if (child->group && child->process.pid > 0) {
        (void)kill(-child->process.pid, SIGKILL); /* gone already: good */
    }
    (void)uv_process_kill(&child->process, SIGKILL); /* the same */
}

static void tell(struct child *child, bool timed_out, int64_t status, int term_signal)
{
    child_done *done = child->done;
    child->done = NULL;
    if (done == NULL) {
        return;
    }
    const struct child_result result = {.timed_out = timed_out,
                                        .exit_status = status,
                                        .signal = term_signal,
                                        .output = buf_text(&child->output),
                                        .output_size = child->output.size,
                                        .output_cut = child->cut};
    done(child->context, &result);
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct child *child = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(child->bytes, sizeof(child->bytes));
}

static void deadline_cb(uv_timer_t *timer);

static void read_cb(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct child *child = stream->data;
    if (count > 0) {
        put_output(child, buffer->base, (size_t)count);
        if (child->patience_ms > 0 && !uv_is_closing((uv_handle_t *)&child->timer)) {
            const int r = uv_timer_start(&child->timer, deadline_cb, child->patience_ms, 0);
            CHECK(r == 0);
        }
    } else if (count < 0) {
        (void)uv_read_stop(stream); /* its end, or an error: the exit says the rest */
    }
}

/* What is still in the pipe when the process has ended; no more: whoever holds its other end as well
 * may go on writing for ever. */
static void drain(struct child *child)
{
    uv_os_fd_t fd = -1;
    int left = 0;
    if (uv_is_closing((uv_handle_t *)&child->pipe) ||
        uv_fileno((uv_handle_t *)&child->pipe, &fd) != 0 || ioctl(fd, FIONREAD, &left) != 0) {
        return;
    }
    while (left > 0 && !child->cut) {
        const size_t wanted =
            (size_t)left < sizeof(child->bytes) ? (size_t)left : sizeof(child->bytes);
        const ssize_t count = read(fd, child->bytes, wanted);
        if (count <= 0) {
            break;
        }
        put_output(child, child->bytes, (size_t)count);
        left -= (int)count;
    }
}

static void exit_cb(uv_process_t *process, int64_t status, int term_signal)
{
    struct child *child = process->data;
    child->exited = true;
    drain(child);
    take_rest(child);
    close_all(child);
    tell(child, false, status, term_signal);
}

static void deadline_cb(uv_timer_t *timer)
{
    struct child *child = timer->data;
    if (!child->survives) {
        end_process(child); /* gone already: exit_cb comes */
    }
    uv_close((uv_handle_t *)&child->timer, closed_cb);
    tell(child, true, -1, 0);
}

static int spawn(uv_loop_t *loop, struct child *child, const struct child_options *options)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_INHERIT_FD, .data.fd = 2}};
    CHECK(options->capture == 1 || options->capture == 2);
    stdio[options->capture].flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE;
    stdio[options->capture].data.stream = (uv_stream_t *)&child->pipe;
    const uv_process_options_t process_options = {
        .flags = options->group ? UV_PROCESS_DETACHED : 0,
        .exit_cb = exit_cb,
        .file = options->argv[0],
        .args = (char **)(uintptr_t)options->argv, /* libuv does not write to them */
        .stdio_count = 3,
        .stdio = stdio,
    };
    return uv_spawn(loop, &child->process, &process_options);
}

int child_start(uv_loop_t *loop, struct child_set *set, const struct child_options *options)
{
    if (set->count >= CHILDREN_MAX) {
        return -EAGAIN;
    }
    struct child *child = mem_alloc(1, sizeof(*child));
    child->set = set;
    child->next = set->first;
    child->survives = options->survives;
    child->group = options->group;
    child->patience_ms = options->patient ? options->deadline_ms : 0;
    child->line = options->line;
    set->first = child;
    set->count++;
    buf_init(&child->output, options->output_max);
    child->open_handles = CHILD_HANDLES;
    child->process.data = child;
    child->pipe.data = child;
    child->timer.data = child;
    int r = uv_pipe_init(loop, &child->pipe, 0);
    CHECK(r == 0);
    r = uv_timer_init(loop, &child->timer);
    CHECK(r == 0);
    r = spawn(loop, child, options);
    if (r != 0) {
        close_all(child); /* uv_spawn initialises the handle even when it fails */
        return r;
    }
    child->done = options->done;
    child->context = options->context;
    r = uv_read_start((uv_stream_t *)&child->pipe, alloc_cb, read_cb);
    CHECK(r == 0);
    r = uv_timer_start(&child->timer, deadline_cb, options->deadline_ms, 0);
    CHECK(r == 0);
    return 0;
}

void child_cancel(struct child_set *set, const void *context)
{
    for (struct child *child = set->first; child != NULL; child = child->next) {
        if (child->done != NULL && child->context == context) {
            child->done = NULL;
            end_process(child); /* exit_cb closes the rest */
        }
    }
}

bool child_lives(const struct child_set *set, const void *context)
{
    for (const struct child *child = set->first; child != NULL; child = child->next) {
        if (child->context == context && !child->exited) {
            return true;
        }
    }
    return false;
}

void children_close(struct child_set *set)
{
    for (struct child *child = set->first; child != NULL; child = child->next) {
        child->done = NULL;
        if (!child->exited && !child->survives && uv_is_active((uv_handle_t *)&child->process)) {
            end_process(child);
        }
        close_all(child);
    }
}
