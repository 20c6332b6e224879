/* kernel_cpu.c: memory, plain loops over rows, and the backend's table. */
#include "agent/trainer/kernel_cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "agent/trainer/kernel_cpu_parts.h"
#include "agent/trainer/kernel_math.h"

/* ---- memory --------------------------------------------------------------------------------- */

static void *cpu_allocate(struct kernel *kernel, size_t bytes)
{
    (void)kernel;
    const size_t size = (bytes + KERNEL_ALIGNMENT - 1) / KERNEL_ALIGNMENT * KERNEL_ALIGNMENT;
    void *buffer = aligned_alloc(KERNEL_ALIGNMENT, size > 0 ? size : KERNEL_ALIGNMENT);
    if (buffer != NULL) {
        memset(buffer, 0, size);
    }
    return buffer;
}

static void cpu_release(struct kernel *kernel, void *buffer)
{
    (void)kernel;
    free(buffer);
}

static void cpu_write(struct kernel *kernel, void *buffer, const void *host, size_t bytes)
{
    (void)kernel;
    memcpy(buffer, host, bytes);
}

static int cpu_finish(struct kernel *kernel)
{
    const struct kernel_cpu *cpu = kernel->state;
    return cpu->error;
}

static int cpu_read(struct kernel *kernel, void *host, const void *buffer, size_t bytes)
{
    memcpy(host, buffer, bytes);
    return cpu_finish(kernel);
}

static void cpu_zero(struct kernel *kernel, void *buffer, size_t bytes)
{
    (void)kernel;
    memset(buffer, 0, bytes);
}

static int cpu_hash(struct kernel *kernel, const void *buffer, size_t bytes, uint64_t *ret_hash)
{
    *ret_hash = XXH3_64bits(buffer, bytes);
    return cpu_finish(kernel);
}

static void cpu_explain(struct kernel *kernel, char *ret_text, size_t size)
{
    const struct kernel_cpu *cpu = kernel->state;
    (void)snprintf(ret_text, size, "%s",
                   cpu->error == 0 ? "no error" : "no memory for the model's arithmetic");
}

float *kernel_cpu_scratch(struct kernel *kernel, enum kernel_cpu_use use, size_t count)
{
    struct kernel_cpu *cpu = kernel->state;
    if (count > cpu->scratch_count[use]) {
        free(cpu->scratch[use]);
        cpu->scratch[use] = malloc(count * sizeof(float));
        cpu->scratch_count[use] = cpu->scratch[use] == NULL ? 0 : count;
        cpu->error = cpu->scratch[use] == NULL ? -ENOMEM : cpu->error;
    }
    return cpu->scratch[use];
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void cpu_add_bias(struct kernel *kernel, float *data, const float *bias, size_t rows,
                         size_t columns)
{
    (void)kernel;
    for (size_t row = 0; row < rows; row++) {
        for (size_t column = 0; column < columns; column++) {
            data[row * columns + column] += bias[column];
        }
    }
}

static void cpu_sum_rows(struct kernel *kernel, float *sums, const float *data, size_t rows,
                         size_t columns)
{
    (void)kernel;
    for (size_t row = 0; row < rows; row++) {
        for (size_t column = 0; column < columns; column++) {
            sums[column] += data[row * columns + column];
        }
    }
}

static void cpu_norm_forward(struct kernel *kernel, float *output, float *mean, float *scale,
                             const float *input, const float *gain, const float *bias, size_t rows,
                             size_t columns)
{
    (void)kernel;
    for (size_t row = 0; row < rows; row++) {
        const float *in = input + row * columns;
        math_norm_measure(&mean[row], &scale[row], in, columns);
        for (size_t i = 0; i < columns; i++) {
            output[row * columns + i] = (in[i] - mean[row]) * scale[row] * gain[i] + bias[i];
        }
    }
}

static void cpu_norm_backward(struct kernel *kernel, float *input_gradient, float *gain_gradient,
                              float *bias_gradient, const float *output_gradient,
                              const float *input, const float *gain, const float *mean,
                              const float *scale, size_t rows, size_t columns)
{
    (void)kernel;
    for (size_t row = 0; row < rows; row++) {
        const float *in = input + row * columns;
        const float *out = output_gradient + row * columns;
        for (size_t i = 0; i < columns; i++) {
            gain_gradient[i] += out[i] * ((in[i] - mean[row]) * scale[row]);
            bias_gradient[i] += out[i];
        }
        math_norm_gradient(input_gradient + row * columns, out, in, gain, mean[row], scale[row],
                           columns);
    }
}

static void cpu_gelu_forward(struct kernel *kernel, float *output, float *slope, const float *input,
                             size_t count)
{
    (void)kernel;
    for (size_t i = 0; i < count; i++) {
        math_gelu(&output[i], &slope[i], input[i]);
    }
}

static void cpu_add(struct kernel *kernel, float *to, const float *from, size_t count)
{
    (void)kernel;
    for (size_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

static void cpu_multiply(struct kernel *kernel, float *to, const float *factor, size_t count)
{
    (void)kernel;
    for (size_t i = 0; i < count; i++) {
        to[i] *= factor[i];
    }
}

static void cpu_sum_squares(struct kernel *kernel, double *ret_sum, const float *data, size_t count)
{
    double sum = 0.0;
    (void)kernel;
    for (size_t i = 0; i < count; i++) {
        sum += (double)data[i] * (double)data[i];
    }
    *ret_sum = sum;
}

static void cpu_adam_update(struct kernel *kernel, const struct kernel_adam *adam, float *weights,
                            const float *gradients, float *first, float *second, size_t count)
{
    (void)kernel;
    for (size_t i = 0; i < count; i++) {
        math_adam(adam, &weights[i], gradients[i], &first[i], &second[i]);
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

static void cpu_destroy(struct kernel *kernel)
{
    struct kernel_cpu *cpu = kernel->state;
    for (int use = 0; use < SCRATCH_USES; use++) {
        free(cpu->scratch[use]);
    }
    free(cpu);
}

static const struct kernel_backend cpu_backend = {
    .name = "cpu",
    .exit_code = EXIT_LOCAL,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .write = cpu_write,
    .read = cpu_read,
    .zero = cpu_zero,
    .finish = cpu_finish,
    .hash = cpu_hash,
    .explain = cpu_explain,
    .matmul = kernel_cpu_matmul,
    .add_bias = cpu_add_bias,
    .sum_rows = cpu_sum_rows,
    .add = cpu_add,
    .multiply = cpu_multiply,
    .sum_squares = cpu_sum_squares,
    .norm_forward = cpu_norm_forward,
    .norm_backward = cpu_norm_backward,
    .gelu_forward = cpu_gelu_forward,
    .attention_forward = kernel_cpu_attention_forward,
    .attention_backward = kernel_cpu_attention_backward,
    .embed_forward = kernel_cpu_embed_forward,
    .embed_backward = kernel_cpu_embed_backward,
    .loss_largest = kernel_cpu_loss_largest,
    .loss_sums = kernel_cpu_loss_sums,
    .loss_total = kernel_cpu_loss_total,
    .loss_backward = kernel_cpu_loss_backward,
    .adam_update = cpu_adam_update,
    .destroy = cpu_destroy,
};

int kernel_cpu_create(struct kernel *ret_kernel)
{
    struct kernel_cpu *cpu = calloc(1, sizeof(*cpu));
    if (cpu == NULL) {
        return -ENOMEM;
    }
    *ret_kernel = (struct kernel){.backend = &cpu_backend, .state = cpu};
    return 0;
}
