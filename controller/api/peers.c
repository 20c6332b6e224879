/* peers.c: every open connection, and since when it owes us something: a head, a body. One that
 * drips a byte now and then would hold its place for ever; it is cut off instead. */
#include <sys/socket.h>

#include "controller/api/internal.h"
#include "proto/base/mem.h"

enum peer_state { PEER_HEAD, PEER_BODY, PEER_SERVED };

struct peer {
    struct peer *next;
    struct peer *previous;
    int fd;
    uint8_t state;
    uint64_t since_ms;
};

static struct peer *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void set_state(struct MHD_Connection *connection, uint8_t state)
{
    struct peer *peer = peer_of(connection);
    if (peer != NULL) {
        peer->state = state;
        peer->since_ms = loop_now_ms();
    }
}

static void link_peer(struct api *api, struct MHD_Connection *connection, void **socket_context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct peer *peer = mem_alloc(1, sizeof *peer);
    peer->fd = info != NULL ? info->connect_fd : -1;
    peer->since_ms = loop_now_ms();
    peer->next = api->peers;
    if (peer->next != NULL) {
        peer->next->previous = peer;
    }
    api->peers = peer;
    *socket_context = peer;
}

static void unlink_peer(struct api *api, struct peer *peer)
{
    if (peer->previous != NULL) {
        peer->previous->next = peer->next;
    } else {
        api->peers = peer->next;
    }
    if (peer->next != NULL) {
        peer->next->previous = peer->previous;
    }
    mem_free(peer);
}

void peers_notify_cb(void *context, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code)
{
    struct daemon *daemon = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        link_peer(daemon->api, connection, socket_context);
    } else if (*socket_context != NULL) {
        unlink_peer(daemon->api, *socket_context);
        *socket_context = NULL;
    }
}

void peers_head_read(struct MHD_Connection *connection)
{
    set_state(connection, PEER_BODY);
}

void peers_request_read(struct MHD_Connection *connection)
{
    set_state(connection, PEER_SERVED);
}

void peers_request_done(struct MHD_Connection *connection)
{
    set_state(connection, PEER_HEAD);
}

void peers_tick(struct api *api)
{
    uint64_t now = loop_now_ms();
    for (struct peer *peer = api->peers; peer != NULL; peer = peer->next) {
        uint64_t limit = peer->state == PEER_HEAD ? HTTP_HEAD_MS : HTTP_BODY_MS;
        if (peer->state != PEER_SERVED && now - peer->since_ms >= limit) {
            (void)shutdown(peer->fd, SHUT_RDWR); /* gone already: all the better */
        }
    }
}
