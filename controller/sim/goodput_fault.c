/* goodput_fault.c: what goes wrong and when, how it shows itself, who repairs it; and the operator.
 *
 * The next failure's category is drawn together with its time, the node when it strikes. From then
 * on only its sign is heard: after the category's detection time a probe tells of it, ranks end, or
 * the host was silent all along. A node that left is given back after its repair: it boots, and an
 * operator takes the marks of the fault away. */
#include <string.h>

#include "controller/sim/goodput_quantiles.h"
#include "controller/sim/goodput_world.h"
#include "controller/sim/spec.h"
#include "proto/base/text.h"

enum {
    SUBMIT_MS = 20000, /* every agent is there by then */
    SOON_MS = 2000,
    AGAIN_MS = 600000, /* a node whose slot was not moved yet is repaired later */
    MAINTENANCE_MS = 2 * 3600 * 1000,
    HOUR_MS = 3600 * 1000,
    PROBATION_MS = 24 * HOUR_MS,
    TOGETHER_HOSTS = 8,
    RMA_LEAST_DAYS = 7,
    CODE_PROGRAM = 1,
    CODE_OTHER_GPU = 16,
    SIGNAL_ABORT = 6,
    PICKS_MAX = 1000,
    LEMON_MOST = 16, /* a node's factor counts at most so much when nodes are picked */
};

uint32_t gp_node_index(const struct gp *gp, uint32_t id)
{
    uint64_t index = 0;
    const char *name = core_node(gp->ctl.core, id)->d.name;
    int result = text_to_u64(strrchr(name, '-') + 1, gp->options.nodes - 1, &index);
    CHECK(result == 0);
    return (uint32_t)index;
}

static const struct node *core_side(const struct gp *gp, uint32_t index)
{
    char name[NAME_SIZE];
    (void)text_format(name, sizeof(name), "gpu-%04u", index);
    return core_node(gp->ctl.core, core_node_find(gp->ctl.core, name));
}

static uint64_t draw(struct gp *gp, const uint32_t *table, uint64_t mean)
{
    return mean * table[prng_below(&gp->prng, GOODPUT_QUANTILES)] / GOODPUT_ONE;
}

/* ---- which and where --------------------------------------------------------------------- */

static uint32_t draw_category(struct gp *gp)
{
    uint32_t all = 0;
    for (uint32_t index = 0; index < gp->options.category_count; index++) {
        const struct goodput_category *one = &gp->options.category[index];
        all += one->how == GOODPUT_PLANNED ? 0 : one->count;
    }
    uint64_t at = prng_below(&gp->prng, all);
    uint32_t index = 0;
    for (;; index++) {
        const struct goodput_category *one = &gp->options.category[index];
        uint32_t count = one->how == GOODPUT_PLANNED ? 0 : one->count;
        if (at < count) {
            return index;
        }
        at -= count;
    }
}

static enum gp_event strike_event(const struct gp *gp, uint32_t category)
{
    bool silent = gp->options.category[category].how == GOODPUT_SILENT || gp->next_together;
    return silent ? GP_EV_HOST_DOWN : GP_EV_STRIKE;
}

/* Whose sign comes soon, or is the silence itself, is awaited awake: by then all that the fleet has
 * to say must have been said. */
static void plan_strike(struct gp *gp, uint64_t at_ms)
{
    enum gp_event event = strike_event(gp, gp->next_category);
    if (event == GP_EV_STRIKE && gp->options.category[gp->next_category].detect_ms <= SOON_MS) {
        gp_at(gp, at_ms - 1, GP_EV_WAKE, 0);
    }
    gp_at(gp, at_ms, event, UINT32_MAX);
}

static void plan_given(struct gp *gp)
{
    if (gp->given_next < gp->options.given_count) {
        const struct goodput_given *given = &gp->options.given[gp->given_next];
        gp->next_category = given->category;
        plan_strike(gp, GP_BEGIN_MS + given->at_ms);
    }
}

static void plan_next(struct gp *gp)
{
    if (gp->options.given != NULL) {
        plan_given(gp);
        return;
    }
    if (gp->gap_ms == 0) {
        return;
    }
    uint64_t gap_ms =
        draw(gp, gp->options.bursts ? goodput_weibull_07 : goodput_exponential, gp->gap_ms);
    gp->next_category = draw_category(gp);
    gp->next_together = prng_chance_ppm(&gp->prng, gp->options.together_ppm);
    plan_strike(gp, gp->now_ms + gap_ms);
}

static bool is_lemon_enough(struct gp *gp, const struct gp_node *node)
{
    uint64_t chance = prng_below(&gp->prng, (uint64_t)LEMON_MOST * GOODPUT_ONE);
    return !gp->options.lemons || chance < node->lemon;
}

/* A node of the job; UINT32_MAX: there is none that could fail now. */
static uint32_t pick_node(struct gp *gp)
{
    for (uint32_t pick = 0; pick < PICKS_MAX; pick++) {
        uint32_t index = (uint32_t)prng_below(&gp->prng, gp->options.nodes);
        const struct gp_node *node = &gp->nodes[index];
        if (!node->up || node->fault != 0 || !is_lemon_enough(gp, node)) {
            continue;
        }
        const struct node *known = core_side(gp, index);
        if (known != NULL && known->d.job != 0) {
            return index;
        }
    }
    return UINT32_MAX;
}

/* ---- repairs ----------------------------------------------------------------------------- */

static const uint32_t *repair_table(const struct goodput_category *category)
{
    return category->how == GOODPUT_SILENT ? goodput_repair_facility
           : category->detect_ms >= 30000  ? goodput_repair_network
                                           : goodput_repair_hardware;
}

static void plan_repair(struct gp *gp, uint32_t index, uint64_t repair_ms)
{
    gp->nodes[index].back_ms = gp->now_ms + repair_ms;
    gp_at(gp, gp->nodes[index].back_ms, GP_EV_REPAIRED, index);
}

static uint64_t draw_repair(struct gp *gp, const struct goodput_category *category)
{
    if (gp->options.repair_ms != 0) {
        return gp->options.repair_ms;
    }
    if (!gp->options.repair_drawn) {
        return category->repair_ms;
    }
    if (category->how == GOODPUT_SIGNAL && prng_chance_ppm(&gp->prng, gp->options.rma_ppm)) {
        uint64_t days = prng_between(&gp->prng, RMA_LEAST_DAYS, 2 * RMA_LEAST_DAYS);
        return days * PROBATION_MS; /* a day has as many hours as probation */
    }
    return draw(gp, repair_table(category), category->repair_ms);
}

static void clear_marks(struct gp *gp, uint32_t id)
{
    const struct mark *mark;
    for (uint32_t guard = 0; guard < MARKS_PER_NODE; guard++) {
        struct request request = {
            .verb = REQUEST_UNDRAIN, .nodes = &id, .node_count = 1, .reason = "repaired"};
        bool any = false;
        for (uint32_t i = 0; (mark = core_mark(gp->ctl.core, id, i)) != NULL && !any; i++) {
            any = mark->d.owner == MARK_HEALTH || mark->d.owner == MARK_OPERATOR;
            (void)text_copy(request.clear_code, sizeof(request.clear_code), mark->d.code);
        }
        if (!any) {
            return;
        }
        gp_ctl_request(gp, &request);
    }
}

static void repaired(struct gp *gp, uint32_t index)
{
    struct gp_node *node = &gp->nodes[index];
    const struct node *known = core_side(gp, index);
    if (node->back_ms != gp->now_ms) {
        return; /* another repair began meanwhile */
    }
    if (known->d.job != 0) {
        plan_repair(gp, index, AGAIN_MS);
        return;
    }
    if (node->up) {
        struct event event = {.kind = EVENT_CLOSED, .session = node->session};
        if (node->session != 0) {
            gp_ctl_event(gp, &event);
        }
        gp_node_down(gp, index);
    }
    node->session = 0;
    gp_node_start(gp, index);
    clear_marks(gp, known->d.node);
    node->back_ms = 0;
    gp->result->returns++;
    gp_at(gp, gp->now_ms + PROBATION_MS, GP_EV_PROBATION, index);
    bool repeats = node->fault != 0 && prng_chance_ppm(&gp->prng, gp->options.repeat_ppm);
    if (repeats) { /* the repair did not find it */
        struct gp_fault *old = &gp->faults[node->fault - 1];
        CHECK(gp->fault_count < GP_FAULTS_MAX);
        gp->faults[gp->fault_count++] = (struct gp_fault){.category = old->category, .node = index};
        gp_at(gp, gp->now_ms + prng_below(&gp->prng, HOUR_MS), GP_EV_SIGN, gp->fault_count - 1);
    }
    node->fault = 0;
}

/* ---- strikes ----------------------------------------------------------------------------- */

static bool holds_slot(const struct gp *gp, uint32_t index)
{
    const struct node *known = core_side(gp, index);
    return known != NULL && known->d.job != 0 && known->d.job == gp->job;
}

static void host_down(struct gp *gp, uint32_t index, uint32_t category, uint32_t fault)
{
    struct gp_node *node = &gp->nodes[index];
    if (!node->up) {
        return;
    }
    if (holds_slot(gp, index)) {
        gp_train_halt(gp, category);
    }
    node->fault = fault + 1;
    gp_node_down(gp, index);
    plan_repair(gp, index, draw_repair(gp, &gp->options.category[category]));
}

static void strike(struct gp *gp)
{
    uint32_t category = gp->next_category;
    bool together = gp->next_together;
    uint32_t index = UINT32_MAX;
    if (gp->options.given != NULL) {
        index = gp->options.given[gp->given_next++].node;
        index = gp->nodes[index].up && gp->nodes[index].fault == 0 ? index : UINT32_MAX;
    } else {
        index = pick_node(gp);
    }
    plan_next(gp);
    if (index == UINT32_MAX || gp->fault_count == GP_FAULTS_MAX || gp->job == 0) {
        return;
    }
    const struct goodput_category *what = &gp->options.category[category];
    uint32_t fault = gp->fault_count++;
    gp->faults[fault] = (struct gp_fault){.category = category, .node = index, .at_ms = gp->now_ms};
    gp->result->failures++;
    gp->result->cost[category].count++;
    gp_trace(gp, "fault %u: %s on node %u", fault, what->word, index);
    if (what->how == GOODPUT_SILENT || together) {
        uint32_t first = together ? index / TOGETHER_HOSTS * TOGETHER_HOSTS : index;
        uint32_t last = together ? first + TOGETHER_HOSTS - 1 : index;
        for (uint32_t host = first; host <= last && host < gp->options.nodes; host++) {
            host_down(gp, host, category, fault);
        }
        return;
    }
    if (what->how == GOODPUT_CORRUPT) {
        gp_train_corrupt(gp, false);
    } else if (what->how == GOODPUT_SIGNAL || (what->how == GOODPUT_ABORT && gp_train_is_up(gp))) {
        if (holds_slot(gp, index)) {
            gp_train_halt(gp, category);
        }
    }
    if (what->repair_ms > 0 && what->how != GOODPUT_ABORT) {
        gp->nodes[index].fault = fault + 1;
    }
    gp->sign_ms = gp->now_ms + what->detect_ms;
    gp_at(gp, gp->sign_ms, GP_EV_SIGN, fault);
}

/* ---- signs ------------------------------------------------------------------------------- */

static void all_exit(struct gp *gp, uint32_t category)
{
    const struct job *job = core_job(gp->ctl.core, gp->job);
    if (!gp_train_is_up(gp)) {
        return; /* there is no program that could end */
    }
    gp_train_halt(gp, category);
    for (uint32_t slot = 0; slot < job->slot_count; slot++) {
        uint32_t id = core_slot(gp->ctl.core, job, slot)->d.node;
        if (id != 0) {
            gp_node_ranks_end(gp, gp_node_index(gp, id), RANK_EXITED, CODE_PROGRAM);
        }
    }
}

/* A node with a fault of its own: what it and others say; nobody is told twice of what was seen. */
static void signal_sign(struct gp *gp, struct gp_fault *fault, uint32_t index)
{
    const struct goodput_category *what = &gp->options.category[fault->category];
    bool holds = holds_slot(gp, fault->node);
    if (fault->again && !(holds && gp_train_is_up(gp))) {
        if (holds) { /* it waits until the node has something to do again */
            gp_at(gp, gp->now_ms + AGAIN_MS, GP_EV_SIGN, index);
        }
        return;
    }
    if (holds) {
        gp_train_halt(gp, fault->category);
    }
    bool stops = false;
    bool shown = gp_evidence_show(gp, fault->node, what->word, &stops);
    fault->again = !shown || !stops;
    if (fault->again && holds) { /* nobody stops the attempt: it ends by itself */
        gp_node_ranks_end(gp, fault->node, RANK_SIGNALED, SIGNAL_ABORT);
        gp_at(gp, gp->now_ms + AGAIN_MS, GP_EV_SIGN, index);
    }
    if (gp->nodes[fault->node].back_ms == 0) {
        plan_repair(gp, fault->node, draw_repair(gp, what));
    }
}

static void sign(struct gp *gp, uint32_t index)
{
    struct gp_fault *fault = &gp->faults[index];
    const struct goodput_category *what = &gp->options.category[fault->category];
    struct gp_node *node = &gp->nodes[fault->node];
    switch ((enum goodput_how)what->how) {
    case GOODPUT_SIGNAL:
        if (node->up && (!fault->again || node->fault == index + 1)) {
            node->fault = index + 1;
            signal_sign(gp, fault, index);
        }
        return;
    case GOODPUT_SILENT:
        host_down(gp, fault->node, fault->category, index);
        return;
    case GOODPUT_EXIT:
        all_exit(gp, fault->category);
        return;
    case GOODPUT_ABORT:
        node->doubt_ms = gp->now_ms;
        if (!gp_train_is_up(gp) || !holds_slot(gp, fault->node)) {
            return;
        }
        gp_train_halt(gp, fault->category);
        gp_node_ranks_end(gp, fault->node, RANK_SIGNALED, SIGNAL_ABORT);
        return;
    case GOODPUT_CORRUPT:
        gp_train_corrupt(gp, true);
        if (gp_train_is_up(gp) && holds_slot(gp, fault->node)) {
            gp_train_halt(gp, fault->category);
            gp_node_ranks_end(gp, fault->node, RANK_EXITED, CODE_OTHER_GPU);
        }
        if (node->up) {
            plan_repair(gp, fault->node, draw_repair(gp, what));
        }
        return;
    case GOODPUT_PLANNED:
        break;
    }
    CHECK(false);
}

/* ---- the operator ------------------------------------------------------------------------ */

static void plan_drain(struct gp *gp)
{
    if (gp->drain_gap_ms > 0) {
        gp_at(gp, gp->now_ms + draw(gp, goodput_exponential, gp->drain_gap_ms), GP_EV_DRAIN, 0);
    }
}

static void drain(struct gp *gp)
{
    uint32_t index = pick_node(gp);
    plan_drain(gp);
    if (index == UINT32_MAX) {
        return;
    }
    uint32_t id = core_side(gp, index)->d.node;
    struct request request = {.verb = REQUEST_DRAIN,
                              .nodes = &id,
                              .node_count = 1,
                              .when = WHEN_CHECKPOINT,
                              .reason = "planned maintenance"};
    gp_trace(gp, "drain of node %u", index);
    gp_ctl_request(gp, &request);
    gp->result->drains++;
    gp->result->cost[gp->planned_category].count++;
    plan_repair(gp, index, MAINTENANCE_MS);
}

static void fill_spec(const struct gp *gp, struct job_spec *spec)
{
    const struct goodput_options *options = &gp->options;
    uint32_t pipeline = 16;
    while (gp->slots % pipeline != 0) {
        pipeline /= 2;
    }
    sim_spec_fill(spec, gp->slots, pipeline, options->ranks_per_node);
    (void)text_copy(spec->name, sizeof(spec->name), "train");
    spec->drain_wait_ms = 600000;
    spec->stop_grace_ms = 30000;
    spec->recovery_grace_ms = options->stop_ms + 1000;
    spec->retries_user = 3;
    spec->retries_unknown = 3;
    spec->init_timeout_ms = options->init_ms + 600000ull;
    spec->start_timeout_ms = options->load_ms + 1200000ull;
    spec->first_step_ms = options->step_ms + 3600000ull;
    spec->step_timeout_ms = 5ull * options->step_ms + 1200000;
    spec->reader = READER_NONE; /* it tells of its saves itself: nobody looks for them */
}

static void submit(struct gp *gp)
{
    static const char *const text = "{}";
    struct job_spec spec;
    fill_spec(gp, &spec);
    struct request request = {.verb = REQUEST_SUBMIT, .spec = &spec, .text = text, .text_size = 2};
    gp->job = 1;
    gp_ctl_request(gp, &request);
    CHECK(core_job(gp->ctl.core, gp->job) != NULL);
}

static void person(struct gp *gp)
{
    const struct job *job = core_job(gp->ctl.core, gp->job);
    gp->person_ms = 0;
    if (core_globals(gp->ctl.core)->breaker_open || core_globals(gp->ctl.core)->paused) {
        struct request resume = {.verb = REQUEST_AUTOMATION,
                                 .automation = AUTOMATION_RESUME,
                                 .reason = "these nodes really failed"};
        gp->result->interventions++;
        gp_ctl_request(gp, &resume);
    }
    if (job == NULL || job->d.state != JOB_HELD) {
        return;
    }
    struct request request = {.verb = REQUEST_RELEASE, .job = gp->job, .reason = "looked at it"};
    gp_trace(gp, "a person releases the job: %s", job->d.reason);
    gp->result->interventions++;
    gp_ctl_request(gp, &request);
}

/* ---- all --------------------------------------------------------------------------------- */

void gp_fault_start(struct gp *gp)
{
    gp->planned_category = GP_OTHER;
    for (uint32_t index = 0; index < gp->options.category_count; index++) {
        if (gp->options.category[index].how == GOODPUT_PLANNED) {
            gp->planned_category = index;
        }
    }
    for (uint32_t index = 0; index < gp->options.nodes; index++) {
        gp->nodes[index].lemon = GOODPUT_ONE;
        if (gp->options.lemons) {
            gp->nodes[index].lemon = goodput_lemon[prng_below(&gp->prng, GOODPUT_QUANTILES)];
        }
    }
    gp->train.down_ms = gp->now_ms;
    gp->train.cause = GP_OTHER;
    gp_at(gp, gp->now_ms + SUBMIT_MS, GP_EV_SUBMIT, 0);
    plan_next(gp);
    plan_drain(gp);
}

void gp_fault_event(struct gp *gp, enum gp_event kind, uint32_t number)
{
    switch (kind) {
    case GP_EV_SUBMIT:
        submit(gp);
        return;
    case GP_EV_STRIKE:
    case GP_EV_HOST_DOWN:
        strike(gp);
        return;
    case GP_EV_SIGN:
        sign(gp, number);
        return;
    case GP_EV_DRAIN:
        drain(gp);
        return;
    case GP_EV_REPAIRED:
        repaired(gp, number);
        return;
    case GP_EV_PERSON:
        person(gp);
        return;
    default:
        CHECK(false);
    }
}
