/* link.c: four clocks, never mixed, and the second opinion.
 *
 *   UP --closed, or third beat missed--> SUSPECT --refused / accepted but silent--> AGENT_DOWN
 *    ^                                      |                                           |
 *    +---- a beat or a hello ---------------+-------------------------------------------+
 *                                           |                                           |
 *                       nothing answers: lost                 a rank ended, or no step: lost
 *
 * A suspect node is asked about through two other agents, each second anew until it is decided.
 * What the probers say decides; how long it was silent only matters where there is nobody to ask.
 * No loss is decided while new suspects keep appearing, nor while the breaker for silence is open,
 * nor before the grace after a start. */
#include <string.h>

#include "controller/core/impl.h"

enum {
    MISSED_BEATS = 3,
    SLACK_MS = 250, /* a beat that is merely late on the way */
    PROBERS = 2,
    WALK_MAX = 256,    /* nodes looked at for one of them on another rack */
    ROUNDS_MAX = 1024, /* nodes that are asked about at a time */
    ROUND_MS = 1000,   /* between rounds */
    NO_PROBER_LOST_MS = 10000,
    SETTLE_MS = 1000, /* no loss until this long brought no new suspect */
    BREAKER_WINDOW_MS = 10000,
    BREAKER_FLOOR = 4,
    BREAKER_PERCENT = 5,
    BREAKER_QUIET_MS = 30000,
    BREAKER_PAGE_MS = 600000,
    FROZEN_FLOOR_MS = 4000,
    WITNESS_STEPS = 2,
    CLOCK_TURN_MS = 60000,
    WITNESS_AGE_MS = 1250, /* so old may the steps of a beat be when it is sent */
};

static bool watched(const struct node *node)
{
    return !node->d.removed && !node->d.lost && !node->set_aside && node->d.life != NODE_JOINING;
}

static bool reachable(const struct core *core, const struct node *node)
{
    return node->session != 0 && node->link == LINK_UP &&
           core->t - node->beat_ms <= 2ull * core->config.beat_ms;
}

static void round_end(struct core *core, struct node *node)
{
    core->rounds -= node->probe_ms != 0 ? 1 : 0;
    node->probe_ms = 0;
}

/* ---- suspicion ------------------------------------------------------------------------------ */

void link_beat(struct core *core, struct node *node)
{
    if (node->suspect_ms != 0) {
        core_trace(core, "node %s: heard again after %llu ms", node->d.name,
                   (unsigned long long)(core->t - node->suspect_ms));
        mark_clear(core, node, MARK_HEALTH, "agent-silent", "keepstep", "its agent is heard again");
    }
    node->beat_ms = core->t;
    node->link = LINK_UP;
    node->suspect_ms = 0;
    node->closed_ms = 0;
    node->agent_silent = false;
    node->answer = 255;
    round_end(core, node);
    node->asked = 0;
    node->no_prober = false;
    node->witness = 0;
}

void link_clock(struct core *core, struct node *node, uint64_t sent_ms)
{
    int64_t offset_ms = (int64_t)(core->t - sent_ms);
    if (core->t >=
        node->clock_turn_ms) { /* two clocks drift apart: old delays tell less and less */
        node->clock_offset_ms = node->clock_turn_ms != 0 ? node->clock_next_ms : offset_ms;
        node->clock_next_ms = offset_ms;
        node->clock_turn_ms = core->t + CLOCK_TURN_MS;
    }
    node->clock_next_ms = offset_ms < node->clock_next_ms ? offset_ms : node->clock_next_ms;
    node->clock_offset_ms = offset_ms < node->clock_offset_ms ? offset_ms : node->clock_offset_ms;
    node->beat_sent_ms = sent_ms + (uint64_t)node->clock_offset_ms;
}

/* The next of those that are heard, from place `from` on, on another rack if `other_rack`. The rack is
 * looked for so far and no further: one beside the target is as good as none elsewhere. */
static struct node *pick_prober(struct core *core, const struct node *target, uint32_t from,
                                bool other_rack, const struct node *not_this)
{
    uint32_t walk = core->heard_count < WALK_MAX ? core->heard_count : WALK_MAX;
    for (uint32_t i = 0; i < walk; i++) {
        struct node *node = node_at(core, core->heard[(from + i) % core->heard_count]);
        if (node != not_this && node != target &&
            !(other_rack && text_equal(node->d.rack, target->d.rack))) {
            return node;
        }
    }
    return NULL;
}

static void ask(struct core *core, struct node *target, struct node *prober)
{
    struct action *action = action_send(core, prober, MSG_PEER_ASK);
    struct msg_peer_ask *u = &action->u.peer_ask;
    u->nonce = target->probe_nonce;
    u->port = (uint16_t)target->d.peer_port;
    u->timeout_ms = core->config.probe_timeout_ms;
    text_copy(u->target, NAME_SIZE, target->d.name);
    text_copy(u->address, ADDRESS_SIZE, target->d.address);
    CHECK(target->asked < PROBERS_MAX);
    target->probers[target->asked++] = prober->d.node;
}

/* Before the grace after a start is over nobody is judged, and while a thousand are asked about the
 * others wait: a fleet that falls silent must not bury those who could still tell under questions. */
static bool may_ask(const struct core *core)
{
    return core_ready(core) && core->rounds < ROUNDS_MAX;
}

static void ask_two(struct core *core, struct node *node)
{
    if (node->d.peer_port == 0 || node->d.address[0] == '\0' || core->heard_count == 0) {
        return; /* it cannot be asked: nobody is, and only time tells */
    }
    uint32_t from = (uint32_t)prng_below(&core->prng, core->heard_count);
    struct node *first = pick_prober(core, node, from, true, NULL);
    first = first != NULL ? first : pick_prober(core, node, from, false, NULL);
    if (first == NULL) {
        return;
    }
    ask(core, node, first);
    struct node *second = pick_prober(core, node, from + 1, true, first);
    second = second != NULL ? second : pick_prober(core, node, from + 1, false, first);
    if (second != NULL) {
        ask(core, node, second);
    }
}

static void round_begin(struct core *core, struct node *node)
{
    CHECK(node->probe_ms == 0);
    core->rounds++;
    node->probe_nonce = ++core->nonce;
    node->asked = 0;
    node->answers = 0;
    node->answer_now = 255;
    node->probe_ms = core->t + core->config.probe_timeout_ms + SLACK_MS;
    ask_two(core, node);
    node->no_prober = node->asked == 0;
}

/* A round for each suspect that has none. Where not all find room it goes on from there the next
 * time: each has its turn, and who had one waits for the others. */
static void begin_rounds(struct core *core)
{
    for (uint32_t i = 0; i < core->node_count && may_ask(core); i++) {
        struct node *node = &core->nodes[core->round_next % core->node_count];
        core->round_next = node->d.node;
        if (node->suspect_ms != 0 && node->probe_ms == 0) {
            round_begin(core, node);
        }
    }
}

void link_suspect(struct core *core, struct node *node, const char *why)
{
    if (!watched(node) || node->suspect_ms != 0) {
        return;
    }
    node->link = LINK_SUSPECT;
    node->suspect_ms = core->t;
    node->answer = 255;
    node->witness = 0;
    node->no_prober = false;
    node->would = false;
    core->suspect_ms = core->t;
    core_trace(core, "node %s: suspect, %s", node->d.name, why);
}

void link_decided(struct core *core, struct node *node)
{
    node->suspect_ms = 0;
    round_end(core, node);
}

/* The strongest word counts: one that reached it outweighs one that did not. */
static int strength(uint8_t answer)
{
    switch (answer) {
    case PEER_ANSWERS:
        return 5;
    case PEER_LEFT:
        return 4;
    case PEER_SILENT:
        return 3;
    case PEER_REFUSED:
        return 2;
    case PEER_NOTHING:
        return 1;
    default:
        return 0;
    }
}

/* Each prober speaks once a round, and only those that were asked. */
static bool take_prober(struct node *node, const struct node *prober)
{
    for (uint32_t i = 0; i < node->asked; i++) {
        if (node->probers[i] == prober->d.node) {
            node->probers[i] = 0;
            return true;
        }
    }
    return false;
}

void link_peer_said(struct core *core, const struct node *prober, const struct msg_peer_said *said)
{
    uint32_t id = core_node_find(core, said->target);
    struct node *node = id != 0 ? node_at(core, id) : NULL;
    if (node == NULL || node->suspect_ms == 0 || node->probe_ms == 0 ||
        said->nonce != node->probe_nonce || !take_prober(node, prober)) {
        return; /* an answer to an older round, or about a node that was heard meanwhile */
    }
    node->answers++;
    if (strength(said->answer) > strength(node->answer_now)) {
        node->answer_now = said->answer;
    }
    if (node->answers == node->asked) {
        bool news = node->answer != node->answer_now;
        node->answer = node->answer_now;
        node->answer_probers = node->answers;
        if (!news) {
            return;
        }
        core_trace(core, "node %s: second opinion of %u: %s", node->d.name, node->answers,
                   node->answer == PEER_ANSWERS   ? "its agent answers"
                   : node->answer == PEER_REFUSED ? "refused, the host lives"
                   : node->answer == PEER_SILENT  ? "accepted, no answer"
                   : node->answer == PEER_NOTHING ? "nothing answers"
                                                  : "another agent answers there");
    }
}

/* ---- the witness: steps of the job move although nobody reaches the agent ------------------- */

/* Beats on their way when the node fell silent still tell of steps before that. So do the steps in
 * any beat, which are up to a second old; only where steps are short are these more than the two
 * that are needed. Printed steps do not count: from one line to the next it may have been one step
 * only since then. */
static bool may_testify(const struct node *other, const struct slot *slot, const struct node *node,
                        uint64_t from_ms)
{
    return other != NULL && other != node && other->suspect_ms == 0 && !slot->prints &&
           other->beat_sent_ms > from_ms;
}

/* The first node of the job that may. Where none may of beats after some moment, none may of beats
 * after a later one: thousands of suspects must not look through thousands each. */
static void find_witness(struct core *core, struct node *node, const struct job *job,
                         uint64_t from_ms)
{
    if (core->nobody.job == job->d.job && from_ms >= core->nobody.from_ms) {
        return;
    }
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = slot_at(core, job, i);
        const struct node *other = node_at(core, slot->d.node);
        if (may_testify(other, slot, node, from_ms)) {
            node->witness = other->d.node;
            node->witness_step = slot->step_max;
            return;
        }
    }
    core->nobody.job = job->d.job;
    core->nobody.from_ms = from_ms;
}

/* Its steps have moved on by more than may have been under way. The first step after a restore is one
 * step, although programs tell it as a leap from none. */
static bool has_testified(const struct job *job, const struct slot *slot, const struct node *node)
{
    uint64_t before = node->witness_step;
    before = before > job->d.restore_step ? before : job->d.restore_step;
    return slot->step_max > before + WITNESS_STEPS;
}

static void look_for_witness(struct core *core, struct node *node, const struct job *job)
{
    if (node->agent_silent) {
        return;
    }
    bool short_steps = (uint64_t)job->step_ms * WITNESS_STEPS < WITNESS_AGE_MS;
    uint64_t from_ms = node->suspect_ms + (short_steps ? WITNESS_AGE_MS : 0);
    const struct node *other = node_at(core, node->witness);
    const struct slot *slot =
        other != NULL && other->d.job == job->d.job ? slot_at(core, job, other->d.slot) : NULL;
    if (slot == NULL || !may_testify(other, slot, node, from_ms)) {
        node->witness = 0; /* none yet, or it is silent itself by now */
        find_witness(core, node, job, from_ms);
        return;
    }
    if (!has_testified(job, slot, node)) {
        return;
    }
    node->agent_silent = true;
    mark_set(core, node,
             &(struct mark_order){.owner = MARK_HEALTH,
                                  .level = MARK_NO_NEW,
                                  .when = WHEN_JOB_END,
                                  .code = "agent-silent",
                                  .actor = "keepstep",
                                  .text = "its agent is silent, but the job's steps move: "
                                          "restart keepstep-agent there"});
}

/* ---- the decision --------------------------------------------------------------------------- */

static bool job_in_trouble(const struct job *job)
{
    if (job->d.incident != 0) {
        return true; /* a rank of the job ended, or progress passed its limit */
    }
    return !job_runs(job);
}

static bool no_step_for_long(const struct core *core, const struct job *job)
{
    uint64_t limit = 2ull * job->step_ms > FROZEN_FLOOR_MS ? 2ull * job->step_ms : FROZEN_FLOOR_MS;
    uint64_t gap = 2 * log_steps_gap_ms(job); /* not every step is printed */
    limit = gap > limit ? gap : limit;
    return job->step_at_ms != 0 && core->t - job->step_at_ms >= limit;
}

/* What the second opinion comes to. -1: not decided. */
static int decide(const struct core *core, const struct node *node, const struct job *job)
{
    uint64_t silent = core->t - node->beat_ms;
    uint64_t suspected = core->t - node->suspect_ms;
    bool down =
        node->answer == PEER_REFUSED || node->answer == PEER_SILENT || node->answer == PEER_LEFT;
    if (node->agent_silent || node->answer == PEER_ANSWERS) {
        return -1;
    }
    if (node->answer == PEER_NOTHING) {
        bool two = node->answer_probers >= PROBERS;
        return two || silent >= NO_PROBER_LOST_MS ? (int)LOST_SILENT : -1;
    }
    if (down) {
        if (suspected >= core->config.agent_away_ms) {
            return (int)LOST_AGENT_LONG;
        }
        if (job != NULL && node->answer == PEER_SILENT && no_step_for_long(core, job)) {
            return (int)LOST_FROZEN;
        }
        bool waited = suspected >= core->config.reconnect_grace_ms;
        return job != NULL && waited && job_in_trouble(job) ? (int)LOST_AGENT_DOWN : -1;
    }
    /* Nobody could be asked; not: nobody was asked yet. */
    return node->no_prober && silent >= NO_PROBER_LOST_MS ? (int)LOST_SILENT : -1;
}

/* Before the first hello of this process the grace after a start says the same. */
static bool ever_heard(const struct core *core)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (core->nodes[i].beat_ms != 0) {
            return true;
        }
    }
    return false;
}

/* When nobody at all is heard it is us who are cut off, whatever the labels say; and when the first
 * one is heard again, the others are given the time to come back too. */
static bool in_touch(const struct core *core)
{
    return core->alone_ms == 0 || core->t - core->alone_ms >= NO_PROBER_LOST_MS;
}

static void look_at_suspect(struct core *core, struct node *node)
{
    struct job *job = node->d.job != 0 ? job_at(core, node->d.job) : NULL;
    if (node->probe_ms != 0 && core->t >= node->probe_ms) {
        if (node->answers < node->asked) { /* a prober that does not answer says nothing at all */
            node->answer = node->answer_now != 255 ? node->answer_now : node->answer;
            node->answer_probers = node->answers;
        }
        round_end(core, node);
    }
    if (node->answer == PEER_REFUSED || node->answer == PEER_SILENT) {
        node->link = LINK_AGENT_DOWN;
    }
    if (job != NULL && job_runs(job)) {
        look_for_witness(core, node, job);
    }
    bool settled = core->t - core->suspect_ms >= SETTLE_MS;
    int how = decide(core, node, job);
    how = how >= 0 && node_said_goodbye(core, node) ? (int)LOST_GONE : how;
    bool blocked = core->g.breaker_open || core_held(core);
    bool lost = how >= 0 && settled && core_ready(core) && in_touch(core);
    if (lost && blocked && !node->would) {
        char text[TEXT_SIZE];
        text_format(text, sizeof text, "take it for lost: %s", WORD(lost_how, how));
        core_would(core, node->d.job, node->d.node, text);
        node->would = true;
    }
    if (lost && !blocked) {
        node_lose(core, node, (uint8_t)how);
    }
}

/* ---- breaker for silence -------------------------------------------------------------------- */

static const char *label_at(const struct node *node, size_t offset)
{
    return (const char *)&node->d + offset;
}

/* Fills groups with the labels of the suspects; false when there are more than two, or unknown. */
static bool find_groups(const struct core *core, size_t offset, const char *groups[2])
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        const char *label = label_at(node, offset);
        if (node->suspect_ms == 0) {
            continue;
        }
        if (label[0] == '\0') {
            return false;
        }
        uint32_t g = 0;
        while (g < 2 && groups[g] != NULL && !text_equal(groups[g], label)) {
            g++;
        }
        if (g == 2) {
            return false;
        }
        groups[g] = label;
    }
    return true;
}

/* All suspects are of one or two racks (leaves, feeds), these are silent for the most part, and they
 * are not most of what there is: then it is they, and not our own view. */
static bool of_few_groups(const struct core *core, size_t offset)
{
    const char *groups[2] = {NULL, NULL};
    uint32_t all = 0;
    uint32_t inside = 0;
    uint32_t silent = 0;
    if (!find_groups(core, offset, groups)) {
        return false;
    }
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        const char *label = label_at(node, offset);
        bool in = (groups[0] != NULL && text_equal(groups[0], label)) ||
                  (groups[1] != NULL && text_equal(groups[1], label));
        all += watched(node) ? 1 : 0;
        inside += watched(node) && in ? 1 : 0;
        silent += in && node->suspect_ms != 0 ? 1 : 0;
    }
    return silent * 2 > inside && inside * 2 <= all;
}

static void breaker_record(struct core *core, bool open, uint32_t suspects, uint32_t limit)
{
    struct record *record = record_begin(core, RECORD_breaker_kind);
    bool still = open && core->g.breaker_open;
    record->u.breaker.open = open;
    record->u.breaker.paged = still;
    record->u.breaker.suspects = suspects;
    record->u.breaker.limit = limit;
    record_subject(record, "cluster");
    if (still) {
        record_says(record, "BreakerStillOpen", SEVERITY_ERROR,
                    "%u nodes are still silent after 10 min, nothing is evicted: look at the "
                    "controller's own network, then keepstep automation resume",
                    suspects);
    } else if (open) {
        record_says(record, "BreakerOpened", SEVERITY_ERROR,
                    "%u nodes fell silent within 10 s, over the limit of %u and not in one rack: "
                    "nothing is evicted until they are heard, or keepstep automation resume",
                    suspects, limit);
    } else {
        record_says(record, "BreakerClosed", SEVERITY_INFO,
                    limit > 0 ? "silence is under half again"
                              : "by a person: what is silent now is judged");
    }
    core_emit(core, record);
}

void link_breaker_close(struct core *core)
{
    if (core->g.breaker_open) {
        breaker_record(core, false, 0, 0);
        core->look = true;
    }
}

/* Nodes of jobs, and spares that a job could have: not those of a pool in which nobody trains, whose
 * silence tells nothing and whose number must not raise the limit. */
static bool is_member(const struct core *core, const struct node *node)
{
    if (node->d.job != 0) {
        return true;
    }
    bool spare = node->d.life == NODE_READY || node->d.life == NODE_PROBATION;
    for (uint32_t i = 0; i < core->job_count && spare; i++) {
        const struct job *job = &core->jobs[i];
        bool fits = job->d.pool[0] == '\0' || text_equal(job->d.pool, node->d.pool);
        if (!core_job_over(job) && fits) {
            return true;
        }
    }
    return false;
}

static void look_at_open_breaker(struct core *core, uint32_t suspects, uint32_t limit)
{
    if (suspects * 2 >= limit) {
        core->quiet_ms = 0;
    } else if (core->quiet_ms == 0) {
        core->quiet_ms = core->t;
    } else if (core->t - core->quiet_ms >= BREAKER_QUIET_MS) {
        breaker_record(core, false, suspects, limit);
        return;
    }
    if (!core->g.silence_paged &&
        service_now(core) - core->g.silenced_service_ms >= BREAKER_PAGE_MS) {
        breaker_record(core, true, suspects, limit);
    }
}

static void look_at_breaker(struct core *core)
{
    uint32_t recent = 0;
    uint32_t suspects = 0;
    uint32_t members = 0;
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        if (!watched(node) || !is_member(core, node)) {
            continue;
        }
        bool suspect = node->suspect_ms != 0;
        members++;
        suspects += suspect ? 1 : 0;
        recent += suspect && core->t - node->suspect_ms <= BREAKER_WINDOW_MS ? 1 : 0;
    }
    uint32_t limit = members * BREAKER_PERCENT / 100;
    limit = limit > BREAKER_FLOOR ? limit : BREAKER_FLOOR;
    if (!core->g.breaker_open) {
        bool local = recent <= limit ||
                     of_few_groups(core, offsetof(struct record_image_node, rack)) ||
                     of_few_groups(core, offsetof(struct record_image_node, leaf)) ||
                     of_few_groups(core, offsetof(struct record_image_node, feed));
        if (!local) {
            core->quiet_ms = 0;
            breaker_record(core, true, recent, limit);
        }
    } else {
        look_at_open_breaker(core, suspects, limit);
    }
}

/* ---- each step ------------------------------------------------------------------------------ */

/* The one walk over all nodes: who is a suspect by now, and who is heard. A suspect finds its probers
 * among these alone: a thousand of them must not look through thousands of silent nodes each, nor take
 * for nobody who stands behind them. Returns how many are suspects. */
static uint32_t look_at_all(struct core *core)
{
    bool ready = core_ready(core) && core->t >= core->catch_up_ms;
    uint64_t silent_ms = (uint64_t)MISSED_BEATS * core->config.beat_ms + SLACK_MS;
    uint32_t suspects = 0;
    core->heard_count = 0;
    for (uint32_t i = 0; i < core->node_count; i++) {
        struct node *node = &core->nodes[i];
        uint64_t heard = node->beat_ms != 0 ? node->beat_ms : core->start_ms;
        if (ready && core->t - heard >= silent_ms && node->goodbye_ms <= core->t) {
            link_suspect(core, node, "its third beat is missing");
        }
        suspects += node->suspect_ms != 0 ? 1 : 0;
        if (reachable(core, node)) {
            core->heard[core->heard_count++] = i + 1;
        }
    }
    return suspects;
}

void link_look(struct core *core)
{
    core->nobody.job = 0;
    uint32_t suspects = look_at_all(core);
    if (core->heard_count == 0 && ever_heard(core)) {
        core->alone_ms = core->t;
    }
    if (suspects > BREAKER_FLOOR || core->g.breaker_open) {
        look_at_breaker(core);
    }
    for (uint32_t i = 0; i < core->node_count && suspects > 0; i++) {
        if (core->nodes[i].suspect_ms != 0) {
            look_at_suspect(core, &core->nodes[i]);
        }
    }
    if (suspects > 0) {
        begin_rounds(core);
    }
}

void link_due(const struct core *core, uint64_t *due_ms)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        if (!watched(node)) {
            continue;
        }
        uint64_t heard = node->beat_ms != 0 ? node->beat_ms : core->start_ms;
        if (node->goodbye_ms > core->t) {
            due_min(due_ms, node->goodbye_ms);
        } else if (node->suspect_ms != 0) {
            due_min(due_ms, core->t + SLACK_MS);
        } else {
            uint64_t silent = heard + (uint64_t)MISSED_BEATS * core->config.beat_ms + SLACK_MS;
            due_min(due_ms, silent > core->catch_up_ms ? silent : core->catch_up_ms);
        }
    }
    if (core->g.breaker_open) {
        due_min(due_ms, core->t + ROUND_MS);
    }
}

/* Heard of late: more than half a beat over time is not silence yet, but it may become one. */
static bool may_be_lost(const struct core *core, const struct node *node)
{
    if (node->d.lost || node->set_aside || node->goodbye_ms > core->t ||
        mark_find(core, node->d.node, MARK_RECOVERY, "unproven") != NULL) {
        return false; /* decided, fenced or not judged: whatever it is, it is not waited for */
    }
    uint64_t heard = node->beat_ms != 0 ? node->beat_ms : core->start_ms;
    return node->suspect_ms != 0 ||
           core->t - heard > core->config.beat_ms + core->config.beat_ms / 2 + SLACK_MS;
}

bool link_undecided(const struct core *core, const struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        uint32_t id = core->slots[job->slot_base + i].d.node;
        if (id != 0 && may_be_lost(core, &core->nodes[id - 1])) {
            return true;
        }
    }
    return false;
}

bool link_settled(const struct core *core)
{
    for (uint32_t i = 0; i < core->node_count && !core_ready(core); i++) {
        const struct node *node = &core->nodes[i];
        bool heard = node->session != 0 && (node->checks_ok || node->checks_bad);
        if (watched(node) && !heard && node->goodbye_ms <= core->t) {
            return false; /* a hello alone does not say yet whether it may be a spare */
        }
    }
    return true;
}
