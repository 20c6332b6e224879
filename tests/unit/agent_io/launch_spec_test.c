/* launch_spec_test.c: a job file and an order become argv, environment and mailbox orders. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/io/launch_spec.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

static struct msg_desired order(void)
{
    struct msg_desired desired = {.mode = DESIRED_RUN,
                                  .job = 4,
                                  .attempt = 131,
                                  .slot = 3,
                                  .slot_count = 16,
                                  .first_rank = 24,
                                  .rank_count = 8,
                                  .world = 128,
                                  .tensor = 8,
                                  .context = 1,
                                  .pipeline = 4,
                                  .data = 4,
                                  .master_port = 29507,
                                  .restore_step = 184000,
                                  .restore_attempt = 130};
    (void)text_copy(desired.job_name, sizeof(desired.job_name), "llama");
    (void)text_copy(desired.order, sizeof(desired.order), "tp-cp-pp-dp");
    (void)text_copy(desired.master_address, sizeof(desired.master_address), "10.0.0.7");
    return desired;
}

static struct launch_plan *build_for(const struct msg_desired *desired, const char *spec_text,
                                     const char *env_text, struct err *err)
{
    static const char *const environ_list[] = {"PATH=/agent/bin", "LANG=C.UTF-8", "SECRET=x", NULL};
    const struct launch_user user = {.uid = 1000,
                                     .gid = 100,
                                     .group_count = 1,
                                     .groups = {100},
                                     .name = "train",
                                     .home = "/home/train",
                                     .shell = "/bin/sh"};
    const struct launch_input input = {.desired = desired,
                                       .cluster_id = "0123456789abcdef0123456789abcdef",
                                       .node = "gpu-0007",
                                       .log_dir = "/state/logs/job-4/attempt-131",
                                       .mail_dir = "/run/mail",
                                       .cookie = "00112233445566778899aabbccddeeff",
                                       .cgroup = "/sys/fs/cgroup/x",
                                       .env_text = env_text,
                                       .environ = environ_list};
    struct launch_spec *spec = NULL;
    struct launch_plan *plan = NULL;
    if (launch_spec_parse(spec_text, strlen(spec_text), &spec, err) != 0) {
        return NULL;
    }
    if (launch_plan_build(spec, &user, &input, &plan, err) != 0) {
        plan = NULL;
    }
    (void)launch_spec_free(spec);
    return plan;
}

static struct launch_plan *build(const char *spec_text, const char *env_text, struct err *err)
{
    const struct msg_desired desired = order();
    return build_for(&desired, spec_text, env_text, err);
}

static const char *value_of(const struct shim_list *list, const char *key)
{
    const char *found = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        if (strncmp(list->items[i], key, strlen(key)) == 0 && list->items[i][strlen(key)] == '=') {
            assert_null(found); /* each once */
            found = list->items[i] + strlen(key) + 1;
        }
    }
    return found;
}

static void test_torchrun(void **state)
{
    struct err err = {0};
    (void)state;
    struct launch_plan *plan = build(
        "{\"run\":{\"command\":[\"train\",\"--rank={rank}/{local_rank}\",\"{job}.{attempt}\","
        "\"{node}\",\"{checkpoint.dir}/{checkpoint.step}\",\"{other} ${HOME} {\"],"
        "\"env\":{\"OMP_NUM_THREADS\":\"8\",\"RANK\":\"77\"},\"inherit_env\":[\"LANG\",\"NONE\"],"
        "\"umask\":\"0022\",\"workdir\":\"/work\"},\"checkpoint\":{\"dir\":\"/ckpt\"}}",
        "# secrets\nTOKEN=a=b\n\nKEEPSTEP_COOKIE=0\n", &err);
    assert_non_null(plan);
    const struct shim_launch *launch = &plan->launch;
    assert_int_equal(launch->rank_count, 8);
    assert_int_equal(launch->umask, 022);
    assert_string_equal(launch->workdir, "/work");
    assert_string_equal(value_of(&launch->env, "WORLD_SIZE"), "128");
    assert_string_equal(value_of(&launch->env, "LOCAL_WORLD_SIZE"), "8");
    assert_string_equal(value_of(&launch->env, "GROUP_RANK"), "3");
    assert_string_equal(value_of(&launch->env, "GROUP_WORLD_SIZE"), "16");
    assert_string_equal(value_of(&launch->env, "MASTER_ADDR"), "10.0.0.7");
    assert_string_equal(value_of(&launch->env, "MASTER_PORT"), "29507");
    assert_string_equal(value_of(&launch->env, "OMP_NUM_THREADS"), "8");
    assert_string_equal(value_of(&launch->env, "TORCHELASTIC_RESTART_COUNT"), "131");
    assert_string_equal(value_of(&launch->env, "TORCH_NCCL_ASYNC_ERROR_HANDLING"), "1");
    assert_string_equal(value_of(&launch->env, "HOME"), "/home/train");
    assert_string_equal(value_of(&launch->env, "LANG"), "C.UTF-8");
    assert_string_equal(value_of(&launch->env, "TOKEN"), "a=b");
    assert_string_equal(value_of(&launch->env, "KEEPSTEP_RESTORE_STEP"), "184000");
    assert_string_equal(value_of(&launch->env, "KEEPSTEP_RESTORE_ATTEMPT"), "130");
    assert_null(value_of(&launch->env, "SECRET"));
    assert_null(value_of(&launch->env, "KEEPSTEP_COOKIE"));
    const struct shim_launch_rank *rank = &launch->ranks[5];
    assert_int_equal(rank->rank, 29);
    assert_string_equal(value_of(&rank->env, "RANK"), "29");
    assert_string_equal(value_of(&rank->env, "LOCAL_RANK"), "5");
    assert_string_equal(value_of(&rank->env, "KEEPSTEP_TP_RANK"), "5");
    assert_string_equal(value_of(&rank->env, "KEEPSTEP_PP_RANK"), "3");
    assert_string_equal(value_of(&rank->env, "KEEPSTEP_DP_RANK"), "0");
    assert_string_equal(value_of(&rank->env, "KEEPSTEP_MAILBOX"),
                        "/run/mail/job-4.attempt-131.rank-29");
    assert_string_equal(rank->argv.items[1], "--rank=29/5");
    assert_string_equal(rank->argv.items[2], "llama.131");
    assert_string_equal(rank->argv.items[3], "gpu-0007");
    assert_string_equal(rank->argv.items[4], "/ckpt/184000");
    assert_string_equal(rank->argv.items[5], "{other} ${HOME} {");
    assert_string_equal(rank->output, "/state/logs/job-4/attempt-131/rank-29.log");
    assert_string_equal(plan->orders[5].restore_directory, "/ckpt/step-184000.a-130");
    assert_int_equal(plan->orders[5].coordinates.pipeline, 3);
    (void)launch_plan_free(plan);
}

static void test_variants(void **state)
{
    struct err err = {0};
    (void)state;
    struct launch_plan *plan =
        build("{\"run\":{\"command\":[\"x\"],\"output\":\"out-{rank}.txt\",\"compat\":[\"slurm\"]},"
              "\"recovery\":{\"mode\":\"in-process\"}}",
              NULL, &err);
    assert_non_null(plan);
    assert_false(plan->own_output);
    assert_string_equal(plan->launch.ranks[1].output, "out-25.txt");
    assert_string_equal(plan->launch.workdir, "/home/train");
    assert_string_equal(value_of(&plan->launch.ranks[1].env, "SLURM_PROCID"), "25");
    assert_string_equal(value_of(&plan->launch.env, "TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
    assert_string_equal(value_of(&plan->launch.env, "NCCL_NVLS_ENABLE"), "0");
    assert_string_equal(value_of(&plan->launch.env, "OMP_NUM_THREADS"), "1");
    assert_int_equal(plan->launch.core_bytes, 0);
    (void)launch_plan_free(plan);
}

static void test_lone_rank(void **state)
{
    struct msg_desired desired = order();
    struct err err = {0};
    (void)state;
    desired.rank_count = 1;
    struct launch_plan *plan =
        build_for(&desired, "{\"run\":{\"command\":[\"x\"],\"core\":true}}", NULL, &err);
    assert_non_null(plan);
    assert_null(value_of(&plan->launch.env, "OMP_NUM_THREADS"));
    assert_true(plan->launch.core_bytes == UINT64_MAX);
    (void)launch_plan_free(plan);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {
        "{\"run\":{\"command\":[]}}",
        "{\"run\":{\"command\":[1]}}",
        "{\"run\":{\"command\":[\"x\"],\"env\":{\"A\":1}}}",
        "{\"run\":{\"command\":[\"x\"],\"umask\":\"08\"}}",
        "{\"run\":{\"command\":[\"x\"],\"umask\":\"01777\"}}",
        "{\"run\":{\"command\":[\"x\"]},\"run\":{}}",
        "[]",
        "{",
        "",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {0};
        assert_null(build(bad[i], NULL, &err));
        assert_true(err.text[0] != '\0');
    }
}

static void test_coordinates(void **state)
{
    const struct mailbox_coordinates sizes = {.tensor = 2, .context = 3, .pipeline = 5, .data = 7};
    struct mailbox_coordinates at;
    (void)state;
    assert_int_equal(launch_coordinates("tp-cp-pp-dp", 1 + 2 * (2 + 3 * (4 + 5 * 6)), &sizes, &at),
                     0);
    assert_int_equal(at.tensor, 1);
    assert_int_equal(at.context, 2);
    assert_int_equal(at.pipeline, 4);
    assert_int_equal(at.data, 6);
    assert_int_equal(
        launch_coordinates("tp-cp-ep-dp-pp", 1 + 2 * (2 + 3 * (6 + 7 * 4)), &sizes, &at), 0);
    assert_int_equal(at.data, 6);
    assert_int_equal(at.pipeline, 4);
    assert_int_equal(launch_coordinates("tp-cp-pp-dp", 210, &sizes, &at), -EINVAL);
    assert_int_equal(launch_coordinates("tp-cp-pp", 0, &sizes, &at), -EINVAL);
    assert_int_equal(launch_coordinates("tp-tp-pp-dp", 0, &sizes, &at), -EINVAL);
}

static void test_user(void **state)
{
    static const char root[] = "{\"run\":{\"user\":\"root\"}}";
    static const char nobody[] = "{\"run\":{\"user\":\"no-such-user-here\"}}";
    struct launch_spec *spec = NULL;
    struct launch_user user;
    struct err err = {0};
    (void)state;
    assert_int_equal(launch_spec_parse(root, strlen(root), &spec, &err), 0);
    assert_int_equal(launch_spec_user(spec, &user, &err), -EPERM);
    spec = launch_spec_free(spec);
    assert_int_equal(launch_spec_parse(nobody, strlen(nobody), &spec, &err), 0);
    assert_int_equal(launch_spec_user(spec, &user, &err), -ENOENT);
    spec = launch_spec_free(spec);
    if (geteuid() == 0) {
        static const char daemon[] = "{\"run\":{\"user\":\"daemon\"}}";
        assert_int_equal(launch_spec_parse(daemon, strlen(daemon), &spec, &err), 0);
        assert_int_equal(launch_spec_user(spec, &user, &err), 0);
        assert_string_equal(user.name, "daemon");
        assert_true(user.uid != 0);
        spec = launch_spec_free(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torchrun),    cmocka_unit_test(test_variants),
        cmocka_unit_test(test_lone_rank),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_coordinates), cmocka_unit_test(test_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
