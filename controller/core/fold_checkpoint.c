/* fold_checkpoint.c: what records say of checkpoints. */
#include <errno.h>
#include <string.h>

#include "controller/core/fold.h"

static bool make_room_for_checkpoint(struct core *core)
{
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct job *job = job_at(core, core->checkpoints[i].d.job);
        bool needed = job != NULL && !core_job_over(job) &&
                      (core_checkpoint_best(core, job) == &core->checkpoints[i] ||
                       core->checkpoints[i].d.pinned_by[0] != '\0');
        if (!needed) {
            fold_drop_at(core->checkpoints, &core->checkpoint_count, i, sizeof *core->checkpoints);
            return true;
        }
    }
    return false;
}

int fold_checkpoint_moved(struct core *core, const struct record *r, struct err *err)
{
    const struct record_checkpoint_moved *u = &r->u.checkpoint_moved;
    struct checkpoint *checkpoint = checkpoint_at(core, u->job, u->attempt, u->step);
    if (checkpoint == NULL) {
        if (core->checkpoint_count >= core->limits.checkpoints && !make_room_for_checkpoint(core)) {
            return err_set(err, -EINVAL, "more than %u checkpoints", core->limits.checkpoints);
        }
        checkpoint = &core->checkpoints[core->checkpoint_count++];
        memset(checkpoint, 0, sizeof *checkpoint);
        checkpoint->began_ms = r->service_ms;
    }
    memcpy(&checkpoint->d, u, sizeof *u);
    checkpoint->d.at_service_ms = r->service_ms;
    checkpoint->d.at_wall_ms = r->wall_ms;
    return 0;
}

int fold_checkpoint_pinned(struct core *core, const struct record *r, struct err *err)
{
    const struct record_checkpoint_pinned *u = &r->u.checkpoint_pinned;
    struct checkpoint *checkpoint = checkpoint_at(core, u->job, u->attempt, u->step);
    (void)err;
    if (checkpoint != NULL) { /* the oldest are forgotten; a pin of one of them says nothing */
        text_copy(checkpoint->d.pinned_by, NAME_SIZE, u->pinned_by);
        text_copy(checkpoint->d.pinned_why, TEXT_SIZE, u->pinned_why);
    }
    return 0;
}

int fold_checkpoint_removed(struct core *core, const struct record *r, struct err *err)
{
    const struct record_checkpoint_removed *u = &r->u.checkpoint_removed;
    (void)err;
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct record_image_checkpoint *d = &core->checkpoints[i].d;
        if (d->job == u->job && d->attempt == u->attempt && d->step == u->step) {
            fold_drop_at(core->checkpoints, &core->checkpoint_count, i, sizeof *core->checkpoints);
            break;
        }
    }
    return 0;
}

int fold_image_checkpoint(struct core *core, const struct record *r, struct err *err)
{
    if (core->checkpoint_count >= core->limits.checkpoints) {
        return err_set(err, -EINVAL, "more than %u checkpoints", core->limits.checkpoints);
    }
    struct checkpoint *checkpoint = &core->checkpoints[core->checkpoint_count++];
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->d = r->u.image_checkpoint;
    checkpoint->began_ms = r->u.image_checkpoint.at_service_ms; /* of one that is being written */
    return 0;
}
