/* socket.h: the few socket operations that the trainer needs, each with a deadline.
 *
 * Deadlines are values of socket_now_ms() (monotonic). All sockets are non-blocking and closed in
 * programs that a rank may start. Results are 0 or -errno; -ETIMEDOUT is the deadline. */
#ifndef KEEPSTEP_TRAINER_SOCKET_H
#define KEEPSTEP_TRAINER_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "agent/trainer/fail.h"

/* One numeric address, IPv4 or IPv6. */
struct socket_address {
    struct sockaddr_storage storage;
    socklen_t size;
};

uint64_t socket_now_ms(void);
/* Milliseconds until the deadline, in what poll() takes; 0 when it has passed. */
int socket_left_ms(uint64_t deadline_ms);

/* The first address of a name or number. -EHOSTUNREACH when it has none. */
MUST_CHECK int socket_resolve(const char *host, uint16_t port, struct socket_address *ret_address);
/* False for an address from elsewhere that no call below could use. */
bool socket_address_ok(const struct socket_address *address);
uint16_t socket_port(const struct socket_address *address);
void socket_set_port(struct socket_address *address, uint16_t port);
/* Writes "address:port" for people. */
void socket_text(const struct socket_address *address, char *ret_text, size_t size);

/* The caller closes *ret_fd. socket_listen falls back to all addresses of the family when the
 * wished one is not of this machine. */
MUST_CHECK int socket_listen(const struct socket_address *address, int backlog, int *ret_fd);
MUST_CHECK int socket_connect(const struct socket_address *address, uint64_t deadline_ms,
                              int *ret_fd);
/* Small messages at once, and a dead host noticed within a minute. */
MUST_CHECK int socket_tune(int fd);

MUST_CHECK int socket_wait(int fd, short events, uint64_t deadline_ms);
MUST_CHECK int socket_send_all(int fd, const void *data, size_t size, uint64_t deadline_ms);
/* -ECONNRESET when the other side closes before size bytes came. */
MUST_CHECK int socket_receive_all(int fd, void *ret_data, size_t size, uint64_t deadline_ms);

/* Closes *fd when it is one, and sets it to -1. */
void socket_close(int *fd);

#endif
