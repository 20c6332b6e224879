/* submit.c: POST /v1/jobs: a job file, as YAML or as JSON, becomes a job. */
#include <errno.h>
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/job_spec.h"
#include "controller/api/show.h"
#include "controller/core/layout.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* "run.command[2]" -> "/run/command/2", as RFC 6901 writes it. */
static json_t *pointer_of(const char *path)
{
    char text[2 * sizeof(((struct config_problem *)NULL)->path) + 2] = "/";
    size_t at = 1;
    for (; *path != '\0' && at + 3 < sizeof text; path++) {
        if (*path == ']') {
            continue;
        }
        if (*path == '~' || *path == '/') {
            text[at++] = '~';
            text[at++] = *path == '~' ? '0' : '1';
        } else {
            text[at++] = *path == '.' || *path == '[' ? '/' : *path;
        }
    }
    text[at] = '\0';
    return show_text(at == 1 ? "" : text);
}

static json_t *problems(const struct config_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->count; i++) {
        const struct config_problem *p = &report->problems[i];
        json_t *one = json_object();
        json_object_set_new(one, "pointer", pointer_of(p->path));
        show_set_text(one, "path", p->path);
        if (p->line > 0) {
            show_set_number(one, "line", (uint64_t)p->line);
            show_set_number(one, "column", (uint64_t)p->column);
        }
        show_set_text(one, "detail", p->text);
        if (p->hint[0] != '\0') {
            show_set_text(one, "hint", p->hint);
        }
        json_array_append_new(list, one);
    }
    return list;
}

static bool is_yaml(const struct http_request *request)
{
    const char *type = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                   MHD_HTTP_HEADER_CONTENT_TYPE);
    return type != NULL && strstr(type, "yaml") != NULL;
}

/* -EALREADY: answered. */
static int read_spec(struct http_request *request, json_t **ret_tree, struct job_spec *ret_spec,
                     struct config_report *report)
{
    if (is_yaml(request)) {
        const char *text = request->body.size > 0 ? (const char *)request->body.data : "";
        return job_spec_from_yaml(text, request->body.size, request->user, ret_tree, ret_spec,
                                  report);
    }
    json_t *json = http_body_json(request);
    if (json == NULL) {
        return -EALREADY;
    }
    int code = job_spec_from_json(json, request->user, ret_tree, ret_spec, report);
    json_decref(json);
    return code;
}

static bool read_checked(struct http_request *request, json_t **ret_tree, struct job_spec *ret_spec)
{
    CLEANUP_FREE struct config_report *report = mem_alloc(1, sizeof *report);
    int code = read_spec(request, ret_tree, ret_spec, report);
    if (code < 0 && code != -EALREADY) {
        http_problem_list(request, 422, "invalid-spec", problems(report),
                          "%zu problem%s; nothing was submitted.", report->total,
                          report->total == 1 ? "" : "s");
    }
    return code == 0;
}

/* A submitter's token is good for the jobs of one user, and never for root's. */
static bool may_run(struct http_request *request, const json_t *tree, const struct job_spec *spec)
{
    if (request->role != ROLE_SUBMITTER) {
        return true;
    }
    if (!text_equal(spec->user, request->user)) {
        http_problem(request, 403, "forbidden", "", "%s may run jobs as %s, not as %s",
                     request->actor, request->user, spec->user);
    } else if (config_bool(tree, "run.allow_root")) {
        http_problem(request, 403, "forbidden", "", "run.allow_root takes an operator");
    }
    return !request->answered;
}

/* ---- submitting ------------------------------------------------------------------------------ */

static int dump_cb(const char *data, size_t size, void *context)
{
    return buf_put(context, data, size) < 0 ? -1 : 0;
}

static json_t *plan_of(const struct core *core, const struct job_spec *spec)
{
    struct layout_shape shape = {.tensor = spec->tensor,
                                 .context = spec->context,
                                 .pipeline = spec->pipeline,
                                 .data = spec->data,
                                 .ranks_per_node = spec->ranks_per_node};
    uint32_t world = 0;
    uint32_t slots = 0;
    uint32_t ready = 0;
    struct err err = {0};
    text_copy(shape.order, sizeof shape.order, spec->order);
    int code = layout_check_shape(&shape, &world, &slots, &err);
    CHECK(code == 0); /* job_spec has checked it */
    for (uint32_t i = 1; i <= core_node_count(core); i++) {
        ready += core_node_usable(core, core_node(core, i)) ? 1 : 0;
    }
    json_t *plan = json_object();
    show_set_text(plan, "name", spec->name);
    show_set_number(plan, "ranks", world);
    show_set_number(plan, "nodes", slots);
    show_set_number(plan, "nodes_ready", ready);
    show_set_number(plan, "spares_reserved", spec->reserve);
    json_object_set_new(plan, "spares_auto", json_boolean(spec->reserve_auto));
    json_object_set_new(plan, "layout",
                        show_layout(spec->tensor, spec->context, spec->pipeline, spec->data,
                                    spec->order, spec->ranks_per_node));
    return json_pack("{s:o}", "plan", plan);
}

/* tree is taken. */
static void submit(struct http_request *request, json_t *tree, struct job_spec *spec)
{
    struct buf text;
    buf_init(&text, SPEC_TEXT_MAX);
    int dumped = json_dump_callback(tree, dump_cb, &text, JOB_SPEC_DUMP);
    json_decref(tree);
    CHECK(dumped == 0); /* job_spec has checked its length */
    spec->text_hash = hash_bytes(HASH_INIT, text.data, text.size);
    struct request ask = {.verb = REQUEST_SUBMIT,
                          .spec = spec,
                          .text = (const char *)text.data,
                          .text_size = (uint32_t)text.size};
    http_ask_core(request, &ask, plan_of(http_core(request), spec)); /* copies all of it */
    buf_done(&text);
}

void route_jobs_submit(struct http_request *request)
{
    struct job_spec spec;
    json_t *tree = NULL;
    bool hold;
    if (!http_query_bool(request, "hold", &hold) || !read_checked(request, &tree, &spec)) {
        return;
    }
    if (!may_run(request, tree, &spec)) {
        json_decref(tree);
        return;
    }
    spec.held_at_submit = hold;
    submit(request, tree, &spec);
}
