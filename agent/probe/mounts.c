/* mounts.c: network file systems: does each of them answer? Each is asked in a process of its own,
 * since one that does not answer keeps whoever asks, beyond SIGKILL. */
#include "agent/probe/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/probe/list.h"
#include "agent/probe/read.h"
#include "agent/probe/task.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { TABLE_SIZE = 1 << 20, ANSWER_MS = 5000, ASKED_MAX = 32 };

/* ---- the table ------------------------------------------------------------------------------------ */

/* The kernel writes space, tab, newline and backslash as \ooo. */
static bool take_field(const char *field, size_t size, char *target, size_t target_size)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)field[i];
        if (byte == '\\' && i + 3 < size && field[i + 1] >= '0' && field[i + 1] <= '3' &&
            field[i + 2] >= '0' && field[i + 2] <= '7' && field[i + 3] >= '0' &&
            field[i + 3] <= '7') {
            byte = (unsigned char)((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 +
                                   (field[i + 3] - '0'));
            i += 3;
        }
        if (byte == '\0' || used + 1 >= target_size) {
            return false;
        }
        target[used++] = (char)byte;
    }
    target[used] = '\0';
    return used > 0;
}

bool mount_parse(const char *line, size_t size, struct mount *ret_mount)
{
    const char *fields[4];
    size_t sizes[4];
    size_t at = 0;
    for (uint32_t i = 0; i < ARRAY_SIZE(fields); i++) {
        const size_t start = at;
        while (at < size && line[at] != ' ') {
            at++;
        }
        if (at == size || at == start) {
            return false;
        }
        fields[i] = line + start;
        sizes[i] = at - start;
        at++;
    }
    struct mount mount = {0};
    if (!take_field(fields[0], sizes[0], mount.source, sizeof(mount.source)) ||
        !take_field(fields[1], sizes[1], mount.path, sizeof(mount.path)) ||
        !take_field(fields[2], sizes[2], mount.type, sizeof(mount.type))) {
        return false;
    }
    mount.read_only =
        sizes[3] >= 2 && memcmp(fields[3], "ro", 2) == 0 && (sizes[3] == 2 || fields[3][2] == ',');
    *ret_mount = mount;
    return true;
}

static void put_mount(struct mounts *mounts, const struct mount *mount)
{
    for (uint32_t i = 0; i < mounts->count; i++) {
        if (text_equal(mounts->mounts[i].path, mount->path)) {
            mounts->mounts[i] = *mount;
            return;
        }
    }
    if (mounts->count == MOUNTS_MAX) {
        mounts->left_out++;
        return;
    }
    mounts->mounts[mounts->count++] = *mount;
}

int mounts_read(const char *proc, bool (*wanted)(const struct mount *mount),
                struct mounts *ret_mounts)
{
    char *table = mem_alloc(TABLE_SIZE, 1);
    const int r = read_text(table, TABLE_SIZE, "%s/mounts", proc);
    ret_mounts->count = 0;
    ret_mounts->left_out = 0;
    for (const char *line = table; r == 0 && *line != '\0';) {
        const size_t size = strcspn(line, "\n");
        struct mount mount;
        if (mount_parse(line, size, &mount) && wanted(&mount)) {
            put_mount(ret_mounts, &mount);
        }
        line += size + (line[size] == '\n');
    }
    mem_free(table);
    return r;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (text_equal(word, *words)) {
            return true;
        }
    }
    return false;
}

bool mount_is_network(const struct mount *mount)
{
    static const char *const types[] = {
        "nfs",          "nfs4",   "lustre", "gpfs",      "beegfs",         "ceph",
        "cifs",         "wekafs", "9p",     "glusterfs", "fuse.glusterfs", "fuse.sshfs",
        "fuse.juicefs", "pvfs2",  NULL};
    return is_one_of(mount->type, types);
}

bool mount_is_local(const struct mount *mount)
{
    static const char *const types[] = {"ext2", "ext3", "ext4", "xfs",      "btrfs",
                                        "zfs",  "f2fs", "jfs",  "bcachefs", NULL};
    return is_one_of(mount->type, types);
}

/* ---- asking ----------------------------------------------------------------------------------------- */

struct asked {
    char path[MOUNT_PATH_SIZE];
    struct task task; /* the one that has not come back */
};

struct state {
    uint32_t count;
    struct asked asked[ASKED_MAX];
};

/* In a process of its own: its numbers, and whether its folder can be read. */
static int ask(void *context)
{
    const char *path = context;
    struct statvfs status;
    if (statvfs(path, &status) != 0) {
        return errno > 0 && errno < 128 ? errno : EIO;
    }
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return errno == EACCES || errno == ENOTDIR ? 0 : errno;
    }
    errno = 0;
    (void)readdir(folder); /* an empty folder is fine */
    const int code = errno;
    (void)closedir(folder); /* opened for reading */
    return code < 128 ? code : EIO;
}

static void blame(struct finding *finding, const struct mount *mount, const char *signal)
{
    probe_blame(finding, LABEL_STORAGE, ADVICE_HOLD_STORAGE, ROLE_SYMPTOM, signal);
    finding->severity = 1; /* evidence for an attempt that stands still, no reason to end one */
    (void)text_copy(finding->subject, sizeof(finding->subject), mount->path);
}

static void say(struct probe_run *run, const struct mount *mount, int status)
{
    struct finding finding;
    if (status == 0) {
        probe_finding(&finding, VERDICT_OK, mount->path, "%.80s (%s) answers", mount->path,
                      mount->type);
    } else if (status == TASK_STUCK) {
        probe_finding(&finding, VERDICT_FAIL, mount->path,
                      "%.64s (%s of %.64s) does not answer in %d s", mount->path, mount->type,
                      mount->source, ANSWER_MS / 1000);
        blame(&finding, mount, "mount-stuck");
    } else if (status == ESTALE || status == ENOTCONN || status == EIO || status == ESHUTDOWN ||
               status == EHOSTDOWN || status == EREMOTEIO) {
        probe_finding(&finding, VERDICT_FAIL, mount->path, "%.64s (%s of %.64s): %s", mount->path,
                      mount->type, mount->source, strerror(status));
        blame(&finding, mount, "mount-error");
    } else {
        probe_not_run(run, mount->path, "%.64s cannot be asked: %s", mount->path, strerror(status));
        return;
    }
    probe_state(run, &finding);
}

static struct asked *asked_of(struct state *state, const char *path)
{
    for (uint32_t i = 0; i < state->count; i++) {
        if (text_equal(state->asked[i].path, path)) {
            return &state->asked[i];
        }
    }
    if (state->count == ASKED_MAX) {
        return NULL;
    }
    struct asked *asked = &state->asked[state->count++];
    (void)text_copy(asked->path, sizeof(asked->path), path);
    return asked;
}

static void take_mount(struct probe_run *run, struct state *state, struct mount *mount)
{
    char output[64];
    struct asked *asked = asked_of(state, mount->path);
    if (asked == NULL) {
        return;
    }
    if (!task_is_gone(&asked->task)) {
        say(run, mount, TASK_STUCK); /* the one before still waits */
        return;
    }
    const int r = task_start(&asked->task, ask, mount->path);
    if (r != 0) {
        probe_not_run(run, mount->path, "%.64s cannot be asked: %s", mount->path, strerror(-r));
        return;
    }
    say(run, mount, task_finish(&asked->task, ANSWER_MS, output, sizeof(output)));
}

static void look_mounts(struct probe_run *run)
{
    struct mounts mounts;
    struct state *state = run->state;
    const char *list = run->config->mounts;
    struct mount named = {.type = "named", .source = "the configuration"};
    if (state == NULL) {
        state = run->state = mem_alloc(1, sizeof(*state));
    }
    const int r = mounts_read(run->config->proc, mount_is_network, &mounts);
    if (r != 0 && list[0] == '\0') {
        probe_nothing(run, "%s/mounts: %s", run->config->proc, strerror(-r));
        return;
    }
    for (uint32_t i = 0; r == 0 && i < mounts.count; i++) {
        take_mount(run, state, &mounts.mounts[i]);
    }
    while (list_next(&list, named.path, sizeof(named.path))) {
        take_mount(run, state, &named);
    }
    if (run->readings == 0) {
        probe_nothing(run, "no network file system is mounted");
    }
}

static void done(struct probe_run *run)
{
    run->state = mem_free(run->state);
}

/* Its deadline covers all of them stuck one after another; from then on none is waited for. */
const struct probe probe_mounts = {.name = "mounts",
                                   .what = "network file systems answer",
                                   .period_ms = 15000,
                                   .deadline_ms = ASKED_MAX * ANSWER_MS + 15000,
                                   .resident = true,
                                   .stuck_label = LABEL_STORAGE,
                                   .stuck_advice = ADVICE_WATCH,
                                   .stuck_role = ROLE_SYMPTOM,
                                   .look = look_mounts,
                                   .done = done};
