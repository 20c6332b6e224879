/* stock.c: is everything still here that was? GPUs on the bus, processors, memory: compared with
 * what was expected, or else with the first look that this node's agent ever took. Fewer for three
 * looks in a row is a fault; none at all of a kind says that we cannot see, not that all are gone. */
#include <errno.h>
#include <string.h>

#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "proto/base/text.h"

enum { VENDOR_NVIDIA = 0x10de, LOOKS = 3, MEMORY_PERCENT = 98 };

/* Devices of NVIDIA that compute: 3D and VGA controllers. -errno. */
static int count_gpus(const char *sys, uint64_t *ret_count)
{
    struct read_names names;
    const int r = read_names(&names, "%s/bus/pci/devices", sys);
    *ret_count = 0;
    for (uint32_t i = 0; r == 0 && i < names.count; i++) {
        uint64_t vendor = 0;
        uint64_t class = 0;
        if (read_number(&vendor, "%s/bus/pci/devices/%s/vendor", sys, names.names[i]) == 0 &&
            read_number(&class, "%s/bus/pci/devices/%s/class", sys, names.names[i]) == 0) {
            *ret_count += vendor == VENDOR_NVIDIA && class >> 16 == 0x03;
        }
    }
    return r;
}

static int memory_kib(const char *proc, uint64_t *ret_kib)
{
    char text[256];
    const int r = read_text(text, sizeof(text), "%s/meminfo", proc);
    const char *at = r == 0 ? strstr(text, "MemTotal:") : NULL;
    return at != NULL ? read_parse(at + 9 + strspn(at + 9, " "), ret_kib) : -EINVAL;
}

/* "0-3,8" to 5. */
static int count_list(const char *text, uint64_t *ret_count)
{
    uint64_t count = 0;
    while (*text != '\0') {
        uint64_t first = 0;
        uint64_t last = 0;
        char part[32];
        const size_t length = strcspn(text, ",");
        (void)text_copy(part, length + 1 < sizeof(part) ? length + 1 : sizeof(part), text);
        char *dash = strchr(part, '-');
        if (dash != NULL) {
            *dash = '\0';
        }
        if (read_parse(part, &first) != 0 || (dash != NULL && read_parse(dash + 1, &last) != 0)) {
            return -EINVAL;
        }
        count += dash == NULL ? 1 : last >= first ? last - first + 1 : 0;
        text += length + (text[length] == ',');
    }
    *ret_count = count;
    return 0;
}

static int count_processors(const char *sys, uint64_t *ret_count)
{
    char text[256];
    const int r = read_text(text, sizeof(text), "%s/devices/system/cpu/online", sys);
    return r == 0 ? count_list(text, ret_count) : r;
}

/* How many there should be: what was said, else the first look. */
static uint64_t expected(struct probe_run *run, const char *key, uint64_t said, uint64_t count)
{
    uint64_t first = 0;
    const char *note = probe_note(run, key);
    if (said > 0) {
        return said;
    }
    if (note == NULL || read_parse(note, &first) != 0 || count > first) {
        probe_note_put(run, key, "%llu", (unsigned long long)count);
        return count;
    }
    return first;
}

/* Looks in a row, this one included, in which there were fewer. */
static uint64_t fewer_looks(struct probe_run *run, const char *key, bool fewer)
{
    char name[NOTE_NAME_SIZE];
    uint64_t looks = 0;
    (void)text_format(name, sizeof(name), "fewer:%s", key);
    const char *note = probe_note(run, name);
    if (note != NULL && read_parse(note, &looks) != 0) {
        looks = 0;
    }
    looks = fewer ? looks + 1 : 0;
    if (note != NULL || fewer) {
        probe_note_put(run, name, "%llu", (unsigned long long)looks);
    }
    return looks;
}

static void take_gpus(struct probe_run *run)
{
    uint64_t count = 0;
    struct finding finding;
    const int r = count_gpus(run->config->sys, &count);
    if (r != 0 || count == 0) {
        const char *before = probe_note(run, "gpu_count");
        if (r != 0 || before != NULL) {
            probe_not_run(run, "gpu_count", "gpu_count=unknown");
        }
        return;
    }
    const uint64_t wanted = expected(run, "gpu_count", run->config->gpus, count);
    const bool fewer = count < wanted;
    const bool sure = fewer_looks(run, "gpu_count", fewer) >= LOOKS;
    probe_finding(&finding, fewer && sure ? VERDICT_FAIL : VERDICT_OK, "gpu_count",
                  "gpu_count=%llu expected=%llu", (unsigned long long)count,
                  (unsigned long long)wanted);
    if (fewer && sure) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_REBOOT, ROLE_ROOT, "gpu-missing");
        finding.code = (int32_t)(wanted - count);
    }
    probe_state(run, &finding);
}

static void take_amount(struct probe_run *run, const char *key, int r, uint64_t amount,
                        uint32_t percent, const char *unit)
{
    struct finding finding;
    if (r != 0) {
        probe_not_run(run, key, "%s cannot be read", key);
        return;
    }
    const uint64_t wanted = expected(run, key, 0, amount);
    const bool fewer = amount * 100 < wanted * percent;
    const bool sure = fewer_looks(run, key, fewer) >= LOOKS;
    probe_finding(&finding, fewer && sure ? VERDICT_WARN : VERDICT_OK, key, "%s: %llu%s of %llu%s",
                  key, (unsigned long long)amount, unit, (unsigned long long)wanted, unit);
    if (fewer && sure) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM, "inventory-less");
        (void)text_copy(finding.subject, sizeof(finding.subject), key);
    }
    probe_state(run, &finding);
}

static void look(struct probe_run *run)
{
    uint64_t processors = 0;
    uint64_t memory = 0;
    take_gpus(run);
    const int r = count_processors(run->config->sys, &processors);
    take_amount(run, "processors", r, processors, 100, "");
    const int m = memory_kib(run->config->proc, &memory);
    take_amount(run, "memory", m, memory / 1024, MEMORY_PERCENT, " MiB");
}

const struct probe probe_inventory = {.name = "inventory",
                                      .what = "GPUs, processors and memory are all there",
                                      .period_ms = 20000,
                                      .deadline_ms = 10000,
                                      .stuck_label = LABEL_SOFTWARE,
                                      .stuck_advice = ADVICE_WATCH,
                                      .stuck_role = ROLE_SYMPTOM,
                                      .look = look};
