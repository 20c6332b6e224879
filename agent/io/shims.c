/* shims.c: one object for each attempt; see shims.h for its way. At most one thing is under way for
 * an attempt at a time (a look, a launch, a sweep, a removal); what is asked meanwhile is noted and
 * done when that ends, so no two of them can overtake each other. */
#include "agent/io/shims.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/io/child.h"
#include "agent/io/driver.h"
#include "agent/io/folders.h"
#include "agent/io/launch.h"
#include "agent/io/logs.h"
#include "agent/io/mailboxes.h"
#include "agent/io/orphans.h"
#include "agent/io/step_watch.h"
#include "agent/shim/shim.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    LOOK_AGAIN_MS = 100,    /* a shim that lives and does not accept yet */
    DISARM_MS = 500,        /* a shim that was begun elsewhere shows itself within this */
    FIRST_STATUS_MS = 2000, /* a scan does not wait longer for a stopped shim */
    SHIM_START_MS = 30000,
    SWEEP_MS = 10000,
    ORPHANS_MS = 2000, /* between looks at what lost its parent and cannot be watched */
    ORPHANS_WATCHED_MS = 30000,
    SCANS_MAX = 16,
    SHIM_OUTPUT_MAX = 4096,
    SWEEP_OUTPUT_MAX = 65536,
};

struct attempt {
    struct attempt *next;
    struct agent_shims *shims;
    uint32_t job;
    uint32_t attempt;
    /* under way */
    bool looking;
    bool launching;
    bool sweeping;
    bool removing;
    bool awaiting; /* connected, no status yet */
    /* asked for */
    bool look_wanted;
    bool sweep_wanted;
    bool forget_wanted;
    bool disarmed; /* and given time since */
    bool watched;  /* every orphaned rank that lives is: its end comes by itself */
    char launch_error[TEXT_SIZE];
    /* known */
    struct folder_info info;
    struct folder_info fresh; /* of the look under way */
    bool attach;              /* the next status is the first of this connection */
    int fd;                   /* of the shim's socket, -1 */
    uv_poll_t poll;
    bool polling;
    struct shim_buffer buffer;
    uv_timer_t timer;
    bool timer_looks;
    uv_work_t work;
    int handles; /* open, timer and poll */
    bool gone;   /* to be freed when its handles are closed */
};

struct scan {
    bool used;
    bool listing;
    uint32_t job;
    size_t count;
    struct folder_name names[FOLDERS_MAX];
    uv_work_t work;
    struct agent_shims *shims;
};

struct agent_shims {
    struct agent_io *io;
    struct attempt *first;
    struct child_set children;
    struct scan scans[SCANS_MAX];
    struct launcher *launcher;
    struct orphans *orphans;
    bool closed;
};

static void next_thing(struct attempt *a);
static void look(struct attempt *a);

static bool is_busy(const struct attempt *a)
{
    return a->looking || a->launching || a->sweeping || a->removing;
}

/* ---- events ----------------------------------------------------------------------------------------- */

static void tell(struct attempt *a, struct agent_event *event)
{
    event->job = a->job;
    event->attempt = a->attempt;
    driver_step(a->shims->io->driver, event);
}

static void fill_ranks(const struct shim_status *status, struct agent_shim_view *view)
{
    view->started = status->rank_count > 0;
    for (uint32_t i = 0; i < status->rank_count; i++) {
        const struct shim_rank_status *rank = &status->ranks[i];
        view->ranks[i].state =
            rank->state == SHIM_RANK_STARTING ? (uint8_t)RANK_RUNNING : rank->state;
        view->ranks[i].code = rank->code;
        view->ranks[i].end_sequence = rank->end_sequence;
        view->ranks[i].end_ms = rank->end_mono_ms;
        view->ranks[i].after_stop = rank->after_stop != 0;
        view->started = view->started && rank->state != SHIM_RANK_NONE;
        if (rank->state == SHIM_RANK_UNSTARTED && view->text[0] == '\0') {
            (void)text_format(view->text, sizeof(view->text),
                              "rank %u could not be started: %s: %s", rank->rank,
                              shim_stage_name(rank->stage), strerror(rank->code));
        }
    }
}

static bool has_end(const struct agent_shim_view *view)
{
    for (uint32_t i = 0; i < view->rank_count; i++) {
        if (view->ranks[i].state >= RANK_EXITED) {
            return true;
        }
    }
    return false;
}

static void tell_view(struct attempt *a, const struct shim_status *status, bool alive)
{
    struct agent_shim_view view = {.alive = alive,
                                   .attached = a->attach,
                                   .empty = status->empty != 0,
                                   .first_rank = a->info.first_rank,
                                   .rank_count = a->info.rank_count};
    if (!a->info.launch_known) { /* the launch file is gone: the records know the ranks */
        view.first_rank = status->rank_count > 0 ? status->ranks[0].rank : 0;
        view.rank_count = status->rank_count;
    }
    (void)text_copy(view.cluster_id, sizeof(view.cluster_id), a->info.cluster_id);
    (void)text_copy(view.job_name, sizeof(view.job_name), a->info.job_name);
    fill_ranks(status, &view);
    a->attach = false;
    if (has_end(&view)) {
        mailboxes_look(a->shims->io->mailboxes, a->job, a->attempt);
    }
    struct agent_event event = {.kind = AGENT_EVENT_SHIM, .shim = &view};
    tell(a, &event);
    mailboxes_open(a->shims->io->mailboxes, a->job, a->attempt, view.first_rank, view.rank_count);
    logs_watch(a->shims->io->logs, a->job, a->attempt, &a->info);
    steps_watch(a->shims->io->steps, a->job, a->attempt, &a->info, status);
    if (view.empty) {
        mailboxes_ended(a->shims->io->mailboxes, a->job, a->attempt);
        logs_ended(a->shims->io->logs, a->job, a->attempt);
        steps_ended(a->shims->io->steps, a->job, a->attempt);
    }
}

static void tell_orphans(struct attempt *a, uint32_t count, bool proven)
{
    struct agent_event event = {.kind = AGENT_EVENT_ORPHANS, .count = count, .ok = proven};
    a->sweep_wanted = false;
    tell(a, &event);
}

/* ---- scans ------------------------------------------------------------------------------------------ */

static bool scan_is_over(const struct agent_shims *shims, const struct scan *scan)
{
    for (const struct attempt *a = shims->first; a != NULL; a = a->next) {
        if (!a->gone && (scan->job == 0 || a->job == scan->job) &&
            (is_busy(a) || a->awaiting || a->look_wanted)) {
            return false;
        }
    }
    return !scan->listing;
}

static void check_scans(struct agent_shims *shims)
{
    for (size_t i = 0; i < SCANS_MAX; i++) {
        struct scan *scan = &shims->scans[i];
        if (scan->used && !shims->closed && scan_is_over(shims, scan)) {
            scan->used = false;
            struct agent_event event = {.kind = AGENT_EVENT_SCANNED, .job = scan->job};
            driver_step(shims->io->driver, &event);
        }
    }
}

/* ---- objects ---------------------------------------------------------------------------------------- */

static struct attempt *find(const struct agent_shims *shims, uint32_t job, uint32_t attempt)
{
    for (struct attempt *a = shims->first; a != NULL; a = a->next) {
        if (!a->gone && a->job == job && a->attempt == attempt) {
            return a;
        }
    }
    return NULL;
}

static struct attempt *find_or_make(struct agent_shims *shims, uint32_t job, uint32_t attempt)
{
    struct attempt *a = find(shims, job, attempt);
    if (a != NULL) {
        return a;
    }
    a = mem_alloc(1, sizeof(*a));
    a->shims = shims;
    a->job = job;
    a->attempt = attempt;
    a->fd = -1;
    const int r = uv_timer_init(shims->io->loop, &a->timer);
    CHECK(r == 0);
    a->timer.data = a;
    a->handles = 1;
    a->next = shims->first;
    shims->first = a;
    return a;
}

static void maybe_free(struct attempt *a)
{
    if (!a->gone || a->handles > 0 || is_busy(a)) {
        return;
    }
    struct attempt **at = &a->shims->first;
    while (*at != a) {
        at = &(*at)->next;
    }
    *at = a->next;
    mem_free(a);
}

static void timer_closed_cb(uv_handle_t *handle)
{
    struct attempt *a = handle->data;
    a->handles--;
    maybe_free(a);
}

static void poll_closed_cb(uv_handle_t *handle)
{
    struct attempt *a = handle->data;
    (void)close(a->fd); /* nothing to lose: the shim keeps what it was told */
    a->fd = -1;
    a->handles--;
    if (a->gone) {
        maybe_free(a);
    } else if (a->look_wanted) {
        next_thing(a);
    }
}

static void disconnect(struct attempt *a)
{
    if (a->polling) {
        a->polling = false;
        a->awaiting = false;
        uv_close((uv_handle_t *)&a->poll, poll_closed_cb);
    }
}

static void drop(struct attempt *a)
{
    if (!a->gone) {
        a->gone = true;
        disconnect(a);
        uv_close((uv_handle_t *)&a->timer, timer_closed_cb);
    }
}

/* ---- the connection ---------------------------------------------------------------------------------- */

static void timer_cb(uv_timer_t *timer)
{
    struct attempt *a = timer->data;
    if (a->timer_looks) {
        a->look_wanted = true;
        next_thing(a);
    } else {
        if (a->awaiting) { /* it lives, but says nothing: its records must do for now */
            const bool attach = a->attach;
            a->awaiting = false;
            tell_view(a, &a->info.status, true);
            a->attach = attach;
        }
        check_scans(a->shims);
    }
}

static void set_timer(struct attempt *a, uint64_t ms, bool looks)
{
    a->timer_looks = looks;
    const int r = uv_timer_start(&a->timer, timer_cb, ms, 0);
    CHECK(r == 0);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct attempt *a = poll->data;
    (void)status; /* an error shows at the read */
    (void)events;
    struct shim_status said;
    int r = 1;
    while (r == 1 && a->polling) {
        r = shim_receive(a->fd, &a->buffer, &said);
        if (r != 1) {
            break;
        }
        a->awaiting = false;
        if (said.error != 0) {
            log_line(LOG_ERROR, "shim-order-failed", "the shim could not record an order", "error",
                     strerror(-said.error), NULL);
        }
        if (said.job == a->job && said.attempt == a->attempt) {
            tell_view(a, &said, true);
        }
    }
    if (r < 0 && a->polling) { /* it ended, or it talks nonsense: its records say which */
        a->look_wanted = true;
        disconnect(a);
    }
    check_scans(a->shims);
}

static int open_folder(const struct attempt *a)
{
    char path[FOLDER_PATH_SIZE];
    folder_path(a->shims->io->options->state_dir, a->job, a->attempt, path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int connect_shim(struct attempt *a)
{
    const int dir_fd = open_folder(a);
    if (dir_fd < 0) {
        return dir_fd;
    }
    int fd = -1;
    int r = shim_connect(dir_fd, &fd);
    (void)close(dir_fd); /* opened for reading */
    if (r != 0) {
        return r;
    }
    r = uv_poll_init(a->shims->io->loop, &a->poll, fd);
    if (r != 0) {
        (void)close(fd); /* nothing was sent */
        return r;
    }
    a->fd = fd;
    a->poll.data = a;
    a->polling = true;
    a->handles++;
    a->attach = true;
    a->awaiting = true;
    memset(&a->buffer, 0, sizeof(a->buffer));
    r = uv_poll_start(&a->poll, UV_READABLE | UV_DISCONNECT, poll_cb);
    CHECK(r == 0);
    if (shim_send(fd, SHIM_SUBSCRIBE, 1) != 0) {
        a->look_wanted = true;
        disconnect(a);
        return 0;
    }
    set_timer(a, FIRST_STATUS_MS, false);
    return 0;
}

/* ---- sweeping ---------------------------------------------------------------------------------------- */

static uint32_t count_lines(const char *text)
{
    uint32_t count = 0;
    for (; *text != '\0'; text++) {
        count += *text == '\n';
    }
    return count;
}

static void swept(void *context, const struct child_result *result)
{
    struct attempt *a = context;
    a->sweeping = false;
    if (a->gone) {
        maybe_free(a);
        return;
    }
    const uint32_t lines = count_lines(result->output);
    if (result->timed_out) {
        tell_orphans(a, lines > 0 ? lines : 1, false);
    } else if (result->exit_status == SHIM_EXIT_OK && result->signal == 0) {
        tell_orphans(a, 0, true);
    } else if (result->exit_status == SHIM_EXIT_ALIVE) {
        tell_orphans(a, lines > 0 ? lines : 1, false);
    } else if (result->exit_status == SHIM_EXIT_RUNNING) {
        a->look_wanted = true;
    } else {
        tell_orphans(a, 0, false);
    }
    if (!a->sweep_wanted && result->exit_status != SHIM_EXIT_OK) {
        /* nobody else would say when the last of them ends */
        set_timer(a, lines > 0 && a->watched ? ORPHANS_WATCHED_MS : ORPHANS_MS, true);
    }
    next_thing(a);
}

static void sweep(struct attempt *a, bool kill_them)
{
    char path[FOLDER_PATH_SIZE];
    folder_path(a->shims->io->options->state_dir, a->job, a->attempt, path);
    const char *const argv[] = {a->shims->io->options->shim, "--dir", path, "--sweep",
                                kill_them ? "--kill" : NULL, NULL};
    const struct child_options options = {.argv = argv,
                                          .capture = 1,
                                          .output_max = SWEEP_OUTPUT_MAX,
                                          .deadline_ms = SWEEP_MS,
                                          .done = swept,
                                          .context = a};
    const int r = child_start(a->shims->io->loop, &a->shims->children, &options);
    if (r != 0) {
        log_line(LOG_ERROR, "sweep-failed", "leftover processes cannot be looked for, trying again",
                 "error", uv_strerror(r), NULL);
        tell_orphans(a, 0, false);
        return;
    }
    a->sweeping = true;
}

/* ---- looking ----------------------------------------------------------------------------------------- */

static void look_work(uv_work_t *work)
{
    struct attempt *a = work->data;
    folder_inspect(a->shims->io->options->state_dir, a->job, a->attempt, &a->fresh);
}

static void disarm_work(uv_work_t *work)
{
    struct attempt *a = work->data;
    folder_disarm(a->shims->io->options->state_dir, a->job, a->attempt);
}

static void disarm_cb(uv_work_t *work, int status)
{
    struct attempt *a = work->data;
    CHECK(status == 0); /* never cancelled */
    a->looking = false;
    a->disarmed = true;
    if (a->gone) {
        maybe_free(a);
        return;
    }
    set_timer(a, DISARM_MS, true);
}

static void queue(struct attempt *a, uv_work_cb function, uv_after_work_cb after)
{
    a->work.data = a;
    const int r = uv_queue_work(a->shims->io->loop, &a->work, function, after);
    CHECK(r == 0);
}

/* Nothing of it ever ran: so a failed launch is a refusal, and a stop is carried out by making a
 * launch impossible and looking once more. */
static void never_begun(struct attempt *a)
{
    if (a->launch_error[0] != '\0') {
        struct agent_event event = {.kind = AGENT_EVENT_LAUNCH_FAILED, .text = a->launch_error};
        tell(a, &event);
        a->launch_error[0] = '\0';
        a->sweep_wanted = false;
    } else if (a->sweep_wanted && (a->disarmed || !a->info.exists)) {
        tell_orphans(a, 0, true);
    } else if (a->sweep_wanted) {
        a->looking = true;
        queue(a, disarm_work, disarm_cb);
    }
}

static void lost(struct attempt *a)
{
    tell_view(a, &a->info.status, false);
    struct agent_event event = {.kind = AGENT_EVENT_SHIM_LOST};
    tell(a, &event);
    a->look_wanted = false; /* both events may have asked for this very sweep */
    a->watched = orphans_watch(a->shims->orphans, a->job, a->attempt, &a->info.status);
    sweep(a, a->sweep_wanted);
}

/* The end of a rank whose shim is gone. Seen to happen, it may have been the last of the attempt:
 * one look says so. */
static void orphan_has_ended(void *context, uint32_t job, uint32_t attempt, uint32_t local_rank,
                             bool seen)
{
    struct agent_shims *shims = context;
    struct attempt *a = find(shims, job, attempt);
    if (a == NULL) {
        return;
    }
    mailboxes_look(shims->io->mailboxes, job, attempt);
    struct agent_event event = {
        .kind = AGENT_EVENT_ORPHAN_ENDED, .local_rank = local_rank, .ok = seen};
    tell(a, &event);
    if (seen) {
        a->look_wanted = true;
        next_thing(a);
    }
}

static void looked_at(struct attempt *a)
{
    if (a->info.alive) {
        a->launch_error[0] = '\0';
        orphans_forget(a->shims->orphans, a->job, a->attempt);
        if (a->polling) {
            return; /* connected */
        }
        const int r = connect_shim(a);
        if (r != 0) { /* being born, dying, or stopped: its records are what is known */
            if (a->info.begun) {
                tell_view(a, &a->info.status, true);
            }
            set_timer(a, LOOK_AGAIN_MS, true);
        }
        a->sweep_wanted = false; /* the core says TERM or KILL once it is attached */
    } else if (a->info.empty) {
        a->sweep_wanted = false;
        a->launch_error[0] = '\0';
        tell_view(a, &a->info.status, false);
    } else if (a->info.begun) {
        a->launch_error[0] = '\0';
        lost(a);
    } else {
        never_begun(a);
    }
}

static void look_cb(uv_work_t *work, int status)
{
    struct attempt *a = work->data;
    CHECK(status == 0); /* never cancelled */
    a->looking = false;
    if (a->gone) {
        maybe_free(a);
        return;
    }
    a->info = a->fresh;
    looked_at(a);
    next_thing(a);
}

static void look(struct attempt *a)
{
    a->look_wanted = false;
    a->looking = true;
    queue(a, look_work, look_cb);
}

/* ---- removing ----------------------------------------------------------------------------------------- */

static void remove_work(uv_work_t *work)
{
    struct attempt *a = work->data;
    const struct agent_options *options = a->shims->io->options;
    folder_forget(options->state_dir, options->run_dir, a->job, a->attempt, AGENT_LOGS_KEPT);
}

static void remove_cb(uv_work_t *work, int status)
{
    struct attempt *a = work->data;
    struct agent_shims *shims = a->shims;
    CHECK(status == 0); /* never cancelled */
    a->removing = false;
    if (a->gone) {
        maybe_free(a);
    } else {
        drop(a);
    }
    check_scans(shims);
}

/* What was asked for while something else was under way. */
static void next_thing(struct attempt *a)
{
    struct agent_shims *shims = a->shims;
    if (!a->gone && !is_busy(a) && !shims->closed) {
        if (a->forget_wanted) {
            disconnect(a);
            orphans_forget(shims->orphans, a->job, a->attempt);
            a->removing = true;
            queue(a, remove_work, remove_cb);
        } else if (a->look_wanted && !(a->fd >= 0 && !a->polling)) {
            look(a); /* not while the old connection is still being closed */
        }
    }
    check_scans(shims);
}

/* ---- starting ------------------------------------------------------------------------------------------ */

/* The shim's starter has ended: whatever it said, the folder says what is true. */
static void started(void *context, const struct child_result *result)
{
    struct attempt *a = context;
    a->launching = false;
    if (a->gone) {
        maybe_free(a);
        return;
    }
    const bool fine =
        !result->timed_out && result->signal == 0 &&
        (result->exit_status == SHIM_EXIT_OK || result->exit_status == SHIM_EXIT_RUNNING ||
         result->exit_status == SHIM_EXIT_SPENT);
    if (!fine) {
        const int length = (int)strcspn(result->output, "\n");
        (void)text_sentence(a->launch_error, sizeof(a->launch_error),
                            "the ranks' parent did not start (exit %d, signal %d): %.*s",
                            (int)result->exit_status, result->signal, length, result->output);
    }
    a->look_wanted = true;
    next_thing(a);
}

static void run_shim(struct attempt *a)
{
    char path[FOLDER_PATH_SIZE];
    folder_path(a->shims->io->options->state_dir, a->job, a->attempt, path);
    const char *const argv[] = {a->shims->io->options->shim, "--dir", path, NULL};
    const struct child_options options = {.argv = argv,
                                          .capture = 2,
                                          .output_max = SHIM_OUTPUT_MAX,
                                          .deadline_ms = SHIM_START_MS,
                                          .survives = true,
                                          .done = started,
                                          .context = a};
    const int r = child_start(a->shims->io->loop, &a->shims->children, &options);
    if (r != 0) {
        a->launching = false;
        (void)text_format(a->launch_error, sizeof(a->launch_error), "%s cannot be run: %s",
                          a->shims->io->options->shim, uv_strerror(r));
        a->look_wanted = true;
        next_thing(a);
    }
}

static void prepared(void *context, int result, const char *text)
{
    struct attempt *a = context;
    if (a->gone) {
        a->launching = false;
        maybe_free(a);
        return;
    }
    if (result != 0) {
        a->launching = false;
        (void)text_copy(a->launch_error, sizeof(a->launch_error), text);
        a->look_wanted = true;
        next_thing(a);
        return;
    }
    run_shim(a);
}

void shims_start(struct agent_shims *shims, const struct msg_desired *order)
{
    struct attempt *a = find_or_make(shims, order->job, order->attempt);
    if (a->launching || a->removing || shims->closed) {
        return;
    }
    a->launching = true;
    launcher_prepare(shims->launcher, order, prepared, a);
}

/* ---- orders --------------------------------------------------------------------------------------------- */

static void order(struct agent_shims *shims, uint32_t job, uint32_t attempt, uint32_t op)
{
    struct attempt *a = find(shims, job, attempt);
    if (a != NULL && a->polling && shim_send(a->fd, op, op) != 0) {
        log_line(LOG_WARN, "shim-order-failed", "the shim does not take an order, trying again",
                 NULL);
    }
}

void shims_term(struct agent_shims *shims, uint32_t job, uint32_t attempt)
{
    order(shims, job, attempt, SHIM_TERM);
}

void shims_kill(struct agent_shims *shims, uint32_t job, uint32_t attempt)
{
    order(shims, job, attempt, SHIM_KILL);
}

static void look_later_cb(void *context)
{
    struct agent_shims *shims = context;
    struct attempt *next = NULL;
    for (struct attempt *a = shims->first; a != NULL; a = next) {
        next = a->next;
        next_thing(a);
    }
}

void shims_sweep(struct agent_shims *shims, uint32_t job, uint32_t attempt)
{
    struct attempt *a = find_or_make(shims, job, attempt);
    a->sweep_wanted = true;
    a->look_wanted = true;
    driver_defer(shims->io->driver, look_later_cb, shims);
}

void shims_forget(struct agent_shims *shims, uint32_t job, uint32_t attempt)
{
    struct attempt *a = find_or_make(shims, job, attempt);
    a->forget_wanted = true;
    mailboxes_forget(shims->io->mailboxes, job, attempt);
    logs_ended(shims->io->logs, job, attempt);
    steps_ended(shims->io->steps, job, attempt);
    driver_defer(shims->io->driver, look_later_cb, shims);
}

static void list_work(uv_work_t *work)
{
    struct scan *scan = work->data;
    scan->count = folders_list(scan->shims->io->options->state_dir, scan->job, scan->names);
}

static void list_cb(uv_work_t *work, int status)
{
    struct scan *scan = work->data;
    struct agent_shims *shims = scan->shims;
    CHECK(status == 0); /* never cancelled */
    scan->listing = false;
    if (shims->closed) {
        return;
    }
    for (size_t i = 0; i < scan->count; i++) {
        struct attempt *a = find_or_make(shims, scan->names[i].job, scan->names[i].attempt);
        if (!a->polling && !is_busy(a) && !a->info.empty) { /* what is over stays over */
            a->look_wanted = true;
        }
    }
    look_later_cb(shims);
    check_scans(shims);
}

void shims_scan(struct agent_shims *shims, uint32_t job)
{
    for (size_t i = 0; i < SCANS_MAX; i++) {
        struct scan *scan = &shims->scans[i];
        if (!scan->used && !scan->listing) {
            scan->used = true;
            scan->listing = true;
            scan->job = job;
            scan->shims = shims;
            scan->work.data = scan;
            const int r = uv_queue_work(shims->io->loop, &scan->work, list_work, list_cb);
            CHECK(r == 0);
            return;
        }
    }
    log_line(LOG_WARN, "scan-busy", "too many looks at this node are under way, trying again",
             NULL);
}

/* ---- life ------------------------------------------------------------------------------------------------ */

struct agent_shims *shims_create(struct agent_io *io)
{
    struct agent_shims *shims = mem_alloc(1, sizeof(*shims));
    shims->io = io;
    shims->launcher = launcher_create(io, &shims->children);
    shims->orphans = orphans_create(io, orphan_has_ended, shims);
    return shims;
}

void shims_close(struct agent_shims *shims)
{
    shims->closed = true;
    children_close(&shims->children);
    orphans_close(shims->orphans);
    for (struct attempt *a = shims->first; a != NULL; a = a->next) {
        a->sweeping = false; /* no child calls back any more */
        a->launching = a->launching && launcher_is_busy(shims->launcher, a);
        drop(a);
    }
}

struct agent_shims *shims_free(struct agent_shims *shims)
{
    if (shims == NULL) {
        return NULL;
    }
    CHECK(shims->first == NULL);
    (void)launcher_free(shims->launcher);
    (void)orphans_free(shims->orphans);
    return mem_free(shims);
}
