/* api.h: the REST server: routes read the core's view, writes become events of the core.
 *
 * One libmicrohttpd daemon per address (a Unix socket trusted by peer credentials, a TCP address
 * that is loopback by default), each driven by the controller's own uv loop. Nothing is answered
 * before what it shows is durable. */
#ifndef KEEPSTEP_API_API_H
#define KEEPSTEP_API_API_H

#include "controller/io/loop.h"
#include "controller/io/relay.h"
#include "proto/base/err.h"

struct api;

/* Pointers are borrowed until api_free(); texts are copied. "" for an address: not served. */
struct api_options {
    struct loop *loop;
    struct relay *relay;
    const char *database;      /* path, for read-only questions about history */
    const char *listen_rest;   /* host:port; a host that is not loopback needs a token file, and
                                  then every request there needs a token */
    const char *listen_socket; /* path of the Unix socket; its folder must exist */
    const char *socket_group;  /* members may write through the socket; "" = root and we alone */
    const char *token_file;    /* tokens.h */
};

/* -EADDRINUSE, -EACCES, -EINVAL … with what to do about it. */
MUST_CHECK int api_create(const struct api_options *options, struct api **ret_api, struct err *err);
/* Answers what is open, stops listening; the uv loop must run on before api_free(). */
void api_close(struct api *api);
struct api *api_free(struct api *api);

#endif
