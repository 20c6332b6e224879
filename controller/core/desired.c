/* desired.c: what each agent shall run, as level state: run, stop, or no opinion.
 *
 * Derived from the state and from nothing else, so that sending it again is always right. It is
 * sent when it changes and at every new session. A job that is unknown or quarantined, a node that
 * is quarantined, and everything while the store is older than the world, is "no opinion". */
#include <string.h>

#include "controller/core/impl.h"

static void fill_run(const struct core *core, const struct job *job, uint32_t slot,
                     struct msg_desired *u)
{
    const struct record_image_job *d = &job->d;
    u->mode = DESIRED_RUN;
    u->attempt = d->attempt;
    u->slot = slot;
    u->slot_count = job->slot_count;
    u->first_rank = slot * d->ranks_per_node;
    u->rank_count = d->ranks_per_node;
    u->world = d->tensor * d->context * d->pipeline * d->data;
    u->tensor = (uint16_t)d->tensor;
    u->context = (uint16_t)d->context;
    u->pipeline = (uint16_t)d->pipeline;
    u->data = (uint16_t)d->data;
    u->master_port = (uint16_t)d->port;
    u->start = true;
    u->restore_step = d->restore_step;
    u->restore_attempt = d->restore_attempt;
    u->grace_ms = d->recovery_grace_ms;
    u->spec_revision = d->revision;
    if (slot == 0) {
        u->save_request = d->save_request;
        u->stop_request = d->stop_request;
    }
    const struct checkpoint *from =
        core_checkpoint_find(core, d->job, d->restore_attempt, d->restore_step);
    if (from != NULL) {
        text_copy(u->restore_directory, sizeof u->restore_directory, from->d.directory);
    }
    text_copy(u->order, sizeof u->order, d->order);
    text_copy(u->master_address, sizeof u->master_address, d->address);
}

/* The attempt has failed: its ranks have nothing left to finish, and some of them hang. */
static bool is_hurried(const struct core *core, const struct job *job)
{
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    return recovery != NULL && recovery->d.cause != CAUSE_PLANNED && !job->d.cancelled;
}

static bool reports_job(const struct node *node, uint32_t job)
{
    for (uint32_t i = 0; i < node->report_count; i++) {
        if (node->reports[i].job == job) {
            return true;
        }
    }
    return false;
}

static void fill_stop(const struct core *core, const struct node *node, const struct job *job,
                      struct msg_desired *u)
{
    bool holds = node->d.job == job->d.job;
    u->mode = DESIRED_STOP;
    u->attempt = job->d.attempt;
    u->abort = is_hurried(core, job);
    u->grace_ms = u->abort ? job->d.recovery_grace_ms : job->d.stop_grace_ms;
    if (!job->d.launched) {
        u->attempt = job->d.attempt - 1; /* what ended is all before the coming attempt */
    }
    /* An end that is still to be proven must be kept until it is, or until a person vouches. */
    const struct mark *unproven = mark_find(core, node->d.node, MARK_RECOVERY, "unproven");
    bool proven = unproven == NULL || unproven->d.job != job->d.job || unproven->d.waived;
    u->forget = proven && (core_job_over(job) || !holds);
}

static void fill(const struct core *core, struct node *node, const struct job *job,
                 struct msg_desired *u)
{
    text_copy(u->cluster_id, sizeof u->cluster_id, core->g.cluster_id);
    text_copy(u->job_name, sizeof u->job_name, job->d.name);
    u->term = core->g.term;
    u->job = job->d.job;
    u->sequence = ++node->desired_sequence;
    u->mode = DESIRED_NONE;
    if (job->d.quarantined || node->set_aside || core->old_store || !job->d.attempted ||
        report_misplaced(node, job)) {
        return;
    }
    if (node->d.job == job->d.job && job_runs(job)) {
        if (core_slot(core, job, node->d.slot)->d.done) {
            return; /* its ranks have ended well: whoever is there now must not start them again */
        }
        fill_run(core, job, node->d.slot, u);
    } else if (job->d.launched || job->d.attempt > 0) { /* else there is nothing to stop yet */
        fill_stop(core, node, job, u);
    }
}

void desired_send(struct core *core, struct node *node, const struct job *job)
{
    if (node->session == 0) {
        return; /* said at its next hello */
    }
    struct action *action = action_send(core, node, MSG_DESIRED);
    fill(core, node, job, &action->u.desired);
    if (action->u.desired.mode == DESIRED_RUN) {
        node->run_sent = true;
        peers_tell(core, node);
    }
}

void desired_send_job(struct core *core, const struct job *job)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        struct node *node = &core->nodes[i];
        if (node->d.job == job->d.job || reports_job(node, job->d.job)) {
            desired_send(core, node, job);
        }
    }
}

static void stop_foreign(struct core *core, struct node *node)
{
    for (uint32_t i = 0; i < core->foreign_count; i++) {
        const struct record_image_foreign *d = &core->foreigns[i].d;
        if (d->node != node->d.node || !d->stop || node->session == 0) {
            continue;
        }
        struct action *action = action_send(core, node, MSG_DESIRED);
        struct msg_desired *u = &action->u.desired;
        text_copy(u->cluster_id, sizeof u->cluster_id, core->g.cluster_id);
        u->term = core->g.term;
        u->sequence = ++node->desired_sequence;
        u->mode = DESIRED_STOP;
        u->job = d->job;
        u->attempt = d->attempt;
        u->grace_ms = 30000;
        u->forget = true;
    }
}

void desired_send_node(struct core *core, struct node *node)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = &core->jobs[i];
        if (node->d.job == job->d.job || reports_job(node, job->d.job)) {
            desired_send(core, node, job);
        }
    }
    stop_foreign(core, node);
}
