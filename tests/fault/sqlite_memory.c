/* sqlite_memory.c: see the header. */
#include "tests/fault/sqlite_memory.h"

#include <stdatomic.h>
#include <stddef.h>

#include <sqlite3.h>

#include "proto/base/check.h"
#include "tests/fault/nth_call.h"

static struct {
    sqlite3_mem_methods real;
    struct nth_call call;
    _Atomic int64_t held;
} memory;

static void *take(int size)
{
    void *block = nth_call_fails(&memory.call) ? NULL : memory.real.xMalloc(size);
    memory.held += block != NULL ? 1 : 0;
    return block;
}

static void *resize(void *block, int size)
{
    return nth_call_fails(&memory.call) ? NULL : memory.real.xRealloc(block, size);
}

static void give(void *block)
{
    memory.held -= block != NULL ? 1 : 0;
    memory.real.xFree(block);
}

void sqlite_memory_install(void)
{
    int rc = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory.real);
    sqlite3_mem_methods ours = memory.real;
    ours.xMalloc = take;
    ours.xRealloc = resize;
    ours.xFree = give;
    rc = rc == SQLITE_OK ? sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) : rc;
    rc = rc == SQLITE_OK ? sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) : rc;
    rc = rc == SQLITE_OK ? sqlite3_initialize() : rc;
    CHECK(rc == SQLITE_OK);
}

void sqlite_memory_fail(uint64_t nth, bool ever)
{
    nth_call_set(&memory.call, nth, ever);
}

void sqlite_memory_heal(void)
{
    memory.call.nth = 0;
}

uint64_t sqlite_memory_hits(void)
{
    return memory.call.hits;
}

int64_t sqlite_memory_held(void)
{
    return memory.held;
}
