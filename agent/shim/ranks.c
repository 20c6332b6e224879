/* ranks.c: see ranks.h. */
#include "agent/shim/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shim/record.h"
#include "agent/shim/tree.h"

enum {
    RANKS_RETRY_MS = 1000,
    RANKS_SWEEP_SOON_MS = 20, /* the first kill rounds: what forked meanwhile */
    RANKS_SWEEP_MS = 100,
    RANKS_SWEEP_LATE_MS = 1000, /* a process in D state may stay for hours */
    RANKS_SWEEPS_SOON = 10,
    RANKS_SWEEPS_OFTEN = 50,
};

/* ---- start ------------------------------------------------------------------------------ */

static int open_record(struct ranks *ranks)
{
    struct shim_process self = {0};
    (void)shim_record_process(getpid(), &self); /* without /proc the pid must do */
    struct shim_record record = {
        .kind = SHIM_RECORD_OPEN,
        .rank = ranks->launch.rank_count,
        .pid = getpid(),
        .start_ticks = self.start_ticks,
        .code = cgroup_is_used(&ranks->cgroup) ? 1 : 0,
    };
    return ends_append(&ranks->ends, &record, 1);
}

static int rank_fork(struct ranks *ranks, uint32_t index, int go_fd)
{
    int report[2];
    struct shim_process child = {0};
    if (pipe2(report, O_CLOEXEC) != 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct start_channel channel = {go_fd, report[1]};
        start_rank(&ranks->launch, index, &channel);
    }
    int result = pid < 0 ? -errno : fcntl(report[0], F_SETFL, O_NONBLOCK) != 0 ? -errno : 0;
    (void)close(report[1]); /* the child's */
    ranks->slots[index].report_fd = report[0];
    if (pid > 0) {
        result = result == 0 ? cgroup_join(&ranks->cgroup, pid) : result;
        (void)shim_record_process(pid, &child); /* as above */
        ranks->status.ranks[index].pid = pid;
        ranks->status.ranks[index].start_ticks = child.start_ticks;
    }
    return result;
}

static int ranks_fork(struct ranks *ranks, int go_fd)
{
    for (uint32_t i = 0; i < ranks->launch.rank_count; i++) {
        int result = rank_fork(ranks, i, go_fd);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

static int starts_record(struct ranks *ranks)
{
    struct shim_record records[SHIM_RANKS_MAX] = {0};
    uint32_t count = ranks->launch.rank_count;
    for (uint32_t i = 0; i < count; i++) {
        records[i].kind = SHIM_RECORD_START;
        records[i].rank = i;
        records[i].pid = ranks->status.ranks[i].pid;
        records[i].start_ticks = ranks->status.ranks[i].start_ticks;
        records[i].code = (int32_t)ranks->launch.ranks[i].rank;
    }
    return ends_append(&ranks->ends, records, count);
}

/* One byte for each child, all at once. */
static int ranks_release(struct ranks *ranks, int go_fd)
{
    static const uint8_t bytes[SHIM_RANKS_MAX];
    size_t count = ranks->launch.rank_count;
    return write(go_fd, bytes, count) == (ssize_t)count ? 0 : -errno;
}

/* Children that were never let go end by themselves when the write end closes. */
static void ranks_abandon(struct ranks *ranks)
{
    for (uint32_t i = 0; i < SHIM_RANKS_MAX; i++) {
        if (ranks->slots[i].report_fd >= 0) {
            (void)close(ranks->slots[i].report_fd); /* opened for reading */
            ranks->slots[i].report_fd = -1;
        }
    }
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

static int ranks_launch(struct ranks *ranks)
{
    int go[2];
    int result = open_record(ranks);
    if (result != 0) {
        return result;
    }
    if (pipe2(go, O_CLOEXEC) != 0) {
        return -errno;
    }
    result = ranks_fork(ranks, go[0]);
    if (result == 0) {
        result = starts_record(ranks);
    }
    if (result == 0) {
        result = ranks_release(ranks, go[1]);
    }
    (void)close(go[0]); /* each child has its own */
    (void)close(go[1]); /* after the bytes: who has none ends */
    if (result != 0) {
        ranks_abandon(ranks);
    }
    return result;
}

static void status_begin(struct ranks *ranks)
{
    struct shim_status *status = &ranks->status;
    status->magic = SHIM_WIRE_MAGIC;
    status->size = sizeof(*status);
    status->job = ranks->launch.job;
    status->attempt = ranks->launch.attempt;
    status->shim_pid = getpid();
    status->rank_count = ranks->launch.rank_count;
    status->alive_count = ranks->launch.rank_count;
    status->has_cgroup = cgroup_is_used(&ranks->cgroup);
    status->sequence = ranks->ends.sequence;
    for (uint32_t i = 0; i < status->rank_count; i++) {
        status->ranks[i].rank = ranks->launch.ranks[i].rank;
        status->ranks[i].state = SHIM_RANK_STARTING;
    }
}

int ranks_begin(struct ranks *ranks, int dir_fd, const struct shim_launch *launch, void *memory,
                uint32_t crash_at)
{
    memset(ranks, 0, sizeof(*ranks));
    ranks->launch = *launch;
    ranks->ends.fd = -1;
    ranks->cgroup = (struct cgroup){-1, -1, -1};
    ranks->has_children = true;
    for (uint32_t i = 0; i < SHIM_RANKS_MAX; i++) {
        ranks->slots[i].report_fd = -1;
    }
    memcpy(ranks->cgroup_path, launch->cgroup, strlen(launch->cgroup) + 1); /* checked: it fits */
    int result = ends_open(&ranks->ends, dir_fd, launch->job, launch->attempt, crash_at);
    if (result == 0 && launch->cgroup[0] != '\0' &&
        cgroup_open(launch->cgroup, &ranks->cgroup) == -EBUSY) {
        result =
            -EBUSY; /* whatever else is wrong with it: without a cgroup, and the status says so */
    }
    if (result == 0) {
        result = ranks_launch(ranks);
    }
    if (result == 0) {
        status_begin(ranks);
    } else {
        ranks_end(ranks);
    }
    free(memory);
    ranks->launch.env = (struct shim_list){0};
    ranks->launch.workdir = ranks->launch.cgroup = "";
    memset(ranks->launch.ranks, 0, sizeof(ranks->launch.ranks));
    return result;
}

void ranks_end(struct ranks *ranks)
{
    ends_close(&ranks->ends);
    cgroup_close(&ranks->cgroup, ranks->cgroup_path);
}

/* ---- ends ------------------------------------------------------------------------------- */

static uint8_t state_of_kind(uint32_t kind)
{
    return kind == SHIM_RECORD_EXITED     ? SHIM_RANK_EXITED
           : kind == SHIM_RECORD_SIGNALED ? SHIM_RANK_SIGNALED
                                          : SHIM_RANK_UNSTARTED;
}

static void end_publish(struct ranks *ranks, const struct shim_record *record)
{
    struct shim_rank_status *rank = &ranks->status.ranks[record->rank];
    rank->state = state_of_kind(record->kind);
    rank->stage = (uint8_t)record->stage;
    rank->after_stop = record->after_stop != 0;
    rank->code = record->code;
    rank->end_sequence = record->sequence;
    rank->end_wall_ms = record->wall_ms;
    rank->end_mono_ms = record->mono_ms;
    ranks->status.alive_count--;
    ranks->slots[record->rank].pending.kind = 0;
}

static void retry_later(struct ranks *ranks, int result, uint64_t now_ms)
{
    ranks->retry_ms = now_ms + RANKS_RETRY_MS;
    if (!ranks->retry_said) {
        ranks->retry_said = true;
        (void)fprintf(stderr, "keepstep-ranks: ends cannot be recorded, trying again: %s\n",
                      strerror(-result));
    }
}

/* Records all ends that wait. true: none waits any more. */
static bool ends_flush(struct ranks *ranks)
{
    struct shim_record records[SHIM_RANKS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < ranks->status.rank_count; i++) {
        if (ranks->slots[i].pending.kind != 0) {
            records[count++] = ranks->slots[i].pending;
        }
    }
    if (count == 0) {
        return true;
    }
    int result = ends_append(&ranks->ends, records, count);
    if (result != 0) {
        retry_later(ranks, result, ends_mono_ms());
        return false;
    }
    ranks->retry_said = false;
    for (uint32_t i = 0; i < count; i++) {
        end_publish(ranks, &records[i]);
    }
    ranks->status.sequence = ranks->ends.sequence;
    ranks->changed = true;
    return true;
}

void ranks_report_read(struct ranks *ranks, uint32_t i)
{
    struct ranks_slot *slot = &ranks->slots[i];
    struct start_report report;
    if (slot->report_fd < 0) {
        return;
    }
    ssize_t got = read(slot->report_fd, &report, sizeof(report));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    (void)close(slot->report_fd); /* opened for reading */
    slot->report_fd = -1;
    if (got == (ssize_t)sizeof(report)) {
        slot->report = report; /* its end follows and is recorded as UNSTARTED */
    } else if (ranks->status.ranks[i].state == SHIM_RANK_STARTING) {
        ranks->status.ranks[i].state = SHIM_RANK_RUNNING;
        ranks->changed = true;
    }
}

static void rank_ended(struct ranks *ranks, uint32_t i, int wait_status)
{
    struct ranks_slot *slot = &ranks->slots[i];
    struct shim_record *record = &slot->pending;

    ranks_report_read(ranks, i);
    slot->reaped = true;
    memset(record, 0, sizeof(*record));
    record->rank = i;
    record->pid = ranks->status.ranks[i].pid;
    record->start_ticks = ranks->status.ranks[i].start_ticks;
    record->wall_ms = ends_wall_ms();
    record->mono_ms = ends_mono_ms();
    record->after_stop =
        (ranks->status.term_ordered | ranks->status.kill_ordered) && !slot->left_first;
    if (slot->report.stage != SHIM_STAGE_NONE) {
        record->kind = SHIM_RECORD_UNSTARTED;
        record->stage = (uint16_t)slot->report.stage;
        record->code = slot->report.error;
    } else if (WIFSIGNALED(wait_status)) {
        record->kind = SHIM_RECORD_SIGNALED;
        record->code = WTERMSIG(wait_status);
    } else {
        record->kind = SHIM_RECORD_EXITED;
        record->code = WEXITSTATUS(wait_status);
    }
}

void ranks_reap(struct ranks *ranks)
{
    int wait_status;
    pid_t pid;
    while ((pid = waitpid(-1, &wait_status, WNOHANG | __WALL)) > 0) {
        for (uint32_t i = 0; i < ranks->status.rank_count; i++) {
            if (ranks->status.ranks[i].pid == pid && !ranks->slots[i].reaped) {
                rank_ended(ranks, i, wait_status);
            }
        }
    }
    ranks->has_children = !(pid < 0 && errno == ECHILD);
    (void)ends_flush(ranks); /* what failed is tried again by the timer */
    if (!ranks->has_children) {
        ranks->sweep_ms = ends_mono_ms(); /* look for emptiness now */
    }
}

/* ---- orders ----------------------------------------------------------------------------- */

/* To what is left in the groups of ranks that ended: their numbers may have been used again, so
 * only where a living descendant is still in it. */
static void groups_term(const struct ranks *ranks)
{
    struct tree tree;
    if (tree_scan(getpid(), &tree) != 0) {
        return; /* KILL does not depend on it */
    }
    for (uint32_t i = 0; i < ranks->status.rank_count; i++) {
        int32_t group = ranks->status.ranks[i].pid;
        bool found = false;
        for (size_t at = 0; at < tree.count && ranks->slots[i].reaped; at++) {
            found = found || tree.processes[at].group == group;
        }
        if (found) {
            (void)kill(-group, SIGTERM); /* gone meanwhile: fine */
        }
    }
    tree_done(&tree);
}

/* A rank that is not reaped keeps its number, so this cannot hit a stranger. */
static void leaders_signal(const struct ranks *ranks, int signal_number)
{
    for (uint32_t i = 0; i < ranks->status.rank_count; i++) {
        int32_t pid = ranks->status.ranks[i].pid;
        if (!ranks->slots[i].reaped && kill(-pid, signal_number) != 0) {
            (void)kill(pid, signal_number); /* it has not made its own session yet */
        }
    }
}

static void all_kill(struct ranks *ranks)
{
    struct tree tree;
    (void)cgroup_kill(&ranks->cgroup); /* what it does not reach, the tree does */
    leaders_signal(ranks, SIGKILL);
    if (tree_scan(getpid(), &tree) == 0) {
        (void)tree_kill(&tree, getpgrp());
        tree_done(&tree);
    }
    ranks->sweeps++;
    uint64_t delay = ranks->sweeps <= RANKS_SWEEPS_SOON    ? RANKS_SWEEP_SOON_MS
                     : ranks->sweeps <= RANKS_SWEEPS_OFTEN ? RANKS_SWEEP_MS
                                                           : RANKS_SWEEP_LATE_MS;
    ranks->sweep_ms = ends_mono_ms() + delay;
}

/* The first of each kind is recorded, after the ends that came before it. */
static int order_record(struct ranks *ranks, int signal_number, bool *recorded)
{
    struct shim_record record = {.kind = SHIM_RECORD_ORDER, .code = signal_number};
    if (*recorded) {
        return 0;
    }
    ranks_reap(ranks);
    *recorded = ends_append(&ranks->ends, &record, 1) == 0;
    ranks->status.sequence = ranks->ends.sequence;
    ranks->changed = true;
    return *recorded ? 0 : -EIO;
}

/* A rank that crashed closes its connections before it can be waited for, and a GPU driver may take
 * seconds over its files: its peers give up and we are told to stop while it still ends. It is the
 * one that began it, so its end must not count as ours. */
static void leaving_note(struct ranks *ranks)
{
    if (ranks->status.term_ordered || ranks->status.kill_ordered) {
        return; /* who leaves now may leave because of that */
    }
    ranks_reap(ranks);
    for (uint32_t i = 0; i < ranks->status.rank_count; i++) {
        struct shim_process process;
        if (!ranks->slots[i].reaped &&
            shim_record_process(ranks->status.ranks[i].pid, &process) == 0) {
            ranks->slots[i].left_first = process.leaving;
        }
    }
}

int ranks_order(struct ranks *ranks, uint32_t op)
{
    int result;
    if (op == SHIM_TERM) {
        result = order_record(ranks, SIGTERM, &ranks->term_recorded);
        leaving_note(ranks);
        ranks->status.term_ordered = 1;
        leaders_signal(ranks, SIGTERM);
        groups_term(ranks);
    } else {
        result = order_record(ranks, SIGKILL, &ranks->kill_recorded);
        leaving_note(ranks);
        ranks->status.kill_ordered = 1;
        ranks->sweeps = 0;
        all_kill(ranks);
    }
    return result;
}

/* ---- time ------------------------------------------------------------------------------- */

static bool is_empty(const struct ranks *ranks)
{
    return !ranks->has_children &&
           (!cgroup_is_used(&ranks->cgroup) || cgroup_populated(&ranks->cgroup) == 0);
}

static void empty_record(struct ranks *ranks, uint64_t now_ms)
{
    struct shim_record record = {.kind = SHIM_RECORD_EMPTY};
    int result = ends_append(&ranks->ends, &record, 1);
    if (result != 0) {
        retry_later(ranks, result, now_ms);
        return;
    }
    ranks->status.empty = 1;
    ranks->status.sequence = ranks->ends.sequence;
    ranks->changed = true;
    ranks->sweep_ms = 0;
}

/* Kill rounds go on until nothing is left, also while the disk refuses to record. */
static void sweep_run(struct ranks *ranks, uint64_t now_ms)
{
    if (ranks->sweep_ms == 0 || now_ms < ranks->sweep_ms) {
        return;
    }
    ranks->sweep_ms = 0;
    if (is_empty(ranks)) {
        return;
    }
    if (ranks->status.kill_ordered) {
        all_kill(ranks);
    } else if (!ranks->has_children) {
        ranks->sweep_ms = now_ms + RANKS_SWEEP_MS; /* the cgroup still says populated */
    }
}

void ranks_tick(struct ranks *ranks, uint64_t now_ms)
{
    if (ranks->status.empty) {
        return;
    }
    sweep_run(ranks, now_ms);
    if (now_ms < ranks->retry_ms) {
        return;
    }
    ranks->retry_ms = 0;
    if (ends_flush(ranks) && is_empty(ranks)) {
        empty_record(ranks, now_ms);
    }
}

uint64_t ranks_deadline_ms(const struct ranks *ranks)
{
    uint64_t deadline = UINT64_MAX;
    if (ranks->retry_ms != 0) {
        deadline = ranks->retry_ms;
    }
    if (ranks->sweep_ms != 0 && ranks->sweep_ms < deadline) {
        deadline = ranks->sweep_ms;
    }
    return deadline;
}
