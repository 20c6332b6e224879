/* agents.c: who is connected, and as which node.
 *
 *   CONNECTED ── hello ──► HELD ── welcome ──► WELCOMED
 *       │                   │                     │
 *       └───────────────────┴──── end ────────────┴──► (gone; EVENT_CLOSED if the core knew it)
 *
 * Session ids are never reused: the upper bits count, the lower 16 are the place in the table, so
 * that an action for a session that is gone finds nobody. Frames out are encoded into one scratch
 * buffer; a fan-out to every agent encodes each frame once and copies it only for sockets that do
 * not take it at once.
 *
 * What may go wrong: see session.c for the connections. The listener refuses above sessions_max by
 * closing at once (SESSION_END_FULL). A message of ours that cannot be encoded is a bug: it is
 * counted, logged and not sent; orders are level state and the core's next one may be better. */
#include "controller/io/agents.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>

#include "controller/core/state.h"
#include "controller/io/message_pool.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "proto/wire/frame.h"
#include "proto/wire/wire.h"

enum { FRAMES_GATHERED_MAX = 64 << 10 };
enum { PLACE_BITS = 16, PLACE_MASK = (1 << PLACE_BITS) - 1 };

enum link_step { LINK_CONNECTED, LINK_HELD, LINK_WELCOMED };

/* One place of the table. */
struct link {
    struct session *session; /* NULL: free */
    uint64_t id;
    uint32_t place;
    enum link_step step;
    bool ended;
    uint32_t node;
    uint64_t ping_ms; /* asked then; 0 = no ping is open */
    uint64_t unknown; /* of its reader, already counted */
    char name[NAME_SIZE];
};

struct agents {
    struct loop *loop;
    struct agents_options options;
    struct session_owner owner;
    uv_tcp_t listener;
    uv_timer_t sweeper;
    int handles; /* of our own still to be closed */
    bool closing;
    bool orphan; /* could not be created: frees itself once its handles are closed */
    uint64_t serial;
    struct link *links;  /* [sessions_max] */
    uint32_t *free_list; /* places */
    uint32_t free_count;
    struct agents_relay relay;
    struct agents_figures figures;
    struct buf frame;       /* encoded for `gathering`, and not sent yet */
    struct link *gathering; /* NULL: nobody */
    struct message message; /* scratch of one action */
    uint64_t log_second;
    uint32_t log_lines;
    uint16_t port;
};

/* ---- the table ----------------------------------------------------------------------------- */

static struct link *link_of(const struct agents *agents, uint64_t id)
{
    uint64_t place = id & PLACE_MASK;
    if (place >= agents->options.sessions_max) {
        return NULL;
    }
    struct link *link = &agents->links[place];
    return link->session != NULL && link->id == id && !link->ended ? link : NULL;
}

bool agents_has_session(const struct agents *agents, uint64_t session)
{
    return link_of(agents, session) != NULL;
}

/* Nobody may fill the disk by knocking: lines about strangers are rationed. */
static bool may_log(struct agents *agents)
{
    uint64_t second = loop_now_ms() / 1000;
    if (second != agents->log_second) {
        agents->log_second = second;
        agents->log_lines = 0;
    }
    if (agents->log_lines >= AGENTS_LOG_LINES_PER_S) {
        agents->figures.log_suppressed++;
        return false;
    }
    agents->log_lines++;
    return true;
}

/* ---- messages in --------------------------------------------------------------------------- */

static void send_message(struct agents *agents, struct link *link, const struct message *message);

/* The hello of another major or far minor version: told why in a form that every version reads. */
static void refuse_version(struct agents *agents, struct link *link, const struct msg_hello *hello)
{
    struct message *message = &agents->message;
    *message = (struct message){.kind = MSG_WELCOME};
    message->u.welcome.result = HELLO_VERSION;
    (void)text_format(message->u.welcome.text, TEXT_SIZE,
                      "this controller speaks protocol %d.%d, the agent %u.%u: they must be at "
                      "most one minor version apart",
                      WIRE_MAJOR, WIRE_MINOR, hello->protocol >> 16, hello->protocol & 0xffff);
    send_message(agents, link, message);
    agents_flush(agents);
    session_end(link->session, SESSION_END_VERSION, message->u.welcome.text);
}

static void hello_came(struct agents *agents, struct link *link, struct message *message)
{
    const struct msg_hello *hello = &message->u.hello;
    const char *identity = session_identity(link->session);
    (void)text_copy(link->name, sizeof(link->name), hello->node); /* same size */
    if (agents->options.key != NULL && !text_equal(identity, TLS_IDENTITY_ANY) &&
        !text_equal(identity, hello->node)) {
        char text[2 * TEXT_SIZE];
        (void)text_format(text, sizeof(text), "node '%s' says that it is '%s'", identity,
                          hello->node);
        session_end(link->session, SESSION_END_FORGED, text);
    } else if (!wire_protocol_fits(hello->protocol)) {
        refuse_version(agents, link, hello);
    } else {
        link->step = LINK_HELD;
        session_hold(link->session);
        loop_hello(agents->loop, link->id, message);
        return;
    }
    message_pool_give(loop_messages(agents->loop), message);
}

/* What a node may not say, although the frame is well formed. NULL: all is well. */
static const char *forbidden(const struct message *message)
{
    switch (message->kind) {
    case MSG_HELLO:
        return "a second hello on one session";
    case MSG_FACT:
        return message->u.fact.fact.source == FACT_PROBE || message->u.fact.fact.source == FACT_LOG
                   ? NULL
                   : "a fact that only the controller may state";
    case MSG_EXCHANGE:
        return message->u.exchange.kind != EXCHANGE_VALUE
                   ? NULL
                   : "an exchanged value that only the controller may send";
    default:
        return NULL;
    }
}

static void node_said(struct agents *agents, struct link *link, struct message *message)
{
    const char *wrong = forbidden(message);
    if (wrong != NULL) {
        session_end(link->session, SESSION_END_UNEXPECTED, wrong);
    } else if (agents->relay.message == NULL ||
               !agents->relay.message(agents->relay.context, link->id, link->node, message)) {
        if (message->kind == MSG_FACT) {
            message->u.fact.fact.node = link->node;
            message->u.fact.fact.receive_ms = loop_wall_ms();
        }
        loop_message(agents->loop, link->id, message);
        loop_may_pause(agents->loop);
        return;
    }
    message_pool_give(loop_messages(agents->loop), message);
}

static void message_cb(void *context, struct session *session, struct message *message)
{
    struct agents *agents = context;
    struct link *link = session_owner_data(session);
    agents->figures.messages++;
    if (link->step == LINK_CONNECTED && message->kind == MSG_HELLO) {
        hello_came(agents, link, message);
        return;
    }
    if (link->step == LINK_WELCOMED) {
        if (link->ping_ms != 0 &&
            session_heard_ms(session) >= link->ping_ms + AGENTS_PING_AFTER_MS) {
            link->ping_ms = 0;
            loop_pinged(agents->loop, link->id, true);
        }
        node_said(agents, link, message);
        return;
    }
    message_pool_give(loop_messages(agents->loop), message);
    session_end(session, SESSION_END_UNEXPECTED, "the first message must be a hello");
}

/* ---- the end of a session ------------------------------------------------------------------ */

static void log_end(struct agents *agents, const struct link *link, enum session_end end,
                    const char *text)
{
    bool quiet = end == SESSION_END_PEER || end == SESSION_END_CORE || end == SESSION_END_STOP ||
                 end == SESSION_END_NETWORK;
    if (link->step == LINK_CONNECTED && !may_log(agents)) {
        return;
    }
    log_line(quiet ? LOG_INFO : LOG_WARN, "session-ended", text, "reason", session_end_word(end),
             "node", link->name, "peer", session_peer(link->session), NULL);
}

static void ended_cb(void *context, struct session *session, enum session_end end, const char *text)
{
    struct agents *agents = context;
    struct link *link = session_owner_data(session);
    agents->figures.ends[end]++;
    log_end(agents, link, end, text);
    link->ended = true;
    if (link->ping_ms != 0) {
        link->ping_ms = 0;
        loop_pinged(agents->loop, link->id, false);
    }
    if (link->step != LINK_CONNECTED) {
        loop_closed(agents->loop, link->id);
    }
    if (link->step == LINK_WELCOMED) {
        agents->figures.welcomed--;
        if (agents->relay.closed != NULL) {
            agents->relay.closed(agents->relay.context, link->id);
        }
    }
}

static void close_sweeper(struct agents *agents);

static void freed_cb(void *context, struct session *session)
{
    struct agents *agents = context;
    struct link *link = session_owner_data(session);
    agents->figures.sessions--;
    agents->free_list[agents->free_count] = link->place;
    agents->free_count++;
    *link = (struct link){.place = link->place};
    if (agents->closing && agents->figures.sessions == 0) {
        close_sweeper(agents);
    }
}

/* ---- actions out --------------------------------------------------------------------------- */

void agents_flush(struct agents *agents)
{
    if (agents->frame.size > 0) {
        session_send(agents->gathering->session, agents->frame.data, agents->frame.size);
        buf_clear(&agents->frame);
    }
    agents->gathering = NULL;
}

/* Frames for one agent that follow each other leave together, at agents_flush(): a hello is answered
 * with three or four, and each write costs more than all that is in it. */
static void send_message(struct agents *agents, struct link *link, const struct message *message)
{
    struct err err = {0};
    if (agents->gathering != link || agents->frame.size > FRAMES_GATHERED_MAX) {
        agents_flush(agents);
        agents->gathering = link;
    }
    size_t before = agents->frame.size;
    if (wire_encode(message, &agents->frame, &err) < 0) {
        agents->figures.encode_errors++;
        log_line(LOG_ERROR, "encode-failed", "a message cannot be sent, ignoring", "kind",
                 message_kind_name(message->kind), "node", link->name, "error", err.text, NULL);
        return;
    }
    agents->figures.frames_sent++;
    agents->figures.bytes_sent += agents->frame.size - before;
}

bool agents_send(struct agents *agents, uint64_t session, const struct message *message)
{
    struct link *link = link_of(agents, session);
    if (link == NULL || link->step != LINK_WELCOMED) {
        return false;
    }
    send_message(agents, link, message);
    agents_flush(agents);
    return true;
}

/* Attaches the job's file to an order that needs it. */
static int attach_spec(struct agents *agents, struct message *message, struct err *err)
{
    if (agents->options.specs == NULL) {
        return 0;
    }
    if (message->kind == MSG_DESIRED && message->u.desired.mode == DESIRED_RUN) {
        return spec_cache_get(agents->options.specs, message->u.desired.job,
                              message->u.desired.spec_revision, &message->u.desired.spec,
                              &message->u.desired.spec_size, err);
    }
    if (message->kind == MSG_CHECK) {
        const struct job *job = core_job(loop_core(agents->loop), message->u.check.job);
        return spec_cache_get(agents->options.specs, message->u.check.job,
                              job != NULL ? job->d.revision : 0, &message->u.check.spec,
                              &message->u.check.spec_size, err);
    }
    if (message->kind == MSG_SAVE_ASK) {
        const struct job *job = core_job(loop_core(agents->loop), message->u.save_ask.job);
        return spec_cache_get(agents->options.specs, message->u.save_ask.job,
                              job != NULL ? job->d.revision : 0, &message->u.save_ask.spec,
                              &message->u.save_ask.spec_size, err);
    }
    return 0;
}

static void welcomed(struct agents *agents, struct link *link, uint32_t node)
{
    if (link->step != LINK_HELD) {
        return;
    }
    link->step = LINK_WELCOMED;
    link->node = node;
    agents->figures.welcomed++;
    session_release(link->session);
    log_line(LOG_INFO, "session-welcomed", "an agent has joined", "node", link->name, "peer",
             session_peer(link->session), NULL);
}

static void carry_send(struct agents *agents, struct link *link, const struct action *action)
{
    struct message *message = &agents->message;
    struct err err = {0};
    action_message(loop_core(agents->loop), action, message);
    if (attach_spec(agents, message, &err) < 0) {
        agents->figures.encode_errors++;
        log_line(LOG_ERROR, "spec-missing", "an order cannot be sent without the job's file",
                 "node", link->name, "error", err.text, NULL);
        return;
    }
    send_message(agents, link, message);
    if (message->kind == MSG_WELCOME && message->u.welcome.result == HELLO_WELCOME) {
        welcomed(agents, link, action->node);
    }
}

void agents_carry(struct agents *agents, const struct action *action)
{
    struct link *link = link_of(agents, action->session);
    if (action->kind == ACTION_PING) {
        if (link == NULL) {
            loop_pinged(agents->loop, action->session, false);
        } else if (link->ping_ms == 0) {
            link->ping_ms = loop_now_ms();
        }
        return;
    }
    if (link == NULL) {
        return; /* it ended meanwhile: the core hears of it in the next turn */
    }
    if (action->kind == ACTION_SEND) {
        carry_send(agents, link, action);
    } else if (action->kind == ACTION_CLOSE) {
        agents_flush(agents);
        session_end(link->session, SESSION_END_CORE, action->u.text);
    }
}

/* ---- deadlines ----------------------------------------------------------------------------- */

/* A newer agent may send kinds that this controller does not know: they are skipped, and said once
 * a session. */
static void count_unknown(struct agents *agents, struct link *link)
{
    uint64_t unknown = session_unknown_count(link->session);
    if (unknown == link->unknown) {
        return;
    }
    if (link->unknown == 0) {
        log_line(LOG_WARN, "unknown-kind", "the agent sends messages of an unknown kind, ignoring",
                 "node", link->name, NULL);
    }
    agents->figures.unknown_kinds += unknown - link->unknown;
    link->unknown = unknown;
}

static void sweep_cb(uv_timer_t *timer)
{
    struct agents *agents = timer->data;
    uint64_t now = loop_now_ms();
    for (uint32_t place = 0; place < agents->options.sessions_max; place++) {
        struct link *link = &agents->links[place];
        if (link->session == NULL) {
            continue;
        }
        session_sweep(link->session, now);
        count_unknown(agents, link);
        if (link->ping_ms != 0 && now - link->ping_ms >= AGENTS_PING_MS) {
            link->ping_ms = 0;
            loop_pinged(agents->loop, link->id, false);
        }
    }
}

/* ---- listening ----------------------------------------------------------------------------- */

static void refuse_connection_cb(uv_handle_t *handle)
{
    (void)mem_free(handle);
}

/* Takes the connection off the backlog and drops it. */
static void refuse_connection(struct agents *agents, uv_stream_t *listener)
{
    uv_tcp_t *tcp = mem_alloc(1, sizeof(*tcp));
    CHECK(uv_tcp_init(listener->loop, tcp) == 0);
    (void)uv_accept(listener, (uv_stream_t *)tcp); /* it is closed either way */
    uv_close((uv_handle_t *)tcp, refuse_connection_cb);
    agents->figures.ends[SESSION_END_FULL]++;
    if (may_log(agents)) {
        log_line(LOG_WARN, "sessions-full",
                 "too many agents are connected; raise limits.agents, and RLIMIT_NOFILE with it",
                 NULL);
    }
}

static void connection_cb(uv_stream_t *listener, int status)
{
    struct agents *agents = listener->data;
    if (status < 0 || agents->closing) {
        return; /* out of descriptors: libuv has dropped the connection; the agent tries again */
    }
    agents->figures.accepted++;
    if (agents->free_count == 0) {
        refuse_connection(agents, listener);
        return;
    }
    struct err err = {0};
    uint32_t place = agents->free_list[agents->free_count - 1];
    struct link *link = &agents->links[place];
    uint64_t id = ++agents->serial << PLACE_BITS | place;
    if (session_accept(listener, id, agents->options.key, &agents->owner, &link->session, &err) <
        0) {
        if (may_log(agents)) {
            log_line(LOG_WARN, "accept-failed", "a connection was lost at once, ignoring", "error",
                     err.text, NULL);
        }
        return;
    }
    agents->free_count--;
    agents->figures.sessions++;
    link->id = id;
    session_set_owner_data(link->session, link);
}

int agents_parse_address(const char *text, struct sockaddr_storage *ret_address, bool *ret_loopback,
                         struct err *err)
{
    char host[ADDRESS_SIZE];
    const char *colon = strrchr(text, ':');
    size_t size = colon != NULL ? (size_t)(colon - text) : 0;
    uint64_t port;
    if (size == 0 || size >= sizeof(host) || text_to_u64(colon + 1, UINT16_MAX, &port) < 0) {
        return err_set(err, -EINVAL, "'%s' is not an address: write 127.0.0.1:7444 or [::1]:7444",
                       text);
    }
    bool brackets = text[0] == '[' && text[size - 1] == ']';
    size_t skip = brackets ? 1 : 0;
    memcpy(host, text + skip, size - 2 * skip);
    host[size - 2 * skip] = '\0';
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    memset(ret_address, 0, sizeof(*ret_address));
    if (!brackets && uv_ip4_addr(host, (int)port, &four) == 0) {
        memcpy(ret_address, &four, sizeof(four));
        *ret_loopback = ntohl(four.sin_addr.s_addr) >> 24 == 127;
        return 0;
    }
    if (brackets && uv_ip6_addr(host, (int)port, &six) == 0) {
        memcpy(ret_address, &six, sizeof(six));
        *ret_loopback = IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
        return 0;
    }
    return err_set(err, -EINVAL, "'%s' is not a numeric address with a port", text);
}

static int listen_error(int code, const char *address, struct err *err)
{
    switch (code) {
    case UV_EADDRINUSE:
        return err_set(err, code,
                       "%s is in use: another controller or program listens there; stop it or "
                       "set listen.agents",
                       address);
    case UV_EACCES:
        return err_set(err, code, "%s: ports below 1024 need root; set listen.agents", address);
    case UV_EADDRNOTAVAIL:
        return err_set(err, code, "%s is no address of this machine; set listen.agents", address);
    default:
        return err_set(err, code, "%s cannot be listened on: %s", address, uv_strerror(code));
    }
}

static int start_listening(struct agents *agents, struct err *err)
{
    struct sockaddr_storage address;
    bool loopback;
    int result = agents_parse_address(agents->options.address, &address, &loopback, err);
    if (result < 0) {
        return result;
    }
    result = uv_tcp_bind(&agents->listener, (const struct sockaddr *)&address, 0);
    if (result == 0) {
        result = uv_listen((uv_stream_t *)&agents->listener, AGENTS_BACKLOG, connection_cb);
    }
    if (result < 0) {
        return listen_error(result, agents->options.address, err);
    }
    int size = sizeof(address);
    result = uv_tcp_getsockname(&agents->listener, (struct sockaddr *)&address, &size);
    if (result < 0) {
        return listen_error(result, agents->options.address, err);
    }
    agents->port =
        ntohs(address.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                                            : ((const struct sockaddr_in *)&address)->sin_port);
    return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void closed_cb(uv_handle_t *handle)
{
    struct agents *agents = handle->data;
    agents->handles--;
    if (agents->handles == 0 && agents->orphan) {
        (void)agents_free(agents);
    }
}

/* Last of all: until then it ends sessions whose peers do not. */
static void close_sweeper(struct agents *agents)
{
    uv_close((uv_handle_t *)&agents->sweeper, closed_cb);
}

void agents_close(struct agents *agents)
{
    if (agents->closing) {
        return;
    }
    agents->closing = true;
    uv_close((uv_handle_t *)&agents->listener, closed_cb);
    for (uint32_t place = 0; place < agents->options.sessions_max; place++) {
        if (agents->links[place].session != NULL) {
            session_end(agents->links[place].session, SESSION_END_STOP, "the controller ends");
        }
    }
    if (agents->figures.sessions == 0) {
        close_sweeper(agents);
    }
}

bool agents_is_closed(const struct agents *agents)
{
    return agents->handles == 0;
}

int agents_create(struct loop *loop, const struct agents_options *options,
                  struct agents **ret_agents, struct err *err)
{
    CHECK(options->sessions_max > 0 && options->sessions_max <= AGENTS_SESSIONS_MAX);
    struct agents *agents = mem_alloc(1, sizeof(*agents));
    agents->loop = loop;
    agents->options = *options;
    agents->owner = (struct session_owner){
        .message = message_cb,
        .ended = ended_cb,
        .freed = freed_cb,
        .context = agents,
        .messages = loop_messages(loop),
        .read_buffer = mem_alloc(1, SESSION_READ_SIZE),
    };
    agents->links = mem_alloc(options->sessions_max, sizeof(*agents->links));
    agents->free_list = mem_alloc(options->sessions_max, sizeof(*agents->free_list));
    for (uint32_t place = options->sessions_max; place > 0; place--) {
        agents->links[place - 1].place = place - 1;
        agents->free_list[agents->free_count] = place - 1;
        agents->free_count++;
    }
    buf_init(&agents->frame, FRAMES_GATHERED_MAX + FRAME_SIZE_MAX);
    CHECK(uv_tcp_init(loop_uv(loop), &agents->listener) == 0);
    CHECK(uv_timer_init(loop_uv(loop), &agents->sweeper) == 0);
    agents->listener.data = agents;
    agents->sweeper.data = agents;
    agents->handles = 2;
    CHECK(uv_timer_start(&agents->sweeper, sweep_cb, AGENTS_SWEEP_MS, AGENTS_SWEEP_MS) == 0);
    int result = start_listening(agents, err);
    if (result < 0) {
        agents->orphan = true;
        agents_close(agents);
        return result;
    }
    *ret_agents = agents;
    return 0;
}

struct agents *agents_free(struct agents *agents)
{
    if (agents == NULL) {
        return NULL;
    }
    (void)mem_free(agents->owner.read_buffer);
    (void)mem_free(agents->links);
    (void)mem_free(agents->free_list);
    buf_done(&agents->frame);
    return mem_free(agents);
}

void agents_set_relay(struct agents *agents, const struct agents_relay *relay)
{
    agents->relay = *relay;
}

uint16_t agents_port(const struct agents *agents)
{
    return agents->port;
}

struct agents_figures agents_figures(const struct agents *agents)
{
    return agents->figures;
}
