/* goodput_ctl.c: the driver of controller/core in a goodput run. Nothing fails here: the store takes
 * 2 ms for every commit, and messages arrive in the millisecond in which they are sent. All messages
 * of a millisecond are one turn, as in the real loop: each is stepped, then what they lead to is
 * looked at once. */
#include <string.h>

#include "controller/sim/goodput_world.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static const uint64_t WALL_OFFSET_MS = 1764000000000;

static void hold(struct gp *gp, const struct core_output *output)
{
    struct gp_ctl *ctl = &gp->ctl;
    uint32_t need = ctl->held_count + output->action_count;
    if (need > ctl->held_capacity) {
        ctl->held_capacity = need * 2;
        ctl->held = mem_grow(ctl->held, ctl->held_capacity, sizeof(ctl->held[0]));
    }
    if (output->record_count > 0) {
        ctl->durable_ms = gp->now_ms + GP_COMMIT_MS;
    }
    uint64_t due_ms = ctl->durable_ms > gp->now_ms ? ctl->durable_ms : gp->now_ms;
    for (uint32_t index = 0; index < output->action_count; index++) {
        ctl->held[ctl->held_count++] =
            (struct gp_held){.due_ms = due_ms, .action = output->actions[index]};
    }
    if (ctl->held_count > 0 && ctl->act_ms == 0) {
        ctl->act_ms = ctl->held[0].due_ms;
        gp_at(gp, ctl->act_ms, GP_EV_ACT, 0);
    }
}

static void trace_lines(struct gp *gp, const char *trace)
{
    while (gp->options.line != NULL && *trace != '\0') {
        const char *end = strchr(trace, '\n');
        size_t size = end == NULL ? strlen(trace) : (size_t)(end - trace);
        gp_trace(gp, "C %.*s", (int)(size < 240 ? size : 240), trace);
        trace += size + (end == NULL ? 0 : 1);
    }
}

static void step(struct gp *gp, struct event *event)
{
    struct gp_ctl *ctl = &gp->ctl;
    event->now_ms = gp->now_ms;
    event->wall_ms = gp->now_ms + WALL_OFFSET_MS;
    event->idle_ms = gp->asleep ? gp->now_ms - ctl->last_ms : ctl->idle_ms;
    ctl->slept_ms += event->idle_ms;
    ctl->idle_ms = 0;
    ctl->last_ms = gp->now_ms;
    struct core_output output = {0};
    core_step(ctl->core, event, &output);
    gp->result->core_steps++;
    trace_lines(gp, output.trace);
    for (uint32_t index = 0; index < output.record_count; index++) {
        gp_watch_record(gp, &output.records[index]);
    }
    hold(gp, &output);
}

void gp_ctl_arm(struct gp *gp)
{
    uint64_t deadline = core_deadline_ms(gp->ctl.core);
    uint64_t at_ms = deadline > gp->now_ms ? deadline : gp->now_ms;
    if (deadline == UINT64_MAX || gp->asleep) {
        gp->ctl.tick_ms = 0;
    } else if (at_ms != gp->ctl.tick_ms) {
        gp->ctl.tick_ms = at_ms;
        gp_at(gp, at_ms, GP_EV_TURN, 0);
    }
}

void gp_ctl_event(struct gp *gp, struct event *event)
{
    event->more = true;
    step(gp, event);
    if (core_deadline_ms(gp->ctl.core) <= gp->now_ms && !gp->ctl.turn_due) {
        gp->ctl.turn_due = true;
        gp_at(gp, gp->now_ms, GP_EV_TURN, UINT32_MAX);
    }
}

void gp_ctl_turn(struct gp *gp)
{
    struct gp_ctl *ctl = &gp->ctl;
    bool tick = ctl->tick_ms == gp->now_ms && !gp->asleep;
    if (!ctl->turn_due && !tick) {
        return; /* armed anew since */
    }
    ctl->turn_due = false;
    struct event event = {.kind = EVENT_TICK};
    ctl->turn_due = false;
    ctl->tick_ms = 0;
    step(gp, &event);
    gp_ctl_arm(gp);
}

void gp_ctl_message(struct gp *gp, uint32_t node, const struct message *message)
{
    struct event event = {.session = gp->nodes[node].session};
    if (message->kind == MSG_HELLO) {
        event.kind = EVENT_HELLO;
        event.u.hello = &message->u.hello;
    } else {
        event.kind = EVENT_MESSAGE;
        event.u.message = message;
    }
    if (message->kind == MSG_BEAT) {
        gp->result->beats++;
    }
    gp_ctl_event(gp, &event);
}

void gp_ctl_request(struct gp *gp, struct request *request)
{
    request->id = ++gp->request_next;
    (void)text_copy(request->actor, sizeof(request->actor), "olga");
    struct event event = {.kind = EVENT_REQUEST, .u.request = request};
    gp_news(gp);
    gp_ctl_event(gp, &event);
}

/* ---- actions ----------------------------------------------------------------------------- */

static uint32_t node_of_session(const struct gp *gp, uint64_t session)
{
    return (uint32_t)(session % gp->options.nodes);
}

static void act(struct gp *gp, const struct action *action)
{
    uint32_t index = node_of_session(gp, action->session);
    struct gp_node *node = &gp->nodes[index];
    bool stands = action->session != 0 && node->session == action->session;
    switch ((enum action_kind)action->kind) {
    case ACTION_SEND: {
        if (stands && node->up) {
            struct message message;
            action_message(gp->ctl.core, action, &message);
            if (message.kind != MSG_ACK && message.kind != MSG_CHECKPOINT_ANSWER) {
                gp_news(gp);
            }
            gp_node_message(gp, index, &message);
        }
        return;
    }
    case ACTION_CLOSE: {
        struct event event = {.kind = EVENT_CLOSED, .session = action->session};
        if (stands) {
            node->session = 0; /* its host is gone: nobody is there to hear of it */
        }
        gp_ctl_event(gp, &event);
        return;
    }
    case ACTION_PING: {
        struct event event = {.kind = EVENT_PINGED, .session = action->session};
        event.u.pinged_alive = stands && node->up;
        gp_ctl_event(gp, &event);
        return;
    }
    case ACTION_REPLY:
        if (action->u.reply.result < 0) {
            gp_trace(gp, "the operator is answered: %s", action->u.reply.text);
        }
        return;
    case ACTION_FENCE:
    case ACTION_REPAIR:
        return; /* no such hook here */
    }
    CHECK(false);
}

void gp_ctl_act(struct gp *gp)
{
    struct gp_ctl *ctl = &gp->ctl;
    uint32_t count = 0;
    while (count < ctl->held_count && ctl->held[count].due_ms <= gp->now_ms) {
        const struct action action = ctl->held[count].action; /* acting may grow the array */
        count++;
        act(gp, &action);
    }
    ctl->held_count -= count;
    memmove(ctl->held, ctl->held + count, ctl->held_count * sizeof(ctl->held[0]));
    ctl->act_ms = 0;
    if (ctl->held_count > 0) {
        ctl->act_ms = ctl->held[0].due_ms;
        gp_at(gp, ctl->act_ms, GP_EV_ACT, 0);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

void gp_ctl_start(struct gp *gp)
{
    struct core_limits limits = core_limits_default;
    limits.agents = gp->options.nodes + 4;
    limits.slots = 2 * gp->options.nodes + 64;
    limits.jobs = 8;
    limits.facts = 1024;
    limits.checkpoints = 128;
    limits.incidents = 128;
    limits.recoveries = 128;
    /* There are no hooks: that a person is needed is said while everybody is awake anyway. */
    struct core_config config = {.repair_wait_ms = 1,
                                 .evidence_gone_ms = gp->options.plan_ms,
                                 .launch_timeout_ms = gp->options.launch_ms + 60000};
    int result = core_create(&limits, &config, gp->options.seed, &gp->ctl.core);
    CHECK(result == 0);
    struct event event = {.kind = EVENT_START};
    (void)text_format(event.u.start.cluster_id, CLUSTER_ID_SIZE, "%032u", 1);
    (void)text_format(event.u.start.store_id, CLUSTER_ID_SIZE, "%032u", 2);
    gp->ctl.last_ms = gp->now_ms;
    step(gp, &event);
    gp_ctl_arm(gp);
}

void gp_ctl_done(struct gp *gp)
{
    gp->ctl.core = core_free(gp->ctl.core);
    gp->ctl.held = mem_free(gp->ctl.held);
}
