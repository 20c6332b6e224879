/* random.h: numbers that are a function of where they are used, and of nothing else.
 *
 * A counter-based generator (splitmix64's finalizer over seed, stream and index): no state to
 * carry, to restore or to keep in order between ranks. Two calls with the same three numbers agree
 * on every machine and in every attempt; that is what makes a restored run the unbroken one. */
#ifndef KEEPSTEP_TRAINER_RANDOM_H
#define KEEPSTEP_TRAINER_RANDOM_H

#include <stdint.h>

/* Streams keep independent uses of one seed apart. */
enum random_stream { RANDOM_WEIGHTS = 1, RANDOM_DATA = 2, RANDOM_EVAL = 3 };

uint64_t random_at(uint64_t seed, enum random_stream stream, uint64_t a, uint64_t b);

/* 0..bound-1; bound > 0. Its bias is under bound / 2^64. */
uint64_t random_below(uint64_t value, uint64_t bound);

/* -1 inclusive to 1 exclusive, in steps of 2^-23: exact in a float. */
float random_signed_unit(uint64_t value);

#endif
