/* layout_test.c: the numbering of ranks, fresh placement, and the swap rule. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/core/layout.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "tests/lib/test.h"

enum { SEEDS = 1000, FLEET_MAX = LAYOUT_NODES_MAX };

struct fixture {
    struct layout_scratch scratch;
    struct layout_node nodes[FLEET_MAX];
    struct layout_node holders[LAYOUT_SLOTS_MAX];
    struct layout_node spares[FLEET_MAX];
    uint32_t slot_nodes[LAYOUT_SLOTS_MAX];
    uint32_t other_nodes[LAYOUT_SLOTS_MAX];
    uint32_t lost[LAYOUT_SLOTS_MAX];
    struct layout_swap swaps[LAYOUT_SLOTS_MAX];
    struct layout_swap other_swaps[LAYOUT_SLOTS_MAX];
    bool seen[FLEET_MAX + 1];
};

static int make_fixture(void **state)
{
    *state = mem_alloc(1, sizeof(struct fixture));
    return 0;
}

static int drop_fixture(void **state)
{
    *state = mem_free(*state);
    return 0;
}

static struct layout_shape shape_of(uint32_t tensor, uint32_t pipeline, uint32_t data,
                                    uint32_t ranks_per_node)
{
    return (struct layout_shape){.tensor = tensor,
                                 .context = 1,
                                 .pipeline = pipeline,
                                 .data = data,
                                 .ranks_per_node = ranks_per_node,
                                 .order = "tp-cp-pp-dp"};
}

/* Node i of a regular fleet: racks of rack_size, leaves of two racks, pods of eight, two feeds. */
static struct layout_node node_of(uint32_t index, uint32_t rack_size)
{
    uint32_t rack = index / rack_size;
    return (struct layout_node){.id = index + 1,
                                .name_order = index,
                                .rack = rack + 1,
                                .leaf = 1000 + rack / 2,
                                .pod = 2000 + rack / 8,
                                .feed = 3000 + rack % 2,
                                .healthy_ms = 1000};
}

/* ---- shapes ------------------------------------------------------------------------------ */

static void shape_of_llama(void **state)
{
    (void)state;
    struct layout_shape shape = shape_of(8, 16, 128, 8);
    uint32_t world = 0;
    uint32_t slots = 0;
    assert_int_equal(layout_check_shape(&shape, &world, &slots, NULL), 0);
    assert_int_equal(world, 16384);
    assert_int_equal(slots, 2048);
    struct layout_coordinates at = layout_of_rank(&shape, 128 * 5 + 8 * 3 + 7);
    assert_int_equal(at.data, 5);
    assert_int_equal(at.pipeline, 3);
    assert_int_equal(at.context, 0);
    assert_int_equal(at.tensor, 7);
}

static void refusals_of_shapes(void **state)
{
    (void)state;
    struct {
        struct layout_shape shape;
        int code;
        const char *text;
    } cases[] = {
        {shape_of(0, 1, 1, 1), -EINVAL, "tp is 0: each dimension is at least 1"},
        {shape_of(1, 1, 0, 1), -EINVAL, "dp is 0: each dimension is at least 1"},
        {shape_of(1 << 16, 1 << 16, 1 << 16, 8), -E2BIG, "tp x cp x pp x dp is over 1048576 ranks"},
        {shape_of(8, 1, 1, 0), -EINVAL, "ranks_per_node is 0: it is at least 1"},
        {shape_of(8, 1, 4, 4), -EINVAL,
         "a tensor group would leave its node: with order tp-cp-pp-dp ranks_per_node must be a "
         "multiple of 8, it is 4"},
        {shape_of(2, 1, 3, 4), -EINVAL,
         "6 ranks do not fill whole nodes of 4: change data or ranks_per_node"},
        {shape_of(1, 1, 32768, 1), -E2BIG,
         "32768 nodes are needed, 16384 are the most for one job"},
    };
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        uint32_t world = 7;
        uint32_t slots = 7;
        struct err err = {0};
        assert_int_equal(layout_check_shape(&cases[index].shape, &world, &slots, &err),
                         cases[index].code);
        assert_string_equal(err.text, cases[index].text);
        assert_int_equal(world, 7);
        assert_int_equal(slots, 7);
    }
}

static void refusals_of_orders(void **state)
{
    (void)state;
    const char *orders[] = {"",
                            "tp",
                            "tp-cp-pp",
                            "tp-cp-pp-pp",
                            "tp-cp-pp-dx",
                            "tp cp pp dp",
                            "tp-cp-pp-dp-tp-",
                            "TP-CP-PP-DP"};
    for (size_t index = 0; index < ARRAY_SIZE(orders); index++) {
        struct layout_shape shape = shape_of(1, 1, 2, 1);
        (void)snprintf(shape.order, sizeof(shape.order), "%s", orders[index]);
        uint32_t world = 0;
        uint32_t slots = 0;
        assert_int_equal(layout_check_shape(&shape, &world, &slots, NULL), -EINVAL);
    }
    /* no NUL in the field at all */
    struct layout_shape shape = shape_of(1, 1, 2, 1);
    memset(shape.order, 't', sizeof(shape.order));
    uint32_t world = 0;
    uint32_t slots = 0;
    assert_int_equal(layout_check_shape(&shape, &world, &slots, NULL), -EINVAL);
}

/* Brute force: a shape is accepted exactly when no tensor group has ranks on two nodes. */
static bool groups_stay(const struct layout_shape *shape, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        struct layout_coordinates at = layout_of_rank(shape, rank);
        at.tensor = 0;
        if (layout_rank_of(shape, at) / shape->ranks_per_node != rank / shape->ranks_per_node) {
            return false;
        }
    }
    return true;
}

static void every_small_shape(void **state)
{
    (void)state;
    const char *orders[] = {"tp-cp-pp-dp", "dp-tp-pp-cp", "pp-tp-cp-dp", "cp-dp-pp-tp"};
    uint32_t accepted = 0;
    for (uint32_t code = 0; code < 4u * 4 * 4 * 4 * 8 * 4; code++) {
        struct layout_shape shape = {.tensor = code % 4 + 1,
                                     .context = code / 4 % 4 + 1,
                                     .pipeline = code / 16 % 4 + 1,
                                     .data = code / 64 % 4 + 1,
                                     .ranks_per_node = code / 256 % 8 + 1};
        (void)snprintf(shape.order, sizeof(shape.order), "%s", orders[code / 2048]);
        uint32_t product = shape.tensor * shape.context * shape.pipeline * shape.data;
        uint32_t world = 0;
        uint32_t slots = 0;
        int result = layout_check_shape(&shape, &world, &slots, NULL);
        bool fits = product % shape.ranks_per_node == 0 && groups_stay(&shape, product);
        assert_int_equal(result, fits ? 0 : -EINVAL);
        if (result < 0) {
            continue;
        }
        accepted++;
        assert_int_equal(world, product);
        assert_int_equal(slots * shape.ranks_per_node, world);
        for (uint32_t rank = 0; rank < world; rank++) {
            assert_int_equal(layout_rank_of(&shape, layout_of_rank(&shape, rank)), rank);
        }
    }
    assert_true(accepted > 1000);
}

/* ---- fresh placement --------------------------------------------------------------------- */

static uint32_t racks_of_replica(const struct fixture *f, const struct layout_node *nodes,
                                 uint32_t first, uint32_t count, bool leaves)
{
    uint32_t found = 0;
    for (uint32_t a = first; a < first + count; a++) {
        const struct layout_node *node = &nodes[f->slot_nodes[a] - 1];
        bool fresh = true;
        for (uint32_t b = first; b < a && fresh; b++) {
            const struct layout_node *other = &nodes[f->slot_nodes[b] - 1];
            fresh = leaves ? node->leaf != other->leaf : node->rack != other->rack;
        }
        found += fresh ? 1 : 0;
    }
    return found;
}

static void fresh_keeps_replicas_together(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(8, 16, 128, 8);
    for (uint32_t index = 0; index < 2112; index++) {
        f->nodes[index] = node_of(index, 32);
    }
    assert_int_equal(layout_fresh(&shape, f->nodes, 2112, 2048, &f->scratch, f->slot_nodes, NULL),
                     0);
    uint32_t racks[128];
    for (uint32_t replica = 0; replica < 128; replica++) {
        assert_int_equal(racks_of_replica(f, f->nodes, replica * 16, 16, false), 1);
        racks[replica] = f->nodes[f->slot_nodes[replica * 16] - 1].rack;
    }
    /* the first 66 replicas are in 66 racks, and neighbours are on different feeds */
    for (uint32_t a = 0; a < 66; a++) {
        for (uint32_t b = 0; b < a; b++) {
            assert_int_not_equal(racks[a], racks[b]);
        }
    }
}

/* Two racks of 3 behind each leaf, replicas of 4: every replica needs two racks, but one leaf. */
static void fresh_prefers_leaves(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(1, 4, 3, 1);
    for (uint32_t index = 0; index < 18; index++) {
        f->nodes[index] = node_of(index, 3);
    }
    assert_int_equal(layout_fresh(&shape, f->nodes, 18, 12, &f->scratch, f->slot_nodes, NULL), 0);
    for (uint32_t replica = 0; replica < 3; replica++) {
        assert_int_equal(racks_of_replica(f, f->nodes, replica * 4, 4, true), 1);
        assert_int_equal(racks_of_replica(f, f->nodes, replica * 4, 4, false), 2);
    }
}

static void fresh_golden(void **state)
{
    struct fixture *f = *state;
    /* no labels at all: by name */
    struct layout_shape shape = shape_of(2, 1, 4, 2);
    for (uint32_t index = 0; index < 6; index++) {
        f->nodes[index] = (struct layout_node){.id = 11 + index, .name_order = 5 - index};
    }
    assert_int_equal(layout_fresh(&shape, f->nodes, 6, 4, &f->scratch, f->slot_nodes, NULL), 0);
    const uint32_t by_name[] = {16, 15, 14, 13};
    assert_memory_equal(f->slot_nodes, by_name, sizeof(by_name));
    /* two racks of two: data-parallel slots alternate between them */
    for (uint32_t index = 0; index < 4; index++) {
        f->nodes[index] = node_of(index, 2);
        f->nodes[index].leaf = 0;
    }
    assert_int_equal(layout_fresh(&shape, f->nodes, 4, 4, &f->scratch, f->slot_nodes, NULL), 0);
    const uint32_t alternating[] = {1, 3, 2, 4};
    assert_memory_equal(f->slot_nodes, alternating, sizeof(alternating));
    /* a pipeline of two in each rack instead */
    shape = shape_of(2, 2, 2, 2);
    assert_int_equal(layout_fresh(&shape, f->nodes, 4, 4, &f->scratch, f->slot_nodes, NULL), 0);
    const uint32_t together[] = {1, 2, 3, 4};
    assert_memory_equal(f->slot_nodes, together, sizeof(together));
}

/* No leaf and no rack holds the replica whole: the fullest leaf first, and in it the fullest rack,
 * whatever their names are. */
static void fresh_fullest_first(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(1, 6, 1, 1);
    static const uint32_t racks[] = {1, 2, 3, 3, 4, 4}; /* leaf 1: rack 1; leaf 2: the rest */
    static const uint32_t leaves[] = {1, 2, 2, 2, 1, 2};
    for (uint32_t index = 0; index < 6; index++) {
        f->nodes[index] = node_of(index, 1);
        f->nodes[index].rack = racks[index];
        f->nodes[index].leaf = leaves[index];
    }
    f->nodes[4].rack = 5; /* of leaf 1 too */
    assert_int_equal(layout_fresh(&shape, f->nodes, 6, 6, &f->scratch, f->slot_nodes, NULL), 0);
    const uint32_t fullest[] = {3, 4, 2, 6, 1, 5};
    assert_memory_equal(f->slot_nodes, fullest, sizeof(fullest));
}

static void fresh_probation_last(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(1, 1, 4, 1);
    for (uint32_t index = 0; index < 6; index++) {
        f->nodes[index] = node_of(index, 2);
        f->nodes[index].probation = index < 3;
        f->nodes[index].healthy_ms = index;
    }
    assert_int_equal(layout_fresh(&shape, f->nodes, 6, 4, &f->scratch, f->slot_nodes, NULL), 0);
    uint32_t sum = 0;
    for (uint32_t slot = 0; slot < 4; slot++) {
        sum += f->slot_nodes[slot];
    }
    assert_int_equal(sum, 4 + 5 + 6 + 3); /* all that are proven, and the longest healthy of them */
}

static void fresh_refuses(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(1, 1, 4, 1);
    struct err err = {0};
    for (uint32_t index = 0; index < 4; index++) {
        f->nodes[index] = node_of(index, 2);
    }
    f->slot_nodes[0] = 77;
    assert_int_equal(layout_fresh(&shape, f->nodes, 3, 4, &f->scratch, f->slot_nodes, &err),
                     -ENOSPC);
    assert_string_equal(err.text, "4 nodes are needed, 3 are usable: 1 missing");
    assert_int_equal(layout_fresh(&shape, f->nodes, 4, 5, &f->scratch, f->slot_nodes, &err),
                     -EINVAL);
    assert_int_equal(
        layout_fresh(&shape, f->nodes, LAYOUT_NODES_MAX + 1, 4, &f->scratch, f->slot_nodes, &err),
        -E2BIG);
    f->nodes[3] = f->nodes[0];
    assert_int_equal(layout_fresh(&shape, f->nodes, 4, 4, &f->scratch, f->slot_nodes, &err),
                     -EINVAL);
    assert_string_equal(err.text, "node 1 is given twice");
    assert_int_equal(f->slot_nodes[0], 77);
}

/* ---- swaps ------------------------------------------------------------------------------- */

static void swap_near_first(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(8, 4, 2, 8);
    for (uint32_t slot = 0; slot < 8; slot++) {
        f->holders[slot] = node_of(slot, 4);
    }
    struct layout_node *spares = f->spares;
    spares[0] = (struct layout_node){.id = 101, .name_order = 0, .healthy_ms = 99};
    spares[1] = (struct layout_node){.id = 102, .name_order = 1, .pod = 2000};
    spares[2] = (struct layout_node){.id = 103, .name_order = 2, .rack = 1};
    spares[3] = (struct layout_node){.id = 104, .name_order = 3, .leaf = 1000};
    struct {
        uint32_t count;
        uint32_t node;
        uint8_t near;
    } cases[] = {{4, 104, NEAR_LEAF}, {3, 103, NEAR_RACK}, {2, 102, NEAR_POD}, {1, 101, NEAR_ANY}};
    for (size_t index = 0; index < ARRAY_SIZE(cases); index++) {
        uint32_t lost = 2;
        assert_int_equal(layout_swaps(&shape, f->holders, 8, &lost, 1, spares, cases[index].count,
                                      &f->scratch, f->swaps, NULL),
                         0);
        assert_int_equal(f->swaps[0].slot, 2);
        assert_int_equal(f->swaps[0].node, cases[index].node);
        assert_int_equal(f->swaps[0].near, cases[index].near);
    }
}

static void swap_tie_breaks(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(8, 2, 1, 8);
    f->holders[0] = node_of(0, 4);
    f->holders[1] = node_of(1, 4);
    uint32_t lost = 1;
    for (uint32_t index = 0; index < 5; index++) {
        f->spares[index] = node_of(2, 4);
        f->spares[index].id = 10 + index;
        f->spares[index].name_order = 9 - index;
    }
    f->spares[0].probation = true;
    f->spares[0].healthy_ms = 9999;
    f->spares[4].healthy_ms = 5000;
    f->spares[4].leaf = 0; /* still the same rack, but others are nearer */
    const uint32_t by_name = 13;
    assert_int_equal(
        layout_swaps(&shape, f->holders, 2, &lost, 1, f->spares, 5, &f->scratch, f->swaps, NULL),
        0);
    assert_int_equal(f->swaps[0].node, by_name);
    f->spares[1].healthy_ms = 2000;
    assert_int_equal(
        layout_swaps(&shape, f->holders, 2, &lost, 1, f->spares, 5, &f->scratch, f->swaps, NULL),
        0);
    assert_int_equal(f->swaps[0].node, 11);
    f->spares[4].reserved = true; /* reserved goes before near */
    assert_int_equal(
        layout_swaps(&shape, f->holders, 2, &lost, 1, f->spares, 5, &f->scratch, f->swaps, NULL),
        0);
    assert_int_equal(f->swaps[0].node, 14);
    assert_int_equal(f->swaps[0].near, NEAR_RACK);
}

/* Slot 0 could take either spare, slot 4 is near to one: the near one must go to slot 4. */
static void swap_leaves_near_to_near(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(8, 2, 4, 8);
    for (uint32_t slot = 0; slot < 8; slot++) {
        f->holders[slot] = node_of(slot * 64, 4); /* all far from each other */
    }
    f->spares[0] = f->holders[5];
    f->spares[0].id = 500;
    f->spares[0].name_order = 1;
    f->spares[1] = (struct layout_node){.id = 501, .name_order = 2};
    const uint32_t lost[] = {4, 0};
    assert_int_equal(
        layout_swaps(&shape, f->holders, 8, lost, 2, f->spares, 2, &f->scratch, f->swaps, NULL), 0);
    assert_int_equal(f->swaps[0].slot, 0);
    assert_int_equal(f->swaps[0].node, 501);
    assert_int_equal(f->swaps[1].slot, 4);
    assert_int_equal(f->swaps[1].node, 500);
}

/* A whole replica is lost: the spares near its old place serve it. */
static void swap_whole_replica(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(8, 2, 2, 8);
    for (uint32_t slot = 0; slot < 4; slot++) {
        f->holders[slot] = node_of(slot, 2);
    }
    f->spares[0] = node_of(400, 2);
    f->spares[1] = node_of(401, 2);
    f->spares[2] = node_of(2, 2);
    f->spares[2].id = 900;
    const uint32_t lost[] = {2, 3};
    assert_int_equal(
        layout_swaps(&shape, f->holders, 4, lost, 2, f->spares, 3, &f->scratch, f->swaps, NULL), 0);
    assert_int_equal(f->swaps[0].node, 900);
    assert_int_equal(f->swaps[0].near, NEAR_LEAF);
    assert_int_equal(f->swaps[1].node, 401);
}

static void swap_refuses(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(8, 2, 2, 8);
    for (uint32_t slot = 0; slot < 4; slot++) {
        f->holders[slot] = node_of(slot, 2);
        f->spares[slot] = node_of(slot + 4, 2);
    }
    struct err err = {0};
    f->swaps[0].node = 77;
    const uint32_t lost[] = {0, 1, 1};
    assert_int_equal(
        layout_swaps(&shape, f->holders, 4, lost, 2, f->spares, 1, &f->scratch, f->swaps, &err),
        -ENOSPC);
    assert_string_equal(err.text, "2 slots need a node, 1 spare is ready: 1 missing");
    assert_int_equal(
        layout_swaps(&shape, f->holders, 4, lost, 3, f->spares, 4, &f->scratch, f->swaps, &err),
        -EINVAL);
    assert_string_equal(err.text, "slot 1 is given as lost twice");
    const uint32_t past = 4;
    assert_int_equal(
        layout_swaps(&shape, f->holders, 4, &past, 1, f->spares, 4, &f->scratch, f->swaps, &err),
        -EINVAL);
    assert_string_equal(err.text, "slot 4 is past the last one");
    assert_int_equal(
        layout_swaps(&shape, f->holders, 5, lost, 1, f->spares, 4, &f->scratch, f->swaps, &err),
        -EINVAL);
    assert_int_equal(f->swaps[0].node, 77);
    /* nothing lost: nothing to do, no spare needed */
    assert_int_equal(
        layout_swaps(&shape, f->holders, 4, NULL, 0, NULL, 0, &f->scratch, f->swaps, &err), 0);
}

/* ---- properties -------------------------------------------------------------------------- */

static void shuffle_nodes(struct prng *prng, struct layout_node *nodes, uint32_t count)
{
    for (uint32_t index = count; index > 1; index--) {
        uint64_t other = prng_below(prng, index);
        struct layout_node kept = nodes[index - 1];
        nodes[index - 1] = nodes[other];
        nodes[other] = kept;
    }
}

static struct layout_shape random_shape(struct prng *prng)
{
    static const char *const orders[] = {"tp-cp-pp-dp", "tp-cp-pp-dp", "tp-pp-cp-dp",
                                         "tp-cp-dp-pp", "tp-dp-pp-cp", "cp-tp-dp-pp"};
    struct layout_shape shape = {0};
    uint32_t world = 0;
    uint32_t slots = 0;
    do {
        shape.tensor = (uint32_t)prng_between(prng, 1, 4);
        shape.context = (uint32_t)prng_between(prng, 1, 2);
        shape.pipeline = (uint32_t)prng_between(prng, 1, 5);
        shape.data = (uint32_t)prng_between(prng, 1, 8);
        shape.ranks_per_node = (uint32_t)prng_between(prng, 1, 16);
        (void)snprintf(shape.order, sizeof(shape.order), "%s",
                       orders[prng_below(prng, ARRAY_SIZE(orders))]);
    } while (layout_check_shape(&shape, &world, &slots, NULL) < 0);
    return shape;
}

static uint32_t random_fleet(struct prng *prng, struct layout_node *nodes, uint32_t least)
{
    uint32_t count = least + (uint32_t)prng_below(prng, 24);
    uint32_t rack_size = (uint32_t)prng_between(prng, 1, 9);
    for (uint32_t index = 0; index < count; index++) {
        nodes[index] = node_of(index, rack_size);
        nodes[index].healthy_ms = prng_below(prng, 3);
        nodes[index].probation = prng_below(prng, 8) == 0;
        nodes[index].reserved = prng_below(prng, 8) == 0;
        if (prng_below(prng, 5) == 0) {
            nodes[index].rack = 0;
        }
        if (prng_below(prng, 5) == 0) {
            nodes[index].leaf = 0;
        }
        if (prng_below(prng, 5) == 0) {
            nodes[index].feed = 0;
        }
    }
    return count;
}

/* Other numbers for the same labels: the answer may not depend on how they were interned. */
static void rename_labels(struct layout_node *nodes, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        struct layout_node *node = &nodes[index];
        node->rack = node->rack == 0 ? 0 : 100000 - node->rack;
        node->leaf = node->leaf == 0 ? 0 : 100000 - node->leaf;
        node->pod = node->pod == 0 ? 0 : 100000 - node->pod;
        node->feed = node->feed == 0 ? 0 : 100000 - node->feed;
    }
}

static void fresh_properties(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct prng prng;
        prng_seed(&prng, seed);
        struct layout_shape shape = random_shape(&prng);
        uint32_t world = 0;
        uint32_t slots = 0;
        assert_int_equal(layout_check_shape(&shape, &world, &slots, NULL), 0);
        uint32_t count = random_fleet(&prng, f->nodes, slots);
        uint32_t proven = 0;
        for (uint32_t index = 0; index < count; index++) {
            proven += f->nodes[index].probation ? 0 : 1;
        }
        assert_int_equal(
            layout_fresh(&shape, f->nodes, count, slots, &f->scratch, f->slot_nodes, NULL), 0);
        memset(f->seen, 0, count + 1);
        uint32_t on_probation = 0;
        for (uint32_t slot = 0; slot < slots; slot++) {
            uint32_t id = f->slot_nodes[slot];
            assert_true(id >= 1 && id <= count);
            assert_false(f->seen[id]);
            f->seen[id] = true;
            on_probation += f->nodes[id - 1].probation ? 1 : 0;
        }
        assert_int_equal(on_probation, slots > proven ? slots - proven : 0);
        shuffle_nodes(&prng, f->nodes, count);
        rename_labels(f->nodes, count);
        assert_int_equal(
            layout_fresh(&shape, f->nodes, count, slots, &f->scratch, f->other_nodes, NULL), 0);
        assert_memory_equal(f->slot_nodes, f->other_nodes, slots * sizeof(f->slot_nodes[0]));
    }
}

static uint32_t choose_lost(struct prng *prng, uint32_t *lost, uint32_t slots)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        if (prng_below(prng, 4) == 0) {
            lost[count++] = slot;
        }
    }
    return count;
}

/* A4, E10: whoever was not lost keeps its row, and with it its ranks. */
static void swap_properties(void **state)
{
    struct fixture *f = *state;
    uint32_t swapped = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct prng prng;
        prng_seed(&prng, seed);
        struct layout_shape shape = random_shape(&prng);
        uint32_t world = 0;
        uint32_t slots = 0;
        assert_int_equal(layout_check_shape(&shape, &world, &slots, NULL), 0);
        uint32_t count = random_fleet(&prng, f->nodes, slots);
        shuffle_nodes(&prng, f->nodes, count);
        memcpy(f->holders, f->nodes, slots * sizeof(f->nodes[0]));
        memcpy(f->spares, f->nodes + slots, (count - slots) * sizeof(f->nodes[0]));
        uint32_t spare_count = count - slots;
        uint32_t lost_count = choose_lost(&prng, f->lost, slots);
        int result = layout_swaps(&shape, f->holders, slots, f->lost, lost_count, f->spares,
                                  spare_count, &f->scratch, f->swaps, NULL);
        assert_int_equal(result, lost_count > spare_count ? -ENOSPC : 0);
        if (result < 0) {
            continue;
        }
        /* moved nodes = lost nodes, no slot but the lost ones, every spare once */
        memset(f->seen, 0, count + 1);
        for (uint32_t index = 0; index < lost_count; index++) {
            assert_int_equal(f->swaps[index].slot, f->lost[index]);
            bool is_spare = false;
            for (uint32_t spare = 0; spare < spare_count; spare++) {
                is_spare = is_spare || f->spares[spare].id == f->swaps[index].node;
            }
            assert_true(is_spare);
            assert_false(f->seen[f->swaps[index].node]);
            f->seen[f->swaps[index].node] = true;
            swapped++;
        }
        shuffle_nodes(&prng, f->spares, spare_count);
        for (uint32_t index = 0; index < lost_count / 2; index++) {
            uint32_t kept = f->lost[index];
            f->lost[index] = f->lost[lost_count - 1 - index];
            f->lost[lost_count - 1 - index] = kept;
        }
        rename_labels(f->spares, spare_count);
        rename_labels(f->holders, slots);
        assert_int_equal(layout_swaps(&shape, f->holders, slots, f->lost, lost_count, f->spares,
                                      spare_count, &f->scratch, f->other_swaps, NULL),
                         0);
        for (uint32_t index = 0; index < lost_count; index++) {
            assert_int_equal(f->swaps[index].slot, f->other_swaps[index].slot);
            assert_int_equal(f->swaps[index].node, f->other_swaps[index].node);
            assert_int_equal(f->swaps[index].near, f->other_swaps[index].near);
        }
    }
    assert_true(swapped > SEEDS);
}

/* ---- speed ------------------------------------------------------------------------------- */

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 20 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SLOWER = 20 };
#else
enum { SLOWER = 1 };
#endif
#else
enum { SLOWER = 1 };
#endif

/* The best of some runs, in microseconds: 32 nodes of the fleet lost at once. */
static uint64_t time_swaps(struct fixture *f, const struct layout_shape *shape, uint32_t slots,
                           uint32_t spare_count, uint32_t rack_size)
{
    for (uint32_t slot = 0; slot < slots; slot++) {
        f->holders[slot] = node_of(slot, rack_size);
    }
    for (uint32_t index = 0; index < spare_count; index++) {
        f->spares[index] = node_of(slots + index, rack_size);
    }
    for (uint32_t index = 0; index < 32; index++) {
        f->lost[index] = slots / 32 * index + index % 7;
    }
    uint64_t best = UINT64_MAX;
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t start = now_us();
        assert_int_equal(layout_swaps(shape, f->holders, slots, f->lost, 32, f->spares, spare_count,
                                      &f->scratch, f->swaps, NULL),
                         0);
        uint64_t took = now_us() - start;
        best = took < best ? took : best;
    }
    return best;
}

static void speed(void **state)
{
    struct fixture *f = *state;
    struct layout_shape shape = shape_of(8, 16, 128, 8);
    uint64_t small = time_swaps(f, &shape, 2048, 64, 32);
    shape = shape_of(8, 16, 1024, 8);
    uint64_t large = time_swaps(f, &shape, 16384, 512, 256);
    for (uint32_t index = 0; index < 16896; index++) {
        f->nodes[index] = node_of(index, 32);
    }
    uint64_t start = now_us();
    assert_int_equal(layout_fresh(&shape, f->nodes, 16896, 16384, &f->scratch, f->slot_nodes, NULL),
                     0);
    uint64_t fresh = now_us() - start;
    print_message("swap of 32: 2,112 nodes %llu us, 131,072 ranks %llu us; fresh %llu us\n",
                  (unsigned long long)small, (unsigned long long)large, (unsigned long long)fresh);
    assert_true(small < 1000u * SLOWER);
    assert_true(large < 10000u * SLOWER);
    assert_true(fresh < 100000u * SLOWER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape_of_llama),
        cmocka_unit_test(refusals_of_shapes),
        cmocka_unit_test(refusals_of_orders),
        cmocka_unit_test(every_small_shape),
        cmocka_unit_test(fresh_keeps_replicas_together),
        cmocka_unit_test(fresh_prefers_leaves),
        cmocka_unit_test(fresh_golden),
        cmocka_unit_test(fresh_fullest_first),
        cmocka_unit_test(fresh_probation_last),
        cmocka_unit_test(fresh_refuses),
        cmocka_unit_test(swap_near_first),
        cmocka_unit_test(swap_tie_breaks),
        cmocka_unit_test(swap_leaves_near_to_near),
        cmocka_unit_test(swap_whole_replica),
        cmocka_unit_test(swap_refuses),
        cmocka_unit_test(fresh_properties),
        cmocka_unit_test(swap_properties),
        cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, make_fixture, drop_fixture);
}
