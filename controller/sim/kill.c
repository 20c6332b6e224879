/* kill.c: one scenario, killed or struck at every single record.
 *
 * The scenario goes by what happens and not by the clock, so it is the same story however often
 * somebody dies: a job runs; when its first attempt has made some steps, a node is killed whole;
 * when the second has, a rank ends by a signal; when the third has, a node is drained; the fourth
 * runs to the end. A run is summed up by what must not depend on deaths: how the job ended, which
 * attempts there were, and how often each rank of each was started. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/text.h"

enum {
    HOSTS = 6,
    SLOTS = 4,
    RANKS = 2,
    LAST_STEP = 40,
    ACT_STEP = 6, /* steps that an attempt must have made before it is struck */
    STORY_MS = 20 * 60 * 1000,
    SUMMARY_SIZE = 256,
};

struct sim_script {
    uint8_t strike; /* enum strike: what happens once so many records are durable */
    uint64_t strike_at;
    uint32_t acts; /* that have struck */
    uint64_t host; /* kill mode: whose record, HOSTS = the controller's */
    uint32_t record;
    uint8_t cut;
};

/* ---- the story --------------------------------------------------------------------------- */

static const struct sim_train *train_of(const struct sim *sim, uint32_t attempt)
{
    for (uint32_t index = 0; index < SIM_TRAINS_MAX; index++) {
        const struct sim_train *train = &sim->trains[index];
        if (train->state != SIM_TRAIN_FREE && train->attempt == attempt) {
            return train;
        }
    }
    return NULL;
}

static void strike(struct sim *sim, const struct sim_train *train, uint32_t act)
{
    uint32_t host = train->hosts[act + 1]; /* another slot each time */
    struct sim_shim *shim = shim_find(&sim->hosts[host], train->job, train->attempt);
    if (act == 0) {
        host_down(sim, host, STORY_MS, false, "killed by the story");
        sim->hosts[host].broken = true;
    } else if (act == 1) {
        CHECK(shim != NULL);
        shim_rank_end(sim, host, (uint32_t)(shim - sim->hosts[host].shims), 1, RANK_SIGNALED, 9, 0);
    } else {
        struct sim_request *request = operator_request(sim, REQUEST_DRAIN);
        request->nodes[0] = core_node_find(sim->ctl.core, sim->hosts[host].name);
        request->request.nodes = request->nodes;
        request->request.node_count = 1;
        request->request.when = WHEN_CHECKPOINT;
        ctl_request(sim, request);
    }
}

/* ---- and what strikes it from outside ---------------------------------------------------- */

enum strike {
    STRIKE_NONE,
    STRIKE_CANCEL,
    STRIKE_DRAIN,
    STRIKE_RANK,
    STRIKE_HOST,
    STRIKE_HOSTS,
    STRIKE_CUT
};
static const char *const strike_words[] = {
    "nothing happens", "the job is cancelled", "a node is drained", "a rank ends",
    "a host dies",     "two hosts die",        "a node is cut off"};
enum { BACK_MS = 30000, CUT_MS = 20000, LATE_RECORDS = 12, MORE_HOSTS = 3 };

static void ask(struct sim *sim, uint8_t verb, uint32_t job, uint32_t node)
{
    struct sim_request *request = operator_request(sim, verb);
    request->request.job = job;
    request->nodes[0] = node;
    request->request.nodes = request->nodes;
    request->request.node_count = 1;
    request->request.when = WHEN_NOW;
    ctl_request(sim, request);
}

static void end_a_rank(struct sim *sim, uint32_t from)
{
    for (uint32_t step = 0; step < HOSTS; step++) {
        uint32_t host = (from + step) % HOSTS;
        for (uint32_t index = 0; index < SIM_SHIMS_MAX; index++) {
            const struct sim_shim *shim = &sim->hosts[host].shims[index];
            if (shim->up && shim->ranks[0].alive) {
                shim_rank_end(sim, host, index, 0, RANK_EXITED, 1, 0);
                return;
            }
        }
    }
}

/* Which host it is follows from the record: all of them have their turn. */
static void strike_from_outside(struct sim *sim, const struct job *job)
{
    struct sim_script *script = sim->script_state;
    uint32_t host = (uint32_t)(script->strike_at % HOSTS);
    switch ((enum strike)script->strike) {
    case STRIKE_CANCEL:
        ask(sim, REQUEST_CANCEL, job->d.job, 1);
        return;
    case STRIKE_DRAIN:
        ask(sim, REQUEST_DRAIN, 0, host + 1 <= core_node_count(sim->ctl.core) ? host + 1 : 1);
        return;
    case STRIKE_RANK:
        end_a_rank(sim, host);
        return;
    case STRIKE_HOSTS:
        host_down(sim, (host + 2) % HOSTS, BACK_MS, false, "with another one");
        host_down(sim, host, BACK_MS, false, "struck");
        return;
    case STRIKE_HOST:
        host_down(sim, host, BACK_MS, false, "struck");
        return;
    case STRIKE_CUT:
        sim->hosts[host].island = host + 1;
        fault_undo_later(sim, SIM_CUT_GROUP, host, CUT_MS);
        net_changed(sim, host);
        return;
    case STRIKE_NONE:
        return;
    }
}

/* Operators try again until their request is durable: the drain must not be lost by a death. */
static bool drain_is_lost(const struct sim *sim)
{
    for (uint64_t index = 0; index < sim->ctl.durable; index++) {
        if (sim->ctl.journal[index].kind == RECORD_mark_set_kind &&
            sim->ctl.journal[index].u.mark_set.owner == MARK_OPERATOR) {
            return false;
        }
    }
    return true;
}

/* The same for the submission: its answer never came. */
static void submit_again(struct sim *sim)
{
    if (sim->ctl.running && sim->ctl.life > 1 && sim->ctl.first == NULL &&
        sim->ctl.record_count == sim->ctl.durable) {
        sim->job_next = 0; /* the same file under the same name */
        operator_submit(sim, 0);
    }
}

static void tell_story(struct sim *sim)
{
    struct sim_script *script = sim->script_state;
    const struct job *job = sim->ctl.running ? core_job_at(sim->ctl.core, 0) : NULL;
    if (job == NULL) {
        submit_again(sim);
        return;
    }
    if (script->strike != STRIKE_NONE && sim->ctl.durable >= script->strike_at) {
        strike_from_outside(sim, job);
        script->strike = STRIKE_NONE;
    }
    if (script->acts < 3) {
        const struct sim_train *train = train_of(sim, job->d.attempt);
        bool ripe = train != NULL && train->state == SIM_TRAIN_STEP &&
                    train->step >= train->restore_step + ACT_STEP && job->d.state == JOB_RUNNING &&
                    job->d.attempt >= script->acts && job->step > job->d.restore_step;
        if (ripe) {
            strike(sim, train, script->acts);
            script->acts++;
        }
    } else if (job->d.state == JOB_RUNNING && job->d.attempt == 2 && sim->ctl.first == NULL &&
               sim->ctl.record_count == sim->ctl.durable && drain_is_lost(sim)) {
        script->acts = 2;
    }
    if (core_job_over(job) && sim->ctl.record_count == sim->ctl.durable) {
        sim->over = true;
    }
}

static void make_options(struct sim_options *options, uint64_t seed)
{
    memset(options, 0, sizeof(*options));
    options->seed = seed;
    options->hosts = HOSTS;
    options->hosts_per_rack = 3;
    options->racks_per_leaf = 1;
    options->jobs = 1;
    options->job[0] = (struct sim_job_options){.slots = SLOTS,
                                               .ranks_per_node = RANKS,
                                               .steps = LAST_STEP,
                                               .step_ms = 500,
                                               .save_every = 4,
                                               .save_ms = 200,
                                               .init_ms = 300,
                                               .load_ms = 200,
                                               .followers_ms = 1000,
                                               .retries_user = 3,
                                               .retries_unknown = 5};
    options->chaos_ms = STORY_MS;
    options->delay_ms[1] = 3;
    options->commit_ms[0] = 1;
    options->commit_ms[1] = 4;
    options->fault_gap_ms = 1;
    options->operator_gap_ms = 1;
    options->start_grace_ms = 1000;
    options->fence_after_ms = 600000;
}

/* ---- one run ----------------------------------------------------------------------------- */

struct story {
    enum sim_result result;
    uint64_t controller_records;
    uint32_t agent_records[HOSTS];
    bool struck; /* the death asked for has happened */
    char summary[SUMMARY_SIZE];
    char text[SUMMARY_SIZE];
};

static uint32_t starts_of(const struct sim *sim, uint32_t attempt)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < sim->start_count; index++) {
        count += sim->starts[index].attempt == attempt ? sim->starts[index].total : 0;
    }
    return count;
}

static void sum_up(const struct sim *sim, struct story *ret_story)
{
    const struct job *job = sim->ctl.running ? core_job_at(sim->ctl.core, 0) : NULL;
    (void)text_format(ret_story->summary, SUMMARY_SIZE, "%s at attempt %u; processes started: %u",
                      job == NULL ? "no job" : WORD(job_state, job->d.state),
                      job == NULL ? 0 : job->d.attempt, starts_of(sim, 0));
    for (uint32_t attempt = 1; job != NULL && attempt <= job->d.attempt && attempt < 16;
         attempt++) {
        char part[16];
        (void)text_format(part, sizeof(part), " %u", starts_of(sim, attempt));
        size_t used = strlen(ret_story->summary);
        (void)text_copy(ret_story->summary + used, SUMMARY_SIZE - used, part);
    }
}

static void run_story(uint64_t seed, struct sim_script script, struct story *ret_story,
                      void (*line)(void *context, const char *line), void *line_context)
{
    struct sim_options options;
    make_options(&options, seed);
    options.hosts += script.strike != STRIKE_NONE ? MORE_HOSTS : 0; /* whom nobody repairs */
    options.line = line;
    options.line_context = line_context;
    memset(ret_story, 0, sizeof(*ret_story));
    struct sim *sim = sim_create(&options);
    sim->scripted = true;
    sim->script = tell_story;
    sim->script_state = &script;
    if (script.cut != SIM_CUT_NONE && script.host == HOSTS) {
        sim->ctl.kill_at = script.record;
        sim->ctl.cut = script.cut;
    } else if (script.cut != SIM_CUT_NONE) {
        sim->hosts[script.host].kill_at = script.record;
        sim->hosts[script.host].cut = script.cut;
    }
    ret_story->result = sim_run(sim);
    ret_story->controller_records = sim->ctl.durable;
    for (uint32_t host = 0; host < HOSTS; host++) {
        ret_story->agent_records[host] = sim->hosts[host].record_count;
    }
    ret_story->struck =
        script.host == HOSTS ? sim->ctl.kill_at == 0 : sim->hosts[script.host].kill_at == 0;
    sum_up(sim, ret_story);
    (void)text_copy(ret_story->text, SUMMARY_SIZE, sim_result_text(sim));
    (void)sim_free(sim);
}

/* ---- all runs ---------------------------------------------------------------------------- */

static bool same(const struct story *first, const struct story *killed, const char *who,
                 uint32_t record, uint8_t cut, struct sim_kill_report *report)
{
    if (killed->result == SIM_GOOD && text_equal(first->summary, killed->summary)) {
        return true;
    }
    (void)text_format(report->text, sizeof(report->text),
                      "%s killed %s record %u: %s%s%s; unhurt: %s", who,
                      cut == SIM_CUT_BEFORE ? "before" : "after", record, killed->summary,
                      killed->text[0] != '\0' ? "; " : "", killed->text, first->summary);
    return false;
}

/* Both deaths at one record of one process. */
static enum sim_result kill_at(uint64_t seed, uint64_t host, uint32_t record,
                               const struct story *first, struct sim_kill_report *report)
{
    for (uint8_t cut = SIM_CUT_BEFORE; cut <= SIM_CUT_AFTER; cut++) {
        struct story story;
        char who[NAME_SIZE];
        (void)text_format(who, sizeof(who), host == HOSTS ? "controller" : "agent %u",
                          (uint32_t)host);
        run_story(seed, (struct sim_script){.host = host, .record = record, .cut = cut}, &story,
                  NULL, NULL);
        report->runs++;
        if (!story.struck) {
            (void)text_format(report->text, sizeof(report->text),
                              "%s wrote no record %u in a run where it was to die there", who,
                              record);
            return SIM_SAFETY;
        }
        if (!same(first, &story, who, record, cut, report)) {
            return story.result == SIM_GOOD ? SIM_SAFETY : story.result;
        }
    }
    return SIM_GOOD;
}

enum sim_result sim_kill_every_record(uint64_t seed, struct sim_kill_report *ret_report,
                                      void (*line)(void *context, const char *line),
                                      void *line_context)
{
    memset(ret_report, 0, sizeof(*ret_report));
    struct story first;
    run_story(seed, (struct sim_script){.host = HOSTS}, &first, line, line_context);
    ret_report->runs = 1;
    ret_report->controller_records = (uint32_t)first.controller_records;
    if (first.result != SIM_GOOD || strncmp(first.summary, "succeeded at attempt 3;", 23) != 0) {
        (void)text_format(ret_report->text, sizeof(ret_report->text), "the unhurt run: %s; %s",
                          first.summary, first.text);
        return first.result == SIM_GOOD ? SIM_LIVENESS : first.result;
    }
    enum sim_result result = SIM_GOOD;
    for (uint32_t record = 1; record <= first.controller_records && result == SIM_GOOD; record++) {
        result = kill_at(seed, HOSTS, record, &first, ret_report);
    }
    for (uint64_t host = 0; host < HOSTS && result == SIM_GOOD; host++) {
        ret_report->agent_records += first.agent_records[host];
        for (uint32_t record = 1; record <= first.agent_records[host] && result == SIM_GOOD;
             record++) {
            result = kill_at(seed, host, record, &first, ret_report);
        }
    }
    return result;
}

enum sim_result sim_strike_every_record(uint64_t seed, struct sim_kill_report *ret_report)
{
    memset(ret_report, 0, sizeof(*ret_report));
    struct story first;
    run_story(seed, (struct sim_script){.host = HOSTS}, &first, NULL, NULL);
    ret_report->controller_records = (uint32_t)first.controller_records;
    for (uint64_t record = 1; record <= first.controller_records; record++) {
        for (uint8_t strike = STRIKE_CANCEL; strike <= STRIKE_CUT; strike++) {
            struct story story;
            struct sim_script script = {.host = HOSTS, .strike = strike, .strike_at = record};
            run_story(seed, script, &story, NULL, NULL);
            ret_report->runs++;
            /* One who cancels a job that ends just then comes too late. */
            bool cancelled = strike == STRIKE_CANCEL && strncmp(story.summary, "cancelled", 9) == 0;
            bool ended = cancelled || strncmp(story.summary, "succeeded", 9) == 0;
            bool late = record + LATE_RECORDS >= first.controller_records;
            if (story.result == SIM_GOOD && ended &&
                (strike != STRIKE_CANCEL || cancelled || late)) {
                continue;
            }
            (void)text_format(ret_report->text, sizeof(ret_report->text),
                              "%s at record %llu: %s; %s", strike_words[strike],
                              (unsigned long long)record, story.summary, story.text);
            return story.result == SIM_GOOD ? SIM_LIVENESS : story.result;
        }
    }
    return SIM_GOOD;
}

enum sim_result sim_strike_one(uint64_t seed, uint8_t strike, uint64_t record, char ret_text[256],
                               void (*line)(void *context, const char *line), void *line_context)
{
    CHECK(strike <= STRIKE_CUT);
    struct story story;
    struct sim_script script = {.host = HOSTS, .strike = strike, .strike_at = record};
    run_story(seed, script, &story, line, line_context);
    (void)text_format(ret_text, 256, "%s: %s%s%.100s", strike_words[strike], story.summary,
                      story.text[0] != '\0' ? "; " : "", story.text);
    return story.result;
}

enum sim_result sim_kill_one(uint64_t seed, uint32_t host, uint32_t record, bool after,
                             char ret_text[256], void (*line)(void *context, const char *line),
                             void *line_context)
{
    CHECK(host < HOSTS || host == UINT32_MAX);
    struct sim_script script = {.host = host == UINT32_MAX ? HOSTS : host, .record = record};
    script.cut = record == 0 ? SIM_CUT_NONE : after ? SIM_CUT_AFTER : SIM_CUT_BEFORE;
    struct story story;
    run_story(seed, script, &story, line, line_context);
    (void)text_format(ret_text, 256, "%s%s%.100s", story.summary, story.text[0] != '\0' ? "; " : "",
                      story.text);
    return story.result;
}
