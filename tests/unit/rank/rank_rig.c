/* rank_rig.c: see rank_rig.h. */
#include "tests/unit/rank/rank_rig.h"

#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"

uint64_t rank_rig_now_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void rank_rig_order(struct mailbox_order *ret_order, uint32_t rank, uint32_t attempt)
{
    *ret_order = (struct mailbox_order){
        .attempt = attempt,
        .rank = rank,
        .world = 16,
        .local_rank = rank % 8,
        .local_world = 8,
        .slot = rank / 8,
        .slot_count = 2,
        .sizes = {2, 1, 2, 4},
        .coordinates = {1, 0, 1, 3},
        .order = "tp-cp-pp-dp",
        .master_port = 29500,
        .master_address = "10.0.0.7",
        .restore_attempt = 2,
        .restore_step = 40,
        .restore_directory = "/data/step-40.a-2",
        .checkpoint_directory = "/data",
    };
}

void rank_rig_begin(struct rank_rig *rig, uint32_t rank, uint32_t save_request)
{
    char path[96];
    struct mailbox_order order;
    *rig = (struct rank_rig){.folder = "/dev/shm/rank-test-XXXXXX", .dir_fd = -1, .fd = -1};
    assert_non_null(mkdtemp(rig->folder));
    rig->dir_fd = open(rig->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(rig->dir_fd >= 0);
    rank_rig_order(&order, rank, 3);
    assert_int_equal(
        mailbox_create(rig->dir_fd, "0", getuid(), getgid(), 9, &order, save_request, &rig->fd), 0);
    assert_int_equal(mailbox_map_wake(rig->fd, &rig->map), 0);
    (void)snprintf(path, sizeof(path), "%s/0", rig->folder);
    assert_int_equal(setenv("KEEPSTEP_MAILBOX", path, 1), 0);
}

void rank_rig_end(struct rank_rig *rig)
{
    keepstep_finish();
    mailbox_unmap_wake(rig->map);
    (void)close(rig->fd);
    (void)unlinkat(rig->dir_fd, "0", 0);
    (void)close(rig->dir_fd);
    assert_int_equal(rmdir(rig->folder), 0);
    assert_int_equal(unsetenv("KEEPSTEP_MAILBOX"), 0);
}

void rank_rig_request(const struct rank_rig *rig, struct mailbox_request *ret_request)
{
    struct mailbox_request other;
    uint32_t cursor = 0;
    assert_int_equal(mailbox_next_request(rig->fd, &cursor, ret_request), 1);
    assert_int_equal(mailbox_next_request(rig->fd, &cursor, &other), 0);
}

void rank_rig_get(const struct rank_rig *rig, struct mailbox_get *ret_get)
{
    struct mailbox_get other;
    uint32_t cursor = 0;
    assert_int_equal(mailbox_next_get(rig->fd, &cursor, ret_get), 1);
    assert_int_equal(mailbox_next_get(rig->fd, &cursor, &other), 0);
}

uint32_t rank_rig_requests(const struct rank_rig *rig)
{
    struct mailbox_request request;
    uint32_t cursor = 0;
    uint32_t count = 0;
    while (mailbox_next_request(rig->fd, &cursor, &request) == 1) {
        count++;
    }
    return count;
}

uint32_t rank_rig_gets(const struct rank_rig *rig)
{
    struct mailbox_get get;
    uint32_t cursor = 0;
    uint32_t count = 0;
    while (mailbox_next_get(rig->fd, &cursor, &get) == 1) {
        count++;
    }
    return count;
}

uint32_t rank_rig_puts(const struct rank_rig *rig)
{
    static struct mailbox_put put;
    uint32_t cursor = 0;
    uint32_t count = 0;
    while (mailbox_next_put(rig->fd, &cursor, &put) == 1) {
        count++;
    }
    return count;
}
