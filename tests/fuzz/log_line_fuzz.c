/* log_line_fuzz.c: any bytes as a line of a log, for the parsers and for the shipped catalogue:
 * what is found lies within the line, what is told is terminated text, no harmless line is a root,
 * and the same line means the same again. */
#include <string.h>

#include "agent/core/catalog.h"
#include "agent/core/log_line.h"
#include "agent/core/nccl_line.h"
#include "agent/core/nvidia_line.h"
#include "agent/core/oom_line.h"
#include "agent/core/torch_line.h"
#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_alphabet[] = "NVRM: Xid(PC)[]<>|0123456789abcdefx,.;=-_/{}% \n\t";

static const char *const examples[] = {
    "6,3973,227986636,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, gone",
    "kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: Xid (0000:03:00): 31, Ch 0000000b",
    "Mar 14 10:22:31 n4 kernel: [9.1] NVRM: Xid (PCI:0018:01:00 GPU-I:01 GPU-CI:00): 149, "
    "NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0 0x0 0x0 0x0 0x0)",
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain)",
    "NVRM: Xid (PCI:0000:b9:00): 74, pid=1, name=a b, link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, "
    "0x0)",
    "NVRM: Xid (PCI:0000:86:00): 95, pid=1, name=a, Uncontained: LTC (0x2, 0x1). RST: Yes, D-RST: "
    "No",
    "NVRM: Xid (PCI:0000:01:00): 45, pid=1, name=a, Ch 00000001 caused by previous Xid 149",
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress error (First)",
    "NVRM: The NVIDIA GPU 0000:18:00.0|NVRM: fallen off the bus and is not responding",
    "[rank5]:[E1121 12:33:44.123456789 ProcessGroupNCCL.cpp:607] [PG ID 2 PG GUID 5 Rank 5] "
    "Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=49, OpType=BROADCAST, NumelIn=1) || "
    "WorkNCCL(SeqNum=49, OpType=ALLREDUCE, NumelIn=1)",
    "1000: [2026-02-02 12:15:56] n1:2:3 [4] transport/net_ib.cc:253 NCCL WARN NET/IB : Got "
    "completion "
    "from peer 10.40.2.5<33092> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=X(0) vendor_err=129 "
    "hca a",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/"
    "a,task=python3,pid=7,uid=1000",
    "Out of memory: Killed process 2212 (slurmd) total-vm:1kB",
    "pcieport 0000:16:02.0:    [ 5] SDES                   (First)",
    "EDAC MC0: 262 CE memory read error on CPU_SrcID#0 (channel:0 slot:0 - OVERFLOW area:DRAM)",
    " iteration    7/  9 | lm loss: 2.3E+00 | grad norm: 960.412 | number of nan iterations:   0 |",
    "gpu=3 clocks_event_reasons=0x0000000000000048 (hw_slowdown) sm_clock=1005 temp=87",
};

FUZZ_TEXTS(examples)

static const struct catalog *shipped(void)
{
    static struct catalog *catalog;
    if (catalog == NULL) {
        struct catalog_limits limits;
        catalog_limits_default(&limits);
        int result = catalog_create(&limits, &catalog);
        CHECK(result == 0);
        result = catalog_read_shipped(catalog, NULL);
        CHECK(result == 0);
    }
    return catalog;
}

static void check_text(const char *text, size_t size)
{
    CHECK(strnlen(text, size) < size);
    CHECK(text_is_utf8(text, strlen(text)));
}

static void check_strip(const char *line, size_t size)
{
    struct log_line bare;
    log_line_strip(line, size, &bare);
    CHECK(bare.text >= line && bare.text + bare.size <= line + size);
    CHECK(bare.rank >= -1 && bare.gpu >= -1 && bare.priority < 8);
}

static void check_parsers(const char *line, size_t size)
{
    struct nvidia_line nvidia;
    struct nccl_completion completion;
    struct torch_work work;
    struct oom_line oom;
    if (nvidia_line_read(line, size, &nvidia)) {
        CHECK(nvidia.text >= line && nvidia.text + nvidia.text_size <= line + size);
        CHECK(nvidia.word_count <= NVIDIA_WORDS_MAX && nvidia.code <= INT32_MAX);
        check_text(nvidia.pci, sizeof(nvidia.pci));
        check_text(nvidia.process, sizeof(nvidia.process));
        check_text(nvidia.unit, sizeof(nvidia.unit));
    }
    if (nccl_completion_read(line, size, &completion)) {
        CHECK(completion.status >= 0);
        check_text(completion.peer, sizeof(completion.peer));
        check_text(completion.device, sizeof(completion.device));
    }
    if (torch_work_read(line, size, &work)) {
        CHECK(work.sequence >= 0 && work.operation[0] != '\0');
        check_text(work.operation, sizeof(work.operation));
    }
    if (oom_line_read(line, size, &oom)) {
        check_text(oom.victim, sizeof(oom.victim));
    }
}

static void check_signal(const struct signal *signal, bool known)
{
    CHECK(known == (signal->name[0] != '\0'));
    CHECK(known || (signal->label == LABEL_UNKNOWN && signal->role == ROLE_NOISE));
    CHECK(signal->label < signal_label_count && signal->advice < signal_advice_count);
    CHECK(signal->role < signal_role_count);
    CHECK(signal->role < ROLE_ROOT ||
          (signal->label != LABEL_BENIGN && signal->label != LABEL_CASCADE));
    check_text(signal->subject, sizeof(signal->subject));
    check_text(signal->pci, sizeof(signal->pci));
    check_text(signal->operation, sizeof(signal->operation));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *line = (const char *)data;
    check_strip(line, size);
    check_parsers(line, size);
    for (int stream = STREAM_ANY; stream <= STREAM_AGENT; stream++) {
        struct signal signal;
        struct signal again;
        struct fact fact;
        const bool known = catalog_look(shipped(), (enum line_stream)stream, line, size, &signal);
        check_signal(&signal, known);
        CHECK(catalog_look(shipped(), (enum line_stream)stream, line, size, &again) == known);
        CHECK(text_equal(signal.name, again.name) && text_equal(signal.subject, again.subject));
        signal_fact(&signal, (enum line_stream)stream, line, size, &fact);
        check_text(fact.text, sizeof(fact.text));
        CHECK(!signal.from_user || fact.severity == 0);
    }
    return 0;
}
