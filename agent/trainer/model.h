/* model.h: a byte-level language model: a small causal transformer, pre-norm, GELU, learned
 * positions, one head matrix; and of it the part that one rank holds.
 *
 *     bytes -> embedding -> [ norm, attention, + | norm, two linears with GELU, + ] x layers
 *           -> norm -> head -> softmax -> cross-entropy
 *
 * A stage of the pipeline is a run of blocks, with the embedding before the first and the head
 * after the last. A micro-batch goes through it as one tall matrix of samples x context rows, the
 * stream. Inside a stage the tensor ranks split each linear pair as Megatron does: the first by
 * columns (heads, hidden units, logits), the second by rows; the stream, the norms and the
 * embeddings are whole on all of them and stay equal bit for bit, since every rank gets the same
 * sums. So there are two sums a block each way, and three around the loss:
 *
 *     forward    after join, after narrow: the partial results   largest logit, sums of the softmax
 *     backward   before norm1, before norm2: the partial gradients           before the last norm
 *
 * All weights of the part lie in one buffer and all gradients in another of the same form
 * (parameters.h says where), filled up with zeros to a multiple of the data ranks.
 *
 * The model knows its layout, and nothing of steps or files. It never looks into a buffer
 * (kernel.h): everything is a call of kernel.h or comm.h. Functions that exchange return 0 or
 * comm.h's code. */
#ifndef KEEPSTEP_TRAINER_MODEL_H
#define KEEPSTEP_TRAINER_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/kernel.h"
#include "agent/trainer/parameters.h"
#include "agent/trainer/shape.h"

struct model;

/* Owned by the caller, freed with model_free before kernel and comm, which are borrowed. The shape
 * fits the comm's layout. samples_max: the largest micro-batch; traces: how many micro-batches may
 * be between their forward and their backward pass at once. */
MUST_CHECK int model_create(struct kernel *kernel, struct comm *comm,
                            const struct model_shape *shape, uint32_t samples_max, uint32_t traces,
                            struct fail *fail, struct model **ret_model);
struct model *model_free(struct model *model); /* takes NULL; returns NULL */

struct kernel *model_kernel(const struct model *model);               /* borrowed */
struct comm *model_comm(const struct model *model);                   /* borrowed */
const struct parameters *model_parameters(const struct model *model); /* borrowed */

/* Buffers of the data ranks' number x model_slice floats, borrowed. */
float *model_weights(const struct model *model);
float *model_gradients(const struct model *model);
size_t model_slice(const struct model *model);

/* Sets the weights to their initial values. -ENOMEM. */
MUST_CHECK int model_draw(struct model *model, uint64_t seed);
void model_zero_gradients(struct model *model);

/* ---- one micro-batch through this stage; trace: 0 … traces - 1 ------------------------------- */

/* Rows of text that the first and the last stage look at: samples x (context + 1) bytes of host
 * memory, copied; each byte is predicted from those before it in its row. */
void model_set_text(struct model *model, uint32_t trace, const uint8_t *text, uint32_t samples);

/* Buffers that neighbours exchange, each of model_stream_size floats; borrowed. */
size_t model_stream_size(const struct model *model, uint32_t samples);
float *model_input(const struct model *model, uint32_t trace);  /* not of the first stage */
float *model_output(const struct model *model, uint32_t trace); /* not of the last */
/* The gradient of the output before model_backward, that of the input after it. */
float *model_down(const struct model *model, uint32_t trace);

/* From the input (or text) to the output (or loss, which is added up). */
MUST_CHECK int model_forward(struct model *model, uint32_t trace, uint32_t samples);
/* Back again; adds to the gradients those of (scale x the sum of the losses). */
MUST_CHECK int model_backward(struct model *model, uint32_t trace, uint32_t samples, float scale);

/* The sum of the cross-entropies in nats since the last call, equal on all tensor ranks of the last
 * stage; 0 on the other stages. kernel.h's code. */
MUST_CHECK int model_take_loss(struct model *model, double *ret_loss);

/* In the last stage, between the passes: the probabilities of the bytes that follow each row, of
 * this rank's MODEL_BYTES / tensor ones. A buffer, borrowed. */
const float *model_chances(const struct model *model, uint32_t trace);

#endif
