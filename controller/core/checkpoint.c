/* checkpoint.c: which saves exist, and which may be restored.
 *
 *   writing --commit--> complete --> verified         complete --> suspect
 *      |                    |
 *      v                    v
 *   incomplete           corrupt
 *
 * A save counts when its commit arrives while its attempt is the present one: after the record that
 * makes the next attempt, a late writer is refused, so nothing that a fenced node still does can
 * change what a restore will read. Shards are reported by their ranks; rank 0 commits only when it
 * has written the manifest of all of them. */
#include <string.h>

#include "controller/core/impl.h"

static void answer(struct core *core, struct node *node, const struct msg_checkpoint *message,
                   bool accepted, const char *text)
{
    if (node->session == 0) {
        return;
    }
    struct action *action = action_send(core, node, MSG_CHECKPOINT_ANSWER);
    struct msg_checkpoint_answer *u = &action->u.checkpoint_answer;
    u->sequence = message->sequence;
    u->job = message->job;
    u->attempt = message->attempt;
    u->step = message->step;
    u->rank = message->rank;
    u->kind = (uint8_t)message->kind;
    u->accepted = accepted;
    text_copy(u->text, TEXT_SIZE, text);
}

void checkpoint_emit(struct core *core, const struct job *job,
                     const struct record_checkpoint_moved *u)
{
    struct record *record = record_begin(core, RECORD_checkpoint_moved_kind);
    record->u.checkpoint_moved = *u;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    bool bad = u->state == CKPT_CORRUPT || u->state == CKPT_SUSPECT || u->state == CKPT_INCOMPLETE;
    record_says(record, "Checkpoint", bad ? SEVERITY_WARN : SEVERITY_INFO, "step %llu %s%s%s",
                (unsigned long long)u->step, WORD(checkpoint_state, u->state),
                u->note[0] != '\0' ? ": " : "", u->note);
    core_emit(core, record);
    core->look = true;
}

void checkpoint_mark(struct core *core, const struct checkpoint *checkpoint, uint8_t state,
                     const char *note)
{
    const struct job *job = core_job(core, checkpoint->d.job);
    struct record_checkpoint_moved u;
    memcpy(&u, &checkpoint->d, sizeof u);
    u.state = state;
    text_copy(u.note, TEXT_SIZE, note);
    checkpoint_emit(core, job, &u);
}

void checkpoint_abandon(struct core *core, struct job *job)
{
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        if (one->d.job == job->d.job && one->d.state == CKPT_WRITING) {
            checkpoint_mark(core, one, CKPT_INCOMPLETE, "its attempt ended before the commit");
        }
    }
}

static struct record_checkpoint_moved from_message(const struct msg_checkpoint *message)
{
    struct record_checkpoint_moved u = {.job = message->job,
                                        .attempt = message->attempt,
                                        .step = message->step,
                                        .shards = message->shard_count,
                                        .parts = message->parts,
                                        .bytes = message->bytes,
                                        .stall_ms = message->stall_ms};
    text_copy(u.hash, sizeof u.hash, message->hash);
    text_copy(u.directory, sizeof u.directory, message->directory);
    return u;
}

static void begin(struct core *core, struct job *job, struct node *node,
                  const struct msg_checkpoint *message)
{
    if (checkpoint_at(core, job->d.job, message->attempt, message->step) == NULL) {
        struct record_checkpoint_moved u = from_message(message);
        u.state = CKPT_WRITING;
        checkpoint_emit(core, job, &u);
    }
    answer(core, node, message, true, "");
}

/* The budgets that failures had eaten are whole again: the job made progress that is safe. */
static void refill(struct core *core, const struct job *job)
{
    if (job->d.used_user == 0 && job->d.used_unknown == 0 && job->d.no_progress == 0 &&
        job->d.same_failure == 0 && job->d.other_no_progress == 0) {
        return;
    }
    struct record *record = record_begin(core, RECORD_budget_used_kind);
    record->u.budget_used.job = job->d.job;
    record->u.budget_used.owner = OWNER_UNKNOWN;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, "BudgetRefilled", SEVERITY_INFO, "a newer checkpoint is complete");
    core_emit(core, record);
}

/* Everything up to the moment the save began is safe now; the stall of the save itself is its own.
 */
static void settle(struct core *core, const struct job *job, uint64_t began_ms, uint32_t stall_ms)
{
    if (job->d.state != JOB_RUNNING) {
        return;
    }
    uint64_t now = service_now(core);
    uint64_t until = began_ms < now ? began_ms : now;
    account_settle(core, job, TIME_PRODUCTIVE, until);
    uint64_t stalled = until + stall_ms < now ? until + stall_ms : now;
    account_settle(core, job, TIME_CHECKPOINT_STALL, stalled);
}

static bool makes_progress(const struct core *core, const struct job *job, uint64_t step)
{
    const struct checkpoint *best = core_checkpoint_best(core, job);
    return best == NULL || step > best->d.step;
}

/* What a complete save changes besides itself. */
static void take_complete(struct core *core, struct job *job,
                          const struct record_checkpoint_moved *u, uint64_t began_ms)
{
    bool progress = makes_progress(core, job, u->step);
    settle(core, job, began_ms, u->stall_ms);
    checkpoint_emit(core, job, u);
    if (progress) {
        refill(core, job);
    }
    job->saved_ms = began_ms;
    interval_anew(core, job);
}

void checkpoint_found(struct core *core, struct job *job, struct record_checkpoint_moved *u,
                      uint64_t began_ms)
{
    u->state = CKPT_COMPLETE;
    take_complete(core, job, u, began_ms);
}

static void commit(struct core *core, struct job *job, struct node *node,
                   const struct msg_checkpoint *message)
{
    struct checkpoint *checkpoint =
        checkpoint_at(core, job->d.job, message->attempt, message->step);
    if (checkpoint != NULL && checkpoint->d.state != CKPT_WRITING) {
        bool same = checkpoint->d.state == CKPT_COMPLETE || checkpoint->d.state == CKPT_VERIFIED;
        answer(core, node, message, same, same ? "" : "this save was given up");
        return;
    }
    uint64_t now = service_now(core);
    uint64_t began = checkpoint != NULL ? checkpoint->began_ms : now;
    uint32_t stall = checkpoint != NULL ? checkpoint->stall_ms : 0;
    struct record_checkpoint_moved u = from_message(message);
    u.state = CKPT_COMPLETE;
    u.stall_ms = stall > message->stall_ms ? stall : message->stall_ms;
    u.took_ms = now - began > UINT32_MAX ? UINT32_MAX : (uint32_t)(now - began);
    take_complete(core, job, &u, began);
    answer(core, node, message, true, "");
}

static void shard(struct core *core, struct job *job, struct node *node,
                  const struct msg_checkpoint *message)
{
    struct checkpoint *checkpoint =
        checkpoint_at(core, job->d.job, message->attempt, message->step);
    if (checkpoint != NULL && checkpoint->d.state == CKPT_WRITING) {
        checkpoint->shards_seen++; /* for show: the manifest is what counts */
        if (message->stall_ms > checkpoint->stall_ms) {
            checkpoint->stall_ms = message->stall_ms;
        }
    }
    answer(core, node, message, true, "");
}

void checkpoint_message(struct core *core, struct node *node, const struct msg_checkpoint *message)
{
    struct job *job = job_at(core, message->job);
    if (job == NULL || core_job_over(job) || job->d.quarantined || core->old_store) {
        answer(core, node, message, false, "no such job is at work here");
        return;
    }
    uint32_t first = node->d.slot * job->d.ranks_per_node;
    bool own = node->d.job == job->d.job && message->rank >= first &&
               message->rank < first + job->d.ranks_per_node;
    if (!own) {
        answer(core, node, message, false, "this node does not hold that rank");
        return;
    }
    if (!job->d.attempted || message->attempt != job->d.attempt || !job->d.launched) {
        core_trace(core, "job %s: save of step %llu by attempt %u refused, at attempt %u",
                   job->d.name, (unsigned long long)message->step, message->attempt,
                   job->d.attempt);
        answer(core, node, message, false, "its attempt is over");
        return;
    }
    switch (message->kind) {
    case CHECKPOINT_BEGIN:
        begin(core, job, node, message);
        return;
    case CHECKPOINT_SHARD:
        shard(core, job, node, message);
        return;
    case CHECKPOINT_COMMIT:
        if (message->rank != 0) {
            answer(core, node, message, false, "only rank 0 commits");
            return;
        }
        commit(core, job, node, message);
        return;
    }
}
