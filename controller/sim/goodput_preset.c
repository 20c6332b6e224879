/* goodput_preset.c: the failures of two well known kinds of fleet, and what is assumed beside them.
 *
 * How often what fails: table 5 of "The Llama 3 Herd of Models" (arXiv:2407.21783): 419 unexpected
 * interruptions in 54 days on 16,384 GPUs, and 47 planned ones. How soon each kind is noticed by a
 * program on the node: published detection times (ByteRobust, arXiv:2509.16293, table 3; Unicron,
 * arXiv:2401.00134) or, where there are none, assumed. Repair times are assumed. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "controller/core/estimate.h"
#include "controller/sim/goodput.h"
#include "proto/base/check.h"
#include "proto/base/message.h"
#include "proto/base/text.h"

#define HOURS(n) ((n)*3600u * 1000u)

static const struct goodput_category llama3[] = {
    {"gpu-or-nvlink", 148, 10000, HOURS(24), GOODPUT_SIGNAL},
    {"gpu-memory", 72, 10000, HOURS(2), GOODPUT_SIGNAL},
    {"software", 54, 300, 0, GOODPUT_EXIT},
    {"switch-or-cable", 35, 60000, HOURS(4), GOODPUT_SIGNAL},
    {"host-maintenance", 32, 5600, HOURS(2), GOODPUT_SILENT},
    {"gpu-sram", 19, 10000, HOURS(24), GOODPUT_SIGNAL},
    {"gpu-system-processor", 17, 10000, HOURS(1), GOODPUT_SIGNAL},
    {"nic", 7, 30000, HOURS(24), GOODPUT_SIGNAL},
    {"nccl-timeout", 7, 60000, HOURS(4), GOODPUT_ABORT},
    {"silent-corruption", 6, 600000, HOURS(48), GOODPUT_CORRUPT},
    {"thermal", 6, 10000, HOURS(24), GOODPUT_SIGNAL},
    {"disk", 3, 5600, HOURS(24), GOODPUT_SILENT},
    {"power-supply", 3, 5600, HOURS(24), GOODPUT_SILENT},
    {"chassis", 2, 5600, HOURS(48), GOODPUT_SILENT},
    {"expansion-board", 2, 10000, HOURS(48), GOODPUT_SIGNAL},
    {"dependency", 2, 10000, 0, GOODPUT_EXIT},
    {"cpu", 2, 2000, HOURS(48), GOODPUT_SIGNAL},
    {"host-memory", 2, 2000, HOURS(24), GOODPUT_SIGNAL},
    {"planned", 47, 0, HOURS(2), GOODPUT_PLANNED},
};

static void common(struct goodput_options *options)
{
    *options = (struct goodput_options){
        .seed = 1,
        .nodes = 2112,
        .spares = 64,
        .ranks_per_node = 1,
        .wall_ms = 54ull * 24 * HOURS(1),
        .failures_ppm = 3789, /* 419 in 54 days of 2,048 nodes */
        .drains_ppm = 425,    /* 47 */
        .step_ms = 12000,
        .stall_ms = 590,
        .save_ms = 51000,
        .stop_ms = 2000,
        .plan_ms = 1000,
        .launch_ms = 5000,
        .init_ms = 30000,
        .load_ms = 30000,
        .person_ms = 15 * 60 * 1000,
    };
    static_assert(ARRAY_SIZE(llama3) <= GOODPUT_CATEGORIES_MAX, "they fit");
    memcpy(options->category, llama3, sizeof(llama3));
    options->category_count = ARRAY_SIZE(llama3);
}

int goodput_preset(struct goodput_options *ret_options, const char *name)
{
    bool field = text_equal(name, "field");
    if (!field && !text_equal(name, "llama3")) {
        return -EINVAL;
    }
    common(ret_options);
    if (field) {
        ret_options->failures_ppm = 3800;
        ret_options->bursts = true;
        ret_options->lemons = true;
        ret_options->together_ppm = 40000;
        ret_options->repeat_ppm = 120000;
        ret_options->rma_ppm = 400000;
        ret_options->repair_drawn = true;
    }
    return 0;
}

/* ---- what can be run ----------------------------------------------------------------------- */

struct range {
    const char *what;
    uint64_t value;
    uint64_t least;
    uint64_t most;
};

static int check_ranges(const struct goodput_options *o, struct err *err)
{
    const struct range ranges[] = {
        {"nodes", o->nodes, 2, GOODPUT_NODES_MAX},
        {"wall time in ms", o->wall_ms, HOURS(1), (uint64_t)GOODPUT_DAYS_MAX * 24 * HOURS(1)},
        {"ranks per node", o->ranks_per_node, 1, RANKS_PER_NODE_MAX},
        {"failures per node-day times a million", o->failures_ppm, 0, 1000000},
        {"drains per node-day times a million", o->drains_ppm, 0, 1000000},
        {"step time in ms", o->step_ms, 100, HOURS(1)},
        {"save stall in ms", o->stall_ms, 0, HOURS(1)},
        {"save time in ms", o->save_ms, 1, HOURS(1)},
        {"stop time in ms", o->stop_ms, 1, 300000},
        {"plan time in ms", o->plan_ms, 1, 60000},
        {"launch time in ms", o->launch_ms, 1, HOURS(1)},
        {"init time in ms", o->init_ms, 1, HOURS(1)},
        {"load time in ms", o->load_ms, 1, HOURS(1)},
        {"interval in steps", o->interval_steps, 0, 1000000},
        {"repair time in ms", o->repair_ms, 0, 100ull * 24 * HOURS(1)},
    };
    for (size_t index = 0; index < ARRAY_SIZE(ranges); index++) {
        const struct range *range = &ranges[index];
        if (range->value < range->least || range->value > range->most) {
            return err_set(err, -ERANGE, "%s is %llu; it must be %llu to %llu", range->what,
                           (unsigned long long)range->value, (unsigned long long)range->least,
                           (unsigned long long)range->most);
        }
    }
    return 0;
}

/* They may have been read for another size of the fleet. */
static int check_given(const struct goodput_options *options, struct err *err)
{
    for (uint32_t index = 0; index < options->given_count; index++) {
        if (options->given[index].node >= options->nodes) {
            return err_set(err, -ERANGE,
                           "failure %u of those given is on node %u, and there are %u nodes, the "
                           "first is 0",
                           index + 1, options->given[index].node, options->nodes);
        }
    }
    return 0;
}

int goodput_check(const struct goodput_options *options, struct err *err)
{
    int code = check_ranges(options, err);
    if (code < 0) {
        return code;
    }
    if (options->spares >= options->nodes) {
        return err_set(err, -EINVAL,
                       "%u nodes with %u spares leave none for the job; take fewer spares or more "
                       "nodes",
                       options->nodes, options->spares);
    }
    uint64_t between = (uint64_t)goodput_interval(options) * options->step_ms;
    if (between < options->save_ms) {
        return err_set(err, -EINVAL,
                       "a save takes %u ms and the next would begin after %llu ms; the interval "
                       "must be %u steps or more",
                       options->save_ms, (unsigned long long)between,
                       options->save_ms / options->step_ms + 1);
    }
    return check_given(options, err);
}

static uint64_t mean_gap_ms(const struct goodput_options *options)
{
    uint64_t slots = options->nodes - options->spares;
    return options->failures_ppm == 0 ? options->wall_ms
                                      : 24ull * HOURS(1) * 1000000 / options->failures_ppm / slots;
}

uint32_t goodput_interval(const struct goodput_options *options)
{
    if (options->interval_steps != 0) {
        return options->interval_steps;
    }
    struct estimate_interval_input input = {.stall_ms = options->stall_ms,
                                            .save_ms = options->save_ms,
                                            .step_ms = options->step_ms,
                                            .gap_ms = mean_gap_ms(options)};
    return estimate_interval_steps(&input);
}
