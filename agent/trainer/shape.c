/* shape.c: each sentence names the flag, the number and what would be right. */
#include "agent/trainer/shape.h"

#include <errno.h>

int shape_check(const struct model_shape *shape, struct fail *fail)
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

int shape_check_layout(const struct model_shape *shape, const struct comm_layout *layout,
                       struct fail *fail)
{
    const uint32_t heads = shape->width / MODEL_HEAD_WIDTH;
    if (layout->context != 1) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "cp %u: this program has no context parallel; cp must be 1",
                        layout->context);
    }
    if (heads % layout->tensor != 0) {
        return fail_set(
            fail, EXIT_BAD_CONFIG, -EINVAL,
            "--width %u gives %u heads of %d, which tp %u does not divide; take a width "
            "that is a multiple of %u",
            shape->width, heads, MODEL_HEAD_WIDTH, layout->tensor,
            layout->tensor * MODEL_HEAD_WIDTH);
    }
    if (MODEL_BYTES % (layout->tensor * KERNEL_LANES) != 0) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "tp %u does not split %d logits into parts of a multiple of %d; take a "
                        "power of two up to %d",
                        layout->tensor, MODEL_BYTES, KERNEL_LANES, MODEL_BYTES / KERNEL_LANES);
    }
    if (shape->layers % layout->pipeline != 0) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "--layers %u is not a multiple of pp %u: every stage has equally many",
                        shape->layers, layout->pipeline);
    }
    return 0;
}
