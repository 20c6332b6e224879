/* agent.c: the driver of agent/core in virtual time: what agent/io does. A step's records are
 * written and synced before its actions are carried out, and no other event is looked at
 * meanwhile. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { COMMIT_MAX_MS = 5, PEER_PORT = 7445 };

bool agent_runs(const struct sim_host *host)
{
    return host->up && host->agent_up && !host->agent_stopped && !host->frozen;
}

static uint64_t mono_ms(const struct sim *sim, const struct sim_host *host)
{
    return sim->now_ms - host->boot_ms + 1000;
}

static uint64_t world_ms(const struct sim_host *host, uint64_t mono)
{
    return mono - 1000 + host->boot_ms;
}

static uint64_t wall_ms(const struct sim *sim, const struct sim_host *host)
{
    return (uint64_t)(1764000000000 + (int64_t)sim->now_ms + host->wall_offset);
}

/* ---- inputs ------------------------------------------------------------------------------ */

static void free_input(struct sim_agent_input *input)
{
    mem_free(input->message);
    mem_free(input->mail);
    mem_free(input->fact);
    mem_free(input);
}

void agent_wake(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    if (!agent_runs(host) || host->busy || host->turn_due) {
        return;
    }
    host->turn_due = true;
    sim_at(sim, sim->now_ms,
           (struct sim_event){.kind = SIM_EV_AGENT_TURN, .host = index, .life = host->agent_life});
}

struct sim_agent_input *agent_input(struct sim *sim, uint32_t index, uint8_t kind)
{
    struct sim_host *host = &sim->hosts[index];
    CHECK(host->agent_up);
    struct sim_agent_input *input = mem_alloc(1, sizeof(*input));
    input->event.kind = kind;
    if (host->last == NULL) {
        host->first = input;
    } else {
        host->last->next = input;
    }
    host->last = input;
    return input;
}

void agent_deliver(struct sim *sim, uint32_t index, uint64_t conn, const struct message *message)
{
    struct sim_host *host = &sim->hosts[index];
    if (!host->agent_up) {
        return;
    }
    struct sim_agent_input *input = agent_input(sim, index, AGENT_EVENT_MESSAGE);
    input->message = mem_alloc(1, sizeof(*message));
    *input->message = *message;
    input->conn = conn;
    agent_wake(sim, index);
}

void agent_link(struct sim *sim, uint32_t index, uint64_t conn, bool up, const char *why)
{
    struct sim_host *host = &sim->hosts[index];
    if (!host->agent_up) {
        return;
    }
    if (!up && conn != 0 && host->conn != conn) {
        return; /* of a connection that it has given up itself */
    }
    if (!up) {
        host->conn = 0;
    }
    struct sim_agent_input *input =
        agent_input(sim, index, up ? AGENT_EVENT_LINK_UP : AGENT_EVENT_LINK_DOWN);
    input->conn = conn;
    (void)text_copy(input->text, sizeof(input->text), why);
    agent_wake(sim, index);
}

/* ---- actions ----------------------------------------------------------------------------- */

static void hang_up(struct sim *sim, struct sim_host *host)
{
    host->dial++; /* a dial that is still on its way counts no more */
    if (host->conn != 0) {
        net_close_agent(sim, host->conn);
        host->conn = 0;
    }
}

static void answer_log(struct sim *sim, const struct sim_host *host,
                       const struct agent_action *action)
{
    struct message message = {.kind = MSG_LOG_DATA};
    message.u.log_data = (struct msg_log_data){.nonce = action->u.log.nonce, .last = true};
    net_send_up(sim, host->conn, &message);
}

static void answer_snapshot(struct sim *sim, const struct sim_host *host,
                            const struct agent_action *action)
{
    struct message message = {.kind = MSG_SNAPSHOT_DATA};
    message.u.snapshot_data = (struct msg_snapshot_data){.nonce = action->u.snapshot.nonce,
                                                         .job = action->job,
                                                         .attempt = action->attempt,
                                                         .round = action->u.snapshot.round};
    net_send_up(sim, host->conn, &message);
}

static void validate(struct sim *sim, uint32_t index, const struct msg_validate *ask)
{
    sim_at(sim, sim->now_ms + sim_between(sim, 5, ask->level == VALIDATE_FULL ? 60000 : 3000),
           (struct sim_event){.kind = SIM_EV_VALIDATED,
                              .host = index,
                              .life = sim->hosts[index].agent_life,
                              .id = ask->nonce});
}

static void act(struct sim *sim, uint32_t index, const struct agent_action *action)
{
    struct sim_host *host = &sim->hosts[index];
    switch ((enum agent_action_kind)action->kind) {
    case AGENT_ACTION_DIAL:
        net_dial(sim, index);
        return;
    case AGENT_ACTION_HANG_UP:
        hang_up(sim, host);
        return;
    case AGENT_ACTION_SEND:
        net_send_up(sim, host->conn, &action->u.message);
        return;
    case AGENT_ACTION_SCAN:
        shim_scan(sim, index, action->job);
        return;
    case AGENT_ACTION_START:
        shim_start(sim, index, &action->u.start);
        return;
    case AGENT_ACTION_TERM:
        shim_signal(sim, index, action->job, action->attempt, false);
        return;
    case AGENT_ACTION_KILL:
        shim_signal(sim, index, action->job, action->attempt, true);
        return;
    case AGENT_ACTION_SWEEP:
        shim_sweep(sim, index, action->job, action->attempt);
        return;
    case AGENT_ACTION_FORGET:
        shim_forget(sim, index, action->job, action->attempt);
        return;
    case AGENT_ACTION_MAIL_ANSWER:
        train_mail_answer(sim, index, action);
        return;
    case AGENT_ACTION_MAIL_REQUEST:
        train_mail_request(sim, index, action);
        return;
    case AGENT_ACTION_PEER_PROBE:
        net_probe(sim, index, &action->u.probe);
        return;
    case AGENT_ACTION_PEER_REPLY:
        net_probe_reply(sim, action->token, &action->u.reply);
        return;
    case AGENT_ACTION_CHECK:
        sim_at(sim, sim->now_ms + sim_between(sim, 5, 300),
               (struct sim_event){.kind = SIM_EV_CHECKED,
                                  .host = index,
                                  .life = host->agent_life,
                                  .id = action->u.check.nonce});
        return;
    case AGENT_ACTION_VALIDATE:
        validate(sim, index, &action->u.validate);
        return;
    case AGENT_ACTION_LOG_READ:
        answer_log(sim, host, action);
        return;
    case AGENT_ACTION_SNAPSHOT:
        answer_snapshot(sim, host, action);
        return;
    case AGENT_ACTION_MAIL_ABORT: /* ranks here hang in nothing that could be aborted */
    case AGENT_ACTION_SAVES:      /* no job of the simulator has a folder to be looked into */
        return;
    case AGENT_ACTION_EXIT:
        agent_die(sim, index, "as it was told to");
        sim_at(sim, sim->now_ms + sim_between(sim, 500, 20000),
               (struct sim_event){.kind = SIM_EV_AGENT_START, .host = index, .life = host->boots});
        return;
    }
    CHECK(false);
}

/* ---- steps ------------------------------------------------------------------------------- */

static void keep_waiting(struct sim_host *host, const struct agent_output *output)
{
    if (output->record_count > host->pending_capacity) {
        host->pending_capacity = output->record_count * 2;
        host->pending = mem_grow(host->pending, host->pending_capacity, sizeof(host->pending[0]));
    }
    host->waiting_count = 0;
    host->pending_count = 0;
    if (output->action_count == 0 && output->record_count == 0) {
        return;
    }
    if (output->record_count > 0) {
        memcpy(host->pending, output->records, output->record_count * sizeof(host->pending[0]));
    }
    host->pending_count = output->record_count;
    if (output->action_count > host->waiting_capacity) {
        host->waiting_capacity = output->action_count * 2;
        host->waiting = mem_grow(host->waiting, host->waiting_capacity, sizeof(host->waiting[0]));
    }
    for (uint32_t index = 0; index < output->action_count; index++) {
        host->waiting[index] = output->actions[index];
    }
    host->waiting_count = output->action_count;
}

static void act_all(struct sim *sim, uint32_t index, uint32_t most)
{
    struct sim_host *host = &sim->hosts[index];
    uint64_t life = host->agent_life;
    uint32_t count = host->waiting_count < most ? host->waiting_count : most;
    host->waiting_count = 0;
    for (uint32_t i = 0; i < count && host->agent_up && host->agent_life == life; i++) {
        const struct agent_action action = host->waiting[i];
        act(sim, index, &action);
    }
}

static void step(struct sim *sim, uint32_t index, struct agent_event *event)
{
    struct sim_host *host = &sim->hosts[index];
    event->now_ms = mono_ms(sim, host);
    event->wall_ms = wall_ms(sim, host);
    struct agent_output *output = sim->agent_output;
    int result = agent_core_step(host->core, event, output);
    CHECK(result == 0);
    for (uint32_t i = 0; i < output->trace_count; i++) {
        sim_trace(sim, "%s %s", host->name, output->traces[i]);
    }
    if (output->record_count > 0 || sim->options.check_all) {
        sim->stats.judged[SIM_JUDGE_INVARIANT]++;
        agent_core_check(host->core);
    }
    keep_waiting(host, output);
    if (output->record_count == 0) {
        act_all(sim, index, UINT32_MAX);
        return;
    }
    sim->stats.agent_records += output->record_count;
    host->busy = true;
    sim_at(
        sim, sim->now_ms + sim_between(sim, 0, COMMIT_MAX_MS),
        (struct sim_event){.kind = SIM_EV_AGENT_COMMIT, .host = index, .life = host->agent_life});
}

static void arm(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    uint64_t deadline = agent_core_deadline_ms(host->core);
    if (deadline == UINT64_MAX) {
        host->tick_ms = 0;
        return;
    }
    uint64_t at_ms = world_ms(host, deadline);
    at_ms = deadline > mono_ms(sim, host) ? at_ms : sim->now_ms;
    if (at_ms != host->tick_ms) {
        host->tick_ms = at_ms;
        sim_at(
            sim, at_ms,
            (struct sim_event){
                .kind = SIM_EV_AGENT_TICK, .host = index, .life = host->agent_life, .id = at_ms});
    }
}

/* Views are made when they are read: always the present truth. false: nothing to say any more. */
static bool fill_event(struct sim *sim, struct sim_host *host, struct sim_agent_input *input,
                       struct agent_shim_view *view, struct agent_mailbox_view *mailbox)
{
    struct agent_event *event = &input->event;
    event->text = input->text;
    event->message = input->message;
    event->mail = input->mail;
    event->fact = input->fact;
    bool of_old_conn = (event->kind == AGENT_EVENT_MESSAGE || event->kind == AGENT_EVENT_LINK_UP) &&
                       input->conn != host->conn;
    if (of_old_conn) {
        return false;
    }
    if (event->kind == AGENT_EVENT_SHIM) {
        struct sim_shim *shim = &host->shims[input->shim];
        if (!shim->used || shim->job != event->job || shim->attempt != event->attempt) {
            return false;
        }
        shim->changed = false;
        shim_view(shim, view);
        view->attached = view->alive && !shim->attached;
        shim->attached = shim->attached || view->alive;
    }
    if (event->kind == AGENT_EVENT_MAILBOX) {
        const struct sim_shim *shim = &host->shims[input->shim];
        if (!shim->used || shim->job != event->job || shim->attempt != event->attempt) {
            return false;
        }
        const struct sim_rank *rank = &shim->ranks[input->rank];
        const struct sim_train *train = &sim->trains[shim->train];
        *mailbox = (struct agent_mailbox_view){
            .local_rank = input->rank,
            .valid = true,
            .phase = rank->phase,
            .step = rank->step,
            .changed_ms =
                rank->changed_ms > host->boot_ms ? rank->changed_ms - host->boot_ms + 1000 : 0,
            .step_ms = rank->step > 0 ? train->options->step_ms : 0,
            .compute_ms = rank->step > 0 ? (uint32_t)(train->options->step_ms *
                                                      (100 + host->straggle_pct) / 200)
                                         : 0};
    }
    return true;
}

static void step_input(struct sim *sim, uint32_t index, struct sim_agent_input *input)
{
    struct agent_shim_view view;
    struct agent_mailbox_view mailbox;
    if (fill_event(sim, &sim->hosts[index], input, &view, &mailbox)) {
        struct agent_event event = input->event;
        event.shim = &view;
        event.mailbox = &mailbox;
        step(sim, index, &event);
    }
}

void agent_turn(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    host->turn_due = false;
    uint64_t life = host->agent_life;
    while (!sim->over && agent_runs(host) && host->agent_life == life && !host->busy &&
           host->first != NULL) {
        struct sim_agent_input *input = host->first;
        host->first = input->next;
        if (host->first == NULL) {
            host->last = NULL;
        }
        step_input(sim, index, input);
        free_input(input);
    }
    if (agent_runs(host) && host->agent_life == life && !host->busy) {
        arm(sim, index);
    }
}

void agent_tick(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    if (event->id != host->tick_ms) {
        return;
    }
    host->tick_ms = 0;
    if (!agent_runs(host) || host->busy) {
        return; /* whoever lets it go on looks at the clock */
    }
    struct agent_event tick = {.kind = AGENT_EVENT_TICK};
    step(sim, event->host, &tick);
    agent_turn(sim, event->host);
}

/* ---- commits ----------------------------------------------------------------------------- */

static void make_durable(struct sim_host *host)
{
    uint32_t need = host->record_count + host->pending_count;
    if (need > host->record_capacity) {
        host->record_capacity = need * 2;
        host->journal = mem_grow(host->journal, host->record_capacity, sizeof(host->journal[0]));
    }
    if (host->pending_count > 0) {
        memcpy(host->journal + host->record_count, host->pending,
               host->pending_count * sizeof(host->pending[0]));
    }
    host->record_count = need;
    host->pending_count = 0;
}

static void cut_off(struct sim *sim, uint32_t index, enum sim_cut cut)
{
    struct sim_host *host = &sim->hosts[index];
    if (cut == SIM_CUT_MID) {
        uint32_t most = host->waiting_count > 0 ? host->waiting_count - 1 : 0;
        act_all(sim, index, (uint32_t)sim_between(sim, 0, most));
    }
    host->cut = SIM_CUT_NONE;
    host->kill_at = 0;
    agent_die(sim, index, cut == SIM_CUT_BEFORE ? "before a commit" : "after a commit");
    sim_at(sim, sim->now_ms + (sim->scripted ? 500 : sim_between(sim, 100, 20000)),
           (struct sim_event){.kind = SIM_EV_AGENT_START, .host = index, .life = host->boots});
}

void agent_commit_end(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    CHECK(host->busy);
    if (!agent_runs(host)) {
        sim_at(sim, sim->now_ms + 50,
               (struct sim_event){
                   .kind = SIM_EV_AGENT_COMMIT, .host = index, .life = host->agent_life});
        return;
    }
    enum sim_cut cut = (enum sim_cut)host->cut;
    if (host->kill_at > 0 && !(host->record_count < host->kill_at &&
                               host->kill_at <= host->record_count + host->pending_count)) {
        cut = SIM_CUT_NONE;
    }
    if (cut == SIM_CUT_BEFORE) {
        cut_off(sim, index, cut);
        return;
    }
    make_durable(host);
    if (cut != SIM_CUT_NONE) {
        cut_off(sim, index, cut);
        return;
    }
    host->busy = false;
    act_all(sim, index, UINT32_MAX);
    if (agent_runs(host)) {
        agent_turn(sim, index);
    }
}

/* ---- mailboxes --------------------------------------------------------------------------- */

static void read_rank(struct sim *sim, uint32_t index, uint32_t shim_index, uint32_t rank_index)
{
    struct sim_shim *shim = &sim->hosts[index].shims[shim_index];
    struct sim_rank *rank = &shim->ranks[rank_index];
    if (rank->unread) {
        rank->unread = false;
        struct sim_agent_input *input = agent_input(sim, index, AGENT_EVENT_MAILBOX);
        input->event.job = shim->job;
        input->event.attempt = shim->attempt;
        input->shim = shim_index;
        input->rank = rank_index;
    }
    for (uint32_t m = 0; rank->mails != NULL && m < SIM_MAILS_MAX; m++) {
        struct sim_mail *mail = &rank->mails[m];
        if (!mail->open || mail->given) {
            continue;
        }
        mail->given = true;
        struct sim_agent_input *input = agent_input(sim, index, AGENT_EVENT_MAIL);
        input->event.job = shim->job;
        input->event.attempt = shim->attempt;
        input->mail = mem_alloc(1, sizeof(*input->mail));
        *input->mail = (struct agent_mail){
            .local_rank = rank_index, .id = mail->id, .kind = AGENT_MAIL_CHECKPOINT};
        input->mail->u.checkpoint = mail->checkpoint;
    }
}

void agent_poll(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    for (uint32_t s = 0; s < SIM_SHIMS_MAX && agent_runs(host); s++) {
        const struct sim_shim *shim = &host->shims[s];
        for (uint32_t r = 0; shim->used && r < shim->rank_count; r++) {
            read_rank(sim, event->host, s, r);
        }
        if (shim->up && !shim->told && shim->ranks[0].step > 0 &&
            sim_mutate(sim, SIM_STOP_UNASKED)) {
            shim_signal(sim, event->host, shim->job, shim->attempt, true);
        }
    }
    agent_wake(sim, event->host);
    sim_at(sim, sim->now_ms + SIM_POLL_MS, *event);
}

/* ---- life and death ---------------------------------------------------------------------- */

static void identity_of(const struct sim *sim, const struct sim_host *host,
                        struct agent_identity *ret_identity)
{
    *ret_identity =
        (struct agent_identity){.incarnation = host->incarnation,
                                .protocol = host->rack % 4 == 3 ? SIM_PROTOCOL : SIM_PROTOCOL_NEW,
                                .peer_port = PEER_PORT,
                                .fence_after_ms = sim->options.fence_after_ms};
    struct agent_identity *i = ret_identity;
    (void)text_copy(i->node, sizeof(i->node), host->name);
    (void)text_copy(i->boot_id, sizeof(i->boot_id), host->boot_id);
    (void)text_copy(i->version, sizeof(i->version), "0.1.0");
    (void)text_copy(i->address, sizeof(i->address), host->address);
    (void)text_format(i->labels.rack, sizeof(i->labels.rack), "rack-%02u", host->rack);
    (void)text_format(i->labels.feed, sizeof(i->labels.feed), "feed-%u", host->feed);
    (void)text_copy(i->labels.pool, sizeof(i->labels.pool), "default");
    i->inventory.gpu_count = 4;
    for (uint32_t gpu = 0; gpu < 4; gpu++) {
        (void)text_format(i->inventory.gpu_uuid[gpu], UUID_SIZE, "GPU-%s-%u", host->name, gpu);
    }
    i->inventory.port_count = 1;
    (void)text_format(i->inventory.port_leaf[0], NAME_SIZE, "leaf-%02u", host->leaf);
    i->inventory.memory_bytes = 1ull << 40;
}

static struct agent_core *fold(struct sim *sim, const struct sim_host *host)
{
    struct agent_identity identity;
    identity_of(sim, host, &identity);
    struct agent_core *core = NULL;
    uint64_t seed = sim->options.seed * 1000 + host->incarnation;
    int result = agent_core_create(&sim->agent_limits, seed, &identity, &core);
    CHECK(result == 0);
    for (uint32_t index = 0; index < host->record_count; index++) {
        if (index + 1 < host->record_count && host->journal[index].kind == AGENT_RECORD_CLUSTER &&
            sim_mutate(sim, SIM_LOSE_AGENT_RECORD)) {
            continue;
        }
        if (agent_core_replay(core, &host->journal[index]) < 0) {
            sim_object(sim, SIM_JUDGE_AGENT_REPLAY, "%s: record %u of %u (%s) does not fold",
                       host->name, index + 1, host->record_count,
                       agent_record_word(host->journal[index].kind));
            break;
        }
    }
    return core;
}

void agent_start(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    CHECK(host->up);
    CHECK(!host->agent_up);
    host->agent_life++;
    host->incarnation = mono_ms(sim, host) * 1024 + host->agent_life % 1024;
    host->core = fold(sim, host);
    host->agent_up = true;
    host->agent_stopped = false;
    host->busy = false;
    host->turn_due = false;
    host->tick_ms = 0;
    host->conn = 0;
    host->pending_count = 0;
    host->waiting_count = 0;
    for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
        host->shims[s].attached = false;
        host->shims[s].changed = false;
        for (uint32_t r = 0; r < RANKS_PER_NODE_MAX; r++) {
            host->shims[s].ranks[r].unread = host->shims[s].used;
            for (uint32_t m = 0; host->shims[s].ranks[r].mails != NULL && m < SIM_MAILS_MAX; m++) {
                host->shims[s].ranks[r].mails[m].given = false;
            }
        }
    }
    sim_trace(sim, "%s agent starts, life %llu, boot %llu", host->name,
              (unsigned long long)host->agent_life, (unsigned long long)host->boots);
    struct sim_agent_input *input = agent_input(sim, index, AGENT_EVENT_START);
    (void)input;
    if (host->alarm) {
        agent_input(sim, index, AGENT_EVENT_HEALTH)->event.ok = false;
    }
    agent_wake(sim, index);
    sim_at(sim, sim->now_ms + sim_between(sim, 1, SIM_POLL_MS),
           (struct sim_event){.kind = SIM_EV_AGENT_POLL, .host = index, .life = host->agent_life});
}

/* Its records must fold to the durable part of what it was: checked when nothing was in flight. */
static void judge_replay(struct sim *sim, struct sim_host *host)
{
    if (host->busy || host->pending_count > 0) {
        return;
    }
    struct agent_core *core = fold(sim, host);
    sim->stats.judged[SIM_JUDGE_AGENT_REPLAY]++;
    if (!sim->over && agent_core_digest(core) != agent_core_digest(host->core)) {
        sim_object(sim, SIM_JUDGE_AGENT_REPLAY,
                   "%s: %u records do not fold to the state that wrote them", host->name,
                   host->record_count);
    }
    (void)agent_core_free(core);
}

void agent_die(struct sim *sim, uint32_t index, const char *why)
{
    struct sim_host *host = &sim->hosts[index];
    if (!host->agent_up) {
        return;
    }
    sim_trace(sim, "%s agent dies %s", host->name, why);
    host->trouble_ms = sim->now_ms;
    judge_replay(sim, host);
    host->agent_up = false;
    if (host->conn != 0) {
        net_close_agent(sim, host->conn);
        host->conn = 0;
    }
    agent_done(sim, index);
}

void agent_done(struct sim *sim, uint32_t index)
{
    struct sim_host *host = &sim->hosts[index];
    while (host->first != NULL) {
        struct sim_agent_input *next = host->first->next;
        free_input(host->first);
        host->first = next;
    }
    host->last = NULL;
    host->core = agent_core_free(host->core);
    host->waiting = mem_free(host->waiting);
    host->waiting_capacity = 0;
    host->waiting_count = 0;
    host->pending_count = 0;
}
