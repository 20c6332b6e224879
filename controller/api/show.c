/* show.c: see show.h. */
#include "controller/api/show.h"

#include <string.h>

#include "db/journal_json.h"
#include "proto/base/duration.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { FOLDED_MAX = 1 << 20 };

/* ---- values ---------------------------------------------------------------------------------- */

json_t *show_text(const char *text)
{
    return journal_json_text(text, strlen(text));
}

json_t *show_number(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

void show_set_text(json_t *object, const char *key, const char *text)
{
    set(object, key, show_text(text));
}

void show_set_number(json_t *object, const char *key, uint64_t value)
{
    set(object, key, show_number(value));
}

json_t *show_time(uint64_t wall_ms)
{
    char text[TIME_TEXT_SIZE];
    if (wall_ms == 0) {
        return json_null();
    }
    time_format(wall_ms, text);
    return json_string(text);
}

json_t *show_seconds(uint64_t ms)
{
    return json_real((double)ms / 1000.0);
}

json_t *show_node_name(const struct core *core, uint32_t node)
{
    const struct node *found = core_node(core, node);
    return found != NULL ? show_text(found->d.name) : json_null();
}

void show_event_times(json_t *events)
{
    size_t index;
    json_t *event;
    json_array_foreach(events, index, event)
    {
        const json_t *wall = json_object_get(event, "wall_ms");
        set(event, "time", show_time((uint64_t)json_integer_value(wall)));
    }
}

uint32_t show_read_id(const char *text, char letter)
{
    uint64_t id;
    text += text[0] == letter || text[0] == (letter ^ 0x20) ? 1 : 0;
    text += text[0] == '-' ? 1 : 0;
    return text_to_u64(text, UINT32_MAX, &id) == 0 ? (uint32_t)id : 0;
}

/* The wall time of a moment on service time, as well as it can be known now: service time stands
 * still while no controller runs. */
static uint64_t wall_of(const struct core *core, uint64_t service_ms)
{
    const struct record_image_core *g = core_globals(core);
    if (service_ms == 0 || service_ms >= g->service_ms) {
        return service_ms == 0 ? 0 : g->wall_ms;
    }
    uint64_t age = g->service_ms - service_ms;
    return age < g->wall_ms ? g->wall_ms - age : 0;
}

json_t *show_service_time(const struct core *core, uint64_t service_ms)
{
    return show_time(wall_of(core, service_ms));
}

/* ---- jobs ------------------------------------------------------------------------------------ */

void show_condition(json_t *list, const char *type, bool on, const char *reason,
                    const char *message)
{
    json_t *one = json_object();
    show_set_text(one, "type", type);
    show_set_text(one, "status", on ? "True" : "False");
    show_set_text(one, "reason", reason);
    show_set_text(one, "message", message);
    json_array_append_new(list, one);
}

/* What a program computed for itself and what the job file says are two orders of the ranks. */
static void add_misplaced(json_t *list, const struct core *core, const struct job *job)
{
    char text[3 * TEXT_SIZE];
    uint32_t rank = 0;
    const uint32_t count = core_job_misplaced(core, job, &rank);
    const struct rank_detail *detail = count > 0 ? core_rank_detail(core, job, rank) : NULL;
    if (detail == NULL) {
        return;
    }
    const struct rank_coordinates said = detail->d.coordinates;
    const struct rank_coordinates ours = core_rank_coordinates(job, rank);
    text_format(text, sizeof text,
                "%u %s: rank %u computed tensor %u, context %u, pipeline %u, data %u, but %s makes "
                "it tensor %u, context %u, pipeline %u, data %u; blame by stage is off. Give "
                "layout.order as the program numbers its ranks",
                count, count == 1 ? "rank differs" : "ranks differ", rank, said.tensor,
                said.context, said.pipeline, said.data, job->d.order, ours.tensor, ours.context,
                ours.pipeline, ours.data);
    show_condition(list, "LayoutMismatch", true, "OtherCoordinates", text);
}

static json_t *conditions(const struct core *core, const struct job *job,
                          const struct core_spares *spares)
{
    json_t *list = json_array();
    bool steps = job->d.state == JOB_RUNNING;
    const struct checkpoint *best = core_checkpoint_best(core, job);
    show_condition(list, "Progressing", steps, steps ? "StepsAdvance" : "NotRunning", "");
    show_condition(list, "Checkpointed", best != NULL, best != NULL ? "Recent" : "None", "");
    if (job->saves.text[0] != '\0') {
        show_condition(list, "CheckpointsReadable", false, "NotListed", job->saves.text);
    }
    if (core_held(core)) {
        show_condition(list, "AutomationHeld", true, "Held", core_held_text(core));
    }
    if (job->would[0] != '\0') {
        show_condition(list, "WouldAct", true, "AutomationHeld", job->would);
    }
    add_misplaced(list, core, job);
    if (job->waiting_spare) {
        show_condition(list, "WaitingForSpare", true, "NoSpare", job->wait_text);
    }
    show_add_protected(list, spares);
    if (job->d.quarantined) {
        show_condition(list, "Quarantined", true, "BadRecords",
                       "its records in the journal cannot be read; its ranks are left alone");
    }
    return list;
}

/* no_progress_limit bounds the first and the second of the counters of recoveries without a newer
 * checkpoint. */
static json_t *budget(const struct job *job)
{
    json_t *object = json_object();
    show_set_number(object, "user_used", job->d.used_user);
    show_set_number(object, "user_limit", job->d.retries_user);
    show_set_number(object, "unknown_used", job->d.used_unknown);
    show_set_number(object, "unknown_limit", job->d.retries_unknown);
    show_set_number(object, "no_progress", job->d.no_progress);
    show_set_number(object, "same_failure", job->d.same_failure);
    show_set_number(object, "no_progress_limit", job->d.no_progress_limit);
    show_set_number(object, "other_no_progress", job->d.other_no_progress);
    return object;
}

json_t *show_times(const struct core *core, const struct job *job)
{
    json_t *kinds = json_object();
    json_t *whole = json_object();
    uint64_t settled = 0;
    for (uint32_t i = 0; i < time_kind_count; i++) {
        set(kinds, time_kind_words[i], show_seconds(job->d.time_ms[i]));
        settled += job->d.time_ms[i];
    }
    uint64_t now = core_service_ms(core);
    bool open = job->d.state == JOB_RUNNING && now > job->d.settled_service_ms;
    set(kinds, "unsaved", show_seconds(open ? now - job->d.settled_service_ms : 0));
    set(whole, "kinds", kinds);
    set(whole, "settled_seconds", show_seconds(settled));
    set(whole, "goodput",
        settled == 0 ? json_null()
                     : json_real((double)job->d.time_ms[TIME_PRODUCTIVE] / (double)settled));
    return whole;
}

static uint32_t recoveries_of(const struct core *core, uint32_t job)
{
    uint32_t count = 0;
    const struct recovery *one;
    for (uint32_t i = 0; (one = core_recovery_at(core, i)) != NULL; i++) {
        count += one->d.job == job && one->d.cause != CAUSE_START ? 1 : 0;
    }
    return count;
}

json_t *show_layout(uint32_t tensor, uint32_t context, uint32_t pipeline, uint32_t data,
                    const char *order, uint32_t ranks_per_node)
{
    json_t *object = json_object();
    show_set_number(object, "tensor", tensor);
    show_set_number(object, "context", context);
    show_set_number(object, "pipeline", pipeline);
    show_set_number(object, "data", data);
    show_set_text(object, "order", order);
    show_set_number(object, "ranks_per_node", ranks_per_node);
    show_set_number(object, "world", (uint64_t)tensor * context * pipeline * data);
    return object;
}

/* Why the job is as it is; of a pending one: what it waits for. */
static void set_reason(json_t *object, const struct core *core, const struct job *job,
                       const struct core_spares *spares)
{
    char text[2 * TEXT_SIZE];
    if (job->would[0] != '\0') {
        text_format(text, sizeof text, "automation would %s; nothing is done: %s", job->would,
                    core_held(core) ? core_held_text(core) : "the breaker for silence is open");
        show_set_text(object, "reason", text);
        return;
    }
    if (job->d.state != JOB_PENDING || job->d.reason[0] != '\0') {
        show_set_text(object, "reason", job->waiting_spare ? job->wait_text : job->d.reason);
        return;
    }
    if (spares->suiting < job->slot_count) {
        text_format(text, sizeof text, "waits for nodes: %u wanted, %u usable now", job->slot_count,
                    spares->suiting);
    } else if (spares->ready < job->slot_count) {
        text_format(text, sizeof text,
                    "waits for nodes: %u wanted, %u usable now, %u of them kept for other jobs",
                    job->slot_count, spares->suiting, spares->suiting - spares->ready);
    } else {
        text_format(text, sizeof text, "waits for its turn");
    }
    show_set_text(object, "reason", text);
}

json_t *show_job(const struct core *core, const struct job *job)
{
    json_t *object = json_object();
    const struct checkpoint *best = core_checkpoint_best(core, job);
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    struct core_spares spares;
    uint64_t world = (uint64_t)job->d.tensor * job->d.context * job->d.pipeline * job->d.data;
    core_spares(core, job, &spares);
    show_set_text(object, "name", job->d.name);
    show_set_number(object, "id", job->d.job);
    show_set_text(object, "user", job->d.user);
    show_set_text(object, "state", WORD(job_state, job->d.state));
    set_reason(object, core, job, &spares);
    set(object, "attempt", job->d.attempted ? json_integer(job->d.attempt) : json_null());
    /* The live counter is gone after a start of the controller; what the attempt ended with is not. */
    show_set_number(object, "step", job->d.ended ? job->d.last_step : job->step);
    set(object, "step_seconds", show_seconds(job->step_ms));
    set(object, "layout",
        show_layout(job->d.tensor, job->d.context, job->d.pipeline, job->d.data, job->d.order,
                    job->d.ranks_per_node));
    show_set_number(object, "nodes",
                    job->d.ranks_per_node == 0 ? 0 : world / job->d.ranks_per_node);
    set(object, "submitted", show_time(job->d.submitted_wall_ms));
    set(object, "since", show_time(wall_of(core, job->d.state_service_ms)));
    set(object, "recovery",
        recovery != NULL ? json_sprintf("r-%04u", recovery->d.recovery) : json_null());
    set(object, "phase",
        recovery != NULL ? json_string(WORD(phase, recovery->d.phase)) : json_null());
    show_set_number(object, "recoveries", recoveries_of(core, job->d.job));
    set(object, "checkpoint", best != NULL ? show_checkpoint(best, core) : json_null());
    set(object, "interval", show_interval(core, job));
    set(object, "spares", show_spares(&spares, job));
    set(object, "budget", budget(job));
    set(object, "time", show_times(core, job));
    set(object, "conditions", conditions(core, job, &spares));
    return object;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static json_t *marks(const struct core *core, const struct node *node)
{
    json_t *list = json_array();
    const struct mark *mark;
    for (uint32_t i = 0; (mark = core_mark(core, node->d.node, i)) != NULL; i++) {
        json_t *one = json_object();
        show_set_text(one, "owner", WORD(mark_owner, mark->d.owner));
        show_set_text(one, "code", mark->d.code);
        show_set_text(one, "level", WORD(mark_level, mark->d.level));
        show_set_text(one, "when", WORD(leave_when, mark->d.when));
        show_set_text(one, "actor", mark->d.actor);
        show_set_text(one, "text", mark->d.text);
        show_set_text(one, "repair_lane", WORD(repair_lane, mark->d.lane));
        set(one, "incident",
            mark->d.incident != 0 ? json_sprintf("I-%04u", mark->d.incident) : json_null());
        set(one, "since", show_time(mark->d.since_wall_ms));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *agent_of(const struct node *node)
{
    json_t *agent = json_object();
    show_set_text(agent, "version", node->d.version);
    show_set_number(agent, "incarnation", node->d.incarnation);
    show_set_text(agent, "boot_id", node->d.boot_id);
    return agent;
}

json_t *show_node(const struct core *core, const struct node *node)
{
    bool away = false;
    json_t *object = json_object();
    const struct job *job = core_job(core, node->d.job);
    show_set_text(object, "name", node->d.name);
    show_set_text(object, "state", core_node_state_word(core, node, &away));
    set(object, "connected", json_boolean(!away));
    show_set_text(object, "role", core_node_role_word(core, node));
    show_set_text(object, "life", WORD(node_life, node->d.life));
    set(object, "job", job != NULL ? show_text(job->d.name) : json_null());
    set(object, "slot", job != NULL ? json_integer(node->d.slot) : json_null());
    show_set_text(object, "rack", node->d.rack);
    show_set_text(object, "pool", node->d.pool);
    show_set_text(object, "leaf_group", node->d.leaf);
    show_set_text(object, "power_feed", node->d.feed);
    show_set_text(object, "address", node->d.address);
    show_set_number(object, "gpus", node->d.gpu_count);
    set(object, "agent", agent_of(node));
    set(object, "lost", node->d.lost ? json_string(WORD(lost_how, node->d.lost_how)) : json_null());
    set(object, "fence",
        node->d.fence != FENCE_NONE ? json_string(WORD(fence_state, node->d.fence)) : json_null());
    show_set_number(object, "strikes", node->d.strikes);
    set(object, "strikes_weight", json_real((double)core_strikes_milli(core, node) / 1000.0));
    set(object, "since", show_time(wall_of(core, node->d.life_service_ms)));
    set(object, "marks", marks(core, node));
    set(object, "repair", show_repair(core, node));
    set(object, "validation", show_validation(core, node));
    set(object, "not_used_by", show_barred(core, node));
    return object;
}

json_t *show_hostlist(const struct core *core,
                      bool (*test)(const struct core *, const struct node *, const void *),
                      const void *context, uint32_t *ret_count)
{
    uint32_t total = core_node_count(core);
    const char **names = mem_alloc(total + 1, sizeof *names);
    char *text = mem_alloc(FOLDED_MAX, 1);
    uint32_t count = 0;
    for (uint32_t i = 1; i <= total; i++) {
        const struct node *node = core_node(core, i);
        if (!node->d.removed && test(core, node, context)) {
            names[count++] = node->d.name;
        }
    }
    (void)hostlist_fold(names, count, text, FOLDED_MAX); /* a cut one ends in "..." */
    json_t *json = show_text(text);
    mem_free(names);
    mem_free(text);
    *ret_count = count;
    return json;
}

/* ---- recoveries, incidents, checkpoints ------------------------------------------------------ */

static json_t *blamed(const struct core *core, uint32_t incident)
{
    json_t *list = json_array();
    const struct record_image_blamed *one;
    for (uint32_t i = 0; (one = core_blamed_at(core, i)) != NULL; i++) {
        if (one->incident == incident && incident != 0) {
            json_array_append_new(list, show_node_name(core, one->node));
        }
    }
    return list;
}

/* A recovery knows its own start on both clocks, and is short. */
static json_t *phase_start(const struct record_image_recovery *d, uint64_t service_ms)
{
    return service_ms >= d->opened_service_ms
               ? show_time(d->opened_wall_ms + (service_ms - d->opened_service_ms))
               : json_null();
}

static json_t *phases(const struct core *core, const struct record_image_recovery *d)
{
    json_t *list = json_array();
    uint64_t now = core_service_ms(core);
    for (uint32_t i = 0; i < phase_count; i++) {
        uint64_t start = d->phase_service_ms[i];
        if (start == 0) {
            continue;
        }
        bool runs = d->outcome == OUTCOME_OPEN && d->phase == i && now > start;
        json_t *one = json_object();
        show_set_text(one, "name", phase_words[i]);
        show_set_number(one, "ms", d->phase_ms[i] + (runs ? now - start : 0));
        set(one, "start", phase_start(d, start));
        json_array_append_new(list, one);
    }
    return list;
}

json_t *show_recovery(const struct core *core, const struct recovery *recovery)
{
    json_t *object = json_object();
    const struct record_image_recovery *d = &recovery->d;
    const struct job *job = core_job(core, d->job);
    const struct incident *incident = core_incident(core, d->incident);
    uint64_t end = d->outcome == OUTCOME_OPEN ? core_service_ms(core) : d->closed_service_ms;
    set(object, "id", json_sprintf("r-%04u", d->recovery));
    set(object, "job", job != NULL ? show_text(job->d.name) : json_null());
    show_set_text(object, "cause", WORD(cause, d->cause));
    show_set_text(object, "outcome", WORD(outcome, d->outcome));
    show_set_text(object, "phase", WORD(phase, d->phase));
    set(object, "started", show_time(d->opened_wall_ms));
    show_set_number(object, "took_ms", end > d->opened_service_ms ? end - d->opened_service_ms : 0);
    show_set_number(object, "attempt", d->attempt);
    set(object, "attempt_new", d->planned ? json_integer(d->attempt_new) : json_null());
    show_set_number(object, "last_step", d->last_step);
    show_set_number(object, "restore_step", d->restore_step);
    show_set_number(object, "lost_steps", d->lost_steps);
    show_set_number(object, "moved_nodes", d->moved_nodes);
    show_set_number(object, "shifted_ranks", d->shifted_ranks);
    show_set_number(object, "merged", d->merged);
    show_set_number(object, "skipped_count", d->skipped);
    set(object, "skipped", show_skipped(core, recovery));
    show_set_parts(object, d->parts);
    set(object, "blamed", blamed(core, d->incident));
    set(object, "incident",
        incident != NULL ? json_sprintf("I-%04u", incident->d.incident) : json_null());
    show_set_text(object, "rule", incident != NULL ? incident->d.rule : "");
    show_set_text(object, "why", incident != NULL ? incident->d.why : "");
    set(object, "phases", phases(core, d));
    return object;
}

static json_t *facts(const struct core *core, uint32_t incident)
{
    json_t *list = json_array();
    const struct record_image_fact *fact;
    for (uint32_t i = 0; (fact = core_fact_at(core, i)) != NULL; i++) {
        if (fact->incident != incident) {
            continue;
        }
        json_t *one = json_object();
        show_set_text(one, "source", WORD(fact_source, fact->source));
        set(one, "rank", json_integer(fact->rank));
        set(one, "gpu", json_integer(fact->gpu));
        set(one, "code", json_integer(fact->code));
        if (fact->label != LABEL_UNKNOWN) {
            show_set_text(one, "signal", fact->signal);
            show_set_text(one, "label", WORD(signal_label, fact->label));
            show_set_text(one, "action", WORD(signal_advice, fact->advice));
            show_set_text(one, "role", WORD(signal_role, fact->role));
            show_set_text(one, "subject", fact->subject);
        }
        show_set_text(one, "text", fact->text);
        set(one, "node", show_node_name(core, fact->node));
        set(one, "time", show_time(fact->receive_ms));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *verdict(const struct record_image_incident *d)
{
    json_t *object = json_object();
    show_set_text(object, "fault_owner", WORD(fault_owner, d->owner));
    show_set_text(object, "action", WORD(job_action, d->action));
    show_set_text(object, "repair_lane", WORD(repair_lane, d->lane));
    show_set_text(object, "confidence", WORD(confidence, d->confidence));
    show_set_text(object, "rule", d->rule);
    show_set_text(object, "why", d->why);
    return object;
}

json_t *show_incident(const struct core *core, const struct incident *incident)
{
    json_t *object = json_object();
    const struct record_image_incident *d = &incident->d;
    const struct job *job = core_job(core, d->job);
    set(object, "id", json_sprintf("I-%04u", d->incident));
    set(object, "job", job != NULL ? show_text(job->d.name) : json_null());
    show_set_number(object, "attempt", d->attempt);
    show_set_number(object, "step", d->step);
    set(object, "opened", show_time(d->opened_wall_ms));
    set(object, "judged", json_boolean(d->judged));
    set(object, "verdict", d->judged ? verdict(d) : json_null());
    set(object, "blamed", blamed(core, d->incident));
    set(object, "facts", facts(core, d->incident));
    return object;
}
