/* rates.c: how often things fail here, as far as can be told: what interval.c and spares.c rest on.
 *
 *     durable state --counted over the last week--> gaps between failures, time away, strikes
 *
 * None of it is a state of its own: it is counted anew from what is durable anyway (recoveries,
 * incidents, settled time, who is out), so that a restart forgets nothing; what is concluded from it
 * enters the journal. One failure of the rate that is assumed is mixed in (estimate.h), so that a
 * job that has not failed yet does not count as one that never will. */
#include "controller/core/estimate.h"
#include "controller/core/impl.h"

#define HOUR_MS      (3600ull * 1000)
#define DAY_MS       (24 * HOUR_MS)
#define SPAN_MS      (7 * DAY_MS)
#define AWAY_MOST_MS (7 * DAY_MS) /* who is away for longer is a matter for people */
/* Assumed. A node fails each 263 days: 419 unplanned interruptions of 2,048 nodes in 54 days
 * ("The Llama 3 Herd of Models", 2024, table 5), 3.8 in 1,000 node-days. Whatever its size, a job
 * fails once a day, be it by its own program. A node that failed is back after a day. */
#define NODE_GAP_MS    (DAY_MS * 1000 * 10 / 38)
#define JOB_GAP_MS     DAY_MS
#define AWAY_MS        DAY_MS
#define STRIKE_HALF_MS (7 * DAY_MS)

enum { STRIKES_MOST_MILLI = 1000000000 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Since when all is known that is counted: for a week, or since the oldest that is still kept. */
static uint64_t known_since(const struct core *core)
{
    uint64_t now = service_now(core);
    uint64_t since = now > SPAN_MS ? now - SPAN_MS : 0;
    if (core->recovery_count == core->limits.recoveries &&
        core->recoveries[0].d.opened_service_ms > since) {
        since = core->recoveries[0].d.opened_service_ms;
    }
    if (core->incident_count == core->limits.incidents &&
        core->incidents[0].d.opened_service_ms > since) {
        since = core->incidents[0].d.opened_service_ms;
    }
    return since;
}

/* How long it has run within that. A job that was held for a part of it is taken to have run in all
 * of it, if it ran that long before. */
static uint64_t running_ms(const struct core *core, const struct job *job, uint64_t since)
{
    uint64_t now = service_now(core);
    uint64_t open = job->d.state == JOB_RUNNING && now > job->d.settled_service_ms
                        ? now - job->d.settled_service_ms
                        : 0;
    uint64_t all = job->d.time_ms[TIME_PRODUCTIVE] + job->d.time_ms[TIME_LOST_WORK] +
                   job->d.time_ms[TIME_CHECKPOINT_STALL] + open;
    return least(all, now - since);
}

static uint32_t failures_of(const struct core *core, const struct job *job, uint64_t since)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->recovery_count; i++) {
        const struct record_image_recovery *d = &core->recoveries[i].d;
        bool failure = d->cause != CAUSE_START && d->cause != CAUSE_PLANNED;
        count += d->job == job->d.job && failure && d->opened_service_ms >= since ? 1 : 0;
    }
    return count;
}

static uint32_t losses_of(const struct core *core, const struct job *job, uint64_t since)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->incident_count; i++) {
        const struct record_image_incident *d = &core->incidents[i].d;
        bool taken = d->judged && d->evict && d->owner != OWNER_PLANNED;
        count += d->job == job->d.job && taken && d->opened_service_ms >= since ? d->blamed : 0;
    }
    return count;
}

uint64_t rates_away_ms(const struct core *core, const struct node *node)
{
    uint64_t away = service_now(core) - node->d.strike_service_ms;
    return least(away > 0 ? away : 1, AWAY_MOST_MS);
}

/* The whole time that nodes were away, by the number of those that came back: who is still away
 * counts with the time so far. */
uint64_t rates_away_mean_ms(const struct core *core)
{
    uint64_t all = core->g.returns_ms;
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        bool waits = node->d.struck && !node->d.removed && !node->set_aside;
        all += waits ? rates_away_ms(core, node) : 0;
    }
    return least(estimate_mean_ms(core->g.returns, all, AWAY_MS), AWAY_MOST_MS);
}

void rates_of(const struct core *core, const struct job *job, struct rates *ret_rates)
{
    uint64_t since = known_since(core);
    uint64_t slots = job->slot_count > 0 ? job->slot_count : 1;
    *ret_rates = (struct rates){.span_ms = running_ms(core, job, since),
                                .failures = failures_of(core, job, since),
                                .losses = losses_of(core, job, since)};
    uint64_t assumed = NODE_GAP_MS / slots;
    ret_rates->gap_ms =
        estimate_gap_ms(ret_rates->failures, ret_rates->span_ms, least(assumed, JOB_GAP_MS));
    ret_rates->node_gap_ms =
        estimate_gap_ms(ret_rates->losses, ret_rates->span_ms, assumed) * slots;
}

uint32_t rates_strikes_milli(const struct core *core, const struct node *node)
{
    uint64_t age = service_now(core) - node->d.strike_service_ms;
    uint64_t weight = estimate_decayed(node->d.strike_milli, age, STRIKE_HALF_MS);
    return (uint32_t)least(weight, STRIKES_MOST_MILLI);
}
