/* signs.c: what was told of nodes that ended nothing: a port that went down and came back, a GPU
 * that slows down, errors that were corrected. For itself it is no reason to act. When an attempt
 * ends soon after, it is evidence like any other; and what comes again and again is counted.
 *
 * Soft state: a controller that starts anew has forgotten it. */
#include <string.h>

#include "controller/core/impl.h"

enum {
    SIGN_EVIDENCE_MS = 60 * 1000,  /* so long it may have to do with an end */
    SIGN_KEPT_MS = 60 * 60 * 1000, /* so long it counts as a repeat */
};

static bool is_again(const struct sign *sign, const struct fact *fact)
{
    return sign->fact.node == fact->node && text_equal(sign->fact.signal, fact->signal) &&
           text_equal(sign->fact.subject, fact->subject);
}

void signs_keep(struct core *core, const struct fact *fact)
{
    /* A port that is up again belongs to the story of the one that was down. */
    bool up = text_equal(fact->signal, READING_PORT_UP);
    if (fact->label == LABEL_UNKNOWN || (fact->severity == 0 && !up)) {
        return; /* nobody knows what it says, or it says that all is well */
    }
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < SIGNS_MAX; i++) {
        struct sign *sign = &core->signs[i];
        /* The same within a minute is the same; later it is another time. */
        if (sign->fact.node != 0 && is_again(sign, fact) && core->t - sign->t < SIGN_EVIDENCE_MS) {
            return;
        }
        oldest = sign->t < core->signs[oldest].t ? i : oldest;
    }
    core->signs[oldest] = (struct sign){.fact = *fact, .t = core->t};
}

const struct fact *signs_recent(const struct core *core, const struct job *job, uint32_t index,
                                uint64_t began_ms)
{
    const struct sign *sign = &core->signs[index];
    const struct node *node = core_node(core, sign->fact.node);
    bool ours = node != NULL && node->d.job == job->d.job;
    return ours && sign->t + SIGN_EVIDENCE_MS >= began_ms ? &sign->fact : NULL;
}

const struct fact *signs_earlier(const struct core *core, uint32_t index, uint64_t *ret_age_ms)
{
    const struct sign *sign = &core->signs[index];
    const uint64_t age_ms = core->t - sign->t;
    if (sign->fact.node == 0 || age_ms <= SIGN_EVIDENCE_MS || age_ms > SIGN_KEPT_MS) {
        return NULL;
    }
    *ret_age_ms = age_ms;
    return &sign->fact;
}
