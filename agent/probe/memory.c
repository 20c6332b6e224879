/* memory.c: errors of the machine's memory, as the kernel's EDAC counts them for each controller.
 *
 * An uncorrected one is an event, and the controller stays bad until the machine boots anew; what
 * had been counted before our first look on this boot is only warned of. Corrected ones are counted
 * over a round. */
#include <errno.h>
#include <string.h>

#include "agent/probe/read.h"
#include "agent/probe/sources.h"
#include "proto/base/text.h"

enum { CORRECTED_PER_ROUND = 100, BOOT_SIZE = BOOT_ID_SIZE };

/* "BOOT UNCORRECTED CORRECTED FIRST" of the round before, if that was on this boot; first: what was
 * uncorrected at our first look. */
struct counts {
    bool known;
    uint64_t uncorrected;
    uint64_t corrected;
    uint64_t first;
};

static struct counts counts_of(const struct probe_run *run, const char *name, const char *boot)
{
    struct counts counts = {0};
    const char *note = probe_note(run, name);
    const size_t size = strlen(boot);
    if (note == NULL || strncmp(note, boot, size) != 0 || note[size] != ' ') {
        return counts;
    }
    uint64_t numbers[3];
    counts.known = read_parse_list(note + size + 1, numbers, 3) == 0;
    if (counts.known) {
        counts.uncorrected = numbers[0];
        counts.corrected = numbers[1];
        counts.first = numbers[2];
    }
    return counts;
}

static void judge(struct probe_run *run, const char *name, const struct counts *before,
                  const struct counts *now)
{
    struct finding finding;
    const bool ours = now->uncorrected > now->first;
    const bool many = before->known && now->corrected >= before->corrected + CORRECTED_PER_ROUND;
    const enum finding_verdict verdict = ours                           ? VERDICT_FAIL
                                         : now->uncorrected > 0 || many ? VERDICT_WARN
                                                                        : VERDICT_OK;
    probe_finding(&finding, verdict, name, "%s: %llu uncorrected, %llu corrected memory errors",
                  name, (unsigned long long)now->uncorrected, (unsigned long long)now->corrected);
    if (ours) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_RMA, ROLE_ROOT, "memory-uncorrected");
    } else if (verdict == VERDICT_WARN) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM,
                    many ? "memory-corrected" : "memory-uncorrected-before");
    }
    finding.code = now->uncorrected < INT32_MAX ? (int32_t)now->uncorrected : INT32_MAX;
    (void)text_copy(finding.subject, sizeof(finding.subject), name);
    probe_state(run, &finding);
}

static void take_controller(struct probe_run *run, const char *name, const char *boot)
{
    const char *sys = run->config->sys;
    const struct counts before = counts_of(run, name, boot);
    struct counts now = {.known = true};
    if (read_number(&now.uncorrected, "%s/devices/system/edac/mc/%s/ue_count", sys, name) != 0 ||
        read_number(&now.corrected, "%s/devices/system/edac/mc/%s/ce_count", sys, name) != 0) {
        probe_not_run(run, name, "%s cannot be read", name);
        return;
    }
    now.first = before.known && now.uncorrected >= before.first ? before.first : now.uncorrected;
    judge(run, name, &before, &now);
    probe_note_put(run, name, "%s %llu %llu %llu", boot, (unsigned long long)now.uncorrected,
                   (unsigned long long)now.corrected, (unsigned long long)now.first);
}

static void look(struct probe_run *run)
{
    struct read_names names;
    char boot[BOOT_SIZE];
    const int r = read_names(&names, "%s/devices/system/edac/mc", run->config->sys);
    if (r != 0) {
        probe_nothing(run, "nobody counts memory errors here (EDAC): %s", strerror(-r));
        return;
    }
    if (read_text(boot, sizeof(boot), "%s/sys/kernel/random/boot_id", run->config->proc) != 0) {
        probe_nothing(run, "no boot id");
        return;
    }
    for (uint32_t i = 0; i < names.count; i++) {
        if (strncmp(names.names[i], "mc", 2) == 0) {
            take_controller(run, names.names[i], boot);
        }
    }
    if (run->readings == 0) {
        probe_nothing(run, "no memory controller is watched (EDAC)");
    }
}

const struct probe probe_memory = {.name = "memory",
                                   .what = "memory errors (EDAC)",
                                   .period_ms = 30000,
                                   .deadline_ms = 10000,
                                   .stuck_label = LABEL_SOFTWARE,
                                   .stuck_advice = ADVICE_WATCH,
                                   .stuck_role = ROLE_SYMPTOM,
                                   .look = look};
