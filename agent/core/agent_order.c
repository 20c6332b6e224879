/* agent_order.c: what the controller wants of this node, believed only when it may be.
 *
 * An order is level state: the last believed one of a job stands until another comes, and a tick
 * carries out whatever it still asks for. Believed means: our cluster, no lower term, no older
 * sequence, and for a RUN an attempt that was neither stopped nor passed by. A RUN of attempt N+1
 * says as well that nothing older may run: it stops what is left of the job first, and its own
 * ranks start only when every older attempt is proven empty and a fresh look at the node found no
 * leftover of the job. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/text.h"

/* A place for a job that is new here. When the table is full, the job with the lowest id that has
 * nothing on this node and nothing wanted is dropped. */
static struct agent_job *job_place(struct agent_core *core, uint32_t id, const char *name)
{
    struct agent_job *job = agent_job_find(core, id);
    if (job != NULL) {
        return job;
    }
    job = agent_job_free_place(core);
    for (uint32_t i = 0; job == NULL && i < core->job_top; i++) {
        struct agent_job *j = &core->jobs[i];
        bool needed = j->want;
        for (uint32_t k = 0; k < core->attempt_top; k++) {
            const struct agent_attempt *a = &core->attempts[k];
            needed = needed || (a->state != AGENT_ATTEMPT_NONE && a->job == j->job);
        }
        if (!needed && (job == NULL || j->job < job->job)) {
            job = j;
        }
    }
    if (job == NULL) {
        core->counters.too_many++;
        return NULL;
    }
    if (job->used && (job->order_below > 0 || job->stop_below > 0)) {
        struct agent_record record = {.kind = AGENT_RECORD_DROP, .job = job->job};
        agent_emit_record(core, &record);
    }
    memset(job, 0, sizeof(*job));
    job->used = true;
    job->job = id;
    (void)text_copy(job->name, sizeof(job->name), name);
    return job;
}

static bool older_is_live(const struct agent_core *core, const struct agent_job *job,
                          uint32_t attempt)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        const struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->job == job->job && a->attempt < attempt &&
            !agent_attempt_over(a) && agent_attempt_ours(core, a)) {
            return true;
        }
    }
    return false;
}

void agent_order_stop(struct agent_core *core, struct agent_job *job, uint32_t at_most,
                      uint32_t grace_ms, const char *why)
{
    if (at_most >= job->stop_below) {
        struct agent_record record = {
            .kind = AGENT_RECORD_STOP, .job = job->job, .attempt = at_most, .number = grace_ms};
        (void)text_copy(record.name, sizeof(record.name), job->name);
        (void)text_copy(record.text, sizeof(record.text), why);
        agent_emit_record(core, &record); /* marks what is here as stop_seen */
        core->link.beat_due = true;       /* which is waited for, of what is empty already too */
    }
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->job == job->job && a->attempt <= at_most &&
            agent_attempt_ours(core, a)) {
            a->stop_seen = true;
            agent_attempt_stop(core, a, grace_ms);
        }
    }
}

/* Said before the ranks are told to end: one that hangs in a collective then ends in time. */
static void abort_attempts(struct agent_core *core, const struct agent_job *job, uint32_t at_most)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->job == job->job && a->attempt <= at_most &&
            agent_attempt_ours(core, a) && !agent_attempt_over(a) && !a->abort_told) {
            a->abort_told = true;
            struct agent_action *action = agent_emit(core, AGENT_ACTION_MAIL_ABORT);
            action->job = a->job;
            action->attempt = a->attempt;
        }
    }
}

void agent_order_unstarted_drop(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->job_top; i++) {
        struct agent_job *job = &core->jobs[i];
        if (job->used && job->want &&
            agent_attempt_find(core, job->job, job->desired.attempt) == NULL) {
            agent_trace(core, "job %u attempt %u: not begun, forgotten with its session", job->job,
                        job->desired.attempt);
            job->want = false;
        }
    }
}

/* ---- believing ---------------------------------------------------------------------------- */

static bool has_sane_values(const struct msg_desired *desired)
{
    if (desired->job == 0 || desired->mode > DESIRED_STOP || desired->attempt >= UINT32_MAX - 1) {
        return false;
    }
    if (desired->mode != DESIRED_RUN) {
        return true;
    }
    return text_is_name(desired->job_name, sizeof(desired->job_name)) && desired->rank_count > 0 &&
           desired->rank_count <= RANKS_PER_NODE_MAX && desired->world >= desired->rank_count &&
           desired->first_rank <= desired->world - desired->rank_count;
}

static bool is_believed(struct agent_core *core, const struct msg_desired *desired)
{
    if (!has_sane_values(desired)) {
        core->counters.bad_message++;
        agent_trace(core, "order refused: impossible values");
        return false;
    }
    if (core->cluster_id[0] == '\0' || !text_equal(core->cluster_id, desired->cluster_id)) {
        core->counters.wrong_cluster++;
        agent_trace(core, "job %u attempt %u order refused: of another cluster", desired->job,
                    desired->attempt);
        return false;
    }
    if (desired->term < core->term) {
        core->counters.lower_term++;
        agent_trace(core, "job %u attempt %u order refused: term %llu, %llu was seen", desired->job,
                    desired->attempt, (unsigned long long)desired->term,
                    (unsigned long long)core->term);
        return false;
    }
    const struct agent_job *job = agent_job_find(core, desired->job);
    if (job == NULL) {
        return true;
    }
    if (desired->term == job->term && desired->sequence < job->sequence) {
        core->counters.lower_sequence++;
        agent_trace(core, "job %u attempt %u order dropped: an older sequence", desired->job,
                    desired->attempt);
        return false;
    }
    if (job->name[0] != '\0' && desired->job_name[0] != '\0' &&
        !text_equal(job->name, desired->job_name)) {
        core->counters.bad_message++;
        agent_trace(core, "job %u order refused: it is '%s' here, not '%s'", desired->job,
                    job->name, desired->job_name);
        return false;
    }
    return true;
}

/* Attempts count up for ever; what was stopped or passed by never comes back. */
static bool is_current(struct agent_core *core, const struct agent_job *job,
                       const struct msg_desired *desired)
{
    uint32_t floor = job->stop_below > job->over_below ? job->stop_below : job->over_below;
    if (job->order_below > 0 && job->order_below - 1 > floor) {
        floor = job->order_below - 1;
    }
    for (uint32_t i = 0; i < core->attempt_top; i++) { /* foreign ones count as well */
        const struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->job == job->job && a->foreign &&
            agent_attempt_ours(core, a) && a->attempt > floor) {
            floor = a->attempt;
        }
    }
    if (desired->attempt >= floor) {
        return true;
    }
    core->counters.lower_attempt++;
    agent_trace(core, "job %u attempt %u order refused: stopped or passed by, %u is the least",
                desired->job, desired->attempt, floor);
    return false;
}

static void take_run(struct agent_core *core, struct agent_job *job,
                     const struct msg_desired *desired)
{
    if (!is_current(core, job, desired)) {
        return;
    }
    const bool same = job->want && job->desired.attempt == desired->attempt;
    if (!same) {
        job->scan = SCAN_NONE;
        agent_trace(core, "job %u attempt %u wanted: ranks %u..%u", desired->job, desired->attempt,
                    desired->first_rank, desired->first_rank + desired->rank_count - 1);
    }
    job->want = true;
    job->forget = false;
    job->desired = *desired;
    job->desired.spec = NULL;
    job->desired.spec_size = 0;
}

/* A stop of something that never was here is remembered and reported as seen and empty, so that
 * the controller need not take silence for an answer. */
static void leave_tombstone(struct agent_core *core, const struct agent_job *job, uint32_t attempt)
{
    if (agent_attempt_find(core, job->job, attempt) != NULL) {
        return;
    }
    struct agent_attempt *a = agent_attempt_place(core, false);
    if (a == NULL) {
        return;
    }
    memset(a, 0, sizeof(*a));
    a->state = AGENT_ATTEMPT_EMPTY;
    a->job = job->job;
    a->attempt = attempt;
    a->stop_seen = true;
    a->ends_acked = true;
    (void)text_copy(a->cluster_id, sizeof(a->cluster_id), core->cluster_id);
    (void)text_copy(a->job_name, sizeof(a->job_name), job->name);
    core->link.beat_due = true;
}

static void take_stop(struct agent_core *core, struct agent_job *job,
                      const struct msg_desired *desired)
{
    if (job->want && job->desired.attempt <= desired->attempt) {
        job->want = false;
    }
    const uint32_t grace_ms =
        desired->grace_ms < AGENT_GRACE_MAX_MS ? desired->grace_ms : AGENT_GRACE_MAX_MS;
    if (desired->abort) {
        abort_attempts(core, job, desired->attempt);
    }
    agent_order_stop(core, job, desired->attempt, grace_ms, "the controller's order");
    job->forget = desired->forget;
    if (!desired->forget) {
        leave_tombstone(core, job, desired->attempt);
        return;
    }
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->job == job->job &&
            a->attempt <= desired->attempt && agent_attempt_ours(core, a)) {
            a->forget = true;
        }
    }
}

void agent_on_desired(struct agent_core *core, const struct msg_desired *desired)
{
    if (!is_believed(core, desired)) {
        return;
    }
    if (desired->term > core->term) {
        struct agent_record record = {.kind = AGENT_RECORD_TERM, .number = desired->term};
        agent_emit_record(core, &record);
    }
    struct agent_job *job = agent_job_find(core, desired->job);
    if (job == NULL && desired->mode == DESIRED_NONE) {
        return;
    }
    job = job_place(core, desired->job, desired->job_name);
    if (job == NULL) {
        agent_trace(core, "job %u order refused: too many jobs are remembered here", desired->job);
        return;
    }
    job->term = desired->term;
    job->sequence = desired->sequence;
    switch ((enum desired_mode)desired->mode) {
    case DESIRED_NONE:
        job->want = false; /* no opinion: whatever runs goes on */
        break;
    case DESIRED_RUN:
        take_run(core, job, desired);
        break;
    case DESIRED_STOP:
        take_stop(core, job, desired);
        break;
    }
}

/* ---- launching ---------------------------------------------------------------------------- */

static void make_order(struct agent_core *core, const struct agent_job *job)
{
    const struct msg_desired *desired = &job->desired;
    struct agent_record record = {.kind = AGENT_RECORD_ORDER,
                                  .job = desired->job,
                                  .attempt = desired->attempt,
                                  .first_rank = desired->first_rank,
                                  .rank_count = desired->rank_count};
    (void)text_copy(record.name, sizeof(record.name), desired->job_name);
    agent_emit_record(core, &record);
}

/* True when this attempt still has to be launched; adopts it when it was found running. */
static bool has_to_launch(struct agent_core *core, const struct agent_job *job)
{
    struct agent_attempt *a = agent_attempt_find(core, job->job, job->desired.attempt);
    if (a == NULL) {
        return true;
    }
    if (a->foreign && agent_attempt_ours(core, a)) {
        if (a->first_rank == job->desired.first_rank && a->rank_count == job->desired.rank_count) {
            agent_trace(core, "job %u attempt %u adopted", a->job, a->attempt);
            make_order(core, job);
            core->link.beat_due = true;
        }
        return false;
    }
    return a->ordered && a->state == AGENT_ATTEMPT_ORDERED && !a->launched;
}

static void launch(struct agent_core *core, struct agent_job *job)
{
    struct agent_attempt *a = agent_attempt_find(core, job->job, job->desired.attempt);
    if (a == NULL) {
        if (agent_attempt_place(core, true) == NULL) {
            agent_trace(core, "job %u attempt %u cannot be kept: too many attempts are here",
                        job->job, job->desired.attempt);
            job->want = false;
            return;
        }
        make_order(core, job);
        a = agent_attempt_find(core, job->job, job->desired.attempt);
        CHECK(a != NULL && a->ordered);
        agent_trace(core, "job %u attempt %u none -> ordered: the controller's order", a->job,
                    a->attempt);
    }
    a->launched = true;
    core->link.beat_due = true;
    struct agent_action *action = agent_emit(core, AGENT_ACTION_START);
    action->job = a->job;
    action->attempt = a->attempt;
    action->u.start = job->desired;
}

static void tick_requests(struct agent_core *core, const struct agent_job *job)
{
    const struct msg_desired *desired = &job->desired;
    struct agent_attempt *a = agent_attempt_find(core, job->job, desired->attempt);
    if (a == NULL || !a->ordered || desired->first_rank != 0 || agent_attempt_over(a) ||
        !a->launched) {
        return;
    }
    if (a->told_save != desired->save_request || a->told_stop != desired->stop_request) {
        a->told_save = desired->save_request;
        a->told_stop = desired->stop_request;
        struct agent_action *action = agent_emit(core, AGENT_ACTION_MAIL_REQUEST);
        action->job = a->job;
        action->attempt = a->attempt;
        action->u.request = (struct agent_mail_request){.save_request = desired->save_request,
                                                        .stop_request = desired->stop_request};
    }
}

static void tick_job(struct agent_core *core, struct agent_job *job)
{
    const struct msg_desired *desired = &job->desired;
    if (older_is_live(core, job, desired->attempt)) {
        if (desired->attempt > job->stop_below) {
            const uint32_t grace_ms =
                desired->grace_ms > 0 ? desired->grace_ms : AGENT_GRACE_DEFAULT_MS;
            agent_order_stop(core, job, desired->attempt - 1, grace_ms, "a newer attempt");
        }
        return;
    }
    if (!desired->start || !has_to_launch(core, job)) {
        return;
    }
    if (job->scan == SCAN_NONE ||
        (job->scan == SCAN_ASKED && core->now_ms >= job->scan_ms + AGENT_SCAN_LOST_MS)) {
        struct agent_action *action = agent_emit(core, AGENT_ACTION_SCAN);
        action->job = job->job;
        job->scan = SCAN_ASKED;
        job->scan_ms = core->now_ms;
        return;
    }
    if (job->scan == SCAN_DONE) {
        launch(core, job);
    }
}

void agent_orders_tick(struct agent_core *core)
{
    if (!core->scanned || core->leaving) {
        return;
    }
    for (uint32_t i = 0; i < core->job_top; i++) {
        struct agent_job *job = &core->jobs[i];
        if (job->used && job->want) {
            tick_job(core, job);
            tick_requests(core, job);
        }
    }
}

uint64_t agent_orders_deadline(const struct agent_core *core)
{
    uint64_t deadline = UINT64_MAX;
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct agent_job *job = &core->jobs[i];
        if (job->used && job->want && job->scan == SCAN_ASKED) {
            const uint64_t lost = job->scan_ms + AGENT_SCAN_LOST_MS;
            deadline = lost < deadline ? lost : deadline;
        }
    }
    return deadline;
}

void agent_on_scanned(struct agent_core *core, const struct agent_event *event)
{
    if (event->job == 0) {
        core->scanned = true;
        agent_trace(core, "looked at what runs here");
        return;
    }
    struct agent_job *job = agent_job_find(core, event->job);
    if (job != NULL && job->scan == SCAN_ASKED) {
        job->scan = SCAN_DONE;
    }
}
