/* incident_read.c: the file is cut up where it lies: each row points into its bytes. */
#include "controller/tools/incident_read.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum { COLUMNS_MAX = 32 };

enum column { COLUMN_INCIDENT, COLUMN_T, COLUMN_NODE, COLUMN_STREAM, COLUMN_LINE };
static const char *const column_names[] = {"incident", "t_ms", "node", "stream", "line"};
enum { COLUMN_COUNT = ARRAY_SIZE(column_names) };

static const char *const stream_names[] = {"kmsg", "stderr", "agent", "ctl"};

struct reader {
    struct incident_file *file;
    incident_warn *warn;
    void *context;
    int column[COLUMN_COUNT]; /* which column of the file it is */
    uint32_t columns;
    uint32_t number;
};

static void warn(struct reader *reader, const char *text)
{
    reader->warn(reader->context, reader->number, text);
}

/* Cuts the row at its tabs. With `columns` known the last one takes the rest. */
static uint32_t cut(char *row, char **cells, uint32_t columns)
{
    uint32_t count = 0;
    for (char *next = row; next != NULL && count < columns;) {
        cells[count++] = next;
        next = count < columns ? strchr(next, '\t') : NULL;
        if (next != NULL) {
            *next++ = '\0';
        }
    }
    return count;
}

static int read_header(struct reader *reader, char *row, struct err *err)
{
    char *cells[COLUMNS_MAX];
    reader->columns = cut(row, cells, COLUMNS_MAX);
    for (uint32_t wanted = 0; wanted < COLUMN_COUNT; wanted++) {
        reader->column[wanted] = -1;
        for (uint32_t index = 0; index < reader->columns; index++) {
            if (text_equal(cells[index], column_names[wanted])) {
                reader->column[wanted] = (int)index;
            }
        }
        if (reader->column[wanted] < 0) {
            return err_set(err, -EINVAL,
                           "line %u names no column %s; it must name incident, t_ms, node, stream "
                           "and line, with a tab between them",
                           reader->number, column_names[wanted]);
        }
    }
    return 0;
}

static bool is_word(const char *text)
{
    size_t size = strlen(text);
    for (size_t index = 0; index < size; index++) {
        if ((unsigned char)text[index] <= ' ' || text[index] == 127) {
            return false;
        }
    }
    return size > 0 && size <= INCIDENT_NAME_MAX && text_is_utf8(text, size);
}

static bool read_time(const char *text, uint64_t *ret_t_ms)
{
    const int64_t most = INT64_C(1) << 48;
    int64_t t_ms;
    const char *point = strchr(text, '.');
    char whole[32];
    size_t size = point != NULL ? (size_t)(point - text) : strlen(text);
    if (size >= sizeof(whole) ||
        (point != NULL && strspn(point + 1, "0123456789") != strlen(point + 1))) {
        return false;
    }
    (void)text_format(whole, sizeof(whole), "%.*s", (int)size, text);
    if (text_to_i64(whole, -most, most, &t_ms) < 0) {
        return false;
    }
    *ret_t_ms = (uint64_t)((int64_t)INCIDENT_T_BASE + t_ms);
    return true;
}

static int stream_of(const char *text)
{
    for (size_t index = 0; index < ARRAY_SIZE(stream_names); index++) {
        if (text_equal(text, stream_names[index])) {
            return (int)index;
        }
    }
    return -1;
}

/* What is wrong with the row, in words; NULL: it is one more of the file. */
static const char *read_row(struct reader *reader, char *text)
{
    char *cells[COLUMNS_MAX];
    uint32_t count = cut(text, cells, reader->columns);
    for (uint32_t wanted = 0; wanted < COLUMN_COUNT; wanted++) {
        if (reader->column[wanted] >= (int)count) {
            return "it has too few columns";
        }
    }
    const char *incident = cells[reader->column[COLUMN_INCIDENT]];
    const char *line = cells[reader->column[COLUMN_LINE]];
    struct incident_row row = {.number = reader->number,
                               .node = cells[reader->column[COLUMN_NODE]],
                               .line = line,
                               .size = strnlen(line, INCIDENT_LINE_MAX)};
    if (!is_word(incident)) {
        return "its incident is no name of 1 to 63 letters";
    }
    if (!is_word(row.node)) {
        return "its node is no name of 1 to 63 letters";
    }
    if (!read_time(cells[reader->column[COLUMN_T]], &row.t_ms)) {
        return "its t_ms is no number of milliseconds";
    }
    int stream = stream_of(cells[reader->column[COLUMN_STREAM]]);
    if (stream < 0) {
        return "its stream is none of kmsg, stderr, agent and ctl";
    }
    row.stream = (uint8_t)stream;
    row.incident = names_take(&reader->file->incidents, incident, strlen(incident));
    reader->file->rows[reader->file->count++] = row;
    return NULL;
}

static int by_time(const void *a, const void *b, const void *context)
{
    (void)context;
    const struct incident_row *x = a;
    const struct incident_row *y = b;
    if (x->incident != y->incident) {
        return x->incident < y->incident ? -1 : 1;
    }
    if (x->t_ms != y->t_ms) {
        return x->t_ms < y->t_ms ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number ? 1 : 0;
}

/* The next line of the text, NUL-terminated; bytes that no text has become '?'. */
static char *next_line(char **at, const char *end)
{
    char *line = *at;
    char *stop = line;
    while (stop < end && *stop != '\n') {
        if (*stop == '\0') {
            *stop = '?';
        }
        stop++;
    }
    *at = stop < end ? stop + 1 : stop;
    if (stop > line && stop[-1] == '\r') {
        stop--;
    }
    *stop = '\0';
    return line;
}

static uint32_t count_lines(const char *bytes, size_t size)
{
    uint32_t count = 1;
    for (size_t index = 0; index < size; index++) {
        count += bytes[index] == '\n' ? 1 : 0;
    }
    return count;
}

int incident_read(char *bytes, size_t size, incident_warn *warn_call, void *context,
                  struct incident_file *ret_file, struct err *err)
{
    CHECK(size <= INCIDENT_FILE_MAX);
    uint32_t lines = count_lines(bytes, size);
    if (lines > INCIDENT_ROWS_MAX) {
        return err_set(err, -E2BIG, "it has %u lines; at most %d are read", lines,
                       INCIDENT_ROWS_MAX);
    }
    struct incident_file file = {0};
    struct reader reader = {.file = &file, .warn = warn_call, .context = context};
    char *at = bytes;
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        at += 3; /* what some editors put before a text */
    }
    reader.number = 1;
    int code = read_header(&reader, next_line(&at, bytes + size), err);
    if (code < 0) {
        return code;
    }
    file.rows = mem_try(lines, sizeof(file.rows[0]));
    if (file.rows == NULL) {
        return err_set(err, -ENOMEM, "there is no memory for its %u lines", lines);
    }
    names_init(&file.incidents);
    while (at < bytes + size) {
        reader.number++;
        char *text = next_line(&at, bytes + size);
        const char *wrong = text[0] == '\0' ? NULL : read_row(&reader, text);
        if (wrong != NULL) {
            warn(&reader, wrong);
        }
    }
    sort_any(file.rows, file.count, sizeof(file.rows[0]), by_time, NULL);
    *ret_file = file;
    return 0;
}

void incident_file_done(struct incident_file *file)
{
    names_done(&file->incidents);
    file->rows = mem_free(file->rows);
}
