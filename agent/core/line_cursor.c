/* line_cursor.c: see line_cursor.h. */
#include "agent/core/line_cursor.h"

#include <string.h>

bool line_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

bool line_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

bool line_is_name_byte(char byte)
{
    return line_is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           byte == '-' || byte == '_' || byte == '.';
}

int line_hex_of(char byte)
{
    if (line_is_digit(byte)) {
        return byte - '0';
    }
    const char low = (char)(byte | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

char cursor_here(const struct line_cursor *cursor)
{
    return cursor->at < cursor->size ? cursor->text[cursor->at] : '\0';
}

size_t cursor_left(const struct line_cursor *cursor)
{
    return cursor->size - cursor->at;
}

bool cursor_take(struct line_cursor *cursor, const char *text)
{
    const size_t size = strlen(text);
    if (cursor_left(cursor) < size || memcmp(cursor->text + cursor->at, text, size) != 0) {
        return false;
    }
    cursor->at += size;
    return true;
}

bool cursor_take_byte(struct line_cursor *cursor, char byte)
{
    if (cursor->at == cursor->size || cursor->text[cursor->at] != byte) {
        return false;
    }
    cursor->at++;
    return true;
}

bool cursor_take_blanks(struct line_cursor *cursor)
{
    const size_t from = cursor->at;
    while (cursor->at < cursor->size && line_is_blank(cursor->text[cursor->at])) {
        cursor->at++;
    }
    return cursor->at > from;
}

size_t cursor_take_name(struct line_cursor *cursor, size_t most)
{
    const size_t from = cursor->at;
    while (cursor->at - from < most && line_is_name_byte(cursor_here(cursor))) {
        cursor->at++;
    }
    return cursor->at - from;
}

bool cursor_take_number(struct line_cursor *cursor, uint64_t *ret_value)
{
    const size_t from = cursor->at;
    uint64_t value = 0;
    while (line_is_digit(cursor_here(cursor)) && cursor->at - from < CURSOR_DIGITS_MAX) {
        value = value * 10 + (uint64_t)(cursor_here(cursor) - '0');
        cursor->at++;
    }
    *ret_value = value;
    return cursor->at > from;
}

bool cursor_take_digits(struct line_cursor *cursor, size_t least, size_t most)
{
    const size_t from = cursor->at;
    while (line_is_digit(cursor_here(cursor))) {
        cursor->at++;
    }
    return cursor->at - from >= least && cursor->at - from <= most;
}

bool cursor_take_hex(struct line_cursor *cursor, uint32_t *ret_value)
{
    uint32_t value = 0;
    if (!cursor_take(cursor, "0x")) {
        (void)cursor_take(cursor, "0X");
    }
    const size_t from = cursor->at;
    while (line_hex_of(cursor_here(cursor)) >= 0 && cursor->at - from < CURSOR_DIGITS_MAX) {
        value = value << 4 | (uint32_t)line_hex_of(cursor_here(cursor));
        cursor->at++;
    }
    *ret_value = value;
    return cursor->at > from;
}

bool cursor_find(struct line_cursor *cursor, const char *word)
{
    const size_t size = strlen(word);
    for (size_t at = cursor->at; at + size <= cursor->size; at++) {
        if (cursor->text[at] == word[0] && memcmp(cursor->text + at, word, size) == 0) {
            cursor->at = at + size;
            return true;
        }
    }
    return false;
}

static bool is_one_of(char byte, const char *bytes)
{
    for (; *bytes != '\0'; bytes++) {
        if (*bytes == byte) {
            return true;
        }
    }
    return false;
}

size_t cursor_span(const struct line_cursor *cursor, const char *stops)
{
    size_t at = cursor->at;
    while (at < cursor->size && !is_one_of(cursor->text[at], stops)) {
        at++;
    }
    return at - cursor->at;
}

void line_copy(char *target, size_t target_size, const char *text, size_t size)
{
    const size_t kept = size < target_size ? size : target_size - 1;
    for (size_t i = 0; i < kept; i++) {
        target[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    target[kept] = '\0';
}

bool line_equal(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && memcmp(text, word, size) == 0;
}

int32_t line_small(uint64_t value)
{
    return value > INT32_MAX ? INT32_MAX : (int32_t)value;
}
