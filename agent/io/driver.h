/* driver.h: the loop around the core: events in, records down, then actions out.
 *
 * Happy path: a part calls driver_step() from its callback; the core answers with records and
 * actions; without records that are not yet durable the actions are carried out at once; with them
 * they wait in order. Before the loop blocks, all records gathered are written by one commit on
 * libuv's pool; when it is durable, what waited for it is carried out. The timer is armed at the
 * core's deadline after every step.
 *
 * A file that has become long is replaced by the whole state; where that fails it is appended to, and
 * only what cannot be appended either has failed.
 *
 * A commit that fails is tried again every second, for ever. Meanwhile beats still go out (they are
 * how the controller learns of it: checks_ok false, with the reason), everything else waits;
 * messages that are repeated anyway are dropped past DRIVER_HELD_MAX waiting actions. */
#ifndef KEEPSTEP_AGENT_DRIVER_H
#define KEEPSTEP_AGENT_DRIVER_H

#include "agent/io/agent_io.h"
#include "agent/io/journal.h"

enum {
    DRIVER_HELD_MAX = 256,
    DRIVER_RETRY_MS = 1000,
    DRIVER_REWRITE_AGAIN = 256, /* lines after a rewriting that failed */
};

/* journal and core are borrowed. limits: the core's. */
MUST_CHECK int driver_create(struct agent_io *io, struct agent_journal *journal,
                             const struct agent_limits *limits, struct agent_driver **ret_driver);
/* Closes its handles; free after the loop has run dry. */
void driver_close(struct agent_driver *driver);
struct agent_driver *driver_free(struct agent_driver *driver);

/* Fills in the event's times, steps the core, and does what it says. Not from within an action. */
void driver_step(struct agent_driver *driver, struct agent_event *event);

/* Calls function(context) in this turn of the loop, outside of any action. */
typedef void driver_function(void *context);
void driver_defer(struct agent_driver *driver, driver_function *function, void *context);

/* True once everything ordered before has been carried out. */
bool driver_is_idle(const struct agent_driver *driver);

#endif
