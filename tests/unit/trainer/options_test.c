/* options_test: what is taken from flags and environment, and what is refused with which words. */
#include "agent/trainer/options.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

static const char *const nothing[] = {NULL};

static void defaults_are_one_rank(void **state)
{
    (void)state;
    const char *const arguments[] = {"trainer", "--text", "a", "b", NULL};
    struct options options;
    struct fail fail;
    assert_int_equal(options_parse(arguments, nothing, NULL, &fail, &options), 0);
    assert_int_equal(options.rank, 0);
    assert_int_equal(options.world, 1);
    assert_int_equal(options.layout.data, 1);
    assert_int_equal(options.attempt, 0);
    assert_string_equal(options.job, "standalone");
    assert_int_equal(options.text_count, 2);
    assert_string_equal(options.text[1], "b");
    assert_int_equal(options.restore_step, 0);
    assert_int_equal(options.restore_attempt, -1);
}

static void flags_follow_text(void **state)
{
    (void)state;
    const char *const arguments[] = {
        "trainer",        "--text",           "a",      "--steps",       "7",   "--lr",
        "0.01",           "--checkpoint-dir", "/c",     "--seed",        "5",   "--inject",
        "crash@3:rank=1", "--inject",         "slow=2", "--step-min-ms", "100", NULL};
    struct options options;
    struct fail fail;
    assert_int_equal(options_parse(arguments, nothing, NULL, &fail, &options), 0);
    assert_int_equal(options.text_count, 1);
    assert_int_equal(options.steps, 7);
    assert_true(options.rate == 0.01f);
    assert_string_equal(options.checkpoint_directory, "/c");
    assert_int_equal(options.seed, 5);
    assert_int_equal(options.inject_count, 2);
    assert_int_equal(options.step_min_ms, 100);
}

static void environment_is_torchruns_and_ours(void **state)
{
    (void)state;
    const char *const arguments[] = {"trainer", "--text", "a", "--batch", "8", NULL};
    const char *const environment[] = {"RANK=3",
                                       "WORLD_SIZE=4",
                                       "LOCAL_RANK=1",
                                       "MASTER_ADDR=10.0.0.1",
                                       "MASTER_PORT=29500",
                                       "KEEPSTEP_JOB=llama-405b",
                                       "KEEPSTEP_ATTEMPT=12",
                                       "KEEPSTEP_RESTORE_STEP=20",
                                       "KEEPSTEP_RESTORE_ATTEMPT=11",
                                       "KEEPSTEP_DP_RANK=3",
                                       "TORCHELASTIC_RESTART_COUNT=99",
                                       NULL};
    struct options options;
    struct fail fail;
    assert_int_equal(options_parse(arguments, environment, NULL, &fail, &options), 0);
    assert_int_equal(options.rank, 3);
    assert_int_equal(options.world, 4);
    assert_int_equal(options.layout.data, 4);
    assert_string_equal(options.master_address, "10.0.0.1");
    assert_int_equal(options.master_port, 29500);
    assert_string_equal(options.job, "llama-405b");
    assert_int_equal(options.attempt, 12);
    assert_int_equal(options.restore_step, 20);
    assert_int_equal(options.restore_attempt, 11);
}

static void torchruns_names_serve_without_ours(void **state)
{
    (void)state;
    const char *const arguments[] = {"trainer", "--text", "a", NULL};
    const char *const environment[] = {"TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=2",
                                       "KEEPSTEP_RESTORE_STEP=", NULL};
    struct options options;
    struct fail fail;
    assert_int_equal(options_parse(arguments, environment, NULL, &fail, &options), 0);
    assert_string_equal(options.job, "none");
    assert_int_equal(options.attempt, 2);
    assert_int_equal(options.restore_step, 0);
}

struct refusal {
    const char *arguments[10];
    const char *environment[8];
    const char *said;
};

static void check_refusals(const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct options options;
        struct fail fail = {0};
        const int code =
            options_parse(refusals[i].arguments, refusals[i].environment, NULL, &fail, &options);
        if (code >= 0 || strstr(fail.text, refusals[i].said) == NULL) {
            print_message("case %zu: '%s' against '%s'\n", i, fail.text, refusals[i].said);
        }
        assert_true(code < 0);
        assert_int_equal(fail.exit_code, EXIT_BAD_CONFIG);
        assert_non_null(strstr(fail.text, refusals[i].said));
    }
}

static void everything_wrong_is_named(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {{"t"}, {0}, "--text needs at least one path"},
        {{"t", "--text", "--steps", "3"}, {0}, "--text needs at least one path"},
        {{"t", "--text", "a", "--stesp", "3"}, {0}, "'--stesp' is not a flag"},
        {{"t", "--text", "a", "--steps"}, {0}, "--steps needs a value"},
        {{"t", "--text", "a", "--steps", "0"}, {0}, "--steps '0' must be a whole number from 1"},
        {{"t", "--text", "a", "--steps", "1x"}, {0}, "--steps '1x'"},
        {{"t", "--text", "a", "--steps", "-1"}, {0}, "--steps '-1'"},
        {{"t", "--text", "a", "--steps", ""}, {0}, "--steps ''"},
        {{"t", "--text", "a", "--seed", "99999999999999999999"}, {0}, "--seed"},
        {{"t", "--text", "a", "--lr", "nan"}, {0}, "--lr 'nan'"},
        {{"t", "--text", "a", "--lr", "0"}, {0}, "--lr '0'"},
        {{"t", "--text", "a", "--width", "24"}, {0}, "--width 24 must be a multiple of 16"},
        {{"t", "--text", "a", "--context", "30"}, {0}, "--context 30 must be a multiple of 8"},
        {{"t", "--text", "a", "--checkpoint-every", "5"}, {0}, "needs --checkpoint-dir"},
        {{"t", "--text", "a", "--checkpoint-dir", ""}, {0}, "must not be empty"},
        {{"t", "--text", "a", "--inject", "burn@3"}, {0}, "--inject burn@3"},
        {{"t", "--text", "a", "--backend", "mpi"}, {0}, "--backend 'mpi' must be tcp or nccl"},
        {{"t", "--text", "a", "--backend"}, {0}, "--backend needs a value"},
        {{"t", "--text", "a"}, {"LOCAL_RANK=x"}, "LOCAL_RANK 'x'"},
        {{"t", "--text", "a"}, {"RANK=1"}, "RANK 1 is not under WORLD_SIZE 1"},
        {{"t", "--text", "a"}, {"WORLD_SIZE=2", "RANK=0"}, "MASTER_ADDR"},
        {{"t", "--text", "a"}, {"WORLD_SIZE=2000"}, "WORLD_SIZE '2000'"},
        {{"t", "--text", "a"}, {"RANK=one"}, "RANK 'one'"},
        {{"t", "--text", "a"}, {"KEEPSTEP_JOB=a\"b"}, "KEEPSTEP_JOB"},
        {{"t", "--text", "a"}, {"KEEPSTEP_ATTEMPT=-1"}, "KEEPSTEP_ATTEMPT '-1'"},
    };
    check_refusals(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

static void layouts_that_do_not_fit_are_named(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {{"t", "--text", "a", "--tp", "2"}, {0}, "tp 2 x cp 1 x pp 1 x dp 1 is not WORLD_SIZE 1"},
        {{"t", "--text", "a", "--pp", "2"}, {0}, "is not WORLD_SIZE 1"},
        {{"t", "--text", "a", "--cp", "2"},
         {"WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1"},
         "cp 2: this program has no context parallel"},
        {{"t", "--text", "a", "--tp", "4"},
         {"WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1"},
         "--width 32 gives 2 heads of 16, which tp 4 does not divide; take a width that is a "
         "multiple of 64"},
        {{"t", "--text", "a", "--tp", "3", "--width", "48"},
         {"WORLD_SIZE=3", "MASTER_ADDR=a", "MASTER_PORT=1"},
         "tp 3 does not split 256 logits"},
        {{"t", "--text", "a", "--pp", "3"},
         {"WORLD_SIZE=3", "MASTER_ADDR=a", "MASTER_PORT=1"},
         "--layers 2 is not a multiple of pp 3"},
        {{"t", "--text", "a", "--tp", "2"},
         {"WORLD_SIZE=3", "MASTER_ADDR=a", "MASTER_PORT=1"},
         "tp 2 x cp 1 x pp 1 x dp 1 is not WORLD_SIZE 3"},
        {{"t", "--text", "a", "--micro-batches", "3"},
         {0},
         "--batch 16 is not a multiple of dp 1 x 3 micro-batches"},
        {{"t", "--text", "a", "--batch", "2", "--pp", "2"},
         {"WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1"},
         "--batch 2 is not a multiple of dp 2 x 2 micro-batches"},
        {{"t", "--text", "a", "--micro-batches", "0"}, {0}, "--micro-batches '0'"},
        {{"t", "--text", "a", "--dp", "2"}, {0}, "is not WORLD_SIZE 1"},
        {{"t", "--text", "a"},
         {"WORLD_SIZE=3", "MASTER_ADDR=a", "MASTER_PORT=1"},
         "--batch 16 is not a multiple of dp 3 x 1 micro-batches"},
        {{"t", "--text", "a"},
         {"WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=a", "MASTER_PORT=1", "KEEPSTEP_DP_RANK=0"},
         "the dp coordinate 1"},
        /* Megatron's default order: the program's second innermost is pp, not dp. */
        {{"t", "--text", "a", "--tp", "2", "--pp", "2"},
         {"WORLD_SIZE=8", "RANK=2", "MASTER_ADDR=a", "MASTER_PORT=1", "KEEPSTEP_PP_RANK=0",
          "KEEPSTEP_DP_RANK=1"},
         "rank 2 has the pp coordinate 1 in the order tp-cp-pp-dp, but the environment gives it 0"},
    };
    check_refusals(refusals, sizeof(refusals) / sizeof(refusals[0]));
}

/* Sizes come from the flags, else from the agent's order, else from the world. */
static void layouts_come_from_flags_order_and_world(void **state)
{
    (void)state;
    static const char *const environment[] = {"WORLD_SIZE=8",       "RANK=5",
                                              "MASTER_ADDR=a",      "MASTER_PORT=1",
                                              "KEEPSTEP_TP_RANK=1", "KEEPSTEP_PP_RANK=0",
                                              "KEEPSTEP_DP_RANK=1", NULL};
    const char *const bare[] = {"t", "--text", "a", NULL};
    const char *const said[] = {"t", "--text", "a", "--tp", "2", "--pp", "2", NULL};
    const struct comm_layout cube = {2, 1, 2, 2};
    struct options options;
    struct fail fail = {0};
    assert_int_equal(options_parse(bare, environment, &cube, &fail, &options), 0);
    assert_memory_equal(&options.layout, &cube, sizeof(cube));
    assert_int_equal(options.micros, 2);
    assert_int_equal(options_parse(said, environment, NULL, &fail, &options), 0);
    assert_memory_equal(&options.layout, &cube, sizeof(cube));
    assert_int_equal(options_parse(said, environment, &cube, &fail, &options), 0);
    const struct comm_layout other = {1, 1, 4, 2};
    assert_true(options_parse(said, environment, &other, &fail, &options) < 0);
    assert_int_equal(fail.exit_code, EXIT_BAD_CONFIG);
    assert_string_equal(fail.text,
                        "--tp 2, but the job's layout says tp 1; make them equal, or leave "
                        "the flag out");
    const struct comm_layout huge = {4294967295u, 4294967295u, 4294967295u, 2};
    assert_true(options_parse(bare, environment, &huge, &fail, &options) < 0);
    assert_non_null(strstr(fail.text, "at most 1024"));
}

static void digest_sees_what_must_be_equal(void **state)
{
    (void)state;
    const char *const base[] = {"t", "--text", "a", NULL};
    const char *const other[] = {"t", "--text", "a", "--lr", "0.004", NULL};
    const char *const harmless[] = {"t", "--text", "a", "--inject", "slow=2", NULL};
    struct options a;
    struct options b;
    struct options c;
    struct fail fail;
    assert_int_equal(options_parse(base, nothing, NULL, &fail, &a), 0);
    assert_int_equal(options_parse(other, nothing, NULL, &fail, &b), 0);
    assert_int_equal(options_parse(harmless, nothing, NULL, &fail, &c), 0);
    assert_true(options_digest(&a) != options_digest(&b));
    assert_true(options_digest(&a) == options_digest(&c));
}

/* A launcher counts the ranks of a node; on one machine they are all of them. */
static void the_gpu_follows_the_local_rank(void **state)
{
    (void)state;
    const char *const arguments[] = {"t", "--text", "a", "--backend", "nccl", NULL};
    const char *const tcp[] = {"t", "--text", "a", "--backend", "tcp", NULL};
    const char *const launched[] = {"RANK=11",       "WORLD_SIZE=16", "LOCAL_RANK=3",
                                    "MASTER_ADDR=h", "MASTER_PORT=1", NULL};
    struct options a;
    struct options b;
    struct fail fail;
    assert_int_equal(options_parse(arguments, launched, NULL, &fail, &a), 0);
    assert_int_equal(a.backend, BACKEND_NCCL);
    assert_int_equal(a.local_rank, 3);
    assert_int_equal(options_parse(tcp, launched + 3, NULL, &fail, &b), 0);
    assert_int_equal(b.local_rank, 0);
    const char *const alone[] = {"RANK=11", "WORLD_SIZE=16", "MASTER_ADDR=h", "MASTER_PORT=1",
                                 NULL};
    assert_int_equal(options_parse(tcp, alone, NULL, &fail, &b), 0);
    assert_int_equal(b.backend, BACKEND_TCP);
    assert_int_equal(b.local_rank, 11);
    assert_true(options_digest(&a) != options_digest(&b)); /* one world, one backend */
}

static void injections_are_read(void **state)
{
    (void)state;
    struct inject inject;
    struct fail fail;
    assert_int_equal(inject_parse("crash@12:rank=3:attempt=0", &fail, &inject), 0);
    assert_int_equal(inject.kind, INJECT_CRASH);
    assert_int_equal(inject.step, 12);
    assert_true(inject_is_for(&inject, 3, 0));
    assert_false(inject_is_for(&inject, 3, 1));
    assert_false(inject_is_for(&inject, 2, 0));
    assert_int_equal(inject_parse("exit=42@5", &fail, &inject), 0);
    assert_true(inject.value == 42.0 && inject.step == 5 && inject_is_for(&inject, 9, 9));
    assert_int_equal(inject_parse("slow=1.5", &fail, &inject), 0);
    assert_true(inject_slowness(&inject, 1, 0, 0, 1) == 1.5);
    assert_int_equal(inject_parse("slow=2@10:rank=1", &fail, &inject), 0);
    assert_true(inject_slowness(&inject, 1, 1, 0, 9) == 1.0);
    assert_true(inject_slowness(&inject, 1, 1, 0, 10) == 2.0);
    assert_true(inject_slowness(&inject, 1, 0, 0, 10) == 1.0);
    assert_int_equal(inject_parse("stall=2.5@10:rank=1", &fail, &inject), 0);
    assert_int_equal(inject_stall_ms(&inject, 1, 1, 0, 10), 2500);
    assert_int_equal(inject_stall_ms(&inject, 1, 1, 0, 11), 0);
    assert_int_equal(inject_stall_ms(&inject, 1, 0, 0, 10), 0);
    assert_int_equal(inject_parse("hold-port:attempt=0", &fail, &inject), 0);
    assert_true(inject_wants_port(&inject, 1, 0, 0));
    assert_false(inject_wants_port(&inject, 1, 0, 1));
    assert_int_equal(inject_parse("cut=pp@4", &fail, &inject), 0);
    assert_false(inject_cuts(&inject, 1, 0, 0, 3, COMM_PIPELINE));
    assert_true(inject_cuts(&inject, 1, 0, 0, 4, COMM_PIPELINE));
    assert_false(inject_cuts(&inject, 1, 0, 0, 4, COMM_TENSOR));
    static const char *const bad[] = {
        "stall=2",
        "stall@3",
        "cut",
        "cut=",
        "cut=cp",
        "cut=tp=2",
        "cut=tpp",
        "",
        "crash",
        "crash@",
        "crash@0",
        "crash@x",
        "crash=1@2",
        "hang",
        "exit@3",
        "exit=256@3",
        "exit=1.5@3",
        "slow",
        "slow=0.5",
        "slow=nan",
        "ignore-term@3",
        "crash@1:rank",
        "crash@1:",
        "crash@1:rank=x",
        "crash@1 ",
        "crash@1:node=2",
        "crash@99999999999999999999",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_true(inject_parse(bad[i], &fail, &inject) < 0);
        assert_int_equal(fail.exit_code, EXIT_BAD_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_one_rank),
        cmocka_unit_test(flags_follow_text),
        cmocka_unit_test(environment_is_torchruns_and_ours),
        cmocka_unit_test(torchruns_names_serve_without_ours),
        cmocka_unit_test(everything_wrong_is_named),
        cmocka_unit_test(layouts_that_do_not_fit_are_named),
        cmocka_unit_test(layouts_come_from_flags_order_and_world),
        cmocka_unit_test(digest_sees_what_must_be_equal),
        cmocka_unit_test(the_gpu_follows_the_local_rank),
        cmocka_unit_test(injections_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
