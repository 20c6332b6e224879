/* model_state.h: what the files of the model share; nobody else includes it.
 *
 * `layer` counts over the whole model. "Part" sizes are those of this tensor rank. */
#ifndef KEEPSTEP_TRAINER_MODEL_STATE_H
#define KEEPSTEP_TRAINER_MODEL_STATE_H

#include "agent/trainer/model.h"

/* What the forward pass of one block leaves for the backward pass. */
struct block_trace {
    float *norm1, *mean1, *scale1; /* rows x width, rows, rows */
    float *qkv;                    /* rows x 3 part widths: queries, keys, values */
    float *attention;              /* samples x part heads x context x context probabilities */
    float *mixed;                  /* rows x part width: what the heads found */
    float *middle;                 /* rows x width: the stream between the two halves */
    float *norm2, *mean2, *scale2;
    float *hidden, *slope; /* rows x part hidden, after GELU, and its derivative */
};

/* One micro-batch in flight. */
struct trace {
    uint8_t *text;              /* samples x (context + 1) */
    float *stream;              /* (blocks + 1) x rows x width: what enters each, what leaves all */
    struct block_trace *blocks; /* of this stage */
    float *norm, *mean, *scale; /* of the last norm */
    float *chances;             /* rows x part bytes: logits, probabilities, gradients */
    float *down;                /* rows x width: the gradient of the stream on its way back */
};

struct model {
    struct kernel *kernel;
    struct comm *comm;
    struct parameters parameters;
    uint32_t samples_max;
    size_t rows_max;
    size_t part_heads;
    size_t part_width;  /* of all part heads */
    size_t part_hidden; /* of the MLP */
    size_t part_bytes;  /* of the alphabet */
    size_t slice;
    float *weights;
    float *gradients;
    float *memory; /* every float buffer below and in the traces is a part of it */
    double *loss;  /* one, summed up */
    uint32_t trace_count;
    struct trace *traces;
    struct block_trace *blocks; /* of all traces */
    float *side;                /* rows x width: gradient of a half block's inner result */
    float *wide;                /* rows x the widest: gradients and values in between */
    float *largest;             /* rows */
    float *sums;                /* rows x 2 */
};

float *model_weight_of(const struct model *model, const struct parameter *parameter);
float *model_gradient_of(const struct model *model, const struct parameter *parameter);
struct block_trace *model_block(const struct model *model, struct trace *trace, uint32_t layer);
/* What enters this layer; layer_begin + layer_count: what leaves the last block. */
float *model_stream(const struct model *model, const struct trace *trace, uint32_t layer);
struct kernel_text model_text(const struct model *model, const struct trace *trace,
                              uint32_t samples);
/* Sums over the tensor ranks. */
MUST_CHECK int model_sum(const struct model *model, float *buffer, size_t count);

/* output (rows x columns of the part) = input . weights. */
void model_linear(const struct model *model, const struct parameter *weights, float *output,
                  float *input, size_t rows);
/* Adds to the gradients of the weights; overwrites input_gradient with this part's. */
void model_linear_backward(const struct model *model, const struct parameter *weights,
                           float *input_gradient, float *output_gradient, float *input,
                           size_t rows);

/* attention.c, mlp.c: one half of a block. Forward: from the stream into `output`. Backward: `down`
 * is the gradient of the output before, of the input after. */
MUST_CHECK int attention_forward(const struct model *model, struct trace *trace, uint32_t layer,
                                 uint32_t samples);
MUST_CHECK int attention_backward(const struct model *model, struct trace *trace, uint32_t layer,
                                  uint32_t samples);
MUST_CHECK int mlp_forward(const struct model *model, struct trace *trace, uint32_t layer,
                           uint32_t samples);
MUST_CHECK int mlp_backward(const struct model *model, struct trace *trace, uint32_t layer,
                            uint32_t samples);
/* embedding.c: the first stage's front. */
void embedding_forward(const struct model *model, struct trace *trace, uint32_t samples);
void embedding_backward(const struct model *model, struct trace *trace, uint32_t samples);
/* head.c: the last stage's back, and the loss. */
MUST_CHECK int head_forward(const struct model *model, struct trace *trace, uint32_t samples);
MUST_CHECK int head_backward(const struct model *model, struct trace *trace, uint32_t samples,
                             float scale);

#endif
