/* exchange.h: one member's bytes reach all members of a group before the group has a way of its own:
 * the unique ids of communicators.
 *
 * Two ways: Keepstep's keys (keepstep.h), which belong to the attempt, so that a rank of an older one
 * never meets an id of this one; and, where not every rank has an agent, the connections that the
 * ranks made when they came together. Which one it is, all ranks decide together. */
#ifndef KEEPSTEP_TRAINER_EXCHANGE_H
#define KEEPSTEP_TRAINER_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/comm.h"

enum { EXCHANGE_NAME_MAX = 31 };

/* Collective over the world of comm ("tcp"): do all ranks have an agent? comm.h's code. */
MUST_CHECK int exchange_by_agent(struct comm *comm, bool *ret_by_agent);

/* Collective over the group, of the same comm: bytes of member 0 are copied to all others. name: of
 * what is exchanged, at most EXCHANGE_NAME_MAX characters, used once in an attempt. by_agent: what
 * exchange_by_agent said. Waits until timeout_ms are over, comm is aborted or a peer is gone: comm.h's
 * codes, and those of keepstep_exchange_put and _get. */
MUST_CHECK int exchange_bytes(struct comm_group *group, const char *name, bool by_agent,
                              void *bytes, size_t size, uint32_t timeout_ms);

#endif
