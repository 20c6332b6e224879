/* net.c: connections as TCP makes them, and what the network does to them.
 *
 * A connection is two FIFOs. A packet that meets a cut waits at the head of its FIFO (the kernel
 * sends it again) until the cut heals, or until the sender's kernel gives up: nothing acknowledged
 * for 6 s closes the sender's end, and only that one; the other end learns of it when something
 * reaches it. A host that is gone answers nothing; a process that is gone leaves a kernel that says
 * so. Messages that overtake others or come twice do not exist in TCP: those two faults are here to
 * prove that level state does not care. */
#include <string.h>

#include "controller/sim/world.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { CONNS_STEP = 64 };

static uint64_t delay(struct sim *sim, uint32_t host)
{
    uint64_t ms = sim_between(sim, sim->options.delay_ms[0], sim->options.delay_ms[1]);
    uint64_t slow = sim->hosts[host].slow_ms;
    return ms + (slow > 0 ? sim_between(sim, slow / 2, slow) : 0);
}

bool net_path_open(const struct sim *sim, uint32_t from, uint32_t to)
{
    uint32_t from_island = 0;
    uint32_t to_island = 0;
    if (from != NET_CONTROLLER) {
        if (!sim->hosts[from].up || (to == NET_CONTROLLER && sim->hosts[from].cut_up)) {
            return false;
        }
        from_island = sim->hosts[from].island;
    }
    if (to != NET_CONTROLLER) {
        if (!sim->hosts[to].up || (from == NET_CONTROLLER && sim->hosts[to].cut_down)) {
            return false;
        }
        to_island = sim->hosts[to].island;
    }
    return from_island == to_island;
}

/* A TCP connection works when packets and their acknowledgements both pass. */
static bool both_ways(const struct sim *sim, uint32_t host)
{
    return net_path_open(sim, host, NET_CONTROLLER) && net_path_open(sim, NET_CONTROLLER, host);
}

/* An id is a number that is never used again, and the place where the connection is. */
enum { PLACE_BITS = 20 };

struct sim_conn *net_conn(struct sim *sim, uint64_t id)
{
    uint64_t place = id & ((1u << PLACE_BITS) - 1);
    if (id == 0 || place >= sim->conn_count || sim->conns[place].id != id) {
        return NULL;
    }
    return &sim->conns[place];
}

/* Free places are taken from the end of their list, and never more than there are places. */
static struct sim_conn *conn_place(struct sim *sim, uint64_t *ret_id)
{
    if (sim->conn_free_count == 0) {
        uint32_t count = sim->conn_count + CONNS_STEP + sim->conn_count / 2;
        CHECK(count <= 1u << PLACE_BITS);
        sim->conns = mem_grow(sim->conns, count, sizeof(sim->conns[0]));
        sim->conn_free = mem_grow(sim->conn_free, count, sizeof(sim->conn_free[0]));
        memset(&sim->conns[sim->conn_count], 0, (count - sim->conn_count) * sizeof(sim->conns[0]));
        for (uint32_t place = count; place-- > sim->conn_count;) {
            sim->conn_free[sim->conn_free_count++] = place;
        }
        sim->conn_count = count;
    }
    uint32_t place = sim->conn_free[--sim->conn_free_count];
    *ret_id = sim->conn_next++ << PLACE_BITS | place;
    return &sim->conns[place];
}

static void drop_packets(struct sim_pipe *pipe)
{
    while (pipe->head != NULL) {
        struct sim_packet *next = pipe->head->next;
        mem_free(pipe->head);
        pipe->head = next;
    }
    pipe->tail = NULL;
}

static void drop_if_over(struct sim *sim, struct sim_conn *conn)
{
    if (!conn->agent_open && !conn->ctl_open) {
        drop_packets(&conn->up);
        drop_packets(&conn->down);
        sim->conn_free[sim->conn_free_count++] = (uint32_t)(conn - sim->conns);
        conn->id = 0;
    }
}

/* ---- sending ----------------------------------------------------------------------------- */

static bool is_up(const struct sim_conn *conn, const struct sim_pipe *pipe)
{
    return pipe == &conn->up;
}

static void plan_pump(struct sim *sim, const struct sim_conn *conn, struct sim_pipe *pipe)
{
    if (pipe->head != NULL) {
        pipe->pumps++;
        sim_at(sim, pipe->head->at_ms,
               (struct sim_event){
                   .kind = SIM_EV_PUMP, .id = conn->id, .what = is_up(conn, pipe) ? 1 : 0});
    }
}

/* Something was sent that nobody acknowledges. */
static void watch_unacked(struct sim *sim, const struct sim_conn *conn, struct sim_pipe *pipe)
{
    if (pipe->unacked_ms == 0) {
        pipe->unacked_ms = sim->now_ms;
        sim_at(sim, sim->now_ms + SIM_USER_TIMEOUT_MS,
               (struct sim_event){.kind = SIM_EV_UNACKED,
                                  .id = conn->id,
                                  .what = is_up(conn, pipe) ? 1 : 0,
                                  .life = sim->now_ms});
    }
}

static struct sim_packet *append(struct sim *sim, struct sim_conn *conn, struct sim_pipe *pipe)
{
    struct sim_packet *packet = mem_alloc(1, sizeof(*packet));
    uint64_t at_ms = sim->now_ms + delay(sim, conn->host);
    packet->at_ms = at_ms > pipe->last_ms ? at_ms : pipe->last_ms;
    pipe->last_ms = packet->at_ms;
    if (pipe->tail == NULL) {
        pipe->head = packet;
    } else {
        pipe->tail->next = packet;
    }
    pipe->tail = packet;
    if (pipe->head == packet) {
        plan_pump(sim, conn, pipe);
    }
    if (!both_ways(sim, conn->host)) {
        watch_unacked(sim, conn, pipe);
    }
    return packet;
}

/* Only messages between the greeting and the farewell: those are of the connection itself. */
static bool may_play(uint8_t kind)
{
    return kind != MSG_HELLO && kind != MSG_WELCOME && kind != MSG_GOODBYE;
}

/* The last two packets of a FIFO change places. */
static bool swap_last(struct sim_pipe *pipe)
{
    struct sim_packet *before = pipe->head;
    if (before == NULL || before == pipe->tail) {
        return false;
    }
    while (before->next != pipe->tail) {
        before = before->next;
    }
    struct sim_packet *last = pipe->tail;
    if (before->fin || last->fin || !may_play(before->message.kind) ||
        !may_play(last->message.kind)) {
        return false;
    }
    struct message kept = before->message;
    before->message = last->message;
    last->message = kept;
    return true;
}

static void send(struct sim *sim, struct sim_conn *conn, struct sim_pipe *pipe,
                 const struct message *message)
{
    if (pipe->fin_sent) {
        return;
    }
    sim->stats.messages++;
    append(sim, conn, pipe)->message = *message;
    uint32_t repeat = sim->healed ? 0 : sim->options.weight[SIM_REPEAT];
    uint32_t reorder = sim->healed ? 0 : sim->options.weight[SIM_REORDER];
    if (repeat > 0 && may_play(message->kind) && sim_chance(sim, repeat * 1000)) {
        append(sim, conn, pipe)->message = *message;
        sim->stats.struck[SIM_REPEAT]++;
    }
    if (reorder > 0 && sim_chance(sim, reorder * 1000) && swap_last(pipe)) {
        sim->stats.struck[SIM_REORDER]++;
    }
}

void net_send_up(struct sim *sim, uint64_t id, const struct message *message)
{
    struct sim_conn *conn = net_conn(sim, id);
    if (conn != NULL && conn->agent_open) {
        send(sim, conn, &conn->up, message);
    }
}

void net_send_down(struct sim *sim, uint64_t id, const struct message *message)
{
    struct sim_conn *conn = net_conn(sim, id);
    if (conn != NULL && conn->ctl_open) {
        send(sim, conn, &conn->down, message);
    }
}

static void send_fin(struct sim *sim, struct sim_conn *conn, struct sim_pipe *pipe)
{
    if (!pipe->fin_sent) {
        pipe->fin_sent = true;
        append(sim, conn, pipe)->fin = true;
    }
}

/* ---- closing ----------------------------------------------------------------------------- */

void net_close_agent(struct sim *sim, uint64_t id)
{
    struct sim_conn *conn = net_conn(sim, id);
    if (conn == NULL || !conn->agent_open) {
        return;
    }
    if (conn->ctl_open) {
        send_fin(sim, conn, &conn->up);
    }
    conn->agent_open = false;
    drop_packets(&conn->down);
    drop_if_over(sim, conn);
}

void net_close_controller(struct sim *sim, uint64_t id)
{
    struct sim_conn *conn = net_conn(sim, id);
    if (conn == NULL || !conn->ctl_open) {
        return;
    }
    if (conn->agent_open) {
        send_fin(sim, conn, &conn->down);
    }
    conn->ctl_open = false;
    drop_packets(&conn->up);
    drop_if_over(sim, conn);
}

/* The host lost its power: nothing of its end is left, and nobody is told. */
void net_drop_all(struct sim *sim, uint32_t host)
{
    for (uint32_t index = 0; index < sim->conn_count; index++) {
        struct sim_conn *conn = &sim->conns[index];
        if (conn->id != 0 && conn->host == host) {
            conn->agent_open = false;
            drop_packets(&conn->up);
            drop_if_over(sim, conn);
        }
    }
}

void net_controller_died(struct sim *sim)
{
    for (uint32_t index = 0; index < sim->conn_count; index++) {
        if (sim->conns[index].id != 0) {
            net_close_controller(sim, sim->conns[index].id);
        }
    }
}

/* The sender's end closes: its own kernel says so. */
static void break_end(struct sim *sim, struct sim_conn *conn, bool up, const char *why)
{
    uint64_t id = conn->id;
    uint32_t host = conn->host;
    if (up && conn->agent_open) {
        net_close_agent(sim, id);
        agent_link(sim, host, id, false, why);
    } else if (!up && conn->ctl_open) {
        net_close_controller(sim, id);
        ctl_input(sim, SIM_IN_CLOSED, id, false, NULL);
    }
}

void net_unacked(struct sim *sim, const struct sim_event *event)
{
    struct sim_conn *conn = net_conn(sim, event->id);
    if (conn == NULL) {
        return;
    }
    bool up = event->what != 0;
    struct sim_pipe *pipe = up ? &conn->up : &conn->down;
    if (pipe->unacked_ms == event->life) {
        break_end(sim, conn, up, "nothing was acknowledged for 6 s");
    }
}

/* ---- arriving ---------------------------------------------------------------------------- */

static void arrive_up(struct sim *sim, struct sim_conn *conn, const struct sim_packet *packet)
{
    if (packet->fin) {
        uint64_t id = conn->id;
        conn->ctl_open = false;
        drop_if_over(sim, conn);
        ctl_input(sim, SIM_IN_CLOSED, id, false, NULL);
        return;
    }
    ctl_input(sim, SIM_IN_MESSAGE, conn->id, false, &packet->message);
}

static void arrive_down(struct sim *sim, struct sim_conn *conn, const struct sim_packet *packet)
{
    uint64_t id = conn->id;
    uint32_t host = conn->host;
    if (sim->hosts[host].old_agent && !packet->fin &&
        (packet->message.kind == MSG_PEERS || packet->message.kind == MSG_SAVE_ASK)) {
        return; /* of a minor version that it does not know: passed over */
    }
    if (packet->fin) {
        conn->agent_open = false;
        drop_if_over(sim, conn);
        agent_link(sim, host, id, false, "closed by the controller");
        return;
    }
    agent_deliver(sim, host, id, &packet->message);
}

static void pump_one(struct sim *sim, uint64_t id, bool up)
{
    struct sim_conn *conn = net_conn(sim, id);
    if (conn == NULL) {
        return;
    }
    struct sim_pipe *pipe = up ? &conn->up : &conn->down;
    uint32_t from = up ? conn->host : NET_CONTROLLER;
    uint32_t to = up ? NET_CONTROLLER : conn->host;
    pipe->pumps--;
    if (pipe->head == NULL || pipe->head->at_ms > sim->now_ms) {
        return;
    }
    if (!net_path_open(sim, from, to)) {
        watch_unacked(sim, conn, pipe);
        return; /* net_changed() comes back to it */
    }
    struct sim_packet *packet = pipe->head;
    pipe->head = packet->next;
    if (pipe->head == NULL) {
        pipe->tail = NULL;
    }
    plan_pump(sim, conn, pipe);
    bool open = up ? conn->ctl_open : conn->agent_open;
    if (open && up) {
        arrive_up(sim, conn, packet);
    } else if (open) {
        arrive_down(sim, conn, packet);
    } else if (!packet->fin && net_path_open(sim, to, from)) {
        break_end(sim, conn, up, "connection reset by peer"); /* nobody has this connection there */
    }
    mem_free(packet);
}

void net_pump(struct sim *sim, const struct sim_event *event)
{
    pump_one(sim, event->id, event->what != 0);
}

void net_changed(struct sim *sim, uint32_t host)
{
    for (uint32_t index = 0; index < sim->conn_count; index++) {
        struct sim_conn *conn = &sim->conns[index];
        if (conn->id == 0 || (host != NET_ALL && conn->host != host)) {
            continue;
        }
        if (both_ways(sim, conn->host)) {
            conn->up.unacked_ms = 0;
            conn->down.unacked_ms = 0;
        }
        if (conn->up.pumps == 0) {
            plan_pump(sim, conn, &conn->up);
        }
        if (conn->down.pumps == 0) {
            plan_pump(sim, conn, &conn->down);
        }
    }
}

/* ---- dialling ---------------------------------------------------------------------------- */

void net_dial(struct sim *sim, uint32_t host)
{
    struct sim_host *h = &sim->hosts[host];
    h->dial++;
    uint64_t there = 2 * (delay(sim, host) + 1);
    sim_at(sim, sim->now_ms + there,
           (struct sim_event){
               .kind = SIM_EV_DIALED, .host = host, .life = h->agent_life, .id = h->dial});
}

void net_dialed(struct sim *sim, const struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->host];
    if (!host->agent_up || host->agent_life != event->life || host->dial != event->id ||
        host->conn != 0) {
        return;
    }
    bool deaf = sim->healed && sim->options.mutation == SIM_DEAF;
    if (deaf || !both_ways(sim, event->host)) {
        return; /* no answer: the agent gives up by itself */
    }
    if (!sim->ctl.running) {
        agent_link(sim, event->host, 0, false, "connection refused");
        return;
    }
    uint64_t id = 0;
    struct sim_conn *conn = conn_place(sim, &id);
    *conn = (struct sim_conn){.id = id,
                              .host = event->host,
                              .agent_life = host->agent_life,
                              .ctl_life = sim->ctl.life,
                              .agent_open = true,
                              .ctl_open = true};
    host->conn = conn->id;
    agent_link(sim, event->host, conn->id, true, "");
}

/* A connection whose agent died long ago: its hello is read now, and its end is found closed. */
void net_hello_of_the_dead(struct sim *sim, uint32_t host, const struct message *hello)
{
    uint64_t id = 0;
    struct sim_conn *conn = conn_place(sim, &id);
    *conn = (struct sim_conn){
        .id = id, .host = host, .ctl_life = sim->ctl.life, .agent_open = true, .ctl_open = true};
    send(sim, conn, &conn->up, hello);
    net_close_agent(sim, id);
}

/* ---- probes ------------------------------------------------------------------------------ */

static struct sim_probe *probe_find(struct sim *sim, uint64_t id)
{
    for (size_t index = 0; index < ARRAY_SIZE(sim->probes); index++) {
        if (sim->probes[index].id == id) {
            return &sim->probes[index];
        }
    }
    return NULL;
}

/* The last two numbers of an address say which host it is: sim.c makes them. */
static uint32_t host_at(const struct sim *sim, const char *address)
{
    uint64_t high = 0;
    uint64_t low = 0;
    const char *first = address + strlen("10.0.");
    const char *dot = strchr(first, '.');
    char text[8];
    (void)text_format(text, sizeof(text), "%.*s", dot == NULL ? 0 : (int)(dot - first), first);
    if (dot == NULL || text_to_u64(text, 255, &high) < 0 || text_to_u64(dot + 1, 255, &low) < 0) {
        return UINT32_MAX;
    }
    uint64_t index = high * SIM_HOSTS_PER_NET + low - 1;
    return index < sim->host_count ? (uint32_t)index : UINT32_MAX;
}

void net_probe(struct sim *sim, uint32_t host, const struct agent_probe *probe)
{
    struct sim_probe *place = probe_find(sim, 0);
    if (place == NULL) {
        return; /* as if the asker had no descriptor left: no answer at all */
    }
    *place = (struct sim_probe){.id = ++sim->probe_next,
                                .asker = host,
                                .asker_life = sim->hosts[host].agent_life,
                                .target = host_at(sim, probe->address),
                                .nonce = probe->nonce,
                                .answer = PEER_NOTHING};
    sim_at(sim, sim->now_ms + delay(sim, host) + 1,
           (struct sim_event){.kind = SIM_EV_PROBE, .id = place->id});
    sim_at(sim, sim->now_ms + probe->timeout_ms,
           (struct sim_event){.kind = SIM_EV_PROBE_OVER, .id = place->id});
}

static void probe_answer(struct sim *sim, struct sim_probe *probe)
{
    struct sim_host *asker = &sim->hosts[probe->asker];
    if (asker->agent_up && asker->agent_life == probe->asker_life) {
        struct sim_agent_input *input = agent_input(sim, probe->asker, AGENT_EVENT_PEER_PROBED);
        input->event.nonce = probe->nonce;
        input->event.answer = probe->answer;
        input->event.incarnation = probe->incarnation;
        input->event.controller_up = probe->controller_up;
        agent_wake(sim, probe->asker);
    }
    probe->id = 0;
}

/* The packet reaches the target, or nothing does. */
static void probe_arrives(struct sim *sim, struct sim_probe *probe)
{
    if (probe->target == UINT32_MAX || !net_path_open(sim, probe->asker, probe->target) ||
        !net_path_open(sim, probe->target, probe->asker)) {
        return; /* its time runs out: nothing answered the connect */
    }
    struct sim_host *target = &sim->hosts[probe->target];
    if (!target->agent_up) {
        probe->answer = PEER_REFUSED;
        probe_answer(sim, probe);
        return;
    }
    probe->answer = PEER_SILENT; /* until the process itself says something */
    struct sim_agent_input *input = agent_input(sim, probe->target, AGENT_EVENT_PEER_QUESTION);
    input->event.nonce = probe->nonce;
    input->event.token = probe->id;
    agent_wake(sim, probe->target);
}

void net_probe_event(struct sim *sim, const struct sim_event *event)
{
    struct sim_probe *probe = probe_find(sim, event->id);
    if (probe == NULL || event->id == 0) {
        return;
    }
    if (event->kind == SIM_EV_PROBE) {
        probe_arrives(sim, probe);
    } else {
        probe_answer(sim, probe);
    }
}

void net_probe_reply(struct sim *sim, uint64_t token, const struct msg_peer_reply *reply)
{
    struct sim_probe *probe = token != 0 ? probe_find(sim, token) : NULL;
    if (probe == NULL || !net_path_open(sim, probe->target, probe->asker)) {
        return;
    }
    probe->answer = PEER_ANSWERS;
    probe->incarnation = reply->incarnation;
    probe->controller_up = reply->controller_up;
    sim_at(sim, sim->now_ms + delay(sim, probe->target) + 1,
           (struct sim_event){.kind = SIM_EV_PROBE_BACK, .id = probe->id});
}

void net_done(struct sim *sim)
{
    for (uint32_t index = 0; index < sim->conn_count; index++) {
        drop_packets(&sim->conns[index].up);
        drop_packets(&sim->conns[index].down);
    }
    sim->conns = mem_free(sim->conns);
    sim->conn_free = mem_free(sim->conn_free);
}
