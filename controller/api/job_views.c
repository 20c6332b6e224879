/* job_views.c: a job seen from one side each: layout, attempts, checkpoints, time. Its ranks are in
 * ranks.c. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { ATTEMPTS_MAX = 10000 }; /* the newest ones; older attempts are in the database */

/* Columns, not objects: 2,048 slots are 35 kB so, and 260 kB otherwise. */
void route_layout(struct http_request *request)
{
    const struct job *job = http_job(request);
    if (job == NULL) {
        return;
    }
    const struct core *core = http_core(request);
    json_t *object = show_layout(job->d.tensor, job->d.context, job->d.pipeline, job->d.data,
                                 job->d.order, job->d.ranks_per_node);
    json_t *nodes = json_array();
    json_t *states = json_array();
    json_t *racks = json_array();
    const struct slot *slot;
    for (uint32_t i = 0; (slot = core_slot(core, job, i)) != NULL; i++) {
        const struct node *node = core_node(core, slot->d.node);
        json_array_append_new(nodes, show_node_name(core, slot->d.node));
        json_array_append_new(states, node == NULL
                                          ? json_null()
                                          : json_string(core_node_state_word(core, node, NULL)));
        json_array_append_new(racks, node == NULL ? json_null() : show_text(node->d.rack));
    }
    json_object_set_new(object, "attempt",
                        job->d.attempted ? json_integer(job->d.attempt) : json_null());
    json_object_set_new(object, "node", nodes);
    json_object_set_new(object, "state", states);
    json_object_set_new(object, "rack", racks);
    http_answer(request, 200, object);
}

static json_t *attempt_of(const json_t *row)
{
    static const char *const times[][2] = {
        {"made", "made_wall_ms"}, {"launched", "launched_wall_ms"}, {"ended", "ended_wall_ms"}};
    static const char *const same[] = {"attempt", "restore_step", "last_step", "address", "port"};
    json_t *object = json_object();
    json_int_t recovery = json_integer_value(json_object_get(row, "recovery"));
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        json_object_set(object, same[i], json_object_get(row, same[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        const json_t *wall = json_object_get(row, times[i][1]);
        json_object_set_new(object, times[i][0], show_time((uint64_t)json_integer_value(wall)));
    }
    json_object_set_new(object, "recovery",
                        recovery > 0 ? json_sprintf("r-%04lld", (long long)recovery) : json_null());
    json_object_set(object, "reached", json_object_get(row, "ended_phase"));
    return object;
}

/* From the store: the core keeps only what it decides with. */
void route_attempts(struct http_request *request)
{
    static const char sql[] = "SELECT * FROM attempts WHERE job = ?1 ORDER BY attempt DESC";
    struct http_page page;
    json_t *rows = NULL;
    bool more = false;
    struct err err = {0};
    size_t index;
    json_t *row;
    const struct job *job = http_job(request);
    if (job == NULL || !http_page_begin(request, &page)) {
        return;
    }
    json_t *parameters = json_pack("[I]", (json_int_t)job->d.job);
    int code =
        store_query_json(http_reader(request), sql, parameters, ATTEMPTS_MAX, &rows, &more, &err);
    json_decref(parameters);
    if (code < 0) {
        json_decref(page.items);
        http_problem(request, 503, "store-unavailable", "", "%s", err.text);
        return;
    }
    json_array_foreach(rows, index, row)
    {
        json_int_t attempt = json_integer_value(json_object_get(row, "attempt"));
        if (http_page_takes(&page, UINT32_MAX - (uint64_t)attempt)) {
            http_page_add(&page, attempt_of(row));
        }
    }
    json_decref(rows);
    http_page_answer(request, &page);
}

void route_checkpoints(struct http_request *request)
{
    struct http_page page;
    size_t state;
    const struct job *job = http_job(request);
    if (job == NULL ||
        !http_query_word(request, "state", checkpoint_state_words, checkpoint_state_count,
                         checkpoint_state_count, &state) ||
        !http_page_begin(request, &page)) {
        return;
    }
    const struct core *core = http_core(request);
    const struct checkpoint *best = core_checkpoint_best(core, job);
    uint32_t count = 0;
    while (core_checkpoint_at(core, count) != NULL) {
        count++;
    }
    while (count-- > 0) { /* newest first */
        const struct checkpoint *one = core_checkpoint_at(core, count);
        bool wanted =
            one->d.job == job->d.job && (state == checkpoint_state_count || one->d.state == state);
        if (wanted && http_page_takes(&page, UINT32_MAX - count)) {
            json_t *object = show_checkpoint(one, core);
            json_object_set_new(object, "newest_usable", json_boolean(one == best));
            http_page_add(&page, object);
        }
    }
    http_page_answer(request, &page);
}

/* One of a step: the one that counts; "newest" is the one that a restore would take. */
void route_checkpoint(struct http_request *request)
{
    const struct job *job = http_job(request);
    const char *step = request->segments[3];
    uint64_t number = 0;
    if (job == NULL) {
        return;
    }
    const struct core *core = http_core(request);
    const struct checkpoint *best = core_checkpoint_best(core, job);
    const struct checkpoint *one = text_equal(step, "newest") ? best
                                   : text_to_u64(step, INT64_MAX, &number) == 0
                                       ? core_checkpoint_of_step(core, job, number)
                                       : NULL;
    if (one == NULL) {
        http_problem(request, 404, "not-found", "keepstep get checkpoints JOB",
                     "%s has no checkpoint of step %.32s", job->d.name, step);
        return;
    }
    json_t *object = show_checkpoint(one, core);
    json_object_set_new(object, "newest_usable", json_boolean(one == best));
    http_answer(request, 200, object);
}

void route_goodput(struct http_request *request)
{
    const struct job *job = http_job(request);
    if (job != NULL) {
        http_answer(request, 200, show_times(http_core(request), job));
    }
}
