/* model_test: the gradients are those of the loss, whatever the layout; the loss is that of the
 * text.
 *
 * Central differences are compared relative to the norm of the parameter's gradient, by
 * Richardson's rule from h = 0.01 and 2 h: floats leave about 1e-4 of noise there, and 1e-3 is the
 * limit. */
#include "agent/trainer/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "agent/trainer/random.h"
#include "tests/lib/test.h"
#include "tests/unit/trainer/trainer_rig.h"

enum { SAMPLES = 2, MICROS = 2, REPLICAS_MAX = 2, CONTEXT = 16 };
enum { TEXT_SIZE = SAMPLES * MICROS * REPLICAS_MAX * (CONTEXT + 1) };
static const double limit = 1e-3;

/* ---- central differences -------------------------------------------------------------------- */

/* The loss with the parameter at start + distance x direction; all ranks together. */
static int loss_along(const struct rig_model *rig, const struct parameter *one, const float *start,
                      const float *direction, double distance, const uint8_t *text,
                      double *ret_loss)
{
    for (size_t i = 0; one->present && i < one->rows * one->columns; i++) {
        model_weights(rig->model)[one->offset + i] =
            (float)((double)start[i] + distance * (double)direction[i]);
    }
    return rig_loss(rig, text, ret_loss);
}

static int central_difference(const struct rig_model *rig, const struct parameter *one,
                              const float *direction, const uint8_t *text, double *ret_slope)
{
    const double step = 0.01;
    const size_t size = one->present ? one->rows * one->columns * sizeof(float) : 0;
    float *weights = model_weights(rig->model) + one->offset;
    float *start = malloc(size + 1);
    double slope[2] = {0};
    int code = start == NULL ? -1 : 0;
    if (code == 0) {
        memcpy(start, weights, size);
    }
    for (int k = 0; k < 2 && code == 0; k++) {
        const double h = step * (k + 1);
        double above = 0.0;
        double below = 0.0;
        code = loss_along(rig, one, start, direction, h, text, &above);
        if (code == 0) {
            code = loss_along(rig, one, start, direction, -h, text, &below);
        }
        slope[k] = (above - below) / (2.0 * h);
    }
    if (code == 0) {
        memcpy(weights, start, size);
    }
    free(start);
    *ret_slope = (4.0 * slope[0] - slope[1]) / 3.0;
    return code;
}

/* Per parameter two directions: the gradient's own, and a random one with its signs mixed in, so
 * that a wrong element cannot hide behind right ones. *worst: the largest relative error so far. */
static int check_parameter(const struct rig_model *rig, const struct parameter *one,
                           const uint8_t *text, double *worst)
{
    const struct comm *comm = rig->comm;
    const size_t count = one->present ? one->rows * one->columns : 0;
    const float *gradient = model_gradients(rig->model) + one->offset;
    const float whole = (float)(one->whole_rows * one->whole_columns);
    float *direction = malloc(count * sizeof(*direction) + 1);
    double square = 0.0;
    EXPECT(direction != NULL);
    EXPECT(rig_dot(rig, one, gradient, gradient, &square) == 0);
    const double norm = sqrt(square);
    EXPECT(norm > 1e-3);
    for (int kind = 0; kind < 2; kind++) {
        double analytic = 0.0;
        double numeric = 0.0;
        for (size_t i = 0; i < count; i++) {
            direction[i] = gradient[i] / (float)norm;
            if (kind == 1) {
                direction[i] = 0.5f * direction[i] + rig_noise(one, i) / sqrtf(whole);
            }
        }
        EXPECT(rig_dot(rig, one, gradient, direction, &analytic) == 0);
        EXPECT(central_difference(rig, one, direction, text, &numeric) == 0);
        const double error = fabs(analytic - numeric) / norm;
        *worst = error > *worst ? error : *worst;
        if (error >= limit) {
            fprintf(stderr, "rank %u: %s kind %d: %g against %g\n", comm->rank, one->name, kind,
                    analytic, numeric);
        }
        EXPECT(error < limit);
    }
    free(direction);
    return 0;
}

/* This replica's rows of the text. */
static const uint8_t *own_text(const struct comm *comm, const uint8_t *text)
{
    return text + (size_t)comm->place.data * SAMPLES * MICROS * (CONTEXT + 1);
}

static int differences_body(struct comm *comm)
{
    struct rig_model rig;
    uint8_t all[TEXT_SIZE];
    double loss = 0.0;
    double worst = 0.0;
    rig_text(all, sizeof(all) / (CONTEXT + 1));
    const uint8_t *text = own_text(comm, all);
    EXPECT(rig_model_create(&rig, comm, SAMPLES, MICROS) == 0);
    rig_enlarge(&rig);
    EXPECT(rig_learn(&rig, text, &loss) == 0);
    EXPECT(comm_all_reduce(comm_group(comm, COMM_DATA), model_gradients(rig.model),
                           model_parameters(rig.model)->elements, COMM_F32, COMM_SUM) == 0);
    const struct parameters *parameters = model_parameters(rig.model);
    for (size_t index = 0; index < parameters->count; index++) {
        const int failed = check_parameter(&rig, &parameters->list[index], text, &worst);
        if (failed != 0) {
            return failed;
        }
    }
    if (comm->rank == 0) {
        fprintf(stderr, "tp %u pp %u dp %u: %zu parameters, central differences within %.1e\n",
                comm->layout.tensor, comm->layout.pipeline, comm->layout.data, parameters->count,
                worst);
    }
    rig_model_done(&rig);
    return 0;
}

static void gradients_agree_with_central_differences(void **state)
{
    (void)state;
    static const struct comm_layout layouts[] = {
        {1, 1, 1, 1}, {2, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {2, 1, 2, 2}};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        rig_run_world(&layouts[i], differences_body, NULL);
    }
}

/* Element by element, on the parameter's largest elements. */
static void single_elements_agree(void **state)
{
    (void)state;
    struct comm comm;
    struct rig_model rig;
    uint8_t text[TEXT_SIZE];
    double loss = 0.0;
    rig_text(text, sizeof(text) / (CONTEXT + 1));
    assert_int_equal(rig_solo(&comm), 0);
    assert_int_equal(rig_model_create(&rig, &comm, SAMPLES, MICROS), 0);
    rig_enlarge(&rig);
    assert_int_equal(rig_learn(&rig, text, &loss), 0);
    const struct parameters *parameters = model_parameters(rig.model);
    for (size_t index = 0; index < parameters->count; index++) {
        const struct parameter *one = &parameters->list[index];
        const size_t count = one->rows * one->columns;
        const float *gradient = model_gradients(rig.model) + one->offset;
        float *direction = calloc(count, sizeof(*direction));
        assert_non_null(direction);
        size_t largest = 0;
        double numeric = 0.0;
        for (size_t i = 0; i < count; i++) {
            largest = fabsf(gradient[i]) > fabsf(gradient[largest]) ? i : largest;
        }
        direction[largest] = 1.0f;
        assert_int_equal(central_difference(&rig, one, direction, text, &numeric), 0);
        const double analytic = (double)gradient[largest];
        if (fabs(numeric - analytic) >= limit * fabs(analytic)) {
            print_message("%s element %zu: %g against %g\n", one->name, largest, analytic, numeric);
        }
        assert_true(fabs(numeric - analytic) < limit * fabs(analytic));
        free(direction);
    }
    rig_model_done(&rig);
    comm_done(&comm);
}

/* ---- a part is a part of the whole ------------------------------------------------------------ */

/* Largest difference of this rank's gradients to those of the whole model, relative to the largest
 * element of their parameter. */
static double worst_difference(const struct rig_model *part, const struct rig_model *whole)
{
    const struct parameters *parameters = model_parameters(part->model);
    double worst = 0.0;
    for (size_t index = 0; index < parameters->count; index++) {
        const struct parameter *one = &parameters->list[index];
        const struct parameter *same = &model_parameters(whole->model)->list[index];
        const float *expected = model_gradients(whole->model) + same->offset;
        const float *found = model_gradients(part->model) + one->offset;
        double largest = 0.0;
        for (size_t i = 0; i < same->rows * same->columns; i++) {
            largest = fmax(largest, fabs((double)expected[i]));
        }
        for (size_t i = 0; one->present && i < one->rows * one->columns; i++) {
            const size_t at = parameter_whole_index(one, i / one->columns, i % one->columns);
            worst = fmax(worst, fabs((double)(found[i] - expected[at])) / largest);
        }
    }
    return worst;
}

/* What every tensor rank holds all of has the same gradient there, to the bit. */
static int check_equal_wholes(const struct rig_model *rig)
{
    struct comm *comm = rig->comm;
    const struct parameters *parameters = model_parameters(rig->model);
    const float *wholes = model_gradients(rig->model) + parameters->split_elements;
    const size_t count = parameters->elements - parameters->split_elements;
    uint64_t all[8] = {0};
    const uint64_t own = XXH3_64bits(wholes, count * sizeof(*wholes));
    struct comm_group *group = comm_group(comm, COMM_TENSOR);
    EXPECT(group->size <= 8);
    EXPECT(comm_all_gather(group, &own, all, 1, COMM_I64) == 0);
    for (uint32_t member = 0; member < group->size; member++) {
        EXPECT(all[member] == own);
    }
    return 0;
}

/* Loss and gradients of a part against those of a whole model in the same process. cut: COMM_WORLD
 * for none; with one of the axes cut they must not agree. */
static int compare_with_whole(struct comm *comm, enum comm_axis cut)
{
    struct comm solo;
    struct rig_model part;
    struct rig_model whole;
    uint8_t text[TEXT_SIZE];
    double loss = 0.0;
    double whole_loss = 0.0;
    const uint32_t micros = MICROS * comm->layout.data;
    rig_text(text, sizeof(text) / (CONTEXT + 1));
    EXPECT(rig_solo(&solo) == 0);
    EXPECT(rig_model_create(&part, comm, SAMPLES, MICROS) == 0);
    EXPECT(rig_model_create(&whole, &solo, SAMPLES, micros) == 0);
    rig_enlarge(&part);
    rig_enlarge(&whole);
    if (cut != COMM_WORLD) {
        comm_cut(comm, cut);
    }
    EXPECT(rig_learn(&whole, text, &whole_loss) == 0);
    EXPECT(rig_learn(&part, own_text(comm, text), &loss) == 0);
    EXPECT(comm_all_reduce(comm_group(comm, COMM_DATA), model_gradients(part.model),
                           model_parameters(part.model)->elements, COMM_F32, COMM_SUM) == 0);
    double worst = worst_difference(&part, &whole);
    EXPECT(comm_all_reduce(comm_group(comm, COMM_WORLD), &worst, 1, COMM_F64, COMM_MAX) == 0);
    if (comm->rank == 0) {
        fprintf(stderr, "tp %u pp %u dp %u%s%s: gradients within %.1e of the whole model's\n",
                comm->layout.tensor, comm->layout.pipeline, comm->layout.data,
                cut == COMM_WORLD ? "" : " cut ", cut == COMM_WORLD ? "" : comm_axis_name(cut),
                worst);
    }
    if (cut == COMM_WORLD) {
        EXPECT(worst < 1e-4);
        EXPECT(check_equal_wholes(&part) == 0);
    } else {
        EXPECT(worst > 1e-2);
    }
    rig_model_done(&whole);
    rig_model_done(&part);
    comm_done(&solo);
    return 0;
}

static int whole_body(struct comm *comm)
{
    return compare_with_whole(comm, COMM_WORLD);
}

static int cut_tensor_body(struct comm *comm)
{
    return compare_with_whole(comm, COMM_TENSOR);
}

static int cut_pipeline_body(struct comm *comm)
{
    return compare_with_whole(comm, COMM_PIPELINE);
}

static int cut_data_body(struct comm *comm)
{
    return compare_with_whole(comm, COMM_DATA);
}

static void parts_learn_what_the_whole_does(void **state)
{
    (void)state;
    static const struct comm_layout layouts[] = {
        {2, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {2, 1, 2, 1}, {2, 1, 2, 2}};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        rig_run_world(&layouts[i], whole_body, NULL);
    }
}

/* The comparison above would see an exchange that is missing. */
static void a_cut_exchange_is_seen(void **state)
{
    (void)state;
    const struct comm_layout cube = {2, 1, 2, 2};
    rig_run_world(&cube, cut_tensor_body, NULL);
    rig_run_world(&cube, cut_pipeline_body, NULL);
    rig_run_world(&cube, cut_data_body, NULL);
}

/* ---- one model -------------------------------------------------------------------------------- */

static void first_loss_is_that_of_chance(void **state)
{
    (void)state;
    struct comm comm;
    struct rig_model rig;
    uint8_t text[TEXT_SIZE];
    double loss = 0.0;
    assert_int_equal(rig_solo(&comm), 0);
    assert_int_equal(rig_model_create(&rig, &comm, SAMPLES, MICROS), 0);
    rig_text(text, SAMPLES * MICROS);
    assert_int_equal(rig_loss(&rig, text, &loss), 0);
    assert_true(fabs(loss / (SAMPLES * MICROS * CONTEXT) - log(256.0)) < 0.05);
    rig_model_done(&rig);
    comm_done(&comm);
}

/* What is predicted up to a byte must not change with that byte, and what follows it must. */
static void the_future_is_not_seen(void **state)
{
    (void)state;
    struct comm comm;
    struct rig_model rig;
    uint8_t text[CONTEXT + 1];
    float before[CONTEXT][MODEL_BYTES];
    double loss = 0.0;
    const size_t changed = 9;
    assert_int_equal(rig_solo(&comm), 0);
    assert_int_equal(rig_model_create(&rig, &comm, 1, 1), 0);
    rig_enlarge(&rig);
    rig_text(text, 1);
    assert_int_equal(rig_loss(&rig, text, &loss), 0);
    memcpy(before, model_chances(rig.model, 0), sizeof(before));
    text[changed] ^= 1;
    assert_int_equal(rig_loss(&rig, text, &loss), 0);
    for (size_t row = 0; row < CONTEXT; row++) {
        const float *after = model_chances(rig.model, 0) + row * MODEL_BYTES;
        assert_true((memcmp(before[row], after, sizeof(before[row])) != 0) == (row >= changed));
    }
    rig_model_done(&rig);
    comm_done(&comm);
}

/* Micro-batches are a way to compute, not a thing to learn. */
static void gradients_do_not_depend_on_micro_batches(void **state)
{
    (void)state;
    struct comm comm;
    struct rig_model whole;
    struct rig_model parts;
    uint8_t text[TEXT_SIZE];
    double loss[2] = {0};
    assert_int_equal(rig_solo(&comm), 0);
    assert_int_equal(rig_model_create(&whole, &comm, SAMPLES * MICROS, 1), 0);
    assert_int_equal(rig_model_create(&parts, &comm, 1, SAMPLES * MICROS), 0);
    rig_enlarge(&whole);
    rig_enlarge(&parts);
    rig_text(text, SAMPLES * MICROS);
    assert_int_equal(rig_learn(&whole, text, &loss[0]), 0);
    assert_int_equal(rig_learn(&parts, text, &loss[1]), 0);
    assert_true(fabs(loss[0] - loss[1]) < 1e-9 * loss[0]);
    assert_true(worst_difference(&parts, &whole) < 1e-4);
    rig_model_done(&parts);
    rig_model_done(&whole);
    comm_done(&comm);
}

/* ---- what is not possible ------------------------------------------------------------------- */

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
        assert_true(shape_check(&bad[i], &fail) < 0);
        assert_int_equal(fail.exit_code, EXIT_BAD_CONFIG);
        assert_true(strlen(fail.text) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(single_elements_agree),
        cmocka_unit_test(parts_learn_what_the_whole_does),
        cmocka_unit_test(a_cut_exchange_is_seen),
        cmocka_unit_test(first_loss_is_that_of_chance),
        cmocka_unit_test(the_future_is_not_seen),
        cmocka_unit_test(gradients_do_not_depend_on_micro_batches),
        cmocka_unit_test(bad_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
