/* incident_fuzz.c: any bytes as the rows of incidents, through reader, notation, catalogue, search
 * and judge. */
#include <string.h>

#include "controller/tools/incident_case.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { NODES_TEXT_SIZE = 16384 };

const char fuzz_alphabet[] = "I0123456789\t\n\t =:/.,;()<>[]-+xnodekmsgstderractlp\xff";

#define HEADER "incident\tt_ms\tnode\tstream\tline\n"

static const char *const examples[] = {
    HEADER
    "I\t0\tnode0001\tkmsg\tNVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=a, GPU has fallen off "
    "the bus.\n"
    "I\t5\tnode0002\tstderr\tNCCL WARN socketProgress: Connection closed by remote peer "
    "node0001.ib<9>\n"
    "I\t6\tctl\tctl\tjob 17 attempt 3 ended: rank 9 exit -9\n",
    HEADER "A\t0\tnode0001\tagent\tmlx5_3/1 state=1:DOWN phys_state=3:Disabled link_downed=+1 "
           "leaf=l1\n"
           "A\t9000\tnode0001\tagent\tmlx5_3/1 state=4:ACTIVE phys_state=5:LinkUp link_downed=+0\n"
           "B\t0\tnode0003\tctl\theartbeat missed 3; last_seq=9; bmc=unreachable; rack=r1\n"
           "B\t4\tctl\tctl\tjob 17 step 41207 ok 14.9 s\n",
    HEADER
    "H\t0\tnode0001\tagent\trank=8 comm=tp/1 last_enqueued=5 last_completed=5 state=running\n"
    "H\t0\tnode0001\tagent\trank=9 comm=tp/1 last_enqueued=6 last_completed=5 "
    "state=waiting\n"
    "H\t1\tnode0001\tagent\trank=8 step=4 compute_ms=900 wait_ms=1 "
    "peers_median_compute_ms=400\n"
    "H\t2\tctl\tctl\thash step=9 stage=3 tp=2 majority=a minority dp=1-3 hash=b\n"
    "H\t3\tspare001\tstderr\t[rank9]: Unexpected result nan on rank 9 at iteration #12\n"
    "H\t4\tctl\tctl\tjob 17 stop requested by operator bob\n",
    HEADER "S\t0\tnode0001\tkmsg\tnvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 22003, Fatal, Link 11 "
           "Minion Halt\n"
           "S\t0\tnode0001\tkmsg\tnfs: server 10.9.0.16 not responding, still trying\n"
           "S\t0\tnode0001\tagent\tgpu=2 clocks_event_reasons=0x48 (x) sm_clock=720 temp=88\n"
           "S\t0\tnode0001\tagent\tgpu_count=7 expected=8\n"
           "S\t0\tnode0001\tstderr\t[Rank 0] Watchdog caught collective operation timeout: "
           "WorkNCCL(SeqNum=49, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran\n",
};

FUZZ_TEXTS(examples)

static void ignore(void *context, uint32_t number, const char *text)
{
    CHECK(number > 0 && text[0] != '\0');
    (*(uint64_t *)context)++;
}

/* Of a layout that is small, so that little time goes into the search for who is waited for. */
static struct incident_case *make_case(uint64_t *warnings)
{
    struct catalog_limits limits;
    struct catalog *catalog = NULL;
    struct incident_case *one = NULL;
    struct err err;
    catalog_limits_default(&limits);
    CHECK(catalog_create(&limits, &catalog) == 0);
    CHECK(catalog_read_shipped(catalog, &err) == 0);
    CHECK(incident_case_create(catalog, 8, 4, 4, ignore, warnings, &one, &err) == 0);
    return one;
}

static void check_verdict(const struct incident_case *one)
{
    const struct judge_verdict *v = &one->verdict;
    const char *names[JUDGE_BLAMED_MAX];
    char text[NODES_TEXT_SIZE];
    for (uint32_t index = 0; index < v->blamed_count; index++) {
        names[index] = names_at(&one->nodes, v->blamed[index]);
        CHECK(names[index][0] != '\0');
    }
    CHECK(hostlist_fold(names, v->blamed_count, text, sizeof(text)) < sizeof(text) ||
          v->blamed_count > 1);
    CHECK(v->action != DO_EVICT || v->blamed_count > 0);
    CHECK(text_is_utf8(v->why, strlen(v->why)) && v->why[0] != '\0');
    struct judge_explanation told;
    judge_explain(&one->input, &told);
    CHECK(text_equal(judge_rule_text(told.rule)->name, v->rule));
    for (uint32_t index = 0; index < told.used_count; index++) {
        CHECK(told.used[index] < one->input.fact_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t warnings;
    static struct incident_case *one;
    if (one == NULL) {
        one = make_case(&warnings);
    }
    char *bytes = mem_alloc(size + 1, 1);
    memcpy(bytes, data, size);
    struct incident_file file;
    struct err err;
    if (incident_read(bytes, size, ignore, &warnings, &file, &err) == 0) {
        for (uint32_t first = 0; first < file.count;) {
            uint32_t end = first;
            while (end < file.count && file.rows[end].incident == file.rows[first].incident) {
                end++;
            }
            incident_case_judge(one, &file.rows[first], end - first);
            check_verdict(one);
            first = end;
        }
        incident_file_done(&file);
    }
    mem_free(bytes);
    return 0;
}
