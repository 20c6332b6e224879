/* agent_check.c: every invariant of the agent's core, in one place. Called after each step by the
 * simulator and by tests, and by the driver in debug builds. */
#include <string.h>

#include "agent/core/agent_state.h"
#include "proto/base/text.h"

static void check_attempt(const struct agent_core *core, const struct agent_attempt *a)
{
    CHECK(a->job != 0);
    CHECK(a->rank_count <= RANKS_PER_NODE_MAX);
    CHECK(!(a->ordered && a->foreign));
    CHECK(!(a->durable_empty && a->durable_refused));
    CHECK(a->ordered || (!a->durable_empty && !a->durable_refused));
    const struct agent_job *job = agent_job_find(core, a->job);
    if (a->ordered) {
        CHECK(job != NULL);
        CHECK(a->attempt < job->order_below);
        CHECK(a->rank_count > 0);
        if (core->started) {
            CHECK(a->durable_empty == (a->state == AGENT_ATTEMPT_EMPTY));
            CHECK(a->durable_refused == (a->state == AGENT_ATTEMPT_REFUSED));
        }
    }
    switch ((enum agent_attempt_state)a->state) {
    case AGENT_ATTEMPT_NONE:
        CHECK(false);
        break;
    case AGENT_ATTEMPT_ORDERED:
    case AGENT_ATTEMPT_STARTING:
        CHECK(a->ordered);
        CHECK(core->started ? !a->stop_seen : true);
        break;
    case AGENT_ATTEMPT_RUNNING:
        CHECK(a->ordered || a->foreign);
        CHECK(a->shim_alive);
        CHECK(!a->stop_seen);
        break;
    case AGENT_ATTEMPT_ORPHANED:
        CHECK(!a->shim_alive);
        CHECK(!a->stop_seen);
        break;
    case AGENT_ATTEMPT_STOPPING:
    case AGENT_ATTEMPT_KILLING:
    case AGENT_ATTEMPT_UNCLEAN:
        CHECK(a->stop_seen); /* nothing ends without a durable stop that covers it */
        CHECK(job != NULL && a->attempt < job->stop_below);
        break;
    case AGENT_ATTEMPT_EMPTY:
    case AGENT_ATTEMPT_REFUSED:
        CHECK(!a->shim_alive);
        break;
    }
}

/* No attempt of ours is live beside another one of its job, unless both are being stopped or the
 * older one was never ordered here. */
static void check_pair(const struct agent_core *core, const struct agent_attempt *a,
                       const struct agent_attempt *b)
{
    if (a->job != b->job) {
        return;
    }
    CHECK(a->attempt != b->attempt);
    const bool live = !agent_attempt_over(a) && !agent_attempt_over(b);
    if (live && agent_attempt_ours(core, a) && agent_attempt_ours(core, b)) {
        CHECK(!(a->ordered && !a->stop_seen && b->ordered && !b->stop_seen));
    }
}

void agent_core_check(const struct agent_core *core)
{
    CHECK(core->mail_due_ms <= agent_mail_next_due(core));
    CHECK(core->limits.attempts >= ATTEMPTS_PER_NODE_MAX);
    CHECK(core->fact_count <= core->limits.facts);
    CHECK(core->fact_next <= core->fact_count);
    CHECK(core->link.state <= LINK_SESSION);
    CHECK(core->peer_count <= PEERS_KNOWN_MAX);
    CHECK(strnlen(core->cluster_id, CLUSTER_ID_SIZE) < CLUSTER_ID_SIZE);
    CHECK(core->attempt_top <= core->limits.attempts && core->job_top <= core->limits.jobs);
    for (uint32_t i = 0; i < core->limits.attempts; i++) {
        const struct agent_attempt *a = &core->attempts[i];
        if (a->state == AGENT_ATTEMPT_NONE) {
            continue;
        }
        CHECK(i < core->attempt_top);
        check_attempt(core, a);
        for (uint32_t k = i + 1; k < core->limits.attempts; k++) {
            if (core->attempts[k].state != AGENT_ATTEMPT_NONE) {
                check_pair(core, a, &core->attempts[k]);
            }
        }
    }
    for (uint32_t i = 0; i < core->limits.jobs; i++) {
        const struct agent_job *job = &core->jobs[i];
        CHECK(job->used || !job->want);
        CHECK(!job->used || i < core->job_top);
        if (job->used && job->want) {
            CHECK(job->desired.job == job->job);
            CHECK(job->desired.attempt >= job->stop_below);
            CHECK(job->desired.attempt >= job->over_below);
            CHECK(job->desired.spec == NULL);
        }
    }
}
