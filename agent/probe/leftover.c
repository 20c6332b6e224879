/* leftover.c: what is left on this node that should not be: processes with this node's cookie while
 * no job is here, and processes that have stood in D state from one look to the next. The agent's
 * own sweep ends what can be ended; this says what could not be. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { ENVIRON_SIZE = 1 << 17, SHOWN = 5 };

struct pids {
    uint32_t count;
    uint64_t first[SHOWN];
};

static void put_pid(struct pids *pids, uint64_t pid)
{
    if (pids->count < SHOWN) {
        pids->first[pids->count] = pid;
    }
    pids->count++;
}

static void pids_text(const struct pids *pids, char *target, size_t size)
{
    size_t used = 0;
    target[0] = '\0';
    for (uint32_t i = 0; i < pids->count && i < SHOWN; i++) {
        (void)text_format(target + used, size - used, "%s%llu", i > 0 ? " " : "",
                          (unsigned long long)pids->first[i]);
        used = strlen(target);
    }
}

/* "pid (any name) S …" */
static char state_in(const char *stat)
{
    const char *close = strrchr(stat, ')');
    return close != NULL && close[1] == ' ' ? close[2] : '?';
}

static bool has_cookie(const char *proc, const char *pid, const char *cookie, char *environ)
{
    char path[READ_PATH_SIZE];
    char word[NAME_SIZE + 32];
    (void)text_format(word, sizeof(word), "KEEPSTEP_NODE=%s", cookie);
    (void)text_format(path, sizeof(path), "%s/%s/environ", proc, pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    const size_t size = fread(environ, 1, ENVIRON_SIZE - 1, file);
    (void)fclose(file); /* opened for reading */
    environ[size] = '\0';
    for (size_t at = 0; at < size; at += strlen(environ + at) + 1) {
        if (text_equal(environ + at, word)) {
            return true;
        }
    }
    return false;
}

static bool is_pid(const char *name)
{
    const size_t size = strlen(name);
    return size > 0 && size < 12 && strspn(name, "0123456789") == size;
}

/* The one before saw it as well: a note lists the pids, each followed by a space. */
static bool stood_before(const char *note, const char *pid)
{
    char word[16];
    (void)text_format(word, sizeof(word), " %s ", pid);
    return note != NULL && strstr(note, word) != NULL;
}

static void say(struct probe_run *run, const char *key, const struct pids *pids, const char *what,
                const char *signal)
{
    char text[128];
    struct finding finding;
    pids_text(pids, text, sizeof(text));
    if (pids->count == 0) {
        probe_ok(run, key, "no %s", what);
        return;
    }
    probe_finding(&finding, VERDICT_WARN, key, "%u %s: pids %s%s", pids->count, what, text,
                  pids->count > SHOWN ? " …" : "");
    probe_blame(&finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_SYMPTOM, signal);
    probe_state(run, &finding);
}

static void look(struct probe_run *run)
{
    const char *proc = run->config->proc;
    const char *before = probe_note(run, "stuck");
    struct pids ours = {0};
    struct pids stuck = {0};
    char now[NOTE_VALUE_SIZE] = " ";
    DIR *folder = opendir(proc);
    if (folder == NULL) {
        probe_nothing(run, "%s: %s", proc, strerror(errno));
        return;
    }
    char *environ = mem_alloc(ENVIRON_SIZE, 1);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char stat[512];
        uint64_t pid = 0;
        if (!is_pid(entry->d_name) || read_parse(entry->d_name, &pid) != 0 ||
            read_text(stat, sizeof(stat), "%s/%s/stat", proc, entry->d_name) != 0) {
            continue;
        }
        if (state_in(stat) == 'D') {
            const size_t used = strlen(now);
            (void)text_format(now + used, sizeof(now) - used, "%s ", entry->d_name);
            if (stood_before(before, entry->d_name)) {
                put_pid(&stuck, pid);
            }
        }
        if (!run->config->busy && run->config->cookie[0] != '\0' && state_in(stat) != 'Z' &&
            has_cookie(proc, entry->d_name, run->config->cookie, environ)) {
            put_pid(&ours, pid);
        }
    }
    (void)closedir(folder); /* opened for reading */
    mem_free(environ);
    probe_note_put(run, "stuck", "%s", now);
    say(run, "processes", &ours, "processes of a job are left while none is here",
        "leftover-process");
    say(run, "stuck", &stuck, "processes that nothing can end (D state)", "process-stuck");
}

const struct probe probe_leftover = {.name = "leftover",
                                     .what = "processes of ended jobs, processes in D state",
                                     .period_ms = 60000,
                                     .deadline_ms = 20000,
                                     .stuck_label = LABEL_SOFTWARE,
                                     .stuck_advice = ADVICE_WATCH,
                                     .stuck_role = ROLE_SYMPTOM,
                                     .look = look};
