/* spec.c: see spec.h. */
#include "controller/sim/spec.h"

#include <string.h>

#include "proto/base/text.h"

void sim_spec_fill(struct job_spec *spec, uint32_t slots, uint32_t pipeline,
                   uint32_t ranks_per_node)
{
    memset(spec, 0, sizeof(*spec));
    (void)text_copy(spec->user, sizeof(spec->user), "olga");
    (void)text_copy(spec->order, sizeof(spec->order), "tp-cp-pp-dp");
    spec->revision = 1;
    spec->priority = 50;
    spec->tensor = ranks_per_node;
    spec->context = 1;
    spec->pipeline = pipeline;
    spec->data = slots / pipeline;
    spec->ranks_per_node = ranks_per_node;
    spec->on_exhausted = EXHAUSTED_WAIT;
    spec->min_data = 1;
    spec->save_on_drain = true;
    spec->restore_policy = RESTORE_LATEST_COMPLETE;
    spec->max_lost = UINT64_MAX;
    spec->no_progress_limit = 3;
    spec->same_node_limit = 2;
    spec->restart_codes[0] = 75;
    spec->final_codes[0] = 93;
    spec->warmup_steps = 3;
    spec->watch_progress = true;
}
