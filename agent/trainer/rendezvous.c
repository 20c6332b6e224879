/* rendezvous.c: the way of one rank into its world.
 *
 * Happy path of rank j > 0: connect to rank 0, listen beside it, hello, yes, table, connect to the
 * ranks 1 … j-1 (hello, yes), accept the ranks j+1 … Of rank 0: listen, accept all, send the table.
 * Failures: port in use; nobody at the master's address; a rank that does not come (named); a rank
 * that leaves while we wait (named); a hello that is refused. Deadlocks are impossible: rank j
 * waits for a yes of lower ranks only, and rank 1 waits for no one's. */
#include "agent/trainer/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/trainer/socket.h"

enum {
    WIRE_VERSION = 1,
    PENDING_MAX = 64,        /* callers that have not said hello yet */
    PENDING_LIMIT_MS = 5000, /* and how long they may take */
    GRACE_MS = 10000,        /* for which the others outwait rank 0 */
    RETRY_MS = 50,           /* between two calls to a master that does not answer */
};

static const char hello_magic[8] = "KSHELLO";
static const char verdict_magic[8] = "KSANSWR";

/* Both ends are little-endian machines of one kind: structs travel as they are. */
struct hello {
    char magic[8];
    uint32_t version;
    uint32_t attempt;
    uint32_t rank;
    uint32_t world;
    uint64_t program;
    uint64_t text;
    uint32_t port; /* where this rank listens; 0: nowhere */
    uint32_t reserved;
    char job[RENDEZVOUS_JOB_SIZE];
};

struct verdict {
    char magic[8];
    uint32_t accepted;
    uint32_t exit_code; /* when not accepted */
    char text[240];
};

struct pending {
    int fd;
    uint64_t since_ms;
    size_t got;
    struct hello hello;
};

/* Everything that one call of rendezvous_meet works with. */
struct meeting {
    const struct rendezvous *self;
    uint64_t deadline_ms;
    int listener;
    int *fds;                         /* world entries, the caller's */
    struct socket_address *addresses; /* world entries */
    struct pollfd *polls;             /* 1 + PENDING_MAX + world */
    struct pending pending[PENDING_MAX];
    size_t pending_count;
    struct fail *fail;
};

static struct hello own_hello(const struct rendezvous *self, uint16_t port)
{
    struct hello hello = {
        .version = WIRE_VERSION,
        .attempt = self->attempt,
        .rank = self->rank,
        .world = self->world,
        .program = self->program,
        .text = self->text,
        .port = port,
    };
    memcpy(hello.magic, hello_magic, sizeof(hello.magic));
    memcpy(hello.job, self->job, sizeof(hello.job));
    return hello;
}

/* ---- judging a hello ------------------------------------------------------------------------ */

static struct verdict refuse(enum trainer_exit exit_code, const char *text)
{
    struct verdict verdict = {.accepted = 0, .exit_code = (uint32_t)exit_code};
    memcpy(verdict.magic, verdict_magic, sizeof(verdict.magic));
    (void)snprintf(verdict.text, sizeof(verdict.text), "%s", text); /* a cut text will do */
    return verdict;
}

static struct verdict judge(const struct meeting *meeting, const struct hello *hello,
                            uint32_t lowest)
{
    const struct rendezvous *self = meeting->self;
    char text[200];
    if (strncmp(hello->job, self->job, sizeof(hello->job)) != 0) {
        (void)snprintf(text, sizeof(text), "job '%.*s' came to job '%s'", (int)sizeof(hello->job),
                       hello->job, self->job);
        return refuse(EXIT_RENDEZVOUS, text);
    }
    if (hello->attempt != self->attempt) {
        (void)snprintf(text, sizeof(text), "attempt %u came to attempt %u", hello->attempt,
                       self->attempt);
        return refuse(EXIT_RENDEZVOUS, text);
    }
    if (hello->world != self->world || hello->program != self->program) {
        (void)snprintf(text, sizeof(text), "rank %u (world %u) and rank %u (world %u) %s",
                       hello->rank, hello->world, self->rank, self->world,
                       "were started with different flags or layouts");
        return refuse(EXIT_BAD_CONFIG, text);
    }
    if (hello->text != self->text) {
        (void)snprintf(text, sizeof(text),
                       "rank %u reads a text of hash %016llx, rank %u one of %016llx", hello->rank,
                       (unsigned long long)hello->text, self->rank, (unsigned long long)self->text);
        return refuse(EXIT_LOCAL, text);
    }
    if (hello->rank < lowest || hello->rank >= self->world || meeting->fds[hello->rank] >= 0) {
        (void)snprintf(text, sizeof(text), "rank %u is not awaited or here already", hello->rank);
        return refuse(EXIT_RENDEZVOUS, text);
    }
    struct verdict verdict = refuse(EXIT_DONE, "");
    verdict.accepted = 1;
    return verdict;
}

/* ---- accepting ------------------------------------------------------------------------------ */

static void pending_drop(struct meeting *meeting, size_t index)
{
    meeting->pending[index] = meeting->pending[--meeting->pending_count];
}

static void pending_close(struct meeting *meeting, size_t index)
{
    socket_close(&meeting->pending[index].fd);
    pending_drop(meeting, index);
}

static void accept_callers(struct meeting *meeting)
{
    while (meeting->pending_count < PENDING_MAX) {
        const int fd = accept4(meeting->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return; /* nobody there, or one that left again */
        }
        meeting->pending[meeting->pending_count++] =
            (struct pending){.fd = fd, .since_ms = socket_now_ms()};
    }
}

/* The caller's hello is whole. -errno only when this attempt cannot come together at all. */
static int pending_finish(struct meeting *meeting, size_t index, uint32_t lowest)
{
    struct pending *caller = &meeting->pending[index];
    const struct hello hello = caller->hello;
    if (memcmp(hello.magic, hello_magic, sizeof(hello.magic)) != 0 ||
        hello.version != WIRE_VERSION) {
        pending_close(meeting, index);
        return 0;
    }
    const struct verdict verdict = judge(meeting, &hello, lowest);
    const int sent = socket_send_all(caller->fd, &verdict, sizeof(verdict), meeting->deadline_ms);
    if (verdict.accepted == 0) {
        fprintf(stderr, "rank %u: refused a caller: %s\n", meeting->self->rank, verdict.text);
        pending_close(meeting, index);
        if (verdict.exit_code != EXIT_RENDEZVOUS) {
            return fail_set(meeting->fail, (int)verdict.exit_code, -EINVAL, "%s", verdict.text);
        }
        return 0;
    }
    if (sent < 0) {
        pending_close(meeting, index);
        return 0;
    }
    struct socket_address *address = &meeting->addresses[hello.rank];
    *address = (struct socket_address){.size = sizeof(address->storage)};
    if (getpeername(caller->fd, (struct sockaddr *)&address->storage, &address->size) != 0) {
        pending_close(meeting, index); /* it left again */
        return 0;
    }
    socket_set_port(address, (uint16_t)hello.port);
    meeting->fds[hello.rank] = caller->fd;
    pending_drop(meeting, index);
    return 0;
}

static int pending_read(struct meeting *meeting, size_t index, uint32_t lowest)
{
    struct pending *caller = &meeting->pending[index];
    const ssize_t got = recv(caller->fd, (char *)&caller->hello + caller->got,
                             sizeof(caller->hello) - caller->got, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (got <= 0) {
        pending_close(meeting, index);
        return 0;
    }
    caller->got += (size_t)got;
    return caller->got == sizeof(caller->hello) ? pending_finish(meeting, index, lowest) : 0;
}

static void pending_expire(struct meeting *meeting)
{
    const uint64_t now_ms = socket_now_ms();
    for (size_t i = meeting->pending_count; i > 0; i--) {
        if (now_ms - meeting->pending[i - 1].since_ms > PENDING_LIMIT_MS) {
            pending_close(meeting, i - 1);
        }
    }
}

/* Lists what to wait for: listener, callers, then everybody who is here (only for leaving). */
static size_t fill_polls(struct meeting *meeting)
{
    size_t count = 0;
    const bool room = meeting->pending_count < PENDING_MAX;
    meeting->polls[count++] =
        (struct pollfd){.fd = room ? meeting->listener : -1, .events = POLLIN};
    for (size_t i = 0; i < meeting->pending_count; i++) {
        meeting->polls[count++] = (struct pollfd){.fd = meeting->pending[i].fd, .events = POLLIN};
    }
    for (uint32_t rank = 0; rank < meeting->self->world; rank++) {
        meeting->polls[count++] = (struct pollfd){.fd = meeting->fds[rank], .events = POLLRDHUP};
    }
    return count;
}

static int check_leavers(const struct meeting *meeting, const struct pollfd *peers)
{
    for (uint32_t rank = 0; rank < meeting->self->world; rank++) {
        if (peers[rank].fd >= 0 && peers[rank].revents != 0) {
            return fail_set(meeting->fail, EXIT_PEER, -ECONNRESET,
                            "rank %u left while the ranks were coming together", rank);
        }
    }
    return 0;
}

static int fail_absent(const struct meeting *meeting, uint32_t lowest)
{
    char names[160] = "";
    size_t used = 0;
    for (uint32_t rank = lowest; rank < meeting->self->world && used + 16 < sizeof(names); rank++) {
        if (meeting->fds[rank] < 0 && rank != meeting->self->rank) {
            const int size = snprintf(names + used, sizeof(names) - used, " %u", rank);
            used += size > 0 ? (size_t)size : 0;
        }
    }
    return fail_set(meeting->fail, EXIT_RENDEZVOUS, -ETIMEDOUT, "did not come within %u s: rank%s",
                    meeting->self->timeout_ms / 1000, names);
}

static bool all_here(const struct meeting *meeting, uint32_t lowest)
{
    for (uint32_t rank = lowest; rank < meeting->self->world; rank++) {
        if (meeting->fds[rank] < 0 && rank != meeting->self->rank) {
            return false;
        }
    }
    return true;
}

/* Accepts until the ranks lowest … world-1 are here. */
static int accept_ranks(struct meeting *meeting, uint32_t lowest)
{
    while (!all_here(meeting, lowest)) {
        const size_t count = fill_polls(meeting);
        const size_t callers = meeting->pending_count;
        int wait_ms = socket_left_ms(meeting->deadline_ms);
        if (wait_ms == 0) {
            return fail_absent(meeting, lowest);
        }
        if (callers > 0 && wait_ms > PENDING_LIMIT_MS) {
            wait_ms = PENDING_LIMIT_MS;
        }
        if (poll(meeting->polls, count, wait_ms) < 0 && errno != EINTR) {
            const int code = -errno;
            return fail_set(meeting->fail, EXIT_LOCAL, code, "poll: %s", fail_errno_text(code));
        }
        int code = check_leavers(meeting, meeting->polls + 1 + callers);
        for (size_t i = callers; i > 0 && code == 0; i--) { /* backwards: finished ones move */
            if (meeting->polls[i].revents != 0) {
                code = pending_read(meeting, i - 1, lowest);
            }
        }
        if (code < 0) {
            return code;
        }
        pending_expire(meeting);
        accept_callers(meeting);
    }
    return 0;
}

/* ---- calling -------------------------------------------------------------------------------- */

static int say_hello(struct meeting *meeting, int fd, uint16_t port, uint32_t to)
{
    const struct hello hello = own_hello(meeting->self, port);
    struct verdict verdict;
    int code = socket_send_all(fd, &hello, sizeof(hello), meeting->deadline_ms);
    if (code == 0) {
        code = socket_receive_all(fd, &verdict, sizeof(verdict), meeting->deadline_ms);
    }
    if (code == 0 && memcmp(verdict.magic, verdict_magic, sizeof(verdict.magic)) != 0) {
        code = -EPROTO;
    }
    if (code < 0) {
        return fail_set(meeting->fail, EXIT_RENDEZVOUS, code,
                        "rank %u's place is taken by something that does not answer as a rank: %s",
                        to, fail_errno_text(code));
    }
    if (verdict.accepted == 0) {
        verdict.text[sizeof(verdict.text) - 1] = '\0';
        const bool known = verdict.exit_code == EXIT_BAD_CONFIG || verdict.exit_code == EXIT_LOCAL;
        return fail_set(meeting->fail, known ? (int)verdict.exit_code : EXIT_RENDEZVOUS, -EACCES,
                        "rank %u refused us: %s", to, verdict.text);
    }
    return 0;
}

/* Calls the master until it answers or the time is over. */
static int call_master(struct meeting *meeting)
{
    const struct rendezvous *self = meeting->self;
    for (;;) {
        struct socket_address address;
        int code = socket_resolve(self->master_address, self->master_port, &address);
        if (code == 0) {
            code = socket_connect(&address, meeting->deadline_ms, &meeting->fds[0]);
        }
        if (code == 0) {
            return 0;
        }
        if (socket_left_ms(meeting->deadline_ms) <= RETRY_MS) {
            return fail_set(meeting->fail, EXIT_RENDEZVOUS, code,
                            "rank 0 at %s:%u did not answer within %u s: %s", self->master_address,
                            self->master_port, self->timeout_ms / 1000, fail_errno_text(code));
        }
        (void)poll(NULL, 0, RETRY_MS); /* a port that opens elsewhere sends no event */
    }
}

/* Opens a listener at the address from which the master is reached. */
static int listen_beside_master(struct meeting *meeting, uint16_t *ret_port)
{
    struct socket_address own = {.size = sizeof(own.storage)};
    int code = 0;
    if (getsockname(meeting->fds[0], (struct sockaddr *)&own.storage, &own.size) != 0) {
        code = -errno;
    }
    if (code == 0) {
        socket_set_port(&own, 0);
        code = socket_listen(&own, (int)meeting->self->world, &meeting->listener);
    }
    own.size = sizeof(own.storage);
    if (code == 0 &&
        getsockname(meeting->listener, (struct sockaddr *)&own.storage, &own.size) != 0) {
        code = -errno;
    }
    if (code < 0) {
        return fail_set(meeting->fail, EXIT_LOCAL, code, "cannot listen for the other ranks: %s",
                        fail_errno_text(code));
    }
    *ret_port = socket_port(&own);
    return 0;
}

static int call_lower_ranks(struct meeting *meeting, uint16_t port)
{
    for (uint32_t rank = 1; rank < meeting->self->rank; rank++) {
        int code = -EPROTO;
        if (socket_address_ok(&meeting->addresses[rank])) {
            code = socket_connect(&meeting->addresses[rank], meeting->deadline_ms,
                                  &meeting->fds[rank]);
        }
        if (code < 0) {
            char text[64];
            socket_text(&meeting->addresses[rank], text, sizeof(text));
            return fail_set(meeting->fail, EXIT_PEER, code, "cannot reach rank %u at %s: %s", rank,
                            text, fail_errno_text(code));
        }
        code = say_hello(meeting, meeting->fds[rank], port, rank);
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

static int meet_as_other(struct meeting *meeting)
{
    uint16_t port = 0;
    int code = call_master(meeting);
    if (code == 0) {
        code = listen_beside_master(meeting, &port);
    }
    if (code == 0) {
        code = say_hello(meeting, meeting->fds[0], port, 0);
    }
    if (code < 0) {
        return code;
    }
    /* From here on rank 0 decides how long to wait: it names who is absent, and its leaving ends
     * our wait at once. Giving up before it would make us look like the one who left. */
    meeting->deadline_ms += GRACE_MS;
    const size_t size = meeting->self->world * sizeof(*meeting->addresses);
    code = socket_receive_all(meeting->fds[0], meeting->addresses, size, meeting->deadline_ms);
    if (code < 0) {
        const bool late = code == -ETIMEDOUT;
        return fail_set(meeting->fail, late ? EXIT_RENDEZVOUS : EXIT_PEER, code,
                        "rank 0 %s before all ranks had come together",
                        late ? "said nothing more" : "left");
    }
    code = call_lower_ranks(meeting, port);
    return code < 0 ? code : accept_ranks(meeting, meeting->self->rank + 1);
}

static int meet_as_master(struct meeting *meeting)
{
    const struct rendezvous *self = meeting->self;
    struct socket_address address;
    int code = socket_resolve(self->master_address, self->master_port, &address);
    if (code == 0) {
        code = socket_listen(&address, (int)self->world, &meeting->listener);
    }
    if (code < 0) {
        return fail_set(meeting->fail, EXIT_RENDEZVOUS, code, "cannot listen on %s:%u: %s",
                        self->master_address, self->master_port, fail_errno_text(code));
    }
    code = accept_ranks(meeting, 1);
    for (uint32_t rank = 1; rank < self->world && code == 0; rank++) {
        code = socket_send_all(meeting->fds[rank], meeting->addresses,
                               self->world * sizeof(*meeting->addresses), meeting->deadline_ms);
        if (code < 0) {
            return fail_set(meeting->fail, EXIT_PEER, code,
                            "rank %u left while the ranks were coming together", rank);
        }
    }
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int meet(struct meeting *meeting)
{
    const uint32_t world = meeting->self->world;
    meeting->addresses = calloc(world, sizeof(*meeting->addresses));
    meeting->polls = calloc(1 + PENDING_MAX + (size_t)world, sizeof(*meeting->polls));
    if (meeting->addresses == NULL || meeting->polls == NULL) {
        return fail_set(meeting->fail, EXIT_LOCAL, -ENOMEM, "no memory for %u ranks", world);
    }
    int code = meeting->self->rank == 0 ? meet_as_master(meeting) : meet_as_other(meeting);
    for (uint32_t rank = 0; rank < world && code == 0; rank++) {
        if (meeting->fds[rank] >= 0) {
            code = socket_tune(meeting->fds[rank]);
            if (code < 0) {
                return fail_set(meeting->fail, EXIT_PEER, code, "the connection to rank %u: %s",
                                rank, fail_errno_text(code));
            }
        }
    }
    return code;
}

int rendezvous_meet(const struct rendezvous *self, int *ret_fds, int *ret_listener,
                    struct fail *fail)
{
    assert(self->world > 1 && self->rank < self->world);
    struct meeting meeting = {
        .self = self,
        .deadline_ms = socket_now_ms() + self->timeout_ms,
        .listener = -1,
        .fds = ret_fds,
        .fail = fail,
    };
    for (uint32_t rank = 0; rank < self->world; rank++) {
        ret_fds[rank] = -1;
    }
    const int code = meet(&meeting);
    while (meeting.pending_count > 0) {
        pending_close(&meeting, meeting.pending_count - 1);
    }
    for (uint32_t rank = 0; rank < self->world && code < 0; rank++) {
        socket_close(&ret_fds[rank]);
    }
    if (ret_listener != NULL) {
        *ret_listener = -1;
    }
    if (ret_listener != NULL && self->rank == 0 && code == 0) {
        *ret_listener = meeting.listener;
    } else {
        socket_close(&meeting.listener);
    }
    free(meeting.polls);
    free(meeting.addresses);
    return code;
}
