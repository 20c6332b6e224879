/* request_nodes.c: what operators ask of nodes: drain, cordon, undrain, remove. As with all requests
 * it is all nodes of the list or none. */
#include <errno.h>

#include "controller/core/impl.h"

static bool nodes_exist(struct core *core, const struct request *request)
{
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct node *node = core_node(core, request->nodes[i]);
        if (node == NULL || node->d.removed) {
            request_reply(core, request, -ENOENT, 0, false,
                          "node %u of the list does not exist; nothing "
                          "was changed",
                          i + 1);
            return false;
        }
    }
    if (request->node_count == 0) {
        request_reply(core, request, -EINVAL, 0, false, "no node is named");
        return false;
    }
    return true;
}

/* All of them can take this mark of an operator, or none gets it. */
static bool marks_fit(struct core *core, const struct request *request, const char *code)
{
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct node *node = core_node(core, request->nodes[i]);
        if (!mark_fits(core, node, MARK_OPERATOR, code)) {
            request_reply(core, request, -ENOSPC, 0, false,
                          "%s has %d marks, which is the most: take old ones away with keepstep "
                          "undrain %s --clear CODE; nothing was changed",
                          node->d.name, MARKS_OF_OTHERS, node->d.name);
            return false;
        }
    }
    return true;
}

/* The job whose slots are to move; NULL: nobody's, or those of more than one. */
static const struct job *only_job(const struct core *core, const struct request *request)
{
    uint32_t id = 0;
    for (uint32_t i = 0; i < request->node_count; i++) {
        uint32_t job = core_node(core, request->nodes[i])->d.job;
        if (job != 0 && id != 0 && job != id) {
            return NULL;
        }
        id = job != 0 ? job : id;
    }
    return core_job(core, id);
}

/* Slots that would have to move now, and the spares there are besides the nodes of the request: of
 * one job, those that it may take. */
static void count_moves(struct core *core, const struct request *request, uint32_t *ret_slots,
                        uint32_t *ret_spares)
{
    const struct job *job = only_job(core, request);
    *ret_slots = 0;
    *ret_spares = 0;
    if (job != NULL) {
        spares_share(core, job);
    }
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        bool may = job != NULL ? spares_may_take(core, job, node) : core_node_usable(core, node);
        *ret_spares += may ? 1 : 0;
    }
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct node *node = core_node(core, request->nodes[i]);
        bool may = job != NULL ? spares_may_take(core, job, node) : core_node_usable(core, node);
        *ret_slots += node->d.job != 0 ? 1 : 0;
        *ret_spares -= may ? 1 : 0;
    }
}

/* When the slots move, and what that costs: of the first job that it meets. */
static void say_when(const struct core *core, const struct request *request, char text[TEXT_SIZE])
{
    const struct job *job = NULL;
    for (uint32_t i = 0; i < request->node_count && job == NULL; i++) {
        job = core_job(core, core_node(core, request->nodes[i])->d.job);
    }
    char how[TEXT_SIZE] = "its file says checkpoint.on_drain: none";
    bool save = request->when == WHEN_CHECKPOINT;
    bool saves = save && job != NULL && job->d.save_on_drain && job_can_save(core, job, how);
    text[0] = '\0';
    if (job == NULL || request->when == WHEN_JOB_END) {
        return;
    }
    if (job->d.state != JOB_RUNNING) {
        text_format(text, TEXT_SIZE, ", %s is %s", job->d.name, WORD(job_state, job->d.state));
    } else if (saves) {
        text_format(text, TEXT_SIZE, ", %s", how);
    } else {
        uint64_t again = job_steps_at_risk(core, job);
        text_format(text, TEXT_SIZE, ", %llu %s of %s done again%s%s", (unsigned long long)again,
                    text_plural(again, "step", "steps"), job->d.name, save ? ": " : "",
                    save ? how : "");
    }
}

void request_drain(struct core *core, const struct request *request)
{
    char when[TEXT_SIZE];
    uint32_t slots;
    uint32_t spares;
    if (!nodes_exist(core, request) || !marks_fit(core, request, "drain")) {
        return;
    }
    count_moves(core, request, &slots, &spares);
    say_when(core, request, when);
    if (request->when != WHEN_JOB_END && slots > spares) {
        request_reply(
            core, request, -ENOSPC, 0, false,
            "%u %s %u %s and %u %s ready; nothing was changed (--when job-end needs none)",
            request->node_count, text_plural(request->node_count, "node holds", "nodes hold"),
            slots, text_plural(slots, "slot", "slots"), spares,
            text_plural(spares, "spare is", "spares are"));
        return;
    }
    for (uint32_t i = 0; i < request->node_count && !request->dry_run; i++) {
        struct node *node = node_at(core, request->nodes[i]);
        mark_set(core, node,
                 &(struct mark_order){.owner = MARK_OPERATOR,
                                      .level = MARK_LEAVE,
                                      .when = request->when,
                                      .code = "drain",
                                      .actor = request->actor,
                                      .text = request->reason});
    }
    if (!request->dry_run) {
        request_audit(core, request, "drain", "nodes", WORD(leave_when, request->when));
    }
    if (slots == 0) {
        request_reply(core, request, 0, 0, true, "%u %s no slot: nothing has to move",
                      request->node_count,
                      text_plural(request->node_count, "node holds", "nodes hold"));
        return;
    }
    if (request->when == WHEN_JOB_END) {
        request_reply(core, request, 0, 0, true, "%u %s %u %s and %s until the job ends",
                      request->node_count,
                      text_plural(request->node_count, "node holds", "nodes hold"), slots,
                      text_plural(slots, "slot", "slots"),
                      text_plural(request->node_count, "keeps it", "keep them"));
        return;
    }
    request_reply(
        core, request, 0, 0, true, "%u %s %u %s; %u of %u ready %s would take %s; when: %s%s",
        request->node_count, text_plural(request->node_count, "node holds", "nodes hold"), slots,
        text_plural(slots, "slot", "slots"), slots, spares, text_plural(spares, "spare", "spares"),
        text_plural(slots, "it", "them"), WORD(leave_when, request->when), when);
}

void request_cordon(struct core *core, const struct request *request)
{
    if (!nodes_exist(core, request) || !marks_fit(core, request, "cordon")) {
        return;
    }
    for (uint32_t i = 0; i < request->node_count && !request->dry_run; i++) {
        mark_set(core, node_at(core, request->nodes[i]),
                 &(struct mark_order){.owner = MARK_OPERATOR,
                                      .level = MARK_NO_NEW,
                                      .when = WHEN_JOB_END,
                                      .code = "cordon",
                                      .actor = request->actor,
                                      .text = request->reason});
    }
    if (!request->dry_run) {
        request_audit(core, request, "cordon", "nodes", "no new use; slots stay");
    }
    request_reply(core, request, 0, 0, true, "%u %s and %s not chosen again", request->node_count,
                  text_plural(request->node_count, "node cordoned; it keeps its slot",
                              "nodes cordoned; they keep their slots"),
                  text_plural(request->node_count, "is", "are"));
}

/* Takes the operator's own marks away, and any mark whose code is named. Says what remains. */
static void undrain_one(struct core *core, const struct request *request, struct node *node,
                        bool only_cordon)
{
    mark_clear(core, node, MARK_OPERATOR, "cordon", request->actor, request->reason);
    if (only_cordon) {
        return;
    }
    mark_clear(core, node, MARK_OPERATOR, "drain", request->actor, request->reason);
    if (text_equal(request->clear_code, "unproven")) {
        mark_waive(core, node, request->actor, request->reason);
    } else if (request->clear_code[0] != '\0' &&
               !text_equal(request->clear_code, "quarantined")) { /* no word makes it good */
        for (uint8_t owner = 0; owner < mark_owner_count; owner++) {
            mark_clear(core, node, owner, request->clear_code, request->actor, request->reason);
        }
    }
    if (request->accept_inventory) {
        node_accept_inventory(core, node);
        mark_clear(core, node, MARK_HEALTH, "inventory", request->actor, request->reason);
    }
}

void request_undrain(struct core *core, const struct request *request, bool only_cordon)
{
    if (!nodes_exist(core, request)) {
        return;
    }
    for (uint32_t i = 0; i < request->node_count && !request->dry_run; i++) {
        undrain_one(core, request, node_at(core, request->nodes[i]), only_cordon);
    }
    uint32_t left = 0;
    const struct mark *example = NULL; /* one taken away moves the others: looked for afterwards */
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct mark *mark = core_mark(core, request->nodes[i], 0);
        left += mark != NULL ? 1 : 0;
        example = mark != NULL ? mark : example;
    }
    if (!request->dry_run) {
        request_audit(core, request, only_cordon ? "uncordon" : "undrain", "nodes",
                      "marks cleared");
    }
    if (left > 0 && !request->dry_run) {
        request_reply(core, request, 0, 0, true, "%u %s; %u still marked, such as %s by %s/%s: %s",
                      request->node_count, text_plural(request->node_count, "node", "nodes"), left,
                      core->nodes[example->d.node - 1].d.name, WORD(mark_owner, example->d.owner),
                      example->d.code, example->d.text);
    } else {
        request_reply(core, request, 0, 0, true, "%u %s: checked, then spare", request->node_count,
                      text_plural(request->node_count, "node", "nodes"));
    }
}

void request_remove(struct core *core, const struct request *request)
{
    if (!nodes_exist(core, request)) {
        return;
    }
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct node *node = core_node(core, request->nodes[i]);
        const struct job *job = core_job(core, node->d.job);
        if (job != NULL) {
            request_reply(core, request, -EBUSY, job->d.job, false,
                          "%s holds slot %u of %s; keepstep "
                          "drain %s first; nothing was changed",
                          node->d.name, node->d.slot, job->d.name, node->d.name);
            return;
        }
    }
    for (uint32_t i = 0; i < request->node_count && !request->dry_run; i++) {
        struct node *node = node_at(core, request->nodes[i]);
        node_remove(core, node, request);
    }
    if (!request->dry_run) {
        request_audit(core, request, "remove", "nodes",
                      "forgotten; a later start of its agent is new");
    }
    request_reply(core, request, 0, 0, true, "%u %s removed", request->node_count,
                  text_plural(request->node_count, "node", "nodes"));
}
