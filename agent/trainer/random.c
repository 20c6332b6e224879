/* random.c: splitmix64's finalizer, applied once per input word. */
#include "agent/trainer/random.h"

static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15ull;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

uint64_t random_at(uint64_t seed, enum random_stream stream, uint64_t a, uint64_t b)
{
    uint64_t value = mix(seed);
    value = mix(value ^ (uint64_t)stream);
    value = mix(value ^ a);
    return mix(value ^ b);
}

uint64_t random_below(uint64_t value, uint64_t bound)
{
    return value % bound;
}

float random_signed_unit(uint64_t value)
{
    const int32_t top = (int32_t)(value >> 40); /* 24 bits */
    return (float)(top - (1 << 23)) / (float)(1 << 23);
}
