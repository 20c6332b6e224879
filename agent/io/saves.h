/* saves.h: the controller asks what lies in a job's checkpoint folder, to read one again, or to
 * remove one. Done by a helper child as the job's user; what it finds is sent as it comes.
 *
 * A child that does not come back within its deadline is itself the answer. One that hangs in the
 * storage for good keeps its place: past SAVES_HANGING_MAX of them nothing new is begun, so a dead
 * mount costs a handful of processes and never the agent. */
#ifndef KEEPSTEP_AGENT_SAVES_H
#define KEEPSTEP_AGENT_SAVES_H

#include "agent/io/agent_io.h"

enum {
    SAVES_MAX = 8,         /* tasks at a time */
    SAVES_HANGING_MAX = 4, /* children past their deadline that have not ended */
    SAVES_FOUND_MAX = 64,  /* checkpoints of one listing that are passed on */
};

struct agent_saves *saves_create(struct agent_io *io);
void saves_close(struct agent_saves *saves);
struct agent_saves *saves_free(struct agent_saves *saves);

void saves_ask(struct agent_saves *saves, const struct msg_save_ask *ask);

#endif
