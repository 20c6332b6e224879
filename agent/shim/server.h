/* server.h: the shim's socket: a few clients, fixed frames, never a wait. */
#ifndef KEEPSTEP_SHIM_SERVER_H
#define KEEPSTEP_SHIM_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/shim/shim.h"

enum { SERVER_CLIENTS_MAX = 8 };

struct server_client {
    int fd; /* -1: free */
    bool subscribed;
    uint64_t number; /* which came first */
    uint32_t filled;
    uint8_t bytes[sizeof(struct shim_request)];
};

struct server {
    int listen_fd;
    uint64_t accepted;
    struct server_client clients[SERVER_CLIENTS_MAX];
};

int server_open(struct server *server, int dir_fd);
void server_close(struct server *server, int dir_fd);

/* Takes one new client; when all places are taken the oldest one goes. Peers of another uid than
 * ours or root's are sent away. */
void server_accept(struct server *server);

/* 1: *ret_request is whole; 0: more is to come, or the client is gone. Call until 0. */
int server_read(struct server_client *client, struct shim_request *ret_request);

/* One frame; a client that does not read its frames is dropped. */
void server_send(struct server_client *client, const struct shim_status *status, uint64_t nonce,
                 int32_t error);
void server_publish(struct server *server, const struct shim_status *status); /* to subscribers */

#endif
