/* buf.h: a growing byte buffer with a maximum that it never passes.
 *
 * On any failure the buffer keeps its old content and remembers that it overflowed; buf_put* then
 * go on failing, so a writer may check once at the end. */
#ifndef KEEPSTEP_BASE_BUF_H
#define KEEPSTEP_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

struct buf {
    uint8_t *data; /* owned; not NUL-terminated unless buf_text() was called */
    size_t size;
    size_t capacity;
    size_t size_max;
    bool overflow;
};

void buf_init(struct buf *buf, size_t size_max);
void buf_done(struct buf *buf);
void buf_clear(struct buf *buf); /* size 0, overflow forgotten, memory kept */
MUST_CHECK int buf_put(struct buf *buf, const void *data, size_t size); /* -EMSGSIZE past the max */
MUST_CHECK int buf_printf(struct buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *buf, size_t size);    /* drops bytes from the front */
const char *buf_text(struct buf *buf);             /* borrowed, NUL-terminated; "" if empty */
char *buf_take(struct buf *buf, size_t *ret_size); /* gives the memory away, NUL-terminated */

#endif
