/* layout_bench.c: how long the planner takes with 66 racks, for 16,384 and for 131,072 ranks: a fresh
 * placement, and 32 nodes lost at once. Prints one JSON line each with the times of all runs.
 *
 *     layout_bench [RUNS]
 *
 * What it times it also looks at: a layout that breaks a rule of placement ends it with status 1, so
 * that no figure is about a planner that got faster by being wrong. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/core/layout.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    RACKS = 66,
    RACKS_OF_LEAF = 2,
    FEEDS = 4,
    LOST = 32,
    STAGES = 16, /* nodes of one replica */
    RUNS_MAX = 1000,
};

struct fleet {
    struct layout_shape shape;
    uint32_t slots;
    uint32_t nodes; /* with the spares */
    uint32_t rack;  /* nodes in one */
    struct layout_node *all;
    uint32_t *holders; /* [slots], ids */
    struct layout_scratch *scratch;
};

static double now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void make(struct fleet *fleet, uint32_t replicas)
{
    fleet->shape = (struct layout_shape){
        .tensor = 8, .context = 1, .pipeline = STAGES, .data = replicas, .ranks_per_node = 8};
    (void)text_copy(fleet->shape.order, sizeof(fleet->shape.order), "tp-cp-pp-dp");
    fleet->slots = replicas * STAGES;
    fleet->rack = fleet->slots / (RACKS - 2); /* two racks' worth of spares */
    fleet->nodes = fleet->rack * RACKS;
    fleet->all = mem_alloc(fleet->nodes, sizeof(fleet->all[0]));
    fleet->holders = mem_alloc(fleet->slots, sizeof(fleet->holders[0]));
    fleet->scratch = mem_alloc(1, sizeof(*fleet->scratch));
    for (uint32_t index = 0; index < fleet->nodes; index++) {
        uint32_t rack = index / fleet->rack;
        fleet->all[index] = (struct layout_node){.id = index + 1,
                                                 .name_order = index,
                                                 .rack = rack + 1,
                                                 .leaf = rack / RACKS_OF_LEAF + 1,
                                                 .pod = 1,
                                                 .feed = rack % FEEDS + 1,
                                                 .healthy_ms = 1000 + index % 7};
    }
}

static void done(struct fleet *fleet)
{
    (void)mem_free(fleet->all);
    (void)mem_free(fleet->holders);
    (void)mem_free(fleet->scratch);
}

static int broken(const char *what, uint32_t slot)
{
    (void)fprintf(stderr, "layout_bench: %s, at slot %u\n", what, slot);
    return 1;
}

/* Every slot has a node of its own. */
static int look_at_slots(const struct fleet *fleet)
{
    uint8_t *taken = mem_alloc(fleet->nodes + 1, 1);
    int result = 0;
    for (uint32_t slot = 0; slot < fleet->slots && result == 0; slot++) {
        uint32_t id = fleet->holders[slot];
        if (id == 0 || id > fleet->nodes || taken[id] != 0) {
            result = broken("a slot without a node of its own", slot);
        } else {
            taken[id] = 1;
        }
    }
    (void)mem_free(taken);
    return result;
}

/* Racks are multiples of a replica: none may be cut. One stage of all replicas is spread: no rack and
 * no feed holds more of it than its share, rounded up. */
static int look_at_fresh(const struct fleet *fleet)
{
    uint32_t racks[RACKS] = {0};
    uint32_t feeds[FEEDS] = {0};
    uint32_t replicas = fleet->slots / STAGES;
    for (uint32_t slot = 0; slot < fleet->slots; slot++) {
        const struct layout_node *node = &fleet->all[fleet->holders[slot] - 1];
        const struct layout_node *first = &fleet->all[fleet->holders[slot - slot % STAGES] - 1];
        if (node->rack != first->rack) {
            return broken("a replica is cut over two racks", slot);
        }
        if (slot % STAGES == 0) {
            racks[node->rack - 1]++;
            feeds[node->feed - 1]++;
        }
    }
    for (uint32_t rack = 0; rack < RACKS; rack++) {
        if (racks[rack] > (replicas + RACKS - 1) / RACKS) {
            return broken("a rack has more than its share of one stage", rack);
        }
    }
    /* 66 racks are not a multiple of four feeds: one of them more or less. */
    uint32_t share = replicas / FEEDS + (replicas + RACKS - 1) / RACKS;
    for (uint32_t feed = 0; feed < FEEDS; feed++) {
        if (feeds[feed] > share) {
            return broken("a feed has more than its share of one stage", feed);
        }
    }
    return look_at_slots(fleet);
}

static void print(const char *what, const struct fleet *fleet, const double *ms, uint32_t runs)
{
    (void)printf("{\"name\":\"layout_%s_%u\",\"ms\":[", what, fleet->slots * 8);
    for (uint32_t run = 0; run < runs; run++) {
        (void)printf("%s%.4f", run > 0 ? "," : "", ms[run]);
    }
    (void)puts("]}");
}

static int time_fresh(struct fleet *fleet, uint32_t runs)
{
    double ms[RUNS_MAX];
    struct err err = {0};
    for (uint32_t run = 0; run < runs; run++) {
        double begin = now_ms();
        int result = layout_fresh(&fleet->shape, fleet->all, fleet->nodes, fleet->slots,
                                  fleet->scratch, fleet->holders, &err);
        ms[run] = now_ms() - begin;
        if (result < 0) {
            (void)fprintf(stderr, "layout_bench: %s\n", err.text);
            return 1;
        }
    }
    print("fresh", fleet, ms, runs);
    return look_at_fresh(fleet);
}

/* Only the lost slots change, and each gets a spare that nobody else has. */
static int look_at_swaps(struct fleet *fleet, const uint32_t *lost, const struct layout_swap *swaps)
{
    for (uint32_t index = 0; index < LOST; index++) {
        if (swaps[index].slot != lost[index]) {
            return broken("another slot than a lost one was given a node", swaps[index].slot);
        }
        fleet->holders[swaps[index].slot] = swaps[index].node;
    }
    return look_at_slots(fleet);
}

/* The holders of one whole rack's worth of slots, in several racks, fall away at once. */
static int time_swaps(struct fleet *fleet, uint32_t runs)
{
    double ms[RUNS_MAX];
    struct err err = {0};
    uint32_t lost[LOST];
    struct layout_swap swaps[LOST];
    uint32_t spare_count = 0;
    struct layout_node *holders = mem_alloc(fleet->slots, sizeof(holders[0]));
    struct layout_node *spares = mem_alloc(fleet->nodes, sizeof(spares[0]));
    uint8_t *held = mem_alloc(fleet->nodes + 1, 1);
    for (uint32_t slot = 0; slot < fleet->slots; slot++) {
        holders[slot] = fleet->all[fleet->holders[slot] - 1];
        held[fleet->holders[slot]] = 1;
    }
    for (uint32_t index = 0; index < fleet->nodes; index++) {
        if (held[index + 1] == 0) {
            spares[spare_count++] = fleet->all[index];
        }
    }
    for (uint32_t index = 0; index < LOST; index++) {
        lost[index] = index * (fleet->slots / LOST) + index % STAGES;
    }
    int result = 0;
    for (uint32_t run = 0; run < runs && result == 0; run++) {
        double begin = now_ms();
        result = layout_swaps(&fleet->shape, holders, fleet->slots, lost, LOST, spares, spare_count,
                              fleet->scratch, swaps, &err);
        ms[run] = now_ms() - begin;
    }
    if (result < 0) {
        (void)fprintf(stderr, "layout_bench: %s\n", err.text);
    } else {
        print("swap", fleet, ms, runs);
        result = look_at_swaps(fleet, lost, swaps);
    }
    (void)mem_free(holders);
    (void)mem_free(spares);
    (void)mem_free(held);
    return result == 0 ? 0 : 1;
}

int main(int count, char **words)
{
    uint64_t runs = 5;
    if (count > 2 || (count == 2 && text_to_u64(words[1], RUNS_MAX, &runs) < 0) || runs == 0) {
        (void)fprintf(stderr, "usage: layout_bench [RUNS], at most %d\n", RUNS_MAX);
        return 2;
    }
    static const uint32_t replicas[] = {128, 1024};
    int result = 0;
    for (size_t index = 0; index < 2 && result == 0; index++) {
        struct fleet fleet;
        make(&fleet, replicas[index]);
        result = time_fresh(&fleet, (uint32_t)runs);
        result = result == 0 ? time_swaps(&fleet, (uint32_t)runs) : result;
        done(&fleet);
    }
    return result;
}
