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
    *group = (struct comm_group){.comm = comm, .axis = axis, .head_peer = -1};
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

void comm_cut(struct comm *comm, enum comm_axis axis)
{
    comm->groups[axis].cut = true;
}

uint64_t comm_wait_us(const struct comm *comm)
{
    uint64_t sum = 0;
    for (int axis = 0; axis < COMM_AXES; axis++) {
        sum += comm->groups[axis].wait_us;
    }
    return sum;
}

/* ---- operations ----------------------------------------------------------------------------- */

/* Nobody to exchange anything with. */
static bool is_alone(const struct comm_group *group)
{
    return group->size == 1 || group->cut;
}

/* Without peers there may be no backend at all, and then all memory is the host's. */
static void copy(const struct comm_group *group, void *to, const void *from, size_t size)
{
    const struct comm_backend *backend = group->comm->backend;
    if (backend != NULL && backend->copy != NULL) {
        backend->copy(group, to, from, size);
    } else {
        memcpy(to, from, size);
    }
}

static void tell(const struct comm_group *group)
{
    if (group->comm->watch != NULL) {
        group->comm->watch(group, group->comm->watch_context);
    }
}

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint64_t begin_with(struct comm_group *group, enum comm_operation operation, int32_t peer)
{
    const bool pairwise =
        operation == COMM_SEND || operation == COMM_RECEIVE || operation == COMM_SEND_RECEIVE;
    group->enqueued++;
    group->collectives += pairwise ? 0 : 1;
    group->head = operation;
    group->head_peer = peer;
    tell(group);
    return now_us();
}

static uint64_t begin(struct comm_group *group, enum comm_operation operation)
{
    return begin_with(group, operation, -1);
}

static int end(struct comm_group *group, uint64_t begun_us, int code)
{
    group->wait_us += group->took_us > 0 ? group->took_us : now_us() - begun_us;
    group->took_us = 0;
    if (code == 0) {
        group->completed++;
        group->head = COMM_NONE;
        group->head_peer = -1;
    }
    tell(group);
    return code;
}

int comm_all_reduce(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                    enum comm_reduction reduction)
{
    if (is_alone(group)) {
        return 0;
    }
    const uint64_t begun_us = begin(group, COMM_ALL_REDUCE);
    return end(group, begun_us,
               group->comm->backend->all_reduce(group, buffer, count, type, reduction));
}

int comm_all_gather(struct comm_group *group, const void *input, void *output, size_t count,
                    enum comm_type type)
{
    if (is_alone(group)) {
        const size_t size = count * comm_type_size(type);
        char *own = (char *)output + group->index * size;
        if (input != own) {
            copy(group, own, input, size);
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
    if (is_alone(group)) {
        const size_t size = count * comm_type_size(type);
        copy(group, output, (const char *)input + group->index * size, size);
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
    if (is_alone(group)) {
        return 0;
    }
    const uint64_t begun_us = begin(group, COMM_BROADCAST);
    return end(group, begun_us, group->comm->backend->broadcast(group, buffer, count, type, root));
}

/* operation: what to call it; the backend does all three in one way. */
static int transfer_as(struct comm_group *group, enum comm_operation operation,
                       const struct comm_transfer *transfer, enum comm_type type)
{
    assert(transfer->output_count == 0 ||
           (transfer->output_peer < group->size && transfer->output_peer != group->index));
    assert(transfer->input_count == 0 ||
           (transfer->input_peer < group->size && transfer->input_peer != group->index));
    if (group->cut || (transfer->output_count == 0 && transfer->input_count == 0)) {
        return 0;
    }
    const uint32_t peer = transfer->input_count > 0 ? transfer->input_peer : transfer->output_peer;
    const uint64_t begun_us = begin_with(group, operation, (int32_t)peer);
    return end(group, begun_us, group->comm->backend->send_receive(group, transfer, type));
}

int comm_send(struct comm_group *group, const void *buffer, size_t count, enum comm_type type,
              uint32_t peer)
{
    const struct comm_transfer transfer = {
        .output = buffer, .output_count = count, .output_peer = peer};
    return transfer_as(group, COMM_SEND, &transfer, type);
}

int comm_receive(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                 uint32_t peer)
{
    const struct comm_transfer transfer = {
        .input = buffer, .input_count = count, .input_peer = peer};
    return transfer_as(group, COMM_RECEIVE, &transfer, type);
}

int comm_send_receive(struct comm_group *group, const struct comm_transfer *transfer,
                      enum comm_type type)
{
    const bool both = transfer->output_count > 0 && transfer->input_count > 0;
    const enum comm_operation single = transfer->output_count > 0 ? COMM_SEND : COMM_RECEIVE;
    return transfer_as(group, both ? COMM_SEND_RECEIVE : single, transfer, type);
}

int comm_barrier(struct comm_group *group)
{
    if (is_alone(group)) {
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
    static const char *const names[] = {"none",           "all-reduce",   "all-gather",
                                        "reduce-scatter", "broadcast",    "send",
                                        "receive",        "send-receive", "barrier"};
    static_assert(sizeof(names) / sizeof(names[0]) == COMM_BARRIER + 1, "one name a value");
    return names[operation];
}

const char *comm_axis_name(enum comm_axis axis)
{
    static const char *const names[] = {"world", "tensor", "context", "pipeline", "data"};
    static_assert(sizeof(names) / sizeof(names[0]) == COMM_AXES, "one name a value");
    return names[axis];
}
