/* member.h: reads and writes one member of a struct, given as bytes at an offset. Private to
 * proto/wire. Sizes are 1, 2, 4 or 8 and come from sizeof in the tables; anything else aborts. */
#ifndef KEEPSTEP_WIRE_MEMBER_H
#define KEEPSTEP_WIRE_MEMBER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/wire/fields.h"

uint64_t member_load_uint(const uint8_t *at, uint32_t size);
void member_store_uint(uint8_t *at, uint32_t size, uint64_t value); /* keeps the low bytes */
int32_t member_load_i32(const uint8_t *at);
size_t member_load_size(const uint8_t *at);
void *member_load_pointer(const uint8_t *at);
void member_store_pointer(uint8_t *at, const void *pointer);

/* The count (or size in bytes) that belongs to a repeated, bytes or blob field of *plain. */
uint32_t member_load_count(const struct field *field, const uint8_t *plain);
void member_store_count(const struct field *field, uint8_t *plain, size_t count);

#endif
