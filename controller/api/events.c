/* events.c: one log of events, one stream, three forms: server-sent events for
 * a page, JSON lines for programs, a long poll for simple scripts.
 *
 * A stream holds the revision up to which it has looked. After each commit, and every 15 s for the
 * heartbeat, all sleeping streams are woken; one that has nothing to send sleeps again. One question
 * to the store looks through at most WINDOW records, so that a filter that finds little in a year of
 * history holds nobody up. A reader too slow to take what is there only delays itself: what it has
 * not read is in the store. */
#include <string.h>

#include "controller/api/http.h"
#include "controller/api/internal.h"
#include "controller/api/show.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    BATCH = 200,
    OUT_MAX = 16 << 20, /* of a batch as text; the longest event is far below OUT_MAX / BATCH */
    WINDOW = 20000,     /* records that one question looks through */
    WINDOWS_MAX = 10,   /* of one answer to a list */
    POLL_MAX_S = 300,
    HEARTBEAT_MS = 15000,
    RETRY_MS = 3000, /* a page that lost its stream comes back after so long */
};

enum form { FORM_JSON, FORM_LINES, FORM_SSE };

struct stream {
    struct stream *next;
    struct stream *previous;
    struct api *api;
    struct http_request *request;
    struct MHD_Connection *connection;
    struct store_event_filter filter; /* its type is `type` */
    char type[sizeof(((struct record_event *)NULL)->type)];
    uint8_t form;
    bool asleep;
    bool hungry; /* asleep only because the turn was over */
    bool greeted;
    uint64_t sent_ms;  /* when anything was last sent */
    uint64_t until_ms; /* long poll: answer at the latest then */
    struct buf out;    /* formatted, not yet taken */
    size_t taken;      /* of it */
};

static void unlink_stream(struct stream *stream)
{
    if (stream->previous != NULL) {
        stream->previous->next = stream->next;
    } else {
        stream->api->streams = stream->next;
    }
    if (stream->next != NULL) {
        stream->next->previous = stream->previous;
    }
    stream->api->stream_count--;
}

static void link_stream(struct api *api, struct stream *stream)
{
    stream->api = api;
    stream->next = api->streams;
    if (stream->next != NULL) {
        stream->next->previous = stream;
    }
    api->streams = stream;
    api->stream_count++;
}

static void stream_free(void *context)
{
    struct stream *stream = context;
    unlink_stream(stream);
    buf_done(&stream->out);
    mem_free(stream);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The next events that the filter lets pass; the filter moves on to what has been looked at.
 * *ret_more: there may be more right behind. */
static int read_window(struct stream *stream, json_t **ret_rows, bool *ret_more, struct err *err)
{
    struct store_event_filter *filter = &stream->filter;
    uint64_t revision = loop_revision(stream->api->loop);
    if (filter->after >= revision) {
        *ret_rows = json_array();
        *ret_more = false;
        return 0;
    }
    filter->until = revision - filter->after > WINDOW ? filter->after + WINDOW : revision;
    int code = store_events(stream->api->reader, filter, BATCH, ret_rows, ret_more, err);
    if (code < 0) {
        return code;
    }
    size_t count = json_array_size(*ret_rows);
    if (*ret_more) {
        const json_t *last = json_array_get(*ret_rows, count - 1);
        filter->after = (uint64_t)json_integer_value(json_object_get(last, "revision"));
    } else {
        filter->after = filter->until;
        *ret_more = filter->after < revision;
    }
    show_event_times(*ret_rows);
    return 0;
}

static int dump_cb(const char *data, size_t size, void *context)
{
    return buf_put(context, data, size) < 0 ? -1 : 0;
}

/* An overflow of the buffer cuts the stream: see fill(). */
static void put_event(struct stream *stream, const json_t *event)
{
    bool sse = stream->form == FORM_SSE;
    if (sse) {
        const char *type = json_string_value(json_object_get(event, "type"));
        (void)!buf_printf(&stream->out, "id: %lld\nevent: %s\ndata: ",
                          (long long)json_integer_value(json_object_get(event, "revision")),
                          type != NULL ? type : "");
    }
    (void)json_dump_callback(event, dump_cb, &stream->out, JSON_COMPACT);
    (void)!buf_put(&stream->out, "\n\n", sse ? 2 : 1);
}

static void put_beat(struct stream *stream)
{
    const char *beat = stream->form == FORM_SSE ? ": still here\n\n" : "{}\n";
    (void)!buf_put(&stream->out, beat, strlen(beat));
}

/* Formats what is new; false when the store could not be read or the events are too long. */
static bool fill(struct stream *stream)
{
    json_t *rows = NULL;
    struct err err = {0};
    size_t index;
    json_t *event;
    bool more = true;
    buf_done(&stream->out); /* most streams sleep most of the time: with empty hands */
    buf_init(&stream->out, OUT_MAX);
    stream->taken = 0;
    if (!stream->greeted && stream->form == FORM_SSE) {
        (void)!buf_printf(&stream->out, "retry: %d\n\n", RETRY_MS);
    }
    stream->greeted = true;
    while (more && stream->out.size == 0 && !api_turn_is_over(stream->api)) {
        uint64_t start_us = uv_hrtime() / 1000;
        if (read_window(stream, &rows, &more, &err) < 0) {
            return false;
        }
        json_array_foreach(rows, index, event)
        {
            put_event(stream, event);
        }
        json_decref(rows);
        stream->api->spent_us += uv_hrtime() / 1000 - start_us;
    }
    if (stream->out.size == 0 && loop_now_ms() - stream->sent_ms >= HEARTBEAT_MS) {
        put_beat(stream);
    }
    stream->hungry = more && stream->out.size == 0;
    stream->sent_ms = stream->out.size > 0 ? loop_now_ms() : stream->sent_ms;
    return !stream->out.overflow;
}

static ssize_t read_cb(void *context, uint64_t position, char *target, size_t size)
{
    struct stream *stream = context;
    (void)position;
    if (stream->api->closing) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (stream->taken == stream->out.size && !fill(stream)) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t left = stream->out.size - stream->taken;
    if (left == 0) {
        stream->asleep = true;
        MHD_suspend_connection(stream->connection);
        if (stream->hungry) {
            api_turn_later(stream->api);
        }
        return 0;
    }
    size_t now = left < size ? left : size;
    memcpy(target, stream->out.data + stream->taken, now);
    stream->taken += now;
    return (ssize_t)now;
}

/* ---- the long poll, and plain lists ---------------------------------------------------------- */

/* Looks through a few windows, until one has something. */
static int read_some(struct stream *stream, json_t **ret_rows, bool *ret_more, struct err *err)
{
    int code = read_window(stream, ret_rows, ret_more, err);
    for (int i = 1; code == 0 && *ret_more && json_array_size(*ret_rows) == 0 && i < WINDOWS_MAX;
         i++) {
        json_decref(*ret_rows);
        code = read_window(stream, ret_rows, ret_more, err);
    }
    return code;
}

/* Answers when there is something, or when `now`. */
static void answer_list(struct stream *stream, bool now)
{
    json_t *rows = NULL;
    struct err err = {0};
    bool more = false;
    if (read_some(stream, &rows, &more, &err) < 0) {
        http_problem(stream->request, 503, "store-unavailable", "", "%s", err.text);
        return;
    }
    if (json_array_size(rows) == 0 && !more && !now) {
        json_decref(rows);
        return;
    }
    http_answer_now(stream->request, 200,
                    json_pack("{s:I, s:o, s:I, s:b}", "revision",
                              (json_int_t)loop_revision(stream->api->loop), "items", rows, "next",
                              (json_int_t)stream->filter.after, "more", more));
}

static void poll_done(struct http_request *request)
{
    stream_free(request->route_data);
}

/* ---- waking ---------------------------------------------------------------------------------- */

static void wake(struct stream *stream)
{
    if (stream->asleep) {
        stream->asleep = false;
        MHD_resume_connection(stream->connection);
    }
}

static void wake_all(struct api *api, bool commit)
{
    uint64_t now = loop_now_ms();
    for (struct stream *stream = api->streams; stream != NULL; stream = stream->next) {
        bool poll = stream->form == FORM_JSON;
        bool over = now >= stream->until_ms || api->closing;
        if (poll && !stream->request->answered && (commit || over)) {
            answer_list(stream, over);
        } else if (!poll && (commit || now - stream->sent_ms >= HEARTBEAT_MS)) {
            wake(stream);
        }
    }
    if (api->streams != NULL) {
        api_kick(api);
    }
}

void events_wake(struct api *api)
{
    wake_all(api, true);
}

void events_tick(struct api *api)
{
    wake_all(api, false);
}

void events_turn(struct api *api)
{
    for (struct stream *stream = api->streams; stream != NULL; stream = stream->next) {
        if (stream->hungry) {
            wake(stream);
        }
    }
    api_kick(api);
}

/* ---- the route ------------------------------------------------------------------------------- */

static bool read_subject(struct http_request *request, struct store_event_filter *filter)
{
    const struct core *core = http_core(request);
    const char *subject = http_query(request, "for");
    if (subject[0] == '\0') {
        return true;
    }
    if (strncmp(subject, "job/", 4) == 0) {
        filter->job = core_job_find(core, subject + 4);
    } else if (strncmp(subject, "node/", 5) == 0) {
        const struct node *node = http_node(request, subject + 5);
        filter->node = node != NULL ? node->d.node : 0;
    } else if (strncmp(subject, "recovery/", 9) == 0) {
        filter->recovery = show_read_id(subject + 9, 'r');
    } else {
        http_problem(request, 400, "invalid-request", "",
                     "for: job/NAME, node/NAME or recovery/ID, not %s", subject);
    }
    if (!request->answered && filter->job == 0 && filter->node == 0 && filter->recovery == 0) {
        http_problem(request, 404, "not-found", "", "there is no %s", subject);
    }
    return !request->answered;
}

/* Where to begin: Last-Event-ID, as a page sends it by itself, before `after`, before from=now. */
static bool read_start(struct http_request *request, struct store_event_filter *filter)
{
    static const char *const froms[] = {"start", "now"};
    size_t from;
    uint64_t fallback = 0;
    const char *last =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Last-Event-ID");
    if (!http_query_word(request, "from", froms, ARRAY_SIZE(froms), 0, &from)) {
        return false;
    }
    if (from == 1) {
        fallback = loop_revision(http_loop(request));
    }
    if (!http_query_u64(request, "after", fallback, INT64_MAX, &filter->after)) {
        return false;
    }
    uint64_t id;
    if (last != NULL && text_to_u64(last, INT64_MAX, &id) == 0) {
        filter->after = id;
    }
    uint64_t revision = loop_revision(http_loop(request));
    if (filter->after > revision) { /* of another store, or of before a restore */
        http_problem(request, 410, "revision-expired", "list again, then go on from there",
                     "there is no revision %llu; the newest is %llu",
                     (unsigned long long)filter->after, (unsigned long long)revision);
    }
    return !request->answered;
}

static bool read_filter(struct http_request *request, struct store_event_filter *filter)
{
    size_t severity;
    if (!read_start(request, filter) ||
        !http_query_u64(request, "since_ms", 0, INT64_MAX, &filter->wall_from_ms) ||
        !http_query_word(request, "severity", severity_words, severity_count, 0, &severity) ||
        !read_subject(request, filter)) {
        return false;
    }
    filter->severity_least = (uint8_t)severity;
    return true;
}

static uint8_t read_form(const struct http_request *request)
{
    const char *accept =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    if (accept != NULL && strstr(accept, "text/event-stream") != NULL) {
        return FORM_SSE;
    }
    return accept != NULL && strstr(accept, "application/jsonl") != NULL ? FORM_LINES : FORM_JSON;
}

static struct stream *stream_create(struct http_request *request,
                                    const struct store_event_filter *filter, uint64_t wait_s)
{
    struct stream *stream = mem_alloc(1, sizeof *stream);
    stream->request = request;
    stream->connection = request->connection;
    stream->filter = *filter;
    text_copy(stream->type, sizeof stream->type, http_query(request, "type"));
    stream->filter.type = stream->type;
    stream->form = read_form(request);
    stream->sent_ms = loop_now_ms();
    stream->until_ms = loop_now_ms() + wait_s * 1000;
    buf_init(&stream->out, OUT_MAX);
    link_stream(request->api, stream);
    return stream;
}

void route_events(struct http_request *request)
{
    struct store_event_filter filter = {0};
    uint64_t wait;
    if (!read_filter(request, &filter) || !http_query_u64(request, "wait", 0, POLL_MAX_S, &wait)) {
        return;
    }
    if (request->api->stream_count >= HTTP_STREAMS_MAX) {
        http_problem(request, 429, "rate-limited", "", "%d event streams are open",
                     HTTP_STREAMS_MAX);
        return;
    }
    struct stream *stream = stream_create(request, &filter, wait);
    if (stream->form == FORM_JSON) {
        request->route_data = stream;
        request->route_done = poll_done;
        answer_list(stream, wait == 0);
        return;
    }
    http_answer_stream(request,
                       stream->form == FORM_SSE ? "text/event-stream" : "application/jsonl",
                       read_cb, stream, stream_free);
}
