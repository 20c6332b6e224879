/* memory_wrap.h: libc's allocator as our own objects and jansson call it, of which the n-th call
 * fails. The program is linked with --wrap for malloc, calloc and realloc. For one process: a test
 * forks, since for want of memory a process of ours ends (mem.h). */
#ifndef KEEPSTEP_TESTS_FAULT_MEMORY_WRAP_H
#define KEEPSTEP_TESTS_FAULT_MEMORY_WRAP_H

#include <stdbool.h>
#include <stdint.h>

/* From now on; nth counts from 1, 0: none. */
void memory_wrap_fail(uint64_t nth, bool ever);
uint64_t memory_wrap_hits(void); /* calls that failed */

#endif
