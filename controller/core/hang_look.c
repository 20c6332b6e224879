/* hang_look.c: whether a job hangs, and what is then said of whom.
 *
 * A job hangs when no rank is inside the limit of its own phase. The limits are fixed until a phase
 * was seen PHASE_SEEN times in this job; from then on they follow what was seen. That is soft: a
 * controller that was just started knows nothing and goes by the fixed ones, which are longer.
 *
 * Two looks. What a rank's program tells of its communicators reaches us when it changes, at most
 * once a second, and unchanged every REPEAT_MS (agent/io/mailboxes.c). So "the same in two looks
 * LOOKS_MS apart" is: nothing else has come for so long. A job whose ranks still told something new
 * when the limit was over is looked at a second time, LOOKS_MS later at most; ranks that move even
 * then are neither guilty nor proof against others. Who has not repeated himself is silent. */
#include <string.h>

#include "controller/core/hang.h"
#include "controller/core/impl.h"

enum {
    STEP_FACTOR = 5,
    STEP_FLOOR_MS = 30000,
    PHASE_SEEN = 3, /* so often, and its own history counts */
    PHASE_FACTOR = 3,
    PHASE_FLOOR_MS = 60000,
    CHECKPOINT_LIMIT_MS = 30 * 60 * 1000,
    EVAL_LIMIT_MS = 60 * 60 * 1000,
    LOOKS_MS = 5000,
    REPEAT_MS = 10000,
    STALE_MS = 2 * REPEAT_MS + LOOKS_MS, /* two repetitions are missing */
};

/* ---- limits --------------------------------------------------------------------------------- */

void hang_phase_seen(struct job *job, uint8_t rank_phase, uint64_t ms, uint64_t which)
{
    CHECK(rank_phase < RANK_PHASES);
    struct phase_history *history = &job->history[rank_phase];
    history->longest_ms = ms > history->longest_ms ? ms : history->longest_ms;
    if (history->count == 0 || which > history->which) { /* not another slot of the same one */
        history->count++;
        history->which = which;
    }
}

static uint64_t fixed_limit_ms(const struct job *job, uint8_t rank_phase)
{
    switch ((enum rank_phase)rank_phase) {
    case PHASE_INIT:
        return job->d.init_timeout_ms;
    case PHASE_RESTORE:
        return job->d.first_step_ms;
    case PHASE_CHECKPOINT:
        return CHECKPOINT_LIMIT_MS;
    case PHASE_EVAL:
        return EVAL_LIMIT_MS;
    case PHASE_STEP:
    case PHASE_IDLE:
        break;
    }
    return NEVER; /* idle: the program says itself that it waits */
}

static uint64_t step_limit_ms(const struct job *job)
{
    uint64_t learned_ms = (uint64_t)STEP_FACTOR * job->step_ms;
    if (job->d.step_timeout_ms != 0) {
        return job->d.step_timeout_ms;
    }
    uint64_t limit_ms = learned_ms > STEP_FLOOR_MS ? learned_ms : STEP_FLOOR_MS;
    /* After each start programs compile, warm caches up and fill queues for some steps. */
    bool warms_up = job->step < job->d.restore_step + job->d.warmup_steps;
    return warms_up && job->d.first_step_ms > limit_ms ? job->d.first_step_ms : limit_ms;
}

uint64_t core_job_limit_ms(const struct job *job, uint8_t rank_phase)
{
    CHECK(rank_phase < RANK_PHASES);
    const struct phase_history *history = &job->history[rank_phase];
    if (rank_phase == PHASE_STEP) {
        return step_limit_ms(job);
    }
    if (history->count < PHASE_SEEN) {
        return fixed_limit_ms(job, rank_phase);
    }
    uint64_t learned_ms = PHASE_FACTOR * history->longest_ms;
    return learned_ms > PHASE_FLOOR_MS ? learned_ms : PHASE_FLOOR_MS;
}

/* The longest limit of the phases that the slot's ranks are in. */
static uint64_t slot_limit_ms(const struct job *job, const struct slot *slot)
{
    uint64_t limit_ms = 0;
    for (uint8_t phase = 0; phase < RANK_PHASES; phase++) {
        bool in = (slot->phases >> phase & 1) != 0;
        uint64_t own_ms = in ? core_job_limit_ms(job, phase) : 0;
        limit_ms = own_ms > limit_ms ? own_ms : limit_ms;
    }
    return limit_ms != 0 ? limit_ms : core_job_limit_ms(job, slot->phase);
}

/* When the job is past its limits: the latest moment at which any rank is still inside its own.
 * NEVER while nobody reports progress. */
static uint64_t limit_over_ms(const struct core *core, const struct job *job)
{
    uint64_t latest = 0;
    uint64_t limit = 0;
    const struct slot *before = NULL; /* of those phases the limit is */
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = core_slot(core, job, i);
        const struct node *node = core_node(core, slot->d.node);
        if (node == NULL || node->link != LINK_UP || slot->d.done) {
            continue; /* says nothing now: the others tell whether the job moves */
        }
        if (!slot->mailbox || slot->progress_ms == 0) {
            return NEVER;
        }
        if (before == NULL || before->phases != slot->phases || before->phase != slot->phase) {
            limit = slot_limit_ms(job, slot);
            before = slot;
        }
        uint64_t until = limit == NEVER ? NEVER : slot->progress_ms + limit;
        latest = until > latest ? until : latest;
    }
    return latest == 0 ? NEVER : latest;
}

uint64_t hang_due_ms(const struct core *core, const struct job *job)
{
    if (log_steps_lead(core, job)) {
        return log_steps_hang_ms(core, job);
    }
    uint64_t over = limit_over_ms(core, job);
    uint64_t still = job->told_ms == 0 ? 0 : job->told_ms + LOOKS_MS;
    if (over == NEVER || still <= over) {
        return over;
    }
    return still < over + LOOKS_MS ? still : over + LOOKS_MS;
}

/* ---- what the ranks told -------------------------------------------------------------------- */

/* What the slot's agent last said of its ranks of the present attempt; NULL: nothing. One that
 * speaks of other ranks than the slot's is not believed (report.c). */
static const struct attempt_report *report_of(const struct node *node, const struct job *job,
                                              uint32_t slot)
{
    for (uint32_t i = 0; node != NULL && i < node->report_count; i++) {
        const struct attempt_report *report = &node->reports[i];
        if (report->job == job->d.job && report->attempt == job->d.attempt &&
            report->first_rank == slot * job->d.ranks_per_node &&
            report->rank_count == job->d.ranks_per_node) {
            return report;
        }
    }
    return NULL;
}

static void read_rank(const struct core *core, const struct job *job, uint32_t rank,
                      struct hang_rank *ret_rank)
{
    const struct slot *slot = core_slot(core, job, rank / job->d.ranks_per_node);
    const struct node *node = core_node(core, slot->d.node);
    const struct attempt_report *report = report_of(node, job, slot->d.slot);
    const struct rank_report *told =
        report == NULL ? NULL : &report->ranks[rank - report->first_rank];
    const struct rank_detail *detail = core_rank_detail(core, job, rank);
    const bool heard = node != NULL && node->link == LINK_UP;
    const bool fresh = detail != NULL && core->t < detail->told_ms + STALE_MS;
    *ret_rank = (struct hang_rank){.step = told != NULL ? told->step : slot->step,
                                   .phase = told != NULL ? told->phase : slot->phase};
    if (slot->d.done || (told != NULL && told->state != RANK_RUNNING)) {
        ret_rank->moved = true; /* over */
    } else if (!heard || !fresh || detail->d.communicator_count == 0) {
        /* Right after a start it may still be on its way. */
        bool early = heard && detail == NULL && core->t < core->start_ms + STALE_MS;
        ret_rank->silent = !early;
        ret_rank->moved = early;
    } else {
        ret_rank->moved = core->t < detail->changed_ms + LOOKS_MS;
        ret_rank->communicator_count = detail->d.communicator_count;
        ret_rank->communicators = detail->d.communicators;
    }
}

/* Who it was. Where the program numbers its ranks in another way than the layout, nothing that
 * rests on coordinates may be asked. */
static void find(struct core *core, const struct job *job, struct hang_found *ret_found)
{
    const struct layout_shape shape = plan_shape(job);
    const uint32_t world = job->slot_count * job->d.ranks_per_node;
    uint32_t unused;
    const bool misplaced = core_job_misplaced(core, job, &unused) > 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        struct hang_rank *one = &core->hang->ranks[rank];
        read_rank(core, job, rank, one);
        if (misplaced) {
            one->communicator_count = 0;
        }
    }
    hang_find(&shape, core->hang, ret_found);
}

/* ---- what is said --------------------------------------------------------------------------- */

static struct fact fact_of(const struct core *core, const struct job *job, uint8_t confidence)
{
    return (struct fact){.source = FACT_NO_PROGRESS,
                         .severity = 2,
                         .job = job->d.job,
                         .attempt = job->d.attempt,
                         .rank = -1,
                         .gpu = -1,
                         .port = -1,
                         .code = confidence,
                         .receive_ms = core->wall_ms};
}

/* "all-reduce 412 of dp" */
static void say_operation(const struct hang_root *root, char *text, size_t size)
{
    const char *word = root->operation == OPERATION_OTHER
                           ? "operation"
                           : collective_operation_word(root->operation);
    (void)text_format(text, size, "%s %llu of %s", word, (unsigned long long)root->sequence,
                      root->name);
}

/* "rank 5 on gpu-0003", "rank 40 and 7 more on gpu-0006" */
static void say_who(const struct core *core, const struct job *job, const struct hang_root *root,
                    char *text, size_t size)
{
    const struct node *node = core_node(core, core_slot(core, job, root->slot)->d.node);
    char more[32] = "";
    if (root->count > 1 && root->kind != HANG_PAIR) {
        (void)text_format(more, sizeof more, " and %u more", root->count - 1);
    }
    (void)text_format(text, size, "rank %u%s on %.40s", root->rank, more,
                      node != NULL ? node->d.name : "no node");
}

/* "after step 41", "after step 41, in checkpoint" */
static void say_when(const struct hang_root *root, char *text, size_t size)
{
    static const char *const phases[RANK_PHASES] = {"init",       "restore", "step",
                                                    "checkpoint", "eval",    "idle"};
    bool elsewhere = root->phase != PHASE_STEP;
    (void)text_format(text, size, "after step %llu%s%s", (unsigned long long)root->step,
                      elsewhere ? ", in " : "", elsewhere ? phases[root->phase] : "");
}

static void say_root(const struct core *core, const struct job *job, const struct hang_found *found,
                     const struct hang_root *root, char text[TEXT_SIZE])
{
    char who[NAME_SIZE + 32];
    char what[64];
    char when[48];
    char others[48];
    const bool one = root->count == 1;
    say_who(core, job, root, who, sizeof who);
    say_operation(root, what, sizeof what);
    say_when(root, when, sizeof when);
    (void)text_format(others, sizeof others, "%u %s for %s", found->waiting,
                      text_plural(found->waiting, "rank waits", "ranks wait"),
                      found->root_count > 1 ? "them" : "it");
    switch ((enum hang_kind)root->kind) {
    case HANG_SILENT:
        (void)text_format(text, TEXT_SIZE, "%s %s nothing; %s, at %s", who, one ? "tells" : "tell",
                          others, what);
        break;
    case HANG_BEFORE:
        (void)text_format(text, TEXT_SIZE, "%s stopped before %s; %s (%s)", who, what, others,
                          when);
        break;
    case HANG_INSIDE:
        (void)text_format(text, TEXT_SIZE, "%s %s left in %s, which all others completed; %s (%s)",
                          who, one ? "is" : "are", what, others, when);
        break;
    case HANG_PAIR:
        (void)text_format(text, TEXT_SIZE, "%s and rank %u: %s between them does not complete (%s)",
                          who, root->peer, what, when);
        break;
    case HANG_GROUP:
        (void)text_format(text, TEXT_SIZE,
                          "%s: all %u of the group reached %s, none completes it "
                          "(%s)",
                          who, root->members, what, when);
        break;
    case HANG_BEHIND:
        (void)text_format(text, TEXT_SIZE, "%s %s behind all others, %s", who, one ? "is" : "are",
                          when);
        break;
    }
}

/* One fact for each slot that is named, the most suspect first. */
static void name_roots(struct core *core, struct job *job, const struct hang_found *found,
                       uint64_t since_service_ms)
{
    for (uint32_t i = 0; i < found->named_count; i++) {
        const struct hang_root *root = &found->roots[i];
        struct fact fact = fact_of(core, job, found->confidence);
        fact.node = core_slot(core, job, root->slot)->d.node;
        fact.rank = (int32_t)root->rank;
        say_root(core, job, found, root, fact.text);
        recovery_fact(core, job, &fact, since_service_ms);
    }
}

/* Ranks of which nothing was heard, whether they are roots or not. Evidence for people: nothing is
 * decided by it. */
static void list_silent(struct core *core, struct job *job, const struct hang_found *found,
                        uint64_t since_service_ms)
{
    if (found->silent_count == 0 || found->told == 0) {
        return; /* a program that tells of no communicator at all is not silent */
    }
    struct fact fact = fact_of(core, job, found->confidence);
    fact.severity = 1;
    fact.rank = (int32_t)found->silent[0];
    (void)text_format(fact.text, TEXT_SIZE, "%u %s:", found->silent_count,
                      text_plural(found->silent_count, "rank tells nothing", "ranks tell nothing"));
    for (uint32_t i = 0; i < found->silent_count && i < HANG_SILENT_MAX; i++) {
        const size_t used = strlen(fact.text);
        (void)text_format(fact.text + used, TEXT_SIZE - used, " %u", found->silent[i]);
    }
    if (found->silent_count > HANG_SILENT_MAX) {
        const size_t used = strlen(fact.text);
        (void)text_format(fact.text + used, TEXT_SIZE - used, " …");
    }
    recovery_fact(core, job, &fact, since_service_ms);
}

bool hang_name(struct core *core, struct job *job, uint64_t since_service_ms)
{
    struct hang_found found;
    if (log_steps_lead(core, job)) {
        return false; /* who does not print is not behind */
    }
    find(core, job, &found);
    if (found.told > 0) {
        core_trace(
            core,
            "job %s hangs: %u of %u ranks tell of communicators, %u wait, %u move, %u silent; "
            "%u roots in %u slots, confidence %s",
            job->d.name, found.told, job->slot_count * job->d.ranks_per_node, found.waiting,
            found.moving, found.silent_count, found.root_count, found.slot_count,
            WORD(confidence, found.confidence));
    }
    if (found.root_count == 0) {
        return false;
    }
    name_roots(core, job, &found, since_service_ms);
    list_silent(core, job, &found, since_service_ms);
    return true;
}

/* ---- the look ------------------------------------------------------------------------------- */

/* How long the one stands that moved last. */
static uint64_t quiet_ms(const struct core *core, const struct job *job)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = core_slot(core, job, i);
        last = slot->progress_ms > last ? slot->progress_ms : last;
    }
    return last != 0 ? core->t - last : 0;
}

bool hang_look(struct core *core, struct job *job)
{
    bool frozen = core->g.breaker_open || job->d.stop_request || job_ends_now(core, job);
    if (frozen || !job->d.watch_progress || core->t < hang_due_ms(core, job)) {
        return false;
    }
    if (core_held(core)) {
        job_would(core, job, 0, "stop it: no rank moved within its limit");
        return true;
    }
    if (log_steps_lead(core, job)) {
        struct fact fact = fact_of(core, job, CONFIDENCE_LOW);
        const uint64_t stood_ms = log_steps_hang(core, job, &fact);
        recovery_fact(core, job, &fact, service_now(core) - stood_ms);
        return true;
    }
    const uint64_t quiet = quiet_ms(core, job);
    const uint64_t since = service_now(core) - quiet;
    if (!hang_name(core, job, since)) {
        struct fact fact = fact_of(core, job, CONFIDENCE_LOW);
        (void)text_format(fact.text, TEXT_SIZE,
                          "no rank moved within its limit; no slot alone is behind, the last stand "
                          "at step %llu for %llu ms",
                          (unsigned long long)job->step, (unsigned long long)quiet);
        recovery_fact(core, job, &fact, since);
    }
    return true;
}
