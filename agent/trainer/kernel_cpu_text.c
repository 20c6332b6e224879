/* kernel_cpu_text.c: where bytes become numbers and where numbers are judged by bytes: embeddings
 * and the loss. */
#include <math.h>

#include "agent/trainer/kernel_cpu_parts.h"
#include "agent/trainer/kernel_math.h"

static size_t row_count(const struct kernel_text *text)
{
    return text->samples * text->context;
}

/* ---- embeddings ----------------------------------------------------------------------------- */

void kernel_cpu_embed_forward(struct kernel *kernel, float *output, const float *tokens,
                              const float *positions, const struct kernel_text *text, size_t width)
{
    (void)kernel;
    for (size_t row = 0; row < row_count(text); row++) {
        const float *token = tokens + math_byte_of(text, row, 0) * width;
        const float *position = positions + row % text->context * width;
        for (size_t i = 0; i < width; i++) {
            output[row * width + i] = token[i] + position[i];
        }
    }
}

void kernel_cpu_embed_backward(struct kernel *kernel, float *token_gradient,
                               float *position_gradient, const float *output_gradient,
                               const struct kernel_text *text, size_t width)
{
    (void)kernel;
    for (size_t row = 0; row < row_count(text); row++) {
        float *token = token_gradient + math_byte_of(text, row, 0) * width;
        float *position = position_gradient + row % text->context * width;
        for (size_t i = 0; i < width; i++) {
            token[i] += output_gradient[row * width + i];
            position[i] += output_gradient[row * width + i];
        }
    }
}

/* ---- loss ----------------------------------------------------------------------------------- */

void kernel_cpu_loss_largest(struct kernel *kernel, float *largest, const float *logits,
                             size_t rows, size_t columns)
{
    (void)kernel;
    for (size_t row = 0; row < rows; row++) {
        largest[row] = math_largest(logits + row * columns, columns);
    }
}

void kernel_cpu_loss_sums(struct kernel *kernel, float *logits, float *sums, const float *largest,
                          const struct kernel_text *text, size_t first, size_t columns)
{
    (void)kernel;
    for (size_t row = 0; row < row_count(text); row++) {
        const size_t next = math_byte_of(text, row, 1) - first; /* of another rank: a huge number */
        math_loss_sums(logits + row * columns, sums + 2 * row, largest[row], next, columns);
    }
}

void kernel_cpu_loss_total(struct kernel *kernel, float *logits, double *total, const float *sums,
                           size_t rows, size_t columns)
{
    (void)kernel;
    for (size_t row = 0; row < rows; row++) {
        float *at = logits + row * columns;
        for (size_t i = 0; i < columns; i++) {
            at[i] /= sums[2 * row];
        }
        *total += log((double)sums[2 * row]) - (double)sums[2 * row + 1];
    }
}

void kernel_cpu_loss_backward(struct kernel *kernel, float *logits, const struct kernel_text *text,
                              size_t first, size_t columns, float scale)
{
    (void)kernel;
    for (size_t row = 0; row < row_count(text); row++) {
        float *at = logits + row * columns;
        const size_t next = math_byte_of(text, row, 1) - first;
        if (next < columns) {
            at[next] -= 1.0f;
        }
        for (size_t i = 0; i < columns; i++) {
            at[i] *= scale;
        }
    }
}
