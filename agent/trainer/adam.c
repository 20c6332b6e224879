/* adam.c: Kingma and Ba's rule with bias correction. The corrections are computed in double once a
 * step; the elements in float, each on its own. */
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

void adam_update(const struct adam *adam, uint64_t step, float *weights, const float *gradients,
                 float *first, float *second, size_t count)
{
    const double t = (double)step;
    const float correct_first = (float)(1.0 / (1.0 - pow((double)decay_first, t)));
    const float correct_second = (float)(1.0 / (1.0 - pow((double)decay_second, t)));
    const float rate = adam_rate(adam, step);
    for (size_t i = 0; i < count; i++) {
        const float gradient = gradients[i];
        first[i] = decay_first * first[i] + (1.0f - decay_first) * gradient;
        second[i] = decay_second * second[i] + (1.0f - decay_second) * gradient * gradient;
        const float size = sqrtf(second[i] * correct_second) + epsilon;
        weights[i] -= rate * (first[i] * correct_first) / size;
    }
}
