/* report.c: what agents say runs on their nodes. Level state in, soft state and facts out.
 *
 * A report is believed only about its own node. It touches the job only when the node holds the
 * slot that it speaks of and the attempt is the present one; everything else is either stale (told
 * to stop, see desired.c) or foreign (listed, left alone). */
#include <string.h>

#include "controller/core/impl.h"

enum { MUTE_MS = 30000 }; /* so long a running program may leave its mailbox alone */

void report_forget(struct job *job, struct slot *slot)
{
    struct record_image_slot d = slot->d;
    memset(slot, 0, sizeof *slot);
    slot->d = d;
    job->step = 0;
    job->counted = false;
    job->step_top = 0;
    job->step_at_ms = 0;
    job->end_ms = 0;
    log_steps_forget(job);
}

bool report_empty(const struct node *node)
{
    for (uint32_t i = 0; i < node->report_count; i++) {
        if (!node->reports[i].empty) {
            return false;
        }
    }
    return true;
}

bool report_misplaced(const struct node *node, const struct job *job)
{
    for (uint32_t i = 0; i < node->report_count && node->d.job != job->d.job; i++) {
        const struct attempt_report *report = &node->reports[i];
        if (report->job == job->d.job && report->attempt == job->d.attempt && !report->empty) {
            return job_runs(job);
        }
    }
    return false;
}

bool report_lives(const struct node *node, uint32_t job, uint32_t attempt)
{
    for (uint32_t i = 0; i < node->report_count; i++) {
        const struct attempt_report *report = &node->reports[i];
        if (report->job == job && report->attempt <= attempt && !report->empty) {
            return true;
        }
    }
    return false;
}

bool report_gone(const struct node *node, uint32_t job, uint32_t attempt)
{
    bool told = false;
    for (uint32_t i = 0; i < node->report_count; i++) {
        const struct attempt_report *report = &node->reports[i];
        told = told || (report->job == job && report->attempt >= attempt && report->stop_seen);
    }
    if (report_lives(node, job, attempt)) {
        return false;
    }
    /* Without the agent's word that a stop order for this very attempt or a later one has reached
     * it, an order to run may still be on its way; but for a session that has carried none. */
    return told || !node->run_sent;
}

static bool rank_ended(const struct rank_report *rank)
{
    return rank->state == RANK_EXITED || rank->state == RANK_SIGNALED ||
           rank->state == RANK_UNSTARTED;
}

static bool rank_ended_well(const struct rank_report *rank)
{
    return rank->state == RANK_EXITED && rank->code == 0;
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* A planned stop asked the program to save and leave with 75: that is no failure. */
static bool end_expected(const struct job *job, const struct rank_report *rank)
{
    if (!job->d.stop_request || rank->state != RANK_EXITED) {
        return false;
    }
    for (uint32_t i = 0; i < EXIT_CODES_MAX; i++) {
        if (job->d.restart_codes[i] != 0 && job->d.restart_codes[i] == rank->code) {
            return true;
        }
    }
    return false;
}

/* Why an agent ended ranks by itself is in its report. */
static void say_why(const struct rank_report *rank, const struct attempt_report *report,
                    struct fact *fact)
{
    const size_t size = strlen(fact->text);
    if (rank->after_stop && report->text[0] != '\0') {
        text_format(fact->text + size, TEXT_SIZE - size, ", %s", report->text);
    }
}

static void end_fact(struct core *core, struct job *job, const struct node *node,
                     const struct attempt_report *report, uint32_t index)
{
    const struct rank_report *rank = &report->ranks[index];
    struct fact fact = {
        .source = FACT_RANK_END,
        .severity = 2,
        .node = node->d.node,
        .job = job->d.job,
        .attempt = report->attempt,
        .rank = (int32_t)(report->first_rank + index),
        .gpu = (int32_t)index,
        .port = -1,
        .receive_ms = core->wall_ms > rank->phase_age_ms ? core->wall_ms - rank->phase_age_ms : 0};
    switch (rank->state) {
    case RANK_EXITED:
        fact.code = rank->code;
        text_format(fact.text, TEXT_SIZE, "rank %d exited with %d", fact.rank, rank->code);
        say_why(rank, report, &fact);
        break;
    case RANK_SIGNALED:
        if (rank->code == 0) {
            text_format(fact.text, TEXT_SIZE,
                        "rank %d ended; its parent was killed, so how is not "
                        "known",
                        fact.rank);
            break;
        }
        fact.code = -rank->code;
        text_format(fact.text, TEXT_SIZE, "rank %d was ended by signal %d", fact.rank, rank->code);
        say_why(rank, report, &fact);
        break;
    default:
        fact.source = FACT_LAUNCH;
        fact.code = rank->code;
        text_format(fact.text, TEXT_SIZE, "rank %d could not be started: errno %d%s%s", fact.rank,
                    rank->code, report->text[0] != '\0' ? ": " : "", report->text);
        break;
    }
    recovery_fact(core, job, &fact, service_now(core));
}

static void slot_is_done(struct core *core, struct job *job, struct slot *slot,
                         const struct attempt_report *report)
{
    uint64_t step = UINT64_MAX;
    for (uint32_t i = 0; i < report->rank_count; i++) {
        step = report->ranks[i].step < step ? report->ranks[i].step : step;
    }
    struct record *record = record_begin(core, RECORD_slot_done_kind);
    record->u.slot_done.job = job->d.job;
    record->u.slot_done.attempt = job->d.attempt;
    record->u.slot_done.slot = slot->d.slot;
    record->u.slot_done.step = step == UINT64_MAX ? 0 : step;
    record->job = job->d.job;
    record->node = slot->d.node;
    record_subject(record, "job/%s", job->d.name);
    core_emit(core, record);
    core->look = true;
}

static void look_at_ends(struct core *core, struct job *job, struct slot *slot,
                         const struct node *node, const struct attempt_report *report)
{
    uint32_t good = 0;
    for (uint32_t i = 0; i < report->rank_count; i++) {
        const struct rank_report *rank = &report->ranks[i];
        if (rank_ended_well(rank)) {
            good++;
            job->end_ms = job->end_ms == 0 ? core->t : job->end_ms;
        } else if (rank_ended(rank) && (!rank->after_stop || job_runs(job))) {
            /* Stopped, although nobody here wanted it to: its node was cut off and ended its own. */
            if (end_expected(job, rank)) {
                core->look = true;
                slot->left = true;
            } else {
                end_fact(core, job, node, report, i);
            }
        }
    }
    if (good == report->rank_count && good > 0 && !slot->d.done) {
        slot_is_done(core, job, slot, report);
    }
}

/* ---- progress ------------------------------------------------------------------------------- */

/* Steps and phases of the ranks that run, and which phases they are in. */
static void look_at_ranks(const struct attempt_report *report, uint64_t *ret_progress,
                          uint8_t *ret_phases)
{
    *ret_progress = HASH_INIT;
    *ret_phases = 0;
    for (uint32_t i = 0; i < report->rank_count; i++) {
        const struct rank_report *rank = &report->ranks[i];
        *ret_progress = hash_u64(hash_u64(*ret_progress, rank->step), rank->phase);
        if (rank->has_mailbox && rank->state == RANK_RUNNING) {
            *ret_phases = (uint8_t)(*ret_phases | 1u << rank->phase);
        }
    }
}

/* A phase that all running ranks of the slot have left is learned from. */
static void learn_phases(const struct core *core, struct job *job, struct slot *slot,
                         uint8_t phases, uint64_t step)
{
    for (uint8_t phase = 0; phase < RANK_PHASES; phase++) {
        const bool was = (slot->phases >> phase & 1) != 0;
        const bool is = (phases >> phase & 1) != 0;
        if (was && !is && phases != 0) {
            hang_phase_seen(job, phase, core->t - slot->phase_ms[phase],
                            phase == PHASE_INIT ? job->d.attempt + 1ull : step);
        } else if (is && !was) {
            slot->phase_ms[phase] = core->t;
        }
    }
    slot->phases = phases;
}

static void slot_progress(struct core *core, struct job *job, struct slot *slot,
                          const struct attempt_report *report)
{
    uint64_t step = UINT64_MAX;
    uint64_t step_max = 0;
    uint8_t phase = PHASE_IDLE;
    bool started = true;
    bool any_mailbox = false;
    for (uint32_t i = 0; i < report->rank_count; i++) {
        const struct rank_report *rank = &report->ranks[i];
        started = started && rank->state != RANK_NONE;
        any_mailbox = any_mailbox || rank->has_mailbox;
        step = rank->step < step ? rank->step : step;
        step_max = rank->step > step_max ? rank->step : step_max;
        phase = rank->phase < phase ? rank->phase : phase;
    }
    const uint64_t before = slot->prints ? slot->step : 0;
    slot->prints = log_steps_of(job, report, &step, &step_max);
    if (slot->prints && step != slot->step) {
        log_steps_moved(core, job, report, step, before);
    }
    log_steps_read(core, job, slot, report);
    log_steps_used(core, slot, report);
    uint64_t progress;
    uint8_t phases;
    look_at_ranks(report, &progress, &phases);
    if (progress != slot->progress || started != slot->started) {
        slot->progress_ms = core->t;
        core->look = core->look || slot->phase != phase || started != slot->started;
    }
    slot->progress = progress;
    learn_phases(core, job, slot, phases, step);
    bool up = started && report->rank_count > 0;
    slot->started_ms = up && !slot->started ? core->t : slot->started_ms;
    slot->started = up;
    slot->mailbox = any_mailbox;
    slot->step = step == UINT64_MAX ? 0 : step;
    slot->step_max = step_max;
    slot->phase = phase;
    /* A program that does not use the library shows nothing and counts as through; one that does
     * takes its time before it opens its mailbox. */
    job->library = job->library || any_mailbox;
    bool mute = up && !any_mailbox && !job->library && core->t - slot->started_ms >= MUTE_MS;
    core->look = core->look || mute != slot->mute;
    slot->mute = mute;
    slot->initialised = mute || (any_mailbox && phase > PHASE_INIT);
    slot->restored = mute || (any_mailbox && phase > PHASE_RESTORE);
}

/* Looks at all slots: the least step, and how many have not passed it. */
static void count_behind(struct core *core, struct job *job)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = slot_at(core, job, i);
        least = slot->step < least ? slot->step : least;
        if (slot->step_max > job->step_top) {
            job->step_top = slot->step_max;
            job->step_at_ms = core->t;
        }
    }
    if (log_steps_lead(core, job)) {
        least = job->step_top;
        job->log.stepped = job->step_top > job->d.restore_step;
    }
    if (least != UINT64_MAX && least > job->step) {
        job->step = least;
        core->look = core->look || job->d.recovery != 0;
    }
    job->behind = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        job->behind += slot_at(core, job, i)->step <= job->step ? 1 : 0;
    }
    job->counted = true;
}

/* The step of a whole job moves with the last of its slots: who is behind is counted, so that a beat
 * costs the same in a large job as in a small one. */
static void job_progress(struct core *core, struct job *job, const struct slot *slot,
                         uint64_t before)
{
    if (slot->step_max > job->step_top) {
        job->step_top = slot->step_max;
        job->step_at_ms = core->t; /* the least one stands still with a silent agent */
        core->look = core->look || job->d.stop_request; /* it does not leave as it was asked */
    }
    job->behind += slot->step <= job->step ? 1 : 0;
    job->behind -= before <= job->step ? 1 : 0;
    bool printed = slot->prints && slot->step_max > job->step; /* the furthest of these leads */
    if (!job->counted || job->behind == 0 || printed) {
        count_behind(core, job);
    }
}

/* ---- the report ----------------------------------------------------------------------------- */

static void foreign(struct core *core, const struct node *node, const struct attempt_report *report)
{
    for (uint32_t i = 0; i < core->foreign_count; i++) {
        const struct record_image_foreign *d = &core->foreigns[i].d;
        if (d->node == node->d.node && d->job == report->job && d->attempt == report->attempt) {
            return;
        }
    }
    struct record *record = record_begin(core, RECORD_foreign_seen_kind);
    record->u.foreign_seen.node = node->d.node;
    record->u.foreign_seen.job = report->job;
    record->u.foreign_seen.attempt = report->attempt;
    record->u.foreign_seen.term = core->g.term;
    record->node = node->d.node;
    record_subject(record, "node/%s", node->d.name);
    record_says(record, "ForeignRanks", SEVERITY_WARN,
                report->empty ? "job %u attempt %u ended here and this store does not know it"
                              : "ranks of job %u attempt %u run here and this store does not know "
                                "them: left alone; keepstep admin adopt, or admin stop-foreign",
                report->job, report->attempt);
    core_emit(core, record);
}

static void newer_attempt(struct core *core, const struct node *node, const struct job *job,
                          const struct attempt_report *report)
{
    foreign(core, node, report);
    if (!core->old_store) {
        core->old_store = true;
        text_format(core->held_text, sizeof core->held_text,
                    "node %s runs attempt %u of %s, this store is at %u: it is older than the "
                    "cluster; keepstep admin adopt moves on from here",
                    node->d.name, report->attempt, job->d.name, job->d.attempt);
        core_trace(core, "automation held: %s", core->held_text);
        core->look = true;
    }
}

static void launch_refused(struct core *core, struct job *job, const struct node *node,
                           const struct attempt_report *report)
{
    struct fact fact = {.source = FACT_LAUNCH,
                        .severity = 3,
                        .node = node->d.node,
                        .job = job->d.job,
                        .attempt = report->attempt,
                        .rank = -1,
                        .gpu = -1,
                        .port = -1,
                        .receive_ms = core->wall_ms};
    text_format(fact.text, TEXT_SIZE, "its agent could not start the ranks: %s", report->text);
    recovery_fact(core, job, &fact, service_now(core));
}

static void report_one(struct core *core, struct node *node, const struct attempt_report *report)
{
    struct job *job = job_at(core, report->job);
    if (job == NULL || (report->foreign && job->d.attempt < report->attempt)) {
        foreign(core, node, report);
        return;
    }
    if (core_job_over(job)) {
        return; /* desired.c tells it to stop and forget */
    }
    /* Ranks of an attempt that this store has not launched yet: it is older than they are. */
    bool unlaunched = report->attempt == job->d.attempt && !job->d.launched && !report->empty;
    if (!job->d.attempted || report->attempt > job->d.attempt || unlaunched) {
        newer_attempt(core, node, job, report);
        return;
    }
    bool present =
        node->d.job == job->d.job && report->attempt == job->d.attempt && job->d.launched;
    if (report_misplaced(node, job)) {
        foreign(core, node, report);
        return;
    }
    if (!present) {
        return; /* of an attempt that is over, or of a slot that this node no longer holds */
    }
    struct slot *slot = slot_at(core, job, node->d.slot);
    if (report->first_rank != node->d.slot * job->d.ranks_per_node ||
        report->rank_count != job->d.ranks_per_node) {
        if (report->rank_count != 0) {
            core_trace(core, "node %s reports ranks that are not its slot's, ignoring",
                       node->d.name);
        }
        return;
    }
    if (report->refused) {
        launch_refused(core, job, node, report);
        return;
    }
    uint64_t before = slot->step;
    slot_progress(core, job, slot, report);
    if (core->old_store) {
        job->counted = false;
        return; /* this attempt may be long over: who ended in it is no news */
    }
    look_at_ends(core, job, slot, node, report);
    job_progress(core, job, slot, before);
    uint32_t step_ms = slot->prints ? log_steps_time(report) : report->ranks[0].step_ms;
    if (step_ms != 0) {
        job->step_ms = step_ms;
    }
}

/* An agent that reports an attempt which nobody wants any more is told so, each time it says it. */
static bool unwanted(const struct core *core, const struct node *node,
                     const struct attempt_report *report)
{
    const struct job *job = core_job(core, report->job);
    if (job == NULL) {
        return false;
    }
    bool current = node->d.job == job->d.job && report->attempt == job->d.attempt;
    return core_job_over(job) || (report->attempt <= job->d.attempt && !current);
}

/* The job of which this node speaks as if the last order had never come, NULL when there is none:
 * the holder of a slot that does not know its attempt, or whose end is not proven. */
static const struct job *unheard(const struct core *core, const struct node *node)
{
    const struct mark *mark = mark_find(core, node->d.node, MARK_RECOVERY, "unproven");
    const struct job *job = core_job(core, mark != NULL ? mark->d.job : node->d.job);
    if (job == NULL || (mark == NULL && (!job->d.attempted || !job->d.launched))) {
        return NULL;
    }
    if (mark != NULL || !job_runs(job)) {
        return report_gone(node, job->d.job, job->d.attempt) ? NULL : job;
    }
    bool known = core_slot(core, job, node->d.slot)->d.done;
    for (uint32_t i = 0; i < node->report_count; i++) {
        known = known ||
                (node->reports[i].job == job->d.job && node->reports[i].attempt == job->d.attempt);
    }
    return known ? NULL : job;
}

static bool was_reported(const struct node *node, const struct attempt_report *report)
{
    for (uint32_t i = 0; i < node->report_count; i++) {
        if (node->reports[i].job == report->job && node->reports[i].attempt == report->attempt &&
            node->reports[i].stop_seen == report->stop_seen &&
            node->reports[i].empty == report->empty) {
            return true;
        }
    }
    return false;
}

/* Of ranks that it does not have nothing is copied: a beat tells of few, and has room for many. */
static void keep(struct attempt_report *to, const struct attempt_report *from)
{
    CHECK(from->rank_count <= RANKS_PER_NODE_MAX);
    memcpy(to, from, offsetof(struct attempt_report, ranks));
    memcpy(to->ranks, from->ranks, from->rank_count * sizeof from->ranks[0]);
    text_copy(to->text, sizeof to->text, from->text);
}

void report_attempts(struct core *core, struct node *node, const struct attempt_report *reports,
                     uint32_t count)
{
    CHECK(count <= ATTEMPTS_PER_NODE_MAX);
    bool changed = count != node->report_count;
    struct attempt_report told[ATTEMPTS_PER_NODE_MAX];
    uint32_t told_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        changed = changed || !was_reported(node, &reports[i]);
        bool deaf = !reports[i].stop_seen && !reports[i].empty;
        if (unwanted(core, node, &reports[i]) && (deaf || !was_reported(node, &reports[i]))) {
            told[told_count++] = reports[i];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        keep(&node->reports[i], &reports[i]);
    }
    node->report_count = count;
    node->reported = true;
    for (uint32_t i = 0; i < count; i++) {
        report_one(core, node, &node->reports[i]);
    }
    if (changed) {
        core->look = true;
        node_settle(core, node);
    }
    for (uint32_t i = 0; i < told_count; i++) {
        desired_send(core, node, core_job(core, told[i].job));
    }
    const struct job *job = unheard(core, node);
    if (job != NULL && node->beat_sequence > 0) { /* a hello is answered with all of it anyway */
        desired_send(core, node, job);
    }
}

void report_ends(struct core *core, struct node *node, const struct msg_rank_ends *ends)
{
    if (ends->sequence > node->ends_sequence) {
        node->ends_sequence = ends->sequence;
    }
    for (uint32_t i = 0; i < node->report_count; i++) {
        if (node->reports[i].job == ends->report.job &&
            node->reports[i].attempt == ends->report.attempt) {
            keep(&node->reports[i], &ends->report);
            report_one(core, node, &node->reports[i]);
            core->look = true;
            return;
        }
    }
    if (node->report_count < ATTEMPTS_PER_NODE_MAX) {
        keep(&node->reports[node->report_count++], &ends->report);
        report_one(core, node, &node->reports[node->report_count - 1]);
        core->look = true;
    }
}
