/* spares.c: which spares a job may take, how many it keeps (spares.reserve), when there are too few
 * (spares.min_ready).
 *
 * A reserve is a number, not a list: so many ready nodes no other job gets, neither to start nor for
 * a recovery, whatever its priority. Who asks for spares sees them shared out like this:
 *
 *   1. reserves: job after job by priority, then by age, as far as they go
 *   2. what jobs that wait in a recovery lack beyond theirs, if they go before who asks
 *   3. the rest is free for who asks, as is its own reserve
 *
 * Where a job has a choice it is given nodes that are of no use for who asks. Nothing of that is
 * state: a swap takes the nearest of all that it may take, and what is left of the reserve is filled
 * up from the rest at once.
 *
 *   reserve: auto   nothing yet --runs--> chosen --every 10 min, more: at once; fewer: after a day-->
 *
 * The number is the quantile of those who are out of order at a time (estimate.h); the choice and
 * its inputs are a record. So is that spares have become too few, or are enough again, once it has
 * been so for SETTLE_MS: nodes come and go while agents are exchanged. */
#include <string.h>

#include "controller/core/estimate.h"
#include "controller/core/impl.h"
#include "proto/base/duration.h"

enum {
    BARRED_MS = 7 * 24 * 3600 * 1000,
    SETTLE_MS = 10000,
    COUNT_MS = 1000, /* they are counted once in so long: that is a walk over all nodes */
    CHOOSE_MS = 600000,
    FEWER_MS = 24 * 3600 * 1000,
};

/* ---- what suits ----------------------------------------------------------------------------- */

static int exclude_one(const char *name, void *context)
{
    return text_equal(name, context);
}

/* It has failed twice in the same way within a day, at last under this job: not for a week after its
 * last fault, or until an operator gives it back. */
bool core_node_barred(const struct core *core, const struct job *job, const struct node *node)
{
    bool barred = false;
    for (uint32_t i = 0; i < BARRED_MAX; i++) {
        barred = barred || node->d.barred_jobs[i] == job->d.job;
    }
    return barred && service_now(core) - node->d.strike_service_ms < BARRED_MS;
}

static bool fits(const struct core *core, const struct job *job, const struct node *node)
{
    if (core_node_barred(core, job, node)) {
        return false;
    }
    if (job->d.pool[0] != '\0' && !text_equal(job->d.pool, node->d.pool)) {
        return false;
    }
    if (job->d.exclude[0] == '\0') {
        return true;
    }
    char name[NAME_SIZE];
    text_copy(name, sizeof name, node->d.name);
    return hostlist_each(job->d.exclude, exclude_one, name, NULL) == 0;
}

static bool suits(const struct core *core, const struct job *job, const struct node *node)
{
    return core_node_usable(core, node) && fits(core, job, node);
}

/* The one walk over all nodes: those that some job could take, kept for nobody yet. */
static void list_usable(const struct core *core)
{
    struct spare_shares *shares = core->shares;
    shares->count = 0;
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (core_node_usable(core, &core->nodes[i])) {
            shares->ids[shares->count++] = i + 1;
            shares->kept_for[i] = 0;
        }
    }
}

/* Of those that are listed; whoever they are kept for. */
static uint32_t count_suiting(const struct core *core, const struct job *job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->shares->count; i++) {
        count += fits(core, job, core_node(core, core->shares->ids[i])) ? 1 : 0;
    }
    return count;
}

uint32_t spares_barred(const struct core *core, const struct job *job)
{
    uint32_t count = 0;
    list_usable(core);
    for (uint32_t i = 0; i < core->shares->count; i++) {
        count += core_node_barred(core, job, core_node(core, core->shares->ids[i])) ? 1 : 0;
    }
    return count;
}

uint32_t spares_suiting(const struct core *core, const struct job *job)
{
    list_usable(core);
    return count_suiting(core, job);
}

/* ---- for whom ------------------------------------------------------------------------------- */

/* A job that waits for nodes in its recovery goes before another one by priority, then by who has
 * waited longer; one that has not started yet comes after those of its own priority. */
static bool goes_before(const struct core *core, const struct job *waiting, const struct job *job)
{
    if (waiting->d.priority != job->d.priority) {
        return waiting->d.priority > job->d.priority;
    }
    const struct recovery *theirs = core_recovery(core, waiting->d.recovery);
    const struct recovery *ours = core_recovery(core, job->d.recovery);
    return ours == NULL || ours->d.cause == CAUSE_START ||
           theirs->d.phase_service_ms[PHASE_PLAN] < ours->d.phase_service_ms[PHASE_PLAN];
}

/* Slots of a job that stand empty because there was no spare. */
static uint32_t empty_slots(const struct core *core, const struct job *job)
{
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    uint32_t count = 0;
    if (recovery == NULL || recovery->d.phase != PHASE_PLAN || !job->d.attempted ||
        job->d.state != JOB_RECOVERING || job->d.quarantined) {
        return 0;
    }
    for (uint32_t i = 0; i < job->slot_count; i++) {
        count += core_slot(core, job, i)->d.node == 0 ? 1 : 0;
    }
    return count;
}

/* With the spares that there are and the nodes that may come back: else only the end of another job
 * brings what it lacks, and to keep spares from that one would keep both waiting for ever. */
static bool can_be_met(const struct core *core, const struct job *job, uint32_t wants)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->node_count && count < wants; i++) {
        const struct node *node = &core->nodes[i];
        bool is_free = node->d.job == 0 && !node->d.removed && !node->set_aside;
        count += is_free && fits(core, job, node) ? 1 : 0;
    }
    return count >= wants;
}

/* Its reserve counts from its first placement to its end, but not while it is held: what runs
 * nothing loses nothing. */
static bool keeps(const struct job *job)
{
    bool state_ok = job->d.state == JOB_STARTING || job->d.state == JOB_RUNNING ||
                    job->d.state == JOB_RECOVERING;
    return state_ok && job->d.attempted && !job->d.quarantined;
}

uint32_t spares_reserve(const struct job *job)
{
    return job->d.reserve_auto ? job->d.reserve_wanted : job->d.reserve;
}

/* Gives `job` up to so many of those that nobody has, from the last one on; common: those that who
 * asks could take as well. Returns how many it got. */
static uint32_t give_some(const struct core *core, const struct job *job, const struct job *asks,
                          bool common, uint32_t wants)
{
    const struct spare_shares *shares = core->shares;
    uint32_t got = 0;
    for (uint32_t i = shares->count; i-- > 0 && got < wants;) {
        const struct node *node = core_node(core, shares->ids[i]);
        uint32_t *kept_for = &shares->kept_for[node->d.node - 1];
        if (*kept_for == 0 && fits(core, job, node) && fits(core, asks, node) == common) {
            *kept_for = job->d.job;
            got++;
        }
    }
    return got;
}

static uint32_t give(const struct core *core, const struct job *job, const struct job *asks,
                     uint32_t wants)
{
    uint32_t got = give_some(core, job, asks, false, wants);
    return got + give_some(core, job, asks, true, wants - got);
}

/* The one that comes after `last` in the order of priority, then age, and keeps a reserve. One that
 * waits for more than may ever come keeps others from nothing. */
static const struct job *next_reserve(const struct core *core, const struct job *last)
{
    const struct job *next = NULL;
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = &core->jobs[i];
        bool after = last == NULL || job->d.priority < last->d.priority ||
                     (job->d.priority == last->d.priority && job->d.job > last->d.job);
        if (after && keeps(job) && spares_reserve(job) > 0 &&
            (next == NULL || job->d.priority > next->d.priority) &&
            can_be_met(core, job, empty_slots(core, job))) {
            next = job;
        }
    }
    return next;
}

static uint32_t count_kept(const struct core *core, const struct job *job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->shares->count; i++) {
        count += core->shares->kept_for[core->shares->ids[i] - 1] == job->d.job ? 1 : 0;
    }
    return count;
}

void spares_share(const struct core *core, const struct job *job)
{
    list_usable(core);
    for (const struct job *one = next_reserve(core, NULL); one != NULL;
         one = next_reserve(core, one)) {
        (void)give(core, one, job, spares_reserve(one)); /* fewer: SparesLow says so */
    }
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *other = &core->jobs[i];
        uint32_t wants = other != job ? empty_slots(core, other) : 0;
        if (wants == 0 || !goes_before(core, other, job) || !can_be_met(core, other, wants)) {
            continue;
        }
        uint32_t kept = count_kept(core, other);
        (void)give(core, other, job, wants > kept ? wants - kept : 0); /* fewer: it waits on */
    }
}

bool spares_may_take(const struct core *core, const struct job *job, const struct node *node)
{
    uint32_t kept_for = core->shares->kept_for[node->d.node - 1];
    return suits(core, job, node) && (kept_for == 0 || kept_for == job->d.job);
}

uint32_t spares_open(const struct core *core, const struct job *job)
{
    uint32_t count = 0;
    spares_share(core, job);
    for (uint32_t i = 0; i < core->shares->count; i++) {
        count += spares_may_take(core, job, core_node(core, core->shares->ids[i])) ? 1 : 0;
    }
    return count;
}

uint32_t spares_for_new(const struct core *core, const struct job_spec *spec, uint32_t *ret_kept)
{
    struct job job = {.d = {.job = UINT32_MAX, .priority = spec->priority}};
    text_copy(job.d.pool, sizeof job.d.pool, spec->pool);
    text_copy(job.d.exclude, sizeof job.d.exclude, spec->exclude);
    uint32_t open = spares_open(core, &job);
    uint32_t suiting = count_suiting(core, &job);
    *ret_kept = suiting - open;
    return suiting;
}

/* ---- how many ------------------------------------------------------------------------------- */

static uint32_t best_reserve(const struct job *job, const struct rates *rates, uint64_t away_ms)
{
    struct estimate_spares_input input = {.nodes = job->slot_count,
                                          .node_gap_ms = rates->node_gap_ms,
                                          .away_ms = away_ms,
                                          .enough_q32 = ESTIMATE_Q32_99};
    return estimate_spares(&input);
}

static void choose(struct core *core, const struct job *job)
{
    struct rates rates;
    rates_of(core, job, &rates);
    uint64_t away_ms = rates_away_mean_ms(core);
    uint32_t best = best_reserve(job, &rates, away_ms);
    uint64_t age = service_now(core) - job->d.reserve_service_ms;
    bool chosen = job->d.reserve_service_ms != 0;
    if (chosen &&
        (best == job->d.reserve_wanted || (best < job->d.reserve_wanted && age < FEWER_MS))) {
        return;
    }
    struct record *record = record_begin(core, RECORD_reserve_chosen_kind);
    record->u.reserve_chosen = (struct record_reserve_chosen){.job = job->d.job,
                                                              .reserve_wanted = best,
                                                              .reserve_losses = rates.losses,
                                                              .reserve_span_ms = rates.span_ms,
                                                              .reserve_gap_ms = rates.node_gap_ms,
                                                              .reserve_away_ms = away_ms};
    char gap[DURATION_TEXT_SIZE];
    char away[DURATION_TEXT_SIZE];
    duration_format(rates.node_gap_ms, gap);
    duration_format(away_ms, away);
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, "ReserveChosen", SEVERITY_INFO,
                "keeps %u %s for its %u %s: one fails each %s and is away for %s", best,
                text_plural(best, "spare", "spares"), job->slot_count,
                text_plural(job->slot_count, "node", "nodes"), gap, away);
    core_emit(core, record);
    core->look = true;
}

/* ---- too few -------------------------------------------------------------------------------- */

static uint32_t wanted(const struct job *job)
{
    return job->d.min_ready > 0 ? job->d.min_ready : spares_reserve(job);
}

static void say_low(struct core *core, const struct job *job, bool low, uint32_t ready)
{
    struct record *record = record_begin(core, RECORD_spares_low_kind);
    struct record_spares_low *u = &record->u.spares_low;
    *u = (struct record_spares_low){
        .job = job->d.job, .low = low, .ready = ready, .wanted = wanted(job)};
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    char text[TEXT_SIZE];
    core_spares_say(low, ready, u->wanted, text);
    record_says(record, low ? "SparesLow" : "SparesReady", low ? SEVERITY_WARN : SEVERITY_INFO,
                "%s", text);
    core_emit(core, record);
}

static void look_whether_low(struct core *core, struct job *job)
{
    if (wanted(job) == 0 && !job->d.spares_low) {
        job->spares_since_ms = 0;
        return;
    }
    job->spares_uncounted = core->t < job->spares_count_ms;
    if (job->spares_uncounted) {
        return;
    }
    job->spares_count_ms = core->t + COUNT_MS;
    uint32_t ready = spares_open(core, job);
    bool low = ready < wanted(job);
    if (low == job->d.spares_low) {
        job->spares_since_ms = 0;
    } else if (job->spares_since_ms == 0) {
        job->spares_since_ms = core->t;
    } else if (core->t >= job->spares_since_ms + SETTLE_MS) {
        job->spares_since_ms = 0;
        say_low(core, job, low, ready);
    }
}

void spares_look(struct core *core, struct job *job)
{
    if (!keeps(job) || !core_ready(core)) {
        return;
    }
    bool due = job->d.reserve_service_ms == 0 || core->t >= job->reserve_ms;
    if (job->d.reserve_auto && job->d.state == JOB_RUNNING && due) {
        job->reserve_ms = core->t + CHOOSE_MS;
        choose(core, job);
    }
    look_whether_low(core, job);
}

void spares_due(const struct core *core, const struct job *job, uint64_t *due_ms)
{
    if (!keeps(job)) {
        return;
    }
    if (job->spares_uncounted) {
        due_min(due_ms, job->spares_count_ms);
    } else if (job->spares_since_ms != 0) {
        uint64_t settled = job->spares_since_ms + SETTLE_MS;
        due_min(due_ms, settled > job->spares_count_ms ? settled : job->spares_count_ms);
    }
    if (job->d.reserve_auto && job->d.state == JOB_RUNNING && core_ready(core)) {
        due_min(due_ms, job->reserve_ms);
    }
}

/* ---- shown ---------------------------------------------------------------------------------- */

void core_spares(const struct core *core, const struct job *job, struct core_spares *ret)
{
    struct rates rates;
    rates_of(core, job, &rates);
    uint64_t away_ms = rates_away_mean_ms(core);
    uint32_t ready = spares_open(core, job);
    *ret = (struct core_spares){.origin = job->d.reserve_auto ? ORIGIN_AUTO : ORIGIN_FILE,
                                .reserve = spares_reserve(job),
                                .wanted = wanted(job),
                                .ready = ready,
                                .suiting = count_suiting(core, job),
                                .keeps = keeps(job),
                                .low = keeps(job) && job->d.spares_low,
                                .best = best_reserve(job, &rates, away_ms),
                                .losses = rates.losses,
                                .span_ms = rates.span_ms,
                                .gap_ms = rates.node_gap_ms,
                                .away_ms = away_ms};
}

void core_spares_say(bool low, uint32_t ready, uint32_t wanted, char text[TEXT_SIZE])
{
    text_format(text, TEXT_SIZE, "%u ready, %u wanted%s", ready, wanted,
                low ? ": a failure may have to wait for a node; repair some or add some, see "
                      "keepstep get nodes --problems"
                    : "");
}

uint32_t core_strikes_milli(const struct core *core, const struct node *node)
{
    return rates_strikes_milli(core, node);
}
