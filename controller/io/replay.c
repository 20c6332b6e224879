/* replay.c: one bad job or node must not keep the controller from starting: its records are kept in
 * the journal and ignored, its ranks are left alone until a person looks at it. */
#include "controller/io/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

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

/* true: the node is set aside, and the replay goes on. */
static bool quarantine_node(struct replay *replay, uint32_t id, const char *subject,
                            uint64_t sequence, const char *reason)
{
    const struct node *known = core_node(replay->core, id);
    if (known != NULL && known->set_aside) {
        return true;
    }
    const char *name = strncmp(subject, "node/", 5) == 0 ? subject + 5 : "";
    if (id == 0 || core_quarantine_node(replay->core, id, name) < 0) {
        return false;
    }
    char number[24];
    (void)text_format(number, sizeof(number), "%" PRIu64, sequence); /* fits */
    log_line(LOG_ERROR, "node-quarantined",
             "a record of this node cannot be used: it is not judged and not used, and its ranks "
             "are left alone, until it is removed and its agent has come again",
             "node", core_node(replay->core, id)->d.name, "sequence", number, "reason", reason,
             NULL);
    replay->report.nodes_quarantined++;
    return true;
}

/* What a row that cannot be used is about is set aside. false: nothing after it can be trusted. */
static bool set_aside(struct replay *replay, uint16_t kind, const struct store_bad *bad)
{
    char number[24];
    switch (record_owner(kind)) {
    case RECORD_OF_NODE:
        if (quarantine_node(replay, bad->node, bad->subject, bad->sequence, bad->reason)) {
            return true;
        }
        break;
    case RECORD_OF_NOBODY:
        (void)text_format(number, sizeof(number), "%" PRIu64, bad->sequence); /* fits */
        log_line(LOG_WARN, "record-unreadable", "nothing rests on this record, ignoring",
                 "sequence", number, "reason", bad->reason, NULL);
        return true;
    case RECORD_OF_CLUSTER:
        return false;
    case RECORD_OF_JOB:
        break;
    }
    if (bad->job != 0) {
        quarantine(replay, bad->job, bad->sequence, bad->reason);
    }
    return bad->job != 0;
}

static int visit_record(const struct record *record, void *context)
{
    struct replay *replay = context;
    struct err err = {0};
    if (core_replay(replay->core, record, &err) == 0) {
        return 0;
    }
    struct store_bad bad = {.sequence = record->sequence,
                            .job = record->job,
                            .node = record->node,
                            .subject = record->subject,
                            .reason = err.text};
    if (set_aside(replay, record->kind, &bad)) {
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
    const struct record_table *table = record_table_by_name(bad->kind);
    if (table != NULL && set_aside(replay, table->kind, bad)) {
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
