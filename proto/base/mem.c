/* mem.c: the one place that calls the allocator. The only state is the counter with which tests
 * make an allocation fail. */
#include "proto/base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"

/* Allocations left until one fails; 0: none will. Tests set it, before they start threads. */
static _Atomic uint64_t fail_countdown;

static bool must_fail(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) {
        return false;
    }
    return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 1;
}

/* Never NULL for an empty array: NULL means failure. The product is checked here as well, because
 * a sanitizer's calloc ends the process where libc's says no. */
static void *allocate(size_t count, size_t size)
{
    size_t total = 0;
    if (__builtin_mul_overflow(count, size, &total)) {
        return NULL;
    }
    return total > 0 ? calloc(count, size) : calloc(1, 1);
}

/* Nothing here may allocate. */
__attribute__((noreturn, cold)) static void give_up(size_t count, size_t size)
{
    (void)dprintf(2, "out of memory: the system refuses %zu x %zu bytes; ending\n", count, size);
    abort();
}

void *mem_try(size_t count, size_t size)
{
    return must_fail() ? NULL : allocate(count, size);
}

void *mem_alloc(size_t count, size_t size)
{
    void *memory = allocate(count, size);
    if (memory == NULL) {
        give_up(count, size);
    }
    return memory;
}

void *mem_block(size_t size)
{
    return mem_alloc(1, size);
}

void *mem_grow(void *memory, size_t count, size_t size)
{
    size_t total = 0;
    CHECK(!__builtin_mul_overflow(count, size, &total));
    void *grown = realloc(memory, total > 0 ? total : 1);
    if (grown == NULL) {
        give_up(count, size);
    }
    return grown;
}

void *mem_free(void *memory)
{
    free(memory);
    return NULL;
}

char *mem_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size, 1);
    memcpy(copy, text, size);
    return copy;
}

void mem_needed(const void *memory)
{
    if (memory == NULL) {
        (void)dprintf(2, "out of memory: the system refuses a library what it asks for; ending\n");
        abort();
    }
}

void mem_fail_at(uint64_t nth)
{
    atomic_store_explicit(&fail_countdown, nth, memory_order_relaxed);
}

void mem_cleanup_free(void *pointer_to_pointer)
{
    void *memory = NULL;
    memcpy(&memory, pointer_to_pointer, sizeof(memory)); /* a `char **` is no `void **` */
    free(memory);
}
