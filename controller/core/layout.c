/* layout.c: the numbering of ranks, and the swap rule. Fresh placement is in layout_fresh.c.
 *
 * A rank's number is a mixed-radix number whose digits are its coordinates, innermost first as
 * `order` says. Everything else here asks that number for neighbours. */
#include "controller/core/layout.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

const char *const layout_near_words[] = {"leaf", "rack", "pod", "any"};

enum { DIMENSIONS = 4, WORLD_MAX = 1 << 20 };
enum dimension { TENSOR, CONTEXT, PIPELINE, DATA };
static const char *const dimension_words[] = {"tp", "cp", "pp", "dp"};
static_assert(ARRAY_SIZE(dimension_words) == DIMENSIONS, "a word for each dimension");

/* The digits of a rank, innermost first: which dimension each is, its size and its weight. */
struct digits {
    uint8_t dimension[DIMENSIONS];
    uint32_t size[DIMENSIONS];
    uint32_t stride[DIMENSIONS];
};

static uint32_t size_of(const struct layout_shape *shape, uint8_t dimension)
{
    const uint32_t sizes[] = {shape->tensor, shape->context, shape->pipeline, shape->data};
    return sizes[dimension];
}

/* The dimension whose word begins at text, or DIMENSIONS. */
static uint8_t dimension_at(const char *text)
{
    for (uint8_t index = 0; index < DIMENSIONS; index++) {
        if (strncmp(text, dimension_words[index], 2) == 0) {
            return index;
        }
    }
    return DIMENSIONS;
}

/* false: `order` is not a permutation of the four words. */
static bool digits_read(const struct layout_shape *shape, struct digits *ret_digits)
{
    bool seen[DIMENSIONS] = {false};
    uint32_t stride = 1;
    if (strnlen(shape->order, sizeof(shape->order)) != 3 * DIMENSIONS - 1) {
        return false;
    }
    for (uint32_t index = 0; index < DIMENSIONS; index++) {
        const char *word = shape->order + (size_t)3 * index;
        uint8_t dimension = dimension_at(word);
        char end = index + 1 < DIMENSIONS ? '-' : '\0';
        if (dimension == DIMENSIONS || seen[dimension] || word[2] != end) {
            return false;
        }
        seen[dimension] = true;
        ret_digits->dimension[index] = dimension;
        ret_digits->size[index] = size_of(shape, dimension);
        ret_digits->stride[index] = stride;
        stride *= ret_digits->size[index];
    }
    return true;
}

static int check_sizes(const struct layout_shape *shape, uint32_t *ret_world, struct err *err)
{
    uint64_t world = 1;
    for (uint8_t index = 0; index < DIMENSIONS; index++) {
        uint32_t size = size_of(shape, index);
        if (size == 0) {
            return err_set(err, -EINVAL, "%s is 0: each dimension is at least 1",
                           dimension_words[index]);
        }
        world *= size;
        if (world > WORLD_MAX) {
            return err_set(err, -E2BIG, "tp x cp x pp x dp is over %d ranks", WORLD_MAX);
        }
    }
    *ret_world = (uint32_t)world;
    return 0;
}

/* A TP group is on one node when its whole block of the numbering is. */
static int check_tensor_groups(const struct layout_shape *shape, const struct digits *digits,
                               struct err *err)
{
    if (shape->tensor == 1) {
        return 0;
    }
    for (uint32_t index = 0; index < DIMENSIONS; index++) {
        uint32_t block = digits->stride[index] * digits->size[index];
        if (digits->dimension[index] == TENSOR && shape->ranks_per_node % block != 0) {
            return err_set(err, -EINVAL,
                           "a tensor group would leave its node: with order %s ranks_per_node "
                           "must be a multiple of %u, it is %u",
                           shape->order, block, shape->ranks_per_node);
        }
    }
    return 0;
}

int layout_check_shape(const struct layout_shape *shape, uint32_t *ret_world, uint32_t *ret_slots,
                       struct err *err)
{
    uint32_t world = 0;
    int result = check_sizes(shape, &world, err);
    if (result < 0) {
        return result;
    }
    struct digits digits;
    if (!digits_read(shape, &digits)) {
        return err_set(err, -EINVAL, "order '%.15s' is not a permutation of tp-cp-pp-dp",
                       shape->order);
    }
    if (shape->ranks_per_node == 0) {
        return err_set(err, -EINVAL, "ranks_per_node is 0: it is at least 1");
    }
    result = check_tensor_groups(shape, &digits, err);
    if (result < 0) {
        return result;
    }
    if (world % shape->ranks_per_node != 0) {
        return err_set(err, -EINVAL,
                       "%u %s not fill whole nodes of %u: change data or ranks_per_node", world,
                       text_plural(world, "rank does", "ranks do"), shape->ranks_per_node);
    }
    if (world / shape->ranks_per_node > LAYOUT_SLOTS_MAX) {
        return err_set(err, -E2BIG, "%u nodes are needed, %d are the most for one job",
                       world / shape->ranks_per_node, LAYOUT_SLOTS_MAX);
    }
    *ret_world = world;
    *ret_slots = world / shape->ranks_per_node;
    return 0;
}

struct layout_coordinates layout_of_rank(const struct layout_shape *shape, uint32_t rank)
{
    struct digits digits;
    bool good = digits_read(shape, &digits);
    CHECK(good);
    uint32_t values[DIMENSIONS] = {0};
    for (uint32_t index = 0; index < DIMENSIONS; index++) {
        values[digits.dimension[index]] = rank / digits.stride[index] % digits.size[index];
    }
    return (struct layout_coordinates){.tensor = values[TENSOR],
                                       .context = values[CONTEXT],
                                       .pipeline = values[PIPELINE],
                                       .data = values[DATA]};
}

void layout_replicas(const struct layout_shape *shape, uint32_t slot_count, uint32_t *ret_replicas)
{
    struct digits digits;
    bool good = digits_read(shape, &digits);
    CHECK(good);
    uint32_t data = 0;
    while (digits.dimension[data] != DATA) {
        data++;
    }
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        uint32_t rank = slot * shape->ranks_per_node;
        ret_replicas[slot] = rank / digits.stride[data] % digits.size[data];
    }
}

uint32_t layout_rank_of(const struct layout_shape *shape, struct layout_coordinates at)
{
    struct digits digits;
    bool good = digits_read(shape, &digits);
    CHECK(good);
    const uint32_t values[] = {at.tensor, at.context, at.pipeline, at.data};
    uint32_t rank = 0;
    for (uint32_t index = 0; index < DIMENSIONS; index++) {
        CHECK(values[digits.dimension[index]] < digits.size[index]);
        rank += values[digits.dimension[index]] * digits.stride[index];
    }
    return rank;
}

/* ---- the swap rule ----------------------------------------------------------------------- */

struct swap_plan {
    const struct layout_shape *shape;
    const struct layout_node *holders;
    uint32_t slot_count;
    const struct layout_node *spares;
    struct layout_scratch *scratch;
};

static int compare_numbers(const void *a, const void *b, const void *context)
{
    (void)context;
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* Spares that must be taken first have the lower class. */
static uint32_t class_of(const struct layout_node *spare)
{
    return (spare->probation ? 2u : 0u) + (spare->reserved ? 0u : 1u);
}
enum { CLASSES = 4 };

static int compare_spares(const void *a, const void *b, const void *context)
{
    const struct layout_node *spares = context;
    const struct layout_node *left = &spares[*(const uint32_t *)a];
    const struct layout_node *right = &spares[*(const uint32_t *)b];
    if (class_of(left) != class_of(right)) {
        return class_of(left) < class_of(right) ? -1 : 1;
    }
    if (left->healthy_ms != right->healthy_ms) {
        return left->healthy_ms > right->healthy_ms ? -1 : 1;
    }
    if (left->name_order != right->name_order) {
        return left->name_order < right->name_order ? -1 : 1;
    }
    return left->id < right->id ? -1 : left->id > right->id;
}

static enum layout_near near_of(const struct layout_node *a, const struct layout_node *b)
{
    if (a->leaf != 0 && a->leaf == b->leaf) {
        return NEAR_LEAF;
    }
    if (a->rack != 0 && a->rack == b->rack) {
        return NEAR_RACK;
    }
    if (a->pod != 0 && a->pod == b->pod) {
        return NEAR_POD;
    }
    return NEAR_ANY;
}

/* Who stands at a slot now: its holder, or the spare it got; NULL while it is lost. */
static const struct layout_node *present_at(const struct swap_plan *plan, uint32_t slot)
{
    const struct layout_scratch *scratch = plan->scratch;
    if (scratch->used[slot] == 0) {
        return &plan->holders[slot];
    }
    return scratch->holder[slot] == 0 ? NULL : &plan->spares[scratch->holder[slot] - 1];
}

/* The nearest slot along the pipeline, step -1 or +1, at which somebody stands. Without a pipeline
 * the slots beside it stand in. NULL: there is nobody in that direction. */
static const struct layout_node *neighbour(const struct swap_plan *plan, uint32_t slot, int step)
{
    const struct layout_shape *shape = plan->shape;
    uint32_t edge = slot * shape->ranks_per_node + (step < 0 ? 0 : shape->ranks_per_node - 1);
    struct layout_coordinates at = layout_of_rank(shape, edge);
    uint32_t steps = step < 0 ? at.pipeline : shape->pipeline - 1 - at.pipeline;
    if (shape->pipeline == 1) {
        steps = step < 0 ? slot : plan->slot_count - 1 - slot;
    }
    uint32_t other = slot;
    for (uint32_t count = 0; count < steps; count++) {
        if (shape->pipeline == 1) {
            other += (uint32_t)step;
        } else {
            at.pipeline += (uint32_t)step;
            other = layout_rank_of(shape, at) / shape->ranks_per_node;
        }
        if (other != slot && other < plan->slot_count && present_at(plan, other) != NULL) {
            return present_at(plan, other);
        }
    }
    return NULL;
}

static enum layout_near nearest_of(const struct layout_node *spare,
                                   const struct layout_node *const anchors[2])
{
    enum layout_near nearest = NEAR_ANY;
    for (uint32_t index = 0; index < 2; index++) {
        if (anchors[index] != NULL && near_of(spare, anchors[index]) < nearest) {
            nearest = near_of(spare, anchors[index]);
        }
    }
    return nearest;
}

/* Position in the sorted list of the nearest spare that is at most so far, or count. A spare may be
 * nearer than every level tried before: its neighbour has just been replaced. */
static uint32_t find_spare(const struct swap_plan *plan, const uint32_t *list, uint32_t count,
                           uint32_t slot, uint8_t *near)
{
    const struct layout_node *anchors[] = {neighbour(plan, slot, -1), neighbour(plan, slot, 1)};
    if (anchors[0] == NULL && anchors[1] == NULL) {
        anchors[0] = &plan->holders[slot];
    }
    uint32_t found = count;
    for (uint32_t position = 0; position < count; position++) {
        uint8_t nearest = (uint8_t)nearest_of(&plan->spares[list[position]], anchors);
        if (nearest < *near || (nearest == *near && found == count)) {
            *near = nearest;
            found = position;
        }
    }
    return found;
}

/* Gives spares of one class (list, *count of them) that are at most so far to the slots that have
 * none; what is given leaves the list. Returns how many slots got one. */
static uint32_t give_out(const struct swap_plan *plan, uint32_t *list, uint32_t *count,
                         uint32_t lost_count, uint8_t near_max, struct layout_swap *swaps)
{
    uint32_t given = 0;
    for (uint32_t index = 0; *count > 0 && index < lost_count; index++) {
        uint32_t slot = swaps[index].slot;
        if (plan->scratch->holder[slot] != 0) {
            continue;
        }
        uint8_t near = near_max;
        uint32_t position = find_spare(plan, list, *count, slot, &near);
        if (position == *count) {
            continue;
        }
        uint32_t spare = list[position];
        plan->scratch->holder[slot] = spare + 1;
        swaps[index].node = plan->spares[spare].id;
        swaps[index].near = near;
        given++;
        *count -= 1;
        memmove(&list[position], &list[position + 1], (*count - position) * sizeof(list[0]));
    }
    return given;
}

/* Sorted lost slots go to scratch->order; scratch->used says of each slot whether it is lost. */
static int read_lost(const uint32_t *lost_slots, uint32_t lost_count, uint32_t slot_count,
                     struct layout_scratch *scratch, struct err *err)
{
    memset(scratch->used, 0, slot_count);
    memset(scratch->holder, 0, slot_count * sizeof(scratch->holder[0]));
    for (uint32_t index = 0; index < lost_count; index++) {
        uint32_t slot = lost_slots[index];
        if (slot >= slot_count || scratch->used[slot] != 0) {
            return err_set(err, -EINVAL, "slot %u is %s", slot,
                           slot >= slot_count ? "past the last one" : "given as lost twice");
        }
        scratch->used[slot] = 1;
        scratch->order[index] = slot;
    }
    sort_u32(scratch->order, lost_count, compare_numbers, NULL);
    return 0;
}

static int check_swap(const struct layout_shape *shape, uint32_t slot_count, uint32_t lost_count,
                      uint32_t spare_count, struct err *err)
{
    uint32_t world = 0;
    uint32_t slots = 0;
    int result = layout_check_shape(shape, &world, &slots, err);
    if (result < 0) {
        return result;
    }
    if (slot_count == 0 || slot_count > slots) {
        return err_set(err, -EINVAL, "%u slots given, the layout has %u", slot_count, slots);
    }
    if (spare_count > LAYOUT_NODES_MAX) {
        return err_set(err, -E2BIG, "%u spares given, %d are the most", spare_count,
                       LAYOUT_NODES_MAX);
    }
    if (lost_count > spare_count) {
        return err_set(err, -ENOSPC, "%u %s a node, %u %s ready: %u missing", lost_count,
                       text_plural(lost_count, "slot needs", "slots need"), spare_count,
                       text_plural(spare_count, "spare is", "spares are"),
                       lost_count - spare_count);
    }
    return 0;
}

int layout_swaps(const struct layout_shape *shape, const struct layout_node *holders,
                 uint32_t slot_count, const uint32_t *lost_slots, uint32_t lost_count,
                 const struct layout_node *spares, uint32_t spare_count,
                 struct layout_scratch *scratch, struct layout_swap *ret_swaps, struct err *err)
{
    int result = check_swap(shape, slot_count, lost_count, spare_count, err);
    if (result < 0) {
        return result;
    }
    result = read_lost(lost_slots, lost_count, slot_count, scratch, err);
    if (result < 0) {
        return result;
    }
    const struct swap_plan plan = {.shape = shape,
                                   .holders = holders,
                                   .slot_count = slot_count,
                                   .spares = spares,
                                   .scratch = scratch};
    for (uint32_t index = 0; index < lost_count; index++) {
        ret_swaps[index].slot = scratch->order[index];
    }
    for (uint32_t index = 0; index < spare_count; index++) {
        scratch->work[index] = index;
    }
    sort_u32(scratch->work, spare_count, compare_spares, spares);
    uint32_t given = 0;
    uint32_t start = 0;
    for (uint32_t kind = 0; kind < CLASSES && given < lost_count; kind++) {
        uint32_t end = start;
        while (end < spare_count && class_of(&spares[scratch->work[end]]) == kind) {
            end++;
        }
        uint32_t count = end - start;
        for (uint8_t near = NEAR_LEAF; near <= NEAR_ANY && given < lost_count; near++) {
            given += give_out(&plan, &scratch->work[start], &count, lost_count, near, ret_swaps);
        }
        start = end;
    }
    CHECK(given == lost_count);
    return 0;
}
