/* save_check.c: see save_check.h. */
#include "agent/io/save_check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "agent/io/save_manifest.h"
#include "agent/io/save_walk.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { READ_SIZE = 4 << 20, FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* The folder and its manifest, which must be the one that was committed. *ret_fd is the caller's. */
static int open_target(int parent_fd, const char *name, const struct save_target *target,
                       struct save_manifest *ret_manifest, int *ret_fd, struct err *err)
{
    const struct save_owner owner = {target->job, target->step, target->attempt};
    const int fd = openat(parent_fd, name, FOLDER_FLAGS);
    if (fd < 0) {
        const int code = -errno;
        return err_set(err, code, "%.128s: %s", target->directory, strerror(-code));
    }
    int r = save_manifest_read(fd, &owner, ret_manifest, err);
    if (r == 0 && target->hash[0] != '\0' && !text_equal(target->hash, ret_manifest->hash)) {
        save_manifest_done(ret_manifest);
        r = err_set(err, -EXDEV,
                    SAVE_MANIFEST_NAME ": its hash is %s, when it was committed it was %s",
                    ret_manifest->hash, target->hash);
    }
    if (r != 0) {
        (void)close(fd); /* opened for reading */
        return r;
    }
    *ret_fd = fd;
    return 0;
}

/* ---- reading again ------------------------------------------------------------------------------- */

struct reading {
    save_progress *progress;
    void *context;
    uint64_t done;
    uint64_t total;
    uint8_t *bytes; /* READ_SIZE */
    XXH3_state_t *state;
};

static int hash_file(struct reading *reading, int fd, const char *file, uint64_t size_max,
                     uint64_t *ret_size, char ret_hash[HASH_TEXT_SIZE], struct err *err)
{
    ssize_t got = 1;
    *ret_size = 0;
    if (XXH3_128bits_reset(reading->state) != XXH_OK) {
        return err_set(err, -EIO, "the hash cannot be begun");
    }
    while (got != 0 && *ret_size <= size_max) { /* one that grows on is not read for ever */
        got = read(fd, reading->bytes, READ_SIZE);
        if (got < 0 && errno != EINTR) {
            const int code = -errno;
            return err_set(err, code, "%.96s: %s", file, strerror(-code));
        }
        if (got > 0) {
            (void)XXH3_128bits_update(reading->state, reading->bytes,
                                      (size_t)got); /* never fails */
            /* What is read once must not push the ranks' own files out of the memory. */
            (void)posix_fadvise(fd, (off_t)*ret_size, got, POSIX_FADV_DONTNEED);
            *ret_size += (uint64_t)got;
            reading->done += (uint64_t)got;
            reading->progress(reading->context, reading->done, reading->total);
        }
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(reading->state);
    save_hash_text(hash.high64, hash.low64, ret_hash);
    return 0;
}

/* *ret_whole false: err says what is wrong with the shard. */
static int verify_shard(struct reading *reading, int folder_fd, const struct save_shard *shard,
                        bool *ret_whole, struct err *err)
{
    struct stat status;
    uint64_t size = 0;
    char hash[HASH_TEXT_SIZE];
    const int fd =
        openat(folder_fd, shard->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *ret_whole = false;
    if (fd < 0 && (errno == ENOENT || errno == ELOOP)) {
        (void)err_set(err, -errno, "%.96s: it is %s", shard->file,
                      errno == ENOENT ? "missing" : "a link, which is not followed");
        return 0;
    }
    if (fd < 0 || fstat(fd, &status) != 0) {
        const int code = -errno;
        if (fd >= 0) {
            (void)close(fd); /* nothing was read */
        }
        return err_set(err, code, "%.96s: %s", shard->file, strerror(-code));
    }
    int r = 0;
    if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != shard->size) {
        (void)err_set(err, -EBADMSG, "%.96s has %lld bytes, the manifest says %llu", shard->file,
                      (long long)status.st_size, (unsigned long long)shard->size);
    } else {
        r = hash_file(reading, fd, shard->file, shard->size, &size, hash, err);
        *ret_whole = r == 0 && size == shard->size && text_equal(hash, shard->hash);
        if (r == 0 && !*ret_whole) {
            (void)err_set(err, -EBADMSG, "%.64s: its hash is %s, the manifest says %s", shard->file,
                          hash, shard->hash);
        }
    }
    (void)close(fd); /* opened for reading */
    return r;
}

int save_verify(const struct save_target *target, save_progress *progress, void *context,
                bool *ret_whole, struct err *err)
{
    struct save_manifest manifest;
    int fd = -1;
    bool whole = true;
    int r = open_target(AT_FDCWD, target->directory, target, &manifest, &fd, err);
    if (r == -EBADMSG || r == -EXDEV || r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
        *ret_whole = false; /* err says why: found out, and not what was committed */
        return 0;
    }
    if (r != 0) {
        return r;
    }
    struct reading reading = {.progress = progress,
                              .context = context,
                              .total = manifest.bytes,
                              .bytes = mem_alloc(READ_SIZE, 1),
                              .state = XXH3_createState()};
    r = reading.state == NULL ? err_set(err, -ENOMEM, "no memory for the hash") : 0;
    for (uint32_t i = 0; i < manifest.shard_count && r == 0 && whole; i++) {
        const struct save_shard shard = save_manifest_shard(&manifest, i);
        r = verify_shard(&reading, fd, &shard, &whole, err);
    }
    (void)XXH3_freeState(reading.state); /* takes NULL, always succeeds */
    mem_free(reading.bytes);
    save_manifest_done(&manifest);
    (void)close(fd); /* opened for reading */
    if (r == 0) {
        *ret_whole = whole;
    }
    return r;
}

/* ---- removing ---------------------------------------------------------------------------------------- */

/* The plain files of a folder in the trash, then the folder. What holds folders stays. */
static int empty_folder(int trash_fd, const char *name, struct err *err)
{
    int code = 0;
    const int fd = openat(trash_fd, name, FOLDER_FLAGS);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        code = -errno;
        if (fd >= 0) {
            (void)close(fd); /* nothing was read */
        }
        return err_set(err, code, SAVE_TRASH "/%.64s: %s", name, strerror(-code));
    }
    const struct dirent *entry = readdir(folder);
    for (; entry != NULL; entry = readdir(folder)) {
        const bool self = text_equal(entry->d_name, ".") || text_equal(entry->d_name, "..");
        if (!self && unlinkat(fd, entry->d_name, 0) != 0 && errno != ENOENT) {
            code = -errno; /* a folder, or not ours: rmdir says it again */
        }
    }
    (void)closedir(folder); /* opened for reading */
    if (unlinkat(trash_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        code = code != 0 ? code : -errno;
        return err_set(err, code, SAVE_TRASH "/%.64s: %s", name, strerror(-code));
    }
    return 0;
}

/* The trash beside the checkpoints; a link in its place is refused. */
static int open_trash(int parent_fd, int *ret_fd, struct err *err)
{
    if (mkdirat(parent_fd, SAVE_TRASH, 0700) != 0 && errno != EEXIST) {
        const int code = -errno;
        return err_set(err, code, SAVE_TRASH ": %s", strerror(-code));
    }
    const int fd = openat(parent_fd, SAVE_TRASH, FOLDER_FLAGS);
    if (fd < 0) {
        const int code = -errno;
        return err_set(err, code, SAVE_TRASH ": %s", strerror(-code));
    }
    *ret_fd = fd;
    return 0;
}

static int move_and_empty(int parent_fd, const char *name, const struct save_target *target,
                          struct err *err)
{
    struct save_manifest manifest;
    int fd = -1;
    int trash_fd = -1;
    int r = open_trash(parent_fd, &trash_fd, err);
    if (r != 0) {
        return r;
    }
    r = open_target(parent_fd, name, target, &manifest, &fd, err);
    if (r == 0) {
        save_manifest_done(&manifest);
        (void)close(fd); /* opened for reading */
        /* A folder replaces nothing but an empty folder; so no flag is asked for, which network file
         * systems do not know. */
        if (renameat(parent_fd, name, trash_fd, name) != 0) {
            r = err_set(err, -errno, "%.96s cannot be moved into " SAVE_TRASH ": %s", name,
                        strerror(errno));
        }
    } else if (r == -ENOENT && faccessat(parent_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        r = 0; /* moved by an earlier try that was cut off */
    }
    r = r == 0 ? empty_folder(trash_fd, name, err) : r;
    r = r == -ENOENT ? 0 : r; /* … and emptied by it */
    (void)close(trash_fd);    /* opened for reading */
    return r;
}

int save_remove(const struct save_target *target, struct err *err)
{
    char wanted[64];
    char parent[PATH_SIZE];
    const char *slash = strrchr(target->directory, '/');
    (void)text_format(wanted, sizeof(wanted), "step-%llu.a-%u", (unsigned long long)target->step,
                      target->attempt);
    if (target->directory[0] != '/' || !text_equal(slash + 1, wanted) ||
        !text_copy(parent, sizeof(parent), target->directory)) {
        return err_set(err, -EINVAL, "'%.96s' is not a folder %s: it is left alone",
                       target->directory, wanted);
    }
    parent[slash - target->directory + 1] = '\0';
    const int parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent_fd < 0) {
        const int code = -errno;
        return err_set(err, code, "%.128s: %s", parent, strerror(-code));
    }
    const int r = move_and_empty(parent_fd, wanted, target, err);
    (void)close(parent_fd); /* opened for reading */
    return r;
}
