/* estimate.h: the formulas behind intervals, spares, strikes and evictions, in integers. Pure.
 *
 * What these return enters the journal as part of a record before anything is done with it, so a
 * better formula in a later version never changes what an older journal folds to. Their sources are
 * named at each; the tests compare them with the same formulas in floating point. Every input is
 * bounded or saturates: no value overflows, none is refused. */
#ifndef KEEPSTEP_CORE_ESTIMATE_H
#define KEEPSTEP_CORE_ESTIMATE_H

#include <stdint.h>

/* Whole square root, rounded down. */
uint64_t estimate_sqrt(uint64_t value);

struct estimate_interval_input {
    uint64_t stall_ms; /* training stands for one save */
    uint64_t save_ms;  /* from its begin until it is durable: no two overlap */
    uint64_t step_ms;  /* 0: not known yet */
    uint64_t gap_ms;   /* mean time between failures of the whole job */
};
/* Work between two saves that costs least, in ms: J. T. Daly, "A higher order estimate of the
 * optimum checkpoint interval for restart dumps", FGCS 22 (2006), equation 37; never under save_ms.
 * A stall of 0 counts as 1 ms: a save is never wholly free. */
uint64_t estimate_interval_ms(const struct estimate_interval_input *input);
/* The same in whole steps, at least 1 and never less than save_ms; 0 when step_ms is 0. */
uint32_t estimate_interval_steps(const struct estimate_interval_input *input);

#endif
