/* api.c: the server's life: sockets, daemons, and libmicrohttpd inside the uv loop.
 *
 * Each daemon's epoll descriptor is polled by uv; its own timeout arms a timer; MHD_run does the
 * rest. Failures at the start name the address and what to do; afterwards nothing here can fail but
 * accept, which libmicrohttpd tries again by itself. */
#include "controller/api/api.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <unistd.h>

#include "controller/api/internal.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    TICK_MS = 1000,
    RUNS_IN_TURN = 4,
    TURN_PAUSE_MS = 1, /* between two turns of requests: others are looked after */
    CONNECTION_MEMORY = 32768,
    CLOSE_RUNS = 8, /* of libmicrohttpd at the end, for answers to leave */
    QUERY_MS = 250, /* a question to the store may hold up the loop for so long */
};

/* ---- libmicrohttpd in the loop --------------------------------------------------------------- */

static void run_daemon(struct daemon *daemon);

static void timer_cb(uv_timer_t *timer)
{
    run_daemon(timer->data);
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    (void)status; /* MHD_run finds out by itself */
    (void)events;
    run_daemon(poll->data);
}

/* What is due at once is done at once, but not for ever: others wait for the loop, too. */
static void run_daemon(struct daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG timeout = 0;
    enum MHD_Result due = MHD_NO;
    if (daemon->mhd == NULL) {
        return;
    }
    if (!daemon->api->pausing) {
        daemon->api->spent_us = 0;
    }
    for (int i = 0; i < RUNS_IN_TURN && timeout == 0; i++) {
        (void)MHD_run(daemon->mhd);
        due = MHD_get_timeout(daemon->mhd, &timeout);
        timeout = due == MHD_YES ? timeout : UINT64_MAX;
    }
    if (due == MHD_YES) {
        uv_timer_start(&daemon->timer, timer_cb, timeout > 0 ? timeout : TURN_PAUSE_MS, 0);
    } else {
        uv_timer_stop(&daemon->timer);
    }
}

/* In the midst of the loop's long work: what shows the core's state and is quickly made, for a short
 * time. Orders and beats go before. */
static void pause_cb(void *context)
{
    struct api *api = context;
    api->pausing = true;
    api->spent_us = HTTP_TURN_US - HTTP_PAUSE_US;
    http_run_queue(api);
    for (uint32_t i = 0; i < api->daemon_count && !api->closing; i++) {
        run_daemon(&api->daemons[i]);
    }
    api->pausing = false;
}

/* A resumed connection is only looked at in the next MHD_run: soon, but not from within a callback
 * of libmicrohttpd itself. */
void api_kick(struct api *api)
{
    for (uint32_t i = 0; i < api->daemon_count && !api->closing; i++) {
        uv_timer_start(&api->daemons[i].timer, timer_cb, 0, 0);
    }
}

bool api_turn_is_over(const struct api *api)
{
    return api->spent_us >= HTTP_TURN_US;
}

static void turn_cb(uv_timer_t *timer)
{
    struct api *api = timer->data;
    api->spent_us = 0;
    http_run_queue(api);
    events_turn(api);
}

void api_turn_later(struct api *api)
{
    if (!api->closing && !uv_is_active((const uv_handle_t *)&api->turn)) {
        uv_timer_start(&api->turn, turn_cb, TURN_PAUSE_MS, 0);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int start_daemon(struct api *api, int fd, bool unix_socket, bool loopback, struct err *err)
{
    struct daemon *daemon = &api->daemons[api->daemon_count];
    daemon->api = api;
    daemon->unix_socket = unix_socket;
    daemon->loopback = loopback;
    daemon->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL, http_access_cb,
        daemon, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd, MHD_OPTION_NOTIFY_COMPLETED, http_done_cb,
        daemon, MHD_OPTION_NOTIFY_CONNECTION, peers_notify_cb, daemon, MHD_OPTION_UNESCAPE_CALLBACK,
        http_unescape_cb, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (daemon->mhd == NULL) {
        (void)close(fd);
        return err_set(err, -EIO, "libmicrohttpd could not be started");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(info != NULL);
    uv_loop_t *uv = loop_uv(api->loop);
    int code = uv_poll_init(uv, &daemon->poll, info->epoll_fd);
    CHECK(code == 0); /* an epoll descriptor can always be polled */
    uv_timer_init(uv, &daemon->timer);
    daemon->poll.data = daemon;
    daemon->timer.data = daemon;
    uv_poll_start(&daemon->poll, UV_READABLE, poll_cb);
    api->daemon_count++;
    return 0;
}

static void commit_cb(void *context)
{
    struct api *api = context;
    events_wake(api);
}

static void tick_cb(uv_timer_t *timer)
{
    http_tick(timer->data);
    peers_tick(timer->data);
    events_tick(timer->data);
    shared_tick(timer->data);
}

/* A group that does not exist has no members: only root and we may write, which is safe. */
static void find_group(struct api *api, const char *name)
{
    if (name == NULL || name[0] == '\0') {
        return;
    }
    const struct group *group = getgrnam(name);
    if (group == NULL) {
        log_line(LOG_INFO, "no-group", "only root may write through the socket, ignoring", "group",
                 name, NULL);
        return;
    }
    api->socket_gid = group->gr_gid;
    api->has_group = true;
}

static bool given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static int open_unix(struct api *api, const char *path, struct err *err)
{
    int fd = sockets_open_unix(path, err);
    if (fd < 0) {
        return fd;
    }
    text_copy(api->socket_path, sizeof api->socket_path, path);
    return start_daemon(api, fd, true, true, err);
}

static int open_tcp(struct api *api, const char *address, struct err *err)
{
    bool loopback = false;
    int fd = sockets_open_tcp(address, api->tokens != NULL, &loopback, err);
    return fd < 0 ? fd : start_daemon(api, fd, false, loopback, err);
}

static int open_all(struct api *api, const struct api_options *options, struct err *err)
{
    int code = 0;
    find_group(api, options->socket_group);
    if (given(options->token_file)) {
        code = tokens_load(options->token_file, &api->tokens, err);
    }
    if (code == 0) {
        code = store_reader_open(options->database, &api->reader, err);
    }
    if (code == 0) {
        store_reader_limit(api->reader, QUERY_MS);
    }
    if (code == 0 && given(options->listen_socket)) {
        code = open_unix(api, options->listen_socket, err);
    }
    if (code == 0 && given(options->listen_rest)) {
        code = open_tcp(api, options->listen_rest, err);
    }
    loop_set_pause(api->loop, pause_cb, api);
    return code == 0 ? loop_on_commit(api->loop, commit_cb, api) : code;
}

static void init_timer(struct api *api, uv_timer_t *timer)
{
    int code = uv_timer_init(loop_uv(api->loop), timer);
    CHECK(code == 0); /* a timer needs nothing */
    timer->data = api;
}

int api_create(const struct api_options *options, struct api **ret_api, struct err *err)
{
    struct api *api = mem_alloc(1, sizeof *api);
    api->loop = options->loop;
    api->relay = options->relay;
    api->queue_end = &api->queue;
    init_timer(api, &api->tick);
    init_timer(api, &api->turn);
    int code = open_all(api, options, err);
    if (code < 0) {
        /* The handles must be closed by the loop: it runs once more before their memory goes. */
        api_close(api);
        uv_run(loop_uv(api->loop), UV_RUN_NOWAIT);
        api_free(api);
        return code;
    }
    uv_timer_start(&api->tick, tick_cb, TICK_MS, TICK_MS);
    for (uint32_t i = 0; i < api->daemon_count; i++) {
        run_daemon(&api->daemons[i]);
    }
    *ret_api = api;
    return 0;
}

static void close_daemon(struct daemon *daemon)
{
    for (int i = 0; i < CLOSE_RUNS; i++) {
        (void)MHD_run(daemon->mhd); /* answers leave; what does not fit into a socket is lost */
    }
    uv_poll_stop(&daemon->poll);
    uv_close((uv_handle_t *)&daemon->poll, NULL);
    uv_close((uv_handle_t *)&daemon->timer, NULL);
    MHD_stop_daemon(daemon->mhd);
    daemon->mhd = NULL;
}

void api_close(struct api *api)
{
    if (api == NULL || api->closing) {
        return;
    }
    api->closing = true;
    loop_forget(api->loop, api);
    http_close_all(api);
    events_wake(api); /* streams end themselves */
    for (uint32_t i = 0; i < api->daemon_count; i++) {
        close_daemon(&api->daemons[i]);
    }
    uv_close((uv_handle_t *)&api->tick, NULL);
    uv_close((uv_handle_t *)&api->turn, NULL);
    if (api->socket_path[0] != '\0') {
        (void)unlink(api->socket_path); /* the next start removes it too */
    }
}

struct api *api_free(struct api *api)
{
    if (api == NULL) {
        return NULL;
    }
    CHECK(api->closing && api->requests == NULL && api->streams == NULL && api->peers == NULL);
    store_reader_close(api->reader);
    tokens_free(api->tokens);
    shared_free(api);
    return mem_free(api);
}
