/* step_watch.h: the steps that ranks print, for jobs with hang.log_pattern.
 *
 * One helper for each attempt that runs here and has a pattern (step_follow.h) reads the ranks'
 * outputs and says what it finds, as it finds it. So the loop neither opens a path of a job nor
 * waits for a disk, and no pattern can hold it up: a helper that says nothing for STEPS_SILENT_MS is
 * ended. One that ends is started again, later each time, and reads on at the end of the outputs:
 * what it says is level state. The same helper tells how much processor time the attempt has used,
 * which is the second sign that a job hangs. Without a pattern nothing here runs. */
#ifndef KEEPSTEP_AGENT_STEP_WATCH_H
#define KEEPSTEP_AGENT_STEP_WATCH_H

#include "agent/io/agent_io.h"
#include "agent/io/folders.h"

enum { STEPS_SILENT_MS = 30000, STEPS_AGAIN_MS = 2000, STEPS_AGAIN_MAX_MS = 120000 };

struct agent_steps *steps_create(struct agent_io *io);
void steps_close(struct agent_steps *steps);
struct agent_steps *
steps_free(struct agent_steps *steps); /* after the loop has run dry; takes NULL */

/* From the moment that all its ranks run; later calls for the same attempt do nothing. Both are
 * copied. */
void steps_watch(struct agent_steps *steps, uint32_t job, uint32_t attempt,
                 const struct folder_info *info, const struct shim_status *status);
/* Nobody prints any more. */
void steps_ended(struct agent_steps *steps, uint32_t job, uint32_t attempt);

#endif
