/* optimizer_test: the update is shared out without a trace: norm, weights and moments are those of
 * one rank alone, replicas stay equal, and a saved state is the state. */
#include "agent/trainer/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/trainer/trainer_rig.h"

enum { SAMPLES = 2, MICROS = 2, REPLICAS_MAX = 2, CONTEXT = 16, STEPS = 3 };
enum { TEXT_SIZE = SAMPLES * MICROS * REPLICAS_MAX * (CONTEXT + 1) };
static const struct adam adam = {.rate = 0.01f, .warmup_steps = 2};

/* One step; *ret_squares: of the whole model. */
static int learn_once(const struct rig_model *rig, struct optimizer *optimizer, uint64_t step,
                      const uint8_t *text, double *ret_squares)
{
    struct comm *comm = rig->comm;
    double loss = 0.0;
    const size_t own = (size_t)comm->place.data * rig->micros * rig->samples * (CONTEXT + 1);
    EXPECT(rig_learn(rig, text + own, &loss) == 0);
    EXPECT(optimizer_reduce(optimizer, ret_squares) == 0);
    EXPECT(comm_all_reduce(comm_group(comm, COMM_WORLD), ret_squares, 1, COMM_F64, COMM_SUM) == 0);
    EXPECT(optimizer_update(optimizer, step) == 0);
    return 0;
}

/* A bias of the keys moves all scores of a row alike, so its gradient is 0 but for rounding, which
 * the rule blows up to steps of full size: it says nothing. */
static bool is_key_bias(const struct parameters *parameters, size_t i)
{
    for (uint32_t layer = 0; layer < parameters->shape.layers; layer++) {
        const struct parameter *bias = parameters_block(parameters, layer, QKV_BIAS);
        const size_t third = bias->whole_columns / 3;
        if (i >= bias->whole_offset + third && i < bias->whole_offset + 2 * third) {
            return true;
        }
    }
    return false;
}

/* Largest difference between this rank's weights and the whole model's. */
static double worst_weight(const struct rig_model *part, const struct rig_model *whole)
{
    const struct parameters *parameters = model_parameters(part->model);
    const struct parameters *all = model_parameters(whole->model);
    const size_t elements = parameters_whole_elements(all);
    float *expected = calloc(elements, sizeof(*expected));
    float *found = calloc(elements, sizeof(*found));
    double worst = INFINITY;
    if (expected != NULL && found != NULL) {
        parameters_place(all, model_weights(whole->model), expected);
        memcpy(found, expected, elements * sizeof(*found));
        parameters_place(parameters, model_weights(part->model), found);
        worst = 0.0;
        for (size_t i = 0; i < elements; i++) {
            const double difference = fabs((double)(found[i] - expected[i]));
            worst = is_key_bias(all, i) ? worst : fmax(worst, difference);
        }
    }
    free(found);
    free(expected);
    return worst;
}

static int check_equal_replicas(struct comm *comm, const struct optimizer *optimizer)
{
    struct comm_group *group = comm_group(comm, COMM_DATA);
    uint64_t own = 0;
    uint64_t all[REPLICAS_MAX] = {0};
    EXPECT(optimizer_weights_hash(optimizer, &own) == 0);
    EXPECT(comm_all_gather(group, &own, all, 1, COMM_I64) == 0);
    for (uint32_t member = 0; member < group->size; member++) {
        EXPECT(all[member] == own);
    }
    return 0;
}

static int shared_body(struct comm *comm)
{
    struct comm solo;
    struct rig_model part;
    struct rig_model whole;
    struct optimizer shared;
    struct optimizer alone;
    uint8_t text[TEXT_SIZE];
    double worst_norm = 0.0;
    rig_text(text, sizeof(text) / (CONTEXT + 1));
    EXPECT(rig_solo(&solo) == 0);
    EXPECT(rig_model_create(&part, comm, SAMPLES, MICROS) == 0);
    EXPECT(rig_model_create(&whole, &solo, SAMPLES, MICROS * comm->layout.data) == 0);
    rig_enlarge(&part);
    rig_enlarge(&whole);
    EXPECT(optimizer_create(&shared, part.model, &adam) == 0);
    EXPECT(optimizer_create(&alone, whole.model, &adam) == 0);
    for (uint64_t step = 1; step <= STEPS; step++) {
        double found = 0.0;
        double expected = 0.0;
        EXPECT(learn_once(&part, &shared, step, text, &found) == 0);
        EXPECT(learn_once(&whole, &alone, step, text, &expected) == 0);
        worst_norm = fmax(worst_norm, fabs(sqrt(found) / sqrt(expected) - 1.0));
        EXPECT(check_equal_replicas(comm, &shared) == 0);
    }
    double worst = worst_weight(&part, &whole);
    EXPECT(comm_all_reduce(comm_group(comm, COMM_WORLD), &worst, 1, COMM_F64, COMM_MAX) == 0);
    if (comm->rank == 0) {
        fprintf(stderr, "tp %u pp %u dp %u: norm within %.1e, weights within %.1e after %d steps\n",
                comm->layout.tensor, comm->layout.pipeline, comm->layout.data, worst_norm, worst,
                STEPS);
    }
    EXPECT(worst_norm < 1e-5);
    EXPECT(worst < 1e-4);
    optimizer_done(&alone);
    optimizer_done(&shared);
    rig_model_done(&whole);
    rig_model_done(&part);
    comm_done(&solo);
    return 0;
}

static void shared_out_is_as_alone(void **state)
{
    (void)state;
    static const struct comm_layout layouts[] = {
        {2, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {2, 1, 2, 2}};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        rig_run_world(&layouts[i], shared_body, NULL);
    }
}

/* Two steps, saved; a third one; loaded into a fresh model, and the third one again: same bits. */
static int state_body(struct comm *comm)
{
    struct rig_model first;
    struct rig_model second;
    struct optimizer before;
    struct optimizer after;
    struct optimizer_state state;
    uint8_t text[TEXT_SIZE];
    double squares = 0.0;
    uint64_t hashes[2] = {0, 1};
    rig_text(text, sizeof(text) / (CONTEXT + 1));
    EXPECT(rig_model_create(&first, comm, SAMPLES, MICROS) == 0);
    EXPECT(rig_model_create(&second, comm, SAMPLES, MICROS) == 0);
    EXPECT(optimizer_create(&before, first.model, &adam) == 0);
    EXPECT(optimizer_create(&after, second.model, &adam) == 0);
    EXPECT(optimizer_state_create(&before, &state) == 0);
    EXPECT(learn_once(&first, &before, 1, text, &squares) == 0);
    EXPECT(learn_once(&first, &before, 2, text, &squares) == 0);
    EXPECT(optimizer_save(&before, &state) == 0);
    EXPECT(learn_once(&first, &before, 3, text, &squares) == 0);
    EXPECT(optimizer_load(&after, &state) == 0);
    EXPECT(learn_once(&second, &after, 3, text, &squares) == 0);
    EXPECT(optimizer_weights_hash(&before, &hashes[0]) == 0);
    EXPECT(optimizer_weights_hash(&after, &hashes[1]) == 0);
    EXPECT(hashes[0] == hashes[1]);
    optimizer_state_done(&state);
    optimizer_done(&after);
    optimizer_done(&before);
    rig_model_done(&second);
    rig_model_done(&first);
    return 0;
}

static void a_saved_state_is_the_state(void **state)
{
    (void)state;
    const struct comm_layout cube = {2, 1, 2, 2};
    rig_run_world(&cube, state_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_out_is_as_alone),
        cmocka_unit_test(a_saved_state_is_the_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
