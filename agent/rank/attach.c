/* attach.c: see attach.h. */
#include "agent/rank/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAILBOX_ENVIRONMENT "KEEPSTEP_MAILBOX"
enum {
    ORDER_TRIES = 1000,      /* the agent's writing takes microseconds; longer: it died there */
    WAIT_SLICE_US = 1000000, /* a waiter looks by itself each second */
};

static struct attach state = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

uint64_t attach_now_us(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

struct attach *attach_lock(void)
{
    if (!atomic_load_explicit(&state.active, memory_order_acquire)) {
        return NULL;
    }
    (void)pthread_mutex_lock(&state.mutex); /* a plain mutex, used correctly, does not fail */
    if (state.file == NULL) {
        (void)pthread_mutex_unlock(&state.mutex);
        return NULL;
    }
    return &state;
}

void attach_unlock(struct attach *attach)
{
    (void)pthread_mutex_unlock(&attach->mutex);
}

/* ---- status ------------------------------------------------------------------------------- */

static void lock_store(uint64_t *lock, uint64_t value, memory_order order)
{
    atomic_store_explicit((_Atomic uint64_t *)lock, value, order);
}

void attach_status_begin(struct attach *attach)
{
    uint64_t *lock = &attach->file->status.lock;
    lock_store(lock, *lock | 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

void attach_status_end(struct attach *attach)
{
    uint64_t *lock = &attach->file->status.lock;
    lock_store(lock, (*lock | 1) + 1, memory_order_release);
}

void attach_ring(struct attach *attach)
{
    uint64_t count = attach->file->doorbell + 1;
    /* Written by a call and not through the mapping, so that a watch on the file sees it. */
    ssize_t ignored =
        pwrite(attach->fd, &count, sizeof(count), (off_t)offsetof(struct mailbox_file, doorbell));
    (void)ignored;
}

/* ---- what the agent wrote ----------------------------------------------------------------- */

static bool order_copy(const struct mailbox_order *source, struct mailbox_order *ret_order)
{
    _Atomic uint64_t *lock = (_Atomic uint64_t *)(uintptr_t)&source->lock;
    uint64_t before = atomic_load_explicit(lock, memory_order_acquire);
    memcpy(ret_order, source, sizeof(*ret_order));
    atomic_thread_fence(memory_order_acquire);
    uint64_t after = atomic_load_explicit(lock, memory_order_relaxed);
    ret_order->lock = 0;
    return before == after && before % 2 == 0 &&
           ret_order->checksum ==
               mailbox_checksum(ret_order, offsetof(struct mailbox_order, checksum));
}

bool attach_order_look(const struct attach *attach, struct mailbox_order *ret_order)
{
    for (int i = 0; i < ORDER_TRIES; i++) {
        if (order_copy(&attach->file->order, ret_order)) {
            ret_order->order[sizeof(ret_order->order) - 1] = '\0';
            ret_order->master_address[sizeof(ret_order->master_address) - 1] = '\0';
            ret_order->restore_directory[sizeof(ret_order->restore_directory) - 1] = '\0';
            ret_order->checkpoint_directory[sizeof(ret_order->checkpoint_directory) - 1] = '\0';
            return true;
        }
    }
    return false;
}

bool attach_order_read(struct attach *attach)
{
    struct mailbox_order order;
    if (!attach_order_look(attach, &order)) {
        return false;
    }
    attach->order = order;
    return true;
}

bool attach_flags_look(const struct attach *attach, struct mailbox_flags *ret_flags)
{
    memcpy(ret_flags, &attach->file->flags, sizeof(*ret_flags));
    return ret_flags->check == mailbox_checksum(ret_flags, offsetof(struct mailbox_flags, check));
}

void attach_flags_read(struct attach *attach)
{
    struct mailbox_flags flags;
    if (attach_flags_look(attach, &flags)) {
        attach->save_request = flags.save_request;
        attach->stop_request = flags.stop_request != 0;
    }
}

uint32_t attach_wake_word(const struct attach *attach)
{
    return atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)&attach->file->header.wake,
                                memory_order_acquire);
}

struct attach *attach_wait(struct attach *attach, uint32_t word, uint64_t deadline_us)
{
    uint32_t *name = &attach->file->header.wake;
    uint64_t now = attach_now_us();
    uint64_t wait_us = deadline_us > now ? deadline_us - now : 0;
    wait_us = wait_us < WAIT_SLICE_US ? wait_us : WAIT_SLICE_US;
    struct timespec wait = {
        .tv_sec = (time_t)(wait_us / 1000000),
        .tv_nsec = (long)(wait_us % 1000000) * 1000,
    };
    attach_unlock(attach);
    if (wait_us > 0) {
        /* Changed already, interrupted, detached (EFAULT), timed out: the caller looks again. */
        (void)syscall(SYS_futex, name, FUTEX_WAIT, word, &wait, NULL, 0);
    }
    return attach_lock();
}

void attach_wake(const struct attach *attach)
{
    /* The mapping is ours and writable, but the word is the agent's: waiters wake as if by chance. */
    (void)syscall(SYS_futex, &attach->file->header.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- attaching ---------------------------------------------------------------------------- */

static void drop(struct attach *attach)
{
    atomic_store_explicit(&attach->active, false, memory_order_release);
    if (attach->file != NULL) {
        (void)munmap(attach->file, sizeof(*attach->file)); /* ours, mapped with this size */
    }
    if (attach->fd >= 0) {
        (void)close(attach->fd); /* what matters was written through the mapping */
    }
    attach->file = NULL;
    attach->fd = -1;
    attach->generation++;
    attach->abort = (struct attach_abort){0};
}

/* fork(): the mutex is taken over it, so that the child's state is whole; the child detaches, since
 * it is not the rank. */
static void fork_prepare(void)
{
    (void)pthread_mutex_lock(&state.mutex);
}

static void fork_parent(void)
{
    (void)pthread_mutex_unlock(&state.mutex);
}

static void fork_child(void)
{
    drop(&state);
    (void)pthread_mutex_unlock(&state.mutex);
}

/* Maps the file if it is a mailbox. The lock that it takes goes with the process: a second program
 * that inherited the variable (a wrapper's child, a logging service) gets -EBUSY. */
static int file_map(const char *path, int *ret_fd, struct mailbox_file **ret_file)
{
    struct stat info;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct mailbox_file *file = MAP_FAILED;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    int result = fstat(fd, &info) != 0 ? -errno : 0;
    if (result == 0 && (!S_ISREG(info.st_mode) || info.st_size != (off_t)sizeof(*file))) {
        result = -EBADMSG;
    }
    if (result == 0 && fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        result = errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
    }
    if (result == 0) {
        file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        result = file == MAP_FAILED ? -errno : 0;
    }
    if (result == 0 && file->header.magic != MAILBOX_MAGIC) {
        result = -EBADMSG;
    }
    if (result == 0 && (file->header.version != MAILBOX_VERSION ||
                        file->header.size != sizeof(struct mailbox_file))) {
        result = -EPROTO;
    }
    if (result != 0) {
        if (file != MAP_FAILED) {
            (void)munmap(file, sizeof(*file)); /* as above */
        }
        (void)close(fd);
        return result;
    }
    *ret_fd = fd;
    *ret_file = file;
    return 0;
}

/* The highest number in a table, so that numbers go on growing after a program that died. */
static uint64_t requests_highest(const struct mailbox_file *file)
{
    uint64_t highest = file->status.request_count;
    for (uint32_t i = 0; i < MAILBOX_REQUESTS; i++) {
        highest = file->requests[i].number > highest && file->requests[i].number < UINT64_MAX / 2
                      ? file->requests[i].number
                      : highest;
    }
    return highest < UINT64_MAX / 2 ? highest : 0;
}

static uint64_t gets_highest(const struct mailbox_file *file)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < MAILBOX_GETS; i++) {
        uint64_t round = file->gets[i].number / MAILBOX_GETS;
        highest = round > highest && round < UINT64_MAX / 64 ? round : highest;
    }
    return highest;
}

void attach_attempt_begin(struct attach *attach)
{
    attach->step_begin_us = 0;
    attach->step_end_us = attach_now_us();
    attach->compute_us = 0;
    attach->loss_step = 0;
    attach->gradient_step = 0;
    attach->save_step = 0;
    attach->commit_number = 0;
}

/* A fresh status: this process begins now. */
static void status_reset(struct attach *attach)
{
    struct mailbox_status *status = &attach->file->status;
    uint64_t requests = requests_highest(attach->file);
    uint64_t dropped = status->request_dropped;
    uint64_t exchanges = status->exchange_count;
    uint32_t served = status->save_served;

    attach_status_begin(attach);
    memset((uint8_t *)status + sizeof(status->lock), 0, sizeof(*status) - sizeof(status->lock));
    status->pid = (uint32_t)getpid();
    status->attempt = attach->order.attempt;
    status->phase = MAILBOX_PHASE_INIT;
    status->phase_since_ms = attach_now_us() / 1000;
    status->save_served = served == 0 ? attach->save_base : served;
    status->request_count = requests;
    status->request_dropped = dropped;
    status->exchange_count = exchanges;
    attach_status_end(attach);
}

static int file_take(struct attach *attach, const char *path)
{
    int fd = -1;
    struct mailbox_file *file = NULL;
    int result = file_map(path, &fd, &file);
    if (result != 0) {
        return result;
    }
    attach->fd = fd;
    attach->file = file;
    attach->job = file->header.job;
    attach->save_base = file->header.save_base;
    attach->save_request = attach->save_base;
    attach->stop_request = false;
    attach_attempt_begin(attach);
    attach->get_count = gets_highest(file);
    if (!attach_order_read(attach)) {
        drop(attach);
        return -EBADMSG;
    }
    status_reset(attach);
    atomic_store_explicit(&attach->active, true, memory_order_release);
    attach_ring(attach);
    return 0;
}

int attach_open(void)
{
    const char *path = getenv(MAILBOX_ENVIRONMENT);
    if (path == NULL || path[0] == '\0') {
        return 0;
    }
    (void)pthread_mutex_lock(&state.mutex);
    int result = 0;
    if (state.file == NULL) {
        if (!state.fork_handled) {
            result = -pthread_atfork(fork_prepare, fork_parent, fork_child);
            state.fork_handled = result == 0;
        }
        result = result == 0 ? file_take(&state, path) : result;
    }
    (void)pthread_mutex_unlock(&state.mutex);
    return result;
}

void attach_close(void)
{
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return;
    }
    attach_status_begin(attach);
    attach->file->status.finished = 1;
    attach->file->status.phase = MAILBOX_PHASE_IDLE;
    attach->file->status.phase_since_ms = attach_now_us() / 1000;
    attach_status_end(attach);
    attach_ring(attach);
    const bool watched = attach->abort.running;
    const pthread_t thread = attach->abort.thread;
    attach_wake(attach);
    drop(attach);
    attach_unlock(attach);
    if (watched) {
        /* It sees that its attachment is over; when it is in the callback, that is waited for. */
        (void)pthread_join(thread, NULL); /* made joinable, joined only here */
    }
}
