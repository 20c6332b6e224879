/* abort_order.c: between the library's thread, which may be about to call at any moment, and a comm
 * that ends. keepstep_on_abort(NULL) lets a call that is under way go on, and to detach, which would
 * wait for it, is not for a rank that fails: its last phase says what failed. So what the call looks
 * at has to outlive every comm: it is the one static object of the trainer. */
#include "agent/trainer/abort_order.h"

#include <pthread.h>
#include <stddef.h>

#include "agent/rank/keepstep.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct comm *current; /* NULL: none, or it has ended */

static void set_current(struct comm *comm)
{
    (void)pthread_mutex_lock(&lock);
    current = comm;
    (void)pthread_mutex_unlock(&lock);
}

static void abort_current(void *argument)
{
    (void)argument;
    (void)pthread_mutex_lock(&lock);
    if (current != NULL) {
        comm_abort(current);
    }
    (void)pthread_mutex_unlock(&lock);
}

int abort_order_begin(struct comm *comm)
{
    set_current(comm);
    return keepstep_on_abort(abort_current, NULL);
}

void abort_order_end(void)
{
    (void)keepstep_on_abort(NULL, NULL); /* takes away only: needs nothing */
    set_current(NULL);
}
