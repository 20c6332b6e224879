/* probes.c: the table of all probes. Their order is that of the agent's table and of its file. */
#include <assert.h>
#include <stddef.h>

#include "agent/core/health.h"
#include "agent/probe/kmsg.h"
#include "agent/probe/mounts.h"
#include "agent/probe/nvml.h"
#include "agent/probe/ports.h"
#include "agent/probe/probe.h"
#include "agent/probe/sources.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

static const struct probe *const probes[] = {
    &probe_nvml,     &probe_kmsg,     &probe_ports,     &probe_shutdown, &probe_oom,
    &probe_mounts,   &probe_pcie,     &probe_inventory, &probe_memory,   &probe_disks,
    &probe_leftover, &probe_programs, &probe_clock,
};
static_assert(ARRAY_SIZE(probes) <= HEALTH_PROBES_MAX, "each has its place in the agent's health");

const struct probe *probe_at(uint32_t index)
{
    return index < ARRAY_SIZE(probes) ? probes[index] : NULL;
}

const struct probe *probe_find(const char *name)
{
    for (uint32_t i = 0; i < ARRAY_SIZE(probes); i++) {
        if (text_equal(probes[i]->name, name)) {
            return probes[i];
        }
    }
    return NULL;
}
