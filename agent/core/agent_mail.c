/* agent_mail.c: what ranks ask through their mailboxes, and what comes back.
 *
 * A mailbox is level state: the driver hands in every open request at each scan, so each is known
 * by (job, attempt, rank, id) and taken once. Keys that local ranks put are kept for the whole
 * attempt and sent again in every new session, since the controller may have lost them; a get stays
 * open until a value comes. Checkpoint messages are sent again until they are answered. Past a
 * limit a request is answered with -ENOSPC at once: a rank must not wait for nothing. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/text.h"

static struct agent_mail_answer *answer(struct agent_core *core, uint8_t kind, uint32_t job,
                                        uint32_t attempt, uint32_t local_rank, uint64_t id,
                                        int32_t status)
{
    struct agent_action *action = agent_emit(core, AGENT_ACTION_MAIL_ANSWER);
    action->job = job;
    action->attempt = attempt;
    struct agent_mail_answer *mail = &action->u.mail;
    mail->kind = kind;
    mail->local_rank = local_rank;
    mail->id = id;
    mail->status = status;
    mail->accepted = status == 0;
    mail->size = 0;
    mail->text[0] = '\0';
    return mail;
}

static void answer_value(struct agent_core *core, const struct agent_get *get, const void *value,
                         uint32_t size)
{
    struct agent_mail_answer *mail =
        answer(core, AGENT_MAIL_EXCHANGE, get->job, get->attempt, get->local_rank, get->id, 0);
    mail->size = size;
    memcpy(mail->value, value, size);
}

/* ---- exchange ----------------------------------------------------------------------------- */

static struct agent_key *find_key(const struct agent_core *core, uint32_t job, uint32_t attempt,
                                  const char *name)
{
    for (uint32_t i = 0; i < core->limits.exchange_keys; i++) {
        struct agent_key *key = &core->keys[i];
        if (key->used && key->put.job == job && key->put.attempt == attempt &&
            text_equal(key->put.key, name)) {
            return key;
        }
    }
    return NULL;
}

static void due_now(struct agent_core *core)
{
    core->mail_due_ms = core->now_ms < core->mail_due_ms ? core->now_ms : core->mail_due_ms;
}

static void answer_local_gets(struct agent_core *core, const struct msg_exchange *value)
{
    for (uint32_t i = 0; i < core->limits.exchange_gets; i++) {
        struct agent_get *get = &core->gets[i];
        if (get->used && get->job == value->job && get->attempt == value->attempt &&
            text_equal(get->key, value->key) && agent_emit_room(core)) {
            answer_value(core, get, value->value, value->size);
            get->used = false;
        }
    }
}

static void take_put(struct agent_core *core, const struct agent_attempt *a,
                     const struct agent_mail *mail)
{
    const struct msg_exchange *put = &mail->u.exchange;
    struct agent_key *key = find_key(core, a->job, a->attempt, put->key);
    if (key != NULL) {
        return; /* known: the first value of a key stands */
    }
    for (uint32_t i = 0; i < core->limits.exchange_keys && key == NULL; i++) {
        key = core->keys[i].used ? NULL : &core->keys[i];
    }
    if (key == NULL) {
        core->counters.too_many++;
        return;
    }
    key->used = true;
    key->due = true;
    due_now(core);
    key->put = *put;
    key->put.kind = EXCHANGE_PUT;
    key->put.job = a->job;
    key->put.attempt = a->attempt;
    key->put.rank = a->first_rank + mail->local_rank;
    answer_local_gets(core, &key->put);
}

static struct agent_get *find_get(const struct agent_core *core, const struct agent_attempt *a,
                                  const struct agent_mail *mail)
{
    for (uint32_t i = 0; i < core->limits.exchange_gets; i++) {
        struct agent_get *get = &core->gets[i];
        if (get->used && get->job == a->job && get->attempt == a->attempt &&
            get->local_rank == mail->local_rank && get->id == mail->id) {
            return get;
        }
    }
    return NULL;
}

static void take_get(struct agent_core *core, const struct agent_attempt *a,
                     const struct agent_mail *mail)
{
    if (find_get(core, a, mail) != NULL) {
        return;
    }
    const struct agent_key *key = find_key(core, a->job, a->attempt, mail->u.exchange.key);
    struct agent_get want = {.used = true,
                             .due = true,
                             .local_rank = mail->local_rank,
                             .id = mail->id,
                             .job = a->job,
                             .attempt = a->attempt,
                             .rank = a->first_rank + mail->local_rank};
    (void)text_copy(want.key, sizeof(want.key), mail->u.exchange.key);
    if (key != NULL) {
        answer_value(core, &want, key->put.value, key->put.size);
        return;
    }
    for (uint32_t i = 0; i < core->limits.exchange_gets; i++) {
        if (!core->gets[i].used) {
            core->gets[i] = want;
            due_now(core);
            return;
        }
    }
    core->counters.too_many++;
    (void)answer(core, AGENT_MAIL_EXCHANGE, a->job, a->attempt, mail->local_rank, mail->id,
                 -ENOSPC);
}

void agent_on_exchange(struct agent_core *core, const struct msg_exchange *exchange)
{
    if (exchange->kind != EXCHANGE_VALUE || exchange->size > EXCHANGE_VALUE_MAX) {
        core->counters.bad_message++;
        return;
    }
    answer_local_gets(core, exchange);
}

/* ---- checkpoints -------------------------------------------------------------------------- */

static void take_checkpoint(struct agent_core *core, const struct agent_attempt *a,
                            const struct agent_mail *mail)
{
    struct agent_checkpoint *place = NULL;
    for (uint32_t i = 0; i < core->limits.checkpoints; i++) {
        struct agent_checkpoint *c = &core->checkpoints[i];
        if (!c->used) {
            place = place == NULL ? c : place;
        } else if (c->message.job == a->job && c->message.attempt == a->attempt &&
                   c->local_rank == mail->local_rank && c->id == mail->id) {
            return;
        }
    }
    if (place == NULL) {
        core->counters.too_many++;
        struct agent_mail_answer *full = answer(core, AGENT_MAIL_CHECKPOINT, a->job, a->attempt,
                                                mail->local_rank, mail->id, -ENOSPC);
        (void)text_copy(full->text, sizeof(full->text),
                        "too many checkpoint messages wait for the controller");
        return;
    }
    place->used = true;
    place->send_ms = core->now_ms;
    due_now(core);
    place->local_rank = mail->local_rank;
    place->id = mail->id;
    place->message = mail->u.checkpoint;
    place->message.sequence = agent_next_sequence(core);
    place->message.job = a->job;
    place->message.attempt = a->attempt;
    place->message.rank = a->first_rank + mail->local_rank;
}

void agent_on_checkpoint_answer(struct agent_core *core, const struct msg_checkpoint_answer *said)
{
    for (uint32_t i = 0; i < core->limits.checkpoints; i++) {
        struct agent_checkpoint *c = &core->checkpoints[i];
        if (!c->used || c->message.sequence != said->sequence || c->message.job != said->job ||
            c->message.attempt != said->attempt) {
            continue;
        }
        struct agent_mail_answer *mail =
            answer(core, AGENT_MAIL_CHECKPOINT, said->job, said->attempt, c->local_rank, c->id,
                   said->accepted ? 0 : -ESTALE);
        (void)text_copy(mail->text, sizeof(mail->text), said->text);
        c->used = false;
        core->mail_due_ms = agent_mail_next_due(core);
        return;
    }
}

/* ---- all ---------------------------------------------------------------------------------- */

void agent_on_mail(struct agent_core *core, const struct agent_event *event)
{
    const struct agent_mail *mail = event->mail;
    CHECK(mail != NULL);
    const struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL || a->foreign || mail->local_rank >= a->rank_count) {
        core->counters.bad_message++;
        return;
    }
    if (mail->kind == AGENT_MAIL_CHECKPOINT) {
        take_checkpoint(core, a, mail);
    } else if (mail->u.exchange.size > EXCHANGE_VALUE_MAX) {
        core->counters.bad_message++;
    } else if (mail->u.exchange.kind == EXCHANGE_PUT) {
        take_put(core, a, mail);
    } else if (mail->u.exchange.kind == EXCHANGE_GET) {
        take_get(core, a, mail);
    } else {
        core->counters.bad_message++;
    }
}

void agent_on_detail(struct agent_core *core, const struct agent_event *event)
{
    CHECK(event->detail != NULL);
    const uint32_t local_rank = event->detail->local_rank;
    const struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL || a->foreign || local_rank >= a->rank_count ||
        core->link.state != LINK_SESSION || !agent_emit_room(core)) {
        return;
    }
    struct msg_rank_detail *detail = &agent_emit_send(core, MSG_RANK_DETAIL)->u.rank_detail;
    *detail = event->detail->detail;
    detail->job = a->job;
    detail->attempt = a->attempt;
    detail->rank = a->first_rank + local_rank;
}

void agent_mail_session(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->limits.exchange_keys; i++) {
        core->keys[i].due = core->keys[i].used;
    }
    for (uint32_t i = 0; i < core->limits.exchange_gets; i++) {
        core->gets[i].due = core->gets[i].used;
    }
    for (uint32_t i = 0; i < core->limits.checkpoints; i++) {
        core->checkpoints[i].send_ms = core->now_ms;
    }
    due_now(core);
}

void agent_mail_end(struct agent_core *core, uint32_t job, uint32_t attempt)
{
    for (uint32_t i = 0; i < core->limits.exchange_keys; i++) {
        struct agent_key *key = &core->keys[i];
        key->used = key->used && !(key->put.job == job && key->put.attempt == attempt);
        key->due = key->due && key->used;
    }
    for (uint32_t i = 0; i < core->limits.exchange_gets; i++) {
        struct agent_get *get = &core->gets[i];
        get->used = get->used && !(get->job == job && get->attempt == attempt);
        get->due = get->due && get->used;
    }
    core->mail_due_ms = agent_mail_next_due(core);
}

void agent_mail_forget(struct agent_core *core, uint32_t job, uint32_t attempt)
{
    agent_mail_end(core, job, attempt);
    for (uint32_t i = 0; i < core->limits.checkpoints; i++) {
        struct agent_checkpoint *c = &core->checkpoints[i];
        c->used = c->used && !(c->message.job == job && c->message.attempt == attempt);
    }
    core->mail_due_ms = agent_mail_next_due(core);
}

static void flush_exchange(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->limits.exchange_keys && agent_emit_room(core); i++) {
        if (core->keys[i].due) {
            agent_emit_send(core, MSG_EXCHANGE)->u.exchange = core->keys[i].put;
            core->keys[i].due = false;
        }
    }
    for (uint32_t i = 0; i < core->limits.exchange_gets && agent_emit_room(core); i++) {
        struct agent_get *get = &core->gets[i];
        if (get->due) {
            struct msg_exchange *exchange = &agent_emit_send(core, MSG_EXCHANGE)->u.exchange;
            memset(exchange, 0, sizeof(*exchange));
            exchange->kind = EXCHANGE_GET;
            exchange->job = get->job;
            exchange->attempt = get->attempt;
            exchange->rank = get->rank;
            (void)text_copy(exchange->key, sizeof(exchange->key), get->key);
            get->due = false;
        }
    }
}

void agent_mail_flush(struct agent_core *core)
{
    if (core->now_ms < core->mail_due_ms) {
        return; /* the tables are large, and nearly always there is nothing in them */
    }
    flush_exchange(core);
    for (uint32_t i = 0; i < core->limits.checkpoints && agent_emit_room(core); i++) {
        struct agent_checkpoint *c = &core->checkpoints[i];
        if (c->used && core->now_ms >= c->send_ms) {
            agent_emit_send(core, MSG_CHECKPOINT)->u.checkpoint = c->message;
            c->send_ms = core->now_ms + AGENT_CHECKPOINT_AGAIN_MS;
        }
    }
    core->mail_due_ms = agent_mail_next_due(core);
}

uint64_t agent_mail_next_due(const struct agent_core *core)
{
    uint64_t deadline = UINT64_MAX;
    for (uint32_t i = 0; i < core->limits.exchange_keys; i++) {
        deadline = core->keys[i].due ? core->now_ms : deadline;
    }
    for (uint32_t i = 0; i < core->limits.exchange_gets; i++) {
        deadline = core->gets[i].due ? core->now_ms : deadline;
    }
    for (uint32_t i = 0; i < core->limits.checkpoints; i++) {
        const struct agent_checkpoint *c = &core->checkpoints[i];
        if (c->used && c->send_ms < deadline) {
            deadline = c->send_ms;
        }
    }
    return deadline;
}

uint64_t agent_mail_deadline(const struct agent_core *core)
{
    return core->mail_due_ms;
}
