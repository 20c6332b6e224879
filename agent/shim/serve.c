/* serve.c: signals, clients, exec reports, the cgroup's events and one timer, in one poll. Nothing
 * in here waits for anything else, so whatever state the ranks are in, a client is answered. */
#include "agent/shim/serve.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SERVE_SIGNAL,
    SERVE_LISTEN,
    SERVE_CGROUP,
    SERVE_CLIENTS,
    SERVE_REPORTS = SERVE_CLIENTS + SERVER_CLIENTS_MAX,
    SERVE_COUNT = SERVE_REPORTS + SHIM_RANKS_MAX,
};

int serve_signals(void)
{
    static const int taken[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        (void)sigaddset(&set, taken[i]); /* valid numbers */
        /* An inherited SIG_IGN for SIGCHLD would throw the ends away. */
        (void)signal(taken[i], SIG_DFL);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return -errno;
    }
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void signals_drain(int signal_fd)
{
    struct signalfd_siginfo info;
    while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        /* SIGCHLD says only that there is something to reap. The others are for people who mean
         * the ranks: those are ended by an order on the socket, so that it is recorded. */
    }
}

static void client_serve(struct ranks *ranks, struct server_client *client)
{
    struct shim_request request;
    while (server_read(client, &request) == 1) {
        int error = 0;
        switch (request.op) {
        case SHIM_LIST:
            break;
        case SHIM_TERM:
        case SHIM_KILL:
            error = ranks_order(ranks, request.op);
            break;
        case SHIM_SUBSCRIBE:
            client->subscribed = true;
            break;
        default:
            error = -EINVAL;
            break;
        }
        server_send(client, &ranks->status, request.nonce, error);
    }
}

static void events_fill(const struct ranks *ranks, const struct server *server, int signal_fd,
                        struct pollfd events[SERVE_COUNT])
{
    events[SERVE_SIGNAL] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    events[SERVE_LISTEN] = (struct pollfd){.fd = server->listen_fd, .events = POLLIN};
    events[SERVE_CGROUP] = (struct pollfd){.fd = ranks->cgroup.events_fd, .events = POLLPRI};
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        events[SERVE_CLIENTS + i] = (struct pollfd){.fd = server->clients[i].fd, .events = POLLIN};
    }
    for (uint32_t i = 0; i < SHIM_RANKS_MAX; i++) {
        events[SERVE_REPORTS + i] =
            (struct pollfd){.fd = ranks->slots[i].report_fd, .events = POLLIN};
    }
}

static int timeout_ms(const struct ranks *ranks)
{
    uint64_t deadline = ranks_deadline_ms(ranks);
    uint64_t now = ends_mono_ms();
    if (deadline == UINT64_MAX) {
        return -1;
    }
    uint64_t wait = deadline > now ? deadline - now : 0;
    return wait > INT_MAX ? INT_MAX : (int)wait;
}

static void events_serve(struct ranks *ranks, struct server *server, int signal_fd,
                         const struct pollfd events[SERVE_COUNT])
{
    for (uint32_t i = 0; i < SHIM_RANKS_MAX; i++) {
        if (events[SERVE_REPORTS + i].revents != 0) {
            ranks_report_read(ranks, i);
        }
    }
    if (events[SERVE_SIGNAL].revents != 0) {
        signals_drain(signal_fd);
        ranks_reap(ranks);
    }
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        if (events[SERVE_CLIENTS + i].revents != 0) {
            client_serve(ranks, &server->clients[i]);
        }
    }
    if (events[SERVE_LISTEN].revents != 0) {
        server_accept(server);
    }
    if (events[SERVE_CGROUP].revents != 0) {
        (void)cgroup_populated(&ranks->cgroup); /* reading takes the event away; the tick decides */
    }
    ranks_tick(ranks, ends_mono_ms());
    if (ranks->changed) {
        ranks->changed = false;
        server_publish(server, &ranks->status);
    }
}

int serve_run(struct ranks *ranks, struct server *server, int signal_fd)
{
    struct pollfd events[SERVE_COUNT];
    ranks_reap(ranks); /* what ended before the loop began */
    while (!ranks->status.empty) {
        events_fill(ranks, server, signal_fd, events);
        int ready = poll(events, SERVE_COUNT, timeout_ms(ranks));
        if (ready < 0 && errno != EINTR) {
            return -errno;
        }
        if (ready < 0) {
            continue;
        }
        events_serve(ranks, server, signal_fd, events);
    }
    return 0;
}
