/* adam.h: the optimizer's rule, in fp32, over one range of the weights.
 *
 * Ranks split the weights: each keeps the two moments of its own range only, updates that range and
 * gets the others' from them. Nothing here knows which range it is; element i of the four arrays
 * belongs together. The same input gives the same bits. */
#ifndef KEEPSTEP_TRAINER_ADAM_H
#define KEEPSTEP_TRAINER_ADAM_H

#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/kernel.h"

struct adam {
    float rate;            /* learning rate after the warm-up */
    uint32_t warmup_steps; /* the rate grows linearly over the first so many steps */
};

/* The learning rate of a step, counted from 1: a function of the step alone. */
float adam_rate(const struct adam *adam, uint64_t step);

/* One update with the gradients of step `step`. All arrays are buffers of count elements and the
 * caller's; first and second are the moments, zero before step 1. */
void adam_update(const struct adam *adam, struct kernel *kernel, uint64_t step, float *weights,
                 const float *gradients, float *first, float *second, size_t count);

#endif
