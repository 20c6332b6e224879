/* oom.c: how often the kernel killed for memory: in the ranks' own cgroups, where the job used more
 * than it may, and on the whole machine. The kernel's log says who; this says it where the log was
 * overwritten. Both are counters, so they are events, and evidence only: the end of a rank is known
 * anyway. */
#include <errno.h>
#include <string.h>

#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "proto/base/text.h"

/* "name N" as a line of its own. */
static int counter_in(const char *text, const char *name, uint64_t *ret_count)
{
    const size_t size = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, size) == 0 && line[size] == ' ') {
            return read_parse(line + size + 1, ret_count);
        }
    }
    return -EINVAL;
}

static void take_count(struct probe_run *run, const char *key, uint64_t count,
                       enum signal_label label)
{
    struct finding finding;
    uint64_t before = 0;
    const char *note = probe_note(run, key);
    if (note != NULL && read_parse(note, &before) == 0 && count > before) {
        probe_finding(&finding, VERDICT_WARN, key, "%s: %llu killed for memory", key,
                      (unsigned long long)(count - before));
        probe_blame(&finding, label, ADVICE_WATCH, ROLE_SYMPTOM, "oom-kill");
        (void)text_copy(finding.subject, sizeof(finding.subject), key);
        probe_event(run, &finding);
    }
    probe_note_put(run, key, "%llu", (unsigned long long)count);
    probe_ok(run, key, "%s: %llu killed for memory since it began", key, (unsigned long long)count);
}

static void look(struct probe_run *run)
{
    char text[65536];
    const char *cgroup = run->config->cgroup;
    uint64_t count = 0;
    if (read_text(text, sizeof(text), "%s/vmstat", run->config->proc) == 0 &&
        counter_in(text, "oom_kill", &count) == 0) {
        take_count(run, "machine", count, LABEL_UNKNOWN);
    }
    if (cgroup[0] == '/' && read_text(text, sizeof(text), "%s/memory.events", cgroup) == 0 &&
        counter_in(text, "oom_kill", &count) == 0) {
        take_count(run, "ranks", count, LABEL_USER);
    }
    if (run->readings == 0) {
        probe_nothing(run, "nobody counts what is killed for memory here");
    }
}

const struct probe probe_oom = {.name = "oom",
                                .what = "processes that the kernel killed for memory",
                                .period_ms = 5000,
                                .deadline_ms = 10000,
                                .resident = true,
                                .stuck_label = LABEL_SOFTWARE,
                                .stuck_advice = ADVICE_WATCH,
                                .stuck_role = ROLE_SYMPTOM,
                                .look = look};
