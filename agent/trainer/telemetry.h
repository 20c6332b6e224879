/* telemetry.h: everything that this rank tells Keepstep about its progress, in one struct and by
 * one file. Telling is a courtesy: without an agent, or with one of another version, the calls do
 * nothing, and no failure of theirs is one of the training.
 *
 * Order in a step: telemetry_step_begin, telemetry_compute (after the passes, before the exchange
 * of gradients), telemetry_step_end (after the update, with the hash of the weights that the next
 * forward pass will use). Operations of the communicators are told whenever they begin and end, so
 * that a rank that hangs in one has said so before. */
#ifndef KEEPSTEP_TRAINER_TELEMETRY_H
#define KEEPSTEP_TRAINER_TELEMETRY_H

#include <stdint.h>

#include "agent/rank/keepstep.h"
#include "agent/trainer/comm.h"

/* One communicator: a hang shows as enqueued ahead of completed on those who wait for it. */
struct telemetry_communicator {
    int number; /* keepstep_communicator's; negative: not told, for it has no other member */
    uint64_t enqueued;
    uint64_t completed;
    enum comm_operation head;
    int32_t head_peer; /* member of a send or receive; -1 */
};

struct telemetry {
    struct comm_layout place;
    enum keepstep_phase phase;
    uint64_t step;          /* begun */
    uint64_t steps_ended;   /* the last that is complete … */
    uint64_t compute_us;    /* … and of it: this rank's own work */
    uint64_t wait_us;       /* time inside operations, over the whole step */
    double loss;            /* mean over the step's bytes, of the whole world, nats */
    double gradient_norm;   /* of the whole model, each weight counted once */
    uint64_t weights_hash;  /* of this rank's weights; equal on all replicas */
    uint64_t waited_before; /* comm_wait_us when the step began */
    struct telemetry_communicator communicators[COMM_AXES];
};

/* Tells the coordinates and watches comm until telemetry_stop, which comes before the comm's end;
 * it may be called without a start. */
void telemetry_start(struct telemetry *telemetry, struct comm *comm);
void telemetry_stop(struct comm *comm);
void telemetry_phase(struct telemetry *telemetry, enum keepstep_phase phase);
void telemetry_step_begin(struct telemetry *telemetry, const struct comm *comm, uint64_t step);
/* elapsed_us: since the step began; the time inside operations is taken off. */
void telemetry_compute(struct telemetry *telemetry, const struct comm *comm, uint64_t elapsed_us);
void telemetry_step_end(struct telemetry *telemetry, const struct comm *comm, double loss,
                        double gradient_norm, uint64_t weights_hash);

#endif
