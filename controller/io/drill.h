/* drill.h: dying on purpose around the commit of one record, to prove that nothing depends on when
 * a controller dies. `--crash-at=before:N | after:N | mid:N`; N counts the records of this process
 * from 1. */
#ifndef KEEPSTEP_IO_DRILL_H
#define KEEPSTEP_IO_DRILL_H

#include <stdint.h>

#include "db/store.h"
#include "proto/base/err.h"

enum { DRILL_STATUS = 86 }; /* exit status of a process that died on purpose */

enum drill_at {
    DRILL_NEVER,
    DRILL_BEFORE, /* before the transaction that holds the record */
    DRILL_AFTER,  /* after it, before anything that rests on it has left */
    DRILL_MID,    /* after half of the actions of its batch have left (loop.c) */
};

struct drill {
    enum drill_at at;
    uint64_t record;
    uint64_t sequence; /* of that record; 0 until drill_arm() */
};

MUST_CHECK int drill_parse(const char *text, struct drill *ret_drill, struct err *err);
/* durable_sequence: the journal's end before this process appends anything. */
void drill_arm(struct drill *drill, uint64_t durable_sequence);
/* A store_hook; context is the struct drill, which must live as long as the store. */
void drill_hook(enum store_stage stage, uint64_t first, uint64_t last, void *context);
/* Ends the process at once: no destructors, no flush, as SIGKILL would. */
__attribute__((noreturn)) void drill_die(void);

#endif
