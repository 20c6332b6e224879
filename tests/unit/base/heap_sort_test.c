/* heap_sort_test.c: order under random input, against the C library's sort. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/heap.h"
#include "proto/base/prng.h"
#include "proto/base/sort.h"
#include "tests/lib/aborts.h"

enum { MANY = 1000 };

static void heap_gives_keys_in_order(void **state)
{
    (void)state;
    struct heap_item items[MANY];
    struct heap heap;
    struct prng prng;
    prng_seed(&prng, 3);
    heap_init(&heap, items, MANY);
    assert_null(heap_peek(&heap));
    for (uint64_t tie = 0; tie < MANY; tie++) {
        assert_int_equal(heap_push(&heap, prng_below(&prng, 50), tie, tie * 3), 0);
    }
    assert_int_equal(heap_push(&heap, 0, 0, 0), -ENOSPC);
    assert_int_equal(heap.count, MANY);
    struct heap_item last = {.key = 0};
    for (unsigned index = 0; index < MANY; index++) {
        struct heap_item item = {.key = 0};
        const struct heap_item peeked = *heap_peek(&heap);
        assert_true(heap_pop(&heap, &item));
        assert_memory_equal(&peeked, &item, sizeof(item));
        assert_int_equal(item.value, item.tie * 3);
        if (index > 0) {
            assert_true(item.key > last.key || (item.key == last.key && item.tie > last.tie));
        }
        last = item;
    }
    assert_false(heap_pop(&heap, &last));
}

static void heap_keeps_order_between_pushes_and_pops(void **state)
{
    (void)state;
    struct heap_item items[64];
    struct heap heap;
    struct prng prng;
    uint64_t now = 0;
    uint64_t tie = 0;
    prng_seed(&prng, 4);
    heap_init(&heap, items, ARRAY_SIZE(items));
    for (unsigned round = 0; round < 20000; round++) {
        if (heap.count == 0 || (heap.count < heap.capacity && prng_below(&prng, 2) == 0)) {
            assert_int_equal(heap_push(&heap, now + prng_below(&prng, 10), tie++, 0), 0);
        } else {
            struct heap_item item = {.key = 0};
            assert_true(heap_pop(&heap, &item));
            assert_true(item.key >= now); /* time never runs backwards */
            now = item.key;
        }
    }
}

static int by_value(const void *a, const void *b, const void *context)
{
    const uint32_t *left = a;
    const uint32_t *right = b;
    (void)context;
    return *left < *right ? -1 : *left > *right;
}

static int by_rank_table(const void *a, const void *b, const void *context)
{
    const uint32_t *ranks = context;
    const uint32_t *left = a;
    const uint32_t *right = b;
    return ranks[*left] < ranks[*right] ? -1 : ranks[*left] > ranks[*right];
}

static int libc_by_value(const void *a, const void *b)
{
    return by_value(a, b, NULL);
}

static void sort_u32_agrees_with_libc(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 5);
    for (size_t count = 0; count < 200; count++) {
        uint32_t ours[200];
        uint32_t theirs[200];
        for (size_t index = 0; index < count; index++) {
            ours[index] = (uint32_t)prng_below(&prng, 2 + count / 2);
        }
        memcpy(theirs, ours, sizeof(ours[0]) * count);
        sort_u32(ours, count, by_value, NULL);
        qsort(theirs, count, sizeof(theirs[0]), libc_by_value);
        assert_memory_equal(ours, theirs, sizeof(ours[0]) * count);
    }
}

static void sort_passes_its_context(void **state)
{
    (void)state;
    const uint32_t ranks[5] = {40, 10, 30, 0, 20};
    uint32_t items[5] = {0, 1, 2, 3, 4};
    const uint32_t expected[5] = {3, 1, 4, 2, 0};
    sort_u32(items, 5, by_rank_table, ranks);
    assert_memory_equal(items, expected, sizeof(items));
}

struct wide {
    uint32_t key;
    uint8_t rest[SORT_ELEMENT_MAX - sizeof(uint32_t)];
};

static void sort_any_moves_whole_elements(void **state)
{
    (void)state;
    struct wide items[100];
    struct prng prng;
    prng_seed(&prng, 6);
    for (size_t index = 0; index < ARRAY_SIZE(items); index++) {
        items[index].key = (uint32_t)prng_next(&prng);
        memset(items[index].rest, (int)(items[index].key & 0xff), sizeof(items[index].rest));
    }
    sort_any(items, ARRAY_SIZE(items), sizeof(items[0]), by_value, NULL);
    for (size_t index = 0; index < ARRAY_SIZE(items); index++) {
        assert_true(index == 0 || items[index - 1].key <= items[index].key);
        assert_int_equal(items[index].rest[0], items[index].key & 0xff);
        assert_int_equal(items[index].rest[sizeof(items[0].rest) - 1], items[index].key & 0xff);
    }
}

static void sorted_and_reversed_input(void **state)
{
    (void)state;
    uint32_t items[MANY];
    for (uint32_t index = 0; index < MANY; index++) {
        items[index] = MANY - index;
    }
    sort_any(items, MANY, sizeof(items[0]), by_value, NULL);
    sort_any(items, MANY, sizeof(items[0]), by_value, NULL);
    for (uint32_t index = 0; index < MANY; index++) {
        assert_int_equal(items[index], index + 1);
    }
}

static void too_wide(void *context)
{
    sort_any(context, 2, SORT_ELEMENT_MAX + 1, by_value, NULL);
}

static void too_wide_is_our_mistake(void **state)
{
    (void)state;
    uint8_t bytes[4 * SORT_ELEMENT_MAX] = {0};
    assert_true(aborts(too_wide, bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_gives_keys_in_order),
        cmocka_unit_test(heap_keeps_order_between_pushes_and_pops),
        cmocka_unit_test(sort_u32_agrees_with_libc),
        cmocka_unit_test(sort_passes_its_context),
        cmocka_unit_test(sort_any_moves_whole_elements),
        cmocka_unit_test(sorted_and_reversed_input),
        cmocka_unit_test(too_wide_is_our_mistake),
    };
    return cmocka_run_group_tests_name("heap and sort", tests, NULL, NULL);
}
