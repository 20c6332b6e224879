/* parameters_test: the parts of every layout make up the whole model, each element once; the order
 * of passes keeps its promises. */
#include "agent/trainer/parameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainer/schedule.h"
#include "tests/lib/test.h"

static const struct model_shape shape = {.context = 16, .layers = 4, .width = 64};
static const struct comm_layout whole_layout = {1, 1, 1, 1};
static const struct comm_layout layouts[] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {4, 1, 1, 1}, {1, 1, 2, 1},
                                             {1, 1, 4, 1}, {2, 1, 2, 1}, {4, 1, 4, 2}};

static struct parameters whole_of(void)
{
    struct parameters parameters;
    const struct comm_layout origin = {0, 0, 0, 0};
    assert_int_equal(parameters_init(&parameters, &shape, &whole_layout, &origin), 0);
    return parameters;
}

/* Parts of one value each, put in place: every element of the whole is somebody's, and only what is
 * not split is more than one tensor rank's. */
static void parts_cover_the_whole_once(const struct comm_layout *layout)
{
    struct parameters all = whole_of();
    const size_t elements = parameters_whole_elements(&all);
    float *count = calloc(elements, sizeof(*count));
    float *whole = calloc(elements, sizeof(*whole));
    assert_true(count != NULL && whole != NULL);
    for (uint32_t rank = 0; rank < comm_layout_world(layout); rank++) {
        const struct comm_layout place = comm_layout_place(layout, rank);
        struct parameters part;
        assert_int_equal(parameters_init(&part, &shape, layout, &place), 0);
        float *flat = malloc(part.elements * sizeof(*flat));
        assert_non_null(flat);
        for (size_t i = 0; i < part.elements; i++) {
            flat[i] =
                place.data == 0 && (i < part.split_elements || place.tensor == 0) ? 1.0f : 0.0f;
        }
        memset(whole, 0, elements * sizeof(*whole));
        parameters_place(&part, flat, whole);
        for (size_t i = 0; i < elements; i++) {
            count[i] += whole[i];
        }
        free(flat);
        parameters_done(&part);
    }
    for (size_t i = 0; i < elements; i++) {
        assert_true(count[i] == 1.0f);
    }
    free(whole);
    free(count);
    parameters_done(&all);
}

static void every_layout_covers_the_whole_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        parts_cover_the_whole_once(&layouts[i]);
    }
}

static float *drawn_whole(uint64_t seed, size_t *ret_elements)
{
    struct parameters all = whole_of();
    const size_t elements = parameters_whole_elements(&all);
    float *flat = malloc(elements * sizeof(*flat));
    float *whole = malloc(elements * sizeof(*whole));
    assert_true(flat != NULL && whole != NULL);
    parameters_draw(&all, seed, flat);
    parameters_place(&all, flat, whole);
    free(flat);
    parameters_done(&all);
    *ret_elements = elements;
    return whole;
}

/* Initial weights are a function of seed, name and index: no layout changes a bit. */
static void every_layout_begins_with_the_same_weights(void **state)
{
    (void)state;
    size_t elements = 0;
    float *expected = drawn_whole(5, &elements);
    float *other = drawn_whole(6, &elements);
    assert_true(memcmp(expected, other, elements * sizeof(*other)) != 0);
    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
        memset(other, 0xff, elements * sizeof(*other));
        for (uint32_t rank = 0; rank < comm_layout_world(&layouts[l]); rank++) {
            const struct comm_layout place = comm_layout_place(&layouts[l], rank);
            struct parameters part;
            assert_int_equal(parameters_init(&part, &shape, &layouts[l], &place), 0);
            float *flat = malloc(part.elements * sizeof(*flat));
            assert_non_null(flat);
            parameters_draw(&part, 5, flat);
            parameters_place(&part, flat, other);
            free(flat);
            parameters_done(&part);
        }
        assert_memory_equal(expected, other, elements * sizeof(*other));
    }
    free(other);
    free(expected);
}

/* Heads stay whole: with two tensor ranks the second one has the second half of the queries, of the
 * keys and of the values, not the second half of all columns. */
static void queries_keys_and_values_are_split_each(void **state)
{
    (void)state;
    const struct comm_layout layout = {2, 1, 1, 1};
    const struct comm_layout place = {1, 0, 0, 0};
    struct parameters part;
    assert_int_equal(parameters_init(&part, &shape, &layout, &place), 0);
    const struct parameter *qkv = parameters_block(&part, 1, QKV);
    const struct parameter *join = parameters_block(&part, 1, JOIN);
    assert_string_equal(qkv->name, "block1.qkv");
    assert_int_equal(qkv->columns, 96);
    assert_int_equal(parameter_whole_index(qkv, 0, 0), 32);
    assert_int_equal(parameter_whole_index(qkv, 0, 31), 63);
    assert_int_equal(parameter_whole_index(qkv, 0, 32), 64 + 32);
    assert_int_equal(parameter_whole_index(qkv, 2, 64), 2 * 192 + 128 + 32);
    assert_int_equal(join->rows, 32);
    assert_int_equal(parameter_whole_index(join, 0, 5), 32 * 64 + 5);
    parameters_done(&part);
}

static void names_are_different(void **state)
{
    (void)state;
    struct parameters all = whole_of();
    for (size_t a = 0; a < all.count; a++) {
        for (size_t b = 0; b < a; b++) {
            assert_string_not_equal(all.list[a].name, all.list[b].name);
        }
    }
    parameters_done(&all);
}

/* ---- schedule ------------------------------------------------------------------------------- */

/* One stage: each micro-batch forward once, then backward once, in order; never more in flight than
 * promised, so that place m % in_flight is free whenever m begins. */
static void check_stage(const struct schedule *schedule)
{
    uint32_t forward = 0;
    uint32_t backward = 0;
    const uint32_t limit = schedule_in_flight(schedule);
    assert_true(limit <= schedule->stages - schedule->stage);
    for (uint32_t i = 0; i < schedule_length(schedule); i++) {
        const struct schedule_pass pass = schedule_at(schedule, i);
        assert_int_equal(pass.micro, pass.backward ? backward : forward);
        forward += pass.backward ? 0 : 1;
        backward += pass.backward ? 1 : 0;
        assert_true(backward <= forward && forward - backward <= limit);
    }
    assert_int_equal(forward, schedule->micros);
    assert_int_equal(backward, schedule->micros);
}

/* All stages together, each doing its next pass as soon as what it needs is there: none waits for
 * ever. */
static void check_stages(uint32_t stages, uint32_t micros)
{
    uint32_t at[8] = {0};
    uint32_t forward[8] = {0};
    uint32_t backward[8] = {0};
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t stage = 0; stage < stages; stage++) {
            const struct schedule schedule = {stage, stages, micros};
            if (at[stage] == schedule_length(&schedule)) {
                continue;
            }
            const struct schedule_pass pass = schedule_at(&schedule, at[stage]);
            const bool ready = pass.backward
                                   ? stage + 1 == stages || backward[stage + 1] > pass.micro
                                   : stage == 0 || forward[stage - 1] > pass.micro;
            if (ready) {
                (pass.backward ? backward : forward)[stage]++;
                at[stage]++;
                moved = true;
            }
        }
    }
    for (uint32_t stage = 0; stage < stages; stage++) {
        assert_int_equal(at[stage], 2 * micros);
    }
}

static void passes_come_in_a_possible_order(void **state)
{
    (void)state;
    for (uint32_t stages = 1; stages <= 8; stages++) {
        for (uint32_t micros = 1; micros <= 12; micros++) {
            for (uint32_t stage = 0; stage < stages; stage++) {
                const struct schedule schedule = {stage, stages, micros};
                check_stage(&schedule);
            }
            check_stages(stages, micros);
        }
    }
}

/* The picture in schedule.h. */
static void three_stages_are_as_drawn(void **state)
{
    (void)state;
    static const char *const drawn[] = {"F0 F1 F2 B0 F3 B1 B2 B3 ", "F0 F1 B0 F2 B1 F3 B2 B3 ",
                                        "F0 B0 F1 B1 F2 B2 F3 B3 "};
    for (uint32_t stage = 0; stage < 3; stage++) {
        const struct schedule schedule = {stage, 3, 4};
        char text[64] = "";
        for (uint32_t i = 0; i < schedule_length(&schedule); i++) {
            const struct schedule_pass pass = schedule_at(&schedule, i);
            const size_t used = strlen(text);
            (void)snprintf(text + used, sizeof(text) - used, "%c%u ", pass.backward ? 'B' : 'F',
                           pass.micro);
        }
        assert_string_equal(text, drawn[stage]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_covers_the_whole_once),
        cmocka_unit_test(every_layout_begins_with_the_same_weights),
        cmocka_unit_test(queries_keys_and_values_are_split_each),
        cmocka_unit_test(names_are_different),
        cmocka_unit_test(passes_come_in_a_possible_order),
        cmocka_unit_test(three_stages_are_as_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
