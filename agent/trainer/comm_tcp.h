/* comm_tcp.h: the "tcp" backend of comm.h: one connection between every two ranks.
 *
 * Sums are made in the order of the ranks by one owner of each element, and the result is sent to
 * all: the same world gives the same bits, always. A rank that waits sleeps in poll(). */
#ifndef KEEPSTEP_TRAINER_COMM_TCP_H
#define KEEPSTEP_TRAINER_COMM_TCP_H

#include "agent/trainer/comm.h"
#include "agent/trainer/rendezvous.h"

/* Meets the other ranks and fills *ret_comm; comm_done ends it. who->world is the layout's. A world
 * of one meets nobody and opens no socket. ret_listener: as in rendezvous_meet. */
MUST_CHECK int comm_tcp_create(const struct rendezvous *who, const struct comm_layout *layout,
                               int *ret_listener, struct fail *fail, struct comm *ret_comm);

#endif
