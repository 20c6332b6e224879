/* layout_fresh.c: the first placement of a job.
 *
 * Replicas all need the same number of nodes k (but for odd orders), so the number of replicas that
 * fit whole into a leaf group does not depend on the order in which leaves are filled, and the
 * order is free to spread them. Three rounds, each serving the replicas that the one before left:
 *
 *   1. whole racks: round robin over racks, leaf after leaf and feed after feed, one replica a turn
 *   2. whole leaves: the same over leaf groups, taking rack after rack, fullest first
 *   3. what is left, leaf after leaf, fullest first
 *
 * A label of 0 is near to nothing: such a node is a rack or a leaf group of its own. */
#include <errno.h>
#include <string.h>

#include "controller/core/layout.h"
#include "proto/base/check.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

struct placement {
    const struct layout_shape *shape;
    const struct layout_node *nodes;
    struct layout_scratch *scratch;
    uint32_t slot_count;
    uint32_t replica_count;
    uint32_t rack_count;
    uint32_t leaf_count;
    uint32_t *slot_nodes;
};

static int compare_values(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* ---- nodes ------------------------------------------------------------------------------- */

static int compare_candidates(const void *a, const void *b, const void *context)
{
    const struct layout_node *nodes = context;
    const struct layout_node *left = &nodes[*(const uint32_t *)a];
    const struct layout_node *right = &nodes[*(const uint32_t *)b];
    if (left->probation != right->probation) {
        return left->probation ? 1 : -1;
    }
    if (left->probation && left->healthy_ms != right->healthy_ms) {
        return compare_values(right->healthy_ms, left->healthy_ms);
    }
    return compare_values(left->name_order, right->name_order);
}

static int compare_places(const void *a, const void *b, const void *context)
{
    const struct layout_node *nodes = context;
    const struct layout_node *left = &nodes[*(const uint32_t *)a];
    const struct layout_node *right = &nodes[*(const uint32_t *)b];
    if (left->leaf != right->leaf) {
        return compare_values(left->leaf, right->leaf);
    }
    if (left->rack != right->rack) {
        return compare_values(left->rack, right->rack);
    }
    return compare_values(left->name_order, right->name_order);
}

/* scratch->order <- the nodes that may be used, by place; *ret_count of them. Nodes on probation
 * are among them only as far as the others are too few. */
static void choose_candidates(const struct placement *placement, uint32_t node_count,
                              uint32_t *ret_count)
{
    const struct layout_node *nodes = placement->nodes;
    uint32_t *order = placement->scratch->order;
    uint32_t proven = 0;
    for (uint32_t index = 0; index < node_count; index++) {
        order[index] = index;
        proven += nodes[index].probation ? 0 : 1;
    }
    uint32_t count = node_count;
    if (proven < node_count) {
        sort_u32(order, node_count, compare_candidates, nodes);
        count = proven > placement->slot_count ? proven : placement->slot_count;
    }
    sort_u32(order, count, compare_places, nodes);
    *ret_count = count;
}

/* Groups `order` into racks behind one leaf; -EINVAL when a node comes twice. */
static int group_racks(struct placement *placement, uint32_t count, struct err *err)
{
    struct layout_scratch *scratch = placement->scratch;
    for (uint32_t index = 0; index < count; index++) {
        const struct layout_node *node = &placement->nodes[scratch->order[index]];
        const struct layout_node *before =
            index == 0 ? NULL : &placement->nodes[scratch->order[index - 1]];
        bool same = before != NULL && node->rack != 0 && node->rack == before->rack &&
                    node->leaf == before->leaf;
        if (before != NULL && compare_places(&scratch->order[index], &scratch->order[index - 1],
                                             placement->nodes) == 0) {
            return err_set(err, -EINVAL, "node %u is given twice", node->id);
        }
        if (!same) {
            scratch->racks[placement->rack_count++] = (struct layout_group){
                .start = index, .name_order = node->name_order, .feed = node->feed};
        }
        struct layout_group *rack = &scratch->racks[placement->rack_count - 1];
        rack->count++;
        rack->left++;
    }
    return 0;
}

/* Groups racks into leaves: racks of one leaf are in a row already. */
static void group_leaves(struct placement *placement)
{
    struct layout_scratch *scratch = placement->scratch;
    for (uint32_t index = 0; index < placement->rack_count; index++) {
        struct layout_group *rack = &scratch->racks[index];
        uint32_t label = placement->nodes[scratch->order[rack->start]].leaf;
        uint32_t before =
            index == 0 ? 0 : placement->nodes[scratch->order[scratch->racks[index - 1].start]].leaf;
        if (label == 0 || label != before) {
            scratch->leaves[placement->leaf_count++] = (struct layout_group){
                .start = index, .name_order = rack->name_order, .feed = rack->feed};
        }
        struct layout_group *leaf = &scratch->leaves[placement->leaf_count - 1];
        if (rack->name_order < leaf->name_order) {
            leaf->name_order = rack->name_order;
            leaf->feed = rack->feed;
        }
        rack->leaf = placement->leaf_count - 1;
        leaf->count++;
        leaf->left += rack->count;
    }
}

/* ---- the order of groups ----------------------------------------------------------------- */

static int compare_by_feed(const void *a, const void *b, const void *context)
{
    const struct layout_group *groups = context;
    const struct layout_group *left = &groups[*(const uint32_t *)a];
    const struct layout_group *right = &groups[*(const uint32_t *)b];
    if (left->feed != right->feed) {
        return compare_values(left->feed, right->feed);
    }
    return compare_values(left->name_order, right->name_order);
}

static int compare_by_turn(const void *a, const void *b, const void *context)
{
    const struct layout_group *groups = context;
    const struct layout_group *left = &groups[*(const uint32_t *)a];
    const struct layout_group *right = &groups[*(const uint32_t *)b];
    if (left->turn != right->turn) {
        return compare_values(left->turn, right->turn);
    }
    return compare_values(left->name_order, right->name_order);
}

static int compare_by_name(const void *a, const void *b, const void *context)
{
    const struct layout_group *groups = context;
    return compare_values(groups[*(const uint32_t *)a].name_order,
                          groups[*(const uint32_t *)b].name_order);
}

static int compare_by_left(const void *a, const void *b, const void *context)
{
    const struct layout_group *groups = context;
    const struct layout_group *left = &groups[*(const uint32_t *)a];
    const struct layout_group *right = &groups[*(const uint32_t *)b];
    if (left->left != right->left) {
        return left->left > right->left ? -1 : 1;
    }
    return compare_values(left->name_order, right->name_order);
}

static int compare_racks(const void *a, const void *b, const void *context)
{
    const struct layout_scratch *scratch = context;
    const struct layout_group *left = &scratch->racks[*(const uint32_t *)a];
    const struct layout_group *right = &scratch->racks[*(const uint32_t *)b];
    if (left->turn != right->turn) {
        return compare_values(left->turn, right->turn);
    }
    uint32_t left_leaf = scratch->leaves[left->leaf].next;
    uint32_t right_leaf = scratch->leaves[right->leaf].next;
    if (left_leaf != right_leaf) {
        return compare_values(left_leaf, right_leaf);
    }
    return compare_values(left->name_order, right->name_order);
}

static void fill_numbers(uint32_t *numbers, uint32_t first, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        numbers[index] = first + index;
    }
}

/* Leaves in turns: the first of each feed, then the second of each … leaf->next <- position. */
static void order_leaves(const struct placement *placement)
{
    struct layout_scratch *scratch = placement->scratch;
    struct layout_group *leaves = scratch->leaves;
    uint32_t *ranked = scratch->ranked;
    fill_numbers(ranked, 0, placement->leaf_count);
    sort_u32(ranked, placement->leaf_count, compare_by_feed, leaves);
    for (uint32_t index = 0; index < placement->leaf_count; index++) {
        struct layout_group *leaf = &leaves[ranked[index]];
        const struct layout_group *before = index == 0 ? NULL : &leaves[ranked[index - 1]];
        /* an unknown feed is near to nothing: those leaves all come in the first turn */
        bool same = before != NULL && leaf->feed != 0 && before->feed == leaf->feed;
        leaf->turn = same ? before->turn + 1 : 0;
    }
    sort_u32(ranked, placement->leaf_count, compare_by_turn, leaves);
    for (uint32_t index = 0; index < placement->leaf_count; index++) {
        leaves[ranked[index]].next = index;
    }
}

/* Racks in turns: the first rack of each leaf, then the second of each … */
static void order_racks(const struct placement *placement)
{
    struct layout_scratch *scratch = placement->scratch;
    for (uint32_t index = 0; index < placement->leaf_count; index++) {
        const struct layout_group *leaf = &scratch->leaves[index];
        fill_numbers(scratch->work, leaf->start, leaf->count);
        sort_u32(scratch->work, leaf->count, compare_by_name, scratch->racks);
        for (uint32_t turn = 0; turn < leaf->count; turn++) {
            scratch->racks[scratch->work[turn]].turn = turn;
        }
    }
    fill_numbers(scratch->ranked, 0, placement->rack_count);
    sort_u32(scratch->ranked, placement->rack_count, compare_racks, scratch);
}

/* ---- replicas ---------------------------------------------------------------------------- */

static int compare_slots(const void *a, const void *b, const void *context)
{
    const uint32_t *replica = context;
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    if (replica[left] != replica[right]) {
        return compare_values(replica[left], replica[right]);
    }
    return compare_values(left, right);
}

/* slots <- slots by replica; replicas[i] <- where each begins. scratch->holder serves as the list
 * of each slot's replica. */
static void group_slots(struct placement *placement)
{
    struct layout_scratch *scratch = placement->scratch;
    uint32_t *replica = scratch->holder;
    bool sorted = true;
    layout_replicas(placement->shape, placement->slot_count, replica);
    for (uint32_t slot = 0; slot < placement->slot_count; slot++) {
        sorted = sorted && (slot == 0 || replica[slot - 1] <= replica[slot]);
        scratch->slots[slot] = slot;
    }
    if (!sorted) {
        sort_u32(scratch->slots, placement->slot_count, compare_slots, replica);
    }
    for (uint32_t index = 0; index < placement->slot_count; index++) {
        if (index == 0 || replica[scratch->slots[index]] != replica[scratch->slots[index - 1]]) {
            scratch->replicas[placement->replica_count++] = index;
        }
    }
}

static uint32_t replica_end(const struct placement *placement, uint32_t replica)
{
    return replica + 1 < placement->replica_count ? placement->scratch->replicas[replica + 1]
                                                  : placement->slot_count;
}

static uint32_t replica_size(const struct placement *placement, uint32_t replica)
{
    return replica_end(placement, replica) - placement->scratch->replicas[replica];
}

/* ---- the three rounds -------------------------------------------------------------------- */

/* Gives the slots [*position, end) nodes of one rack, as many as it has. */
static void take_from_rack(struct placement *placement, struct layout_group *rack,
                           uint32_t *position, uint32_t end)
{
    struct layout_scratch *scratch = placement->scratch;
    while (*position < end && rack->left > 0) {
        uint32_t node = scratch->order[rack->start + rack->next];
        placement->slot_nodes[scratch->slots[*position]] = placement->nodes[node].id;
        rack->next++;
        rack->left--;
        scratch->leaves[rack->leaf].left--;
        (*position)++;
    }
}

/* Fullest rack first. */
static void take_from_leaf(struct placement *placement, const struct layout_group *leaf,
                           uint32_t *position, uint32_t end)
{
    struct layout_scratch *scratch = placement->scratch;
    fill_numbers(scratch->work, leaf->start, leaf->count);
    sort_u32(scratch->work, leaf->count, compare_by_left, scratch->racks);
    for (uint32_t index = 0; index < leaf->count && *position < end; index++) {
        take_from_rack(placement, &scratch->racks[scratch->work[index]], position, end);
    }
}

/* One replica a turn to each group of `ranked` that holds it whole; a group that is too small falls
 * out. Returns the first replica that found no place. */
static uint32_t fill_whole(struct placement *placement, struct layout_group *groups, uint32_t count,
                           uint32_t replica, bool racks)
{
    struct layout_scratch *scratch = placement->scratch;
    while (count > 0 && replica < placement->replica_count) {
        uint32_t kept = 0;
        for (uint32_t index = 0; index < count; index++) {
            struct layout_group *group = &groups[scratch->ranked[index]];
            if (replica < placement->replica_count &&
                group->left >= replica_size(placement, replica)) {
                uint32_t position = scratch->replicas[replica];
                uint32_t end = replica_end(placement, replica);
                if (racks) {
                    take_from_rack(placement, group, &position, end);
                } else {
                    take_from_leaf(placement, group, &position, end);
                }
                replica++;
                scratch->ranked[kept++] = scratch->ranked[index];
            }
        }
        count = kept;
    }
    return replica;
}

static void fill_rest(struct placement *placement, uint32_t replica)
{
    struct layout_scratch *scratch = placement->scratch;
    fill_numbers(scratch->ranked, 0, placement->leaf_count);
    sort_u32(scratch->ranked, placement->leaf_count, compare_by_left, scratch->leaves);
    uint32_t position =
        replica < placement->replica_count ? scratch->replicas[replica] : placement->slot_count;
    for (uint32_t index = 0; index < placement->leaf_count && position < placement->slot_count;
         index++) {
        take_from_leaf(placement, &scratch->leaves[scratch->ranked[index]], &position,
                       placement->slot_count);
    }
    CHECK(position == placement->slot_count);
}

static int check_sizes(const struct layout_shape *shape, uint32_t node_count, uint32_t slot_count,
                       struct err *err)
{
    uint32_t world = 0;
    uint32_t slots = 0;
    int result = layout_check_shape(shape, &world, &slots, err);
    if (result < 0) {
        return result;
    }
    if (slot_count == 0 || slot_count > slots) {
        return err_set(err, -EINVAL, "%u slots asked for, the layout has %u", slot_count, slots);
    }
    if (node_count > LAYOUT_NODES_MAX) {
        return err_set(err, -E2BIG, "%u nodes given, %d are the most", node_count,
                       LAYOUT_NODES_MAX);
    }
    if (node_count < slot_count) {
        return err_set(err, -ENOSPC, "%u %s needed, %u %s usable: %u missing", slot_count,
                       text_plural(slot_count, "node is", "nodes are"), node_count,
                       text_plural(node_count, "is", "are"), slot_count - node_count);
    }
    return 0;
}

int layout_fresh(const struct layout_shape *shape, const struct layout_node *nodes,
                 uint32_t node_count, uint32_t slot_count, struct layout_scratch *scratch,
                 uint32_t *ret_slot_nodes, struct err *err)
{
    int result = check_sizes(shape, node_count, slot_count, err);
    if (result < 0) {
        return result;
    }
    struct placement placement = {.shape = shape,
                                  .nodes = nodes,
                                  .scratch = scratch,
                                  .slot_count = slot_count,
                                  .slot_nodes = ret_slot_nodes};
    uint32_t count = 0;
    choose_candidates(&placement, node_count, &count);
    result = group_racks(&placement, count, err);
    if (result < 0) {
        return result;
    }
    group_leaves(&placement);
    group_slots(&placement);
    order_leaves(&placement);
    order_racks(&placement);
    uint32_t replica = fill_whole(&placement, scratch->racks, placement.rack_count, 0, true);
    if (replica < placement.replica_count) {
        order_leaves(&placement);
        replica = fill_whole(&placement, scratch->leaves, placement.leaf_count, replica, false);
    }
    fill_rest(&placement, replica);
    return 0;
}
