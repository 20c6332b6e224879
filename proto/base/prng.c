/* prng.c: xoshiro256** by Blackman and Vigna, seeded by splitmix64 so that close seeds give
 * unrelated states. Integers only: the numbers are part of every recorded run. */
#include "proto/base/prng.h"

#include "proto/base/check.h"

enum { PPM = 1000000 };

static uint64_t rotate_left(uint64_t value, unsigned count)
{
    return (value << count) | (value >> (64 - count));
}

static uint64_t splitmix64(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    uint64_t value = *state;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

void prng_seed(struct prng *prng, uint64_t seed)
{
    for (unsigned index = 0; index < 4; index++) {
        prng->state[index] = splitmix64(&seed);
    }
}

uint64_t prng_next(struct prng *prng)
{
    uint64_t *state = prng->state;
    uint64_t result = rotate_left(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate_left(state[3], 45);
    return result;
}

uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    CHECK(bound > 0);
    /* The lowest 2^64 mod bound values would make small results likelier: draw again. */
    uint64_t unfair = (UINT64_MAX - bound + 1) % bound;
    uint64_t value = prng_next(prng);
    while (value < unfair) {
        value = prng_next(prng);
    }
    return value % bound;
}

uint64_t prng_between(struct prng *prng, uint64_t low, uint64_t high)
{
    CHECK(low <= high);
    uint64_t span = high - low;
    if (span == UINT64_MAX) {
        return prng_next(prng);
    }
    return low + prng_below(prng, span + 1);
}

bool prng_chance_ppm(struct prng *prng, uint32_t ppm)
{
    CHECK(ppm <= PPM);
    return prng_below(prng, PPM) < ppm;
}
