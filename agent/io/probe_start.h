/* probe_start.h: starts the process of a probe. */
#ifndef KEEPSTEP_AGENT_PROBE_START_H
#define KEEPSTEP_AGENT_PROBE_START_H

#include "agent/io/child.h"
#include "agent/probe/probe.h"

enum probe_mode { PROBE_ROUND, PROBE_STAY, PROBE_ONCE }; /* probe_main() tells them apart */

struct probe_start {
    const struct probe *probe;
    const struct probe_config *config;
    enum probe_mode mode;
    uint32_t note_count;
    const struct probe_note *notes;
    child_line *line;
    child_done *done;
    void *context;
};

/* As child_start; all of it is copied. */
MUST_CHECK int probe_start(uv_loop_t *loop, struct child_set *set, const struct probe_start *start);

#endif
