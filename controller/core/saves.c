/* saves.c: what lies in a job's checkpoint folder, asked of an agent that looks as the job's user.
 *
 *            ask               FOUND … DONE
 *   stale ---------> listing ----------------> listed      the plan may choose
 *     ^                 | error, or no answer
 *     |                 +---> the next node, LIST_TRIES in all; then `failed`
 *     +--- an attempt was made
 *
 * One that finds none of all those that are known counts as failed, and is tried on another node: a
 * mount that is missing looks like that. Where the other one sees the same a person is asked; what
 * was trained for weeks is not begun anew because nobody looked closely.
 *
 * Before each plan, so that what was torn, lost or exchanged since it was recorded is passed over
 * at once and not after two attempts that failed on it. Saves that the program tells of through the
 * library are only compared: one that nobody committed while its attempt was current is never
 * taken, whatever lies there. Saves of other formats are found by looking, while the job runs too;
 * of them names, sizes and times are recorded when they are first seen whole, and one that differs
 * when it is to be restored is not what was recorded. */
#include <string.h>

#include "controller/core/impl.h"

enum {
    LIST_TRIES = 2,
    LIST_MS = 10000,       /* the agent's own deadline */
    LIST_EXTRA_MS = 2000,  /* … and what its answer may take beyond */
    LIST_AGAIN_MS = 15000, /* while the job runs */
};
#define NEVER_SEEN UINT64_MAX /* no listing has this number */

bool saves_are_found(const struct job *job)
{
    return job->d.reader != READER_NONE && job->d.reader != READER_KEEPSTEP;
}

/* ---- whom to ask ---------------------------------------------------------------------------- */

static bool may_look(const struct core *core, const struct job *job, const struct node *node)
{
    bool here = node->session != 0 && node->link == LINK_UP;
    bool ours = node->d.job == job->d.job;
    bool pool = job->d.pool[0] == '\0' || text_equal(job->d.pool, node->d.pool);
    return here && (ours || (pool && core_node_usable(core, node)));
}

/* One pass over the holders of slots, or over the others; counts *index down. */
static struct node *nth(struct core *core, const struct job *job, bool holders, uint32_t *index)
{
    for (uint32_t i = 0; i < core->node_count; i++) {
        struct node *node = &core->nodes[i];
        if ((node->d.job == job->d.job) == holders && may_look(core, job, node) &&
            (*index)-- == 0) {
            return node;
        }
    }
    return NULL;
}

struct node *saves_node(struct core *core, const struct job *job, uint32_t index, bool spare)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->node_count; i++) {
        count += may_look(core, job, &core->nodes[i]) ? 1 : 0;
    }
    if (count == 0) {
        return NULL;
    }
    index %= count;
    struct node *node = nth(core, job, !spare, &index);
    return node != NULL ? node : nth(core, job, spare, &index);
}

struct msg_save_ask *saves_send(struct core *core, const struct job *job, struct node *node,
                                struct save_errand *errand, uint8_t task, uint32_t timeout_ms)
{
    struct action *action = action_send(core, node, MSG_SAVE_ASK);
    struct msg_save_ask *u = &action->u.save_ask;
    u->nonce = ++core->nonce;
    u->task = task;
    u->job = job->d.job;
    u->timeout_ms = timeout_ms;
    text_copy(u->job_name, sizeof u->job_name, job->d.name);
    *errand = (struct save_errand){.nonce = u->nonce,
                                   .task = task,
                                   .node = node->d.node,
                                   .deadline_ms = core->t + timeout_ms + LIST_EXTRA_MS};
    return u;
}

/* ---- the listing ---------------------------------------------------------------------------- */

static void begin(struct core *core, struct job *job)
{
    struct node *node = saves_node(core, job, job->saves.tries, false);
    job->saves.lowest = UINT64_MAX;
    job->saves.place[0] = '\0';
    if (node != NULL) {
        (void)saves_send(core, job, node, &job->saves.list, SAVE_LIST, LIST_MS);
    }
}

static void end(struct core *core, struct job *job, const char *failure)
{
    struct job_saves *saves = &job->saves;
    bool running = job->d.state == JOB_RUNNING;
    saves->list.nonce = 0;
    saves->due_ms = core->t + LIST_AGAIN_MS;
    saves->tries = failure[0] != '\0' ? saves->tries + 1 : 0;
    text_copy(saves->text, sizeof saves->text, failure);
    if (failure[0] != '\0') {
        core_trace(core, "job %s: its checkpoints cannot be listed: %s", job->d.name, failure);
    }
    if (!running && (failure[0] == '\0' || saves->tries >= LIST_TRIES)) {
        saves->listed = true;
        saves->failed = failure[0] != '\0';
        saves->tries = 0;
    }
    core->look = true;
}

static bool is_silent(const struct core *core, const struct save_errand *errand)
{
    const struct node *node = core_node(core, errand->node);
    return core->t >= errand->deadline_ms || node == NULL || node->session == 0;
}

static void mark_missing(struct core *core, const struct job *job, uint64_t seen);

/* Until a person was asked and has released the job since: what is not there then is given up. */
static enum save_listing ask_about_gone(struct core *core, struct job *job, char reason[TEXT_SIZE])
{
    if (job->d.approved && job->saves.gone_told) {
        mark_missing(core, job, NEVER_SEEN);
        job->saves.gone = false;
        job->saves.failed = false;
        job->saves.gone_told = false;
        return SAVES_LISTED;
    }
    text_sentence(reason, TEXT_SIZE,
                  "%.110s; mend it, then keepstep release %s (which begins anew if they stay away)",
                  job->saves.text, job->d.name);
    return SAVES_UNKNOWN;
}

enum save_listing saves_list(struct core *core, struct job *job, char reason[TEXT_SIZE])
{
    struct job_saves *saves = &job->saves;
    if (job->d.reader == READER_NONE) {
        return SAVES_LISTED;
    }
    if (saves->list.nonce == 0 && !saves->listed) {
        begin(core, job);
    }
    if (!saves->listed) {
        return SAVES_WAIT;
    }
    if (saves->failed && saves->gone) {
        return ask_about_gone(core, job, reason);
    }
    /* What nobody has told of may be there all the same: to begin anew would lose it. */
    if (saves->failed && saves_are_found(job) && core_checkpoint_best(core, job) == NULL) {
        text_sentence(reason, TEXT_SIZE,
                      "which checkpoints it has cannot be seen (%.100s); mend it, then keepstep "
                      "release %s",
                      saves->text, job->d.name);
        return SAVES_UNKNOWN;
    }
    return SAVES_LISTED;
}

void saves_asked(struct job *job)
{
    job->saves.gone_told = job->saves.gone;
}

void saves_stale(struct core *core, struct job *job)
{
    job->saves.listed = false;
    job->saves.failed = false;
    job->saves.gone = false;
    job->saves.tries = 0;
    job->saves.list.nonce = 0;
    job->saves.due_ms = core->t + LIST_AGAIN_MS;
}

void saves_look(struct core *core, struct job *job)
{
    struct job_saves *saves = &job->saves;
    if (job->d.reader == READER_NONE) {
        return;
    }
    if (saves->list.nonce != 0 && is_silent(core, &saves->list)) {
        saves->gone = false;
        end(core, job, "no answer from the node that was asked");
    }
    bool due = job->d.state == JOB_RUNNING && saves_are_found(job) && core->t >= saves->due_ms;
    if (due && saves->list.nonce == 0 && core_ready(core)) {
        saves->due_ms = core->t + LIST_AGAIN_MS; /* nobody is there: looked again then */
        begin(core, job);
    }
    save_work_look(core, job);
}

void saves_due(const struct core *core, const struct job *job, uint64_t *due_ms)
{
    const struct job_saves *saves = &job->saves;
    const struct recovery *recovery = core_recovery(core, job->d.recovery);
    if (job->d.reader == READER_NONE) {
        return;
    }
    if (saves->list.nonce != 0) {
        due_min(due_ms, saves->list.deadline_ms);
    } else if (recovery != NULL && recovery->d.phase == PHASE_PLAN && !saves->listed) {
        due_min(due_ms, saves->due_ms); /* nobody was there to be asked */
    } else if (job->d.state == JOB_RUNNING && saves_are_found(job)) {
        due_min(due_ms, saves->due_ms);
    }
    save_work_due(job, due_ms);
}

/* ---- one that was found --------------------------------------------------------------------- */

static struct record_checkpoint_moved from_said(const struct job *job,
                                                const struct msg_save_said *said)
{
    struct record_checkpoint_moved u = {
        .job = job->d.job,
        .attempt = job->d.reader == READER_KEEPSTEP ? said->attempt : job->d.attempt,
        .step = said->step,
        .state = said->ok ? CKPT_COMPLETE : CKPT_INCOMPLETE,
        .shards = said->files,
        .parts = said->parts,
        .bytes = said->bytes,
        .took_ms = said->took_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)said->took_ms};
    text_copy(u.hash, sizeof u.hash, said->hash);
    text_copy(u.directory, sizeof u.directory, said->directory);
    text_copy(u.note, sizeof u.note, said->text);
    return u;
}

static void record_new(struct core *core, struct job *job, const struct msg_save_said *said)
{
    struct record_checkpoint_moved u = from_said(job, said);
    uint64_t now = service_now(core);
    uint64_t ago = said->age_ms + said->took_ms;
    if (said->ok) {
        checkpoint_found(core, job, &u, ago < now ? now - ago : 0);
    } else if (job->saves.lowest == UINT64_MAX) { /* newer than all that is whole */
        checkpoint_emit(core, job, &u);
    }
    struct checkpoint *made = checkpoint_at(core, u.job, u.attempt, u.step);
    if (made != NULL) {
        made->seen = job->saves.list.nonce;
    }
}

static bool is_usable(const struct checkpoint *checkpoint)
{
    return checkpoint->d.state == CKPT_COMPLETE || checkpoint->d.state == CKPT_VERIFIED;
}

/* Told of by the library: what lies there can only make it less than it was. Programs that commit
 * without the hash of a manifest need not have one: of theirs nothing can be said by looking. */
static void compare_told(struct core *core, const struct checkpoint *known,
                         const struct msg_save_said *said)
{
    char note[TEXT_SIZE];
    if (!is_usable(known) || known->d.hash[0] == '\0') {
        return;
    }
    if (!said->ok) {
        checkpoint_mark(core, known, CKPT_CORRUPT, said->text);
    } else if (!text_equal(known->d.hash, said->hash)) {
        text_format(note, sizeof note, "its manifest is not the one that was committed");
        checkpoint_mark(core, known, CKPT_SUSPECT, note);
    }
}

/* Keeps what is there now, so that the next look does not take it for another change. */
static void exchanged(struct core *core, const struct job *job, const struct checkpoint *known,
                      const struct msg_save_said *said)
{
    struct record_checkpoint_moved u;
    memcpy(&u, &known->d, sizeof u);
    u.state = CKPT_SUSPECT;
    text_copy(u.hash, sizeof u.hash, said->hash);
    text_copy(u.note, sizeof u.note,
              "its files are not as they were recorded: sizes or times differ");
    checkpoint_emit(core, job, &u);
}

/* Found by looking: the same folder again, the same or another content. */
static void compare_found(struct core *core, struct job *job, struct checkpoint *known,
                          const struct msg_save_said *said)
{
    bool same = text_equal(known->d.hash, said->hash);
    bool running = job->d.state == JOB_RUNNING;
    if (is_usable(known) && same && said->ok) {
        return;
    }
    if (!is_usable(known)) {
        bool spoilt = known->d.state == CKPT_CORRUPT || known->d.state == CKPT_SUSPECT;
        if (said->ok && !(spoilt && same)) {
            record_new(core, job, said); /* it has been written to its end, or anew */
        }
    } else if (running && said->ok) {
        if (known->d.attempt != job->d.attempt) {
            checkpoint_mark(core, known, CKPT_SUSPECT, "its folder was written anew later");
        }
        record_new(core, job, said);
    } else if (running && same) {
        return; /* its mark is missing for a moment, while the next one is written */
    } else if (said->ok) {
        exchanged(core, job, known, said);
    } else {
        checkpoint_mark(core, known, CKPT_INCOMPLETE, said->text);
    }
}

static struct checkpoint *known_one(struct core *core, const struct job *job,
                                    const struct msg_save_said *said)
{
    if (job->d.reader == READER_KEEPSTEP) {
        return checkpoint_at(core, job->d.job, said->attempt, said->step);
    }
    for (uint32_t i = core->checkpoint_count; i-- > 0;) {
        struct checkpoint *one = &core->checkpoints[i];
        if (one->d.job == job->d.job && one->d.step == said->step &&
            text_equal(one->d.directory, said->directory)) {
            return one;
        }
    }
    return NULL;
}

static void found(struct core *core, struct job *job, const struct msg_save_said *said)
{
    struct checkpoint *known = known_one(core, job, said);
    if (said->step == 0 || said->directory[0] == '\0') {
        return;
    }
    text_copy(job->saves.place, sizeof job->saves.place, said->directory);
    if (known != NULL) {
        known->seen = job->saves.list.nonce;
    }
    if (known == NULL) {
        /* After its first attempt only a commit makes a checkpoint of the library's format. */
        if (saves_are_found(job) || !job->d.attempted) {
            record_new(core, job, said);
        }
    } else if (saves_are_found(job)) {
        compare_found(core, job, known, said);
    } else {
        compare_told(core, known, said);
    }
    if (said->ok && said->step < job->saves.lowest) {
        job->saves.lowest = said->step;
    }
    core->look = true;
}

static size_t place_size(const char *directory)
{
    size_t size = strlen(directory);
    while (size > 0 && directory[size - 1] != '/') {
        size--;
    }
    return size;
}

/* A listing of the library's format tells only of folders with a manifest, in checkpoint.dir; a
 * program may have committed one without, or one that lies elsewhere. */
static bool would_be_listed(const struct job *job, const struct checkpoint *one)
{
    size_t size = place_size(job->saves.place);
    return saves_are_found(job) ||
           (one->d.hash[0] != '\0' && size > 0 && place_size(one->d.directory) == size &&
            memcmp(one->d.directory, job->saves.place, size) == 0);
}

static bool is_missing(const struct job *job, const struct checkpoint *one, uint64_t seen)
{
    bool newest = job->saves.lowest == UINT64_MAX || one->d.step >= job->saves.lowest;
    return newest && would_be_listed(job, one) && one->seen != seen;
}

/* Those that should have been among the newest and were not. */
static void mark_missing(struct core *core, const struct job *job, uint64_t seen)
{
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        if (one->d.job == job->d.job && is_usable(one) && is_missing(job, one, seen)) {
            checkpoint_mark(core, one, CKPT_INCOMPLETE, "its folder is gone");
        }
    }
}

/* The newest of those that should have been listed, when all of these are missing. */
static const struct checkpoint *newest_of_none(const struct core *core, const struct job *job)
{
    const struct checkpoint *newest = NULL;
    for (uint32_t i = 0; i < core->checkpoint_count; i++) {
        const struct checkpoint *one = &core->checkpoints[i];
        if (one->d.job != job->d.job || !is_usable(one) || !would_be_listed(job, one)) {
            continue;
        }
        if (!is_missing(job, one, job->saves.list.nonce)) {
            return NULL;
        }
        newest = newest == NULL || one->d.step >= newest->d.step ? one : newest;
    }
    return newest;
}

static void listed(struct core *core, struct job *job, const struct node *node,
                   const struct msg_save_said *said)
{
    char text[TEXT_SIZE] = "";
    if (said->directory[0] != '\0') {
        text_format(job->saves.place, sizeof job->saves.place, "%s/", said->directory);
    }
    const struct checkpoint *newest = newest_of_none(core, job);
    const struct checkpoint *best = core_checkpoint_best(core, job);
    /* One that no listing tells of is taken before them: they are not needed, and one look alone
     * does not give them up. */
    bool needed = newest != NULL && would_be_listed(job, best);
    job->saves.gone = needed;
    if (needed) {
        text_format(text, sizeof text, "none of its checkpoints, up to step %llu, is seen by %s",
                    (unsigned long long)newest->d.step, node->d.name);
    } else if (newest == NULL) {
        job->saves.gone_told = false;
        mark_missing(core, job, job->saves.list.nonce);
    }
    end(core, job, text);
}

void saves_message(struct core *core, const struct node *node, const struct msg_save_said *said)
{
    struct job *job = job_at(core, said->job);
    if (job == NULL || core_job_over(job) || job->d.quarantined || core->old_store) {
        return;
    }
    if (said->nonce == job->saves.work.nonce && node->d.node == job->saves.work.node) {
        save_work_said(core, job, said);
        return;
    }
    if (said->nonce != job->saves.list.nonce || node->d.node != job->saves.list.node) {
        return; /* too late */
    }
    if (said->word == SAVE_FOUND) {
        found(core, job, said);
    } else if (said->word == SAVE_DONE && said->error == 0) {
        listed(core, job, node, said);
    } else if (said->word == SAVE_DONE) {
        job->saves.gone = false;
        end(core, job, said->text[0] != '\0' ? said->text : "the agent could not look");
    }
}
