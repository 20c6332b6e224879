/* agent_record.c: durable state = fold(records). Live decisions and replays go through the same
 * agent_apply(), so they cannot come apart; agent_core_digest() covers exactly what it changes. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

const char *agent_record_word(uint8_t kind)
{
    switch (kind) {
#define X(number, upper, word)                                                                     \
    case AGENT_RECORD_##upper:                                                                     \
        return word;
        AGENT_RECORD_KINDS(X)
#undef X
    default:
        return NULL;
    }
}

struct agent_job *agent_job_find(const struct agent_core *core, uint32_t job)
{
    for (uint32_t i = 0; i < core->job_top; i++) {
        if (core->jobs[i].used && core->jobs[i].job == job) {
            return &core->jobs[i];
        }
    }
    return NULL;
}

struct agent_job *agent_job_free_place(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->job_top; i++) {
        if (!core->jobs[i].used) {
            return &core->jobs[i];
        }
    }
    return core->job_top < core->limits.jobs ? &core->jobs[core->job_top++] : NULL;
}

struct agent_attempt *agent_attempt_find(const struct agent_core *core, uint32_t job,
                                         uint32_t attempt)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->job == job && a->attempt == attempt) {
            return a;
        }
    }
    return NULL;
}

struct agent_attempt *agent_attempt_free_place(struct agent_core *core)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        if (core->attempts[i].state == AGENT_ATTEMPT_NONE) {
            return &core->attempts[i];
        }
    }
    return core->attempt_top < core->limits.attempts ? &core->attempts[core->attempt_top++] : NULL;
}

/* The job of a record, made when it is new; NULL when there is no place. */
static struct agent_job *job_of_record(struct agent_core *core, const struct agent_record *record)
{
    struct agent_job *job = agent_job_find(core, record->job);
    if (job == NULL) {
        job = agent_job_free_place(core);
        if (job == NULL) {
            return NULL;
        }
        memset(job, 0, sizeof(*job));
        job->used = true;
        job->job = record->job;
    }
    if (record->name[0] != '\0') {
        (void)text_copy(job->name, sizeof(job->name), record->name);
    }
    return job;
}

static void mark_stopped(struct agent_core *core, const struct agent_job *job)
{
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->job == job->job && a->attempt < job->stop_below &&
            agent_attempt_ours(core, a)) {
            a->stop_seen = true;
        }
    }
}

/* An order makes the attempt, or gives a foreign one that was found here its owner back. */
static int apply_order(struct agent_core *core, const struct agent_record *record)
{
    if (record->rank_count == 0 || record->rank_count > RANKS_PER_NODE_MAX) {
        return -EINVAL;
    }
    struct agent_attempt *a = agent_attempt_find(core, record->job, record->attempt);
    if (a != NULL && a->ordered) {
        return -EINVAL;
    }
    struct agent_job *job = job_of_record(core, record);
    if (job == NULL) {
        return -ENOSPC;
    }
    if (a == NULL) {
        a = agent_attempt_free_place(core);
        if (a == NULL) {
            return -ENOSPC;
        }
        memset(a, 0, sizeof(*a));
        a->state = AGENT_ATTEMPT_ORDERED;
        a->job = record->job;
        a->attempt = record->attempt;
        a->ends_acked = true;
        (void)text_copy(a->cluster_id, sizeof(a->cluster_id), core->cluster_id);
    }
    a->ordered = true;
    a->foreign = false;
    a->first_rank = record->first_rank;
    a->rank_count = record->rank_count;
    a->stop_seen = record->attempt < job->stop_below;
    (void)text_copy(a->job_name, sizeof(a->job_name), record->name);
    if (record->attempt + 1 > job->order_below) {
        job->order_below = record->attempt + 1;
    }
    return 0;
}

static int apply_stop(struct agent_core *core, const struct agent_record *record)
{
    struct agent_job *job = job_of_record(core, record);
    if (job == NULL) {
        return -ENOSPC;
    }
    if (record->attempt + 1 > job->stop_below) {
        job->stop_below = record->attempt + 1;
    }
    job->grace_ms = (uint32_t)record->number;
    mark_stopped(core, job);
    return 0;
}

static int apply_job_image(struct agent_core *core, const struct agent_record *record)
{
    struct agent_job *job = job_of_record(core, record);
    if (job == NULL) {
        return -ENOSPC;
    }
    job->order_below = record->attempt;
    job->stop_below = (uint32_t)record->number;
    job->grace_ms = record->first_rank;
    job->over_below = record->rank_count;
    mark_stopped(core, job);
    return 0;
}

/* With the folder goes what keeps a shim from running an attempt twice, so from now on the job's
 * floor does. */
static int apply_forget(struct agent_core *core, struct agent_attempt *a)
{
    struct agent_job *job = agent_job_find(core, a->job);
    if (job == NULL) {
        return -EINVAL;
    }
    if (a->attempt >= job->over_below) {
        job->over_below = a->attempt + 1;
    }
    a->ordered = false;
    a->state = AGENT_ATTEMPT_NONE;
    return 0;
}

static int apply_to_attempt(struct agent_core *core, const struct agent_record *record)
{
    struct agent_attempt *a = agent_attempt_find(core, record->job, record->attempt);
    if (a == NULL || !a->ordered) {
        return -EINVAL;
    }
    switch (record->kind) {
    case AGENT_RECORD_EMPTY:
        a->durable_empty = true;
        return 0;
    case AGENT_RECORD_REFUSED:
        a->durable_refused = true;
        (void)text_copy(a->text, sizeof(a->text), record->text);
        return 0;
    case AGENT_RECORD_FORGET:
        return apply_forget(core, a);
    default:
        return -EINVAL;
    }
}

static int apply_drop(struct agent_core *core, const struct agent_record *record)
{
    struct agent_job *job = agent_job_find(core, record->job);
    if (job == NULL) {
        return -EINVAL;
    }
    job->used = false;
    return 0;
}

void agent_peer_record(const struct known_peer *peer, uint32_t index,
                       struct agent_record *ret_record)
{
    *ret_record =
        (struct agent_record){.kind = AGENT_RECORD_PEER, .number = peer->port, .rank_count = index};
    (void)text_copy(ret_record->name, sizeof(ret_record->name), peer->name);
    (void)text_copy(ret_record->text, sizeof(ret_record->text), peer->address);
}

/* A list is written from its beginning: a batch that was cut off leaves its first part. */
static int apply_peer(struct agent_core *core, const struct agent_record *record)
{
    if (record->rank_count >= PEERS_KNOWN_MAX || record->rank_count > core->peer_count ||
        record->number == 0 || record->number > UINT16_MAX) {
        return -EINVAL;
    }
    struct known_peer *peer = &core->peers[record->rank_count];
    (void)text_copy(peer->name, sizeof(peer->name), record->name);
    (void)text_copy(peer->address, sizeof(peer->address), record->text);
    peer->port = (uint16_t)record->number;
    core->peer_count = record->rank_count + 1;
    return 0;
}

int agent_apply(struct agent_core *core, const struct agent_record *record)
{
    switch (record->kind) {
    case AGENT_RECORD_LIFE:
        core->life = record->number;
        core->said_goodbye = false;
        (void)text_copy(core->boot_id, sizeof(core->boot_id), record->name);
        return 0;
    case AGENT_RECORD_CLUSTER:
        (void)text_copy(core->cluster_id, sizeof(core->cluster_id), record->name);
        return 0;
    case AGENT_RECORD_TERM:
        if (record->number <= core->term) {
            return -EINVAL;
        }
        core->term = record->number;
        return 0;
    case AGENT_RECORD_ORDER:
        return apply_order(core, record);
    case AGENT_RECORD_STOP:
        return apply_stop(core, record);
    case AGENT_RECORD_EMPTY:
    case AGENT_RECORD_REFUSED:
    case AGENT_RECORD_FORGET:
        return apply_to_attempt(core, record);
    case AGENT_RECORD_GOODBYE:
        core->said_goodbye = true;
        return 0;
    case AGENT_RECORD_JOB:
        return apply_job_image(core, record);
    case AGENT_RECORD_DROP:
        return apply_drop(core, record);
    case AGENT_RECORD_PEER:
        return apply_peer(core, record);
    default:
        return -EINVAL;
    }
}

int agent_core_replay(struct agent_core *core, const struct agent_record *record)
{
    CHECK(!core->started);
    return agent_apply(core, record);
}

static bool job_is_durable(const struct agent_job *job)
{
    return job->used && (job->order_below > 0 || job->stop_below > 0);
}

/* Places in the tables differ between a live core and a replayed one (soft entries hold some), so
 * the parts are added up: their order does not count. */
uint64_t agent_core_digest(const struct agent_core *core)
{
    uint64_t digest = hash_text(HASH_INIT, core->cluster_id);
    digest = hash_u64(digest, core->term);
    digest = hash_u64(digest, core->life);
    digest = hash_text(digest, core->boot_id);
    digest = hash_u64(digest, core->said_goodbye);
    for (uint32_t i = 0; i < core->peer_count; i++) {
        digest = hash_text(digest, core->peers[i].name);
        digest = hash_text(digest, core->peers[i].address);
        digest = hash_u64(digest, core->peers[i].port);
    }
    for (uint32_t i = 0; i < core->job_top; i++) {
        const struct agent_job *job = &core->jobs[i];
        if (job_is_durable(job)) {
            uint64_t part = hash_u64(HASH_INIT, job->job);
            part = hash_u64(part, job->order_below);
            part = hash_u64(part, job->stop_below);
            part = hash_u64(part, job->over_below);
            part = hash_u64(part, job->grace_ms);
            digest += hash_text(part, job->name);
        }
    }
    for (uint32_t i = 0; i < core->attempt_top; i++) {
        const struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->ordered) {
            uint64_t part = hash_u64(HASH_INIT, a->job);
            part = hash_u64(part, a->attempt);
            part = hash_u64(part, a->first_rank);
            part = hash_u64(part, a->rank_count);
            part = hash_u64(part, a->durable_empty);
            part = hash_u64(part, a->durable_refused);
            part = hash_text(part, a->job_name);
            digest += a->durable_refused ? hash_text(part, a->text) : part;
        }
    }
    return digest;
}

static int visit_attempt(const struct agent_attempt *a, agent_record_visit *visit, void *context)
{
    struct agent_record record = {.kind = AGENT_RECORD_ORDER,
                                  .job = a->job,
                                  .attempt = a->attempt,
                                  .first_rank = a->first_rank,
                                  .rank_count = a->rank_count};
    (void)text_copy(record.name, sizeof(record.name), a->job_name);
    int r = visit(&record, context);
    if (r == 0 && a->durable_refused) {
        record = (struct agent_record){
            .kind = AGENT_RECORD_REFUSED, .job = a->job, .attempt = a->attempt};
        (void)text_copy(record.text, sizeof(record.text), a->text);
        r = visit(&record, context);
    }
    if (r == 0 && a->durable_empty) {
        record =
            (struct agent_record){.kind = AGENT_RECORD_EMPTY, .job = a->job, .attempt = a->attempt};
        r = visit(&record, context);
    }
    return r;
}

static int visit_node(const struct agent_core *core, agent_record_visit *visit, void *context)
{
    struct agent_record record = {.kind = AGENT_RECORD_LIFE, .number = core->life};
    (void)text_copy(record.name, sizeof(record.name), core->boot_id);
    int r = visit(&record, context);
    if (r == 0 && core->said_goodbye) {
        record = (struct agent_record){.kind = AGENT_RECORD_GOODBYE};
        r = visit(&record, context);
    }
    if (r == 0 && core->cluster_id[0] != '\0') {
        record = (struct agent_record){.kind = AGENT_RECORD_CLUSTER};
        (void)text_copy(record.name, sizeof(record.name), core->cluster_id);
        r = visit(&record, context);
    }
    if (r == 0 && core->term > 0) {
        record = (struct agent_record){.kind = AGENT_RECORD_TERM, .number = core->term};
        r = visit(&record, context);
    }
    return r;
}

static int visit_peers(const struct agent_core *core, agent_record_visit *visit, void *context)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < core->peer_count; i++) {
        struct agent_record record;
        agent_peer_record(&core->peers[i], i, &record);
        r = visit(&record, context);
    }
    return r;
}

int agent_core_snapshot(const struct agent_core *core, agent_record_visit *visit, void *context)
{
    int r = visit_node(core, visit, context);
    r = r == 0 ? visit_peers(core, visit, context) : r;
    for (uint32_t i = 0; r == 0 && i < core->job_top; i++) {
        const struct agent_job *job = &core->jobs[i];
        if (job_is_durable(job)) {
            struct agent_record record = {.kind = AGENT_RECORD_JOB,
                                          .job = job->job,
                                          .attempt = job->order_below,
                                          .number = job->stop_below,
                                          .first_rank = job->grace_ms,
                                          .rank_count = job->over_below};
            (void)text_copy(record.name, sizeof(record.name), job->name);
            r = visit(&record, context);
        }
    }
    for (uint32_t i = 0; r == 0 && i < core->attempt_top; i++) {
        const struct agent_attempt *a = &core->attempts[i];
        if (a->state != AGENT_ATTEMPT_NONE && a->ordered) {
            r = visit_attempt(a, visit, context);
        }
    }
    return r;
}
