/* inventory.h: what this machine is. Read once at the agent's start; nothing here can hang, since
 * only procfs, sysfs-free system calls and the agent's own flags are asked. */
#ifndef KEEPSTEP_PROBE_INVENTORY_H
#define KEEPSTEP_PROBE_INVENTORY_H

#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/message.h"

/* The kernel's boot id, 36 characters. */
MUST_CHECK int inventory_boot_id(char ret_boot_id[BOOT_ID_SIZE], struct err *err);

/* Milliseconds since boot, sleep included, with random low bits: two starts of one boot never get
 * the same number, and the later one gets the larger. */
MUST_CHECK int inventory_incarnation(uint64_t *ret_incarnation, struct err *err);

/* CPUs and memory of the machine; gpu_count GPUs named after the node, for machines where no driver
 * names them. leaves: one leaf switch for each network port, at most PORTS_MAX. */
void inventory_read(const char *node, uint32_t gpu_count, uint32_t leaf_count,
                    const char *const *leaves, struct inventory *ret_inventory);

/* The numeric address that peers and ranks of other nodes reach this one by: of the interface, or
 * inside the CIDR block, that `rendezvous` names; "" takes the first address that is not loopback,
 * and loopback's own when there is no other. -ENODEV: nothing fits. */
MUST_CHECK int inventory_address(const char *rendezvous, char ret_address[ADDRESS_SIZE],
                                 struct err *err);

#endif
