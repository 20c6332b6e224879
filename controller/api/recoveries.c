/* recoveries.c: /v1/recoveries and /v1/incidents: what happened, why, and what it cost. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/show.h"
#include "proto/base/text.h"

/* A job that the query names, by id: 0 = none is named. False: there is none of that name. */
static bool read_job(struct http_request *request, uint32_t *ret_job)
{
    const char *name = http_query(request, "job");
    *ret_job = name[0] != '\0' ? core_job_find(http_core(request), name) : 0;
    if (name[0] != '\0' && *ret_job == 0) {
        http_problem(request, 404, "not-found", "keepstep get jobs", "there is no job %s", name);
        return false;
    }
    return true;
}

/* Jobs may come again under one name: all of them are meant. */
static bool is_of(const struct core *core, uint32_t wanted, uint32_t id)
{
    const struct job *a = core_job(core, wanted);
    const struct job *b = core_job(core, id);
    return wanted == 0 || wanted == id ||
           (a != NULL && b != NULL && text_equal(a->d.name, b->d.name));
}

struct recovery_filter {
    uint32_t job;
    size_t cause;   /* cause_count: any but the first start of a job */
    size_t outcome; /* outcome_count: any */
};

static bool is_wanted(const struct core *core, const struct recovery *one,
                      const struct recovery_filter *filter)
{
    bool cause =
        filter->cause == cause_count ? one->d.cause != CAUSE_START : one->d.cause == filter->cause;
    bool outcome = filter->outcome == outcome_count || one->d.outcome == filter->outcome;
    return cause && outcome && is_of(core, filter->job, one->d.job);
}

void route_recoveries(struct http_request *request)
{
    const struct core *core = http_core(request);
    struct recovery_filter filter;
    struct http_page page;
    uint32_t count = 0;
    if (!read_job(request, &filter.job) ||
        !http_query_word(request, "cause", cause_words, cause_count, cause_count, &filter.cause) ||
        !http_query_word(request, "outcome", outcome_words, outcome_count, outcome_count,
                         &filter.outcome) ||
        !http_page_begin(request, &page)) {
        return;
    }
    while (core_recovery_at(core, count) != NULL) {
        count++;
    }
    while (count-- > 0) { /* newest first */
        const struct recovery *one = core_recovery_at(core, count);
        if (is_wanted(core, one, &filter) && http_page_takes(&page, UINT32_MAX - one->d.recovery)) {
            http_page_add(&page, show_recovery(core, one));
        }
    }
    http_page_answer(request, &page);
}

void route_recovery(struct http_request *request)
{
    const struct core *core = http_core(request);
    const struct recovery *recovery = core_recovery(core, show_read_id(request->segments[1], 'r'));
    if (recovery == NULL) {
        http_problem(request, 404, "not-found", "keepstep get recoveries",
                     "there is no recovery %s in memory", request->segments[1]);
        return;
    }
    json_t *object = show_recovery(core, recovery);
    json_t *incidents = json_array();
    const struct incident *one;
    for (uint32_t i = 0; (one = core_incident_at(core, i)) != NULL; i++) {
        bool within = one->d.job == recovery->d.job &&
                      one->d.opened_service_ms >= recovery->d.opened_service_ms &&
                      (recovery->d.outcome == OUTCOME_OPEN ||
                       one->d.opened_service_ms <= recovery->d.closed_service_ms);
        if (within || one->d.incident == recovery->d.incident) {
            json_array_append_new(incidents, show_incident(core, one));
        }
    }
    json_object_set_new(object, "incidents", incidents);
    http_answer(request, 200, object);
}

void route_incidents(struct http_request *request)
{
    const struct core *core = http_core(request);
    struct http_page page;
    uint32_t job;
    uint32_t count = 0;
    if (!read_job(request, &job) || !http_page_begin(request, &page)) {
        return;
    }
    while (core_incident_at(core, count) != NULL) {
        count++;
    }
    while (count-- > 0) { /* newest first */
        const struct incident *one = core_incident_at(core, count);
        if (is_of(core, job, one->d.job) && http_page_takes(&page, UINT32_MAX - one->d.incident)) {
            http_page_add(&page, show_incident(core, one));
        }
    }
    http_page_answer(request, &page);
}

void route_incident(struct http_request *request)
{
    const struct core *core = http_core(request);
    const struct incident *incident = core_incident(core, show_read_id(request->segments[1], 'I'));
    if (incident == NULL) {
        http_problem(request, 404, "not-found", "keepstep get recoveries",
                     "there is no incident %s in memory", request->segments[1]);
        return;
    }
    json_t *object = show_incident(core, incident);
    json_object_set_new(object, "explanation", explain_incident(core, incident));
    http_answer(request, 200, object);
}
