/* judge.c: the table of rules.
 *
 * All facts are first read into one struct evidence (judge_evidence.c). Then the rules are tried
 * from the top; the first that matches fills the verdict. The order of the rows is
 * the order of their strength, with two exceptions that must come first because they are
 * the program's own word: never restart, and: this command cannot start. */
#include "controller/core/judge.h"

#include <string.h>

#include "controller/core/judge_evidence.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum {
    MANY_RANKS = 64,  /* so many equal ends are a majority of any job */
    POISON_NODES = 3, /* the same failure on so many nodes: it is the job */
};

/* ---- the verdict ------------------------------------------------------------------------- */

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

/* ---- the rules --------------------------------------------------------------------------- */

static bool rule_final_code(const struct evidence *evidence, struct judge_verdict *verdict)
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

static bool rule_invalid_result(const struct evidence *evidence, struct judge_verdict *verdict)
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
static bool rule_launch_error(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    if (in->ever_stepped || evidence_count(evidence, fact_is_lost_or_fatal) > 0) {
        return false;
    }
    uint32_t unstarted = evidence_nodes(evidence, fact_is_launch);
    /* one node alone may be the one that is broken: a second one must agree, now or before */
    bool nowhere = unstarted * 2 > in->slot_count &&
                   (unstarted > 1 || evidence_other_nodes(evidence, false) > 0);
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

static bool rule_user_fault(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = evidence_nodes(evidence, fact_is_user_fault);
    if (nodes < 2 || evidence_count(evidence, fact_is_lost) > 0) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = evidence_count(evidence, fact_is_user_fault);
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
    evidence_blame(evidence, fact_is_fatal, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_fatal);
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
    evidence_blame(evidence, fact_is_lost, verdict);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "fatal signal on %s: %.120s", spread,
                        fact->text);
    return true;
}

/* Nodes that die at the same step wherever the job goes: no more of them for this job. */
static bool rule_poison(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = evidence_other_nodes(evidence, true);
    if (evidence->first_lost == NULL || nodes + 1 < POISON_NODES) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_HOLD, LANE_NONE, CONFIDENCE_MEDIUM);
    evidence_blame(evidence, fact_is_lost, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_lost);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "step %llu has now brought down %u different nodes: it is the job",
                      (unsigned long long)evidence->in->step, nodes + 1);
    return true;
}

static bool rule_lost_together(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    struct judge_verdict lost = {0};
    evidence_blame(evidence, fact_is_lost, &lost);
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
    evidence_blame(evidence, fact_is_lost, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_lost);
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
    evidence_blame(evidence, fact_is_lost, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_lost);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%u %s lost: %.120s",
                        verdict->blamed_count, text_plural(verdict->blamed_count, "node", "nodes"),
                        fact->text[0] != '\0' ? fact->text
                        : host                ? "the host does not answer"
                                              : "the agent is down and its ranks with it");
    return true;
}

static bool rule_other_gpu(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_other_gpu);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    evidence_blame(evidence, fact_is_other_gpu, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_other_gpu);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "rank %d ended with code %d: again, on another GPU", fact->rank, fact->code);
    return true;
}

static bool rule_launch_refused(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_launch);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    evidence_blame(evidence, fact_is_launch, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_launch);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "ranks could not be started: %.140s",
                        fact->text[0] != '\0' ? fact->text : "no reason given");
    return true;
}

static bool rule_restart_code(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_restart);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_HIGH);
    verdict->free_of_budget = true;
    verdict->facts_used = evidence_count(evidence, fact_is_restart);
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
    if (!has_end_or_hang(evidence) || evidence_other_nodes(evidence, true) == 0) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_HIGH);
    verdict->facts_used = evidence->ends + evidence_count(evidence, fact_is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the same failure after step %llu on another node before: it is the job",
                      (unsigned long long)evidence->in->step);
    return true;
}

static bool rule_many_nodes(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = evidence_other_nodes(evidence, false);
    if (!has_end_or_hang(evidence) || nodes + 1 < POISON_NODES) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->facts_used = evidence->ends + evidence_count(evidence, fact_is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "the same failure on %u different nodes within a day: it is the job",
                      nodes + 1);
    return true;
}

static bool rule_same_error(const struct evidence *evidence, struct judge_verdict *verdict)
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

static bool rule_same_node(const struct evidence *evidence, struct judge_verdict *verdict)
{
    if (evidence->suspect == 0 || !evidence_seen_on_suspect(evidence)) {
        return false;
    }
    decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    verdict_blame(verdict, evidence->suspect);
    verdict->facts_used = evidence->ends + evidence_count(evidence, fact_is_stuck);
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
    verdict_blame(verdict, first->node);
    verdict->facts_used = evidence->ends;
    char code[32];
    say_code(first->code, code, sizeof(code));
    (void)text_format(verdict->why, sizeof(verdict->why), "rank %d ended first, with %s",
                      first->rank, code);
    return true;
}

static bool rule_attempt_signal(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_attempt_signal);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
    verdict_blame(verdict, fact->node);
    verdict->facts_used = evidence_count(evidence, fact_is_attempt_signal);
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
    if (evidence_nodes(evidence, fact_is_stuck) == 1) {
        verdict_blame(verdict, fact->node);
        text = fact->text;
    }
    verdict->facts_used = evidence_count(evidence, fact_is_stuck);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "no rank moved past step %llu in time%s%.130s",
                      (unsigned long long)evidence->in->step, text[0] != '\0' ? ": " : "", text);
    return true;
}

static bool rule_operator(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_operator);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_PLANNED, DO_EVICT, LANE_NONE, CONFIDENCE_HIGH);
    evidence_blame(evidence, fact_is_operator, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_operator);
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
    evidence_read(input, &evidence);
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
        evidence_blame(&evidence, fact_is_lost, ret_verdict);
    }
}

const struct judge_rule_text *judge_rule_text(uint32_t index)
{
    return index < ARRAY_SIZE(rules) ? &rules[index].text : NULL;
}
