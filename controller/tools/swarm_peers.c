/* swarm_peers.c: one listener answers probes for all hosts, by the address that was dialled.
 *
 *   host is up           its agent answers
 *   host is dead         reset at once: a prober takes that for refused
 *   agent is paused      accepted, and no answer
 *   host is silent       the prober here does not dial, and says after its time that nothing came
 *
 * Both ends are the same small object: a connection with a deadline that reads one frame. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "controller/tools/swarm.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/wire.h"

enum { READ_SIZE = 1024, QUESTION_MS = 5000, TIMEOUT_MS = 1000, HANDLES = 2 };
/* One listener stands for all hosts: two probers of a thousand suspects may call at one moment. */
enum { BACKLOG = 4096 };

struct peer {
    struct peer *next;
    struct swarm *swarm;
    struct swarm_agent *agent; /* who asks, or who is asked */
    bool asking;
    bool connected;
    bool answered;
    bool closing;
    int handles;
    uint64_t token;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_connect_t connect;
    uv_write_t write;
    struct buf out;
    struct frame_reader reader;
    struct agent_probe probe;
    uint8_t bytes[READ_SIZE];
};

struct swarm_peers {
    struct swarm *swarm;
    uv_tcp_t listener;
    struct peer *first;
    uint64_t tokens;
    uint16_t port;
};

static void closed_cb(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    if (--peer->handles > 0) {
        return;
    }
    struct peer **at = &peer->swarm->peers->first;
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    frame_reader_done(&peer->reader);
    buf_done(&peer->out);
    (void)mem_free(peer);
}

static void finish(struct peer *peer)
{
    if (!peer->closing) {
        peer->closing = true;
        uv_close((uv_handle_t *)&peer->tcp, closed_cb);
        uv_close((uv_handle_t *)&peer->timer, closed_cb);
    }
}

static struct peer *make(struct swarm *swarm, bool asking)
{
    struct swarm_peers *peers = swarm->peers;
    struct peer *peer = mem_alloc(1, sizeof(*peer));
    peer->swarm = swarm;
    peer->asking = asking;
    peer->token = ++peers->tokens;
    peer->handles = HANDLES;
    frame_reader_init(&peer->reader, asking ? FRAME_FROM_PEER : FRAME_FROM_ASKER);
    buf_init(&peer->out, FRAME_SIZE_MAX);
    CHECK(uv_tcp_init(&swarm->loop, &peer->tcp) == 0);
    CHECK(uv_timer_init(&swarm->loop, &peer->timer) == 0);
    peer->tcp.data = peer;
    peer->timer.data = peer;
    peer->next = peers->first;
    peers->first = peer;
    return peer;
}

/* ---- talking ------------------------------------------------------------------------------- */

static void tell_outcome(struct peer *peer, uint8_t answer, const struct msg_peer_reply *reply)
{
    if (peer->answered || peer->closing) {
        return;
    }
    peer->answered = true;
    struct agent_event event = {.kind = AGENT_EVENT_PEER_PROBED,
                                .nonce = peer->probe.nonce,
                                .answer = answer,
                                .incarnation = reply != NULL ? reply->incarnation : 0,
                                .controller_up = reply != NULL && reply->controller_up};
    finish(peer);
    if (agent_listens(peer->agent)) {
        agent_feed(peer->agent, &event);
    }
}

static void written_cb(uv_write_t *write, int status)
{
    struct peer *peer = write->data;
    (void)status; /* a failure shows at the read or the deadline */
    if (!peer->asking) {
        finish(peer);
    }
}

static void send_message(struct peer *peer, const struct message *message)
{
    struct err err = {0};
    buf_clear(&peer->out);
    CHECK(wire_encode(message, &peer->out, &err) == 0);
    const uv_buf_t buffer = uv_buf_init((char *)peer->out.data, (unsigned int)peer->out.size);
    peer->write.data = peer;
    if (uv_write(&peer->write, (uv_stream_t *)&peer->tcp, &buffer, 1, written_cb) != 0) {
        finish(peer);
    }
}

static void take_message(struct peer *peer, const struct message *message)
{
    if (message->kind == MSG_PEER_REPLY && peer->asking &&
        message->u.peer_reply.nonce == peer->probe.nonce) {
        bool same = text_equal(message->u.peer_reply.node, peer->probe.name);
        tell_outcome(peer, same ? PEER_ANSWERS : PEER_LEFT, &message->u.peer_reply);
    } else if (message->kind == MSG_PEER_QUESTION && !peer->asking && !peer->answered) {
        peer->answered = true;
        struct agent_event event = {.kind = AGENT_EVENT_PEER_QUESTION,
                                    .nonce = message->u.peer_question.nonce,
                                    .token = peer->token};
        agent_feed(peer->agent, &event);
    }
}

/* false: it cannot be read, or is over. */
static bool take_bytes(struct peer *peer, const uint8_t *data, size_t size)
{
    struct frame frame;
    struct err err = {0};
    int result = frame_reader_take(&peer->reader, &data, &size, &frame, &err);
    if (result <= 0) {
        return result == 0;
    }
    struct message *message = mem_alloc(1, sizeof(*message));
    result = wire_decode(frame.kind, frame.body, frame.size, message, &err);
    if (result == 0) {
        take_message(peer, message);
        message_done(message);
    }
    (void)mem_free(message);
    return result == 0;
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct peer *peer = handle->data;
    (void)suggested;
    *buffer = uv_buf_init((char *)peer->bytes, sizeof(peer->bytes));
}

static void read_cb(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct peer *peer = stream->data;
    if (count == 0 || peer->closing) {
        return;
    }
    if (count > 0 && take_bytes(peer, (const uint8_t *)buffer->base, (size_t)count)) {
        return;
    }
    if (peer->asking) { /* ended before it answered: what listens there is no agent any more */
        tell_outcome(peer, PEER_REFUSED, NULL);
    } else {
        finish(peer);
    }
}

static void deadline_cb(uv_timer_t *timer)
{
    struct peer *peer = timer->data;
    if (peer->asking) {
        tell_outcome(peer, peer->connected ? PEER_SILENT : PEER_NOTHING, NULL);
    } else {
        finish(peer);
    }
}

static void set_deadline(struct peer *peer, uint64_t ms)
{
    CHECK(uv_timer_start(&peer->timer, deadline_cb, ms, 0) == 0);
}

/* ---- asking -------------------------------------------------------------------------------- */

static void connected_cb(uv_connect_t *connect, int status)
{
    struct peer *peer = connect->data;
    if (peer->closing) {
        return;
    }
    if (status != 0) {
        bool refused = status == UV_ECONNREFUSED || status == UV_ECONNRESET;
        tell_outcome(peer, refused ? PEER_REFUSED : PEER_NOTHING, NULL);
        return;
    }
    peer->connected = true;
    if (uv_read_start((uv_stream_t *)&peer->tcp, alloc_cb, read_cb) != 0) {
        return; /* the deadline says silent */
    }
    struct message *message = mem_alloc(1, sizeof(*message));
    message->kind = MSG_PEER_QUESTION;
    message->u.peer_question.nonce = peer->probe.nonce;
    (void)text_copy(message->u.peer_question.asker, NAME_SIZE, peer->agent->name);
    send_message(peer, message);
    (void)mem_free(message);
}

void peers_probe(struct swarm_agent *agent, const struct agent_probe *probe)
{
    struct sockaddr_in address;
    struct peer *peer = make(agent->swarm, true);
    peer->agent = agent;
    peer->probe = *probe;
    peer->connect.data = peer;
    set_deadline(peer, probe->timeout_ms > 0 ? probe->timeout_ms : TIMEOUT_MS);
    bool known = uv_ip4_addr(probe->address, probe->port, &address) == 0;
    const struct swarm_agent *target =
        known ? agent_by_address(agent->swarm, ntohl(address.sin_addr.s_addr)) : NULL;
    if (!known || (target != NULL && target->host == SWARM_SILENT)) {
        return; /* no way there: nothing comes */
    }
    if (uv_tcp_connect(&peer->connect, &peer->tcp, (const struct sockaddr *)&address,
                       connected_cb) != 0) {
        set_deadline(peer, 0);
    }
}

/* ---- being asked --------------------------------------------------------------------------- */

static struct swarm_agent *asked(const struct peer *peer)
{
    struct sockaddr_in address;
    int size = sizeof(address);
    if (uv_tcp_getsockname(&peer->tcp, (struct sockaddr *)&address, &size) != 0) {
        return NULL;
    }
    return agent_by_address(peer->swarm, ntohl(address.sin_addr.s_addr));
}

/* Closes it in such a way that the other end sees a reset. */
static void reset(struct peer *peer)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    uv_os_fd_t fd = -1;
    if (uv_fileno((uv_handle_t *)&peer->tcp, &fd) == 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* else it is just closed */
    }
    finish(peer);
}

static void connection_cb(uv_stream_t *listener, int status)
{
    struct swarm *swarm = listener->data;
    if (status != 0 || swarm->ending) {
        return;
    }
    struct peer *peer = make(swarm, false);
    if (uv_accept(listener, (uv_stream_t *)&peer->tcp) != 0) {
        finish(peer);
        return;
    }
    peer->agent = asked(peer);
    if (peer->agent == NULL || peer->agent->host == SWARM_DEAD) {
        reset(peer);
        return;
    }
    set_deadline(peer, QUESTION_MS);
    if (agent_listens(peer->agent) &&
        uv_read_start((uv_stream_t *)&peer->tcp, alloc_cb, read_cb) != 0) {
        finish(peer);
    }
}

void peers_reply(struct swarm *swarm, uint64_t token, const struct msg_peer_reply *reply)
{
    for (struct peer *peer = swarm->peers->first; peer != NULL; peer = peer->next) {
        if (peer->token == token && !peer->closing) {
            struct message *message = mem_alloc(1, sizeof(*message));
            message->kind = MSG_PEER_REPLY;
            message->u.peer_reply = *reply;
            send_message(peer, message);
            (void)mem_free(message);
            return;
        }
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

/* All of 127.0.0.0/8, and nobody from outside. */
static int bind_to_loopback(const uv_tcp_t *listener)
{
    uv_os_fd_t fd = -1;
    int result = uv_fileno((const uv_handle_t *)listener, &fd);
    if (result == 0 && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof("lo")) != 0) {
        result = -errno;
    }
    return result;
}

int peers_create(struct swarm *swarm, struct err *err)
{
    struct sockaddr_in address;
    int size = sizeof(address);
    struct swarm_peers *peers = mem_alloc(1, sizeof(*peers));
    swarm->peers = peers;
    peers->swarm = swarm;
    CHECK(uv_ip4_addr("0.0.0.0", swarm->options.peer_port, &address) == 0);
    CHECK(uv_tcp_init_ex(&swarm->loop, &peers->listener, AF_INET) == 0);
    peers->listener.data = swarm;
    int result = bind_to_loopback(&peers->listener);
    result =
        result == 0 ? uv_tcp_bind(&peers->listener, (const struct sockaddr *)&address, 0) : result;
    result =
        result == 0 ? uv_listen((uv_stream_t *)&peers->listener, BACKLOG, connection_cb) : result;
    result = result == 0 ? uv_tcp_getsockname(&peers->listener, (struct sockaddr *)&address, &size)
                         : result;
    if (result < 0) {
        return err_set(err, result, "peer port %u: %s", swarm->options.peer_port,
                       uv_strerror(result));
    }
    peers->port = ntohs(address.sin_port);
    return 0;
}

uint16_t peers_port(const struct swarm_peers *peers)
{
    return peers->port;
}

void peers_close(struct swarm *swarm)
{
    if (swarm->peers == NULL) {
        return;
    }
    uv_close((uv_handle_t *)&swarm->peers->listener, NULL);
    for (struct peer *peer = swarm->peers->first; peer != NULL; peer = peer->next) {
        finish(peer);
    }
}

struct swarm_peers *peers_free(struct swarm_peers *peers)
{
    return mem_free(peers);
}
