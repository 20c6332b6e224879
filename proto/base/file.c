/* file.c: see file.h. */
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_SIZE = 65536 };

static int read_all(int fd, const char *path, size_t size_max, struct buf *buf, struct err *err)
{
    char piece[PIECE_SIZE];
    const size_t before = buf->size;
    for (;;) {
        const ssize_t got = read(fd, piece, sizeof(piece));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_set(err, -errno, "%s cannot be read: %s", path, strerror(errno));
        }
        if (got == 0) {
            return 0;
        }
        if ((size_t)got > size_max - (buf->size - before) ||
            buf_put(buf, piece, (size_t)got) != 0) {
            return err_set(err, -EFBIG, "%s has more than %zu bytes", path, size_max);
        }
    }
}

int file_read(const char *path, size_t size_max, struct buf *buf, struct err *err)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno, "%s cannot be opened: %s", path, strerror(errno));
    }
    int r = 0;
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        r = err_set(err, -EISDIR, "%s is a folder, not a file", path);
    }
    r = r == 0 ? read_all(fd, path, size_max, buf, err) : r;
    (void)close(fd); /* nothing was written */
    return r;
}
