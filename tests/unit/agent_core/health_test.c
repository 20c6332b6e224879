/* health_test.c: level state of a node's things: told once, until acknowledged, and never because a
 * sensor failed. */
#include <string.h>

#include "agent/core/health.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum { PROBE = 2, OTHER = 5 };

static struct finding reading(const char *key, uint8_t verdict)
{
    struct finding finding = {.verdict = verdict, .source = FACT_PROBE, .gpu = -1, .port = -1};
    (void)text_copy(finding.key, sizeof(finding.key), key);
    if (verdict == VERDICT_WARN || verdict == VERDICT_FAIL) {
        finding.advice = verdict == VERDICT_WARN ? ADVICE_WATCH : ADVICE_EVICT;
        finding.role = ROLE_ROOT;
        finding.severity = verdict == VERDICT_WARN ? 1 : 3;
        (void)text_copy(finding.signal, sizeof(finding.signal), "port-down");
    }
    return finding;
}

/* A round of one probe with up to two things, NULL: not named. */
static void play(struct health *health, const char *a, uint8_t a_verdict, const char *b,
                 uint8_t b_verdict)
{
    const char *const keys[] = {a, b};
    const uint8_t verdicts[] = {a_verdict, b_verdict};
    health_begin(health, PROBE);
    for (int i = 0; i < 2; i++) {
        if (keys[i] != NULL) {
            const struct finding one = reading(keys[i], verdicts[i]);
            assert_true(health_reading(health, PROBE, &one));
        }
    }
    health_end(health, PROBE, "");
}

static void play_one(struct health *health, uint8_t verdict)
{
    play(health, "a", verdict, NULL, 0);
}

static bool quiet(const struct health *health)
{
    struct finding finding;
    uint32_t probe = 0;
    uint32_t ticket = 0;
    return !health_due(health, &finding, &probe, &ticket);
}

/* What is due is said as fact number `sequence`. */
static struct finding say(struct health *health, uint64_t sequence)
{
    struct finding finding;
    uint32_t probe = 0;
    uint32_t ticket = 0;
    assert_true(health_due(health, &finding, &probe, &ticket));
    health_said(health, ticket, sequence);
    return finding;
}

static int setup(void **state)
{
    *state = health_create();
    return 0;
}

static int teardown(void **state)
{
    return health_free(*state) == NULL ? 0 : 1;
}

static void test_a_change_is_said_once(void **state)
{
    struct health *health = *state;
    play_one(health, VERDICT_OK);
    assert_true(quiet(health)); /* nobody has to hear that all is well */
    play_one(health, VERDICT_FAIL);
    const struct finding bad = say(health, 1);
    assert_int_equal(bad.severity, 3);
    for (int i = 0; i < 5; i++) {
        play_one(health, VERDICT_FAIL);
        assert_true(quiet(health));
    }
    assert_false(health_acknowledged(health, 1)); /* lower numbers only */
    assert_true(health_acknowledged(health, 2));
    play_one(health, VERDICT_FAIL);
    assert_true(quiet(health));
    play_one(health, VERDICT_OK);
    const struct finding well = say(health, 2);
    assert_int_equal(well.severity, 0);
    assert_int_equal(well.advice, ADVICE_NONE);
    assert_int_equal(well.role, ROLE_NOISE);
    assert_int_equal(well.label, LABEL_BENIGN);
    assert_string_equal(well.signal, "port-down"); /* what it is that ended */
    assert_true(health_acknowledged(health, 3));
    assert_true(quiet(health));
}

/* While one fact waits for its acknowledgement only the newest state is kept, and said then. */
static void test_changes_while_nobody_answers(void **state)
{
    struct health *health = *state;
    play_one(health, VERDICT_FAIL);
    (void)say(health, 1);
    for (int i = 0; i < 20; i++) {
        play_one(health, i % 2 == 0 ? VERDICT_OK : VERDICT_FAIL);
        assert_true(quiet(health));
    }
    play_one(health, VERDICT_WARN);
    assert_true(health_acknowledged(health, 2));
    assert_int_equal(say(health, 2).verdict, VERDICT_WARN);
    assert_true(quiet(health));
}

static void test_a_sensor_that_fails_is_no_device_that_fails(void **state)
{
    struct health *health = *state;
    play_one(health, VERDICT_NOT_RUN);
    play_one(health, VERDICT_NOT_RUN);
    play_one(health, VERDICT_NOT_RUN);
    assert_true(quiet(health)); /* there never was such a sensor here */
    play_one(health, VERDICT_OK);
    play_one(health, VERDICT_NOT_RUN);
    play_one(health, VERDICT_NOT_RUN);
    play_one(health, VERDICT_OK); /* not in a row */
    play_one(health, VERDICT_NOT_RUN);
    play_one(health, VERDICT_NOT_RUN);
    assert_true(quiet(health));
    play_one(health, VERDICT_NOT_RUN);
    const struct finding lost = say(health, 1);
    assert_int_equal(lost.verdict, VERDICT_NOT_RUN);
    assert_int_equal(lost.severity, 0);
    assert_true(health_acknowledged(health, 2));
    play_one(health, VERDICT_OK);
    assert_int_equal(say(health, 2).verdict, VERDICT_OK);
}

static void test_a_failing_sensor_mends_nothing(void **state)
{
    struct health *health = *state;
    play_one(health, VERDICT_FAIL);
    (void)say(health, 1);
    assert_true(health_acknowledged(health, 2));
    for (int i = 0; i < 10; i++) {
        play_one(health, VERDICT_NOT_RUN);
    }
    assert_true(quiet(health));
    play_one(health, VERDICT_OK);
    assert_int_equal(say(health, 2).verdict, VERDICT_OK);
}

/* Everything gone at once: that is our eyes, and one fact. */
static void test_all_things_vanish(void **state)
{
    struct health *health = *state;
    play(health, "a", VERDICT_OK, "b", VERDICT_FAIL);
    (void)say(health, 1);
    assert_true(health_acknowledged(health, 2));
    play(health, NULL, 0, NULL, 0);
    play(health, NULL, 0, NULL, 0);
    assert_true(quiet(health));
    play(health, NULL, 0, NULL, 0);
    const struct finding lost = say(health, 2);
    assert_string_equal(lost.key, HEALTH_PROBE_KEY);
    assert_int_equal(lost.verdict, VERDICT_NOT_RUN);
    assert_true(health_acknowledged(health, 3));
    assert_true(quiet(health));
    play(health, "a", VERDICT_OK, "b", VERDICT_FAIL);
    assert_string_equal(say(health, 3).key, HEALTH_PROBE_KEY); /* it works again */
    assert_true(health_acknowledged(health, 4));
    assert_true(quiet(health)); /* b is as it was told */
}

/* Something that never was here is no sensor that was lost. */
static void test_nothing_of_its_kind(void **state)
{
    struct health *health = *state;
    for (int i = 0; i < 5; i++) {
        play(health, NULL, 0, NULL, 0);
    }
    assert_true(quiet(health));
}

/* B10: a thing that its source does not name any more, while it names others, is forgotten. */
static void test_one_thing_is_taken_away(void **state)
{
    struct health *health = *state;
    play(health, "a", VERDICT_OK, "b", VERDICT_FAIL);
    (void)say(health, 1);
    assert_true(health_acknowledged(health, 2));
    play_one(health, VERDICT_OK);
    play_one(health, VERDICT_OK);
    assert_true(quiet(health));
    play_one(health, VERDICT_OK);
    const struct finding gone = say(health, 2);
    assert_string_equal(gone.key, "b");
    assert_int_equal(gone.verdict, VERDICT_OK);
    assert_true(health_acknowledged(health, 3));
    play(health, "a", VERDICT_OK, "b", VERDICT_OK); /* it comes back well */
    assert_true(quiet(health));
}

static void test_a_probe_that_does_not_return(void **state)
{
    struct health *health = *state;
    struct finding stuck = reading("x", VERDICT_WARN);
    play_one(health, VERDICT_OK);
    health_begin(health, PROBE);
    health_lost(health, PROBE, &stuck);
    assert_string_equal(say(health, 1).key, HEALTH_PROBE_KEY);
    assert_true(health_acknowledged(health, 2));
    health_lost(health, PROBE, &stuck);
    assert_true(quiet(health));
    play_one(health, VERDICT_OK);
    assert_int_equal(say(health, 2).verdict, VERDICT_OK);
    assert_true(health_acknowledged(health, 3));
    assert_true(quiet(health));
}

/* It returns, and finds nothing: that it was stuck is over all the same. */
static void test_a_probe_that_returns_empty(void **state)
{
    struct health *health = *state;
    struct finding stuck = reading("x", VERDICT_WARN);
    health_lost(health, PROBE, &stuck);
    (void)say(health, 1);
    assert_true(health_acknowledged(health, 2));
    play(health, NULL, 0, NULL, 0);
    const struct finding again = say(health, 2);
    assert_int_equal(again.verdict, VERDICT_OK);
    assert_string_equal(again.signal, "port-down");
}

static void test_events_by_weight(void **state)
{
    struct health *health = *state;
    struct finding light = reading("l", VERDICT_WARN);
    struct finding heavy = reading("h", VERDICT_FAIL);
    for (int i = 0; i < HEALTH_EVENTS_MAX; i++) {
        assert_true(health_event(health, PROBE, &light));
    }
    assert_false(health_event(health, OTHER, &light));
    assert_true(health_event(health, OTHER, &heavy)); /* one of the light ones makes place */
    assert_int_equal(health_events_lost(health), 2);
    assert_int_equal(say(health, 1).severity, 3);
    assert_false(health_settled(health, OTHER));
    assert_true(health_acknowledged(health, 2));
    assert_true(health_settled(health, OTHER));
    assert_false(health_settled(health, PROBE));
    assert_true(health_event(health, PROBE, &light));
    for (uint64_t i = 0; i < HEALTH_EVENTS_MAX; i++) {
        assert_int_equal(say(health, 2 + i).severity, 1);
    }
    assert_true(quiet(health));
    assert_false(health_event(health, PROBE, &light)); /* those under way keep their places */
    assert_true(health_acknowledged(health, UINT64_MAX));
    assert_true(health_settled(health, PROBE));
}

/* Of a probe all is settled when the last thing that was said of it is acknowledged. */
static void test_what_is_under_way_is_not_settled(void **state)
{
    struct health *health = *state;
    play_one(health, VERDICT_FAIL);
    (void)say(health, 1);
    assert_false(health_settled(health, PROBE));
    assert_true(health_settled(health, OTHER));
    assert_true(health_acknowledged(health, 2));
    assert_true(health_settled(health, PROBE));
    const struct finding one = reading("e", VERDICT_WARN);
    assert_true(health_event(health, OTHER, &one));
    assert_false(health_settled(health, OTHER));
    (void)say(health, 2);
    assert_false(health_settled(health, OTHER));
    assert_true(health_acknowledged(health, 3));
    assert_true(health_settled(health, OTHER));
}

static void test_another_attempt_hears_what_is_wrong(void **state)
{
    struct health *health = *state;
    play(health, "a", VERDICT_OK, "b", VERDICT_FAIL);
    (void)say(health, 1);
    assert_true(health_acknowledged(health, 2));
    health_say_again(health);
    assert_string_equal(say(health, 2).key, "b");
    assert_true(quiet(health));
}

struct kept {
    uint32_t count;
    uint32_t probe;
    struct finding finding;
};

static int keep(void *context, uint32_t probe, const struct finding *finding)
{
    struct kept *kept = context;
    kept->count++;
    kept->probe = probe;
    kept->finding = *finding;
    return 0;
}

/* The latch outlives the process: what was acknowledged is not said again, what was not, is. */
static void test_over_a_restart(void **state)
{
    struct health *health = *state;
    struct kept kept = {0};
    play_one(health, VERDICT_FAIL);
    (void)say(health, 1);
    assert_int_equal(health_told(health, keep, &kept), 0);
    assert_int_equal(kept.count, 0); /* nobody has it yet */
    assert_true(health_acknowledged(health, 2));
    play_one(health, VERDICT_OK);
    (void)say(health, 2); /* and its end is under way */
    assert_int_equal(health_told(health, keep, &kept), 0);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.probe, PROBE);
    assert_int_equal(kept.finding.verdict, VERDICT_FAIL);

    struct health *next = health_create();
    health_restore(next, kept.probe, &kept.finding);
    assert_true(quiet(next));
    play_one(next, VERDICT_FAIL);
    assert_true(quiet(next));
    play_one(next, VERDICT_OK);
    assert_int_equal(say(next, 1).verdict, VERDICT_OK);
    (void)health_free(next);
}

static void test_what_is_broken(void **state)
{
    struct health *health = *state;
    play(health, "a", VERDICT_WARN, "b", VERDICT_OK);
    assert_null(health_broken(health)); /* a warning breaks nothing */
    play(health, "a", VERDICT_WARN, "b", VERDICT_FAIL);
    assert_non_null(health_broken(health));
    play(health, "a", VERDICT_WARN, "b", VERDICT_NOT_RUN);
    assert_non_null(health_broken(health)); /* nobody said that it is well */
    play(health, "a", VERDICT_WARN, "b", VERDICT_OK);
    assert_null(health_broken(health));
}

/* What fails elsewhere, or mends without the node leaving, is no reason to call the node unfit. */
static void test_what_fails_and_is_not_broken(void **state)
{
    struct health *health = *state;
    struct finding storage = reading("/data", VERDICT_FAIL);
    storage.advice = ADVICE_HOLD_STORAGE;
    health_begin(health, PROBE);
    assert_true(health_reading(health, PROBE, &storage));
    health_end(health, PROBE, "");
    assert_null(health_broken(health));
    assert_int_equal(say(health, 1).verdict, VERDICT_FAIL); /* told all the same */
    storage.advice = ADVICE_EVICT;
    health_begin(health, PROBE);
    assert_true(health_reading(health, PROBE, &storage));
    health_end(health, PROBE, "");
    assert_non_null(health_broken(health));
}

static void test_more_things_than_places(void **state)
{
    struct health *health = *state;
    uint32_t taken = 0;
    health_begin(health, PROBE);
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX + 10; i++) {
        char key[32];
        (void)text_format(key, sizeof(key), "thing-%u", i);
        const struct finding one = reading(key, VERDICT_OK);
        taken += health_reading(health, PROBE, &one);
    }
    health_end(health, PROBE, "");
    assert_int_equal(taken, HEALTH_CONDITIONS_MAX);
}

/* Any order of rounds, losses and acknowledgements: once all is acknowledged, what was told last of
 * each thing is how it is. */
static void test_random_histories(void **state)
{
    struct prng prng;
    (void)state;
    prng_seed(&prng, 11);
    for (uint32_t run = 0; run < 300; run++) {
        struct health *health = health_create();
        uint8_t told = VERDICT_OK;
        uint8_t last = VERDICT_OK;
        uint64_t sequence = 0;
        for (uint32_t i = 0; i < 60; i++) {
            last = (uint8_t)prng_between(&prng, VERDICT_OK, VERDICT_FAIL);
            play(health, "a", last, "b", VERDICT_OK);
            struct finding finding;
            uint32_t probe = 0;
            uint32_t ticket = 0;
            while (prng_between(&prng, 0, 1) == 1 &&
                   health_due(health, &finding, &probe, &ticket)) {
                health_said(health, ticket, ++sequence);
                assert_int_not_equal(finding.verdict, told);
                told = finding.verdict;
            }
            if (prng_between(&prng, 0, 2) == 0) {
                (void)health_acknowledged(health, prng_between(&prng, 0, sequence + 1));
            }
        }
        (void)health_acknowledged(health, UINT64_MAX);
        struct finding finding;
        uint32_t probe = 0;
        uint32_t ticket = 0;
        if (health_due(health, &finding, &probe, &ticket)) {
            told = finding.verdict;
        }
        assert_int_equal(told, last);
        (void)health_free(health);
    }
}

#define HEALTH_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEALTH_TEST(test_a_change_is_said_once),
        HEALTH_TEST(test_changes_while_nobody_answers),
        HEALTH_TEST(test_a_sensor_that_fails_is_no_device_that_fails),
        HEALTH_TEST(test_a_failing_sensor_mends_nothing),
        HEALTH_TEST(test_all_things_vanish),
        HEALTH_TEST(test_nothing_of_its_kind),
        HEALTH_TEST(test_one_thing_is_taken_away),
        HEALTH_TEST(test_a_probe_that_does_not_return),
        HEALTH_TEST(test_a_probe_that_returns_empty),
        HEALTH_TEST(test_events_by_weight),
        HEALTH_TEST(test_what_is_under_way_is_not_settled),
        HEALTH_TEST(test_another_attempt_hears_what_is_wrong),
        HEALTH_TEST(test_over_a_restart),
        HEALTH_TEST(test_what_is_broken),
        HEALTH_TEST(test_what_fails_and_is_not_broken),
        HEALTH_TEST(test_more_things_than_places),
        cmocka_unit_test(test_random_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
