/* launch_test.c: the launch file: everything comes back as it was, and nothing else gets in. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/shim/record.h"
#include "agent/shim/shim.h"

static const char *const argv_items[] = {"/bin/prog", "", "b\xff\x01 \n", "--x=1"};
static const char *const env_items[] = {"A=1", "B=", "PATH=/bin"};
static const char *const own_items[] = {"RANK=3"};

static void launch_make(struct shim_launch *ret_launch)
{
    *ret_launch = (struct shim_launch){
        .job = 12,
        .attempt = 4,
        .cookie = "00112233445566778899aabbccddeeff",
        .uid = 1000,
        .gid = 1001,
        .group_count = 2,
        .groups = {5, 70000},
        .umask = 022,
        .core_bytes = UINT64_MAX,
        .workdir = "/home/u",
        .cgroup = "/sys/fs/cgroup/keepstep/a..b",
        .env = {3, env_items},
        .rank_count = 2,
    };
    for (uint32_t i = 0; i < 2; i++) {
        ret_launch->ranks[i].rank = 6 + i;
        ret_launch->ranks[i].argv = (struct shim_list){4, argv_items};
        ret_launch->ranks[i].env = (struct shim_list){i, own_items};
        ret_launch->ranks[i].output = i == 0 ? "" : "logs/r";
    }
}

static void list_check(const struct shim_list *list, const struct shim_list *expected)
{
    assert_int_equal(list->count, expected->count);
    for (uint32_t i = 0; i < list->count; i++) {
        assert_string_equal(list->items[i], expected->items[i]);
    }
    assert_null(list->items[list->count]);
}

static void launch_same(const struct shim_launch *launch, const struct shim_launch *expected)
{
    assert_int_equal(launch->job, expected->job);
    assert_int_equal(launch->attempt, expected->attempt);
    assert_string_equal(launch->cookie, expected->cookie);
    assert_int_equal(launch->uid, expected->uid);
    assert_int_equal(launch->gid, expected->gid);
    assert_int_equal(launch->group_count, expected->group_count);
    assert_memory_equal(launch->groups, expected->groups, sizeof(launch->groups));
    assert_int_equal(launch->allow_root, expected->allow_root);
    assert_int_equal(launch->umask, expected->umask);
    assert_true(launch->core_bytes == expected->core_bytes);
    assert_string_equal(launch->workdir, expected->workdir);
    assert_string_equal(launch->cgroup, expected->cgroup);
    list_check(&launch->env, &expected->env);
    assert_int_equal(launch->rank_count, expected->rank_count);
    for (uint32_t i = 0; i < launch->rank_count; i++) {
        assert_int_equal(launch->ranks[i].rank, expected->ranks[i].rank);
        list_check(&launch->ranks[i].argv, &expected->ranks[i].argv);
        list_check(&launch->ranks[i].env, &expected->ranks[i].env);
        assert_string_equal(launch->ranks[i].output, expected->ranks[i].output);
    }
}

static void test_round_trip(void **state)
{
    struct shim_launch launch;
    struct shim_launch back;
    uint8_t *bytes;
    size_t size;
    void *memory;
    (void)state;

    launch_make(&launch);
    assert_int_equal(shim_launch_encode(&launch, &bytes, &size), 0);
    assert_int_equal(shim_launch_decode(bytes, size, &back, &memory), 0);
    launch_same(&back, &launch);
    free(memory);
    free(bytes);
}

static void test_rules(void **state)
{
    static const char *const no_equals[] = {"A"};
    static const char *const no_key[] = {"=A"};
    static const char *const cookie[] = {"KEEPSTEP_COOKIE=1"};
    static const char *const no_name[] = {""};
    static const char *const cookie_like[] = {"KEEPSTEP_COOKIES=1"};
    struct shim_launch good;
    uint8_t *bytes;
    size_t size;
    (void)state;
    launch_make(&good);

#define REFUSED(change)                                                                            \
    do {                                                                                           \
        struct shim_launch launch = good;                                                          \
        change;                                                                                    \
        assert_int_equal(shim_launch_encode(&launch, &bytes, &size), -EINVAL);                     \
    } while (0)
    REFUSED(launch.cookie[3] = 'G');
    REFUSED(launch.cookie[31] = '\0');
    REFUSED(launch.uid = 0);
    REFUSED(launch.uid = UINT32_MAX);
    REFUSED(launch.gid = UINT32_MAX);
    REFUSED(launch.umask = 01000);
    REFUSED(launch.group_count = SHIM_GROUPS_MAX + 1);
    REFUSED(launch.workdir = "home");
    REFUSED(launch.workdir = "");
    REFUSED(launch.workdir = NULL);
    REFUSED(launch.cgroup = "sys");
    REFUSED(launch.cgroup = "/sys/..");
    REFUSED(launch.cgroup = "/../etc");
    REFUSED(launch.rank_count = 0);
    REFUSED(launch.rank_count = SHIM_RANKS_MAX + 1);
    REFUSED(launch.ranks[1].rank = launch.ranks[0].rank);
    REFUSED(launch.ranks[1].argv.count = 0);
    REFUSED(launch.ranks[1].argv = ((struct shim_list){1, no_name}));
    REFUSED(launch.ranks[1].argv.count = SHIM_LIST_MAX + 1);
    REFUSED(launch.env = ((struct shim_list){1, no_equals}));
    REFUSED(launch.env = ((struct shim_list){1, no_key}));
    REFUSED(launch.ranks[0].env = ((struct shim_list){1, cookie}));
#undef REFUSED
    good.ranks[0].env = (struct shim_list){1, cookie_like};
    good.uid = 0;
    good.allow_root = true;
    assert_int_equal(shim_launch_encode(&good, &bytes, &size), 0);
    free(bytes);
}

static void test_limits_of_size(void **state)
{
    struct shim_launch launch;
    uint8_t *bytes;
    size_t size;
    (void)state;
    launch_make(&launch);

    char *text = malloc(SHIM_TEXT_MAX + 2);
    assert_non_null(text);
    memset(text, 'x', SHIM_TEXT_MAX + 1);
    text[0] = 'K';
    text[1] = '=';
    text[SHIM_TEXT_MAX + 1] = '\0';
    const char *items[40];
    for (size_t i = 0; i < 40; i++) {
        items[i] = text;
    }
    launch.env = (struct shim_list){1, items};
    assert_int_equal(shim_launch_encode(&launch, &bytes, &size), -EINVAL);
    text[SHIM_TEXT_MAX] = '\0';
    assert_int_equal(shim_launch_encode(&launch, &bytes, &size), 0);
    free(bytes);
    launch.env.count = 40; /* each fits, all of them do not */
    assert_int_equal(shim_launch_encode(&launch, &bytes, &size), -EINVAL);
    free(text);
}

/* Every cut and every changed byte is noticed; with the checksum put right again it may decode or
 * not, but never reads outside (the sanitizers watch). */
static void test_garbage(void **state)
{
    struct shim_launch launch;
    struct shim_launch back;
    uint8_t *bytes;
    size_t size;
    void *memory;
    (void)state;
    launch_make(&launch);
    assert_int_equal(shim_launch_encode(&launch, &bytes, &size), 0);

    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *part = malloc(cut == 0 ? 1 : cut); /* its own, so that reading past is seen */
        assert_non_null(part);
        memcpy(part, bytes, cut);
        assert_int_equal(shim_launch_decode(part, cut, &back, &memory), -EBADMSG);
        free(part);
    }
    for (size_t at = 0; at < size; at++) {
        bytes[at] ^= 0x40;
        assert_int_equal(shim_launch_decode(bytes, size, &back, &memory),
                         at >= 8 && at < 12 ? -EPROTO : -EBADMSG);
        bytes[at] ^= 0x40;
    }
    for (size_t at = 24; at < size; at++) {
        for (uint32_t value = 0; value < 256; value += 17) {
            uint8_t old = bytes[at];
            bytes[at] = (uint8_t)value;
            uint64_t checksum = shim_record_checksum(bytes + 24, size - 24);
            memcpy(bytes + 16, &checksum, 8);
            int result = shim_launch_decode(bytes, size, &back, &memory);
            if (result == 0) {
                free(memory);
            } else {
                assert_true(result == -EBADMSG || result == -EINVAL);
            }
            bytes[at] = old;
        }
    }
    free(bytes);
}

static void test_file(void **state)
{
    char folder[] = "/tmp/launch-test-XXXXXX";
    struct shim_launch launch;
    struct shim_launch back;
    void *memory;
    (void)state;
    launch_make(&launch);
    assert_non_null(mkdtemp(folder));
    int dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir_fd >= 0);

    assert_int_equal(shim_launch_read(dir_fd, &back, &memory), -ENOENT);
    assert_int_equal(shim_launch_write(dir_fd, &launch), 0);
    assert_int_equal(shim_launch_write(dir_fd, &launch), 0);
    assert_int_equal(shim_launch_read(dir_fd, &back, &memory), 0);
    launch_same(&back, &launch);
    free(memory);

    /* An attempt's parameters never change. */
    launch.umask = 077;
    assert_int_equal(shim_launch_write(dir_fd, &launch), -EEXIST);
    assert_int_equal(faccessat(dir_fd, "launch.tmp", F_OK, 0), -1);
    struct stat info;
    assert_int_equal(fstatat(dir_fd, SHIM_FILE_LAUNCH, &info, 0), 0);
    assert_int_equal(info.st_mode & 0777, 0600);

    /* What an agent left that died while it wrote is in nobody's way. */
    assert_int_equal(unlinkat(dir_fd, SHIM_FILE_LAUNCH, 0), 0);
    int fd = openat(dir_fd, "launch.tmp", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 100000), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(shim_launch_write(dir_fd, &launch), 0);
    assert_int_equal(shim_launch_read(dir_fd, &back, &memory), 0);
    free(memory);

    /* A link and a folder are no launch files. */
    assert_int_equal(unlinkat(dir_fd, SHIM_FILE_LAUNCH, 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", dir_fd, SHIM_FILE_LAUNCH), 0);
    assert_int_equal(shim_launch_read(dir_fd, &back, &memory), -ELOOP);
    assert_int_equal(unlinkat(dir_fd, SHIM_FILE_LAUNCH, 0), 0);
    assert_int_equal(mkdirat(dir_fd, SHIM_FILE_LAUNCH, 0700), 0);
    assert_int_equal(shim_launch_read(dir_fd, &back, &memory), -EBADMSG);
    assert_int_equal(unlinkat(dir_fd, SHIM_FILE_LAUNCH, AT_REMOVEDIR), 0);
    assert_int_equal(close(dir_fd), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_rules),
        cmocka_unit_test(test_limits_of_size), cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
