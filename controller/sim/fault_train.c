/* fault_train.c: faults of programs and of what all of them share: a slow host, wrong numbers, a
 * job that fails wherever it runs, and a storage that does not answer.
 *
 * Wrong numbers are noticed late: the trainer that can run a step again finds the rank that
 * differs, which ends with 16 some steps later. What was saved meanwhile holds them, and a program
 * that loads it finds that out, as it does with a torn one. */
#include "controller/sim/world.h"

enum {
    CODE_OTHER_GPU = 16,
    SIGNAL_SEGV = 11,
    NOTICED_MAX = 40, /* steps until wrong numbers are noticed */
    POISON_MAX = 30,  /* steps from now to the one that always fails */
    BACK_MS = 60000,
};

/* A program that makes steps now; NULL: there is none. */
static struct sim_train *pick_train(struct sim *sim)
{
    uint32_t start = (uint32_t)sim_between(sim, 0, SIM_TRAINS_MAX - 1);
    for (uint32_t step = 0; step < SIM_TRAINS_MAX; step++) {
        struct sim_train *train = &sim->trains[(start + step) % SIM_TRAINS_MAX];
        if (train->state == SIM_TRAIN_STEP && train->broken_ms == 0) {
            return train;
        }
    }
    return NULL;
}

static struct sim_poison *poison_of(struct sim *sim, const struct sim_train *train)
{
    return &sim->poison[train->options - sim->options.job];
}

static bool storage_loss(struct sim *sim)
{
    uint64_t time_ms = sim_between(sim, 2000, sim_chance(sim, 300000) ? 240000 : 30000);
    sim->storage_ms = sim->now_ms + time_ms;
    sim_trace(sim, "storage-loss: for %llu ms", (unsigned long long)time_ms);
    return true;
}

static bool straggler(struct sim *sim)
{
    uint32_t index = fault_pick_host(sim);
    if (index == SIM_HOSTS_MAX) {
        return false;
    }
    struct sim_host *host = &sim->hosts[index];
    host->straggle_pct = sim_between(sim, 20, 400);
    fault_undo_later(sim, SIM_STRAGGLER, index, sim_between(sim, 10000, 300000));
    sim_trace(sim, "straggler: %s computes %llu %% longer", host->name,
              (unsigned long long)host->straggle_pct);
    return true;
}

static bool wrong_numbers(struct sim *sim)
{
    struct sim_train *train = pick_train(sim);
    if (train == NULL || train->wrong) {
        return false;
    }
    train->wrong = true;
    train->wrong_step = train->step + sim_between(sim, 1, NOTICED_MAX);
    train->wrong_host = train->hosts[sim_between(sim, 0, train->slots - 1)];
    sim_trace(sim, "sdc: job %u attempt %u from step %llu on, by %s", train->job, train->attempt,
              (unsigned long long)train->step, sim->hosts[train->wrong_host].name);
    return true;
}

static bool poison(struct sim *sim)
{
    const struct sim_train *train = pick_train(sim);
    if (train == NULL || poison_of(sim, train)->step != 0 ||
        train->step + 2 >= train->options->steps) {
        return false;
    }
    uint64_t most = train->options->steps - train->step - 1;
    *poison_of(sim, train) = (struct sim_poison){
        .step = train->step + sim_between(sim, 1, most < POISON_MAX ? most : POISON_MAX),
        .host = sim_chance(sim, 400000)};
    sim_trace(sim, "poison-job: job %u will fail at step %llu", train->job,
              (unsigned long long)poison_of(sim, train)->step);
    return true;
}

bool program_fault_do(struct sim *sim, enum sim_fault fault)
{
    switch (fault) {
    case SIM_STORAGE_LOSS:
        return storage_loss(sim);
    case SIM_STRAGGLER:
        return straggler(sim);
    case SIM_SDC:
        return wrong_numbers(sim);
    default:
        CHECK(fault == SIM_POISON);
        return poison(sim);
    }
}

static void end_rank(struct sim *sim, const struct sim_train *train, uint32_t host, uint8_t state,
                     int32_t code)
{
    const struct sim_shim *shim = shim_find(&sim->hosts[host], train->job, train->attempt);
    if (shim != NULL && shim->up && shim->ranks[0].alive) {
        shim_rank_end(sim, host, (uint32_t)(shim - sim->hosts[host].shims), 0, state, code, 0);
    }
}

void program_step(struct sim *sim, struct sim_train *train)
{
    const struct sim_poison *poison = poison_of(sim, train);
    if (poison->step != 0 && train->step == poison->step) {
        uint32_t host = train->hosts[sim_between(sim, 0, train->slots - 1)];
        struct sim_shadow_job *job = shadow_job(sim, train->job);
        if (poison->host) {
            host_down(sim, host, BACK_MS, false, "a poisoned job");
        } else {
            end_rank(sim, train, host, RANK_SIGNALED, SIGNAL_SEGV);
        }
        if (job != NULL) {
            job->poison_strikes++;
            judge_poison(sim, job);
        }
    }
    if (train->wrong && train->step >= train->wrong_step) {
        end_rank(sim, train, train->wrong_host, RANK_EXITED, CODE_OTHER_GPU);
    }
}

bool program_waits(struct sim *sim, struct sim_train *train)
{
    bool needs = train->state == SIM_TRAIN_SAVE || train->state == SIM_TRAIN_RESTORE;
    return needs && sim->now_ms < sim->storage_ms;
}

void program_heal(struct sim *sim)
{
    sim->storage_ms = 0;
    for (uint32_t index = 0; index < SIM_JOBS_MAX; index++) {
        sim->poison[index] = (struct sim_poison){0};
    }
    for (uint32_t index = 0; index < SIM_TRAINS_MAX; index++) {
        sim->trains[index].wrong = false;
    }
}
