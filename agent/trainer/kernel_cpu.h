/* kernel_cpu.h: the "cpu" backend of kernel.h: buffers are ordinary memory, kernels are loops that
 * are done when they return. */
#ifndef KEEPSTEP_TRAINER_KERNEL_CPU_H
#define KEEPSTEP_TRAINER_KERNEL_CPU_H

#include "agent/trainer/kernel.h"

/* Fills *ret_kernel; kernel_done ends it. -ENOMEM. */
MUST_CHECK int kernel_cpu_create(struct kernel *ret_kernel);

#endif
