/* log_line.h: what stands in front of a message in a log, taken off. Pure.
 *
 * The same message comes in many carriers, often several in each other:
 *
 *     6,3973,227986636,-;msg                          a raw record of /dev/kmsg
 *     <6>msg  [  123.456] msg  [  123.456][   T12] msg
 *     [Sun Feb 23 16:24:18 2025] msg  [2025-02-23 16:24:18] msg
 *     kern  :warn  : 2025-01-21T04:41:44,283302+00:00 msg
 *     2025-01-21T04:41:44.283+00:00 host kernel: msg  Mar 14 10:22:31 host kernel: msg
 *     2025-01-21T04:41:44.283Z stderr F msg           what a container runtime writes
 *     kernel: msg
 *     [rank5]:[E121 12:33:44.123 File.cpp:607] msg  12: msg  [default3]:msg  [1,5]<stderr>:msg
 *     node-2:5776:5902 [0] file.cc:1296 NCCL WARN msg
 *
 * What is no carrier of these is left where it is. */
#ifndef KEEPSTEP_AGENT_LOG_LINE_H
#define KEEPSTEP_AGENT_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_CARRIERS_MAX = 8 }; /* in each other; further ones are left */

struct log_line {
    const char *text; /* the bare message: borrowed from the line, without its newline */
    size_t size;
    bool kmsg;         /* a raw record; the four below are only for those */
    uint8_t priority;  /* 0 emergency … 7 debug */
    uint32_t facility; /* 0: the kernel itself; else a program wrote it */
    uint64_t sequence;
    uint64_t usec; /* since boot */
    /* Since boot, of any carrier that says it; has_uptime. */
    uint64_t uptime_ms;
    bool has_uptime;
    int32_t rank; /* -1: not said */
    int32_t gpu;  /* of NCCL's [N]; -1 */
};

/* Any bytes. A raw record of /dev/kmsg ends at its first newline: what follows are properties. */
void log_line_strip(const char *line, size_t size, struct log_line *ret_line);

#endif
