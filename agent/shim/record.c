/* record.c: reading the ends file, and what its records mean. The shim writes it (ends.c); agents
 * read it when the shim is gone. Records are believed one by one, in order: the first that is not
 * whole ends the reading, since everything that counts was durable before the next was begun. */
#include "agent/shim/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FNV_INIT  0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

/* Linux's PF_EXITING and PF_SIGNALED in the flags of /proc/PID/stat. */
#define FLAG_EXITING  0x4
#define FLAG_SIGNALED 0x400

uint64_t shim_record_checksum(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t hash = FNV_INIT;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * FNV_PRIME;
    }
    return hash;
}

uint64_t shim_record_seal(const struct shim_record *record)
{
    return shim_record_checksum(record, offsetof(struct shim_record, checksum));
}

int shim_record_write_all(int fd, const void *data, size_t size, off_t offset)
{
    const uint8_t *bytes = data;
    size_t done = 0;
    while (done < size) {
        ssize_t got = pwrite(fd, bytes + done, size - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -errno : -ENOSPC;
        }
        done += (size_t)got;
    }
    return 0;
}

/* A small file of /proc, NUL-terminated. */
static int text_read(const char *path, char *target, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    ssize_t got = read(fd, target, size - 1);
    int result = got < 0 ? -errno : 0;
    (void)close(fd); /* opened for reading */
    target[got < 0 ? 0 : got] = '\0';
    return result;
}

uint64_t shim_record_boot_hash(void)
{
    char text[64];
    if (text_read("/proc/sys/kernel/random/boot_id", text, sizeof(text)) != 0) {
        return 0;
    }
    return shim_record_checksum(text, strlen(text));
}

/* The next blank-separated field as a number; *text moves behind it. */
static int64_t field_number(const char **text)
{
    int64_t value = 0;
    const char *at = *text;
    while (*at == ' ') {
        at++;
    }
    bool negative = *at == '-';
    at += negative;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value > INT64_MAX / 16 ? value : value * 10 + (*at - '0');
    }
    *text = at;
    return negative ? -value : value;
}

static void fields_skip(const char **text, int count)
{
    for (int i = 0; i < count; i++) {
        (void)field_number(text);
    }
}

int shim_record_process(int32_t pid, struct shim_process *ret_process)
{
    char path[64];
    char text[1024];

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid); /* fits */
    int result = text_read(path, text, sizeof(text));
    if (result != 0) {
        return result == -ENOENT ? -ESRCH : result;
    }
    /* "pid (name) S parent group session …": the name may hold anything, so look from the end. */
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ' || at[2] == '\0') {
        return -ESRCH;
    }
    ret_process->pid = pid;
    ret_process->state = at[2];
    at += 3;
    ret_process->parent = (int32_t)field_number(&at);
    ret_process->group = (int32_t)field_number(&at);
    fields_skip(&at, 3); /* session, terminal, its group */
    const int64_t flags = field_number(&at);
    fields_skip(&at, 10); /* faults, times, priority */
    ret_process->threads = (int32_t)field_number(&at);
    /* A first thread that left alone, by pthread_exit, is a zombie beside those that go on. */
    bool alone = ret_process->state == 'Z' && ret_process->threads > 1;
    ret_process->leaving = (flags & FLAG_SIGNALED) != 0 || ((flags & FLAG_EXITING) != 0 && !alone);
    (void)field_number(&at); /* field 21 is always 0 */
    ret_process->start_ticks = (uint64_t)field_number(&at);
    return 0;
}

int shim_ends_read(int dir_fd, struct shim_ends *ret_ends)
{
    struct shim_ends ends = {0};
    int fd = openat(dir_fd, SHIM_FILE_ENDS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    ssize_t got = pread(fd, ends.records, sizeof(ends.records), 0);
    int result = got < 0 ? -errno : 0;
    (void)close(fd); /* opened for reading */
    if (result != 0) {
        return result;
    }
    size_t whole = (size_t)got / sizeof(ends.records[0]);
    for (size_t i = 0; i < whole; i++) {
        const struct shim_record *record = &ends.records[i];
        if (record->magic != SHIM_RECORD_MAGIC || record->checksum != shim_record_seal(record) ||
            record->sequence != i + 1) {
            break;
        }
        ends.count++;
    }
    /* The file was allocated in full, as zeros, when it was made: anything else is a torn write. */
    const uint8_t *bytes = (const uint8_t *)ends.records;
    for (size_t i = ends.count * sizeof(ends.records[0]); i < (size_t)got; i++) {
        ends.torn = ends.torn || bytes[i] != 0;
    }
    memset(&ends.records[ends.count], 0, (SHIM_RECORDS_MAX - ends.count) * sizeof(ends.records[0]));
    *ret_ends = ends;
    return 0;
}

const char *shim_stage_name(uint32_t stage)
{
    static const char *const names[] = {"none",    "session", "limits", "user",
                                        "workdir", "output",  "exec"};
    return stage < sizeof(names) / sizeof(names[0]) ? names[stage] : "unknown";
}

static void fold_end(const struct shim_record *record, uint8_t state,
                     struct shim_status *ret_status)
{
    struct shim_rank_status *rank = &ret_status->ranks[record->rank];
    rank->state = state;
    rank->stage = (uint8_t)record->stage;
    rank->after_stop = record->after_stop != 0;
    rank->code = record->code;
    rank->end_sequence = record->sequence;
    rank->end_wall_ms = record->wall_ms;
    rank->end_mono_ms = record->mono_ms;
}

static void fold_start(const struct shim_record *record, struct shim_status *ret_status)
{
    struct shim_rank_status *rank = &ret_status->ranks[record->rank];
    rank->state = SHIM_RANK_RUNNING;
    rank->rank = (uint32_t)record->code;
    rank->pid = record->pid;
    rank->start_ticks = record->start_ticks;
}

static void fold_one(const struct shim_record *record, struct shim_status *ret_status)
{
    if (record->rank >= SHIM_RANKS_MAX && record->kind != SHIM_RECORD_OPEN) {
        return;
    }
    switch (record->kind) {
    case SHIM_RECORD_OPEN:
        ret_status->shim_pid = record->pid;
        ret_status->has_cgroup = record->code != 0;
        ret_status->rank_count = record->rank > SHIM_RANKS_MAX ? SHIM_RANKS_MAX : record->rank;
        break;
    case SHIM_RECORD_START:
        fold_start(record, ret_status);
        break;
    case SHIM_RECORD_EXITED:
        fold_end(record, SHIM_RANK_EXITED, ret_status);
        break;
    case SHIM_RECORD_SIGNALED:
        fold_end(record, SHIM_RANK_SIGNALED, ret_status);
        break;
    case SHIM_RECORD_UNSTARTED:
        fold_end(record, SHIM_RANK_UNSTARTED, ret_status);
        break;
    case SHIM_RECORD_ORDER:
        ret_status->term_ordered |= record->code == SIGTERM;
        ret_status->kill_ordered |= record->code == SIGKILL;
        break;
    case SHIM_RECORD_EMPTY:
        ret_status->empty = 1;
        break;
    default: /* a kind of a later version: says nothing to this one */
        break;
    }
}

void shim_status_fold(const struct shim_ends *ends, struct shim_status *ret_status)
{
    memset(ret_status, 0, sizeof(*ret_status));
    ret_status->magic = SHIM_WIRE_MAGIC;
    ret_status->size = sizeof(*ret_status);
    for (uint32_t i = 0; i < ends->count; i++) {
        ret_status->job = ends->records[i].job;
        ret_status->attempt = ends->records[i].attempt;
        ret_status->sequence = ends->records[i].sequence;
        fold_one(&ends->records[i], ret_status);
    }
    for (uint32_t i = 0; i < ret_status->rank_count; i++) {
        ret_status->alive_count += ret_status->ranks[i].state == SHIM_RANK_RUNNING;
    }
}
