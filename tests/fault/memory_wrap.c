/* memory_wrap.c: see the header. */
#include "tests/fault/memory_wrap.h"

#include <errno.h>
#include <stddef.h>

#include "tests/fault/nth_call.h"

static struct nth_call memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

static bool strikes(void)
{
    const bool struck = nth_call_fails(&memory);
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
    nth_call_set(&memory, nth, ever);
}

uint64_t memory_wrap_hits(void)
{
    return memory.hits;
}
