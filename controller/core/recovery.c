/* recovery.c: one sequence of phases per job, single-flight, durable at every boundary.
 *
 *   detect --> stop --> plan --> check --> launch --> init --> restore --> first_step --> closed
 *                ^        ^        |         |          |         |            |
 *                |        +--------+         |          |         |            |
 *                +---------------------------+----------+---------+------------+
 *                                                    (another failure)
 *
 * Stop comes before blame: the attempt is over whoever is guilty, so it is stopped at the first
 * fact, and the verdict is made when the evidence window has closed. A second trigger merges into
 * the recovery that runs. Everything here looks at the present state and does what it calls for, so
 * it does not matter where a controller was killed. */
#include <string.h>

#include "controller/core/impl.h"

enum {
    FACTS_MAX = 256,    /* of one incident: the first ends tell, the thousands after them do not */
    PORT_TRIES_MAX = 8, /* rendezvous ports tried on one node */
};

void recovery_phase(struct core *core, struct job *job, uint8_t phase)
{
    account_turn(core, job);
    struct record *record = record_begin(core, RECORD_recovery_phase_kind);
    record->u.recovery_phase.recovery = job->d.recovery;
    record->u.recovery_phase.phase = phase;
    record->job = job->d.job;
    record->recovery = job->d.recovery;
    record_subject(record, "recovery/r-%04u", job->d.recovery);
    record_says(record, "RecoveryPhase", SEVERITY_INFO, "%s: %s", job->d.name, WORD(phase, phase));
    core_emit(core, record);
    job->phase_ms = core->t;
    job->port_tries = 0;
    for (uint32_t i = 0; phase == PHASE_CHECK && i < job->slot_count; i++) {
        struct node *node = node_at(core, slot_at(core, job, i)->d.node);
        if (node != NULL) {
            node->check_nonce = 0; /* of an earlier round: asked anew */
        }
    }
    core->look = true;
}

/* Books the steps since the newest checkpoint, which the stop takes, and the time it took to
 * notice. */
static void settle_running(struct core *core, struct job *job, uint64_t since_service_ms)
{
    if (job->d.state != JOB_RUNNING) {
        return;
    }
    bool saved_all = job->d.stop_request && core_checkpoint_best(core, job) != NULL &&
                     core_checkpoint_best(core, job)->d.step >= job->step;
    account_settle(core, job, saved_all ? TIME_PRODUCTIVE : TIME_LOST_WORK, since_service_ms);
}

void recovery_open(struct core *core, struct job *job, uint8_t cause, uint32_t incident,
                   uint64_t since_service_ms)
{
    if (since_service_ms < job->d.settled_service_ms) {
        since_service_ms = job->d.settled_service_ms;
    }
    if (cause != CAUSE_START) {
        settle_running(core, job, since_service_ms);
    }
    struct record *record = record_begin(core, RECORD_recovery_opened_kind);
    struct record_recovery_opened *u = &record->u.recovery_opened;
    u->recovery = core->g.recovery_next == 0 ? 1 : core->g.recovery_next;
    u->job = job->d.job;
    u->attempt = job->d.attempt;
    u->incident = incident;
    u->cause = cause;
    u->since_service_ms = since_service_ms;
    record->job = job->d.job;
    record->recovery = u->recovery;
    record_subject(record, "recovery/r-%04u", u->recovery);
    if (cause != CAUSE_START) {
        record_says(record, "RecoveryStarted", SEVERITY_INFO, "%s: cause %s, at step %llu",
                    job->d.name, WORD(cause, cause), (unsigned long long)job->step_top);
    }
    core_emit(core, record);
    job->waiting_spare = false;
    job->check_failures = 0;
    saves_stale(core, job);
    if (cause == CAUSE_START) {
        return;
    }
    job_move(core, job, JOB_RECOVERING, "");
    job_end_attempt(core, job);
    recovery_phase(core, job, PHASE_STOP);
    job->drain_ms = 0;
    job->stop_ms = core->t;
    job->gone_ms = 0;
    desired_send_job(core, job);
}

void recovery_close(struct core *core, struct job *job, uint8_t outcome)
{
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    CHECK(recovery != NULL);
    uint64_t took = service_now(core) - recovery->d.opened_service_ms;
    bool start = recovery->d.cause == CAUSE_START;
    account_turn(core, job);
    struct record *record = record_begin(core, RECORD_recovery_closed_kind);
    record->u.recovery_closed.recovery = recovery->d.recovery;
    record->u.recovery_closed.outcome = outcome;
    record->job = job->d.job;
    record->recovery = recovery->d.recovery;
    record_subject(record, "recovery/r-%04u", recovery->d.recovery);
    if (!start) {
        record_says(record, "RecoveryFinished", SEVERITY_INFO,
                    "%s: %s after %llu.%01llu s, %llu %s lost", job->d.name, WORD(outcome, outcome),
                    (unsigned long long)(took / 1000), (unsigned long long)(took % 1000 / 100),
                    (unsigned long long)recovery->d.lost_steps,
                    text_plural(recovery->d.lost_steps, "step", "steps"));
    }
    core_emit(core, record);
    core->look = true;
}

/* ---- facts ---------------------------------------------------------------------------------- */

static bool fact_known(const struct core *core, uint32_t incident, const struct fact *fact)
{
    for (uint32_t i = core->fact_count; i-- > 0;) {
        const struct record_image_fact *d = &core->facts[i];
        if (d->incident == incident && d->source == fact->source && d->node == fact->node &&
            d->rank == fact->rank && d->attempt == fact->attempt && d->code == fact->code &&
            text_equal(d->signal, fact->signal) && text_equal(d->subject, fact->subject)) {
            return true;
        }
    }
    return false;
}

static uint32_t facts_of(const struct core *core, uint32_t incident)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->fact_count; i++) {
        count += core->facts[i].incident == incident ? 1 : 0;
    }
    return count;
}

static void keep_fact(struct core *core, struct job *job, const struct fact *fact)
{
    const struct node *node = core_node(core, fact->node);
    struct record *record = record_begin(core, RECORD_fact_kept_kind);
    struct record_fact_kept *u = &record->u.fact_kept;
    u->incident = job->d.incident;
    u->source = fact->source;
    u->severity = fact->severity;
    u->node = fact->node;
    u->job = job->d.job;
    u->attempt = fact->attempt;
    u->rank = fact->rank;
    u->gpu = fact->gpu;
    u->port = fact->port;
    u->code = fact->code;
    u->receive_ms = fact->receive_ms;
    u->sequence = fact->sequence;
    u->label = fact->label;
    u->advice = fact->advice;
    u->role = fact->role;
    text_copy(u->signal, SIGNAL_NAME_SIZE, fact->signal);
    text_copy(u->subject, SIGNAL_SUBJECT_SIZE, fact->subject);
    text_copy(u->text, TEXT_SIZE, fact->text);
    record->job = job->d.job;
    record->node = fact->node;
    record->recovery = job->d.recovery;
    record_subject(record, "incident/I-%04u", job->d.incident);
    record_says(record, "Fact", fact->severity >= 2 ? SEVERITY_WARN : SEVERITY_INFO, "%s%s%s",
                node != NULL ? node->d.name : "", node != NULL ? ": " : "", fact->text);
    core_emit(core, record);
    job->evidence_ms = core->t;
    core->look = true;
}

static void open_incident(struct core *core, struct job *job)
{
    struct record *record = record_begin(core, RECORD_incident_opened_kind);
    record->u.incident_opened.incident = core->g.incident_next == 0 ? 1 : core->g.incident_next;
    record->u.incident_opened.job = job->d.job;
    record->u.incident_opened.attempt = job->d.attempt;
    record->u.incident_opened.step = job->step_top;
    record->job = job->d.job;
    record_subject(record, "incident/I-%04u", record->u.incident_opened.incident);
    core_emit(core, record);
    job->evidence_open_ms = core->t;
}

/* What was told of its nodes just before it began: a hang is only known minutes after that. */
static void keep_signs(struct core *core, struct job *job, uint64_t since_service_ms)
{
    const uint64_t now_ms = service_now(core);
    const uint64_t ago_ms = now_ms > since_service_ms ? now_ms - since_service_ms : 0;
    const uint64_t began_ms = core->t > ago_ms ? core->t - ago_ms : 0;
    for (uint32_t i = 0; i < SIGNS_MAX; i++) {
        const struct fact *sign = signs_recent(core, job, i, began_ms);
        if (sign != NULL && !fact_known(core, job->d.incident, sign)) {
            keep_fact(core, job, sign);
        }
    }
}

static uint8_t cause_of(const struct fact *fact)
{
    switch (fact->source) {
    case FACT_CONNECTION:
    case FACT_AGENT_DOWN:
    case FACT_CHECK:
    case FACT_LAUNCH:
        return CAUSE_NODE;
    case FACT_NO_PROGRESS:
        return CAUSE_HANG;
    case FACT_OPERATOR:
        return CAUSE_PLANNED;
    case FACT_PROBE:
    case FACT_LOG:
        return fact->severity >= 3 ? CAUSE_NODE : CAUSE_RANK;
    default:
        return CAUSE_RANK;
    }
}

/* A failure while a recovery runs: it merges, and the sequence goes on from where it must. */
static void merge(struct core *core, struct job *job, const struct fact *fact)
{
    open_incident(core, job);
    struct record *record = record_begin(core, RECORD_recovery_merged_kind);
    record->u.recovery_merged.recovery = job->d.recovery;
    record->u.recovery_merged.incident = job->d.incident;
    record->u.recovery_merged.cause = cause_of(fact);
    record->job = job->d.job;
    record->recovery = job->d.recovery;
    record_subject(record, "recovery/r-%04u", job->d.recovery);
    record_says(record, "RecoveryMerged", SEVERITY_WARN, "%s: another failure while it recovers",
                job->d.name);
    core_emit(core, record);
    keep_fact(core, job, fact);
    keep_signs(core, job, service_now(core));
    if (job_runs(job)) {
        if (job->d.state == JOB_STARTING) {
            job_move(core, job, JOB_RECOVERING, "");
        }
        job_end_attempt(core, job);
        recovery_phase(core, job, PHASE_STOP);
        desired_send_job(core, job);
    } else if (core_recovery(core, job->d.recovery)->d.phase == PHASE_CHECK) {
        recovery_phase(core, job, PHASE_PLAN); /* nothing of the coming attempt was launched */
    }
}

/* The attempt that runs is over, or ought to be. A mere sign ends nothing while automation is held:
 * it is kept, for the rank that ends of it, or for the moment when automation acts again. */
static void first_fact(struct core *core, struct job *job, const struct fact *fact,
                       uint64_t since_service_ms)
{
    bool sign = fact->source == FACT_PROBE || fact->source == FACT_LOG;
    if (job->d.incident == 0) {
        open_incident(core, job);
    }
    keep_fact(core, job, fact);
    keep_signs(core, job, since_service_ms);
    if (sign && core_held(core)) {
        char text[TEXT_SIZE];
        text_sentence(text, sizeof text, "stop %s: %.120s", job->d.name, fact->text);
        core_would(core, job->d.job, fact->node, text);
        return;
    }
    recovery_open(core, job, cause_of(fact), job->d.incident, since_service_ms);
}

void recovery_fact(struct core *core, struct job *job, const struct fact *fact,
                   uint64_t since_service_ms)
{
    if (!job_at_work(job) || job->d.quarantined || fact->attempt != job->d.attempt) {
        return; /* late, or about a job that is not at work: it changes nothing */
    }
    const struct incident *incident = core_incident(core, job->d.incident);
    /* What ends an attempt that runs is news, also when the same node failed before its launch. */
    bool news = incident != NULL && incident->d.judged && job_runs(job);
    if (incident != NULL && !news &&
        (fact_known(core, job->d.incident, fact) ||
         (fact->severity < 3 && facts_of(core, job->d.incident) >= FACTS_MAX))) {
        return;
    }
    if (job->d.ended && fact->severity < 3 && (incident == NULL || incident->d.judged)) {
        return; /* ranks that end once their stop is ordered are no failure */
    }
    if (job->d.recovery == 0) {
        if (fact->severity >= 2) {
            first_fact(core, job, fact, since_service_ms);
        } else {
            signs_keep(core, fact);
        }
        return;
    }
    bool same_attempt = incident != NULL && incident->d.attempt == fact->attempt;
    /* An incident before the launch may carry the same attempt: what then ends it is a new one. */
    bool late = fact->severity < 3 && !job_runs(job);
    if (incident != NULL && same_attempt && (!incident->d.judged || late)) {
        keep_fact(core, job, fact); /* evidence for the incident at hand, or too late to matter */
    } else if (fact->severity >= 2) {
        merge(core, job, fact);
    }
}

/* ---- stop ----------------------------------------------------------------------------------- */

bool recovery_all_gone(const struct core *core, const struct job *job, bool *ret_fenced)
{
    bool all = true;
    *ret_fenced = false;
    if (!job->d.attempted || (!job->d.launched && job->d.attempt == 0)) {
        return true; /* nothing was ever started */
    }
    uint32_t attempt = job->d.launched ? job->d.attempt : job->d.attempt - 1;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        struct slot *slot = &core->slots[job->slot_base + i];
        const struct node *node = core_node(core, slot->d.node);
        if (node == NULL || (!job->d.launched && slot->d.since_attempt == job->d.attempt)) {
            continue; /* came in for an attempt that was never launched */
        }
        bool fenced =
            node->d.lost || mark_find(core, node->d.node, MARK_RECOVERY, "unproven") != NULL;
        slot->gone = node->session != 0 && report_gone(node, job->d.job, attempt);
        *ret_fenced = *ret_fenced || fenced;
        all = all && (slot->gone || (fenced && !node_fence_waits(core, node)));
    }
    return all;
}

static uint64_t stop_deadline(const struct core *core, const struct job *job,
                              const struct recovery *recovery)
{
    uint32_t grace =
        recovery->d.cause == CAUSE_PLANNED ? job->d.stop_grace_ms : job->d.recovery_grace_ms;
    return job->stop_ms + grace + core->config.kill_extra_ms;
}

/* A node that says itself that it cannot be emptied is not waited for until the deadline. */
static void fence_unclean(struct core *core, struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        struct node *node = node_at(core, slot_at(core, job, i)->d.node);
        for (uint32_t k = 0; node != NULL && k < node->report_count; k++) {
            const struct attempt_report *report = &node->reports[k];
            if (report->job == job->d.job && report->unclean && !report->empty) {
                node_fence(core, node, job->d.job, job->d.attempt,
                           "a process there does not end even by KILL");
            }
        }
    }
}

static bool evidence_closed(const struct core *core, const struct job *job)
{
    if (!link_settled(core)) {
        return false; /* right after a start: most of the evidence is still on its way */
    }
    if (core->t - job->evidence_open_ms >= core->config.evidence_max_ms) {
        return true;
    }
    if (job->gone_ms != 0) {
        uint64_t since = job->gone_ms > job->evidence_ms ? job->gone_ms : job->evidence_ms;
        return core->t - since >= core->config.evidence_gone_ms;
    }
    /* Silence that is not yet decided is the strongest evidence there is: it is waited for. */
    return core->t - job->evidence_ms >= core->config.evidence_quiet_ms &&
           !link_undecided(core, job);
}

static void look_for_blame(struct core *core, struct job *job)
{
    const struct incident *incident = core_incident(core, job->d.incident);
    if (incident != NULL && !incident->d.judged && evidence_closed(core, job)) {
        plan_verdict(core, job);
    }
}

/* The deadline is over and automation may not fence: says whom it would. */
static void would_fence(struct core *core, struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = slot_at(core, job, i);
        const struct node *node = core_node(core, slot->d.node);
        if (node != NULL && !slot->gone && !node->d.lost) {
            char text[TEXT_SIZE];
            text_format(text, sizeof text,
                        "fence %s, which has not proven itself empty, and go on without it",
                        node->d.name);
            job_would(core, job, node->d.node, text);
            return;
        }
    }
}

static void look_stop(struct core *core, struct job *job, const struct recovery *recovery)
{
    bool fenced = false;
    fence_unclean(core, job);
    /* A breaker or a pause says that silence may be ours: then nobody is fenced for it. */
    bool blocked = core->g.breaker_open || core_held(core) || !core_ready(core);
    if (core->t >= stop_deadline(core, job, recovery) && !blocked) {
        (void)recovery_all_gone(core, job, &fenced); /* for slot->gone */
        job_fence_rest(core, job, "did not prove itself empty in time after the stop");
    }
    if (!recovery_all_gone(core, job, &fenced)) {
        if (core->t >= stop_deadline(core, job, recovery) && core_ready(core) && blocked) {
            would_fence(core, job);
        }
        look_for_blame(core, job);
        return;
    }
    if (job->gone_ms == 0) {
        job->gone_ms = core->t;
    }
    look_for_blame(core, job);
    recovery_phase(core, job, PHASE_PLAN);
}

/* ---- plan ----------------------------------------------------------------------------------- */

static void look_plan(struct core *core, struct job *job, struct recovery *recovery)
{
    bool fenced = false;
    char unused[TEXT_SIZE];
    if (job->gone_ms == 0 && recovery_all_gone(core, job, &fenced)) {
        job->gone_ms = core->t;
    }
    (void)saves_list(core, job, unused); /* it is looked while evidence is still awaited */
    look_for_blame(core, job);
    const struct incident *incident = core_incident(core, job->d.incident);
    if (incident != NULL && !incident->d.judged) {
        return;
    }
    if (core_job_over(job) || job->d.state == JOB_STOPPING) {
        return; /* the verdict ended it */
    }
    if (plan_make(core, job, recovery) == PLAN_MADE) {
        recovery_phase(core, job, PHASE_CHECK);
    }
}

/* ---- check ---------------------------------------------------------------------------------- */

static bool must_check(const struct job *job, const struct slot *slot)
{
    return !slot->checked && (slot->d.slot == 0 || slot->d.since_attempt == job->d.attempt);
}

static void send_check(struct core *core, struct job *job, const struct slot *slot,
                       struct node *node)
{
    struct action *action = action_send(core, node, MSG_CHECK);
    struct msg_check *u = &action->u.check;
    u->nonce = ++core->nonce;
    u->job = job->d.job;
    u->attempt = job->d.attempt;
    u->port = slot->d.slot == 0 ? (uint16_t)job->d.port : 0;
    u->restore_step = job->d.restore_step;
    u->restore_attempt = job->d.restore_attempt;
    const struct checkpoint *from =
        core_checkpoint_find(core, job->d.job, job->d.restore_attempt, job->d.restore_step);
    if (from != NULL) {
        text_copy(u->restore_directory, sizeof u->restore_directory, from->d.directory);
    }
    node->check_nonce = u->nonce;
    node->check_ms = core->t + core->config.check_timeout_ms;
}

/* A node that fails its check is marked and the next one taken; where nobody passes and several
 * fail, it is not the nodes (storage, a wrong path): a person is asked. */
static void check_failed_on(struct core *core, struct job *job, struct node *node, const char *text)
{
    bool any_passed = false;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        any_passed = any_passed || slot_at(core, job, i)->checked;
    }
    job->check_failures++;
    if (!any_passed && job->check_failures >= 2) {
        char reason[TEXT_SIZE];
        text_format(reason, sizeof reason,
                    "every node fails the quick check (last %s: %s); mend it, then keepstep "
                    "release %s",
                    node->d.name, text, job->d.name);
        recovery_hold(core, job, reason);
        return;
    }
    mark_set(core, node,
             &(struct mark_order){.owner = MARK_HEALTH,
                                  .level = MARK_LEAVE,
                                  .when = WHEN_NOW,
                                  .code = "check",
                                  .actor = "keepstep",
                                  .text = text});
    breaker_marked(core, "check");
    recovery_phase(core, job, PHASE_PLAN);
}

void recovery_check_result(struct core *core, struct node *node,
                           const struct msg_check_result *result)
{
    struct job *job = node->d.job != 0 ? job_at(core, node->d.job) : NULL;
    const struct recovery *recovery = job != NULL ? core_recovery(core, job->d.recovery) : NULL;
    if (recovery == NULL || recovery->d.phase != PHASE_CHECK || node->check_nonce == 0 ||
        result->nonce != node->check_nonce || job->d.state == JOB_STOPPING) {
        return;
    }
    struct slot *slot = slot_at(core, job, node->d.slot);
    node->check_nonce = 0;
    node->checked_ms = core->t;
    core->look = true;
    if (!result->ok) {
        check_failed_on(core, job, node, result->text);
    } else if (slot->d.slot == 0 && !result->port_free) {
        if (++job->port_tries > PORT_TRIES_MAX) {
            check_failed_on(core, job, node, "no port of the rendezvous range can be bound");
            return;
        }
        plan_choose_port(core, job); /* the next one of the range; asked again */
    } else {
        slot->checked = true;
    }
}

static void look_check(struct core *core, struct job *job)
{
    bool all = true;
    uint32_t recovery = job->d.recovery;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        struct slot *slot = slot_at(core, job, i);
        struct node *node = node_at(core, slot->d.node);
        CHECK(node != NULL);
        if (!must_check(job, slot)) {
            continue;
        }
        all = false;
        if (node->check_nonce != 0 && core->t >= node->check_ms && core_ready(core)) {
            node->check_nonce = 0;
            check_failed_on(core, job, node, "no answer to the quick check");
            return;
        }
        if (node->check_nonce == 0 && node->session != 0) {
            send_check(core, job, slot, node);
        } else if (node->session == 0 && node->check_nonce == 0) {
            node->check_nonce = ++core->nonce; /* waits for the node with the same limit */
            node->check_ms = core->t + core->config.check_timeout_ms;
        }
    }
    if (!all || job->d.recovery != recovery) {
        return;
    }
    if (core_held(core) || core->g.breaker_open) {
        char text[TEXT_SIZE];
        text_format(text, sizeof text, "launch attempt %u from step %llu", job->d.attempt,
                    (unsigned long long)job->d.restore_step);
        job_would(core, job, 0, text);
        return;
    }
    struct record *record = record_begin(core, RECORD_launch_ordered_kind);
    record->u.launch_ordered.job = job->d.job;
    record->u.launch_ordered.attempt = job->d.attempt;
    record->job = job->d.job;
    record->recovery = recovery;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, "LaunchOrdered", SEVERITY_INFO, "attempt %u from step %llu, port %u at %s",
                job->d.attempt, (unsigned long long)job->d.restore_step, job->d.port,
                job->d.address);
    core_emit(core, record);
    recovery_phase(core, job, PHASE_LAUNCH);
    job->step_at_ms = core->t;
    desired_send_job(core, job);
}

/* ---- launch, init, restore, first_step ------------------------------------------------------ */

static bool all_slots(const struct core *core, const struct job *job,
                      bool (*test)(const struct job *, const struct slot *))
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        if (!test(job, core_slot(core, job, i))) {
            return false;
        }
    }
    return true;
}

static bool slot_started(const struct job *job, const struct slot *slot)
{
    (void)job;
    return slot->started || slot->d.done;
}

static bool slot_initialised(const struct job *job, const struct slot *slot)
{
    return slot->initialised || slot->d.done || job->log.stepped;
}

static bool slot_restored(const struct job *job, const struct slot *slot)
{
    return slot->restored || slot->d.done || job->log.stepped;
}

static bool slot_stepped(const struct job *job, const struct slot *slot)
{
    bool mute = slot->mute && (job->d.log_steps == LOG_STEPS_NEVER || job->log.mute);
    return slot->d.done || mute || job->log.stepped || slot->step > job->d.restore_step;
}

/* Everybody who has not arrived in time is named, each with a fact of its own. */
static void name_absentees(struct core *core, struct job *job, uint8_t source, const char *text,
                           bool (*test)(const struct job *, const struct slot *))
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = slot_at(core, job, i);
        if (test(job, slot)) {
            continue;
        }
        struct fact fact = {.source = source,
                            .severity = source == FACT_LAUNCH ? 3 : 2,
                            .node = slot->d.node,
                            .job = job->d.job,
                            .attempt = job->d.attempt,
                            .rank = (int32_t)(i * job->d.ranks_per_node),
                            .gpu = -1,
                            .port = -1,
                            .receive_ms = core->wall_ms};
        text_copy(fact.text, TEXT_SIZE, text);
        recovery_fact(core, job, &fact, service_now(core));
    }
}

struct arrival {
    bool (*test)(const struct job *, const struct slot *);
    uint8_t next;   /* phase */
    uint8_t source; /* of the facts when the deadline passes */
    const char *text;
};
static const struct arrival arrivals[phase_count] = {
    [PHASE_LAUNCH] = {slot_started, PHASE_INITIALISE, FACT_LAUNCH,
                      "did not report its ranks started in time"},
    [PHASE_INITIALISE] = {slot_initialised, PHASE_RESTORING, FACT_NO_PROGRESS,
                          "did not leave its initialisation in time"},
    [PHASE_RESTORING] = {slot_restored, PHASE_FIRST_STEP, FACT_NO_PROGRESS,
                         "did not load its state in time"},
    [PHASE_FIRST_STEP] = {slot_stepped, PHASE_FIRST_STEP, FACT_NO_PROGRESS,
                          "did not complete a first step in time"},
};

static uint64_t arrival_limit(const struct core *core, const struct job *job, uint8_t phase)
{
    switch (phase) {
    case PHASE_LAUNCH:
        return core->config.launch_timeout_ms;
    case PHASE_INITIALISE:
        return job->d.init_timeout_ms;
    case PHASE_RESTORING:
        return job->d.start_timeout_ms;
    default: /* of steps that are printed the line may come so much later than the step */
        return job->d.first_step_ms + log_steps_gap_ms(job);
    }
}

static void look_arrival(struct core *core, struct job *job, uint8_t phase)
{
    const struct arrival *arrival = &arrivals[phase];
    if (!all_slots(core, job, arrival->test)) {
        bool first_step = phase == PHASE_FIRST_STEP;
        bool late = core->t >= job->phase_ms + arrival_limit(core, job, phase) && core_ready(core);
        /* Ranks that have begun to train wait for each other: judged as any hang. */
        if (late && !(first_step &&
                      (log_steps_give_up(core, job) || hang_name(core, job, service_now(core))))) {
            name_absentees(core, job, arrival->source, arrival->text, arrival->test);
        }
        return;
    }
    if (phase != PHASE_FIRST_STEP) {
        recovery_phase(core, job, arrival->next);
        return;
    }
    recovery_close(core, job, OUTCOME_RECOVERED);
    job_move(core, job, JOB_RUNNING, "");
}

void recovery_hold(struct core *core, struct job *job, const char *reason)
{
    recovery_close(core, job, OUTCOME_HELD);
    saves_stale(core, job); /* what is seen from now on may be somebody's hand at work */
    job_move(core, job, JOB_HELD, reason);
}

/* One phase may end at once and the next begin: goes on until nothing changes any more. */
void recovery_look(struct core *core, struct job *job)
{
    if (job->phase_ms == 0) { /* first look after a restart of the controller */
        job->phase_ms = core->t;
        job->stop_ms = core->t;
        job->evidence_ms = core->t;
        job->evidence_open_ms = core->t;
    }
    for (uint32_t i = 0; i < phase_count && job->d.recovery != 0; i++) {
        if (job->d.state == JOB_STOPPING || core_job_over(job)) {
            return;
        }
        struct recovery *recovery = recovery_at(core, job->d.recovery);
        uint8_t phase = recovery->d.phase;
        switch (phase) {
        case PHASE_DETECT:
        case PHASE_STOP:
            look_stop(core, job, recovery);
            break;
        case PHASE_PLAN:
            look_plan(core, job, recovery);
            break;
        case PHASE_CHECK:
            look_check(core, job);
            break;
        default:
            look_arrival(core, job, phase);
            break;
        }
        if (job->d.recovery == 0 || recovery_at(core, job->d.recovery)->d.phase == phase) {
            return;
        }
    }
}

static void check_due(const struct core *core, const struct job *job, uint64_t *due_ms)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct node *node = core_node(core, core_slot(core, job, i)->d.node);
        if (node != NULL && node->check_nonce != 0) {
            due_min(due_ms, node->check_ms);
        }
    }
}

void recovery_due(const struct core *core, const struct job *job, uint64_t *due_ms)
{
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    const struct incident *incident = core_incident(core, job->d.incident);
    if (incident != NULL && !incident->d.judged) {
        due_min(due_ms, job->evidence_ms + core->config.evidence_quiet_ms);
        due_min(due_ms, job->evidence_open_ms + core->config.evidence_max_ms);
        if (job->gone_ms != 0) {
            uint64_t since = job->gone_ms > job->evidence_ms ? job->gone_ms : job->evidence_ms;
            due_min(due_ms, since + core->config.evidence_gone_ms);
        }
    }
    switch (recovery->d.phase) {
    case PHASE_DETECT:
    case PHASE_STOP:
        due_min(due_ms, stop_deadline(core, job, recovery));
        return;
    case PHASE_PLAN:
        if (job->retry_ms != 0) {
            due_min(due_ms, job->retry_ms);
        }
        return;
    case PHASE_CHECK:
        check_due(core, job, due_ms);
        return;
    default:
        due_min(due_ms, job->phase_ms + arrival_limit(core, job, recovery->d.phase));
    }
}
