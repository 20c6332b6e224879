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

/* Whether this request takes any mark of the node away, and whether one of them says that something
 * is wrong with it. */
static bool takes_marks(const struct core *core, const struct request *request,
                        const struct node *node, bool *ret_health)
{
    bool takes = node->d.repair == REPAIR_PERSON;
    *ret_health = takes;
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        bool own = d->owner == MARK_OPERATOR;
        bool named = request->clear_code[0] != '\0' && text_equal(d->code, request->clear_code);
        if (d->node == node->d.node && (own || named)) {
            takes = true;
        }
        *ret_health = *ret_health || (d->node == node->d.node && d->owner == MARK_HEALTH);
    }
    return takes || (request->accept_inventory && *ret_health);
}

/* Given back by a person: it must show that it is fit, or the person vouches for it. Before the marks
 * go: without them it would be used at once. */
static void undrain_validation(struct core *core, const struct request *request, struct node *node)
{
    bool health;
    bool takes = takes_marks(core, request, node, &health);
    bool waits = node->d.must_pass != VALIDATION_NONE;
    char why[TEXT_SIZE];
    if (node->d.job != 0 || node->d.repair == REPAIR_ORDERED) {
        return;
    }
    if (request->skip_validation && (takes || waits)) {
        validate_waive(core, node, request->actor, request->reason);
    } else if (takes) {
        text_format(why, sizeof why, "given back by %s", request->actor);
        validate_require(core, node, health ? VALIDATION_FULL : VALIDATION_QUICK, false, why);
    }
}

/* Takes the operator's own marks away, and any mark whose code is named. Says what remains. */
static void undrain_one(struct core *core, const struct request *request, struct node *node,
                        bool only_cordon)
{
    if (only_cordon) {
        mark_clear(core, node, MARK_OPERATOR, "cordon", request->actor, request->reason);
        return;
    }
    undrain_validation(core, request, node);
    if (node->d.barred_jobs[0] != 0) {
        validate_forgive(core, node, request->actor, request->reason);
    }
    mark_clear(core, node, MARK_OPERATOR, "cordon", request->actor, request->reason);
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
    (void)repair_give_back(core, node, request); /* the answer says what is left */
    node_settle(core, node);
}

/* What follows for those that were given back. */
static void say_undrained(struct core *core, const struct request *request)
{
    uint32_t repairs = 0;
    uint32_t full = 0;
    uint32_t quick = 0;
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct node *node = core_node(core, request->nodes[i]);
        repairs += node->d.repair != REPAIR_NONE ? 1 : 0;
        full += node->d.must_pass == VALIDATION_FULL ? 1 : 0;
        quick += node->d.must_pass == VALIDATION_QUICK ? 1 : 0;
    }
    const char *nodes = text_plural(request->node_count, "node", "nodes");
    if (repairs > 0) {
        request_reply(core, request, 0, 0, true,
                      "%u %s; %u %s being repaired: checked once that has ended, then spare",
                      request->node_count, nodes, repairs, text_plural(repairs, "is", "are"));
    } else if (full > 0) {
        request_reply(core, request, 0, 0, true, "%u %s: validating (full), then spare",
                      request->node_count, nodes);
    } else if (quick > 0) {
        request_reply(core, request, 0, 0, true, "%u %s: validating (quick), then spare",
                      request->node_count, nodes);
    } else {
        request_reply(core, request, 0, 0, true, "%u %s: checked, then spare", request->node_count,
                      nodes);
    }
}

void request_undrain(struct core *core, const struct request *request, bool only_cordon)
{
    if (!nodes_exist(core, request)) {
        return;
    }
    if (request->skip_validation && request->reason[0] == '\0') {
        request_reply(core, request, -EINVAL, 0, false,
                      "validation is not skipped without a reason: who vouches for %s, and why; "
                      "nothing was changed",
                      text_plural(request->node_count, "the node", "the nodes"));
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
    } else if (only_cordon || request->dry_run) {
        request_reply(core, request, 0, 0, true, "%u %s: checked, then spare", request->node_count,
                      text_plural(request->node_count, "node", "nodes"));
    } else {
        say_undrained(core, request);
    }
}

/* A job would notice what is asked of them. */
static bool hold_no_slot(struct core *core, const struct request *request)
{
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct node *node = core_node(core, request->nodes[i]);
        const struct job *job = core_job(core, node->d.job);
        if (job != NULL) {
            request_reply(core, request, -EBUSY, job->d.job, false,
                          "%s holds slot %u of %s; keepstep drain %s first; nothing was changed",
                          node->d.name, node->d.slot, job->d.name, node->d.name);
            return false;
        }
    }
    return true;
}

void request_validate(struct core *core, const struct request *request)
{
    const char *level = WORD(validation, request->validation);
    char why[TEXT_SIZE];
    if (!nodes_exist(core, request) || !hold_no_slot(core, request)) {
        return;
    }
    for (uint32_t i = 0; i < request->node_count; i++) {
        const struct node *node = core_node(core, request->nodes[i]);
        if (node->d.repair != REPAIR_NONE && node->d.repair != REPAIR_PERSON) {
            request_reply(core, request, -EBUSY, 0, false,
                          "%s is being repaired and is checked after that: keepstep describe node "
                          "%s; nothing was changed",
                          node->d.name, node->d.name);
            return;
        }
    }
    text_sentence(why, sizeof why, "asked for by %s%s%.100s", request->actor,
                  request->reason[0] != '\0' ? ": " : "", request->reason);
    for (uint32_t i = 0; i < request->node_count && !request->dry_run; i++) {
        struct node *node = node_at(core, request->nodes[i]);
        validate_require(core, node, request->validation, true, why);
        node_settle(core, node);
    }
    if (!request->dry_run) {
        request_audit(core, request, "validate", "nodes", level);
    }
    request_reply(core, request, 0, 0, true,
                  "%u %s: validating (%s); keepstep describe node %s says how it ended",
                  request->node_count, text_plural(request->node_count, "node", "nodes"), level,
                  core_node(core, request->nodes[0])->d.name);
}

void request_remove(struct core *core, const struct request *request)
{
    if (!nodes_exist(core, request) || !hold_no_slot(core, request)) {
        return;
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
