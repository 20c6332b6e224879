/* programs.c: the site's own checks: any program that ends with 0, 1, 2 or 3 and prints a line, as
 * those for Nagios do. One after another, each in a process of its own with a limit; nothing of our
 * environment reaches it. What a site calls critical is no reason to end an attempt that runs, but
 * one not to use the node again. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/probe/list.h"
#include "agent/probe/sources.h"
#include "agent/probe/task.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    PROGRAMS_MAX = 8,
    PROGRAM_MS = 20000,
    STATUS_WARNING = 1,
    STATUS_CRITICAL = 2,
    STATUS_UNKNOWN = 3,
    STATUS_NOT_STARTED = 126,
    OUTPUT_SIZE = 1024,
};

struct programs {
    struct task tasks[PROGRAMS_MAX]; /* those that did not come back */
};

/* What stands behind "|" or in further lines is not for people. */
static void first_line(const char *output, char *line, size_t size)
{
    const size_t length = strcspn(output, "|\n\r");
    (void)text_copy(line, length + 1 < size ? length + 1 : size, output);
    finding_clean(line);
    size_t used = strlen(line);
    while (used > 0 && line[used - 1] == ' ') {
        line[--used] = '\0';
    }
}

void program_judge(const char *name, int status, const char *output, struct finding *ret_finding)
{
    char line[TEXT_SIZE];
    first_line(output, line, sizeof(line));
    const char *text = line[0] != '\0' ? line : "it printed nothing";
    if (status == 0) {
        probe_finding(ret_finding, VERDICT_OK, name, "%.40s: %.140s", name, text);
        return;
    }
    if (status == STATUS_WARNING || status == STATUS_CRITICAL) {
        const bool critical = status == STATUS_CRITICAL;
        probe_finding(ret_finding, critical ? VERDICT_FAIL : VERDICT_WARN, name, "%.40s: %.140s",
                      name, text);
        probe_blame(ret_finding, LABEL_UNKNOWN, critical ? ADVICE_EVICT : ADVICE_WATCH,
                    ROLE_SYMPTOM, critical ? "program-critical" : "program-warning");
        ret_finding->severity = 1;
        (void)text_copy(ret_finding->subject, sizeof(ret_finding->subject), name);
        return;
    }
    if (status == TASK_STUCK) {
        text = "it did not end in time";
    } else if (status >= STATUS_NOT_STARTED && status != STATUS_UNKNOWN && line[0] == '\0') {
        text = status > 128 ? "it was ended by a signal" : "it cannot be started";
    }
    probe_finding(ret_finding, VERDICT_NOT_RUN, name, "%.40s: %.140s", name, text);
    probe_blame(ret_finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_NOISE, READING_NONE);
}

/* In its own process. */
static int become(void *context)
{
    char path[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    char *environment[] = {path, NULL};
    char *arguments[] = {context, NULL};
    (void)execve(context, arguments, environment); /* returns only when it failed */
    return STATUS_NOT_STARTED;
}

static void take_program(struct probe_run *run, struct task *task, const char *name, char *path)
{
    char output[OUTPUT_SIZE] = "";
    struct finding finding;
    if (!task_is_gone(task)) {
        program_judge(name, TASK_STUCK, "", &finding);
        probe_state(run, &finding);
        return;
    }
    const int r = task_start(task, become, path);
    if (r != 0) {
        probe_not_run(run, name, "%.40s cannot be started: %s", name, strerror(-r));
        return;
    }
    const int status = task_finish(task, PROGRAM_MS, output, sizeof(output));
    program_judge(name, status, output, &finding);
    probe_state(run, &finding);
}

static void look(struct probe_run *run)
{
    const char *list = run->config->programs;
    char one[NAME_SIZE + PATH_SIZE];
    struct programs *programs = run->state;
    if (programs == NULL) {
        programs = run->state = mem_alloc(1, sizeof(*programs));
    }
    for (uint32_t i = 0; i < PROGRAMS_MAX && list_next(&list, one, sizeof(one)); i++) {
        char *equals = strchr(one, '=');
        if (equals != NULL) {
            *equals = '\0';
            take_program(run, &programs->tasks[i], one, equals + 1);
        }
    }
    if (run->readings == 0) {
        probe_nothing(run, "the site has no programs of its own");
    }
}

static void done(struct probe_run *run)
{
    run->state = mem_free(run->state);
}

const struct probe probe_programs = {.name = "programs",
                                     .what = "the site's own checks",
                                     .period_ms = 60000,
                                     .deadline_ms = PROGRAMS_MAX * PROGRAM_MS + 70000,
                                     .resident = true,
                                     .stuck_label = LABEL_SOFTWARE,
                                     .stuck_advice = ADVICE_WATCH,
                                     .stuck_role = ROLE_SYMPTOM,
                                     .look = look,
                                     .done = done};
