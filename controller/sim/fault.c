/* fault.c: what goes wrong, one function a fault. Each says whether it struck: one that found
 * nobody to strike does not count. They aim: while a recovery runs they come ten times as often. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    AIM = 10,
    STALL_MS = 40000,
    WALL_BACK_MS = 700000,
    WALL_DAY_MS = 86400000,
    HEAL_LOOK_MS = 60000,
    CLOG_MAX_MS = 5000,
    FLAP_MAX_MS = 3000,
};

void fault_undo_later(struct sim *sim, enum sim_fault fault, uint32_t host, uint64_t after_ms)
{
    sim->hosts[host].trouble_ms = sim->now_ms;
    sim_at(sim, sim->now_ms + after_ms,
           (struct sim_event){.kind = SIM_EV_UNDO,
                              .what = (uint8_t)fault,
                              .host = host,
                              .life = sim->hosts[host].boots});
}

/* ---- hosts ------------------------------------------------------------------------------- */

void host_up(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    host->up = true;
    host->trouble_ms = sim->now_ms;
    host->frozen = false;
    host->boots++;
    host->boot_ms = sim->now_ms - sim_between(sim, 1000, 20000);
    (void)text_format(host->boot_id, sizeof(host->boot_id), "%08x-0000-4000-8000-%012llx", index,
                      (unsigned long long)host->boots);
    net_changed(sim, index);
    sim_at(sim, sim->now_ms + sim_between(sim, 10, 2000),
           (struct sim_event){.kind = SIM_EV_AGENT_START, .host = index, .life = host->boots});
}

void host_down(struct sim *sim, uint32_t index, uint64_t back_ms, bool wiped, const char *why)
{
    struct sim_host *host = &sim->hosts[index];
    if (!host->up) {
        return;
    }
    sim_trace(sim, "%s goes down: %s", host->name, why);
    host->trouble_ms = sim->now_ms;
    net_drop_all(sim, index); /* first: nobody hears a farewell */
    host->conn = 0;
    agent_die(sim, index, "with its host");
    host->up = false;
    shim_host_down(sim, index, wiped);
    if (wiped) {
        host->record_count = 0;
    }
    sim_at(sim, sim->now_ms + back_ms,
           (struct sim_event){.kind = SIM_EV_HOST_UP, .host = index, .life = host->boots});
}

/* A host with ranks of a job, three times of four; else any that is up. SIM_HOSTS_MAX: none. */
uint32_t fault_pick_host(struct sim *sim)
{
    bool busy = sim_chance(sim, 750000);
    uint32_t start = (uint32_t)sim_between(sim, 0, sim->host_count - 1);
    for (uint32_t step = 0; step < 2 * sim->host_count; step++) {
        uint32_t index = (start + step) % sim->host_count;
        const struct sim_host *host = &sim->hosts[index];
        bool runs = false;
        for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
            runs = runs || shim_lives(&host->shims[s]);
        }
        if (host->up && !host->frozen && (runs || !busy || step >= sim->host_count)) {
            return index;
        }
    }
    return SIM_HOSTS_MAX;
}

/* A shim with living ranks, on any host that is up. false: there is none. */
static bool pick_shim(struct sim *sim, uint32_t *ret_host, uint32_t *ret_shim)
{
    uint32_t start = (uint32_t)sim_between(sim, 0, sim->host_count * SIM_SHIMS_MAX - 1);
    for (uint32_t step = 0; step < sim->host_count * SIM_SHIMS_MAX; step++) {
        uint32_t at = (start + step) % (sim->host_count * SIM_SHIMS_MAX);
        const struct sim_host *host = &sim->hosts[at / SIM_SHIMS_MAX];
        const struct sim_shim *shim = &host->shims[at % SIM_SHIMS_MAX];
        if (host->up && shim->up && shim_lives(shim)) {
            *ret_host = at / SIM_SHIMS_MAX;
            *ret_shim = at % SIM_SHIMS_MAX;
            return true;
        }
    }
    return false;
}

static uint32_t pick_alive(struct sim *sim, const struct sim_shim *shim)
{
    uint32_t rank = (uint32_t)sim_between(sim, 0, shim->rank_count - 1);
    while (!shim->ranks[rank].alive) {
        rank = (rank + 1) % shim->rank_count;
    }
    return rank;
}

/* Hosts of one rack, leaf or feed, the way `by` says. */
static bool same_group(const struct sim *sim, uint32_t a, uint32_t b, uint64_t by)
{
    const struct sim_host *left = &sim->hosts[a];
    const struct sim_host *right = &sim->hosts[b];
    return by == 0   ? left->rack == right->rack
           : by == 1 ? left->leaf == right->leaf
                     : left->feed == right->feed;
}

/* Most of the hosts at once, whatever their racks: it is the controller that is cut off. */
static bool do_many(struct sim *sim)
{
    uint64_t part = sim_between(sim, 400000, 950000);
    uint64_t time_ms = sim_between(sim, 3000, sim_chance(sim, 100000) ? 720000 : 60000);
    uint32_t count = 0;
    for (uint32_t index = 0; index < sim->host_count; index++) {
        struct sim_host *host = &sim->hosts[index];
        if (host->up && sim_chance(sim, (uint32_t)part)) {
            host->cut_up = true;
            host->cut_down = sim_chance(sim, 800000);
            fault_undo_later(sim, SIM_CUT_BOTH, index, time_ms);
            count++;
        }
    }
    sim_trace(sim, "cut-many: %u hosts for %llu ms", count, (unsigned long long)time_ms);
    net_changed(sim, NET_ALL);
    return count > 0;
}

static bool do_group(struct sim *sim, enum sim_fault fault)
{
    uint32_t first = fault_pick_host(sim);
    uint64_t by = sim_between(sim, 0, 9);
    by = by < 6 ? 0 : by < 9 ? 1 : 2;
    uint64_t time_ms = sim_between(sim, 2000, 120000);
    uint32_t count = 0;
    if (first == SIM_HOSTS_MAX) {
        return false;
    }
    uint32_t island = first + 1;
    for (uint32_t index = 0; index < sim->host_count; index++) {
        if (!same_group(sim, first, index, by) || !sim->hosts[index].up) {
            continue;
        }
        count++;
        if (fault == SIM_RACK_DEATH) {
            host_down(sim, index, sim_between(sim, 20000, 300000), false, "its rack lost power");
        } else {
            sim->hosts[index].island = island;
            fault_undo_later(sim, fault, index, time_ms);
        }
    }
    sim_trace(sim, "%s: %u hosts around %s for %llu ms", sim_fault_words[fault], count,
              sim->hosts[first].name, (unsigned long long)time_ms);
    net_changed(sim, NET_ALL);
    return true;
}

static void freeze(struct sim *sim, uint32_t index, bool frozen)
{
    struct sim_host *host = &sim->hosts[index];
    host->frozen = frozen;
    for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
        if (host->shims[s].used && host->shims[s].started) {
            train_look(sim, host->shims[s].train);
        }
    }
}

static bool do_host(struct sim *sim, enum sim_fault fault)
{
    uint32_t index = fault_pick_host(sim);
    if (index == SIM_HOSTS_MAX) {
        return false;
    }
    struct sim_host *host = &sim->hosts[index];
    uint64_t time_ms = sim_between(sim, 1000, sim_chance(sim, 300000) ? 400000 : 30000);
    switch (fault) {
    case SIM_HOST_DEATH:
        host->broken = sim_chance(sim, 200000); /* its repair may take longer than all this */
        host_down(sim, index, sim_between(sim, 60000, 600000), false, "dead");
        return true;
    case SIM_HOST_REBOOT:
    case SIM_HOST_WIPED:
        host_down(sim, index, sim_between(sim, 1000, 180000), fault == SIM_HOST_WIPED,
                  fault == SIM_HOST_WIPED ? "reinstalled" : "reboots");
        return true;
    case SIM_HOST_FREEZE:
        freeze(sim, index, true);
        break;
    case SIM_LAUNCH_FAIL:
        host->no_launch = true;
        break;
    case SIM_BAD_SPARE:
        host->bad_check = true;
        break;
    case SIM_PORT_TAKEN:
        host->port_taken = true;
        break;
    case SIM_LINK_SLOW:
        host->slow_ms = sim_between(sim, 50, 1500);
        break;
    case SIM_LINK_FLAP:
        host->flap_ms = sim->now_ms + time_ms;
        sim_at(sim, sim->now_ms,
               (struct sim_event){.kind = SIM_EV_FLAP, .host = index, .life = host->flap_ms});
        break;
    case SIM_LINK_CLOG:
        time_ms = sim_between(sim, 500, CLOG_MAX_MS);
        host->cut_up = true;
        host->cut_down = sim_chance(sim, 500000);
        break;
    case SIM_CUT_BOTH:
        host->cut_up = true;
        host->cut_down = true;
        break;
    case SIM_CUT_UP:
        host->cut_up = true;
        break;
    case SIM_CUT_DOWN:
        host->cut_down = true;
        break;
    default:
        CHECK(false);
    }
    sim_trace(sim, "%s: %s for %llu ms", sim_fault_words[fault], host->name,
              (unsigned long long)time_ms);
    fault_undo_later(sim, fault, index, time_ms);
    net_changed(sim, index);
    return true;
}

void fault_flap(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    if (sim->healed || host->flap_ms != event->life) {
        return;
    }
    bool over = sim->now_ms >= host->flap_ms;
    host->cut_up = !over && !host->cut_up;
    host->cut_down = host->cut_up;
    host->trouble_ms = sim->now_ms;
    net_changed(sim, event->host);
    if (!over) {
        sim_at(sim, sim->now_ms + sim_between(sim, 200, FLAP_MAX_MS), *event);
    }
    for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
        if (host->shims[s].used && host->shims[s].started) {
            train_look(sim, host->shims[s].train);
        }
    }
}

/* ---- agents ------------------------------------------------------------------------------ */

static void kill_ranks(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
        struct sim_shim *shim = &host->shims[s];
        if (shim->used && shim->up) {
            shim_die(sim, index, s);
        }
        for (uint32_t rank = 0; shim->used && rank < shim->rank_count; rank++) {
            if (shim->ranks[rank].alive) {
                shim_rank_end(sim, index, s, rank, RANK_SIGNALED, 9, 0);
            }
        }
    }
}

void kill_node(struct sim *sim, uint32_t index, uint64_t back_ms)
{
    agent_die(sim, index, "killed");
    kill_ranks(sim, index);
    sim_at(sim, sim->now_ms + back_ms,
           (struct sim_event){
               .kind = SIM_EV_AGENT_START, .host = index, .life = sim->hosts[index].boots});
}

static bool send_fact(struct sim *sim, uint32_t index)
{
    struct sim_agent_input *input = agent_input(sim, index, AGENT_EVENT_FACT);
    input->fact = mem_alloc(1, sizeof(*input->fact));
    *input->fact = (struct fact){.source = FACT_PROBE,
                                 .severity = (uint8_t)sim_between(sim, 1, 3),
                                 .rank = -1,
                                 .gpu = (int32_t)sim_between(sim, 0, 3),
                                 .port = -1,
                                 .code = sim_chance(sim, 300000) ? 45 : 79};
    for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
        const struct sim_shim *shim = &sim->hosts[index].shims[s];
        if (shim_lives(shim)) {
            input->fact->job = shim->job;
            input->fact->attempt = shim->attempt;
        }
    }
    (void)text_copy(input->fact->text, TEXT_SIZE, "GPU has fallen off the bus");
    agent_wake(sim, index);
    return true;
}

static bool do_agent(struct sim *sim, enum sim_fault fault)
{
    uint32_t index = fault_pick_host(sim);
    if (index == SIM_HOSTS_MAX || !agent_runs(&sim->hosts[index])) {
        return false;
    }
    struct sim_host *host = &sim->hosts[index];
    uint64_t time_ms = sim_between(sim, 500, sim_chance(sim, 300000) ? 200000 : 15000);
    sim_trace(sim, "%s: %s", sim_fault_words[fault], host->name);
    switch (fault) {
    case SIM_NODE_KILL:
        kill_node(sim, index, time_ms);
        return true;
    case SIM_OLD_AGENT:
    case SIM_AGENT_KILL:
        host->old_agent = host->old_agent != (fault == SIM_OLD_AGENT);
        agent_die(sim, index, "killed");
        sim_at(sim, sim->now_ms + time_ms,
               (struct sim_event){.kind = SIM_EV_AGENT_START, .host = index, .life = host->boots});
        return true;
    case SIM_AGENT_CRASH:
        host->cut = (uint8_t)sim_between(sim, SIM_CUT_BEFORE, SIM_CUT_MID);
        return true;
    case SIM_AGENT_STOP:
        host->agent_stopped = true;
        fault_undo_later(sim, fault, index, time_ms);
        return true;
    case SIM_AGENT_GOODBYE: {
        struct sim_agent_input *input = agent_input(sim, index, AGENT_EVENT_GOODBYE);
        input->event.goodbye = GOODBYE_RESTART;
        agent_wake(sim, index);
        return true;
    }
    case SIM_FALSE_ALARM:
        host->alarm = true;
        agent_input(sim, index, AGENT_EVENT_HEALTH)->event.ok = false;
        agent_wake(sim, index);
        fault_undo_later(sim, fault, index, time_ms);
        return true;
    case SIM_FATAL_SIGNAL:
        return send_fact(sim, index);
    case SIM_LINK_RESET:
        if (host->conn == 0) {
            return false;
        }
        net_close_controller(sim, host->conn);
        agent_link(sim, index, host->conn, false, "connection reset by peer");
        return true;
    default:
        CHECK(false);
    }
    return false;
}

/* ---- ranks ------------------------------------------------------------------------------- */

static bool do_rank(struct sim *sim, enum sim_fault fault)
{
    static const int32_t codes[] = {1, 1, 1, 16, 17, 75, 75, 93};
    uint32_t host = 0;
    uint32_t index = 0;
    if (!pick_shim(sim, &host, &index)) {
        return false;
    }
    struct sim_shim *shim = &sim->hosts[host].shims[index];
    uint32_t rank = pick_alive(sim, shim);
    sim_trace(sim, "%s: %s job %u attempt %u rank %u", sim_fault_words[fault],
              sim->hosts[host].name, shim->job, shim->attempt, shim->first_rank + rank);
    switch (fault) {
    case SIM_RANK_SIGNAL:
        shim_rank_end(sim, host, index, rank, RANK_SIGNALED, sim_chance(sim, 500000) ? 11 : 9, 0);
        return true;
    case SIM_RANK_EXIT:
        shim_rank_end(sim, host, index, rank, RANK_EXITED,
                      codes[sim_between(sim, 0, ARRAY_SIZE(codes) - 1)], 0);
        return true;
    case SIM_RANK_HANG:
        shim->ranks[rank].hung = true;
        train_look(sim, shim->train);
        return true;
    case SIM_RANK_STUBBORN:
        shim->stubborn = true;
        return true;
    case SIM_RANK_UNKILLABLE:
        shim->unkillable = true;
        return true;
    case SIM_SHIM_KILL:
        shim_die(sim, host, index);
        return true;
    default:
        CHECK(false);
    }
    return false;
}

static bool do_torn(struct sim *sim)
{
    for (uint32_t index = sim->save_count; index > 0; index--) {
        struct sim_save *save = &sim->saves[index - 1];
        if (save->told && save->intact) {
            save->intact = false;
            sim_trace(sim, "torn-save: job %u attempt %u step %llu", save->job, save->attempt,
                      (unsigned long long)save->step);
            return true;
        }
    }
    return false;
}

/* ---- the controller ---------------------------------------------------------------------- */

static bool do_controller(struct sim *sim, enum sim_fault fault)
{
    struct sim_controller *ctl = &sim->ctl;
    uint64_t time_ms = sim_between(sim, 1000, 30000);
    if (!ctl->running) {
        return false;
    }
    sim_trace(sim, "%s", sim_fault_words[fault]);
    ctl->trouble_ms = sim->now_ms;
    switch (fault) {
    case SIM_CTL_BEFORE:
        ctl->cut = SIM_CUT_BEFORE;
        return true;
    case SIM_CTL_AFTER:
        ctl->cut = SIM_CUT_AFTER;
        return true;
    case SIM_CTL_MID:
        ctl->cut = SIM_CUT_MID;
        return true;
    case SIM_CTL_STALL:
        ctl->stalled_ms = sim->now_ms + STALL_MS;
        return true;
    case SIM_DISK_FAIL:
        ctl->failing_ms = sim->now_ms + time_ms;
        return true;
    case SIM_DISK_FULL:
        ctl->failing_ms = sim->now_ms + time_ms * 10;
        return true;
    case SIM_DISK_BUSY:
        ctl->busy_ms = sim->now_ms + time_ms;
        return true;
    case SIM_DISK_UNKNOWN:
        ctl->unknown = true;
        return true;
    case SIM_DISK_SLOW:
        ctl->slow_ms = sim->now_ms + time_ms;
        return true;
    case SIM_WALL_BACK:
        ctl->wall_offset -= WALL_BACK_MS;
        return true;
    case SIM_WALL_FORWARD:
        ctl->wall_offset += WALL_DAY_MS;
        return true;
    default:
        CHECK(false);
    }
    return false;
}

/* An agent of an older life, that was stopped before its hello left, says it now. */
static bool do_stale_hello(struct sim *sim)
{
    uint32_t index = fault_pick_host(sim);
    if (index == SIM_HOSTS_MAX || !agent_runs(&sim->hosts[index]) || !sim->ctl.running ||
        sim->hosts[index].agent_life < 2) {
        return false;
    }
    struct sim_host *host = &sim->hosts[index];
    struct message message = {.kind = MSG_HELLO};
    struct msg_hello *hello = &message.u.hello;
    (void)text_copy(hello->node, NAME_SIZE, host->name);
    (void)text_copy(hello->boot_id, BOOT_ID_SIZE, host->boot_id);
    (void)text_copy(hello->address, ADDRESS_SIZE, host->address);
    hello->incarnation = host->incarnation - 1;
    hello->protocol = SIM_PROTOCOL;
    hello->peer_port = 7445;
    net_hello_of_the_dead(sim, index, &message);
    return true;
}

/* ---- all --------------------------------------------------------------------------------- */

bool fault_do(struct sim *sim, enum sim_fault fault)
{
    switch (fault) {
    case SIM_HOST_DEATH:
    case SIM_HOST_REBOOT:
    case SIM_HOST_WIPED:
    case SIM_HOST_FREEZE:
    case SIM_LAUNCH_FAIL:
    case SIM_BAD_SPARE:
    case SIM_PORT_TAKEN:
    case SIM_LINK_SLOW:
    case SIM_LINK_FLAP:
    case SIM_LINK_CLOG:
    case SIM_CUT_BOTH:
    case SIM_CUT_UP:
    case SIM_CUT_DOWN:
        return do_host(sim, fault);
    case SIM_CUT_MANY:
        return do_many(sim);
    case SIM_MORE_FAILURES:
    case SIM_SPARE_DEAD:
    case SIM_STALE_ATTEMPT:
        return aim_do(sim, fault);
    case SIM_STORAGE_LOSS:
    case SIM_STRAGGLER:
    case SIM_SDC:
    case SIM_POISON:
        return program_fault_do(sim, fault);
    case SIM_CUT_GROUP:
    case SIM_RACK_DEATH:
        return do_group(sim, fault);
    case SIM_AGENT_KILL:
    case SIM_AGENT_CRASH:
    case SIM_AGENT_STOP:
    case SIM_AGENT_GOODBYE:
    case SIM_NODE_KILL:
    case SIM_OLD_AGENT:
    case SIM_LINK_RESET:
    case SIM_FALSE_ALARM:
    case SIM_FATAL_SIGNAL:
        return do_agent(sim, fault);
    case SIM_RANK_SIGNAL:
    case SIM_RANK_EXIT:
    case SIM_RANK_HANG:
    case SIM_RANK_STUBBORN:
    case SIM_RANK_UNKILLABLE:
    case SIM_SHIM_KILL:
        return do_rank(sim, fault);
    case SIM_TORN_SAVE:
        return do_torn(sim);
    case SIM_CTL_BEFORE:
    case SIM_CTL_AFTER:
    case SIM_CTL_MID:
    case SIM_CTL_STALL:
    case SIM_DISK_FAIL:
    case SIM_DISK_SLOW:
    case SIM_DISK_FULL:
    case SIM_DISK_BUSY:
    case SIM_DISK_UNKNOWN:
    case SIM_WALL_BACK:
    case SIM_WALL_FORWARD:
        return do_controller(sim, fault);
    case SIM_STALE_HELLO:
        return do_stale_hello(sim);
    case SIM_REPEAT:
    case SIM_REORDER:
        break; /* net.c plays those all the time; counted there */
    }
    return false;
}

static bool recovering(const struct sim *sim)
{
    const struct job *job;
    for (uint32_t index = 0; sim->ctl.running && (job = core_job_at(sim->ctl.core, index)) != NULL;
         index++) {
        if (job->d.state == JOB_RECOVERING || job->d.state == JOB_STARTING) {
            return true;
        }
    }
    return false;
}

void fault_strike(struct sim *sim)
{
    if (sim->healed) {
        return;
    }
    /* Looked at ten times a gap; one look in ten strikes, every look while a recovery runs. */
    uint64_t gap = sim->options.fault_gap_ms / AIM;
    sim_at(sim, sim->now_ms + sim_between(sim, gap / 2, gap + gap / 2),
           (struct sim_event){.kind = SIM_EV_FAULT});
    if (recovering(sim) || sim_chance(sim, 1000000 / AIM)) {
        (void)fault_draw(sim);
    }
}

bool fault_draw(struct sim *sim)
{
    uint32_t sum = 0;
    for (uint32_t fault = 0; fault < SIM_FAULT_COUNT; fault++) {
        sum += sim->options.weight[fault];
    }
    if (sum == 0) {
        return false;
    }
    uint64_t drawn = sim_between(sim, 0, sum - 1);
    uint32_t fault = 0;
    while (drawn >= sim->options.weight[fault]) {
        drawn -= sim->options.weight[fault];
        fault++;
    }
    bool struck = fault_do(sim, (enum sim_fault)fault);
    sim->stats.struck[fault] += struck ? 1 : 0;
    return struck;
}

void fault_undo(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    host->trouble_ms = sim->now_ms;
    switch ((enum sim_fault)event->what) {
    case SIM_HOST_FREEZE:
        freeze(sim, event->host, false);
        break;
    case SIM_AGENT_STOP:
        host->agent_stopped = false;
        break;
    case SIM_LAUNCH_FAIL:
        host->no_launch = false;
        break;
    case SIM_BAD_SPARE:
        host->bad_check = false;
        break;
    case SIM_PORT_TAKEN:
        host->port_taken = false;
        break;
    case SIM_LINK_SLOW:
        host->slow_ms = 0;
        break;
    case SIM_STRAGGLER:
        host->straggle_pct = 0;
        break;
    case SIM_LINK_FLAP:
        host->flap_ms = 0;
        host->cut_up = false;
        host->cut_down = false;
        break;
    case SIM_LINK_CLOG:
    case SIM_CUT_BOTH:
    case SIM_CUT_UP:
    case SIM_CUT_DOWN:
        host->cut_up = false;
        host->cut_down = false;
        break;
    case SIM_CUT_GROUP:
        host->island = 0;
        break;
    case SIM_FALSE_ALARM:
        host->alarm = false;
        if (host->agent_up) {
            agent_input(sim, event->host, AGENT_EVENT_HEALTH)->event.ok = true;
        }
        break;
    default:
        CHECK(false);
    }
    net_changed(sim, event->host);
    for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
        if (host->shims[s].used && host->shims[s].started) {
            train_look(sim, host->shims[s].train);
        }
    }
    agent_wake(sim, event->host);
}

/* ---- the end of all faults --------------------------------------------------------------- */

/* With few_nodes every other host: some jobs must be left that cannot run. */
static bool stays_broken(const struct sim *sim, uint32_t index)
{
    return sim->options.few_nodes && index % 2 == 1;
}

static void heal_host(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    static const enum sim_fault gone[] = {SIM_HOST_FREEZE, SIM_AGENT_STOP,  SIM_LAUNCH_FAIL,
                                          SIM_BAD_SPARE,   SIM_PORT_TAKEN,  SIM_LINK_SLOW,
                                          SIM_CUT_BOTH,    SIM_FALSE_ALARM, SIM_CUT_GROUP,
                                          SIM_STRAGGLER,   SIM_LINK_FLAP};
    bool stuck = false;
    for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
        stuck = stuck || (host->shims[s].unkillable && shim_lives(&host->shims[s]));
    }
    host->cut = SIM_CUT_NONE;
    for (size_t fault = 0; fault < ARRAY_SIZE(gone); fault++) {
        fault_undo(sim, &(struct sim_event){.what = (uint8_t)gone[fault], .host = index});
    }
    if (stuck) { /* nothing but a reboot ends those */
        host_down(sim, index, 20000, false, "repaired");
    }
    if (sim->options.mutation == SIM_DEAF && host->conn != 0) {
        net_close_controller(sim, host->conn);
    }
    host->broken = stays_broken(sim, index);
    if (host->broken) {
        host_down(sim, index, 0, false, "it is beyond repair");
    } else if (!host->up) {
        sim_at(sim, sim->now_ms + sim_between(sim, 1000, 60000),
               (struct sim_event){.kind = SIM_EV_HOST_UP, .host = index, .life = host->boots});
    } else if (!host->agent_up) {
        sim_at(sim, sim->now_ms + sim_between(sim, 1000, 20000),
               (struct sim_event){.kind = SIM_EV_AGENT_START, .host = index, .life = host->boots});
    }
}

/* Nodes that were removed by mistake are let in anew: somebody restarts their agents. */
static void restart_removed(struct sim *sim)
{
    for (uint32_t index = 0; index < sim->host_count; index++) {
        const struct sim_host *host = &sim->hosts[index];
        if (host->agent_up && sim->shadow.nodes[sim->shadow.node_of_host[index]].removed) {
            agent_die(sim, index, "to be started anew");
            sim_at(
                sim, sim->now_ms + 1000,
                (struct sim_event){.kind = SIM_EV_AGENT_START, .host = index, .life = host->boots});
        }
    }
}

/* Once at the end of the chaos; then people look again every minute, as they would. */
void fault_heal(struct sim *sim)
{
    if (!sim->healed) {
        sim_trace(sim, "all is healed");
        sim->healed = true;
        sim->ctl.cut = SIM_CUT_NONE;
        sim->ctl.failing_ms = 0;
        sim->ctl.slow_ms = 0;
        sim->ctl.busy_ms = 0;
        sim->ctl.unknown = false;
        sim->healed_at_ms = sim->now_ms;
        program_heal(sim);
        sim->ctl.stalled_ms = 0;
        for (uint32_t index = 0; index < sim->host_count; index++) {
            heal_host(sim, index);
        }
        for (uint32_t index = 0; index < sim->save_count; index++) {
            sim->saves[index].intact = true;
        }
    } else if (sim->ctl.running) {
        judge_resumes(sim);
        judge_answers(sim);
        restart_removed(sim);
        operator_heal(sim);
    }
    sim_at(sim, sim->now_ms + HEAL_LOOK_MS, (struct sim_event){.kind = SIM_EV_HEAL});
}
