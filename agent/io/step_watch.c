/* step_watch.c: one object for each attempt with a pattern; see step_watch.h. */
#include "agent/io/step_watch.h"

#include <stdio.h>
#include <string.h>

#include "agent/io/child.h"
#include "agent/io/driver.h"
#include "agent/io/helper.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum {
    TIMES_MAX = 32, /* of the newest steps, for their median */
    PATHS_SIZE = RANKS_PER_NODE_MAX * (2 * PATH_SIZE),
    USED_SIZE = FOLDER_PATH_SIZE,
};

struct printer {
    bool known;
    uint64_t step;
    uint64_t at_ms;
    uint32_t time_count;
    uint32_t time_next;
    uint32_t times[TIMES_MAX]; /* ms a step */
};

struct watch {
    struct watch *next;
    struct agent_steps *steps;
    uint32_t job;
    uint32_t attempt;
    uint32_t uid;
    uint32_t gid;
    bool alone;
    bool running;
    bool complained;
    uint64_t start_ms; /* when to start it again */
    uint64_t again_ms; /* … and by how much later the next time */
    uint32_t rank_count;
    char pattern[STEP_PATTERN_SIZE];
    char used[USED_SIZE];
    char paths[PATHS_SIZE];
    struct printer printers[RANKS_PER_NODE_MAX];
};

struct agent_steps {
    struct agent_io *io;
    struct watch *first;
    struct child_set children;
    uv_timer_t timer;
    bool closed;
};

/* ---- what the helper says -------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b, const void *context)
{
    const uint32_t first = *(const uint32_t *)a;
    const uint32_t second = *(const uint32_t *)b;
    (void)context;
    return first < second ? -1 : first > second;
}

static uint32_t median(const struct printer *printer)
{
    uint32_t sorted[TIMES_MAX];
    if (printer->time_count == 0) {
        return 0;
    }
    memcpy(sorted, printer->times, printer->time_count * sizeof(sorted[0]));
    sort_u32(sorted, printer->time_count, by_size, NULL);
    return sorted[printer->time_count / 2];
}

/* Of what was read at the helper's start nobody knows how long it took. */
static void take_time(struct printer *printer, uint64_t step, uint64_t now)
{
    if (!printer->known || step <= printer->step || now <= printer->at_ms) {
        return;
    }
    const uint64_t each = (now - printer->at_ms) / (step - printer->step);
    printer->times[printer->time_next] = each < UINT32_MAX ? (uint32_t)each : UINT32_MAX;
    printer->time_next = (printer->time_next + 1) % TIMES_MAX;
    printer->time_count += printer->time_count < TIMES_MAX;
}

/* The event comes last in both: it may end the watch. */
static void take_step(struct watch *watch, uint64_t rank, uint64_t step, uint64_t age_ms)
{
    struct printer *printer = &watch->printers[rank];
    const uint64_t now = agent_io_now_ms();
    const uint64_t at_ms = age_ms < now ? now - age_ms : 0;
    if (printer->known && printer->step == step) {
        return; /* said again by a helper that was started again */
    }
    take_time(printer, step, at_ms);
    printer->known = true;
    printer->step = step;
    printer->at_ms = at_ms;
    watch->again_ms = STEPS_AGAIN_MS;
    const struct agent_printed printed = {.local_rank = (uint32_t)rank,
                                          .alone = watch->alone,
                                          .step = step,
                                          .changed_ms = at_ms,
                                          .step_ms = median(printer)};
    struct agent_event event = {.kind = AGENT_EVENT_PRINTED,
                                .job = watch->job,
                                .attempt = watch->attempt,
                                .printed = &printed};
    driver_step(watch->steps->io->driver, &event);
}

static void take_used(struct watch *watch, uint64_t used_ms)
{
    struct agent_event event = {.kind = AGENT_EVENT_READING,
                                .job = watch->job,
                                .attempt = watch->attempt,
                                .used_ms = used_ms};
    driver_step(watch->steps->io->driver, &event);
}

static void line_cb(void *context, const char *line, size_t size)
{
    struct watch *watch = context;
    char words[4][24] = {"", "", "", ""};
    uint64_t numbers[3] = {0, 0, 0};
    (void)size;
    const int count = sscanf(line, "%23s %23s %23s %23s", words[0], words[1], words[2], words[3]);
    for (int i = 1; i < count; i++) {
        if (text_to_u64(words[i], INT64_MAX, &numbers[i - 1]) != 0) {
            return;
        }
    }
    if (count == 4 && text_equal(words[0], "step") && numbers[0] < watch->rank_count) {
        take_step(watch, numbers[0], numbers[1], numbers[2]);
    } else if (count == 2 && text_equal(words[0], "used")) {
        take_used(watch, numbers[0]);
    } else if (count == 1 && text_equal(words[0], "still")) {
        take_used(watch, 0);
    }
}

/* ---- the helper ------------------------------------------------------------------------------------ */

static void complain(struct watch *watch, const char *what)
{
    char job[24];
    if (watch->complained) {
        return;
    }
    watch->complained = true;
    (void)text_format(job, sizeof(job), "%u", watch->job);
    log_line(LOG_WARN, "steps-not-read", "the steps that a job prints are not read, trying again",
             "job", job, "error", what, NULL);
}

static void wait_again(struct watch *watch)
{
    watch->start_ms = agent_io_now_ms() + watch->again_ms;
    watch->again_ms = 2 * watch->again_ms < STEPS_AGAIN_MAX_MS ? 2 * watch->again_ms
                                                               : (uint64_t)STEPS_AGAIN_MAX_MS;
}

static void done_cb(void *context, const struct child_result *result)
{
    struct watch *watch = context;
    char what[64];
    watch->running = false;
    (void)text_format(what, sizeof(what), "the helper ended: exit %d, signal %d",
                      (int)result->exit_status, result->signal);
    complain(watch, result->timed_out ? "the disk or the pattern takes too long" : what);
    wait_again(watch);
}

static void start(struct watch *watch)
{
    const struct helper_task task = {.verb = "follow",
                                     .path = watch->paths,
                                     .text = watch->pattern,
                                     .text2 = watch->used,
                                     .quiet = true,
                                     .line = line_cb,
                                     .uid = watch->uid,
                                     .gid = watch->gid};
    const int r = helper_start(watch->steps->io->loop, &watch->steps->children, &task,
                               STEPS_SILENT_MS, done_cb, watch);
    watch->running = r == 0;
    if (r != 0) {
        complain(watch, uv_strerror(r));
        wait_again(watch);
    }
}

static void timer_cb(uv_timer_t *timer)
{
    const struct agent_steps *steps = timer->data;
    const uint64_t now = agent_io_now_ms();
    for (struct watch *watch = steps->first; watch != NULL; watch = watch->next) {
        if (!watch->running && now >= watch->start_ms) {
            start(watch);
        }
    }
}

/* ---- attempts -------------------------------------------------------------------------------------- */

static struct watch **find(struct agent_steps *steps, uint32_t job, uint32_t attempt)
{
    struct watch **at = &steps->first;
    while (*at != NULL && ((*at)->job != job || (*at)->attempt != attempt)) {
        at = &(*at)->next;
    }
    return at;
}

static bool all_run(const struct shim_status *status)
{
    bool run = status->rank_count > 0 && status->empty == 0;
    for (uint32_t i = 0; i < status->rank_count && run; i++) {
        run = status->ranks[i].pid > 0;
    }
    return run;
}

/* A path with an end of a line in it would be two: such outputs are not read. */
static bool put_paths(struct watch *watch, const struct folder_info *info)
{
    size_t used = 0;
    for (uint32_t i = 0; i < watch->rank_count; i++) {
        const char *output = info->outputs[i];
        if (strchr(output, '\n') != NULL ||
            !text_format(watch->paths + used, sizeof(watch->paths) - used, "%s%s%s%s",
                         i > 0 ? "\n" : "", output[0] != '/' ? info->workdir : "",
                         output[0] != '/' ? "/" : "", output)) {
            return false;
        }
        used += strlen(watch->paths + used);
    }
    return true;
}

static void put_used(struct watch *watch, const struct folder_info *info,
                     const struct shim_status *status)
{
    size_t used = 0;
    if (status->has_cgroup != 0 && info->cgroup[0] == '/') {
        (void)text_copy(watch->used, sizeof(watch->used), info->cgroup); /* of one size */
        return;
    }
    for (uint32_t i = 0; i < status->rank_count; i++) {
        (void)text_format(watch->used + used, sizeof(watch->used) - used, "%s%d", i > 0 ? "," : "",
                          status->ranks[i].pid); /* 16 numbers: it fits */
        used += strlen(watch->used + used);
    }
}

void steps_watch(struct agent_steps *steps, uint32_t job, uint32_t attempt,
                 const struct folder_info *info, const struct shim_status *status)
{
    if (steps->closed || !info->launch_known || info->log_pattern[0] == '\0' || !all_run(status) ||
        info->rank_count > RANKS_PER_NODE_MAX || *find(steps, job, attempt) != NULL) {
        return;
    }
    struct watch *watch = mem_alloc(1, sizeof(*watch));
    watch->steps = steps;
    watch->job = job;
    watch->attempt = attempt;
    watch->uid = info->uid;
    watch->gid = info->gid;
    watch->alone = info->log_alone;
    watch->rank_count = info->rank_count;
    watch->again_ms = STEPS_AGAIN_MS;
    (void)text_copy(watch->pattern, sizeof(watch->pattern), info->log_pattern); /* of one size */
    put_used(watch, info, status);
    if (!put_paths(watch, info)) {
        complain(watch, "a path of its output is too long, or has an end of a line in it");
        watch->start_ms = UINT64_MAX;
    }
    watch->next = steps->first;
    steps->first = watch;
    timer_cb(&steps->timer);
    if (!uv_is_active((uv_handle_t *)&steps->timer)) {
        const int r = uv_timer_start(&steps->timer, timer_cb, STEPS_AGAIN_MS, STEPS_AGAIN_MS);
        CHECK(r == 0);
    }
}

void steps_ended(struct agent_steps *steps, uint32_t job, uint32_t attempt)
{
    struct watch **at = find(steps, job, attempt);
    struct watch *watch = *at;
    if (watch == NULL || steps->closed) {
        return;
    }
    *at = watch->next;
    child_cancel(&steps->children, watch);
    mem_free(watch);
    if (steps->first == NULL) {
        (void)uv_timer_stop(&steps->timer); /* cannot fail */
    }
}

/* ---- life ------------------------------------------------------------------------------------------ */

struct agent_steps *steps_create(struct agent_io *io)
{
    struct agent_steps *steps = mem_alloc(1, sizeof(*steps));
    steps->io = io;
    const int r = uv_timer_init(io->loop, &steps->timer);
    CHECK(r == 0);
    steps->timer.data = steps;
    return steps;
}

void steps_close(struct agent_steps *steps)
{
    steps->closed = true;
    children_close(&steps->children);
    uv_close((uv_handle_t *)&steps->timer, NULL);
}

struct agent_steps *steps_free(struct agent_steps *steps)
{
    while (steps != NULL && steps->first != NULL) {
        struct watch *watch = steps->first;
        steps->first = watch->next;
        mem_free(watch);
    }
    return mem_free(steps);
}
