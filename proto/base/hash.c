/* hash.c: FNV-1a, one byte at a time, so that no result depends on the host's byte order. */
#include "proto/base/hash.h"

#include <string.h>

#define HASH_PRIME 0x100000001b3ull

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t index = 0; index < size; index++) {
        hash = (hash ^ bytes[index]) * HASH_PRIME;
    }
    return hash;
}

uint64_t hash_text(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

uint64_t hash_u64(uint64_t hash, uint64_t value)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        hash = (hash ^ ((value >> shift) & 0xff)) * HASH_PRIME;
    }
    return hash;
}
