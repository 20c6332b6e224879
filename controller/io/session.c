/* session.c: accept -> (TLS handshake) -> frames -> messages -> end.
 *
 * Happy path: read_cb() gets bytes; through TLS they become plain bytes; the frame reader cuts them
 * into frames; wire_decode() makes messages; the owner takes each.
 *
 * What may go wrong, and what then happens (always: one end with one reason, and no more messages):
 *   no hello, or a frame not finished in time    session_sweep() ends it
 *   not our protocol, too long, invalid          frames() ends it
 *   wrong key, no TLS                            plain_bytes() ends it
 *   peer closes, network breaks                  read_cb() ends it
 *   peer does not read                           put_bytes() ends it at SESSION_QUEUE_MAX; the
 *                                                kernel ends it after SESSION_USER_TIMEOUT_MS
 *   messages before the hello is answered        kept up to SESSION_HOLD_MAX, then ended
 *
 * Ending is in two steps. First the session is over (state OVER): the write side is shut down after
 * what is queued, and what still comes is thrown away, because closing a socket with unread bytes
 * would reset the connection and lose our last words. When the peer closes too, or after
 * SESSION_LINGER_MS, the handle is closed, and the memory freed in its close callback.
 *
 * `ended` is told through an idle handle in the next turn, so that no owner is called back from
 * within its own call. */
#include "controller/io/session.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "controller/io/message_pool.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/wire.h"

enum session_state { STATE_OPEN, STATE_OVER, STATE_CLOSING };

enum { KEEPALIVE_S = 5 };

struct session {
    uv_tcp_t tcp;
    uv_idle_t later; /* runs once, to tell the end or to read what was held */
    uv_shutdown_t shutdown;
    int handles; /* still to be closed */
    uint64_t id;
    const struct session_owner *owner;
    void *owner_data;
    enum session_state state;
    enum session_end end;
    char end_text[TEXT_SIZE + ERR_TEXT_SIZE];
    bool accepted;  /* the owner knows it */
    bool told;      /* `ended` was called */
    bool holding;   /* between hello and welcome */
    bool releasing; /* … until the next turn */
    bool has_hello; /* the first frame has come */
    bool eof;
    uint64_t opened_ms;
    uint64_t partial_ms; /* since when a frame is unfinished; 0 = is not */
    uint64_t over_ms;
    uint64_t heard_ms;
    struct tls *tls;
    struct frame_reader reader;
    struct buf held; /* plain bytes that came while holding */
    char peer[SESSION_PEER_SIZE];
};

struct write {
    uv_write_t request;
    struct session *session;
    uint8_t data[];
};

const char *session_end_word(enum session_end end)
{
    static const char *const words[] = {
#define X(constant, word) [constant] = word,
        SESSION_ENDS(X)
#undef X
    };
    return words[end];
}

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void closed_cb(uv_handle_t *handle)
{
    struct session *session = handle->data;
    session->handles--;
    if (session->handles > 0) {
        return;
    }
    if (session->accepted) {
        session->owner->freed(session->owner->context, session);
    }
    (void)tls_free(session->tls);
    frame_reader_done(&session->reader);
    buf_done(&session->held);
    (void)mem_free(session);
}

static void close_handles(struct session *session)
{
    if (session->state == STATE_CLOSING) {
        return;
    }
    session->state = STATE_CLOSING;
    uv_close((uv_handle_t *)&session->tcp, closed_cb);
    uv_close((uv_handle_t *)&session->later, closed_cb);
}

static void shutdown_cb(uv_shutdown_t *request, int status)
{
    struct session *session = request->data;
    if (session->state == STATE_OVER && (status < 0 || session->eof)) {
        close_handles(session);
    }
}

static void read_held(struct session *session);

/* Reads what was held; or tells the owner and starts the orderly end of the connection. */
static void later_cb(uv_idle_t *idle)
{
    struct session *session = idle->data;
    (void)uv_idle_stop(idle); /* cannot fail */
    if (session->state == STATE_OPEN) {
        read_held(session);
        return;
    }
    if (session->state == STATE_CLOSING || session->told) {
        return;
    }
    session->told = true;
    session->owner->ended(session->owner->context, session, session->end, session->end_text);
    bool network = session->end == SESSION_END_NETWORK || session->end == SESSION_END_SLOW;
    if (network || uv_shutdown(&session->shutdown, (uv_stream_t *)&session->tcp, shutdown_cb) < 0) {
        close_handles(session);
    }
}

static void put_bytes(struct session *session, const uint8_t *data, size_t size);

static void flush_tls(struct session *session)
{
    struct buf *output = tls_output(session->tls);
    put_bytes(session, output->data, output->size);
    buf_clear(output);
}

void session_end(struct session *session, enum session_end end, const char *text)
{
    if (session->state != STATE_OPEN) {
        return;
    }
    if (session->tls != NULL && end != SESSION_END_NETWORK && end != SESSION_END_SLOW) {
        tls_bye(session->tls);
        flush_tls(session);
        if (session->state != STATE_OPEN) {
            return; /* the last words were too much for a slow reader */
        }
    }
    session->state = STATE_OVER;
    session->end = end;
    session->over_ms = now_ms();
    (void)text_copy(session->end_text, sizeof(session->end_text), text); /* cut is fine */
    (void)uv_idle_start(&session->later, later_cb); /* cannot fail: the callback is not NULL */
}

bool session_is_over(const struct session *session)
{
    return session->state != STATE_OPEN;
}

/* ---- sending ------------------------------------------------------------------------------- */

static void write_cb(uv_write_t *request, int status)
{
    struct write *write = request->data;
    struct session *session = write->session;
    if (status < 0 && status != UV_ECANCELED) {
        session_end(session, SESSION_END_NETWORK, uv_strerror(status));
    }
    (void)mem_free(write);
}

/* Sends now what the kernel takes and queues the rest. */
static void put_bytes(struct session *session, const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    uv_stream_t *stream = (uv_stream_t *)&session->tcp;
    size_t queued = uv_stream_get_write_queue_size(stream);
    if (queued == 0) {
        uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)data, (unsigned int)size);
        int done = uv_try_write(stream, &buffer, 1);
        if (done < 0 && done != UV_EAGAIN) {
            session_end(session, SESSION_END_NETWORK, uv_strerror(done));
            return;
        }
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        }
        if (size == 0) {
            return;
        }
    }
    if (queued + size > SESSION_QUEUE_MAX) {
        session_end(session, SESSION_END_SLOW, "the agent does not read what is sent to it");
        return;
    }
    struct write *write = mem_alloc(1, sizeof(*write) + size);
    write->request.data = write;
    write->session = session;
    memcpy(write->data, data, size);
    uv_buf_t buffer = uv_buf_init((char *)write->data, (unsigned int)size);
    int result = uv_write(&write->request, stream, &buffer, 1, write_cb);
    if (result < 0) {
        (void)mem_free(write);
        session_end(session, SESSION_END_NETWORK, uv_strerror(result));
    }
}

void session_send(struct session *session, const uint8_t *frame, size_t size)
{
    if (session->state != STATE_OPEN) {
        return;
    }
    if (session->tls == NULL) {
        put_bytes(session, frame, size);
        return;
    }
    struct err err = {0};
    if (tls_write(session->tls, frame, size, &err) < 0) {
        session_end(session, SESSION_END_NETWORK, err.text);
        return;
    }
    flush_tls(session);
}

/* ---- receiving ----------------------------------------------------------------------------- */

static enum session_end end_of_code(int code)
{
    switch (code) {
    case -EPROTONOSUPPORT:
        return SESSION_END_VERSION;
    case -EMSGSIZE:
        return SESSION_END_TOO_LONG;
    case -EPROTO:
        return SESSION_END_UNEXPECTED;
    case -EACCES:
        return SESSION_END_KEY;
    default:
        return SESSION_END_GARBAGE;
    }
}

/* Decodes one frame and gives the message to the owner. */
static void frame_came(struct session *session, const struct frame *frame)
{
    struct message_pool *pool = session->owner->messages;
    struct message *message = message_pool_take(pool);
    struct err err = {0};
    if (message == NULL) {
        session_end(session, SESSION_END_FULL, "no memory for a message");
        return;
    }
    int result = wire_decode(frame->kind, frame->body, frame->size, message, &err);
    if (result < 0) {
        message->kind = 0; /* nothing was decoded into it */
        message_pool_give(pool, message);
        (void)err_wrap(&err, "%s", message_kind_name(frame->kind));
        session_end(session, SESSION_END_INVALID, err.text);
        return;
    }
    session->has_hello = true;
    session->heard_ms = now_ms();
    session->owner->message(session->owner->context, session, message);
}

/* Bytes that may hold any number of frames, whole or cut. */
static void frames(struct session *session, const uint8_t *data, size_t size)
{
    struct err err = {0};
    while (session->state == STATE_OPEN && !session->holding) {
        struct frame frame;
        int result = frame_reader_take(&session->reader, &data, &size, &frame, &err);
        if (result < 0) {
            session_end(session, end_of_code(result), err.text);
            return;
        }
        uint64_t unknown = session->reader.unknown_count;
        if (unknown > SESSION_UNKNOWN_MAX || (unknown > 0 && !session->has_hello)) {
            session_end(session, SESSION_END_UNEXPECTED, "frames of kinds that nobody knows");
            return;
        }
        if (result == 0) {
            break;
        }
        frame_came(session, &frame);
    }
    if (session->state == STATE_OPEN && session->holding &&
        (session->held.size + size > SESSION_HOLD_MAX || buf_put(&session->held, data, size) < 0)) {
        session_end(session, SESSION_END_UNEXPECTED,
                    "too much was sent before the hello was answered");
        return;
    }
    if (!frame_reader_is_partial(&session->reader)) {
        session->partial_ms = 0;
    } else if (session->partial_ms == 0) {
        session->partial_ms = now_ms();
    }
}

void session_hold(struct session *session)
{
    session->holding = true;
}

void session_release(struct session *session)
{
    if (session->holding && session->state == STATE_OPEN) {
        session->releasing = true;
        (void)uv_idle_start(&session->later, later_cb); /* cannot fail */
    }
}

static void read_held(struct session *session)
{
    if (!session->releasing) {
        return;
    }
    session->releasing = false;
    session->holding = false;
    size_t size = 0;
    char *held = buf_take(&session->held, &size);
    if (size > 0) {
        frames(session, (const uint8_t *)held, size);
    }
    (void)mem_free(held);
}

/* Encrypted bytes: the handshake first, then plain bytes. */
static void encrypted_bytes(struct session *session, const uint8_t *data, size_t size)
{
    struct err err = {0};
    int result = tls_feed(session->tls, data, size, &err);
    if (result == 0) {
        result = tls_advance(session->tls, &err);
    }
    flush_tls(session);
    uint8_t plain[16384]; /* one TLS record */
    while (result == 0 && session->state == STATE_OPEN) {
        result = tls_read(session->tls, plain, sizeof(plain), &err);
        if (result > 0) {
            frames(session, plain, (size_t)result);
            result = 0;
        } else if (result == 0) {
            session_end(session, SESSION_END_PEER, "the agent closed the session");
        }
    }
    if (result < 0 && result != -EAGAIN) {
        session_end(session, end_of_code(result), err.text);
    }
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    const struct session *session = handle->data;
    (void)suggested;
    /* read_cb() follows at once, so that one buffer serves everybody. */
    *ret_buffer = uv_buf_init((char *)session->owner->read_buffer, SESSION_READ_SIZE);
}

static void stream_ended(struct session *session, ssize_t code)
{
    session->eof = true;
    if (session->state == STATE_OVER) {
        bool sent = uv_stream_get_write_queue_size((uv_stream_t *)&session->tcp) == 0;
        if (session->told && (sent || code != UV_EOF)) {
            close_handles(session);
        }
        return;
    }
    if (code != UV_EOF) {
        session_end(session, SESSION_END_NETWORK, uv_strerror((int)code));
    } else if (frame_reader_is_partial(&session->reader)) {
        session_end(session, SESSION_END_HALF_FRAME, "the connection ended inside a frame");
    } else {
        session_end(session, SESSION_END_PEER, "the agent closed the connection");
    }
}

static void read_cb(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct session *session = stream->data;
    const uint8_t *data = (const uint8_t *)buffer->base;
    if (count < 0) {
        stream_ended(session, count);
    } else if (count > 0 && session->state == STATE_OPEN) {
        if (session->tls != NULL) {
            encrypted_bytes(session, data, (size_t)count);
        } else {
            frames(session, data, (size_t)count);
        }
    }
}

void session_sweep(struct session *session, uint64_t now)
{
    if (session->state == STATE_OVER && now - session->over_ms >= SESSION_LINGER_MS) {
        if (session->told) {
            close_handles(session);
        }
        return;
    }
    if (!session->has_hello && now - session->opened_ms >= SESSION_HELLO_MS) {
        session_end(session, SESSION_END_NO_HELLO, "no hello within 10 s");
    } else if (session->partial_ms != 0 && now - session->partial_ms >= SESSION_FRAME_MS) {
        session_end(session, SESSION_END_HALF_FRAME, "a frame was not finished within 10 s");
    }
}

/* ---- making -------------------------------------------------------------------------------- */

static void name_peer(struct session *session)
{
    struct sockaddr_storage address;
    int size = sizeof(address);
    char text[INET6_ADDRSTRLEN] = "?";
    unsigned int port = 0;
    if (uv_tcp_getpeername(&session->tcp, (struct sockaddr *)&address, &size) == 0) {
        if (address.ss_family == AF_INET6) {
            const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
            (void)uv_ip6_name(six, text, sizeof(text)); /* "?" stays */
            port = ntohs(six->sin6_port);
        } else {
            const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
            (void)uv_ip4_name(four, text, sizeof(text)); /* "?" stays */
            port = ntohs(four->sin_port);
        }
    }
    (void)text_format(session->peer, sizeof(session->peer), "%s:%u", text, port); /* fits */
}

/* A peer that vanished must be noticed even when nothing is sent (keepalive) and soon when
 * something is (user timeout). Failing to set one is no reason to refuse the node. */
static void tune_socket(struct session *session)
{
    (void)uv_tcp_nodelay(&session->tcp, 1);
    (void)uv_tcp_keepalive(&session->tcp, 1, KEEPALIVE_S);
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&session->tcp, &fd) == 0) {
        unsigned int timeout = SESSION_USER_TIMEOUT_MS;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
    }
}

static struct session *make(uv_loop_t *uv, uint64_t id, const struct session_owner *owner)
{
    struct session *session = mem_alloc(1, sizeof(*session));
    session->id = id;
    session->owner = owner;
    session->opened_ms = now_ms();
    frame_reader_init(&session->reader, FRAME_FROM_AGENT);
    buf_init(&session->held, SESSION_HOLD_MAX);
    CHECK(uv_tcp_init(uv, &session->tcp) == 0); /* allocates nothing, opens nothing */
    CHECK(uv_idle_init(uv, &session->later) == 0);
    session->tcp.data = session;
    session->later.data = session;
    session->shutdown.data = session;
    session->handles = 2;
    return session;
}

int session_accept(uv_stream_t *listener, uint64_t id, struct tls_key *key,
                   const struct session_owner *owner, struct session **ret_session, struct err *err)
{
    struct session *session = make(listener->loop, id, owner);
    int result = uv_accept(listener, (uv_stream_t *)&session->tcp);
    if (result < 0) {
        (void)err_set(err, result, "accept: %s", uv_strerror(result));
    }
    if (result == 0 && key != NULL) {
        result = tls_create(key, &session->tls, err);
    }
    if (result == 0) {
        name_peer(session);
        tune_socket(session);
        result = uv_read_start((uv_stream_t *)&session->tcp, alloc_cb, read_cb);
        if (result < 0) {
            (void)err_set(err, result, "read: %s", uv_strerror(result));
        }
    }
    if (result < 0) {
        close_handles(session);
        return result;
    }
    session->accepted = true;
    *ret_session = session;
    return 0;
}

uint64_t session_id(const struct session *session)
{
    return session->id;
}

const char *session_peer(const struct session *session)
{
    return session->peer;
}

const char *session_identity(const struct session *session)
{
    return session->tls != NULL ? tls_identity(session->tls) : "";
}

void session_set_owner_data(struct session *session, void *data)
{
    session->owner_data = data;
}

void *session_owner_data(const struct session *session)
{
    return session->owner_data;
}

uint64_t session_heard_ms(const struct session *session)
{
    return session->heard_ms;
}

uint64_t session_unknown_count(const struct session *session)
{
    return session->reader.unknown_count;
}
