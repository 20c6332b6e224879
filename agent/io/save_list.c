/* save_list.c: names first, newest on top; then each folder is judged until enough are complete. */
#include "agent/io/save_list.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/io/save_manifest.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

#define MEGATRON_TRACKER "latest_checkpointed_iteration.txt"

enum { TRACKER_MAX = 64 };

struct name {
    uint64_t step;
    uint32_t attempt;
    char text[240];
};
static_assert(sizeof(struct name) <= SORT_ELEMENT_MAX, "sort_any moves it");

struct list {
    const struct save_query *query;
    const struct format *format;
    int fd;
    bool has_latest; /* megatron: its number file is there */
    uint64_t latest; /* … and says this; 0 = "release" */
    struct name *names;
    uint32_t count;
    uint32_t room;
};

struct format {
    const char *word;
    bool (*parse)(const char *text, struct name *name);
    int (*begin)(struct list *list, struct err *err); /* NULL: nothing to do */
    void (*judge)(const struct list *list, int folder_fd, struct save_found *found);
};

/* ---- names --------------------------------------------------------------------------------------- */

/* "step-100.a-3" */
static bool parse_keepstep(const char *text, struct name *name)
{
    char step[24];
    uint64_t attempt = 0;
    const char *dot = strstr(text, ".a-");
    if (strncmp(text, "step-", 5) != 0 || dot == NULL || dot - text >= (long)sizeof(step)) {
        return false;
    }
    (void)text_copy(step, (size_t)(dot - text) - 4, text + 5);
    if (text_to_u64(step, INT64_MAX, &name->step) != 0 ||
        text_to_u64(dot + 3, UINT32_MAX, &attempt) != 0) {
        return false;
    }
    name->attempt = (uint32_t)attempt;
    return true;
}

/* "iter_0000100": at least seven digits. */
static bool parse_megatron(const char *text, struct name *name)
{
    return strncmp(text, "iter_", 5) == 0 && strlen(text) >= 12 &&
           text_to_u64(text + 5, INT64_MAX, &name->step) == 0;
}

/* "step-100", "global_step100", "100": the digits at its end. */
static bool parse_trailing(const char *text, struct name *name)
{
    const char *digits = text + strlen(text);
    while (digits > text && digits[-1] >= '0' && digits[-1] <= '9') {
        digits--;
    }
    return text_to_u64(digits, INT64_MAX, &name->step) == 0;
}

static int newest_first(const void *a, const void *b, const void *context)
{
    const struct name *one = a;
    const struct name *other = b;
    (void)context;
    if (one->step != other->step) {
        return one->step > other->step ? -1 : 1;
    }
    if (one->attempt != other->attempt) {
        return one->attempt > other->attempt ? -1 : 1;
    }
    return strcmp(one->text, other->text);
}

/* names.text is the last member of a sorted element; longer names are none of these formats'. */
static int take_name(struct list *list, const char *text, struct err *err)
{
    struct name name = {.step = 0};
    if (text[0] == '.' || !save_name_ok(text) || !text_copy(name.text, sizeof(name.text), text) ||
        !list->format->parse(text, &name)) {
        return 0;
    }
    if (list->count == SAVE_FOLDERS_MAX) {
        return err_set(err, -E2BIG, "checkpoint.dir holds more than %d checkpoints",
                       SAVE_FOLDERS_MAX);
    }
    if (list->count == list->room) {
        list->room = list->room > 0 ? 2 * list->room : 256;
        list->names = mem_grow(list->names, list->room, sizeof(list->names[0]));
    }
    list->names[list->count++] = name;
    return 0;
}

static int take_names(struct list *list, struct err *err)
{
    const int fd = openat(list->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        const int code = -errno;
        if (fd >= 0) {
            (void)close(fd); /* nothing was read */
        }
        return err_set(err, code, "checkpoint.dir: %s", strerror(-code));
    }
    int r = 0;
    const struct dirent *entry = NULL;
    do {
        errno = 0;
        entry = readdir(folder);
        r = entry != NULL ? take_name(list, entry->d_name, err) : -errno;
    } while (entry != NULL && r == 0);
    if (entry == NULL && r != 0) {
        (void)err_set(err, r, "checkpoint.dir: %s", strerror(-r));
    }
    (void)closedir(folder); /* opened for reading */
    return r;
}

/* ---- keepstep -------------------------------------------------------------------------------------- */

static void check_shard(int folder_fd, const struct save_shard *shard, struct save_found *found)
{
    struct stat status;
    if (fstatat(folder_fd, shard->file, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        save_fault(found->note, "%.64s: %s", shard->file,
                   errno == ENOENT ? "it is missing" : strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        save_fault(found->note, "%.64s is no plain file; it is not followed", shard->file);
    } else if ((uint64_t)status.st_size != shard->size) {
        save_fault(found->note, "%.64s has %lld bytes, the manifest says %llu", shard->file,
                   (long long)status.st_size, (unsigned long long)shard->size);
    } else {
        save_tally_add(&found->tally, shard->file, &status);
    }
}

static void judge_keepstep(const struct list *list, int folder_fd, struct save_found *found)
{
    struct save_manifest manifest;
    struct err err = {0};
    const struct save_owner owner = {list->query->job, found->step, found->attempt};
    if (save_manifest_read(folder_fd, &owner, &manifest, &err) != 0) {
        save_fault(found->note, "%s", err.text);
        return;
    }
    for (uint32_t i = 0; i < manifest.shard_count && found->note[0] == '\0'; i++) {
        const struct save_shard shard = save_manifest_shard(&manifest, i);
        check_shard(folder_fd, &shard, found);
    }
    found->parts = manifest.parts;
    (void)text_copy(found->hash, sizeof(found->hash), manifest.hash);
    save_manifest_done(&manifest);
}

/* ---- torch-dcp, marker ------------------------------------------------------------------------------ */

struct contents {
    bool metadata; /* .metadata, not empty */
    uint32_t shards;
    bool marker;
    const char *marker_name;
    bool common;     /* megatron: common.pt */
    uint32_t models; /* megatron: mp_rank_* folders with their weights */
    char fault[TEXT_SIZE];
};

static bool ends_in(const char *text, const char *ending)
{
    const size_t size = strlen(text);
    const size_t ending_size = strlen(ending);
    return size >= ending_size && text_equal(text + size - ending_size, ending);
}

static void look_at(void *context, const char *path, const struct stat *status)
{
    struct contents *contents = context;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const bool top = slash == NULL;
    const bool empty = status->st_size == 0;
    const bool shard = ends_in(name, ".distcp");
    const bool model = !top && strncmp(path, "mp_rank_", 8) == 0 && ends_in(name, ".pt");
    contents->metadata = contents->metadata || (top && text_equal(name, ".metadata") && !empty);
    contents->marker = contents->marker || (top && contents->marker_name != NULL &&
                                            text_equal(name, contents->marker_name));
    contents->common = contents->common || (top && text_equal(name, "common.pt") && !empty);
    contents->shards += shard ? 1 : 0;
    contents->models +=
        model && (text_equal(name, "model_optim_rng.pt") || text_equal(name, "model_rng.pt")) ? 1
                                                                                              : 0;
    if (empty && (shard || model || text_equal(name, ".metadata"))) {
        save_fault(contents->fault, "%.96s is empty", path);
    }
}

static struct contents walk_contents(const struct list *list, int folder_fd,
                                     struct save_found *found)
{
    struct contents contents = {.marker_name = list->query->marker};
    save_walk(folder_fd, look_at, &contents, &found->tally);
    save_tally_hash(&found->tally, found->hash);
    if (contents.fault[0] == '\0') {
        (void)text_copy(contents.fault, TEXT_SIZE, found->tally.fault);
    }
    return contents;
}

static void judge_torch_dcp(const struct list *list, int folder_fd, struct save_found *found)
{
    const struct contents contents = walk_contents(list, folder_fd, found);
    if (contents.fault[0] != '\0') {
        save_fault(found->note, "%s", contents.fault);
    } else if (!contents.metadata) {
        save_fault(found->note, "it has no .metadata: the save did not end");
    } else if (contents.shards == 0) {
        save_fault(found->note, "it has no *.distcp file");
    }
}

static void judge_marker(const struct list *list, int folder_fd, struct save_found *found)
{
    const struct contents contents = walk_contents(list, folder_fd, found);
    if (contents.fault[0] != '\0') {
        save_fault(found->note, "%s", contents.fault);
    } else if (!contents.marker) {
        save_fault(found->note, "it has no %.64s: the save did not end", list->query->marker);
    }
}

/* ---- megatron --------------------------------------------------------------------------------------- */

/* The number that Megatron writes when all of a save is there. Without it no save has ended yet. */
static int begin_megatron(struct list *list, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    int r = save_read(list->fd, MEGATRON_TRACKER, TRACKER_MAX, &text, &size);
    if (r == -ENOENT) {
        return 0;
    }
    if (r != 0) {
        return err_set(err, r == -EFBIG || r == -EINVAL ? -EBADMSG : r, MEGATRON_TRACKER ": %s",
                       r == -EFBIG    ? "it is too long to hold a number"
                       : r == -EINVAL ? "it is no plain file"
                                      : strerror(-r));
    }
    while (size > 0 && memchr(" \t\r\n", text[size - 1], 4) != NULL) {
        text[--size] = '\0';
    }
    list->has_latest = true;
    const bool whole = strlen(text) == size; /* no NUL inside */
    if (!whole ||
        (!text_equal(text, "release") && text_to_u64(text, INT64_MAX, &list->latest) != 0)) {
        r = err_set(err, -EBADMSG,
                    MEGATRON_TRACKER " holds neither a number nor \"release\": Megatron cannot "
                                     "load from here either; write the newest whole one into it");
    }
    mem_free(text);
    return r;
}

static void judge_megatron(const struct list *list, int folder_fd, struct save_found *found)
{
    const struct contents contents = walk_contents(list, folder_fd, found);
    const uint64_t wanted = list->query->model_parts;
    const bool distributed = contents.metadata && contents.shards > 0;
    if (!list->has_latest) {
        save_fault(found->note, "there is no " MEGATRON_TRACKER " yet: no save has ended");
    } else if (found->step > list->latest) {
        save_fault(found->note, "newer than " MEGATRON_TRACKER ", which says %llu",
                   (unsigned long long)list->latest);
    } else if (contents.fault[0] != '\0') {
        save_fault(found->note, "%s", contents.fault);
    } else if (!distributed && contents.models > 0 && contents.models < wanted) {
        save_fault(found->note, "%u of %llu mp_rank_* folders have their weights", contents.models,
                   (unsigned long long)wanted);
    } else if (!distributed && contents.models == 0 && !contents.common) {
        save_fault(found->note, "it has neither .metadata with *.distcp nor mp_rank_* folders");
    }
}

/* ---- all -------------------------------------------------------------------------------------------- */

static const struct format formats[] = {
    {"keepstep", parse_keepstep, NULL, judge_keepstep},
    {"megatron", parse_megatron, begin_megatron, judge_megatron},
    {"torch-dcp", parse_trailing, NULL, judge_torch_dcp},
    {"marker", parse_trailing, NULL, judge_marker},
};

/* False: it is no folder, or not there any more. */
static bool judge(const struct list *list, const struct name *name, struct save_found *found)
{
    const char *directory = list->query->directory;
    const size_t size = strlen(directory);
    const char *slash = size > 0 && directory[size - 1] == '/' ? "" : "/";
    *found = (struct save_found){.step = name->step, .attempt = name->attempt};
    if (!text_format(found->directory, PATH_SIZE, "%s%s%s", directory, slash, name->text)) {
        found->directory[0] = '\0';
        save_fault(found->note, "its path is longer than %d bytes", PATH_SIZE - 1);
        return true;
    }
    const int fd = openat(list->fd, name->text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        save_fault(found->note, "%s", strerror(errno));
        return errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
    }
    list->format->judge(list, fd, found);
    found->complete = found->note[0] == '\0';
    (void)close(fd); /* opened for reading */
    return true;
}

static void judge_all(const struct list *list, save_emit *emit, void *context)
{
    uint32_t complete = 0;
    uint32_t incomplete = 0;
    uint32_t files = 0; /* of a checkpoint of 16,384 ranks there are as many */
    struct save_found *found = mem_alloc(1, sizeof(*found));
    for (uint32_t i = 0; i < list->count && complete < SAVE_COMPLETE_MAX; i++) {
        if (!judge(list, &list->names[i], found)) {
            continue;
        }
        files += found->tally.files;
        complete += found->complete ? 1 : 0;
        incomplete += found->complete ? 0 : 1;
        if (found->complete || incomplete <= SAVE_INCOMPLETE_MAX) {
            emit(context, found);
        }
        if (complete >= SAVE_COMPLETE_LEAST && files >= SAVE_FILES_ENOUGH) {
            break;
        }
    }
    mem_free(found);
}

int save_list(const struct save_query *query, save_emit *emit, void *context, uint32_t *ret_total,
              struct err *err)
{
    struct list list = {.query = query, .fd = -1};
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        list.format = text_equal(query->format, formats[i].word) ? &formats[i] : list.format;
    }
    if (list.format == NULL) {
        return err_set(err, -EINVAL, "checkpoint.format '%.32s' is not known here", query->format);
    }
    list.fd = open(query->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (list.fd < 0) {
        const int code = -errno;
        *ret_total = 0;
        return code == -ENOENT ? 0
                               : err_set(err, code, "checkpoint.dir %.96s: %s", query->directory,
                                         strerror(-code));
    }
    int r = list.format->begin != NULL ? list.format->begin(&list, err) : 0;
    r = r == 0 ? take_names(&list, err) : r;
    if (r == 0) {
        sort_any(list.names, list.count, sizeof(list.names[0]), newest_first, NULL);
        judge_all(&list, emit, context);
        *ret_total = list.count;
    }
    mem_free(list.names);
    (void)close(list.fd); /* opened for reading */
    return r;
}
