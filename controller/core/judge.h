/* judge.h: from facts to a verdict: who is at fault, what the job must do, what the node needs.
 *
 * Pure: facts in, verdict out. A table of rules (judge.c) is tried from the strongest evidence to
 * the weakest; the first row that matches decides, and its name stands in the
 * verdict, so that a person can look it up. The judge never decides about budgets, breakers or
 * placement.
 *
 * A fact with a label was read by a catalogue (proto/base/signal.h) and is judged by what that
 * says: label, advice, role, and subject where it matters what it is about. One without is judged
 * by source, code, severity and a few words of its text. */
#ifndef KEEPSTEP_CORE_JUDGE_H
#define KEEPSTEP_CORE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/core/record.h"
#include "proto/base/message.h"

/* An earlier, judged incident, for the repeat test. */
struct judge_past {
    uint64_t signature;
    uint64_t age_ms; /* service time since it was opened */
    uint32_t job;
    uint64_t step; /* the job's last step then */
    uint32_t node; /* first blamed, 0 = none */
    int32_t slot;  /* that it held then; -1: not known */
    bool moved;    /* a rank had asked for another GPU (code 16) */
};

/* A fact of an earlier incident that is looked for again: the same device, the same port, the same
 * value. */
struct judge_mark {
    uint64_t what; /* judge_mark_of() */
    bool is_value; /* judge_is_value() */
    uint64_t age_ms;
    uint32_t node;
    uint32_t job;
};

struct judge_input {
    const struct fact *facts;
    uint32_t fact_count;
    uint32_t job;
    uint32_t world;
    uint32_t slot_count;
    uint32_t ranks_per_node;
    uint32_t replicas;            /* data parallel size, 0 = not known */
    uint64_t step;                /* last completed step of the attempt, 0 = none */
    bool ever_stepped;            /* any attempt of the job */
    bool loading;                 /* the attempt ended while it loaded a checkpoint */
    const int32_t *restart_codes; /* EXIT_CODES_MAX each, 0 = unused */
    const int32_t *final_codes;
    const struct judge_past *past;
    uint32_t past_count;
    const struct judge_mark *marks;
    uint32_t mark_count;
    /* node id -> slot of this job, -1 when it holds none; and its labels, interned, 0 = unknown */
    int32_t (*slot_of)(const void *context, uint32_t node);
    uint32_t (*rack_of)(const void *context, uint32_t node);
    uint32_t (*feed_of)(const void *context, uint32_t node); /* these may be NULL: unknown */
    uint32_t (*leaf_of)(const void *context, uint32_t node);
    /* The node that a peer printed by a library is on: a name, an address; 0: cannot be told. */
    uint32_t (*peer_of)(const void *context, const char *peer);
    const void *context;
};

enum { JUDGE_BLAMED_MAX = 256, JUDGE_RULES_MAX = 64, JUDGE_USED_MAX = 64 };

/* blamed: with DO_EVICT the nodes to be replaced; with DO_RESTART the suspect, which keeps its slot
 * (the repeat test needs its name the next time), or the node to be cleaned first; with DO_NONE
 * those to be watched. With the other actions and with owner user none are blamed, but for nodes
 * that are gone anyway. */
struct judge_verdict {
    uint8_t owner;       /* enum fault_owner_word */
    uint8_t action;      /* enum job_action_word; DO_NONE: nothing had to be stopped for it */
    uint8_t lane;        /* enum repair_lane_word */
    uint8_t confidence;  /* enum confidence_word */
    uint8_t advice;      /* enum signal_advice: action and lane as one word of catalogues */
    bool evict;          /* action as judged, kept when the budget turns it into a hold */
    bool retry;          /* with DO_FAIL: what is left of the owner's budget may still be used */
    bool free_of_budget; /* exit code 75 and its like */
    bool launch_error;   /* the command itself cannot start: no restart, no node blamed */
    const char *rule;    /* borrowed, static */
    uint32_t facts_used;
    uint32_t blamed_count;
    uint32_t blamed[JUDGE_BLAMED_MAX]; /* node ids, ascending */
    uint64_t signature; /* equal for "the same failure again", whatever the node and time */
    char why[TEXT_SIZE];
};

/* Total: no facts, foreign facts and impossible values give a verdict too (the last rows of the
 * table). Facts of other jobs and of nodes without a slot of this job are left out. The order of
 * `facts` does not matter, their receive times do: of two at the same time the one of the lower
 * node, then rank, counts as the earlier. */
void judge(const struct judge_input *input, struct judge_verdict *ret_verdict);

/* What a fact is remembered by: 0 when it is nothing that is looked for again. */
uint64_t judge_mark_of(const struct fact *fact);
bool judge_is_value(const struct fact *fact); /* it tells of a value, as NaN */

/* The label that catalogues have for an owner. */
uint8_t judge_label_of(uint8_t owner);

/* The rules as people read them, for `explain verdict`: name, what it looks at, what it decides. */
struct judge_rule_text {
    const char *name;
    const char *when;
    const char *then;
};
const struct judge_rule_text *judge_rule_text(uint32_t index); /* NULL past the end */

/* Why this rule and no stronger one. */
struct judge_explanation {
    uint32_t rule;                  /* index of the one that decided */
    uint32_t used_count;            /* facts that it looked at, at most JUDGE_USED_MAX … */
    uint32_t used[JUDGE_USED_MAX];  /* … by their index; none: it looked at all together */
    uint32_t seen[JUDGE_RULES_MAX]; /* of each tried before: facts of the kind that it looks at */
    uint32_t followers;             /* facts that only tell what another failure did */
    uint32_t noise;                 /* facts that mean nothing */
};
void judge_explain(const struct judge_input *input, struct judge_explanation *ret_explanation);

#endif
