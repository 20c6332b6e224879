/* agent_core.c: the core as a whole: memory, the one entry, the one deadline.
 *
 * A step has two halves. First the event is folded into the state by its own function; then every
 * part looks once at the whole state and does what is due now: orders before attempts, since an
 * order may begin a stop; the link last, since it reports what the others did. So nothing that is
 * due depends on which event came, and a lost or repeated event changes nothing. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

void agent_limits_default(struct agent_limits *ret_limits)
{
    *ret_limits = (struct agent_limits){
        .attempts = 8,
        .jobs = 64,
        .exchange_keys = 64,
        .exchange_gets = 64,
        .checkpoints = 128,
        .facts = 64,
        .questions = 16,
        .output_records = 48,
        .output_actions = 96,
        .output_traces = 64,
    };
}

static bool limits_are_enough(const struct agent_limits *limits)
{
    return limits->attempts >= ATTEMPTS_PER_NODE_MAX && limits->attempts <= AGENT_ATTEMPTS_LIMIT &&
           limits->jobs >= limits->attempts &&
           limits->output_records >= 4 + PEERS_KNOWN_MAX + 4 * limits->attempts &&
           limits->output_actions >= 32 + 6 * limits->attempts;
}

/* An array that may have no elements still has an address. */
static void *array(uint32_t count, size_t size)
{
    return mem_alloc(count > 0 ? count : 1, size);
}

int agent_core_create(const struct agent_limits *limits, uint64_t seed,
                      const struct agent_identity *identity, struct agent_core **ret_core)
{
    if (!limits_are_enough(limits) || !text_is_name(identity->node, sizeof(identity->node)) ||
        identity->peer_count > AGENT_PEERS_MAX) {
        return -EINVAL;
    }
    struct agent_core *core = mem_alloc(1, sizeof(*core));
    core->limits = *limits;
    core->identity = *identity;
    prng_seed(&core->prng, seed);
    core->attempts = array(limits->attempts, sizeof(core->attempts[0]));
    core->jobs = array(limits->jobs, sizeof(core->jobs[0]));
    core->keys = array(limits->exchange_keys, sizeof(core->keys[0]));
    core->gets = array(limits->exchange_gets, sizeof(core->gets[0]));
    core->checkpoints = array(limits->checkpoints, sizeof(core->checkpoints[0]));
    core->facts = array(limits->facts, sizeof(core->facts[0]));
    core->questions = array(limits->questions, sizeof(core->questions[0]));
    *ret_core = core;
    return 0;
}

struct agent_core *agent_core_free(struct agent_core *core)
{
    if (core != NULL) {
        mem_free(core->attempts);
        mem_free(core->jobs);
        mem_free(core->keys);
        mem_free(core->gets);
        mem_free(core->checkpoints);
        mem_free(core->facts);
        mem_free(core->questions);
        mem_free(core);
    }
    return NULL;
}

/* A life's number only grows, also when the journal was lost: then the wall clock carries it on. */
static void on_start(struct agent_core *core)
{
    CHECK(!core->started);
    const bool same_boot = text_equal(core->boot_id, core->identity.boot_id);
    core->clean_boot = core->life == 0 || core->said_goodbye || same_boot;
    const uint64_t wall_s = core->wall_ms / 1000;
    struct agent_record record = {.kind = AGENT_RECORD_LIFE,
                                  .number = wall_s > core->life ? wall_s : core->life + 1};
    (void)text_copy(record.name, sizeof(record.name), core->identity.boot_id);
    agent_emit_record(core, &record);
    core->started = true;
    core->link.session_ms = core->now_ms;
    agent_trace(core, "life %llu, boot %s, %s", (unsigned long long)core->life,
                core->identity.boot_id, core->clean_boot ? "clean" : "after an unclean end");
    agent_attempts_restore(core);
    (void)agent_emit(core, AGENT_ACTION_SCAN);
}

static void on_goodbye(struct agent_core *core, const struct agent_event *event)
{
    if (core->leaving) {
        return;
    }
    core->leaving = true;
    struct agent_record record = {.kind = AGENT_RECORD_GOODBYE, .number = event->goodbye};
    agent_emit_record(core, &record);
    agent_trace(core, "goodbye: ranks are left alone");
    if (core->link.state == LINK_SESSION) {
        struct msg_goodbye *goodbye = &agent_emit_send(core, MSG_GOODBYE)->u.goodbye;
        memset(goodbye, 0, sizeof(*goodbye));
        goodbye->kind = event->goodbye;
        (void)text_copy(goodbye->text, sizeof(goodbye->text),
                        event->text != NULL ? event->text : "");
    }
    (void)agent_emit(core, AGENT_ACTION_EXIT);
}

static void on_health(struct agent_core *core, const struct agent_event *event)
{
    bool *unwell = &core->unwell[event->by_probes];
    char *before = core->health_text[event->by_probes];
    const char *text = event->text != NULL ? event->text : "";
    if (*unwell == event->ok || !text_equal(before, text)) {
        *unwell = !event->ok;
        (void)text_copy(before, TEXT_SIZE, text);
        core->link.beat_due = true;
    }
}

/* Of what the driver was to look at. */
static void on_outcome(struct agent_core *core, const struct agent_event *event)
{
    if (event->kind == AGENT_EVENT_CHECKED) {
        agent_on_checked(core, event);
    } else {
        agent_on_validated(core, event);
    }
}

static int fold_event(struct agent_core *core, const struct agent_event *event)
{
    switch ((enum agent_event_kind)event->kind) {
    case AGENT_EVENT_START:
        on_start(core);
        return 0;
    case AGENT_EVENT_TICK:
        return 0;
    case AGENT_EVENT_LINK_UP:
        agent_on_link_up(core);
        return 0;
    case AGENT_EVENT_LINK_DOWN:
        agent_on_link_down(core, event->text);
        return 0;
    case AGENT_EVENT_MESSAGE:
        agent_on_message(core, event->message);
        return 0;
    case AGENT_EVENT_SHIM:
        agent_on_shim(core, event);
        return 0;
    case AGENT_EVENT_SHIM_LOST:
        agent_on_shim_lost(core, event);
        return 0;
    case AGENT_EVENT_ORPHANS:
        agent_on_orphans(core, event);
        return 0;
    case AGENT_EVENT_ORPHAN_ENDED:
        agent_on_orphan_ended(core, event);
        return 0;
    case AGENT_EVENT_SCANNED:
        agent_on_scanned(core, event);
        return 0;
    case AGENT_EVENT_LAUNCH_FAILED:
        agent_on_launch_failed(core, event);
        return 0;
    case AGENT_EVENT_MAILBOX:
        agent_on_mailbox(core, event);
        return 0;
    case AGENT_EVENT_PRINTED:
    case AGENT_EVENT_READING:
        agent_on_output(core, event);
        return 0;
    case AGENT_EVENT_MAIL:
        agent_on_mail(core, event);
        return 0;
    case AGENT_EVENT_DETAIL:
        agent_on_detail(core, event);
        return 0;
    case AGENT_EVENT_PEER_QUESTION:
        agent_on_peer_question(core, event);
        return 0;
    case AGENT_EVENT_PEER_PROBED:
        agent_on_peer_probed(core, event);
        return 0;
    case AGENT_EVENT_CHECKED:
    case AGENT_EVENT_VALIDATED:
        on_outcome(core, event);
        return 0;
    case AGENT_EVENT_FACT:
        agent_on_fact(core, event->fact);
        return 0;
    case AGENT_EVENT_HEALTH:
        on_health(core, event);
        return 0;
    case AGENT_EVENT_GOODBYE:
        on_goodbye(core, event);
        return 0;
    }
    return -EINVAL;
}

int agent_core_step(struct agent_core *core, const struct agent_event *event,
                    struct agent_output *output)
{
    CHECK(core->started || event->kind == AGENT_EVENT_START);
    CHECK(output->record_max >= core->limits.output_records);
    CHECK(output->action_max >= core->limits.output_actions);
    output->record_count = 0;
    output->action_count = 0;
    output->trace_count = 0;
    output->trace_dropped = 0;
    core->out = output;
    /* A driver's clock that steps back a little must not undo what was due. */
    core->now_ms = event->now_ms > core->now_ms ? event->now_ms : core->now_ms;
    core->wall_ms = event->wall_ms;
    const int r = fold_event(core, event);
    if (r == 0) {
        agent_orders_tick(core);
        agent_attempts_tick(core);
        agent_peers_tick(core);
        agent_link_tick(core);
    }
    core->out = NULL;
    return r;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t agent_core_deadline_ms(const struct agent_core *core)
{
    if (!core->started) {
        return UINT64_MAX;
    }
    return least(least(agent_attempts_deadline(core), agent_orders_deadline(core)),
                 least(agent_peers_deadline(core), agent_link_deadline(core)));
}

void agent_core_view(const struct agent_core *core, struct agent_view *ret_view)
{
    memset(ret_view, 0, sizeof(*ret_view));
    (void)text_copy(ret_view->cluster_id, sizeof(ret_view->cluster_id), core->cluster_id);
    ret_view->term = core->term;
    ret_view->life = core->life;
    ret_view->scanned = core->scanned;
    ret_view->session = core->link.state == LINK_SESSION;
    ret_view->counters = core->counters;
    ret_view->facts_free = core->limits.facts - core->fact_count;
    ret_view->fact_last = core->fact_last;
    ret_view->facts_below = core->fact_count > 0 ? core->facts[0].sequence : core->fact_last + 1;
}

bool agent_core_attempt(const struct agent_core *core, uint32_t index,
                        struct attempt_report *ret_report, uint8_t *ret_state)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        const struct agent_attempt *a = &core->attempts[i];
        if (a->state == AGENT_ATTEMPT_NONE) {
            continue;
        }
        if (index == 0) {
            agent_report_fill(core, a, ret_report);
            if (ret_state != NULL) {
                *ret_state = a->state;
            }
            return true;
        }
        index--;
    }
    return false;
}
