/* nccl_line.h: what NCCL's warnings say about a connection that failed. Pure.
 *
 * The completion of a work request with an error, in all wordings that there were:
 *
 *     Got completion with error 12, opcode 0, len 0, vendor err 129
 *     Got completion from peer 10.0.2.5<3309> with error 12, opcode 0, len 0, vendor err 129 (Recv)
 *     Got completion from peer 10.0.3.9<4112> with status=4 opcode=0 len=0 vendor err 83 hca mlx5_1
 *     Got completion from peer 10.0.3.9<4112> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=...(129)
 *         vendor_err=129 hca mlx5_1 */
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
