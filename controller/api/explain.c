/* explain.c: why a verdict is what it is: the rule that decided, the facts that it looked at, and
 * what was tried before it. Worked out anew from what is kept of the incident, so nodes that have
 * left since, and what was forgotten of the past, may make it tell less than the judge saw. */
#include "controller/api/http.h"
#include "controller/api/show.h"
#include "controller/core/judge_case.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static json_t *rule_of(const struct judge_rule_text *rule)
{
    json_t *object = json_object();
    show_set_text(object, "rule", rule->name);
    show_set_text(object, "when", rule->when);
    show_set_text(object, "then", rule->then);
    return object;
}

static uint32_t find_rule(const char *name)
{
    uint32_t index = 0;
    while (judge_rule_text(index) != NULL && !text_equal(judge_rule_text(index)->name, name)) {
        index++;
    }
    return index;
}

/* Rules that stand before the one that decided, with how much there was of what they look at. */
static json_t *ruled_out(const struct judge_explanation *told, uint32_t rule)
{
    json_t *list = json_array();
    for (uint32_t index = 0; index < rule; index++) {
        json_t *one = rule_of(judge_rule_text(index));
        show_set_number(one, "facts", index < told->rule ? told->seen[index] : 0);
        json_array_append_new(list, one);
    }
    return list;
}

json_t *explain_incident(const struct core *core, const struct incident *incident)
{
    uint32_t rule = find_rule(incident->d.rule);
    if (!incident->d.judged || judge_rule_text(rule) == NULL) {
        return json_null(); /* not judged, or by the rules of another version */
    }
    struct judge_case *one = mem_alloc(1, sizeof(*one));
    struct judge_explanation told;
    judge_case_read(core, incident, true, one);
    judge_explain(&one->input, &told);
    json_t *object = rule_of(judge_rule_text(rule));
    json_t *used = json_array();
    for (uint32_t index = 0; told.rule == rule && index < told.used_count; index++) {
        json_array_append_new(used, json_integer(told.used[index]));
    }
    json_object_set_new(object, "facts_used", used);
    show_set_number(object, "followers", told.followers);
    show_set_number(object, "noise", told.noise);
    json_object_set_new(object, "ruled_out", ruled_out(&told, rule));
    mem_free(one);
    return object;
}

void route_rules(struct http_request *request)
{
    json_t *list = json_array();
    for (uint32_t index = 0; judge_rule_text(index) != NULL; index++) {
        json_array_append_new(list, rule_of(judge_rule_text(index)));
    }
    json_t *object = json_object();
    json_object_set_new(object, "items", list);
    http_answer(request, 200, object);
}
