/* orphans.h: ranks that lost their parent, watched until they end.
 *
 * A process that is not our child can be waited for all the same: its pidfd becomes readable when it
 * ends. Only the code stays unknown. So the end of an orphan is known at once, as that of any other
 * rank. Where no pidfd can be had (an old kernel, no descriptors left) nothing is watched, and the
 * next orphans_watch() finds out whether the process is still there. */
#ifndef KEEPSTEP_AGENT_ORPHANS_H
#define KEEPSTEP_AGENT_ORPHANS_H

#include "agent/io/agent_io.h"
#include "agent/shim/shim.h"

struct orphans;

/* The rank has ended: just now, or (seen = false) before it could be watched. Never called from
 * within orphans_watch(), but in a later turn of the loop. */
typedef void orphan_ended(void *context, uint32_t job, uint32_t attempt, uint32_t local_rank,
                          bool seen);

struct orphans *orphans_create(struct agent_io *io, orphan_ended *ended, void *context);
/* Watches each rank of which the records say that it runs; those that are watched already stay so,
 * those that are gone are told. true: there are some that live, and all of them are watched. */
bool orphans_watch(struct orphans *orphans, uint32_t job, uint32_t attempt,
                   const struct shim_status *status);
/* They have a parent again, or nobody wants to know any more. */
void orphans_forget(struct orphans *orphans, uint32_t job, uint32_t attempt);
void orphans_close(struct orphans *orphans);
struct orphans *orphans_free(struct orphans *orphans); /* after the loop has run dry; takes NULL */

#endif
