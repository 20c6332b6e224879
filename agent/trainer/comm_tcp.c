/* comm_tcp.c: collectives as sets of transfers that run side by side.
 *
 * An operation gives every peer at most one message to send and one to receive; exchange() drives
 * them all until the last byte, asleep in poll() while nothing moves. Each message has a header
 * that says which operation of which group it belongs to and how long it is, so that ranks that
 * disagree find out at once.
 *
 *   all-gather      own part to everybody, everybody's part from them
 *   reduce-scatter  part p of the input to member p; the own part summed in the order of the ranks
 *   all-reduce      reduce-scatter in uneven parts, then all-gather; small ones: gather, then
 *                   everybody sums everything in the same order, which gives the same bits
 *
 * A broken connection is final for the whole comm: the first error is kept and returned by all
 * later operations. */
#include "agent/trainer/comm_tcp.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/trainer/socket.h"

enum {
    SMALL_BYTES = 4096, /* below: one round of everything beats two rounds of parts */
    MESSAGE_MAGIC = 0x4b53,
};

struct message {
    uint16_t magic;
    uint8_t axis;
    uint8_t operation;
    uint32_t sequence; /* of the collectives of the group; 0 in send and receive */
    uint64_t size;     /* payload bytes */
};

/* One direction of the traffic with one peer in the operation under way. */
struct lane {
    bool open; /* takes part and is not done */
    struct message message;
    size_t message_done;
    char *data;
    size_t size;
    size_t done;
};

struct tcp {
    int *fds; /* by global rank; -1: this rank */
    int wake; /* eventfd: comm_abort was called */
    atomic_bool aborted;
    int error;        /* the first one, final; 0 = none */
    uint32_t culprit; /* the rank that it came from, or the world's size */
    char operation[64];
    struct lane *out; /* by global rank */
    struct lane *in;
    struct pollfd *polls; /* world + 1 */
    char *scratch;        /* for what is summed */
    size_t scratch_size;
};

static struct tcp *state_of(const struct comm_group *group)
{
    return group->comm->backend_state;
}

/* Keeps the first error with what was going on; later calls only repeat it. */
static int broken(const struct comm_group *group, uint32_t rank, int code)
{
    struct tcp *tcp = state_of(group);
    if (tcp->error == 0) {
        tcp->error = code;
        tcp->culprit = rank;
        (void)snprintf(tcp->operation, sizeof(tcp->operation), "%s of the %s group",
                       comm_operation_name(group->head), comm_axis_name(group->axis));
    }
    return tcp->error;
}

/* ---- transfers ------------------------------------------------------------------------------ */

static struct message message_of(const struct comm_group *group, size_t size)
{
    /* Send, receive and both at once are one operation seen from different sides. */
    const bool pairwise =
        group->head == COMM_SEND || group->head == COMM_RECEIVE || group->head == COMM_SEND_RECEIVE;
    return (struct message){
        .magic = MESSAGE_MAGIC,
        .axis = (uint8_t)group->axis,
        .operation = (uint8_t)(pairwise ? COMM_SEND : group->head),
        .sequence = pairwise ? 0 : (uint32_t)group->collectives,
        .size = size,
    };
}

/* Prepares a message to the member; it is sent by the next exchange(). */
static void post_send(struct comm_group *group, uint32_t member, const void *data, size_t size)
{
    struct lane *lane = &state_of(group)->out[group->members[member]];
    assert(!lane->open);
    *lane = (struct lane){.open = true, .message = message_of(group, size), .size = size};
    memcpy(&lane->data, &data, sizeof(data)); /* only read from; one lane type serves both ways */
}

static void post_receive(struct comm_group *group, uint32_t member, void *data, size_t size)
{
    struct lane *lane = &state_of(group)->in[group->members[member]];
    assert(!lane->open);
    *lane = (struct lane){.open = true, .data = data, .size = size};
}

static bool try_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* Sends what the socket takes. 1: progress; 0: would block; -errno. */
static int push(int fd, struct lane *lane)
{
    struct iovec parts[2] = {
        {(char *)&lane->message + lane->message_done, sizeof(lane->message) - lane->message_done},
        {lane->data + lane->done, lane->size - lane->done},
    };
    const struct msghdr whole = {.msg_iov = parts, .msg_iovlen = 2};
    const ssize_t sent = sendmsg(fd, &whole, MSG_NOSIGNAL);
    if (sent < 0) {
        if (try_later(errno)) {
            return 0;
        }
        return errno == EPIPE ? -ECONNRESET : -errno;
    }
    const size_t header = parts[0].iov_len < (size_t)sent ? parts[0].iov_len : (size_t)sent;
    lane->message_done += header;
    lane->done += (size_t)sent - header;
    lane->open = lane->message_done < sizeof(lane->message) || lane->done < lane->size;
    return 1;
}

static int check_message(const struct comm_group *group, const struct lane *lane)
{
    const struct message expected = message_of(group, lane->size);
    const struct message *got = &lane->message;
    const bool same = got->magic == expected.magic && got->axis == expected.axis &&
                      got->operation == expected.operation && got->sequence == expected.sequence &&
                      got->size == expected.size;
    return same ? 0 : -EPROTO;
}

/* Receives what is there. As push. */
static int pull(const struct comm_group *group, int fd, struct lane *lane)
{
    struct iovec parts[2] = {
        {(char *)&lane->message + lane->message_done, sizeof(lane->message) - lane->message_done},
        {lane->data + lane->done, lane->size - lane->done},
    };
    const bool header_whole = parts[0].iov_len == 0;
    /* The payload is read only after its header was judged: a longer one belongs to what follows.
     */
    struct msghdr whole = {.msg_iov = header_whole ? &parts[1] : &parts[0], .msg_iovlen = 1};
    const ssize_t got = recvmsg(fd, &whole, 0);
    if (got == 0) {
        return -ECONNRESET;
    }
    if (got < 0) {
        return try_later(errno) ? 0 : -errno;
    }
    if (header_whole) {
        lane->done += (size_t)got;
    } else {
        lane->message_done += (size_t)got;
        if (lane->message_done == sizeof(lane->message) && check_message(group, lane) < 0) {
            return -EPROTO;
        }
    }
    lane->open = lane->message_done < sizeof(lane->message) || lane->done < lane->size;
    return 1;
}

/* Moves one peer's bytes until it would block. */
static int move_peer(const struct comm_group *group, uint32_t rank)
{
    struct tcp *tcp = state_of(group);
    int code = 1;
    while (code > 0 && tcp->out[rank].open) {
        code = push(tcp->fds[rank], &tcp->out[rank]);
    }
    code = code < 0 ? code : 1;
    while (code > 0 && tcp->in[rank].open) {
        code = pull(group, tcp->fds[rank], &tcp->in[rank]);
    }
    return code < 0 ? broken(group, rank, code) : 0;
}

/* Sleeps until a connection of an open lane, or comm_abort, has something for us. Fills
 * tcp->polls by member; the last one is the wake-up. */
static int wait_for_peers(const struct comm_group *group, bool *ret_open)
{
    struct tcp *tcp = state_of(group);
    bool open = false;
    for (uint32_t member = 0; member < group->size; member++) {
        const uint32_t rank = group->members[member];
        const bool out = tcp->out[rank].open;
        const bool in = tcp->in[rank].open;
        const int events = (out ? POLLOUT : 0) | (in ? POLLIN : 0);
        tcp->polls[member] =
            (struct pollfd){.fd = out || in ? tcp->fds[rank] : -1, .events = (short)events};
        open = open || out || in;
    }
    *ret_open = open;
    if (!open) {
        return 0;
    }
    tcp->polls[group->size] = (struct pollfd){.fd = tcp->wake, .events = POLLIN};
    if (poll(tcp->polls, group->size + 1, -1) < 0 && errno != EINTR) {
        return broken(group, group->comm->world, -errno);
    }
    return 0;
}

static void close_lanes(const struct comm_group *group)
{
    struct tcp *tcp = state_of(group);
    for (uint32_t member = 0; member < group->size; member++) {
        tcp->out[group->members[member]].open = false;
        tcp->in[group->members[member]].open = false;
    }
}

/* Runs all posted messages of the group to their end. */
static int exchange(const struct comm_group *group)
{
    struct tcp *tcp = state_of(group);
    int code = tcp->error;
    for (uint32_t member = 0; member < group->size && code == 0; member++) {
        code = move_peer(group, group->members[member]);
    }
    bool open = true;
    while (code == 0 && open) {
        if (atomic_load(&tcp->aborted)) {
            code = broken(group, group->comm->world, -ECANCELED);
            break;
        }
        code = wait_for_peers(group, &open);
        for (uint32_t member = 0; member < group->size && code == 0 && open; member++) {
            if (tcp->polls[member].fd >= 0 && tcp->polls[member].revents != 0) {
                code = move_peer(group, group->members[member]);
            }
        }
    }
    if (code < 0) {
        close_lanes(group);
    }
    return code;
}

static int reserve_scratch(const struct comm_group *group, size_t size)
{
    struct tcp *tcp = state_of(group);
    if (size <= tcp->scratch_size) {
        return 0;
    }
    char *scratch = realloc(tcp->scratch, size);
    if (scratch == NULL) {
        return broken(group, group->comm->rank, -ENOMEM);
    }
    tcp->scratch = scratch;
    tcp->scratch_size = size;
    return 0;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

#define COMBINE(name, type)                                                                        \
    static void name(type *to, const type *from, size_t count, enum comm_reduction reduction)      \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            const type larger = from[i] > to[i] ? from[i] : to[i];                                 \
            to[i] = reduction == COMM_SUM ? to[i] + from[i] : larger;                              \
        }                                                                                          \
    }
COMBINE(combine_i64, int64_t)
COMBINE(combine_f32, float)
COMBINE(combine_f64, double)

static void combine(void *to, const void *from, size_t count, enum comm_type type,
                    enum comm_reduction reduction)
{
    switch (type) {
    case COMM_U8:
        abort(); /* bytes are carried, not added */
    case COMM_I64:
        combine_i64(to, from, count, reduction);
        return;
    case COMM_F32:
        combine_f32(to, from, count, reduction);
        return;
    case COMM_F64:
        combine_f64(to, from, count, reduction);
        return;
    }
}

/* output = the reduction over size parts that lie one after the other, the first one first. */
static void combine_parts(void *output, const char *parts, uint32_t size, size_t count,
                          enum comm_type type, enum comm_reduction reduction)
{
    const size_t bytes = count * comm_type_size(type);
    memcpy(output, parts, bytes);
    for (uint32_t member = 1; member < size; member++) {
        combine(output, parts + member * bytes, count, type, reduction);
    }
}

/* ---- operations ----------------------------------------------------------------------------- */

/* Part m of a buffer of count elements for m = 0 … size: where it begins. */
static size_t part_begin(size_t count, uint32_t size, uint32_t member)
{
    return count / size * member + (member < count % size ? member : count % size);
}

/* Gathers parts of the buffer that begin where begins[] (size + 1 byte offsets) says. */
static int gather_parts(struct comm_group *group, char *buffer, const size_t *begins)
{
    const size_t own = begins[group->index];
    for (uint32_t member = 0; member < group->size; member++) {
        if (member != group->index) {
            post_send(group, member, buffer + own, begins[group->index + 1] - own);
            post_receive(group, member, buffer + begins[member],
                         begins[member + 1] - begins[member]);
        }
    }
    return exchange(group);
}

static int gather_even(struct comm_group *group, const void *input, char *output, size_t bytes)
{
    char *own = output + group->index * bytes;
    if (own != input) {
        memcpy(own, input, bytes);
    }
    for (uint32_t member = 0; member < group->size; member++) {
        if (member != group->index) {
            post_send(group, member, own, bytes);
            post_receive(group, member, output + member * bytes, bytes);
        }
    }
    return exchange(group);
}

static int tcp_all_gather(struct comm_group *group, const void *input, void *output, size_t count,
                          enum comm_type type)
{
    return gather_even(group, input, output, count * comm_type_size(type));
}

/* Sends part m of the input to member m and leaves the reduction of the own part in output. */
static int scatter_parts(struct comm_group *group, const char *input, void *output,
                         const size_t *begins, enum comm_type type, enum comm_reduction reduction)
{
    struct tcp *tcp = state_of(group);
    const size_t own = begins[group->index + 1] - begins[group->index];
    int code = reserve_scratch(group, own * group->size + 1);
    if (code < 0) {
        return code;
    }
    memcpy(tcp->scratch + group->index * own, input + begins[group->index], own);
    for (uint32_t member = 0; member < group->size; member++) {
        if (member != group->index) {
            post_send(group, member, input + begins[member], begins[member + 1] - begins[member]);
            post_receive(group, member, tcp->scratch + member * own, own);
        }
    }
    code = exchange(group);
    if (code == 0) {
        combine_parts(output, tcp->scratch, group->size, own / comm_type_size(type), type,
                      reduction);
    }
    return code;
}

/* begins: size + 1 entries, allocated; NULL without memory. */
static size_t *even_begins(const struct comm_group *group, size_t count, enum comm_type type)
{
    size_t *begins = calloc((size_t)group->size + 1, sizeof(*begins));
    for (uint32_t member = 0; member <= group->size && begins != NULL; member++) {
        begins[member] = part_begin(count, group->size, member) * comm_type_size(type);
    }
    return begins;
}

static int tcp_reduce_scatter(struct comm_group *group, const void *input, void *output,
                              size_t count, enum comm_type type, enum comm_reduction reduction)
{
    size_t *begins = even_begins(group, count * group->size, type);
    if (begins == NULL) {
        return broken(group, group->comm->rank, -ENOMEM);
    }
    const int code = scatter_parts(group, input, output, begins, type, reduction);
    free(begins);
    return code;
}

static int reduce_small(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                        enum comm_reduction reduction)
{
    const size_t bytes = count * comm_type_size(type);
    int code = reserve_scratch(group, bytes * group->size);
    if (code < 0) {
        return code;
    }
    char *parts = state_of(group)->scratch;
    code = gather_even(group, buffer, parts, bytes);
    if (code == 0) {
        combine_parts(buffer, parts, group->size, count, type, reduction);
    }
    return code;
}

static int tcp_all_reduce(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                          enum comm_reduction reduction)
{
    if (count * comm_type_size(type) <= SMALL_BYTES) {
        return reduce_small(group, buffer, count, type, reduction);
    }
    size_t *begins = even_begins(group, count, type);
    if (begins == NULL) {
        return broken(group, group->comm->rank, -ENOMEM);
    }
    char *bytes = buffer;
    int code = scatter_parts(group, bytes, bytes + begins[group->index], begins, type, reduction);
    if (code == 0) {
        code = gather_parts(group, bytes, begins);
    }
    free(begins);
    return code;
}

static int tcp_broadcast(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                         uint32_t root)
{
    const size_t bytes = count * comm_type_size(type);
    if (group->index != root) {
        post_receive(group, root, buffer, bytes);
    }
    for (uint32_t member = 0; member < group->size && group->index == root; member++) {
        if (member != root) {
            post_send(group, member, buffer, bytes);
        }
    }
    return exchange(group);
}

static int tcp_send_receive(struct comm_group *group, const struct comm_transfer *transfer,
                            enum comm_type type)
{
    const size_t size = comm_type_size(type);
    if (transfer->output_count > 0) {
        post_send(group, transfer->output_peer, transfer->output, transfer->output_count * size);
    }
    if (transfer->input_count > 0) {
        post_receive(group, transfer->input_peer, transfer->input, transfer->input_count * size);
    }
    return exchange(group);
}

/* ---- errors and the end --------------------------------------------------------------------- */

static void tcp_abort(struct comm *comm)
{
    struct tcp *tcp = comm->backend_state;
    const uint64_t one = 1;
    atomic_store(&tcp->aborted, true);
    if (tcp->wake >= 0) {
        (void)!write(tcp->wake, &one, sizeof(one)); /* full means that it is awake already */
    }
}

static int tcp_async_error(struct comm *comm)
{
    struct tcp *tcp = comm->backend_state;
    if (tcp->error != 0 || atomic_load(&tcp->aborted)) {
        return tcp->error != 0 ? tcp->error : -ECANCELED;
    }
    for (uint32_t rank = 0; rank < comm->world; rank++) {
        tcp->polls[rank] = (struct pollfd){.fd = tcp->fds[rank], .events = POLLRDHUP};
    }
    if (poll(tcp->polls, comm->world, 0) <= 0) {
        return 0;
    }
    for (uint32_t rank = 0; rank < comm->world; rank++) {
        if (tcp->fds[rank] >= 0 && tcp->polls[rank].revents != 0) {
            return broken(comm_group(comm, COMM_WORLD), rank, -ECONNRESET);
        }
    }
    return 0;
}

static void tcp_explain(struct comm *comm, char *ret_text, size_t size)
{
    const struct tcp *tcp = comm->backend_state;
    if (tcp->error == 0) {
        (void)snprintf(ret_text, size, "no error");
    } else if (tcp->culprit == comm->world) {
        (void)snprintf(ret_text, size, "%s in the %s", fail_errno_text(tcp->error), tcp->operation);
    } else if (tcp->error == -EPROTO) {
        (void)snprintf(ret_text, size, "rank %u is in another operation than our %s", tcp->culprit,
                       tcp->operation);
    } else {
        (void)snprintf(ret_text, size, "lost rank %u in the %s: %s", tcp->culprit, tcp->operation,
                       fail_errno_text(tcp->error));
    }
}

static void tcp_destroy(struct comm *comm)
{
    struct tcp *tcp = comm->backend_state;
    if (tcp == NULL) {
        return;
    }
    for (uint32_t rank = 0; rank < comm->world && tcp->fds != NULL; rank++) {
        socket_close(&tcp->fds[rank]);
    }
    socket_close(&tcp->wake);
    free(tcp->scratch);
    free(tcp->polls);
    free(tcp->in);
    free(tcp->out);
    free(tcp->fds);
    free(tcp);
    comm->backend_state = NULL;
}

static const struct comm_backend tcp_backend = {
    .name = "tcp",
    .all_reduce = tcp_all_reduce,
    .all_gather = tcp_all_gather,
    .reduce_scatter = tcp_reduce_scatter,
    .broadcast = tcp_broadcast,
    .send_receive = tcp_send_receive,
    .abort = tcp_abort,
    .async_error = tcp_async_error,
    .explain = tcp_explain,
    .destroy = tcp_destroy,
};

static int state_create(struct comm *comm)
{
    const uint32_t world = comm->world;
    struct tcp *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL) {
        return -ENOMEM;
    }
    comm->backend = &tcp_backend;
    comm->backend_state = tcp;
    tcp->wake = -1;
    tcp->fds = malloc(world * sizeof(*tcp->fds));
    tcp->out = calloc(world, sizeof(*tcp->out));
    tcp->in = calloc(world, sizeof(*tcp->in));
    tcp->polls = calloc((size_t)world + 1, sizeof(*tcp->polls));
    for (uint32_t rank = 0; rank < world && tcp->fds != NULL; rank++) {
        tcp->fds[rank] = -1;
    }
    if (tcp->fds == NULL || tcp->out == NULL || tcp->in == NULL || tcp->polls == NULL) {
        return -ENOMEM;
    }
    tcp->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return tcp->wake >= 0 ? 0 : -errno;
}

int comm_tcp_create(const struct rendezvous *who, const struct comm_layout *layout,
                    int *ret_listener, struct fail *fail, struct comm *ret_comm)
{
    struct comm comm;
    assert(comm_layout_world(layout) == who->world);
    int code = comm_init(&comm, layout, who->rank);
    if (code == 0) {
        code = state_create(&comm);
    }
    if (code < 0) {
        comm_done(&comm);
        return fail_set(fail, EXIT_LOCAL, code, "no memory or descriptors for %u ranks: %s",
                        who->world, fail_errno_text(code));
    }
    if (ret_listener != NULL) {
        *ret_listener = -1;
    }
    if (who->world > 1) {
        struct tcp *tcp = comm.backend_state;
        code = rendezvous_meet(who, tcp->fds, ret_listener, fail);
        if (code < 0) {
            comm_done(&comm);
            return code;
        }
    }
    *ret_comm = comm;
    for (int axis = 0; axis < COMM_AXES; axis++) {
        ret_comm->groups[axis].comm = ret_comm; /* the groups point at where they now live */
    }
    return 0;
}
