/* parameters.c: one row a parameter says all: its sizes, how it is split, how it begins. */
#include "agent/trainer/parameters.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "agent/trainer/random.h"

/* ---- the whole model ------------------------------------------------------------------------ */

static struct parameter parameter(const char *name, enum parameter_split split, size_t rows,
                                  size_t columns, float range)
{
    struct parameter made = {
        .split = split, .groups = 1, .whole_rows = rows, .whole_columns = columns, .range = range};
    (void)snprintf(made.name, sizeof(made.name), "%s", name); /* all fit */
    return made;
}

static struct parameter gain(const char *name, size_t width)
{
    struct parameter made = parameter(name, SPLIT_WHOLE, 1, width, 0.0f);
    made.constant = 1.0f;
    return made;
}

/* Uniform in +-range has the deviation range / sqrt(3). */
static float range_of_deviation(float deviation)
{
    return deviation * 1.7320508f;
}

static struct parameter block_one(const struct model_shape *shape, enum block_parameter which)
{
    const size_t width = shape->width;
    const size_t wide = MODEL_WIDENING * width;
    const float into = range_of_deviation(1.0f / sqrtf((float)width));
    /* Two additions a block: this keeps the stream's size independent of the depth. */
    const float out = into / sqrtf(2.0f * (float)shape->layers);
    struct parameter made;
    switch (which) {
    case NORM1_GAIN:
        return gain("norm1.gain", width);
    case NORM1_BIAS:
        return parameter("norm1.bias", SPLIT_WHOLE, 1, width, 0.0f);
    case QKV:
        made = parameter("qkv", SPLIT_COLUMNS, width, 3 * width, into);
        made.groups = 3;
        return made;
    case QKV_BIAS:
        made = parameter("qkv.bias", SPLIT_COLUMNS, 1, 3 * width, 0.0f);
        made.groups = 3;
        return made;
    case JOIN:
        return parameter("join", SPLIT_ROWS, width, width, out);
    case JOIN_BIAS:
        return parameter("join.bias", SPLIT_WHOLE, 1, width, 0.0f);
    case NORM2_GAIN:
        return gain("norm2.gain", width);
    case NORM2_BIAS:
        return parameter("norm2.bias", SPLIT_WHOLE, 1, width, 0.0f);
    case WIDEN:
        return parameter("widen", SPLIT_COLUMNS, width, wide, into);
    case WIDEN_BIAS:
        return parameter("widen.bias", SPLIT_COLUMNS, 1, wide, 0.0f);
    case NARROW:
        return parameter("narrow", SPLIT_ROWS, wide, width, out / sqrtf((float)MODEL_WIDENING));
    case NARROW_BIAS:
        return parameter("narrow.bias", SPLIT_WHOLE, 1, width, 0.0f);
    }
    abort(); /* every value of the enumeration is above */
}

static struct parameter back_one(const struct model_shape *shape, enum back_parameter which)
{
    switch (which) {
    case LAST_GAIN:
        return gain("last.gain", shape->width);
    case LAST_BIAS:
        return parameter("last.bias", SPLIT_WHOLE, 1, shape->width, 0.0f);
    case HEAD:
        /* Small, so that the first loss is the one of chance: ln 256 = 5.545 nats. */
        return parameter("head", SPLIT_COLUMNS, shape->width, MODEL_BYTES,
                         range_of_deviation(0.02f));
    }
    abort(); /* every value of the enumeration is above */
}

static struct parameter whole_one(const struct model_shape *shape, size_t index)
{
    const size_t back = FRONT_PARAMETERS + (size_t)shape->layers * BLOCK_PARAMETERS;
    if (index == TOKENS) {
        return parameter("tokens", SPLIT_WHOLE, MODEL_BYTES, shape->width,
                         range_of_deviation(0.5f));
    }
    if (index == POSITIONS) {
        return parameter("positions", SPLIT_WHOLE, shape->context, shape->width,
                         range_of_deviation(0.1f));
    }
    if (index >= back) {
        return back_one(shape, (enum back_parameter)(index - back));
    }
    const size_t in_blocks = index - FRONT_PARAMETERS;
    struct parameter made = block_one(shape, (enum block_parameter)(in_blocks % BLOCK_PARAMETERS));
    char name[PARAMETER_NAME_SIZE];
    memcpy(name, made.name, sizeof(name));
    (void)snprintf(made.name, sizeof(made.name), "block%u.%.20s",
                   (unsigned)(in_blocks / BLOCK_PARAMETERS), name); /* all fit */
    return made;
}

/* ---- one place ------------------------------------------------------------------------------ */

static bool is_present(const struct parameters *parameters, size_t index)
{
    const size_t back = parameters->count - BACK_PARAMETERS;
    if (index < FRONT_PARAMETERS) {
        return parameters->is_first;
    }
    if (index >= back) {
        return parameters->is_last;
    }
    const size_t layer = (index - FRONT_PARAMETERS) / BLOCK_PARAMETERS;
    return layer >= parameters->layer_begin &&
           layer < (size_t)parameters->layer_begin + parameters->layer_count;
}

static void take_part(struct parameter *one, size_t part, size_t parts)
{
    one->rows = one->whole_rows;
    one->columns = one->whole_columns;
    one->parts = 1;
    if (one->split == SPLIT_COLUMNS) {
        assert(one->whole_columns % (parts * one->groups) == 0);
        one->columns = one->whole_columns / parts;
        one->part = part;
        one->parts = parts;
    } else if (one->split == SPLIT_ROWS) {
        assert(one->whole_rows % parts == 0);
        one->rows = one->whole_rows / parts;
        one->row_begin = part * one->rows;
    }
}

/* Gives the present ones, split or whole, their offsets one after the other. */
static size_t lay_out(struct parameters *parameters, bool split, size_t offset)
{
    for (size_t index = 0; index < parameters->count; index++) {
        struct parameter *one = &parameters->list[index];
        if (one->present && (one->split != SPLIT_WHOLE) == split) {
            one->offset = offset;
            offset += one->rows * one->columns;
        }
    }
    return offset;
}

int parameters_init(struct parameters *parameters, const struct model_shape *shape,
                    const struct comm_layout *layout, const struct comm_layout *place)
{
    *parameters = (struct parameters){.shape = *shape, .layout = *layout, .place = *place};
    assert(shape->layers % layout->pipeline == 0);
    parameters->layer_count = shape->layers / layout->pipeline;
    parameters->layer_begin = place->pipeline * parameters->layer_count;
    parameters->is_first = place->pipeline == 0;
    parameters->is_last = place->pipeline + 1 == layout->pipeline;
    parameters->count =
        FRONT_PARAMETERS + (size_t)shape->layers * BLOCK_PARAMETERS + BACK_PARAMETERS;
    parameters->list = calloc(parameters->count, sizeof(*parameters->list));
    if (parameters->list == NULL) {
        return -ENOMEM;
    }
    size_t whole_offset = 0;
    for (size_t index = 0; index < parameters->count; index++) {
        struct parameter *one = &parameters->list[index];
        *one = whole_one(shape, index);
        one->whole_offset = whole_offset;
        whole_offset += one->whole_rows * one->whole_columns;
        one->present = is_present(parameters, index);
        take_part(one, place->tensor, layout->tensor);
    }
    parameters->split_elements = lay_out(parameters, true, 0);
    parameters->elements = lay_out(parameters, false, parameters->split_elements);
    return 0;
}

void parameters_done(struct parameters *parameters)
{
    free(parameters->list);
    *parameters = (struct parameters){0};
}

const struct parameter *parameters_front(const struct parameters *parameters,
                                         enum front_parameter which)
{
    return &parameters->list[which];
}

const struct parameter *parameters_block(const struct parameters *parameters, uint32_t layer,
                                         enum block_parameter which)
{
    assert(layer < parameters->shape.layers);
    return &parameters->list[FRONT_PARAMETERS + (size_t)layer * BLOCK_PARAMETERS + (size_t)which];
}

const struct parameter *parameters_back(const struct parameters *parameters,
                                        enum back_parameter which)
{
    return &parameters->list[parameters->count - BACK_PARAMETERS + (size_t)which];
}

/* ---- elements ------------------------------------------------------------------------------- */

size_t parameters_whole_elements(const struct parameters *parameters)
{
    const struct parameter *last = &parameters->list[parameters->count - 1];
    return last->whole_offset + last->whole_rows * last->whole_columns;
}

size_t parameter_whole_index(const struct parameter *parameter, size_t row, size_t column)
{
    const size_t per_group = parameter->columns / parameter->groups;
    const size_t group = column / per_group;
    const size_t whole_column =
        (group * parameter->parts + parameter->part) * per_group + column % per_group;
    return (parameter->row_begin + row) * parameter->whole_columns + whole_column;
}

void parameters_draw(const struct parameters *parameters, uint64_t seed, float *flat)
{
    for (size_t index = 0; index < parameters->count; index++) {
        const struct parameter *one = &parameters->list[index];
        const uint64_t name = XXH3_64bits(one->name, strlen(one->name));
        for (size_t i = 0; one->present && i < one->rows * one->columns; i++) {
            const size_t whole = parameter_whole_index(one, i / one->columns, i % one->columns);
            const uint64_t drawn = random_at(seed, RANDOM_WEIGHTS, name, whole);
            flat[one->offset + i] = one->constant + one->range * random_signed_unit(drawn);
        }
    }
}

void parameters_place(const struct parameters *parameters, const float *flat, float *whole)
{
    for (size_t index = 0; index < parameters->count; index++) {
        const struct parameter *one = &parameters->list[index];
        for (size_t i = 0; one->present && i < one->rows * one->columns; i++) {
            const size_t at = parameter_whole_index(one, i / one->columns, i % one->columns);
            whole[one->whole_offset + at] = flat[one->offset + i];
        }
    }
}
