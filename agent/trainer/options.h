/* options.h: what a rank was told: the flags, and the environment that launchers set.
 *
 * Pure: reads the arrays that it is given and nothing else. Paths and words point into them and
 * live as long as they do. Everything wrong is EXIT_BAD_CONFIG, since a restart would meet it
 * again. */
#ifndef KEEPSTEP_TRAINER_OPTIONS_H
#define KEEPSTEP_TRAINER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/backend.h"
#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/inject.h"
#include "agent/trainer/manifest.h"
#include "agent/trainer/shape.h"

struct options {
    /* environment: RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT, as torchrun sets them;
     * KEEPSTEP_JOB, KEEPSTEP_ATTEMPT (else torchrun's run id and restart count) */
    uint32_t rank;
    uint32_t world;
    uint32_t local_rank; /* RANK without LOCAL_RANK */
    uint32_t attempt;
    char job[MANIFEST_JOB_SIZE]; /* "standalone" when nobody named one */
    const char *master_address;
    uint16_t master_port;
    /* KEEPSTEP_RESTORE_STEP (0 or unset: from the beginning), KEEPSTEP_RESTORE_ATTEMPT */
    uint64_t restore_step;
    int64_t restore_attempt;  /* -1: not said */
    int64_t claimed_place[4]; /* KEEPSTEP_{TP,CP,PP,DP}_RANK; -1: not said */

    /* flags */
    bool help;
    enum backend backend;
    struct comm_layout layout; /* --tp --cp --pp --dp */
    struct model_shape shape;  /* --context --layers --width */
    const char *const *text;   /* --text PATH…: text_count entries of the given argv */
    size_t text_count;
    uint64_t steps;
    uint32_t batch;  /* samples of one step, over all ranks */
    uint32_t micros; /* micro-batches of one step in each replica */
    float rate;
    uint64_t seed;
    uint32_t step_min_ms;
    uint32_t init_timeout_s;
    const char *checkpoint_directory; /* NULL: nothing is saved */
    uint64_t checkpoint_every;        /* 0: only when asked */
    uint64_t eval_every;              /* 0: never */
    const char *load;                 /* a folder to begin from; NULL: none */
    const char *output_weights;       /* NULL: none */
    const char *initial_weights;      /* NULL: none */
    size_t inject_count;
    struct inject inject[INJECT_MAX];
};

/* arguments, environment: NULL-terminated, as main() gets them. ordered: the layout that the
 * agent's order gives the job, or NULL without an agent. Sizes that no flag says are the ordered
 * ones, or 1 and for dp what is left of the world; a flag that says another one than the order is
 * refused. */
MUST_CHECK int options_parse(const char *const *arguments, const char *const *environment,
                             const struct comm_layout *ordered, struct fail *fail,
                             struct options *ret_options);

/* Digest of everything that must be equal on all ranks of one attempt. */
uint64_t options_digest(const struct options *options);

/* The text of --help; constant. */
const char *options_help(void);

#endif
