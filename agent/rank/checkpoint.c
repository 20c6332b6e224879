/* checkpoint.c: what a program says of its saves. Requests go into a ring that the agent answers;
 * nothing here waits for an answer but keepstep_checkpoint_result. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/rank/attach.h"
#include "agent/rank/keepstep.h"
#include "agent/rank/mailbox.h"

static bool hash_is_valid(const char *hash)
{
    return hash == NULL || (strlen(hash) == MAILBOX_HASH_SIZE - 1 &&
                            strspn(hash, "0123456789abcdef") == MAILBOX_HASH_SIZE - 1);
}

static bool path_is_valid(const char *path)
{
    return path != NULL && path[0] == '/' && strnlen(path, MAILBOX_PATH_SIZE) < MAILBOX_PATH_SIZE;
}

/* Puts a request into its slot and rings. The number is written last, and covers the rest by its
 * checksum, so a reader sees a whole request or none. Returns the number. */
static uint64_t request_post(struct attach *attach, struct mailbox_request *request)
{
    struct mailbox_status *status = &attach->file->status;
    uint64_t number = status->request_count + 1;
    struct mailbox_request *slot = &attach->file->requests[number % MAILBOX_REQUESTS];
    const struct mailbox_answer *answer = &attach->file->answers[number % MAILBOX_REQUESTS];
    bool dropped = slot->number != 0 && slot->number != answer->number;

    request->number = number;
    request->attempt = status->attempt;
    request->rank = attach->order.rank;
    request->checksum = mailbox_checksum(request, offsetof(struct mailbox_request, checksum));
    atomic_store_explicit((_Atomic uint64_t *)&slot->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy((uint8_t *)slot + sizeof(number), (const uint8_t *)request + sizeof(number),
           sizeof(*request) - sizeof(number));
    atomic_store_explicit((_Atomic uint64_t *)&slot->number, number, memory_order_release);

    attach_status_begin(attach);
    status->request_count = number;
    status->request_dropped += dropped;
    attach_status_end(attach);
    attach_ring(attach);
    return number;
}

int keepstep_checkpoint_begin(uint64_t step, uint32_t shard_count)
{
    if (step == 0 || step > MAILBOX_STEP_MAX) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    struct mailbox_status *status = &attach->file->status;
    attach->save_step = step;
    attach->save_shards = shard_count;
    attach->save_begin_us = attach_now_us();
    attach_flags_read(attach);
    attach_status_begin(attach);
    status->save_served = attach->save_request;
    if (status->phase != MAILBOX_PHASE_CHECKPOINT) {
        status->phase = MAILBOX_PHASE_CHECKPOINT;
        status->phase_since_ms = attach->save_begin_us / 1000;
    }
    attach_status_end(attach);
    if (attach->order.rank == 0) {
        struct mailbox_request request = {
            .kind = MAILBOX_BEGIN,
            .step = step,
            .shard_count = shard_count,
        };
        (void)request_post(attach, &request);
    } else {
        attach_ring(attach); /* the phase changed */
    }
    attach_unlock(attach);
    return 0;
}

int keepstep_checkpoint_shard(const char *path, uint64_t bytes, const char *hash)
{
    if (!path_is_valid(path) || !hash_is_valid(hash)) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    if (attach->save_step == 0) {
        attach_unlock(attach);
        return -EINVAL;
    }
    uint64_t stall_ms = (attach_now_us() - attach->save_begin_us) / 1000;
    struct mailbox_request request = {
        .kind = MAILBOX_SHARD,
        .step = attach->save_step,
        .shard_count = attach->save_shards,
        .bytes = bytes,
        .stall_ms = stall_ms < UINT32_MAX ? (uint32_t)stall_ms : UINT32_MAX,
    };
    memcpy(request.path, path, strlen(path));
    memcpy(request.hash, hash == NULL ? "" : hash, hash == NULL ? 0 : strlen(hash));
    (void)request_post(attach, &request);
    attach_unlock(attach);
    return 0;
}

int keepstep_checkpoint_commit(const char *directory, const char *manifest_hash, uint32_t parts)
{
    if (!path_is_valid(directory) || !hash_is_valid(manifest_hash)) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    if (attach->save_step == 0 || attach->order.rank != 0) {
        attach_unlock(attach);
        return -EINVAL;
    }
    struct mailbox_request request = {
        .kind = MAILBOX_COMMIT,
        .step = attach->save_step,
        .shard_count = attach->save_shards,
        .parts = parts,
    };
    memcpy(request.path, directory, strlen(directory));
    memcpy(request.hash, manifest_hash == NULL ? "" : manifest_hash,
           manifest_hash == NULL ? 0 : strlen(manifest_hash));
    attach->commit_number = request_post(attach, &request);
    attach->save_step = 0;
    attach_unlock(attach);
    return 0;
}

/* true: the last commit is answered. */
static bool answer_look(const struct attach *attach, int *ret_result, char *ret_text)
{
    const struct mailbox_answer *source =
        &attach->file->answers[attach->commit_number % MAILBOX_REQUESTS];
    struct mailbox_answer answer;
    uint64_t number =
        atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)&source->number, memory_order_acquire);
    memcpy(&answer, source, sizeof(answer));
    answer.number = number;
    if (number != attach->commit_number ||
        answer.checksum != mailbox_checksum(&answer, offsetof(struct mailbox_answer, checksum))) {
        return false;
    }
    answer.text[sizeof(answer.text) - 1] = '\0';
    *ret_result = answer.result == 0 ? 1 : answer.result > 0 ? -EBADMSG : answer.result;
    if (ret_text != NULL) {
        memcpy(ret_text, answer.text, sizeof(answer.text));
    }
    return true;
}

int keepstep_checkpoint_result(uint32_t timeout_ms, char *ret_text)
{
    struct attach *attach = attach_lock();
    uint64_t deadline_us = attach_now_us() + (uint64_t)timeout_ms * 1000;
    if (ret_text != NULL) {
        ret_text[0] = '\0';
    }
    while (attach != NULL) {
        uint32_t word = attach_wake_word(attach);
        int result = 0;
        bool over = attach->commit_number == 0 || answer_look(attach, &result, ret_text);
        if (over || attach_now_us() >= deadline_us) {
            result = attach->commit_number == 0 ? -ENOENT : result;
            attach_unlock(attach);
            return result;
        }
        attach = attach_wait(attach, word, deadline_us);
    }
    return 1;
}

int keepstep_checkpoint_done(uint64_t step, const char *path)
{
    if (!path_is_valid(path)) {
        return -EINVAL;
    }
    int result = keepstep_checkpoint_begin(step, 0);
    if (result == 0) {
        result = keepstep_checkpoint_commit(path, NULL, 0);
    }
    if (result == 0) {
        result = keepstep_phase(KEEPSTEP_STEP);
    }
    return result;
}
