/* loop.c: turns. See loop.h for the order of things.
 *
 *     callbacks ──► events[] ──┐                        ┌─► carrier (agents.c)
 *                              ├─► core_step ─► turn ─► append ─► batches ─► replies, callbacks
 *     loop_request ─► requests ┘   (open batch)             (held)  ▲
 *                                                                   └─ store_poll: durable ticket
 *
 * What may go wrong:
 *   the store retries     batches stay held, the core is told (EVENT_STORE), readiness says why
 *   the store is fenced   another process wrote the journal: fatal
 *   too much waits        the store refuses a batch: fatal, because the core is already ahead of it
 *   too many events       they are stepped in place; actions are held anyway, so nothing reenters
 *   too many requests     refused with -EAGAIN */
#include "controller/io/loop.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "controller/core/state.h"
#include "controller/io/batch.h"
#include "controller/io/message_pool.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/wire.h"

enum {
    TICKS_IN_TURN_MAX = 8,       /* a deadline that is due again at once waits for the next turn */
    STORE_TRIES_BEFORE_TOLD = 2, /* one failed try is a busy disk, not a failing one */
    TIMER_MS_MAX = 3600 * 1000,
    GIVE_BACK_MS = 1000, /* after a burst */
};

struct queued_event {
    struct event event;
    struct message *message; /* owned; event.u points into it */
};

struct queued_request {
    struct queued_request *next;
    struct request request; /* its pointers are owned */
    loop_reply *reply;      /* NULL: nobody waits any more */
    void *context;
    uint64_t since_ms;
};

struct watcher {
    loop_callback *callback;
    void *context;
};

struct loop {
    uv_loop_t *uv;
    struct core *core;
    struct store *store;
    uv_prepare_t prepare;
    uv_timer_t timer;
    uv_poll_t wake;
    bool started;
    bool finished; /* no more events are stepped */

    struct message_pool messages;
    struct queued_event events[LOOP_EVENTS_MAX];
    uint32_t event_first;
    uint32_t event_count;
    struct queued_request *requests; /* not yet stepped, oldest first */
    struct queued_request **requests_end;
    struct queued_request *unanswered; /* stepped, the reply has not left */
    uint32_t request_count;            /* of both lists */
    uint64_t request_id;

    struct batch *open;     /* of this turn; never NULL */
    struct batch *spare;    /* one that has left, with its memory, for the next turn; or NULL */
    struct batch_list held; /* appended, not yet durable; oldest first */
    struct batch *leaving;  /* whose callbacks run right now */
    bool releasing;
    uint64_t burst_ms; /* when the last batch for a whole fleet left; 0 = given back since */
    uint64_t last_now_ms;
    uint64_t revision;
    bool store_told_failing;
    struct store_status store_status;

    loop_carrier *carrier;
    void *carrier_context;
    loop_fatal *fatal;
    void *fatal_context;
    bool fatal_told;
    struct watcher watchers[LOOP_WATCHERS_MAX];
    struct watcher pause; /* callback NULL: nobody */
    uint64_t pause_us;    /* when it last was */
    bool pausing;
    const struct drill *drill;
    const char *cluster_id;
    struct loop_figures figures;
};

uint64_t loop_now_ms(void)
{
    return uv_hrtime() / 1000000;
}

uint64_t loop_wall_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void tell_fatal(struct loop *loop, const char *text)
{
    if (!loop->fatal_told && loop->fatal != NULL) {
        loop->fatal_told = true;
        loop->finished = true;
        loop->fatal(loop->fatal_context, text);
    }
}

/* ---- one step ------------------------------------------------------------------------------ */

/* Steps one event and keeps what follows from it in the open batch. */
static void step(struct loop *loop, struct event *event)
{
    if (event->now_ms < loop->last_now_ms) {
        event->now_ms = loop->last_now_ms; /* queued before a tick that was stepped first */
    }
    loop->last_now_ms = event->now_ms;
    event->pending_records = loop->store_status.pending_records + batch_record_count(loop->open);
    struct core_output output;
    core_step(loop->core, event, &output);
    batch_add(loop->open, &output);
    loop->figures.events++;
    loop->figures.records += output.record_count;
    loop->figures.actions += output.action_count;
}

static void stamp(struct event *event)
{
    event->now_ms = loop_now_ms();
    event->wall_ms = loop_wall_ms();
}

static void step_events(struct loop *loop)
{
    while (loop->event_count > 0 && !loop->finished) {
        struct queued_event *queued = &loop->events[loop->event_first];
        loop->event_first = (loop->event_first + 1) % LOOP_EVENTS_MAX;
        loop->event_count--;
        queued->event.more = true; /* the tick after them looks at all that they changed */
        step(loop, &queued->event);
        message_pool_give(&loop->messages, queued->message);
        queued->message = NULL;
        loop_may_pause(loop);
    }
}

static void step_ticks(struct loop *loop)
{
    for (int count = 0; count < TICKS_IN_TURN_MAX && !loop->finished; count++) {
        struct event event = {.kind = EVENT_TICK};
        stamp(&event);
        if (core_deadline_ms(loop->core) > event.now_ms) {
            return;
        }
        step(loop, &event);
    }
}

static void step_requests(struct loop *loop)
{
    uint64_t start_us = uv_hrtime() / 1000;
    while (loop->requests != NULL && !loop->finished &&
           uv_hrtime() / 1000 - start_us < LOOP_REQUEST_US) {
        struct queued_request *queued = loop->requests;
        loop->requests = queued->next;
        if (loop->requests == NULL) {
            loop->requests_end = &loop->requests;
        }
        queued->next = loop->unanswered;
        loop->unanswered = queued;
        struct event event = {.kind = EVENT_REQUEST, .u.request = &queued->request};
        stamp(&event);
        step(loop, &event);
    }
}

/* ---- events -------------------------------------------------------------------------------- */

static void queue_event(struct loop *loop, const struct event *event, struct message *message)
{
    if (loop->finished) {
        message_pool_give(&loop->messages, message);
        return;
    }
    if (loop->event_count == LOOP_EVENTS_MAX) {
        step_events(loop);
    }
    uint32_t index = (loop->event_first + loop->event_count) % LOOP_EVENTS_MAX;
    loop->events[index] = (struct queued_event){.event = *event, .message = message};
    stamp(&loop->events[index].event);
    loop->event_count++;
    if (loop->event_count > loop->figures.events_max) {
        loop->figures.events_max = loop->event_count;
    }
}

void loop_hello(struct loop *loop, uint64_t session, struct message *message)
{
    struct event event = {.kind = EVENT_HELLO, .session = session, .u.hello = &message->u.hello};
    queue_event(loop, &event, message);
}

void loop_message(struct loop *loop, uint64_t session, struct message *message)
{
    struct event event = {.kind = EVENT_MESSAGE, .session = session, .u.message = message};
    queue_event(loop, &event, message);
}

void loop_closed(struct loop *loop, uint64_t session)
{
    struct event event = {.kind = EVENT_CLOSED, .session = session};
    queue_event(loop, &event, NULL);
}

void loop_pinged(struct loop *loop, uint64_t session, bool alive)
{
    struct event event = {.kind = EVENT_PINGED, .session = session, .u.pinged_alive = alive};
    queue_event(loop, &event, NULL);
}

void loop_fenced(struct loop *loop, uint32_t node, bool ok)
{
    struct event event = {.kind = EVENT_FENCED, .u.fenced = {.node = node, .ok = ok}};
    queue_event(loop, &event, NULL);
}

void loop_repaired(struct loop *loop, uint32_t node, uint32_t order, bool ok, const char *text)
{
    struct event event = {.kind = EVENT_REPAIRED,
                          .u.repaired = {.node = node, .order = order, .ok = ok}};
    (void)text_copy(event.u.repaired.text, TEXT_SIZE, text); /* as large */
    queue_event(loop, &event, NULL);
}

/* ---- requests ------------------------------------------------------------------------------ */

/* A copy that owns what it points to. */
static void copy_request(struct request *copy, const struct request *request)
{
    *copy = *request;
    if (request->node_count > 0) {
        uint32_t *nodes = mem_alloc(request->node_count, sizeof(*nodes));
        memcpy(nodes, request->nodes, request->node_count * sizeof(*nodes));
        copy->nodes = nodes;
    }
    if (request->spec != NULL) {
        struct job_spec *spec = mem_alloc(1, sizeof(*spec));
        *spec = *request->spec;
        copy->spec = spec;
    }
    if (request->text != NULL) {
        char *text = mem_alloc(1, (size_t)request->text_size + 1);
        memcpy(text, request->text, request->text_size);
        copy->text = text;
    }
}

static void request_free(struct queued_request *queued)
{
    (void)mem_free((void *)(uintptr_t)queued->request.nodes);
    (void)mem_free((void *)(uintptr_t)queued->request.spec);
    (void)mem_free((void *)(uintptr_t)queued->request.text);
    (void)mem_free(queued);
}

/* Makes the loop come back soon instead of blocking. */
static void hurry(struct loop *loop)
{
    CHECK(uv_timer_start(&loop->timer, loop->timer.timer_cb, 0, 0) == 0);
}

int loop_request(struct loop *loop, const struct request *request, loop_reply *reply, void *context)
{
    if (loop->request_count >= LOOP_REQUESTS_MAX || loop->finished) {
        loop->figures.requests_refused++;
        return -EAGAIN;
    }
    struct queued_request *queued = mem_alloc(1, sizeof(*queued));
    copy_request(&queued->request, request);
    queued->request.id = ++loop->request_id;
    queued->reply = reply;
    queued->context = context;
    queued->since_ms = loop_now_ms();
    *loop->requests_end = queued;
    loop->requests_end = &queued->next;
    loop->request_count++;
    return 0;
}

static void reply_now(struct loop *loop, const struct action *action)
{
    for (struct queued_request **link = &loop->unanswered; *link != NULL; link = &(*link)->next) {
        struct queued_request *queued = *link;
        if (queued->request.id != action->u.reply.request) {
            continue;
        }
        *link = queued->next;
        loop->request_count--;
        if (queued->reply != NULL) {
            struct loop_answer answer = {
                .result = action->u.reply.result,
                .job = action->u.reply.job,
                .changed = action->u.reply.changed,
                .text = action->u.reply.text,
                .revision = loop->revision,
            };
            queued->reply(queued->context, &answer);
        }
        request_free(queued);
        return;
    }
    log_line(LOG_WARN, "reply-without-request", "an answer came for no open request, ignoring",
             "text", action->u.reply.text, NULL);
}

/* ---- durable, then act --------------------------------------------------------------------- */

static void carry(struct loop *loop, const struct action *action)
{
    if (action->kind == ACTION_REPLY) {
        reply_now(loop, action);
    } else if (loop->carrier != NULL) {
        loop->carrier(loop->carrier_context, action);
    }
}

static void release_batch(struct loop *loop, struct batch *batch)
{
    bool crash = loop->drill != NULL && loop->drill->at == DRILL_MID &&
                 batch_holds(batch, loop->drill->sequence);
    loop->leaving = batch; /* who goes away in a pause is not called back */
    batch_log_trace(batch);
    uint32_t count = batch_action_count(batch);
    uint32_t end = crash ? (count + 1) / 2 : count;
    for (uint32_t index = 0; index < end; index++) {
        carry(loop, batch_action(batch, index));
        loop_may_pause(loop);
    }
    if (loop->carrier != NULL && count > 0) {
        loop->carrier(loop->carrier_context, NULL);
    }
    if (crash) {
        drill_die();
    }
    batch_call_back(batch);
    loop->leaving = NULL;
}

static void call_watchers(struct loop *loop)
{
    for (uint32_t index = 0; index < LOOP_WATCHERS_MAX; index++) {
        if (loop->watchers[index].callback != NULL) {
            loop->watchers[index].callback(loop->watchers[index].context);
        }
    }
}

/* True when more is durable than before. */
static bool take_revision(struct loop *loop)
{
    bool more = loop->store_status.durable_sequence > loop->revision;
    loop->revision = loop->store_status.durable_sequence;
    return more;
}

/* Lets go of every held batch that is durable. */
static void release(struct loop *loop)
{
    if (loop->releasing) {
        return; /* a callback asked for something; the outer call goes on */
    }
    loop->releasing = true;
    bool commit = take_revision(loop);
    struct batch *batch;
    while ((batch = batch_list_take(&loop->held, loop->store_status.durable_ticket)) != NULL) {
        commit = take_revision(loop) || commit; /* a pause may have seen another commit */
        release_batch(loop, batch);
        if (batch_is_large(batch)) {
            loop->burst_ms = loop_now_ms();
        }
        if (loop->spare == NULL && batch_reuse(batch)) {
            loop->spare = batch;
        } else {
            (void)batch_free(batch);
        }
    }
    if (commit) {
        call_watchers(loop);
    }
    loop->releasing = false;
}

/* Tells the core when commits begin to fail, and when they work again. */
static void look_at_store(struct loop *loop)
{
    const struct store_status *status = &loop->store_status;
    if (status->condition == STORE_FENCED) {
        log_line(LOG_ERROR, "store-fenced", "another process has written the journal, ending",
                 "reason", status->reason, NULL);
        tell_fatal(loop, status->reason);
        return;
    }
    bool failing = status->condition == STORE_RETRYING && status->tries >= STORE_TRIES_BEFORE_TOLD;
    if (failing == loop->store_told_failing || (!failing && status->condition == STORE_RETRYING)) {
        return;
    }
    loop->store_told_failing = failing;
    if (failing) {
        log_line(LOG_ERROR, "store-failing",
                 "the journal cannot be written; nothing is decided until it can", "reason",
                 status->reason, NULL);
    } else {
        log_line(LOG_INFO, "store-works", "the journal can be written again", NULL);
    }
    struct event event = {.kind = EVENT_STORE, .u.store = failing ? STORE_FAILING : STORE_OK};
    queue_event(loop, &event, NULL);
}

static void wake_cb(uv_poll_t *poll, int status, int events)
{
    struct loop *loop = poll->data;
    (void)status; /* an error shows in store_poll */
    (void)events;
    store_poll(loop->store, &loop->store_status);
    look_at_store(loop);
    release(loop);
}

/* ---- a turn -------------------------------------------------------------------------------- */

static void take_snapshot(struct loop *loop)
{
    struct err err = {0};
    uint64_t ticket;
    store_snapshot_begin(loop->store);
    int result = core_snapshot(loop->core, store_snapshot_add, loop->store);
    result = store_snapshot_end(loop->store, result, &ticket, &err);
    if (result < 0) {
        log_line(LOG_WARN, "snapshot-failed", "no snapshot was taken, ignoring", "error", err.text,
                 NULL);
    } else {
        loop->figures.snapshots++;
    }
}

/* Hands the open batch to the store and holds what rests on it. */
static void seal(struct loop *loop)
{
    if (batch_is_empty(loop->open)) {
        return;
    }
    struct err err = {0};
    if (batch_append(loop->open, loop->store, &err) < 0) {
        log_line(LOG_ERROR, "store-refused", "the store takes no more records, ending", "error",
                 err.text, NULL);
        tell_fatal(loop, err.text);
        return;
    }
    batch_list_put(&loop->held, loop->open);
    loop->open = loop->spare != NULL ? loop->spare : batch_create();
    loop->spare = NULL;
    if (store_snapshot_due(loop->store)) {
        take_snapshot(loop);
    }
    store_status(loop->store, &loop->store_status);
}

/* What was stepped so far is handed to the store, what became durable meanwhile is let go of, and
 * then others have their turn. */
void loop_may_pause(struct loop *loop)
{
    const uint64_t now_us = uv_hrtime() / 1000;
    if (now_us - loop->pause_us < LOOP_PAUSE_US || loop->pausing || loop->finished) {
        return;
    }
    loop->pause_us = now_us;
    seal(loop);
    store_poll(loop->store, &loop->store_status);
    look_at_store(loop);
    release(loop); /* long work in its turn: it pauses for the others as well */
    if (loop->pause.callback != NULL && !loop->finished) {
        loop->pausing = true;
        loop->pause.callback(loop->pause.context);
        loop->pausing = false;
    }
    loop->pause_us = uv_hrtime() / 1000;
}

static void timer_cb(uv_timer_t *timer)
{
    (void)timer; /* it only ends the wait: the turn that follows looks at the clock */
}

static void arm_timer(struct loop *loop)
{
    if (loop->event_count > 0 || loop->requests != NULL) {
        hurry(loop);
        return;
    }
    uint64_t deadline = core_deadline_ms(loop->core);
    if (deadline == UINT64_MAX) {
        (void)uv_timer_stop(&loop->timer); /* cannot fail */
        return;
    }
    uint64_t now = loop_now_ms();
    uint64_t wait = deadline > now ? deadline - now : 0;
    /* The uv clock stands still during a turn: a timer counts from where it stood. */
    uv_update_time(loop->uv);
    CHECK(uv_timer_start(&loop->timer, timer_cb, wait < TIMER_MS_MAX ? wait : TIMER_MS_MAX, 0) ==
          0);
}

/* What was needed for a moment, in pieces, goes back to the system once the moment is over: the
 * allocator by itself gives back only what lies at its end. */
static void give_back(struct loop *loop)
{
    if (loop->burst_ms != 0 && loop->event_count == 0 &&
        loop_now_ms() - loop->burst_ms >= GIVE_BACK_MS) {
        loop->burst_ms = 0;
        (void)malloc_trim(0); /* 0: there was nothing to give */
    }
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct loop *loop = prepare->data;
    if (loop->finished) {
        return;
    }
    uint64_t start_us = uv_hrtime() / 1000;
    step_events(loop);
    step_ticks(loop);
    step_requests(loop);
    seal(loop);
    release(loop);
    if (loop->finished) {
        return; /* fatal: its handles are closing */
    }
    give_back(loop);
    arm_timer(loop);
    uint64_t took_us = uv_hrtime() / 1000 - start_us;
    loop->figures.turns++;
    loop->figures.turn_us += took_us;
    if (took_us > loop->figures.turn_us_max) {
        loop->figures.turn_us_max = took_us;
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

int loop_create(const struct loop_options *options, struct loop **ret_loop, struct err *err)
{
    struct loop *loop = mem_alloc(1, sizeof(*loop));
    loop->uv = options->uv;
    loop->core = options->core;
    loop->store = options->store;
    loop->drill = options->drill;
    loop->cluster_id = options->cluster_id != NULL ? options->cluster_id : "";
    loop->requests_end = &loop->requests;
    batch_list_init(&loop->held);
    store_status(loop->store, &loop->store_status);
    loop->revision = loop->store_status.durable_sequence;
    int result = uv_poll_init(loop->uv, &loop->wake, store_wake_fd(loop->store));
    if (result < 0) {
        (void)mem_free(loop);
        return err_set(err, result, "the store's descriptor cannot be watched: %s",
                       uv_strerror(result));
    }
    loop->open = batch_create();
    CHECK(uv_prepare_init(loop->uv, &loop->prepare) == 0);
    CHECK(uv_timer_init(loop->uv, &loop->timer) == 0);
    loop->prepare.data = loop;
    loop->timer.data = loop;
    loop->timer.timer_cb = timer_cb;
    loop->wake.data = loop;
    *ret_loop = loop;
    return 0;
}

static int random_id(char id[CLUSTER_ID_SIZE], struct err *err)
{
    uint8_t bytes[(CLUSTER_ID_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return err_set(err, -EIO, "the system gives no random numbers: %s", strerror(errno));
    }
    for (size_t index = 0; index < sizeof(bytes); index++) {
        static const char digits[] = "0123456789abcdef";
        id[2 * index] = digits[bytes[index] >> 4];
        id[2 * index + 1] = digits[bytes[index] & 15];
    }
    id[CLUSTER_ID_SIZE - 1] = '\0';
    return 0;
}

/* The id in the store counts; a given one makes a lost store again for agents that know it. */
static int choose_cluster_id(const struct loop *loop, char id[CLUSTER_ID_SIZE], struct err *err)
{
    const char *stored = core_globals(loop->core)->cluster_id;
    if (loop->cluster_id[0] == '\0') {
        return random_id(id, err);
    }
    if (stored[0] != '\0' && !text_equal(stored, loop->cluster_id)) {
        return err_set(err, -EINVAL, "the database is of cluster %s, but cluster_id says %s",
                       stored, loop->cluster_id);
    }
    (void)text_copy(id, CLUSTER_ID_SIZE, loop->cluster_id); /* its length was checked */
    return 0;
}

int loop_start(struct loop *loop, struct err *err)
{
    struct event event = {.kind = EVENT_START};
    int result = choose_cluster_id(loop, event.u.start.cluster_id, err);
    if (result == 0) {
        result = random_id(event.u.start.store_id, err);
    }
    if (result < 0) {
        return result;
    }
    CHECK(uv_poll_start(&loop->wake, UV_READABLE, wake_cb) == 0);
    CHECK(uv_prepare_start(&loop->prepare, prepare_cb) == 0);
    stamp(&event);
    step(loop, &event);
    loop->started = true;
    hurry(loop);
    return 0;
}

void loop_finish(struct loop *loop)
{
    if (loop->finished || !loop->started) {
        loop->finished = true; /* a start that failed leaves the journal as it was */
        return;
    }
    step_events(loop);
    seal(loop);
    if (!loop->finished && loop->store_status.since_snapshot > 0) {
        take_snapshot(loop);
    }
    loop->finished = true;
}

static void closed_cb(uv_handle_t *handle)
{
    (void)handle; /* the owner of the uv loop waits for all handles before loop_free() */
}

void loop_close(struct loop *loop)
{
    loop->finished = true;
    uv_close((uv_handle_t *)&loop->prepare, closed_cb);
    uv_close((uv_handle_t *)&loop->timer, closed_cb);
    uv_close((uv_handle_t *)&loop->wake, closed_cb);
}

static void requests_free(struct queued_request *list)
{
    while (list != NULL) {
        struct queued_request *next = list->next;
        request_free(list);
        list = next;
    }
}

struct loop *loop_free(struct loop *loop)
{
    if (loop == NULL) {
        return NULL;
    }
    while (loop->event_count > 0) {
        struct queued_event *queued = &loop->events[loop->event_first];
        loop->event_first = (loop->event_first + 1) % LOOP_EVENTS_MAX;
        loop->event_count--;
        message_pool_give(&loop->messages, queued->message);
    }
    requests_free(loop->requests);
    requests_free(loop->unanswered);
    struct batch *batch;
    while ((batch = batch_list_take(&loop->held, UINT64_MAX)) != NULL) {
        (void)batch_free(batch);
    }
    (void)batch_free(loop->open);
    (void)batch_free(loop->spare);
    message_pool_done(&loop->messages);
    return mem_free(loop);
}

/* ---- questions ----------------------------------------------------------------------------- */

void loop_when_durable(struct loop *loop, loop_callback *callback, void *context)
{
    struct batch *last = batch_list_last(&loop->held);
    if (!batch_is_empty(loop->open)) {
        batch_wait(loop->open, callback, context);
    } else if (last != NULL) {
        batch_wait(last, callback, context);
    } else {
        callback(context);
    }
}

int loop_on_commit(struct loop *loop, loop_callback *callback, void *context)
{
    for (uint32_t index = 0; index < LOOP_WATCHERS_MAX; index++) {
        if (loop->watchers[index].callback == NULL) {
            loop->watchers[index] = (struct watcher){callback, context};
            return 0;
        }
    }
    return -ENOSPC;
}

void loop_set_pause(struct loop *loop, loop_callback *callback, void *context)
{
    loop->pause = (struct watcher){callback, context};
}

void loop_forget(struct loop *loop, const void *context)
{
    if (loop->pause.context == context) {
        loop->pause = (struct watcher){NULL, NULL};
    }
    for (uint32_t index = 0; index < LOOP_WATCHERS_MAX; index++) {
        if (loop->watchers[index].context == context) {
            loop->watchers[index] = (struct watcher){NULL, NULL};
        }
    }
    struct queued_request *lists[] = {loop->requests, loop->unanswered};
    for (size_t list = 0; list < ARRAY_SIZE(lists); list++) {
        for (struct queued_request *queued = lists[list]; queued != NULL; queued = queued->next) {
            if (queued->context == context) {
                queued->reply = NULL;
            }
        }
    }
    if (loop->leaving != NULL) {
        batch_forget(loop->leaving, context);
    }
    batch_forget(loop->open, context);
    batch_list_forget(&loop->held, context);
}

void loop_set_carrier(struct loop *loop, loop_carrier *carrier, void *context)
{
    loop->carrier = carrier;
    loop->carrier_context = context;
}

void loop_set_fatal(struct loop *loop, loop_fatal *fatal, void *context)
{
    loop->fatal = fatal;
    loop->fatal_context = context;
}

const struct core *loop_core(const struct loop *loop)
{
    return loop->core;
}

struct store *loop_store(const struct loop *loop)
{
    return loop->store;
}

struct message_pool *loop_messages(struct loop *loop)
{
    return &loop->messages;
}

uv_loop_t *loop_uv(const struct loop *loop)
{
    return loop->uv;
}

uint64_t loop_revision(const struct loop *loop)
{
    return loop->revision;
}

uint64_t loop_core_revision(const struct loop *loop)
{
    return loop->store_status.durable_sequence + loop->store_status.pending_records +
           batch_record_count(loop->open);
}

struct loop_figures loop_figures(const struct loop *loop)
{
    struct loop_figures figures = loop->figures;
    figures.batches = batch_list_count(&loop->held);
    return figures;
}

bool loop_is_ready(const struct loop *loop, char text[LOOP_READY_TEXT_SIZE])
{
    if (loop->finished) {
        (void)text_copy(text, LOOP_READY_TEXT_SIZE, "the controller is ending");
        return false;
    }
    if (loop->store_told_failing) {
        (void)text_format(text, LOOP_READY_TEXT_SIZE, "the journal cannot be written: %s",
                          loop->store_status.reason);
        return false;
    }
    if (!core_ready(loop->core)) {
        (void)text_copy(text, LOOP_READY_TEXT_SIZE,
                        "just started: waiting for the agents' reports before judging anyone");
        return false;
    }
    (void)text_copy(text, LOOP_READY_TEXT_SIZE, "ready");
    return true;
}
