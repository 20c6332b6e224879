/* record_random.c: see the header. Each thing that may happen to the cluster is one function that
 * puts its records into a small queue. */
#include "tests/lib/record_random.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

/* ---- any content --------------------------------------------------------------------------- */

static uint64_t random_width(struct prng *prng)
{
    uint64_t bits = prng_below(prng, 65);
    return bits == 0 ? 0 : prng_next(prng) >> (64 - bits);
}

static void random_text(struct prng *prng, char *target, uint32_t size)
{
    static const char *const pieces[] = {"a",
                                         "gpu-0412",
                                         "\"",
                                         "\\",
                                         "\n",
                                         "\t",
                                         "\x01",
                                         "ä",
                                         "\xc3",
                                         "\xff",
                                         "\xee\xbe\x80",
                                         "\xf0\x9f\x94\xa5",
                                         "\xed\xa0\x80",
                                         "%s",
                                         "'"};
    uint32_t used = 0;
    uint32_t wanted = (uint32_t)prng_below(prng, size);
    while (used < wanted) {
        const char *piece = pieces[prng_below(prng, ARRAY_SIZE(pieces))];
        for (uint32_t i = 0; piece[i] != '\0' && used < wanted; i++) {
            target[used] = piece[i];
            used++;
        }
    }
    target[used] = '\0';
}

static void random_field(struct prng *prng, const struct record_field *field, void *at)
{
    switch (field->type) {
    case FIELD_U32:
        *(uint32_t *)at = (uint32_t)random_width(prng);
        return;
    case FIELD_I32:
        *(int32_t *)at = (int32_t)(uint32_t)random_width(prng);
        return;
    case FIELD_U64:
        *(uint64_t *)at = random_width(prng);
        return;
    case FIELD_BOOL:
        *(bool *)at = prng_below(prng, 2) == 1;
        return;
    case FIELD_WORD:
        *(uint8_t *)at = (uint8_t)prng_below(prng, field->word_count);
        return;
    case FIELD_TEXT:
        random_text(prng, at, field->size);
        return;
    case FIELD_I32S:
        for (uint32_t i = 0; i < field->size; i++) {
            ((int32_t *)at)[i] = (int32_t)(uint32_t)random_width(prng);
        }
        return;
    case FIELD_U64S:
        for (uint32_t i = 0; i < field->size; i++) {
            ((uint64_t *)at)[i] = random_width(prng);
        }
        return;
    }
}

void record_random_any(struct prng *prng, uint16_t kind, struct record *ret_record)
{
    const struct record_table *table = record_table(kind);
    CHECK(table != NULL);
    memset(ret_record, 0, sizeof(*ret_record));
    ret_record->kind = kind;
    ret_record->version = RECORD_VERSION;
    ret_record->service_ms = random_width(prng) >> 1;
    ret_record->wall_ms = random_width(prng) >> 1;
    ret_record->job = (uint32_t)random_width(prng);
    ret_record->node = (uint32_t)random_width(prng);
    ret_record->recovery = (uint32_t)random_width(prng);
    random_text(prng, ret_record->subject, SUBJECT_SIZE);
    random_text(prng, ret_record->event.type, sizeof(ret_record->event.type));
    random_text(prng, ret_record->event.message, sizeof(ret_record->event.message));
    ret_record->event.severity = (uint8_t)prng_below(prng, severity_count);
    for (uint32_t i = 0; i < table->count; i++) {
        random_field(prng, &table->fields[i], (char *)&ret_record->u + table->fields[i].offset);
    }
}

/* ---- the history of a cluster -------------------------------------------------------------- */

static struct record *say(struct record_random *world, uint16_t kind, const char *event)
{
    CHECK(world->queued < RANDOM_QUEUE);
    struct record *record = &world->queue[world->queued];
    world->queued++;
    memset(record, 0, sizeof(*record));
    world->service_ms += prng_below(&world->prng, 400);
    world->wall_ms += prng_below(&world->prng, 400);
    record->kind = kind;
    record->version = RECORD_VERSION;
    record->service_ms = world->service_ms;
    record->wall_ms = world->wall_ms;
    (void)text_copy(record->subject, sizeof(record->subject), "cluster");
    if (event != NULL) {
        (void)text_copy(record->event.type, sizeof(record->event.type), event);
        (void)text_format(record->event.message, sizeof(record->event.message), "%s, number %llu",
                          event, (unsigned long long)prng_below(&world->prng, 1000));
        record->event.severity = (uint8_t)prng_below(&world->prng, severity_count);
    }
    return record;
}

static struct record *say_node(struct record_random *world, uint16_t kind, const char *event,
                               uint32_t node)
{
    struct record *record = say(world, kind, event);
    record->node = node;
    (void)text_format(record->subject, sizeof(record->subject), "node/gpu-%04u", node);
    return record;
}

static struct record *say_job(struct record_random *world, uint16_t kind, const char *event,
                              uint32_t job)
{
    struct record *record = say(world, kind, event);
    record->job = job;
    (void)text_format(record->subject, sizeof(record->subject), "job/job-%u", job);
    return record;
}

static void move_node(struct record_random *world, uint32_t node, uint8_t to)
{
    struct random_node *at = &world->nodes[node];
    struct record *record = say_node(world, RECORD_node_moved_kind, "NodeMoved", node);
    record->u.node_moved.node = node;
    record->u.node_moved.from = at->life;
    record->u.node_moved.to = to;
    at->life = to;
}

static void join_node(struct record_random *world, uint32_t node)
{
    world->nodes[node] = (struct random_node){.joined = true, .life = NODE_JOINING};
    struct record *record = say_node(world, RECORD_node_joined_kind, "NodeJoined", node);
    record->u.node_joined.node = node;
    (void)text_format(record->u.node_joined.name, NAME_SIZE, "gpu-%04u", node);
    struct record *session = say_node(world, RECORD_node_session_kind, NULL, node);
    uint64_t memory = 64ull << 30;
    session->u.node_session.node = node;
    session->u.node_session.clean = prng_below(&world->prng, 2) == 1;
    session->u.node_session.incarnation = prng_next(&world->prng);
    session->u.node_session.gpu_count = 8;
    session->u.node_session.memory_bytes = memory;
    session->u.node_session.inventory_hash = prng_next(&world->prng);
    (void)text_format(session->u.node_session.rack, NAME_SIZE, "rack-%u", node / 8);
    struct record *accepted = say_node(world, RECORD_inventory_accepted_kind, NULL, node);
    accepted->u.inventory_accepted.node = node;
    accepted->u.inventory_accepted.gpu_count = 8;
    accepted->u.inventory_accepted.inventory_hash = session->u.node_session.inventory_hash;
    move_node(world, node, NODE_CHECKING);
    move_node(world, node, NODE_READY);
}

static void lose_or_find_node(struct record_random *world, uint32_t node)
{
    struct random_node *at = &world->nodes[node];
    uint16_t kind = at->lost ? RECORD_node_back_kind : RECORD_node_lost_kind;
    struct record *record = say_node(world, kind, at->lost ? "NodeBack" : "NodeLost", node);
    if (at->lost) {
        record->u.node_back.node = node;
    } else {
        record->u.node_lost.node = node;
        record->u.node_lost.how = (uint8_t)prng_below(&world->prng, lost_how_count);
    }
    at->lost = !at->lost;
}

static void mark_or_unmark(struct record_random *world, uint32_t node)
{
    struct random_node *at = &world->nodes[node];
    uint16_t kind = at->marked ? RECORD_mark_cleared_kind : RECORD_mark_set_kind;
    struct record *record = say_node(world, kind, at->marked ? "MarkCleared" : "MarkSet", node);
    if (at->marked) {
        record->u.mark_cleared.node = node;
        record->u.mark_cleared.owner = MARK_OPERATOR;
        (void)text_copy(record->u.mark_cleared.code, NAME_SIZE, "drain");
        (void)text_copy(record->u.mark_cleared.actor, NAME_SIZE, "ada");
    } else {
        record->u.mark_set.node = node;
        record->u.mark_set.owner = MARK_OPERATOR;
        record->u.mark_set.level = MARK_LEAVE;
        (void)text_copy(record->u.mark_set.code, NAME_SIZE, "drain");
        (void)text_copy(record->u.mark_set.actor, NAME_SIZE, "ada");
        (void)text_copy(record->u.mark_set.text, TEXT_SIZE, "new cable");
    }
    at->marked = !at->marked;
}

static void something_on_a_node(struct record_random *world)
{
    uint32_t node = (uint32_t)prng_between(&world->prng, 1, RANDOM_NODES);
    if (!world->nodes[node].joined) {
        join_node(world, node);
    } else if (prng_below(&world->prng, 2) == 0) {
        lose_or_find_node(world, node);
    } else {
        mark_or_unmark(world, node);
    }
}

static void move_job(struct record_random *world, struct random_job *job, uint8_t to)
{
    struct record *record = say_job(world, RECORD_job_moved_kind, "JobMoved", job->job);
    record->u.job_moved.job = job->job;
    record->u.job_moved.from = job->state;
    record->u.job_moved.to = to;
    (void)text_copy(record->u.job_moved.reason, TEXT_SIZE, "because it is so");
    job->state = to;
}

static void submit_job(struct record_random *world, struct random_job *job)
{
    *job = (struct random_job){.job = world->job_next, .state = JOB_PENDING};
    world->job_next++;
    struct record *record = say_job(world, RECORD_job_submitted_kind, "JobSubmitted", job->job);
    struct record_job_submitted *u = &record->u.job_submitted;
    u->job = job->job;
    u->revision = 1;
    u->tensor = 8;
    u->context = 1;
    u->pipeline = 2;
    u->data = 2;
    u->ranks_per_node = 8;
    (void)text_format(u->name, NAME_SIZE, "job-%u", job->job);
    (void)text_copy(u->user, NAME_SIZE, "grace");
    (void)text_copy(u->order, ORDER_SIZE, "tp-cp-pp-dp");
    (void)text_format(world->text, sizeof(world->text), "{\"name\":\"job-%u\"}", job->job);
    record->text = world->text;
    record->text_size = (uint32_t)strlen(world->text);
    job->settled_ms = record->service_ms;
}

static void settle(struct record_random *world, struct random_job *job, uint8_t kind)
{
    struct record *record = say_job(world, RECORD_time_settled_kind, NULL, job->job);
    record->u.time_settled.job = job->job;
    record->u.time_settled.kind = kind;
    record->u.time_settled.until_service_ms = record->service_ms;
    record->u.time_settled.ms = record->service_ms - job->settled_ms;
    job->settled_ms = record->service_ms;
}

static uint32_t free_node(struct record_random *world)
{
    uint32_t begin = (uint32_t)prng_below(&world->prng, RANDOM_NODES);
    for (uint32_t i = 0; i < RANDOM_NODES; i++) {
        uint32_t node = 1 + (begin + i) % RANDOM_NODES;
        if (world->nodes[node].joined && world->nodes[node].job == 0) {
            return node;
        }
    }
    return 0;
}

static void leave_slot(struct record_random *world, struct random_job *job, uint32_t slot)
{
    uint32_t node = job->nodes[slot];
    struct record *record = say_node(world, RECORD_slot_left_kind, NULL, node);
    record->job = job->job;
    record->u.slot_left.job = job->job;
    record->u.slot_left.slot = slot;
    record->u.slot_left.node = node;
    job->nodes[slot] = 0;
    world->nodes[node].job = 0;
}

static void take_slot(struct record_random *world, struct random_job *job, uint32_t slot,
                      uint32_t from)
{
    uint32_t node = free_node(world);
    if (node == 0) {
        return;
    }
    struct record *record = say_node(world, RECORD_slot_taken_kind, "SlotTaken", node);
    record->job = job->job;
    record->u.slot_taken.job = job->job;
    record->u.slot_taken.attempt = job->attempt;
    record->u.slot_taken.slot = slot;
    record->u.slot_taken.node = node;
    record->u.slot_taken.from_node = from;
    (void)text_copy(record->u.slot_taken.why, NAME_SIZE, "rack");
    job->nodes[slot] = node;
    world->nodes[node].job = job->job;
    world->nodes[node].slot = slot;
}

static struct record *say_recovery(struct record_random *world, uint16_t kind, const char *event,
                                   const struct random_job *job, uint32_t recovery)
{
    struct record *record = say_job(world, kind, event, job->job);
    record->recovery = recovery;
    (void)text_format(record->subject, sizeof(record->subject), "recovery/r-%04u", recovery);
    return record;
}

static void enter_phase(struct record_random *world, const struct random_job *job,
                        uint32_t recovery, uint8_t phase)
{
    struct record *record =
        say_recovery(world, RECORD_recovery_phase_kind, "RecoveryPhase", job, recovery);
    record->u.recovery_phase.recovery = recovery;
    record->u.recovery_phase.phase = phase;
}

static void open_recovery(struct record_random *world, const struct random_job *job,
                          uint32_t recovery, uint32_t incident, uint8_t cause)
{
    struct record *record =
        say_recovery(world, RECORD_recovery_opened_kind, "RecoveryStarted", job, recovery);
    record->u.recovery_opened.recovery = recovery;
    record->u.recovery_opened.job = job->job;
    record->u.recovery_opened.attempt = job->attempt;
    record->u.recovery_opened.incident = incident;
    record->u.recovery_opened.cause = cause;
    record->u.recovery_opened.since_service_ms =
        record->service_ms - prng_below(&world->prng, record->service_ms + 1) % 5000;
}

/* From the plan to the first step. */
static void launch(struct record_random *world, struct random_job *job, uint32_t recovery)
{
    struct record *plan = say_recovery(world, RECORD_recovery_plan_kind, NULL, job, recovery);
    plan->u.recovery_plan.recovery = recovery;
    plan->u.recovery_plan.attempt = job->attempt;
    plan->u.recovery_plan.last_step = job->step;
    plan->u.recovery_plan.lost_steps = prng_below(&world->prng, 20);
    struct record *made = say_job(world, RECORD_attempt_made_kind, NULL, job->job);
    made->u.attempt_made.job = job->job;
    made->u.attempt_made.attempt = job->attempt;
    made->u.attempt_made.recovery = recovery;
    struct record *port = say_job(world, RECORD_port_chosen_kind, NULL, job->job);
    port->u.port_chosen.job = job->job;
    port->u.port_chosen.attempt = job->attempt;
    port->u.port_chosen.port = 29400;
    for (uint8_t phase = PHASE_CHECK; phase <= PHASE_FIRST_STEP; phase++) {
        enter_phase(world, job, recovery, phase);
    }
    struct record *ordered = say_job(world, RECORD_launch_ordered_kind, NULL, job->job);
    ordered->u.launch_ordered.job = job->job;
    ordered->u.launch_ordered.attempt = job->attempt;
    settle(world, job, TIME_LAUNCH);
    struct record *closed =
        say_recovery(world, RECORD_recovery_closed_kind, "RecoveryFinished", job, recovery);
    closed->u.recovery_closed.recovery = recovery;
    closed->u.recovery_closed.outcome = OUTCOME_RECOVERED;
    move_job(world, job, JOB_RUNNING);
}

static void start_job(struct record_random *world, struct random_job *job)
{
    uint32_t recovery = world->recovery_next;
    world->recovery_next++;
    settle(world, job, TIME_PENDING);
    move_job(world, job, JOB_STARTING);
    open_recovery(world, job, recovery, 0, CAUSE_START);
    enter_phase(world, job, recovery, PHASE_PLAN);
    for (uint32_t slot = 0; slot < RANDOM_SLOTS; slot++) {
        take_slot(world, job, slot, 0);
    }
    launch(world, job, recovery);
}

static void blame(struct record_random *world, const struct random_job *job, uint32_t incident,
                  uint32_t slot)
{
    uint32_t node = job->nodes[slot];
    struct record *verdict = say_job(world, RECORD_verdict_kind, "Verdict", job->job);
    verdict->u.verdict.incident = incident;
    verdict->u.verdict.owner = OWNER_HARDWARE;
    verdict->u.verdict.action = DO_EVICT;
    verdict->u.verdict.signature = prng_next(&world->prng);
    verdict->u.verdict.blamed = 1;
    (void)text_copy(verdict->u.verdict.rule, NAME_SIZE, "node-silent");
    (void)text_copy(verdict->u.verdict.why, TEXT_SIZE, "nothing answered");
    struct record *blamed = say_node(world, RECORD_blamed_kind, NULL, node);
    blamed->job = job->job;
    blamed->u.blamed.incident = incident;
    blamed->u.blamed.node = node;
    blamed->u.blamed.slot = (int32_t)slot;
    struct record *strike = say_node(world, RECORD_strike_kind, NULL, node);
    strike->u.strike.node = node;
    strike->u.strike.incident = incident;
    strike->u.strike.owner = OWNER_HARDWARE;
    struct record *budget = say_job(world, RECORD_budget_used_kind, NULL, job->job);
    budget->u.budget_used.job = job->job;
    budget->u.budget_used.owner = OWNER_UNKNOWN;
    budget->u.budget_used.used = (uint32_t)prng_below(&world->prng, 3);
    budget->u.budget_used.signature = prng_next(&world->prng);
}

static void break_job(struct record_random *world, struct random_job *job)
{
    uint32_t slot = (uint32_t)prng_below(&world->prng, RANDOM_SLOTS);
    uint32_t node = job->nodes[slot];
    if (node == 0) {
        return;
    }
    uint32_t incident = world->incident_next;
    uint32_t recovery = world->recovery_next;
    world->incident_next++;
    world->recovery_next++;
    struct record *opened = say_job(world, RECORD_incident_opened_kind, "IncidentOpened", job->job);
    opened->u.incident_opened.incident = incident;
    opened->u.incident_opened.job = job->job;
    opened->u.incident_opened.attempt = job->attempt;
    struct record *fact = say_node(world, RECORD_fact_kept_kind, NULL, node);
    fact->u.fact_kept.incident = incident;
    fact->u.fact_kept.node = node;
    fact->u.fact_kept.job = job->job;
    fact->u.fact_kept.rank = -1;
    fact->u.fact_kept.source = (uint8_t)prng_below(&world->prng, fact_source_count);
    (void)text_copy(fact->u.fact_kept.text, TEXT_SIZE, "NVRM: Xid 79");
    move_job(world, job, JOB_RECOVERING);
    open_recovery(world, job, recovery, incident, CAUSE_NODE);
    enter_phase(world, job, recovery, PHASE_STOP);
    settle(world, job, TIME_PRODUCTIVE);
    struct record *ended = say_job(world, RECORD_attempt_ended_kind, NULL, job->job);
    ended->u.attempt_ended.job = job->job;
    ended->u.attempt_ended.attempt = job->attempt;
    ended->u.attempt_ended.stepped = true;
    ended->u.attempt_ended.step = job->step;
    enter_phase(world, job, recovery, PHASE_PLAN);
    blame(world, job, incident, slot);
    job->attempt++;
    leave_slot(world, job, slot);
    take_slot(world, job, slot, node);
    launch(world, job, recovery);
}

static void save_job(struct record_random *world, struct random_job *job)
{
    static const uint8_t states[] = {CKPT_WRITING, CKPT_COMPLETE, CKPT_VERIFIED};
    job->step += 1 + prng_below(&world->prng, 100);
    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        struct record *record = say_job(world, RECORD_checkpoint_moved_kind,
                                        i == 1 ? "CheckpointComplete" : NULL, job->job);
        struct record_checkpoint_moved *u = &record->u.checkpoint_moved;
        u->job = job->job;
        u->attempt = job->attempt;
        u->step = job->step;
        u->state = states[i];
        u->shards = 32;
        u->bytes = prng_next(&world->prng); /* whatever a rank says */
        (void)text_format(u->directory, PATH_SIZE, "/ckpt/step-%llu.a-%u",
                          (unsigned long long)job->step, job->attempt);
    }
    settle(world, job, TIME_PRODUCTIVE);
}

static void end_job(struct record_random *world, struct random_job *job)
{
    struct record *cancel = say_job(world, RECORD_cancel_asked_kind, "CancelAsked", job->job);
    cancel->u.cancel_asked.job = job->job;
    (void)text_copy(cancel->u.cancel_asked.actor, NAME_SIZE, "grace");
    move_job(world, job, JOB_STOPPING);
    for (uint32_t slot = 0; slot < RANDOM_SLOTS; slot++) {
        if (job->nodes[slot] != 0) {
            leave_slot(world, job, slot);
        }
    }
    settle(world, job, TIME_STOPPING);
    move_job(world, job, JOB_CANCELLED);
    job->job = 0;
}

static void something_with_a_job(struct record_random *world)
{
    struct random_job *job = &world->jobs[prng_below(&world->prng, RANDOM_JOBS)];
    if (job->job == 0) {
        submit_job(world, job);
    } else if (job->state == JOB_PENDING) {
        start_job(world, job);
    } else if (prng_below(&world->prng, 12) == 0) {
        end_job(world, job);
    } else if (prng_below(&world->prng, 4) == 0) {
        break_job(world, job);
    } else {
        save_job(world, job);
    }
}

static void ask_of_job(struct record_random *world)
{
    uint32_t job = (uint32_t)prng_between(&world->prng, 1, world->job_next);
    struct record *hold = say_job(world, RECORD_hold_asked_kind, NULL, job);
    hold->u.hold_asked.job = job;
    hold->u.hold_asked.on = prng_below(&world->prng, 2) == 1;
    (void)text_copy(hold->u.hold_asked.actor, NAME_SIZE, "ada");
    struct record *save = say_job(world, RECORD_save_asked_kind, NULL, job);
    save->u.save_asked.job = job;
    save->u.save_asked.request = (uint32_t)prng_below(&world->prng, 100);
    struct record *approved = say_job(world, RECORD_rollback_approved_kind, NULL, job);
    approved->u.rollback_approved.job = job;
    (void)text_copy(approved->u.rollback_approved.actor, NAME_SIZE, "ada");
    struct record *quarantined = say_job(world, RECORD_job_quarantined_kind, NULL, job);
    quarantined->u.job_quarantined.job = job;
    (void)text_copy(quarantined->u.job_quarantined.text, TEXT_SIZE, "record 7 cannot be read");
}

static void choose_for_job(struct record_random *world)
{
    uint32_t job = (uint32_t)prng_between(&world->prng, 1, world->job_next);
    struct record *interval = say_job(world, RECORD_interval_chosen_kind, "IntervalChosen", job);
    interval->u.interval_chosen.job = job;
    interval->u.interval_chosen.interval_ms = prng_between(&world->prng, 10000, 3600000);
    interval->u.interval_chosen.interval_saves = (uint32_t)prng_below(&world->prng, 10);
    struct record *reserve = say_job(world, RECORD_reserve_chosen_kind, "ReserveChosen", job);
    reserve->u.reserve_chosen.job = job;
    reserve->u.reserve_chosen.reserve_wanted = (uint32_t)prng_below(&world->prng, 20);
    struct record *low = say_job(world, RECORD_spares_low_kind, "SparesLow", job);
    low->u.spares_low.job = job;
    low->u.spares_low.low = prng_below(&world->prng, 2) == 1;
    low->u.spares_low.ready = (uint32_t)prng_below(&world->prng, 20);
    low->u.spares_low.wanted = 1 + (uint32_t)prng_below(&world->prng, 20);
}

static void something_of_the_cluster(struct record_random *world)
{
    struct record *acted = say(world, RECORD_acted_kind, "Acted");
    (void)text_copy(acted->u.acted.actor, NAME_SIZE, "ada");
    (void)text_copy(acted->u.acted.verb, NAME_SIZE, "drain");
    (void)text_copy(acted->u.acted.reason, TEXT_SIZE, "it's loud");
    struct record *automation = say(world, RECORD_automation_kind, "AutomationChanged");
    automation->u.automation.paused = prng_below(&world->prng, 2) == 1;
    struct record *breaker = say(world, RECORD_breaker_kind, NULL);
    breaker->u.breaker.open = prng_below(&world->prng, 2) == 1;
    uint32_t node = (uint32_t)prng_between(&world->prng, 1, RANDOM_NODES);
    struct record *seen = say_node(world, RECORD_foreign_seen_kind, "ForeignSeen", node);
    seen->u.foreign_seen.node = node;
    seen->u.foreign_seen.job = 7;
    struct record *resolved = say_node(world, RECORD_foreign_resolved_kind, NULL, node);
    resolved->u.foreign_resolved.node = node;
    resolved->u.foreign_resolved.job = 7;
    resolved->u.foreign_resolved.stopped = prng_below(&world->prng, 2) == 1;
    struct record *adopted = say(world, RECORD_counters_adopted_kind, NULL);
    adopted->u.counters_adopted.job = (uint32_t)prng_below(&world->prng, world->job_next);
    ask_of_job(world);
    choose_for_job(world);
}

void record_random_start(struct record_random *world, uint64_t seed, uint64_t wall_ms)
{
    memset(world, 0, sizeof(*world));
    prng_seed(&world->prng, seed);
    world->wall_ms = wall_ms;
    world->job_next = 1;
    world->incident_next = 1;
    world->recovery_next = 1;
    struct record *opened = say(world, RECORD_store_opened_kind, "StoreOpened");
    (void)text_format(opened->u.store_opened.cluster_id, CLUSTER_ID_SIZE, "%032llx",
                      (unsigned long long)prng_next(&world->prng));
    (void)text_format(opened->u.store_opened.store_id, CLUSTER_ID_SIZE, "%032llx",
                      (unsigned long long)prng_next(&world->prng));
}

void record_random_next(struct record_random *world, struct record *ret_record)
{
    while (world->taken == world->queued) {
        world->taken = 0;
        world->queued = 0;
        uint64_t dice = prng_below(&world->prng, 100);
        if (dice < 30) {
            something_on_a_node(world);
        } else if (dice < 95) {
            something_with_a_job(world);
        } else {
            something_of_the_cluster(world);
        }
        if (prng_below(&world->prng, 200) == 0) {
            struct record *term = say(world, RECORD_term_began_kind, "ControllerStarted");
            world->term++;
            term->u.term_began.term = world->term;
            term->u.term_began.away_ms = prng_below(&world->prng, 60000);
        }
    }
    *ret_record = world->queue[world->taken];
    world->taken++;
}

uint32_t record_random_images(struct record_random *world, struct record *ret_records, uint32_t max)
{
    CHECK(max >= 1);
    uint32_t count = 0;
    for (uint32_t node = 0; node <= RANDOM_NODES && count < max; node++) {
        struct record *record = &ret_records[count];
        memset(record, 0, sizeof(*record));
        record->version = RECORD_VERSION;
        record->service_ms = world->service_ms;
        record->wall_ms = world->wall_ms;
        if (node == 0) {
            record->kind = RECORD_image_core_kind;
            record->u.image_core.term = world->term;
            record->u.image_core.service_ms = world->service_ms;
            record->u.image_core.job_next = world->job_next;
            count++;
        } else if (world->nodes[node].joined) {
            record->kind = RECORD_image_node_kind;
            record->u.image_node.node = node;
            record->u.image_node.life = world->nodes[node].life;
            record->u.image_node.lost = world->nodes[node].lost;
            (void)text_format(record->u.image_node.name, NAME_SIZE, "gpu-%04u", node);
            count++;
        }
    }
    return count;
}
