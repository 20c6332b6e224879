/* mem.h: allocation for the shells (the pure cores allocate only in core_create, through this).
 *
 * mem_alloc zeroes what it returns and aborts when the system has no memory, saying "out of memory"
 * and how much was asked for: every size is bounded by a named limit, so running out is a mistake
 * in our limits and not a state to handle; what was decided is in the journal. mem_try is
 * for sizes that a peer or a file influences: NULL when refused.
 * Tests may make the n-th mem_try fail with mem_fail_at (0 = never). */
#ifndef KEEPSTEP_BASE_MEM_H
#define KEEPSTEP_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t count, size_t size); /* owned by the caller; free with mem_free */
void *mem_try(size_t count, size_t size);   /* same, NULL on failure or overflow */
void *mem_grow(void *memory, size_t count, size_t size); /* realloc, aborts; new part not zeroed */
void *mem_free(void *memory);                            /* takes NULL; returns NULL */
void *mem_block(size_t size); /* mem_alloc in malloc's shape, for libraries that take a function */
char *mem_strdup(const char *text);
/* Ends the process as mem_alloc does, when a library that allocates for us had to give NULL. */
void mem_needed(const void *memory);
void mem_fail_at(uint64_t nth); /* tests only: the nth following mem_try returns NULL */

void mem_cleanup_free(void *pointer_to_pointer);
#define CLEANUP_FREE __attribute__((cleanup(mem_cleanup_free)))
#define TAKE(pointer)                                                                              \
    __extension__({                                                                                \
        __typeof__(pointer) taken_ = (pointer);                                                    \
        (pointer) = NULL;                                                                          \
        taken_;                                                                                    \
    })

#endif
