/* model_test: the gradients are those of the loss, the loss is that of the text. */
#include "agent/trainer/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainer/random.h"
#include "tests/lib/test.h"

enum { SAMPLES = 3, CONTEXT = 16 };
static const struct model_shape shape = {.context = CONTEXT, .layers = 2, .width = 32};

static void fill_text(uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        text[i] = (uint8_t)random_below(random_at(7, RANDOM_DATA, 0, i), 256);
    }
}

/* Weights larger than those of a start: every path carries a gradient that floats can resolve. */
static struct model *model_with_large_weights(void)
{
    struct fail fail;
    struct model *model = NULL;
    assert_int_equal(model_create(&shape, SAMPLES, 0, &fail, &model), 0);
    model_init(model, 3);
    float *weights = model_weights(model);
    for (size_t i = 0; i < model_weight_count(&shape); i++) {
        weights[i] += 0.25f * random_signed_unit(random_at(11, RANDOM_WEIGHTS, 99, i));
    }
    return model;
}

static double loss_along(struct model *model, const struct model_tensor *tensor, const float *start,
                         const float *direction, double distance, const uint8_t *text)
{
    float *weights = model_weights(model) + tensor->offset;
    for (size_t i = 0; i < tensor->rows * tensor->columns; i++) {
        weights[i] = (float)((double)start[i] + distance * (double)direction[i]);
    }
    return model_loss(model, text, SAMPLES);
}

/* Compares the derivative along a direction with (f(x+h) - f(x-h)) / 2h, by Richardson's rule from
 * h and 2h, so that a step that floats can resolve leaves no error of the third order. */
static double central_difference(struct model *model, const struct model_tensor *tensor,
                                 const float *direction, double step, const uint8_t *text)
{
    const size_t count = tensor->rows * tensor->columns;
    float *weights = model_weights(model) + tensor->offset;
    float *start = malloc(count * sizeof(*start));
    assert_non_null(start);
    memcpy(start, weights, count * sizeof(*start));
    double slope[2];
    for (int k = 0; k < 2; k++) {
        const double h = step * (k + 1);
        slope[k] = (loss_along(model, tensor, start, direction, h, text) -
                    loss_along(model, tensor, start, direction, -h, text)) /
                   (2.0 * h);
    }
    memcpy(weights, start, count * sizeof(*start));
    free(start);
    return (4.0 * slope[0] - slope[1]) / 3.0;
}

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

/* Per tensor two directions: the gradient's own, and a random one with its signs mixed in, so that
 * a wrong element cannot hide behind right ones. */
static void gradients_agree_with_central_differences(void **state)
{
    (void)state;
    struct model *model = model_with_large_weights();
    uint8_t text[SAMPLES * (CONTEXT + 1)];
    fill_text(text, sizeof(text));
    model_zero_gradients(model);
    (void)model_learn(model, text, SAMPLES, 1.0f);
    double worst = 0.0;
    for (size_t index = 0; index < model_tensor_count(model); index++) {
        const struct model_tensor *tensor = model_tensor(model, index);
        const size_t count = tensor->rows * tensor->columns;
        const float *gradient = model_gradients(model) + tensor->offset;
        const double norm = sqrt(dot(gradient, gradient, count));
        assert_true(norm > 1e-3);
        float *direction = malloc(count * sizeof(*direction));
        assert_non_null(direction);
        for (int kind = 0; kind < 2; kind++) {
            for (size_t i = 0; i < count; i++) {
                const float random = random_signed_unit(random_at(5, RANDOM_DATA, index, i));
                direction[i] = gradient[i] / (float)norm;
                if (kind == 1) {
                    direction[i] = 0.5f * direction[i] + random / sqrtf((float)count);
                }
            }
            const double analytic = dot(gradient, direction, count);
            const double numeric = central_difference(model, tensor, direction, 0.01, text);
            const double error = fabs(analytic - numeric) / norm;
            worst = error > worst ? error : worst;
            if (error >= 1e-3) {
                print_message("tensor %zu kind %d: %g against %g\n", index, kind, analytic,
                              numeric);
            }
            assert_true(error < 1e-3);
        }
        free(direction);
    }
    print_message("largest difference, relative to the gradient's norm: %.2e\n", worst);
    (void)model_free(model);
}

/* Element by element, on the tensor's largest elements. */
static void single_elements_agree(void **state)
{
    (void)state;
    struct model *model = model_with_large_weights();
    uint8_t text[SAMPLES * (CONTEXT + 1)];
    fill_text(text, sizeof(text));
    model_zero_gradients(model);
    (void)model_learn(model, text, SAMPLES, 1.0f);
    for (size_t index = 0; index < model_tensor_count(model); index++) {
        const struct model_tensor *tensor = model_tensor(model, index);
        const size_t count = tensor->rows * tensor->columns;
        const float *gradient = model_gradients(model) + tensor->offset;
        float *direction = calloc(count, sizeof(*direction));
        assert_non_null(direction);
        size_t largest = 0;
        for (size_t i = 0; i < count; i++) {
            largest = fabsf(gradient[i]) > fabsf(gradient[largest]) ? i : largest;
        }
        direction[largest] = 1.0f;
        const double numeric = central_difference(model, tensor, direction, 0.01, text);
        const double analytic = (double)gradient[largest];
        if (fabs(numeric - analytic) >= 1e-3 * fabs(analytic)) {
            print_message("tensor %zu element %zu: %g against %g\n", index, largest, analytic,
                          numeric);
        }
        assert_true(fabs(numeric - analytic) < 1e-3 * fabs(analytic));
        free(direction);
    }
    (void)model_free(model);
}

static void first_loss_is_that_of_chance(void **state)
{
    (void)state;
    struct fail fail;
    struct model *model = NULL;
    assert_int_equal(model_create(&shape, SAMPLES, 0, &fail, &model), 0);
    model_init(model, 1);
    uint8_t text[SAMPLES * (CONTEXT + 1)];
    fill_text(text, sizeof(text));
    const double loss = model_loss(model, text, SAMPLES) / (SAMPLES * CONTEXT);
    assert_true(fabs(loss - log(256.0)) < 0.05);
    (void)model_free(model);
}

/* What is predicted up to a byte must not change with that byte, and what follows it must. */
static void the_future_is_not_seen(void **state)
{
    (void)state;
    struct model *model = model_with_large_weights();
    uint8_t text[CONTEXT + 1];
    float before[CONTEXT][MODEL_BYTES];
    const size_t changed = 9;
    fill_text(text, sizeof(text));
    (void)model_loss(model, text, 1);
    for (size_t row = 0; row < CONTEXT; row++) {
        memcpy(before[row], model_chances(model, row), sizeof(before[row]));
    }
    text[changed] ^= 1;
    (void)model_loss(model, text, 1);
    for (size_t row = 0; row < CONTEXT; row++) {
        const int differs = memcmp(before[row], model_chances(model, row), sizeof(before[row]));
        assert_true((differs != 0) == (row >= changed));
    }
    (void)model_free(model);
}

static void gradients_do_not_depend_on_batch_split(void **state)
{
    (void)state;
    struct model *model = model_with_large_weights();
    const size_t count = model_weight_count(&shape);
    uint8_t text[SAMPLES * (CONTEXT + 1)];
    fill_text(text, sizeof(text));
    model_zero_gradients(model);
    const double whole = model_learn(model, text, SAMPLES, 1.0f);
    float *first = malloc(count * sizeof(*first));
    assert_non_null(first);
    memcpy(first, model_gradients(model), count * sizeof(*first));
    model_zero_gradients(model);
    double parts = 0.0;
    for (size_t sample = 0; sample < SAMPLES; sample++) {
        parts += model_learn(model, text + sample * (CONTEXT + 1), 1, 1.0f);
    }
    assert_true(fabs(whole - parts) < 1e-9 * whole);
    for (size_t i = 0; i < count; i++) {
        assert_true(fabsf(first[i] - model_gradients(model)[i]) <= 2e-4f + 1e-4f * fabsf(first[i]));
    }
    free(first);
    (void)model_free(model);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    const struct model_shape bad[] = {
        {.context = 0, .layers = 1, .width = 16},   {.context = 9, .layers = 1, .width = 16},
        {.context = 8, .layers = 0, .width = 16},   {.context = 8, .layers = 33, .width = 16},
        {.context = 8, .layers = 1, .width = 24},   {.context = 2048, .layers = 1, .width = 16},
        {.context = 8, .layers = 1, .width = 2048},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fail fail = {0};
        assert_true(model_shape_check(&bad[i], &fail) < 0);
        assert_int_equal(fail.exit_code, EXIT_BAD_CONFIG);
        assert_true(strlen(fail.text) > 0);
    }
}

static void another_seed_gives_other_weights(void **state)
{
    (void)state;
    struct fail fail;
    struct model *a = NULL;
    struct model *b = NULL;
    assert_int_equal(model_create(&shape, 1, 0, &fail, &a), 0);
    assert_int_equal(model_create(&shape, 1, 0, &fail, &b), 0);
    const size_t size = model_weight_count(&shape) * sizeof(float);
    model_init(a, 1);
    model_init(b, 1);
    assert_memory_equal(model_weights(a), model_weights(b), size);
    model_init(b, 2);
    assert_true(memcmp(model_weights(a), model_weights(b), size) != 0);
    (void)model_free(a);
    (void)model_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(single_elements_agree),
        cmocka_unit_test(first_loss_is_that_of_chance),
        cmocka_unit_test(the_future_is_not_seen),
        cmocka_unit_test(gradients_do_not_depend_on_batch_split),
        cmocka_unit_test(bad_shapes_are_refused),
        cmocka_unit_test(another_seed_gives_other_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
