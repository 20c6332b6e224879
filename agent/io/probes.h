/* probes.h: runs the probes of agent/probe, each in a process of its own, and has the core tell what
 * they find.
 *
 * Happy path: a process prints a round of lines (agent/core/finding.h); they go into the health of
 * this node (agent/core/health.h); what is due there becomes a fact of the core, which says it until
 * the controller has it. What was told, the notes of the probes, and which GPU answers at which
 * address are written to a file in the state folder, on the pool, when they change.
 *
 * What goes wrong: a process that says nothing for its deadline is killed and is a finding itself;
 * one that does not even end then (D state) is left alone, and its probe is not started again before
 * it is gone; one that ends by itself is started again, later each time; a line that is none is
 * dropped and counted; a file that cannot be written is logged once and tried again. None of it
 * touches the loop: nothing here waits. */
#ifndef KEEPSTEP_AGENT_PROBES_H
#define KEEPSTEP_AGENT_PROBES_H

#include "agent/io/agent_io.h"

#define PROBES_FILE "probes" /* in the state folder */

/* Reads the file of the life before; a file that is not there or damaged is a first start. */
struct agent_probes *probes_create(struct agent_io *io);
/* What is broken here, the heaviest of it, as of the last rounds: a sentence, borrowed until the
 * loop's next turn; NULL: nothing is. */
const char *probes_broken(const struct agent_probes *probes);
/* The machine goes down on purpose within a minute, as far as the probes know. */
bool probes_host_ends(const struct agent_probes *probes);
/* Has every probe look once more now; resident ones that look less often than every 5 s count with
 * their last round. Then done is called, once, maybe at once; not from within an action. late is the
 * name of one that has not come round by end_ms (monotonic), NULL where none is: one that hangs,
 * was killed for that, or ends before it has said anything has seen nothing. A second call takes
 * the place of the first. */
typedef void probes_looked(void *context, const char *late);
void probes_look(struct agent_probes *probes, uint64_t end_ms, probes_looked *done, void *context);
void probes_close(struct agent_probes *probes);
struct agent_probes *probes_free(struct agent_probes *probes); /* after the loop has run dry */

#endif
