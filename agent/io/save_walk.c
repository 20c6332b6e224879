/* save_walk.c: see save_walk.h. No recursion: one open folder a level. */
#include "agent/io/save_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { WALK_PATH_SIZE = SAVE_DEPTH_MAX * SAVE_NAME_SIZE };

/* ---- small parts ------------------------------------------------------------------------------- */

void save_fault(char fault[TEXT_SIZE], const char *format, ...)
{
    va_list arguments;
    if (fault[0] != '\0') {
        return;
    }
    va_start(arguments, format);
    (void)text_sentence_list(fault, TEXT_SIZE, format, arguments); /* a cut text will do */
    va_end(arguments);
}

bool save_name_ok(const char *name)
{
    return name[0] != '\0' && text_is_utf8(name, strlen(name)) && strpbrk(name, "\t\n/") == NULL;
}

void save_hash_text(uint64_t high, uint64_t low, char ret_hash[HASH_TEXT_SIZE])
{
    (void)text_format(ret_hash, HASH_TEXT_SIZE, "%016llx%016llx", (unsigned long long)high,
                      (unsigned long long)low);
}

void save_hash(const void *data, size_t size, char ret_hash[HASH_TEXT_SIZE])
{
    const XXH128_hash_t hash = XXH3_128bits(data, size);
    save_hash_text(hash.high64, hash.low64, ret_hash);
}

int save_read(int folder_fd, const char *name, uint64_t max, char **ret_text, size_t *ret_size)
{
    struct stat status;
    const int fd =
        openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    int r = fstat(fd, &status) == 0 ? 0 : -errno;
    if (r == 0 && !S_ISREG(status.st_mode)) {
        r = -EINVAL;
    }
    if (r == 0 && (uint64_t)status.st_size > max) {
        r = -EFBIG;
    }
    const size_t size = r == 0 ? (size_t)status.st_size : 0;
    char *text = r == 0 ? mem_try(size + 1, 1) : NULL;
    r = r == 0 && text == NULL ? -ENOMEM : r;
    size_t done = 0;
    while (r == 0 && done < size) {
        const ssize_t got = read(fd, text + done, size - done);
        if (got == 0) {
            r = -ESTALE; /* it shrank under us */
        } else if (got < 0 && errno != EINTR) {
            r = -errno;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd); /* opened for reading */
    if (r != 0) {
        mem_free(text);
        return r;
    }
    *ret_text = text;
    *ret_size = size;
    return 0;
}

/* ---- the sums ----------------------------------------------------------------------------------- */

static uint64_t to_ms(const struct timespec *time)
{
    return time->tv_sec < 0 ? 0 : (uint64_t)time->tv_sec * 1000 + (uint64_t)time->tv_nsec / 1000000;
}

void save_tally_add(struct save_tally *tally, const char *path, const struct stat *status)
{
    char text[WALK_PATH_SIZE + 64];
    (void)text_format(text, sizeof(text), "%s\n%llu\n%lld.%09ld", path,
                      (unsigned long long)status->st_size, (long long)status->st_mtim.tv_sec,
                      status->st_mtim.tv_nsec);
    const XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    const uint64_t changed_ms = to_ms(&status->st_mtim);
    tally->hash_high += hash.high64; /* a sum, so that the order of the names does not matter */
    tally->hash_low += hash.low64;
    tally->files++;
    tally->bytes += (uint64_t)status->st_size;
    if (tally->first_ms == 0 || changed_ms < tally->first_ms) {
        tally->first_ms = changed_ms;
    }
    tally->last_ms = changed_ms > tally->last_ms ? changed_ms : tally->last_ms;
}

void save_tally_hash(const struct save_tally *tally, char ret_hash[HASH_TEXT_SIZE])
{
    save_hash_text(tally->hash_high, tally->hash_low, ret_hash);
}

/* ---- the walk ----------------------------------------------------------------------------------- */

struct level {
    DIR *folder;
    size_t path_size; /* of the path up to here, with its '/' */
};

struct walk {
    struct save_tally *tally;
    save_visit *visit;
    void *context;
    char path[WALK_PATH_SIZE];
    struct level levels[SAVE_DEPTH_MAX];
    int depth;
};

/* fd is taken, also when it fails. */
static void enter(struct walk *walk, int fd)
{
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        save_fault(walk->tally->fault, "%.96s: %s", walk->path, strerror(errno));
        if (fd >= 0) {
            (void)close(fd); /* nothing was read */
        }
        return;
    }
    const size_t size = strlen(walk->path);
    if (size > 0) {
        (void)text_copy(walk->path + size, sizeof(walk->path) - size, "/"); /* depth bounds it */
    }
    walk->levels[walk->depth++] = (struct level){.folder = folder, .path_size = strlen(walk->path)};
}

static void leave(struct walk *walk)
{
    (void)closedir(walk->levels[--walk->depth].folder); /* opened for reading */
}

static void take_entry(struct walk *walk, const char *name)
{
    struct level *level = &walk->levels[walk->depth - 1];
    const int folder_fd = dirfd(level->folder);
    struct stat status;
    (void)text_copy(walk->path + level->path_size, sizeof(walk->path) - level->path_size, name);
    if (!save_name_ok(name)) {
        save_fault(walk->tally->fault, "a name in it has control characters or is not UTF-8");
    } else if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        save_fault(walk->tally->fault, "%.96s: %s", walk->path,
                   errno == ENOENT ? "it vanished while it was looked at" : strerror(errno));
    } else if (S_ISREG(status.st_mode)) {
        save_tally_add(walk->tally, walk->path, &status);
        if (walk->visit != NULL) {
            walk->visit(walk->context, walk->path, &status);
        }
    } else if (!S_ISDIR(status.st_mode)) {
        save_fault(walk->tally->fault, "%.96s is %s; it is not followed", walk->path,
                   S_ISLNK(status.st_mode) ? "a link" : "no plain file");
    } else if (walk->depth == SAVE_DEPTH_MAX) {
        save_fault(walk->tally->fault, "%.96s: folders lie more than %d deep", walk->path,
                   SAVE_DEPTH_MAX);
    } else {
        enter(walk, openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    }
}

void save_walk(int fd, save_visit *visit, void *context, struct save_tally *tally)
{
    struct walk walk = {.tally = tally, .visit = visit, .context = context};
    enter(&walk, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    while (walk.depth > 0) {
        if (tally->files >= SAVE_FILES_MAX) {
            save_fault(tally->fault, "it has more than %d files", SAVE_FILES_MAX);
            leave(&walk);
            continue;
        }
        const struct dirent *entry = readdir(walk.levels[walk.depth - 1].folder);
        if (entry == NULL) {
            leave(&walk);
        } else if (!text_equal(entry->d_name, ".") && !text_equal(entry->d_name, "..")) {
            take_entry(&walk, entry->d_name);
        }
    }
}
