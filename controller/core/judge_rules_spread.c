/* judge_rules_spread.c: what is around the nodes: power, network, storage, people, ourselves. */
#include <string.h>

#include "controller/core/judge_rules.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum {
    POISON_NODES = 3,      /* the same failure on so many nodes: it is the job */
    BLIP_MS = 30000,       /* libraries try a connection again for so long */
    NETWORK_NODES = 4,     /* so many nodes lose a port at once: what is between them */
    RACK_MATES_NODES = 4,  /* so many lost at once, most beside another one: what feeds them */
    CLASS_NODES = 3,       /* one reading that is fatal on so many, though the job moves on */
    SAME_MOMENT_MS = 5000, /* things so close together have no order */
};

/* ---- lost nodes --------------------------------------------------------------------------- */

/* Nodes that die at the same step, or in the same slot, wherever the job goes: no more of them for
 * this job. */
bool rule_poison(const struct evidence *evidence, struct judge_verdict *verdict)
{
    uint32_t nodes = evidence_other_nodes(evidence, EVIDENCE_SAME_PLACE);
    const struct fact *fatal = evidence->first_fatal;
    if ((fatal == NULL && evidence->first_lost == NULL) || nodes + 1 < POISON_NODES ||
        (fatal != NULL && !fact_is_labelled(fatal))) {
        return false; /* without a catalogue a fatal probe is believed, whatever else there was */
    }
    decide(verdict, OWNER_USER, DO_HOLD, LANE_NONE, CONFIDENCE_MEDIUM);
    evidence_blame(evidence, fact_is_lost, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_lost_or_fatal);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "step %llu has now brought down %u different nodes: it is the job",
                      (unsigned long long)evidence->in->step, nodes + 1);
    return true;
}

/* Most of the lost nodes are beside another one: several racks of one feed, or one pipe. */
static bool beside_each_other(const struct judge_verdict *lost, const struct judge_input *in)
{
    uint32_t beside = 0;
    for (uint32_t a = 0; in->rack_of != NULL && a < lost->blamed_count; a++) {
        uint32_t rack = in->rack_of(in->context, lost->blamed[a]);
        bool mate = false;
        for (uint32_t b = 0; rack != 0 && b < lost->blamed_count; b++) {
            mate = mate || (a != b && in->rack_of(in->context, lost->blamed[b]) == rack);
        }
        beside += mate ? 1 : 0;
    }
    return lost->blamed_count >= RACK_MATES_NODES && beside * 4 >= lost->blamed_count * 3;
}

bool rule_lost_together(const struct evidence *evidence, struct judge_verdict *verdict)
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
    } else if (beside_each_other(&lost, in)) {
        decide(verdict, OWNER_FACILITY, DO_EVICT, LANE_NONE, CONFIDENCE_MEDIUM);
        what = "few racks";
    } else {
        return false;
    }
    evidence_blame(evidence, fact_is_lost, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_lost);
    (void)text_format(verdict->why, sizeof(verdict->why), "%u nodes of %s%s were lost together",
                      verdict->blamed_count, text_equal(what, "few racks") ? "" : "one ", what);
    return true;
}

/* ---- ourselves ---------------------------------------------------------------------------- */

bool steps_after(const struct evidence *evidence, const struct fact *first)
{
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_step, &index)) != NULL) {
        if (fact_before(first, fact)) {
            return true;
        }
    }
    return false;
}

/* All that is fatal is one reading, on many nodes at once, and the job does not mind. */
static bool is_class_of_readings(const struct evidence *evidence)
{
    const struct fact *first = evidence->first_fatal;
    uint32_t index = 0;
    const struct fact *fact;
    while (first != NULL && (fact = evidence_next(evidence, fact_is_fatal, &index)) != NULL) {
        if (fact->source != FACT_PROBE || !text_equal(fact->signal, first->signal)) {
            return false;
        }
    }
    return first != NULL && fact_is_labelled(first) &&
           evidence_nodes(evidence, fact_is_fatal) >= CLASS_NODES && steps_after(evidence, first);
}

/* What watches the nodes is broken, not they: readings that are not there, or agents that are
 * silent while the job moves on. */
bool rule_blind_monitor(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *blind = evidence_first(evidence, fact_is_unreadable);
    const struct fact *lost = evidence->first_lost;
    bool class = is_class_of_readings(evidence);
    bool silent = lost != NULL && steps_after(evidence, lost);
    bool broken = (lost != NULL && !silent) || evidence->ends > 0 ||
                  (!class && (evidence->first_fatal != NULL || evidence->first_root != NULL));
    if ((blind == NULL && !silent && !class) || broken) {
        return false;
    }
    decide(verdict, OWNER_MONITOR, DO_NONE, LANE_NONE, CONFIDENCE_HIGH);
    fact_test *test = class ? fact_is_fatal : blind != NULL ? fact_is_unreadable : fact_is_lost;
    uint32_t nodes = evidence_nodes(evidence, test);
    verdict->facts_used = evidence_count(evidence, test);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%s on %u %s: %.120s",
                        class           ? "the job moves on, only its readings are wrong"
                        : blind != NULL ? "nothing could be read, which proves nothing,"
                                        : "the job moves on, only agents are silent",
                        nodes, text_plural(nodes, "node", "nodes"),
                        evidence_first(evidence, test)->text);
    return true;
}

/* ---- storage ------------------------------------------------------------------------------ */

static void hold_for_storage(const struct evidence *evidence, const struct fact *fact,
                             struct judge_verdict *verdict)
{
    uint32_t index = 0;
    const struct fact *other;
    bool hold = false;
    while ((other = evidence_next(evidence, fact_is_storage, &index)) != NULL) {
        hold = hold || other->advice == ADVICE_HOLD_STORAGE;
    }
    decide(verdict, OWNER_STORAGE, hold ? DO_HOLD : DO_RESTART, LANE_STORAGE, CONFIDENCE_HIGH);
    verdict->facts_used = evidence_count(evidence, fact_is_storage);
    uint32_t nodes = evidence_nodes(evidence, fact_is_storage);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "storage, on %u %s: %.140s", nodes,
                        text_plural(nodes, "node", "nodes"), fact->text);
}

/* Before lost nodes: an agent whose files do not answer falls silent too. */
bool rule_storage_many(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_storage);
    if (fact == NULL || evidence_nodes(evidence, fact_is_storage) < 2 ||
        (evidence->first_lost != NULL && fact_before(evidence->first_lost, fact))) {
        return false;
    }
    hold_for_storage(evidence, fact, verdict);
    return true;
}

/* Processes of one node hang, and no line names a server: that node's own way to its storage. */
static bool hangs_alone(const struct evidence *evidence)
{
    uint32_t hung = evidence_count(evidence, fact_is_hung_rank);
    return hung > 0 && hung == evidence_count(evidence, fact_is_storage) &&
           evidence_nodes(evidence, fact_is_storage) == 1;
}

bool rule_storage(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_storage);
    if (fact == NULL) {
        return false;
    }
    if (hangs_alone(evidence)) {
        decide(verdict, OWNER_HARDWARE, DO_EVICT, LANE_NONE, CONFIDENCE_LOW);
        verdict_blame(verdict, fact->node);
        verdict->facts_used = evidence_count(evidence, fact_is_storage);
        (void)text_sentence(verdict->why, sizeof(verdict->why),
                            "a process hangs on this node alone: %.130s", fact->text);
        return true;
    }
    hold_for_storage(evidence, fact, verdict);
    return true;
}

/* ---- network ------------------------------------------------------------------------------ */

struct ports {
    struct judge_verdict nodes; /* with a port that was down */
    struct judge_verdict bad;   /* … that stays down, was so for long, or goes down too often */
    const struct fact *first;
    uint64_t leaf; /* of all of them; 0: not the same, or not known */
    bool one_leaf;
};

static void read_ports(const struct evidence *evidence, struct ports *ret_ports)
{
    *ret_ports = (struct ports){.one_leaf = true};
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_port, &index)) != NULL) {
        if (!port_begins(evidence, fact)) {
            continue;
        }
        struct port_story story;
        port_story(evidence, fact, &story);
        if (!story.seen) {
            continue; /* up all the time */
        }
        uint64_t leaf = port_leaf(evidence, fact);
        ret_ports->leaf = ret_ports->first == NULL ? leaf : ret_ports->leaf;
        ret_ports->one_leaf = ret_ports->one_leaf && leaf == ret_ports->leaf;
        if (ret_ports->first == NULL || fact_before(fact, ret_ports->first)) {
            ret_ports->first = fact;
        }
        verdict_blame(&ret_ports->nodes, fact->node);
        if (story.down || story.flaps || story.longest_ms >= BLIP_MS) {
            verdict_blame(&ret_ports->bad, fact->node);
        }
    }
}

static void take_nodes(struct judge_verdict *verdict, const struct judge_verdict *nodes)
{
    for (uint32_t index = 0; index < nodes->blamed_count; index++) {
        verdict_blame(verdict, nodes->blamed[index]);
    }
}

bool rule_leaf(const struct evidence *evidence, struct judge_verdict *verdict)
{
    struct ports ports;
    read_ports(evidence, &ports);
    uint32_t count = ports.nodes.blamed_count;
    bool leaf = count >= 2 && ports.one_leaf && ports.leaf != 0;
    if (!leaf && count < NETWORK_NODES) {
        return false;
    }
    bool over = ports.bad.blamed_count == 0;
    decide(verdict, OWNER_NETWORK, over ? DO_RESTART : DO_HOLD, LANE_NETWORK,
           leaf ? CONFIDENCE_HIGH : CONFIDENCE_MEDIUM);
    verdict->facts_used = evidence_count(evidence, fact_is_port);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "%u nodes lost a port%s, so what is between them is at fault: %.90s", count,
                        leaf ? " to one leaf switch" : " at once", ports.first->text);
    return true;
}

/* A port that carries nothing of the job, which moves on, is nobody's fault. */
bool rule_port(const struct evidence *evidence, struct judge_verdict *verdict)
{
    struct ports ports;
    read_ports(evidence, &ports);
    if (ports.first == NULL) {
        return false;
    }
    bool unused = steps_after(evidence, ports.first) && evidence->ends == 0 &&
                  evidence->first_stuck == NULL && evidence_first(evidence, fact_is_peer) == NULL;
    bool bad = ports.bad.blamed_count > 0;
    decide(verdict, OWNER_NETWORK,
           unused ? DO_NONE
           : bad  ? DO_EVICT
                  : DO_RESTART,
           bad ? LANE_NETWORK : LANE_NONE, CONFIDENCE_HIGH);
    verdict->advice = unused ? ADVICE_WATCH : ADVICE_NONE;
    take_nodes(verdict, bad ? &ports.bad : &ports.nodes);
    verdict->facts_used = evidence_count(evidence, fact_is_port);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "a port %s: %.140s",
                        unused ? "went down, and the job did not notice"
                        : bad  ? "is down for long, or goes down again and again"
                               : "was down for a moment",
                        ports.first->text);
    return true;
}

/* Lines that ask for a node's eviction over its network. */
bool rule_network(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_network);
    if (fact == NULL) {
        return false;
    }
    evidence_blame(evidence, fact_is_network, verdict);
    bool wide = verdict->blamed_count >= NETWORK_NODES ||
                shares_label(verdict, evidence->in, evidence->in->leaf_of);
    decide(verdict, OWNER_NETWORK, wide ? DO_HOLD : DO_EVICT, LANE_NETWORK,
           wide ? CONFIDENCE_MEDIUM : CONFIDENCE_HIGH);
    verdict->facts_used = evidence_count(evidence, fact_is_network);
    if (wide) {
        verdict->blamed_count = 0;
    } else {
        verdict->advice = fact->advice;
    }
    (void)text_sentence(verdict->why, sizeof(verdict->why), "network, on %s: %.140s",
                        wide ? "many nodes" : "its own node", fact->text);
    return true;
}

/* The end of a pair whose own network was seen to be in trouble, where it is one of the two. */
static uint32_t troubled_end(const struct evidence *evidence, const struct pair_found *found)
{
    bool a = false;
    bool b = false;
    uint32_t index = 0;
    const struct fact *fact;
    while ((fact = evidence_next(evidence, fact_is_warning, &index)) != NULL) {
        bool network = fact->label == LABEL_NETWORK && !fact_is_peer(evidence, fact);
        a = a || (network && fact->node == found->a);
        b = b || (network && fact->node == found->b);
    }
    return a == b ? 0 : a ? found->a : found->b;
}

/* Connections that broke: what all who complain have in common. */
bool rule_peers(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_peer);
    if (fact == NULL) {
        return false;
    }
    if (evidence->first_end != NULL && fact_before(evidence->first_end, fact)) {
        return false; /* a rank that ended takes its connections with it */
    }
    struct pair_found found;
    evidence_pairs(evidence, fact_is_peer, &found);
    bool again = evidence_seen_before(evidence);
    bool many = found.pairs >= NETWORK_NODES && found.common == 0;
    if (found.common != 0) {
        verdict_blame(verdict, found.common);
        decide(verdict, OWNER_NETWORK, DO_EVICT, LANE_DIAG, CONFIDENCE_MEDIUM);
    } else if (found.pairs == 1) {
        uint32_t end = troubled_end(evidence, &found);
        verdict_blame(verdict, end != 0 ? end : found.a);
        verdict_blame(verdict, end != 0 ? end : found.b);
        decide(verdict, OWNER_NETWORK, again ? DO_EVICT : DO_RESTART,
               again ? LANE_DIAG : LANE_NETWORK, CONFIDENCE_MEDIUM);
    } else {
        decide(verdict, OWNER_NETWORK, many ? DO_HOLD : DO_RESTART, LANE_NETWORK, CONFIDENCE_LOW);
    }
    verdict->facts_used = evidence_count(evidence, fact_is_peer);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "%u broken %s%s: %.120s", found.pairs,
                        text_plural(found.pairs, "connection", "connections"),
                        found.common != 0 ? ", all of one node"
                        : found.pairs > 1 ? ", which have nothing in common"
                                          : "",
                        fact->text);
    return true;
}

/* No line says why, but all who lost a peer lost the same one. */
bool rule_named_by_peers(const struct evidence *evidence, struct judge_verdict *verdict)
{
    struct pair_found found;
    evidence_pairs(evidence, fact_is_peer_lost, &found);
    if (found.common == 0) {
        return false;
    }
    decide(verdict, OWNER_UNKNOWN, DO_RESTART, LANE_NONE, CONFIDENCE_LOW);
    verdict_blame(verdict, found.common);
    verdict->facts_used = evidence_count(evidence, fact_is_peer_lost);
    (void)text_format(verdict->why, sizeof(verdict->why),
                      "%u nodes lost their connections to this one, and nothing says why",
                      found.pairs);
    return true;
}

/* ---- people ------------------------------------------------------------------------------- */

/* A stop that was asked for explains what came after it, and what was told a moment too early. */
bool rule_stop_asked(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *stop = evidence_first(evidence, fact_is_stop);
    const struct fact *root = evidence->first_root;
    const struct fact *others[] = {root, evidence->first_lost, evidence->first_stuck,
                                   evidence->first_end};
    for (size_t index = 0; stop != NULL && index < ARRAY_SIZE(others); index++) {
        if (others[index] != NULL &&
            others[index]->receive_ms + SAME_MOMENT_MS < stop->receive_ms) {
            return false;
        }
    }
    if (stop == NULL) {
        return false;
    }
    decide(verdict, OWNER_PLANNED, DO_NONE, LANE_NONE, CONFIDENCE_HIGH);
    verdict->advice = ADVICE_STOP_EXPECTED;
    verdict->facts_used = evidence_count(evidence, fact_is_stop);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "it was stopped on purpose: %.140s",
                        stop->text);
    return true;
}

bool rule_operator(const struct evidence *evidence, struct judge_verdict *verdict)
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

/* Ranks say that somebody told them to end, nobody is known to have, and nothing else happened. */
bool rule_told_to_end(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_told_to_end);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, OWNER_PLANNED, DO_NONE, LANE_NONE, CONFIDENCE_LOW);
    verdict->advice = ADVICE_STOP_EXPECTED;
    verdict->facts_used = evidence_count(evidence, fact_is_told_to_end);
    (void)text_sentence(verdict->why, sizeof(verdict->why),
                        "its ranks were told to end, not by Keepstep: %.120s", fact->text);
    return true;
}

/* ---- what ends nothing -------------------------------------------------------------------- */

/* One node that runs hot is that node; several at once are their air or their power. */
bool rule_clocks(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_clocks);
    if (fact == NULL) {
        return false;
    }
    uint32_t nodes = evidence_nodes(evidence, fact_is_clocks);
    decide(verdict, OWNER_FACILITY, DO_NONE, LANE_NONE,
           nodes > 1 ? CONFIDENCE_HIGH : CONFIDENCE_LOW);
    verdict->advice = ADVICE_WATCH;
    evidence_blame(evidence, fact_is_clocks, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_clocks);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "GPUs of %u %s slow down: %.120s",
                        nodes, text_plural(nodes, "node", "nodes"), fact->text);
    return true;
}

bool rule_warning(const struct evidence *evidence, struct judge_verdict *verdict)
{
    const struct fact *fact = evidence_first(evidence, fact_is_warning);
    if (fact == NULL) {
        return false;
    }
    decide(verdict, judge_owner_of(fact->label), DO_NONE, LANE_NONE, CONFIDENCE_MEDIUM);
    verdict->advice = ADVICE_WATCH;
    evidence_blame(evidence, fact_is_warning, verdict);
    verdict->facts_used = evidence_count(evidence, fact_is_warning);
    (void)text_sentence(verdict->why, sizeof(verdict->why), "nothing ended, but: %.150s",
                        fact->text);
    return true;
}
