/* options.c: what a seed means. Not only what happens is drawn, also how likely each thing is, and
 * whole classes are off: runs in which little goes wrong find what a storm would hide. */
#include <string.h>

#include "controller/core/words.h"
#include "controller/sim/sim.h"
#include "proto/base/check.h"
#include "proto/base/prng.h"

enum { FEW_NODES_MS = 2 * 3600 * 1000 };

static uint32_t draw(struct prng *prng, uint32_t low, uint32_t high)
{
    return (uint32_t)prng_between(prng, low, high);
}

static void draw_job(struct prng *prng, struct sim_job_options *job, uint32_t slots_max)
{
    job->slots = draw(prng, 1, slots_max);
    job->ranks_per_node = draw(prng, 1, 3);
    job->steps = draw(prng, 40, 1200);
    job->step_ms = draw(prng, 200, 2500);
    job->save_every = draw(prng, 5, 60);
    job->save_ms = draw(prng, 50, 6000);
    job->init_ms = draw(prng, 100, 8000);
    job->load_ms = draw(prng, 100, 5000);
    job->followers_ms = prng_below(prng, 2) == 0 ? draw(prng, 50, 5000) : 0;
    job->retries_user = draw(prng, 0, 2);
    job->retries_unknown = draw(prng, 1, 4);
}

/* Each class is off in a third of all runs; the others differ by up to a factor of ten. */
static void draw_weights(struct prng *prng, uint32_t *weights, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        weights[index] = prng_below(prng, 3) == 0 ? 0 : draw(prng, 1, 10);
    }
}

/* In a quarter of all runs the controller chooses: how often jobs save, how many spares they keep. A
 * stream of its own, so that the other runs are what they would be without. */
static void draw_choices(struct sim_options *options)
{
    struct prng prng;
    prng_seed(&prng, options->seed ^ 0x72657365727665ull);
    if (prng_below(&prng, 4) != 0) {
        return;
    }
    for (uint32_t index = 0; index < SIM_JOBS_MAX; index++) {
        struct sim_job_options *job = &options->job[index];
        uint64_t saves = prng_below(&prng, 4);
        uint64_t spares = prng_below(&prng, 4);
        job->interval_auto = saves == 0 || saves == 1;
        job->interval_ms = saves == 2 ? draw(&prng, 5000, 120000) : 0;
        job->reserve_auto = spares == 0 || spares == 1;
        job->reserve = spares == 2 ? draw(&prng, 1, 3) : 0;
        job->min_ready = prng_below(&prng, 3) == 0 ? draw(&prng, 1, 3) : 0;
    }
}

/* Two sites of three have hooks, some of them not for every lane. */
static void draw_hooks(struct sim_options *options)
{
    struct prng prng;
    prng_seed(&prng, options->seed ^ 0x686f6f6b73ull);
    options->repair_wait_ms = draw(&prng, 1000, 60000);
    for (uint32_t hook = HOOK_NONE + 1; hook < repair_hook_count; hook++) {
        options->hooks |= prng_below(&prng, 5) > 0 ? 1u << hook : 0;
    }
    options->hooks = prng_below(&prng, 3) > 0 ? options->hooks : 0;
}

/* Time enough for all jobs that there may be, one after the other, twice. */
static uint64_t healed_time(const struct sim_options *options)
{
    uint64_t sum_ms = 0;
    for (uint32_t index = 0; index < SIM_JOBS_MAX; index++) {
        const struct sim_job_options *job = &options->job[index];
        uint64_t saves = job->steps / job->save_every + 1;
        sum_ms += (uint64_t)job->steps * job->step_ms + saves * job->save_ms + 300000;
    }
    return 2 * sum_ms;
}

/* Two ranks on each of four nodes, and two spares: what `make demo` shows. */
static void make_demo(struct sim_options *options)
{
    options->hosts = 6;
    options->hosts_per_rack = 2;
    options->jobs = 1;
    options->few_nodes = false;
    for (uint32_t index = 0; index < SIM_JOBS_MAX; index++) {
        options->job[index].slots = 4;
        options->job[index].ranks_per_node = 2;
    }
}

/* One large job over nearly all of them, for as long as it takes to fail and recover some times. */
void sim_options_scale(struct sim_options *options, uint32_t hosts)
{
    CHECK(hosts <= SIM_HOSTS_MAX);
    options->hosts = hosts;
    if (hosts < SIM_LARGE) {
        return;
    }
    options->hosts_per_rack = 32;
    options->racks_per_leaf = 2;
    options->jobs = 1;
    options->few_nodes = false;
    options->check_all = false;
    options->verb_weight[SIM_DO_SUBMIT] = 0;
    options->verb_weight[SIM_DO_CANCEL] = 0;
    for (uint32_t index = 0; index < SIM_JOBS_MAX; index++) {
        struct sim_job_options *job = &options->job[index];
        job->slots = hosts / 100 * 97 / 16 * 16;
        job->ranks_per_node = 8;
        job->steps = 24;
        job->step_ms = 5000;
        job->save_every = 4;
        job->save_ms = 2000;
        job->init_ms = 5000;
        job->load_ms = 4000;
        job->followers_ms = 2000;
    }
    options->chaos_ms = 150000;
    options->healed_ms = healed_time(options);
    options->fault_gap_ms = 20000;
    options->operator_gap_ms = 15000;
    options->aim_ppm = 100000;
}

void sim_options_draw(struct sim_options *ret_options, uint64_t seed)
{
    struct prng prng;
    prng_seed(&prng, seed ^ 0x6f7074696f6e73ull); /* not the stream of the world itself */
    memset(ret_options, 0, sizeof(*ret_options));
    ret_options->seed = seed;
    ret_options->hosts = prng_below(&prng, 10) == 0 ? draw(&prng, 20, 64) : draw(&prng, 4, 20);
    ret_options->hosts_per_rack = draw(&prng, 2, 6);
    ret_options->racks_per_leaf = draw(&prng, 1, 2);
    ret_options->jobs = draw(&prng, 1, 3);
    uint32_t spares = draw(&prng, 1, ret_options->hosts / 2);
    uint32_t left = ret_options->hosts - spares;
    for (uint32_t index = 0; index < SIM_JOBS_MAX; index++) {
        uint32_t share = left / ret_options->jobs;
        draw_job(&prng, &ret_options->job[index], share > 0 ? share : 1);
    }
    ret_options->chaos_ms = (uint64_t)draw(&prng, 120, 1800) * 1000;
    ret_options->healed_ms = healed_time(ret_options);
    ret_options->delay_ms[0] = draw(&prng, 0, 2);
    ret_options->delay_ms[1] = ret_options->delay_ms[0] + draw(&prng, 0, 40);
    ret_options->commit_ms[0] = draw(&prng, 0, 2);
    ret_options->commit_ms[1] = ret_options->commit_ms[0] + draw(&prng, 0, 30);
    bool calm = prng_below(&prng, 2) == 0; /* one failure at a time, most of the time */
    ret_options->fault_gap_ms = calm ? draw(&prng, 60000, 400000) : draw(&prng, 3000, 60000);
    ret_options->operator_gap_ms = draw(&prng, 5000, 60000);
    ret_options->start_grace_ms = prng_below(&prng, 2) == 0 ? 15000 : draw(&prng, 1000, 15000);
    draw_weights(&prng, ret_options->weight, SIM_FAULT_COUNT);
    /* whole racks and hosts that die must not leave nothing to recover with */
    ret_options->weight[SIM_RACK_DEATH] = (ret_options->weight[SIM_RACK_DEATH] + 3) / 4;
    ret_options->weight[SIM_HOST_DEATH] = (ret_options->weight[SIM_HOST_DEATH] + 1) / 2;
    draw_weights(&prng, ret_options->verb_weight, SIM_VERB_COUNT);
    ret_options->verb_weight[SIM_DO_UNDRAIN] = draw(&prng, 5, 20);
    ret_options->verb_weight[SIM_DO_RELEASE] = draw(&prng, 5, 20);
    uint32_t *pause = &ret_options->verb_weight[SIM_DO_PAUSE];
    *pause = *pause > 0 ? 1 : 0;
    ret_options->verb_weight[SIM_DO_CANCEL] = ret_options->verb_weight[SIM_DO_CANCEL] > 0 ? 1 : 0;
    ret_options->aim_ppm = calm ? draw(&prng, 0, 30000) : draw(&prng, 30000, 125000);
    ret_options->weight[SIM_POISON] = (ret_options->weight[SIM_POISON] + 3) / 4;
    ret_options->weight[SIM_CUT_MANY] = (ret_options->weight[SIM_CUT_MANY] + 1) / 2;
    ret_options->weight[SIM_DISK_FULL] = (ret_options->weight[SIM_DISK_FULL] + 3) / 4;
    if (prng_below(&prng, 10) == 0) { /* a probe that is wrong, everywhere */
        ret_options->weight[SIM_FATAL_SIGNAL] = draw(&prng, 20, 100);
    }
    ret_options->few_nodes = prng_below(&prng, 8) == 0;
    ret_options->check_all = prng_below(&prng, 4) == 0;
    /* ranks past their limits and peers that are better off are rare enough without 10 min of it */
    ret_options->fence_after_ms = prng_below(&prng, 2) == 0 ? 600000 : draw(&prng, 5000, 60000);
    if (prng_below(&prng, 10) == 0) {
        make_demo(ret_options);
    }
    draw_choices(ret_options);
    draw_hooks(ret_options);
    if (ret_options->few_nodes && ret_options->healed_ms > FEW_NODES_MS) {
        ret_options->healed_ms = FEW_NODES_MS; /* who lacks nodes then will lack them for ever */
    }
}
