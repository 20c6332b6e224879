/* cgroup.c: see cgroup.h. */
#include "agent/shim/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define CGROUP2_MAGIC 0x63677270

static const struct cgroup cgroup_none = {.procs_fd = -1, .kill_fd = -1, .events_fd = -1};

bool cgroup_is_used(const struct cgroup *cgroup)
{
    return cgroup->procs_fd >= 0;
}

static void files_close(struct cgroup *cgroup)
{
    int fds[] = {cgroup->procs_fd, cgroup->kill_fd, cgroup->events_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]); /* control files keep nothing back */
        }
    }
    *cgroup = cgroup_none;
}

int cgroup_find(const char *path, struct cgroup *ret_cgroup)
{
    struct statfs file_system;
    struct cgroup cgroup = cgroup_none;
    *ret_cgroup = cgroup_none;

    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir_fd < 0) {
        return -errno;
    }
    int result = fstatfs(dir_fd, &file_system) != 0 ? -errno : 0;
    if (result == 0 && file_system.f_type != CGROUP2_MAGIC) {
        result = -EOPNOTSUPP;
    }
    if (result == 0) {
        cgroup.procs_fd = openat(dir_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        cgroup.kill_fd = openat(dir_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        cgroup.events_fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
        if (cgroup.procs_fd < 0 || cgroup.kill_fd < 0 || cgroup.events_fd < 0) {
            result = -errno;
        }
    }
    (void)close(dir_fd); /* opened for reading */
    if (result != 0) {
        files_close(&cgroup);
        return result;
    }
    *ret_cgroup = cgroup;
    return 0;
}

int cgroup_join(const struct cgroup *cgroup, int pid)
{
    char text[16];
    if (!cgroup_is_used(cgroup)) {
        return 0;
    }
    int length = snprintf(text, sizeof(text), "%d", pid);
    return pwrite(cgroup->procs_fd, text, (size_t)length, 0) == length ? 0 : -errno;
}

/* Whether processes can be moved in is known only when one was: a child that waits for the end of a
 * pipe and ends. */
static int join_try(const struct cgroup *cgroup)
{
    int hold[2];
    char byte;
    if (pipe2(hold, O_CLOEXEC) != 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(hold[1]); /* or the end would never come */
        ssize_t ignored = read(hold[0], &byte, 1);
        (void)ignored;
        _exit(0);
    }
    int result = pid < 0 ? -errno : cgroup_join(cgroup, pid);
    (void)close(hold[0]); /* the child has its own */
    (void)close(hold[1]); /* lets it go */
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0); /* ours, and it is ending */
    }
    return result;
}

int cgroup_open(const char *path, struct cgroup *ret_cgroup)
{
    bool made = mkdir(path, 0755) == 0;
    *ret_cgroup = cgroup_none;
    if (!made && errno != EEXIST) {
        return -errno;
    }
    int result = cgroup_find(path, ret_cgroup);
    if (result == 0) {
        int populated = cgroup_populated(ret_cgroup);
        result = populated > 0 ? -EBUSY : populated;
    }
    if (result == 0) {
        result = join_try(ret_cgroup);
    }
    if (result != 0) {
        files_close(ret_cgroup);
        if (made) {
            (void)rmdir(path); /* a plain folder where no cgroup can be */
        }
    }
    return result;
}

void cgroup_close(struct cgroup *cgroup, const char *path)
{
    if (cgroup_is_used(cgroup)) {
        files_close(cgroup);
        (void)rmdir(path); /* busy: it stays, and the agent's sweep of old ones finds it */
    }
}

int cgroup_kill(const struct cgroup *cgroup)
{
    if (!cgroup_is_used(cgroup)) {
        return 0;
    }
    return pwrite(cgroup->kill_fd, "1", 1, 0) == 1 ? 0 : -errno;
}

int cgroup_populated(const struct cgroup *cgroup)
{
    char text[256];
    if (!cgroup_is_used(cgroup)) {
        return -ENOENT;
    }
    ssize_t got = pread(cgroup->events_fd, text, sizeof(text) - 1, 0);
    if (got < 0) {
        return -errno;
    }
    text[got] = '\0';
    const char *word = strstr(text, "populated ");
    if (word == NULL) {
        return -EBADMSG;
    }
    return word[strlen("populated ")] == '0' ? 0 : 1;
}
