/* backend.h: which kernels and which communication a run has: "tcp" (the cpu's kernels, connections
 * between the ranks) or "nccl" (CUDA's kernels, NCCL). The only file that knows whether the program
 * was built with CUDA.
 *
 * The two belong together and are made in this order: kernel first, so that a machine without a GPU
 * says so before anybody waits for it, then comm. */
#ifndef KEEPSTEP_TRAINER_BACKEND_H
#define KEEPSTEP_TRAINER_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"
#include "agent/trainer/kernel.h"
#include "agent/trainer/rendezvous.h"

enum backend { BACKEND_TCP, BACKEND_NCCL };

/* "tcp", "nccl". False: no such one. */
bool backend_parse(const char *text, enum backend *ret_backend);
const char *backend_name(enum backend backend);

/* EXIT_BAD_CONFIG: this program was built without CUDA; else as kernel_cuda_create, or EXIT_LOCAL
 * without memory. local_rank chooses the GPU. kernel_done ends it. */
MUST_CHECK int backend_kernel(enum backend backend, uint32_t local_rank, struct fail *fail,
                              struct kernel *ret_kernel);
/* kernel: of the same backend. As comm_tcp_create and comm_nccl_create. comm_done ends it. */
MUST_CHECK int backend_comm(enum backend backend, const struct rendezvous *who,
                            const struct comm_layout *layout, struct kernel *kernel,
                            int *ret_listener, struct fail *fail, struct comm *ret_comm);
/* What it works with: "tcp, cpu" or "nccl, NCCL 2.28.9, GPU 0 (NVIDIA H200)". */
void backend_describe(enum backend backend, const struct kernel *kernel, char *ret_text,
                      size_t size);

#endif
