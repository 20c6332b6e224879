/* swarm.c: the driver of each agent's core. An event is stepped, its actions are carried out, and
 * what these found out at once is stepped next, until nothing is left; then the timer is set to the
 * core's deadline or to the next look into the mailboxes of ranks, whichever is sooner.
 *
 * A host that is silent or an agent that is paused runs on nothing: its timer stands still and what
 * comes for it waits in the kernel. */
#include "controller/tools/swarm.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/base/version.h"
#include "proto/wire/wire.h"

enum {
    ADDRESS_FIRST = 0x7f010101, /* 127.1.1.1; no byte is 0 or 255 */
    ADDRESS_SPAN = 250,
};

uint64_t swarm_now_us(void)
{
    return uv_hrtime() / 1000;
}

uint64_t swarm_now_ms(void)
{
    return uv_hrtime() / 1000000;
}

static uint64_t wall_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- who is who ---------------------------------------------------------------------------- */

uint32_t agent_address(const struct swarm_agent *agent)
{
    uint32_t low = agent->index % ADDRESS_SPAN;
    uint32_t high = agent->index / ADDRESS_SPAN;
    return ADDRESS_FIRST + low + (high % ADDRESS_SPAN << 8) + (high / ADDRESS_SPAN << 16);
}

struct swarm_agent *agent_by_address(struct swarm *swarm, uint32_t ipv4)
{
    uint32_t offset = ipv4 - ADDRESS_FIRST;
    uint32_t high = (offset >> 8 & 255) + (offset >> 16 & 255) * ADDRESS_SPAN;
    uint32_t index = high * ADDRESS_SPAN + (offset & 255);
    return ipv4 >= ADDRESS_FIRST && index < swarm->options.agents &&
                   agent_address(&swarm->agents[index]) == ipv4
               ? &swarm->agents[index]
               : NULL;
}

struct swarm_agent *agent_by_name(struct swarm *swarm, const char *name)
{
    uint64_t number = 0;
    if (name[0] != 'n' || text_to_u64(name + 1, swarm->options.agents, &number) < 0 ||
        number == 0) {
        return NULL;
    }
    return &swarm->agents[number - 1];
}

bool agent_listens(const struct swarm_agent *agent)
{
    return agent->core != NULL && agent->host == SWARM_UP && !agent->paused;
}

static void identity_of(const struct swarm_agent *agent, struct agent_identity *ret_identity)
{
    const uint32_t index = agent->index;
    const uint32_t ip = agent_address(agent);
    struct agent_identity *i = ret_identity;
    *i = (struct agent_identity){.incarnation = swarm_now_ms() * 1024 + agent->lives % 1024,
                                 .protocol = WIRE_PROTOCOL,
                                 .peer_port = peers_port(agent->swarm->peers)};
    (void)text_copy(i->node, NAME_SIZE, agent->name);
    (void)text_copy(i->version, NAME_SIZE, KEEPSTEP_VERSION);
    (void)text_format(i->boot_id, BOOT_ID_SIZE, "%08x-0000-4000-8000-%012x", index, agent->lives);
    (void)text_format(i->address, ADDRESS_SIZE, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255,
                      ip >> 8 & 255, ip & 255);
    uint32_t rack = index / SWARM_RACK;
    (void)text_format(i->labels.rack, NAME_SIZE, "rack-%03u", rack + 1);
    (void)text_format(i->labels.feed, NAME_SIZE, "feed-%u", rack % SWARM_FEEDS + 1);
    (void)text_copy(i->labels.pool, NAME_SIZE, "default");
    i->inventory.gpu_count = agent->swarm->options.gpus;
    for (uint32_t gpu = 0; gpu < i->inventory.gpu_count; gpu++) {
        (void)text_format(i->inventory.gpu_uuid[gpu], UUID_SIZE, "GPU-%08x-%u", index, gpu);
    }
    i->inventory.port_count = 1;
    (void)text_format(i->inventory.port_leaf[0], NAME_SIZE, "leaf-%03u", index / SWARM_LEAF + 1);
    i->inventory.memory_bytes = 1ull << 41;
    i->inventory.cpu_count = 192;
}

/* ---- steps --------------------------------------------------------------------------------- */

static void act(struct swarm_agent *agent, const struct agent_action *action);

static void note_order(struct swarm_agent *agent, const struct msg_desired *desired)
{
    struct swarm *swarm = agent->swarm;
    bool run = desired->mode == DESIRED_RUN;
    uint32_t *below = run ? &swarm->run_below : &swarm->stop_below;
    if (desired->mode != DESIRED_NONE && desired->attempt >= *below) {
        *below = desired->attempt + 1;
    }
    if (run && (agent->run.job != desired->job || agent->run.attempt != desired->attempt)) {
        agent->run = (struct swarm_order){desired->job, desired->attempt};
        wave_add(swarm, "run", desired->job, desired->attempt, desired->slot_count);
    }
    const struct swarm_shim *shim = ranks_find(agent, desired->job, desired->attempt);
    if (desired->mode == DESIRED_STOP && shim != NULL && !shim->told &&
        (agent->stop.job != desired->job || agent->stop.attempt != desired->attempt)) {
        agent->stop = (struct swarm_order){desired->job, desired->attempt};
        wave_add(swarm, "stop", desired->job, desired->attempt, shim->train->shims);
    }
}

/* What the measurements are made of: when it came, and how long nothing had. */
static void note_message(struct swarm_agent *agent, const struct message *message)
{
    struct swarm *swarm = agent->swarm;
    uint64_t now = swarm_now_ms();
    uint64_t silent = agent->heard_ms != 0 ? now - agent->heard_ms : 0;
    if (agent->welcomed && silent > swarm->figures.silence_ms_max) {
        swarm->figures.silence_ms_max = silent;
    }
    agent->heard_ms = now;
    if (message->kind == MSG_WELCOME && message->u.welcome.result == HELLO_WELCOME) {
        if (!agent->welcomed) {
            agent->welcomed = true;
            swarm->welcomed++;
            wave_add(swarm, "connected", 0, 0, swarm->options.agents);
        }
        if (!swarm->connected && swarm->welcomed == swarm->options.agents) {
            swarm->connected = true;
            script_begin(swarm);
        }
    }
    if (message->kind == MSG_DESIRED) {
        note_order(agent, &message->u.desired);
    }
}

static void step(struct swarm_agent *agent, struct agent_event *event)
{
    struct agent_output *output = agent->swarm->output;
    event->now_ms = swarm_now_ms();
    event->wall_ms = wall_ms();
    int result = agent_core_step(agent->core, event, output);
    CHECK(result == 0);
    for (uint32_t index = 0; index < output->action_count && agent->core != NULL; index++) {
        act(agent, &output->actions[index]);
    }
}

static void step_input(struct swarm_agent *agent, const struct swarm_input *input)
{
    struct agent_event event = {
        .kind = input->kind, .job = input->job, .attempt = input->attempt, .nonce = input->nonce};
    event.ok = true; /* checks pass, and nothing that was not found is there */
    event.port_free = true;
    if (input->kind == AGENT_EVENT_SHIM) {
        struct swarm_shim *shim = ranks_find(agent, input->job, input->attempt);
        if (shim == NULL) {
            return;
        }
        event.shim = &shim->view;
        step(agent, &event);
        shim->view.attached = false;
        return;
    }
    if (input->kind == AGENT_EVENT_LINK_DOWN) {
        connection_close(agent);
        event.text = "the controller cannot be reached";
    } else if (input->kind == AGENT_EVENT_LAUNCH_FAILED) {
        event.text = "too many attempts are here";
    }
    step(agent, &event);
}

static void timer_cb(uv_timer_t *timer)
{
    struct swarm_agent *agent = timer->data;
    agent->armed_ms = 0;
    if (!agent_listens(agent)) {
        return;
    }
    if (swarm_now_ms() >= agent->read_ms) {
        agent->read_ms = swarm_now_ms() + SWARM_READ_MS;
        ranks_read(agent);
    }
    struct agent_event event = {.kind = AGENT_EVENT_TICK};
    agent_feed(agent, &event);
}

static void arm(struct swarm_agent *agent)
{
    uint64_t due = agent_core_deadline_ms(agent->core);
    due = agent->read_ms < due ? agent->read_ms : due;
    if (due == agent->armed_ms) {
        return;
    }
    agent->armed_ms = due;
    uint64_t now = swarm_now_ms();
    uv_update_time(&agent->swarm->loop);
    CHECK(uv_timer_start(&agent->timer, timer_cb, due > now ? due - now : 0, 0) == 0);
}

void agent_queue(struct swarm_agent *agent, const struct swarm_input *input)
{
    for (uint32_t index = 0; index < agent->input_count; index++) {
        if (memcmp(&agent->inputs[index], input, sizeof(*input)) == 0) {
            return; /* views are made when they are stepped: once is enough */
        }
    }
    CHECK(agent->input_count < SWARM_INPUTS);
    agent->inputs[agent->input_count++] = *input;
}

void agent_feed(struct swarm_agent *agent, struct agent_event *event)
{
    if (agent->core == NULL || agent->swarm->ending) {
        return;
    }
    if (event->kind == AGENT_EVENT_MESSAGE) {
        note_message(agent, event->message);
    }
    step(agent, event);
    while (agent->core != NULL && agent->input_count > 0) {
        struct swarm_input input = agent->inputs[0];
        agent->input_count--;
        memmove(&agent->inputs[0], &agent->inputs[1], agent->input_count * sizeof(input));
        step_input(agent, &input);
    }
    if (agent_listens(agent)) {
        arm(agent);
    }
}

/* ---- actions ------------------------------------------------------------------------------- */

static void answer_request(struct swarm_agent *agent, const struct agent_action *action)
{
    struct message answer = {.kind = MSG_LOG_DATA};
    if (action->kind == AGENT_ACTION_LOG_READ) {
        answer.u.log_data = (struct msg_log_data){.nonce = action->u.log.nonce, .last = true};
    } else if (action->kind == AGENT_ACTION_SNAPSHOT) {
        answer.kind = MSG_SNAPSHOT_DATA;
        answer.u.snapshot_data = (struct msg_snapshot_data){.nonce = action->u.snapshot.nonce,
                                                            .job = action->job,
                                                            .attempt = action->attempt,
                                                            .round = action->u.snapshot.round};
    } else { /* nothing is ever found in a folder of saves */
        answer.kind = MSG_SAVE_SAID;
        answer.u.save_said = (struct msg_save_said){
            .nonce = action->u.saves.nonce, .job = action->job, .word = SAVE_DONE, .ok = true};
    }
    connection_send(agent, &answer);
}

static void act(struct swarm_agent *agent, const struct agent_action *action)
{
    switch ((enum agent_action_kind)action->kind) {
    case AGENT_ACTION_DIAL:
        connection_dial(agent);
        return;
    case AGENT_ACTION_HANG_UP:
        connection_close(agent);
        return;
    case AGENT_ACTION_SEND:
        connection_send(agent, &action->u.message);
        return;
    case AGENT_ACTION_SCAN:
        agent_queue(agent, &(struct swarm_input){.kind = AGENT_EVENT_SCANNED, .job = action->job});
        return;
    case AGENT_ACTION_START:
        ranks_start(agent, &action->u.start);
        return;
    case AGENT_ACTION_TERM:
        ranks_stop(agent, action->job, action->attempt, SIGTERM);
        return;
    case AGENT_ACTION_KILL:
    case AGENT_ACTION_SWEEP:
        ranks_stop(agent, action->job, action->attempt, SIGKILL);
        return;
    case AGENT_ACTION_FORGET:
        ranks_forget(agent, action->job, action->attempt);
        return;
    case AGENT_ACTION_PEER_PROBE:
        peers_probe(agent, &action->u.probe);
        return;
    case AGENT_ACTION_PEER_REPLY:
        peers_reply(agent->swarm, action->token, &action->u.reply);
        return;
    case AGENT_ACTION_CHECK:
        agent_queue(agent, &(struct swarm_input){.kind = AGENT_EVENT_CHECKED,
                                                 .nonce = action->u.check.nonce});
        return;
    case AGENT_ACTION_VALIDATE: /* nothing here is ever broken */
        agent_queue(agent, &(struct swarm_input){.kind = AGENT_EVENT_VALIDATED,
                                                 .nonce = action->u.validate.nonce});
        return;
    case AGENT_ACTION_LOG_READ:
    case AGENT_ACTION_SNAPSHOT:
    case AGENT_ACTION_SAVES:
        answer_request(agent, action);
        return;
    case AGENT_ACTION_MAIL_ANSWER:
    case AGENT_ACTION_MAIL_REQUEST:
    case AGENT_ACTION_MAIL_ABORT:
        return; /* ranks here ask for nothing, save nothing, and hang in nothing */
    case AGENT_ACTION_EXIT:
        return; /* said only to an agent that said goodbye, which none here does */
    }
    CHECK(false);
}

/* ---- life and death ------------------------------------------------------------------------ */

void agent_start(struct swarm_agent *agent)
{
    struct agent_identity identity;
    if (agent->core != NULL) {
        agent_end(agent);
    }
    agent->lives++;
    agent->host = SWARM_UP;
    agent->paused = false;
    identity_of(agent, &identity);
    int result = agent_core_create(&agent->swarm->limits, agent->index * 1024ull + agent->lives,
                                   &identity, &agent->core);
    CHECK(result == 0);
    agent->run = (struct swarm_order){.job = 0};
    agent->stop = (struct swarm_order){.job = 0};
    agent->read_ms = swarm_now_ms() + SWARM_READ_MS;
    agent->armed_ms = 0;
    agent->heard_ms = 0;
    struct agent_event event = {.kind = AGENT_EVENT_START};
    agent_feed(agent, &event);
}

void agent_end(struct swarm_agent *agent)
{
    connection_close(agent);
    ranks_drop(agent);
    (void)uv_timer_stop(&agent->timer); /* cannot fail */
    agent->core = agent_core_free(agent->core);
    agent->input_count = 0;
    agent->host = SWARM_DEAD;
}

void agent_pause(struct swarm_agent *agent, bool paused)
{
    agent->paused = paused;
    agent->heard_ms = 0; /* what it did not hear meanwhile was not the controller's silence */
    connection_listen(agent, !paused);
    if (!paused && agent->core != NULL) {
        agent->armed_ms = 0;
        struct agent_event event = {.kind = AGENT_EVENT_TICK};
        agent_feed(agent, &event);
    }
}

void agents_create(struct swarm *swarm)
{
    swarm->agents = mem_alloc(swarm->options.agents, sizeof(swarm->agents[0]));
    for (uint32_t index = 0; index < swarm->options.agents; index++) {
        struct swarm_agent *agent = &swarm->agents[index];
        agent->swarm = swarm;
        agent->index = index;
        agent->host = SWARM_DEAD;
        agent->timer.data = agent;
        (void)text_format(agent->name, NAME_SIZE, "n%05u", index + 1);
        CHECK(uv_timer_init(&swarm->loop, &agent->timer) == 0);
    }
}

void agents_close(struct swarm *swarm)
{
    for (uint32_t index = 0; index < swarm->options.agents; index++) {
        struct swarm_agent *agent = &swarm->agents[index];
        agent_end(agent);
        uv_close((uv_handle_t *)&agent->timer, NULL);
    }
}

void agents_free(struct swarm *swarm)
{
    swarm->agents = mem_free(swarm->agents);
}
