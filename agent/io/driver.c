/* driver.c: persist, then act. See driver.h for the path of an event. */
#include "agent/io/driver.h"

#include <errno.h>
#include <string.h>

#include "agent/io/link.h"
#include "agent/io/mailboxes.h"
#include "agent/io/peers.h"
#include "agent/io/requests.h"
#include "agent/io/saves.h"
#include "agent/io/shims.h"
#include "agent/io/validate.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"

struct held {
    struct held *next;
    uint64_t batch; /* carried out once this batch is durable */
    struct agent_action action;
};

struct deferred {
    struct deferred *next;
    driver_function *function;
    void *context;
};

struct batch {
    struct agent_record *records;
    size_t count;
    size_t capacity;
};

struct agent_driver {
    struct agent_io *io;
    struct agent_journal *journal;
    struct agent_output *output;
    uv_timer_t timer;  /* the core's deadline */
    uv_timer_t retry;  /* of a failed commit */
    uv_prepare_t turn; /* before the loop blocks */
    uv_idle_t awake;   /* keeps the loop from blocking while something is deferred */
    uv_work_t work;    /* the commit under way */
    struct err work_err;
    struct err rewrite_err;
    int work_result;
    bool rewrite;          /* the commit under way replaces the file */
    bool rewrite_failed;   /* … could not, and has appended instead */
    size_t rewrite_beyond; /* lines of the file: only then */
    bool working;
    bool failing;
    bool acting; /* an action is being carried out */
    bool closed;
    struct batch open;    /* gathered since the last commit began */
    struct batch writing; /* handed to the commit */
    struct batch image;   /* the whole state with it, for a commit that replaces the file */
    uint64_t open_number; /* of the batch being gathered, from 1 */
    uint64_t durable;     /* batches up to here are */
    struct held *held;
    struct held **held_end;
    size_t held_count;
    struct deferred *deferred;
    struct deferred **deferred_end;
};

/* ---- batches ----------------------------------------------------------------------------------- */

static int batch_put(const struct agent_record *record, void *context)
{
    struct batch *batch = context;
    if (batch->count == batch->capacity) {
        batch->capacity = batch->capacity > 0 ? 2 * batch->capacity : 16;
        batch->records = mem_grow(batch->records, batch->capacity, sizeof(batch->records[0]));
    }
    batch->records[batch->count++] = *record;
    return 0;
}

/* ---- carrying out ------------------------------------------------------------------------------ */

static void act(struct agent_driver *driver, const struct agent_action *action)
{
    struct agent_io *io = driver->io;
    driver->acting = true;
    switch ((enum agent_action_kind)action->kind) {
    case AGENT_ACTION_DIAL:
        link_dial(io->link);
        break;
    case AGENT_ACTION_HANG_UP:
        link_hang_up(io->link);
        break;
    case AGENT_ACTION_SEND:
        link_send(io->link, &action->u.message);
        break;
    case AGENT_ACTION_SCAN:
        shims_scan(io->shims, action->job);
        break;
    case AGENT_ACTION_START:
        shims_start(io->shims, &action->u.start);
        break;
    case AGENT_ACTION_TERM:
        shims_term(io->shims, action->job, action->attempt);
        break;
    case AGENT_ACTION_KILL:
        shims_kill(io->shims, action->job, action->attempt);
        break;
    case AGENT_ACTION_SWEEP:
        shims_sweep(io->shims, action->job, action->attempt);
        break;
    case AGENT_ACTION_FORGET:
        shims_forget(io->shims, action->job, action->attempt);
        break;
    case AGENT_ACTION_MAIL_ANSWER:
        mailboxes_answer(io->mailboxes, action->job, action->attempt, &action->u.mail);
        break;
    case AGENT_ACTION_MAIL_REQUEST:
        mailboxes_request(io->mailboxes, action->job, action->attempt, &action->u.request);
        break;
    case AGENT_ACTION_MAIL_ABORT:
        mailboxes_abort(io->mailboxes, action->job, action->attempt);
        break;
    case AGENT_ACTION_PEER_PROBE:
        peers_probe(io->peers, &action->u.probe);
        break;
    case AGENT_ACTION_PEER_REPLY:
        peers_reply(io->peers, action->token, &action->u.reply);
        break;
    case AGENT_ACTION_CHECK:
        requests_check(io->requests, &action->u.check);
        break;
    case AGENT_ACTION_VALIDATE:
        validate_begin(io->validate, &action->u.validate);
        break;
    case AGENT_ACTION_LOG_READ:
        requests_log_read(io->requests, &action->u.log);
        break;
    case AGENT_ACTION_SNAPSHOT:
        requests_snapshot(io->requests, &action->u.snapshot);
        break;
    case AGENT_ACTION_SAVES:
        saves_ask(io->saves, &action->u.saves);
        break;
    case AGENT_ACTION_EXIT:
        io->closing = true;
        link_finish(io->link);
        break;
    }
    driver->acting = false;
}

static void hold(struct agent_driver *driver, const struct agent_action *action, uint64_t batch)
{
    if (driver->held_count >= DRIVER_HELD_MAX && action->kind == AGENT_ACTION_SEND) {
        return; /* said again by itself */
    }
    struct held *held = mem_alloc(1, sizeof(*held));
    held->batch = batch;
    held->action = *action;
    *driver->held_end = held;
    driver->held_end = &held->next;
    driver->held_count++;
}

static void release(struct agent_driver *driver)
{
    while (driver->held != NULL && driver->held->batch <= driver->durable) {
        struct held *held = driver->held;
        driver->held = held->next;
        if (driver->held == NULL) {
            driver->held_end = &driver->held;
        }
        driver->held_count--;
        act(driver, &held->action);
        mem_free(held);
    }
}

/* The batch that everything decided now has to wait for: 0 = nothing is open or under way. */
static uint64_t awaited(const struct agent_driver *driver)
{
    if (driver->open.count > 0) {
        return driver->open_number;
    }
    return driver->working || driver->writing.count > 0 ? driver->open_number - 1 : 0;
}

static void take_output(struct agent_driver *driver)
{
    const struct agent_output *output = driver->output;
    for (uint32_t i = 0; i < output->trace_count; i++) {
        log_line(LOG_INFO, "move", output->traces[i], NULL);
    }
    for (uint32_t i = 0; i < output->record_count; i++) {
        (void)batch_put(&output->records[i], &driver->open); /* never fails */
    }
    const uint64_t batch = awaited(driver);
    for (uint32_t i = 0; i < output->action_count; i++) {
        const struct agent_action *action = &output->actions[i];
        const bool beat = action->kind == AGENT_ACTION_SEND && action->u.message.kind == MSG_BEAT;
        const bool end = action->kind == AGENT_ACTION_EXIT;
        if (batch == 0 || ((beat || end) && driver->failing)) {
            act(driver, action);
        } else {
            hold(driver, action, batch);
        }
    }
}

static void timer_cb(uv_timer_t *timer)
{
    struct agent_driver *driver = timer->data;
    struct agent_event event = {.kind = AGENT_EVENT_TICK};
    driver_step(driver, &event);
}

static void arm(struct agent_driver *driver)
{
    const uint64_t deadline = agent_core_deadline_ms(driver->io->core);
    if (driver->closed || deadline == UINT64_MAX) {
        (void)uv_timer_stop(&driver->timer); /* cannot fail */
        return;
    }
    const uint64_t now = agent_io_now_ms();
    uv_update_time(driver->io->loop);
    const int r = uv_timer_start(&driver->timer, timer_cb, deadline > now ? deadline - now : 0, 0);
    CHECK(r == 0);
}

void driver_step(struct agent_driver *driver, struct agent_event *event)
{
    CHECK(!driver->acting);
    if (driver->io->closing) {
        return;
    }
    event->now_ms = agent_io_now_ms();
    event->wall_ms = agent_io_wall_ms();
    const int r = agent_core_step(driver->io->core, event, driver->output);
    CHECK(r == 0);
    if (driver->io->options->debug) {
        agent_core_check(driver->io->core);
    }
    take_output(driver);
    arm(driver);
}

/* ---- commits ------------------------------------------------------------------------------------ */

/* A file that cannot be replaced (no descriptor, no room for two of them) can still grow, and what was
 * decided must not wait for more than that. */
static void commit_work(uv_work_t *work)
{
    struct agent_driver *driver = work->data;
    bool replaced = false;
    driver->rewrite_failed = false;
    if (driver->rewrite) {
        driver->work_result =
            agent_journal_rewrite(driver->journal, driver->image.records, driver->image.count,
                                  &replaced, &driver->work_err);
        if (driver->work_result == 0 || replaced) {
            return;
        }
        driver->rewrite_failed = true;
        driver->rewrite_err = driver->work_err;
    }
    driver->work_result = agent_journal_append(driver->journal, driver->writing.records,
                                               driver->writing.count, &driver->work_err);
}

static void tell_health(struct agent_driver *driver, bool ok, const char *text)
{
    struct agent_event event = {.kind = AGENT_EVENT_HEALTH, .ok = ok, .text = text};
    driver_step(driver, &event);
}

/* Who ends this agent is not kept waiting for its disk: what could not be recorded, its goodbye with
 * it, is as if it had been killed. */
static void end_if_told(struct agent_driver *driver)
{
    for (const struct held *held = driver->held; held != NULL; held = held->next) {
        if (held->action.kind == AGENT_ACTION_EXIT && !driver->io->closing) {
            log_line(LOG_ERROR, "ending-unrecorded",
                     "asked to end while the journal cannot be written: what it lacks is lost",
                     NULL);
            act(driver, &held->action);
        }
    }
}

static void commit(struct agent_driver *driver);

static void retry_cb(uv_timer_t *timer)
{
    commit(timer->data);
}

static void commit_cb(uv_work_t *work, int status)
{
    struct agent_driver *driver = work->data;
    driver->working = false;
    CHECK(status == 0); /* never cancelled */
    if (driver->work_result != 0) {
        log_line(LOG_ERROR, "commit-failed", "actions are held until it can be written", "error",
                 driver->work_err.text, NULL);
        const bool first = !driver->failing;
        driver->failing = true;
        if (!driver->closed) {
            const int r = uv_timer_start(&driver->retry, retry_cb, DRIVER_RETRY_MS, 0);
            CHECK(r == 0);
        }
        if (first) {
            tell_health(driver, false, driver->work_err.text);
        }
        end_if_told(driver);
        return;
    }
    driver->writing.count = 0;
    driver->durable = driver->open_number - 1;
    driver->rewrite_beyond = AGENT_JOURNAL_REWRITE;
    if (driver->rewrite_failed) {
        driver->rewrite_beyond = agent_journal_lines(driver->journal) + DRIVER_REWRITE_AGAIN;
        log_line(LOG_ERROR, "rewrite-failed", "the journal grows until it can be rewritten",
                 "error", driver->rewrite_err.text, NULL);
    }
    const bool was_failing = driver->failing;
    driver->failing = false;
    release(driver);
    if (was_failing) {
        log_line(LOG_INFO, "commit-works", "the journal can be written again", NULL);
        tell_health(driver, true, "");
    }
}

/* Hands what is gathered to the pool; with a long file the whole state instead, which holds it. */
static void commit(struct agent_driver *driver)
{
    if (driver->working) {
        return;
    }
    if (driver->writing.count == 0) {
        struct batch empty = driver->writing;
        driver->writing = driver->open;
        driver->open = empty;
        driver->open_number++;
        driver->rewrite = agent_journal_lines(driver->journal) > driver->rewrite_beyond;
        if (driver->rewrite) {
            driver->image.count = 0;
            (void)agent_core_snapshot(driver->io->core, batch_put,
                                      &driver->image); /* the visitor never fails */
        }
    }
    driver->working = true;
    driver->work.data = driver;
    const int r = uv_queue_work(driver->io->loop, &driver->work, commit_work, commit_cb);
    CHECK(r == 0);
}

/* ---- the turn of the loop ------------------------------------------------------------------------ */

static void run_deferred(struct agent_driver *driver)
{
    while (driver->deferred != NULL) {
        struct deferred *deferred = driver->deferred;
        driver->deferred = deferred->next;
        if (driver->deferred == NULL) {
            driver->deferred_end = &driver->deferred;
        }
        deferred->function(deferred->context);
        mem_free(deferred);
    }
    (void)uv_idle_stop(&driver->awake); /* cannot fail */
}

static void turn_cb(uv_prepare_t *turn)
{
    struct agent_driver *driver = turn->data;
    run_deferred(driver);
    if (driver->open.count > 0 && !driver->working && !driver->failing) {
        commit(driver);
    }
}

static void awake_cb(uv_idle_t *awake)
{
    (void)awake; /* only there to keep the loop from blocking */
}

void driver_defer(struct agent_driver *driver, driver_function *function, void *context)
{
    struct deferred *deferred = mem_alloc(1, sizeof(*deferred));
    deferred->function = function;
    deferred->context = context;
    *driver->deferred_end = deferred;
    driver->deferred_end = &deferred->next;
    if (!driver->closed) {
        const int r = uv_idle_start(&driver->awake, awake_cb);
        CHECK(r == 0);
    }
}

bool driver_is_idle(const struct agent_driver *driver)
{
    return awaited(driver) == 0 && driver->held == NULL && driver->deferred == NULL;
}

/* ---- life ----------------------------------------------------------------------------------------- */

int driver_create(struct agent_io *io, struct agent_journal *journal,
                  const struct agent_limits *limits, struct agent_driver **ret_driver)
{
    struct agent_driver *driver = mem_alloc(1, sizeof(*driver));
    int r = agent_output_create(limits, &driver->output);
    if (r != 0) {
        mem_free(driver);
        return r;
    }
    driver->io = io;
    driver->journal = journal;
    driver->open_number = 1;
    driver->rewrite_beyond = AGENT_JOURNAL_REWRITE;
    driver->held_end = &driver->held;
    driver->deferred_end = &driver->deferred;
    r = uv_timer_init(io->loop, &driver->timer);
    CHECK(r == 0);
    r = uv_timer_init(io->loop, &driver->retry);
    CHECK(r == 0);
    r = uv_prepare_init(io->loop, &driver->turn);
    CHECK(r == 0);
    r = uv_idle_init(io->loop, &driver->awake);
    CHECK(r == 0);
    driver->timer.data = driver;
    driver->retry.data = driver;
    driver->turn.data = driver;
    r = uv_prepare_start(&driver->turn, turn_cb);
    CHECK(r == 0);
    *ret_driver = driver;
    return 0;
}

void driver_close(struct agent_driver *driver)
{
    driver->closed = true;
    uv_close((uv_handle_t *)&driver->timer, NULL);
    uv_close((uv_handle_t *)&driver->retry, NULL);
    uv_close((uv_handle_t *)&driver->turn, NULL);
    uv_close((uv_handle_t *)&driver->awake, NULL);
}

struct agent_driver *driver_free(struct agent_driver *driver)
{
    if (driver == NULL) {
        return NULL;
    }
    while (driver->held != NULL) {
        struct held *held = driver->held;
        driver->held = held->next;
        mem_free(held);
    }
    while (driver->deferred != NULL) {
        struct deferred *deferred = driver->deferred;
        driver->deferred = deferred->next;
        mem_free(deferred);
    }
    mem_free(driver->open.records);
    mem_free(driver->writing.records);
    mem_free(driver->image.records);
    (void)agent_output_free(driver->output);
    return mem_free(driver);
}
