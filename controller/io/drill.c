/* drill.c: see drill.h. */
#include "controller/io/drill.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

int drill_parse(const char *text, struct drill *ret_drill, struct err *err)
{
    static const struct {
        const char *prefix;
        enum drill_at at;
    } forms[] = {{"before:", DRILL_BEFORE}, {"after:", DRILL_AFTER}, {"mid:", DRILL_MID}};
    for (size_t index = 0; index < ARRAY_SIZE(forms); index++) {
        size_t size = strlen(forms[index].prefix);
        uint64_t record;
        if (strncmp(text, forms[index].prefix, size) == 0 &&
            text_to_u64(text + size, UINT32_MAX, &record) == 0 && record > 0) {
            *ret_drill = (struct drill){.at = forms[index].at, .record = record};
            return 0;
        }
    }
    return err_set(err, -EINVAL, "--crash-at=%s: write before:N, after:N or mid:N with N from 1",
                   text);
}

void drill_arm(struct drill *drill, uint64_t durable_sequence)
{
    drill->sequence = durable_sequence + drill->record;
}

void drill_hook(enum store_stage stage, uint64_t first, uint64_t last, void *context)
{
    const struct drill *drill = context;
    bool hit = drill->sequence != 0 && drill->sequence >= first && drill->sequence <= last;
    bool now = (drill->at == DRILL_BEFORE && stage == STORE_BEFORE_COMMIT) ||
               (drill->at == DRILL_AFTER && stage == STORE_AFTER_COMMIT);
    if (hit && now) {
        drill_die();
    }
}

void drill_die(void)
{
    _exit(DRILL_STATUS);
}
