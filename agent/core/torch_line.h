/* torch_line.h: what PyTorch's watchdog says about a collective that did not come back. Pure.
 *
 *     [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=49, OpType=BROADCAST,
 *     NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.
 *
 * With "[PG ID 2 PG GUID 5(tp) Rank 3]" or "[PG 2 (tp) Rank 3]" in front in newer ones. Several of
 * them may have been joined into one message. */
#ifndef KEEPSTEP_AGENT_TORCH_LINE_H
#define KEEPSTEP_AGENT_TORCH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TORCH_OPERATION_SIZE = 24 };

struct torch_work {
    int64_t sequence;
    char operation[TORCH_OPERATION_SIZE]; /* "ALLREDUCE" */
    int32_t group;                        /* of processes; -1: not said */
    int32_t rank;                         /* in that group; -1: not said */
    int32_t timeout_ms;                   /* -1: not said */
    int32_t elements;                     /* in; -1: not said */
    /* Another work of the message has the same number and another operation: two ranks run
     * different programs. */
    bool differs;
};

/* The first work that the message names; false: it names none. */
bool torch_work_read(const char *text, size_t size, struct torch_work *ret_work);

#endif
