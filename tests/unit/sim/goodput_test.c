/* goodput_test.c: goodput runs: the records of a sleeping fleet are those of one that never sleeps,
 * the time adds up, and what comes out is what theory expects. */
#include <math.h>
#include <string.h>

#include "controller/sim/goodput.h"
#include "controller/sim/goodput_quantiles.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

#define HOUR_MS 3600000ull
#define DAY_MS  (24 * HOUR_MS)

static void small(struct goodput_options *options, const char *preset)
{
    assert_int_equal(goodput_preset(options, preset), 0);
    options->nodes = 40;
    options->spares = 8;
    options->wall_ms = DAY_MS;
    options->failures_ppm = 400000; /* some 13 a day */
    options->drains_ppm = 100000;
}

/* The job of 2,048 nodes as far as theory sees it: the same gap between its failures, on fewer
 * nodes, which cost less to step; and so many spares that no breaker finds the evictions too many. */
static void like_2048(struct goodput_options *options)
{
    assert_int_equal(goodput_preset(options, "llama3"), 0);
    options->nodes = 128;
    options->spares = 96;
    options->failures_ppm *= 2048 / 32;
    options->drains_ppm *= 2048 / 32;
    options->wall_ms = 27 * DAY_MS; /* with two seeds as long as what the preset is made of */
}

static void equal_with_full_heartbeats(const char *preset, uint64_t seed, uint32_t ranks,
                                       uint32_t hours)
{
    struct goodput_options options;
    struct goodput_result lazy;
    struct goodput_result full;
    small(&options, preset);
    options.wall_ms = hours * HOUR_MS;
    options.failures_ppm = 1000000;
    options.drains_ppm = 300000;
    options.seed = seed;
    options.ranks_per_node = ranks;
    goodput_run(&options, &lazy);
    options.full_heartbeats = true;
    goodput_run(&options, &full);
    assert_true(lazy.failures > 0);
    assert_int_equal(lazy.failures, full.failures);
    assert_int_equal(lazy.records, full.records);
    assert_int_equal(lazy.records_hash, full.records_hash);
    assert_int_equal(lazy.useful_ms, full.useful_ms);
    assert_int_equal(full.sleeps, 0);
    assert_true(lazy.beats * 5 < full.beats); /* it really slept */
}

static void a_sleeping_fleet_writes_the_same_records(void **state)
{
    (void)state;
    equal_with_full_heartbeats("llama3", 1, 1, 3);
    equal_with_full_heartbeats("llama3", 2, 2, 4);
    equal_with_full_heartbeats("field", 3, 1, 3);
    /* The program loads an older save than it was given. */
    equal_with_full_heartbeats("llama3", 4, 1, 5);
    /* A node fails while a spare is waited for. */
    equal_with_full_heartbeats("llama3", 9, 1, 2);
    /* Short stretches in a row: spares, which have no news, stay heard. */
    equal_with_full_heartbeats("llama3", 30, 1, 2);
}

static void repeats_and_depends_on_its_seed(void **state)
{
    (void)state;
    struct goodput_options options;
    struct goodput_result result[3];
    small(&options, "field");
    for (uint32_t run = 0; run < 3; run++) {
        options.seed = run < 2 ? 7 : 8;
        goodput_run(&options, &result[run]);
    }
    assert_int_equal(result[0].records_hash, result[1].records_hash);
    assert_true(result[0].records_hash != result[2].records_hash);
}

/* Every millisecond once: goodput.c checks the sum itself; the controller's own account is another
 * one, made from what it was told, and must come to nearly the same. */
static void both_accounts_agree(void **state)
{
    (void)state;
    struct goodput_options options;
    struct goodput_result result;
    like_2048(&options);
    options.wall_ms = 10 * DAY_MS;
    goodput_run(&options, &result);
    uint64_t sum_ms = result.useful_ms + result.stall_ms + result.start_ms + result.unsettled_ms;
    for (uint32_t index = 0; index <= GOODPUT_CATEGORIES_MAX; index++) {
        const struct goodput_cost *cost = &result.cost[index];
        sum_ms += cost->redo_ms + cost->detect_ms + cost->down_ms;
    }
    assert_int_equal(sum_ms, options.wall_ms);
    uint64_t first_ms = (uint64_t)options.step_ms * result.recoveries; /* first steps stand, too */
    uint64_t booked_ms = result.booked_ms[TIME_PRODUCTIVE] + first_ms;
    double differs = ((double)booked_ms - (double)result.useful_ms) / (double)result.wall_ms;
    assert_true(fabs(differs) < 0.01);
    assert_int_equal(result.false_evictions, 0);
    assert_int_equal(result.ended, 0);
}

static double goodput_of(const struct goodput_options *options, uint32_t seeds, double *ret_form)
{
    struct goodput_options copy = *options;
    struct goodput_form form;
    double sum = 0;
    for (uint32_t seed = 1; seed <= seeds; seed++) {
        struct goodput_result result;
        copy.seed = seed;
        goodput_run(&copy, &result);
        assert_int_equal(result.ended, 0);
        sum += (double)result.useful_ms / (double)result.wall_ms;
    }
    goodput_form(options, &form);
    *ret_form = form.goodput;
    return sum / seeds;
}

static void llama3_is_what_theory_expects(void **state)
{
    (void)state;
    struct goodput_options options;
    double form;
    like_2048(&options);
    double goodput = goodput_of(&options, 2, &form);
    assert_true(goodput >= 0.973);
    assert_true(fabs(goodput - form) < 0.003);
}

static void one_kind_of_failure_is_what_theory_expects(void **state)
{
    (void)state;
    struct goodput_options options;
    double form;
    like_2048(&options);
    for (uint32_t index = 0; index < options.category_count; index++) {
        options.category[index].count = index == 0 ? 1 : 0;
    }
    options.category[0].repair_ms = (uint32_t)HOUR_MS;
    options.drains_ppm = 0;
    double goodput = goodput_of(&options, 2, &form);
    assert_true(fabs(goodput - form) < 0.003);
    options.interval_steps = 30; /* far from the best: the interval must count as theory says */
    goodput = goodput_of(&options, 2, &form);
    assert_true(fabs(goodput - form) < 0.003);
}

static void a_trace_strikes_as_it_says(void **state)
{
    (void)state;
    const struct goodput_given given[] = {
        {HOUR_MS, 3, 0}, {2 * HOUR_MS, 4, 4}, {3 * HOUR_MS, 5, 2}};
    struct goodput_options options;
    struct goodput_result result;
    small(&options, "llama3");
    options.drains_ppm = 0;
    options.given = given;
    options.given_count = 3;
    goodput_run(&options, &result);
    assert_int_equal(result.failures, 3);
    assert_int_equal(result.recoveries, 3);
    assert_int_equal(result.cost[0].count, 1);
    assert_int_equal(result.cost[4].count, 1);
    assert_int_equal(result.cost[2].count, 1);
    assert_int_equal(result.wrong_verdicts, 0);
    assert_int_equal(result.interventions, 0);
}

static void spares_run_out_and_cost_what_they_cost(void **state)
{
    (void)state;
    struct goodput_options options;
    struct goodput_result few;
    struct goodput_result many;
    small(&options, "llama3");
    options.repair_ms = (uint32_t)(6 * HOUR_MS);
    goodput_run(&options, &many);
    options.nodes = 33;
    options.spares = 1;
    goodput_run(&options, &few);
    assert_int_equal(few.spares_least, 0);
    assert_true(few.booked_ms[TIME_WAIT_SPARE] > HOUR_MS);
    assert_int_equal(many.booked_ms[TIME_WAIT_SPARE], 0);
    assert_true(few.useful_ms < many.useful_ms);
}

/* With all signs nobody leaves for another's fault, and each fault is named at once. Some that never
 * arrive cost time, and still no node that was well. */
static void lost_signs_blame_nobody_else(void **state)
{
    (void)state;
    struct goodput_options options;
    struct goodput_result all;
    struct goodput_result some;
    small(&options, "field");
    options.nodes = 64;
    options.spares = 16;
    options.wall_ms = 20 * DAY_MS;
    options.failures_ppm = 20000;
    options.together_ppm = 0;
    goodput_run(&options, &all);
    options.lost_ppm = 300000;
    goodput_run(&options, &some);
    assert_int_equal(all.false_evictions, 0);
    assert_int_equal(some.false_evictions, 0);
    uint32_t missed = 0;
    uint32_t named = 0;
    for (uint32_t index = 0; index < options.category_count; index++) {
        if (options.category[index].how == GOODPUT_SIGNAL) {
            assert_int_equal(all.cost[index].right, all.cost[index].judged);
            missed += some.cost[index].judged - some.cost[index].right;
            named += some.cost[index].right;
        }
        assert_int_equal(some.cost[index].evicted_well, some.cost[index].evicted);
    }
    assert_true(missed > 0);
    assert_true(named > missed);
    assert_true(some.useful_ms < all.useful_ms);
}

/* What only a person may go on with is not for ever, and is counted. */
static void a_person_closes_a_breaker(void **state)
{
    (void)state;
    struct goodput_given given[6];
    struct goodput_options options;
    struct goodput_result result;
    small(&options, "llama3");
    options.drains_ppm = 0;
    for (uint32_t index = 0; index < 6; index++) { /* one rule takes more than 4 nodes in a day */
        given[index] = (struct goodput_given){(index + 1) * HOUR_MS, index, 0};
    }
    options.given = given;
    options.given_count = 6;
    goodput_run(&options, &result);
    assert_int_equal(result.recoveries, 6);
    assert_int_equal(result.interventions, 1);
}

static void impossible_fleets_are_refused(void **state)
{
    (void)state;
    struct goodput_options options;
    struct err err = {0};
    assert_true(goodput_preset(&options, "alpaca") < 0);
    small(&options, "llama3");
    assert_int_equal(goodput_check(&options, &err), 0);
    options.spares = options.nodes;
    assert_true(goodput_check(&options, &err) < 0);
    assert_non_null(strstr(err.text, "leave none for the job"));
    small(&options, "llama3");
    options.interval_steps = 1; /* 12 s between saves of 51 s */
    assert_true(goodput_check(&options, &err) < 0);
    assert_non_null(strstr(err.text, "5 steps or more"));
    small(&options, "llama3");
    options.nodes = GOODPUT_NODES_MAX + 1;
    assert_true(goodput_check(&options, &err) < 0);
    options.nodes = 40;
    options.step_ms = 0;
    assert_true(goodput_check(&options, &err) < 0);
}

static double mean_of(const uint32_t *table)
{
    double sum = 0;
    for (uint32_t index = 0; index < GOODPUT_QUANTILES; index++) {
        assert_true(index == 0 || table[index - 1] <= table[index]);
        sum += table[index];
    }
    return sum / GOODPUT_QUANTILES / GOODPUT_ONE;
}

static void tables_have_the_means_of_their_distributions(void **state)
{
    (void)state;
    assert_true(fabs(mean_of(goodput_exponential) - 1) < 1e-5);
    assert_true(fabs(mean_of(goodput_weibull_07) - 1) < 1e-5);
    assert_true(fabs(mean_of(goodput_lemon) - 1) < 1e-5);
    assert_true(fabs(mean_of(goodput_repair_hardware) - exp(1.28 * 1.28 / 2)) < 1e-4);
    assert_true(fabs(mean_of(goodput_repair_network) - exp(1.60 * 1.60 / 2)) < 1e-4);
    assert_true(fabs(mean_of(goodput_repair_facility) - exp(1.22 * 1.22 / 2)) < 1e-4);
    for (uint32_t index = 0; index < GOODPUT_QUANTILES; index++) { /* of each 1/1024 the middle */
        double middle = -log(1 - (index + 0.5) / GOODPUT_QUANTILES);
        bool tail = index > GOODPUT_QUANTILES - 8;
        assert_true(tail || fabs((double)goodput_exponential[index] / GOODPUT_ONE - middle) < 0.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sleeping_fleet_writes_the_same_records),
        cmocka_unit_test(repeats_and_depends_on_its_seed),
        cmocka_unit_test(both_accounts_agree),
        cmocka_unit_test(llama3_is_what_theory_expects),
        cmocka_unit_test(one_kind_of_failure_is_what_theory_expects),
        cmocka_unit_test(a_trace_strikes_as_it_says),
        cmocka_unit_test(spares_run_out_and_cost_what_they_cost),
        cmocka_unit_test(lost_signs_blame_nobody_else),
        cmocka_unit_test(a_person_closes_a_breaker),
        cmocka_unit_test(impossible_fleets_are_refused),
        cmocka_unit_test(tables_have_the_means_of_their_distributions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
