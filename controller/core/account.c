/* account.c: every second of a job has one kind, in integer milliseconds of service
 * time that join without a gap. While ranks step, time stays open ("unsaved"): a complete
 * checkpoint settles it as productive, a rollback as lost work. */
#include "controller/core/impl.h"

uint8_t account_kind(const struct core *core, const struct job *job)
{
    static const uint8_t of_phase[phase_count] = {
        [PHASE_DETECT] = TIME_DETECT,     [PHASE_STOP] = TIME_STOP,
        [PHASE_PLAN] = TIME_PLAN,         [PHASE_CHECK] = TIME_CHECK,
        [PHASE_LAUNCH] = TIME_LAUNCH,     [PHASE_INITIALISE] = TIME_INIT,
        [PHASE_RESTORING] = TIME_RESTORE, [PHASE_FIRST_STEP] = TIME_FIRST_STEP,
    };
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    switch (job->d.state) {
    case JOB_PENDING:
        return TIME_PENDING;
    case JOB_STARTING:
        return TIME_STARTING;
    case JOB_HELD:
        return TIME_HELD;
    case JOB_STOPPING:
        return TIME_STOPPING;
    case JOB_RECOVERING:
        if (recovery == NULL) {
            return TIME_PLAN;
        }
        if (recovery->d.cause == CAUSE_PLANNED) {
            return TIME_PLANNED;
        }
        return job->waiting_spare && recovery->d.phase == PHASE_PLAN ? TIME_WAIT_SPARE
                                                                     : of_phase[recovery->d.phase];
    default:
        return TIME_PRODUCTIVE; /* running: settled when it is known */
    }
}

void account_settle(struct core *core, const struct job *job, uint8_t kind,
                    uint64_t until_service_ms)
{
    if (until_service_ms <= job->d.settled_service_ms) {
        return;
    }
    struct record *record = record_begin(core, RECORD_time_settled_kind);
    record->u.time_settled.job = job->d.job;
    record->u.time_settled.kind = kind;
    record->u.time_settled.until_service_ms = until_service_ms;
    record->u.time_settled.ms = until_service_ms - job->d.settled_service_ms;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
}

void account_turn(struct core *core, const struct job *job)
{
    if (job->d.state == JOB_RUNNING) {
        return; /* its owner knows whether it was saved */
    }
    account_settle(core, job, account_kind(core, job), service_now(core));
}
