/* cuda_error.h: what CUDA and NCCL say, as the errno values of kernel.h and comm.h. The only place
 * where their codes are judged. Compiled where the toolkit is. */
#ifndef KEEPSTEP_TRAINER_CUDA_ERROR_H
#define KEEPSTEP_TRAINER_CUDA_ERROR_H

#include <stddef.h>

/* A cudaError_t:
 *   0           success            -EAGAIN  not ready: ask again
 *   -ENODEV     no driver, one that is too old, no GPU, one without code for it in this program
 *   -EBUSY      the GPU is another's (exclusive mode) or not ready yet
 *   -ENOMEM     its memory, or the host's, is used up
 *   -ECANCELED  the program is ending
 *   -EIO        everything else: the GPU, or what runs on it, failed */
int cuda_error_code(int cuda);

/* An ncclResult_t:
 *   0           success            -EINPROGRESS  under way: ask again
 *   -ECONNRESET a peer is gone, or the network between
 *   -EPROTO     the ranks, or this program's calls, do not fit together
 *   -EIO        the GPU failed, or NCCL itself */
int cuda_error_of_nccl(int nccl);

/* One sentence on why there is no GPU to use, with CUDA's code and what to do about it.
 * driver, runtime: their CUDA versions as CUDA writes them (13000); driver 0: there is none.
 * visible: CUDA_VISIBLE_DEVICES, or NULL. */
void cuda_error_explain_absence(int cuda, int driver, int runtime, const char *visible,
                                char *ret_text, size_t size);

#endif
