/* output.c: see output.h. The hole is one piece that grows at its end: every trim punches from the
 * head on. So the first hole of a file is all that was dropped. */
#include "agent/io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

enum {
    BLOCK_LEAST = 4096,
    PUNCH = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
};

struct extent {
    uint64_t size; /* of the file */
    uint64_t block;
    uint64_t begin; /* of the hole; size: there is none */
    uint64_t end;
};

static int look(int fd, struct extent *ret)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return -errno;
    }
    if (!S_ISREG(status.st_mode)) {
        return -EINVAL;
    }
    ret->size = (uint64_t)status.st_size;
    ret->block = status.st_blksize > BLOCK_LEAST ? (uint64_t)status.st_blksize : BLOCK_LEAST;
    ret->begin = ret->size;
    ret->end = ret->size;
    const off_t begin = lseek(fd, 0, SEEK_HOLE);
    if (begin < 0 || (uint64_t)begin >= ret->size) {
        return begin < 0 && errno != ENXIO && errno != EINVAL ? -errno : 0;
    }
    const off_t end = lseek(fd, begin, SEEK_DATA);
    if (end < 0 && errno != ENXIO) { /* ENXIO: it is a hole to the very end */
        return -errno;
    }
    ret->begin = (uint64_t)begin;
    ret->end = end < 0 || (uint64_t)end > ret->size ? ret->size : (uint64_t)end;
    return 0;
}

int output_look(int fd, struct output_state *ret_state)
{
    struct extent extent;
    const int r = look(fd, &extent);
    if (r == 0) {
        const uint64_t dropped = extent.end - extent.begin;
        *ret_state = (struct output_state){.kept = extent.size - dropped, .dropped = dropped};
    }
    return r;
}

void output_note(uint64_t dropped, char ret_note[OUTPUT_NOTE_SIZE])
{
    const bool whole = text_format(ret_note, OUTPUT_NOTE_SIZE, "\n… %llu bytes dropped …\n",
                                   (unsigned long long)dropped);
    CHECK(whole);
}

/* Between the two the writer may append: that goes as well, and the number is a little too low. */
static int cut(int fd, uint64_t head, uint64_t size)
{
    char note[OUTPUT_NOTE_SIZE];
    output_note(size - head, note);
    if (ftruncate(fd, (off_t)head) != 0) {
        return -errno;
    }
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_APPEND) != 0) {
        return -errno;
    }
    return write(fd, note, strlen(note)) < 0 ? -errno : 0;
}

int output_trim(int fd, uint64_t max_bytes, struct output_state *ret_state)
{
    struct extent extent;
    CHECK(max_bytes >= OUTPUT_LIMIT_LEAST);
    int r = look(fd, &extent);
    if (r != 0) {
        return r;
    }
    if (extent.size - (extent.end - extent.begin) <= max_bytes) {
        return output_look(fd, ret_state);
    }
    const uint64_t block = extent.block <= max_bytes / 8 ? extent.block : BLOCK_LEAST;
    const uint64_t head = (max_bytes / 4 + block - 1) / block * block;
    const uint64_t tail = (extent.size - max_bytes / 8 * 5) / block * block;
    if (tail <= head) {
        return output_look(fd, ret_state);
    }
    if (fallocate(fd, PUNCH, (off_t)head, (off_t)(tail - head)) == 0) {
        return output_look(fd, ret_state);
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
        return -errno;
    }
    r = cut(fd, head, extent.size);
    r = r == 0 ? output_look(fd, ret_state) : r;
    ret_state->cut = r == 0;
    return r;
}

int output_can_punch(const char *folder)
{
    const int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    int result = 1;
    if (fallocate(fd, PUNCH, 0, BLOCK_LEAST) != 0) {
        result = errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -errno;
    }
    (void)close(fd); /* it has no name */
    return result;
}

int output_end_find(int fd, uint64_t bytes, struct output_end *ret_end)
{
    struct extent extent;
    const int r = look(fd, &extent);
    if (r != 0) {
        return r;
    }
    struct output_end found = {0};
    const uint64_t behind = extent.size - extent.end;
    if (extent.begin == extent.size) {
        found.tail_size = extent.size < bytes ? extent.size : bytes;
    } else if (behind + OUTPUT_NOTE_SIZE >= bytes) {
        found.tail_size = behind < bytes ? behind : bytes;
    } else {
        const uint64_t left = bytes - behind - OUTPUT_NOTE_SIZE;
        found.tail_size = behind;
        found.dropped = extent.end - extent.begin;
        found.head_size = extent.begin < left ? extent.begin : left;
        found.head_offset = extent.begin - found.head_size;
    }
    found.tail_offset = extent.size - found.tail_size;
    *ret_end = found;
    return 0;
}
