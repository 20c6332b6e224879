/* start.c: see start.h. Runs in a fork of the shim, which has one thread, so all of libc may be
 * used. It may hang in any step (a dead NFS server): nobody waits for it. */
#include "agent/shim/start.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    START_CODE_FAILED = 127,
    START_CODE_ABANDONED = 126,
    START_FD_LIMIT = 65536, /* where close_range is missing */
    START_CPUS_MAX = 8192,
};

__attribute__((noreturn)) static void fail(const struct start_channel *channel, uint32_t stage,
                                           int result)
{
    struct start_report report = {.stage = stage, .error = -result};
    /* 8 bytes into an empty pipe: written or, when the shim is gone, not wanted. */
    ssize_t ignored = write(channel->report_fd, &report, sizeof(report));
    (void)ignored;
    _exit(START_CODE_FAILED);
}

static void range_close(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0) {
        return;
    }
    for (unsigned fd = first; fd <= last && fd < START_FD_LIMIT; fd++) {
        (void)close((int)fd); /* not open: fine */
    }
}

void start_close_others(const int *keep, uint32_t count)
{
    unsigned next = 3;
    for (;;) {
        unsigned lowest = ~0u;
        for (uint32_t i = 0; i < count; i++) {
            if (keep[i] >= (int)next && (unsigned)keep[i] < lowest) {
                lowest = (unsigned)keep[i];
            }
        }
        if (lowest == ~0u) {
            range_close(next, ~0u);
            return;
        }
        if (lowest > next) {
            range_close(next, lowest - 1);
        }
        next = lowest + 1;
    }
}

/* The shim records this process before it lets it go on. */
static void leave_await(const struct start_channel *channel)
{
    char byte;
    ssize_t got;
    do {
        got = read(channel->go_fd, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) {
        _exit(START_CODE_ABANDONED);
    }
}

/* The shim protects itself from the OOM killer; its ranks are as any other process. Lowering is
 * root's, so an unprivileged shim that was given a high score keeps it. */
static void oom_score_reset(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t ignored = write(fd, "0", 1);
        (void)ignored; /* see above */
        (void)close(fd);
    }
}

static int limit_raise(int resource)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) {
        return -errno;
    }
    limit.rlim_cur = limit.rlim_max;
    return setrlimit((__rlimit_resource_t)resource, &limit) != 0 ? -errno : 0;
}

static int limits_set(uint64_t core_bytes)
{
    struct rlimit core;
    int result = limit_raise(RLIMIT_NOFILE);
    if (result == 0) {
        result = limit_raise(RLIMIT_MEMLOCK);
    }
    if (result == 0 && getrlimit(RLIMIT_CORE, &core) != 0) {
        result = -errno;
    }
    if (result != 0) {
        return result;
    }
    rlim_t wanted = core_bytes == UINT64_MAX ? RLIM_INFINITY : (rlim_t)core_bytes;
    core.rlim_cur = wanted < core.rlim_max ? wanted : core.rlim_max;
    return setrlimit(RLIMIT_CORE, &core) != 0 ? -errno : 0;
}

/* Every CPU that the machine, or the container, allows: an agent pinned to one core starts ranks
 * that are not. */
static int affinity_reset(void)
{
    unsigned long mask[START_CPUS_MAX / (8 * sizeof(unsigned long))];
    memset(mask, 0xff, sizeof(mask));
    return sched_setaffinity(0, sizeof(mask), (const cpu_set_t *)mask) != 0 ? -errno : 0;
}

int start_user_check(const struct shim_launch *launch)
{
    uid_t uid;
    uid_t effective;
    uid_t saved;
    if (getresuid(&uid, &effective, &saved) != 0) {
        return -errno;
    }
    if (effective == 0) {
        return 0; /* uid 0 without allow_root was refused with the launch file */
    }
    return launch->uid == effective && uid == effective ? 0 : -EPERM;
}

static int user_switch(const struct shim_launch *launch)
{
    gid_t groups[SHIM_GROUPS_MAX];
    if (geteuid() != 0) {
        return start_user_check(launch); /* nothing to switch */
    }
    for (uint32_t i = 0; i < launch->group_count; i++) {
        groups[i] = launch->groups[i];
    }
    if (setgroups(launch->group_count, groups) != 0 ||
        setresgid(launch->gid, launch->gid, launch->gid) != 0 ||
        setresuid(launch->uid, launch->uid, launch->uid) != 0) {
        return -errno;
    }
    /* There must be no way back. */
    if (launch->uid != 0 && (setuid(0) == 0 || geteuid() != launch->uid)) {
        return -EPERM;
    }
    return 0;
}

/* Makes the folders that `path` lies in, as the user. What is wrong shows when the file is opened.
 */
static void folders_make(const char *path)
{
    char folder[SHIM_PATH_SIZE];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t length = (size_t)(slash - path);
        if (length >= sizeof(folder)) {
            return;
        }
        memcpy(folder, path, length);
        folder[length] = '\0';
        (void)mkdir(folder, 0777); /* there already, or the open says why */
    }
}

static int output_open(const char *path)
{
    struct stat info;
    if (path[0] == '\0') {
        return open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    folders_make(path);
    /* Without O_NONBLOCK a pipe under this name would hang here for a reader. */
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    int fd = open(path, flags, 0666);
    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(fd); /* nothing was written */
        errno = EINVAL;
        return -1;
    }
    return fcntl(fd, F_SETFL, O_APPEND) == 0 ? fd : -1;
}

static int streams_set(const char *output)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0) {
        return -errno;
    }
    int out = output_open(output);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) {
        return -errno;
    }
    return 0;
}

static void signals_reset(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL); /* KILL, STOP and libc's own refuse: as they should */
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* cannot fail with these */
}

/* Common variables, then the rank's own in place of those of the same name, then the cookie. */
static char **environment_make(const struct shim_launch *launch, uint32_t index)
{
    static char cookie[sizeof(SHIM_COOKIE_KEY) + SHIM_COOKIE_SIZE];
    const struct shim_list *lists[] = {&launch->env, &launch->ranks[index].env};
    char **result =
        calloc((size_t)launch->env.count + launch->ranks[index].env.count + 2, sizeof(*result));
    size_t count = 0;
    if (result == NULL) {
        return NULL;
    }
    for (size_t list = 0; list < 2; list++) {
        for (uint32_t i = 0; i < lists[list]->count; i++) {
            const char *item = lists[list]->items[i];
            size_t key = (size_t)(strchr(item, '=') - item) + 1;
            size_t at = 0;
            while (at < count && strncmp(result[at], item, key) != 0) {
                at++;
            }
            result[at] = (char *)(uintptr_t)item; /* exec takes it so, and changes nothing */
            count += at == count;
        }
    }
    (void)snprintf(cookie, sizeof(cookie), SHIM_COOKIE_KEY "=%s", launch->cookie); /* fits */
    result[count] = cookie;
    return result;
}

static int program_exec(const struct shim_launch *launch, uint32_t index)
{
    char **environment = environment_make(launch, index);
    if (environment == NULL) {
        return -ENOMEM;
    }
    char *const *argv = (char *const *)(uintptr_t)launch->ranks[index].argv.items;
    environ = environment; /* execvp looks the program up in this PATH */
    (void)execvp(argv[0], argv);
    return -errno;
}

void start_rank(const struct shim_launch *launch, uint32_t index,
                const struct start_channel *channel)
{
    const int keep[] = {channel->go_fd, channel->report_fd};
    start_close_others(keep, sizeof(keep) / sizeof(keep[0]));
    leave_await(channel);

    int result = setsid() < 0 ? -errno : 0;
    if (result != 0) {
        fail(channel, SHIM_STAGE_SESSION, result);
    }
    oom_score_reset();
    result = limits_set(launch->core_bytes);
    if (result == 0) {
        result = affinity_reset();
    }
    if (result != 0) {
        fail(channel, SHIM_STAGE_LIMITS, result);
    }
    result = user_switch(launch);
    if (result != 0) {
        fail(channel, SHIM_STAGE_USER, result);
    }
    /* From here on this is the user's process, and only here the job's paths are touched. */
    (void)umask((mode_t)launch->umask);
    (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0); /* ranks outlive a shim: the agent decides */
    if (chdir(launch->workdir) != 0) {
        fail(channel, SHIM_STAGE_WORKDIR, -errno);
    }
    result = streams_set(launch->ranks[index].output);
    if (result != 0) {
        fail(channel, SHIM_STAGE_OUTPUT, result);
    }
    signals_reset();
    fail(channel, SHIM_STAGE_EXEC, program_exec(launch, index));
}
