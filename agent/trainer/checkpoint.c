/* checkpoint.c: the order in which files, ranks and Keepstep learn of a checkpoint.
 *
 *   all:     begin -> folder -> shard (temporary, sync, rename, sync)      -> shard reported
 *   all:     gather (result, size, hash) of all shards: the barrier before the manifest
 *   rank 0:  manifest (same way)  -> commit reported
 *   all:     rank 0's result
 *
 * Whoever dies at any line leaves a folder without a manifest. Loading goes the other way: each
 * rank judges manifest and shard for itself, then all hear whether any of them found a fault, so
 * that all end with the same code and nobody is blamed for a file. */
#include "agent/trainer/checkpoint.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"

static const char shard_magic[8] = "KSSHARD";

int checkpoint_path(const char *directory, uint64_t step, uint32_t attempt,
                    char ret_path[CHECKPOINT_PATH_SIZE])
{
    const int length = snprintf(ret_path, CHECKPOINT_PATH_SIZE, "%s/step-%llu.a-%u", directory,
                                (unsigned long long)step, attempt);
    return length > 0 && length < CHECKPOINT_PATH_SIZE ? 0 : -ENAMETOOLONG;
}

/* ---- agreeing ------------------------------------------------------------------------------- */

/* What one rank tells the others after its part; fixed size, carried as bytes. */
struct report {
    int64_t code;      /* 0 or -errno */
    int64_t exit_code; /* of a failure */
    struct durable_file file;
    char hash[DURABLE_HASH_SIZE]; /* of the manifest that it read */
};

/* The world is broken: says so in place of whatever was to be said. */
static int fail_peer(struct comm *comm, int code, struct fail *fail)
{
    char text[FAIL_TEXT_SIZE];
    comm_explain(comm, text, sizeof(text));
    return fail_set(fail, EXIT_PEER, code, "%s", text);
}

/* Collective: reports has one entry a rank. */
static int gather_reports(struct comm *comm, const struct report *own, struct report *reports,
                          struct fail *fail)
{
    const int code =
        comm_all_gather(comm_group(comm, COMM_WORLD), own, reports, sizeof(*own), COMM_U8);
    return code < 0 ? fail_peer(comm, code, fail) : 0;
}

/* The lowest rank that failed decides what the others say; who failed itself keeps its sentence. */
static int agree(struct comm *comm, const struct report *reports, const char *what,
                 struct fail *fail)
{
    for (uint32_t rank = 0; rank < comm->world; rank++) {
        const int code = (int)reports[rank].code;
        if (code < 0 && reports[comm->rank].code == 0) {
            return fail_set(fail, (int)reports[rank].exit_code, code, "rank %u %s: %s", rank, what,
                            fail_errno_text(code));
        }
        if (code < 0) {
            return (int)reports[comm->rank].code;
        }
    }
    return 0;
}

/* ---- saving --------------------------------------------------------------------------------- */

static int open_folder(const char *path, int exit_code, struct fail *fail, int *ret_folder)
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        const int code = -errno;
        return fail_set(fail, exit_code, code, "cannot open the folder '%s': %s", path,
                        fail_errno_text(code));
    }
    *ret_folder = folder;
    return 0;
}

/* A manifest in the folder means that someone else has used our attempt's name. */
static int refuse_used(int folder, const char *path, struct fail *fail)
{
    if (faccessat(folder, MANIFEST_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return fail_set(fail, EXIT_LOCAL, -EEXIST,
                        "'%s' holds a checkpoint already and is never overwritten; use an empty "
                        "folder or a new attempt number",
                        path);
    }
    return 0;
}

static int write_shard(const struct comm *comm, const struct manifest_head *head, int folder,
                       const char *path, const struct optimizer_state *state, struct fail *fail,
                       struct durable_file *ret_file)
{
    struct checkpoint_shard_header header = {
        .version = CHECKPOINT_SHARD_VERSION,
        .rank = comm->rank,
        .world = comm->world,
        .attempt = head->attempt,
        .step = head->step,
        .begin = state->begin,
        .count = state->count,
        .tensor = comm->place.tensor,
        .pipeline = comm->place.pipeline,
        .data = comm->place.data,
    };
    memcpy(header.magic, shard_magic, sizeof(header.magic));
    const size_t size = state->count * sizeof(float);
    const struct durable_part parts[] = {
        {&header, sizeof(header)},
        {state->weights, size},
        {state->first, size},
        {state->second, size},
    };
    char name[MANIFEST_SHARD_NAME_SIZE];
    manifest_shard_name(comm->rank, name);
    return durable_write(folder, name, parts, sizeof(parts) / sizeof(parts[0]), false, path, fail,
                         ret_file);
}

/* This rank's part of the save; leaves the result in *report. */
static void save_own(const struct comm *comm, const struct manifest_head *head, const char *path,
                     const struct optimizer_state *state, struct fail *fail, struct report *report)
{
    int folder = -1;
    int code = durable_make_folder(path, fail);
    if (code == 0) {
        code = open_folder(path, EXIT_LOCAL, fail, &folder);
    }
    if (code == 0) {
        code = refuse_used(folder, path, fail);
    }
    if (code == 0) {
        code = write_shard(comm, head, folder, path, state, fail, &report->file);
    }
    if (folder >= 0) {
        (void)close(folder); /* synced already */
    }
    report->code = code;
    report->exit_code = code < 0 ? fail->exit_code : 0;
    if (code == 0) {
        char shard_path[CHECKPOINT_PATH_SIZE + MANIFEST_SHARD_NAME_SIZE + 1];
        char name[MANIFEST_SHARD_NAME_SIZE];
        manifest_shard_name(comm->rank, name);
        (void)snprintf(shard_path, sizeof(shard_path), "%s/%s", path, name); /* fits by its size */
        /* Telling is a courtesy: training does not depend on whether anybody listens. */
        (void)keepstep_checkpoint_shard(shard_path, report->file.size, report->file.hash);
    }
}

/* Rank 0, when all shards are durable. */
static int write_manifest(const struct comm *comm, const struct manifest_head *head,
                          const char *path, const struct report *reports, struct fail *fail)
{
    struct manifest manifest = {.head = *head, .shard_count = comm->world};
    char *text = NULL;
    size_t size = 0;
    int folder = -1;
    struct durable_file file;
    manifest.shards = calloc(comm->world, sizeof(*manifest.shards));
    if (manifest.shards == NULL) {
        return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory for the manifest");
    }
    for (uint32_t rank = 0; rank < comm->world; rank++) {
        manifest.shards[rank] = reports[rank].file;
    }
    int code = manifest_format(&manifest, fail, &text, &size);
    if (code == 0) {
        code = open_folder(path, EXIT_LOCAL, fail, &folder);
    }
    if (code == 0) {
        const struct durable_part part = {text, size};
        code = durable_write(folder, MANIFEST_NAME, &part, 1, false, path, fail, &file);
        (void)close(folder); /* synced already */
    }
    free(text);
    manifest_done(&manifest);
    if (code == 0) {
        /* Refused or unheard, the folder stays: who restores chooses among the accepted ones. */
        (void)keepstep_checkpoint_commit(
            path, file.hash, KEEPSTEP_WEIGHTS | KEEPSTEP_OPTIMIZER | KEEPSTEP_DATA | KEEPSTEP_RNG);
    }
    return code;
}

/* Rank 0's part and its result for all. */
static int finish_save(struct comm *comm, const struct manifest_head *head, const char *path,
                       const struct report *reports, struct fail *fail)
{
    int64_t code = 0;
    if (comm->rank == 0) {
        code = write_manifest(comm, head, path, reports, fail);
    }
    const int sent = comm_broadcast(comm_group(comm, COMM_WORLD), &code, 1, COMM_I64, 0);
    if (sent < 0) {
        return fail_peer(comm, sent, fail);
    }
    if (code < 0 && comm->rank != 0) {
        return fail_set(fail, EXIT_LOCAL, (int)code, "rank 0 could not finish '%s': %s", path,
                        fail_errno_text((int)code));
    }
    return (int)code;
}

int checkpoint_save(struct comm *comm, const struct manifest_head *head, const char *directory,
                    const struct optimizer_state *state, struct fail *fail)
{
    char path[CHECKPOINT_PATH_SIZE];
    struct report own = {0};
    struct report *reports = calloc(comm->world, sizeof(*reports));
    if (reports == NULL) {
        return fail_set(fail, EXIT_PEER, -ENOMEM, "no memory for %u reports", comm->world);
    }
    (void)keepstep_checkpoint_begin(head->step, comm->world); /* a courtesy */
    own.code = checkpoint_path(directory, head->step, head->attempt, path);
    if (own.code < 0) {
        own.exit_code = EXIT_LOCAL;
        (void)fail_set(fail, EXIT_LOCAL, -ENAMETOOLONG, "'%s' is too long", directory);
    } else {
        save_own(comm, head, path, state, fail, &own);
    }
    int code = gather_reports(comm, &own, reports, fail);
    if (code == 0) {
        code = agree(comm, reports, "could not write its shard", fail);
    }
    if (code == 0) {
        code = finish_save(comm, head, path, reports, fail);
    }
    free(reports);
    return code;
}

/* ---- loading -------------------------------------------------------------------------------- */

/* Reads a whole file; *ret_data is the caller's to free. limit: the largest size that makes sense;
 * exact: no other size is right. */
static int read_file(int folder, const char *name, const char *place, uint64_t limit, bool exact,
                     struct fail *fail, char **ret_data, size_t *ret_size)
{
    struct stat status;
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        const int code = -errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return fail_set(fail, EXIT_CHECKPOINT, code, "%s/%s: %s", place, name,
                        code == -ENOENT ? "it is missing" : fail_errno_text(code));
    }
    const uint64_t size = status.st_size > 0 ? (uint64_t)status.st_size : 0;
    if (!S_ISREG(status.st_mode) || size > limit || (exact && size != limit)) {
        (void)close(fd);
        return fail_set(
            fail, EXIT_CHECKPOINT, -EBADMSG, "%s/%s: it has %llu bytes, expected %s%llu", place,
            name, (unsigned long long)size, exact ? "" : "at most ", (unsigned long long)limit);
    }
    char *data = malloc(size + 1);
    size_t done = 0;
    int code = data == NULL ? -ENOMEM : 0;
    while (code == 0 && done < size) {
        const ssize_t got = read(fd, data + done, size - done);
        if (got == 0) {
            code = -EBADMSG; /* it shrank under us */
        } else if (got < 0 && errno != EINTR) {
            code = -errno;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd); /* only read from */
    if (code < 0) {
        free(data);
        return fail_set(fail, EXIT_CHECKPOINT, code, "%s/%s: %s", place, name,
                        fail_errno_text(code));
    }
    *ret_data = data;
    *ret_size = size;
    return 0;
}

static int check_header(const struct checkpoint_shard_header *found, const struct comm *comm,
                        const struct manifest_head *head, const struct optimizer_state *state,
                        const char *place, struct fail *fail)
{
    const struct {
        const char *name;
        uint64_t expected;
        uint64_t found;
    } list[] = {
        {"version", CHECKPOINT_SHARD_VERSION, found->version},
        {"rank", comm->rank, found->rank},
        {"world", comm->world, found->world},
        {"attempt", head->attempt, found->attempt},
        {"step", head->step, found->step},
        {"begin", state->begin, found->begin},
        {"count", state->count, found->count},
        {"tensor", comm->place.tensor, found->tensor},
        {"pipeline", comm->place.pipeline, found->pipeline},
        {"data", comm->place.data, found->data},
    };
    if (memcmp(found->magic, shard_magic, sizeof(shard_magic)) != 0) {
        return fail_set(fail, EXIT_CHECKPOINT, -EBADMSG, "%s: rank %u's shard is not a shard",
                        place, comm->rank);
    }
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        if (list[i].expected != list[i].found) {
            return fail_set(fail, EXIT_CHECKPOINT, -EXDEV,
                            "%s: rank %u's shard says %s %llu, expected %llu", place, comm->rank,
                            list[i].name, (unsigned long long)list[i].found,
                            (unsigned long long)list[i].expected);
        }
    }
    return 0;
}

static int load_shard(const struct comm *comm, const struct manifest *manifest, int folder,
                      const char *place, const struct optimizer_state *state, struct fail *fail)
{
    const struct durable_file *expected = &manifest->shards[comm->rank];
    const size_t array = state->count * sizeof(float);
    char name[MANIFEST_SHARD_NAME_SIZE];
    char hash[DURABLE_HASH_SIZE];
    char *data = NULL;
    size_t size = 0;
    manifest_shard_name(comm->rank, name);
    if (expected->size != sizeof(struct checkpoint_shard_header) + 3 * array) {
        return fail_set(fail, EXIT_CHECKPOINT, -EBADMSG,
                        "%s/%s: the manifest gives it %llu bytes, expected %zu", place, name,
                        (unsigned long long)expected->size,
                        sizeof(struct checkpoint_shard_header) + 3 * array);
    }
    int code = read_file(folder, name, place, expected->size, true, fail, &data, &size);
    if (code < 0) {
        return code;
    }
    durable_hash(data, size, hash);
    if (strcmp(hash, expected->hash) != 0) {
        code = fail_set(fail, EXIT_CHECKPOINT, -EBADMSG, "%s/%s: its hash is %s, expected %s",
                        place, name, hash, expected->hash);
    } else {
        struct checkpoint_shard_header header;
        memcpy(&header, data, sizeof(header));
        code = check_header(&header, comm, &manifest->head, state, place, fail);
    }
    if (code == 0) {
        const char *arrays = data + sizeof(struct checkpoint_shard_header);
        memcpy(state->weights, arrays, array);
        memcpy(state->first, arrays + array, array);
        memcpy(state->second, arrays + 2 * array, array);
    }
    free(data);
    return code;
}

/* This rank's part of the load; ret_hash: of the manifest. */
static int load_own(const struct comm *comm, const struct manifest_head *head, const char *path,
                    const struct optimizer_state *state, struct fail *fail, char *ret_hash)
{
    char place[CHECKPOINT_PATH_SIZE + sizeof(MANIFEST_NAME) + 1];
    struct manifest manifest = {0};
    char *text = NULL;
    size_t size = 0;
    int folder = -1;
    int code = open_folder(path, EXIT_CHECKPOINT, fail, &folder);
    if (code < 0) {
        return code;
    }
    (void)snprintf(place, sizeof(place), "%s/%s", path, MANIFEST_NAME); /* a cut text will do */
    code = read_file(folder, MANIFEST_NAME, path, MANIFEST_TEXT_MAX, false, fail, &text, &size);
    if (code == 0) {
        durable_hash(text, size, ret_hash);
        code = manifest_parse(text, size, place, fail, &manifest);
    }
    if (code == 0) {
        code = manifest_compare(head, &manifest.head, place, fail);
    }
    if (code == 0) {
        code = load_shard(comm, &manifest, folder, path, state, fail);
    }
    free(text);
    manifest_done(&manifest);
    (void)close(folder); /* only read from */
    return code;
}

int checkpoint_load(struct comm *comm, const struct manifest_head *head, const char *folder,
                    const struct optimizer_state *state, struct fail *fail)
{
    struct report own = {0};
    struct report *reports = calloc(comm->world, sizeof(*reports));
    if (reports == NULL) {
        return fail_set(fail, EXIT_PEER, -ENOMEM, "no memory for %u reports", comm->world);
    }
    own.code = load_own(comm, head, folder, state, fail, own.hash);
    own.exit_code = own.code < 0 ? fail->exit_code : 0;
    int code = gather_reports(comm, &own, reports, fail);
    if (code == 0) {
        code = agree(comm, reports, "could not load its part", fail);
    }
    for (uint32_t rank = 0; rank < comm->world && code == 0; rank++) {
        if (memcmp(reports[rank].hash, reports[0].hash, sizeof(reports[0].hash)) != 0) {
            code = fail_set(fail, EXIT_CHECKPOINT, -EXDEV,
                            "%s: rank 0 reads a manifest of hash %s, rank %u one of %s", folder,
                            reports[0].hash, rank, reports[rank].hash);
        }
    }
    free(reports);
    return code;
}

/* ---- finding -------------------------------------------------------------------------------- */

/* The attempt in a folder name of this step; -1 when the name is another. */
static int64_t attempt_in_name(const char *name, uint64_t step)
{
    char prefix[48];
    uint64_t attempt = 0;
    const int length = snprintf(prefix, sizeof(prefix), "step-%llu.a-", (unsigned long long)step);
    if (strncmp(name, prefix, (size_t)length) != 0 || name[length] == '\0') {
        return -1;
    }
    for (const char *digit = name + length; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || attempt > UINT32_MAX / 10) {
            return -1;
        }
        attempt = attempt * 10 + (uint64_t)(*digit - '0');
    }
    return attempt <= UINT32_MAX ? (int64_t)attempt : -1;
}

static bool has_manifest(int directory, const char *name)
{
    char path[300];
    const int length = snprintf(path, sizeof(path), "%s/%s", name, MANIFEST_NAME);
    return length > 0 && (size_t)length < sizeof(path) &&
           faccessat(directory, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int checkpoint_find(const char *directory, uint64_t step, struct fail *fail, uint32_t *ret_attempt)
{
    DIR *entries = opendir(directory);
    uint32_t count = 0;
    if (entries == NULL) {
        const int code = -errno;
        return fail_set(fail, EXIT_CHECKPOINT, code, "cannot list '%s': %s", directory,
                        fail_errno_text(code));
    }
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        const int64_t attempt = attempt_in_name(entry->d_name, step);
        if (attempt >= 0 && has_manifest(dirfd(entries), entry->d_name)) {
            *ret_attempt = (uint32_t)attempt;
            count++;
        }
    }
    (void)closedir(entries); /* only read from */
    if (count != 1) {
        return fail_set(fail, EXIT_CHECKPOINT, count == 0 ? -ENOENT : -EEXIST,
                        "'%s' holds %u checkpoints of step %llu; name the attempt that wrote the "
                        "one to restore",
                        directory, count, (unsigned long long)step);
    }
    return 0;
}
