/* main.c: keepstep-ranks, the parent of the ranks of one attempt on one node (see shim.h).
 *
 * Two processes: the one that the agent started waits for a verdict, prints it and ends; its child
 * is the shim, in a session of its own, with nothing of the agent's left open. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/shim/ranks.h"
#include "agent/shim/record.h"
#include "agent/shim/serve.h"
#include "agent/shim/shim.h"
#include "agent/shim/start.h"
#include "agent/shim/sweep.h"

struct options {
    const char *dir;
    bool sweep;
    bool kill_them;
    uint32_t crash_at;
};

/* What the shim tells the process that waits for it, through a pipe. */
struct verdict {
    int32_t code; /* enum shim_exit */
    char text[252];
};

static const char usage[] =
    "usage: keepstep-ranks --dir FOLDER [--sweep [--kill]]\n"
    "  Starts the ranks that FOLDER/launch describes and stays as their parent.\n"
    "  --sweep   print what is left of an attempt whose parent died\n"
    "  --kill    and send SIGKILL to it\n"
    "  --crash-at=N   for tests: end at the Nth point of durable writing\n"
    "This program is started by keepstep-agent; there is no need to do so by hand.\n";

/* Decimal, up to 9 digits; -1 otherwise. */
static int64_t number_parse(const char *text)
{
    int64_t value = 0;
    size_t length = strlen(text);
    if (length == 0 || length > 9 || strspn(text, "0123456789") != length) {
        return -1;
    }
    for (; *text != '\0'; text++) {
        value = value * 10 + (*text - '0');
    }
    return value;
}

static bool options_parse(int argc, char **argv, struct options *ret_options)
{
    struct options options = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc) {
            options.dir = argv[++i];
        } else if (strcmp(argv[i], "--sweep") == 0) {
            options.sweep = true;
        } else if (strcmp(argv[i], "--kill") == 0) {
            options.kill_them = true;
        } else if (strncmp(argv[i], "--crash-at=", 11) == 0 && number_parse(argv[i] + 11) > 0) {
            options.crash_at = (uint32_t)number_parse(argv[i] + 11);
        } else {
            return false;
        }
    }
    *ret_options = options;
    return options.dir != NULL && (options.sweep || !options.kill_them);
}

__attribute__((format(printf, 3, 4))) static void verdict_set(struct verdict *verdict, int code,
                                                              const char *format, ...)
{
    va_list arguments;
    verdict->code = code;
    va_start(arguments, format);
    (void)vsnprintf(verdict->text, sizeof(verdict->text), format, arguments); /* cut is fine */
    va_end(arguments);
}

/* ---- the shim --------------------------------------------------------------------------- */

/* Held until this process ends, however it ends; not inherited by forks. */
static void lock_take(int dir_fd, struct verdict *verdict)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(dir_fd, SHIM_FILE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        verdict_set(verdict, SHIM_EXIT_SYSTEM, "the lock file cannot be opened: %s",
                    strerror(errno));
    } else if (fcntl(fd, F_SETLK, &lock) != 0) {
        verdict_set(verdict, SHIM_EXIT_RUNNING, "another shim runs this attempt");
    }
}

static void launch_take(int dir_fd, struct shim_launch *ret_launch, void **ret_memory,
                        struct verdict *verdict)
{
    int result = shim_launch_read(dir_fd, ret_launch, ret_memory);
    const char *wrong = result == -ENOENT    ? "missing"
                        : result == -EBADMSG ? "torn or no launch file"
                        : result == -EPROTO  ? "of another version"
                        : result == -EINVAL  ? "against the rules (user, cookie, paths, variables)"
                                             : NULL;
    if (wrong != NULL) {
        verdict_set(verdict, SHIM_EXIT_BAD, "the launch file is %s", wrong);
    } else if (result != 0) {
        verdict_set(verdict, SHIM_EXIT_SYSTEM, "the launch file cannot be read: %s",
                    strerror(-result));
    }
    if (result != 0) {
        return;
    }
    if (start_user_check(ret_launch) != 0) {
        verdict_set(verdict, SHIM_EXIT_BAD, "only root may start ranks as uid %u", ret_launch->uid);
    }
}

static void ranks_start(struct ranks *ranks, int dir_fd, uint32_t crash_at, struct verdict *verdict)
{
    struct shim_launch launch;
    void *memory = NULL;
    launch_take(dir_fd, &launch, &memory, verdict);
    if (verdict->code != SHIM_EXIT_OK) {
        return;
    }
    int result = ranks_begin(ranks, dir_fd, &launch, memory, crash_at);
    if (result == -EALREADY) {
        verdict_set(verdict, SHIM_EXIT_SPENT, "attempt %u of job %u was begun before",
                    launch.attempt, launch.job);
    } else if (result == -EBUSY) {
        verdict_set(verdict, SHIM_EXIT_BAD, "the cgroup already holds processes");
    } else if (result != 0) {
        verdict_set(verdict, SHIM_EXIT_SYSTEM, "the ranks cannot be started: %s",
                    strerror(-result));
    }
}

/* The OOM killer should take a rank rather than the one who knows how ranks end. */
static void oom_score_lower(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t ignored = write(fd, "-900", 4);
        (void)ignored; /* root's privilege: without it as everybody */
        (void)close(fd);
    }
}

static void streams_detach(int dir_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log_fd =
        openat(dir_fd, SHIM_FILE_LOG, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (null_fd >= 0) {
        (void)dup2(null_fd, STDIN_FILENO); /* what fails keeps the agent's: harmless */
        (void)dup2(null_fd, STDOUT_FILENO);
        (void)dup2(log_fd >= 0 ? log_fd : null_fd, STDERR_FILENO);
    }
    if (log_fd >= 0) {
        (void)close(log_fd);
    }
    if (null_fd >= 0) {
        (void)close(null_fd);
    }
}

__attribute__((noreturn)) static void shim_run(const struct options *options, int dir_fd,
                                               int verdict_fd)
{
    static struct ranks ranks;
    static struct server server = {.listen_fd = -1};
    struct verdict verdict = {.code = SHIM_EXIT_OK};
    int signal_fd = -1;

    (void)setsid(); /* a fork leads no group, so it works */
    (void)umask(077);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 || (signal_fd = serve_signals()) < 0 ||
        chdir("/") != 0) {
        verdict_set(&verdict, SHIM_EXIT_SYSTEM, "the system refuses: %s", strerror(errno));
    }
    /* Before the first fork: a rank that hangs on its way to exec must not hold the agent's pipe.
     */
    streams_detach(dir_fd);
    oom_score_lower();
    if (verdict.code == SHIM_EXIT_OK) {
        lock_take(dir_fd, &verdict);
    }
    /* The socket before the ranks: once they run nothing may fail any more. */
    int result = verdict.code == SHIM_EXIT_OK ? server_open(&server, dir_fd) : 0;
    if (result != 0) {
        verdict_set(&verdict, SHIM_EXIT_SYSTEM, "the socket cannot be made: %s", strerror(-result));
    }
    if (verdict.code == SHIM_EXIT_OK) {
        ranks_start(&ranks, dir_fd, options->crash_at, &verdict);
    }
    ssize_t ignored = write(verdict_fd, &verdict, sizeof(verdict));
    (void)ignored; /* the waiting process may be gone, with the agent: we go on */
    (void)close(verdict_fd);
    if (verdict.code != SHIM_EXIT_OK) {
        if (server.listen_fd >= 0) {
            server_close(&server, dir_fd);
        }
        _exit(verdict.code);
    }
    result = serve_run(&ranks, &server, signal_fd);
    if (result != 0) {
        (void)fprintf(stderr, "keepstep-ranks: cannot wait for events: %s\n", strerror(-result));
        _exit(SHIM_EXIT_SYSTEM);
    }
    server_close(&server, dir_fd);
    ranks_end(&ranks);
    _exit(SHIM_EXIT_OK);
}

/* ---- the process that waits ------------------------------------------------------------- */

/* The shim died without a verdict: the records say how far it came. */
static int verdict_guess(int dir_fd)
{
    struct shim_ends ends;
    (void)fprintf(stderr, "keepstep-ranks: the shim died at its start\n");
    if (shim_ends_read(dir_fd, &ends) == 0 && ends.count > 0) {
        return SHIM_EXIT_SPENT;
    }
    return SHIM_EXIT_SYSTEM;
}

static int verdict_await(int verdict_fd, int dir_fd)
{
    struct verdict verdict;
    ssize_t got;
    do {
        got = read(verdict_fd, &verdict, sizeof(verdict));
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(verdict)) {
        return verdict_guess(dir_fd);
    }
    if (verdict.code != SHIM_EXIT_OK) {
        verdict.text[sizeof(verdict.text) - 1] = '\0';
        (void)fprintf(stderr, "keepstep-ranks: %s\n", verdict.text);
    }
    return verdict.code;
}

static int shim_start(const struct options *options, int dir_fd)
{
    int verdict[2];
    if (pipe2(verdict, O_CLOEXEC) != 0) {
        (void)fprintf(stderr, "keepstep-ranks: no pipe: %s\n", strerror(errno));
        return SHIM_EXIT_SYSTEM;
    }
    pid_t pid = fork();
    if (pid < 0) {
        (void)fprintf(stderr, "keepstep-ranks: no process: %s\n", strerror(errno));
        return SHIM_EXIT_SYSTEM;
    }
    if (pid == 0) {
        (void)close(verdict[0]); /* the other's */
        shim_run(options, dir_fd, verdict[1]);
    }
    (void)close(verdict[1]); /* the other's */
    return verdict_await(verdict[0], dir_fd);
}

int main(int argc, char **argv)
{
    struct options options;
    if (!options_parse(argc, argv, &options)) {
        (void)fputs(usage, stderr);
        return SHIM_EXIT_USAGE;
    }
    start_close_others(NULL, 0); /* whatever the agent left open is not ours */
    int dir_fd = open(options.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        (void)fprintf(stderr, "keepstep-ranks: %s: %s\n", options.dir, strerror(errno));
        return errno == ENOENT || errno == ENOTDIR ? SHIM_EXIT_BAD : SHIM_EXIT_SYSTEM;
    }
    if (options.sweep) {
        return sweep_run(dir_fd, options.kill_them);
    }
    return shim_start(&options, dir_fd);
}
