/* mailbox_fuzz.c: any bytes in the part of a mailbox that its rank writes. Each input is laid over
 * the status and, with its checksum put right, over one request, put and get; what the agent's side
 * gives out is bounded, terminated and of the right kind. */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/rank/mailbox.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { NOW_MS = 1000 };

const char fuzz_alphabet[] = "/ak0f\001\002\003";

size_t fuzz_example_count(void)
{
    return 3;
}

static size_t copy(uint8_t *target, size_t size_max, const void *source, size_t size)
{
    CHECK(size <= size_max);
    memcpy(target, source, size);
    return size;
}

size_t fuzz_example(size_t index, uint8_t *target, size_t size_max)
{
    const struct mailbox_status status = {.phase = 2, .step_count = 40, .step_completed = 40};
    const struct mailbox_request request = {
        .number = 1, .kind = MAILBOX_SHARD, .step = 7, .path = "/data/step-7.a-0/0"};
    const struct mailbox_get get = {.number = 1 + MAILBOX_GETS, .key = "nccl/tp"};
    if (index == 0) {
        return copy(target, size_max, &status, sizeof(status));
    }
    return index == 1 ? copy(target, size_max, &request, sizeof(request))
                      : copy(target, size_max, &get, sizeof(get));
}

static void lay(int fd, size_t offset, void *slot, size_t slot_size, size_t sum_at,
                const uint8_t *data, size_t size)
{
    memset(slot, 0, slot_size);
    memcpy(slot, data, size < slot_size ? size : slot_size);
    if (sum_at > 0) {
        uint64_t sum = mailbox_checksum(slot, sum_at);
        memcpy((uint8_t *)slot + sum_at, &sum, sizeof(sum));
    }
    ssize_t put = pwrite(fd, slot, slot_size, (off_t)offset);
    CHECK(put == (ssize_t)slot_size);
}

static void status_try(int fd, const uint8_t *data, size_t size)
{
    struct mailbox_status status;
    struct mailbox_view view = {0};
    lay(fd, offsetof(struct mailbox_file, status), &status, sizeof(status), 0, data, size);
    int result = mailbox_read(fd, NOW_MS, &view);
    CHECK(result == 0 || !view.valid);
    CHECK(view.phase < MAILBOX_PHASE_COUNT);
    CHECK(view.steps_held <= MAILBOX_STEPS);
    CHECK(view.changed_ms <= NOW_MS);
    CHECK(view.step <= MAILBOX_STEP_MAX);
    CHECK(view.hashes_held <= MAILBOX_HASHES);
    CHECK(view.communicator_count <= MAILBOX_COMMUNICATORS);
    for (uint32_t i = 0; i < view.communicator_count; i++) {
        const struct mailbox_communicator *one = &view.communicators[i];
        CHECK(mailbox_communicator_name_is_good(one->name));
        CHECK(one->completed <= one->enqueued && one->operation < MAILBOX_OPERATION_COUNT);
    }
}

static void request_try(int fd, const uint8_t *data, size_t size)
{
    struct mailbox_request request;
    struct mailbox_request back;
    uint32_t cursor = 0;
    lay(fd, offsetof(struct mailbox_file, requests) + sizeof(request), &request, sizeof(request),
        offsetof(struct mailbox_request, checksum), data, size);
    if (mailbox_next_request(fd, &cursor, &back) == 1) {
        size_t length = strnlen(back.path, sizeof(back.path));
        CHECK(back.number % MAILBOX_REQUESTS == 1);
        CHECK(length < sizeof(back.path));
        CHECK(length == 0 || text_is_utf8(back.path, length));
        CHECK(strnlen(back.hash, sizeof(back.hash)) < MAILBOX_HASH_SIZE);
        int result = mailbox_answer_write(fd, back.number, 0, "text");
        CHECK(result == 0);
        cursor = 0;
        CHECK(mailbox_next_request(fd, &cursor, &back) == 0);
    }
}

static void exchange_try(int fd, const uint8_t *data, size_t size)
{
    static struct mailbox_put put;
    static struct mailbox_put put_back;
    struct mailbox_get get;
    struct mailbox_get get_back;
    uint32_t cursor = 0;
    lay(fd, offsetof(struct mailbox_file, puts), &put, sizeof(put),
        offsetof(struct mailbox_put, checksum), data, size);
    if (mailbox_next_put(fd, &cursor, &put_back) == 1) {
        CHECK(put_back.size <= MAILBOX_VALUE_MAX);
        CHECK(strnlen(put_back.key, MAILBOX_KEY_SIZE) < MAILBOX_KEY_SIZE);
    }
    cursor = 0;
    lay(fd, offsetof(struct mailbox_file, gets) + sizeof(get), &get, sizeof(get),
        offsetof(struct mailbox_get, checksum), data, size);
    if (mailbox_next_get(fd, &cursor, &get_back) == 1) {
        CHECK(strnlen(get_back.key, MAILBOX_KEY_SIZE) < MAILBOX_KEY_SIZE);
        int result = mailbox_value_write(fd, get_back.number, 0, "v", 1);
        CHECK(result == 0);
        cursor = 0;
        CHECK(mailbox_next_get(fd, &cursor, &get_back) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("mailbox", MFD_CLOEXEC);
        CHECK(fd >= 0);
    }
    /* Anew each time: an input's result depends on nothing before it. */
    int result = ftruncate(fd, 0) | ftruncate(fd, sizeof(struct mailbox_file));
    CHECK(result == 0);
    status_try(fd, data, size);
    request_try(fd, data, size);
    exchange_try(fd, data, size);
    return 0;
}
