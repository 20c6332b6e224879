/* core_history.h: what a real core decided while a job started, saved, lost a node and a rank and
 * was cancelled: its records commit by commit, and the digest of the state after each. Written into
 * a store under whatever breaks, it says afterwards how far the store came, and whether what is
 * there is what was decided. */
#ifndef KEEPSTEP_TESTS_FAULT_CORE_HISTORY_H
#define KEEPSTEP_TESTS_FAULT_CORE_HISTORY_H

#include "tests/lib/core_rig.h"
#include "tests/unit/db/db_help.h"

/* Points to visit: each with KEEPSTEP_TEST_ALL=1, else about so many; fewer with a sanitizer. */
enum { VISITS = 80, VISITS_SANITIZED = 16 };

struct history {
    struct rig *rig; /* its records and the ends of its commits */
    uint32_t commits;
    uint64_t *digests; /* of the state after so many commits: commits + 1 of them */
    uint32_t snapshot_at;
    struct core *snapshot; /* the state after snapshot_at commits */
};

struct history *history_create(void);
/* At first: after three quarters of the commits. */
void history_snapshot_at(struct history *history, uint32_t commits);
struct history *history_free(struct history *history); /* takes NULL, returns NULL */

/* Appends commit number `commit` (from 0). */
int history_append(const struct history *history, struct store *store, uint32_t commit,
                   uint64_t *ret_ticket, struct err *err);
/* Appends a snapshot of the state after snapshot_at commits. */
int history_append_snapshot(const struct history *history, struct store *store,
                            uint64_t *ret_ticket, struct err *err);
/* Folds the journal of an open store, from the beginning (1) or from its snapshot (0), checks every
 * invariant, and gives the digest and the number of facts. */
int history_fold(const struct history *history, struct store *store, uint64_t from,
                 uint64_t *ret_digest, uint64_t *ret_facts, struct err *err);

/* Opens the database in the folder with the plain file layer: it is whole, and its journal folds to
 * what was decided by the first N commits, N being `least` or more; from its snapshot and from its
 * beginning alike. NULL when all of that is so, else what is wrong, in `reason`. *ret_commits: N */
const char *history_judge(const struct history *history, const struct folder *folder,
                          uint32_t least, uint32_t *ret_commits, struct err *reason);
/* And a new controller goes on with it: the rest of the history is appended. Tables as a rebuild
 * makes them. Fails the test otherwise. */
void history_go_on(const struct history *history, const struct folder *folder, uint32_t commits);

/* How far apart the visited ones of `points` are: 1 with KEEPSTEP_TEST_ALL=1. */
uint64_t history_stride(uint64_t points);

#endif
