/* pcie.c: errors that the bus reports for GPUs, network cards and disks, and links that run narrower
 * than they should.
 *
 * Errors are counters of the kernel (AER); what they were at our first look is their beginning, and
 * a note carries them from one look to the next. A fatal one is an event. Width and speed are compared with those of the other devices of the same
 * make here, and with the best that was seen before: what a model ought to have nobody tells us. An
 * idle GPU lowers the speed of its link by itself, so it is compared only while a job runs. */
#include <errno.h>
#include <string.h>

#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    DEVICES_MAX = 64,
    CORRECTED_PER_ROUND = 300, /* ten a second */
    CLASS_DISK = 0x01,
    CLASS_NETWORK = 0x02,
    CLASS_DISPLAY = 0x03,
    CLASS_ACCELERATOR = 0x12,
    CALM_ROUNDS = 10,
    NOTE_NUMBERS = 7,
};

struct device {
    char name[READ_NAME_SIZE];
    uint64_t make; /* vendor and device */
    uint64_t corrected;
    uint64_t nonfatal;
    uint64_t fatal;
    bool counted;
    uint32_t calm; /* rounds since too many were corrected; CALM_ROUNDS: none are told */
    uint64_t width;
    uint32_t speed;
    uint64_t width_best;
    uint32_t speed_best;
};

struct bus {
    uint32_t count;
    struct device devices[DEVICES_MAX];
};

int pcie_aer_total(const char *text, uint64_t *ret_total)
{
    const char *at = strstr(text, "TOTAL_ERR_");
    const char *space = at != NULL ? strchr(at, ' ') : NULL;
    return space != NULL ? read_parse(space + 1, ret_total) : -EINVAL;
}

int pcie_speed(const char *text, uint32_t *ret_tenths)
{
    uint32_t whole = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && whole < 10000; at++) {
        whole = whole * 10 + (uint32_t)(*at - '0');
    }
    if (at == text) {
        return -EINVAL;
    }
    const bool tenth = at[0] == '.' && at[1] >= '0' && at[1] <= '9';
    *ret_tenths = whole * 10 + (tenth ? (uint32_t)(at[1] - '0') : 0);
    return 0;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static bool is_watched(const char *sys, const char *name)
{
    uint64_t class = 0;
    if (read_number(&class, "%s/bus/pci/devices/%s/class", sys, name) != 0) {
        return false;
    }
    class >>= 16;
    return class == CLASS_DISK || class == CLASS_NETWORK || class == CLASS_DISPLAY ||
           class == CLASS_ACCELERATOR;
}

/* With what the look before left behind. */
static struct device *device_add(struct probe_run *run, struct bus *bus, const char *name)
{
    uint64_t numbers[NOTE_NUMBERS];
    const char *note = probe_note(run, name);
    if (bus->count == DEVICES_MAX) {
        return NULL;
    }
    struct device *device = &bus->devices[bus->count++];
    *device = (struct device){.calm = CALM_ROUNDS};
    (void)text_copy(device->name, sizeof(device->name), name);
    if (note != NULL && read_parse_list(note, numbers, NOTE_NUMBERS) == 0) {
        device->counted = numbers[0] != 0;
        device->corrected = numbers[1];
        device->nonfatal = numbers[2];
        device->fatal = numbers[3];
        device->calm = (uint32_t)numbers[4];
        device->width_best = numbers[5];
        device->speed_best = (uint32_t)numbers[6];
    }
    return device;
}

static void note_device(struct probe_run *run, const struct device *device)
{
    if (device->counted || device->width_best > 0) {
        probe_note_put(run, device->name, "%d %llu %llu %llu %u %llu %u", device->counted,
                       (unsigned long long)device->corrected, (unsigned long long)device->nonfatal,
                       (unsigned long long)device->fatal, device->calm,
                       (unsigned long long)device->width_best, device->speed_best);
    }
}

static int read_counter(const char *sys, const char *name, const char *file, uint64_t *ret_total)
{
    char text[4096];
    const int r =
        read_text(text, sizeof(text), "%s/bus/pci/devices/%s/aer_dev_%s", sys, name, file);
    return r == 0 ? pcie_aer_total(text, ret_total) : r;
}

static void put_event(struct probe_run *run, const struct device *device, uint64_t count,
                      bool fatal)
{
    struct finding finding;
    probe_finding(&finding, VERDICT_WARN, device->name,
                  "%s: %llu uncorrected %s error%s on the bus", device->name,
                  (unsigned long long)count, fatal ? "fatal" : "non-fatal", count == 1 ? "" : "s");
    if (fatal) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT, ROLE_ROOT, "pcie-aer-fatal");
    } else {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM, "pcie-aer-nonfatal");
    }
    (void)text_copy(finding.subject, sizeof(finding.subject), device->name);
    probe_event(run, &finding);
}

/* Counters only grow; one that is smaller begins anew with its device. */
static void take_errors(struct probe_run *run, struct device *device)
{
    const char *sys = run->config->sys;
    uint64_t corrected = 0;
    uint64_t nonfatal = 0;
    uint64_t fatal = 0;
    struct finding finding;
    char key[FINDING_KEY_SIZE];
    if (read_counter(sys, device->name, "correctable", &corrected) != 0 ||
        read_counter(sys, device->name, "nonfatal", &nonfatal) != 0 ||
        read_counter(sys, device->name, "fatal", &fatal) != 0) {
        return; /* a device, or a kernel, without these counters */
    }
    if (device->counted && fatal > device->fatal) {
        put_event(run, device, fatal - device->fatal, true);
    }
    if (device->counted && nonfatal > device->nonfatal) {
        put_event(run, device, nonfatal - device->nonfatal, false);
    }
    const bool many = device->counted && corrected >= device->corrected + CORRECTED_PER_ROUND;
    device->calm = many ? 0 : device->calm + (device->calm < CALM_ROUNDS);
    const bool told = device->calm < CALM_ROUNDS;
    (void)text_format(key, sizeof(key), "%s errors", device->name);
    probe_finding(&finding, told ? VERDICT_WARN : VERDICT_OK, key,
                  told ? "%s: more than ten corrected errors a second on the bus"
                       : "%s: no more errors on the bus than allowed",
                  device->name);
    if (told) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM, "pcie-corrected");
        (void)text_copy(finding.subject, sizeof(finding.subject), device->name);
    }
    probe_state(run, &finding);
    device->corrected = corrected;
    device->nonfatal = nonfatal;
    device->fatal = fatal;
    device->counted = true;
}

static void take_link(const char *sys, struct device *device)
{
    char text[64];
    uint64_t vendor = 0;
    uint64_t number = 0;
    device->width = 0;
    device->speed = 0;
    if (read_number(&vendor, "%s/bus/pci/devices/%s/vendor", sys, device->name) != 0 ||
        read_number(&number, "%s/bus/pci/devices/%s/device", sys, device->name) != 0) {
        return;
    }
    device->make = vendor << 16 | number;
    if (read_number(&device->width, "%s/bus/pci/devices/%s/current_link_width", sys,
                    device->name) != 0 ||
        device->width > 64 ||
        read_text(text, sizeof(text), "%s/bus/pci/devices/%s/current_link_speed", sys,
                  device->name) != 0 ||
        pcie_speed(text, &device->speed) != 0) {
        device->width = 0;
        device->speed = 0;
    }
}

/* ---- comparing ---------------------------------------------------------------------------------------- */

static void find_best(const struct bus *bus, const struct device *device, uint64_t *ret_width,
                      uint32_t *ret_speed)
{
    *ret_width = device->width_best;
    *ret_speed = device->speed_best;
    for (uint32_t i = 0; i < bus->count; i++) {
        const struct device *other = &bus->devices[i];
        if (other->make == device->make) {
            *ret_width = other->width > *ret_width ? other->width : *ret_width;
            *ret_speed = other->speed > *ret_speed ? other->speed : *ret_speed;
        }
    }
}

static void judge_link(struct probe_run *run, const struct bus *bus, struct device *device)
{
    uint64_t width = 0;
    uint32_t speed = 0;
    struct finding finding;
    if (device->width == 0) {
        return; /* no link, or nothing can be read: others of its kind may have none either */
    }
    find_best(bus, device, &width, &speed);
    const bool narrow = device->width < width;
    const bool slow = run->config->busy && device->speed < speed;
    probe_finding(&finding, narrow || slow ? VERDICT_WARN : VERDICT_OK, device->name,
                  "%s runs at x%llu, %u.%u GT/s; it could at x%llu, %u.%u GT/s", device->name,
                  (unsigned long long)device->width, device->speed / 10, device->speed % 10,
                  (unsigned long long)width, speed / 10, speed % 10);
    if (narrow || slow) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM,
                    narrow ? "pcie-width" : "pcie-speed");
        (void)text_copy(finding.subject, sizeof(finding.subject), device->name);
    }
    probe_state(run, &finding);
    device->width_best = device->width > device->width_best ? device->width : device->width_best;
    device->speed_best = device->speed > device->speed_best ? device->speed : device->speed_best;
}

static void look(struct probe_run *run)
{
    struct read_names names;
    struct bus *bus = mem_alloc(1, sizeof(*bus));
    const int r = read_names(&names, "%s/bus/pci/devices", run->config->sys);
    for (uint32_t i = 0; r == 0 && i < names.count; i++) {
        struct device *device = is_watched(run->config->sys, names.names[i])
                                    ? device_add(run, bus, names.names[i])
                                    : NULL;
        if (device != NULL) {
            take_errors(run, device);
            take_link(run->config->sys, device);
        }
    }
    for (uint32_t i = 0; i < bus->count; i++) {
        judge_link(run, bus, &bus->devices[i]);
        note_device(run, &bus->devices[i]);
    }
    mem_free(bus);
    if (run->readings == 0) {
        probe_nothing(run, "no device here counts errors or tells of its link%s%s",
                      r != 0 ? ": " : "", r != 0 ? strerror(-r) : "");
    }
}

const struct probe probe_pcie = {.name = "pcie",
                                 .what = "errors, width and speed of the bus's links",
                                 .period_ms = 30000,
                                 .deadline_ms = 20000,
                                 .stuck_label = LABEL_HARDWARE,
                                 .stuck_advice = ADVICE_WATCH,
                                 .stuck_role = ROLE_SYMPTOM,
                                 .look = look};
