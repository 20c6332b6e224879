/* play.h: one performance of a scenario: a rig, and what the present command has shown so far.
 *
 * The controller of a performance may be told to die at a commit (rig.kill_at); commands then wait
 * for it to be back. What is shown are the core's own trace lines, with times from the start of the
 * scenario, without those that every healthy node says alike. */
#ifndef KEEPSTEP_TESTS_SCENARIO_PLAY_H
#define KEEPSTEP_TESTS_SCENARIO_PLAY_H

#include "proto/base/buf.h"
#include "tests/lib/core_rig.h"
#include "tests/scenario/script.h"

enum { PLAY_SHOWN_MAX = 256 * 1024 };

struct play {
    struct rig *rig;   /* NULL until the command `nodes` */
    uint64_t start_ms; /* of the rig's clock */
    uint32_t trace_at; /* how much of the rig's trace has been shown */
    uint32_t backup;   /* records that the copy of the store holds */
    bool hush_nodes;   /* this command shows no lines about single nodes */
    uint32_t kill_at;  /* for the rig that `nodes` makes; see core_rig.h */
    bool kill_before;
    struct buf shown; /* of the present command */
};

void play_init(struct play *play);
void play_done(struct play *play);
/* Performs one command; what it shows is in play->shown. -EINVAL: the script is wrong, err says
 * how. */
MUST_CHECK int play_command(struct play *play, const char *command, struct err *err);
void play_say(struct play *play, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- verbs.c ---- */
typedef int verb_run(struct play *play, const struct words *words, struct err *err);
struct verb {
    const char *name;
    verb_run *run;
    uint32_t words_min; /* besides the name */
    const char *usage;
};
const struct verb *verb_find(const char *name); /* NULL when there is none */
void verb_names(struct buf *buf);

/* ---- show.c ---- */
/* Jobs and nodes as they stand. */
void show_state(struct play *play);
/* What must not depend on when the controller died: jobs, attempts, holders, starts, marks. */
void show_outcome(const struct rig *rig, struct buf *buf);

#endif
