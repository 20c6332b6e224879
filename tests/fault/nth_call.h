/* nth_call.h: the n-th call fails, once or from then on. Calls of all threads count together. */
#ifndef KEEPSTEP_TESTS_FAULT_NTH_CALL_H
#define KEEPSTEP_TESTS_FAULT_NTH_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nth_call {
    _Atomic uint64_t nth; /* from 1; 0: none */
    _Atomic bool ever;
    _Atomic uint64_t calls;
    _Atomic uint64_t hits; /* that failed since it was set */
};

static inline void nth_call_set(struct nth_call *call, uint64_t nth, bool ever)
{
    call->ever = ever;
    call->calls = 0;
    call->hits = 0;
    call->nth = nth;
}

static inline bool nth_call_fails(struct nth_call *call)
{
    const uint64_t nth = call->nth;
    if (nth == 0) {
        return false;
    }
    const uint64_t number = ++call->calls;
    const bool fails = call->ever ? number >= nth : number == nth;
    call->hits += fails ? 1 : 0;
    return fails;
}

#endif
