/* routes.c: which method and path is which route, and who may call it. */
#include <string.h>

#include "controller/api/internal.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

/* A page of a list, and a change that may be tried out. */
#define PAGE "limit|cursor"
#define TRY  "dry_run"

static const struct route routes[] = {
    {"GET", "healthz", ROLE_NONE, route_healthz, "", NULL},
    {"GET", "readyz", ROLE_NONE, route_readyz, "", NULL},
    {"GET", "v1/version", ROLE_NONE, route_version, "", NULL},
    {"GET", "v1/cluster", ROLE_VIEWER, route_cluster, "", NULL},
    {"GET", "v1/jobs", ROLE_VIEWER, route_jobs, PAGE "|state|user|name|all", NULL},
    {"POST", "v1/jobs", ROLE_SUBMITTER, route_jobs_submit, TRY "|hold", NULL},
    {"GET", "v1/jobs/*", ROLE_VIEWER, route_job, "", NULL},
    {"POST", "v1/jobs/*/cancel", ROLE_SUBMITTER, route_job_verb, TRY, "reason"},
    {"POST", "v1/jobs/*/hold", ROLE_SUBMITTER, route_job_verb, TRY, "reason|after_checkpoint"},
    {"POST", "v1/jobs/*/release", ROLE_SUBMITTER, route_job_verb, TRY, "reason"},
    {"POST", "v1/jobs/*/restart", ROLE_SUBMITTER, route_job_verb, TRY, "reason|after_checkpoint"},
    {"GET", "v1/jobs/*/layout", ROLE_VIEWER, route_layout, "", NULL},
    {"GET", "v1/jobs/*/ranks", ROLE_VIEWER, route_ranks, PAGE, NULL},
    {"GET", "v1/jobs/*/ranks/*", ROLE_VIEWER, route_rank, "", NULL},
    {"GET", "v1/jobs/*/attempts", ROLE_VIEWER, route_attempts, PAGE, NULL},
    {"GET", "v1/jobs/*/checkpoints", ROLE_VIEWER, route_checkpoints, PAGE "|state", NULL},
    {"POST", "v1/jobs/*/checkpoints", ROLE_SUBMITTER, route_checkpoint_now, TRY, "reason"},
    {"GET", "v1/jobs/*/checkpoints/*", ROLE_VIEWER, route_checkpoint, "", NULL},
    {"POST", "v1/jobs/*/checkpoints/*/pin", ROLE_SUBMITTER, route_checkpoint_verb, TRY, "reason"},
    {"POST", "v1/jobs/*/checkpoints/*/unpin", ROLE_SUBMITTER, route_checkpoint_verb, TRY, "reason"},
    {"POST", "v1/jobs/*/checkpoints/*/verify", ROLE_SUBMITTER, route_checkpoint_verb, TRY,
     "reason"},
    {"GET", "v1/jobs/*/goodput", ROLE_VIEWER, route_goodput, "", NULL},
    {"GET", "v1/jobs/*/logs", ROLE_SUBMITTER, route_logs, "rank|attempt|node|tail_bytes", NULL},
    {"GET", "v1/nodes", ROLE_VIEWER, route_nodes,
     PAGE "|names|prefix|state|role|rack|pool|job|problems", NULL},
    {"GET", "v1/nodes/*", ROLE_VIEWER, route_node, "", NULL},
    {"GET", "v1/nodes/*/history", ROLE_VIEWER, route_node_history, "limit", NULL},
    {"POST", "v1/node-actions", ROLE_OPERATOR, route_node_actions, TRY,
     "nodes|action|reason|when|clear|accept_inventory|skip_validation|level|skip_validation|level"},
    {"GET", "v1/spares", ROLE_VIEWER, route_spares, "", NULL},
    {"GET", "v1/recoveries", ROLE_VIEWER, route_recoveries, PAGE "|job|cause|outcome", NULL},
    {"GET", "v1/recoveries/*", ROLE_VIEWER, route_recovery, "", NULL},
    {"GET", "v1/incidents", ROLE_VIEWER, route_incidents, PAGE "|job", NULL},
    {"GET", "v1/incidents/*", ROLE_VIEWER, route_incident, "", NULL},
    {"GET", "v1/rules", ROLE_VIEWER, route_rules, "", NULL},
    {"GET", "v1/events", ROLE_VIEWER, route_events, "after|from|since_ms|for|type|severity|wait",
     NULL},
    {"GET", "v1/automation", ROLE_VIEWER, route_automation, "", NULL},
    {"PUT", "v1/automation", ROLE_OPERATOR, route_automation_set, TRY, "mode|reason"},
    {"GET", "v1/foreign", ROLE_VIEWER, route_foreign, "", NULL},
    {"POST", "v1/foreign", ROLE_OPERATOR, route_foreign_set, TRY, "action|reason"},
};

static bool matches(const char *pattern, const struct http_request *request)
{
    uint32_t index = 0;
    while (*pattern != '\0') {
        size_t size = strcspn(pattern, "/");
        if (index >= request->segment_count || request->segment_count > HTTP_SEGMENTS_MAX) {
            return false;
        }
        const char *segment = request->segments[index];
        bool any = size == 1 && pattern[0] == '*';
        if (!any && (strlen(segment) != size || strncmp(segment, pattern, size) != 0)) {
            return false;
        }
        index++;
        pattern += size;
        pattern += *pattern == '/' ? 1 : 0;
    }
    return index == request->segment_count;
}

/* Handlers see the path without "v1". */
static void drop_version(struct http_request *request)
{
    if (request->segment_count > 0 && text_equal(request->segments[0], "v1")) {
        for (uint32_t i = 1; i < request->segment_count; i++) {
            request->segments[i - 1] = request->segments[i];
        }
        request->segment_count--;
    }
}

/* The route of method and path. Else NULL, and `methods` lists what the path does know, "" when
 * there is no such path. */
static const struct route *find(const struct http_request *request, char *methods, size_t size)
{
    const char *method = text_equal(request->method, "HEAD") ? "GET" : request->method;
    methods[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
        if (!matches(routes[i].pattern, request)) {
            continue;
        }
        if (text_equal(routes[i].method, method)) {
            return &routes[i];
        }
        size_t used = strlen(methods);
        (void)text_format(methods + used, size - used, "%s%s", used > 0 ? ", " : "",
                          routes[i].method);
    }
    return NULL;
}

bool routes_want_body(const struct http_request *request)
{
    char methods[64];
    const struct route *route = find(request, methods, sizeof methods);
    return route != NULL && !text_equal(route->method, "GET") && request->role >= route->role;
}

bool routes_are_quick(const struct http_request *request)
{
    static void (*const reading[])(struct http_request * request) = {
        route_attempts, route_logs, route_node_history, route_events};
    char methods[64];
    const struct route *route = find(request, methods, sizeof methods);
    bool quick = route != NULL && text_equal(route->method, "GET");
    for (size_t i = 0; i < ARRAY_SIZE(reading) && quick; i++) {
        quick = route->call != reading[i];
    }
    return quick;
}

static void refuse_method(struct http_request *request, const char *methods)
{
    http_problem(request, 405, "invalid-request", "", "%s is not served here; %s is",
                 request->method, methods);
    (void)MHD_add_response_header(request->response, "Allow", methods);
}

static void refuse_role(struct http_request *request)
{
    if (request->role == ROLE_NONE) {
        http_problem(request, 401, "unauthenticated",
                     "Authorization: Bearer ks_… (keepstep --token-file FILE)",
                     "a token that is known here is needed");
    } else {
        http_problem(request, 403, "forbidden",
                     "use the Unix socket as root or its group, or a token of that role",
                     "%s may not do this", request->actor);
    }
}

/* If-Match names the revision that the caller has seen: any record since then is a mismatch. */
static bool is_unchanged(struct http_request *request)
{
    char now[96];
    const char *seen =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_MATCH);
    if (seen == NULL || text_equal(seen, "*") || text_equal(request->method, "GET") ||
        text_equal(request->method, "HEAD")) {
        return true;
    }
    (void)text_format(now, sizeof now, "\"%s-%llu", core_globals(http_core(request))->store_id,
                      (unsigned long long)loop_core_revision(http_loop(request)));
    size_t size = strlen(now);
    if (strncmp(seen, now, size) == 0 && (seen[size] == '"' || seen[size] == '-')) {
        return true;
    }
    http_problem(request, 412, "revision-mismatch", "look again, then say what you want",
                 "it is not what you have seen any more: the revision is %llu now",
                 (unsigned long long)loop_core_revision(http_loop(request)));
    return false;
}

static void answer(struct http_request *request)
{
    request->text = shared_find(request);
    if (request->text != NULL) {
        request->status = 200;
        answer_when_durable(request);
    } else {
        request->route->call(request);
    }
}

void routes_call(struct http_request *request)
{
    char methods[64];
    const struct route *route = find(request, methods, sizeof methods);
    if (route == NULL && methods[0] != '\0') {
        refuse_method(request, methods);
    } else if (route == NULL) {
        http_problem(request, 404, "not-found", "paths begin with /v1", "there is no %s",
                     request->path);
    } else if (request->role < route->role) {
        refuse_role(request);
    } else {
        request->route = route;
        drop_version(request);
        if (http_query_check(request) && is_unchanged(request)) {
            answer(request);
        }
    }
}
