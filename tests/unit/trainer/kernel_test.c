/* kernel_test: the tiles of the cpu backend against sums written out, and what a loss that is split
 * over an alphabet must be. */
#include "agent/trainer/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainer/kernel_cpu.h"
#include "agent/trainer/random.h"
#include "tests/lib/test.h"

static struct kernel kernel;

static int open_kernel(void **state)
{
    (void)state;
    return kernel_cpu_create(&kernel);
}

static int close_kernel(void **state)
{
    (void)state;
    kernel_done(&kernel);
    return 0;
}

static void fill(float *data, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        data[i] = random_signed_unit(random_at(seed, RANDOM_DATA, 1, i));
    }
}

static float at(struct matrix matrix, size_t row, size_t column)
{
    return matrix.flipped ? matrix.data[column * matrix.stride + row]
                          : matrix.data[row * matrix.stride + column];
}

/* Sizes that the tiles divide and that they do not; both operands either way round; the exact bits,
 * since the order of the terms is promised. */
static void products_are_sums_in_order(void **state)
{
    (void)state;
    static float a[40 * 40];
    static float b[40 * 40];
    static float c[40 * 40];
    static float before[40 * 40];
    fill(a, 1600, 1);
    fill(b, 1600, 2);
    for (size_t rows = 1; rows <= 9; rows += 4) {
        for (int kind = 0; kind < 8; kind++) {
            const size_t inner = 13;
            const size_t columns = 24;
            const bool accumulate = (kind & 4) != 0;
            const struct matrix left = {a, 40, (kind & 1) != 0};
            const struct matrix right = {b, 40, (kind & 2) != 0};
            fill(c, 1600, 3);
            memcpy(before, c, sizeof(c));
            kernel_matmul(&kernel, (struct matrix){c, 32, false}, left, right, rows, inner, columns,
                          accumulate);
            for (size_t row = 0; row < rows; row++) {
                for (size_t column = 0; column < columns; column++) {
                    float sum = accumulate ? before[row * 32 + column] : 0.0f;
                    for (size_t k = 0; k < inner; k++) {
                        sum += at(left, row, k) * at(right, k, column);
                    }
                    assert_true(c[row * 32 + column] == sum);
                    c[row * 32 + column] = before[row * 32 + column];
                }
            }
            assert_memory_equal(c, before, sizeof(c)); /* and nothing beside it */
        }
    }
}

/* A row's softmax by halves of the alphabet, with the sums made between them as ranks do. */
static void a_split_loss_is_the_whole_one(void **state)
{
    (void)state;
    enum { ROWS = 8, BYTES = 256, HALF = 128 };
    static float whole[ROWS * BYTES];
    static float half[2][ROWS * HALF];
    float largest[3][ROWS];
    float sums[3][2 * ROWS];
    double total[3] = {0};
    uint8_t bytes[ROWS + 1];
    const struct kernel_text text = {bytes, 1, ROWS};
    fill(whole, ROWS * BYTES, 4);
    for (size_t row = 0; row < ROWS; row++) {
        bytes[row] = (uint8_t)(row * 36);
        memcpy(half[0] + row * HALF, whole + row * BYTES, HALF * sizeof(float));
        memcpy(half[1] + row * HALF, whole + row * BYTES + HALF, HALF * sizeof(float));
    }
    bytes[ROWS] = 255;
    kernel_loss_largest(&kernel, largest[2], whole, ROWS, BYTES);
    kernel_loss_sums(&kernel, whole, sums[2], largest[2], &text, 0, BYTES);
    kernel_loss_total(&kernel, whole, &total[2], sums[2], ROWS, BYTES);
    for (size_t part = 0; part < 2; part++) {
        kernel_loss_largest(&kernel, largest[part], half[part], ROWS, HALF);
    }
    for (size_t row = 0; row < ROWS; row++) {
        largest[0][row] = fmaxf(largest[0][row], largest[1][row]);
        assert_true(largest[0][row] == largest[2][row]);
    }
    for (size_t part = 0; part < 2; part++) {
        kernel_loss_sums(&kernel, half[part], sums[part], largest[0], &text, part * HALF, HALF);
    }
    for (size_t i = 0; i < 2 * ROWS; i++) {
        sums[0][i] += sums[1][i];
    }
    for (size_t part = 0; part < 2; part++) {
        kernel_loss_total(&kernel, half[part], &total[part], sums[0], ROWS, HALF);
        kernel_loss_backward(&kernel, half[part], &text, part * HALF, HALF, 2.0f);
    }
    kernel_loss_backward(&kernel, whole, &text, 0, BYTES, 2.0f);
    assert_true(fabs(total[0] - total[2]) < 1e-5 && total[0] == total[1]);
    for (size_t i = 0; i < ROWS * BYTES; i++) {
        const size_t row = i / BYTES;
        const size_t column = i % BYTES;
        const float found = half[column / HALF][row * HALF + column % HALF];
        assert_true(fabsf(found - whole[i]) < 1e-6f);
    }
}

/* The loss is minus the logarithm of the right byte's share, also where it is tiny. */
static void the_loss_is_that_of_the_right_byte(void **state)
{
    (void)state;
    enum { BYTES = 256, CONTEXT = 8 };
    static float logits[CONTEXT * BYTES];
    float largest[CONTEXT];
    float sums[2 * CONTEXT];
    double total = 0.0;
    const uint8_t bytes[CONTEXT + 1] = {0, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct kernel_text text = {bytes, 1, CONTEXT};
    for (size_t row = 0; row < CONTEXT; row++) {
        logits[row * BYTES + 2] = 200.0f; /* the wrong one, by far */
    }
    kernel_loss_largest(&kernel, largest, logits, CONTEXT, BYTES);
    kernel_loss_sums(&kernel, logits, sums, largest, &text, 0, BYTES);
    kernel_loss_total(&kernel, logits, &total, sums, CONTEXT, BYTES);
    assert_true(fabs(total - 200.0 * CONTEXT) < 1e-6);
}

static void norm_and_hash_are_of_the_bytes(void **state)
{
    (void)state;
    float *buffer = kernel_allocate(&kernel, 100 * sizeof(*buffer));
    float data[100];
    double sum = -1.0;
    double expected = 0.0;
    uint64_t hashes[3];
    assert_non_null(buffer);
    assert_true((uintptr_t)buffer % KERNEL_ALIGNMENT == 0);
    fill(data, 100, 9);
    for (size_t i = 0; i < 100; i++) {
        expected += (double)data[i] * (double)data[i];
    }
    kernel_write(&kernel, buffer, data, sizeof(data));
    kernel_sum_squares(&kernel, &sum, buffer, 100);
    assert_true(sum == expected);
    assert_int_equal(kernel_hash(&kernel, buffer, sizeof(data), &hashes[0]), 0);
    assert_int_equal(kernel_hash(&kernel, buffer, sizeof(data), &hashes[1]), 0);
    data[50] = nextafterf(data[50], 2.0f);
    kernel_write(&kernel, buffer, data, sizeof(data));
    assert_int_equal(kernel_hash(&kernel, buffer, sizeof(data), &hashes[2]), 0);
    assert_true(hashes[0] == hashes[1] && hashes[1] != hashes[2]);
    kernel_zero(&kernel, buffer, sizeof(data));
    kernel_sum_squares(&kernel, &sum, buffer, 100);
    assert_true(sum == 0.0);
    kernel_release(&kernel, buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_sums_in_order),
        cmocka_unit_test(a_split_loss_is_the_whole_one),
        cmocka_unit_test(the_loss_is_that_of_the_right_byte),
        cmocka_unit_test(norm_and_hash_are_of_the_bytes),
    };
    return cmocka_run_group_tests(tests, open_kernel, close_kernel);
}
