/* durable.c: temporary name, write, fsync, rename, fsync of the folder. */
#include "agent/trainer/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static void hash_text(XXH128_hash_t hash, char ret_hash[DURABLE_HASH_SIZE])
{
    /* The canonical form: the high half first, as xxhsum prints it. */
    (void)snprintf(ret_hash, DURABLE_HASH_SIZE, "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
}

void durable_hash(const void *data, size_t size, char ret_hash[DURABLE_HASH_SIZE])
{
    hash_text(XXH3_128bits(data, size), ret_hash);
}

static int write_all(int fd, const void *data, size_t size)
{
    const char *from = data;
    while (size > 0) {
        const ssize_t written = write(fd, from, size);
        if (written < 0 && errno != EINTR) {
            return -errno;
        }
        from += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static int write_parts(int fd, const struct durable_part *parts, size_t part_count,
                       struct durable_file *ret_file)
{
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL) {
        return -ENOMEM;
    }
    int code = XXH3_128bits_reset(state) == XXH_OK ? 0 : -ENOMEM;
    ret_file->size = 0;
    for (size_t i = 0; i < part_count && code == 0; i++) {
        code = write_all(fd, parts[i].data, parts[i].size);
        if (code == 0 && XXH3_128bits_update(state, parts[i].data, parts[i].size) != XXH_OK) {
            code = -EIO;
        }
        ret_file->size += parts[i].size;
    }
    hash_text(XXH3_128bits_digest(state), ret_file->hash);
    (void)XXH3_freeState(state); /* always succeeds */
    return code;
}

/* A name that no other writer of this file uses: other nodes' names differ by rank and attempt. */
static int temporary_name(const char *name, char *ret_name, size_t size)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    const int length = snprintf(ret_name, size, ".%s.%ld-%lx%09lx.tmp", name, (long)getpid(),
                                (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec);
    return length > 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

/* Gives a file its final name without ever taking it from another file. */
static int rename_new(int folder, const char *from, const char *to)
{
    if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -errno;
    }
    /* This file system does not know the flag: a link never replaces either. */
    if (linkat(folder, from, folder, to, 0) != 0) {
        return -errno;
    }
    return unlinkat(folder, from, 0) == 0 ? 0 : -errno;
}

static int publish(int folder, const char *temporary, const char *name, bool replace)
{
    int code = 0;
    if (replace) {
        code = renameat(folder, temporary, folder, name) == 0 ? 0 : -errno;
    } else {
        code = rename_new(folder, temporary, name);
    }
    if (code == 0 && fsync(folder) != 0) {
        code = -errno;
    }
    return code;
}

int durable_write(int folder, const char *name, const struct durable_part *parts, size_t part_count,
                  bool replace, const char *place, struct fail *fail, struct durable_file *ret_file)
{
    char temporary[NAME_MAX + 1];
    struct durable_file file;
    int fd = -1;
    int code = temporary_name(name, temporary, sizeof(temporary));
    if (code == 0) {
        fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        code = fd >= 0 ? 0 : -errno;
    }
    if (fd >= 0) {
        code = write_parts(fd, parts, part_count, &file);
        if (code == 0 && fsync(fd) != 0) {
            code = -errno;
        }
        if (close(fd) != 0 && code == 0) {
            code = -errno;
        }
        if (code == 0) {
            code = publish(folder, temporary, name, replace);
        }
        if (code < 0) {
            (void)unlinkat(folder, temporary, 0); /* nothing depends on it */
        }
    }
    if (code < 0) {
        return fail_set(fail, EXIT_LOCAL, code, "cannot write '%s' in '%s': %s", name, place,
                        fail_errno_text(code));
    }
    *ret_file = file;
    return 0;
}

/* Splits a path: *ret_name points into path, ret_folder gets what is before ("." if nothing). */
static int split_path(const char *path, char *ret_folder, size_t size, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    const size_t length = slash == NULL ? 0 : (size_t)(slash - path) + (slash == path ? 1 : 0);
    if (*name == '\0' || length >= size) {
        return -EINVAL;
    }
    memcpy(ret_folder, path, length);
    ret_folder[length] = '\0';
    if (length == 0) {
        ret_folder[0] = '.';
        ret_folder[1] = '\0';
    }
    *ret_name = name;
    return 0;
}

/* Opens the folder that holds path. */
static int open_parent(const char *path, const char **ret_name, struct fail *fail, int *ret_folder)
{
    char parent[PATH_MAX];
    int code = split_path(path, parent, sizeof(parent), ret_name);
    if (code == 0) {
        const int folder = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        code = folder >= 0 ? 0 : -errno;
        *ret_folder = folder;
    }
    if (code < 0) {
        return fail_set(fail, EXIT_LOCAL, code, "cannot open the folder of '%s': %s", path,
                        fail_errno_text(code));
    }
    return 0;
}

int durable_write_path(const char *path, const struct durable_part *parts, size_t part_count,
                       bool replace, struct fail *fail)
{
    int folder = -1;
    const char *name = NULL;
    struct durable_file file;
    int code = open_parent(path, &name, fail, &folder);
    if (code == 0) {
        code = durable_write(folder, name, parts, part_count, replace, path, fail, &file);
        (void)close(folder); /* synced already */
    }
    return code;
}

int durable_make_folder(const char *path, struct fail *fail)
{
    int folder = -1;
    const char *name = NULL;
    int code = open_parent(path, &name, fail, &folder);
    if (code < 0) {
        return code;
    }
    if (mkdirat(folder, name, 0777) != 0 && errno != EEXIST) {
        code = -errno;
    } else if (fsync(folder) != 0) {
        code = -errno;
    }
    (void)close(folder); /* synced already */
    if (code < 0) {
        return fail_set(fail, EXIT_LOCAL, code, "cannot make the folder '%s': %s", path,
                        fail_errno_text(code));
    }
    return 0;
}
