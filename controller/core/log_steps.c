/* log_steps.c: progress of programs that do not use the library, by the steps that they print.
 *
 * Commonly one rank prints, the first or the last, and not at every step. So nobody is waited for:
 * what the furthest rank has printed is the job's step, and the attempt has stepped when one rank
 * shows a step beyond the restored one. Who is guilty of a hang cannot be seen.
 *
 * When lines stay away it is a hang only after max(5 x median gap, 3 x longest healthy gap), which
 * is not believed below 10 minutes until the job has shown a save and another pause, of 30 s or
 * longer (an evaluation); and only with a second sign, since the program may be in a phase that nobody has
 * seen yet: its processes use no processor. What cannot be seen (an output that is not read just
 * now, processor time that is not known, an agent that is away) never counts as standing still. A
 * program that waits by spinning is not found so: hang.step_timeout, a person's word, counts alone.
 *
 * All of this is soft: after a start of the controller it is learned again, but for how long nothing
 * has been printed, which the agents know. */
#include <string.h>

#include "controller/core/impl.h"
#include "proto/base/duration.h"
#include "proto/base/sort.h"

enum {
    GAP_FACTOR = 5,     /* of the median */
    LONGEST_FACTOR = 3, /* of the longest healthy gap */
    GAP_FLOOR_MS = 30000,
    UNSEEN_MS = 10 * 60000, /* at least, until a save and an evaluation were seen */
    PAUSE_FACTOR = 3,       /* of the median: a gap that is more than a step */
    PAUSE_GAPS = 8,         /* known, before a pause can be told */
    PAUSE_LEAST_MS = 30000, /* what is shorter is a hiccup: nothing longer is expected after it */
    PAUSE_KNOWN_MS = 60000, /* after it a save that was in it has been listed */
    USED_WINDOW_MS = 10000,
    USED_FLAT_PERMILLE = 50, /* of one processor for each rank */
    FLAT_MS = 30000,         /* so long no window may have been busy */
};

void log_steps_forget(struct job *job)
{
    job->log.step = 0;
    job->log.at_ms = 0;
    job->log.moved_ms = 0;
    job->log.stepped = false;
    job->log.said = false;
}

/* ---- what reports say ----------------------------------------------------------------------- */

bool log_steps_of(const struct job *job, const struct attempt_report *report, uint64_t *step,
                  uint64_t *step_max)
{
    uint64_t furthest = 0;
    for (uint32_t i = 0; i < report->rank_count && job->d.log_steps != LOG_STEPS_NEVER; i++) {
        const struct rank_report *rank = &report->ranks[i];
        if (rank->prints) {
            furthest = rank->step > furthest ? rank->step : furthest;
        } else if (rank->has_mailbox && job->d.log_steps == LOG_STEPS_ELSE) {
            return false;
        }
    }
    if (furthest > 0) {
        *step = furthest;
        *step_max = furthest;
    }
    return furthest > 0;
}

static uint64_t age_of(const struct attempt_report *report, uint64_t step)
{
    uint64_t age = UINT32_MAX;
    for (uint32_t i = 0; i < report->rank_count; i++) {
        const struct rank_report *rank = &report->ranks[i];
        age = rank->prints && rank->step == step && rank->phase_age_ms < age ? rank->phase_age_ms
                                                                             : age;
    }
    return age;
}

uint32_t log_steps_time(const struct attempt_report *report)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < report->rank_count; i++) {
        const struct rank_report *rank = &report->ranks[i];
        longest = rank->prints && rank->step_ms > longest ? rank->step_ms : longest;
    }
    return longest;
}

static int by_length(const void *a, const void *b, const void *context)
{
    const uint32_t first = *(const uint32_t *)a;
    const uint32_t second = *(const uint32_t *)b;
    (void)context;
    return first < second ? -1 : first > second;
}

static uint64_t median(const struct log_steps *log)
{
    uint32_t sorted[LOG_GAPS_MAX];
    if (log->gap_count == 0) {
        return 0;
    }
    memcpy(sorted, log->gaps, log->gap_count * sizeof sorted[0]);
    sort_u32(sorted, log->gap_count, by_length, NULL);
    return sorted[log->gap_count / 2];
}

static void take_gap(struct log_steps *log, uint64_t now, uint64_t step)
{
    const uint64_t gap_ms = now - log->at_ms;
    if (log->gap_count >= PAUSE_GAPS && gap_ms > PAUSE_FACTOR * median(log) &&
        gap_ms >= PAUSE_LEAST_MS) {
        log->pauses[log->pause_next] =
            (struct log_pause){.after = log->step, .before = step, .over_ms = now};
        log->pause_next = (log->pause_next + 1) % LOG_PAUSES_MAX;
    }
    log->gap_max_ms = gap_ms > log->gap_max_ms ? gap_ms : log->gap_max_ms;
    log->gaps[log->gap_next] = gap_ms < UINT32_MAX ? (uint32_t)gap_ms : UINT32_MAX;
    log->gap_next = (log->gap_next + 1) % LOG_GAPS_MAX;
    log->gap_count += log->gap_count < LOG_GAPS_MAX;
}

/* A rank that goes back below what it has printed itself (its program restored something, or a
 * number of another meaning was read) begins anew: what comes until it is as far again is no gap. */
void log_steps_moved(struct core *core, struct job *job, const struct attempt_report *report,
                     uint64_t step, uint64_t before)
{
    struct log_steps *log = &job->log;
    const uint64_t age = log->moved_ms == 0 ? age_of(report, step) : 0;
    log->ever = true;
    log->said = false;
    log->moved_ms = age < core->t ? core->t - age : 1;
    if (step >= before && step <= log->step) {
        return; /* another rank that prints it too */
    }
    if (log->at_ms != 0 && step > log->step) {
        take_gap(log, core->t, step);
    }
    log->step = step;
    log->at_ms = core->t;
}

/* While nobody reads what a printing slot prints, the clock stands, and no gap is learned from it. */
void log_steps_read(struct core *core, struct job *job, struct slot *slot,
                    const struct attempt_report *report)
{
    slot->reads = report->reads_output;
    if (slot->prints && !slot->reads && job->log.moved_ms != 0) {
        job->log.moved_ms = core->t;
        job->log.at_ms = 0;
    }
}

/* The cores count from one look of the agent to another one at least USED_WINDOW_MS later. */
void log_steps_used(struct core *core, struct slot *slot, const struct attempt_report *report)
{
    if (report->used_ms == 0) {
        slot->used_at_ms = 0;
        return;
    }
    const uint64_t since = core->t - slot->used_at_ms;
    if (slot->used_at_ms == 0 || report->used_ms < slot->used_ms) { /* a new window */
        slot->busy_ms = core->t;
    } else {
        const uint64_t window = since > USED_WINDOW_MS ? since : USED_WINDOW_MS;
        const uint64_t flat = window * USED_FLAT_PERMILLE / 1000 * report->rank_count;
        if (report->used_ms - slot->used_ms > flat) {
            slot->busy_ms = core->t;
        } else if (since < USED_WINDOW_MS) {
            return;
        }
    }
    slot->used_ms = report->used_ms;
    slot->used_at_ms = core->t;
}

/* ---- what follows --------------------------------------------------------------------------- */

bool log_steps_lead(const struct core *core, const struct job *job)
{
    bool any = false;
    for (uint32_t i = 0; i < job->slot_count && job->d.log_steps != LOG_STEPS_NEVER; i++) {
        const struct slot *slot = core_slot(core, job, i);
        any = any || slot->prints;
        if (slot->mailbox && !slot->prints && job->d.log_steps == LOG_STEPS_ELSE) {
            return false;
        }
    }
    return any;
}

uint64_t log_steps_gap_ms(const struct job *job)
{
    return job->log.gap_max_ms;
}

static bool any_save_within(const struct core *core, const struct job *job,
                            const struct log_pause *pause)
{
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct record_image_checkpoint *d = &core->checkpoints[i].d;
        if (d->job == job->d.job && d->step >= pause->after && d->step <= pause->before) {
            return true;
        }
    }
    return false;
}

/* Checkpoints are removed in time, and what was a save must not become something else by that. */
static void see_saves(const struct core *core, struct job *job)
{
    for (uint32_t i = 0; i < LOG_PAUSES_MAX; i++) {
        struct log_pause *one = &job->log.pauses[i];
        one->saved = one->saved || (one->before > 0 && any_save_within(core, job, one));
    }
}

/* A save, and a long pause that was none. */
static bool has_seen_both(const struct core *core, const struct job *job)
{
    bool pause = false;
    for (uint32_t i = 0; i < LOG_PAUSES_MAX; i++) {
        const struct log_pause *one = &job->log.pauses[i];
        const bool known = one->before > 0 && core->t >= one->over_ms + PAUSE_KNOWN_MS;
        pause = pause || (known && !one->saved && !any_save_within(core, job, one));
    }
    return pause && core_checkpoint_best(core, job) != NULL;
}

static uint64_t limit_ms(const struct core *core, const struct job *job)
{
    const uint64_t typical = GAP_FACTOR * median(&job->log);
    const uint64_t longest = LONGEST_FACTOR * job->log.gap_max_ms;
    if (job->d.step_timeout_ms != 0) {
        return job->d.step_timeout_ms;
    }
    uint64_t limit = typical > longest ? typical : longest;
    limit = limit > GAP_FLOOR_MS ? limit : GAP_FLOOR_MS;
    return limit < UNSEEN_MS && !has_seen_both(core, job) ? UNSEEN_MS : limit;
}

/* When the slot will have stood still for long enough; NEVER: that cannot be seen. */
static uint64_t flat_ms(const struct slot *slot)
{
    return slot->used_at_ms == 0 ? NEVER : slot->busy_ms + FLAT_MS;
}

uint64_t log_steps_hang_ms(const struct core *core, const struct job *job)
{
    const bool alone = job->d.step_timeout_ms != 0;
    if (job->log.moved_ms == 0 || !core_ready(core)) {
        return NEVER;
    }
    uint64_t due = job->log.moved_ms + limit_ms(core, job);
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = core_slot(core, job, i);
        const struct node *node = core_node(core, slot->d.node);
        const bool up = node != NULL && node->link == LINK_UP;
        if (slot->prints && !slot->d.done && !(up && slot->reads)) {
            return NEVER; /* it may print, and nobody reads it */
        }
        if (up && !slot->d.done && !alone) {
            const uint64_t flat = flat_ms(slot);
            due = flat > due ? flat : due;
        }
    }
    return due;
}

uint64_t log_steps_hang(const struct core *core, const struct job *job, struct fact *fact)
{
    const uint64_t quiet = core->t - job->log.moved_ms;
    char shown[DURATION_TEXT_SIZE];
    duration_format(quiet, shown);
    text_format(fact->text, TEXT_SIZE, "no step printed after step %llu for %s%s",
                (unsigned long long)job->log.step, shown,
                job->d.step_timeout_ms != 0 ? "" : ", and no processor used");
    return quiet;
}

/* ---- what is said --------------------------------------------------------------------------- */

static void say(struct core *core, const struct job *job, const char *verb, const char *type,
                const char *text)
{
    struct record *record = record_begin(core, RECORD_acted_kind);
    text_copy(record->u.acted.actor, NAME_SIZE, "keepstep");
    text_copy(record->u.acted.verb, NAME_SIZE, verb);
    text_copy(record->u.acted.result, TEXT_SIZE, text);
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, type, SEVERITY_WARN, "%s", text);
    core_emit(core, record);
}

/* Past the limit without a second sign: NEVER when there is nothing to say. */
static uint64_t stand_ms(const struct core *core, const struct job *job)
{
    if (job->log.said || job->log.moved_ms == 0 || job->d.step_timeout_ms != 0 ||
        !job->d.watch_progress || !log_steps_lead(core, job)) {
        return NEVER;
    }
    return job->log.moved_ms + limit_ms(core, job);
}

void log_steps_look(struct core *core, struct job *job)
{
    see_saves(core, job);
    if (core->t < stand_ms(core, job) || core->t >= log_steps_hang_ms(core, job)) {
        return;
    }
    char shown[DURATION_TEXT_SIZE];
    char text[TEXT_SIZE];
    duration_format(core->t - job->log.moved_ms, shown);
    text_format(text, sizeof text,
                "no step printed after step %llu for %s, but its processes may be at work: left "
                "alone; with hang.step_timeout: %s it would count as hung",
                (unsigned long long)job->log.step, shown, shown);
    job->log.said = true;
    say(core, job, "steps-stand", "StepsStand", text);
}

void log_steps_due(const struct core *core, const struct job *job, uint64_t *due_ms)
{
    const uint64_t stand = stand_ms(core, job);
    if (stand != NEVER) {
        due_min(due_ms, stand > core->t ? stand : core->t + USED_WINDOW_MS);
    }
}

/* A pattern that has never matched is more likely wrong than the program is stuck, unless that can
 * be seen. */
bool log_steps_give_up(struct core *core, struct job *job)
{
    if (job->d.log_steps == LOG_STEPS_NEVER || job->log.ever || job->log.mute || job->library) {
        return false;
    }
    bool flat = true;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const uint64_t at_ms = flat_ms(core_slot(core, job, i));
        flat = flat && at_ms != NEVER && core->t >= at_ms;
    }
    if (flat) {
        return false;
    }
    job->log.mute = true;
    core->look = true;
    say(core, job, "steps-unknown", "StepsUnknown",
        "no line that its ranks print matches hang.log_pattern: no step is known and no hang "
        "noticed; does the program keep its output back (python -u does not)?");
    return true;
}
