/* raw.c: see raw.h. */
#include "tests/unit/wire/raw.h"

#include <string.h>

#include "proto/base/check.h"

static void varint(struct buf *buf, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)(value & 0x7f);
        value >>= 7;
        byte = (uint8_t)(byte | (value > 0 ? 0x80 : 0));
        CHECK(buf_put(buf, &byte, 1) == 0);
    } while (value > 0);
}

void raw_varint(struct buf *buf, uint32_t field, uint64_t value)
{
    varint(buf, (uint64_t)field << 3);
    varint(buf, value);
}

void raw_bytes(struct buf *buf, uint32_t field, const void *data, size_t size)
{
    varint(buf, (uint64_t)field << 3 | 2);
    varint(buf, size);
    CHECK(buf_put(buf, data, size) == 0);
}

void raw_text(struct buf *buf, uint32_t field, const char *text)
{
    raw_bytes(buf, field, text, strlen(text));
}

void raw_message(struct buf *buf, uint32_t field, const struct buf *inner)
{
    raw_bytes(buf, field, inner->data, inner->size);
}
