/* used_time.c: cpu.stat of a cgroup, or /proc. */
#include "agent/io/used_time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/text.h"

enum { SMALL_SIZE = 4096, STAT_FIELDS = 20 };

static bool read_small(int dir_fd, const char *path, char text[SMALL_SIZE])
{
    const int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const ssize_t got = read(fd, text, SMALL_SIZE - 1);
    (void)close(fd); /* opened for reading */
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* "usage_usec 1200\nuser_usec …" */
static int read_cgroup(const char *folder, uint64_t *ret_ms)
{
    static const char word[] = "usage_usec ";
    char path[SMALL_SIZE];
    char text[SMALL_SIZE];
    char number[24];
    uint64_t used_us = 0;
    if (!text_format(path, sizeof(path), "%s/cpu.stat", folder) ||
        !read_small(AT_FDCWD, path, text)) {
        return -ENOENT;
    }
    const char *at = strstr(text, word);
    if (at == NULL) {
        return -ENOENT;
    }
    at += strlen(word);
    const size_t size = strspn(at, "0123456789");
    (void)text_copy(number, size + 1 < sizeof(number) ? size + 1 : sizeof(number), at);
    if (text_to_u64(number, UINT64_MAX, &used_us) != 0) {
        return -ENOENT;
    }
    *ret_ms = used_us / 1000;
    return 0;
}

/* Field 6 is the session, 14 to 17 are the ticks of it and of its ended children; the name, field
 * 2, may hold anything, so what counts begins behind its last parenthesis. */
static bool read_process(int proc_fd, const char *pid, uint64_t *ret_session, uint64_t *ret_ticks)
{
    char path[64];
    char text[SMALL_SIZE];
    uint64_t fields[STAT_FIELDS] = {0};
    if (!text_format(path, sizeof(path), "%s/stat", pid) || !read_small(proc_fd, path, text)) {
        return false;
    }
    const char *at = strrchr(text, ')');
    for (size_t field = 2; at != NULL && field < STAT_FIELDS - 1; field++) {
        char number[24];
        at += strspn(at, ") ");
        const size_t size = strcspn(at, " \n");
        (void)text_copy(number, size + 1 < sizeof(number) ? size + 1 : sizeof(number), at);
        if (text_to_u64(number, UINT64_MAX, &fields[field + 1]) != 0) {
            fields[field + 1] = 0; /* the state's letter, or a negative number */
        }
        at += size;
    }
    *ret_session = fields[6];
    *ret_ticks = fields[14] + fields[15] + fields[16] + fields[17];
    return at != NULL;
}

static bool is_among(const char *sessions, uint64_t session)
{
    char number[24];
    (void)text_format(number, sizeof(number), "%llu", (unsigned long long)session);
    const size_t size = strlen(number);
    while (*sessions != '\0') {
        const size_t length = strcspn(sessions, ",");
        if (length == size && strncmp(sessions, number, size) == 0) {
            return true;
        }
        sessions += length + (sessions[length] == ',');
    }
    return false;
}

static int read_sessions(const char *sessions, uint64_t *ret_ms)
{
    DIR *proc = opendir("/proc");
    const long per_second = sysconf(_SC_CLK_TCK);
    uint64_t ticks = 0;
    bool any = false;
    if (proc == NULL || per_second <= 0) {
        if (proc != NULL) {
            (void)closedir(proc); /* opened for reading */
        }
        return -ENOENT;
    }
    const struct dirent *entry = readdir(proc);
    for (; entry != NULL; entry = readdir(proc)) {
        uint64_t session = 0;
        uint64_t used = 0;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(dirfd(proc), entry->d_name, &session, &used) &&
            is_among(sessions, session)) {
            any = true;
            ticks += used;
        }
    }
    (void)closedir(proc); /* opened for reading */
    *ret_ms = any ? ticks * 1000 / (uint64_t)per_second : *ret_ms;
    return any ? 0 : -ENOENT;
}

int used_time_read(const char *whose, uint64_t *ret_ms)
{
    if (whose[0] == '/') {
        return read_cgroup(whose, ret_ms);
    }
    return whose[0] != '\0' ? read_sessions(whose, ret_ms) : -ENOENT;
}
