/* fold_recovery.c: what records say of incidents and of the recoveries from them. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "controller/core/fold.h"

/* ---- making room ---------------------------------------------------------------------------- */

static void drop_facts_of(struct core *core, uint32_t incident)
{
    for (uint32_t i = core->fact_count; i-- > 0;) {
        if (core->facts[i].incident == incident) {
            fold_drop_at(core->facts, &core->fact_count, i, sizeof *core->facts);
        }
    }
    for (uint32_t i = core->blamed_count; i-- > 0;) {
        if (core->blamed[i].incident == incident) {
            fold_drop_at(core->blamed, &core->blamed_count, i, sizeof *core->blamed);
        }
    }
}

static bool incident_in_use(const struct core *core, uint32_t incident)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core->jobs[i].d.incident == incident) {
            return true;
        }
    }
    return false;
}

/* Forgets the oldest incident that no job is busy with. History stays in the store. */
static bool make_room_for_incident(struct core *core)
{
    for (uint32_t i = 0; i < core->incident_count; i++) {
        if (!incident_in_use(core, core->incidents[i].d.incident)) {
            drop_facts_of(core, core->incidents[i].d.incident);
            fold_drop_at(core->incidents, &core->incident_count, i, sizeof *core->incidents);
            return true;
        }
    }
    return false;
}

static bool make_room_for_recovery(struct core *core)
{
    for (uint32_t i = 0; i < core->recovery_count; i++) {
        if (core->recoveries[i].d.outcome != OUTCOME_OPEN) {
            fold_drop_at(core->recoveries, &core->recovery_count, i, sizeof *core->recoveries);
            return true;
        }
    }
    return false;
}

/* ---- incidents ------------------------------------------------------------------------------ */

int fold_incident_opened(struct core *core, const struct record *r, struct err *err)
{
    const struct record_incident_opened *u = &r->u.incident_opened;
    struct job *job;
    int code = fold_need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    if (core->incident_count >= core->limits.incidents && !make_room_for_incident(core)) {
        return err_set(err, -EINVAL, "more than %u open incidents", core->limits.incidents);
    }
    struct incident *incident = &core->incidents[core->incident_count++];
    memset(incident, 0, sizeof *incident);
    incident->d.incident = u->incident;
    incident->d.job = u->job;
    incident->d.attempt = u->attempt;
    incident->d.step = u->step;
    incident->d.opened_service_ms = r->service_ms;
    incident->d.opened_wall_ms = r->wall_ms;
    job->d.incident = u->incident;
    core->g.incident_next = u->incident + 1;
    return 0;
}

int fold_fact_kept(struct core *core, const struct record *r, struct err *err)
{
    (void)err;
    fold_fact_sequence(node_at(core, r->u.fact_kept.node), r->u.fact_kept.sequence);
    if (core->fact_count >= core->limits.facts) {
        uint32_t oldest = core->facts[0].incident;
        if (!incident_in_use(core, oldest)) {
            drop_facts_of(core, oldest);
        }
    }
    if (core->fact_count < core->limits.facts) { /* else it is in the journal and not judged */
        memcpy(&core->facts[core->fact_count++], &r->u.fact_kept, sizeof r->u.fact_kept);
    }
    return 0;
}

int fold_verdict(struct core *core, const struct record *r, struct err *err)
{
    const struct record_verdict *u = &r->u.verdict;
    struct incident *incident = incident_at(core, u->incident);
    if (incident == NULL) {
        return err_set(err, -EINVAL, "verdict on incident %u, which is not known", u->incident);
    }
    struct record_image_incident *d = &incident->d;
    struct record_image_incident *to = d;
    const struct record_verdict *from = u;
    VERDICT_FIELDS(RECORD_COPY, unused)
    d->judged = true;
    /* The first fact opened the recovery; only now it is known what it was about. */
    for (uint32_t i = 0; i < core->recovery_count; i++) {
        struct record_image_recovery *recovery = &core->recoveries[i].d;
        if (recovery->outcome == OUTCOME_OPEN && recovery->incident == u->incident && u->evict) {
            recovery->cause = u->owner == OWNER_PLANNED ? CAUSE_PLANNED : CAUSE_NODE;
        }
    }
    return 0;
}

int fold_blamed(struct core *core, const struct record *r, struct err *err)
{
    const struct record_blamed *u = &r->u.blamed;
    struct incident *incident = incident_at(core, u->incident);
    if (incident == NULL) {
        return err_set(err, -EINVAL, "blame in incident %u, which is not known", u->incident);
    }
    if (incident->d.first_blamed == 0) {
        incident->d.first_blamed = u->node;
    }
    if (core->blamed_count >= core->limits.facts &&
        !incident_in_use(core, core->blamed[0].incident)) {
        drop_facts_of(core, core->blamed[0].incident);
    }
    if (core->blamed_count < core->limits.facts) {
        memcpy(&core->blamed[core->blamed_count++], u, sizeof *u);
    }
    return 0;
}

FOLD_IMAGE(incident, incidents, .d, incidents)
FOLD_IMAGE(fact, facts, , facts)
FOLD_IMAGE(blamed, blamed, , facts)

static_assert(sizeof(struct record_image_fact) == sizeof(struct record_fact_kept), "same fields");
static_assert(sizeof(struct record_image_blamed) == sizeof(struct record_blamed), "same fields");

/* ---- recoveries ----------------------------------------------------------------------------- */

static int need_recovery(struct core *core, uint32_t id, struct recovery **ret_recovery,
                         struct err *err)
{
    *ret_recovery = recovery_at(core, id);
    return *ret_recovery != NULL ? 0 : err_set(err, -EINVAL, "there is no recovery %u", id);
}

int fold_recovery_opened(struct core *core, const struct record *r, struct err *err)
{
    const struct record_recovery_opened *u = &r->u.recovery_opened;
    struct job *job;
    int code = fold_need_job(core, u->job, &job, err);
    if (code < 0) {
        return code;
    }
    if (job->d.recovery != 0) {
        return err_set(err, -EINVAL, "job %s already recovers (%u)", job->d.name, job->d.recovery);
    }
    if (core->recovery_count >= core->limits.recoveries && !make_room_for_recovery(core)) {
        return err_set(err, -EINVAL, "more than %u open recoveries", core->limits.recoveries);
    }
    struct recovery *recovery = &core->recoveries[core->recovery_count++];
    memset(recovery, 0, sizeof *recovery);
    recovery->d.recovery = u->recovery;
    recovery->d.job = u->job;
    recovery->d.incident = u->incident;
    recovery->d.cause = u->cause;
    recovery->d.attempt = u->attempt;
    recovery->d.phase = PHASE_DETECT;
    recovery->d.phase_service_ms[PHASE_DETECT] = u->since_service_ms;
    recovery->d.opened_service_ms = u->since_service_ms;
    recovery->d.opened_wall_ms = r->wall_ms - (r->service_ms - u->since_service_ms);
    job->d.recovery = u->recovery;
    core->g.recovery_next = u->recovery + 1;
    return 0;
}

int fold_recovery_merged(struct core *core, const struct record *r, struct err *err)
{
    struct recovery *recovery;
    int code = need_recovery(core, r->u.recovery_merged.recovery, &recovery, err);
    if (code == 0) {
        recovery->d.merged++;
        recovery->d.incident = r->u.recovery_merged.incident;
        if (recovery->d.cause == CAUSE_PLANNED || recovery->d.cause == CAUSE_START) {
            recovery->d.cause = r->u.recovery_merged.cause;
        }
    }
    return code;
}

/* Books the time of the phase that ends now. */
static void phase_end(struct recovery *recovery, uint64_t service_ms)
{
    uint64_t since = recovery->d.phase_service_ms[recovery->d.phase];
    recovery->d.phase_ms[recovery->d.phase] += service_ms > since ? service_ms - since : 0;
}

int fold_recovery_phase(struct core *core, const struct record *r, struct err *err)
{
    struct recovery *recovery;
    int code = need_recovery(core, r->u.recovery_phase.recovery, &recovery, err);
    if (code == 0) {
        phase_end(recovery, r->service_ms);
        recovery->d.phase = r->u.recovery_phase.phase;
        recovery->d.phase_service_ms[recovery->d.phase] = r->service_ms;
    }
    return code;
}

int fold_recovery_plan(struct core *core, const struct record *r, struct err *err)
{
    const struct record_recovery_plan *u = &r->u.recovery_plan;
    struct recovery *recovery;
    int code = need_recovery(core, u->recovery, &recovery, err);
    if (code == 0) {
        recovery->d.planned = true;
        recovery->d.attempt_new = u->attempt;
        if (u->last_step > recovery->d.last_step) { /* what failed meanwhile never came as far */
            recovery->d.last_step = u->last_step;
        }
        recovery->d.restore_step = u->restore_step;
        recovery->d.lost_steps += u->lost_steps; /* a merged failure may lose more */
        recovery->d.moved_nodes += u->moved_nodes;
        recovery->d.shifted_ranks += u->shifted_ranks;
        recovery->d.skipped = u->skipped;
        recovery->d.parts = u->parts;
    }
    return code;
}

int fold_recovery_closed(struct core *core, const struct record *r, struct err *err)
{
    struct recovery *recovery;
    int code = need_recovery(core, r->u.recovery_closed.recovery, &recovery, err);
    if (code < 0) {
        return code;
    }
    phase_end(recovery, r->service_ms);
    recovery->d.outcome = r->u.recovery_closed.outcome;
    recovery->d.closed_service_ms = r->service_ms;
    struct job *job = job_at(core, recovery->d.job);
    if (job != NULL && job->d.recovery == recovery->d.recovery) {
        job->d.recovery = 0;
        job->d.incident = 0;
        job->d.stepped = job->d.stepped || recovery->d.outcome == OUTCOME_RECOVERED;
    }
    return 0;
}

FOLD_IMAGE(recovery, recoveries, .d, recoveries)
