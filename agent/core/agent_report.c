/* agent_report.c: what the controller is told of the attempts here. A report is always the whole
 * truth about one attempt. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

static void fill_rank(const struct agent_core *core, const struct agent_rank *rank,
                      struct rank_report *ret)
{
    ret->state = rank->state;
    ret->phase = rank->phase;
    ret->has_mailbox = rank->has_mailbox;
    ret->after_stop = rank->after_stop;
    ret->code = rank->code;
    ret->end_sequence = rank->end_sequence;
    ret->step = rank->step;
    ret->step_ms = rank->step_ms;
    ret->compute_ms = rank->compute_ms;
    ret->prints = agent_rank_prints(rank);
    if (ret->prints) {
        ret->phase = rank->has_mailbox ? rank->phase : (uint8_t)PHASE_STEP;
        ret->step = rank->printed.step;
        ret->step_ms = rank->printed.step_ms;
    }
    const bool over = rank->state >= RANK_EXITED;
    const uint64_t changed_ms = ret->prints ? rank->printed.changed_ms : rank->changed_ms;
    const uint64_t since_ms = over ? rank->end_ms : changed_ms;
    const bool tells = rank->has_mailbox || ret->prints;
    const bool known = over ? rank->end_ms != 0 : tells && rank->state == RANK_RUNNING;
    if (known && core->now_ms > since_ms) {
        const uint64_t age = core->now_ms - since_ms;
        ret->phase_age_ms = age < UINT32_MAX ? (uint32_t)age : UINT32_MAX;
    }
}

void agent_report_fill(const struct agent_core *core, const struct agent_attempt *attempt,
                       struct attempt_report *ret_report)
{
    CHECK(attempt->state != AGENT_ATTEMPT_NONE);
    memset(ret_report, 0, sizeof(*ret_report));
    ret_report->job = attempt->job;
    ret_report->attempt = attempt->attempt;
    ret_report->foreign = attempt->foreign;
    ret_report->shim_alive = attempt->shim_alive;
    ret_report->empty = agent_attempt_over(attempt);
    ret_report->unclean = attempt->state == AGENT_ATTEMPT_UNCLEAN;
    ret_report->stop_seen = attempt->stop_seen;
    ret_report->refused = attempt->state == AGENT_ATTEMPT_REFUSED;
    ret_report->first_rank = attempt->first_rank;
    ret_report->rank_count = attempt->rank_count;
    /* A reader that hangs must not look like a program that does. */
    ret_report->reads_output =
        attempt->read_ms != 0 && core->now_ms < attempt->read_ms + AGENT_READ_FRESH_MS;
    ret_report->used_ms = ret_report->reads_output ? attempt->used_ms : 0;
    (void)text_copy(ret_report->text, sizeof(ret_report->text), attempt->text);
    for (uint32_t i = 0; i < attempt->rank_count; i++) {
        fill_rank(core, &attempt->ranks[i], &ret_report->ranks[i]);
    }
}

/* Live ones first, then ends that are not acknowledged, then the rest; newer before older. */
static uint32_t urgency(const struct agent_attempt *attempt)
{
    if (!agent_attempt_over(attempt)) {
        return 0;
    }
    return attempt->ends_acked ? 2 : 1;
}

static int by_urgency(const void *a, const void *b, const void *context)
{
    const struct agent_core *core = context;
    const uint32_t first = *(const uint32_t *)a;
    const uint32_t second = *(const uint32_t *)b;
    const struct agent_attempt *x = &core->attempts[first];
    const struct agent_attempt *y = &core->attempts[second];
    if (urgency(x) != urgency(y)) {
        return urgency(x) < urgency(y) ? -1 : 1;
    }
    if (x->attempt != y->attempt) {
        return x->attempt > y->attempt ? -1 : 1;
    }
    return first < second ? -1 : first > second;
}

/* Its end is acknowledged and a later attempt of its job was ordered here since: all that is kept of
 * it is its logs. A beat that told of it would cost the controller as much as one of ranks. */
static bool is_past(const struct agent_core *core, const struct agent_attempt *attempt)
{
    if (!attempt->ordered || !attempt->ends_acked || !agent_attempt_over(attempt)) {
        return false;
    }
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        const struct agent_attempt *later = &core->attempts[i];
        if (later->state != AGENT_ATTEMPT_NONE && later->ordered && later->job == attempt->job &&
            later->attempt > attempt->attempt) {
            return true;
        }
    }
    return false;
}

uint32_t agent_report_all(const struct agent_core *core,
                          struct attempt_report reports[ATTEMPTS_PER_NODE_MAX])
{
    uint32_t order[AGENT_ATTEMPTS_LIMIT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        const struct agent_attempt *attempt = &core->attempts[i];
        if (attempt->state != AGENT_ATTEMPT_NONE && !is_past(core, attempt)) {
            order[count++] = i;
        }
    }
    sort_u32(order, count, by_urgency, core);
    const uint32_t told = count < ATTEMPTS_PER_NODE_MAX ? count : ATTEMPTS_PER_NODE_MAX;
    for (uint32_t i = 0; i < told; i++) {
        agent_report_fill(core, &core->attempts[order[i]], &reports[i]);
    }
    return told;
}
