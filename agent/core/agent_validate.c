/* agent_validate.c: whether this node is fit, when the controller asks.
 *
 *     none --asked--> running --the driver's outcome--> ended
 *                      ^  |                              |  |
 *                      |  +-- the same, or as much: joins it |
 *                      +------- anew: another nonce ---------+ (the same nonce: said again)
 *
 * One at a time: a newer ask of the same level joins what runs, another level begins anew. The
 * answer is for the newest nonce. A session that ends takes nothing with it: the next one asks
 * again, and joins. */
#include "agent/core/agent_state.h"
#include "proto/base/text.h"

static void say(struct agent_core *core)
{
    const struct agent_validation *v = &core->validation;
    if (core->link.state != LINK_SESSION || !agent_emit_room(core)) {
        return; /* the controller asks again */
    }
    struct msg_validated *said = &agent_emit_send(core, MSG_VALIDATED)->u.validated;
    said->nonce = v->nonce;
    said->ok = v->ok;
    (void)text_copy(said->text, sizeof(said->text), v->text); /* as large */
}

void agent_on_validate(struct agent_core *core, const struct msg_validate *ask)
{
    struct agent_validation *v = &core->validation;
    if (ask->nonce == v->nonce) {
        if (!v->running) {
            say(core);
        }
        return;
    }
    if (v->running && ask->level == v->level) {
        v->nonce = ask->nonce;
        return;
    }
    if (!agent_emit_room(core)) {
        core->counters.too_many++;
        return;
    }
    *v = (struct agent_validation){
        .nonce = ask->nonce, .run = ask->nonce, .level = ask->level, .running = true};
    agent_trace(core, "validation: %s", ask->level == VALIDATE_FULL ? "full" : "quick");
    agent_emit(core, AGENT_ACTION_VALIDATE)->u.validate = *ask;
}

void agent_on_validated(struct agent_core *core, const struct agent_event *event)
{
    struct agent_validation *v = &core->validation;
    if (!v->running || event->nonce != v->run) {
        return; /* of one that was given up */
    }
    v->running = false;
    v->ok = event->ok;
    (void)text_copy(v->text, sizeof(v->text), event->text != NULL ? event->text : "");
    agent_trace(core, "validation: %s%s%s", v->ok ? "passed" : "failed",
                v->text[0] != '\0' ? ": " : "", v->text);
    say(core);
}
