/* sort.c: heap sort. The two versions differ only in how an element moves: numbers by assignment,
 * anything else through a buffer of SORT_ELEMENT_MAX bytes. */
#include "proto/base/sort.h"

#include <string.h>

#include "proto/base/check.h"

/* Lets items[hole] sink until both of its children are smaller: a max-heap of count elements. What
 * sinks came from a leaf and mostly ends near one: the larger children move up all the way first, and
 * it climbs from there, which takes half as many comparisons as asking at each level. */
static void sink_u32(uint32_t *items, size_t count, size_t hole, sort_compare *compare,
                     const void *context)
{
    const uint32_t item = items[hole];
    const size_t start = hole;
    for (size_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && compare(&items[child], &items[child + 1], context) < 0) {
            child++;
        }
        items[hole] = items[child];
        hole = child;
    }
    while (hole > start && compare(&items[(hole - 1) / 2], &item, context) < 0) {
        items[hole] = items[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    items[hole] = item;
}

void sort_u32(uint32_t *items, size_t count, sort_compare *compare, const void *context)
{
    CHECK(items != NULL || count == 0);
    for (size_t index = count / 2; index > 0; index--) {
        sink_u32(items, count, index - 1, compare, context);
    }
    for (size_t end = count; end > 1; end--) {
        uint32_t largest = items[0];
        items[0] = items[end - 1];
        items[end - 1] = largest;
        sink_u32(items, end - 1, 0, compare, context);
    }
}

struct span {
    uint8_t *items;
    size_t size; /* of one element */
    sort_compare *compare;
    const void *context;
};

static uint8_t *at(const struct span *span, size_t index)
{
    return span->items + index * span->size;
}

static void sink_any(const struct span *span, size_t count, size_t hole)
{
    uint8_t item[SORT_ELEMENT_MAX];
    memcpy(item, at(span, hole), span->size);
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count &&
            span->compare(at(span, child), at(span, child + 1), span->context) < 0) {
            child++;
        }
        if (span->compare(item, at(span, child), span->context) >= 0) {
            break;
        }
        memcpy(at(span, hole), at(span, child), span->size);
        hole = child;
    }
    memcpy(at(span, hole), item, span->size);
}

static void swap_any(const struct span *span, size_t a, size_t b)
{
    uint8_t kept[SORT_ELEMENT_MAX];
    memcpy(kept, at(span, a), span->size);
    memcpy(at(span, a), at(span, b), span->size);
    memcpy(at(span, b), kept, span->size);
}

void sort_any(void *items, size_t count, size_t size, sort_compare *compare, const void *context)
{
    CHECK(items != NULL || count == 0);
    CHECK(size > 0);
    CHECK(size <= SORT_ELEMENT_MAX);
    const struct span span = {.items = items, .size = size, .compare = compare, .context = context};
    for (size_t index = count / 2; index > 0; index--) {
        sink_any(&span, count, index - 1);
    }
    for (size_t end = count; end > 1; end--) {
        swap_any(&span, 0, end - 1);
        sink_any(&span, end - 1, 0);
    }
}
