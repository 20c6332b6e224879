/* validate_test.c: the whole agent is asked whether its node is fit: by nothing, by programs of the
 * site that like it, that do not, that hang, and that are not there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_io/agent_rig.h"

enum { LONG_MS = 30000 };

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

static bool has_said(const struct fake_controller *fake, void *context)
{
    return fake->validated.nonce == *(const uint64_t *)context;
}

static void put(const struct agent_rig *rig, const char *name, const char *text)
{
    char path[256];
    (void)text_format(path, sizeof(path), "%s/%s", rig->dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

/* An agent with these programs, "a" and then "b"; NULL: that one is not there. */
static struct agent_rig *open_rig(void **state, bool programs)
{
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    if (programs) {
        (void)text_format(rig->extra, sizeof(rig->extra), "--validate-programs=%s/a,%s/b", rig->dir,
                          rig->dir);
    }
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_beat, NULL, LONG_MS));
    return rig;
}

static void ask(struct agent_rig *rig, uint64_t nonce, uint8_t level, uint32_t timeout_ms)
{
    struct message message = {.kind = MSG_VALIDATE};
    message.u.validate =
        (struct msg_validate){.nonce = nonce, .level = level, .timeout_ms = timeout_ms};
    fake_send(&rig->fake, &message);
}

static const struct msg_validated *answer(struct agent_rig *rig, uint64_t nonce)
{
    assert_true(fake_wait(&rig->fake, has_said, &nonce, LONG_MS));
    return &rig->fake.validated;
}

static void test_without_programs(void **state)
{
    struct agent_rig *rig = open_rig(state, false);
    ask(rig, 1, VALIDATE_QUICK, 20000);
    assert_true(answer(rig, 1)->ok);
    ask(rig, 2, VALIDATE_FULL, 5000);
    assert_true(answer(rig, 2)->ok);
    assert_non_null(strstr(rig->fake.validated.text, "no validate_programs"));
}

static void test_all_are_run(void **state)
{
    struct agent_rig *rig = open_rig(state, true);
    put(rig, "a", "#!/bin/sh\necho a >> \"$(dirname \"$0\")\"/ran\n");
    put(rig, "b", "#!/bin/sh\necho 'GPU 2 is warm | t=90'\nexit 1\n");
    ask(rig, 1, VALIDATE_QUICK, 20000);
    assert_true(answer(rig, 1)->ok);
    assert_int_equal(rig_lines(rig, "ran"), 0);
    ask(rig, 2, VALIDATE_FULL, 20000);
    assert_true(answer(rig, 2)->ok);
    assert_int_equal(rig_lines(rig, "ran"), 1);
    assert_non_null(strstr(rig->fake.validated.text, "1 warning, the first: "));
    assert_non_null(strstr(rig->fake.validated.text, "/b: GPU 2 is warm"));
    assert_null(strstr(rig->fake.validated.text, "t=90"));
    ask(rig, 2, VALIDATE_FULL, 20000); /* said again, not run again */
    const uint32_t said = rig->fake.validations;
    (void)fake_wait(&rig->fake, NULL, NULL, 500);
    assert_int_equal(rig->fake.validations, said + 1);
    assert_int_equal(rig_lines(rig, "ran"), 1);
}

static void expect_unfit(struct agent_rig *rig, uint64_t nonce, const char *program,
                         uint32_t timeout_ms, const char *says)
{
    put(rig, "a", program);
    ask(rig, nonce, VALIDATE_FULL, timeout_ms);
    assert_false(answer(rig, nonce)->ok);
    if (strstr(rig->fake.validated.text, says) == NULL) {
        fail_msg("'%s' does not say '%s'", rig->fake.validated.text, says);
    }
}

static void test_the_first_that_is_not_good_ends_it(void **state)
{
    struct agent_rig *rig = open_rig(state, true);
    put(rig, "b", "#!/bin/sh\necho b >> \"$(dirname \"$0\")\"/ran\n");
    expect_unfit(rig, 1, "#!/bin/sh\necho 'GPU 3: 12 errors'\nexit 2\n", 20000,
                 "/a: GPU 3: 12 errors");
    expect_unfit(rig, 2, "#!/bin/sh\necho 'cannot look'\nexit 3\n", 20000,
                 "/a: unknown (3): cannot look");
    expect_unfit(rig, 3, "#!/bin/sh\nkill -9 $$\n", 20000, "/a: signal 9");
    expect_unfit(rig, 4, "#!/bin/sh\nsleep 300 &\nwait\n", 300, "/a: not done in time");
    expect_unfit(rig, 5, "no program", 20000, "/a: ");
    assert_int_equal(rig_lines(rig, "ran"), 0);
    char path[256];
    (void)text_format(path, sizeof(path), "%s/a", rig->dir);
    assert_int_equal(unlink(path), 0);
    ask(rig, 6, VALIDATE_FULL, 20000);
    assert_false(answer(rig, 6)->ok);
    assert_non_null(strstr(rig->fake.validated.text, "cannot be started: no such file"));
}

/* Another level gives up what runs: its program is killed, and nobody hears of it. */
static void test_another_level_begins_anew(void **state)
{
    struct agent_rig *rig = open_rig(state, true);
    put(rig, "a", "#!/bin/sh\nsleep 300\n");
    ask(rig, 1, VALIDATE_FULL, 30000);
    (void)fake_wait(&rig->fake, NULL, NULL, 300);
    ask(rig, 2, VALIDATE_QUICK, 20000);
    assert_true(answer(rig, 2)->ok);
    (void)fake_wait(&rig->fake, NULL, NULL, 500);
    assert_int_equal(rig->fake.validations, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_programs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_are_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_first_that_is_not_good_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_level_begins_anew, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
