/* launch.h: everything between a start order and a launch file on disk.
 *
 * On the pool: read the job file, find the user, build the plan, make folders, mailboxes and the
 * launch file. run.env_file is a path of the job: it is read in between by a helper child that runs
 * as the job's user. Failures: no job file for this order, no such user, root refused, a value that
 * cannot be, a folder or mailbox that cannot be made, an env_file that cannot be read. */
#ifndef KEEPSTEP_AGENT_LAUNCH_H
#define KEEPSTEP_AGENT_LAUNCH_H

#include "agent/io/agent_io.h"
#include "agent/io/child.h"

struct launcher;

/* result 0: the attempt's folder holds its launch file. Otherwise text says why not. Called once,
 * never from within launcher_prepare(). */
typedef void launcher_done(void *context, int result, const char *text);

struct launcher *launcher_create(struct agent_io *io, struct child_set *children);
/* After the loop has run dry. */
struct launcher *launcher_free(struct launcher *launcher);
void launcher_prepare(struct launcher *launcher, const struct msg_desired *order,
                      launcher_done *done, void *context);
/* True while `done` of this context is still to be called by work on the pool. */
bool launcher_is_busy(const struct launcher *launcher, const void *context);

#endif
