/* goodput.h: months of a training job in virtual time: how much of them is useful work, and where
 * the rest goes.
 *
 * The shipping decision code of the controller and of every node's agent is stepped (controller/core
 * and agent/core); what is modelled is what lies outside: hosts that fail and come back repaired,
 * processes, the training program with its steps and saves, an operator who drains and releases.
 *
 * A healthy fleet does nothing for hours but beat. Such stretches are not simulated: all clocks but
 * the one for accounts stand still, and every node's lease is taken up again before the next thing
 * happens ("lazy" in the figures). With full_heartbeats each beat is stepped; the records are the
 * same, which a test compares.
 *
 *     struct goodput_options options;
 *     goodput_preset(&options, "llama3");
 *     if (goodput_check(&options, &err) < 0) ...
 *     goodput_run(&options, &result);
 */
#ifndef KEEPSTEP_SIM_GOODPUT_H
#define KEEPSTEP_SIM_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/core/words.h"
#include "proto/base/err.h"

enum {
    GOODPUT_CATEGORIES_MAX = 24,
    GOODPUT_NODES_MAX = 4224,
    GOODPUT_DAYS_MAX = 400,
    GOODPUT_TRACE_MAX = 100000,
};

/* How a failure shows itself. */
enum goodput_how {
    GOODPUT_SIGNAL,  /* a probe on the node tells of it; the node leaves and is repaired */
    GOODPUT_SILENT,  /* the host is gone without a word */
    GOODPUT_EXIT,    /* every rank ends with the same code: the program, or what all depend on */
    GOODPUT_ABORT,   /* one node's ranks end by a signal: a watchdog that says no more */
    GOODPUT_CORRUPT, /* steps go on, wrong, until a rank asks for another GPU (code 16) */
    GOODPUT_PLANNED, /* no failure: an operator drains the node at a checkpoint */
};

struct goodput_category {
    const char *word;
    uint32_t count;     /* of what the mix counts: its share of all failures */
    uint32_t detect_ms; /* from the failure to its sign; SILENT: what the mix expects */
    uint32_t repair_ms; /* until the node is given back; 0: nothing to repair */
    uint8_t how;        /* enum goodput_how */
};

/* One given failure, in place of those that are drawn. */
struct goodput_given {
    uint64_t at_ms; /* since the start */
    uint32_t node;
    uint32_t category; /* index */
};

struct goodput_options {
    uint64_t seed;
    uint32_t nodes;
    uint32_t spares; /* of these; the rest hold the job's slots */
    uint32_t ranks_per_node;
    uint64_t wall_ms;
    uint64_t failures_ppm; /* of a node in a day, times a million; planned drains are apart */
    uint64_t drains_ppm;
    uint32_t step_ms;
    uint32_t stall_ms; /* training stands for a save */
    uint32_t save_ms;  /* until it is durable */
    uint32_t stop_ms;  /* ranks take so long to end when told */
    uint32_t plan_ms;  /* the controller's evidence is closed so long after the last rank is gone */
    uint32_t launch_ms;
    uint32_t init_ms;
    uint32_t load_ms;
    uint32_t interval_steps; /* 0: the best one for these failures */
    uint32_t repair_ms;      /* 0: by category */
    uint32_t person_ms;      /* until a person releases a job that is held */
    bool bursts;             /* Weibull gaps, shape 0.7, in place of Poisson ones */
    bool lemons;             /* nodes differ by a lognormal factor */
    uint32_t together_ppm;   /* failures that take a group of hosts */
    uint32_t repeat_ppm;     /* … that come again on the node within an hour of its return */
    uint32_t rma_ppm;        /* repairs that need a part: a week to two */
    bool repair_drawn;       /* repair times are drawn around their median, category by category */
    uint32_t lost_ppm;       /* evidence that never arrives */
    bool full_heartbeats;
    struct goodput_category category[GOODPUT_CATEGORIES_MAX];
    uint32_t category_count;
    const struct goodput_given *given; /* borrowed; NULL: failures are drawn */
    uint32_t given_count;
    /* Where the trace goes, a line a time; NULL: nowhere. */
    void (*line)(void *context, const char *line);
    void *line_context;
};

/* "llama3" or "field". -EINVAL: there is no such preset. */
MUST_CHECK int goodput_preset(struct goodput_options *ret_options, const char *name);
/* Whether such a fleet can be run at all. -EINVAL, -ERANGE with what, where and what to do. */
MUST_CHECK int goodput_check(const struct goodput_options *options, struct err *err);
/* The interval in steps that a run with these options uses. */
uint32_t goodput_interval(const struct goodput_options *options);

/* What one category, or one other cause, cost. */
struct goodput_cost {
    uint32_t count;     /* failures that struck */
    uint64_t redo_ms;   /* steps done again */
    uint64_t detect_ms; /* training stood until the controller acted */
    uint64_t down_ms;   /* … from then to the first new step's begin */
    /* The verdicts on it: the first of each failure, and the nodes that left for it. */
    uint32_t judged;
    uint32_t right;
    uint32_t evicted;
    uint32_t evicted_well; /* … that were at fault */
};

enum { GOODPUT_PHASE_SAMPLES = 65536 };

struct goodput_phase {
    uint32_t count;
    uint32_t p50_ms;
    uint32_t p99_ms;
};

/* Sums over wall_ms are exact: useful + stall + start + all costs = wall. */
struct goodput_result {
    uint64_t wall_ms;
    uint64_t useful_ms; /* steps that stand at the end, times the step time */
    uint64_t stall_ms;
    uint64_t start_ms;     /* before the first step */
    uint64_t unsettled_ms; /* the step that was under way at the end, and a recovery that was */
    struct goodput_cost cost[GOODPUT_CATEGORIES_MAX + 1]; /* by category; the last: none of them */
    uint64_t booked_ms[time_kind_count];                  /* as the controller booked it */
    uint64_t booked_wall_ms;
    struct goodput_phase phase[phase_count]; /* of recoveries that ended */
    struct goodput_phase total;
    uint32_t interval_steps;
    uint32_t failures;
    uint32_t drains;
    uint32_t recoveries;
    uint32_t merged; /* failures while a recovery was under way */
    uint32_t false_evictions;
    uint32_t wrong_verdicts;
    uint32_t suspect_restores; /* saves after a corruption that the controller took for good */
    uint32_t interventions;    /* a person had to release or submit the job again */
    uint32_t returns;          /* nodes given back after a repair */
    uint32_t spares_least;     /* usable spares, at the lowest */
    bool ended;                /* the job was over before the time was */
    uint64_t saves;
    uint64_t steps;       /* of the program */
    uint64_t core_steps;  /* calls of core_step */
    uint64_t agent_steps; /* calls of agent_core_step */
    uint64_t records;
    uint64_t records_hash; /* of every record, its times included */
    uint64_t beats;
    uint64_t sleeps; /* stretches that were not simulated beat by beat */
    uint64_t slept_ms;
};

void goodput_run(const struct goodput_options *options, struct goodput_result *ret_result);
/* Adds one run to a sum of others: times and counts add up, spares_least is the least; of phases the
 * p50 is the mean of the runs, weighted, and the p99 the largest. */
void goodput_add(struct goodput_result *sum, const struct goodput_result *one);

/* ---- the closed form (goodput_form.c) ------------------------------------------------------ */

/* What theory expects of the same assumptions: failures as a Poisson process, each costing its
 * detection, a restart, and the work since the last durable save (numbers of Daly, 2006, with the
 * time that a save takes to become durable added). Floating point: for reports and tests only. */
struct goodput_form {
    double goodput;
    double stall;                        /* shares of the wall time */
    double cost[GOODPUT_CATEGORIES_MAX]; /* by category */
};
void goodput_form(const struct goodput_options *options, struct goodput_form *ret_form);

#endif
