/* train_state.h: what the files of one rank's life share; nobody else includes it. */
#ifndef KEEPSTEP_TRAINER_TRAIN_STATE_H
#define KEEPSTEP_TRAINER_TRAIN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/trainer/checkpoint.h"
#include "agent/trainer/corpus.h"
#include "agent/trainer/kernel.h"
#include "agent/trainer/optimizer.h"
#include "agent/trainer/options.h"
#include "agent/trainer/start.h"
#include "agent/trainer/telemetry.h"

struct trainer {
    const struct options *options;
    struct fail *fail;
    struct corpus corpus;
    struct kernel kernel;
    struct comm comm;
    struct telemetry telemetry;
    struct model *model;
    struct optimizer optimizer;
    struct optimizer_state state;         /* what is saved and restored, in host memory */
    size_t window;                        /* bytes of one sample: its context and one more */
    uint32_t samples;                     /* of one micro-batch */
    uint8_t *text;                        /* micros x samples x window: this replica's step */
    uint64_t step;                        /* completed ones */
    int save_signals;                     /* signalfd on rank 0, else -1 */
    char directory[CHECKPOINT_PATH_SIZE]; /* absolute; "" when nothing is saved */
};

/* What all ranks know after the exchange of one step. */
struct outcome {
    double loss; /* mean over the bytes of the step */
    double gradient_norm;
    bool save;
    bool stop;
};

bool train_is_master(const struct trainer *trainer);
struct comm_group *train_everyone(struct trainer *trainer);
/* A code of comm.h or kernel.h as a failure: whichever of the two is broken says why. */
int train_fail(struct trainer *trainer, int code);

/* train_step.c. One whole step, with its line on rank 0. */
MUST_CHECK int train_step(struct trainer *trainer, struct outcome *ret_outcome);
/* The loss on samples that training does not draw; changes nothing. */
MUST_CHECK int train_evaluate(struct trainer *trainer);

/* train_save.c. Restores what start names, on all ranks. */
MUST_CHECK int train_restore(struct trainer *trainer, const struct start *start);
/* -errno when the world is broken; a checkpoint that cannot be made is told, *ret_saved false. */
MUST_CHECK int train_save(struct trainer *trainer, bool *ret_saved);
/* Tells when an earlier commit was refused. wait_ms: how long to wait for its answer. */
void train_look_at_commit(const struct trainer *trainer, uint32_t wait_ms);
/* SIGUSR1 on rank 0 means: save. Signals that came since the last call. */
MUST_CHECK int train_open_save_signals(struct trainer *trainer);
bool train_save_signalled(const struct trainer *trainer);

#endif
