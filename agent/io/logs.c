/* logs.c: one object for each attempt whose ranks write to files of ours.
 *
 *   timer ──> pool: sizes of all files ──> one helper each for those that are too long ──> timer
 *
 * The sizes are read on the pool, since a disk may hang. An attempt that has ended is looked at once
 * more and dropped. A helper that fails is said once for its attempt and tried again. */
#include "agent/io/logs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/io/child.h"
#include "agent/io/helper.h"
#include "agent/io/output.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

struct watch;

struct file {
    struct watch *watch;
    uint32_t rank;     /* global */
    uint64_t size;     /* at the last look */
    uint64_t trim_at;  /* the size from which on it is too long */
    uint64_t trimming; /* its size when a helper was sent; 0: none is under way */
};

struct watch {
    struct watch *next;
    struct agent_logs *logs;
    uint32_t job;
    uint32_t attempt;
    uint32_t uid;
    uint32_t gid;
    uint64_t max;
    bool ended;  /* the next look is the last */
    bool last;   /* … and is under way, or has been */
    bool looked; /* … and has been */
    bool complained;
    uint32_t file_count;
    struct file files[RANKS_PER_NODE_MAX];
};

struct agent_logs {
    struct agent_io *io;
    struct watch *first; /* unchanged while a look is under way */
    struct watch *fresh; /* not looked at yet */
    struct child_set children;
    uv_timer_t timer;
    uv_work_t work;
    bool working;
    bool closed;
};

static void path_of(const struct file *file, char path[FOLDER_PATH_SIZE])
{
    char folder[FOLDER_PATH_SIZE];
    const struct watch *watch = file->watch;
    folder_log_path(watch->logs->io->options->state_dir, watch->job, watch->attempt, folder);
    (void)text_format(path, FOLDER_PATH_SIZE, "%s/rank-%u.log", folder, file->rank);
}

static struct watch *find_in(struct watch *watch, uint32_t job, uint32_t attempt)
{
    while (watch != NULL && (watch->job != job || watch->attempt != attempt)) {
        watch = watch->next;
    }
    return watch;
}

static struct watch *find(const struct agent_logs *logs, uint32_t job, uint32_t attempt)
{
    struct watch *watch = find_in(logs->first, job, attempt);
    return watch != NULL ? watch : find_in(logs->fresh, job, attempt);
}

/* ---- trimming -------------------------------------------------------------------------------------- */

static void complain(struct watch *watch, const char *path, const char *what)
{
    if (!watch->complained) {
        watch->complained = true;
        log_line(LOG_WARN, "log-not-trimmed", "an output is not kept as run.log_max asks", "path",
                 path, "error", what, NULL);
    }
}

/* "kept K D" or "cut K D" */
static bool read_answer(const struct child_result *result, bool *ret_cut, uint64_t *ret_kept,
                        uint64_t *ret_dropped)
{
    char words[3][24];
    if (result->timed_out || result->signal != 0 || result->exit_status != 0 ||
        sscanf(result->output, "%23s %23s %23s", words[0], words[1], words[2]) != 3) {
        return false;
    }
    *ret_cut = text_equal(words[0], "cut");
    return text_to_u64(words[1], UINT64_MAX, ret_kept) == 0 &&
           text_to_u64(words[2], UINT64_MAX, ret_dropped) == 0;
}

static void trimmed(void *context, const struct child_result *result)
{
    struct file *file = context;
    struct watch *watch = file->watch;
    char path[FOLDER_PATH_SIZE];
    bool cut = false;
    uint64_t kept = 0;
    uint64_t dropped = 0;
    path_of(file, path);
    if (!read_answer(result, &cut, &kept, &dropped)) {
        complain(watch, path, result->timed_out ? "the disk does not answer" : result->output);
        file->trim_at = file->trimming + watch->max / 8; /* not for ever, and not at each look */
    } else {
        const uint64_t room = kept < watch->max ? watch->max - kept : watch->max / 8;
        file->trim_at = kept + dropped + room;
    }
    if (cut) {
        complain(watch, path,
                 "its file system cannot punch holes: all behind the head is cut off each time");
    }
    file->trimming = 0;
}

static void trim(struct file *file)
{
    struct watch *watch = file->watch;
    char path[FOLDER_PATH_SIZE];
    path_of(file, path);
    const struct helper_task task = {
        .verb = "trim", .path = path, .number = watch->max, .uid = watch->uid, .gid = watch->gid};
    const int r = helper_start(watch->logs->io->loop, &watch->logs->children, &task, LOGS_TRIM_MS,
                               trimmed, file);
    if (r == 0) {
        file->trimming = file->size;
    } else {
        complain(watch, path, uv_strerror(r));
    }
}

/* ---- looking --------------------------------------------------------------------------------------- */

static void look_work(uv_work_t *work)
{
    struct agent_logs *logs = work->data;
    for (struct watch *watch = logs->first; watch != NULL; watch = watch->next) {
        for (uint32_t i = 0; i < watch->file_count; i++) {
            char path[FOLDER_PATH_SIZE];
            struct stat status;
            path_of(&watch->files[i], path);
            watch->files[i].size = lstat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
        }
    }
}

/* Drops what has ended and been looked at. */
static void sweep(struct agent_logs *logs)
{
    struct watch **at = &logs->first;
    while (*at != NULL) {
        struct watch *watch = *at;
        bool trimming = false;
        for (uint32_t i = 0; i < watch->file_count; i++) {
            trimming = trimming || watch->files[i].trimming != 0;
        }
        if (watch->looked && !trimming) {
            *at = watch->next;
            mem_free(watch);
        } else {
            at = &watch->next;
        }
    }
}

static void timer_cb(uv_timer_t *timer);

static void set_timer(struct agent_logs *logs, uint64_t ms)
{
    const int r = uv_timer_start(&logs->timer, timer_cb, ms, 0);
    CHECK(r == 0);
}

static void look_cb(uv_work_t *work, int status)
{
    struct agent_logs *logs = work->data;
    bool hurry = false;
    CHECK(status == 0); /* never cancelled */
    logs->working = false;
    for (struct watch *watch = logs->first; watch != NULL && !logs->closed; watch = watch->next) {
        for (uint32_t i = 0; i < watch->file_count; i++) {
            struct file *file = &watch->files[i];
            if (file->size > file->trim_at && file->trimming == 0) {
                hurry = true;
                trim(file);
            }
        }
        watch->looked = watch->last;
    }
    if (!logs->closed) {
        sweep(logs);
        if (logs->first != NULL || logs->fresh != NULL) {
            set_timer(logs, hurry ? LOGS_HURRY_MS : LOGS_LOOK_MS);
        }
    }
}

static void timer_cb(uv_timer_t *timer)
{
    struct agent_logs *logs = timer->data;
    if (!logs->working) {
        while (logs->fresh != NULL) {
            struct watch *watch = logs->fresh;
            logs->fresh = watch->next;
            watch->next = logs->first;
            logs->first = watch;
        }
        for (struct watch *watch = logs->first; watch != NULL; watch = watch->next) {
            watch->last = watch->ended;
        }
        logs->working = true;
        logs->work.data = logs;
        const int r = uv_queue_work(logs->io->loop, &logs->work, look_work, look_cb);
        CHECK(r == 0);
    }
}

/* ---- attempts -------------------------------------------------------------------------------------- */

/* Whether a rank writes where we made its file. */
static bool is_ours(const struct agent_logs *logs, uint32_t job, uint32_t attempt,
                    const char *output)
{
    char folder[FOLDER_PATH_SIZE];
    folder_log_path(logs->io->options->state_dir, job, attempt, folder);
    const size_t size = strlen(folder);
    return strncmp(output, folder, size) == 0 && output[size] == '/';
}

void logs_watch(struct agent_logs *logs, uint32_t job, uint32_t attempt,
                const struct folder_info *info)
{
    if (logs->closed || !info->launch_known || info->log_max < OUTPUT_LIMIT_LEAST ||
        find(logs, job, attempt) != NULL || !is_ours(logs, job, attempt, info->outputs[0])) {
        return;
    }
    struct watch *watch = mem_alloc(1, sizeof(*watch));
    watch->logs = logs;
    watch->job = job;
    watch->attempt = attempt;
    watch->uid = info->uid;
    watch->gid = info->gid;
    watch->max = info->log_max;
    watch->file_count =
        info->rank_count < RANKS_PER_NODE_MAX ? info->rank_count : (uint32_t)RANKS_PER_NODE_MAX;
    for (uint32_t i = 0; i < watch->file_count; i++) {
        watch->files[i] =
            (struct file){.watch = watch, .rank = info->first_rank + i, .trim_at = info->log_max};
    }
    watch->next = logs->fresh;
    logs->fresh = watch;
    if (!uv_is_active((uv_handle_t *)&logs->timer) && !logs->working) {
        set_timer(logs, LOGS_LOOK_MS);
    }
}

void logs_ended(struct agent_logs *logs, uint32_t job, uint32_t attempt)
{
    struct watch *watch = find(logs, job, attempt);
    if (watch != NULL) {
        watch->ended = true;
    }
}

/* ---- life ------------------------------------------------------------------------------------------ */

struct agent_logs *logs_create(struct agent_io *io)
{
    struct agent_logs *logs = mem_alloc(1, sizeof(*logs));
    char folder[FOLDER_PATH_SIZE];
    logs->io = io;
    const int r = uv_timer_init(io->loop, &logs->timer);
    CHECK(r == 0);
    logs->timer.data = logs;
    folders_logs_path(io->options->state_dir, folder);
    if (output_can_punch(folder) == 0) {
        log_line(
            LOG_WARN, "no-holes",
            "this file system cannot punch holes: an output that reaches run.log_max loses all "
            "behind its head each time",
            "path", folder, NULL);
    }
    return logs;
}

void logs_close(struct agent_logs *logs)
{
    logs->closed = true;
    children_close(&logs->children);
    uv_close((uv_handle_t *)&logs->timer, NULL);
}

static void free_list(struct watch *watch)
{
    while (watch != NULL) {
        struct watch *next = watch->next;
        mem_free(watch);
        watch = next;
    }
}

struct agent_logs *logs_free(struct agent_logs *logs)
{
    if (logs != NULL) {
        free_list(logs->first);
        free_list(logs->fresh);
    }
    return mem_free(logs);
}
