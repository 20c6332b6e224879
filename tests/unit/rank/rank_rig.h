/* rank_rig.h: a mailbox on tmpfs with both of its sides: this process is the rank through the
 * library, and the agent through mailbox.h. */
#ifndef KEEPSTEP_TESTS_RANK_RIG_H
#define KEEPSTEP_TESTS_RANK_RIG_H

#include <stdint.h>

#include "agent/rank/mailbox.h"

struct rank_rig {
    char folder[64];
    int dir_fd;
    int fd; /* the agent's */
    void *map;
};

/* Attempt 3 of job 9, rank `rank` of 16, restore from step 40; sets KEEPSTEP_MAILBOX. */
void rank_rig_begin(struct rank_rig *rig, uint32_t rank, uint32_t save_request);
void rank_rig_end(struct rank_rig *rig); /* also finishes the library */
void rank_rig_order(struct mailbox_order *ret_order, uint32_t rank, uint32_t attempt);
uint64_t rank_rig_now_ms(void);

/* What is open, each of which there must be exactly one. */
void rank_rig_request(const struct rank_rig *rig, struct mailbox_request *ret_request);
void rank_rig_get(const struct rank_rig *rig, struct mailbox_get *ret_get);
uint32_t rank_rig_requests(const struct rank_rig *rig); /* how many are open */
uint32_t rank_rig_gets(const struct rank_rig *rig);
uint32_t rank_rig_puts(const struct rank_rig *rig);

#endif
