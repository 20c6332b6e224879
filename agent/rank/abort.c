/* abort.c: the thread that tells a program in time that its attempt is over.
 *
 * A rank whose peer died sits in a collective, in a driver's call that no signal ends; its own
 * threads cannot look at the mailbox any more. So one thread waits on the mailbox's futex and calls
 * back, once in an attempt. It is made by the first keepstep_on_abort of an attachment and ends
 * with it: every look at the state begins by comparing the attachment's generation, since the
 * mailbox may have been left, and even another one taken, while this thread waited or called. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "agent/rank/attach.h"
#include "agent/rank/keepstep.h"
#include "agent/rank/mailbox.h"

static bool attempt_is_over(const struct attach *attach)
{
    const uint32_t attempt = attach->file->status.attempt;
    struct mailbox_order order;
    struct mailbox_flags flags;
    return (attach_flags_look(attach, &flags) && flags.abort_below > attempt) ||
           (attach_order_look(attach, &order) && order.attempt > attempt);
}

/* Calls back, unlocked. The state locked again, or NULL when the program has detached meanwhile. */
static struct attach *call(struct attach *attach)
{
    void (*callback)(void *) = attach->abort.callback;
    void *argument = attach->abort.argument;
    attach->abort.called_below = (uint64_t)attach->file->status.attempt + 1;
    attach_unlock(attach);
    callback(argument);
    return attach_lock();
}

static void *watch(void *generation_of)
{
    const uint64_t generation = (uint64_t)(uintptr_t)generation_of;
    struct attach *attach = attach_lock();
    while (attach != NULL && attach->generation == generation) {
        const uint32_t word = attach_wake_word(attach);
        const bool wanted = attach->abort.callback != NULL &&
                            attach->abort.called_below <= attach->file->status.attempt;
        if (wanted && attempt_is_over(attach)) {
            attach = call(attach);
        } else {
            attach = attach_wait(attach, word, UINT64_MAX);
        }
    }
    if (attach != NULL) {
        attach_unlock(attach);
    }
    return NULL;
}

/* The program's signals are for the program's threads. */
static int thread_make(pthread_t *ret_thread, uint64_t generation)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all); /* fails for no set */
    int result = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (result != 0) {
        return -EAGAIN;
    }
    result = pthread_create(ret_thread, NULL, watch, (void *)(uintptr_t)generation);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* what it was a moment ago */
    return result == 0 ? 0 : -EAGAIN;
}

int keepstep_on_abort(keepstep_abort_function callback, void *argument)
{
    struct attach *attach = attach_lock();
    int result = 0;
    if (attach == NULL) {
        return 0;
    }
    if (callback != NULL && !attach->abort.running) {
        result = thread_make(&attach->abort.thread, attach->generation);
        attach->abort.running = result == 0;
    }
    if (result == 0) {
        attach->abort.callback = callback;
        attach->abort.argument = argument;
        attach_wake(attach);
    }
    attach_unlock(attach);
    return result;
}
