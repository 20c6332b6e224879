/* attention.c: the first half of a block: norm, heads, join, add.
 *
 * Queries, keys and values are split by columns, so that a rank has whole heads; join is split by
 * rows, so that the ranks' results add up to the whole. Join's bias is added once, after the sum;
 * its gradient is the stream's, which all ranks have. */
#include "agent/trainer/model_state.h"

static struct kernel_attention sizes_of(const struct model *model, uint32_t samples)
{
    return (struct kernel_attention){
        .samples = samples, .context = model->parameters.shape.context, .heads = model->part_heads};
}

int attention_forward(const struct model *model, struct trace *trace, uint32_t layer,
                      uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    const struct block_trace *block = model_block(model, trace, layer);
    const struct kernel_attention sizes = sizes_of(model, samples);
    const size_t width = parameters->shape.width;
    const size_t rows = (size_t)samples * parameters->shape.context;
    float *input = model_stream(model, trace, layer);

    kernel_norm_forward(model->kernel, block->norm1, block->mean1, block->scale1, input,
                        model_weight_of(model, parameters_block(parameters, layer, NORM1_GAIN)),
                        model_weight_of(model, parameters_block(parameters, layer, NORM1_BIAS)),
                        rows, width);
    model_linear(model, parameters_block(parameters, layer, QKV), block->qkv, block->norm1, rows);
    kernel_add_bias(model->kernel, block->qkv,
                    model_weight_of(model, parameters_block(parameters, layer, QKV_BIAS)), rows,
                    3 * model->part_width);
    kernel_attention_forward(model->kernel, block->mixed, block->attention, block->qkv, &sizes);
    model_linear(model, parameters_block(parameters, layer, JOIN), block->middle, block->mixed,
                 rows);
    const int code = model_sum(model, block->middle, rows * width);
    if (code < 0) {
        return code;
    }
    kernel_add_bias(model->kernel, block->middle,
                    model_weight_of(model, parameters_block(parameters, layer, JOIN_BIAS)), rows,
                    width);
    kernel_add(model->kernel, block->middle, input, rows * width);
    return 0;
}

int attention_backward(const struct model *model, struct trace *trace, uint32_t layer,
                       uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    const struct block_trace *block = model_block(model, trace, layer);
    const struct kernel_attention sizes = sizes_of(model, samples);
    const size_t width = parameters->shape.width;
    const size_t rows = (size_t)samples * parameters->shape.context;
    const struct parameter *gain = parameters_block(parameters, layer, NORM1_GAIN);

    kernel_sum_rows(model->kernel,
                    model_gradient_of(model, parameters_block(parameters, layer, JOIN_BIAS)),
                    trace->down, rows, width);
    model_linear_backward(model, parameters_block(parameters, layer, JOIN), model->side,
                          trace->down, block->mixed, rows);
    kernel_attention_backward(model->kernel, model->wide, model->side, block->attention, block->qkv,
                              &sizes);
    kernel_sum_rows(model->kernel,
                    model_gradient_of(model, parameters_block(parameters, layer, QKV_BIAS)),
                    model->wide, rows, 3 * model->part_width);
    model_linear_backward(model, parameters_block(parameters, layer, QKV), model->side, model->wide,
                          block->norm1, rows);
    const int code = model_sum(model, model->side, rows * width);
    if (code < 0) {
        return code;
    }
    kernel_norm_backward(model->kernel, trace->down, model_gradient_of(model, gain),
                         model_gradient_of(model, parameters_block(parameters, layer, NORM1_BIAS)),
                         model->side, model_stream(model, trace, layer),
                         model_weight_of(model, gain), block->mean1, block->scale1, rows, width);
    return 0;
}
