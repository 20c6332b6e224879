/* goodput_train.c: the program, all ranks of it at once, and the truth about its time.
 *
 *   init --> load --> step <--> (stall of a save)      any of them --halt--> over
 *                       |
 *                       +--> leaving: the save that a planned stop asked for, then code 75
 *
 * Steps are not events: how many are done follows from the clock. A save begins at a step's end, holds
 * training for its stall and is durable later; only then does rank 0 commit it. Every millisecond is
 * counted once: in steps, of which a restore takes back those after the save that it loads; in the
 * stall of a save; or as standing still, for the cause that began it. */
#include <string.h>

#include "controller/sim/goodput_world.h"
#include "proto/base/text.h"

enum {
    CODE_LATER = 75,
    ALL_PARTS = PART_WEIGHTS | PART_OPTIMIZER | PART_SCHEDULER | PART_DATA | PART_RNG,
    SHARD_BYTES = 1 << 20,
};

static struct goodput_cost *cost_of(struct gp *gp, uint32_t cause)
{
    return &gp->result->cost[cause < gp->options.category_count ? cause : GP_OTHER];
}

static bool is_active(const struct gp_train *train)
{
    return train->state != GP_TRAIN_NONE && train->state != GP_TRAIN_OVER;
}

uint64_t gp_train_step(const struct gp *gp)
{
    const struct gp_train *train = &gp->train;
    uint64_t step = train->base_step;
    if (train->stepping && gp->now_ms > train->base_ms) {
        step += (gp->now_ms - train->base_ms) / gp->options.step_ms;
    }
    return step;
}

/* What mailboxes show: the last step that this attempt itself completed. */
uint64_t gp_train_shown(const struct gp *gp)
{
    uint64_t step = gp_train_step(gp);
    return step > gp->train.restore_step ? step : 0;
}

uint8_t gp_train_phase(const struct gp *gp)
{
    switch ((enum gp_train_state)gp->train.state) {
    case GP_TRAIN_LOAD:
        return PHASE_RESTORE;
    case GP_TRAIN_STEP:
        return PHASE_STEP;
    case GP_TRAIN_LEAVING:
        return PHASE_CHECKPOINT;
    case GP_TRAIN_NONE:
    case GP_TRAIN_INIT:
    case GP_TRAIN_OVER:
        break;
    }
    return PHASE_INIT;
}

static void all_read(struct gp *gp)
{
    for (uint32_t index = 0; index < gp->options.nodes; index++) {
        gp_node_read(gp, index);
    }
}

/* ---- the truth --------------------------------------------------------------------------- */

/* The stretch of steps, or the stall before it, ends now. */
static void stop_stepping(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    if (!train->stepping) {
        return;
    }
    uint64_t step = gp_train_step(gp);
    if (gp->now_ms > train->base_ms) {
        train->stepped_ms += gp->now_ms - train->base_ms;
    } else {
        gp->result->stall_ms -= train->base_ms - gp->now_ms;
    }
    train->base_step = step;
    train->stepping = false;
}

void gp_train_halt(struct gp *gp, uint32_t cause)
{
    struct gp_train *train = &gp->train;
    if (!is_active(train) || train->halt_ms != 0) {
        return;
    }
    stop_stepping(gp);
    train->halt_ms = gp->now_ms;
    train->saving_step = 0;
    train->next_save_ms = 0;
    if (train->down_ms == 0) {
        train->down_ms = gp->now_ms;
        train->acted_ms = 0;
        train->cause = cause;
    } else if (train->began && train->cause == GP_OTHER) {
        train->cause = cause;
    }
}

void gp_train_acted(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    if (train->down_ms != 0 && train->acted_ms == 0) {
        train->acted_ms = gp->now_ms;
    }
}

/* Steps begin again: what stood still, and what the restore took back, has its cause now. */
static void settle(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    uint64_t kept_ms = train->restore_step * gp->options.step_ms;
    CHECK(train->stepped_ms - train->lost_ms >= kept_ms);
    uint64_t redo_ms = train->stepped_ms - train->lost_ms - kept_ms;
    train->lost_ms += redo_ms;
    if (!train->began) {
        train->began = true;
        gp->result->start_ms = gp->now_ms - train->down_ms;
        train->down_ms = 0;
        return;
    }
    struct goodput_cost *cost = cost_of(gp, train->cause);
    cost->redo_ms += redo_ms;
    uint64_t acted_ms = train->acted_ms != 0 ? train->acted_ms : train->down_ms;
    cost->detect_ms += acted_ms - train->down_ms;
    cost->down_ms += gp->now_ms - acted_ms;
    train->down_ms = 0;
}

void gp_train_end(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    struct goodput_result *result = gp->result;
    stop_stepping(gp);
    result->wall_ms = gp->now_ms - GP_BEGIN_MS;
    uint64_t kept_ms = train->stepped_ms - train->lost_ms;
    result->steps = gp_train_step(gp);
    result->useful_ms = train->began ? result->steps * gp->options.step_ms : 0;
    /* In the middle of a recovery the steps after the last save are as good as gone. */
    if (train->down_ms != 0 && train->began && train->cause != gp->planned_category) {
        result->steps = train->good_step;
        result->useful_ms = train->good_step * gp->options.step_ms;
    }
    CHECK(kept_ms >= result->useful_ms);
    result->unsettled_ms = kept_ms - result->useful_ms;
    if (train->down_ms != 0) {
        uint64_t down_ms = gp->now_ms - train->down_ms;
        *(train->began ? &result->unsettled_ms : &result->start_ms) += down_ms;
    }
    uint64_t sum_ms =
        result->useful_ms + result->stall_ms + result->start_ms + result->unsettled_ms;
    for (uint32_t index = 0; index <= GOODPUT_CATEGORIES_MAX; index++) {
        const struct goodput_cost *cost = &result->cost[index];
        sum_ms += cost->redo_ms + cost->detect_ms + cost->down_ms;
    }
    CHECK(sum_ms == result->wall_ms);
}

void gp_train_corrupt(struct gp *gp, bool known)
{
    struct gp_train *train = &gp->train;
    if (!known && !train->corrupt) {
        train->corrupt = true;
        train->taint_step = train->clean_step;
    }
    if (known && train->corrupt) {
        train->tainted = true;
        train->taint_attempt = train->attempt;
    }
}

/* ---- an attempt -------------------------------------------------------------------------- */

void gp_train_join(struct gp *gp, const struct msg_desired *order)
{
    struct gp_train *train = &gp->train;
    if (train->state != GP_TRAIN_NONE && train->attempt >= order->attempt) {
        return;
    }
    if (is_active(train)) {
        gp_train_halt(gp, GP_OTHER);
    }
    train->state = GP_TRAIN_INIT;
    train->attempt = order->attempt;
    train->joined = 0;
    train->slots = order->slot_count;
    train->wanted_step = order->restore_step;
    train->wanted_attempt = order->restore_attempt;
    train->restore_step = order->restore_step;
    train->base_step = order->restore_step;
    train->halt_ms = 0;
    train->saving_step = 0;
    train->next_save_ms = 0;
    train->save_seen = 0;
    train->save_request = 0;
    train->stop_request = false;
}

void gp_train_up(struct gp *gp, uint32_t attempt)
{
    struct gp_train *train = &gp->train;
    if (train->state == GP_TRAIN_INIT && train->attempt == attempt &&
        ++train->joined == train->slots) {
        gp_at(gp, gp->now_ms + gp->options.init_ms, GP_EV_PHASE, attempt);
    }
}

bool gp_train_is_up(const struct gp *gp)
{
    return is_active(&gp->train) && gp->train.joined == gp->train.slots;
}

void gp_train_gone(struct gp *gp, uint32_t attempt)
{
    struct gp_train *train = &gp->train;
    if (train->attempt == attempt && is_active(train)) {
        gp_train_halt(gp, GP_OTHER);
        train->state = GP_TRAIN_OVER;
    }
}

/* The program itself knows which saves are wrong, once it has found that its results are: it loads
 * the newest one before, whatever it was given. */
static uint64_t choose_save(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    bool suspect = train->tainted && train->wanted_attempt <= train->taint_attempt &&
                   train->wanted_step > train->taint_step;
    if (suspect) {
        gp->result->suspect_restores++;
        gp_trace(gp, "program: step %llu is suspect, step %llu is loaded",
                 (unsigned long long)train->wanted_step, (unsigned long long)train->clean_step);
    }
    train->corrupt = train->corrupt && !train->tainted;
    return suspect ? train->clean_step : train->wanted_step;
}

static void plan_save(struct gp *gp, uint64_t at_ms)
{
    gp->train.next_save_ms = at_ms;
    gp_at(gp, at_ms, GP_EV_SAVE, gp->train.attempt);
}

static void begin_steps(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    settle(gp);
    train->state = GP_TRAIN_STEP;
    train->base_step = train->restore_step;
    train->base_ms = gp->now_ms;
    train->stepping = true;
    plan_save(gp, gp->now_ms + (uint64_t)gp->interval_steps * gp->options.step_ms);
    gp_at(gp, gp->now_ms + gp->options.step_ms, GP_EV_FIRST, train->attempt);
}

/* The first step beyond what the controller had given it; later, where it loaded an older save. */
static void look_at_first(struct gp *gp)
{
    const struct gp_train *train = &gp->train;
    uint64_t step = gp_train_step(gp);
    all_read(gp);
    if (train->restore_step < train->wanted_step) {
        gp_news_for_beats(
            gp); /* not the first one after the save that it loaded: no hurry to tell */
    }
    if (step <= train->wanted_step) {
        uint64_t ahead = train->wanted_step + 1 - train->base_step;
        gp_at(gp, train->base_ms + ahead * gp->options.step_ms, GP_EV_FIRST, train->attempt);
    }
}

static void end_phase(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    if (train->state == GP_TRAIN_INIT) {
        train->restore_step = choose_save(gp);
        train->base_step = train->restore_step;
    }
    if (train->state == GP_TRAIN_INIT && train->wanted_step > 0) {
        train->state = GP_TRAIN_LOAD;
        gp_at(gp, gp->now_ms + gp->options.load_ms, GP_EV_PHASE, train->attempt);
    } else {
        begin_steps(gp);
    }
    all_read(gp);
}

/* ---- saves ------------------------------------------------------------------------------- */

static uint32_t first_node(const struct gp *gp)
{
    const struct job *job = core_job(gp->ctl.core, gp->job);
    return gp_node_index(gp, core_slot(gp->ctl.core, job, 0)->d.node);
}

static void post(struct gp *gp, uint32_t node, uint32_t rank, uint8_t kind)
{
    const struct gp_train *train = &gp->train;
    uint32_t world = train->slots * gp->options.ranks_per_node;
    struct msg_checkpoint mail = {.step = train->saving_step,
                                  .shard_count = world,
                                  .parts = ALL_PARTS,
                                  .bytes = SHARD_BYTES,
                                  .stall_ms = gp->options.stall_ms};
    mail.kind = kind;
    if (kind == CHECKPOINT_COMMIT) {
        mail.bytes = (uint64_t)SHARD_BYTES * world;
    }
    (void)text_format(mail.hash, sizeof(mail.hash), "%032llx",
                      (unsigned long long)train->saving_step);
    (void)text_format(mail.directory, sizeof(mail.directory), "/ckpt/step-%llu.a-%u",
                      (unsigned long long)train->saving_step, train->attempt);
    gp_node_mail(gp, node, rank, &mail);
}

static void begin_save(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    bool leaves = train->stop_request && train->save_seen != train->save_request;
    stop_stepping(gp);
    train->save_seen = train->save_request;
    train->saving_step = train->base_step;
    train->durable_ms = gp->now_ms + gp->options.save_ms;
    train->shards = 0;
    gp_at(gp, train->durable_ms, GP_EV_DURABLE, train->attempt);
    post(gp, first_node(gp), 0, CHECKPOINT_BEGIN);
    if (leaves) {
        train->state = GP_TRAIN_LEAVING;
        train->down_ms = gp->now_ms;
        train->acted_ms = gp->now_ms;
        train->cause = gp->planned_category;
        train->next_save_ms = 0;
        gp_news_for_beats(gp); /* with the next one each reads that it saves */
        gp_at(gp, train->durable_ms - 1, GP_EV_WAKE, 0);
        return;
    }
    gp->result->stall_ms += gp->options.stall_ms;
    train->base_ms = gp->now_ms + gp->options.stall_ms;
    train->stepping = true;
    plan_save(gp, train->base_ms + (uint64_t)gp->interval_steps * gp->options.step_ms);
}

/* Shards but that of rank 0 only count for show: told by all where every beat is. */
static void write_shards(struct gp *gp)
{
    if (!gp->options.full_heartbeats) {
        post(gp, first_node(gp), 0, CHECKPOINT_SHARD);
        return;
    }
    const struct job *job = core_job(gp->ctl.core, gp->job);
    for (uint32_t slot = 0; slot < gp->train.slots; slot++) {
        uint32_t node = gp_node_index(gp, core_slot(gp->ctl.core, job, slot)->d.node);
        for (uint32_t rank = 0; rank < gp->options.ranks_per_node; rank++) {
            post(gp, node, rank, CHECKPOINT_SHARD);
        }
    }
}

static void leave(struct gp *gp)
{
    const struct job *job = core_job(gp->ctl.core, gp->job);
    for (uint32_t slot = 0; slot < gp->train.slots; slot++) {
        uint32_t id = core_slot(gp->ctl.core, job, slot)->d.node;
        if (id != 0) {
            gp_node_ranks_end(gp, gp_node_index(gp, id), RANK_EXITED, CODE_LATER);
        }
    }
}

void gp_train_answer(struct gp *gp, const struct agent_action *action)
{
    struct gp_train *train = &gp->train;
    if (action->attempt != train->attempt || train->saving_step == 0 || action->u.mail.status < 0) {
        return;
    }
    train->shards++; /* the answer to its begin is the first */
    uint32_t told = gp->options.full_heartbeats ? train->slots * gp->options.ranks_per_node : 1;
    if (train->shards == told + 1 || train->shards == told + 2) {
        gp_at(gp, gp->now_ms, GP_EV_COMMIT, train->attempt);
    }
}

static void committed(struct gp *gp)
{
    struct gp_train *train = &gp->train;
    train->good_step = train->saving_step;
    train->clean_step = train->corrupt ? train->clean_step : train->saving_step;
    train->saving_step = 0;
    gp->result->saves++;
    if (train->state == GP_TRAIN_LEAVING) {
        leave(gp);
    }
}

void gp_train_request(struct gp *gp, const struct agent_action *action)
{
    struct gp_train *train = &gp->train;
    if (action->attempt != train->attempt || train->state != GP_TRAIN_STEP || train->halt_ms != 0) {
        return;
    }
    train->save_request = action->u.request.save_request;
    train->stop_request = action->u.request.stop_request;
    if (train->save_request != train->save_seen) {
        uint64_t begun_ms = gp->now_ms > train->base_ms ? gp->now_ms - train->base_ms : 0;
        uint64_t ahead = begun_ms / gp->options.step_ms + 1;
        plan_save(gp, train->base_ms + ahead * gp->options.step_ms);
    }
}

void gp_train_event(struct gp *gp, enum gp_event kind, uint32_t attempt)
{
    struct gp_train *train = &gp->train;
    if (train->attempt != attempt || train->halt_ms != 0 || !is_active(train)) {
        return;
    }
    switch (kind) {
    case GP_EV_PHASE:
        end_phase(gp);
        return;
    case GP_EV_FIRST:
        look_at_first(gp);
        return;
    case GP_EV_SAVE:
        if (train->next_save_ms == gp->now_ms && train->state == GP_TRAIN_STEP) {
            begin_save(gp);
        }
        return;
    case GP_EV_DURABLE:
        if (train->saving_step != 0 && train->durable_ms == gp->now_ms) {
            write_shards(gp);
        }
        return;
    case GP_EV_COMMIT:
        if (train->saving_step == 0) {
            return;
        }
        if (train->durable_ms != 0) {
            train->durable_ms = 0;
            post(gp, first_node(gp), 0, CHECKPOINT_COMMIT);
        } else {
            committed(gp);
        }
        return;
    default:
        CHECK(false);
    }
}
