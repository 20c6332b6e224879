/* optimizer.h: the gradients of all replicas become new weights.
 *
 * The replicas of one (tensor, pipeline) part hold the same weights and share the update out: each
 * gets the sum of the gradients, in the order of the data ranks, for its slice of the part alone,
 * keeps the two moments of that slice, updates it, and sends the new weights to the others. So all
 * replicas get the same bits from one of them, and no two ranks of the world hold, or save, the
 * same moments.
 *
 * The gradient norm counts every weight of the model once: slices of replicas do not overlap, and
 * of what tensor ranks hold all of (norms, embeddings, some biases) tensor rank 0 alone counts. */
#ifndef KEEPSTEP_TRAINER_OPTIMIZER_H
#define KEEPSTEP_TRAINER_OPTIMIZER_H

#include <stdint.h>

#include "agent/trainer/adam.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/model.h"

struct optimizer {
    struct model *model; /* borrowed */
    struct adam adam;
    float *gradients; /* buffers of one slice each … */
    float *first, *second;
    double *squares; /* … and of one number */
};

/* The state of one rank's slice, as host memory: what a checkpoint keeps. */
struct optimizer_state {
    float *weights; /* `count` floats each; owned, all in one piece */
    float *first;
    float *second;
    uint64_t begin; /* of the slice in the part's flat array */
    uint64_t count;
};

/* Zero moments. -ENOMEM, and optimizer_done is to be called all the same. */
MUST_CHECK int optimizer_create(struct optimizer *optimizer, struct model *model,
                                const struct adam *adam);
void optimizer_done(struct optimizer *optimizer); /* takes one of zeros; before model_free */

/* Collective over the data group: sums the gradients into the own slice. *ret_squares: this rank's
 * contribution to the square of the gradient norm. comm.h's or kernel.h's code. */
MUST_CHECK int optimizer_reduce(struct optimizer *optimizer, double *ret_squares);
/* Collective over the data group, after optimizer_reduce: step, counted from 1. */
MUST_CHECK int optimizer_update(struct optimizer *optimizer, uint64_t step);
/* A hash of this rank's weights: after an update equal on all replicas. kernel.h's code. */
MUST_CHECK int optimizer_weights_hash(const struct optimizer *optimizer, uint64_t *ret_hash);

/* Memory for the state; freed with optimizer_state_done, which takes one of zeros. */
MUST_CHECK int optimizer_state_create(const struct optimizer *optimizer,
                                      struct optimizer_state *ret_state);
void optimizer_state_done(struct optimizer_state *state);
/* From the buffers to the state. kernel.h's code. */
MUST_CHECK int optimizer_save(const struct optimizer *optimizer, struct optimizer_state *state);
/* Collective over the data group: from the state to the buffers, and the weights of all slices to
 * all replicas. */
MUST_CHECK int optimizer_load(struct optimizer *optimizer, const struct optimizer_state *state);

#endif
