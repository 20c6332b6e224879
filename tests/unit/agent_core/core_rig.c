/* core_rig.c: see the header. Every step of every test checks the invariants and the replay. */
#include "tests/unit/agent_core/core_rig.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static void make_core(struct core_rig *rig)
{
    CHECK(agent_core_create(&rig->limits, 7, &rig->identity, &rig->core) == 0);
    for (uint32_t i = 0; i < rig->record_count; i++) {
        CHECK(agent_core_replay(rig->core, &rig->records[i]) == 0);
    }
}

void rig_open(struct core_rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    agent_limits_default(&rig->limits);
    rig->now_ms = 1000;
    rig->wall_ms = 1700000000000;
    rig->term = 1;
    rig->identity.incarnation = 5;
    rig->identity.fence_after_ms = 600000;
    (void)text_copy(rig->identity.node, NAME_SIZE, "gpu-0001");
    (void)text_copy(rig->identity.boot_id, BOOT_ID_SIZE, "boot-1");
    (void)text_copy(rig->identity.address, ADDRESS_SIZE, "10.0.0.1");
    CHECK(agent_output_create(&rig->limits, &rig->output) == 0);
    make_core(rig);
}

void rig_close(struct core_rig *rig)
{
    rig->core = agent_core_free(rig->core);
    rig->output = agent_output_free(rig->output);
}

int rig_setup(void **state)
{
    struct core_rig *rig = mem_alloc(1, sizeof(*rig));
    rig_open(rig);
    *state = rig;
    return 0;
}

int rig_teardown(void **state)
{
    rig_close(*state);
    mem_free(*state);
    return 0;
}

void rig_restart_unscanned(struct core_rig *rig)
{
    (void)agent_core_free(rig->core);
    rig->identity.incarnation++;
    make_core(rig);
    rig_simple(rig, AGENT_EVENT_START);
}

void rig_restart(struct core_rig *rig)
{
    rig_restart_unscanned(rig);
    rig_scanned(rig, 0);
}

static void check_replay(const struct core_rig *rig)
{
    struct agent_core *copy = NULL;
    CHECK(agent_core_create(&rig->limits, 1, &rig->identity, &copy) == 0);
    for (uint32_t i = 0; i < rig->record_count; i++) {
        CHECK(agent_core_replay(copy, &rig->records[i]) == 0);
    }
    CHECK(agent_core_digest(copy) == agent_core_digest(rig->core));
    (void)agent_core_free(copy);
}

static void keep_output(struct core_rig *rig)
{
    for (uint32_t i = 0; i < rig->output->record_count; i++) {
        CHECK(rig->record_count < RIG_RECORDS_MAX);
        rig->records[rig->record_count++] = rig->output->records[i];
    }
    for (uint32_t i = 0; i < rig->output->trace_count; i++) {
        const size_t used = strlen(rig->trace);
        const char *line = strstr(rig->output->traces[i], "gpu-0001 ");
        CHECK(line != NULL);
        (void)text_format(rig->trace + used, sizeof(rig->trace) - used, "%s\n", line + 9);
    }
}

void rig_step(struct core_rig *rig, struct agent_event *event)
{
    event->now_ms = rig->now_ms;
    event->wall_ms = rig->wall_ms + rig->now_ms;
    CHECK(agent_core_step(rig->core, event, rig->output) == 0);
    keep_output(rig);
    agent_core_check(rig->core);
    check_replay(rig);
}

void rig_simple(struct core_rig *rig, uint8_t kind)
{
    struct agent_event event = {.kind = kind};
    rig_step(rig, &event);
}

void rig_tick(struct core_rig *rig, uint64_t ms)
{
    rig->now_ms += ms;
    rig_simple(rig, AGENT_EVENT_TICK);
}

void rig_pass(struct core_rig *rig, uint64_t ms)
{
    const uint64_t end = rig->now_ms + ms;
    uint64_t next = agent_core_deadline_ms(rig->core);
    while (next <= end) {
        rig->now_ms = next > rig->now_ms ? next : rig->now_ms;
        rig_simple(rig, AGENT_EVENT_TICK);
        next = agent_core_deadline_ms(rig->core);
    }
    rig->now_ms = end;
    rig_simple(rig, AGENT_EVENT_TICK);
}

void rig_message(struct core_rig *rig, const struct message *message)
{
    struct agent_event event = {.kind = AGENT_EVENT_MESSAGE, .message = message};
    rig_step(rig, &event);
}

void rig_connect(struct core_rig *rig)
{
    struct message message = {.kind = MSG_WELCOME};
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    message.u.welcome.result = HELLO_WELCOME;
    message.u.welcome.term = rig->term;
    (void)text_copy(message.u.welcome.cluster_id, CLUSTER_ID_SIZE, RIG_CLUSTER);
    rig_message(rig, &message);
}

void rig_begin(struct core_rig *rig)
{
    rig_simple(rig, AGENT_EVENT_START);
    rig_scanned(rig, 0);
    rig_connect(rig);
}

void rig_scanned(struct core_rig *rig, uint32_t job)
{
    struct agent_event event = {.kind = AGENT_EVENT_SCANNED, .job = job};
    rig_step(rig, &event);
}

struct msg_desired rig_run_order(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    struct msg_desired desired = {.mode = DESIRED_RUN,
                                  .job = job,
                                  .attempt = attempt,
                                  .term = rig->term,
                                  .sequence = ++rig->sequence,
                                  .first_rank = 0,
                                  .rank_count = 2,
                                  .world = 4,
                                  .start = true};
    (void)text_copy(desired.cluster_id, CLUSTER_ID_SIZE, RIG_CLUSTER);
    (void)text_format(desired.job_name, NAME_SIZE, "job-%u", job);
    return desired;
}

struct msg_desired rig_stop_order(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    struct msg_desired desired = rig_run_order(rig, job, attempt);
    desired.mode = DESIRED_STOP;
    desired.grace_ms = 2000;
    return desired;
}

void rig_order(struct core_rig *rig, const struct msg_desired *desired)
{
    struct message message = {.kind = MSG_DESIRED};
    message.u.desired = *desired;
    rig_message(rig, &message);
}

void rig_run(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    const struct msg_desired desired = rig_run_order(rig, job, attempt);
    rig_order(rig, &desired);
}

void rig_stop(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    const struct msg_desired desired = rig_stop_order(rig, job, attempt);
    rig_order(rig, &desired);
}

struct agent_shim_view rig_view(void)
{
    struct agent_shim_view view = {
        .alive = true, .attached = true, .started = true, .rank_count = 2};
    (void)text_copy(view.cluster_id, CLUSTER_ID_SIZE, RIG_CLUSTER);
    view.ranks[0].state = RANK_RUNNING;
    view.ranks[1].state = RANK_RUNNING;
    return view;
}

void rig_shim(struct core_rig *rig, uint32_t job, uint32_t attempt,
              const struct agent_shim_view *view)
{
    struct agent_event event = {
        .kind = AGENT_EVENT_SHIM, .job = job, .attempt = attempt, .shim = view};
    rig_step(rig, &event);
}

void rig_orphans(struct core_rig *rig, uint32_t job, uint32_t attempt, uint32_t count, bool proven)
{
    struct agent_event event = {
        .kind = AGENT_EVENT_ORPHANS, .job = job, .attempt = attempt, .count = count, .ok = proven};
    rig_step(rig, &event);
}

void rig_running(struct core_rig *rig, uint32_t job, uint32_t attempt)
{
    rig_run(rig, job, attempt);
    rig_scanned(rig, job);
    CHECK(rig_action(rig, AGENT_ACTION_START, 0) != NULL);
    const struct agent_shim_view view = rig_view();
    rig_shim(rig, job, attempt, &view);
    CHECK(rig_state(rig, job, attempt, NULL) == AGENT_ATTEMPT_RUNNING);
}

void rig_ended(struct core_rig *rig, uint32_t job, uint32_t attempt, uint8_t state, int32_t code)
{
    struct agent_shim_view view = rig_view();
    view.attached = false;
    view.empty = true;
    for (uint32_t i = 0; i < 2; i++) {
        view.ranks[i].state = state;
        view.ranks[i].code = code;
        view.ranks[i].end_sequence = 10 + i;
    }
    rig_shim(rig, job, attempt, &view);
}

const struct agent_action *rig_action(const struct core_rig *rig, uint8_t kind, uint32_t index)
{
    for (uint32_t i = 0; i < rig->output->action_count; i++) {
        if (rig->output->actions[i].kind == kind && index-- == 0) {
            return &rig->output->actions[i];
        }
    }
    return NULL;
}

uint32_t rig_actions(const struct core_rig *rig, uint8_t kind)
{
    uint32_t count = 0;
    while (rig_action(rig, kind, count) != NULL) {
        count++;
    }
    return count;
}

struct agent_counters rig_counters(const struct core_rig *rig)
{
    struct agent_view view;
    agent_core_view(rig->core, &view);
    return view.counters;
}

const struct message *rig_sent(const struct core_rig *rig, uint8_t message_kind)
{
    const struct agent_action *action = NULL;
    for (uint32_t i = 0; (action = rig_action(rig, AGENT_ACTION_SEND, i)) != NULL; i++) {
        if (action->u.message.kind == message_kind) {
            return &action->u.message;
        }
    }
    return NULL;
}

bool rig_recorded(const struct core_rig *rig, uint8_t kind)
{
    for (uint32_t i = 0; i < rig->output->record_count; i++) {
        if (rig->output->records[i].kind == kind) {
            return true;
        }
    }
    return false;
}

uint8_t rig_state(const struct core_rig *rig, uint32_t job, uint32_t attempt,
                  struct attempt_report *ret_report)
{
    struct attempt_report report;
    uint8_t state = AGENT_ATTEMPT_NONE;
    for (uint32_t i = 0; agent_core_attempt(rig->core, i, &report, &state); i++) {
        if (report.job == job && report.attempt == attempt) {
            if (ret_report != NULL) {
                *ret_report = report;
            }
            return state;
        }
    }
    return AGENT_ATTEMPT_NONE;
}

void rig_trace_begin(struct core_rig *rig)
{
    rig->trace[0] = '\0';
}
