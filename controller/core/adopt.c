/* adopt.c: an operator takes over what agents report and this store does not know.
 *
 * A store that was put back is older than the world: agents run attempts that it never made, on
 * nodes to which it never gave a slot. Who runs which ranks is then told by the reports alone, so
 * adopting is: read the newest attempt of each job and its slot map from them; if they name exactly
 * one node for every slot, move the counters past what was reported and the slots to who has them.
 * Everything is looked at before anything is changed. Reports that contradict each other, or that
 * leave a slot open, are a refusal which names it: a guess might stop ranks in good health. Only of
 * an attempt whose stop has been ordered may slots be open: they are filled like those of any
 * recovery, which goes on from there.
 *
 * Ranks of a job that this store does not know have nothing to be adopted into and stay listed. */
#include <errno.h>
#include <string.h>

#include "controller/core/impl.h"

enum { ATTEMPT_MAX = UINT32_MAX / 2, SAVES_AHEAD = 65536 };

/* What the reports say of one job. */
struct claims {
    bool newer;       /* than this store: there is something to adopt */
    bool any;         /* ranks of some attempt are reported */
    uint32_t attempt; /* the newest whose ranks are reported */
    uint32_t top;     /* the highest number that an agent has heard of */
    bool over;        /* a stop of it has reached an agent: it only remains to go on from there */
};

/* ---- what the reports say ------------------------------------------------------------------- */

static bool speaks(const struct node *node)
{
    return node->session != 0 && node->reported;
}

static void claim(struct claims *claims, const struct job *job, const struct attempt_report *report)
{
    bool first = !job->d.attempted || report->attempt > job->d.attempt;
    bool unlaunched = report->attempt == job->d.attempt && !job->d.launched && !report->empty;
    claims->newer = claims->newer || first || unlaunched;
    claims->top = report->attempt > claims->top ? report->attempt : claims->top;
    if (report->rank_count == 0) {
        return; /* a stop that it has seen, of an attempt that never ran there */
    }
    if (!claims->any || report->attempt > claims->attempt) {
        claims->any = true;
        claims->attempt = report->attempt;
        claims->over = false;
    }
    claims->over = claims->over || (report->attempt == claims->attempt && report->stop_seen);
}

static struct claims claims_of(const struct core *core, const struct job *job)
{
    struct claims claims = {0};
    for (uint32_t i = 0; i < core->node_count && !core_job_over(job) && !job->d.quarantined; i++) {
        const struct node *node = &core->nodes[i];
        for (uint32_t k = 0; speaks(node) && k < node->report_count; k++) {
            if (node->reports[k].job == job->d.job) {
                claim(&claims, job, &node->reports[k]);
            }
        }
    }
    claims.over = claims.over || claims.top > claims.attempt;
    return claims;
}

bool adopt_is_due(const struct core *core, const struct job *job)
{
    return claims_of(core, job).newer;
}

/* The report by which this node claims a slot of that attempt; NULL when it claims none. */
static const struct attempt_report *claim_at(const struct node *node, uint32_t job,
                                             uint32_t attempt)
{
    for (uint32_t i = 0; speaks(node) && i < node->report_count; i++) {
        const struct attempt_report *report = &node->reports[i];
        if (report->job == job && report->attempt == attempt && report->rank_count > 0) {
            return report;
        }
    }
    return NULL;
}

/* ---- what speaks against it ----------------------------------------------------------------- */

static bool object(struct core *core, const struct request *request, const struct job *job,
                   const char *what)
{
    request_reply(core, request, -EBUSY, job->d.job, false, "%s; nothing was changed", what);
    return false;
}

/* The node is free for this slot: not at work elsewhere, neither here nor by its own word. */
static bool node_fits(struct core *core, const struct request *request, const struct job *job,
                      uint32_t slot, const struct node *node)
{
    char text[TEXT_SIZE];
    for (uint32_t i = 0; i < node->report_count; i++) {
        const struct job *other = core_job(core, node->reports[i].job);
        if (other != NULL && other != job && !core_job_over(other) && !node->reports[i].empty) {
            text_format(text, sizeof text,
                        "%s reports ranks of %s and of %s, and a node has one slot: end those "
                        "that are wrong there",
                        node->d.name, job->d.name, other->d.name);
            return object(core, request, job, text);
        }
    }
    const struct job *holder = core_job(core, node->d.job);
    if (holder != NULL && holder != job && !adopt_is_due(core, holder)) {
        text_format(text, sizeof text,
                    "%s reports slot %u of %s and holds slot %u of %s in this store: cancel %s "
                    "first",
                    node->d.name, slot, job->d.name, node->d.slot, holder->d.name, holder->d.name);
        return object(core, request, job, text);
    }
    uint8_t when;
    if (holder != job && node_leaves(core, node, &when) && when != WHEN_JOB_END) {
        text_format(text, sizeof text,
                    "%s reports slot %u of %s and has a mark that would take it out at once: "
                    "keepstep undrain it first",
                    node->d.name, slot, job->d.name);
        return object(core, request, job, text);
    }
    return true;
}

/* One node's claim goes into the map (core->plan_ids, by slot). */
static bool enter(struct core *core, const struct request *request, const struct job *job,
                  const struct node *node, const struct attempt_report *report)
{
    char text[TEXT_SIZE];
    uint32_t each = job->d.ranks_per_node;
    uint32_t slot = report->first_rank / each;
    if (report->first_rank % each != 0 || report->rank_count != each || slot >= job->slot_count) {
        text_format(text, sizeof text,
                    "%s reports ranks %u to %u of %s, which has %u %s of %u here", node->d.name,
                    report->first_rank, report->first_rank + report->rank_count - 1, job->d.name,
                    job->slot_count, text_plural(job->slot_count, "slot", "slots"), each);
        return object(core, request, job, text);
    }
    if (core->plan_ids[slot] != 0) {
        text_format(text, sizeof text,
                    "%s and %s both report slot %u of %s at attempt %u: end the wrong one there",
                    core->nodes[core->plan_ids[slot] - 1].d.name, node->d.name, slot, job->d.name,
                    report->attempt);
        return object(core, request, job, text);
    }
    core->plan_ids[slot] = node->d.node;
    return true;
}

static bool no_holes(struct core *core, const struct request *request, const struct job *job,
                     const struct claims *claims)
{
    char text[TEXT_SIZE];
    for (uint32_t i = 0; i < job->slot_count && !claims->over; i++) {
        if (core->plan_ids[i] != 0) {
            continue;
        }
        const struct node *holder = core_node(core, core_slot(core, job, i)->d.node);
        text_format(text, sizeof text,
                    "nobody reports slot %u of %s at attempt %u%s%s%s: start its agent, or "
                    "keepstep admin stop-foreign",
                    i, job->d.name, claims->attempt, holder != NULL ? " (here " : "",
                    holder != NULL ? holder->d.name : "", holder != NULL ? " holds it)" : "");
        return object(core, request, job, text);
    }
    return true;
}

static bool counter_ok(struct core *core, const struct request *request, const struct job *job,
                       const struct claims *claims)
{
    char text[TEXT_SIZE];
    if (claims->top >= ATTEMPT_MAX) {
        text_format(text, sizeof text, "attempt %u of %s is reported: no counter goes past that",
                    claims->top, job->d.name);
        return object(core, request, job, text);
    }
    if (job->d.state == JOB_STOPPING) {
        text_format(text, sizeof text,
                    "%s stops for good in this store and attempt %u of it is reported: keepstep "
                    "admin stop-foreign ends that",
                    job->d.name, claims->top);
        return object(core, request, job, text);
    }
    return true;
}

/* Who holds which slot by the reports, into core->plan_ids. false: they do not say; answered. */
static bool check_map(struct core *core, const struct request *request, const struct job *job,
                      const struct claims *claims)
{
    memset(core->plan_ids, 0, job->slot_count * sizeof *core->plan_ids);
    if (!counter_ok(core, request, job, claims)) {
        return false;
    }
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct node *node = &core->nodes[i];
        const struct attempt_report *report = claim_at(node, job->d.job, claims->attempt);
        if (report != NULL &&
            (!enter(core, request, job, node, report) ||
             !node_fits(core, request, job, report->first_rank / job->d.ranks_per_node, node))) {
            return false;
        }
    }
    return no_holes(core, request, job, claims);
}

/* The same of reports that were checked. Slots that nobody claims stay with who holds them here, if
 * that node is there to say that it runs nothing of another slot, else with nobody. */
static void read_map(struct core *core, const struct job *job, const struct claims *claims)
{
    memset(core->plan_ids, 0, job->slot_count * sizeof *core->plan_ids);
    for (uint32_t i = 0; i < core->node_count; i++) {
        const struct attempt_report *report =
            claim_at(&core->nodes[i], job->d.job, claims->attempt);
        if (report != NULL) {
            core->plan_ids[report->first_rank / job->d.ranks_per_node] = i + 1;
        }
    }
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct node *holder = core_node(core, core_slot(core, job, i)->d.node);
        if (core->plan_ids[i] == 0 && holder != NULL && speaks(holder) &&
            claim_at(holder, job->d.job, claims->attempt) == NULL) {
            core->plan_ids[i] = holder->d.node;
        }
    }
}

/* Slots whose holder is another than this store says; looks at core->plan_ids. */
static uint32_t moved_slots(const struct core *core, const struct job *job)
{
    uint32_t moved = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        moved += core_slot(core, job, i)->d.node != core->plan_ids[i] ? 1 : 0;
    }
    return moved;
}

/* ---- doing it ------------------------------------------------------------------------------- */

static void leave_slots(struct core *core, const struct job *job, const struct claims *claims)
{
    read_map(core, job, claims);
    for (uint32_t i = 0; i < job->slot_count; i++) {
        if (core_slot(core, job, i)->d.node != core->plan_ids[i]) {
            plan_leave_slot(core, job, i);
        }
    }
}

static void take_slots(struct core *core, const struct job *job, const struct claims *claims)
{
    read_map(core, job, claims);
    for (uint32_t i = 0; i < job->slot_count; i++) {
        if (core_slot(core, job, i)->d.node == 0 && core->plan_ids[i] != 0) {
            plan_take_slot(core, job, i, core->plan_ids[i], 0, "its agent reports it");
        }
    }
}

/* Whatever this store was about to do for the job has been done, by a controller whose records it
 * has lost: the job runs. */
static void overtaken(struct core *core, struct job *job)
{
    if (job->d.state == JOB_PENDING) {
        job_move(core, job, JOB_STARTING, "");
        recovery_open(core, job, CAUSE_START, 0, service_now(core));
    } else if (job->d.state == JOB_HELD) {
        recovery_open(core, job, CAUSE_PLANNED, 0, service_now(core));
    }
    job_end_attempt(core, job);
    if (job->d.hold_asked) {
        job_ask_hold(core, job, false, "keepstep");
    }
    if (job->d.recovery != 0) {
        recovery_close(core, job, OUTCOME_RECOVERED);
    }
    if (job->d.state != JOB_RUNNING) {
        job_move(core, job, JOB_RUNNING, "");
    }
}

static void move_counters(struct core *core, const struct job *job, uint32_t attempt, uint64_t term,
                          uint32_t moved)
{
    struct record *record = record_begin(core, RECORD_counters_adopted_kind);
    record->u.counters_adopted.job = job != NULL ? job->d.job : 0;
    record->u.counters_adopted.attempt = attempt;
    record->u.counters_adopted.term = term;
    if (job == NULL) {
        record_subject(record, "cluster");
        record_says(record, "CountersAdopted", SEVERITY_WARN, "term %llu, this store was at %llu",
                    (unsigned long long)term, (unsigned long long)core->g.term);
    } else {
        char was[32] = "had none";
        if (job->d.attempted) {
            text_format(was, sizeof was, "was at %u", job->d.attempt);
        }
        record->job = job->d.job;
        record_subject(record, "job/%s", job->d.name);
        record_says(record, "CountersAdopted", SEVERITY_WARN,
                    "goes on at attempt %u, this store %s; %u %s moved to who reports %s", attempt,
                    was, moved, text_plural(moved, "slot", "slots"),
                    text_plural(moved, "it", "them"));
    }
    core_emit(core, record);
}

/* Saves of the lost time are on the disk and not known here, and numbers that this store used again
 * would be taken for ones that were served already. */
static void ask_for_save(struct core *core, struct job *job)
{
    struct record *record = record_begin(core, RECORD_save_asked_kind);
    record->u.save_asked.job = job->d.job;
    record->u.save_asked.request = job->d.save_request + SAVES_AHEAD;
    record->job = job->d.job;
    record_subject(record, "job/%s", job->d.name);
    record_says(record, "SaveAsked", SEVERITY_INFO,
                "save at the next step: those made meanwhile are not known here");
    core_emit(core, record);
}

struct tally {
    uint32_t jobs;
    uint32_t sets;    /* of foreign ranks that are adopted or stopped */
    uint32_t unknown; /* … that belong to no job here */
    char text[TEXT_SIZE];
};

static void tell(struct tally *tally, const struct job *job, const struct claims *claims,
                 uint32_t moved)
{
    size_t used = strlen(tally->text);
    tally->jobs++;
    text_format(tally->text + used, sizeof tally->text - used, "; %.48s at attempt %u, %u %s moved",
                job->d.name, claims->top, moved, text_plural(moved, "slot", "slots"));
}

static bool all_clear(struct core *core, const struct request *request, struct tally *tally)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = &core->jobs[i];
        struct claims claims = claims_of(core, job);
        if (!claims.newer) {
            continue;
        }
        if (!check_map(core, request, job, &claims)) {
            return false;
        }
        read_map(core, job, &claims);
        tell(tally, job, &claims, moved_slots(core, job));
    }
    return true;
}

static void adopt_job(struct core *core, struct job *job, const struct claims *claims)
{
    read_map(core, job, claims);
    uint32_t moved = moved_slots(core, job);
    overtaken(core, job);
    move_counters(core, job, claims->top, 0, moved);
    take_slots(core, job, claims);
    if (!claims->over) {
        ask_for_save(core, job);
    }
}

static void resolve(struct core *core, const struct request *request, bool stop,
                    const struct record_image_foreign *foreign)
{
    struct record *record = record_begin(core, RECORD_foreign_resolved_kind);
    record->u.foreign_resolved.node = foreign->node;
    record->u.foreign_resolved.job = foreign->job;
    record->u.foreign_resolved.attempt = foreign->attempt;
    record->u.foreign_resolved.stopped = stop;
    record->node = foreign->node;
    record_subject(record, "node/%s", core->nodes[foreign->node - 1].d.name);
    record_says(record, "ForeignResolved", SEVERITY_INFO, "%s by %s", stop ? "stopped" : "adopted",
                request->actor);
    core_emit(core, record);
}

static bool is_named(const struct request *request, uint32_t node)
{
    bool named = request->node_count == 0;
    for (uint32_t k = 0; k < request->node_count; k++) {
        named = named || request->nodes[k] == node;
    }
    return named;
}

/* Every listed set of foreign ranks that the request speaks of. */
static void resolve_all(struct core *core, const struct request *request, bool stop,
                        struct tally *tally)
{
    for (uint32_t i = 0; i < core->foreign_count; i++) {
        struct record_image_foreign d = core->foreigns[i].d;
        if (d.resolved || (stop && !is_named(request, d.node))) {
            continue;
        }
        if (!stop && core_job(core, d.job) == NULL) {
            tally->unknown++; /* there is no job that they could belong to: they stay listed */
            continue;
        }
        tally->sets++;
        if (!request->dry_run) {
            resolve(core, request, stop, &d);
        }
    }
}

static void tell_everybody(struct core *core)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        if (core->nodes[i].session != 0) {
            desired_send_node(core, &core->nodes[i]);
        }
    }
    core->look = true;
}

/* All jobs of which agents know more. Slots are left in all of them before any is taken: a node may
 * have gone from one job to another. */
static void adopt_jobs(struct core *core)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        struct claims claims = claims_of(core, &core->jobs[i]);
        if (claims.newer) {
            leave_slots(core, &core->jobs[i], &claims);
        }
    }
    for (uint32_t i = 0; i < core->job_count; i++) {
        struct job *job = &core->jobs[i];
        struct claims claims = claims_of(core, job);
        if (!claims.newer) {
            continue;
        }
        adopt_job(core, job, &claims);
        if (claims.over) { /* its stop is under way: the recovery that began it goes on here */
            recovery_open(core, job, CAUSE_PLANNED, 0, service_now(core));
        }
    }
}

void adopt_request(struct core *core, const struct request *request)
{
    struct tally tally = {0};
    char result[TEXT_SIZE];
    if (!all_clear(core, request, &tally)) {
        return;
    }
    bool changed = tally.jobs > 0 || core->old_store;
    if (!request->dry_run) {
        adopt_jobs(core);
    }
    resolve_all(core, request, false, &tally);
    if (!request->dry_run && core->old_store) {
        if (core->term_seen >= core->g.term) {
            move_counters(core, NULL, 0, core->term_seen + 1, 0);
        }
        core->old_store = false;
    }
    if (tally.unknown > 0) {
        text_format(result, sizeof result,
                    "%u %s of foreign ranks adopted%.70s; %u %s to no job that this store knows: "
                    "left alone, keepstep admin stop-foreign ends %s",
                    tally.sets, text_plural(tally.sets, "set", "sets"), tally.text, tally.unknown,
                    text_plural(tally.unknown, "belongs", "belong"),
                    text_plural(tally.unknown, "it", "them"));
    } else {
        text_format(result, sizeof result, "%u %s of foreign ranks adopted%s", tally.sets,
                    text_plural(tally.sets, "set", "sets"), tally.text);
    }
    if (!request->dry_run) {
        tell_everybody(core);
        request_audit(core, request, "adopt", "cluster", result);
    }
    request_reply(core, request, 0, 0, changed || tally.sets > 0, "%s", result);
}

void adopt_stop_foreign(struct core *core, const struct request *request)
{
    struct tally tally = {0};
    resolve_all(core, request, true, &tally);
    if (!request->dry_run && tally.sets > 0) {
        tell_everybody(core);
        request_audit(core, request, "stop-foreign", "cluster", "told to stop");
    }
    request_reply(core, request, 0, 0, tally.sets > 0, "%u %s of foreign ranks told to stop",
                  tally.sets, text_plural(tally.sets, "set", "sets"));
}
