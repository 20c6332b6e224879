/* hang.h: who made a job stand still. Pure: what its ranks told in, the roots out.
 *
 * In a synchronous job everybody soon waits for everybody, at one step. What tells the guilty from
 * the waiting is, of each communicator, how far each rank has come: a rank waits for the members
 * that have not reached the operation that it is in. The roots are those that are waited for and
 * wait for nobody themselves:
 *
 *   silent   nothing is heard of it
 *   before   it has nothing under way: it stands still outside of every operation
 *   inside   it has not completed what all other members have
 *
 * Where there is none of these, the operations themselves are looked at:
 *
 *   pair     a send or receive whose other end is past it, or waits for this end in turn
 *   group    a collective that every member has reached and none completes
 *
 * and, with no word about communicators at all, who is behind in steps (or, at one step, in a phase
 * other than `step`):
 *
 *   behind   the ranks of one slot, when all others are further
 *
 * Which ranks a communicator joins follows from its axis and the layout; one of AXIS_OTHER joins
 * those that give it the same name, so that a silent member of it stays unknown. Counts of one
 * communicator are compared between its members, so they mean little in one that carries sends and
 * receives and collectives by turns: for sends and receives the two ends are matched instead.
 *
 * Time and memory grow with ranks x communicators and never with its square. */
#ifndef KEEPSTEP_CORE_HANG_H
#define KEEPSTEP_CORE_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/core/layout.h"
#include "proto/base/message.h"

enum {
    HANG_ROOTS_MAX = 8,      /* slots that are named */
    HANG_SILENT_MAX = 8,     /* silent ranks that are named beside them */
    HANG_SILENT_PERCENT = 2, /* more silence than this, not all of one slot, is the network's */
    /* Communicators of a job, each counted once for all its members: this many, or one for each
     * rank, whichever is more. What is over that is left out, and said. */
    HANG_GROUPS_LEAST = 64,
};
#define HANG_NO_RANK UINT32_MAX

enum hang_kind {
    HANG_SILENT,
    HANG_BEFORE,
    HANG_INSIDE,
    HANG_PAIR,
    HANG_GROUP,
    HANG_BEHIND,
};

/* One rank, as it was told. */
struct hang_rank {
    bool silent; /* nothing is heard of it, or it tells of no communicator */
    bool moved;  /* it told something new just now, or is over: neither root nor silent */
    uint8_t phase;
    uint64_t step; /* last complete one */
    uint32_t communicator_count;
    const struct communicator_report *communicators; /* borrowed */
};

/* A slot with a root, and its most suspect rank: the one of the lowest step, then sequence. */
struct hang_root {
    uint32_t rank;
    uint32_t slot;
    uint32_t count; /* roots of the slot, this one among them */
    uint8_t kind;   /* enum hang_kind */
    uint8_t phase;
    uint64_t step;
    /* The operation that it has not reached, or not completed. name "": not known. */
    char name[COMMUNICATOR_NAME_SIZE]; /* of the communicator */
    uint16_t operation;                /* enum collective_operation */
    uint64_t sequence;                 /* number in that communicator, from 1 */
    uint32_t members;                  /* of a GROUP */
    uint32_t peer; /* PAIR: the other end; BEFORE, SILENT: who waits for a send or receive of it;
                    * else HANG_NO_RANK */
};

struct hang_found {
    uint8_t confidence;   /* enum confidence_word, see hang_find */
    uint32_t root_count;  /* ranks */
    uint32_t slot_count;  /* slots of theirs */
    uint32_t named_count; /* … of which are here, most suspect first */
    struct hang_root roots[HANG_ROOTS_MAX];
    uint32_t told;         /* ranks that tell of communicators */
    uint32_t waiting;      /* ranks in an operation, without the roots */
    uint32_t moving;       /* ranks that told something new just now */
    uint32_t silent_count; /* all of them, roots too */
    uint32_t silent[HANG_SILENT_MAX];
    bool cut_short; /* more communicators than there is room for */
};

/* Memory for jobs of up to rank_max ranks, made once and kept. The caller fills ranks[0 .. world)
 * before each hang_find; all else belongs to it. */
struct hang_scratch {
    uint32_t rank_max;
    struct hang_rank *ranks;
    struct hang_note *notes;
    struct hang_group *groups;
    uint32_t *group_of;
};
struct hang_scratch *hang_scratch_create(uint32_t rank_max);
struct hang_scratch *hang_scratch_free(struct hang_scratch *scratch);

/* Total: any counts give an answer. shape is a valid one, of at most rank_max ranks. Roots of the
 * lowest step come first, then of the lowest sequence, then of the lowest rank. confidence:
 *
 *   high     roots of one slot, silent, before or inside; every other rank was heard, has not moved
 *            and is in an operation
 *   medium   the same but for one of that: of several slots, or not all others are seen to wait;
 *            the two ends of one pair; a group of one slot
 *   low      no more than a hint: behind, a wide group, several pairs, much silence, nobody */
void hang_find(const struct layout_shape *shape, struct hang_scratch *scratch,
               struct hang_found *ret_found);

#endif
