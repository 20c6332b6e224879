/* oom_line.c: two lines of the kernel that say the same in different words. */
#include "agent/core/oom_line.h"

#include "agent/core/line_cursor.h"

static void read_pid(struct line_cursor rest, const char *word, struct oom_line *line)
{
    uint64_t pid = 0;
    if (cursor_find(&rest, word) && cursor_take_number(&rest, &pid)) {
        line->pid = (int64_t)pid;
    }
}

static bool read_constraint(struct line_cursor cursor, struct oom_line *line)
{
    if (!cursor_find(&cursor, "oom-kill:constraint=")) {
        return false;
    }
    line->of_cgroup = cursor_take(&cursor, "CONSTRAINT_MEMCG");
    read_pid(cursor, ",pid=", line);
    if (cursor_find(&cursor, ",task=")) {
        line_copy(line->victim, sizeof(line->victim), cursor.text + cursor.at,
                  cursor_span(&cursor, ",\n|"));
    }
    return true;
}

static bool read_kill(struct line_cursor cursor, struct oom_line *line)
{
    struct line_cursor group = cursor;
    line->of_cgroup = cursor_find(&group, "Memory cgroup out of memory: Kill");
    if (line->of_cgroup) {
        cursor = group;
    } else if (!cursor_find(&cursor, "Out of memory: Kill")) {
        return false;
    }
    read_pid(cursor, " process ", line);
    if (cursor_find(&cursor, " (")) {
        line_copy(line->victim, sizeof(line->victim), cursor.text + cursor.at,
                  cursor_span(&cursor, ")\n|"));
    }
    return true;
}

bool oom_line_read(const char *text, size_t size, struct oom_line *ret_line)
{
    const struct line_cursor cursor = {.text = text, .size = size};
    struct oom_line line = {.pid = -1};
    if (!read_constraint(cursor, &line) && !read_kill(cursor, &line)) {
        return false;
    }
    *ret_line = line;
    return true;
}
