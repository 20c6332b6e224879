/* diagnose_read.c: lines of a file of any size, in memory of one size. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/tools/diagnose.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { PIECE_SIZE = 65536 };

struct reading {
    struct diagnose_line line;
    char *kept; /* CATALOG_LOOK_MAX bytes */
    diagnose_take *take;
    void *context;
};

static void keep(struct reading *reading, const char *bytes, size_t size)
{
    struct diagnose_line *line = &reading->line;
    const size_t room = CATALOG_LOOK_MAX - line->size;
    const size_t kept = size < room ? size : room;
    memcpy(reading->kept + line->size, bytes, kept);
    line->size += kept;
    line->dropped += size - kept;
}

static int end_line(struct reading *reading)
{
    struct diagnose_line *line = &reading->line;
    line->number++;
    line->text = reading->kept;
    const int r = reading->take(reading->context, line);
    line->size = 0;
    line->dropped = 0;
    return r;
}

static int take_piece(struct reading *reading, const char *piece, size_t size)
{
    int r = 0;
    while (r == 0 && size > 0) {
        const char *newline = memchr(piece, '\n', size);
        const size_t part = newline != NULL ? (size_t)(newline - piece) : size;
        keep(reading, piece, part);
        if (newline == NULL) {
            return 0;
        }
        r = end_line(reading);
        piece += part + 1;
        size -= part + 1;
    }
    return r;
}

static int read_all(int fd, struct reading *reading, const char *name, int (*idle)(void *context),
                    struct err *err)
{
    char piece[PIECE_SIZE];
    for (;;) {
        const ssize_t got = read(fd, piece, sizeof(piece));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_set(err, -errno, "%s cannot be read: %s", name, strerror(errno));
        }
        if (got == 0) {
            return reading->line.size > 0 || reading->line.dropped > 0 ? end_line(reading) : 0;
        }
        int r = take_piece(reading, piece, (size_t)got);
        if (r == 0 && idle != NULL) {
            r = idle(reading->context);
        }
        if (r != 0) {
            return r;
        }
    }
}

static int open_file(const char *file, const char *name, int *ret_fd, struct err *err)
{
    struct stat status;
    const int fd = text_equal(file, "-") ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno, "%s cannot be opened: %s", name, strerror(errno));
    }
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (fd != STDIN_FILENO) {
            (void)close(fd); /* nothing was written */
        }
        return err_set(err, -EISDIR, "%s is a folder, not a file", name);
    }
    *ret_fd = fd;
    return 0;
}

int diagnose_read(const char *file, diagnose_take *take, int (*idle)(void *context), void *context,
                  struct err *err)
{
    int fd = -1;
    const char *name = text_equal(file, "-") ? "standard input" : file;
    int r = open_file(file, name, &fd, err);
    if (r != 0) {
        return r;
    }
    struct reading reading = {
        .kept = mem_alloc(CATALOG_LOOK_MAX, 1), .take = take, .context = context};
    r = read_all(fd, &reading, name, idle, err);
    (void)mem_free(reading.kept);
    if (fd != STDIN_FILENO) {
        (void)close(fd); /* nothing was written */
    }
    return r;
}
