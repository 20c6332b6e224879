/* health.c: a table of conditions and a table of events; see health.h. Both are small and walked
 * from end to end: a node has some dozens of things to look at, and looks once a second. */
#include "agent/core/health.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* What was said of a condition. */
struct said {
    uint8_t verdict;
    uint8_t advice;
    char signal[SIGNAL_NAME_SIZE];
};

struct condition {
    bool used;
    bool read;  /* in the round that runs */
    bool known; /* there was a reading that worked */
    bool again; /* due although nothing changed */
    uint8_t probe;
    uint32_t misses;   /* rounds in a row that could not read it */
    uint32_t absent;   /* rounds in a row that did not name it */
    uint64_t sequence; /* of the fact under way; 0: none */
    struct finding now;
    struct finding told_finding; /* as it was told, for the file */
    struct said told;
    struct said way; /* what the fact under way says */
};

struct event {
    bool used;
    uint8_t probe;
    uint64_t order;
    uint64_t sequence; /* 0: not said yet */
    struct finding finding;
};

struct round {
    bool running;
    uint32_t readings;
};

struct health {
    uint64_t order;
    uint64_t events_lost;
    struct round rounds[HEALTH_PROBES_MAX];
    struct condition conditions[HEALTH_CONDITIONS_MAX];
    struct event events[HEALTH_EVENTS_MAX];
};

struct health *health_create(void)
{
    return mem_alloc(1, sizeof(struct health));
}

struct health *health_free(struct health *health)
{
    return mem_free(health);
}

/* ---- conditions ----------------------------------------------------------------------------------- */

static struct said said_of(const struct finding *finding)
{
    struct said said = {.verdict = finding->verdict, .advice = finding->advice};
    (void)text_copy(said.signal, sizeof(said.signal), finding->signal);
    return said;
}

static bool is_bad(const struct finding *finding)
{
    return finding->verdict == VERDICT_WARN || finding->verdict == VERDICT_FAIL;
}

/* Of things that are well it does not matter how. */
static bool differ(const struct said *a, const struct said *b)
{
    if (a->verdict != b->verdict) {
        return true;
    }
    return a->verdict != VERDICT_OK &&
           (a->advice != b->advice || !text_equal(a->signal, b->signal));
}

static struct condition *find(struct health *health, uint32_t probe, const char *key)
{
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        struct condition *c = &health->conditions[i];
        if (c->used && c->probe == probe && text_equal(c->now.key, key)) {
            return c;
        }
    }
    return NULL;
}

static struct condition *find_or_add(struct health *health, uint32_t probe, const char *key)
{
    struct condition *c = find(health, probe, key);
    for (uint32_t i = 0; c == NULL && i < HEALTH_CONDITIONS_MAX; i++) {
        if (!health->conditions[i].used) {
            c = &health->conditions[i];
            *c = (struct condition){.used = true, .probe = (uint8_t)probe};
            c->now = (struct finding){.verdict = VERDICT_OK, .gpu = -1, .port = -1};
            (void)text_copy(c->now.key, sizeof(c->now.key), key);
        }
    }
    return c;
}

static void take_reading(struct condition *c, const struct finding *finding)
{
    c->misses = 0;
    c->absent = 0;
    c->known = true;
    c->now = *finding;
}

/* What could not be read is told where there had been readings, the third time; and never in the
 * place of something bad. */
static void take_miss(struct condition *c, const struct finding *finding)
{
    c->absent = 0;
    c->misses += c->misses < HEALTH_MISSES;
    if ((c->misses < HEALTH_MISSES && c->known) || is_bad(&c->now)) {
        return;
    }
    const struct finding before = c->now;
    c->now = *finding;
    c->now.verdict = VERDICT_NOT_RUN;
    c->now.gpu = before.gpu;
    c->now.port = before.port;
    (void)text_copy(c->now.key, sizeof(c->now.key), before.key);
    (void)text_copy(c->now.subject, sizeof(c->now.subject), before.subject);
}

void health_begin(struct health *health, uint32_t probe)
{
    CHECK(probe < HEALTH_PROBES_MAX);
    health->rounds[probe].running = true;
    health->rounds[probe].readings = 0;
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        health->conditions[i].read =
            health->conditions[i].read && health->conditions[i].probe != probe;
    }
}

bool health_reading(struct health *health, uint32_t probe, const struct finding *finding)
{
    CHECK(probe < HEALTH_PROBES_MAX);
    struct condition *c = find_or_add(health, probe, finding->key);
    if (c == NULL) {
        return false;
    }
    c->read = true;
    health->rounds[probe].readings++;
    if (finding->verdict == VERDICT_NOT_RUN) {
        take_miss(c, finding);
    } else {
        take_reading(c, finding);
    }
    return true;
}

/* A thing that the probe no longer names, while it does name others, or never named anything again:
 * its condition ends. What must not go missing is the probe's own affair. */
static void take_absence(struct condition *c)
{
    c->absent += c->absent < HEALTH_MISSES;
    if (c->absent < HEALTH_MISSES) {
        return;
    }
    if (c->told.verdict == VERDICT_OK && c->sequence == 0) {
        c->used = false;
        return;
    }
    c->now.verdict = VERDICT_OK;
    c->known = false;
    (void)text_sentence(c->now.text, sizeof(c->now.text), "%.90s is no longer there", c->now.key);
}

static const struct finding not_run = {.verdict = VERDICT_NOT_RUN,
                                       .label = LABEL_SOFTWARE,
                                       .advice = ADVICE_WATCH,
                                       .role = ROLE_NOISE,
                                       .source = FACT_PROBE,
                                       .gpu = -1,
                                       .port = -1,
                                       .signal = READING_NONE};

/* The probe itself: it worked once and finds nothing to read any more. */
static void take_empty_round(struct health *health, uint32_t probe, const char *why)
{
    bool worked = false;
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        const struct condition *c = &health->conditions[i];
        worked = worked || (c->used && c->probe == probe && c->known &&
                            !text_equal(c->now.key, HEALTH_PROBE_KEY));
    }
    struct condition *self = find_or_add(health, probe, HEALTH_PROBE_KEY);
    if (self == NULL) {
        return;
    }
    struct finding finding = not_run;
    (void)text_copy(finding.key, sizeof(finding.key), HEALTH_PROBE_KEY);
    (void)text_sentence(finding.text, sizeof(finding.text), "nothing can be read any more: %.120s",
                        why[0] != '\0' ? why : "nothing of its kind is left");
    self->known = self->known || worked;
    take_miss(self, &finding);
}

/* The round came, whatever is in it: the probe itself is well. */
static void take_return(struct condition *self)
{
    struct finding well = not_run;
    well.verdict = VERDICT_OK;
    well.signal[0] = '\0'; /* that of what was told */
    (void)text_copy(well.key, sizeof(well.key), HEALTH_PROBE_KEY);
    (void)text_copy(well.text, sizeof(well.text), "the probe works again");
    take_reading(self, &well);
    self->known = false;
}

void health_end(struct health *health, uint32_t probe, const char *why)
{
    CHECK(probe < HEALTH_PROBES_MAX);
    struct round *round = &health->rounds[probe];
    if (!round->running) {
        return;
    }
    round->running = false;
    struct condition *self = find(health, probe, HEALTH_PROBE_KEY);
    const bool bad = self != NULL && !self->read && is_bad(&self->now);
    if (bad || (self != NULL && round->readings > 0)) {
        take_return(self);
    }
    if (round->readings == 0) {
        if (!bad) {
            take_empty_round(health, probe, why);
        }
        return;
    }
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        struct condition *c = &health->conditions[i];
        if (c->used && c->probe == probe && !c->read && c != self) {
            take_absence(c);
        }
    }
}

void health_lost(struct health *health, uint32_t probe, const struct finding *finding)
{
    CHECK(probe < HEALTH_PROBES_MAX);
    health->rounds[probe].running = false;
    struct finding self = *finding;
    (void)text_copy(self.key, sizeof(self.key), HEALTH_PROBE_KEY);
    struct condition *c = find_or_add(health, probe, HEALTH_PROBE_KEY);
    if (c != NULL) {
        take_reading(c, &self);
    }
}

/* ---- events ---------------------------------------------------------------------------------------- */

/* The least of those that are not said yet, the newest of equals; NULL: none weighs less than this. */
static struct event *lighter(struct health *health, uint8_t severity)
{
    struct event *least = NULL;
    for (uint32_t i = 0; i < HEALTH_EVENTS_MAX; i++) {
        struct event *e = &health->events[i];
        if (e->sequence != 0 || e->finding.severity >= severity) {
            continue;
        }
        if (least == NULL || e->finding.severity < least->finding.severity ||
            (e->finding.severity == least->finding.severity && e->order > least->order)) {
            least = e;
        }
    }
    return least;
}

bool health_event(struct health *health, uint32_t probe, const struct finding *finding)
{
    CHECK(probe < HEALTH_PROBES_MAX);
    struct event *place = NULL;
    for (uint32_t i = 0; place == NULL && i < HEALTH_EVENTS_MAX; i++) {
        place = health->events[i].used ? NULL : &health->events[i];
    }
    if (place == NULL) {
        health->events_lost++;
        place = lighter(health, finding->severity);
        if (place == NULL) {
            return false;
        }
    }
    *place = (struct event){
        .used = true, .probe = (uint8_t)probe, .order = ++health->order, .finding = *finding};
    return true;
}

uint64_t health_events_lost(const struct health *health)
{
    return health->events_lost;
}

/* ---- what is due ------------------------------------------------------------------------------------ */

static bool is_due(const struct condition *c)
{
    const struct said now = said_of(&c->now);
    const bool news = (c->known || c->told.verdict != VERDICT_OK) && differ(&now, &c->told);
    return c->used && c->sequence == 0 && (c->again || news);
}

/* Something became well: that asks for nothing and blames nobody. */
static void as_told(const struct condition *c, struct finding *ret_finding)
{
    *ret_finding = c->now;
    if (c->now.verdict == VERDICT_OK) {
        ret_finding->label = LABEL_BENIGN;
        ret_finding->advice = ADVICE_NONE;
        ret_finding->role = ROLE_NOISE;
        ret_finding->severity = 0;
        if (ret_finding->signal[0] == '\0') {
            (void)text_copy(ret_finding->signal, sizeof(ret_finding->signal), c->told.signal);
        }
    }
}

bool health_due(const struct health *health, struct finding *ret_finding, uint32_t *ret_probe,
                uint32_t *ret_ticket)
{
    const struct condition *condition = NULL;
    const struct event *event = NULL;
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        const struct condition *c = &health->conditions[i];
        if (is_due(c) && (condition == NULL || c->now.severity > condition->now.severity)) {
            condition = c;
        }
    }
    for (uint32_t i = 0; i < HEALTH_EVENTS_MAX; i++) {
        const struct event *e = &health->events[i];
        if (e->used && e->sequence == 0 &&
            (event == NULL || e->finding.severity > event->finding.severity ||
             (e->finding.severity == event->finding.severity && e->order < event->order))) {
            event = e;
        }
    }
    if (event != NULL &&
        (condition == NULL || event->finding.severity >= condition->now.severity)) {
        *ret_finding = event->finding;
        *ret_probe = event->probe;
        *ret_ticket = HEALTH_CONDITIONS_MAX + (uint32_t)(event - health->events);
        return true;
    }
    if (condition != NULL) {
        as_told(condition, ret_finding);
        *ret_probe = condition->probe;
        *ret_ticket = (uint32_t)(condition - health->conditions);
    }
    return condition != NULL;
}

void health_said(struct health *health, uint32_t ticket, uint64_t sequence)
{
    CHECK(ticket < HEALTH_CONDITIONS_MAX + HEALTH_EVENTS_MAX && sequence != 0);
    if (ticket >= HEALTH_CONDITIONS_MAX) {
        health->events[ticket - HEALTH_CONDITIONS_MAX].sequence = sequence;
        return;
    }
    struct condition *c = &health->conditions[ticket];
    c->sequence = sequence;
    c->again = false;
    c->way = said_of(&c->now);
    c->told_finding = c->now;
}

static void condition_told(struct condition *c)
{
    c->sequence = 0;
    c->told = c->way;
    if (c->now.verdict == VERDICT_OK && c->told.verdict == VERDICT_OK && !c->known) {
        c->used = false; /* it is gone, and everybody knows */
    }
}

bool health_acknowledged(struct health *health, uint64_t below)
{
    bool changed = false;
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        struct condition *c = &health->conditions[i];
        if (c->used && c->sequence != 0 && c->sequence < below) {
            condition_told(c);
            changed = true;
        }
    }
    for (uint32_t i = 0; i < HEALTH_EVENTS_MAX; i++) {
        struct event *e = &health->events[i];
        if (e->used && e->sequence != 0 && e->sequence < below) {
            *e = (struct event){0};
            changed = true;
        }
    }
    return changed;
}

void health_say_again(struct health *health)
{
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        struct condition *c = &health->conditions[i];
        c->again = c->used && is_bad(&c->now);
    }
}

bool health_settled(const struct health *health, uint32_t probe)
{
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        if (health->conditions[i].used && health->conditions[i].probe == probe &&
            health->conditions[i].sequence != 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < HEALTH_EVENTS_MAX; i++) {
        if (health->events[i].used && health->events[i].probe == probe) {
            return false;
        }
    }
    return true;
}

/* ---- walks --------------------------------------------------------------------------------------------- */

int health_told(const struct health *health, health_visit *visit, void *context)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < HEALTH_CONDITIONS_MAX; i++) {
        const struct condition *c = &health->conditions[i];
        if (!c->used || c->told.verdict == VERDICT_OK) {
            continue;
        }
        struct finding told = c->told_finding;
        told.verdict = c->told.verdict; /* a newer one may be under way */
        told.advice = c->told.advice;
        (void)text_copy(told.signal, sizeof(told.signal), c->told.signal);
        r = visit(context, c->probe, &told);
    }
    return r;
}

void health_restore(struct health *health, uint32_t probe, const struct finding *told)
{
    CHECK(probe < HEALTH_PROBES_MAX);
    struct condition *c = find_or_add(health, probe, told->key);
    if (c == NULL) {
        return;
    }
    c->known = true;
    c->now = *told;
    c->told_finding = *told;
    c->told = said_of(told);
}

const char *health_broken(const struct health *health)
{
    const struct condition *worst = NULL;
    for (uint32_t i = 0; i < HEALTH_CONDITIONS_MAX; i++) {
        const struct condition *c = &health->conditions[i];
        if (c->used && c->now.verdict == VERDICT_FAIL && c->now.advice >= ADVICE_EVICT &&
            (worst == NULL || c->now.severity > worst->now.severity)) {
            worst = c;
        }
    }
    return worst != NULL ? worst->now.text : NULL;
}

int health_now(const struct health *health, health_visit *visit, void *context)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < HEALTH_CONDITIONS_MAX; i++) {
        if (health->conditions[i].used) {
            r = visit(context, health->conditions[i].probe, &health->conditions[i].now);
        }
    }
    return r;
}
