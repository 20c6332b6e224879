/* used_time.h: processor time that the processes of an attempt have used. Plain file reads.
 *
 * The cgroup knows all of them, also those that have ended. Without one it is the sum over the
 * processes that live now in the sessions which the ranks lead, with their ended children: a
 * process that made a session of its own is missed. */
#ifndef KEEPSTEP_AGENT_USED_TIME_H
#define KEEPSTEP_AGENT_USED_TIME_H

#include <stdint.h>

#include "proto/base/err.h"

enum { USED_SESSIONS_MAX = 16 };

/* whose: the absolute path of a cgroup's folder, or "4711,4712". -ENOENT: nothing can be read. */
MUST_CHECK int used_time_read(const char *whose, uint64_t *ret_ms);

#endif
