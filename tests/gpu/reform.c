/* reform RANKS: ranks in processes of their own that share GPUs, without a launcher and an agent. They
 * exchange; the last one is killed in the midst of it, the others' operation ends with an error, and
 * in the same processes they form a smaller world and exchange again; then one does not come to an
 * operation, the others are aborted from another thread, and form once more.
 *
 * Prints a line for each thing that was seen, `ok` or `FAILED` first; 0 when all went well. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/trainer/comm_nccl.h"
#include "agent/trainer/kernel_cuda.h"
#include "agent/trainer/pace.h"
#include "agent/trainer/socket.h"

enum {
    RANKS_MAX = 16,
    COUNT = 10000,      /* numbers in an exchange */
    ROUNDS = 5,         /* exchanges before the death */
    ABORT_MS = 1000,    /* how long one waits for a rank that does not come */
    MEETING_MS = 60000, /* for one world to come together */
    LATE_MS = 10000,    /* an error that comes later is no answer */
};

/* What all ranks of this program know. */
struct plan {
    uint32_t ranks;
    uint16_t ports[3]; /* of each attempt's rendezvous */
    pid_t parent;
};

struct member {
    const struct plan *plan;
    uint32_t rank;
    struct kernel kernel;
    struct comm comm;
    float *buffer;
    float *host;
};

static bool say(const struct member *member, bool good, const char *what, uint64_t begun_us)
{
    printf("%s rank %u: %s, %llu ms\n", good ? "ok    " : "FAILED", member->rank, what,
           (unsigned long long)(pace_now_us() - begun_us) / 1000u);
    return good;
}

static bool form(struct member *member, uint32_t attempt, uint32_t world)
{
    const uint64_t begun_us = pace_now_us();
    const struct comm_layout line = {1, 1, 1, world};
    struct fail fail = {0};
    const struct rendezvous who = {
        .rank = member->rank,
        .world = world,
        .attempt = attempt,
        .job = "reform",
        .master_address = "127.0.0.1",
        .master_port = member->plan->ports[attempt],
        .timeout_ms = MEETING_MS,
    };
    const int code = comm_nccl_create(&who, &line, &member->kernel, NULL, &fail, &member->comm);
    char what[FAIL_TEXT_SIZE + 64];
    (void)snprintf(what, sizeof(what), "attempt %u of %u ranks formed: %s", attempt, world,
                   code == 0 ? "yes" : fail.text);
    return say(member, code == 0, what, begun_us);
}

/* Sums rank + 1 over all ranks; comm.h's code, and -EBADMSG for a wrong sum. */
static int exchange(struct member *member)
{
    const uint32_t world = member->comm.world;
    for (size_t i = 0; i < COUNT; i++) {
        member->host[i] = (float)(member->rank + 1);
    }
    kernel_write(&member->kernel, member->buffer, member->host, COUNT * sizeof(float));
    int code = comm_all_reduce(comm_group(&member->comm, COMM_DATA), member->buffer, COUNT,
                               COMM_F32, COMM_SUM);
    if (code == 0) {
        code = kernel_read(&member->kernel, member->host, member->buffer, COUNT * sizeof(float));
    }
    for (size_t i = 0; i < COUNT && code == 0; i++) {
        code = member->host[i] == (float)(world * (world + 1) / 2) ? 0 : -EBADMSG;
    }
    return code;
}

static bool exchange_some(struct member *member, int rounds)
{
    const uint64_t begun_us = pace_now_us();
    char what[64];
    int code = 0;
    for (int i = 0; i < rounds && code == 0; i++) {
        code = exchange(member);
    }
    (void)snprintf(what, sizeof(what), "%d exchanges: %d", rounds, code);
    return say(member, code == 0, what, begun_us);
}

/* Ends the comm; the device must be well, since another world is to be formed on it. */
static bool leave(struct member *member)
{
    const uint64_t begun_us = pace_now_us();
    comm_done(&member->comm);
    return say(member, kernel_finish(&member->kernel) == 0, "communicators gone, device in order",
               begun_us);
}

static bool lose_one(struct member *member)
{
    const uint64_t begun_us = pace_now_us();
    if (member->rank == member->plan->ranks - 1) {
        (void)raise(SIGKILL);
    }
    char why[FAIL_TEXT_SIZE];
    char what[FAIL_TEXT_SIZE + 64];
    const int code = exchange(member);
    const bool late = pace_now_us() - begun_us > (uint64_t)LATE_MS * 1000u;
    comm_explain(&member->comm, why, sizeof(why));
    (void)snprintf(what, sizeof(what), "the death ends the operation with %d: %s", code, why);
    return say(member, code == -ECONNRESET && !late, what, begun_us);
}

static void *abort_later(void *comm)
{
    (void)poll(NULL, 0, ABORT_MS);
    comm_abort(comm);
    return NULL;
}

/* Rank 0 does not come. */
static bool abort_stuck(struct member *member)
{
    const uint64_t begun_us = pace_now_us();
    pthread_t thread;
    char what[64];
    int code = -ECANCELED;
    if (pthread_create(&thread, NULL, abort_later, &member->comm) != 0) {
        return false;
    }
    if (member->rank > 0) {
        code = exchange(member);
    }
    const bool late = pace_now_us() - begun_us > (uint64_t)(ABORT_MS + LATE_MS) * 1000u;
    (void)pthread_join(thread, NULL);
    (void)snprintf(what, sizeof(what), "an abort from another thread ends it with %d", code);
    /* Those who are aborted later may see first that the others have left. */
    return say(member, (code == -ECANCELED || code == -ECONNRESET) && !late, what, begun_us);
}

static bool live(struct member *member)
{
    const uint32_t ranks = member->plan->ranks;
    return form(member, 0, ranks) && exchange_some(member, ROUNDS) && lose_one(member) &&
           leave(member) && form(member, 1, ranks - 1) && exchange_some(member, ROUNDS) &&
           abort_stuck(member) && leave(member) && form(member, 2, ranks - 1) &&
           exchange_some(member, ROUNDS) && leave(member);
}

static int run_rank(const struct plan *plan, uint32_t rank)
{
    struct member member = {.plan = plan, .rank = rank};
    struct fail fail = {0};
    char host[32];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->parent) {
        return 1;
    }
    /* NCCL takes them for ranks of different hosts and lets them share a GPU. */
    (void)snprintf(host, sizeof(host), "reform-%u", rank);
    if (setenv("NCCL_HOSTID", host, 1) != 0 || setenv("NCCL_SOCKET_IFNAME", "lo", 0) != 0) {
        return 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (kernel_cuda_create(rank, &fail, &member.kernel) < 0) {
        printf("FAILED rank %u: %s\n", rank, fail.text);
        return 1;
    }
    member.buffer = kernel_allocate(&member.kernel, COUNT * sizeof(float));
    member.host = malloc(COUNT * sizeof(float));
    const bool good = member.buffer != NULL && member.host != NULL && live(&member);
    free(member.host);
    kernel_release(&member.kernel, member.buffer);
    kernel_done(&member.kernel);
    return good ? 0 : 1;
}

static bool find_ports(struct plan *plan)
{
    int fds[3] = {-1, -1, -1};
    bool good = true;
    for (size_t i = 0; i < 3 && good; i++) {
        struct socket_address address;
        good = socket_resolve("127.0.0.1", 0, &address) == 0 &&
               socket_listen(&address, 1, &fds[i]) == 0;
        address.size = sizeof(address.storage);
        good = good && getsockname(fds[i], (struct sockaddr *)&address.storage, &address.size) == 0;
        plan->ports[i] = good ? socket_port(&address) : 0;
    }
    for (size_t i = 0; i < 3; i++) {
        socket_close(&fds[i]);
    }
    return good;
}

int main(int argc, char *argv[])
{
    struct plan plan = {.ranks = 4, .parent = getpid()};
    pid_t children[RANKS_MAX];
    int bad = 0;
    if (argc == 2 && argv[1][0] >= '3' && argv[1][0] <= '9' && argv[1][1] == '\0') {
        plan.ranks = (uint32_t)(argv[1][0] - '0');
    } else if (argc != 1) {
        fprintf(stderr, "usage: reform [3 … 9]\n");
        return 2;
    }
    if (!find_ports(&plan)) {
        return 1;
    }
    for (uint32_t rank = 0; rank < plan.ranks; rank++) {
        children[rank] = fork(); /* nothing of CUDA is in this process yet */
        if (children[rank] <= 0) {
            return children[rank] < 0 ? 1 : run_rank(&plan, rank);
        }
    }
    for (uint32_t rank = 0; rank < plan.ranks; rank++) {
        int status = 0;
        (void)waitpid(children[rank], &status, 0);
        const bool victim = rank == plan.ranks - 1;
        const bool good = victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                 : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        bad += good ? 0 : 1;
    }
    printf("%u ranks, %d not as they should\n", plan.ranks, bad);
    return bad == 0 ? 0 : 1;
}
