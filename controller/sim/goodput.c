/* goodput.c: the clock of a goodput run, and its sleep.
 *
 *            all news is told, no silence, nothing that the controller waits for by the clock
 *   awake ----------------------------------------------------------------------------> asleep
 *     ^                                                                                   |
 *     +---------------- the next thing that more than one node will tell of --------------+
 *
 * Awake, every agent beats. News is told in a beat of its own, at once or a moment after the last
 * one, so a stretch awake may be shorter than the second between two beats: who has not beaten in
 * some of these beats once alone, asleep. Else only what concerns the program's rank 0 (its saves)
 * is stepped then; the clocks of all other nodes stand still, and so does the one by which the
 * controller judges silence (event.idle_ms). Waking begins up to a second before what it is for: each node's clock is
 * set on by whole beats, so that its next beat comes in the millisecond in which it would have come
 * anyway, and tells what the node would have told. So the records are those of a fleet that never
 * sleeps, to the millisecond. */
#include "controller/sim/goodput.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/sim/goodput_world.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    EVENT_BITS = 8,
    QUIET_MS = 60, /* who has news beats at once, or so soon after its last beat; and is answered */
    AGAIN_MS = 50,
    TRACE_LINE = 320,
    DAY_MS = 86400000,
};

/* ---- events, by what they need -------------------------------------------------------------- */

static enum gp_event kind_of(const struct heap_item *item)
{
    return (enum gp_event)(item->value & ((1u << EVENT_BITS) - 1));
}

/* What the sleeping fleet need not be woken for. */
static bool is_silent(enum gp_event kind)
{
    switch (kind) {
    case GP_EV_SAVE:
    case GP_EV_DURABLE:
    case GP_EV_COMMIT:
    case GP_EV_STRIKE: /* the failure itself: only its sign is heard */
    case GP_EV_PROBATION:
    case GP_EV_LONE_TICK:
        return true;
    default:
        return false;
    }
}

/* What is booked with it depends on how far the steps are: the last beats before it must be heard. */
static bool is_of_steps(enum gp_event kind)
{
    return kind == GP_EV_SIGN || kind == GP_EV_HOST_DOWN || kind == GP_EV_DRAIN ||
           kind == GP_EV_PERSON || kind == GP_EV_WAKE;
}

void gp_at(struct gp *gp, uint64_t at_ms, enum gp_event kind, uint32_t number)
{
    int result = heap_push(&gp->heap, at_ms > gp->now_ms ? at_ms : gp->now_ms, ++gp->event_next,
                           (uint64_t)number << EVENT_BITS | (uint64_t)kind);
    CHECK(result == 0);
    if (is_of_steps(kind) && at_ms < gp->steps_ms) {
        gp->steps_ms = at_ms;
    }
}

void gp_news(struct gp *gp)
{
    gp->news_ms = gp->now_ms > gp->news_ms ? gp->now_ms : gp->news_ms;
}

void gp_news_for_beats(struct gp *gp)
{
    gp->news_ms = gp->now_ms + GP_BEAT_MS;
}

void gp_trace(struct gp *gp, const char *format, ...)
{
    if (gp->options.line == NULL) {
        return;
    }
    char text[TRACE_LINE - 24];
    char line[TRACE_LINE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)text_format(line, sizeof(line), "[%12llu] %s",
                      (unsigned long long)(gp->now_ms - GP_BEGIN_MS), text);
    gp->options.line(gp->options.line_context, line);
}

/* ---- sleep ------------------------------------------------------------------------------- */

/* No clock of the controller's runs but those for silence. */
static bool nothing_hurries(const struct gp *gp)
{
    const struct job *job = core_job(gp->ctl.core, gp->job);
    if (job == NULL || core_globals(gp->ctl.core)->breaker_open) {
        return false;
    }
    const struct incident *incident = core_incident(gp->ctl.core, job->d.incident);
    if (incident != NULL && !incident->d.judged) {
        return false;
    }
    bool waiting = job->waiting_spare || job->d.state == JOB_HELD;
    bool stands = gp->train.halt_ms != 0 && gp->now_ms >= gp->sign_ms;
    if (waiting || stands) {
        return waiting; /* who stands still without a sign is missed by a limit */
    }
    const struct recovery *recovery = core_recovery(gp->ctl.core, job->d.recovery);
    if (job->d.state == JOB_RUNNING) { /* the save before a planned stop takes its time */
        return !job->d.stop_request || gp->train.state == GP_TRAIN_LEAVING;
    }
    return recovery != NULL && recovery->d.phase >= PHASE_LAUNCH;
}

static bool anyone_silent(const struct gp *gp)
{
    for (uint32_t id = 1; id <= core_node_count(gp->ctl.core); id++) {
        const struct node *node = core_node(gp->ctl.core, id);
        bool settled = node->d.lost || (node->session != 0 && node->suspect_ms == 0);
        if (!settled || (node->session != 0 && node->d.life == NODE_CHECKING)) {
            return true;
        }
    }
    for (uint32_t index = 0; index < gp->options.nodes; index++) {
        const struct gp_node *node = &gp->nodes[index];
        if (!node->up && node->session != 0) {
            return true; /* nobody has missed it yet */
        }
    }
    return false;
}

/* Stretches may be short: whoever has not beaten for some time that counts beats alone, as it would
 * have done anyway, or it would seem silent in the next one. Not where all beat before that begins. */
static void hear_the_quiet(struct gp *gp)
{
    uint64_t now_ms = gp->now_ms - gp->ctl.slept_ms;
    gp->steps_ms = UINT64_MAX;
    for (size_t index = 0; index < gp->heap.count; index++) {
        const struct heap_item *item = &gp->heap.items[index];
        if (is_of_steps(kind_of(item)) && item->key < gp->steps_ms) {
            gp->steps_ms = item->key;
        }
    }
    for (uint32_t id = 1; id <= core_node_count(gp->ctl.core); id++) {
        const struct node *node = core_node(gp->ctl.core, id);
        if (node->session != 0 && now_ms - node->beat_ms >= GP_BEAT_MS / 2) {
            gp_node_tick_alone(gp, gp_node_index(gp, id));
        }
    }
}

static void maybe_sleep(struct gp *gp)
{
    if (gp->asleep || gp->options.full_heartbeats || gp->now_ms < gp->news_ms + QUIET_MS ||
        gp->ctl.held_count > 0 || gp->ctl.turn_due || gp->now_ms < gp->again_ms) {
        return;
    }
    if (!nothing_hurries(gp) || anyone_silent(gp)) {
        gp->again_ms = gp->now_ms + AGAIN_MS;
        return;
    }
    gp->asleep = true;
    gp->slept_from_ms = gp->now_ms;
    gp->result->sleeps++;
    hear_the_quiet(gp);
}

static void wake(struct gp *gp, uint64_t at_ms, bool early)
{
    uint64_t from_ms = early ? at_ms - GP_BEAT_MS : at_ms;
    from_ms = from_ms > gp->ctl.last_ms ? from_ms : gp->ctl.last_ms;
    from_ms = from_ms > gp->now_ms ? from_ms : gp->now_ms;
    gp->asleep = false;
    gp->result->slept_ms += from_ms - gp->slept_from_ms;
    gp->ctl.idle_ms += from_ms - gp->ctl.last_ms;
    gp->now_ms = from_ms;
    gp->news_ms = at_ms;
    for (uint32_t index = 0; index < gp->options.nodes; index++) {
        struct gp_node *node = &gp->nodes[index];
        if (node->up) {
            gp_node_align(gp, index, from_ms);
            node->tick_ms = 0;
            gp_node_arm(gp, index);
        }
    }
    struct event event = {.kind = EVENT_TICK};
    gp_ctl_event(gp, &event); /* so that its clock and ours agree again */
    gp_ctl_arm(gp);
}

/* ---- events ------------------------------------------------------------------------------ */

static void happen(struct gp *gp, enum gp_event kind, uint32_t number)
{
    switch (kind) {
    case GP_EV_TICK:
        gp_node_tick(gp, number);
        return;
    case GP_EV_TURN:
        gp_ctl_turn(gp);
        return;
    case GP_EV_ACT:
        gp_ctl_act(gp);
        return;
    case GP_EV_DIALED:
    case GP_EV_SCANNED:
    case GP_EV_CHECKED:
    case GP_EV_VALIDATED:
    case GP_EV_PROBED:
    case GP_EV_SHIM_UP:
    case GP_EV_SHIM_ENDED:
    case GP_EV_SWEPT:
        gp_news(gp);
        gp_node_event(gp, number, kind);
        return;
    case GP_EV_PHASE:
    case GP_EV_FIRST:
        gp_news(gp);
        gp_train_event(gp, kind, number);
        return;
    case GP_EV_SAVE:
    case GP_EV_DURABLE:
    case GP_EV_COMMIT:
        gp_train_event(gp, kind, number);
        return;
    case GP_EV_SUBMIT:
    case GP_EV_DRAIN:
    case GP_EV_SIGN:
    case GP_EV_HOST_DOWN:
    case GP_EV_REPAIRED:
    case GP_EV_PERSON:
        gp_news(gp);
        gp_fault_event(gp, kind, number);
        return;
    case GP_EV_STRIKE:
        gp_fault_event(gp, kind, number);
        return;
    case GP_EV_WAKE:
        gp_news(gp);
        return;
    case GP_EV_PROBATION:
        gp_node_tick_alone(gp, number);
        return;
    case GP_EV_LONE_TICK:
        if (gp->asleep) {
            gp_node_tick(gp, number);
        }
        return;
    case GP_EV_END:
        gp->over = true;
        return;
    }
    CHECK(false);
}

/* Does the fleet have to be awake for something until then? */
static bool wakes_until(const struct gp *gp, uint64_t until_ms)
{
    for (size_t index = 0; index < gp->heap.count; index++) {
        enum gp_event kind = kind_of(&gp->heap.items[index]);
        bool clock = kind == GP_EV_TICK || kind == GP_EV_TURN || kind == GP_EV_ACT;
        if (!clock && kind != GP_EV_END && !is_silent(kind) &&
            gp->heap.items[index].key <= until_ms) {
            return true;
        }
    }
    return false;
}

/* Beats in the last second before it must have been heard, also where a save comes in between. */
static bool must_wake(const struct gp *gp, const struct heap_item *next)
{
    enum gp_event kind = kind_of(next);
    if (kind == GP_EV_LONE_TICK) {
        return gp->asleep && gp->steps_ms <= next->key + GP_BEAT_MS;
    }
    if (!gp->asleep || kind == GP_EV_TURN || kind == GP_EV_ACT || kind == GP_EV_END) {
        return false;
    }
    return !is_silent(kind) || wakes_until(gp, next->key + GP_BEAT_MS);
}

static void run(struct gp *gp)
{
    const struct heap_item *next;
    while (!gp->over && (next = heap_peek(&gp->heap)) != NULL) {
        enum gp_event kind = kind_of(next);
        uint32_t number = (uint32_t)(next->value >> EVENT_BITS);
        struct heap_item item;
        if (gp->asleep && (kind == GP_EV_TICK || (kind == GP_EV_TURN && number == 0))) {
            (void)heap_pop(&gp->heap, &item); /* of a clock that stands still */
            continue;
        }
        if (must_wake(gp, next)) {
            wake(gp, next->key, is_of_steps(kind) || is_silent(kind));
            continue; /* beats may come before it */
        }
        (void)heap_pop(&gp->heap, &item);
        CHECK(item.key >= gp->now_ms);
        gp->now_ms = item.key;
        happen(gp, kind, number);
        maybe_sleep(gp);
    }
}

/* ---- making ------------------------------------------------------------------------------ */

static void make_limits(struct gp *gp)
{
    agent_limits_default(&gp->limits);
    gp->limits.attempts = ATTEMPTS_PER_NODE_MAX;
    gp->limits.jobs = ATTEMPTS_PER_NODE_MAX;
    gp->limits.exchange_keys = 0;
    gp->limits.exchange_gets = 0;
    gp->limits.checkpoints = 2 * gp->options.ranks_per_node;
    gp->limits.facts = 4;
    gp->limits.questions = 2 * GP_PROBES;
    gp->limits.output_traces = gp->options.line != NULL ? gp->limits.output_traces : 0;
}

/* The mean gap between events that strike a node so many millionths of times a day. */
static uint64_t gap_ms(uint64_t ppm_a_day, uint32_t nodes)
{
    return ppm_a_day == 0 ? 0 : DAY_MS * 1000000ull / ppm_a_day / nodes;
}

static struct gp *make(const struct goodput_options *options, struct goodput_result *result)
{
    struct gp *gp = mem_alloc(1, sizeof(*gp));
    memset(result, 0, sizeof(*result));
    gp->options = *options;
    gp->result = result;
    gp->now_ms = GP_BEGIN_MS;
    gp->slots = options->nodes - options->spares;
    gp->gap_ms = gap_ms(options->failures_ppm, gp->slots);
    gp->drain_gap_ms = gap_ms(options->drains_ppm, gp->slots);
    gp->interval_steps = goodput_interval(options);
    prng_seed(&gp->prng, options->seed);
    prng_seed(&gp->evidence, ~options->seed);
    size_t capacity = (size_t)options->nodes * 16 + 65536;
    gp->items = mem_alloc(capacity, sizeof(gp->items[0]));
    heap_init(&gp->heap, gp->items, capacity);
    make_limits(gp);
    int code = agent_output_create(&gp->limits, &gp->output);
    CHECK(code == 0);
    gp->nodes = mem_alloc(options->nodes, sizeof(gp->nodes[0]));
    gp->faults = mem_alloc(GP_FAULTS_MAX, sizeof(gp->faults[0]));
    for (size_t index = 0; index < ARRAY_SIZE(gp->watch.samples); index++) {
        gp->watch.samples[index] =
            mem_alloc(GOODPUT_PHASE_SAMPLES, sizeof(gp->watch.samples[index][0]));
    }
    result->interval_steps = gp->interval_steps;
    result->records_hash = HASH_INIT;
    result->spares_least = UINT32_MAX;
    return gp;
}

static void free_all(struct gp *gp)
{
    gp_ctl_done(gp);
    for (uint32_t index = 0; index < gp->options.nodes; index++) {
        gp_node_done(gp, index);
    }
    for (size_t index = 0; index < ARRAY_SIZE(gp->watch.samples); index++) {
        mem_free(gp->watch.samples[index]);
    }
    (void)agent_output_free(gp->output);
    mem_free(gp->items);
    mem_free(gp->nodes);
    mem_free(gp->faults);
    mem_free(gp);
}

void goodput_run(const struct goodput_options *options, struct goodput_result *ret_result)
{
    struct gp *gp = make(options, ret_result);
    gp_ctl_start(gp);
    for (uint32_t index = 0; index < options->nodes; index++) {
        gp_node_start(gp, index);
    }
    gp_fault_start(gp);
    gp_at(gp, GP_BEGIN_MS + options->wall_ms, GP_EV_END, 0);
    run(gp);
    ret_result->slept_ms += gp->asleep ? gp->now_ms - gp->slept_from_ms : 0;
    gp_train_end(gp);
    gp_watch_end(gp);
    free_all(gp);
}

/* ---- several runs ------------------------------------------------------------------------ */

static void add_phase(struct goodput_phase *sum, const struct goodput_phase *one)
{
    uint64_t count = (uint64_t)sum->count + one->count;
    if (count > 0) {
        sum->p50_ms =
            (uint32_t)(((uint64_t)sum->p50_ms * sum->count + (uint64_t)one->p50_ms * one->count) /
                       count);
    }
    sum->p99_ms = one->p99_ms > sum->p99_ms ? one->p99_ms : sum->p99_ms;
    sum->count = (uint32_t)count;
}

static void add_counts(struct goodput_result *sum, const struct goodput_result *one)
{
    sum->failures += one->failures;
    sum->drains += one->drains;
    sum->recoveries += one->recoveries;
    sum->merged += one->merged;
    sum->false_evictions += one->false_evictions;
    sum->wrong_verdicts += one->wrong_verdicts;
    sum->suspect_restores += one->suspect_restores;
    sum->interventions += one->interventions;
    sum->returns += one->returns;
    sum->ended = sum->ended || one->ended;
    sum->saves += one->saves;
    sum->steps += one->steps;
    sum->core_steps += one->core_steps;
    sum->agent_steps += one->agent_steps;
    sum->records += one->records;
    sum->records_hash = hash_u64(sum->records_hash, one->records_hash);
    sum->beats += one->beats;
    sum->sleeps += one->sleeps;
    sum->slept_ms += one->slept_ms;
    sum->spares_least =
        one->spares_least < sum->spares_least ? one->spares_least : sum->spares_least;
}

void goodput_add(struct goodput_result *sum, const struct goodput_result *one)
{
    sum->wall_ms += one->wall_ms;
    sum->useful_ms += one->useful_ms;
    sum->stall_ms += one->stall_ms;
    sum->start_ms += one->start_ms;
    sum->unsettled_ms += one->unsettled_ms;
    for (uint32_t index = 0; index <= GOODPUT_CATEGORIES_MAX; index++) {
        sum->cost[index].count += one->cost[index].count;
        sum->cost[index].redo_ms += one->cost[index].redo_ms;
        sum->cost[index].detect_ms += one->cost[index].detect_ms;
        sum->cost[index].down_ms += one->cost[index].down_ms;
        sum->cost[index].judged += one->cost[index].judged;
        sum->cost[index].right += one->cost[index].right;
        sum->cost[index].evicted += one->cost[index].evicted;
        sum->cost[index].evicted_well += one->cost[index].evicted_well;
    }
    for (uint32_t kind = 0; kind < time_kind_count; kind++) {
        sum->booked_ms[kind] += one->booked_ms[kind];
    }
    sum->booked_wall_ms += one->booked_wall_ms;
    for (uint32_t phase = 0; phase < phase_count; phase++) {
        add_phase(&sum->phase[phase], &one->phase[phase]);
    }
    add_phase(&sum->total, &one->total);
    add_counts(sum, one);
}
