/* ranks.c: the ranks of a job: where each is, what it does, and what its program says of itself.
 *
 * All of it is level state of the present attempt; members that nobody has told are null or empty.
 * The list shows the newest step, one rank alone its last steps and hashes as well. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* JSON has no word for what is not a number; that it is none is what a reader looks for. */
static json_t *real(real_bits bits)
{
    const uint32_t exponent = 0x7f800000;
    const uint32_t sign = 0x80000000;
    float value;
    if (bits == 0) {
        return json_null();
    }
    if ((bits & exponent) == exponent) { /* infinite, or with more bits below: none at all */
        const char *infinite = (bits & sign) != 0 ? "-inf" : "inf";
        return json_string((bits & ~sign) == exponent ? infinite : "nan");
    }
    memcpy(&value, &bits, sizeof value);
    return json_real((double)value + 0.0); /* -0.0 is how a told zero travels */
}

static json_t *seconds_or_null(uint32_t us)
{
    return us == 0 ? json_null() : json_real((double)us / 1e6);
}

static json_t *step_of(const struct step_report *step)
{
    json_t *object = json_object();
    show_set_number(object, "step", step->step);
    set(object, "seconds", seconds_or_null(step->total_us));
    set(object, "compute_seconds", seconds_or_null(step->compute_us));
    set(object, "loss", real(step->loss));
    set(object, "gradient_norm", real(step->gradient_norm));
    return object;
}

static json_t *hash_of(const struct hash_report *hash)
{
    json_t *object = json_object();
    show_set_number(object, "step", hash->step);
    set(object, "hash", json_sprintf("%016llx", (unsigned long long)hash->hash));
    return object;
}

static json_t *communicators_of(const struct msg_rank_detail *d)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->communicator_count; i++) {
        const struct communicator_report *one = &d->communicators[i];
        json_t *object = json_object();
        show_set_text(object, "name", one->name);
        show_set_text(object, "axis", communicator_axis_word(one->axis));
        show_set_number(object, "enqueued", one->enqueued);
        show_set_number(object, "completed", one->completed);
        show_set_text(object, "operation", collective_operation_word(one->operation));
        set(object, "peer", one->peer < 0 ? json_null() : json_integer(one->peer));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *coordinates_of(struct rank_coordinates at)
{
    json_t *object = json_object();
    show_set_number(object, "tensor", at.tensor);
    show_set_number(object, "context", at.context);
    show_set_number(object, "pipeline", at.pipeline);
    show_set_number(object, "data", at.data);
    return object;
}

/* What the node's agent last said of the rank, or NULL. */
static const struct rank_report *report_of(const struct node *node, const struct job *job,
                                           uint32_t rank)
{
    for (uint32_t i = 0; node != NULL && i < node->report_count; i++) {
        const struct attempt_report *report = &node->reports[i];
        if (report->job == job->d.job && report->attempt == job->d.attempt &&
            rank >= report->first_rank && rank - report->first_rank < report->rank_count) {
            return &report->ranks[rank - report->first_rank];
        }
    }
    return NULL;
}

static void set_progress(json_t *object, const struct rank_report *report)
{
    static const char *const states[] = {"none", "running", "exited", "signaled", "unstarted"};
    static const char *const phases[] = {"init", "restore", "step", "checkpoint", "eval", "idle"};
    const struct rank_report nothing = {.state = RANK_NONE};
    const bool known = report != NULL;
    report = known ? report : &nothing;
    CHECK(report->state < ARRAY_SIZE(states) && report->phase < ARRAY_SIZE(phases));
    show_set_text(object, "state", states[report->state]);
    set(object, "code", report->state > RANK_RUNNING ? json_integer(report->code) : json_null());
    const bool tells = report->has_mailbox || report->prints;
    set(object, "phase", tells ? json_string(phases[report->phase]) : json_null());
    show_set_number(object, "step", report->step);
    set(object, "step_from", tells ? json_string(report->prints ? "log" : "mailbox") : json_null());
    set(object, "phase_age_seconds", known ? show_seconds(report->phase_age_ms) : json_null());
    set(object, "step_seconds", known ? show_seconds(report->step_ms) : json_null());
    set(object, "compute_seconds", known ? show_seconds(report->compute_ms) : json_null());
}

static void set_detail(json_t *object, const struct msg_rank_detail *d, bool whole)
{
    const struct step_report *newest = d->step_count > 0 ? &d->steps[d->step_count - 1] : NULL;
    set(object, "coordinates_computed",
        d->has_coordinates ? coordinates_of(d->coordinates) : json_null());
    set(object, "loss", real(newest == NULL ? 0 : newest->loss));
    set(object, "gradient_norm", real(newest == NULL ? 0 : newest->gradient_norm));
    set(object, "parameter_hash",
        d->hash_count > 0 ? hash_of(&d->hashes[d->hash_count - 1]) : json_null());
    set(object, "communicators", communicators_of(d));
    if (!whole) {
        return;
    }
    json_t *steps = json_array();
    json_t *hashes = json_array();
    for (uint32_t i = 0; i < d->step_count; i++) {
        json_array_append_new(steps, step_of(&d->steps[i]));
    }
    for (uint32_t i = 0; i < d->hash_count; i++) {
        json_array_append_new(hashes, hash_of(&d->hashes[i]));
    }
    set(object, "steps", steps);
    set(object, "parameter_hashes", hashes);
}

static json_t *rank_view(const struct core *core, const struct job *job, uint32_t rank, bool whole)
{
    static const struct msg_rank_detail nothing;
    const struct rank_detail *detail = core_rank_detail(core, job, rank);
    const uint32_t index = rank / job->d.ranks_per_node;
    const struct slot *slot = core_slot(core, job, index);
    json_t *place = coordinates_of(core_rank_coordinates(job, rank));
    json_t *object = json_object();
    show_set_number(object, "rank", rank);
    json_object_update(object, place);
    json_decref(place);
    show_set_number(object, "slot", index);
    show_set_number(object, "gpu", rank % job->d.ranks_per_node);
    set(object, "node", show_node_name(core, slot->d.node));
    set_progress(object, report_of(core_node(core, slot->d.node), job, rank));
    set_detail(object, detail != NULL ? &detail->d : &nothing, whole);
    return object;
}

/* The job's world now, or 0 after the answer has been given. */
static uint32_t world_of(struct http_request *request, const struct job *job)
{
    const uint32_t world = job->slot_count * job->d.ranks_per_node;
    if (world == 0) {
        http_problem(request, 404, "not-found", "", "%s holds no nodes: it is %s", job->d.name,
                     WORD(job_state, job->d.state));
    }
    return world;
}

void route_rank(struct http_request *request)
{
    uint64_t rank;
    const struct job *job = http_job(request);
    const uint32_t world = job != NULL ? world_of(request, job) : 0;
    if (world == 0) {
        return;
    }
    if (text_to_u64(request->segments[3], UINT32_MAX, &rank) != 0 || rank >= world) {
        http_problem(request, 404, "not-found", "", "%s has ranks 0 to %u", job->d.name, world - 1);
        return;
    }
    http_answer(request, 200, rank_view(http_core(request), job, (uint32_t)rank, true));
}

void route_ranks(struct http_request *request)
{
    struct http_page page;
    const struct job *job = http_job(request);
    const uint32_t world = job != NULL ? world_of(request, job) : 0;
    if (world == 0 || !http_page_begin(request, &page)) {
        return;
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        if (http_page_takes(&page, (uint64_t)rank + 1)) {
            http_page_add(&page, rank_view(http_core(request), job, rank, false));
        }
    }
    http_page_answer(request, &page);
}
