/* serve.h: the shim's one loop. */
#ifndef KEEPSTEP_SHIM_SERVE_H
#define KEEPSTEP_SHIM_SERVE_H

#include "agent/shim/ranks.h"
#include "agent/shim/server.h"

/* SIGCHLD and the signals that a shim does not obey become readable on the result (a descriptor or
 * -errno). Call before the first fork, so that no end is missed. */
int serve_signals(void);

/* Runs until the attempt is empty and that is recorded. 0, or -errno when poll itself fails. */
int serve_run(struct ranks *ranks, struct server *server, int signal_fd);

#endif
