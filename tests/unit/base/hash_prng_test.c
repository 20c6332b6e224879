/* hash_prng_test.c: published vectors, and the properties that decisions rest on. */
#include "tests/lib/test.h"

#include <stdbool.h>

#include "proto/base/hash.h"
#include "proto/base/prng.h"
#include "tests/lib/aborts.h"

static void fnv_vectors(void **state)
{
    (void)state;
    /* From the reference distribution of FNV-1a, 64 bit. */
    assert_int_equal(hash_bytes(HASH_INIT, "", 0), 0xcbf29ce484222325ull);
    assert_int_equal(hash_bytes(HASH_INIT, "a", 1), 0xaf63dc4c8601ec8cull);
    assert_int_equal(hash_bytes(HASH_INIT, "foobar", 6), 0x85944171f73967e8ull);
    assert_int_equal(hash_text(HASH_INIT, "a"), hash_bytes(HASH_INIT, "a\0", 2));
}

static void integers_fold_little_endian(void **state)
{
    (void)state;
    const uint8_t bytes[8] = {0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01};
    assert_int_equal(hash_u64(HASH_INIT, 0x0102030405060708ull), hash_bytes(HASH_INIT, bytes, 8));
}

static void texts_do_not_run_together(void **state)
{
    (void)state;
    uint64_t one = hash_text(hash_text(HASH_INIT, "ab"), "c");
    uint64_t other = hash_text(hash_text(HASH_INIT, "a"), "bc");
    assert_true(one != other);
}

static void prng_vectors(void **state)
{
    (void)state;
    /* xoshiro256** from the state {1, 2, 3, 4}: the first outputs of the authors' code. */
    struct prng prng = {.state = {1, 2, 3, 4}};
    assert_int_equal(prng_next(&prng), 11520ull);
    assert_int_equal(prng_next(&prng), 0ull);
    assert_int_equal(prng_next(&prng), 1509978240ull);
    assert_int_equal(prng_next(&prng), 1215971899390074240ull);
    /* splitmix64 from 0, as the authors give it. */
    prng_seed(&prng, 0);
    assert_int_equal(prng.state[0], 0xe220a8397b1dcdafull);
    assert_int_equal(prng.state[1], 0x6e789e6aa1b965f4ull);
    assert_int_equal(prng.state[2], 0x06c45d188009454full);
    assert_int_equal(prng.state[3], 0xf88bb8a8724c81ecull);
}

static void below_covers_its_range_evenly(void **state)
{
    (void)state;
    struct prng prng;
    unsigned counts[7] = {0};
    prng_seed(&prng, 42);
    for (unsigned draw = 0; draw < 70000; draw++) {
        counts[prng_below(&prng, 7)]++;
    }
    for (unsigned value = 0; value < 7; value++) {
        /* 10,000 +- 5 standard deviations (92.6) */
        assert_in_range(counts[value], 9537, 10463);
    }
    for (unsigned draw = 0; draw < 100; draw++) {
        assert_int_equal(prng_below(&prng, 1), 0);
    }
}

static void below_rejects_unfair_draws(void **state)
{
    (void)state;
    /* With a bound just over 2^63 nearly half of all draws are refused, and none gets through. */
    struct prng prng;
    uint64_t bound = (1ull << 63) + 1;
    prng_seed(&prng, 7);
    uint64_t upper_half = 0;
    for (unsigned draw = 0; draw < 1000; draw++) {
        uint64_t value = prng_below(&prng, bound);
        assert_true(value < bound);
        upper_half += value >= bound / 2;
    }
    assert_in_range(upper_half, 400, 600);
}

static void between_includes_both_ends(void **state)
{
    (void)state;
    struct prng prng;
    bool low = false;
    bool high = false;
    prng_seed(&prng, 9);
    for (unsigned draw = 0; draw < 200; draw++) {
        uint64_t value = prng_between(&prng, 10, 12);
        assert_in_range(value, 10, 12);
        low = low || value == 10;
        high = high || value == 12;
    }
    assert_true(low && high);
    assert_int_equal(prng_between(&prng, 5, 5), 5);
    (void)prng_between(&prng, 0, UINT64_MAX); /* the one span without a bound */
}

static void chances(void **state)
{
    (void)state;
    struct prng prng;
    unsigned hits = 0;
    prng_seed(&prng, 1);
    for (unsigned draw = 0; draw < 100000; draw++) {
        hits += prng_chance_ppm(&prng, 250000);
        assert_false(prng_chance_ppm(&prng, 0));
        assert_true(prng_chance_ppm(&prng, 1000000));
    }
    assert_in_range(hits, 24315, 25685);
}

static void below_nothing(void *context)
{
    (void)prng_below(context, 0);
}

static void empty_range_is_our_mistake(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 1);
    assert_true(aborts(below_nothing, &prng));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fnv_vectors),
        cmocka_unit_test(integers_fold_little_endian),
        cmocka_unit_test(texts_do_not_run_together),
        cmocka_unit_test(prng_vectors),
        cmocka_unit_test(below_covers_its_range_evenly),
        cmocka_unit_test(below_rejects_unfair_draws),
        cmocka_unit_test(between_includes_both_ends),
        cmocka_unit_test(chances),
        cmocka_unit_test(empty_range_is_our_mistake),
    };
    return cmocka_run_group_tests_name("hash and prng", tests, NULL, NULL);
}
