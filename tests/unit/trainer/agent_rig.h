/* agent_rig.h: the agent of a world of forked ranks: mailboxes on tmpfs, and who answers them. */
#ifndef KEEPSTEP_TESTS_AGENT_RIG_H
#define KEEPSTEP_TESTS_AGENT_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/rank/mailbox.h"

enum { AGENT_RIG_RANKS = 8, AGENT_RIG_PUTS = 32 };

struct agent_rig {
    char folder[64];
    int dir_fd;
    uint32_t count;
    int fds[AGENT_RIG_RANKS];
    void *maps[AGENT_RIG_RANKS];
    struct mailbox_put puts[AGENT_RIG_PUTS]; /* what ranks gave, by the order of its arrival */
    uint32_t put_count;
};

/* Mailboxes of attempt 3 for ranks 0 … count - 1. */
void agent_rig_begin(struct agent_rig *rig, uint32_t count);
void agent_rig_end(struct agent_rig *rig);
/* The rank that is forked next finds its mailbox; UINT32_MAX: it has none. */
void agent_rig_show(const struct agent_rig *rig, uint32_t rank);
/* Passes values from puts to gets until all children have ended; *ret_results: exit codes, 128 and
 * more for signals. */
void agent_rig_serve(struct agent_rig *rig, const pid_t *children, uint32_t child_count,
                     int *ret_results);
/* Is the key among the puts? */
bool agent_rig_has(const struct agent_rig *rig, const char *key);
/* Attempt 3 is over. */
void agent_rig_abort(const struct agent_rig *rig, uint32_t rank);

#endif
