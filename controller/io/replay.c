/* replay.c: one bad job must not keep the controller from starting: its records are kept in the
 * journal and ignored, its ranks are left alone until a person looks at it. */
#include "controller/io/replay.h"

#include <errno.h>
#include <inttypes.h>

#include "controller/core/state.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

struct replay {
    struct core *core;
    struct replay_report report;
    struct err *err;
};

static bool is_quarantined(const struct replay *replay, uint32_t job)
{
    const struct job *found = core_job(replay->core, job);
    return found != NULL && found->d.quarantined;
}

static void quarantine(struct replay *replay, uint32_t job, uint64_t sequence, const char *reason)
{
    if (is_quarantined(replay, job)) {
        return;
    }
    char number[24];
    char id[24];
    (void)text_format(number, sizeof(number), "%" PRIu64, sequence); /* fits */
    (void)text_format(id, sizeof(id), "%" PRIu32, job);              /* fits */
    log_line(LOG_ERROR, "job-quarantined",
             "a record of this job cannot be used: its ranks are left alone until a person has "
             "looked at it",
             "job", id, "sequence", number, "reason", reason, NULL);
    core_quarantine(replay->core, job);
    replay->report.jobs_quarantined++;
}

static int visit_record(const struct record *record, void *context)
{
    struct replay *replay = context;
    struct err err = {0};
    int result = core_replay(replay->core, record, &err);
    if (result == 0) {
        return 0;
    }
    if (record->job != 0) {
        quarantine(replay, record->job, record->sequence, err.text);
        return 0;
    }
    return err_set(replay->err, -EUCLEAN,
                   "record %" PRIu64 " of the journal cannot be used: %s; restore a backup, or "
                   "start with an empty database and adopt what runs",
                   record->sequence, err.text);
}

static int visit_bad(const struct store_bad *bad, void *context)
{
    struct replay *replay = context;
    if (bad->job != 0) {
        quarantine(replay, bad->job, bad->sequence, bad->reason);
        return 0;
    }
    return err_set(replay->err, -EUCLEAN,
                   "record %" PRIu64
                   " (%s, %s) of the journal cannot be read: %s; restore a backup",
                   bad->sequence, bad->kind, bad->subject, bad->reason);
}

int replay_journal(struct store *store, struct core *core, struct replay_report *ret_report,
                   struct err *err)
{
    struct replay replay = {.core = core, .err = err};
    struct store_visitor visitor = {
        .record = visit_record,
        .bad = visit_bad,
        .context = &replay,
    };
    int result = store_replay(store, 0, &visitor, &replay.report.store, err);
    if (result < 0) {
        return result;
    }
    core_check(core);
    *ret_report = replay.report;
    return 0;
}
