/* sim_test.c: the simulator itself: it repeats exactly, every fault strikes, every judge objects
 * when the world is made wrong in the way that it watches for. */
#include <stdio.h>
#include <string.h>

#include "controller/sim/sim.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "tests/lib/aborts.h"
#include "tests/lib/test.h"

enum { SEEDS_TO_TRY = 60 };

static void fold_line(void *context, const char *line)
{
    uint64_t *hash = context;
    *hash = hash_text(*hash, line);
}

/* A quiet world: two racks, one job, nothing goes wrong by itself. */
static void quiet(struct sim_options *options, uint64_t seed)
{
    memset(options, 0, sizeof(*options));
    options->seed = seed;
    options->hosts = 8;
    options->hosts_per_rack = 4;
    options->racks_per_leaf = 1;
    options->jobs = 1;
    for (uint32_t index = 0; index < SIM_JOBS_MAX; index++) {
        options->job[index] = (struct sim_job_options){.slots = 4,
                                                       .ranks_per_node = 2,
                                                       .steps = 120,
                                                       .step_ms = 500,
                                                       .save_every = 10,
                                                       .save_ms = 200,
                                                       .init_ms = 500,
                                                       .load_ms = 300,
                                                       .followers_ms = 1000,
                                                       .retries_user = 2,
                                                       .retries_unknown = 3};
    }
    options->chaos_ms = 180000;
    options->healed_ms = 3600000;
    options->delay_ms[1] = 5;
    options->commit_ms[1] = 5;
    options->fault_gap_ms = 20000;
    options->operator_gap_ms = 1000000;
    options->start_grace_ms = 2000;
}

static void repeats_exactly(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        uint64_t hashes[2] = {HASH_INIT, HASH_INIT};
        struct sim_stats stats[2];
        for (uint32_t round = 0; round < 2; round++) {
            struct sim_options options;
            sim_options_draw(&options, seed);
            options.line = fold_line;
            options.line_context = &hashes[round];
            struct sim *sim = sim_create(&options);
            assert_int_equal(sim_run(sim), SIM_GOOD);
            stats[round] = *sim_stats_of(sim);
            (void)sim_free(sim);
        }
        assert_true(hashes[0] == hashes[1]);
        assert_true(hashes[0] != HASH_INIT);
        assert_memory_equal(&stats[0], &stats[1], sizeof(stats[0]));
    }
}

static void quiet_world_succeeds(void **state)
{
    (void)state;
    struct sim_options options;
    quiet(&options, 1);
    struct sim *sim = sim_create(&options);
    assert_int_equal(sim_run(sim), SIM_GOOD);
    const struct sim_stats *stats = sim_stats_of(sim);
    assert_int_equal(stats->succeeded, 1);
    assert_int_equal(stats->recoveries, 1); /* its start */
    assert_int_equal(stats->restarts, 1);
    for (uint32_t fault = 0; fault < SIM_FAULT_COUNT; fault++) {
        assert_int_equal(stats->struck[fault], 0);
    }
    (void)sim_free(sim);
}

/* Each fault alone strikes, and the world bears it. */
static void every_fault_strikes(void **state)
{
    (void)state;
    for (uint32_t fault = 0; fault < SIM_FAULT_COUNT; fault++) {
        uint64_t struck = 0;
        for (uint64_t seed = 1; seed <= SEEDS_TO_TRY && struck == 0; seed++) {
            struct sim_options options;
            quiet(&options, seed);
            options.weight[fault] = 10;
            if (fault == SIM_MORE_FAILURES) { /* needs a recovery in flight */
                options.weight[SIM_RANK_SIGNAL] = 10;
                options.aim_ppm = 125000;
            }
            if (fault == SIM_STALE_HELLO) { /* needs an agent with an older life */
                options.weight[SIM_AGENT_KILL] = 10;
            }
            struct sim *sim = sim_create(&options);
            enum sim_result result = sim_run(sim);
            if (result != SIM_GOOD) {
                fail_msg("%s, seed %llu: %s", sim_fault_words[fault], (unsigned long long)seed,
                         sim_result_text(sim));
            }
            struck += sim_stats_of(sim)->struck[fault];
            (void)sim_free(sim);
        }
        if (struck == 0) {
            fail_msg("%s never struck", sim_fault_words[fault]);
        }
    }
}

/* A world in which what a mutation needs comes up: failures, saves, drains, restarts. */
static void busy(struct sim_options *options, uint64_t seed, enum sim_mutation mutation)
{
    quiet(options, seed);
    options->weight[SIM_HOST_REBOOT] = 3;
    options->weight[SIM_RANK_SIGNAL] = 5;
    options->weight[SIM_AGENT_KILL] = 3;
    options->weight[SIM_CTL_AFTER] = 4;
    options->weight[SIM_CTL_BEFORE] = 4;
    options->verb_weight[SIM_DO_DRAIN] = 1;
    options->verb_weight[SIM_DO_UNDRAIN] = 1;
    options->operator_gap_ms = 30000;
    options->mutation = mutation;
    if (mutation == SIM_EDIT_POISON) {
        options->weight[SIM_POISON] = 5;
    }
    if (mutation == SIM_EDIT_STUCK) { /* healed in the middle of a recovery */
        options->chaos_ms = 40000;
        options->fault_gap_ms = 5000;
    }
    if (mutation == SIM_LOSE_ANSWER) { /* healed while the job still has saves to make */
        options->chaos_ms = 20000;
        options->job[0].steps = 2000;
    }
    if (mutation == SIM_LOSE_SHARD) { /* restored while what was lost is the newest */
        options->fault_gap_ms = 8000;
    }
    if (mutation == SIM_ACT_EARLY) {
        options->commit_ms[0] = 400;
        options->commit_ms[1] = 800;
    }
}

/* When no agent is heard, a recovery that was under way is stuck, too. */
static bool is_as_good(int mutation, enum sim_judge judge)
{
    return mutation == SIM_DEAF && judge == SIM_JUDGE_RESUMES;
}

static void every_judge_objects(void **state)
{
    (void)state;
    bool tripped[SIM_JUDGE_COUNT] = {false};
    for (int mutation = 1; mutation < SIM_BREAK_CORE; mutation++) {
        enum sim_judge wanted = sim_mutation_judge((enum sim_mutation)mutation);
        bool found = false;
        for (uint64_t seed = 1; seed <= SEEDS_TO_TRY && !found; seed++) {
            struct sim_options options;
            busy(&options, seed, (enum sim_mutation)mutation);
            struct sim *sim = sim_create(&options);
            enum sim_result result = sim_run(sim);
            if (result != SIM_GOOD) {
                found = sim_result_judge(sim) == wanted;
                if (!found && !is_as_good(mutation, sim_result_judge(sim))) {
                    fail_msg("mutation %d, seed %llu trips another judge than %s: %s", mutation,
                             (unsigned long long)seed, sim_judge_words[wanted],
                             sim_result_text(sim));
                }
                bool live = wanted == SIM_JUDGE_LIVE || wanted == SIM_JUDGE_RESUMES ||
                            wanted == SIM_JUDGE_ANSWERED;
                assert_int_equal(result, live ? SIM_LIVENESS : SIM_SAFETY);
            }
            (void)sim_free(sim);
        }
        if (!found) {
            fail_msg("mutation %d never trips %s", mutation, sim_judge_words[wanted]);
        }
        tripped[wanted] = true;
    }
    for (uint32_t judge = 0; judge < SIM_JUDGE_COUNT; judge++) {
        if (!tripped[judge] &&
            judge != SIM_JUDGE_INVARIANT) { /* that one aborts: see its own test */
            fail_msg("no mutation trips %s", sim_judge_words[judge]);
        }
    }
}

static void run_broken(void *context)
{
    struct sim_options options;
    busy(&options, *(const uint64_t *)context, SIM_BREAK_CORE);
    struct sim *sim = sim_create(&options);
    (void)sim_run(sim);
    (void)sim_free(sim);
}

static void broken_core_aborts(void **state)
{
    (void)state;
    uint64_t seed = 1;
    assert_true(aborts(run_broken, &seed));
}

/* Without the mistake the same worlds are good. */
static void busy_world_is_good(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS_TO_TRY / 2; seed++) {
        struct sim_options options;
        busy(&options, seed, SIM_NO_MUTATION);
        struct sim *sim = sim_create(&options);
        if (sim_run(sim) != SIM_GOOD) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, sim_result_text(sim));
        }
        (void)sim_free(sim);
    }
}

/* The moved nodes of every recovery are the lost ones, whatever the order of what arrives: the
 * judge `swap-rule` watches each record; here only that it had something to watch. */
static void survivors_keep_their_place(void **state)
{
    (void)state;
    uint64_t judged = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_options options;
        quiet(&options, seed);
        options.delay_ms[1] = 400; /* replies overtake each other between nodes */
        options.weight[SIM_HOST_REBOOT] = 1;
        options.fault_gap_ms = 30000;
        struct sim *sim = sim_create(&options);
        if (sim_run(sim) != SIM_GOOD) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, sim_result_text(sim));
        }
        judged += sim_stats_of(sim)->judged[SIM_JUDGE_SWAP];
        (void)sim_free(sim);
    }
    assert_true(judged > 100);
}

/* One death of each kind of process, and the report of a story that cannot end well. */
static void killed_once(void **state)
{
    (void)state;
    char unhurt[256];
    char killed[256];
    assert_int_equal(sim_kill_one(7, UINT32_MAX, 0, false, unhurt, NULL, NULL), SIM_GOOD);
    assert_string_equal(unhurt, "succeeded at attempt 3; processes started: 8 8 8 8");
    const uint32_t records[] = {1, 20, 60, 120, 180};
    for (size_t index = 0; index < ARRAY_SIZE(records); index++) {
        for (int after = 0; after < 2; after++) {
            assert_int_equal(
                sim_kill_one(7, UINT32_MAX, records[index], after != 0, killed, NULL, NULL),
                SIM_GOOD);
            assert_string_equal(killed, unhurt);
        }
    }
    for (uint32_t host = 0; host < 6; host++) {
        assert_int_equal(sim_kill_one(7, host, 1, host % 2 == 0, killed, NULL, NULL), SIM_GOOD);
        assert_string_equal(killed, unhurt);
    }
}

/* An empty store, yesterday's, and one that misses only the last words: nobody is stopped. */
static void older_stores_stop_nobody(void **state)
{
    (void)state;
    for (uint32_t keep = 0; keep <= 40; keep++) {
        char text[256];
        enum sim_result result = sim_old_store(keep + 1, keep * 25000, text, NULL, NULL);
        if (result != SIM_GOOD) {
            fail_msg("%u of 40 parts of the records kept: %s", keep, text);
        }
        assert_string_equal(text, "8 ranks live on");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats_exactly),
        cmocka_unit_test(quiet_world_succeeds),
        cmocka_unit_test(every_fault_strikes),
        cmocka_unit_test(every_judge_objects),
        cmocka_unit_test(broken_core_aborts),
        cmocka_unit_test(busy_world_is_good),
        cmocka_unit_test(survivors_keep_their_place),
        cmocka_unit_test(killed_once),
        cmocka_unit_test(older_stores_stop_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
