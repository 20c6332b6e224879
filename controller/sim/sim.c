/* sim.c: the world as a whole: made, run, judged, freed. */
#include "controller/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/core/layout.h"
#include "controller/sim/world.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { BEGIN_MS = 1000000 }; /* no clock begins at 0 */

#define X(upper, word) word,
const char *const sim_fault_words[] = {SIM_FAULTS(X)};
const char *const sim_verb_words[] = {SIM_VERBS(X)};
const char *const sim_judge_words[] = {SIM_JUDGES(X)};
const char *const sim_situation_words[] = {SIM_SITUATIONS(X)};
#undef X
const char *const sim_phase_words[] = {"stop", "plan",    "check",     "launch",
                                       "init", "restore", "first_step"};

/* ---- trace and objections ---------------------------------------------------------------- */

static void keep_line(struct sim *sim, const char *line)
{
    (void)text_copy(sim->lines[sim->line_count % SIM_TRACE_LINES], SIM_LINE_SIZE, line);
    sim->line_count++;
    if (sim->options.line != NULL) {
        sim->options.line(sim->options.line_context, line);
    }
}

void sim_trace(struct sim *sim, const char *format, ...)
{
    char text[SIM_LINE_SIZE - 16];
    char line[SIM_LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)text_format(line, sizeof(line), "[%9llu] %s",
                      (unsigned long long)(sim->now_ms - BEGIN_MS), text);
    keep_line(sim, line);
}

void sim_object(struct sim *sim, enum sim_judge judge, const char *format, ...)
{
    if (sim->over) {
        return;
    }
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    sim->over = true;
    sim->judge = judge;
    bool live =
        judge == SIM_JUDGE_LIVE || judge == SIM_JUDGE_RESUMES || judge == SIM_JUDGE_ANSWERED;
    sim->result = live ? SIM_LIVENESS : SIM_SAFETY;
    (void)text_format(sim->text, sizeof(sim->text), "%s: %s", sim_judge_words[judge], text);
    sim_trace(sim, "OBJECTION %s", sim->text);
}

const char *sim_trace_line(const struct sim *sim, uint32_t index)
{
    uint64_t count = sim->line_count < SIM_TRACE_LINES ? sim->line_count : SIM_TRACE_LINES;
    if (index >= count) {
        return NULL;
    }
    return sim->lines[(sim->line_count - count + index) % SIM_TRACE_LINES];
}

bool sim_mutate(struct sim *sim, enum sim_mutation mutation)
{
    if (sim->options.mutation != mutation || sim->mutated) {
        return false;
    }
    sim->mutated = true;
    sim_trace(sim, "mutation %d strikes", (int)mutation);
    return true;
}

uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high)
{
    return prng_between(&sim->prng, low, high);
}

bool sim_chance(struct sim *sim, uint32_t ppm)
{
    return prng_chance_ppm(&sim->prng, ppm);
}

const struct sim_stats *sim_stats_of(const struct sim *sim)
{
    return &sim->stats;
}

uint64_t sim_digest(const struct sim *sim)
{
    uint64_t hash = HASH_INIT;
    for (uint64_t index = 0; index < sim->ctl.durable; index++) {
        hash = record_digest(hash, &sim->ctl.journal[index]);
    }
    return hash;
}

const char *sim_result_text(const struct sim *sim)
{
    return sim->text;
}

enum sim_judge sim_result_judge(const struct sim *sim)
{
    return sim->judge;
}

/* ---- making and freeing ------------------------------------------------------------------ */

static void make_host(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    const struct sim_options *options = &sim->options;
    host->rack = index / options->hosts_per_rack;
    host->leaf = host->rack / options->racks_per_leaf;
    host->feed = host->rack % 2;
    (void)text_format(host->name, sizeof(host->name), "gpu-%04u", index);
    (void)text_format(host->address, sizeof(host->address), "10.0.%u.%u", index / SIM_HOSTS_PER_NET,
                      index % SIM_HOSTS_PER_NET + 1);
    host->wall_offset = (int64_t)sim_between(sim, 0, 4000) - 2000;
    host_up(sim, index);
}

static void make_limits(struct sim *sim)
{
    sim->core_limits = core_limits_default;
    sim->core_limits.agents = sim->options.hosts + 4;
    sim->core_limits.jobs = SIM_JOBS_MAX + 4;
    const uint32_t slots = sim->options.hosts * 4;
    sim->core_limits.slots = slots < 2 * LAYOUT_SLOTS_MAX ? slots : 2 * LAYOUT_SLOTS_MAX;
    sim->core_limits.incidents = 64;
    sim->core_limits.facts = 1024;
    sim->core_limits.recoveries = 64;
    sim->core_limits.checkpoints = 128;
    sim->core_limits.foreign = 64;
    sim->core_limits.pending_records = 16; /* reached when the disk is full for long */
    agent_limits_default(&sim->agent_limits);
    sim->agent_limits.exchange_keys = 2;
    sim->agent_limits.exchange_gets = 2;
    sim->agent_limits.checkpoints = 32;
    sim->agent_limits.facts = 16;
}

struct sim *sim_create(const struct sim_options *options)
{
    CHECK(options->hosts > 0);
    CHECK(options->hosts <= SIM_HOSTS_MAX);
    CHECK(options->jobs <= SIM_JOBS_MAX);
    struct sim *sim = mem_alloc(1, sizeof(*sim));
    sim->options = *options;
    sim->now_ms = BEGIN_MS;
    prng_seed(&sim->prng, options->seed);
    sim_queue_init(&sim->queue, options->hosts);
    make_limits(sim);
    int result = agent_output_create(&sim->agent_limits, &sim->agent_output);
    CHECK(result == 0);
    sim->host_count = options->hosts;
    sim->hosts = mem_alloc(sim->host_count, sizeof(sim->hosts[0]));
    sim->conn_next = 1;
    sim->ctl.wall_offset = 1764000000000;
    ctl_start(sim);
    for (uint32_t index = 0; index < sim->host_count; index++) {
        make_host(sim, index);
    }
    for (uint32_t index = 0; index < options->jobs; index++) {
        operator_submit(sim, index);
    }
    return sim;
}

struct sim *sim_free(struct sim *sim)
{
    if (sim == NULL) {
        return NULL;
    }
    ctl_done(sim);
    for (uint32_t index = 0; index < sim->host_count; index++) {
        agent_done(sim, index);
        shim_done(&sim->hosts[index]);
        mem_free(sim->hosts[index].journal);
        mem_free(sim->hosts[index].pending);
    }
    net_done(sim);
    (void)agent_output_free(sim->agent_output);
    sim_queue_done(&sim->queue);
    mem_free(sim->hosts);
    for (uint32_t index = 0; index < sim->start_count; index++) {
        mem_free(sim->starts[index].counts);
    }
    mem_free(sim->starts);
    mem_free(sim);
    return NULL;
}

/* ---- running ----------------------------------------------------------------------------- */

static void step_controller(struct sim *sim, const struct sim_event *event)
{
    switch ((enum sim_event_kind)event->kind) {
    case SIM_EV_CTL_START:
        if (!sim->ctl.running) {
            ctl_start(sim);
        }
        return;
    case SIM_EV_CTL_TURN:
        ctl_turn(sim);
        return;
    case SIM_EV_CTL_TICK:
        ctl_tick(sim, event);
        return;
    case SIM_EV_CTL_COMMIT:
        ctl_commit_end(sim, event);
        return;
    case SIM_EV_CTL_PINGED:
        ctl_input(sim, SIM_IN_PINGED, event->id, event->what != 0, NULL);
        return;
    default:
        CHECK(false);
    }
}

static void step_agent(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    if (event->kind == SIM_EV_AGENT_START) {
        if (host->up && !host->agent_up && event->life == host->boots) {
            agent_start(sim, event->host);
        }
        return;
    }
    if (!host->agent_up || event->life != host->agent_life) {
        return; /* for a process that is gone */
    }
    switch ((enum sim_event_kind)event->kind) {
    case SIM_EV_AGENT_TURN:
        agent_turn(sim, event->host);
        return;
    case SIM_EV_AGENT_TICK:
        agent_tick(sim, event);
        return;
    case SIM_EV_AGENT_COMMIT:
        agent_commit_end(sim, event->host);
        return;
    case SIM_EV_AGENT_POLL:
        agent_poll(sim, event);
        return;
    case SIM_EV_SCANNED:
        shim_scanned(sim, event);
        return;
    case SIM_EV_VALIDATED: {
        struct sim_agent_input *input = agent_input(sim, event->host, AGENT_EVENT_VALIDATED);
        input->event.nonce = event->id;
        input->event.ok = !host->bad_check;
        agent_wake(sim, event->host);
        return;
    }
    case SIM_EV_CHECKED: {
        struct sim_agent_input *input = agent_input(sim, event->host, AGENT_EVENT_CHECKED);
        input->event.nonce = event->id;
        input->event.ok = !host->bad_check && sim->now_ms >= sim->storage_ms;
        input->event.port_free = !host->port_taken;
        agent_wake(sim, event->host);
        return;
    }
    default:
        CHECK(false);
    }
}

/* What comes from outside: faults and their end, people, the end of all. */
static void step_fate(struct sim *sim, const struct sim_event *event)
{
    switch ((enum sim_event_kind)event->kind) {
    case SIM_EV_FAULT:
        fault_strike(sim);
        return;
    case SIM_EV_OPERATOR:
        operator_act(sim);
        return;
    case SIM_EV_UNDO:
        fault_undo(sim, event);
        return;
    case SIM_EV_AIM:
        aim_strike(sim, event);
        return;
    case SIM_EV_FLAP:
        fault_flap(sim, event);
        return;
    case SIM_EV_HEAL:
        fault_heal(sim);
        return;
    case SIM_EV_HOOK:
        hook_end(sim, event);
        return;
    case SIM_EV_END:
        judge_live(sim);
        return;
    default:
        CHECK(false);
    }
}

void sim_step_world(struct sim *sim, const struct sim_event *event)
{
    switch ((enum sim_event_kind)event->kind) {
    case SIM_EV_PUMP:
        net_pump(sim, event);
        return;
    case SIM_EV_UNACKED:
        net_unacked(sim, event);
        return;
    case SIM_EV_DIALED:
        net_dialed(sim, event);
        return;
    case SIM_EV_PROBE:
    case SIM_EV_PROBE_OVER:
    case SIM_EV_PROBE_BACK:
        net_probe_event(sim, event);
        return;
    case SIM_EV_HOST_UP:
        if (!sim->hosts[event->host].up && event->life == sim->hosts[event->host].boots &&
            !sim->hosts[event->host].broken) {
            host_up(sim, event->host);
        }
        return;
    case SIM_EV_SHIM_UP:
        shim_up(sim, event);
        return;
    case SIM_EV_RANK_END:
        shim_rank_gone(sim, event);
        return;
    case SIM_EV_SHIM_LOOK:
        shim_look(sim, event);
        return;
    case SIM_EV_TRAIN:
        train_event(sim, event);
        return;
    case SIM_EV_FAULT:
    case SIM_EV_OPERATOR:
    case SIM_EV_UNDO:
    case SIM_EV_AIM:
    case SIM_EV_FLAP:
    case SIM_EV_HOOK:
    case SIM_EV_HEAL:
    case SIM_EV_END:
        step_fate(sim, event);
        return;
    case SIM_EV_CTL_START:
    case SIM_EV_CTL_TURN:
    case SIM_EV_CTL_TICK:
    case SIM_EV_CTL_COMMIT:
    case SIM_EV_CTL_PINGED:
        step_controller(sim, event);
        return;
    case SIM_EV_AGENT_START:
    case SIM_EV_AGENT_TURN:
    case SIM_EV_AGENT_TICK:
    case SIM_EV_AGENT_COMMIT:
    case SIM_EV_AGENT_POLL:
    case SIM_EV_SCANNED:
    case SIM_EV_CHECKED:
    case SIM_EV_VALIDATED:
        step_agent(sim, event);
        return;
    }
    CHECK(false);
}

enum sim_result sim_run(struct sim *sim)
{
    uint64_t start_ms = sim->now_ms;
    if (!sim->scripted) {
        sim_at(sim, start_ms + sim_between(sim, 5000, 30000),
               (struct sim_event){.kind = SIM_EV_FAULT});
        sim_at(sim, start_ms + sim_between(sim, 5000, 60000),
               (struct sim_event){.kind = SIM_EV_OPERATOR});
        sim_at(sim, start_ms + sim->options.chaos_ms, (struct sim_event){.kind = SIM_EV_HEAL});
    }
    sim_at(sim, start_ms + sim->options.chaos_ms + sim->options.healed_ms,
           (struct sim_event){.kind = SIM_EV_END});
    struct sim_event event;
    while (!sim->over && sim_next(sim, &event)) {
        sim->stats.events++;
        sim_step_world(sim, &event);
        if (sim->script != NULL && !sim->over) {
            sim->script(sim);
        }
        if (sim->healed && !sim->over && live_all_over(sim)) {
            judge_live(sim);
        }
    }
    sim->stats.virtual_ms = sim->now_ms - start_ms;
    return sim->result;
}
