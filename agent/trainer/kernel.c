/* kernel.c: every function of kernel.h goes to the backend; what all of them must be able to rely
 * on is checked here once. */
#include "agent/trainer/kernel.h"

#include <assert.h>

void *kernel_allocate(struct kernel *kernel, size_t bytes)
{
    return kernel->backend->allocate(kernel, bytes);
}

void kernel_release(struct kernel *kernel, void *buffer)
{
    kernel->backend->release(kernel, buffer);
}

void kernel_write(struct kernel *kernel, void *buffer, const void *host, size_t bytes)
{
    kernel->backend->write(kernel, buffer, host, bytes);
}

int kernel_read(struct kernel *kernel, void *host, const void *buffer, size_t bytes)
{
    return kernel->backend->read(kernel, host, buffer, bytes);
}

void kernel_zero(struct kernel *kernel, void *buffer, size_t bytes)
{
    kernel->backend->zero(kernel, buffer, bytes);
}

int kernel_finish(struct kernel *kernel)
{
    return kernel->backend->finish(kernel);
}

int kernel_hash(struct kernel *kernel, const void *buffer, size_t bytes, uint64_t *ret_hash)
{
    return kernel->backend->hash(kernel, buffer, bytes, ret_hash);
}

void kernel_explain(struct kernel *kernel, char *ret_text, size_t size)
{
    kernel->backend->explain(kernel, ret_text, size);
}

void kernel_matmul(struct kernel *kernel, struct matrix c, struct matrix a, struct matrix b,
                   size_t rows, size_t inner, size_t columns, bool accumulate)
{
    assert(columns % KERNEL_LANES == 0 && !c.flipped);
    kernel->backend->matmul(kernel, c, a, b, rows, inner, columns, accumulate);
}

void kernel_add_bias(struct kernel *kernel, float *data, const float *bias, size_t rows,
                     size_t columns)
{
    kernel->backend->add_bias(kernel, data, bias, rows, columns);
}

void kernel_sum_rows(struct kernel *kernel, float *sums, const float *data, size_t rows,
                     size_t columns)
{
    kernel->backend->sum_rows(kernel, sums, data, rows, columns);
}

void kernel_add(struct kernel *kernel, float *to, const float *from, size_t count)
{
    kernel->backend->add(kernel, to, from, count);
}

void kernel_multiply(struct kernel *kernel, float *to, const float *factor, size_t count)
{
    kernel->backend->multiply(kernel, to, factor, count);
}

void kernel_sum_squares(struct kernel *kernel, double *ret_sum, const float *data, size_t count)
{
    kernel->backend->sum_squares(kernel, ret_sum, data, count);
}

void kernel_norm_forward(struct kernel *kernel, float *output, float *mean, float *scale,
                         const float *input, const float *gain, const float *bias, size_t rows,
                         size_t columns)
{
    kernel->backend->norm_forward(kernel, output, mean, scale, input, gain, bias, rows, columns);
}

void kernel_norm_backward(struct kernel *kernel, float *input_gradient, float *gain_gradient,
                          float *bias_gradient, const float *output_gradient, const float *input,
                          const float *gain, const float *mean, const float *scale, size_t rows,
                          size_t columns)
{
    kernel->backend->norm_backward(kernel, input_gradient, gain_gradient, bias_gradient,
                                   output_gradient, input, gain, mean, scale, rows, columns);
}

void kernel_gelu_forward(struct kernel *kernel, float *output, float *slope, const float *input,
                         size_t count)
{
    kernel->backend->gelu_forward(kernel, output, slope, input, count);
}

void kernel_attention_forward(struct kernel *kernel, float *mixed, float *chances, float *qkv,
                              const struct kernel_attention *sizes)
{
    assert(sizes->context % KERNEL_LANES == 0);
    kernel->backend->attention_forward(kernel, mixed, chances, qkv, sizes);
}

void kernel_attention_backward(struct kernel *kernel, float *qkv_gradient, float *mixed_gradient,
                               float *chances, float *qkv, const struct kernel_attention *sizes)
{
    assert(sizes->context % KERNEL_LANES == 0);
    kernel->backend->attention_backward(kernel, qkv_gradient, mixed_gradient, chances, qkv, sizes);
}

void kernel_embed_forward(struct kernel *kernel, float *output, const float *tokens,
                          const float *positions, const struct kernel_text *text, size_t width)
{
    kernel->backend->embed_forward(kernel, output, tokens, positions, text, width);
}

void kernel_embed_backward(struct kernel *kernel, float *token_gradient, float *position_gradient,
                           const float *output_gradient, const struct kernel_text *text,
                           size_t width)
{
    kernel->backend->embed_backward(kernel, token_gradient, position_gradient, output_gradient,
                                    text, width);
}

void kernel_loss_largest(struct kernel *kernel, float *largest, const float *logits, size_t rows,
                         size_t columns)
{
    kernel->backend->loss_largest(kernel, largest, logits, rows, columns);
}

void kernel_loss_sums(struct kernel *kernel, float *logits, float *sums, const float *largest,
                      const struct kernel_text *text, size_t first, size_t columns)
{
    kernel->backend->loss_sums(kernel, logits, sums, largest, text, first, columns);
}

void kernel_loss_total(struct kernel *kernel, float *logits, double *total, const float *sums,
                       size_t rows, size_t columns)
{
    kernel->backend->loss_total(kernel, logits, total, sums, rows, columns);
}

void kernel_loss_backward(struct kernel *kernel, float *logits, const struct kernel_text *text,
                          size_t first, size_t columns, float scale)
{
    kernel->backend->loss_backward(kernel, logits, text, first, columns, scale);
}

void kernel_adam_update(struct kernel *kernel, const struct kernel_adam *adam, float *weights,
                        const float *gradients, float *first, float *second, size_t count)
{
    kernel->backend->adam_update(kernel, adam, weights, gradients, first, second, count);
}

void kernel_done(struct kernel *kernel)
{
    if (kernel->backend != NULL) {
        kernel->backend->destroy(kernel);
    }
    *kernel = (struct kernel){0};
}
