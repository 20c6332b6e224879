/* agent_rig.c: see agent_rig.h. */
#include "tests/unit/trainer/agent_rig.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

void agent_rig_begin(struct agent_rig *rig, uint32_t count)
{
    *rig = (struct agent_rig){.folder = "/dev/shm/trainer-test-XXXXXX", .count = count};
    assert_true(count <= AGENT_RIG_RANKS);
    assert_non_null(mkdtemp(rig->folder));
    rig->dir_fd = open(rig->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(rig->dir_fd >= 0);
    for (uint32_t rank = 0; rank < count; rank++) {
        char name[16];
        const struct mailbox_order order = {
            .attempt = 3,
            .rank = rank,
            .world = count,
            .local_rank = rank,
            .local_world = count,
            .slot_count = 1,
            .sizes = {1, 1, 1, count},
            .coordinates = {0, 0, 0, rank},
            .order = "tp-cp-pp-dp",
            .master_port = 29500,
            .master_address = "127.0.0.1",
        };
        (void)snprintf(name, sizeof(name), "%u", rank);
        assert_int_equal(
            mailbox_create(rig->dir_fd, name, getuid(), getgid(), 9, &order, 0, &rig->fds[rank]),
            0);
        assert_int_equal(mailbox_map_wake(rig->fds[rank], &rig->maps[rank]), 0);
    }
}

void agent_rig_end(struct agent_rig *rig)
{
    for (uint32_t rank = 0; rank < rig->count; rank++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%u", rank);
        mailbox_unmap_wake(rig->maps[rank]);
        (void)close(rig->fds[rank]);
        assert_int_equal(unlinkat(rig->dir_fd, name, 0), 0);
    }
    (void)close(rig->dir_fd);
    assert_int_equal(rmdir(rig->folder), 0);
    agent_rig_show(rig, UINT32_MAX);
}

void agent_rig_show(const struct agent_rig *rig, uint32_t rank)
{
    char path[96];
    if (rank == UINT32_MAX) {
        assert_int_equal(unsetenv("KEEPSTEP_MAILBOX"), 0);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%u", rig->folder, rank);
    assert_int_equal(setenv("KEEPSTEP_MAILBOX", path, 1), 0);
}

static const struct mailbox_put *find_put(const struct agent_rig *rig, const char *key)
{
    for (uint32_t i = 0; i < rig->put_count; i++) {
        if (strcmp(rig->puts[i].key, key) == 0) {
            return &rig->puts[i];
        }
    }
    return NULL;
}

bool agent_rig_has(const struct agent_rig *rig, const char *key)
{
    return find_put(rig, key) != NULL;
}

static void take_puts(struct agent_rig *rig, uint32_t rank)
{
    struct mailbox_put put;
    uint32_t cursor = 0;
    while (mailbox_next_put(rig->fds[rank], &cursor, &put) == 1) {
        if (find_put(rig, put.key) == NULL) {
            assert_true(rig->put_count < AGENT_RIG_PUTS);
            rig->puts[rig->put_count++] = put;
        }
    }
}

static void answer_gets(const struct agent_rig *rig, uint32_t rank)
{
    struct mailbox_get get;
    uint32_t cursor = 0;
    while (mailbox_next_get(rig->fds[rank], &cursor, &get) == 1) {
        const struct mailbox_put *put = find_put(rig, get.key);
        if (put != NULL) {
            assert_int_equal(
                mailbox_value_write(rig->fds[rank], get.number, 0, put->value, put->size), 0);
            assert_int_equal(mailbox_wake(rig->fds[rank], rig->maps[rank]), 0);
        }
    }
}

static bool has_ended(pid_t child, int *ret_result)
{
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    assert_true(ended == 0 || ended == child);
    *ret_result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ended == child;
}

void agent_rig_serve(struct agent_rig *rig, const pid_t *children, uint32_t child_count,
                     int *ret_results)
{
    bool ended[AGENT_RIG_RANKS] = {false};
    uint32_t left = child_count;
    while (left > 0) {
        for (uint32_t rank = 0; rank < rig->count; rank++) {
            take_puts(rig, rank);
        }
        for (uint32_t rank = 0; rank < rig->count; rank++) {
            answer_gets(rig, rank);
        }
        for (uint32_t i = 0; i < child_count; i++) {
            if (!ended[i] && has_ended(children[i], &ret_results[i])) {
                ended[i] = true;
                left--;
            }
        }
        (void)poll(NULL, 0, 1); /* a mailbox has no event for its reader */
    }
}

void agent_rig_abort(const struct agent_rig *rig, uint32_t rank)
{
    assert_int_equal(mailbox_abort_write(rig->fds[rank], 4), 0);
    assert_int_equal(mailbox_wake(rig->fds[rank], rig->maps[rank]), 0);
}
