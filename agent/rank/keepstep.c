/* keepstep.c: the public calls about progress, saves and attempts. Each takes the library's lock,
 * changes a few words of the mailbox, and returns; only those with a timeout wait (attach_wait). */
#include "agent/rank/keepstep.h"

#include <errno.h>
#include <string.h>

#include "agent/rank/attach.h"
#include "agent/rank/mailbox.h"

_Static_assert((int)KEEPSTEP_IDLE == (int)MAILBOX_PHASE_IDLE, "one numbering of phases");
_Static_assert((int)KEEPSTEP_PATH_SIZE == (int)MAILBOX_PATH_SIZE, "one size");
_Static_assert((int)KEEPSTEP_ADDRESS_SIZE == (int)MAILBOX_ADDRESS_SIZE, "one size");
_Static_assert((int)KEEPSTEP_TEXT_SIZE == (int)MAILBOX_TEXT_SIZE, "one size");

int keepstep_init(void)
{
    return attach_open();
}

int keepstep_attached(void)
{
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    attach_unlock(attach);
    return 1;
}

void keepstep_finish(void)
{
    attach_close();
}

/* ---- progress ----------------------------------------------------------------------------- */

/* Inside of a status write. true: it changed, and the agent should hear of it. */
static bool phase_set(struct mailbox_status *status, uint32_t phase, uint64_t now_us)
{
    if (status->phase == phase) {
        return false;
    }
    status->phase = phase;
    status->phase_since_ms = now_us / 1000;
    return true;
}

int keepstep_phase(int phase)
{
    if (phase < KEEPSTEP_INIT || phase > KEEPSTEP_IDLE) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    attach_status_begin(attach);
    bool changed = phase_set(&attach->file->status, (uint32_t)phase, attach_now_us());
    attach_status_end(attach);
    if (changed) {
        attach_ring(attach);
    }
    attach_unlock(attach);
    return 0;
}

/* What was told of this step before it ended. */
static void values_settle(struct attach *attach, struct mailbox_step *step)
{
    if (attach->loss_step == step->step) {
        step->loss = attach->loss;
        attach->loss_step = 0;
    }
    if (attach->gradient_step == step->step) {
        step->gradient_norm = attach->gradient_norm;
        attach->gradient_step = 0;
    }
}

static uint32_t us_since(uint64_t then_us, uint64_t now_us)
{
    uint64_t passed = now_us > then_us ? now_us - then_us : 0;
    return passed < UINT32_MAX ? (uint32_t)passed : UINT32_MAX;
}

/* step_begin and step_end as one change: either may be 0 = not told. */
static int step_tell(uint64_t ended, uint64_t begun)
{
    if (ended > MAILBOX_STEP_MAX || begun > MAILBOX_STEP_MAX || (ended == 0 && begun == 0)) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    struct mailbox_status *status = &attach->file->status;
    uint64_t now_us = attach_now_us();
    uint64_t count = status->step_count;

    attach_status_begin(attach);
    bool ring = phase_set(status, MAILBOX_PHASE_STEP, now_us);
    if (ended != 0) {
        bool told = status->step_begun == ended && attach->step_begin_us != 0;
        struct mailbox_step *entry = &status->ring[count % MAILBOX_STEPS];
        *entry = (struct mailbox_step){
            .step = ended,
            .end_us = now_us,
            .total_us = us_since(told ? attach->step_begin_us : attach->step_end_us, now_us),
            .compute_us = attach->compute_us,
        };
        values_settle(attach, entry);
        status->step_count = count + 1;
        status->step_completed = ended;
        attach->step_end_us = now_us;
        attach->compute_us = 0;
        ring = ring || count == 0;
    }
    if (begun != 0) {
        status->step_begun = begun;
        attach->step_begin_us = now_us;
    }
    status->step_since_ms = now_us / 1000;
    attach_status_end(attach);
    if (ring) {
        attach_ring(attach);
    }
    attach_unlock(attach);
    return 0;
}

int keepstep_step_begin(uint64_t step)
{
    return step_tell(0, step);
}

int keepstep_step_end(uint64_t step)
{
    return step_tell(step, 0);
}

int keepstep_step(uint64_t step)
{
    return step == 0 ? -EINVAL : step_tell(step, step + 1);
}

int keepstep_step_compute(uint64_t compute_us)
{
    struct attach *attach = attach_lock();
    if (attach != NULL) {
        attach->compute_us = compute_us < UINT32_MAX ? (uint32_t)compute_us : UINT32_MAX;
        attach_unlock(attach);
    }
    return 0;
}

int keepstep_coordinates(uint32_t tensor, uint32_t context, uint32_t pipeline, uint32_t data)
{
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    attach_status_begin(attach);
    attach->file->status.coordinates =
        (struct mailbox_coordinates){tensor, context, pipeline, data};
    attach->file->status.has_coordinates = 1;
    attach_status_end(attach);
    attach_ring(attach);
    attach_unlock(attach);
    return 0;
}

/* ---- requests of the controller ------------------------------------------------------------- */

int keepstep_should_checkpoint(void)
{
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    attach_flags_read(attach);
    uint32_t served = attach->file->status.save_served;
    /* Counters, compared as the difference of two close ones. */
    int wanted = attach->order.rank == 0 && (int32_t)(attach->save_request - served) > 0;
    attach_unlock(attach);
    return wanted;
}

int keepstep_should_stop(void)
{
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    attach_flags_read(attach);
    int wanted = attach->order.rank == 0 && attach->stop_request;
    attach_unlock(attach);
    return wanted;
}

/* ---- attempts ------------------------------------------------------------------------------- */

static void restore_fill(const struct mailbox_order *order, struct keepstep_restore *ret_restore)
{
    memset(ret_restore, 0, sizeof(*ret_restore));
    ret_restore->attempt = order->attempt;
    ret_restore->rank = order->rank;
    ret_restore->world = order->world;
    ret_restore->local_rank = order->local_rank;
    ret_restore->local_world = order->local_world;
    ret_restore->tensor_rank = order->coordinates.tensor;
    ret_restore->context_rank = order->coordinates.context;
    ret_restore->pipeline_rank = order->coordinates.pipeline;
    ret_restore->data_rank = order->coordinates.data;
    ret_restore->tensor = order->sizes.tensor;
    ret_restore->context = order->sizes.context;
    ret_restore->pipeline = order->sizes.pipeline;
    ret_restore->data = order->sizes.data;
    ret_restore->master_port = order->master_port;
    memcpy(ret_restore->master_address, order->master_address, sizeof(order->master_address));
    ret_restore->step = order->restore_step;
    ret_restore->checkpoint_attempt = order->restore_attempt;
    memcpy(ret_restore->directory, order->restore_directory, sizeof(order->restore_directory));
    memcpy(ret_restore->checkpoint_directory, order->checkpoint_directory,
           sizeof(order->checkpoint_directory));
}

int keepstep_restore_info(struct keepstep_restore *ret_restore)
{
    struct attach *attach = attach_lock();
    memset(ret_restore, 0, sizeof(*ret_restore));
    if (attach == NULL) {
        return 0;
    }
    uint32_t current = attach->file->status.attempt;
    /* The one it was attached with, until next_attempt: a newer order is not this program's yet. */
    if (attach->order.attempt == current && attach->file->order.attempt == current) {
        (void)attach_order_read(attach); /* torn: the last good one */
    }
    int result = attach->order.attempt == current ? 1 : -EAGAIN;
    if (result == 1) {
        restore_fill(&attach->order, ret_restore);
    }
    attach_unlock(attach);
    return result;
}

/* Inside of the lock: the order that was read becomes ours. */
static void attempt_adopt(struct attach *attach)
{
    struct mailbox_status *status = &attach->file->status;
    memset(attach->file->puts, 0, sizeof(attach->file->puts));
    for (uint32_t i = 0; i < MAILBOX_GETS; i++) {
        attach->file->gets[i].number = 0;
    }
    attach_attempt_begin(attach);
    attach_status_begin(attach);
    status->attempt = attach->order.attempt;
    status->step_begun = 0;
    status->step_completed = 0;
    status->step_count = 0;
    status->hash_count = 0;
    status->communicator_count = 0;
    status->has_coordinates = 0;
    (void)phase_set(status, MAILBOX_PHASE_INIT, attach->step_end_us);
    attach_status_end(attach);
    attach_ring(attach);
}

int keepstep_next_attempt(uint32_t timeout_ms, struct keepstep_restore *ret_restore)
{
    struct attach *attach = attach_lock();
    uint64_t deadline_us = attach_now_us() + (uint64_t)timeout_ms * 1000;
    memset(ret_restore, 0, sizeof(*ret_restore));
    while (attach != NULL) {
        uint32_t word = attach_wake_word(attach);
        struct mailbox_order old = attach->order;
        if (attach_order_read(attach) && attach->order.attempt > attach->file->status.attempt) {
            attempt_adopt(attach);
            restore_fill(&attach->order, ret_restore);
            attach_unlock(attach);
            return 1;
        }
        attach->order = old;
        if (attach_now_us() >= deadline_us) {
            attach_unlock(attach);
            return 0;
        }
        attach = attach_wait(attach, word, deadline_us);
    }
    return 0;
}
