/* http.c: from libmicrohttpd's callbacks to a route and back.
 *
 * Happy path: http_access_cb is called with the head (we make the request and check head and
 * credentials), with pieces of the body, then with none: the route is called. It answers now, or
 * the connection is suspended until an answer comes from the loop; then libmicrohttpd calls again
 * and the answer is queued.
 *
 * Failures: a bad head is answered at once, a body that is too long after reading on, both without
 * calling the route, and the connection is closed. Requests of one turn of the loop get HTTP_TURN_US; the rest are
 * suspended and called in later turns, so that agents are heard in between. A peer that goes away
 * while its request is suspended is noticed when it is resumed: the request's memory goes in
 * http_done_cb, which first tells everybody who might still call back. */
#include "controller/api/http.h"

#include <string.h>

#include "controller/api/internal.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* ---- the server's parts ---------------------------------------------------------------------- */

const struct core *http_core(const struct http_request *request)
{
    return loop_core(request->api->loop);
}

struct loop *http_loop(const struct http_request *request)
{
    return request->api->loop;
}

struct relay *http_relay(const struct http_request *request)
{
    return request->api->relay;
}

struct store_reader *http_reader(const struct http_request *request)
{
    return request->api->reader;
}

/* ---- one request's life ---------------------------------------------------------------------- */

static void split_path(struct http_request *request)
{
    char *rest = request->segment_text;
    text_copy(request->segment_text, sizeof request->segment_text, request->path);
    while (*rest != '\0') {
        rest += strspn(rest, "/");
        if (*rest == '\0') {
            return;
        }
        if (request->segment_count < HTTP_SEGMENTS_MAX) {
            request->segments[request->segment_count] = rest;
        }
        request->segment_count++;
        rest += strcspn(rest, "/");
        if (*rest == '/') {
            *rest++ = '\0';
        }
    }
}

static void link_request(struct api *api, struct http_request *request)
{
    request->api = api;
    request->id = ++api->next_id;
    request->next = api->requests;
    if (request->next != NULL) {
        request->next->previous = request;
    }
    api->requests = request;
}

static void unlink_request(struct http_request *request)
{
    if (request->previous != NULL) {
        request->previous->next = request->next;
    } else {
        request->api->requests = request->next;
    }
    if (request->next != NULL) {
        request->next->previous = request->previous;
    }
}

static struct http_request *begin(const struct daemon *daemon, struct MHD_Connection *connection,
                                  const char *url, const char *method, const char *version)
{
    struct http_request *request = mem_alloc(1, sizeof *request);
    request->connection = connection;
    link_request(daemon->api, request);
    buf_init(&request->body, HTTP_BODY_MAX);
    bool fits = text_copy(request->path, sizeof request->path, url) &&
                text_copy(request->method, sizeof request->method, method);
    request->bad_head = !fits || head_is_bad(connection, version);
    split_path(request);
    head_credentials(request, daemon);
    request->keeps_body = !request->bad_head && routes_want_body(request);
    peers_head_read(connection);
    return request;
}

static void forget(struct http_request *request)
{
    unlink_request(request);
    buf_done(&request->body);
    json_decref(request->more);
    shared_release(request->text);
    if (request->route_done != NULL) {
        request->route_done(request);
    }
    if (request->response != NULL) {
        MHD_destroy_response(request->response);
    }
    mem_free(request);
}

static bool is_too_long(const struct http_request *request)
{
    return request->body_size > HTTP_BODY_MAX;
}

static void call_route(struct http_request *request)
{
    if (request->bad_head) {
        http_problem(request, 400, "invalid-request", "", "the head of the request is malformed");
    } else if (is_too_long(request)) {
        http_problem(request, 413, "too-large", "", "a body has at most %d bytes", HTTP_BODY_MAX);
    } else if (request->api->closing) {
        http_problem(request, 503, "not-active", "", "the controller is stopping");
    } else {
        uint64_t start_us = uv_hrtime() / 1000;
        routes_call(request);
        request->api->spent_us += uv_hrtime() / 1000 - start_us;
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* In a pause of the loop's long work only what is quickly made has its turn. */
static bool may_turn(const struct http_request *request)
{
    return !request->api->pausing || routes_are_quick(request);
}

/* Calls the route, or leaves it to a later turn when this one's time is spent. */
static void call_in_turn(struct http_request *request)
{
    struct api *api = request->api;
    request->started = true;
    if (may_turn(request) && api->queue == NULL && (!api_turn_is_over(api) || api->closing)) {
        call_route(request);
        return;
    }
    *api->queue_end = request;
    api->queue_end = &request->queue_next;
    api_turn_later(api);
}

/* The first that may have its turn now; NULL: none may. */
static struct http_request *take_queued(struct api *api)
{
    struct http_request **link = &api->queue;
    while (*link != NULL && !may_turn(*link)) {
        link = &(*link)->queue_next;
    }
    struct http_request *request = *link;
    if (request != NULL) {
        *link = request->queue_next;
        request->queue_next = NULL;
        api->queue_end = *link == NULL ? link : api->queue_end;
    }
    return request;
}

void http_run_queue(struct api *api)
{
    struct http_request *request = api->queue;
    while (request != NULL && (!api_turn_is_over(api) || api->closing)) {
        request = take_queued(api);
        if (request != NULL) {
            call_route(request);
        }
    }
    if (api->queue != NULL) {
        api_turn_later(api);
    }
}

void http_wake(struct http_request *request)
{
    if (request->suspended) {
        request->suspended = false;
        MHD_resume_connection(request->connection);
        api_kick(request->api);
    }
}

/* ---- what waits too long --------------------------------------------------------------------- */

static void give_up(struct http_request *request)
{
    char why[LOOP_READY_TEXT_SIZE];
    bool ready = loop_is_ready(request->api->loop, why);
    loop_forget(request->api->loop, request);
    http_problem(request, 503, "store-unavailable", "",
                 request->asks_core
                     ? "not written yet: %s; the request is kept, and happens when it can be"
                     : "what is true now is not written yet: %s",
                 ready ? "the journal is slow" : why);
}

void http_tick(struct api *api)
{
    uint64_t now = loop_now_ms();
    for (struct http_request *request = api->requests; request != NULL; request = request->next) {
        bool waits = request->suspended && !request->answered &&
                     (request->asks_core || request->text != NULL);
        uint64_t limit = request->asks_core ? HTTP_CORE_MS : HTTP_DURABLE_MS;
        if (waits && now - request->waits_ms >= limit) {
            give_up(request);
        }
    }
}

void http_close_all(struct api *api)
{
    http_run_queue(api); /* answers 503 to each */
    for (struct http_request *request = api->requests; request != NULL; request = request->next) {
        if (request->suspended && !request->answered) {
            loop_forget(api->loop, request);
            if (api->relay != NULL) {
                relay_forget(api->relay, request);
            }
            http_problem(request, 503, "not-active", "", "the controller is stopping");
        }
    }
}

/* ---- libmicrohttpd's callbacks --------------------------------------------------------------- */

size_t http_unescape_cb(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    size_t size = MHD_http_unescape(text);
    for (size_t i = 0; i < size; i++) {
        text[i] = text[i] != '\0' ? text[i] : '\xff';
    }
    return size;
}

static enum MHD_Result queue_answer(struct http_request *request)
{
    if (request->bad_head || is_too_long(request)) {
        (void)MHD_add_response_header(request->response, "Connection", "close");
    }
    enum MHD_Result queued =
        MHD_queue_response(request->connection, request->status, request->response);
    MHD_destroy_response(request->response);
    request->response = NULL;
    return queued;
}

/* The head alone is enough: where it is malformed nobody knows where a body would end; and a body
 * that is too long need not be sent, when the peer waits to hear whether it may. */
static bool is_refused_early(struct http_request *request)
{
    uint64_t length = head_content_length(request->connection);
    bool asks = length > HTTP_BODY_MAX && head_expects_continue(request->connection);
    if (!request->bad_head && !asks) {
        return false;
    }
    request->body_size = asks ? length : 0;
    request->started = true;
    peers_request_read(request->connection);
    call_route(request);
    return true;
}

static enum MHD_Result take_body(struct http_request *request, const char *data, size_t *data_size)
{
    request->body_size += *data_size;
    if (request->body_size > HTTP_DRAIN_MAX) {
        return MHD_NO; /* nobody sends so much by mistake: the connection is cut */
    }
    if (is_too_long(request)) {
        buf_done(&request->body);
    } else if (request->keeps_body) {
        int code = buf_put(&request->body, data, *data_size);
        CHECK(code == 0); /* it holds HTTP_BODY_MAX */
    }
    *data_size = 0;
    return MHD_YES;
}

enum MHD_Result http_access_cb(void *context, struct MHD_Connection *connection, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *data_size, void **state)
{
    struct http_request *request = *state;
    if (request == NULL) {
        request = begin(context, connection, url, method, version);
        *state = request;
        return is_refused_early(request) ? queue_answer(request) : MHD_YES;
    }
    if (*data_size > 0) {
        return take_body(request, data, data_size);
    }
    if (!request->started) {
        peers_request_read(connection);
        call_in_turn(request);
    }
    if (!request->answered) {
        request->suspended = true;
        MHD_suspend_connection(connection);
        return MHD_YES;
    }
    return request->response != NULL ? queue_answer(request) : MHD_YES;
}

void http_done_cb(void *context, struct MHD_Connection *connection, void **state,
                  enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)code;
    struct http_request *request = *state;
    if (request == NULL) {
        return;
    }
    *state = NULL;
    CHECK(!request->suspended); /* libmicrohttpd does not end what is suspended */
    loop_forget(request->api->loop, request);
    if (request->api->relay != NULL) {
        relay_forget(request->api->relay, request);
    }
    peers_request_done(connection);
    forget(request);
}
