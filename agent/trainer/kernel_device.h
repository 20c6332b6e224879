/* kernel_device.h: the operations of kernel.h on a queue of a device, between the host code that keeps
 * the device (kernel_cuda.c) and the code that runs on it (kernel_device.cu).
 *
 * Each operation is a row of launches, and a launch is one function called for index = 0 … count - 1,
 * once for each, in any order and at the same time. The functions are in kernel_device_math.h, the
 * formulas that they share with the cpu backend in kernel_math.h, the launches in
 * kernel_device_operations.h. All are C and CUDA C++ alike: nvcc makes kernels of them, and a unit
 * test makes loops of the very same lines and compares their numbers with the cpu backend's, on a
 * machine without a GPU.
 *
 * REPRODUCIBLE as kernel.h asks: no index writes what another one writes, there are no atomics, and
 * what is added up is added by one index in an order that the sizes alone decide. */
#ifndef KEEPSTEP_TRAINER_KERNEL_DEVICE_H
#define KEEPSTEP_TRAINER_KERNEL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/trainer/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DEVICE_TILE = 16,     /* rows and columns of one tile of a product */
    DEVICE_PARTIALS = 512 /* sums in between of a long sum */
};

/* Where launches go. After the first error they do nothing. */
struct device_queue {
    void *stream; /* cudaStream_t; borrowed */
    int error;    /* the first cudaError_t of a launch; 0: none */
};

/* As the functions of kernel.h of the same name. `partials`: DEVICE_PARTIALS numbers of scratch;
 * `scores`: samples x heads x context x context floats of it. */
void device_matmul(struct device_queue *queue, struct matrix c, struct matrix a, struct matrix b,
                   size_t rows, size_t inner, size_t columns, bool accumulate);
void device_add_bias(struct device_queue *queue, float *data, const float *bias, size_t rows,
                     size_t columns);
void device_sum_rows(struct device_queue *queue, float *sums, const float *data, size_t rows,
                     size_t columns);
void device_add(struct device_queue *queue, float *to, const float *from, size_t count);
void device_multiply(struct device_queue *queue, float *to, const float *factor, size_t count);
void device_sum_squares(struct device_queue *queue, double *ret_sum, double *partials,
                        const float *data, size_t count);
void device_norm_forward(struct device_queue *queue, float *output, float *mean, float *scale,
                         const float *input, const float *gain, const float *bias, size_t rows,
                         size_t columns);
void device_norm_backward(struct device_queue *queue, float *input_gradient, float *gain_gradient,
                          float *bias_gradient, const float *output_gradient, const float *input,
                          const float *gain, const float *mean, const float *scale, size_t rows,
                          size_t columns);
void device_gelu_forward(struct device_queue *queue, float *output, float *slope,
                         const float *input, size_t count);
void device_attention_forward(struct device_queue *queue, float *mixed, float *chances,
                              const float *qkv, const struct kernel_attention *sizes);
void device_attention_backward(struct device_queue *queue, float *qkv_gradient, float *scores,
                               const float *mixed_gradient, const float *chances, const float *qkv,
                               const struct kernel_attention *sizes);
void device_embed_forward(struct device_queue *queue, float *output, const float *tokens,
                          const float *positions, const struct kernel_text *text, size_t width);
void device_embed_backward(struct device_queue *queue, float *token_gradient,
                           float *position_gradient, const float *output_gradient,
                           const struct kernel_text *text, size_t width);
void device_loss_largest(struct device_queue *queue, float *largest, const float *logits,
                         size_t rows, size_t columns);
void device_loss_sums(struct device_queue *queue, float *logits, float *sums, const float *largest,
                      const struct kernel_text *text, size_t first, size_t columns);
void device_loss_total(struct device_queue *queue, float *logits, double *total, double *partials,
                       const float *sums, size_t rows, size_t columns);
void device_loss_backward(struct device_queue *queue, float *logits, const struct kernel_text *text,
                          size_t first, size_t columns, float scale);
void device_adam_update(struct device_queue *queue, const struct kernel_adam *adam, float *weights,
                        const float *gradients, float *first, float *second, size_t count);

#ifdef __cplusplus
}
#endif

#endif
