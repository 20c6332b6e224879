/* weights.c: parts in, one array together, one file out. */
#include "agent/trainer/weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainer/durable.h"

static int fail_peer(struct comm *comm, int code, struct fail *fail)
{
    char text[FAIL_TEXT_SIZE];
    comm_explain(comm, text, sizeof(text));
    return fail_set(fail, EXIT_PEER, code, "%s", text);
}

static int fail_memory(struct fail *fail)
{
    return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory for all weights in one place");
}

/* *ret_flat: the own part as host memory, the caller's to free. */
static int own_part(struct model *model, struct fail *fail, float **ret_flat)
{
    const size_t size = model_parameters(model)->elements * sizeof(float);
    float *flat = malloc(size);
    if (flat == NULL) {
        return fail_memory(fail);
    }
    const int code = kernel_read(model_kernel(model), flat, model_weights(model), size);
    if (code < 0) {
        char text[FAIL_TEXT_SIZE];
        kernel_explain(model_kernel(model), text, sizeof(text));
        free(flat);
        return fail_set(fail, EXIT_LOCAL, code, "%s", text);
    }
    *ret_flat = flat;
    return 0;
}

/* Rank 0: receives one other rank's part and puts it where it belongs. */
static int take_part(struct model *model, uint32_t rank, float *whole, struct fail *fail)
{
    struct comm *comm = model_comm(model);
    struct parameters parameters;
    const struct comm_layout place = comm_layout_place(&comm->layout, rank);
    if (parameters_init(&parameters, &model_parameters(model)->shape, &comm->layout, &place) < 0) {
        return fail_memory(fail);
    }
    float *flat = malloc(parameters.elements * sizeof(*flat));
    int code = 0;
    if (flat == NULL) {
        code = fail_memory(fail);
    } else {
        code =
            comm_receive(comm_group(comm, COMM_WORLD), flat, parameters.elements, COMM_F32, rank);
        code = code < 0 ? fail_peer(comm, code, fail) : 0;
    }
    if (code == 0) {
        parameters_place(&parameters, flat, whole);
    }
    free(flat);
    parameters_done(&parameters);
    return code;
}

static int write_whole(const struct model *model, const char *path, const float *whole,
                       struct fail *fail)
{
    const struct parameters *parameters = model_parameters(model);
    struct weights_header header = {
        .version = 1,
        .bytes = MODEL_BYTES,
        .context = parameters->shape.context,
        .layers = parameters->shape.layers,
        .width = parameters->shape.width,
        .count = parameters_whole_elements(parameters),
    };
    memcpy(header.magic, "KSWEIGH", sizeof(header.magic));
    const struct durable_part parts[] = {
        {&header, sizeof(header)},
        {whole, header.count * sizeof(*whole)},
    };
    return durable_write_path(path, parts, sizeof(parts) / sizeof(parts[0]), true, fail);
}

/* Rank 0, with its own part in `flat`. */
static int collect(struct model *model, const char *path, const float *flat, struct fail *fail)
{
    const struct comm *comm = model_comm(model);
    const struct parameters *parameters = model_parameters(model);
    float *whole = malloc(parameters_whole_elements(parameters) * sizeof(*whole));
    if (whole == NULL) {
        return fail_memory(fail);
    }
    int code = 0;
    parameters_place(parameters, flat, whole);
    for (uint32_t rank = 1; rank < comm->world && code == 0; rank++) {
        if (comm_layout_place(&comm->layout, rank).data == 0) {
            code = take_part(model, rank, whole, fail);
        }
    }
    if (code == 0) {
        code = write_whole(model, path, whole, fail);
    }
    free(whole);
    return code;
}

int weights_write(struct model *model, const char *path, struct fail *fail)
{
    struct comm *comm = model_comm(model);
    float *flat = NULL;
    if (comm->place.data != 0) {
        return 0;
    }
    int code = own_part(model, fail, &flat);
    if (code == 0 && comm->rank == 0) {
        code = collect(model, path, flat, fail);
    } else if (code == 0) {
        code = comm_send(comm_group(comm, COMM_WORLD), flat, model_parameters(model)->elements,
                         COMM_F32, 0);
        code = code < 0 ? fail_peer(comm, code, fail) : 0;
    }
    free(flat);
    return code;
}
