/* kernel_device_operations.h: every operation of kernel_device.h as launches. Not a header of
 * declarations: the file that includes it says before what a launch is,
 *
 *     DEVICE_RUN(queue, function, count, arguments …)   function(index, arguments …) for each index
 *     DEVICE_RUN_PRODUCT(queue, product)                a block for each tile of the product
 *
 * where each launch begins when the one before is done. C and CUDA C++. */
#include "agent/trainer/kernel_device_math.h"

#if !defined(DEVICE_RUN) || !defined(DEVICE_RUN_PRODUCT)
#error "say what a launch is before including this"
#endif

void device_matmul(struct device_queue *queue, struct matrix c, struct matrix a, struct matrix b,
                   size_t rows, size_t inner, size_t columns, bool accumulate)
{
    const struct device_product product = {c, a, b, rows, inner, columns, accumulate};
    DEVICE_RUN_PRODUCT(queue, product);
}

void device_add_bias(struct device_queue *queue, float *data, const float *bias, size_t rows,
                     size_t columns)
{
    DEVICE_RUN(queue, each_add_bias, rows * columns, data, bias, columns);
}

void device_sum_rows(struct device_queue *queue, float *sums, const float *data, size_t rows,
                     size_t columns)
{
    DEVICE_RUN(queue, each_sum_rows, columns, sums, data, rows, columns);
}

void device_add(struct device_queue *queue, float *to, const float *from, size_t count)
{
    DEVICE_RUN(queue, each_add, count, to, from);
}

void device_multiply(struct device_queue *queue, float *to, const float *factor, size_t count)
{
    DEVICE_RUN(queue, each_multiply, count, to, factor);
}

void device_sum_squares(struct device_queue *queue, double *ret_sum, double *partials,
                        const float *data, size_t count)
{
    DEVICE_RUN(queue, each_square_partial, DEVICE_PARTIALS, partials, data, count);
    DEVICE_RUN(queue, each_partials_sum, 1, ret_sum, partials, false);
}

void device_norm_forward(struct device_queue *queue, float *output, float *mean, float *scale,
                         const float *input, const float *gain, const float *bias, size_t rows,
                         size_t columns)
{
    DEVICE_RUN(queue, each_norm_measure, rows, mean, scale, input, columns);
    DEVICE_RUN(queue, each_norm_apply, rows * columns, output, mean, scale, input, gain, bias,
               columns);
}

void device_norm_backward(struct device_queue *queue, float *input_gradient, float *gain_gradient,
                          float *bias_gradient, const float *output_gradient, const float *input,
                          const float *gain, const float *mean, const float *scale, size_t rows,
                          size_t columns)
{
    DEVICE_RUN(queue, each_norm_weight_gradient, columns, gain_gradient, bias_gradient,
               output_gradient, input, mean, scale, rows, columns);
    DEVICE_RUN(queue, each_norm_input_gradient, rows, input_gradient, output_gradient, input, gain,
               mean, scale, columns);
}

void device_gelu_forward(struct device_queue *queue, float *output, float *slope,
                         const float *input, size_t count)
{
    DEVICE_RUN(queue, each_gelu, count, output, slope, input);
}

void device_attention_forward(struct device_queue *queue, float *mixed, float *chances,
                              const float *qkv, const struct kernel_attention *sizes)
{
    const size_t rows = sizes->samples * sizes->heads * sizes->context;
    DEVICE_RUN(queue, each_score, rows * sizes->context, chances, qkv, *sizes);
    DEVICE_RUN(queue, each_softmax, rows, chances, sizes->context);
    DEVICE_RUN(queue, each_mix, rows * KERNEL_HEAD_WIDTH, mixed, chances, qkv, *sizes);
}

void device_attention_backward(struct device_queue *queue, float *qkv_gradient, float *scores,
                               const float *mixed_gradient, const float *chances, const float *qkv,
                               const struct kernel_attention *sizes)
{
    const size_t rows = sizes->samples * sizes->heads * sizes->context;
    DEVICE_RUN(queue, each_chance_gradient, rows * sizes->context, scores, mixed_gradient, qkv,
               *sizes);
    DEVICE_RUN(queue, each_score_gradient, rows, scores, chances, sizes->context);
    DEVICE_RUN(queue, each_qkv_gradient, rows * KERNEL_HEAD_WIDTH, qkv_gradient, scores,
               mixed_gradient, chances, qkv, *sizes);
}

void device_embed_forward(struct device_queue *queue, float *output, const float *tokens,
                          const float *positions, const struct kernel_text *text, size_t width)
{
    DEVICE_RUN(queue, each_embed, text->samples * text->context * width, output, tokens, positions,
               *text, width);
}

void device_embed_backward(struct device_queue *queue, float *token_gradient,
                           float *position_gradient, const float *output_gradient,
                           const struct kernel_text *text, size_t width)
{
    const size_t bytes = 256; /* the whole alphabet */
    DEVICE_RUN(queue, each_token_gradient, bytes * width, token_gradient, output_gradient, *text,
               width);
    DEVICE_RUN(queue, each_position_gradient, text->context * width, position_gradient,
               output_gradient, *text, width);
}

void device_loss_largest(struct device_queue *queue, float *largest, const float *logits,
                         size_t rows, size_t columns)
{
    DEVICE_RUN(queue, each_largest, rows, largest, logits, columns);
}

void device_loss_sums(struct device_queue *queue, float *logits, float *sums, const float *largest,
                      const struct kernel_text *text, size_t first, size_t columns)
{
    DEVICE_RUN(queue, each_loss_sums, text->samples * text->context, logits, sums, largest, *text,
               first, columns);
}

void device_loss_total(struct device_queue *queue, float *logits, double *total, double *partials,
                       const float *sums, size_t rows, size_t columns)
{
    DEVICE_RUN(queue, each_loss_divide, rows * columns, logits, sums, columns);
    DEVICE_RUN(queue, each_loss_partial, DEVICE_PARTIALS, partials, sums, rows);
    DEVICE_RUN(queue, each_partials_sum, 1, total, partials, true);
}

void device_loss_backward(struct device_queue *queue, float *logits, const struct kernel_text *text,
                          size_t first, size_t columns, float scale)
{
    DEVICE_RUN(queue, each_loss_gradient, text->samples * text->context * columns, logits, *text,
               first, columns, scale);
}

void device_adam_update(struct device_queue *queue, const struct kernel_adam *adam, float *weights,
                        const float *gradients, float *first, float *second, size_t count)
{
    DEVICE_RUN(queue, each_adam, count, *adam, weights, gradients, first, second);
}
