/* table.c: plain tables as wide as their cells. Nothing is ever cut: a pipe wants all of it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { TABLE_BYTES_MAX = 256 << 20 };

void table_init(struct table *table, uint32_t columns, const char *const *heads)
{
    CHECK(columns > 0 && columns <= COLUMNS_MAX);
    memset(table, 0, sizeof *table);
    table->columns = columns;
    for (uint32_t i = 0; i < columns; i++) {
        bool right = heads[i][0] == '>';
        table->heads[i] = heads[i] + (right ? 1 : 0);
        table->right[i] = right;
    }
    buf_init(&table->text, TABLE_BYTES_MAX);
}

/* The text from `start` is a new cell: one line, with its NUL behind it. */
static void end_cell(struct table *table, size_t start)
{
    for (size_t i = start; i < table->text.size; i++) {
        uint8_t byte = table->text.data[i];
        table->text.data[i] = byte < 0x20 || byte == 0x7f ? ' ' : byte;
    }
    (void)!buf_put(&table->text, "", 1);
    table->cells += table->text.overflow ? 0 : 1; /* a table that is too long is cut */
}

void table_text(struct table *table, const char *text)
{
    size_t start = table->text.size;
    (void)!buf_put(&table->text, text, strlen(text));
    end_cell(table, start);
}

void table_cell(struct table *table, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(text, sizeof text, format, arguments);
    va_end(arguments);
    table_text(table, text);
}

void table_member(struct table *table, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    char text[64];
    if (json_is_string(value) && json_string_length(value) > 0) {
        table_text(table, json_string_value(value));
    } else if (json_is_integer(value) && json_integer_value(value) >= 0) {
        count_format((uint64_t)json_integer_value(value), text, sizeof text);
        table_text(table, text);
    } else {
        table_text(table, text_of(object, key, text, sizeof text));
    }
}

static void print_cell(const struct table *table, uint32_t column, int width, const char *text)
{
    bool last = column + 1 == table->columns;
    if (table->right[column]) {
        printf("%*s%s", width, text, last ? "\n" : "  ");
    } else if (last) {
        printf("%s\n", text);
    } else {
        printf("%-*s  ", width, text);
    }
}

/* Cells one after the other; returns the text behind the cell. */
static const char *next_cell(const char *cell)
{
    return cell + strlen(cell) + 1;
}

void table_print(struct table *table)
{
    int widths[COLUMNS_MAX] = {0};
    const char *cell = (const char *)table->text.data;
    for (uint32_t i = 0; i < table->columns; i++) {
        widths[i] = (int)strlen(table->heads[i]);
    }
    for (uint32_t i = 0; i < table->cells; i++, cell = next_cell(cell)) {
        int width = (int)strlen(cell);
        uint32_t column = i % table->columns;
        widths[column] = width > widths[column] ? width : widths[column];
    }
    for (uint32_t i = 0; i < table->columns; i++) {
        print_cell(table, i, widths[i], table->heads[i]);
    }
    cell = (const char *)table->text.data;
    for (uint32_t i = 0; i < table->cells; i++, cell = next_cell(cell)) {
        print_cell(table, i % table->columns, widths[i % table->columns], cell);
    }
    buf_done(&table->text);
}
