/* kernel_cuda.h: the "cuda" backend of kernel.h: buffers are memory of one GPU, kernels are launched
 * on one stream of it. Compiled where the toolkit is.
 *
 * A host that waits sleeps: the device is told to, and no call spins. */
#ifndef KEEPSTEP_TRAINER_KERNEL_CUDA_H
#define KEEPSTEP_TRAINER_KERNEL_CUDA_H

#include <stdint.h>

#include "agent/trainer/fail.h"
#include "agent/trainer/kernel.h"

/* Takes GPU local_rank modulo the number of those that this process sees (a launcher may show each
 * rank its own alone). Fills *ret_kernel; kernel_done ends it. EXIT_DEVICE: no driver, no GPU, one
 * that this program has no code for, or one that does not answer; EXIT_LOCAL: no memory. */
MUST_CHECK int kernel_cuda_create(uint32_t local_rank, struct fail *fail,
                                  struct kernel *ret_kernel);

/* Of a kernel of this backend. The stream (cudaStream_t) is what the order of the calls means: who
 * works on the buffers too works on it. */
void *kernel_cuda_stream(const struct kernel *kernel);
int kernel_cuda_device(const struct kernel *kernel);
const char *kernel_cuda_name(const struct kernel *kernel); /* "NVIDIA H200"; borrowed */

#endif
