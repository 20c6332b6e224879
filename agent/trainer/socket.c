/* socket.c: thin wrappers: every wait is one poll() with the time that is left. */
#include "agent/trainer/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t socket_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

int socket_left_ms(uint64_t deadline_ms)
{
    const uint64_t now_ms = socket_now_ms();
    if (now_ms >= deadline_ms) {
        return 0;
    }
    const uint64_t left_ms = deadline_ms - now_ms;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

int socket_resolve(const char *host, uint16_t port, struct socket_address *ret_address)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &hints, &found) != 0 || found == NULL) {
        return -EHOSTUNREACH;
    }
    *ret_address = (struct socket_address){.size = found->ai_addrlen};
    memcpy(&ret_address->storage, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    socket_set_port(ret_address, port);
    return 0;
}

bool socket_address_ok(const struct socket_address *address)
{
    if (address->storage.ss_family == AF_INET6) {
        return address->size == sizeof(struct sockaddr_in6);
    }
    return address->storage.ss_family == AF_INET && address->size == sizeof(struct sockaddr_in);
}

uint16_t socket_port(const struct socket_address *address)
{
    if (address->storage.ss_family == AF_INET6) {
        return ntohs(((const struct sockaddr_in6 *)&address->storage)->sin6_port);
    }
    return ntohs(((const struct sockaddr_in *)&address->storage)->sin_port);
}

void socket_set_port(struct socket_address *address, uint16_t port)
{
    if (address->storage.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address->storage)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)&address->storage)->sin_port = htons(port);
    }
}

void socket_text(const struct socket_address *address, char *ret_text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    const void *bytes = &((const struct sockaddr_in *)&address->storage)->sin_addr;
    if (address->storage.ss_family == AF_INET6) {
        bytes = &((const struct sockaddr_in6 *)&address->storage)->sin6_addr;
    }
    (void)inet_ntop(address->storage.ss_family, bytes, host, sizeof(host)); /* else it stays ? */
    (void)snprintf(ret_text, size, "%s:%u", host, socket_port(address));    /* a cut text will do */
}

static int bind_and_listen(int fd, const struct socket_address *address, int backlog)
{
    const int one = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0) {
        return -errno;
    }
    if (bind(fd, (const struct sockaddr *)&address->storage, address->size) != 0) {
        struct socket_address any = *address;
        if (errno != EADDRNOTAVAIL) {
            return -errno;
        }
        if (any.storage.ss_family == AF_INET6) {
            ((struct sockaddr_in6 *)&any.storage)->sin6_addr = in6addr_any;
        } else {
            ((struct sockaddr_in *)&any.storage)->sin_addr.s_addr = htonl(INADDR_ANY);
        }
        if (bind(fd, (const struct sockaddr *)&any.storage, any.size) != 0) {
            return -errno;
        }
    }
    return listen(fd, backlog) == 0 ? 0 : -errno;
}

int socket_listen(const struct socket_address *address, int backlog, int *ret_fd)
{
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    const int code = bind_and_listen(fd, address, backlog);
    if (code < 0) {
        socket_close(&fd);
        return code;
    }
    *ret_fd = fd;
    return 0;
}

static int connect_result(int fd, uint64_t deadline_ms)
{
    int code = socket_wait(fd, POLLOUT, deadline_ms);
    if (code < 0) {
        return code;
    }
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        return -errno;
    }
    return -error;
}

/* Calling a port that nobody listens on may, by chance, be given that port as its own: TCP then
 * connects the socket with itself. */
static bool is_own_echo(int fd)
{
    struct socket_address own = {.size = sizeof(own.storage)};
    struct socket_address peer = {.size = sizeof(peer.storage)};
    return getsockname(fd, (struct sockaddr *)&own.storage, &own.size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer.storage, &peer.size) == 0 &&
           own.size == peer.size && memcmp(&own.storage, &peer.storage, own.size) == 0;
}

int socket_connect(const struct socket_address *address, uint64_t deadline_ms, int *ret_fd)
{
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int code = 0;
    if (connect(fd, (const struct sockaddr *)&address->storage, address->size) != 0) {
        code = errno == EINPROGRESS ? connect_result(fd, deadline_ms) : -errno;
    }
    if (code == 0 && is_own_echo(fd)) {
        /* At once and without a trace: whoever wants to listen there needs the port. */
        const struct linger none = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        code = -ECONNREFUSED;
    }
    if (code < 0) {
        socket_close(&fd);
        return code;
    }
    *ret_fd = fd;
    return 0;
}

int socket_tune(int fd)
{
    const int one = 1;
    const int idle_s = 10;
    const int interval_s = 5;
    /* Long: a stopped peer with a full window must not look like a dead one. */
    const unsigned int user_timeout_ms = 60000;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms)) !=
            0) {
        return -errno;
    }
    return 0;
}

int socket_wait(int fd, short events, uint64_t deadline_ms)
{
    struct pollfd one = {.fd = fd, .events = events};
    for (;;) {
        const int ready = poll(&one, 1, socket_left_ms(deadline_ms));
        if (ready > 0) {
            return 0;
        }
        if (ready == 0) {
            return -ETIMEDOUT;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

static bool try_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int socket_send_all(int fd, const void *data, size_t size, uint64_t deadline_ms)
{
    const char *from = data;
    while (size > 0) {
        const ssize_t sent = send(fd, from, size, MSG_NOSIGNAL);
        if (sent > 0) {
            from += sent;
            size -= (size_t)sent;
            continue;
        }
        if (!try_later(errno)) {
            return errno == EPIPE ? -ECONNRESET : -errno;
        }
        const int code = socket_wait(fd, POLLOUT, deadline_ms);
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

int socket_receive_all(int fd, void *ret_data, size_t size, uint64_t deadline_ms)
{
    char *to = ret_data;
    while (size > 0) {
        const ssize_t got = recv(fd, to, size, 0);
        if (got > 0) {
            to += got;
            size -= (size_t)got;
            continue;
        }
        if (got == 0) {
            return -ECONNRESET;
        }
        if (!try_later(errno)) {
            return -errno;
        }
        const int code = socket_wait(fd, POLLIN, deadline_ms);
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

void socket_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* nothing was written that a failed close could lose */
    }
    *fd = -1;
}
