/* adam_test: the update against the closed form in double, and against its own split. */
#include "agent/trainer/adam.h"

#include <math.h>
#include <string.h>

#include "agent/trainer/kernel_cpu.h"
#include "tests/lib/test.h"

enum { COUNT = 64, STEPS = 50 };

static float gradient_at(size_t i, uint64_t step)
{
    return sinf((float)(i + 1) * 0.37f + (float)step * 0.11f);
}

static void follows_the_rule(void **state)
{
    (void)state;
    struct kernel kernel;
    assert_int_equal(kernel_cpu_create(&kernel), 0);
    const struct adam adam = {.rate = 0.01f, .warmup_steps = 10};
    float weights[COUNT] = {0};
    float first[COUNT] = {0};
    float second[COUNT] = {0};
    double expected[COUNT] = {0};
    double m[COUNT] = {0};
    double v[COUNT] = {0};
    for (uint64_t step = 1; step <= STEPS; step++) {
        float gradients[COUNT];
        const double rate = 0.01 * (step < 10 ? (double)step / 10.0 : 1.0);
        for (size_t i = 0; i < COUNT; i++) {
            const double g = (double)(gradients[i] = gradient_at(i, step));
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.99 * v[i] + 0.01 * g * g;
            expected[i] -= rate * (m[i] / (1.0 - pow(0.9, (double)step))) /
                           (sqrt(v[i] / (1.0 - pow(0.99, (double)step))) + 1e-8);
        }
        adam_update(&adam, &kernel, step, weights, gradients, first, second, COUNT);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabs((double)weights[i] - expected[i]) < 1e-5);
    }
    kernel_done(&kernel);
}

/* Ranks update ranges: the parts must be the bits of the whole. */
static void parts_are_the_whole(void **state)
{
    (void)state;
    struct kernel kernel;
    assert_int_equal(kernel_cpu_create(&kernel), 0);
    const struct adam adam = {.rate = 0.01f, .warmup_steps = 10};
    float whole[3][COUNT] = {{0}};
    float parts[3][COUNT] = {{0}};
    for (uint64_t step = 1; step <= STEPS; step++) {
        float gradients[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            gradients[i] = gradient_at(i, step);
        }
        adam_update(&adam, &kernel, step, whole[0], gradients, whole[1], whole[2], COUNT);
        for (size_t begin = 0; begin < COUNT; begin += 16) {
            adam_update(&adam, &kernel, step, parts[0] + begin, gradients + begin, parts[1] + begin,
                        parts[2] + begin, 16);
        }
    }
    assert_memory_equal(whole, parts, sizeof(whole));
    kernel_done(&kernel);
}

static void rate_warms_up(void **state)
{
    (void)state;
    const struct adam adam = {.rate = 0.5f, .warmup_steps = 10};
    assert_true(adam_rate(&adam, 1) == 0.05f);
    assert_true(adam_rate(&adam, 10) == 0.5f);
    assert_true(adam_rate(&adam, 1000000) == 0.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_rule),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(rate_warms_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
