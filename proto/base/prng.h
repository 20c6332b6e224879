/* prng.h: a small seeded generator (xoshiro256**, seeded by splitmix64). Pure. The same seed gives
 * the same numbers on every compiler; the state lives in the struct of whoever draws. */
#ifndef KEEPSTEP_BASE_PRNG_H
#define KEEPSTEP_BASE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
    uint64_t state[4];
};

void prng_seed(struct prng *prng, uint64_t seed);
uint64_t prng_next(struct prng *prng);
uint64_t prng_below(struct prng *prng, uint64_t bound); /* 0..bound-1, no bias; bound > 0 */
uint64_t prng_between(struct prng *prng, uint64_t low, uint64_t high); /* both ends included */
bool prng_chance_ppm(struct prng *prng, uint32_t ppm); /* true in ppm of a million */

#endif
