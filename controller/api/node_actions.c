/* node_actions.c: POST /v1/node-actions: many nodes, one transaction. All of them or none. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* ---- reading --------------------------------------------------------------------------------- */

struct node_set {
    struct http_request *request;
    uint32_t *ids; /* in the order in which they were named */
    uint32_t count;
    bool *seen; /* by id */
};

static int add_node(const char *name, void *context)
{
    struct node_set *set = context;
    const struct node *node = http_node(set->request, name);
    if (node == NULL) {
        return 1; /* answered */
    }
    if (!set->seen[node->d.node]) {
        set->seen[node->d.node] = true;
        set->ids[set->count++] = node->d.node;
    }
    return 0;
}

static bool read_verb(struct http_request *request, const json_t *body, uint8_t *ret_verb)
{
    static const struct {
        const char *word;
        uint8_t verb;
    } verbs[] = {{"drain", REQUEST_DRAIN},   {"undrain", REQUEST_UNDRAIN},
                 {"cordon", REQUEST_CORDON}, {"uncordon", REQUEST_UNCORDON},
                 {"remove", REQUEST_REMOVE}, {"validate", REQUEST_VALIDATE}};
    const char *word = json_string_value(json_object_get(body, "action"));
    for (size_t i = 0; word != NULL && i < ARRAY_SIZE(verbs); i++) {
        if (text_equal(word, verbs[i].word)) {
            *ret_verb = verbs[i].verb;
            return true;
        }
    }
    http_problem(request, 400, "invalid-request", "",
                 "action: drain, undrain, cordon, uncordon, remove or validate");
    return false;
}

static bool read_when(struct http_request *request, const json_t *body, uint8_t *ret_when)
{
    char word[NAME_SIZE];
    *ret_when = WHEN_CHECKPOINT;
    if (!http_member_text(request, body, "when", word, sizeof word) || word[0] == '\0') {
        return !request->answered;
    }
    for (uint8_t i = 0; i < leave_when_count; i++) {
        if (text_equal(word, leave_when_words[i])) {
            *ret_when = i;
            return true;
        }
    }
    http_problem(request, 400, "invalid-request", "", "when: checkpoint, now or job-end, not %s",
                 word);
    return false;
}

static bool read_level(struct http_request *request, const json_t *body, uint8_t *ret_level)
{
    char word[NAME_SIZE];
    *ret_level = VALIDATION_QUICK;
    if (!http_member_text(request, body, "level", word, sizeof word) || word[0] == '\0') {
        return !request->answered;
    }
    for (uint8_t i = VALIDATION_NONE + 1; i < validation_count; i++) {
        if (text_equal(word, validation_words[i])) {
            *ret_level = i;
            return true;
        }
    }
    http_problem(request, 400, "invalid-request", "", "level: quick or full, not %s", word);
    return false;
}

static bool read_nodes(struct http_request *request, const json_t *body, struct node_set *set)
{
    struct err err = {0};
    const char *list = json_string_value(json_object_get(body, "nodes"));
    if (list == NULL || list[0] == '\0') {
        http_problem(request, 400, "invalid-request", "",
                     "nodes: a hostlist such as gpu-[0001-0016]");
        return false;
    }
    if (hostlist_each(list, add_node, set, &err) < 0) {
        http_problem(request, 400, "invalid-request", "", "nodes: %s", err.text);
    }
    return !request->answered;
}

static bool read_reason(struct http_request *request, const json_t *body, struct request *ask)
{
    if (!http_member_text(request, body, "reason", ask->reason, sizeof ask->reason)) {
        return false;
    }
    bool harmless = ask->verb == REQUEST_UNDRAIN || ask->verb == REQUEST_UNCORDON ||
                    ask->verb == REQUEST_VALIDATE;
    if (ask->reason[0] == '\0' && !harmless) {
        http_problem(request, 400, "invalid-request", "--reason \"why\"", "a reason is required");
        return false;
    }
    return true;
}

static bool read_ask(struct http_request *request, const json_t *body, struct node_set *set,
                     struct request *ask)
{
    return read_verb(request, body, &ask->verb) && read_when(request, body, &ask->when) &&
           read_reason(request, body, ask) &&
           http_member_text(request, body, "clear", ask->clear_code, sizeof ask->clear_code) &&
           http_member_bool(request, body, "accept_inventory", &ask->accept_inventory) &&
           http_member_bool(request, body, "skip_validation", &ask->skip_validation) &&
           read_level(request, body, &ask->validation) && read_nodes(request, body, set);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static bool is_in(const struct core *core, const struct node *node, const void *context)
{
    (void)core;
    const struct node_set *set = context;
    return set->seen[node->d.node];
}

static bool is_other_spare(const struct core *core, const struct node *node, const void *context)
{
    const struct node_set *set = context;
    return core_node_usable(core, node) && !set->seen[node->d.node];
}

static json_t *job_part(const struct core *core, const struct job *job, const struct node_set *set)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        slots += core_node(core, set->ids[i])->d.job == job->d.job ? 1 : 0;
    }
    if (slots == 0) {
        return NULL;
    }
    const struct checkpoint *best = core_checkpoint_best(core, job);
    json_t *part = json_object();
    show_set_text(part, "job", job->d.name);
    show_set_text(part, "state", WORD(job_state, job->d.state));
    show_set_number(part, "slots", slots);
    show_set_number(part, "ranks", (uint64_t)job->slot_count * job->d.ranks_per_node);
    show_set_number(part, "step", job->step);
    json_object_set_new(part, "checkpoint_step",
                        best != NULL ? show_number(best->d.step) : json_null());
    return part;
}

/* Whom the action meets: the nodes folded, their slots by job, and the spares there are besides. */
static json_t *plan_of(const struct core *core, const struct node_set *set, uint8_t when)
{
    uint32_t count;
    uint32_t spares;
    json_t *jobs = json_array();
    const struct job *job;
    for (uint32_t i = 0; (job = core_job_at(core, i)) != NULL; i++) {
        json_t *part = job_part(core, job, set);
        if (part != NULL) {
            json_array_append_new(jobs, part);
        }
    }
    json_t *plan = json_object();
    json_object_set_new(plan, "nodes", show_hostlist(core, is_in, set, &count));
    show_set_number(plan, "node_count", count);
    json_object_set_new(plan, "jobs", jobs);
    json_object_set_new(plan, "spares", show_hostlist(core, is_other_spare, set, &spares));
    show_set_number(plan, "spares_ready", spares);
    show_set_text(plan, "when", leave_when_words[when]);
    return json_pack("{s:o}", "plan", plan);
}

/* ---- the route ------------------------------------------------------------------------------- */

void route_node_actions(struct http_request *request)
{
    const struct core *core = http_core(request);
    struct request ask = {0};
    json_t *body = http_body_json(request);
    if (body == NULL) {
        return;
    }
    size_t size = core_node_count(core) + 1;
    struct node_set set = {.request = request,
                           .ids = mem_alloc(size, sizeof *set.ids),
                           .seen = mem_alloc(size, sizeof *set.seen)};
    if (read_ask(request, body, &set, &ask)) {
        ask.nodes = set.ids;
        ask.node_count = set.count;
        http_ask_core(request, &ask, plan_of(core, &set, ask.when)); /* copies the ids */
    }
    json_decref(body);
    mem_free(set.ids);
    mem_free(set.seen);
}
