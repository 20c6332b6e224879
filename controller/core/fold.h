/* fold.h: what the files that fold records share; for fold*.c alone.
 *
 *   fold.c             finding, the cluster, foreign ranks, the table of all kinds
 *   fold_node.c        nodes and marks
 *   fold_job.c         jobs, attempts, slots, budgets, time
 *   fold_recovery.c    incidents and recoveries
 *   fold_checkpoint.c  checkpoints */
#ifndef KEEPSTEP_CORE_FOLD_H
#define KEEPSTEP_CORE_FOLD_H

#include "controller/core/impl.h"

/* One for each kind: 0, or -EINVAL with the reason and nothing changed. */
typedef int fold_one(struct core *core, const struct record *record, struct err *err);
#define K(number, name) fold_one fold_##name;
RECORD_KINDS(K)
#undef K

/* -EINVAL and the reason when there is none. */
int fold_need_node(struct core *core, uint32_t id, struct node **ret_node, struct err *err);
int fold_need_job(struct core *core, uint32_t id, struct job **ret_job, struct err *err);
/* Takes element `index` out of an array of `count`; the others keep their order. */
void fold_drop_at(void *array, uint32_t *count, uint32_t index, size_t size);
/* A fact of the agent's had the effect that is being folded: whoever says it again comes too late. */
void fold_fact_sequence(struct node *node, uint64_t sequence);

/* The image of a kind that is nothing but its durable part. */
#define FOLD_IMAGE(name, array, member, limit)                                                     \
    int fold_image_##name(struct core *core, const struct record *r, struct err *err)              \
    {                                                                                              \
        if (core->name##_count >= core->limits.limit) {                                            \
            return err_set(err, -EINVAL, "more than %u of %s", core->limits.limit, #limit);        \
        }                                                                                          \
        memset(&core->array[core->name##_count], 0, sizeof core->array[0]);                        \
        core->array[core->name##_count++] member = r->u.image_##name;                              \
        return 0;                                                                                  \
    }

#endif
