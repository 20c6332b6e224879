/* controller_config_test.c: defaults, a full file, and what an address may be without a key. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/core/state.h"
#include "controller/io/controller_config.h"
#include "proto/base/text.h"

static struct config_report report;

static int load(const char *text, struct controller_config *config, struct err *err)
{
    char path[] = "/tmp/keepstep-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    int result = controller_config_load(path, config, &report, err);
    (void)unlink(path);
    return result;
}

static void test_defaults(void **state)
{
    (void)state;
    struct controller_config config;
    struct err err = {0};
    assert_int_equal(controller_config_load(NULL, &config, &report, &err), 0);
    assert_string_equal(config.listen_agents, "127.0.0.1:7444");
    assert_string_equal(config.listen_rest, "127.0.0.1:7443");
    assert_string_equal(config.key_file, "");
    assert_false(config.insecure);
    assert_int_equal(config.log_level, LOG_INFO);
    assert_int_equal(config.limits.agents, core_limits_default.agents);
    assert_int_equal(config.limits.facts, core_limits_default.facts);
    assert_int_equal(controller_config_check(&config, &err), 0);
    /* The file's defaults and the core's own must never differ. */
    struct core *core = NULL;
    const struct core_config none = {0};
    assert_int_equal(core_create(&core_limits_default, &none, 1, &core), 0);
    struct core_config filled = *core_config_of(core);
    (void)core_free(core);
    assert_memory_equal(&config.core, &filled, offsetof(struct core_config, fence_hook));
    assert_false(config.core.fence_hook);
}

static void test_full_file(void **state)
{
    (void)state;
    struct controller_config config;
    struct err err = {0};
    assert_int_equal(load("listen:\n  agents: 10.1.2.3:7444\n  rest: \"\"\n"
                          "database: /data/k.db\nkey_file: /etc/keepstep/key\n"
                          "timing:\n  start_grace: 250ms\n  evidence_max: 1m\n"
                          "limits: {agents: 16, jobs: 2}\n"
                          "hooks:\n  fence_node: /usr/local/sbin/fence\n"
                          "  reboot: /usr/local/sbin/cycle\n"
                          "log: {level: debug, format: json}\n",
                          &config, &err),
                     0);
    assert_string_equal(config.listen_agents, "10.1.2.3:7444");
    assert_string_equal(config.listen_rest, "");
    assert_string_equal(config.database, "/data/k.db");
    assert_int_equal(config.core.start_grace_ms, 250);
    assert_int_equal(config.core.evidence_max_ms, 60000);
    assert_true(config.core.fence_hook);
    assert_true(config.core.repair_hooks[HOOK_REBOOT]);
    assert_false(config.core.repair_hooks[HOOK_DIAG]);
    assert_string_equal(config.repair_programs[HOOK_REBOOT], "/usr/local/sbin/cycle");
    assert_int_equal(config.limits.agents, 16);
    assert_int_equal(config.limits.jobs, 2);
    assert_int_equal(config.log_level, LOG_DEBUG);
    assert_true(config.log_json);
    assert_int_equal(controller_config_check(&config, &err), 0);
}

static void test_every_problem_at_once(void **state)
{
    (void)state;
    struct controller_config config;
    struct err err = {0};
    assert_int_equal(load("listen: {agent: x}\ninsecure: maybe\nlimits: {agents: 0}\n"
                          "timing: {beat: soon}\n",
                          &config, &err),
                     -EINVAL);
    assert_int_equal(report.count, 4);
    assert_int_equal(load("rendezvous: {port_low: 3000, port_high: 2000}\n"
                          "hooks: {fence_node: fence, gpu_reset: ./reset, ticket: t}\n",
                          &config, &err),
                     -EINVAL);
    assert_int_equal(report.count, 4);
    assert_int_equal(report.problems[0].line, 1);
    assert_int_equal(controller_config_load("/nonexistent", &config, &report, &err), -ENOENT);
}

static void test_key_or_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        const char *key;
        bool insecure;
        int result;
    } cases[] = {
        {"127.0.0.1:1", "", false, 0},
        {"[::1]:1", "", false, 0},
        {"0.0.0.0:1", "", false, -EINVAL},
        {"[::]:1", "", false, -EINVAL},
        {"0.0.0.0:1", "", true, 0},
        {"0.0.0.0:1", "/key", false, 0},
        {"gpu-0001:1", "/key", true, -EINVAL},
    };
    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        struct controller_config config = {.insecure = cases[index].insecure, .database = "k"};
        struct err err = {0};
        assert_true(
            text_copy(config.listen_agents, sizeof(config.listen_agents), cases[index].address));
        assert_true(text_copy(config.key_file, sizeof(config.key_file), cases[index].key));
        assert_int_equal(controller_config_check(&config, &err), cases[index].result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_full_file),
        cmocka_unit_test(test_every_problem_at_once),
        cmocka_unit_test(test_key_or_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
