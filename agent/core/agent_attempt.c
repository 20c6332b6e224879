/* agent_attempt.c: the life of one attempt of one job on this node.
 *
 *                       order                 shim up              all forked
 *            (none) ------------> ordered -------------> starting ------------> running
 *              |                   |  |                   |  |                  |   |
 *        found |            refused|  |stop      shim lost|  |stop     shim lost|   |stop
 *   (foreign)  |                   v  |                   v  |                  v   |
 *              +--> running     refused|               orphaned <---------------+   |
 *              +--> orphaned       |  |     shim up ->  running                     |
 *                                  |  |                   |stop (no TERM: no shim)  |
 *                                  |  v                   v                         |
 *                                  | stopping --grace--> killing --deadline--> unclean
 *                                  |  ^  |                   |                    |  |
 *                                  |  +--|-------------------|--------------------|--+ (stop)
 *                                  |     +----- emptied -----+------ emptied -----+
 *                                  |                         v
 *                                  +-----> forget <------- empty (also from ordered … orphaned,
 *                                             |                    when all ended by themselves)
 *                                             v
 *                                          (none)
 *
 * `emptied` is always a proof: the shim's last record, or a cgroup's populated 0. Ranks of a shim
 * that died without one are found by their cookie and killed, but only by a stop or before a launch
 * of the same job; that nothing is found proves nothing, and such an attempt becomes `unclean`. It
 * stays so until a person vouches for the node, which shows as an order to forget it. When one of
 * them ends by itself it is reported at once, with signal 0: nobody was there to be told. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/text.h"

const char *agent_attempt_state_word(uint8_t state)
{
    switch (state) {
#define X(upper, word)                                                                             \
    case AGENT_ATTEMPT_##upper:                                                                    \
        return word;
        AGENT_ATTEMPT_STATES(X)
#undef X
    default:
        return "?";
    }
}

struct attempt_move {
    uint8_t from;
    uint8_t event;
    uint8_t to;
};

#define M(from, event, to)                                                                         \
    {                                                                                              \
        AGENT_ATTEMPT_##from, ATTEMPT_EV_##event, AGENT_ATTEMPT_##to                               \
    }
static const struct attempt_move attempt_moves[] = {
    M(NONE, ORDER, ORDERED),         M(NONE, FOUND, RUNNING),
    M(NONE, FOUND_DEAD, ORPHANED),   M(ORDERED, SHIM_UP, STARTING),
    M(ORDERED, SHIM_LOST, ORPHANED), M(ORDERED, STOP, STOPPING),
    M(ORDERED, REFUSED, REFUSED),    M(ORDERED, EMPTIED, EMPTY),
    M(STARTING, STARTED, RUNNING),   M(STARTING, SHIM_LOST, ORPHANED),
    M(STARTING, STOP, STOPPING),     M(STARTING, EMPTIED, EMPTY),
    M(RUNNING, SHIM_LOST, ORPHANED), M(RUNNING, STOP, STOPPING),
    M(RUNNING, EMPTIED, EMPTY),      M(ORPHANED, SHIM_UP, RUNNING),
    M(ORPHANED, STOP, KILLING),      M(ORPHANED, EMPTIED, EMPTY),
    M(STOPPING, GRACE, KILLING),     M(STOPPING, SHIM_LOST, KILLING),
    M(STOPPING, REFUSED, REFUSED),   M(STOPPING, EMPTIED, EMPTY),
    M(KILLING, DEADLINE, UNCLEAN),   M(KILLING, REFUSED, REFUSED),
    M(KILLING, EMPTIED, EMPTY),      M(UNCLEAN, STOP, STOPPING),
    M(UNCLEAN, REFUSED, REFUSED),    M(UNCLEAN, EMPTIED, EMPTY),
    M(EMPTY, FORGET, NONE),          M(REFUSED, FORGET, NONE),
};
#undef M

void agent_attempt_move(struct agent_core *core, struct agent_attempt *attempt, uint8_t event,
                        const char *why)
{
    for (size_t i = 0; i < ARRAY_SIZE(attempt_moves); i++) {
        const struct attempt_move *move = &attempt_moves[i];
        if (move->from == attempt->state && move->event == event) {
            agent_trace(core, "job %u attempt %u %s -> %s: %s", attempt->job, attempt->attempt,
                        agent_attempt_state_word(move->from), agent_attempt_state_word(move->to),
                        why);
            attempt->state = move->to;
            if (agent_attempt_over(attempt)) {
                agent_mail_end(core, attempt->job, attempt->attempt);
            }
            core->link.beat_due = true;
            return;
        }
    }
    CHECK(false && "a move that the table does not have");
}

bool agent_attempt_over(const struct agent_attempt *attempt)
{
    return attempt->state == AGENT_ATTEMPT_EMPTY || attempt->state == AGENT_ATTEMPT_REFUSED;
}

bool agent_attempt_ours(const struct agent_core *core, const struct agent_attempt *attempt)
{
    return core->cluster_id[0] != '\0' && text_equal(core->cluster_id, attempt->cluster_id);
}

static bool is_stopping(const struct agent_attempt *attempt)
{
    return attempt->state == AGENT_ATTEMPT_STOPPING || attempt->state == AGENT_ATTEMPT_KILLING ||
           attempt->state == AGENT_ATTEMPT_UNCLEAN;
}

/* ---- places ----------------------------------------------------------------------------- */

void agent_attempt_forget(struct agent_core *core, struct agent_attempt *attempt)
{
    CHECK(agent_attempt_over(attempt));
    agent_mail_forget(core, attempt->job, attempt->attempt);
    /* A foreign one keeps its folder until the controller says so: with no record of it here, the
     * folder is what keeps it from being started again. */
    const bool remove = attempt->ordered || (attempt->foreign && attempt->forget);
    const uint32_t job = attempt->job;
    const uint32_t number = attempt->attempt;
    agent_attempt_move(core, attempt, ATTEMPT_EV_FORGET, "its end is recorded");
    if (attempt->ordered) {
        attempt->state = AGENT_ATTEMPT_EMPTY; /* the record is what frees the place */
        struct agent_record record = {.kind = AGENT_RECORD_FORGET, .job = job, .attempt = number};
        agent_emit_record(core, &record);
        struct agent_job *known = agent_job_find(core, job);
        CHECK(known != NULL);
        known->want = known->want && known->desired.attempt > number;
    }
    if (remove) {
        struct agent_action *action = agent_emit(core, AGENT_ACTION_FORGET);
        action->job = job;
        action->attempt = number;
    }
}

/* How much an attempt is worth keeping when places run out. */
enum keep {
    KEEP_TOMBSTONE, /* nothing ever ran */
    KEEP_ACKED,     /* it is over and the controller has its ends */
    KEEP_ENDS,      /* it is over, its ends are not acknowledged: only a launch is worth more */
    KEEP_ALWAYS,
};

static uint32_t keep_rank(const struct agent_attempt *attempt)
{
    if (!agent_attempt_over(attempt)) {
        return KEEP_ALWAYS;
    }
    if (!attempt->ordered && !attempt->foreign) {
        return KEEP_TOMBSTONE;
    }
    return attempt->ends_acked ? KEEP_ACKED : KEEP_ENDS;
}

struct agent_attempt *agent_attempt_place(struct agent_core *core, bool for_launch)
{
    const uint32_t below = for_launch ? KEEP_ALWAYS : KEEP_ENDS;
    struct agent_attempt *place = agent_attempt_free_place(core);
    if (place != NULL) {
        return place;
    }
    struct agent_attempt *victim = NULL;
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        const uint32_t keep = keep_rank(a);
        if (keep < below && (victim == NULL || keep < keep_rank(victim) ||
                             (keep == keep_rank(victim) && a->attempt < victim->attempt))) {
            victim = a;
        }
    }
    if (victim == NULL) {
        core->counters.too_many++;
        return NULL;
    }
    agent_attempt_forget(core, victim);
    return victim;
}

/* ---- ends ------------------------------------------------------------------------------- */

static void note_end(struct agent_core *core, struct agent_attempt *attempt)
{
    attempt->ends_sequence = agent_next_sequence(core);
    attempt->ends_acked = false;
    attempt->ends_due = true;
    core->link.beat_due = true;
}

/* A rank whose shim died before it could say how it ends: the signal is not known, so it is 0.
 * false: it has ended before, or never ran. */
static bool close_rank(struct agent_attempt *attempt, uint32_t local_rank, uint64_t end_ms)
{
    struct agent_rank *rank = &attempt->ranks[local_rank];
    if (rank->state != RANK_RUNNING) {
        return false;
    }
    rank->state = RANK_SIGNALED;
    rank->code = 0;
    rank->end_ms = end_ms;
    rank->after_stop = attempt->stop_seen;
    (void)text_copy(attempt->text, sizeof(attempt->text),
                    "the ranks' parent was killed; how they ended is not known");
    return true;
}

static void close_open_ranks(struct agent_core *core, struct agent_attempt *attempt)
{
    bool any = false;
    for (uint32_t i = 0; i < attempt->rank_count; i++) {
        any = close_rank(attempt, i, 0) || any;
    }
    if (any) {
        note_end(core, attempt);
    }
}

static void become_empty(struct agent_core *core, struct agent_attempt *attempt, const char *why)
{
    if (agent_attempt_over(attempt)) {
        return;
    }
    close_open_ranks(core, attempt);
    attempt->shim_alive = false;
    attempt->sweeping = false;
    agent_attempt_move(core, attempt, ATTEMPT_EV_EMPTIED, why);
    if (attempt->ordered && !attempt->durable_empty) {
        struct agent_record record = {
            .kind = AGENT_RECORD_EMPTY, .job = attempt->job, .attempt = attempt->attempt};
        agent_emit_record(core, &record);
    }
    /* Forgotten before, when the agent ended between that record and the removal of the folder. */
    const struct agent_job *job = agent_job_find(core, attempt->job);
    if (attempt->foreign && job != NULL && attempt->attempt < job->over_below &&
        agent_attempt_ours(core, attempt)) {
        attempt->forget = true;
    }
}

static void become_refused(struct agent_core *core, struct agent_attempt *attempt, const char *why)
{
    agent_attempt_move(core, attempt, ATTEMPT_EV_REFUSED, why);
    (void)text_copy(attempt->text, sizeof(attempt->text), why);
    if (attempt->ordered && !attempt->durable_refused) {
        struct agent_record record = {
            .kind = AGENT_RECORD_REFUSED, .job = attempt->job, .attempt = attempt->attempt};
        (void)text_copy(record.text, sizeof(record.text), why);
        agent_emit_record(core, &record);
    }
    for (uint32_t i = 0; i < attempt->rank_count; i++) {
        if (attempt->ranks[i].state == RANK_NONE) {
            attempt->ranks[i].state = RANK_UNSTARTED;
            attempt->ranks[i].after_stop = attempt->stop_seen;
        }
    }
    note_end(core, attempt);
}

/* ---- stopping --------------------------------------------------------------------------- */

void agent_attempt_stop(struct agent_core *core, struct agent_attempt *attempt, uint32_t grace_ms)
{
    CHECK(attempt->stop_seen);
    if (agent_attempt_over(attempt)) {
        return;
    }
    /* Without a shim nobody can send TERM, and so there is no grace. */
    const bool orphaned = attempt->state == AGENT_ATTEMPT_ORPHANED;
    const uint64_t kill_ms = core->now_ms + (orphaned ? 0 : grace_ms);
    if (is_stopping(attempt)) {
        if (attempt->state == AGENT_ATTEMPT_STOPPING && kill_ms < attempt->kill_ms) {
            attempt->kill_ms = kill_ms;
            attempt->unclean_ms = kill_ms + AGENT_KILL_DEADLINE_MS;
        }
        return;
    }
    attempt->kill_ms = kill_ms;
    attempt->unclean_ms = kill_ms + AGENT_KILL_DEADLINE_MS;
    attempt->again_ms = 0;
    attempt->term_sent = false;
    attempt->kill_sent = false;
    agent_attempt_move(core, attempt, ATTEMPT_EV_STOP, "stop order");
}

static void emit_for(struct agent_core *core, const struct agent_attempt *attempt, uint8_t kind)
{
    struct agent_action *action = agent_emit(core, kind);
    action->job = attempt->job;
    action->attempt = attempt->attempt;
}

static void tick_with_shim(struct agent_core *core, struct agent_attempt *attempt)
{
    if (attempt->state == AGENT_ATTEMPT_STOPPING) {
        if (!attempt->term_sent) {
            emit_for(core, attempt, AGENT_ACTION_TERM);
            attempt->term_sent = true;
        }
    } else if (!attempt->kill_sent || core->now_ms >= attempt->again_ms) {
        emit_for(core, attempt, AGENT_ACTION_KILL);
        attempt->kill_sent = true;
        attempt->again_ms = core->now_ms + AGENT_KILL_AGAIN_MS;
    }
}

static void tick_without_shim(struct agent_core *core, struct agent_attempt *attempt)
{
    if (core->now_ms >= attempt->again_ms) {
        emit_for(core, attempt, AGENT_ACTION_SWEEP);
        attempt->sweeping = true;
        attempt->again_ms = core->now_ms + AGENT_SWEEP_LOST_MS;
    }
}

static void tick_one(struct agent_core *core, struct agent_attempt *attempt)
{
    if (attempt->state == AGENT_ATTEMPT_STOPPING && core->now_ms >= attempt->kill_ms) {
        agent_attempt_move(core, attempt, ATTEMPT_EV_GRACE, "the grace is over");
        attempt->kill_sent = false;
    }
    if (attempt->state == AGENT_ATTEMPT_KILLING && core->now_ms >= attempt->unclean_ms) {
        agent_attempt_move(core, attempt, ATTEMPT_EV_DEADLINE, "it cannot be emptied");
        if (attempt->text[0] == '\0') {
            (void)text_copy(attempt->text, sizeof(attempt->text),
                            "processes are left after KILL, or none is found and no proof exists");
        }
    }
    if (!is_stopping(attempt) || !core->scanned) {
        return;
    }
    if (attempt->shim_alive) {
        tick_with_shim(core, attempt);
    } else {
        tick_without_shim(core, attempt);
    }
}

void agent_attempts_tick(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (is_stopping(a)) {
            tick_one(core, a);
        } else if (agent_attempt_over(a) && a->forget) {
            agent_attempt_forget(core, a);
        }
    }
}

static uint64_t attempt_deadline(const struct agent_core *core, const struct agent_attempt *attempt)
{
    uint64_t deadline = UINT64_MAX;
    if (attempt->state == AGENT_ATTEMPT_STOPPING) {
        deadline = attempt->kill_ms;
    } else if (attempt->state == AGENT_ATTEMPT_KILLING) {
        deadline = attempt->unclean_ms;
    }
    const bool waits = attempt->state == AGENT_ATTEMPT_STOPPING && attempt->shim_alive;
    if (core->scanned && !waits && attempt->again_ms < deadline) {
        deadline = attempt->again_ms;
    }
    return deadline;
}

uint64_t agent_attempts_deadline(const struct agent_core *core)
{
    uint64_t deadline = UINT64_MAX;
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        const struct agent_attempt *a = &core->attempts[i];
        if (is_stopping(a)) {
            const uint64_t one = attempt_deadline(core, a);
            deadline = one < deadline ? one : deadline;
        }
    }
    return deadline;
}

/* What the journal says, moved to where it stands, when an agent starts. */
void agent_attempts_restore(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state == AGENT_ATTEMPT_NONE) {
            continue;
        }
        CHECK(a->ordered && a->state == AGENT_ATTEMPT_ORDERED);
        if (a->durable_refused) {
            char why[TEXT_SIZE];
            (void)text_copy(why, sizeof(why), a->text);
            become_refused(core, a, why);
        } else if (a->durable_empty) {
            become_empty(core, a, "proven before this start");
        } else if (a->stop_seen) {
            const struct agent_job *job = agent_job_find(core, a->job);
            CHECK(job != NULL);
            agent_attempt_stop(core, a, job->grace_ms);
        }
    }
}

/* ---- what the shim says ------------------------------------------------------------------ */

static bool view_is_sane(const struct agent_shim_view *view)
{
    return view->rank_count > 0 && view->rank_count <= RANKS_PER_NODE_MAX;
}

/* A shim or a folder that no order of ours stands for. */
static struct agent_attempt *find_foreign(struct agent_core *core, const struct agent_event *event)
{
    const struct agent_shim_view *view = event->shim;
    const struct agent_job *job = agent_job_find(core, event->job);
    const bool forgotten = job != NULL && event->attempt < job->order_below && view->empty &&
                           text_equal(view->cluster_id, core->cluster_id);
    if (forgotten) { /* the agent ended between its FORGET record and the deletion */
        struct agent_action *action = agent_emit(core, AGENT_ACTION_FORGET);
        action->job = event->job;
        action->attempt = event->attempt;
        return NULL;
    }
    struct agent_attempt *a = agent_attempt_place(core, false);
    if (a == NULL) {
        agent_trace(core, "job %u attempt %u is here, but there is no place to keep it", event->job,
                    event->attempt);
        return NULL;
    }
    memset(a, 0, sizeof(*a));
    a->job = event->job;
    a->attempt = event->attempt;
    a->foreign = true;
    a->ends_acked = true;
    a->first_rank = view->first_rank;
    a->rank_count = view->rank_count;
    (void)text_copy(a->cluster_id, sizeof(a->cluster_id), view->cluster_id);
    (void)text_copy(a->job_name, sizeof(a->job_name), view->job_name);
    agent_attempt_move(core, a, view->alive ? ATTEMPT_EV_FOUND : ATTEMPT_EV_FOUND_DEAD,
                       "found here, nobody ordered it");
    a->stop_seen = job != NULL && a->attempt < job->stop_below && agent_attempt_ours(core, a);
    return a;
}

/* Takes over what the view says of each rank; true when one more has ended. */
static bool fold_ranks(struct agent_attempt *attempt, const struct agent_shim_view *view)
{
    bool ended = false;
    const uint32_t count =
        view->rank_count < attempt->rank_count ? view->rank_count : attempt->rank_count;
    for (uint32_t i = 0; i < count; i++) {
        struct agent_rank *rank = &attempt->ranks[i];
        const bool over = view->ranks[i].state >= RANK_EXITED;
        if (over && (rank->state < RANK_EXITED || rank->end_sequence == 0)) {
            ended = ended || view->ranks[i].end_sequence != rank->end_sequence;
            rank->code = view->ranks[i].code;
            rank->end_sequence = view->ranks[i].end_sequence;
            rank->end_ms = view->ranks[i].end_ms;
            rank->after_stop = view->ranks[i].after_stop;
        }
        if (over || rank->state < RANK_EXITED) {
            rank->state = view->ranks[i].state;
        }
    }
    return ended;
}

static void move_by_view(struct agent_core *core, struct agent_attempt *attempt,
                         const struct agent_shim_view *view)
{
    if (view->empty) {
        become_empty(core, attempt, "its shim has no child left");
        return;
    }
    if (!view->alive) {
        return; /* only its record: SHIM_LOST and ORPHANS say the rest */
    }
    if (attempt->state == AGENT_ATTEMPT_ORDERED || attempt->state == AGENT_ATTEMPT_ORPHANED) {
        agent_attempt_move(core, attempt, ATTEMPT_EV_SHIM_UP, "its shim answers");
    }
    if (attempt->state == AGENT_ATTEMPT_STARTING && view->started) {
        agent_attempt_move(core, attempt, ATTEMPT_EV_STARTED, "every rank is started");
    }
}

/* The shim was there and is gone, without having proven anything. */
static void lose_shim(struct agent_core *core, struct agent_attempt *attempt)
{
    if (attempt->shim_alive) {
        attempt->shim_alive = false;
        attempt->again_ms = 0; /* what was told to it has to be done without it, at once */
    }
    if (attempt->state == AGENT_ATTEMPT_ORDERED || attempt->state == AGENT_ATTEMPT_STARTING ||
        attempt->state == AGENT_ATTEMPT_RUNNING || attempt->state == AGENT_ATTEMPT_STOPPING) {
        agent_attempt_move(core, attempt, ATTEMPT_EV_SHIM_LOST, "the ranks' parent is gone");
    }
}

void agent_on_shim(struct agent_core *core, const struct agent_event *event)
{
    const struct agent_shim_view *view = event->shim;
    CHECK(view != NULL);
    if (!view_is_sane(view)) {
        core->counters.bad_message++;
        return;
    }
    struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL || (!a->ordered && !a->foreign)) {
        if (a != NULL) { /* a tombstone: something is here after all */
            a->state = AGENT_ATTEMPT_NONE;
        }
        a = find_foreign(core, event);
        if (a == NULL) {
            return;
        }
    }
    if (agent_attempt_over(a) && view->alive && !view->empty) {
        agent_trace(core, "job %u attempt %u is over, but its shim says that ranks live: ignored",
                    event->job, event->attempt);
        core->counters.bad_message++;
        return;
    }
    if (a->shim_alive && !view->alive && !view->empty) {
        lose_shim(core, a); /* its record alone: SHIM_LOST has not been read yet */
    }
    a->shim_alive = view->alive && !view->empty;
    a->launched = true;
    if (view->attached) {
        a->term_sent = false;
        a->kill_sent = false;
        a->sweeping = false;
    }
    if (view->text[0] != '\0') {
        (void)text_copy(a->text, sizeof(a->text), view->text);
    }
    if (fold_ranks(a, view)) {
        note_end(core, a);
    }
    move_by_view(core, a, view);
    if (a->stop_seen && !is_stopping(a) && !agent_attempt_over(a)) {
        const struct agent_job *job = agent_job_find(core, a->job);
        agent_attempt_stop(core, a, job != NULL ? job->grace_ms : AGENT_GRACE_DEFAULT_MS);
    }
}

void agent_on_shim_lost(struct agent_core *core, const struct agent_event *event)
{
    struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL || agent_attempt_over(a)) {
        return;
    }
    lose_shim(core, a);
}

void agent_on_orphans(struct agent_core *core, const struct agent_event *event)
{
    struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL || agent_attempt_over(a) || a->shim_alive) {
        return;
    }
    a->sweeping = false;
    a->again_ms = core->now_ms + AGENT_SWEEP_AGAIN_MS;
    const bool waived = a->forget && a->state == AGENT_ATTEMPT_UNCLEAN;
    if (event->count == 0 && event->ok) {
        become_empty(core, a, "nothing of it is left");
    } else if (event->count == 0 && waived) {
        become_empty(core, a, "nothing of it is found, and the controller waits for no proof");
    } else if (event->count == 0) {
        (void)text_copy(a->text, sizeof(a->text),
                        "no process of it is found, but without a cgroup that is no proof");
    } else {
        (void)text_format(a->text, sizeof(a->text), "%u processes of it live without their parent",
                          event->count);
    }
    core->link.beat_due = true;
}

void agent_on_orphan_ended(struct agent_core *core, const struct agent_event *event)
{
    struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL || agent_attempt_over(a) || a->shim_alive || event->local_rank >= a->rank_count) {
        return;
    }
    if (close_rank(a, event->local_rank, event->ok ? core->now_ms : 0)) {
        agent_trace(core, "job %u attempt %u rank %u: ended without its parent", a->job, a->attempt,
                    a->first_rank + event->local_rank);
        note_end(core, a);
    }
}

void agent_on_launch_failed(struct agent_core *core, const struct agent_event *event)
{
    struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL || a->shim_alive) {
        return;
    }
    if (a->state == AGENT_ATTEMPT_ORDERED || is_stopping(a)) {
        become_refused(core, a, event->text != NULL ? event->text : "it could not be launched");
    }
}

/* ---- what a rank says --------------------------------------------------------------------- */

void agent_on_mailbox(struct agent_core *core, const struct agent_event *event)
{
    const struct agent_mailbox_view *view = event->mailbox;
    struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    CHECK(view != NULL);
    if (a == NULL || view->local_rank >= a->rank_count || !view->valid) {
        return;
    }
    struct agent_rank *rank = &a->ranks[view->local_rank];
    const uint8_t phase = view->phase <= PHASE_IDLE ? view->phase : (uint8_t)PHASE_INIT;
    const bool first_step = rank->step == 0 && view->step > 0;
    if (!rank->has_mailbox || rank->phase != phase || first_step) {
        core->link.beat_due = true;
    }
    rank->has_mailbox = true;
    rank->phase = phase;
    rank->step = view->step;
    rank->changed_ms = view->changed_ms < core->now_ms ? view->changed_ms : core->now_ms;
    rank->step_ms = view->step_ms;
    rank->compute_ms = view->compute_ms;
}

bool agent_rank_prints(const struct agent_rank *rank)
{
    return rank->printed.step > 0 && (rank->printed.alone || !rank->has_mailbox || rank->step == 0);
}

static void on_printed(struct agent_core *core, struct agent_attempt *a,
                       const struct agent_printed *printed)
{
    CHECK(printed != NULL);
    if (printed->local_rank >= a->rank_count || printed->step == 0) {
        return;
    }
    struct agent_rank *rank = &a->ranks[printed->local_rank];
    if (rank->printed.step == 0) {
        core->link.beat_due = true;
    }
    a->read_ms = core->now_ms;
    rank->printed = *printed;
    if (printed->changed_ms > core->now_ms) {
        rank->printed.changed_ms = core->now_ms;
    }
}

void agent_on_output(struct agent_core *core, const struct agent_event *event)
{
    struct agent_attempt *a = agent_attempt_find(core, event->job, event->attempt);
    if (a == NULL) {
        return;
    }
    if (event->kind == AGENT_EVENT_PRINTED) {
        on_printed(core, a, event->printed);
    } else {
        a->read_ms = core->now_ms;
        a->used_ms = event->used_ms;
    }
}
