/* catalog_file.c: six columns with a tab between them; see catalog.h. */
#include <errno.h>
#include <string.h>

#include "agent/core/catalog_parts.h"
#include "agent/core/line_cursor.h"
#include "proto/base/text.h"

enum { COLUMN_COUNT = 6, SHOWN_MAX = 40 };

struct column {
    const char *text;
    size_t size;
};

static int shown(const struct column *column)
{
    return (int)(column->size < SHOWN_MAX ? column->size : SHOWN_MAX);
}

/* Returns how many there are; the last one that is kept takes no further tabs. */
static size_t split(const char *line, size_t size, struct column *columns)
{
    size_t count = 1;
    columns[0] = (struct column){.text = line};
    for (size_t at = 0; at < size; at++) {
        if (line[at] != '\t') {
            columns[count - 1].size++;
            continue;
        }
        if (count == COLUMN_COUNT) {
            return count + 1;
        }
        columns[count++] = (struct column){.text = line + at + 1};
    }
    return count;
}

static int read_name(const struct column *column, struct row *row, struct err *err)
{
    bool good = column->size > 0 && column->size < sizeof(row->name);
    for (size_t i = 0; good && i < column->size; i++) {
        const char byte = column->text[i];
        good = line_is_name_byte(byte) && !(byte >= 'A' && byte <= 'Z');
    }
    if (!good) {
        return err_set(err, -EINVAL, "'%.*s' is no name: a-z, 0-9, . _ and -, at most %zu of them",
                       shown(column), column->text, sizeof(row->name) - 1);
    }
    line_copy(row->name, sizeof(row->name), column->text, column->size);
    return 0;
}

/* One of the words that `word` has for 0 to count - 1, which come into the message. */
static int read_word(const struct column *column, const char *what, int number,
                     const char *const *words, uint32_t count, uint8_t *ret_number, struct err *err)
{
    char list[192] = "";
    if (number >= 0) {
        *ret_number = (uint8_t)number;
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        const size_t used = strlen(list);
        (void)text_format(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
    return err_set(err, -EINVAL, "'%.*s' is no %s: %s", shown(column), column->text, what, list);
}

static int read_words(const struct column *columns, struct row *row, struct err *err)
{
    int r = read_word(&columns[1], "label", signal_label_of(columns[1].text, columns[1].size),
                      signal_label_words, signal_label_count, &row->label, err);
    r = r == 0
            ? read_word(&columns[2], "action", signal_advice_of(columns[2].text, columns[2].size),
                        signal_advice_words, signal_advice_count, &row->advice, err)
            : r;
    return r == 0 ? read_word(&columns[3], "role", signal_role_of(columns[3].text, columns[3].size),
                              signal_role_words, signal_role_count, &row->role, err)
                  : r;
}

/* What is only there to be noticed must not take a node out. */
static int check_sense(const struct row *row, struct err *err)
{
    if (row->role == ROLE_ROOT && (row->label == LABEL_BENIGN || row->label == LABEL_CASCADE)) {
        return err_set(err, -EINVAL, "a %s line is never a root; write noise, cascade or symptom",
                       signal_label_word(row->label));
    }
    return 0;
}

static int check_explanation(const struct column *column, struct err *err)
{
    if (column->size == 0 || column->size >= CATALOG_EXPLAIN_SIZE) {
        return err_set(err, -EINVAL, "the explanation has 1 to %d bytes, not %zu",
                       CATALOG_EXPLAIN_SIZE - 1, column->size);
    }
    if (!text_is_utf8(column->text, column->size)) {
        return err_set(err, -EINVAL, "the explanation is no text in UTF-8");
    }
    return 0;
}

int file_row_read(const char *line, size_t size, struct file_row *ret_row, struct err *err)
{
    struct column columns[COLUMN_COUNT];
    struct file_row file = {0};
    const size_t count = split(line, size, columns);
    int r = read_name(&columns[0], &file.row, err);
    if (r == 0 && count == 2 && line_equal(columns[1].text, columns[1].size, "off")) {
        file.row.gone = true;
        *ret_row = file;
        return 0;
    }
    if (r == 0 && count != COLUMN_COUNT) {
        r = err_set(err, -EINVAL,
                    "has %s%zu columns, not %d: name, label, action, role, match and explanation, "
                    "with one tab between them",
                    count > COLUMN_COUNT ? "more than " : "",
                    count > COLUMN_COUNT ? (size_t)COLUMN_COUNT : count, COLUMN_COUNT);
    }
    r = r == 0 ? read_words(columns, &file.row, err) : r;
    r = r == 0 ? check_sense(&file.row, err) : r;
    if (r == 0 && columns[4].size >= CATALOG_MATCH_SIZE) {
        r = err_set(err, -EINVAL, "the match has %zu bytes, more than %d", columns[4].size,
                    CATALOG_MATCH_SIZE - 1);
    }
    r = r == 0 ? match_read(columns[4].text, columns[4].size, &file.row.match, err) : r;
    r = r == 0 ? check_explanation(&columns[5], err) : r;
    if (r != 0) {
        return r;
    }
    file.column = columns[4].text;
    file.column_size = columns[4].size;
    file.explain = columns[5].text;
    file.explain_size = columns[5].size;
    *ret_row = file;
    return 0;
}
