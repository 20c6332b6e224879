/* inject.h: faults on order, so that tests and demonstrations can break a rank from inside.
 *
 * One fault is a text, given with --inject as often as wished:
 *
 *     KIND[=VALUE][@STEP][:rank=R][:attempt=A]
 *
 *     crash@K       dies of SIGSEGV in step K, after its computation, before the exchange
 *     hang@K        stops for ever there, with all signals blocked (only SIGKILL ends it)
 *     exit=C@K      ends there with code C
 *     slow=X[@K]    takes X times as long for each step (from step K on)
 *     stall=S@K     stays S seconds in the save after step K before it writes
 *     ignore-term   ignores SIGTERM from the start
 *     fork-child[@K] leaves a child in a session of its own (at the start, or in step K)
 *     hold-port     rank 0 leaves a child that goes on listening on MASTER_PORT
 *     cut=tp|pp|dp[@K]  exchanges nothing along that axis (from step K on) and takes its own part
 *                   for the whole, as comm_cut says: tests show with it that they would see an
 *                   exchange that is missing. Not for single ranks: their peers would wait
 *
 * Without rank or attempt every one is meant. Children end by themselves after ten minutes. */
#ifndef KEEPSTEP_TRAINER_INJECT_H
#define KEEPSTEP_TRAINER_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/comm.h"
#include "agent/trainer/fail.h"

enum { INJECT_MAX = 16 };

enum inject_kind {
    INJECT_CRASH,
    INJECT_HANG,
    INJECT_EXIT,
    INJECT_SLOW,
    INJECT_STALL,
    INJECT_IGNORE_TERM,
    INJECT_FORK_CHILD,
    INJECT_HOLD_PORT,
    INJECT_CUT,
};

struct inject {
    enum inject_kind kind;
    uint64_t step;       /* 0: at the start, or always */
    double value;        /* exit code, factor, or seconds */
    enum comm_axis axis; /* of a cut */
    int64_t rank;        /* -1: every one */
    int64_t attempt;     /* -1: every one */
};

/* EXIT_BAD_CONFIG with the word that is wrong. */
MUST_CHECK int inject_parse(const char *text, struct fail *fail, struct inject *ret_inject);
bool inject_is_for(const struct inject *inject, uint32_t rank, uint32_t attempt);

/* Carries out what belongs to the start of a rank: ignore-term, fork-child without a step. */
void inject_start(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt);
/* True when rank 0's listening socket must be kept for inject_hold_port. */
bool inject_wants_port(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt);
/* Leaves a child that holds the listener; closes it here. */
void inject_hold_port(int listener);
/* Carries out what belongs to the middle of a step; may not return. */
void inject_step(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                 uint64_t step);
/* How many times as long a step must take: 1 when nothing was ordered. */
double inject_slowness(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                       uint64_t step);
/* How long the save after this step must take before it writes: 0 when nothing was ordered. */
uint32_t inject_stall_ms(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                         uint64_t step);
/* Is this axis cut in this step? */
bool inject_cuts(const struct inject *list, size_t count, uint32_t rank, uint32_t attempt,
                 uint64_t step, enum comm_axis axis);

#endif
