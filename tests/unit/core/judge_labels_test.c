/* judge_labels_test.c: the rows of the judge's table that look at labels: one test each, with what
 * must not lead to it, and the order of the facts, which changes nothing. */
#include <stdio.h>
#include <string.h>

#include "controller/core/judge.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum { FACTS_MAX = 600, MARKS_MAX = 16, HOUR_MS = 3600 * 1000, JOB = 7, NODES = 400 };

/* A job of 400 slots on nodes 1..400, 8 ranks each; racks of eight; leaves known for 1..32 only,
 * 16 each. Peers are printed "n-17" or "n-17.ib". */
struct fixture {
    struct fact facts[FACTS_MAX];
    struct judge_past past[8];
    struct judge_mark marks[MARKS_MAX];
    struct judge_input in;
    struct judge_verdict verdict;
    uint64_t now_ms;
};

static uint32_t seen[JUDGE_RULES_MAX];

static int32_t slot_of(const void *context, uint32_t node)
{
    (void)context;
    return node >= 1 && node <= NODES ? (int32_t)node - 1 : -1;
}

static uint32_t rack_of(const void *context, uint32_t node)
{
    (void)context;
    return 1000 + (node - 1) / 8;
}

static uint32_t leaf_of(const void *context, uint32_t node)
{
    (void)context;
    return node <= 32 ? 100 + (node - 1) / 16 : 0;
}

static uint32_t peer_of(const void *context, const char *peer)
{
    (void)context;
    unsigned node = 0;
    return sscanf(peer, "n-%u", &node) == 1 && node <= NODES ? node : 0;
}

static void begin(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->now_ms = 5000;
    f->in = (struct judge_input){.facts = f->facts,
                                 .job = JOB,
                                 .world = NODES * 8,
                                 .slot_count = NODES,
                                 .ranks_per_node = 8,
                                 .replicas = 25,
                                 .step = 100,
                                 .ever_stepped = true,
                                 .past = f->past,
                                 .marks = f->marks,
                                 .slot_of = slot_of,
                                 .rack_of = rack_of,
                                 .leaf_of = leaf_of,
                                 .peer_of = peer_of};
}

static struct fact *add(struct fixture *f, uint8_t source, uint32_t node)
{
    assert_true(f->in.fact_count < FACTS_MAX);
    struct fact *fact = &f->facts[f->in.fact_count++];
    f->now_ms += 10;
    *fact = (struct fact){.source = source,
                          .severity = 2,
                          .node = node,
                          .job = JOB,
                          .rank = -1,
                          .gpu = -1,
                          .port = -1,
                          .receive_ms = f->now_ms};
    return fact;
}

/* A line that a catalogue has read. */
static struct fact *line(struct fixture *f, uint32_t node, const char *signal, const char *label,
                         const char *advice, const char *role, const char *subject)
{
    struct fact *fact = add(f, FACT_LOG, node);
    fact->label = (uint8_t)signal_label_of(label, strlen(label));
    fact->advice = (uint8_t)signal_advice_of(advice, strlen(advice));
    fact->role = (uint8_t)signal_role_of(role, strlen(role));
    fact->severity = signal_severity(fact->label, fact->advice, fact->role);
    int code = 0;
    if (sscanf(signal, "xid-%d", &code) == 1 || sscanf(signal, "sxid-%d", &code) == 1) {
        fact->code = code;
    }
    assert_true(text_copy(fact->signal, sizeof(fact->signal), signal));
    assert_true(text_copy(fact->subject, sizeof(fact->subject), subject));
    assert_true(text_format(fact->text, sizeof(fact->text), "%s %s", signal, subject));
    return fact;
}

/* The lines that the tests speak of most. */
static struct fact *off_bus(struct fixture *f, uint32_t node)
{
    return line(f, node, "xid-79", "hardware-node", "evict_node_reboot", "root", "0000:9b:00");
}

static struct fact *page_fault(struct fixture *f, uint32_t node, const char *device)
{
    return line(f, node, "xid-31", "user-code", "restart_then_fail_job", "root", device);
}

static struct fact *link_lost(struct fixture *f, uint32_t node, const char *device)
{
    return line(f, node, "xid-74", "hardware-node", "evict_node_diag", "root", device);
}

static struct fact *follower(struct fixture *f, uint32_t node)
{
    return line(f, node, "xid-45", "cascade", "follow_root", "cascade", "0000:9b:00");
}

static struct fact *closed(struct fixture *f, uint32_t node, const char *peer)
{
    return line(f, node, "nccl-closed", "cascade", "follow_root", "cascade", peer);
}

static struct fact *broken(struct fixture *f, uint32_t node, const char *peer)
{
    return line(f, node, "nccl-status-12", "network", "restart_in_place", "root", peer);
}

static struct fact *mount(struct fixture *f, uint32_t node, const char *server)
{
    return line(f, node, "nfs-stall", "storage", "hold_job_check_storage", "root", server);
}

static struct fact *reading(struct fixture *f, uint32_t node, const char *name, const char *label,
                            int32_t code, const char *subject)
{
    struct fact *fact = line(f, node, name, label, "degrade_watch", "root", subject);
    fact->source = FACT_PROBE;
    fact->code = code;
    return fact;
}

static struct fact *port(struct fixture *f, uint32_t node, bool up, int32_t count)
{
    return reading(f, node, up ? READING_PORT_UP : READING_PORT_DOWN, "network", count, "mlx5_3/1");
}

static struct fact *end(struct fixture *f, int32_t rank, int32_t code)
{
    struct fact *fact = add(f, FACT_RANK_END, (uint32_t)rank / 8 + 1);
    fact->rank = rank;
    fact->code = code;
    return fact;
}

static struct fact *lost(struct fixture *f, uint32_t node)
{
    return add(f, FACT_CONNECTION, node);
}

static void later(struct fixture *f, uint64_t ms)
{
    f->now_ms += ms;
}

/* One line of what was decided: rule, label and advice, blamed nodes. */
static void expect(struct fixture *f, const char *wanted)
{
    judge(&f->in, &f->verdict);
    const struct judge_verdict *v = &f->verdict;
    char text[512];
    int size = snprintf(text, sizeof(text), "%s: %s, %s,", v->rule,
                        signal_label_word(judge_label_of(v->owner)), signal_advice_word(v->advice));
    for (uint32_t index = 0; index < v->blamed_count && size < 480; index++) {
        size += snprintf(text + size, sizeof(text) - (size_t)size, " %u", v->blamed[index]);
    }
    assert_string_equal(text, wanted);
    assert_true(v->why[0] != '\0');
    struct judge_explanation told;
    judge_explain(&f->in, &told);
    assert_string_equal(judge_rule_text(told.rule)->name, v->rule);
    seen[told.rule]++;
}

static void remember(struct fixture *f, const struct fact *fact, uint64_t age_ms)
{
    f->marks[f->in.mark_count++] = (struct judge_mark){.what = judge_mark_of(fact),
                                                       .is_value = judge_is_value(fact),
                                                       .age_ms = age_ms,
                                                       .node = fact->node,
                                                       .job = JOB};
    assert_true(f->in.mark_count <= MARKS_MAX);
    assert_true(f->marks[f->in.mark_count - 1].what != 0);
}

/* ---- one node ---------------------------------------------------------------------------- */

static void fatal_lines(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    closed(&f, 13, "n-12.ib");
    broken(&f, 14, "n-12");
    follower(&f, 13);
    off_bus(&f, 12);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 12");
    /* what takes most of all that is asked for, whatever its order */
    line(&f, 12, "aer-fatal", "hardware-node", "evict_node", "root", "0000:9a:01.0");
    line(&f, 12, "xid-48", "hardware-node", "evict_node_gpu_reset", "root", "0000:9b:00");
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 12");
    line(&f, 12, "xid-64", "hardware-node", "evict_node_rma", "root", "0000:9b:00");
    expect(&f, "fatal-signal: hardware-node, evict_node_rma, 12");
    /* the driver's own word overrules it */
    line(&f, 12, "recovery-1", "hardware-node", "evict_node_gpu_reset", "root", "0000:9b:00");
    expect(&f, "driver-verdict: hardware-node, evict_node_gpu_reset, 12");
    line(&f, 12, "recovery-2", "hardware-node", "evict_node_reboot", "root", "0000:9b:00");
    expect(&f, "driver-verdict: hardware-node, evict_node_reboot, 12");
    /* the driver that now wants nothing says nothing */
    begin(&f);
    line(&f, 12, "recovery-0", "benign", "none", "noise", "0000:9b:00");
    expect(&f, "harmless: unknown, none,");
    /* a remap and the error that led to it are one event */
    begin(&f);
    line(&f, 3, "xid-63", "hardware-node", "degrade_watch", "root", "0000:cb:00");
    expect(&f, "warning: hardware-node, degrade_watch, 3");
    line(&f, 3, "xid-94", "hardware-node", "evict_node_gpu_reset", "root", "0000:cb:00");
    line(&f, 3, "xid-45", "cascade", "follow_root", "cascade", "0000:cb:00");
    end(&f, 16, 1);
    expect(&f, "fatal-signal: hardware-node, evict_node_gpu_reset, 3");
}

static void software_of_nodes(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 9, "xid-119", "node-software", "evict_node_gpu_reset", "root", "0000:ba:00");
    expect(&f, "fatal-signal: node-software, evict_node_gpu_reset, 9");
    /* the driver's word does not make it hardware; a line about hardware does */
    line(&f, 9, "recovery-2", "hardware-node", "evict_node_reboot", "root", "0000:ba:00");
    expect(&f, "driver-verdict: node-software, evict_node_reboot, 9");
    off_bus(&f, 9);
    expect(&f, "driver-verdict: hardware-node, evict_node_reboot, 9");
    /* two nodes of a rack with a driver that hangs are not the rack's fault */
    begin(&f);
    line(&f, 9, "xid-119", "node-software", "evict_node_gpu_reset", "root", "0000:ba:00");
    line(&f, 10, "xid-119", "node-software", "evict_node_gpu_reset", "root", "0000:ba:00");
    expect(&f, "fatal-signal: node-software, evict_node_gpu_reset, 9 10");
    /* memory that runs out on a third one too is not the nodes' fault, wherever they are */
    begin(&f);
    line(&f, 9, "oom-node", "node-software", "evict_node", "root", "");
    line(&f, 200, "oom-node", "node-software", "evict_node", "root", "");
    expect(&f, "fatal-signal: node-software, evict_node, 9 200");
    line(&f, 300, "oom-node", "node-software", "evict_node", "root", "");
    expect(&f, "same-software: user-code, restart_then_fail_job,");
    assert_int_equal(f.verdict.action, DO_RESTART);
    off_bus(&f, 350); /* but for what is broken besides */
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 9 200 300 350");
    f.in.fact_count--;
    add(&f, FACT_CONNECTION, 350);
    expect(&f, "fatal-signal: node-software, evict_node, 9 200 300 350");
    /* what is in the way of a start is taken away; the node keeps its slot */
    begin(&f);
    line(&f, 40, "port-in-use", "node-software", "clean_node_then_restart", "root", "29700");
    end(&f, 8 * 39, 1);
    closed(&f, 41, "n-40");
    expect(&f, "clean-node: node-software, clean_node_then_restart, 40");
    assert_int_equal(f.verdict.action, DO_RESTART);
    assert_int_equal(f.verdict.lane, LANE_CLEAN);
}

static struct fact *needs_reset(struct fixture *f, uint32_t node)
{
    return reading(f, node, "gpu-needs-reset", "hardware-node", 0, "0000:1b:00");
}

/* What a new driver says of all nodes at once is no fault of all nodes. */
static void wrong_readings(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    for (uint32_t node = 40; node < 70; node += 10) {
        needs_reset(&f, node)->advice = ADVICE_EVICT_RESET;
    }
    expect(&f, "fatal-signal: hardware-node, evict_node_gpu_reset, 40 50 60");
    struct fact *fourth = needs_reset(&f, 70);
    fourth->advice = ADVICE_EVICT_RESET;
    expect(&f, "same-reading: node-software, restart_in_place,");
    assert_int_equal(f.verdict.owner, OWNER_MONITOR);
    assert_int_equal(f.verdict.confidence, CONFIDENCE_LOW);
    f.past[f.in.past_count++] = (struct judge_past){
        .signature = f.verdict.signature, .age_ms = HOUR_MS, .job = JOB, .step = 90};
    judge(&f.in, &f.verdict);
    assert_string_equal(f.verdict.rule, "same-reading");
    assert_int_equal(f.verdict.action, DO_HOLD);
    assert_int_equal(f.verdict.blamed_count, 0);
    f.in.past_count = 0;
    /* of a large job four are too few */
    f.in.slot_count = 500;
    expect(&f, "fatal-signal: hardware-node, evict_node_gpu_reset, 40 50 60 70");
    f.in.slot_count = NODES;
    /* a rank that ended before says that something is broken; one that ended after does not */
    struct fact *ended = end(&f, 39 * 8, -6);
    expect(&f, "same-reading: node-software, restart_in_place,");
    ended->receive_ms = f.facts[0].receive_ms - 1;
    expect(&f, "fatal-signal: hardware-node, evict_node_gpu_reset, 40 50 60 70");
    f.in.fact_count--;
    /* so does a lost node, another line, and a rack of which all are */
    lost(&f, 90);
    expect(&f, "fatal-signal: hardware-node, evict_node_gpu_reset, 40 50 60 70 90");
    f.in.fact_count--;
    off_bus(&f, 90);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 40 50 60 70 90");
    f.in.fact_count--;
    for (uint32_t index = 0; index < 4; index++) {
        f.facts[index].node = 41 + index;
    }
    expect(&f, "fatal-signal: facility, evict_node, 41 42 43 44");
}

static void weak_and_strong(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 77, "pcie-width", "hardware-node", "evict_node_diag", "root", "0000:9c:00.0");
    expect(&f, "fatal-signal: hardware-node, evict_node_diag, 77");
    off_bus(&f, 12);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 12");
    /* a link's code is more than a request to look at the node */
    link_lost(&f, 150, "0000:1b:00");
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 12 150");
}

static void places(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 41, "heat-critical", "facility", "evict_node", "root", "");
    expect(&f, "fatal-signal: facility, evict_node, 41");
    begin(&f);
    off_bus(&f, 41);
    off_bus(&f, 42);
    expect(&f, "fatal-signal: facility, evict_node, 41 42");
    begin(&f);
    off_bus(&f, 1);
    off_bus(&f, 16);
    expect(&f, "fatal-signal: network, evict_node, 1 16");
    begin(&f);
    off_bus(&f, 41);
    off_bus(&f, 242);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 41 242");
}

static void switches(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 33, "sxid-22003", "hardware-node", "evict_node", "root", "0000:c4:00.0");
    expect(&f, "fabric: hardware-node, evict_node_reboot, 33");
    link_lost(&f, 33, "0000:1b:00");
    link_lost(&f, 33, "0000:43:00");
    follower(&f, 33);
    expect(&f, "fabric: hardware-node, evict_node_reboot, 33");
    /* one of the lesser codes needs the GPUs to say it too */
    begin(&f);
    line(&f, 33, "sxid-12001", "hardware-node", "evict_node", "symptom", "0000:c4:00.0");
    expect(&f, "symptom: hardware-node, evict_node, 33");
    link_lost(&f, 33, "0000:1b:00");
    expect(&f, "fatal-signal: hardware-node, evict_node_diag, 33");
    link_lost(&f, 33, "0000:43:00");
    expect(&f, "fabric: hardware-node, evict_node_reboot, 33");
    begin(&f);
    line(&f, 33, "sxid-12028", "hardware-node", "evict_node", "root", "0000:c4:00.0");
    expect(&f, "fatal-signal: hardware-node, evict_node, 33");
    link_lost(&f, 33, "0000:1b:00");
    link_lost(&f, 33, "0000:1b:00");
    expect(&f, "fatal-signal: hardware-node, evict_node_diag, 33");
    link_lost(&f, 33, "0000:43:00");
    expect(&f, "fabric: hardware-node, evict_node_reboot, 33");
    /* links alone: nobody knows which end it is */
    begin(&f);
    link_lost(&f, 33, "0000:1b:00");
    link_lost(&f, 33, "0000:43:00");
    expect(&f, "fatal-signal: hardware-node, evict_node_diag, 33");
    link_lost(&f, 33, "0000:52:00");
    expect(&f, "fatal-signal: hardware-node, evict_node_diag, 33");
    link_lost(&f, 33, "0000:61:00"); /* but not so many at once */
    expect(&f, "fabric: hardware-node, evict_node_reboot, 33");
    /* another node has a fault of its own */
    line(&f, 33, "sxid-22003", "hardware-node", "evict_node", "root", "0000:c4:00.0");
    off_bus(&f, 90);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 33 90");
}

static void repeated_devices(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct fact *fact = page_fault(&f, 7, "0000:1b:00");
    line(&f, 7, "xid-43", "cascade", "follow_root", "cascade", "0000:1b:00");
    expect(&f, "user-error: user-code, restart_then_fail_job,");
    assert_int_equal(f.verdict.action, DO_RESTART);
    remember(&f, fact, 23ull * HOUR_MS);
    expect(&f, "device-repeat: hardware-node, evict_node_diag, 7");
    f.marks[0].age_ms = 24ull * HOUR_MS + 1;
    expect(&f, "user-error: user-code, restart_then_fail_job,");
    f.marks[0].age_ms = HOUR_MS;
    f.marks[0].node = 8; /* on another node's GPU of that address */
    expect(&f, "user-error: user-code, restart_then_fail_job,");
    f.marks[0].node = 7;
    page_fault(&f, 7, "0000:43:00"); /* on others too: not this device */
    expect(&f, "user-fault: user-code, fail_job_user,");
    /* without records of attempts: the silence between them tells */
    begin(&f);
    page_fault(&f, 7, "0000:1b:00");
    later(&f, 100000);
    page_fault(&f, 7, "0000:1b:00");
    expect(&f, "user-error: user-code, restart_then_fail_job,");
    later(&f, 100000);
    page_fault(&f, 7, "0000:1b:00");
    expect(&f, "device-repeat: hardware-node, evict_node_diag, 7");
    /* of an SM exception the subject says where in the GPU */
    begin(&f);
    fact = line(&f, 7, "xid-13", "user-code", "restart_then_fail_job", "root",
                "0000:1b:00 gpc=2 tpc=1");
    remember(&f, fact, HOUR_MS);
    expect(&f, "device-repeat: hardware-node, evict_node_diag, 7");
    (void)text_copy(fact->subject, sizeof(fact->subject), "0000:1b:00 gpc=2 tpc=4");
    expect(&f, "user-error: user-code, restart_then_fail_job,");
}

static void waiting_ranks(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct fact *fact = reading(&f, 81, READING_WAIT_ROOT, "hardware-node", CONFIDENCE_HIGH, "");
    fact->source = FACT_NO_PROGRESS;
    fact->rank = 642;
    line(&f, 80, "torch-watchdog", "cascade", "follow_root", "symptom", "seq=9 op=ALLREDUCE");
    expect(&f, "wait-root: hardware-node, evict_node_diag, 81");
    fact->code = CONFIDENCE_LOW;
    fact->severity = 2;
    expect(&f, "hang: unknown, restart_in_place, 81");
    fact->code = CONFIDENCE_MEDIUM;
    fact->label = LABEL_NETWORK;
    struct fact *other = reading(&f, 300, READING_WAIT_ROOT, "network", CONFIDENCE_MEDIUM, "");
    other->source = FACT_NO_PROGRESS;
    expect(&f, "wait-root: network, restart_in_place, 81 300");
    /* the program said on that node why it stands */
    begin(&f);
    fact = reading(&f, 81, READING_WAIT_ROOT, "hardware-node", CONFIDENCE_HIGH, "");
    line(&f, 81, "python-keyerror", "user-code", "fail_job_user", "root", "");
    expect(&f, "user-error: user-code, fail_job_user,");
    f.facts[1].node = 90; /* later and elsewhere: the ones who wait gave up */
    expect(&f, "wait-root: hardware-node, evict_node_diag, 81");
    f.facts[1].receive_ms = 1;
    expect(&f, "user-error: user-code, fail_job_user,");
}

static void slow_nodes(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    for (uint32_t step = 0; step < 40; step++) {
        reading(&f, 44, READING_SLOW, "hardware-node", step < 10 ? 1050 : 1300, "")->rank = 350;
        reading(&f, 60, READING_SLOW, "hardware-node", step % 5 < 2 ? 1900 : 1000, "")->rank = 472;
    }
    expect(&f, "slow-node: hardware-node, evict_node_diag, 44");
    assert_true(strstr(f.verdict.why, "1.30 times") != NULL);
    f.facts[2 * 10].code = 1100; /* one step less: under three quarters */
    expect(&f, "harmless: unknown, none,");
    /* few steps are believed where the clocks say it too */
    begin(&f);
    reading(&f, 44, READING_SLOW, "hardware-node", 2350, "")->rank = 350;
    reading(&f, 44, READING_SLOW, "hardware-node", 2350, "")->rank = 350;
    expect(&f, "harmless: unknown, none,");
    reading(&f, 44, READING_CLOCKS, "facility", 0x48, "gpu=2");
    expect(&f, "slow-node: hardware-node, evict_node_diag, 44");
    /* neighbours of one rack, and several that are all held back: their air, or their power */
    reading(&f, 43, READING_SLOW, "hardware-node", 1500, "")->rank = 43 * 8;
    reading(&f, 43, READING_CLOCKS, "facility", 0x48, "gpu=2");
    expect(&f, "slow-node: facility, evict_node, 43 44");
    reading(&f, 300, READING_SLOW, "hardware-node", 1500, "")->rank = 300 * 8;
    reading(&f, 300, READING_CLOCKS, "facility", 0x48, "gpu=2");
    expect(&f, "clocks: facility, degrade_watch, 43 44 300");
    /* half the job: it is what they run */
    for (uint32_t node = 50; node < 70; node++) {
        for (uint32_t step = 0; step < 4; step++) {
            reading(&f, node, READING_SLOW, "hardware-node", 1500, "")->rank = (int32_t)node * 8;
        }
    }
    judge(&f.in, &f.verdict);
    assert_int_equal(f.verdict.action, DO_NONE);
}

static void different_hashes(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    reading(&f, 236, READING_HASH, "hardware-node", 1, "step=400 stage=3 tp=2");
    expect(&f, "hash-minority: hardware-node, evict_node_diag, 236");
    reading(&f, 236, READING_HASH, "hardware-node", 1, "step=500 stage=3 tp=2");
    reading(&f, 12, READING_HASH, "hardware-node", 1, "step=500 stage=3 tp=2");
    expect(&f, "hash-minority: hardware-node, evict_node_diag, 12 236");
    for (uint32_t node = 0; node < 7; node++) { /* nine of 25 */
        reading(&f, 20 + node * 16, READING_HASH, "hardware-node", 1, "step=600 stage=3 tp=2");
        if (node == 5) {
            expect(&f, "hash-minority: hardware-node, evict_node_diag, 12 20 36 52 68 84 100 236");
        }
    }
    reading(&f, 332, READING_HASH, "hardware-node", 1, "step=600 stage=3 tp=2");
    reading(&f, 348, READING_HASH, "hardware-node", 1, "step=600 stage=3 tp=2");
    expect(&f, "hash-minority: user-code, fail_job_user,");
    assert_true(f.verdict.retry);
}

static void symptoms(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 5, "xid-171", "hardware-node", "evict_node_gpu_reset", "symptom", "0000:56:00");
    expect(&f, "symptom: hardware-node, evict_node_gpu_reset, 5");
    off_bus(&f, 6);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 6");
    /* a probe that does not come back, while the job moves on */
    begin(&f);
    line(&f, 5, "nvml-stuck", "hardware-node", "evict_node_gpu_reset", "symptom", "")->source =
        FACT_PROBE;
    expect(&f, "symptom: hardware-node, evict_node_gpu_reset, 5");
    reading(&f, 0, READING_STEP, "benign", 0, "")->severity = 0;
    expect(&f, "symptom: hardware-node, degrade_watch, 5");
    assert_int_equal(f.verdict.action, DO_NONE);
    begin(&f);
    line(&f, 5, "worker-killed", "user-code", "restart_then_fail_job", "symptom", "");
    expect(&f, "symptom: user-code, restart_then_fail_job,");
    begin(&f);
    line(&f, 5, "user-killed", "user-code", "fail_job_user", "symptom", "");
    expect(&f, "symptom: user-code, fail_job_user,");
}

/* What a program wrote into the kernel's log is shown and never acted on. */
static void written_by_hand(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    off_bus(&f, 12)->severity = 0;
    expect(&f, "harmless: unknown, none,");
    end(&f, 0, -9);
    expect(&f, "first-exit: unknown, restart_in_place, 1");
    assert_int_equal(judge_mark_of(&f.facts[0]), 0);
}

/* ---- the program ------------------------------------------------------------------------- */

static void user_errors(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 5, "oom-job", "user-code", "restart_then_fail_job", "root", "python3");
    end(&f, 32, -9);
    expect(&f, "user-error: user-code, restart_then_fail_job,");
    assert_int_equal(f.verdict.action, DO_RESTART);
    /* a second time */
    f.past[0] = (struct judge_past){
        .signature = f.verdict.signature, .job = JOB, .age_ms = 1000, .slot = -1};
    f.in.past_count = 1;
    expect(&f, "user-error: user-code, fail_job_user,");
    assert_true(f.verdict.retry);
    f.in.past_count = 0;
    /* on several nodes */
    line(&f, 6, "oom-job", "user-code", "restart_then_fail_job", "root", "python3");
    expect(&f, "user-error: user-code, fail_job_user,");
    /* one that cannot help itself */
    begin(&f);
    line(&f, 5, "python-keyerror", "user-code", "fail_job_user", "root", "");
    end(&f, 32, 1);
    expect(&f, "user-error: user-code, fail_job_user,");
    /* hardware explains it */
    off_bus(&f, 5);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 5");
    /* several devices at once */
    begin(&f);
    page_fault(&f, 7, "0000:1b:00");
    page_fault(&f, 7, "0000:1b:00");
    expect(&f, "user-error: user-code, restart_then_fail_job,");
    page_fault(&f, 7, "0000:43:00");
    expect(&f, "user-fault: user-code, fail_job_user,");
    page_fault(&f, 388, "0000:43:00");
    expect(&f, "user-fault: user-code, fail_job_user,");
    off_bus(&f, 8);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 8");
}

static struct fact *timeout(struct fixture *f, int32_t rank, const char *subject)
{
    struct fact *fact = line(f, (uint32_t)rank / 8 + 1, "torch-watchdog", "cascade", "follow_root",
                             "symptom", subject);
    fact->rank = rank;
    return fact;
}

static void different_operations(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    timeout(&f, 0, "seq=49 op=BROADCAST");
    timeout(&f, 0, "seq=49 op=ALLREDUCE"); /* of another communicator, then */
    expect(&f, "no-evidence: unknown, restart_in_place,");
    begin(&f);
    timeout(&f, 0, "seq=49 op=ALLREDUCE");
    timeout(&f, 3, "seq=49 op=ALLREDUCE");
    timeout(&f, 3, "seq=50 op=BROADCAST");
    timeout(&f, 4, "seq=49 op=RECV");
    expect(&f, "no-evidence: unknown, restart_in_place,");
    struct fact *fact = timeout(&f, 900, "seq=49 op=_ALLGATHER_BASE");
    expect(&f, "operation-mismatch: user-code, fail_job_user,");
    (void)text_copy(fact->subject, sizeof(fact->subject), "seq=49 op=_ALLGATHER_BASE pg=3");
    expect(&f, "no-evidence: unknown, restart_in_place,");
    timeout(&f, 901, "seq=49 op=ALLREDUCE pg=31");
    expect(&f, "no-evidence: unknown, restart_in_place,");
    timeout(&f, 902, "seq=49 op=ALLREDUCE pg=3");
    expect(&f, "operation-mismatch: user-code, fail_job_user,");
    assert_string_equal(f.verdict.why,
                        "ranks 900 and 902 are in different collectives: seq=49 op=_ALLGATHER_BASE "
                        "pg=3; seq=49 op=ALLREDUCE pg=3");
    off_bus(&f, 8);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 8");
}

static struct fact *nan_at(struct fixture *f, uint32_t node, const char *subject)
{
    return line(f, node, "nan-loss", "transient", "degrade_watch", "root", subject);
}

static void same_values(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    nan_at(&f, 5, "step=41200 value=nan");
    expect(&f, "warning: unknown, degrade_watch, 5"); /* it only asks for a look */
    later(&f, 200000);
    nan_at(&f, 5, "step=41200 value=nan");
    expect(&f, "warning: unknown, degrade_watch, 5");
    struct fact *fact = nan_at(&f, 9, "step=41200 value=nan");
    expect(&f, "same-value: user-code, fail_job_user,");
    /* the same, from records of the attempts */
    struct fact past = *fact;
    past.node = 300;
    begin(&f);
    fact = nan_at(&f, 9, "step=41200 value=nan");
    remember(&f, &past, HOUR_MS);
    expect(&f, "same-value: user-code, fail_job_user,");
    /* another value there: the first node made it */
    (void)text_copy(fact->subject, sizeof(fact->subject), "step=41200 value=960.4");
    expect(&f, "same-value: hardware-node, evict_node_diag, 300");
    f.marks[0].job = JOB + 1;
    expect(&f, "warning: unknown, degrade_watch, 9");
}

static void reruns(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct fact *fact =
        line(&f, 300, "torch-rerun-persistent", "hardware-node", "evict_node_diag", "symptom", "");
    expect(&f, "symptom: hardware-node, evict_node_diag, 300");
    f.past[0] = (struct judge_past){.job = JOB, .age_ms = 1000, .node = 5, .slot = -1};
    f.in.past_count = 1;
    expect(&f, "symptom: hardware-node, evict_node_diag, 300");
    f.past[0].moved = true;
    expect(&f, "rerun: hardware-node, evict_node_diag, 5");
    f.past[0].node = 300; /* it was not moved after all */
    expect(&f, "symptom: hardware-node, evict_node_diag, 300");
    f.past[0].node = 5;
    f.past[0].age_ms = 25ull * HOUR_MS;
    expect(&f, "symptom: hardware-node, evict_node_diag, 300");
    f.past[0].age_ms = HOUR_MS;
    *fact =
        *line(&f, 300, "torch-rerun-correct", "user-code", "restart_then_fail_job", "symptom", "");
    f.in.fact_count = 1;
    end(&f, 2400, 17);
    expect(&f, "rerun: user-code, fail_job_user,");
}

/* ---- around the nodes -------------------------------------------------------------------- */

static void stopped_on_purpose(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    follower(&f, 5);
    end(&f, 0, -15);
    reading(&f, 0, READING_STOP, "operator", 0, "alice");
    line(&f, 5, "python-keyerror", "user-code", "fail_job_user", "root", "");
    expect(&f, "stop-asked: operator, stop_expected,");
    assert_int_equal(f.verdict.action, DO_NONE);
    f.facts[3].receive_ms = 1; /* the reason for the stop, maybe; not explained by it */
    expect(&f, "user-error: user-code, fail_job_user,");
    f.facts[3].receive_ms = 9000;
    off_bus(&f, 12); /* no stop does that */
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 12");
    /* nobody is known to have asked for it */
    begin(&f);
    line(&f, 5, "torchrun-signal", "operator", "stop_expected", "symptom", "");
    follower(&f, 6);
    expect(&f, "told-to-end: operator, stop_expected,");
    end(&f, 0, -15);
    expect(&f, "first-exit: unknown, restart_in_place, 1");
    /* told too late by a little: still its cause */
    begin(&f);
    line(&f, 5, "torch-loader-signal", "user-code", "restart_then_fail_job", "root", "");
    later(&f, 4000);
    reading(&f, 0, READING_STOP, "operator", 0, "alice");
    expect(&f, "stop-asked: operator, stop_expected,");
    /* a rank that had ended long before was not stopped */
    begin(&f);
    end(&f, 0, 1);
    later(&f, 6000);
    reading(&f, 0, READING_STOP, "operator", 0, "alice");
    expect(&f, "first-exit: unknown, restart_in_place, 1");
}

static void blind(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    for (uint32_t node = 1; node < 60; node += 6) {
        reading(&f, node, READING_NONE, "node-software", 0, "nvml");
    }
    expect(&f, "blind-monitor: node-software, none,");
    reading(&f, 0, READING_STEP, "benign", 0, "")->severity = 0;
    expect(&f, "blind-monitor: node-software, none,");
    end(&f, 0, 1);
    expect(&f, "first-exit: unknown, restart_in_place, 1");
    /* one reading on many nodes at once, and the job makes steps */
    begin(&f);
    for (uint32_t node = 1; node < 60; node += 20) {
        line(&f, node, "gpu-count", "hardware-node", "evict_node_reboot", "root", "7")->source =
            FACT_PROBE;
    }
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 1 21 41");
    reading(&f, 0, READING_STEP, "benign", 0, "")->severity = 0;
    expect(&f, "blind-monitor: node-software, none,");
    f.facts[1].source = FACT_LOG;
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 1 21 41");
    f.facts[1].source = FACT_PROBE;
    f.facts[1].node = 1;
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 1 41");
    /* agents that are silent: by the steps */
    begin(&f);
    for (uint32_t node = 41; node < 49; node++) {
        lost(&f, node);
    }
    expect(&f, "lost-together: facility, evict_node, 41 42 43 44 45 46 47 48");
    reading(&f, 0, READING_STEP, "benign", 0, "")->severity = 0;
    expect(&f, "blind-monitor: node-software, none,");
    f.facts[8].receive_ms = 1; /* before they fell silent */
    expect(&f, "lost-together: facility, evict_node, 41 42 43 44 45 46 47 48");
}

static void lost_nodes(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct fact *fact = lost(&f, 200);
    expect(&f, "node-lost: hardware-node, evict_node_reboot, 200");
    (void)text_copy(fact->signal, sizeof(fact->signal), READING_BEATS);
    (void)text_copy(fact->subject, sizeof(fact->subject), "bmc=unreachable");
    expect(&f, "node-lost: hardware-node, evict_node, 200");
    line(&f, 200, "panic", "hardware-node", "evict_node", "root", "");
    expect(&f, "fatal-signal: hardware-node, evict_node, 200");
    /* several racks of one feed or one pipe */
    begin(&f);
    lost(&f, 41);
    lost(&f, 42);
    lost(&f, 97);
    expect(&f, "node-lost: hardware-node, evict_node_reboot, 41 42 97");
    lost(&f, 98);
    expect(&f, "lost-together: facility, evict_node, 41 42 97 98");
    lost(&f, 300);
    expect(&f, "lost-together: facility, evict_node, 41 42 97 98 300");
    lost(&f, 350);
    expect(&f, "node-lost: hardware-node, evict_node_reboot, 41 42 97 98 300 350");
    /* in one slot on three nodes */
    begin(&f);
    lost(&f, 200);
    expect(&f, "node-lost: hardware-node, evict_node_reboot, 200");
    for (uint32_t past = 0; past < 2; past++) {
        f.past[past] = (struct judge_past){.signature = f.verdict.signature,
                                           .job = JOB,
                                           .age_ms = 1000,
                                           .node = 500 + past,
                                           .step = 7 + past,
                                           .slot = 199};
    }
    f.in.past_count = 1;
    expect(&f, "node-lost: hardware-node, evict_node_reboot, 200");
    f.in.past_count = 2;
    expect(&f, "poison: user-code, fail_job_user, 200");
    f.past[1].slot = 198;
    expect(&f, "node-lost: hardware-node, evict_node_reboot, 200");
}

static void storage(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    mount(&f, 5, "10.9.0.16");
    expect(&f, "storage: storage, hold_job_check_storage,");
    for (uint32_t node = 20; node < 26; node++) {
        mount(&f, node, "10.9.0.16");
    }
    lost(&f, 22); /* an agent whose files do not answer */
    expect(&f, "storage-many: storage, hold_job_check_storage,");
    f.facts[7].receive_ms = 1;
    expect(&f, "node-lost: hardware-node, evict_node_reboot, 22");
    begin(&f);
    line(&f, 2, "quota", "storage", "hold_job_check_storage", "root", "/ckpt/run17");
    line(&f, 2, "python-keyerror", "user-code", "fail_job_user", "root", "");
    expect(&f, "storage: storage, hold_job_check_storage,");
    /* a process that hangs on one node alone, and one that stands for storage */
    begin(&f);
    struct fact *hung =
        line(&f, 9, "hung-task", "storage", "hold_job_check_storage", "symptom", "pt_main_thread");
    expect(&f, "storage: hardware-node, evict_node, 9");
    line(&f, 10, "hung-task", "storage", "hold_job_check_storage", "symptom", "pt_main_thread");
    expect(&f, "storage-many: storage, hold_job_check_storage,");
    f.in.fact_count = 1;
    (void)text_copy(hung->subject, sizeof(hung->subject), "jfsmount");
    expect(&f, "storage: storage, hold_job_check_storage,");
    (void)text_copy(hung->subject, sizeof(hung->subject), "pt_main_thread");
    mount(&f, 9, "10.9.0.16");
    expect(&f, "storage: storage, hold_job_check_storage,");
    begin(&f);
    line(&f, 2, "bad-bytes", "storage", "restart_in_place", "root", "");
    expect(&f, "storage: storage, restart_in_place,");
}

static void ports(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    port(&f, 55, false, 1);
    line(&f, 55, "nccl-port-error", "network", "degrade_watch", "root", "mlx5_3:1");
    broken(&f, 61, "n-55");
    expect(&f, "port: network, evict_node, 55"); /* and it is still down */
    later(&f, 6000);
    port(&f, 55, true, 0);
    expect(&f, "port: network, restart_in_place, 55");
    /* long away */
    f.facts[3].receive_ms = f.facts[0].receive_ms + 29999;
    expect(&f, "port: network, restart_in_place, 55");
    f.facts[3].receive_ms += 1;
    expect(&f, "port: network, evict_node, 55");
    /* twice in five minutes; another port of the node is another port */
    begin(&f);
    port(&f, 55, false, 1);
    port(&f, 55, true, 0);
    later(&f, 5 * 60 * 1000 - 20);
    struct fact *fact = port(&f, 55, false, 1);
    struct fact *up = port(&f, 55, true, 0);
    expect(&f, "port: network, evict_node, 55");
    fact->receive_ms += 1;
    expect(&f, "port: network, restart_in_place, 55");
    fact->receive_ms -= 1;
    (void)text_copy(fact->subject, sizeof(fact->subject), "mlx5_4/1");
    (void)text_copy(up->subject, sizeof(up->subject), "mlx5_4/1");
    expect(&f, "port: network, restart_in_place, 55");
    /* three in an hour, some of them remembered */
    begin(&f);
    fact = port(&f, 55, false, 0);
    port(&f, 55, true, 1);
    remember(&f, fact, 50 * 60 * 1000);
    expect(&f, "port: network, restart_in_place, 55");
    remember(&f, fact, 59 * 60 * 1000);
    expect(&f, "port: network, evict_node, 55");
    f.marks[1].age_ms = 61 * 60 * 1000;
    expect(&f, "port: network, restart_in_place, 55");
    f.marks[1].age_ms = 60 * 1000;
    expect(&f, "port: network, evict_node, 55");
    /* one reading may tell of more, also of ones that were over before it */
    begin(&f);
    port(&f, 55, true, 1);
    expect(&f, "port: network, restart_in_place, 55");
    port(&f, 55, true, 2);
    expect(&f, "port: network, evict_node, 55");
    begin(&f);
    port(&f, 55, true, 0);
    expect(&f, "warning: network, degrade_watch, 55");
    /* nobody uses it */
    begin(&f);
    port(&f, 55, false, 1);
    reading(&f, 0, READING_STEP, "benign", 0, "")->severity = 0;
    expect(&f, "port: network, degrade_watch, 55");
    broken(&f, 61, "n-55");
    expect(&f, "port: network, evict_node, 55");
}

static void leaves(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    port(&f, 3, false, 1);
    port(&f, 9, false, 1);
    expect(&f, "leaf: network, hold_job_check_network,");
    f.facts[1].node = 17; /* another leaf */
    expect(&f, "port: network, evict_node, 3 17");
    /* a leaf that the reading names */
    (void)text_copy(f.facts[0].subject, SIGNAL_SUBJECT_SIZE, "mlx5_0/1 leaf=l-4");
    (void)text_copy(f.facts[1].subject, SIGNAL_SUBJECT_SIZE, "mlx5_0/1 leaf=l-4");
    expect(&f, "leaf: network, hold_job_check_network,");
    port(&f, 3, true, 0);
    port(&f, 17, true, 0);
    (void)text_copy(f.facts[2].subject, SIGNAL_SUBJECT_SIZE, "mlx5_0/1");
    (void)text_copy(f.facts[3].subject, SIGNAL_SUBJECT_SIZE, "mlx5_0/1 leaf=l-4");
    expect(&f, "leaf: network, restart_in_place,");
    /* four nodes, wherever they are */
    begin(&f);
    port(&f, 100, false, 1);
    port(&f, 200, false, 1);
    port(&f, 300, false, 1);
    expect(&f, "port: network, evict_node, 100 200 300");
    port(&f, 350, false, 1);
    expect(&f, "leaf: network, hold_job_check_network,");
    off_bus(&f, 60);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 60");
}

static void network_lines(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 100, "cable-hot", "network", "evict_node_diag", "root", "0000:5c:00.0");
    broken(&f, 61, "n-100");
    expect(&f, "network: network, evict_node_diag, 100");
    line(&f, 200, "cable-hot", "network", "evict_node_diag", "root", "0000:5c:00.0");
    line(&f, 300, "cable-hot", "network", "evict_node_diag", "root", "0000:5c:00.0");
    expect(&f, "network: network, evict_node_diag, 100 200 300");
    line(&f, 350, "cable-hot", "network", "evict_node_diag", "root", "0000:5c:00.0");
    expect(&f, "network: network, hold_job_check_network,");
}

static void broken_pairs(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    broken(&f, 61, "n-55.ib");
    broken(&f, 55, "n-61.ib");
    expect(&f, "peers: network, restart_in_place, 55 61");
    line(&f, 55, "nccl-async-event", "network", "degrade_watch", "root", "mlx5_3:1");
    expect(&f, "peers: network, restart_in_place, 55");
    line(&f, 61, "nccl-async-event", "network", "degrade_watch", "root", "mlx5_3:1");
    expect(&f, "peers: network, restart_in_place, 55 61");
    f.past[0] = (struct judge_past){
        .signature = f.verdict.signature, .job = JOB, .age_ms = 1000, .slot = -1};
    f.in.past_count = 1;
    expect(&f, "peers: network, evict_node_diag, 55 61");
    f.in.past_count = 0;
    broken(&f, 300, "n-55");
    expect(&f, "peers: network, evict_node_diag, 55");
    broken(&f, 55, "n-2");
    expect(&f, "peers: network, evict_node_diag, 55");
    broken(&f, 9, "n-8");
    expect(&f, "peers: network, hold_job_check_network,");
    /* a peer of no known name */
    begin(&f);
    broken(&f, 61, "10.40.0.55");
    expect(&f, "peers: network, restart_in_place, 61");
    broken(&f, 62, "10.40.0.55");
    expect(&f, "peers: network, restart_in_place,");
    /* a rank that crashed takes its connections with it */
    begin(&f);
    end(&f, 54 * 8, -11);
    broken(&f, 61, "n-55");
    broken(&f, 62, "n-55");
    expect(&f, "first-exit: unknown, restart_in_place, 55");
}

static void followers(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    closed(&f, 61, "n-55.ib");
    expect(&f, "no-evidence: unknown, restart_in_place,");
    closed(&f, 62, "n-55.ib");
    follower(&f, 61);
    expect(&f, "named-by-peers: unknown, restart_in_place, 55");
    closed(&f, 70, "n-71.ib");
    expect(&f, "no-evidence: unknown, restart_in_place,");
    struct judge_explanation told;
    judge_explain(&f.in, &told);
    assert_int_equal(told.followers, 4);
}

/* A warning stops nothing; when a rank ends there, it is what is known of that node. */
static void degraded_nodes(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    line(&f, 5, "api-mismatch", "node-software", "degrade_watch", "root", "");
    line(&f, 9, "xid-63", "hardware-node", "degrade_watch", "root", "0000:cb:00");
    expect(&f, "warning: node-software, degrade_watch, 5 9");
    end(&f, 8 * 4, 1);
    expect(&f, "degraded-node: node-software, evict_node_diag, 5");
    f.facts[2].node = 7;
    expect(&f, "first-exit: unknown, restart_in_place, 7");
}

static void clocks(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    reading(&f, 41, READING_CLOCKS, "facility", 0x88, "gpu=0");
    expect(&f, "clocks: facility, degrade_watch, 41");
    assert_int_equal(f.verdict.confidence, CONFIDENCE_LOW); /* one node may run hot by itself */
    begin(&f);
    for (uint32_t node = 41; node < 49; node++) {
        reading(&f, node, READING_CLOCKS, "facility", 0x88, "gpu=0");
        reading(&f, node, READING_CLOCKS, "facility", 0x88, "gpu=1");
    }
    expect(&f, "clocks: facility, degrade_watch, 41 42 43 44 45 46 47 48");
    assert_int_equal(f.verdict.confidence, CONFIDENCE_HIGH);
    off_bus(&f, 60);
    expect(&f, "fatal-signal: hardware-node, evict_node_reboot, 60");
}

/* ---- why --------------------------------------------------------------------------------- */

static void explained(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    page_fault(&f, 7, "0000:1b:00");
    line(&f, 7, "xid-43", "cascade", "follow_root", "cascade", "0000:1b:00");
    line(&f, 9, "boot", "benign", "none", "noise", "");
    end(&f, 3, 1);
    struct judge_explanation told;
    judge_explain(&f.in, &told);
    assert_string_equal(judge_rule_text(told.rule)->name, "user-error");
    assert_int_equal(told.used_count, 1);
    assert_int_equal(told.used[0], 0);
    assert_int_equal(told.followers, 1);
    assert_int_equal(told.noise, 1);
    for (uint32_t rule = 0; rule < told.rule; rule++) {
        const char *name = judge_rule_text(rule)->name;
        bool near = text_equal(name, "user-fault") || text_equal(name, "device-repeat") ||
                    text_equal(name, "load-failed");
        assert_int_equal(told.seen[rule], near ? 1 : 0);
    }
}

/* ---- whatever comes in ------------------------------------------------------------------- */

static void random_fact(struct prng *prng, struct fixture *f)
{
    static const struct {
        const char *signal, *label, *advice, *role, *subject;
    } kinds[] = {
        {"xid-79", "hardware-node", "evict_node_reboot", "root", "0000:9b:00"},
        {"recovery-1", "hardware-node", "evict_node_gpu_reset", "root", "0000:9b:00"},
        {"sxid-22003", "hardware-node", "evict_node", "root", "0000:c4:00.0"},
        {"xid-74", "hardware-node", "evict_node_diag", "root", "0000:9b:00"},
        {"xid-31", "user-code", "restart_then_fail_job", "root", "0000:9b:00"},
        {"xid-31", "user-code", "restart_then_fail_job", "root", "0000:1b:00"},
        {"xid-45", "cascade", "follow_root", "cascade", "0000:9b:00"},
        {"nccl-closed", "cascade", "follow_root", "cascade", "n-2"},
        {"nccl-status-12", "network", "restart_in_place", "root", "n-2"},
        {"nccl-status-12", "network", "restart_in_place", "root", "n-3"},
        {"cable-hot", "network", "evict_node_diag", "root", "0000:5c:00.0"},
        {"nfs-stall", "storage", "hold_job_check_storage", "root", "10.0.0.1"},
        {"port-in-use", "node-software", "clean_node_then_restart", "root", "29700"},
        {"python-keyerror", "user-code", "fail_job_user", "root", ""},
        {"xid-171", "hardware-node", "evict_node_gpu_reset", "symptom", "0000:56:00"},
        {"nan-loss", "transient", "degrade_watch", "root", "step=4 value=nan"},
        {"torch-watchdog", "cascade", "follow_root", "symptom", "seq=9 op=ALLREDUCE"},
        {"torch-watchdog", "cascade", "follow_root", "symptom", "seq=9 op=BROADCAST"},
        {"noise", "benign", "none", "noise", ""},
        {READING_PORT_DOWN, "network", "degrade_watch", "root", "mlx5_3/1"},
        {READING_PORT_UP, "network", "degrade_watch", "root", "mlx5_3/1"},
        {READING_NONE, "node-software", "degrade_watch", "root", "nvml"},
        {READING_CLOCKS, "facility", "degrade_watch", "root", "gpu=2"},
        {READING_STEP, "benign", "none", "root", ""},
        {READING_SLOW, "hardware-node", "degrade_watch", "root", ""},
        {READING_HASH, "hardware-node", "degrade_watch", "root", "step=1 stage=1 tp=0"},
        {READING_STOP, "operator", "stop_expected", "root", ""},
    };
    static const uint8_t sources[] = {FACT_CONNECTION, FACT_RANK_END, FACT_NO_PROGRESS};
    uint32_t drawn = (uint32_t)prng_below(prng, ARRAY_SIZE(kinds) + 6);
    uint32_t node = (uint32_t)prng_between(prng, 1, 4) * (prng_below(prng, 2) == 0 ? 1 : 40);
    if (drawn >= ARRAY_SIZE(kinds)) {
        struct fact *fact = add(f, sources[drawn % 3], node);
        fact->code = prng_below(prng, 2) == 0 ? 1 : -9;
        fact->rank = (int32_t)node * 8;
        fact->receive_ms = 5000 + prng_below(prng, 3);
        return;
    }
    struct fact *fact = line(f, node, kinds[drawn].signal, kinds[drawn].label, kinds[drawn].advice,
                             kinds[drawn].role, kinds[drawn].subject);
    fact->rank = (int32_t)(node * 8 + prng_below(prng, 2));
    fact->code = fact->code == 0 ? (int32_t)prng_below(prng, 3) * 700 : fact->code;
    fact->receive_ms = 5000 + prng_below(prng, 3) * 100000;
}

static void shuffle(struct prng *prng, struct fixture *f)
{
    for (uint32_t index = f->in.fact_count; index > 1; index--) {
        uint32_t other = (uint32_t)prng_below(prng, index);
        struct fact kept = f->facts[index - 1];
        f->facts[index - 1] = f->facts[other];
        f->facts[other] = kept;
    }
}

static void order_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6000; seed++) {
        struct prng prng;
        prng_seed(&prng, seed);
        static struct fixture f;
        begin(&f);
        uint32_t count = (uint32_t)prng_between(&prng, 1, seed % 3 == 0 ? 2 : 6);
        for (uint32_t index = 0; index < count; index++) {
            random_fact(&prng, &f);
        }
        struct judge_verdict first;
        judge(&f.in, &first);
        for (uint32_t round = 0; round < 8; round++) {
            shuffle(&prng, &f);
            judge(&f.in, &f.verdict);
            assert_string_equal(f.verdict.rule, first.rule);
            assert_string_equal(f.verdict.why, first.why);
            assert_int_equal(f.verdict.owner, first.owner);
            assert_int_equal(f.verdict.advice, first.advice);
            assert_int_equal(f.verdict.lane, first.lane);
            assert_int_equal(f.verdict.confidence, first.confidence);
            assert_int_equal(f.verdict.facts_used, first.facts_used);
            assert_true(f.verdict.signature == first.signature);
            assert_int_equal(f.verdict.blamed_count, first.blamed_count);
            assert_memory_equal(f.verdict.blamed, first.blamed, sizeof(first.blamed));
        }
        /* who is blamed was named by a fact, and an eviction has somebody to evict */
        assert_true(first.action != DO_EVICT || first.blamed_count > 0);
    }
}

/* Each rule of labels was decided by in the tests above. */
static void every_rule_was_met(void **state)
{
    (void)state;
    static const char *const unlabelled[] = {
        "final-code",   "invalid-result", "launch-error", "other-gpu",  "launch-refused",
        "restart-code", "load-failed",    "same-step",    "many-nodes", "same-error",
        "same-node",    "attempt-signal", "operator"}; /* judge_test.c */
    for (uint32_t rule = 0; judge_rule_text(rule) != NULL; rule++) {
        bool other = false;
        for (size_t index = 0; index < ARRAY_SIZE(unlabelled); index++) {
            other = other || text_equal(unlabelled[index], judge_rule_text(rule)->name);
        }
        if (seen[rule] == 0 && !other) {
            fail_msg("rule %s was never met", judge_rule_text(rule)->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fatal_lines),
        cmocka_unit_test(software_of_nodes),
        cmocka_unit_test(wrong_readings),
        cmocka_unit_test(weak_and_strong),
        cmocka_unit_test(places),
        cmocka_unit_test(switches),
        cmocka_unit_test(repeated_devices),
        cmocka_unit_test(waiting_ranks),
        cmocka_unit_test(slow_nodes),
        cmocka_unit_test(different_hashes),
        cmocka_unit_test(symptoms),
        cmocka_unit_test(written_by_hand),
        cmocka_unit_test(user_errors),
        cmocka_unit_test(different_operations),
        cmocka_unit_test(same_values),
        cmocka_unit_test(reruns),
        cmocka_unit_test(stopped_on_purpose),
        cmocka_unit_test(blind),
        cmocka_unit_test(lost_nodes),
        cmocka_unit_test(storage),
        cmocka_unit_test(ports),
        cmocka_unit_test(leaves),
        cmocka_unit_test(network_lines),
        cmocka_unit_test(broken_pairs),
        cmocka_unit_test(followers),
        cmocka_unit_test(degraded_nodes),
        cmocka_unit_test(clocks),
        cmocka_unit_test(explained),
        cmocka_unit_test(order_changes_nothing),
        cmocka_unit_test(every_rule_was_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
