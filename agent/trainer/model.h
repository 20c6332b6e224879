/* model.h: a byte-level language model: a small causal transformer, pre-norm, GELU, learned
 * positions, one head matrix.
 *
 * All weights lie in one array of floats and all gradients in another of the same form, so that the
 * optimizer, the exchange between ranks and the checkpoints need to know ranges and not names. The
 * order of the tensors in it is fixed (model.c) and part of the checkpoint format.
 *
 * The model knows nothing of ranks, steps or files. It is a pure function of weights and bytes. */
#ifndef KEEPSTEP_TRAINER_MODEL_H
#define KEEPSTEP_TRAINER_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/fail.h"

enum {
    MODEL_BYTES = 256,     /* the alphabet */
    MODEL_HEAD_WIDTH = 16, /* columns of one attention head */
    MODEL_CONTEXT_MAX = 1024,
    MODEL_LAYERS_MAX = 32,
    MODEL_WIDTH_MAX = 1024,
};

struct model_shape {
    uint32_t context; /* bytes that the model sees at once; a multiple of 8 */
    uint32_t layers;
    uint32_t width; /* a multiple of MODEL_HEAD_WIDTH */
};

/* One named range of the weights: rows x columns floats from offset. */
struct model_tensor {
    size_t offset;
    size_t rows;
    size_t columns;
    float range;    /* initial values are uniform in +-range … */
    float constant; /* … around this */
};

struct model;

/* -EINVAL with a sentence when a number is out of range or not a multiple of what it must be. */
MUST_CHECK int model_shape_check(const struct model_shape *shape, struct fail *fail);

/* Number of weights of a shape that model_shape_check accepted. */
size_t model_weight_count(const struct model_shape *shape);

/* Owned by the caller, freed with model_free. samples_max: largest batch of one call. slack: floats
 * beyond the weights that both arrays get, zero, so that ranks can split them evenly. */
MUST_CHECK int model_create(const struct model_shape *shape, uint32_t samples_max, size_t slack,
                            struct fail *fail, struct model **ret_model);
struct model *model_free(struct model *model); /* takes NULL; returns NULL */

float *model_weights(struct model *model);   /* borrowed, valid until model_free */
float *model_gradients(struct model *model); /* same length as the weights */
size_t model_tensor_count(const struct model *model);
const struct model_tensor *model_tensor(const struct model *model, size_t index); /* borrowed */

/* Sets the weights to their initial values: a function of (shape, seed) alone. */
void model_init(struct model *model, uint64_t seed);
void model_zero_gradients(struct model *model);

/* text: samples rows of context + 1 bytes; each byte is predicted from those before it in its row.
 * Returns the sum of the cross-entropies in nats over samples x context bytes. */
double model_loss(struct model *model, const uint8_t *text, uint32_t samples);

/* After model_loss: the MODEL_BYTES probabilities of the byte that follows this row's, where row =
 * sample x context + position. Borrowed until the next call. */
const float *model_chances(const struct model *model, size_t row);

/* The same as model_loss, and adds to the gradients those of (scale x that sum). */
double model_learn(struct model *model, const uint8_t *text, uint32_t samples, float scale);

#endif
