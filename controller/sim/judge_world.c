/* judge_world.c: the judges that look at what really happens: at processes on hosts, at the
 * storage, and at the live core after each step that wrote a record. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

/* ---- the live core ----------------------------------------------------------------------- */

static void judge_layout(struct sim *sim, const struct job *job)
{
    const struct core *core = sim->ctl.core;
    uint8_t seen[SIM_HOSTS_MAX + 8] = {0};
    sim->stats.judged[SIM_JUDGE_BIJECTION]++;
    for (uint32_t index = 0; index < job->slot_count; index++) {
        const struct slot *slot = core_slot(core, job, index);
        uint32_t id = slot->d.node;
        if (id == 0) {
            continue; /* nobody holds it now: the job waits */
        }
        if (index > 0 && seen[id] == 0 && sim_mutate(sim, SIM_EDIT_LAYOUT)) {
            seen[id] = 1;
        }
        const struct node *node = core_node(core, id);
        if (node == NULL || seen[id] != 0 || node->d.job != job->d.job || node->d.slot != index) {
            sim_object(sim, SIM_JUDGE_BIJECTION, "job %u slot %u is held by node %u, which %s",
                       job->d.job, index, id,
                       node == NULL    ? "does not exist"
                       : seen[id] != 0 ? "holds another slot of it"
                                       : "does not know of it");
            return;
        }
        seen[id] = 1;
    }
}

static void judge_spares(struct sim *sim)
{
    const struct core *core = sim->ctl.core;
    uint32_t holders = 0;
    uint32_t held = 0;
    sim->stats.judged[SIM_JUDGE_SPARES]++;
    for (uint32_t id = 1; id <= core_node_count(core); id++) {
        const struct node *node = core_node(core, id);
        bool edited = node->d.job != 0 && sim_mutate(sim, SIM_EDIT_SPARE);
        holders += node->d.job != 0 && !edited ? 1 : 0;
        bool spare = core_node_usable(core, node);
        if (spare && (node->d.job != 0 || node->d.lost || core_mark_count(core, id) > 0)) {
            sim_object(sim, SIM_JUDGE_SPARES, "node %u counts as a spare and is not free", id);
        }
    }
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(core, index)) != NULL; index++) {
        for (uint32_t slot = 0; slot < job->slot_count && !core_job_over(job); slot++) {
            held += core_slot(core, job, slot)->d.node != 0 ? 1 : 0;
        }
    }
    if (holders != held) {
        sim_object(sim, SIM_JUDGE_SPARES, "%u nodes hold a slot, %u slots are held", holders, held);
    }
}

void judge_state(struct sim *sim)
{
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(sim->ctl.core, index)) != NULL; index++) {
        if (!core_job_over(job)) {
            judge_layout(sim, job);
            sim->stats.seen[SIM_SEEN_NO_SPARE] += job->waiting_spare ? 1 : 0;
            bool kept = job->waiting_spare && strstr(job->wait_text, "kept for other jobs") != NULL;
            sim->stats.seen[SIM_SEEN_KEPT_BACK] += kept ? 1 : 0;
        }
    }
    judge_spares(sim);
}

/* ---- processes --------------------------------------------------------------------------- */

/* The counts of an attempt, made when its first rank starts. */
static struct sim_starts *starts_of(struct sim *sim, const struct sim_shim *shim, uint32_t world)
{
    for (uint32_t index = sim->start_count; index-- > 0;) {
        struct sim_starts *starts = &sim->starts[index];
        if (starts->job == shim->job && starts->attempt == shim->attempt) {
            return starts;
        }
    }
    if (sim->start_count == sim->start_capacity) {
        sim->start_capacity = sim->start_capacity * 2 + 64;
        sim->starts = mem_grow(sim->starts, sim->start_capacity, sizeof(sim->starts[0]));
    }
    struct sim_starts *starts = &sim->starts[sim->start_count++];
    *starts = (struct sim_starts){.job = shim->job, .attempt = shim->attempt, .rank_count = world};
    starts->counts = mem_alloc(world, sizeof(starts->counts[0]));
    return starts;
}

/* The processes of these ranks exist from now on. */
void judge_started(struct sim *sim, uint32_t host, const struct sim_shim *shim)
{
    sim->stats.judged[SIM_JUDGE_ONCE]++;
    struct sim_starts *starts = starts_of(sim, shim, sim->trains[shim->train].world);
    for (uint32_t index = 0; index < shim->rank_count; index++) {
        uint32_t rank = shim->first_rank + index;
        CHECK(rank < starts->rank_count);
        uint32_t times = ++starts->counts[rank];
        starts->total++;
        if (times > 1) {
            sim_object(sim, SIM_JUDGE_ONCE, "job %u attempt %u rank %u was started %u times",
                       shim->job, shim->attempt, rank, times);
        }
    }
    sim->stats.judged[SIM_JUDGE_OLD_ATTEMPT]++;
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
        const struct sim_shim *other = &sim->hosts[host].shims[index];
        if (other != shim && other->used && other->job == shim->job && shim_lives(other)) {
            sim_object(sim, SIM_JUDGE_OLD_ATTEMPT,
                       "%s starts job %u attempt %u while ranks of attempt %u live there",
                       sim->hosts[host].name, shim->job, shim->attempt, other->attempt);
        }
    }
}

/* An attempt is ordered to start: on none of its nodes may a rank of an older one live. */
void judge_nothing_old(struct sim *sim, const struct sim_shadow_job *job)
{
    sim->stats.judged[SIM_JUDGE_OLD_ATTEMPT]++;
    for (uint32_t slot = 0; slot < job->slot_count; slot++) {
        uint32_t node = job->holders[slot];
        if (node == 0) {
            continue;
        }
        const struct sim_host *host = &sim->hosts[sim->shadow.nodes[node].host];
        for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
            const struct sim_shim *shim = &host->shims[index];
            if (shim->used && shim->job == job->job && shim->attempt < job->attempt &&
                shim_lives(shim)) {
                sim_object(sim, SIM_JUDGE_OLD_ATTEMPT,
                           "job %u attempt %u is launched while ranks of attempt %u live on %s",
                           job->job, job->attempt, shim->attempt, host->name);
            }
        }
    }
}

/* A job is over: its ranks are gone, or their nodes are fenced. */
void judge_nothing_left(struct sim *sim, const struct sim_shadow_job *job)
{
    sim->stats.judged[SIM_JUDGE_OLD_ATTEMPT]++;
    for (uint32_t index = 0; index < sim->host_count; index++) {
        const struct sim_host *host = &sim->hosts[index];
        uint32_t node = sim->shadow.node_of_host[index];
        /* Removed: a person vouched for it, and its agent is refused until it is started anew. */
        bool fenced = sim->shadow.nodes[node].lost || sim->shadow.nodes[node].removed ||
                      shadow_marked(sim, node, "unproven");
        for (uint32_t s = 0; s < SIM_SHIMS_MAX && !fenced; s++) {
            const struct sim_shim *shim = &host->shims[s];
            if (shim->used && shim->job == job->job && shim_lives(shim)) {
                sim_object(sim, SIM_JUDGE_OLD_ATTEMPT,
                           "job %u is %s, and ranks of attempt %u live on %s, which is not fenced",
                           job->job, WORD(job_state, job->state), shim->attempt, host->name);
            }
        }
    }
}

/* An agent starts ranks: the records that say so must be durable by now. */
void judge_launch(struct sim *sim, uint32_t host, const struct msg_desired *order)
{
    sim->stats.judged[SIM_JUDGE_DURABLE]++;
    const struct sim_shadow_job *job = shadow_job(sim, order->job);
    uint32_t node = sim->shadow.node_of_host[host];
    bool current = job != NULL && job->attempted && order->attempt == job->attempt;
    bool known = job != NULL && order->attempt < job->launched_below;
    bool holds = known && (!current ||
                           (order->slot < job->slot_count &&
                            (job->holders[order->slot] == node || job->over_below > job->attempt)));
    if (!known || !holds) {
        sim_object(sim, SIM_JUDGE_DURABLE,
                   "%s starts job %u attempt %u slot %u, and no durable record says so",
                   sim->hosts[host].name, order->job, order->attempt, order->slot);
    }
}

/* An agent of itself ends ranks only when it has had no controller for very long. */
static bool fenced_itself(const struct sim_host *host, uint32_t job, uint32_t attempt)
{
    for (uint32_t index = host->record_count; index-- > 0;) {
        const struct agent_record *record = &host->journal[index];
        if (record->kind == AGENT_RECORD_STOP && record->job == job && record->attempt >= attempt) {
            return strncmp(record->text, "ended by its own node", 21) == 0;
        }
    }
    return false;
}

void judge_stopped(struct sim *sim, uint32_t host, uint32_t id, uint32_t attempt)
{
    sim->stats.judged[SIM_JUDGE_ORDERED]++;
    const struct sim_shadow_job *job = shadow_job(sim, id);
    bool ordered = job != NULL && attempt < job->over_below;
    if (!ordered && !fenced_itself(&sim->hosts[host], id, attempt)) {
        sim_object(sim, SIM_JUDGE_ORDERED,
                   "%s ends ranks of job %u attempt %u, and no durable record says so",
                   sim->hosts[host].name, id, attempt);
    }
}

/* ---- the storage ------------------------------------------------------------------------- */

void judge_restored(struct sim *sim, const struct sim_train *train)
{
    sim->stats.judged[SIM_JUDGE_CHOSEN]++;
    const struct sim_save *save =
        train_save(sim, train->job, train->restore_attempt, train->restore_step);
    if (save == NULL || save->shards != save->shards_wanted) {
        sim_object(sim, SIM_JUDGE_CHOSEN, "job %u attempt %u loads step %llu of attempt %u: %s",
                   train->job, train->attempt, (unsigned long long)train->restore_step,
                   train->restore_attempt, save == NULL ? "it does not exist" : "shards miss");
    }
}

/* ---- liveness ---------------------------------------------------------------------------- */

bool live_all_over(const struct sim *sim)
{
    const struct job *job;
    if (!sim->ctl.running || sim->ctl.record_count != sim->ctl.durable) {
        return false;
    }
    for (uint32_t index = 0; (job = core_job_at(sim->ctl.core, index)) != NULL; index++) {
        if (!core_job_over(job)) {
            return false;
        }
    }
    return true;
}

static void count_end(struct sim *sim, const struct job *job)
{
    switch ((enum job_state_word)job->d.state) {
    case JOB_SUCCEEDED:
        sim->stats.succeeded++;
        return;
    case JOB_FAILED:
        sim->stats.failed++;
        return;
    case JOB_CANCELLED:
        sim->stats.cancelled++;
        return;
    default:
        sim->stats.held++;
        return;
    }
}

/* One that was submitted before waits too, and must not be overtaken. */
static bool ahead_of(const struct sim *sim, const struct job *job)
{
    const struct job *other;
    for (uint32_t index = 0; (other = core_job_at(sim->ctl.core, index)) != job; index++) {
        if (other->d.state == JOB_PENDING || other->waiting_spare) {
            return true;
        }
    }
    return false;
}

/* What the other jobs keep for themselves. */
static uint32_t kept_by_others(const struct sim *sim, const struct job *job)
{
    uint32_t kept = 0;
    const struct job *other;
    for (uint32_t index = 0; (other = core_job_at(sim->ctl.core, index)) != NULL; index++) {
        uint32_t reserve = other->d.reserve_auto ? other->d.reserve_wanted : other->d.reserve;
        kept += other != job && !core_job_over(other) ? reserve : 0;
    }
    return kept;
}

/* Half of the hosts are broken: a job that lacks nodes waits and says so, or has not begun. */
static bool may_wait(const struct sim *sim, const struct job *job)
{
    uint32_t ready = 0;
    for (uint32_t id = 1; id <= core_node_count(sim->ctl.core); id++) {
        ready += core_node_usable(sim->ctl.core, core_node(sim->ctl.core, id)) ? 1 : 0;
    }
    uint32_t wanted = job->slot_count + kept_by_others(sim, job);
    bool lacks = job->d.state == JOB_PENDING && (ready < wanted || ahead_of(sim, job));
    return lacks || job->d.state == JOB_RUNNING ||
           (job->waiting_spare && job->wait_text[0] != '\0');
}

/* The end of the history: healed long ago, with nodes enough. Every job has ended, or is held and
 * says what would let it go on. */
void judge_live(struct sim *sim)
{
    sim->stats.judged[SIM_JUDGE_LIVE]++;
    if (!sim->ctl.running) {
        sim_object(sim, SIM_JUDGE_LIVE, "there is no controller");
        return;
    }
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(sim->ctl.core, index)) != NULL; index++) {
        bool says_why = (job->d.state == JOB_HELD && job->d.reason[0] != '\0') ||
                        (sim->options.few_nodes && may_wait(sim, job));
        if (!core_job_over(job) && !says_why) {
            const struct recovery *recovery = core_recovery(sim->ctl.core, job->d.recovery);
            sim_object(sim, SIM_JUDGE_LIVE, "job %u is %s%s%s at attempt %u, step %llu: %s%s",
                       job->d.job, WORD(job_state, job->d.state), recovery == NULL ? "" : ", ",
                       recovery == NULL ? "" : WORD(phase, recovery->d.phase), job->d.attempt,
                       (unsigned long long)job->step, job->wait_text,
                       core_held(sim->ctl.core) ? core_held_text(sim->ctl.core) : "");
            return;
        }
        count_end(sim, job);
    }
    ctl_judge_end(sim);
    sim->over = true;
}
