/* oom_line.h: whom the kernel killed for memory, and whose limit it was. Pure.
 *
 *     oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),…,task=python3,pid=345646,uid=1000
 *     Memory cgroup out of memory: Killed process 345646 (python3) total-vm:…
 *     Out of memory: Killed process 2212 (slurmd) total-vm:...
 *     Out of memory: Kill process 2212 (slurmd) score ... */
#ifndef KEEPSTEP_AGENT_OOM_LINE_H
#define KEEPSTEP_AGENT_OOM_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OOM_VICTIM_SIZE = 32 };

struct oom_line {
    bool of_cgroup;               /* a limit of the job's own, not of the node */
    char victim[OOM_VICTIM_SIZE]; /* the kernel keeps 15 bytes of a name */
    int64_t pid;                  /* -1: not said */
};

bool oom_line_read(const char *text, size_t size, struct oom_line *ret_line);

#endif
