/* nvml.h: GPUs as the NVIDIA driver's library shows them. What a set of readings of one GPU means is
 * pure and open to tests; taking them is not: any call may hang for good, which is why all of it
 * happens in the probe's own process. */
#ifndef KEEPSTEP_PROBE_NVML_H
#define KEEPSTEP_PROBE_NVML_H

#include "agent/probe/nvml_api.h"
#include "agent/probe/probe.h"

enum {
    NVML_SLOW_ROUNDS = 6, /* of which so many decide over clocks … */
    NVML_SLOW_FEW = 3,    /* … as many as these tell */
    NVML_LEFT_ROUNDS = 3, /* memory in use by nobody */
    NVML_BUSY_PERCENT = 10,
    NVML_ROWS_MAX = 512, /* remapped */
    NVML_SRAM_MAX = 4,
    NVML_PCI_SIZE = 16,
};

/* A value that may be missing: the GPU does not have it, or we may not see it. */
struct nvml_value {
    bool has;
    uint64_t value;
};

/* All that was read of one GPU in one round. */
struct nvml_reading {
    unsigned int code; /* NVML_OK; else the first that says the GPU is not there, or its handle's */
    struct nvml_value action;
    struct nvml_value uncorrected;
    struct nvml_value remapped;
    struct nvml_value remap_pending;
    struct nvml_value remap_failure;
    struct nvml_value sram_over;  /* 1: past the driver's threshold */
    struct nvml_value sram_count; /* uncorrectable, in all its life */
    struct nvml_value links;      /* active ones */
    struct nvml_value recoveries; /* of all links */
    struct nvml_value width;
    struct nvml_value width_max;
    struct nvml_value reasons; /* enum nvml_reason */
    struct nvml_value clock;
    struct nvml_value temperature;
    struct nvml_value slowdown; /* from here on the GPU slows itself down */
    struct nvml_value used_mib;
    struct nvml_value processes;
    struct nvml_value load; /* percent */
};

/* What is known of one GPU; it is the same GPU as long as its UUID is. */
struct nvml_gpu {
    char uuid[UUID_SIZE];
    char pci[NVML_PCI_SIZE]; /* "0000:3b:00", as the kernel's log has it */
    uint32_t index;          /* of now */
    struct nvml_value uncorrected;
    struct nvml_value recoveries;
    struct nvml_value sram_over; /* of the last round that read it */
    struct nvml_value sram_count;
    bool looked_under_load;
    bool narrow; /* when it was last under load */
    uint64_t links_best;
    uint32_t slow; /* the last rounds, a bit each */
    uint64_t slow_reasons;
    bool slow_told;
    uint32_t left_rounds;
};

/* The states and events of a GPU by its reading, said in this round. */
void nvml_judge(struct probe_run *run, struct nvml_gpu *gpu, const struct nvml_reading *reading);

/* "00000000:3B:00.0" to "0000:3b:00". */
void nvml_pci_text(const struct nvml_pci *pci, char ret_text[NVML_PCI_SIZE]);

extern const struct probe probe_nvml;

#endif
