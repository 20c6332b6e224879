/* goodput_watch.c: what the controller's records say, compared with what really happened. */
#include "controller/sim/goodput_world.h"
#include "proto/base/hash.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum { DOUBT_MS = 24 * 3600 * 1000 };

/* ---- phases ------------------------------------------------------------------------------ */

static void sample(struct gp *gp, uint32_t what, uint64_t ms)
{
    struct gp_watch *watch = &gp->watch;
    if (watch->sample_count[what] < GOODPUT_PHASE_SAMPLES) {
        watch->samples[what][watch->sample_count[what]++] = (uint32_t)ms;
    }
}

static void end_phase(struct gp *gp, uint64_t service_ms)
{
    struct gp_watch *watch = &gp->watch;
    if (watch->open && !watch->planned) {
        sample(gp, watch->phase, service_ms - watch->phase_ms);
    }
    watch->phase_ms = service_ms;
}

static void opened(struct gp *gp, const struct record *record)
{
    const struct record_recovery_opened *u = &record->u.recovery_opened;
    struct gp_watch *watch = &gp->watch;
    gp_train_acted(gp);
    watch->open = u->cause != CAUSE_START;
    watch->planned = u->cause == CAUSE_PLANNED;
    watch->opened_ms = u->since_service_ms;
    watch->phase_ms = u->since_service_ms;
    watch->phase = PHASE_DETECT;
}

static void closed(struct gp *gp, const struct record *record)
{
    struct gp_watch *watch = &gp->watch;
    end_phase(gp, record->service_ms);
    if (watch->open && record->u.recovery_closed.outcome == OUTCOME_RECOVERED) {
        gp->result->recoveries++;
        if (!watch->planned) {
            sample(gp, phase_count, record->service_ms - watch->opened_ms);
        }
    }
    watch->open = false;
}

static int by_value(const void *a, const void *b, const void *context)
{
    (void)context;
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static struct goodput_phase summary(struct gp *gp, uint32_t what)
{
    uint32_t *samples = gp->watch.samples[what];
    uint32_t count = gp->watch.sample_count[what];
    struct goodput_phase phase = {.count = count};
    if (count > 0) {
        sort_u32(samples, count, by_value, NULL);
        phase.p50_ms = samples[(count - 1) / 2];
        phase.p99_ms = samples[(uint64_t)(count - 1) * 99 / 100];
    }
    return phase;
}

/* ---- verdicts ---------------------------------------------------------------------------- */

/* The newest failure that no verdict was compared with yet. */
static struct gp_fault *fault_at_hand(struct gp *gp)
{
    for (uint32_t index = gp->fault_count; index-- > 0;) {
        struct gp_fault *fault = &gp->faults[index];
        if (!fault->judged && gp->options.category[fault->category].how != GOODPUT_CORRUPT) {
            return fault;
        }
        if (!fault->judged && gp->train.tainted) {
            return fault;
        }
    }
    return NULL;
}

static void verdict(struct gp *gp, const struct record *record)
{
    const struct record_verdict *u = &record->u.verdict;
    struct gp_fault *fault = fault_at_hand(gp);
    if (u->owner == OWNER_PLANNED || fault == NULL) {
        return;
    }
    fault->judged = true;
    struct goodput_cost *cost = &gp->result->cost[fault->category];
    gp->watch.category = fault->category;
    uint8_t how = gp->options.category[fault->category].how;
    bool evict = how == GOODPUT_SIGNAL || how == GOODPUT_SILENT || how == GOODPUT_CORRUPT;
    bool right = u->action == (evict ? DO_EVICT : DO_RESTART);
    if (evict && (record->node == 0 || gp_node_index(gp, record->node) != fault->node)) {
        right = gp->options.together_ppm > 0 && record->node != 0 &&
                gp->nodes[gp_node_index(gp, record->node)].fault != 0;
    }
    cost->judged++;
    cost->right += right ? 1 : 0;
    if (!right) {
        gp->result->wrong_verdicts++;
        gp_trace(gp, "WRONG verdict on %s of node %u: %s, %s",
                 gp->options.category[fault->category].word, fault->node,
                 WORD(job_action, u->action), u->why);
    }
}

static void struck(struct gp *gp, const struct record *record)
{
    const struct gp_node *node = &gp->nodes[gp_node_index(gp, record->u.strike.node)];
    bool doubted = node->doubt_ms != 0 && gp->now_ms - node->doubt_ms <= DOUBT_MS;
    struct goodput_cost *cost =
        &gp->result
             ->cost[node->fault != 0 ? gp->faults[node->fault - 1].category : gp->watch.category];
    cost->evicted++;
    cost->evicted_well += node->fault != 0 || doubted ? 1 : 0;
    if (node->fault == 0 && !doubted) {
        gp->result->false_evictions++;
        gp_trace(gp, "FALSE eviction of node %u", gp_node_index(gp, record->u.strike.node));
    }
}

static void count_spares(struct gp *gp)
{
    uint32_t usable = 0;
    for (uint32_t id = 1; id <= core_node_count(gp->ctl.core); id++) {
        usable += core_node_usable(gp->ctl.core, core_node(gp->ctl.core, id)) ? 1 : 0;
    }
    if (usable < gp->result->spares_least) {
        gp->result->spares_least = usable;
    }
}

/* Nothing goes on without a person, who needs a while. */
static void page(struct gp *gp)
{
    if (gp->person_ms == 0) {
        gp->person_ms = gp->now_ms + gp->options.person_ms;
        gp_at(gp, gp->person_ms, GP_EV_PERSON, 0);
    }
}

static void moved(struct gp *gp, const struct record *record)
{
    uint8_t to = record->u.job_moved.to;
    if (to == JOB_HELD) {
        page(gp);
    }
    if (to == JOB_FAILED) {
        gp_trace(gp, "the job failed: %s", record->u.job_moved.reason);
        gp->result->ended = true;
        gp->result->interventions++;
    }
}

/* ---- all --------------------------------------------------------------------------------- */

/* What is decided; not how agents number what they say, of which lazy ones leave out a part. */
static uint64_t hash_record(uint64_t hash, const struct record *record)
{
    hash = hash_u64(hash_u64(hash, record->kind), record->service_ms);
    if (record->kind == RECORD_fact_kept_kind) {
        struct record_fact_kept fact = record->u.fact_kept;
        fact.sequence = 0;
        return record_body_digest(hash, record->kind, &fact);
    }
    if (record->kind == RECORD_mark_set_kind) {
        struct record_mark_set mark = record->u.mark_set;
        mark.fact_sequence = 0;
        return record_body_digest(hash, record->kind, &mark);
    }
    return record_body_digest(hash, record->kind, &record->u);
}

void gp_watch_record(struct gp *gp, const struct record *record)
{
    struct goodput_result *result = gp->result;
    result->records++;
    result->records_hash = hash_record(result->records_hash, record);
    gp_trace(gp, "R %u %s: %s", record->kind, record->subject, record->event.message);
    if (record->kind != RECORD_checkpoint_moved_kind && record->kind != RECORD_time_settled_kind) {
        gp_news(gp);
    }
    switch (record->kind) {
    case RECORD_recovery_opened_kind:
        opened(gp, record);
        return;
    case RECORD_recovery_phase_kind:
        end_phase(gp, record->service_ms);
        gp->watch.phase = (uint8_t)record->u.recovery_phase.phase;
        return;
    case RECORD_recovery_merged_kind:
        result->merged++;
        return;
    case RECORD_recovery_closed_kind:
        closed(gp, record);
        return;
    case RECORD_verdict_kind:
        verdict(gp, record);
        return;
    case RECORD_strike_kind:
        struck(gp, record);
        return;
    case RECORD_slot_taken_kind:
        count_spares(gp);
        return;
    case RECORD_job_moved_kind:
        moved(gp, record);
        return;
    case RECORD_breaker_kind:
    case RECORD_automation_kind:
        if (record->kind == RECORD_breaker_kind ? record->u.breaker.open
                                                : record->u.automation.paused) {
            page(gp);
        }
        return;
    default:
        return;
    }
}

void gp_watch_end(struct gp *gp)
{
    struct goodput_result *result = gp->result;
    for (uint32_t phase = 0; phase < phase_count; phase++) {
        result->phase[phase] = summary(gp, phase);
    }
    result->total = summary(gp, phase_count);
    const struct job *job = core_job(gp->ctl.core, gp->job);
    for (uint32_t kind = 0; job != NULL && kind < time_kind_count; kind++) {
        result->booked_ms[kind] = job->d.time_ms[kind];
        result->booked_wall_ms += job->d.time_ms[kind];
    }
}
