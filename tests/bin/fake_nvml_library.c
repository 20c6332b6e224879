/* fake_nvml_library.c: a library with the names and layouts of NVIDIA's, for tests of what is done when
 * GPUs fail. Links nothing but libc.
 *
 * Each call reads the file beside it (its own path with ".script" behind) again, so a test changes
 * what it says at any time. Lines, of which the last one that fits counts:
 *
 *     gpus N               how many there are; 2 by default
 *     order I J …          which GPU is at index 0, 1, …
 *     init CODE            what nvmlInit gives
 *     count CODE           what nvmlDeviceGetCount gives
 *     lost GPU CODE        what every call about this GPU gives
 *     error NAME CODE      what every call of this name gives
 *     hang NAME            a call of this name never returns
 *     field GPU ID VALUE
 *     links GPU N          so many of its 18 are active; 18 by default
 *     width GPU N
 *     reasons GPU BITS     in hex
 *     temperature GPU C
 *     used GPU MIB
 *     processes GPU N
 *     load GPU PERCENT
 *     sram GPU COUNT OVER
 *
 * nvmlEventSetWait returns when the file changes. */
#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/probe/nvml_api.h"

enum { GPUS = 16, SCRIPT_SIZE = 16384 };

#define CALL __attribute__((visibility("default"))) unsigned int

static void script_path(char path[4096])
{
    Dl_info info;
    path[0] = '\0';
    if (dladdr((void *)(uintptr_t)script_path, &info) != 0) {
        (void)snprintf(path, 4096, "%s.script", info.dli_fname);
    }
}

static const char *script(void)
{
    static char text[SCRIPT_SIZE];
    char path[4096];
    script_path(path);
    FILE *file = fopen(path, "re");
    const size_t size = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[size] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

/* The words behind `head` in the last line that begins with it; NULL: there is none. */
static const char *rest_of(const char *head)
{
    const size_t size = strlen(head);
    const char *found = NULL;
    for (const char *line = script(); line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, head, size) == 0 && (line[size] == ' ' || line[size] == '\n')) {
            found = line + size;
        }
    }
    return found;
}

static unsigned long long value_of(const char *what, int gpu, unsigned long long usual)
{
    char head[64];
    unsigned long long value = usual;
    (void)snprintf(head, sizeof(head), gpu < 0 ? "%s" : "%s %d", what, gpu);
    const char *rest = rest_of(head);
    if (rest != NULL) {
        (void)sscanf(rest, strcmp(what, "reasons") == 0 ? " %llx" : " %llu", &value);
    }
    return value;
}

/* Handles are places in this array, so they stay what they are. */
static char handles[GPUS];

static int gpu_of(struct nvml_device *device)
{
    return (int)((char *)device - handles);
}

static unsigned int code_of(const char *name, int gpu)
{
    char head[96];
    (void)snprintf(head, sizeof(head), "hang %s", name);
    while (rest_of(head) != NULL) {
        (void)pause();
    }
    (void)snprintf(head, sizeof(head), "error %s", name);
    const unsigned int code = (unsigned int)value_of(head, -1, NVML_OK);
    return code == NVML_OK && gpu >= 0 ? (unsigned int)value_of("lost", gpu, NVML_OK) : code;
}

CALL nvmlInit_v2(void);
CALL nvmlInit_v2(void)
{
    const unsigned int code = code_of("nvmlInit_v2", -1);
    return code == NVML_OK ? (unsigned int)value_of("init", -1, NVML_OK) : code;
}

CALL nvmlShutdown(void);
CALL nvmlShutdown(void)
{
    return NVML_OK;
}

CALL nvmlDeviceGetCount_v2(unsigned int *count);
CALL nvmlDeviceGetCount_v2(unsigned int *count)
{
    const unsigned int code = code_of("nvmlDeviceGetCount_v2", -1);
    *count = (unsigned int)value_of("gpus", -1, 2);
    return code == NVML_OK ? (unsigned int)value_of("count", -1, NVML_OK) : code;
}

CALL nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvml_device **device);
CALL nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvml_device **device)
{
    unsigned int gpu = index;
    const char *order = rest_of("order");
    for (unsigned int i = 0; order != NULL && i <= index; i++) {
        order += strspn(order, " ");
        (void)sscanf(order, "%u", &gpu);
        order += strcspn(order, " \n");
    }
    *device = (struct nvml_device *)(void *)&handles[gpu % GPUS];
    return code_of("nvmlDeviceGetHandleByIndex_v2", (int)gpu);
}

CALL nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned int size);
CALL nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned int size)
{
    (void)snprintf(uuid, size, "GPU-00000000-0000-0000-0000-%012d", gpu_of(device));
    return code_of("nvmlDeviceGetUUID", gpu_of(device));
}

CALL nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci *pci);
CALL nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci *pci)
{
    *pci = (struct nvml_pci){.bus = 0x3b + (unsigned int)gpu_of(device)};
    return code_of("nvmlDeviceGetPciInfo_v3", gpu_of(device));
}

CALL nvmlDeviceGetFieldValues(struct nvml_device *device, int count, struct nvml_field *fields);
CALL nvmlDeviceGetFieldValues(struct nvml_device *device, int count, struct nvml_field *fields)
{
    for (int i = 0; i < count; i++) {
        char head[64];
        (void)snprintf(head, sizeof(head), "field %d %u", gpu_of(device), fields[i].id);
        const char *rest = rest_of(head);
        unsigned long long value = 0;
        if (rest != NULL) {
            (void)sscanf(rest, " %llu", &value);
        }
        /* Counters of links are long, the others are not. */
        const int is_long = fields[i].id == NVML_FIELD_LINK_RECOVERY;
        fields[i].type = is_long ? NVML_VALUE_ULLONG : NVML_VALUE_UINT;
        fields[i].code = NVML_OK;
        if (is_long) {
            fields[i].value.ullong = fields[i].scope == 3 ? value : 0;
        } else {
            fields[i].value.uint = (unsigned int)value;
        }
    }
    return code_of("nvmlDeviceGetFieldValues", gpu_of(device));
}

CALL nvmlDeviceGetTemperature(struct nvml_device *device, unsigned int sensor, unsigned int *value);
CALL nvmlDeviceGetTemperature(struct nvml_device *device, unsigned int sensor, unsigned int *value)
{
    (void)sensor;
    *value = (unsigned int)value_of("temperature", gpu_of(device), 45);
    return code_of("nvmlDeviceGetTemperature", gpu_of(device));
}

CALL nvmlDeviceGetTemperatureThreshold(struct nvml_device *device, unsigned int kind,
                                       unsigned int *value);
CALL nvmlDeviceGetTemperatureThreshold(struct nvml_device *device, unsigned int kind,
                                       unsigned int *value)
{
    *value = kind == NVML_THRESHOLD_SLOWDOWN ? 87 : 92;
    return code_of("nvmlDeviceGetTemperatureThreshold", gpu_of(device));
}

CALL nvmlDeviceGetCurrPcieLinkWidth(struct nvml_device *device, unsigned int *width);
CALL nvmlDeviceGetCurrPcieLinkWidth(struct nvml_device *device, unsigned int *width)
{
    *width = (unsigned int)value_of("width", gpu_of(device), 16);
    return code_of("nvmlDeviceGetCurrPcieLinkWidth", gpu_of(device));
}

CALL nvmlDeviceGetMaxPcieLinkWidth(struct nvml_device *device, unsigned int *width);
CALL nvmlDeviceGetMaxPcieLinkWidth(struct nvml_device *device, unsigned int *width)
{
    *width = 16;
    return code_of("nvmlDeviceGetMaxPcieLinkWidth", gpu_of(device));
}

/* By the older of its two names. */
CALL nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *device,
                                               unsigned long long *reasons);
CALL nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *device,
                                               unsigned long long *reasons)
{
    *reasons = value_of("reasons", gpu_of(device), NVML_REASON_POWER_CAP);
    return code_of("nvmlDeviceGetCurrentClocksThrottleReasons", gpu_of(device));
}

CALL nvmlDeviceGetClockInfo(struct nvml_device *device, unsigned int type, unsigned int *clock);
CALL nvmlDeviceGetClockInfo(struct nvml_device *device, unsigned int type, unsigned int *clock)
{
    *clock = type == NVML_CLOCK_SM ? 1755 : 2619;
    return code_of("nvmlDeviceGetClockInfo", gpu_of(device));
}

CALL nvmlDeviceGetNvLinkState(struct nvml_device *device, unsigned int link, unsigned int *active);
CALL nvmlDeviceGetNvLinkState(struct nvml_device *device, unsigned int link, unsigned int *active)
{
    *active = link < value_of("links", gpu_of(device), NVML_LINKS_MAX);
    return code_of("nvmlDeviceGetNvLinkState", gpu_of(device));
}

CALL nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory);
CALL nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory)
{
    memory->total = 80ull << 30;
    memory->used = value_of("used", gpu_of(device), 600) << 20;
    memory->free = memory->total - memory->used;
    return code_of("nvmlDeviceGetMemoryInfo", gpu_of(device));
}

CALL nvmlDeviceGetUtilizationRates(struct nvml_device *device, struct nvml_utilization *rates);
CALL nvmlDeviceGetUtilizationRates(struct nvml_device *device, struct nvml_utilization *rates)
{
    rates->gpu = (unsigned int)value_of("load", gpu_of(device), 99);
    rates->memory = rates->gpu / 2;
    return code_of("nvmlDeviceGetUtilizationRates", gpu_of(device));
}

/* Without a place for them only their number is told, as an error where there are any. */
CALL nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned int *count,
                                             void *infos);
CALL nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned int *count,
                                             void *infos)
{
    const unsigned int code = code_of("nvmlDeviceGetComputeRunningProcesses_v3", gpu_of(device));
    (void)infos;
    *count = (unsigned int)value_of("processes", gpu_of(device), 1);
    return code == NVML_OK && *count > 0 ? 7 : code;
}

CALL nvmlDeviceGetSramEccErrorStatus(struct nvml_device *device, struct nvml_sram *sram);
CALL nvmlDeviceGetSramEccErrorStatus(struct nvml_device *device, struct nvml_sram *sram)
{
    char head[64];
    if (sram->version != NVML_SRAM_VERSION) {
        return 25; /* of another version */
    }
    (void)snprintf(head, sizeof(head), "sram %d", gpu_of(device));
    const char *rest = rest_of(head);
    if (rest != NULL) {
        (void)sscanf(rest, " %llu %u", &sram->aggregate_parity, &sram->over_threshold);
    }
    return code_of("nvmlDeviceGetSramEccErrorStatus", gpu_of(device));
}

CALL nvmlEventSetCreate(struct nvml_event_set **set);
CALL nvmlEventSetCreate(struct nvml_event_set **set)
{
    *set = (struct nvml_event_set *)(void *)handles;
    return code_of("nvmlEventSetCreate", -1);
}

CALL nvmlDeviceRegisterEvents(struct nvml_device *device, unsigned long long types,
                              struct nvml_event_set *set);
CALL nvmlDeviceRegisterEvents(struct nvml_device *device, unsigned long long types,
                              struct nvml_event_set *set)
{
    (void)types;
    (void)set;
    return code_of("nvmlDeviceRegisterEvents", gpu_of(device));
}

static uint64_t changed(void)
{
    char path[4096];
    struct stat status;
    script_path(path);
    return stat(path, &status) == 0
               ? (uint64_t)status.st_mtim.tv_sec * 1000000000ull + (uint64_t)status.st_mtim.tv_nsec
               : 0;
}

CALL nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event *event, unsigned int ms);
CALL nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event *event, unsigned int ms)
{
    static uint64_t last;
    (void)set;
    last = last != 0 ? last : changed();
    for (unsigned int waited = 0; waited < ms; waited += 20) {
        const uint64_t now = changed();
        if (now != last) {
            last = now;
            *event = (struct nvml_event){.type = 0x8, .data = 79};
            return NVML_OK;
        }
        (void)poll(NULL, 0, 20);
    }
    return NVML_TIMEOUT;
}
