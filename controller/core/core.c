/* core.c: the six functions of core.h.
 *
 * A step is: set the time, let the event change what it changes, then look at everything that rests
 * on it (links, then jobs in the order of their ids) until nothing more follows. */
#include <errno.h>
#include <string.h>

#include "controller/core/hang.h"
#include "controller/core/impl.h"
#include "proto/base/mem.h"

const struct core_limits core_limits_default = {
    .agents = 2304,
    .jobs = 64,
    .slots = 8192,
    .incidents = 512,
    .facts = 4096,
    .recoveries = 512,
    .checkpoints = 1024,
    .foreign = 256,
    .pending_records = 100000,
};

static void config_defaults(struct core_config *c)
{
#define DEFAULT(field, value)                                                                      \
    if (c->field == 0) {                                                                           \
        c->field = (value);                                                                        \
    }
    DEFAULT(start_grace_ms, 15000)
    DEFAULT(start_quiet_ms, 3000)
    DEFAULT(start_grace_max_ms, 60000)
    DEFAULT(reconnect_grace_ms, 3000)
    DEFAULT(beat_ms, 1000)
    DEFAULT(probe_timeout_ms, 1000)
    DEFAULT(evidence_quiet_ms, 2000)
    DEFAULT(evidence_max_ms, 10000)
    DEFAULT(evidence_gone_ms, 300)
    DEFAULT(kill_extra_ms, 10000)
    DEFAULT(launch_timeout_ms, 20000)
    DEFAULT(check_timeout_ms, 5000)
    DEFAULT(end_grace_ms, 600000)
    DEFAULT(agent_away_ms, 600000)
    DEFAULT(probation_ms, 24u * 3600 * 1000)
    DEFAULT(repair_wait_ms, 60000)
    DEFAULT(port_low, 29400)
    DEFAULT(port_high, 29999)
#undef DEFAULT
    if (c->start_quiet_ms > c->start_grace_ms) {
        c->start_quiet_ms = c->start_grace_ms;
    }
}

/* ---- life of the core ----------------------------------------------------------------------- */

int core_create(const struct core_limits *limits, const struct core_config *config, uint64_t seed,
                struct core **ret_core)
{
    if (limits->agents == 0 || limits->agents > LAYOUT_NODES_MAX || limits->jobs == 0 ||
        limits->slots == 0 || limits->slots / 2 > LAYOUT_SLOTS_MAX || limits->incidents == 0 ||
        limits->recoveries < limits->jobs || limits->checkpoints < 2 * limits->jobs) {
        return -EINVAL;
    }
    struct core *core = mem_alloc(1, sizeof *core);
    core->limits = *limits;
    if (config != NULL) {
        core->config = *config;
    }
    config_defaults(&core->config);
    prng_seed(&core->prng, seed);
    core->due_ms = NEVER;
    core->record_limit = (8 + MARKS_PER_NODE) * limits->agents + 4 * limits->slots + 1024;
    core->action_limit = 8 * limits->agents + 1024;
    core->nodes = mem_alloc(limits->agents, sizeof *core->nodes);
    core->reports =
        mem_alloc((size_t)limits->agents * ATTEMPTS_PER_NODE_MAX, sizeof *core->reports);
    index_create(core);
    core->marks = mem_alloc((size_t)limits->agents * MARKS_PER_NODE, sizeof *core->marks);
    core->jobs = mem_alloc(limits->jobs, sizeof *core->jobs);
    core->slots = mem_alloc(limits->slots, sizeof *core->slots);
    core->checkpoints = mem_alloc(limits->checkpoints, sizeof *core->checkpoints);
    core->incidents = mem_alloc(limits->incidents, sizeof *core->incidents);
    core->facts = mem_alloc(limits->facts, sizeof *core->facts);
    core->blamed = mem_alloc(limits->facts, sizeof *core->blamed);
    core->recoveries = mem_alloc(limits->recoveries, sizeof *core->recoveries);
    /* Touched only where ranks run whose programs tell anything. */
    core->details = mem_alloc((size_t)limits->agents * RANKS_PER_NODE_MAX, sizeof *core->details);
    core->hang = hang_scratch_create(limits->slots * RANKS_PER_NODE_MAX);
    core->foreigns = mem_alloc(limits->foreign, sizeof *core->foreigns);
    core->records = mem_alloc(core->record_limit, sizeof *core->records);
    core->actions = mem_alloc(core->action_limit, sizeof *core->actions);
    core->trace = mem_alloc(1, TRACE_SIZE);
    core->labels = mem_alloc(LABELS_MAX, sizeof *core->labels);
    core->scratch = mem_alloc(1, sizeof *core->scratch);
    uint32_t most = limits->agents > limits->slots ? limits->agents : limits->slots;
    core->plan_nodes = mem_alloc(most, sizeof *core->plan_nodes);
    core->plan_holders = mem_alloc(most, sizeof *core->plan_holders);
    core->plan_ids = mem_alloc(most, sizeof *core->plan_ids);
    core->plan_lost = mem_alloc(most, sizeof *core->plan_lost);
    core->plan_swaps = mem_alloc(most, sizeof *core->plan_swaps);
    core->name_order = mem_alloc(most, sizeof *core->name_order);
    core->heard = mem_alloc(limits->agents, sizeof *core->heard);
    core->repair_bits = mem_alloc(limits->agents, sizeof *core->repair_bits);
    core->repair_cause = mem_alloc(limits->agents, sizeof *core->repair_cause);
    core->shares = mem_alloc(1, sizeof *core->shares);
    core->shares->ids = mem_alloc(limits->agents, sizeof *core->shares->ids);
    core->shares->kept_for = mem_alloc(limits->agents, sizeof *core->shares->kept_for);
    *ret_core = core;
    return 0;
}

struct core *core_free(struct core *core)
{
    if (core == NULL) {
        return NULL;
    }
    void *parts[] = {core->nodes,        core->marks,       core->jobs,      core->slots,
                     core->checkpoints,  core->incidents,   core->facts,     core->blamed,
                     core->recoveries,   core->foreigns,    core->records,   core->actions,
                     core->trace,        core->labels,      core->scratch,   core->plan_nodes,
                     core->plan_holders, core->plan_ids,    core->plan_lost, core->plan_swaps,
                     core->name_order,   core->details,     core->heard,     core->reports,
                     core->repair_bits,  core->repair_cause};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        mem_free(parts[i]);
    }
    hang_scratch_free(core->hang);
    mem_free(core->shares->ids);
    mem_free(core->shares->kept_for);
    mem_free(core->shares);
    index_free(core);
    return mem_free(core);
}

/* ---- replay --------------------------------------------------------------------------------- */

static bool is_quarantined(const struct core *core, uint32_t job)
{
    for (uint32_t i = 0; i < core->quarantine_count; i++) {
        if (core->quarantine[i] == job) {
            return true;
        }
    }
    return false;
}

int core_replay(struct core *core, const struct record *record, struct err *err)
{
    CHECK(!core->started);
    int code = fold_record(core, record, err);
    const struct node *node = core_node(core, record->node);
    bool of_node = record_owner(record->kind) == RECORD_OF_NODE && node != NULL && node->set_aside;
    bool of_job = record->job != 0 && is_quarantined(core, record->job);
    /* What a bad row left out may be missed by later rows of the same: kept and ignored. */
    return code < 0 && (of_node || of_job) ? 0 : code;
}

void core_quarantine(struct core *core, uint32_t id)
{
    struct job *job = job_at(core, id);
    if (job != NULL) {
        job->d.quarantined = true;
    }
    if (!is_quarantined(core, id) && core->quarantine_count < ARRAY_SIZE(core->quarantine)) {
        core->quarantine[core->quarantine_count++] = id;
    }
}

int core_quarantine_node(struct core *core, uint32_t id, const char *name)
{
    CHECK(!core->started);
    struct err err = {0};
    if (id == core->node_count + 1) {
        struct record record = {.kind = RECORD_node_joined_kind,
                                .service_ms = core->g.service_ms,
                                .wall_ms = core->g.wall_ms};
        bool usable = text_is_name(name, NAME_SIZE) && core_node_find(core, name) == 0;
        record.u.node_joined.node = id;
        if (usable) {
            text_copy(record.u.node_joined.name, NAME_SIZE, name);
        } else {
            text_format(record.u.node_joined.name, NAME_SIZE, "unreadable-%u", id);
        }
        int code = fold_record(core, &record, &err);
        if (code < 0) {
            return code;
        }
    }
    struct node *node = node_at(core, id);
    if (node == NULL) {
        return -EINVAL;
    }
    node->set_aside = true;
    return 0;
}

/* ---- one step ------------------------------------------------------------------------------- */

/* After a stall the beats of that time lie in its sockets, and the first thing that it does is to look
 * at its limits: so long nobody falls silent. Not again before as long without: one that is late
 * every second must still see who is silent. */
enum { CATCH_UP_MS = 1000 };

/* Whatever lateness the controller itself caused is nobody's silence. */
static void set_time(struct core *core, const struct event *event)
{
    CHECK(!core->stepped || event->now_ms >= core->now_ms);
    CHECK(event->idle_ms == 0 || (core->stepped && event->idle_ms <= event->now_ms - core->now_ms));
    core->stall_ms += event->idle_ms;
    uint64_t due = core->due_ms == NEVER ? NEVER : core->due_ms + core->stall_ms;
    if (core->started && due != NEVER && event->now_ms > due + LATE_MS) {
        uint64_t late = event->now_ms - due;
        core_trace(core, "the controller did not run for %llu ms; all limits move by that",
                   (unsigned long long)late);
        core->stall_ms += late;
        uint64_t t = event->now_ms - core->stall_ms;
        bool rested = core->catch_up_ms == 0 || t >= core->catch_up_ms + CATCH_UP_MS;
        core->catch_up_ms = rested ? t + CATCH_UP_MS : core->catch_up_ms;
    }
    core->now_ms = event->now_ms;
    core->wall_ms = event->wall_ms;
    core->t = event->now_ms - core->stall_ms;
    core->pending_records = event->pending_records;
    core->stepped = true;
}

/* The mark says it to people, and to later starts, which may read a snapshot instead of the row. */
static void say_quarantined(struct core *core)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        struct node *node = &core->nodes[i];
        bool marked = mark_find(core, node->d.node, MARK_RECOVERY, "quarantined") != NULL;
        if (node->set_aside && !marked && !node->d.removed) {
            char text[TEXT_SIZE];
            text_format(text, sizeof text,
                        "a row about it in the journal cannot be read: not judged, not used, its "
                        "ranks left alone; keepstep remove %s, then restart its agent",
                        node->d.name);
            mark_set(core, node,
                     &(struct mark_order){.owner = MARK_RECOVERY,
                                          .level = MARK_NO_NEW,
                                          .when = WHEN_JOB_END,
                                          .code = "quarantined",
                                          .actor = "keepstep",
                                          .text = text});
        }
        node->set_aside = node->set_aside || marked;
    }
}

static void start(struct core *core, const struct event *event)
{
    CHECK(!core->started);
    uint64_t last_wall = core->g.wall_ms;
    uint64_t away =
        core->g.store_id[0] != '\0' && event->wall_ms > last_wall ? event->wall_ms - last_wall : 0;
    away = away < SERVICE_AWAY_MAX_MS ? away : SERVICE_AWAY_MAX_MS;
    uint64_t service = core->g.service_ms + away;
    core->service_base_ms = service - event->now_ms; /* wraps when the host is up for longer */
    core->started = true;
    core->start_ms = core->t;
    core->new_agent_ms = core->t;
    if (core->g.store_id[0] == '\0') {
        struct record *record = record_begin(core, RECORD_store_opened_kind);
        text_copy(record->u.store_opened.cluster_id, CLUSTER_ID_SIZE, event->u.start.cluster_id);
        text_copy(record->u.store_opened.store_id, CLUSTER_ID_SIZE, event->u.start.store_id);
        record_subject(record, "cluster");
        core_emit(core, record);
    }
    struct record *record = record_begin(core, RECORD_term_began_kind);
    record->u.term_began.term = core->g.term + 1;
    record->u.term_began.away_ms = away;
    record_subject(record, "cluster");
    record_says(record, "ControllerStarted", SEVERITY_INFO, "term %llu",
                (unsigned long long)core->g.term + 1);
    core_emit(core, record);
    core->nonce = core->g.term << 32;
    say_quarantined(core);
    node_fence_again(core);
    repair_again(core);
    core->look = true;
}

static void beat(struct core *core, struct node *node, const struct msg_beat *beat)
{
    if (beat->sequence <= node->beat_sequence) {
        return; /* repeated or overtaken by a newer one */
    }
    node->beat_sequence = beat->sequence;
    bool was_ok = node->checks_ok;
    bool was_up = node->link == LINK_UP;
    link_beat(core, node);
    link_clock(core, node, beat->sent_ms);
    node->checks_ok = beat->checks_ok;
    node->checks_bad = !beat->checks_ok;
    report_attempts(core, node, beat->attempts, beat->attempt_count);
    bool waits = node->d.life == NODE_CHECKING || node->d.life == NODE_PROBATION ||
                 (node->d.life == NODE_OUT && node->d.must_pass != VALIDATION_NONE);
    if (was_ok != node->checks_ok || !was_up || waits ||
        mark_find(core, node->d.node, MARK_RECOVERY, "unproven") != NULL) {
        node_settle(core, node);
        core->look = true;
    }
    if (node_wants_ack(core, node)) {
        node_ack(core, node);
    }
}

static void agent_fact(struct core *core, struct node *node, const struct msg_fact *message)
{
    struct fact fact = message->fact;
    const uint64_t last = node_fact_sequence(node);
    if (fact.sequence <= last && last != 0) {
        node_ack(core, node);
        return;
    }
    node->fact_sequence = fact.sequence;
    struct job *job = node->d.job != 0 ? job_at(core, node->d.job) : NULL;
    if (job != NULL && (fact.source == FACT_PROBE || fact.source == FACT_LOG)) {
        if (fact.job == job->d.job && fact.attempt != job->d.attempt) {
            node_ack(core, node); /* said again after a lost ack: of an attempt that is over */
            return;
        }
        fact.node = node->d.node;
        fact.job = job->d.job;
        fact.attempt = job->d.attempt;
        fact.receive_ms = core->wall_ms;
        recovery_fact(core, job, &fact, service_now(core));
    }
    if (!job_at_work(job) && fact.severity >= 3) {
        node_is_broken(core, node, /* no verdict will say it */
                       &(struct node_fault){fact.text, fact.sequence, fact.advice});
    }
    node_ack(core, node);
}

static void message(struct core *core, const struct event *event)
{
    struct node *node = node_by_session(core, event->session);
    const struct message *m = event->u.message;
    if (node == NULL) {
        return; /* of a session that was replaced meanwhile */
    }
    switch (m->kind) {
    case MSG_BEAT:
        beat(core, node, &m->u.beat);
        return;
    case MSG_GOODBYE:
        node_goodbye(core, node, &m->u.goodbye);
        break;
    case MSG_RANK_ENDS:
        report_ends(core, node, &m->u.rank_ends);
        node_settle(core, node);
        node_ack(core, node);
        break;
    case MSG_FACT:
        agent_fact(core, node, &m->u.fact);
        break;
    case MSG_PEER_SAID:
        link_peer_said(core, node, &m->u.peer_said);
        break;
    case MSG_CHECKPOINT:
        checkpoint_message(core, node, &m->u.checkpoint);
        return;
    case MSG_RANK_DETAIL:
        detail_message(core, node, &m->u.rank_detail);
        return;
    case MSG_SAVE_SAID:
        saves_message(core, node, &m->u.save_said);
        break;
    case MSG_CHECK_RESULT:
        recovery_check_result(core, node, &m->u.check_result);
        break;
    case MSG_VALIDATED:
        validate_said(core, node, &m->u.validated);
        break;
    default:
        return; /* relays (exchange, logs, snapshots) never reach the core */
    }
    core->look = true;
}

static void dispatch(struct core *core, const struct event *event)
{
    switch ((enum event_kind)event->kind) {
    case EVENT_START:
        start(core, event);
        return;
    case EVENT_TICK:
        core->look = true;
        return;
    case EVENT_HELLO:
        node_hello(core, event->session, event->u.hello);
        core->look = true;
        return;
    case EVENT_MESSAGE:
        message(core, event);
        return;
    case EVENT_CLOSED:
        node_closed(core, event->session);
        core->look = true;
        return;
    case EVENT_PINGED:
        node_pinged(core, event->session, event->u.pinged_alive);
        core->look = true;
        return;
    case EVENT_REQUEST:
        request_handle(core, event->u.request);
        return;
    case EVENT_STORE:
        core->store_failing = event->u.store == STORE_FAILING;
        return;
    case EVENT_FENCED:
        node_fenced(core, event->u.fenced.node, event->u.fenced.ok);
        return;
    case EVENT_REPAIRED:
        repair_done(core, event->u.repaired.node, event->u.repaired.order, event->u.repaired.ok,
                    event->u.repaired.text);
        return;
    }
}

enum { AGAIN_MS = 100 };
enum { LOOKS_MAX = 8 }; /* rounds of consequences in one step; what is left comes after AGAIN_MS */

static void look(struct core *core)
{
    for (uint32_t round = 0; core->look && round < LOOKS_MAX; round++) {
        core->look = false;
        link_look(core);
        for (uint32_t i = 0; i < core->job_count; i++) {
            job_look(core, &core->jobs[i]);
        }
        repair_look(core);
    }
}

static uint64_t due(const struct core *core)
{
    uint64_t due_ms = core->look ? core->t + AGAIN_MS : NEVER;
    if (!core_ready(core)) {
        uint64_t grace = core->start_ms + core->config.start_grace_ms;
        uint64_t quiet = core->new_agent_ms + core->config.start_quiet_ms;
        due_min(&due_ms, grace > quiet ? grace : quiet);
    }
    link_due(core, &due_ms);
    repair_due(core, &due_ms);
    for (uint32_t i = 0; i < core->job_count; i++) {
        job_due(core, &core->jobs[i], &due_ms);
    }
    /* What is due and could not be done is looked at again soon, never in a busy loop. */
    return due_ms <= core->t ? core->t + AGAIN_MS : due_ms;
}

void core_step(struct core *core, const struct event *event, struct core_output *ret_output)
{
    core->record_count = 0;
    core->action_count = 0;
    core->trace_size = 0;
    core->trace[0] = '\0';
    core->look = false;
    CHECK(core->started || event->kind == EVENT_START);
    set_time(core, event);
    dispatch(core, event);
    bool due_now = core->t >= core->due_ms;
    core->look = core->look || core->unseen || due_now;
    core->unseen = core->look && event->more && !due_now;
    if (core->look && !core->unseen) {
        look(core);
        core->due_ms = due(core);
    }
    *ret_output = (struct core_output){.records = core->records,
                                       .record_count = core->record_count,
                                       .actions = core->actions,
                                       .action_count = core->action_count,
                                       .trace = core->trace};
}

uint64_t core_deadline_ms(const struct core *core)
{
    if (core->unseen) {
        return core->now_ms;
    }
    return core->due_ms == NEVER ? NEVER : core->due_ms + core->stall_ms;
}

/* ---- invariants ----------------------------------------------------------------------------- */

static void check_nodes(const struct core *core)
{
    uint32_t rounds = 0;
    uint32_t running = 0;
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        CHECK(node->d.node == i + 1);
        CHECK(node->d.life < node_life_count);
        rounds += node->probe_ms != 0 ? 1 : 0;
        CHECK(node->suspect_ms == 0 || !node->d.lost);
        CHECK(node->session == 0 || (!node->d.lost && !node->d.removed));
        CHECK(node->probe_ms == 0 || node->suspect_ms != 0);
        if (node->set_aside) {
            continue; /* its life is what could be read of it */
        }
        if (node->d.job == 0) {
            CHECK(node->d.life != NODE_ACTIVE && node->d.life != NODE_LEAVING);
        } else {
            const struct job *job = core_job(core, node->d.job);
            CHECK(job != NULL && !core_job_over(job));
            CHECK(core_slot(core, job, node->d.slot) != NULL);
            CHECK(core_slot(core, job, node->d.slot)->d.node == node->d.node);
            CHECK(node->d.life == NODE_ACTIVE || node->d.life == NODE_LEAVING);
        }
        bool marked = node_marked(core, node) || node->d.lost;
        CHECK(node->d.repair < repair_state_count);
        CHECK(node->d.repair != REPAIR_ORDERED || node->d.must_pass != VALIDATION_NONE);
        running += node->d.repair == REPAIR_ORDERED ? 1 : 0;
        bool free_life = node->d.life == NODE_READY || node->d.life == NODE_PROBATION;
        CHECK(!(free_life && marked));
    }
    CHECK(rounds == core->rounds);
    CHECK(running == core->repairs_running);
}

static void check_jobs(const struct core *core)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = &core->jobs[i];
        CHECK(i == 0 || core->jobs[i - 1].d.job < job->d.job);
        CHECK(job->d.state < job_state_count);
        uint64_t sum = 0;
        for (uint32_t k = 0; k < time_kind_count; k++) {
            sum += job->d.time_ms[k];
        }
        CHECK(sum == job->d.settled_service_ms - job->d.submitted_service_ms);
        uint32_t done = 0;
        uint32_t behind = 0;
        for (uint32_t k = 0; k < job->slot_count; k++) {
            const struct slot *slot = core_slot(core, job, k);
            CHECK(slot->d.job == job->d.job && slot->d.slot == k);
            done += slot->d.done ? 1 : 0;
            behind += slot->step <= job->step ? 1 : 0;
            if (slot->d.node != 0) {
                CHECK(core_node(core, slot->d.node)->d.job == job->d.job);
                CHECK(core_node(core, slot->d.node)->d.slot == k);
            }
        }
        CHECK(done == job->slots_done);
        CHECK(!job->counted || core_job_over(job) || behind == job->behind);
        CHECK(!core_job_over(job) || (job->slot_count == 0 && job->d.recovery == 0));
        bool working = job->d.state == JOB_RECOVERING || job->d.state == JOB_STARTING;
        CHECK(!working || job->d.quarantined || job->d.recovery != 0);
        CHECK(job->d.state != JOB_RUNNING || job->d.recovery == 0);
        CHECK(job->d.recovery == 0 || core_recovery(core, job->d.recovery) != NULL);
    }
}

void core_check(const struct core *core)
{
    if (core->quarantine_count == 0) { /* half a job's records agree with nothing */
        check_nodes(core);
        check_jobs(core);
    }
    uint32_t marks = 0;
    for (uint32_t i = 0; i < core->node_count; i++) {
        marks += core->nodes[i].mark_count;
    }
    CHECK(marks == core->mark_count);
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        CHECK(core_node(core, d->node) != NULL);
        CHECK(d->owner < mark_owner_count && d->level < mark_level_count);
        CHECK(core_mark_count(core, d->node) <= MARKS_PER_NODE);
    }
}

/* ---- digest and snapshot -------------------------------------------------------------------- */

/* Every durable object as (kind, body), in the order of a snapshot. */
typedef int visit_body(uint16_t kind, const void *body, uint32_t size, void *context);

#define VISIT(kind, body)                                                                          \
    do {                                                                                           \
        int code_ = visit(RECORD_##kind##_kind, (body), sizeof(struct record_##kind), context);    \
        if (code_ != 0) {                                                                          \
            return code_;                                                                          \
        }                                                                                          \
    } while (0)

static int visit_jobs(const struct core *core, visit_body *visit, void *context)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = &core->jobs[i];
        VISIT(image_job, &job->d);
        for (uint32_t k = 0; k < job->slot_count; k++) {
            VISIT(image_slot, &core_slot(core, job, k)->d);
        }
    }
    return 0;
}

static int visit_all(const struct core *core, visit_body *visit, void *context)
{
    VISIT(image_core, &core->g);
    for (uint32_t i = 0; i < core->node_count; i++) {
        VISIT(image_node, &core->nodes[i].d);
    }
    for (uint32_t i = 0; i < core->mark_count; i++) {
        VISIT(image_mark, &core->marks[i].d);
    }
    int code = visit_jobs(core, visit, context);
    if (code != 0) {
        return code;
    }
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        VISIT(image_checkpoint, &core->checkpoints[i].d);
    }
    for (uint32_t i = 0; i < core->incident_count; i++) {
        VISIT(image_incident, &core->incidents[i].d);
    }
    for (uint32_t i = 0; i < core->fact_count; i++) {
        VISIT(image_fact, &core->facts[i]);
    }
    for (uint32_t i = 0; i < core->blamed_count; i++) {
        VISIT(image_blamed, &core->blamed[i]);
    }
    for (uint32_t i = 0; i < core->recovery_count; i++) {
        VISIT(image_recovery, &core->recoveries[i].d);
    }
    for (uint32_t i = 0; i < core->foreign_count; i++) {
        VISIT(image_foreign, &core->foreigns[i].d);
    }
    return 0;
}

static int digest_one(uint16_t kind, const void *body, uint32_t size, void *context)
{
    (void)size;
    uint64_t *hash = context;
    *hash = record_body_digest(hash_u64(*hash, kind), kind, body);
    return 0;
}

uint64_t core_digest(const struct core *core)
{
    uint64_t hash = HASH_INIT;
    (void)visit_all(core, digest_one, &hash); /* digest_one never stops the walk */
    return hash;
}

struct snapshot {
    const struct core *core;
    core_visit_record *visit;
    void *context;
};

static int snapshot_one(uint16_t kind, const void *body, uint32_t size, void *context)
{
    struct snapshot *snapshot = context;
    struct record record = {.kind = kind, .version = RECORD_VERSION};
    record.service_ms = snapshot->core->g.service_ms;
    record.wall_ms = snapshot->core->g.wall_ms;
    text_copy(record.subject, sizeof record.subject, "snapshot");
    memcpy(&record.u, body, size);
    return snapshot->visit(&record, snapshot->context);
}

int core_snapshot(const struct core *core, core_visit_record *visit, void *context)
{
    struct snapshot snapshot = {core, visit, context};
    return visit_all(core, snapshot_one, &snapshot);
}
