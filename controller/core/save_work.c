/* save_work.c: what persons and the job file want of single checkpoints: to keep one, to read one
 * again, to remove those that are past their time.
 *
 * One errand a job at a time. A verification that ends in an error has found out nothing and
 * changes no state; its end is said all the same. Removed are only checkpoints of our own format,
 * since they alone have a manifest that says whose they are; never a pinned one, never one of the
 * newest that are usable, never the one that the present attempt was restored from. */
#include <errno.h>
#include <string.h>

#include "controller/core/impl.h"

enum {
    VERIFY_SILENCE_MS = 60000, /* without progress: its storage hangs */
    REMOVE_MS = 60000,
    PINS_PART = 4, /* of all checkpoints that are known, at most 1 in so many is pinned */
};

static const char *node_name(const struct core *core, uint32_t id)
{
    const struct node *node = core_node(core, id);
    return node != NULL ? node->d.name : "a node that has left";
}

/* ---- what a person names -------------------------------------------------------------------- */

static const struct checkpoint *named(const struct core *core, const struct job *job,
                                      const struct request *request, char text[TEXT_SIZE])
{
    const struct checkpoint *one = request->has_step
                                       ? core_checkpoint_of_step(core, job, request->step)
                                       : core_checkpoint_best(core, job);
    if (one == NULL && request->has_step) {
        text_format(text, TEXT_SIZE,
                    "%s has no checkpoint of step %llu; keepstep get checkpoints %s", job->d.name,
                    (unsigned long long)request->step, job->d.name);
    } else if (one == NULL) {
        text_format(text, TEXT_SIZE, "%s has no usable checkpoint yet", job->d.name);
    }
    return one;
}

/* ---- pins ----------------------------------------------------------------------------------- */

static bool pins_full(const struct core *core)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        count += core->checkpoints[i].d.pinned_by[0] != '\0' ? 1 : 0;
    }
    return count >= core->limits.checkpoints / PINS_PART;
}

static void emit_pin(struct core *core, const struct job *job, const struct checkpoint *one,
                     const char *by, const char *why)
{
    struct record *record = record_begin(core, RECORD_checkpoint_pinned_kind);
    struct record_checkpoint_pinned *u = &record->u.checkpoint_pinned;
    u->job = job->d.job;
    u->attempt = one->d.attempt;
    u->step = one->d.step;
    text_copy(u->pinned_by, NAME_SIZE, by);
    text_copy(u->pinned_why, TEXT_SIZE, why);
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, by[0] != '\0' ? "CheckpointPinned" : "CheckpointUnpinned", SEVERITY_INFO,
                "step %llu%s%s%s%s", (unsigned long long)u->step, by[0] != '\0' ? " by " : "", by,
                why[0] != '\0' ? ": " : "", why);
    core_emit(core, record);
}

int save_work_pin(struct core *core, struct job *job, const struct request *request,
                  bool *ret_changed, char text[TEXT_SIZE])
{
    bool pin = request->verb == REQUEST_PIN;
    const struct checkpoint *one = named(core, job, request, text);
    *ret_changed = false;
    if (one == NULL) {
        return -ENOENT;
    }
    unsigned long long step = one->d.step;
    bool pinned = one->d.pinned_by[0] != '\0';
    if (pin && (one->d.state == CKPT_WRITING || one->d.state == CKPT_INCOMPLETE)) {
        text_format(text, TEXT_SIZE, "step %llu is %s: there is nothing to keep", step,
                    WORD(checkpoint_state, one->d.state));
        return -EBUSY;
    }
    if (pin == pinned) {
        text_format(text, TEXT_SIZE, "step %llu is %s", step,
                    pinned ? "pinned already" : "not pinned");
        return 0;
    }
    if (pin && pins_full(core)) {
        text_format(text, TEXT_SIZE, "%u checkpoints are pinned, which is the limit; unpin some",
                    core->limits.checkpoints / PINS_PART);
        return -EBUSY;
    }
    if (!request->dry_run) {
        emit_pin(core, job, one, pin ? request->actor : "", pin ? request->reason : "");
    }
    *ret_changed = true;
    text_format(text, TEXT_SIZE, "step %llu %s", step,
                pin ? "is pinned: it is never removed" : "may be removed when its time has come");
    return 0;
}

/* ---- reading again -------------------------------------------------------------------------- */

static int check_verify(const struct core *core, const struct job *job,
                        const struct checkpoint *one, char text[TEXT_SIZE])
{
    const struct save_errand *work = &job->saves.work;
    unsigned long long step = one->d.step;
    if (one->d.state == CKPT_WRITING || one->d.state == CKPT_INCOMPLETE) {
        text_format(text, TEXT_SIZE, "step %llu is %s: there is nothing to verify", step,
                    WORD(checkpoint_state, one->d.state));
        return -EBUSY;
    }
    if (job->d.reader != READER_KEEPSTEP || one->d.hash[0] == '\0') {
        text_format(text, TEXT_SIZE,
                    "checkpoints of format %s have no hashes to compare with; names, sizes and "
                    "times are compared before each restore",
                    WORD(save_reader, job->d.reader));
        return -EINVAL;
    }
    if (work->nonce != 0) {
        text_format(text, TEXT_SIZE, "step %llu is being %s on %s; wait for it",
                    (unsigned long long)work->step,
                    work->task == SAVE_VERIFY ? "verified" : "removed",
                    node_name(core, work->node));
        return -EBUSY;
    }
    return 0;
}

static void send_work(struct core *core, struct job *job, struct node *node, uint8_t task,
                      uint32_t timeout_ms, const struct checkpoint *one)
{
    struct save_errand *work = &job->saves.work;
    struct msg_save_ask *u = saves_send(core, job, node, work, task, timeout_ms);
    u->step = one->d.step;
    u->attempt = one->d.attempt;
    text_copy(u->directory, sizeof u->directory, one->d.directory);
    text_copy(u->hash, sizeof u->hash, one->d.hash);
    work->step = one->d.step;
    work->attempt = one->d.attempt;
    work->bytes = one->d.bytes;
}

int save_work_verify(struct core *core, struct job *job, const struct request *request,
                     char text[TEXT_SIZE])
{
    const struct checkpoint *one = named(core, job, request, text);
    if (one == NULL) {
        return -ENOENT;
    }
    int code = check_verify(core, job, one, text);
    if (code < 0) {
        return code;
    }
    struct node *node = saves_node(core, job, 0, true);
    if (node == NULL) {
        text_format(text, TEXT_SIZE, "no node that could read it is connected");
        return -ENOSPC;
    }
    text_format(text, TEXT_SIZE, "step %llu: its %llu bytes are read again on %s",
                (unsigned long long)one->d.step, (unsigned long long)one->d.bytes, node->d.name);
    if (!request->dry_run) {
        send_work(core, job, node, SAVE_VERIFY, VERIFY_SILENCE_MS, one);
    }
    return 0;
}

static void verified(struct core *core, const struct job *job, const struct checkpoint *one,
                     const struct msg_save_said *said)
{
    char note[TEXT_SIZE];
    const char *name = node_name(core, job->saves.work.node);
    if (said->error != 0) {
        text_sentence(note, sizeof note, "could not be verified on %.40s: %.120s", name,
                      said->text);
        checkpoint_mark(core, one, one->d.state, note);
    } else if (said->ok) {
        text_format(note, sizeof note, "all hashes read again on %.60s", name);
        checkpoint_mark(core, one, CKPT_VERIFIED, note);
    } else {
        checkpoint_mark(core, one, CKPT_CORRUPT, said->text);
    }
}

/* ---- removing ------------------------------------------------------------------------------- */

static bool is_usable(const struct checkpoint *one)
{
    return one->d.state == CKPT_COMPLETE || one->d.state == CKPT_VERIFIED;
}

static bool is_newer(const struct checkpoint *a, const struct checkpoint *b)
{
    return a->d.step > b->d.step || (a->d.step == b->d.step && a->d.attempt > b->d.attempt);
}

/* It is the first of its span among the usable ones. */
static bool begins_span(const struct core *core, const struct job *job,
                        const struct checkpoint *one)
{
    uint64_t span = job->d.keep_every_ms;
    if (span == 0) {
        return false;
    }
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *other = &core->checkpoints[i];
        if (other->d.job == job->d.job && is_usable(other) && is_newer(one, other) &&
            other->d.at_service_ms / span == one->d.at_service_ms / span) {
            return false;
        }
    }
    return true;
}

/* Nothing needs it, now or later. */
static bool is_past(const struct core *core, const struct job *job, const struct checkpoint *one)
{
    uint32_t newer = 0;
    bool restored = one->d.step == job->d.restore_step && one->d.attempt == job->d.restore_attempt;
    if (one->d.job != job->d.job || !is_usable(one) || one->stays || restored ||
        one->d.pinned_by[0] != '\0' || begins_span(core, job, one) ||
        one == core_checkpoint_best(core, job)) {
        return false;
    }
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *other = &core->checkpoints[i];
        newer += other->d.job == job->d.job && is_usable(other) && is_newer(other, one) ? 1 : 0;
    }
    return newer >= job->d.keep_last;
}

static void remove_past(struct core *core, struct job *job)
{
    const struct checkpoint *oldest = NULL;
    if (job->d.keep_last == 0 || job->d.reader != READER_KEEPSTEP || core_held(core) ||
        job->d.state != JOB_RUNNING || job->saves.work.nonce != 0) {
        return;
    }
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        if (is_past(core, job, one) && (oldest == NULL || is_newer(oldest, one))) {
            oldest = one;
        }
    }
    struct node *node = oldest != NULL ? saves_node(core, job, 0, false) : NULL;
    if (node != NULL) {
        send_work(core, job, node, SAVE_REMOVE, REMOVE_MS, oldest);
    }
}

static void removed(struct core *core, struct job *job, struct checkpoint *one,
                    const struct msg_save_said *said)
{
    char note[TEXT_SIZE];
    if (said->error != 0) {
        one->stays = true;
        text_sentence(note, sizeof note, "could not be removed: %.150s", said->text);
        checkpoint_mark(core, one, one->d.state, note);
        return;
    }
    struct record *record = record_begin(core, RECORD_checkpoint_removed_kind);
    record->u.checkpoint_removed.job = job->d.job;
    record->u.checkpoint_removed.attempt = one->d.attempt;
    record->u.checkpoint_removed.step = one->d.step;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, "CheckpointRemoved", SEVERITY_INFO, "step %llu, past checkpoint.keep_last",
                (unsigned long long)one->d.step);
    core_emit(core, record);
}

/* ---- the errand ----------------------------------------------------------------------------- */

static void finish(struct core *core, struct job *job, const struct msg_save_said *said)
{
    struct save_errand work = job->saves.work;
    struct checkpoint *one = checkpoint_at(core, job->d.job, work.attempt, work.step);
    if (one != NULL && work.task == SAVE_VERIFY) {
        verified(core, job, one, said);
    } else if (one != NULL) {
        removed(core, job, one, said);
    }
    job->saves.work.nonce = 0;
    core->look = true;
}

void save_work_said(struct core *core, struct job *job, const struct msg_save_said *said)
{
    struct save_errand *work = &job->saves.work;
    if (said->word == SAVE_DONE) {
        finish(core, job, said);
    } else if (said->word == SAVE_PROGRESS) {
        work->bytes = said->bytes;
        work->bytes_done = said->bytes_done;
        work->deadline_ms = core->t + 2 * VERIFY_SILENCE_MS;
    }
}

void save_work_look(struct core *core, struct job *job)
{
    const struct save_errand *work = &job->saves.work;
    const struct node *node = core_node(core, work->node);
    if (work->nonce != 0 && (core->t >= work->deadline_ms || node == NULL || node->session == 0)) {
        struct msg_save_said said = {.word = SAVE_DONE, .error = -ETIMEDOUT};
        text_copy(said.text, sizeof said.text, "the node that did it does not answer any more");
        finish(core, job, &said);
    }
    remove_past(core, job);
}

void save_work_due(const struct job *job, uint64_t *due_ms)
{
    if (job->saves.work.nonce != 0) {
        due_min(due_ms, job->saves.work.deadline_ms);
    }
}
