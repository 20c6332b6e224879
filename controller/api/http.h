/* http.h: one request from its first byte to its answer, for the routes.
 *
 * A route is called once, with the whole body read, and must answer exactly once: now, or later
 * from a callback (the connection sleeps meanwhile). After the answer the request is not the
 * route's any more. Memory of a request lives until its connection is done with it. */
#ifndef KEEPSTEP_API_HTTP_H
#define KEEPSTEP_API_HTTP_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "controller/api/api.h"
#include "controller/core/state.h"
#include "db/store.h"
#include "proto/base/buf.h"

enum {
    HTTP_BODY_MAX = 1 << 20,
    HTTP_DRAIN_MAX = 16 << 20, /* of a body that is too long: read on until then, then cut */
    HTTP_ANSWER_MAX = 64 << 20,
    HTTP_STREAMS_MAX = 1200,     /* event streams in all */
    HTTP_CONNECTIONS_MAX = 1600, /* of one address: streams never take the last ones */
    HTTP_SEGMENTS_MAX = 6,
    HTTP_PATH_MAX = 512,
    HTTP_HEAD_MS = 10000,   /* for the whole head, and between two requests */
    HTTP_BODY_MS = 30000,   /* for the whole body */
    HTTP_IDLE_S = 30,       /* a reader that takes nothing for so long is dropped */
    HTTP_DURABLE_MS = 5000, /* what is shown waits so long for its commit */
    HTTP_CORE_MS = 20000,   /* and the answer to a change so long */
    HTTP_TURN_US = 2000,    /* of one turn of the loop for requests */
    HTTP_PAUSE_US = 1000,   /* … and of one pause in its long work */
    HTTP_LIMIT_DEFAULT = 200,
    HTTP_LIMIT_MAX = 1000,
};

enum http_role { ROLE_NONE, ROLE_VIEWER, ROLE_SUBMITTER, ROLE_OPERATOR };

struct http_request {
    struct http_request *previous; /* all open ones, for the end and for what waits too long */
    struct http_request *next;
    struct http_request *queue_next; /* of those whose turn has not come */
    struct api *api;
    struct MHD_Connection *connection;
    char method[8];
    char path[HTTP_PATH_MAX];
    const char *segments[HTTP_SEGMENTS_MAX]; /* after /v1/, decoded: "jobs", "demo", "cancel" */
    char segment_text[HTTP_PATH_MAX];
    uint32_t segment_count;
    const struct route *route; /* once it was found */
    uint8_t role;              /* enum http_role */
    char actor[NAME_SIZE];     /* "uid 0", a token's name */
    char user[NAME_SIZE];      /* whose jobs a submitter may run: "root", a token's name; or "" */
    uint64_t id;
    struct buf body;
    uint64_t body_size; /* seen; kept or not */
    bool keeps_body;    /* the route wants it, and this caller may use the route */
    bool bad_head;
    bool started; /* the route was called, or waits for its turn */
    bool suspended;
    bool answered;
    struct MHD_Response *response;
    unsigned int status;
    struct shared_text *text; /* an answer that waits until it is durable */
    bool asks_core;           /* the core's answer is awaited */
    json_t *more;             /* what to add to it */
    uint64_t waits_ms;        /* since when; of either kind */
    void *route_data;         /* the route's own, freed by route_done */
    void (*route_done)(struct http_request *request);
};

typedef void http_route(struct http_request *request);

/* One line of the table in routes.c. */
struct route {
    const char *method;
    const char *pattern; /* "*" is any one segment */
    uint8_t role;
    http_route *call;
    const char *queries; /* names that may stand in the query, "a|b" */
    const char *members; /* of the JSON body, "a|b"; NULL: the route looks at it itself */
};

/* ---- query.c: what a request says ------------------------------------------------------------ */

/* Every reader that returns a bool has answered (400, 404) when it returns false. */

/* Only known names, each once. */
bool http_query_check(struct http_request *request);
/* The query's value, "" when absent; borrowed. */
const char *http_query(const struct http_request *request, const char *name);
/* A number in the query; fallback when absent. */
bool http_query_u64(struct http_request *request, const char *name, uint64_t fallback, uint64_t max,
                    uint64_t *ret_value);
/* true, false; the name alone is true; absent is false. */
bool http_query_bool(struct http_request *request, const char *name, bool *ret_value);
/* One of the words; *ret_index is `absent` when the name is not there. */
bool http_query_word(struct http_request *request, const char *name, const char *const *words,
                     size_t count, size_t absent, size_t *ret_index);
/* The body as a JSON object with known members alone (json_decref it); NULL: an answer was given.
 * An empty body is {}. */
json_t *http_body_json(struct http_request *request);
/* A text member into target (size bytes, "" when absent), whole or not at all. */
bool http_member_text(struct http_request *request, const json_t *body, const char *name,
                      char *target, size_t size);
bool http_member_bool(struct http_request *request, const json_t *body, const char *name,
                      bool *ret_value);

/* ---- answer.c -------------------------------------------------------------------------------- */

/* JSON (taken) that shows the core's state: leaves when what was stepped so far is durable. */
void http_answer(struct http_request *request, unsigned int status, json_t *json);
/* JSON (taken) of what is durable already: rows of the store. Leaves now. */
void http_answer_now(struct http_request *request, unsigned int status, json_t *json);
void http_answer_text(struct http_request *request, unsigned int status, const char *type,
                      const char *text, size_t size);
void http_answer_stream(struct http_request *request, const char *type,
                        MHD_ContentReaderCallback reader, void *context,
                        MHD_ContentReaderFreeCallback done);
/* application/problem+json. type is the last part of the problem's address; hint may be "". */
void http_problem(struct http_request *request, unsigned int status, const char *type,
                  const char *hint, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The same with a list of errors (taken). */
void http_problem_list(struct http_request *request, unsigned int status, const char *type,
                       json_t *errors, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Hands a request to the core; its answer is {"result", "changed", "revision", "job", "id"} and the
 * members of more (taken; may be NULL), or a problem. */
void http_ask_core(struct http_request *request, struct request *ask, json_t *more);

/* ---- page.c: lists --------------------------------------------------------------------------- */

/* Filled item by item; the caller walks its objects in one direction and says for each which place
 * it has on the way (1, 2, …; the same object always at the same place, or further along). */
struct http_page {
    uint64_t limit;
    uint64_t after; /* places up to this one were on earlier pages */
    uint64_t last;  /* place of the last item */
    bool more;
    json_t *items;
};
/* Reads limit and cursor. */
bool http_page_begin(struct http_request *request, struct http_page *ret_page);
/* True when the object at this place, which the caller wants to show, belongs on this page: add it
 * then. False: before it, or the page is full. */
bool http_page_takes(struct http_page *page, uint64_t place);
void http_page_add(struct http_page *page, json_t *item); /* taken */
/* {revision, items, next}; the page is done. */
void http_page_answer(struct http_request *request, struct http_page *page);

/* ---- what routes need of the server ---------------------------------------------------------- */

const struct core *http_core(const struct http_request *request);
struct loop *http_loop(const struct http_request *request);
struct relay *http_relay(const struct http_request *request);
struct store_reader *http_reader(const struct http_request *request);
/* The job named in the path's second segment; NULL: answered 404. */
const struct job *http_job(struct http_request *request);
/* The same for changing it or reading its output: a submitter may so with jobs of the own user. */
const struct job *http_job_own(struct http_request *request);
/* The node of that name; NULL: answered 404 with the name that reads alike. */
const struct node *http_node(struct http_request *request, const char *name);

/* ---- routes.c -------------------------------------------------------------------------------- */

/* Finds the route and calls it; answers 404, 405, 401, 403 and bad queries itself. */
void routes_call(struct http_request *request);
/* True when the caller may use this route and it has a body: only such bodies are kept. */
bool routes_want_body(const struct http_request *request);
/* It shows the core's state, or one row by its key: no walk through the store. */
bool routes_are_quick(const struct http_request *request);

/* jobs.c */
http_route route_jobs, route_job, route_job_verb, route_checkpoint_now, route_checkpoint_verb;
/* submit.c */
http_route route_jobs_submit;
/* job_views.c */
http_route route_layout, route_rank, route_ranks, route_attempts, route_checkpoints,
    route_checkpoint, route_goodput;
/* logs.c */
http_route route_logs;
/* nodes.c */
http_route route_nodes, route_node, route_node_history, route_spares;
/* node_actions.c */
http_route route_node_actions;
/* recoveries.c */
http_route route_recoveries, route_recovery, route_incidents, route_incident, route_rules;
/* cluster.c */
http_route route_version, route_cluster, route_healthz, route_readyz, route_automation,
    route_automation_set, route_foreign, route_foreign_set;
/* events.c */
http_route route_events;

#endif
