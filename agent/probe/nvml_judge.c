/* nvml_judge.c: what readings of a GPU mean. The driver's own verdicts come first; what it merely
 * counts is evidence for whoever asks why a rank is slow. A value that is not there says nothing. */
#include <string.h>

#include "agent/probe/nvml.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

void nvml_pci_text(const struct nvml_pci *pci, char ret_text[NVML_PCI_SIZE])
{
    (void)text_format(ret_text, NVML_PCI_SIZE, "%04x:%02x:%02x", pci->domain & 0xffff,
                      pci->bus & 0xff, pci->device & 0xff);
}

static void begin(struct finding *finding, const struct nvml_gpu *gpu, enum finding_verdict verdict,
                  const char *thing)
{
    char key[FINDING_KEY_SIZE];
    (void)text_format(key, sizeof(key), "%s%s%s", gpu->uuid, thing[0] != '\0' ? " " : "", thing);
    probe_finding(finding, verdict, key, "gpu=%u", gpu->index);
    finding->gpu = gpu->index < GPUS_MAX ? (int32_t)gpu->index : -1;
    (void)text_copy(finding->subject, sizeof(finding->subject), gpu->pci);
}

/* Behind "gpu=I ". */
static void put_text(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put_text(struct finding *finding, const char *format, ...)
{
    const size_t used = strlen(finding->text);
    va_list arguments;
    va_start(arguments, format);
    finding->text[used] = ' ';
    finding->text[used + 1] = '\0';
    (void)text_sentence_list(finding->text + used + 1, sizeof(finding->text) - used - 1, format,
                             arguments);
    va_end(arguments);
}

/* ---- the driver's verdicts -------------------------------------------------------------------------- */

/* False: the GPU is not there, and nothing else of it can be judged. */
static bool judge_presence(struct probe_run *run, const struct nvml_gpu *gpu, unsigned int code)
{
    struct finding finding;
    if (code == NVML_OK) {
        begin(&finding, gpu, VERDICT_OK, "");
        put_text(&finding, "%s at %s answers", gpu->uuid, gpu->pci);
    } else if (code == NVML_LOST) {
        begin(&finding, gpu, VERDICT_FAIL, "");
        put_text(&finding, "%s at %s is lost", gpu->uuid, gpu->pci);
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_REBOOT, ROLE_ROOT, "gpu-lost");
    } else if (code == NVML_RESET_REQUIRED) {
        begin(&finding, gpu, VERDICT_FAIL, "");
        put_text(&finding, "%s at %s requires a reset", gpu->uuid, gpu->pci);
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_RESET, ROLE_ROOT, "gpu-needs-reset");
    } else {
        probe_not_run(run, gpu->uuid, "gpu=%u nvml: %s (%u)", gpu->index, nvml_code_text(code),
                      code);
        return false;
    }
    probe_state(run, &finding);
    return code == NVML_OK;
}

static void judge_action(struct probe_run *run, const struct nvml_gpu *gpu,
                         const struct nvml_value *action)
{
    static const struct {
        const char *word;
        uint8_t advice;
        bool now; /* else when the work on it has ended */
    } actions[] = {
        [NVML_ACTION_NONE] = {"none", ADVICE_NONE, false},
        [NVML_ACTION_RESET] = {"reset", ADVICE_EVICT_RESET, true},
        [NVML_ACTION_REBOOT] = {"reboot", ADVICE_EVICT_REBOOT, true},
        [NVML_ACTION_DRAIN_P2P] = {"drain P2P", ADVICE_EVICT_RESET, false},
        [NVML_ACTION_DRAIN_RESET] = {"drain and reset", ADVICE_EVICT_RESET, false},
        [NVML_ACTION_IMEX] = {"recover IMEX", ADVICE_EVICT_REBOOT, true},
    };
    struct finding finding;
    if (!action->has) {
        return;
    }
    if (action->value >= ARRAY_SIZE(actions)) {
        begin(&finding, gpu, VERDICT_WARN, "recovery");
        put_text(&finding, "the driver asks for recovery action %llu, which has no name here",
                 (unsigned long long)action->value);
        probe_blame(&finding, LABEL_UNKNOWN, ADVICE_WATCH, ROLE_SYMPTOM, "gpu-recovery");
    } else if (action->value == NVML_ACTION_NONE) {
        begin(&finding, gpu, VERDICT_OK, "recovery");
        put_text(&finding, "the driver asks for nothing");
    } else {
        const bool now = actions[action->value].now;
        begin(&finding, gpu, now ? VERDICT_FAIL : VERDICT_WARN, "recovery");
        put_text(&finding, "the driver asks for recovery: %s", actions[action->value].word);
        probe_blame(&finding, LABEL_HARDWARE, (enum signal_advice)actions[action->value].advice,
                    now ? ROLE_ROOT : ROLE_SYMPTOM, "gpu-recovery");
        finding.severity = now ? 3 : 1;
    }
    finding.code = action->value < INT32_MAX ? (int32_t)action->value : INT32_MAX;
    probe_state(run, &finding);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static bool is_set(const struct nvml_value *value)
{
    return value->has && value->value != 0;
}

static void judge_rows(struct probe_run *run, const struct nvml_gpu *gpu,
                       const struct nvml_reading *reading)
{
    struct finding finding;
    const bool failed = is_set(&reading->remap_failure);
    const bool pending = is_set(&reading->remap_pending);
    const bool many = reading->remapped.has && reading->remapped.value > NVML_ROWS_MAX;
    if (!reading->remap_failure.has && !reading->remap_pending.has && !reading->remapped.has) {
        return;
    }
    begin(&finding, gpu, failed || pending || many ? VERDICT_WARN : VERDICT_OK, "rows");
    put_text(&finding, "remapped rows: %llu%s%s", (unsigned long long)reading->remapped.value,
             failed ? ", a remapping failed" : "", pending ? ", one waits for a reset" : "");
    if (failed) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_RMA, ROLE_SYMPTOM, "row-remap-failed");
        finding.severity = 1; /* the moment it failed is in the kernel's log */
    } else if (pending || many) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM,
                    pending ? "row-remap-pending" : "row-remap-many");
    }
    probe_state(run, &finding);
}

/* Not read in every round, but said in every one. */
static void judge_sram(struct probe_run *run, struct nvml_gpu *gpu,
                       const struct nvml_reading *reading)
{
    struct finding finding;
    gpu->sram_over = reading->sram_over.has ? reading->sram_over : gpu->sram_over;
    gpu->sram_count = reading->sram_count.has ? reading->sram_count : gpu->sram_count;
    const bool over =
        is_set(&gpu->sram_over) || (gpu->sram_count.has && gpu->sram_count.value > NVML_SRAM_MAX);
    if (!gpu->sram_over.has && !gpu->sram_count.has) {
        return;
    }
    begin(&finding, gpu, over ? VERDICT_WARN : VERDICT_OK, "sram");
    put_text(&finding, "%llu uncorrectable errors of its SRAM%s",
             (unsigned long long)gpu->sram_count.value,
             is_set(&gpu->sram_over) ? ", past the driver's threshold" : "");
    if (over) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM, "sram-threshold");
    }
    probe_state(run, &finding);
}

/* How much more than at the last look; the new value is kept. */
static uint64_t more_than(struct nvml_value *before, const struct nvml_value *now)
{
    uint64_t more = 0;
    if (now->has) {
        more = before->has && now->value > before->value ? now->value - before->value : 0;
        *before = *now;
    }
    return more;
}

static void judge_uncorrected(struct probe_run *run, struct nvml_gpu *gpu,
                              const struct nvml_value *uncorrected)
{
    struct finding finding;
    const uint64_t more = more_than(&gpu->uncorrected, uncorrected);
    if (more > 0) {
        begin(&finding, gpu, VERDICT_WARN, "memory");
        put_text(&finding, "%llu more uncorrected memory errors", (unsigned long long)more);
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_RESET, ROLE_ROOT, "gpu-uncorrected");
        probe_event(run, &finding);
    }
}

static void judge_left(struct probe_run *run, struct nvml_gpu *gpu,
                       const struct nvml_reading *reading)
{
    enum { LEFT_MIB = 2048 }; /* the driver itself holds some hundred */
    struct finding finding;
    if (!reading->used_mib.has || !reading->processes.has) {
        return;
    }
    const bool left = reading->processes.value == 0 && reading->used_mib.value > LEFT_MIB;
    gpu->left_rounds = left ? gpu->left_rounds + (gpu->left_rounds < NVML_LEFT_ROUNDS) : 0;
    const bool told = gpu->left_rounds == NVML_LEFT_ROUNDS;
    begin(&finding, gpu, told ? VERDICT_WARN : VERDICT_OK, "used");
    put_text(&finding, "%llu MiB in use by %llu processes",
             (unsigned long long)reading->used_mib.value,
             (unsigned long long)reading->processes.value);
    if (told) {
        probe_blame(&finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_SYMPTOM, "gpu-memory-left");
    }
    probe_state(run, &finding);
}

/* ---- links ---------------------------------------------------------------------------------------------- */

static void judge_links(struct probe_run *run, struct nvml_gpu *gpu,
                        const struct nvml_reading *reading)
{
    struct finding finding;
    const uint64_t more = more_than(&gpu->recoveries, &reading->recoveries);
    if (more > 0) {
        begin(&finding, gpu, VERDICT_WARN, "nvlink");
        put_text(&finding, "NVLink recovered %llu times", (unsigned long long)more);
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM, "nvlink-recovery");
        finding.code = more < INT32_MAX ? (int32_t)more : INT32_MAX;
        probe_event(run, &finding);
    }
    if (!reading->links.has || (reading->links.value == 0 && gpu->links_best == 0)) {
        return;
    }
    const uint64_t now = reading->links.value;
    gpu->links_best = now > gpu->links_best ? now : gpu->links_best;
    const bool fewer = now < gpu->links_best;
    begin(&finding, gpu, fewer ? VERDICT_WARN : VERDICT_OK, "nvlink");
    put_text(&finding, "%llu of %llu NVLinks are active", (unsigned long long)now,
             (unsigned long long)gpu->links_best);
    if (fewer) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT_RESET, ROLE_SYMPTOM, "nvlink-down");
        finding.severity = 1; /* an attempt that needs it ends by itself */
    }
    probe_state(run, &finding);
}

/* An idle link may do as it likes: then what it did under load still holds. */
static void judge_width(struct probe_run *run, struct nvml_gpu *gpu,
                        const struct nvml_reading *reading)
{
    struct finding finding;
    if (!reading->width.has || !reading->width_max.has) {
        return;
    }
    if (reading->load.has && reading->load.value >= NVML_BUSY_PERCENT) {
        gpu->looked_under_load = true;
        gpu->narrow = reading->width.value < reading->width_max.value;
    }
    const bool narrow = gpu->looked_under_load && gpu->narrow;
    begin(&finding, gpu, narrow ? VERDICT_WARN : VERDICT_OK, "width");
    put_text(&finding, "PCIe x%llu of x%llu%s", (unsigned long long)reading->width.value,
             (unsigned long long)reading->width_max.value, narrow ? ", also under load" : "");
    if (narrow) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM, "pcie-width");
    }
    probe_state(run, &finding);
}

/* ---- heat and power -------------------------------------------------------------------------------------- */

static void put_reasons(uint64_t reasons, char *target, size_t size)
{
    static const struct {
        uint64_t bit;
        const char *word;
    } words[] = {{NVML_REASON_POWER_CAP, "sw_power_cap"},
                 {NVML_REASON_HW_SLOWDOWN, "hw_slowdown"},
                 {NVML_REASON_SW_THERMAL, "sw_thermal_slowdown"},
                 {NVML_REASON_HW_THERMAL, "hw_thermal_slowdown"},
                 {NVML_REASON_POWER_BRAKE, "hw_power_brake_slowdown"}};
    size_t used = 0;
    target[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if ((reasons & words[i].bit) != 0) {
            (void)text_format(target + used, size - used, "%s%s", used > 0 ? "," : "",
                              words[i].word);
            used = strlen(target);
        }
    }
}

/* Clocks go up and down all the time: what holds in half of the last rounds counts, until none of
 * them shows it. */
static void judge_clocks(struct probe_run *run, struct nvml_gpu *gpu,
                         const struct nvml_reading *reading)
{
    const uint64_t bad = NVML_REASON_HW_SLOWDOWN | NVML_REASON_SW_THERMAL | NVML_REASON_HW_THERMAL |
                         NVML_REASON_POWER_BRAKE;
    char words[128];
    struct finding finding;
    if (!reading->reasons.has) {
        return;
    }
    const bool slow = (reading->reasons.value & bad) != 0;
    gpu->slow = (gpu->slow << 1 | slow) & ((1u << NVML_SLOW_ROUNDS) - 1);
    const int rounds = __builtin_popcount(gpu->slow);
    gpu->slow_reasons = slow ? reading->reasons.value : gpu->slow_reasons;
    gpu->slow_told = rounds >= NVML_SLOW_FEW || (gpu->slow_told && rounds > 0);
    const uint64_t reasons = gpu->slow_told ? gpu->slow_reasons : reading->reasons.value;
    begin(&finding, gpu, gpu->slow_told ? VERDICT_WARN : VERDICT_OK, "clocks");
    put_reasons(reasons, words, sizeof(words));
    put_text(&finding, "clocks_event_reasons=0x%016llx (%s) sm_clock=%llu temp=%llu",
             (unsigned long long)reasons, words, (unsigned long long)reading->clock.value,
             (unsigned long long)reading->temperature.value);
    if (gpu->slow_told) {
        probe_blame(&finding, LABEL_FACILITY, ADVICE_WATCH, ROLE_ROOT, READING_CLOCKS);
        finding.code = (int32_t)(reasons & INT32_MAX);
    }
    (void)text_format(finding.subject, sizeof(finding.subject), "gpu=%u", gpu->index);
    probe_state(run, &finding);
}

static void judge_heat(struct probe_run *run, const struct nvml_gpu *gpu,
                       const struct nvml_reading *reading)
{
    struct finding finding;
    if (!reading->temperature.has || !reading->slowdown.has || reading->slowdown.value == 0) {
        return;
    }
    const bool hot = reading->temperature.value >= reading->slowdown.value;
    begin(&finding, gpu, hot ? VERDICT_WARN : VERDICT_OK, "heat");
    put_text(&finding, "%llu C; it slows down at %llu C",
             (unsigned long long)reading->temperature.value,
             (unsigned long long)reading->slowdown.value);
    if (hot) {
        probe_blame(&finding, LABEL_FACILITY, ADVICE_WATCH, ROLE_SYMPTOM, "gpu-hot");
    }
    probe_state(run, &finding);
}

void nvml_judge(struct probe_run *run, struct nvml_gpu *gpu, const struct nvml_reading *reading)
{
    if (!judge_presence(run, gpu, reading->code)) {
        return;
    }
    judge_action(run, gpu, &reading->action);
    judge_rows(run, gpu, reading);
    judge_sram(run, gpu, reading);
    judge_uncorrected(run, gpu, &reading->uncorrected);
    judge_left(run, gpu, reading);
    judge_links(run, gpu, reading);
    judge_width(run, gpu, reading);
    judge_clocks(run, gpu, reading);
    judge_heat(run, gpu, reading);
}
