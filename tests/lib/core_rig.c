/* core_rig.c: the controller of a rig and its time: steps, commits, actions, death and return; what
 * agents send. The agents themselves are in core_rig_agents.c. */
#include "tests/lib/core_rig.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig_parts.h"

enum { RECORDS_FIRST = 512 };

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
    event->more = rig->together && (event->kind == EVENT_MESSAGE || event->kind == EVENT_HELLO ||
                                    event->kind == EVENT_CLOSED);
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
    if (!rig->unchecked) {
        core_check(rig->core);
    }
    carry_out(rig, &output);
}

void rig_event(struct rig *rig, uint8_t kind, uint64_t session)
{
    struct event event = {.kind = kind, .session = session};
    rig_step(rig, &event);
}

/* id: the core's number of it; mostly they joined in order. */
static struct rig_node *by_session(struct rig *rig, uint64_t session, uint32_t id)
{
    if (id > 0 && id <= rig->node_count && rig->nodes[id - 1].session == session && session != 0) {
        return &rig->nodes[id - 1];
    }
    for (uint32_t i = 0; i < rig->node_count; i++) {
        if (rig->nodes[i].session == session && session != 0) {
            return &rig->nodes[i];
        }
    }
    return NULL;
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

/* Said again it is the same program for the same order: it goes on, or runs once more. */
static void mend(struct rig *rig, const struct action *action)
{
    for (uint32_t i = 0; i < rig->node_count; i++) {
        struct rig_node *node = &rig->nodes[i];
        if (text_equal(node->name, core_node(rig->core, action->node)->d.name)) {
            rig->repairs[i] += node->repair_order != action->u.repair.order ? 1 : 0;
            rig->hook_starts++;
            node->repair_order = action->u.repair.order;
            node->repair_hook = action->u.repair.hook;
            node->repair_end_ms = rig->now_ms + rig->hook_ms;
        }
    }
}

static void end_hooks(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->node_count && !rig->dead; i++) {
        struct rig_node *node = &rig->nodes[i];
        uint8_t how = rig->hooks[node->repair_hook];
        if (node->repair_end_ms != 0 && rig->now_ms >= node->repair_end_ms &&
            how != RIG_HOOK_HANGS) {
            rig_end_hook(rig, i, how == RIG_HOOK_WORKS,
                         how == RIG_HOOK_WORKS ? "done" : "exit 1: no route to the BMC");
        }
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
        struct rig_node *node = by_session(rig, action->session, action->node);
        if (action->kind == ACTION_REPLY) {
            rig->reply_result = action->u.reply.result;
            rig->reply_job = action->u.reply.job;
            rig->reply_changed = action->u.reply.changed;
            text_copy(rig->reply_text, TEXT_SIZE, action->u.reply.text);
        } else if (action->kind == ACTION_CLOSE && node != NULL) {
            node->session = 0;
            rig_event(rig, EVENT_CLOSED, action->session);
        } else if (action->kind == ACTION_FENCE) {
            fence(rig, action->node);
        } else if (action->kind == ACTION_REPAIR) {
            mend(rig, action);
        } else if (action->kind == ACTION_PING) {
            struct event event = {.kind = EVENT_PINGED, .session = action->session};
            event.u.pinged_alive = node != NULL && node->agent_up;
            rig_step(rig, &event);
        } else if (action->kind == ACTION_SEND && node != NULL && node->agent_up) {
            struct message m;
            action_message(rig->core, action, &m);
            rig_deliver(rig, node, &m);
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

struct rig *rig_create_small(uint32_t nodes, uint64_t seed)
{
    const struct core_limits limits = {.agents = nodes,
                                       .jobs = 16,
                                       .slots = 64,
                                       .incidents = 64,
                                       .facts = 512,
                                       .recoveries = 64,
                                       .checkpoints = 64,
                                       .foreign = 16,
                                       .pending_records = 100000};
    const struct core_config config = {0};
    return rig_create_with(nodes, seed, &limits, &config);
}

struct rig *rig_create_with(uint32_t nodes, uint64_t seed, const struct core_limits *limits,
                            const struct core_config *config)
{
    struct rig *rig = mem_alloc(1, sizeof *rig);
    rig->nodes = mem_alloc(nodes, sizeof *rig->nodes);
    rig->starts = mem_alloc(nodes, sizeof *rig->starts);
    rig->fences = mem_alloc(nodes, sizeof *rig->fences);
    rig->repairs = mem_alloc(nodes, sizeof *rig->repairs);
    rig->hook_ms = 20000;
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
    mem_free(rig->nodes);
    mem_free(rig->starts);
    mem_free(rig->fences);
    mem_free(rig->repairs);
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
                              .protocol = 1 << 16 | (node->old_protocol ? 0 : VALIDATE_MINOR),
                              .peer_port = node->no_peer ? 0 : 7445,
                              .term_seen = node->term_seen};
    text_copy(hello.cluster_id, CLUSTER_ID_SIZE, node->cluster_id);
    text_copy(hello.node, NAME_SIZE, node->name);
    text_copy(hello.boot_id, BOOT_ID_SIZE, boot_id);
    text_copy(hello.address, ADDRESS_SIZE, "127.0.0.1");
    text_copy(hello.version, NAME_SIZE, "1.0");
    text_copy(hello.labels.rack, NAME_SIZE, node->rack);
    text_copy(hello.labels.pool, NAME_SIZE, node->pool);
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

void rig_beat(struct rig *rig, uint32_t index)
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

static void tick(struct rig *rig)
{
    rig->now_ms += RIG_TICK_MS;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        struct rig_node *node = &rig->nodes[i];
        bool changed = node->host_up && rig_live(rig, node);
        if (node->agent_up && node->session != 0 && (changed || rig->now_ms >= node->beat_at_ms)) {
            rig_beat(rig, i);
        }
        if (node->agent_up && node->session != 0) {
            rig_repeat(rig, i);
            rig_write(rig, i);
        }
    }
    end_hooks(rig);
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
