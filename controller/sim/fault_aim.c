/* fault_aim.c: what strikes recoveries in flight. Each phase that begins may be struck a moment
 * later, in that very phase or in one that it leads to: so short phases are struck as often as long
 * ones, by hosts that die one after the other, by spares that are dead when they are taken, and by
 * people who drain and cancel. */
#include "controller/sim/world.h"

enum {
    AIM_MAX_MS = 400,   /* after the phase began */
    LATE_OFTEN = 8,     /* few recoveries come so far unhurt */
    MORE_MAX_MS = 3000, /* until further hosts follow */
    STALE_MIN_MS = 300000,
    STALE_MAX_MS = 330000,
    BACK_MIN_MS = 20000,
    BACK_MAX_MS = 300000,
};

void aim_phase(struct sim *sim, uint32_t job, uint8_t phase)
{
    CHECK(sim->options.aim_ppm <= 1000000 / LATE_OFTEN);
    uint32_t often = phase >= PHASE_RESTORING ? LATE_OFTEN : 1;
    if (sim->healed || sim->scripted || !sim_chance(sim, sim->options.aim_ppm * often)) {
        return;
    }
    sim_at(sim, sim->now_ms + sim_between(sim, 0, AIM_MAX_MS),
           (struct sim_event){.kind = SIM_EV_AIM, .index = job, .what = phase});
}

/* A host that holds a slot of the job and is up; fresh: one that came in for the newest attempt.
 * SIM_HOSTS_MAX: there is none. */
static uint32_t pick_holder(struct sim *sim, const struct sim_shadow_job *job, bool fresh)
{
    uint32_t start = (uint32_t)sim_between(sim, 0, job->slot_count - 1);
    for (uint32_t step = 0; step < job->slot_count; step++) {
        uint32_t node = job->holders[(start + step) % job->slot_count];
        const struct sim_shadow_node *shadow = &sim->shadow.nodes[node];
        bool suits = node != 0 && sim->hosts[shadow->host].up &&
                     (!fresh || (job->attempt > 0 && shadow->since_attempt == job->attempt));
        if (suits) {
            return shadow->host;
        }
    }
    return SIM_HOSTS_MAX;
}

/* A job whose recovery is open; NULL: there is none. */
static struct sim_shadow_job *pick_recovering(struct sim *sim)
{
    uint32_t count = ARRAY_SIZE(sim->shadow.jobs);
    uint32_t start = (uint32_t)sim_between(sim, 0, count - 1);
    for (uint32_t step = 0; step < count; step++) {
        struct sim_shadow_job *job = &sim->shadow.jobs[(start + step) % count];
        if (job->used && job->recovery != 0 && job->slot_count > 0) {
            return job;
        }
    }
    return NULL;
}

static bool one_more(struct sim *sim, const struct sim_shadow_job *job)
{
    uint32_t host = pick_holder(sim, job, false);
    if (host == SIM_HOSTS_MAX) {
        return false;
    }
    if (sim_chance(sim, 500000) && sim->hosts[host].agent_up) {
        kill_node(sim, host, sim_between(sim, 500, 15000));
    } else {
        host_down(sim, host, sim_between(sim, BACK_MIN_MS, BACK_MAX_MS), false, "amid a recovery");
    }
    return true;
}

static bool more_failures(struct sim *sim)
{
    const struct sim_shadow_job *job = pick_recovering(sim);
    if (job == NULL || !one_more(sim, job)) {
        return false;
    }
    if (sim_chance(sim, 400000)) { /* and a third one, a little later */
        sim_at(sim, sim->now_ms + sim_between(sim, 0, MORE_MAX_MS),
               (struct sim_event){.kind = SIM_EV_AIM, .index = job->job, .what = SIM_PHASE_COUNT});
    }
    return true;
}

/* One that was taken for the attempt to come, or a free one: dead on arrival. */
static bool spare_dead(struct sim *sim)
{
    const struct sim_shadow_job *job = pick_recovering(sim);
    uint32_t host = job == NULL ? SIM_HOSTS_MAX : pick_holder(sim, job, true);
    uint32_t start = (uint32_t)sim_between(sim, 0, sim->host_count - 1);
    for (uint32_t step = 0; step < sim->host_count && host == SIM_HOSTS_MAX; step++) {
        uint32_t index = (start + step) % sim->host_count;
        const struct sim_shadow_node *node = &sim->shadow.nodes[sim->shadow.node_of_host[index]];
        bool free_life = node->life == NODE_READY || node->life == NODE_PROBATION;
        host = node->known && free_life && sim->hosts[index].up ? index : SIM_HOSTS_MAX;
    }
    if (host == SIM_HOSTS_MAX) {
        return false;
    }
    host_down(sim, host, sim_between(sim, BACK_MIN_MS, BACK_MAX_MS), false, "a dead spare");
    return true;
}

/* Cut off from everybody for longer than anybody waits, its ranks alive all the time. */
static bool stale_attempt(struct sim *sim)
{
    uint32_t host = fault_pick_host(sim);
    bool runs = false;
    for (uint32_t s = 0; host != SIM_HOSTS_MAX && s < SIM_SHIMS_MAX; s++) {
        runs = runs || shim_lives(&sim->hosts[host].shims[s]);
    }
    if (!runs || sim->hosts[host].island != 0) {
        return false;
    }
    sim->hosts[host].island = host + 1;
    fault_undo_later(sim, SIM_CUT_GROUP, host, sim_between(sim, STALE_MIN_MS, STALE_MAX_MS));
    sim_trace(sim, "stale-attempt: %s is out of reach for 5 min", sim->hosts[host].name);
    net_changed(sim, host);
    return true;
}

bool aim_do(struct sim *sim, enum sim_fault fault)
{
    switch (fault) {
    case SIM_MORE_FAILURES:
        return more_failures(sim);
    case SIM_SPARE_DEAD:
        return spare_dead(sim);
    default:
        CHECK(fault == SIM_STALE_ATTEMPT);
        return stale_attempt(sim);
    }
}

static void strike_with(struct sim *sim, enum sim_fault fault)
{
    if (sim->options.weight[fault] > 0 && aim_do(sim, fault)) {
        sim->stats.struck[fault]++;
    }
}

void aim_strike(struct sim *sim, const struct sim_event *event)
{
    struct sim_shadow_job *job = shadow_job(sim, event->index);
    if (sim->healed || job == NULL || job->recovery == 0) {
        return;
    }
    if (event->what == SIM_PHASE_COUNT) { /* the third */
        (void)one_more(sim, job);
        return;
    }
    uint64_t drawn = sim_between(sim, 0, 99);
    if (drawn < 30) {
        strike_with(sim, SIM_MORE_FAILURES);
    } else if (drawn < 50) {
        strike_with(sim, SIM_SPARE_DEAD);
    } else if (drawn < 75) {
        (void)fault_draw(sim);
    } else if (drawn < 94 && sim->options.verb_weight[SIM_DO_DRAIN] > 0) {
        uint32_t host = pick_holder(sim, job, sim_chance(sim, 300000));
        if (host != SIM_HOSTS_MAX && sim->ctl.running) {
            operator_drain(sim, sim->shadow.node_of_host[host]);
        }
    } else if (sim->options.verb_weight[SIM_DO_CANCEL] > 0 && sim->ctl.running) {
        operator_cancel(sim, job->job);
    }
}
