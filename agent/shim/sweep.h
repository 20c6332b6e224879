/* sweep.h: what is left of an attempt whose shim died. A process of its own, with a deadline set by
 * whoever starts it: reading an environment may hang behind a process in D state. */
#ifndef KEEPSTEP_SHIM_SWEEP_H
#define KEEPSTEP_SHIM_SWEEP_H

#include <stdbool.h>

/* Prints "pid <n> <cgroup|record|cookie>" for each on stdout; with `kill_them` sends SIGKILL first.
 * Returns an enum shim_exit. Messages go to stderr. */
int sweep_run(int dir_fd, bool kill_them);

#endif
