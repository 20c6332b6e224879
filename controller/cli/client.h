/* client.h: libcurl's side of the connection, for client.c and stream.c alone. */
#ifndef KEEPSTEP_CLI_CLIENT_H
#define KEEPSTEP_CLI_CLIENT_H

#include <curl/curl.h>

#include "controller/cli/cli.h"

enum { CLIENT_TOKEN_SIZE = 256, CLIENT_URL_SIZE = 512 };

struct client {
    CURL *curl;
    char base[CLIENT_URL_SIZE];
    char socket_path[CLIENT_URL_SIZE]; /* "": TCP */
    char token[CLIENT_TOKEN_SIZE];     /* "": none */
};

/* Owned by the caller (curl_slist_free_all). type may be NULL. */
struct curl_slist *client_headers(const struct cli *cli, const char *accept, const char *type);
/* Resets the handle for this address; url and list are borrowed until the transfer is over. */
void client_set_up(const struct cli *cli, const char *url, struct curl_slist *list);
/* Says so, with what may help; EXIT_UNREACHABLE. */
int client_unreachable(const struct cli *cli, const char *why);

#endif
