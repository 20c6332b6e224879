/* core_rig_agents.c: the agents of a rig: what they make of the controller's messages, and how
 * their ranks live. */
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig_parts.h"

static struct rig_attempt *find_attempt(struct rig_node *node, uint32_t job, uint32_t attempt)
{
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        if (node->attempts[i].report.job == job && node->attempts[i].report.attempt == attempt) {
            return &node->attempts[i];
        }
    }
    return NULL;
}

static struct rig_attempt *new_attempt(struct rig_node *node, uint32_t job, uint32_t attempt)
{
    for (uint32_t i = 0; i < node->attempt_count; i++) { /* an older, empty one of the job goes */
        struct rig_attempt *old = &node->attempts[i];
        if (old->report.job == job && old->report.empty) {
            memset(old, 0, sizeof *old);
            old->report.job = job;
            old->report.attempt = attempt;
            return old;
        }
    }
    CHECK(node->attempt_count < ATTEMPTS_PER_NODE_MAX);
    struct rig_attempt *made = &node->attempts[node->attempt_count++];
    memset(made, 0, sizeof *made);
    made->report.job = job;
    made->report.attempt = attempt;
    return made;
}

static void obey_run(struct rig *rig, struct rig_node *node, const struct msg_desired *d)
{
    struct rig_attempt *a = find_attempt(node, d->job, d->attempt);
    rig->order = *d;
    if (a != NULL) {
        a->save_asked = d->first_rank == 0 ? d->save_request : 0;
    }
    if (a != NULL || !d->start || node->ignore_run) {
        return;
    }
    a = new_attempt(node, d->job, d->attempt);
    a->report.first_rank = d->first_rank;
    a->report.rank_count = d->rank_count;
    a->report.shim_alive = true;
    a->started_ms = rig->now_ms;
    a->base_step = d->restore_step;
    a->world = d->world;
    if (node->no_launch) {
        a->report.refused = true;
        a->report.empty = true;
        node->beat_at_ms = rig->now_ms;
        text_copy(a->report.text, TEXT_SIZE, "workdir is not there");
        return;
    }
    for (uint32_t i = 0; i < d->rank_count; i++) {
        a->report.ranks[i].state = RANK_RUNNING;
        a->report.ranks[i].has_mailbox = !rig->no_library;
        a->report.ranks[i].phase = PHASE_INIT;
    }
    rig->starts[node - rig->nodes] += d->rank_count;
    node->beat_at_ms = rig->now_ms;
}

static void obey_stop(struct rig *rig, struct rig_node *node, const struct msg_desired *d)
{
    bool known = false;
    for (uint32_t i = 0; i < node->attempt_count;) {
        struct rig_attempt *a = &node->attempts[i];
        if (a->report.job == d->job && a->report.attempt <= d->attempt) {
            known = known || a->report.attempt == d->attempt;
            node->beat_at_ms = a->report.stop_seen ? node->beat_at_ms : rig->now_ms;
            a->stop_seen_ms = a->stop_seen_ms == 0 ? rig->now_ms : a->stop_seen_ms;
            a->report.stop_seen = true;
            a->stop_at_ms = a->stop_at_ms == 0 ? rig->now_ms + 50 : a->stop_at_ms;
            a->forget = d->forget;
            if (d->forget && a->report.empty) {
                *a = node->attempts[--node->attempt_count];
                continue;
            }
        }
        i++;
    }
    if (!known && !d->forget) { /* seen, and nothing of it ever ran here */
        struct rig_attempt *a = new_attempt(node, d->job, d->attempt);
        a->report.stop_seen = true;
        a->report.empty = true;
        node->beat_at_ms = rig->now_ms;
    }
}

static void obey_check(struct rig *rig, struct rig_node *node, const struct msg_check *check)
{
    struct message m = {.kind = MSG_CHECK_RESULT};
    if (node->ignore_check) {
        return;
    }
    m.u.check_result.nonce = check->nonce;
    m.u.check_result.job = check->job;
    m.u.check_result.ok = !node->check_fails;
    m.u.check_result.port_free = !node->port_taken && !node->port_never;
    node->port_taken = false;
    text_copy(m.u.check_result.text, TEXT_SIZE, node->check_fails ? "storage not mounted" : "");
    rig_send(rig, (uint32_t)(node - rig->nodes), &m);
}

static void obey_validate(struct rig *rig, struct rig_node *node, const struct msg_validate *ask)
{
    struct message m = {.kind = MSG_VALIDATED};
    node->validations++;
    node->validation_level = ask->level;
    if (node->ignore_validation) {
        return;
    }
    m.u.validated.nonce = ask->nonce;
    m.u.validated.ok = !node->validation_fails;
    text_copy(m.u.validated.text, TEXT_SIZE, node->validation_fails ? "gpu 0: ECC errors" : "");
    rig_send(rig, (uint32_t)(node - rig->nodes), &m);
}

static void obey_ask(struct rig *rig, struct rig_node *node, const struct msg_peer_ask *ask)
{
    struct message m = {.kind = MSG_PEER_SAID};
    m.u.peer_said.nonce = ask->nonce;
    text_copy(m.u.peer_said.target, NAME_SIZE, ask->target);
    /* The core's number of it, where they joined in order. */
    const uint32_t first = core_node_find(rig->core, ask->target);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        const struct rig_node *target =
            &rig->nodes[(first + rig->node_count - 1 + i) % rig->node_count];
        if (text_equal(target->name, ask->target)) {
            static const uint8_t seen[] = {PEER_ANSWERS, PEER_REFUSED, PEER_SILENT, PEER_NOTHING};
            m.u.peer_said.answer = target->agent_up ? PEER_ANSWERS : seen[target->peer];
            m.u.peer_said.incarnation = target->incarnation;
            break;
        }
    }
    rig_send(rig, (uint32_t)(node - rig->nodes), &m);
}

void rig_deliver(struct rig *rig, struct rig_node *node, const struct message *m)
{
    switch (m->kind) {
    case MSG_WELCOME:
        if (m->u.welcome.result == HELLO_WELCOME) {
            text_copy(node->cluster_id, CLUSTER_ID_SIZE, m->u.welcome.cluster_id);
            node->term_seen = m->u.welcome.term;
        }
        return;
    case MSG_DESIRED:
        if (m->u.desired.mode == DESIRED_RUN) {
            node->runs_heard++;
            obey_run(rig, node, &m->u.desired);
        } else if (m->u.desired.mode == DESIRED_STOP) {
            node->stops_heard++;
            obey_stop(rig, node, &m->u.desired);
        }
        return;
    case MSG_CHECK:
        obey_check(rig, node, &m->u.check);
        return;
    case MSG_VALIDATE:
        obey_validate(rig, node, &m->u.validate);
        return;
    case MSG_SAVE_ASK:
        rig_obey_save(rig, node, &m->u.save_ask);
        return;
    case MSG_PEER_ASK:
        obey_ask(rig, node, &m->u.peer_ask);
        return;
    case MSG_CHECKPOINT_ANSWER:
        rig->save_answer = m->u.checkpoint_answer;
        rig->save_answer_node = (uint32_t)(node - rig->nodes);
        rig->save_answers++;
        return;
    case MSG_PEERS:
        node->peers = m->u.peers;
        node->peers_heard++;
        return;
    default:
        return;
    }
}

/* Every rank of this attempt runs somewhere where it can: a collective would get through. */
static bool peers_run(const struct rig *rig, const struct rig_attempt *a)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        const struct rig_node *node = &rig->nodes[i];
        for (uint32_t k = 0; k < node->attempt_count && node->host_up && !node->hang; k++) {
            const struct rig_attempt *other = &node->attempts[k];
            bool same = other->report.job == a->report.job &&
                        other->report.attempt == a->report.attempt && other->stop_at_ms == 0;
            for (uint32_t r = 0; same && r < other->report.rank_count; r++) {
                running += other->report.ranks[r].state == RANK_RUNNING ? 1 : 0;
            }
        }
    }
    return running == a->world;
}

/* What ranks print, and the processor time that they use. */
static void print_steps(struct rig *rig, struct rig_attempt *a)
{
    bool works = rig->spins || (!rig->steps_stopped && peers_run(rig, a));
    uint64_t loaded = rig->init_ms + rig->restore_ms;
    a->used_ms += works ? RIG_TICK_MS : 0;
    a->report.reads_output = !rig->output_unread;
    a->report.used_ms = rig->output_unread ? 0 : 1 + a->used_ms;
    if (a->report.first_rank == 0 && a->trained_ms >= loaded && !rig->output_unread) {
        uint64_t step = a->base_step + (a->trained_ms - loaded) / rig->step_ms;
        step -= step % rig->print_every;
        step = step > rig->print_from ? step - rig->print_from : step;
        a->printed_ms = step != a->report.ranks[0].step ? rig->now_ms : a->printed_ms;
        a->report.ranks[0].phase_age_ms = (uint32_t)(rig->now_ms - a->printed_ms);
        a->report.ranks[0].step = step;
        a->report.ranks[0].prints = step > 0;
        a->report.ranks[0].step_ms = (uint32_t)rig->step_ms;
    }
}

static void train_together(struct rig *rig, struct rig_attempt *a)
{
    if (rig->print_every > 0 && a->report.rank_count > 0) {
        print_steps(rig, a);
    }
    if (a->report.rank_count == 0 || rig->steps_stopped || !peers_run(rig, a)) {
        return;
    }
    a->trained_ms += RIG_TICK_MS;
    if (rig->print_every > 0) {
        return;
    }
    uint64_t loaded = rig->init_ms + rig->restore_ms;
    for (uint32_t i = 0; i < a->report.rank_count; i++) {
        struct rank_report *rank = &a->report.ranks[i];
        if (a->trained_ms >= loaded) {
            rank->phase = PHASE_STEP;
            rank->step = a->base_step + (a->trained_ms - loaded) / rig->step_ms;
            rank->step_ms = (uint32_t)rig->step_ms;
        } else if (a->trained_ms >= rig->init_ms) {
            rank->phase = PHASE_RESTORE;
        }
    }
}

static void train(struct rig *rig, struct rig_attempt *a)
{
    uint64_t age = rig->now_ms - a->started_ms;
    for (uint32_t i = 0; i < a->report.rank_count; i++) {
        struct rank_report *rank = &a->report.ranks[i];
        if (rank->state != RANK_RUNNING || rig->steps_stopped || a->stop_at_ms != 0) {
            continue;
        }
        if (age >= rig->init_ms) {
            rank->phase = PHASE_STEP;
            rank->step = a->base_step + (age - rig->init_ms) / rig->step_ms;
            rank->step_ms = (uint32_t)rig->step_ms;
        }
    }
}

/* The ranks end; true when something changed that an agent would report at once. */
bool rig_live(struct rig *rig, struct rig_node *node)
{
    bool changed = false;
    for (uint32_t i = 0; i < node->attempt_count; i++) {
        struct rig_attempt *a = &node->attempts[i];
        if (a->forget && a->report.empty) { /* reported once, then dropped as told */
            *a = node->attempts[--node->attempt_count];
            i--;
            continue;
        }
        uint8_t before = a->report.ranks[0].phase;
        (rig->synchronous ? train_together : train)(rig, a);
        for (uint32_t k = 0; node->hang && a->stop_at_ms == 0 && k < a->report.rank_count; k++) {
            struct rank_report *rank = &a->report.ranks[k];
            rank->phase = (node->stuck >> k & 1) != 0 ? node->stuck_phase : rank->phase;
        }
        changed = changed || before != a->report.ranks[0].phase;
        if (a->stop_at_ms != 0 && rig->now_ms >= a->stop_at_ms && !a->report.empty &&
            !node->ignore_stop) {
            for (uint32_t k = 0; k < a->report.rank_count; k++) {
                struct rank_report *rank = &a->report.ranks[k];
                if (rank->state == RANK_RUNNING) {
                    rank->state = RANK_SIGNALED;
                    rank->code = 15;
                    rank->after_stop = true;
                }
            }
            a->report.empty = true;
            changed = true;
        }
    }
    return changed;
}

void rig_repeat(struct rig *rig, uint32_t index)
{
    struct rig_node *node = &rig->nodes[index];
    for (uint32_t i = 0; i < RIG_RANKS; i++) {
        struct rig_told *told = &node->told[i];
        if (told->next_ms == 0 || rig->now_ms < told->next_ms) {
            continue;
        }
        const struct rig_attempt *a = find_attempt(node, told->detail.job, told->detail.attempt);
        struct message m = {.kind = MSG_RANK_DETAIL};
        m.u.rank_detail = told->detail;
        told->next_ms = rig->now_ms + RIG_REPEAT_MS;
        if (a == NULL || a->stop_at_ms != 0) {
            told->next_ms = 0;
        } else {
            rig_send(rig, index, &m);
        }
    }
}
