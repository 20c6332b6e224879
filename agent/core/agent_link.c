/* agent_link.c: the session with the controller.
 *
 *      closed --dial--> dialing --link up--> hello --welcome--> session
 *        ^                 |                   |                   |
 *        +---- refused ----+-- not welcome ----+-- link down, -----+
 *                                                  6 s of silence
 *
 * A failure waits 0.1 s x 2 up to 5 s with full jitter, so that a fleet does not come back as one.
 * Nothing but hello is said before the welcome. In a session everything is level state: a beat
 * every second and at once on a change; ends, facts, keys and checkpoint messages again until they
 * are acknowledged or answered, all of them anew in a new session. That a session ended, or that
 * there never was one, ends no rank. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/text.h"

static const char *link_word(uint8_t state)
{
    static const char *const words[] = {"closed", "dialing", "hello", "session"};
    CHECK(state < ARRAY_SIZE(words));
    return words[state];
}

static void link_move(struct agent_core *core, uint8_t to, const char *why)
{
    agent_trace(core, "link %s -> %s: %s", link_word(core->link.state), link_word(to), why);
    core->link.state = to;
}

static void schedule_dial(struct agent_core *core)
{
    uint64_t ceiling = AGENT_BACKOFF_FIRST_MS;
    for (uint32_t i = 0; i < core->link.failures && ceiling < AGENT_BACKOFF_MAX_MS; i++) {
        ceiling *= 2;
    }
    ceiling = ceiling < AGENT_BACKOFF_MAX_MS ? ceiling : AGENT_BACKOFF_MAX_MS;
    core->link.dial_ms = core->now_ms + prng_between(&core->prng, 0, ceiling);
    core->link.failures++;
}

static void hang_up(struct agent_core *core, const char *why)
{
    (void)agent_emit(core, AGENT_ACTION_HANG_UP);
    link_move(core, LINK_CLOSED, why);
    schedule_dial(core);
}

static void fill_hello(const struct agent_core *core, struct msg_hello *hello)
{
    const struct agent_identity *identity = &core->identity;
    memset(hello, 0, sizeof(*hello));
    (void)text_copy(hello->cluster_id, sizeof(hello->cluster_id), core->cluster_id);
    (void)text_copy(hello->node, sizeof(hello->node), identity->node);
    (void)text_copy(hello->boot_id, sizeof(hello->boot_id), identity->boot_id);
    hello->incarnation = identity->incarnation;
    hello->clean_boot = core->clean_boot;
    hello->term_seen = core->term;
    (void)text_copy(hello->version, sizeof(hello->version), identity->version);
    hello->protocol = identity->protocol;
    (void)text_copy(hello->address, sizeof(hello->address), identity->address);
    hello->peer_port = identity->peer_port;
    hello->labels = identity->labels;
    hello->inventory = identity->inventory;
    hello->attempt_count = agent_report_all(core, hello->attempts);
}

void agent_on_link_up(struct agent_core *core)
{
    if (core->link.state != LINK_DIALING) {
        core->counters.bad_message++;
        return;
    }
    link_move(core, LINK_HELLO, "connected");
    core->link.heard_ms = core->now_ms;
    fill_hello(core, &agent_emit_send(core, MSG_HELLO)->u.hello);
}

void agent_on_link_down(struct agent_core *core, const char *why)
{
    if (core->link.state == LINK_CLOSED) {
        return;
    }
    link_move(core, LINK_CLOSED, why != NULL ? why : "closed");
    agent_order_unstarted_drop(core);
    schedule_dial(core);
}

/* ---- what comes in ------------------------------------------------------------------------ */

static void begin_session(struct agent_core *core)
{
    link_move(core, LINK_SESSION, "welcome");
    core->counters.sessions++;
    core->link.failures = 0;
    core->link.beat_sequence = 0;
    core->link.beat_ms = 0;
    core->link.beat_due = true;
    core->link.session_ms = core->now_ms;
    agent_mail_session(core);
}

static const char *not_welcome(uint8_t result)
{
    switch (result) {
    case HELLO_WRONG_CLUSTER:
        return "refused: another cluster";
    case HELLO_STALE:
        return "refused: a newer agent of this node is there";
    case HELLO_DUPLICATE:
        return "refused: another node has this name";
    case HELLO_VERSION:
        return "refused: versions do not fit";
    case HELLO_FULL:
        return "refused: the controller has no place for more agents";
    case HELLO_RETIRED:
        return "refused: this node was removed; a restart of this agent joins anew";
    default:
        return "refused: for a reason that this version does not know";
    }
}

static void on_welcome(struct agent_core *core, const struct msg_welcome *welcome)
{
    if (core->link.state != LINK_HELLO) {
        core->counters.bad_message++;
        return;
    }
    if (welcome->result != HELLO_WELCOME) {
        hang_up(core, not_welcome(welcome->result));
        return;
    }
    if (welcome->cluster_id[0] == '\0') {
        core->counters.bad_message++;
        hang_up(core, "the controller names no cluster");
        return;
    }
    if (core->cluster_id[0] != '\0' && !text_equal(core->cluster_id, welcome->cluster_id)) {
        core->counters.wrong_cluster++;
        hang_up(core, "the controller is of another cluster");
        return;
    }
    if (welcome->term < core->term) {
        core->counters.lower_term++;
        hang_up(core, "the controller's term is over");
        return;
    }
    if (core->cluster_id[0] == '\0') {
        struct agent_record record = {.kind = AGENT_RECORD_CLUSTER};
        (void)text_copy(record.name, sizeof(record.name), welcome->cluster_id);
        agent_emit_record(core, &record);
    }
    if (welcome->term > core->term) {
        struct agent_record record = {.kind = AGENT_RECORD_TERM, .number = welcome->term};
        agent_emit_record(core, &record);
    }
    begin_session(core);
}

static void on_ack(struct agent_core *core, const struct msg_ack *ack)
{
    if (ack->term < core->term) {
        core->counters.lower_term++;
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < core->fact_count; i++) {
        if (core->facts[i].sequence > ack->fact_sequence) {
            core->facts[kept++] = core->facts[i];
        }
    }
    const uint32_t gone = core->fact_count - kept;
    core->fact_next = core->fact_next > gone ? core->fact_next - gone : 0;
    core->fact_count = kept;
    if (gone > 0 && core->fact_next < core->fact_count) {
        core->link.beat_due = true; /* what piled up goes as fast as it is kept over there */
    }
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && !a->ends_acked &&
            a->ends_sequence <= ack->ends_sequence) {
            a->ends_acked = true;
            a->ends_due = false;
        }
    }
}

static void on_log_read(struct agent_core *core, const struct msg_log_read *read)
{
    if (!agent_emit_room(core)) {
        core->counters.too_many++;
        return;
    }
    struct agent_action *action = agent_emit(core, AGENT_ACTION_LOG_READ);
    action->job = read->job;
    action->attempt = read->attempt;
    action->u.log = *read;
}

static void on_snapshot_ask(struct agent_core *core, const struct msg_snapshot_ask *ask)
{
    if (!agent_emit_room(core)) {
        core->counters.too_many++;
        return;
    }
    struct agent_action *action = agent_emit(core, AGENT_ACTION_SNAPSHOT);
    action->job = ask->job;
    action->attempt = ask->attempt;
    action->u.snapshot = *ask;
}

static void on_save_ask(struct agent_core *core, const struct msg_save_ask *ask)
{
    if (!agent_emit_room(core)) {
        core->counters.too_many++;
        return;
    }
    struct agent_action *action = agent_emit(core, AGENT_ACTION_SAVES);
    action->job = ask->job;
    action->attempt = ask->attempt;
    action->u.saves = *ask;
    action->u.saves.spec = NULL;
    action->u.saves.spec_size = 0;
}

static void on_session_message(struct agent_core *core, const struct message *message)
{
    switch (message->kind) {
    case MSG_ACK:
        on_ack(core, &message->u.ack);
        break;
    case MSG_DESIRED:
        agent_on_desired(core, &message->u.desired);
        break;
    case MSG_CHECK:
        agent_on_check(core, &message->u.check);
        break;
    case MSG_VALIDATE:
        agent_on_validate(core, &message->u.validate);
        break;
    case MSG_CHECKPOINT_ANSWER:
        agent_on_checkpoint_answer(core, &message->u.checkpoint_answer);
        break;
    case MSG_EXCHANGE:
        agent_on_exchange(core, &message->u.exchange);
        break;
    case MSG_PEERS:
        agent_on_peers(core, &message->u.peers);
        break;
    case MSG_PEER_ASK:
        agent_on_peer_ask(core, &message->u.peer_ask);
        break;
    case MSG_LOG_READ:
        on_log_read(core, &message->u.log_read);
        break;
    case MSG_SNAPSHOT_ASK:
        on_snapshot_ask(core, &message->u.snapshot_ask);
        break;
    case MSG_SAVE_ASK:
        on_save_ask(core, &message->u.save_ask);
        break;
    default:
        core->counters.bad_message++;
        break;
    }
}

void agent_on_message(struct agent_core *core, const struct message *message)
{
    CHECK(message != NULL);
    if (message->kind == MSG_WELCOME) {
        core->link.heard_ms = core->now_ms;
        on_welcome(core, &message->u.welcome);
        return;
    }
    if (core->link.state != LINK_SESSION) {
        core->counters.bad_message++;
        return;
    }
    core->link.heard_ms = core->now_ms;
    core->link.session_ms = core->now_ms;
    on_session_message(core, message);
}

/* ---- what goes out ------------------------------------------------------------------------ */

void agent_on_fact(struct agent_core *core, const struct fact *fact)
{
    CHECK(fact != NULL);
    if (core->fact_count == core->limits.facts) {
        core->counters.too_many++;
        agent_trace(core, "fact dropped, %u are not acknowledged: %s", core->fact_count,
                    fact->text);
        return;
    }
    struct fact *kept = &core->facts[core->fact_count++];
    *kept = *fact;
    kept->sequence = agent_next_sequence(core);
    core->fact_last = kept->sequence;
    core->link.beat_due = true;
}

/* With every regular beat, and so with the first of a session, what is not acknowledged is said
 * again. */
static void say_again(struct agent_core *core)
{
    core->fact_next = 0;
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        a->ends_due = a->ends_due || (a->state != AGENT_ATTEMPT_NONE && !a->ends_acked);
    }
}

static void send_beat(struct agent_core *core)
{
    struct msg_beat *beat = &agent_emit_send(core, MSG_BEAT)->u.beat;
    memset(beat, 0, sizeof(*beat));
    beat->sequence = ++core->link.beat_sequence;
    beat->sent_ms = core->now_ms;
    const uint32_t who = core->unwell[0] ? 0 : 1;
    beat->checks_ok = !core->unwell[who];
    (void)text_copy(beat->checks_text, sizeof(beat->checks_text), core->health_text[who]);
    beat->attempt_count = agent_report_all(core, beat->attempts);
    core->link.beat_ms = core->now_ms;
    core->link.beat_due = false;
    core->counters.beats++;
}

static bool beat_is_due(const struct agent_core *core)
{
    const uint64_t gap = core->link.beat_due ? (uint64_t)AGENT_BEAT_GAP_MS : AGENT_BEAT_MS;
    return core->link.beat_sequence == 0 || core->now_ms >= core->link.beat_ms + gap;
}

static void send_ends(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state == AGENT_ATTEMPT_NONE || !a->ends_due || !agent_emit_room(core)) {
            continue;
        }
        struct msg_rank_ends *ends = &agent_emit_send(core, MSG_RANK_ENDS)->u.rank_ends;
        ends->sequence = a->ends_sequence;
        agent_report_fill(core, a, &ends->report);
        a->ends_due = false;
    }
}

static void send_facts(struct agent_core *core)
{
    uint32_t sent = 0;
    while (core->fact_next < core->fact_count && sent < AGENT_FACTS_PER_BEAT &&
           agent_emit_room(core)) {
        agent_emit_send(core, MSG_FACT)->u.fact.fact = core->facts[core->fact_next];
        core->fact_next++;
        sent++;
    }
}

static void flush(struct agent_core *core)
{
    const bool beat = beat_is_due(core);
    if (beat && core->now_ms >= core->link.beat_ms + AGENT_BEAT_MS) {
        say_again(core);
    }
    send_ends(core);
    if (beat && agent_emit_room(core)) {
        send_beat(core);
        send_facts(core);
    }
    agent_mail_flush(core);
}

void agent_link_tick(struct agent_core *core)
{
    struct agent_link *link = &core->link;
    if (link->state == LINK_CLOSED) {
        if (core->scanned && !core->leaving && core->now_ms >= link->dial_ms) {
            (void)agent_emit(core, AGENT_ACTION_DIAL);
            link_move(core, LINK_DIALING, "dial");
            link->heard_ms = core->now_ms;
            core->counters.dials++;
        }
        return;
    }
    if (core->now_ms >= link->heard_ms + AGENT_SILENCE_MS) {
        hang_up(core,
                link->state == LINK_DIALING ? "no connection came" : "the controller is silent");
        return;
    }
    if (link->state == LINK_SESSION && !core->leaving) {
        flush(core);
    }
}

static uint64_t flush_deadline(const struct agent_core *core)
{
    const struct agent_link *link = &core->link;
    if (link->beat_sequence == 0) {
        return core->now_ms;
    }
    uint64_t deadline =
        link->beat_ms + (link->beat_due ? (uint64_t)AGENT_BEAT_GAP_MS : AGENT_BEAT_MS);
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        if (core->attempts[i].state != AGENT_ATTEMPT_NONE && core->attempts[i].ends_due) {
            return core->now_ms;
        }
    }
    const uint64_t mail = agent_mail_deadline(core);
    return mail < deadline ? mail : deadline;
}

uint64_t agent_link_deadline(const struct agent_core *core)
{
    const struct agent_link *link = &core->link;
    if (core->leaving) {
        return UINT64_MAX;
    }
    if (link->state == LINK_CLOSED) {
        return core->scanned ? link->dial_ms : UINT64_MAX;
    }
    uint64_t deadline = link->heard_ms + AGENT_SILENCE_MS;
    if (link->state == LINK_SESSION) {
        const uint64_t next = flush_deadline(core);
        deadline = next < deadline ? next : deadline;
    }
    return deadline;
}

bool agent_link_good(const struct agent_core *core)
{
    return core->link.state == LINK_SESSION &&
           core->now_ms < core->link.heard_ms + AGENT_SILENCE_MS;
}
