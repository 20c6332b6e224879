/* saves_test.c: the whole agent is asked what lies in a checkpoint folder: its own readers, a site's,
 * and a storage that does not answer. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_io/agent_rig.h"

enum { LONG_MS = 30000, LINE = 512 };

static int setup(void **state)
{
    *state = mem_alloc(1, sizeof(struct agent_rig));
    return 0;
}

static int teardown(void **state)
{
    const bool well = rig_ends_well(*state);
    rig_close(*state);
    mem_free(*state);
    return well ? 0 : -1;
}

static bool has_beat(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->beat.sequence > 0;
}

static bool has_done(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->has_save_done;
}

static struct agent_rig *open_rig(void **state, bool reader)
{
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    if (reader) {
        (void)snprintf(rig->extra, sizeof(rig->extra), "--checkpoint-readers=site=%s/reader",
                       rig->dir);
    }
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_beat, NULL, LONG_MS));
    return rig;
}

static void put(const struct agent_rig *rig, const char *name, const char *text, mode_t mode)
{
    char path[LINE];
    (void)snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void make_folder(const struct agent_rig *rig, const char *name)
{
    char path[LINE];
    (void)snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* Sends it, and waits for the last word. folder is relative to the rig's, or absolute. */
static void ask(struct agent_rig *rig, uint64_t nonce, uint8_t task, const char *folder,
                const char *more, uint32_t timeout_ms)
{
    char spec[2 * LINE];
    struct message message = {.kind = MSG_SAVE_ASK};
    struct msg_save_ask *u = &message.u.save_ask;
    const char *slash = folder[0] == '/' ? "" : "/";
    (void)snprintf(spec, sizeof(spec),
                   "{\"run\":{\"allow_root\":true},\"checkpoint\":{\"dir\":\"%s%s%s\",%s}}",
                   folder[0] == '/' ? "" : rig->dir, slash, folder, more);
    u->nonce = nonce;
    u->task = task;
    u->job = 9;
    u->step = 10;
    u->timeout_ms = timeout_ms;
    u->spec = spec;
    u->spec_size = (uint32_t)strlen(spec);
    (void)text_copy(u->job_name, sizeof(u->job_name), "demo");
    (void)snprintf(u->directory, sizeof(u->directory), "%s/%s/step-10.a-0", rig->dir, folder);
    rig->fake.save_count = 0;
    rig->fake.has_save_done = false;
    fake_send(&rig->fake, &message);
    assert_true(fake_wait(&rig->fake, has_done, NULL, LONG_MS));
    assert_int_equal(rig->fake.save_done.nonce, nonce);
    assert_int_equal(rig->fake.save_done.job, 9);
}

static void test_marker(void **state)
{
    struct agent_rig *rig = open_rig(state, false);
    make_folder(rig, "ck");
    make_folder(rig, "ck/step-10");
    put(rig, "ck/step-10/DONE", "", 0644);
    put(rig, "ck/step-10/data", "12345", 0644);
    make_folder(rig, "ck/step-20");
    ask(rig, 1, SAVE_LIST, "ck", "\"format\":\"marker\",\"marker\":\"DONE\"", LONG_MS);
    assert_int_equal(rig->fake.save_done.error, 0);
    assert_true(rig->fake.save_done.ok);
    assert_int_equal(rig->fake.save_done.files, 2);
    assert_int_equal(rig->fake.save_count, 2);
    assert_int_equal(rig->fake.saves[0].step, 20);
    assert_false(rig->fake.saves[0].ok);
    assert_int_equal(rig->fake.saves[1].step, 10);
    assert_true(rig->fake.saves[1].ok);
    assert_int_equal(rig->fake.saves[1].files, 2);
    assert_int_equal(rig->fake.saves[1].bytes, 5);
    assert_true(rig->fake.saves[1].age_ms < LONG_MS);
    assert_non_null(strstr(rig->fake.saves[1].directory, "/ck/step-10"));
}

static void test_errors(void **state)
{
    struct agent_rig *rig = open_rig(state, false);
    make_folder(rig, "ck");
    put(rig, "ck/latest_checkpointed_iteration.txt", "garbage", 0644);
    ask(rig, 1, SAVE_LIST, "ck", "\"format\":\"megatron\"", LONG_MS);
    assert_int_equal(rig->fake.save_done.error, -EBADMSG);
    assert_non_null(strstr(rig->fake.save_done.text, "neither a number"));
    ask(rig, 2, SAVE_LIST, "none", "\"format\":\"megatron\"", LONG_MS);
    assert_int_equal(rig->fake.save_done.error, 0);
    assert_int_equal(rig->fake.save_count, 0);
    ask(rig, 3, SAVE_LIST, "ck", "\"format\":\"command\",\"reader\":\"site\"", LONG_MS);
    assert_int_equal(rig->fake.save_done.error, -ENOENT);
    assert_non_null(strstr(rig->fake.save_done.text, "knows no reader 'site'"));
    ask(rig, 4, SAVE_VERIFY, "ck", "\"format\":\"keepstep\"", LONG_MS);
    assert_int_equal(rig->fake.save_done.error, 0);
    assert_false(rig->fake.save_done.ok);
    ask(rig, 5, SAVE_REMOVE, "ck", "\"format\":\"keepstep\"", LONG_MS);
    assert_int_equal(rig->fake.save_done.error, 0); /* there is nothing any more */
}

/* A program of the site, of which each job knows the name alone. */
static void test_command(void **state)
{
    static const char *const form = "\"format\":\"command\",\"reader\":\"site\"";
    struct agent_rig *rig = open_rig(state, true);
    put(rig, "reader",
        "#!/bin/sh\n[ \"$#\" = 2 ] && [ -z \"$KEEPSTEP_BUILD\" ] || exit 7\n"
        "echo '{\"step\": 5, \"complete\": true, \"path\": \"'$1'/five\"}'\n",
        0755);
    ask(rig, 1, SAVE_LIST, "ck", form, LONG_MS);
    assert_int_equal(rig->fake.save_done.error, 0);
    assert_int_equal(rig->fake.save_count, 1);
    assert_int_equal(rig->fake.saves[0].step, 5);
    assert_non_null(strstr(rig->fake.saves[0].directory, "/ck/five"));
    put(rig, "reader", "#!/bin/sh\nexit 3\n", 0755);
    ask(rig, 2, SAVE_LIST, "ck", form, LONG_MS);
    assert_int_equal(rig->fake.save_done.error, -EIO);
    assert_non_null(strstr(rig->fake.save_done.text, "exit status 3"));
    put(rig, "reader", "#!/bin/sh\necho hello\n", 0755);
    ask(rig, 3, SAVE_LIST, "ck", form, LONG_MS);
    assert_int_equal(rig->fake.save_done.error, -EBADMSG);
    put(rig, "reader",
        "#!/bin/sh\ni=0; while [ $i -lt 100 ]; do i=$((i+1)); "
        "echo \"{\\\"step\\\": $i, \\\"complete\\\": true, \\\"path\\\": \\\"/x\\\"}\"; done\n",
        0755);
    ask(rig, 4, SAVE_LIST, "ck", form, LONG_MS);
    assert_int_equal(rig->fake.save_done.error, -EBADMSG); /* more than can be told */
    put(rig, "reader", "#!/bin/sh\nyes | cat\n", 0755);
    ask(rig, 5, SAVE_LIST, "ck", form, 1500); /* never ends: cut off, with what it started */
    assert_int_equal(rig->fake.save_done.error, -ETIMEDOUT);
}

static void expect_answer(struct agent_rig *rig, const char *script, int32_t error,
                          uint32_t save_count)
{
    static uint64_t nonce = 100;
    put(rig, "reader", script, 0755);
    ask(rig, ++nonce, SAVE_LIST, "ck", "\"format\":\"command\",\"reader\":\"site\"", LONG_MS);
    if (rig->fake.save_done.error != error) {
        fail_msg("%d, wanted %d: %s", rig->fake.save_done.error, error, rig->fake.save_done.text);
    }
    assert_int_equal(rig->fake.save_count, save_count);
}

/* What a reader printed last counts also without an end of line; and what could not be read whole is
 * no answer at all. */
static void test_lines_that_do_not_end(void **state)
{
    struct agent_rig *rig = open_rig(state, true);
    expect_answer(rig,
                  "#!/bin/sh\n"
                  "echo '{\"step\": 5, \"complete\": true, \"path\": \"/five\"}'\n"
                  "printf '%s' '{\"step\": 6, \"complete\": true, \"path\": \"/six\"}'\n",
                  0, 2);
    assert_int_equal(rig->fake.saves[1].step, 6);
    expect_answer(rig,
                  "#!/bin/sh\n"
                  "echo '{\"step\": 5, \"complete\": true, \"path\": \"/five\"}'\n"
                  "head -c 100000 /dev/zero | tr '\\0' ' '\n"
                  "echo '{\"step\": 6, \"complete\": true, \"path\": \"/six\"}'\n",
                  -EBADMSG, 1);
    assert_non_null(strstr(rig->fake.save_done.text, "too long"));
}

/* A reader that has ended and left somebody behind who prints for ever: the agent goes on. */
static void test_output_without_an_end(void **state)
{
    struct agent_rig *rig = open_rig(state, true);
    expect_answer(rig,
                  "#!/bin/sh\nmkfifo \"$1.begun\"\n"
                  "{ head -c 500000 /dev/zero | tr '\\0' '\\n'; echo >\"$1.begun\"; exec yes; } &\n"
                  "read begun <\"$1.begun\"\nexit 0\n",
                  -EBADMSG, 0);
}

/* A dead mount: each look is given up in time, and after a few nothing more is begun. */
static void test_storage_that_hangs(void **state)
{
    struct agent_rig *rig = open_rig(state, false);
    char program[LINE];
    char folder[LINE];
    int out[2];
    char answer[64] = "";
    const char *build = getenv("KEEPSTEP_BUILD");
    (void)snprintf(program, sizeof(program), "%s/tests/bin/fuse_dstate", build);
    (void)snprintf(folder, sizeof(folder), "%s/hanging", rig->dir);
    make_folder(rig, "hanging");
    assert_int_equal(pipe(out), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)close(out[0]);
        (void)execl(program, program, folder, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    assert_true(read(out[0], answer, sizeof(answer) - 1) > 0);
    (void)close(out[0]);
    const bool mounted = strncmp(answer, "mounted", 7) == 0;
    uint64_t nonce = 0;
    int32_t last = 0;
    for (; mounted && nonce < 8 && last != -EBUSY; nonce++) {
        const uint32_t beats = rig->fake.beats;
        ask(rig, nonce + 1, SAVE_LIST, "hanging", "\"format\":\"marker\",\"marker\":\"D\"", 1200);
        last = rig->fake.save_done.error;
        assert_true(last == -ETIMEDOUT || last == -EBUSY);
        assert_true(last == -EBUSY || rig->fake.beats > beats); /* the agent itself goes on */
    }
    (void)kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (!mounted) {
        skip();
    }
    assert_int_equal(last, -EBUSY);
    assert_true(nonce > 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_marker),
        TEST(test_errors),
        TEST(test_command),
        TEST(test_lines_that_do_not_end),
        TEST(test_output_without_an_end),
        TEST(test_storage_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
