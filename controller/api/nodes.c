/* nodes.c: /v1/nodes, one node, its history, and the spares. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* ---- finding one ----------------------------------------------------------------------------- */

static void refuse_unknown(struct http_request *request, const char *name)
{
    const struct core *core = http_core(request);
    uint32_t count = 0;
    CLEANUP_FREE const char **names = mem_alloc(core_node_count(core) + 1, sizeof *names);
    for (uint32_t i = 1; i <= core_node_count(core); i++) {
        if (!core_node(core, i)->d.removed) {
            names[count++] = core_node(core, i)->d.name;
        }
    }
    const char *closest = text_closest(name, names, count);
    http_problem(request, 404, "not-found", "keepstep get nodes", "there is no node %s%s%s%s", name,
                 closest != NULL ? "; did you mean " : "", closest != NULL ? closest : "",
                 closest != NULL ? "?" : "");
}

const struct node *http_node(struct http_request *request, const char *name)
{
    const struct core *core = http_core(request);
    const struct node *node = core_node(core, core_node_find(core, name));
    if (node == NULL) {
        refuse_unknown(request, name);
    }
    return node;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* The words of a node, as core_node_state_word and core_node_role_word give them. */
static const char *const states[] = {"healthy",  "slow",     "suspect", "down",   "validating",
                                     "cordoned", "draining", "drained", "unknown"};
static const char *const roles[] = {"active", "spare", "-"};

struct node_filter {
    size_t state; /* ARRAY_SIZE(states): any; the same for role */
    size_t role;
    const char *rack;
    const char *pool;
    const char *prefix;
    uint32_t job; /* 0: any */
    bool problems;
    bool *named; /* by id; NULL: any. Owned. */
};

struct name_walk {
    struct http_request *request;
    bool *named;
};

static int name_cb(const char *name, void *context)
{
    struct name_walk *walk = context;
    const struct node *node = http_node(walk->request, name);
    if (node == NULL) {
        return 1;
    }
    walk->named[node->d.node] = true;
    return 0;
}

static bool read_names(struct http_request *request, struct node_filter *filter)
{
    const char *list = http_query(request, "names");
    struct err err = {0};
    if (list[0] == '\0') {
        return true;
    }
    filter->named = mem_alloc(core_node_count(http_core(request)) + 1, sizeof *filter->named);
    struct name_walk walk = {request, filter->named};
    if (hostlist_each(list, name_cb, &walk, &err) < 0) {
        http_problem(request, 400, "invalid-request", "", "names: %s", err.text);
    }
    return !request->answered;
}

static bool read_job(struct http_request *request, struct node_filter *filter)
{
    const char *name = http_query(request, "job");
    if (name[0] != '\0') {
        filter->job = core_job_find(http_core(request), name);
        if (filter->job == 0) {
            http_problem(request, 404, "not-found", "keepstep get jobs", "there is no job %s",
                         name);
        }
    }
    return !request->answered;
}

/* Owns filter->named afterwards, also when it returns false. */
static bool read_filter(struct http_request *request, struct node_filter *filter)
{
    *filter = (struct node_filter){.rack = http_query(request, "rack"),
                                   .pool = http_query(request, "pool"),
                                   .prefix = http_query(request, "prefix")};
    return http_query_word(request, "state", states, ARRAY_SIZE(states), ARRAY_SIZE(states),
                           &filter->state) &&
           http_query_word(request, "role", roles, ARRAY_SIZE(roles), ARRAY_SIZE(roles),
                           &filter->role) &&
           http_query_bool(request, "problems", &filter->problems) && read_job(request, filter) &&
           read_names(request, filter);
}

static bool is_wanted(const struct core *core, const struct node *node,
                      const struct node_filter *filter)
{
    bool star;
    const char *word = core_node_state_word(core, node, &star);
    bool any_state = filter->state == ARRAY_SIZE(states);
    bool any_role = filter->role == ARRAY_SIZE(roles);
    bool named = filter->named == NULL || filter->named[node->d.node];
    bool placed = (filter->rack[0] == '\0' || text_equal(filter->rack, node->d.rack)) &&
                  (filter->pool[0] == '\0' || text_equal(filter->pool, node->d.pool)) &&
                  (filter->job == 0 || filter->job == node->d.job);
    bool trouble = !text_equal(word, "healthy") || star || core_mark_count(core, node->d.node) > 0;
    return named && placed && (any_state || text_equal(states[filter->state], word)) &&
           (any_role || text_equal(roles[filter->role], core_node_role_word(core, node))) &&
           strncmp(node->d.name, filter->prefix, strlen(filter->prefix)) == 0 &&
           (!filter->problems || trouble);
}

void route_nodes(struct http_request *request)
{
    const struct core *core = http_core(request);
    struct node_filter filter;
    struct http_page page;
    if (read_filter(request, &filter) && http_page_begin(request, &page)) {
        for (uint32_t i = 1; i <= core_node_count(core); i++) {
            const struct node *node = core_node(core, i);
            if (!node->d.removed && is_wanted(core, node, &filter) && http_page_takes(&page, i)) {
                http_page_add(&page, show_node(core, node));
            }
        }
        http_page_answer(request, &page);
    }
    mem_free(filter.named);
}

/* ---- one node -------------------------------------------------------------------------------- */

void route_node(struct http_request *request)
{
    const struct node *node = http_node(request, request->segments[1]);
    if (node != NULL) {
        http_answer(request, 200, show_node(http_core(request), node));
    }
}

void route_node_history(struct http_request *request)
{
    uint64_t limit;
    const struct node *node = http_node(request, request->segments[1]);
    if (node == NULL ||
        !http_query_u64(request, "limit", HTTP_LIMIT_DEFAULT, HTTP_LIMIT_MAX, &limit)) {
        return;
    }
    struct store_event_filter filter = {.node = node->d.node};
    json_t *rows = NULL;
    struct err err = {0};
    if (store_events_last(http_reader(request), &filter, (uint32_t)limit, &rows, &err) < 0) {
        http_problem(request, 503, "store-unavailable", "", "%s", err.text);
        return;
    }
    show_event_times(rows);
    http_answer_now(request, 200,
                    json_pack("{s:o, s:o}", "node", show_text(node->d.name), "items", rows));
}

/* ---- spares ---------------------------------------------------------------------------------- */

static bool is_spare(const struct core *core, const struct node *node, const void *context)
{
    (void)context;
    return core_node_usable(core, node);
}

static bool is_validating(const struct core *core, const struct node *node, const void *context)
{
    (void)context;
    return text_equal(core_node_state_word(core, node, NULL), "validating");
}

static bool is_down(const struct core *core, const struct node *node, const void *context)
{
    (void)core;
    (void)context;
    return node->d.lost && node->d.job == 0;
}

void route_spares(struct http_request *request)
{
    const struct core *core = http_core(request);
    uint32_t ready;
    uint32_t validating;
    uint32_t down;
    uint64_t reserved = 0;
    json_t *jobs = json_array();
    const struct job *job;
    for (uint32_t i = 0; (job = core_job_at(core, i)) != NULL; i++) {
        struct core_spares spares;
        if (core_job_over(job)) {
            continue; /* it keeps none, and to find that out takes a walk over all nodes */
        }
        core_spares(core, job, &spares);
        if (spares.keeps && (spares.reserve > 0 || spares.wanted > 0)) {
            json_t *one = show_spares(&spares, job);
            show_set_text(one, "job", job->d.name);
            json_array_append_new(jobs, one);
            reserved += spares.reserve;
        }
    }
    json_t *item = json_object();
    json_object_set_new(item, "jobs", jobs);
    json_object_set_new(item, "nodes", show_hostlist(core, is_spare, NULL, &ready));
    json_object_set_new(item, "validating_nodes",
                        show_hostlist(core, is_validating, NULL, &validating));
    json_object_set_new(item, "down_nodes", show_hostlist(core, is_down, NULL, &down));
    show_set_number(item, "ready", ready);
    show_set_number(item, "validating", validating);
    show_set_number(item, "down", down);
    show_set_number(item, "reserved", reserved);
    http_answer(request, 200,
                json_pack("{s:I, s:[o], s:n}", "revision",
                          (json_int_t)loop_revision(http_loop(request)), "items", item, "next"));
}
