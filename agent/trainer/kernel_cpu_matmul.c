/* kernel_cpu_matmul.c: matrix products in register tiles of four rows by eight columns.
 *
 * Vectors are the compilers' generic ones: 16 bytes is what every x86-64 and arm64 has, so no
 * -march is needed, and a lane never mixes with another, so the sums stay in order. A flipped
 * operand is turned round into scratch first: the tiles then read both along their rows. */
#include <assert.h>
#include <string.h>

#include "agent/trainer/kernel_cpu_parts.h"

typedef float vec4 __attribute__((vector_size(16)));

enum { TILE_ROWS = 4 };

static vec4 load(const float *from)
{
    vec4 value;
    memcpy(&value, from, sizeof(value));
    return value;
}

static void store(float *to, vec4 value)
{
    memcpy(to, &value, sizeof(value));
}

static vec4 spread(float value)
{
    return (vec4){value, value, value, value};
}

/* Four rows at once: each b vector is loaded once for four products. Written out, so that the eight
 * sums stay in registers whatever the optimiser thinks of loops. */
static void tile_four(float *c, size_t c_stride, const float *a, size_t a_stride, struct matrix b,
                      size_t inner, bool accumulate)
{
    float *c1 = c + c_stride;
    float *c2 = c1 + c_stride;
    float *c3 = c2 + c_stride;
    const float *a1 = a + a_stride;
    const float *a2 = a1 + a_stride;
    const float *a3 = a2 + a_stride;
    const float *b_row = b.data;
    const vec4 zero = spread(0.0f);
    vec4 sum00 = accumulate ? load(c) : zero;
    vec4 sum01 = accumulate ? load(c + 4) : zero;
    vec4 sum10 = accumulate ? load(c1) : zero;
    vec4 sum11 = accumulate ? load(c1 + 4) : zero;
    vec4 sum20 = accumulate ? load(c2) : zero;
    vec4 sum21 = accumulate ? load(c2 + 4) : zero;
    vec4 sum30 = accumulate ? load(c3) : zero;
    vec4 sum31 = accumulate ? load(c3 + 4) : zero;
    for (size_t k = 0; k < inner; k++, b_row += b.stride) {
        const vec4 b0 = load(b_row);
        const vec4 b1 = load(b_row + 4);
        const vec4 f0 = spread(a[k]);
        const vec4 f1 = spread(a1[k]);
        const vec4 f2 = spread(a2[k]);
        const vec4 f3 = spread(a3[k]);
        sum00 += f0 * b0;
        sum01 += f0 * b1;
        sum10 += f1 * b0;
        sum11 += f1 * b1;
        sum20 += f2 * b0;
        sum21 += f2 * b1;
        sum30 += f3 * b0;
        sum31 += f3 * b1;
    }
    store(c, sum00);
    store(c + 4, sum01);
    store(c1, sum10);
    store(c1 + 4, sum11);
    store(c2, sum20);
    store(c2 + 4, sum21);
    store(c3, sum30);
    store(c3 + 4, sum31);
}

/* One row, for what four does not divide; the same sums in the same order. */
static void tile_one(float *c, const float *a, struct matrix b, size_t inner, bool accumulate)
{
    vec4 sum0 = accumulate ? load(c) : spread(0.0f);
    vec4 sum1 = accumulate ? load(c + 4) : spread(0.0f);
    for (size_t k = 0; k < inner; k++) {
        const float *b_row = b.data + k * b.stride;
        const vec4 factor = spread(a[k]);
        sum0 += factor * load(b_row);
        sum1 += factor * load(b_row + 4);
    }
    store(c, sum0);
    store(c + 4, sum1);
}

/* target (rows x columns, dense) = the matrix that `source` holds flipped. */
static void turn(float *target, struct matrix source, size_t rows, size_t columns)
{
    for (size_t column = 0; column < columns; column++) {
        const float *from = source.data + column * source.stride;
        for (size_t row = 0; row < rows; row++) {
            target[row * columns + column] = from[row];
        }
    }
}

/* The same matrix, not flipped; .data is NULL without memory. */
static struct matrix upright(struct kernel *kernel, enum kernel_cpu_use use, struct matrix matrix,
                             size_t rows, size_t columns)
{
    if (!matrix.flipped) {
        return matrix;
    }
    float *data = kernel_cpu_scratch(kernel, use, rows * columns);
    if (data != NULL) {
        turn(data, matrix, rows, columns);
    }
    return (struct matrix){data, columns, false};
}

void kernel_cpu_matmul(struct kernel *kernel, struct matrix c, struct matrix a, struct matrix b,
                       size_t rows, size_t inner, size_t columns, bool accumulate)
{
    static_assert(KERNEL_LANES == 8, "the tiles are written for two vectors of four");
    a = upright(kernel, SCRATCH_LEFT, a, rows, inner);
    b = upright(kernel, SCRATCH_RIGHT, b, inner, columns);
    if (a.data == NULL || b.data == NULL) {
        return;
    }
    for (size_t column = 0; column < columns; column += KERNEL_LANES) {
        const struct matrix b_part = {b.data + column, b.stride, false};
        size_t row = 0;
        for (; row + TILE_ROWS <= rows; row += TILE_ROWS) {
            tile_four(c.data + row * c.stride + column, c.stride, a.data + row * a.stride, a.stride,
                      b_part, inner, accumulate);
        }
        for (; row < rows; row++) {
            tile_one(c.data + row * c.stride + column, a.data + row * a.stride, b_part, inner,
                     accumulate);
        }
    }
}
