/* probes.c: one slot for each probe; see probes.h.
 *
 *     idle --due--> running --exit, all said--> idle
 *                     |  |
 *                     |  +--exit without an end--> idle, later each time; the third is told
 *                     +--silent for its deadline, told--> killed --gone--> idle */
#include "agent/io/probes.h"

#include <errno.h>
#include <string.h>

#include "agent/core/health.h"
#include "agent/io/child.h"
#include "agent/io/driver.h"
#include "agent/io/probe_file.h"
#include "agent/io/probe_start.h"
#include "agent/probe/list.h"
#include "agent/probe/probe.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    TICK_MS = 500,
    AGAIN_MS = 1000,
    AGAIN_MAX_MS = 60000,
    STAGGER_MS = 100, /* between the first starts */
    RARE_MS = 5000,   /* who looks less often than that is not waited for */
    FAILURES_TOLD = 3,
    SOON_S = 60,
};

enum slot_state { SLOT_OFF, SLOT_IDLE, SLOT_RUNNING, SLOT_KILLED };

/* For probes_look(): a round that had begun before it does not count. */
enum freshness { FRESH, FRESH_SOON, STALE };

struct slot {
    struct agent_probes *probes;
    const struct probe *probe;
    uint32_t index;
    uint8_t state;     /* enum slot_state */
    bool ended;        /* the round that ran last came to its end */
    bool told_left;    /* that it does not even end */
    uint8_t fresh;     /* enum freshness */
    uint64_t start_ms; /* when to start it; RUNNING, KILLED: when it was started, killed */
    uint32_t failures; /* in a row */
    uint64_t odd;      /* lines that are none */
    uint32_t note_count;
    struct probe_note notes[PROBE_NOTES_MAX]; /* newest */
    uint32_t kept_count;
    struct probe_note kept[PROBE_NOTES_MAX]; /* those that the file may have */
};

struct gpu {
    char uuid[UUID_SIZE];
    char pci[NOTE_VALUE_SIZE];
};

struct agent_probes {
    struct agent_io *io;
    struct health *health;
    struct child_set children;
    uv_timer_t timer;
    uv_work_t work;
    struct err work_err;
    int work_result;
    struct buf writing;
    uint64_t written_hash;
    bool working;
    bool complained;
    bool closed;
    bool broken; /* as the core was told */
    struct {
        probes_looked *done; /* NULL: nobody waits */
        void *context;
        uint64_t end_ms;
    } look;
    uint32_t job; /* of the attempt that findings belong to; 0: none */
    uint32_t attempt;
    struct gpu gpus[GPUS_MAX];
    uint32_t slot_count;
    struct slot slots[HEALTH_PROBES_MAX];
};

/* ---- facts ------------------------------------------------------------------------------------------ */

/* The attempt that runs here: what is found now is evidence about it. */
static void look_at_attempts(struct agent_probes *probes)
{
    struct attempt_report report;
    uint8_t state = 0;
    uint32_t job = 0;
    uint32_t attempt = 0;
    for (uint32_t i = 0; agent_core_attempt(probes->io->core, i, &report, &state); i++) {
        if (state != AGENT_ATTEMPT_EMPTY && state != AGENT_ATTEMPT_REFUSED &&
            (job == 0 || report.attempt > attempt)) {
            job = report.job;
            attempt = report.attempt;
        }
    }
    if (job != 0 && (job != probes->job || attempt != probes->attempt)) {
        health_say_again(probes->health);
    }
    probes->job = job;
    probes->attempt = attempt;
}

static int32_t gpu_of(const struct agent_probes *probes, const char *subject)
{
    for (uint32_t i = 0; i < GPUS_MAX; i++) {
        const size_t size = strlen(probes->gpus[i].pci);
        /* Lines name the device with or without its function and what is on it. */
        if (size > 0 && strncasecmp(subject, probes->gpus[i].pci, size) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}

/* Of the core's places for facts: what matters less leaves room for what matters more, which is also
 * why most of it waits here, where something heavier can take its place. */
static uint32_t left_free(uint8_t severity)
{
    enum { FOR_SIGNS = 48, FOR_ENDS = 16 };
    return severity == 0 ? FOR_SIGNS : severity == 1 ? FOR_ENDS : 0;
}

static void say_due(struct agent_probes *probes)
{
    struct agent_view view;
    struct finding finding;
    uint32_t probe = 0;
    uint32_t ticket = 0;
    if (probes->io->closing || probes->closed) {
        return;
    }
    look_at_attempts(probes);
    agent_core_view(probes->io->core, &view);
    (void)health_acknowledged(probes->health, view.facts_below);
    while (health_due(probes->health, &finding, &probe, &ticket) &&
           view.facts_free > left_free(finding.severity)) {
        struct fact fact;
        if (finding.gpu < 0) {
            finding.gpu = gpu_of(probes, finding.subject);
        }
        if (text_equal(finding.key, HEALTH_PROBE_KEY) && probe < probes->slot_count) {
            (void)text_copy(finding.subject, sizeof(finding.subject),
                            probes->slots[probe].probe->name);
        }
        finding_fact(&finding, &fact);
        fact.job = probes->job;
        fact.attempt = probes->attempt;
        struct agent_event event = {.kind = AGENT_EVENT_FACT, .fact = &fact};
        log_line(finding.severity > 0 ? LOG_WARN : LOG_INFO, "finding", finding.text, "verdict",
                 finding_verdict_word(finding.verdict), "signal", finding.signal, NULL);
        driver_step(probes->io->driver, &event);
        agent_core_view(probes->io->core, &view);
        health_said(probes->health, ticket, view.fact_last);
    }
}

/* A node on which something is broken is no spare, whether or not its last fact has arrived. */
static void say_health(struct agent_probes *probes)
{
    const char *broken = health_broken(probes->health);
    struct agent_event event = {.kind = AGENT_EVENT_HEALTH,
                                .by_probes = true,
                                .ok = broken == NULL,
                                .text = broken != NULL ? broken : ""};
    if (!probes->io->closing && !probes->closed && (broken != NULL || probes->broken)) {
        driver_step(probes->io->driver, &event);
    }
    probes->broken = broken != NULL;
}

/* ---- what a probe says ------------------------------------------------------------------------------- */

static void note_take(struct slot *slot, const char *name, const char *value)
{
    struct probe_note *note = NULL;
    for (uint32_t i = 0; note == NULL && i < slot->note_count; i++) {
        note = text_equal(slot->notes[i].name, name) ? &slot->notes[i] : NULL;
    }
    if (note == NULL && slot->note_count < PROBE_NOTES_MAX) {
        note = &slot->notes[slot->note_count++];
        (void)text_copy(note->name, sizeof(note->name), name);
    }
    if (note != NULL) {
        (void)text_copy(note->value, sizeof(note->value), value);
    }
}

static void gpu_take(struct agent_probes *probes, const struct finding_line *line)
{
    struct gpu *gpu = &probes->gpus[line->index];
    (void)text_copy(gpu->uuid, sizeof(gpu->uuid), line->name);
    (void)text_copy(gpu->pci, sizeof(gpu->pci), line->value);
}

/* Events that there was no place for are counted where people see it, while they come. */
static void take_event(struct slot *slot, const struct finding *event)
{
    struct health *health = slot->probes->health;
    struct finding finding;
    const uint64_t before = health_events_lost(health);
    (void)health_event(health, slot->index, event); /* what is lost is counted */
    const uint64_t lost = health_events_lost(health);
    if (lost > before) {
        probe_finding(&finding, VERDICT_WARN, "events",
                      "%llu events of probes could not be kept until the controller has them",
                      (unsigned long long)lost);
        probe_blame(&finding, LABEL_UNKNOWN, ADVICE_WATCH, ROLE_SYMPTOM, "events-lost");
        slot->odd += !health_reading(health, slot->index, &finding);
    }
    say_due(slot->probes);
}

/* Whoever waits for all of them to have looked once more. */
static void say_looked(struct agent_probes *probes, uint64_t now_ms)
{
    const char *late = NULL;
    for (uint32_t i = 0; i < probes->slot_count; i++) {
        const struct slot *slot = &probes->slots[i];
        late = slot->state != SLOT_OFF && slot->fresh != FRESH ? slot->probe->name : late;
    }
    if (probes->look.done == NULL || (late != NULL && now_ms < probes->look.end_ms)) {
        return;
    }
    probes_looked *done = probes->look.done;
    probes->look.done = NULL;
    done(probes->look.context, late);
}

static void take_line(struct slot *slot, const struct finding_line *line)
{
    struct health *health = slot->probes->health;
    switch ((enum finding_line_kind)line->kind) {
    case LINE_BEGIN:
        slot->ended = false;
        slot->fresh = slot->fresh == STALE ? FRESH_SOON : slot->fresh;
        health_begin(health, slot->index);
        break;
    case LINE_STATE:
        slot->odd += !health_reading(health, slot->index, &line->finding);
        break;
    case LINE_EVENT:
        take_event(slot, &line->finding);
        break;
    case LINE_NOTE:
        note_take(slot, line->name, line->value);
        break;
    case LINE_GPU:
        gpu_take(slot->probes, line);
        break;
    case LINE_END:
        slot->ended = true;
        slot->failures = 0;
        slot->fresh = slot->fresh == FRESH_SOON ? FRESH : slot->fresh;
        health_end(health, slot->index, line->text);
        say_due(slot->probes);
        say_looked(slot->probes, agent_io_now_ms());
        break;
    }
}

static void line_cb(void *context, const char *line, size_t size)
{
    struct slot *slot = context;
    struct finding_line parsed;
    if (finding_line_parse(line, size, &parsed) == 0) {
        take_line(slot, &parsed);
    } else {
        slot->odd++;
    }
}

/* ---- processes ------------------------------------------------------------------------------------------ */

static void say_lost(struct slot *slot, const char *signal, const char *text)
{
    const struct probe *probe = slot->probe;
    struct finding finding;
    probe_finding(&finding, VERDICT_WARN, HEALTH_PROBE_KEY, "%s", text);
    probe_blame(&finding, (enum signal_label)probe->stuck_label,
                (enum signal_advice)probe->stuck_advice, (enum signal_role)probe->stuck_role,
                signal);
    finding.severity = finding.severity > 1 ? 1 : finding.severity; /* it ends nothing by itself */
    health_lost(slot->probes->health, slot->index, &finding);
    say_due(slot->probes);
}

/* After its period; soon where somebody waits for a round that had begun too early for him. */
static void start_later(struct slot *slot)
{
    const bool asked = slot->probes->look.done != NULL && slot->fresh == STALE;
    const uint64_t period_ms = asked ? 0 : slot->probe->period_ms;
    uint64_t wait_ms = period_ms > AGAIN_MS ? period_ms : AGAIN_MS;
    wait_ms = asked && slot->failures == 0 ? 0 : wait_ms;
    for (uint32_t i = 1; i < slot->failures && wait_ms < AGAIN_MAX_MS; i++) {
        wait_ms *= 2;
    }
    slot->state = SLOT_IDLE;
    slot->start_ms = agent_io_now_ms() + wait_ms;
}

static void done_cb(void *context, const struct child_result *result)
{
    struct slot *slot = context;
    char text[TEXT_SIZE];
    slot->fresh = slot->fresh == FRESH_SOON ? STALE : slot->fresh; /* that round does not come */
    if (result->timed_out) {
        slot->ended = false;
        slot->state = SLOT_KILLED;
        slot->start_ms = agent_io_now_ms();
        slot->told_left = false;
        slot->failures++;
        (void)text_sentence(text, sizeof(text), "%s_poll stuck %u s; heartbeat ok",
                            slot->probe->name, slot->probe->deadline_ms / 1000);
        say_lost(slot, "probe-stuck", text);
        return;
    }
    if (!slot->ended || result->exit_status != 0 || result->signal != 0) {
        slot->failures++;
        if (slot->failures >= FAILURES_TOLD) {
            (void)text_sentence(text, sizeof(text),
                                "probe %s ends before it has said anything: %s %d",
                                slot->probe->name, result->signal != 0 ? "signal" : "exit",
                                result->signal != 0 ? result->signal : (int)result->exit_status);
            say_lost(slot, "probe-crashed", text);
        }
    }
    start_later(slot);
}

static int slot_spawn(struct slot *slot)
{
    struct agent_probes *probes = slot->probes;
    struct probe_config config = probes->io->options->probe;
    config.busy = probes->job != 0;
    const struct probe_start start = {.probe = slot->probe,
                                      .config = &config,
                                      .mode = slot->probe->resident ? PROBE_STAY : PROBE_ROUND,
                                      .note_count = slot->note_count,
                                      .notes = slot->notes,
                                      .line = line_cb,
                                      .done = done_cb,
                                      .context = slot};
    return probe_start(probes->io->loop, &probes->children, &start);
}

static void slot_start(struct slot *slot)
{
    slot->ended = false;
    const int r = slot_spawn(slot);
    if (r == 0) {
        slot->state = SLOT_RUNNING;
        slot->start_ms = agent_io_now_ms();
        return;
    }
    slot->failures++;
    if (slot->failures == FAILURES_TOLD) {
        log_line(LOG_ERROR, "probe-start-failed", "a probe cannot be started", "probe",
                 slot->probe->name, "error", uv_strerror(r), NULL);
    }
    start_later(slot);
}

/* SIGKILL was sent: whoever is still there cannot be ended by anybody. */
static void slot_killed(struct slot *slot, uint64_t now_ms)
{
    char text[TEXT_SIZE];
    if (!child_lives(&slot->probes->children, slot)) {
        start_later(slot);
        return;
    }
    if (!slot->told_left && now_ms >= slot->start_ms + AGAIN_MS) {
        slot->told_left = true;
        (void)text_sentence(
            text, sizeof(text),
            "%s_poll stuck %u s; heartbeat ok; its process does not end and is left",
            slot->probe->name, slot->probe->deadline_ms / 1000);
        say_lost(slot, "probe-stuck-for-good", text);
    }
}

/* ---- the file ---------------------------------------------------------------------------------------- */

static int put_told(void *context, uint32_t probe, const struct finding *finding)
{
    struct agent_probes *probes = context;
    if (probe < probes->slot_count) {
        probe_file_told(&probes->writing, probes->slots[probe].probe->name, finding);
    }
    return 0;
}

/* Notes go to the file once all that was said before them has arrived: a line of the log that is
 * lost with this process is read again by the next. */
static void put_slot(struct agent_probes *probes, struct slot *slot)
{
    if (health_settled(probes->health, slot->index)) {
        slot->kept_count = slot->note_count;
        memcpy(slot->kept, slot->notes, sizeof(slot->kept));
    }
    for (uint32_t i = 0; i < slot->kept_count; i++) {
        probe_file_note(&probes->writing, slot->probe->name, slot->kept[i].name,
                        slot->kept[i].value);
    }
}

static void write_work(uv_work_t *work)
{
    struct agent_probes *probes = work->data;
    probes->work_result = probe_file_write(probes->io->options->state_dir, probes->writing.data,
                                           probes->writing.size, &probes->work_err);
}

static void written_cb(uv_work_t *work, int status)
{
    struct agent_probes *probes = work->data;
    CHECK(status == 0); /* never cancelled */
    probes->working = false;
    if (probes->work_result != 0) {
        probes->written_hash = 0; /* again, with the next look */
        if (!probes->complained) {
            log_line(LOG_WARN, "probe-file-failed",
                     "what the probes know cannot be kept, trying again", "error",
                     probes->work_err.text, NULL);
        }
    }
    probes->complained = probes->work_result != 0;
}

static void write_if_changed(struct agent_probes *probes)
{
    if (probes->working) {
        return;
    }
    buf_clear(&probes->writing);
    probe_file_begin(&probes->writing);
    (void)health_told(probes->health, put_told, probes); /* the visitor never fails */
    for (uint32_t i = 0; i < probes->slot_count; i++) {
        put_slot(probes, &probes->slots[i]);
    }
    for (uint32_t i = 0; i < GPUS_MAX; i++) {
        if (probes->gpus[i].pci[0] != '\0') {
            probe_file_gpu(&probes->writing, i, probes->gpus[i].uuid, probes->gpus[i].pci);
        }
    }
    const uint64_t hash = hash_bytes(HASH_INIT, probes->writing.data, probes->writing.size);
    if (hash == probes->written_hash || probes->writing.overflow) {
        return;
    }
    probes->written_hash = hash;
    probes->working = true;
    probes->work.data = probes;
    const int r = uv_queue_work(probes->io->loop, &probes->work, write_work, written_cb);
    CHECK(r == 0);
}

static void take_file_line(void *context, const char *name, const struct finding_line *line)
{
    struct agent_probes *probes = context;
    for (uint32_t i = 0; i < probes->slot_count; i++) {
        struct slot *slot = &probes->slots[i];
        if (!text_equal(slot->probe->name, name)) {
            continue;
        }
        if (line->kind == LINE_STATE) {
            health_restore(probes->health, i, &line->finding);
        } else if (line->kind == LINE_NOTE) {
            note_take(slot, line->name, line->value);
        }
    }
    if (line->kind == LINE_GPU) {
        gpu_take(probes, line);
    }
}

/* ---- life ------------------------------------------------------------------------------------------------ */

void probes_look(struct agent_probes *probes, uint64_t end_ms, probes_looked *done, void *context)
{
    for (uint32_t i = 0; i < probes->slot_count; i++) {
        struct slot *slot = &probes->slots[i];
        const bool rare = slot->probe->resident && slot->probe->period_ms > RARE_MS;
        slot->fresh = rare && slot->ended ? FRESH : STALE;
        if (slot->state == SLOT_IDLE) {
            slot->start_ms = agent_io_now_ms();
        }
    }
    probes->look.done = done;
    probes->look.context = context;
    probes->look.end_ms = end_ms;
    say_looked(probes, agent_io_now_ms()); /* there may be nobody to wait for */
}

static void tick_cb(uv_timer_t *timer)
{
    struct agent_probes *probes = timer->data;
    const uint64_t now_ms = agent_io_now_ms();
    if (probes->io->closing) {
        return;
    }
    for (uint32_t i = 0; i < probes->slot_count; i++) {
        struct slot *slot = &probes->slots[i];
        if (slot->state == SLOT_IDLE && now_ms >= slot->start_ms) {
            slot_start(slot);
        } else if (slot->state == SLOT_KILLED) {
            slot_killed(slot, now_ms);
        }
    }
    say_due(probes);
    say_health(probes);
    say_looked(probes, now_ms);
    write_if_changed(probes);
}

/* "all", "none", or names by comma. */
static bool is_wanted(const char *list, const char *name)
{
    return list[0] == '\0' || text_equal(list, "all") || list_has(list, name);
}

struct agent_probes *probes_create(struct agent_io *io)
{
    struct agent_probes *probes = mem_alloc(1, sizeof(*probes));
    const uint64_t now_ms = agent_io_now_ms();
    probes->io = io;
    probes->health = health_create();
    buf_init(&probes->writing, PROBE_FILE_MAX);
    for (const struct probe *probe = probe_at(0); probe != NULL;
         probe = probe_at(probes->slot_count)) {
        struct slot *slot = &probes->slots[probes->slot_count];
        slot->probes = probes;
        slot->probe = probe;
        slot->index = probes->slot_count++;
        slot->state = is_wanted(io->options->probes, probe->name) ? SLOT_IDLE : SLOT_OFF;
        slot->start_ms = now_ms + slot->index * STAGGER_MS;
    }
    const int read = probe_file_read(io->options->state_dir, take_file_line, probes);
    if (read != 0 && read != -ENOENT) {
        log_line(LOG_WARN, "probe-file-unread", "what the probes knew is lost, ignoring", "error",
                 strerror(-read), NULL);
    }
    int r = uv_timer_init(io->loop, &probes->timer);
    CHECK(r == 0);
    probes->timer.data = probes;
    r = uv_timer_start(&probes->timer, tick_cb, 0, TICK_MS);
    CHECK(r == 0);
    return probes;
}

const char *probes_broken(const struct agent_probes *probes)
{
    return health_broken(probes->health);
}

static int look_for_end(void *context, uint32_t probe, const struct finding *finding)
{
    bool *ends = context;
    (void)probe;
    *ends = *ends || (text_equal(finding->signal, "host-shutdown") && finding->code <= SOON_S);
    return 0;
}

bool probes_host_ends(const struct agent_probes *probes)
{
    bool ends = false;
    (void)health_now(probes->health, look_for_end, &ends); /* the visitor never fails */
    return ends;
}

void probes_close(struct agent_probes *probes)
{
    probes->closed = true;
    uv_close((uv_handle_t *)&probes->timer, NULL);
    children_close(&probes->children);
}

struct agent_probes *probes_free(struct agent_probes *probes)
{
    if (probes == NULL) {
        return NULL;
    }
    buf_done(&probes->writing);
    (void)health_free(probes->health);
    return mem_free(probes);
}
