/* model.c: forward and backward of the transformer, written out by hand.
 *
 * A batch is processed as one tall matrix of samples x context rows; only attention looks at
 * samples one by one. Forward keeps per block what backward needs. The residual stream is `stream`:
 * slice l is what enters block l, slice `layers` what leaves the last one.
 *
 *     bytes -> embedding -> [ norm, attention, + | norm, two linears with GELU, + ] x layers
 *           -> norm -> head -> softmax -> cross-entropy
 *
 * Order of tensors: token and position embedding; per block those of enum block_tensor; gain and
 * bias of the last norm; head. */
#include "agent/trainer/model.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainer/kernel.h"
#include "agent/trainer/random.h"

enum block_tensor {
    NORM1_GAIN,
    NORM1_BIAS,
    QKV,
    QKV_BIAS,
    JOIN,
    JOIN_BIAS,
    NORM2_GAIN,
    NORM2_BIAS,
    WIDEN,
    WIDEN_BIAS,
    NARROW,
    NARROW_BIAS,
};
enum { BLOCK_TENSORS = NARROW_BIAS + 1, FRONT_TENSORS = 2, BACK_TENSORS = 3 };
enum { TOKEN_EMBEDDING = 0, POSITION_EMBEDDING = 1 };
enum { WIDENING = 4 }; /* the hidden layer of a block is so many times its width */

/* What the forward pass of one block leaves for the backward pass. */
struct block_trace {
    float *norm1, *mean1, *scale1; /* rows x width, rows, rows */
    float *qkv;                    /* rows x 3 width: queries, keys, values */
    float *attention;              /* samples x heads x context x context probabilities */
    float *mixed;                  /* rows x width: what the heads found */
    float *middle;                 /* rows x width: the stream between the two halves */
    float *norm2, *mean2, *scale2;
    float *hidden, *slope; /* rows x WIDENING width, after GELU, and its derivative */
};

struct model {
    struct model_shape shape;
    uint32_t samples_max;
    size_t heads;
    size_t rows_max;
    size_t weight_count;
    size_t padded_count;
    size_t tensor_count;
    struct model_tensor *tensors;
    float *weights;
    float *gradients;
    float *memory; /* every buffer below is a part of it */
    float *stream; /* (layers + 1) x rows x width */
    struct block_trace *blocks;
    float *norm, *mean, *scale; /* of the last norm */
    float *chances;             /* rows x MODEL_BYTES: logits, then probabilities, then gradients */
    float *down;                /* rows x width: the gradient of the stream on its way back */
    float *side;                /* rows x width: gradient of a half block's inner result */
    float *wide;                /* rows x WIDENING width or 3 width: gradients in between */
    float *flip;                /* scratch for one transposed matrix */
    float *flip_small;          /* scratch for one more, of context x context or a head */
    float *square;              /* context x context: gradients of scores */
};

/* ---- shape and memory ----------------------------------------------------------------------- */

int model_shape_check(const struct model_shape *shape, struct fail *fail)
{
    if (shape->context == 0 || shape->context > MODEL_CONTEXT_MAX ||
        shape->context % KERNEL_LANES != 0) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "--context %u must be a multiple of %d from %d to %d", shape->context,
                        KERNEL_LANES, KERNEL_LANES, MODEL_CONTEXT_MAX);
    }
    if (shape->layers == 0 || shape->layers > MODEL_LAYERS_MAX) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "--layers %u must be from 1 to %d",
                        shape->layers, MODEL_LAYERS_MAX);
    }
    if (shape->width == 0 || shape->width > MODEL_WIDTH_MAX ||
        shape->width % MODEL_HEAD_WIDTH != 0) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "--width %u must be a multiple of %d from %d to %d", shape->width,
                        MODEL_HEAD_WIDTH, MODEL_HEAD_WIDTH, MODEL_WIDTH_MAX);
    }
    return 0;
}

static size_t tensor_count(const struct model_shape *shape)
{
    return FRONT_TENSORS + (size_t)shape->layers * BLOCK_TENSORS + BACK_TENSORS;
}

static struct model_tensor tensor(size_t rows, size_t columns, float range, float constant)
{
    return (struct model_tensor){
        .rows = rows, .columns = columns, .range = range, .constant = constant};
}

/* Uniform in +-range has the deviation range / sqrt(3). */
static float range_of_deviation(float deviation)
{
    return deviation * 1.7320508f;
}

static struct model_tensor block_tensor(const struct model_shape *shape, enum block_tensor kind)
{
    const size_t width = shape->width;
    const float into = range_of_deviation(1.0f / sqrtf((float)width));
    /* Two additions a block: this keeps the stream's size independent of the depth. */
    const float out = into / sqrtf(2.0f * (float)shape->layers);
    switch (kind) {
    case NORM1_GAIN:
    case NORM2_GAIN:
        return tensor(1, width, 0.0f, 1.0f);
    case NORM1_BIAS:
    case NORM2_BIAS:
    case JOIN_BIAS:
    case NARROW_BIAS:
        return tensor(1, width, 0.0f, 0.0f);
    case QKV:
        return tensor(width, 3 * width, into, 0.0f);
    case QKV_BIAS:
        return tensor(1, 3 * width, 0.0f, 0.0f);
    case JOIN:
        return tensor(width, width, out, 0.0f);
    case WIDEN:
        return tensor(width, WIDENING * width, into, 0.0f);
    case WIDEN_BIAS:
        return tensor(1, WIDENING * width, 0.0f, 0.0f);
    case NARROW:
        return tensor(WIDENING * width, width, out / sqrtf((float)WIDENING), 0.0f);
    }
    abort(); /* every value of the enumeration is above */
}

static struct model_tensor tensor_at(const struct model_shape *shape, size_t index)
{
    const size_t width = shape->width;
    const size_t back = FRONT_TENSORS + (size_t)shape->layers * BLOCK_TENSORS;
    if (index == TOKEN_EMBEDDING) {
        return tensor(MODEL_BYTES, width, range_of_deviation(0.5f), 0.0f);
    }
    if (index == POSITION_EMBEDDING) {
        return tensor(shape->context, width, range_of_deviation(0.1f), 0.0f);
    }
    if (index < back) {
        return block_tensor(shape, (enum block_tensor)((index - FRONT_TENSORS) % BLOCK_TENSORS));
    }
    if (index < back + 2) { /* gain and bias of the last norm */
        return tensor(1, width, 0.0f, index == back ? 1.0f : 0.0f);
    }
    /* Small, so that the first loss is the one of chance: ln 256 = 5.545 nats. */
    return tensor(width, MODEL_BYTES, range_of_deviation(0.02f), 0.0f);
}

size_t model_weight_count(const struct model_shape *shape)
{
    size_t count = 0;
    for (size_t index = 0; index < tensor_count(shape); index++) {
        const struct model_tensor one = tensor_at(shape, index);
        count += one.rows * one.columns;
    }
    return count;
}

/* Gives out consecutive parts of one allocation; with memory NULL it only counts. */
struct carver {
    float *memory;
    size_t used;
};

static float *carve(struct carver *carver, size_t count)
{
    float *part = carver->memory == NULL ? NULL : carver->memory + carver->used;
    carver->used += count;
    return part;
}

static void carve_block(struct carver *carver, const struct model *model, struct block_trace *block)
{
    const size_t rows = model->rows_max;
    const size_t width = model->shape.width;
    const size_t context = model->shape.context;
    block->norm1 = carve(carver, rows * width);
    block->mean1 = carve(carver, rows);
    block->scale1 = carve(carver, rows);
    block->qkv = carve(carver, rows * 3 * width);
    block->attention = carve(carver, model->samples_max * model->heads * context * context);
    block->mixed = carve(carver, rows * width);
    block->middle = carve(carver, rows * width);
    block->norm2 = carve(carver, rows * width);
    block->mean2 = carve(carver, rows);
    block->scale2 = carve(carver, rows);
    block->hidden = carve(carver, rows * WIDENING * width);
    block->slope = carve(carver, rows * WIDENING * width);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void carve_all(struct carver *carver, struct model *model)
{
    const size_t rows = model->rows_max;
    const size_t width = model->shape.width;
    const size_t context = model->shape.context;
    const size_t widest = larger(WIDENING * width, MODEL_BYTES);
    model->stream = carve(carver, (model->shape.layers + (size_t)1) * rows * width);
    for (uint32_t layer = 0; layer < model->shape.layers; layer++) {
        carve_block(carver, model, &model->blocks[layer]);
    }
    model->norm = carve(carver, rows * width);
    model->mean = carve(carver, rows);
    model->scale = carve(carver, rows);
    model->chances = carve(carver, rows * MODEL_BYTES);
    model->down = carve(carver, rows * width);
    model->side = carve(carver, rows * width);
    model->wide = carve(carver, rows * WIDENING * width);
    model->flip = carve(carver, widest * larger(rows, WIDENING * width));
    model->flip_small = carve(carver, context * larger(context, MODEL_HEAD_WIDTH));
    model->square = carve(carver, context * context);
}

static int allocate(struct model *model)
{
    model->tensors = calloc(model->tensor_count, sizeof(*model->tensors));
    model->blocks = calloc(model->shape.layers, sizeof(*model->blocks));
    model->weights = calloc(model->padded_count, sizeof(*model->weights));
    model->gradients = calloc(model->padded_count, sizeof(*model->gradients));
    if (model->tensors == NULL || model->blocks == NULL || model->weights == NULL ||
        model->gradients == NULL) {
        return -ENOMEM;
    }
    struct carver carver = {.memory = NULL, .used = 0};
    carve_all(&carver, model);
    model->memory = calloc(carver.used, sizeof(*model->memory));
    if (model->memory == NULL) {
        return -ENOMEM;
    }
    carver = (struct carver){.memory = model->memory, .used = 0};
    carve_all(&carver, model);
    return 0;
}

int model_create(const struct model_shape *shape, uint32_t samples_max, size_t slack,
                 struct fail *fail, struct model **ret_model)
{
    int code = model_shape_check(shape, fail);
    if (code < 0) {
        return code;
    }
    assert(samples_max > 0);
    struct model *model = calloc(1, sizeof(*model));
    if (model == NULL) {
        return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory for the model");
    }
    model->shape = *shape;
    model->samples_max = samples_max;
    model->heads = shape->width / MODEL_HEAD_WIDTH;
    model->rows_max = (size_t)samples_max * shape->context;
    model->weight_count = model_weight_count(shape);
    model->padded_count = model->weight_count + slack;
    model->tensor_count = tensor_count(shape);
    code = allocate(model);
    if (code < 0) {
        (void)model_free(model);
        return fail_set(fail, EXIT_LOCAL, code, "no memory for the model and a batch of %u samples",
                        samples_max);
    }
    size_t offset = 0;
    for (size_t index = 0; index < model->tensor_count; index++) {
        model->tensors[index] = tensor_at(shape, index);
        model->tensors[index].offset = offset;
        offset += model->tensors[index].rows * model->tensors[index].columns;
    }
    *ret_model = model;
    return 0;
}

struct model *model_free(struct model *model)
{
    if (model != NULL) {
        free(model->memory);
        free(model->gradients);
        free(model->weights);
        free(model->blocks);
        free(model->tensors);
        free(model);
    }
    return NULL;
}

float *model_weights(struct model *model)
{
    return model->weights;
}

float *model_gradients(struct model *model)
{
    return model->gradients;
}

size_t model_tensor_count(const struct model *model)
{
    return model->tensor_count;
}

const struct model_tensor *model_tensor(const struct model *model, size_t index)
{
    assert(index < model->tensor_count);
    return &model->tensors[index];
}

void model_init(struct model *model, uint64_t seed)
{
    for (size_t index = 0; index < model->tensor_count; index++) {
        const struct model_tensor *one = &model->tensors[index];
        for (size_t i = 0; i < one->rows * one->columns; i++) {
            const uint64_t drawn = random_at(seed, RANDOM_WEIGHTS, index, i);
            model->weights[one->offset + i] =
                one->constant + one->range * random_signed_unit(drawn);
        }
    }
}

void model_zero_gradients(struct model *model)
{
    memset(model->gradients, 0, model->padded_count * sizeof(*model->gradients));
}

/* ---- names for ranges ----------------------------------------------------------------------- */

static float *weight_of(const struct model *model, size_t index)
{
    return model->weights + model->tensors[index].offset;
}

static float *gradient_of(const struct model *model, size_t index)
{
    return model->gradients + model->tensors[index].offset;
}

static size_t in_block(uint32_t layer, enum block_tensor kind)
{
    return FRONT_TENSORS + (size_t)layer * BLOCK_TENSORS + (size_t)kind;
}

static size_t in_back(const struct model *model, size_t index)
{
    return FRONT_TENSORS + (size_t)model->shape.layers * BLOCK_TENSORS + index;
}

static float *stream_at(const struct model *model, uint32_t layer)
{
    return model->stream + layer * model->rows_max * model->shape.width;
}

/* ---- linear layers -------------------------------------------------------------------------- */

/* output (rows x columns of the tensor) = input . weights, + the bias tensor that follows it. */
static void linear_forward(const struct model *model, size_t index, float *output, float *input,
                           size_t rows)
{
    const struct model_tensor *one = &model->tensors[index];
    kernel_matmul((struct matrix){output, one->columns}, (struct matrix){input, one->rows},
                  (struct matrix){weight_of(model, index), one->columns}, rows, one->rows,
                  one->columns, false);
    kernel_add_bias(output, weight_of(model, index + 1), rows, one->columns);
}

/* Adds to the gradients of the weights; input_gradient is overwritten. */
static void linear_backward_weights(const struct model *model, size_t index, float *input_gradient,
                                    float *output_gradient, float *input, size_t rows)
{
    const struct model_tensor *one = &model->tensors[index];
    const struct matrix outer = {output_gradient, one->columns};
    struct matrix flip = {model->flip, rows};
    kernel_transpose(flip, (struct matrix){input, one->rows}, rows, one->rows);
    kernel_matmul((struct matrix){gradient_of(model, index), one->columns}, flip, outer, one->rows,
                  rows, one->columns, true);
    flip.stride = one->rows;
    kernel_transpose(flip, (struct matrix){weight_of(model, index), one->columns}, one->rows,
                     one->columns);
    kernel_matmul((struct matrix){input_gradient, one->rows}, outer, flip, rows, one->columns,
                  one->rows, false);
}

static void linear_backward(const struct model *model, size_t index, float *input_gradient,
                            float *output_gradient, float *input, size_t rows)
{
    kernel_sum_rows(gradient_of(model, index + 1), output_gradient, rows,
                    model->tensors[index].columns);
    linear_backward_weights(model, index, input_gradient, output_gradient, input, rows);
}

/* ---- attention ------------------------------------------------------------------------------ */

/* Where one head of one sample lies: part 0 queries, 1 keys, 2 values of a rows x 3 width array. */
static struct matrix head_part(const struct model *model, float *qkv, uint32_t sample, size_t head,
                               size_t part)
{
    const size_t width = model->shape.width;
    const size_t first_row = (size_t)sample * model->shape.context;
    return (struct matrix){qkv + first_row * 3 * width + part * width + head * MODEL_HEAD_WIDTH,
                           3 * width};
}

/* The same for an array of rows x width. */
static struct matrix head_slice(const struct model *model, float *rows, uint32_t sample,
                                size_t head)
{
    const size_t width = model->shape.width;
    const size_t first_row = (size_t)sample * model->shape.context;
    return (struct matrix){rows + first_row * width + head * MODEL_HEAD_WIDTH, width};
}

static struct matrix head_chances(const struct model *model, const struct block_trace *block,
                                  uint32_t sample, size_t head)
{
    const size_t context = model->shape.context;
    const size_t square = context * context;
    return (struct matrix){block->attention + (sample * model->heads + head) * square, context};
}

static float score_scale(void)
{
    return 1.0f / sqrtf((float)MODEL_HEAD_WIDTH);
}

static void head_forward(const struct model *model, const struct block_trace *block,
                         uint32_t sample, size_t head)
{
    const size_t context = model->shape.context;
    const struct matrix queries = head_part(model, block->qkv, sample, head, 0);
    const struct matrix keys = head_part(model, block->qkv, sample, head, 1);
    const struct matrix values = head_part(model, block->qkv, sample, head, 2);
    const struct matrix chances = head_chances(model, block, sample, head);
    const struct matrix flip = {model->flip_small, context};
    kernel_transpose(flip, keys, context, MODEL_HEAD_WIDTH);
    kernel_matmul(chances, queries, flip, context, MODEL_HEAD_WIDTH, context, false);
    for (size_t row = 0; row < context; row++) {
        float *scores = chances.data + row * context;
        for (size_t i = 0; i <= row; i++) {
            scores[i] *= score_scale();
        }
        kernel_softmax(scores, row + 1, context); /* a byte sees itself and those before it */
    }
    kernel_matmul(head_slice(model, block->mixed, sample, head), chances, values, context, context,
                  MODEL_HEAD_WIDTH, false);
}

/* gradient: chances' own gradient in, that of the scores before scaling out. */
static void softmax_backward(struct matrix gradient, struct matrix chances, size_t context)
{
    for (size_t row = 0; row < context; row++) {
        float *slope = gradient.data + row * gradient.stride;
        const float *chance = chances.data + row * chances.stride;
        float sum = 0.0f;
        for (size_t i = 0; i <= row; i++) {
            sum += slope[i] * chance[i];
        }
        for (size_t i = 0; i < context; i++) {
            slope[i] = i <= row ? chance[i] * (slope[i] - sum) * score_scale() : 0.0f;
        }
    }
}

/* mixed_gradient: rows x width in; qkv_gradient: rows x 3 width out, overwritten. */
static void head_backward(const struct model *model, const struct block_trace *block,
                          float *qkv_gradient, float *mixed_gradient, uint32_t sample, size_t head)
{
    const size_t context = model->shape.context;
    const struct matrix outer = head_slice(model, mixed_gradient, sample, head);
    const struct matrix chances = head_chances(model, block, sample, head);
    const struct matrix queries = head_part(model, block->qkv, sample, head, 0);
    const struct matrix keys = head_part(model, block->qkv, sample, head, 1);
    const struct matrix values = head_part(model, block->qkv, sample, head, 2);
    const struct matrix scores = {model->square, context};
    const struct matrix flip = {model->flip_small, context};
    kernel_transpose(flip, chances, context, context);
    kernel_matmul(head_part(model, qkv_gradient, sample, head, 2), flip, outer, context, context,
                  MODEL_HEAD_WIDTH, false);
    kernel_transpose(flip, values, context, MODEL_HEAD_WIDTH);
    kernel_matmul(scores, outer, flip, context, MODEL_HEAD_WIDTH, context, false);
    softmax_backward(scores, chances, context);
    kernel_matmul(head_part(model, qkv_gradient, sample, head, 0), scores, keys, context, context,
                  MODEL_HEAD_WIDTH, false);
    kernel_transpose(flip, scores, context, context);
    kernel_matmul(head_part(model, qkv_gradient, sample, head, 1), flip, queries, context, context,
                  MODEL_HEAD_WIDTH, false);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void add(float *to, const float *a, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] += a[i];
    }
}

static void block_forward(const struct model *model, uint32_t layer, uint32_t samples)
{
    const struct block_trace *block = &model->blocks[layer];
    const size_t width = model->shape.width;
    const size_t rows = (size_t)samples * model->shape.context;
    float *input = stream_at(model, layer);
    float *output = stream_at(model, layer + 1);

    kernel_norm_forward(block->norm1, block->mean1, block->scale1, input,
                        weight_of(model, in_block(layer, NORM1_GAIN)),
                        weight_of(model, in_block(layer, NORM1_BIAS)), rows, width);
    linear_forward(model, in_block(layer, QKV), block->qkv, block->norm1, rows);
    for (uint32_t sample = 0; sample < samples; sample++) {
        for (size_t head = 0; head < model->heads; head++) {
            head_forward(model, block, sample, head);
        }
    }
    linear_forward(model, in_block(layer, JOIN), block->middle, block->mixed, rows);
    add(block->middle, input, rows * width);

    kernel_norm_forward(block->norm2, block->mean2, block->scale2, block->middle,
                        weight_of(model, in_block(layer, NORM2_GAIN)),
                        weight_of(model, in_block(layer, NORM2_BIAS)), rows, width);
    linear_forward(model, in_block(layer, WIDEN), model->wide, block->norm2, rows);
    kernel_gelu_forward(block->hidden, block->slope, model->wide, rows * WIDENING * width);
    linear_forward(model, in_block(layer, NARROW), output, block->hidden, rows);
    add(output, block->middle, rows * width);
}

/* model->down: in, the gradient of what leaves the block; out, that of what enters it. */
static void block_backward(const struct model *model, uint32_t layer, uint32_t samples)
{
    const struct block_trace *block = &model->blocks[layer];
    const size_t width = model->shape.width;
    const size_t rows = (size_t)samples * model->shape.context;
    float *down = model->down;

    linear_backward(model, in_block(layer, NARROW), model->wide, down, block->hidden, rows);
    for (size_t i = 0; i < rows * WIDENING * width; i++) {
        model->wide[i] *= block->slope[i];
    }
    linear_backward(model, in_block(layer, WIDEN), model->side, model->wide, block->norm2, rows);
    kernel_norm_backward(down, gradient_of(model, in_block(layer, NORM2_GAIN)),
                         gradient_of(model, in_block(layer, NORM2_BIAS)), model->side,
                         block->middle, weight_of(model, in_block(layer, NORM2_GAIN)), block->mean2,
                         block->scale2, rows, width);

    linear_backward(model, in_block(layer, JOIN), model->side, down, block->mixed, rows);
    for (uint32_t sample = 0; sample < samples; sample++) {
        for (size_t head = 0; head < model->heads; head++) {
            head_backward(model, block, model->wide, model->side, sample, head);
        }
    }
    linear_backward(model, in_block(layer, QKV), model->side, model->wide, block->norm1, rows);
    kernel_norm_backward(down, gradient_of(model, in_block(layer, NORM1_GAIN)),
                         gradient_of(model, in_block(layer, NORM1_BIAS)), model->side,
                         stream_at(model, layer), weight_of(model, in_block(layer, NORM1_GAIN)),
                         block->mean1, block->scale1, rows, width);
}

/* ---- the ends of the stream ----------------------------------------------------------------- */

static void embed_forward(const struct model *model, const uint8_t *text, uint32_t samples)
{
    const size_t width = model->shape.width;
    const size_t context = model->shape.context;
    const float *tokens = weight_of(model, TOKEN_EMBEDDING);
    const float *positions = weight_of(model, POSITION_EMBEDDING);
    for (size_t row = 0; row < samples * context; row++) {
        const size_t position = row % context;
        const size_t byte = text[row / context * (context + 1) + position];
        float *output = stream_at(model, 0) + row * width;
        for (size_t i = 0; i < width; i++) {
            output[i] = tokens[byte * width + i] + positions[position * width + i];
        }
    }
}

static void embed_backward(const struct model *model, const uint8_t *text, uint32_t samples)
{
    const size_t width = model->shape.width;
    const size_t context = model->shape.context;
    float *tokens = gradient_of(model, TOKEN_EMBEDDING);
    float *positions = gradient_of(model, POSITION_EMBEDDING);
    for (size_t row = 0; row < samples * context; row++) {
        const size_t position = row % context;
        const size_t byte = text[row / context * (context + 1) + position];
        add(tokens + byte * width, model->down + row * width, width);
        add(positions + position * width, model->down + row * width, width);
    }
}

/* Leaves probabilities in model->chances. */
static double head_loss(const struct model *model, const uint8_t *text, uint32_t samples)
{
    const size_t context = model->shape.context;
    const size_t width = model->shape.width;
    const size_t rows = samples * context;
    double loss = 0.0;
    kernel_norm_forward(model->norm, model->mean, model->scale,
                        stream_at(model, model->shape.layers), weight_of(model, in_back(model, 0)),
                        weight_of(model, in_back(model, 1)), rows, width);
    kernel_matmul((struct matrix){model->chances, MODEL_BYTES}, (struct matrix){model->norm, width},
                  (struct matrix){weight_of(model, in_back(model, 2)), MODEL_BYTES}, rows, width,
                  MODEL_BYTES, false);
    for (size_t row = 0; row < rows; row++) {
        const size_t next = text[row / context * (context + 1) + row % context + 1];
        float *chances = model->chances + row * MODEL_BYTES;
        kernel_softmax(chances, MODEL_BYTES, MODEL_BYTES);
        loss -= log((double)chances[next] + 1e-30);
    }
    return loss;
}

static void head_backward_all(const struct model *model, const uint8_t *text, uint32_t samples,
                              float scale)
{
    const size_t context = model->shape.context;
    const size_t width = model->shape.width;
    const size_t rows = samples * context;
    for (size_t row = 0; row < rows; row++) {
        const size_t next = text[row / context * (context + 1) + row % context + 1];
        float *chances = model->chances + row * MODEL_BYTES;
        chances[next] -= 1.0f;
        for (size_t i = 0; i < MODEL_BYTES; i++) {
            chances[i] *= scale;
        }
    }
    linear_backward_weights(model, in_back(model, 2), model->side, model->chances, model->norm,
                            rows);
    memset(model->down, 0, rows * width * sizeof(*model->down));
    kernel_norm_backward(model->down, gradient_of(model, in_back(model, 0)),
                         gradient_of(model, in_back(model, 1)), model->side,
                         stream_at(model, model->shape.layers), weight_of(model, in_back(model, 0)),
                         model->mean, model->scale, rows, width);
}

double model_loss(struct model *model, const uint8_t *text, uint32_t samples)
{
    assert(samples > 0 && samples <= model->samples_max);
    embed_forward(model, text, samples);
    for (uint32_t layer = 0; layer < model->shape.layers; layer++) {
        block_forward(model, layer, samples);
    }
    return head_loss(model, text, samples);
}

const float *model_chances(const struct model *model, size_t row)
{
    assert(row < model->rows_max);
    return model->chances + row * MODEL_BYTES;
}

double model_learn(struct model *model, const uint8_t *text, uint32_t samples, float scale)
{
    const double loss = model_loss(model, text, samples);
    head_backward_all(model, text, samples, scale);
    for (uint32_t layer = model->shape.layers; layer > 0; layer--) {
        block_backward(model, layer - 1, samples);
    }
    embed_backward(model, text, samples);
    return loss;
}
