/* estimate_test.c: the integer formulas against the same ones in floating point, to 0.1 %. */
#include <math.h>

#include "controller/core/estimate.h"
#include "tests/lib/test.h"

#define HOUR 3600000.0
#define DAY  (24 * HOUR)

static void close_to(double value, double expected, double part, double rest)
{
    if (fabs(value - expected) > fabs(expected) * part + rest) {
        fail_msg("%.9g is not %.9g", value, expected);
    }
}

static void roots_are_rounded_down(void **state)
{
    (void)state;
    const uint64_t values[] = {0, 1, 2, 3, 4, 99, 100, 1u << 31, 1ull << 62, UINT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        uint64_t root = estimate_sqrt(values[i]);
        assert_true(root * root <= values[i]);
        assert_true(root == UINT32_MAX || (root + 1) * (root + 1) > values[i]);
    }
}

static double daly_ms(double w, double m)
{
    double x = w / (2 * m);
    return w < 2 * m ? sqrt(2 * w * m) * (1 + sqrt(x) / 3 + x / 9) - w : m;
}

static void intervals_are_those_of_daly(void **state)
{
    (void)state;
    const double stalls[] = {1, 40, 590, 5000, 20000, 60000, 1800000};
    const double gaps[] = {60000, 1800000, 11135000, DAY, 30 * DAY};
    for (size_t s = 0; s < 7; s++) {
        for (size_t g = 0; g < 5; g++) {
            struct estimate_interval_input input = {.stall_ms = (uint64_t)stalls[s],
                                                    .gap_ms = (uint64_t)gaps[g]};
            double expected = daly_ms(stalls[s], gaps[g]);
            close_to((double)estimate_interval_ms(&input), expected, 0.001, 1.0);
        }
    }
}

/* Published: 105, 330, 654 and 1,116 s are the exact optima for these stalls; Daly's is near them. */
static void intervals_are_near_the_exact_optimum(void **state)
{
    (void)state;
    const double exact[][2] = {{500, 105000}, {5000, 330000}, {20000, 654000}, {60000, 1116000}};
    for (size_t i = 0; i < 4; i++) {
        struct estimate_interval_input input = {.stall_ms = (uint64_t)exact[i][0],
                                                .gap_ms = 11135000};
        close_to((double)estimate_interval_ms(&input), exact[i][1], 0.005, 0);
    }
}

static void intervals_are_whole_steps_and_no_two_saves_overlap(void **state)
{
    (void)state;
    struct estimate_interval_input input = {
        .stall_ms = 590, .save_ms = 51000, .step_ms = 12000, .gap_ms = 11135000};
    assert_int_equal(estimate_interval_steps(&input), 10); /* 114 s */
    input.save_ms = 125000;
    assert_int_equal(estimate_interval_steps(&input), 11);
    assert_int_equal(estimate_interval_ms(&input), 125000);
    input.step_ms = 0;
    assert_int_equal(estimate_interval_steps(&input), 0);
    input = (struct estimate_interval_input){.step_ms = 1000000, .gap_ms = 1};
    assert_int_equal(estimate_interval_steps(&input), 1);
    input = (struct estimate_interval_input){UINT64_MAX, UINT64_MAX, 1, UINT64_MAX};
    assert_int_equal(estimate_interval_steps(&input), UINT32_MAX);
}

static void a_save_that_takes_two_gaps_waits_for_one(void **state)
{
    (void)state;
    struct estimate_interval_input input = {.stall_ms = 2000000, .gap_ms = 1000000};
    assert_int_equal(estimate_interval_ms(&input), 1000000);
    input.stall_ms--; /* the formula, which does not join there */
    close_to((double)estimate_interval_ms(&input), 888889, 0.001, 1);
}

static void the_best_interval_costs_least(void **state)
{
    (void)state;
    const uint64_t stalls[] = {40, 590, 5000, 60000};
    const uint64_t gaps[] = {1800000, 11135000, 86400000};
    for (size_t s = 0; s < 4; s++) {
        for (size_t g = 0; g < 3; g++) {
            struct estimate_interval_input input = {.stall_ms = stalls[s], .gap_ms = gaps[g]};
            uint64_t best = estimate_interval_ms(&input);
            double w = (double)stalls[s];
            double m = (double)gaps[g];
            for (uint64_t part = 1; part <= 64; part *= 2) { /* an eighth to eight times of it */
                uint64_t interval = best * part / 8;
                double cost = w / (double)interval + (double)interval / (2 * m);
                uint32_t ppm = estimate_interval_cost_ppm(&input, interval);
                close_to((double)ppm, 1e6 * (cost < 1 ? cost : 1), 0.001, 1.0);
                assert_true(part == 8 || ppm > estimate_interval_cost_ppm(&input, best));
            }
            if (w < m / 100) { /* at its best it is sqrt(2w/M) */
                close_to((double)estimate_interval_cost_ppm(&input, best), 1e6 * sqrt(2 * w / m),
                         0.01, 1.0);
            }
        }
    }
    struct estimate_interval_input input = {UINT64_MAX, UINT64_MAX, 0, 0};
    assert_int_equal(estimate_interval_cost_ppm(&input, 0), 1000000);
    assert_int_equal(estimate_interval_cost_ppm(&input, UINT64_MAX), 1000000);
    input = (struct estimate_interval_input){.gap_ms = UINT64_MAX};
    assert_int_equal(estimate_interval_cost_ppm(&input, 1), 1);
}

static void means_have_one_assumed_time_in_them(void **state)
{
    (void)state;
    assert_int_equal(estimate_mean_ms(0, 0, 5000), 5000);
    assert_int_equal(estimate_mean_ms(3, 9000, 5000), 3500);
    assert_int_equal(estimate_mean_ms(0, 0, 0), 1);
    assert_in_range(estimate_mean_ms(UINT32_MAX, UINT64_MAX, UINT64_MAX), 1, UINT32_MAX);
}

static void exponentials_are_exact_to_the_last_bits(void **state)
{
    (void)state;
    for (double x = 0; x < 23; x += 0.037) {
        double value = (double)estimate_exp_minus((uint64_t)(x * 4294967296.0)) / 4294967296.0;
        close_to(value, exp(-x), 0, 8 / 4294967296.0);
    }
    assert_int_equal(estimate_exp_minus(0), 1ull << 32);
    assert_int_equal(estimate_exp_minus(UINT64_MAX), 0);
}

static uint32_t poisson_spares(double mean, double enough)
{
    double term = exp(-mean);
    double sum = term;
    uint32_t k = 0;
    while (sum < enough) {
        term *= mean / ++k;
        sum += term;
    }
    return k;
}

static void spares_are_the_quantile(void **state)
{
    (void)state;
    const double means[] = {0.01, 0.3, 1, 2.5, 7.76, 23, 100, 400};
    for (size_t i = 0; i < 8; i++) {
        struct estimate_spares_input input = {.nodes = 4096,
                                              .node_gap_ms = (uint64_t)(4096 * DAY / means[i]),
                                              .away_ms = (uint64_t)DAY,
                                              .enough_q32 = ESTIMATE_Q32_99};
        assert_int_equal(estimate_spares(&input), poisson_spares(means[i], 0.99));
        input.enough_q32 = 1u << 30; /* a quarter: under the mean */
        assert_int_equal(estimate_spares(&input), poisson_spares(means[i], 0.25));
    }
}

/* 2,048 nodes, 3.79e-3 failures a node-day, P99: 4, 9, 15 and 35 for 4 h, 12 h, 1 d and 3 d are the
 * binomial's; the Poisson one may be one more. */
static void spares_are_those_that_are_known(void **state)
{
    (void)state;
    const uint32_t known[][2] = {{4, 4}, {12, 9}, {24, 15}, {72, 35}};
    for (size_t i = 0; i < 4; i++) {
        struct estimate_spares_input input = {.nodes = 2048,
                                              .node_gap_ms = (uint64_t)(DAY / 3.79e-3),
                                              .away_ms = known[i][0] * (uint64_t)HOUR,
                                              .enough_q32 = ESTIMATE_Q32_99};
        assert_in_range(estimate_spares(&input), known[i][1], known[i][1] + 1);
    }
    struct estimate_spares_input never = {.nodes = 100, .node_gap_ms = UINT64_MAX};
    assert_int_equal(estimate_spares(&never), 0);
    struct estimate_spares_input always = {100, 0, UINT64_MAX, ESTIMATE_Q32_99};
    assert_int_equal(estimate_spares(&always), 100);
}

static void strikes_halve(void **state)
{
    (void)state;
    const double week = 7 * DAY;
    for (double age = 0; age < 60 * DAY; age += 1.7 * DAY) {
        double value = (double)estimate_decayed(1000000, (uint64_t)age, (uint64_t)week);
        close_to(value, 1000000 * pow(2, -age / week), 0.001, 1);
    }
    assert_int_equal(estimate_decayed(1000, UINT64_MAX, 1), 0);
    assert_int_equal(estimate_decayed(0, 5, 0), 0);
}

static void a_gap_is_what_was_seen_and_what_was_assumed(void **state)
{
    (void)state;
    assert_int_equal(estimate_gap_ms(0, 0, 1000), 1000);
    assert_int_equal(estimate_gap_ms(0, 9000, 1000), 10000); /* none in all that time: longer */
    assert_int_equal(estimate_gap_ms(99, 9000, 1000), 100);
    assert_int_equal(estimate_gap_ms(UINT64_MAX, 5, 0), 0);
}

static void an_eviction_has_its_price(void **state)
{
    (void)state;
    struct estimate_eviction_input input = {.extra = 15,
                                            .wrong_q32 = 1u << 31, /* a half */
                                            .cycle_ms = 200000,
                                            .no_spare_q32 = 4294967, /* 0.1 % */
                                            .wait_ms = 3600000};
    double expected = 0.5 * 200000 - 15 * 0.001 * 3600000;
    close_to((double)estimate_eviction_gain_ms(&input), expected, 0.001, 16);
    input.extra = 60;
    assert_true(estimate_eviction_gain_ms(&input) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_are_rounded_down),
        cmocka_unit_test(intervals_are_those_of_daly),
        cmocka_unit_test(intervals_are_near_the_exact_optimum),
        cmocka_unit_test(intervals_are_whole_steps_and_no_two_saves_overlap),
        cmocka_unit_test(a_save_that_takes_two_gaps_waits_for_one),
        cmocka_unit_test(the_best_interval_costs_least),
        cmocka_unit_test(means_have_one_assumed_time_in_them),
        cmocka_unit_test(exponentials_are_exact_to_the_last_bits),
        cmocka_unit_test(spares_are_the_quantile),
        cmocka_unit_test(spares_are_those_that_are_known),
        cmocka_unit_test(strikes_halve),
        cmocka_unit_test(a_gap_is_what_was_seen_and_what_was_assumed),
        cmocka_unit_test(an_eviction_has_its_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
