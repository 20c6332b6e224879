/* files_test: text read from files, samples drawn from it, files that are whole or not there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/trainer/corpus.h"
#include "agent/trainer/durable.h"
#include "tests/lib/test.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/keepstep-files-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    DIR *entries = opendir(folder);
    for (struct dirent *entry = entries == NULL ? NULL : readdir(entries); entry != NULL;
         entry = readdir(entries)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(entries), entry->d_name, 0) != 0) {
            (void)unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
        }
    }
    (void)closedir(entries);
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static size_t count_entries(void)
{
    size_t count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries) != NULL) {
        count++;
    }
    (void)closedir(entries);
    return count - 2; /* without . and .. */
}

/* ---- corpus --------------------------------------------------------------------------------- */

static void a_folder_is_its_files_in_order(void **state)
{
    (void)state;
    struct corpus corpus;
    struct fail fail;
    const char *const paths[] = {folder};
    put("b", "second");
    put("a", "first ");
    assert_int_equal(mkdir(path_of("c"), 0700), 0);
    assert_int_equal(symlink("a", path_of("d")), 0);
    assert_int_equal(corpus_load(&corpus, paths, 1, 4, &fail), 0);
    assert_int_equal(corpus.size, 12);
    assert_memory_equal(corpus.text, "first second", 12);
    corpus_done(&corpus);
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    struct corpus corpus;
    struct fail fail;
    char missing[256];
    char empty[256];
    char small[256];
    (void)snprintf(missing, sizeof(missing), "%s/missing", folder);
    (void)snprintf(empty, sizeof(empty), "%s/empty", folder);
    (void)snprintf(small, sizeof(small), "%s/small", folder);
    put("empty", "");
    put("small", "abc");
    const struct {
        const char *path;
        int exit_code;
        const char *said;
    } cases[] = {
        {missing, EXIT_LOCAL, "missing': No such file"},
        {empty, EXIT_BAD_CONFIG, "empty' holds no bytes"},
        {small, EXIT_BAD_CONFIG, "3 bytes in all, but one sample needs 9"},
        {"/dev/null", EXIT_BAD_CONFIG, "neither file nor folder"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(corpus_load(&corpus, &cases[i].path, 1, 9, &fail) < 0);
        assert_int_equal(fail.exit_code, cases[i].exit_code);
        assert_non_null(strstr(fail.text, cases[i].said));
        corpus_done(&corpus);
    }
}

static void samples_depend_on_seed_step_and_place_alone(void **state)
{
    (void)state;
    uint8_t text[4096];
    uint8_t a[16];
    uint8_t b[16];
    size_t different = 0;
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (uint8_t)(i * 7 + i / 256);
    }
    const struct corpus corpus = {.text = text, .size = sizeof(text)};
    for (uint32_t sample = 0; sample < 100; sample++) {
        corpus_sample(&corpus, 1, RANDOM_DATA, 5, sample, sizeof(a), a);
        corpus_sample(&corpus, 1, RANDOM_DATA, 5, sample, sizeof(b), b);
        assert_memory_equal(a, b, sizeof(a));
        assert_non_null(memmem(text, sizeof(text), a, sizeof(a)));
        corpus_sample(&corpus, 2, RANDOM_DATA, 5, sample, sizeof(b), b);
        different += memcmp(a, b, sizeof(a)) != 0 ? 1 : 0;
        corpus_sample(&corpus, 1, RANDOM_DATA, 6, sample, sizeof(b), b);
        different += memcmp(a, b, sizeof(a)) != 0 ? 1 : 0;
        corpus_sample(&corpus, 1, RANDOM_EVAL, 5, sample, sizeof(b), b);
        different += memcmp(a, b, sizeof(a)) != 0 ? 1 : 0;
    }
    assert_true(different > 290);
    /* A text of exactly one sample is enough. */
    const struct corpus smallest = {.text = text, .size = sizeof(a)};
    corpus_sample(&smallest, 1, RANDOM_DATA, 1, 0, sizeof(a), a);
    assert_memory_equal(a, text, sizeof(a));
}

/* ---- durable -------------------------------------------------------------------------------- */

static void a_file_is_written_once(void **state)
{
    (void)state;
    struct fail fail;
    struct durable_file file;
    char hash[DURABLE_HASH_SIZE];
    const struct durable_part parts[] = {{"hello ", 6}, {"world", 5}};
    const int fd = open(folder, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_int_equal(durable_write(fd, "f", parts, 2, false, folder, &fail, &file), 0);
    assert_int_equal(file.size, 11);
    durable_hash("hello world", 11, hash);
    assert_string_equal(file.hash, hash);
    assert_string_equal(hash, "df8d09e93f874900a99b8775cc15b6c7"); /* as xxhsum -H2 prints it */
    const struct durable_part other = {"other", 5};
    assert_int_equal(durable_write(fd, "f", &other, 1, false, folder, &fail, &file), -EEXIST);
    assert_int_equal(fail.exit_code, EXIT_LOCAL);
    char content[12] = {0};
    const int again = openat(fd, "f", O_RDONLY);
    assert_int_equal(read(again, content, sizeof(content)), 11);
    assert_string_equal(content, "hello world");
    (void)close(again);
    assert_int_equal(count_entries(), 1); /* no temporary name is left */
    assert_int_equal(durable_write(fd, "f", &other, 1, true, folder, &fail, &file), 0);
    assert_int_equal(count_entries(), 1);
    (void)close(fd);
}

static void a_failed_write_leaves_nothing(void **state)
{
    (void)state;
    static char large[100000];
    struct fail fail;
    struct durable_file file;
    struct rlimit before;
    const struct durable_part part = {large, sizeof(large)};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 10000, .rlim_max = before.rlim_max};
    const int fd = open(folder, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int code = durable_write(fd, "f", &part, 1, false, folder, &fail, &file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, -EFBIG);
    assert_non_null(strstr(fail.text, "cannot write 'f'"));
    assert_int_equal(count_entries(), 0);
    (void)close(fd);
}

static void folders_may_be_there(void **state)
{
    (void)state;
    struct fail fail;
    assert_int_equal(durable_make_folder(path_of("x"), &fail), 0);
    assert_int_equal(durable_make_folder(path_of("x"), &fail), 0);
    put("file", "x");
    assert_true(durable_make_folder(path_of("file/y"), &fail) < 0);
    assert_true(durable_make_folder(path_of("missing/y"), &fail) < 0);
    assert_int_equal(fail.exit_code, EXIT_LOCAL);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_folder_is_its_files_in_order),
        IN_FOLDER(bad_texts_are_refused),
        IN_FOLDER(samples_depend_on_seed_step_and_place_alone),
        IN_FOLDER(a_file_is_written_once),
        IN_FOLDER(a_failed_write_leaves_nothing),
        IN_FOLDER(folders_may_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
