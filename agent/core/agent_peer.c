/* agent_peer.c: questions from peers, for the controller, and for ourselves.
 *
 * The fence is the only way in which ranks end without an order. All three must hold:
 * no controller for fence_after; every running rank of the attempt past the limit of its own phase,
 * as its mailbox says; and of four peers asked, three say that they have their controller. A rank
 * without the library never counts as past a limit, so its attempt is never fenced. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/text.h"

/* ---- the questions under way --------------------------------------------------------------- */

static struct agent_question *question_find(struct agent_core *core, uint8_t kind, uint64_t nonce)
{
    for (uint32_t i = 0; i < core->limits.questions; i++) {
        if (core->questions[i].kind == kind && core->questions[i].nonce == nonce) {
            return &core->questions[i];
        }
    }
    return NULL;
}

static struct agent_question *question_place(struct agent_core *core, uint8_t kind, uint64_t nonce)
{
    struct agent_question *place = NULL;
    for (uint32_t i = 0; i < core->limits.questions; i++) {
        struct agent_question *q = &core->questions[i];
        if (q->kind != QUESTION_NONE && core->now_ms >= q->asked_ms + AGENT_QUESTION_LOST_MS) {
            q->kind = QUESTION_NONE;
        }
        if (q->kind == QUESTION_NONE && place == NULL) {
            place = q;
        }
    }
    if (place == NULL || !agent_emit_room(core)) {
        core->counters.too_many++;
        return NULL;
    }
    memset(place, 0, sizeof(*place));
    place->kind = kind;
    place->nonce = nonce;
    place->asked_ms = core->now_ms;
    return place;
}

/* ---- peers --------------------------------------------------------------------------------- */

static bool peer_is_sane(const struct agent_core *core, const struct known_peer *peer)
{
    return peer->port != 0 && peer->address[0] != '\0' &&
           text_is_name(peer->name, sizeof(peer->name)) &&
           !text_equal(peer->name, core->identity.node);
}

static bool peer_is_same(const struct known_peer *a, const struct known_peer *b)
{
    return a->port == b->port && text_equal(a->name, b->name) && text_equal(a->address, b->address);
}

/* The list as it is now told replaces the one before, durably: it is needed when there is nobody to
 * tell it. An empty one says nothing. */
void agent_on_peers(struct agent_core *core, const struct msg_peers *peers)
{
    bool same = peers->peer_count == core->peer_count;
    if (peers->peer_count == 0 || peers->peer_count > PEERS_KNOWN_MAX) {
        core->counters.bad_message += peers->peer_count > PEERS_KNOWN_MAX;
        return;
    }
    for (uint32_t i = 0; i < peers->peer_count; i++) {
        if (!peer_is_sane(core, &peers->peers[i])) {
            core->counters.bad_message++;
            return;
        }
        same = same && peer_is_same(&core->peers[i], &peers->peers[i]);
    }
    for (uint32_t i = 0; !same && i < peers->peer_count; i++) {
        struct agent_record record;
        agent_peer_record(&peers->peers[i], i, &record);
        agent_emit_record(core, &record);
    }
}

/* All that are known, each once: what the controller said last wins over the configuration. */
static uint32_t known_peers(const struct agent_core *core,
                            const struct known_peer *ret_peers[PEERS_KNOWN_MAX + AGENT_PEERS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->peer_count; i++) {
        ret_peers[count++] = &core->peers[i];
    }
    for (uint32_t i = 0; i < core->identity.peer_count; i++) {
        bool told = text_equal(core->identity.peers[i].name, core->identity.node);
        for (uint32_t k = 0; k < core->peer_count; k++) {
            told = told || text_equal(core->peers[k].name, core->identity.peers[i].name);
        }
        if (!told) {
            ret_peers[count++] = &core->identity.peers[i];
        }
    }
    return count;
}

void agent_on_peer_question(struct agent_core *core, const struct agent_event *event)
{
    struct agent_action *action = agent_emit(core, AGENT_ACTION_PEER_REPLY);
    action->token = event->token;
    action->u.reply.nonce = event->nonce;
    action->u.reply.incarnation = core->identity.incarnation;
    action->u.reply.controller_up = agent_link_good(core);
    (void)text_copy(action->u.reply.node, sizeof(action->u.reply.node), core->identity.node);
}

void agent_on_peer_ask(struct agent_core *core, const struct msg_peer_ask *ask)
{
    if (ask->port == 0 || ask->address[0] == '\0' ||
        !text_is_name(ask->target, sizeof(ask->target))) {
        core->counters.bad_message++;
        return;
    }
    if (question_find(core, QUESTION_PEER, ask->nonce) != NULL) {
        return; /* said twice */
    }
    struct agent_question *q = question_place(core, QUESTION_PEER, ask->nonce);
    if (q == NULL) {
        return;
    }
    (void)text_copy(q->name, sizeof(q->name), ask->target);
    struct agent_probe *probe = &agent_emit(core, AGENT_ACTION_PEER_PROBE)->u.probe;
    probe->nonce = ask->nonce;
    (void)text_copy(probe->name, sizeof(probe->name), ask->target);
    (void)text_copy(probe->address, sizeof(probe->address), ask->address);
    probe->port = ask->port;
    probe->timeout_ms = ask->timeout_ms;
}

static void fence_answer(struct agent_core *core, const struct agent_event *event)
{
    core->fence.answered++;
    if (event->answer == PEER_ANSWERS && event->controller_up) {
        core->fence.agreed++;
    }
}

void agent_on_peer_probed(struct agent_core *core, const struct agent_event *event)
{
    struct agent_question *q = question_find(core, QUESTION_FENCE, event->nonce);
    if (q != NULL) {
        q->kind = QUESTION_NONE;
        fence_answer(core, event);
        return;
    }
    q = question_find(core, QUESTION_PEER, event->nonce);
    if (q == NULL) {
        return;
    }
    q->kind = QUESTION_NONE;
    if (core->link.state != LINK_SESSION || !agent_emit_room(core)) {
        return; /* the controller asks again if it still wants to know */
    }
    struct msg_peer_said *said = &agent_emit_send(core, MSG_PEER_SAID)->u.peer_said;
    memset(said, 0, sizeof(*said));
    said->nonce = event->nonce;
    (void)text_copy(said->target, sizeof(said->target), q->name);
    said->answer = event->answer;
    said->incarnation = event->incarnation;
    said->controller_up = event->controller_up;
}

/* ---- checks --------------------------------------------------------------------------------- */

void agent_on_check(struct agent_core *core, const struct msg_check *check)
{
    if (question_find(core, QUESTION_CHECK, check->nonce) != NULL) {
        return;
    }
    struct agent_question *q = question_place(core, QUESTION_CHECK, check->nonce);
    if (q == NULL) {
        return;
    }
    q->job = check->job;
    struct agent_action *action = agent_emit(core, AGENT_ACTION_CHECK);
    action->job = check->job;
    action->attempt = check->attempt;
    action->u.check = *check;
    action->u.check.spec = NULL;
    action->u.check.spec_size = 0;
}

void agent_on_checked(struct agent_core *core, const struct agent_event *event)
{
    struct agent_question *q = question_find(core, QUESTION_CHECK, event->nonce);
    if (q == NULL) {
        return;
    }
    q->kind = QUESTION_NONE;
    if (core->link.state != LINK_SESSION || !agent_emit_room(core)) {
        return;
    }
    struct msg_check_result *result = &agent_emit_send(core, MSG_CHECK_RESULT)->u.check_result;
    memset(result, 0, sizeof(*result));
    result->nonce = event->nonce;
    result->job = q->job;
    result->ok = event->ok;
    result->port_free = event->port_free;
    if (event->text != NULL) {
        (void)text_copy(result->text, sizeof(result->text), event->text);
    }
}

/* ---- the fence ------------------------------------------------------------------------------ */

static bool rank_is_past_limit(const struct agent_core *core, const struct agent_rank *rank)
{
    if (!rank->has_mailbox) {
        return false;
    }
    uint64_t limit_ms = AGENT_LIMIT_START_MS;
    switch ((enum rank_phase)rank->phase) {
    case PHASE_INIT:
    case PHASE_RESTORE:
        break;
    case PHASE_STEP:
        if (rank->step > 0) {
            const uint64_t five = 5 * (uint64_t)rank->step_ms;
            limit_ms = five > AGENT_LIMIT_STEP_MS ? five : AGENT_LIMIT_STEP_MS;
        }
        break;
    case PHASE_CHECKPOINT:
        limit_ms = AGENT_LIMIT_CHECKPOINT_MS;
        break;
    case PHASE_EVAL:
        limit_ms = AGENT_LIMIT_EVAL_MS;
        break;
    case PHASE_IDLE:
        return false;
    }
    return core->now_ms >= rank->changed_ms + limit_ms;
}

static bool attempt_is_past_limits(const struct agent_core *core, const struct agent_attempt *a)
{
    if (a->state != AGENT_ATTEMPT_RUNNING || !agent_attempt_ours(core, a)) {
        return false;
    }
    bool any = false;
    for (uint32_t i = 0; i < a->rank_count; i++) {
        if (a->ranks[i].state == RANK_RUNNING) {
            any = true;
            if (!rank_is_past_limit(core, &a->ranks[i])) {
                return false;
            }
        }
    }
    return any;
}

static bool fence_is_thinkable(const struct agent_core *core)
{
    const struct known_peer *peers[PEERS_KNOWN_MAX + AGENT_PEERS_MAX];
    const uint64_t after_ms = core->identity.fence_after_ms;
    if (after_ms == 0 || core->link.state == LINK_SESSION || core->leaving ||
        core->now_ms < core->link.session_ms + after_ms ||
        known_peers(core, peers) < AGENT_FENCE_ASKED) {
        return false;
    }
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        if (attempt_is_past_limits(core, &core->attempts[i])) {
            return true;
        }
    }
    return false;
}

/* Four peers, chosen at random so that a broken one is not asked for ever. */
static void ask_peers(struct agent_core *core)
{
    struct agent_fence *fence = &core->fence;
    const struct known_peer *peers[PEERS_KNOWN_MAX + AGENT_PEERS_MAX];
    const uint32_t count = known_peers(core, peers);
    bool taken[PEERS_KNOWN_MAX + AGENT_PEERS_MAX] = {false};
    fence->asked = 0;
    fence->agreed = 0;
    fence->answered = 0;
    fence->until_ms = core->now_ms + AGENT_FENCE_ROUND_MS;
    while (fence->asked < AGENT_FENCE_ASKED) {
        uint32_t at = (uint32_t)prng_below(&core->prng, count);
        while (taken[at]) {
            at = (at + 1) % count;
        }
        taken[at] = true;
        fence->nonce++;
        struct agent_question *q = question_place(core, QUESTION_FENCE, fence->nonce);
        if (q != NULL) {
            struct agent_probe *probe = &agent_emit(core, AGENT_ACTION_PEER_PROBE)->u.probe;
            probe->nonce = fence->nonce;
            (void)text_copy(probe->name, sizeof(probe->name), peers[at]->name);
            (void)text_copy(probe->address, sizeof(probe->address), peers[at]->address);
            probe->port = peers[at]->port;
            probe->timeout_ms = AGENT_FENCE_ROUND_MS - 1000;
        }
        fence->asked++;
    }
    agent_trace(core,
                "fence: no controller for %llu ms and ranks past their limits: %u peers asked",
                (unsigned long long)(core->now_ms - core->link.session_ms), fence->asked);
}

static void end_own_ranks(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        struct agent_job *job = agent_job_find(core, a->job);
        if (!attempt_is_past_limits(core, a) || job == NULL) {
            continue;
        }
        (void)text_copy(a->text, sizeof(a->text),
                        "ended by its own node: no controller, ranks past their limits, and peers "
                        "have theirs");
        agent_order_stop(core, job, a->attempt, AGENT_GRACE_DEFAULT_MS, a->text);
        job->want = false;
    }
}

void agent_peers_tick(struct agent_core *core)
{
    struct agent_fence *fence = &core->fence;
    if (!fence_is_thinkable(core)) {
        fence->until_ms = 0;
        return;
    }
    if (fence->until_ms == 0) {
        if (core->now_ms >= fence->next_ms) {
            ask_peers(core);
        }
        return;
    }
    if (fence->answered < fence->asked && core->now_ms < fence->until_ms) {
        return;
    }
    agent_trace(core, "fence: %u of %u peers have their controller", fence->agreed, fence->asked);
    fence->until_ms = 0;
    fence->next_ms = core->now_ms + AGENT_FENCE_AGAIN_MS;
    if (fence->agreed >= AGENT_FENCE_AGREED) {
        end_own_ranks(core);
    }
}

/* Limits pass by time alone, so while ranks run and no controller is there one looks every so
 * often. */
uint64_t agent_peers_deadline(const struct agent_core *core)
{
    const struct agent_fence *fence = &core->fence;
    const uint64_t after_ms = core->identity.fence_after_ms;
    if (after_ms == 0 || core->link.state == LINK_SESSION || core->leaving || !core->started) {
        return UINT64_MAX;
    }
    if (fence->until_ms != 0) {
        return fence->answered >= fence->asked ? core->now_ms : fence->until_ms;
    }
    uint64_t deadline = core->link.session_ms + after_ms;
    deadline = fence->next_ms > deadline ? fence->next_ms : deadline;
    const uint64_t look = core->now_ms + AGENT_FENCE_LOOK_MS;
    return deadline > core->now_ms ? deadline : look;
}
