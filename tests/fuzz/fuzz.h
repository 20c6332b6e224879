/* fuzz.h: what a fuzz target gives to its driver. The entry point is libFuzzer's, so the same file
 * also builds with clang -fsanitize=fuzzer (leave driver.c out). */
#ifndef KEEPSTEP_TESTS_FUZZ_FUZZ_H
#define KEEPSTEP_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The rest may be left out by a target (defaults.c): then inputs are random bytes alone.
 * Characters that mean something to the target; at least one. */
extern const char fuzz_alphabet[];

/* Good inputs, from which changed ones are made. The second writes number `index` into target and
 * returns its size, at most size_max. */
size_t fuzz_example_count(void);
size_t fuzz_example(size_t index, uint8_t *target, size_t size_max);

/* Both, for an array of texts. */
#define FUZZ_TEXTS(texts)                                                                          \
    size_t fuzz_example_count(void)                                                                \
    {                                                                                              \
        return ARRAY_SIZE(texts);                                                                  \
    }                                                                                              \
    size_t fuzz_example(size_t index, uint8_t *target, size_t size_max)                            \
    {                                                                                              \
        const size_t size = strlen((texts)[index]);                                                \
        CHECK(size <= size_max);                                                                   \
        memcpy(target, (texts)[index], size);                                                      \
        return size;                                                                               \
    }

#endif
