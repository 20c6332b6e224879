/* shim.c: shims and the processes of ranks on a host, as agent/shim promises them: a rank starts at
 * most once, ends are durable before anybody hears of them, and the folder outlives every process.
 * A shim that is killed leaves its ranks alone, and how they end is then known to nobody. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/text.h"

enum {
    SPAWN_MAX_MS = 200,
    TERM_MAX_MS = 300,
    KILL_MAX_MS = 20,
    SWEEP_MAX_MS = 400,
    SIGNAL_KILL = 9,
    SIGNAL_TERM = 15,
};

static uint64_t key_of(uint32_t job, uint32_t attempt)
{
    return (uint64_t)job << 32 | attempt;
}

struct sim_shim *shim_find(struct sim_host *host, uint32_t job, uint32_t attempt)
{
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
        struct sim_shim *shim = &host->shims[index];
        if (shim->used && shim->job == job && shim->attempt == attempt) {
            return shim;
        }
    }
    return NULL;
}

static uint32_t alive_count(const struct sim_shim *shim)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; shim->used && rank < shim->rank_count; rank++) {
        count += shim->ranks[rank].alive ? 1 : 0;
    }
    return count;
}

bool shim_lives(const struct sim_shim *shim)
{
    return alive_count(shim) > 0;
}

void shim_view(const struct sim_shim *shim, struct agent_shim_view *ret_view)
{
    memset(ret_view, 0, sizeof(*ret_view));
    (void)text_copy(ret_view->cluster_id, CLUSTER_ID_SIZE, shim->cluster_id);
    (void)text_copy(ret_view->job_name, NAME_SIZE, shim->job_name);
    ret_view->alive = shim->up;
    ret_view->started = shim->started;
    ret_view->empty = shim->empty;
    ret_view->first_rank = shim->first_rank;
    ret_view->rank_count = shim->rank_count;
    for (uint32_t index = 0; index < shim->rank_count; index++) {
        const struct sim_rank *rank = &shim->ranks[index];
        ret_view->ranks[index].state = rank->state;
        ret_view->ranks[index].after_stop = rank->after_stop;
        ret_view->ranks[index].code = rank->code;
        ret_view->ranks[index].end_sequence = rank->end_sequence;
        ret_view->ranks[index].end_ms = rank->end_ms;
    }
}

/* ---- what the agent hears ---------------------------------------------------------------- */

static void say(struct sim *sim, uint32_t host, uint32_t index, uint8_t kind)
{
    const struct sim_shim *shim = &sim->hosts[host].shims[index];
    struct sim_agent_input *input = agent_input(sim, host, kind);
    input->event.job = shim->job;
    input->event.attempt = shim->attempt;
    input->shim = index;
    if (kind == AGENT_EVENT_ORPHANS) {
        input->event.count = alive_count(shim);
        input->event.ok = true; /* these hosts have cgroups: nothing found is proof */
    }
    agent_wake(sim, host);
}

/* A rank that lost its parent is watched by the agent; with `seen` it ends just now. */
static void say_orphan_ended(struct sim *sim, uint32_t host, uint32_t index, uint32_t rank,
                             bool seen)
{
    const struct sim_shim *shim = &sim->hosts[host].shims[index];
    struct sim_agent_input *input = agent_input(sim, host, AGENT_EVENT_ORPHAN_ENDED);
    input->event.job = shim->job;
    input->event.attempt = shim->attempt;
    input->event.local_rank = rank;
    input->event.ok = seen;
    agent_wake(sim, host);
}

void shim_changed(struct sim *sim, uint32_t host, uint32_t index)
{
    struct sim_host *h = &sim->hosts[host];
    struct sim_shim *shim = &h->shims[index];
    bool connected = shim->attached || shim->by_life == h->agent_life;
    if (h->agent_up && connected && !shim->changed) {
        shim->changed = true;
        say(sim, host, index, AGENT_EVENT_SHIM);
    }
}

/* ---- starting ---------------------------------------------------------------------------- */

static void launch_failed(struct sim *sim, uint32_t host, const struct msg_desired *order,
                          const char *why)
{
    struct sim_agent_input *input = agent_input(sim, host, AGENT_EVENT_LAUNCH_FAILED);
    input->event.job = order->job;
    input->event.attempt = order->attempt;
    (void)text_copy(input->text, sizeof(input->text), why);
    agent_wake(sim, host);
}

/* This place begins anew. */
static void wipe(struct sim_shim *shim)
{
    for (uint32_t rank = 0; rank < RANKS_PER_NODE_MAX; rank++) {
        train_mails_done(&shim->ranks[rank]);
    }
}

void shim_done(struct sim_host *host)
{
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
        wipe(&host->shims[index]);
    }
}

static uint32_t free_place(struct sim_host *host)
{
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
        if (!host->shims[index].used) {
            return index;
        }
    }
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) { /* logs of ended ones may go */
        if (!host->shims[index].up && !shim_lives(&host->shims[index])) {
            return index;
        }
    }
    return SIM_SHIMS_MAX;
}

void shim_start(struct sim *sim, uint32_t host, const struct msg_desired *order)
{
    struct sim_host *h = &sim->hosts[host];
    judge_launch(sim, host, order);
    struct sim_shim *old = shim_find(h, order->job, order->attempt);
    if (old != NULL && old->up) {
        old->by_life = h->agent_life;
        shim_changed(sim, host, (uint32_t)(old - h->shims));
        return;
    }
    uint32_t index = free_place(h);
    if (old != NULL || h->no_launch || index == SIM_SHIMS_MAX) {
        launch_failed(sim, host, order,
                      old != NULL ? "this attempt was begun before" : "no process can be made");
        return;
    }
    struct sim_shim *shim = &h->shims[index];
    wipe(shim);
    *shim = (struct sim_shim){.used = true,
                              .job = order->job,
                              .attempt = order->attempt,
                              .first_rank = order->first_rank,
                              .rank_count = order->rank_count,
                              .by_life = h->agent_life};
    (void)text_copy(shim->cluster_id, CLUSTER_ID_SIZE, order->cluster_id);
    (void)text_copy(shim->job_name, NAME_SIZE, order->job_name);
    shim->train = train_join(sim, host, order);
    sim_at(sim, sim->now_ms + sim_between(sim, 5, SPAWN_MAX_MS),
           (struct sim_event){.kind = SIM_EV_SHIM_UP,
                              .host = host,
                              .index = index,
                              .life = h->boots,
                              .id = key_of(order->job, order->attempt)});
}

void shim_up(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    struct sim_shim *shim = &host->shims[event->index];
    if (!host->up || host->boots != event->life || !shim->used ||
        event->id != key_of(shim->job, shim->attempt)) {
        return;
    }
    if (host->frozen) {
        sim_at(sim, sim->now_ms + SPAWN_MAX_MS, *event);
        return;
    }
    shim->up = true;
    shim->started = true;
    shim->by_life = shim->wanted ? host->agent_life : shim->by_life;
    for (uint32_t index = 0; index < shim->rank_count; index++) {
        shim->ranks[index] = (struct sim_rank){.alive = true,
                                               .state = RANK_RUNNING,
                                               .phase = PHASE_INIT,
                                               .changed_ms = sim->now_ms,
                                               .unread = true};
    }
    judge_started(sim, event->host, shim);
    if (sim_mutate(sim, SIM_START_TWICE)) {
        judge_started(sim, event->host, shim);
    }
    shim_changed(sim, event->host, event->index);
    train_look(sim, shim->train);
}

/* ---- ends -------------------------------------------------------------------------------- */

void shim_rank_end(struct sim *sim, uint32_t host, uint32_t index, uint32_t rank, uint8_t state,
                   int32_t code, uint64_t after_ms)
{
    const struct sim_shim *shim = &sim->hosts[host].shims[index];
    sim_at(sim, sim->now_ms + after_ms,
           (struct sim_event){.kind = SIM_EV_RANK_END,
                              .what = state,
                              .code = code,
                              .host = host,
                              .index = index,
                              .rank = rank,
                              .life = sim->hosts[host].boots,
                              .id = key_of(shim->job, shim->attempt)});
}

static void plan_look(struct sim *sim, uint32_t host, uint32_t index, bool sweep, uint64_t after_ms)
{
    const struct sim_shim *shim = &sim->hosts[host].shims[index];
    sim_at(sim, sim->now_ms + after_ms,
           (struct sim_event){.kind = SIM_EV_SHIM_LOOK,
                              .what = sweep ? 1 : 0,
                              .host = host,
                              .index = index,
                              .life = sim->hosts[host].boots,
                              .id = key_of(shim->job, shim->attempt)});
}

void shim_rank_gone(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    struct sim_shim *shim = &host->shims[event->index];
    struct sim_rank *rank = &shim->ranks[event->rank];
    if (host->boots != event->life || !shim->used ||
        event->id != key_of(shim->job, shim->attempt) || !rank->alive) {
        return;
    }
    if (host->frozen) { /* a stopped process does not act on it yet */
        sim_at(sim, sim->now_ms + SPAWN_MAX_MS, *event);
        return;
    }
    rank->alive = false;
    if (shim->up) {
        rank->state = event->what;
        rank->code = event->code;
        rank->after_stop = shim->told;
        rank->end_sequence = ++shim->end_sequence;
        rank->end_ms = sim->now_ms - host->boot_ms + 1000; /* the host's own clock: agent.c */
        shim_changed(sim, event->host, event->index);
        if (!shim_lives(shim)) {
            plan_look(sim, event->host, event->index, false, sim_between(sim, 1, KILL_MAX_MS));
        }
    } else if (host->agent_up) {
        say_orphan_ended(sim, event->host, event->index, event->rank, true);
    }
    train_look(sim, shim->train);
}

void shim_look(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    struct sim_shim *shim = &host->shims[event->index];
    if (host->boots != event->life || !host->up || !shim->used ||
        event->id != key_of(shim->job, shim->attempt)) {
        return;
    }
    if (host->frozen) {
        sim_at(sim, sim->now_ms + SPAWN_MAX_MS, *event);
        return;
    }
    if (event->what != 0) {
        if (host->agent_up) {
            say(sim, event->host, event->index, AGENT_EVENT_ORPHANS);
        }
        return;
    }
    bool lies = shim->up && shim->told && shim_lives(shim) && sim_mutate(sim, SIM_KEEP_OLD);
    if (lies || (shim->up && !shim_lives(shim))) {
        shim->empty = true;
        shim->up = false;
        shim_changed(sim, event->host, event->index);
    }
}

void shim_die(struct sim *sim, uint32_t host, uint32_t index)
{
    struct sim_host *h = &sim->hosts[host];
    struct sim_shim *shim = &h->shims[index];
    CHECK(shim->up);
    shim->up = false;
    if (h->agent_up && (shim->attached || shim->by_life == h->agent_life)) {
        say(sim, host, index, AGENT_EVENT_SHIM_LOST);
    }
}

/* ---- orders ------------------------------------------------------------------------------ */

static void signal_ranks(struct sim *sim, uint32_t host, struct sim_shim *shim, bool kill)
{
    uint32_t index = (uint32_t)(shim - sim->hosts[host].shims);
    bool deaf = shim->unkillable || (!kill && shim->stubborn);
    for (uint32_t rank = 0; rank < shim->rank_count && !deaf; rank++) {
        if (!shim->ranks[rank].alive || (!kill && shim->ranks[rank].hung)) {
            continue;
        }
        shim_rank_end(sim, host, index, rank, RANK_SIGNALED, kill ? SIGNAL_KILL : SIGNAL_TERM,
                      sim_between(sim, 1, kill ? KILL_MAX_MS : TERM_MAX_MS));
    }
}

void shim_signal(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt, bool kill)
{
    struct sim_host *h = &sim->hosts[host];
    judge_stopped(sim, host, job, attempt);
    struct sim_shim *shim = shim_find(h, job, attempt);
    if (shim == NULL) {
        return;
    }
    uint32_t index = (uint32_t)(shim - h->shims);
    if (!shim->up) {
        say(sim, host, index, shim->empty ? AGENT_EVENT_SHIM : AGENT_EVENT_SHIM_LOST);
        return;
    }
    shim->told = true;
    if (sim->options.mutation == SIM_KEEP_OLD && !sim->mutated && shim_lives(shim)) {
        plan_look(sim, host, index, false, 1); /* it will say "empty" although it is not */
        return;
    }
    signal_ranks(sim, host, shim, kill);
    if (!shim_lives(shim)) {
        plan_look(sim, host, index, false, 1);
    }
}

/* Nothing of this attempt can begin any more. */
static void bar(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt)
{
    struct sim_host *h = &sim->hosts[host];
    uint32_t index = free_place(h);
    CHECK(index < SIM_SHIMS_MAX);
    wipe(&h->shims[index]);
    h->shims[index] =
        (struct sim_shim){.used = true, .barred = true, .job = job, .attempt = attempt};
    plan_look(sim, host, index, true, 5);
}

void shim_sweep(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt)
{
    struct sim_host *h = &sim->hosts[host];
    judge_stopped(sim, host, job, attempt);
    struct sim_shim *shim = shim_find(h, job, attempt);
    if (shim == NULL) {
        bar(sim, host, job, attempt);
        return;
    }
    uint32_t index = (uint32_t)(shim - h->shims);
    if (!shim->started && !shim->barred) {
        shim->wanted = true; /* a launch under way is waited for */
        return;
    }
    if (shim->up) { /* a living shim owns them: connected to anew instead */
        shim->attached = false;
        shim->by_life = h->agent_life;
        say(sim, host, index, AGENT_EVENT_SHIM);
        return;
    }
    signal_ranks(sim, host, shim, true);
    plan_look(sim, host, index, true, sim_between(sim, TERM_MAX_MS, SWEEP_MAX_MS));
}

void shim_scan(struct sim *sim, uint32_t host, uint32_t job)
{
    sim_at(sim, sim->now_ms + sim_between(sim, 2, 100),
           (struct sim_event){.kind = SIM_EV_SCANNED,
                              .host = host,
                              .index = job,
                              .life = sim->hosts[host].agent_life});
}

void shim_scanned(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
        struct sim_shim *shim = &host->shims[index];
        if (!shim->used || (event->index != 0 && shim->job != event->index)) {
            continue;
        }
        if (shim->started) {
            say(sim, event->host, index, AGENT_EVENT_SHIM);
        }
        if (!shim->up && !shim->empty && shim->started) {
            say(sim, event->host, index, AGENT_EVENT_SHIM_LOST);
            for (uint32_t rank = 0; rank < shim->rank_count; rank++) {
                if (!shim->ranks[rank].alive && shim->ranks[rank].state == RANK_RUNNING) {
                    say_orphan_ended(sim, event->host, index, rank, false);
                }
            }
            say(sim, event->host, index, AGENT_EVENT_ORPHANS);
        }
    }
    agent_input(sim, event->host, AGENT_EVENT_SCANNED)->event.job = event->index;
    agent_wake(sim, event->host);
}

void shim_forget(struct sim *sim, uint32_t host, uint32_t job, uint32_t attempt)
{
    struct sim_shim *shim = shim_find(&sim->hosts[host], job, attempt);
    if (shim != NULL && !shim->up && !shim_lives(shim)) {
        shim->used = false;
    }
}

/* All processes are gone at once; what was recorded stays, unless the disk went too. */
void shim_host_down(struct sim *sim, uint32_t host, bool wiped)
{
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
        struct sim_shim *shim = &sim->hosts[host].shims[index];
        if (!shim->used) {
            continue;
        }
        for (uint32_t rank = 0; rank < RANKS_PER_NODE_MAX; rank++) {
            shim->ranks[rank].alive = false;
        }
        bool began = shim->started || shim->barred;
        shim->up = false;
        shim->used = began && !wiped;
        if (shim->started) {
            train_look(sim, shim->train);
        }
    }
}
