/* probes_test.c: the whole agent with probes over sources of the test's own: what is found arrives,
 * is repeated until it is acknowledged, and outlives the agent. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_io/agent_rig.h"

enum { LONG_MS = 20000, SHORT_MS = 1500, XID_MS = 500 };

static const char xid[] = "3,101,227986636,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, "
                          "name=python3, GPU has fallen off the bus.\n";

static int setup(void **state)
{
    struct agent_rig *rig = mem_alloc(1, sizeof(*rig));
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    const bool well = rig_ends_well(*state);
    rig_close(*state);
    mem_free(*state);
    return well ? 0 : -1;
}

static void put_file(const struct agent_rig *rig, const char *text, int flags, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
static void put_file(const struct agent_rig *rig, const char *text, int flags, const char *format,
                     ...)
{
    char name[256];
    char path[512];
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(name, sizeof(name), format, arguments);
    va_end(arguments);
    assert_true(text_format(path, sizeof(path), "%s/%s", rig->dir, name));
    for (char *at = path + strlen(rig->dir) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

static void add_flag(struct agent_rig *rig, const char *name, const char *file)
{
    char *flag = rig->probe_flags[rig->probe_flag_count++];
    assert_true(text_format(flag, sizeof(rig->probe_flags[0]), "--%s=%s/%s", name, rig->dir, file));
}

/* A rig whose kernel log is a file that is empty now. */
static struct agent_rig *open_kmsg(void **state)
{
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    put_file(rig, "", 0, "kmsg");
    (void)text_copy(rig->probes, sizeof(rig->probes), "kmsg");
    add_flag(rig, "kmsg", "kmsg");
    return rig;
}

static bool has_fact(const struct fake_controller *fake, void *context)
{
    return fake_fact(fake, context) != NULL;
}

static bool wait_fact(struct agent_rig *rig, const char *signal, uint64_t ms)
{
    return fake_wait(&rig->fake, has_fact, (void *)(uintptr_t)signal, ms);
}

static bool has_session(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->welcomed && fake->beat.sequence > 0;
}

/* The probe's process waits for lines: it has written down where it stands. */
static void wait_for_reader(struct agent_rig *rig)
{
    assert_true(fake_wait(&rig->fake, has_session, NULL, LONG_MS));
    put_file(rig, "6,100,5,-;a line of no meaning\n", O_APPEND, "kmsg");
    char path[256];
    struct stat status;
    (void)text_format(path, sizeof(path), "%s/state/probes", rig->dir);
    const uint64_t end = fake_now_ms() + LONG_MS;
    while (stat(path, &status) != 0 || status.st_size < 40) {
        assert_true(fake_now_ms() < end);
        (void)fake_wait(&rig->fake, NULL, NULL, 20);
    }
}

static void test_an_xid_arrives(void **state)
{
    struct agent_rig *rig = open_kmsg(state);
    rig_start(rig);
    wait_for_reader(rig);
    put_file(rig, xid, O_APPEND, "kmsg");
    assert_true(wait_fact(rig, "xid-79", XID_MS));
    const struct fact *fact = fake_fact(&rig->fake, "xid-79");
    assert_int_equal(fact->source, FACT_LOG);
    assert_int_equal(fact->severity, 3);
    assert_int_equal(fact->label, LABEL_HARDWARE);
    assert_int_equal(fact->role, ROLE_ROOT);
    assert_int_equal(fact->code, 79);
    assert_string_equal(fact->subject, "0000:3b:00");
    assert_int_equal(fact->rank, -1);
}

/* B9: repeated under its one number until it is acknowledged, then never again. */
static void test_repeated_until_acknowledged(void **state)
{
    struct agent_rig *rig = open_kmsg(state);
    rig->fake.ack = false;
    rig_start(rig);
    wait_for_reader(rig);
    put_file(rig, xid, O_APPEND, "kmsg");
    assert_true(wait_fact(rig, "xid-79", LONG_MS));
    (void)fake_wait(&rig->fake, NULL, NULL, 2500);
    assert_int_equal(rig->fake.fact_count, 1);
    assert_true(rig->fake.facts_heard >= 3);
    rig->fake.ack = true;
    (void)fake_wait(&rig->fake, NULL, NULL, SHORT_MS);
    const uint32_t heard = rig->fake.facts_heard;
    (void)fake_wait(&rig->fake, NULL, NULL, 2500);
    assert_int_equal(rig->fake.facts_heard, heard);
}

/* C5: where reading goes on is remembered once the controller has what was read. */
static void test_a_killed_agent_loses_no_line(void **state)
{
    struct agent_rig *rig = open_kmsg(state);
    rig->fake.ack = false;
    rig_start(rig);
    wait_for_reader(rig);
    put_file(rig, xid, O_APPEND, "kmsg");
    assert_true(wait_fact(rig, "xid-79", LONG_MS));
    (void)fake_wait(&rig->fake, NULL, NULL, SHORT_MS); /* its file could have been written */
    rig_kill(rig);
    rig->fake.fact_count = 0;
    rig->fake.ack = true;
    rig_start(rig);
    assert_true(wait_fact(rig, "xid-79", LONG_MS));
    assert_int_equal(fake_fact(&rig->fake, "xid-79")->severity, 3); /* not a line from before */
    (void)fake_wait(&rig->fake, NULL, NULL, SHORT_MS);
    rig_kill(rig);
    rig->fake.fact_count = 0;
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_session, NULL, LONG_MS));
    (void)fake_wait(&rig->fake, NULL, NULL, 2500);
    assert_int_equal(rig->fake.fact_count, 0);
}

static void test_lines_from_before_and_of_programs(void **state)
{
    struct agent_rig *rig = open_kmsg(state);
    put_file(rig, xid, O_APPEND, "kmsg");
    rig_start(rig);
    assert_true(wait_fact(rig, "xid-79", LONG_MS));
    assert_int_equal(rig->fake.facts[0].severity, 0);
    assert_non_null(strstr(rig->fake.facts[0].text, "before this agent"));
    put_file(rig, "11,102,5,-;NVRM: Xid (PCI:0000:3c:00): 79, pid=1, lost.\n", O_APPEND, "kmsg");
    const uint64_t end = fake_now_ms() + LONG_MS;
    while (rig->fake.fact_count < 2 && fake_now_ms() < end) {
        (void)fake_wait(&rig->fake, NULL, NULL, 20);
    }
    assert_int_equal(rig->fake.fact_count, 2);
    assert_int_equal(rig->fake.facts[1].severity, 0);
    assert_int_equal(rig->fake.facts[1].role, ROLE_NOISE);
}

static void put_port(const struct agent_rig *rig, const char *state, const char *phys)
{
    put_file(rig, state, O_TRUNC, "sys/class/infiniband/mlx5_0/ports/1/state");
    put_file(rig, phys, O_TRUNC, "sys/class/infiniband/mlx5_0/ports/1/phys_state");
}

static bool port_is_well(const struct fake_controller *fake, void *context)
{
    const struct fact *fact = fake_fact(fake, "port-up");
    (void)context;
    return fact != NULL && fact->severity == 0;
}

static void test_a_port_goes_down_and_comes_back(void **state)
{
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    put_port(rig, "4: ACTIVE\n", "5: LinkUp\n");
    (void)text_copy(rig->probes, sizeof(rig->probes), "ports");
    add_flag(rig, "sysfs", "sys");
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_session, NULL, LONG_MS));
    (void)fake_wait(&rig->fake, NULL, NULL, 3000); /* it was up first: two rounds */
    assert_int_equal(rig->fake.fact_count, 0);
    put_port(rig, "1: DOWN\n", "2: Polling\n");
    assert_true(wait_fact(rig, "port-down", 2500));
    assert_int_equal(fake_fact(&rig->fake, "port-down")->severity, 1);
    assert_int_equal(fake_fact(&rig->fake, "port-down")->port, 0);
    /* The latch is in the file: an agent that starts anew says only what is new. */
    (void)fake_wait(&rig->fake, NULL, NULL, SHORT_MS);
    rig_kill(rig);
    rig->fake.fact_count = 0;
    rig_start(rig);
    (void)fake_wait(&rig->fake, NULL, NULL, 4000);
    assert_int_equal(rig->fake.fact_count, 0);
    put_port(rig, "4: ACTIVE\n", "5: LinkUp\n");
    assert_true(fake_wait(&rig->fake, port_is_well, NULL, LONG_MS));
}

#define PROBES_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROBES_TEST(test_an_xid_arrives),
        PROBES_TEST(test_repeated_until_acknowledged),
        PROBES_TEST(test_a_killed_agent_loses_no_line),
        PROBES_TEST(test_lines_from_before_and_of_programs),
        PROBES_TEST(test_a_port_goes_down_and_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
