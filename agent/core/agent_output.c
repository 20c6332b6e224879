/* agent_output.c: where a step writes what it decided. Room is never short for records and orders:
 * agent_core_create() checks that the limits hold the worst step; only messages to the controller
 * look for room first and are sent by the next step when there is none. */
#include <stdarg.h>
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

int agent_output_create(const struct agent_limits *limits, struct agent_output **ret_output)
{
    if (limits->output_records == 0 || limits->output_actions == 0) {
        return -EINVAL;
    }
    struct agent_output *output = mem_alloc(1, sizeof(*output));
    output->record_max = limits->output_records;
    output->action_max = limits->output_actions;
    output->trace_max = limits->output_traces;
    output->records = mem_alloc(output->record_max, sizeof(output->records[0]));
    output->actions = mem_alloc(output->action_max, sizeof(output->actions[0]));
    output->traces = mem_alloc(output->trace_max + 1, sizeof(output->traces[0]));
    *ret_output = output;
    return 0;
}

struct agent_output *agent_output_free(struct agent_output *output)
{
    if (output != NULL) {
        mem_free(output->records);
        mem_free(output->actions);
        mem_free(output->traces);
        mem_free(output);
    }
    return NULL;
}

/* Only the head of an action is cleared: the union is several kilobytes, and whoever emits fills in
 * its own member. */
struct agent_action *agent_emit(struct agent_core *core, uint8_t kind)
{
    struct agent_output *out = core->out;
    CHECK(out != NULL);
    CHECK(out->action_count < out->action_max);
    struct agent_action *action = &out->actions[out->action_count++];
    action->kind = kind;
    action->job = 0;
    action->attempt = 0;
    action->token = 0;
    return action;
}

bool agent_emit_room(const struct agent_core *core)
{
    return core->out->action_count < core->out->action_max;
}

struct message *agent_emit_send(struct agent_core *core, uint8_t message_kind)
{
    struct agent_action *action = agent_emit(core, AGENT_ACTION_SEND);
    action->u.message.kind = message_kind;
    return &action->u.message;
}

void agent_emit_record(struct agent_core *core, struct agent_record *record)
{
    struct agent_output *out = core->out;
    CHECK(out != NULL);
    CHECK(out->record_count < out->record_max);
    record->wall_ms = core->wall_ms;
    const int r = agent_apply(core, record);
    CHECK(r == 0);
    out->records[out->record_count++] = *record;
}

void agent_trace(struct agent_core *core, const char *format, ...)
{
    struct agent_output *out = core->out;
    if (out == NULL) {
        return;
    }
    if (out->trace_count == out->trace_max) {
        out->trace_dropped++;
        return;
    }
    char *line = out->traces[out->trace_count++];
    const bool whole = text_format(line, AGENT_TRACE_SIZE, "[%llu] node %s ",
                                   (unsigned long long)core->now_ms, core->identity.node);
    CHECK(whole);
    const size_t head = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(line + head, AGENT_TRACE_SIZE - head, format, arguments);
    va_end(arguments);
}

/* The life's number above, a counter below: what an earlier life of this agent sent is lower. */
uint64_t agent_next_sequence(struct agent_core *core)
{
    CHECK(core->started);
    core->sequence++;
    return (core->life << AGENT_SEQUENCE_BITS) + core->sequence;
}
