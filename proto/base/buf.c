/* buf.c: a growing buffer. One byte more than size_max may be allocated, for buf_text's NUL. */
#include "proto/base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"

enum { BUF_FIRST_CAPACITY = 256 };

void buf_init(struct buf *buf, size_t size_max)
{
    CHECK(size_max < SIZE_MAX);
    *buf = (struct buf){.size_max = size_max};
}

void buf_done(struct buf *buf)
{
    if (buf == NULL) {
        return;
    }
    buf->data = mem_free(buf->data);
    buf->size = 0;
    buf->capacity = 0;
}

void buf_clear(struct buf *buf)
{
    buf->size = 0;
    buf->overflow = false;
}

/* Makes room for `more` bytes and a NUL; the caller has checked them against size_max. */
static void reserve(struct buf *buf, size_t more)
{
    size_t needed = buf->size + more + 1;
    if (needed <= buf->capacity) {
        return;
    }
    size_t capacity = buf->capacity > 0 ? buf->capacity : BUF_FIRST_CAPACITY;
    while (capacity < needed) {
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    }
    if (capacity > buf->size_max + 1) {
        capacity = buf->size_max + 1;
    }
    buf->data = mem_grow(buf->data, capacity, 1);
    buf->capacity = capacity;
}

/* true when `more` bytes may be added; else the buffer has overflowed and stays so. */
static bool fits(struct buf *buf, size_t more)
{
    CHECK(buf->size <= buf->size_max);
    if (buf->overflow || more > buf->size_max - buf->size) {
        buf->overflow = true;
        return false;
    }
    return true;
}

int buf_put(struct buf *buf, const void *data, size_t size)
{
    if (!fits(buf, size)) {
        return -EMSGSIZE;
    }
    if (size > 0) {
        reserve(buf, size);
        memcpy(buf->data + buf->size, data, size);
        buf->size += size;
    }
    return 0;
}

int buf_printf(struct buf *buf, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(length >= 0);
    if (!fits(buf, (size_t)length)) {
        return -EMSGSIZE;
    }
    reserve(buf, (size_t)length);
    va_start(arguments, format);
    (void)vsnprintf((char *)buf->data + buf->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buf->size += (size_t)length;
    return 0;
}

void buf_consume(struct buf *buf, size_t size)
{
    CHECK(size <= buf->size);
    buf->size -= size;
    if (size > 0 && buf->size > 0) {
        memmove(buf->data, buf->data + size, buf->size);
    }
}

const char *buf_text(struct buf *buf)
{
    reserve(buf, 0);
    buf->data[buf->size] = '\0';
    return (const char *)buf->data;
}

char *buf_take(struct buf *buf, size_t *ret_size)
{
    (void)buf_text(buf); /* for the NUL */
    char *taken = (char *)buf->data;
    if (ret_size != NULL) {
        *ret_size = buf->size;
    }
    buf->data = NULL;
    buf->size = 0;
    buf->capacity = 0;
    buf->overflow = false;
    return taken;
}
