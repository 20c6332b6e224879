/* core_rig.c: see core_rig.h. */
#include "tests/lib/core_rig.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { TICK_MS = 10, RECORDS_FIRST = 512 };

static void carry_out(struct rig *rig, const struct core_output *output);

/* The commit of one step's records. true: the controller was killed before or after it. */
static bool commit(struct rig *rig, const struct core_output *output)
{
    uint32_t after = rig->record_count + output->record_count;
    bool killed = rig->kill_at > rig->record_count && rig->kill_at <= after;
    if (killed && rig->kill_before) {
        return true;
    }
    for (uint32_t i = 0; i < output->record_count; i++) {
        CHECK(rig->record_count < RIG_RECORDS_MAX);
        if (rig->record_count == rig->record_room) {
            rig->record_room *= 2;
            rig->records = mem_grow(rig->records, rig->record_room, sizeof *rig->records);
        }
        rig->records[rig->record_count] = output->records[i];
        rig->records[rig->record_count].text = NULL;
        rig->record_count++;
    }
    if (output->record_count > 0) {
        rig->commit_ends[rig->commit_count++] = rig->record_count;
    }
    return killed;
}

void rig_step(struct rig *rig, struct event *event)
{
    if (rig->dead) {
        return; /* nobody there to hear it */
    }
    struct core_output output;
    event->now_ms = rig->now_ms;
    event->wall_ms = 1000000000ull + rig->now_ms;
    core_step(rig->core, event, &output);
    if (commit(rig, &output)) {
        rig->kill_at = 0;
        rig->dead = true;
        return;
    }
    size_t size = strlen(output.trace);
    if (rig->verbose) {
        fputs(output.trace, stderr);
    }
    if (rig->trace_size + size + 1 < sizeof rig->trace) {
        memcpy(rig->trace + rig->trace_size, output.trace, size + 1);
        rig->trace_size += (uint32_t)size;
    }
    core_check(rig->core);
    carry_out(rig, &output);
}

void rig_event(struct rig *rig, uint8_t kind, uint64_t session)
{
    struct event event = {.kind = kind, .session = session};
    rig_step(rig, &event);
}

static struct rig_node *by_session(struct rig *rig, uint64_t session)
{
    for (uint32_t i = 0; i < rig->node_count; i++) {
        if (rig->nodes[i].session == session && session != 0) {
            return &rig->nodes[i];
        }
    }
    return NULL;
}

static struct rig_attempt *find_attempt(struct rig_node *node, uint32_t job, uint32_t attempt)
{
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        if (node->attempts[i].report.job == job && node->attempts[i].report.attempt == attempt) {
            return &node->attempts[i];
        }
    }
    return NULL;
}

static struct rig_attempt *new_attempt(struct rig_node *node, uint32_t job, uint32_t attempt)
{
    for (uint32_t i = 0; i < node->attempt_count; i++) { /* an older, empty one of the job goes */
        struct rig_attempt *old = &node->attempts[i];
        if (old->report.job == job && old->report.empty) {
            memset(old, 0, sizeof *old);
            old->report.job = job;
            old->report.attempt = attempt;
            return old;
        }
    }
    CHECK(node->attempt_count < ATTEMPTS_PER_NODE_MAX);
    struct rig_attempt *made = &node->attempts[node->attempt_count++];
    memset(made, 0, sizeof *made);
    made->report.job = job;
    made->report.attempt = attempt;
    return made;
}

static void obey_run(struct rig *rig, struct rig_node *node, const struct msg_desired *d)
{
    struct rig_attempt *a = find_attempt(node, d->job, d->attempt);
    rig->order = *d;
    if (a != NULL || !d->start || node->ignore_run) {
        return;
    }
    a = new_attempt(node, d->job, d->attempt);
    a->report.first_rank = d->first_rank;
    a->report.rank_count = d->rank_count;
    a->report.shim_alive = true;
    a->started_ms = rig->now_ms;
    a->base_step = d->restore_step;
    a->world = d->world;
    if (node->no_launch) {
        a->report.refused = true;
        a->report.empty = true;
        node->beat_at_ms = rig->now_ms;
        text_copy(a->report.text, TEXT_SIZE, "workdir is not there");
        return;
    }
    for (uint32_t i = 0; i < d->rank_count; i++) {
        a->report.ranks[i].state = RANK_RUNNING;
        a->report.ranks[i].has_mailbox = !rig->no_library;
        a->report.ranks[i].phase = PHASE_INIT;
    }
    rig->starts[node - rig->nodes] += d->rank_count;
    node->beat_at_ms = rig->now_ms;
}

static void obey_stop(struct rig *rig, struct rig_node *node, const struct msg_desired *d)
{
    bool known = false;
    for (uint32_t i = 0; i < node->attempt_count;) {
        struct rig_attempt *a = &node->attempts[i];
        if (a->report.job == d->job && a->report.attempt <= d->attempt) {
            known = known || a->report.attempt == d->attempt;
            node->beat_at_ms = a->report.stop_seen ? node->beat_at_ms : rig->now_ms;
            a->report.stop_seen = true;
            a->stop_at_ms = a->stop_at_ms == 0 ? rig->now_ms + 50 : a->stop_at_ms;
            a->forget = d->forget;
            if (d->forget && a->report.empty) {
                *a = node->attempts[--node->attempt_count];
                continue;
            }
        }
        i++;
    }
    if (!known && !d->forget) { /* seen, and nothing of it ever ran here */
        struct rig_attempt *a = new_attempt(node, d->job, d->attempt);
        a->report.stop_seen = true;
        a->report.empty = true;
        node->beat_at_ms = rig->now_ms;
    }
}

static void obey_check(struct rig *rig, struct rig_node *node, const struct msg_check *check)
{
    struct message m = {.kind = MSG_CHECK_RESULT};
    if (node->ignore_check) {
        return;
    }
    m.u.check_result.nonce = check->nonce;
    m.u.check_result.job = check->job;
    m.u.check_result.ok = !node->check_fails;
    m.u.check_result.port_free = !node->port_taken && !node->port_never;
    node->port_taken = false;
    text_copy(m.u.check_result.text, TEXT_SIZE, node->check_fails ? "storage not mounted" : "");
    rig_send(rig, (uint32_t)(node - rig->nodes), &m);
}

static void obey_ask(struct rig *rig, struct rig_node *node, const struct msg_peer_ask *ask)
{
    struct message m = {.kind = MSG_PEER_SAID};
    m.u.peer_said.nonce = ask->nonce;
    text_copy(m.u.peer_said.target, NAME_SIZE, ask->target);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        const struct rig_node *target = &rig->nodes[i];
        if (text_equal(target->name, ask->target)) {
            static const uint8_t seen[] = {PEER_ANSWERS, PEER_REFUSED, PEER_SILENT, PEER_NOTHING};
            m.u.peer_said.answer = target->agent_up ? PEER_ANSWERS : seen[target->peer];
            m.u.peer_said.incarnation = target->incarnation;
        }
    }
    rig_send(rig, (uint32_t)(node - rig->nodes), &m);
}

/* ---- what lies in the folder ---------------------------------------------------------------- */

struct rig_save *rig_lay(struct rig *rig, uint64_t step, uint32_t attempt)
{
    CHECK(rig->save_count < RIG_SAVES_MAX);
    struct rig_save *save = &rig->saves[rig->save_count++];
    memset(save, 0, sizeof *save);
    save->step = step;
    save->attempt = attempt;
    save->written_ms = rig->now_ms;
    text_format(save->hash, HASH_TEXT_SIZE, "%016llx%016x", (unsigned long long)step, attempt);
    text_format(save->directory, PATH_SIZE, "/ckpt/step-%llu", (unsigned long long)step);
    return save;
}

static void say_save(struct rig *rig, const struct rig_node *node, const struct msg_save_ask *ask,
                     const struct msg_save_said *said)
{
    struct message m = {.kind = MSG_SAVE_SAID};
    m.u.save_said = *said;
    m.u.save_said.nonce = ask->nonce;
    m.u.save_said.job = ask->job;
    rig_send(rig, (uint32_t)(node - rig->nodes), &m);
}

static void say_found(struct rig *rig, const struct rig_node *node, const struct msg_save_ask *ask,
                      const struct rig_save *save)
{
    struct msg_save_said said = {.word = SAVE_FOUND,
                                 .ok = !save->spoilt,
                                 .step = save->step,
                                 .attempt = save->attempt,
                                 .parts = save->parts,
                                 .files = 2,
                                 .bytes = 1000,
                                 .age_ms = rig->now_ms - save->written_ms};
    text_copy(said.hash, HASH_TEXT_SIZE, save->hash);
    text_copy(said.directory, PATH_SIZE, save->directory);
    text_copy(said.text, TEXT_SIZE, save->text);
    say_save(rig, node, ask, &said);
}

/* Newest first. */
static void say_all(struct rig *rig, const struct rig_node *node, const struct msg_save_ask *ask)
{
    uint64_t below = UINT64_MAX;
    for (uint32_t n = 0; n < rig->save_count; n++) {
        uint64_t next = 0;
        for (uint32_t i = 0; i < rig->save_count; i++) {
            uint64_t place = rig->saves[i].step * 1000 + rig->saves[i].attempt;
            next = place < below && place > next ? place : next;
        }
        for (uint32_t i = 0; i < rig->save_count; i++) {
            if (rig->saves[i].step * 1000 + rig->saves[i].attempt == next) {
                say_found(rig, node, ask, &rig->saves[i]);
            }
        }
        below = next;
    }
}

static struct rig_save *save_of(struct rig *rig, const struct msg_save_ask *ask)
{
    for (uint32_t i = 0; i < rig->save_count; i++) {
        if (rig->saves[i].step == ask->step && rig->saves[i].attempt == ask->attempt) {
            return &rig->saves[i];
        }
    }
    return NULL;
}

static void obey_save(struct rig *rig, struct rig_node *node, const struct msg_save_ask *ask)
{
    struct msg_save_said done = {.word = SAVE_DONE, .error = rig->save_error, .ok = true};
    bool list = ask->task == SAVE_LIST;
    rig->listings += list ? 1 : 0;
    rig->errands += list ? 0 : 1;
    rig->save_ask = list ? rig->save_ask : *ask;
    if (rig->save_silent) {
        return;
    }
    if (rig->save_error != 0) {
        text_copy(done.text, TEXT_SIZE, "storage is sick");
    } else if (list) {
        say_all(rig, node, ask);
    } else {
        struct rig_save *save = save_of(rig, ask);
        done.ok = save != NULL && !save->corrupt;
        text_copy(done.text, TEXT_SIZE, done.ok ? "" : "shard-00001.bin: its hash is wrong");
        if (ask->task == SAVE_REMOVE && save != NULL) {
            *save = rig->saves[--rig->save_count];
        }
    }
    say_save(rig, node, ask, &done);
}

static void deliver(struct rig *rig, struct rig_node *node, const struct message *m)
{
    switch (m->kind) {
    case MSG_WELCOME:
        if (m->u.welcome.result == HELLO_WELCOME) {
            text_copy(node->cluster_id, CLUSTER_ID_SIZE, m->u.welcome.cluster_id);
            node->term_seen = m->u.welcome.term;
        }
        return;
    case MSG_DESIRED:
        if (m->u.desired.mode == DESIRED_RUN) {
            obey_run(rig, node, &m->u.desired);
        } else if (m->u.desired.mode == DESIRED_STOP) {
            obey_stop(rig, node, &m->u.desired);
        }
        return;
    case MSG_CHECK:
        obey_check(rig, node, &m->u.check);
        return;
    case MSG_SAVE_ASK:
        obey_save(rig, node, &m->u.save_ask);
        return;
    case MSG_PEER_ASK:
        obey_ask(rig, node, &m->u.peer_ask);
        return;
    case MSG_PEERS:
        node->peers = m->u.peers;
        node->peers_heard++;
        return;
    default:
        return;
    }
}

static void fence(struct rig *rig, uint32_t id)
{
    struct event event = {.kind = EVENT_FENCED};
    event.u.fenced.node = id;
    event.u.fenced.ok = rig->fence == RIG_FENCE_WORKS;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        rig->fences[i] += text_equal(rig->nodes[i].name, core_node(rig->core, id)->d.name) ? 1 : 0;
    }
    if (rig->fence != RIG_FENCE_HANGS) {
        rig_step(rig, &event);
    }
}

static void carry_out(struct rig *rig, const struct core_output *output)
{
    /* The next step reuses the output's memory, and delivering may step: work on a copy. */
    uint32_t count = output->action_count;
    struct action *actions = mem_alloc(count > 0 ? count : 1, sizeof *actions);
    memcpy(actions, output->actions, count * sizeof *actions);
    for (uint32_t i = 0; i < count && !rig->dead; i++) {
        const struct action *action = &actions[i];
        struct rig_node *node = by_session(rig, action->session);
        if (action->kind == ACTION_REPLY) {
            rig->reply_result = action->u.reply.result;
            rig->reply_job = action->u.reply.job;
            text_copy(rig->reply_text, TEXT_SIZE, action->u.reply.text);
        } else if (action->kind == ACTION_CLOSE && node != NULL) {
            node->session = 0;
            rig_event(rig, EVENT_CLOSED, action->session);
        } else if (action->kind == ACTION_FENCE) {
            fence(rig, action->node);
        } else if (action->kind == ACTION_PING) {
            struct event event = {.kind = EVENT_PINGED, .session = action->session};
            event.u.pinged_alive = node != NULL && node->agent_up;
            rig_step(rig, &event);
        } else if (action->kind == ACTION_SEND && node != NULL && node->agent_up) {
            struct message m;
            action_message(rig->core, action, &m);
            deliver(rig, node, &m);
        }
    }
    mem_free(actions);
}

static void start_core(struct rig *rig)
{
    struct event event = {.kind = EVENT_START};
    text_copy(event.u.start.cluster_id, CLUSTER_ID_SIZE, "c0ffee00c0ffee00c0ffee00c0ffee00");
    text_copy(event.u.start.store_id, CLUSTER_ID_SIZE, "5700e5700e5700e5700e5700e5700e00");
    rig_step(rig, &event);
}

struct rig *rig_create(uint32_t nodes, uint64_t seed)
{
    struct core_limits limits = core_limits_default;
    struct core_config config = {0};
    limits.agents = RIG_NODES_MAX;
    return rig_create_with(nodes, seed, &limits, &config);
}

struct rig *rig_create_with(uint32_t nodes, uint64_t seed, const struct core_limits *limits,
                            const struct core_config *config)
{
    CHECK(nodes <= RIG_NODES_MAX);
    struct rig *rig = mem_alloc(1, sizeof *rig);
    rig->record_room = RECORDS_FIRST;
    rig->records = mem_alloc(rig->record_room, sizeof *rig->records);
    rig->limits = *limits;
    rig->config = *config;
    rig->config.start_grace_ms = config->start_grace_ms == 0 ? 1000 : config->start_grace_ms;
    rig->kill_away_ms = 300;
    rig->step_ms = 100;
    rig->init_ms = 200;
    rig->now_ms = 5000;
    rig->next_session = 1;
    rig->node_count = nodes;
    for (uint32_t i = 0; i < nodes; i++) {
        struct rig_node *node = &rig->nodes[i];
        text_format(node->name, NAME_SIZE, "n-%04u", i + 1);
        text_format(node->rack, NAME_SIZE, "r%02u", i / 2 + 1);
        text_format(node->boot_id, BOOT_ID_SIZE, "00000000-0000-0000-0000-%012u", i);
        node->incarnation = 1;
        node->host_up = true;
        node->clean = true;
    }
    int code = core_create(&rig->limits, &rig->config, seed, &rig->core);
    CHECK(code == 0);
    start_core(rig);
    return rig;
}

struct rig *rig_free(struct rig *rig)
{
    core_free(rig->core);
    mem_free(rig->records);
    return mem_free(rig);
}

static void fill_reports(const struct rig_node *node, struct attempt_report *reports,
                         uint32_t *ret_count)
{
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        reports[i] = node->attempts[i].report;
    }
    *ret_count = node->attempt_count;
}

void rig_hello(struct rig *rig, uint32_t index, uint64_t session, uint64_t incarnation,
               const char *boot_id)
{
    const struct rig_node *node = &rig->nodes[index];
    struct msg_hello hello = {.incarnation = incarnation,
                              .clean_boot = node->clean,
                              .protocol = 1,
                              .peer_port = node->no_peer ? 0 : 7445,
                              .term_seen = node->term_seen};
    text_copy(hello.cluster_id, CLUSTER_ID_SIZE, node->cluster_id);
    text_copy(hello.node, NAME_SIZE, node->name);
    text_copy(hello.boot_id, BOOT_ID_SIZE, boot_id);
    text_copy(hello.address, ADDRESS_SIZE, "127.0.0.1");
    text_copy(hello.version, NAME_SIZE, "1.0");
    text_copy(hello.labels.rack, NAME_SIZE, node->rack);
    hello.inventory.gpu_count = RIG_RANKS;
    fill_reports(node, hello.attempts, &hello.attempt_count);
    struct event event = {.kind = EVENT_HELLO, .session = session};
    event.u.hello = &hello;
    rig_step(rig, &event);
}

void rig_connect(struct rig *rig, uint32_t index)
{
    struct rig_node *node = &rig->nodes[index];
    node->agent_up = true;
    node->session = rig->next_session++;
    node->beat = 0;
    node->beat_at_ms = rig->now_ms + 10; /* the first beat follows the welcome at once */
    rig_hello(rig, index, node->session, node->incarnation, node->boot_id);
}

void rig_connect_all(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->node_count; i++) {
        rig_connect(rig, i);
    }
    rig_run(rig, 1500);
}

void rig_send(struct rig *rig, uint32_t index, const struct message *message)
{
    struct message copy = *message;
    struct event event = {.kind = EVENT_MESSAGE, .session = rig->nodes[index].session};
    event.u.message = &copy;
    if (event.session != 0) {
        rig_step(rig, &event);
    }
}

void rig_send_sure(struct rig *rig, uint32_t index, const struct message *message)
{
    do {
        rig_run(rig, 0); /* a controller that died is back first */
        rig_send(rig, index, message);
    } while (rig->dead);
}

static void send_beat(struct rig *rig, uint32_t index)
{
    struct rig_node *node = &rig->nodes[index];
    struct message m = {.kind = MSG_BEAT};
    m.u.beat.sequence = ++node->beat;
    m.u.beat.sent_ms = rig->now_ms - rig->now_ms * node->clock_slow_ppm / 1000000;
    m.u.beat.checks_ok = true;
    fill_reports(node, m.u.beat.attempts, &m.u.beat.attempt_count);
    node->beat_at_ms = rig->now_ms + 1000;
    rig_send(rig, index, &m);
}

/* Every rank of this attempt runs somewhere where it can: a collective would get through. */
static bool peers_run(const struct rig *rig, const struct rig_attempt *a)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        const struct rig_node *node = &rig->nodes[i];
        for (uint32_t k = 0; k < node->attempt_count && node->host_up && !node->hang; k++) {
            const struct rig_attempt *other = &node->attempts[k];
            bool same = other->report.job == a->report.job &&
                        other->report.attempt == a->report.attempt && other->stop_at_ms == 0;
            for (uint32_t r = 0; same && r < other->report.rank_count; r++) {
                running += other->report.ranks[r].state == RANK_RUNNING ? 1 : 0;
            }
        }
    }
    return running == a->world;
}

static void train_together(struct rig *rig, struct rig_attempt *a)
{
    if (a->report.rank_count == 0 || rig->steps_stopped || !peers_run(rig, a)) {
        return;
    }
    a->trained_ms += TICK_MS;
    uint64_t loaded = rig->init_ms + rig->restore_ms;
    for (uint32_t i = 0; i < a->report.rank_count; i++) {
        struct rank_report *rank = &a->report.ranks[i];
        if (a->trained_ms >= loaded) {
            rank->phase = PHASE_STEP;
            rank->step = a->base_step + (a->trained_ms - loaded) / rig->step_ms;
            rank->step_ms = (uint32_t)rig->step_ms;
        } else if (a->trained_ms >= rig->init_ms) {
            rank->phase = PHASE_RESTORE;
        }
    }
}

static void train(struct rig *rig, struct rig_attempt *a)
{
    uint64_t age = rig->now_ms - a->started_ms;
    for (uint32_t i = 0; i < a->report.rank_count; i++) {
        struct rank_report *rank = &a->report.ranks[i];
        if (rank->state != RANK_RUNNING || rig->steps_stopped || a->stop_at_ms != 0) {
            continue;
        }
        if (age >= rig->init_ms) {
            rank->phase = PHASE_STEP;
            rank->step = a->base_step + (age - rig->init_ms) / rig->step_ms;
            rank->step_ms = (uint32_t)rig->step_ms;
        }
    }
}

/* The ranks end; true when something changed that an agent would report at once. */
static bool live(struct rig *rig, struct rig_node *node)
{
    bool changed = false;
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        struct rig_attempt *a = &node->attempts[i];
        if (a->forget && a->report.empty) { /* reported once, then dropped as told */
            *a = node->attempts[--node->attempt_count];
            i--;
            continue;
        }
        uint8_t before = a->report.ranks[0].phase;
        (rig->synchronous ? train_together : train)(rig, a);
        changed = changed || before != a->report.ranks[0].phase;
        if (a->stop_at_ms != 0 && rig->now_ms >= a->stop_at_ms && !a->report.empty &&
            !node->ignore_stop) {
            for (uint32_t k = 0; k < a->report.rank_count; k++) {
                struct rank_report *rank = &a->report.ranks[k];
                if (rank->state == RANK_RUNNING) {
                    rank->state = RANK_SIGNALED;
                    rank->code = 15;
                    rank->after_stop = true;
                }
            }
            a->report.empty = true;
            changed = true;
        }
    }
    return changed;
}

static void tick(struct rig *rig)
{
    rig->now_ms += TICK_MS;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        struct rig_node *node = &rig->nodes[i];
        bool changed = node->host_up && live(rig, node);
        if (node->agent_up && node->session != 0 && (changed || rig->now_ms >= node->beat_at_ms)) {
            send_beat(rig, i);
        }
    }
    if (!rig->dead && rig->now_ms >= core_deadline_ms(rig->core)) {
        rig_event(rig, EVENT_TICK, 0);
    }
}

/* The killed controller comes back; ranks and agents have lived on, and none of this time counts
 * for whoever lets time pass. */
static void revive(struct rig *rig)
{
    uint64_t from = rig->now_ms;
    while (rig->now_ms < from + rig->kill_away_ms) {
        tick(rig);
    }
    rig_restart(rig, 0);
    while (!core_ready(rig->core)) {
        tick(rig);
    }
    rig->lost_ms += rig->now_ms - from;
}

static void go_on(struct rig *rig)
{
    if (rig->dead) {
        revive(rig);
    } else {
        tick(rig);
    }
}

void rig_run(struct rig *rig, uint64_t ms)
{
    uint64_t end = rig->now_ms + ms;
    uint64_t lost = rig->lost_ms;
    while (rig->dead || rig->now_ms < end + (rig->lost_ms - lost)) {
        go_on(rig);
    }
}

/* What the core shows is committed: also of one that died just after its commit. */
static bool durable(const struct rig *rig)
{
    return !rig->dead || !rig->kill_before;
}

bool rig_until(struct rig *rig, uint32_t job, uint8_t state, uint64_t limit_ms)
{
    uint64_t lost = rig->lost_ms;
    for (uint64_t end = rig->now_ms + limit_ms; rig->now_ms < end + (rig->lost_ms - lost);) {
        if (durable(rig) && core_job(rig->core, job)->d.state == state) {
            return true;
        }
        go_on(rig);
    }
    return core_job(rig->core, job)->d.state == state;
}

bool rig_until_phase(struct rig *rig, uint32_t job, uint8_t phase, uint64_t limit_ms)
{
    uint64_t lost = rig->lost_ms;
    uint64_t end = rig->now_ms + limit_ms;
    for (; rig->now_ms < end + (rig->lost_ms - lost); go_on(rig)) {
        const struct recovery *recovery =
            core_recovery(rig->core, core_job(rig->core, job)->d.recovery);
        if (durable(rig) && recovery != NULL && recovery->d.phase == phase) {
            return true;
        }
    }
    return false;
}

struct job_spec rig_spec(const char *name, uint32_t slots)
{
    struct job_spec spec = {.revision = 1,
                            .priority = 50,
                            .tensor = 1,
                            .context = 1,
                            .pipeline = 1,
                            .data = slots * RIG_RANKS,
                            .ranks_per_node = RIG_RANKS,
                            .save_on_drain = true,
                            .drain_wait_ms = 60000,
                            .stop_grace_ms = 2000,
                            .recovery_grace_ms = 2000,
                            .retries_user = 1,
                            .retries_unknown = 3,
                            .no_progress_limit = 3,
                            .same_node_limit = 2,
                            .restart_codes = {75},
                            .final_codes = {93},
                            .start_timeout_ms = 60000,
                            .init_timeout_ms = 60000,
                            .first_step_ms = 60000,
                            .warmup_steps = 5,
                            .watch_progress = true};
    text_copy(spec.name, NAME_SIZE, name);
    text_copy(spec.user, NAME_SIZE, "train");
    text_copy(spec.order, ORDER_SIZE, "tp-cp-pp-dp");
    return spec;
}

/* The answer to this submit was lost, but its job is there, and may be over by now: a person who
 * looks does not submit it again. */
static bool accepted(struct rig *rig, const struct request *request)
{
    uint32_t id =
        request->verb == REQUEST_SUBMIT ? core_job_find(rig->core, request->spec->name) : 0;
    const struct job *job = core_job(rig->core, id);
    if (job == NULL || request->spec->text_hash == 0 ||
        job->d.text_hash != request->spec->text_hash) {
        return false;
    }
    rig->reply_result = 0;
    rig->reply_job = id;
    return true;
}

int32_t rig_request(struct rig *rig, const struct request *request)
{
    struct request copy = *request;
    struct event event = {.kind = EVENT_REQUEST};
    copy.id = 1;
    text_copy(copy.actor, NAME_SIZE, "sre");
    if (copy.reason[0] == '\0') {
        text_copy(copy.reason, TEXT_SIZE, "test");
    }
    event.u.request = &copy;
    rig->reply_result = -1000;
    do { /* a controller that died has not answered: asked again when it is back */
        rig_run(rig, 0);
        if (!accepted(rig, request)) {
            rig_step(rig, &event);
        }
    } while (rig->dead);
    CHECK(rig->reply_result != -1000); /* every request is answered */
    return rig->reply_result;
}

uint32_t rig_submit(struct rig *rig, const struct job_spec *spec)
{
    struct request request = {.verb = REQUEST_SUBMIT, .spec = spec, .text = "{}", .text_size = 2};
    return rig_request(rig, &request) == 0 ? rig->reply_job : 0;
}

int32_t rig_nodes(struct rig *rig, uint8_t verb, const char *name, uint8_t when)
{
    uint32_t id = core_node_find(rig->core, name);
    struct request request = {.verb = verb, .nodes = &id, .node_count = 1, .when = when};
    return rig_request(rig, &request);
}

int32_t rig_job(struct rig *rig, uint8_t verb, uint32_t job)
{
    struct request request = {.verb = verb, .job = job};
    return rig_request(rig, &request);
}

static void cut(struct rig *rig, struct rig_node *node)
{
    uint64_t session = node->session;
    node->session = 0;
    node->agent_up = false;
    if (session != 0) {
        rig_event(rig, EVENT_CLOSED, session);
    }
}

void rig_kill_node(struct rig *rig, uint32_t index, uint8_t peer)
{
    struct rig_node *node = &rig->nodes[index];
    node->host_up = false;
    node->peer = peer;
    node->attempt_count = 0;
    cut(rig, node);
}

void rig_kill_agent(struct rig *rig, uint32_t index, uint8_t peer)
{
    rig->nodes[index].peer = peer;
    cut(rig, &rig->nodes[index]);
}

void rig_quiet(struct rig *rig, uint32_t index, uint8_t peer)
{
    struct rig_node *node = &rig->nodes[index];
    node->agent_up = false;
    node->host_up = false;
    node->peer = peer;
}

void rig_wake(struct rig *rig, uint32_t index)
{
    struct rig_node *node = &rig->nodes[index];
    node->host_up = true;
    node->agent_up = true;
    if (node->session == 0) {
        rig_connect(rig, index);
    }
}

void rig_boot(struct rig *rig, uint32_t index, bool clean)
{
    struct rig_node *node = &rig->nodes[index];
    cut(rig, node);
    node->host_up = true;
    node->clean = clean;
    node->hang = false;
    node->ignore_stop = false;
    node->attempt_count = 0;
    node->boot_id[0] = node->boot_id[0] == '9' ? '0' : (char)(node->boot_id[0] + 1);
    rig_connect(rig, index);
}

void rig_end_rank(struct rig *rig, uint32_t index, uint32_t rank, uint8_t state, int32_t code)
{
    struct rig_node *node = &rig->nodes[index];
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        struct rank_report *r = &node->attempts[i].report.ranks[rank];
        if (r->state == RANK_RUNNING) {
            r->state = state;
            r->code = code;
        }
    }
    if (node->agent_up && node->session != 0) {
        send_beat(rig, index);
    }
}

void rig_end_all(struct rig *rig, uint32_t job, uint8_t state, int32_t code)
{
    const struct job *j = core_job(rig->core, job);
    uint32_t count = j->slot_count;
    uint32_t nodes[RIG_NODES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        nodes[i] = rig_node_of(rig, job, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < RIG_RANKS; k++) {
            rig_end_rank(rig, nodes[i], k, state, code);
        }
    }
}

void rig_save(struct rig *rig, uint32_t job, uint64_t step)
{
    const struct job *j = core_job(rig->core, job);
    struct message m = {.kind = MSG_CHECKPOINT};
    struct msg_checkpoint *u = &m.u.checkpoint;
    uint32_t slots = j->slot_count;
    u->job = job;
    u->attempt = j->d.attempt;
    u->step = step;
    u->shard_count = slots * RIG_RANKS;
    u->parts = 31;
    text_format(u->directory, PATH_SIZE, "/ckpt/step-%llu.a-%u", (unsigned long long)step,
                u->attempt);
    uint32_t writer = rig_node_of(rig, job, 0);
    u->kind = CHECKPOINT_BEGIN;
    rig_send_sure(rig, writer, &m);
    u->kind = CHECKPOINT_COMMIT;
    u->bytes = 1000;
    text_copy(u->hash, HASH_TEXT_SIZE, "0123456789abcdef0123456789abcdef");
    rig_send_sure(rig, writer, &m);
}

void rig_restart(struct rig *rig, uint64_t away_ms)
{
    core_free(rig->core);
    rig->dead = false;
    rig->now_ms += away_ms;
    int code = core_create(&rig->limits, &rig->config, 7, &rig->core);
    CHECK(code == 0);
    for (uint32_t i = 0; i < rig->record_count; i++) {
        struct err err = {0};
        code = core_replay(rig->core, &rig->records[i], &err);
        if (code != 0) {
            fprintf(stderr, "replay of record %u: %s\n", i, err.text);
        }
        CHECK(code == 0);
    }
    for (uint32_t i = 0; i < rig->node_count; i++) {
        rig->nodes[i].session = 0;
    }
    core_check(rig->core);
    start_core(rig);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        if (rig->nodes[i].agent_up) {
            rig_connect(rig, i);
        }
    }
}

uint32_t rig_node_of(const struct rig *rig, uint32_t job, uint32_t slot)
{
    const struct slot *s = core_slot(rig->core, core_job(rig->core, job), slot);
    const struct node *node = core_node(rig->core, s->d.node);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        if (text_equal(rig->nodes[i].name, node->d.name)) {
            return i;
        }
    }
    CHECK(false);
    return 0;
}

uint32_t rig_count(const struct rig *rig, uint16_t kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->record_count; i++) {
        count += rig->records[i].kind == kind ? 1 : 0;
    }
    return count;
}

const struct record *rig_last(const struct rig *rig, uint16_t kind)
{
    for (uint32_t i = rig->record_count; i-- > 0;) {
        if (rig->records[i].kind == kind) {
            return &rig->records[i];
        }
    }
    return NULL;
}

static int replay_image(const struct record *record, void *context)
{
    return core_replay(context, record, NULL);
}

void rig_replay_check(struct rig *rig)
{
    struct core *fresh;
    struct core *image;
    CHECK(core_create(&rig->limits, &rig->config, 1, &fresh) == 0);
    CHECK(core_create(&rig->limits, &rig->config, 1, &image) == 0);
    for (uint32_t i = 0; i < rig->record_count; i++) {
        CHECK(core_replay(fresh, &rig->records[i], NULL) == 0);
    }
    CHECK(core_digest(fresh) == core_digest(rig->core));
    CHECK(core_snapshot(rig->core, replay_image, image) == 0);
    CHECK(core_digest(image) == core_digest(rig->core));
    core_free(fresh);
    core_free(image);
}
