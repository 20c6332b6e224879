/* mailbox.c: the agent's side of a mailbox. See mailbox.h for who writes what.
 *
 * Only pread and pwrite: a mapping of a file that its owner truncates would end the agent with a
 * SIGBUS. What a rank wrote may be torn (it is writing now, or died while it wrote) or a lie; both
 * are met by checks here, so that callers may use what they are given as it is. */
#include "agent/rank/mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { READ_TRIES = 3 };

uint64_t mailbox_checksum(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    }
    return hash;
}

mailbox_real_bits mailbox_real(double value)
{
    float narrow = (float)value; /* what is too large becomes infinite, and is shown as that */
    mailbox_real_bits bits = 0;
    memcpy(&bits, &narrow, sizeof(bits));
    return bits == 0 ? UINT32_C(1) << 31 : bits;
}

/* ---- bytes ------------------------------------------------------------------------------ */

static int area_read(int fd, size_t offset, void *target, size_t size)
{
    ssize_t got = pread(fd, target, size, (off_t)offset);
    if (got < 0) {
        return -errno;
    }
    return (size_t)got == size ? 0 : -ENODATA;
}

static int area_write(int fd, size_t offset, const void *data, size_t size)
{
    ssize_t got = pwrite(fd, data, size, (off_t)offset);
    if (got < 0) {
        return -errno;
    }
    return (size_t)got == size ? 0 : -ENOSPC;
}

/* Length of the UTF-8 sequence at text[0], 0 when it is none (or overlong, or a surrogate). */
static size_t utf8_length(const uint8_t *text, size_t size)
{
    uint32_t lead = text[0];
    size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead > 0xf4 || length == 0 || length > size) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (lead == 0xe0 && text[1] < 0xa0) || (lead == 0xf0 && text[1] < 0x90);
    bool outside = (lead == 0xed && text[1] > 0x9f) || (lead == 0xf4 && text[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

/* Terminated inside of size, UTF-8, without control bytes. */
static bool text_is_clean(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    if (length == size) {
        return false;
    }
    const uint8_t *bytes = (const uint8_t *)text;
    for (size_t i = 0; i < length;) {
        size_t step = utf8_length(bytes + i, length - i);
        if (step == 0 || bytes[i] < 0x20 || bytes[i] == 0x7f) {
            return false;
        }
        i += step;
    }
    return true;
}

static bool hash_is_clean(const char *hash)
{
    size_t length = strnlen(hash, MAILBOX_HASH_SIZE);
    return length == 0 ||
           (length == MAILBOX_HASH_SIZE - 1 && strspn(hash, "0123456789abcdef") == length);
}

static bool key_is_clean(const char *key)
{
    return text_is_clean(key, MAILBOX_KEY_SIZE) && key[0] != '\0';
}

/* ---- making and opening ------------------------------------------------------------------- */

static int header_write(int fd, uint32_t job, const struct mailbox_order *order,
                        uint32_t save_request)
{
    struct mailbox_header header = {
        .magic = MAILBOX_MAGIC,
        .version = MAILBOX_VERSION,
        .size = sizeof(struct mailbox_file),
        .job = job,
        .rank = order->rank,
        .save_base = save_request,
    };
    return area_write(fd, offsetof(struct mailbox_file, header), &header, sizeof(header));
}

static int owner_set(int fd, uint32_t uid, uint32_t gid)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return -errno;
    }
    if (info.st_uid == uid && info.st_gid == gid) {
        return 0;
    }
    return fchown(fd, uid, gid) != 0 ? -errno : 0;
}

int mailbox_create(int dir_fd, const char *name, uint32_t uid, uint32_t gid, uint32_t job,
                   const struct mailbox_order *order, uint32_t save_request, int *ret_fd)
{
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    /* Every page now, so that no write of either side can meet a full tmpfs later. */
    int result = -posix_fallocate(fd, 0, sizeof(struct mailbox_file));
    if (result == 0) {
        result = mailbox_order_write(fd, order);
    }
    if (result == 0) {
        result = mailbox_flags_write(fd, save_request, false);
    }
    if (result == 0) {
        result = owner_set(fd, uid, gid);
    }
    if (result == 0) {
        result = header_write(fd, job, order, save_request);
    }
    if (result != 0) {
        (void)close(fd);                 /* given up */
        (void)unlinkat(dir_fd, name, 0); /* ours: it was made exclusively */
        return result;
    }
    *ret_fd = fd;
    return 0;
}

static int header_check(int fd)
{
    struct stat info;
    struct mailbox_header header;
    if (fstat(fd, &info) != 0) {
        return -errno;
    }
    if (!S_ISREG(info.st_mode)) {
        return -EBADMSG;
    }
    if (info.st_size != (off_t)sizeof(struct mailbox_file)) {
        return -ENODATA;
    }
    int result = area_read(fd, offsetof(struct mailbox_file, header), &header, sizeof(header));
    if (result != 0) {
        return result;
    }
    if (header.magic != MAILBOX_MAGIC) {
        return -EBADMSG;
    }
    return header.version == MAILBOX_VERSION && header.size == sizeof(struct mailbox_file)
               ? 0
               : -EPROTO;
}

int mailbox_open(int dir_fd, const char *name, int *ret_fd)
{
    int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    int result = header_check(fd);
    if (result != 0) {
        (void)close(fd); /* nothing was written */
        return result;
    }
    *ret_fd = fd;
    return 0;
}

/* ---- status ------------------------------------------------------------------------------- */

/* 1: *ret_status is consistent; 0: torn each time; -errno. */
static int status_read(int fd, struct mailbox_status *ret_status)
{
    const size_t offset = offsetof(struct mailbox_file, status);
    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t before = 0;
        uint64_t after = 0;
        int result = area_read(fd, offset, &before, sizeof(before));
        atomic_thread_fence(memory_order_seq_cst);
        if (result == 0) {
            result = area_read(fd, offset, ret_status, sizeof(*ret_status));
        }
        atomic_thread_fence(memory_order_seq_cst);
        if (result == 0) {
            result = area_read(fd, offset, &after, sizeof(after));
        }
        if (result != 0) {
            return result;
        }
        if (before == after && before % 2 == 0) {
            return 1;
        }
    }
    return 0;
}

static void values_sort(uint32_t *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}

/* Median in ms, at least 1 when anything was measured; 0 = nothing was. */
static uint32_t median_ms(const struct mailbox_step *steps, uint32_t count, bool compute)
{
    uint32_t values[MAILBOX_STEPS];
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = compute ? steps[i].compute_us : steps[i].total_us;
        if (value > 0) {
            values[held++] = value;
        }
    }
    if (held == 0) {
        return 0;
    }
    values_sort(values, held);
    uint32_t ms = values[held / 2] / 1000;
    return ms > 0 ? ms : 1;
}

static void steps_take(const struct mailbox_status *status, struct mailbox_view *view)
{
    uint64_t held = status->step_count < MAILBOX_STEPS ? status->step_count : MAILBOX_STEPS;
    view->steps_held = (uint32_t)held;
    for (uint64_t i = 0; i < held; i++) {
        view->steps[i] = status->ring[(status->step_count - held + i) % MAILBOX_STEPS];
    }
    view->step_ms = median_ms(view->steps, view->steps_held, false);
    view->compute_ms = median_ms(view->steps, view->steps_held, true);
}

static void hashes_take(const struct mailbox_status *status, struct mailbox_view *view)
{
    uint64_t held = status->hash_count < MAILBOX_HASHES ? status->hash_count : MAILBOX_HASHES;
    view->hashes_held = 0;
    for (uint64_t i = 0; i < held; i++) {
        const struct mailbox_hash *hash =
            &status->hashes[(status->hash_count - held + i) % MAILBOX_HASHES];
        if (hash->step > 0 && hash->step <= MAILBOX_STEP_MAX) {
            view->hashes[view->hashes_held++] = *hash;
        }
    }
}

bool mailbox_communicator_name_is_good(const char *name)
{
    size_t length = strnlen(name, MAILBOX_COMMUNICATOR_NAME_SIZE);
    for (size_t i = 0; i < length; i++) {
        if (name[i] < ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\') {
            return false;
        }
    }
    return length > 0 && length < MAILBOX_COMMUNICATOR_NAME_SIZE;
}

static bool communicator_is_clean(const struct mailbox_communicator *communicator)
{
    return mailbox_communicator_name_is_good(communicator->name) &&
           communicator->axis < MAILBOX_AXIS_COUNT &&
           communicator->operation < MAILBOX_OPERATION_COUNT && communicator->peer >= -1 &&
           communicator->completed <= communicator->enqueued &&
           communicator->enqueued <= MAILBOX_STEP_MAX;
}

/* Those that make no sense are left out: the rest of what the rank says still counts. */
static void communicators_take(const struct mailbox_status *status, struct mailbox_view *view)
{
    uint32_t told = status->communicator_count;
    told = told < MAILBOX_COMMUNICATORS ? told : MAILBOX_COMMUNICATORS;
    view->communicator_count = 0;
    for (uint32_t i = 0; i < told; i++) {
        if (communicator_is_clean(&status->communicators[i])) {
            view->communicators[view->communicator_count++] = status->communicators[i];
        }
    }
}

int mailbox_read(int fd, uint64_t now_ms, struct mailbox_view *view)
{
    struct mailbox_status status;
    int result = status_read(fd, &status);
    if (result < 0) {
        return result;
    }
    if (result == 0) {
        view->torn = true;
        return 0;
    }
    if (status.phase >= MAILBOX_PHASE_COUNT || status.step_completed > MAILBOX_STEP_MAX ||
        status.step_begun > MAILBOX_STEP_MAX || status.step_count > MAILBOX_STEP_MAX ||
        status.hash_count > MAILBOX_STEP_MAX) {
        return -EBADMSG;
    }
    uint64_t changed =
        status.phase_since_ms > status.step_since_ms ? status.phase_since_ms : status.step_since_ms;
    view->torn = false;
    view->valid = true;
    view->has_coordinates = status.has_coordinates != 0;
    view->finished = status.finished != 0;
    view->pid = status.pid;
    view->attempt = status.attempt;
    view->phase = (uint8_t)status.phase;
    view->save_served = status.save_served;
    view->step = status.step_completed;
    view->step_begun = status.step_begun;
    view->changed_ms = changed < now_ms ? changed : now_ms;
    view->step_count = status.step_count;
    view->coordinates = status.coordinates;
    view->dropped = status.request_dropped;
    view->request_count = status.request_count;
    view->exchange_count = status.exchange_count;
    steps_take(&status, view);
    hashes_take(&status, view);
    communicators_take(&status, view);
    return 0;
}

/* ---- what a rank asks for ----------------------------------------------------------------- */

static bool request_is_valid(const struct mailbox_request *request, uint32_t slot)
{
    return request->number % MAILBOX_REQUESTS == slot &&
           request->checksum ==
               mailbox_checksum(request, offsetof(struct mailbox_request, checksum)) &&
           request->kind >= MAILBOX_BEGIN && request->kind <= MAILBOX_COMMIT && request->step > 0 &&
           request->step <= MAILBOX_STEP_MAX && hash_is_clean(request->hash) &&
           text_is_clean(request->path, sizeof(request->path)) &&
           (request->kind == MAILBOX_BEGIN || request->path[0] == '/');
}

/* 1: the slot holds a whole request that is not answered. */
static int request_open(int fd, uint32_t slot, struct mailbox_request *ret_request)
{
    uint64_t answered = 0;
    int result = area_read(
        fd, offsetof(struct mailbox_file, requests) + slot * sizeof(struct mailbox_request),
        ret_request, sizeof(*ret_request));
    if (result != 0 || ret_request->number == 0 || !request_is_valid(ret_request, slot)) {
        return result;
    }
    result =
        area_read(fd, offsetof(struct mailbox_file, answers) + slot * sizeof(struct mailbox_answer),
                  &answered, sizeof(answered));
    if (result != 0) {
        return result;
    }
    return answered != ret_request->number ? 1 : 0;
}

int mailbox_next_request(int fd, uint32_t *cursor, struct mailbox_request *ret_request)
{
    int result = 0;
    while (result == 0 && *cursor < MAILBOX_REQUESTS) {
        result = request_open(fd, (*cursor)++, ret_request);
    }
    return result;
}

int mailbox_request_at(int fd, uint64_t number, struct mailbox_request *ret_request)
{
    int result = request_open(fd, (uint32_t)(number % MAILBOX_REQUESTS), ret_request);
    return result == 1 && ret_request->number != number ? 0 : result;
}

int mailbox_next_put(int fd, uint32_t *cursor, struct mailbox_put *ret_put)
{
    while (*cursor < MAILBOX_PUTS) {
        uint32_t slot = (*cursor)++;
        int result =
            area_read(fd, offsetof(struct mailbox_file, puts) + slot * sizeof(struct mailbox_put),
                      ret_put, sizeof(*ret_put));
        if (result != 0) {
            return result;
        }
        if (ret_put->number != 0 && ret_put->size <= MAILBOX_VALUE_MAX &&
            ret_put->checksum ==
                mailbox_checksum(ret_put, offsetof(struct mailbox_put, checksum)) &&
            key_is_clean(ret_put->key)) {
            return 1;
        }
    }
    return 0;
}

int mailbox_next_get(int fd, uint32_t *cursor, struct mailbox_get *ret_get)
{
    while (*cursor < MAILBOX_GETS) {
        uint32_t slot = (*cursor)++;
        uint64_t answered = 0;
        int result =
            area_read(fd, offsetof(struct mailbox_file, gets) + slot * sizeof(struct mailbox_get),
                      ret_get, sizeof(*ret_get));
        if (result != 0) {
            return result;
        }
        if (ret_get->number == 0 || ret_get->number % MAILBOX_GETS != slot ||
            ret_get->checksum !=
                mailbox_checksum(ret_get, offsetof(struct mailbox_get, checksum)) ||
            !key_is_clean(ret_get->key)) {
            continue;
        }
        result = area_read(
            fd, offsetof(struct mailbox_file, values) + slot * sizeof(struct mailbox_value),
            &answered, sizeof(answered));
        if (result != 0) {
            return result;
        }
        if (answered != ret_get->number) {
            return 1;
        }
    }
    return 0;
}

/* ---- answers ------------------------------------------------------------------------------ */

/* The body first and the number last: who sees the number sees the rest. */
static int answer_write(int fd, size_t offset, const void *answer, size_t size, uint64_t number)
{
    int result = area_write(fd, offset + sizeof(number), (const uint8_t *)answer + sizeof(number),
                            size - sizeof(number));
    atomic_thread_fence(memory_order_seq_cst);
    return result != 0 ? result : area_write(fd, offset, &number, sizeof(number));
}

int mailbox_answer_write(int fd, uint64_t number, int32_t result, const char *text)
{
    struct mailbox_answer answer = {.number = number, .result = result};
    size_t length = text == NULL ? 0 : strnlen(text, sizeof(answer.text) - 1);
    memcpy(answer.text, text == NULL ? "" : text, length);
    answer.checksum = mailbox_checksum(&answer, offsetof(struct mailbox_answer, checksum));
    return answer_write(
        fd, offsetof(struct mailbox_file, answers) + (number % MAILBOX_REQUESTS) * sizeof(answer),
        &answer, sizeof(answer), number);
}

int mailbox_value_write(int fd, uint64_t number, int32_t result, const void *value, uint32_t size)
{
    struct mailbox_value answer = {.number = number, .result = result, .size = size};
    uint64_t slot = number % MAILBOX_GETS;
    uint64_t asked = 0;
    if (size > MAILBOX_VALUE_MAX) {
        return -EMSGSIZE;
    }
    int got = area_read(fd, offsetof(struct mailbox_file, gets) + slot * sizeof(struct mailbox_get),
                        &asked, sizeof(asked));
    if (got != 0) {
        return got;
    }
    if (asked != number || number == 0) {
        return -ENOENT;
    }
    if (size > 0) {
        memcpy(answer.value, value, size);
    }
    answer.checksum = mailbox_checksum(&answer, offsetof(struct mailbox_value, checksum));
    return answer_write(fd, offsetof(struct mailbox_file, values) + slot * sizeof(answer), &answer,
                        sizeof(answer), number);
}

static int flags_read(int fd, struct mailbox_flags *ret_flags)
{
    int result = area_read(fd, offsetof(struct mailbox_file, flags), ret_flags, sizeof(*ret_flags));
    uint64_t check = mailbox_checksum(ret_flags, offsetof(struct mailbox_flags, check));
    if (result == 0 && ret_flags->check != check) {
        memset(ret_flags, 0, sizeof(*ret_flags));
    }
    return result;
}

static int flags_put(int fd, struct mailbox_flags *flags)
{
    flags->check = mailbox_checksum(flags, offsetof(struct mailbox_flags, check));
    return area_write(fd, offsetof(struct mailbox_file, flags), flags, sizeof(*flags));
}

int mailbox_flags_write(int fd, uint32_t save_request, bool stop_request)
{
    struct mailbox_flags flags = {0};
    int result = flags_read(fd, &flags);
    flags.save_request = save_request;
    flags.stop_request = stop_request ? 1 : 0;
    return result != 0 ? result : flags_put(fd, &flags);
}

int mailbox_abort_write(int fd, uint32_t abort_below)
{
    struct mailbox_flags flags = {0};
    int result = flags_read(fd, &flags);
    flags.abort_below = abort_below;
    return result != 0 ? result : flags_put(fd, &flags);
}

int mailbox_order_write(int fd, const struct mailbox_order *order)
{
    const size_t offset = offsetof(struct mailbox_file, order);
    struct mailbox_order copy;
    uint64_t lock = 0;

    int result = area_read(fd, offset, &lock, sizeof(lock));
    if (result != 0) {
        return result;
    }
    /* An agent that died in here left it odd: it stays odd until this one is through. */
    lock |= 1;
    memcpy(&copy, order, sizeof(copy));
    copy.lock = 0;
    copy.checksum = mailbox_checksum(&copy, offsetof(struct mailbox_order, checksum));
    result = area_write(fd, offset, &lock, sizeof(lock));
    atomic_thread_fence(memory_order_seq_cst);
    if (result == 0) {
        result = area_write(fd, offset + sizeof(lock), (const uint8_t *)&copy + sizeof(lock),
                            sizeof(copy) - sizeof(lock));
    }
    atomic_thread_fence(memory_order_seq_cst);
    lock++;
    return result != 0 ? result : area_write(fd, offset, &lock, sizeof(lock));
}

/* ---- waking ------------------------------------------------------------------------------- */

int mailbox_map_wake(int fd, void **ret_map)
{
    void *map = mmap(NULL, MAILBOX_PAGE, PROT_READ, MAP_SHARED, fd,
                     (off_t)offsetof(struct mailbox_file, header));
    if (map == MAP_FAILED) {
        return -errno;
    }
    *ret_map = map;
    return 0;
}

void mailbox_unmap_wake(void *map)
{
    if (map != NULL) {
        (void)munmap(map, MAILBOX_PAGE); /* only a name */
    }
}

int mailbox_wake(int fd, void *map)
{
    const size_t offset =
        offsetof(struct mailbox_file, header) + offsetof(struct mailbox_header, wake);
    uint32_t word = 0;
    int result = area_read(fd, offset, &word, sizeof(word));
    if (result == 0) {
        word++;
        result = area_write(fd, offset, &word, sizeof(word));
    }
    if (result != 0) {
        return result;
    }
    uint8_t *name = (uint8_t *)map + offsetof(struct mailbox_header, wake);
    /* A truncated file makes this EFAULT, inside of the kernel. */
    return syscall(SYS_futex, name, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) < 0 ? -errno : 0;
}
