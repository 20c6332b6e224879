/* link.c: one connection at a time. Each is an object of its own that lives until its handle is
 * closed, so that a late callback of an old one can be told from the present one by its pointer. */
#include "agent/io/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/io/driver.h"
#include "agent/io/specs.h"
#include "agent/io/tls_client.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/wire.h"

enum { LINK_FINISH_MS = 1000 };

struct connection {
    struct agent_link_io *link; /* NULL: given up, its callbacks do nothing */
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_getaddrinfo_t resolve;
    bool resolving;
    bool closed; /* the handle's memory may go once resolving has ended too */
    bool up;
    struct tls_client *tls; /* NULL without */
    struct frame_reader reader;
    size_t queued; /* bytes in unfinished writes */
    char failure[ERR_TEXT_SIZE];
    uint8_t bytes[LINK_READ_SIZE];
};

struct write {
    uv_write_t request;
    struct connection *connection;
    size_t size;
    uint8_t bytes[];
};

struct agent_link_io {
    struct agent_io *io;
    struct tls_client_key *key;
    struct connection *connection; /* the present one or NULL */
    uv_timer_t finish;
    bool finishing;
    bool finished;
    struct buf frame; /* scratch */
};

/* ---- ends ---------------------------------------------------------------------------------------- */

static void maybe_free(struct connection *connection)
{
    if (connection->closed && !connection->resolving) {
        frame_reader_done(&connection->reader);
        (void)tls_client_free(connection->tls);
        mem_free(connection);
    }
}

static void closed_cb(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    connection->closed = true;
    maybe_free(connection);
}

static void give_up(struct connection *connection)
{
    if (connection->link != NULL) {
        connection->link->connection = NULL;
        connection->link = NULL;
        if (connection->resolving) {
            (void)uv_cancel((uv_req_t *)&connection->resolve); /* too late: its callback comes */
        }
        uv_close((uv_handle_t *)&connection->tcp, closed_cb);
    }
}

static void down(struct connection *connection, const char *why)
{
    struct agent_link_io *link = connection->link;
    if (link == NULL) {
        return;
    }
    char text[ERR_TEXT_SIZE];
    (void)text_copy(text, sizeof(text), why);
    give_up(connection);
    struct agent_event event = {.kind = AGENT_EVENT_LINK_DOWN, .text = text};
    driver_step(link->io->driver, &event);
}

/* For failures found while an action is carried out. */
static void down_later_cb(void *context)
{
    struct agent_link_io *link = context;
    if (link->connection != NULL && link->connection->failure[0] != '\0') {
        down(link->connection, link->connection->failure);
    }
}

static void down_later(struct connection *connection, const char *why)
{
    if (connection->failure[0] == '\0') {
        (void)text_copy(connection->failure, sizeof(connection->failure), why);
        driver_defer(connection->link->io->driver, down_later_cb, connection->link);
    }
}

/* ---- out ------------------------------------------------------------------------------------------ */

static void written_cb(uv_write_t *request, int status)
{
    struct write *write = request->data;
    struct connection *connection = write->connection;
    connection->queued -= write->size;
    mem_free(write);
    if (status != 0 && connection->link != NULL) {
        down(connection, uv_strerror(status));
        return;
    }
    struct agent_link_io *link = connection->link;
    if (link != NULL && link->finishing && connection->queued == 0) {
        give_up(connection);
        link->finished = true;
    }
}

static int put_out(struct connection *connection, const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (connection->queued + size > LINK_QUEUE_MAX) {
        return -EMSGSIZE;
    }
    struct write *write = mem_alloc(1, sizeof(*write) + size);
    write->connection = connection;
    write->size = size;
    write->request.data = write;
    memcpy(write->bytes, data, size);
    const uv_buf_t buffer = uv_buf_init((char *)write->bytes, (unsigned int)size);
    const int r =
        uv_write(&write->request, (uv_stream_t *)&connection->tcp, &buffer, 1, written_cb);
    if (r != 0) {
        mem_free(write);
        return r;
    }
    connection->queued += size;
    return 0;
}

static int flush_tls(struct connection *connection)
{
    struct buf *output = tls_client_output(connection->tls);
    const int r = put_out(connection, output->data, output->size);
    buf_clear(output);
    return r;
}

static int send_bytes(struct connection *connection, const uint8_t *data, size_t size,
                      struct err *err)
{
    int r = 0;
    if (connection->tls == NULL) {
        r = put_out(connection, data, size);
    } else {
        r = tls_client_write(connection->tls, data, size, err);
        if (r != 0) {
            return r;
        }
        r = flush_tls(connection);
    }
    return r == 0 ? 0 : err_set(err, r, "the controller does not take what is sent");
}

void link_send(struct agent_link_io *link, const struct message *message)
{
    struct connection *connection = link->connection;
    if (connection == NULL || !connection->up || connection->failure[0] != '\0') {
        return;
    }
    struct err err = {0};
    buf_clear(&link->frame);
    int r = wire_encode(message, &link->frame, &err);
    if (r != 0) {
        log_line(LOG_ERROR, "encode-failed", "a message was not sent, ignoring", "kind",
                 message_kind_name(message->kind), "error", err.text, NULL);
        return;
    }
    r = send_bytes(connection, link->frame.data, link->frame.size, &err);
    if (r != 0) {
        down_later(connection, err.text);
    }
}

/* ---- in ------------------------------------------------------------------------------------------- */

static void keep_spec(struct agent_link_io *link, const struct message *message)
{
    if (message->kind == MSG_DESIRED && message->u.desired.spec_size > 0) {
        specs_put(link->io->specs, message->u.desired.job, message->u.desired.spec_revision,
                  message->u.desired.spec, message->u.desired.spec_size);
    } else if (message->kind == MSG_CHECK && message->u.check.spec_size > 0) {
        specs_put(link->io->specs, message->u.check.job, 0, message->u.check.spec,
                  message->u.check.spec_size);
    } else if (message->kind == MSG_SAVE_ASK && message->u.save_ask.spec_size > 0) {
        specs_put(link->io->specs, message->u.save_ask.job, 0, message->u.save_ask.spec,
                  message->u.save_ask.spec_size);
    }
}

/* Frames out of plain bytes; stops when a message made the core hang up. */
static int take_bytes(struct connection *connection, const uint8_t *data, size_t size,
                      struct err *err)
{
    struct frame frame;
    while (connection->link != NULL) {
        int r = frame_reader_take(&connection->reader, &data, &size, &frame, err);
        if (r <= 0) {
            return r;
        }
        struct message *message = mem_alloc(1, sizeof(*message));
        r = wire_decode(frame.kind, frame.body, frame.size, message, err);
        if (r == 0) {
            keep_spec(connection->link, message);
            struct agent_event event = {.kind = AGENT_EVENT_MESSAGE, .message = message};
            driver_step(connection->link->io->driver, &event);
            message_done(message);
        }
        mem_free(message);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static void went_up(struct connection *connection)
{
    connection->up = true;
    struct agent_event event = {.kind = AGENT_EVENT_LINK_UP};
    driver_step(connection->link->io->driver, &event);
}

static int take_tls(struct connection *connection, const uint8_t *data, size_t size,
                    struct err *err)
{
    int r = tls_client_feed(connection->tls, data, size, err);
    const int sent = flush_tls(connection);
    if (r != 0 || sent != 0) {
        return r != 0 ? r : err_set(err, sent, "the controller does not take what is sent");
    }
    if (!connection->up && tls_client_ready(connection->tls)) {
        went_up(connection);
    }
    uint8_t plain[4096];
    while (connection->link != NULL) {
        const int count = tls_client_read(connection->tls, plain, sizeof(plain), err);
        if (count == -EAGAIN) {
            return 0;
        }
        if (count <= 0) {
            return count < 0 ? count : err_set(err, -ECONNRESET, "closed by the controller");
        }
        r = take_bytes(connection, plain, (size_t)count, err);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct connection *connection = handle->data;
    (void)suggested; /* one buffer for a connection is enough */
    *buffer = uv_buf_init((char *)connection->bytes, sizeof(connection->bytes));
}

static void read_cb(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    struct err err = {0};
    if (connection->link == NULL || count == 0) {
        return;
    }
    if (count < 0) {
        down(connection, count == UV_EOF ? "closed by the controller" : uv_strerror((int)count));
        return;
    }
    const uint8_t *data = (const uint8_t *)buffer->base;
    const int r = connection->tls != NULL ? take_tls(connection, data, (size_t)count, &err)
                                          : take_bytes(connection, data, (size_t)count, &err);
    if (r != 0) {
        down(connection, err.text);
    }
}

/* ---- connecting ------------------------------------------------------------------------------------ */

static void set_socket_options(struct connection *connection)
{
    const unsigned int timeout_ms = LINK_USER_TIMEOUT_MS;
    uv_os_fd_t fd = -1;
    (void)uv_tcp_nodelay(&connection->tcp, 1);       /* slower without it, not wrong */
    (void)uv_tcp_keepalive(&connection->tcp, 1, 10); /* the core has its own deadline */
    if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    }
}

static void connected_cb(uv_connect_t *request, int status)
{
    struct connection *connection = request->data;
    struct err err = {0};
    if (connection->link == NULL) {
        return;
    }
    if (status != 0) {
        down(connection, uv_strerror(status));
        return;
    }
    set_socket_options(connection);
    int r = uv_read_start((uv_stream_t *)&connection->tcp, alloc_cb, read_cb);
    if (r != 0) {
        down(connection, uv_strerror(r));
        return;
    }
    if (connection->link->key == NULL) {
        went_up(connection);
        return;
    }
    r = tls_client_create(connection->link->key, &connection->tls, &err);
    r = r == 0 ? take_tls(connection, NULL, 0, &err) : r;
    if (r != 0) {
        down(connection, err.text);
    }
}

static void resolved_cb(uv_getaddrinfo_t *request, int status, struct addrinfo *result)
{
    struct connection *connection = request->data;
    connection->resolving = false;
    if (connection->link == NULL) {
        uv_freeaddrinfo(result);
        maybe_free(connection);
        return;
    }
    int r = status;
    if (r == 0) {
        connection->connect.data = connection;
        r = uv_tcp_connect(&connection->connect, &connection->tcp, result->ai_addr, connected_cb);
    }
    uv_freeaddrinfo(result);
    if (r != 0) {
        down(connection, uv_strerror(r));
    }
}

void link_dial(struct agent_link_io *link)
{
    if (link->connection != NULL || link->io->closing) {
        return;
    }
    struct connection *connection = mem_alloc(1, sizeof(*connection));
    connection->link = link;
    link->connection = connection;
    frame_reader_init(&connection->reader, FRAME_FROM_CONTROLLER);
    int r = uv_tcp_init(link->io->loop, &connection->tcp);
    CHECK(r == 0);
    connection->tcp.data = connection;
    char port[8];
    (void)text_format(port, sizeof(port), "%u", link->io->options->controller_port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    connection->resolve.data = connection;
    r = uv_getaddrinfo(link->io->loop, &connection->resolve, resolved_cb,
                       link->io->options->controller_host, port, &hints);
    connection->resolving = r == 0;
    if (r != 0) {
        down_later(connection, uv_strerror(r));
    }
}

void link_hang_up(struct agent_link_io *link)
{
    if (link->connection != NULL) {
        give_up(link->connection);
    }
}

/* ---- life ------------------------------------------------------------------------------------------- */

static void finish_cb(uv_timer_t *timer)
{
    struct agent_link_io *link = timer->data;
    link_hang_up(link);
    link->finished = true;
}

void link_finish(struct agent_link_io *link)
{
    link->finishing = true;
    if (link->connection == NULL || link->connection->queued == 0) {
        link_hang_up(link);
        link->finished = true;
        return;
    }
    const int r = uv_timer_start(&link->finish, finish_cb, LINK_FINISH_MS, 0);
    CHECK(r == 0);
}

bool link_is_finished(const struct agent_link_io *link)
{
    return link->finished;
}

int link_create(struct agent_io *io, struct agent_link_io **ret_link, struct err *err)
{
    struct agent_link_io *link = mem_alloc(1, sizeof(*link));
    link->io = io;
    if (io->options->key_file[0] != '\0') {
        const int r =
            tls_client_key_load(io->options->key_file, io->options->node, &link->key, err);
        if (r != 0) {
            mem_free(link);
            return r;
        }
    }
    const int r = uv_timer_init(io->loop, &link->finish);
    CHECK(r == 0);
    link->finish.data = link;
    buf_init(&link->frame, FRAME_SIZE_MAX);
    *ret_link = link;
    return 0;
}

void link_close(struct agent_link_io *link)
{
    link_hang_up(link);
    uv_close((uv_handle_t *)&link->finish, NULL);
}

struct agent_link_io *link_free(struct agent_link_io *link)
{
    if (link == NULL) {
        return NULL;
    }
    (void)tls_client_key_free(link->key);
    buf_done(&link->frame);
    return mem_free(link);
}
