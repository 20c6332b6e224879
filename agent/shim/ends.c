/* ends.c: see ends.h. */
#include "agent/shim/ends.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/shim/record.h"

static uint64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t ends_mono_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

uint64_t ends_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

/* Full size, all zeros, both the file and its name durable. */
static int file_allocate(int fd, int dir_fd)
{
    static const uint8_t zeros[SHIM_RECORDS_MAX * sizeof(struct shim_record)];
    /* Written rather than fallocated: the same on every file system, and a torn first record of an
     * earlier life goes away with it. */
    int result = shim_record_write_all(fd, zeros, sizeof(zeros), 0);
    if (result == 0 && (fsync(fd) != 0 || fsync(dir_fd) != 0)) {
        result = -errno;
    }
    return result;
}

int ends_open(struct ends *ends, int dir_fd, uint32_t job, uint32_t attempt, uint32_t crash_at)
{
    struct shim_ends old;
    int result = shim_ends_read(dir_fd, &old);
    if (result != 0 && result != -ENOENT) {
        return result;
    }
    if (result == 0 && old.count > 0) {
        return -EALREADY;
    }
    int fd = openat(dir_fd, SHIM_FILE_ENDS, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    result = file_allocate(fd, dir_fd);
    if (result != 0) {
        (void)close(fd); /* nothing in it counts yet */
        return result;
    }
    *ends = (struct ends){
        .fd = fd,
        .job = job,
        .attempt = attempt,
        .boot_hash = shim_record_boot_hash(),
        .crash_at = crash_at,
    };
    return 0;
}

void ends_close(struct ends *ends)
{
    if (ends->fd >= 0) {
        (void)close(ends->fd); /* every record in it was synced */
    }
    ends->fd = -1;
}

static bool crash_now(struct ends *ends)
{
    ends->crash_point++;
    return ends->crash_point == ends->crash_at;
}

int ends_append(struct ends *ends, struct shim_record *records, uint32_t count)
{
    size_t size = count * sizeof(records[0]);
    off_t offset = (off_t)(ends->sequence * sizeof(records[0]));
    if (ends->sequence + count > SHIM_RECORDS_MAX) {
        return -ENOSPC;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct shim_record *record = &records[i];
        record->magic = SHIM_RECORD_MAGIC;
        record->sequence = ends->sequence + i + 1;
        record->job = ends->job;
        record->attempt = ends->attempt;
        record->boot_hash = ends->boot_hash;
        record->wall_ms = record->wall_ms == 0 ? ends_wall_ms() : record->wall_ms;
        record->mono_ms = record->mono_ms == 0 ? ends_mono_ms() : record->mono_ms;
        record->checksum = shim_record_seal(record);
    }
    if (crash_now(ends)) {
        _exit(SHIM_EXIT_CRASH);
    }
    if (crash_now(ends)) {
        (void)shim_record_write_all(ends->fd, records, size / 2 + 20, offset); /* a torn write */
        _exit(SHIM_EXIT_CRASH);
    }
    int result = shim_record_write_all(ends->fd, records, size, offset);
    if (result == 0 && fdatasync(ends->fd) != 0) {
        result = -errno;
    }
    if (result == 0) {
        ends->sequence += count;
    }
    if (crash_now(ends)) {
        _exit(SHIM_EXIT_CRASH);
    }
    return result;
}
