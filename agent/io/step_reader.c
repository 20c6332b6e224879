/* step_reader.c: see step_reader.h. */
#include "agent/io/step_reader.h"

#include <string.h>

static size_t end_of_line(const char *bytes, size_t size)
{
    const char *newline = memchr(bytes, '\n', size);
    const size_t length = newline != NULL ? (size_t)(newline - bytes) : size;
    const char *carriage_return = memchr(bytes, '\r', length);
    return carriage_return != NULL ? (size_t)(carriage_return - bytes) : length;
}

static void take(struct step_reader *reader, const char *bytes, size_t size)
{
    const size_t room = sizeof(reader->line) - 1 - reader->size;
    const size_t count = size < room ? size : room;
    for (size_t i = 0; i < count; i++) {
        reader->line[reader->size + i] = bytes[i];
        if (bytes[i] == '\0') {
            reader->line[reader->size + i] = ' ';
        }
    }
    reader->size += count;
}

static int end_line(struct step_reader *reader, const struct step_pattern *pattern)
{
    uint64_t step = 0;
    int r = 0;
    reader->line[reader->size] = '\0';
    if (!reader->skip && reader->size > 0) {
        r = step_pattern_find(pattern, reader->line, &step);
    }
    reader->size = 0;
    reader->skip = false;
    if (r == 1) {
        reader->found = true;
        reader->step = step;
    }
    return r < 0 ? r : 0;
}

int step_reader_put(struct step_reader *reader, const struct step_pattern *pattern,
                    const char *bytes, size_t size)
{
    while (size > 0) {
        const size_t length = end_of_line(bytes, size);
        take(reader, bytes, length);
        if (length == size) {
            return 0;
        }
        const int r = end_line(reader, pattern);
        if (r != 0) {
            return r;
        }
        bytes += length + 1;
        size -= length + 1;
    }
    return 0;
}

void step_reader_jump(struct step_reader *reader, bool line_begins)
{
    reader->size = 0;
    reader->skip = !line_begins;
}
