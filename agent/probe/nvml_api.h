/* nvml_api.h: the few calls of the NVIDIA driver's own library that we make, by our own declarations:
 * the header comes with the driver, and so does the library, which is loaded when it is there.
 *
 * Names of constants are ours; numbers and layouts are those of the library's binary interface. */
#ifndef KEEPSTEP_PROBE_NVML_API_H
#define KEEPSTEP_PROBE_NVML_API_H

#include <stdint.h>

#include "proto/base/err.h"

enum nvml_code { /* of every call */
                 NVML_OK = 0,
                 NVML_UNINITIALIZED = 1,
                 NVML_NOT_SUPPORTED = 3,
                 NVML_NO_PERMISSION = 4,
                 NVML_NOT_FOUND = 6,
                 NVML_NO_DRIVER = 9,
                 NVML_TIMEOUT = 10,
                 NVML_LOST = 15,
                 NVML_RESET_REQUIRED = 16,
                 NVML_MISMATCH = 18,
                 NVML_UNKNOWN = 999,
};

enum nvml_field_id {
    NVML_FIELD_UNCORRECTED = 4, /* double bit errors since the driver was loaded */
    NVML_FIELD_REMAPPED = 143,  /* rows, for uncorrectable errors */
    NVML_FIELD_REMAP_PENDING = 144,
    NVML_FIELD_REMAP_FAILURE = 145,
    NVML_FIELD_LINK_RECOVERY = 162, /* scope: the link */
    NVML_FIELD_RECOVERY_ACTION = 230,
};

enum nvml_action { /* what the driver asks for */
                   NVML_ACTION_NONE,
                   NVML_ACTION_RESET,
                   NVML_ACTION_REBOOT,
                   NVML_ACTION_DRAIN_P2P,
                   NVML_ACTION_DRAIN_RESET,
                   NVML_ACTION_IMEX,
};

enum nvml_constant {
    NVML_LINKS_MAX = 18,
    NVML_TEXT_SIZE = 96,
    NVML_SENSOR_GPU = 0,
    NVML_THRESHOLD_SLOWDOWN = 1,
    NVML_CLOCK_SM = 1,
    NVML_VALUE_DOUBLE = 0, /* types of a field's value */
    NVML_VALUE_UINT = 1,
    NVML_VALUE_ULONG = 2,
    NVML_VALUE_ULLONG = 3,
    NVML_EVENTS = 0x2 | 0x8 | 0x8000, /* uncorrected error, Xid, recovery action changed */
};

enum nvml_reason { /* why clocks are lower than they might be */
                   NVML_REASON_IDLE = 0x1,
                   NVML_REASON_SETTING = 0x2,
                   NVML_REASON_POWER_CAP = 0x4, /* how GPUs work under load */
                   NVML_REASON_HW_SLOWDOWN = 0x8,
                   NVML_REASON_SYNC_BOOST = 0x10,
                   NVML_REASON_SW_THERMAL = 0x20,
                   NVML_REASON_HW_THERMAL = 0x40,
                   NVML_REASON_POWER_BRAKE = 0x80,
};

struct nvml_device; /* the library's */
struct nvml_event_set;

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int device_id;
    unsigned int subsystem_id;
    char bus_id[32];
};

struct nvml_field {
    unsigned int id;
    unsigned int scope;
    long long timestamp;
    long long latency_usec;
    unsigned int type;
    unsigned int code; /* of this field alone */
    union {
        double real;
        unsigned int uint;
        unsigned long ulong;
        unsigned long long ullong;
    } value;
};

struct nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

struct nvml_utilization {
    unsigned int gpu;
    unsigned int memory;
};

struct nvml_sram {
    unsigned int version; /* NVML_SRAM_VERSION */
    unsigned long long aggregate_parity;
    unsigned long long aggregate_secded;
    unsigned long long aggregate_corrected;
    unsigned long long volatile_parity;
    unsigned long long volatile_secded;
    unsigned long long volatile_corrected;
    unsigned long long buckets[5];
    unsigned int over_threshold;
};
#define NVML_SRAM_VERSION ((unsigned int)sizeof(struct nvml_sram) | 1u << 24)

struct nvml_event {
    struct nvml_device *device;
    unsigned long long type;
    unsigned long long data;
    unsigned int gpu_instance;
    unsigned int compute_instance;
};

/* Its name in the library, the one in older ones or "", our member, its parameters. The first
 * NVML_REQUIRED have to be there. */
#define NVML_CALLS(X)                                                                              \
    X("nvmlInit_v2", "", init, (void))                                                             \
    X("nvmlDeviceGetCount_v2", "", count, (unsigned int *))                                        \
    X("nvmlDeviceGetHandleByIndex_v2", "", handle, (unsigned int, struct nvml_device **))          \
    X("nvmlDeviceGetUUID", "", uuid, (struct nvml_device *, char *, unsigned int))                 \
    X("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", pci,                                   \
      (struct nvml_device *, struct nvml_pci *))                                                   \
    X("nvmlShutdown", "", shutdown, (void))                                                        \
    X("nvmlDeviceGetFieldValues", "", fields, (struct nvml_device *, int, struct nvml_field *))    \
    X("nvmlDeviceGetTemperature", "", temperature,                                                 \
      (struct nvml_device *, unsigned int, unsigned int *))                                        \
    X("nvmlDeviceGetTemperatureThreshold", "", threshold,                                          \
      (struct nvml_device *, unsigned int, unsigned int *))                                        \
    X("nvmlDeviceGetCurrPcieLinkWidth", "", width, (struct nvml_device *, unsigned int *))         \
    X("nvmlDeviceGetMaxPcieLinkWidth", "", width_max, (struct nvml_device *, unsigned int *))      \
    X("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",       \
      reasons, (struct nvml_device *, unsigned long long *))                                       \
    X("nvmlDeviceGetClockInfo", "", clock, (struct nvml_device *, unsigned int, unsigned int *))   \
    X("nvmlDeviceGetNvLinkState", "", link, (struct nvml_device *, unsigned int, unsigned int *))  \
    X("nvmlDeviceGetMemoryInfo", "", memory, (struct nvml_device *, struct nvml_memory *))         \
    X("nvmlDeviceGetUtilizationRates", "", utilization,                                            \
      (struct nvml_device *, struct nvml_utilization *))                                           \
    X("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",        \
      processes, (struct nvml_device *, unsigned int *, void *))                                   \
    X("nvmlDeviceGetSramEccErrorStatus", "", sram, (struct nvml_device *, struct nvml_sram *))     \
    X("nvmlEventSetCreate", "", event_set, (struct nvml_event_set **))                             \
    X("nvmlDeviceRegisterEvents", "", register_events,                                             \
      (struct nvml_device *, unsigned long long, struct nvml_event_set *))                         \
    X("nvmlEventSetWait_v2", "nvmlEventSetWait", wait,                                             \
      (struct nvml_event_set *, struct nvml_event *, unsigned int))
enum { NVML_REQUIRED = 5 };

struct nvml_api {
    void *library;
#define X(name, older, member, parameters) unsigned int(*member) parameters; /* NULL: not there */
    NVML_CALLS(X)
#undef X
};

/* Loads the library of this name or path. -ENOENT: there is none that can be loaded, or it lacks
 * what we need. Nothing is initialised. */
MUST_CHECK int nvml_api_load(const char *name, struct nvml_api *ret_api, struct err *err);
void nvml_api_unload(struct nvml_api *api);

/* In words, with its number for those that have none here. */
const char *nvml_code_text(unsigned int code);

#endif
