/* estimate.h: the formulas behind intervals, spares, strikes and evictions, in integers. Pure.
 *
 * What these return enters the journal as part of a record before anything is done with it, so a
 * better formula in a later version never changes what an older journal folds to. Their sources are
 * named at each; the tests compare them with the same formulas in floating point. Inputs beyond what
 * is said count as the bound: nothing overflows, nothing is refused. Probabilities are in 1/2^32. */
#ifndef KEEPSTEP_CORE_ESTIMATE_H
#define KEEPSTEP_CORE_ESTIMATE_H

#include <stdint.h>

/* Whole square root, rounded down. */
uint64_t estimate_sqrt(uint64_t value);

/* e^-x for x in 1/2^32, in 1/2^32; rounded to the nearest but for the last two or three bits. */
uint64_t estimate_exp_minus(uint64_t x_q32);

struct estimate_interval_input {
    uint64_t stall_ms; /* training stands for one save; at most 18 hours */
    uint64_t save_ms;  /* from its begin until it is durable: no two overlap */
    uint64_t step_ms;  /* 0: not known yet */
    uint64_t gap_ms;   /* mean time between failures of the whole job; at most 2 years */
};
/* Work between two saves that costs least, in ms: J. T. Daly, "A higher order estimate of the
 * optimum checkpoint interval for restart dumps", FGCS 22 (2006), equation 37; never under save_ms.
 * A stall of 0 counts as 1 ms: a save is never wholly free. */
uint64_t estimate_interval_ms(const struct estimate_interval_input *input);
/* The same in whole steps, at least 1 and never less than save_ms; 0 when step_ms is 0. */
uint32_t estimate_interval_steps(const struct estimate_interval_input *input);

/* What saving that often costs, in millionths of all time: the stalls, and half an interval of work
 * done again at each failure. A millionth at least, all of it at most. */
uint32_t estimate_interval_cost_ppm(const struct estimate_interval_input *input,
                                    uint64_t interval_ms);

/* The mean of `count` times that are all_ms together, one of the assumed length mixed in: the prior
 * of estimate_gap_ms, for any kind of time. */
uint64_t estimate_mean_ms(uint64_t count, uint64_t all_ms, uint64_t assumed_ms);

/* The mean gap of a job's failures as seen so far: `count` in `span_ms`, with one more failure of
 * the assumed rate mixed in (a Gamma prior of weight 1), so that none seen yet is not "never".
 * assumed_ms: what a fleet of this size is expected to show before anything was seen. */
uint64_t estimate_gap_ms(uint64_t count, uint64_t span_ms, uint64_t assumed_ms);

/* Spares that are enough with probability `enough` while a lost node is away for away_ms: the
 * quantile of a Poisson distribution of mean nodes x away/gap, which the binomial of independent
 * nodes comes to where each fails rarely, and which is never smaller. node_gap_ms: mean time between
 * failures of one node. At most `nodes`. */
struct estimate_spares_input {
    uint32_t nodes;
    uint64_t node_gap_ms;
    uint64_t away_ms;
    uint32_t enough_q32; /* 0.99 is ESTIMATE_Q32_99 */
};
#define ESTIMATE_Q32_99 4252017623u
uint32_t estimate_spares(const struct estimate_spares_input *input);

/* What strikes weigh after a while, in 1/1000 of one: each halves every `half_ms`
 * (exponential decay; 7 days by default). */
uint64_t estimate_decayed(uint64_t milli, uint64_t age_ms, uint64_t half_ms);

/* Is it worth to evict `extra` nodes beside the one that is guessed, when the guess may be wrong?
 * Evicting them costs, with the probability that spares then run out, a wait; not evicting them costs
 * another failure with the probability that the guess is wrong (numbers.md 5.6). All in ms of the
 * whole job; chances in 1/2^32. */
struct estimate_eviction_input {
    uint32_t extra;
    uint32_t wrong_q32;    /* the guess is wrong */
    uint64_t cycle_ms;     /* another failure: its detection, restart and lost work */
    uint32_t no_spare_q32; /* one node less among the spares lets them run out */
    uint64_t wait_ms;      /* until a node comes back then */
};
/* > 0: evicting the extra nodes saves so many ms in the mean; < 0: it costs them. */
int64_t estimate_eviction_gain_ms(const struct estimate_eviction_input *input);

#endif
