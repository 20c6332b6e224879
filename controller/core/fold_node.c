/* fold_node.c: what records say of nodes and their marks. */
#include <errno.h>
#include <string.h>

#include "controller/core/fold.h"

/* All of it but its marks, which are records of their own, and the place of its reports. */
static void forget(struct core *core, struct node *node)
{
    const uint32_t mark_count = node->mark_count;
    memset(node, 0, sizeof *node);
    node->mark_count = mark_count;
    node->reports = &core->reports[(node - core->nodes) * ATTEMPTS_PER_NODE_MAX];
    node->answer = 255;
}

int fold_node_joined(struct core *core, const struct record *r, struct err *err)
{
    const struct record_node_joined *u = &r->u.node_joined;
    struct node *node = node_at(core, u->node);
    bool again = node != NULL && node->d.removed && text_equal(node->d.name, u->name);
    if (!again && (u->node != core->node_count + 1 || core->node_count >= core->limits.agents)) {
        return err_set(err, -EINVAL, "node %u '%s' does not follow node %u (limit %u)", u->node,
                       u->name, core->node_count, core->limits.agents);
    }
    node = again ? node : &core->nodes[core->node_count++];
    forget(core, node);
    node->d.node = u->node;
    node->d.life = NODE_JOINING;
    node->d.life_service_ms = r->service_ms;
    text_copy(node->d.name, sizeof node->d.name, u->name);
    index_name(core, node);
    core->g.node_next = again ? core->g.node_next : u->node + 1;
    return 0;
}

int fold_node_session(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.node_session.node, &node, err);
    if (code < 0) {
        return code;
    }
    struct record_image_node *to = &node->d;
    const struct record_node_session *from = &r->u.node_session;
    if (!text_equal(to->boot_id, from->boot_id)) {
        to->fact_sequence = 0; /* what was not acknowledged went with the old boot */
    }
    NODE_SESSION_FIELDS(RECORD_COPY, unused)
    node->d.clean = r->u.node_session.clean;
    return 0;
}

int fold_node_moved(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.node_moved.node, &node, err);
    if (code < 0) {
        return code;
    }
    if (node->d.life != r->u.node_moved.from ||
        !node_move_allowed(r->u.node_moved.from, r->u.node_moved.to)) {
        return err_set(err, -EINVAL, "node %s cannot move from %s to %s: it is %s", node->d.name,
                       WORD(node_life, r->u.node_moved.from), WORD(node_life, r->u.node_moved.to),
                       WORD(node_life, node->d.life));
    }
    node->d.life = r->u.node_moved.to;
    node->d.life_service_ms = r->service_ms;
    if (node->d.life == NODE_READY || node->d.life == NODE_PROBATION) {
        core->g.returns += r->u.node_moved.away_ms > 0 ? 1 : 0;
        core->g.returns_ms += r->u.node_moved.away_ms;
        node->d.struck = false;
    }
    if (node->d.life == NODE_PROBATION) {
        node->d.probation_service_ms = r->service_ms + core->config.probation_ms;
    }
    return 0;
}

int fold_node_lost(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.node_lost.node, &node, err);
    if (code == 0) {
        node->d.lost = true;
        node->d.lost_how = r->u.node_lost.how;
    }
    return code;
}

int fold_node_back(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.node_back.node, &node, err);
    if (code == 0) {
        node->d.lost = false;
    }
    return code;
}

int fold_node_removed(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.node_removed.node, &node, err);
    if (code < 0) {
        return code;
    }
    if (node->d.job != 0) {
        return err_set(err, -EINVAL, "node %s still holds a slot", node->d.name);
    }
    core->rounds -= node->probe_ms != 0 ? 1 : 0;
    struct record_image_node d = node->d; /* who it was, to know its agent again */
    forget(core, node);
    node->d = d;
    core->repairs_running -= node->d.repair == REPAIR_ORDERED ? 1 : 0;
    node->d.removed = true;
    node->d.repair = REPAIR_NONE; /* what a hook still says of it changes nothing */
    node->d.must_pass = VALIDATION_NONE;
    node->d.validate_asked = false;
    node->d.lost = false;
    node->d.struck = false; /* it is not waited for */
    return 0;
}

int fold_inventory_accepted(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.inventory_accepted.node, &node, err);
    if (code == 0) {
        node->d.accepted_gpus = r->u.inventory_accepted.gpu_count;
        node->d.accepted_hash = r->u.inventory_accepted.inventory_hash;
    }
    return code;
}

int fold_node_fence(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.node_fence.node, &node, err);
    if (code == 0) {
        node->d.fence = r->u.node_fence.state;
    }
    return code;
}

static void bar(struct node *node, uint32_t job)
{
    uint64_t *jobs = node->d.barred_jobs;
    for (uint32_t i = 0; i < BARRED_MAX; i++) {
        if (jobs[i] == job) {
            return;
        }
    }
    memmove(jobs + 1, jobs, (BARRED_MAX - 1) * sizeof *jobs); /* the oldest goes */
    jobs[0] = job;
}

int fold_strike(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.strike.node, &node, err);
    if (code == 0) {
        node->d.strikes++;
        node->d.strike_service_ms = r->service_ms;
        node->d.strike_milli = r->u.strike.weight_milli;
        node->d.struck = true;
        node->d.struck_service_ms[r->u.strike.owner] = r->service_ms;
        if (r->u.strike.barred) {
            bar(node, r->u.strike.job);
        }
        if (r->u.strike.must_pass > node->d.must_pass) {
            node->d.must_pass = r->u.strike.must_pass;
            node->d.validate_service_ms = r->service_ms;
        }
    }
    return code;
}

int fold_repair_moved(struct core *core, const struct record *r, struct err *err)
{
    const struct record_repair_moved *from = &r->u.repair_moved;
    struct node *node;
    int code = fold_need_node(core, from->node, &node, err);
    if (code < 0) {
        return code;
    }
    if (!repair_move_allowed(node->d.repair, from->repair)) {
        return err_set(err, -EINVAL, "the repair of node %s cannot move from %s to %s",
                       node->d.name, WORD(repair_state, node->d.repair),
                       WORD(repair_state, from->repair));
    }
    core->repairs_running -= node->d.repair == REPAIR_ORDERED ? 1 : 0;
    core->repairs_running += from->repair == REPAIR_ORDERED ? 1 : 0;
    core->repair_stirred = true;
    struct record_image_node *to = &node->d;
    REPAIR_FIELDS(RECORD_COPY, unused)
    node->d.repair_service_ms = r->service_ms;
    node->repair_would = false;
    if (from->repaired) {
        node->d.probation_service_ms = r->service_ms + core->config.probation_ms;
    }
    return 0;
}

int fold_validation_set(struct core *core, const struct record *r, struct err *err)
{
    const struct record_validation_set *from = &r->u.validation_set;
    struct node *node;
    int code = fold_need_node(core, from->node, &node, err);
    if (code < 0) {
        return code;
    }
    struct record_image_node *to = &node->d;
    VALIDATION_FIELDS(RECORD_COPY, unused)
    node->d.validate_service_ms = r->service_ms;
    if (from->forgiven) {
        memset(node->d.barred_jobs, 0, sizeof node->d.barred_jobs);
    }
    return 0;
}

int fold_image_node(struct core *core, const struct record *r, struct err *err)
{
    if (r->u.image_node.node != core->node_count + 1 || core->node_count >= core->limits.agents) {
        return err_set(err, -EINVAL, "node %u of the snapshot is out of order",
                       r->u.image_node.node);
    }
    struct node *node = &core->nodes[core->node_count++];
    forget(core, node);
    node->d = r->u.image_node;
    core->repairs_running += node->d.repair == REPAIR_ORDERED ? 1 : 0;
    index_name(core, node);
    return 0;
}

void fold_fact_sequence(struct node *node, uint64_t sequence)
{
    if (node != NULL && sequence > node->d.fact_sequence) {
        node->d.fact_sequence = sequence;
    }
}

/* ---- marks ---------------------------------------------------------------------------------- */

static uint32_t mark_index(const struct core *core, uint32_t node, uint8_t owner, const char *code)
{
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (d->node == node && d->owner == owner && text_equal(d->code, code)) {
            return i;
        }
    }
    return UINT32_MAX;
}

static void mark_fill(struct record_image_mark *to, const struct record_mark_set *from)
{
    RECORD_mark_set(RECORD_COPY, unused)
}

int fold_mark_set(struct core *core, const struct record *r, struct err *err)
{
    const struct record_mark_set *u = &r->u.mark_set;
    struct node *node;
    int code = fold_need_node(core, u->node, &node, err);
    if (code < 0) {
        return code;
    }
    uint32_t at = mark_index(core, u->node, u->owner, u->code);
    if (at == UINT32_MAX) {
        if (core_mark_count(core, u->node) >= MARKS_PER_NODE) {
            return err_set(err, -EINVAL, "node %s has %d marks already", node->d.name,
                           MARKS_PER_NODE);
        }
        at = core->mark_count++;
        node->mark_count++;
        memset(&core->marks[at], 0, sizeof core->marks[at]);
        core->marks[at].d.since_service_ms = r->service_ms;
        core->marks[at].d.since_wall_ms = r->wall_ms;
    }
    mark_fill(&core->marks[at].d, u);
    core->repair_stirred = true;
    fold_fact_sequence(node, u->fact_sequence);
    return 0;
}

int fold_mark_cleared(struct core *core, const struct record *r, struct err *err)
{
    const struct record_mark_cleared *u = &r->u.mark_cleared;
    uint32_t at = mark_index(core, u->node, u->owner, u->code);
    if (at == UINT32_MAX) {
        return err_set(err, -EINVAL, "node %u has no mark %s/%s", u->node,
                       WORD(mark_owner, u->owner), u->code);
    }
    fold_drop_at(core->marks, &core->mark_count, at, sizeof *core->marks);
    core->repair_stirred = true;
    struct node *node = node_at(core, u->node);
    CHECK(node != NULL && node->mark_count > 0);
    node->mark_count--;
    if (u->owner == MARK_RECOVERY && text_equal(u->code, "unproven")) {
        node->d.fence = FENCE_NONE; /* the next time is another one */
    }
    return 0;
}

int fold_image_mark(struct core *core, const struct record *r, struct err *err)
{
    struct node *node;
    int code = fold_need_node(core, r->u.image_mark.node, &node, err);
    if (code < 0) {
        return code;
    }
    if (core_mark_count(core, node->d.node) >= MARKS_PER_NODE) {
        return err_set(err, -EINVAL, "node %s has %d marks already", node->d.name, MARKS_PER_NODE);
    }
    core->marks[core->mark_count++].d = r->u.image_mark;
    node->mark_count++;
    return 0;
}
