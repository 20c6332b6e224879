/* nvml.c: a round looks at every GPU, then waits for the driver to say that something happened, five
 * seconds at most. The library is loaded and initialised by the first round that can, and told of in
 * each that cannot. */
#include "agent/probe/nvml.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/probe/read.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { WAIT_MS = 5000, LEAST_MS = 250, SRAM_ROUNDS = 12, COUNT_ROUNDS = 3, MIB = 1048576 };

struct nvml {
    struct nvml_api api;
    bool ready;
    struct nvml_event_set *events; /* NULL: there are none */
    uint32_t count_best;
    uint32_t fewer_rounds;
    uint32_t gpu_count;
    struct nvml_gpu gpus[GPUS_MAX];
};

/* ---- calls ------------------------------------------------------------------------------------------ */

/* What a call says of the GPU itself; the rest is of no consequence. */
static bool is_gone(unsigned int code)
{
    return code == NVML_LOST || code == NVML_RESET_REQUIRED;
}

static void keep_code(struct nvml_reading *reading, unsigned int code)
{
    if (reading->code == NVML_OK && is_gone(code)) {
        reading->code = code;
    }
}

static void put_value(struct nvml_reading *reading, struct nvml_value *value, unsigned int code,
                      uint64_t number)
{
    keep_code(reading, code);
    *value = (struct nvml_value){.has = code == NVML_OK, .value = number};
}

static void put_field(struct nvml_reading *reading, struct nvml_value *value,
                      const struct nvml_field *field)
{
    switch (field->type) {
    case NVML_VALUE_UINT:
        put_value(reading, value, field->code, field->value.uint);
        break;
    case NVML_VALUE_ULONG:
        put_value(reading, value, field->code, field->value.ulong);
        break;
    case NVML_VALUE_ULLONG:
        put_value(reading, value, field->code, field->value.ullong);
        break;
    default: /* of a type that none of ours has */
        keep_code(reading, field->code);
        break;
    }
}

static void read_fields(const struct nvml_api *api, struct nvml_device *device,
                        struct nvml_reading *reading)
{
    struct nvml_field fields[] = {{.id = NVML_FIELD_RECOVERY_ACTION},
                                  {.id = NVML_FIELD_UNCORRECTED},
                                  {.id = NVML_FIELD_REMAPPED},
                                  {.id = NVML_FIELD_REMAP_PENDING},
                                  {.id = NVML_FIELD_REMAP_FAILURE}};
    struct nvml_value *const values[] = {&reading->action, &reading->uncorrected,
                                         &reading->remapped, &reading->remap_pending,
                                         &reading->remap_failure};
    static_assert(ARRAY_SIZE(values) == ARRAY_SIZE(fields), "a value for each field");
    if (api->fields == NULL) {
        return;
    }
    const unsigned int code = api->fields(device, ARRAY_SIZE(fields), fields);
    keep_code(reading, code);
    for (size_t i = 0; code == NVML_OK && i < ARRAY_SIZE(fields); i++) {
        put_field(reading, values[i], &fields[i]);
    }
}

static void read_links(const struct nvml_api *api, struct nvml_device *device,
                       struct nvml_reading *reading)
{
    struct nvml_field fields[NVML_LINKS_MAX];
    uint64_t recoveries = 0;
    uint64_t active = 0;
    bool has = false;
    memset(fields, 0, sizeof(fields));
    for (unsigned int i = 0; i < NVML_LINKS_MAX && api->link != NULL; i++) {
        unsigned int state = 0;
        const unsigned int code = api->link(device, i, &state);
        keep_code(reading, code);
        has = has || code == NVML_OK;
        active += code == NVML_OK && state != 0;
        fields[i].id = NVML_FIELD_LINK_RECOVERY;
        fields[i].scope = i;
    }
    reading->links = (struct nvml_value){.has = has, .value = active};
    if (!has || api->fields == NULL) {
        return;
    }
    const unsigned int code = api->fields(device, NVML_LINKS_MAX, fields);
    keep_code(reading, code);
    bool counted = false;
    for (unsigned int i = 0; code == NVML_OK && i < NVML_LINKS_MAX; i++) {
        struct nvml_value one = {0};
        put_field(reading, &one, &fields[i]);
        counted = counted || one.has;
        recoveries += one.has ? one.value : 0;
    }
    reading->recoveries = (struct nvml_value){.has = counted, .value = recoveries};
}

static void read_sram(const struct nvml_api *api, struct nvml_device *device,
                      struct nvml_reading *reading)
{
    struct nvml_sram sram = {.version = NVML_SRAM_VERSION};
    if (api->sram == NULL) {
        return;
    }
    const unsigned int code = api->sram(device, &sram);
    put_value(reading, &reading->sram_over, code, sram.over_threshold);
    put_value(reading, &reading->sram_count, code, sram.aggregate_parity + sram.aggregate_secded);
}

static void read_numbers(const struct nvml_api *api, struct nvml_device *device,
                         struct nvml_reading *reading)
{
    unsigned int number = 0;
    unsigned int code = NVML_NOT_SUPPORTED;
    unsigned long long reasons = 0;
    code = api->width != NULL ? api->width(device, &number) : code;
    put_value(reading, &reading->width, code, number);
    code = api->width_max != NULL ? api->width_max(device, &number) : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->width_max, code, number);
    code = api->reasons != NULL ? api->reasons(device, &reasons) : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->reasons, code, reasons);
    code = api->clock != NULL ? api->clock(device, NVML_CLOCK_SM, &number)
                              : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->clock, code, number);
    code = api->temperature != NULL ? api->temperature(device, NVML_SENSOR_GPU, &number)
                                    : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->temperature, code, number);
    code = api->threshold != NULL ? api->threshold(device, NVML_THRESHOLD_SLOWDOWN, &number)
                                  : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->slowdown, code, number);
}

static void read_use(const struct nvml_api *api, struct nvml_device *device,
                     struct nvml_reading *reading)
{
    enum { TOO_SMALL = 7 }; /* there are some, and we gave no place for them */
    struct nvml_memory memory = {0};
    struct nvml_utilization load = {0};
    unsigned int count = 0;
    unsigned int code =
        api->memory != NULL ? api->memory(device, &memory) : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->used_mib, code, memory.used / MIB);
    code =
        api->utilization != NULL ? api->utilization(device, &load) : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->load, code, load.gpu);
    code = api->processes != NULL ? api->processes(device, &count, NULL)
                                  : (unsigned)NVML_NOT_SUPPORTED;
    put_value(reading, &reading->processes, code == TOO_SMALL ? NVML_OK : code, count);
}

static void read_gpu(const struct nvml *nvml, struct nvml_device *device, bool with_sram,
                     struct nvml_reading *reading)
{
    read_fields(&nvml->api, device, reading);
    read_links(&nvml->api, device, reading);
    read_numbers(&nvml->api, device, reading);
    read_use(&nvml->api, device, reading);
    if (with_sram) {
        read_sram(&nvml->api, device, reading);
    }
}

/* ---- GPUs --------------------------------------------------------------------------------------------- */

static struct nvml_gpu *gpu_by_uuid(struct nvml *nvml, const char *uuid)
{
    for (uint32_t i = 0; i < nvml->gpu_count; i++) {
        if (text_equal(nvml->gpus[i].uuid, uuid)) {
            return &nvml->gpus[i];
        }
    }
    if (nvml->gpu_count == GPUS_MAX) {
        return NULL;
    }
    struct nvml_gpu *gpu = &nvml->gpus[nvml->gpu_count++];
    *gpu = (struct nvml_gpu){0};
    (void)text_copy(gpu->uuid, sizeof(gpu->uuid), uuid);
    return gpu;
}

/* One that does not even say who it is was at this place before. */
static struct nvml_gpu *gpu_at(struct nvml *nvml, uint32_t index)
{
    for (uint32_t i = 0; i < nvml->gpu_count; i++) {
        if (nvml->gpus[i].index == index) {
            return &nvml->gpus[i];
        }
    }
    return NULL;
}

/* True: it says who it is, and its address has been told to the agent, for the day it cannot. */
static bool identify(struct probe_run *run, struct nvml *nvml, uint32_t index,
                     struct nvml_device *device, struct nvml_gpu **ret_gpu, unsigned int *ret_code)
{
    char uuid[NVML_TEXT_SIZE] = "";
    struct nvml_pci pci = {0};
    *ret_code = nvml->api.uuid(device, uuid, sizeof(uuid));
    uuid[UUID_SIZE - 1] = '\0';
    finding_clean(uuid);
    if (*ret_code != NVML_OK || uuid[0] == '\0') {
        return false;
    }
    *ret_gpu = gpu_by_uuid(nvml, uuid);
    if (*ret_gpu == NULL) {
        return false;
    }
    (*ret_gpu)->index = index;
    if (nvml->api.pci(device, &pci) == NVML_OK) {
        nvml_pci_text(&pci, (*ret_gpu)->pci);
        if (index < GPUS_MAX) {
            probe_gpu(run, index, uuid, (*ret_gpu)->pci);
        }
    }
    return true;
}

static void take_index(struct probe_run *run, struct nvml *nvml, uint32_t index)
{
    struct nvml_reading reading = {0};
    struct nvml_device *device = NULL;
    struct nvml_gpu *gpu = NULL;
    unsigned int code = nvml->api.handle(index, &device);
    if (code != NVML_OK || !identify(run, nvml, index, device, &gpu, &code)) {
        gpu = gpu_at(nvml, index);
        reading.code = code;
        if (gpu == NULL) {
            char key[32];
            (void)text_format(key, sizeof(key), "gpu %u", index);
            probe_not_run(run, key, "gpu=%u nvml: %s (%u)", index, nvml_code_text(code), code);
            return;
        }
    } else {
        const bool with_sram = run->round % SRAM_ROUNDS == 0 || !gpu->sram_over.has;
        read_gpu(nvml, device, with_sram, &reading);
    }
    nvml_judge(run, gpu, &reading);
}

/* Fewer than there were, or than somebody said there are, three rounds in a row. */
static void judge_count(struct probe_run *run, struct nvml *nvml, unsigned int count)
{
    struct finding finding;
    nvml->count_best = count > nvml->count_best ? count : nvml->count_best;
    const uint32_t said = run->config->gpus;
    const uint32_t wanted = said > nvml->count_best ? said : nvml->count_best;
    const bool fewer = count < wanted;
    nvml->fewer_rounds = fewer ? nvml->fewer_rounds + (nvml->fewer_rounds < COUNT_ROUNDS) : 0;
    const bool sure = nvml->fewer_rounds == COUNT_ROUNDS;
    probe_finding(&finding, sure ? VERDICT_FAIL : VERDICT_OK, "gpu_count",
                  "gpu_count=%u expected=%u", count, wanted);
    if (sure) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_REBOOT, ROLE_ROOT, "gpu-missing");
        finding.code = (int32_t)(wanted - count);
    }
    probe_state(run, &finding);
    probe_note_put(run, "count", "%u", nvml->count_best);
}

static void look_at_gpus(struct probe_run *run, struct nvml *nvml)
{
    unsigned int count = 0;
    const unsigned int code = nvml->api.count(&count);
    if (code != NVML_OK) {
        probe_nothing(run, "nvml: %s (%u); gpu_count=unknown", nvml_code_text(code), code);
        nvml->ready = false; /* the driver may have been loaded anew */
        if (nvml->api.shutdown != NULL) {
            (void)nvml->api.shutdown(); /* to be initialised again */
        }
        return;
    }
    for (uint32_t i = 0; i < count && i < GPUS_MAX; i++) {
        take_index(run, nvml, i);
    }
    judge_count(run, nvml, count);
}

/* ---- the library ----------------------------------------------------------------------------------------- */

static void watch_events(struct nvml *nvml)
{
    const struct nvml_api *api = &nvml->api;
    unsigned int count = 0;
    nvml->events = NULL;
    if (api->event_set == NULL || api->register_events == NULL || api->wait == NULL ||
        api->event_set(&nvml->events) != NVML_OK || api->count(&count) != NVML_OK) {
        nvml->events = NULL;
        return;
    }
    for (unsigned int i = 0; i < count; i++) {
        struct nvml_device *device = NULL;
        if (api->handle(i, &device) == NVML_OK) {
            (void)api->register_events(device, NVML_EVENTS, nvml->events); /* else we only poll */
        }
    }
}

static bool make_ready(struct probe_run *run, struct nvml *nvml)
{
    struct err err = {0};
    if (nvml->api.library == NULL && nvml_api_load(run->config->nvml, &nvml->api, &err) != 0) {
        probe_nothing(run, "%s", err.text);
        return false;
    }
    const unsigned int code = nvml->api.init();
    if (code == NVML_MISMATCH) {
        struct finding finding;
        probe_finding(&finding, VERDICT_WARN, "driver", "nvml: %s", nvml_code_text(code));
        probe_blame(&finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_SYMPTOM, "driver-mismatch");
        probe_state(run, &finding);
    } else if (code != NVML_OK) {
        probe_nothing(run, "nvml: %s (%u); gpu_count=unknown", nvml_code_text(code), code);
    }
    nvml->ready = code == NVML_OK;
    if (nvml->ready) {
        watch_events(nvml);
    }
    return nvml->ready;
}

static uint64_t clock_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Something happened, or the time is over. One event after another is one look, not many. */
static void wait_for_news(const struct nvml *nvml)
{
    const uint64_t start = clock_ms();
    bool news = false;
    if (nvml->ready && nvml->events != NULL) {
        struct nvml_event event = {0};
        news = nvml->api.wait(nvml->events, &event, WAIT_MS) == NVML_OK;
    }
    const uint64_t spent = clock_ms() - start;
    const uint64_t least = news ? LEAST_MS : WAIT_MS;
    if (spent < least) {
        struct pollfd out = {.fd = STDOUT_FILENO};
        (void)poll(&out, 1,
                   (int)(least - spent)); /* that nobody listens is seen when we say more */
    }
}

static void look(struct probe_run *run)
{
    struct nvml *nvml = run->state;
    if (nvml == NULL) {
        uint64_t best = 0;
        const char *note = probe_note(run, "count");
        nvml = run->state = mem_alloc(1, sizeof(*nvml));
        nvml->count_best =
            note != NULL && read_parse(note, &best) == 0 && best <= GPUS_MAX ? (uint32_t)best : 0;
    }
    if (nvml->ready || make_ready(run, nvml)) {
        look_at_gpus(run, nvml);
    }
    if (!run->once && probe_flush(run)) {
        wait_for_news(nvml);
    }
}

static void done(struct probe_run *run)
{
    struct nvml *nvml = run->state;
    if (nvml != NULL) {
        if (nvml->ready && nvml->api.shutdown != NULL) {
            (void)nvml->api.shutdown(); /* the process ends anyway */
        }
        nvml_api_unload(&nvml->api);
    }
    run->state = mem_free(nvml);
}

const struct probe probe_nvml = {.name = "nvml",
                                 .what = "GPUs, by the NVIDIA driver's library",
                                 .period_ms = 0,
                                 .deadline_ms = 10000,
                                 .resident = true,
                                 .stuck_label = LABEL_HARDWARE,
                                 .stuck_advice = ADVICE_EVICT_RESET,
                                 .stuck_role = ROLE_SYMPTOM,
                                 .look = look,
                                 .done = done};
