/* swarm_ranks.c: shims and ranks as entries in a table.
 *
 * A shim's promises hold: an attempt starts at most once, ends are numbered, and `empty` is said
 * only when nothing is left. Ranks use the library, as it looks from outside: their mailboxes show
 * the phase and the step. All ranks of an attempt step together from the moment when the last of
 * them has started until the first of them ends. */
#include "controller/tools/swarm.h"

#include <signal.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

/* ---- what the nodes of one attempt share --------------------------------------------------- */

static struct swarm_train *join(struct swarm *swarm, const struct msg_desired *order)
{
    struct swarm_train *oldest = &swarm->trains[0];
    for (uint32_t index = 0; index < SWARM_TRAINS; index++) {
        struct swarm_train *train = &swarm->trains[index];
        if (train->used && train->job == order->job && train->attempt == order->attempt) {
            return train;
        }
        if (!train->used || (oldest->used && train->attempt < oldest->attempt)) {
            oldest = train;
        }
    }
    *oldest = (struct swarm_train){.used = true,
                                   .job = order->job,
                                   .attempt = order->attempt,
                                   .world = order->world,
                                   .slots = order->slot_count,
                                   .restore = order->restore_step};
    return oldest;
}

/* Its place may have been given to a later attempt. */
static struct swarm_train *train_of(const struct swarm_shim *shim)
{
    struct swarm_train *train = shim->train;
    bool same = train->used && train->job == shim->job && train->attempt == shim->attempt;
    return same ? train : NULL;
}

static void rank_left(const struct swarm_shim *shim)
{
    struct swarm_train *train = train_of(shim);
    if (train != NULL) {
        train->running--;
        train->ended_ms = train->ended_ms == 0 ? swarm_now_ms() : train->ended_ms;
    }
}

static uint64_t step_of(const struct swarm *swarm, const struct swarm_train *train)
{
    if (train->began_ms == 0) {
        return 0;
    }
    uint64_t until_ms = train->ended_ms != 0 ? train->ended_ms : swarm_now_ms();
    return train->restore + (until_ms - train->began_ms) / swarm->options.step_ms;
}

/* ---- shims --------------------------------------------------------------------------------- */

struct swarm_shim *ranks_find(struct swarm_agent *agent, uint32_t job, uint32_t attempt)
{
    for (uint32_t index = 0; index < SWARM_SHIMS; index++) {
        struct swarm_shim *shim = &agent->shims[index];
        if (shim->used && shim->job == job && shim->attempt == attempt) {
            return shim;
        }
    }
    return NULL;
}

static void changed(struct swarm_agent *agent, const struct swarm_shim *shim)
{
    agent_queue(agent, &(struct swarm_input){
                           .kind = AGENT_EVENT_SHIM, .job = shim->job, .attempt = shim->attempt});
}

static struct swarm_shim *free_place(struct swarm_agent *agent)
{
    struct swarm_shim *found = NULL;
    for (uint32_t index = 0; index < SWARM_SHIMS; index++) {
        struct swarm_shim *shim = &agent->shims[index];
        bool ended = shim->used && shim->view.empty;
        if (!shim->used || (ended && found == NULL)) {
            found = shim;
        }
        if (!shim->used) {
            break;
        }
    }
    return found;
}

void ranks_start(struct swarm_agent *agent, const struct msg_desired *order)
{
    struct swarm_shim *shim = ranks_find(agent, order->job, order->attempt);
    if (shim != NULL) {
        changed(agent, shim); /* begun before: once is enough */
        return;
    }
    shim = free_place(agent);
    if (shim == NULL) {
        agent_queue(agent, &(struct swarm_input){.kind = AGENT_EVENT_LAUNCH_FAILED,
                                                 .job = order->job,
                                                 .attempt = order->attempt});
        return;
    }
    *shim = (struct swarm_shim){.used = true,
                                .job = order->job,
                                .attempt = order->attempt,
                                .train = join(agent->swarm, order)};
    struct agent_shim_view *view = &shim->view;
    (void)text_copy(view->cluster_id, sizeof(view->cluster_id), order->cluster_id);
    (void)text_copy(view->job_name, sizeof(view->job_name), order->job_name);
    view->alive = true;
    view->attached = true;
    view->started = true;
    view->first_rank = order->first_rank;
    view->rank_count = order->rank_count;
    for (uint32_t rank = 0; rank < order->rank_count; rank++) {
        view->ranks[rank].state = RANK_RUNNING;
    }
    struct swarm_train *train = shim->train;
    train->shims++;
    train->running += order->rank_count;
    if (train->running == train->world && train->ended_ms == 0) {
        train->began_ms = swarm_now_ms();
        swarm_say("runs", "\"job\":%u,\"attempt\":%u,\"at_us\":%llu", train->job, train->attempt,
                  (unsigned long long)swarm_now_us());
    }
    agent->read_ms = 0;
    changed(agent, shim);
}

static void end_rank(struct swarm_shim *shim, uint32_t rank, uint8_t state, int32_t code)
{
    if (shim->view.ranks[rank].state != RANK_RUNNING) {
        return;
    }
    shim->view.ranks[rank].state = state;
    shim->view.ranks[rank].code = code;
    shim->view.ranks[rank].after_stop = shim->told;
    shim->view.ranks[rank].end_sequence = ++shim->end_sequence;
    shim->view.ranks[rank].end_ms = swarm_now_ms();
    rank_left(shim);
}

static void told(struct swarm_shim *shim)
{
    struct swarm_train *train = train_of(shim);
    if (!shim->told && train != NULL) {
        train->shims--;
    }
    shim->told = true;
}

void ranks_stop(struct swarm_agent *agent, uint32_t job, uint32_t attempt, int32_t signal_number)
{
    struct swarm_shim *shim = ranks_find(agent, job, attempt);
    if (shim == NULL) { /* never begun here: nothing is found, and nothing can begin any more */
        agent_queue(agent, &(struct swarm_input){
                               .kind = AGENT_EVENT_ORPHANS, .job = job, .attempt = attempt});
        return;
    }
    told(shim);
    for (uint32_t rank = 0; rank < shim->view.rank_count; rank++) {
        end_rank(shim, rank, RANK_SIGNALED, signal_number);
    }
    shim->view.alive = false;
    shim->view.empty = true;
    changed(agent, shim);
}

void ranks_forget(struct swarm_agent *agent, uint32_t job, uint32_t attempt)
{
    struct swarm_shim *shim = ranks_find(agent, job, attempt);
    if (shim != NULL && shim->view.empty) {
        shim->used = false;
    }
}

void ranks_drop(struct swarm_agent *agent)
{
    for (uint32_t index = 0; index < SWARM_SHIMS; index++) {
        struct swarm_shim *shim = &agent->shims[index];
        if (shim->used) {
            told(shim);
            for (uint32_t rank = 0; rank < shim->view.rank_count; rank++) {
                end_rank(shim, rank, RANK_SIGNALED, SIGKILL);
            }
        }
        shim->used = false;
    }
}

bool ranks_exit(struct swarm_agent *agent, int32_t code)
{
    struct swarm_shim *newest = NULL;
    for (uint32_t index = 0; index < SWARM_SHIMS; index++) {
        struct swarm_shim *shim = &agent->shims[index];
        bool runs = shim->used && !shim->told && shim->view.ranks[0].state == RANK_RUNNING;
        if (runs && (newest == NULL || shim->attempt > newest->attempt)) {
            newest = shim;
        }
    }
    if (newest == NULL) {
        return false;
    }
    end_rank(newest, 0, RANK_EXITED, code);
    newest->view.attached = false;
    struct agent_event event = {.kind = AGENT_EVENT_SHIM,
                                .job = newest->job,
                                .attempt = newest->attempt,
                                .shim = &newest->view};
    agent_feed(agent, &event);
    return true;
}

/* ---- mailboxes ----------------------------------------------------------------------------- */

static void read_shim(struct swarm_agent *agent, const struct swarm_shim *shim)
{
    const struct swarm *swarm = agent->swarm;
    const struct swarm_train *train = train_of(shim);
    if (train == NULL || swarm->options.step_ms == 0) {
        return;
    }
    uint64_t step = step_of(swarm, train);
    struct agent_mailbox_view view = {.valid = true,
                                      .phase = train->began_ms != 0 ? PHASE_STEP : PHASE_INIT,
                                      .step = step,
                                      .changed_ms = swarm_now_ms(),
                                      .step_ms = step > 0 ? swarm->options.step_ms : 0,
                                      .compute_ms = step > 0 ? swarm->options.step_ms / 2 : 0};
    for (uint32_t rank = 0; rank < shim->view.rank_count; rank++) {
        if (shim->view.ranks[rank].state == RANK_RUNNING) {
            view.local_rank = rank;
            struct agent_event event = {.kind = AGENT_EVENT_MAILBOX,
                                        .job = shim->job,
                                        .attempt = shim->attempt,
                                        .mailbox = &view};
            agent_feed(agent, &event);
        }
    }
}

void ranks_read(struct swarm_agent *agent)
{
    for (uint32_t index = 0; index < SWARM_SHIMS; index++) {
        const struct swarm_shim *shim = &agent->shims[index];
        if (shim->used && !shim->told) {
            read_shim(agent, shim);
        }
    }
}
