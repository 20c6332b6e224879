/* backend.c: the choice. KEEPSTEP_CUDA is the makefile's: 1 where it found the toolkit. */
#include "agent/trainer/backend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/trainer/comm_tcp.h"
#include "agent/trainer/kernel_cpu.h"

static const char *const names[] = {"tcp", "nccl"};

bool backend_parse(const char *text, enum backend *ret_backend)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_backend = (enum backend)i;
            return true;
        }
    }
    return false;
}

const char *backend_name(enum backend backend)
{
    return names[backend];
}

#if KEEPSTEP_CUDA

#include "agent/trainer/comm_nccl.h"
#include "agent/trainer/kernel_cuda.h"

static int open_cuda(uint32_t local_rank, struct fail *fail, struct kernel *ret_kernel)
{
    return kernel_cuda_create(local_rank, fail, ret_kernel);
}

static int meet_nccl(const struct rendezvous *who, const struct comm_layout *layout,
                     struct kernel *kernel, int *ret_listener, struct fail *fail,
                     struct comm *ret_comm)
{
    return comm_nccl_create(who, layout, kernel, ret_listener, fail, ret_comm);
}

static void describe_nccl(const struct kernel *kernel, char *ret_text, size_t size)
{
    char version[32];
    comm_nccl_version(version, sizeof(version));
    (void)snprintf(ret_text, size, "nccl, %s, GPU %d (%s)", version, kernel_cuda_device(kernel),
                   kernel_cuda_name(kernel));
}

#else

static int fail_without_cuda(struct fail *fail)
{
    return fail_set(fail, EXIT_BAD_CONFIG, -ENOTSUP,
                    "built without CUDA: --backend nccl needs a keepstep-trainer that was built "
                    "where nvcc and nccl.h are found (make says what it found: CUDA_HOME, "
                    "NCCL_HOME); --backend tcp works here");
}

static int open_cuda(uint32_t local_rank, struct fail *fail, struct kernel *ret_kernel)
{
    (void)local_rank;
    (void)ret_kernel;
    return fail_without_cuda(fail);
}

static int meet_nccl(const struct rendezvous *who, const struct comm_layout *layout,
                     struct kernel *kernel, int *ret_listener, struct fail *fail,
                     struct comm *ret_comm)
{
    (void)who;
    (void)layout;
    (void)kernel;
    (void)ret_listener;
    (void)ret_comm;
    return fail_without_cuda(fail);
}

static void describe_nccl(const struct kernel *kernel, char *ret_text, size_t size)
{
    (void)kernel;
    (void)snprintf(ret_text, size, "nccl, not built");
}

#endif

int backend_kernel(enum backend backend, uint32_t local_rank, struct fail *fail,
                   struct kernel *ret_kernel)
{
    if (backend == BACKEND_NCCL) {
        return open_cuda(local_rank, fail, ret_kernel);
    }
    const int code = kernel_cpu_create(ret_kernel);
    return code < 0 ? fail_set(fail, EXIT_LOCAL, code, "no memory for the model's arithmetic") : 0;
}

int backend_comm(enum backend backend, const struct rendezvous *who,
                 const struct comm_layout *layout, struct kernel *kernel, int *ret_listener,
                 struct fail *fail, struct comm *ret_comm)
{
    if (backend == BACKEND_NCCL) {
        return meet_nccl(who, layout, kernel, ret_listener, fail, ret_comm);
    }
    return comm_tcp_create(who, layout, ret_listener, fail, ret_comm);
}

void backend_describe(enum backend backend, const struct kernel *kernel, char *ret_text,
                      size_t size)
{
    if (backend == BACKEND_NCCL) {
        describe_nccl(kernel, ret_text, size);
    } else {
        (void)snprintf(ret_text, size, "tcp, %s", kernel->backend->name);
    }
}
