/* ranks.h: the ranks of one attempt: started once, watched, ended, proven gone.
 *
 *   NONE --OPEN, fork, START durable--> STARTING --exec--> RUNNING --end durable--> EXITED
 *                                          |                  |                     SIGNALED
 *                                          +-- no exec, end durable --------------> UNSTARTED
 *
 * `status` holds only what is durable: an end is in it once its record is. An end that cannot be
 * recorded (the disk fails) is kept and tried again each second, and is not told meanwhile. */
#ifndef KEEPSTEP_SHIM_RANKS_H
#define KEEPSTEP_SHIM_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/shim/cgroup.h"
#include "agent/shim/ends.h"
#include "agent/shim/shim.h"
#include "agent/shim/start.h"

struct ranks_slot {
    int report_fd;              /* -1 once exec happened or the report is read */
    struct start_report report; /* stage NONE: none */
    bool reaped;
    bool left_first;            /* it was already ending when the first order came */
    struct shim_record pending; /* kind 0: nothing to record */
};

struct ranks {
    struct shim_launch launch; /* its lists are gone once all ranks are forked */
    struct shim_status status;
    struct ends ends;
    struct cgroup cgroup;
    char cgroup_path[SHIM_PATH_SIZE];
    struct ranks_slot slots[SHIM_RANKS_MAX];
    bool has_children;  /* waitpid's word: anything below this process, not only ranks */
    bool term_recorded; /* the orders that are durable; tried again with the next order */
    bool kill_recorded;
    bool changed;      /* status changed since the caller last cleared it */
    uint64_t retry_ms; /* when to try recording again; 0 = nothing waits */
    bool retry_said;   /* why, in the log */
    uint64_t sweep_ms; /* when to look or kill again; 0 = not needed */
    uint32_t sweeps;   /* kill rounds so far */
};

/* Records OPEN, forks, records START, and lets the children go on. launch: taken over with its
 * memory, which is freed. -EALREADY: begun before; -EBUSY: the cgroup is in use; other -errno: the
 * system refused and every child has been ended without having run anything. */
int ranks_begin(struct ranks *ranks, int dir_fd, const struct shim_launch *launch, void *memory,
                uint32_t crash_at);

/* Gives back the files and the empty cgroup. */
void ranks_end(struct ranks *ranks);

void ranks_reap(struct ranks *ranks);                    /* after SIGCHLD */
void ranks_report_read(struct ranks *ranks, uint32_t i); /* slots[i].report_fd is readable */
/* SHIM_TERM or SHIM_KILL. The signals are sent even when -EIO says that it was not recorded. */
int ranks_order(struct ranks *ranks, uint32_t op);
/* What is due: records to be tried again, kill rounds, the proof of emptiness. */
void ranks_tick(struct ranks *ranks, uint64_t now_ms);
uint64_t ranks_deadline_ms(const struct ranks *ranks); /* UINT64_MAX: only events */

#endif
