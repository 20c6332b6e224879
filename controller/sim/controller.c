/* controller.c: the driver of controller/core in virtual time: what controller/io does, with a disk
 * whose commits take time, fail, and are cut off by a crash at every point.
 *
 *   arrivals queue up -> a turn steps each -> records wait for a commit, actions wait for records
 *   commit ends -> the actions of those records leave -> the next commit begins
 *
 * A death keeps only what is durable: the journal's first `durable` records. Everything else (the
 * core, queues, held actions, sessions) is lost, and the next life folds the journal again. */
#include <errno.h>
#include <string.h>

#include "controller/sim/world.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    RETRY_MS = 500, /* between two tries of a failed commit */
    SLOW_COMMIT_MS = 3000,
    JUDGES_LOOK_HOSTS = 128, /* fleets below are looked at in every step */
    JUDGES_LOOK_MS = 1000,
};

uint64_t ctl_wall_ms(const struct sim *sim)
{
    return (uint64_t)((int64_t)sim->now_ms + sim->ctl.wall_offset);
}

static uint64_t ctl_mono_ms(const struct sim *sim)
{
    return (uint64_t)((int64_t)sim->now_ms + sim->ctl.mono_offset);
}

/* ---- inputs ------------------------------------------------------------------------------ */

static void plan_turn(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    if (!ctl->running || ctl->turn_due) {
        return;
    }
    ctl->turn_due = true;
    uint64_t at_ms = sim->now_ms < ctl->stalled_ms ? ctl->stalled_ms : sim->now_ms;
    sim_at(sim, at_ms, (struct sim_event){.kind = SIM_EV_CTL_TURN, .life = ctl->life});
}

static void free_input(struct sim_input *input)
{
    mem_free(input->message);
    mem_free(input->request);
    mem_free(input);
}

static struct sim_input *add_input(struct sim *sim, uint8_t kind)
{
    struct sim_controller *ctl = &sim->ctl;
    struct sim_input *input = mem_alloc(1, sizeof(*input));
    input->kind = kind;
    if (ctl->last == NULL) {
        ctl->first = input;
    } else {
        ctl->last->next = input;
    }
    ctl->last = input;
    plan_turn(sim);
    return input;
}

void ctl_input(struct sim *sim, uint8_t kind, uint64_t session, bool flag,
               const struct message *message)
{
    if (!sim->ctl.running) {
        return;
    }
    struct sim_input *input = add_input(sim, kind);
    input->session = session;
    input->flag = flag;
    if (message != NULL) {
        input->message = mem_alloc(1, sizeof(*message));
        *input->message = *message;
    }
}

void ctl_request(struct sim *sim, struct sim_request *request)
{
    if (!sim->ctl.running) {
        mem_free(request); /* the operator's client says that nobody answers */
        return;
    }
    add_input(sim, SIM_IN_REQUEST)->request = request;
}

/* ---- the journal ------------------------------------------------------------------------- */

static void append_records(struct sim *sim, const struct core_output *output)
{
    struct sim_controller *ctl = &sim->ctl;
    uint64_t need = ctl->record_count + output->record_count;
    if (need > ctl->record_capacity) {
        ctl->record_capacity = need * 2;
        ctl->journal = mem_grow(ctl->journal, ctl->record_capacity, sizeof(ctl->journal[0]));
    }
    for (uint32_t index = 0; index < output->record_count; index++) {
        struct record *record = &ctl->journal[ctl->record_count++];
        *record = output->records[index];
        record->sequence = ctl->record_count;
        record->text = NULL; /* borrowed from the request; the core never looks at it */
        record->text_size = 0;
        if (record->kind == RECORD_node_lost_kind) {
            judge_lost(sim, &record->u.node_lost);
        }
    }
    sim->stats.records += output->record_count;
}

static void begin_commit(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    if (ctl->committing || ctl->record_count == ctl->durable) {
        return;
    }
    ctl->committing = true;
    ctl->commit_end = ctl->record_count;
    uint64_t took = sim_between(sim, sim->options.commit_ms[0], sim->options.commit_ms[1]);
    if (sim->now_ms < ctl->slow_ms) {
        took += sim_between(sim, 0, SLOW_COMMIT_MS);
    }
    sim_at(sim, sim->now_ms + took,
           (struct sim_event){.kind = SIM_EV_CTL_COMMIT, .life = ctl->life});
}

struct core *ctl_fold(struct sim *sim, uint64_t count)
{
    struct core_config config = {.start_grace_ms = sim->options.start_grace_ms,
                                 .start_quiet_ms = sim->options.start_grace_ms < 3000 ? 200 : 3000,
                                 .repair_wait_ms = sim->options.repair_wait_ms};
    struct core *core = NULL;
    for (uint32_t hook = 0; hook < repair_hook_count; hook++) {
        config.repair_hooks[hook] = (sim->options.hooks >> hook & 1) != 0;
    }
    int result = core_create(&sim->core_limits, &config, sim->options.seed + sim->ctl.life, &core);
    CHECK(result == 0);
    for (uint64_t index = 0; index < count; index++) {
        struct err err = {0};
        if (sim->ctl.journal[index].kind != RECORD_term_began_kind && index + 3 < count &&
            sim->ctl.journal[index].kind == RECORD_node_moved_kind &&
            sim_mutate(sim, SIM_LOSE_RECORD)) {
            continue;
        }
        if (core_replay(core, &sim->ctl.journal[index], &err) < 0) {
            sim_object(sim, SIM_JUDGE_REPLAY, "record %llu of %llu does not fold: %s",
                       (unsigned long long)(index + 1), (unsigned long long)count, err.text);
            break;
        }
    }
    return core;
}

/* ---- actions ----------------------------------------------------------------------------- */

static void hold_actions(struct sim *sim, const struct core_output *output)
{
    struct sim_controller *ctl = &sim->ctl;
    uint32_t need = ctl->held_count + output->action_count;
    if (need > ctl->held_capacity) {
        ctl->held_capacity = need * 2;
        ctl->held = mem_grow(ctl->held, ctl->held_capacity, sizeof(ctl->held[0]));
    }
    for (uint32_t index = 0; index < output->action_count; index++) {
        ctl->held[ctl->held_count++] =
            (struct sim_held){.action = output->actions[index], .position = ctl->record_count};
    }
}

static void ping(struct sim *sim, uint64_t session)
{
    const struct sim_conn *conn = net_conn(sim, session);
    bool alive = false;
    if (conn != NULL && conn->agent_open) {
        const struct sim_host *host = &sim->hosts[conn->host];
        alive = agent_runs(host) && host->agent_life == conn->agent_life &&
                net_path_open(sim, NET_CONTROLLER, conn->host) &&
                net_path_open(sim, conn->host, NET_CONTROLLER);
    }
    sim_at(sim, sim->now_ms + (alive ? 2 * sim->options.delay_ms[1] + 1 : SIM_PING_MS),
           (struct sim_event){.kind = SIM_EV_CTL_PINGED, .id = session, .what = alive ? 1 : 0});
}

static void reply(struct sim *sim, const struct action *action)
{
    if (action->u.reply.result < 0) {
        bool full = sim->ctl.record_count - sim->ctl.durable >= sim->core_limits.pending_records;
        sim->stats.seen[SIM_SEEN_STORE_FULL] += full && action->u.reply.result == -EAGAIN ? 1 : 0;
        sim_trace(sim, "operator is answered: %s", action->u.reply.text);
    }
}

static void act(struct sim *sim, const struct action *action)
{
    switch ((enum action_kind)action->kind) {
    case ACTION_SEND: {
        struct message message;
        action_message(sim->ctl.core, action, &message);
        if (message.kind == MSG_CHECKPOINT_ANSWER && sim->options.mutation == SIM_LOSE_ANSWER) {
            return;
        }
        net_send_down(sim, action->session, &message);
        return;
    }
    case ACTION_CLOSE:
        net_close_controller(sim, action->session);
        ctl_input(sim, SIM_IN_CLOSED, action->session, false, NULL);
        return;
    case ACTION_PING:
        ping(sim, action->session);
        return;
    case ACTION_REPLY:
        reply(sim, action);
        return;
    case ACTION_FENCE:
        return; /* this site has no such hook: fence_hook is false */
    case ACTION_REPAIR:
        hook_start(sim, action);
        return;
    }
    CHECK(false);
}

/* Everything whose records are durable leaves, in order; at most so many. */
static void release(struct sim *sim, uint64_t durable, uint32_t most)
{
    struct sim_controller *ctl = &sim->ctl;
    uint32_t count = 0;
    while (count < ctl->held_count && count < most && ctl->held[count].position <= durable) {
        const struct action action = ctl->held[count].action; /* acting may grow the array */
        act(sim, &action);
        count++;
    }
    if (count == 0) {
        return;
    }
    ctl->held_count -= count;
    memmove(ctl->held, ctl->held + count, ctl->held_count * sizeof(ctl->held[0]));
}

/* ---- steps ------------------------------------------------------------------------------- */

static void trace_lines(struct sim *sim, const char *trace)
{
    while (*trace != '\0') {
        const char *end = strchr(trace, '\n');
        size_t size = end == NULL ? strlen(trace) : (size_t)(end - trace);
        sim_trace(sim, "C %.*s", (int)(size < 280 ? size : 280), trace);
        trace += size + (end == NULL ? 0 : 1);
    }
}

/* A slot that its node does not know of any more, as a stray write would leave it. */
static void break_core(struct sim *sim)
{
    const struct core *core = sim->ctl.core;
    bool wanted = sim->options.mutation == SIM_BREAK_CORE;
    for (uint32_t id = 1; wanted && id <= core_node_count(core); id++) {
        const struct node *node = core_node(core, id);
        if (node->d.job != 0 && sim_mutate(sim, SIM_BREAK_CORE)) {
            ((struct node *)(uintptr_t)node)->d.job = 0;
        }
    }
}

/* The judges of the whole state walk over the fleet. In a large one they look after a share of the
 * steps that wrote something and at least once a second: thousands of agents say hello one by one,
 * and what one of them breaks stays broken for longer than that. */
static bool judges_look(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    const uint32_t share = sim->host_count / JUDGES_LOOK_HOSTS;
    ctl->unjudged++;
    if (ctl->unjudged <= share && sim->now_ms < ctl->judged_ms + JUDGES_LOOK_MS) {
        return false;
    }
    ctl->unjudged = 0;
    ctl->judged_ms = sim->now_ms;
    return true;
}

static void step(struct sim *sim, struct event *event)
{
    struct sim_controller *ctl = &sim->ctl;
    event->now_ms = ctl_mono_ms(sim);
    event->wall_ms = ctl_wall_ms(sim);
    event->pending_records = (uint32_t)(ctl->record_count - ctl->durable);
    event->more = ctl->more;
    struct core_output output = {0};
    core_step(ctl->core, event, &output);
    trace_lines(sim, output.trace);
    append_records(sim, &output);
    hold_actions(sim, &output);
    break_core(sim);
    const bool look = output.record_count > 0 && judges_look(sim);
    if (look || sim->options.check_all) {
        sim->stats.judged[SIM_JUDGE_INVARIANT]++;
        core_check(ctl->core);
    }
    if (look) {
        judge_state(sim);
        if (sim_chance(sim, 20000)) {
            ctl->digest_count = ctl->record_count;
            ctl->digest = core_digest(ctl->core);
        }
    }
    if (sim->options.mutation == SIM_ACT_EARLY) {
        release(sim, ctl->record_count, UINT32_MAX);
    }
}

static void step_message(struct sim *sim, struct sim_input *input)
{
    struct sim_conn *conn = net_conn(sim, input->session);
    struct event event = {.session = input->session};
    if (conn == NULL || !conn->ctl_open) {
        return; /* the driver has closed it: the rest of its bytes are not read */
    }
    if (!conn->hello) {
        if (input->message->kind != MSG_HELLO) {
            net_close_controller(sim, input->session);
            return;
        }
        conn->hello = true;
        event.kind = EVENT_HELLO;
        event.u.hello = &input->message->u.hello;
    } else {
        event.kind = EVENT_MESSAGE;
        event.u.message = input->message;
    }
    step(sim, &event);
}

static void step_input(struct sim *sim, struct sim_input *input)
{
    struct event event = {.session = input->session};
    switch ((enum sim_input_kind)input->kind) {
    case SIM_IN_MESSAGE:
        step_message(sim, input);
        return;
    case SIM_IN_CLOSED:
        event.kind = EVENT_CLOSED;
        break;
    case SIM_IN_PINGED:
        event.kind = EVENT_PINGED;
        event.u.pinged_alive = input->flag;
        break;
    case SIM_IN_REQUEST:
        event.kind = EVENT_REQUEST;
        event.u.request = &input->request->request;
        break;
    case SIM_IN_STORE:
        event.kind = EVENT_STORE;
        event.u.store = input->flag ? STORE_FAILING : STORE_OK;
        break;
    case SIM_IN_REPAIRED:
        event.kind = EVENT_REPAIRED;
        event.session = 0;
        event.u.repaired.node = (uint32_t)(input->session >> 32);
        event.u.repaired.order = (uint32_t)input->session;
        event.u.repaired.ok = input->flag;
        (void)text_copy(event.u.repaired.text, TEXT_SIZE, input->flag ? "done" : "exit 1");
        break;
    }
    step(sim, &event);
}

static void arm(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    uint64_t deadline = core_deadline_ms(ctl->core);
    if (deadline == UINT64_MAX) {
        ctl->tick_ms = 0;
        return;
    }
    uint64_t at_ms = (uint64_t)((int64_t)deadline - ctl->mono_offset);
    at_ms = at_ms > sim->now_ms ? at_ms : sim->now_ms;
    if (at_ms != ctl->tick_ms) {
        ctl->tick_ms = at_ms;
        sim_at(sim, at_ms,
               (struct sim_event){.kind = SIM_EV_CTL_TICK, .life = ctl->life, .id = at_ms});
    }
}

static void end_turn(struct sim *sim)
{
    if (!sim->ctl.running || sim->over) {
        return;
    }
    release(sim, sim->ctl.durable, UINT32_MAX);
    begin_commit(sim);
    arm(sim);
}

void ctl_turn(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    if (!ctl->running) {
        return;
    }
    ctl->turn_due = false;
    if (sim->now_ms < ctl->stalled_ms) {
        plan_turn(sim);
        return;
    }
    struct sim_input *input = ctl->first;
    ctl->first = NULL;
    ctl->last = NULL;
    while (input != NULL) {
        struct sim_input *next = input->next;
        /* Scripts are about one event after the other; else a turn's events are looked at as one. */
        ctl->more = next != NULL && !sim->scripted;
        if (!sim->over) {
            step_input(sim, input);
        }
        free_input(input);
        input = next;
    }
    ctl->more = false;
    end_turn(sim);
}

void ctl_tick(struct sim *sim, const struct sim_event *event)
{
    struct sim_controller *ctl = &sim->ctl;
    if (!ctl->running || event->life != ctl->life || event->id != ctl->tick_ms) {
        return; /* armed anew since */
    }
    if (sim->now_ms < ctl->stalled_ms) {
        ctl->tick_ms = ctl->stalled_ms;
        sim_at(sim, ctl->stalled_ms,
               (struct sim_event){.kind = SIM_EV_CTL_TICK, .life = ctl->life, .id = ctl->tick_ms});
        return;
    }
    ctl->tick_ms = 0;
    struct event tick = {.kind = EVENT_TICK};
    step(sim, &tick);
    end_turn(sim);
}

/* ---- commits ----------------------------------------------------------------------------- */

static void commit_failed(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    if (!ctl->told_failing) {
        ctl->told_failing = true;
        sim_trace(sim, "commit fails, %llu records wait",
                  (unsigned long long)(ctl->record_count - ctl->durable));
        ctl_input(sim, SIM_IN_STORE, 0, true, NULL);
    }
    sim_at(sim, sim->now_ms + RETRY_MS,
           (struct sim_event){.kind = SIM_EV_CTL_COMMIT, .life = ctl->life});
}

/* Does this commit end in a death, and where? kill_at counts records. */
static enum sim_cut cut_now(const struct sim_controller *ctl)
{
    if (ctl->kill_at == 0) {
        return (enum sim_cut)ctl->cut;
    }
    bool in_it = ctl->durable < ctl->kill_at && ctl->kill_at <= ctl->commit_end;
    return in_it ? (enum sim_cut)ctl->cut : SIM_CUT_NONE;
}

static void cut_off(struct sim *sim, enum sim_cut cut)
{
    static const char *const words[] = {"", "before a commit", "after a commit, before its actions",
                                        "amid its actions"};
    if (cut == SIM_CUT_MID) {
        uint32_t most = sim->ctl.held_count > 1 ? sim->ctl.held_count - 1 : 0;
        release(sim, sim->ctl.durable, (uint32_t)sim_between(sim, 0, most));
    }
    sim->ctl.cut = SIM_CUT_NONE;
    sim->ctl.kill_at = 0;
    ctl_die(sim, words[cut], sim->scripted ? 1000 : sim_between(sim, 200, 30000));
}

static void note_commit(struct sim_controller *ctl)
{
    if (ctl->commit_count == ctl->commit_capacity) {
        ctl->commit_capacity = ctl->commit_capacity * 2 + 64;
        ctl->commits = mem_grow(ctl->commits, ctl->commit_capacity, sizeof(ctl->commits[0]));
    }
    ctl->commits[ctl->commit_count++] = ctl->durable;
}

void ctl_cut_store(struct sim *sim, uint64_t most)
{
    struct sim_controller *ctl = &sim->ctl;
    CHECK(!ctl->running);
    while (ctl->commit_count > 0 && ctl->commits[ctl->commit_count - 1] > most) {
        ctl->commit_count--;
    }
    ctl->durable = ctl->commit_count == 0 ? 0 : ctl->commits[ctl->commit_count - 1];
    ctl->record_count = ctl->durable;
    ctl->digest_count = 0;
}

void ctl_commit_end(struct sim *sim, const struct sim_event *event)
{
    struct sim_controller *ctl = &sim->ctl;
    if (!ctl->running || event->life != ctl->life || !ctl->committing) {
        return;
    }
    if (sim->now_ms < ctl->stalled_ms) {
        sim_at(sim, ctl->stalled_ms, *event);
        return;
    }
    bool busy = sim->now_ms < ctl->busy_ms && sim_chance(sim, 500000);
    if (sim->now_ms < ctl->failing_ms || busy) {
        commit_failed(sim);
        return;
    }
    if (ctl->unknown) { /* made or not: reading it back says so, and it is made again if not */
        ctl->unknown = false;
        sim_at(sim, sim->now_ms + sim_between(sim, 10, RETRY_MS), *event);
        return;
    }
    enum sim_cut cut = cut_now(ctl);
    if (cut == SIM_CUT_BEFORE) {
        cut_off(sim, cut);
        return;
    }
    ctl->durable = ctl->commit_end;
    ctl->committing = false;
    note_commit(ctl);
    judge_records(sim);
    if (cut != SIM_CUT_NONE) {
        cut_off(sim, cut);
        return;
    }
    if (ctl->told_failing) {
        ctl->told_failing = false;
        ctl_input(sim, SIM_IN_STORE, 0, false, NULL);
    }
    end_turn(sim);
}

/* ---- life and death ---------------------------------------------------------------------- */

static int fold_image(const struct record *record, void *context)
{
    struct sim *sim = ((void **)context)[0];
    struct core *core = ((void **)context)[1];
    struct record copy = *record;
    if (copy.kind == RECORD_image_node_kind && sim_mutate(sim, SIM_EDIT_SNAPSHOT)) {
        copy.u.image_node.strikes++;
    }
    struct err err = {0};
    int result = core_replay(core, &copy, &err);
    if (result < 0) {
        sim_object(sim, SIM_JUDGE_SNAPSHOT, "an image of kind %u does not fold: %s", record->kind,
                   err.text);
    }
    return result;
}

/* The state by way of its images: what a start from a snapshot has. Takes core. */
static struct core *by_snapshot(struct sim *sim, struct core *core)
{
    struct core *fresh = ctl_fold(sim, 0);
    void *context[] = {sim, fresh};
    sim->stats.judged[SIM_JUDGE_SNAPSHOT]++;
    if (core_snapshot(core, fold_image, context) == 0 && core_digest(fresh) != core_digest(core)) {
        sim_object(sim, SIM_JUDGE_SNAPSHOT, "%llu records and their images give two states",
                   (unsigned long long)sim->ctl.durable);
    }
    (void)core_free(core);
    return fresh;
}

static void make_id(struct sim *sim, char *text, size_t size)
{
    /* One after the other: in which order arguments are evaluated is up to the compiler. */
    uint64_t high = prng_next(&sim->prng);
    uint64_t low = prng_next(&sim->prng);
    (void)text_format(text, size, "%016llx%016llx", (unsigned long long)high,
                      (unsigned long long)low);
}

/* Folding in two parts, at any place, must give what folding in one gives; and what the live core
 * was, where its digest was taken. */
static void judge_prefix(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    if (ctl->digest_count == 0 || ctl->digest_count > ctl->durable) {
        return;
    }
    struct core *core = ctl_fold(sim, ctl->digest_count);
    sim->stats.judged[SIM_JUDGE_REPLAY]++;
    if (!sim->over && core_digest(core) != ctl->digest) {
        sim_object(sim, SIM_JUDGE_REPLAY, "%llu records do not fold to the state that wrote them",
                   (unsigned long long)ctl->digest_count);
    }
    (void)core_free(core);
    ctl->digest_count = 0;
}

/* At the end of all: what is durable, folded in one go and in two parts at any place, is what the
 * controller that ran last is. */
void ctl_judge_end(struct sim *sim)
{
    const struct sim_controller *ctl = &sim->ctl;
    if (sim->over || !ctl->running || ctl->durable == 0 || ctl->record_count != ctl->durable) {
        return;
    }
    struct core *whole = ctl_fold(sim, ctl->durable);
    sim->stats.judged[SIM_JUDGE_REPLAY]++;
    if (!sim->over && core_digest(whole) != core_digest(ctl->core)) {
        sim_object(sim, SIM_JUDGE_REPLAY, "%llu records do not fold to the state that wrote them",
                   (unsigned long long)ctl->durable);
    }
    (void)core_free(whole);
    uint64_t part = sim_between(sim, 1, ctl->durable);
    struct core *parts = by_snapshot(sim, ctl_fold(sim, part));
    for (uint64_t index = part; index < ctl->durable && !sim->over; index++) {
        struct err err = {0};
        if (core_replay(parts, &ctl->journal[index], &err) < 0) {
            sim_object(sim, SIM_JUDGE_SNAPSHOT,
                       "record %llu does not follow a snapshot at %llu: %s",
                       (unsigned long long)index + 1, (unsigned long long)part, err.text);
        }
    }
    if (!sim->over && core_digest(parts) != core_digest(ctl->core)) {
        sim_object(sim, SIM_JUDGE_SNAPSHOT, "a snapshot at record %llu leads to another state",
                   (unsigned long long)part);
    }
    (void)core_free(parts);
}

void ctl_start(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    CHECK(!ctl->running);
    ctl->life++;
    sim->stats.restarts++;
    ctl->mono_offset = (int64_t)sim_between(sim, 0, 1000000000);
    judge_prefix(sim);
    ctl->core = ctl_fold(sim, ctl->durable);
    if (!sim->over && ctl->durable > 0 && sim_chance(sim, 500000)) {
        ctl->core = by_snapshot(sim, ctl->core);
    }
    ctl->running = true;
    ctl->turn_due = false;
    ctl->tick_ms = 0;
    judge_new_core(sim);
    ctl->trouble_ms = sim->now_ms;
    sim_trace(sim, "controller starts, life %llu, %llu records", (unsigned long long)ctl->life,
              (unsigned long long)ctl->durable);
    struct event event = {.kind = EVENT_START};
    make_id(sim, event.u.start.cluster_id, sizeof(event.u.start.cluster_id));
    make_id(sim, event.u.start.store_id, sizeof(event.u.start.store_id));
    step(sim, &event);
    end_turn(sim);
}

static void drop_inputs(struct sim_controller *ctl)
{
    while (ctl->first != NULL) {
        struct sim_input *next = ctl->first->next;
        free_input(ctl->first);
        ctl->first = next;
    }
    ctl->last = NULL;
}

void ctl_die(struct sim *sim, const char *why, uint64_t back_ms)
{
    struct sim_controller *ctl = &sim->ctl;
    if (!ctl->running) {
        return;
    }
    sim_trace(sim, "controller dies %s: %llu of %llu records are durable", why,
              (unsigned long long)ctl->durable, (unsigned long long)ctl->record_count);
    ctl->running = false;
    ctl->core = core_free(ctl->core);
    drop_inputs(ctl);
    ctl->record_count = ctl->durable;
    ctl->held_count = 0;
    ctl->committing = false;
    ctl->told_failing = false;
    ctl->stalled_ms = 0;
    ctl->cut = SIM_CUT_NONE;
    if (ctl->digest_count > ctl->durable) {
        ctl->digest_count = 0;
    }
    net_controller_died(sim);
    sim_at(sim, sim->now_ms + back_ms, (struct sim_event){.kind = SIM_EV_CTL_START});
}

void ctl_done(struct sim *sim)
{
    struct sim_controller *ctl = &sim->ctl;
    drop_inputs(ctl);
    ctl->core = core_free(ctl->core);
    ctl->journal = mem_free(ctl->journal);
    ctl->held = mem_free(ctl->held);
    ctl->commits = mem_free(ctl->commits);
}
