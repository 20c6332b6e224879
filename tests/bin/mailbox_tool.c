/* mailbox_tool.c: the agent's side of one mailbox, a command at a time, for tests in scripts.
 *
 *     mailbox_tool PATH create RANK            attempt 3 of job 9, of 16 ranks; restore from step 40
 *     mailbox_tool PATH read                   what the rank says, as one JSON object
 *     mailbox_tool PATH flags SAVE STOP        what is asked of rank 0
 *     mailbox_tool PATH abort BELOW            attempts below it are over
 *     mailbox_tool PATH answer NUMBER RESULT TEXT */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/rank/mailbox.h"

/* Decimal; anything else is a mistake of the test. */
static long number(const char *text)
{
    const bool negative = text[0] == '-';
    long value = 0;
    for (text += negative; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (*text - '0');
    }
    return negative ? -value : value;
}

static int create(const char *path, uint32_t rank)
{
    int fd = -1;
    const struct mailbox_order order = {
        .attempt = 3,
        .rank = rank,
        .world = 16,
        .local_rank = rank % 8,
        .local_world = 8,
        .slot = rank / 8,
        .slot_count = 2,
        .sizes = {2, 1, 2, 4},
        .coordinates = {rank % 2, 0, rank / 2 % 2, rank / 4},
        .order = "tp-cp-pp-dp",
        .master_port = 29500,
        .master_address = "10.0.0.7",
        .restore_attempt = 2,
        .restore_step = 40,
        .restore_directory = "/data/step-40.a-2",
        .checkpoint_directory = "/data",
    };
    return mailbox_create(AT_FDCWD, path, getuid(), getgid(), 9, &order, 0, &fd);
}

static void print_real(const char *name, mailbox_real_bits bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    if (bits == 0 || isnan(value) || isinf(value)) {
        (void)printf(",\"%s\":%s", name, bits == 0 ? "null" : isnan(value) ? "\"nan\"" : "\"inf\"");
    } else {
        (void)printf(",\"%s\":%g", name, (double)value);
    }
}

static void print_steps(const struct mailbox_view *view)
{
    (void)printf(",\"steps\":[");
    for (uint32_t i = 0; i < view->steps_held; i++) {
        (void)printf("%s{\"step\":%llu,\"compute_us\":%u", i == 0 ? "" : ",",
                     (unsigned long long)view->steps[i].step, view->steps[i].compute_us);
        print_real("loss", view->steps[i].loss);
        print_real("gradient_norm", view->steps[i].gradient_norm);
        (void)printf("}");
    }
    (void)printf("],\"hashes\":[");
    for (uint32_t i = 0; i < view->hashes_held; i++) {
        (void)printf("%s{\"step\":%llu,\"hash\":\"%016llx\"}", i == 0 ? "" : ",",
                     (unsigned long long)view->hashes[i].step,
                     (unsigned long long)view->hashes[i].hash);
    }
}

static void print_communicators(const struct mailbox_view *view)
{
    (void)printf("],\"communicators\":[");
    for (uint32_t i = 0; i < view->communicator_count; i++) {
        const struct mailbox_communicator *one = &view->communicators[i];
        (void)printf("%s{\"name\":\"%s\",\"axis\":%u,\"enqueued\":%llu,\"completed\":%llu,"
                     "\"operation\":%u,\"peer\":%d}",
                     i == 0 ? "" : ",", one->name, one->axis, (unsigned long long)one->enqueued,
                     (unsigned long long)one->completed, one->operation, one->peer);
    }
}

static int print_requests(int fd)
{
    struct mailbox_request request;
    uint32_t cursor = 0;
    uint32_t count = 0;
    int result;
    (void)printf("],\"requests\":[");
    while ((result = mailbox_next_request(fd, &cursor, &request)) == 1) {
        (void)printf("%s{\"kind\":%u,\"step\":%llu,\"path\":\"%s\"}", count++ == 0 ? "" : ",",
                     request.kind, (unsigned long long)request.step, request.path);
    }
    (void)printf("]}\n");
    return result;
}

static int read_all(int fd)
{
    static struct mailbox_view view;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int result =
        mailbox_read(fd, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, &view);
    if (result != 0) {
        return result;
    }
    (void)printf(
        "{\"torn\":%s,\"finished\":%s,\"phase\":%u,\"step\":%llu,\"coordinates\":[%u,%u,%u,"
        "%u]",
        view.torn ? "true" : "false", view.finished ? "true" : "false", view.phase,
        (unsigned long long)view.step, view.coordinates.tensor, view.coordinates.context,
        view.coordinates.pipeline, view.coordinates.data);
    print_steps(&view);
    print_communicators(&view);
    return print_requests(fd);
}

static int wake(int fd)
{
    void *map = NULL;
    int result = mailbox_map_wake(fd, &map);
    result = result == 0 ? mailbox_wake(fd, map) : result;
    mailbox_unmap_wake(map);
    return result;
}

static int carry_out(int fd, int argc, char **argv)
{
    const char *verb = argv[2];
    int result = -EINVAL;
    if (strcmp(verb, "read") == 0) {
        return read_all(fd);
    }
    if (strcmp(verb, "flags") == 0 && argc == 5) {
        result = mailbox_flags_write(fd, (uint32_t)number(argv[3]), number(argv[4]) != 0);
    } else if (strcmp(verb, "abort") == 0 && argc == 4) {
        result = mailbox_abort_write(fd, (uint32_t)number(argv[3]));
    } else if (strcmp(verb, "answer") == 0 && argc == 6) {
        result =
            mailbox_answer_write(fd, (uint64_t)number(argv[3]), (int32_t)number(argv[4]), argv[5]);
    }
    return result == 0 ? wake(fd) : result;
}

int main(int argc, char **argv)
{
    int fd = -1;
    int result = argc >= 3 ? 0 : -EINVAL;
    if (result == 0 && strcmp(argv[2], "create") == 0) {
        result = argc == 4 ? create(argv[1], (uint32_t)number(argv[3])) : -EINVAL;
    } else if (result == 0) {
        result = mailbox_open(AT_FDCWD, argv[1], &fd);
        result = result == 0 ? carry_out(fd, argc, argv) : result;
    }
    if (result != 0) {
        (void)fprintf(stderr, "mailbox_tool: %s\n", strerror(-result));
    }
    return result == 0 ? 0 : 1;
}
