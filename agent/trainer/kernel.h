/* kernel.h: the few numeric loops that the model is made of, on float rows.
 *
 * Bit-reproducible by construction: each output element is one sum whose terms are added in
 * ascending order of the inner index, with no fused multiply-add (the room is compiled with
 * -ffp-contract=off) and no reordering, so tiles, compilers and optimisation levels agree. All
 * matrices are row-major; `stride` is the distance between rows in elements. Column counts of
 * outputs are multiples of KERNEL_LANES. Buffers never overlap. */
#ifndef KEEPSTEP_TRAINER_KERNEL_H
#define KEEPSTEP_TRAINER_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

enum { KERNEL_LANES = 8 };

struct matrix {
    float *data;   /* borrowed */
    size_t stride; /* elements from one row to the next */
};

/* c (rows x columns) = a (rows x inner) . b (inner x columns); added to c when accumulate. */
void kernel_matmul(struct matrix c, struct matrix a, struct matrix b, size_t rows, size_t inner,
                   size_t columns, bool accumulate);

/* target (columns x rows) = source (rows x columns) transposed. */
void kernel_transpose(struct matrix target, struct matrix source, size_t rows, size_t columns);

/* Adds bias[columns] to each row. */
void kernel_add_bias(float *data, const float *bias, size_t rows, size_t columns);

/* bias_gradient[columns] += the sum of all rows, first row first. */
void kernel_sum_rows(float *bias_gradient, const float *data, size_t rows, size_t columns);

/* Normalises each row, then gain and bias. mean and scale (1/deviation) keep one number a row for
 * the way back. */
void kernel_norm_forward(float *output, float *mean, float *scale, const float *input,
                         const float *gain, const float *bias, size_t rows, size_t columns);

/* Adds to input_gradient, gain_gradient and bias_gradient. */
void kernel_norm_backward(float *input_gradient, float *gain_gradient, float *bias_gradient,
                          const float *output_gradient, const float *input, const float *gain,
                          const float *mean, const float *scale, size_t rows, size_t columns);

/* GELU in its tanh form. slope keeps the derivative at each element for the way back. */
void kernel_gelu_forward(float *output, float *slope, const float *input, size_t count);

/* Softmax over the first `length` of `columns` elements, the others become 0. */
void kernel_softmax(float *row, size_t length, size_t columns);

#endif
