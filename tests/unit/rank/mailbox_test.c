/* mailbox_test.c: what an agent reads from a rank that is hostile, torn or truncated. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "proto/base/prng.h"
#include "tests/unit/rank/rank_rig.h"

static void put_bytes(const struct rank_rig *rig, size_t offset, const void *data, size_t size)
{
    assert_int_equal(pwrite(rig->fd, data, size, (off_t)offset), size);
}

static void test_made_once_and_private(void **state)
{
    struct rank_rig rig;
    struct mailbox_order order;
    struct stat info;
    int fd = -1;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    rank_rig_order(&order, 0, 3);
    assert_int_equal(mailbox_create(rig.dir_fd, "0", getuid(), getgid(), 1, &order, 0, &fd),
                     -EEXIST);
    assert_int_equal(fstat(rig.fd, &info), 0);
    assert_int_equal(info.st_size, sizeof(struct mailbox_file));
    assert_true(info.st_blocks * 512 >= info.st_size); /* all of it is there */
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(mailbox_open(rig.dir_fd, "0", &fd), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(mailbox_open(rig.dir_fd, "1", &fd), -ENOENT);
    assert_int_equal(symlinkat("0", rig.dir_fd, "link"), 0);
    assert_int_equal(mailbox_open(rig.dir_fd, "link", &fd), -ELOOP);
    assert_int_equal(unlinkat(rig.dir_fd, "link", 0), 0);
    assert_int_equal(mkfifoat(rig.dir_fd, "pipe", 0600), 0);
    assert_int_equal(mailbox_open(rig.dir_fd, "pipe", &fd), -EBADMSG);
    assert_int_equal(unlinkat(rig.dir_fd, "pipe", 0), 0);
    /* An agent died while it made one: no header yet. */
    uint64_t none = 0;
    put_bytes(&rig, 0, &none, sizeof(none));
    assert_int_equal(mailbox_open(rig.dir_fd, "0", &fd), -EBADMSG);
    if (geteuid() == 0) {
        assert_int_equal(mailbox_create(rig.dir_fd, "other", 65534, 65534, 1, &order, 0, &fd), 0);
        assert_int_equal(fstat(fd, &info), 0);
        assert_int_equal(info.st_uid, 65534);
        assert_int_equal(close(fd), 0);
        assert_int_equal(unlinkat(rig.dir_fd, "other", 0), 0);
    }
    rank_rig_end(&rig);
}

static void test_truncated(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    struct mailbox_request request;
    struct mailbox_put put;
    struct mailbox_get get;
    uint32_t cursor = 0;
    int fd = -1;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    assert_int_equal(ftruncate(rig.fd, 5000), 0);
    assert_int_equal(mailbox_read(rig.fd, 1, &view), -ENODATA);
    assert_false(view.valid);
    assert_int_equal(mailbox_next_request(rig.fd, &cursor, &request), -ENODATA);
    cursor = 0;
    assert_int_equal(mailbox_next_put(rig.fd, &cursor, &put), -ENODATA);
    cursor = 0;
    assert_int_equal(mailbox_next_get(rig.fd, &cursor, &get), -ENODATA);
    assert_int_equal(mailbox_value_write(rig.fd, 17, 0, "x", 1), -ENODATA);
    assert_int_equal(mailbox_open(rig.dir_fd, "0", &fd), -ENODATA);
    assert_int_equal(ftruncate(rig.fd, 0), 0);
    assert_int_equal(mailbox_wake(rig.fd, rig.map), -ENODATA);
    assert_int_equal(mailbox_order_write(rig.fd, &(struct mailbox_order){0}), -ENODATA);
    rank_rig_end(&rig);
}

static void test_hostile_status(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    struct mailbox_status status = {0};
    const size_t offset = offsetof(struct mailbox_file, status);
    (void)state;
    rank_rig_begin(&rig, 0, 0);

    status.phase = MAILBOX_PHASE_COUNT;
    put_bytes(&rig, offset, &status, sizeof(status));
    assert_int_equal(mailbox_read(rig.fd, 1000, &view), -EBADMSG);
    assert_false(view.valid);
    status.phase = 0;
    status.step_completed = UINT64_MAX;
    put_bytes(&rig, offset, &status, sizeof(status));
    assert_int_equal(mailbox_read(rig.fd, 1000, &view), -EBADMSG);
    status.step_completed = 0;
    status.step_count = UINT64_MAX;
    put_bytes(&rig, offset, &status, sizeof(status));
    assert_int_equal(mailbox_read(rig.fd, 1000, &view), -EBADMSG);

    /* Times in the future are now; a ring that is all lies is still a ring. */
    status.step_count = MAILBOX_STEP_MAX;
    status.phase_since_ms = UINT64_MAX;
    memset(status.ring, 0xff, sizeof(status.ring));
    put_bytes(&rig, offset, &status, sizeof(status));
    assert_int_equal(mailbox_read(rig.fd, 1000, &view), 0);
    assert_int_equal(view.changed_ms, 1000);
    assert_int_equal(view.steps_held, MAILBOX_STEPS);
    assert_int_equal(view.step_ms, UINT32_MAX / 1000);

    status.lock = 3;
    status.phase = MAILBOX_PHASE_EVAL;
    put_bytes(&rig, offset, &status, sizeof(status));
    assert_int_equal(mailbox_read(rig.fd, 1000, &view), 0);
    assert_true(view.torn);
    assert_int_equal(view.phase, MAILBOX_PHASE_INIT);
    rank_rig_end(&rig);
}

static void request_put(const struct rank_rig *rig, struct mailbox_request request, uint32_t slot)
{
    request.checksum = mailbox_checksum(&request, offsetof(struct mailbox_request, checksum));
    put_bytes(rig, offsetof(struct mailbox_file, requests) + slot * sizeof(request), &request,
              sizeof(request));
}

static void test_hostile_requests(void **state)
{
    struct rank_rig rig;
    struct mailbox_request good = {
        .number = 5, .kind = MAILBOX_SHARD, .step = 3, .path = "/data/\xc3\xa4"};
    struct mailbox_request back;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    request_put(&rig, good, 5);
    rank_rig_request(&rig, &back);
    assert_int_equal(back.number, 5);

#define REFUSED(change)                                                                            \
    do {                                                                                           \
        struct mailbox_request bad = good;                                                         \
        change;                                                                                    \
        request_put(&rig, bad, 5);                                                                 \
        assert_int_equal(rank_rig_requests(&rig), 0);                                              \
    } while (0)
    REFUSED(bad.number = 6);
    REFUSED(bad.number = 0);
    REFUSED(bad.kind = 0);
    REFUSED(bad.kind = MAILBOX_COMMIT + 1);
    REFUSED(bad.step = 0);
    REFUSED(bad.step = UINT64_MAX);
    REFUSED(bad.path[0] = 'x');
    REFUSED(bad.path[0] = '\0');
    REFUSED(bad.path[3] = '\n');
    REFUSED(bad.path[3] = '\x7f');
    REFUSED(bad.path[7] = '\0'); /* half a character */
    REFUSED(memset(bad.path, '/', sizeof(bad.path)));
    REFUSED(memset(bad.hash, 'a', sizeof(bad.hash)));
    REFUSED(bad.hash[0] = 'a');
    REFUSED(memcpy(bad.path, "/\xed\xa0\x80", 5)); /* a surrogate */
    REFUSED(memcpy(bad.path, "/\xc0\xaf", 4));     /* overlong */
    REFUSED(memcpy(bad.path, "/\xf5\x80\x80\x80", 6));
#undef REFUSED
    /* A torn one: the checksum does not fit. */
    request_put(&rig, good, 5);
    put_bytes(&rig, offsetof(struct mailbox_file, requests) + 5 * sizeof(good) + 40, "X", 1);
    assert_int_equal(rank_rig_requests(&rig), 0);
    rank_rig_end(&rig);
}

/* Random bytes in the rank's whole part: nothing but clean answers or clean errors. */
static void test_random_bytes(void **state)
{
    static struct mailbox_file noise;
    static struct mailbox_put put;
    struct rank_rig rig;
    struct prng prng;
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    prng_seed(&prng, 7);
    const size_t begin = offsetof(struct mailbox_file, status);
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t *words = (uint64_t *)&noise;
        for (size_t i = 0; i < sizeof(noise) / 8; i++) {
            words[i] = prng_next(&prng);
        }
        noise.status.lock &= ~(uint64_t)1;
        noise.status.phase = round % MAILBOX_PHASE_COUNT;
        put_bytes(&rig, begin, (const uint8_t *)&noise + begin, sizeof(noise) - begin);
        struct mailbox_view view = {0};
        int result = mailbox_read(rig.fd, 1, &view);
        assert_true(result == 0 || result == -EBADMSG);
        assert_true(view.phase < MAILBOX_PHASE_COUNT && view.steps_held <= MAILBOX_STEPS);
        assert_int_equal(rank_rig_requests(&rig), 0);
        assert_int_equal(rank_rig_gets(&rig), 0);
        assert_int_equal(rank_rig_puts(&rig), 0);
        /* And the library itself starts on it, for the bytes may be of a program that died. */
        assert_int_equal(keepstep_init(), 0);
        assert_int_equal(keepstep_step(1), 0);
        assert_int_equal(keepstep_checkpoint_begin(1, 1), 0);
        assert_int_equal(rank_rig_requests(&rig), 1);
        keepstep_finish();
    }
    /* A whole put whose size is a lie. */
    memset(&put, 0, sizeof(put));
    put.number = 1;
    put.size = MAILBOX_VALUE_MAX + 1;
    put.key[0] = 'k';
    put.checksum = mailbox_checksum(&put, offsetof(struct mailbox_put, checksum));
    put_bytes(&rig, offsetof(struct mailbox_file, puts), &put, sizeof(put));
    assert_int_equal(rank_rig_puts(&rig), 0);
    put.size = 1;
    put.checksum = mailbox_checksum(&put, offsetof(struct mailbox_put, checksum));
    put_bytes(&rig, offsetof(struct mailbox_file, puts), &put, sizeof(put));
    assert_int_equal(rank_rig_puts(&rig), 1);
    rank_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_once_and_private), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_hostile_status),        cmocka_unit_test(test_hostile_requests),
        cmocka_unit_test(test_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
