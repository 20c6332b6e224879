/* fold.c: state = fold(records). One small function a kind, none of which decides anything; live
 * steps and replays pass through the same lines. A record that cannot belong to the present state
 * (a journal that is corrupt or of another cluster) is refused before anything is changed. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "controller/core/impl.h"

/* ---- finding -------------------------------------------------------------------------------- */

struct node *node_at(struct core *core, uint32_t id)
{
    return id >= 1 && id <= core->node_count ? &core->nodes[id - 1] : NULL;
}

struct job *job_at(struct core *core, uint32_t id)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core->jobs[i].d.job == id) {
            return &core->jobs[i];
        }
    }
    return NULL;
}

struct slot *slot_at(struct core *core, const struct job *job, uint32_t slot)
{
    CHECK(slot < job->slot_count);
    return &core->slots[job->slot_base + slot];
}

struct incident *incident_at(struct core *core, uint32_t id)
{
    for (uint32_t i = core->incident_count; i-- > 0;) {
        if (core->incidents[i].d.incident == id) {
            return &core->incidents[i];
        }
    }
    return NULL;
}

struct recovery *recovery_at(struct core *core, uint32_t id)
{
    for (uint32_t i = core->recovery_count; i-- > 0;) {
        if (core->recoveries[i].d.recovery == id) {
            return &core->recoveries[i];
        }
    }
    return NULL;
}

struct checkpoint *checkpoint_at(struct core *core, uint32_t job, uint32_t attempt, uint64_t step)
{
    for (uint32_t i = core->checkpoint_count; i-- > 0;) {
        const struct record_image_checkpoint *d = &core->checkpoints[i].d;
        if (d->job == job && d->attempt == attempt && d->step == step) {
            return &core->checkpoints[i];
        }
    }
    return NULL;
}

/* ---- making room ---------------------------------------------------------------------------- */

/* Takes element `index` out of an array of `count`; the others keep their order. */
static void drop_at(void *array, uint32_t *count, uint32_t index, size_t size)
{
    CHECK(index < *count);
    uint8_t *at = (uint8_t *)array + (size_t)index * size;
    memmove(at, at + size, (size_t)(*count - index - 1) * size);
    (*count)--;
}

static void drop_facts_of(struct core *core, uint32_t incident)
{
    for (uint32_t i = core->fact_count; i-- > 0;) {
        if (core->facts[i].incident == incident) {
            drop_at(core->facts, &core->fact_count, i, sizeof *core->facts);
        }
    }
    for (uint32_t i = core->blamed_count; i-- > 0;) {
        if (core->blamed[i].incident == incident) {
            drop_at(core->blamed, &core->blamed_count, i, sizeof *core->blamed);
        }
    }
}

static bool incident_in_use(const struct core *core, uint32_t incident)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core->jobs[i].d.incident == incident) {
            return true;
        }
    }
    return false;
}

/* Forgets the oldest incident that no job is busy with. History stays in the store. */
static bool make_room_for_incident(struct core *core)
{
    for (uint32_t i = 0; i < core->incident_count; i++) {
        if (!incident_in_use(core, core->incidents[i].d.incident)) {
            drop_facts_of(core, core->incidents[i].d.incident);
            drop_at(core->incidents, &core->incident_count, i, sizeof *core->incidents);
            return true;
        }
    }
    return false;
}

static bool make_room_for_recovery(struct core *core)
{
    for (uint32_t i = 0; i < core->recovery_count; i++) {
        if (core->recoveries[i].d.outcome != OUTCOME_OPEN) {
            drop_at(core->recoveries, &core->recovery_count, i, sizeof *core->recoveries);
            return true;
        }
    }
    return false;
}

static bool make_room_for_checkpoint(struct core *core)
{
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct job *job = job_at(core, core->checkpoints[i].d.job);
        bool needed = job != NULL && !core_job_over(job) &&
                      (core_checkpoint_best(core, job) == &core->checkpoints[i] ||
                       core->checkpoints[i].d.pinned_by[0] != '\0');
        if (!needed) {
            drop_at(core->checkpoints, &core->checkpoint_count, i, sizeof *core->checkpoints);
            return true;
        }
    }
    return false;
}

static bool make_room_for_job(struct core *core)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core_job_over(&core->jobs[i])) {
            drop_at(core->jobs, &core->job_count, i, sizeof *core->jobs);
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

/* ---- the cluster ---------------------------------------------------------------------------- */

static int fold_store_opened(struct core *core, const struct record *r, struct err *err)
{
    if (core->g.store_id[0] != '\0') {
        return err_set(err, -EINVAL, "the store is opened twice in this journal");
    }
    text_copy(core->g.cluster_id, sizeof core->g.cluster_id, r->u.store_opened.cluster_id);
    text_copy(core->g.store_id, sizeof core->g.store_id, r->u.store_opened.store_id);
    return 0;
}

static int fold_term_began(struct core *core, const struct record *r, struct err *err)
{
    if (r->u.term_began.term <= core->g.term) {
        return err_set(err, -EINVAL, "term %llu does not follow term %llu",
                       (unsigned long long)r->u.term_began.term, (unsigned long long)core->g.term);
    }
    core->g.term = r->u.term_began.term;
    return 0;
}

static int fold_automation(struct core *core, const struct record *r, struct err *err)
{
    (void)err; /* always fits */
    core->g.observe = r->u.automation.observe;
    core->g.paused = r->u.automation.paused;
    text_copy(core->g.paused_cause, sizeof core->g.paused_cause, r->u.automation.cause);
    return 0;
}

static int fold_breaker(struct core *core, const struct record *r, struct err *err)
{
    (void)err;
    core->g.breaker_open = r->u.breaker.open;
    return 0;
}

static int fold_acted(struct core *core, const struct record *r, struct err *err)
{
    (void)core; /* an audit line: nothing follows from it */
    (void)r;
    (void)err;
    return 0;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static int need_node(struct core *core, uint32_t id, struct node **ret_node, struct err *err)
{
    *ret_node = node_at(core, id);
    return *ret_node != NULL ? 0 : err_set(err, -EINVAL, "there is no node %u", id);
}

static int fold_node_joined(struct core *core, const struct record *r, struct err *err)
{
    const struct record_node_joined *u = &r->u.node_joined;
    struct node *node = node_at(core, u->node);
    bool again = node != NULL && node->d.removed && text_equal(node->d.name, u->name);
    if (!again && (u->node != core->node_count + 1 || core->node_count >= core->limits.agents)) {
        return err_set(err, -EINVAL, "node %u '%s' does not follow node %u (limit %u)", u->node,
                       u->name, core->node_count, core->limits.agents);
    }
    node = again ? node : &core->nodes[core->node_count++];
    memset(node, 0, sizeof *node);
    node->d.node = u->node;
    node->d.life = NODE_JOINING;
    node->d.life_service_ms = r->service_ms;
    node->answer = 255;
    text_copy(node->d.name, sizeof node->d.name, u->name);
    core->g.node_next = again ? core->g.node_next : u->node + 1;
    return 0;
}

static int fold_node_session(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.node_session.node, &node, err);
    if (code < 0) {
        return code;
    }
    struct record_image_node *to = &node->d;
    const struct record_node_session *from = &r->u.node_session;
    NODE_SESSION_FIELDS(RECORD_COPY, unused)
    node->d.clean = r->u.node_session.clean;
    return 0;
}

static int fold_node_moved(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.node_moved.node, &node, err);
    if (code < 0) {
        return code;
    }
    if (node->d.life != r->u.node_moved.from ||
        !node_move_allowed(r->u.node_moved.from, r->u.node_moved.to)) {
        return err_set(err, -EINVAL, "node %s cannot move from %s to %s: it is %s", node->d.name,
                       WORD(node_life, r->u.node_moved.from), WORD(node_life, r->u.node_moved.to),
                       WORD(node_life, node->d.life));
    }
    node->d.life = r->u.node_moved.to;
    node->d.life_service_ms = r->service_ms;
    if (node->d.life == NODE_PROBATION) {
        node->d.probation_service_ms = r->service_ms + core->config.probation_ms;
    }
    return 0;
}

static int fold_node_lost(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.node_lost.node, &node, err);
    if (code == 0) {
        node->d.lost = true;
        node->d.lost_how = r->u.node_lost.how;
    }
    return code;
}

static int fold_node_back(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.node_back.node, &node, err);
    if (code == 0) {
        node->d.lost = false;
    }
    return code;
}

static int fold_node_removed(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.node_removed.node, &node, err);
    if (code < 0) {
        return code;
    }
    if (node->d.job != 0) {
        return err_set(err, -EINVAL, "node %s still holds a slot", node->d.name);
    }
    struct record_image_node d = node->d; /* who it was, to know its agent again */
    memset(node, 0, sizeof *node);
    node->d = d;
    node->d.removed = true;
    node->d.lost = false;
    node->answer = 255;
    return 0;
}

static int fold_inventory_accepted(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.inventory_accepted.node, &node, err);
    if (code == 0) {
        node->d.accepted_gpus = r->u.inventory_accepted.gpu_count;
        node->d.accepted_hash = r->u.inventory_accepted.inventory_hash;
    }
    return code;
}

static int fold_node_fence(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.node_fence.node, &node, err);
    if (code == 0) {
        node->d.fence = r->u.node_fence.state;
    }
    return code;
}

static int fold_strike(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.strike.node, &node, err);
    if (code == 0) {
        node->d.strikes++;
        node->d.strike_service_ms = r->service_ms;
    }
    return code;
}

static uint32_t mark_index(const struct core *core, uint32_t node, uint8_t owner, const char *code)
{
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (d->node == node && d->owner == owner && text_equal(d->code, code)) {
            return i;
        }
    }
    return UINT32_MAX;
}

static void mark_fill(struct record_image_mark *to, const struct record_mark_set *from)
{
    RECORD_mark_set(RECORD_COPY, unused)
}

static int fold_mark_set(struct core *core, const struct record *r, struct err *err)
{
    const struct record_mark_set *u = &r->u.mark_set;
    struct node *node;
    int code = need_node(core, u->node, &node, err);
    if (code < 0) {
        return code;
    }
    uint32_t at = mark_index(core, u->node, u->owner, u->code);
    if (at == UINT32_MAX) {
        if (core_mark_count(core, u->node) >= MARKS_PER_NODE) {
            return err_set(err, -EINVAL, "node %s has %d marks already", node->d.name,
                           MARKS_PER_NODE);
        }
        at = core->mark_count++;
        memset(&core->marks[at], 0, sizeof core->marks[at]);
        core->marks[at].d.since_service_ms = r->service_ms;
        core->marks[at].d.since_wall_ms = r->wall_ms;
    }
    mark_fill(&core->marks[at].d, u);
    return 0;
}

static int fold_mark_cleared(struct core *core, const struct record *r, struct err *err)
{
    const struct record_mark_cleared *u = &r->u.mark_cleared;
    uint32_t at = mark_index(core, u->node, u->owner, u->code);
    if (at == UINT32_MAX) {
        return err_set(err, -EINVAL, "node %u has no mark %s/%s", u->node,
                       WORD(mark_owner, u->owner), u->code);
    }
    drop_at(core->marks, &core->mark_count, at, sizeof *core->marks);
    struct node *node = node_at(core, u->node);
    if (node != NULL && u->owner == MARK_RECOVERY && text_equal(u->code, "unproven")) {
        node->d.fence = FENCE_NONE; /* the next time is another one */
    }
    return 0;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static int need_job(struct core *core, uint32_t id, struct job **ret_job, struct err *err)
{
    *ret_job = job_at(core, id);
    return *ret_job != NULL ? 0 : err_set(err, -EINVAL, "there is no job %u", id);
}

static int job_insert(struct core *core, uint32_t id, uint32_t slots, struct job **ret_job,
                      struct err *err)
{
    if (core->job_count >= core->limits.jobs && !make_room_for_job(core)) {
        return err_set(err, -ENOSPC, "more than %u jobs (limits.jobs)", core->limits.jobs);
    }
    uint32_t base = slots > 0 ? region_find(core, slots) : 0;
    if (base == UINT32_MAX) {
        return err_set(err, -ENOSPC, "no room for %u slots (limits.slots %u)", slots,
                       core->limits.slots);
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

static int fold_job_submitted(struct core *core, const struct record *r, struct err *err)
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

static int fold_job_moved(struct core *core, const struct record *r, struct err *err)
{
    const struct record_job_moved *u = &r->u.job_moved;
    struct job *job;
    int code = need_job(core, u->job, &job, err);
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

static int fold_cancel_asked(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.cancel_asked.job, &job, err);
    if (code == 0) {
        job->d.cancelled = true;
    }
    return code;
}

static int fold_hold_asked(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.hold_asked.job, &job, err);
    if (code == 0) {
        job->d.hold_asked = r->u.hold_asked.on;
    }
    return code;
}

static int fold_rollback_approved(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.rollback_approved.job, &job, err);
    if (code == 0) {
        job->d.approved = true;
    }
    return code;
}

static int fold_job_quarantined(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.job_quarantined.job, &job, err);
    if (code == 0) {
        job->d.quarantined = true;
    }
    return code;
}

static int fold_attempt_made(struct core *core, const struct record *r, struct err *err)
{
    const struct record_attempt_made *u = &r->u.attempt_made;
    struct job *job;
    int code = need_job(core, u->job, &job, err);
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

static int fold_attempt_ended(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.attempt_ended.job, &job, err);
    if (code == 0 && job->d.attempted && r->u.attempt_ended.attempt == job->d.attempt) {
        job->d.ended = true;
        job->d.last_step = r->u.attempt_ended.step;
        bool loading = r->u.attempt_ended.phase == PHASE_RESTORING;
        job->d.restore_failures = loading ? job->d.restore_failures + 1 : 0;
    }
    return code;
}

static int fold_port_chosen(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.port_chosen.job, &job, err);
    if (code == 0) {
        job->d.port = r->u.port_chosen.port;
        text_copy(job->d.address, sizeof job->d.address, r->u.port_chosen.address);
    }
    return code;
}

static int fold_launch_ordered(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.launch_ordered.job, &job, err);
    if (code == 0 && (!job->d.attempted || r->u.launch_ordered.attempt != job->d.attempt)) {
        code = err_set(err, -EINVAL, "launch of attempt %u of job %s, which is at %u",
                       r->u.launch_ordered.attempt, job->d.name, job->d.attempt);
    }
    if (code == 0) {
        job->d.launched = true;
    }
    return code;
}

static int fold_counters_adopted(struct core *core, const struct record *r, struct err *err)
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

/* ---- slots ---------------------------------------------------------------------------------- */

static int need_slot(struct core *core, uint32_t job_id, uint32_t slot, struct job **ret_job,
                     struct slot **ret_slot, struct err *err)
{
    int code = need_job(core, job_id, ret_job, err);
    if (code == 0 && slot >= (*ret_job)->slot_count) {
        code = err_set(err, -EINVAL, "job %s has no slot %u", (*ret_job)->d.name, slot);
    }
    if (code == 0) {
        *ret_slot = slot_at(core, *ret_job, slot);
    }
    return code;
}

static int fold_slot_taken(struct core *core, const struct record *r, struct err *err)
{
    const struct record_slot_taken *u = &r->u.slot_taken;
    struct job *job;
    struct slot *slot;
    struct node *node;
    int code = need_slot(core, u->job, u->slot, &job, &slot, err);
    code = code < 0 ? code : need_node(core, u->node, &node, err);
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

static int fold_slot_left(struct core *core, const struct record *r, struct err *err)
{
    const struct record_slot_left *u = &r->u.slot_left;
    struct job *job;
    struct slot *slot;
    struct node *node;
    int code = need_slot(core, u->job, u->slot, &job, &slot, err);
    code = code < 0 ? code : need_node(core, u->node, &node, err);
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

static int fold_slot_done(struct core *core, const struct record *r, struct err *err)
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

/* ---- incidents and recoveries --------------------------------------------------------------- */

static int fold_incident_opened(struct core *core, const struct record *r, struct err *err)
{
    const struct record_incident_opened *u = &r->u.incident_opened;
    struct job *job;
    int code = need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    if (core->incident_count >= core->limits.incidents && !make_room_for_incident(core)) {
        return err_set(err, -EINVAL, "more than %u open incidents", core->limits.incidents);
    }
    struct incident *incident = &core->incidents[core->incident_count++];
    memset(incident, 0, sizeof *incident);
    incident->d.incident = u->incident;
    incident->d.job = u->job;
    incident->d.attempt = u->attempt;
    incident->d.step = u->step;
    incident->d.opened_service_ms = r->service_ms;
    incident->d.opened_wall_ms = r->wall_ms;
    job->d.incident = u->incident;
    core->g.incident_next = u->incident + 1;
    return 0;
}

static int fold_fact_kept(struct core *core, const struct record *r, struct err *err)
{
    (void)err;
    if (core->fact_count >= core->limits.facts) {
        uint32_t oldest = core->facts[0].incident;
        if (!incident_in_use(core, oldest)) {
            drop_facts_of(core, oldest);
        }
    }
    if (core->fact_count < core->limits.facts) { /* else it is in the journal and not judged */
        memcpy(&core->facts[core->fact_count++], &r->u.fact_kept, sizeof r->u.fact_kept);
    }
    return 0;
}

static int fold_verdict(struct core *core, const struct record *r, struct err *err)
{
    const struct record_verdict *u = &r->u.verdict;
    struct incident *incident = incident_at(core, u->incident);
    if (incident == NULL) {
        return err_set(err, -EINVAL, "verdict on incident %u, which is not known", u->incident);
    }
    struct record_image_incident *d = &incident->d;
    struct record_image_incident *to = d;
    const struct record_verdict *from = u;
    VERDICT_FIELDS(RECORD_COPY, unused)
    d->judged = true;
    /* The first fact opened the recovery; only now it is known what it was about. */
    for (uint32_t i = 0; i < core->recovery_count; i++) {
        struct record_image_recovery *recovery = &core->recoveries[i].d;
        if (recovery->outcome == OUTCOME_OPEN && recovery->incident == u->incident && u->evict) {
            recovery->cause = u->owner == OWNER_PLANNED ? CAUSE_PLANNED : CAUSE_NODE;
        }
    }
    return 0;
}

static int fold_blamed(struct core *core, const struct record *r, struct err *err)
{
    const struct record_blamed *u = &r->u.blamed;
    struct incident *incident = incident_at(core, u->incident);
    if (incident == NULL) {
        return err_set(err, -EINVAL, "blame in incident %u, which is not known", u->incident);
    }
    if (incident->d.first_blamed == 0) {
        incident->d.first_blamed = u->node;
    }
    if (core->blamed_count >= core->limits.facts &&
        !incident_in_use(core, core->blamed[0].incident)) {
        drop_facts_of(core, core->blamed[0].incident);
    }
    if (core->blamed_count < core->limits.facts) {
        memcpy(&core->blamed[core->blamed_count++], u, sizeof *u);
    }
    return 0;
}

static int need_recovery(struct core *core, uint32_t id, struct recovery **ret_recovery,
                         struct err *err)
{
    *ret_recovery = recovery_at(core, id);
    return *ret_recovery != NULL ? 0 : err_set(err, -EINVAL, "there is no recovery %u", id);
}

static int fold_recovery_opened(struct core *core, const struct record *r, struct err *err)
{
    const struct record_recovery_opened *u = &r->u.recovery_opened;
    struct job *job;
    int code = need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    if (job->d.recovery != 0) {
        return err_set(err, -EINVAL, "job %s already recovers (%u)", job->d.name, job->d.recovery);
    }
    if (core->recovery_count >= core->limits.recoveries && !make_room_for_recovery(core)) {
        return err_set(err, -EINVAL, "more than %u open recoveries", core->limits.recoveries);
    }
    struct recovery *recovery = &core->recoveries[core->recovery_count++];
    memset(recovery, 0, sizeof *recovery);
    recovery->d.recovery = u->recovery;
    recovery->d.job = u->job;
    recovery->d.incident = u->incident;
    recovery->d.cause = u->cause;
    recovery->d.attempt = u->attempt;
    recovery->d.phase = PHASE_DETECT;
    recovery->d.phase_service_ms[PHASE_DETECT] = u->since_service_ms;
    recovery->d.opened_service_ms = u->since_service_ms;
    recovery->d.opened_wall_ms = r->wall_ms - (r->service_ms - u->since_service_ms);
    job->d.recovery = u->recovery;
    core->g.recovery_next = u->recovery + 1;
    return 0;
}

static int fold_recovery_merged(struct core *core, const struct record *r, struct err *err)
{
    struct recovery *recovery;
    int code = need_recovery(core, r->u.recovery_merged.recovery, &recovery, err);
    if (code == 0) {
        recovery->d.merged++;
        recovery->d.incident = r->u.recovery_merged.incident;
        if (recovery->d.cause == CAUSE_PLANNED || recovery->d.cause == CAUSE_START) {
            recovery->d.cause = r->u.recovery_merged.cause;
        }
    }
    return code;
}

/* Books the time of the phase that ends now. */
static void phase_end(struct recovery *recovery, uint64_t service_ms)
{
    uint64_t since = recovery->d.phase_service_ms[recovery->d.phase];
    recovery->d.phase_ms[recovery->d.phase] += service_ms > since ? service_ms - since : 0;
}

static int fold_recovery_phase(struct core *core, const struct record *r, struct err *err)
{
    struct recovery *recovery;
    int code = need_recovery(core, r->u.recovery_phase.recovery, &recovery, err);
    if (code == 0) {
        phase_end(recovery, r->service_ms);
        recovery->d.phase = r->u.recovery_phase.phase;
        recovery->d.phase_service_ms[recovery->d.phase] = r->service_ms;
    }
    return code;
}

static int fold_recovery_plan(struct core *core, const struct record *r, struct err *err)
{
    const struct record_recovery_plan *u = &r->u.recovery_plan;
    struct recovery *recovery;
    int code = need_recovery(core, u->recovery, &recovery, err);
    if (code == 0) {
        recovery->d.planned = true;
        recovery->d.attempt_new = u->attempt;
        if (u->last_step > recovery->d.last_step) { /* what failed meanwhile never came as far */
            recovery->d.last_step = u->last_step;
        }
        recovery->d.restore_step = u->restore_step;
        recovery->d.lost_steps += u->lost_steps; /* a merged failure may lose more */
        recovery->d.moved_nodes += u->moved_nodes;
        recovery->d.shifted_ranks += u->shifted_ranks;
        recovery->d.skipped = u->skipped;
        recovery->d.parts = u->parts;
    }
    return code;
}

static int fold_recovery_closed(struct core *core, const struct record *r, struct err *err)
{
    struct recovery *recovery;
    int code = need_recovery(core, r->u.recovery_closed.recovery, &recovery, err);
    if (code < 0) {
        return code;
    }
    phase_end(recovery, r->service_ms);
    recovery->d.outcome = r->u.recovery_closed.outcome;
    recovery->d.closed_service_ms = r->service_ms;
    struct job *job = job_at(core, recovery->d.job);
    if (job != NULL && job->d.recovery == recovery->d.recovery) {
        job->d.recovery = 0;
        job->d.incident = 0;
        job->d.stepped = job->d.stepped || recovery->d.outcome == OUTCOME_RECOVERED;
    }
    return 0;
}

/* ---- checkpoints, budgets, time ------------------------------------------------------------- */

static int fold_checkpoint_moved(struct core *core, const struct record *r, struct err *err)
{
    const struct record_checkpoint_moved *u = &r->u.checkpoint_moved;
    struct checkpoint *checkpoint = checkpoint_at(core, u->job, u->attempt, u->step);
    if (checkpoint == NULL) {
        if (core->checkpoint_count >= core->limits.checkpoints && !make_room_for_checkpoint(core)) {
            return err_set(err, -EINVAL, "more than %u checkpoints", core->limits.checkpoints);
        }
        checkpoint = &core->checkpoints[core->checkpoint_count++];
        memset(checkpoint, 0, sizeof *checkpoint);
        checkpoint->began_ms = r->service_ms;
    }
    memcpy(&checkpoint->d, u, sizeof *u);
    checkpoint->d.at_service_ms = r->service_ms;
    checkpoint->d.at_wall_ms = r->wall_ms;
    return 0;
}

static int fold_checkpoint_pinned(struct core *core, const struct record *r, struct err *err)
{
    const struct record_checkpoint_pinned *u = &r->u.checkpoint_pinned;
    struct checkpoint *checkpoint = checkpoint_at(core, u->job, u->attempt, u->step);
    (void)err;
    if (checkpoint != NULL) { /* the oldest are forgotten; a pin of one of them says nothing */
        text_copy(checkpoint->d.pinned_by, NAME_SIZE, u->pinned_by);
        text_copy(checkpoint->d.pinned_why, TEXT_SIZE, u->pinned_why);
    }
    return 0;
}

static int fold_checkpoint_removed(struct core *core, const struct record *r, struct err *err)
{
    const struct record_checkpoint_removed *u = &r->u.checkpoint_removed;
    (void)err;
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct record_image_checkpoint *d = &core->checkpoints[i].d;
        if (d->job == u->job && d->attempt == u->attempt && d->step == u->step) {
            drop_at(core->checkpoints, &core->checkpoint_count, i, sizeof *core->checkpoints);
            break;
        }
    }
    return 0;
}

static int fold_budget_used(struct core *core, const struct record *r, struct err *err)
{
    const struct record_budget_used *u = &r->u.budget_used;
    struct job *job;
    int code = need_job(core, u->job, &job, err);
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

static int fold_time_settled(struct core *core, const struct record *r, struct err *err)
{
    const struct record_time_settled *u = &r->u.time_settled;
    struct job *job;
    int code = need_job(core, u->job, &job, err);
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

static int fold_save_asked(struct core *core, const struct record *r, struct err *err)
{
    struct job *job;
    int code = need_job(core, r->u.save_asked.job, &job, err);
    if (code == 0) {
        bool first = r->u.save_asked.stop && !job->d.stop_request;
        job->d.stop_asked_service_ms = first ? r->service_ms : job->d.stop_asked_service_ms;
        job->d.save_request = r->u.save_asked.request;
        job->d.stop_request = r->u.save_asked.stop;
    }
    return code;
}

/* ---- foreign -------------------------------------------------------------------------------- */

static struct foreign *foreign_find(struct core *core, uint32_t node, uint32_t job,
                                    uint32_t attempt)
{
    for (uint32_t i = 0; i < core->foreign_count; i++) {
        struct foreign *foreign = &core->foreigns[i];
        if (foreign->d.node == node && foreign->d.job == job && foreign->d.attempt == attempt) {
            return foreign;
        }
    }
    return NULL;
}

static int fold_foreign_seen(struct core *core, const struct record *r, struct err *err)
{
    (void)err;
    const struct record_foreign_seen *u = &r->u.foreign_seen;
    if (foreign_find(core, u->node, u->job, u->attempt) != NULL) {
        return 0;
    }
    if (core->foreign_count >= core->limits.foreign) {
        drop_at(core->foreigns, &core->foreign_count, 0, sizeof *core->foreigns);
    }
    core->foreigns[core->foreign_count++].d = (struct record_image_foreign){
        .node = u->node, .job = u->job, .attempt = u->attempt, .term = u->term};
    if (u->job >= core->g.job_next && u->job < UINT32_MAX / 2) {
        core->g.job_next = u->job + 1; /* their agents remember that number as used */
    }
    return 0;
}

static int fold_foreign_resolved(struct core *core, const struct record *r, struct err *err)
{
    const struct record_foreign_resolved *u = &r->u.foreign_resolved;
    struct foreign *foreign = foreign_find(core, u->node, u->job, u->attempt);
    if (foreign == NULL) {
        return err_set(err, -EINVAL, "no foreign ranks of job %u on node %u", u->job, u->node);
    }
    foreign->d.resolved = true;
    foreign->d.stop = u->stopped;
    return 0;
}

/* ---- images --------------------------------------------------------------------------------- */

static int fold_image_core(struct core *core, const struct record *r, struct err *err)
{
    if (core->node_count != 0 || core->job_count != 0) {
        return err_set(err, -EINVAL, "a snapshot must be folded into an empty core");
    }
    core->g = r->u.image_core;
    return 0;
}

static int fold_image_node(struct core *core, const struct record *r, struct err *err)
{
    if (r->u.image_node.node != core->node_count + 1 || core->node_count >= core->limits.agents) {
        return err_set(err, -EINVAL, "node %u of the snapshot is out of order",
                       r->u.image_node.node);
    }
    struct node *node = &core->nodes[core->node_count++];
    memset(node, 0, sizeof *node);
    node->d = r->u.image_node;
    node->answer = 255;
    return 0;
}

static int fold_image_mark(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = need_node(core, r->u.image_mark.node, &node, err);
    if (code < 0) {
        return code;
    }
    if (core_mark_count(core, node->d.node) >= MARKS_PER_NODE) {
        return err_set(err, -EINVAL, "node %s has %d marks already", node->d.name, MARKS_PER_NODE);
    }
    core->marks[core->mark_count++].d = r->u.image_mark;
    return 0;
}

static int fold_image_job(struct core *core, const struct record *r, struct err *err)
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

static int fold_image_slot(struct core *core, const struct record *r, struct err *err)
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

#define FOLD_IMAGE(name, array, member, limit)                                                     \
    static int fold_image_##name(struct core *core, const struct record *r, struct err *err)       \
    {                                                                                              \
        if (core->name##_count >= core->limits.limit) {                                            \
            return err_set(err, -EINVAL, "more than %u of %s", core->limits.limit, #limit);        \
        }                                                                                          \
        memset(&core->array[core->name##_count], 0, sizeof core->array[0]);                        \
        core->array[core->name##_count++] member = r->u.image_##name;                              \
        return 0;                                                                                  \
    }

static int fold_image_checkpoint(struct core *core, const struct record *r, struct err *err)
{
    if (core->checkpoint_count >= core->limits.checkpoints) {
        return err_set(err, -EINVAL, "more than %u checkpoints", core->limits.checkpoints);
    }
    struct checkpoint *checkpoint = &core->checkpoints[core->checkpoint_count++];
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->d = r->u.image_checkpoint;
    checkpoint->began_ms = r->u.image_checkpoint.at_service_ms; /* of one that is being written */
    return 0;
}

FOLD_IMAGE(incident, incidents, .d, incidents)
FOLD_IMAGE(fact, facts, , facts)
FOLD_IMAGE(blamed, blamed, , facts)
FOLD_IMAGE(recovery, recoveries, .d, recoveries)
FOLD_IMAGE(foreign, foreigns, .d, foreign)

static_assert(sizeof(struct record_image_fact) == sizeof(struct record_fact_kept), "same fields");
static_assert(sizeof(struct record_image_blamed) == sizeof(struct record_blamed), "same fields");

/* ---- the table ------------------------------------------------------------------------------ */

typedef int fold_one(struct core *core, const struct record *record, struct err *err);

int fold_record(struct core *core, const struct record *record, struct err *err)
{
    static fold_one *const table[RECORD_KIND_MAX + 1] = {
#define K(number, name) [number] = fold_##name,
        RECORD_KINDS(K)
#undef K
    };
    if (record->kind > RECORD_KIND_MAX || table[record->kind] == NULL) {
        return err_set(err, -EINVAL, "record kind %u is not known to this version", record->kind);
    }
    int code = table[record->kind](core, record, err);
    if (code == 0 && record->kind < RECORD_FIRST_IMAGE) {
        core->g.service_ms = record->service_ms;
        core->g.wall_ms = record->wall_ms;
    }
    return code;
}
