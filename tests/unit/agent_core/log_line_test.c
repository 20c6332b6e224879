/* log_line_test.c: every carrier comes off, alone and in others, and nothing else does. */
#include <stdio.h>
#include <string.h>

#include "agent/core/log_line.h"
#include "proto/base/check.h"
#include "tests/lib/test.h"

static struct log_line strip(const char *line)
{
    struct log_line found;
    log_line_strip(line, strlen(line), &found);
    return found;
}

static void check_text(const char *line, const char *expected)
{
    const struct log_line found = strip(line);
    if (found.size != strlen(expected) || memcmp(found.text, expected, found.size) != 0) {
        fail_msg("'%s' left '%.*s', not '%s'", line, (int)found.size, found.text, expected);
    }
}

static void test_carriers(void **state)
{
    static const char *const carriers[] = {
        "",
        "  ",
        "<6>",
        "[  123.456] ",
        "[17.000001] ",
        "[  123.456789][   T12] ",
        "[  123.456789][    C3] ",
        "<4>[  123.456] ",
        "[Sun Feb 23 16:24:18 2025] ",
        "[Sun Feb  2 18:28:55 2025] ",
        "[2025-02-23 16:24:18] ",
        "[2025-02-23T16:24:18.123Z] ",
        "kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ",
        "kern  :err   : [  123.456789] ",
        "kern  :info  : [Sun Feb 23 16:24:18 2025] ",
        "2025-01-21T04:41:44.283302+00:00 node204 kernel: ",
        "2025-01-21T04:41:44.283302+00:00 node204 kernel: [ 912833.118220] ",
        "2025-01-21T04:41:44.283302Z stderr F ",
        "2025-01-21 04:41:44,283 ",
        "Mar 14 10:22:31 node204 kernel: ",
        "Mar  4 10:22:31 gpu-1.example kernel: [912833.118220] ",
        "kernel: ",
        "kernel: [   17.982092] ",
        "[rank5]: ",
        "[rank5]:",
        "[rank5]:[E ProcessGroupNCCL.cpp:1414] ",
        "[rank5]:[E1121 12:33:44.123456789 ProcessGroupNCCL.cpp:607] ",
        "[rank115]:[E207 19:04:38.123186550 ProcessGroupNCCL.cpp:697] ",
        "[W socket.cpp:663] ",
        "12: ",
        "[default3]:",
        "[1,5]<stderr>:",
        "node-2:5776:5902 [0] ",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(carriers); i++) {
        char line[256];
        (void)snprintf(line, sizeof(line), "%sthe message: 12, of it\n", carriers[i]);
        check_text(line, "the message: 12, of it");
    }
}

static void test_raw_records(void **state)
{
    (void)state;
    const struct log_line kernel =
        strip("4,3973,227986636,-;NVRM: Xid\n SUBSYSTEM=pci\n DEVICE=+x");
    assert_true(kernel.kmsg);
    assert_int_equal(kernel.priority, 4);
    assert_int_equal(kernel.facility, 0);
    assert_int_equal(kernel.sequence, 3973);
    assert_int_equal(kernel.usec, 227986636);
    assert_true(kernel.has_uptime);
    assert_int_equal(kernel.uptime_ms, 227986);
    assert_int_equal(kernel.size, strlen("NVRM: Xid"));

    const struct log_line program = strip("12,1,5,c,caller=T77;hello");
    assert_true(program.kmsg);
    assert_int_equal(program.priority, 4);
    assert_int_equal(program.facility, 1);
    check_text("12,1,5,c,caller=T77;hello", "hello");
    check_text("1,2,3;4", "1,2,3;4");
    check_text("6,1,2,-", "6,1,2,-");
}

static void test_who_said_it(void **state)
{
    (void)state;
    assert_int_equal(strip("[rank784]: x").rank, 784);
    assert_int_equal(strip("12: x").rank, 12);
    assert_int_equal(strip("[1,7]<stdout>:x").rank, 7);
    assert_int_equal(strip("[default3]:x").rank, -1);
    assert_int_equal(strip("x").rank, -1);
    const struct log_line nccl = strip("[rank9]: n1:2:3 [4] misc/socket.cc:49 NCCL WARN x");
    assert_int_equal(nccl.rank, 9);
    assert_int_equal(nccl.gpu, 4);
    check_text("1000: [2026-02-02 12:15:56] n1:2:3 [4] misc/socket.cc:49 NCCL WARN x",
               "NCCL WARN x");
    check_text("transport/net_ib.cc:253 NCCL WARN x", "NCCL WARN x");
}

static void test_uptime(void **state)
{
    (void)state;
    assert_int_equal(strip("[   17.982092] x").uptime_ms, 17982);
    assert_int_equal(strip("[   17.9] x").uptime_ms, 17900);
    assert_false(strip("[Sun Feb 23 16:24:18 2025] x").has_uptime);
    assert_false(strip("x").has_uptime);
}

/* What looks like a carrier and is none. */
static void test_what_stays(void **state)
{
    static const char *const lines[] = {
        "[Rank 3] Watchdog caught",
        "[PG ID 0 PG GUID 0(default_pg) Rank 1] Exception",
        "[Errno 28] No space",
        "mlx5_core 0000:41:00.0: x",
        "transport/net_ib.cc:253 says something else",
        "1234567: too long for a task",
        "12:34",
        "<abc>",
        "[12] x",
        "[",
        "kern",
        "2025-13",
        "Mar",
        "node-2:5776",
        "FileNotFoundError: [Errno 2] x",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        check_text(lines[i], lines[i]);
    }
}

/* A time, a host and a tag are taken, the tag of a program stays with what it says. */
static void test_tags_of_programs(void **state)
{
    (void)state;
    check_text("Mar 14 10:22:31 node204 slurmstepd[77]: error: x", "slurmstepd[77]: error: x");
    check_text("Mar 14 10:22:31 no tag here", "no tag here");
}

static void test_ends(void **state)
{
    (void)state;
    check_text("", "");
    check_text("\n", "");
    check_text("[rank5]:", "");
    check_text("kernel: ", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_carriers),    cmocka_unit_test(test_raw_records),
        cmocka_unit_test(test_who_said_it), cmocka_unit_test(test_uptime),
        cmocka_unit_test(test_what_stays),  cmocka_unit_test(test_tags_of_programs),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
