/* judge.c: the table of rules.
 *
 * All facts are first read into one struct evidence, which does not depend on their order. Then the
 * rules are tried from the top; the first that matches fills the verdict. The order of the rows is
 * the order of their strength, with two exceptions that must come first because they are
 * the program's own word: never restart, and: this command cannot start. */
#include "controller/core/judge.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

enum {
    CODE_RESTART = 75, /* exit codes with a meaning of their own */
    CODE_FINAL = 93,
    CODE_OTHER_GPU = 16,
    CODE_INVALID = 17,
    XID_USER_FAULT = 13, /* what a wrong kernel of the program looks like to the driver */
    XID_USER_PAGE = 31,
    XID_STOPPED = 43, /* these two only tell that a channel was torn down: never roots */
    XID_PREEMPTED = 45,
    SIGNAL_ABORT = 6,
    MANY_RANKS = 64,  /* so many equal ends are a majority of any job */
    POISON_NODES = 3, /* the same failure on so many nodes: it is the job */
    /* Ends so close together have no order: see first_end(). A process that crashes closes its
     * connections, then its devices, and only then is it seen to have ended; a GPU's driver takes
     * seconds over that. */
    SAME_MOMENT_MS = 5000,
    SEVERITY_ATTEMPT = 2,
    SEVERITY_NODE = 3,
};
#define REPEAT_MS (24ull * 60 * 60 * 1000)

/* What all facts together say. Pointers are into the input; NULL: there is none. */
struct evidence {
    const struct judge_input *in;
    const struct fact *first_end;   /* the end of a rank that began it */
    const struct fact *first_fatal; /* earliest probe or log line that is a root */
    const struct fact *first_lost;
    const struct fact *first_stuck; /* no progress */
    bool hung_first;                /* … before any rank had ended: what ended then gave up */
    uint32_t ends;
    int32_t common_code; /* the code of most ends, when there is a majority */
    uint32_t common_ends;
    uint64_t signature;
    uint32_t suspect; /* node of the strongest fact */
};

typedef bool fact_test(const struct evidence *evidence, const struct fact *fact);

/* ---- single facts ------------------------------------------------------------------------ */

static bool is_ours(const struct judge_input *in, const struct fact *fact)
{
    if (fact->job != 0 && fact->job != in->job) {
        return false;
    }
    return fact->node == 0 || in->slot_of == NULL || in->slot_of(in->context, fact->node) >= 0;
}

static bool code_in(const int32_t *codes, int32_t code)
{
    for (uint32_t index = 0; codes != NULL && index < EXIT_CODES_MAX; index++) {
        if (codes[index] != 0 && codes[index] == code) {
            return true;
        }
    }
    return false;
}

static bool is_end(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->source == FACT_RANK_END; /* ends that are well give no fact */
}

static bool is_final(const struct evidence *evidence, const struct fact *fact)
{
    return is_end(evidence, fact) &&
           (fact->code == CODE_FINAL || code_in(evidence->in->final_codes, fact->code));
}

static bool is_restart(const struct evidence *evidence, const struct fact *fact)
{
    return is_end(evidence, fact) &&
           (fact->code == CODE_RESTART || code_in(evidence->in->restart_codes, fact->code));
}

static bool is_invalid(const struct evidence *evidence, const struct fact *fact)
{
    return is_end(evidence, fact) && fact->code == CODE_INVALID;
}

static bool is_other_gpu(const struct evidence *evidence, const struct fact *fact)
{
    return is_end(evidence, fact) && fact->code == CODE_OTHER_GPU;
}

static bool is_lost(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->node != 0 && (fact->source == FACT_CONNECTION || fact->source == FACT_AGENT_DOWN);
}

static bool is_launch(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->source == FACT_LAUNCH && fact->node != 0;
}

static bool is_stuck(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->source == FACT_NO_PROGRESS && fact->severity >= SEVERITY_ATTEMPT;
}

static bool is_operator(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->source == FACT_OPERATOR && fact->node != 0;
}

/* Lines that only tell what another failure did to this node. */
static bool is_never_root(const struct fact *fact)
{
    static const char *const followers[] = {"onnection closed", "atchdog", "flush"};
    if (fact->source == FACT_PROBE && (fact->code == XID_STOPPED || fact->code == XID_PREEMPTED)) {
        return true;
    }
    size_t size = strnlen(fact->text, sizeof(fact->text));
    for (size_t index = 0; index < ARRAY_SIZE(followers); index++) {
        size_t length = strlen(followers[index]);
        for (size_t start = 0; start + length <= size; start++) {
            if (memcmp(fact->text + start, followers[index], length) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_root_signal(const struct fact *fact, uint32_t severity)
{
    return fact->node != 0 && fact->severity >= severity && !is_never_root(fact) &&
           (fact->source == FACT_PROBE || fact->source == FACT_LOG);
}

static bool is_fatal(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_root_signal(fact, SEVERITY_NODE);
}

static bool is_user_fault(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_root_signal(fact, SEVERITY_ATTEMPT) && fact->source == FACT_PROBE &&
           (fact->code == XID_USER_FAULT || fact->code == XID_USER_PAGE);
}

static bool is_attempt_signal(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return is_root_signal(fact, SEVERITY_ATTEMPT);
}

/* Gone or to be gone whatever else is found. */
static bool is_lost_or_fatal(const struct evidence *evidence, const struct fact *fact)
{
    return is_lost(evidence, fact) || is_fatal(evidence, fact);
}

/* ---- all facts --------------------------------------------------------------------------- */

static bool comes_before(const struct fact *a, const struct fact *b)
{
    if (a->receive_ms != b->receive_ms) {
        return a->receive_ms < b->receive_ms;
    }
    if (a->node != b->node) {
        return a->node < b->node;
    }
    if (a->rank != b->rank) {
        return a->rank < b->rank;
    }
    if (a->source != b->source) {
        return a->source < b->source;
    }
    return a->code < b->code;
}

static const struct fact *first_of(const struct evidence *evidence, fact_test *test)
{
    const struct judge_input *in = evidence->in;
    const struct fact *first = NULL;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        const struct fact *fact = &in->facts[index];
        if (is_ours(in, fact) && test(evidence, fact) &&
            (first == NULL || comes_before(fact, first))) {
            first = fact;
        }
    }
    return first;
}

/* The end that began it. A process that crashes is seen to have ended after its connections were
 * closed, so peers that give up over it can be a moment ahead of it; they do so with one code.
 * Within that moment the end that is unlike the most is therefore the first, and with no such code
 * one by a signal; but for the one that watchdogs raise when a peer is gone. */
static bool is_odd(const struct evidence *evidence, const struct fact *fact)
{
    bool crashed = fact->code < 0 && fact->code != -SIGNAL_ABORT;
    return is_end(evidence, fact) &&
           (evidence->common_ends > 1 ? fact->code != evidence->common_code : crashed);
}

static const struct fact *first_end(const struct evidence *evidence)
{
    const struct judge_input *in = evidence->in;
    const struct fact *first = first_of(evidence, is_end);
    const struct fact *odd = NULL;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        const struct fact *fact = &in->facts[index];
        if (is_ours(in, fact) && is_odd(evidence, fact) &&
            fact->receive_ms - first->receive_ms <= SAME_MOMENT_MS &&
            (odd == NULL || comes_before(fact, odd))) {
            odd = fact;
        }
    }
    return odd != NULL ? odd : first;
}

static uint32_t count_of(const struct evidence *evidence, fact_test *test)
{
    const struct judge_input *in = evidence->in;
    uint32_t count = 0;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        count += is_ours(in, &in->facts[index]) && test(evidence, &in->facts[index]) ? 1 : 0;
    }
    return count;
}

/* Majority vote: only a code with more than half of all ends survives it, whatever the order. */
static void find_common_code(struct evidence *evidence)
{
    const struct judge_input *in = evidence->in;
    uint32_t lead = 0;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        const struct fact *fact = &in->facts[index];
        if (!is_ours(in, fact) || !is_end(evidence, fact)) {
            continue;
        }
        if (lead == 0) {
            evidence->common_code = fact->code;
        }
        lead += fact->code == evidence->common_code ? 1u : UINT32_MAX;
    }
    for (uint32_t index = 0; index < in->fact_count; index++) {
        const struct fact *fact = &in->facts[index];
        if (is_ours(in, fact) && is_end(evidence, fact) && fact->code == evidence->common_code) {
            evidence->common_ends++;
        }
    }
    if (evidence->common_ends * 2 <= evidence->ends) {
        evidence->common_ends = 0;
        evidence->common_code = 0;
    }
}

/* ---- blame ------------------------------------------------------------------------------- */

static void blame_node(struct judge_verdict *verdict, uint32_t node)
{
    uint32_t place = 0;
    while (place < verdict->blamed_count && verdict->blamed[place] < node) {
        place++;
    }
    bool known = place < verdict->blamed_count && verdict->blamed[place] == node;
    if (node == 0 || known || place == JUDGE_BLAMED_MAX) {
        return;
    }
    if (verdict->blamed_count == JUDGE_BLAMED_MAX) {
        verdict->blamed_count--; /* the highest number falls out, in whatever order they came */
    }
    memmove(&verdict->blamed[place + 1], &verdict->blamed[place],
            (verdict->blamed_count - place) * sizeof(verdict->blamed[0]));
    verdict->blamed[place] = node;
    verdict->blamed_count++;
}

static void blame_all(const struct evidence *evidence, fact_test *test,
                      struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        if (is_ours(in, &in->facts[index]) && test(evidence, &in->facts[index])) {
            blame_node(verdict, in->facts[index].node);
        }
    }
}

/* How many different nodes the facts name; at most JUDGE_BLAMED_MAX. */
static uint32_t nodes_of(const struct evidence *evidence, fact_test *test)
{
    struct judge_verdict nodes = {0};
    blame_all(evidence, test, &nodes);
    return nodes.blamed_count;
}

static void decide(struct judge_verdict *verdict, uint8_t owner, uint8_t action, uint8_t lane,
                   uint8_t confidence)
{
    verdict->owner = owner;
    verdict->action = action;
    verdict->lane = lane;
    verdict->confidence = confidence;
}

/* "code 1" or "signal 9"; 0 is an end that nobody saw */
static void say_code(int32_t code, char *text, size_t size)
{
    if (code == 0) {
        (void)text_copy(text, size, "a signal that is not known");
        return;
    }
    (void)text_format(text, size, "%s %d", code < 0 ? "signal" : "code", code < 0 ? -code : code);
}

/* Two or more nodes, all with one and the same known label. */
static bool shares_label(const struct judge_verdict *verdict, const struct judge_input *in,
                         uint32_t (*label_of)(const void *context, uint32_t node))
{
    if (label_of == NULL || verdict->blamed_count < 2) {
        return false;
    }
    uint32_t label = label_of(in->context, verdict->blamed[0]);
    for (uint32_t index = 1; index < verdict->blamed_count; index++) {
        if (label_of(in->context, verdict->blamed[index]) != label) {
            return false;
        }
    }
    return label != 0;
}

/* ---- the evidence ------------------------------------------------------------------------ */

/* The fact that stands for the incident: it gives the signature and the suspect. */
static const struct fact *strongest(const struct evidence *evidence)
{
    const struct fact *candidates[] = {evidence->first_fatal,
                                       evidence->first_lost,
                                       evidence->hung_first ? evidence->first_stuck : NULL,
                                       evidence->first_end,
                                       evidence->first_stuck,
                                       first_of(evidence, is_launch),
                                       first_of(evidence, is_attempt_signal)};
    for (size_t index = 0; index < ARRAY_SIZE(candidates); index++) {
        if (candidates[index] != NULL) {
            return candidates[index];
        }
    }
    return NULL;
}

static void read_evidence(const struct judge_input *in, struct evidence *ret_evidence)
{
    *ret_evidence = (struct evidence){.in = in};
    ret_evidence->first_fatal = first_of(ret_evidence, is_fatal);
    ret_evidence->first_lost = first_of(ret_evidence, is_lost);
    ret_evidence->first_stuck = first_of(ret_evidence, is_stuck);
    ret_evidence->ends = count_of(ret_evidence, is_end);
    find_common_code(ret_evidence);
    ret_evidence->first_end = first_end(ret_evidence);
    const struct fact *stuck = ret_evidence->first_stuck;
    const struct fact *end = ret_evidence->first_end;
    ret_evidence->hung_first =
        stuck != NULL && (end == NULL || stuck->receive_ms <= end->receive_ms);
    const struct fact *fact = strongest(ret_evidence);
    uint64_t signature = hash_text(HASH_INIT, "incident");
    if (fact != NULL) {
        bool lost = is_lost(ret_evidence, fact);
        signature = hash_u64(signature, lost ? FACT_CONNECTION : fact->source);
        /* The code of a hang says how sure its analysis is: no part of what happened. */
        bool coded = !lost && fact->source != FACT_NO_PROGRESS;
        signature = hash_u64(signature, coded ? (uint64_t)(int64_t)fact->code : 0);
        bool several = is_stuck(ret_evidence, fact) && nodes_of(ret_evidence, is_stuck) > 1;
        ret_evidence->suspect = several ? 0 : fact->node;
    }
    ret_evidence->signature = signature;
}

/* ---- the repeat test --------------------------------------------------------------------- */

static bool is_recent(const struct evidence *evidence, const struct judge_past *past)
{
    return past->job == evidence->in->job && past->age_ms <= REPEAT_MS;
}

/* Different other nodes on which the same failure was seen; at_step: only at the present step. */
static uint32_t other_nodes(const struct evidence *evidence, bool at_step)
{
    struct judge_verdict nodes = {0};
    for (uint32_t index = 0; index < evidence->in->past_count; index++) {
        const struct judge_past *past = &evidence->in->past[index];
        bool same_step = past->step == evidence->in->step && past->step != 0;
        if (is_recent(evidence, past) && past->signature == evidence->signature &&
            past->node != evidence->suspect && (same_step || !at_step)) {
            blame_node(&nodes, past->node);
        }
    }
    return nodes.blamed_count;
}

static bool seen_on_suspect(const struct evidence *evidence)
{
    for (uint32_t index = 0; index < evidence->in->past_count; index++) {
        const struct judge_past *past = &evidence->in->past[index];
        if (past->node != 0 && past->node == evidence->suspect && past->age_ms <= REPEAT_MS) {
            return true;
        }
    }
    return false;
}

/* ---- the rules --------------------------------------------------------------------------- */

static bool rule_final_code(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = first_of(evidence, is_final);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = count_of(evidence, is_final);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d, which says: never restart", fact->rank,
                      fact->code);
    return true;
}

static bool rule_invalid_result(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = first_of(evidence, is_invalid);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = count_of(evidence, is_invalid);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d: its results failed validation", fact->rank,
                      fact->code);
    return true;
}

/* Ranks that could not be started at all: their nodes' whole share counts. */
static bool rule_launch_error(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    if (in->ever_stepped || count_of(evidence, is_lost_or_fatal) > 0) {
        return false;
    }
    uint32_t unstarted = nodes_of(evidence, is_launch);
    /* one node alone may be the one that is broken: a second one must agree, now or before */
    bool nowhere =
        unstarted * 2 > in->slot_count && (unstarted > 1 || other_nodes(evidence, false) > 0);
    uint32_t ends = evidence->common_ends;
    struct fact common = {.source = FACT_RANK_END, .code = evidence->common_code};
    bool asked_for = is_restart(evidence, &common) || is_other_gpu(evidence, &common);
    /* When one rank was ended by a signal the others only gave up over it. */
    const struct fact *first = evidence->first_end;
    bool after_crash = first != NULL && first->code < 0 && first->code != evidence->common_code;
    bool everywhere =
        !asked_for && !after_crash && ends > 0 && (ends * 2 > in->world || ends >= MANY_RANKS);
    if (!nowhere && !everywhere) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->launch_error = true;
    verdict->facts_used = nowhere ? count_of(evidence, is_launch) : ends;
    char code[32];
    say_code(evidence->common_code, code, sizeof(code));
    if (nowhere) {
        (void)text_format(verdict->why, sizeof(verdict->why),
                          "the command could not be started on %u of %u %s", unstarted,
                          in->slot_count, text_plural(in->slot_count, "node", "nodes"));
    } else {
        (void)text_format(verdict->why, sizeof(verdict->why),
                          "%u of %u %s ended before the first step with %s", ends, in->world,
                          text_plural(in->world, "rank", "ranks"), code);
    }
    return true;
}

static bool rule_user_fault(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = nodes_of(evidence, is_user_fault);
    if (nodes < 2 || count_of(evidence, is_lost) > 0) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = count_of(evidence, is_user_fault);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the same fault of the program's own kernels on %u nodes at once", nodes);
    return true;
}

/* Fatal signals: the repair lane follows what the signal is about. */
static bool rule_fatal_signal(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence->first_fatal;
    if (fact == NULL) {
        return false;
    }
    blame_all(evidence, is_fatal, verdict);
    verdict->facts_used = count_of(evidence, is_fatal);
    uint8_t lane = fact->gpu >= 0 ? LANE_GPU_RESET : fact->port >= 0 ? LANE_NETWORK : LANE_DIAG;
    const char *spread = "one node";
    if (shares_label(verdict, evidence->in, evidence->in->rack_of)) {
        decide(verdict, OWNER_FACILITY, DO_EVICT, LANE_NONE, CONFIDENCE_MEDIUM);
        spread = "several nodes of one rack";
    } else if (shares_label(verdict, evidence->in, evidence->in->leaf_of)) {
        decide(verdict, OWNER_NETWORK, DO_EVICT, LANE_NETWORK, CONFIDENCE_MEDIUM);
        spread = "several nodes of one leaf switch";
    } else {
        decide(verdict, OWNER_HARDWARE, DO_EVICT, lane, CONFIDENCE_HIGH);
        spread = verdict->blamed_count > 1 ? "several nodes" : spread;
    }
    blame_all(evidence, is_lost, verdict);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "fatal signal on %s: %.120s", spread,
                        fact->text);
    return true;
}

/* Nodes that die at the same step wherever the job goes: no more of them for this job. */
static bool rule_poison(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = other_nodes(evidence, true);
    if (evidence->first_lost == NULL || nodes + 1 < POISON_NODES) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_HOLD, LANE_NONE, CONFIDENCE_MEDIUM);
    blame_all(evidence, is_lost, verdict);
    verdict->facts_used = count_of(evidence, is_lost);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "step %llu has now brought down %u different nodes: it is the job",
                      (unsigned long long)evidence->in->step, nodes + 1);
    return true;
}

static bool rule_lost_together(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    struct judge_verdict lost = {0};
    blame_all(evidence, is_lost, &lost);
    const char *what = NULL;
    if (shares_label(&lost, in, in->rack_of) || shares_label(&lost, in, in->feed_of)) {
        decide(verdict, OWNER_FACILITY, DO_EVICT, LANE_NONE, CONFIDENCE_HIGH);
        what = shares_label(&lost, in, in->rack_of) ? "rack" : "power feed";
    } else if (shares_label(&lost, in, in->leaf_of)) {
        decide(verdict, OWNER_NETWORK, DO_EVICT, LANE_NETWORK, CONFIDENCE_MEDIUM);
        what = "leaf switch";
    } else {
        return false;
    }
    blame_all(evidence, is_lost, verdict);
    verdict->facts_used = count_of(evidence, is_lost);
    (void)text_format(verdict->why, sizeof(verdict->why), "%u nodes of one %s were lost together",
                      verdict->blamed_count, what);
    return true;
}

static bool rule_node_lost(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence->first_lost;
    if (fact == NULL) {
        return false;
    }
    bool host = fact->source == FACT_CONNECTION;
    decide(verdict, OWNER_HARDWARE, DO_EVICT, host ? LANE_REBOOT : LANE_DIAG,
           host ? CONFIDENCE_HIGH : CONFIDENCE_MEDIUM);
    blame_all(evidence, is_lost, verdict);
    verdict->facts_used = count_of(evidence, is_lost);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%u %s lost: %.120s",
                        verdict->blamed_count, text_plural(verdict->blamed_count, "node", "nodes"),
                        fact->text[0] != '\0' ? fact->text
                        : host                ? "the host does not answer"
                                              : "the agent is down and its ranks with it");
    return true;
}

static bool rule_other_gpu(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = first_of(evidence, is_other_gpu);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    blame_all(evidence, is_other_gpu, verdict);
    verdict->facts_used = count_of(evidence, is_other_gpu);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d: again, on another GPU", fact->rank, fact->code);
    return true;
}

static bool rule_launch_refused(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = first_of(evidence, is_launch);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    blame_all(evidence, is_launch, verdict);
    verdict->facts_used = count_of(evidence, is_launch);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "ranks could not be started: %.140s",
                        fact->text[0] != '\0' ? fact->text : "no reason given");
    return true;
}

static bool rule_restart_code(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = first_of(evidence, is_restart);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_HIGH);
    verdict->free_of_budget = true;
    verdict->facts_used = count_of(evidence, is_restart);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d: it asks to be restarted", fact->rank,
                      fact->code);
    return true;
}

/* The checkpoint, or the way to it, is the suspect: plan.c takes an older one when it happens again.
 * Nodes are not: whoever was first to notice would be evicted the second time. */
static bool rule_load_failed(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence->first_end;
    if (first == NULL || !evidence->in->loading || first->code < 0) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
    verdict->facts_used = evidence->ends;
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d while a checkpoint was loaded", first->rank,
                      first->code);
    return true;
}

static bool has_end_or_hang(const struct evidence *evidence)
{
    return evidence->first_end != NULL || evidence->first_stuck != NULL;
}

static bool rule_same_step(const struct evidence *evidence, struct judge_verdict *verdict)
{
    if (!has_end_or_hang(evidence) || other_nodes(evidence, true) == 0) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = evidence->ends + count_of(evidence, is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the same failure after step %llu on another node before: it is the job",
                      (unsigned long long)evidence->in->step);
    return true;
}

static bool rule_many_nodes(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = other_nodes(evidence, false);
    if (!has_end_or_hang(evidence) || nodes + 1 < POISON_NODES) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->facts_used = evidence->ends + count_of(evidence, is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the same failure on %u different nodes within a day: it is the job",
                      nodes + 1);
    return true;
}

static bool rule_same_error(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence->first_end;
    if (first == NULL || evidence->hung_first || evidence->common_ends < 2 ||
        first->code != evidence->common_code || first->code < 0 || nodes_of(evidence, is_end) < 2) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->facts_used = evidence->common_ends;
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "%u of %u ended ranks ended with code %d, the first of them too",
                      evidence->common_ends, evidence->ends, first->code);
    return true;
}

static bool rule_same_node(const struct evidence *evidence, struct judge_verdict *verdict)
{
    if (evidence->suspect == 0 || !seen_on_suspect(evidence)) {
        return false;
    }
    decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    blame_node(verdict, evidence->suspect);
    verdict->facts_used = evidence->ends + count_of(evidence, is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the second failure that begins on this node within a day");
    return true;
}

static bool rule_first_exit(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence->first_end;
    if (first == NULL || evidence->hung_first) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
    blame_node(verdict, first->node);
    verdict->facts_used = evidence->ends;
    char code[32];
    say_code(first->code, code, sizeof(code));
    (void)text_format(verdict->why, sizeof(verdict->why), "rank %d ended first, with %s",
                      first->rank, code);
    return true;
}

static bool rule_attempt_signal(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = first_of(evidence, is_attempt_signal);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
    blame_node(verdict, fact->node);
    verdict->facts_used = count_of(evidence, is_attempt_signal);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "this ends the attempt: %.140s",
                        fact->text);
    return true;
}

/* The roots are on one node: it is the suspect. On several: nobody is. The facts say how sure the
 * analysis was (hang.h). */
static bool rule_hang(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence->first_stuck;
    if (fact == NULL) {
        return false;
    }
    bool known = fact->code >= CONFIDENCE_LOW && fact->code <= CONFIDENCE_HIGH;
    decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE,
           known ? (uint8_t)fact->code : CONFIDENCE_LOW);
    const char *text = "";
    if (nodes_of(evidence, is_stuck) == 1) {
        blame_node(verdict, fact->node);
        text = fact->text;
    }
    verdict->facts_used = count_of(evidence, is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "no rank moved past step %llu in time%s%.130s",
                      (unsigned long long)evidence->in->step, text[0] != '\0' ? ": " : "", text);
    return true;
}

static bool rule_operator(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = first_of(evidence, is_operator);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_PLANNED, DO_EVICT, LANE_NONE, CONFIDENCE_HIGH);
    blame_all(evidence, is_operator, verdict);
    verdict->facts_used = count_of(evidence, is_operator);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%u %s taken out on purpose: %.120s",
                        verdict->blamed_count, text_plural(verdict->blamed_count, "node", "nodes"),
                        fact->text[0] != '\0' ? fact->text : "by an operator");
    return true;
}

static bool rule_no_evidence(const struct evidence *evidence, struct judge_verdict *verdict)
{
    (void)evidence;
    decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
    (void)text_copy(verdict->why, sizeof(verdict->why), "nothing was found that says why");
    return true;
}

/* ---- the table --------------------------------------------------------------------------- */

struct rule {
    struct judge_rule_text text;
    bool (*match)(const struct evidence *evidence, struct judge_verdict *verdict);
};

static const struct rule rules[] = {
    {{"final-code", "a rank ended with 93 or one of final_codes", "fail the job; owner user"},
     rule_final_code},
    {{"invalid-result", "a rank ended with 17", "fail the job"}, rule_invalid_result},
    {{"launch-error",
      "no step was ever made, no node is lost, and most ranks ended with one code (but none by a "
      "signal before them) or most nodes could not start theirs",
      "fail the job; owner user; no node is blamed"},
     rule_launch_error},
    {{"user-fault", "Xid 13 or 31 on two or more nodes at once",
      "restart in place; owner user; no node is blamed"},
     rule_user_fault},
    {{"fatal-signal", "a probe or log line that is fatal for its node and is never a follower",
      "evict the nodes; owner hardware, or facility or network when they share a rack or leaf"},
     rule_fatal_signal},
    {{"poison", "nodes lost at the same step on three different nodes within a day",
      "hold; owner user"},
     rule_poison},
    {{"lost-together", "two or more nodes lost, all of one rack, feed or leaf switch",
      "evict them; owner facility or network"},
     rule_lost_together},
    {{"node-lost", "the host does not answer, or its agent is down and its ranks ended",
      "evict; owner hardware; lane reboot or diag"},
     rule_node_lost},
    {{"other-gpu", "a rank ended with 16", "evict its node; owner hardware; lane diag"},
     rule_other_gpu},
    {{"launch-refused", "a node could not start its ranks", "evict it; lane diag"},
     rule_launch_refused},
    {{"restart-code", "a rank ended with 75 or one of restart_codes",
      "restart in place; free of every budget"},
     rule_restart_code},
    {{"load-failed", "a rank ended by itself while it loaded a checkpoint",
      "restart in place; owner unknown; no node is blamed"},
     rule_load_failed},
    {{"same-step", "the same failure at the same step on another node before",
      "restart in place; owner user; no node is blamed"},
     rule_same_step},
    {{"many-nodes", "the same failure on three different nodes within a day",
      "restart in place; owner user; no node is blamed"},
     rule_many_nodes},
    {{"same-error",
      "most ended ranks, the first too, ended with one exit code on several nodes; no hang before",
      "restart in place; owner user; no node is blamed"},
     rule_same_error},
    {{"same-node", "the second failure that begins on one node within a day",
      "evict it; owner hardware; lane diag"},
     rule_same_node},
    {{"first-exit",
      "a rank ended by a signal or with a code that says nothing, and it did not hang before",
      "restart in place; owner unknown; the node of the first end is the suspect"},
     rule_first_exit},
    {{"attempt-signal", "a probe or log line that is fatal for the attempt",
      "restart in place; owner unknown; its node is the suspect"},
     rule_attempt_signal},
    {{"hang", "no rank made progress within the limit of its phase",
      "restart in place; owner unknown; the node is the suspect where the roots are on one"},
     rule_hang},
    {{"operator", "an operator asked for it", "evict the nodes named; owner planned"},
     rule_operator},
    {{"no-evidence", "none of the above", "restart in place; owner unknown"}, rule_no_evidence},
};

void judge(const struct judge_input *input, struct judge_verdict *ret_verdict)
{
    CHECK(input->facts != NULL || input->fact_count == 0);
    CHECK(input->past != NULL || input->past_count == 0);
    struct evidence evidence;
    read_evidence(input, &evidence);
    *ret_verdict = (struct judge_verdict){.signature = evidence.signature};
    for (size_t index = 0; index < ARRAY_SIZE(rules); index++) {
        if (rules[index].match(&evidence, ret_verdict)) {
            ret_verdict->rule = rules[index].text.name;
            break;
        }
    }
    CHECK(ret_verdict->rule != NULL);
    /* whatever was decided about the others: a node that is gone cannot be kept */
    if (ret_verdict->action == DO_EVICT || ret_verdict->action == DO_FAIL) {
        blame_all(&evidence, is_lost, ret_verdict);
    }
}

const struct judge_rule_text *judge_rule_text(uint32_t index)
{
    return index < ARRAY_SIZE(rules) ? &rules[index].text : NULL;
}
