/* probe_file.c: see probe_file.h. It is replaced by a new one under another name, so a reader finds
 * the old or the new one whole. It is not forced to the disk: a boot id that changed makes most of
 * it void, and the controller has what matters. */
#include "agent/io/probe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/io/probes.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static const char head[] = "keepstep-probes 1";

enum { FILE_PATH_SIZE = PATH_SIZE + 32 };

void probe_file_begin(struct buf *text)
{
    (void)buf_printf(text, "%s\n", head); /* a buffer that overflows says so at the end */
}

void probe_file_told(struct buf *text, const char *probe, const struct finding *finding)
{
    char line[FINDING_LINE_MAX + 1];
    if (finding_line_format(LINE_STATE, finding, line, sizeof(line))) {
        (void)buf_printf(text, "told\t%s\t%s\n", probe, line); /* as above */
    }
}

void probe_file_note(struct buf *text, const char *probe, const char *name, const char *value)
{
    (void)buf_printf(text, "note\t%s\tnote\t%s\t%s\n", probe, name, value); /* as above */
}

void probe_file_gpu(struct buf *text, uint32_t index, const char *uuid, const char *pci)
{
    (void)buf_printf(text, "gpu\t-\tgpu\t%u\t%s\t%s\n", index, uuid, pci); /* as above */
}

static void take_line(const char *line, size_t size, probe_file_line *take, void *context)
{
    char probe[NOTE_NAME_SIZE];
    struct finding_line parsed;
    const char *first = memchr(line, '\t', size);
    const char *second =
        first != NULL ? memchr(first + 1, '\t', size - (size_t)(first + 1 - line)) : NULL;
    if (second == NULL || (size_t)(second - first) > sizeof(probe)) {
        return;
    }
    (void)text_copy(probe, (size_t)(second - first), first + 1);
    if (finding_line_parse(second + 1, size - (size_t)(second + 1 - line), &parsed) == 0) {
        take(context, probe, &parsed);
    }
}

static void take_lines(const char *text, size_t size, probe_file_line *take, void *context)
{
    size_t start = 0;
    while (start < size) {
        const char *end = memchr(text + start, '\n', size - start);
        const size_t length = end != NULL ? (size_t)(end - text) - start : size - start;
        take_line(text + start, length, take, context);
        start += length + 1;
    }
}

int probe_file_read(const char *folder, probe_file_line *take, void *context)
{
    char path[FILE_PATH_SIZE];
    (void)text_format(path, sizeof(path), "%s/" PROBES_FILE, folder);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    char *text = mem_alloc(PROBE_FILE_MAX + 1, 1);
    size_t size = 0;
    ssize_t got = 1;
    while (got > 0 && size < PROBE_FILE_MAX) {
        got = read(fd, text + size, PROBE_FILE_MAX - size);
        size += got > 0 ? (size_t)got : 0;
    }
    int r = got < 0 ? -errno : 0;
    (void)close(fd); /* opened for reading */
    if (r == 0 && (size <= strlen(head) || memcmp(text, head, strlen(head)) != 0 ||
                   text[strlen(head)] != '\n')) {
        r = -EINVAL;
    }
    if (r == 0) {
        take_lines(text, size, take, context);
    }
    mem_free(text);
    return r;
}

static int write_all(int fd, const char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t put = write(fd, bytes + done, size - done);
        if (put < 0) {
            return -errno;
        }
        done += (size_t)put;
    }
    return 0;
}

int probe_file_write(const char *folder, const void *bytes, size_t size, struct err *err)
{
    char path[FILE_PATH_SIZE];
    char other[FILE_PATH_SIZE];
    (void)text_format(path, sizeof(path), "%s/" PROBES_FILE, folder);
    (void)text_format(other, sizeof(other), "%s/" PROBES_FILE ".new", folder);
    const int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_set(err, -errno, "%s: %s", other, strerror(errno));
    }
    int r = write_all(fd, bytes, size);
    if (close(fd) != 0 && r == 0) {
        r = -errno;
    }
    if (r == 0 && rename(other, path) != 0) {
        r = -errno;
    }
    if (r != 0) {
        (void)unlink(other); /* of no use */
        return err_set(err, r, "%s: %s", path, strerror(-r));
    }
    return 0;
}
