/* adam.c: Kingma and Ba's rule with bias correction. The corrections are computed in double once a
 * step; the elements in float, each on its own, by the kernel. */
#include "agent/trainer/adam.h"

#include <math.h>

static const float decay_first = 0.9f;
static const float decay_second = 0.99f;
static const float epsilon = 1e-8f;

float adam_rate(const struct adam *adam, uint64_t step)
{
    if (step >= adam->warmup_steps) {
        return adam->rate;
    }
    return adam->rate * (float)step / (float)adam->warmup_steps;
}

void adam_update(const struct adam *adam, struct kernel *kernel, uint64_t step, float *weights,
                 const float *gradients, float *first, float *second, size_t count)
{
    const double t = (double)step;
    const struct kernel_adam now = {
        .rate = adam_rate(adam, step),
        .decay_first = decay_first,
        .decay_second = decay_second,
        .correct_first = (float)(1.0 / (1.0 - pow((double)decay_first, t))),
        .correct_second = (float)(1.0 / (1.0 - pow((double)decay_second, t))),
        .epsilon = epsilon,
    };
    kernel_adam_update(kernel, &now, weights, gradients, first, second, count);
}
