/* judge_rules_node.c: what one node did, or several of them each for itself. */
#include <string.h>

#include "controller/core/judge_rules.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum {
    BURST_MS = 180000,     /* what a device says again after such a silence is a new failure */
    LINKS_GPUS = 4,        /* … and so many, also where the switch says nothing */
    SWITCH_GPUS = 2,       /* so many GPUs lose links at once: the switch between them */
    SLOW_PER_MILLE = 1100, /* of the median of its stage: slow, when … */
    SLOW_PERCENT = 75,     /* … in so many of the steps seen … */
    SLOW_STEPS_LEAST = 3,  /* … of at least so many; fewer need a second sign */
    SLOW_NODES_MAX = 8,    /* so many at once are slow by what they run */
    HEAT_NODES = 3,        /* so many slow nodes, all held back by their clocks */
    CLASS_NODES = 4,       /* one reading on so many nodes that have nothing in common, … */
    CLASS_PART = 100,      /* … and one of so many of the job: what reads it is wrong */
    SOFTWARE_NODES = 3,    /* the same of their system on so many: what they all run */
};
#define REPEAT_MS (24ull * 60 * 60 * 1000)

/* ---- hardware and driver ------------------------------------------------------------------ */

/* A reading that asks for a look at the node, not one that says it is broken: a link narrower than
 * it might be, corrected errors. It blames where nothing else does. */
static bool is_weak(const struct fact *fact)
{
    return fact_is_labelled(fact) && fact->advice == ADVICE_EVICT_DIAG && !fact_is_code(fact);
}

static bool fact_is_strong(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_fatal(evidence, fact) && !is_weak(fact);
}

/* Of all that was said of the blamed nodes: what takes most is what is done. The driver's own word
 * of what is to be done overrules what its codes are known for. */
static uint8_t repair_advice(const struct evidence *evidence, fact_test *test)
{
    uint8_t best = ADVICE_NONE;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, test, &index)) != NULL) {
        if (fact_is_labelled(fact) && strength_of(fact->advice) > strength_of(best)) {
            best = fact->advice;
        }
    }
    return best;
}

/* The driver's word says what to do, not whose fault it is: that is in the lines that led to it. */
static uint8_t node_owner(const struct evidence *evidence)
{
    bool software = false;
    bool facility = false;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_fatal, &index)) != NULL) {
        facility = facility || fact->label == LABEL_FACILITY;
        if (!fact_is_labelled(fact) ||
            (fact->label == LABEL_HARDWARE && !fact_is_recovery_action(evidence, fact))) {
            return OWNER_HARDWARE;
        }
        software = software || fact->label == LABEL_SOFTWARE;
    }
    return software ? OWNER_SOFTWARE : facility ? OWNER_FACILITY : OWNER_HARDWARE;
}

/* Blames the nodes and says whose fault it is, by what they have in common. */
static const char *blame_by_place(const struct evidence *evidence, fact_test *test, uint8_t lane,
                                  struct judge_verdict *verdict)
{
    evidence_blame(evidence, test, verdict);
    verdict->facts_used = evidence_count(evidence, test);
    uint8_t owner = node_owner(evidence);
    const char *place = verdict->blamed_count > 1 ? "several nodes" : "one node";
    uint8_t confidence = CONFIDENCE_HIGH;
    if (owner == OWNER_HARDWARE && shares_label(verdict, evidence->in, evidence->in->rack_of)) {
        owner = OWNER_FACILITY;
        lane = LANE_NONE;
        confidence = CONFIDENCE_MEDIUM;
        place = "several nodes of one rack";
    } else if (owner == OWNER_HARDWARE &&
               shares_label(verdict, evidence->in, evidence->in->leaf_of)) {
        owner = OWNER_NETWORK;
        lane = LANE_NETWORK;
        confidence = CONFIDENCE_MEDIUM;
        place = "several nodes of one leaf switch";
    }
    decide(verdict, owner, DO_EVICT, lane, confidence);
    evidence_blame(evidence, fact_is_lost, verdict);
    return place;
}

bool rule_driver_verdict(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_recovery_action);
    if (fact == NULL) {
        return false;
    }
    uint8_t advice = repair_advice(evidence, fact_is_recovery_action);
    const char *place = blame_by_place(evidence, fact_is_strong, lane_of(advice), verdict);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "the driver asks for it on %s: %.120s",
                        place, fact->text);
    return true;
}

/* GPUs of the node that lost a link of NVLink. */
static uint32_t gpus_with_link(const struct evidence *evidence, uint32_t node)
{
    uint64_t devices[LINKS_GPUS] = {0};
    uint32_t count = 0;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_fatal, &index)) != NULL) {
        uint64_t device = fact_device(fact);
        bool known = device == 0 || fact->node != node || !fact_named_like(fact, "xid-74");
        for (uint32_t other = 0; other < count; other++) {
            known = known || devices[other] == device;
        }
        if (!known && count < LINKS_GPUS) {
            devices[count++] = device;
        }
    }
    return count;
}

/* Codes after which no link of the node can be trusted. */
static bool is_whole_fabric(int32_t code)
{
    return code == 10003 || code == 12020 || code == 22003 || code == 22011 ||
           (code >= 23001 && code <= 23017);
}

static bool fact_is_link(const struct evidence *evidence, const struct fact *fact)
{
    return fact_is_switch(evidence, fact) ||
           (fact_is_fatal(evidence, fact) && fact_named_like(fact, "xid-74"));
}

bool rule_fabric(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *found = NULL;
    struct judge_verdict nodes = {0};
    struct judge_verdict all = {0};
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_link, &index)) != NULL) {
        bool link = !fact_is_switch(evidence, fact);
        if (link && gpus_with_link(evidence, fact->node) < LINKS_GPUS) {
            continue;
        }
        if (link || (fact_is_root(fact) && is_whole_fabric(fact->code)) ||
            gpus_with_link(evidence, fact->node) >= SWITCH_GPUS) {
            verdict_blame(&nodes, fact->node);
            found = found == NULL || fact_before(fact, found) ? fact : found;
        }
    }
    evidence_blame(evidence, fact_is_strong, &all);
    if (found == NULL || nodes.blamed_count != all.blamed_count) {
        return false; /* other nodes have faults of their own: all are judged together */
    }
    (void)blame_by_place(evidence, fact_is_strong, LANE_REBOOT, verdict);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "the switch between the GPUs failed, not the GPUs: %.110s", found->text);
    return true;
}

/* All that is fatal is one and the same line or reading. */
static bool is_one_signal(const struct evidence *evidence)
{
    const struct fact *first = evidence->first_fatal;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_fatal, &index)) != NULL) {
        if (!text_equal(fact->signal, first->signal) || fact->label != first->label) {
            return false;
        }
    }
    return first != NULL && fact_is_labelled(first);
}

/* A driver's update or a probe that is wrong tells the same of many nodes at once, while all their
 * ranks still run. Nodes that share a rack, a feed or a leaf switch can break together; these can
 * not. A restart shows who was right: what is broken ends its ranks, or it is told again. */
bool rule_same_reading(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct judge_input *in = evidence->in;
    const struct fact *first = evidence->first_fatal;
    const struct fact *end = evidence->first_end;
    struct judge_verdict nodes = {0};
    evidence_blame(evidence, fact_is_fatal, &nodes);
    uint32_t least = in->slot_count / CLASS_PART;
    least = least < CLASS_NODES ? CLASS_NODES : least;
    least = least > JUDGE_BLAMED_MAX ? JUDGE_BLAMED_MAX : least;
    if (nodes.blamed_count < least || !is_one_signal(evidence) || first->label == LABEL_SOFTWARE ||
        evidence->first_lost != NULL || (end != NULL && fact_before(end, first)) ||
        shares_label(&nodes, in, in->rack_of) || shares_label(&nodes, in, in->feed_of) ||
        shares_label(&nodes, in, in->leaf_of)) {
        return false;
    }
    bool again = evidence_seen_before(evidence);
    decide(verdict, first->source == FACT_PROBE ? OWNER_MONITOR : OWNER_UNKNOWN,
           again ? DO_HOLD : DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
    verdict->facts_used = evidence_count(evidence, fact_is_fatal);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "the same on %u nodes at once that have nothing in common%s: %.100s",
                        nodes.blamed_count, again ? ", and not for the first time" : "",
                        first->text);
    return true;
}

/* Memory that runs out on every node, as of a loader that leaks: new nodes would fare no better.
 * Lost ones have to be replaced whatever the cause. */
bool rule_same_software(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence->first_fatal;
    if (first == NULL || first->label != LABEL_SOFTWARE || evidence->first_lost != NULL ||
        evidence_nodes(evidence, fact_is_fatal) < SOFTWARE_NODES || !is_one_signal(evidence)) {
        return false;
    }
    decide(verdict, OWNER_USER, DO_RESTART, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->facts_used = evidence_count(evidence, fact_is_fatal);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "the same on %u nodes, so it is what all of them run: %.120s",
                        evidence_nodes(evidence, fact_is_fatal), first->text);
    return true;
}

/* Fatal signals: the repair lane follows what they ask for, or what they are about. */
bool rule_fatal_signal(const struct evidence *evidence, struct judge_verdict *verdict)
{
    fact_test *test =
        evidence_first(evidence, fact_is_strong) != NULL ? fact_is_strong : fact_is_fatal;
    const struct fact *fact = evidence_first(evidence, test);
    if (fact == NULL) {
        return false;
    }
    uint8_t advice = repair_advice(evidence, test);
    uint8_t lane = advice != ADVICE_NONE ? lane_of(advice)
                   : fact->gpu >= 0      ? LANE_GPU_RESET
                   : fact->port >= 0     ? LANE_NETWORK
                                         : LANE_DIAG;
    const char *place = blame_by_place(evidence, test, lane, verdict);
    if (verdict->owner == OWNER_HARDWARE || verdict->owner == OWNER_SOFTWARE) {
        verdict->advice = advice;
    }
    (void)text_sentence(verdict->why, sizeof(verdict->why), "fatal signal on %s: %.120s", place,
                        fact->text);
    return true;
}

/* What a program's own fault looks like, on one device alone, and not for the first time. */
bool rule_device_repeat(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence_first(evidence, fact_is_gpu_user);
    uint64_t device = first != NULL ? fact_device(first) : 0;
    if (device == 0) {
        return false;
    }
    bool again = evidence_marks(evidence, judge_mark_of(first), first->node, REPEAT_MS, false) > 0;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_gpu_user, &index)) != NULL) {
        if (fact_device(fact) != device) {
            return false; /* elsewhere too */
        }
        again = again || fact->receive_ms - first->receive_ms > BURST_MS;
    }
    if (!again) {
        return false;
    }
    decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    verdict_blame(verdict, first->node);
    verdict->facts_used = evidence_count(evidence, fact_is_gpu_user);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "the second time within a day on this device alone: %.110s", first->text);
    return true;
}

/* ---- nodes that are gone ------------------------------------------------------------------ */

bool rule_node_lost(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence->first_lost;
    if (fact == NULL) {
        return false;
    }
    bool host = fact->source == FACT_CONNECTION;
    decide(verdict, OWNER_HARDWARE, DO_EVICT, host ? LANE_REBOOT : LANE_DIAG,
           host ? CONFIDENCE_HIGH : CONFIDENCE_MEDIUM);
    if (fact_named(fact, READING_BEATS) && text_equal(fact->subject, "bmc=unreachable")) {
        verdict->lane = LANE_NONE; /* nothing can be ordered from afar */
    }
    evidence_blame(evidence, fact_is_lost, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_lost);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%u %s lost: %.120s",
                        verdict->blamed_count, text_plural(verdict->blamed_count, "node", "nodes"),
                        fact->text[0] != '\0' ? fact->text
                        : host                ? "the host does not answer"
                                              : "the agent is down and its ranks with it");
    return true;
}

bool rule_other_gpu(const struct evidence *evidence, struct judge_verdict *verdict)
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

bool rule_launch_refused(const struct evidence *evidence, struct judge_verdict *verdict)
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

/* ---- what one node shows of itself -------------------------------------------------------- */

/* Ranks that others wait for. A root that a program's own error explains is that program's. */
bool rule_wait_root(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *root = evidence_first(evidence, fact_is_wait_root);
    if (root == NULL || root->code < CONFIDENCE_MEDIUM || root->code > CONFIDENCE_HIGH) {
        return false;
    }
    const struct fact *user = evidence_first(evidence, fact_is_user);
    if (user != NULL && (user->node == root->node || fact_before(user, root))) {
        return false;
    }
    bool path = root->label == LABEL_NETWORK;
    if (path) {
        decide(verdict, OWNER_NETWORK, DO_RESTART, LANE_NETWORK, CONFIDENCE_MEDIUM);
    } else {
        decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, (uint8_t)root->code);
    }
    evidence_blame(evidence, fact_is_wait_root, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_wait_root);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%s: %.140s",
                        path ? "nothing comes through between two nodes" : "others wait for it",
                        root->text);
    return true;
}

/* Nodes that differ at the same place as this one; the minority of that moment. */
static uint32_t minority_at(const struct evidence *evidence, const struct fact *one)
{
    struct judge_verdict nodes = {0};
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_hash, &index)) != NULL) {
        if (text_equal(fact->subject, one->subject)) {
            verdict_blame(&nodes, fact->node);
        }
    }
    return nodes.blamed_count;
}

bool rule_hash_minority(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *first = evidence_first(evidence, fact_is_hash);
    if (first == NULL) {
        return false;
    }
    const struct judge_input *in = evidence->in;
    uint32_t replicas = in->replicas > 0 ? in->replicas : in->slot_count;
    uint32_t most = 0;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_hash, &index)) != NULL) {
        uint32_t count = minority_at(evidence, fact);
        uint32_t told = fact->code > 0 ? (uint32_t)fact->code : 0;
        count = told > count ? told : count;
        most = count > most ? count : most;
    }
    verdict->facts_used = evidence_count(evidence, fact_is_hash);
    if ((uint64_t)most * 3 > replicas) {
        decide(verdict, OWNER_USER, DO_FAIL, LANE_NONE, CONFIDENCE_MEDIUM);
        verdict->retry = true;
        (void)text_format(verdict->why, sizeof(verdict->why),
                          "%u of %u replicas differ: it is the program", most, replicas);
        return true;
    }
    decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_DIAG, CONFIDENCE_HIGH);
    evidence_blame(evidence, fact_is_hash, verdict);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "%u of %u replicas %s from all others: %.110s", most, replicas,
                        text_plural(most, "differs", "differ"), first->text);
    return true;
}

/* Something is in the way of a start: it is taken away, and the node keeps its slot. */
bool rule_clean_node(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_clean);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_SOFTWARE, DO_RESTART, LANE_CLEAN, CONFIDENCE_HIGH);
    evidence_blame(evidence, fact_is_clean, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_clean);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "the node is to be cleaned before a start: %.120s", fact->text);
    return true;
}

/* No line is a root. Of those that may have followed one, the earliest that asks for something. */
bool rule_symptom(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_symptom);
    if (fact == NULL || evidence->first_root != NULL) {
        return false;
    }
    bool user = fact->label == LABEL_USER;
    bool alive = fact->source == FACT_PROBE && steps_after(evidence, fact);
    uint8_t action = alive                          ? DO_NONE
                     : fact->advice >= ADVICE_EVICT ? DO_EVICT
                     : fact->advice == ADVICE_FAIL  ? DO_FAIL
                                                    : DO_RESTART;
    decide(verdict, judge_owner_of(fact->label), action, alive ? LANE_NONE : lane_of(fact->advice),
           CONFIDENCE_MEDIUM);
    verdict->advice = alive ? (uint8_t)ADVICE_WATCH : fact->advice;
    verdict->retry = action == DO_FAIL;
    if (!user) {
        verdict_blame(verdict, fact->node);
    }
    verdict->facts_used = evidence_count(evidence, fact_is_symptom);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "nothing else explains it: %.140s",
                        fact->text);
    return true;
}

/* ---- who ended, who stands --------------------------------------------------------------- */
/* A rank ended first on a node that was not as it should be: no reason to stop for, but now that the
 * attempt is over the node is repaired. */
bool rule_degraded_node(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_degraded);
    if (fact == NULL || evidence->hung_first) {
        return false;
    }
    decide(verdict, judge_owner_of(fact->label), DO_EVICT, LANE_DIAG, CONFIDENCE_LOW);
    verdict_blame(verdict, fact->node);
    verdict->facts_used = evidence_count(evidence, fact_is_degraded);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "rank %d ended first, on a node that had said: %.120s",
                        evidence->first_end->rank, fact->text);
    return true;
}

bool rule_same_node(const struct evidence *evidence, struct judge_verdict *verdict)
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

bool rule_first_exit(const struct evidence *evidence, struct judge_verdict *verdict)
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

bool rule_attempt_signal(const struct evidence *evidence, struct judge_verdict *verdict)
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
bool rule_hang(const struct evidence *evidence, struct judge_verdict *verdict)
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

/* ---- slow nodes --------------------------------------------------------------------------- */

struct pace {
    uint32_t steps;
    uint32_t slow;
    int32_t worst; /* x 1,000 */
};

static struct pace pace_of(const struct evidence *evidence, const struct fact *one)
{
    struct pace pace = {0};
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_slow, &index)) != NULL) {
        if (fact->node == one->node && fact->rank == one->rank) {
            pace.steps++;
            pace.slow += fact->code > SLOW_PER_MILLE ? 1 : 0;
            pace.worst = fact->code > pace.worst ? fact->code : pace.worst;
        }
    }
    return pace;
}

static bool has_clocks(const struct evidence *evidence, uint32_t node)
{
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_clocks, &index)) != NULL) {
        if (fact->node == node) {
            return true;
        }
    }
    return false;
}

/* Slow in most steps that were seen. A few steps are only believed where the clocks say it too. */
static bool is_slow(const struct evidence *evidence, const struct fact *fact, struct pace *ret_pace)
{
    *ret_pace = pace_of(evidence, fact);
    return ret_pace->slow * 100 >= ret_pace->steps * SLOW_PERCENT && ret_pace->slow > 0 &&
           (ret_pace->steps >= SLOW_STEPS_LEAST || has_clocks(evidence, fact->node));
}

bool rule_slow_node(const struct evidence *evidence, struct judge_verdict *verdict)
{
    struct judge_verdict nodes = {0};
    struct pace worst = {0};
    uint32_t used = 0;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_slow, &index)) != NULL) {
        struct pace pace;
        if (is_slow(evidence, fact, &pace)) {
            verdict_blame(&nodes, fact->node);
            worst = pace.worst > worst.worst ? pace : worst;
            used++;
        }
    }
    bool held_back = nodes.blamed_count >= HEAT_NODES;
    for (uint32_t at = 0; held_back && at < nodes.blamed_count; at++) {
        held_back = has_clocks(evidence, nodes.blamed[at]);
    }
    if (nodes.blamed_count == 0 || nodes.blamed_count > SLOW_NODES_MAX || held_back) {
        return false; /* nobody; or all by what they run, or by their air or power */
    }
    bool rack = shares_label(&nodes, evidence->in, evidence->in->rack_of);
    decide(verdict, rack ? OWNER_FACILITY : OWNER_HARDWARE, DO_EVICT, rack ? LANE_NONE : LANE_DIAG,
           CONFIDENCE_MEDIUM);
    verdict->facts_used = used;
    verdict->blamed_count = nodes.blamed_count;
    memcpy(verdict->blamed, nodes.blamed, sizeof(verdict->blamed));
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "computes %d.%02d times as long as its stage's replicas in %u of %u steps",
                      worst.worst / 1000, worst.worst % 1000 / 10, worst.slow, worst.steps);
    return true;
}
