/* telemetry.c: notes a number, tells it. */
#include "agent/trainer/telemetry.h"

static void watch(const struct comm_group *group, void *context)
{
    struct telemetry *telemetry = context;
    struct telemetry_communicator *one = &telemetry->communicators[group->axis];
    one->enqueued = group->enqueued;
    one->completed = group->completed;
    one->head = group->head;
    one->head_peer = group->head_peer;
}

void telemetry_start(struct telemetry *telemetry, struct comm *comm)
{
    *telemetry = (struct telemetry){.place = comm->place, .phase = KEEPSTEP_INIT};
    for (int axis = 0; axis < COMM_AXES; axis++) {
        telemetry->communicators[axis] = (struct telemetry_communicator){
            .name = comm_axis_name((enum comm_axis)axis),
            .size = comm->groups[axis].size,
            .head_peer = -1,
        };
    }
    comm->watch = watch;
    comm->watch_context = telemetry;
    (void)keepstep_coordinates(comm->place.tensor, comm->place.context, comm->place.pipeline,
                               comm->place.data);
}

void telemetry_phase(struct telemetry *telemetry, enum keepstep_phase phase)
{
    telemetry->phase = phase;
    (void)keepstep_phase(phase);
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
    (void)keepstep_step_end(telemetry->step);
}
