/* layout.h: which node holds which slot. Pure and total: any input gives a layout or a refusal with
 * reasons; the same input gives the same answer.
 *
 * Slots are 0..slot_count-1 of one job; slot s holds global ranks s*ranks_per_node onwards. With
 * the default order tp-cp-pp-dp the slots of one replica (one dp index) are consecutive. */
#ifndef KEEPSTEP_CORE_LAYOUT_H
#define KEEPSTEP_CORE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

/* One node that may be considered. Labels are interned by the caller: equal label = equal number;
 * 0 = the label is not known and is near to nothing. */
struct layout_node {
    uint32_t id;         /* the core's node id, > 0 */
    uint32_t name_order; /* position of its name in the order of names: the last tie-break */
    uint32_t rack;
    uint32_t leaf;
    uint32_t pod;
    uint32_t feed;
    bool probation;      /* last choice */
    bool reserved;       /* a spare reserved for this job: before the shared rest */
    uint64_t healthy_ms; /* for how long it has been proven healthy; longer is better */
};

/* How the ranks of a job are numbered; `order` innermost first, as in the job file. */
struct layout_shape {
    uint32_t tensor, context, pipeline, data;
    uint32_t ranks_per_node;
    char order[16]; /* permutation of tp-cp-pp-dp */
};

struct layout_coordinates {
    uint32_t tensor, context, pipeline, data;
};

/* world = tensor x context x pipeline x data, or -EINVAL / -E2BIG with the reason: dimensions that
 * are 0, a product over 2^20 ranks, a TP group that would leave a node, ranks_per_node that does
 * not divide the world, an order that is not a permutation. */
MUST_CHECK int layout_check_shape(const struct layout_shape *shape, uint32_t *ret_world,
                                  uint32_t *ret_slots, struct err *err);
struct layout_coordinates layout_of_rank(const struct layout_shape *shape, uint32_t rank);
/* ret_replicas[slot] <- the data coordinate of its first rank. */
void layout_replicas(const struct layout_shape *shape, uint32_t slot_count, uint32_t *ret_replicas);
uint32_t layout_rank_of(const struct layout_shape *shape, struct layout_coordinates at);

enum { LAYOUT_SLOTS_MAX = 16384, LAYOUT_NODES_MAX = 20480 };

/* Memory that the planner needs, made once by its caller; sizes are for the maxima above. Nothing
 * in it outlives a call. */
struct layout_scratch {
    uint32_t order[LAYOUT_NODES_MAX];  /* node indices, the nodes of one group in a row */
    uint32_t ranked[LAYOUT_NODES_MAX]; /* groups in the order in which they are filled */
    uint32_t work[LAYOUT_NODES_MAX];
    uint8_t used[LAYOUT_NODES_MAX]; /* per slot: is lost; per node: is chosen */
    struct layout_group {           /* the nodes of one rack behind one leaf, or of one leaf */
        uint32_t start;             /* in `order`; of a leaf: in `racks` */
        uint32_t count;
        uint32_t next;       /* nodes of the rack that are taken */
        uint32_t name_order; /* of its first node: the group's own place among groups */
        uint32_t turn;       /* position among the racks of its leaf, or leaves of its feed */
        uint32_t feed;
        uint32_t leaf; /* of a rack: index into `leaves` */
        uint32_t left; /* nodes not taken yet */
    } racks[LAYOUT_NODES_MAX], leaves[LAYOUT_NODES_MAX];
    uint32_t slots[LAYOUT_SLOTS_MAX];    /* slots, those of one replica in a row */
    uint32_t replicas[LAYOUT_SLOTS_MAX]; /* where each replica begins in `slots` */
    uint32_t holder[LAYOUT_SLOTS_MAX];   /* swaps: the spare that a lost slot got, plus 1 */
};

/* Fresh placement: slot_nodes[0..slot_count) <- node ids. A replica inside as few leaf groups and
 * racks as can be; the same stage of different replicas spread over racks and feeds; nodes on
 * probation only when the others are too few. The order of `nodes` and the values of the labels do
 * not matter. -ENOSPC says how many nodes are missing, -E2BIG which maximum was passed, -EINVAL
 * that the shape is wrong or a node comes twice; nothing is written then. */
MUST_CHECK int layout_fresh(const struct layout_shape *shape, const struct layout_node *nodes,
                            uint32_t node_count, uint32_t slot_count,
                            struct layout_scratch *scratch, uint32_t *ret_slot_nodes,
                            struct err *err);

/* The nearness that decided a swap, for the record. */
enum layout_near { NEAR_LEAF, NEAR_RACK, NEAR_POD, NEAR_ANY };
extern const char *const layout_near_words[];

struct layout_swap {
    uint32_t slot;
    uint32_t node; /* the spare chosen */
    uint8_t near;  /* enum layout_near */
};

/* The swap rule: only the slots in lost_slots (distinct, any order) change. holders[slot] is the
 * present holder of each slot, an entry for lost ones too. Which spare: nodes on probation last,
 * reserved ones first; of these the nearest to the slot's pipeline neighbours (leaf, rack, pod,
 * any), then the longest proven health, then the name. A neighbour that is lost too stands for
 * nothing until it is replaced; then the next one along the pipeline counts, and where none is left
 * the place of the lost node itself. Near spares are given out before far ones, so that no slot
 * takes the near spare of another while it has none itself. Writes one entry per lost slot, in the
 * order of slots. -ENOSPC says how many spares are missing, -EINVAL and -E2BIG as above;
 * *ret_swaps is not written then. */
MUST_CHECK int layout_swaps(const struct layout_shape *shape, const struct layout_node *holders,
                            uint32_t slot_count, const uint32_t *lost_slots, uint32_t lost_count,
                            const struct layout_node *spares, uint32_t spare_count,
                            struct layout_scratch *scratch, struct layout_swap *ret_swaps,
                            struct err *err);

#endif
