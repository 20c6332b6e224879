/* disks.c: the machine's own disks and what is on them. A file system that was writable and is no
 * longer has been taken out by the kernel after an error; one that is full will end a save. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "agent/probe/mounts.h"
#include "agent/probe/read.h"
#include "proto/base/text.h"

enum { FULL_PERMILLE = 950 };

static void put_subject(struct finding *finding, const char *subject)
{
    (void)text_copy(finding->subject, sizeof(finding->subject), subject);
}

/* Parts of a thousand in use, of what an ordinary user may have. */
static uint32_t used_permille(uint64_t total, uint64_t free, uint64_t available)
{
    const uint64_t used = total > free ? total - free : 0;
    const uint64_t usable = used + available;
    return usable > 0 ? (uint32_t)((used * 1000 + usable - 1) / usable) : 0;
}

static void take_space(struct probe_run *run, const struct mount *mount)
{
    char key[FINDING_KEY_SIZE];
    struct finding finding;
    struct statvfs status;
    (void)text_format(key, sizeof(key), "space %s", mount->path);
    if (statvfs(mount->path, &status) != 0) {
        probe_not_run(run, key, "%.100s: %s", mount->path, strerror(errno));
        return;
    }
    const uint32_t bytes = used_permille(status.f_blocks, status.f_bfree, status.f_bavail);
    const uint32_t files =
        status.f_files > 0 ? used_permille(status.f_files, status.f_ffree, status.f_favail) : 0;
    const bool full = !mount->read_only && (bytes > FULL_PERMILLE || files > FULL_PERMILLE);
    probe_finding(&finding, full ? VERDICT_WARN : VERDICT_OK, key,
                  "%.100s: %u %% of its bytes and %u %% of its inodes are in use", mount->path,
                  bytes / 10, files / 10);
    if (full) {
        probe_blame(&finding, LABEL_SOFTWARE, ADVICE_WATCH, ROLE_SYMPTOM, "disk-full");
        put_subject(&finding, mount->path);
    }
    probe_state(run, &finding);
}

static void take_mode(struct probe_run *run, const struct mount *mount)
{
    char name[NOTE_NAME_SIZE];
    struct finding finding;
    (void)text_format(name, sizeof(name), "rw:%s", mount->path);
    const bool was_writable = probe_note(run, name) != NULL;
    if (!mount->read_only) {
        probe_note_put(run, name, "yes");
    }
    const bool lost = mount->read_only && was_writable;
    probe_finding(&finding, lost ? VERDICT_FAIL : VERDICT_OK, mount->path, "%.80s (%s on %.64s) %s",
                  mount->path, mount->type, mount->source,
                  lost               ? "was writable and is read-only now"
                  : mount->read_only ? "is read-only"
                                     : "is writable");
    if (lost) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT, ROLE_ROOT, "disk-read-only");
        put_subject(&finding, mount->path);
    }
    probe_state(run, &finding);
}

/* What the driver says of an NVMe or SCSI device. */
static void take_device(struct probe_run *run, const char *folder, const char *name,
                        const char *file, const char *const *bad)
{
    char word[32];
    struct finding finding;
    if (read_text(word, sizeof(word), "%s/%s/%s/%s", run->config->sys, folder, name, file) != 0) {
        return; /* devices of other kinds have no such file */
    }
    bool is_bad = false;
    for (; *bad != NULL; bad++) {
        is_bad = is_bad || text_equal(word, *bad);
    }
    probe_finding(&finding, is_bad ? VERDICT_FAIL : VERDICT_OK, name, "%s is %s", name, word);
    if (is_bad) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_EVICT, ROLE_ROOT, "disk-dead");
        put_subject(&finding, name);
    }
    probe_state(run, &finding);
}

static void take_array(struct probe_run *run, const char *name)
{
    uint64_t missing = 0;
    char key[FINDING_KEY_SIZE];
    struct finding finding;
    if (read_number(&missing, "%s/block/%s/md/degraded", run->config->sys, name) != 0) {
        return;
    }
    (void)text_format(key, sizeof(key), "array %s", name);
    probe_finding(&finding, missing > 0 ? VERDICT_WARN : VERDICT_OK, key,
                  "array %s lacks %llu of its disks", name, (unsigned long long)missing);
    if (missing > 0) {
        probe_blame(&finding, LABEL_HARDWARE, ADVICE_WATCH, ROLE_SYMPTOM, "disk-array-degraded");
        put_subject(&finding, name);
    }
    probe_state(run, &finding);
}

static bool seen_before(const struct mounts *mounts, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (text_equal(mounts->mounts[i].source, mounts->mounts[index].source)) {
            return true;
        }
    }
    return false;
}

static void look_disks(struct probe_run *run)
{
    static const char *const nvme_bad[] = {"dead", "deleting", "deleting (no IO)", NULL};
    static const char *const scsi_bad[] = {"offline", "transport-offline", NULL};
    struct mounts mounts;
    struct read_names names;
    const int r = mounts_read(run->config->proc, mount_is_local, &mounts);
    for (uint32_t i = 0; r == 0 && i < mounts.count; i++) {
        take_mode(run, &mounts.mounts[i]);
        if (!seen_before(&mounts, i)) { /* the same disk at another path */
            take_space(run, &mounts.mounts[i]);
        }
    }
    if (read_names(&names, "%s/class/nvme", run->config->sys) == 0) {
        for (uint32_t i = 0; i < names.count; i++) {
            take_device(run, "class/nvme", names.names[i], "state", nvme_bad);
        }
    }
    if (read_names(&names, "%s/block", run->config->sys) == 0) {
        for (uint32_t i = 0; i < names.count; i++) {
            take_device(run, "block", names.names[i], "device/state", scsi_bad);
            take_array(run, names.names[i]);
        }
    }
    if (run->readings == 0) {
        probe_nothing(run, "no disk of this machine: %s",
                      r != 0 ? strerror(-r) : "none is mounted");
    }
}

const struct probe probe_disks = {.name = "disks",
                                  .what = "disks, and file systems on them: mode, space, inodes",
                                  .period_ms = 60000,
                                  .deadline_ms = 20000,
                                  .stuck_label = LABEL_HARDWARE,
                                  .stuck_advice = ADVICE_WATCH,
                                  .stuck_role = ROLE_SYMPTOM,
                                  .look = look_disks};
