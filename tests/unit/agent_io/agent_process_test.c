/* agent_process_test.c: the whole agent with real shims and real ranks: what happens to ranks when
 * it dies at any line, when it is asked to end, and when it is told nonsense. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/core/agent_core.h"
#include "agent/io/folders.h"
#include "agent/io/journal.h"
#include "agent/rank/keepstep.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_io/agent_rig.h"

enum { LONG_MS = 30000 };

/* A rig for each test, closed also when the test fails. */
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

static struct agent_rig *open_rig(void **state)
{
    struct agent_rig *rig = *state;
    if (!rig_open(rig)) {
        skip();
    }
    return rig;
}

/* This program is also the rank of one of its own tests. */
static int rank_main(void);

static void assert_rank(const struct attempt_report *report, uint32_t rank, uint8_t state,
                        int32_t code, bool after_stop)
{
    assert_int_equal(report->ranks[rank].state, state);
    assert_int_equal(report->ranks[rank].code, code);
    assert_int_equal(report->ranks[rank].after_stop, after_stop);
}

/* A rank counts as running from its fork on; its program may not have said anything yet. */
static void wait_lines(struct agent_rig *rig, const char *name, uint32_t lines)
{
    const uint64_t end = fake_now_ms() + LONG_MS;
    while (rig_lines(rig, name) < lines && fake_now_ms() < end) {
        (void)fake_wait(&rig->fake, NULL, NULL, 20);
    }
    assert_int_equal(rig_lines(rig, name), lines);
}

static void test_ends_while_away(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "while [ ! -e {dir}/go ]; do sleep 0.02; done; case $RANK in 0) exit 0;; "
                    "1) exit 75;; 2) exit 93;; *) kill -SEGV $$;; esac");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 4);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    rig_kill(rig);
    rig_touch(rig, "go");
    (void)fake_wait(&rig->fake, NULL, NULL, 500); /* nobody is there while they end */
    rig_start(rig);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .ended = true, .empty = true}, LONG_MS));
    const struct attempt_report *report = fake_report(&rig->fake, 1, 0);
    assert_rank(report, 0, RANK_EXITED, 0, false);
    assert_rank(report, 1, RANK_EXITED, 75, false);
    assert_rank(report, 2, RANK_EXITED, 93, false);
    assert_rank(report, 3, RANK_SIGNALED, SIGSEGV, false);
    assert_false(report->foreign);
    assert_true(rig->fake.ends > 0);
}

static void test_term_leaves_ranks(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo x >> {dir}/starts; exec sleep 1000");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 2);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    assert_int_equal(rig_end(rig, SIGTERM), 0);
    assert_true(rig->fake.has_goodbye);
    assert_int_equal(rig->fake.goodbye.kind, GOODBYE_RESTART);
    rig_start(rig);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    assert_true(rig->fake.hello.clean_boot);
    wait_lines(rig, "starts", 2);
}

static void test_stale_orders(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo x >> {dir}/starts; exec sleep 1000");
    rig->fake.term = 5;
    rig_start(rig);
    rig_desire_run(rig, 1, 3, 1);
    assert_true(
        rig_wait(rig, (struct rig_state){.job = 1, .attempt = 3, .running = true}, LONG_MS));
    struct message message = {.kind = MSG_DESIRED};
    message.u.desired = rig->fake.desired[0];
    message.u.desired.sequence += 1;
    message.u.desired.attempt = 2; /* an older attempt */
    fake_send(&rig->fake, &message);
    message.u.desired.mode = DESIRED_STOP;
    message.u.desired.attempt = 3;
    message.u.desired.term = 4; /* a leader that was replaced */
    fake_send(&rig->fake, &message);
    message.u.desired.term = 5;
    message.u.desired.cluster_id[0] = 'f'; /* another cluster */
    fake_send(&rig->fake, &message);
    message.u.desired.cluster_id[0] = '0';
    message.u.desired.sequence = 0; /* older than what was believed */
    fake_send(&rig->fake, &message);
    message.u.desired.sequence = 100;
    message.u.desired.attempt = 2; /* a stop of what is not here */
    fake_send(&rig->fake, &message);
    (void)fake_wait(&rig->fake, NULL, NULL, 1500);
    assert_true(
        rig_wait(rig, (struct rig_state){.job = 1, .attempt = 3, .running = true}, LONG_MS));
    assert_false(fake_report(&rig->fake, 1, 3)->stop_seen);
    assert_int_equal(rig_lines(rig, "starts"), 1);
}

static void test_stop_and_next(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "trap '' TERM; echo $KEEPSTEP_ATTEMPT >> {dir}/starts; "
                    "while :; do sleep 0.05; done");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 2);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    wait_lines(rig, "starts", 2); /* the traps are set */
    rig_desire_stop(rig, 1, 0, false);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .ended = true, .empty = true}, LONG_MS));
    assert_rank(fake_report(&rig->fake, 1, 0), 0, RANK_SIGNALED, SIGKILL, true);
    rig_desire_run(rig, 1, 1, 2);
    assert_true(
        rig_wait(rig, (struct rig_state){.job = 1, .attempt = 1, .running = true}, LONG_MS));
    wait_lines(rig, "starts", 4);
    rig_desire_stop(rig, 1, 1, true);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .attempt = 1, .absent = true}, LONG_MS));
}

/* Whether ranks get a cgroup here, without which nothing proves that none is left. */
static bool has_cgroup(void)
{
    char parent[FOLDER_PATH_SIZE];
    char test[FOLDER_PATH_SIZE + 32];
    folder_cgroup_parent("", parent);
    (void)text_format(test, sizeof(test), "%s/keepstep-try-%d", parent, getpid());
    return parent[0] != '\0' && mkdir(test, 0755) == 0 && rmdir(test) == 0;
}

/* D3: agent and shim are killed, ranks live on as orphans; the next attempt of the job sweeps them
 * before it starts, and does not start where nothing proves that they are gone. */
static void test_orphans_are_swept(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo $$ >> {dir}/pids.$KEEPSTEP_ATTEMPT; exec sleep 1000");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 2);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    rig_kill(rig);
    char path[256];
    (void)text_format(path, sizeof(path), "%s/state/ranks/job-1/attempt-0/lock", rig->dir);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETLK, &lock), 0);
    (void)close(fd);
    assert_int_not_equal(lock.l_type, F_UNLCK);
    assert_int_equal(kill(lock.l_pid, SIGKILL), 0);
    rig_start(rig);
    rig_desire_run(rig, 1, 1, 2);
    if (!has_cgroup()) {
        const uint64_t end = fake_now_ms() + LONG_MS;
        while (!fake_report(&rig->fake, 1, 0)->unclean && fake_now_ms() < end) {
            (void)rig_wait(rig, (struct rig_state){.job = 1, .attempt = 1, .running = true}, 100);
        }
        assert_true(fake_report(&rig->fake, 1, 0)->unclean);
        assert_int_equal(rig_lines(rig, "pids.1"), 0);
        return;
    }
    assert_true(
        rig_wait(rig, (struct rig_state){.job = 1, .attempt = 1, .running = true}, LONG_MS));
    const struct attempt_report *old = fake_report(&rig->fake, 1, 0);
    assert_true(old == NULL || old->empty); /* once its ends are acknowledged it is past */
}

static void test_refused_launch(void **state)
{
    struct agent_rig *rig = open_rig(state);
    (void)text_copy(rig->spec, sizeof(rig->spec),
                    "{\"run\":{\"command\":[\"/bin/true\"],\"user\":\"no-such-user-here\"}}");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .empty = true}, LONG_MS));
    const struct attempt_report *report = fake_report(&rig->fake, 1, 0);
    assert_true(report->refused);
    assert_non_null(strstr(report->text, "no-such-user-here"));
}

static void test_command_not_found(void **state)
{
    struct agent_rig *rig = open_rig(state);
    (void)text_copy(rig->spec, sizeof(rig->spec),
                    "{\"run\":{\"command\":[\"/no/such/program\"],\"allow_root\":true,"
                    "\"workdir\":\"/\"}}");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .ended = true, .empty = true}, LONG_MS));
    assert_int_equal(fake_report(&rig->fake, 1, 0)->ranks[0].state, RANK_UNSTARTED);
    assert_true(fake_report(&rig->fake, 1, 0)->text[0] != '\0');
}

/* One run of start, stop and forget; the agent dies at record n of its first life. True when it
 * died, false when the scenario has fewer records. */
static bool scenario_with_crash(struct agent_rig *rig, bool before, uint32_t n)
{
    assert_true(rig_open(rig));
    rig_script(rig, "echo $RANK >> {dir}/starts.$KEEPSTEP_ATTEMPT; exec sleep 1000");
    (void)text_format(rig->crash_at, sizeof(rig->crash_at), "%s:%u", before ? "before" : "after",
                      n);
    rig_start(rig);
    uint32_t step = 0;
    bool died = false;
    const uint64_t end = fake_now_ms() + 30000;
    while (step < 7 && fake_now_ms() < end) {
        if (rig_is_dead(rig)) {
            died = true;
            rig_start(rig);
        }
        switch (step) {
        case 0:
            rig_desire_run(rig, 1, 0, 2);
            step++;
            break;
        case 1:
            step += rig_wait(rig, (struct rig_state){.job = 1, .running = true}, 100) &&
                    rig_lines(rig, "starts.0") == 2;
            break;
        case 2:
            rig_desire_run(rig, 1, 1, 2); /* stops attempt 0 first */
            step++;
            break;
        case 3:
            step +=
                rig_wait(rig, (struct rig_state){.job = 1, .attempt = 1, .running = true}, 100) &&
                rig_lines(rig, "starts.1") == 2;
            break;
        case 4:
            rig_desire_stop(rig, 1, 1, false);
            step++;
            break;
        case 5:
            if (rig_wait(rig, (struct rig_state){.job = 1, .attempt = 1, .empty = true}, 100)) {
                rig_desire_stop(rig, 1, 1, true);
                step++;
            }
            break;
        default:
            step += rig_wait(rig, (struct rig_state){.job = 1, .attempt = 1, .absent = true}, 100);
            break;
        }
    }
    died = died || rig_is_dead(rig);
    assert_int_equal(step, 7);
    assert_int_equal(rig_lines(rig, "starts.0"), 2);
    assert_int_equal(rig_lines(rig, "starts.1"), 2);
    rig_close(rig);
    return died;
}

static void test_killed_at_every_record(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_close(rig);
    uint32_t n = 1;
    while (scenario_with_crash(rig, true, n)) {
        assert_true(scenario_with_crash(rig, false, n));
        n++;
    }
    (void)printf("%u records, each with a kill before and after it\n", n - 1);
    assert_true(n > 9);
}

static bool has_check(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->has_check;
}

static bool has_said(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->has_said;
}

static bool has_log(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->has_log;
}

static bool has_commit(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->checkpoint.kind == CHECKPOINT_COMMIT;
}

static bool has_get(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->exchange.kind == EXCHANGE_GET && text_equal(fake->exchange.key, "far");
}

static bool has_beat(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->beat.sequence > 0;
}

static void ask_check(struct agent_rig *rig, uint64_t nonce, uint16_t port, const char *dir)
{
    char spec[512];
    struct message message = {.kind = MSG_CHECK};
    (void)text_format(spec, sizeof(spec),
                      "{\"run\":{\"allow_root\":true},\"checkpoint\":{\"dir\":\"%s\"}}", dir);
    message.u.check.nonce = nonce;
    message.u.check.job = 9;
    message.u.check.port = port;
    message.u.check.spec = spec;
    message.u.check.spec_size = (uint32_t)strlen(spec);
    rig->fake.has_check = false;
    fake_send(&rig->fake, &message);
    assert_true(fake_wait(&rig->fake, has_check, NULL, LONG_MS));
    assert_int_equal(rig->fake.check.nonce, nonce);
}

static void test_checks(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_beat, NULL, LONG_MS));
    ask_check(rig, 1, 0, rig->dir);
    assert_true(rig->fake.check.ok);
    ask_check(rig, 2, rig->fake.port, "/no/such/folder");
    assert_false(rig->fake.check.ok);
    assert_false(rig->fake.check.port_free); /* we listen there ourselves */
    assert_non_null(strstr(rig->fake.check.text, "/no/such/folder"));
}

static void probe_port(struct agent_rig *rig, uint64_t nonce, const char *name, uint16_t port)
{
    struct message message = {.kind = MSG_PEER_ASK};
    message.u.peer_ask.nonce = nonce;
    message.u.peer_ask.port = port;
    message.u.peer_ask.timeout_ms = 500;
    (void)text_copy(message.u.peer_ask.target, NAME_SIZE, name);
    (void)text_copy(message.u.peer_ask.address, ADDRESS_SIZE, "127.0.0.1");
    rig->fake.has_said = false;
    fake_send(&rig->fake, &message);
    assert_true(fake_wait(&rig->fake, has_said, NULL, LONG_MS));
    assert_int_equal(rig->fake.said.nonce, nonce);
}

static void test_peer_answers(void **state)
{
    struct agent_rig *rig = open_rig(state);
    struct fake_controller silent; /* accepts, never answers */
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_beat, NULL, LONG_MS));
    probe_port(rig, 1, rig->node, rig->fake.hello.peer_port);
    assert_int_equal(rig->fake.said.answer, PEER_ANSWERS);
    assert_true(rig->fake.said.controller_up);
    assert_int_equal(rig->fake.said.incarnation, rig->fake.hello.incarnation);
    probe_port(rig, 2, "node-2", rig->fake.hello.peer_port);
    assert_int_equal(rig->fake.said.answer, PEER_LEFT);
    fake_open(&silent);
    probe_port(rig, 3, "node-2", silent.port);
    assert_int_equal(rig->fake.said.answer, PEER_SILENT);
    const uint16_t port = silent.port;
    fake_close(&silent);
    probe_port(rig, 4, "node-2", port);
    assert_int_equal(rig->fake.said.answer, PEER_REFUSED);
}

static void read_log(struct agent_rig *rig, uint64_t tail)
{
    struct message message = {.kind = MSG_LOG_READ};
    message.u.log_read.nonce = 7;
    message.u.log_read.job = 1;
    message.u.log_read.tail_bytes = tail;
    (void)text_copy(message.u.log_read.job_name, NAME_SIZE, "job-a");
    rig->fake.has_log = false;
    rig->fake.log[0] = '\0';
    fake_send(&rig->fake, &message);
    assert_true(fake_wait(&rig->fake, has_log, NULL, LONG_MS));
}

static void test_log_read(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo first line; echo last line");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .ended = true, .empty = true}, LONG_MS));
    read_log(rig, 10);
    assert_int_equal(rig->fake.log_error, 0);
    assert_string_equal(rig->fake.log, "last line\n");
    rig_desire_stop(rig, 1, 0, true);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .absent = true}, LONG_MS));
    read_log(rig, 1000); /* kept beyond the attempt itself */
    assert_string_equal(rig->fake.log, "first line\nlast line\n");
}

static uint64_t log_on_disk(const struct agent_rig *rig)
{
    char path[256];
    struct stat status;
    (void)text_format(path, sizeof(path), "%s/state/logs/job-1/attempt-0/rank-0.log", rig->dir);
    return stat(path, &status) == 0 ? (uint64_t)status.st_blocks * 512 : 0;
}

static bool all_is_printed(const struct fake_controller *fake, void *context)
{
    (void)fake;
    return rig_lines(context, "printed") > 0;
}

static bool log_is_short(const struct fake_controller *fake, void *context)
{
    (void)fake;
    return log_on_disk(context) <= 128 << 10;
}

/* 16 MiB for a limit of 128 KiB, while it is written and after its writer's end. */
static void test_output_keeps_within_its_limit(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo first line; head -c 16777216 /dev/zero | tr '\\\\0' x; echo; "
                    "echo >{dir}/printed; while [ ! -e {dir}/go ]; do sleep 0.05; done; "
                    "head -c 1048576 /dev/zero | tr '\\\\0' y; echo; echo last line");
    rig_limit_output(rig, 128 << 10);
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(fake_wait(&rig->fake, all_is_printed, rig, LONG_MS));
    assert_true(fake_wait(&rig->fake, log_is_short, rig, LONG_MS));
    rig_touch(rig, "go");
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .ended = true, .empty = true}, LONG_MS));
    assert_true(fake_wait(&rig->fake, log_is_short, rig, LONG_MS));
    read_log(rig, 1 << 20); /* what the fake keeps of it is the beginning */
    assert_int_equal(strncmp(rig->fake.log, "first line\nxxx", 14), 0);
    read_log(rig, 20);
    assert_string_equal(rig->fake.log, "yyyyyyyyy\nlast line\n");
    bool noted = false; /* of a reply the fake keeps the beginning: how long is the tail? */
    for (uint64_t size = 80 << 10; size < 128 << 10 && !noted; size += 2048) {
        read_log(rig, size);
        noted = strstr(rig->fake.log, " bytes dropped …\nyyy") != NULL;
    }
    assert_true(noted);
}

/* Of twelve attempts the first two are gone, the others are there. */
static bool only_newest_logs(const struct fake_controller *fake, void *context)
{
    const struct agent_rig *rig = context;
    bool right = true;
    (void)fake;
    for (uint32_t attempt = 0; attempt < AGENT_LOGS_KEPT + 2; attempt++) {
        char path[256];
        (void)text_format(path, sizeof(path), "%s/state/logs/job-1/attempt-%u/rank-0.log", rig->dir,
                          attempt);
        right = right && (access(path, F_OK) == 0) == (attempt >= 2);
    }
    return right;
}

static void test_logs_of_old_attempts_go(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo here");
    rig_start(rig);
    for (uint32_t attempt = 0; attempt < AGENT_LOGS_KEPT + 2; attempt++) {
        const struct rig_state over = {.job = 1, .attempt = attempt, .ended = true, .empty = true};
        const struct rig_state gone = {.job = 1, .attempt = attempt, .absent = true};
        rig_desire_run(rig, 1, attempt, 1);
        assert_true(rig_wait(rig, over, LONG_MS));
        rig_desire_stop(rig, 1, attempt, true);
        assert_true(rig_wait(rig, gone, LONG_MS));
    }
    assert_true(fake_wait(&rig->fake, only_newest_logs, rig, LONG_MS));
}

static void assert_says(int fd, const char *expected)
{
    char text[128] = "";
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, LONG_MS), 1);
    assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
}

/* Ready once it knows what runs here, without any controller; then alive; then ending. */
static void test_service_manager_is_told(void **state)
{
    struct agent_rig *rig = open_rig(state);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[96];
    (void)text_format(name, sizeof(name), "@%s", rig->dir);
    (void)text_copy(address.sun_path + 1, sizeof(address.sun_path) - 1, name + 1);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const size_t size = offsetof(struct sockaddr_un, sun_path) + strlen(name);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, (socklen_t)size), 0);
    (void)setenv("NOTIFY_SOCKET", name, 1);
    (void)setenv("WATCHDOG_USEC", "200000", 1);
    rig_start(rig); /* the fake controller takes no connection while nobody waits with it */
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    assert_says(fd, "READY=1\nSTATUS=");
    const uint64_t begin = fake_now_ms();
    for (int i = 0; i < 4; i++) {
        assert_says(fd, "WATCHDOG=1");
    }
    assert_true(fake_now_ms() - begin >= 250); /* every 100 ms, the first at once */
    assert_int_equal(rig_end(rig, SIGTERM), 0);
    char text[128] = "WATCHDOG=1";
    while (strncmp(text, "WATCHDOG=1", 10) == 0) {
        memset(text, 0, sizeof(text));
        assert_true(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 0);
    }
    assert_string_equal(text, "STOPPING=1");
    (void)close(fd);
}

static void test_environment(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo; env | sort");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .ended = true, .empty = true}, LONG_MS));
    read_log(rig, 4000);
    static const char *const expected[] = {"\nRANK=0\n",
                                           "\nWORLD_SIZE=1\n",
                                           "\nLOCAL_RANK=0\n",
                                           "\nLOCAL_WORLD_SIZE=1\n",
                                           "\nGROUP_RANK=0\n",
                                           "\nROLE_NAME=default\n",
                                           "\nMASTER_ADDR=127.0.0.1\n",
                                           "\nMASTER_PORT=29500\n",
                                           "\nTORCHELASTIC_RESTART_COUNT=0\n",
                                           "\nTORCHELASTIC_USE_AGENT_STORE=False\n",
                                           "\nKEEPSTEP_JOB=job-a\n",
                                           "\nKEEPSTEP_ATTEMPT=0\n",
                                           "\nKEEPSTEP_NODE=node-",
                                           "\nKEEPSTEP_TP_RANK=0\n",
                                           "\nKEEPSTEP_MAILBOX=",
                                           "\nKEEPSTEP_RESTORE_STEP=0\n"};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        if (strstr(rig->fake.log, expected[i]) == NULL) {
            print_error("not there:%s", expected[i]);
            fail();
        }
    }
    assert_null(strstr(rig->fake.log, "KEEPSTEP_BUILD=")); /* nothing of the agent's own */
}

/* A rank with the library: progress, an exchange over the controller, a save that is asked for, an
 * answered commit while the agent was away, and a planned stop. */
static void test_library(void **state)
{
    struct agent_rig *rig = open_rig(state);
    char self[512];
    const ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(size > 0);
    self[size] = '\0';
    assert_true(text_format(rig->spec, sizeof(rig->spec),
                            "{\"run\":{\"command\":[\"%s\",\"rank\"],\"allow_root\":true,"
                            "\"workdir\":\"%s\"},\"checkpoint\":{\"dir\":\"%s\"}}",
                            self, rig->dir, rig->dir));
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 2);
    assert_true(fake_wait(&rig->fake, has_get, NULL, LONG_MS));
    struct message message = {.kind = MSG_EXCHANGE};
    message.u.exchange = rig->fake.exchange;
    message.u.exchange.kind = EXCHANGE_VALUE;
    message.u.exchange.size = 5;
    memcpy(message.u.exchange.value, "value", 5);
    fake_send(&rig->fake, &message);
    struct msg_desired desired = rig->fake.desired[0];
    desired.save_request = 1;
    fake_desire(&rig->fake, &desired);
    assert_true(fake_wait(&rig->fake, has_commit, NULL, LONG_MS));
    assert_int_equal(rig->fake.checkpoint.step, 3);
    rig_kill(rig); /* the commit was said, and not answered */
    rig->fake.checkpoint.kind = CHECKPOINT_BEGIN;
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_commit, NULL, LONG_MS)); /* said again */
    const struct attempt_report *report = fake_report(&rig->fake, 1, 0);
    assert_non_null(report);
    memset(&message, 0, sizeof(message));
    message.kind = MSG_CHECKPOINT_ANSWER;
    message.u.checkpoint_answer =
        (struct msg_checkpoint_answer){.sequence = rig->fake.checkpoint.sequence,
                                       .job = 1,
                                       .step = 3,
                                       .kind = CHECKPOINT_COMMIT,
                                       .accepted = true};
    fake_send(&rig->fake, &message);
    desired.stop_request = true;
    fake_desire(&rig->fake, &desired);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .ended = true, .empty = true}, LONG_MS));
    report = fake_report(&rig->fake, 1, 0);
    assert_rank(report, 0, RANK_EXITED, 75, false);
    assert_rank(report, 1, RANK_EXITED, 0, false);
    assert_true(report->ranks[0].has_mailbox);
    assert_int_equal(report->ranks[0].step, 3);
}

/* What the rank found wrong is its exit code. */
static int rank_main(void)
{
    struct keepstep_restore restore;
    size_t size = 0;
    char value[KEEPSTEP_VALUE_MAX];
    if (keepstep_init() != 0 || keepstep_attached() != 1) {
        return 1;
    }
    if (keepstep_restore_info(&restore) != 1 || restore.world != 2 || restore.data != 2 ||
        restore.data_rank != restore.rank) {
        return 2;
    }
    if (restore.rank == 1) { /* one key of a local rank, one of somebody far away */
        if (keepstep_exchange_get("near", value, sizeof(value), &size, 20000) != 0 || size != 4) {
            return 3;
        }
        if (keepstep_exchange_get("far", value, sizeof(value), &size, 20000) != 0 || size != 5) {
            return 4;
        }
        return 0;
    }
    if (keepstep_exchange_put("near", "here", 4) != 0) {
        return 5;
    }
    for (uint64_t step = 1; step <= 3; step++) {
        (void)keepstep_step_begin(step);
        (void)keepstep_step_end(step);
    }
    while (keepstep_should_checkpoint() == 0) {
        (void)poll(NULL, 0, 10);
    }
    char path[KEEPSTEP_PATH_SIZE];
    (void)text_format(path, sizeof(path), "%s/step-3.a-0", restore.checkpoint_directory);
    (void)keepstep_checkpoint_begin(3, 1);
    (void)keepstep_checkpoint_shard(path, 10, NULL);
    if (keepstep_checkpoint_commit(path, NULL, KEEPSTEP_WEIGHTS) != 0) {
        return 6;
    }
    if (keepstep_checkpoint_result(20000, NULL) != 1) {
        return 7;
    }
    while (keepstep_should_stop() == 0) {
        (void)poll(NULL, 0, 10);
    }
    return KEEPSTEP_EXIT_RESTART;
}

/* The journal cannot be written (its file may not grow): nothing is begun, the beat says why, and
 * what waited is done when there is room again. */
static bool is_sick(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->beat.sequence > 0 && !fake->beat.checks_ok;
}

static bool is_well(const struct fake_controller *fake, void *context)
{
    (void)context;
    return fake->beat.sequence > 0 && fake->beat.checks_ok;
}

static void test_journal_cannot_grow(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "echo x >> {dir}/starts; exec sleep 1000");
    rig_start(rig);
    assert_true(fake_wait(&rig->fake, has_beat, NULL, LONG_MS));
    struct rlimit limit;
    assert_int_equal(prlimit(rig->pid, RLIMIT_FSIZE, NULL, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 64;
    assert_int_equal(prlimit(rig->pid, RLIMIT_FSIZE, &limit, NULL), 0);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(fake_wait(&rig->fake, is_sick, NULL, LONG_MS));
    assert_non_null(strstr(rig->fake.beat.checks_text, "agent.journal"));
    const uint32_t beats = rig->fake.beats;
    (void)fake_wait(&rig->fake, NULL, NULL, 2500);
    assert_true(rig->fake.beats >= beats + 2);
    assert_int_equal(rig_lines(rig, "starts"), 0);
    limit.rlim_cur = before;
    assert_int_equal(prlimit(rig->pid, RLIMIT_FSIZE, &limit, NULL), 0);
    assert_true(fake_wait(&rig->fake, is_well, NULL, LONG_MS));
    wait_lines(rig, "starts", 1);
}

/* A journal of so many lives that it is to be rewritten, which a folder of the new file's name
 * prevents: the agent works, and the file grows. */
static void make_long_journal(const struct agent_rig *rig)
{
    char path[256];
    struct err err = {0};
    struct agent_journal *journal = NULL;
    struct agent_record *records =
        mem_alloc(AGENT_JOURNAL_REWRITE + 1, sizeof(struct agent_record));
    for (uint32_t i = 0; i <= AGENT_JOURNAL_REWRITE; i++) {
        records[i] = (struct agent_record){.kind = AGENT_RECORD_LIFE, .number = i + 1};
    }
    (void)text_format(path, sizeof(path), "%s/state", rig->dir);
    assert_int_equal(agent_journal_open(path, &journal, &err), 0);
    assert_int_equal(agent_journal_replay(journal, NULL, NULL, &err), 0); /* begins the file */
    assert_int_equal(agent_journal_append(journal, records, AGENT_JOURNAL_REWRITE + 1, &err), 0);
    (void)agent_journal_free(journal);
    mem_free(records);
}

static void test_journal_cannot_be_rewritten(void **state)
{
    struct agent_rig *rig = open_rig(state);
    char path[256];
    make_long_journal(rig);
    (void)text_format(path, sizeof(path), "%s/state/agent.journal.new", rig->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    rig_script(rig, "echo x >> {dir}/starts; exec sleep 1000");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    assert_true(rig->fake.beat.checks_ok);
    assert_int_equal(rmdir(path), 0);
    rig_kill(rig);
    rig_start(rig); /* what was appended is there, and now it is rewritten */
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    assert_int_equal(rig_lines(rig, "starts"), 1);
    assert_in_range(rig_lines(rig, "state/agent.journal"), 1, 32);
}

/* What the agent costs beside eight ranks that step four times a second. */
static uint64_t read_number(pid_t pid, const char *file, const char *behind)
{
    char path[64];
    char text[4096];
    uint64_t value = 0;
    (void)text_format(path, sizeof(path), "/proc/%d/%s", pid, file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    assert_true(got > 0);
    (void)close(fd);
    text[got] = '\0';
    const char *at = strstr(text, behind);
    assert_non_null(at);
    at += strlen(behind);
    at += strspn(at, " ");
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    return value;
}

static void test_footprint(void **state)
{
    enum { MEASURE_MS = 5000 };
    struct agent_rig *rig = open_rig(state);
    char self[512];
    const ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(size > 0);
    self[size] = '\0';
    assert_true(text_format(rig->spec, sizeof(rig->spec),
                            "{\"run\":{\"command\":[\"%s\",\"stepper\"],\"allow_root\":true,"
                            "\"workdir\":\"%s\"}}",
                            self, rig->dir));
    (void)text_copy(rig->extra, sizeof(rig->extra), "--log-level=info"); /* as it is shipped */
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 8);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    (void)fake_wait(&rig->fake, NULL, NULL, 2000);
    const uint64_t before = read_number(rig->pid, "schedstat", "");
    (void)fake_wait(&rig->fake, NULL, NULL, MEASURE_MS);
    const uint64_t cpu_ns = read_number(rig->pid, "schedstat", "") - before;
    const uint64_t pss_kib = read_number(rig->pid, "smaps_rollup", "\nPss:");
    (void)printf("agent with 8 ranks: PSS %u KiB, CPU %u.%03u %%\n", (unsigned int)pss_kib,
                 (unsigned int)(cpu_ns / (MEASURE_MS * 10000)),
                 (unsigned int)(cpu_ns / (MEASURE_MS * 10) % 1000));
    assert_true(fake_report(&rig->fake, 1, 0)->ranks[7].step > 4);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    assert_true(pss_kib < 8 * 1024);
    assert_true(cpu_ns < (uint64_t)MEASURE_MS * 10000); /* 1 %: the machine may be busy */
#endif
}

/* Steps until it is ended. */
static int stepper_main(void)
{
    uint64_t step = 0;
    int result = keepstep_init();
    while (result == 0) {
        step++;
        (void)keepstep_step_begin(step);
        (void)poll(NULL, 0, 250);
        result = keepstep_step_end(step);
    }
    return 1;
}

static void test_controller_away(void **state)
{
    struct agent_rig *rig = open_rig(state);
    rig_script(rig, "exec sleep 1000");
    rig_start(rig);
    rig_desire_run(rig, 1, 0, 1);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    const uint32_t sessions = rig->fake.sessions;
    rig->fake.desired_count = 0; /* a controller that knows nothing: no opinion */
    fake_hang_up(&rig->fake);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
    assert_true(rig->fake.sessions > sessions);
    (void)fake_wait(&rig->fake, NULL, NULL, 1000);
    assert_true(rig_wait(rig, (struct rig_state){.job = 1, .running = true}, LONG_MS));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "rank") == 0) {
        return rank_main();
    }
    if (argc > 1 && strcmp(argv[1], "stepper") == 0) {
        return stepper_main();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ends_while_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_term_leaves_ranks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale_orders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_and_next, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphans_are_swept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_launch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_command_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_checks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_peer_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_output_keeps_within_its_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_logs_of_old_attempts_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_service_manager_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_library, setup, teardown),
        cmocka_unit_test_setup_teardown(test_journal_cannot_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_journal_cannot_be_rewritten, setup, teardown),
        cmocka_unit_test_setup_teardown(test_footprint, setup, teardown),
        cmocka_unit_test_setup_teardown(test_controller_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_at_every_record, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
