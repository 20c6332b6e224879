/* comm_nccl.h: the "nccl" backend of comm.h: the tensor, context, pipeline and data groups exchange
 * buffers of the "cuda" kernel backend by NCCL, each group by a communicator of its own. Compiled
 * where the toolkit is.
 *
 * The world group stays on the connections of the tcp backend: what it carries (losses, reports,
 * answers) is small and in host memory, and the connections tell at once, and with its name, when a
 * rank is gone: a kernel that waits for a dead peer over shared memory or NVLink would never end.
 *
 * An operation is put on the kernels' stream, and then the host sleeps until the stream has come past
 * it; meanwhile it asks NCCL and the connections for errors. On the first error, and in comm_abort,
 * all communicators are aborted (ncclCommAbort), which ends their kernels on the device. comm_abort
 * may be called by any thread from the moment that comm_nccl_create has returned. */
#ifndef KEEPSTEP_TRAINER_COMM_NCCL_H
#define KEEPSTEP_TRAINER_COMM_NCCL_H

#include "agent/trainer/comm.h"
#include "agent/trainer/kernel.h"
#include "agent/trainer/rendezvous.h"

/* As comm_tcp_create; kernel: of kernel_cuda_create, borrowed, outlives the comm. Every rank of a
 * world has the GPU that it was given alone, but in tests that give each its own NCCL_HOSTID.
 * Codes besides: EXIT_DEVICE when NCCL or the GPU fails, EXIT_RENDEZVOUS when a communicator is not
 * there within who->timeout_ms. */
MUST_CHECK int comm_nccl_create(const struct rendezvous *who, const struct comm_layout *layout,
                                struct kernel *kernel, int *ret_listener, struct fail *fail,
                                struct comm *ret_comm);

/* "NCCL 2.28.9"; constant size, of the library that was loaded. */
void comm_nccl_version(char *ret_text, size_t size);

#endif
