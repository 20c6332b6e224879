/* start.h: where a run begins: which checkpoint, or none.
 *
 * Rank 0 decides and all ranks hear it, so that they cannot begin at different steps. In this
 * order: what Keepstep's order says, what the environment says (KEEPSTEP_RESTORE_STEP), what the
 * command line says (--load); otherwise from the beginning. */
#ifndef KEEPSTEP_TRAINER_START_H
#define KEEPSTEP_TRAINER_START_H

#include <stdint.h>

#include "agent/trainer/checkpoint.h"
#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/options.h"

struct start {
    uint64_t step;    /* completed by the checkpoint; 0: from the beginning */
    uint32_t attempt; /* that wrote it */
    int32_t code;     /* -errno when rank 0 could not decide … */
    int32_t exit_code;
    char folder[CHECKPOINT_PATH_SIZE];
};

/* Collective. directory: absolute, "" when there is none. The folder is not looked into, only
 * looked for when the attempt is not known. EXIT_CHECKPOINT, EXIT_BAD_CONFIG, EXIT_PEER. */
MUST_CHECK int start_agree(struct comm *comm, const struct options *options, const char *directory,
                           struct fail *fail, struct start *ret_start);

#endif
