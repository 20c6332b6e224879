/* comm_nccl.c: communicators, and the one way in which every operation goes.
 *
 *     enqueue -> (NCCL says: in progress) ask until it is on the stream -> a host function behind it
 *             -> asleep in poll() until that function has written to `done`
 *
 * Communicators are made with blocking = 0, so no call of NCCL waits for a peer, and one lock around
 * every call makes it safe that another thread aborts: it takes the lock, aborts, and leaves NULL
 * where the communicator was. Who waits holds no lock.
 *
 *              InitRankConfig            error of NCCL, CUDA, a peer; comm_abort
 *     (none) ----------------> ready ------------------------------------------> aborted (final)
 *
 * The first error is final for the whole comm, as comm.h says. */
#include "agent/trainer/comm_nccl.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <nccl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/trainer/comm_tcp.h"
#include "agent/trainer/cuda_error.h"
#include "agent/trainer/exchange.h"
#include "agent/trainer/kernel_cuda.h"
#include "agent/trainer/pace.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 0)
#error "NCCL 2.14 or newer is needed: communicators that do not block"
#endif

enum {
    TICK_MS = 20,      /* how often a waiting host asks for errors that come without an event */
    PAUSE_MIN_US = 20, /* how often one asks whether NCCL has put an operation on the stream: … */
    PAUSE_MAX_US = 2000,          /* … the first time, and at most */
    GOODBYE_US = 5 * 1000 * 1000, /* for what is still on the device when the comm ends */
};

struct nccl {
    struct comm control; /* tcp: the world group, and who is alive */
    cudaStream_t stream; /* the kernels' */
    int device;
    int64_t *number;          /* on the device: what a barrier adds up */
    cudaEvent_t begun, ended; /* around the operation on the stream: what it took by itself */
    int done;                 /* eventfd: the stream has come past the operation */
    int wake;                 /* eventfd: comm_abort was called */
    atomic_bool aborted;

    pthread_mutex_t lock; /* of what follows, and around every call of NCCL */
    ncclComm_t links[COMM_AXES];
    enum comm_axis active; /* whose operation may be on the device; COMM_WORLD: none */
    int error;             /* the first one, final; 0 = none */
    char text[FAIL_TEXT_SIZE];
};

static struct nccl *state_of(const struct comm_group *group)
{
    return group->comm->backend_state;
}

/* ---- ending --------------------------------------------------------------------------------- */

static void abort_link(struct nccl *nccl, enum comm_axis axis)
{
    if (nccl->links[axis] != NULL) {
        (void)ncclCommAbort(nccl->links[axis]); /* what it could say is no news any more */
        nccl->links[axis] = NULL;
    }
}

/* With the lock. The one whose kernel may be on the device goes first: ending the others can wait
 * for the whole device. */
static void abort_links(struct nccl *nccl)
{
    (void)cudaSetDevice(nccl->device); /* this may be a thread that never used one */
    abort_link(nccl, nccl->active);
    for (int axis = 0; axis < COMM_AXES; axis++) {
        abort_link(nccl, (enum comm_axis)axis);
    }
}

/* Keeps the first error with its sentence, and ends everything; later calls only repeat it. */
static int broken(struct nccl *nccl, int code, const char *text)
{
    (void)pthread_mutex_lock(&nccl->lock);
    if (nccl->error == 0) {
        nccl->error = code;
        (void)snprintf(nccl->text, sizeof(nccl->text), "%s", text);
    }
    abort_links(nccl);
    code = nccl->error;
    (void)pthread_mutex_unlock(&nccl->lock);
    comm_abort(&nccl->control);
    return code;
}

static int broken_group(const struct comm_group *group, int code, const char *why)
{
    char text[FAIL_TEXT_SIZE];
    (void)snprintf(text, sizeof(text), "%s of the %s group: %s", comm_operation_name(group->head),
                   comm_axis_name(group->axis), why);
    return broken(state_of(group), code, text);
}

static int broken_by_abort(const struct comm_group *group)
{
    return broken_group(group, -ECANCELED, "aborted on order");
}

static int broken_cuda(const struct comm_group *group, cudaError_t error)
{
    char why[256];
    (void)snprintf(why, sizeof(why), "GPU %d: %s (CUDA error %d)", state_of(group)->device,
                   cudaGetErrorString(error), (int)error);
    return broken_group(group, cuda_error_code((int)error), why);
}

/* The connections know who is gone. */
static int broken_control(struct nccl *nccl, int code)
{
    char text[FAIL_TEXT_SIZE];
    if (atomic_load(&nccl->aborted)) {
        return broken(nccl, -ECANCELED, "aborted on order");
    }
    comm_explain(&nccl->control, text, sizeof(text));
    return broken(nccl, code, text);
}

/* ---- asking NCCL ---------------------------------------------------------------------------- */

/* The state of the group's communicator; *ret_why, with room for 256, is filled on an error. */
static int ask_link(struct nccl *nccl, enum comm_axis axis, ncclResult_t said, char *ret_why)
{
    ncclResult_t state = said;
    int code = -ECANCELED;
    (void)pthread_mutex_lock(&nccl->lock);
    if (nccl->links[axis] != NULL) {
        if (said == ncclSuccess || said == ncclInProgress) {
            const ncclResult_t asked = ncclCommGetAsyncError(nccl->links[axis], &state);
            state = asked == ncclSuccess ? state : asked;
        }
        code = cuda_error_of_nccl((int)state);
        if (code < 0 && code != -EINPROGRESS) {
            (void)snprintf(ret_why, 256, "NCCL: %s: %s", ncclGetErrorString(state),
                           ncclGetLastError(nccl->links[axis]));
        }
    }
    (void)pthread_mutex_unlock(&nccl->lock);
    return code;
}

/* Sleeps until one of the two has something or the time is over. True: the stream is done. */
static bool doze(const struct nccl *nccl, uint32_t pause_us)
{
    const struct timespec pause = {.tv_sec = pause_us / 1000000u,
                                   .tv_nsec = (long)(pause_us % 1000000u) * 1000};
    struct pollfd polls[2] = {{.fd = nccl->wake, .events = POLLIN},
                              {.fd = nccl->done, .events = POLLIN}};
    uint64_t count = 0;
    const int ready = ppoll(polls, 2, &pause, NULL);
    return ready > 0 && polls[1].revents != 0 &&
           read(nccl->done, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

/* After a call that answered `said`: waits while NCCL works on it behind our back. */
static int await_link(const struct comm_group *group, ncclResult_t said, uint64_t deadline_us)
{
    struct nccl *nccl = state_of(group);
    char why[256] = "";
    uint32_t pause_us = PAUSE_MIN_US;
    for (;;) {
        int code = ask_link(nccl, group->axis, said, why);
        if (atomic_load(&nccl->aborted)) {
            return broken_by_abort(group);
        }
        if (code != -EINPROGRESS) {
            return code == 0 ? 0 : broken_group(group, code, why);
        }
        if (pace_now_us() > deadline_us) {
            return broken_group(group, -ETIMEDOUT, "the communicator is not there in time");
        }
        if (pause_us == PAUSE_MAX_US) {
            code = comm_async_error(&nccl->control);
            if (code < 0) {
                return broken_control(nccl, code);
            }
        }
        (void)doze(nccl, pause_us);
        pause_us = pause_us * 2 < PAUSE_MAX_US ? pause_us * 2 : PAUSE_MAX_US;
    }
}

static void CUDART_CB tell_done(void *context)
{
    const struct nccl *nccl = context;
    const uint64_t one = 1;
    (void)!write(nccl->done, &one, sizeof(one)); /* cannot fail: one operation at a time */
}

/* What a waiting host looks at besides the event. */
static int look_around(const struct comm_group *group)
{
    struct nccl *nccl = state_of(group);
    char why[256] = "";
    int code = ask_link(nccl, group->axis, ncclSuccess, why);
    if (atomic_load(&nccl->aborted)) {
        return broken_by_abort(group);
    }
    if (code < 0 && code != -EINPROGRESS) {
        return broken_group(group, code, why);
    }
    code = comm_async_error(&nccl->control);
    if (code < 0) {
        return broken_control(nccl, code);
    }
    const cudaError_t error = cudaStreamQuery(nccl->stream);
    return error == cudaSuccess || error == cudaErrorNotReady ? 0 : broken_cuda(group, error);
}

/* Until the stream has come past the operation. */
static int await_stream(const struct comm_group *group)
{
    struct nccl *nccl = state_of(group);
    bool done = false;
    cudaError_t error = cudaEventRecord(nccl->ended, nccl->stream);
    if (error == cudaSuccess) {
        error = cudaLaunchHostFunc(nccl->stream, tell_done, nccl);
    }
    int code = error == cudaSuccess ? 0 : broken_cuda(group, error);
    while (code == 0 && !done) {
        done = doze(nccl, TICK_MS * 1000u);
        if (!done) {
            code = look_around(group);
        }
    }
    /* An operation that was aborted comes to its end, too. */
    return code == 0 ? look_around(group) : code;
}

/* Kernels before it are no waiting for peers, though the call waited for them. */
static void measure(struct comm_group *group)
{
    const struct nccl *nccl = state_of(group);
    float took_ms = 0.0f;
    if (cudaEventElapsedTime(&took_ms, nccl->begun, nccl->ended) == cudaSuccess) {
        group->took_us = (uint64_t)(took_ms * 1000.0f) + 1; /* 0 would mean: not known */
    }
}

/* ---- operations ----------------------------------------------------------------------------- */

struct order {
    enum comm_operation kind; /* of the calls of NCCL: all-reduce … broadcast, send-receive */
    const void *input;
    void *output;
    size_t count;
    enum comm_type type;
    enum comm_reduction reduction;
    uint32_t root;
    const struct comm_transfer *transfer;
};

static ncclDataType_t type_of(enum comm_type type)
{
    switch (type) {
    case COMM_U8:
        return ncclUint8;
    case COMM_I64:
        return ncclInt64;
    case COMM_F32:
        return ncclFloat32;
    case COMM_F64:
        return ncclFloat64;
    }
    abort(); /* every value of the enumeration is above */
}

static ncclResult_t transfer_both(const struct comm_transfer *transfer, ncclDataType_t type,
                                  ncclComm_t link, cudaStream_t stream)
{
    ncclResult_t result = ncclGroupStart();
    if (result == ncclSuccess && transfer->output_count > 0) {
        result = ncclSend(transfer->output, transfer->output_count, type,
                          (int)transfer->output_peer, link, stream);
    }
    if ((result == ncclSuccess || result == ncclInProgress) && transfer->input_count > 0) {
        result = ncclRecv(transfer->input, transfer->input_count, type, (int)transfer->input_peer,
                          link, stream);
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

/* With the lock. */
static ncclResult_t enqueue(struct nccl *nccl, enum comm_axis axis, const struct order *order)
{
    ncclComm_t link = nccl->links[axis];
    const ncclDataType_t type = type_of(order->type);
    const ncclRedOp_t reduction = order->reduction == COMM_SUM ? ncclSum : ncclMax;
    switch (order->kind) {
    case COMM_ALL_REDUCE:
        return ncclAllReduce(order->input, order->output, order->count, type, reduction, link,
                             nccl->stream);
    case COMM_ALL_GATHER:
        return ncclAllGather(order->input, order->output, order->count, type, link, nccl->stream);
    case COMM_REDUCE_SCATTER:
        return ncclReduceScatter(order->input, order->output, order->count, type, reduction, link,
                                 nccl->stream);
    case COMM_BROADCAST:
        return ncclBroadcast(order->input, order->output, order->count, type, (int)order->root,
                             link, nccl->stream);
    case COMM_SEND_RECEIVE:
        return transfer_both(order->transfer, type, link, nccl->stream);
    case COMM_NONE:
    case COMM_SEND:
    case COMM_RECEIVE:
    case COMM_BARRIER:
        break; /* made of the others */
    }
    abort();
}

static int perform(struct comm_group *group, const struct order *order)
{
    struct nccl *nccl = state_of(group);
    ncclResult_t said = ncclInternalError;
    const cudaError_t error = cudaEventRecord(nccl->begun, nccl->stream);
    if (error != cudaSuccess) {
        return broken_cuda(group, error);
    }
    (void)pthread_mutex_lock(&nccl->lock);
    int code = nccl->error;
    const bool ready = nccl->links[group->axis] != NULL;
    if (code == 0 && ready) {
        nccl->active = group->axis;
        said = enqueue(nccl, group->axis, order);
    }
    (void)pthread_mutex_unlock(&nccl->lock);
    if (code < 0) {
        return code;
    }
    if (!ready) {
        return broken_by_abort(group); /* nothing else takes them away without an error */
    }
    code = await_link(group, said, UINT64_MAX);
    code = code == 0 ? await_stream(group) : code;
    (void)pthread_mutex_lock(&nccl->lock);
    nccl->active = COMM_WORLD;
    (void)pthread_mutex_unlock(&nccl->lock);
    if (code == 0) {
        measure(group);
    }
    return code;
}

/* The same group on the connections; NULL when it is one of NCCL's. */
static struct comm_group *control_group(const struct comm_group *group)
{
    return group->axis == COMM_WORLD ? comm_group(&state_of(group)->control, COMM_WORLD) : NULL;
}

static int controlled(const struct comm_group *group, int code)
{
    return code == 0 ? 0 : broken_control(state_of(group), code);
}

static int nccl_all_reduce(struct comm_group *group, void *buffer, size_t count,
                           enum comm_type type, enum comm_reduction reduction)
{
    struct comm_group *control = control_group(group);
    if (control != NULL) {
        return controlled(group, comm_all_reduce(control, buffer, count, type, reduction));
    }
    /* comm_barrier's number is on the host. */
    void *numbers = group->head == COMM_BARRIER ? state_of(group)->number : buffer;
    const struct order order = {.kind = COMM_ALL_REDUCE,
                                .input = numbers,
                                .output = numbers,
                                .count = count,
                                .type = type,
                                .reduction = reduction};
    return perform(group, &order);
}

static int nccl_all_gather(struct comm_group *group, const void *input, void *output, size_t count,
                           enum comm_type type)
{
    struct comm_group *control = control_group(group);
    if (control != NULL) {
        return controlled(group, comm_all_gather(control, input, output, count, type));
    }
    const struct order order = {
        .kind = COMM_ALL_GATHER, .input = input, .output = output, .count = count, .type = type};
    return perform(group, &order);
}

static int nccl_reduce_scatter(struct comm_group *group, const void *input, void *output,
                               size_t count, enum comm_type type, enum comm_reduction reduction)
{
    struct comm_group *control = control_group(group);
    if (control != NULL) {
        return controlled(group,
                          comm_reduce_scatter(control, input, output, count, type, reduction));
    }
    const struct order order = {.kind = COMM_REDUCE_SCATTER,
                                .input = input,
                                .output = output,
                                .count = count,
                                .type = type,
                                .reduction = reduction};
    return perform(group, &order);
}

static int nccl_broadcast(struct comm_group *group, void *buffer, size_t count, enum comm_type type,
                          uint32_t root)
{
    struct comm_group *control = control_group(group);
    if (control != NULL) {
        return controlled(group, comm_broadcast(control, buffer, count, type, root));
    }
    const struct order order = {.kind = COMM_BROADCAST,
                                .input = buffer,
                                .output = buffer,
                                .count = count,
                                .type = type,
                                .root = root};
    return perform(group, &order);
}

static int nccl_send_receive(struct comm_group *group, const struct comm_transfer *transfer,
                             enum comm_type type)
{
    struct comm_group *control = control_group(group);
    if (control != NULL) {
        return controlled(group, comm_send_receive(control, transfer, type));
    }
    const struct order order = {.kind = COMM_SEND_RECEIVE, .type = type, .transfer = transfer};
    return perform(group, &order);
}

/* In its place among the kernels. */
static void nccl_copy(const struct comm_group *group, void *to, const void *from, size_t size)
{
    if (group->axis == COMM_WORLD) {
        memcpy(to, from, size);
        return;
    }
    const cudaError_t error =
        cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, state_of(group)->stream);
    if (error != cudaSuccess) {
        (void)broken_cuda(group, error); /* kept: the next operation returns it */
    }
}

/* ---- the comm as a whole -------------------------------------------------------------------- */

static void nccl_abort(struct comm *comm)
{
    struct nccl *nccl = comm->backend_state;
    const uint64_t one = 1;
    atomic_store(&nccl->aborted, true);
    (void)!write(nccl->wake, &one, sizeof(one)); /* full means that it is awake already */
    comm_abort(&nccl->control);
    (void)pthread_mutex_lock(&nccl->lock);
    abort_links(nccl);
    (void)pthread_mutex_unlock(&nccl->lock);
}

static int nccl_async_error(struct comm *comm)
{
    struct nccl *nccl = comm->backend_state;
    char why[256] = "";
    (void)pthread_mutex_lock(&nccl->lock);
    int code = nccl->error;
    (void)pthread_mutex_unlock(&nccl->lock);
    if (code < 0 || atomic_load(&nccl->aborted)) {
        return code < 0 ? code : -ECANCELED;
    }
    code = comm_async_error(&nccl->control);
    if (code < 0) {
        return broken_control(nccl, code);
    }
    for (int axis = COMM_TENSOR; axis < COMM_AXES; axis++) {
        const struct comm_group *group = &comm->groups[axis];
        code = group->size > 1 ? ask_link(nccl, group->axis, ncclSuccess, why) : 0;
        if (code < 0 && code != -EINPROGRESS) {
            return atomic_load(&nccl->aborted) ? -ECANCELED : broken_group(group, code, why);
        }
    }
    return 0;
}

static void nccl_explain(struct comm *comm, char *ret_text, size_t size)
{
    struct nccl *nccl = comm->backend_state;
    (void)pthread_mutex_lock(&nccl->lock);
    (void)snprintf(ret_text, size, "%s", nccl->error == 0 ? "no error" : nccl->text);
    (void)pthread_mutex_unlock(&nccl->lock);
}

/* In good order: all members do it. Takes the links away from nccl_abort. */
static void close_link(const struct comm_group *group)
{
    struct nccl *nccl = state_of(group);
    if (nccl->links[group->axis] == NULL) {
        return;
    }
    const ncclResult_t said = ncclCommFinalize(nccl->links[group->axis]);
    if (await_link(group, said, pace_now_us() + GOODBYE_US) == 0) {
        (void)ncclCommDestroy(nccl->links[group->axis]);
        nccl->links[group->axis] = NULL;
    }
}

/* False: the device does not come to an end; what it may still write to must stay. */
static bool drain(const struct nccl *nccl)
{
    const uint64_t deadline_us = pace_now_us() + GOODBYE_US;
    while (cudaStreamQuery(nccl->stream) == cudaErrorNotReady) {
        if (pace_now_us() > deadline_us) {
            return false;
        }
        (void)poll(NULL, 0, 1); /* the host function behind an aborted operation tells nobody */
    }
    return true;
}

static void nccl_destroy(struct comm *comm)
{
    struct nccl *nccl = comm->backend_state;
    for (int axis = COMM_TENSOR; axis < COMM_AXES && nccl->error == 0; axis++) {
        close_link(&comm->groups[axis]);
    }
    (void)pthread_mutex_lock(&nccl->lock);
    abort_links(nccl); /* what did not close */
    (void)pthread_mutex_unlock(&nccl->lock);
    comm_done(&nccl->control);
    comm->backend_state = NULL;
    if (nccl->stream != NULL && !drain(nccl)) {
        return; /* the process is about to end; a stuck device may keep this much of it */
    }
    (void)cudaFree(nccl->number);
    if (nccl->begun != NULL) {
        (void)cudaEventDestroy(nccl->begun);
    }
    if (nccl->ended != NULL) {
        (void)cudaEventDestroy(nccl->ended);
    }
    if (nccl->done >= 0) {
        (void)close(nccl->done);
    }
    if (nccl->wake >= 0) {
        (void)close(nccl->wake);
    }
    (void)pthread_mutex_destroy(&nccl->lock);
    free(nccl);
}

static const struct comm_backend nccl_backend = {
    .name = "nccl",
    .all_reduce = nccl_all_reduce,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .broadcast = nccl_broadcast,
    .send_receive = nccl_send_receive,
    .copy = nccl_copy,
    .abort = nccl_abort,
    .async_error = nccl_async_error,
    .explain = nccl_explain,
    .destroy = nccl_destroy,
};

/* ---- coming together ------------------------------------------------------------------------ */

/* One communicator: member 0 makes its id, all get it, all join. */
static int connect_group(struct comm_group *group, bool by_agent, uint64_t deadline_us)
{
    struct nccl *nccl = state_of(group);
    const uint64_t now_us = pace_now_us();
    const uint64_t left_ms = now_us < deadline_us ? (deadline_us - now_us) / 1000u : 0;
    ncclUniqueId id = {{0}};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    config.commName = comm_axis_name(group->axis); /* what RAS and NCCL's log call it */
#endif
    ncclResult_t said = group->index == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    if (said != ncclSuccess) {
        return broken_group(group, cuda_error_of_nccl((int)said), ncclGetLastError(NULL));
    }
    const int code = exchange_bytes(comm_group(&nccl->control, group->axis), "nccl", by_agent, &id,
                                    sizeof(id), (uint32_t)left_ms);
    if (code < 0) {
        return code == -ECONNRESET || code == -ECANCELED
                   ? broken_control(nccl, code)
                   : broken_group(group, code, "the communicator's id did not reach all members");
    }
    (void)pthread_mutex_lock(&nccl->lock);
    said = ncclCommInitRankConfig(&nccl->links[group->axis], (int)group->size, id,
                                  (int)group->index, &config);
    (void)pthread_mutex_unlock(&nccl->lock);
    if (nccl->links[group->axis] == NULL) {
        return broken_group(group, cuda_error_of_nccl((int)said), ncclGetLastError(NULL));
    }
    return await_link(group, said, deadline_us);
}

static int connect_groups(struct comm *comm, uint32_t timeout_ms)
{
    struct nccl *nccl = comm->backend_state;
    const uint64_t deadline_us = pace_now_us() + (uint64_t)timeout_ms * 1000u;
    bool by_agent = false;
    int code = exchange_by_agent(&nccl->control, &by_agent);
    if (code < 0) {
        return broken_control(nccl, code);
    }
    for (int axis = COMM_TENSOR; axis < COMM_AXES && code == 0; axis++) {
        if (comm->groups[axis].size > 1) {
            code = connect_group(&comm->groups[axis], by_agent, deadline_us);
        }
    }
    return code;
}

static int state_create(struct comm *comm, const struct kernel *kernel)
{
    struct nccl *nccl = calloc(1, sizeof(*nccl));
    if (nccl == NULL) {
        return -ENOMEM;
    }
    comm->backend = &nccl_backend;
    comm->backend_state = nccl;
    nccl->device = kernel_cuda_device(kernel);
    nccl->stream = kernel_cuda_stream(kernel);
    (void)pthread_mutex_init(&nccl->lock, NULL); /* cannot fail on Linux */
    nccl->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    nccl->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (nccl->done < 0 || nccl->wake < 0) {
        return -EMFILE;
    }
    void *number = NULL;
    if (cudaEventCreate(&nccl->begun) != cudaSuccess ||
        cudaEventCreate(&nccl->ended) != cudaSuccess) {
        return -EIO;
    }
    if (cudaMalloc(&number, sizeof(*nccl->number)) != cudaSuccess) {
        return -ENOMEM;
    }
    nccl->number = number;
    return cudaMemsetAsync(number, 0, sizeof(*nccl->number), nccl->stream) == cudaSuccess ? 0
                                                                                          : -EIO;
}

static int exit_code_of(int code)
{
    switch (code) {
    case -ECONNRESET:
    case -ECANCELED:
        return EXIT_PEER;
    case -ETIMEDOUT:
        return EXIT_RENDEZVOUS;
    default:
        return EXIT_DEVICE;
    }
}

int comm_nccl_create(const struct rendezvous *who, const struct comm_layout *layout,
                     struct kernel *kernel, int *ret_listener, struct fail *fail,
                     struct comm *ret_comm)
{
    assert(comm_layout_world(layout) == who->world);
    int code = comm_init(ret_comm, layout, who->rank);
    if (code == 0) {
        code = state_create(ret_comm, kernel);
        if (code < 0) {
            comm_done(ret_comm);
        }
    }
    if (code < 0) {
        return fail_set(fail, EXIT_LOCAL, code, "no memory or descriptors for the groups: %s",
                        fail_errno_text(code));
    }
    struct nccl *nccl = ret_comm->backend_state;
    code = comm_tcp_create(who, layout, ret_listener, fail, &nccl->control);
    if (code == 0) {
        code = connect_groups(ret_comm, who->timeout_ms);
        if (code < 0) {
            (void)fail_set(fail, exit_code_of(code), code, "%s", nccl->text);
        }
    }
    if (code < 0) {
        comm_done(ret_comm);
    }
    return code;
}

void comm_nccl_version(char *ret_text, size_t size)
{
    int version = 0;
    (void)ncclGetVersion(&version); /* writes a number */
    (void)snprintf(ret_text, size, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
                   version % 100);
}
