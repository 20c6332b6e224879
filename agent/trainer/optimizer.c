/* optimizer.c: reduce-scatter, update of one slice, all-gather. */
#include "agent/trainer/optimizer.h"

#include <errno.h>
#include <stdlib.h>

static struct comm_group *replicas(const struct optimizer *optimizer)
{
    return comm_group(model_comm(optimizer->model), COMM_DATA);
}

static size_t slice_begin(const struct optimizer *optimizer)
{
    return replicas(optimizer)->index * model_slice(optimizer->model);
}

int optimizer_create(struct optimizer *optimizer, struct model *model, const struct adam *adam)
{
    struct kernel *kernel = model_kernel(model);
    const size_t size = model_slice(model) * sizeof(float);
    *optimizer = (struct optimizer){.model = model, .adam = *adam};
    optimizer->gradients = kernel_allocate(kernel, size);
    optimizer->first = kernel_allocate(kernel, size);
    optimizer->second = kernel_allocate(kernel, size);
    optimizer->squares = kernel_allocate(kernel, sizeof(*optimizer->squares));
    const bool whole = optimizer->gradients != NULL && optimizer->first != NULL &&
                       optimizer->second != NULL && optimizer->squares != NULL;
    return whole ? 0 : -ENOMEM;
}

void optimizer_done(struct optimizer *optimizer)
{
    if (optimizer->model != NULL) {
        struct kernel *kernel = model_kernel(optimizer->model);
        kernel_release(kernel, optimizer->squares);
        kernel_release(kernel, optimizer->second);
        kernel_release(kernel, optimizer->first);
        kernel_release(kernel, optimizer->gradients);
    }
    *optimizer = (struct optimizer){0};
}

/* How many elements of the own slice this rank counts: none past the last weight, and those of
 * whole parameters on tensor rank 0 alone. Split ones come first in the flat array. */
static size_t counted(const struct optimizer *optimizer)
{
    const struct parameters *parameters = model_parameters(optimizer->model);
    const size_t begin = slice_begin(optimizer);
    const size_t slice = model_slice(optimizer->model);
    const size_t end =
        parameters->place.tensor == 0 ? parameters->elements : parameters->split_elements;
    if (end <= begin) {
        return 0;
    }
    return end - begin < slice ? end - begin : slice;
}

int optimizer_reduce(struct optimizer *optimizer, double *ret_squares)
{
    struct kernel *kernel = model_kernel(optimizer->model);
    const int code = comm_reduce_scatter(replicas(optimizer), model_gradients(optimizer->model),
                                         optimizer->gradients, model_slice(optimizer->model),
                                         COMM_F32, COMM_SUM);
    if (code < 0) {
        return code;
    }
    kernel_sum_squares(kernel, optimizer->squares, optimizer->gradients, counted(optimizer));
    return kernel_read(kernel, ret_squares, optimizer->squares, sizeof(*ret_squares));
}

/* All replicas get the weights that each of them holds a slice of. */
static int share_weights(struct optimizer *optimizer)
{
    float *weights = model_weights(optimizer->model);
    return comm_all_gather(replicas(optimizer), weights + slice_begin(optimizer), weights,
                           model_slice(optimizer->model), COMM_F32);
}

int optimizer_update(struct optimizer *optimizer, uint64_t step)
{
    adam_update(&optimizer->adam, model_kernel(optimizer->model), step,
                model_weights(optimizer->model) + slice_begin(optimizer), optimizer->gradients,
                optimizer->first, optimizer->second, model_slice(optimizer->model));
    return share_weights(optimizer);
}

int optimizer_weights_hash(const struct optimizer *optimizer, uint64_t *ret_hash)
{
    return kernel_hash(model_kernel(optimizer->model), model_weights(optimizer->model),
                       model_parameters(optimizer->model)->elements * sizeof(float), ret_hash);
}

/* ---- what a checkpoint keeps ---------------------------------------------------------------- */

int optimizer_state_create(const struct optimizer *optimizer, struct optimizer_state *ret_state)
{
    const size_t slice = model_slice(optimizer->model);
    float *memory = calloc(3 * slice, sizeof(*memory));
    if (memory == NULL) {
        return -ENOMEM;
    }
    *ret_state = (struct optimizer_state){
        .weights = memory,
        .first = memory + slice,
        .second = memory + 2 * slice,
        .begin = slice_begin(optimizer),
        .count = slice,
    };
    return 0;
}

void optimizer_state_done(struct optimizer_state *state)
{
    free(state->weights);
    *state = (struct optimizer_state){0};
}

int optimizer_save(const struct optimizer *optimizer, struct optimizer_state *state)
{
    struct kernel *kernel = model_kernel(optimizer->model);
    const size_t size = state->count * sizeof(float);
    int code =
        kernel_read(kernel, state->weights, model_weights(optimizer->model) + state->begin, size);
    if (code == 0) {
        code = kernel_read(kernel, state->first, optimizer->first, size);
    }
    return code == 0 ? kernel_read(kernel, state->second, optimizer->second, size) : code;
}

int optimizer_load(struct optimizer *optimizer, const struct optimizer_state *state)
{
    struct kernel *kernel = model_kernel(optimizer->model);
    const size_t size = state->count * sizeof(float);
    kernel_write(kernel, model_weights(optimizer->model) + state->begin, state->weights, size);
    kernel_write(kernel, optimizer->first, state->first, size);
    kernel_write(kernel, optimizer->second, state->second, size);
    return share_weights(optimizer);
}
