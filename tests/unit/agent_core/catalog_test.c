/* catalog_test.c: files of the catalogue, how they join, and what is asked of which stream. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/catalog.h"
#include "proto/base/check.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

static struct catalog *empty(void)
{
    struct catalog_limits limits;
    struct catalog *catalog = NULL;
    catalog_limits_default(&limits);
    assert_int_equal(catalog_create(&limits, &catalog), 0);
    return catalog;
}

static struct catalog *shipped(void)
{
    struct catalog *catalog = empty();
    struct err err = {0};
    if (catalog_read_shipped(catalog, &err) != 0) {
        fail_msg("%s", err.text);
    }
    return catalog;
}

static void add(struct catalog *catalog, const char *text)
{
    struct err err = {0};
    if (catalog_read(catalog, "site.tsv", text, strlen(text), &err) != 0) {
        fail_msg("%s", err.text);
    }
}

static struct signal look(const struct catalog *catalog, enum line_stream stream, const char *line)
{
    struct signal signal;
    const bool known = catalog_look(catalog, stream, line, strlen(line), &signal);
    assert_int_equal(known, signal.name[0] != '\0');
    return signal;
}

static void check_name(const struct catalog *catalog, enum line_stream stream, const char *line,
                       const char *name)
{
    const struct signal signal = look(catalog, stream, line);
    if (!text_equal(signal.name, name)) {
        fail_msg("'%s' is '%s', not '%s'", line, signal.name, name);
    }
}

static void test_a_row(void **state)
{
    (void)state;
    struct catalog *catalog = empty();
    add(catalog, "# a comment\n\n"
                 "fan\tfacility\tdegrade_watch\troot\tkernel fan %S failed with %D\tA fan.\r\n");
    assert_int_equal(catalog_count(catalog), 1);
    const struct signal signal = look(catalog, STREAM_KERNEL, "[1.0] fan fan7 failed with -5");
    assert_string_equal(signal.name, "fan");
    assert_int_equal(signal.label, LABEL_FACILITY);
    assert_int_equal(signal.advice, ADVICE_WATCH);
    assert_int_equal(signal.role, ROLE_ROOT);
    assert_int_equal(signal.code, -5);
    assert_string_equal(signal.subject, "fan7");
    assert_string_equal(signal.explain, "A fan.");
    const struct signal unknown = look(catalog, STREAM_KERNEL, "fan fan7 runs");
    assert_int_equal(unknown.label, LABEL_UNKNOWN);
    assert_int_equal(unknown.advice, ADVICE_NONE);
    assert_int_equal(unknown.role, ROLE_NOISE);
    assert_int_equal(unknown.code, SIGNAL_NO_CODE);
    assert_string_equal(unknown.explain, "");
    catalog_free(catalog);
}

/* What is wrong is said with file and line, and nothing of the file is taken. */
static void test_wrong_lines(void **state)
{
    static const struct {
        const char *line;
        const char *says;
    } cases[] = {
        {"fan", "has 1 columns, not 6"},
        {"fan\tfacility\tnone\troot\tany fan fan", "has 5 columns, not 6"},
        {"fan\tfacility\tnone\troot\tany fan fan\tx\ty", "more than 6 columns"},
        {"Fan\tfacility\tnone\troot\tany fan fan\tx", "'Fan' is no name"},
        {"\tfacility\tnone\troot\tany fan fan\tx", "'' is no name"},
        {"a-name-that-is-longer-than-31-characters\tfacility\tnone\troot\tany fan\tx",
         "is no name"},
        {"fan\thardware\tnone\troot\tany fan fan\tx", "'hardware' is no label: unknown, benign"},
        {"fan\tfacility\tevict\troot\tany fan fan\tx", "'evict' is no action: none, follow_root"},
        {"fan\tfacility\tnone\tchief\tany fan fan\tx", "'chief' is no role: noise, cascade"},
        {"fan\tbenign\tnone\troot\tany fan fan\tx", "a benign line is never a root"},
        {"fan\tcascade\tnone\troot\tany fan fan\tx", "a cascade line is never a root"},
        {"fan\tfacility\tnone\troot\tsyslog fan\tx", "'syslog' is no kind of match"},
        {"fan\tfacility\tnone\troot\t\tx", "'' is no kind of match"},
        {"fan\tfacility\tnone\troot\tkernel\tx", "has no pattern"},
        {"fan\tfacility\tnone\troot\tkernel a%d\tx", "its pattern: needs at least 3"},
        {"fan\tfacility\tnone\troot\txid seven\tx", "'seven' is no code"},
        {"fan\tfacility\tnone\troot\txid 7x\tx", "'7x' is no code"},
        {"fan\tfacility\tnone\troot\txid 7 deadly\tx", "stands fatal, nonfatal or nothing"},
        {"fan\tfacility\tnone\troot\txid 7 fatal blow\tx", "'blow' is too much behind xid"},
        {"fan\tfacility\tnone\troot\trecovery 99\tx", "a number up to 15"},
        {"fan\tfacility\tnone\troot\tnvlink5 144 01 10 *\tx", "has 32 bits, here stand 2"},
        {"fan\tfacility\tnone\troot\tnvlink5 144 0000000000000000000000000000000x "
         "00000000000000000000000000000000 *\tx",
         "are 0, 1 and -"},
        {"fan\tfacility\tnone\troot\tnvlink5 79 00000000000000000000000000000000 "
         "00000000000000000000000000000000 *\tx",
         "is for Xids 144 to 150"},
        {"fan\tfacility\tnone\troot\tnvlink5 144 00000000000000000000000000000000 "
         "00000000000000000000000000000000 zz\tx",
         "the error status in hex"},
        {"fan\tfacility\tnone\troot\twatchdog maybe\tx", "differs or nothing"},
        {"fan\tfacility\tnone\troot\toom rack *\tx", "group, node or *"},
        {"fan\tfacility\tnone\troot\toom node\tx", "which victims?"},
        {"fan\tfacility\tnone\troot\tany fan fan\t", "the explanation has 1 to"},
        {"fan\tfacility\tnone\troot\tany fan fan\t\xff", "no text in UTF-8"},
        {"good\tfacility\tnone\troot\tany some fan\tx", "a row 'good' is in this file already"},
        {"other\tfacility\tnone\troot\tany good one\tx", "what it matches is of 'good' is in"},
    };
    (void)state;
    struct catalog *catalog = empty();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[1024];
        struct err err = {0};
        (void)snprintf(text, sizeof(text), "good\tfacility\tnone\troot\tany good one\tx\n%s\n",
                       cases[i].line);
        assert_int_equal(catalog_read(catalog, "site.tsv", text, strlen(text), &err), -EINVAL);
        if (strncmp(err.text, "site.tsv:2: ", 12) != 0 || strstr(err.text, cases[i].says) == NULL) {
            fail_msg("'%s' says '%s', not '%s'", cases[i].line, err.text, cases[i].says);
        }
        assert_int_equal(catalog_count(catalog), 0);
    }
    catalog_free(catalog);
}

struct problems {
    uint32_t count;
    char last[256];
};

static void keep_problem(void *context, const char *text)
{
    struct problems *problems = context;
    problems->count++;
    (void)text_copy(problems->last, sizeof(problems->last), text);
}

static void test_a_check_says_all(void **state)
{
    static const char text[] = "one\n"
                               "good\tfacility\tnone\troot\tany good one\tx\n"
                               "two\n";
    struct problems problems = {0};
    (void)state;
    struct catalog *catalog = empty();
    assert_int_equal(
        catalog_check(catalog, "site.tsv", text, strlen(text), keep_problem, &problems), 2);
    assert_int_equal(problems.count, 2);
    assert_memory_equal(problems.last, "site.tsv:3: ", 12);
    assert_int_equal(catalog_count(catalog), 0);
    check_name(catalog, STREAM_ANY, "a good one", "");
    catalog_free(catalog);
}

/* What is wrong with a file as a whole is said once, and of no line. */
static void test_a_check_of_a_whole_file(void **state)
{
    static char text[CATALOG_FILE_MAX + 1];
    char expected[96];
    struct problems problems = {0};
    (void)state;
    struct catalog *catalog = empty();
    memset(text, '\n', sizeof(text));
    assert_int_equal(catalog_check(catalog, "site.tsv", text, 0, keep_problem, &problems), 0);
    assert_int_equal(
        catalog_check(catalog, "site.tsv", text, CATALOG_FILE_MAX, keep_problem, &problems), 0);
    assert_int_equal(problems.count, 0);
    assert_int_equal(
        catalog_check(catalog, "site.tsv", text, sizeof(text), keep_problem, &problems), 1);
    assert_int_equal(problems.count, 1);
    (void)snprintf(expected, sizeof(expected), "site.tsv: has %zu bytes, more than %d",
                   sizeof(text), CATALOG_FILE_MAX);
    assert_string_equal(problems.last, expected);
    catalog_free(catalog);
}

static void test_a_site_has_the_last_word(void **state)
{
    (void)state;
    struct catalog *catalog = shipped();
    const uint32_t count = catalog_count(catalog);
    check_name(catalog, STREAM_KERNEL, "NVRM: Xid (PCI:0000:3b:00): 63, x", "xid-63");
    add(catalog, "xid-63\thardware-node\tevict_node\troot\txid 63\tOurs.\n" /* by name */
                 "our-64\thardware-node\tevict_node\troot\txid 64\tOurs.\n" /* by code */
                 "iteration\toff\n"                                         /* out */
                 "our-info\tuser-code\tnone\tsymptom\toutput NCCL INFO*ours\tOurs.\n"); /* new */
    assert_int_equal(catalog_count(catalog), count);
    const struct signal mine = look(catalog, STREAM_KERNEL, "NVRM: Xid (PCI:0000:3b:00): 63, x");
    assert_int_equal(mine.advice, ADVICE_EVICT);
    assert_string_equal(mine.explain, "Ours.");
    check_name(catalog, STREAM_KERNEL, "NVRM: Xid (PCI:0000:3b:00): 64, x", "our-64");
    check_name(catalog, STREAM_OUTPUT, "iteration 7/ 9 |", "");
    check_name(catalog, STREAM_OUTPUT, "n:1:2 [0] NCCL INFO is ours", "our-info");
    check_name(catalog, STREAM_OUTPUT, "n:1:2 [0] NCCL INFO is not", "nccl-info");
    catalog_free(catalog);
}

/* A row that takes the name of one and the match of another one leaves neither behind. */
static void test_name_and_match_of_two(void **state)
{
    (void)state;
    struct catalog *catalog = empty();
    add(catalog, "a\tuser-code\tnone\troot\tany first text\tx\n"
                 "b\tuser-code\tnone\troot\tany second text\tx\n"
                 "c\tuser-code\tnone\troot\tany third text\tx\n");
    add(catalog, "c\tuser-code\tnone\troot\tany first text\ty\n");
    assert_int_equal(catalog_count(catalog), 2);
    check_name(catalog, STREAM_ANY, "first text", "c");
    check_name(catalog, STREAM_ANY, "second text", "b");
    check_name(catalog, STREAM_ANY, "third text", "");
    catalog_free(catalog);
}

/* A parser knows more codes than a short catalogue has rows: such a line is left to the patterns. */
static void test_a_code_without_a_row(void **state)
{
    (void)state;
    struct catalog *catalog = empty();
    add(catalog, "mine\thardware-node\tevict_node\troot\txid 79\tx\n"
                 "switch\tfacility\tnone\troot\tsxid 12028\tx\n"
                 "port\tfacility\tnone\troot\tcompletion 12\tx\n"
                 "mixed\tuser-code\tnone\troot\twatchdog differs\tx\n"
                 "daemon\tfacility\tnone\troot\toom node slurmd\tx\n");
    check_name(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:3b:00): 79, x", "mine");
    check_name(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:3b:00): 13, x", "");
    check_name(catalog, STREAM_ANY, "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12029, x", "");
    check_name(catalog, STREAM_ANY, "NET/IB : Got completion with error 5, opcode 1", "");
    check_name(catalog, STREAM_ANY, "[Rank 3] WorkNCCL(SeqNum=49, OpType=BROADCAST, x)", "");
    check_name(catalog, STREAM_ANY, "Out of memory: Killed process 7 (python3) total", "");
    check_name(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:3b:00): 79, x", "mine");
    check_name(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:3b:00): none", "");
    add(catalog, "any-xid\tunknown\tnone\tsymptom\tkernel NVRM: Xid\tx\n");
    check_name(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:3b:00): 79, x", "mine");
    check_name(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:3b:00): 13, x", "any-xid");
    catalog_free(catalog);
}

static void test_the_first_pattern_counts(void **state)
{
    (void)state;
    struct catalog *catalog = empty();
    add(catalog, "narrow\tuser-code\tnone\troot\tany error 7 of\tx\n"
                 "wide\tuser-code\tnone\troot\tany error\tx\n");
    check_name(catalog, STREAM_ANY, "an error 7 of it", "narrow");
    check_name(catalog, STREAM_ANY, "an error 8 of it", "wide");
    add(catalog, "later\tuser-code\tnone\troot\tany error 7\tx\n");
    check_name(catalog, STREAM_ANY, "an error 7 of it", "later");
    catalog_free(catalog);
}

/* A rank can print what it likes. */
static void test_streams(void **state)
{
    static const char xid[] = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a, gone";
    static const char memory[] = "Out of memory: Killed process 7 (slurmd) total-vm:1kB";
    static const char output[] = "n:1:2 [0] NCCL WARN Duplicate GPU detected : rank 1 and 2";
    static const char reading[] = "gpu=3 clocks_event_reasons=0x48 (x) sm_clock=1 temp=9";
    (void)state;
    struct catalog *catalog = shipped();
    check_name(catalog, STREAM_ANY, xid, "xid-79");
    check_name(catalog, STREAM_KERNEL, xid, "xid-79");
    check_name(catalog, STREAM_OUTPUT, xid, "");
    check_name(catalog, STREAM_AGENT, xid, "");
    check_name(catalog, STREAM_KERNEL, memory, "oom-daemon-victim");
    check_name(catalog, STREAM_OUTPUT, memory, "");
    check_name(catalog, STREAM_OUTPUT, output, "nccl-duplicate-gpu");
    check_name(catalog, STREAM_KERNEL, output, "");
    check_name(catalog, STREAM_AGENT, reading, "clocks-slowed");
    check_name(catalog, STREAM_OUTPUT, reading, "");
    catalog_free(catalog);
}

static void test_raw_records(void **state)
{
    (void)state;
    struct catalog *catalog = shipped();
    const struct signal kernel =
        look(catalog, STREAM_KERNEL, "4,991,77000000,-;NVRM: Xid (PCI:0000:3b:00): 79, x");
    assert_false(kernel.from_user);
    assert_int_equal(kernel.kmsg_sequence, 991);
    assert_int_equal(kernel.kmsg_usec, 77000000);
    static const char injected[] = "12,992,77000001,-;NVRM: Xid (PCI:0000:3b:00): 79, x";
    const struct signal user = look(catalog, STREAM_KERNEL, injected);
    assert_true(user.from_user);
    assert_string_equal(user.name, "xid-79");
    struct fact fact;
    signal_fact(&user, STREAM_KERNEL, injected, strlen(injected), &fact);
    assert_int_equal(fact.role, ROLE_NOISE);
    assert_int_equal(fact.severity, 0);
    catalog_free(catalog);
}

static void test_what_a_signal_tells(void **state)
{
    (void)state;
    struct catalog *catalog = shipped();
    const struct signal again =
        look(catalog, STREAM_ANY,
             "NVRM: Xid (PCI:0000:18:00): 13, pid=4, SM exception on (GPC 2, TPC 5, SM 1)");
    assert_int_equal(again.kind, SIGNAL_XID);
    assert_int_equal(again.code, 13);
    assert_string_equal(again.pci, "0000:18:00");
    assert_string_equal(again.subject, "0000:18:00 GPC 2 TPC 5");

    const struct signal wish = look(
        catalog, STREAM_ANY,
        "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (x)");
    assert_int_equal(wish.kind, SIGNAL_RECOVERY);
    assert_int_equal(wish.code, 2);
    assert_string_equal(wish.name, "recovery-2");

    const struct signal late = look(
        catalog, STREAM_ANY,
        "[rank784]:[E ProcessGroupNCCL.cpp:607] [Rank 784] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=9120, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000)");
    assert_int_equal(late.kind, SIGNAL_WATCHDOG);
    assert_int_equal(late.sequence, 9120);
    assert_string_equal(late.operation, "ALLREDUCE");
    assert_string_equal(late.subject, "seq=9120 op=ALLREDUCE");
    assert_int_equal(late.rank, 784);
    assert_true(late.role != ROLE_ROOT);

    const struct signal peer =
        look(catalog, STREAM_ANY,
             "n1:9:7 [3] x.cc:1 NCCL WARN NET/IB : Got completion from peer 10.4.0.5<4> with "
             "status=12 opcode=0 len=0 vendor err 129 (Send)");
    assert_int_equal(peer.kind, SIGNAL_COMPLETION);
    assert_int_equal(peer.code, 12);
    assert_string_equal(peer.subject, "10.4.0.5");
    assert_int_equal(peer.gpu, 3);

    const struct signal server =
        look(catalog, STREAM_ANY, "nfs: server 10.9.0.16 not responding, still trying");
    assert_string_equal(server.subject, "10.9.0.16");
    const struct signal device =
        look(catalog, STREAM_ANY,
             "x.cc:2 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)");
    assert_string_equal(device.subject, "mlx5_3:1");
    catalog_free(catalog);
}

/* What is the effect of another Xid is no root, whatever its own row says. */
static void test_effects_are_no_roots(void **state)
{
    (void)state;
    struct catalog *catalog = shipped();
    assert_int_equal(look(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:18:00): 79, x").role,
                     ROLE_ROOT);
    const struct signal after =
        look(catalog, STREAM_ANY, "NVRM: Xid (PCI:0000:18:00): 79, x caused by previous Xid 149");
    assert_int_equal(after.role, ROLE_SYMPTOM);
    assert_int_equal(after.previous, 149);
    assert_int_equal(
        look(catalog, STREAM_ANY, "NVRM: x: RC all channels for critical error 79.").role,
        ROLE_SYMPTOM);
    const struct signal detail =
        look(catalog, STREAM_ANY, "nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 22003, Severity 1 x");
    assert_int_equal(detail.role, ROLE_NOISE);
    assert_int_equal(detail.label, LABEL_BENIGN);
    catalog_free(catalog);
}

static void test_a_port_without_a_cable(void **state)
{
    (void)state;
    struct catalog *catalog = shipped();
#define UNPLUGGED "mlx5_core 0000:41:00.1: Port module event: module 1, Cable unplugged"
    check_name(catalog, STREAM_ANY, "<6>[    2.9] " UNPLUGGED, "mlx5-unplugged-boot");
    check_name(catalog, STREAM_ANY, "6,1,2900000,-;" UNPLUGGED, "mlx5-unplugged-boot");
    check_name(catalog, STREAM_ANY, "[300.0] " UNPLUGGED, "mlx5-unplugged");
    check_name(catalog, STREAM_ANY, UNPLUGGED, "mlx5-unplugged");
#undef UNPLUGGED
    catalog_free(catalog);
}

static void test_facts(void **state)
{
    static const char line[] = "[  7.5] NVRM: Xid (PCI:0000:3b:00): 48, \xff x";
    struct fact fact;
    (void)state;
    struct catalog *catalog = shipped();
    const struct signal signal = look(catalog, STREAM_KERNEL, line);
    signal_fact(&signal, STREAM_KERNEL, line, strlen(line), &fact);
    assert_int_equal(fact.source, FACT_LOG);
    assert_int_equal(fact.severity, 3);
    assert_int_equal(fact.code, 48);
    assert_int_equal(fact.rank, -1);
    assert_int_equal(fact.gpu, -1);
    assert_string_equal(fact.signal, "xid-48");
    assert_string_equal(fact.subject, "0000:3b:00");
    assert_string_equal(fact.text, "NVRM: Xid (PCI:0000:3b:00): 48, ? x");
    signal_fact(&signal, STREAM_AGENT, line, strlen(line), &fact);
    assert_int_equal(fact.source, FACT_PROBE);
    catalog_free(catalog);
}

static void test_limits(void **state)
{
    struct catalog_limits limits;
    struct catalog *catalog = NULL;
    struct err err = {0};
    static const char two[] = "a\tuser-code\tnone\troot\tany first text\tx\n"
                              "b\tuser-code\tnone\troot\tany second text\tx\n";
    (void)state;
    catalog_limits_default(&limits);
    limits.rows = 0;
    assert_int_equal(catalog_create(&limits, &catalog), -EINVAL);
    limits.rows = 1;
    limits.keys = 3;
    assert_int_equal(catalog_create(&limits, &catalog), -EINVAL);
    limits.keys = UINT16_MAX; /* a key has its number in 16 bits, from 1 on */
    assert_int_equal(catalog_create(&limits, &catalog), -EINVAL);
    limits.keys = 400;
    limits.text_bytes = 1000;
    assert_int_equal(catalog_create(&limits, &catalog), 0);
    assert_int_equal(catalog_read(catalog, "f", two, strlen(two), &err), -ENOSPC);
    assert_string_equal(err.text, "f:2: no room for more than 1 rows");
    assert_int_equal(catalog_count(catalog), 0);
    catalog_free(catalog);

    limits.rows = 9;
    limits.text_bytes = 30;
    assert_int_equal(catalog_create(&limits, &catalog), 0);
    assert_int_equal(catalog_read(catalog, "f", two, strlen(two), &err), -ENOSPC);
    assert_string_equal(err.text, "f:2: no room for more than 30 bytes of texts");
    catalog_free(catalog);

    limits.text_bytes = 1000;
    limits.keys = 8;
    assert_int_equal(catalog_create(&limits, &catalog), 0);
    assert_int_equal(catalog_read(catalog, "f", two, strlen(two), &err), -ENOSPC);
    assert_non_null(strstr(err.text, "f:2: no room for more than 8 patterns"));
    check_name(catalog, STREAM_ANY, "first text", "");
    catalog_free(catalog);

    limits.keys = 400;
    limits.items = 1;
    assert_int_equal(catalog_create(&limits, &catalog), 0);
    assert_int_equal(catalog_read(catalog, "f", two, strlen(two), &err), -ENOSPC);
    assert_string_equal(err.text, "f:2: no room for more than 1 parts of patterns");
    catalog_free(catalog);

    limits.items = 2; /* as many as there are */
    assert_int_equal(catalog_create(&limits, &catalog), 0);
    assert_int_equal(catalog_read(catalog, "f", two, strlen(two), &err), 0);
    check_name(catalog, STREAM_ANY, "second text", "b");
    catalog_free(catalog);
}

/* The filter finds each key wherever it stands, also one within another. */
static void test_every_key_is_found(void **state)
{
    char text[8192] = "";
    (void)state;
    struct catalog *catalog = empty();
    for (int i = 0; i < 90; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used,
                       "r%d\tuser-code\tnone\troot\tany %.*s-%d.\tx\n", i, 3 + i % 9,
                       "abcabcabcabcabc", i);
    }
    add(catalog, text);
    for (int i = 0; i < 90; i++) {
        char line[128];
        char name[8];
        (void)snprintf(line, sizeof(line), "ababc%.*s-%d.", 3 + i % 9, "abcabcabcabcabc", i);
        (void)snprintf(name, sizeof(name), "r%d", i);
        check_name(catalog, STREAM_ANY, line, name);
    }
    catalog_free(catalog);
}

/* Any bytes, any size. */
static void test_any_bytes(void **state)
{
    struct prng prng;
    (void)state;
    prng_seed(&prng, 7);
    struct catalog *catalog = shipped();
    static char line[CATALOG_LOOK_MAX * 2];
    for (int i = 0; i < 2000; i++) {
        const size_t size = (size_t)prng_below(&prng, i % 100 == 0 ? sizeof(line) : 200);
        for (size_t at = 0; at < size; at++) {
            line[at] = (char)prng_next(&prng);
        }
        struct signal signal;
        (void)catalog_look(catalog, STREAM_ANY, line, size, &signal);
    }
    memset(line, 'x', sizeof(line));
    memcpy(line + CATALOG_LOOK_MAX, "CUDA out of memory", 18);
    struct signal signal;
    assert_false(catalog_look(catalog, STREAM_ANY, line, sizeof(line), &signal));
    assert_false(catalog_look(catalog, STREAM_ANY, "", 0, &signal));
    catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row),
        cmocka_unit_test(test_wrong_lines),
        cmocka_unit_test(test_a_check_says_all),
        cmocka_unit_test(test_a_check_of_a_whole_file),
        cmocka_unit_test(test_a_site_has_the_last_word),
        cmocka_unit_test(test_name_and_match_of_two),
        cmocka_unit_test(test_a_code_without_a_row),
        cmocka_unit_test(test_the_first_pattern_counts),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_raw_records),
        cmocka_unit_test(test_what_a_signal_tells),
        cmocka_unit_test(test_effects_are_no_roots),
        cmocka_unit_test(test_a_port_without_a_cable),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_every_key_is_found),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
