/* model.c: the memory of this rank's part of the model, and the way through its blocks. What
 * happens in them is in attention.c, mlp.c, embedding.c and head.c. */
#include "agent/trainer/model.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainer/model_state.h"

/* ---- memory --------------------------------------------------------------------------------- */

/* Gives out consecutive parts of one buffer; with memory NULL it only counts. */
struct carver {
    float *memory;
    size_t used;
};

static float *carve(struct carver *carver, size_t count)
{
    const size_t unit = KERNEL_ALIGNMENT / sizeof(float);
    float *part = carver->memory == NULL ? NULL : carver->memory + carver->used;
    carver->used += (count + unit - 1) / unit * unit;
    return part;
}

static void carve_block(struct carver *carver, const struct model *model, struct block_trace *block)
{
    const size_t rows = model->rows_max;
    const size_t width = model->parameters.shape.width;
    const size_t context = model->parameters.shape.context;
    block->norm1 = carve(carver, rows * width);
    block->mean1 = carve(carver, rows);
    block->scale1 = carve(carver, rows);
    block->qkv = carve(carver, rows * 3 * model->part_width);
    block->attention = carve(carver, rows * model->part_heads * context);
    block->mixed = carve(carver, rows * model->part_width);
    block->middle = carve(carver, rows * width);
    block->norm2 = carve(carver, rows * width);
    block->mean2 = carve(carver, rows);
    block->scale2 = carve(carver, rows);
    block->hidden = carve(carver, rows * model->part_hidden);
    block->slope = carve(carver, rows * model->part_hidden);
}

static void carve_trace(struct carver *carver, const struct model *model, struct trace *trace)
{
    const struct parameters *parameters = &model->parameters;
    const size_t rows = model->rows_max;
    const size_t width = parameters->shape.width;
    const size_t text_bytes = model->samples_max * ((size_t)parameters->shape.context + 1);
    trace->text = (uint8_t *)carve(carver, (text_bytes + sizeof(float) - 1) / sizeof(float));
    trace->stream = carve(carver, (parameters->layer_count + (size_t)1) * rows * width);
    for (uint32_t i = 0; i < parameters->layer_count; i++) {
        carve_block(carver, model, &trace->blocks[i]);
    }
    trace->norm = carve(carver, parameters->is_last ? rows * width : 0);
    trace->mean = carve(carver, parameters->is_last ? rows : 0);
    trace->scale = carve(carver, parameters->is_last ? rows : 0);
    trace->chances = carve(carver, parameters->is_last ? rows * model->part_bytes : 0);
    trace->down = carve(carver, rows * width);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void carve_all(struct carver *carver, struct model *model)
{
    const size_t rows = model->rows_max;
    for (uint32_t i = 0; i < model->trace_count; i++) {
        carve_trace(carver, model, &model->traces[i]);
    }
    model->side = carve(carver, rows * model->parameters.shape.width);
    model->wide = carve(carver, rows * larger(model->part_hidden, 3 * model->part_width));
    model->largest = carve(carver, rows);
    model->sums = carve(carver, 2 * rows);
}

static int allocate(struct model *model)
{
    struct kernel *kernel = model->kernel;
    const size_t layers = model->parameters.layer_count;
    const size_t weights = model->slice * model->comm->layout.data * sizeof(float);
    model->traces = calloc(model->trace_count, sizeof(*model->traces));
    model->blocks = calloc(model->trace_count * layers, sizeof(*model->blocks));
    model->weights = kernel_allocate(kernel, weights);
    model->gradients = kernel_allocate(kernel, weights);
    model->loss = kernel_allocate(kernel, sizeof(*model->loss));
    if (model->traces == NULL || model->blocks == NULL || model->weights == NULL ||
        model->gradients == NULL || model->loss == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < model->trace_count; i++) {
        model->traces[i].blocks = model->blocks + i * layers;
    }
    struct carver carver = {.memory = NULL, .used = 0};
    carve_all(&carver, model);
    model->memory = kernel_allocate(kernel, carver.used * sizeof(float));
    if (model->memory == NULL) {
        return -ENOMEM;
    }
    carver = (struct carver){.memory = model->memory, .used = 0};
    carve_all(&carver, model);
    return 0;
}

static int init(struct model *model, const struct model_shape *shape)
{
    const struct comm_layout *layout = &model->comm->layout;
    const int code = parameters_init(&model->parameters, shape, layout, &model->comm->place);
    if (code < 0) {
        return code;
    }
    model->rows_max = (size_t)model->samples_max * shape->context;
    model->part_width = shape->width / layout->tensor;
    model->part_heads = model->part_width / MODEL_HEAD_WIDTH;
    model->part_hidden = (size_t)MODEL_WIDENING * shape->width / layout->tensor;
    model->part_bytes = MODEL_BYTES / layout->tensor;
    model->slice = (model->parameters.elements + layout->data - 1) / layout->data;
    return allocate(model);
}

int model_create(struct kernel *kernel, struct comm *comm, const struct model_shape *shape,
                 uint32_t samples_max, uint32_t traces, struct fail *fail, struct model **ret_model)
{
    assert(samples_max > 0 && traces > 0);
    struct model *model = calloc(1, sizeof(*model));
    if (model == NULL) {
        return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory for the model");
    }
    model->kernel = kernel;
    model->comm = comm;
    model->samples_max = samples_max;
    model->trace_count = traces;
    const int code = init(model, shape);
    if (code < 0) {
        (void)model_free(model);
        return fail_set(fail, EXIT_LOCAL, code,
                        "no memory for the model and %u micro-batches of %u samples", traces,
                        samples_max);
    }
    *ret_model = model;
    return 0;
}

struct model *model_free(struct model *model)
{
    if (model != NULL) {
        kernel_release(model->kernel, model->memory);
        kernel_release(model->kernel, model->loss);
        kernel_release(model->kernel, model->gradients);
        kernel_release(model->kernel, model->weights);
        free(model->blocks);
        free(model->traces);
        parameters_done(&model->parameters);
        free(model);
    }
    return NULL;
}

/* ---- what it holds -------------------------------------------------------------------------- */

struct kernel *model_kernel(const struct model *model)
{
    return model->kernel;
}

struct comm *model_comm(const struct model *model)
{
    return model->comm;
}

const struct parameters *model_parameters(const struct model *model)
{
    return &model->parameters;
}

float *model_weights(const struct model *model)
{
    return model->weights;
}

float *model_gradients(const struct model *model)
{
    return model->gradients;
}

size_t model_slice(const struct model *model)
{
    return model->slice;
}

int model_draw(struct model *model, uint64_t seed)
{
    const size_t size = model->parameters.elements * sizeof(float);
    float *flat = malloc(size);
    if (flat == NULL) {
        return -ENOMEM;
    }
    parameters_draw(&model->parameters, seed, flat);
    kernel_write(model->kernel, model->weights, flat, size);
    free(flat);
    return 0;
}

void model_zero_gradients(struct model *model)
{
    kernel_zero(model->kernel, model->gradients,
                model->slice * model->comm->layout.data * sizeof(float));
}

float *model_weight_of(const struct model *model, const struct parameter *parameter)
{
    assert(parameter->present);
    return model->weights + parameter->offset;
}

float *model_gradient_of(const struct model *model, const struct parameter *parameter)
{
    assert(parameter->present);
    return model->gradients + parameter->offset;
}

struct block_trace *model_block(const struct model *model, struct trace *trace, uint32_t layer)
{
    return &trace->blocks[layer - model->parameters.layer_begin];
}

float *model_stream(const struct model *model, const struct trace *trace, uint32_t layer)
{
    const size_t slice = model->rows_max * model->parameters.shape.width;
    return trace->stream + (layer - model->parameters.layer_begin) * slice;
}

struct kernel_text model_text(const struct model *model, const struct trace *trace,
                              uint32_t samples)
{
    return (struct kernel_text){
        .bytes = trace->text, .samples = samples, .context = model->parameters.shape.context};
}

/* ---- what both halves of a block do --------------------------------------------------------- */

int model_sum(const struct model *model, float *buffer, size_t count)
{
    return comm_all_reduce(comm_group(model->comm, COMM_TENSOR), buffer, count, COMM_F32, COMM_SUM);
}

void model_linear(const struct model *model, const struct parameter *weights, float *output,
                  float *input, size_t rows)
{
    kernel_matmul(model->kernel, (struct matrix){output, weights->columns, false},
                  (struct matrix){input, weights->rows, false},
                  (struct matrix){model_weight_of(model, weights), weights->columns, false}, rows,
                  weights->rows, weights->columns, false);
}

void model_linear_backward(const struct model *model, const struct parameter *weights,
                           float *input_gradient, float *output_gradient, float *input, size_t rows)
{
    const struct matrix outer = {output_gradient, weights->columns, false};
    kernel_matmul(model->kernel,
                  (struct matrix){model_gradient_of(model, weights), weights->columns, false},
                  (struct matrix){input, weights->rows, true}, outer, weights->rows, rows,
                  weights->columns, true);
    kernel_matmul(model->kernel, (struct matrix){input_gradient, weights->rows, false}, outer,
                  (struct matrix){model_weight_of(model, weights), weights->columns, true}, rows,
                  weights->columns, weights->rows, false);
}

/* ---- one micro-batch ------------------------------------------------------------------------ */

static struct trace *trace_at(const struct model *model, uint32_t trace)
{
    assert(trace < model->trace_count);
    return &model->traces[trace];
}

void model_set_text(struct model *model, uint32_t trace, const uint8_t *text, uint32_t samples)
{
    assert(samples > 0 && samples <= model->samples_max);
    kernel_write(model->kernel, trace_at(model, trace)->text, text,
                 samples * ((size_t)model->parameters.shape.context + 1));
}

size_t model_stream_size(const struct model *model, uint32_t samples)
{
    return (size_t)samples * model->parameters.shape.context * model->parameters.shape.width;
}

float *model_input(const struct model *model, uint32_t trace)
{
    return trace_at(model, trace)->stream;
}

float *model_output(const struct model *model, uint32_t trace)
{
    const struct parameters *parameters = &model->parameters;
    return model_stream(model, trace_at(model, trace),
                        parameters->layer_begin + parameters->layer_count);
}

float *model_down(const struct model *model, uint32_t trace)
{
    return trace_at(model, trace)->down;
}

int model_forward(struct model *model, uint32_t trace, uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    struct trace *at = trace_at(model, trace);
    const uint32_t end = parameters->layer_begin + parameters->layer_count;
    assert(samples > 0 && samples <= model->samples_max);
    if (parameters->is_first) {
        embedding_forward(model, at, samples);
    }
    for (uint32_t layer = parameters->layer_begin; layer < end; layer++) {
        int code = attention_forward(model, at, layer, samples);
        if (code == 0) {
            code = mlp_forward(model, at, layer, samples);
        }
        if (code < 0) {
            return code;
        }
    }
    return parameters->is_last ? head_forward(model, at, samples) : 0;
}

int model_backward(struct model *model, uint32_t trace, uint32_t samples, float scale)
{
    const struct parameters *parameters = &model->parameters;
    struct trace *at = trace_at(model, trace);
    const uint32_t end = parameters->layer_begin + parameters->layer_count;
    int code = 0;
    if (parameters->is_last) {
        code = head_backward(model, at, samples, scale);
    }
    for (uint32_t layer = end; layer > parameters->layer_begin && code == 0; layer--) {
        code = mlp_backward(model, at, layer - 1, samples);
        if (code == 0) {
            code = attention_backward(model, at, layer - 1, samples);
        }
    }
    if (code == 0 && parameters->is_first) {
        embedding_backward(model, at, samples);
    }
    return code;
}

int model_take_loss(struct model *model, double *ret_loss)
{
    *ret_loss = 0.0;
    if (!model->parameters.is_last) {
        return 0;
    }
    const int code = kernel_read(model->kernel, ret_loss, model->loss, sizeof(*ret_loss));
    kernel_zero(model->kernel, model->loss, sizeof(*model->loss));
    return code;
}

const float *model_chances(const struct model *model, uint32_t trace)
{
    return trace_at(model, trace)->chances;
}
