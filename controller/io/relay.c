/* relay.c: see relay.h.
 *
 * Nonces of our own questions have the top bit set; the core's never do, so that an answer finds
 * whoever asked: a snapshot that the core wanted goes to the core. An answer counts only from the
 * session that was asked.
 *
 * What may go wrong: no answer (timeout), the agent ends (closed), too much data (cut off at
 * RELAY_TAIL_MAX with -EMSGSIZE), a late answer (nobody waits any more: dropped). */
#include "controller/io/relay.h"

#include <errno.h>
#include <inttypes.h>

#include "controller/core/state.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

#define RELAY_NONCE (1ull << 63)

enum { RELAY_SWEEP_MS = 500 };

struct read {
    uint64_t nonce; /* 0 = free */
    uint64_t session;
    uint64_t deadline_ms;
    uint64_t bytes;
    relay_reply *reply; /* NULL: nobody listens any more */
    void *context;
};

struct relay {
    struct loop *loop;
    struct agents *agents;
    struct exchange *exchange;
    uv_timer_t timer;
    uint64_t serial;
    struct read reads[RELAY_READS_MAX];
    struct message message; /* scratch of what is sent */
    struct relay_figures figures;
};

/* ---- exchanged keys ------------------------------------------------------------------------ */

static bool is_current(void *context, uint32_t job_id, uint32_t attempt)
{
    const struct relay *relay = context;
    const struct job *job = core_job(loop_core(relay->loop), job_id);
    return job != NULL && !core_job_over(job) && job->d.attempted && job->d.attempt == attempt;
}

static bool is_alive(void *context, uint64_t session)
{
    const struct relay *relay = context;
    return agents_has_session(relay->agents, session);
}

static void answer(void *context, uint64_t session, const struct msg_exchange *value)
{
    struct relay *relay = context;
    relay->message = (struct message){.kind = MSG_EXCHANGE};
    relay->message.u.exchange = *value;
    (void)agents_send(relay->agents, session, &relay->message); /* gone: it asks again */
}

/* True when the node holds the slot that the rank belongs to. */
static bool owns_rank(const struct relay *relay, const struct job *job, uint32_t node,
                      uint32_t rank)
{
    if (job->d.ranks_per_node == 0 || rank / job->d.ranks_per_node >= job->slot_count) {
        return false;
    }
    const struct slot *slot = core_slot(loop_core(relay->loop), job, rank / job->d.ranks_per_node);
    return slot != NULL && slot->d.node == node;
}

static void exchanged(struct relay *relay, uint64_t session, uint32_t node,
                      const struct msg_exchange *exchange)
{
    if (!is_current(relay, exchange->job, exchange->attempt) ||
        !owns_rank(relay, core_job(loop_core(relay->loop), exchange->job), node, exchange->rank)) {
        relay->figures.stale++;
        return;
    }
    int result;
    if (exchange->kind == EXCHANGE_PUT) {
        relay->figures.puts++;
        result = exchange_put(relay->exchange, exchange);
    } else {
        relay->figures.gets++;
        result = exchange_get(relay->exchange, session, exchange);
    }
    if (result < 0) {
        relay->figures.refused++;
        log_line(LOG_WARN, "exchange-refused",
                 result == -EEXIST ? "a second value for a key of this attempt, ignoring"
                                   : "too many keys are exchanged at a time, ignoring",
                 "name", exchange->key, NULL);
    }
}

/* ---- questions ----------------------------------------------------------------------------- */

static void finish(struct relay *relay, struct read *read, const struct relay_piece *piece)
{
    relay_reply *reply = read->reply;
    void *context = read->context;
    if (piece->last || piece->error < 0) {
        relay->figures.reads_failed += piece->error < 0 ? 1 : 0;
        *read = (struct read){.nonce = 0};
    }
    if (reply != NULL) {
        reply(context, piece);
    }
}

static struct read *read_of(struct relay *relay, uint64_t nonce, uint64_t session)
{
    for (uint32_t index = 0; index < RELAY_READS_MAX; index++) {
        struct read *read = &relay->reads[index];
        if (read->nonce == nonce && read->session == session) {
            return read;
        }
    }
    return NULL;
}

static void piece_came(struct relay *relay, uint64_t session, uint64_t nonce,
                       struct relay_piece piece)
{
    struct read *read = read_of(relay, nonce, session);
    if (read == NULL) {
        return; /* too late */
    }
    read->bytes += piece.size;
    read->deadline_ms = loop_now_ms() + RELAY_TIMEOUT_MS;
    if (read->bytes > RELAY_TAIL_MAX) {
        piece = (struct relay_piece){.error = -EMSGSIZE};
    }
    if (piece.error < 0) {
        piece.last = true;
    }
    finish(relay, read, &piece);
}

static bool message_cb(void *context, uint64_t session, uint32_t node,
                       const struct message *message)
{
    struct relay *relay = context;
    switch (message->kind) {
    case MSG_EXCHANGE:
        exchanged(relay, session, node, &message->u.exchange);
        return true;
    case MSG_LOG_DATA: {
        const struct msg_log_data *data = &message->u.log_data;
        piece_came(relay, session, data->nonce,
                   (struct relay_piece){data->error, data->text, data->size, data->last});
        return true;
    }
    case MSG_SNAPSHOT_DATA: {
        const struct msg_snapshot_data *data = &message->u.snapshot_data;
        if ((data->nonce & RELAY_NONCE) == 0) {
            return false;
        }
        piece_came(relay, session, data->nonce,
                   (struct relay_piece){0, data->text, data->size, true});
        return true;
    }
    default:
        return false;
    }
}

static void closed_cb(void *context, uint64_t session)
{
    struct relay *relay = context;
    for (uint32_t index = 0; index < RELAY_READS_MAX; index++) {
        struct read *read = &relay->reads[index];
        if (read->nonce != 0 && read->session == session) {
            finish(relay, read, &(struct relay_piece){.error = -ENOTCONN, .last = true});
        }
    }
}

static void sweep_cb(uv_timer_t *timer)
{
    struct relay *relay = timer->data;
    uint64_t now = loop_now_ms();
    for (uint32_t index = 0; index < RELAY_READS_MAX; index++) {
        struct read *read = &relay->reads[index];
        if (read->nonce != 0 && now >= read->deadline_ms) {
            finish(relay, read, &(struct relay_piece){.error = -ETIMEDOUT, .last = true});
        }
    }
    exchange_sweep(relay->exchange, is_current, relay);
}

/* The connected session of a node, 0 when there is none. */
static int session_of(const struct relay *relay, uint32_t id, uint64_t *ret_session,
                      struct err *err)
{
    const struct node *node = core_node(loop_core(relay->loop), id);
    if (node == NULL) {
        return err_set(err, -ESRCH, "no such node");
    }
    if (node->session == 0 || !agents_has_session(relay->agents, node->session)) {
        return err_set(err, -ENOTCONN, "the agent of %s is not connected", node->d.name);
    }
    *ret_session = node->session;
    return 0;
}

/* Sends relay->message to the node and waits for the answer under its nonce. */
static int ask(struct relay *relay, uint32_t node, uint64_t nonce, relay_reply *reply,
               void *context, struct err *err)
{
    uint64_t session = 0;
    int result = session_of(relay, node, &session, err);
    if (result < 0) {
        return result;
    }
    struct read *read = read_of(relay, 0, 0);
    if (read == NULL) {
        return err_set(err, -EAGAIN, "%d reads wait already; try again", RELAY_READS_MAX);
    }
    if (!agents_send(relay->agents, session, &relay->message)) {
        return err_set(err, -ENOTCONN, "the agent is not connected");
    }
    *read = (struct read){
        .nonce = nonce,
        .session = session,
        .deadline_ms = loop_now_ms() + RELAY_TIMEOUT_MS,
        .reply = reply,
        .context = context,
    };
    relay->figures.reads++;
    return 0;
}

static int find_job(const struct relay *relay, uint32_t id, const struct job **ret_job,
                    struct err *err)
{
    *ret_job = core_job(loop_core(relay->loop), id);
    return *ret_job != NULL ? 0 : err_set(err, -ENOENT, "no job with id %" PRIu32, id);
}

int relay_log_read(struct relay *relay, uint32_t job_id, uint32_t attempt, uint32_t rank,
                   uint32_t node, uint64_t tail_bytes, relay_reply *reply, void *context,
                   struct err *err)
{
    const struct job *job;
    int result = find_job(relay, job_id, &job, err);
    if (result < 0) {
        return result;
    }
    uint64_t world = (uint64_t)job->d.tensor * job->d.context * job->d.pipeline * job->d.data;
    if (job->d.ranks_per_node == 0 || rank >= world) { /* the slots of an ended job are gone */
        return err_set(err, -ERANGE, "job %s has no rank %" PRIu32, job->d.name, rank);
    }
    if (node == 0) {
        const struct slot *slot =
            core_slot(loop_core(relay->loop), job, rank / job->d.ranks_per_node);
        node = slot != NULL ? slot->d.node : 0;
    }
    if (node == 0) {
        return err_set(err, -ESRCH, "no node holds rank %" PRIu32 " of %s now", rank, job->d.name);
    }
    uint64_t nonce = RELAY_NONCE | ++relay->serial;
    relay->message = (struct message){.kind = MSG_LOG_READ};
    struct msg_log_read *ask_log = &relay->message.u.log_read;
    ask_log->nonce = nonce;
    ask_log->job = job_id;
    ask_log->attempt = attempt;
    ask_log->rank = rank;
    ask_log->tail_bytes = tail_bytes < RELAY_TAIL_MAX ? tail_bytes : RELAY_TAIL_MAX;
    (void)text_copy(ask_log->job_name, sizeof(ask_log->job_name), job->d.name); /* same size */
    return ask(relay, node, nonce, reply, context, err);
}

int relay_snapshot(struct relay *relay, uint32_t job_id, uint32_t attempt, uint32_t node,
                   relay_reply *reply, void *context, struct err *err)
{
    const struct job *job;
    int result = find_job(relay, job_id, &job, err);
    if (result < 0) {
        return result;
    }
    uint64_t nonce = RELAY_NONCE | ++relay->serial;
    relay->message = (struct message){.kind = MSG_SNAPSHOT_ASK};
    struct msg_snapshot_ask *ask_snapshot = &relay->message.u.snapshot_ask;
    ask_snapshot->nonce = nonce;
    ask_snapshot->job = job_id;
    ask_snapshot->attempt = attempt;
    return ask(relay, node, nonce, reply, context, err);
}

void relay_forget(struct relay *relay, const void *context)
{
    for (uint32_t index = 0; index < RELAY_READS_MAX; index++) {
        if (relay->reads[index].context == context) {
            relay->reads[index].reply = NULL;
        }
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

struct relay *relay_create(struct loop *loop, struct agents *agents)
{
    struct relay *relay = mem_alloc(1, sizeof(*relay));
    relay->loop = loop;
    relay->agents = agents;
    relay->exchange = exchange_create(&exchange_limits_default, answer, is_alive, relay);
    CHECK(uv_timer_init(loop_uv(loop), &relay->timer) == 0);
    relay->timer.data = relay;
    CHECK(uv_timer_start(&relay->timer, sweep_cb, RELAY_SWEEP_MS, RELAY_SWEEP_MS) == 0);
    struct agents_relay hooks = {.message = message_cb, .closed = closed_cb, .context = relay};
    agents_set_relay(agents, &hooks);
    return relay;
}

static void timer_closed_cb(uv_handle_t *handle)
{
    (void)handle; /* relay_free() comes after the uv loop has ended */
}

void relay_close(struct relay *relay)
{
    for (uint32_t index = 0; index < RELAY_READS_MAX; index++) {
        if (relay->reads[index].nonce != 0) {
            finish(relay, &relay->reads[index],
                   &(struct relay_piece){.error = -ENOTCONN, .last = true});
        }
    }
    struct agents_relay nobody = {.context = NULL};
    agents_set_relay(relay->agents, &nobody);
    uv_close((uv_handle_t *)&relay->timer, timer_closed_cb);
}

struct relay *relay_free(struct relay *relay)
{
    if (relay == NULL) {
        return NULL;
    }
    (void)exchange_free(relay->exchange);
    return mem_free(relay);
}

struct relay_figures relay_figures(const struct relay *relay)
{
    struct relay_figures figures = relay->figures;
    figures.exchange = exchange_figures(relay->exchange);
    return figures;
}
