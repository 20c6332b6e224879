/* swarm_link.c: the connection of one agent: a socket in the loop, TLS on it where there is a key.
 *
 *   dial -> connect -> (TLS handshake) -> LINK_UP -> frames -> LINK_DOWN, or closed without a word
 *
 * What may go wrong (always one LINK_DOWN with the reason): refused, no TLS or a wrong key, garbage,
 * closed by the controller, more than QUEUE_MAX bytes that it does not take. Each agent dials from
 * an address of its own, so that 12,900 connections do not share one host's ports. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/tools/swarm.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/wire.h"

#define TLS_PRIORITY                                                                               \
    "NONE:+VERS-TLS1.3:+AEAD:+CIPHER-ALL:+GROUP-ALL:+SIGN-ALL:+ECDHE-PSK:+DHE-PSK:%NO_TICKETS"

enum { QUEUE_MAX = 4 << 20, READ_SIZE = 16 << 10, READS_IN_TURN = 4, KEY_FILE_MAX = 512 };

enum connection_step { CONNECTING, SHAKING, OPEN, CLOSED };

struct swarm_connection {
    uv_poll_t poll;
    int fd;
    int events; /* that the poll waits for */
    bool deaf;
    enum connection_step step;
    struct swarm_agent *agent;
    gnutls_session_t tls; /* NULL: plain */
    gnutls_psk_client_credentials_t credentials;
    struct frame_reader reader;
    struct buf out;
};

struct swarm_tls {
    gnutls_datum_t secret;
    gnutls_priority_t priority;
};

/* ---- the key ------------------------------------------------------------------------------- */

static int read_key(const char *path, char text[KEY_FILE_MAX], size_t *ret_size, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno, "key file '%s': %s", path, strerror(errno));
    }
    ssize_t size = read(fd, text, KEY_FILE_MAX - 1);
    (void)close(fd); /* opened for reading */
    if (size <= 0) {
        return err_set(err, -EINVAL, "key file '%s' is empty or cannot be read", path);
    }
    *ret_size = strcspn(text, "\r\n ");
    return 0;
}

int tls_create(const char *key_file, struct swarm_tls **ret_tls, struct err *err)
{
    char text[KEY_FILE_MAX] = "";
    size_t size = 0;
    int result = read_key(key_file, text, &size, err);
    if (result < 0) {
        return result;
    }
    struct swarm_tls *tls = mem_alloc(1, sizeof(*tls));
    const gnutls_datum_t source = {(unsigned char *)text, (unsigned int)size};
    if (gnutls_hex_decode2(&source, &tls->secret) != GNUTLS_E_SUCCESS &&
        gnutls_base64_decode2(&source, &tls->secret) != GNUTLS_E_SUCCESS) {
        (void)mem_free(tls);
        return err_set(err, -EINVAL, "key file '%s' holds no key in hex or base64", key_file);
    }
    CHECK(gnutls_priority_init(&tls->priority, TLS_PRIORITY, NULL) == GNUTLS_E_SUCCESS);
    *ret_tls = tls;
    return 0;
}

struct swarm_tls *tls_destroy(struct swarm_tls *tls)
{
    if (tls == NULL) {
        return NULL;
    }
    gnutls_free(tls->secret.data);
    gnutls_priority_deinit(tls->priority);
    return mem_free(tls);
}

static void begin_tls(struct swarm_connection *connection)
{
    const struct swarm_tls *tls = connection->agent->swarm->tls;
    int code = gnutls_init(&connection->tls,
                           GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS);
    CHECK(code == GNUTLS_E_SUCCESS);
    code = gnutls_psk_allocate_client_credentials(&connection->credentials);
    CHECK(code == GNUTLS_E_SUCCESS);
    code = gnutls_psk_set_client_credentials(connection->credentials, connection->agent->name,
                                             &tls->secret, GNUTLS_PSK_KEY_RAW);
    CHECK(code == GNUTLS_E_SUCCESS);
    code = gnutls_priority_set(connection->tls, tls->priority);
    CHECK(code == GNUTLS_E_SUCCESS);
    code = gnutls_credentials_set(connection->tls, GNUTLS_CRD_PSK, connection->credentials);
    CHECK(code == GNUTLS_E_SUCCESS);
    gnutls_transport_set_int(connection->tls, connection->fd);
    gnutls_handshake_set_timeout(connection->tls, 0); /* the core has the deadline */
}

/* ---- the end ------------------------------------------------------------------------------- */

static void closed_cb(uv_handle_t *handle)
{
    struct swarm_connection *connection = handle->data;
    if (connection->tls != NULL) {
        gnutls_deinit(connection->tls);
        gnutls_psk_free_client_credentials(connection->credentials);
    }
    frame_reader_done(&connection->reader);
    buf_done(&connection->out);
    (void)mem_free(connection);
}

static void dialled(struct swarm_connection *connection)
{
    if (connection->step == CONNECTING || connection->step == SHAKING) {
        connection->agent->swarm->dialing--;
    }
}

void connection_close(struct swarm_agent *agent)
{
    struct swarm_connection *connection = agent->connection;
    if (connection == NULL) {
        return;
    }
    dialled(connection);
    connection->step = CLOSED;
    agent->connection = NULL;
    (void)uv_poll_stop(&connection->poll); /* cannot fail */
    (void)close(connection->fd);           /* what was not sent is lost, as it may be */
    uv_close((uv_handle_t *)&connection->poll, closed_cb);
}

static void down(struct swarm_connection *connection, const char *why)
{
    struct swarm_agent *agent = connection->agent;
    char text[ERR_TEXT_SIZE];
    (void)text_copy(text, sizeof(text), why); /* cut is fine */
    if (connection->step == OPEN) {
        agent->swarm->figures.downs++;
    }
    connection_close(agent);
    struct agent_event event = {.kind = AGENT_EVENT_LINK_DOWN, .text = text};
    agent_feed(agent, &event);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void poll_cb(uv_poll_t *poll, int status, int events);

static void wait_for(struct swarm_connection *connection)
{
    bool shaking_out =
        connection->step == SHAKING && gnutls_record_get_direction(connection->tls) == 1;
    bool write = connection->step == CONNECTING || shaking_out ||
                 (connection->step == OPEN && connection->out.size > 0);
    int events = (connection->deaf ? 0 : UV_READABLE) | (write ? UV_WRITABLE : 0);
    if (events != connection->events) {
        connection->events = events;
        CHECK(uv_poll_start(&connection->poll, events, poll_cb) == 0);
    }
}

/* Sends what the kernel takes. -errno when the connection is broken. */
static int flush(struct swarm_connection *connection)
{
    struct buf *out = &connection->out;
    while (out->size > 0) {
        ssize_t sent = 0;
        if (connection->tls != NULL) {
            sent = gnutls_record_send(connection->tls, out->data, out->size);
            if (sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED) {
                return 0;
            }
        } else {
            sent = send(connection->fd, out->data, out->size, MSG_NOSIGNAL);
            if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
                return 0;
            }
        }
        if (sent <= 0) {
            return -EPIPE;
        }
        buf_consume(out, (size_t)sent);
    }
    return 0;
}

void connection_send(struct swarm_agent *agent, const struct message *message)
{
    struct swarm_connection *connection = agent->connection;
    struct buf *frame = agent->swarm->frame;
    struct err err = {0};
    if (connection == NULL || connection->step != OPEN) {
        return;
    }
    buf_clear(frame);
    int result = wire_encode(message, frame, &err);
    CHECK(result == 0); /* what the core says always fits */
    agent->swarm->figures.frames_out++;
    if (buf_put(&connection->out, frame->data, frame->size) < 0 || flush(connection) < 0) {
        agent_queue(agent, &(struct swarm_input){.kind = AGENT_EVENT_LINK_DOWN});
        return;
    }
    wait_for(connection);
}

void connection_listen(struct swarm_agent *agent, bool on)
{
    if (agent->connection != NULL) {
        agent->connection->deaf = !on;
        wait_for(agent->connection);
    }
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* Frames out of plain bytes; stops when a message made the agent hang up. */
static int take_bytes(struct swarm_connection *connection, const uint8_t *data, size_t size,
                      struct err *err)
{
    struct swarm_agent *agent = connection->agent;
    struct message *message = agent->swarm->message;
    struct frame frame;
    while (connection->step == OPEN) {
        int result = frame_reader_take(&connection->reader, &data, &size, &frame, err);
        if (result <= 0) {
            return result;
        }
        result = wire_decode(frame.kind, frame.body, frame.size, message, err);
        if (result < 0) {
            return result;
        }
        agent->swarm->figures.frames_in++;
        struct agent_event event = {.kind = AGENT_EVENT_MESSAGE, .message = message};
        agent_feed(agent, &event);
        message_done(message);
    }
    return 0;
}

static void receive(struct swarm_connection *connection)
{
    static uint8_t bytes[READ_SIZE];
    struct err err = {0};
    for (int turn = 0; turn < READS_IN_TURN && connection->step == OPEN; turn++) {
        ssize_t size = 0;
        bool again = false;
        if (connection->tls != NULL) {
            size = gnutls_record_recv(connection->tls, bytes, sizeof(bytes));
            again = size == GNUTLS_E_AGAIN || size == GNUTLS_E_INTERRUPTED;
        } else {
            size = recv(connection->fd, bytes, sizeof(bytes), 0);
            again = size < 0 && (errno == EAGAIN || errno == EINTR);
        }
        if (again) {
            return;
        }
        if (size <= 0) {
            down(connection, size == 0 ? "closed by the controller" : "the connection broke");
            return;
        }
        if (take_bytes(connection, bytes, (size_t)size, &err) < 0) {
            down(connection, err.text);
            return;
        }
        /* TLS may have more in its own buffer, which no poll will tell of. */
        if (connection->step == OPEN && connection->tls == NULL && size < (ssize_t)sizeof(bytes)) {
            return;
        }
    }
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void went_up(struct swarm_connection *connection)
{
    dialled(connection);
    connection->step = OPEN;
    wait_for(connection);
    struct agent_event event = {.kind = AGENT_EVENT_LINK_UP};
    agent_feed(connection->agent, &event);
}

static void shake(struct swarm_connection *connection)
{
    int code = gnutls_handshake(connection->tls);
    if (code == GNUTLS_E_SUCCESS) {
        went_up(connection);
    } else if (gnutls_error_is_fatal(code) != 0) {
        down(connection, gnutls_strerror(code));
    } else {
        wait_for(connection);
    }
}

static void connected(struct swarm_connection *connection)
{
    int code = 0;
    socklen_t size = sizeof(code);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0 || code != 0) {
        down(connection, strerror(code != 0 ? code : errno));
        return;
    }
    if (connection->agent->swarm->tls == NULL) {
        went_up(connection);
        return;
    }
    connection->step = SHAKING;
    begin_tls(connection);
    shake(connection);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct swarm_connection *connection = poll->data;
    if (status < 0) {
        down(connection, uv_strerror(status));
        return;
    }
    switch (connection->step) {
    case CONNECTING:
        connected(connection);
        return;
    case SHAKING:
        shake(connection);
        return;
    case OPEN:
        if ((events & UV_WRITABLE) != 0) {
            if (flush(connection) < 0) {
                down(connection, "the controller does not take what is sent");
                return;
            }
            wait_for(connection);
        }
        if ((events & UV_READABLE) != 0) {
            receive(connection);
        }
        return;
    case CLOSED:
        return;
    }
}

/* A socket from the agent's own address whose connect is under way; -errno. */
static int open_socket(const struct swarm_agent *agent)
{
    const int one = 1;
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(agent_address(agent))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)); /* saves ports */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
                     sizeof(one)); /* slower without, not wrong */
    bool ok = bind(fd, (const struct sockaddr *)&from, sizeof(from)) == 0;
    const struct sockaddr_in *to = &agent->swarm->options.controller;
    ok = ok && (connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0 || errno == EINPROGRESS);
    if (!ok) {
        int code = -errno;
        (void)close(fd);
        return code;
    }
    return fd;
}

void connection_dial(struct swarm_agent *agent)
{
    CHECK(agent->connection == NULL);
    int fd = open_socket(agent);
    if (fd < 0) {
        agent_queue(agent, &(struct swarm_input){.kind = AGENT_EVENT_LINK_DOWN});
        return;
    }
    struct swarm_connection *connection = mem_alloc(1, sizeof(*connection));
    connection->fd = fd;
    connection->agent = agent;
    connection->step = CONNECTING;
    connection->poll.data = connection;
    frame_reader_init(&connection->reader, FRAME_FROM_CONTROLLER);
    buf_init(&connection->out, QUEUE_MAX);
    CHECK(uv_poll_init(&agent->swarm->loop, &connection->poll, fd) == 0);
    agent->connection = connection;
    agent->swarm->dialing++;
    wait_for(connection);
}
