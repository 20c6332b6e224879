/* sources.h: the probes that are one look each at one place of the kernel's or the machine's. What
 * they decide by is at the head of each file; pure parts are here, for tests. */
#ifndef KEEPSTEP_PROBE_SOURCES_H
#define KEEPSTEP_PROBE_SOURCES_H

#include "agent/probe/probe.h"

extern const struct probe probe_pcie;      /* pcie.c */
extern const struct probe probe_memory;    /* memory.c */
extern const struct probe probe_oom;       /* oom.c */
extern const struct probe probe_clock;     /* clock.c */
extern const struct probe probe_leftover;  /* leftover.c */
extern const struct probe probe_inventory; /* stock.c */
extern const struct probe probe_shutdown;  /* shutdown.c */
extern const struct probe probe_programs;  /* programs.c */

/* The kernel's clock as adjtimex() tells of it, in microseconds. */
struct clock_reading {
    bool synchronised;
    int64_t offset_us;
    int64_t error_us; /* what its keeper takes for possible */
};
void clock_judge(const struct clock_reading *reading, struct finding *ret_finding);

/* "TOTAL_ERR_COR 3" in a file of AER counters. -EINVAL: no such line. */
MUST_CHECK int pcie_aer_total(const char *text, uint64_t *ret_total);
/* "32.0 GT/s PCIe" to 320 (tenths). -EINVAL: "Unknown". */
MUST_CHECK int pcie_speed(const char *text, uint32_t *ret_tenths);

/* One line by a site's program and its exit code, as Nagios has it: 0 well, 1 warning, 2 critical,
 * else unknown; what is behind "|" is for graphs. */
void program_judge(const char *name, int status, const char *output, struct finding *ret_finding);

#endif
