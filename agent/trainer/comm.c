/* comm.c: the layout's arithmetic, the groups, and what every backend needs around an operation:
 * counting it, naming it while it is under way, timing it, skipping it in a group of one. */
#include "agent/trainer/comm.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint32_t comm_layout_world(const struct comm_layout *layout)
{
    return layout->tensor * layout->context * layout->pipeline * layout->data;
}

struct comm_layout comm_layout_place(const struct comm_layout *layout, uint32_t rank)
{
    struct comm_layout place;
    place.tensor = rank % layout->tensor;
    rank /= layout->tensor;
    place.context = rank % layout->context;
    rank /= layout->context;
    place.pipeline = rank % layout->pipeline;
    place.data = rank / layout->pipeline;
    return place;
}

/* Does `other` belong to the group of `own` along this axis? */
static bool in_group(enum comm_axis axis, const struct comm_layout *own,
                     const struct comm_layout *other)
{
    const bool tensor = own->tensor == other->tensor || axis == COMM_TENSOR;
    const bool context = own->context == other->context || axis == COMM_CONTEXT;
    const bool pipeline = own->pipeline == other->pipeline || axis == COMM_PIPELINE;
    const bool data = own->data == other->data || axis == COMM_DATA;
    return axis == COMM_WORLD || (tensor && context && pipeline && data);
}

static int group_init(struct comm *comm, enum comm_axis axis)
{
    struct comm_group *group = &comm->groups[axis];
    *group = (struct comm_group){.comm = comm, .axis = axis};
    group->members = calloc(comm->world, sizeof(*group->members));
    if (group->members == NULL) {
        return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < comm->world; rank++) {
        const struct comm_layout place = comm_layout_place(&comm->layout, rank);
        if (in_group(axis, &comm->place, &place)) {
            if (rank == comm->rank) {
                group->index = group->size;
            }
            group->members[group->size++] = rank;
        }
    }
    return 0;
}

int comm_init(struct comm *comm, const struct comm_layout *layout, uint32_t rank)
{
    *comm = (struct comm){.layout = *layout, .rank = rank};
    comm->world = comm_layout_world(layout);
    assert(comm->world > 0 && comm->world <= COMM_WORLD_MAX && rank < comm->world);
    comm->place = comm_layout_place(layout, rank);
    for (int axis = 0; axis < COMM_AXES; axis++) {
        const int code = group_init(comm, (enum comm_axis)axis);
        if (code < 0) {
            comm_done(comm);
            return code;
        }
    }
    return 0;
}

void comm_done(struct comm *comm)
{
    if (comm->backend != NULL) {
        comm->backend->destroy(comm);
    }
    for (int axis = 0; axis < COMM_AXES; axis++) {
        free(comm->groups[axis].members);
    }
    *comm = (struct comm){0};
}

struct comm_group *comm_group(struct comm *comm, enum comm_axis axis)
{
    return &comm->groups[axis];
}

/* ---- operations ----------------------------------------------------------------------------- */

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint64_t begin(struct comm_group *group, enum comm_operation operation)
{
    const bool pairwise = operation == COMM_SEND || operation == COMM_RECEIVE;
    group->enqueued++;
    group->collectives += pairwise ? 0 : 1;
    group->head = operation;
    return now_us();
}

static int end(struct comm_group *group, uint64_t begun_us, int code)
{
    group->wait_us += now_us() - begun_us;
    if (code == 0) {
        group->completed++;
        group->head = COMM_NONE;
    }
    return code;
}

int comm_all_reduce(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                    enum comm_reduction reduction)
{
    if (group->size == 1) {
        return 0;
    }
    const uint64_t begun_us = begin(group, COMM_ALL_REDUCE);
    return end(group, begun_us,
               group->comm->backend->all_reduce(group, buffer, count, type, reduction));
}

int comm_all_gather(struct comm_group *group, const void *input, void *output, size_t count,
                    enum comm_type type)
{
    if (group->size == 1) {
        if (input != output) {
            memcpy(output, input, count * comm_type_size(type));
        }
        return 0;
    }
    const uint64_t begun_us = begin(group, COMM_ALL_GATHER);
    return end(group, begun_us,
               group->comm->backend->all_gather(group, input, output, count, type));
}

int comm_reduce_scatter(struct comm_group *group, const void *input, void *output, size_t count,
                        enum comm_type type, enum comm_reduction reduction)
{
    if (group->size == 1) {
        memcpy(output, input, count * comm_type_size(type));
        return 0;
    }
    const uint64_t begun_us = begin(group, COMM_REDUCE_SCATTER);
    return end(group, begun_us,
               group->comm->backend->reduce_scatter(group, input, output, count, type, reduction));
}

int comm_broadcast(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                   uint32_t root)
{
    assert(root < group->size);
    if (group->size == 1) {
        return 0;
    }
    const uint64_t begun_us = begin(group, COMM_BROADCAST);
    return end(group, begun_us, group->comm->backend->broadcast(group, buffer, count, type, root));
}

int comm_send(struct comm_group *group, const void *buffer, size_t count, enum comm_type type,
              uint32_t peer)
{
    assert(peer < group->size && peer != group->index);
    const uint64_t begun_us = begin(group, COMM_SEND);
    return end(group, begun_us, group->comm->backend->send(group, buffer, count, type, peer));
}

int comm_receive(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                 uint32_t peer)
{
    assert(peer < group->size && peer != group->index);
    const uint64_t begun_us = begin(group, COMM_RECEIVE);
    return end(group, begun_us, group->comm->backend->receive(group, buffer, count, type, peer));
}

int comm_barrier(struct comm_group *group)
{
    if (group->size == 1) {
        return 0;
    }
    /* NCCL has no barrier either: a reduction that nobody can finish alone is one. */
    int64_t zero = 0;
    const uint64_t begun_us = begin(group, COMM_BARRIER);
    return end(group, begun_us,
               group->comm->backend->all_reduce(group, &zero, 1, COMM_I64, COMM_SUM));
}

void comm_abort(struct comm *comm)
{
    comm->backend->abort(comm);
}

int comm_async_error(struct comm *comm)
{
    return comm->backend->async_error(comm);
}

void comm_explain(struct comm *comm, char *ret_text, size_t size)
{
    comm->backend->explain(comm, ret_text, size);
}

/* ---- names ---------------------------------------------------------------------------------- */

size_t comm_type_size(enum comm_type type)
{
    switch (type) {
    case COMM_U8:
        return 1;
    case COMM_I64:
        return sizeof(int64_t);
    case COMM_F32:
        return sizeof(float);
    case COMM_F64:
        return sizeof(double);
    }
    abort(); /* every value of the enumeration is above */
}

const char *comm_operation_name(enum comm_operation operation)
{
    static const char *const names[] = {"none",      "all-reduce", "all-gather", "reduce-scatter",
                                        "broadcast", "send",       "receive",    "barrier"};
    static_assert(sizeof(names) / sizeof(names[0]) == COMM_BARRIER + 1, "one name a value");
    return names[operation];
}

const char *comm_axis_name(enum comm_axis axis)
{
    static const char *const names[] = {"world", "tensor", "context", "pipeline", "data"};
    static_assert(sizeof(names) / sizeof(names[0]) == COMM_AXES, "one name a value");
    return names[axis];
}
