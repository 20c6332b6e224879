/* kernel.h: the arithmetic of the model, on buffers that only a kernel backend can look into.
 *
 * THE CONTRACT BETWEEN MODEL AND BACKEND. All numbers of the model (weights, gradients, moments,
 * activations, text, losses) lie in buffers of kernel_allocate. Model, pipeline and optimizer do
 * arithmetic on the addresses (part of a buffer = buffer + offset) and hand them to the functions
 * of this file and of comm.h; they never dereference one. So "cpu", whose buffers are ordinary
 * memory, can be replaced by a backend whose buffers are on a device:
 *
 *   - Kernels of one `struct kernel` take effect in the order of the calls, as on one queue. They
 *     may return before they are done; kernel_read, kernel_hash and kernel_finish wait.
 *   - Operations of comm.h on the tensor, context, pipeline and data groups are part of that order:
 *     a communication backend for a device's buffers waits for the queue, or works on it. Those on
 *     the world group take host memory and no buffers.
 *   - A kernel that fails is remembered: every later kernel_read, kernel_hash and kernel_finish
 *     returns the first error, and the kernels in between do harmless things.
 *
 * REPRODUCIBLE. Every output element is one sum whose terms are added in an order that the sizes
 * alone decide, so equal calls give equal bits on one backend. The cpu backend adds in ascending
 * order of the inner index, without fused multiply-add (the room is compiled with
 * -ffp-contract=off) and without reordering, so that tiles, compilers and optimisation levels
 * agree.
 *
 * Arrays are row-major and dense unless a struct matrix says otherwise. Outputs never overlap
 * inputs but where it is said. Column counts of products are multiples of KERNEL_LANES. Nothing
 * here is thread-safe. The header is C and C++. */
#ifndef KEEPSTEP_TRAINER_KERNEL_H
#define KEEPSTEP_TRAINER_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/fail.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KERNEL_LANES = 8,       /* columns of products are multiples of this */
    KERNEL_HEAD_WIDTH = 16, /* columns of one attention head */
    KERNEL_ALIGNMENT = 64,  /* bytes; of every buffer that is allocated */
};

struct kernel;

/* A matrix in a buffer. flipped: element (row, column) lies at column x stride + row. */
struct matrix {
    float *data;   /* in a buffer, borrowed */
    size_t stride; /* elements from one stored row to the next */
    bool flipped;
};

/* Sizes of an attention over whole samples; all arrays are dense.
 *   qkv      samples x context rows of 3 x heads x KERNEL_HEAD_WIDTH: queries, keys, values
 *   chances  samples x heads x context x context
 *   mixed    samples x context rows of heads x KERNEL_HEAD_WIDTH */
struct kernel_attention {
    size_t samples;
    size_t context; /* a multiple of KERNEL_LANES */
    size_t heads;
};

/* Rows of text in a buffer: samples x (context + 1) bytes. Row r of the model's matrices is
 * position r % context of sample r / context; its byte is the input, the one after it what is to
 * come. */
struct kernel_text {
    const uint8_t *bytes; /* in a buffer */
    size_t samples;
    size_t context;
};

/* One step of Kingma and Ba's rule; adam.h says what the numbers are. */
struct kernel_adam {
    float rate;
    float decay_first, decay_second;
    float correct_first, correct_second;
    float epsilon;
};

/* ---- memory --------------------------------------------------------------------------------- */

/* A buffer of zeros; NULL without memory. Freed with kernel_release (takes NULL). */
void *kernel_allocate(struct kernel *kernel, size_t bytes);
void kernel_release(struct kernel *kernel, void *buffer);
/* Host memory to a buffer. The host memory may change as soon as it returns. */
void kernel_write(struct kernel *kernel, void *buffer, const void *host, size_t bytes);
/* A buffer to host memory, after everything that was called before. -errno: kernel_explain. */
MUST_CHECK int kernel_read(struct kernel *kernel, void *host, const void *buffer, size_t bytes);
void kernel_zero(struct kernel *kernel, void *buffer, size_t bytes);
/* Waits until everything that was called is done. */
MUST_CHECK int kernel_finish(struct kernel *kernel);
/* XXH3-64 of the bytes, in host memory; waits. */
MUST_CHECK int kernel_hash(struct kernel *kernel, const void *buffer, size_t bytes,
                           uint64_t *ret_hash);
/* One sentence on the first error. */
void kernel_explain(struct kernel *kernel, char *ret_text, size_t size);

/* ---- matrices and rows ---------------------------------------------------------------------- */

/* c (rows x columns) = a (rows x inner) . b (inner x columns); added to c when accumulate. c is not
 * flipped. */
void kernel_matmul(struct kernel *kernel, struct matrix c, struct matrix a, struct matrix b,
                   size_t rows, size_t inner, size_t columns, bool accumulate);
/* Adds bias[columns] to each row. */
void kernel_add_bias(struct kernel *kernel, float *data, const float *bias, size_t rows,
                     size_t columns);
/* sums[columns] += the sum of all rows, first row first. */
void kernel_sum_rows(struct kernel *kernel, float *sums, const float *data, size_t rows,
                     size_t columns);
/* to[i] += from[i]; to[i] *= factor[i]. */
void kernel_add(struct kernel *kernel, float *to, const float *from, size_t count);
void kernel_multiply(struct kernel *kernel, float *to, const float *factor, size_t count);
/* *ret_sum, in a buffer, = the sum of the squares. */
void kernel_sum_squares(struct kernel *kernel, double *ret_sum, const float *data, size_t count);

/* ---- parts of the model --------------------------------------------------------------------- */

/* Normalises each row, then gain and bias. mean and scale (1/deviation) keep one number a row for
 * the way back. */
void kernel_norm_forward(struct kernel *kernel, float *output, float *mean, float *scale,
                         const float *input, const float *gain, const float *bias, size_t rows,
                         size_t columns);
/* Adds to input_gradient, gain_gradient and bias_gradient. */
void kernel_norm_backward(struct kernel *kernel, float *input_gradient, float *gain_gradient,
                          float *bias_gradient, const float *output_gradient, const float *input,
                          const float *gain, const float *mean, const float *scale, size_t rows,
                          size_t columns);
/* GELU in its tanh form. slope keeps the derivative at each element for the way back. */
void kernel_gelu_forward(struct kernel *kernel, float *output, float *slope, const float *input,
                         size_t count);
/* Causal attention of every head of every sample; chances is kept for the way back. */
void kernel_attention_forward(struct kernel *kernel, float *mixed, float *chances, float *qkv,
                              const struct kernel_attention *sizes);
/* Overwrites qkv_gradient. */
void kernel_attention_backward(struct kernel *kernel, float *qkv_gradient, float *mixed_gradient,
                               float *chances, float *qkv, const struct kernel_attention *sizes);
/* output[row] = tokens[its byte] + positions[its position], of `width` columns each. */
void kernel_embed_forward(struct kernel *kernel, float *output, const float *tokens,
                          const float *positions, const struct kernel_text *text, size_t width);
/* Adds to both gradients, row after row. */
void kernel_embed_backward(struct kernel *kernel, float *token_gradient, float *position_gradient,
                           const float *output_gradient, const struct kernel_text *text,
                           size_t width);

/* ---- the loss, over an alphabet of which each rank may hold a part -------------------------- *
 *
 * A rank has the columns `first` … first + columns - 1 of the logits. The steps, with reductions
 * over the ranks between them when there are several:
 *
 *   largest[r] = max                                              -> max over ranks
 *   logits[r] = exp(logits[r] - largest[r]); sums[r][0] = their sum, sums[r][1] = the logit of the
 *   byte to come less the largest (0 where it is another rank's)  -> sum over ranks
 *   logits[r] /= sums[r][0]; *total += ln sums[r][0] - sums[r][1], row after row
 *   way back: logits[r] = (logits[r] - (1 at the byte to come)) x scale */
void kernel_loss_largest(struct kernel *kernel, float *largest, const float *logits, size_t rows,
                         size_t columns);
void kernel_loss_sums(struct kernel *kernel, float *logits, float *sums, const float *largest,
                      const struct kernel_text *text, size_t first, size_t columns);
void kernel_loss_total(struct kernel *kernel, float *logits, double *total, const float *sums,
                       size_t rows, size_t columns);
void kernel_loss_backward(struct kernel *kernel, float *logits, const struct kernel_text *text,
                          size_t first, size_t columns, float scale);

/* ---- the optimizer -------------------------------------------------------------------------- */

/* Element i of the four arrays belongs together. */
void kernel_adam_update(struct kernel *kernel, const struct kernel_adam *adam, float *weights,
                        const float *gradients, float *first, float *second, size_t count);

/* ---- backends ------------------------------------------------------------------------------- */

/* One entry for each function above. `kernel->state` is the backend's own. */
struct kernel_backend {
    const char *name;
    int exit_code; /* enum trainer_exit: what an error of its own means for the process */
    void *(*allocate)(struct kernel *kernel, size_t bytes);
    void (*release)(struct kernel *kernel, void *buffer);
    void (*write)(struct kernel *kernel, void *buffer, const void *host, size_t bytes);
    int (*read)(struct kernel *kernel, void *host, const void *buffer, size_t bytes);
    void (*zero)(struct kernel *kernel, void *buffer, size_t bytes);
    int (*finish)(struct kernel *kernel);
    int (*hash)(struct kernel *kernel, const void *buffer, size_t bytes, uint64_t *ret_hash);
    void (*explain)(struct kernel *kernel, char *ret_text, size_t size);
    void (*matmul)(struct kernel *kernel, struct matrix c, struct matrix a, struct matrix b,
                   size_t rows, size_t inner, size_t columns, bool accumulate);
    void (*add_bias)(struct kernel *kernel, float *data, const float *bias, size_t rows,
                     size_t columns);
    void (*sum_rows)(struct kernel *kernel, float *sums, const float *data, size_t rows,
                     size_t columns);
    void (*add)(struct kernel *kernel, float *to, const float *from, size_t count);
    void (*multiply)(struct kernel *kernel, float *to, const float *factor, size_t count);
    void (*sum_squares)(struct kernel *kernel, double *ret_sum, const float *data, size_t count);
    void (*norm_forward)(struct kernel *kernel, float *output, float *mean, float *scale,
                         const float *input, const float *gain, const float *bias, size_t rows,
                         size_t columns);
    void (*norm_backward)(struct kernel *kernel, float *input_gradient, float *gain_gradient,
                          float *bias_gradient, const float *output_gradient, const float *input,
                          const float *gain, const float *mean, const float *scale, size_t rows,
                          size_t columns);
    void (*gelu_forward)(struct kernel *kernel, float *output, float *slope, const float *input,
                         size_t count);
    void (*attention_forward)(struct kernel *kernel, float *mixed, float *chances, float *qkv,
                              const struct kernel_attention *sizes);
    void (*attention_backward)(struct kernel *kernel, float *qkv_gradient, float *mixed_gradient,
                               float *chances, float *qkv, const struct kernel_attention *sizes);
    void (*embed_forward)(struct kernel *kernel, float *output, const float *tokens,
                          const float *positions, const struct kernel_text *text, size_t width);
    void (*embed_backward)(struct kernel *kernel, float *token_gradient, float *position_gradient,
                           const float *output_gradient, const struct kernel_text *text,
                           size_t width);
    void (*loss_largest)(struct kernel *kernel, float *largest, const float *logits, size_t rows,
                         size_t columns);
    void (*loss_sums)(struct kernel *kernel, float *logits, float *sums, const float *largest,
                      const struct kernel_text *text, size_t first, size_t columns);
    void (*loss_total)(struct kernel *kernel, float *logits, double *total, const float *sums,
                       size_t rows, size_t columns);
    void (*loss_backward)(struct kernel *kernel, float *logits, const struct kernel_text *text,
                          size_t first, size_t columns, float scale);
    void (*adam_update)(struct kernel *kernel, const struct kernel_adam *adam, float *weights,
                        const float *gradients, float *first, float *second, size_t count);
    void (*destroy)(struct kernel *kernel);
};

/* Made by a backend's create function; ended with kernel_done, after all buffers were released. */
struct kernel {
    const struct kernel_backend *backend;
    void *state; /* the backend's */
};

/* Ends the backend; the struct itself is the caller's. Takes one that was never made (zeros). */
void kernel_done(struct kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
