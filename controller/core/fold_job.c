/* fold_job.c: what records say of jobs, their attempts, slots, budgets and time. */
#include <errno.h>
#include <string.h>

#include "controller/core/fold.h"

/* ---- making room ---------------------------------------------------------------------------- */

static bool make_room_for_job(struct core *core)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core_job_over(&core->jobs[i])) {
            fold_drop_at(core->jobs, &core->job_count, i, sizeof *core->jobs);
            return true;
        }
    }
    return false;
}

static bool region_is_free(const struct core *core, uint32_t base, uint32_t count,
                           uint32_t *ret_next)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = &core->jobs[i];
        if (job->slot_count > 0 && base < job->slot_base + job->slot_count &&
            job->slot_base < base + count) {
            *ret_next = job->slot_base + job->slot_count;
            return false;
        }
    }
    return true;
}

/* First fit. UINT32_MAX when the jobs that are not over leave no such region. */
static uint32_t region_find(const struct core *core, uint32_t count)
{
    uint32_t base = 0;
    while (base + count <= core->limits.slots) {
        uint32_t next = 0;
        if (region_is_free(core, base, count, &next)) {
            return base;
        }
        CHECK(next > base);
        base = next;
    }
    return UINT32_MAX;
}

bool fold_has_room(const struct core *core, uint32_t slots)
{
    return region_find(core, slots) != UINT32_MAX;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static int job_insert(struct core *core, uint32_t id, uint32_t slots, struct job **ret_job,
                      struct err *err)
{
    uint32_t base = slots > 0 ? region_find(core, slots) : 0; /* jobs that are over have none */
    if (base == UINT32_MAX) {
        return err_set(err, -ENOSPC, "no room for %u slots (limits.slots %u)", slots,
                       core->limits.slots);
    }
    if (core->job_count >= core->limits.jobs && !make_room_for_job(core)) {
        return err_set(err, -ENOSPC, "more than %u jobs (limits.jobs)", core->limits.jobs);
    }
    struct job *job = &core->jobs[core->job_count++];
    memset(job, 0, sizeof *job);
    job->d.job = id;
    job->slot_base = base;
    job->slot_count = slots;
    for (uint32_t i = 0; i < slots; i++) {
        struct slot *slot = &core->slots[base + i];
        memset(slot, 0, sizeof *slot);
        slot->d.job = id;
        slot->d.slot = i;
    }
    if (id >= core->g.job_next) {
        core->g.job_next = id + 1;
    }
    *ret_job = job;
    return 0;
}

static uint32_t slots_of(uint32_t tensor, uint32_t context, uint32_t pipeline, uint32_t data,
                         uint32_t ranks_per_node)
{
    uint64_t world = (uint64_t)tensor * context * pipeline * data;
    return ranks_per_node == 0 || world > (1u << 20) ? 0 : (uint32_t)(world / ranks_per_node);
}

int fold_job_submitted(struct core *core, const struct record *r, struct err *err)
{
    const struct record_job_submitted *u = &r->u.job_submitted;
    uint32_t slots = slots_of(u->tensor, u->context, u->pipeline, u->data, u->ranks_per_node);
    if (slots == 0 || u->ranks_per_node > RANKS_PER_NODE_MAX) {
        return err_set(err, -EINVAL, "job %u has an impossible layout", u->job);
    }
    struct job *job;
    int code = job_insert(core, u->job, slots, &job, err);
    if (code < 0) {
        return code;
    }
    struct record_image_job *d = &job->d;
    struct record_image_job *to = d;
    const struct record_job_submitted *from = u;
    JOB_SPEC_FIELDS(RECORD_COPY, unused)
    d->state = u->held_at_submit ? JOB_HELD : JOB_PENDING;
    d->hold_asked = u->held_at_submit;
    d->submitted_service_ms = r->service_ms;
    d->submitted_wall_ms = r->wall_ms;
    d->state_service_ms = r->service_ms;
    d->settled_service_ms = r->service_ms;
    return 0;
}

int fold_job_moved(struct core *core, const struct record *r, struct err *err)
{
    const struct record_job_moved *u = &r->u.job_moved;
    struct job *job;
    int code = fold_need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    if (job->d.state != u->from || !job_move_allowed(u->from, u->to)) {
        return err_set(err, -EINVAL, "job %s cannot move from %s to %s: it is %s", job->d.name,
                       WORD(job_state, u->from), WORD(job_state, u->to),
                       WORD(job_state, job->d.state));
    }
    job->d.state = u->to;
    job->d.state_service_ms = r->service_ms;
    text_copy(job->d.reason, sizeof job->d.reason, u->reason);
    if (core_job_over(job)) {
        job->slot_count = 0; /* its region is free for others; slot_left came before */
        job->slots_done = 0;
        job->d.incident = 0;
        job->d.recovery = 0;
    }
    return 0;
}

int fold_cancel_asked(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.cancel_asked.job, &job, err);
    if (code == 0) {
        job->d.cancelled = true;
    }
    return code;
}

int fold_hold_asked(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.hold_asked.job, &job, err);
    if (code == 0) {
        job->d.hold_asked = r->u.hold_asked.on;
    }
    return code;
}

int fold_rollback_approved(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.rollback_approved.job, &job, err);
    if (code == 0) {
        job->d.approved = true;
    }
    return code;
}

int fold_job_quarantined(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.job_quarantined.job, &job, err);
    if (code == 0) {
        job->d.quarantined = true;
    }
    return code;
}

int fold_image_job(struct core *core, const struct record *r, struct err *err)
{
    const struct record_image_job *u = &r->u.image_job;
    struct job scratch = {.d = *u};
    uint32_t slots = core_job_over(&scratch)
                         ? 0
                         : slots_of(u->tensor, u->context, u->pipeline, u->data, u->ranks_per_node);
    struct job *job;
    int code = job_insert(core, u->job, slots, &job, err);
    if (code == 0) {
        job->d = *u;
    }
    return code;
}

/* ---- attempts ------------------------------------------------------------------------------- */

int fold_attempt_made(struct core *core, const struct record *r, struct err *err)
{
    const struct record_attempt_made *u = &r->u.attempt_made;
    struct job *job;
    int code = fold_need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    bool follows = job->d.attempted ? u->attempt > job->d.attempt : u->attempt == 0;
    if (!follows) {
        return err_set(err, -EINVAL, "attempt %u of job %s does not follow attempt %u", u->attempt,
                       job->d.name, job->d.attempt);
    }
    if (u->restore_step != job->d.restore_step) {
        job->d.restore_failures = 0;
    }
    job->d.attempt = u->attempt;
    job->d.attempted = true;
    job->d.launched = false;
    job->d.ended = false;
    job->d.approved = false;
    job->d.restore_step = u->restore_step;
    job->d.restore_attempt = u->restore_attempt;
    job->d.save_request = 0;
    job->d.save_asked_service_ms = 0;
    job->d.stop_request = false;
    job->d.port = 0;
    job->slots_done = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        struct slot *slot = slot_at(core, job, i);
        slot->d.done = false;
        report_forget(job, slot);
    }
    return 0;
}

int fold_attempt_ended(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.attempt_ended.job, &job, err);
    if (code == 0 && job->d.attempted && r->u.attempt_ended.attempt == job->d.attempt) {
        job->d.ended = true;
        job->d.last_step = r->u.attempt_ended.step;
        bool loading = r->u.attempt_ended.phase == PHASE_RESTORING;
        job->d.restore_failures = loading ? job->d.restore_failures + 1 : 0;
    }
    return code;
}

int fold_port_chosen(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.port_chosen.job, &job, err);
    if (code == 0) {
        job->d.port = r->u.port_chosen.port;
        text_copy(job->d.address, sizeof job->d.address, r->u.port_chosen.address);
    }
    return code;
}

int fold_launch_ordered(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.launch_ordered.job, &job, err);
    if (code == 0 && (!job->d.attempted || r->u.launch_ordered.attempt != job->d.attempt)) {
        code = err_set(err, -EINVAL, "launch of attempt %u of job %s, which is at %u",
                       r->u.launch_ordered.attempt, job->d.name, job->d.attempt);
    }
    if (code == 0) {
        job->d.launched = true;
    }
    return code;
}

int fold_counters_adopted(struct core *core, const struct record *r, struct err *err)
{
    (void)err;
    const struct record_counters_adopted *u = &r->u.counters_adopted;
    struct job *job = job_at(core, u->job);
    bool same = job != NULL && u->attempt == job->d.attempt && !job->d.launched;
    if (job != NULL && (!job->d.attempted || u->attempt > job->d.attempt || same)) {
        job->d.attempt = u->attempt;
        job->d.attempted = true;
        job->d.launched = true; /* its ranks were found running */
        job->d.ended = false;
        job->d.approved = false;
        job->d.stop_request = false;
        job->d.incident = 0; /* it was about an attempt that is long over */
        job->d.restore_failures = 0;
        job->slots_done = 0;
        for (uint32_t i = 0; i < job->slot_count; i++) {
            struct slot *slot = slot_at(core, job, i);
            slot->d.done = false;
            report_forget(job, slot);
        }
    }
    if (u->term > core->g.term) {
        core->g.term = u->term;
    }
    return 0;
}

int fold_save_asked(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.save_asked.job, &job, err);
    if (code == 0) {
        bool first = r->u.save_asked.stop && !job->d.stop_request;
        job->d.stop_asked_service_ms = first ? r->service_ms : job->d.stop_asked_service_ms;
        job->d.save_request = r->u.save_asked.request;
        job->d.save_asked_service_ms = r->service_ms;
        job->d.stop_request = r->u.save_asked.stop;
    }
    return code;
}

/* ---- what is chosen for it ------------------------------------------------------------------ */

int fold_interval_chosen(struct core *core, const struct record *r, struct err *err)
{
    const struct record_interval_chosen *from = &r->u.interval_chosen;
    struct job *job;
    int code = fold_need_job(core, from->job, &job, err);
    if (code == 0) {
        struct record_image_job *to = &job->d;
        INTERVAL_FIELDS(RECORD_COPY, unused)
    }
    return code;
}

int fold_reserve_chosen(struct core *core, const struct record *r, struct err *err)
{
    const struct record_reserve_chosen *from = &r->u.reserve_chosen;
    struct job *job;
    int code = fold_need_job(core, from->job, &job, err);
    if (code == 0) {
        struct record_image_job *to = &job->d;
        RESERVE_FIELDS(RECORD_COPY, unused)
        job->d.reserve_service_ms = r->service_ms;
    }
    return code;
}

int fold_spares_low(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = fold_need_job(core, r->u.spares_low.job, &job, err);
    if (code == 0) {
        job->d.spares_low = r->u.spares_low.low;
    }
    return code;
}

/* ---- slots ---------------------------------------------------------------------------------- */

static int need_slot(struct core *core, uint32_t job_id, uint32_t slot, struct job **ret_job,
                     struct slot **ret_slot, struct err *err)
{
    int code = fold_need_job(core, job_id, ret_job, err);
    if (code == 0 && slot >= (*ret_job)->slot_count) {
        code = err_set(err, -EINVAL, "job %s has no slot %u", (*ret_job)->d.name, slot);
    }
    if (code == 0) {
        *ret_slot = slot_at(core, *ret_job, slot);
    }
    return code;
}

int fold_slot_taken(struct core *core, const struct record *r, struct err *err)
{
    const struct record_slot_taken *u = &r->u.slot_taken;
    struct job *job;
    struct slot *slot;
    struct node *node;
    int code = need_slot(core, u->job, u->slot, &job, &slot, err);
    code = code < 0 ? code : fold_need_node(core, u->node, &node, err);
    if (code < 0) {
        return code;
    }
    if (slot->d.node != 0 || node->d.job != 0) {
        return err_set(err, -EINVAL, "slot %u of job %s or node %s is not free", u->slot,
                       job->d.name, node->d.name);
    }
    slot->d.node = u->node;
    slot->d.since_attempt = u->attempt;
    node->d.job = u->job;
    node->d.slot = u->slot;
    report_forget(job, slot);
    return 0;
}

int fold_slot_left(struct core *core, const struct record *r, struct err *err)
{
    const struct record_slot_left *u = &r->u.slot_left;
    struct job *job;
    struct slot *slot;
    struct node *node;
    int code = need_slot(core, u->job, u->slot, &job, &slot, err);
    code = code < 0 ? code : fold_need_node(core, u->node, &node, err);
    if (code < 0) {
        return code;
    }
    if (slot->d.node != u->node || node->d.job != u->job) {
        return err_set(err, -EINVAL, "slot %u of job %s is not held by node %s", u->slot,
                       job->d.name, node->d.name);
    }
    slot->d.node = 0;
    node->d.job = 0;
    node->d.slot = 0;
    return 0;
}

int fold_slot_done(struct core *core, const struct record *r, struct err *err)
{
    const struct record_slot_done *u = &r->u.slot_done;
    struct job *job;
    struct slot *slot;
    int code = need_slot(core, u->job, u->slot, &job, &slot, err);
    if (code < 0) {
        return code;
    }
    if (slot->d.done || u->attempt != job->d.attempt) {
        return err_set(err, -EINVAL, "slot %u of job %s is done twice", u->slot, job->d.name);
    }
    slot->d.done = true;
    slot->d.done_step = u->step;
    job->slots_done++;
    return 0;
}

int fold_image_slot(struct core *core, const struct record *r, struct err *err)
{
    const struct record_image_slot *u = &r->u.image_slot;
    struct job *job;
    struct slot *slot;
    int code = need_slot(core, u->job, u->slot, &job, &slot, err);
    if (code == 0) {
        slot->d = *u;
        job->slots_done += u->done ? 1 : 0;
    }
    return code;
}

/* ---- budgets, time -------------------------------------------------------------------------- */

int fold_budget_used(struct core *core, const struct record *r, struct err *err)
{
    const struct record_budget_used *u = &r->u.budget_used;
    struct job *job;
    int code = fold_need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    if (u->used == 0) {
        job->d.used_user = 0;
        job->d.used_unknown = 0;
    } else if (u->owner == OWNER_USER) {
        job->d.used_user = u->used;
    } else if (u->owner == OWNER_UNKNOWN) {
        job->d.used_unknown = u->used;
    }
    job->d.no_progress = u->no_progress;
    job->d.same_failure = u->same_failure;
    job->d.other_no_progress = u->other_no_progress;
    job->d.signature = u->signature;
    return 0;
}

int fold_time_settled(struct core *core, const struct record *r, struct err *err)
{
    const struct record_time_settled *u = &r->u.time_settled;
    struct job *job;
    int code = fold_need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    if (u->until_service_ms < job->d.settled_service_ms ||
        u->until_service_ms - job->d.settled_service_ms != u->ms) {
        return err_set(err, -EINVAL,
                       "time of job %s does not join: settled to %llu, %llu ms to %llu",
                       job->d.name, (unsigned long long)job->d.settled_service_ms,
                       (unsigned long long)u->ms, (unsigned long long)u->until_service_ms);
    }
    job->d.settled_service_ms = u->until_service_ms;
    job->d.time_ms[u->kind] += u->ms;
    return 0;
}
