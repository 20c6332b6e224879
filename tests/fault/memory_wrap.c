/* memory_wrap.c: see the header. */
#include "tests/fault/memory_wrap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static struct {
    _Atomic uint64_t nth;
    _Atomic bool ever;
    _Atomic uint64_t calls;
    _Atomic uint64_t hits;
} memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

static bool strikes(void)
{
    uint64_t nth = memory.nth;
    if (nth == 0) {
        return false;
    }
    uint64_t call = ++memory.calls;
    bool struck = memory.ever ? call >= nth : call == nth;
    memory.hits += struck ? 1 : 0;
    errno = struck ? ENOMEM : errno;
    return struck;
}

void *__wrap_malloc(size_t size)
{
    return strikes() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return strikes() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return strikes() ? NULL : __real_realloc(block, size);
}

void memory_wrap_fail(uint64_t nth, bool ever)
{
    memory.ever = ever;
    memory.calls = 0;
    memory.hits = 0;
    memory.nth = nth;
}

uint64_t memory_wrap_hits(void)
{
    return memory.hits;
}
