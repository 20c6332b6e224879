/* kernel_device_math.h: what one index of one launch does (see kernel_device.h). C and CUDA C++.
 *
 * Every function takes its index first and writes to no place that another index of the same launch
 * reads or writes. */
#ifndef KEEPSTEP_TRAINER_KERNEL_DEVICE_MATH_H
#define KEEPSTEP_TRAINER_KERNEL_DEVICE_MATH_H

#include "agent/trainer/kernel_device.h"
#include "agent/trainer/kernel_math.h"

/* ---- products ------------------------------------------------------------------------------- *
 *
 * A block of DEVICE_TILE x DEVICE_TILE indices makes one tile of c. For each step along the inner
 * dimension all of them load one element of a and one of b into the block's tile, meet, each adds up
 * its row and column of the tile, and meet again. What lies outside the matrices counts as 0. */

struct device_product {
    struct matrix c, a, b;
    size_t rows, inner, columns;
    bool accumulate;
};

struct device_tile {
    float a[DEVICE_TILE][DEVICE_TILE + 1]; /* one more, so that a column is not one memory bank */
    float b[DEVICE_TILE][DEVICE_TILE + 1];
};

KERNEL_INLINE size_t device_tiles(size_t count)
{
    return (count + DEVICE_TILE - 1) / DEVICE_TILE;
}

KERNEL_INLINE float device_element(struct matrix matrix, size_t row, size_t column, size_t rows,
                                   size_t columns)
{
    if (row >= rows || column >= columns) {
        return 0.0f;
    }
    return matrix.flipped ? matrix.data[column * matrix.stride + row]
                          : matrix.data[row * matrix.stride + column];
}

/* Neighbouring threads read neighbouring elements, which are those of a column when it is flipped. */
KERNEL_INLINE void device_tile_load(float tile[DEVICE_TILE][DEVICE_TILE + 1], struct matrix matrix,
                                    size_t thread, size_t row_begin, size_t column_begin,
                                    size_t rows, size_t columns)
{
    const size_t slow = thread / DEVICE_TILE;
    const size_t fast = thread % DEVICE_TILE;
    const size_t row = matrix.flipped ? fast : slow;
    const size_t column = matrix.flipped ? slow : fast;
    tile[row][column] =
        device_element(matrix, row_begin + row, column_begin + column, rows, columns);
}

/* tile_row, tile_column: which tile of c; step: which one along the inner dimension. */
KERNEL_INLINE void device_product_load(const struct device_product *product,
                                       struct device_tile *tile, size_t thread, size_t tile_row,
                                       size_t tile_column, size_t step)
{
    device_tile_load(tile->a, product->a, thread, tile_row * DEVICE_TILE, step * DEVICE_TILE,
                     product->rows, product->inner);
    device_tile_load(tile->b, product->b, thread, step * DEVICE_TILE, tile_column * DEVICE_TILE,
                     product->inner, product->columns);
}

KERNEL_INLINE float device_product_add(const struct device_tile *tile, size_t thread, float sum)
{
    const size_t row = thread / DEVICE_TILE;
    const size_t column = thread % DEVICE_TILE;
    for (size_t i = 0; i < DEVICE_TILE; i++) {
        sum += tile->a[row][i] * tile->b[i][column];
    }
    return sum;
}

KERNEL_INLINE void device_product_store(const struct device_product *product, size_t thread,
                                        size_t tile_row, size_t tile_column, float sum)
{
    const size_t row = tile_row * DEVICE_TILE + thread / DEVICE_TILE;
    const size_t column = tile_column * DEVICE_TILE + thread % DEVICE_TILE;
    if (row < product->rows && column < product->columns) {
        float *to = &product->c.data[row * product->c.stride + column];
        *to = product->accumulate ? *to + sum : sum;
    }
}

/* ---- rows and elements ---------------------------------------------------------------------- */

KERNEL_INLINE void each_add_bias(size_t index, float *data, const float *bias, size_t columns)
{
    data[index] += bias[index % columns];
}

/* index: a column */
KERNEL_INLINE void each_sum_rows(size_t index, float *sums, const float *data, size_t rows,
                                 size_t columns)
{
    float sum = sums[index];
    for (size_t row = 0; row < rows; row++) {
        sum += data[row * columns + index];
    }
    sums[index] = sum;
}

KERNEL_INLINE void each_add(size_t index, float *to, const float *from)
{
    to[index] += from[index];
}

KERNEL_INLINE void each_multiply(size_t index, float *to, const float *factor)
{
    to[index] *= factor[index];
}

/* index: one of DEVICE_PARTIALS, each of which takes every DEVICE_PARTIALS-th element. */
KERNEL_INLINE void each_square_partial(size_t index, double *partials, const float *data,
                                       size_t count)
{
    double sum = 0.0;
    for (size_t i = index; i < count; i += DEVICE_PARTIALS) {
        sum += (double)data[i] * (double)data[i];
    }
    partials[index] = sum;
}

/* index: 0 alone */
KERNEL_INLINE void each_partials_sum(size_t index, double *ret_sum, const double *partials,
                                     bool accumulate)
{
    double sum = accumulate ? ret_sum[index] : 0.0;
    for (size_t i = 0; i < DEVICE_PARTIALS; i++) {
        sum += partials[i];
    }
    ret_sum[index] = sum;
}

/* ---- norms ---------------------------------------------------------------------------------- */

/* index: a row */
KERNEL_INLINE void each_norm_measure(size_t index, float *mean, float *scale, const float *input,
                                     size_t columns)
{
    math_norm_measure(&mean[index], &scale[index], input + index * columns, columns);
}

KERNEL_INLINE void each_norm_apply(size_t index, float *output, const float *mean,
                                   const float *scale, const float *input, const float *gain,
                                   const float *bias, size_t columns)
{
    const size_t row = index / columns;
    const size_t column = index % columns;
    output[index] = (input[index] - mean[row]) * scale[row] * gain[column] + bias[column];
}

/* index: a row */
KERNEL_INLINE void each_norm_input_gradient(size_t index, float *input_gradient,
                                            const float *output_gradient, const float *input,
                                            const float *gain, const float *mean,
                                            const float *scale, size_t columns)
{
    math_norm_gradient(input_gradient + index * columns, output_gradient + index * columns,
                       input + index * columns, gain, mean[index], scale[index], columns);
}

/* index: a column */
KERNEL_INLINE void each_norm_weight_gradient(size_t index, float *gain_gradient,
                                             float *bias_gradient, const float *output_gradient,
                                             const float *input, const float *mean,
                                             const float *scale, size_t rows, size_t columns)
{
    float gain = gain_gradient[index];
    float bias = bias_gradient[index];
    for (size_t row = 0; row < rows; row++) {
        const float out = output_gradient[row * columns + index];
        gain += out * ((input[row * columns + index] - mean[row]) * scale[row]);
        bias += out;
    }
    gain_gradient[index] = gain;
    bias_gradient[index] = bias;
}

KERNEL_INLINE void each_gelu(size_t index, float *output, float *slope, const float *input)
{
    math_gelu(&output[index], &slope[index], input[index]);
}

/* ---- attention ------------------------------------------------------------------------------ *
 *
 * Three index forms: (head, row, column) of the square matrices, (head, row), and (row, head, lane)
 * of the matrices of heads side by side; `head` counts over all samples. */

enum { DEVICE_QUERIES, DEVICE_KEYS, DEVICE_VALUES };

/* The first lane of one head in one row of qkv; row counts inside the sample. */
KERNEL_INLINE size_t device_qkv_at(struct kernel_attention sizes, size_t head, size_t row,
                                   size_t part)
{
    const size_t width = sizes.heads * KERNEL_HEAD_WIDTH;
    const size_t sample = head / sizes.heads;
    return (sample * sizes.context + row) * 3 * width + part * width +
           head % sizes.heads * KERNEL_HEAD_WIDTH;
}

KERNEL_INLINE size_t device_mixed_at(struct kernel_attention sizes, size_t head, size_t row)
{
    const size_t sample = head / sizes.heads;
    return ((sample * sizes.context + row) * sizes.heads + head % sizes.heads) * KERNEL_HEAD_WIDTH;
}

KERNEL_INLINE float device_dot(const float *a, const float *b)
{
    float sum = 0.0f;
    for (size_t i = 0; i < KERNEL_HEAD_WIDTH; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* index: (head, row, column) */
KERNEL_INLINE void each_score(size_t index, float *chances, const float *qkv,
                              struct kernel_attention sizes)
{
    const size_t column = index % sizes.context;
    const size_t row = index / sizes.context % sizes.context;
    const size_t head = index / sizes.context / sizes.context;
    float score = 0.0f;
    if (column <= row) {
        score = device_dot(qkv + device_qkv_at(sizes, head, row, DEVICE_QUERIES),
                           qkv + device_qkv_at(sizes, head, column, DEVICE_KEYS)) *
                math_score_scale();
    }
    chances[index] = score;
}

/* index: (head, row); the elements after the diagonal are 0 and stay so. */
KERNEL_INLINE void each_softmax(size_t index, float *chances, size_t context)
{
    math_softmax(chances + index * context, index % context + 1);
}

/* What (row, head, lane) is in a matrix of heads side by side. */
struct device_lane {
    size_t head; /* over all samples */
    size_t row;  /* inside the sample */
    size_t lane;
};

KERNEL_INLINE struct device_lane device_lane_of(size_t index, struct kernel_attention sizes)
{
    struct device_lane lane;
    const size_t whole_row = index / KERNEL_HEAD_WIDTH / sizes.heads;
    lane.lane = index % KERNEL_HEAD_WIDTH;
    lane.row = whole_row % sizes.context;
    lane.head = whole_row / sizes.context * sizes.heads + index / KERNEL_HEAD_WIDTH % sizes.heads;
    return lane;
}

/* index: (row, head, lane) */
KERNEL_INLINE void each_mix(size_t index, float *mixed, const float *chances, const float *qkv,
                            struct kernel_attention sizes)
{
    const struct device_lane at = device_lane_of(index, sizes);
    const float *row = chances + (at.head * sizes.context + at.row) * sizes.context;
    float sum = 0.0f;
    for (size_t i = 0; i <= at.row; i++) {
        sum += row[i] * qkv[device_qkv_at(sizes, at.head, i, DEVICE_VALUES) + at.lane];
    }
    mixed[index] = sum;
}

/* index: (head, row, column): the gradient at the chances */
KERNEL_INLINE void each_chance_gradient(size_t index, float *scores, const float *mixed_gradient,
                                        const float *qkv, struct kernel_attention sizes)
{
    const size_t column = index % sizes.context;
    const size_t row = index / sizes.context % sizes.context;
    const size_t head = index / sizes.context / sizes.context;
    float gradient = 0.0f;
    if (column <= row) {
        gradient = device_dot(mixed_gradient + device_mixed_at(sizes, head, row),
                              qkv + device_qkv_at(sizes, head, column, DEVICE_VALUES));
    }
    scores[index] = gradient;
}

/* index: (head, row). scores: in, the gradient at the chances; out, that at the products. */
KERNEL_INLINE void each_score_gradient(size_t index, float *scores, const float *chances,
                                       size_t context)
{
    math_score_gradient(scores + index * context, chances + index * context, index % context + 1);
}

/* index: (row, head, lane), of queries, keys and values at once */
KERNEL_INLINE void each_qkv_gradient(size_t index, float *qkv_gradient, const float *scores,
                                     const float *mixed_gradient, const float *chances,
                                     const float *qkv, struct kernel_attention sizes)
{
    const struct device_lane at = device_lane_of(index, sizes);
    const size_t context = sizes.context;
    const size_t square = at.head * context * context;
    float query = 0.0f;
    float key = 0.0f;
    float value = 0.0f;
    for (size_t i = 0; i <= at.row; i++) { /* what this row looked at */
        query += scores[square + at.row * context + i] *
                 qkv[device_qkv_at(sizes, at.head, i, DEVICE_KEYS) + at.lane];
    }
    for (size_t i = at.row; i < context; i++) { /* who looked at this row */
        const size_t element = square + i * context + at.row;
        key += scores[element] * qkv[device_qkv_at(sizes, at.head, i, DEVICE_QUERIES) + at.lane];
        value += chances[element] * mixed_gradient[device_mixed_at(sizes, at.head, i) + at.lane];
    }
    qkv_gradient[device_qkv_at(sizes, at.head, at.row, DEVICE_QUERIES) + at.lane] = query;
    qkv_gradient[device_qkv_at(sizes, at.head, at.row, DEVICE_KEYS) + at.lane] = key;
    qkv_gradient[device_qkv_at(sizes, at.head, at.row, DEVICE_VALUES) + at.lane] = value;
}

/* ---- text ----------------------------------------------------------------------------------- */

KERNEL_INLINE void each_embed(size_t index, float *output, const float *tokens,
                              const float *positions, struct kernel_text text, size_t width)
{
    const size_t row = index / width;
    const size_t column = index % width;
    output[index] = tokens[math_byte_of(&text, row, 0) * width + column] +
                    positions[row % text.context * width + column];
}

/* index: (byte, column): looks through all rows for its byte, so that no two add to one place. */
KERNEL_INLINE void each_token_gradient(size_t index, float *token_gradient,
                                       const float *output_gradient, struct kernel_text text,
                                       size_t width)
{
    const size_t byte = index / width;
    const size_t column = index % width;
    float sum = token_gradient[index];
    for (size_t row = 0; row < text.samples * text.context; row++) {
        if (math_byte_of(&text, row, 0) == byte) {
            sum += output_gradient[row * width + column];
        }
    }
    token_gradient[index] = sum;
}

/* index: (position, column) */
KERNEL_INLINE void each_position_gradient(size_t index, float *position_gradient,
                                          const float *output_gradient, struct kernel_text text,
                                          size_t width)
{
    float sum = position_gradient[index];
    for (size_t sample = 0; sample < text.samples; sample++) {
        sum += output_gradient[sample * text.context * width + index];
    }
    position_gradient[index] = sum;
}

/* ---- loss ----------------------------------------------------------------------------------- */

/* index: a row */
KERNEL_INLINE void each_largest(size_t index, float *largest, const float *logits, size_t columns)
{
    largest[index] = math_largest(logits + index * columns, columns);
}

/* index: a row */
KERNEL_INLINE void each_loss_sums(size_t index, float *logits, float *sums, const float *largest,
                                  struct kernel_text text, size_t first, size_t columns)
{
    const size_t next = math_byte_of(&text, index, 1) - first; /* another rank's: a huge number */
    math_loss_sums(logits + index * columns, sums + 2 * index, largest[index], next, columns);
}

KERNEL_INLINE void each_loss_divide(size_t index, float *logits, const float *sums, size_t columns)
{
    logits[index] /= sums[index / columns * 2];
}

/* index: one of DEVICE_PARTIALS */
KERNEL_INLINE void each_loss_partial(size_t index, double *partials, const float *sums, size_t rows)
{
    double sum = 0.0;
    for (size_t row = index; row < rows; row += DEVICE_PARTIALS) {
        sum += log((double)sums[2 * row]) - (double)sums[2 * row + 1];
    }
    partials[index] = sum;
}

KERNEL_INLINE void each_loss_gradient(size_t index, float *logits, struct kernel_text text,
                                      size_t first, size_t columns, float scale)
{
    const size_t next = math_byte_of(&text, index / columns, 1) - first;
    const float right = next == index % columns ? 1.0f : 0.0f;
    logits[index] = (logits[index] - right) * scale;
}

/* ---- optimizer ------------------------------------------------------------------------------ */

KERNEL_INLINE void each_adam(size_t index, struct kernel_adam adam, float *weights,
                             const float *gradients, float *first, float *second)
{
    math_adam(&adam, &weights[index], gradients[index], &first[index], &second[index]);
}

#endif
