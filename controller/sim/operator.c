/* operator.c: people: jobs are submitted, nodes drained, jobs held and cancelled, at any moment. */
#include "controller/sim/world.h"

#include <string.h>

#include "controller/sim/spec.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

struct sim_request *operator_request(struct sim *sim, uint8_t verb)
{
    struct sim_request *request = mem_alloc(1, sizeof(*request));
    request->request.id = ++sim->request_next;
    request->request.verb = verb;
    (void)text_copy(request->request.actor, NAME_SIZE, "olga");
    (void)text_copy(request->request.reason, TEXT_SIZE, "because");
    return request;
}

static void fill_spec(const struct sim_job_options *options, uint64_t number, struct job_spec *spec)
{
    sim_spec_fill(spec, options->slots, options->slots % 2 == 0 ? 2 : 1, options->ranks_per_node);
    (void)text_format(spec->name, NAME_SIZE, "job-%llu", (unsigned long long)number);
    spec->drain_wait_ms = 60000;
    spec->stop_grace_ms = 5000;
    spec->recovery_grace_ms = 2000;
    spec->retries_user = options->retries_user;
    spec->retries_unknown = options->retries_unknown;
    spec->start_timeout_ms = 60000;
    spec->init_timeout_ms = 120000;
    spec->first_step_ms = 120000;
    spec->save_interval_ms = options->interval_ms;
    spec->save_auto = options->interval_auto;
    spec->reserve = options->reserve;
    spec->reserve_auto = options->reserve_auto;
    spec->min_ready = options->min_ready;
}

void operator_submit(struct sim *sim, uint32_t index)
{
    struct sim_request *request = operator_request(sim, REQUEST_SUBMIT);
    uint64_t number = sim->job_next++;
    fill_spec(&sim->options.job[index % SIM_JOBS_MAX], number, &request->spec);
    request->request.spec = &request->spec;
    request->request.text = "{}";
    request->request.text_size = 2;
    ctl_request(sim, request);
}

/* ---- at random --------------------------------------------------------------------------- */

static uint32_t pick_job(struct sim *sim)
{
    uint32_t count = 0;
    uint32_t ids[SIM_JOBS_MAX + 8];
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(sim->ctl.core, index)) != NULL; index++) {
        if (!core_job_over(job) && count < ARRAY_SIZE(ids)) {
            ids[count++] = job->d.job;
        }
    }
    return count == 0 ? 0 : ids[sim_between(sim, 0, count - 1)];
}

/* A held one if there is any, three times of four: that is what a release is for. */
static uint32_t pick_held(struct sim *sim)
{
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(sim->ctl.core, index)) != NULL; index++) {
        if (job->d.state == JOB_HELD && sim_chance(sim, 750000)) {
            return job->d.job;
        }
    }
    return pick_job(sim);
}

static uint32_t pick_node(struct sim *sim)
{
    uint32_t count = core_node_count(sim->ctl.core);
    return count == 0 ? 0 : (uint32_t)sim_between(sim, 1, count);
}

/* In which phase of a recovery this job is struck, if in any. */
static void count_phase(struct sim *sim, uint32_t id, uint64_t counts[SIM_PHASE_COUNT])
{
    const struct job *job = core_job(sim->ctl.core, id);
    const struct recovery *recovery =
        job == NULL ? NULL : core_recovery(sim->ctl.core, job->d.recovery);
    if (recovery != NULL && recovery->d.phase >= PHASE_STOP) {
        counts[recovery->d.phase - PHASE_STOP]++;
    }
}

static void ask_node_of(struct sim *sim, uint8_t verb, uint32_t node)
{
    const struct node *known = core_node(sim->ctl.core, node);
    if (known == NULL) {
        return;
    }
    if (verb == REQUEST_DRAIN) {
        count_phase(sim, known->d.job, sim->stats.drained);
    }
    struct sim_request *request = operator_request(sim, verb);
    request->nodes[0] = node;
    request->request.nodes = request->nodes;
    request->request.node_count = 1;
    request->request.when = (uint8_t)sim_between(sim, WHEN_CHECKPOINT, WHEN_NOW);
    sim_trace(sim, "operator: verb %u on node %u", verb, node);
    ctl_request(sim, request);
}

static void ask_node(struct sim *sim, uint8_t verb)
{
    ask_node_of(sim, verb, pick_node(sim));
}

void operator_drain(struct sim *sim, uint32_t node)
{
    sim->stats.asked[SIM_DO_DRAIN]++;
    ask_node_of(sim, REQUEST_DRAIN, node);
}

static void ask_job_of(struct sim *sim, uint8_t verb, uint32_t job)
{
    if (job == 0) {
        return;
    }
    if (verb == REQUEST_CANCEL) {
        count_phase(sim, job, sim->stats.cancelled_in);
    }
    struct sim_request *request = operator_request(sim, verb);
    request->request.job = job;
    request->request.after_checkpoint = sim_chance(sim, 500000);
    sim_trace(sim, "operator: verb %u on job %u", verb, job);
    ctl_request(sim, request);
}

static void ask_job(struct sim *sim, uint8_t verb)
{
    ask_job_of(sim, verb, verb == REQUEST_RELEASE ? pick_held(sim) : pick_job(sim));
}

void operator_cancel(struct sim *sim, uint32_t job)
{
    sim->stats.asked[SIM_DO_CANCEL]++;
    ask_job_of(sim, REQUEST_CANCEL, job);
}

static void ask_automation(struct sim *sim, uint8_t word)
{
    struct sim_request *request = operator_request(sim, REQUEST_AUTOMATION);
    request->request.automation = word;
    ctl_request(sim, request);
}

static void undrain(struct sim *sim, uint32_t node, const char *code)
{
    struct sim_request *request = operator_request(sim, REQUEST_UNDRAIN);
    request->nodes[0] = node;
    request->request.nodes = request->nodes;
    request->request.node_count = 1;
    request->request.accept_inventory = true;
    (void)text_copy(request->request.clear_code, NAME_SIZE, code);
    ctl_request(sim, request);
}

/* What was found broken is repaired and given back, as a crew does all day. */
static bool repair_one(struct sim *sim)
{
    const struct core *core = sim->ctl.core;
    uint32_t count = core_node_count(core);
    for (uint32_t step = 0, start = pick_node(sim); step < count; step++) {
        uint32_t node = (start + step) % count + 1;
        const struct mark *mark = core_mark(core, node, 0);
        if (mark != NULL && mark->d.owner == MARK_HEALTH) {
            sim_trace(sim, "operator: node %u is repaired", node);
            undrain(sim, node, mark->d.code);
            return true;
        }
    }
    return false;
}

static void act(struct sim *sim, enum sim_verb verb)
{
    sim->stats.asked[verb]++;
    switch (verb) {
    case SIM_DO_SUBMIT:
        if (sim->job_next < SIM_JOBS_MAX) {
            operator_submit(sim, (uint32_t)sim->job_next);
        }
        return;
    case SIM_DO_CANCEL:
        ask_job(sim, REQUEST_CANCEL);
        return;
    case SIM_DO_HOLD:
        ask_job(sim, REQUEST_HOLD);
        return;
    case SIM_DO_RELEASE:
        ask_job(sim, REQUEST_RELEASE);
        return;
    case SIM_DO_SAVE:
        ask_job(sim, REQUEST_CHECKPOINT);
        return;
    case SIM_DO_RESTART:
        ask_job(sim, REQUEST_RESTART);
        return;
    case SIM_DO_DRAIN:
        ask_node(sim, REQUEST_DRAIN);
        return;
    case SIM_DO_UNDRAIN:
        if (!sim_chance(sim, 750000) || !repair_one(sim)) {
            ask_node(sim, REQUEST_UNDRAIN);
        }
        return;
    case SIM_DO_CORDON:
        ask_node(sim, REQUEST_CORDON);
        return;
    case SIM_DO_UNCORDON:
        ask_node(sim, REQUEST_UNCORDON);
        return;
    case SIM_DO_REMOVE:
        ask_node(sim, REQUEST_REMOVE);
        return;
    case SIM_DO_PAUSE:
        ask_automation(sim, sim_chance(sim, 500000) ? AUTOMATION_PAUSE : AUTOMATION_OBSERVE);
        return;
    case SIM_DO_RESUME:
        ask_automation(sim, AUTOMATION_RESUME);
        ask_automation(sim, AUTOMATION_ACT);
        return;
    }
}

void operator_act(struct sim *sim)
{
    if (sim->healed) {
        return;
    }
    uint64_t gap = sim->options.operator_gap_ms;
    sim_at(sim, sim->now_ms + sim_between(sim, gap / 4, gap * 2),
           (struct sim_event){.kind = SIM_EV_OPERATOR});
    uint32_t sum = 0;
    for (uint32_t verb = 0; verb < SIM_VERB_COUNT; verb++) {
        sum += sim->options.verb_weight[verb];
    }
    if (sum == 0 || !sim->ctl.running) {
        return;
    }
    uint64_t drawn = sim_between(sim, 0, sum - 1);
    for (uint32_t verb = 0; verb < SIM_VERB_COUNT; verb++) {
        if (drawn < sim->options.verb_weight[verb]) {
            act(sim, (enum sim_verb)verb);
            return;
        }
        drawn -= sim->options.verb_weight[verb];
    }
}

/* ---- when all is well again --------------------------------------------------------------- */

/* Repairs are done: every mark that a person may take away is taken away, held jobs go on. Marks
 * that say "not proven empty" stay: they are for the agents to clear. */
void operator_heal(struct sim *sim)
{
    const struct core *core = sim->ctl.core;
    if (core_globals(core)->paused || core_globals(core)->breaker_open) {
        ask_automation(sim, AUTOMATION_RESUME);
    }
    if (core_globals(core)->observe) {
        ask_automation(sim, AUTOMATION_ACT);
    }
    for (uint32_t node = 1; node <= core_node_count(core); node++) {
        for (uint32_t index = 0; index < core_mark_count(core, node); index++) {
            const struct mark *mark = core_mark(core, node, index);
            if (!text_equal(mark->d.code, "unproven")) {
                undrain(sim, node, mark->d.owner == MARK_OPERATOR ? "" : mark->d.code);
            }
        }
        if (core_node(core, node)->d.barred_jobs[0] != 0) {
            undrain(sim, node, "");
        }
        if (core_mark_count(core, node) > 0) {
            struct sim_request *request = operator_request(sim, REQUEST_UNCORDON);
            request->nodes[0] = node;
            request->request.nodes = request->nodes;
            request->request.node_count = 1;
            ctl_request(sim, request);
        }
    }
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(core, index)) != NULL; index++) {
        if (job->d.state == JOB_HELD) {
            struct sim_request *request = operator_request(sim, REQUEST_RELEASE);
            request->request.job = job->d.job;
            ctl_request(sim, request);
        }
    }
}
