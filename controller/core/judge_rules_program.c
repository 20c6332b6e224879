/* judge_rules_program.c: what the program says of itself, and what only a program can have done. */
#include <string.h>

#include "controller/core/judge_rules.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

enum {
    MANY_RANKS = 64,   /* so many equal ends are a majority of any job */
    POISON_NODES = 3,  /* the same failure on so many nodes: it is the job */
    BURST_MS = 180000, /* what a device or a program says again after such a silence is new */
    FIELD_SIZE = 32,
    OPERATIONS_MAX = 64,
};
#define REPEAT_MS (24ull * 60 * 60 * 1000)

bool rule_final_code(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_final);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = evidence_count(evidence, fact_is_final);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d, which says: never restart", fact->rank,
                      fact->code);
    return true;
}

bool rule_invalid_result(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_invalid);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = evidence_count(evidence, fact_is_invalid);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d: its results failed validation", fact->rank,
                      fact->code);
    return true;
}

/* Ranks that could not be started at all: their nodes' whole share counts. */
bool rule_launch_error(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    if (in->ever_stepped || evidence_count(evidence, fact_is_lost_or_fatal) > 0) {
        return false;
    }
    uint32_t unstarted = evidence_nodes(evidence, fact_is_launch);
    /* one node alone may be the one that is broken: a second one must agree, now or before */
    bool nowhere = unstarted * 2 > in->slot_count &&
                   (unstarted > 1 || evidence_other_nodes(evidence, EVIDENCE_ANYWHERE) > 0);
    uint32_t ends = evidence->common_ends;
    struct fact common = {.source = FACT_RANK_END, .code = evidence->common_code};
    bool asked_for = fact_is_restart(evidence, &common) || fact_is_other_gpu(evidence, &common);
    /* When one rank was ended by a signal the others only gave up over it. */
    const struct fact *first = evidence->first_end;
    bool after_crash = first != NULL && first->code < 0 && first->code != evidence->common_code;
    bool everywhere = !asked_for && !after_crash && (ends * 2 > in->world || ends >= MANY_RANKS);
    if (!nowhere && !everywhere) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->launch_error = true;
    verdict->facts_used = nowhere ? evidence_count(evidence, fact_is_launch) : ends;
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

/* ---- what only a program can have done ---------------------------------------------------- */

/* The value of "key=value" in a subject, up to the next space; "" when it is not there. */
static void field(const char *subject, const char *key, char target[FIELD_SIZE])
{
    const size_t size = strlen(key);
    target[0] = '\0';
    while (*subject != '\0') {
        size_t length = 0;
        while (subject[length] != '\0' && subject[length] != ' ') {
            length++;
        }
        if (length > size && memcmp(subject, key, size) == 0) {
            (void)text_format(target, FIELD_SIZE, "%.*s", (int)(length - size), subject + size);
            return;
        }
        subject += subject[length] == ' ' ? length + 1 : length;
    }
}

/* The two ends of a transfer are no mismatch. */
static bool is_collective(const char *operation)
{
    static const char *const others[] = {"SEND", "RECV", "COALESCED", "_ALLREDUCE_SPARSE"};
    for (size_t index = 0; index < ARRAY_SIZE(others); index++) {
        if (text_equal(operation, others[index])) {
            return false;
        }
    }
    return operation[0] != '\0';
}

/* What ranks of one communicator were in at one number. */
struct operation {
    uint64_t place; /* communicator and number */
    char name[FIELD_SIZE];
    const struct fact *first; /* the earliest that tells it, … */
    const struct fact *other; /* … and the earliest of another rank than that one's */
};

static void take_earlier(const struct fact **kept, const struct fact *fact)
{
    *kept = *kept == NULL || fact_before(fact, *kept) ? fact : *kept;
}

/* Different ones, at most OPERATIONS_MAX. */
static uint32_t collect_operations(const struct evidence *evidence, struct operation *operations)
{
    uint32_t count = 0;
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t index = 0;
        const struct fact *fact;
        while ((fact = evidence_next(evidence, fact_is_watchdog, &index)) != NULL) {
            struct operation one = {0};
            char part[FIELD_SIZE];
            field(fact->subject, "op=", one.name);
            field(fact->subject, "seq=", part);
            one.place = hash_text(HASH_INIT, part);
            field(fact->subject, "pg=", part);
            one.place = hash_text(one.place, part);
            uint32_t at = 0;
            while (at < count && (operations[at].place != one.place ||
                                  !text_equal(operations[at].name, one.name))) {
                at++;
            }
            if (at == count && round == 0 && count < OPERATIONS_MAX && is_collective(one.name)) {
                operations[count++] = one;
            }
            if (at < count && round == 0) {
                take_earlier(&operations[at].first, fact);
            } else if (at < count && fact->rank != operations[at].first->rank) {
                take_earlier(&operations[at].other, fact);
            }
        }
    }
    return count;
}

/* The two facts of different ranks that show it; false: these operations may be of one kind. */
static bool differ(const struct operation *a, const struct operation *b, const struct fact **ret_a,
                   const struct fact **ret_b)
{
    if (a->place != b->place || text_equal(a->name, b->name)) {
        return false;
    }
    *ret_a = a->first;
    *ret_b = b->first->rank != a->first->rank ? b->first : b->other;
    if (*ret_b == NULL) { /* the one rank of b is the first of a */
        *ret_a = a->other;
        *ret_b = b->first;
    }
    return *ret_a != NULL;
}

bool rule_operation_mismatch(const struct evidence *evidence, struct judge_verdict *verdict)
{
    struct operation operations[OPERATIONS_MAX];
    uint32_t count = collect_operations(evidence, operations);
    const struct fact *first = NULL;
    const struct fact *second = NULL;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < count; j++) {
            const struct fact *a;
            const struct fact *b;
            if (!differ(&operations[i], &operations[j], &a, &b)) {
                continue;
            }
            if (first == NULL || fact_before(a, first) || (a == first && fact_before(b, second))) {
                first = a;
                second = b;
            }
        }
    }
    if (first == NULL) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->retry = true;
    verdict->facts_used = evidence_count(evidence, fact_is_watchdog);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "ranks %d and %d are in different collectives: %.56s; %.56s", first->rank,
                        second->rank, first->subject, second->subject);
    return true;
}

/* Several devices: a program's fault, since they have nothing else in common. */
bool rule_user_fault(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence_first(evidence, fact_is_gpu_user);
    bool several = false;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_gpu_user, &index)) != NULL) {
        several = several || fact->node != first->node || fact_device(fact) != fact_device(first);
    }
    if (!several || evidence->first_lost != NULL) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->retry = true;
    verdict->facts_used = evidence_count(evidence, fact_is_gpu_user);
    uint32_t nodes = evidence_nodes(evidence, fact_is_gpu_user);
    (void)text_format(
        verdict->why, sizeof(verdict->why),
        "the same fault of the program's own kernels on several GPUs of %u %s at once", nodes,
        text_plural(nodes, "node", "nodes"));
    return true;
}

/* What a program found that ran a step again on another GPU, because the first asked for it. */
bool rule_rerun(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_rerun);
    const struct judge_past *moved = evidence_moved(evidence);
    if (fact == NULL || moved == NULL || moved->node == fact->node) {
        return false;
    }
    if (fact->label == LABEL_USER) {
        decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
        verdict->retry = true;
    } else {
        decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_HIGH);
        verdict_blame(verdict, moved->node);
    }
    verdict->facts_used = evidence_count(evidence, fact_is_rerun);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%s on another GPU: %.130s",
                        fact->label == LABEL_USER ? "the same result" : "another result",
                        fact->text);
    return true;
}

/* Seen again, in a later attempt. What all ranks make together (" all" in its subject) says nothing
 * about the node that tells it; what one made must have been seen on another one. */
static bool value_again(const struct evidence *evidence, const struct fact *fact,
                        const struct fact *first)
{
    const uint64_t what = judge_mark_of(fact);
    const size_t size = strlen(fact->subject);
    bool all = size > 4 && text_equal(fact->subject + size - 4, " all");
    bool later = text_equal(fact->subject, first->subject) &&
                 fact->receive_ms - first->receive_ms > BURST_MS;
    return (later && (all || fact->node != first->node)) ||
           evidence_marks(evidence, what, fact->node, REPEAT_MS, true) > 0 ||
           (all && evidence_marks(evidence, what, fact->node, REPEAT_MS, false) > 0);
}

/* A value that is none (NaN), seen a second time. The same at the same step on another node: it is
 * in the program or its data. Another value there: the first node made it. */
bool rule_same_value(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    const struct fact *first = evidence_first(evidence, fact_is_value);
    if (first == NULL) {
        return false;
    }
    bool same = false;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_value, &index)) != NULL) {
        same = same || value_again(evidence, fact, first);
    }
    verdict->facts_used = evidence_count(evidence, fact_is_value);
    if (same) {
        decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
        verdict->retry = true;
        (void)text_sentence(verdict->why, sizeof(verdict->why),
                            "the same on another node after a restart: %.130s", first->text);
        return true;
    }
    const struct judge_mark *other = NULL;
    for (uint32_t mark = 0; mark < in->mark_count; mark++) {
        const struct judge_mark *one = &in->marks[mark];
        if (one->is_value && one->job == in->job && one->age_ms <= REPEAT_MS &&
            one->node != first->node && (other == NULL || one->age_ms > other->age_ms)) {
            other = one;
        }
    }
    if (other == NULL) {
        verdict->facts_used = 0;
        return false;
    }
    decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    verdict_blame(verdict, other->node);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "another value after a restart elsewhere, so the first was wrong: %.100s",
                        first->text);
    return true;
}

/* What the program printed of itself, or the kernel of it. */
bool rule_user_error(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence_first(evidence, fact_is_user);
    if (first == NULL) {
        return false;
    }
    struct judge_verdict nodes = {0};
    bool fail = evidence_seen_before(evidence);
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_user, &index)) != NULL) {
        fail = fail || fact->advice == ADVICE_FAIL;
        if (text_equal(fact->signal, first->signal)) {
            verdict_blame(&nodes, fact->node);
        }
    }
    bool many = nodes.blamed_count > 1;
    fail = fail || many;
    decide(verdict, OWNER_USER, fail ? DO_FAIL : DO_RESTART, LANE_NONE,
           many ? CONFIDENCE_HIGH : CONFIDENCE_MEDIUM);
    verdict->retry = fail;
    verdict->facts_used = evidence_count(evidence, fact_is_user);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%s: %.140s",
                        many ? "the same error of the program on several nodes"
                             : "an error of the program",
                        first->text);
    return true;
}

/* ---- ends that say something -------------------------------------------------------------- */
bool rule_restart_code(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_restart);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_HIGH);
    verdict->free_of_budget = true;
    verdict->advice = ADVICE_RESTART;
    verdict->facts_used = evidence_count(evidence, fact_is_restart);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d: it asks to be restarted", fact->rank,
                      fact->code);
    return true;
}

/* The checkpoint, or the way to it, is the suspect: plan.c takes an older one when it happens again.
 * Nodes are not: whoever was first to notice would be evicted the second time. */
bool rule_load_failed(const struct evidence *evidence, struct judge_verdict *verdict)
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

bool rule_same_step(const struct evidence *evidence, struct judge_verdict *verdict)
{
    if (!has_end_or_hang(evidence) || evidence_other_nodes(evidence, EVIDENCE_SAME_STEP) == 0) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_HIGH);
    verdict->retry = true;
    verdict->facts_used = evidence->ends + evidence_count(evidence, fact_is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the same failure after step %llu on another node before: it is the job",
                      (unsigned long long)evidence->in->step);
    return true;
}

/* What stands for the incident is an end by a signal or with 1, of which no line says more. In a
 * large job watchdogs abort ranks on other nodes every day: three such ends have no cause in
 * common. */
static bool is_mute_end(const struct evidence *evidence)
{
    const struct fact *end = evidence->first_end;
    return end != NULL && !evidence->hung_first && evidence->first_root == NULL &&
           evidence->first_fatal == NULL && (end->code < 0 || end->code == 1);
}

bool rule_many_nodes(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = evidence_other_nodes(evidence, EVIDENCE_ANYWHERE);
    if (!has_end_or_hang(evidence) || nodes + 1 < POISON_NODES) {
        return false;
    }
    if (is_mute_end(evidence)) {
        decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
        verdict->facts_used = evidence->ends;
        char code[32];
        say_code(evidence->first_end->code, code, sizeof(code));
        (void)text_format(verdict->why, sizeof(verdict->why),
                          "ranks ended first with %s on %u different nodes within a day, and "
                          "nothing says why",
                          code, nodes + 1);
        return true;
    }
    decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->retry = true;
    verdict->facts_used = evidence->ends + evidence_count(evidence, fact_is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the same failure on %u different nodes within a day: it is the job",
                      nodes + 1);
    return true;
}

bool rule_same_error(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence->first_end;
    if (first == NULL || evidence->hung_first || evidence->common_ends < 2 ||
        first->code != evidence->common_code || first->code < 0 ||
        evidence_nodes(evidence, fact_is_end) < 2) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->facts_used = evidence->common_ends;
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "%u of %u ended ranks ended with code %d, the first of them too",
                      evidence->common_ends, evidence->ends, first->code);
    return true;
}
