/* shape.h: the sizes of the model, and whether a layout can hold it. Pure. */
#ifndef KEEPSTEP_TRAINER_SHAPE_H
#define KEEPSTEP_TRAINER_SHAPE_H

#include <stdint.h>

#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/kernel.h"

enum {
    MODEL_BYTES = 256, /* the alphabet */
    MODEL_HEAD_WIDTH = KERNEL_HEAD_WIDTH,
    MODEL_WIDENING = 4, /* the hidden layer of a block is so many times its width */
    MODEL_CONTEXT_MAX = 1024,
    MODEL_LAYERS_MAX = 32,
    MODEL_WIDTH_MAX = 1024,
};

struct model_shape {
    uint32_t context; /* bytes that the model sees at once; a multiple of KERNEL_LANES */
    uint32_t layers;
    uint32_t width; /* a multiple of MODEL_HEAD_WIDTH */
};

/* -EINVAL with a sentence when a number is out of range or not a multiple of what it must be. */
MUST_CHECK int shape_check(const struct model_shape *shape, struct fail *fail);
/* The same when the layout cannot split the model: heads and logits over tensor, blocks over
 * pipeline; context is 1. The shape has passed shape_check. */
MUST_CHECK int shape_check_layout(const struct model_shape *shape, const struct comm_layout *layout,
                                  struct fail *fail);

#endif
