/* goodput_node.c: a host, its agent's core and the processes on it.
 *
 * A node's clock is its own: it stands still while the fleet sleeps and is set on by whole beats, so
 * that beats keep their place in the second. What an agent sends reaches the controller in the same
 * millisecond. Ranks of a node share their fate: they start, end and step together. */
#include <string.h>

#include "controller/sim/goodput_world.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    PEER_PORT = 7445,
    PROTOCOL = 1 << 16 | 1,
    SCAN_MS = 10,
    PROBE_MS = 2,
    SIGNAL_TERM = 15,
    NODES_PER_RACK = 32,
    CLOCK_BEGIN_MS = 1000,
};

static uint64_t mono_ms(const struct gp *gp, const struct gp_node *node)
{
    return gp->now_ms - node->skip_ms - node->boot_ms + CLOCK_BEGIN_MS;
}

static uint64_t deadline_ms(const struct gp_node *node)
{
    return node->due_ms == UINT64_MAX
               ? UINT64_MAX
               : node->due_ms - CLOCK_BEGIN_MS + node->boot_ms + node->skip_ms;
}

void gp_node_align(struct gp *gp, uint32_t index, uint64_t from_ms)
{
    (void)gp;
    struct gp_node *node = &gp->nodes[index];
    uint64_t deadline = deadline_ms(node);
    if (deadline < from_ms) {
        node->skip_ms += (from_ms - deadline + GP_BEAT_MS - 1) / GP_BEAT_MS * GP_BEAT_MS;
    }
}

void gp_node_arm(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    if (gp->asleep || !node->up) {
        return;
    }
    uint64_t deadline = deadline_ms(node);
    if (deadline == UINT64_MAX) {
        node->tick_ms = 0;
        return;
    }
    deadline = deadline > gp->now_ms ? deadline : gp->now_ms;
    if (deadline != node->tick_ms) {
        node->tick_ms = deadline;
        gp_at(gp, deadline, GP_EV_TICK, index);
    }
}

struct gp_shim *gp_shim_find(struct gp_node *node, uint32_t job, uint32_t attempt)
{
    for (uint32_t index = 0; index < GP_SHIMS; index++) {
        struct gp_shim *shim = &node->shims[index];
        if (shim->used && shim->job == job && shim->attempt == attempt) {
            return shim;
        }
    }
    return NULL;
}

/* ---- what the agent's core orders ---------------------------------------------------------- */

static void start_shim(struct gp *gp, uint32_t index, const struct msg_desired *order)
{
    struct gp_node *node = &gp->nodes[index];
    struct gp_shim *shim = NULL;
    for (uint32_t i = 0; i < GP_SHIMS && shim == NULL; i++) {
        shim = node->shims[i].used ? NULL : &node->shims[i];
    }
    CHECK(shim != NULL);
    *shim = (struct gp_shim){.used = true,
                             .job = order->job,
                             .attempt = order->attempt,
                             .first_rank = order->first_rank,
                             .rank_count = order->rank_count,
                             .state = RANK_RUNNING};
    (void)text_copy(shim->cluster_id, sizeof(shim->cluster_id), order->cluster_id);
    (void)text_copy(shim->job_name, sizeof(shim->job_name), order->job_name);
    gp_train_join(gp, order);
    gp_at(gp, gp->now_ms + gp->options.launch_ms, GP_EV_SHIM_UP, index);
}

static void end_shim(struct gp *gp, uint32_t index, const struct agent_action *action)
{
    struct gp_shim *shim = gp_shim_find(&gp->nodes[index], action->job, action->attempt);
    if (shim == NULL || shim->told || shim->ended) {
        return;
    }
    shim->told = true;
    gp_at(gp, gp->now_ms + gp->options.stop_ms, GP_EV_SHIM_ENDED, index);
}

static void sweep(struct gp *gp, uint32_t index, const struct agent_action *action)
{
    gp->nodes[index].swept_job = action->job;
    gp->nodes[index].swept_attempt = action->attempt;
    gp_at(gp, gp->now_ms + SCAN_MS, GP_EV_SWEPT, index);
}

static void forget_shim(struct gp_node *node, const struct agent_action *action)
{
    struct gp_shim *shim = gp_shim_find(node, action->job, action->attempt);
    if (shim != NULL && !shim->up) {
        shim->used = false;
    }
}

static void probe(struct gp *gp, uint32_t index, const struct agent_probe *asked)
{
    struct gp_node *node = &gp->nodes[index];
    if (node->probe_count == GP_PROBES) {
        return; /* a prober that does not answer says nothing */
    }
    node->probes[node->probe_count++] = *asked;
    gp_at(gp, gp->now_ms + asked->timeout_ms, GP_EV_PROBED, index);
}

static void hang_up(struct gp *gp, struct gp_node *node)
{
    struct event event = {.kind = EVENT_CLOSED, .session = node->session};
    if (node->session != 0) {
        node->session = 0;
        gp_ctl_event(gp, &event);
    }
}

static void send(struct gp *gp, uint32_t index, struct message *message)
{
    if (gp->nodes[index].session == 0) {
        return;
    }
    if (message->kind == MSG_BEAT) { /* on the clock of those that never slept */
        message->u.beat.sent_ms = gp->now_ms - gp->ctl.slept_ms;
    } else if (message->kind != MSG_CHECKPOINT) {
        gp_news(gp);
    }
    gp_ctl_message(gp, index, message);
}

static void act(struct gp *gp, uint32_t index, struct agent_action *action)
{
    struct gp_node *node = &gp->nodes[index];
    switch ((enum agent_action_kind)action->kind) {
    case AGENT_ACTION_DIAL:
        gp_at(gp, gp->now_ms + 1, GP_EV_DIALED, index);
        return;
    case AGENT_ACTION_HANG_UP:
        hang_up(gp, node);
        return;
    case AGENT_ACTION_SEND:
        send(gp, index, &action->u.message);
        return;
    case AGENT_ACTION_SCAN:
        node->scan_job = action->job;
        gp_at(gp, gp->now_ms + SCAN_MS, GP_EV_SCANNED, index);
        return;
    case AGENT_ACTION_START:
        start_shim(gp, index, &action->u.start);
        return;
    case AGENT_ACTION_TERM:
    case AGENT_ACTION_KILL:
        end_shim(gp, index, action);
        return;
    case AGENT_ACTION_SWEEP:
        sweep(gp, index, action);
        return;
    case AGENT_ACTION_FORGET:
        forget_shim(node, action);
        return;
    case AGENT_ACTION_MAIL_ANSWER:
        gp_train_answer(gp, action);
        return;
    case AGENT_ACTION_MAIL_REQUEST:
        gp_train_request(gp, action);
        return;
    case AGENT_ACTION_PEER_PROBE:
        probe(gp, index, &action->u.probe);
        return;
    case AGENT_ACTION_CHECK:
        node->check_nonce = action->u.check.nonce;
        gp_at(gp, gp->now_ms + 1, GP_EV_CHECKED, index);
        return;
    case AGENT_ACTION_VALIDATE: /* a repair takes as long as it takes; then a node is fit at once */
        node->validate_nonce = action->u.validate.nonce;
        gp_at(gp, gp->now_ms + 1, GP_EV_VALIDATED, index);
        return;
    case AGENT_ACTION_MAIL_ABORT: /* ranks here hang in nothing that could be aborted */
    case AGENT_ACTION_PEER_REPLY:
    case AGENT_ACTION_LOG_READ:
    case AGENT_ACTION_SNAPSHOT:
    case AGENT_ACTION_SAVES:
    case AGENT_ACTION_EXIT:
        return;
    }
    CHECK(false);
}

static void step(struct gp *gp, uint32_t index, struct agent_event *event)
{
    struct gp_node *node = &gp->nodes[index];
    if (!node->up) {
        return;
    }
    if (gp->asleep) {
        gp_node_align(gp, index, gp->now_ms);
    }
    event->now_ms = mono_ms(gp, node) - (gp->reading ? 1 : 0);
    event->wall_ms = gp->now_ms;
    int result = agent_core_step(node->core, event, gp->output);
    CHECK(result == 0);
    gp->result->agent_steps++;
    for (uint32_t i = 0; i < gp->output->trace_count && gp->options.line != NULL; i++) {
        gp_trace(gp, "node %u %s", index, gp->output->traces[i]);
    }
    /* Nothing that follows from an action steps an agent at once: the output stays as it is. */
    for (uint32_t i = 0; i < gp->output->action_count; i++) {
        act(gp, index, &gp->output->actions[i]);
    }
    node->due_ms = agent_core_deadline_ms(node->core);
    gp_node_arm(gp, index);
}

/* ---- what the agent hears ------------------------------------------------------------------ */

void gp_node_message(struct gp *gp, uint32_t index, const struct message *message)
{
    struct agent_event event = {.kind = AGENT_EVENT_MESSAGE, .message = message};
    step(gp, index, &event);
}

static void say_shim(struct gp *gp, uint32_t index, const struct gp_shim *shim)
{
    struct agent_shim_view view = {.alive = shim->up,
                                   .started = shim->started,
                                   .empty = shim->empty,
                                   .first_rank = shim->first_rank,
                                   .rank_count = shim->rank_count};
    (void)text_copy(view.cluster_id, sizeof(view.cluster_id), shim->cluster_id);
    (void)text_copy(view.job_name, sizeof(view.job_name), shim->job_name);
    for (uint32_t rank = 0; rank < shim->rank_count; rank++) {
        view.ranks[rank].state = shim->state;
        view.ranks[rank].after_stop = shim->ended && shim->told;
        view.ranks[rank].code = shim->code;
        view.ranks[rank].end_sequence = shim->ended ? rank + 1 : 0;
        view.ranks[rank].end_ms = shim->end_ms;
    }
    struct agent_event event = {
        .kind = AGENT_EVENT_SHIM, .job = shim->job, .attempt = shim->attempt, .shim = &view};
    step(gp, index, &event);
}

static void shim_up(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    for (uint32_t i = 0; i < GP_SHIMS; i++) {
        struct gp_shim *shim = &node->shims[i];
        if (shim->used && !shim->started) {
            shim->up = true;
            shim->started = true;
            uint32_t attempt = shim->attempt;
            say_shim(gp, index, shim);
            gp_news_for_beats(gp); /* with the next one its mailboxes are read */
            gp_train_up(gp, attempt);
        }
    }
}

static void end_ranks(struct gp *gp, uint32_t index, struct gp_shim *shim, uint8_t state,
                      int32_t code)
{
    struct gp_node *node = &gp->nodes[index];
    shim->ended = true;
    shim->up = false; /* with its last child it has proven itself empty, and ends */
    shim->empty = true;
    shim->state = state;
    shim->code = code;
    shim->end_ms = mono_ms(gp, node);
    uint32_t attempt = shim->attempt;
    say_shim(gp, index, shim);
    gp_train_gone(gp, attempt);
}

void gp_node_ranks_end(struct gp *gp, uint32_t index, uint8_t state, int32_t code)
{
    struct gp_node *node = &gp->nodes[index];
    struct gp_shim *shim = gp_shim_find(node, gp->job, gp->train.attempt);
    if (node->up && shim != NULL && shim->up && !shim->ended) {
        end_ranks(gp, index, shim, state, code);
    }
}

static void shim_ended(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    for (uint32_t i = 0; i < GP_SHIMS; i++) {
        struct gp_shim *shim = &node->shims[i];
        if (shim->used && shim->told && shim->up && !shim->ended) {
            end_ranks(gp, index, shim, RANK_SIGNALED, SIGNAL_TERM);
        }
    }
}

static void scanned(struct gp *gp, uint32_t index)
{
    struct agent_event event = {.kind = AGENT_EVENT_SCANNED, .job = gp->nodes[index].scan_job};
    step(gp, index, &event);
}

static void swept(struct gp *gp, uint32_t index)
{
    struct agent_event event = {.kind = AGENT_EVENT_ORPHANS,
                                .job = gp->nodes[index].swept_job,
                                .attempt = gp->nodes[index].swept_attempt,
                                .ok = true};
    step(gp, index, &event);
}

static void dialed(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    gp->session_next++;
    node->session = gp->session_next * gp->options.nodes + index;
    struct agent_event event = {.kind = AGENT_EVENT_LINK_UP};
    step(gp, index, &event);
}

static void checked(struct gp *gp, uint32_t index)
{
    struct agent_event event = {.kind = AGENT_EVENT_CHECKED,
                                .nonce = gp->nodes[index].check_nonce,
                                .ok = true,
                                .port_free = true};
    step(gp, index, &event);
}

static void validated(struct gp *gp, uint32_t index)
{
    struct agent_event event = {
        .kind = AGENT_EVENT_VALIDATED, .nonce = gp->nodes[index].validate_nonce, .ok = true};
    step(gp, index, &event);
}

static void probed(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    if (node->probe_count == 0) {
        return;
    }
    struct agent_probe asked = node->probes[0];
    node->probe_count--;
    memmove(node->probes, node->probes + 1, node->probe_count * sizeof(node->probes[0]));
    uint64_t target = 0;
    const char *digits = strrchr(asked.name, '-');
    CHECK(digits != NULL && text_to_u64(digits + 1, gp->options.nodes - 1, &target) == 0);
    struct agent_event event = {.kind = AGENT_EVENT_PEER_PROBED,
                                .nonce = asked.nonce,
                                .controller_up = gp->nodes[target].session != 0,
                                .answer = gp->nodes[target].up ? PEER_ANSWERS : PEER_NOTHING};
    step(gp, index, &event);
}

void gp_node_event(struct gp *gp, uint32_t index, enum gp_event kind)
{
    if (!gp->nodes[index].up) {
        return;
    }
    switch (kind) {
    case GP_EV_DIALED:
        dialed(gp, index);
        return;
    case GP_EV_SCANNED:
        scanned(gp, index);
        return;
    case GP_EV_SWEPT:
        swept(gp, index);
        return;
    case GP_EV_CHECKED:
        checked(gp, index);
        return;
    case GP_EV_VALIDATED:
        validated(gp, index);
        return;
    case GP_EV_PROBED:
        probed(gp, index);
        return;
    case GP_EV_SHIM_UP:
        shim_up(gp, index);
        return;
    case GP_EV_SHIM_ENDED:
        shim_ended(gp, index);
        return;
    default:
        CHECK(false);
    }
}

void gp_node_fact(struct gp *gp, uint32_t index, const struct fact *fact)
{
    struct agent_event event = {.kind = AGENT_EVENT_FACT, .fact = fact};
    step(gp, index, &event);
}

void gp_node_mail(struct gp *gp, uint32_t index, uint32_t rank, const struct msg_checkpoint *mail)
{
    struct gp_node *node = &gp->nodes[index];
    struct agent_mail wrapped = {
        .local_rank = rank, .id = ++gp->train.mail_next, .kind = AGENT_MAIL_CHECKPOINT};
    wrapped.u.checkpoint = *mail;
    struct agent_event event = {
        .kind = AGENT_EVENT_MAIL, .job = gp->job, .attempt = gp->train.attempt, .mail = &wrapped};
    if (gp_shim_find(node, gp->job, gp->train.attempt) != NULL) {
        step(gp, index, &event);
    }
}

void gp_node_read(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    const struct gp_shim *shim = gp_shim_find(node, gp->job, gp->train.attempt);
    if (!node->up || shim == NULL || !shim->up || shim->ended) {
        return;
    }
    struct agent_mailbox_view view = {.valid = true,
                                      .phase = gp_train_phase(gp),
                                      .step = gp_train_shown(gp),
                                      .changed_ms = mono_ms(gp, node)};
    if (view.phase == node->shown_phase && view.step == node->shown_step &&
        shim->attempt == node->shown_attempt) {
        return;
    }
    node->shown_phase = view.phase;
    node->shown_step = view.step;
    node->shown_attempt = shim->attempt;
    view.step_ms = view.step > 0 ? gp->options.step_ms : 0;
    view.compute_ms = view.step_ms / 2;
    struct agent_event event = {
        .kind = AGENT_EVENT_MAILBOX, .job = shim->job, .attempt = shim->attempt, .mailbox = &view};
    for (uint32_t rank = 0; rank < gp->options.ranks_per_node; rank++) {
        view.local_rank = rank;
        step(gp, index, &event);
    }
}

void gp_node_tick(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    if (!node->up || node->tick_ms != gp->now_ms) {
        return;
    }
    node->tick_ms = 0;
    gp->reading = true; /* a moment before, so that the beat has what all ranks say */
    gp_node_read(gp, index);
    gp->reading = false;
    if (deadline_ms(node) <= gp->now_ms) { /* else it has just beaten, with what it read */
        struct agent_event tick = {.kind = AGENT_EVENT_TICK};
        step(gp, index, &tick);
    }
}

void gp_node_tick_alone(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    if (gp->asleep && node->up) {
        gp_node_align(gp, index, gp->now_ms);
        node->tick_ms = deadline_ms(node);
        if (node->tick_ms + GP_BEAT_MS < gp->steps_ms) {
            gp_at(gp, node->tick_ms, GP_EV_LONE_TICK, index);
        }
    }
}

/* ---- life -------------------------------------------------------------------------------- */

static void identity_of(const struct gp *gp, uint32_t index, struct agent_identity *ret)
{
    const struct gp_node *node = &gp->nodes[index];
    uint32_t rack = index / NODES_PER_RACK;
    *ret = (struct agent_identity){.incarnation = node->boots,
                                   .protocol = PROTOCOL,
                                   .peer_port = PEER_PORT,
                                   .fence_after_ms = 600000};
    (void)text_format(ret->node, sizeof(ret->node), "gpu-%04u", index);
    (void)text_format(ret->boot_id, sizeof(ret->boot_id), "boot-%u-%llu", index,
                      (unsigned long long)node->boots);
    (void)text_copy(ret->version, sizeof(ret->version), "0.1.0");
    (void)text_format(ret->address, sizeof(ret->address), "10.0.%u.%u", index / 250,
                      index % 250 + 1);
    (void)text_format(ret->labels.rack, sizeof(ret->labels.rack), "rack-%02u", rack);
    (void)text_format(ret->labels.feed, sizeof(ret->labels.feed), "feed-%u", rack % 2);
    (void)text_copy(ret->labels.pool, sizeof(ret->labels.pool), "default");
    ret->inventory.gpu_count = 8;
    for (uint32_t gpu = 0; gpu < ret->inventory.gpu_count; gpu++) {
        (void)text_format(ret->inventory.gpu_uuid[gpu], UUID_SIZE, "GPU-%04u-%u", index, gpu);
    }
    ret->inventory.port_count = 1;
    (void)text_format(ret->inventory.port_leaf[0], NAME_SIZE, "leaf-%02u", rack);
    ret->inventory.memory_bytes = 1ull << 40;
}

void gp_node_start(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    CHECK(!node->up);
    node->boots++;
    node->boot_ms = gp->now_ms;
    node->skip_ms = 0;
    node->tick_ms = 0;
    node->up = true;
    struct agent_identity identity;
    identity_of(gp, index, &identity);
    int result = agent_core_create(&gp->limits, gp->options.seed * 65536 + index + node->boots,
                                   &identity, &node->core);
    CHECK(result == 0);
    struct agent_event event = {.kind = AGENT_EVENT_START};
    step(gp, index, &event);
}

void gp_node_down(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    CHECK(node->up);
    for (uint32_t i = 0; i < GP_SHIMS; i++) {
        struct gp_shim *shim = &node->shims[i];
        if (shim->used && shim->up && !shim->ended) {
            gp_train_gone(gp, shim->attempt);
        }
        shim->used = false;
    }
    node->up = false;
    node->probe_count = 0;
    node->core = agent_core_free(node->core);
}

void gp_node_done(struct gp *gp, uint32_t index)
{
    gp->nodes[index].core = agent_core_free(gp->nodes[index].core);
}
