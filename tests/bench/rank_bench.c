/* rank_bench.c: what the library's calls cost in a training loop.
 *
 *     rank_bench [LIMIT_NS]     prints median and 99th percentile of each call; ends with 1 when the
 *                               median of a call that a step may make often is over the limit
 *
 * Makes a mailbox of its own, as an agent would, and measures batches of calls. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "agent/rank/mailbox.h"

enum { BATCH = 1000, ROUNDS = 1001 };

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void call_step(uint64_t step)
{
    (void)keepstep_step(step);
}

static void call_begin(uint64_t step)
{
    (void)keepstep_step_begin(step);
}

static void call_end(uint64_t step)
{
    (void)keepstep_step_end(step);
}

static void call_should(uint64_t step)
{
    (void)step;
    (void)keepstep_should_checkpoint();
}

static void call_collective(uint64_t step)
{
    (void)keepstep_collective(0, step, step - 1, KEEPSTEP_ALL_REDUCE, -1);
}

static void call_loss(uint64_t step)
{
    (void)keepstep_loss(step + BATCH * ROUNDS, 1.5);
}

/* The median, in ns a call. */
static uint64_t measure(const char *name, void (*call)(uint64_t step))
{
    static uint64_t costs[ROUNDS];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t begun = now_ns();
        for (uint64_t i = 1; i <= BATCH; i++) {
            call(round * BATCH + i);
        }
        costs[round] = (now_ns() - begun) / BATCH;
    }
    qsort(costs, ROUNDS, sizeof(costs[0]), compare);
    (void)printf("%-28s median %4u ns  p99 %4u ns\n", name, (unsigned)costs[ROUNDS / 2],
                 (unsigned)costs[ROUNDS * 99 / 100]);
    return costs[ROUNDS / 2];
}

/* Its name is gone once the library has it open. */
static int mailbox_make(void)
{
    char folder[] = "/dev/shm/rank-bench-XXXXXX";
    struct mailbox_order order = {.attempt = 1, .world = 1};
    int fd = -1;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    int dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = mailbox_create(dir_fd, "0", getuid(), getgid(), 1, &order, 0, &fd);
    if (result == 0) {
        char path[sizeof(folder) + 2];
        (void)snprintf(path, sizeof(path), "%s/0", folder);
        result = setenv("KEEPSTEP_MAILBOX", path, 1);
        result = result == 0 ? keepstep_init() : result;
        (void)close(fd);
        (void)unlinkat(dir_fd, "0", 0);
    }
    (void)close(dir_fd);
    (void)rmdir(folder);
    return result;
}

int main(int argc, char **argv)
{
    uint64_t limit = UINT64_MAX;
    if (argc == 2) {
        limit = 0;
        for (const char *digit = argv[1]; *digit >= '0' && *digit <= '9'; digit++) {
            limit = limit * 10 + (uint64_t)(*digit - '0');
        }
    }
    if (mailbox_make() != 0 || keepstep_init() != 0 || keepstep_attached() != 1) {
        (void)fprintf(stderr, "rank_bench: no mailbox can be made in /dev/shm\n");
        return 2;
    }
    static const struct {
        const char *name;
        void (*call)(uint64_t step);
    } calls[] = {
        {"keepstep_step", call_step},    {"keepstep_step_begin", call_begin},
        {"keepstep_step_end", call_end}, {"keepstep_collective", call_collective},
        {"keepstep_loss", call_loss},
    };
    uint64_t worst = 0;
    (void)keepstep_communicator("dp", KEEPSTEP_AXIS_DATA);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        uint64_t median = measure(calls[i].name, calls[i].call);
        worst = median > worst ? median : worst;
    }
    (void)measure("keepstep_should_checkpoint", call_should);
    keepstep_finish();
    return worst <= limit ? 0 : 1;
}
