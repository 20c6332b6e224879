/* pipeline.c: the order comes from schedule.h, the passes from model.h; here is what passes between
 * them. */
#include "agent/trainer/pipeline.h"

#include <stdbool.h>

#include "agent/trainer/schedule.h"

/* One walk through a step. */
struct walk {
    struct model *model;
    struct comm_group *group;
    struct schedule schedule;
    const uint8_t *text;
    uint32_t samples;
    uint32_t traces;
    float scale;
};

static struct schedule schedule_of(const struct comm *comm, uint32_t micros)
{
    return (struct schedule){
        .stage = comm->place.pipeline, .stages = comm->layout.pipeline, .micros = micros};
}

uint32_t pipeline_traces(const struct comm *comm, uint32_t micros)
{
    const struct schedule schedule = schedule_of(comm, micros);
    return schedule_in_flight(&schedule);
}

static struct walk walk_of(struct model *model, const uint8_t *text, uint32_t micros,
                           uint32_t samples)
{
    struct comm *comm = model_comm(model);
    return (struct walk){
        .model = model,
        .group = comm_group(comm, COMM_PIPELINE),
        .schedule = schedule_of(comm, micros),
        .text = text,
        .samples = samples,
        .traces = pipeline_traces(comm, micros),
    };
}

/* What a pass needs from a neighbour: the stream from before, or the gradient from after. */
static void add_input(const struct walk *walk, struct schedule_pass pass,
                      struct comm_transfer *transfer)
{
    const uint32_t stage = walk->schedule.stage;
    const uint32_t trace = pass.micro % walk->traces;
    if (pass.backward ? stage + 1 == walk->schedule.stages : stage == 0) {
        return;
    }
    transfer->input =
        pass.backward ? model_down(walk->model, trace) : model_input(walk->model, trace);
    transfer->input_count = model_stream_size(walk->model, walk->samples);
    transfer->input_peer = pass.backward ? stage + 1 : stage - 1;
}

/* What a pass has for a neighbour: the stream for after, or the gradient for before. */
static void add_output(const struct walk *walk, struct schedule_pass pass,
                       struct comm_transfer *transfer)
{
    const uint32_t stage = walk->schedule.stage;
    const uint32_t trace = pass.micro % walk->traces;
    if (pass.backward ? stage == 0 : stage + 1 == walk->schedule.stages) {
        return;
    }
    transfer->output =
        pass.backward ? model_down(walk->model, trace) : model_output(walk->model, trace);
    transfer->output_count = model_stream_size(walk->model, walk->samples);
    transfer->output_peer = pass.backward ? stage - 1 : stage + 1;
}

static int do_pass(const struct walk *walk, struct schedule_pass pass)
{
    struct model *model = walk->model;
    const uint32_t trace = pass.micro % walk->traces;
    const size_t window = (size_t)model_parameters(model)->shape.context + 1;
    if (pass.backward) {
        return model_backward(model, trace, walk->samples, walk->scale);
    }
    model_set_text(model, trace, walk->text + pass.micro * walk->samples * window, walk->samples);
    return model_forward(model, trace, walk->samples);
}

int pipeline_learn(struct model *model, const uint8_t *text, uint32_t micros, uint32_t samples,
                   float scale, double *ret_loss)
{
    struct walk walk = walk_of(model, text, micros, samples);
    const uint32_t length = schedule_length(&walk.schedule);
    struct comm_transfer transfer = {0};
    walk.scale = scale;
    add_input(&walk, schedule_at(&walk.schedule, 0), &transfer);
    for (uint32_t i = 0; i < length; i++) {
        const struct schedule_pass pass = schedule_at(&walk.schedule, i);
        int code = comm_send_receive(walk.group, &transfer, COMM_F32);
        if (code == 0) {
            code = do_pass(&walk, pass);
        }
        if (code < 0) {
            return code;
        }
        transfer = (struct comm_transfer){0};
        add_output(&walk, pass, &transfer);
        if (i + 1 < length) {
            add_input(&walk, schedule_at(&walk.schedule, i + 1), &transfer);
        }
    }
    const int code = comm_send_receive(walk.group, &transfer, COMM_F32);
    return code < 0 ? code : model_take_loss(model, ret_loss);
}

int pipeline_evaluate(struct model *model, const uint8_t *text, uint32_t micros, uint32_t samples,
                      double *ret_loss)
{
    const struct walk walk = walk_of(model, text, micros, samples);
    for (uint32_t micro = 0; micro < micros; micro++) {
        const struct schedule_pass pass = {.backward = false, .micro = micro};
        struct comm_transfer before = {0};
        struct comm_transfer after = {0};
        add_input(&walk, pass, &before);
        add_output(&walk, pass, &after);
        int code = comm_send_receive(walk.group, &before, COMM_F32);
        if (code == 0) {
            code = do_pass(&walk, pass);
        }
        if (code == 0) {
            code = comm_send_receive(walk.group, &after, COMM_F32);
        }
        if (code < 0) {
            return code;
        }
    }
    return model_take_loss(model, ret_loss);
}
