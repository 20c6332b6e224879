/* answer.c: answers as JSON, text, streams and problems, with the headers that all of them have.
 *
 * What shows the core's state waits until it is durable; when the journal cannot be written for too
 * long the answer says that instead (http_tick). Problems never wait: they are not facts. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/api/internal.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* 15 digits: what a fraction of a second or a ratio needs, without the noise of the last bits. */
#define DUMP_FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(15))

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    enum MHD_Result added = MHD_add_response_header(response, name, value);
    /* Of our own names, and values without line ends, memory alone can refuse one. */
    mem_needed(added == MHD_YES ? response : NULL);
}

static void set_response(struct http_request *request, unsigned int status,
                         struct MHD_Response *response)
{
    CHECK(!request->answered && response != NULL);
    request->answered = true;
    request->status = status;
    request->response = response;
    add_header(response, "X-Content-Type-Options", "nosniff");
    if (status == 401) {
        add_header(response, "WWW-Authenticate", "Bearer");
    }
    http_wake(request);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static int dump_cb(const char *data, size_t size, void *context)
{
    return buf_put(context, data, size) < 0 ? -1 : 0;
}

static void free_cb(void *memory)
{
    mem_free(memory);
}

/* json is taken. Returns the text, owned; NULL when it is longer than any answer may be. */
static char *dump(json_t *json, size_t *ret_size)
{
    struct buf buf;
    buf_init(&buf, HTTP_ANSWER_MAX);
    int failed = json_dump_callback(json, dump_cb, &buf, DUMP_FLAGS);
    json_decref(json);
    if (failed != 0 || buf_put(&buf, "\n", 1) < 0) {
        buf_done(&buf);
        return NULL;
    }
    return buf_take(&buf, ret_size);
}

static struct MHD_Response *response_of(char *text, size_t size)
{
    return MHD_create_response_from_buffer_with_free_callback(size, text, free_cb);
}

/* The caller has this very content. */
static bool is_known(const struct http_request *request, const char *tag)
{
    const char *has = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                                  MHD_HTTP_HEADER_IF_NONE_MATCH);
    return has != NULL && strstr(has, tag) != NULL; /* quotes are part of the tag */
}

static bool only_reads(const struct http_request *request)
{
    return text_equal(request->method, "GET") || text_equal(request->method, "HEAD");
}

/* 200 with this tag (response taken), or 304 when the caller has it already. */
static void answer_tagged(struct http_request *request, struct MHD_Response *response,
                          const char *tag)
{
    bool known = is_known(request, tag);
    if (known) {
        MHD_destroy_response(response);
        response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    } else {
        add_header(response, "Content-Type", "application/json");
    }
    add_header(response, "ETag", tag);
    add_header(response, "Cache-Control", "private, no-cache");
    set_response(request, known ? 304 : 200, response);
}

static void send_text(struct http_request *request)
{
    struct shared_text *text = request->text;
    struct MHD_Response *response = shared_response(text);
    request->text = NULL;
    if (request->status == 200 && only_reads(request)) {
        answer_tagged(request, response, text->tag);
    } else {
        add_header(response, "Content-Type", "application/json");
        if (only_reads(request)) {
            add_header(response, "ETag", text->tag);
        }
        add_header(response, "Cache-Control", "private, no-cache");
        set_response(request, request->status, response);
    }
    shared_release(text);
}

/* json is taken; false: it was too much, and that was said. */
static bool make_text(struct http_request *request, unsigned int status, json_t *json,
                      uint64_t revision)
{
    CHECK(!request->answered && request->text == NULL && json != NULL);
    size_t size = 0;
    char *text = dump(json, &size);
    if (text == NULL) {
        http_problem(request, 500, "too-large", "ask for less: limit=100",
                     "the answer is longer than %d bytes", HTTP_ANSWER_MAX);
        return false;
    }
    request->status = status;
    request->text = shared_make(request->api, text, size, revision);
    return true;
}

void http_answer_now(struct http_request *request, unsigned int status, json_t *json)
{
    if (make_text(request, status, json, loop_revision(request->api->loop))) {
        send_text(request);
    }
}

static void durable_cb(void *context)
{
    send_text(context);
}

void answer_when_durable(struct http_request *request)
{
    if (request->text->revision <= loop_revision(request->api->loop)) {
        send_text(request);
        return;
    }
    request->waits_ms = loop_now_ms();
    loop_when_durable(request->api->loop, durable_cb, request);
}

void http_answer(struct http_request *request, unsigned int status, json_t *json)
{
    if (make_text(request, status, json, loop_core_revision(request->api->loop))) {
        shared_keep(request);
        answer_when_durable(request);
    }
}

/* ---- text and streams ------------------------------------------------------------------------ */

void http_answer_text(struct http_request *request, unsigned int status, const char *type,
                      const char *text, size_t size)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        size, (void *)(uintptr_t)(size > 0 ? text : ""), MHD_RESPMEM_MUST_COPY);
    mem_needed(response);
    add_header(response, "Content-Type", type);
    add_header(response, "Cache-Control", "no-store");
    set_response(request, status, response);
}

void http_answer_stream(struct http_request *request, const char *type,
                        MHD_ContentReaderCallback reader, void *context,
                        MHD_ContentReaderFreeCallback done)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, reader, context, done);
    mem_needed(response);
    add_header(response, "Content-Type", type);
    add_header(response, "Cache-Control", "no-store");
    add_header(response, "X-Accel-Buffering", "no");
    set_response(request, 200, response);
}

/* ---- problems -------------------------------------------------------------------------------- */

static const char *title_of(unsigned int status)
{
    static const struct {
        unsigned int status;
        const char *title;
    } titles[] = {
        {400, "The request is not valid."},
        {401, "Who are you?"},
        {403, "Not allowed."},
        {404, "There is no such thing."},
        {405, "Not with this method."},
        {409, "It cannot be done now."},
        {410, "That is gone."},
        {412, "It has changed meanwhile."},
        {413, "Too long."},
        {414, "Too long."},
        {422, "The content has problems."},
        {429, "Too many."},
        {503, "Not ready."},
    };
    for (size_t i = 0; i < ARRAY_SIZE(titles); i++) {
        if (titles[i].status == status) {
            return titles[i].title;
        }
    }
    return "An error.";
}

static void problem(struct http_request *request, unsigned int status, const char *type,
                    const char *hint, json_t *errors, const char *detail)
{
    json_t *json = json_object();
    size_t size = 0;
    json_object_set_new(json, "type", json_sprintf("https://keepstep.example/problems/%s", type));
    json_object_set_new(json, "title", json_string(title_of(status)));
    json_object_set_new(json, "status", json_integer(status));
    json_object_set_new(json, "detail", show_text(detail));
    json_object_set_new(json, "instance", show_text(request->path));
    json_object_set_new(json, "request_id",
                        json_sprintf("q-%llu", (unsigned long long)request->id));
    if (hint[0] != '\0') {
        json_object_set_new(json, "hint", show_text(hint));
    }
    if (errors != NULL) {
        json_object_set_new(json, "errors", errors);
    }
    char *text = dump(json, &size);
    CHECK(text != NULL); /* at most CONFIG_PROBLEMS_MAX errors */
    struct MHD_Response *response = response_of(text, size);
    add_header(response, "Content-Type", "application/problem+json");
    add_header(response, "Cache-Control", "no-store");
    set_response(request, status, response);
}

void http_problem(struct http_request *request, unsigned int status, const char *type,
                  const char *hint, const char *format, ...)
{
    char detail[512];
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(detail, sizeof detail, format, arguments);
    va_end(arguments);
    problem(request, status, type, hint, NULL, detail);
}

void http_problem_list(struct http_request *request, unsigned int status, const char *type,
                       json_t *errors, const char *format, ...)
{
    char detail[512];
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(detail, sizeof detail, format, arguments);
    va_end(arguments);
    problem(request, status, type, "", errors, detail);
}

/* ---- the core's answers ---------------------------------------------------------------------- */

static const struct {
    int32_t result;
    unsigned int status;
    const char *type;
} refusals[] = {
    {-ENOENT, 404, "not-found"},         {-EBUSY, 409, "state-conflict"},
    {-EPERM, 403, "forbidden"},          {-ENOSPC, 409, "not-enough-spares"},
    {-EAGAIN, 503, "store-unavailable"}, {-EINVAL, 422, "invalid-spec"},
};

static void refuse(struct http_request *request, const struct loop_answer *answer)
{
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
        if (answer->result == refusals[i].result) {
            http_problem(request, refusals[i].status, refusals[i].type, "", "%s", answer->text);
            return;
        }
    }
    http_problem(request, 500, "internal", "", "%s", answer->text);
}

static void core_answered_cb(void *context, const struct loop_answer *answer)
{
    struct http_request *request = context;
    json_t *more = request->more;
    const struct job *job = answer->job != 0 ? core_job(http_core(request), answer->job) : NULL;
    request->more = NULL;
    request->asks_core = false;
    if (answer->result != 0) {
        json_decref(more);
        refuse(request, answer);
        return;
    }
    json_t *json = json_object();
    json_object_set_new(json, "result", show_text(answer->text));
    json_object_set_new(json, "changed", json_boolean(answer->changed));
    json_object_set_new(json, "revision", json_integer((json_int_t)answer->revision));
    if (job != NULL) {
        json_object_set_new(json, "job", show_text(job->d.name));
        json_object_set_new(json, "id", json_integer(job->d.job));
    }
    json_object_update(json, more); /* NULL adds nothing */
    json_decref(more);
    http_answer_now(request, 200, json);
}

void http_ask_core(struct http_request *request, struct request *ask, json_t *more)
{
    if (!http_query_bool(request, "dry_run", &ask->dry_run)) {
        json_decref(more);
        return;
    }
    text_copy(ask->actor, sizeof ask->actor, request->actor);
    request->more = more;
    request->asks_core = true;
    request->waits_ms = loop_now_ms();
    if (loop_request(request->api->loop, ask, core_answered_cb, request) < 0) {
        request->asks_core = false;
        http_problem(request, 429, "rate-limited", "try again in a second",
                     "too many requests wait for the controller");
    }
}
