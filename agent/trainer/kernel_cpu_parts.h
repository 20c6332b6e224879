/* kernel_cpu_parts.h: what the files of the cpu backend share; nobody else includes it. The
 * functions are the entries of the backend's table, as kernel.h describes them. */
#ifndef KEEPSTEP_TRAINER_KERNEL_CPU_PARTS_H
#define KEEPSTEP_TRAINER_KERNEL_CPU_PARTS_H

#include "agent/trainer/kernel.h"

enum kernel_cpu_use { SCRATCH_LEFT, SCRATCH_RIGHT, SCRATCH_SCORES };
enum { SCRATCH_USES = SCRATCH_SCORES + 1 };

struct kernel_cpu {
    int error; /* the first one: no memory for scratch */
    float *scratch[SCRATCH_USES];
    size_t scratch_count[SCRATCH_USES];
};

/* At least so many floats, their content undefined; NULL, and the error kept, without memory. */
float *kernel_cpu_scratch(struct kernel *kernel, enum kernel_cpu_use use, size_t count);

void kernel_cpu_matmul(struct kernel *kernel, struct matrix c, struct matrix a, struct matrix b,
                       size_t rows, size_t inner, size_t columns, bool accumulate);
void kernel_cpu_attention_forward(struct kernel *kernel, float *mixed, float *chances, float *qkv,
                                  const struct kernel_attention *sizes);
void kernel_cpu_attention_backward(struct kernel *kernel, float *qkv_gradient,
                                   float *mixed_gradient, float *chances, float *qkv,
                                   const struct kernel_attention *sizes);
void kernel_cpu_embed_forward(struct kernel *kernel, float *output, const float *tokens,
                              const float *positions, const struct kernel_text *text, size_t width);
void kernel_cpu_embed_backward(struct kernel *kernel, float *token_gradient,
                               float *position_gradient, const float *output_gradient,
                               const struct kernel_text *text, size_t width);
void kernel_cpu_loss_largest(struct kernel *kernel, float *largest, const float *logits,
                             size_t rows, size_t columns);
void kernel_cpu_loss_sums(struct kernel *kernel, float *logits, float *sums, const float *largest,
                          const struct kernel_text *text, size_t first, size_t columns);
void kernel_cpu_loss_total(struct kernel *kernel, float *logits, double *total, const float *sums,
                           size_t rows, size_t columns);
void kernel_cpu_loss_backward(struct kernel *kernel, float *logits, const struct kernel_text *text,
                              size_t first, size_t columns, float scale);

#endif
