/* client.c: the agent's end of the shim's socket and lock. Nothing here waits.
 *
 * A Unix address holds 107 bytes and state folders may lie deep, so the socket is named through the
 * open folder: /proc/self/fd/N/sock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/shim/record.h"
#include "agent/shim/shim.h"

int shim_alive(int dir_fd, int32_t *ret_pid)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(dir_fd, SHIM_FILE_LOCK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    int result = fcntl(fd, F_GETLK, &lock) != 0 ? -errno : 0;
    (void)close(fd); /* nothing was written */
    if (result != 0) {
        return result;
    }
    if (lock.l_type != F_WRLCK) {
        return 0; /* a sweep holds it shared */
    }
    *ret_pid = lock.l_pid;
    return 1;
}

int shim_connect(int dir_fd, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SHIM_FILE_SOCK,
                   dir_fd); /* fits: a number is 10 digits */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int result = -errno;
        (void)close(fd); /* never connected */
        return result;
    }
    *ret_fd = fd;
    return 0;
}

int shim_send(int fd, uint32_t op, uint64_t nonce)
{
    struct shim_request request = {.magic = SHIM_WIRE_MAGIC, .op = op, .nonce = nonce};
    ssize_t sent = send(fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        return -errno;
    }
    /* 16 bytes into a socket buffer go whole or not at all. */
    return (size_t)sent == sizeof(request) ? 0 : -EAGAIN;
}

static bool status_is_valid(const struct shim_status *status)
{
    if (status->magic != SHIM_WIRE_MAGIC || status->size != sizeof(*status) ||
        status->rank_count > SHIM_RANKS_MAX || status->empty > 1 || status->term_ordered > 1 ||
        status->kill_ordered > 1 || status->has_cgroup > 1) {
        return false;
    }
    for (uint32_t i = 0; i < status->rank_count; i++) {
        if (status->ranks[i].state > SHIM_RANK_STARTING || status->ranks[i].after_stop > 1) {
            return false;
        }
    }
    return true;
}

int shim_receive(int fd, struct shim_buffer *buffer, struct shim_status *ret_status)
{
    while (buffer->filled < sizeof(buffer->bytes)) {
        ssize_t got = recv(fd, buffer->bytes + buffer->filled,
                           sizeof(buffer->bytes) - buffer->filled, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
        }
        if (got == 0) {
            return -ECONNRESET;
        }
        buffer->filled += (uint32_t)got;
    }
    struct shim_status status;
    memcpy(&status, buffer->bytes, sizeof(status));
    buffer->filled = 0;
    if (!status_is_valid(&status)) {
        return -EBADMSG;
    }
    *ret_status = status;
    return 1;
}

/* A pid alone names no process. So the pidfd is opened first and the start time is compared after: if
 * it is still the recorded one, the descriptor refers to the rank and to nobody who took its number
 * since. */
int shim_rank_watch(const struct shim_rank_status *rank, int *ret_fd)
{
    struct shim_process process;
    const int fd = (int)syscall(SYS_pidfd_open, rank->pid, 0); /* close-on-exec by itself */
    int result = fd < 0 ? -errno : 0;
    const int found = shim_record_process(rank->pid, &process);
    if (found != 0) {
        result = found;
    } else if (process.start_ticks != rank->start_ticks ||
               ((process.state == 'Z' || process.state == 'X') && process.threads <= 1)) {
        result = -ESRCH;
    } else if (result == -ESRCH) {
        result = -EAGAIN; /* it was not there before it was */
    }
    if (result != 0) {
        if (fd >= 0) {
            (void)close(fd); /* of a stranger, or of no use */
        }
        return result;
    }
    *ret_fd = fd;
    return 0;
}
