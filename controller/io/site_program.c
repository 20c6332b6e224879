/* site_program.c: one struct run for each child: waiting -> spawned -> exited (or killed at its
 * deadline) -> all handles closed -> freed, and the next one of those that wait is spawned.
 *
 * Its output is read by lines while it runs, and once more when it has exited: what it started and
 * left behind may hold the pipe open for ever, and is not waited for. */
#include "controller/io/site_program.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { CHUNK_SIZE = 4096 };

/* The environment that it gets, one array a variable. */
enum variable { VAR_PATH, VAR_NODE, VAR_REPAIR, VAR_LANE, VAR_INCIDENT, VAR_REASON, VARS };

struct run {
    uv_process_t process;
    uv_timer_t timer;
    uv_pipe_t output;
    struct site_program *site;
    struct run *next;
    int handles;  /* still to be closed */
    bool spawned; /* process is a handle, whether or not it runs */
    bool late;    /* it was killed at its deadline */
    struct site_order order;
    uint32_t lines;
    size_t line_size;
    char line[TEXT_SIZE]; /* that is being read; what does not fit is dropped */
    char last[TEXT_SIZE]; /* the last one that was not empty */
    char chunk[CHUNK_SIZE];
};

struct site_program {
    uv_loop_t *uv;
    const char *word;
    char *program;
    uint32_t timeout_ms;
    site_ended *ended;
    void *context;
    struct run *runs;
    uint32_t run_count;
    struct run *waiting; /* oldest first */
    bool closed;
};

static void start(struct site_program *site, struct run *run);

struct site_program *site_program_create(uv_loop_t *uv, const char *word, const char *program,
                                         uint32_t timeout_ms, site_ended *ended, void *context)
{
    struct site_program *site = mem_alloc(1, sizeof(*site));
    site->uv = uv;
    site->word = word;
    site->program = mem_strdup(program);
    site->timeout_ms = timeout_ms;
    site->ended = ended;
    site->context = context;
    return site;
}

static void start_next(struct site_program *site)
{
    struct run *run = site->waiting;
    if (run != NULL && site->run_count < SITE_RUNS_MAX) {
        site->waiting = run->next;
        start(site, run);
    }
}

/* ---- what it prints ------------------------------------------------------------------------- */

/* For a log, a journal and an environment: nothing in it that a terminal or a reader of JSON would
 * stumble over. */
static void make_plain(char *line)
{
    text_mend(line);
    for (char *at = line; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        *at = byte < ' ' || byte == 0x7f ? '?' : *at;
    }
}

static void end_line(struct run *run)
{
    run->line[run->line_size] = '\0';
    const bool empty = run->line_size == 0;
    run->line_size = 0;
    if (empty) {
        return;
    }
    make_plain(run->line);
    (void)text_copy(run->last, sizeof(run->last), run->line); /* as large */
    if (run->lines < SITE_LINES_MAX) {
        log_line(LOG_INFO, "hook-says", run->line, "hook", run->site->word, "node", run->order.name,
                 NULL);
    } else if (run->lines == SITE_LINES_MAX) {
        log_line(LOG_INFO, "hook-says", "what it says further is not logged", "hook",
                 run->site->word, "node", run->order.name, NULL);
    }
    run->lines++;
}

static void take_output(struct run *run, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') {
            end_line(run);
        } else if (run->line_size + 1 < sizeof(run->line) && bytes[i] != '\r') {
            run->line[run->line_size] = bytes[i];
            run->line_size++;
        }
    }
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct run *run = handle->data;
    *buf = uv_buf_init(run->chunk, sizeof(run->chunk));
}

static void read_cb(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    struct run *run = stream->data;
    if (size > 0) {
        take_output(run, buf->base, (size_t)size);
    } else if (size < 0) {
        (void)uv_read_stop(stream); /* its end, or as good as that */
    }
}

/* What it had written by its exit; nobody waits for more. */
static void drain_output(struct run *run)
{
    uv_os_fd_t fd;
    if (uv_is_closing((uv_handle_t *)&run->output) ||
        uv_fileno((uv_handle_t *)&run->output, &fd) != 0) {
        return;
    }
    for (int turn = 0; turn < 64; turn++) { /* bounded: a child of its may write for ever */
        ssize_t size = read(fd, run->chunk, sizeof(run->chunk));
        if (size <= 0) {
            break;
        }
        take_output(run, run->chunk, (size_t)size);
    }
    end_line(run);
}

/* ---- its end -------------------------------------------------------------------------------- */

static void closed_cb(uv_handle_t *handle)
{
    struct run *run = handle->data;
    struct site_program *site = run->site;
    run->handles--;
    if (run->handles > 0) {
        return;
    }
    struct run **link = &site->runs;
    while (*link != run) {
        link = &(*link)->next;
    }
    *link = run->next;
    site->run_count--;
    (void)mem_free(run);
    start_next(site);
}

static void close_run(struct run *run, bool ok, const char *how)
{
    if (uv_is_closing((uv_handle_t *)&run->timer)) {
        return;
    }
    if (run->spawned) {
        uv_close((uv_handle_t *)&run->process, closed_cb);
    }
    uv_close((uv_handle_t *)&run->timer, closed_cb);
    uv_close((uv_handle_t *)&run->output, closed_cb);
    if (!run->site->closed) {
        struct site_end end = {.node = run->order.node, .order = run->order.order, .ok = ok};
        const bool said = run->last[0] != '\0';
        (void)text_sentence(end.text, sizeof(end.text), "%s%s%s", ok ? "" : how,
                            !ok && said ? ": " : "", run->last); /* cut when too long */
        run->site->ended(run->site->context, &end);
    }
}

/* Itself and what it has started, unless that made groups of its own. */
static void kill_run(struct run *run)
{
    if (run->process.pid > 0) {
        (void)kill(-run->process.pid, SIGKILL); /* gone already: exit_cb follows */
    }
}

static void exit_cb(uv_process_t *process, int64_t status, int signal)
{
    struct run *run = process->data;
    char text[64];
    const bool ok = status == 0 && signal == 0 && !run->late;
    (void)text_format(text, sizeof(text), "%s %d%s", signal != 0 ? "signal" : "exit",
                      signal != 0 ? signal : (int)status,
                      run->late ? ", not done in time" : ""); /* fits */
    drain_output(run);
    log_line(ok ? LOG_INFO : LOG_ERROR, "hook-ended", "the site's program has ended", "hook",
             run->site->word, "node", run->order.name, "status", text, NULL);
    close_run(run, ok, text);
}

static void timeout_cb(uv_timer_t *timer)
{
    struct run *run = timer->data;
    log_line(LOG_ERROR, "hook-timeout", "the site's program took too long and is killed", "hook",
             run->site->word, "node", run->order.name, NULL);
    run->late = true;
    kill_run(run);
}

/* ---- its start ------------------------------------------------------------------------------ */

/* Its environment, in memory that must live until it is spawned. */
struct variables {
    char text[VARS][TEXT_SIZE + 32];
    char *list[VARS + 1];
};

static void set_variables(const struct site_order *order, struct variables *variables)
{
    char repair[NAME_SIZE + 16];
    (void)text_format(repair, sizeof(repair), "%s-%" PRIu32, order->name, order->order); /* fits */
    const char *const values[VARS][2] = {
        [VAR_PATH] = {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        [VAR_NODE] = {"KEEPSTEP_NODE", order->name},
        [VAR_REPAIR] = {"KEEPSTEP_REPAIR", repair},
        [VAR_LANE] = {"KEEPSTEP_LANE", order->lane},
        [VAR_INCIDENT] = {"KEEPSTEP_INCIDENT", order->incident},
        [VAR_REASON] = {"KEEPSTEP_REASON", order->reason},
    };
    const int count = order->order != 0 ? VARS : VAR_NODE + 1;
    for (int i = 0; i < count; i++) {
        (void)text_format(variables->text[i], sizeof(variables->text[i]), "%s=%s", values[i][0],
                          values[i][1]); /* fits */
        make_plain(variables->text[i]);
        variables->list[i] = variables->text[i];
    }
    variables->list[count] = NULL;
}

/* What it writes comes to run->output; its own end of that pipe is closed here afterwards. */
static int spawn(struct site_program *site, struct run *run)
{
    struct variables variables;
    uv_file ends[2];
    int result = uv_pipe(ends, UV_NONBLOCK_PIPE, 0);
    if (result < 0) {
        return result;
    }
    CHECK(uv_pipe_open(&run->output, ends[0]) == 0);
    set_variables(&run->order, &variables);
    char *arguments[] = {site->program, run->order.name, run->order.address, NULL};
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = ends[1]},
        {.flags = UV_INHERIT_FD, .data.fd = ends[1]},
    };
    uv_process_options_t options = {
        .exit_cb = exit_cb,
        .file = site->program,
        .args = arguments,
        .env = variables.list,
        .stdio = stdio,
        .stdio_count = 3,
        .flags = UV_PROCESS_DETACHED,
    };
    run->spawned = true; /* uv_spawn() makes it a handle first */
    run->handles++;
    result = uv_spawn(site->uv, &run->process, &options);
    (void)close(ends[1]);
    return result;
}

static void start(struct site_program *site, struct run *run)
{
    run->handles = 2; /* and the process, once there is one */
    run->process.data = run;
    run->timer.data = run;
    run->output.data = run;
    run->next = site->runs;
    site->runs = run;
    site->run_count++;
    CHECK(uv_timer_init(site->uv, &run->timer) == 0);
    CHECK(uv_pipe_init(site->uv, &run->output, 0) == 0);
    int result = spawn(site, run);
    if (result < 0) {
        log_line(LOG_ERROR, "hook-failed", "the site's program cannot be started", "hook",
                 site->word, "node", run->order.name, "program", site->program, "error",
                 uv_strerror(result), NULL);
        close_run(run, false, uv_strerror(result));
        return;
    }
    CHECK(uv_timer_start(&run->timer, timeout_cb, site->timeout_ms, 0) == 0);
    (void)uv_read_start((uv_stream_t *)&run->output, alloc_cb, read_cb); /* else: at its end */
}

void site_program_start(struct site_program *site, const struct site_order *order)
{
    struct run *run = mem_alloc(1, sizeof(*run));
    run->site = site;
    run->order = *order;
    struct run **last = &site->waiting;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = run;
    start_next(site);
}

uint32_t site_program_running(const struct site_program *site)
{
    return site->run_count;
}

static void forget_waiting(struct site_program *site)
{
    while (site->waiting != NULL) {
        struct run *next = site->waiting->next;
        (void)mem_free(site->waiting);
        site->waiting = next;
    }
}

void site_program_close(struct site_program *site)
{
    if (site == NULL) {
        return;
    }
    site->closed = true;
    forget_waiting(site);
    for (struct run *run = site->runs; run != NULL; run = run->next) {
        kill_run(run);
        close_run(run, false, "");
    }
}

struct site_program *site_program_free(struct site_program *site)
{
    if (site == NULL) {
        return NULL;
    }
    (void)mem_free(site->program);
    return mem_free(site);
}
