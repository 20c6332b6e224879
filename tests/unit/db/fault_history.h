/* fault_history.h: one fixed piece of history, written through the breaking file layer, and what
 * must be true of any file in which its writing ended early. */
#ifndef KEEPSTEP_TESTS_UNIT_DB_FAULT_HISTORY_H
#define KEEPSTEP_TESTS_UNIT_DB_FAULT_HISTORY_H

#include "tests/unit/db/db_help.h"

enum {
    HISTORY_BATCHES = 6,
    HISTORY_POINTS_MAX = 5000, /* a loop over all operations must come to its end before this */
    HISTORY_REBUILD_EVERY = 16,
};

/* The loops visit every operation; with a sanitizer, which is many times slower, some of them. */
#if defined(__has_feature)
#define HISTORY_HAS(feature) __has_feature(feature)
#else
#define HISTORY_HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || HISTORY_HAS(thread_sanitizer)
enum { HISTORY_STEP = 15 };
#elif defined(__SANITIZE_ADDRESS__) || HISTORY_HAS(address_sanitizer)
enum { HISTORY_STEP = 5 };
#else
enum { HISTORY_STEP = 1 };
#endif

uint32_t history_batch_size(uint32_t batch);
/* The digest after `count` records, and whether that is the end of a batch. */
uint64_t history_digest(uint64_t count, bool *ret_whole);
/* Writes the history; tells `report` (when it is a descriptor) how many records are durable. */
int history_write(const struct folder *folder, int report, struct err *err);
/* Whatever happened: the file opens, and holds a whole number of batches and `least` records or
 * more, with the right content; a rebuild gives the same tables. Returns the number of records. */
uint64_t history_check(const struct folder *folder, uint64_t least, bool rebuild);

#endif
