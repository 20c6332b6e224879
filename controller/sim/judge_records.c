/* judge_records.c: the judges that read the journal. They keep a memory of their own, folded from
 * what became durable and from nothing else, so it outlives every controller, and they know none of
 * the core's code. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/text.h"

#define FROM(state) (1u << (state))

/* From which states each may be entered. */
static const uint16_t node_from[node_life_count] = {
    [NODE_JOINING] = 0,
    [NODE_CHECKING] = FROM(NODE_JOINING) | FROM(NODE_OUT) | FROM(NODE_ACTIVE) | FROM(NODE_LEAVING) |
                      FROM(NODE_READY) | FROM(NODE_PROBATION),
    [NODE_READY] = FROM(NODE_CHECKING) | FROM(NODE_PROBATION),
    [NODE_ACTIVE] = FROM(NODE_READY) | FROM(NODE_PROBATION) | FROM(NODE_LEAVING),
    [NODE_LEAVING] = FROM(NODE_ACTIVE),
    [NODE_OUT] = FROM(NODE_JOINING) | FROM(NODE_CHECKING) | FROM(NODE_READY) | FROM(NODE_ACTIVE) |
                 FROM(NODE_LEAVING) | FROM(NODE_PROBATION),
    [NODE_PROBATION] = FROM(NODE_CHECKING),
};
static const uint16_t job_from[job_state_count] = {
    [JOB_PENDING] = FROM(JOB_HELD),
    [JOB_STARTING] = FROM(JOB_PENDING),
    [JOB_RUNNING] = FROM(JOB_STARTING) | FROM(JOB_RECOVERING),
    [JOB_RECOVERING] = FROM(JOB_RUNNING) | FROM(JOB_STARTING) | FROM(JOB_HELD),
    [JOB_HELD] = FROM(JOB_PENDING) | FROM(JOB_STARTING) | FROM(JOB_RECOVERING),
    [JOB_STOPPING] = FROM(JOB_PENDING) | FROM(JOB_STARTING) | FROM(JOB_RUNNING) |
                     FROM(JOB_RECOVERING) | FROM(JOB_HELD),
    [JOB_SUCCEEDED] = FROM(JOB_STOPPING),
    [JOB_FAILED] = FROM(JOB_STOPPING),
    [JOB_CANCELLED] = FROM(JOB_STOPPING),
};

static void count(struct sim *sim, enum sim_judge judge)
{
    sim->stats.judged[judge]++;
}

struct sim_shadow_job *shadow_job(struct sim *sim, uint32_t job)
{
    for (size_t index = 0; index < ARRAY_SIZE(sim->shadow.jobs); index++) {
        if (sim->shadow.jobs[index].used && sim->shadow.jobs[index].job == job) {
            return &sim->shadow.jobs[index];
        }
    }
    return NULL;
}

static struct sim_shadow_job *known_job(struct sim *sim, uint32_t id, const char *what)
{
    struct sim_shadow_job *job = shadow_job(sim, id);
    if (job == NULL) {
        sim_object(sim, SIM_JUDGE_TABLE, "%s of job %u, which nobody submitted", what, id);
    }
    return job;
}

/* ---- nodes and marks --------------------------------------------------------------------- */

bool shadow_marked(const struct sim *sim, uint32_t node, const char *code)
{
    for (uint32_t index = 0; index < sim->shadow.mark_count; index++) {
        const struct sim_shadow_mark *mark = &sim->shadow.marks[index];
        if (mark->node == node && (code == NULL || text_equal(mark->code, code))) {
            return true;
        }
    }
    return false;
}

static void on_node_joined(struct sim *sim, const struct record_node_joined *u)
{
    uint64_t host = 0;
    CHECK(u->node < ARRAY_SIZE(sim->shadow.nodes));
    if (text_to_u64(u->name + strlen("gpu-"), SIM_HOSTS_MAX - 1, &host) < 0) {
        sim_object(sim, SIM_JUDGE_SPARES, "node %s joined, and there is no such host", u->name);
        return;
    }
    sim->shadow.nodes[u->node] =
        (struct sim_shadow_node){.known = true, .life = NODE_JOINING, .host = (uint32_t)host};
    sim->shadow.node_of_host[host] = u->node;
}

/* The arrows as people were told of them. */
static bool repair_move_is_known(uint8_t from, uint8_t to)
{
    static const uint8_t to_of[repair_state_count] = {
        [REPAIR_NONE] = 1 << REPAIR_ORDERED | 1 << REPAIR_PERSON,
        [REPAIR_WAITING] = 1 << REPAIR_NONE | 1 << REPAIR_ORDERED | 1 << REPAIR_PERSON,
        [REPAIR_ORDERED] = (1 << repair_state_count) - 1,
        [REPAIR_VALIDATING] =
            1 << REPAIR_NONE | 1 << REPAIR_WAITING | 1 << REPAIR_ORDERED | 1 << REPAIR_PERSON,
        [REPAIR_PERSON] = 1 << REPAIR_NONE,
    };
    return (to_of[from] >> to & 1) != 0;
}

static void on_node_moved(struct sim *sim, struct record_node_moved *u)
{
    count(sim, SIM_JUDGE_TABLE);
    if (sim_mutate(sim, SIM_EDIT_MOVE)) {
        u->from = u->from == NODE_OUT ? NODE_READY : NODE_OUT;
    }
    struct sim_shadow_node *node = &sim->shadow.nodes[u->node];
    if (!node->known || node->life != u->from || (node_from[u->to] & FROM(u->from)) == 0) {
        sim_object(sim, SIM_JUDGE_TABLE, "node %u moves %s -> %s, it was %s", u->node,
                   WORD(node_life, u->from), WORD(node_life, u->to), WORD(node_life, node->life));
    }
    bool usable = u->to == NODE_READY || u->to == NODE_PROBATION;
    if (usable && (node->must_pass != VALIDATION_NONE || node->repair != REPAIR_NONE)) {
        sim_object(sim, SIM_JUDGE_TABLE, "node %u is %s, its repair is %s and it must pass: %s",
                   u->node, WORD(node_life, u->to), WORD(repair_state, node->repair),
                   WORD(validation, node->must_pass));
    }
    node->life = u->to;
}

static void on_repair_moved(struct sim *sim, const struct record_repair_moved *u)
{
    struct sim_shadow_node *node = &sim->shadow.nodes[u->node];
    count(sim, SIM_JUDGE_TABLE);
    bool free_node = node->job == 0 || u->repair == REPAIR_NONE;
    if (!repair_move_is_known(node->repair, u->repair) || !free_node) {
        sim_object(sim, SIM_JUDGE_TABLE, "the repair of node %u moves %s -> %s, in job %u", u->node,
                   WORD(repair_state, node->repair), WORD(repair_state, u->repair), node->job);
    }
    node->repair = u->repair;
}

static void on_mark_set(struct sim *sim, const struct record_mark_set *u)
{
    struct sim_shadow *shadow = &sim->shadow;
    for (uint32_t index = 0; index < shadow->mark_count; index++) {
        const struct sim_shadow_mark *mark = &shadow->marks[index];
        if (mark->node == u->node && mark->owner == u->owner && text_equal(mark->code, u->code)) {
            return;
        }
    }
    CHECK(shadow->mark_count < ARRAY_SIZE(shadow->marks));
    struct sim_shadow_mark *mark = &shadow->marks[shadow->mark_count++];
    mark->node = u->node;
    mark->owner = u->owner;
    (void)text_copy(mark->code, sizeof(mark->code), u->code);
}

static void on_mark_cleared(struct sim *sim, struct record_mark_cleared *u)
{
    struct sim_shadow *shadow = &sim->shadow;
    count(sim, SIM_JUDGE_OWNER);
    if (sim_mutate(sim, SIM_EDIT_OWNER)) {
        u->owner = MARK_OPERATOR;
        (void)text_copy(u->actor, sizeof(u->actor), "keepstep");
    }
    if (u->owner == MARK_OPERATOR && text_equal(u->actor, "keepstep")) {
        sim_object(sim, SIM_JUDGE_OWNER, "an operator's mark %s of node %u is removed by %s",
                   u->code, u->node, u->actor);
    }
    /* Of the marks of health only three say what the agent itself takes back; the others go when it
     * has been mended, and has passed its checks after that. */
    const struct sim_shadow_node *node = &shadow->nodes[u->node];
    bool own = text_equal(u->code, "agent-silent") || text_equal(u->code, "inventory") ||
               text_equal(u->code, "validation") ||
               (node->repair == REPAIR_VALIDATING && node->must_pass == VALIDATION_NONE);
    if (u->owner == MARK_HEALTH && !own && text_equal(u->actor, "keepstep")) {
        sim_object(sim, SIM_JUDGE_OWNER, "health's mark %s of node %u is removed by %s", u->code,
                   u->node, u->actor);
    }
    for (uint32_t index = 0; index < shadow->mark_count; index++) {
        const struct sim_shadow_mark *mark = &shadow->marks[index];
        if (mark->node == u->node && mark->owner == u->owner && text_equal(mark->code, u->code)) {
            shadow->marks[index] = shadow->marks[--shadow->mark_count];
            return;
        }
    }
    sim_object(sim, SIM_JUDGE_OWNER, "a mark %s of node %u is removed that it does not have",
               u->code, u->node);
}

/* ---- jobs and attempts ------------------------------------------------------------------- */

static void on_submitted(struct sim *sim, const struct record *record)
{
    const struct record_job_submitted *u = &record->u.job_submitted;
    for (size_t index = 0; index < ARRAY_SIZE(sim->shadow.jobs); index++) {
        struct sim_shadow_job *job = &sim->shadow.jobs[index];
        if (job->used) {
            continue;
        }
        *job = (struct sim_shadow_job){.used = true,
                                       .job = u->job,
                                       .state = u->held_at_submit ? JOB_HELD : JOB_PENDING,
                                       .submitted_ms = record->service_ms,
                                       .settled_ms = record->service_ms};
        job->slot_count = u->tensor * u->context * u->pipeline * u->data / u->ranks_per_node;
        return;
    }
    CHECK(false);
}

static void on_job_moved(struct sim *sim, const struct record *record)
{
    const struct record_job_moved *u = &record->u.job_moved;
    struct sim_shadow_job *job = known_job(sim, u->job, "a move");
    if (job == NULL) {
        return;
    }
    count(sim, SIM_JUDGE_TABLE);
    if (job->state != u->from || (job_from[u->to] & FROM(u->from)) == 0) {
        sim_object(sim, SIM_JUDGE_TABLE, "job %u moves %s -> %s, it was %s", u->job,
                   WORD(job_state, u->from), WORD(job_state, u->to), WORD(job_state, job->state));
    }
    job->state = u->to;
    if (u->to == JOB_STOPPING && job->attempted) {
        job->over_below = job->attempt + 1;
    }
    if (u->to >= JOB_SUCCEEDED) {
        count(sim, SIM_JUDGE_TIME);
        if (job->settled_ms != record->service_ms ||
            job->time_ms != record->service_ms - job->submitted_ms) {
            sim_object(sim, SIM_JUDGE_TIME,
                       "job %u ended at %llu, its seconds are booked up to %llu and sum to %llu",
                       u->job, (unsigned long long)(record->service_ms - job->submitted_ms),
                       (unsigned long long)(job->settled_ms - job->submitted_ms),
                       (unsigned long long)job->time_ms);
        }
        judge_nothing_left(sim, job);
    }
}

static void on_time(struct sim *sim, const struct record *record)
{
    struct record_time_settled u = record->u.time_settled;
    struct sim_shadow_job *job = known_job(sim, u.job, "a second");
    if (job == NULL) {
        return;
    }
    count(sim, SIM_JUDGE_TIME);
    u.ms += sim_mutate(sim, SIM_EDIT_TIME) ? 1 : 0;
    if (u.until_service_ms < job->settled_ms || u.ms != u.until_service_ms - job->settled_ms ||
        u.until_service_ms > record->service_ms) {
        sim_object(sim, SIM_JUDGE_TIME,
                   "job %u: %llu ms of %s up to %llu, booked up to %llu, now %llu", u.job,
                   (unsigned long long)u.ms, WORD(time_kind, u.kind),
                   (unsigned long long)u.until_service_ms, (unsigned long long)job->settled_ms,
                   (unsigned long long)record->service_ms);
    }
    job->settled_ms = u.until_service_ms;
    job->time_ms += u.ms;
}

static void on_budget(struct sim *sim, struct record_budget_used *u)
{
    struct sim_shadow_job *job = known_job(sim, u->job, "a budget");
    if (job == NULL) {
        return;
    }
    count(sim, SIM_JUDGE_BUDGET);
    if (u->owner != OWNER_USER && u->owner != OWNER_UNKNOWN) {
        return;
    }
    if (u->used > 0 && sim_mutate(sim, SIM_EDIT_BUDGET)) {
        u->used += 1;
    }
    uint32_t *used = u->owner == OWNER_USER ? &job->used_user : &job->used_unknown;
    if (u->used == 0) {
        if (!job->progress) {
            sim_object(sim, SIM_JUDGE_BUDGET, "job %u: budgets are refilled without progress",
                       u->job);
        }
        job->used_user = 0;
        job->used_unknown = 0;
        job->progress = false;
        return;
    }
    if (u->used != *used + 1) {
        sim_object(sim, SIM_JUDGE_BUDGET, "job %u: budget %s goes from %u to %u", u->job,
                   WORD(fault_owner, u->owner), *used, u->used);
    }
    *used = u->used;
}

/* ---- checkpoints ------------------------------------------------------------------------- */

static bool is_good(uint8_t state)
{
    return state == CKPT_COMPLETE || state == CKPT_VERIFIED;
}

static struct sim_shadow_save *shadow_save(struct sim *sim, uint32_t job, uint32_t attempt,
                                           uint64_t step)
{
    for (uint32_t index = 0; index < sim->shadow.save_count; index++) {
        struct sim_shadow_save *save = &sim->shadow.saves[index];
        if (save->job == job && save->attempt == attempt && save->step == step) {
            return save;
        }
    }
    return NULL;
}

/* Step of the newest save of a job that is complete now; 0: there is none. */
uint64_t shadow_newest_good(const struct sim *sim, uint32_t job)
{
    uint64_t newest = 0;
    for (uint32_t index = 0; index < sim->shadow.save_count; index++) {
        const struct sim_shadow_save *save = &sim->shadow.saves[index];
        if (save->job == job && is_good(save->state) && save->step > newest) {
            newest = save->step;
        }
    }
    return newest;
}

static void on_checkpoint(struct sim *sim, const struct record_checkpoint_moved *u)
{
    struct sim_shadow_save *save = shadow_save(sim, u->job, u->attempt, u->step);
    struct sim_shadow_job *job = known_job(sim, u->job, "a checkpoint");
    if (job == NULL) {
        return;
    }
    if (save == NULL) {
        CHECK(sim->shadow.save_count < SIM_SAVES_MAX);
        save = &sim->shadow.saves[sim->shadow.save_count++];
        *save = (struct sim_shadow_save){.job = u->job, .attempt = u->attempt, .step = u->step};
    }
    count(sim, SIM_JUDGE_CHOSEN);
    bool late = u->attempt < job->attempt && is_good(u->state) && !is_good(save->state);
    if (late) {
        sim_object(sim, SIM_JUDGE_CHOSEN, "job %u: a save of attempt %u counts, attempt is %u",
                   u->job, u->attempt, job->attempt);
    }
    bool newer =
        is_good(u->state) && !is_good(save->state) && u->step > shadow_newest_good(sim, u->job);
    job->progress = job->progress || newer;
    job->poison_strikes = newer ? 0 : job->poison_strikes;
    save->state = u->state;
}

/* What is restored must be complete, and nothing newer may be passed over. */
static void judge_choice(struct sim *sim, const struct record_attempt_made *u)
{
    uint64_t newest = shadow_newest_good(sim, u->job);
    count(sim, SIM_JUDGE_KEPT);
    if (newest > u->restore_step) {
        sim_object(sim, SIM_JUDGE_KEPT, "job %u goes back to step %llu, step %llu is complete",
                   u->job, (unsigned long long)u->restore_step, (unsigned long long)newest);
    }
    for (uint32_t index = 0; index < sim->save_count; index++) {
        const struct sim_save *told = &sim->saves[index];
        if (told->job == u->job && told->told &&
            shadow_save(sim, told->job, told->attempt, told->step) == NULL) {
            sim_object(sim, SIM_JUDGE_KEPT, "job %u: step %llu was accepted and is forgotten",
                       u->job, (unsigned long long)told->step);
        }
    }
    if (u->restore_step == 0) {
        return;
    }
    count(sim, SIM_JUDGE_CHOSEN);
    const struct sim_shadow_save *save =
        shadow_save(sim, u->job, u->restore_attempt, u->restore_step);
    const struct sim_save *real = train_save(sim, u->job, u->restore_attempt, u->restore_step);
    if (save == NULL || !is_good(save->state) || real == NULL ||
        real->shards != real->shards_wanted) {
        sim_object(sim, SIM_JUDGE_CHOSEN, "job %u restores step %llu of attempt %u, which is %s",
                   u->job, (unsigned long long)u->restore_step, u->restore_attempt,
                   save == NULL || !is_good(save->state) ? "not complete" : "not there in whole");
    }
}

static void on_attempt(struct sim *sim, struct record_attempt_made *u)
{
    struct sim_shadow_job *job = known_job(sim, u->job, "an attempt");
    if (job == NULL) {
        return;
    }
    count(sim, SIM_JUDGE_TABLE);
    if (u->attempt != (job->attempted ? job->attempt + 1 : 0)) {
        sim_object(sim, SIM_JUDGE_TABLE, "job %u: attempt %u after %u", u->job, u->attempt,
                   job->attempt);
    }
    if (u->restore_step > 0 && sim_mutate(sim, SIM_EDIT_RESTORE)) {
        u->restore_step = 0;
    }
    judge_choice(sim, u);
    job->attempted = true;
    job->launched = false;
    job->attempt = u->attempt;
    job->over_below = u->attempt > job->over_below ? u->attempt : job->over_below;
}

/* ---- slots ------------------------------------------------------------------------------- */

static void on_slot_left(struct sim *sim, const struct record_slot_left *u)
{
    struct sim_shadow_job *job = known_job(sim, u->job, "a slot");
    if (job == NULL || u->slot >= job->slot_count) {
        return;
    }
    struct sim_shadow_node *node = &sim->shadow.nodes[u->node];
    count(sim, SIM_JUDGE_SWAP);
    bool must = node->lost || shadow_marked(sim, u->node, NULL);
    if (job->state != JOB_STOPPING && sim_mutate(sim, SIM_EDIT_SLOT)) {
        must = false;
    }
    if (job->state != JOB_STOPPING && !must) {
        sim_object(sim, SIM_JUDGE_SWAP, "job %u: node %u leaves slot %u and need not", u->job,
                   u->node, u->slot);
    }
    if (job->holders[u->slot] != u->node) {
        sim_object(sim, SIM_JUDGE_SWAP, "job %u: node %u leaves slot %u, which %u holds", u->job,
                   u->node, u->slot, job->holders[u->slot]);
    }
    job->holders[u->slot] = 0;
    node->job = 0;
}

static void on_slot_taken(struct sim *sim, const struct record_slot_taken *u)
{
    struct sim_shadow_job *job = known_job(sim, u->job, "a slot");
    if (job == NULL || u->slot >= job->slot_count) {
        return;
    }
    struct sim_shadow_node *node = &sim->shadow.nodes[u->node];
    count(sim, SIM_JUDGE_MARKED);
    bool marked = shadow_marked(sim, u->node, NULL) || sim_mutate(sim, SIM_EDIT_MARK);
    if (marked || node->lost || node->removed || !node->known ||
        (node->life != NODE_READY && node->life != NODE_PROBATION)) {
        sim_object(sim, SIM_JUDGE_MARKED, "job %u slot %u is given to node %u, which is %s%s%s",
                   u->job, u->slot, u->node, WORD(node_life, node->life), marked ? ", marked" : "",
                   node->lost ? ", lost" : "");
    }
    count(sim, SIM_JUDGE_SWAP);
    if (job->holders[u->slot] != 0 || node->job != 0) {
        sim_object(sim, SIM_JUDGE_SWAP,
                   "job %u slot %u goes to node %u of job %u while node %u holds it", u->job,
                   u->slot, u->node, node->job, job->holders[u->slot]);
    }
    job->holders[u->slot] = u->node;
    node->job = u->job;
    node->since_attempt = u->attempt;
}

static void on_launch(struct sim *sim, const struct record_launch_ordered *u)
{
    struct sim_shadow_job *job = known_job(sim, u->job, "a launch");
    if (job == NULL) {
        return;
    }
    job->launched = true;
    job->launched_below = u->attempt + 1;
    judge_nothing_old(sim, job);
}

static void on_over(struct sim *sim, uint32_t id, uint32_t attempt)
{
    struct sim_shadow_job *job = known_job(sim, id, "an end");
    if (job != NULL && attempt + 1 > job->over_below) {
        job->over_below = attempt + 1;
    }
}

/* ---- all --------------------------------------------------------------------------------- */

/* What only nodes have. false: it is of another kind. */
static bool judge_node_record(struct sim *sim, struct record *record)
{
    struct sim_shadow_node *nodes = sim->shadow.nodes;
    switch (record->kind) {
    case RECORD_node_joined_kind:
        on_node_joined(sim, &record->u.node_joined);
        return true;
    case RECORD_node_moved_kind:
        on_node_moved(sim, &record->u.node_moved);
        return true;
    case RECORD_node_lost_kind:
        nodes[record->u.node_lost.node].lost = true;
        return true;
    case RECORD_node_back_kind:
        nodes[record->u.node_back.node].lost = false;
        return true;
    case RECORD_node_removed_kind:
        nodes[record->u.node_removed.node].removed = true;
        nodes[record->u.node_removed.node].lost = false;
        nodes[record->u.node_removed.node].repair = REPAIR_NONE;
        nodes[record->u.node_removed.node].must_pass = VALIDATION_NONE;
        return true;
    case RECORD_mark_set_kind:
        on_mark_set(sim, &record->u.mark_set);
        return true;
    case RECORD_mark_cleared_kind:
        on_mark_cleared(sim, &record->u.mark_cleared);
        return true;
    case RECORD_repair_moved_kind:
        on_repair_moved(sim, &record->u.repair_moved);
        return true;
    case RECORD_validation_set_kind:
        nodes[record->u.validation_set.node].must_pass = record->u.validation_set.must_pass;
        return true;
    case RECORD_strike_kind: {
        uint8_t *must_pass = &nodes[record->u.strike.node].must_pass;
        *must_pass =
            record->u.strike.must_pass > *must_pass ? record->u.strike.must_pass : *must_pass;
        return true;
    }
    default:
        return false;
    }
}

static void judge_record(struct sim *sim, struct record *record)
{
    if (judge_node_record(sim, record)) {
        return;
    }
    switch (record->kind) {
    case RECORD_job_submitted_kind:
        on_submitted(sim, record);
        return;
    case RECORD_job_moved_kind:
        on_job_moved(sim, record);
        return;
    case RECORD_time_settled_kind:
        on_time(sim, record);
        return;
    case RECORD_budget_used_kind:
        on_budget(sim, &record->u.budget_used);
        return;
    case RECORD_checkpoint_moved_kind:
        on_checkpoint(sim, &record->u.checkpoint_moved);
        return;
    case RECORD_attempt_made_kind:
        on_attempt(sim, &record->u.attempt_made);
        return;
    case RECORD_attempt_ended_kind:
        on_over(sim, record->u.attempt_ended.job, record->u.attempt_ended.attempt);
        return;
    case RECORD_slot_left_kind:
        on_slot_left(sim, &record->u.slot_left);
        return;
    case RECORD_slot_taken_kind:
        on_slot_taken(sim, &record->u.slot_taken);
        return;
    case RECORD_launch_ordered_kind:
        on_launch(sim, &record->u.launch_ordered);
        return;
    case RECORD_recovery_opened_kind:
        sim->stats.recoveries++;
        return;
    default:
        return;
    }
}

void judge_records(struct sim *sim)
{
    while (sim->shadow.folded < sim->ctl.durable && !sim->over) {
        struct record record = sim->ctl.journal[sim->shadow.folded++];
        judge_record(sim, &record);
        judge_recovery_record(sim, &record);
        judge_reserve_record(sim, &record);
    }
}
