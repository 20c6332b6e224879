/* embedding.c: bytes and positions become the stream. Both tables are whole on every tensor rank;
 * the stream's gradient is equal there, so theirs is, and nothing is to be exchanged. */
#include "agent/trainer/model_state.h"

void embedding_forward(const struct model *model, struct trace *trace, uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    const struct kernel_text text = model_text(model, trace, samples);
    kernel_embed_forward(model->kernel, trace->stream,
                         model_weight_of(model, parameters_front(parameters, TOKENS)),
                         model_weight_of(model, parameters_front(parameters, POSITIONS)), &text,
                         parameters->shape.width);
}

void embedding_backward(const struct model *model, struct trace *trace, uint32_t samples)
{
    const struct parameters *parameters = &model->parameters;
    const struct kernel_text text = model_text(model, trace, samples);
    kernel_embed_backward(model->kernel,
                          model_gradient_of(model, parameters_front(parameters, TOKENS)),
                          model_gradient_of(model, parameters_front(parameters, POSITIONS)),
                          trace->down, &text, parameters->shape.width);
}
