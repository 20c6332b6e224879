/* emit.c: what one step puts out. A record is folded the moment it is emitted, so the rest of the
 * step already sees its effect, exactly as a later replay will. */
#include <stdarg.h>
#include <string.h>

#include "controller/core/impl.h"

struct record *record_begin(struct core *core, uint16_t kind)
{
    CHECK(core->record_count < core->record_limit);
    struct record *record = &core->records[core->record_count];
    memset(record, 0, sizeof *record);
    record->kind = kind;
    record->version = RECORD_VERSION;
    record->service_ms = service_now(core);
    record->wall_ms = core->wall_ms;
    return record;
}

void record_subject(struct record *record, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(record->subject, sizeof record->subject, format, arguments);
    va_end(arguments);
}

void record_says(struct record *record, const char *type, uint8_t severity, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(record->event.message, sizeof record->event.message, format,
                             arguments);
    va_end(arguments);
    text_copy(record->event.type, sizeof record->event.type, type);
    record->event.severity = severity;
}

void core_emit(struct core *core, struct record *record)
{
    CHECK(record == &core->records[core->record_count]);
    struct err err = {0};
    int code = fold_record(core, record, &err);
    CHECK(code == 0); /* what we decide ourselves always fits */
    core->record_count++;
    if (record->event.type[0] != '\0') {
        core_trace(core, "%s: %s", record->subject, record->event.message);
    }
}

void core_would(struct core *core, uint32_t job_id, uint32_t node_id, const char *what)
{
    const struct node *node = core_node(core, node_id);
    const struct job *job = core_job(core, job_id);
    const char *held = core_held(core) ? core_held_text(core) : "the breaker for silence is open";
    struct record *record = record_begin(core, RECORD_acted_kind);
    text_copy(record->u.acted.actor, NAME_SIZE, "keepstep");
    text_copy(record->u.acted.verb, NAME_SIZE, "would");
    text_copy(record->u.acted.reason, TEXT_SIZE, held);
    text_copy(record->u.acted.result, TEXT_SIZE, what);
    record->job = job_id;
    record->node = node_id;
    record_subject(record, "%s/%s", node != NULL ? "node" : "job",
                   node != NULL  ? node->d.name
                   : job != NULL ? job->d.name
                                 : "");
    record_says(record, "WouldAct", SEVERITY_WARN, "would %s; nothing is done: %s", what, held);
    core_emit(core, record);
}

void job_would(struct core *core, struct job *job, uint32_t node, const char *what)
{
    if (core->old_store) {
        return; /* what it would do means nothing */
    }
    job->would_still = true;
    if (text_equal(job->would, what)) {
        return;
    }
    text_copy(job->would, sizeof job->would, what);
    core_would(core, job->d.job, node, what);
}

struct action *action_begin(struct core *core, uint8_t kind)
{
    CHECK(core->action_count < core->action_limit);
    struct action *action = &core->actions[core->action_count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

struct action *action_send(struct core *core, struct node *node, uint8_t message)
{
    CHECK(node->session != 0);
    struct action *action = action_begin(core, ACTION_SEND);
    action->message = message;
    action->session = node->session;
    action->node = node->d.node;
    return action;
}

void core_trace(struct core *core, const char *format, ...)
{
    char line[TEXT_SIZE + SUBJECT_SIZE + 32];
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(line, sizeof line, format, arguments);
    va_end(arguments);
    uint32_t left = TRACE_SIZE - core->trace_size;
    if (left < sizeof line + 32) {
        return; /* the trace is for people; what counts is in the records */
    }
    text_format(core->trace + core->trace_size, left, "[%llu] %s\n",
                (unsigned long long)core->now_ms, line);
    core->trace_size += (uint32_t)strlen(core->trace + core->trace_size);
}

static void fill_peers(const struct core *core, const struct action *action,
                       struct msg_peers *ret_peers)
{
    for (uint32_t i = 0; i < action->u.peers.count; i++) {
        const struct node *node = core_node(core, action->u.peers.nodes[i]);
        struct known_peer *peer = &ret_peers->peers[ret_peers->peer_count++];
        CHECK(node != NULL); /* a node's number stays its own, also when it is removed */
        text_copy(peer->name, NAME_SIZE, node->d.name);
        text_copy(peer->address, ADDRESS_SIZE, node->d.address);
        peer->port = (uint16_t)node->d.peer_port;
    }
}

void action_message(const struct core *core, const struct action *action,
                    struct message *ret_message)
{
    CHECK(action->kind == ACTION_SEND);
    memset(ret_message, 0, sizeof *ret_message);
    ret_message->kind = action->message;
    switch (action->message) {
    case MSG_WELCOME:
        ret_message->u.welcome = action->u.welcome;
        return;
    case MSG_ACK:
        ret_message->u.ack = action->u.ack;
        return;
    case MSG_DESIRED:
        ret_message->u.desired = action->u.desired;
        return;
    case MSG_CHECK:
        ret_message->u.check = action->u.check;
        return;
    case MSG_SAVE_ASK:
        ret_message->u.save_ask = action->u.save_ask;
        return;
    case MSG_CHECKPOINT_ANSWER:
        ret_message->u.checkpoint_answer = action->u.checkpoint_answer;
        return;
    case MSG_PEER_ASK:
        ret_message->u.peer_ask = action->u.peer_ask;
        return;
    case MSG_VALIDATE:
        ret_message->u.validate = action->u.validate;
        return;
    case MSG_SNAPSHOT_ASK:
        ret_message->u.snapshot_ask = action->u.snapshot_ask;
        return;
    case MSG_PEERS:
        fill_peers(core, action, &ret_message->u.peers);
        return;
    default:
        CHECK(false);
    }
}
