/* fold.c: state = fold(records). One small function a kind, none of which decides anything; live
 * steps and replays pass through the same lines. A record that cannot belong to the present state
 * (a journal that is corrupt or of another cluster) is refused before anything is changed.
 *
 * Here: what all of them use, the cluster itself, foreign ranks, and the table of all kinds. */
#include "controller/core/fold.h"

#include <errno.h>
#include <string.h>

/* ---- finding -------------------------------------------------------------------------------- */

struct node *node_at(struct core *core, uint32_t id)
{
    return id >= 1 && id <= core->node_count ? &core->nodes[id - 1] : NULL;
}

struct job *job_at(struct core *core, uint32_t id)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core->jobs[i].d.job == id) {
            return &core->jobs[i];
        }
    }
    return NULL;
}

struct slot *slot_at(struct core *core, const struct job *job, uint32_t slot)
{
    CHECK(slot < job->slot_count);
    return &core->slots[job->slot_base + slot];
}

struct incident *incident_at(struct core *core, uint32_t id)
{
    for (uint32_t i = core->incident_count; i-- > 0;) {
        if (core->incidents[i].d.incident == id) {
            return &core->incidents[i];
        }
    }
    return NULL;
}

struct recovery *recovery_at(struct core *core, uint32_t id)
{
    for (uint32_t i = core->recovery_count; i-- > 0;) {
        if (core->recoveries[i].d.recovery == id) {
            return &core->recoveries[i];
        }
    }
    return NULL;
}

struct checkpoint *checkpoint_at(struct core *core, uint32_t job, uint32_t attempt, uint64_t step)
{
    for (uint32_t i = core->checkpoint_count; i-- > 0;) {
        const struct record_image_checkpoint *d = &core->checkpoints[i].d;
        if (d->job == job && d->attempt == attempt && d->step == step) {
            return &core->checkpoints[i];
        }
    }
    return NULL;
}

/* ---- for all kinds -------------------------------------------------------------------------- */

void fold_drop_at(void *array, uint32_t *count, uint32_t index, size_t size)
{
    CHECK(index < *count);
    uint8_t *at = (uint8_t *)array + (size_t)index * size;
    memmove(at, at + size, (size_t)(*count - index - 1) * size);
    (*count)--;
}

int fold_need_node(struct core *core, uint32_t id, struct node **ret_node, struct err *err)
{
    *ret_node = node_at(core, id);
    return *ret_node != NULL ? 0 : err_set(err, -EINVAL, "there is no node %u", id);
}

int fold_need_job(struct core *core, uint32_t id, struct job **ret_job, struct err *err)
{
    *ret_job = job_at(core, id);
    return *ret_job != NULL ? 0 : err_set(err, -EINVAL, "there is no job %u", id);
}

/* ---- the cluster ---------------------------------------------------------------------------- */

int fold_store_opened(struct core *core, const struct record *r, struct err *err)
{
    if (core->g.store_id[0] != '\0') {
        return err_set(err, -EINVAL, "the store is opened twice in this journal");
    }
    text_copy(core->g.cluster_id, sizeof core->g.cluster_id, r->u.store_opened.cluster_id);
    text_copy(core->g.store_id, sizeof core->g.store_id, r->u.store_opened.store_id);
    return 0;
}

int fold_term_began(struct core *core, const struct record *r, struct err *err)
{
    if (r->u.term_began.term <= core->g.term) {
        return err_set(err, -EINVAL, "term %llu does not follow term %llu",
                       (unsigned long long)r->u.term_began.term, (unsigned long long)core->g.term);
    }
    core->g.term = r->u.term_began.term;
    return 0;
}

int fold_automation(struct core *core, const struct record *r, struct err *err)
{
    (void)err; /* always fits */
    if (core->g.paused && !r->u.automation.paused) {
        core->g.resumed_service_ms = r->service_ms;
    }
    core->repair_stirred = true;
    core->g.observe = r->u.automation.observe;
    core->g.paused = r->u.automation.paused;
    text_copy(core->g.paused_cause, sizeof core->g.paused_cause, r->u.automation.cause);
    return 0;
}

int fold_breaker(struct core *core, const struct record *r, struct err *err)
{
    (void)err;
    if (!r->u.breaker.open) {
        core->g.silenced_service_ms = 0;
    } else if (!core->g.breaker_open) {
        core->g.silenced_service_ms = r->service_ms;
    }
    core->repair_stirred = true;
    core->g.breaker_open = r->u.breaker.open;
    core->g.silence_paged = r->u.breaker.paged;
    return 0;
}

int fold_acted(struct core *core, const struct record *r, struct err *err)
{
    (void)core; /* an audit line: nothing follows from it */
    (void)r;
    (void)err;
    return 0;
}

int fold_image_core(struct core *core, const struct record *r, struct err *err)
{
    if (core->node_count != 0 || core->job_count != 0) {
        return err_set(err, -EINVAL, "a snapshot must be folded into an empty core");
    }
    core->g = r->u.image_core;
    return 0;
}

/* ---- foreign -------------------------------------------------------------------------------- */

static struct foreign *foreign_find(struct core *core, uint32_t node, uint32_t job,
                                    uint32_t attempt)
{
    for (uint32_t i = 0; i < core->foreign_count; i++) {
        struct foreign *foreign = &core->foreigns[i];
        if (foreign->d.node == node && foreign->d.job == job && foreign->d.attempt == attempt) {
            return foreign;
        }
    }
    return NULL;
}

int fold_foreign_seen(struct core *core, const struct record *r, struct err *err)
{
    (void)err;
    const struct record_foreign_seen *u = &r->u.foreign_seen;
    if (foreign_find(core, u->node, u->job, u->attempt) != NULL) {
        return 0;
    }
    if (core->foreign_count >= core->limits.foreign) {
        fold_drop_at(core->foreigns, &core->foreign_count, 0, sizeof *core->foreigns);
    }
    core->foreigns[core->foreign_count++].d = (struct record_image_foreign){
        .node = u->node, .job = u->job, .attempt = u->attempt, .term = u->term};
    if (u->job >= core->g.job_next && u->job < UINT32_MAX / 2) {
        core->g.job_next = u->job + 1; /* their agents remember that number as used */
    }
    return 0;
}

int fold_foreign_resolved(struct core *core, const struct record *r, struct err *err)
{
    const struct record_foreign_resolved *u = &r->u.foreign_resolved;
    struct foreign *foreign = foreign_find(core, u->node, u->job, u->attempt);
    if (foreign == NULL) {
        return err_set(err, -EINVAL, "no foreign ranks of job %u on node %u", u->job, u->node);
    }
    foreign->d.resolved = true;
    foreign->d.stop = u->stopped;
    return 0;
}

FOLD_IMAGE(foreign, foreigns, .d, foreign)

/* ---- the table ------------------------------------------------------------------------------ */

int fold_record(struct core *core, const struct record *record, struct err *err)
{
    static fold_one *const table[RECORD_KIND_MAX + 1] = {
#define K(number, name) [number] = fold_##name,
        RECORD_KINDS(K)
#undef K
    };
    if (record->kind > RECORD_KIND_MAX || table[record->kind] == NULL) {
        return err_set(err, -EINVAL, "record kind %u is not known to this version", record->kind);
    }
    int code = table[record->kind](core, record, err);
    if (code == 0 && record->kind < RECORD_FIRST_IMAGE) {
        core->g.service_ms = record->service_ms;
        core->g.wall_ms = record->wall_ms;
    }
    return code;
}
