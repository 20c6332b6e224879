/* plan.c: what the phase `plan` decides: who was guilty, whether the job may go on, which nodes
 * leave, which spares come, and from which checkpoint. Nothing is evicted or placed before the
 * verdict. */
#include <errno.h>
#include <string.h>

#include "controller/core/plan.h"

enum { RESTORE_FAILURES_MAX = 2, HARDWARE_NO_PROGRESS = 10, SAME_KIND_MS = 24 * 3600 * 1000 };

/* ---- nodes as the layout sees them ---------------------------------------------------------- */

static struct layout_node to_layout(struct core *core, const struct node *node, uint32_t order)
{
    return (struct layout_node){.id = node->d.node,
                                .name_order = order,
                                .rack = index_label(core, node->d.rack),
                                .leaf = index_label(core, node->d.leaf),
                                .pod = index_label(core, node->d.pod),
                                .feed = index_label(core, node->d.feed),
                                .probation = node->d.life == NODE_PROBATION,
                                .healthy_ms = service_now(core) - node->d.life_service_ms};
}

static int by_name(const void *a, const void *b, const void *context)
{
    const struct core *core = context;
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return text_order(core->nodes[x - 1].d.name, core->nodes[y - 1].d.name);
}

/* name_order[id - 1]: position of a node's name among all. Names stay for ever, so the order holds
 * until there is one more. */
static void order_names(struct core *core)
{
    if (core->names_ordered == core->node_count) {
        return;
    }
    core->names_ordered = core->node_count;
    for (uint32_t i = 0; i < core->node_count; i++) {
        core->plan_ids[i] = i + 1;
    }
    sort_u32(core->plan_ids, core->node_count, by_name, core);
    for (uint32_t i = 0; i < core->node_count; i++) {
        core->name_order[core->plan_ids[i] - 1] = i;
    }
}

uint32_t plan_collect(struct core *core, const struct job *job)
{
    uint32_t count = 0;
    order_names(core);
    spares_share(core, job);
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (spares_may_take(core, job, &core->nodes[i])) {
            core->plan_nodes[count++] = to_layout(core, &core->nodes[i], core->name_order[i]);
        }
    }
    return count;
}

struct layout_shape plan_shape(const struct job *job)
{
    struct layout_shape shape = {.tensor = job->d.tensor,
                                 .context = job->d.context,
                                 .pipeline = job->d.pipeline,
                                 .data = job->d.data,
                                 .ranks_per_node = job->d.ranks_per_node};
    text_copy(shape.order, sizeof shape.order, job->d.order);
    return shape;
}

/* ---- the verdict ---------------------------------------------------------------------------- */

static void run_judge(struct core *core, const struct incident *incident)
{
    judge_case_read(core, incident, false, &core->judge_case);
    judge(&core->judge_case.input, &core->verdict);
}

static void emit_verdict(struct core *core, const struct job *job, uint32_t incident)
{
    const struct judge_verdict *v = &core->verdict;
    struct record *record = record_begin(core, RECORD_verdict_kind);
    struct record_verdict *u = &record->u.verdict;
    u->incident = incident;
    u->owner = v->owner;
    u->action = v->action;
    u->lane = v->lane;
    u->confidence = v->confidence;
    u->evict = v->evict;
    u->facts_used = v->facts_used;
    u->blamed = v->blamed_count;
    u->signature = v->signature;
    text_copy(u->rule, NAME_SIZE, v->rule);
    text_copy(u->why, TEXT_SIZE, v->why);
    record->job = job->d.job;
    record->recovery = job->d.recovery;
    record->node = v->blamed_count > 0 ? v->blamed[0] : 0;
    record_subject(record, "incident/I-%04u", incident);
    record_says(record, "Verdict", SEVERITY_INFO, "%s, %s: %s (rule %s, confidence %s)",
                WORD(fault_owner, v->owner), WORD(job_action, v->action), v->why, v->rule,
                WORD(confidence, v->confidence));
    core_emit(core, record);
    for (uint32_t i = 0; i < v->blamed_count; i++) {
        const struct node *node = core_node(core, v->blamed[i]);
        CHECK(node != NULL);
        record = record_begin(core, RECORD_blamed_kind);
        record->u.blamed.incident = incident;
        record->u.blamed.node = v->blamed[i];
        record->u.blamed.slot = node->d.job == job->d.job ? (int32_t)node->d.slot : -1;
        record->job = job->d.job;
        record->node = v->blamed[i];
        record_subject(record, "node/%s", node->d.name);
        core_emit(core, record);
    }
}

/* The job's last verdict blamed the same node, or neither blamed one: hosts that fail one after the
 * other are not one failure again and again. */
static bool same_node(const struct core *core, const struct job *job)
{
    uint32_t now = core->verdict.blamed_count > 0 ? core->verdict.blamed[0] : 0;
    for (uint32_t i = core->incident_count; i-- > 0;) {
        const struct record_image_incident *d = &core->incidents[i].d;
        if (d->job == job->d.job && d->judged) {
            return d->first_blamed == now;
        }
    }
    return false;
}

static bool of_program(const struct judge_verdict *v)
{
    return v->owner == OWNER_USER || v->owner == OWNER_UNKNOWN;
}

/* Books this failure in all its counters; `counted`: its cause has a budget of its own. */
static void use_budget(struct core *core, const struct job *job, bool counted)
{
    const struct judge_verdict *v = &core->verdict;
    bool same = job->d.signature == v->signature && job->d.same_failure > 0 &&
                (of_program(v) || same_node(core, job));
    uint32_t used = v->owner == OWNER_USER ? job->d.used_user : job->d.used_unknown;
    used += counted ? 1 : 0;
    struct record *record = record_begin(core, RECORD_budget_used_kind);
    struct record_budget_used *u = &record->u.budget_used;
    u->job = job->d.job;
    u->owner = counted ? v->owner : OWNER_HARDWARE;
    u->used = used > 0 ? used : 1; /* 0 would refill */
    u->no_progress = job->d.no_progress + (counted ? 1 : 0);
    u->other_no_progress = job->d.other_no_progress + (counted ? 0 : 1);
    u->same_failure = same ? job->d.same_failure + 1 : 1;
    u->signature = v->signature;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
}

/* Restart is not progress: each kind of failure has its own patience, and one that comes again and
 * again in the same way the least. */
static bool no_progress(const struct core *core, const struct job *job, char reason[TEXT_SIZE])
{
    const struct {
        uint32_t count;
        uint32_t limit;
        const char *what;
    } rows[] = {
        {job->d.same_failure, job->d.no_progress_limit, "of the same failure"},
        {job->d.no_progress, job->d.no_progress_limit, "with verdict user or unknown"},
        {job->d.other_no_progress, HARDWARE_NO_PROGRESS, "from faults around the job"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].count > rows[i].limit) {
            text_sentence(reason, TEXT_SIZE,
                          "%u recoveries %s and no newer checkpoint, the last: %.60s; see keepstep "
                          "recover history %.24s, then release it",
                          rows[i].count, rows[i].what, core->verdict.why, job->d.name);
            return true;
        }
    }
    return false;
}

/* Counts the failure, and says what the budgets make of the job. DO_NONE: it may go on. */
static uint8_t over_budget(struct core *core, const struct job *job, char reason[TEXT_SIZE])
{
    const struct judge_verdict *v = &core->verdict;
    if (v->free_of_budget || v->owner == OWNER_PLANNED) {
        return DO_NONE;
    }
    /* Twice a checkpoint may fail to load before it is its fault; the program's it is not. */
    bool loading = job->d.restore_step != 0 && job->d.restore_failures > 0 &&
                   job->d.restore_failures <= RESTORE_FAILURES_MAX;
    bool counted = of_program(v) && !loading;
    use_budget(core, job, counted);
    uint32_t used = v->owner == OWNER_USER ? job->d.used_user : job->d.used_unknown;
    uint32_t limit = v->owner == OWNER_USER ? job->d.retries_user : job->d.retries_unknown;
    if (counted && used > limit) {
        text_format(reason, TEXT_SIZE,
                    "%u %s for %s failures without a newer checkpoint "
                    "(recovery.retries.%s is %u): %s",
                    used, text_plural(used, "restart", "restarts"), WORD(fault_owner, v->owner),
                    WORD(fault_owner, v->owner), limit, v->why);
        return v->owner == OWNER_USER ? DO_FAIL : DO_HOLD;
    }
    return no_progress(core, job, reason) ? DO_HOLD : DO_NONE;
}

static bool was_away(const struct core *core, uint32_t incident, uint32_t node)
{
    for (uint32_t i = 0; i < core->fact_count; i++) {
        const struct record_image_fact *d = &core->facts[i];
        if (d->incident == incident && d->node == node &&
            (d->source == FACT_CONNECTION || d->source == FACT_AGENT_DOWN)) {
            return true;
        }
    }
    return false;
}

static bool marked_for(const struct core *core, uint32_t incident, uint32_t node)
{
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (d->incident == incident && d->node == node) {
            return true;
        }
    }
    return false;
}

/* Two faults of a kind in a day, where they are the node's own: its job does not take it again. */
static bool second_of_kind(const struct core *core, const struct node *node, uint8_t owner)
{
    bool own = owner == OWNER_HARDWARE || owner == OWNER_SOFTWARE || owner == OWNER_NETWORK ||
               owner == OWNER_UNKNOWN;
    uint64_t last = node->d.struck_service_ms[owner];
    return own && last != 0 && service_now(core) - last <= SAME_KIND_MS;
}

/* What mends the node. A fault of its own that asks for nothing in particular is looked for: else it
 * would stay out, and nobody would ever be asked to mend it. One that was only silent comes back by
 * itself, or is power-cycled. */
static uint8_t lane_after(const struct incident *incident, bool away)
{
    bool own = incident->d.owner == OWNER_HARDWARE || incident->d.owner == OWNER_SOFTWARE;
    return incident->d.lane == LANE_NONE && own && !away ? LANE_DIAG : incident->d.lane;
}

static void evict(struct core *core, const struct job *job, const struct incident *incident,
                  struct node *node)
{
    uint32_t id = incident->d.incident;
    bool away = was_away(core, id, node->d.node);
    uint8_t lane = lane_after(incident, away);
    if (incident->d.owner == OWNER_PLANNED) {
        return; /* it has the mark of whoever sent it away, and no strike */
    }
    struct record *record = record_begin(core, RECORD_strike_kind);
    record->u.strike.node = node->d.node;
    record->u.strike.incident = id;
    record->u.strike.owner = incident->d.owner;
    record->u.strike.weight_milli = rates_strikes_milli(core, node) + 1000;
    record->u.strike.job = job->d.job;
    record->u.strike.barred = second_of_kind(core, node, incident->d.owner);
    record->u.strike.must_pass = repair_validation(lane);
    record->node = node->d.node;
    record->job = job->d.job;
    record_subject(record, "node/%s", node->d.name);
    core_emit(core, record);
    mark_set(core, node,
             &(struct mark_order){.owner = away ? MARK_RECOVERY : MARK_HEALTH,
                                  .level = MARK_LEAVE,
                                  .when = WHEN_NOW,
                                  .code = away ? "evicted" : incident->d.rule,
                                  .actor = "keepstep",
                                  .incident = id,
                                  .lane = lane,
                                  .fault = incident->d.owner,
                                  .text = incident->d.why});
}

const struct incident *plan_evicted_for(const struct core *core, const struct job *job,
                                        const struct record_image_blamed *blamed)
{
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    const struct incident *incident = core_incident(core, blamed->incident);
    const struct node *node = core_node(core, blamed->node);
    if (recovery == NULL || incident == NULL || incident->d.job != job->d.job ||
        !incident->d.evict || incident->d.attempt < recovery->d.attempt ||
        node->d.job != job->d.job) {
        return NULL;
    }
    bool held_then = core_slot(core, job, node->d.slot)->d.since_attempt <= incident->d.attempt;
    return held_then && !marked_for(core, incident->d.incident, node->d.node) ? incident : NULL;
}

/* Blamed nodes leave. A lost one is marked already; one that was only unreachable comes back
 * through its checks; one with a fault of its own waits for its repair. Not at the verdict but
 * here, where automation may act: until then the verdict is only said. */
static void evict_blamed(struct core *core, const struct job *job)
{
    for (uint32_t i = 0; i < core->blamed_count; i++) {
        const struct incident *incident = plan_evicted_for(core, job, &core->blamed[i]);
        if (incident != NULL) {
            evict(core, job, incident, node_at(core, core->blamed[i].node));
        }
    }
}

void plan_verdict(struct core *core, struct job *job)
{
    struct incident *incident = incident_at(core, job->d.incident);
    CHECK(incident != NULL && !incident->d.judged);
    uint32_t id = incident->d.incident;
    run_judge(core, incident);
    struct judge_verdict *v = &core->verdict;
    char reason[TEXT_SIZE];
    v->evict = v->action == DO_EVICT;
    uint8_t over = over_budget(core, job, reason);
    if (v->action == DO_NONE) {
        v->action = DO_RESTART; /* whatever it was has ended the attempt */
    }
    if (v->action == DO_FAIL && v->retry && over == DO_NONE) {
        v->action = DO_RESTART; /* the budget of its owner has one left */
    } else if (over != DO_NONE && (v->action != DO_FAIL || v->retry)) {
        /* The budget's word is part of the durable verdict: phase plan acts on it, also after a
         * restart of the controller. */
        v->action = over;
        text_copy(v->why, TEXT_SIZE, reason);
    }
    emit_verdict(core, job, id);
    if (v->action == DO_FAIL) {
        job_stop_for_good(core, job, v->why);
    }
}

/* ---- the checkpoint ------------------------------------------------------------------------- */

bool plan_failed_twice(const struct job *job, const struct checkpoint *checkpoint)
{
    return checkpoint != NULL && job->d.restore_failures >= RESTORE_FAILURES_MAX &&
           checkpoint->d.step == job->d.restore_step &&
           checkpoint->d.attempt == job->d.restore_attempt;
}

/* The one to restore. One that has failed twice in a row is corrupt, and the one before is taken.
 */
static const struct checkpoint *choose(struct core *core, struct job *job)
{
    const struct checkpoint *best = core_checkpoint_best(core, job);
    if (plan_failed_twice(job, best)) {
        checkpoint_mark(core, best, CKPT_CORRUPT, "two attempts failed while loading it");
        best = core_checkpoint_best(core, job);
    }
    return best;
}

/* In synchronous training a step that one rank completed is a step that all of them have paid for. */
static uint64_t last_step(const struct core *core, const struct job *job)
{
    const struct incident *incident = core_incident(core, job->d.incident);
    uint64_t known = incident != NULL ? incident->d.step : 0;
    return known > job->step_top ? known : job->step_top;
}

uint64_t plan_step_given_up(const struct core *core, const struct job *job)
{
    if (!job->d.attempted) {
        return 0;
    }
    uint64_t done = job->d.launched ? last_step(core, job) : 0;
    return done > job->d.restore_step ? done : job->d.restore_step;
}

/* ---- placement ------------------------------------------------------------------------------ */

bool plan_must_leave(const struct core *core, const struct node *node)
{
    uint8_t when;
    return node->d.lost || node->set_aside ||
           (node_leaves(core, node, &when) && when != WHEN_JOB_END);
}

static bool leaves_now(const struct core *core, const struct job *job, const struct node *node)
{
    (void)job;
    return plan_must_leave(core, node);
}

uint32_t plan_lost_slots(struct core *core, const struct job *job, plan_leaves *leaves)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct node *node = core_node(core, core_slot(core, job, i)->d.node);
        if (node == NULL || leaves(core, job, node)) {
            core->plan_lost[lost++] = i;
        }
        core->plan_holders[i] = node != NULL
                                    ? to_layout(core, node, core->name_order[node->d.node - 1])
                                    : (struct layout_node){0};
    }
    return lost;
}

void plan_leave_slot(struct core *core, const struct job *job, uint32_t slot)
{
    struct node *node = node_at(core, core_slot(core, job, slot)->d.node);
    if (node == NULL) {
        return;
    }
    struct record *record = record_begin(core, RECORD_slot_left_kind);
    record->u.slot_left.job = job->d.job;
    record->u.slot_left.slot = slot;
    record->u.slot_left.node = node->d.node;
    record->job = job->d.job;
    record->node = node->d.node;
    record->recovery = job->d.recovery;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
    mark_clear(core, node, MARK_RECOVERY, "evicted", "keepstep", "it has left its slot");
    node_settle(core, node);
}

void plan_release_leaving(struct core *core, struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct node *node = core_node(core, core_slot(core, job, i)->d.node);
        if (node != NULL && plan_must_leave(core, node)) {
            plan_leave_slot(core, job, i);
        }
    }
}

void plan_take_slot(struct core *core, const struct job *job, uint32_t slot, uint32_t node_id,
                    uint32_t from, const char *why)
{
    struct node *node = node_at(core, node_id);
    struct record *record = record_begin(core, RECORD_slot_taken_kind);
    struct record_slot_taken *u = &record->u.slot_taken;
    u->job = job->d.job;
    u->attempt = job->d.attempt;
    u->slot = slot;
    u->node = node_id;
    u->from_node = from;
    text_copy(u->why, NAME_SIZE, why);
    record->job = job->d.job;
    record->node = node_id;
    record->recovery = job->d.recovery;
    record_subject(record, "node/%s", node->d.name);
    const struct node *old = core_node(core, from);
    record_says(record, "SlotTaken", SEVERITY_INFO, "slot %u of %s%s%s (%s)", slot, job->d.name,
                old != NULL ? ", in place of " : "", old != NULL ? old->d.name : "", why);
    core_emit(core, record);
    node_settle(core, node);
}

static void make_attempt(struct core *core, struct job *job, const struct checkpoint *checkpoint)
{
    struct record *record = record_begin(core, RECORD_attempt_made_kind);
    record->u.attempt_made.job = job->d.job;
    record->u.attempt_made.attempt = job->d.attempted ? job->d.attempt + 1 : 0;
    record->u.attempt_made.recovery = job->d.recovery;
    record->u.attempt_made.restore_step = checkpoint != NULL ? checkpoint->d.step : 0;
    record->u.attempt_made.restore_attempt = checkpoint != NULL ? checkpoint->d.attempt : 0;
    record->job = job->d.job;
    record->recovery = job->d.recovery;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
    job->gone_ms = 0;
    saves_stale(core, job);
    job->saves.gone_told = false;
}

void plan_choose_port(struct core *core, struct job *job)
{
    uint32_t range = core->config.port_high - core->config.port_low + 1;
    uint64_t hash = hash_u64(hash_u64(HASH_INIT, job->d.job), job->d.attempt);
    uint32_t port =
        job->d.port == 0 ? core->config.port_low + (uint32_t)(hash % range) : job->d.port + 1;
    const struct node *node = core_node(core, core_slot(core, job, 0)->d.node);
    CHECK(node != NULL);
    struct record *record = record_begin(core, RECORD_port_chosen_kind);
    record->u.port_chosen.job = job->d.job;
    record->u.port_chosen.attempt = job->d.attempt;
    record->u.port_chosen.port = port > core->config.port_high ? core->config.port_low : port;
    text_copy(record->u.port_chosen.address, ADDRESS_SIZE, node->d.address);
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
}

static void emit_plan(struct core *core, const struct job *job, uint64_t last, uint64_t lost_steps,
                      uint32_t moved)
{
    struct record *record = record_begin(core, RECORD_recovery_plan_kind);
    struct record_recovery_plan *u = &record->u.recovery_plan;
    u->recovery = job->d.recovery;
    u->attempt = job->d.attempt;
    u->last_step = last;
    u->restore_step = job->d.restore_step;
    u->lost_steps = lost_steps;
    u->moved_nodes = moved;
    const struct checkpoint *from =
        core_checkpoint_find(core, job->d.job, job->d.restore_attempt, job->d.restore_step);
    char skipped[TEXT_SIZE];
    u->skipped = plan_say_skipped(core, job, skipped);
    u->parts = from != NULL ? from->d.parts : 0;
    bool partial = u->parts != 0 && (u->parts & PARTS_ALL) != PARTS_ALL;
    record->job = job->d.job;
    record->recovery = job->d.recovery;
    record_subject(record, "recovery/r-%04u", job->d.recovery);
    record_says(record, "RecoveryPlanned",
                u->skipped > 0 || partial ? SEVERITY_WARN : SEVERITY_INFO,
                "attempt %u from step %llu, %llu %s lost, %u %s moved, 0 ranks shifted%s%s",
                u->attempt, (unsigned long long)u->restore_step, (unsigned long long)lost_steps,
                text_plural(lost_steps, "step", "steps"), moved,
                text_plural(moved, "node", "nodes"), partial ? "; it lacks a part" : "", skipped);
    core_emit(core, record);
}

static enum plan_result no_spare(struct core *core, struct job *job, const char *why)
{
    if (job->d.on_exhausted == EXHAUSTED_FAIL) {
        job_stop_for_good(core, job, why);
        return PLAN_OVER;
    }
    if (!job->waiting_spare) {
        account_turn(core, job);
        job->waiting_spare = true;
        core_trace(core, "job %s: waits, %s", job->d.name, why);
    }
    uint32_t barred = spares_barred(core, job);
    if (barred > 0) {
        text_format(
            job->wait_text, sizeof job->wait_text,
            "%.90s; %u more had two faults of a kind in a day: keepstep undrain gives %s back", why,
            barred, text_plural(barred, "it", "them"));
    } else {
        text_copy(job->wait_text, sizeof job->wait_text, why);
    }
    return PLAN_WAITS;
}

static enum plan_result place_fresh(struct core *core, struct job *job)
{
    struct layout_shape shape = plan_shape(job);
    struct err err = {0};
    uint32_t count = plan_collect(core, job);
    if (layout_fresh(&shape, core->plan_nodes, count, job->slot_count, core->scratch,
                     core->plan_ids, &err) < 0) {
        return no_spare(core, job, err.text);
    }
    make_attempt(core, job, choose(core, job));
    for (uint32_t i = 0; i < job->slot_count; i++) {
        plan_take_slot(core, job, i, core->plan_ids[i], 0, "first placement");
    }
    plan_choose_port(core, job);
    emit_plan(core, job, 0, 0, 0);
    return PLAN_MADE;
}

bool plan_asks_person(const struct job *job, uint64_t lost_steps)
{
    return job->d.max_lost != 0 && lost_steps > job->d.max_lost && !job->d.approved;
}

/* At once: a node that comes back in good health is a spare then, for this very slot if there is
 * no other. */
static enum plan_result give_up_slots(struct core *core, struct job *job, uint32_t lost,
                                      const char *why)
{
    for (uint32_t i = 0; i < lost; i++) {
        plan_leave_slot(core, job, core->plan_lost[i]);
    }
    return no_spare(core, job, why);
}

static enum plan_result swap(struct core *core, struct job *job)
{
    struct layout_shape shape = plan_shape(job);
    struct err err = {0};
    uint32_t spares = plan_collect(core, job);
    uint32_t lost = plan_lost_slots(core, job, leaves_now);
    uint32_t kept = spares_suiting(core, job) - spares;
    if (lost > spares && lost <= spares + kept) {
        text_format(err.text, sizeof err.text,
                    "%u %s a node, %u %s ready and %u of them kept for other jobs", lost,
                    text_plural(lost, "slot needs", "slots need"), spares + kept,
                    text_plural(spares + kept, "spare is", "spares are"), kept);
        return give_up_slots(core, job, lost, err.text);
    }
    if (lost > 0 &&
        layout_swaps(&shape, core->plan_holders, job->slot_count, core->plan_lost, lost,
                     core->plan_nodes, spares, core->scratch, core->plan_swaps, &err) < 0) {
        return give_up_slots(core, job, lost, err.text);
    }
    const struct checkpoint *checkpoint = choose(core, job);
    uint64_t from = checkpoint != NULL ? checkpoint->d.step : 0;
    uint64_t last = plan_step_given_up(core, job);
    bool again = job->d.attempted && !job->d.launched; /* re-planned before it was launched */
    uint64_t lost_steps = last > from ? last - from : 0;
    if (plan_asks_person(job, lost_steps)) {
        char reason[TEXT_SIZE];
        text_format(reason, sizeof reason,
                    "%llu %s would be lost (checkpoint.max_lost is %llu); "
                    "keepstep release %s approves it",
                    (unsigned long long)lost_steps, text_plural(lost_steps, "step", "steps"),
                    (unsigned long long)job->d.max_lost, job->d.name);
        recovery_hold(core, job, reason);
        return PLAN_OVER;
    }
    /* One that was planned and not launched stands, unless its checkpoint proved bad meanwhile. */
    bool stands = again && from == job->d.restore_step &&
                  (checkpoint == NULL || checkpoint->d.attempt == job->d.restore_attempt);
    if (!stands) {
        checkpoint_abandon(core, job);
        make_attempt(core, job, core_checkpoint_best(core, job));
    }
    for (uint32_t i = 0; i < lost; i++) {
        uint32_t old = core_slot(core, job, core->plan_swaps[i].slot)->d.node;
        plan_leave_slot(core, job, core->plan_swaps[i].slot);
        plan_take_slot(core, job, core->plan_swaps[i].slot, core->plan_swaps[i].node, old,
                       layout_near_words[core->plan_swaps[i].near]);
    }
    plan_choose_port(core, job);
    emit_plan(core, job, last, lost_steps, lost);
    return PLAN_MADE;
}

enum plan_result plan_make(struct core *core, struct job *job, struct recovery *recovery)
{
    (void)recovery;
    const struct incident *incident = core_incident(core, job->d.incident);
    if (incident != NULL && incident->d.action == DO_HOLD) {
        breaker_evicts(core, job);
        if (!core_held(core) && !core->g.breaker_open) {
            evict_blamed(core, job);
        }
        recovery_hold(core, job, incident->d.why);
        return PLAN_OVER;
    }
    if (!link_settled(core)) {
        return PLAN_WAITS;
    }
    breaker_evicts(core, job);
    if (core_held(core) || core->g.breaker_open) {
        char text[TEXT_SIZE];
        plan_foresee(core, job, text);
        job_would(core, job, 0, text);
        return PLAN_WAITS;
    }
    if (job->d.attempted && link_undecided(core, job)) {
        return PLAN_WAITS;
    }
    evict_blamed(core, job);
    if (job->d.hold_asked) {
        recovery_hold(core, job, "held by an operator; keepstep release goes on");
        return PLAN_OVER;
    }
    char reason[TEXT_SIZE];
    enum save_listing listing = saves_list(core, job, reason);
    if (listing == SAVES_UNKNOWN) {
        saves_asked(job);
        recovery_hold(core, job, reason);
        return PLAN_OVER;
    }
    if (listing == SAVES_WAIT) {
        return PLAN_WAITS;
    }
    enum plan_result result = job->d.attempted ? swap(core, job) : place_fresh(core, job);
    if (result == PLAN_MADE) {
        job->waiting_spare = false;
    }
    return result;
}
