/* plan_say.c: a plan in words: which checkpoints it passed over and, while automation is held, what
 * it would do. Nothing here changes anything; it rests on the very choices that plan.c makes. */
#include <string.h>

#include "controller/core/plan.h"

/* ---- what was passed over ------------------------------------------------------------------- */

static bool is_passed_over(const struct job *job, const struct checkpoint *one)
{
    bool spoilt = one->d.state == CKPT_INCOMPLETE || one->d.state == CKPT_CORRUPT ||
                  one->d.state == CKPT_SUSPECT;
    return one->d.job == job->d.job && spoilt && one->d.step > job->d.restore_step;
}

uint32_t plan_say_skipped(const struct core *core, const struct job *job, char text[TEXT_SIZE])
{
    const struct checkpoint *newest = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        if (is_passed_over(job, one)) {
            newest = newest == NULL || one->d.step >= newest->d.step ? one : newest;
            count++;
        }
    }
    text[0] = '\0';
    if (newest != NULL) {
        text_sentence(text, TEXT_SIZE, "; passed over %u newer: step %llu %s (%.80s)%s", count,
                      (unsigned long long)newest->d.step, WORD(checkpoint_state, newest->d.state),
                      newest->d.note, count > 1 ? ", ..." : "");
    }
    return count;
}

/* ---- what would be done --------------------------------------------------------------------- */

/* It will have to, once automation acts: it is blamed, or silent and only not taken for lost. */
static bool would_leave(const struct core *core, const struct job *job, const struct node *node)
{
    bool leaves = plan_must_leave(core, node) || node->would;
    for (uint32_t i = 0; i < core->blamed_count && !leaves; i++) {
        leaves = core->blamed[i].node == node->d.node &&
                 plan_evicted_for(core, job, &core->blamed[i]) != NULL;
    }
    return leaves;
}

static void add_text(char text[TEXT_SIZE], const char *more)
{
    size_t used = strlen(text);
    text_copy(text + used, TEXT_SIZE - used, more);
}

/* Who would go and who would come, or why nobody can. */
static bool foresee_swaps(struct core *core, const struct job *job, char text[TEXT_SIZE])
{
    struct layout_shape shape = plan_shape(job);
    struct err err = {0};
    uint32_t spares = plan_collect(core, job);
    uint32_t lost = plan_lost_slots(core, job, would_leave);
    if (lost == 0) {
        return true;
    }
    if (layout_swaps(&shape, core->plan_holders, job->slot_count, core->plan_lost, lost,
                     core->plan_nodes, spares, core->scratch, core->plan_swaps, &err) < 0) {
        text_format(text, TEXT_SIZE, "%s: %s",
                    job->d.on_exhausted == EXHAUSTED_FAIL ? "fail the job" : "wait", err.text);
        return false;
    }
    const struct layout_swap *first = &core->plan_swaps[0];
    const struct node *old = core_node(core, core_slot(core, job, first->slot)->d.node);
    text_format(text, TEXT_SIZE, "put %s in slot %u in place of %s",
                core_node(core, first->node)->d.name, first->slot,
                old != NULL ? old->d.name : "nobody");
    if (lost > 1) {
        char more[48];
        text_format(more, sizeof more, " and swap %u more", lost - 1);
        add_text(text, more);
    }
    add_text(text, ", then ");
    return true;
}

void plan_foresee(struct core *core, struct job *job, char text[TEXT_SIZE])
{
    const struct checkpoint *best = core_checkpoint_best(core, job);
    const struct checkpoint *from =
        plan_failed_twice(job, best) ? checkpoint_best_but(core, job, best) : best;
    uint64_t step = from != NULL ? from->d.step : 0;
    uint64_t last = plan_step_given_up(core, job);
    uint64_t lost_steps = last > step ? last - step : 0;
    char more[TEXT_SIZE];
    text[0] = '\0';
    if (job->d.hold_asked) {
        text_copy(text, TEXT_SIZE, "hold the job, as an operator asked");
        return;
    }
    if (!job->d.attempted) {
        text_format(text, TEXT_SIZE, "start it on %u %s", job->slot_count,
                    text_plural(job->slot_count, "node", "nodes"));
        return;
    }
    if (!foresee_swaps(core, job, text)) {
        return;
    }
    if (plan_asks_person(job, lost_steps)) {
        text_format(more, sizeof more,
                    "ask a person: %llu steps would be lost (checkpoint.max_lost)",
                    (unsigned long long)lost_steps);
    } else {
        text_format(more, sizeof more, "start attempt %u from step %llu, %llu %s lost",
                    job->d.launched ? job->d.attempt + 1 : job->d.attempt, (unsigned long long)step,
                    (unsigned long long)lost_steps, text_plural(lost_steps, "step", "steps"));
    }
    add_text(text, more);
}
