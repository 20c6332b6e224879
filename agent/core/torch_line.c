/* torch_line.c: "WorkNCCL(" and its keys; the group and the rank are told in front of it. */
#include "agent/core/torch_line.h"

#include <string.h>

#include "agent/core/line_cursor.h"

enum { WORKS_MAX = 64 }; /* of one message; further ones are not compared */

static int32_t number_behind(struct line_cursor rest, const char *word)
{
    uint64_t value = 0;
    return cursor_find(&rest, word) && cursor_take_number(&rest, &value) ? line_small(value) : -1;
}

/* Moves behind the work. */
static bool take_work(struct line_cursor *cursor, struct torch_work *ret_work)
{
    uint64_t sequence = 0;
    struct torch_work work = {.group = -1, .rank = -1};
    if (!cursor_find(cursor, "WorkNCCL(SeqNum=") || !cursor_take_number(cursor, &sequence) ||
        !cursor_find(cursor, "OpType=")) {
        return false;
    }
    const size_t size = cursor_span(cursor, ", )");
    work.sequence = (int64_t)sequence;
    line_copy(work.operation, sizeof(work.operation), cursor->text + cursor->at, size);
    cursor->at += size;
    work.elements = number_behind(*cursor, "NumelIn=");
    work.timeout_ms = number_behind(*cursor, "Timeout(ms)=");
    *ret_work = work;
    return size > 0;
}

/* What stands in front of the first work. */
static void read_speaker(struct line_cursor front, struct torch_work *work)
{
    work->group = number_behind(front, "[PG ID ");
    if (work->group < 0) {
        work->group = number_behind(front, "[PG ");
    }
    work->rank = number_behind(front, "Rank ");
}

bool torch_work_read(const char *text, size_t size, struct torch_work *ret_work)
{
    struct line_cursor cursor = {.text = text, .size = size};
    struct torch_work work;
    struct torch_work other;
    if (!take_work(&cursor, &work)) {
        return false;
    }
    read_speaker((struct line_cursor){.text = text, .size = cursor.at}, &work);
    for (int i = 0; i < WORKS_MAX && take_work(&cursor, &other); i++) {
        if (other.sequence == work.sequence && strcmp(other.operation, work.operation) != 0) {
            work.differs = true;
        }
    }
    *ret_work = work;
    return true;
}
