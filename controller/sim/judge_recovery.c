/* judge_recovery.c: judges of recoveries and of what restrains them: that a job has one at a time
 * and its phases come in order, that nothing harmful is done while a breaker is open, that the
 * breaker for evictions opens in time, that no node is taken for lost that is well; and in which
 * situations a run has been. Like the others they know only what became durable, and the world. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/text.h"

#define FROM(phase) (1u << (phase))

/* recovery.c's picture: from which phases each may begin. */
static const uint16_t phase_from[phase_count] = {
    [PHASE_DETECT] = 0,
    [PHASE_STOP] = FROM(PHASE_DETECT) | FROM(PHASE_LAUNCH) | FROM(PHASE_INITIALISE) |
                   FROM(PHASE_RESTORING) | FROM(PHASE_FIRST_STEP),
    [PHASE_PLAN] = FROM(PHASE_DETECT) | FROM(PHASE_STOP) | FROM(PHASE_CHECK),
    [PHASE_CHECK] = FROM(PHASE_PLAN),
    [PHASE_LAUNCH] = FROM(PHASE_CHECK),
    [PHASE_INITIALISE] = FROM(PHASE_LAUNCH),
    [PHASE_RESTORING] = FROM(PHASE_INITIALISE),
    [PHASE_FIRST_STEP] = FROM(PHASE_RESTORING),
};

enum {
    POISON_STRIKES_MAX = 16, /* 10 recoveries without progress are borne, and a few that are free */
    RULE_FLOOR = 4,
    HOUR_FLOOR = 8,
    WELL_MS = 30000, /* so long a node must have been well to be surely in reach */
    STUCK_MS = 20 * 60000,
    ANSWER_MS = 60000, /* an agent says again every few seconds what was not answered */
};
#define HOUR_MS (60ull * 60 * 1000)

static void seen(struct sim *sim, enum sim_situation situation)
{
    sim->stats.seen[situation]++;
}

/* ---- one recovery a job, phases in order -------------------------------------------------- */

static void on_opened(struct sim *sim, const struct record_recovery_opened *u)
{
    struct sim_shadow_job *job = shadow_job(sim, u->job);
    sim->stats.judged[SIM_JUDGE_PHASES]++;
    if (job == NULL || job->recovery != 0) {
        sim_object(sim, SIM_JUDGE_PHASES, "recovery %u opens for job %u while %u is open",
                   u->recovery, u->job, job == NULL ? 0 : job->recovery);
        return;
    }
    job->recovery = u->recovery;
    job->phase = PHASE_DETECT;
    job->merged = 0;
    job->recovering_ms = sim->now_ms;
}

static void on_phase(struct sim *sim, struct sim_shadow_job *job,
                     const struct record_recovery_phase *u)
{
    sim->stats.judged[SIM_JUDGE_PHASES]++;
    uint8_t from = job->phase;
    if (u->phase == PHASE_CHECK && sim_mutate(sim, SIM_EDIT_PHASE)) {
        from = PHASE_LAUNCH;
    }
    if (u->recovery != job->recovery || (phase_from[u->phase] & FROM(from)) == 0) {
        sim_object(sim, SIM_JUDGE_PHASES, "job %u: recovery %u goes from %s to %s, %u is open",
                   job->job, u->recovery, WORD(phase, from), WORD(phase, u->phase), job->recovery);
    }
    if (from == PHASE_CHECK && u->phase == PHASE_PLAN) {
        seen(sim, SIM_SEEN_REPLANNED);
    }
    job->phase = u->phase;
    aim_phase(sim, job->job, u->phase);
}

static void on_closed(struct sim *sim, struct sim_shadow_job *job,
                      const struct record_recovery_closed *u)
{
    sim->stats.judged[SIM_JUDGE_PHASES]++;
    if (u->recovery != job->recovery ||
        (u->outcome == OUTCOME_RECOVERED && job->phase != PHASE_FIRST_STEP)) {
        sim_object(sim, SIM_JUDGE_PHASES, "job %u: recovery %u is %s in phase %s, %u is open",
                   job->job, u->recovery, WORD(outcome, u->outcome), WORD(phase, job->phase),
                   job->recovery);
    }
    job->recovery = 0;
}

/* ---- breakers ----------------------------------------------------------------------------- */

static void harmful(struct sim *sim, const struct sim_shadow_job *job, const char *what)
{
    const struct sim_shadow *shadow = &sim->shadow;
    bool open = shadow->silence || shadow->paused || shadow->observes;
    open = open || (job != NULL && job->attempted && sim_mutate(sim, SIM_EDIT_BREAKER));
    sim->stats.judged[SIM_JUDGE_BREAKERS]++;
    if (open && (job == NULL || job->state != JOB_STOPPING)) {
        sim_object(sim, SIM_JUDGE_BREAKERS, "job %u: %s while %s", job == NULL ? 0 : job->job, what,
                   shadow->silence  ? "the breaker for silence is open"
                   : shadow->paused ? "automation is paused"
                                    : "automation only observes");
    }
}

static struct sim_shadow_incident *incident_of(struct sim *sim, uint32_t id)
{
    return &sim->shadow.incidents[id % SIM_INCIDENTS_MAX];
}

static bool is_counted(const char *rule)
{
    return !text_equal(rule, "node-lost") && !text_equal(rule, "lost-together") &&
           !text_equal(rule, "operator");
}

/* What was evicted by one rule in a day, and by all in an hour, since a person last looked. */
static void judge_rate(struct sim *sim, const struct sim_shadow_incident *last, uint64_t now_ms)
{
    uint32_t by_rule = 0;
    uint32_t in_hour = 0;
    uint32_t free_nodes = 0;
    uint32_t nodes = 0;
    for (uint32_t id = 0; id < SIM_INCIDENTS_MAX; id++) {
        const struct sim_shadow_incident *one = &sim->shadow.incidents[id];
        bool counts = one->struck && one->opened_service_ms >= sim->shadow.resumed_service_ms;
        uint64_t age_ms = now_ms - one->struck_service_ms;
        by_rule += counts && age_ms <= 24 * HOUR_MS && text_equal(one->rule, last->rule) ? 1 : 0;
        in_hour += counts && age_ms <= HOUR_MS ? 1 : 0;
    }
    for (uint32_t node = 1; node < ARRAY_SIZE(sim->shadow.nodes); node++) {
        const struct sim_shadow_node *one = &sim->shadow.nodes[node];
        bool is_free = one->life == NODE_READY || one->life == NODE_PROBATION;
        free_nodes += one->known && is_free ? 1 : 0;
        nodes += one->known ? 1 : 0;
    }
    uint32_t rule_limit = free_nodes / 4 > RULE_FLOOR ? free_nodes / 4 : RULE_FLOOR;
    uint32_t hour_limit = nodes / 100 > HOUR_FLOOR ? nodes / 100 : HOUR_FLOOR;
    sim->stats.judged[SIM_JUDGE_BREAKERS]++;
    if (by_rule > rule_limit || in_hour > hour_limit) {
        sim_object(sim, SIM_JUDGE_BREAKERS, "%u evictions by %s in a day (%u), %u in an hour (%u)",
                   by_rule, last->rule, rule_limit, in_hour, hour_limit);
    }
}

static void on_strike(struct sim *sim, const struct record *record)
{
    const struct record_strike *u = &record->u.strike;
    struct sim_shadow_incident *incident = incident_of(sim, u->incident);
    harmful(sim, shadow_job(sim, record->job), "a node is evicted");
    if (incident->struck || !is_counted(incident->rule)) {
        return;
    }
    incident->struck = true;
    incident->struck_service_ms = record->service_ms;
    judge_rate(sim, incident, record->service_ms);
}

static void on_automation(struct sim *sim, const struct record *record)
{
    const struct record_automation *u = &record->u.automation;
    struct sim_shadow *shadow = &sim->shadow;
    if (u->paused && text_equal(u->actor, "keepstep")) {
        seen(sim, SIM_SEEN_RATE);
    }
    if (shadow->paused && !u->paused) {
        sim->stats.judged[SIM_JUDGE_BREAKERS]++;
        if (text_equal(u->actor, "keepstep")) {
            sim_object(sim, SIM_JUDGE_BREAKERS, "automation resumes itself");
        }
        shadow->resumed_service_ms = record->service_ms;
    }
    shadow->paused = u->paused;
    shadow->observes = u->observe;
}

/* ---- verdicts ----------------------------------------------------------------------------- */

static void on_verdict(struct sim *sim, const struct record_verdict *u)
{
    static const struct {
        const char *rule;
        enum sim_situation situation;
    } rows[] = {{"lost-together", SIM_SEEN_FACILITY},
                {"fatal-signal", SIM_SEEN_FATAL},
                {"hang", SIM_SEEN_HANG},
                {"poison", SIM_SEEN_POISON},
                {"same-step", SIM_SEEN_POISON},
                {"many-nodes", SIM_SEEN_POISON}};
    for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
        if (text_equal(u->rule, rows[row].rule)) {
            seen(sim, rows[row].situation);
        }
    }
    struct sim_shadow_incident *incident = incident_of(sim, u->incident);
    (void)text_copy(incident->rule, sizeof(incident->rule), u->rule);
}

void judge_poison(struct sim *sim, struct sim_shadow_job *job)
{
    uint32_t strikes = job->poison_strikes;
    strikes += sim_mutate(sim, SIM_EDIT_POISON) ? POISON_STRIKES_MAX : 0;
    sim->stats.judged[SIM_JUDGE_POISONED]++;
    if (strikes > POISON_STRIKES_MAX) {
        sim_object(sim, SIM_JUDGE_POISONED, "job %u has failed %u times at one step and goes on",
                   job->job, strikes);
    }
}

/* ---- losses ------------------------------------------------------------------------------- */

static bool by_silence(const struct record_node_lost *lost)
{
    return lost->how != LOST_REBOOTED && lost->how != LOST_GONE;
}

/* By silence a node is lost that does not answer. One that has been well and in reach for long, as
 * has the controller, is heard. Looked at when it is decided: it may become durable much later. */
void judge_lost(struct sim *sim, const struct record_node_lost *lost)
{
    const struct node *node = core_node(sim->ctl.core, lost->node);
    uint64_t index = 0;
    if (!by_silence(lost) ||
        text_to_u64(node->d.name + strlen("gpu-"), SIM_HOSTS_MAX - 1, &index) < 0) {
        return;
    }
    const struct sim_host *host = &sim->hosts[index];
    const struct sim_controller *ctl = &sim->ctl;
    bool deaf = sim->options.mutation == SIM_DEAF; /* nobody is in reach, however well */
    bool in_reach = !deaf && agent_runs(host) && host->slow_ms == 0 && host->flap_ms == 0 &&
                    net_path_open(sim, (uint32_t)index, NET_CONTROLLER) &&
                    net_path_open(sim, NET_CONTROLLER, (uint32_t)index);
    bool well = sim->now_ms >= host->trouble_ms + WELL_MS &&
                sim->now_ms >= ctl->trouble_ms + WELL_MS &&
                sim->now_ms >= ctl->stalled_ms + WELL_MS && !ctl->told_failing;
    sim->stats.judged[SIM_JUDGE_ALIVE]++;
    if ((in_reach && well) || sim_mutate(sim, SIM_EDIT_ALIVE)) {
        sim_object(sim, SIM_JUDGE_ALIVE, "%s is lost (%s), and is well and in reach since %llu s",
                   host->name, WORD(lost_how, lost->how),
                   (unsigned long long)((sim->now_ms - host->trouble_ms) / 1000));
    }
}

static void judge_stale_ranks(struct sim *sim, uint32_t node)
{
    const struct sim_host *host = &sim->hosts[sim->shadow.nodes[node].host];
    for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
        const struct sim_shim *shim = &host->shims[index];
        const struct sim_shadow_job *job = shim->used ? shadow_job(sim, shim->job) : NULL;
        if (job != NULL && shim_lives(shim) && shim->attempt < job->attempt) {
            seen(sim, SIM_SEEN_STALE_RANKS);
        }
    }
}

/* ---- a new controller --------------------------------------------------------------------- */

/* What it would restore is what the journal says, also right after a start. */
void judge_new_core(struct sim *sim)
{
    const struct core *core = sim->ctl.core;
    if (sim->shadow.folded != sim->ctl.durable || sim->over) {
        return; /* another store than the one that the judges have read */
    }
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(core, index)) != NULL; index++) {
        if (core_job_over(job)) {
            continue;
        }
        const struct checkpoint *best = core_checkpoint_best(core, job);
        uint64_t step = best == NULL ? 0 : best->d.step;
        uint64_t wanted = shadow_newest_good(sim, job->d.job);
        wanted += wanted > 0 && sim_mutate(sim, SIM_EDIT_STEP) ? 1 : 0;
        sim->stats.judged[SIM_JUDGE_STEP]++;
        if (step != wanted) {
            sim_object(sim, SIM_JUDGE_STEP,
                       "job %u: a new controller would restore step %llu, step %llu is complete",
                       job->d.job, (unsigned long long)step, (unsigned long long)wanted);
        }
    }
}

/* ---- after the healing -------------------------------------------------------------------- */

void judge_resumes(struct sim *sim)
{
    const struct job *job;
    for (uint32_t index = 0; (job = core_job_at(sim->ctl.core, index)) != NULL; index++) {
        struct sim_shadow_job *shadow = shadow_job(sim, job->d.job);
        bool at_work = job->d.state == JOB_STARTING || job->d.state == JOB_RECOVERING;
        if (shadow == NULL || shadow->recovery == 0 || !at_work) {
            continue;
        }
        bool says_why = job->waiting_spare && job->wait_text[0] != '\0';
        uint64_t since_ms =
            shadow->recovering_ms > sim->healed_at_ms ? shadow->recovering_ms : sim->healed_at_ms;
        shadow->recovering_ms = says_why ? sim->now_ms : shadow->recovering_ms;
        bool stuck = sim->now_ms - since_ms > STUCK_MS || sim_mutate(sim, SIM_EDIT_STUCK);
        sim->stats.judged[SIM_JUDGE_RESUMES]++;
        if (stuck && !says_why) {
            const struct recovery *recovery = core_recovery(sim->ctl.core, job->d.recovery);
            sim_object(sim, SIM_JUDGE_RESUMES, "job %u is %s in %s for %llu s, all is healed: %s",
                       job->d.job, WORD(job_state, job->d.state),
                       recovery == NULL ? "no phase" : WORD(phase, recovery->d.phase),
                       (unsigned long long)((sim->now_ms - since_ms) / 1000), job->wait_text);
        }
    }
}

static void judge_answers_to(struct sim *sim, const struct sim_host *host,
                             const struct sim_shim *shim)
{
    for (uint32_t index = 0; index < shim->rank_count; index++) {
        const struct sim_rank *rank = &shim->ranks[index];
        for (uint32_t m = 0; rank->alive && rank->mails != NULL && m < SIM_MAILS_MAX; m++) {
            const struct sim_mail *mail = &rank->mails[m];
            uint64_t since_ms =
                mail->asked_ms > sim->healed_at_ms ? mail->asked_ms : sim->healed_at_ms;
            if (mail->open && sim->now_ms - since_ms > ANSWER_MS) {
                sim_object(sim, SIM_JUDGE_ANSWERED,
                           "job %u rank %u on %s told of its save of step %llu and hears nothing",
                           shim->job, shim->first_rank + index, host->name,
                           (unsigned long long)mail->checkpoint.step);
            }
        }
        sim->stats.judged[SIM_JUDGE_ANSWERED] += rank->alive && rank->mail_next > 0 ? 1 : 0;
    }
}

/* Of jobs that run, on hosts in reach: a rank must not wait for a word about its save. */
void judge_answers(struct sim *sim)
{
    const struct core *core = sim->ctl.core;
    for (uint32_t index = 0; index < sim->host_count; index++) {
        const struct sim_host *host = &sim->hosts[index];
        const struct node *node = core_node(core, core_node_find(core, host->name));
        const struct job *job = node == NULL ? NULL : core_job(core, node->d.job);
        bool runs = agent_runs(host) && job != NULL && job->d.state == JOB_RUNNING &&
                    node->session != 0 && node->link == LINK_UP;
        for (uint32_t s = 0; runs && s < SIM_SHIMS_MAX; s++) {
            const struct sim_shim *shim = &host->shims[s];
            if (shim->up && shim->job == job->d.job && shim->attempt == job->d.attempt) {
                judge_answers_to(sim, host, shim);
            }
        }
    }
}

/* ---- all ---------------------------------------------------------------------------------- */

static void on_merged(struct sim *sim, struct sim_shadow_job *job)
{
    job->merged++;
    seen(sim, job->merged == 1 ? SIM_SEEN_MERGED : SIM_SEEN_MERGED_AGAIN);
    job->recovering_ms = sim->now_ms;
}

static void on_job_record(struct sim *sim, struct sim_shadow_job *job, const struct record *record)
{
    switch (record->kind) {
    case RECORD_recovery_phase_kind:
        on_phase(sim, job, &record->u.recovery_phase);
        return;
    case RECORD_recovery_merged_kind:
        on_merged(sim, job);
        return;
    case RECORD_recovery_closed_kind:
        on_closed(sim, job, &record->u.recovery_closed);
        return;
    case RECORD_attempt_made_kind:
        harmful(sim, job, "an attempt is made");
        return;
    case RECORD_launch_ordered_kind:
        harmful(sim, job, "a launch is ordered");
        return;
    case RECORD_job_moved_kind:
        if (record->u.job_moved.to == JOB_HELD) {
            seen(sim, SIM_SEEN_HELD);
            job->poison_strikes = 0;
        }
        return;
    default:
        return;
    }
}

/* A repair has moved, or what a node must pass has changed. */
static void on_mending(struct sim *sim, const struct record *record)
{
    const struct record_repair_moved *moved = &record->u.repair_moved;
    if (record->kind == RECORD_validation_set_kind) {
        bool failed = text_equal(record->event.type, "ValidationFailed");
        sim->stats.seen[SIM_SEEN_UNFIT] += failed ? 1 : 0;
        return;
    }
    if (moved->repair == REPAIR_ORDERED) {
        seen(sim, SIM_SEEN_ORDERED);
        harmful(sim, NULL, "a hook is ordered");
    }
    sim->stats.seen[SIM_SEEN_PERSON] += moved->repair == REPAIR_PERSON ? 1 : 0;
    sim->stats.seen[SIM_SEEN_REPAIRED] += moved->repaired ? 1 : 0;
}

void judge_recovery_record(struct sim *sim, const struct record *record)
{
    struct sim_shadow_job *job = record->job == 0 ? NULL : shadow_job(sim, record->job);
    switch (record->kind) {
    case RECORD_recovery_opened_kind:
        on_opened(sim, &record->u.recovery_opened);
        return;
    case RECORD_incident_opened_kind:
        *incident_of(sim, record->u.incident_opened.incident) =
            (struct sim_shadow_incident){.opened_service_ms = record->service_ms};
        return;
    case RECORD_verdict_kind:
        on_verdict(sim, &record->u.verdict);
        return;
    case RECORD_strike_kind:
        on_strike(sim, record);
        return;
    case RECORD_automation_kind:
        on_automation(sim, record);
        return;
    case RECORD_breaker_kind:
        sim->shadow.silence = record->u.breaker.open;
        sim->stats.seen[SIM_SEEN_SILENCE] += record->u.breaker.open ? 1 : 0;
        return;
    case RECORD_node_lost_kind:
        if (by_silence(&record->u.node_lost)) {
            harmful(sim, NULL, "a node is taken for lost");
        }
        return;
    case RECORD_node_back_kind:
        judge_stale_ranks(sim, record->u.node_back.node);
        return;
    case RECORD_repair_moved_kind:
    case RECORD_validation_set_kind:
        on_mending(sim, record);
        return;
    case RECORD_node_moved_kind:
        sim->stats.seen[SIM_SEEN_PROBATION] += record->u.node_moved.to == NODE_PROBATION ? 1 : 0;
        return;
    case RECORD_mark_set_kind:
        sim->stats.seen[SIM_SEEN_FENCED] += text_equal(record->u.mark_set.code, "unproven") ? 1 : 0;
        return;
    case RECORD_checkpoint_moved_kind:
        sim->stats.seen[SIM_SEEN_CORRUPT] +=
            record->u.checkpoint_moved.state == CKPT_CORRUPT ? 1 : 0;
        return;
    case RECORD_interval_chosen_kind:
        sim->stats.seen[SIM_SEEN_INTERVAL] += record->u.interval_chosen.interval_saves > 0 ? 1 : 0;
        return;
    case RECORD_save_asked_kind: /* what a person asked for, or a planned stop, is told of */
        sim->stats.seen[SIM_SEEN_ASKED] += record->event.type[0] == '\0' ? 1 : 0;
        return;
    case RECORD_reserve_chosen_kind:
        seen(sim, SIM_SEEN_RESERVE);
        return;
    case RECORD_spares_low_kind:
        seen(sim, record->u.spares_low.low ? SIM_SEEN_SPARES_LOW : SIM_SEEN_SPARES_READY);
        return;
    case RECORD_recovery_plan_kind:
        sim->stats.seen[SIM_SEEN_OLDER] += record->u.recovery_plan.skipped > 0 ? 1 : 0;
        return;
    default:
        if (job != NULL) {
            on_job_record(sim, job, record);
        }
        return;
    }
}
