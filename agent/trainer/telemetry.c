/* telemetry.c: notes a number, tells it. What comes back is ignored, as the header says. */
#include "agent/trainer/telemetry.h"

#include <stdlib.h>

/* ---- names ---------------------------------------------------------------------------------- */

static enum keepstep_axis axis_of(enum comm_axis axis)
{
    switch (axis) {
    case COMM_WORLD:
        return KEEPSTEP_AXIS_WORLD;
    case COMM_TENSOR:
        return KEEPSTEP_AXIS_TENSOR;
    case COMM_CONTEXT:
        return KEEPSTEP_AXIS_CONTEXT;
    case COMM_PIPELINE:
        return KEEPSTEP_AXIS_PIPELINE;
    case COMM_DATA:
        return KEEPSTEP_AXIS_DATA;
    }
    abort(); /* every value of the enumeration is above */
}

static enum keepstep_operation operation_of(enum comm_operation operation)
{
    switch (operation) {
    case COMM_NONE:
        return KEEPSTEP_OPERATION_NONE;
    case COMM_ALL_REDUCE:
        return KEEPSTEP_ALL_REDUCE;
    case COMM_ALL_GATHER:
        return KEEPSTEP_ALL_GATHER;
    case COMM_REDUCE_SCATTER:
        return KEEPSTEP_REDUCE_SCATTER;
    case COMM_BROADCAST:
        return KEEPSTEP_BROADCAST;
    case COMM_SEND:
        return KEEPSTEP_SEND;
    case COMM_RECEIVE:
    case COMM_SEND_RECEIVE: /* it waits for what it is to receive */
        return KEEPSTEP_RECEIVE;
    case COMM_BARRIER:
        return KEEPSTEP_BARRIER;
    }
    abort(); /* every value of the enumeration is above */
}

/* ---- communicators -------------------------------------------------------------------------- */

static void watch(const struct comm_group *group, void *context)
{
    struct telemetry *telemetry = context;
    struct telemetry_communicator *one = &telemetry->communicators[group->axis];
    one->enqueued = group->enqueued;
    one->completed = group->completed;
    one->head = group->head;
    one->head_peer = group->head_peer;
    (void)keepstep_collective(one->number, one->enqueued, one->completed,
                              (int)operation_of(one->head), one->head_peer);
}

void telemetry_start(struct telemetry *telemetry, struct comm *comm)
{
    *telemetry = (struct telemetry){.place = comm->place, .phase = KEEPSTEP_INIT};
    (void)keepstep_coordinates(comm->place.tensor, comm->place.context, comm->place.pipeline,
                               comm->place.data);
    for (int i = 0; i < COMM_AXES; i++) {
        const enum comm_axis axis = (enum comm_axis)i;
        const bool told = comm->groups[i].size > 1;
        telemetry->communicators[i] = (struct telemetry_communicator){
            .number = told ? keepstep_communicator(comm_axis_name(axis), (int)axis_of(axis)) : -1,
            .head_peer = -1,
        };
    }
    comm->watch = watch;
    comm->watch_context = telemetry;
}

void telemetry_stop(struct comm *comm)
{
    comm->watch = NULL;
}

/* ---- progress ------------------------------------------------------------------------------- */

void telemetry_phase(struct telemetry *telemetry, enum keepstep_phase phase)
{
    telemetry->phase = phase;
    (void)keepstep_phase((int)phase);
}

void telemetry_step_begin(struct telemetry *telemetry, const struct comm *comm, uint64_t step)
{
    telemetry->phase = KEEPSTEP_STEP;
    telemetry->step = step;
    telemetry->waited_before = comm_wait_us(comm);
    (void)keepstep_step_begin(step);
}

void telemetry_compute(struct telemetry *telemetry, const struct comm *comm, uint64_t elapsed_us)
{
    const uint64_t waited_us = comm_wait_us(comm) - telemetry->waited_before;
    telemetry->compute_us = elapsed_us > waited_us ? elapsed_us - waited_us : 0;
    (void)keepstep_step_compute(telemetry->compute_us);
}

void telemetry_step_end(struct telemetry *telemetry, const struct comm *comm, double loss,
                        double gradient_norm, uint64_t weights_hash)
{
    telemetry->wait_us = comm_wait_us(comm) - telemetry->waited_before;
    telemetry->loss = loss;
    telemetry->gradient_norm = gradient_norm;
    telemetry->weights_hash = weights_hash;
    telemetry->steps_ended = telemetry->step;
    (void)keepstep_loss(telemetry->step, loss);
    (void)keepstep_gradient_norm(telemetry->step, gradient_norm);
    (void)keepstep_parameter_hash(telemetry->step, weights_hash);
    (void)keepstep_step_end(telemetry->step);
}
