/* judge_evidence.c: what facts say, one by one and together, whatever their order. */
#include "controller/core/judge_evidence.h"

#include <string.h>

#include "controller/core/judge_signal.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"

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
    /* Ends so close together have no order: see first_end(). A process that crashes closes its
     * connections, then its devices, and only then is it seen to have ended; a GPU's driver takes
     * seconds over that. */
    SAME_MOMENT_MS = 5000,
    SEVERITY_ATTEMPT = 2,
    SEVERITY_NODE = 3,
};
#define REPEAT_MS (24ull * 60 * 60 * 1000)

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

bool fact_is_end(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->source == FACT_RANK_END; /* ends that are well give no fact */
}

bool fact_is_final(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_end(evidence, fact) &&
           (fact->code == CODE_FINAL || code_in(evidence->in->final_codes, fact->code));
}

bool fact_is_restart(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_end(evidence, fact) &&
           (fact->code == CODE_RESTART || code_in(evidence->in->restart_codes, fact->code));
}

bool fact_is_invalid(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_end(evidence, fact) && fact->code == CODE_INVALID;
}

bool fact_is_other_gpu(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_end(evidence, fact) && fact->code == CODE_OTHER_GPU;
}

bool fact_is_lost(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->node != 0 && (fact->source == FACT_CONNECTION || fact->source == FACT_AGENT_DOWN);
}

bool fact_is_launch(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->source == FACT_LAUNCH && fact->node != 0;
}

bool fact_is_stuck(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact->source == FACT_NO_PROGRESS && fact->severity >= SEVERITY_ATTEMPT;
}

bool fact_is_operator(const struct evidence *evidence, const struct fact *fact)
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

bool fact_is_fatal(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    if (fact_is_labelled(fact)) {
        return fact_is_root(fact) && fact->advice >= ADVICE_EVICT && fact->node != 0 &&
               (fact->label == LABEL_HARDWARE || fact->label == LABEL_SOFTWARE ||
                fact->label == LABEL_FACILITY);
    }
    return is_root_signal(fact, SEVERITY_NODE);
}

bool fact_is_user_fault(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return !fact_is_labelled(fact) && is_root_signal(fact, SEVERITY_ATTEMPT) &&
           fact->source == FACT_PROBE &&
           (fact->code == XID_USER_FAULT || fact->code == XID_USER_PAGE);
}

bool fact_is_attempt_signal(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_labelled(fact) ? fact_is_root(fact) && fact->node != 0
                                  : is_root_signal(fact, SEVERITY_ATTEMPT);
}

bool fact_is_labelled_root(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_root(fact) && fact->node != 0;
}

bool fact_is_lost_or_fatal(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_lost(evidence, fact) || fact_is_fatal(evidence, fact);
}

/* ---- all facts --------------------------------------------------------------------------- */

bool fact_before(const struct fact *a, const struct fact *b)
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
    if (a->code != b->code) {
        return a->code < b->code;
    }
    if (a->gpu != b->gpu) {
        return a->gpu < b->gpu;
    }
    int order = strncmp(a->signal, b->signal, sizeof(a->signal));
    return order != 0 ? order < 0 : strncmp(a->subject, b->subject, sizeof(a->subject)) < 0;
}

const struct fact *evidence_first(const struct evidence *evidence, fact_test *test)
{
    const struct judge_input *in = evidence->in;
    const struct fact *first = NULL;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        const struct fact *fact = &in->facts[index];
        if (is_ours(in, fact) && test(evidence, fact) &&
            (first == NULL || fact_before(fact, first))) {
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
    return fact_is_end(evidence, fact) &&
           (evidence->common_ends > 1 ? fact->code != evidence->common_code : crashed);
}

static const struct fact *first_end(const struct evidence *evidence)
{
    const struct judge_input *in = evidence->in;
    const struct fact *first = evidence_first(evidence, fact_is_end);
    const struct fact *odd = NULL;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        const struct fact *fact = &in->facts[index];
        if (is_ours(in, fact) && is_odd(evidence, fact) &&
            fact->receive_ms - first->receive_ms <= SAME_MOMENT_MS &&
            (odd == NULL || fact_before(fact, odd))) {
            odd = fact;
        }
    }
    return odd != NULL ? odd : first;
}

const struct fact *evidence_next(const struct evidence *evidence, fact_test *test, uint32_t *index)
{
    const struct judge_input *in = evidence->in;
    while (*index < in->fact_count) {
        const struct fact *fact = &in->facts[(*index)++];
        if (is_ours(in, fact) && test(evidence, fact)) {
            return fact;
        }
    }
    return NULL;
}

uint32_t evidence_count(const struct evidence *evidence, fact_test *test)
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
        if (!is_ours(in, fact) || !fact_is_end(evidence, fact)) {
            continue;
        }
        if (lead == 0) {
            evidence->common_code = fact->code;
        }
        lead += fact->code == evidence->common_code ? 1u : UINT32_MAX;
    }
    for (uint32_t index = 0; index < in->fact_count; index++) {
        const struct fact *fact = &in->facts[index];
        if (is_ours(in, fact) && fact_is_end(evidence, fact) &&
            fact->code == evidence->common_code) {
            evidence->common_ends++;
        }
    }
    if (evidence->common_ends * 2 <= evidence->ends) {
        evidence->common_ends = 0;
        evidence->common_code = 0;
    }
}
/* ---- blame ------------------------------------------------------------------------------- */

void verdict_blame(struct judge_verdict *verdict, uint32_t node)
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

void evidence_blame(const struct evidence *evidence, fact_test *test, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    for (uint32_t index = 0; index < in->fact_count; index++) {
        if (is_ours(in, &in->facts[index]) && test(evidence, &in->facts[index])) {
            verdict_blame(verdict, in->facts[index].node);
        }
    }
}

uint32_t evidence_nodes(const struct evidence *evidence, fact_test *test)
{
    struct judge_verdict nodes = {0};
    evidence_blame(evidence, test, &nodes);
    return nodes.blamed_count;
}
/* ---- the evidence ------------------------------------------------------------------------ */

/* The fact that stands for the incident: it gives the signature and the suspect. */
static const struct fact *strongest(const struct evidence *evidence)
{
    const struct fact *candidates[] = {evidence->first_fatal,
                                       evidence->first_lost,
                                       evidence->hung_first ? evidence->first_stuck : NULL,
                                       evidence->first_root,
                                       evidence->first_end,
                                       evidence->first_stuck,
                                       evidence_first(evidence, fact_is_launch),
                                       evidence_first(evidence, fact_is_attempt_signal)};
    for (size_t index = 0; index < ARRAY_SIZE(candidates); index++) {
        if (candidates[index] != NULL) {
            return candidates[index];
        }
    }
    return NULL;
}

void evidence_read(const struct judge_input *in, struct evidence *ret_evidence)
{
    *ret_evidence = (struct evidence){.in = in};
    ret_evidence->first_fatal = evidence_first(ret_evidence, fact_is_fatal);
    ret_evidence->first_lost = evidence_first(ret_evidence, fact_is_lost);
    ret_evidence->first_stuck = evidence_first(ret_evidence, fact_is_stuck);
    ret_evidence->first_root = evidence_first(ret_evidence, fact_is_labelled_root);
    ret_evidence->ends = evidence_count(ret_evidence, fact_is_end);
    find_common_code(ret_evidence);
    ret_evidence->first_end = first_end(ret_evidence);
    const struct fact *stuck = ret_evidence->first_stuck;
    const struct fact *end = ret_evidence->first_end;
    ret_evidence->hung_first =
        stuck != NULL && (end == NULL || stuck->receive_ms <= end->receive_ms);
    const struct fact *fact = strongest(ret_evidence);
    uint64_t signature = hash_text(HASH_INIT, "incident");
    if (fact != NULL) {
        bool lost = fact_is_lost(ret_evidence, fact);
        signature = hash_u64(signature, lost ? FACT_CONNECTION : fact->source);
        /* The code of a hang says how sure its analysis is: no part of what happened. */
        bool coded = !lost && fact->source != FACT_NO_PROGRESS;
        signature = hash_u64(signature, coded ? (uint64_t)(int64_t)fact->code : 0);
        signature =
            coded && fact_is_labelled(fact) ? hash_text(signature, fact->signal) : signature;
        bool several =
            fact_is_stuck(ret_evidence, fact) && evidence_nodes(ret_evidence, fact_is_stuck) > 1;
        ret_evidence->suspect = several ? 0 : fact->node;
    }
    ret_evidence->signature = signature;
}

/* ---- the repeat test --------------------------------------------------------------------- */

static bool is_recent(const struct evidence *evidence, const struct judge_past *past)
{
    CHECK(past->job != 0); /* it was written */
    return past->job == evidence->in->job && past->age_ms <= REPEAT_MS;
}

uint32_t evidence_other_nodes(const struct evidence *evidence, enum evidence_where where)
{
    const struct judge_input *in = evidence->in;
    int32_t slot = in->slot_of != NULL ? in->slot_of(in->context, evidence->suspect) : -1;
    struct judge_verdict nodes = {0};
    for (uint32_t index = 0; index < in->past_count; index++) {
        const struct judge_past *past = &in->past[index];
        bool same_step = past->step == in->step && past->step != 0;
        bool same_slot = past->slot == slot && slot >= 0;
        bool there =
            where == EVIDENCE_ANYWHERE || same_step || (where == EVIDENCE_SAME_PLACE && same_slot);
        if (is_recent(evidence, past) && past->signature == evidence->signature &&
            past->node != evidence->suspect && there) {
            verdict_blame(&nodes, past->node);
        }
    }
    return nodes.blamed_count;
}

bool evidence_seen_on_suspect(const struct evidence *evidence)
{
    for (uint32_t index = 0; index < evidence->in->past_count; index++) {
        const struct judge_past *past = &evidence->in->past[index];
        if (past->node != 0 && past->node == evidence->suspect && past->age_ms <= REPEAT_MS) {
            return true;
        }
    }
    return false;
}

bool evidence_seen_before(const struct evidence *evidence)
{
    for (uint32_t index = 0; index < evidence->in->past_count; index++) {
        const struct judge_past *past = &evidence->in->past[index];
        if (is_recent(evidence, past) && past->signature == evidence->signature) {
            return true;
        }
    }
    return false;
}

const struct judge_past *evidence_moved(const struct evidence *evidence)
{
    const struct judge_past *newest = NULL;
    for (uint32_t index = 0; index < evidence->in->past_count; index++) {
        const struct judge_past *past = &evidence->in->past[index];
        if (is_recent(evidence, past) && past->moved && past->node != 0 &&
            (newest == NULL || past->age_ms < newest->age_ms)) {
            newest = past;
        }
    }
    return newest;
}
