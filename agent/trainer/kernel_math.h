/* kernel_math.h: the formulas that every backend computes, a row or an element at a time: the cpu's
 * loops and the device's launches call these very lines. C and CUDA C++.
 *
 * Sums are added in ascending order, as kernel.h promises. */
#ifndef KEEPSTEP_TRAINER_KERNEL_MATH_H
#define KEEPSTEP_TRAINER_KERNEL_MATH_H

#include <math.h>

#include "agent/trainer/kernel.h"

#ifdef __CUDACC__
#define KERNEL_INLINE static __host__ __device__ inline
#else
#define KERNEL_INLINE static inline
#endif

/* ---- norm ----------------------------------------------------------------------------------- */

/* mean and 1/deviation of a row */
KERNEL_INLINE void math_norm_measure(float *mean, float *scale, const float *row, size_t columns)
{
    const float epsilon = 1e-5f;
    float sum = 0.0f;
    for (size_t i = 0; i < columns; i++) {
        sum += row[i];
    }
    const float average = sum / (float)columns;
    float variance = 0.0f;
    for (size_t i = 0; i < columns; i++) {
        variance += (row[i] - average) * (row[i] - average);
    }
    *mean = average;
    *scale = 1.0f / sqrtf(variance / (float)columns + epsilon);
}

/* Adds to the gradient at the row's input. */
KERNEL_INLINE void math_norm_gradient(float *input_gradient, const float *output_gradient,
                                      const float *row, const float *gain, float mean, float scale,
                                      size_t columns)
{
    float sum = 0.0f;     /* of the gradient at the normalised value */
    float product = 0.0f; /* of that gradient with the normalised value */
    for (size_t i = 0; i < columns; i++) {
        const float slope = output_gradient[i] * gain[i];
        sum += slope;
        product += slope * ((row[i] - mean) * scale);
    }
    sum /= (float)columns;
    product /= (float)columns;
    for (size_t i = 0; i < columns; i++) {
        const float normal = (row[i] - mean) * scale;
        input_gradient[i] += scale * (output_gradient[i] * gain[i] - sum - normal * product);
    }
}

/* ---- elements ------------------------------------------------------------------------------- */

KERNEL_INLINE void math_gelu(float *output, float *slope, float x)
{
    const float root = 0.7978845608f; /* sqrt(2 / pi) */
    const float cubic = 0.044715f;
    const float bend = tanhf(root * (x + cubic * x * x * x));
    *output = 0.5f * x * (1.0f + bend);
    *slope = 0.5f * (1.0f + bend) +
             0.5f * x * (1.0f - bend * bend) * root * (1.0f + 3.0f * cubic * x * x);
}

KERNEL_INLINE void math_adam(const struct kernel_adam *adam, float *weight, float gradient,
                             float *first, float *second)
{
    const float mean = adam->decay_first * *first + (1.0f - adam->decay_first) * gradient;
    const float square =
        adam->decay_second * *second + (1.0f - adam->decay_second) * gradient * gradient;
    const float size = sqrtf(square * adam->correct_second) + adam->epsilon;
    *first = mean;
    *second = square;
    *weight -= adam->rate * (mean * adam->correct_first) / size;
}

/* ---- softmax -------------------------------------------------------------------------------- */

KERNEL_INLINE float math_largest(const float *row, size_t columns)
{
    float largest = row[0];
    for (size_t i = 1; i < columns; i++) {
        largest = row[i] > largest ? row[i] : largest;
    }
    return largest;
}

/* Makes exponentials of the elements less the largest; their sum. */
KERNEL_INLINE float math_exponentials(float *row, float largest, size_t columns)
{
    float sum = 0.0f;
    for (size_t i = 0; i < columns; i++) {
        row[i] = expf(row[i] - largest);
        sum += row[i];
    }
    return sum;
}

KERNEL_INLINE void math_softmax(float *row, size_t columns)
{
    const float sum = math_exponentials(row, math_largest(row, columns), columns);
    for (size_t i = 0; i < columns; i++) {
        row[i] /= sum;
    }
}

/* What the product of a query and a key is multiplied with. */
KERNEL_INLINE float math_score_scale(void)
{
    return 1.0f / sqrtf((float)KERNEL_HEAD_WIDTH);
}

/* gradient: in, that at the softmax's output `chance`; out, that at the products before scaling. */
KERNEL_INLINE void math_score_gradient(float *gradient, const float *chance, size_t columns)
{
    float product = 0.0f;
    for (size_t i = 0; i < columns; i++) {
        product += gradient[i] * chance[i];
    }
    for (size_t i = 0; i < columns; i++) {
        gradient[i] = chance[i] * (gradient[i] - product) * math_score_scale();
    }
}

/* ---- text ----------------------------------------------------------------------------------- */

/* The byte of a row, or with ahead 1 the one that is to come. */
KERNEL_INLINE size_t math_byte_of(const struct kernel_text *text, size_t row, size_t ahead)
{
    return text->bytes[row / text->context * (text->context + 1) + row % text->context + ahead];
}

/* What kernel_loss_sums says of one row, in sums[0] and sums[1]. next: the column of the byte to
 * come; columns and over: another rank's. */
KERNEL_INLINE void math_loss_sums(float *row, float *sums, float largest, size_t next,
                                  size_t columns)
{
    sums[1] = next < columns ? row[next] - largest : 0.0f;
    sums[0] = math_exponentials(row, largest, columns);
}

#endif
