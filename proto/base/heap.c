/* heap.c: a binary heap in an array; the children of i are 2i + 1 and 2i + 2. */
#include "proto/base/heap.h"

#include <errno.h>

#include "proto/base/check.h"

static bool comes_before(const struct heap_item *a, const struct heap_item *b)
{
    if (a->key != b->key) {
        return a->key < b->key;
    }
    return a->tie < b->tie;
}

void heap_init(struct heap *heap, struct heap_item *items, size_t capacity)
{
    CHECK(items != NULL || capacity == 0);
    heap->items = items;
    heap->count = 0;
    heap->capacity = capacity;
}

int heap_push(struct heap *heap, uint64_t key, uint64_t tie, uint64_t value)
{
    CHECK(heap->count <= heap->capacity);
    if (heap->count == heap->capacity) {
        return -ENOSPC;
    }
    struct heap_item item = {.key = key, .tie = tie, .value = value};
    size_t hole = heap->count;
    heap->count++;
    while (hole > 0 && comes_before(&item, &heap->items[(hole - 1) / 2])) {
        heap->items[hole] = heap->items[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap->items[hole] = item;
    return 0;
}

/* Fills the hole at the root with item and lets it sink to its place. */
static void sink(struct heap *heap, struct heap_item item)
{
    size_t hole = 0;
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && comes_before(&heap->items[child + 1], &heap->items[child])) {
            child++;
        }
        if (!comes_before(&heap->items[child], &item)) {
            break;
        }
        heap->items[hole] = heap->items[child];
        hole = child;
    }
    heap->items[hole] = item;
}

bool heap_pop(struct heap *heap, struct heap_item *ret_item)
{
    if (heap->count == 0) {
        return false;
    }
    *ret_item = heap->items[0];
    heap->count--;
    if (heap->count > 0) {
        sink(heap, heap->items[heap->count]);
    }
    return true;
}

const struct heap_item *heap_peek(const struct heap *heap)
{
    return heap->count > 0 ? &heap->items[0] : NULL;
}
