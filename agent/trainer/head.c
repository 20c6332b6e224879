/* head.c: the last norm, the logits and the loss.
 *
 * The head is split by columns: each tensor rank has its part of the alphabet. The softmax over the
 * whole needs the largest logit of each row and the sum of the exponentials from all ranks; with
 * the sum comes the logit of the right byte, which one rank has and the others give as 0. */
#include "agent/trainer/model_state.h"

int head_forward(const struct model *model, struct trace *trace, uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    const struct kernel_text text = model_text(model, trace, samples);
    const size_t width = parameters->shape.width;
    const size_t rows = (size_t)samples * parameters->shape.context;
    const size_t bytes = model->part_bytes;
    const size_t first = parameters->place.tensor * bytes;
    float *input = model_stream(model, trace, parameters->layer_begin + parameters->layer_count);

    kernel_norm_forward(model->kernel, trace->norm, trace->mean, trace->scale, input,
                        model_weight_of(model, parameters_back(parameters, LAST_GAIN)),
                        model_weight_of(model, parameters_back(parameters, LAST_BIAS)), rows,
                        width);
    model_linear(model, parameters_back(parameters, HEAD), trace->chances, trace->norm, rows);
    kernel_loss_largest(model->kernel, model->largest, trace->chances, rows, bytes);
    int code = comm_all_reduce(comm_group(model->comm, COMM_TENSOR), model->largest, rows, COMM_F32,
                               COMM_MAX);
    if (code < 0) {
        return code;
    }
    kernel_loss_sums(model->kernel, trace->chances, model->sums, model->largest, &text, first,
                     bytes);
    code = model_sum(model, model->sums, 2 * rows);
    if (code < 0) {
        return code;
    }
    kernel_loss_total(model->kernel, trace->chances, model->loss, model->sums, rows, bytes);
    return 0;
}

int head_backward(const struct model *model, struct trace *trace, uint32_t samples, float scale)
{
    const struct parameters *parameters = &model->parameters;
    const struct kernel_text text = model_text(model, trace, samples);
    const struct parameter *gain = parameters_back(parameters, LAST_GAIN);
    const size_t width = parameters->shape.width;
    const size_t rows = (size_t)samples * parameters->shape.context;
    const size_t bytes = model->part_bytes;

    kernel_loss_backward(model->kernel, trace->chances, &text, parameters->place.tensor * bytes,
                         bytes, scale);
    model_linear_backward(model, parameters_back(parameters, HEAD), model->side, trace->chances,
                          trace->norm, rows);
    const int code = model_sum(model, model->side, rows * width);
    if (code < 0) {
        return code;
    }
    kernel_zero(model->kernel, trace->down, rows * width * sizeof(*trace->down));
    kernel_norm_backward(
        model->kernel, trace->down, model_gradient_of(model, gain),
        model_gradient_of(model, parameters_back(parameters, LAST_BIAS)), model->side,
        model_stream(model, trace, parameters->layer_begin + parameters->layer_count),
        model_weight_of(model, gain), trace->mean, trace->scale, rows, width);
    return 0;
}
