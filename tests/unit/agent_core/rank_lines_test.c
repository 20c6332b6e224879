/* rank_lines_test.c: NCCL's completions, PyTorch's collectives, the kernel's victims. */
#include <string.h>

#include "agent/core/nccl_line.h"
#include "agent/core/oom_line.h"
#include "agent/core/torch_line.h"
#include "proto/base/check.h"
#include "tests/lib/test.h"

static void test_completions(void **state)
{
    static const struct {
        const char *text;
        struct nccl_completion is;
    } cases[] = {
        {"NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
         {.status = 12, .opcode = 1, .vendor = 129}},
        {"NET/IB : Got completion from peer 10.40.2.5<33092> with error 5, opcode 129, len 0, "
         "vendor "
         "err 249 (Recv)",
         {.status = 5, .opcode = 129, .vendor = 249, .peer = "10.40.2.5"}},
        {"NET/IB : Got completion from peer fe80::1%eth0<4> with status=4 opcode=0 len=7 vendor "
         "err "
         "83 (Send) localGid ::ffff:1.2.3.4 remoteGids::ffff:1.2.3.5 hca mlx5_1",
         {.status = 4, .opcode = 0, .vendor = 83, .peer = "fe80::1%eth0", .device = "mlx5_1"}},
        {"NET/IB: Got completion from peer node7.ib<40554> with status=IBV_WC_RETRY_EXC_ERR(12) "
         "opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129  hca mlx5_bond_0",
         {.status = 12, .opcode = 129, .vendor = 129, .peer = "node7.ib", .device = "mlx5_bond_0"}},
        {"Got completion from peer with status=IBV_WC_REM_ACCESS_ERR(10)",
         {.status = 10, .opcode = -1, .vendor = -1}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct nccl_completion found;
        assert_true(nccl_completion_read(cases[i].text, strlen(cases[i].text), &found));
        assert_int_equal(found.status, cases[i].is.status);
        assert_int_equal(found.opcode, cases[i].is.opcode);
        assert_int_equal(found.vendor, cases[i].is.vendor);
        assert_string_equal(found.peer, cases[i].is.peer);
        assert_string_equal(found.device, cases[i].is.device);
    }
}

static void test_other_completions_are_none(void **state)
{
    static const char *const lines[] = {"", "Got completion", "Got completion with error x",
                                        "Got completion from peer a<1> with nothing",
                                        "Got completion with status=NAME("};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct nccl_completion found;
        assert_false(nccl_completion_read(lines[i], strlen(lines[i]), &found));
    }
}

static struct torch_work work_of(const char *text)
{
    struct torch_work work;
    if (!torch_work_read(text, strlen(text), &work)) {
        fail_msg("not read: %s", text);
    }
    return work;
}

static void test_works(void **state)
{
    (void)state;
    const struct torch_work old =
        work_of("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=49, "
                "OpType=BROADCAST, NumelIn=17, NumelOut=1, Timeout(ms)=600000) ran for 1 ms");
    assert_int_equal(old.sequence, 49);
    assert_string_equal(old.operation, "BROADCAST");
    assert_int_equal(old.rank, 3);
    assert_int_equal(old.group, -1);
    assert_int_equal(old.elements, 17);
    assert_int_equal(old.timeout_ms, 600000);
    assert_false(old.differs);
    const struct torch_work new =
        work_of("[PG ID 2 PG GUID 5(tp) Rank 6] Watchdog caught: WorkNCCL(SeqNum=9, "
                "OpType=_ALLGATHER_BASE, NumelIn=1, NumelOut=8, Timeout(ms)=10)");
    assert_int_equal(new.group, 2);
    assert_int_equal(new.rank, 6);
    assert_int_equal(work_of("[PG 4 (dp) Rank 0] WorkNCCL(SeqNum=1, OpType=A)").group, 4);
}

static void test_works_that_differ(void **state)
{
    (void)state;
    assert_true(work_of("[Rank 3] WorkNCCL(SeqNum=49, OpType=BROADCAST, x) || [Rank 0] "
                        "WorkNCCL(SeqNum=49, OpType=ALLREDUCE, x)")
                    .differs);
    assert_false(work_of("[Rank 3] WorkNCCL(SeqNum=49, OpType=BROADCAST, x) || [Rank 0] "
                         "WorkNCCL(SeqNum=49, OpType=BROADCAST, x)")
                     .differs);
    assert_false(work_of("[Rank 3] WorkNCCL(SeqNum=49, OpType=BROADCAST, x) || [Rank 0] "
                         "WorkNCCL(SeqNum=50, OpType=ALLREDUCE, x)")
                     .differs);
}

static void test_other_works_are_none(void **state)
{
    static const char *const lines[] = {"", "WorkNCCL(", "WorkNCCL(SeqNum=x", "WorkNCCL(SeqNum=1",
                                        "WorkNCCL(SeqNum=1, OpType=)"};
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct torch_work work;
        assert_false(torch_work_read(lines[i], strlen(lines[i]), &work));
    }
}

static void test_victims(void **state)
{
    static const struct {
        const char *text;
        struct oom_line is;
    } cases[] = {
        {"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a/"
         "b,task=pt_"
         "data_worker,pid=345646,uid=1000",
         {.of_cgroup = true, .victim = "pt_data_worker", .pid = 345646}},
        {"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/a,task=slurmd,"
         "pid=7,uid=0",
         {.of_cgroup = false, .victim = "slurmd", .pid = 7}},
        {"Memory cgroup out of memory: Killed process 9 (python3) total-vm:1kB",
         {.of_cgroup = true, .victim = "python3", .pid = 9}},
        {"Out of memory: Killed process 2212 (nvidia-fabricma) total-vm:1kB",
         {.of_cgroup = false, .victim = "nvidia-fabricma", .pid = 2212}},
        {"Out of memory: Kill process 2212 (a b) score 9 or sacrifice child",
         {.of_cgroup = false, .victim = "a b", .pid = 2212}},
        {"oom-kill:constraint=", {.pid = -1}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct oom_line found;
        assert_true(oom_line_read(cases[i].text, strlen(cases[i].text), &found));
        assert_int_equal(found.of_cgroup, cases[i].is.of_cgroup);
        assert_string_equal(found.victim, cases[i].is.victim);
        assert_int_equal(found.pid, cases[i].is.pid);
    }
    struct oom_line none;
    assert_false(oom_line_read("Out of memory", 13, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completions),
        cmocka_unit_test(test_other_completions_are_none),
        cmocka_unit_test(test_works),
        cmocka_unit_test(test_works_that_differ),
        cmocka_unit_test(test_other_works_are_none),
        cmocka_unit_test(test_victims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
