/* step_follow.c: wait for a change, look at every file, say what is new, pause, again.
 *
 * What a look may cost is bounded: FOLLOW_FILE_MAX bytes of each file, its newest ones, and a pause
 * of four times as long as the look took. The pattern is compiled anew now and then, since what
 * regexec() learns of one it keeps for ever. */
#include "agent/io/step_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/io/step_reader.h"
#include "agent/io/used_time.h"
#include "proto/base/mem.h"
#include "proto/base/message.h"
#include "proto/base/text.h"

enum {
    PIECE_SIZE = 16384,
    FIRST_MAX =
        4 * FOLLOW_FILE_MAX, /* at the first look: an older helper may have ended long ago */
    PAUSE_FACTOR = 4,
    PAUSE_MAX_MS = 5000,
    COMPILE_EACH = 4 << 20, /* bytes searched */
    NICE = 10,
    MEMORY_MAX = 512 << 20,
};

/* The sanitizers map more than any limit. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SHADOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SHADOW 1
#endif
#ifndef HAS_SHADOW
#define HAS_SHADOW 0
#endif

struct follow_file {
    char path[PATH_SIZE];
    uint32_t rank; /* local */
    int fd;        /* -1: not opened yet */
    bool begun;
    bool told;
    uint64_t at; /* what was read */
    uint64_t step;
    struct step_reader reader;
};

struct follow {
    const char *pattern_text;
    const char *used;
    struct step_pattern *pattern;
    uint64_t searched; /* bytes, with this pattern */
    int inotify;       /* -1: none */
    uint64_t used_ms;  /* when processor time is due */
    bool blind;        /* an output cannot be opened, or is gone since this process began */
    uint64_t said_ms;  /* when anything was said */
    uint32_t count;
    struct follow_file files[RANKS_PER_NODE_MAX];
};

static uint64_t now_ms(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now); /* a clock that every kernel has */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- one file -------------------------------------------------------------------------------------- */

static bool open_file(const struct follow *follow, struct follow_file *file)
{
    struct stat status;
    if (file->fd >= 0) {
        return true;
    }
    const int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return false; /* it may come */
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)close(fd); /* nothing was read */
        return false;
    }
    file->fd = fd;
    if (follow->inotify >= 0) { /* else it is looked at once a second */
        (void)inotify_add_watch(follow->inotify, file->path, IN_MODIFY | IN_DONT_FOLLOW);
    }
    return true;
}

/* Where to read on: not behind the end of a file that was cut, not too far before the end of one
 * that grows faster than it is read. */
static void find_place(struct follow_file *file, uint64_t size)
{
    const uint64_t most = file->begun ? FOLLOW_FILE_MAX : FIRST_MAX;
    if (file->at > size) {
        file->at = size;
        step_reader_jump(&file->reader, size == 0);
    }
    if (size - file->at > most) {
        file->at = size - most;
        step_reader_jump(&file->reader, false);
    }
    file->begun = true;
}

static int search(struct follow *follow, struct follow_file *file, const char *bytes, size_t size)
{
    follow->searched += size;
    if (follow->searched > COMPILE_EACH) {
        follow->searched = size;
        follow->pattern = step_pattern_free(follow->pattern);
        const int r = step_pattern_compile(follow->pattern_text, &follow->pattern, NULL);
        if (r != 0) {
            return r;
        }
    }
    return step_reader_put(&file->reader, follow->pattern, bytes, size);
}

static void say_step(struct follow *follow, struct follow_file *file, const struct stat *status)
{
    const uint64_t now = now_ms(CLOCK_REALTIME);
    const uint64_t changed =
        (uint64_t)status->st_mtim.tv_sec * 1000 + (uint64_t)status->st_mtim.tv_nsec / 1000000;
    file->reader.found = false;
    if (file->told && file->step == file->reader.step) {
        return;
    }
    file->told = true;
    file->step = file->reader.step;
    follow->said_ms = now_ms(CLOCK_MONOTONIC);
    (void)printf("step %u %llu %llu\n", file->rank, (unsigned long long)file->step,
                 (unsigned long long)(changed < now ? now - changed : 0));
}

static int look_at(struct follow *follow, struct follow_file *file)
{
    struct stat status;
    char bytes[PIECE_SIZE];
    int r = 0;
    if (!open_file(follow, file) || fstat(file->fd, &status) != 0) {
        follow->blind = true;
        return 0;
    }
    const uint64_t size = status.st_size > 0 ? (uint64_t)status.st_size : 0;
    find_place(file, size);
    while (r == 0 && file->at < size) {
        const uint64_t left = size - file->at;
        const size_t want = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
        const ssize_t got = pread(file->fd, bytes, want, (off_t)file->at);
        if (got <= 0) {
            break; /* it was cut, or the disk has an error: the next look may know more */
        }
        file->at += (uint64_t)got;
        r = search(follow, file, bytes, (size_t)got);
    }
    if (r == 0 && file->reader.found) {
        say_step(follow, file, &status);
    }
    return r;
}

/* ---- all of it ------------------------------------------------------------------------------------- */

static int look(struct follow *follow)
{
    int r = 0;
    uint64_t used = 0;
    follow->blind = false;
    for (uint32_t i = 0; r == 0 && i < follow->count; i++) {
        r = look_at(follow, &follow->files[i]);
    }
    const uint64_t now = now_ms(CLOCK_MONOTONIC);
    if (follow->blind) { /* silence: what is not read must not be taken for standing still */
        return fflush(stdout) == 0 ? r : -EPIPE;
    }
    if (now >= follow->used_ms) {
        follow->used_ms = now + FOLLOW_USED_MS;
        if (used_time_read(follow->used, &used) == 0) {
            follow->said_ms = now;
            (void)printf("used %llu\n", (unsigned long long)used);
        }
    }
    if (now >= follow->said_ms + FOLLOW_STILL_MS) {
        follow->said_ms = now;
        (void)printf("still\n");
    }
    return fflush(stdout) == 0 ? r : -EPIPE;
}

/* True when the reader of what we say has gone. */
static bool wait_for(int inotify, uint64_t ms)
{
    struct pollfd polled[2] = {{.fd = STDOUT_FILENO}, {.fd = inotify, .events = POLLIN}};
    char events[4096];
    if (poll(polled, 2, (int)ms) > 0 && (polled[1].revents & POLLIN) != 0) {
        while (read(inotify, events, sizeof(events)) > 0) { /* which one does not matter */
        }
    }
    return (polled[0].revents & (POLLERR | POLLHUP)) != 0;
}

static int follow_on(struct follow *follow)
{
    while (true) {
        const uint64_t begun = now_ms(CLOCK_MONOTONIC);
        const int r = look(follow);
        if (r != 0) {
            return r;
        }
        uint64_t pause = PAUSE_FACTOR * (now_ms(CLOCK_MONOTONIC) - begun);
        pause = pause < FOLLOW_PAUSE_MS ? FOLLOW_PAUSE_MS : pause;
        pause = pause > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause;
        if (wait_for(-1, pause) || wait_for(follow->inotify, FOLLOW_LOOK_MS - FOLLOW_PAUSE_MS)) {
            return -EPIPE;
        }
    }
}

static bool is_known(const struct follow *follow, const char *path)
{
    for (uint32_t i = 0; i < follow->count; i++) {
        if (text_equal(follow->files[i].path, path)) {
            return true;
        }
    }
    return false;
}

static int take_paths(struct follow *follow, const char *paths)
{
    for (uint32_t rank = 0; *paths != '\0'; rank++) {
        char path[PATH_SIZE];
        const size_t length = strcspn(paths, "\n");
        if (rank == RANKS_PER_NODE_MAX || length >= sizeof(path)) {
            return -EINVAL;
        }
        (void)text_copy(path, length + 1, paths);
        if (!is_known(follow, path)) {
            struct follow_file *file = &follow->files[follow->count++];
            (void)text_copy(file->path, sizeof(file->path), path); /* of one size */
            file->rank = rank;
            file->fd = -1;
        }
        paths += length + (paths[length] == '\n');
    }
    return 0;
}

static int be_modest(void)
{
    const struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
    const struct rlimit core = {0, 0};
    (void)nice(NICE); /* a wish */
    if (setrlimit(RLIMIT_CORE, &core) != 0 || (!HAS_SHADOW && setrlimit(RLIMIT_AS, &memory) != 0)) {
        return -errno;
    }
    return 0;
}

int step_follow(const char *paths, const char *pattern, const char *used)
{
    struct follow *follow = mem_alloc(1, sizeof(*follow));
    struct err err = {0};
    follow->pattern_text = pattern;
    follow->used = used;
    int r = be_modest();
    r = r == 0 ? take_paths(follow, paths) : r;
    r = r == 0 ? step_pattern_compile(pattern, &follow->pattern, &err) : r;
    if (r == 0) {
        follow->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        r = follow_on(follow);
    }
    (void)printf("%s\n", err.text[0] != '\0' ? err.text : strerror(-r));
    (void)fflush(stdout); /* the exit status says the rest */
    (void)step_pattern_free(follow->pattern);
    mem_free(follow); /* its descriptors end with the process */
    return -r < 128 ? -r : EIO;
}
