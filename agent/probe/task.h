/* task.h: a process of a probe's process, for one thing that may hang by itself: so that it can be
 * named, and the others are still looked at. One that does not end when killed (D state) is left
 * alone; task_is_gone() says when it may be tried again. */
#ifndef KEEPSTEP_PROBE_TASK_H
#define KEEPSTEP_PROBE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/base/err.h"

struct task {
    pid_t pid; /* 0: there is none */
    int fd;    /* what it prints */
};

/* Runs `work` in a new process, whose standard output is a pipe to here; what it returns is the exit
 * status. -errno. */
MUST_CHECK int task_start(struct task *task, int (*work)(void *context), void *context);

enum { TASK_STUCK = -1 };

/* Waits for its end, at most so long. The exit status, 128 + signal when one ended it, or TASK_STUCK:
 * it was killed and may still be there. The first size - 1 bytes of what it printed are in `output`
 * (a text). */
int task_finish(struct task *task, int wait_ms, char *output, size_t size);

/* No process is left of it. */
bool task_is_gone(struct task *task);

#endif
