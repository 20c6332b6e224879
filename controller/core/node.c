/* node.c: who a node is, which of its lives counts, and where it stands.
 *
 *   joining --> checking --> ready <--> active --> leaving
 *                  |  ^        |          |           |
 *                  |  |        v          v           v
 *                  |  +------ out <-------+-----------+
 *                  v          ^
 *               probation ----+            (probation may also become active: the last choice)
 *
 * A node is `out` exactly when it has no slot and any mark, is lost or being repaired (repair.c). It
 * comes back only through `checking`, where it shows that it is fit (validate.c). The moves are the table below; node_settle() makes those that follow from facts. */
#include <string.h>

#include "controller/core/impl.h"
#include "controller/core/judge_rules.h"

#define TO(life) (1u << (life))
static const uint8_t moves[node_life_count] = {
    [NODE_JOINING] = TO(NODE_CHECKING) | TO(NODE_OUT),
    [NODE_CHECKING] = TO(NODE_READY) | TO(NODE_PROBATION) | TO(NODE_OUT) | TO(NODE_ACTIVE),
    [NODE_READY] = TO(NODE_ACTIVE) | TO(NODE_OUT) | TO(NODE_CHECKING),
    [NODE_ACTIVE] = TO(NODE_LEAVING) | TO(NODE_READY) | TO(NODE_OUT) | TO(NODE_CHECKING),
    [NODE_LEAVING] = TO(NODE_OUT) | TO(NODE_ACTIVE) | TO(NODE_CHECKING),
    [NODE_OUT] = TO(NODE_CHECKING),
    [NODE_PROBATION] = TO(NODE_READY) | TO(NODE_ACTIVE) | TO(NODE_OUT) | TO(NODE_CHECKING),
};

bool node_move_allowed(uint8_t from, uint8_t to)
{
    return from < node_life_count && to < node_life_count && (moves[from] & TO(to)) != 0;
}

void node_move(struct core *core, struct node *node, uint8_t to, const char *cause)
{
    if (node->d.life == to) {
        return;
    }
    struct record *record = record_begin(core, RECORD_node_moved_kind);
    record->u.node_moved.node = node->d.node;
    record->u.node_moved.from = node->d.life;
    record->u.node_moved.to = to;
    bool usable = to == NODE_READY || to == NODE_PROBATION;
    record->u.node_moved.away_ms = usable && node->d.struck ? rates_away_ms(core, node) : 0;
    record->node = node->d.node;
    record->job = node->d.job;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "NodeMoved", SEVERITY_INFO, "%s -> %s: %s", WORD(node_life, node->d.life),
                WORD(node_life, to), cause);
    core->repair_stirred = core->repair_stirred || node->d.life == NODE_OUT;
    core_emit(core, record);
    if (to == NODE_READY || to == NODE_PROBATION) {
        core->look = true; /* somebody may wait for it */
    }
}

/* ---- marks ---------------------------------------------------------------------------------- */

const struct mark *mark_find(const struct core *core, uint32_t node, uint8_t owner,
                             const char *code)
{
    uint32_t left = core_mark_count(core, node); /* most nodes have none, and all are asked */
    for (uint32_t i = 0; i < core->mark_count && left > 0; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (d->node == node && d->owner == owner && text_equal(d->code, code)) {
            return &core->marks[i];
        }
        left -= d->node == node ? 1 : 0;
    }
    return NULL;
}

bool node_marked(const struct core *core, const struct node *node)
{
    (void)core;
    return node->mark_count > 0 || node->d.repair != REPAIR_NONE;
}

bool node_leaves(const struct core *core, const struct node *node, uint8_t *ret_when)
{
    bool leaves = false;
    for (uint32_t i = 0; i < core->mark_count && node->mark_count > 0; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (d->node == node->d.node && d->level == MARK_LEAVE) {
            /* the most urgent of several marks: now before checkpoint before job-end */
            uint8_t when = d->when;
            bool sooner = !leaves || when == WHEN_NOW ||
                          (when == WHEN_CHECKPOINT && *ret_when == WHEN_JOB_END);
            if (sooner) {
                *ret_when = when;
            }
            leaves = true;
        }
    }
    return leaves;
}

bool mark_fits(const struct core *core, const struct node *node, uint8_t owner, const char *code)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        others += d->node == node->d.node && d->owner != MARK_RECOVERY ? 1 : 0;
    }
    return owner == MARK_RECOVERY || others < MARKS_OF_OTHERS ||
           mark_find(core, node->d.node, owner, code) != NULL;
}

/* The node is out of use by those that it has; what the next would have said is kept as an event. */
static void refuse_mark(struct core *core, const struct node *node, const struct mark_order *order)
{
    struct record *record = record_begin(core, RECORD_acted_kind);
    text_copy(record->u.acted.actor, NAME_SIZE, order->actor);
    text_copy(record->u.acted.verb, NAME_SIZE, "mark-refused");
    text_copy(record->u.acted.reason, TEXT_SIZE, order->text);
    text_copy(record->u.acted.result, TEXT_SIZE, order->code);
    record->node = node->d.node;
    record->job = node->d.job;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "MarkRefused", SEVERITY_ERROR,
                "it has %d marks already, %s/%s is not kept: %s; keepstep undrain --clear takes "
                "old ones away",
                MARKS_OF_OTHERS, WORD(mark_owner, order->owner), order->code, order->text);
    core_emit(core, record);
}

void mark_set(struct core *core, struct node *node, const struct mark_order *order)
{
    const struct mark *old = mark_find(core, node->d.node, order->owner, order->code);
    if (old != NULL && old->d.level == order->level && old->d.when == order->when &&
        old->d.job == order->job && old->d.attempt == order->attempt) {
        return;
    }
    if (old == NULL && !mark_fits(core, node, order->owner, order->code)) {
        refuse_mark(core, node, order);
        return;
    }
    struct record *record = record_begin(core, RECORD_mark_set_kind);
    struct record_mark_set *u = &record->u.mark_set;
    u->node = node->d.node;
    u->owner = order->owner;
    u->level = order->level;
    u->when = order->when;
    u->incident = order->incident;
    u->job = order->job;
    u->attempt = order->attempt;
    u->fact_sequence = order->fact_sequence;
    u->lane = order->lane;
    u->fault = order->fault;
    text_copy(u->code, sizeof u->code, order->code);
    text_copy(u->actor, sizeof u->actor, order->actor);
    text_copy(u->text, sizeof u->text, order->text);
    record->node = node->d.node;
    record->job = node->d.job;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "MarkSet", order->level == MARK_LEAVE ? SEVERITY_WARN : SEVERITY_INFO,
                "%s/%s (%s): %s", WORD(mark_owner, order->owner), order->code,
                WORD(mark_level, order->level), order->text);
    core_emit(core, record);
    node_settle(core, node);
}

void mark_waive(struct core *core, struct node *node, const char *actor, const char *reason)
{
    const struct mark *old = mark_find(core, node->d.node, MARK_RECOVERY, "unproven");
    if (old == NULL || old->d.waived) {
        return;
    }
    struct record *record = record_begin(core, RECORD_mark_set_kind);
    struct record_mark_set *to = &record->u.mark_set;
    const struct record_image_mark *from = &old->d;
    RECORD_mark_set(RECORD_COPY, unused) to->waived = true;
    text_copy(to->actor, sizeof to->actor, actor);
    text_format(to->text, sizeof to->text,
                "vouched for by %s%s%s: goes when its agent finds nothing", actor,
                reason[0] != '\0' ? ", " : "", reason);
    record->node = node->d.node;
    record->job = node->d.job;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "MarkWaived", SEVERITY_WARN, "recovery/unproven: %s", to->text);
    core_emit(core, record);
    desired_send_node(core, node);
}

void mark_clear(struct core *core, struct node *node, uint8_t owner, const char *code,
                const char *actor, const char *text)
{
    if (mark_find(core, node->d.node, owner, code) == NULL) {
        return;
    }
    struct record *record = record_begin(core, RECORD_mark_cleared_kind);
    struct record_mark_cleared *u = &record->u.mark_cleared;
    u->node = node->d.node;
    u->owner = owner;
    text_copy(u->code, sizeof u->code, code);
    text_copy(u->actor, sizeof u->actor, actor);
    text_copy(u->text, sizeof u->text, text);
    record->node = node->d.node;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "MarkCleared", SEVERITY_INFO, "%s/%s by %s: %s", WORD(mark_owner, owner),
                u->code, actor, text);
    core_emit(core, record);
    node_settle(core, node);
}

/* ---- life follows facts --------------------------------------------------------------------- */

static bool proven_empty(struct core *core, struct node *node)
{
    const struct mark *mark = mark_find(core, node->d.node, MARK_RECOVERY, "unproven");
    if (mark == NULL) {
        return true;
    }
    if (node->link != LINK_UP || !node->reported) {
        return false;
    }
    if (mark->d.job == 0) {
        return report_empty(node);
    }
    /* After a waiver the agent may find nothing and forget the attempt between two beats. */
    return report_gone(node, mark->d.job, mark->d.attempt) ||
           (mark->d.waived && !report_lives(node, mark->d.job, mark->d.attempt));
}

/* checking -> ready or probation; everything that a node must show before it may be used. */
static void finish_checking(struct core *core, struct node *node)
{
    if (node->link != LINK_UP || !node->reported || !node->checks_ok || !report_empty(node)) {
        return;
    }
    if (node->d.must_pass != VALIDATION_NONE) {
        validate_look(core, node); /* it settles again */
        return;
    }
    bool late = node->d.probation_service_ms > service_now(core);
    bool unclean = !node->d.clean;
    if (unclean || late) {
        node_move(core, node, NODE_PROBATION,
                  unclean ? "checks passed after an unclean stop"
                          : "checks passed, still on probation");
    } else {
        node_move(core, node, NODE_READY, "checks passed");
    }
}

void node_settle(struct core *core, struct node *node)
{
    if (node->set_aside || node->d.removed) {
        return; /* whatever its life was: nothing is concluded from it */
    }
    if (!node->d.lost && proven_empty(core, node) &&
        mark_find(core, node->d.node, MARK_RECOVERY, "unproven") != NULL) {
        mark_clear(core, node, MARK_RECOVERY, "unproven", "keepstep", "its agent proved it empty");
        return; /* mark_clear settles again */
    }
    uint8_t when = WHEN_NOW;
    bool leaves = node_leaves(core, node, &when);
    bool marked = node_marked(core, node) || node->d.lost;
    bool holds = node->d.job != 0;
    switch (node->d.life) {
    case NODE_JOINING:
        if (node->d.incarnation != 0) {
            node_move(core, node, NODE_CHECKING, "its agent said hello");
            node_settle(core, node);
        }
        return;
    case NODE_ACTIVE:
    case NODE_LEAVING:
        if (!holds) {
            node_move(core, node, marked ? NODE_OUT : NODE_CHECKING,
                      marked ? "left its slot" : "released");
            node_settle(core, node);
        } else if (leaves != (node->d.life == NODE_LEAVING)) {
            node_move(core, node, leaves ? NODE_LEAVING : NODE_ACTIVE,
                      leaves ? "to leave its slot" : "may stay");
        }
        return;
    case NODE_READY:
    case NODE_PROBATION:
    case NODE_CHECKING:
        if (holds) {
            node_move(core, node, NODE_ACTIVE, "took a slot");
        } else if (marked) {
            node_move(core, node, NODE_OUT, "marked");
        } else if (node->d.life == NODE_CHECKING) {
            finish_checking(core, node);
        } else if (node->checks_bad) {
            node_move(core, node, NODE_CHECKING, "its own checks fail");
        } else if (node->d.must_pass != VALIDATION_NONE) {
            node_move(core, node, NODE_CHECKING, "to show that it is fit");
            finish_checking(core, node);
        } else if (node->d.life == NODE_PROBATION &&
                   node->d.probation_service_ms <= service_now(core)) {
            node_move(core, node, NODE_READY, "probation is over");
        }
        return;
    case NODE_OUT:
        if (holds) { /* only when it is adopted with what it runs */
            node_move(core, node, NODE_CHECKING, "its slot was adopted");
            node_settle(core, node);
        } else if (!marked) {
            node_move(core, node, NODE_CHECKING, "no mark is left");
            finish_checking(core, node);
        } else {
            validate_look(core, node);
        }
        return;
    default:
        CHECK(false);
    }
}

/* ---- sessions ------------------------------------------------------------------------------- */

static void refuse(struct core *core, uint64_t session, uint8_t result, const char *text)
{
    struct action *action = action_begin(core, ACTION_SEND);
    action->message = MSG_WELCOME;
    action->session = session;
    action->u.welcome.result = result;
    action->u.welcome.term = core->g.term;
    text_copy(action->u.welcome.cluster_id, CLUSTER_ID_SIZE, core->g.cluster_id);
    text_copy(action->u.welcome.text, TEXT_SIZE, text);
    action = action_begin(core, ACTION_CLOSE);
    action->session = session;
    text_copy(action->u.text, TEXT_SIZE, text);
    core_trace(core, "session %llu refused: %s", (unsigned long long)session, text);
}

/* id: the next one, or that of a removed node of the same name. */
static struct node *join(struct core *core, const struct msg_hello *hello, uint32_t id)
{
    bool again = id <= core->node_count;
    struct record *record = record_begin(core, RECORD_node_joined_kind);
    record->u.node_joined.node = id;
    text_copy(record->u.node_joined.name, NAME_SIZE, hello->node);
    record->node = id;
    record_subject(record, "node/%s", hello->node);
    record_says(record, "NodeJoined", SEVERITY_INFO, "%s, from %s",
                again ? "as a new node, after it was removed" : "first contact", hello->address);
    core_emit(core, record);
    return &core->nodes[id - 1];
}

/* The very agent whose node was removed: not a later start of it, and not another boot. */
static bool is_retired(const struct node *node, const struct msg_hello *hello)
{
    return node->d.removed && text_equal(node->d.boot_id, hello->boot_id) &&
           hello->incarnation <= node->d.incarnation;
}

/* Those that wait for its old session to answer a ping, too. */
void node_remove(struct core *core, struct node *node, const struct request *request)
{
    uint64_t session = node->session;
    struct record *record = record_begin(core, RECORD_node_removed_kind);
    record->u.node_removed.node = node->d.node;
    record->node = node->d.node;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "NodeRemoved", SEVERITY_INFO, "by %s: %s", request->actor, request->reason);
    core_emit(core, record);
    const struct mark *mark;
    while ((mark = core_mark(core, node->d.node, 0)) != NULL) {
        char code[NAME_SIZE];
        text_copy(code, sizeof code, mark->d.code);
        mark_clear(core, node, mark->d.owner, code, request->actor, "the node is removed");
    }
    if (session != 0) {
        struct action *action = action_begin(core, ACTION_CLOSE);
        action->session = session;
        text_copy(action->u.text, TEXT_SIZE, "this node was removed by an operator");
    }
    for (uint32_t i = 0; i < PENDING_HELLOS_MAX; i++) {
        if (core->hellos[i].session != 0 && core->hellos[i].node == node->d.node) {
            refuse(core, core->hellos[i].session, HELLO_RETIRED, "this node was just removed");
            core->hellos[i].session = 0;
        }
    }
}

static uint64_t inventory_digest(const struct msg_hello *hello)
{
    uint64_t hash = hash_u64(HASH_INIT, hello->inventory.gpu_count);
    for (uint32_t i = 0; i < hello->inventory.gpu_count && i < GPUS_MAX; i++) {
        hash = hash_text(hash, hello->inventory.gpu_uuid[i]);
    }
    return hash_u64(hash, hello->inventory.port_count);
}

static void record_session(struct core *core, struct node *node, const struct msg_hello *hello)
{
    struct record *record = record_begin(core, RECORD_node_session_kind);
    struct record_node_session *u = &record->u.node_session;
    bool new_boot = !text_equal(node->d.boot_id, hello->boot_id);
    u->node = node->d.node;
    u->clean = hello->clean_boot || !new_boot || node->d.boot_id[0] == '\0';
    u->incarnation = hello->incarnation;
    u->peer_port = hello->peer_port;
    u->gpu_count = hello->inventory.gpu_count;
    u->memory_bytes = hello->inventory.memory_bytes;
    u->inventory_hash = inventory_digest(hello);
    text_copy(u->boot_id, BOOT_ID_SIZE, hello->boot_id);
    text_copy(u->address, ADDRESS_SIZE, hello->address);
    text_copy(u->version, NAME_SIZE, hello->version);
    text_copy(u->rack, NAME_SIZE, hello->labels.rack);
    text_copy(u->feed, NAME_SIZE, hello->labels.feed);
    text_copy(u->pool, NAME_SIZE, hello->labels.pool);
    text_copy(u->pod, NAME_SIZE, hello->labels.pod);
    text_copy(u->leaf, NAME_SIZE,
              hello->inventory.port_count > 0 ? hello->inventory.port_leaf[0] : "");
    record->node = node->d.node;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "AgentStarted", SEVERITY_INFO, "incarnation %llu, version %s%s",
                (unsigned long long)hello->incarnation, hello->version,
                new_boot && node->d.boot_id[0] != '\0' ? ", after a reboot" : "");
    core_emit(core, record);
}

void node_accept_inventory(struct core *core, struct node *node)
{
    struct record *record = record_begin(core, RECORD_inventory_accepted_kind);
    record->u.inventory_accepted.node = node->d.node;
    record->u.inventory_accepted.gpu_count = node->d.gpu_count;
    record->u.inventory_accepted.inventory_hash = node->d.inventory_hash;
    record->node = node->d.node;
    record_subject(record, "node/%s", node->d.name);
    core_emit(core, record);
}

/* Fewer or other GPUs than were accepted: out, until repaired or accepted by an operator. */
static void compare_inventory(struct core *core, struct node *node)
{
    if (node->d.accepted_hash == 0) {
        node_accept_inventory(core, node);
    } else if (node->d.accepted_hash != node->d.inventory_hash) {
        char text[TEXT_SIZE];
        text_format(text, sizeof text,
                    "%u %s, accepted %s %u; repair it or keepstep undrain %s --accept-inventory",
                    node->d.gpu_count, text_plural(node->d.gpu_count, "GPU", "GPUs"),
                    text_plural(node->d.accepted_gpus, "is", "are"), node->d.accepted_gpus,
                    node->d.name);
        mark_set(core, node,
                 &(struct mark_order){.owner = MARK_HEALTH,
                                      .level = MARK_LEAVE,
                                      .when = WHEN_NOW,
                                      .code = "inventory",
                                      .actor = "keepstep",
                                      .text = text});
    } else {
        mark_clear(core, node, MARK_HEALTH, "inventory", "keepstep", "as accepted again");
    }
}

/* The host came back with another boot id: whatever ran there is gone. */
static void rebooted(struct core *core, struct node *node)
{
    if (node->d.job != 0 && !node->d.lost) {
        node_lose(core, node, LOST_REBOOTED);
    }
}

static void welcome(struct core *core, struct node *node, uint64_t session,
                    const struct msg_hello *hello)
{
    if (node->session != 0 && node->session != session) {
        struct action *action = action_begin(core, ACTION_CLOSE);
        action->session = node->session;
        text_copy(action->u.text, TEXT_SIZE, "replaced by a newer session of the same agent");
        node->session = 0;
    }
    bool new_boot = node->d.boot_id[0] != '\0' && !text_equal(node->d.boot_id, hello->boot_id);
    if (new_boot) {
        node->fact_sequence = 0;
        rebooted(core, node);
    }
    node->session = session;
    index_session(core, node);
    node->beat_sequence = 0;
    node->ack_beat = 0;
    node->clock_turn_ms = 0;
    node->beat_sent_ms = 0;
    node->ends_sequence = 0;
    node->closed_ms = 0;
    node->goodbye_ms = 0;
    node->new_session = 0;
    node->run_sent = false;
    node->reported = false; /* what the last session said proves nothing about this one */
    node->report_count = 0;
    node->peers_told = 0;
    node->check_nonce = 0; /* a check on its way was lost with the old session: asked again */
    node->validate_nonce = 0;
    node->minor = (uint16_t)(hello->protocol & 0xffff);
    /* One that has passed its checks is believed until a beat says otherwise; one that has not must
     * wait for its first beat. */
    node->checks_ok = node->d.life == NODE_READY || node->d.life == NODE_PROBATION;
    node->checks_bad = false;
    bool started = node->d.incarnation != hello->incarnation || new_boot;
    if (started) {
        record_session(core, node, hello);
    }
    if (node->d.lost) {
        struct record *record = record_begin(core, RECORD_node_back_kind);
        record->u.node_back.node = node->d.node;
        record->node = node->d.node;
        record_subject(record, "node/%s", node->d.name);
        record_says(record, "NodeBack", SEVERITY_INFO, "its agent answers again");
        core_emit(core, record);
    }
    struct action *action = action_send(core, node, MSG_WELCOME);
    action->u.welcome.result = HELLO_WELCOME;
    action->u.welcome.term = core->g.term;
    text_copy(action->u.welcome.cluster_id, CLUSTER_ID_SIZE, core->g.cluster_id);
    link_beat(core, node);
    compare_inventory(core, node);
    mark_clear(core, node, MARK_HEALTH, "agent-silent", "keepstep", "its agent is heard again");
    if (started) { /* not one that is still on its way out */
        mark_clear(core, node, MARK_REPAIR, "goodbye", "keepstep", "its agent is back");
    }
    node->reported = true;
    report_attempts(core, node, hello->attempts, hello->attempt_count);
    node_settle(core, node);
    desired_send_node(core, node);
    peers_tell(core, node);
    node_ack(core, node);
}

/* Another boot id while the old session still seems to live: ask the old one first. */
static bool hold_duplicate(struct core *core, struct node *node, uint64_t session,
                           const struct msg_hello *hello)
{
    for (uint32_t i = 0; i < PENDING_HELLOS_MAX; i++) {
        if (core->hellos[i].session == 0) {
            core->hellos[i] =
                (struct pending_hello){.session = session, .node = node->d.node, .hello = *hello};
            node->new_session = session;
            action_begin(core, ACTION_PING)->session = node->session;
            return true;
        }
    }
    return false;
}

static void note_old_store(struct core *core, const struct msg_hello *hello)
{
    if (hello->term_seen > core->term_seen) {
        core->term_seen = hello->term_seen;
    }
    if (hello->term_seen > core->g.term && !core->old_store) {
        core->old_store = true;
        text_format(core->held_text, sizeof core->held_text,
                    "node %s has seen term %llu, this store is at %llu: it is older than the "
                    "cluster; keepstep admin adopt moves on from here",
                    hello->node, (unsigned long long)hello->term_seen,
                    (unsigned long long)core->g.term);
        core_trace(core, "automation held: %s", core->held_text);
    }
}

/* The three ways in which one name can say hello twice. true: it may be welcomed now. */
static bool identity_ok(struct core *core, struct node *node, uint64_t session,
                        const struct msg_hello *hello)
{
    bool same_boot = text_equal(node->d.boot_id, hello->boot_id);
    if (same_boot && hello->incarnation < node->d.incarnation) {
        refuse(core, session, HELLO_STALE, "a later start of this agent was here already");
        return false;
    }
    if (!same_boot && node->d.boot_id[0] != '\0' && node->session != 0) {
        if (!hold_duplicate(core, node, session, hello)) {
            refuse(core, session, HELLO_FULL, "too many hellos wait; try again");
        }
        return false;
    }
    return true;
}

void node_hello(struct core *core, uint64_t session, const struct msg_hello *hello)
{
    if (hello->cluster_id[0] != '\0' && !text_equal(hello->cluster_id, core->g.cluster_id)) {
        refuse(core, session, HELLO_WRONG_CLUSTER,
               "this agent belongs to another cluster; its ranks are left alone");
        return;
    }
    uint32_t id = core_node_find(core, hello->node);
    if (id == 0 && core->node_count >= core->limits.agents) {
        char text[TEXT_SIZE];
        text_format(text, sizeof text, "limits.agents is %u; raise it to let more nodes in",
                    core->limits.agents);
        refuse(core, session, HELLO_FULL, text);
        return;
    }
    note_old_store(core, hello);
    struct node *node = id == 0 ? join(core, hello, core->node_count + 1) : node_at(core, id);
    if (is_retired(node, hello)) {
        refuse(core, session, HELLO_RETIRED,
               "this node was removed by an operator; restart its agent to let it join anew");
        return;
    }
    if (node->d.removed) {
        node = join(core, hello, id);
    }
    if (id == 0) {
        core->new_agent_ms = core->t;
    }
    if (node->beat_ms == 0) {
        core->new_agent_ms = core->t; /* first contact in this controller's life */
    }
    if (identity_ok(core, node, session, hello)) {
        welcome(core, node, session, hello);
    }
}

void node_pinged(struct core *core, uint64_t session, bool alive)
{
    for (uint32_t i = 0; i < PENDING_HELLOS_MAX; i++) {
        struct pending_hello *pending = &core->hellos[i];
        struct node *node = pending->session == 0 ? NULL : node_at(core, pending->node);
        if (node == NULL || (node->session != session && node->session != 0)) {
            continue;
        }
        uint64_t waiting = pending->session;
        pending->session = 0;
        if (alive) {
            struct record *record = record_begin(core, RECORD_acted_kind);
            text_copy(record->u.acted.actor, NAME_SIZE, "keepstep");
            text_copy(record->u.acted.verb, NAME_SIZE, "refuse-duplicate");
            record->node = node->d.node;
            record_subject(record, "node/%s", node->d.name);
            record_says(record, "DuplicateNode", SEVERITY_ERROR,
                        "two hosts say they are %s: boot %s at %s stays, boot %s at %s is refused",
                        node->d.name, node->d.boot_id, node->d.address, pending->hello.boot_id,
                        pending->hello.address);
            core_emit(core, record);
            refuse(core, waiting, HELLO_DUPLICATE, "another host with this name is alive");
        } else {
            welcome(core, node, waiting, &pending->hello);
        }
    }
}

void node_closed(struct core *core, uint64_t session)
{
    for (uint32_t i = 0; i < PENDING_HELLOS_MAX; i++) {
        if (core->hellos[i].session == session) {
            core->hellos[i].session = 0;
            return;
        }
    }
    struct node *node = node_by_session(core, session);
    if (node == NULL) {
        return; /* replaced or never welcomed */
    }
    node->session = 0;
    node->closed_ms = core->t;
    node_pinged(core, session, false); /* a duplicate that waited for it may come in */
    if (node->session != 0) {
        return;
    }
    if (node_said_goodbye(core, node) && !node->d.lost) {
        node_lose(core, node, LOST_GONE); /* as it said it would */
    } else if (node->goodbye_ms <= core->t) {
        link_suspect(core, node, "its connection closed");
    }
}

void node_is_broken(struct core *core, struct node *node, const struct node_fault *fault)
{
    uint8_t lane = lane_of(fault->advice);
    mark_set(core, node,
             &(struct mark_order){.owner = MARK_HEALTH,
                                  .level = MARK_LEAVE,
                                  .when = WHEN_NOW,
                                  .code = "fatal-signal",
                                  .actor = "keepstep",
                                  .text = fault->text,
                                  .lane = lane != LANE_NONE ? lane : LANE_DIAG,
                                  .fault = OWNER_HARDWARE,
                                  .fact_sequence = fault->sequence});
    breaker_marked(core, "fatal-signal");
}

uint64_t node_fact_sequence(const struct node *node)
{
    return node->fact_sequence > node->d.fact_sequence ? node->fact_sequence
                                                       : node->d.fact_sequence;
}

/* An agent's patience runs on its own clock, and its beats tell of that one; ours stands still while
 * we do not run, however often that is. */
enum { UNANSWERED_BEATS = 4 };

bool node_wants_ack(const struct core *core, const struct node *node)
{
    bool waits_long = node->beat_sequence - node->ack_beat >= UNANSWERED_BEATS;
    return waits_long || core->t - node->ack_ms >= 2ull * core->config.beat_ms;
}

void node_ack(struct core *core, struct node *node)
{
    if (node->session == 0) {
        return;
    }
    struct action *action = action_send(core, node, MSG_ACK);
    action->u.ack.term = core->g.term;
    action->u.ack.beat_sequence = node->beat_sequence;
    action->u.ack.fact_sequence = node_fact_sequence(node);
    action->u.ack.ends_sequence = node->ends_sequence;
    node->ack_ms = core->t;
    node->ack_beat = node->beat_sequence;
}

void node_goodbye(struct core *core, struct node *node, const struct msg_goodbye *goodbye)
{
    node->goodbye = goodbye->kind;
    if (goodbye->kind == GOODBYE_RESTART) {
        node->goodbye_ms = core->t + 120000;
        core_trace(core, "node %s: its agent restarts: %s", node->d.name, goodbye->text);
        return;
    }
    /* The host goes away on purpose: a planned leave, no strike. */
    mark_set(core, node,
             &(struct mark_order){.owner = MARK_REPAIR,
                                  .level = MARK_LEAVE,
                                  .when = WHEN_NOW,
                                  .code = "goodbye",
                                  .actor = "keepstep",
                                  .text = goodbye->text[0] != '\0' ? goodbye->text
                                                                   : "its host shuts down"});
}

static uint8_t lost_source(uint8_t how)
{
    switch (how) {
    case LOST_AGENT_DOWN:
    case LOST_AGENT_LONG:
    case LOST_FROZEN:
        return FACT_AGENT_DOWN;
    case LOST_GONE:
        return FACT_OPERATOR; /* somebody shut it down: planned, and nobody's fault */
    default:
        return FACT_CONNECTION;
    }
}

static void lost_fact(struct core *core, const struct node *node, struct job *job, uint8_t how)
{
    if (how == LOST_GONE && job->d.recovery != 0 && job->d.ended) {
        return; /* its planned leave is under way */
    }
    struct fact fact = {.source = lost_source(how),
                        .severity = 3,
                        .node = node->d.node,
                        .job = job->d.job,
                        .attempt = job->d.attempt,
                        .rank = -1,
                        .gpu = -1,
                        .port = -1,
                        .receive_ms = core->wall_ms};
    text_format(fact.text, sizeof fact.text, "%s", WORD(lost_how, how));
    uint64_t quiet =
        node->suspect_ms != 0 && core->t > node->suspect_ms ? core->t - node->suspect_ms : 0;
    recovery_fact(core, job, &fact, service_now(core) - quiet);
}

bool node_said_goodbye(const struct core *core, const struct node *node)
{
    return mark_find(core, node->d.node, MARK_REPAIR, "goodbye") != NULL;
}

/* ---- fencing -------------------------------------------------------------------------------- */

enum { FENCE_WAIT_MS = 10000 };

static void record_fence(struct core *core, struct node *node, uint8_t to)
{
    static const char *const says[fence_state_count] = {
        [FENCE_NONE] = "",
        [FENCE_ASKED] = "hooks.fence_node is to cut it off",
        [FENCE_DONE] = "hooks.fence_node has cut it off",
        [FENCE_FAILED] = "hooks.fence_node failed: it may still reach what it shares",
    };
    struct record *record = record_begin(core, RECORD_node_fence_kind);
    record->u.node_fence.node = node->d.node;
    record->u.node_fence.state = to;
    record->node = node->d.node;
    record->job = node->d.job;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "NodeFence", to == FENCE_FAILED ? SEVERITY_ERROR : SEVERITY_INFO, "%s",
                says[to]);
    core_emit(core, record);
}

static void order_fence(struct core *core, struct node *node)
{
    action_begin(core, ACTION_FENCE)->node = node->d.node;
    node->fence_ms = core->t + FENCE_WAIT_MS;
}

void node_fence(struct core *core, struct node *node, uint32_t job, uint32_t attempt,
                const char *text)
{
    if (core->config.fence_hook && job != 0 && node->d.fence == FENCE_NONE) {
        record_fence(core, node, FENCE_ASKED);
        order_fence(core, node);
    }
    mark_set(core, node,
             &(struct mark_order){.owner = MARK_RECOVERY,
                                  .level = MARK_LEAVE,
                                  .when = WHEN_NOW,
                                  .code = "unproven",
                                  .actor = "keepstep",
                                  .job = job,
                                  .attempt = attempt,
                                  .text = text});
}

bool node_fence_waits(const struct core *core, const struct node *node)
{
    return core->t < node->fence_ms && node->d.fence == FENCE_ASKED;
}

void node_fenced(struct core *core, uint32_t id, bool ok)
{
    struct node *node = node_at(core, id);
    if (node != NULL && node->d.fence == FENCE_ASKED) {
        record_fence(core, node, ok ? FENCE_DONE : FENCE_FAILED);
        core->look = true;
    }
}

/* The order was durable before anybody could carry it out: whether it was is not known. */
void node_fence_again(struct core *core)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (core->nodes[i].d.fence == FENCE_ASKED && core->config.fence_hook) {
            order_fence(core, &core->nodes[i]);
        }
    }
}

void node_lose(struct core *core, struct node *node, uint8_t how)
{
    CHECK(!node->d.lost);
    uint32_t job_id = node->d.job;
    uint32_t slot = node->d.slot;
    struct record *record = record_begin(core, RECORD_node_lost_kind);
    record->u.node_lost.node = node->d.node;
    record->u.node_lost.incarnation = node->d.incarnation;
    record->u.node_lost.how = how;
    record->node = node->d.node;
    record->job = job_id;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "NodeLost", SEVERITY_WARN, "%s", WORD(lost_how, how));
    core_emit(core, record);
    if (node->session != 0) {
        /* Whatever it still says on this connection is from before it was lost: hello again. */
        struct action *action = action_begin(core, ACTION_CLOSE);
        action->session = node->session;
        text_copy(action->u.text, TEXT_SIZE, "this node was taken for lost: say hello again");
        node->session = 0;
        node->closed_ms = core->t;
    }

    struct job *job = job_id != 0 ? job_at(core, job_id) : NULL;
    /* Another boot has none of these ranks: the host that is there now is nothing to be cut off. */
    bool may_run = job != NULL && job->d.attempted && job->d.launched && how != LOST_REBOOTED;
    node_fence(core, node, may_run ? job_id : 0, may_run ? job->d.attempt : 0,
               "lost: not used until its agent reports it empty");
    node_settle(core, node);
    if (job != NULL && !(job->slots_done > 0 && slot_at(core, job, slot)->d.done)) {
        lost_fact(core, node, job, how); /* one lost after its ranks ended well changes nothing */
    }
    link_decided(core, node);
}
