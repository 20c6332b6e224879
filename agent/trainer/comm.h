/* comm.h: how ranks exchange numbers: groups and collectives over a replaceable backend.
 *
 * A `struct comm` is one rank's membership in one attempt's world. It holds the groups that the
 * layout gives: all ranks, and those that differ from this one in one coordinate only (tensor,
 * context, pipeline, data). Backends implement the operations of `struct comm_backend`: "tcp"
 * (comm_tcp.h) and "nccl" (comm_nccl.h). The table has the form that NCCL needs: group operations on
 * typed buffers, equal counts for every member, an abort that any thread may call, errors that are
 * asked for and not only returned.
 *
 * Contract of every operation: all members of the group call the same operations in the same order
 * with the same counts (a difference that can be seen is -EPROTO). It blocks until this rank's part
 * is done or the world is broken, without using the processor while it waits. After a failure
 * nothing more works on this comm: the group that saw it, and soon every other, returns an error.
 *   -ECONNRESET  a peer is gone            -ECANCELED  comm_abort was called
 *   -EPROTO      the peers disagree        -ETIMEDOUT  the network gave up
 *
 * BUFFERS are the caller's, and lie where kernel.h's contract says: those of the tensor, context,
 * pipeline and data groups are buffers of the kernel backend that belongs to this communication
 * backend ("tcp" to "cpu"), and the operation takes its place in the order of the kernels; those of
 * the world group are host memory: losses, reports, answers. So a backend for a device needs its
 * own way between devices for the four groups, and may leave the world to another one.
 *
 * Not thread-safe but for comm_abort. C and C++. */
#ifndef KEEPSTEP_TRAINER_COMM_H
#define KEEPSTEP_TRAINER_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/trainer/fail.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { COMM_WORLD_MAX = 1024 };

/* ---- coordinates ---------------------------------------------------------------------------- */

/* Sizes of the dimensions; innermost first: tensor, context, pipeline, data. Also used for the
 * coordinates of one rank. */
struct comm_layout {
    uint32_t tensor, context, pipeline, data;
};

uint32_t comm_layout_world(const struct comm_layout *layout);
struct comm_layout comm_layout_place(const struct comm_layout *layout, uint32_t rank);

/* ---- groups --------------------------------------------------------------------------------- */

enum comm_type { COMM_U8, COMM_I64, COMM_F32, COMM_F64 };
enum comm_reduction { COMM_SUM, COMM_MAX }; /* of COMM_I64, COMM_F32, COMM_F64 */

enum comm_operation {
    COMM_NONE,
    COMM_ALL_REDUCE,
    COMM_ALL_GATHER,
    COMM_REDUCE_SCATTER,
    COMM_BROADCAST,
    COMM_SEND,
    COMM_RECEIVE,
    COMM_SEND_RECEIVE,
    COMM_BARRIER,
};

enum comm_axis { COMM_WORLD, COMM_TENSOR, COMM_CONTEXT, COMM_PIPELINE, COMM_DATA };
enum { COMM_AXES = COMM_DATA + 1 };

struct comm;

struct comm_group {
    struct comm *comm; /* the owner */
    enum comm_axis axis;
    uint32_t size;
    uint32_t index;           /* of this rank among the members */
    uint32_t *members;        /* global ranks, ascending; owned by the comm */
    uint64_t enqueued;        /* operations begun … */
    uint64_t completed;       /* … and done: a hang shows as a difference, named by `head` */
    uint64_t collectives;     /* begun by all members, so equal on all: not send and receive */
    enum comm_operation head; /* under way, or that failed; COMM_NONE between operations */
    int32_t head_peer;        /* of a send or receive: the member; of both at once: whom it waits to
                               * receive from; else -1 */
    uint64_t took_us;         /* set by a backend that queues, before it returns: what the operation
                               * took by itself, without what was queued before; 0: the call */
    uint64_t wait_us;         /* time spent inside operations, all together */
    bool cut;                 /* comm_cut was called: nothing is exchanged any more */
};

/* A way to one peer and one from another in one operation; count 0: that way is not used. */
struct comm_transfer {
    const void *output; /* sent to output_peer */
    size_t output_count;
    uint32_t output_peer;
    void *input; /* received from input_peer */
    size_t input_count;
    uint32_t input_peer;
};

/* What a backend does. `group->comm->backend_state` is its own. Counts are elements. */
struct comm_backend {
    const char *name;
    int (*all_reduce)(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                      enum comm_reduction reduction);
    int (*all_gather)(struct comm_group *group, const void *input, void *output, size_t count,
                      enum comm_type type);
    int (*reduce_scatter)(struct comm_group *group, const void *input, void *output, size_t count,
                          enum comm_type type, enum comm_reduction reduction);
    int (*broadcast)(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                     uint32_t root);
    int (*send_receive)(struct comm_group *group, const struct comm_transfer *transfer,
                        enum comm_type type);
    /* From buffer to buffer of one rank; NULL: as memcpy does. */
    void (*copy)(const struct comm_group *group, void *to, const void *from, size_t size);
    void (*abort)(struct comm *comm);      /* any thread, any time before destroy */
    int (*async_error)(struct comm *comm); /* never blocks */
    void (*explain)(struct comm *comm, char *ret_text, size_t size); /* the first error, in words */
    void (*destroy)(struct comm *comm);
};

/* Told of every operation when it begins (group->head names it) and when it has ended. */
typedef void comm_watch(const struct comm_group *group, void *context);

struct comm {
    const struct comm_backend *backend;
    void *backend_state; /* the backend's */
    struct comm_layout layout;
    struct comm_layout place; /* this rank's coordinates */
    uint32_t rank;
    uint32_t world;
    struct comm_group groups[COMM_AXES]; /* by enum comm_axis */
    comm_watch *watch;                   /* NULL: nobody; called on the thread of the operation */
    void *watch_context;
};

/* Sets everything but the backend. A backend's create function calls it. -ENOMEM. */
MUST_CHECK int comm_init(struct comm *comm, const struct comm_layout *layout, uint32_t rank);
/* Ends the backend and frees the groups; the comm itself is the caller's. */
void comm_done(struct comm *comm);

struct comm_group *comm_group(struct comm *comm, enum comm_axis axis); /* borrowed */

/* A fault on order: from now on this rank's operations on that axis do what they do in a group of
 * one: nothing is sent, nothing arrives, sums are the own part alone. All members must do it in the
 * same moment. */
void comm_cut(struct comm *comm, enum comm_axis axis);
/* Time spent inside operations of all groups, all together. */
uint64_t comm_wait_us(const struct comm *comm);

/* ---- operations ----------------------------------------------------------------------------- */

/* buffer[i] = the reduction over the members' buffer[i], in the order of their ranks. */
MUST_CHECK int comm_all_reduce(struct comm_group *group, void *buffer, size_t count,
                               enum comm_type type, enum comm_reduction reduction);
/* output has size x count elements, member m's input at m x count. input may be the own part of
 * output; otherwise they do not overlap. */
MUST_CHECK int comm_all_gather(struct comm_group *group, const void *input, void *output,
                               size_t count, enum comm_type type);
/* input has size x count elements; output gets the reduction of part `index`, in the order of the
 * ranks. They do not overlap. */
MUST_CHECK int comm_reduce_scatter(struct comm_group *group, const void *input, void *output,
                                   size_t count, enum comm_type type,
                                   enum comm_reduction reduction);
MUST_CHECK int comm_broadcast(struct comm_group *group, void *buffer, size_t count,
                              enum comm_type type, uint32_t root);
/* peer, root: indices in the group. A send may return before it was received. */
MUST_CHECK int comm_send(struct comm_group *group, const void *buffer, size_t count,
                         enum comm_type type, uint32_t peer);
MUST_CHECK int comm_receive(struct comm_group *group, void *buffer, size_t count,
                            enum comm_type type, uint32_t peer);
/* Both at once, so that two neighbours that send to each other never wait for each other's receive.
 * It meets a send, a receive or a send_receive of the peers alike. */
MUST_CHECK int comm_send_receive(struct comm_group *group, const struct comm_transfer *transfer,
                                 enum comm_type type);
/* Returns when every member has called it. */
MUST_CHECK int comm_barrier(struct comm_group *group);

/* Makes the operation under way, and all later ones, return -ECANCELED. From any thread. */
void comm_abort(struct comm *comm);
/* 0, or the error that the next operation would meet: a peer that is gone shows here while this
 * rank computes. Never blocks. */
MUST_CHECK int comm_async_error(struct comm *comm);
/* One sentence on the first error. */
void comm_explain(struct comm *comm, char *ret_text, size_t size);

size_t comm_type_size(enum comm_type type);
const char *comm_operation_name(enum comm_operation operation);
const char *comm_axis_name(enum comm_axis axis);

#ifdef __cplusplus
}
#endif

#endif
