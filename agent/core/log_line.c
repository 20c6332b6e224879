/* log_line.c: one small function a carrier. Each looks at the front of what is left and says how
 * many bytes are its own, 0 when it is another's; they are tried in turn until none finds any. */
#include "agent/core/log_line.h"

#include <string.h>

#include "agent/core/line_cursor.h"
#include "proto/base/check.h"

enum { WORD_MAX = 64, ISO_DATE_SIZE = 10, TASK_MAX = 999999 };

/* ---- times ----------------------------------------------------------------------------------- */

/* "16:24:18", and a fraction of a second behind . or , */
static bool take_clock(struct line_cursor *cursor)
{
    if (!cursor_take_digits(cursor, 2, 2) || !cursor_take_byte(cursor, ':') ||
        !cursor_take_digits(cursor, 2, 2) || !cursor_take_byte(cursor, ':') ||
        !cursor_take_digits(cursor, 2, 2)) {
        return false;
    }
    if (cursor_take_byte(cursor, '.') || cursor_take_byte(cursor, ',')) {
        return cursor_take_digits(cursor, 1, 9);
    }
    return true;
}

/* "2025-01-21T04:41:44,283302+00:00", "2025-01-21 04:41:44" */
static bool take_iso_time(struct line_cursor *cursor)
{
    if (!cursor_take_digits(cursor, 4, 4) ||
        !(cursor_take_byte(cursor, '-') || cursor_take_byte(cursor, '/')) ||
        !cursor_take_digits(cursor, 2, 2) ||
        !(cursor_take_byte(cursor, '-') || cursor_take_byte(cursor, '/')) ||
        !cursor_take_digits(cursor, 2, 2) ||
        !(cursor_take_byte(cursor, 'T') || cursor_take_byte(cursor, ' ')) || !take_clock(cursor)) {
        return false;
    }
    if (cursor_take_byte(cursor, 'Z')) {
        return true;
    }
    struct line_cursor zone = *cursor;
    if ((cursor_take_byte(&zone, '+') || cursor_take_byte(&zone, '-')) &&
        cursor_take_digits(&zone, 2, 4)) {
        *cursor = zone;
        if (cursor_take_byte(&zone, ':') && cursor_take_digits(&zone, 2, 2)) {
            *cursor = zone;
        }
    }
    return true;
}

/* "Feb" */
static bool take_month(struct line_cursor *cursor)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (size_t i = 0; i + 1 < sizeof(months); i += 3) {
        if (cursor->size - cursor->at >= 3 &&
            memcmp(cursor->text + cursor->at, months + i, 3) == 0) {
            cursor->at += 3;
            return true;
        }
    }
    return false;
}

static bool take_day_and_clock(struct line_cursor *cursor)
{
    return take_month(cursor) && cursor_take_blanks(cursor) && cursor_take_digits(cursor, 1, 2) &&
           cursor_take_blanks(cursor) && take_clock(cursor);
}

/* ---- carriers of the kernel's messages ------------------------------------------------------- */

/* "6,3973,227986636,-;" */
static bool is_kmsg(struct line_cursor *cursor, struct log_line *line)
{
    uint64_t priority = 0;
    if (!cursor_take_number(cursor, &priority) || priority > 0xffff ||
        !cursor_take_byte(cursor, ',') || !cursor_take_number(cursor, &line->sequence) ||
        !cursor_take_byte(cursor, ',') || !cursor_take_number(cursor, &line->usec) ||
        !cursor_take_byte(cursor, ',')) {
        return false;
    }
    while (cursor->at < cursor->size && cursor->text[cursor->at] != ';') {
        const char flag = cursor->text[cursor->at++];
        if (!line_is_name_byte(flag) && flag != ',' && flag != '=') {
            return false;
        }
    }
    if (!cursor_take_byte(cursor, ';')) {
        return false;
    }
    line->kmsg = true;
    line->priority = (uint8_t)(priority & 7);
    line->facility = (uint32_t)(priority >> 3);
    line->has_uptime = true;
    line->uptime_ms = line->usec / 1000;
    return true;
}

/* "<6>" */
static bool is_priority(struct line_cursor *cursor, struct log_line *line)
{
    (void)line;
    return cursor_take_byte(cursor, '<') && cursor_take_digits(cursor, 1, 3) &&
           cursor_take_byte(cursor, '>');
}

/* "[  123.456789] " and, behind it, "[   T12] " or "[    C3] " */
static bool is_uptime(struct line_cursor *cursor, struct log_line *line)
{
    uint64_t seconds = 0;
    uint64_t fraction = 0;
    if (!cursor_take_byte(cursor, '[')) {
        return false;
    }
    (void)cursor_take_blanks(cursor);
    if (!cursor_take_number(cursor, &seconds) || !cursor_take_byte(cursor, '.')) {
        return false;
    }
    const size_t from = cursor->at;
    if (!cursor_take_number(cursor, &fraction)) {
        return false;
    }
    size_t digits = cursor->at - from;
    if (!cursor_take_byte(cursor, ']')) {
        return false;
    }
    for (; digits > 3; digits--) {
        fraction /= 10;
    }
    for (; digits < 3; digits++) {
        fraction *= 10;
    }
    if (seconds < UINT64_MAX / 2000) {
        line->has_uptime = true;
        line->uptime_ms = seconds * 1000 + fraction;
    }
    struct line_cursor caller = *cursor;
    if (cursor_take_byte(&caller, '[')) {
        (void)cursor_take_blanks(&caller);
        if ((cursor_take_byte(&caller, 'T') || cursor_take_byte(&caller, 'C')) &&
            cursor_take_digits(&caller, 1, 9) && cursor_take_byte(&caller, ']')) {
            *cursor = caller;
        }
    }
    return true;
}

/* "[Sun Feb 23 16:24:18 2025] ", "[2025-02-23 16:24:18] " */
static bool is_bracketed_time(struct line_cursor *cursor, struct log_line *line)
{
    (void)line;
    if (!cursor_take_byte(cursor, '[')) {
        return false;
    }
    struct line_cursor iso = *cursor;
    if (take_iso_time(&iso) && cursor_take_byte(&iso, ']')) {
        *cursor = iso;
        return true;
    }
    return cursor_take_name(cursor, WORD_MAX) == 3 && cursor_take_blanks(cursor) &&
           take_day_and_clock(cursor) && cursor_take_blanks(cursor) &&
           cursor_take_digits(cursor, 4, 4) && cursor_take_byte(cursor, ']');
}

static bool take_one_of(struct line_cursor *cursor, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (cursor_take(cursor, words[i])) {
            return true;
        }
    }
    return false;
}

/* "kern  :warn  : " */
static bool is_facility_and_level(struct line_cursor *cursor, struct log_line *line)
{
    static const char *const facilities[] = {"kern", "user", "daemon", "syslog", "auth", "local"};
    static const char *const levels[] = {"emerg", "alert",  "crit", "err",
                                         "warn",  "notice", "info", "debug"};
    (void)line;
    if (!take_one_of(cursor, facilities, ARRAY_SIZE(facilities))) {
        return false;
    }
    (void)cursor_take_digits(cursor, 1, 1);
    (void)cursor_take_blanks(cursor);
    if (!cursor_take_byte(cursor, ':') || !take_one_of(cursor, levels, ARRAY_SIZE(levels))) {
        return false;
    }
    (void)cursor_take_blanks(cursor);
    if (!cursor_take_byte(cursor, ':')) {
        return false;
    }
    struct line_cursor time = *cursor;
    if (cursor_take_blanks(&time) && take_iso_time(&time)) {
        *cursor = time; /* and no host behind it, as behind other times */
    }
    return true;
}

/* "kernel: ", and for it the host before: "host kernel: ", "host tag[12]: " loses the host. */
static bool take_host(struct line_cursor *cursor)
{
    struct line_cursor with = *cursor;
    if (cursor_take_name(&with, WORD_MAX) == 0 || !cursor_take_blanks(&with)) {
        return false;
    }
    struct line_cursor tag = with;
    if (cursor_take_name(&tag, WORD_MAX) == 0) {
        return false;
    }
    if (cursor_take_byte(&tag, '[')) {
        if (!cursor_take_digits(&tag, 1, 10) || !cursor_take_byte(&tag, ']')) {
            return false;
        }
    }
    if (!cursor_take_byte(&tag, ':')) {
        return false;
    }
    *cursor = with;
    return true;
}

/* "Mar 14 10:22:31 host kernel: ", "2025-01-21T04:41:44Z host kernel: ", "… stderr F " */
static bool is_time(struct line_cursor *cursor, struct log_line *line)
{
    struct line_cursor iso = *cursor;
    (void)line;
    bool has_host = true;
    if (take_iso_time(&iso)) {
        /* With a blank between date and time it is a program's own, and no host follows. */
        has_host = cursor->text[cursor->at + ISO_DATE_SIZE] == 'T';
        *cursor = iso;
    } else if (!take_day_and_clock(cursor)) {
        return false;
    }
    if (!cursor_take_blanks(cursor)) {
        return cursor_take_byte(cursor, ':') || cursor->at == cursor->size;
    }
    struct line_cursor runtime = *cursor;
    if ((cursor_take(&runtime, "stderr") || cursor_take(&runtime, "stdout")) &&
        cursor_take_blanks(&runtime) &&
        (cursor_take(&runtime, "F ") || cursor_take(&runtime, "P "))) {
        *cursor = runtime;
        return true;
    }
    if (has_host) {
        (void)take_host(cursor);
    }
    return true;
}

static bool is_kernel_tag(struct line_cursor *cursor, struct log_line *line)
{
    (void)line;
    return cursor_take(cursor, "kernel:");
}

/* ---- carriers of what ranks print ------------------------------------------------------------ */

/* "[rank5]:", "[default3]:", "[1,5]<stderr>:" */
static bool is_bracketed_rank(struct line_cursor *cursor, struct log_line *line)
{
    uint64_t rank = 0;
    if (!cursor_take_byte(cursor, '[')) {
        return false;
    }
    const bool named = cursor_take(cursor, "rank");
    const bool local = !named && cursor_take(cursor, "default");
    if (!cursor_take_number(cursor, &rank)) {
        return false;
    }
    if (named || local) {
        if (!cursor_take_byte(cursor, ']') || !cursor_take_byte(cursor, ':')) {
            return false;
        }
    } else if (!cursor_take_byte(cursor, ',') || !cursor_take_number(cursor, &rank) ||
               !cursor_take_byte(cursor, ']') ||
               !(cursor_take(cursor, "<stderr>:") || cursor_take(cursor, "<stdout>:"))) {
        return false;
    }
    line->rank = local ? line->rank : line_small(rank);
    return true;
}

/* "12: " as srun labels its lines. */
static bool is_task(struct line_cursor *cursor, struct log_line *line)
{
    uint64_t task = 0;
    if (!cursor_take_number(cursor, &task) || task > TASK_MAX || !cursor_take_byte(cursor, ':') ||
        cursor_here(cursor) != ' ') {
        return false;
    }
    line->rank = line_small(task);
    return true;
}

/* "[E121 12:33:44.123456 ProcessGroupNCCL.cpp:607] ", "[E ProcessGroupNCCL.cpp:607] " */
static bool is_source_note(struct line_cursor *cursor, struct log_line *line)
{
    (void)line;
    if (!cursor_take_byte(cursor, '[')) {
        return false;
    }
    if (!cursor_take_byte(cursor, 'E') && !cursor_take_byte(cursor, 'W') &&
        !cursor_take_byte(cursor, 'I') && !cursor_take_byte(cursor, 'F')) {
        return false;
    }
    if (cursor_take_digits(cursor, 3, 4)) {
        if (!cursor_take_blanks(cursor) || !take_clock(cursor)) {
            return false;
        }
    }
    (void)cursor_take_blanks(cursor);
    const size_t from = cursor->at;
    (void)cursor_take_name(cursor, WORD_MAX);
    return cursor->at > from && cursor_take_byte(cursor, ':') && cursor_take_digits(cursor, 1, 6) &&
           cursor_take_byte(cursor, ']');
}

/* "misc/socket.cc:49 ", only where NCCL speaks behind it. */
static void take_nccl_file(struct line_cursor *cursor)
{
    struct line_cursor file = *cursor;
    const size_t size = cursor_span(&file, ": ");
    if (size == 0) {
        return;
    }
    file.at += size;
    if (cursor_take_byte(&file, ':') && cursor_take_digits(&file, 1, 6) &&
        cursor_take_blanks(&file)) {
        const size_t behind = file.at;
        if (cursor_take(&file, "NCCL ")) {
            cursor->at = behind;
        }
    }
}

/* "node-2:5776:5902 [0] file.cc:1296 ", each part with or without the ones before it. */
static bool is_nccl(struct line_cursor *cursor, struct log_line *line)
{
    const size_t from = cursor->at;
    struct line_cursor host = *cursor;
    uint64_t device = 0;
    if (cursor_take_name(&host, WORD_MAX) > 0 && cursor_take_byte(&host, ':') &&
        cursor_take_digits(&host, 1, 10) && cursor_take_byte(&host, ':') &&
        cursor_take_digits(&host, 1, 10) && cursor_take_blanks(&host) &&
        cursor_take_byte(&host, '[') && cursor_take_number(&host, &device) &&
        cursor_take_byte(&host, ']')) {
        *cursor = host;
        line->gpu = line_small(device);
        (void)cursor_take_blanks(cursor);
    }
    take_nccl_file(cursor);
    return cursor->at > from;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef bool carrier_take(struct line_cursor *cursor, struct log_line *line);

static carrier_take *const carriers[] = {
    is_kmsg, is_priority,   is_uptime,         is_bracketed_time, is_facility_and_level,
    is_time, is_kernel_tag, is_bracketed_rank, is_task,           is_source_note,
    is_nccl,
};

/* One more carrier at the front, whichever it is. */
static bool take_carrier(struct line_cursor *cursor, struct log_line *line)
{
    for (size_t i = 0; i < ARRAY_SIZE(carriers); i++) {
        struct line_cursor try = *cursor;
        struct log_line seen = *line;
        if (carriers[i](&try, &seen) && try.at > cursor->at) {
            (void)cursor_take_blanks(&try);
            *cursor = try;
            *line = seen;
            return true;
        }
    }
    return false;
}

static size_t first_line_size(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size && text[at] != '\n') {
        at++;
    }
    return at;
}

void log_line_strip(const char *line, size_t size, struct log_line *ret_line)
{
    struct log_line found = {.rank = -1, .gpu = -1};
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) {
        size--;
    }
    struct line_cursor cursor = {.text = line, .size = size};
    for (int i = 0; i < LOG_CARRIERS_MAX; i++) {
        struct line_cursor behind = cursor;
        (void)cursor_take_blanks(&behind);
        if (!take_carrier(&behind, &found)) {
            break;
        }
        cursor = behind;
        if (found.kmsg) {
            cursor.size = cursor.at + first_line_size(line + cursor.at, cursor.size - cursor.at);
        }
    }
    (void)cursor_take_blanks(&cursor);
    found.text = line + cursor.at;
    found.size = cursor.size - cursor.at;
    *ret_line = found;
}
