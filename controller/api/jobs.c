/* jobs.c: /v1/jobs, one job, and what changes it. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/job_spec.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { SLOTS_SHOWN_MAX = 256 }; /* of one job; /layout has them all */

/* ---- finding one ----------------------------------------------------------------------------- */

const struct job *http_job(struct http_request *request)
{
    const struct core *core = http_core(request);
    const char *name = request->segments[1];
    uint32_t id = core_job_find(core, name);
    const struct job *job = id != 0 ? core_job(core, id) : NULL;
    if (job == NULL) {
        const char *names[64];
        size_t count = 0;
        const struct job *one;
        for (uint32_t i = 0; (one = core_job_at(core, i)) != NULL && count < ARRAY_SIZE(names);
             i++) {
            names[count++] = one->d.name;
        }
        const char *closest = text_closest(name, names, count);
        http_problem(request, 404, "not-found", "keepstep get jobs", "there is no job %s%s%s%s",
                     name, closest != NULL ? "; did you mean " : "", closest != NULL ? closest : "",
                     closest != NULL ? "?" : "");
    }
    return job;
}

const struct job *http_job_own(struct http_request *request)
{
    const struct job *job = http_job(request);
    if (job != NULL && request->role == ROLE_SUBMITTER && !text_equal(job->d.user, request->user)) {
        http_problem(request, 403, "forbidden", "a token of an operator may",
                     "%s is a job of %s, and %s may not change it or read its output", job->d.name,
                     job->d.user[0] != '\0' ? job->d.user : "nobody", request->actor);
        return NULL;
    }
    return job;
}

/* ---- the list -------------------------------------------------------------------------------- */

struct job_filter {
    size_t state; /* job_state_count: any */
    const char *user;
    const char *name;
    bool all;
};

/* Without a wish: the jobs that are not over, and of each name the newest. */
static bool is_wanted(const struct core *core, const struct job *job,
                      const struct job_filter *filter)
{
    bool any_state = filter->state == job_state_count;
    bool current = filter->all || !any_state || filter->name[0] != '\0' || !core_job_over(job) ||
                   core_job_find(core, job->d.name) == job->d.job;
    return current && (any_state || job->d.state == filter->state) &&
           (filter->user[0] == '\0' || text_equal(filter->user, job->d.user)) &&
           (filter->name[0] == '\0' || text_equal(filter->name, job->d.name));
}

void route_jobs(struct http_request *request)
{
    const struct core *core = http_core(request);
    struct job_filter filter = {.user = http_query(request, "user"),
                                .name = http_query(request, "name")};
    struct http_page page;
    const struct job *job;
    if (!http_query_word(request, "state", job_state_words, job_state_count, job_state_count,
                         &filter.state) ||
        !http_query_bool(request, "all", &filter.all) || !http_page_begin(request, &page)) {
        return;
    }
    for (uint32_t i = 0; (job = core_job_at(core, i)) != NULL; i++) {
        if (is_wanted(core, job, &filter) && http_page_takes(&page, job->d.job)) {
            http_page_add(&page, show_job(core, job));
        }
    }
    http_page_answer(request, &page);
}

/* ---- one job --------------------------------------------------------------------------------- */

static json_t *spec_of(const struct http_request *request, const struct job *job)
{
    char *text = NULL;
    size_t size = 0;
    struct err err = {0};
    if (store_spec_text(http_reader(request), job->d.job, 0, &text, &size, &err) < 0) {
        return json_null(); /* not durable yet; the rest of the answer is */
    }
    json_t *tree = json_loadb(text, size, 0, NULL);
    mem_free(text);
    if (tree == NULL) {
        return json_null();
    }
    json_t *masked = job_spec_masked(tree);
    json_decref(tree);
    return masked;
}

static json_t *slots_of(const struct core *core, const struct job *job)
{
    json_t *list = json_array();
    const struct slot *slot;
    for (uint32_t i = 0; (slot = core_slot(core, job, i)) != NULL && i < SLOTS_SHOWN_MAX; i++) {
        json_t *one = json_object();
        show_set_number(one, "slot", i);
        show_set_number(one, "step", slot->step);
        json_object_set_new(one, "started", json_boolean(slot->started));
        show_set_number(one, "since_attempt", slot->d.since_attempt);
        json_object_set_new(one, "node", show_node_name(core, slot->d.node));
        json_array_append_new(list, one);
    }
    return list;
}

void route_job(struct http_request *request)
{
    const struct job *job = http_job(request);
    if (job == NULL) {
        return;
    }
    const struct core *core = http_core(request);
    json_t *object = show_job(core, job);
    json_t *recoveries = json_array();
    const struct recovery *recovery;
    for (uint32_t i = 0; (recovery = core_recovery_at(core, i)) != NULL; i++) {
        if (recovery->d.job == job->d.job && recovery->d.cause != CAUSE_START) {
            json_array_append_new(recoveries, show_recovery(core, recovery));
        }
    }
    json_object_set_new(object, "recent_recoveries", recoveries);
    json_object_set_new(object, "slots", slots_of(core, job));
    json_object_set_new(object, "spec", spec_of(request, job));
    http_answer(request, 200, object);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* What a plan is made of, besides the core's sentence. */
static json_t *plan_of(const struct core *core, const struct job *job)
{
    json_t *plan = json_object();
    const struct checkpoint *best = core_checkpoint_best(core, job);
    show_set_text(plan, "state", WORD(job_state, job->d.state));
    show_set_number(plan, "nodes", job->slot_count);
    show_set_number(plan, "ranks", (uint64_t)job->slot_count * job->d.ranks_per_node);
    show_set_number(plan, "step", job->step);
    json_object_set_new(plan, "checkpoint_step",
                        best != NULL ? show_number(best->d.step) : json_null());
    return json_pack("{s:o}", "plan", plan);
}

void route_job_verb(struct http_request *request)
{
    static const struct {
        const char *word;
        uint8_t verb;
    } verbs[] = {
        {"cancel", REQUEST_CANCEL},
        {"hold", REQUEST_HOLD},
        {"release", REQUEST_RELEASE},
        {"restart", REQUEST_RESTART},
    };
    const struct job *job = http_job_own(request);
    json_t *body = job != NULL ? http_body_json(request) : NULL;
    if (body == NULL) {
        return;
    }
    struct request ask = {.job = job->d.job};
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        ask.verb = text_equal(verbs[i].word, request->segments[2]) ? verbs[i].verb : ask.verb;
    }
    bool ok = http_member_text(request, body, "reason", ask.reason, sizeof ask.reason) &&
              http_member_bool(request, body, "after_checkpoint", &ask.after_checkpoint);
    json_decref(body);
    if (ok) {
        http_ask_core(request, &ask, plan_of(http_core(request), job));
    }
}

/* POST /jobs/{job}/checkpoints/{step}/pin: "newest" is the one that a restore would take. */
void route_checkpoint_verb(struct http_request *request)
{
    static const struct {
        const char *word;
        uint8_t verb;
    } verbs[] = {
        {"pin", REQUEST_PIN},
        {"unpin", REQUEST_UNPIN},
        {"verify", REQUEST_VERIFY},
    };
    const struct job *job = http_job_own(request);
    const char *step = request->segments[3];
    struct request ask = {.has_step = !text_equal(step, "newest")};
    if (job == NULL) {
        return;
    }
    ask.job = job->d.job;
    if (ask.has_step && text_to_u64(step, INT64_MAX, &ask.step) != 0) {
        http_problem(request, 400, "invalid-request", "a step, or newest",
                     "'%.32s' is not the step of a checkpoint", step);
        return;
    }
    json_t *body = http_body_json(request);
    if (body == NULL) {
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        ask.verb = text_equal(verbs[i].word, request->segments[4]) ? verbs[i].verb : ask.verb;
    }
    bool ok = http_member_text(request, body, "reason", ask.reason, sizeof ask.reason);
    json_decref(body);
    if (ok) {
        http_ask_core(request, &ask, NULL);
    }
}

void route_checkpoint_now(struct http_request *request)
{
    const struct job *job = http_job_own(request);
    json_t *body = job != NULL ? http_body_json(request) : NULL;
    if (body == NULL) {
        return;
    }
    struct request ask = {.verb = REQUEST_CHECKPOINT, .job = job->d.job};
    bool ok = http_member_text(request, body, "reason", ask.reason, sizeof ask.reason);
    json_decref(body);
    if (ok) {
        http_ask_core(request, &ask, NULL);
    }
}
