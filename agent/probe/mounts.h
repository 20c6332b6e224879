/* mounts.h: the kernel's table of mounts, as lines of /proc/mounts. Pure but for mounts_read(). */
#ifndef KEEPSTEP_PROBE_MOUNTS_H
#define KEEPSTEP_PROBE_MOUNTS_H

#include "agent/probe/probe.h"

enum { MOUNTS_MAX = 128, MOUNT_PATH_SIZE = 256, MOUNT_TYPE_SIZE = 32 };

struct mount {
    char source[MOUNT_PATH_SIZE];
    char path[MOUNT_PATH_SIZE]; /* with its octal escapes resolved */
    char type[MOUNT_TYPE_SIZE];
    bool read_only;
};

struct mounts {
    uint32_t count;
    uint32_t left_out;
    struct mount mounts[MOUNTS_MAX];
};

/* "source path type options 0 0". false: another shape, or too long. */
bool mount_parse(const char *line, size_t size, struct mount *ret_mount);

/* The mounts of `wanted` types; of several at one path the last one, which is the one that is seen.
 * -errno. */
MUST_CHECK int mounts_read(const char *proc, bool (*wanted)(const struct mount *mount),
                           struct mounts *ret_mounts);

bool mount_is_network(const struct mount *mount); /* answers from afar, so it may not answer */
bool mount_is_local(const struct mount *mount);   /* a disk of this machine */

extern const struct probe probe_mounts;
extern const struct probe probe_disks;

#endif
