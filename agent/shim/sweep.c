/* sweep.c: see sweep.h. Three ways to find an orphan: it is in the attempt's cgroup, it is a
 * recorded rank (pid and start time, of this boot), or its environment holds the attempt's cookie.
 * Only the cgroup can prove that there is none: a program may change its environment. */
#include "agent/shim/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/shim/cgroup.h"
#include "agent/shim/record.h"
#include "agent/shim/shim.h"
#include "agent/shim/tree.h"

enum { SWEEP_CHUNK = 65536 };

struct sweep {
    char needle[sizeof(SHIM_COOKIE_KEY) + SHIM_COOKIE_SIZE]; /* KEEPSTEP_COOKIE=… */
    struct shim_status status;                               /* from the records */
    bool kill_them;
    size_t found;
};

static bool is_running(const struct shim_process *process)
{
    return (process->state != 'Z' && process->state != 'X') || process->threads > 1;
}

static void orphan_report(struct sweep *sweep, const struct shim_process *process, const char *how)
{
    if (sweep->kill_them) {
        (void)tree_signal(process, SIGKILL); /* gone already: the next sweep does not find it */
    }
    (void)printf("pid %d %s\n", process->pid, how);
    sweep->found++;
}

static bool is_recorded(const struct sweep *sweep, const struct shim_process *process)
{
    for (uint32_t i = 0; i < sweep->status.rank_count; i++) {
        const struct shim_rank_status *rank = &sweep->status.ranks[i];
        if (rank->state == SHIM_RANK_RUNNING && rank->pid == process->pid &&
            rank->start_ticks == process->start_ticks) {
            return true;
        }
    }
    return false;
}

/* Reads in pieces that overlap by a needle's length. */
static bool environment_has(int32_t pid, const char *needle)
{
    static char chunk[SWEEP_CHUNK];
    char path[64];
    size_t length = strlen(needle);
    size_t held = 0;
    bool found = false;

    (void)snprintf(path, sizeof(path), "/proc/%d/environ", pid); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false; /* ended, or of another user */
    }
    while (!found) {
        ssize_t got = read(fd, chunk + held, sizeof(chunk) - held);
        if (got <= 0) {
            break;
        }
        held += (size_t)got;
        found = memmem(chunk, held, needle, length) != NULL;
        size_t keep = held < length ? held : length;
        memmove(chunk, chunk + held - keep, keep);
        held = keep;
    }
    (void)close(fd); /* opened for reading */
    return found;
}

static int sweep_visit(int32_t pid, void *context)
{
    struct sweep *sweep = context;
    struct shim_process process;
    if (pid == getpid() || shim_record_process(pid, &process) != 0 || !is_running(&process)) {
        return 0;
    }
    if (is_recorded(sweep, &process)) {
        orphan_report(sweep, &process, "record");
    } else if (environment_has(pid, sweep->needle)) {
        orphan_report(sweep, &process, "cookie");
    }
    return 0;
}

/* 1: the cgroup holds something; 0: it proves that nothing is left; -errno: it says nothing. */
static int cgroup_sweep(const struct sweep *sweep, const char *path)
{
    struct cgroup cgroup;
    if (!sweep->status.has_cgroup) {
        return -ENOENT;
    }
    int result = cgroup_find(path, &cgroup);
    if (result == -ENOENT) {
        return 0; /* only an empty one can be removed */
    }
    if (result != 0) {
        return result;
    }
    result = cgroup_populated(&cgroup);
    if (result > 0) {
        (void)printf("cgroup populated\n");
        if (sweep->kill_them) {
            (void)cgroup_kill(&cgroup); /* the next sweep sees whether it worked */
        }
    }
    if (result == 0) {
        cgroup_close(&cgroup, path);
    } else {
        cgroup_close(&cgroup, "");
    }
    return result;
}

/* Proven by the records alone: no program ever ran, or the shim saw the end of everything, or the
 * machine was started anew since. */
static bool records_prove(const struct shim_ends *ends)
{
    bool started = false;
    for (uint32_t i = 0; i < ends->count; i++) {
        started = started || ends->records[i].kind == SHIM_RECORD_START;
        if (ends->records[i].kind == SHIM_RECORD_EMPTY) {
            return true;
        }
    }
    return !started || ends->records[0].boot_hash != shim_record_boot_hash();
}

static int lock_share(int dir_fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd = openat(dir_fd, SHIM_FILE_LOCK, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    return fcntl(fd, F_SETLK, &lock) == 0 ? 0 : -errno; /* held, with fd, until this process ends */
}

static int sweep_all(struct sweep *sweep, const struct shim_launch *launch)
{
    (void)snprintf(sweep->needle, sizeof(sweep->needle), SHIM_COOKIE_KEY "=%s", launch->cookie);
    int held = cgroup_sweep(sweep, launch->cgroup);
    if (tree_each(sweep_visit, sweep) != 0) {
        (void)fprintf(stderr, "keepstep-ranks: /proc cannot be read\n");
        return SHIM_EXIT_SYSTEM;
    }
    if (sweep->found > 0 || held > 0) {
        return SHIM_EXIT_ALIVE;
    }
    return held == 0 ? SHIM_EXIT_OK : SHIM_EXIT_UNPROVEN;
}

int sweep_run(int dir_fd, bool kill_them)
{
    struct sweep sweep = {.kill_them = kill_them};
    struct shim_launch launch;
    struct shim_ends ends;
    void *memory = NULL;

    int result = lock_share(dir_fd);
    if (result != 0) {
        (void)fprintf(stderr, "keepstep-ranks: %s\n",
                      result == -EAGAIN || result == -EACCES ? "the shim of this attempt is alive"
                                                             : strerror(-result));
        return result == -EAGAIN || result == -EACCES ? SHIM_EXIT_RUNNING : SHIM_EXIT_SYSTEM;
    }
    result = shim_ends_read(dir_fd, &ends);
    if (result == -ENOENT || (result == 0 && records_prove(&ends))) {
        return SHIM_EXIT_OK;
    }
    if (result == 0) {
        result = shim_launch_read(dir_fd, &launch, &memory);
    }
    if (result != 0) {
        (void)fprintf(stderr, "keepstep-ranks: the attempt's files cannot be read: %s\n",
                      strerror(-result));
        return SHIM_EXIT_BAD;
    }
    shim_status_fold(&ends, &sweep.status);
    result = sweep_all(&sweep, &launch);
    free(memory);
    return result;
}
