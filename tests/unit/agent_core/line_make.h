/* line_make.h: lines of logs out of formats, with random addresses, numbers, names and carriers.
 *
 * A format is text with these in it:
 *
 *     <pci> <pcif>   an address, without and with the function digit
 *     <n> <small>    0…9999999; 0…99         <hex> <hex8>   0x… of 1 to 16 digits; 8 digits
 *     <pid> <proc>   a process               <host> <ip>    a node
 *     <ib> <eth>     devices of a network    <path>         a file
 *     <gib>          1.00…79.99              <disk> <fs>    "nvme3n1p1"; "scratch" */
#ifndef KEEPSTEP_TESTS_UNIT_AGENT_CORE_LINE_MAKE_H
#define KEEPSTEP_TESTS_UNIT_AGENT_CORE_LINE_MAKE_H

#include <stddef.h>

#include "proto/base/prng.h"

enum line_carrier {
    CARRIER_NONE,
    CARRIER_KERNEL, /* as the kernel's lines come, long after the start */
    CARRIER_OUTPUT, /* as ranks' lines come */
    CARRIER_NCCL,   /* "host:pid:tid [gpu] file.cc:12 " and, often, one of ranks around it */
};

enum { LINE_MADE_SIZE = 2048 };

/* Writes a line into target, of LINE_MADE_SIZE bytes; returns its size. */
size_t line_make(struct prng *prng, enum line_carrier carrier, const char *format, char *target);

#endif
