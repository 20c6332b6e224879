/* view.c: the readers of state.h, and the words derived from it. */
#include <string.h>

#include "controller/core/impl.h"

const struct record_image_core *core_globals(const struct core *core)
{
    return &core->g;
}

const struct core_config *core_config_of(const struct core *core)
{
    return &core->config;
}

bool core_ready(const struct core *core)
{
    if (!core->started) {
        return false;
    }
    uint64_t age = core->t - core->start_ms;
    bool quiet = core->t - core->new_agent_ms >= core->config.start_quiet_ms;
    return age >= core->config.start_grace_max_ms || (age >= core->config.start_grace_ms && quiet);
}

bool core_held(const struct core *core)
{
    return core->old_store || core->g.paused || core->g.observe;
}

const char *core_held_text(const struct core *core)
{
    if (core->old_store) {
        return core->held_text;
    }
    if (core->g.paused) {
        return core->g.paused_cause;
    }
    return core->g.observe ? "automation only observes (automation.mode: observe)" : "";
}

uint32_t core_node_count(const struct core *core)
{
    return core->node_count;
}

const struct node *core_node(const struct core *core, uint32_t id)
{
    return id >= 1 && id <= core->node_count ? &core->nodes[id - 1] : NULL;
}

uint32_t core_mark_count(const struct core *core, uint32_t node)
{
    const struct node *found = core_node(core, node);
    return found != NULL ? found->mark_count : 0;
}

const struct mark *core_mark(const struct core *core, uint32_t node, uint32_t index)
{
    for (uint32_t i = 0; i < core->mark_count; i++) {
        if (core->marks[i].d.node == node && index-- == 0) {
            return &core->marks[i];
        }
    }
    return NULL;
}

static bool operator_marked(const struct core *core, uint32_t node, bool leave)
{
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (d->node == node && d->owner == MARK_OPERATOR && (d->level == MARK_LEAVE) == leave) {
            return true;
        }
    }
    return false;
}

const char *core_node_state_word(const struct core *core, const struct node *node, bool *ret_star)
{
    uint8_t when;
    if (ret_star != NULL) {
        *ret_star = node->session == 0;
    }
    if (node->set_aside) {
        return "unknown"; /* quarantined, as its mark says */
    }
    if (node->d.lost) {
        return "down";
    }
    if (node->suspect_ms != 0) {
        return "suspect";
    }
    if (node->d.life == NODE_CHECKING || node->d.life == NODE_JOINING) {
        return "validating";
    }
    if (node->d.life == NODE_OUT) {
        if (mark_find(core, node->d.node, MARK_RECOVERY, "unproven") != NULL) {
            return "draining"; /* something may still run there */
        }
        bool leaves = node_leaves(core, node, &when) || node->d.repair != REPAIR_NONE;
        return leaves ? "drained" : "cordoned";
    }
    if (node->d.life == NODE_LEAVING || node_leaves(core, node, &when)) {
        return "draining";
    }
    return operator_marked(core, node->d.node, false) ? "cordoned" : "healthy";
}

const char *core_node_role_word(const struct core *core, const struct node *node)
{
    if (node->d.job != 0) {
        return "active";
    }
    return core_node_usable(core, node) ? "spare" : "-";
}

bool core_node_usable(const struct core *core, const struct node *node)
{
    bool life_ok = node->d.life == NODE_READY || node->d.life == NODE_PROBATION;
    bool reachable = node->d.address[0] != '\0'; /* rank 0 of an attempt may come to stand there */
    return life_ok && reachable && !node->d.removed && !node->d.lost && node->d.job == 0 &&
           node->link == LINK_UP && node->session != 0 && node->reported && node->checks_ok &&
           !node->set_aside && report_empty(node) && !node_marked(core, node);
}

const struct job *core_job_at(const struct core *core, uint32_t index)
{
    return index < core->job_count ? &core->jobs[index] : NULL;
}

const struct job *core_job(const struct core *core, uint32_t id)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core->jobs[i].d.job == id) {
            return &core->jobs[i];
        }
    }
    return NULL;
}

uint32_t core_job_find(const struct core *core, const char *name)
{
    for (uint32_t i = core->job_count; i-- > 0;) {
        if (text_equal(core->jobs[i].d.name, name)) {
            return core->jobs[i].d.job;
        }
    }
    return 0;
}

bool core_job_over(const struct job *job)
{
    return job->d.state == JOB_SUCCEEDED || job->d.state == JOB_FAILED ||
           job->d.state == JOB_CANCELLED;
}

const struct slot *core_slot(const struct core *core, const struct job *job, uint32_t slot)
{
    return slot < job->slot_count ? &core->slots[job->slot_base + slot] : NULL;
}

uint8_t core_job_time_kind(const struct core *core, const struct job *job)
{
    return account_kind(core, job);
}

uint64_t core_service_ms(const struct core *core)
{
    return service_now(core);
}

const struct checkpoint *core_checkpoint_at(const struct core *core, uint32_t index)
{
    return index < core->checkpoint_count ? &core->checkpoints[index] : NULL;
}

const struct checkpoint *core_checkpoint_find(const struct core *core, uint32_t job,
                                              uint32_t attempt, uint64_t step)
{
    for (uint32_t i = core->checkpoint_count; i-- > 0;) {
        const struct record_image_checkpoint *d = &core->checkpoints[i].d;
        if (d->job == job && d->attempt == attempt && d->step == step) {
            return &core->checkpoints[i];
        }
    }
    return NULL;
}

static bool restorable(const struct checkpoint *checkpoint, const struct job *job)
{
    bool state_ok =
        checkpoint->d.state == CKPT_VERIFIED ||
        (checkpoint->d.state == CKPT_COMPLETE && job->d.restore_policy != RESTORE_LATEST_VERIFIED);
    bool step_ok = job->d.restore_policy != RESTORE_FIXED_STEP ||
                   checkpoint->d.step == job->d.restore_fixed_step;
    return checkpoint->d.job == job->d.job && state_ok && step_ok;
}

const struct checkpoint *checkpoint_best_but(const struct core *core, const struct job *job,
                                             const struct checkpoint *skip)
{
    const struct checkpoint *best = NULL;
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        bool newer = best == NULL || one->d.step > best->d.step ||
                     (one->d.step == best->d.step && one->d.attempt > best->d.attempt);
        if (newer && one != skip && restorable(one, job)) {
            best = one;
        }
    }
    return best;
}

const struct checkpoint *core_checkpoint_best(const struct core *core, const struct job *job)
{
    return checkpoint_best_but(core, job, NULL);
}

const struct checkpoint *core_checkpoint_of_step(const struct core *core, const struct job *job,
                                                 uint64_t step)
{
    static const uint8_t rank[checkpoint_state_count] = {
        [CKPT_VERIFIED] = 5, [CKPT_COMPLETE] = 4,   [CKPT_SUSPECT] = 3,
        [CKPT_CORRUPT] = 2,  [CKPT_INCOMPLETE] = 1, [CKPT_WRITING] = 0,
    };
    const struct checkpoint *best = NULL;
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        bool wanted = one->d.job == job->d.job && one->d.step == step;
        if (wanted && (best == NULL || rank[one->d.state] > rank[best->d.state] ||
                       (one->d.state == best->d.state && one->d.attempt > best->d.attempt))) {
            best = one;
        }
    }
    return best;
}

/* A newer one that was usable then would have been taken; so what is unusable now was so already,
 * or was made so by that very plan. */
bool core_recovery_skipped(const struct recovery *recovery, const struct checkpoint *checkpoint)
{
    bool spoilt = checkpoint->d.state == CKPT_INCOMPLETE || checkpoint->d.state == CKPT_CORRUPT ||
                  checkpoint->d.state == CKPT_SUSPECT;
    return recovery->d.planned && recovery->d.skipped > 0 && spoilt &&
           checkpoint->d.job == recovery->d.job &&
           (checkpoint->d.attempt <= recovery->d.attempt || recovery->d.cause == CAUSE_START) &&
           checkpoint->d.step > recovery->d.restore_step;
}

const struct incident *core_incident_at(const struct core *core, uint32_t index)
{
    return index < core->incident_count ? &core->incidents[index] : NULL;
}

const struct incident *core_incident(const struct core *core, uint32_t id)
{
    for (uint32_t i = 0; i < core->incident_count; i++) {
        if (core->incidents[i].d.incident == id) {
            return &core->incidents[i];
        }
    }
    return NULL;
}

const struct recovery *core_recovery_at(const struct core *core, uint32_t index)
{
    return index < core->recovery_count ? &core->recoveries[index] : NULL;
}

const struct recovery *core_recovery(const struct core *core, uint32_t id)
{
    for (uint32_t i = 0; i < core->recovery_count; i++) {
        if (core->recoveries[i].d.recovery == id) {
            return &core->recoveries[i];
        }
    }
    return NULL;
}

const struct record_image_fact *core_fact_at(const struct core *core, uint32_t index)
{
    return index < core->fact_count ? &core->facts[index] : NULL;
}

const struct record_image_blamed *core_blamed_at(const struct core *core, uint32_t index)
{
    return index < core->blamed_count ? &core->blamed[index] : NULL;
}

const struct foreign *core_foreign_at(const struct core *core, uint32_t index)
{
    return index < core->foreign_count ? &core->foreigns[index] : NULL;
}
