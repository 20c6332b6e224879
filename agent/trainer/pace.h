/* pace.h: how long a step takes: measuring it, and stretching it on order.
 *
 * A step may have a floor (demonstrations need steps that a kill can hit) and a factor (a slow
 * node). Both are waits on the clock that look after the peers meanwhile. */
#ifndef KEEPSTEP_TRAINER_PACE_H
#define KEEPSTEP_TRAINER_PACE_H

#include <stdint.h>

#include "agent/trainer/comm.h"

uint64_t pace_now_us(void); /* monotonic */

/* Waits until begun_us + max(what has passed, floor_ms) x slowness. 0, or the error of a comm that
 * broke meanwhile. */
MUST_CHECK int pace_stretch(struct comm *comm, uint64_t begun_us, uint32_t floor_ms,
                            double slowness);

#endif
