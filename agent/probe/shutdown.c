/* shutdown.c: is this machine about to go down on purpose? Then that it leaves is no fault: systemd
 * writes down what it was asked for and when, and the run level is 0 or 6 once it goes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <utmp.h>

#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "proto/base/text.h"

/* "KEY=VALUE" as a line of its own. */
static bool value_in(const char *text, const char *key, char *value, size_t size)
{
    const size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            const size_t value_length = strcspn(line + length + 1, "\n");
            return value_length < size &&
                   (text_copy(value, value_length + 1, line + length + 1) || value_length > 0);
        }
    }
    return false;
}

/* The newest word of the run level: '0' and '6' are the end. */
static char run_level(const char *run)
{
    char path[READ_PATH_SIZE];
    char level = '?';
    struct utmp entry;
    (void)text_format(path, sizeof(path), "%s/utmp", run);
    FILE *file = fopen(path, "re");
    while (file != NULL && fread(&entry, sizeof(entry), 1, file) == 1) {
        if (entry.ut_type == RUN_LVL) {
            level = (char)(entry.ut_pid % 256);
        }
    }
    if (file != NULL) {
        (void)fclose(file); /* opened for reading */
    }
    return level;
}

static void say(struct probe_run *run, const char *how, uint64_t seconds)
{
    struct finding finding;
    probe_finding(&finding, VERDICT_WARN, "shutdown", "this machine goes down on purpose: %s", how);
    probe_blame(&finding, LABEL_OPERATOR, ADVICE_STOP_EXPECTED, ROLE_SYMPTOM, "host-shutdown");
    finding.code = seconds < INT32_MAX ? (int32_t)seconds : INT32_MAX;
    probe_state(run, &finding);
}

static void look(struct probe_run *run)
{
    char text[1024];
    char mode[32] = "";
    char when[32] = "";
    uint64_t usec = 0;
    const int r = read_text(text, sizeof(text), "%s/systemd/shutdown/scheduled", run->config->run);
    const char level = run_level(run->config->run);
    if (r == 0 && value_in(text, "MODE", mode, sizeof(mode)) && strncmp(mode, "dry-", 4) != 0) {
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
        const uint64_t now_s = (uint64_t)now.tv_sec;
        const bool timed = value_in(text, "USEC", when, sizeof(when)) &&
                           read_parse(when, &usec) == 0 && usec / 1000000 > now_s;
        const uint64_t seconds = timed ? usec / 1000000 - now_s : 0;
        char how[96];
        (void)text_sentence(how, sizeof(how), "%s in %llu s", mode, (unsigned long long)seconds);
        say(run, how, seconds);
    } else if (level == '0' || level == '6') {
        say(run, level == '0' ? "run level 0" : "run level 6", 0);
    } else if (r == 0 || r == -ENOENT) {
        probe_ok(run, "shutdown", "nobody asked this machine to go down");
    } else {
        probe_not_run(run, "shutdown", "%s/systemd/shutdown/scheduled: %s", run->config->run,
                      strerror(-r));
    }
}

const struct probe probe_shutdown = {.name = "shutdown",
                                     .what = "the machine is about to go down on purpose",
                                     .period_ms = 5000,
                                     .deadline_ms = 10000,
                                     .resident = true,
                                     .stuck_label = LABEL_SOFTWARE,
                                     .stuck_advice = ADVICE_WATCH,
                                     .stuck_role = ROLE_SYMPTOM,
                                     .look = look};
