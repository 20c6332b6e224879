/* judge.h: from facts to a verdict: who is at fault, what the job must do, what the node needs.
 *
 * Pure: facts in, verdict out. A table of rules (judge.c) is tried from the strongest evidence to
 * the weakest; the first row that matches decides, and its name stands in the
 * verdict, so that a person can look it up. The judge never decides about budgets, breakers or
 * placement. */
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
};

struct judge_input {
    const struct fact *facts;
    uint32_t fact_count;
    uint32_t job;
    uint32_t world;
    uint32_t slot_count;
    uint32_t ranks_per_node;
    uint64_t step;                /* last completed step of the attempt, 0 = none */
    bool ever_stepped;            /* any attempt of the job */
    bool loading;                 /* the attempt ended while it loaded a checkpoint */
    const int32_t *restart_codes; /* EXIT_CODES_MAX each, 0 = unused */
    const int32_t *final_codes;
    const struct judge_past *past;
    uint32_t past_count;
    /* node id -> slot of this job, -1 when it holds none; and its labels, interned, 0 = unknown */
    int32_t (*slot_of)(const void *context, uint32_t node);
    uint32_t (*rack_of)(const void *context, uint32_t node);
    uint32_t (*feed_of)(const void *context, uint32_t node); /* these two may be NULL: unknown */
    uint32_t (*leaf_of)(const void *context, uint32_t node);
    const void *context;
};

enum { JUDGE_BLAMED_MAX = 256 };

/* blamed: with DO_EVICT the nodes to be replaced; with DO_RESTART the suspect, which keeps its slot
 * (the repeat test needs its name the next time). With the other actions and with owner user none
 * are blamed, but for nodes that are gone anyway. */
struct judge_verdict {
    uint8_t owner;       /* enum fault_owner_word */
    uint8_t action;      /* enum job_action_word */
    uint8_t lane;        /* enum repair_lane_word */
    uint8_t confidence;  /* enum confidence_word */
    bool evict;          /* action as judged, kept when the budget turns it into a hold */
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

/* The rules as people read them, for `explain verdict`: name, what it looks at, what it decides. */
struct judge_rule_text {
    const char *name;
    const char *when;
    const char *then;
};
const struct judge_rule_text *judge_rule_text(uint32_t index); /* NULL past the end */

#endif
