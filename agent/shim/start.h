/* start.h: from a forked child to the rank's program: user switch, limits, files, exec.
 *
 * The order is the safety: everything that needs root comes first, then the switch to the job's
 * user, and only then the paths of the job (workdir, output, program) are opened, by that user. */
#ifndef KEEPSTEP_SHIM_START_H
#define KEEPSTEP_SHIM_START_H

#include <stdint.h>

#include "agent/shim/shim.h"

/* What a child that did not reach its program writes before it ends; nothing: exec worked. */
struct start_report {
    uint32_t stage; /* enum shim_stage */
    int32_t error;  /* errno */
};

struct start_channel {
    int go_fd;     /* one byte is this child's leave to go on; end of file: the shim died */
    int report_fd; /* close-on-exec */
};

/* In the child, right after fork. */
__attribute__((noreturn)) void start_rank(const struct shim_launch *launch, uint32_t index,
                                          const struct start_channel *channel);

/* Whether this process may start ranks as launch->uid: root may, others only as themselves. */
int start_user_check(const struct shim_launch *launch);

/* Closes every descriptor from 3 up except those in keep (-1: none), `count` of them. */
void start_close_others(const int *keep, uint32_t count);

#endif
