/* train.c: the training program: synchronous ranks that step together or not at all.
 *
 *   init --> restore --> step <--> save        (all ranks of the attempt at once)
 *
 * A phase or a step ends after its time when every rank is there: alive, not hung, on a host that
 * runs and whose network reaches the others. Otherwise all wait; when a rank is gone for good, the
 * others end with code 1 after a while, or hang, as the job's options say. A save is begun by rank
 * 0, each rank reports its shard, and rank 0 commits when every shard was answered. */
#include "controller/sim/world.h"

#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    JITTER_MS = 50,
    BROKEN_EVENT = 1, /* sim_event.what */
    LOOK_EVENT = 2,
    LEAVE_MAX_MS = 10000, /* a save before leaving is waited for so long */
    CODE_LATER = 75,
    CODE_TORN = 3,
    CODE_PEER = 1,
    ALL_PARTS = PART_WEIGHTS | PART_OPTIMIZER | PART_SCHEDULER | PART_DATA | PART_RNG,
};

uint32_t train_number(const char *job_name)
{
    uint64_t number = 0;
    const char *digits = strrchr(job_name, '-');
    if (digits == NULL || text_to_u64(digits + 1, UINT32_MAX, &number) < 0) {
        number = 0;
    }
    return (uint32_t)(number % SIM_JOBS_MAX);
}

const struct sim_job_options *train_options(const struct sim *sim, const char *job_name)
{
    return &sim->options.job[train_number(job_name)];
}

struct sim_save *train_save(struct sim *sim, uint32_t job, uint32_t attempt, uint64_t step)
{
    for (uint32_t index = 0; index < sim->save_count; index++) {
        struct sim_save *save = &sim->saves[index];
        if (save->job == job && save->attempt == attempt && save->step == step) {
            return save;
        }
    }
    return NULL;
}

static struct sim_shim *shim_of(struct sim *sim, const struct sim_train *train, uint32_t slot)
{
    uint32_t host = train->hosts[slot];
    return host == UINT32_MAX ? NULL : shim_find(&sim->hosts[host], train->job, train->attempt);
}

/* ---- joining ----------------------------------------------------------------------------- */

static bool any_alive(struct sim *sim, const struct sim_train *train)
{
    for (uint32_t slot = 0; slot < train->slots; slot++) {
        const struct sim_shim *shim = shim_of(sim, train, slot);
        if (shim != NULL && (shim_lives(shim) || !shim->started)) {
            return true;
        }
    }
    return false;
}

static uint32_t train_place(struct sim *sim, const struct msg_desired *order)
{
    for (uint32_t index = 0; index < SIM_TRAINS_MAX; index++) {
        const struct sim_train *train = &sim->trains[index];
        if (train->state != SIM_TRAIN_FREE && train->job == order->job &&
            train->attempt == order->attempt) {
            return index;
        }
    }
    uint32_t place = 0;
    while (sim->trains[place].state != SIM_TRAIN_FREE && any_alive(sim, &sim->trains[place])) {
        place++;
        CHECK(place < SIM_TRAINS_MAX);
    }
    return place;
}

uint32_t train_join(struct sim *sim, uint32_t host, const struct msg_desired *order)
{
    uint32_t index = train_place(sim, order);
    struct sim_train *train = &sim->trains[index];
    if (train->state == SIM_TRAIN_FREE || train->job != order->job ||
        train->attempt != order->attempt) {
        memset(train, 0, sizeof(*train));
        train->state = SIM_TRAIN_INIT;
        train->job = order->job;
        train->attempt = order->attempt;
        train->world = order->world;
        train->ranks_per_node = order->rank_count;
        train->slots = order->slot_count;
        train->options = train_options(sim, order->job_name);
        train->restore_step = order->restore_step;
        train->restore_attempt = order->restore_attempt;
        train->step = order->restore_step;
        memset(train->hosts, 0xff, sizeof(train->hosts));
    }
    train->hosts[order->slot] = host;
    return index;
}

/* ---- presence ---------------------------------------------------------------------------- */

enum presence { ALL_THERE, SOME_WAIT, SOME_GONE };

static enum presence presence_of(struct sim *sim, const struct sim_train *train)
{
    enum presence presence = ALL_THERE;
    uint32_t island = UINT32_MAX;
    for (uint32_t slot = 0; slot < train->slots; slot++) {
        const struct sim_shim *shim = shim_of(sim, train, slot);
        if (shim == NULL || !shim->started) {
            presence = presence == SOME_GONE ? SOME_GONE : SOME_WAIT;
            continue;
        }
        const struct sim_host *host = &sim->hosts[train->hosts[slot]];
        island = island == UINT32_MAX ? host->island : island;
        if (host->frozen || host->island != island) {
            presence = presence == SOME_GONE ? SOME_GONE : SOME_WAIT;
        }
        for (uint32_t rank = 0; rank < shim->rank_count; rank++) {
            if (!shim->ranks[rank].alive) {
                presence = SOME_GONE;
            } else if (shim->ranks[rank].hung && presence == ALL_THERE) {
                presence = SOME_WAIT;
            }
        }
    }
    return presence;
}

/* What every mailbox says: the last step that this attempt itself completed. */
static void show(struct sim *sim, const struct sim_train *train, uint8_t phase)
{
    uint64_t step = train->step > train->restore_step ? train->step : 0;
    for (uint32_t slot = 0; slot < train->slots; slot++) {
        struct sim_shim *shim = shim_of(sim, train, slot);
        for (uint32_t index = 0; shim != NULL && index < shim->rank_count; index++) {
            struct sim_rank *rank = &shim->ranks[index];
            if (rank->alive && (rank->phase != phase || rank->step != step)) {
                rank->phase = phase;
                rank->step = step;
                rank->changed_ms = sim->now_ms;
                rank->unread = true;
            }
        }
    }
}

/* All wait for the slowest. */
static uint64_t step_time(const struct sim *sim, const struct sim_train *train)
{
    uint64_t most = 0;
    for (uint32_t slot = 0; slot < train->slots; slot++) {
        uint32_t host = train->hosts[slot];
        uint64_t pct = host == UINT32_MAX ? 0 : sim->hosts[host].straggle_pct;
        most = pct > most ? pct : most;
    }
    return train->options->step_ms * (100 + most) / 100;
}

static uint64_t phase_time(const struct sim *sim, const struct sim_train *train)
{
    switch ((enum sim_train_state)train->state) {
    case SIM_TRAIN_INIT:
        return train->options->init_ms;
    case SIM_TRAIN_RESTORE:
        return train->options->load_ms;
    case SIM_TRAIN_STEP:
        return step_time(sim, train);
    case SIM_TRAIN_SAVE:
        return train->options->save_ms;
    case SIM_TRAIN_FREE:
    case SIM_TRAIN_DONE:
        break;
    }
    return 0;
}

static void plan(struct sim *sim, struct sim_train *train, uint64_t after_ms)
{
    train->next_ms = sim->now_ms + after_ms;
    sim_at(sim, train->next_ms,
           (struct sim_event){.kind = SIM_EV_TRAIN,
                              .index = (uint32_t)(train - sim->trains),
                              .id = train->next_ms,
                              .life = (uint64_t)train->job << 32 | train->attempt});
}

/* Once for all that come and go in one moment: a large job ends in thousands of them. */
void train_look(struct sim *sim, uint32_t index)
{
    struct sim_train *train = &sim->trains[index];
    if (!train->look_due) {
        train->look_due = true;
        sim_at(sim, sim->now_ms,
               (struct sim_event){.kind = SIM_EV_TRAIN,
                                  .what = LOOK_EVENT,
                                  .index = index,
                                  .life = (uint64_t)train->job << 32 | train->attempt});
    }
}

static void look(struct sim *sim, uint32_t index)
{
    struct sim_train *train = &sim->trains[index];
    if (train->state == SIM_TRAIN_FREE || train->state == SIM_TRAIN_DONE) {
        return;
    }
    enum presence presence = presence_of(sim, train);
    if (presence == ALL_THERE) {
        if (train->next_ms == 0) {
            plan(sim, train, phase_time(sim, train));
        }
        return;
    }
    train->next_ms = 0;
    if (presence == SOME_GONE && train->broken_ms == 0) {
        train->broken_ms = sim->now_ms;
        if (train->options->followers_ms > 0) {
            sim_at(sim, sim->now_ms + train->options->followers_ms,
                   (struct sim_event){.kind = SIM_EV_TRAIN,
                                      .what = BROKEN_EVENT,
                                      .index = index,
                                      .life = (uint64_t)train->job << 32 | train->attempt});
        }
    }
}

static void end_all(struct sim *sim, struct sim_train *train, int32_t code)
{
    for (uint32_t slot = 0; slot < train->slots; slot++) {
        struct sim_shim *shim = shim_of(sim, train, slot);
        for (uint32_t rank = 0; shim != NULL && rank < shim->rank_count; rank++) {
            if (shim->ranks[rank].alive && !shim->ranks[rank].hung) {
                uint32_t host = train->hosts[slot];
                shim_rank_end(sim, host, (uint32_t)(shim - sim->hosts[host].shims), rank,
                              RANK_EXITED, code, sim_between(sim, 0, JITTER_MS));
            }
        }
    }
    train->state = SIM_TRAIN_DONE;
}

struct sim_mail *train_mails(struct sim_rank *rank)
{
    if (rank->mails == NULL) {
        rank->mails = mem_alloc(SIM_MAILS_MAX, sizeof(rank->mails[0]));
    }
    return rank->mails;
}

void train_mails_done(struct sim_rank *rank)
{
    rank->mails = mem_free(rank->mails);
}

/* ---- saves ------------------------------------------------------------------------------- */

static void post(struct sim *sim, struct sim_shim *shim, uint32_t rank_index, uint8_t kind,
                 const struct sim_train *train)
{
    struct sim_rank *rank = &shim->ranks[rank_index];
    for (uint32_t index = 0; index < SIM_MAILS_MAX; index++) {
        struct sim_mail *mail = &train_mails(rank)[index];
        if (mail->open) {
            continue;
        }
        memset(mail, 0, sizeof(*mail));
        mail->open = true;
        mail->id = ++rank->mail_next;
        mail->asked_ms = sim->now_ms;
        struct msg_checkpoint *u = &mail->checkpoint;
        u->kind = kind;
        u->step = train->step;
        if (kind != CHECKPOINT_BEGIN) {
            const struct sim_save *save = &sim->saves[train->save - 1];
            u->step = save->step;
        }
        u->shard_count = train->world;
        u->parts = ALL_PARTS;
        u->bytes = kind == CHECKPOINT_COMMIT ? 1000ull * train->world : 1000;
        u->stall_ms = train->options->save_ms;
        (void)text_format(u->hash, sizeof(u->hash), "%032llx",
                          (unsigned long long)(u->step * 1000 + train->attempt));
        (void)text_format(u->directory, sizeof(u->directory), "/ckpt/%s/step-%llu.a-%u",
                          shim->job_name, (unsigned long long)u->step, train->attempt);
        return;
    }
}

static void begin_save(struct sim *sim, struct sim_train *train)
{
    struct sim_shim *first = shim_of(sim, train, 0);
    CHECK(first != NULL);
    if (sim->save_count == SIM_SAVES_MAX) {
        return;
    }
    sim->saves[sim->save_count++] = (struct sim_save){.job = train->job,
                                                      .attempt = train->attempt,
                                                      .step = train->step,
                                                      .shards_wanted = train->world,
                                                      .intact = !train->wrong};
    train->save = sim->save_count;
    train->answered = 0;
    train->commit_asked = false;
    train->state = SIM_TRAIN_SAVE;
    show(sim, train, PHASE_CHECKPOINT);
    post(sim, first, 0, CHECKPOINT_BEGIN, train);
}

static void write_shards(struct sim *sim, struct sim_train *train)
{
    sim->saves[train->save - 1].shards = train->world;
    for (uint32_t slot = 0; slot < train->slots; slot++) {
        struct sim_shim *shim = shim_of(sim, train, slot);
        for (uint32_t rank = 0; shim != NULL && rank < shim->rank_count; rank++) {
            post(sim, shim, rank, CHECKPOINT_SHARD, train);
        }
    }
}

/* The save came to its end, this way or that: who waits for it goes on. */
static void save_over(struct sim *sim, struct sim_train *train)
{
    train->save = 0;
    if (train->state == SIM_TRAIN_SAVE && train->next_ms != 0) {
        plan(sim, train, 0);
    }
}

void train_mail_answer(struct sim *sim, uint32_t host, const struct agent_action *action)
{
    struct sim_shim *shim = shim_find(&sim->hosts[host], action->job, action->attempt);
    if (shim == NULL || action->u.mail.local_rank >= shim->rank_count) {
        return;
    }
    struct sim_rank *rank = &shim->ranks[action->u.mail.local_rank];
    struct sim_mail *mail = NULL;
    for (uint32_t index = 0; rank->mails != NULL && index < SIM_MAILS_MAX; index++) {
        if (rank->mails[index].open && rank->mails[index].id == action->u.mail.id) {
            mail = &rank->mails[index];
        }
    }
    if (mail == NULL) {
        return;
    }
    mail->open = false;
    const struct msg_checkpoint checkpoint = mail->checkpoint;
    bool any_open = false;
    for (uint32_t index = 0; index < SIM_MAILS_MAX; index++) {
        any_open = any_open || rank->mails[index].open;
    }
    if (!any_open) {
        train_mails_done(rank);
    }
    struct sim_train *train = &sim->trains[shim->train];
    const struct msg_checkpoint *asked = &checkpoint;
    struct sim_save *save = train_save(sim, action->job, action->attempt, asked->step);
    bool current = train->job == action->job && train->attempt == action->attempt &&
                   train->save != 0 && save == &sim->saves[train->save - 1];
    if (save == NULL || !current) {
        return;
    }
    if (action->u.mail.status < 0) {
        sim_trace(sim, "job %u attempt %u: save of step %llu refused: %s", save->job, save->attempt,
                  (unsigned long long)save->step, action->u.mail.text);
        save_over(sim, train);
        return;
    }
    if (asked->kind == CHECKPOINT_COMMIT) {
        save->told = true;
        save->shards -= sim_mutate(sim, SIM_LOSE_SHARD) ? 1 : 0;
        save_over(sim, train);
    } else if (asked->kind == CHECKPOINT_SHARD) {
        train->answered++;
    }
    struct sim_shim *first = shim_of(sim, train, 0);
    if (train->save != 0 && train->answered == train->world && !train->commit_asked &&
        first != NULL && first->ranks[0].alive) {
        train->commit_asked = true;
        post(sim, first, 0, CHECKPOINT_COMMIT, train);
    }
}

void train_mail_request(struct sim *sim, uint32_t host, const struct agent_action *action)
{
    struct sim_shim *shim = shim_find(&sim->hosts[host], action->job, action->attempt);
    if (shim != NULL && shim->first_rank == 0) {
        shim->ranks[0].save_request = action->u.request.save_request;
        shim->ranks[0].stop_request = action->u.request.stop_request;
    }
}

/* ---- the events -------------------------------------------------------------------------- */

static void end_init(struct sim *sim, struct sim_train *train)
{
    if (train->restore_step > 0) {
        train->state = SIM_TRAIN_RESTORE;
        show(sim, train, PHASE_RESTORE);
        judge_restored(sim, train);
    } else {
        train->state = SIM_TRAIN_STEP;
        show(sim, train, PHASE_STEP);
    }
}

static void end_restore(struct sim *sim, struct sim_train *train)
{
    const struct sim_save *save =
        train_save(sim, train->job, train->restore_attempt, train->restore_step);
    if (save == NULL || !save->intact) {
        sim_trace(sim, "job %u attempt %u: step %llu cannot be loaded", train->job, train->attempt,
                  (unsigned long long)train->restore_step);
        end_all(sim, train, CODE_TORN);
        return;
    }
    train->state = SIM_TRAIN_STEP;
    show(sim, train, PHASE_STEP);
}

/* A program that is asked for saves has no interval of its own. */
static bool own_save_due(const struct sim_train *train)
{
    const struct sim_job_options *options = train->options;
    bool is_asked = options->interval_auto || options->interval_ms != 0;
    return !is_asked && train->step % options->save_every == 0;
}

static void end_step(struct sim *sim, struct sim_train *train)
{
    train->step++;
    show(sim, train, PHASE_STEP);
    program_step(sim, train);
    const struct sim_rank *first = &shim_of(sim, train, 0)->ranks[0];
    bool asked = first->save_request != train->save_seen;
    bool last = train->step >= train->options->steps;
    train->save_seen = first->save_request;
    train->stopping = asked && first->stop_request;
    if (asked || last || own_save_due(train)) {
        begin_save(sim, train);
        if (train->state != SIM_TRAIN_SAVE && last) {
            end_all(sim, train, 0);
        }
    }
}

/* The shards are there; before leaving, also the commit is waited for. */
static void end_save(struct sim *sim, struct sim_train *train)
{
    bool last = train->step >= train->options->steps;
    const struct sim_save *save = train->save == 0 ? NULL : &sim->saves[train->save - 1];
    if (save != NULL && save->shards == 0) {
        write_shards(sim, train);
        if (last || train->stopping) {
            plan(sim, train, LEAVE_MAX_MS);
            return;
        }
    }
    if (last || train->stopping) {
        end_all(sim, train, last ? 0 : CODE_LATER);
        return;
    }
    train->state = SIM_TRAIN_STEP;
    show(sim, train, PHASE_STEP);
}

void train_event(struct sim *sim, const struct sim_event *event)
{
    struct sim_train *train = &sim->trains[event->index];
    if (event->life != ((uint64_t)train->job << 32 | train->attempt)) {
        return; /* of one that had this place before */
    }
    if (event->what == LOOK_EVENT) {
        train->look_due = false;
        look(sim, event->index);
        return;
    }
    if (train->state == SIM_TRAIN_FREE || train->state == SIM_TRAIN_DONE) {
        return;
    }
    if (event->what == BROKEN_EVENT) {
        end_all(sim, train, CODE_PEER);
        return;
    }
    if (event->id != train->next_ms) {
        return;
    }
    train->next_ms = 0;
    if (program_waits(sim, train)) {
        plan(sim, train, sim->storage_ms - sim->now_ms);
        return;
    }
    switch ((enum sim_train_state)train->state) {
    case SIM_TRAIN_INIT:
        end_init(sim, train);
        break;
    case SIM_TRAIN_RESTORE:
        end_restore(sim, train);
        break;
    case SIM_TRAIN_STEP:
        end_step(sim, train);
        break;
    case SIM_TRAIN_SAVE:
        end_save(sim, train);
        break;
    case SIM_TRAIN_FREE:
    case SIM_TRAIN_DONE:
        break;
    }
    if (train->next_ms == 0) {
        look(sim, event->index);
    }
}
