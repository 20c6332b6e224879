/* breaker.c: the breaker for the rate of evictions . The one for silence is in link.c.
 *
 *   acts --one eviction too many--> paused --keepstep automation resume--> acts, counting anew
 *
 * A probe that is wrong, or a rule that is, takes good nodes one after the other until no spare is
 * left. So evictions by what is found on nodes are counted; not losses by silence, which the other
 * breaker watches, and not what a person asked for. The count is no state of its own: it is read
 * from what is durable anyway, the verdicts and the marks, so that a restart forgets nothing. The
 * eviction of a job's node that would be one too many does not happen: automation pauses, durably,
 * with the numbers in the cause, and says what it would do. A spare that reports a fatal fault itself
 * is marked all the same: the report comes once, and nobody's training rests on the spare. Until a person resumes it, only that is done which harms
 * nobody. */
#include <string.h>

#include "controller/core/impl.h"
#include "controller/core/plan.h"

enum {
    HOUR_FLOOR = 8, /* evictions in an hour, by all rules */
    HOUR_PERCENT = 1,
    RULE_FLOOR = 4, /* … in a day, by one rule */
    RULE_SPARES_PART = 4,
    TOGETHER = 4, /* so many nodes of one incident are one failure */
};
#define HOUR_MS (60ull * 60 * 1000)
#define DAY_MS  (24 * HOUR_MS)

/* Silence and drains: what the other breaker watches, and what a person wants. */
static bool is_counted(const char *rule)
{
    static const char *const others[] = {"node-lost", "lost-together", "operator"};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        if (text_equal(rule, others[i])) {
            return false;
        }
    }
    return true;
}

/* Not before the last resumption: whoever resumed has looked at what was then. */
static bool is_within(const struct core *core, uint64_t at_ms, uint64_t span_ms)
{
    uint64_t now = service_now(core);
    return at_ms >= core->g.resumed_service_ms && now - at_ms <= span_ms;
}

struct counts {
    uint32_t hour; /* evictions by any rule */
    uint32_t day;  /* … by this one */
};

/* A rack that fails together is one failure, and so are a few nodes. More of them, each blamed for
 * what was found on itself, are what a wrong rule or probe takes at one stroke: all count. */
static uint32_t evictions_of(const struct core *core, const struct record_image_incident *d)
{
    if (d->owner == OWNER_FACILITY || d->owner == OWNER_NETWORK) {
        return 1;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->blamed_count; i++) {
        count += core->blamed[i].incident == d->incident ? 1 : 0;
    }
    return count > TOGETHER ? count : 1;
}

/* What takes a node out without an incident: it reports a fault while it is idle, or fails a check. Not
 * when it was out anyway, and has only not shown that it is fit. */
static bool is_taken(const struct core *core, const struct record_image_mark *d)
{
    if (d->owner != MARK_HEALTH || d->incident != 0) {
        return false;
    }
    return text_equal(d->code, "check") || text_equal(d->code, "fatal-signal") ||
           (text_equal(d->code, "validation") && core_node(core, d->node)->d.validate_spare);
}

/* What was judged, and beside it nodes that are taken without an incident, one each. */
static struct counts count_evictions(const struct core *core, const char *rule)
{
    struct counts counts = {0};
    for (uint32_t i = 0; i < core->incident_count; i++) {
        const struct record_image_incident *d = &core->incidents[i].d;
        if (!d->judged || !d->evict || !is_counted(d->rule)) {
            continue;
        }
        bool same = text_equal(d->rule, rule);
        uint32_t taken = evictions_of(core, d);
        counts.hour += is_within(core, d->opened_service_ms, HOUR_MS) ? taken : 0;
        counts.day += same && is_within(core, d->opened_service_ms, DAY_MS) ? taken : 0;
    }
    for (uint32_t i = 0; i < core->mark_count; i++) {
        const struct record_image_mark *d = &core->marks[i].d;
        if (!is_taken(core, d)) {
            continue;
        }
        bool same = text_equal(d->code, rule);
        counts.hour += is_within(core, d->since_service_ms, HOUR_MS) ? 1 : 0;
        counts.day += same && is_within(core, d->since_service_ms, DAY_MS) ? 1 : 0;
    }
    return counts;
}

static uint32_t at_least(uint32_t count, uint32_t floor)
{
    return count > floor ? count : floor;
}

static void trip(struct core *core, const char *rule, const struct counts *counts, uint32_t limit)
{
    struct record *record = record_begin(core, RECORD_automation_kind);
    struct record_automation *u = &record->u.automation;
    bool by_rule = counts->day > 0 && counts->day > limit;
    u->observe = core->g.observe;
    u->paused = true;
    text_format(u->cause, TEXT_SIZE,
                "the breaker for evictions is open: %u by %s within %s, the limit is %u; look at "
                "them, then keepstep automation resume",
                by_rule ? counts->day : counts->hour, by_rule ? rule : "what was found on nodes",
                by_rule ? "24 h" : "1 h", limit);
    text_copy(u->actor, sizeof u->actor, "keepstep");
    record_subject(record, "cluster");
    record_says(record, "EvictionBreakerOpened", SEVERITY_ERROR, "%s", u->cause);
    core_emit(core, record);
}

/* Pauses automation when there are too many by now; `rule` took the last. */
static void look_at_rate(struct core *core, const char *rule)
{
    uint32_t pool = 0;
    uint32_t ready = 0;
    for (uint32_t i = 0; i < core->node_count; i++) {
        pool += core->nodes[i].d.removed ? 0 : 1;
        ready += core_node_usable(core, &core->nodes[i]) ? 1 : 0;
    }
    struct counts counts = count_evictions(core, rule);
    uint32_t hour_limit = at_least(pool * HOUR_PERCENT / 100, HOUR_FLOOR);
    uint32_t rule_limit = at_least(ready / RULE_SPARES_PART, RULE_FLOOR);
    if (counts.day > rule_limit) {
        trip(core, rule, &counts, rule_limit);
    } else if (counts.hour > hour_limit) {
        counts.day = 0;
        trip(core, rule, &counts, hour_limit);
    }
}

void breaker_evicts(struct core *core, const struct job *job)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < core->blamed_count && !core_held(core); i++) {
        const struct incident *incident = plan_evicted_for(core, job, &core->blamed[i]);
        if (incident != NULL && incident->d.incident != last && is_counted(incident->d.rule)) {
            last = incident->d.incident;
            look_at_rate(core, incident->d.rule);
        }
    }
}

void breaker_marked(struct core *core, const char *code)
{
    if (!core_held(core)) {
        look_at_rate(core, code);
    }
}
