/* nccl_line.h: what NCCL's warnings say about a connection that failed. Pure.
 *
 * The completion of a work request with an error, in all wordings that there were:
 *
 *     NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129
 *     NET/IB : Got completion from peer 10.40.2.5<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)
 *     NET/IB : Got completion from peer 10.40.3.9<41122> with status=4 opcode=0 len=0 vendor err 83 (Send) … hca mlx5_1
 *     NET/IB: Got completion from peer 10.40.3.9<41122> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=… vendor_err=129 … */
#ifndef KEEPSTEP_AGENT_NCCL_LINE_H
#define KEEPSTEP_AGENT_NCCL_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NCCL_PEER_SIZE = 64, NCCL_DEVICE_SIZE = 32 };

/* Of a work completion, as the verbs library counts them: what has its own treatment. */
enum { NCCL_STATUS_FLUSHED = 5, NCCL_STATUS_RETRIES = 12 };

struct nccl_completion {
    int32_t status;
    int32_t opcode;                /* -1: not said */
    int32_t vendor;                /* -1: not said */
    char peer[NCCL_PEER_SIZE];     /* address without its port; "": not said */
    char device[NCCL_DEVICE_SIZE]; /* "mlx5_1"; "": not said */
};

bool nccl_completion_read(const char *text, size_t size, struct nccl_completion *ret_completion);

#endif
