/* options_test.c: flags, the file, and what is refused before anything is opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/io/options.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum { ARGUMENTS_MAX = 12 };

static int parse(const char *const *flags, struct agent_options *options, char problems[1024])
{
    const char *argv[ARGUMENTS_MAX] = {"keepstep-agent"};
    enum options_result result = OPTIONS_RUN;
    int argc = 1;
    while (flags[argc - 1] != NULL) {
        argv[argc] = flags[argc - 1];
        argc++;
    }
    return agent_options_parse(argc, (char **)(uintptr_t)argv, options, &result, problems, 1024);
}

static void test_flags(void **state)
{
    static const char *const flags[] = {"--node=gpu-1",
                                        "--controller",
                                        "127.0.0.1:7444",
                                        "--leaf=l1,l2",
                                        "--gpus=8",
                                        "--validate-programs=/opt/a,/opt/b",
                                        "--fence-after=5m",
                                        "--catalog=/etc/keepstep/site.tsv",
                                        "--peer=a=10.0.0.1:7445,b=[fd00::1]:7446",
                                        NULL};
    struct agent_options options;
    char problems[1024];
    (void)state;
    assert_int_equal(parse(flags, &options, problems), 0);
    assert_string_equal(options.node, "gpu-1");
    assert_string_equal(options.catalog, "/etc/keepstep/site.tsv");
    assert_string_equal(options.controller_host, "127.0.0.1");
    assert_int_equal(options.controller_port, 7444);
    assert_int_equal(options.leaf_count, 2);
    assert_string_equal(options.leaves[1], "l2");
    assert_int_equal(options.gpus, 8);
    assert_string_equal(options.validate_programs[1], "/opt/b");
    assert_string_equal(options.validate_programs[2], "");
    assert_int_equal(options.fence_after_ms, 300000);
    assert_int_equal(options.peer_count, 2);
    assert_string_equal(options.peers[1].address, "fd00::1");
    assert_int_equal(options.peers[1].port, 7446);
    assert_string_equal(options.address, "127.0.0.1");
    assert_int_equal(options.peer_port, 7445);
}

static void test_probe_flags(void **state)
{
    static const char *const flags[] = {"--node=n",          "--controller=127.0.0.1:7444",
                                        "--probes=kmsg",     "--kmsg=/dev/other",
                                        "--kmsg-user=act",   "--port-down=90s",
                                        "--sysfs=/fake/sys", "--leaf=l1,l2",
                                        "--gpus=8",          NULL};
    static const char *const wrong[] = {"--node=n", "--controller=127.0.0.1:7444",
                                        "--kmsg-user=obey", NULL};
    struct agent_options options;
    char problems[1024];
    (void)state;
    assert_int_equal(parse(flags, &options, problems), 0);
    assert_string_equal(options.probes, "kmsg");
    assert_string_equal(options.probe.kmsg, "/dev/other");
    assert_true(options.probe.kmsg_user);
    assert_int_equal(options.probe.port_down_s, 90);
    assert_string_equal(options.probe.sys, "/fake/sys");
    assert_string_equal(options.probe.proc, "/proc");
    assert_string_equal(options.probe.leaves, "l1,l2");
    assert_int_equal(options.probe.gpus, 8);
    assert_int_not_equal(parse(wrong, &options, problems), 0);
    assert_non_null(strstr(problems, "kmsg_user"));
}

static void test_flags_win_over_the_file(void **state)
{
    char path[] = "/tmp/keepstep-agent-options.XXXXXX";
    char config[64];
    struct agent_options options;
    char problems[1024];
    (void)state;
    const int fd = mkstemp(path);
    static const char text[] = "node: from-file\ncontroller: 127.0.0.1:1\nrack: r1\n";
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    (void)text_format(config, sizeof(config), "--config=%s", path);
    const char *const flags[] = {"--node=from-flag", config, NULL};
    assert_int_equal(parse(flags, &options, problems), 0);
    (void)unlink(path);
    assert_string_equal(options.node, "from-flag");
    assert_string_equal(options.labels.rack, "r1");
}

static void test_refusals(void **state)
{
    static const struct {
        const char *flags[4];
        const char *says;
    } cases[] = {
        {{"--node=a", NULL}, "controller"},
        {{"--controller=127.0.0.1", NULL}, "HOST:PORT"},
        {{"--controller=10.0.0.1:7444", "--node=a", NULL}, "--insecure"},
        {{"--controller=127.0.0.1:7444", "--gpus=99", NULL}, "gpus"},
        {{"--controller=127.0.0.1:7444", "--state=relative", NULL}, "absolute"},
        {{"--controller=127.0.0.1:7444", "--validate-programs=check", NULL}, "absolute path"},
        {{"--controller=127.0.0.1:7444", "--validate-programs=/a,,/b", NULL}, "absolute path"},
        {{"--no-such-flag", NULL}, "no such flag"},
        {{"--node", NULL}, "needs a value"},
        {{"word", NULL}, "not a flag"},
        {{"--controller=127.0.0.1:7444", "--crash-at=9", NULL}, "before:N"},
        {{"--config=/no/such/file", NULL}, "/no/such/file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agent_options options;
        char problems[1024];
        assert_true(parse(cases[i].flags, &options, problems) < 0);
        if (strstr(problems, cases[i].says) == NULL) {
            print_error("'%s' does not say '%s'\n", problems, cases[i].says);
            fail();
        }
    }
}

static void test_not_loopback_with_insecure(void **state)
{
    static const char *const flags[] = {"--controller=192.0.2.1:7444", "--node=a", "--insecure",
                                        "--address=192.0.2.9", NULL};
    struct agent_options options;
    char problems[1024];
    (void)state;
    assert_int_equal(parse(flags, &options, problems), 0);
    assert_true(options.insecure);
    assert_true(agent_options_is_loopback("127.8.0.1"));
    assert_false(agent_options_is_loopback("192.0.2.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_probe_flags),
        cmocka_unit_test(test_flags_win_over_the_file),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_not_loopback_with_insecure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
