/* task.c: see task.h. Its end is the end of its pipe, and then waitpid; one that closes the pipe and
 * goes on is killed at the deadline like any other. */
#include "agent/probe/task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { END_LOOK_MS = 10 };

int task_start(struct task *task, int (*work)(void *context), void *context)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return -errno;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)setpgid(0, 0);
        (void)dup2(pipe_fds[1], STDOUT_FILENO);
        _exit(work(context));
    }
    const int code = errno;
    (void)close(pipe_fds[1]); /* the child's */
    if (pid < 0) {
        (void)close(pipe_fds[0]); /* nobody writes */
        return -code;
    }
    (void)setpgid(pid, pid); /* whichever of the two comes first */
    *task = (struct task){.pid = pid, .fd = pipe_fds[0]};
    return 0;
}

static long long clock_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* True: it ended, and *ret_status says how. */
static bool reap(struct task *task, int *ret_status)
{
    int status = 0;
    const pid_t got = waitpid(task->pid, &status, WNOHANG);
    if (got == 0) {
        return false;
    }
    task->pid = 0;
    *ret_status = got > 0 && WIFEXITED(status) ? WEXITSTATUS(status)
                                               : 128 + (got > 0 ? WTERMSIG(status) : SIGKILL);
    return true;
}

static bool read_some(struct task *task, char *output, size_t size, size_t *used)
{
    char rest[512];
    const bool room = *used < size - 1;
    const ssize_t got = room ? read(task->fd, output + *used, size - 1 - *used)
                             : read(task->fd, rest, sizeof(rest)); /* so that it can go on */
    if (got > 0 && room) {
        *used += (size_t)got;
    }
    return got > 0 || (got < 0 && errno == EINTR);
}

int task_finish(struct task *task, int wait_ms, char *output, size_t size)
{
    const long long end = clock_ms() + wait_ms;
    size_t used = 0;
    int status = TASK_STUCK;
    bool open = true;
    bool over = false;
    while (!over && clock_ms() < end) {
        const long long left = end - clock_ms();
        struct pollfd event = {.fd = open ? task->fd : -1, .events = POLLIN};
        const int wait = open ? (int)left : END_LOOK_MS;
        if (poll(&event, 1, wait > 0 ? wait : 0) > 0) {
            open = read_some(task, output, size, &used);
        }
        over = !open && reap(task, &status);
    }
    output[used] = '\0';
    (void)close(task->fd); /* nothing more is read */
    if (!over) {
        (void)kill(-task->pid, SIGKILL); /* gone already: good */
        (void)kill(task->pid, SIGKILL);
    }
    return status;
}

bool task_is_gone(struct task *task)
{
    int status = 0;
    return task->pid == 0 || reap(task, &status);
}
