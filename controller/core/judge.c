/* judge.c: the table of rules.
 *
 * All facts are first read into one struct evidence (judge_evidence.c). Then the rules are tried
 * from the top; the first that matches fills the verdict. The order of the rows is
 * the order of their strength: the program's own last word, then what the driver or the hardware
 * says of a node, then what is around the nodes, then who is waited for, then who ended first. */
#include "controller/core/judge.h"

#include <assert.h>
#include <string.h>

#include "controller/core/judge_rules.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

/* ---- what the rules share ---------------------------------------------------------------- */

void decide(struct judge_verdict *verdict, uint8_t owner, uint8_t action, uint8_t lane,
            uint8_t confidence)
{
    verdict->owner = owner;
    verdict->action = action;
    verdict->lane = lane;
    verdict->confidence = confidence;
}

/* "code 1" or "signal 9"; 0 is an end that nobody saw */
void say_code(int32_t code, char *text, size_t size)
{
    if (code == 0) {
        (void)text_copy(text, size, "a signal that is not known");
        return;
    }
    (void)text_format(text, size, "%s %d", code < 0 ? "signal" : "code", code < 0 ? -code : code);
}

/* Two or more nodes, all with one and the same known label. */
bool shares_label(const struct judge_verdict *verdict, const struct judge_input *in,
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

uint8_t judge_owner_of(uint8_t label)
{
    switch (label) {
    case LABEL_HARDWARE:
        return OWNER_HARDWARE;
    case LABEL_SOFTWARE:
        return OWNER_SOFTWARE;
    case LABEL_USER:
        return OWNER_USER;
    case LABEL_NETWORK:
        return OWNER_NETWORK;
    case LABEL_STORAGE:
        return OWNER_STORAGE;
    case LABEL_FACILITY:
        return OWNER_FACILITY;
    case LABEL_OPERATOR:
        return OWNER_PLANNED;
    default:
        return OWNER_UNKNOWN;
    }
}

uint8_t judge_label_of(uint8_t owner)
{
    switch ((enum fault_owner_word)owner) {
    case OWNER_HARDWARE:
        return LABEL_HARDWARE;
    case OWNER_NETWORK:
        return LABEL_NETWORK;
    case OWNER_STORAGE:
        return LABEL_STORAGE;
    case OWNER_FACILITY:
        return LABEL_FACILITY;
    case OWNER_USER:
        return LABEL_USER;
    case OWNER_MONITOR:
    case OWNER_SOFTWARE:
        return LABEL_SOFTWARE;
    case OWNER_PLANNED:
        return LABEL_OPERATOR;
    case OWNER_UNKNOWN:
        break;
    }
    return LABEL_UNKNOWN;
}

uint8_t lane_of(uint8_t advice)
{
    switch (advice) {
    case ADVICE_EVICT_RESET:
        return LANE_GPU_RESET;
    case ADVICE_EVICT_REBOOT:
        return LANE_REBOOT;
    case ADVICE_EVICT_DIAG:
        return LANE_DIAG;
    case ADVICE_EVICT_RMA:
        return LANE_RMA;
    case ADVICE_HOLD_NETWORK:
        return LANE_NETWORK;
    case ADVICE_HOLD_STORAGE:
        return LANE_STORAGE;
    case ADVICE_CLEAN:
        return LANE_CLEAN;
    default:
        return LANE_NONE;
    }
}

uint32_t strength_of(uint8_t advice)
{
    switch (advice) {
    case ADVICE_EVICT:
        return 1;
    case ADVICE_EVICT_DIAG:
        return 2;
    case ADVICE_EVICT_RESET:
        return 3;
    case ADVICE_EVICT_REBOOT:
        return 4;
    case ADVICE_EVICT_RMA:
        return 5;
    default:
        return 0;
    }
}

/* Action and lane in one word of the catalogues, where the rule has not said a better one. */
static uint8_t advice_of(const struct judge_verdict *verdict)
{
    switch ((enum job_action_word)verdict->action) {
    case DO_NONE:
        return ADVICE_NONE;
    case DO_RESTART:
        return verdict->lane == LANE_CLEAN    ? ADVICE_CLEAN
               : verdict->owner == OWNER_USER ? ADVICE_RESTART_FAIL
                                              : ADVICE_RESTART;
    case DO_EVICT:
        return verdict->lane == LANE_GPU_RESET ? ADVICE_EVICT_RESET
               : verdict->lane == LANE_REBOOT  ? ADVICE_EVICT_REBOOT
               : verdict->lane == LANE_DIAG    ? ADVICE_EVICT_DIAG
               : verdict->lane == LANE_RMA     ? ADVICE_EVICT_RMA
                                               : ADVICE_EVICT;
    case DO_HOLD:
        return verdict->owner == OWNER_STORAGE   ? ADVICE_HOLD_STORAGE
               : verdict->owner == OWNER_NETWORK ? ADVICE_HOLD_NETWORK
                                                 : ADVICE_FAIL;
    case DO_FAIL:
        break;
    }
    return ADVICE_FAIL;
}

/* ---- the last rows ------------------------------------------------------------------------ */

static bool fact_is_follower(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    return fact_is_labelled(fact) && (fact->role == ROLE_CASCADE || fact->advice == ADVICE_FOLLOW);
}

static bool fact_is_noise(const struct evidence *evidence, const struct fact *fact)
{
    return (fact->source == FACT_PROBE || fact->source == FACT_LOG) &&
           (fact->severity == 0 || fact_is_reading(fact)) && !fact_is_follower(evidence, fact);
}

static bool fact_is_any(const struct evidence *evidence, const struct fact *fact)
{
    (void)evidence;
    (void)fact;
    return true;
}

static bool rule_harmless(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t count = evidence_count(evidence, fact_is_any);
    if (count == 0 || evidence_count(evidence, fact_is_noise) != count) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_NONE, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->facts_used = count;
    (void)text_copy(verdict->why, sizeof(verdict->why), "all that was seen is harmless");
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
    judge_rule *match;
    fact_test *uses; /* what it looks at; NULL: all facts together, or none */
};

static const struct rule rules[] = {
    /* the program's own last word */
    {{"final-code", "a rank ended with 93 or one of final_codes", "fail the job; owner user"},
     rule_final_code,
     fact_is_final},
    {{"rerun",
      "the program ran a step again on another GPU after code 16: the same result, or another one",
      "fail the job, a retry is allowed; owner user; or evict the first node; lane diag"},
     rule_rerun,
     fact_is_rerun},
    {{"same-value",
      "a value that is none at the same step on another node after a restart; or another value "
      "there",
      "fail the job, a retry is allowed; owner user; or evict the first node; lane diag"},
     rule_same_value,
     fact_is_value},
    {{"invalid-result", "a rank ended with 17", "fail the job"},
     rule_invalid_result,
     fact_is_invalid},
    {{"launch-error",
      "no step was ever made, no node is lost, and most ranks ended with one code (but none by a "
      "signal before them) or most nodes could not start theirs",
      "fail the job; owner user; no node is blamed"},
     rule_launch_error,
     fact_is_launch},
    /* ourselves */
    {{"blind-monitor",
      "readings are missing, or agents are silent or one reading is fatal on three nodes while the "
      "job makes steps, and nothing else is wrong",
      "nothing; owner monitor; no node is blamed"},
     rule_blind_monitor,
     fact_is_unreadable},
    /* the driver and the hardware of nodes */
    {{"poison",
      "nodes lost or broken at the same step, or in the same slot, on three different nodes within "
      "a day",
      "hold; owner user"},
     rule_poison,
     fact_is_lost_or_fatal},
    {{"same-reading",
      "all that is fatal is one and the same reading or line, on four nodes and a hundredth of the "
      "job's at least that do not share a rack, feed or leaf switch; no node is lost and no rank "
      "had ended",
      "restart in place, or hold when it comes again; owner monitor, or unknown for a line; no "
      "node is blamed"},
     rule_same_reading,
     fact_is_fatal},
    {{"driver-verdict", "the GPU driver says which recovery it needs (Xid 154, not to none)",
      "evict the nodes; the repair that it asks for"},
     rule_driver_verdict,
     fact_is_recovery_action},
    {{"fabric",
      "an NVSwitch failed as a whole, or GPUs of its node lost links with it (SXid, Xid 74), or "
      "four of them did at once",
      "evict the node; owner hardware; lane reboot"},
     rule_fabric,
     fact_is_switch},
    {{"same-software",
      "one and the same fatal line about the software of nodes on three or more, and none is lost",
      "restart in place; owner user; no node is blamed"},
     rule_same_software,
     fact_is_fatal},
    {{"fatal-signal", "a probe or log line that is fatal for its node and is never a follower",
      "evict the nodes; the strongest repair that is asked for; owner hardware or software, or "
      "facility or network when they share a rack or leaf"},
     rule_fatal_signal,
     fact_is_fatal},
    /* what cannot be hardware */
    {{"operation-mismatch",
      "two ranks timed out in different collectives of one number in one communicator",
      "fail the job; owner user; no node is blamed"},
     rule_operation_mismatch,
     fact_is_watchdog},
    {{"stop-asked", "a stop was asked for, and no root was seen before it",
      "nothing; owner planned; no node is blamed"},
     rule_stop_asked,
     fact_is_stop},
    {{"device-repeat",
      "what a program's own fault looks like (Xid 13, 31), on one device alone and there before "
      "within a day; 13: in the same GPC and TPC",
      "evict its node; owner hardware; lane diag"},
     rule_device_repeat,
     fact_is_gpu_user},
    {{"user-fault", "the same on two or more devices at once, and no node is lost",
      "fail the job, a retry is allowed; owner user; no node is blamed"},
     rule_user_fault,
     fact_is_gpu_user},
    /* what is around the nodes */
    {{"storage-many", "lines about storage on two or more nodes, before any node was lost",
      "hold; owner storage; no node is blamed"},
     rule_storage_many,
     fact_is_storage},
    {{"lost-together",
      "two or more nodes lost, all of one rack, feed or leaf switch, or most of them beside "
      "another",
      "evict them; owner facility or network"},
     rule_lost_together,
     fact_is_lost},
    {{"node-lost", "the host does not answer, or its agent is down and its ranks ended",
      "evict; owner hardware; lane reboot or diag"},
     rule_node_lost,
     fact_is_lost},
    {{"leaf", "ports of two or more nodes of one leaf switch were down, or of four nodes anywhere",
      "hold, or restart in place when all are back within 30 s; owner network; no node is blamed"},
     rule_leaf,
     fact_is_port},
    {{"port", "a port was down",
      "restart in place when it was back within 30 s; evict when it was not, or went down twice in "
      "5 min or three times in 1 h; nothing when the job moved on; owner network"},
     rule_port,
     fact_is_port},
    {{"network", "a line about a node's own network that asks for its eviction",
      "evict; owner network; hold when it is many nodes or one leaf switch"},
     rule_network,
     fact_is_network},
    /* what the program and its ranks say */
    {{"other-gpu", "a rank ended with 16", "evict its node; owner hardware; lane diag"},
     rule_other_gpu,
     fact_is_other_gpu},
    {{"launch-refused", "a node could not start its ranks", "evict it; lane diag"},
     rule_launch_refused,
     fact_is_launch},
    {{"hash-minority", "replicas whose parameters differ from the majority's",
      "evict their nodes; owner hardware; lane diag; fail the job when they are over a third"},
     rule_hash_minority,
     fact_is_hash},
    {{"clean-node", "something that was left on a node, or does not run on it, is in the way",
      "clean the node, restart in place; owner software"},
     rule_clean_node,
     fact_is_clean},
    {{"restart-code", "a rank ended with 75 or one of restart_codes",
      "restart in place; free of every budget"},
     rule_restart_code,
     fact_is_restart},
    {{"load-failed", "a rank ended by itself while it loaded a checkpoint",
      "restart in place; owner unknown; no node is blamed"},
     rule_load_failed,
     fact_is_end},
    {{"storage", "a line about storage on one node", "hold, or restart in place; owner storage"},
     rule_storage,
     fact_is_storage},
    {{"same-step", "the same failure at the same step on another node before",
      "fail the job, a retry is allowed; owner user; no node is blamed"},
     rule_same_step,
     NULL},
    {{"many-nodes", "the same failure on three different nodes within a day",
      "fail the job, a retry is allowed; owner user; after an end by a signal or with 1, of which "
      "no line says more: restart in place; owner unknown; no node is blamed"},
     rule_many_nodes,
     NULL},
    {{"wait-root",
      "ranks that have nothing under way or are silent, and that others wait for, on one node; or "
      "a "
      "pair of nodes between which nothing comes through",
      "evict the node; owner hardware; lane diag; of a pair: restart in place; owner network"},
     rule_wait_root,
     fact_is_wait_root},
    {{"user-error", "a line that tells of an error of the program",
      "restart in place, or fail the job where that cannot help or is the second time or on "
      "several "
      "nodes; owner user; no node is blamed"},
     rule_user_error,
     fact_is_user},
    {{"peers", "connections of ranks that broke, and no rank had ended before",
      "restart in place; evict the node that is in all of several pairs; hold when four have "
      "nothing in common; owner network"},
     rule_peers,
     fact_is_peer},
    {{"symptom", "a line that may be the effect of another one, and there is no other",
      "what it asks for"},
     rule_symptom,
     fact_is_symptom},
    {{"same-error",
      "most ended ranks, the first too, ended with one exit code on several nodes; no hang before",
      "restart in place; owner user; no node is blamed"},
     rule_same_error,
     fact_is_end},
    {{"degraded-node", "a rank ended first on a node of which a warning was seen",
      "evict it; owner of the warning; lane diag"},
     rule_degraded_node,
     fact_is_degraded},
    {{"same-node", "the second failure that begins on one node within a day",
      "evict it; owner hardware; lane diag"},
     rule_same_node,
     NULL},
    {{"first-exit",
      "a rank ended by a signal or with a code that says nothing, and it did not hang before",
      "restart in place; owner unknown; the node of the first end is the suspect"},
     rule_first_exit,
     fact_is_end},
    {{"attempt-signal", "a probe or log line that is fatal for the attempt",
      "restart in place; owner unknown; its node is the suspect"},
     rule_attempt_signal,
     fact_is_attempt_signal},
    {{"hang", "no rank made progress within the limit of its phase",
      "restart in place; owner unknown; the node is the suspect where the roots are on one"},
     rule_hang,
     fact_is_stuck},
    {{"operator", "an operator asked for it", "evict the nodes named; owner planned"},
     rule_operator,
     fact_is_operator},
    /* what ended nothing */
    {{"slow-node",
      "compute time over 1.1 times its stage's in 75 % of the steps, of three at least or with "
      "clocks that are held back",
      "evict the nodes; owner hardware, or facility when they share a rack; lane diag"},
     rule_slow_node,
     fact_is_slow},
    {{"named-by-peers", "two or more nodes lost their connections to one and the same node",
      "restart in place; owner unknown; that node is the suspect"},
     rule_named_by_peers,
     fact_is_peer_lost},
    {{"clocks", "GPUs run slower for heat or power", "watch the nodes; owner facility"},
     rule_clocks,
     fact_is_clocks},
    {{"told-to-end", "ranks say that they were told to end, and nothing else was seen",
      "nothing; owner planned; no node is blamed"},
     rule_told_to_end,
     fact_is_told_to_end},
    {{"warning", "a line that asks for no more than to be watched", "watch the nodes"},
     rule_warning,
     fact_is_warning},
    {{"harmless", "nothing but lines that mean nothing", "nothing"}, rule_harmless, fact_is_noise},
    {{"no-evidence", "none of the above", "restart in place; owner unknown"},
     rule_no_evidence,
     NULL},
};
static_assert(ARRAY_SIZE(rules) <= JUDGE_RULES_MAX, "explanations have room for all rules");

static uint32_t first_match(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t index = 0;
    while (index + 1 < ARRAY_SIZE(rules) && !rules[index].match(evidence, verdict)) {
        index++;
    }
    return index;
}

static uint32_t decide_all(const struct evidence *evidence, struct judge_verdict *ret_verdict)
{
    *ret_verdict = (struct judge_verdict){.signature = evidence->signature};
    uint32_t index = first_match(evidence, ret_verdict);
    if (index + 1 == ARRAY_SIZE(rules)) {
        CHECK(rules[index].match(evidence, ret_verdict));
    }
    ret_verdict->rule = rules[index].text.name;
    if (ret_verdict->advice == ADVICE_NONE) {
        ret_verdict->advice = advice_of(ret_verdict);
    }
    /* whatever was decided about the others: a node that is gone cannot be kept */
    if (ret_verdict->action == DO_EVICT || ret_verdict->action == DO_FAIL) {
        evidence_blame(evidence, fact_is_lost, ret_verdict);
    }
    return index;
}

void judge(const struct judge_input *input, struct judge_verdict *ret_verdict)
{
    CHECK(input->facts != NULL || input->fact_count == 0);
    CHECK(input->past != NULL || input->past_count == 0);
    CHECK(input->marks != NULL || input->mark_count == 0);
    struct evidence evidence;
    evidence_read(input, &evidence);
    (void)decide_all(&evidence, ret_verdict);
}

void judge_explain(const struct judge_input *input, struct judge_explanation *ret_explanation)
{
    struct evidence evidence;
    struct judge_verdict verdict;
    evidence_read(input, &evidence);
    *ret_explanation = (struct judge_explanation){.rule = decide_all(&evidence, &verdict)};
    for (uint32_t rule = 0; rule < ret_explanation->rule; rule++) {
        ret_explanation->seen[rule] =
            rules[rule].uses != NULL ? evidence_count(&evidence, rules[rule].uses) : 0;
    }
    ret_explanation->followers = evidence_count(&evidence, fact_is_follower);
    ret_explanation->noise = evidence_count(&evidence, fact_is_noise);
    fact_test *uses = rules[ret_explanation->rule].uses;
    uint32_t index = 0;
    while (uses != NULL && evidence_next(&evidence, uses, &index) != NULL &&
           ret_explanation->used_count < JUDGE_USED_MAX) {
        ret_explanation->used[ret_explanation->used_count++] = index - 1;
    }
}

const struct judge_rule_text *judge_rule_text(uint32_t index)
{
    return index < ARRAY_SIZE(rules) ? &rules[index].text : NULL;
}
