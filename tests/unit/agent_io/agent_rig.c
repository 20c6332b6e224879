/* agent_rig.c: processes and folders for tests of the whole agent. */
#include "tests/unit/agent_io/agent_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

extern char **environ;

bool rig_open(struct agent_rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    const char *build = NULL;
    for (char **at = environ; *at != NULL; at++) {
        if (strncmp(*at, "KEEPSTEP_BUILD=", 15) == 0) {
            build = *at + 15;
        }
    }
    (void)text_format(rig->agent, sizeof(rig->agent), "%s/keepstep-agent",
                      build != NULL ? build : "build");
    if (access(rig->agent, X_OK) != 0) {
        (void)printf("skipped: %s is not built\n", rig->agent);
        return false;
    }
    (void)text_copy(rig->dir, sizeof(rig->dir), "/tmp/keepstep-agent-test.XXXXXX");
    CHECK(mkdtemp(rig->dir) != NULL);
    (void)text_format(rig->node, sizeof(rig->node), "node-%s", strrchr(rig->dir, '.') + 1);
    fake_open(&rig->fake);
    return true;
}

bool rig_is_dead(struct agent_rig *rig)
{
    int status = 0;
    if (rig->pid > 0 && waitpid(rig->pid, &status, WNOHANG) == rig->pid) {
        rig->pid = 0;
    }
    return rig->pid == 0;
}

void rig_start(struct agent_rig *rig)
{
    char node[64];
    char controller[64];
    char state[128];
    char run[128];
    char crash[64];
    CHECK(rig->pid == 0);
    (void)text_format(controller, sizeof(controller), "--controller=127.0.0.1:%u", rig->fake.port);
    (void)text_format(node, sizeof(node), "--node=%s", rig->node);
    (void)text_format(state, sizeof(state), "--state=%s/state", rig->dir);
    (void)text_format(run, sizeof(run), "--run=%s/run", rig->dir);
    (void)text_format(crash, sizeof(crash), "--crash-at=%s", rig->crash_at);
    char probes[sizeof(rig->probes) + 16];
    (void)text_format(probes, sizeof(probes), "--probes=%s",
                      rig->probes[0] != '\0' ? rig->probes : "none");
    const char *argv[24] = {
        rig->agent, node, controller, state, run, "--peer-listen=127.0.0.1:0", "--log-level=debug"};
    size_t count = 7;
    argv[count++] = probes;
    for (uint32_t i = 0; i < rig->probe_flag_count; i++) {
        argv[count++] = rig->probe_flags[i];
    }
    if (rig->crash_at[0] != '\0') {
        argv[count++] = crash;
    }
    if (rig->extra[0] != '\0') {
        const bool level = strncmp(rig->extra, argv[6], 11) == 0; /* a flag is given once */
        argv[level ? 6 : count++] = rig->extra;
    }
    rig->pid = fork();
    CHECK(rig->pid >= 0);
    if (rig->pid == 0) {
        char log[128];
        (void)text_format(log, sizeof(log), "%s/agent.log", rig->dir);
        const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a test is cut off */
        (void)execv(rig->agent, (char **)(uintptr_t)argv);
        _exit(127);
    }
    rig->crash_at[0] = '\0';
}

int rig_end(struct agent_rig *rig, int number)
{
    int status = 0;
    CHECK(rig->pid > 0);
    CHECK(kill(rig->pid, number) == 0);
    const uint64_t end = fake_now_ms() + 10000;
    pid_t got = 0;
    while (got == 0 && fake_now_ms() < end) { /* what it says goodbye with has to be read */
        (void)fake_wait(&rig->fake, NULL, NULL, 10);
        got = waitpid(rig->pid, &status, WNOHANG);
    }
    CHECK(got == rig->pid);
    rig->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void rig_kill(struct agent_rig *rig)
{
    if (!rig_is_dead(rig)) {
        (void)rig_end(rig, SIGKILL);
    }
}

/* Every process whose environment names our folder: ranks and shims of this rig alone. */
static void kill_leftovers(const struct agent_rig *rig)
{
    DIR *proc = opendir("/proc");
    CHECK(proc != NULL);
    struct dirent *entry = NULL;
    while ((entry = readdir(proc)) != NULL) {
        uint64_t pid = 0;
        char path[300];
        char text[8192];
        if (text_to_u64(entry->d_name, INT32_MAX, &pid) != 0) {
            continue;
        }
        static const char *const files[] = {"environ", "cmdline"};
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
            (void)text_format(path, sizeof(path), "/proc/%s/%s", entry->d_name, files[i]);
            const int fd = open(path, O_RDONLY | O_CLOEXEC);
            const ssize_t got = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
            if (fd >= 0) {
                (void)close(fd);
            }
            if (got > 0 && memmem(text, (size_t)got, rig->dir, strlen(rig->dir)) != NULL) {
                (void)kill((pid_t)pid, SIGKILL);
                break;
            }
        }
    }
    (void)closedir(proc);
}

static void run(const char *const *argv)
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)execvp(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
    (void)waitpid(pid, NULL, 0);
}

static void remove_tree(const char *path)
{
    const char *const argv[] = {"rm", "-rf", path, NULL};
    run(argv);
}

/* Cgroups of shims that were killed; a moment later when a process in one is still dying. */
static void remove_cgroups(struct agent_rig *rig)
{
    char pattern[64];
    (void)text_format(pattern, sizeof(pattern), "*/keepstep/%s*", rig->node);
    const char *const argv[] = {"find",  "/sys/fs/cgroup", "-depth", "-type", "d", "-path",
                                pattern, "-exec",          "rmdir",  "{}",    ";", NULL};
    (void)fake_wait(&rig->fake, NULL, NULL, 20);
    run(argv);
}

static void show_log(const struct agent_rig *rig)
{
    char path[128];
    char text[8192];
    (void)text_format(path, sizeof(path), "%s/agent.log", rig->dir);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    const off_t begin = size > (off_t)sizeof(text) ? size - (off_t)sizeof(text) : 0;
    const ssize_t got = fd >= 0 ? pread(fd, text, sizeof(text), begin) : 0;
    (void)printf("%.*s\n", got > 0 ? (int)got : 0, text);
    if (fd >= 0) {
        (void)close(fd);
    }
}

bool rig_ends_well(struct agent_rig *rig)
{
    if (rig->dir[0] == '\0' || rig_is_dead(rig)) {
        return true;
    }
    const int status = rig_end(rig, SIGTERM);
    if (status != 0) {
        (void)printf("the agent ended with %d:\n", status);
        show_log(rig);
    }
    return status == 0;
}

void rig_close(struct agent_rig *rig)
{
    if (rig->dir[0] == '\0') {
        return;
    }
    rig_kill(rig);
    kill_leftovers(rig);
    remove_cgroups(rig);
    fake_close(&rig->fake);
    remove_tree(rig->dir);
    rig->dir[0] = '\0';
}

void rig_script(struct agent_rig *rig, const char *script)
{
    char expanded[3072];
    size_t used = 0;
    while (*script != '\0') {
        CHECK(used + sizeof(rig->dir) < sizeof(expanded));
        if (strncmp(script, "{dir}", 5) == 0) {
            (void)text_copy(expanded + used, sizeof(expanded) - used, rig->dir);
            used += strlen(rig->dir);
            script += 5;
        } else {
            expanded[used++] = *script++;
        }
    }
    expanded[used] = '\0';
    CHECK(text_format(rig->spec, sizeof(rig->spec),
                      "{\"run\":{\"command\":[\"sh\",\"-c\",\"%s\"],\"allow_root\":true,"
                      "\"workdir\":\"%s\",\"env\":{\"RIG\":\"%s\"}}}",
                      expanded, rig->dir, rig->dir));
}

void rig_limit_output(struct agent_rig *rig, uint64_t bytes)
{
    char *end = strrchr(rig->spec, '}') - 1; /* of "run" */
    const size_t room = sizeof(rig->spec) - (size_t)(end - rig->spec);
    CHECK(text_format(end, room, ",\"log_max\":%llu}}", (unsigned long long)bytes));
}

void rig_desire_run(struct agent_rig *rig, uint32_t job, uint32_t attempt, uint32_t rank_count)
{
    struct msg_desired desired = {.mode = DESIRED_RUN,
                                  .job = job,
                                  .attempt = attempt,
                                  .slot_count = 1,
                                  .rank_count = rank_count,
                                  .world = rank_count,
                                  .tensor = 1,
                                  .context = 1,
                                  .pipeline = 1,
                                  .data = (uint16_t)rank_count,
                                  .master_port = 29500,
                                  .start = true,
                                  .spec_revision = 1,
                                  .spec = rig->spec,
                                  .spec_size = (uint32_t)strlen(rig->spec)};
    (void)text_copy(desired.job_name, sizeof(desired.job_name), "job-a");
    (void)text_copy(desired.order, sizeof(desired.order), "tp-cp-pp-dp");
    (void)text_copy(desired.master_address, sizeof(desired.master_address), "127.0.0.1");
    fake_desire(&rig->fake, &desired);
}

void rig_desire_stop(struct agent_rig *rig, uint32_t job, uint32_t attempt, bool forget)
{
    struct msg_desired desired = {
        .mode = DESIRED_STOP, .job = job, .attempt = attempt, .grace_ms = 1000, .forget = forget};
    (void)text_copy(desired.job_name, sizeof(desired.job_name), "job-a");
    fake_desire(&rig->fake, &desired);
}

void rig_touch(const struct agent_rig *rig, const char *name)
{
    char path[256];
    (void)text_format(path, sizeof(path), "%s/%s", rig->dir, name);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    (void)close(fd);
}

uint32_t rig_lines(const struct agent_rig *rig, const char *name)
{
    char path[256];
    char text[8192];
    (void)text_format(path, sizeof(path), "%s/%s", rig->dir, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
    uint32_t lines = 0;
    for (ssize_t i = 0; i < got; i++) {
        lines += text[i] == '\n';
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return lines;
}

static bool state_is(const struct fake_controller *fake, void *context)
{
    const struct rig_state *state = context;
    const struct attempt_report *report = fake_report(fake, state->job, state->attempt);
    if (fake->fd < 0 || !fake->welcomed || fake->beat.sequence == 0) {
        return false;
    }
    if (state->absent || report == NULL) {
        return state->absent && report == NULL;
    }
    if (state->empty && !report->empty) {
        return false;
    }
    for (uint32_t i = 0; i < report->rank_count; i++) {
        const uint8_t rank = report->ranks[i].state;
        if ((state->running && rank != RANK_RUNNING) || (state->ended && rank < RANK_EXITED)) {
            return false;
        }
    }
    return report->rank_count > 0 || (!state->running && !state->ended);
}

bool rig_wait(struct agent_rig *rig, struct rig_state state, uint64_t ms)
{
    return fake_wait(&rig->fake, state_is, &state, ms);
}
