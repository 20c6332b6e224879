/* hash.h: FNV-1a 64 bit over bytes and integers, for digests and small tables. Pure; not for
 * checkpoints (those use XXH3-128) and not for anything that an attacker may choose. Integers are
 * folded as 8 little-endian bytes whatever the host is, so digests agree between machines. */
#ifndef KEEPSTEP_BASE_HASH_H
#define KEEPSTEP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_INIT 0xcbf29ce484222325ull

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size);
uint64_t hash_text(uint64_t hash, const char *text); /* the bytes and one NUL */
uint64_t hash_u64(uint64_t hash, uint64_t value);

#endif
