/* job.c: the life of a job.
 *
 *   pending --> starting --> running <--> recovering
 *      |  \         |           |            |   ^
 *      |   \        v           v            v   |
 *      |    +--> held <---------+------------+   |
 *      |          |  +---------------------------+
 *      v          v
 *    (any) --> stopping --> succeeded | failed | cancelled
 *
 * Cancel wins in every state. A terminal state is reached only when every rank is gone or its node
 * is fenced. */
#include <string.h>

#include "controller/core/impl.h"
#include "proto/base/duration.h"

enum {
    LEAVE_MS = 2000, /* a program that has saved as it was asked leaves by itself within this */
};

#define TO(state) (1u << (state))
static const uint16_t moves[job_state_count] = {
    [JOB_PENDING] = TO(JOB_STARTING) | TO(JOB_HELD) | TO(JOB_STOPPING),
    [JOB_STARTING] = TO(JOB_RUNNING) | TO(JOB_RECOVERING) | TO(JOB_HELD) | TO(JOB_STOPPING),
    [JOB_RUNNING] = TO(JOB_RECOVERING) | TO(JOB_STOPPING),
    [JOB_RECOVERING] = TO(JOB_RUNNING) | TO(JOB_HELD) | TO(JOB_STOPPING),
    [JOB_HELD] = TO(JOB_PENDING) | TO(JOB_RECOVERING) | TO(JOB_STOPPING),
    [JOB_STOPPING] = TO(JOB_SUCCEEDED) | TO(JOB_FAILED) | TO(JOB_CANCELLED),
};

bool job_move_allowed(uint8_t from, uint8_t to)
{
    return from < job_state_count && to < job_state_count && (moves[from] & TO(to)) != 0;
}

static const char *event_type(uint8_t to)
{
    static const char *const types[job_state_count] = {
        [JOB_PENDING] = "JobReleased",    [JOB_STARTING] = "JobStarting",
        [JOB_RUNNING] = "JobRunning",     [JOB_RECOVERING] = "JobRecovering",
        [JOB_HELD] = "JobHeld",           [JOB_STOPPING] = "JobStopping",
        [JOB_SUCCEEDED] = "JobSucceeded", [JOB_FAILED] = "JobFailed",
        [JOB_CANCELLED] = "JobCancelled",
    };
    return types[to];
}

void job_move(struct core *core, struct job *job, uint8_t to, const char *reason)
{
    account_turn(core, job);
    bool bad = to == JOB_FAILED || to == JOB_HELD;
    struct record *record = record_begin(core, RECORD_job_moved_kind);
    record->u.job_moved.job = job->d.job;
    record->u.job_moved.from = job->d.state;
    record->u.job_moved.to = to;
    text_copy(record->u.job_moved.reason, TEXT_SIZE, reason);
    record->job = job->d.job;
    record->recovery = job->d.recovery;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, event_type(to), bad ? SEVERITY_ERROR : SEVERITY_INFO, "%s -> %s%s%s",
                WORD(job_state, job->d.state), WORD(job_state, to), reason[0] != '\0' ? ": " : "",
                reason);
    core_emit(core, record);
    core->look = true;
    interval_anew(core, job);
}

bool job_at_work(const struct job *job)
{
    return job != NULL && (job->d.state == JOB_STARTING || job->d.state == JOB_RUNNING ||
                           job->d.state == JOB_RECOVERING);
}

bool job_runs(const struct job *job)
{
    return job_at_work(job) && job->d.attempted && job->d.launched && !job->d.ended &&
           !job->d.quarantined;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* What all ranks have done: the live counter, or, when all have ended well, what they ended with,
 * since a controller that was just started has not heard the rest again. */
static uint64_t end_step(const struct core *core, const struct job *job)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = core_slot(core, job, i);
        least = slot->d.done && slot->d.done_step < least ? slot->d.done_step : least;
    }
    bool well = job->slot_count > 0 && job->slots_done == job->slot_count;
    return well && least > job->step ? least : job->step;
}

/* Programs without the library do not say that they load. One that ends by itself soon after its
 * launch and has saved nothing is taken to have failed on what it was given. */
static bool ended_loading(const struct core *core, const struct job *job)
{
    const struct checkpoint *best = core_checkpoint_best(core, job);
    bool young = job->step_at_ms != 0 && core->t < job->step_at_ms + job->d.start_timeout_ms;
    bool by_itself = false;
    for (uint32_t i = 0; i < core->fact_count; i++) {
        const struct record_image_fact *fact = &core->facts[i];
        by_itself = by_itself || (fact->incident == job->d.incident && job->d.incident != 0 &&
                                  fact->source == FACT_RANK_END);
    }
    return saves_are_found(job) && !job->library && !job->log.stepped && young && by_itself &&
           job->d.restore_step != 0 && best != NULL && best->d.step == job->d.restore_step;
}

/* How far it came. Ranks that fail while they load are quick: their end may be heard before the
 * recovery has moved to that phase, so their own word counts. */
static uint8_t end_phase(const struct core *core, const struct job *job)
{
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    uint8_t phase = recovery != NULL && recovery->d.planned ? recovery->d.phase : PHASE_FIRST_STEP;
    for (uint32_t i = 0; i < job->slot_count && phase < PHASE_RESTORING; i++) {
        const struct slot *slot = core_slot(core, job, i);
        phase = slot->mailbox && slot->phase == PHASE_RESTORE ? PHASE_RESTORING : phase;
    }
    return ended_loading(core, job) ? PHASE_RESTORING : phase;
}

void job_end_attempt(struct core *core, struct job *job)
{
    if (!job->d.attempted || !job->d.launched || job->d.ended) {
        return;
    }
    struct record *record = record_begin(core, RECORD_attempt_ended_kind);
    record->u.attempt_ended.job = job->d.job;
    record->u.attempt_ended.attempt = job->d.attempt;
    record->u.attempt_ended.phase = end_phase(core, job);
    record->u.attempt_ended.step = end_step(core, job);
    record->u.attempt_ended.stepped = record->u.attempt_ended.step > job->d.restore_step;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
    job->stop_ms = core->t;
    job->gone_ms = 0;
}

/* Nobody will judge the incident that is open: what a node found wrong with itself is kept by it,
 * and not forgotten with the job. */
static void keep_fatal_facts(struct core *core, const struct job *job)
{
    const struct incident *incident = core_incident(core, job->d.incident);
    for (uint32_t i = 0; i < core->fact_count && incident != NULL && !incident->d.judged; i++) {
        const struct record_image_fact *fact = &core->facts[i];
        struct node *node = node_at(core, fact->node);
        if (fact->incident == job->d.incident &&
            (fact->source == FACT_PROBE || fact->source == FACT_LOG) && fact->severity >= 3 &&
            node != NULL) {
            node_is_broken(core, node,
                           &(struct node_fault){fact->text, fact->sequence, fact->advice});
        }
    }
}

void job_stop_for_good(struct core *core, struct job *job, const char *reason)
{
    if (job->d.state == JOB_STOPPING || core_job_over(job)) {
        return;
    }
    bool well = job->slot_count > 0 && job->slots_done == job->slot_count;
    if (job->d.state == JOB_RUNNING) {
        account_settle(core, job, well ? TIME_PRODUCTIVE : TIME_LOST_WORK, service_now(core));
    }
    job_end_attempt(core, job);
    job_move(core, job, JOB_STOPPING, reason);
    keep_fatal_facts(core, job);
    job->stop_ms = core->t;
    desired_send_job(core, job);
}

static void release_slots(struct core *core, struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = slot_at(core, job, i);
        struct node *node = node_at(core, slot->d.node);
        if (node == NULL) {
            continue;
        }
        struct record *record = record_begin(core, RECORD_slot_left_kind);
        record->u.slot_left.job = job->d.job;
        record->u.slot_left.slot = i;
        record->u.slot_left.node = node->d.node;
        record->job = job->d.job;
        record->node = node->d.node;
        record_subject(record, "job/%s", job->d.name);
        core_emit(core, record);
        node_settle(core, node);
    }
}

/* Marks every node of the job that has not proven itself empty; none of them is waited for. */
void job_fence_rest(struct core *core, struct job *job, const char *text)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = slot_at(core, job, i);
        struct node *node = node_at(core, slot->d.node);
        bool never_ran = !job->d.launched && slot->d.since_attempt == job->d.attempt;
        if (node == NULL || node->d.lost || slot->gone || never_ran ||
            mark_find(core, node->d.node, MARK_RECOVERY, "unproven") != NULL) {
            continue;
        }
        node_fence(core, node, job->d.job, job->d.attempt, text);
    }
}

static void finish(struct core *core, struct job *job)
{
    bool well = job->slot_count > 0 && job->slots_done == job->slot_count;
    uint8_t to = job->d.cancelled ? JOB_CANCELLED : well ? JOB_SUCCEEDED : JOB_FAILED;
    uint8_t outcome = to == JOB_CANCELLED ? OUTCOME_CANCELLED
                      : to == JOB_FAILED  ? OUTCOME_FAILED
                                          : OUTCOME_SUCCEEDED;
    char reason[TEXT_SIZE];
    text_copy(reason, sizeof reason, job->d.reason);
    checkpoint_abandon(core, job);
    if (job->d.recovery != 0) {
        recovery_close(core, job, outcome);
    }
    release_slots(core, job);
    job_move(core, job, to, reason);
    desired_send_job(core, job);
}

static void look_stopping(struct core *core, struct job *job)
{
    if (job->stop_ms == 0) { /* after a restart of the controller */
        job->stop_ms = core->t;
        job_end_attempt(core, job);
    }
    bool fenced = false;
    if (recovery_all_gone(core, job, &fenced)) {
        finish(core, job);
    } else if (core_ready(core) &&
               core->t >= job->stop_ms + job->d.stop_grace_ms + core->config.kill_extra_ms) {
        job_fence_rest(core, job, "did not prove itself empty after the job's end");
        core->look = true;
    }
}

/* ---- the start ------------------------------------------------------------------------------ */

/* A job may start when no job before it in the order still waits. */
static bool is_next(const struct core *core, const struct job *job)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *other = &core->jobs[i];
        bool before = other->d.priority > job->d.priority ||
                      (other->d.priority == job->d.priority && other->d.job < job->d.job);
        if (other != job && other->d.state == JOB_PENDING && before && !other->d.quarantined) {
            return false;
        }
    }
    return true;
}

static void look_pending(struct core *core, struct job *job)
{
    if (!link_settled(core) || !is_next(core, job)) {
        return;
    }
    if (spares_open(core, job) < job->slot_count) {
        return; /* waits; what is missing is said by whoever asks */
    }
    if (core_held(core)) {
        char text[TEXT_SIZE];
        plan_foresee(core, job, text);
        job_would(core, job, 0, text);
        return;
    }
    job_move(core, job, JOB_STARTING, "");
    recovery_open(core, job, CAUSE_START, 0, service_now(core));
    recovery_phase(core, job, PHASE_PLAN);
}

/* ---- while it runs -------------------------------------------------------------------------- */

/* Ranks have ended with 0, the others are about to: nothing is swapped any more, and who has
 * finished may go silent. */
bool job_ends_now(const struct core *core, const struct job *job)
{
    return job->slots_done > 0 && core->t < job->end_ms + core->config.end_grace_ms;
}

static void ask_save(struct core *core, struct job *job, bool stop, bool quietly)
{
    struct record *record = record_begin(core, RECORD_save_asked_kind);
    record->u.save_asked.job = job->d.job;
    record->u.save_asked.request = job->d.save_request + 1;
    record->u.save_asked.stop = stop;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    if (!quietly) {
        record_says(record, "SaveAsked", SEVERITY_INFO, "%s",
                    stop ? "save at the next step, then stop" : "save at the next step");
    }
    core_emit(core, record);
    struct node *node = node_at(core, slot_at(core, job, 0)->d.node);
    if (node != NULL) {
        desired_send(core, node, job);
    }
}

void job_ask_save(struct core *core, struct job *job, bool quietly)
{
    ask_save(core, job, job->d.stop_request, quietly); /* a stop that was asked for stands */
}

void job_ask_stop(struct core *core, struct job *job)
{
    if (!job->d.stop_request) {
        ask_save(core, job, true, false);
    }
}

void job_ask_hold(struct core *core, struct job *job, bool on, const char *actor)
{
    struct record *record = record_begin(core, RECORD_hold_asked_kind);
    record->u.hold_asked.job = job->d.job;
    record->u.hold_asked.on = on;
    text_copy(record->u.hold_asked.actor, NAME_SIZE, actor);
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
}

bool job_uses_library(const struct core *core, const struct job *job)
{
    return core->slots[job->slot_base].mailbox;
}

bool job_can_save(const struct core *core, const struct job *job, char text[TEXT_SIZE])
{
    if (!job_uses_library(core, job)) {
        text_copy(text, TEXT_SIZE, "its program cannot be asked for a save");
        return false;
    }
    char wait[DURATION_TEXT_SIZE];
    duration_format(job->d.drain_wait_ms, wait);
    text_format(text, TEXT_SIZE,
                "a save is asked for and waited for up to %s (checkpoint.drain_wait)", wait);
    return true;
}

uint64_t job_steps_at_risk(const struct core *core, const struct job *job)
{
    const struct checkpoint *best = core_checkpoint_best(core, job);
    uint64_t saved = best != NULL ? best->d.step : 0;
    return job->step_top > saved ? job->step_top - saved : 0;
}

/* The most urgent wish that one of the job's nodes leaves, or that the job is held or restarted. */
static bool wants_change(const struct core *core, const struct job *job, uint8_t *ret_when)
{
    bool wanted = job->d.hold_asked;
    *ret_when = WHEN_CHECKPOINT;
    if (job_ends_now(core, job)) {
        return false;
    }
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct node *node = core_node(core, core_slot(core, job, i)->d.node);
        uint8_t when;
        if (node == NULL || !node_leaves(core, node, &when) || when == WHEN_JOB_END) {
            continue;
        }
        wanted = true;
        if (when == WHEN_NOW) {
            *ret_when = WHEN_NOW;
        }
    }
    return wanted;
}

static bool any_left(const struct core *core, const struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        if (core_slot(core, job, i)->left) {
            return true;
        }
    }
    return false;
}

static uint32_t leaving_count(const struct core *core, const struct job *job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct node *node = core_node(core, core_slot(core, job, i)->d.node);
        uint8_t when;
        count += node != NULL && node_leaves(core, node, &when) && when != WHEN_JOB_END ? 1 : 0;
    }
    return count;
}

/* The complete save that began after the planned stop was asked for; NULL = not yet. */
static const struct checkpoint *asked_save(const struct core *core, const struct job *job)
{
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        bool good = one->d.state == CKPT_COMPLETE || one->d.state == CKPT_VERIFIED;
        if (one->d.job == job->d.job && one->d.attempt == job->d.attempt && good &&
            one->began_ms >= job->d.stop_asked_service_ms) {
            return one;
        }
    }
    return NULL;
}

static void say_no_save(struct core *core, const struct job *job)
{
    char wait[DURATION_TEXT_SIZE];
    duration_format(job->d.drain_wait_ms, wait);
    struct record *record = record_begin(core, RECORD_acted_kind);
    text_copy(record->u.acted.actor, NAME_SIZE, "keepstep");
    text_copy(record->u.acted.verb, NAME_SIZE, "stop-without-save");
    text_format(record->u.acted.result, TEXT_SIZE, "no save within %s (checkpoint.drain_wait)",
                wait);
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, "SaveMissed", SEVERITY_WARN,
                "no save was complete within %s (checkpoint.drain_wait): it stops without one",
                wait);
    core_emit(core, record);
}

/* The stop was asked for: it comes when the save is there and the program has had the time to leave
 * by itself, at once when it goes on with steps beyond the save, or without a save at the limit. The
 * limits are on service time, so that a new controller waits no longer than the old one would. */
static void wait_for_save(struct core *core, struct job *job)
{
    const struct checkpoint *saved = asked_save(core, job);
    bool goes_on = saved != NULL && job->step_top > saved->d.step + 1;
    uint64_t until = saved != NULL ? saved->d.at_service_ms + LEAVE_MS
                                   : job->d.stop_asked_service_ms + job->d.drain_wait_ms;
    uint64_t now = service_now(core);
    until = goes_on ? now : until;
    job->drain_ms = now < until ? core->t + (until - now) : 0;
    if (now < until || !core_ready(core)) {
        return; /* right after a start its commit may still be on the way */
    }
    if (saved == NULL) {
        say_no_save(core, job);
    }
    recovery_open(core, job, CAUSE_PLANNED, 0, service_now(core));
}

static const char *planned_change(const struct core *core, const struct job *job)
{
    if (job->d.hold_asked) {
        return "stop it after a save, to hold it";
    }
    return leaving_count(core, job) > 0 ? "stop it, to move it off nodes that are to leave"
                                        : "stop it after a save, to start it again";
}

/* A planned change: ask for a save, and when it is there (or cannot be had) stop and swap. */
static void look_for_change(struct core *core, struct job *job)
{
    uint8_t when;
    if (job->d.incident != 0 && !core_held(core)) { /* of signs that came while it was held */
        recovery_open(core, job, CAUSE_RANK, job->d.incident, service_now(core));
        return;
    }
    if (any_left(core, job)) {
        recovery_open(core, job, CAUSE_PLANNED, 0, service_now(core));
        return;
    }
    /* A stop that was asked for stands also when its reason is gone: the program is leaving, and
     * nobody looks for a hang meanwhile. */
    bool wanted = wants_change(core, job, &when) || job->d.stop_request;
    if (!wanted) {
        return;
    }
    if (core_held(core) || core->g.breaker_open) {
        job_would(core, job, 0, planned_change(core, job));
        return;
    }
    if (!job->d.hold_asked && !job->d.stop_request &&
        spares_open(core, job) < leaving_count(core, job)) {
        return; /* a running job is not stopped for a swap that cannot be made */
    }
    if (!link_settled(core)) {
        return; /* right after a start: whether it can save is not known yet */
    }
    bool save_first = when == WHEN_CHECKPOINT && (job->d.save_on_drain || job->d.stop_request);
    if (!save_first || !job_uses_library(core, job)) {
        recovery_open(core, job, CAUSE_PLANNED, 0, service_now(core));
        return;
    }
    job_ask_stop(core, job);
    wait_for_save(core, job);
}

static void look(struct core *core, struct job *job)
{
    if (job->d.cancelled && job->d.state != JOB_STOPPING) {
        job_stop_for_good(core, job, "cancelled");
    }
    bool done = job->slot_count > 0 && job->slots_done == job->slot_count;
    if (done && job->d.state != JOB_STOPPING) {
        job_stop_for_good(core, job, "");
    }
    switch (job->d.state) {
    case JOB_PENDING:
        look_pending(core, job);
        break;
    case JOB_RUNNING:
        log_steps_look(core, job);
        if (!hang_look(core, job)) {
            interval_look(core, job);
            look_for_change(core, job);
        }
        break;
    case JOB_STOPPING:
        look_stopping(core, job);
        break;
    case JOB_HELD:
        plan_release_leaving(core, job);
        break;
    default:
        break;
    }
    spares_look(core, job);
    saves_look(core, job);
    if (job->d.recovery != 0 && job->d.state != JOB_STOPPING && !core_job_over(job)) {
        recovery_look(core, job);
    }
}

void job_look(struct core *core, struct job *job)
{
    if (core_job_over(job) || job->d.quarantined) {
        return;
    }
    job->would_still = false;
    look(core, job);
    if (!job->would_still) {
        job->would[0] = '\0';
    }
}

void job_due(const struct core *core, const struct job *job, uint64_t *due_ms)
{
    if (core_job_over(job) || job->d.quarantined) {
        return;
    }
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct node *node = core_node(core, core_slot(core, job, i)->d.node);
        if (node != NULL && node_fence_waits(core, node)) {
            due_min(due_ms, node->fence_ms);
        }
    }
    if (job->d.state == JOB_STOPPING) {
        due_min(due_ms, job->stop_ms + job->d.stop_grace_ms + core->config.kill_extra_ms);
    }
    if (job->d.state == JOB_RUNNING) {
        interval_due(core, job, due_ms);
        if (job->d.watch_progress) {
            due_min(due_ms, hang_due_ms(core, job));
            log_steps_due(core, job, due_ms);
        }
        if (job->drain_ms != 0) {
            due_min(due_ms, job->drain_ms);
        }
    }
    spares_due(core, job, due_ms);
    saves_due(core, job, due_ms);
    if (job->d.recovery != 0 && job->d.state != JOB_STOPPING) {
        recovery_due(core, job, due_ms);
    }
}
