/* probe_rig.h: a probe run by hand over a folder that looks like /sys or /proc. */
#ifndef KEEPSTEP_TESTS_PROBE_RIG_H
#define KEEPSTEP_TESTS_PROBE_RIG_H

#include "agent/probe/probe.h"

enum { RIG_FINDINGS_MAX = 256 };

struct probe_rig {
    char dir[64];
    const struct probe *probe;
    struct probe_config config;
    struct probe_run run;
    /* of the last round */
    uint32_t state_count;
    struct finding states[RIG_FINDINGS_MAX];
    uint32_t event_count;
    struct finding events[RIG_FINDINGS_MAX];
};

void probe_rig_open(struct probe_rig *rig, const struct probe *probe);
void probe_rig_close(struct probe_rig *rig);
/* The text of a file below the rig's folder, made with its folders. */
void probe_rig_file(struct probe_rig *rig, const char *text, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void probe_rig_remove(struct probe_rig *rig, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* One round, so much later than the one before; what it said is parsed as the agent does. */
void probe_rig_round(struct probe_rig *rig, uint64_t ms);
/* The state of this key in the last round, NULL: none. */
const struct finding *probe_rig_state(const struct probe_rig *rig, const char *key);
/* The same; there must be one. */
const struct finding *probe_rig_need(const struct probe_rig *rig, const char *key);
/* The probe's process ends and another one begins, with its notes. */
void probe_rig_again(struct probe_rig *rig);

#endif
