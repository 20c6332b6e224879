/* internal.h: what the server's own files share. */
#ifndef KEEPSTEP_API_INTERNAL_H
#define KEEPSTEP_API_INTERNAL_H

#include <uv.h>

#include "controller/api/http.h"
#include "controller/api/tokens.h"

enum { DAEMONS_MAX = 2 };

struct daemon {
    struct api *api;
    struct MHD_Daemon *mhd;
    uv_poll_t poll;
    uv_timer_t timer;
    bool unix_socket;
    bool loopback; /* whoever reaches it may read */
};

struct stream; /* events.c */
struct peer;   /* peers.c */
struct shared; /* shared.c */

struct api {
    struct loop *loop;
    struct relay *relay;
    struct store_reader *reader;
    struct tokens *tokens;
    char socket_path[PATH_SIZE];
    uint32_t socket_gid;
    bool has_group;
    struct daemon daemons[DAEMONS_MAX];
    uint32_t daemon_count;
    uv_timer_t tick; /* once a second: heartbeats, and everything whose time is over */
    uv_timer_t turn; /* armed while requests wait for the next turn */
    bool closing;
    struct http_request *requests;
    struct http_request *queue; /* those whose turn has not come, oldest first */
    struct http_request **queue_end;
    uint64_t spent_us; /* of this turn, by requests */
    bool pausing;      /* the loop pauses amid other work */
    uint64_t next_id;
    struct stream *streams; /* open event streams, a list */
    uint32_t stream_count;
    struct peer *peers;
    struct shared *shared; /* long answers, for whoever asks the same; NULL: none yet */
};

/* http.c: libmicrohttpd's callbacks. */
enum MHD_Result http_access_cb(void *context, struct MHD_Connection *connection, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *data_size, void **state);
void http_done_cb(void *context, struct MHD_Connection *connection, void **state,
                  enum MHD_RequestTerminationCode code);
/* %00 must not end a text early: it becomes a byte that no name has. */
size_t http_unescape_cb(void *context, struct MHD_Connection *connection, char *text);
/* Calls routes whose turn has come. */
void http_run_queue(struct api *api);
/* Answers what has waited too long for a commit. */
void http_tick(struct api *api);
/* Answers everything that waits: the server ends. */
void http_close_all(struct api *api);
/* Lets an answered request's connection go on. */
void http_wake(struct http_request *request);

/* head.c */
bool head_is_bad(struct MHD_Connection *connection, const char *version);
/* 0 when the head says nothing of a length. */
uint64_t head_content_length(struct MHD_Connection *connection);
bool head_expects_continue(struct MHD_Connection *connection);
/* Fills role, actor and user. */
void head_credentials(struct http_request *request, const struct daemon *daemon);

/* peers.c: connections that take too long to say what they want. */
void peers_notify_cb(void *context, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code);
void peers_head_read(struct MHD_Connection *connection);
void peers_request_read(struct MHD_Connection *connection);
void peers_request_done(struct MHD_Connection *connection);
void peers_tick(struct api *api);

/* answer.c: sends request->text once it is durable: at once, if it is. */
void answer_when_durable(struct http_request *request);

/* shared.c: the text of an answer, whoever it goes to. */
enum {
    SHARED_MAX = 16,        /* answers kept */
    SHARED_MS = 250,        /* for so long */
    SHARED_SIZE_MIN = 8192, /* bytes; shorter ones are made faster than found */
    SHARED_TAG_SIZE = 128,
};
struct shared_text {
    uint32_t uses; /* the table's, those of waiting requests, and those of answers under way */
    size_t size;
    char *text; /* owned */
    char tag[SHARED_TAG_SIZE];
    uint64_t revision; /* of the last record that it shows; may be sent when that one is durable */
    uint64_t made_ms;
};
/* Takes text. The tag is "STORE-REVISION-CONTENT". Release it. */
struct shared_text *shared_make(const struct api *api, char *text, size_t size, uint64_t revision);
void shared_release(struct shared_text *text); /* NULL: nothing */
struct MHD_Response *shared_response(struct shared_text *text);
/* Keeps request->text for others, if it is an answer to be kept. */
void shared_keep(struct http_request *request);
/* An answer that is kept and is not older than what anybody was told of; NULL: none. Release it. */
struct shared_text *shared_find(const struct http_request *request);
void shared_tick(struct api *api); /* lets go of those that nobody is given any more */
void shared_free(struct api *api);

/* events.c */
void events_wake(struct api *api); /* a commit happened */
void events_tick(struct api *api); /* heartbeats, and polls whose time is over */
void events_turn(struct api *api); /* streams that had to wait for a turn of their own */

/* sockets.c: a listening descriptor, or -errno with what to do about it. */
MUST_CHECK int sockets_open_unix(const char *path, struct err *err);
MUST_CHECK int sockets_open_tcp(const char *address, bool has_tokens, bool *ret_loopback,
                                struct err *err);

/* api.c */
bool api_turn_is_over(const struct api *api); /* the rest waits for the next one */
void api_turn_later(struct api *api);         /* there will be a next one soon */
/* After anything outside libmicrohttpd's own callbacks changed a connection. */
void api_kick(struct api *api);

#endif
