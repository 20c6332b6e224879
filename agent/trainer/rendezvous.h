/* rendezvous.h: how the ranks of one attempt find each other: every pair ends with one connection.
 *
 * Rank 0 listens on MASTER_PORT. Every other rank opens a listener of its own, connects to rank 0
 * (again and again until the time is over: rank 0 may not be up yet) and says hello: who it is and
 * where it listens. Rank 0 answers each hello at once with yes or with a reason; when all are there
 * it sends everybody the table of addresses, and rank j connects to the ranks 1 … j-1 with the same
 * hello. Nothing is secret here; whoever speaks otherwise is dropped without harm.
 *
 * A hello is refused, and the one who said it ends with EXIT_RENDEZVOUS, when it is of another job
 * or attempt or its rank is here already: the others go on waiting for the right one. When it is of
 * this attempt but was started with other flags (EXIT_BAD_CONFIG) or reads another text
 * (EXIT_LOCAL: a folder is not mounted), all end, since waiting would not help. */
#ifndef KEEPSTEP_TRAINER_RENDEZVOUS_H
#define KEEPSTEP_TRAINER_RENDEZVOUS_H

#include <stdint.h>

#include "agent/trainer/fail.h"

enum { RENDEZVOUS_JOB_SIZE = 64 };

struct rendezvous {
    uint32_t rank;
    uint32_t world;
    uint32_t attempt;
    char job[RENDEZVOUS_JOB_SIZE];
    const char *master_address; /* name or number; borrowed */
    uint16_t master_port;
    uint64_t program; /* digest of everything that must be equal on all ranks */
    uint64_t text;    /* hash of the text that this rank reads */
    uint32_t timeout_ms;
};

/* ret_fds: world entries; [r] becomes the connection to rank r, non-blocking, the caller's to
 * close; [own rank] is -1. ret_listener: NULL, or gets rank 0's listening socket (-1 on others),
 * which is otherwise closed. On failure all are closed. Blocks for timeout_ms at
 * most (10 s more where rank 0 answered: it is the one that gives up). */
MUST_CHECK int rendezvous_meet(const struct rendezvous *self, int *ret_fds, int *ret_listener,
                               struct fail *fail);

#endif
