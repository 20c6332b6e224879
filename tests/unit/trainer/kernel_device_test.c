/* kernel_device_test: the CUDA kernels' own lines, run as loops on this machine, against the cpu
 * backend; and where there is a GPU, the kernels themselves.
 *
 * The loops go through a launch forwards and backwards: what depends on the order of the indices, or
 * has two of them at one place, gives different bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainer/backend.h"
#include "agent/trainer/kernel_cpu.h"
#include "agent/trainer/kernel_device.h"
#include "agent/trainer/optimizer.h"
#include "tests/unit/trainer/kernel_compare.h"
#include "tests/unit/trainer/trainer_rig.h"

#include "tests/lib/test.h"

/* ---- launches as loops ---------------------------------------------------------------------- */

/* queue->stream says in which order: NULL forwards, else backwards. */
static size_t nth(const struct device_queue *queue, size_t i, size_t count)
{
    return queue->stream == NULL ? i : count - 1 - i;
}

#define DEVICE_RUN(queue, function, count, ...)                                                    \
    do {                                                                                           \
        const size_t run_count = (count);                                                          \
        for (size_t run_i = 0; run_i < run_count; run_i++) {                                       \
            function(nth(queue, run_i, run_count), __VA_ARGS__);                                   \
        }                                                                                          \
    } while (0)
#define DEVICE_RUN_PRODUCT(queue, product) run_product(queue, &(product))

struct device_product;
static void run_product(const struct device_queue *queue, const struct device_product *product);

#include "agent/trainer/kernel_device_operations.h"

/* One block: its threads meet after loading and after adding. */
static void run_tile(const struct device_queue *queue, const struct device_product *product,
                     size_t row, size_t column)
{
    enum { THREADS = DEVICE_TILE * DEVICE_TILE };
    struct device_tile tile;
    float sums[THREADS] = {0};
    for (size_t step = 0; step < device_tiles(product->inner); step++) {
        memset(&tile, 0xff, sizeof(tile)); /* not numbers: what is not loaded shows */
        for (size_t i = 0; i < THREADS; i++) {
            device_product_load(product, &tile, nth(queue, i, THREADS), row, column, step);
        }
        for (size_t i = 0; i < THREADS; i++) {
            sums[i] = device_product_add(&tile, i, sums[i]);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        device_product_store(product, i, row, column, sums[i]);
    }
}

static void run_product(const struct device_queue *queue, const struct device_product *product)
{
    const size_t rows = device_tiles(product->rows);
    const size_t columns = device_tiles(product->columns);
    for (size_t i = 0; i < rows * columns; i++) {
        const size_t at = nth(queue, i, rows * columns);
        run_tile(queue, product, at / columns, at % columns);
    }
}

/* ---- a backend of them ---------------------------------------------------------------------- */

/* Memory is the cpu backend's, whose kernel this is beside its own queue. */
struct loops {
    struct kernel cpu;
    struct device_queue queue;
    struct kernel_backend table;
};

static struct device_queue *queue_of(const struct kernel *kernel)
{
    struct loops *loops = kernel->state;
    return &loops->queue;
}

static int loops_finish(struct kernel *kernel)
{
    (void)kernel;
    return 0;
}

static int loops_read(struct kernel *kernel, void *host, const void *buffer, size_t bytes)
{
    (void)kernel;
    memcpy(host, buffer, bytes);
    return 0;
}

static int loops_hash(struct kernel *kernel, const void *buffer, size_t bytes, uint64_t *ret_hash)
{
    struct loops *loops = kernel->state;
    return kernel_hash(&loops->cpu, buffer, bytes, ret_hash);
}

static void loops_matmul(struct kernel *kernel, struct matrix c, struct matrix a, struct matrix b,
                         size_t rows, size_t inner, size_t columns, bool accumulate)
{
    device_matmul(queue_of(kernel), c, a, b, rows, inner, columns, accumulate);
}

static void loops_add_bias(struct kernel *kernel, float *data, const float *bias, size_t rows,
                           size_t columns)
{
    device_add_bias(queue_of(kernel), data, bias, rows, columns);
}

static void loops_sum_rows(struct kernel *kernel, float *sums, const float *data, size_t rows,
                           size_t columns)
{
    device_sum_rows(queue_of(kernel), sums, data, rows, columns);
}

static void loops_add(struct kernel *kernel, float *to, const float *from, size_t count)
{
    device_add(queue_of(kernel), to, from, count);
}

static void loops_multiply(struct kernel *kernel, float *to, const float *factor, size_t count)
{
    device_multiply(queue_of(kernel), to, factor, count);
}

static void loops_sum_squares(struct kernel *kernel, double *ret_sum, const float *data,
                              size_t count)
{
    double partials[DEVICE_PARTIALS];
    device_sum_squares(queue_of(kernel), ret_sum, partials, data, count);
}

static void loops_norm_forward(struct kernel *kernel, float *output, float *mean, float *scale,
                               const float *input, const float *gain, const float *bias,
                               size_t rows, size_t columns)
{
    device_norm_forward(queue_of(kernel), output, mean, scale, input, gain, bias, rows, columns);
}

static void loops_norm_backward(struct kernel *kernel, float *input_gradient, float *gain_gradient,
                                float *bias_gradient, const float *output_gradient,
                                const float *input, const float *gain, const float *mean,
                                const float *scale, size_t rows, size_t columns)
{
    device_norm_backward(queue_of(kernel), input_gradient, gain_gradient, bias_gradient,
                         output_gradient, input, gain, mean, scale, rows, columns);
}

static void loops_gelu_forward(struct kernel *kernel, float *output, float *slope,
                               const float *input, size_t count)
{
    device_gelu_forward(queue_of(kernel), output, slope, input, count);
}

static void loops_attention_forward(struct kernel *kernel, float *mixed, float *chances, float *qkv,
                                    const struct kernel_attention *sizes)
{
    device_attention_forward(queue_of(kernel), mixed, chances, qkv, sizes);
}

static void loops_attention_backward(struct kernel *kernel, float *qkv_gradient,
                                     float *mixed_gradient, float *chances, float *qkv,
                                     const struct kernel_attention *sizes)
{
    const size_t square = sizes->context * sizes->context;
    float *scores = malloc(sizes->samples * sizes->heads * square * sizeof(*scores));
    assert_non_null(scores);
    device_attention_backward(queue_of(kernel), qkv_gradient, scores, mixed_gradient, chances, qkv,
                              sizes);
    free(scores);
}

static void loops_embed_forward(struct kernel *kernel, float *output, const float *tokens,
                                const float *positions, const struct kernel_text *text,
                                size_t width)
{
    device_embed_forward(queue_of(kernel), output, tokens, positions, text, width);
}

static void loops_embed_backward(struct kernel *kernel, float *token_gradient,
                                 float *position_gradient, const float *output_gradient,
                                 const struct kernel_text *text, size_t width)
{
    device_embed_backward(queue_of(kernel), token_gradient, position_gradient, output_gradient,
                          text, width);
}

static void loops_loss_largest(struct kernel *kernel, float *largest, const float *logits,
                               size_t rows, size_t columns)
{
    device_loss_largest(queue_of(kernel), largest, logits, rows, columns);
}

static void loops_loss_sums(struct kernel *kernel, float *logits, float *sums, const float *largest,
                            const struct kernel_text *text, size_t first, size_t columns)
{
    device_loss_sums(queue_of(kernel), logits, sums, largest, text, first, columns);
}

static void loops_loss_total(struct kernel *kernel, float *logits, double *total, const float *sums,
                             size_t rows, size_t columns)
{
    double partials[DEVICE_PARTIALS];
    device_loss_total(queue_of(kernel), logits, total, partials, sums, rows, columns);
}

static void loops_loss_backward(struct kernel *kernel, float *logits,
                                const struct kernel_text *text, size_t first, size_t columns,
                                float scale)
{
    device_loss_backward(queue_of(kernel), logits, text, first, columns, scale);
}

static void loops_adam_update(struct kernel *kernel, const struct kernel_adam *adam, float *weights,
                              const float *gradients, float *first, float *second, size_t count)
{
    device_adam_update(queue_of(kernel), adam, weights, gradients, first, second, count);
}

static void loops_destroy(struct kernel *kernel)
{
    struct loops *loops = kernel->state;
    kernel_done(&loops->cpu);
    free(loops);
}

static void loops_create(bool backwards, struct kernel *ret_kernel)
{
    struct loops *loops = calloc(1, sizeof(*loops));
    assert_non_null(loops);
    assert_int_equal(kernel_cpu_create(&loops->cpu), 0);
    loops->queue.stream = backwards ? loops : NULL;
    loops->table = *loops->cpu.backend; /* allocate, release, write, zero */
    loops->table.finish = loops_finish;
    loops->table.read = loops_read;
    loops->table.hash = loops_hash;
    loops->table.matmul = loops_matmul;
    loops->table.add_bias = loops_add_bias;
    loops->table.sum_rows = loops_sum_rows;
    loops->table.add = loops_add;
    loops->table.multiply = loops_multiply;
    loops->table.sum_squares = loops_sum_squares;
    loops->table.norm_forward = loops_norm_forward;
    loops->table.norm_backward = loops_norm_backward;
    loops->table.gelu_forward = loops_gelu_forward;
    loops->table.attention_forward = loops_attention_forward;
    loops->table.attention_backward = loops_attention_backward;
    loops->table.embed_forward = loops_embed_forward;
    loops->table.embed_backward = loops_embed_backward;
    loops->table.loss_largest = loops_loss_largest;
    loops->table.loss_sums = loops_loss_sums;
    loops->table.loss_total = loops_loss_total;
    loops->table.loss_backward = loops_loss_backward;
    loops->table.adam_update = loops_adam_update;
    loops->table.destroy = loops_destroy;
    *ret_kernel = (struct kernel){.backend = &loops->table, .state = loops};
}

/* ---- tests ---------------------------------------------------------------------------------- */

struct findings {
    size_t count;
    double largest;
};

static void note(const char *what, double difference, double limit, void *context)
{
    struct findings *findings = context;
    if (difference > limit) {
        fail_msg("%s: differs by %.3g, limit %.3g", what, difference, limit);
    }
    findings->count++;
    findings->largest = fmax(findings->largest, difference);
}

static void compare_with_cpu(struct kernel *tested)
{
    struct kernel cpu;
    struct findings findings = {0};
    assert_int_equal(kernel_cpu_create(&cpu), 0);
    const int code = kernel_compare(tested, &cpu, note, &findings);
    if (code < 0) {
        char text[FAIL_TEXT_SIZE];
        kernel_explain(tested, text, sizeof(text));
        fail_msg("%s", text);
    }
    print_message("# %zu results, largest difference %.2g\n", findings.count, findings.largest);
    assert_true(findings.count >= 50);
    kernel_done(&cpu);
}

static void every_kernel_agrees_with_the_cpu(void **state)
{
    (void)state;
    for (int backwards = 0; backwards <= 1; backwards++) {
        struct kernel tested;
        loops_create(backwards == 1, &tested);
        compare_with_cpu(&tested);
        kernel_done(&tested);
    }
}

/* Losses of four steps of a whole model. */
static void train(struct kernel *kernel, double ret_losses[4])
{
    enum { SAMPLES = 4 };
    const struct adam adam = {.rate = 0.01f, .warmup_steps = 1};
    struct comm comm;
    struct fail fail;
    struct model *model = NULL;
    struct optimizer optimizer;
    uint8_t text[SAMPLES * 64];
    double squares = 0.0;
    assert_int_equal(rig_solo(&comm), 0);
    assert_int_equal(
        model_create(kernel, &comm, &rig_shape, SAMPLES, pipeline_traces(&comm, 1), &fail, &model),
        0);
    assert_int_equal(optimizer_create(&optimizer, model, &adam), 0);
    assert_int_equal(model_draw(model, 3), 0);
    assert_true(SAMPLES * (rig_shape.context + 1) <= sizeof(text));
    rig_text(text, SAMPLES);
    for (uint64_t step = 1; step <= 4; step++) {
        model_zero_gradients(model);
        assert_int_equal(pipeline_learn(model, text, 1, SAMPLES,
                                        1.0f / (float)(SAMPLES * rig_shape.context),
                                        &ret_losses[step - 1]),
                         0);
        assert_int_equal(optimizer_reduce(&optimizer, &squares), 0);
        assert_int_equal(optimizer_update(&optimizer, step), 0);
    }
    optimizer_done(&optimizer);
    (void)model_free(model);
    comm_done(&comm);
}

static void compare_training(struct kernel *tested, double ret_losses[4])
{
    struct kernel cpu;
    double expected[4];
    assert_int_equal(kernel_cpu_create(&cpu), 0);
    train(&cpu, expected);
    train(tested, ret_losses);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabs(ret_losses[i] - expected[i]) < 1e-4 * expected[i]);
    }
    assert_true(expected[3] < expected[0] * 0.999);
    kernel_done(&cpu);
}

static void a_model_trains_alike_in_any_order(void **state)
{
    (void)state;
    double losses[2][4];
    for (int backwards = 0; backwards <= 1; backwards++) {
        struct kernel tested;
        loops_create(backwards == 1, &tested);
        compare_training(&tested, losses[backwards]);
        kernel_done(&tested);
    }
    assert_memory_equal(losses[0], losses[1], sizeof(losses[0]));
}

/* The kernels themselves; on a machine without a GPU what there is to test is that it says so. */
static void a_gpu_agrees_with_the_cpu(void **state)
{
    (void)state;
    struct kernel tested;
    struct fail fail;
    double losses[2][4];
    if (backend_kernel(BACKEND_NCCL, 0, &fail, &tested) < 0) {
        print_message("skipped: %s\n", fail.text);
        skip();
    }
    compare_with_cpu(&tested);
    compare_training(&tested, losses[0]);
    compare_training(&tested, losses[1]);
    assert_memory_equal(losses[0], losses[1], sizeof(losses[0])); /* equal calls, equal bits */
    kernel_done(&tested);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_agrees_with_the_cpu),
        cmocka_unit_test(a_model_trains_alike_in_any_order),
        cmocka_unit_test(a_gpu_agrees_with_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
