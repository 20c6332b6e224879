/* ends.h: the shim's own writing of the ends file. One writer, the holder of the lock.
 *
 * The file is made in its full size, so that a full disk is met before anything is started and an
 * end can always be recorded. A record counts once ends_append has returned 0. */
#ifndef KEEPSTEP_SHIM_ENDS_H
#define KEEPSTEP_SHIM_ENDS_H

#include <stdint.h>

#include "agent/shim/shim.h"

struct ends {
    int fd;
    uint32_t job;
    uint32_t attempt;
    uint64_t sequence; /* of the last durable record */
    uint64_t boot_hash;
    uint32_t crash_at; /* tests: end the process at this point, 0 = never; three points an append:
                          before it, with half of it written, after it */
    uint32_t crash_point;
};

/* Makes or takes the file. -EALREADY: it holds records: this attempt was begun before. What a torn
 * first record left is overwritten, since nothing starts before the first one is durable. */
int ends_open(struct ends *ends, int dir_fd, uint32_t job, uint32_t attempt, uint32_t crash_at);
void ends_close(struct ends *ends);

/* Fills in magic, sequence, job, attempt, boot and checksum of `count` records, and their times
 * where they are 0; writes them at once; returns when they are durable. On failure the next append
 * overwrites what half-arrived. -ENOSPC: more than SHIM_RECORDS_MAX. */
int ends_append(struct ends *ends, struct shim_record *records, uint32_t count);

uint64_t ends_mono_ms(void);
uint64_t ends_wall_ms(void);

#endif
