/* show_repair.c: how a node that left comes back, as JSON. */
#include "controller/api/show.h"

json_t *show_repair(const struct core *core, const struct node *node)
{
    char next[TEXT_SIZE];
    const bool ever = node->d.repair != REPAIR_NONE || node->d.repair_text[0] != '\0';
    const uint32_t incident = node->d.repair_incident;
    json_t *object = json_object();
    core_repair_next(core, node, next);
    show_set_text(object, "state", WORD(repair_state, node->d.repair));
    show_set_text(object, "lane", WORD(repair_lane, node->d.repair_lane));
    show_set_text(object, "fault_owner", ever ? WORD(fault_owner, node->d.repair_fault) : "");
    show_set_number(object, "try", node->d.repair_try);
    show_set_number(object, "order", node->d.repair_order);
    json_object_set_new(object, "incident",
                        incident != 0 ? json_sprintf("I-%04u", incident) : json_null());
    json_object_set_new(object, "since",
                        ever ? show_service_time(core, node->d.repair_service_ms) : json_null());
    show_set_text(object, "text", node->d.repair_text);
    show_set_text(object, "next", next);
    return object;
}

json_t *show_validation(const struct core *core, const struct node *node)
{
    const bool ever = node->d.validate_service_ms != 0;
    json_t *object = json_object();
    show_set_text(object, "level", WORD(validation, node->d.must_pass));
    json_object_set_new(object, "asked", json_boolean(node->d.validate_asked));
    json_object_set_new(object, "running", json_boolean(node->validate_nonce != 0));
    json_object_set_new(object, "since",
                        ever ? show_service_time(core, node->d.validate_service_ms) : json_null());
    show_set_text(object, "text", node->d.validate_text);
    return object;
}

json_t *show_barred(const struct core *core, const struct node *node)
{
    json_t *list = json_array();
    const struct job *job;
    for (uint32_t i = 0; (job = core_job_at(core, i)) != NULL; i++) {
        if (!core_job_over(job) && core_node_barred(core, job, node)) {
            json_array_append_new(list, show_text(job->d.name));
        }
    }
    return list;
}
