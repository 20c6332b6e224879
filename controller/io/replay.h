/* replay.h: from the journal to a core, at start. */
#ifndef KEEPSTEP_IO_REPLAY_H
#define KEEPSTEP_IO_REPLAY_H

#include <stdint.h>

#include "controller/core/core.h"
#include "db/store.h"
#include "proto/base/err.h"

struct replay_report {
    struct store_replayed store;
    uint32_t jobs_quarantined; /* at this start */
    uint32_t nodes_quarantined;
};

/* Folds the whole journal into a fresh core and checks every invariant. A record of a job that
 * cannot be read or folded quarantines that job, one of a node that node, said in the log, and the
 * controller goes on; a line that nothing rests on (an audit line) is passed over. A bad record of
 * the cluster itself is an error, because nothing after it could be trusted. Logs. */
MUST_CHECK int replay_journal(struct store *store, struct core *core,
                              struct replay_report *ret_report, struct err *err);

#endif
