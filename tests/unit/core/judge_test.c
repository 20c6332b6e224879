/* judge_test.c: the rows of the table that need no catalogue, the spread and repeat tests, and the
 * one property that all of them share: the order in which facts are listed changes nothing. */
#include <stdio.h>
#include <string.h>

#include "controller/core/judge.h"
#include "proto/base/check.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum { FACTS_MAX = 256, HOUR_MS = 3600 * 1000, JOB = 7, UNLABELLED_RULES = 21 };

/* A job of 8 slots on nodes 1..8, two ranks each; racks of four, leaves of two. */
struct fixture {
    struct fact facts[FACTS_MAX];
    struct judge_past past[8];
    struct judge_input in;
    struct judge_verdict verdict;
};

static int32_t slot_of(const void *context, uint32_t node)
{
    (void)context;
    return node >= 1 && node <= 8 ? (int32_t)node - 1 : -1;
}

static uint32_t rack_of(const void *context, uint32_t node)
{
    (void)context;
    return 100 + (node - 1) / 4;
}

static uint32_t feed_of(const void *context, uint32_t node)
{
    (void)context;
    return node == 1 || node == 8 ? 50 : 0;
}

static uint32_t leaf_of(const void *context, uint32_t node)
{
    (void)context;
    return node == 2 || node == 7 ? 60 : 0;
}

static const int32_t restart_codes[EXIT_CODES_MAX] = {42};
static const int32_t final_codes[EXIT_CODES_MAX] = {43, 44};

static void begin(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->in = (struct judge_input){.facts = f->facts,
                                 .job = JOB,
                                 .world = 16,
                                 .slot_count = 8,
                                 .ranks_per_node = 2,
                                 .step = 100,
                                 .ever_stepped = true,
                                 .restart_codes = restart_codes,
                                 .final_codes = final_codes,
                                 .past = f->past,
                                 .slot_of = slot_of,
                                 .rack_of = rack_of,
                                 .feed_of = feed_of,
                                 .leaf_of = leaf_of};
}

static struct fact *add(struct fixture *f, uint8_t source, uint32_t node, int32_t code)
{
    assert_true(f->in.fact_count < FACTS_MAX);
    struct fact *fact = &f->facts[f->in.fact_count];
    *fact = (struct fact){.source = source,
                          .severity = 2,
                          .node = node,
                          .job = JOB,
                          .rank = -1,
                          .gpu = -1,
                          .port = -1,
                          .code = code,
                          .receive_ms = 1000 + f->in.fact_count};
    f->in.fact_count++;
    return fact;
}

static struct fact *add_end(struct fixture *f, int32_t rank, int32_t code)
{
    struct fact *fact = add(f, FACT_RANK_END, (uint32_t)rank / 2 + 1, code);
    fact->rank = rank;
    return fact;
}

static void add_probe(struct fixture *f, uint32_t node, int32_t code, uint32_t severity,
                      const char *text)
{
    struct fact *fact = add(f, FACT_PROBE, node, code);
    fact->severity = (uint8_t)severity;
    fact->gpu = 3;
    assert_true(text_copy(fact->text, sizeof(fact->text), text));
}

/* One line of what was decided: rule, owner, action, lane, blamed nodes. */
static void expect(struct fixture *f, const char *line)
{
    judge(&f->in, &f->verdict);
    const struct judge_verdict *v = &f->verdict;
    char text[256];
    int size = snprintf(text, sizeof(text), "%s: %s, %s, %s,", v->rule, WORD(fault_owner, v->owner),
                        WORD(job_action, v->action), WORD(repair_lane, v->lane));
    for (uint32_t index = 0; index < v->blamed_count; index++) {
        size += snprintf(text + size, sizeof(text) - (size_t)size, " %u", v->blamed[index]);
    }
    assert_string_equal(text, line);
    assert_true(v->why[0] != '\0');
}

static void remember(struct fixture *f, uint32_t node, uint64_t age_ms, uint64_t step)
{
    f->past[f->in.past_count++] = (struct judge_past){.signature = f->verdict.signature,
                                                      .age_ms = age_ms,
                                                      .job = JOB,
                                                      .step = step,
                                                      .node = node};
}

/* ---- rows -------------------------------------------------------------------------------- */

static void codes_of_the_trainer(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add_end(&f, 4, 75);
    expect(&f, "restart-code: user, restart-in-place, none,");
    assert_true(f.verdict.free_of_budget);
    add_end(&f, 6, 16);
    expect(&f, "other-gpu: hardware, evict-and-swap, diag, 4");
    assert_false(f.verdict.free_of_budget);
    add_end(&f, 8, 17);
    expect(&f, "invalid-result: unknown, fail-job, none,");
    add_end(&f, 15, 93);
    expect(&f, "final-code: user, fail-job, none,");
    begin(&f);
    add_end(&f, 4, 42);
    expect(&f, "restart-code: user, restart-in-place, none,");
    add_end(&f, 4, 44);
    expect(&f, "final-code: user, fail-job, none,");
    begin(&f);
    add_end(&f, 4, 0); /* nobody saw how */
    expect(&f, "first-exit: unknown, restart-in-place, none, 3");
    assert_string_equal(f.verdict.why, "rank 4 ended first, with a signal that is not known");
}

static void first_exit(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add_end(&f, 9, -11);
    expect(&f, "first-exit: unknown, restart-in-place, none, 5");
    assert_string_equal(f.verdict.why, "rank 9 ended first, with signal 11");
    assert_int_equal(f.verdict.confidence, CONFIDENCE_LOW);
    add_end(&f, 1, 1); /* what the others say about the lost peer */
    add_end(&f, 2, 1);
    expect(&f, "first-exit: unknown, restart-in-place, none, 5");
    assert_int_equal(f.verdict.facts_used, 3);
    f.facts[0].receive_ms += 10000; /* now rank 2 was first, and most ended like it */
    f.facts[1].receive_ms += 10000;
    f.facts[2].receive_ms = 10;
    expect(&f, "same-error: user, restart-in-place, none,");
    /* peers that give up can be seen to end a moment before the one that crashed */
    f.facts[2].receive_ms = f.facts[0].receive_ms - 400;
    expect(&f, "first-exit: unknown, restart-in-place, none, 5");
    assert_string_equal(f.verdict.why, "rank 9 ended first, with signal 11");
    /* and seconds before, when a driver has to be closed */
    f.facts[2].receive_ms = f.facts[0].receive_ms - 4900;
    expect(&f, "first-exit: unknown, restart-in-place, none, 5");
    /* but not when it is what a watchdog does over a peer that is gone */
    begin(&f);
    add_end(&f, 2, 1);
    add_end(&f, 9, -6);
    expect(&f, "first-exit: unknown, restart-in-place, none, 2");
    f.facts[1].code = -7;
    expect(&f, "first-exit: unknown, restart-in-place, none, 5");
    /* while a checkpoint is loaded, who fails first says nothing about its node */
    begin(&f);
    f.in.loading = true;
    add_end(&f, 9, 3);
    expect(&f, "load-failed: unknown, restart-in-place, none,");
    add_end(&f, 8, -11);
    f.facts[1].receive_ms = 1;
    expect(&f, "first-exit: unknown, restart-in-place, none, 5");
    /* one node only: its GPU may be the cause */
    begin(&f);
    add_end(&f, 0, 1);
    add_end(&f, 1, 1);
    expect(&f, "first-exit: unknown, restart-in-place, none, 1");
}

static void launch_error(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    f.in.ever_stepped = false;
    f.in.step = 0;
    for (int32_t rank = 0; rank < 8; rank++) {
        add_end(&f, rank, 127);
    }
    expect(&f, "same-error: user, restart-in-place, none,"); /* half is not most */
    add_end(&f, 8, 127);
    expect(&f, "launch-error: user, fail-job, none,");
    assert_true(f.verdict.launch_error);
    assert_string_equal(f.verdict.why, "9 of 16 ranks ended before the first step with code 127");
    /* a lost node explains it otherwise */
    add(&f, FACT_CONNECTION, 8, 0);
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 8");
    f.in.fact_count--;
    f.in.ever_stepped = true;
    expect(&f, "same-error: user, restart-in-place, none,");
    /* who asks for a restart gets it, even on all ranks before the first step */
    begin(&f);
    f.in.ever_stepped = false;
    for (int32_t rank = 0; rank < 16; rank++) {
        add_end(&f, rank, 75);
    }
    expect(&f, "restart-code: user, restart-in-place, none,");
    /* one crashed, and all others gave up over it with one code: no word about the command */
    for (int32_t signal = 6; signal <= 11; signal += 5) {
        begin(&f);
        f.in.ever_stepped = false;
        for (int32_t rank = 0; rank < 15; rank++) {
            add_end(&f, rank, 1);
        }
        add_end(&f, 15, -signal);
        expect(&f, "first-exit: unknown, restart-in-place, none, 8");
    }
    /* … in the same moment, whatever is heard first; a crash that comes later is a consequence */
    for (uint64_t late_ms = 5000; late_ms <= 5001; late_ms++) {
        begin(&f);
        f.in.ever_stepped = false;
        for (int32_t rank = 0; rank < 15; rank++) {
            add_end(&f, rank, 1)->receive_ms = 1000;
        }
        add_end(&f, 15, -11)->receive_ms = 1000 + late_ms;
        expect(&f, late_ms == 5000 ? "first-exit: unknown, restart-in-place, none, 8"
                                   : "launch-error: user, fail-job, none,");
    }
    /* of two ends, one of them well, the one that failed is the first */
    begin(&f);
    add_end(&f, 8, 1);
    add_end(&f, 2, 0);
    expect(&f, "first-exit: unknown, restart-in-place, none, 5");
    /* one that ended well first did not crash: what all others say is about the command */
    begin(&f);
    f.in.ever_stepped = false;
    add_end(&f, 0, 0);
    for (int32_t rank = 1; rank < 16; rank++) {
        add_end(&f, rank, 1);
    }
    expect(&f, "launch-error: user, fail-job, none,");
}

static void launch_refused(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    f.in.ever_stepped = false;
    add(&f, FACT_LAUNCH, 3, 2);
    expect(&f, "launch-refused: unknown, evict-and-swap, diag, 3");
    for (uint32_t node = 4; node <= 6; node++) {
        add(&f, FACT_LAUNCH, node, 2);
    }
    expect(&f, "launch-refused: unknown, evict-and-swap, diag, 3 4 5 6"); /* one half */
    add(&f, FACT_LAUNCH, 7, 2);
    expect(&f, "launch-error: user, fail-job, none,");
    assert_string_equal(f.verdict.why, "the command could not be started on 5 of 8 nodes");
    /* a job of one node: the second node that refuses tells */
    begin(&f);
    f.in.ever_stepped = false;
    f.in.slot_count = 1;
    add(&f, FACT_LAUNCH, 3, 2);
    expect(&f, "launch-refused: unknown, evict-and-swap, diag, 3");
    remember(&f, 2, HOUR_MS, 0);
    expect(&f, "launch-error: user, fail-job, none,");
}

static void lost_nodes(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add(&f, FACT_AGENT_DOWN, 3, 0);
    expect(&f, "node-lost: hardware, evict-and-swap, diag, 3");
    add_end(&f, 15, 75);
    add_end(&f, 14, -6);
    expect(&f, "node-lost: hardware, evict-and-swap, diag, 3");
    /* two racks, then one rack, then a feed, then a leaf */
    add(&f, FACT_CONNECTION, 6, 0);
    expect(&f, "node-lost: hardware, evict-and-swap, diag, 3 6");
    begin(&f);
    add(&f, FACT_CONNECTION, 6, 0);
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 6");
    add(&f, FACT_CONNECTION, 7, 0);
    expect(&f, "lost-together: facility, evict-and-swap, none, 6 7");
    begin(&f);
    add(&f, FACT_CONNECTION, 8, 0);
    add(&f, FACT_CONNECTION, 1, 0);
    expect(&f, "lost-together: facility, evict-and-swap, none, 1 8");
    begin(&f);
    add(&f, FACT_CONNECTION, 7, 0);
    add(&f, FACT_CONNECTION, 2, 0);
    expect(&f, "lost-together: network, evict-and-swap, network-ticket, 2 7");
    /* the labels may be unknown */
    f.in.rack_of = NULL;
    f.in.feed_of = NULL;
    f.in.leaf_of = NULL;
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 2 7");
    /* a lost node goes whatever the others did */
    add_end(&f, 0, 93);
    expect(&f, "final-code: user, fail-job, none, 2 7");
    f.in.fact_count--;
    add_end(&f, 0, 16);
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 2 7");
}

static void fatal_signals(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add_end(&f, 15, 1);
    add_probe(&f, 4, 79, 3, "GPU has fallen off the bus");
    expect(&f, "fatal-signal: hardware, evict-and-swap, gpu-reset, 4");
    assert_string_equal(f.verdict.why, "fatal signal on one node: GPU has fallen off the bus");
    f.facts[1].gpu = -1;
    expect(&f, "fatal-signal: hardware, evict-and-swap, diag, 4");
    f.facts[1].port = 0;
    expect(&f, "fatal-signal: hardware, evict-and-swap, network-ticket, 4");
    add_probe(&f, 5, 79, 3, "GPU has fallen off the bus");
    expect(&f, "fatal-signal: hardware, evict-and-swap, network-ticket, 4 5");
    f.facts[2].node = 3;
    expect(&f, "fatal-signal: facility, evict-and-swap, none, 3 4");
    /* a lost node beside it goes too */
    begin(&f);
    add_probe(&f, 4, 79, 3, "GPU has fallen off the bus");
    add(&f, FACT_CONNECTION, 7, 0);
    expect(&f, "fatal-signal: hardware, evict-and-swap, gpu-reset, 4 7");
    /* fatal for the attempt only */
    begin(&f);
    add_probe(&f, 4, 94, 2, "contained ECC error");
    expect(&f, "attempt-signal: unknown, restart-in-place, none, 4");
    add_probe(&f, 4, 1, 1, "a warning");
    add_end(&f, 0, 1);
    expect(&f, "first-exit: unknown, restart-in-place, none, 1");
    /* the program's own kernels */
    begin(&f);
    add_probe(&f, 4, 31, 2, "MMU fault");
    add_probe(&f, 6, 31, 2, "MMU fault");
    expect(&f, "user-fault: user, fail-job, none,");
}

static void never_roots(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add_probe(&f, 4, 45, 3, "preemptive removal");
    add_probe(&f, 4, 43, 3, "reset channel");
    add_probe(&f, 5, 0, 3, "NCCL: Connection closed by peer");
    add_probe(&f, 6, 0, 3, "NCCL watchdog timeout");
    expect(&f, "no-evidence: unknown, restart-in-place, none,");
    add_end(&f, 0, -9);
    expect(&f, "first-exit: unknown, restart-in-place, none, 1");
    add_probe(&f, 7, 79, 3, "GPU has fallen off the bus");
    expect(&f, "fatal-signal: hardware, evict-and-swap, gpu-reset, 7");
}

static void hangs(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add(&f, FACT_NO_PROGRESS, 4, 0);
    expect(&f, "hang: unknown, restart-in-place, none, 4");
    remember(&f, 4, HOUR_MS, 50);
    expect(&f, "same-node: hardware, evict-and-swap, diag, 4");
    begin(&f);
    add(&f, FACT_NO_PROGRESS, 4, 0);
    add(&f, FACT_NO_PROGRESS, 6, 0);
    expect(&f, "hang: unknown, restart-in-place, none,");
    begin(&f);
    add(&f, FACT_NO_PROGRESS, 0, 0);
    expect(&f, "hang: unknown, restart-in-place, none,");
}

/* The facts of a hang carry how sure its analysis was, which is no part of what happened. */
static void hangs_as_sure_as_found(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    struct fact *fact = add(&f, FACT_NO_PROGRESS, 4, CONFIDENCE_HIGH);
    text_copy(fact->text, TEXT_SIZE, "rank 6 on n-4 stopped before all-reduce 9 of dp");
    expect(&f, "hang: unknown, restart-in-place, none, 4");
    assert_int_equal(f.verdict.confidence, CONFIDENCE_HIGH);
    assert_string_equal(f.verdict.why, "no rank moved past step 100 in time: rank 6 on n-4 stopped "
                                       "before all-reduce 9 of dp");
    const uint64_t signature = f.verdict.signature;
    fact->code = CONFIDENCE_LOW;
    expect(&f, "hang: unknown, restart-in-place, none, 4");
    assert_int_equal(f.verdict.confidence, CONFIDENCE_LOW);
    assert_true(f.verdict.signature == signature);
    fact->code = -7; /* of no analysis of ours */
    expect(&f, "hang: unknown, restart-in-place, none, 4");
    assert_int_equal(f.verdict.confidence, CONFIDENCE_LOW);
    /* Ranks that give up over it, or over its end, come after it and are none that began it. */
    fact->code = CONFIDENCE_HIGH;
    add_end(&f, 5, 1);
    add_end(&f, 6, 1);
    f.facts[1].receive_ms = fact->receive_ms + 40;
    f.facts[2].receive_ms = fact->receive_ms + 41;
    expect(&f, "hang: unknown, restart-in-place, none, 4");
    assert_true(f.verdict.signature == signature);
    fact->receive_ms += 9000; /* they had ended before, and it was told late */
    expect(&f, "same-error: user, restart-in-place, none,");
    f.in.fact_count = 1;
    /* Silent ranks are listed beside the root: that is no second root. */
    fact->code = CONFIDENCE_HIGH;
    add(&f, FACT_NO_PROGRESS, 6, CONFIDENCE_HIGH)->severity = 1;
    expect(&f, "hang: unknown, restart-in-place, none, 4");
    /* Roots on two nodes: nobody is the suspect, also where one of them was it before. */
    remember(&f, 4, HOUR_MS, 50);
    add(&f, FACT_NO_PROGRESS, 7, CONFIDENCE_MEDIUM);
    expect(&f, "hang: unknown, restart-in-place, none,");
}

static void operators(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add(&f, FACT_OPERATOR, 4, 0);
    add(&f, FACT_OPERATOR, 2, 0);
    expect(&f, "operator: planned, evict-and-swap, none, 2 4");
    begin(&f);
    add(&f, FACT_OPERATOR, 1, 0);
    expect(&f, "operator: planned, evict-and-swap, none, 1");
    add_end(&f, 0, -9);
    expect(&f, "first-exit: unknown, restart-in-place, none, 1");
}

/* ---- repeats ----------------------------------------------------------------------------- */

static void repeats(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add_end(&f, 6, -11);
    expect(&f, "first-exit: unknown, restart-in-place, none, 4");
    /* on the same node: evict; a day and more ago: not */
    remember(&f, 4, 23 * HOUR_MS, 50);
    expect(&f, "same-node: hardware, evict-and-swap, diag, 4");
    f.past[0].age_ms = 24ull * HOUR_MS + 1;
    expect(&f, "first-exit: unknown, restart-in-place, none, 4");
    /* at the same step on another node: the program */
    f.past[0] = (struct judge_past){
        .signature = f.verdict.signature, .age_ms = 5, .job = JOB, .step = 100, .node = 5};
    expect(&f, "same-step: user, fail-job, none,");
    f.past[0].signature++;
    expect(&f, "first-exit: unknown, restart-in-place, none, 4");
    f.past[0].signature--;
    f.past[0].job++;
    expect(&f, "first-exit: unknown, restart-in-place, none, 4");
    f.past[0].job--;
    f.past[0].step = 0;
    f.in.step = 0;
    expect(&f, "first-exit: unknown, restart-in-place, none, 4"); /* nothing but a bad start */
    remember(&f, 8, HOUR_MS, 70);
    expect(&f, "many-nodes: unknown, restart-in-place, none,"); /* it says nothing */
    assert_false(f.verdict.retry);
    begin(&f);
    add_end(&f, 6, 1);
    judge(&f.in, &f.verdict);
    remember(&f, 5, HOUR_MS, 70);
    remember(&f, 8, HOUR_MS, 80);
    expect(&f, "many-nodes: unknown, restart-in-place, none,");
    begin(&f);
    add_end(&f, 6, 7); /* a code of the program's own */
    judge(&f.in, &f.verdict);
    remember(&f, 5, HOUR_MS, 70);
    expect(&f, "first-exit: unknown, restart-in-place, none, 4");
    remember(&f, 8, HOUR_MS, 80);
    expect(&f, "many-nodes: user, fail-job, none,");
    f.past[1].step = f.in.step; /* at one step it is the job, whatever the code */
    f.facts[0].code = -6;
    judge(&f.in, &f.verdict);
    f.past[1].signature = f.verdict.signature;
    expect(&f, "same-step: user, fail-job, none,");
}

static void poison(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add(&f, FACT_CONNECTION, 2, 0);
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 2");
    remember(&f, 30, HOUR_MS, 100);
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 2");
    remember(&f, 31, HOUR_MS, 99);
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 2");
    remember(&f, 32, HOUR_MS, 100);
    expect(&f, "poison: user, hold, none, 2");
    /* agent down is the same failure as host silent */
    f.facts[0].source = FACT_AGENT_DOWN;
    expect(&f, "poison: user, hold, none, 2");
}

/* ---- whatever comes in ------------------------------------------------------------------- */

static void foreign_facts(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    expect(&f, "no-evidence: unknown, restart-in-place, none,");
    add(&f, FACT_CONNECTION, 9, 0);                /* holds no slot any more */
    add(&f, FACT_CONNECTION, 3, 0)->job = JOB + 1; /* another job's */
    add(&f, 200, 3, 5);                            /* no such source */
    expect(&f, "no-evidence: unknown, restart-in-place, none,");
    f.in.slot_of = NULL;
    expect(&f, "node-lost: hardware, evict-and-swap, reboot, 9");
}

static void many_blamed(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    f.in.slot_of = NULL;
    f.in.rack_of = NULL;
    for (uint32_t index = 0; index < FACTS_MAX; index++) {
        add(&f, FACT_CONNECTION, 2 * (FACTS_MAX - index), 0);
    }
    judge(&f.in, &f.verdict);
    assert_int_equal(f.verdict.blamed_count, JUDGE_BLAMED_MAX);
    for (uint32_t index = 0; index < JUDGE_BLAMED_MAX; index++) {
        assert_int_equal(f.verdict.blamed[index], 2 * (index + 1));
    }
}

static void random_fact(struct prng *prng, struct fixture *f)
{
    static const int32_t codes[] = {0, 1, 1, 2, -9, -11, 16, 17, 75, 93, 127, 42, 13, 31, 45, 79};
    static const char *const texts[] = {"", "GPU lost", "Connection closed", "ECC"};
    struct fact *fact = add(f, (uint8_t)prng_below(prng, 9), (uint32_t)prng_below(prng, 10),
                            codes[prng_below(prng, ARRAY_SIZE(codes))]);
    fact->severity = (uint8_t)prng_below(prng, 4);
    fact->rank = (int32_t)prng_below(prng, 17) - 1;
    fact->gpu = (int32_t)prng_below(prng, 3) - 1;
    fact->port = (int32_t)prng_below(prng, 3) - 1;
    fact->receive_ms = prng_below(prng, 3);
    (void)text_copy(fact->text, sizeof(fact->text), texts[prng_below(prng, ARRAY_SIZE(texts))]);
    fact->gpu = fact->code == 79 ? 1 : fact->gpu;
}

static void check_same(const struct judge_verdict *a, const struct judge_verdict *b)
{
    assert_string_equal(a->rule, b->rule);
    assert_string_equal(a->why, b->why);
    assert_int_equal(a->owner, b->owner);
    assert_int_equal(a->action, b->action);
    assert_int_equal(a->lane, b->lane);
    assert_int_equal(a->confidence, b->confidence);
    assert_int_equal(a->free_of_budget, b->free_of_budget);
    assert_int_equal(a->launch_error, b->launch_error);
    assert_int_equal(a->facts_used, b->facts_used);
    assert_true(a->signature == b->signature);
    assert_int_equal(a->blamed_count, b->blamed_count);
    assert_memory_equal(a->blamed, b->blamed, sizeof(a->blamed));
}

/* All orders of the facts, by Heap's algorithm without recursion. */
static uint32_t check_permutations(struct fixture *f)
{
    struct judge_verdict first;
    judge(&f->in, &first);
    uint32_t counters[5] = {0};
    uint32_t orders = 1;
    for (uint32_t index = 1; index < f->in.fact_count;) {
        if (counters[index] >= index) {
            counters[index] = 0;
            index++;
            continue;
        }
        uint32_t other = index % 2 == 0 ? 0 : counters[index];
        struct fact kept = f->facts[index];
        f->facts[index] = f->facts[other];
        f->facts[other] = kept;
        counters[index]++;
        index = 1;
        judge(&f->in, &f->verdict);
        check_same(&f->verdict, &first);
        orders++;
    }
    return orders;
}

/* E5: the same facts give the same verdict, in whatever order they came. */
static void order_changes_nothing(void **state)
{
    (void)state;
    static const uint32_t factorials[] = {1, 1, 2, 6, 24, 120};
    uint32_t seen[JUDGE_RULES_MAX] = {0};
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct prng prng;
        prng_seed(&prng, seed);
        struct fixture f;
        begin(&f);
        f.in.ever_stepped = prng_below(&prng, 2) == 0;
        f.in.loading = prng_below(&prng, 4) == 0;
        f.in.world = prng_below(&prng, 3) == 0 ? 2 : 16;
        uint32_t count = (uint32_t)prng_between(&prng, 0, 5);
        for (uint32_t index = 0; index < count; index++) {
            if (seed % 4 == 0) { /* ends only, of few kinds */
                add_end(&f, (int32_t)prng_below(&prng, 16), prng_below(&prng, 3) == 0 ? -9 : 127);
            } else if (seed % 4 == 1) { /* signals of the driver only */
                add_probe(&f, (uint32_t)prng_between(&prng, 1, 8),
                          prng_below(&prng, 2) == 0 ? 13 : 31, 2, "MMU fault");
            } else {
                random_fact(&prng, &f);
            }
        }
        judge(&f.in, &f.verdict);
        for (uint32_t index = 0; index < 3; index++) {
            remember(&f, (uint32_t)prng_below(&prng, 10), prng_below(&prng, 30) * HOUR_MS,
                     prng_below(&prng, 2) * 100);
        }
        assert_int_equal(check_permutations(&f), factorials[count]);
        judge(&f.in, &f.verdict);
        for (uint32_t rule = 0; judge_rule_text(rule) != NULL; rule++) {
            seen[rule] += strcmp(judge_rule_text(rule)->name, f.verdict.rule) == 0 ? 1 : 0;
        }
    }
    uint32_t matched = 0;
    for (uint32_t rule = 0; judge_rule_text(rule) != NULL; rule++) {
        matched += seen[rule] > 0 ? 1 : 0;
    }
    assert_true(matched >= UNLABELLED_RULES); /* the others: judge_labels_test.c */
}

static void rules_read_well(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (; judge_rule_text(count) != NULL; count++) {
        const struct judge_rule_text *rule = judge_rule_text(count);
        assert_true(rule->when[0] != '\0');
        assert_true(rule->then[0] != '\0');
        assert_true(strlen(rule->name) < NAME_SIZE);
        for (uint32_t other = 0; other < count; other++) {
            assert_string_not_equal(rule->name, judge_rule_text(other)->name);
        }
    }
    assert_true(count >= 15);
    assert_null(judge_rule_text(UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_of_the_trainer),
        cmocka_unit_test(first_exit),
        cmocka_unit_test(launch_error),
        cmocka_unit_test(launch_refused),
        cmocka_unit_test(lost_nodes),
        cmocka_unit_test(fatal_signals),
        cmocka_unit_test(never_roots),
        cmocka_unit_test(hangs),
        cmocka_unit_test(hangs_as_sure_as_found),
        cmocka_unit_test(operators),
        cmocka_unit_test(repeats),
        cmocka_unit_test(poison),
        cmocka_unit_test(foreign_facts),
        cmocka_unit_test(many_blamed),
        cmocka_unit_test(order_changes_nothing),
        cmocka_unit_test(rules_read_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
