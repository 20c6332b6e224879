/* db_help.h: what the tests of the store share: folders, histories, looking into a file. */
#ifndef KEEPSTEP_TESTS_UNIT_DB_HELP_H
#define KEEPSTEP_TESTS_UNIT_DB_HELP_H

#include "tests/lib/test.h"

#include "db/store_internal.h"
#include "tests/lib/record_random.h"

enum { HELP_PATH_SIZE = 256, HELP_WAIT_MS = 20000 };
#define HELP_WALL_MS UINT64_C(1772323200000) /* 2026-03-01 00:00 UTC */

struct folder {
    char path[HELP_PATH_SIZE];
    char database[HELP_PATH_SIZE]; /* path + "/keepstep.db" */
};

void folder_make(struct folder *folder);
/* In memory where the system has a place for that: for small stores that are made by the hundred. */
void folder_make_fast(struct folder *folder);
void folder_remove(const struct folder *folder); /* with everything in it */

/* Opens, or fails the test with the reason. */
struct store *open_store(const struct folder *folder, enum store_mode mode,
                         const struct store_options *options);
void close_store(struct store *store);

/* The next `count` records of a history, copied (texts too); free with records_free. */
struct record *records_take(struct record_random *world, uint32_t count);
void records_free(struct record *records, uint32_t count);
/* Appends `count` records in batches of 1..batch_max and waits until they are durable. */
void append_history(struct store *store, struct record_random *world, uint32_t count,
                    uint32_t batch_max);
struct record_random *world_new(uint64_t seed);

/* One number from the file, read by a connection of its own; fails the test when there is none. */
int64_t number_of(const struct folder *folder, const char *sql);
/* Changes the file behind the store's back (it must be closed). */
void change_file(const struct folder *folder, const char *sql);
/* All rows of all tables but the bookkeeping ones, as one text, tables and rows in order. Owned by
 * the caller (mem_free). */
char *dump_of(const struct folder *folder, const char *only_table);
/* Contents of a file, and its size. */
char *contents_of(const char *path, size_t *ret_size);

/* Replays into a digest and a count. */
struct replay_sum {
    uint64_t digest;
    uint64_t count;
    uint64_t last;
    struct store_replayed replayed;
    uint64_t bad_sequence;
    uint32_t bad_job;
    char bad_reason[ERR_TEXT_SIZE];
};
void replay_into(struct store *store, uint64_t from, struct replay_sum *ret_sum);
uint64_t record_sum(uint64_t digest, const struct record *record); /* everything in it */

#endif
