/* old_store.c: a controller comes up on a store that is older than the world: yesterday's, or empty.
 * Ranks run of which it knows nothing, or less than they do. Nobody may be stopped by it. */
#include "controller/sim/world.h"

#include "proto/base/text.h"

enum {
    LOSE_STEP = 30,       /* the store is lost when the job has made so many steps */
    AWAY_MS = 5000,       /* so long no controller runs */
    WATCH_MS = 15 * 60000 /* so long it is watched after that */
};

struct sim_script {
    uint64_t keep_ppm;
    uint64_t lost_ms;    /* when the store was lost; 0: not yet */
    uint64_t lost_step;  /* of the job then */
    uint32_t alive;      /* ranks that lived then */
    uint64_t alive_step; /* of the job at the end */
};

static uint32_t count_alive(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < sim->host_count; index++) {
        for (uint32_t s = 0; s < SIM_SHIMS_MAX; s++) {
            const struct sim_shim *shim = &sim->hosts[index].shims[s];
            for (uint32_t rank = 0; shim->used && rank < shim->rank_count; rank++) {
                count += shim->ranks[rank].alive ? 1 : 0;
            }
        }
    }
    return count;
}

static void lose_store(struct sim *sim, struct sim_script *script)
{
    struct sim_controller *ctl = &sim->ctl;
    ctl_die(sim, "and its store is replaced by an older one", AWAY_MS);
    ctl_cut_store(sim, ctl->durable * script->keep_ppm / 1000000);
    sim->shadow.folded = UINT64_MAX; /* what the judges remember is newer than this store */
    script->lost_ms = sim->now_ms;
    script->lost_step = sim->trains[0].step;
    script->alive = count_alive(sim);
}

static void watch(struct sim *sim)
{
    struct sim_script *script = sim->script_state;
    const struct sim_train *train = &sim->trains[0];
    if (script->lost_ms == 0) {
        if (train->state == SIM_TRAIN_STEP && train->step >= LOSE_STEP &&
            sim->ctl.record_count == sim->ctl.durable) {
            lose_store(sim, script);
        }
        return;
    }
    if (count_alive(sim) != script->alive) {
        sim_object(sim, SIM_JUDGE_ORDERED, "%u ranks lived, %u live under the older store",
                   script->alive, count_alive(sim));
    }
    if (sim->now_ms >= script->lost_ms + WATCH_MS) {
        script->alive_step = train->step;
        sim->over = true;
    }
}

enum sim_result sim_old_store(uint64_t seed, uint32_t keep_ppm, char ret_text[256],
                              void (*line)(void *context, const char *line), void *line_context)
{
    struct sim_options options = {.seed = seed,
                                  .hosts = 6,
                                  .hosts_per_rack = 3,
                                  .racks_per_leaf = 1,
                                  .jobs = 1,
                                  .chaos_ms = 2ull * WATCH_MS,
                                  .delay_ms = {1, 20},
                                  .commit_ms = {1, 5},
                                  .fault_gap_ms = 1,
                                  .operator_gap_ms = 1,
                                  .start_grace_ms = 15000};
    options.job[0] = (struct sim_job_options){.slots = 4,
                                              .ranks_per_node = 2,
                                              .steps = UINT32_MAX,
                                              .step_ms = 500,
                                              .save_every = 10,
                                              .save_ms = 200,
                                              .init_ms = 500,
                                              .load_ms = 500,
                                              .retries_unknown = 3};
    options.line = line;
    options.line_context = line_context;
    struct sim_script script = {.keep_ppm = keep_ppm};
    struct sim *sim = sim_create(&options);
    sim->scripted = true;
    sim->script = watch;
    sim->script_state = &script;
    enum sim_result result = sim_run(sim);
    if (result == SIM_GOOD && script.alive_step <= script.lost_step) {
        sim->over = false;
        sim_object(sim, SIM_JUDGE_LIVE, "no step after %llu", (unsigned long long)script.lost_step);
        result = SIM_LIVENESS;
    }
    (void)text_format(ret_text, 256, "%u ranks live on%s%.180s", script.alive,
                      result == SIM_GOOD ? "" : ": ", sim_result_text(sim));
    (void)sim_free(sim);
    return result;
}
