/* sqlite_memory.h: SQLite's allocator, of which the n-th call fails. Everything that SQLite holds
 * is counted, so that a test can see that all of it came back. */
#ifndef KEEPSTEP_TESTS_FAULT_SQLITE_MEMORY_H
#define KEEPSTEP_TESTS_FAULT_SQLITE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Before anything else is asked of SQLite. Without its lookaside, which would hide most calls. */
void sqlite_memory_install(void);
/* From now on; nth counts from 1. Calls of all threads count together. */
void sqlite_memory_fail(uint64_t nth, bool ever);
void sqlite_memory_heal(void);
uint64_t sqlite_memory_hits(void); /* calls that failed since sqlite_memory_fail */
int64_t sqlite_memory_held(void);  /* blocks */

#endif
