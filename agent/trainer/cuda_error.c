/* cuda_error.c: two tables of codes. */
#include "agent/trainer/cuda_error.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <nccl.h>
#include <stdio.h>

int cuda_error_code(int cuda)
{
    switch (cuda) {
    case cudaSuccess:
        return 0;
    case cudaErrorNotReady:
        return -EAGAIN;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorUnsupportedPtxVersion:
        return -ENODEV;
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
        return -EBUSY;
    case cudaErrorMemoryAllocation:
    case cudaErrorLaunchOutOfResources:
        return -ENOMEM;
    case cudaErrorCudartUnloading:
        return -ECANCELED;
    default:
        return -EIO;
    }
}

int cuda_error_of_nccl(int nccl)
{
    switch (nccl) {
    case ncclSuccess:
        return 0;
    case ncclInProgress:
        return -EINPROGRESS;
    case ncclRemoteError:
        return -ECONNRESET;
    /* A socket or a shared memory segment failed: what a dying peer, or the way to it, looks like. */
    case ncclSystemError:
        return -ECONNRESET;
    case ncclInvalidArgument:
    case ncclInvalidUsage: /* two ranks on one GPU, too: the text says so */
        return -EPROTO;
    case ncclUnhandledCudaError:
    case ncclInternalError:
    default:
        return -EIO;
    }
}

void cuda_error_explain_absence(int cuda, int driver, int runtime, const char *visible,
                                char *ret_text, size_t size)
{
    if (cuda == cudaErrorInsufficientDriver && driver == 0) {
        (void)snprintf(
            ret_text, size,
            "no NVIDIA driver (CUDA error %d): load the nvidia kernel module and let this "
            "process see libcuda.so.1 and /dev/nvidia* (nvidia-smi lists the GPUs then), "
            "or use --backend tcp",
            cuda);
    } else if (cuda == cudaErrorInsufficientDriver) {
        (void)snprintf(
            ret_text, size,
            "the NVIDIA driver is too old (CUDA error %d): it serves CUDA %d.%d and this "
            "program was built with %d.%d: install a newer driver, or build with an "
            "older toolkit",
            cuda, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    } else if (cuda == cudaErrorNoDevice) {
        (void)snprintf(ret_text, size,
                       "no NVIDIA GPU to be seen (CUDA error %d), CUDA_VISIBLE_DEVICES is %s%s%s: "
                       "look at nvidia-smi on this node",
                       cuda, visible == NULL ? "not set" : "'", visible == NULL ? "" : visible,
                       visible == NULL ? "" : "'");
    } else {
        (void)snprintf(ret_text, size, "no GPU to use: %s (CUDA error %d)",
                       cudaGetErrorString((cudaError_t)cuda), cuda);
    }
}
