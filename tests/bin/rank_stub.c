/* rank_stub.c: a rank that trains nothing, for tests of those who start and watch ranks.
 *
 *     rank_stub [--steps=N] [--step-ms=N] [--save-every=N] [--folder=PATH] [--exchange=KEY]
 *               [--touch=PATH] [--touch-at=K] [--inject=WHAT[,WHAT…]]
 *
 * Takes RANK, WORLD_SIZE, MASTER_PORT and KEEPSTEP_ATTEMPT from its environment, tells its steps
 * through the library, prints "step N" lines, saves a shard each save-every steps, and obeys
 * should_checkpoint and should_stop. WHAT:
 *
 *     crash@K      SIGSEGV at step K          hang@K      stands still at step K
 *     exit=C       ends with C at the end     exit=C@K    ends with C at step K
 *     slow=X       steps take X times as long ignore-term
 *     fork-child   leaves a process in its own session, deaf to TERM, with an empty environment
 *     hold-port    keeps MASTER_PORT bound, in that process too when there is one
 *
 * --touch stats a path at step K (1), for file systems that never answer. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"

enum { PATH_LENGTH = 512, EXCHANGE_MS = 30000, SHARDS_MS = 10000 };

struct stub {
    uint64_t rank, world, port, attempt;
    uint64_t steps, step_ms, save_every;
    uint64_t crash_at, hang_at, exit_at, exit_code, touch_at, slow;
    bool ignore_term, fork_child, hold_port;
    const char *folder, *exchange, *touch;
};

/* Decimal; anything else is a mistake of the test. */
static uint64_t number(const char *text)
{
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
    }
    return value;
}

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : number(text);
}

static void pause_ms(uint64_t ms)
{
    (void)poll(NULL, 0, (int)ms);
}

static bool starts(const char *text, const char *prefix, const char **ret_rest)
{
    size_t length = strlen(prefix);
    *ret_rest = text + length;
    return strncmp(text, prefix, length) == 0;
}

static bool injection_take(struct stub *stub, const char *what)
{
    const char *rest;
    if (starts(what, "crash@", &rest)) {
        stub->crash_at = number(rest);
    } else if (starts(what, "hang@", &rest)) {
        stub->hang_at = number(rest);
    } else if (starts(what, "exit=", &rest)) {
        const char *at = strchr(rest, '@');
        stub->exit_code = number(rest);
        stub->exit_at = at == NULL ? 0 : number(at + 1);
    } else if (starts(what, "slow=", &rest)) {
        stub->slow = number(rest);
    } else if (strcmp(what, "ignore-term") == 0) {
        stub->ignore_term = true;
    } else if (strcmp(what, "fork-child") == 0) {
        stub->fork_child = true;
    } else if (strcmp(what, "hold-port") == 0) {
        stub->hold_port = true;
    } else {
        return false;
    }
    return true;
}

static bool argument_take(struct stub *stub, char *argument)
{
    const char *rest;
    if (starts(argument, "--steps=", &rest)) {
        stub->steps = number(rest);
    } else if (starts(argument, "--step-ms=", &rest)) {
        stub->step_ms = number(rest);
    } else if (starts(argument, "--save-every=", &rest)) {
        stub->save_every = number(rest);
    } else if (starts(argument, "--folder=", &rest)) {
        stub->folder = rest;
    } else if (starts(argument, "--exchange=", &rest)) {
        stub->exchange = rest;
    } else if (starts(argument, "--touch=", &rest)) {
        stub->touch = rest;
    } else if (starts(argument, "--touch-at=", &rest)) {
        stub->touch_at = number(rest);
    } else if (starts(argument, "--inject=", &rest)) {
        char *what = argument + strlen("--inject=");
        while (what != NULL) {
            char *next = strchr(what, ',');
            if (next != NULL) {
                *next++ = '\0';
            }
            if (!injection_take(stub, what)) {
                return false;
            }
            what = next;
        }
    } else {
        return false;
    }
    return true;
}

/* The address of rendezvous, kept for as long as any copy of the socket lives. */
static int port_hold(const struct stub *stub)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)stub->port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, 1) != 0) {
        (void)fprintf(stderr, "port %u: %s\n", (unsigned)stub->port, strerror(errno));
        return -1;
    }
    return fd;
}

/* Double-forked, in a session of its own, without our environment: only ancestry finds it. */
static void child_fork(void)
{
    char *const arguments[] = {(char[]){"sleep"}, (char[]){"3600"}, NULL};
    char *const nothing[] = {NULL};
    pid_t pid = fork();
    if (pid != 0) {
        (void)waitpid(pid, NULL, 0);
        return;
    }
    (void)setsid();
    if (fork() != 0) {
        _exit(0);
    }
    (void)signal(SIGTERM, SIG_IGN);
    (void)printf("child %d\n", getpid());
    (void)fflush(stdout);
    (void)execve("/bin/sleep", arguments, nothing);
    _exit(127);
}

static int file_write(const char *path, const char *text)
{
    char temporary[PATH_LENGTH + 8];
    (void)snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return -errno;
    }
    size_t size = strlen(text);
    int result = write(fd, text, size) == (ssize_t)size && fsync(fd) == 0 ? 0 : -EIO;
    (void)close(fd);
    return result == 0 && rename(temporary, path) != 0 ? -errno : result;
}

static bool shards_await(const char *folder, uint64_t world)
{
    char path[PATH_LENGTH + 32];
    for (uint64_t waited = 0; waited < SHARDS_MS; waited += 10) {
        uint64_t seen = 0;
        for (uint64_t rank = 0; rank < world; rank++) {
            struct stat info;
            (void)snprintf(path, sizeof(path), "%s/rank-%u", folder, (unsigned)rank);
            seen += stat(path, &info) == 0;
        }
        if (seen == world) {
            return true;
        }
        pause_ms(10);
    }
    return false;
}

static void save(const struct stub *stub, uint64_t step)
{
    char folder[PATH_LENGTH];
    char path[PATH_LENGTH + 32];
    char text[64];
    (void)snprintf(folder, sizeof(folder), "%s/step-%u.a-%u", stub->folder, (unsigned)step,
                   (unsigned)stub->attempt);
    (void)mkdir(folder, 0755); /* another rank's may have come first */
    (void)keepstep_checkpoint_begin(step, (uint32_t)stub->world);
    (void)snprintf(path, sizeof(path), "%s/rank-%u", folder, (unsigned)stub->rank);
    (void)snprintf(text, sizeof(text), "rank %u step %u\n", (unsigned)stub->rank, (unsigned)step);
    if (file_write(path, text) == 0) {
        (void)keepstep_checkpoint_shard(path, strlen(text), NULL);
    }
    if (stub->rank == 0 && shards_await(folder, stub->world)) {
        (void)snprintf(path, sizeof(path), "%s/manifest", folder);
        (void)snprintf(text, sizeof(text), "step %u shards %u\n", (unsigned)step,
                       (unsigned)stub->world);
        if (file_write(path, text) == 0) {
            (void)keepstep_checkpoint_commit(folder, NULL, KEEPSTEP_WEIGHTS);
        }
    }
    (void)keepstep_phase(KEEPSTEP_STEP);
}

/* Rank 0 gives a value that names the attempt; the others print what they get. */
static void exchange(const struct stub *stub)
{
    char value[KEEPSTEP_VALUE_MAX];
    size_t size = 0;
    if (stub->rank == 0) {
        int length = snprintf(value, sizeof(value), "attempt %u", (unsigned)stub->attempt);
        (void)keepstep_exchange_put(stub->exchange, value, (size_t)length);
    }
    int result = keepstep_exchange_get(stub->exchange, value, sizeof(value), &size, EXCHANGE_MS);
    (void)printf("exchange %d %.*s\n", result, (int)size, value);
    (void)fflush(stdout);
}

static void step_run(const struct stub *stub, uint64_t step)
{
    struct stat info;
    (void)keepstep_step_begin(step);
    if (step == stub->touch_at && stub->touch != NULL) {
        (void)stat(stub->touch, &info); /* may never come back */
    }
    if (step == stub->crash_at) {
        (void)raise(SIGSEGV);
    }
    while (step == stub->hang_at) {
        pause_ms(1000);
    }
    pause_ms(stub->step_ms * stub->slow);
    (void)keepstep_step_end(step);
    (void)printf("step %u\n", (unsigned)step);
    (void)fflush(stdout);
}

static int steps_run(const struct stub *stub, uint64_t first)
{
    for (uint64_t step = first; step <= stub->steps; step++) {
        step_run(stub, step);
        if (step == stub->exit_at) {
            return (int)stub->exit_code;
        }
        bool asked = keepstep_should_checkpoint() == 1;
        bool stop = keepstep_should_stop() == 1;
        if (stub->folder != NULL &&
            (asked || (stub->save_every > 0 && step % stub->save_every == 0))) {
            save(stub, step);
        }
        if (stop) {
            return KEEPSTEP_EXIT_RESTART;
        }
    }
    return stub->exit_at == 0 ? (int)stub->exit_code : 0;
}

int main(int argc, char **argv)
{
    struct keepstep_restore restore;
    struct stub stub = {.steps = 10, .step_ms = 10, .touch_at = 1, .slow = 1};
    for (int i = 1; i < argc; i++) {
        if (!argument_take(&stub, argv[i])) {
            (void)fprintf(stderr, "rank_stub: %s?\n", argv[i]);
            return 2;
        }
    }
    stub.rank = number_of("RANK");
    stub.world = number_of("WORLD_SIZE");
    stub.port = number_of("MASTER_PORT");
    stub.attempt = number_of("KEEPSTEP_ATTEMPT");
    if (stub.ignore_term) {
        (void)signal(SIGTERM, SIG_IGN);
    }
    if (stub.hold_port && port_hold(&stub) < 0) {
        return 1;
    }
    if (stub.fork_child) {
        child_fork();
    }
    (void)keepstep_init();
    (void)keepstep_restore_info(&restore); /* zeros without an agent */
    (void)printf("rank %u attempt %u from %u attached %d\n", (unsigned)stub.rank,
                 (unsigned)stub.attempt, (unsigned)restore.step, keepstep_attached());
    (void)fflush(stdout);
    if (stub.exchange != NULL) {
        exchange(&stub);
    }
    int code = steps_run(&stub, restore.step + 1);
    keepstep_finish();
    return code;
}
