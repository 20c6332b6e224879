/* mlp.c: the second half of a block: norm, widen, GELU, narrow, add.
 *
 * Widen is split by columns, so that a rank has whole hidden units; narrow by rows, so that the
 * ranks' results add up to the whole, to which its bias is added once. */
#include "agent/trainer/model_state.h"

int mlp_forward(const struct model *model, struct trace *trace, uint32_t layer, uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    const struct block_trace *block = model_block(model, trace, layer);
    const size_t width = parameters->shape.width;
    const size_t rows = (size_t)samples * parameters->shape.context;
    float *output = model_stream(model, trace, layer + 1);

    kernel_norm_forward(model->kernel, block->norm2, block->mean2, block->scale2, block->middle,
                        model_weight_of(model, parameters_block(parameters, layer, NORM2_GAIN)),
                        model_weight_of(model, parameters_block(parameters, layer, NORM2_BIAS)),
                        rows, width);
    model_linear(model, parameters_block(parameters, layer, WIDEN), model->wide, block->norm2,
                 rows);
    kernel_add_bias(model->kernel, model->wide,
                    model_weight_of(model, parameters_block(parameters, layer, WIDEN_BIAS)), rows,
                    model->part_hidden);
    kernel_gelu_forward(model->kernel, block->hidden, block->slope, model->wide,
                        rows * model->part_hidden);
    model_linear(model, parameters_block(parameters, layer, NARROW), output, block->hidden, rows);
    const int code = model_sum(model, output, rows * width);
    if (code < 0) {
        return code;
    }
    kernel_add_bias(model->kernel, output,
                    model_weight_of(model, parameters_block(parameters, layer, NARROW_BIAS)), rows,
                    width);
    kernel_add(model->kernel, output, block->middle, rows * width);
    return 0;
}

int mlp_backward(const struct model *model, struct trace *trace, uint32_t layer, uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    const struct block_trace *block = model_block(model, trace, layer);
    const size_t width = parameters->shape.width;
    const size_t rows = (size_t)samples * parameters->shape.context;
    const struct parameter *gain = parameters_block(parameters, layer, NORM2_GAIN);

    kernel_sum_rows(model->kernel,
                    model_gradient_of(model, parameters_block(parameters, layer, NARROW_BIAS)),
                    trace->down, rows, width);
    model_linear_backward(model, parameters_block(parameters, layer, NARROW), model->wide,
                          trace->down, block->hidden, rows);
    kernel_multiply(model->kernel, model->wide, block->slope, rows * model->part_hidden);
    kernel_sum_rows(model->kernel,
                    model_gradient_of(model, parameters_block(parameters, layer, WIDEN_BIAS)),
                    model->wide, rows, model->part_hidden);
    model_linear_backward(model, parameters_block(parameters, layer, WIDEN), model->side,
                          model->wide, block->norm2, rows);
    const int code = model_sum(model, model->side, rows * width);
    if (code < 0) {
        return code;
    }
    kernel_norm_backward(model->kernel, trace->down, model_gradient_of(model, gain),
                         model_gradient_of(model, parameters_block(parameters, layer, NORM2_BIAS)),
                         model->side, block->middle, model_weight_of(model, gain), block->mean2,
                         block->scale2, rows, width);
    return 0;
}
