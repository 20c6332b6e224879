/* train.h: one rank's life, from the options to the exit code. */
#ifndef KEEPSTEP_TRAINER_TRAIN_H
#define KEEPSTEP_TRAINER_TRAIN_H

#include "agent/trainer/fail.h"
#include "agent/trainer/options.h"

/* Runs to the end: 0 with *ret_exit EXIT_DONE or EXIT_RESTART, or -errno with the exit code and the
 * sentence in fail. Prints its progress to standard output on rank 0, one line a step:
 * `step N loss L ms T norm G`. Blocks SIGUSR1 on rank 0, which then means: save. */
MUST_CHECK int train_run(const struct options *options, struct fail *fail, int *ret_exit);

#endif
