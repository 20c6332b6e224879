/* orphans.c: one small object for each rank that is watched or whose end is to be told.
 *
 *   orphans_watch ── gone ──> told in the next turn
 *        └─ lives ──> pidfd in the loop ── readable ──> told */
#include "agent/io/orphans.h"

#include <errno.h>
#include <unistd.h>

#include "agent/io/driver.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"

struct orphan {
    struct orphan *next;
    struct orphans *orphans;
    uint32_t job;
    uint32_t attempt;
    uint32_t local_rank;
    int fd; /* -1: it is gone and only to be told */
    bool closing;
    uv_poll_t poll;
};

struct orphans {
    struct agent_io *io;
    orphan_ended *ended;
    void *context;
    struct orphan *first;
    bool telling; /* deferred */
    bool closed;
};

/* ---- objects --------------------------------------------------------------------------------------- */

static void drop(struct orphan *orphan)
{
    struct orphan **at = &orphan->orphans->first;
    while (*at != orphan) {
        at = &(*at)->next;
    }
    *at = orphan->next;
    mem_free(orphan);
}

static void closed_cb(uv_handle_t *handle)
{
    struct orphan *orphan = handle->data;
    (void)close(orphan->fd); /* only looked at */
    drop(orphan);
}

static void finish(struct orphan *orphan)
{
    if (orphan->fd < 0) {
        drop(orphan);
    } else if (!orphan->closing) {
        orphan->closing = true;
        uv_close((uv_handle_t *)&orphan->poll, closed_cb);
    }
}

static struct orphan *find(const struct orphans *orphans, uint32_t job, uint32_t attempt,
                           uint32_t local_rank)
{
    for (struct orphan *o = orphans->first; o != NULL; o = o->next) {
        if (!o->closing && o->job == job && o->attempt == attempt && o->local_rank == local_rank) {
            return o;
        }
    }
    return NULL;
}

static struct orphan *make(struct orphans *orphans, uint32_t job, uint32_t attempt,
                           uint32_t local_rank)
{
    struct orphan *orphan = mem_alloc(1, sizeof(*orphan));
    orphan->orphans = orphans;
    orphan->job = job;
    orphan->attempt = attempt;
    orphan->local_rank = local_rank;
    orphan->fd = -1;
    orphan->next = orphans->first;
    orphans->first = orphan;
    return orphan;
}

/* ---- telling --------------------------------------------------------------------------------------- */

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct orphan *orphan = poll->data;
    struct orphans *orphans = orphan->orphans;
    const struct orphan told = *orphan;
    (void)status; /* a pidfd has no errors, and nothing but its end to tell */
    (void)events;
    finish(orphan);
    orphans->ended(orphans->context, told.job, told.attempt, told.local_rank, true);
}

static void tell_gone(void *context)
{
    struct orphans *orphans = context;
    orphans->telling = false;
    struct orphan *next = NULL;
    for (struct orphan *o = orphans->first; o != NULL && !orphans->closed; o = next) {
        next = o->next;
        if (o->fd < 0) {
            const struct orphan told = *o;
            drop(o);
            orphans->ended(orphans->context, told.job, told.attempt, told.local_rank, false);
            next = orphans->first; /* whoever was told may have changed the list */
        }
    }
}

/* ---- watching -------------------------------------------------------------------------------------- */

/* false: it lives, as far as can be said, and cannot be watched. */
static bool watch(struct orphans *orphans, struct orphan *orphan,
                  const struct shim_rank_status *rank)
{
    int fd = -1;
    int r = shim_rank_watch(rank, &fd);
    if (r != 0) {
        return r == -ESRCH;
    }
    if (uv_poll_init(orphans->io->loop, &orphan->poll, fd) != 0) {
        (void)close(fd); /* only looked at */
        return false;
    }
    orphan->fd = fd;
    orphan->poll.data = orphan;
    r = uv_poll_start(&orphan->poll, UV_READABLE, poll_cb);
    CHECK(r == 0);
    return true;
}

bool orphans_watch(struct orphans *orphans, uint32_t job, uint32_t attempt,
                   const struct shim_status *status)
{
    bool all = true;
    bool any = false;
    bool gone = false;
    for (uint32_t i = 0; i < status->rank_count && !orphans->closed; i++) {
        if (status->ranks[i].state != SHIM_RANK_RUNNING) {
            continue;
        }
        struct orphan *orphan = find(orphans, job, attempt, i);
        if (orphan == NULL) {
            orphan = make(orphans, job, attempt, i);
            if (!watch(orphans, orphan, &status->ranks[i])) {
                all = false;
                drop(orphan);
                continue;
            }
        }
        any = any || orphan->fd >= 0;
        gone = gone || orphan->fd < 0;
    }
    if (gone && !orphans->telling) {
        orphans->telling = true;
        driver_defer(orphans->io->driver, tell_gone, orphans);
    }
    return all && any;
}

void orphans_forget(struct orphans *orphans, uint32_t job, uint32_t attempt)
{
    struct orphan *next = NULL;
    for (struct orphan *o = orphans->first; o != NULL; o = next) {
        next = o->next;
        if (o->job == job && o->attempt == attempt) {
            finish(o);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------------ */

struct orphans *orphans_create(struct agent_io *io, orphan_ended *ended, void *context)
{
    struct orphans *orphans = mem_alloc(1, sizeof(*orphans));
    orphans->io = io;
    orphans->ended = ended;
    orphans->context = context;
    return orphans;
}

void orphans_close(struct orphans *orphans)
{
    orphans->closed = true;
    struct orphan *next = NULL;
    for (struct orphan *o = orphans->first; o != NULL; o = next) {
        next = o->next;
        finish(o);
    }
}

struct orphans *orphans_free(struct orphans *orphans)
{
    CHECK(orphans == NULL || orphans->first == NULL);
    return mem_free(orphans);
}
