/* schedule.h: in which order a stage of the pipeline works on its micro-batches: 1F1B. Pure.
 *
 * A stage runs ahead of its successors by as many forward passes as there are stages after it, then
 * one backward for each forward, then the backward passes that are left. So it keeps the traces of
 * at most (stages - stage) micro-batches, however many there are:
 *
 *     3 stages, 4 micro-batches     time ->
 *     stage 0   F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
 *     stage 1      F0 F1 .  B0 F2 B1 F3 B2 .  B3
 *     stage 2         F0 B0 F1 B1 F2 B2 F3 B3
 */
#ifndef KEEPSTEP_TRAINER_SCHEDULE_H
#define KEEPSTEP_TRAINER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct schedule {
    uint32_t stage, stages;
    uint32_t micros; /* micro-batches of one step; at least 1 */
};

struct schedule_pass {
    bool backward;
    uint32_t micro;
};

/* How many passes there are: two a micro-batch. */
uint32_t schedule_length(const struct schedule *schedule);
/* The pass at this index of the order; index < schedule_length. */
struct schedule_pass schedule_at(const struct schedule *schedule, uint32_t index);
/* Micro-batches whose traces are needed at once; micro m may use place m % this. */
uint32_t schedule_in_flight(const struct schedule *schedule);

#endif
