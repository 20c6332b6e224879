/* kmsg_test.c: records of /dev/kmsg, one by one: what is read, counted, shown and acted on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/probe/kmsg.h"
#include "agent/probe/kmsg_signal.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/probe/probe_rig.h"

/* Lines with "fault N" mean something, about "gpu-N". */
static bool look(void *context, const struct kmsg_record *record, struct finding *ret_finding)
{
    static const char mark[] = "fault ";
    uint32_t *looked = context;
    (*looked)++;
    const char *at = memmem(record->message, record->size, mark, strlen(mark));
    if (at == NULL) {
        return false;
    }
    const size_t rest = record->size - (size_t)(at - record->message) - strlen(mark);
    probe_finding(ret_finding, VERDICT_WARN, "", "%.*s", (int)record->size, record->message);
    probe_blame(ret_finding, LABEL_HARDWARE, ADVICE_EVICT, ROLE_ROOT, "fault");
    (void)text_format(ret_finding->subject, sizeof(ret_finding->subject), "gpu-%.*s", (int)rest,
                      at + strlen(mark));
    return true;
}

struct rig {
    struct kmsg kmsg;
    uint32_t looked;
    uint64_t now_ms;
};

static int setup(void **state)
{
    static struct rig rig;
    rig = (struct rig){.now_ms = 1000};
    rig.kmsg.look = look;
    rig.kmsg.context = &rig.looked;
    *state = &rig;
    return 0;
}

static bool take(struct rig *rig, const char *record, struct finding *ret_finding)
{
    return kmsg_take(&rig->kmsg, record, strlen(record), rig->now_ms, ret_finding);
}

static bool take_number(struct rig *rig, uint32_t priority, uint64_t sequence, const char *message,
                        struct finding *ret_finding)
{
    char record[512];
    (void)text_format(record, sizeof(record), "%u,%llu,227986636,-;%s\n", priority,
                      (unsigned long long)sequence, message);
    return take(rig, record, ret_finding);
}

static void test_shapes(void **state)
{
    static const char *const odd[] = {"",
                                      "6",
                                      "6,",
                                      "6,1,2",
                                      "6,1,2,-",
                                      "x,1,2,-;a",
                                      "6,,2,-;a",
                                      "-6,1,2,-;a",
                                      "6,1,2,-\n;a",
                                      ";a",
                                      " SUBSYSTEM=pci",
                                      "6 1 2 -;a",
                                      "99999999999999999999999,1,2,-;a"};
    struct kmsg_record record;
    (void)state;
    static const char good[] =
        "30,3973,227986636,c,caller=T1;NVRM: it; has, marks\n SUBSYSTEM=pci\n";
    assert_int_equal(kmsg_record_parse(good, strlen(good), &record), 0);
    assert_int_equal(record.priority, 6);
    assert_int_equal(record.facility, 3);
    assert_int_equal(record.sequence, 3973);
    assert_int_equal(record.usec, 227986636);
    assert_int_equal(record.size, strlen("NVRM: it; has, marks"));
    assert_memory_equal(record.message, "NVRM: it; has, marks", record.size);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        assert_int_equal(kmsg_record_parse(odd[i], strlen(odd[i]), &record), -EINVAL);
    }
}

static void test_random_records(void **state)
{
    struct rig *rig = *state;
    struct prng prng;
    struct finding finding;
    prng_seed(&prng, 3);
    for (uint32_t i = 0; i < 200000; i++) {
        char bytes[64] = "4,100,5,-;fault 3\n DEVICE=+pci";
        const uint64_t changes = prng_between(&prng, 0, 4);
        for (uint64_t k = 0; k < changes; k++) {
            bytes[prng_between(&prng, 0, 31)] = (char)prng_between(&prng, 0, 255);
        }
        (void)kmsg_take(&rig->kmsg, bytes, prng_between(&prng, 0, 40), i, &finding);
    }
    assert_true(rig->kmsg.odd > 0);
}

static void test_a_line_is_said(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    assert_false(take_number(rig, 6, 10, "nothing", &finding));
    assert_true(take_number(rig, 3, 11, "fault 3", &finding));
    assert_int_equal(finding.severity, 3);
    assert_string_equal(finding.subject, "gpu-3");
    assert_string_equal(finding.text, "fault 3");
    assert_int_equal(rig->kmsg.lines, 2);
    assert_int_equal(rig->kmsg.lost, 0);
}

/* The process before read up to 20: neither twice nor left out. */
static void test_the_cursor(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    rig->kmsg.has_last = true;
    rig->kmsg.last = 20;
    assert_false(take_number(rig, 3, 19, "fault 1", &finding));
    assert_false(take_number(rig, 3, 20, "fault 2", &finding));
    assert_int_equal(rig->looked, 0);
    assert_true(take_number(rig, 3, 21, "fault 3", &finding));
    assert_int_equal(rig->kmsg.lost, 0);
}

static void test_overwritten_lines_are_counted(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    (void)take_number(rig, 6, 1, "a", &finding);
    rig->now_ms = 5000;
    (void)take_number(rig, 6, 1001, "b", &finding);
    assert_int_equal(rig->kmsg.lost, 999);
    assert_int_equal(rig->kmsg.lost_ms, 5000);
}

/* Root may write what it likes into /dev/kmsg. */
static void test_records_of_programs(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    assert_true(take_number(rig, 1 << 3 | 3, 1, "fault 3", &finding));
    assert_int_equal(finding.severity, 0);
    assert_int_equal(finding.advice, ADVICE_NONE);
    assert_int_equal(finding.role, ROLE_NOISE);
    assert_string_equal(finding.text, "written by a program: fault 3");
    rig->kmsg.act_on_user = true;
    assert_true(take_number(rig, 1 << 3 | 3, 2, "fault 4", &finding));
    assert_int_equal(finding.severity, 3);
}

static void test_lines_from_before(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    rig->kmsg.old = true;
    assert_true(take_number(rig, 3, 1, "fault 3", &finding));
    assert_int_equal(finding.severity, 0);
    assert_string_equal(finding.text, "before this agent: fault 3");
    rig->kmsg.old = false; /* the same again is news */
    assert_true(take_number(rig, 3, 2, "fault 3", &finding));
    assert_int_equal(finding.severity, 3);
}

/* What a program writes a moment before the kernel says the same does not stand in its place. */
static void test_a_program_hides_no_fault(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    assert_true(take_number(rig, 11, 1, "fault 1", &finding));
    assert_int_equal(finding.severity, 0);
    assert_true(take_number(rig, 3, 2, "fault 1", &finding));
    assert_int_equal(finding.severity, 3);
}

/* However long it takes to read what was there before: a line is new by its own time. */
static void test_new_in_a_flood(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    rig->kmsg.old = true;
    rig->kmsg.new_usec = 1000000;
    rig->now_ms += 600000;
    assert_true(take(rig, "3,1,999999,-;fault 1\n", &finding));
    assert_int_equal(finding.severity, 0);
    assert_true(take(rig, "3,2,1000000,-;fault 2\n", &finding));
    assert_int_equal(finding.severity, 3);
}

static void test_lines_alike(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    assert_true(take_number(rig, 3, 1, "fault 3", &finding));
    for (uint64_t i = 2; i < 100; i++) {
        assert_false(take_number(rig, 3, i, "fault 3", &finding));
    }
    assert_true(take_number(rig, 3, 100, "fault 4", &finding)); /* about another */
    rig->now_ms += KMSG_AGAIN_MS;
    assert_true(take_number(rig, 3, 101, "fault 3", &finding));
    assert_string_equal(finding.text, "fault 3 (and 98 like it before)");
}

/* However many different faults there are: so many are said, the rest is counted. */
static void test_a_flood_of_faults(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    uint32_t said = 0;
    for (uint64_t i = 1; i <= 10000; i++) {
        char message[64];
        (void)text_format(message, sizeof(message), "fault %llu", (unsigned long long)i);
        said += take_number(rig, 3, i, message, &finding);
    }
    assert_int_equal(said, 2 * KMSG_EVENTS_PER_ROUND);
    assert_int_equal(rig->kmsg.unsaid, 10000 - 2 * KMSG_EVENTS_PER_ROUND);
}

/* Records of programs mean little: they leave room for one that means much. */
static void test_room_for_what_matters(void **state)
{
    struct rig *rig = *state;
    struct finding finding;
    uint32_t said = 0;
    for (uint64_t i = 1; i <= 1000; i++) {
        char message[64];
        (void)text_format(message, sizeof(message), "fault %llu", (unsigned long long)i);
        said += take_number(rig, 1 << 3 | 3, i, message, &finding);
    }
    assert_int_equal(said, KMSG_EVENTS_PER_ROUND);
    assert_true(take_number(rig, 3, 1001, "fault 1001", &finding));
}

/* ---- with the catalogue ------------------------------------------------------------------------- */

static bool look_up(struct kmsg_signal *signal, const char *text, struct finding *ret_finding)
{
    struct kmsg_record record;
    assert_int_equal(kmsg_record_parse(text, strlen(text), &record), 0);
    return kmsg_signal_look(signal, &record, ret_finding);
}

static void test_lines_of_the_catalogue(void **state)
{
    struct err err = {0};
    struct finding finding;
    struct kmsg_signal *signal = kmsg_signal_create("", &err);
    (void)state;
    assert_non_null(signal);
    assert_true(look_up(signal,
                        "3,5,900000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a b, GPU has "
                        "fallen off the bus.\n SUBSYSTEM=pci",
                        &finding));
    assert_string_equal(finding.signal, "xid-79");
    assert_int_equal(finding.severity, 3);
    assert_int_equal(finding.code, 79);
    assert_int_equal(finding.source, FACT_LOG);
    assert_true(look_up(
        signal, "3,5,900000000,-;NVRM: Xid (PCI:0000:3b:00): 45, pid=1, Ch 00000001", &finding));
    assert_int_equal(finding.severity, 0); /* B12: it follows */
    assert_false(look_up(signal, "6,5,900000000,-;device eth0 entered promiscuous mode", &finding));
    assert_string_equal(kmsg_signal_problem(signal), "");
    assert_null(kmsg_signal_free(signal));
}

/* Whoever starts a program chooses its name, and the kernel repeats it. */
static void test_names_of_programs_evict_nobody(void **state)
{
    static const char *const lines[] = {
        "a[7]: segfault at 0 ip 1 sp 2 error 4 in NVRM: Xid (PCI:0000:3b:00): 79, x[400000+1000]",
        "EDAC m: 1 UE[9]: segfault at 0 ip 1 sp 2 error 4 in a[400000+1000]",
        "traps: NVRM: Xid (PCI:0000:3b:00): 79, x[7] general protection fault ip:1 sp:2 error:0",
        "INFO: task Device offlined:12 blocked for more than 120 seconds.",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,"
        "task=NMI: IOCK error,pid=7,uid=1000",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,"
        "task=keepstep-traine,pid=7,uid=1000",
        "Memory cgroup out of memory: Killed process 7 (Leak detected) total-vm:1kB",
        "CPU: 0 PID: 7 Comm: EDAC MC0: 1 UE Tainted: G",
        "EXT4-fs error[7]: bad frame in rt_sigreturn",
    };
    struct err err = {0};
    struct finding finding;
    char record[512];
    struct kmsg_signal *signal = kmsg_signal_create("", &err);
    (void)state;
    assert_non_null(signal);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        (void)text_format(record, sizeof(record), "4,5,900000000,-;%s", lines[i]);
        if (look_up(signal, record, &finding) && finding.severity > 1) {
            fail_msg("severity %u: %s", finding.severity, lines[i]);
        }
    }
    assert_null(kmsg_signal_free(signal));
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void test_files_of_the_site(void **state)
{
    char first[] = "/tmp/keepstep-catalog.XXXXXX";
    char second[] = "/tmp/keepstep-catalog.XXXXXX";
    char list[128];
    struct err err = {0};
    struct finding finding;
    static const char line[] = "3,5,900000000,-;frobnicator 7 has given up";
    (void)state;
    assert_true(close(mkstemp(first)) == 0 && close(mkstemp(second)) == 0);
    put(first, "wrong\n");
    put(second, "frob\thardware-node\tevict_node\troot\tkernel frobnicator\tIt gave up.\n");
    (void)text_format(list, sizeof(list), "%s,%s", first, second);
    struct kmsg_signal *signal = kmsg_signal_create(list, &err);
    assert_non_null(signal);
    assert_non_null(strstr(kmsg_signal_problem(signal), first)); /* the other one counts */
    assert_true(look_up(signal, line, &finding));
    assert_string_equal(finding.signal, "frob");
    assert_int_equal(finding.severity, 3);
    /* Wrong from now on: what was right before stays in use, until all of it is right again. */
    put(second, "frob\tnobody\n");
    kmsg_signal_refresh(signal);
    assert_non_null(strstr(kmsg_signal_problem(signal), first));
    assert_true(look_up(signal, line, &finding));
    put(first, "# nothing\n");
    kmsg_signal_refresh(signal);
    assert_non_null(strstr(kmsg_signal_problem(signal), second));
    assert_true(look_up(signal, line, &finding));
    put(second, "# nothing\n");
    kmsg_signal_refresh(signal);
    assert_string_equal(kmsg_signal_problem(signal), "");
    assert_false(look_up(signal, line, &finding));
    (void)kmsg_signal_free(signal);
    (void)unlink(first);
    (void)unlink(second);
}

/* How long a round over this source takes; it says why it read nothing. */
static uint64_t round_ms(struct probe_rig *probe)
{
    struct timespec from;
    struct timespec to;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    probe_rig_round(probe, 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    assert_int_not_equal(probe->run.why[0], '\0');
    return (uint64_t)((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
}

/* A log that cannot be opened, or not be read, is tried once a round, and costs nothing between. */
static void test_no_log(void **state)
{
    enum { MOST_OF_A_ROUND_MS = 4000, A_MOMENT_MS = 1000 };
    static struct probe_rig probe;
    (void)state;
    probe_rig_open(&probe, &probe_kmsg);
    (void)text_format(probe.config.kmsg, PATH_SIZE, "%s/none", probe.dir);
    probe.run.once = true;
    assert_true(round_ms(&probe) < A_MOMENT_MS);
    probe.run.once = false;
    assert_true(round_ms(&probe) >= MOST_OF_A_ROUND_MS);
    (void)text_copy(probe.config.kmsg, PATH_SIZE, probe.dir); /* a folder opens and does not read */
    assert_true(round_ms(&probe) >= MOST_OF_A_ROUND_MS);
    probe_rig_close(&probe);
}

#define KMSG_TEST(function) cmocka_unit_test_setup(function, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KMSG_TEST(test_shapes),
        KMSG_TEST(test_random_records),
        KMSG_TEST(test_a_line_is_said),
        KMSG_TEST(test_the_cursor),
        KMSG_TEST(test_overwritten_lines_are_counted),
        KMSG_TEST(test_records_of_programs),
        KMSG_TEST(test_lines_from_before),
        KMSG_TEST(test_a_program_hides_no_fault),
        KMSG_TEST(test_new_in_a_flood),
        KMSG_TEST(test_lines_alike),
        KMSG_TEST(test_a_flood_of_faults),
        KMSG_TEST(test_room_for_what_matters),
        KMSG_TEST(test_no_log),
        cmocka_unit_test(test_lines_of_the_catalogue),
        cmocka_unit_test(test_names_of_programs_evict_nobody),
        cmocka_unit_test(test_files_of_the_site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
