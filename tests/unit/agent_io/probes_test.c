/* probes_test.c: the whole agent with probes over sources of the test's own: what is found arrives,
 * is repeated until it is acknowledged, and outlives the agent. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static pid_t fuse_pid; /* of the file system that never answers; 0: none */

/* Everybody who waits in it gets an error. */
static void fuse_end(void)
{
    if (fuse_pid > 0) {
        (void)kill(fuse_pid, SIGTERM);
        (void)waitpid(fuse_pid, NULL, 0);
        fuse_pid = 0;
    }
}

static int teardown(void **state)
{
    fuse_end();
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

/* So much was there before that reading it takes seconds: the last of it is as old as the first. */
static void test_much_from_before(void **state)
{
    enum { LINES = 600000, LINE_MAX = 96 };
    struct agent_rig *rig = open_kmsg(state);
    char *text = mem_alloc(LINES, LINE_MAX);
    size_t used = 0;
    for (uint32_t i = 1; i <= LINES; i++) {
        (void)text_format(text + used, LINE_MAX, "6,%u,5,-;usb %u-1: a line of no meaning\n", i, i);
        used += strlen(text + used);
    }
    (void)text_format(text + used, LINE_MAX,
                      "3,%u,5,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, lost.\n", LINES + 1);
    put_file(rig, text, O_TRUNC, "kmsg");
    mem_free(text);
    rig_start(rig);
    const uint64_t begin = fake_now_ms();
    assert_true(wait_fact(rig, "xid-79", 3 * LONG_MS));
    if (fake_now_ms() <= begin + 2000) {
        skip(); /* all was read in the time that old lines had before: this shows nothing */
    }
    assert_int_equal(fake_fact(&rig->fake, "xid-79")->severity, 0);
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

/* More than can be kept while nobody answers: the heaviest are kept, the rest is counted, and all that
 * piled up is said soon after. */
static void test_more_events_than_places(void **state)
{
    enum { LINES = 200, ALL_MS = 8000 };
    struct agent_rig *rig = open_kmsg(state);
    char line[256];
    rig->fake.ack = false;
    rig_start(rig);
    wait_for_reader(rig);
    for (uint32_t i = 0; i < LINES; i++) {
        (void)text_format(line, sizeof(line),
                          "3,%u,5,-;NVRM: Xid (PCI:0000:%02x:00): 45, pid=1, Ch 00000001\n",
                          101 + i, i);
        put_file(rig, line, O_APPEND, "kmsg");
    }
    (void)text_format(line, sizeof(line), "3,%u,5,-;NVRM: Xid (PCI:0000:ff:00): 79, pid=1, lost\n",
                      101 + LINES);
    put_file(rig, line, O_APPEND, "kmsg");
    (void)fake_wait(&rig->fake, NULL, NULL, 2500);
    assert_null(fake_fact(&rig->fake, "xid-79")); /* what came before is not acknowledged */
    rig->fake.ack = true;
    assert_true(wait_fact(rig, "xid-79", ALL_MS));
    assert_true(wait_fact(rig, "events-lost", ALL_MS));
}

static bool has_validated(const struct fake_controller *fake, void *context)
{
    return fake->validated.nonce == *(const uint64_t *)context;
}

/* Asked whether its node is fit. */
static const struct msg_validated *validate(struct agent_rig *rig, uint64_t nonce, uint32_t ms)
{
    struct message ask = {.kind = MSG_VALIDATE};
    ask.u.validate =
        (struct msg_validate){.nonce = nonce, .level = VALIDATE_QUICK, .timeout_ms = ms};
    fake_send(&rig->fake, &ask);
    assert_true(fake_wait(&rig->fake, has_validated, &nonce, LONG_MS));
    return &rig->fake.validated;
}

/* One port that carries traffic and has been seen to; down for a second it is down for good. */
static void start_with_port(struct agent_rig *rig)
{
    put_port(rig, "4: ACTIVE\n", "5: LinkUp\n");
    (void)text_copy(rig->probes, sizeof(rig->probes), "ports");
    add_flag(rig, "sysfs", "sys");
    (void)text_copy(rig->probe_flags[rig->probe_flag_count++], 32, "--port-down=1s");
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_session, NULL, LONG_MS));
    (void)fake_wait(&rig->fake, NULL, NULL, 3000);
}

/* What is broken on a spare keeps it from being used; that the machine goes down is no fault. */
static bool beat_is(const struct fake_controller *fake, void *context)
{
    return fake->welcomed && fake->beat.sequence > 0 &&
           fake->beat.checks_ok == *(const bool *)context;
}

static void test_broken_and_well_again(void **state)
{
    struct agent_rig *rig = *state;
    bool well = false;
    if (!rig_open(rig)) {
        skip();
    }
    start_with_port(rig);
    assert_true(rig->fake.beat.checks_ok);
    put_port(rig, "1: DOWN\n", "2: Polling\n");
    assert_true(fake_wait(&rig->fake, beat_is, &well, LONG_MS));
    assert_non_null(strstr(rig->fake.beat.checks_text, "mlx5_0/1 state=1:DOWN"));
    assert_false(validate(rig, 5, 5000)->ok);
    assert_non_null(strstr(rig->fake.validated.text, "mlx5_0/1 state=1:DOWN"));
    put_port(rig, "4: ACTIVE\n", "5: LinkUp\n");
    well = true;
    assert_true(fake_wait(&rig->fake, beat_is, &well, LONG_MS));
    assert_true(validate(rig, 6, 5000)->ok);
}

static void test_a_machine_that_goes_down(void **state)
{
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    put_file(rig, "USEC=1\nMODE=poweroff\n", 0, "run/systemd/shutdown/scheduled");
    (void)text_copy(rig->probes, sizeof(rig->probes), "shutdown");
    add_flag(rig, "runfs", "run");
    rig_start(rig);
    assert_true(wait_fact(rig, "host-shutdown", LONG_MS));
    assert_int_equal(fake_fact(&rig->fake, "host-shutdown")->label, LABEL_OPERATOR);
    assert_int_equal(rig_end(rig, SIGTERM), 0);
    assert_true(rig->fake.has_goodbye);
    assert_int_equal(rig->fake.goodbye.kind, GOODBYE_REBOOT);
}

/* ---- probes that hang ------------------------------------------------------------------------------ */

/* False: no such file system can be mounted here. */
static bool fuse_begin(struct agent_rig *rig)
{
    char program[600];
    char mount[256];
    char said[64] = "";
    int out[2];
    (void)text_copy(program, sizeof(program), rig->agent);
    char *slash = strrchr(program, '/');
    assert_non_null(slash);
    *slash = '\0';
    (void)text_format(slash, sizeof(program) - strlen(program), "/tests/bin/fuse_dstate");
    (void)text_format(mount, sizeof(mount), "%s/hanging", rig->dir);
    assert_int_equal(mkdir(mount, 0700), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    fuse_pid = fork();
    assert_true(fuse_pid >= 0);
    if (fuse_pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execl(program, program, mount, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    const ssize_t got = read(out[0], said, sizeof(said) - 1);
    (void)close(out[0]);
    return got > 0 && strncmp(said, "mounted", 7) == 0;
}

static void copy_file(const char *from, const char *to)
{
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    const int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    struct stat status;
    assert_true(in >= 0 && out >= 0 && fstat(in, &status) == 0);
    assert_int_equal(sendfile(out, in, NULL, (size_t)status.st_size), status.st_size);
    (void)close(in);
    (void)close(out);
}

static ssize_t read_proc(const char *pid, const char *file, char text[4096])
{
    char path[300];
    (void)text_format(path, sizeof(path), "/proc/%s/%s", pid, file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, text, 4095) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    return got;
}

/* A process of this rig's probes, by its command line. */
static bool is_probe(const struct agent_rig *rig, const char *pid)
{
    char text[4096];
    const ssize_t got = read_proc(pid, "cmdline", text);
    return got > 0 && memmem(text, (size_t)got, "probe-run", 9) != NULL &&
           memmem(text, (size_t)got, rig->dir, strlen(rig->dir)) != NULL;
}

/* How many there are; `letter`: of those in this state. */
static uint32_t probe_processes(const struct agent_rig *rig, char letter)
{
    uint32_t count = 0;
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
        char text[4096];
        if (!is_probe(rig, entry->d_name)) {
            continue;
        }
        (void)read_proc(entry->d_name, "stat", text);
        const char *close_mark = strrchr(text, ')');
        count += letter == '\0' || (close_mark != NULL && close_mark[2] == letter);
    }
    (void)closedir(proc);
    return count;
}

/* Sends it to the rig's probes; how many there were. */
static uint32_t probe_signal(const struct agent_rig *rig, int number)
{
    uint32_t count = 0;
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
        uint64_t pid = 0;
        if (text_to_u64(entry->d_name, INT32_MAX, &pid) == 0 && is_probe(rig, entry->d_name)) {
            (void)kill((pid_t)pid, number);
            count++;
        }
    }
    (void)closedir(proc);
    return count;
}

/* What the probes see now, not what they saw when they looked last; one that does not come round has
 * shown nothing. */
static void test_fit_by_its_probes(void **state)
{
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    start_with_port(rig);
    assert_true(validate(rig, 1, 20000)->ok);
    put_port(rig, "1: DOWN\n", "2: Polling\n");
    (void)fake_wait(&rig->fake, NULL, NULL, 2500);
    assert_false(validate(rig, 2, 20000)->ok);
    assert_non_null(strstr(rig->fake.validated.text, "mlx5_0/1 state=1:DOWN"));
    put_port(rig, "4: ACTIVE\n", "5: LinkUp\n");
    (void)fake_wait(&rig->fake, NULL, NULL, 2500);
    assert_true(validate(rig, 3, 20000)->ok);
    assert_true(probe_signal(rig, SIGSTOP) > 0);
    assert_false(validate(rig, 4, 1500)->ok);
    assert_non_null(strstr(rig->fake.validated.text, "probe ports has not come round"));
    (void)probe_signal(rig, SIGCONT);
}

static void add_fake_nvml(struct agent_rig *rig, const char *script)
{
    char library[600];
    char path[256];
    (void)text_copy(library, sizeof(library), rig->agent);
    (void)text_format(strrchr(library, '/'), 64, "/tests/bin/fake_nvml.so");
    (void)text_format(path, sizeof(path), "%s/nvml.so", rig->dir);
    copy_file(library, path);
    put_file(rig, script, 0, "nvml.so.script");
    add_flag(rig, "nvml", "nvml.so");
}

/* A probe that ends after each round is in the middle of one when it is asked: it looks again at once,
 * not a period later. */
static void test_asked_in_the_middle_of_a_round(void **state)
{
    struct agent_rig *rig = *state;
    char path[256];
    struct message ask = {.kind = MSG_VALIDATE};
    uint64_t nonce = 7;
    int held = -1;
    if (!rig_open(rig)) {
        skip();
    }
    put_file(rig, "0\n", 0, "sys/devices/system/edac/mc/mc0/ue_count");
    put_file(rig, "0\n", 0, "sys/devices/system/edac/mc/mc0/ce_count");
    put_file(rig, "", 0, "proc/sys/kernel/random/boot_id");
    (void)text_format(path, sizeof(path), "%s/proc/sys/kernel/random/boot_id", rig->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* who opens it waits for us */
    (void)text_copy(rig->probes, sizeof(rig->probes), "memory");
    add_flag(rig, "sysfs", "sys");
    add_flag(rig, "procfs", "proc");
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_session, NULL, LONG_MS));
    for (const uint64_t end = fake_now_ms() + LONG_MS; held < 0 && fake_now_ms() < end;) {
        held = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        (void)fake_wait(&rig->fake, NULL, NULL, 20);
    }
    assert_true(held >= 0);
    ask.u.validate =
        (struct msg_validate){.nonce = nonce, .level = VALIDATE_QUICK, .timeout_ms = 15000};
    fake_send(&rig->fake, &ask);
    (void)fake_wait(&rig->fake, NULL, NULL, SHORT_MS);
    assert_int_equal(unlink(path), 0);
    put_file(rig, "a-boot\n", 0, "proc/sys/kernel/random/boot_id");
    assert_int_equal(write(held, "a-boot\n", 7), 7);
    (void)close(held);
    assert_true(fake_wait(&rig->fake, has_validated, &nonce, LONG_MS));
    assert_true(rig->fake.validated.ok);
}

/* A driver that never answers: that its probe was given up is no reason to call the node fit. */
static void test_unfit_while_a_probe_hangs(void **state)
{
    enum { KILLED_MS = 10000, MORE_MS = 5000 };
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    (void)text_copy(rig->probes, sizeof(rig->probes), "nvml");
    add_fake_nvml(rig, "hang nvmlDeviceGetCount_v2\n");
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_session, NULL, LONG_MS));
    assert_false(validate(rig, 1, KILLED_MS + MORE_MS)->ok); /* it is killed meanwhile */
    assert_non_null(strstr(rig->fake.validated.text, "probe nvml has not come round"));
}

static bool has_stuck(const struct fake_controller *fake, void *context)
{
    const char *const *probe = context;
    for (uint32_t i = 0; i < fake->fact_count; i++) {
        if (strcmp(fake->facts[i].subject, *probe) == 0 &&
            strncmp(fake->facts[i].signal, "probe-stuck", 11) == 0) {
            return true;
        }
    }
    return false;
}

static bool works_again(const struct fake_controller *fake, void *context)
{
    (void)context;
    const struct fact *last = fake_fact(fake, "probe-stuck-for-good");
    return last != NULL && strcmp(last->subject, "ports") == 0 && last->advice == ADVICE_NONE;
}

/* B7: every source hangs, most of them beyond SIGKILL. The beats keep their second, each probe that
 * does not return is told, none is started twice, and all come back when their sources do. */
static void test_all_probes_hang(void **state)
{
    static const char *const stuck[] = {"ports",     "shutdown", "oom", "memory",
                                        "inventory", "nvml",     "kmsg"};
    enum { PROBES = 13, BEAT_MS = 1900, STUCK_MS = 40000 };
    struct agent_rig *rig = *state;
    if (!rig_open(rig) || !fuse_begin(rig)) {
        skip();
    }
    (void)text_copy(rig->probes, sizeof(rig->probes), "all");
    add_flag(rig, "sysfs", "hanging/sys");
    add_flag(rig, "procfs", "hanging/proc");
    add_flag(rig, "runfs", "hanging/run");
    add_flag(rig, "kmsg", "hanging/kmsg");
    add_fake_nvml(rig, "hang nvmlDeviceGetCount_v2\n");
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_session, NULL, LONG_MS));
    rig->fake.beat_gap_ms = 0;
    for (size_t i = 0; i < sizeof(stuck) / sizeof(stuck[0]); i++) {
        assert_true(fake_wait(&rig->fake, has_stuck, (void *)(uintptr_t)&stuck[i], STUCK_MS));
    }
    for (uint32_t i = 0; i < rig->fake.fact_count; i++) {
        assert_true(rig->fake.facts[i].severity <= 1); /* no probe's trouble is the job's */
    }
    assert_true(probe_processes(rig, 'D') >= 5);
    assert_true(probe_processes(rig, '\0') <= PROBES);
    assert_true(rig->fake.beat_gap_ms < BEAT_MS);
    fuse_end();
    assert_true(fake_wait(&rig->fake, works_again, NULL, LONG_MS));
    assert_true(rig->fake.beat_gap_ms < BEAT_MS);
}

/* A probe that is stopped, and one that is killed: told of, and started again. */
static void test_a_frozen_probe(void **state)
{
    struct agent_rig *rig = open_kmsg(state);
    static const char *const name = "kmsg";
    rig_start(rig);
    wait_for_reader(rig);
    assert_int_equal(probe_signal(rig, SIGSTOP), 1);
    assert_true(fake_wait(&rig->fake, has_stuck, (void *)(uintptr_t)&name, LONG_MS + 10000));
    put_file(rig, xid, O_APPEND, "kmsg"); /* the next one goes on where it stood */
    assert_true(wait_fact(rig, "xid-79", LONG_MS));
    assert_int_equal(fake_fact(&rig->fake, "xid-79")->severity, 3);
    assert_int_equal(probe_signal(rig, SIGKILL), 1);
    put_file(rig, "3,102,5,-;NVRM: Xid (PCI:0000:3c:00): 48, pid=1, DBE.\n", O_APPEND, "kmsg");
    assert_true(wait_fact(rig, "xid-48", LONG_MS));
}

#define PROBES_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROBES_TEST(test_an_xid_arrives),
        PROBES_TEST(test_repeated_until_acknowledged),
        PROBES_TEST(test_a_killed_agent_loses_no_line),
        PROBES_TEST(test_lines_from_before_and_of_programs),
        PROBES_TEST(test_much_from_before),
        PROBES_TEST(test_a_port_goes_down_and_comes_back),
        PROBES_TEST(test_more_events_than_places),
        PROBES_TEST(test_broken_and_well_again),
        PROBES_TEST(test_fit_by_its_probes),
        PROBES_TEST(test_asked_in_the_middle_of_a_round),
        PROBES_TEST(test_unfit_while_a_probe_hangs),
        PROBES_TEST(test_a_machine_that_goes_down),
        PROBES_TEST(test_a_frozen_probe),
        PROBES_TEST(test_all_probes_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
