/* sort.h: our own sort (heap sort: no recursion, no allocation, O(n log n) always). Pure.
 * compare must be a total order: where two elements are "equal", break the tie by index or name,
 * since the sort is not stable and decisions must not depend on it. */
#ifndef KEEPSTEP_BASE_SORT_H
#define KEEPSTEP_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* <0, 0, >0; context is passed through. */
typedef int sort_compare(const void *a, const void *b, const void *context);

void sort_u32(uint32_t *items, size_t count, sort_compare *compare, const void *context);
/* Any element size up to SORT_ELEMENT_MAX bytes. */
enum { SORT_ELEMENT_MAX = 256 };
void sort_any(void *items, size_t count, size_t size, sort_compare *compare, const void *context);

#endif
