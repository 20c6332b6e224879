/* member.c: see member.h. memcpy keeps alignment and aliasing out of the question. */
#include "proto/wire/member.h"

#include <string.h>

#include "proto/base/check.h"

uint64_t member_load_uint(const uint8_t *at, uint32_t size)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
    case 1:
        return *at;
    case 2:
        memcpy(&two, at, sizeof two);
        return two;
    case 4:
        memcpy(&four, at, sizeof four);
        return four;
    default:
        CHECK(size == sizeof eight);
        memcpy(&eight, at, sizeof eight);
        return eight;
    }
}

void member_store_uint(uint8_t *at, uint32_t size, uint64_t value)
{
    uint16_t two = (uint16_t)value;
    uint32_t four = (uint32_t)value;
    switch (size) {
    case 1:
        *at = (uint8_t)value;
        break;
    case 2:
        memcpy(at, &two, sizeof two);
        break;
    case 4:
        memcpy(at, &four, sizeof four);
        break;
    default:
        CHECK(size == sizeof value);
        memcpy(at, &value, sizeof value);
    }
}

int32_t member_load_i32(const uint8_t *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

size_t member_load_size(const uint8_t *at)
{
    size_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

void *member_load_pointer(const uint8_t *at)
{
    void *pointer;
    memcpy(&pointer, at, sizeof pointer);
    return pointer;
}

void member_store_pointer(uint8_t *at, const void *pointer)
{
    memcpy(at, &pointer, sizeof pointer);
}

uint32_t member_load_count(const struct field *field, const uint8_t *plain)
{
    return (uint32_t)member_load_uint(plain + field->count_at, sizeof(uint32_t));
}

void member_store_count(const struct field *field, uint8_t *plain, size_t count)
{
    member_store_uint(plain + field->count_at, sizeof(uint32_t), count);
}
