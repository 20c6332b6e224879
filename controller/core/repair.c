/* repair.c: a node that left for a fault comes back: the site's programs mend it, checks prove it.
 *
 *             +---- the next lane ----+
 *             v                       |
 *   none --> ordered --> validating --+--> none
 *    |        ^  |           |
 *    |        |  +-----------+--> waiting --> none
 *    |        |  |           |    |     |
 *    |        +--|-----------|----+     |
 *    +-----------+-----------+----------+--> person --> none
 *
 *   none        -> ordered     a fault stands for its time, automation may act, fewer than eight run
 *               -> person      … and no hook is there for its lane or what follows
 *   ordered     -> validating  its hook has ended with 0
 *               -> person      its hook was the ticket's, or it failed and was the last
 *   ordered, validating:       the hook failed or took 30 min, or the checks failed, did not begin
 *               -> ordered     within 30 min or were not passed in their time: the next lane …
 *               -> waiting     … when automation may act again, or one that runs has ended
 *               -> none        an operator has it now; nothing is left to be mended
 *   validating  -> none        it has passed: its marks go, and it is on probation
 *   waiting     -> ordered, none, person   as above
 *   person      -> none        an operator gives it back; one that was only silent is there again
 *
 * The fault is a mark of level `leave` that says which lane mends it, or recovery/unproven: a node
 * that is lost, or cannot prove itself empty, is power-cycled. Lanes and what follows them are the
 * second table. A node is not touched before people and slow news had their time (60 s; 2 min when
 * it is silent: most of those come back by themselves), while automation is held, or while eight
 * others are being mended. From the order on it stays out of use until its hook has ended, whatever
 * becomes of its marks: a program of the site may still do anything to it.
 *
 * Every move is a record, and a hook starts after it. A controller that finds `ordered` starts the
 * hook again with the same order: as with fencing, the hook must bear that. Not before agents had
 * their time to speak and automation may act: after a backup was put back the order may be long
 * over, and the node at work. Nothing is done to one that holds a slot, or that runs ranks which no
 * recovery waits for; its repair ends. Answers of older orders change nothing. */
#include <string.h>

#include "controller/core/impl.h"

enum {
    REPAIRS_AT_ONCE = 8,
    HOOK_MS = 30 * 60000,
    HOOK_SLACK_MS = 60000, /* the driver ends it at HOOK_MS and says so; so does validate.c */
    BACK_MS = 30 * 60000,  /* from the hook's end to its first check: so long a boot may take */
    PASS_MS = 2 * BACK_MS, /* … to the end of the last one, however often it is asked anew */
    SAME_KIND_MS = 24 * 3600 * 1000,
};

#define TO(state) (1u << (state))
static const uint8_t moves[repair_state_count] = {
    [REPAIR_NONE] = TO(REPAIR_ORDERED) | TO(REPAIR_PERSON),
    [REPAIR_WAITING] = TO(REPAIR_ORDERED) | TO(REPAIR_PERSON) | TO(REPAIR_NONE),
    [REPAIR_ORDERED] = TO(REPAIR_ORDERED) | TO(REPAIR_WAITING) | TO(REPAIR_VALIDATING) |
                       TO(REPAIR_PERSON) | TO(REPAIR_NONE),
    [REPAIR_VALIDATING] =
        TO(REPAIR_ORDERED) | TO(REPAIR_WAITING) | TO(REPAIR_PERSON) | TO(REPAIR_NONE),
    [REPAIR_PERSON] = TO(REPAIR_NONE),
};

/* weight: of two faults the heavier one is mended. alive: its hook needs a host that answers and
 * runs no ranks. A lane without a row has no hook: a person is asked. */
static const struct lane {
    uint8_t hook;
    uint8_t next;
    uint8_t validation;
    uint8_t weight;
    bool alive;
} lanes[repair_lane_count] = {
    /* Agents clean what they can: what is left then goes with a reboot. */
    [LANE_CLEAN] = {HOOK_NONE, LANE_REBOOT, VALIDATION_QUICK, 1, false},
    [LANE_GPU_RESET] = {HOOK_GPU_RESET, LANE_REBOOT, VALIDATION_QUICK, 2, true},
    [LANE_REBOOT] = {HOOK_REBOOT, LANE_DIAG, VALIDATION_QUICK, 3, false},
    [LANE_DIAG] = {HOOK_DIAG, LANE_RMA, VALIDATION_FULL, 4, true},
    [LANE_RMA] = {HOOK_TICKET, LANE_NONE, VALIDATION_FULL, 5, false},
    [LANE_NETWORK] = {HOOK_TICKET, LANE_NONE, VALIDATION_FULL, 6, false},
    [LANE_STORAGE] = {HOOK_TICKET, LANE_NONE, VALIDATION_FULL, 7, false},
};

bool repair_move_allowed(uint8_t from, uint8_t to)
{
    return from < repair_state_count && to < repair_state_count && (moves[from] & TO(to)) != 0;
}

uint8_t repair_validation(uint8_t lane)
{
    uint8_t level = lane < repair_lane_count ? lanes[lane].validation : VALIDATION_NONE;
    return level != VALIDATION_NONE ? level : VALIDATION_QUICK;
}

static const char *hook_word(uint8_t lane)
{
    return WORD(repair_hook, lanes[lane].hook);
}

static bool has_hook(const struct core *core, uint8_t lane)
{
    return lanes[lane].hook != HOOK_NONE && core->config.repair_hooks[lanes[lane].hook];
}

/* ---- moves ---------------------------------------------------------------------------------- */

struct fault {
    uint8_t lane;
    uint8_t owner;
    uint32_t incident;
    uint64_t since_ms; /* service time */
    const char *text;
};

/* What of a move is not as it was. */
struct move {
    uint8_t to;
    uint8_t lane;
    bool order; /* one more hook */
    bool repaired;
    const struct fault *fault; /* a new one; NULL: that of the last move */
    const char *text;
};

static void move(struct core *core, struct node *node, const struct move *m)
{
    static const char *const types[repair_state_count] = {
        [REPAIR_NONE] = "RepairEnded",      [REPAIR_WAITING] = "RepairWaits",
        [REPAIR_ORDERED] = "RepairOrdered", [REPAIR_VALIDATING] = "RepairValidating",
        [REPAIR_PERSON] = "RepairPerson",
    };
    struct record *record = record_begin(core, RECORD_repair_moved_kind);
    struct record_repair_moved *to = &record->u.repair_moved;
    const struct record_image_node *from = &node->d;
    REPAIR_FIELDS(RECORD_COPY, unused)
    to->node = node->d.node;
    to->repaired = m->repaired;
    to->repair = m->to;
    to->repair_lane = m->lane;
    if (m->fault != NULL) {
        to->repair_fault = m->fault->owner;
        to->repair_incident = m->fault->incident;
        to->repair_fault_ms = m->fault->since_ms;
        to->repair_try = 0;
    }
    to->repair_order += m->order ? 1 : 0;
    to->repair_try += m->order ? 1 : 0;
    text_copy(to->repair_text, TEXT_SIZE, m->text);
    record->node = node->d.node;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, m->repaired ? "Repaired" : types[m->to],
                m->to == REPAIR_PERSON ? SEVERITY_ERROR : SEVERITY_INFO, "repair %s -> %s: %s",
                WORD(repair_state, node->d.repair), WORD(repair_state, m->to), m->text);
    core_emit(core, record);
    core->look = true;
    node_settle(core, node);
}

static void end(struct core *core, struct node *node, const char *text)
{
    move(core, node, &(struct move){.to = REPAIR_NONE, .lane = node->d.repair_lane, .text = text});
}

static void ask_person(struct core *core, struct node *node, uint8_t lane,
                       const struct fault *fault, const char *why)
{
    char text[TEXT_SIZE];
    text_sentence(text, sizeof text, "%.100s; when it is mended: keepstep undrain %s --reason ...",
                  why, node->d.name);
    move(core, node,
         &(struct move){.to = REPAIR_PERSON, .lane = lane, .fault = fault, .text = text});
}

/* Durable before it leaves, as all actions are. */
static void order_hook(struct core *core, struct node *node)
{
    const struct incident *incident = core_incident(core, node->d.repair_incident);
    struct action *action = action_begin(core, ACTION_REPAIR);
    action->node = node->d.node;
    action->u.repair.order = node->d.repair_order;
    action->u.repair.incident = node->d.repair_incident;
    action->u.repair.lane = node->d.repair_lane;
    action->u.repair.hook = lanes[node->d.repair_lane].hook;
    text_copy(action->u.repair.reason, TEXT_SIZE,
              incident != NULL ? incident->d.why : node->d.repair_text);
    node->repair_ms = core->t + HOOK_MS + HOOK_SLACK_MS;
}

/* ---- which lane ----------------------------------------------------------------------------- */

enum { OF_OPERATOR = 1, OF_GOODBYE = 2, OF_PROOF = 4 };

/* Silent, or with ranks that nobody has proven gone. Of the last gather(). */
static bool is_dead(const struct core *core, const struct node *node)
{
    return node->d.lost || (core->repair_bits[node->d.node - 1] & OF_PROOF) != 0;
}

/* The first lane from this one on that has a hook and may be used on the node as it stands: one that
 * is silent, or whose ranks may still run, is power-cycled first and never reset. */
static uint8_t usable_lane(const struct core *core, const struct node *node, uint8_t lane,
                           bool rebooted)
{
    bool dead = is_dead(core, node);
    while (lane != LANE_NONE) {
        if (dead && lanes[lane].alive) {
            lane = rebooted || lane == LANE_REBOOT ? LANE_RMA : LANE_REBOOT;
            rebooted = true;
        }
        if (has_hook(core, lane)) {
            return lane;
        }
        rebooted = rebooted || lane == LANE_REBOOT;
        lane = lanes[lane].next;
    }
    return LANE_NONE;
}

static bool may_act(const struct core *core)
{
    return !core_held(core) && !core->g.breaker_open && core_ready(core);
}

static bool has_room(const struct core *core)
{
    return core->repairs_running < REPAIRS_AT_ONCE;
}

/* The next lane of a repair that has begun; one that has not simply begins later. */
static void wait(struct core *core, struct node *node, uint8_t lane, const char *why)
{
    char text[TEXT_SIZE];
    if (node->d.repair == REPAIR_WAITING && node->d.repair_lane == lane) {
        return;
    }
    text_format(text, sizeof text, "%s, %s: %.110s", WORD(repair_lane, lane),
                may_act(core) ? "when one of those that run has ended"
                              : "when automation may act again",
                why);
    move(core, node, &(struct move){.to = REPAIR_WAITING, .lane = lane, .text = text});
}

/* Goes on with the first lane from this one on that can be used. again: a fault of this kind was
 * mended not long ago. */
static void go_on(struct core *core, struct node *node, uint8_t from, const struct fault *fault,
                  bool again, const char *why)
{
    char text[TEXT_SIZE];
    bool first = fault != NULL || node->d.repair_try == 0;
    bool rebooted = !first && lanes[node->d.repair_lane].weight >= lanes[LANE_REBOOT].weight;
    uint8_t lane = usable_lane(core, node, from, rebooted);
    if (lane == LANE_NONE) {
        text_format(text, sizeof text, "no hook for %s%s: %s",
                    from != LANE_NONE ? WORD(repair_lane, from) : "a further lane",
                    from != LANE_NONE && lanes[from].next != LANE_NONE ? " or what follows" : "",
                    why);
        ask_person(core, node, from != LANE_NONE ? from : node->d.repair_lane, fault, text);
        return;
    }
    if (!may_act(core) || !has_room(core)) {
        wait(core, node, lane, why);
        return;
    }
    validate_require(core, node, first && !again ? lanes[lane].validation : VALIDATION_FULL, false,
                     "after its repair");
    text_format(text, sizeof text, "%s by hooks.%s: %.120s", WORD(repair_lane, lane),
                hook_word(lane), why);
    move(core, node,
         &(struct move){
             .to = REPAIR_ORDERED, .lane = lane, .order = true, .fault = fault, .text = text});
    order_hook(core, node);
}

static void next_lane(struct core *core, struct node *node, const char *why)
{
    go_on(core, node, lanes[node->d.repair_lane].next, NULL, false, why);
}

/* ---- the fault ------------------------------------------------------------------------------ */

/* What keeps it out, and what of that can be mended; one walk over the marks for all nodes. */
static void gather(struct core *core)
{
    memset(core->repair_bits, 0, core->node_count * sizeof *core->repair_bits);
    memset(core->repair_cause, 0, core->node_count * sizeof *core->repair_cause);
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        uint8_t *bits = &core->repair_bits[d->node - 1];
        uint32_t *cause = &core->repair_cause[d->node - 1];
        if (d->owner == MARK_OPERATOR) {
            *bits = (uint8_t)(*bits | OF_OPERATOR);
        } else if (d->owner == MARK_REPAIR) {
            *bits = (uint8_t)(*bits | OF_GOODBYE);
        }
        bool proof = d->owner == MARK_RECOVERY && text_equal(d->code, "unproven");
        *bits = (uint8_t)(*bits | (proof ? OF_PROOF : 0));
        bool mends = d->level == MARK_LEAVE && d->lane != LANE_NONE;
        uint8_t weight = *cause != 0 ? lanes[core->marks[*cause - 1].d.lane].weight : 0;
        if (mends ? lanes[d->lane].weight >= weight : proof && !d->waived && *cause == 0) {
            *cause = i + 1;
        }
    }
}

/* The last that blamed the node; NULL: none that is still known. */
static const struct incident *blamed_for(const struct core *core, const struct node *node)
{
    for (uint32_t i = core->blamed_count; i-- > 0;) {
        if (core->blamed[i].node == node->d.node) {
            return core_incident(core, core->blamed[i].incident);
        }
    }
    return NULL;
}

/* false: nothing that a program could mend. A verdict without a lane (a rack without power) speaks
 * for all that is lost with it. */
static bool fault_of(const struct core *core, const struct node *node, struct fault *ret)
{
    uint32_t at = core->repair_cause[node->d.node - 1];
    if (at == 0) {
        return false;
    }
    const struct record_image_mark *d = &core->marks[at - 1].d;
    *ret = (struct fault){.lane = d->lane,
                          .owner = d->fault,
                          .incident = d->incident,
                          .since_ms = d->since_service_ms,
                          .text = d->text};
    if (d->lane != LANE_NONE) {
        return true;
    }
    const struct incident *incident = blamed_for(core, node);
    ret->lane = LANE_REBOOT;
    ret->owner = OWNER_HARDWARE;
    if (incident != NULL) {
        ret->owner = incident->d.owner;
        ret->incident = incident->d.incident;
        ret->text = incident->d.why;
        uint8_t lane = incident->d.lane;
        return lane != LANE_NONE && lanes[lane].weight <= lanes[LANE_RMA].weight;
    }
    return true;
}

/* A second fault of a kind within a day: what helped last time did not. */
static bool is_again(const struct node *node, const struct fault *fault)
{
    return node->d.repair_try > 0 && node->d.repair_fault == fault->owner &&
           fault->since_ms > node->d.repair_fault_ms &&
           fault->since_ms - node->d.repair_fault_ms <= SAME_KIND_MS;
}

static uint8_t first_lane(const struct node *node, const struct fault *fault)
{
    uint8_t last = node->d.repair_lane;
    uint8_t next = lanes[last].next != LANE_NONE ? lanes[last].next : last;
    uint8_t higher = is_again(node, fault) ? next : LANE_NONE;
    return lanes[higher].weight > lanes[fault->lane].weight ? higher : fault->lane;
}

/* ---- looking -------------------------------------------------------------------------------- */

static void look_again_at(struct core *core, uint64_t t_ms)
{
    due_min(&core->repair_due_ms, t_ms);
}

static void would_mend(struct core *core, struct node *node, uint8_t lane)
{
    char text[TEXT_SIZE];
    node->repair_would = true;
    text_format(text, sizeof text, "mend it: %s by hooks.%s", WORD(repair_lane, lane),
                hook_word(lane));
    core_would(core, 0, node->d.node, text);
}

/* Whether it was out for long enough; if not, when it will have been. A silent one may only be on
 * its way back to a controller that was just started. */
static bool has_waited(struct core *core, const struct node *node, uint64_t since_ms)
{
    bool dead = is_dead(core, node);
    uint64_t wait_ms = core->config.repair_wait_ms * (dead ? 2ull : 1ull);
    uint64_t age_ms = service_now(core) - since_ms;
    uint64_t seen_ms = core->t - core->start_ms;
    uint64_t waited_ms = dead && seen_ms < age_ms ? seen_ms : age_ms;
    if (waited_ms < wait_ms) {
        look_again_at(core, core->t + (wait_ms - waited_ms));
    }
    return waited_ms >= wait_ms;
}

/* Its agent reports ranks other than those for which it is unproven: these are what is to end. */
static bool runs_ranks(const struct core *core, const struct node *node)
{
    if (node->session == 0 || !node->reported || report_empty(node)) {
        return false;
    }
    const struct mark *mark = mark_find(core, node->d.node, MARK_RECOVERY, "unproven");
    bool others = false;
    for (uint32_t i = 0; i < node->report_count; i++) {
        const struct attempt_report *report = &node->reports[i];
        bool unproven =
            mark != NULL && report->job == mark->d.job && report->attempt <= mark->d.attempt;
        others = others || (!report->empty && !unproven);
    }
    return others;
}

static const char *at_work(const struct core *core, const struct node *node)
{
    return node->d.job != 0         ? "it holds a slot again"
           : runs_ranks(core, node) ? "its agent reports ranks that run there"
                                    : NULL;
}

/* Somebody else decides about the node now; NULL: nobody does. */
static const char *taken_over(const struct core *core, const struct node *node)
{
    const char *work = at_work(core, node);
    bool held = (core->repair_bits[node->d.node - 1] & OF_OPERATOR) != 0;
    return work != NULL ? work : held ? "an operator has it now" : NULL;
}

/* One that no repair is under way for: begins one. */
static void look_at_fault(struct core *core, struct node *node)
{
    struct fault fault;
    const struct record_image_mark *mark = &core->marks[core->repair_cause[node->d.node - 1] - 1].d;
    uint8_t bits = core->repair_bits[node->d.node - 1];
    bool alone = (bits & (OF_OPERATOR | OF_GOODBYE)) == 0;
    if (!alone || node->d.life != NODE_OUT || !has_waited(core, node, mark->since_service_ms)) {
        return;
    }
    if (runs_ranks(core, node)) {
        look_again_at(core, core->t + core->config.repair_wait_ms);
        return;
    }
    bool may = may_act(core) && has_room(core);
    if ((!may && (!core_held(core) || core->old_store || node->repair_would)) ||
        !fault_of(core, node, &fault)) {
        return; /* looked at again when that has changed */
    }
    uint8_t from = first_lane(node, &fault);
    uint8_t lane = usable_lane(core, node, from, false);
    if (mark->lane == LANE_NONE && lane != LANE_REBOOT) {
        return; /* without that hook it comes back by itself, or not at all */
    }
    if (may) {
        go_on(core, node, from, &fault, is_again(node, &fault), fault.text);
    } else if (lane != LANE_NONE) {
        would_mend(core, node, lane);
    }
}

/* Its hook runs; or it did when the last controller ended (repair_ms is 0), and is to be started
 * once more. */
static void look_at_order(struct core *core, struct node *node)
{
    const char *work = at_work(core, node);
    bool unknown = node->repair_ms == 0;
    if (node->d.job != 0 || (unknown && work != NULL)) {
        end(core, node, work);
    } else if (unknown && !may_act(core)) {
        return; /* looked at again when that has changed */
    } else if (!has_hook(core, node->d.repair_lane)) {
        repair_done(core, node->d.node, node->d.repair_order, false,
                    "the site has no such hook any more");
    } else if (unknown) {
        order_hook(core, node);
        look_again_at(core, node->repair_ms);
    } else if (core->t >= node->repair_ms) {
        repair_done(core, node->d.node, node->d.repair_order, false,
                    "it has not ended within 30 min");
    } else {
        look_again_at(core, node->repair_ms);
    }
}

static void look_at_repair(struct core *core, struct node *node)
{
    struct fault fault;
    const char *taken = taken_over(core, node);
    switch ((enum repair_state_word)node->d.repair) {
    case REPAIR_NONE:
        look_at_fault(core, node);
        return;
    case REPAIR_WAITING:
        if (taken != NULL || !fault_of(core, node, &fault)) {
            end(core, node, taken != NULL ? taken : "nothing is left to be mended");
        } else if (may_act(core) && has_room(core)) {
            go_on(core, node, node->d.repair_lane, NULL, false, fault.text);
        }
        return;
    case REPAIR_ORDERED:
        look_at_order(core, node);
        return;
    case REPAIR_VALIDATING:
        if (taken != NULL) {
            end(core, node, taken);
        } else if (core->t >= node->repair_ms) {
            next_lane(core, node, "it has not passed its checks in time");
        } else {
            look_again_at(core, node->repair_ms);
        }
        return;
    case REPAIR_PERSON:
        if (node->d.job != 0) {
            end(core, node, taken);
        } else if (!is_dead(core, node) && !fault_of(core, node, &fault)) {
            end(core, node, "it came back by itself"); /* it was silent, and no more than that */
        }
        return;
    }
}

void repair_look(struct core *core)
{
    if (!core->repair_stirred && core->t < core->repair_due_ms) {
        return;
    }
    core->repair_stirred = false;
    core->repair_due_ms = NEVER;
    if (!core_ready(core)) {
        core->repair_stirred = true; /* at the latest when the grace after the start is over */
        return;
    }
    gather(core);
    for (uint32_t i = 0; i < core->node_count; i++) {
        struct node *node = &core->nodes[i];
        bool looks = core->repair_cause[i] != 0 || node->d.repair != REPAIR_NONE;
        if (looks && !node->set_aside && !node->d.removed) {
            look_at_repair(core, node);
        }
    }
}

void repair_due(const struct core *core, uint64_t *due_ms)
{
    due_min(due_ms, core->repair_due_ms);
}

static void begin_validating(const struct core *core, struct node *node)
{
    node->repair_ms = core->t + BACK_MS;
    node->repair_last_ms = core->t + PASS_MS + HOOK_SLACK_MS;
}

void repair_asked(struct node *node, uint64_t until_ms)
{
    uint64_t end_ms = until_ms + HOOK_SLACK_MS;
    end_ms = end_ms < node->repair_last_ms ? end_ms : node->repair_last_ms;
    if (node->d.repair == REPAIR_VALIDATING && end_ms > node->repair_ms) {
        node->repair_ms = end_ms; /* what is due earlier by now looks, and finds nothing */
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

void repair_done(struct core *core, uint32_t id, uint32_t order, bool ok, const char *said)
{
    char text[TEXT_SIZE];
    struct fault fault;
    struct node *node = node_at(core, id);
    if (node == NULL || node->d.repair != REPAIR_ORDERED || node->d.repair_order != order) {
        return; /* of one that is over: removed meanwhile, or said twice */
    }
    uint8_t lane = node->d.repair_lane;
    core->repair_stirred = true;
    core->look = true;
    gather(core);
    text_format(text, sizeof text, "hooks.%s %s%s%.120s", hook_word(lane),
                ok ? "has ended" : "failed", said[0] != '\0' ? ": " : "", said);
    if (taken_over(core, node) != NULL) {
        end(core, node, taken_over(core, node));
    } else if (lanes[lane].hook == HOOK_TICKET) {
        ask_person(core, node, lane, NULL, text);
    } else if (ok) {
        begin_validating(core, node);
        move(core, node, &(struct move){.to = REPAIR_VALIDATING, .lane = lane, .text = text});
    } else if (fault_of(core, node, &fault)) {
        next_lane(core, node, text);
    } else {
        end(core, node, "nothing is left to be mended");
    }
}

/* Its fault is mended: all of them that a program could have mended, for what was left was checked. */
static void clear_faults(struct core *core, struct node *node, const char *actor, const char *text)
{
    for (uint32_t i = 0; i < core->mark_count;) {
        const struct record_image_mark *d = &core->marks[i].d;
        bool fault = d->node == node->d.node && d->owner == MARK_HEALTH && d->level == MARK_LEAVE &&
                     d->lane != LANE_NONE;
        if (fault) {
            char code[NAME_SIZE];
            text_copy(code, sizeof code, d->code);
            mark_clear(core, node, MARK_HEALTH, code, actor, text); /* the others move down */
        } else {
            i++;
        }
    }
}

void repair_validated(struct core *core, struct node *node, bool ok, const char *said)
{
    char text[TEXT_SIZE];
    CHECK(node->d.repair == REPAIR_VALIDATING);
    if (ok) {
        text_format(text, sizeof text, "repaired: %s%s%.120s",
                    WORD(repair_lane, node->d.repair_lane), said[0] != '\0' ? ", " : "", said);
        clear_faults(core, node, "keepstep", text);
        move(core, node,
             &(struct move){
                 .to = REPAIR_NONE, .lane = node->d.repair_lane, .repaired = true, .text = text});
    } else {
        text_format(text, sizeof text, "after %s it %.150s", WORD(repair_lane, node->d.repair_lane),
                    said);
        gather(core);
        next_lane(core, node, text);
    }
}

bool repair_give_back(struct core *core, struct node *node, const struct request *request)
{
    char text[TEXT_SIZE];
    if (node->d.repair == REPAIR_NONE || node->d.repair == REPAIR_ORDERED) {
        return false;
    }
    /* Whoever vouches for a node says that it is mended: nothing is left that could be checked. */
    bool mended = node->d.repair == REPAIR_PERSON || request->skip_validation;
    if (mended) {
        clear_faults(core, node, request->actor, request->reason);
    }
    struct fault fault;
    gather(core);
    if (!mended && fault_of(core, node, &fault)) {
        return false; /* automation goes on with it */
    }
    text_sentence(text, sizeof text, "given back by %s%s%.100s", request->actor,
                  request->reason[0] != '\0' ? ": " : "", request->reason);
    move(core, node,
         &(struct move){
             .to = REPAIR_NONE, .lane = node->d.repair_lane, .repaired = mended, .text = text});
    return true;
}

void repair_again(struct core *core)
{
    core->repair_stirred = true;
    core->repair_due_ms = NEVER;
    for (uint32_t i = 0; i < core->node_count; i++) {
        struct node *node = &core->nodes[i];
        node->repair_ms = 0;
        if (node->d.repair == REPAIR_VALIDATING) {
            begin_validating(core, node);
        }
    }
}

/* ---- shown ---------------------------------------------------------------------------------- */

/* The heaviest of its faults that a lane mends; none: there is none, or an operator has the node. */
static uint8_t marked_lane(const struct core *core, const struct node *node)
{
    uint8_t lane = LANE_NONE;
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (d->node == node->d.node && d->owner == MARK_OPERATOR) {
            return LANE_NONE;
        }
        bool mends = d->node == node->d.node && d->level == MARK_LEAVE;
        lane = mends && lanes[d->lane].weight > lanes[lane].weight ? d->lane : lane;
    }
    return lane;
}

/* The lane with a hook that follows this one, on a node that is well enough for all of them. */
static uint8_t hooked_lane(const struct core *core, uint8_t lane)
{
    while (lane != LANE_NONE && !has_hook(core, lane)) {
        lane = lanes[lane].next;
    }
    return lane;
}

static void say_first(const struct core *core, const struct node *node, char text[TEXT_SIZE])
{
    uint8_t lane = marked_lane(core, node);
    uint8_t hooked = hooked_lane(core, lane);
    text[0] = '\0';
    if (lane == LANE_NONE || node->d.life != NODE_OUT) {
        return;
    }
    if (hooked == LANE_NONE) {
        text_format(text, TEXT_SIZE, "no hook mends %s: a person is asked soon",
                    WORD(repair_lane, lane));
    } else {
        text_format(text, TEXT_SIZE, "%s by hooks.%s, %u s after its mark at the earliest%s",
                    WORD(repair_lane, hooked), hook_word(hooked),
                    core->config.repair_wait_ms / 1000,
                    may_act(core) ? "" : "; automation is held");
    }
}

void core_repair_next(const struct core *core, const struct node *node, char text[TEXT_SIZE])
{
    uint8_t next = hooked_lane(core, lanes[node->d.repair_lane].next);
    const char *then = next != LANE_NONE ? WORD(repair_lane, next) : "a person is asked";
    switch ((enum repair_state_word)node->d.repair) {
    case REPAIR_NONE:
        say_first(core, node, text);
        return;
    case REPAIR_WAITING:
        text_format(text, TEXT_SIZE, "%s by hooks.%s", WORD(repair_lane, node->d.repair_lane),
                    hook_word(node->d.repair_lane));
        return;
    case REPAIR_ORDERED:
        if (lanes[node->d.repair_lane].hook == HOOK_TICKET) {
            text_copy(text, TEXT_SIZE, "a person mends it, then gives it back");
            return;
        }
        text_format(text, TEXT_SIZE, "%s checks, then on probation; if it does not help: %s",
                    WORD(validation, node->d.must_pass), then);
        return;
    case REPAIR_VALIDATING:
        text_format(text, TEXT_SIZE, "once it has passed: on probation; if it fails: %s", then);
        return;
    case REPAIR_PERSON:
        text_format(text, TEXT_SIZE, "keepstep undrain %s --reason ..., when it is mended",
                    node->d.name);
        return;
    }
}
