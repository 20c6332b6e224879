/* probe.h: the frame of the probes: what one is, and what it may do.
 *
 * A probe looks at one source of evidence and says what it saw. It runs in a process of its own, a
 * child of the agent (`keepstep-agent probe-run NAME …`), and may hang, crash or be killed there at
 * any moment; it keeps nothing that must last but its notes, which the agent gives back to the next
 * process. The agent starts it (agent/io/probes.h), kills it past its deadline, and decides what
 * the controller is told (agent/core/health.h).
 *
 * Two sorts: a resident one runs round after round in one process, since it looks every few seconds
 * or waits for something to happen; the others end after one round.
 *
 * What cannot be read is said as `not-run`, never as `fail`: a broken sensor is no broken device. */
#ifndef KEEPSTEP_PROBE_PROBE_H
#define KEEPSTEP_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/finding.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/message.h"

#define PROBE_WORD "probe-run"

enum {
    PROBE_OUTPUT_MAX = 262144, /* of one round */
    PROBE_NOTES_MAX = 64,
    PROBE_LIST_SIZE = 1024, /* of a list in the configuration, by comma */
};

/* Where the sources are, and what is expected; the agent's options of the same names. Everything
 * has its default in probe_config_default(). */
struct probe_config {
    char sys[PATH_SIZE];            /* "/sys" */
    char proc[PATH_SIZE];           /* "/proc" */
    char run[PATH_SIZE];            /* "/run": systemd's and the run level's files */
    char kmsg[PATH_SIZE];           /* "/dev/kmsg"; a pipe or a file of such records */
    char nvml[PATH_SIZE];           /* the library's name or path */
    char catalog[PROBE_LIST_SIZE];  /* the site's own files, by comma */
    char mounts[PROBE_LIST_SIZE];   /* paths to watch beside the network file systems found */
    char ports[PROBE_LIST_SIZE];    /* DEV/PORT by comma; "" = those that carry traffic */
    char programs[PROBE_LIST_SIZE]; /* NAME=/PROGRAM by comma */
    char leaves[PROBE_LIST_SIZE];   /* the leaf switch of each watched port, by comma */
    char cgroup[PATH_SIZE];         /* the ranks' parent cgroup; "" = unknown */
    char cookie[NAME_SIZE];         /* KEEPSTEP_NODE's value: whose ranks are ours */
    uint32_t gpus;                  /* expected; 0: nobody said */
    uint32_t port_down_s;           /* a port that is down so long is for good */
    bool kmsg_user;                 /* act on records that a program wrote: tests only */
    bool busy;                      /* a job runs here: what is compared only under load, is */
};
void probe_config_default(struct probe_config *ret_config);
/* "KEY=VALUE" of one field, as the agent writes it for the process. -EINVAL: none of them. */
MUST_CHECK int probe_config_take(struct probe_config *config, const char *word);
/* All fields that differ from the default, by `put`; a non-zero result ends the walk. */
typedef int probe_config_put(void *context, const char *word);
int probe_config_words(const struct probe_config *config, probe_config_put *put, void *context);

struct probe_note {
    char name[NOTE_NAME_SIZE];
    char value[NOTE_VALUE_SIZE];
};

/* One process's life of one probe. */
struct probe_run {
    const struct probe_config *config;
    void *state;         /* the probe's own; made in its first round, freed by its `done` */
    uint64_t round;      /* from 0 */
    uint64_t now_ms;     /* monotonic, at the beginning of the round */
    bool once;           /* an operator looks: one round, without waiting for anything */
    char why[TEXT_SIZE]; /* set by probe_nothing() */
    uint32_t readings;
    struct buf out;
    uint32_t note_count; /* as the process before left them */
    struct probe_note notes[PROBE_NOTES_MAX];
};

struct probe {
    const char *name;
    const char *what; /* one line for --help and the table */
    uint32_t
        period_ms; /* from the end of a round to the beginning of the next; 0: it waits itself */
    uint32_t deadline_ms; /* of a round */
    bool resident;
    /* What it means when a round does not return. */
    uint8_t stuck_label;
    uint8_t stuck_advice;
    uint8_t stuck_role;
    void (*look)(struct probe_run *run);
    void (*done)(struct probe_run *run); /* may be NULL */
};

/* The table of all probes; their index is their number in the agent. NULL past the last. */
const struct probe *probe_at(uint32_t index);
const struct probe *probe_find(const char *name); /* NULL: no such */

/* ---- what a probe says in a round ---------------------------------------------------------------- */

/* A finding of this verdict with the key and text given; everything else "none". */
void probe_finding(struct finding *finding, enum finding_verdict verdict, const char *key,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Label, advice and role, and with them the severity; `signal` names the row. */
void probe_blame(struct finding *finding, enum signal_label label, enum signal_advice advice,
                 enum signal_role role, const char *signal);
void probe_state(struct probe_run *run, const struct finding *finding);
void probe_event(struct probe_run *run, const struct finding *finding);
void probe_ok(struct probe_run *run, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void probe_not_run(struct probe_run *run, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Nothing of its kind is here, or nothing can be read: why. */
void probe_nothing(struct probe_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Remembers for the next process; the value of before, or NULL. */
void probe_note_put(struct probe_run *run, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *probe_note(const struct probe_run *run, const char *name);
void probe_gpu(struct probe_run *run, uint32_t index, const char *uuid, const char *pci);
/* What was said so far leaves now, not at the end of the round. false: nobody listens. */
bool probe_flush(struct probe_run *run);

/* ---- the process ----------------------------------------------------------------------------------- */

/* argv[1] is PROBE_WORD: NAME, then "once" or "stay", then KEY=VALUE and note:NAME=VALUE words. The
 * exit status; lines of finding.h go to standard output. */
int probe_main(int argc, char **argv);

#endif
