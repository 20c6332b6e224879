/* weights.h: the final (or initial) weights as one file, for comparing and for use elsewhere.
 *
 * A header and all weights of the whole model as little-endian floats in parameters.h's canonical
 * order. Nothing in it depends on attempt, time, layout or seed: two runs that learned the same
 * have the same bytes, so sha256sum compares them. */
#ifndef KEEPSTEP_TRAINER_WEIGHTS_H
#define KEEPSTEP_TRAINER_WEIGHTS_H

#include <stdint.h>

#include "agent/trainer/fail.h"
#include "agent/trainer/model.h"

struct weights_header {
    char magic[8]; /* "KSWEIGH" and NUL */
    uint32_t version;
    uint32_t bytes; /* the alphabet: MODEL_BYTES */
    uint32_t context;
    uint32_t layers;
    uint32_t width;
    uint32_t reserved;
    uint64_t count;
};

/* Collective over the world: the ranks of the first replica send their parts to rank 0, which
 * writes the file (path counts there alone). Durable when rank 0's call returns 0; an older file of
 * this name is replaced as a whole or not at all. EXIT_PEER when the world is broken. */
MUST_CHECK int weights_write(struct model *model, const char *path, struct fail *fail);

#endif
