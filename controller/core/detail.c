/* detail.c: what the ranks' programs say of themselves: steps, hashes, communicators, coordinates.
 *
 * Soft state and nothing else: no record, no decision. It is believed only of the ranks of the slot
 * that the node holds, in the attempt that runs. What a program says of its place in the layout is
 * compared with ours at once: where they differ, everything that rests on stages and replicas would
 * blame the wrong rank. */
#include <string.h>

#include "controller/core/impl.h"

struct rank_coordinates core_rank_coordinates(const struct job *job, uint32_t rank)
{
    const struct layout_shape shape = plan_shape(job);
    const struct layout_coordinates at = layout_of_rank(&shape, rank);
    return (struct rank_coordinates){at.tensor, at.context, at.pipeline, at.data};
}

static bool are_equal(struct rank_coordinates a, struct rank_coordinates b)
{
    return a.tensor == b.tensor && a.context == b.context && a.pipeline == b.pipeline &&
           a.data == b.data;
}

static void compare(struct core *core, const struct job *job, struct slot *slot,
                    const struct msg_rank_detail *message)
{
    const struct rank_coordinates said = message->coordinates;
    const struct rank_coordinates ours = core_rank_coordinates(job, message->rank);
    const uint16_t bit = (uint16_t)(1u << (message->rank % job->d.ranks_per_node));
    const bool differs = message->has_coordinates && !are_equal(said, ours);
    if (differs && (slot->misplaced & bit) == 0) {
        core_trace(core,
                   "job %s rank %u computed tp %u cp %u pp %u dp %u, its layout says tp %u cp %u "
                   "pp %u dp %u",
                   job->d.name, message->rank, said.tensor, said.context, said.pipeline, said.data,
                   ours.tensor, ours.context, ours.pipeline, ours.data);
    }
    slot->misplaced = (uint16_t)(differs ? slot->misplaced | bit : slot->misplaced & ~bit);
}

/* How far its communicators have come is news: it moves, also where no step is complete. */
static bool is_news(const struct rank_detail *known, const struct msg_rank_detail *message)
{
    const struct msg_rank_detail *d = &known->d;
    bool same_rank = known->told_ms != 0 && d->job == message->job &&
                     d->attempt == message->attempt && d->rank == message->rank;
    return !same_rank || d->communicator_count != message->communicator_count ||
           memcmp(d->communicators, message->communicators,
                  d->communicator_count * sizeof d->communicators[0]) != 0;
}

void detail_message(struct core *core, const struct node *node,
                    const struct msg_rank_detail *message)
{
    struct job *job = job_at(core, message->job);
    if (job == NULL || core_job_over(job) || node->d.job != job->d.job || !job->d.launched ||
        message->attempt != job->d.attempt ||
        message->rank / job->d.ranks_per_node != node->d.slot) {
        return; /* of an attempt that is over, or of a slot that this node no longer holds */
    }
    const uint32_t local = message->rank % job->d.ranks_per_node;
    struct rank_detail *detail =
        &core->details[(size_t)(node->d.node - 1) * RANKS_PER_NODE_MAX + local];
    if (is_news(detail, message)) {
        detail->changed_ms = core->t;
        job->told_ms = core->t;
    }
    detail->told_ms = core->t;
    detail->d = *message;
    compare(core, job, slot_at(core, job, node->d.slot), message);
}

const struct rank_detail *core_rank_detail(const struct core *core, const struct job *job,
                                           uint32_t rank)
{
    if (job->d.ranks_per_node == 0 || rank / job->d.ranks_per_node >= job->slot_count) {
        return NULL;
    }
    const struct slot *slot = core_slot(core, job, rank / job->d.ranks_per_node);
    const struct node *node = core_node(core, slot->d.node);
    if (node == NULL) {
        return NULL;
    }
    const struct rank_detail *detail =
        &core->details[(size_t)(node->d.node - 1) * RANKS_PER_NODE_MAX +
                       rank % job->d.ranks_per_node];
    /* What is there may be of a job or attempt before this one. */
    bool present = detail->told_ms != 0 && detail->d.job == job->d.job &&
                   detail->d.attempt == job->d.attempt && detail->d.rank == rank;
    return present ? detail : NULL;
}

uint32_t core_job_misplaced(const struct core *core, const struct job *job, uint32_t *ret_rank)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        const struct slot *slot = core_slot(core, job, i);
        for (uint32_t local = 0; slot->misplaced >> local != 0; local++) {
            if ((slot->misplaced >> local & 1) != 0) {
                *ret_rank = count == 0 ? i * job->d.ranks_per_node + local : *ret_rank;
                count++;
            }
        }
    }
    return count;
}
