/* server.c: see server.h. */
#include "agent/shim/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SERVER_BACKLOG = 16 };

int server_open(struct server *server, int dir_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(server, 0, sizeof(*server));
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        server->clients[i].fd = -1;
    }
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SHIM_FILE_SOCK,
                   dir_fd);                    /* fits */
    (void)unlinkat(dir_fd, SHIM_FILE_SOCK, 0); /* of a shim that died: we hold the lock */
    server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listen_fd < 0) {
        return -errno;
    }
    if (bind(server->listen_fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(server->listen_fd, SERVER_BACKLOG) != 0) {
        int result = -errno;
        (void)close(server->listen_fd); /* never used */
        server->listen_fd = -1;
        return result;
    }
    return 0;
}

static void client_drop(struct server_client *client)
{
    if (client->fd >= 0) {
        (void)close(client->fd); /* what it did not read it asks for again */
    }
    client->fd = -1;
}

void server_close(struct server *server, int dir_fd)
{
    /* The name first: whoever finds none reads the records. */
    (void)unlinkat(dir_fd, SHIM_FILE_SOCK, 0);
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        client_drop(&server->clients[i]);
    }
    if (server->listen_fd >= 0) {
        (void)close(server->listen_fd); /* no data of its own */
    }
    server->listen_fd = -1;
}

static bool peer_is_ours(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

void server_accept(struct server *server)
{
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return; /* gone meanwhile, or no descriptors: the next event tries again */
    }
    if (!peer_is_ours(fd)) {
        (void)close(fd); /* nothing was said */
        return;
    }
    struct server_client *place = &server->clients[0];
    for (uint32_t i = 1; i < SERVER_CLIENTS_MAX && place->fd >= 0; i++) {
        struct server_client *client = &server->clients[i];
        if (client->fd < 0 || client->number < place->number) {
            place = client;
        }
    }
    client_drop(place);
    *place = (struct server_client){.fd = fd, .number = ++server->accepted};
}

int server_read(struct server_client *client, struct shim_request *ret_request)
{
    while (client->fd >= 0 && client->filled < sizeof(client->bytes)) {
        ssize_t got = recv(client->fd, client->bytes + client->filled,
                           sizeof(client->bytes) - client->filled, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return 0;
        }
        if (got <= 0) {
            client_drop(client);
            return 0;
        }
        client->filled += (uint32_t)got;
    }
    if (client->fd < 0) {
        return 0;
    }
    client->filled = 0;
    memcpy(ret_request, client->bytes, sizeof(*ret_request));
    if (ret_request->magic != SHIM_WIRE_MAGIC) {
        client_drop(client);
        return 0;
    }
    return 1;
}

void server_send(struct server_client *client, const struct shim_status *status, uint64_t nonce,
                 int32_t error)
{
    struct shim_status frame = *status;
    if (client->fd < 0) {
        return;
    }
    frame.nonce = nonce;
    frame.error = error;
    ssize_t sent = send(client->fd, &frame, sizeof(frame), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != (ssize_t)sizeof(frame)) {
        client_drop(client);
    }
}

void server_publish(struct server *server, const struct shim_status *status)
{
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        if (server->clients[i].subscribed) {
            server_send(&server->clients[i], status, 0, 0);
        }
    }
}
