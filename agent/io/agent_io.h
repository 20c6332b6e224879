/* agent_io.h: what the parts of the agent's driver share. One loop, one core, one thread; the parts
 * know each other only through this struct and their own headers.
 *
 * The one rule: a part hands what happened to driver_step() and never decides. driver_step() must
 * not be called while an action is being carried out; what an action finds out at once (a socket
 * that cannot be made) is handed in later with driver_defer(). */
#ifndef KEEPSTEP_AGENT_IO_H
#define KEEPSTEP_AGENT_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/core/agent_core.h"
#include "agent/io/options.h"

struct agent_driver;
struct agent_link_io;
struct agent_shims;
struct agent_mailboxes;
struct agent_logs;
struct agent_steps;
struct agent_peers;
struct agent_requests;
struct agent_saves;
struct agent_specs;
struct agent_probes;
struct agent_validate;

struct agent_io {
    uv_loop_t *loop;
    const struct agent_options *options;
    struct agent_core *core;
    struct agent_driver *driver;
    struct agent_link_io *link;
    struct agent_shims *shims;
    struct agent_mailboxes *mailboxes;
    struct agent_logs *logs;
    struct agent_steps *steps;
    struct agent_peers *peers;
    struct agent_requests *requests;
    struct agent_saves *saves;
    struct agent_specs *specs;
    struct agent_probes *probes;
    struct agent_validate *validate;
    bool closing; /* no part begins anything new */
};

uint64_t agent_io_now_ms(void);  /* monotonic */
uint64_t agent_io_wall_ms(void); /* since 1970 */

#endif
