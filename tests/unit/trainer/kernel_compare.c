/* kernel_compare.c: sizes are such that tiles, blocks and partial sums do not come out even. */
#include "tests/unit/trainer/kernel_compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "agent/trainer/random.h"

/* Sums of up to 200 products of numbers around 1, in another order and with other exponentials. */
static const double limit = 2e-5;

enum { MEMORY_MAX = 32 };

/* The same numbers on both backends. */
struct pair {
    float *tested;
    float *cpu;
    size_t count;
};

struct compare {
    struct kernel *kernels[2]; /* tested, cpu */
    void *memory[2][MEMORY_MAX];
    size_t memory_count;
    uint64_t seed; /* grows with each pair */
    int code;      /* the first failure */
    kernel_compare_report *report;
    void *context;
};

/* Of zeros on both; NULLs after a failure. */
static bool allocate(struct compare *compare, size_t bytes, void *ret_buffers[2])
{
    for (size_t i = 0; i < 2; i++) {
        ret_buffers[i] = compare->code == 0 ? kernel_allocate(compare->kernels[i], bytes) : NULL;
        if (ret_buffers[i] == NULL) {
            compare->code = compare->code == 0 ? -ENOMEM : compare->code;
            return false;
        }
        compare->memory[i][compare->memory_count] = ret_buffers[i];
    }
    compare->memory_count++;
    return true;
}

static void release_all(struct compare *compare)
{
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < compare->memory_count; k++) {
            kernel_release(compare->kernels[i], compare->memory[i][k]);
        }
    }
    compare->memory_count = 0;
}

static struct pair zeros(struct compare *compare, size_t count)
{
    void *buffers[2] = {NULL, NULL};
    (void)allocate(compare, count * sizeof(float), buffers);
    return (struct pair){buffers[0], buffers[1], count};
}

/* begin + scale x noise of -1 … 1 */
static struct pair noise(struct compare *compare, size_t count, float begin, float scale)
{
    const struct pair pair = zeros(compare, count);
    float *host = malloc(count * sizeof(*host));
    compare->seed++;
    if (host != NULL && compare->code == 0) {
        for (size_t i = 0; i < count; i++) {
            host[i] =
                begin + scale * random_signed_unit(random_at(compare->seed, RANDOM_DATA, 0, i));
        }
        kernel_write(compare->kernels[0], pair.tested, host, count * sizeof(*host));
        kernel_write(compare->kernels[1], pair.cpu, host, count * sizeof(*host));
    }
    free(host);
    return pair;
}

static double difference_of(double tested, double cpu)
{
    const double difference = fabs(tested - cpu) / (1.0 + fabs(cpu));
    return isnan(difference) ? (double)INFINITY : difference;
}

/* Reads both and reports. */
static void check(struct compare *compare, const char *what, struct pair pair)
{
    float *host = malloc(2 * pair.count * sizeof(*host));
    double largest = 0.0;
    if (host == NULL) {
        compare->code = -ENOMEM;
    }
    if (compare->code == 0) {
        compare->code =
            kernel_read(compare->kernels[0], host, pair.tested, pair.count * sizeof(*host));
    }
    if (compare->code == 0) {
        compare->code = kernel_read(compare->kernels[1], host + pair.count, pair.cpu,
                                    pair.count * sizeof(*host));
    }
    if (compare->code == 0) {
        for (size_t i = 0; i < pair.count; i++) {
            largest = fmax(largest, difference_of((double)host[i], (double)host[pair.count + i]));
        }
        compare->report(what, largest, limit, compare->context);
    }
    free(host);
}

static void check_number(struct compare *compare, const char *what, void *const buffers[2])
{
    double numbers[2] = {0.0, 0.0};
    for (size_t i = 0; i < 2 && compare->code == 0; i++) {
        compare->code =
            kernel_read(compare->kernels[i], &numbers[i], buffers[i], sizeof(numbers[i]));
    }
    if (compare->code == 0) {
        compare->report(what, difference_of(numbers[0], numbers[1]), limit, compare->context);
    }
}

/* ---- the functions -------------------------------------------------------------------------- */

/* Both operands either way round, strides larger than the rows, sums new and added to. */
static void products(struct compare *compare)
{
    static const size_t sizes[][3] = {{1, 13, 8}, {37, 70, 40}, {16, 16, 16}, {64, 33, 152}};
    for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
        const size_t rows = sizes[size][0];
        const size_t inner = sizes[size][1];
        const size_t columns = sizes[size][2];
        const size_t stride = 160; /* over the longest side */
        const struct pair a = noise(compare, stride * stride, 0.0f, 1.0f);
        const struct pair b = noise(compare, stride * stride, 0.0f, 1.0f);
        for (int kind = 0; kind < 8 && compare->code == 0; kind++) {
            const struct pair c = noise(compare, rows * stride, 0.0f, 1.0f);
            const bool a_flipped = (kind & 1) != 0;
            const bool b_flipped = (kind & 2) != 0;
            if (compare->code == 0) {
                kernel_matmul(compare->kernels[0], (struct matrix){c.tested, stride, false},
                              (struct matrix){a.tested, stride, a_flipped},
                              (struct matrix){b.tested, stride, b_flipped}, rows, inner, columns,
                              (kind & 4) != 0);
                kernel_matmul(compare->kernels[1], (struct matrix){c.cpu, stride, false},
                              (struct matrix){a.cpu, stride, a_flipped},
                              (struct matrix){b.cpu, stride, b_flipped}, rows, inner, columns,
                              (kind & 4) != 0);
                check(compare, "matmul", c); /* and nothing beside it */
            }
        }
        release_all(compare);
    }
}

static void rows_and_elements(struct compare *compare)
{
    const size_t rows = 37;
    const size_t columns = 200;
    const struct pair data = noise(compare, rows * columns, 0.0f, 1.0f);
    const struct pair other = noise(compare, rows * columns, 0.5f, 1.0f);
    const struct pair bias = noise(compare, columns, 0.0f, 1.0f);
    const struct pair sums = noise(compare, columns, 0.0f, 1.0f);
    const struct pair slope = zeros(compare, rows * columns);
    void *squares[2] = {NULL, NULL};
    if (!allocate(compare, sizeof(double), squares)) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        struct kernel *kernel = compare->kernels[i];
        float *to = i == 0 ? data.tested : data.cpu;
        const float *from = i == 0 ? other.tested : other.cpu;
        kernel_add_bias(kernel, to, i == 0 ? bias.tested : bias.cpu, rows, columns);
        kernel_add(kernel, to, from, rows * columns);
        kernel_multiply(kernel, to, from, rows * columns);
        kernel_sum_rows(kernel, i == 0 ? sums.tested : sums.cpu, to, rows, columns);
        kernel_sum_squares(kernel, squares[i], to, rows * columns);
    }
    check(compare, "add_bias, add, multiply", data);
    check(compare, "sum_rows", sums);
    check_number(compare, "sum_squares", squares);
    if (compare->code == 0) {
        kernel_gelu_forward(compare->kernels[0], data.tested, slope.tested, other.tested,
                            rows * columns);
        kernel_gelu_forward(compare->kernels[1], data.cpu, slope.cpu, other.cpu, rows * columns);
    }
    check(compare, "gelu_forward", data);
    check(compare, "gelu_forward, slope", slope);
    release_all(compare);
}

static void norms(struct compare *compare)
{
    const size_t rows = 37;
    const size_t columns = 48;
    const struct pair input = noise(compare, rows * columns, 0.3f, 2.0f);
    const struct pair gain = noise(compare, columns, 1.0f, 0.5f);
    const struct pair bias = noise(compare, columns, 0.0f, 1.0f);
    const struct pair outer = noise(compare, rows * columns, 0.0f, 1.0f);
    const struct pair output = zeros(compare, rows * columns);
    const struct pair mean = zeros(compare, rows);
    const struct pair scale = zeros(compare, rows);
    const struct pair inner = noise(compare, rows * columns, 0.0f, 1.0f);
    const struct pair gain_gradient = noise(compare, columns, 0.0f, 1.0f);
    const struct pair bias_gradient = noise(compare, columns, 0.0f, 1.0f);
    if (compare->code < 0) {
        return;
    }
    kernel_norm_forward(compare->kernels[0], output.tested, mean.tested, scale.tested, input.tested,
                        gain.tested, bias.tested, rows, columns);
    kernel_norm_forward(compare->kernels[1], output.cpu, mean.cpu, scale.cpu, input.cpu, gain.cpu,
                        bias.cpu, rows, columns);
    kernel_norm_backward(compare->kernels[0], inner.tested, gain_gradient.tested,
                         bias_gradient.tested, outer.tested, input.tested, gain.tested, mean.tested,
                         scale.tested, rows, columns);
    kernel_norm_backward(compare->kernels[1], inner.cpu, gain_gradient.cpu, bias_gradient.cpu,
                         outer.cpu, input.cpu, gain.cpu, mean.cpu, scale.cpu, rows, columns);
    check(compare, "norm_forward", output);
    check(compare, "norm_forward, mean", mean);
    check(compare, "norm_forward, scale", scale);
    check(compare, "norm_backward, input", inner);
    check(compare, "norm_backward, gain", gain_gradient);
    check(compare, "norm_backward, bias", bias_gradient);
    release_all(compare);
}

static void attention(struct compare *compare)
{
    const struct kernel_attention sizes = {.samples = 3, .context = 24, .heads = 2};
    const size_t rows = sizes.samples * sizes.context;
    const size_t width = sizes.heads * KERNEL_HEAD_WIDTH;
    const struct pair qkv = noise(compare, rows * 3 * width, 0.0f, 1.5f);
    const struct pair outer = noise(compare, rows * width, 0.0f, 1.0f);
    const struct pair chances = noise(compare, rows * sizes.heads * sizes.context, 9.0f, 1.0f);
    const struct pair mixed = zeros(compare, rows * width);
    const struct pair inner = noise(compare, rows * 3 * width, 0.0f, 1.0f);
    if (compare->code < 0) {
        return;
    }
    kernel_attention_forward(compare->kernels[0], mixed.tested, chances.tested, qkv.tested, &sizes);
    kernel_attention_forward(compare->kernels[1], mixed.cpu, chances.cpu, qkv.cpu, &sizes);
    check(compare, "attention_forward", mixed);
    check(compare, "attention_forward, chances", chances);
    kernel_attention_backward(compare->kernels[0], inner.tested, outer.tested, chances.tested,
                              qkv.tested, &sizes);
    kernel_attention_backward(compare->kernels[1], inner.cpu, outer.cpu, chances.cpu, qkv.cpu,
                              &sizes);
    check(compare, "attention_backward", inner);
    release_all(compare);
}

static bool texts(struct compare *compare, size_t samples, size_t context,
                  struct kernel_text ret_texts[2])
{
    void *buffers[2] = {NULL, NULL};
    const size_t size = samples * (context + 1);
    uint8_t *host = malloc(size);
    const bool good = host != NULL && allocate(compare, size, buffers);
    for (size_t i = 0; good && i < size; i++) {
        host[i] = (uint8_t)random_below(random_at(5, RANDOM_DATA, 0, i), 256);
    }
    for (size_t i = 0; good && i < 2; i++) {
        host[1] = host[0]; /* one byte at least comes twice: its gradients add up */
        kernel_write(compare->kernels[i], buffers[i], host, size);
        ret_texts[i] = (struct kernel_text){buffers[i], samples, context};
    }
    free(host);
    compare->code = host == NULL ? -ENOMEM : compare->code;
    return good;
}

static void embeddings(struct compare *compare)
{
    const size_t samples = 5;
    const size_t context = 24;
    const size_t width = 48;
    const struct pair tokens = noise(compare, 256 * width, 0.0f, 1.0f);
    const struct pair positions = noise(compare, context * width, 0.0f, 1.0f);
    const struct pair output = zeros(compare, samples * context * width);
    const struct pair outer = noise(compare, samples * context * width, 0.0f, 1.0f);
    struct kernel_text text[2];
    if (!texts(compare, samples, context, text)) {
        return;
    }
    kernel_embed_forward(compare->kernels[0], output.tested, tokens.tested, positions.tested,
                         &text[0], width);
    kernel_embed_forward(compare->kernels[1], output.cpu, tokens.cpu, positions.cpu, &text[1],
                         width);
    kernel_embed_backward(compare->kernels[0], tokens.tested, positions.tested, outer.tested,
                          &text[0], width);
    kernel_embed_backward(compare->kernels[1], tokens.cpu, positions.cpu, outer.cpu, &text[1],
                          width);
    check(compare, "embed_forward", output);
    check(compare, "embed_backward, tokens", tokens);
    check(compare, "embed_backward, positions", positions);
    release_all(compare);
}

/* The half of the alphabet that the second of two tensor ranks has, and all of it. More rows than
 * there are partial sums. */
static void losses(struct compare *compare)
{
    const size_t samples = 25;
    const size_t context = 24;
    const size_t rows = samples * context;
    for (size_t first = 0; first <= 128 && compare->code == 0; first += 128) {
        const size_t columns = 256 - first;
        const struct pair logits = noise(compare, rows * columns, 0.0f, 4.0f);
        const struct pair largest = zeros(compare, rows);
        const struct pair sums = zeros(compare, 2 * rows);
        void *totals[2] = {NULL, NULL};
        struct kernel_text text[2];
        if (!texts(compare, samples, context, text) || !allocate(compare, sizeof(double), totals)) {
            return;
        }
        for (size_t i = 0; i < 2; i++) {
            struct kernel *kernel = compare->kernels[i];
            float *at = i == 0 ? logits.tested : logits.cpu;
            float *most = i == 0 ? largest.tested : largest.cpu;
            float *sum = i == 0 ? sums.tested : sums.cpu;
            kernel_loss_largest(kernel, most, at, rows, columns);
            kernel_loss_sums(kernel, at, sum, most, &text[i], first, columns);
            kernel_loss_total(kernel, at, totals[i], sum, rows, columns);
            kernel_loss_total(kernel, at, totals[i], sum, rows, columns); /* it adds up */
            kernel_loss_backward(kernel, at, &text[i], first, columns, 0.5f);
        }
        check(compare, "loss_largest", largest);
        check(compare, "loss_sums", sums);
        check_number(compare, "loss_total", totals);
        check(compare, "loss_backward", logits);
        release_all(compare);
    }
}

static void updates(struct compare *compare)
{
    const struct kernel_adam adam = {.rate = 0.01f,
                                     .decay_first = 0.9f,
                                     .decay_second = 0.95f,
                                     .correct_first = 1.2f,
                                     .correct_second = 1.5f,
                                     .epsilon = 1e-8f};
    const size_t count = 1001;
    const struct pair weights = noise(compare, count, 0.0f, 1.0f);
    const struct pair gradients = noise(compare, count, 0.0f, 1.0f);
    const struct pair first = noise(compare, count, 0.0f, 1.0f);
    const struct pair second = noise(compare, count, 1.0f, 0.5f);
    if (compare->code < 0) {
        return;
    }
    kernel_adam_update(compare->kernels[0], &adam, weights.tested, gradients.tested, first.tested,
                       second.tested, count);
    kernel_adam_update(compare->kernels[1], &adam, weights.cpu, gradients.cpu, first.cpu,
                       second.cpu, count);
    check(compare, "adam_update", weights);
    check(compare, "adam_update, first", first);
    check(compare, "adam_update, second", second);
    release_all(compare);
}

/* The same bytes give the same hash wherever they lie; zeros are zeros. */
static void memory(struct compare *compare)
{
    const struct pair data = noise(compare, 777, 0.0f, 1.0f);
    uint64_t hashes[2] = {0, 1};
    if (compare->code < 0) {
        return;
    }
    kernel_zero(compare->kernels[0], data.tested + 5, 700 * sizeof(float));
    kernel_zero(compare->kernels[1], data.cpu + 5, 700 * sizeof(float));
    check(compare, "write, zero, read", data);
    compare->code = kernel_hash(compare->kernels[0], data.tested, 777 * sizeof(float), &hashes[0]);
    if (compare->code == 0) {
        compare->code = kernel_hash(compare->kernels[1], data.cpu, 777 * sizeof(float), &hashes[1]);
    }
    if (compare->code == 0) {
        compare->report("hash", hashes[0] == hashes[1] ? 0.0 : 1.0, 0.0, compare->context);
    }
    release_all(compare);
}

int kernel_compare(struct kernel *tested, struct kernel *cpu, kernel_compare_report *report,
                   void *context)
{
    static void (*const parts[])(struct compare *) = {
        products, rows_and_elements, norms, attention, embeddings, losses, updates, memory};
    struct compare compare = {.kernels = {tested, cpu}, .report = report, .context = context};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && compare.code == 0; i++) {
        parts[i](&compare);
    }
    release_all(&compare);
    return compare.code == 0 ? kernel_finish(tested) : compare.code;
}
