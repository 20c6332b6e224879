/* heap.h: a binary min-heap of (key, tie, value) over an array that the caller owns. Pure.
 * Order: smallest key first, then smallest tie (a sequence number), so that the order of equal
 * times is the order of insertion and runs repeat exactly. */
#ifndef KEEPSTEP_BASE_HEAP_H
#define KEEPSTEP_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

struct heap_item {
    uint64_t key;
    uint64_t tie;
    uint64_t value;
};

struct heap {
    struct heap_item *items; /* borrowed, capacity elements */
    size_t count;
    size_t capacity;
};

void heap_init(struct heap *heap, struct heap_item *items, size_t capacity);
MUST_CHECK int heap_push(struct heap *heap, uint64_t key, uint64_t tie,
                         uint64_t value);                     /* -ENOSPC */
bool heap_pop(struct heap *heap, struct heap_item *ret_item); /* false when empty */
const struct heap_item *heap_peek(const struct heap *heap);   /* NULL when empty; borrowed */

#endif
