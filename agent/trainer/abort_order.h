/* abort_order.h: Keepstep says that the attempt is over, and whoever waits in an operation of the
 * comm stops waiting: comm_abort, called by the library's thread (keepstep_on_abort). */
#ifndef KEEPSTEP_TRAINER_ABORT_ORDER_H
#define KEEPSTEP_TRAINER_ABORT_ORDER_H

#include "agent/trainer/comm.h"

/* From now on comm, borrowed until abort_order_end, is aborted when the order comes. One at a time.
 * Without an agent nothing happens. -EAGAIN: no thread; a world that is stuck is then ended by
 * signals alone. */
MUST_CHECK int abort_order_begin(struct comm *comm);
/* Waits for an abort under way; none begins afterwards. To be called before comm_done; also when
 * nothing was begun. */
void abort_order_end(void);

#endif
