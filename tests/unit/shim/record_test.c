/* record_test.c: the ends file, written and read, whole, torn and foreign; and what it means. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shim/ends.h"
#include "agent/shim/record.h"
#include "agent/shim/server.h"
#include "agent/shim/shim.h"

static char folder[64];
static int dir_fd = -1;

static int setup(void **state)
{
    (void)state;
    memcpy(folder, "/tmp/record-test-XXXXXX", sizeof("/tmp/record-test-XXXXXX"));
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {SHIM_FILE_ENDS, SHIM_FILE_LOCK, SHIM_FILE_SOCK};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        (void)unlinkat(dir_fd, names[i], 0);
    }
    (void)close(dir_fd);
    return rmdir(folder);
}

static void append(struct ends *ends, uint32_t kind, uint32_t rank, int32_t code)
{
    struct shim_record record = {.kind = kind, .rank = rank, .code = code, .pid = 100};
    assert_int_equal(ends_append(ends, &record, 1), 0);
}

static void story_write(struct ends *ends)
{
    assert_int_equal(ends_open(ends, dir_fd, 7, 2, 0), 0);
    append(ends, SHIM_RECORD_OPEN, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        append(ends, SHIM_RECORD_START, i, (int32_t)(16 + i));
    }
    append(ends, SHIM_RECORD_EXITED, 1, 75);
    append(ends, SHIM_RECORD_ORDER, 0, SIGTERM);
    struct shim_record end = {
        .kind = SHIM_RECORD_SIGNALED, .rank = 2, .code = SIGTERM, .after_stop = 1};
    assert_int_equal(ends_append(ends, &end, 1), 0);
}

static void test_fold(void **state)
{
    struct ends ends;
    struct shim_ends back;
    struct shim_status status;
    (void)state;
    story_write(&ends);
    assert_int_equal(shim_ends_read(dir_fd, &back), 0);
    assert_int_equal(back.count, 7);
    assert_false(back.torn);
    shim_status_fold(&back, &status);
    assert_int_equal(status.job, 7);
    assert_int_equal(status.attempt, 2);
    assert_int_equal(status.rank_count, 3);
    assert_int_equal(status.has_cgroup, 1);
    assert_int_equal(status.term_ordered, 1);
    assert_int_equal(status.kill_ordered, 0);
    assert_int_equal(status.alive_count, 1);
    assert_int_equal(status.empty, 0);
    assert_int_equal(status.sequence, 7);
    assert_int_equal(status.ranks[0].state, SHIM_RANK_RUNNING);
    assert_int_equal(status.ranks[0].rank, 16);
    assert_int_equal(status.ranks[1].state, SHIM_RANK_EXITED);
    assert_int_equal(status.ranks[1].code, 75);
    assert_int_equal(status.ranks[1].after_stop, 0);
    assert_int_equal(status.ranks[1].end_sequence, 5);
    assert_int_equal(status.ranks[2].state, SHIM_RANK_SIGNALED);
    assert_int_equal(status.ranks[2].after_stop, 1);
    append(&ends, SHIM_RECORD_EMPTY, 0, 0);
    assert_int_equal(shim_ends_read(dir_fd, &back), 0);
    shim_status_fold(&back, &status);
    assert_int_equal(status.empty, 1);
    ends_close(&ends);
}

/* Cut or spoilt anywhere: what came before stands, what follows is not believed. */
static void test_torn_anywhere(void **state)
{
    struct ends ends;
    struct shim_ends back;
    const size_t record = sizeof(struct shim_record);
    (void)state;
    story_write(&ends);
    ends_close(&ends);
    int fd = openat(dir_fd, SHIM_FILE_ENDS, O_RDWR | O_CLOEXEC);
    uint8_t whole[SHIM_RECORDS_MAX * sizeof(struct shim_record)];
    assert_int_equal(pread(fd, whole, sizeof(whole), 0), sizeof(whole));
    for (size_t at = 0; at < 7 * record; at++) {
        uint8_t spoilt = whole[at] ^ 0x55;
        assert_int_equal(pwrite(fd, &spoilt, 1, (off_t)at), 1);
        assert_int_equal(shim_ends_read(dir_fd, &back), 0);
        assert_int_equal(back.count, at / record);
        assert_true(back.torn);
        assert_int_equal(pwrite(fd, &whole[at], 1, (off_t)at), 1);
    }
    for (size_t size = 0; size < 7 * record; size += 11) {
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        assert_int_equal(shim_ends_read(dir_fd, &back), 0);
        assert_int_equal(back.count, size / record);
        assert_int_equal(pwrite(fd, whole, sizeof(whole), 0), sizeof(whole));
    }
    /* A record of another place in the file (copied, reordered) is foreign. */
    assert_int_equal(pwrite(fd, whole + 5 * record, record, (off_t)(3 * record)), record);
    assert_int_equal(shim_ends_read(dir_fd, &back), 0);
    assert_int_equal(back.count, 3);
    assert_int_equal(close(fd), 0);
}

static void test_begun_only_once(void **state)
{
    struct ends ends;
    struct shim_ends back;
    (void)state;
    assert_int_equal(shim_ends_read(dir_fd, &back), -ENOENT);
    assert_int_equal(ends_open(&ends, dir_fd, 1, 1, 0), 0);
    ends_close(&ends);
    /* Made, but nothing was recorded: not begun. */
    assert_int_equal(shim_ends_read(dir_fd, &back), 0);
    assert_int_equal(back.count, 0);
    assert_false(back.torn);
    assert_int_equal(ends_open(&ends, dir_fd, 1, 1, 0), 0);
    /* Half of a first record: still not begun, and overwritten. */
    assert_int_equal(pwrite(ends.fd, "KSER half", 9, 0), 9);
    ends_close(&ends);
    assert_int_equal(ends_open(&ends, dir_fd, 1, 1, 0), 0);
    append(&ends, SHIM_RECORD_OPEN, 1, 0);
    ends_close(&ends);
    assert_int_equal(ends_open(&ends, dir_fd, 1, 1, 0), -EALREADY);
}

static void test_full(void **state)
{
    struct ends ends;
    struct shim_record record = {.kind = SHIM_RECORD_ORDER};
    (void)state;
    assert_int_equal(ends_open(&ends, dir_fd, 1, 1, 0), 0);
    for (uint32_t i = 0; i < SHIM_RECORDS_MAX; i++) {
        append(&ends, SHIM_RECORD_ORDER, 0, 0);
    }
    assert_int_equal(ends_append(&ends, &record, 1), -ENOSPC);
    ends_close(&ends);
    /* A write that fails leaves the sequence where it was. */
    ends.sequence = 3;
    assert_int_equal(ends_append(&ends, &record, 1), -EBADF);
    assert_int_equal(ends.sequence, 3);
}

static void test_process(void **state)
{
    struct shim_process process;
    (void)state;
    assert_int_equal(shim_record_process(getpid(), &process), 0);
    assert_int_equal(process.pid, getpid());
    assert_int_equal(process.parent, getppid());
    assert_int_equal(process.group, getpgrp());
    assert_int_equal(process.state, 'R');
    assert_int_equal(process.threads, 1);
    assert_true(process.start_ticks > 0);
    assert_int_equal(shim_record_process(1 << 29, &process), -ESRCH);
    assert_true(shim_record_boot_hash() != 0);
}

static void test_alive(void **state)
{
    int ready[2];
    int32_t pid = 0;
    char byte;
    (void)state;
    assert_int_equal(shim_alive(dir_fd, &pid), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = openat(dir_fd, SHIM_FILE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fcntl(fd, F_SETLK, &lock) != 0 || write(ready[1], "x", 1) != 1) {
            _exit(1);
        }
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(shim_alive(dir_fd, &pid), 1);
    assert_int_equal(pid, child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(shim_alive(dir_fd, &pid), 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

/* Client and server of the frames, in one process. */
static void test_frames(void **state)
{
    struct server server;
    struct shim_request request;
    struct shim_status status = {.magic = SHIM_WIRE_MAGIC, .size = sizeof(status), .job = 4};
    struct shim_status back;
    struct shim_buffer buffer = {0};
    int fd = -1;
    (void)state;
    assert_int_equal(shim_connect(dir_fd, &fd), -ENOENT);
    assert_int_equal(server_open(&server, dir_fd), 0);
    assert_int_equal(shim_connect(dir_fd, &fd), 0);
    server_accept(&server);
    assert_int_equal(shim_receive(fd, &buffer, &back), 0);
    assert_int_equal(shim_send(fd, SHIM_TERM, 99), 0);
    assert_int_equal(server_read(&server.clients[0], &request), 1);
    assert_int_equal(request.op, SHIM_TERM);
    assert_int_equal(server_read(&server.clients[0], &request), 0);
    server_send(&server.clients[0], &status, request.nonce, -EIO);
    server.clients[0].subscribed = true;
    server_publish(&server, &status);
    assert_int_equal(shim_receive(fd, &buffer, &back), 1);
    assert_int_equal(back.nonce, 99);
    assert_int_equal(back.error, -EIO);
    assert_int_equal(back.job, 4);
    assert_int_equal(shim_receive(fd, &buffer, &back), 1);
    assert_int_equal(back.nonce, 0);
    assert_int_equal(shim_receive(fd, &buffer, &back), 0);
    /* Garbage from the other side is an error, not a status. */
    status.rank_count = SHIM_RANKS_MAX + 1;
    server_publish(&server, &status);
    assert_int_equal(shim_receive(fd, &buffer, &back), -EBADMSG);
    status.rank_count = 1;
    status.ranks[0].state = 77;
    server_publish(&server, &status);
    assert_int_equal(shim_receive(fd, &buffer, &back), -EBADMSG);
    server_close(&server, dir_fd);
    assert_int_equal(shim_receive(fd, &buffer, &back), -ECONNRESET);
    assert_int_equal(close(fd), 0);
    assert_int_equal(shim_connect(dir_fd, &fd), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fold, setup, teardown),
        cmocka_unit_test_setup_teardown(test_torn_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_only_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full, setup, teardown),
        cmocka_unit_test(test_process),
        cmocka_unit_test_setup_teardown(test_alive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frames, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
