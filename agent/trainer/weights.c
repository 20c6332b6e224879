/* weights.c: one header, one array. */
#include "agent/trainer/weights.h"

#include <string.h>

#include "agent/trainer/durable.h"

int weights_write(const char *path, const struct model_shape *shape, const float *weights,
                  struct fail *fail)
{
    struct weights_header header = {
        .version = 1,
        .bytes = MODEL_BYTES,
        .context = shape->context,
        .layers = shape->layers,
        .width = shape->width,
        .count = model_weight_count(shape),
    };
    memcpy(header.magic, "KSWEIGH", sizeof(header.magic));
    const struct durable_part parts[] = {
        {&header, sizeof(header)},
        {weights, header.count * sizeof(*weights)},
    };
    return durable_write_path(path, parts, sizeof(parts) / sizeof(parts[0]), true, fail);
}
