/* tree.c: see tree.h. Only /proc/<pid>/stat is read: it needs no lock of the process's memory, so
 * a process in D state cannot hold the shim. */
#include "agent/shim/tree.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TREE_PROCESSES_MAX = 1 << 22 }; /* the kernel's own limit of pids */

/* Not a number: 0. */
static int32_t pid_of_name(const char *name)
{
    int64_t pid = 0;
    for (; *name != '\0'; name++) {
        if (*name < '0' || *name > '9' || pid > TREE_PROCESSES_MAX) {
            return 0;
        }
        pid = pid * 10 + (*name - '0');
    }
    return (int32_t)pid;
}

int tree_each(tree_visit *visit, void *context)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL) {
        return -errno;
    }
    int result = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL && result == 0; entry = readdir(dir)) {
        int32_t pid = pid_of_name(entry->d_name);
        if (pid > 0) {
            result = visit(pid, context);
        }
    }
    (void)closedir(dir); /* opened for reading */
    return result;
}

static int process_add(struct tree *tree, const struct shim_process *process)
{
    if (tree->count == tree->capacity) {
        size_t capacity = tree->capacity == 0 ? 256 : tree->capacity * 2;
        struct shim_process *processes =
            realloc(tree->processes, capacity * sizeof(*tree->processes));
        if (processes == NULL) {
            return -ENOMEM;
        }
        tree->processes = processes;
        tree->capacity = capacity;
    }
    tree->processes[tree->count++] = *process;
    return 0;
}

static int scan_visit(int32_t pid, void *context)
{
    struct tree *tree = context;
    struct shim_process process;
    if (shim_record_process(pid, &process) != 0) {
        return 0; /* ended meanwhile */
    }
    if ((process.state == 'Z' || process.state == 'X') && process.threads <= 1) {
        return 0; /* its children have another parent already */
    }
    return process_add(tree, &process);
}

static bool is_inside(const struct tree *tree, size_t count, int32_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (tree->processes[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* Moves the descendants of root to the front, one generation after the other; returns how many. */
static size_t descendants_gather(struct tree *tree, int32_t root)
{
    size_t inside = 0;
    bool grew = true;
    while (grew) {
        grew = false;
        for (size_t i = inside; i < tree->count; i++) {
            struct shim_process process = tree->processes[i];
            if (process.parent == root || is_inside(tree, inside, process.parent)) {
                tree->processes[i] = tree->processes[inside];
                tree->processes[inside++] = process;
                grew = true;
            }
        }
    }
    return inside;
}

int tree_scan(int32_t root, struct tree *ret_tree)
{
    struct tree tree = {0};
    int result = tree_each(scan_visit, &tree);
    if (result != 0) {
        tree_done(&tree);
        return result;
    }
    tree.count = descendants_gather(&tree, root);
    *ret_tree = tree;
    return 0;
}

void tree_done(struct tree *tree)
{
    free(tree->processes);
    *tree = (struct tree){0};
}

int tree_signal(const struct shim_process *process, int signal_number)
{
    struct shim_process now;
    int pid_fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (pid_fd < 0) {
        return -errno;
    }
    int result = shim_record_process(process->pid, &now);
    if (result == 0 && now.start_ticks != process->start_ticks) {
        result = -ESRCH;
    }
    if (result == 0 && syscall(SYS_pidfd_send_signal, pid_fd, signal_number, NULL, 0) != 0) {
        result = -errno;
    }
    (void)close(pid_fd); /* only a name */
    return result;
}

size_t tree_kill(const struct tree *tree, int32_t own_group)
{
    size_t met = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const struct shim_process *process = &tree->processes[i];
        if (tree_signal(process, SIGKILL) != 0) {
            continue;
        }
        met++;
        /* The group too, in one stroke, against what forks faster than /proc is read. It is a
         * descendants' group: sessions are never joined from outside. */
        if (process->group > 1 && process->group != own_group) {
            (void)kill(-process->group, SIGKILL); /* gone already: fine */
        }
    }
    return met;
}
