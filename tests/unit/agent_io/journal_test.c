/* journal_test.c: what is written is read; a torn end is cut off, damage is refused, a failed append
 * leaves nothing, two agents never share a folder. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/io/journal.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum { RECORDS_MAX = 64 };

struct kept {
    size_t count;
    struct agent_record records[RECORDS_MAX];
};

static int keep(const struct agent_record *record, void *context)
{
    struct kept *kept = context;
    assert_true(kept->count < RECORDS_MAX);
    kept->records[kept->count++] = *record;
    return 0;
}

static int setup(void **state)
{
    char *dir = malloc(64);
    (void)text_copy(dir, 64, "/tmp/keepstep-journal.XXXXXX");
    *state = mkdtemp(dir);
    return *state != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"agent.journal", "agent.journal.new", "agent.lock"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[128];
        (void)text_format(path, sizeof(path), "%s/%s", (const char *)*state, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(*state);
    free(*state);
    return 0;
}

static struct agent_journal *open_journal(const char *dir, struct kept *kept, int *ret_result)
{
    struct agent_journal *journal = NULL;
    struct err err = {0};
    memset(kept, 0, sizeof(*kept));
    assert_int_equal(agent_journal_open(dir, &journal, &err), 0);
    *ret_result = agent_journal_replay(journal, keep, kept, &err);
    return journal;
}

static struct agent_record some(uint32_t attempt)
{
    struct agent_record record = {.kind = AGENT_RECORD_ORDER,
                                  .wall_ms = 1700000000000,
                                  .number = UINT64_MAX,
                                  .job = 3,
                                  .attempt = attempt,
                                  .first_rank = 8,
                                  .rank_count = 4};
    (void)text_copy(record.name, sizeof(record.name), "llama-405b");
    (void)text_copy(record.text, sizeof(record.text), "why: 100 %, \xc3\xbc, -, \ttab");
    return record;
}

static void assert_same(const struct agent_record *a, const struct agent_record *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(a->wall_ms == b->wall_ms && a->number == b->number);
    assert_int_equal(a->job, b->job);
    assert_int_equal(a->attempt, b->attempt);
    assert_int_equal(a->first_rank, b->first_rank);
    assert_int_equal(a->rank_count, b->rank_count);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->text, b->text);
}

static void write_three(const char *dir)
{
    struct kept kept;
    struct err err = {0};
    int result = 0;
    struct agent_journal *journal = open_journal(dir, &kept, &result);
    const struct agent_record records[3] = {some(0), some(1), some(2)};
    assert_int_equal(result, 0);
    assert_int_equal(agent_journal_append(journal, records, 2, &err), 0);
    assert_int_equal(agent_journal_append(journal, &records[2], 1, &err), 0);
    assert_int_equal(agent_journal_lines(journal), 3);
    (void)agent_journal_free(journal);
}

static off_t file_size(const char *dir)
{
    char path[128];
    struct stat status;
    (void)text_format(path, sizeof(path), "%s/agent.journal", dir);
    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

static void test_round_trip(void **state)
{
    struct kept kept;
    int result = 0;
    write_three(*state);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(result, 0);
    assert_int_equal(kept.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct agent_record expected = some(i);
        assert_same(&kept.records[i], &expected);
    }
}

static void test_every_kind_and_odd_text(void **state)
{
    static const char *const texts[] = {"", "-", "%", "%2d", " ", "a b", "\x01\x7f\xff"};
    (void)state;
    for (uint8_t kind = 1; agent_record_word(kind) != NULL; kind++) {
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
            char line[AGENT_JOURNAL_LINE_MAX];
            struct agent_record record = some(i == 0 ? UINT32_MAX : 0);
            struct agent_record back;
            record.kind = kind;
            (void)text_copy(record.name, sizeof(record.name), texts[i]);
            (void)text_copy(record.text, sizeof(record.text), texts[i]);
            assert_true(agent_journal_format(&record, line));
            assert_int_equal(agent_journal_parse(line, strlen(line), &back), 0);
            assert_same(&record, &back);
        }
    }
}

/* Cut anywhere: what was whole stays, the rest is gone, and writing goes on. */
static void test_torn_at_every_byte(void **state)
{
    write_three(*state);
    const off_t whole = file_size(*state);
    char path[128];
    (void)text_format(path, sizeof(path), "%s/agent.journal", (const char *)*state);
    size_t fewest = 3;
    for (off_t cut = whole - 1; cut >= 0; cut--) {
        struct kept kept;
        struct err err = {0};
        int result = 0;
        assert_int_equal(truncate(path, cut), 0);
        struct agent_journal *journal = open_journal(*state, &kept, &result);
        assert_int_equal(result, 0);
        assert_true(kept.count <= fewest && kept.count + 1 >= fewest);
        fewest = kept.count;
        const struct agent_record record = some(9);
        assert_int_equal(agent_journal_append(journal, &record, 1, &err), 0);
        (void)agent_journal_free(journal);
        (void)agent_journal_free(open_journal(*state, &kept, &result));
        assert_int_equal(result, 0);
        assert_int_equal(kept.count, fewest + 1);
        assert_int_equal(kept.records[fewest].attempt, 9);
        assert_int_equal(truncate(path, cut), 0);
    }
    assert_int_equal(fewest, 0);
}

static void flip(const char *dir, off_t at)
{
    char path[128];
    char byte = 0;
    (void)text_format(path, sizeof(path), "%s/agent.journal", dir);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

static void test_damage_in_the_middle(void **state)
{
    struct kept kept;
    int result = 0;
    write_three(*state);
    flip(*state, 60); /* in the first record: good ones follow */
    const off_t before = file_size(*state);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(result, -EBADMSG);
    assert_int_equal(file_size(*state), before); /* nothing was cut off */
}

static void test_another_format(void **state)
{
    struct kept kept;
    int result = 0;
    write_three(*state);
    flip(*state, 3);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(result, -EBADMSG);
}

static void test_full_disk(void **state)
{
    struct kept kept;
    struct err err = {0};
    struct rlimit limit;
    int result = 0;
    write_three(*state);
    struct agent_journal *journal = open_journal(*state, &kept, &result);
    const struct agent_record record = some(4);
    const off_t before = file_size(*state);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit small = {.rlim_cur = (rlim_t)before + 10, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int failed = agent_journal_append(journal, &record, 1, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(failed < 0);
    assert_int_equal(file_size(*state), before);
    assert_int_equal(agent_journal_append(journal, &record, 1, &err), 0);
    (void)agent_journal_free(journal);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(kept.count, 4);
}

static void test_rewrite(void **state)
{
    struct kept kept;
    struct err err = {0};
    int result = 0;
    write_three(*state);
    struct agent_journal *journal = open_journal(*state, &kept, &result);
    const struct agent_record records[2] = {some(7), some(8)};
    bool replaced = false;
    assert_int_equal(agent_journal_rewrite(journal, records, 1, &replaced, &err), 0);
    assert_true(replaced);
    assert_int_equal(agent_journal_append(journal, &records[1], 1, &err), 0);
    (void)agent_journal_free(journal);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.records[0].attempt, 7);
    assert_int_equal(kept.records[1].attempt, 8);
}

/* No descriptor for the second file: the first one is as before and goes on. */
static void test_rewrite_without_descriptors(void **state)
{
    struct kept kept;
    struct err err = {0};
    struct rlimit limit;
    int result = 0;
    bool replaced = true;
    write_three(*state);
    struct agent_journal *journal = open_journal(*state, &kept, &result);
    const struct agent_record record = some(4);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int failed = agent_journal_rewrite(journal, &record, 1, &replaced, &err);
    const int appended = agent_journal_append(journal, &record, 1, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(failed, -EMFILE);
    assert_non_null(strstr(err.text, "cannot be rewritten"));
    assert_false(replaced);
    assert_int_equal(appended, 0);
    (void)agent_journal_free(journal);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(kept.count, 4);
}

static void test_one_agent_a_folder(void **state)
{
    struct kept kept;
    struct err err = {0};
    int result = 0;
    struct agent_journal *second = NULL;
    struct agent_journal *first = open_journal(*state, &kept, &result);
    assert_int_equal(agent_journal_open(*state, &second, &err), -EBUSY);
    (void)agent_journal_free(first);
    assert_int_equal(agent_journal_open(*state, &second, &err), 0);
    (void)agent_journal_free(second);
}

static int crash(const char *dir, bool before, uint64_t at)
{
    const pid_t pid = fork();
    if (pid == 0) {
        struct kept kept;
        struct err err = {0};
        int result = 0;
        struct agent_journal *journal = open_journal(dir, &kept, &result);
        const struct agent_record records[3] = {some(0), some(1), some(2)};
        agent_journal_crash_at(journal, before, at);
        (void)!agent_journal_append(journal, records, 3, &err);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_crash_points(void **state)
{
    struct kept kept;
    int result = 0;
    assert_int_equal(crash(*state, true, 2), SIGKILL);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(kept.count, 1);
    assert_int_equal(crash(*state, false, 2), SIGKILL);
    (void)agent_journal_free(open_journal(*state, &kept, &result));
    assert_int_equal(kept.count, 3);
    assert_int_equal(crash(*state, true, 4), 0);
}

#define T(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_round_trip),
        T(test_every_kind_and_odd_text),
        T(test_torn_at_every_byte),
        T(test_damage_in_the_middle),
        T(test_another_format),
        T(test_full_disk),
        T(test_rewrite),
        T(test_rewrite_without_descriptors),
        T(test_one_agent_a_folder),
        T(test_crash_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
