/* corpus.c: reads files whole into one growing array. A gigabyte is the most that it takes, so an
 * unlucky path is an error and not a machine without memory. */
#include "agent/trainer/corpus.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static int reserve(struct corpus *corpus, size_t more, const char *path, struct fail *fail)
{
    if (more > CORPUS_SIZE_MAX - corpus->size) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EFBIG, "text: with '%s' it is over %zu bytes", path,
                        CORPUS_SIZE_MAX);
    }
    uint8_t *text = realloc(corpus->text, corpus->size + more);
    if (text == NULL) {
        return fail_set(fail, EXIT_LOCAL, -ENOMEM, "text: no memory for '%s'", path);
    }
    corpus->text = text;
    return 0;
}

static int append_open_file(struct corpus *corpus, int fd, const char *path, struct fail *fail)
{
    for (;;) {
        const size_t chunk = 65536;
        int code = reserve(corpus, chunk, path, fail);
        if (code < 0) {
            return code;
        }
        const ssize_t got = read(fd, corpus->text + corpus->size, chunk);
        if (got == 0) {
            return 0;
        }
        if (got < 0 && errno != EINTR) {
            code = -errno;
            return fail_set(fail, EXIT_LOCAL, code, "text: cannot read '%s': %s", path,
                            fail_errno_text(code));
        }
        corpus->size += got > 0 ? (size_t)got : 0;
    }
}

static int name_order(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int open_for_reading(int folder, const char *name, int flags, const char *path,
                            struct fail *fail)
{
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
    if (fd < 0) {
        const int code = -errno;
        return fail_set(fail, EXIT_LOCAL, code, "text: cannot open '%s': %s", path,
                        fail_errno_text(code));
    }
    return fd;
}

/* entries: names in order; the caller frees them. */
static int append_entries(struct corpus *corpus, int folder, const char *path,
                          struct dirent **entries, int count, struct fail *fail)
{
    for (int i = 0; i < count; i++) {
        struct stat status;
        const char *name = entries[i]->d_name;
        if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) {
            continue;
        }
        int code = open_for_reading(folder, name, O_NOFOLLOW, path, fail);
        if (code < 0) {
            return code;
        }
        const int fd = code;
        code = append_open_file(corpus, fd, path, fail);
        (void)close(fd); /* only read from */
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

static int append_folder(struct corpus *corpus, int folder, const char *path, struct fail *fail)
{
    struct dirent **entries = NULL;
    const int count = scandirat(folder, ".", &entries, NULL, name_order);
    if (count < 0) {
        const int code = -errno;
        return fail_set(fail, EXIT_LOCAL, code, "text: cannot list '%s': %s", path,
                        fail_errno_text(code));
    }
    int code = 0;
    if (count > CORPUS_FILES_MAX) {
        code = fail_set(fail, EXIT_BAD_CONFIG, -E2BIG, "text: '%s' has over %d entries", path,
                        CORPUS_FILES_MAX);
    } else {
        code = append_entries(corpus, folder, path, entries, count, fail);
    }
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    return code;
}

static int append_path(struct corpus *corpus, const char *path, struct fail *fail)
{
    int code = open_for_reading(AT_FDCWD, path, 0, path, fail);
    if (code < 0) {
        return code;
    }
    const int fd = code;
    struct stat status;
    const size_t before = corpus->size;
    if (fstat(fd, &status) != 0) {
        code = -errno;
        code = fail_set(fail, EXIT_LOCAL, code, "text: cannot look at '%s': %s", path,
                        fail_errno_text(code));
    } else if (S_ISDIR(status.st_mode)) {
        code = append_folder(corpus, fd, path, fail);
    } else if (S_ISREG(status.st_mode)) {
        code = append_open_file(corpus, fd, path, fail);
    } else {
        code =
            fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "text: '%s' is neither file nor folder", path);
    }
    (void)close(fd); /* only read from */
    if (code == 0 && corpus->size == before) {
        code = fail_set(fail, EXIT_BAD_CONFIG, -ENODATA, "text: '%s' holds no bytes", path);
    }
    return code;
}

int corpus_load(struct corpus *corpus, const char *const *paths, size_t path_count, size_t window,
                struct fail *fail)
{
    *corpus = (struct corpus){0};
    for (size_t i = 0; i < path_count; i++) {
        const int code = append_path(corpus, paths[i], fail);
        if (code < 0) {
            return code;
        }
    }
    if (corpus->size < window) {
        return fail_set(fail, EXIT_BAD_CONFIG, -ENODATA,
                        "text: %zu bytes in all, but one sample needs %zu", corpus->size, window);
    }
    corpus->hash = XXH3_64bits(corpus->text, corpus->size);
    return 0;
}

void corpus_done(struct corpus *corpus)
{
    free(corpus->text);
    *corpus = (struct corpus){0};
}

void corpus_sample(const struct corpus *corpus, uint64_t seed, enum random_stream stream,
                   uint64_t step, uint32_t sample, size_t window, uint8_t *ret_bytes)
{
    assert(window <= corpus->size);
    const uint64_t drawn = random_at(seed, stream, step, sample);
    const uint64_t start = random_below(drawn, corpus->size - window + 1);
    memcpy(ret_bytes, corpus->text + start, window);
}
