/* validate.h: shows whether this node is fit, for AGENT_ACTION_VALIDATE.
 *
 * Quick: the node's own probes. Full: then the site's programs of `validate_programs`, one after
 * the other, as Nagios plugins: 0 ok, 1 a warning (told, and good enough), 2 critical, anything else
 * (3 unknown, a signal, not startable, not done in time) has shown nothing: not fit. The first that
 * is not good ends it. Each runs in a process group of its own and has what is left of the time. */
#ifndef KEEPSTEP_AGENT_VALIDATE_H
#define KEEPSTEP_AGENT_VALIDATE_H

#include "agent/io/agent_io.h"

struct agent_validate *validate_create(struct agent_io *io);
/* Gives up what is under way and begins this. From within an action. */
void validate_begin(struct agent_validate *validate, const struct msg_validate *ask);
/* Kills what runs; free after the loop has run dry. */
void validate_close(struct agent_validate *validate);
struct agent_validate *validate_free(struct agent_validate *validate);

#endif
