/* judge_case.c: what the judge is given: facts, what was judged before, who holds which slot. */
#include "controller/core/judge_case.h"

#include <string.h>

#include "controller/core/impl.h"

/* ---- what the judge asks ------------------------------------------------------------------ */

/* Labels are only compared: their hash is number enough. */
static uint32_t label_number(const char *label)
{
    uint64_t hash = hash_text(HASH_INIT, label);
    return label[0] != '\0' ? (uint32_t)(hash ^ hash >> 32) | 1 : 0;
}

static int32_t slot_of_node(const void *context, uint32_t node)
{
    const struct judge_case *c = context;
    const struct node *n = core_node(c->core, node);
    bool holds = n != NULL && n->d.job == c->input.job;
    return holds ? (int32_t)n->d.slot : c->over && n != NULL ? (int32_t)c->input.slot_count : -1;
}

static uint32_t rack_of_node(const void *context, uint32_t node)
{
    const struct judge_case *c = context;
    const struct node *n = core_node(c->core, node);
    return n != NULL ? label_number(n->d.rack) : 0;
}

static uint32_t feed_of_node(const void *context, uint32_t node)
{
    const struct judge_case *c = context;
    const struct node *n = core_node(c->core, node);
    return n != NULL ? label_number(n->d.feed) : 0;
}

static uint32_t leaf_of_node(const void *context, uint32_t node)
{
    const struct judge_case *c = context;
    const struct node *n = core_node(c->core, node);
    return n != NULL ? label_number(n->d.leaf) : 0;
}

/* ---- what it is given --------------------------------------------------------------------- */

static uint32_t collect_facts(const struct core *core, uint32_t incident, struct fact *facts,
                              uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->fact_count && count < max; i++) {
        const struct record_image_fact *d = &core->facts[i];
        if (d->incident != incident) {
            continue;
        }
        struct fact *fact = &facts[count++];
        memset(fact, 0, sizeof *fact);
        fact->source = d->source;
        fact->severity = (uint8_t)d->severity;
        fact->node = d->node;
        fact->job = d->job;
        fact->attempt = d->attempt;
        fact->rank = d->rank;
        fact->gpu = d->gpu;
        fact->port = d->port;
        fact->code = d->code;
        fact->receive_ms = d->receive_ms;
        fact->label = d->label;
        fact->advice = d->advice;
        fact->role = d->role;
        text_copy(fact->signal, SIGNAL_NAME_SIZE, d->signal);
        text_copy(fact->subject, SIGNAL_SUBJECT_SIZE, d->subject);
        text_copy(fact->text, TEXT_SIZE, d->text);
    }
    return count;
}

/* Ages count from when this incident was opened; what came after it is none of its past. */
static bool is_later(const struct record_image_incident *d, const struct incident *now)
{
    return d->opened_service_ms > now->d.opened_service_ms;
}

static uint64_t age_of(const struct record_image_incident *d, const struct incident *now)
{
    return now->d.opened_service_ms - d->opened_service_ms;
}

static uint32_t collect_past(const struct core *core, const struct incident *now,
                             struct judge_past *past)
{
    uint32_t count = 0;
    for (uint32_t i = core->incident_count; i-- > 0 && count < JUDGE_PAST_MAX;) {
        const struct record_image_incident *d = &core->incidents[i].d;
        if (!d->judged || d->incident == now->d.incident || is_later(d, now)) {
            continue;
        }
        past[count++] = (struct judge_past){.signature = d->signature,
                                            .age_ms = age_of(d, now),
                                            .job = d->job,
                                            .step = d->step,
                                            .node = d->first_blamed,
                                            .slot = -1,
                                            .moved = text_equal(d->rule, "other-gpu")};
    }
    return count;
}

/* The newest facts of judged incidents that name something which may be seen again. */
static uint32_t collect_marks(const struct core *core, const struct incident *now,
                              struct judge_mark *marks)
{
    uint32_t count = 0;
    for (uint32_t i = core->fact_count; i-- > 0 && count < JUDGE_MARKS_MAX;) {
        const struct record_image_fact *d = &core->facts[i];
        const struct incident *incident =
            d->label != LABEL_UNKNOWN ? core_incident(core, d->incident) : NULL;
        if (incident == NULL || incident == now || !incident->d.judged ||
            is_later(&incident->d, now)) {
            continue;
        }
        struct fact fact = {.source = d->source,
                            .severity = (uint8_t)d->severity,
                            .node = d->node,
                            .label = d->label,
                            .role = d->role};
        text_copy(fact.signal, SIGNAL_NAME_SIZE, d->signal);
        text_copy(fact.subject, SIGNAL_SUBJECT_SIZE, d->subject);
        const struct judge_mark mark = {.what = judge_mark_of(&fact),
                                        .is_value = judge_is_value(&fact),
                                        .age_ms = age_of(&incident->d, now),
                                        .node = d->node,
                                        .job = d->job};
        if (mark.what != 0) {
            marks[count++] = mark;
        }
    }
    return count;
}

/* The node of that name, which libraries print with the name of a network behind it; or the one of
 * the job that has that address. */
static uint32_t node_of_peer(const void *context, const char *peer)
{
    const struct judge_case *c = context;
    char name[NAME_SIZE];
    (void)text_copy(name, sizeof name, peer);
    for (size_t end = strlen(name); end > 0; end--) {
        if (name[end] != '\0' && name[end] != '.') {
            continue;
        }
        name[end] = '\0';
        uint32_t id = core_node_find(c->core, name);
        if (id != 0) {
            return slot_of_node(context, id) >= 0 ? id : 0;
        }
    }
    for (uint32_t i = 0; i < c->input.slot_count; i++) {
        const struct node *node =
            core_node(c->core, core_slot(c->core, core_job(c->core, c->input.job), i)->d.node);
        if (node != NULL && text_equal(node->d.address, peer)) {
            return node->d.node;
        }
    }
    return 0;
}

/* What was told and ended nothing counts as well. */
static uint32_t collect_signs(const struct core *core, struct judge_mark *marks, uint32_t count)
{
    for (uint32_t i = 0; i < SIGNS_MAX && count < JUDGE_MARKS_MAX; i++) {
        uint64_t age_ms;
        const struct fact *fact = signs_earlier(core, i, &age_ms);
        if (fact != NULL && judge_mark_of(fact) != 0) {
            marks[count++] = (struct judge_mark){.what = judge_mark_of(fact),
                                                 .is_value = judge_is_value(fact),
                                                 .age_ms = age_ms,
                                                 .node = fact->node,
                                                 .job = fact->job};
        }
    }
    return count;
}

void judge_case_read(const struct core *core, const struct incident *incident, bool over,
                     struct judge_case *ret_case)
{
    const struct job *job = core_job(core, incident->d.job);
    ret_case->core = core;
    ret_case->over = over;
    ret_case->input = (struct judge_input){
        .facts = ret_case->facts,
        .job = incident->d.job,
        .step = incident->d.step,
        .past = ret_case->past,
        .marks = ret_case->marks,
        .slot_of = slot_of_node,
        .rack_of = rack_of_node,
        .feed_of = feed_of_node,
        .leaf_of = leaf_of_node,
        .peer_of = node_of_peer,
        .context = ret_case,
    };
    struct judge_input *in = &ret_case->input;
    if (job != NULL) {
        in->replicas = job->d.data;
        in->slot_count = job->slot_count;
        in->world = job->slot_count * job->d.ranks_per_node;
        in->ranks_per_node = job->d.ranks_per_node;
        in->ever_stepped = job->d.stepped || incident->d.step > job->d.restore_step;
        in->loading = job->d.restore_step != 0 && job->d.restore_failures > 0;
        in->restart_codes = job->d.restart_codes;
        in->final_codes = job->d.final_codes;
    }
    in->fact_count = collect_facts(core, incident->d.incident, ret_case->facts, JUDGE_FACTS_MAX);
    in->past_count = collect_past(core, incident, ret_case->past);
    in->mark_count = collect_marks(core, incident, ret_case->marks);
    in->mark_count = over ? in->mark_count : collect_signs(core, ret_case->marks, in->mark_count);
}
