/* driver.c: runs a fuzz target without libFuzzer: PROGRAM SEED RUNS SECONDS [FILE...]
 *
 * RUNS 0: until SECONDS have passed. Inputs are random bytes, words of the target's own alphabet
 * and changed copies of the target's examples (fuzz_examples), all from the seed, so that a failing
 * run can be repeated. Files are fed as they are, first: reproducers of old failures. The number of
 * the input that was being tried is printed when the target aborts. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX = 65536 };

/* The signal handler reads them; it only ever runs in the thread that writes them. */
static uint64_t seed;
static uint64_t current;

static void say_where(int number)
{
    char text[128];
    if (text_format(text, sizeof(text), "fuzz: died in input %llu of seed %llu\n",
                    (unsigned long long)current, (unsigned long long)seed)) {
        (void)!write(STDERR_FILENO, text, strlen(text));
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static size_t random_input(struct prng *prng, uint8_t *input)
{
    size_t size = (size_t)prng_below(prng, 1ull << prng_below(prng, 14));
    for (size_t index = 0; index < size; index++) {
        input[index] = (uint8_t)prng_next(prng);
    }
    return size;
}

static size_t spelled_input(struct prng *prng, uint8_t *input)
{
    size_t size = (size_t)prng_below(prng, 400);
    size_t count = strlen(fuzz_alphabet);
    for (size_t index = 0; index < size; index++) {
        input[index] = (uint8_t)fuzz_alphabet[prng_below(prng, count)];
    }
    return size;
}

/* One change: a byte, a bit, a piece left out, doubled or moved. */
static size_t change(struct prng *prng, uint8_t *input, size_t size)
{
    size_t at = (size_t)prng_below(prng, size + 1);
    size_t length = (size_t)prng_below(prng, (size - at) / 2 + 1);
    switch (prng_below(prng, 5)) {
    case 0:
        if (at < size) {
            input[at] = (uint8_t)prng_next(prng);
        }
        return size;
    case 1:
        if (at < size) {
            input[at] ^= (uint8_t)(1u << prng_below(prng, 8));
        }
        return size;
    case 2:
        memmove(input + at, input + at + length, size - at - length);
        return size - length;
    case 3:
        if (size + length <= INPUT_MAX) {
            memmove(input + at + length, input + at, size - at);
            return size + length;
        }
        return size;
    default:
        if (at < size) {
            input[at] = (uint8_t)fuzz_alphabet[prng_below(prng, strlen(fuzz_alphabet))];
        }
        return size;
    }
}

static size_t changed_input(struct prng *prng, uint8_t *input)
{
    size_t count = fuzz_example_count();
    if (count == 0) {
        return random_input(prng, input);
    }
    size_t size = fuzz_example((size_t)prng_below(prng, count), input, INPUT_MAX);
    for (uint64_t left = prng_below(prng, 6); left > 0; left--) {
        size = change(prng, input, size);
    }
    return size;
}

/* Each input in memory of exactly its size, so that the address sanitizer sees one byte too far. */
static void feed(const uint8_t *input, size_t size)
{
    uint8_t *exact = mem_alloc(size, 1);
    memcpy(exact, input, size);
    (void)LLVMFuzzerTestOneInput(exact, size);
    (void)mem_free(exact);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int feed_file(const char *path, uint8_t *input)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        (void)fprintf(stderr, "fuzz: cannot open %s\n", path);
        return 1;
    }
    size_t size = fread(input, 1, INPUT_MAX, file);
    (void)fclose(file);
    feed(input, size);
    return 0;
}

static void feed_random(uint8_t *input, uint64_t runs, uint64_t seconds)
{
    uint64_t end_ms = now_ms() + seconds * 1000;
    while (runs > 0 ? current < runs : now_ms() < end_ms) {
        struct prng prng;
        prng_seed(&prng, seed * 0x9e3779b97f4a7c15ull + current);
        size_t size = 0;
        switch (prng_below(&prng, 4)) {
        case 0:
            size = random_input(&prng, input);
            break;
        case 1:
            size = spelled_input(&prng, input);
            break;
        default:
            size = changed_input(&prng, input);
            break;
        }
        feed(input, size);
        current++;
    }
}

int main(int argc, char **argv)
{
    uint64_t runs = 0;
    uint64_t seconds = 0;
    if (argc < 4 || text_to_u64(argv[1], UINT64_MAX, &seed) != 0 ||
        text_to_u64(argv[2], UINT64_MAX, &runs) != 0 ||
        text_to_u64(argv[3], 1000000, &seconds) != 0) {
        (void)fprintf(stderr, "usage: %s SEED RUNS SECONDS [FILE...]\n", argv[0]);
        return 2;
    }
    (void)signal(SIGABRT, say_where);
    (void)signal(SIGSEGV, say_where);
    uint8_t *input = mem_alloc(INPUT_MAX, 1);
    int result = 0;
    for (int index = 4; index < argc; index++) {
        result |= feed_file(argv[index], input);
    }
    feed_random(input, runs, seconds);
    (void)printf("%llu inputs from seed %llu\n", (unsigned long long)current,
                 (unsigned long long)seed);
    (void)mem_free(input);
    return result;
}
