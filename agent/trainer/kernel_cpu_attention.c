/* kernel_cpu_attention.c: causal attention, one head of one sample after the other.
 *
 * A head's queries, keys and values are columns of the qkv rows, so that a struct matrix with the
 * rows' stride names them in place. */
#include <string.h>

#include "agent/trainer/kernel_cpu_parts.h"
#include "agent/trainer/kernel_math.h"

/* The columns of one head of one sample in the qkv rows; part 0 queries, 1 keys, 2 values. */
static struct matrix part_of(const struct kernel_attention *sizes, float *qkv, size_t sample,
                             size_t head, size_t part)
{
    const size_t width = sizes->heads * KERNEL_HEAD_WIDTH;
    return (struct matrix){
        .data = qkv + sample * sizes->context * 3 * width + part * width + head * KERNEL_HEAD_WIDTH,
        .stride = 3 * width,
    };
}

static struct matrix head_of(const struct kernel_attention *sizes, float *mixed, size_t sample,
                             size_t head)
{
    const size_t width = sizes->heads * KERNEL_HEAD_WIDTH;
    return (struct matrix){
        .data = mixed + sample * sizes->context * width + head * KERNEL_HEAD_WIDTH,
        .stride = width,
    };
}

static struct matrix chances_of(const struct kernel_attention *sizes, float *chances, size_t sample,
                                size_t head)
{
    const size_t square = sizes->context * sizes->context;
    return (struct matrix){
        .data = chances + (sample * sizes->heads + head) * square,
        .stride = sizes->context,
    };
}

static struct matrix flip(struct matrix matrix)
{
    matrix.flipped = true;
    return matrix;
}

/* Of the row's `columns` elements those after the first `length` are in the future: 0. */
static void hide_future(float *row, size_t length, size_t columns)
{
    memset(row + length, 0, (columns - length) * sizeof(*row));
}

static void head_forward(struct kernel *kernel, const struct kernel_attention *sizes,
                         struct matrix mixed, struct matrix chances, const struct matrix *qkv)
{
    const size_t context = sizes->context;
    const float scale = math_score_scale();
    kernel_cpu_matmul(kernel, chances, qkv[0], flip(qkv[1]), context, KERNEL_HEAD_WIDTH, context,
                      false);
    for (size_t row = 0; row < context; row++) {
        float *scores = chances.data + row * context;
        for (size_t i = 0; i <= row; i++) {
            scores[i] *= scale;
        }
        math_softmax(scores, row + 1);
        hide_future(scores, row + 1, context);
    }
    kernel_cpu_matmul(kernel, mixed, chances, qkv[2], context, context, KERNEL_HEAD_WIDTH, false);
}

void kernel_cpu_attention_forward(struct kernel *kernel, float *mixed, float *chances, float *qkv,
                                  const struct kernel_attention *sizes)
{
    for (size_t sample = 0; sample < sizes->samples; sample++) {
        for (size_t head = 0; head < sizes->heads; head++) {
            const struct matrix parts[] = {part_of(sizes, qkv, sample, head, 0),
                                           part_of(sizes, qkv, sample, head, 1),
                                           part_of(sizes, qkv, sample, head, 2)};
            head_forward(kernel, sizes, head_of(sizes, mixed, sample, head),
                         chances_of(sizes, chances, sample, head), parts);
        }
    }
}

/* scores: in, the gradient at the probabilities; out, that at the unscaled scores. */
static void softmax_backward(struct matrix scores, struct matrix chances, size_t context)
{
    for (size_t row = 0; row < context; row++) {
        float *gradient = scores.data + row * context;
        math_score_gradient(gradient, chances.data + row * context, row + 1);
        hide_future(gradient, row + 1, context);
    }
}

static void head_backward(struct kernel *kernel, const struct kernel_attention *sizes,
                          const struct matrix *gradients, struct matrix outer,
                          struct matrix chances, const struct matrix *qkv)
{
    const size_t context = sizes->context;
    const struct matrix scores = {kernel_cpu_scratch(kernel, SCRATCH_SCORES, context * context),
                                  context, false};
    if (scores.data == NULL) {
        return;
    }
    kernel_cpu_matmul(kernel, gradients[2], flip(chances), outer, context, context,
                      KERNEL_HEAD_WIDTH, false);
    kernel_cpu_matmul(kernel, scores, outer, flip(qkv[2]), context, KERNEL_HEAD_WIDTH, context,
                      false);
    softmax_backward(scores, chances, context);
    kernel_cpu_matmul(kernel, gradients[0], scores, qkv[1], context, context, KERNEL_HEAD_WIDTH,
                      false);
    kernel_cpu_matmul(kernel, gradients[1], flip(scores), qkv[0], context, context,
                      KERNEL_HEAD_WIDTH, false);
}

void kernel_cpu_attention_backward(struct kernel *kernel, float *qkv_gradient,
                                   float *mixed_gradient, float *chances, float *qkv,
                                   const struct kernel_attention *sizes)
{
    for (size_t sample = 0; sample < sizes->samples; sample++) {
        for (size_t head = 0; head < sizes->heads; head++) {
            struct matrix parts[3];
            struct matrix gradients[3];
            for (size_t part = 0; part < 3; part++) {
                parts[part] = part_of(sizes, qkv, sample, head, part);
                gradients[part] = part_of(sizes, qkv_gradient, sample, head, part);
            }
            head_backward(kernel, sizes, gradients, head_of(sizes, mixed_gradient, sample, head),
                          chances_of(sizes, chances, sample, head), parts);
        }
    }
}
