/* request.c: what operators and users ask for. A request is checked whole before anything changes;
 * it then changes all of it, leaves one audit record, and is answered after that is durable. Those
 * about jobs and the cluster are here, those about nodes in request_nodes.c. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "controller/core/impl.h"

void request_reply(struct core *core, const struct request *request, int32_t result, uint32_t job,
                   bool changed, const char *format, ...)
{
    struct action *action = action_begin(core, ACTION_REPLY);
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(action->u.reply.text, TEXT_SIZE, format, arguments);
    va_end(arguments);
    action->u.reply.request = request->id;
    action->u.reply.result = result;
    action->u.reply.job = job;
    action->u.reply.changed = changed;
}

void request_audit(struct core *core, const struct request *request, const char *verb,
                   const char *subject, const char *result)
{
    struct record *record = record_begin(core, RECORD_acted_kind);
    text_copy(record->u.acted.actor, NAME_SIZE, request->actor);
    text_copy(record->u.acted.verb, NAME_SIZE, verb);
    text_copy(record->u.acted.reason, TEXT_SIZE, request->reason);
    text_copy(record->u.acted.result, TEXT_SIZE, result);
    record->job = request->job;
    record->node = request->node_count == 1 ? request->nodes[0] : 0;
    record_subject(record, "%s", subject);
    record_says(record, "Action", SEVERITY_INFO, "%s by %s%s%s: %s", verb, request->actor,
                request->reason[0] != '\0' ? ", " : "", request->reason, result);
    core_emit(core, record);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static struct job *job_or_reply(struct core *core, const struct request *request)
{
    struct job *job = job_at(core, request->job);
    if (job == NULL) {
        request_reply(core, request, -ENOENT, 0, false, "there is no such job; keepstep get jobs");
        return NULL;
    }
    return job;
}

static struct job *live_job(struct core *core, const struct request *request)
{
    struct job *job = job_or_reply(core, request);
    if (job != NULL && core_job_over(job)) {
        request_reply(core, request, -EBUSY, job->d.job, false, "%s is %s already", job->d.name,
                      WORD(job_state, job->d.state));
        return NULL;
    }
    return job;
}

static bool name_taken(struct core *core, const struct request *request)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = &core->jobs[i];
        if (core_job_over(job) || !text_equal(job->d.name, request->spec->name)) {
            continue;
        }
        if (job->d.text_hash == request->spec->text_hash && job->d.text_hash != 0) {
            /* said again by somebody who never saw the answer */
            request_reply(core, request, 0, job->d.job, false, "%s was submitted already and is %s",
                          job->d.name, WORD(job_state, job->d.state));
        } else {
            request_reply(core, request, -EBUSY, job->d.job, false,
                          "a job named %s is %s; cancel it first or choose another name",
                          job->d.name, WORD(job_state, job->d.state));
        }
        return true;
    }
    return false;
}

static bool shape_ok(struct core *core, const struct request *request, uint32_t *ret_slots)
{
    const struct job_spec *spec = request->spec;
    struct layout_shape shape = {.tensor = spec->tensor,
                                 .context = spec->context,
                                 .pipeline = spec->pipeline,
                                 .data = spec->data,
                                 .ranks_per_node = spec->ranks_per_node};
    struct err err = {0};
    uint32_t world;
    text_copy(shape.order, sizeof shape.order, spec->order);
    if (spec->ranks_per_node > RANKS_PER_NODE_MAX) {
        request_reply(core, request, -EINVAL, 0, false, "layout.ranks_per_node is at most %d",
                      RANKS_PER_NODE_MAX);
        return false;
    }
    if (layout_check_shape(&shape, &world, ret_slots, &err) < 0) {
        request_reply(core, request, -EINVAL, 0, false, "layout: %s", err.text);
        return false;
    }
    return true;
}

static uint32_t slots_in_use(const struct core *core)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->job_count; i++) {
        count += core->jobs[i].slot_count;
    }
    return count;
}

static bool fits(struct core *core, const struct request *request, uint32_t slots)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < core->job_count; i++) {
        live += core_job_over(&core->jobs[i]) ? 0 : 1;
    }
    if (live >= core->limits.jobs) {
        request_reply(core, request, -ENOSPC, 0, false, "limits.jobs is %u and %s at work",
                      core->limits.jobs,
                      text_plural(core->limits.jobs, "that one is", "all of them are"));
        return false;
    }
    /* twice the room, since regions of ended jobs may leave holes between them */
    if (slots_in_use(core) + slots > core->limits.slots / 2) {
        request_reply(core, request, -ENOSPC, 0, false,
                      "limits.slots is %u; %u %s asked for besides %u", core->limits.slots / 2,
                      slots, text_plural(slots, "is", "are"), slots_in_use(core));
        return false;
    }
    if (!fold_has_room(core, slots)) {
        request_reply(core, request, -ENOSPC, 0, false,
                      "%u %s not free between the jobs that wait; cancel one or try later", slots,
                      text_plural(slots, "slot is", "slots in a row are"));
        return false;
    }
    return true;
}

static void submit(struct core *core, const struct request *request)
{
    uint32_t slots = 0;
    if (name_taken(core, request) || !shape_ok(core, request, &slots) ||
        !fits(core, request, slots)) {
        return;
    }
    uint32_t kept = 0;
    uint32_t usable = spares_for_new(core, request->spec, &kept);
    char others[64] = "";
    if (kept > 0) {
        text_format(others, sizeof others, ", %u of them kept for other jobs", kept);
    }
    if (request->dry_run) {
        request_reply(core, request, 0, 0, true, "%u %s wanted, %u usable now%s; would %s", slots,
                      text_plural(slots, "node", "nodes"), usable, others,
                      usable - kept >= slots ? "start now" : "wait for nodes");
        return;
    }
    struct record *record = record_begin(core, RECORD_job_submitted_kind);
    struct record_job_submitted *d = &record->u.job_submitted;
    const struct job_spec *u = request->spec;
    d->job = core->g.job_next == 0 ? 1 : core->g.job_next;
    struct record_job_submitted *to = d;
    const struct job_spec *from = u;
    JOB_SPEC_FIELDS(RECORD_COPY, unused)
    uint32_t id = d->job;
    record->job = id;
    record->text = request->text;
    record->text_size = request->text_size;
    record_subject(record, "job/%s", u->name);
    record_says(record, "JobSubmitted", SEVERITY_INFO, "by %s: %u %s of %u %s", request->actor,
                slots, text_plural(slots, "node", "nodes"), u->ranks_per_node,
                text_plural(u->ranks_per_node, "rank", "ranks"));
    core_emit(core, record);
    request_reply(core, request, 0, id, true, "submitted %s: %u %s wanted, %u usable now%s",
                  u->name, slots, text_plural(slots, "node", "nodes"), usable, others);
}

static void cancel(struct core *core, const struct request *request)
{
    struct job *job = job_or_reply(core, request);
    if (job == NULL) {
        return;
    }
    if (job->d.quarantined) {
        request_reply(
            core, request, -EBUSY, job->d.job, false,
            "rows of %s in the journal cannot be read, so its ranks are left alone: end them on "
            "their nodes, or start from a backup",
            job->d.name);
        return;
    }
    if (adopt_is_due(core, job)) { /* a stop from here would not reach what runs */
        request_reply(core, request, -EBUSY, job->d.job, false,
                      "agents run an attempt of %s that this store does not know: keepstep admin "
                      "adopt first, or admin stop-foreign",
                      job->d.name);
        return;
    }
    if (core_job_over(job) || job->d.cancelled) {
        request_reply(core, request, core_job_over(job) && !job->d.cancelled ? -EBUSY : 0,
                      job->d.job, false, "%s is %s", job->d.name, WORD(job_state, job->d.state));
        return;
    }
    if (!request->dry_run) {
        char subject[SUBJECT_SIZE];
        struct record *record = record_begin(core, RECORD_cancel_asked_kind);
        record->u.cancel_asked.job = job->d.job;
        text_copy(record->u.cancel_asked.actor, NAME_SIZE, request->actor);
        record->job = job->d.job;
        record_subject(record, "job/%s", job->d.name);
        core_emit(core, record);
        text_format(subject, sizeof subject, "job/%s", job->d.name);
        request_audit(core, request, "cancel", subject, "stopping");
    }
    request_reply(core, request, 0, job->d.job, true, "%s: stopping its ranks (grace %u ms)",
                  job->d.name, job->d.stop_grace_ms);
}

/* How the hold that was asked for comes about, by where the job stands. */
static void say_held(struct core *core, const struct request *request, const struct job *job)
{
    char text[TEXT_SIZE];
    if (job->d.state == JOB_RUNNING && !job->d.save_on_drain) {
        text_format(text, sizeof text,
                    "stops and is held: its file says checkpoint.on_drain: none");
    } else if (job->d.state == JOB_RUNNING) {
        char how[TEXT_SIZE];
        bool saves = job_can_save(core, job, how);
        text_format(text, sizeof text, saves ? "%s, then it is held" : "stops and is held: %s",
                    how);
    } else if (job->d.attempted || job->d.recovery != 0) {
        text_format(text, sizeof text, "is %s: held as soon as that is through",
                    WORD(job_state, job->d.state));
    } else {
        text_copy(text, sizeof text, "held before its start");
    }
    request_reply(core, request, 0, job->d.job, true, "%s: %s", job->d.name, text);
}

static void hold(struct core *core, const struct request *request)
{
    struct job *job = live_job(core, request);
    if (job == NULL) {
        return;
    }
    if (job->d.state == JOB_HELD || job->d.hold_asked) {
        request_reply(core, request, 0, job->d.job, false, "%s is held", job->d.name);
        return;
    }
    if (!request->dry_run) {
        char subject[SUBJECT_SIZE];
        job_ask_hold(core, job, true, request->actor);
        text_format(subject, sizeof subject, "job/%s", job->d.name);
        request_audit(core, request, "hold", subject, "asked");
        if (job->d.state == JOB_PENDING) {
            job_move(core, job, JOB_HELD, "held by an operator; keepstep release goes on");
        }
    }
    say_held(core, request, job);
}

static void release(struct core *core, const struct request *request)
{
    struct job *job = live_job(core, request);
    if (job == NULL) {
        return;
    }
    if (job->d.state != JOB_HELD && !job->d.hold_asked) {
        request_reply(core, request, 0, job->d.job, false, "%s is not held", job->d.name);
        return;
    }
    if (request->dry_run) {
        request_reply(core, request, 0, job->d.job, true, "%s would go on", job->d.name);
        return;
    }
    char subject[SUBJECT_SIZE];
    job_ask_hold(core, job, false, request->actor);
    struct record *record = record_begin(core, RECORD_rollback_approved_kind);
    record->u.rollback_approved.job = job->d.job;
    text_copy(record->u.rollback_approved.actor, NAME_SIZE, request->actor);
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
    text_format(subject, sizeof subject, "job/%s", job->d.name);
    request_audit(core, request, "release", subject, "goes on");
    if (job->d.state == JOB_HELD) {
        if (!job->d.attempted) {
            job_move(core, job, JOB_PENDING, "");
        } else {
            recovery_open(core, job, CAUSE_PLANNED, 0, service_now(core));
        }
    }
    request_reply(core, request, 0, job->d.job, true, "%s goes on", job->d.name);
}

static void save_now(struct core *core, const struct request *request)
{
    struct job *job = live_job(core, request);
    if (job == NULL) {
        return;
    }
    if (job->d.state != JOB_RUNNING) {
        request_reply(core, request, -EBUSY, job->d.job, false,
                      "%s is %s; a save can be asked of a "
                      "running job",
                      job->d.name, WORD(job_state, job->d.state));
        return;
    }
    if (!request->dry_run) {
        job_ask_save(core, job, false);
    }
    request_reply(core, request, 0, job->d.job, true, "%s: a save is asked for at its next step",
                  job->d.name);
}

static void pin(struct core *core, const struct request *request)
{
    struct job *job = job_or_reply(core, request);
    char text[TEXT_SIZE];
    bool changed = false;
    if (job == NULL) {
        return;
    }
    int code = save_work_pin(core, job, request, &changed, text);
    if (code == 0 && changed && !request->dry_run) {
        char subject[SUBJECT_SIZE];
        text_format(subject, sizeof subject, "job/%s", job->d.name);
        request_audit(core, request, request->verb == REQUEST_PIN ? "pin" : "unpin", subject, text);
    }
    request_reply(core, request, code, job->d.job, changed, "%s: %s", job->d.name, text);
}

static void verify(struct core *core, const struct request *request)
{
    struct job *job = live_job(core, request);
    char text[TEXT_SIZE];
    if (job == NULL) {
        return;
    }
    int code = save_work_verify(core, job, request, text);
    if (code == 0 && !request->dry_run) {
        char subject[SUBJECT_SIZE];
        text_format(subject, sizeof subject, "job/%s", job->d.name);
        request_audit(core, request, "verify", subject, text);
    }
    request_reply(core, request, code, job->d.job, code == 0, "%s: %s", job->d.name, text);
}

static void restart(struct core *core, const struct request *request)
{
    struct job *job = live_job(core, request);
    if (job == NULL) {
        return;
    }
    if (job->d.state != JOB_RUNNING) {
        request_reply(core, request, -EBUSY, job->d.job, false,
                      "%s is %s; only a running job is restarted", job->d.name,
                      WORD(job_state, job->d.state));
        return;
    }
    char how[TEXT_SIZE];
    bool after = job_can_save(core, job, how) && request->after_checkpoint;
    uint64_t again = job_steps_at_risk(core, job);
    if (!request->dry_run) {
        char subject[SUBJECT_SIZE];
        text_format(subject, sizeof subject, "job/%s", job->d.name);
        request_audit(core, request, "restart", subject, after ? "after a save" : "now");
        if (after) {
            job_ask_stop(core, job);
        } else {
            recovery_open(core, job, CAUSE_PLANNED, 0, service_now(core));
        }
    }
    if (after) {
        request_reply(core, request, 0, job->d.job, true, "%s: %s, then it restarts", job->d.name,
                      how);
    } else {
        request_reply(core, request, 0, job->d.job, true,
                      "%s: restarts now from its newest checkpoint, %llu %s done again%s%s",
                      job->d.name, (unsigned long long)again,
                      text_plural(again, "step is", "steps are"),
                      request->after_checkpoint ? ": " : "", request->after_checkpoint ? how : "");
    }
}

/* ---- the cluster ---------------------------------------------------------------------------- */

static const char *automation_word(bool paused, bool observe)
{
    return paused ? "paused" : observe ? "observes" : "acts";
}

/* Saying again what is so already changes nothing and writes nothing. */
static void automation(struct core *core, const struct request *request)
{
    bool pause = request->automation == AUTOMATION_PAUSE;
    bool resume = request->automation == AUTOMATION_RESUME;
    bool paused = pause || (core->g.paused && !resume);
    bool observe = pause || resume ? core->g.observe : request->automation == AUTOMATION_OBSERVE;
    bool news = paused != core->g.paused || observe != core->g.observe;
    bool closes = resume && core->g.breaker_open; /* a person has looked at what is silent, too */
    if (news && !request->dry_run) {
        struct record *record = record_begin(core, RECORD_automation_kind);
        record->u.automation.observe = observe;
        record->u.automation.paused = paused;
        text_sentence(record->u.automation.cause, TEXT_SIZE, "%s%s%s%.100s",
                      pause ? "automation is paused by " : "", pause ? request->actor : "",
                      pause ? ": " : "", request->reason);
        text_copy(record->u.automation.actor, NAME_SIZE, request->actor);
        record_subject(record, "cluster");
        record_says(record, "Automation", SEVERITY_WARN, "%s by %s: %s",
                    automation_word(paused, observe), request->actor, request->reason);
        core_emit(core, record);
    }
    if (closes && !request->dry_run) {
        link_breaker_close(core);
    }
    request_reply(core, request, 0, 0, news || closes, "automation: %s%s",
                  automation_word(paused, observe),
                  news || closes ? "" : " already; nothing was changed");
}

void request_handle(struct core *core, const struct request *request)
{
    bool full = core->pending_records >= core->limits.pending_records;
    core->look = true;
    core->repair_stirred = true;
    if (full && request->verb != REQUEST_CANCEL) {
        request_reply(core, request, -EAGAIN, 0, false,
                      "the store does not keep up: %u %s; only a cancel is accepted until it does",
                      core->pending_records,
                      text_plural(core->pending_records, "record waits", "records wait"));
        return;
    }
    switch ((enum request_verb)request->verb) {
    case REQUEST_SUBMIT:
        submit(core, request);
        return;
    case REQUEST_CANCEL:
        cancel(core, request);
        return;
    case REQUEST_HOLD:
        hold(core, request);
        return;
    case REQUEST_RELEASE:
        release(core, request);
        return;
    case REQUEST_CHECKPOINT:
        save_now(core, request);
        return;
    case REQUEST_PIN:
    case REQUEST_UNPIN:
        pin(core, request);
        return;
    case REQUEST_VERIFY:
        verify(core, request);
        return;
    case REQUEST_RESTART:
        restart(core, request);
        return;
    case REQUEST_DRAIN:
        request_drain(core, request);
        return;
    case REQUEST_UNDRAIN:
        request_undrain(core, request, false);
        return;
    case REQUEST_CORDON:
        request_cordon(core, request);
        return;
    case REQUEST_UNCORDON:
        request_undrain(core, request, true);
        return;
    case REQUEST_REMOVE:
        request_remove(core, request);
        return;
    case REQUEST_ADOPT:
        adopt_request(core, request);
        return;
    case REQUEST_STOP_FOREIGN:
        adopt_stop_foreign(core, request);
        return;
    case REQUEST_AUTOMATION:
        automation(core, request);
        return;
    case REQUEST_VALIDATE:
        request_validate(core, request);
        return;
    }
}
