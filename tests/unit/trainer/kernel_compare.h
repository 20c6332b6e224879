/* kernel_compare.h: every function of kernel.h on two backends, on the same numbers: what they make
 * must agree. */
#ifndef KEEPSTEP_TESTS_KERNEL_COMPARE_H
#define KEEPSTEP_TESTS_KERNEL_COMPARE_H

#include "agent/trainer/kernel.h"

/* Told of every result: its largest difference |tested - cpu| / (1 + |cpu|), and how large one may
 * be. A result that is not a number differs by infinity. */
typedef void kernel_compare_report(const char *what, double difference, double limit,
                                   void *context);

/* 0, or the code of the backend that failed (kernel_explain), or -ENOMEM. */
MUST_CHECK int kernel_compare(struct kernel *tested, struct kernel *cpu,
                              kernel_compare_report *report, void *context);

#endif
