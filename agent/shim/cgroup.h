/* cgroup.h: one v2 cgroup that holds every process of an attempt. Where it can be had, it is the
 * best proof of emptiness and the surest KILL: a process cannot leave it, whatever it forks. */
#ifndef KEEPSTEP_SHIM_CGROUP_H
#define KEEPSTEP_SHIM_CGROUP_H

#include <stdbool.h>

struct cgroup {
    int procs_fd; /* -1: there is no cgroup, and all of these are harmless */
    int kill_fd;
    int events_fd; /* becomes POLLPRI when `populated` changes */
};

/* Makes the cgroup at the absolute `path` when missing. 0; -EBUSY: it holds processes already (of
 * somebody else: this attempt has none yet); other -errno: it cannot be used here (no v2 mount, no
 * permission to move processes into it, a kernel without cgroup.kill), *ret_cgroup is the harmless
 * one. */
int cgroup_open(const char *path, struct cgroup *ret_cgroup);
void cgroup_close(struct cgroup *cgroup, const char *path); /* and removes it when empty */

/* For --sweep: an existing one, or -ENOENT. */
int cgroup_find(const char *path, struct cgroup *ret_cgroup);

bool cgroup_is_used(const struct cgroup *cgroup);
/* Moves a process in. Whoever starts something moves it in before it may run: a process that moves
 * itself could be missed by somebody who asks whether the cgroup is populated. */
int cgroup_join(const struct cgroup *cgroup, int pid);
int cgroup_kill(const struct cgroup *cgroup);
/* 1 populated, 0 empty, -errno unknown. */
int cgroup_populated(const struct cgroup *cgroup);

#endif
