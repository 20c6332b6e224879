/* evidence.c: what a program tells so that a sick rank can be found: numbers of its steps, hashes of
 * its parameters, and how far its communicators have come. Nothing here rings: the agent reads the
 * mailbox once a second, and of all of it only the newest state counts. */
#include <errno.h>
#include <string.h>

#include "agent/rank/attach.h"
#include "agent/rank/keepstep.h"
#include "agent/rank/mailbox.h"

_Static_assert((int)KEEPSTEP_AXIS_DATA == (int)MAILBOX_AXIS_DATA, "one numbering of axes");
_Static_assert((int)KEEPSTEP_BARRIER == (int)MAILBOX_OPERATION_BARRIER, "one of operations");
_Static_assert((int)KEEPSTEP_COMMUNICATORS_MAX == (int)MAILBOX_COMMUNICATORS, "one size");
_Static_assert((int)KEEPSTEP_COMMUNICATOR_NAME_SIZE == (int)MAILBOX_COMMUNICATOR_NAME_SIZE,
               "one size");

/* ---- numbers of a step -------------------------------------------------------------------- */

/* The entry of a step that has ended, NULL when it has not, or is out of the ring already. */
static struct mailbox_step *step_find(struct mailbox_status *status, uint64_t step)
{
    const uint64_t count = status->step_count;
    for (uint64_t back = 1; back <= count && back <= MAILBOX_STEPS; back++) {
        struct mailbox_step *entry = &status->ring[(count - back) % MAILBOX_STEPS];
        if (entry->step == step) {
            return entry;
        }
    }
    return NULL;
}

static int value_tell(uint64_t step, double value, bool is_loss)
{
    if (step == 0 || step > MAILBOX_STEP_MAX) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    const mailbox_real_bits bits = mailbox_real(value);
    struct mailbox_step *entry = step_find(&attach->file->status, step);
    if (entry != NULL) {
        attach_status_begin(attach);
        *(is_loss ? &entry->loss : &entry->gradient_norm) = bits;
        attach_status_end(attach);
    } else if (is_loss) {
        attach->loss_step = step;
        attach->loss = bits;
    } else {
        attach->gradient_step = step;
        attach->gradient_norm = bits;
    }
    attach_unlock(attach);
    return 0;
}

int keepstep_loss(uint64_t step, double loss)
{
    return value_tell(step, loss, true);
}

int keepstep_gradient_norm(uint64_t step, double gradient_norm)
{
    return value_tell(step, gradient_norm, false);
}

int keepstep_parameter_hash(uint64_t step, uint64_t hash)
{
    if (step == 0 || step > MAILBOX_STEP_MAX) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    struct mailbox_status *status = &attach->file->status;
    attach_status_begin(attach);
    status->hashes[status->hash_count % MAILBOX_HASHES] =
        (struct mailbox_hash){.step = step, .hash = hash};
    status->hash_count++;
    attach_status_end(attach);
    attach_unlock(attach);
    return 0;
}

/* ---- communicators ------------------------------------------------------------------------ */

int keepstep_communicator(const char *name, int axis)
{
    if (name == NULL || !mailbox_communicator_name_is_good(name) || axis < KEEPSTEP_AXIS_OTHER ||
        axis > KEEPSTEP_AXIS_DATA) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    struct mailbox_status *status = &attach->file->status;
    uint32_t index = 0;
    while (index < status->communicator_count && index < MAILBOX_COMMUNICATORS &&
           strncmp(status->communicators[index].name, name, MAILBOX_COMMUNICATOR_NAME_SIZE) != 0) {
        index++;
    }
    if (index < MAILBOX_COMMUNICATORS) {
        struct mailbox_communicator fresh = {.axis = (uint32_t)axis, .peer = -1};
        memcpy(fresh.name, name, strlen(name));
        attach_status_begin(attach);
        status->communicators[index] = fresh; /* made anew, it counts from the beginning */
        if (index == status->communicator_count) {
            status->communicator_count++;
        }
        attach_status_end(attach);
    }
    attach_unlock(attach);
    return index < MAILBOX_COMMUNICATORS ? (int)index : -ENOSPC;
}

int keepstep_collective(int communicator, uint64_t enqueued, uint64_t completed, int operation,
                        int32_t peer)
{
    if (communicator < 0 || completed > enqueued || enqueued > MAILBOX_STEP_MAX ||
        operation < KEEPSTEP_OPERATION_NONE || operation > KEEPSTEP_BARRIER || peer < -1) {
        return -EINVAL;
    }
    struct attach *attach = attach_lock();
    if (attach == NULL) {
        return 0;
    }
    struct mailbox_status *status = &attach->file->status;
    const bool known = (uint32_t)communicator < status->communicator_count;
    if (known) {
        struct mailbox_communicator *entry = &status->communicators[communicator];
        attach_status_begin(attach);
        entry->enqueued = enqueued;
        entry->completed = completed;
        entry->operation = (uint32_t)operation;
        entry->peer = peer;
        attach_status_end(attach);
    }
    attach_unlock(attach);
    return known ? 0 : -EINVAL;
}
