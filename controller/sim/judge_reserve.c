/* judge_reserve.c: a job that starts leaves alone what running jobs keep for themselves.
 *
 * After each first placement the nodes that are well, marked by nobody and without a slot must be as
 * many as all other jobs reserve: whoever could take a node at all had those left. Jobs that lack a
 * node themselves keep nothing here: what they wait for may never come. Nor do jobs that are barred
 * from a node: what they could not take is not kept for them. Only records are looked at;
 * how the core shares its spares out is its own affair. */
#include "controller/sim/world.h"

static uint32_t free_nodes(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t id = 1; id < ARRAY_SIZE(sim->shadow.nodes); id++) {
        const struct sim_shadow_node *node = &sim->shadow.nodes[id];
        bool well = node->life == NODE_READY || node->life == NODE_PROBATION;
        count += node->known && well && !node->lost && !node->removed && node->job == 0 &&
                         !shadow_marked(sim, id, NULL)
                     ? 1
                     : 0;
    }
    return count;
}

static bool keeps(const struct sim_shadow_job *job)
{
    bool works =
        job->state == JOB_STARTING || job->state == JOB_RUNNING || job->state == JOB_RECOVERING;
    for (uint32_t slot = 0; slot < job->slot_count && works; slot++) {
        works = job->holders[slot] != 0;
    }
    return job->used && job->attempted && works && !job->barred;
}

static void on_placed(struct sim *sim, uint32_t id)
{
    uint32_t kept = 0;
    for (size_t index = 0; index < ARRAY_SIZE(sim->shadow.jobs); index++) {
        const struct sim_shadow_job *job = &sim->shadow.jobs[index];
        kept += job->job != id && keeps(job) ? job->reserve : 0;
    }
    sim->stats.judged[SIM_JUDGE_RESERVE] += kept > 0 ? 1 : 0;
    kept += sim_mutate(sim, SIM_EDIT_RESERVE) ? SIM_HOSTS_MAX : 0;
    uint32_t left = kept > 0 ? free_nodes(sim) : 0;
    if (left < kept) {
        sim_object(sim, SIM_JUDGE_RESERVE, "job %u was started and left %u nodes; %u are kept", id,
                   left, kept);
    }
}

void judge_reserve_record(struct sim *sim, const struct record *record)
{
    struct sim_shadow_job *job = record->job == 0 ? NULL : shadow_job(sim, record->job);
    if (job == NULL) {
        return;
    }
    if (record->kind == RECORD_job_submitted_kind) {
        job->reserve = record->u.job_submitted.reserve;
    } else if (record->kind == RECORD_reserve_chosen_kind) {
        job->reserve = record->u.reserve_chosen.reserve_wanted;
    } else if (record->kind == RECORD_strike_kind) {
        job->barred = job->barred || record->u.strike.barred;
    } else if (record->kind == RECORD_recovery_plan_kind && !job->placed) {
        job->placed = true;
        on_placed(sim, record->job);
    }
}
