/* save_list_test.c: every reader on trees that a program, a crash or an enemy may leave. */
#include "agent/io/save_list.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/io/save_check.h"
#include "agent/io/save_line.h"
#include "agent/io/save_manifest.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum { FOUND_MAX = 64 };

struct tree {
    char path[PATH_SIZE / 2];
    uint32_t count;
    uint32_t total;
    struct save_found found[FOUND_MAX];
    struct err err;
};

static int setup(void **state)
{
    struct tree *tree = calloc(1, sizeof(*tree));
    (void)snprintf(tree->path, sizeof(tree->path), "%s/keepstep-saves-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    *state = tree;
    return mkdtemp(tree->path) != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)ftw;
    if (type != FTW_SL && type != FTW_SLN) { /* chmod() would follow the link out of the tree */
        (void)chmod(path, 0700);
    }
    return remove(path);
}

static int teardown(void **state)
{
    struct tree *tree = *state;
    (void)nftw(tree->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(tree);
    return 0;
}

static const char *path_of(const struct tree *tree, const char *name)
{
    static char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s", tree->path, name);
    return path;
}

static void make_folder(const struct tree *tree, const char *name)
{
    assert_int_equal(mkdir(path_of(tree, name), 0755), 0);
}

static void put(const struct tree *tree, const char *name, const char *text)
{
    FILE *file = fopen(path_of(tree, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void keep(void *context, const struct save_found *found)
{
    struct tree *tree = context;
    assert_true(tree->count < FOUND_MAX);
    tree->found[tree->count++] = *found;
}

static int list(struct tree *tree, const char *format)
{
    const struct save_query query = {.format = format,
                                     .directory = tree->path,
                                     .job = "demo",
                                     .marker = "DONE",
                                     .model_parts = 2};
    tree->count = 0;
    tree->err.text[0] = '\0';
    return save_list(&query, keep, tree, &tree->total, &tree->err);
}

static void expect(const struct tree *tree, uint32_t index, uint64_t step, const char *note)
{
    assert_true(index < tree->count);
    assert_int_equal(tree->found[index].step, step);
    if (note[0] == '\0') {
        assert_string_equal(tree->found[index].note, "");
    } else if (strstr(tree->found[index].note, note) == NULL) {
        fail_msg("step %llu: '%s' does not say '%s'", (unsigned long long)step,
                 tree->found[index].note, note);
    }
    assert_int_equal(tree->found[index].complete, note[0] == '\0');
}

/* ---- keepstep ----------------------------------------------------------------------------------- */

#define SHARD      "weights of rank 0"
#define SHARD_HASH "00000000000000000000000000000000"

/* A folder step-S.a-A of this job with one shard; its hash is the real one. */
static void put_keepstep(const struct tree *tree, uint64_t step, uint32_t attempt, const char *job)
{
    char name[64];
    char text[1024];
    char hash[HASH_TEXT_SIZE];
    save_hash(SHARD, strlen(SHARD), hash);
    (void)snprintf(name, sizeof(name), "step-%llu.a-%u", (unsigned long long)step, attempt);
    make_folder(tree, name);
    (void)snprintf(text, sizeof(text),
                   "{\"format\": \"keepstep\", \"version\": 1, \"job\": \"%s\", \"attempt\": %u, "
                   "\"step\": %llu, \"parts\": [\"weights\", \"optimizer\", \"data\", \"rng\"], "
                   "\"shards\": [{\"rank\": 0, \"file\": \"shard-00000.bin\", \"size\": %zu, "
                   "\"hash\": \"%s\"}]}",
                   job, attempt, (unsigned long long)step, strlen(SHARD), hash);
    (void)snprintf(name, sizeof(name), "step-%llu.a-%u/manifest.json", (unsigned long long)step,
                   attempt);
    put(tree, name, text);
    (void)snprintf(name, sizeof(name), "step-%llu.a-%u/shard-00000.bin", (unsigned long long)step,
                   attempt);
    put(tree, name, SHARD);
}

static void test_keepstep(void **state)
{
    struct tree *tree = *state;
    put_keepstep(tree, 10, 0, "demo");
    put_keepstep(tree, 20, 0, "demo");
    put_keepstep(tree, 20, 1, "demo");
    put_keepstep(tree, 30, 1, "other");
    put_keepstep(tree, 40, 1, "demo");
    put(tree, "step-40.a-1/shard-00000.bin", "cut");
    put_keepstep(tree, 50, 1, "demo");
    assert_int_equal(unlink(path_of(tree, "step-50.a-1/shard-00000.bin")), 0);
    make_folder(tree, "step-60.a-1");
    put_keepstep(tree, 70, 1, "demo");
    put(tree, "step-70.a-1/manifest.json", "{\"format\": \"keepst");
    put(tree, "step-80.a-1", "no folder");
    make_folder(tree, "step-x.a-1");
    make_folder(tree, "step-90");
    assert_int_equal(list(tree, "keepstep"), 0);
    assert_int_equal(tree->count, 8);
    assert_int_equal(tree->total, 9);
    expect(tree, 0, 70, "it is cut off");
    expect(tree, 1, 60, "it has no manifest.json");
    expect(tree, 2, 50, "shard-00000.bin: it is missing");
    expect(tree, 3, 40, "shard-00000.bin has 3 bytes, the manifest says 17");
    expect(tree, 4, 30, "it is of another job, 'other'");
    expect(tree, 5, 20, "");
    assert_int_equal(tree->found[5].attempt, 1);
    assert_int_equal(tree->found[5].parts, PART_WEIGHTS | PART_OPTIMIZER | PART_DATA | PART_RNG);
    assert_int_equal(tree->found[5].tally.bytes, strlen(SHARD));
    assert_int_equal(strlen(tree->found[5].hash), HASH_TEXT_SIZE - 1);
    expect(tree, 6, 20, "");
    expect(tree, 7, 10, "");
}

/* Names of many letters of two bytes, so that a limit of the sentence falls into a letter: the note
 * must still be what JSON and the wire carry. */
static void test_notes_are_cut_between_letters(void **state)
{
    struct tree *tree = *state;
    put_keepstep(tree, 1, 0, "demo");
    make_folder(tree, "save-2");
    put(tree, "save-2/.metadata", "x");
    for (int before = 0; before < 2; before++) {
        char name[160] = "";
        for (size_t at = 0; at + 2 < sizeof(name); at += 2) {
            memcpy(name + at, "\xc3\xbc", 3);
        }
        char text[512];
        (void)snprintf(text, sizeof(text),
                       "{\"format\": \"keepstep\", \"version\": 1, \"job\": \"demo\", "
                       "\"attempt\": 0, \"step\": 1, \"shards\": [{\"rank\": 0, "
                       "\"file\": \"%.*s%s\", \"size\": 1, \"hash\": \"" SHARD_HASH "\"}]}",
                       before, "x", name);
        put(tree, "step-1.a-0/manifest.json", text);
        assert_int_equal(list(tree, "keepstep"), 0);
        expect(tree, 0, 1, ": it is missing");
        assert_true(text_is_utf8(tree->found[0].note, strlen(tree->found[0].note)));
        char path[200];
        (void)snprintf(path, sizeof(path), "save-2/%.*s%s.distcp", before, "x", name);
        put(tree, path, "");
        assert_int_equal(list(tree, "torch-dcp"), 0);
        expect(tree, 0, 2, " is empty");
        assert_true(text_is_utf8(tree->found[0].note, strlen(tree->found[0].note)));
        assert_int_equal(unlink(path_of(tree, path)), 0);
    }
}

static void test_hostile_manifests(void **state)
{
    static const char *const shards[] = {
        "[]",
        "[{\"file\": \"../../etc/passwd\", \"size\": 1, \"hash\": \"" SHARD_HASH "\"}]",
        "[{\"file\": \"..\", \"size\": 1, \"hash\": \"" SHARD_HASH "\"}]",
        "[{\"file\": \"a\\nb\", \"size\": 1, \"hash\": \"" SHARD_HASH "\"}]",
        "[{\"file\": \"a\", \"size\": -1, \"hash\": \"" SHARD_HASH "\"}]",
        "[{\"file\": \"a\", \"size\": 1, \"hash\": \"xyz\"}]",
        "[{\"file\": \"a\", \"size\": 9223372036854775807, \"hash\": \"" SHARD_HASH "\"}, "
        "{\"file\": \"b\", \"size\": 9223372036854775807, \"hash\": \"" SHARD_HASH "\"}]",
        "{\"file\": \"a\"}",
        "7",
    };
    struct tree *tree = *state;
    make_folder(tree, "step-1.a-0");
    for (size_t i = 0; i < sizeof(shards) / sizeof(shards[0]); i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text),
                       "{\"format\": \"keepstep\", \"job\": \"demo\", \"attempt\": 0, \"step\": 1, "
                       "\"shards\": %s}",
                       shards[i]);
        put(tree, "step-1.a-0/manifest.json", text);
        assert_int_equal(list(tree, "keepstep"), 0);
        expect(tree, 0, 1, "manifest.json: ");
    }
    put(tree, "step-1.a-0/manifest.json",
        "{\"format\": \"keepstep\", \"job\": \"demo\", \"job\": \"x\"}");
    assert_int_equal(list(tree, "keepstep"), 0);
    expect(tree, 0, 1, "no JSON");
}

/* ---- links, names, rights ------------------------------------------------------------------------- */

static void test_links_are_not_followed(void **state)
{
    struct tree *tree = *state;
    put_keepstep(tree, 10, 0, "demo");
    assert_int_equal(symlink("step-10.a-0", path_of(tree, "step-20.a-0")), 0);
    put_keepstep(tree, 30, 0, "demo");
    assert_int_equal(unlink(path_of(tree, "step-30.a-0/shard-00000.bin")), 0);
    assert_int_equal(symlink("/etc/passwd", path_of(tree, "step-30.a-0/shard-00000.bin")), 0);
    put_keepstep(tree, 40, 0, "demo");
    assert_int_equal(unlink(path_of(tree, "step-40.a-0/manifest.json")), 0);
    assert_int_equal(
        symlink("../step-10.a-0/manifest.json", path_of(tree, "step-40.a-0/manifest.json")), 0);
    assert_int_equal(list(tree, "keepstep"), 0);
    assert_int_equal(tree->count, 3);
    expect(tree, 0, 40, "manifest.json: ");
    expect(tree, 1, 30, "no plain file; it is not followed");
    expect(tree, 2, 10, "");
}

static void test_links_in_other_formats(void **state)
{
    struct tree *tree = *state;
    make_folder(tree, "step-1");
    put(tree, "step-1/DONE", "");
    assert_int_equal(symlink("/", path_of(tree, "step-1/root")), 0);
    assert_int_equal(symlink("step-1", path_of(tree, "step-2")), 0);
    make_folder(tree, "step-3");
    assert_int_equal(symlink("/etc/passwd", path_of(tree, "step-3/DONE")), 0);
    make_folder(tree, "step-4");
    put(tree, "step-4/DONE", "");
    assert_int_equal(mkfifo(path_of(tree, "step-4/pipe"), 0600), 0);
    assert_int_equal(list(tree, "marker"), 0);
    assert_int_equal(tree->count, 3);
    expect(tree, 0, 4, "pipe is no plain file");
    expect(tree, 1, 3, "DONE is a link");
    expect(tree, 2, 1, "root is a link");
}

static void test_names(void **state)
{
    struct tree *tree = *state;
    make_folder(tree, "step\n-7");
    make_folder(tree, "\x80\xff-8");
    make_folder(tree, "step-99999999999999999999999");
    make_folder(tree, ".hidden-9");
    make_folder(tree, "step-5");
    put(tree, "step-5/DONE", "");
    put(tree, "step-5/a\nb", "x");
    make_folder(tree, "4");
    put(tree, "4/DONE", "");
    assert_int_equal(list(tree, "marker"), 0);
    assert_int_equal(tree->count, 2);
    expect(tree, 0, 5, "control characters");
    expect(tree, 1, 4, "");
}

/* Root's right to read everything (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH), taken away or given back;
 * returns which were there. */
static uint32_t override_rights(uint32_t wanted)
{
    const uint32_t both = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    const uint32_t before = data[0].effective & both;
    data[0].effective = (data[0].effective & ~both) | wanted;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
    return before;
}

static void test_unreadable_folder(void **state)
{
    struct tree *tree = *state;
    make_folder(tree, "step-2");
    make_folder(tree, "step-1");
    put(tree, "step-1/DONE", "");
    assert_int_equal(chmod(path_of(tree, "step-2"), 0), 0);
    const uint32_t before = override_rights(0);
    const int code = list(tree, "marker");
    (void)override_rights(before);
    assert_int_equal(code, 0);
    expect(tree, 0, 2, "Permission denied");
    expect(tree, 1, 1, "");
}

static void test_no_folder_holds_nothing(void **state)
{
    struct tree *tree = *state;
    struct save_query query = {.format = "marker", .directory = "/nonexistent/x", .marker = "DONE"};
    assert_int_equal(save_list(&query, keep, tree, &tree->total, &tree->err), 0);
    assert_int_equal(tree->count, 0);
    query.directory = "/etc/passwd";
    assert_int_equal(save_list(&query, keep, tree, &tree->total, &tree->err), -ENOTDIR);
    query.format = "pickle";
    assert_int_equal(save_list(&query, keep, tree, &tree->total, &tree->err), -EINVAL);
}

static void test_ten_thousand_folders(void **state)
{
    enum { MANY = 10000 };
    struct tree *tree = *state;
    char name[64];
    for (int i = 1; i <= MANY; i++) {
        (void)snprintf(name, sizeof(name), "step-%d", i);
        make_folder(tree, name);
        if (i <= MANY - 100) {
            (void)snprintf(name, sizeof(name), "step-%d/DONE", i);
            put(tree, name, "");
        }
    }
    assert_int_equal(list(tree, "marker"), 0);
    assert_int_equal(tree->total, MANY);
    assert_int_equal(tree->count, SAVE_INCOMPLETE_MAX + SAVE_COMPLETE_MAX);
    expect(tree, 0, MANY, "it has no DONE");
    expect(tree, SAVE_INCOMPLETE_MAX, MANY - 100, ""); /* behind a hundred that are not whole */
    expect(tree, tree->count - 1, MANY - 100 - SAVE_COMPLETE_MAX + 1, "");
}

/* A checkpoint of many ranks is long to look at: the newest two of them are enough. */
static void test_many_files(void **state)
{
    struct tree *tree = *state;
    char name[64];
    for (int step = 1; step <= 4; step++) {
        (void)snprintf(name, sizeof(name), "step-%d", step);
        make_folder(tree, name);
        (void)snprintf(name, sizeof(name), "step-%d/DONE", step);
        put(tree, name, "");
        for (int i = 0; step > 2 && i < SAVE_FILES_ENOUGH / 2; i++) {
            char target[PATH_SIZE];
            (void)snprintf(target, sizeof(target), "%s/step-%d/%d", tree->path, step, i);
            assert_int_equal(link(path_of(tree, name), target), 0);
        }
    }
    assert_int_equal(list(tree, "marker"), 0);
    assert_int_equal(tree->count, SAVE_COMPLETE_LEAST);
    expect(tree, 0, 4, "");
    expect(tree, 1, 3, "");
}

/* ---- torch-dcp ------------------------------------------------------------------------------------ */

static void test_torch_dcp(void **state)
{
    struct tree *tree = *state;
    make_folder(tree, "step_100");
    put(tree, "step_100/.metadata", "never read");
    put(tree, "step_100/__0_0.distcp", "tensor");
    put(tree, "step_100/__1_0.distcp", "tensor");
    make_folder(tree, "step_200");
    put(tree, "step_200/__0_0.distcp", "tensor");
    make_folder(tree, "step_300");
    put(tree, "step_300/.metadata", "never read");
    put(tree, "step_300/__0_0.distcp", "");
    make_folder(tree, "step_400");
    put(tree, "step_400/.metadata", "never read");
    make_folder(tree, "tensorboard");
    assert_int_equal(list(tree, "torch-dcp"), 0);
    assert_int_equal(tree->count, 4);
    expect(tree, 0, 400, "no *.distcp");
    expect(tree, 1, 300, "__0_0.distcp is empty");
    expect(tree, 2, 200, "no .metadata");
    expect(tree, 3, 100, "");
    assert_int_equal(tree->found[3].tally.files, 3);
    assert_int_equal(tree->found[3].tally.bytes, 10 + 6 + 6);
}

/* A file that is written anew is another checkpoint, though its name and size are the same. */
static void test_change_is_noticed(void **state)
{
    struct tree *tree = *state;
    char before[HASH_TEXT_SIZE];
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    make_folder(tree, "step-1");
    put(tree, "step-1/DONE", "");
    put(tree, "step-1/data", "aaaa");
    assert_int_equal(list(tree, "marker"), 0);
    (void)text_copy(before, sizeof(before), tree->found[0].hash);
    assert_int_equal(list(tree, "marker"), 0);
    assert_string_equal(tree->found[0].hash, before);
    assert_int_equal(utimensat(AT_FDCWD, path_of(tree, "step-1/data"), times, 0), 0);
    assert_int_equal(list(tree, "marker"), 0);
    assert_string_not_equal(tree->found[0].hash, before);
    assert_int_equal(tree->found[0].tally.first_ms, 1000 * 1000);
}

/* ---- megatron ------------------------------------------------------------------------------------- */

static void put_megatron(const struct tree *tree, uint64_t step, int parts)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "iter_%07llu", (unsigned long long)step);
    make_folder(tree, name);
    for (int i = 0; i < parts; i++) {
        (void)snprintf(name, sizeof(name), "iter_%07llu/mp_rank_%02d_000", (unsigned long long)step,
                       i);
        make_folder(tree, name);
        (void)snprintf(name, sizeof(name), "iter_%07llu/mp_rank_%02d_000/model_optim_rng.pt",
                       (unsigned long long)step, i);
        put(tree, name, "pickle");
    }
}

static void test_megatron(void **state)
{
    struct tree *tree = *state;
    put_megatron(tree, 100, 2);
    put_megatron(tree, 200, 1);
    put_megatron(tree, 300, 2);
    put_megatron(tree, 400, 2);
    put(tree, "iter_0000300/mp_rank_01_000/model_optim_rng.pt", "");
    put(tree, "latest_checkpointed_iteration.txt", "350\n");
    make_folder(tree, "iter_0000050");
    put(tree, "iter_0000050/.metadata", "m");
    put(tree, "iter_0000050/__0_0.distcp", "t");
    make_folder(tree, "iter_0000040");
    make_folder(tree, "iter_30");
    assert_int_equal(list(tree, "megatron"), 0);
    assert_int_equal(tree->count, 6);
    expect(tree, 0, 400, "newer than latest_checkpointed_iteration.txt, which says 350");
    expect(tree, 1, 300, "model_optim_rng.pt is empty");
    expect(tree, 2, 200, "1 of 2 mp_rank_* folders");
    expect(tree, 3, 100, "");
    expect(tree, 4, 50, "");
    expect(tree, 5, 40, "neither");
    assert_true(text_equal(tree->found[3].directory, path_of(tree, "iter_0000100")));
}

static void test_megatron_numbers(void **state)
{
    static const char *const garbage[] = {
        "",     "garbage",     "-5", "1e3",  "12 34", "999999999999999999999999",
        "0x10", "12\nrelease", "\n", "relea"};
    struct tree *tree = *state;
    put_megatron(tree, 100, 2);
    assert_int_equal(list(tree, "megatron"), 0);
    expect(tree, 0, 100, "no save has ended");
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        put(tree, "latest_checkpointed_iteration.txt", garbage[i]);
        assert_int_equal(list(tree, "megatron"), -EBADMSG);
        assert_non_null(strstr(tree->err.text, "latest_checkpointed_iteration.txt"));
    }
    FILE *file = fopen(path_of(tree, "latest_checkpointed_iteration.txt"), "w");
    assert_non_null(file);
    assert_int_equal(fwrite("100\0", 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(list(tree, "megatron"), -EBADMSG);
    put(tree, "latest_checkpointed_iteration.txt", "release");
    assert_int_equal(list(tree, "megatron"), 0);
    expect(tree, 0, 100, "newer than");
    assert_int_equal(unlink(path_of(tree, "latest_checkpointed_iteration.txt")), 0);
    assert_int_equal(symlink("/etc/hostname", path_of(tree, "latest_checkpointed_iteration.txt")),
                     0);
    assert_int_equal(list(tree, "megatron"), -ELOOP);
}

/* ---- reading again, removing ------------------------------------------------------------------------ */

static void count_progress(void *context, uint64_t done, uint64_t total)
{
    uint64_t *seen = context;
    assert_true(done <= total);
    *seen = done;
}

static struct save_target target_of(struct tree *tree, char path[PATH_SIZE], uint64_t step,
                                    const char *hash)
{
    (void)snprintf(path, PATH_SIZE, "%s/step-%llu.a-0", tree->path, (unsigned long long)step);
    return (struct save_target){.directory = path, .job = "demo", .hash = hash, .step = step};
}

static void test_verify(void **state)
{
    struct tree *tree = *state;
    char path[PATH_SIZE];
    uint64_t seen = 0;
    bool whole = false;
    struct err err = {0};
    put_keepstep(tree, 10, 0, "demo");
    assert_int_equal(list(tree, "keepstep"), 0);
    struct save_target target = target_of(tree, path, 10, tree->found[0].hash);
    assert_int_equal(save_verify(&target, count_progress, &seen, &whole, &err), 0);
    assert_true(whole);
    assert_int_equal(seen, strlen(SHARD));
    put(tree, "step-10.a-0/shard-00000.bin", "wEights of rank 0"); /* one bit */
    assert_int_equal(save_verify(&target, count_progress, &seen, &whole, &err), 0);
    assert_false(whole);
    assert_non_null(strstr(err.text, "shard-00000.bin: its hash is"));
    target.hash = SHARD_HASH;
    assert_int_equal(save_verify(&target, count_progress, &seen, &whole, &err), 0);
    assert_false(whole);
    assert_non_null(strstr(err.text, "when it was committed it was"));
    target.hash = "";
    target.job = "other";
    assert_int_equal(save_verify(&target, count_progress, &seen, &whole, &err), 0);
    assert_false(whole);
}

static void test_remove(void **state)
{
    struct tree *tree = *state;
    char path[PATH_SIZE];
    struct err err = {0};
    put_keepstep(tree, 10, 0, "demo");
    put_keepstep(tree, 20, 0, "other");
    put_keepstep(tree, 30, 0, "demo");
    assert_int_equal(list(tree, "keepstep"), 0);
    struct save_target target = target_of(tree, path, 30, SHARD_HASH);
    assert_int_equal(save_remove(&target, &err), -EXDEV); /* not what was committed */
    target = target_of(tree, path, 20, "");
    assert_int_equal(save_remove(&target, &err), -EXDEV); /* another job's */
    target = target_of(tree, path, 30, tree->found[0].hash);
    assert_int_equal(save_remove(&target, &err), 0);
    assert_int_not_equal(access(path_of(tree, "step-30.a-0"), F_OK), 0);
    assert_int_not_equal(access(path_of(tree, ".trash/step-30.a-0"), F_OK), 0);
    assert_int_equal(access(path_of(tree, "step-10.a-0/manifest.json"), F_OK), 0);
    assert_int_equal(access(path_of(tree, "step-20.a-0/manifest.json"), F_OK), 0);
    assert_int_equal(save_remove(&target, &err), 0); /* again: it is gone already */
    target.directory = "/etc";
    assert_int_equal(save_remove(&target, &err), -EINVAL);
}

/* A try that was cut off may have left its empty folder in the trash, or, on another day, a full one. */
static void test_remove_into_a_trash_in_use(void **state)
{
    struct tree *tree = *state;
    char path[PATH_SIZE];
    struct err err = {0};
    put_keepstep(tree, 10, 0, "demo");
    make_folder(tree, ".trash");
    make_folder(tree, ".trash/step-10.a-0");
    const struct save_target target = target_of(tree, path, 10, "");
    assert_int_equal(save_remove(&target, &err), 0);
    assert_int_not_equal(access(path_of(tree, "step-10.a-0"), F_OK), 0);
    assert_int_not_equal(access(path_of(tree, ".trash/step-10.a-0"), F_OK), 0);
    put_keepstep(tree, 10, 0, "demo");
    make_folder(tree, ".trash/step-10.a-0");
    put(tree, ".trash/step-10.a-0/theirs", "x");
    assert_int_equal(save_remove(&target, &err), -ENOTEMPTY);
    assert_int_equal(access(path_of(tree, "step-10.a-0/manifest.json"), F_OK), 0);
    assert_int_equal(access(path_of(tree, ".trash/step-10.a-0/theirs"), F_OK), 0);
}

static void test_remove_follows_no_link(void **state)
{
    struct tree *tree = *state;
    char path[PATH_SIZE];
    struct err err = {0};
    put_keepstep(tree, 10, 0, "demo");
    (void)snprintf(path, sizeof(path), "%s/step-10.a-0", tree->path);
    assert_int_equal(rename(path, path_of(tree, "elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", path_of(tree, "step-10.a-0")), 0);
    struct save_target target = target_of(tree, path, 10, "");
    assert_true(save_remove(&target, &err) < 0);
    assert_int_equal(access(path_of(tree, "elsewhere/manifest.json"), F_OK), 0);
    /* A trash that is a link would lead the folder away. */
    put_keepstep(tree, 20, 0, "demo");
    (void)rmdir(path_of(tree, ".trash"));
    make_folder(tree, "away");
    assert_int_equal(symlink("away", path_of(tree, ".trash")), 0);
    target = target_of(tree, path, 20, "");
    assert_true(save_remove(&target, &err) < 0);
    assert_int_equal(access(path_of(tree, "step-20.a-0/manifest.json"), F_OK), 0);
    /* A link inside goes, what it points at stays. */
    assert_int_equal(unlink(path_of(tree, ".trash")), 0);
    assert_int_equal(symlink("../away", path_of(tree, "step-20.a-0/link")), 0);
    assert_int_equal(save_remove(&target, &err), 0);
    assert_int_equal(access(path_of(tree, "away"), F_OK), 0);
}

/* ---- what a site's reader prints ---------------------------------------------------------------------- */

static void test_lines_of_readers(void **state)
{
    static const struct {
        const char *line;
        const char *fault; /* "" = fine */
    } lines[] = {
        {"{\"step\": 5, \"complete\": true, \"path\": \"/ck/5\"}", ""},
        {"{\"step\": 5, \"complete\": true, \"path\": \"ck/5\"}", "absolute"},
        {"{\"step\": 5, \"complete\": true, \"path\": \"/a\\nb\"}", "absolute"},
        {"{\"step\": 0, \"complete\": true, \"path\": \"/a\"}", "without a step"},
        {"{\"step\": -1, \"complete\": true, \"path\": \"/a\"}", "without a step"},
        {"{\"step\": \"5\", \"complete\": true, \"path\": \"/a\"}", "without a step"},
        {"[1]", "no JSON object"},
        {"{\"step\": 5, \"step\": 6, \"path\": \"/a\"}", "no JSON object"},
    };
    struct msg_save_said said;
    struct err err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const int r = save_line_parse(lines[i].line, strlen(lines[i].line), 5000, &said, &err);
        assert_int_equal(r, lines[i].fault[0] == '\0' ? 0 : -EINVAL);
        assert_true(r == 0 || strstr(err.text, lines[i].fault) != NULL);
    }
    static const char full[] =
        "{\"step\": 7, \"complete\": false, \"path\": \"/ck/7\", \"bytes\": 10, \"files\": 2, "
        "\"first_ms\": 1000, \"last_ms\": 3000, \"parts\": [\"weights\", \"rng\", \"x\"], "
        "\"note\": \"half\", \"attempt\": 99999999999, \"hash\": \"nonsense\"}";
    assert_int_equal(save_line_parse(full, strlen(full), 5000, &said, &err), 0);
    assert_false(said.ok);
    assert_int_equal(said.parts, PART_WEIGHTS | PART_RNG);
    assert_int_equal(said.age_ms, 2000);
    assert_int_equal(said.took_ms, 2000);
    assert_int_equal(said.attempt, UINT32_MAX);
    assert_int_equal(strlen(said.hash), HASH_TEXT_SIZE - 1);
    assert_string_equal(said.text, "half");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keepstep),
        TEST(test_notes_are_cut_between_letters),
        TEST(test_hostile_manifests),
        TEST(test_links_are_not_followed),
        TEST(test_links_in_other_formats),
        TEST(test_names),
        TEST(test_unreadable_folder),
        TEST(test_no_folder_holds_nothing),
        TEST(test_ten_thousand_folders),
        TEST(test_many_files),
        TEST(test_torch_dcp),
        TEST(test_change_is_noticed),
        TEST(test_megatron),
        TEST(test_megatron_numbers),
        TEST(test_verify),
        TEST(test_remove),
        TEST(test_remove_into_a_trash_in_use),
        TEST(test_remove_follows_no_link),
        TEST(test_lines_of_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
