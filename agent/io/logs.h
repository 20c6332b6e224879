/* logs.h: the output of the ranks here, kept within run.log_max of their jobs.
 *
 * Looks at the sizes now and then (more often while one grows fast) and lets a helper that runs as the
 * job's user drop the middle of what has become too long (output.h). So a rank that prints without end
 * holds log_max on the disk, and for a moment what it printed between two looks. Only node-local files
 * are looked at: what a job writes to a path of its own (run.output) is its own. */
#ifndef KEEPSTEP_AGENT_LOGS_H
#define KEEPSTEP_AGENT_LOGS_H

#include "agent/io/agent_io.h"
#include "agent/io/folders.h"

enum { LOGS_LOOK_MS = 2000, LOGS_HURRY_MS = 200, LOGS_TRIM_MS = 10000 };

struct agent_logs *logs_create(struct agent_io *io);
void logs_close(struct agent_logs *logs);
struct agent_logs *logs_free(struct agent_logs *logs); /* after the loop has run dry; takes NULL */

/* From now on; later calls for the same attempt do nothing. info is copied. */
void logs_watch(struct agent_logs *logs, uint32_t job, uint32_t attempt,
                const struct folder_info *info);
/* Nobody writes any more: one last look. */
void logs_ended(struct agent_logs *logs, uint32_t job, uint32_t attempt);

#endif
