/* peers.c: the port and the probes. Both are the same small object: a connection with a deadline
 * that reads one frame. */
#include "agent/io/peers.h"

#include <errno.h>
#include <string.h>

#include "agent/io/driver.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/wire.h"

enum { PEER_READ_SIZE = 1024, PEER_HANDLES = 2 };

struct peer {
    struct peer *next;
    struct agent_peers *peers;
    uint64_t token;
    bool asking; /* a probe of ours; else a question to us */
    bool connected;
    bool answered;
    bool closing;
    int handles;
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_connect_t connect;
    uv_write_t write;
    struct buf out;
    struct frame_reader reader;
    struct agent_probe probe;
    uint8_t bytes[PEER_READ_SIZE];
};

struct agent_peers {
    struct agent_io *io;
    uv_tcp_t listener;
    struct peer *first;
    uint32_t count;
    uint64_t tokens;
    bool closed;
};

/* ---- objects --------------------------------------------------------------------------------------- */

static void closed_cb(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    peer->handles--;
    if (peer->handles > 0) {
        return;
    }
    struct peer **at = &peer->peers->first;
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    peer->peers->count--;
    frame_reader_done(&peer->reader);
    buf_done(&peer->out);
    mem_free(peer);
}

static void finish(struct peer *peer)
{
    if (!peer->closing) {
        peer->closing = true;
        uv_close((uv_handle_t *)&peer->tcp, closed_cb);
        uv_close((uv_handle_t *)&peer->timer, closed_cb);
    }
}

static struct peer *make(struct agent_peers *peers, bool asking)
{
    struct peer *peer = mem_alloc(1, sizeof(*peer));
    peer->peers = peers;
    peer->asking = asking;
    peer->token = ++peers->tokens;
    peer->handles = PEER_HANDLES;
    frame_reader_init(&peer->reader, asking ? FRAME_FROM_PEER : FRAME_FROM_ASKER);
    buf_init(&peer->out, FRAME_SIZE_MAX);
    int r = uv_tcp_init(peers->io->loop, &peer->tcp);
    CHECK(r == 0);
    r = uv_timer_init(peers->io->loop, &peer->timer);
    CHECK(r == 0);
    peer->tcp.data = peer;
    peer->timer.data = peer;
    peer->next = peers->first;
    peers->first = peer;
    peers->count++;
    return peer;
}

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
    struct agent_driver *driver = peer->peers->io->driver;
    finish(peer);
    driver_step(driver, &event);
}

/* ---- talking ---------------------------------------------------------------------------------------- */

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
    const int r = wire_encode(message, &peer->out, &err);
    if (r != 0) {
        log_line(LOG_ERROR, "encode-failed", "a peer message was not sent, ignoring", "error",
                 err.text, NULL);
        return;
    }
    const uv_buf_t buffer = uv_buf_init((char *)peer->out.data, (unsigned int)peer->out.size);
    peer->write.data = peer;
    if (uv_write(&peer->write, (uv_stream_t *)&peer->tcp, &buffer, 1, written_cb) != 0 &&
        !peer->asking) {
        finish(peer);
    }
}

static void take_reply(struct peer *peer, const struct msg_peer_reply *reply)
{
    if (reply->nonce == peer->probe.nonce) {
        const bool same = text_equal(reply->node, peer->probe.name);
        tell_outcome(peer, same ? PEER_ANSWERS : PEER_LEFT, reply);
    }
}

static void take_question(struct peer *peer, const struct msg_peer_question *question)
{
    if (!peer->answered) {
        peer->answered = true;
        struct agent_event event = {
            .kind = AGENT_EVENT_PEER_QUESTION, .nonce = question->nonce, .token = peer->token};
        driver_step(peer->peers->io->driver, &event);
    }
}

/* false: it cannot be read, or is over. */
static bool take_frame(struct peer *peer, const uint8_t *data, size_t size)
{
    struct frame frame;
    struct err err = {0};
    int r = frame_reader_take(&peer->reader, &data, &size, &frame, &err);
    if (r <= 0) {
        return r == 0;
    }
    struct message *message = mem_alloc(1, sizeof(*message));
    r = wire_decode(frame.kind, frame.body, frame.size, message, &err);
    if (r == 0 && message->kind == MSG_PEER_REPLY && peer->asking) {
        take_reply(peer, &message->u.peer_reply);
    } else if (r == 0 && message->kind == MSG_PEER_QUESTION && !peer->asking) {
        take_question(peer, &message->u.peer_question);
    }
    if (r == 0) {
        message_done(message);
    }
    mem_free(message);
    return r == 0;
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
    if (count > 0 && take_frame(peer, (const uint8_t *)buffer->base, (size_t)count)) {
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
    const int r = uv_timer_start(&peer->timer, deadline_cb, ms, 0);
    CHECK(r == 0);
}

/* ---- probes ------------------------------------------------------------------------------------------- */

static void connected_cb(uv_connect_t *connect, int status)
{
    struct peer *peer = connect->data;
    if (peer->closing) {
        return;
    }
    if (status != 0) {
        const bool refused = status == UV_ECONNREFUSED || status == UV_ECONNRESET;
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
    (void)text_copy(message->u.peer_question.asker, sizeof(message->u.peer_question.asker),
                    peer->peers->io->options->node);
    send_message(peer, message);
    mem_free(message);
}

static int parse_address(const char *text, uint16_t port, struct sockaddr_storage *ret_address)
{
    return strchr(text, ':') != NULL ? uv_ip6_addr(text, port, (struct sockaddr_in6 *)ret_address)
                                     : uv_ip4_addr(text, port, (struct sockaddr_in *)ret_address);
}

void peers_probe(struct agent_peers *peers, const struct agent_probe *probe)
{
    struct sockaddr_storage address;
    if (peers->closed) {
        return;
    }
    struct peer *peer = make(peers, true);
    peer->probe = *probe;
    peer->connect.data = peer;
    set_deadline(peer, probe->timeout_ms > 0 ? probe->timeout_ms : PEERS_TIMEOUT_MS);
    if (parse_address(probe->address, probe->port, &address) != 0 ||
        uv_tcp_connect(&peer->connect, &peer->tcp, (const struct sockaddr *)&address,
                       connected_cb) != 0) {
        set_deadline(peer, 0); /* no way there: nothing, in a later turn */
    }
}

/* ---- the port ------------------------------------------------------------------------------------------- */

static void connection_cb(uv_stream_t *listener, int status)
{
    struct agent_peers *peers = listener->data;
    if (status != 0 || peers->closed) {
        return;
    }
    struct peer *peer = make(peers, false);
    if (uv_accept(listener, (uv_stream_t *)&peer->tcp) != 0 || peers->count > PEERS_MAX ||
        uv_read_start((uv_stream_t *)&peer->tcp, alloc_cb, read_cb) != 0) {
        finish(peer);
        return;
    }
    peer->connected = true;
    set_deadline(peer, PEERS_TIMEOUT_MS);
}

void peers_reply(struct agent_peers *peers, uint64_t token, const struct msg_peer_reply *reply)
{
    for (struct peer *peer = peers->first; peer != NULL; peer = peer->next) {
        if (peer->token == token && !peer->closing) {
            struct message *message = mem_alloc(1, sizeof(*message));
            message->kind = MSG_PEER_REPLY;
            message->u.peer_reply = *reply;
            send_message(peer, message);
            mem_free(message);
            return;
        }
    }
}

static int listen_on(struct agent_peers *peers, uint16_t *ret_port)
{
    const struct agent_options *options = peers->io->options;
    struct sockaddr_storage address = {0};
    int size = sizeof(address);
    int r = parse_address(options->peer_address, options->peer_port, &address);
    r = r == 0 ? uv_tcp_bind(&peers->listener, (const struct sockaddr *)&address, 0) : r;
    r = r == 0 ? uv_listen((uv_stream_t *)&peers->listener, PEERS_BACKLOG, connection_cb) : r;
    r = r == 0 ? uv_tcp_getsockname(&peers->listener, (struct sockaddr *)&address, &size) : r;
    if (r == 0) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
        *ret_port = (uint16_t)(v4->sin_port >> 8 | v4->sin_port << 8);
    }
    return r;
}

int peers_create(struct agent_io *io, struct agent_peers **ret_peers, uint16_t *ret_port,
                 struct err *err)
{
    struct agent_peers *peers = mem_alloc(1, sizeof(*peers));
    peers->io = io;
    int r = uv_tcp_init(io->loop, &peers->listener);
    CHECK(r == 0);
    peers->listener.data = peers;
    r = listen_on(peers, ret_port);
    *ret_peers = peers;
    if (r != 0) {
        return err_set(err, r, "peer port %s:%u: %s", io->options->peer_address,
                       io->options->peer_port, uv_strerror(r));
    }
    return 0;
}

void peers_close(struct agent_peers *peers)
{
    if (!peers->closed) {
        peers->closed = true;
        uv_close((uv_handle_t *)&peers->listener, NULL);
        for (struct peer *peer = peers->first; peer != NULL; peer = peer->next) {
            finish(peer);
        }
    }
}

struct agent_peers *peers_free(struct agent_peers *peers)
{
    return mem_free(peers);
}
