/* interval.c: how often a job saves (checkpoint.interval).
 *
 *   program   no interval in the file: the program saves as it likes, nobody asks
 *   file      10m: rank 0 is asked for a save when the last one began so long ago
 *   auto      the same, by the interval that costs least:
 *
 *      running --> not measured: soon --a save is complete--> chosen --saves, failures--> anew
 *                                                                ^                       | far off
 *                                                                +-----------------------+
 *
 * A save is asked for as an operator asks for one: a record, then the counter in rank 0's order. So
 * it begins at a step boundary, and any save starts the clock again: a program that saves oftener by
 * itself is never asked. That goes on while automation is held: a save harms nothing.
 *
 * What the choice rests on is measured (the medians of the last saves, the failures of the last
 * week) or, until then, assumed; the choice and its inputs are a record. It is made anew when a save
 * is complete and when the job runs again after a failure, and only one that is far from the present
 * one counts: within a quarter of the best interval the loss differs by a fortieth of itself. */
#include "controller/core/estimate.h"
#include "controller/core/impl.h"
#include "proto/base/duration.h"

enum {
    SAVES_MEASURED = 9, /* the last ones */
    FIRST_MS = 120000,  /* what a save takes is learned from the first one */
    LEAST_MS = 10000,   /* each save is three rows of the journal */
    UNTOLD_MS = 600000, /* nobody says what a save takes: it may be a minute */
    TOOK_LEAST_MS = 1000,
    ASK_AGAIN_MS = 600000, /* what was asked and came to nothing */
};

static bool is_complete(const struct checkpoint *one)
{
    return one->d.state == CKPT_COMPLETE || one->d.state == CKPT_VERIFIED;
}

/* ---- what is measured ----------------------------------------------------------------------- */

static int by_value(const void *a, const void *b, const void *context)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    (void)context;
    return x < y ? -1 : x > y ? 1 : 0;
}

static uint32_t middle(uint32_t *values, uint32_t count)
{
    sort_u32(values, count, by_value, NULL);
    return values[count / 2];
}

static void measure(const struct core *core, const struct job *job, struct interval_facts *facts)
{
    uint32_t stalls[SAVES_MEASURED];
    uint32_t saves[SAVES_MEASURED];
    uint32_t count = 0;
    for (uint32_t i = core->checkpoint_count; i-- > 0 && count < SAVES_MEASURED;) {
        const struct checkpoint *one = &core->checkpoints[i];
        if (one->d.job != job->d.job || !is_complete(one)) {
            continue;
        }
        /* Shards tell how long training stood. A program that only says that it is done, and one whose
         * saves are found by looking, do not: then it may have stood for all of it. */
        bool shards = one->d.shards > 0 && !saves_are_found(job);
        bool told = one->d.stall_ms > 0 || shards || one->d.took_ms >= TOOK_LEAST_MS;
        facts->untold = facts->untold || !told;
        if (told) {
            stalls[count] = one->d.stall_ms > 0 || shards ? one->d.stall_ms : one->d.took_ms;
            saves[count++] = one->d.took_ms;
        }
    }
    facts->saves = count;
    facts->stall_ms = count > 0 ? middle(stalls, count) : 0;
    facts->save_ms = count > 0 ? middle(saves, count) : 0;
}

void interval_facts(const struct core *core, const struct job *job, struct interval_facts *ret)
{
    *ret = (struct interval_facts){0};
    measure(core, job, ret);
    rates_of(core, job, &ret->rates);
    if (ret->saves > 0) {
        struct estimate_interval_input input = {
            .stall_ms = ret->stall_ms, .save_ms = ret->save_ms, .gap_ms = ret->rates.gap_ms};
        uint64_t best = estimate_interval_ms(&input);
        ret->best_ms = best > LEAST_MS ? best : LEAST_MS;
    }
}

/* ---- the choice ----------------------------------------------------------------------------- */

static bool is_far(uint64_t chosen, uint64_t best)
{
    return best > chosen + chosen / 4 || best < chosen - chosen / 5;
}

static void say(struct record *record, const struct record_interval_chosen *u)
{
    char each[DURATION_TEXT_SIZE];
    char stall[DURATION_TEXT_SIZE];
    char save[DURATION_TEXT_SIZE];
    char gap[DURATION_TEXT_SIZE];
    duration_format(u->interval_ms, each);
    duration_format(u->interval_stall_ms, stall);
    duration_format(u->interval_save_ms, save);
    duration_format(u->interval_gap_ms, gap);
    if (u->interval_saves == 0) {
        record_says(record, "IntervalChosen", SEVERITY_INFO,
                    "the first save after %s: what it takes is not known yet", each);
        return;
    }
    record_says(record, "IntervalChosen", SEVERITY_INFO,
                "a save each %s: it stalls training for %s and takes %s, a failure each %s is "
                "expected",
                each, stall, save, gap);
}

static void choose(struct core *core, const struct job *job)
{
    struct interval_facts facts;
    interval_facts(core, job, &facts);
    uint64_t best = facts.saves > 0 ? facts.best_ms : facts.untold ? UNTOLD_MS : FIRST_MS;
    bool learned = job->d.interval_saves == 0 && facts.saves > 0;
    if (job->d.interval_ms != 0 && !learned && !is_far(job->d.interval_ms, best)) {
        return;
    }
    struct record *record = record_begin(core, RECORD_interval_chosen_kind);
    record->u.interval_chosen =
        (struct record_interval_chosen){.job = job->d.job,
                                        .interval_ms = best,
                                        .interval_saves = facts.saves,
                                        .interval_stall_ms = facts.stall_ms,
                                        .interval_save_ms = facts.save_ms,
                                        .interval_failures = facts.rates.failures,
                                        .interval_span_ms = facts.rates.span_ms,
                                        .interval_gap_ms = facts.rates.gap_ms};
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    say(record, &record->u.interval_chosen);
    core_emit(core, record);
    core->look = true;
}

void interval_anew(struct core *core, const struct job *job)
{
    if (job->d.save_auto && job->d.state == JOB_RUNNING) {
        choose(core, job);
    }
}

uint64_t interval_ms(const struct job *job)
{
    return job->d.save_auto ? job->d.interval_ms : job->d.save_interval_ms;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* They are in the order in which they began, so those of other jobs alone are passed over. */
static const struct checkpoint *newest(const struct core *core, const struct job *job)
{
    for (uint32_t i = core->checkpoint_count; i-- > 0;) {
        if (core->checkpoints[i].d.job == job->d.job) {
            return &core->checkpoints[i];
        }
    }
    return NULL;
}

/* On service time; NEVER: not, as things stand. One that is still being written is given the time of
 * a second one: its program may have given it up without a word. */
static uint64_t ask_at(const struct core *core, const struct job *job)
{
    uint64_t each = interval_ms(job);
    uint64_t begun = job->d.state_service_ms;
    bool writing = false;
    if (each == 0 || job->d.state != JOB_RUNNING || job->d.stop_request || core->old_store ||
        !job_uses_library(core, job) || job_ends_now(core, job) || !core_ready(core)) {
        return NEVER;
    }
    const struct checkpoint *last = newest(core, job);
    if (last != NULL && last->d.attempt == job->d.attempt && last->began_ms >= begun) {
        begun = last->began_ms;
        writing = last->d.state == CKPT_WRITING;
    }
    uint64_t asked = job->d.save_asked_service_ms;
    if (asked > begun) { /* and it has not begun one: it may have missed it */
        return asked + (2 * each > ASK_AGAIN_MS ? 2 * each : ASK_AGAIN_MS);
    }
    return begun + (writing ? 2 * each : each);
}

void interval_look(struct core *core, struct job *job)
{
    if (job->d.save_auto && job->d.interval_ms == 0) {
        choose(core, job);
    }
    if (service_now(core) >= ask_at(core, job)) {
        job_ask_save(core, job, true);
    }
}

void interval_due(const struct core *core, const struct job *job, uint64_t *due_ms)
{
    uint64_t at = ask_at(core, job);
    uint64_t now = service_now(core);
    if (at != NEVER) {
        due_min(due_ms, core->t + (at > now ? at - now : 0));
    }
}

/* ---- shown ---------------------------------------------------------------------------------- */

/* Of a program that saves by itself: between its last two saves of one attempt. */
static uint64_t seen_ms(const struct core *core, const struct job *job)
{
    const struct checkpoint *later = NULL;
    for (uint32_t i = core->checkpoint_count; i-- > 0;) {
        const struct checkpoint *one = &core->checkpoints[i];
        if (one->d.job != job->d.job || !is_complete(one)) {
            continue;
        }
        if (later != NULL) {
            bool same = one->d.attempt == later->d.attempt;
            return same && later->d.at_service_ms > one->d.at_service_ms
                       ? later->d.at_service_ms - one->d.at_service_ms
                       : 0;
        }
        later = one;
    }
    return 0;
}

void core_interval(const struct core *core, const struct job *job, struct core_interval *ret)
{
    struct interval_facts facts;
    interval_facts(core, job, &facts);
    struct estimate_interval_input input = {
        .stall_ms = facts.stall_ms, .save_ms = facts.save_ms, .gap_ms = facts.rates.gap_ms};
    *ret = (struct core_interval){.origin = job->d.save_auto               ? ORIGIN_AUTO
                                            : job->d.save_interval_ms != 0 ? ORIGIN_FILE
                                                                           : ORIGIN_PROGRAM,
                                  .each_ms = interval_ms(job),
                                  .asks = job->slot_count > 0 && job_uses_library(core, job),
                                  .saves = facts.saves,
                                  .stall_ms = facts.stall_ms,
                                  .save_ms = facts.save_ms,
                                  .failures = facts.rates.failures,
                                  .span_ms = facts.rates.span_ms,
                                  .gap_ms = facts.rates.gap_ms,
                                  .best_ms = facts.best_ms};
    if (ret->origin == ORIGIN_PROGRAM) {
        ret->each_ms = seen_ms(core, job);
    }
    if (facts.saves > 0) {
        ret->best_cost_ppm = estimate_interval_cost_ppm(&input, facts.best_ms);
        ret->cost_ppm = ret->each_ms > 0 ? estimate_interval_cost_ppm(&input, ret->each_ms) : 0;
    }
}
