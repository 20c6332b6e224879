/* cluster.c: the controller itself: version, health, counts, automation, foreign ranks. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "proto/base/version.h"

void route_healthz(struct http_request *request)
{
    http_answer_text(request, 200, "text/plain", "ok\n", 3);
}

void route_readyz(struct http_request *request)
{
    char text[LOOP_READY_TEXT_SIZE];
    bool ready = loop_is_ready(http_loop(request), text);
    if (ready) {
        http_answer_text(request, 200, "text/plain", "ready\n", 6);
    } else {
        http_problem(request, 503, "store-unavailable", "", "%s", text);
    }
}

void route_version(struct http_request *request)
{
    const struct record_image_core *g = core_globals(http_core(request));
    json_t *object = json_object();
    show_set_text(object, "version", KEEPSTEP_VERSION);
    show_set_text(object, "cluster_id", g->cluster_id);
    show_set_text(object, "store_id", g->store_id);
    show_set_number(object, "term", g->term);
    http_answer(request, 200, object);
}

static json_t *counts(const struct core *core)
{
    json_t *object = json_object();
    for (uint32_t i = 1; i <= core_node_count(core); i++) {
        const struct node *node = core_node(core, i);
        if (!node->d.removed) {
            const char *word = core_node_state_word(core, node, NULL);
            json_int_t count = json_integer_value(json_object_get(object, word));
            json_object_set_new(object, word, json_integer(count + 1));
        }
    }
    return object;
}

/* ---- automation ------------------------------------------------------------------------------ */

static const char *mode_of(const struct record_image_core *g)
{
    return g->paused ? "paused" : g->observe ? "observe" : "act";
}

static void add_held(json_t *object, const struct core *core)
{
    json_object_set_new(object, "held", json_boolean(core_held(core)));
    show_set_text(object, "held_text", core_held_text(core));
    json_object_set_new(object, "breaker_open", json_boolean(core_globals(core)->breaker_open));
}

void route_cluster(struct http_request *request)
{
    const struct core *core = http_core(request);
    const struct record_image_core *g = core_globals(core);
    char text[LOOP_READY_TEXT_SIZE] = "";
    bool ready = loop_is_ready(http_loop(request), text);
    json_t *object = json_object();
    show_set_text(object, "version", KEEPSTEP_VERSION);
    show_set_text(object, "cluster_id", g->cluster_id);
    show_set_text(object, "store_id", g->store_id);
    show_set_number(object, "term", g->term);
    show_set_number(object, "revision", loop_revision(http_loop(request)));
    json_object_set_new(object, "ready", json_boolean(ready));
    show_set_text(object, "ready_text", ready ? "" : text);
    show_set_text(object, "automation", mode_of(g));
    add_held(object, core);
    json_object_set_new(object, "nodes", counts(core));
    http_answer(request, 200, object);
}

void route_automation(struct http_request *request)
{
    const struct core *core = http_core(request);
    const struct record_image_core *g = core_globals(core);
    json_t *object = json_object();
    show_set_text(object, "mode", mode_of(g));
    show_set_text(object, "cause", g->paused_cause);
    add_held(object, core);
    http_answer(request, 200, object);
}

/* Which of the words the member says; count when it is none of them (answered). */
static size_t read_word(struct http_request *request, const json_t *body, const char *name,
                        const char *const *words, size_t count, const char *all)
{
    const char *word = json_string_value(json_object_get(body, name));
    for (size_t i = 0; word != NULL && i < count; i++) {
        if (text_equal(words[i], word)) {
            return i;
        }
    }
    http_problem(request, 400, "invalid-request", "", "%s: %s", name, all);
    return count;
}

void route_automation_set(struct http_request *request)
{
    static const char *const words[] = {"pause", "resume", "observe", "act"};
    json_t *body = http_body_json(request);
    if (body == NULL) {
        return;
    }
    struct request ask = {.verb = REQUEST_AUTOMATION};
    ask.automation = (uint8_t)read_word(request, body, "mode", words, ARRAY_SIZE(words),
                                        "pause, resume, observe or act");
    bool ok = ask.automation < ARRAY_SIZE(words) &&
              http_member_text(request, body, "reason", ask.reason, sizeof ask.reason);
    json_decref(body);
    if (ok) {
        http_ask_core(request, &ask, NULL);
    }
}

/* ---- foreign ranks --------------------------------------------------------------------------- */

/* Whether its node says now that something of it is alive. */
static bool foreign_runs(const struct core *core, const struct foreign *foreign)
{
    const struct node *node = core_node(core, foreign->d.node);
    for (uint32_t i = 0; node != NULL && i < node->report_count; i++) {
        const struct attempt_report *report = &node->reports[i];
        if (report->job == foreign->d.job && report->attempt == foreign->d.attempt) {
            return !report->empty;
        }
    }
    return false;
}

void route_foreign(struct http_request *request)
{
    const struct core *core = http_core(request);
    const struct foreign *one;
    json_t *items = json_array();
    for (uint32_t i = 0; (one = core_foreign_at(core, i)) != NULL; i++) {
        json_t *object =
            json_pack("{s:I, s:I, s:b, s:b, s:b}", "job", (json_int_t)one->d.job, "attempt",
                      (json_int_t)one->d.attempt, "running", foreign_runs(core, one), "resolved",
                      one->d.resolved, "stopped", one->d.stop);
        json_object_set_new(object, "node", show_node_name(core, one->d.node));
        json_array_append_new(items, object);
    }
    http_answer(request, 200,
                json_pack("{s:I, s:o, s:n}", "revision",
                          (json_int_t)loop_revision(http_loop(request)), "items", items, "next"));
}

void route_foreign_set(struct http_request *request)
{
    static const char *const words[] = {"adopt", "stop"};
    json_t *body = http_body_json(request);
    if (body == NULL) {
        return;
    }
    size_t word = read_word(request, body, "action", words, ARRAY_SIZE(words), "adopt or stop");
    struct request ask = {.verb = word == 1 ? REQUEST_STOP_FOREIGN : REQUEST_ADOPT};
    bool ok = word < ARRAY_SIZE(words) &&
              http_member_text(request, body, "reason", ask.reason, sizeof ask.reason);
    json_decref(body);
    if (ok) {
        http_ask_core(request, &ask, NULL);
    }
}
