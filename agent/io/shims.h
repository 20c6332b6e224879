/* shims.h: the parents of ranks, as seen from the agent: finding, starting, telling, sweeping.
 *
 * Each attempt that has a folder is a small object here. Its way:
 *
 *   look (pool: folder_inspect) ── shim lives ──> connect, subscribe ──> views to the core
 *        │                                             └─ connection ends ──> look again
 *        ├─ its last record says empty ──> one view, done
 *        ├─ begun, no shim, not empty ──> view, SHIM_LOST; its ranks are watched (orphans.h): an
 *        │                                ORPHAN_ENDED each; then `keepstep-ranks --sweep` lists what
 *        │                                is left: ORPHANS
 *        └─ never begun ──> nothing runs and nothing is said
 *
 * A launch is prepared on the pool, then the shim is run as a child that leaves the daemon behind;
 * its exit status says whether to connect (0, 4), to look (5) or that nothing ran (LAUNCH_FAILED). */
#ifndef KEEPSTEP_AGENT_SHIMS_H
#define KEEPSTEP_AGENT_SHIMS_H

#include "agent/io/agent_io.h"
#include "proto/base/err.h"

struct agent_shims *shims_create(struct agent_io *io);
void shims_close(struct agent_shims *shims);
struct agent_shims *shims_free(struct agent_shims *shims);

/* The actions of the core; see agent_core.h for what each is answered with. */
void shims_scan(struct agent_shims *shims, uint32_t job);
void shims_start(struct agent_shims *shims, const struct msg_desired *order);
void shims_term(struct agent_shims *shims, uint32_t job, uint32_t attempt);
void shims_kill(struct agent_shims *shims, uint32_t job, uint32_t attempt);
void shims_sweep(struct agent_shims *shims, uint32_t job, uint32_t attempt);
void shims_forget(struct agent_shims *shims, uint32_t job, uint32_t attempt);

#endif
