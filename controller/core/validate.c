/* validate.c: a node shows that it is fit before it may be used again.
 *
 *   required --heard, and nothing runs there--> asked --passed--> none
 *      ^  ^                                      |  |
 *      |  +--- its session ends: asked anew -----+  +--failed, no answer--> the mark
 *      +------ the mark goes -------------------------- health/validation: it is out, or stays so
 *
 * Required is durable (must_pass): of one that left for a fault, or that an operator gives back.
 * While it is required the life `checking` does not end. A node that is out is asked where its
 * repair has come to that, or where an operator wants to know. The result is a record; what is being
 * asked is not: a new session, or a new controller, asks again. */
#include "controller/core/impl.h"

enum {
    QUICK_MS = 60000,
    FULL_MS = 30 * 60000,
    LATE_SLACK_MS = 10000, /* the agent ends it by itself, and says so */
    REPEAT_MS = 10000,
};

static void set(struct core *core, struct node *node, const struct record_validation_set *to,
                const char *type, uint8_t severity)
{
    struct record *record = record_begin(core, RECORD_validation_set_kind);
    record->u.validation_set = *to;
    record->u.validation_set.node = node->d.node;
    record->node = node->d.node;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, type, severity, "%s", to->validate_text);
    core_emit(core, record);
}

void validate_require(struct core *core, struct node *node, uint8_t level, bool asked,
                      const char *why)
{
    bool usable = node->d.life == NODE_READY || node->d.life == NODE_PROBATION;
    bool first = node->d.must_pass == VALIDATION_NONE;
    struct record_validation_set to = {.must_pass =
                                           level > node->d.must_pass ? level : node->d.must_pass,
                                       .validate_asked = asked,
                                       .validate_spare = first ? usable : node->d.validate_spare};
    if (to.must_pass == node->d.must_pass && !asked) {
        return;
    }
    text_sentence(to.validate_text, TEXT_SIZE, "must pass its %s checks: %s",
                  WORD(validation, to.must_pass), why);
    set(core, node, &to, "ValidationRequired", SEVERITY_INFO);
    node->validate_nonce = 0;
}

void validate_waive(struct core *core, struct node *node, const char *actor, const char *reason)
{
    struct record_validation_set to = {.must_pass = VALIDATION_NONE};
    text_sentence(to.validate_text, TEXT_SIZE, "not checked: skipped by %s: %s", actor, reason);
    set(core, node, &to, "ValidationSkipped", SEVERITY_WARN);
    node->validate_nonce = 0;
}

void validate_forgive(struct core *core, struct node *node, const char *actor, const char *reason)
{
    struct record_validation_set to = {.forgiven = true,
                                       .must_pass = node->d.must_pass,
                                       .validate_asked = node->d.validate_asked,
                                       .validate_spare = node->d.validate_spare};
    text_sentence(to.validate_text, TEXT_SIZE, "may be used by every job again, by %s: %s", actor,
                  reason);
    set(core, node, &to, "NodeForgiven", SEVERITY_INFO);
    core->look = true;
}

static void passed(struct core *core, struct node *node, const char *said)
{
    struct record_validation_set to = {.must_pass = VALIDATION_NONE};
    text_sentence(to.validate_text, TEXT_SIZE, "passed its %s checks%s%s",
                  WORD(validation, node->d.must_pass), said[0] != '\0' ? ": " : "", said);
    set(core, node, &to, "Validated", SEVERITY_INFO);
    if (node->d.repair == REPAIR_VALIDATING) {
        repair_validated(core, node, true, to.validate_text);
    }
    mark_clear(core, node, MARK_HEALTH, "validation", "keepstep", to.validate_text);
    node_settle(core, node);
}

static void failed(struct core *core, struct node *node, const char *said)
{
    struct record_validation_set to = {.must_pass = node->d.must_pass,
                                       .validate_spare = node->d.validate_spare};
    text_sentence(to.validate_text, TEXT_SIZE, "failed its %s checks: %s",
                  WORD(validation, node->d.must_pass),
                  said[0] != '\0' ? said : "it does not say why");
    set(core, node, &to, "ValidationFailed", SEVERITY_WARN);
    bool mended = node->d.repair == REPAIR_VALIDATING;
    mark_set(core, node,
             &(struct mark_order){.owner = MARK_HEALTH,
                                  .level = MARK_LEAVE,
                                  .when = WHEN_NOW,
                                  .code = "validation",
                                  .actor = "keepstep",
                                  .incident = mended ? node->d.repair_incident : 0,
                                  .lane = LANE_DIAG,
                                  .fault = OWNER_HARDWARE,
                                  .text = to.validate_text});
    if (mended) {
        repair_validated(core, node, false, to.validate_text);
    } else if (node->d.validate_spare) {
        breaker_marked(core, "validation");
    }
}

static void ended(struct core *core, struct node *node, bool ok, const char *said)
{
    node->validate_nonce = 0;
    core->look = true;
    (ok ? passed : failed)(core, node, said);
}

static bool is_due(const struct node *node)
{
    bool checking = node->d.life == NODE_CHECKING && node->d.job == 0;
    bool out =
        node->d.life == NODE_OUT && (node->d.validate_asked || node->d.repair == REPAIR_VALIDATING);
    bool heard = node->link == LINK_UP && node->session != 0 && node->reported &&
                 (node->checks_ok || node->checks_bad);
    return node->d.must_pass != VALIDATION_NONE && (checking || out) && heard && !node->d.lost &&
           node->d.repair != REPAIR_ORDERED && report_empty(node);
}

static void ask(struct core *core, struct node *node)
{
    bool full = node->d.must_pass == VALIDATION_FULL;
    struct msg_validate *m = &action_send(core, node, MSG_VALIDATE)->u.validate;
    m->nonce = node->validate_nonce;
    m->level = full ? VALIDATE_FULL : VALIDATE_QUICK;
    m->timeout_ms = full ? FULL_MS : QUICK_MS;
    node->validate_again_ms = core->t + REPEAT_MS;
}

void validate_look(struct core *core, struct node *node)
{
    char text[TEXT_SIZE];
    if (!is_due(node)) {
        node->validate_nonce = 0;
    } else if (node->minor < VALIDATE_MINOR) {
        ended(core, node, node->checks_ok,
              "its agent is too old to be asked for more than its own quick checks");
    } else if (node->validate_nonce == 0) {
        bool full = node->d.must_pass == VALIDATION_FULL;
        node->validate_nonce = ++core->nonce;
        node->validate_ms = core->t + (full ? FULL_MS : QUICK_MS) + LATE_SLACK_MS;
        repair_asked(node, node->validate_ms);
        ask(core, node);
    } else if (core->t >= node->validate_ms) {
        text_format(text, sizeof text, "no answer within %u s",
                    (node->d.must_pass == VALIDATION_FULL ? FULL_MS : QUICK_MS) / 1000);
        ended(core, node, false, text);
    } else if (core->t >= node->validate_again_ms) {
        ask(core, node); /* it, or its answer, may have been lost */
    }
}

void validate_said(struct core *core, struct node *node, const struct msg_validated *said)
{
    if (node->validate_nonce != 0 && said->nonce == node->validate_nonce && is_due(node)) {
        ended(core, node, said->ok, said->text);
    }
}
