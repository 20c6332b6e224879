/* text.c: text helpers. Bytes are compared as unsigned numbers, never by locale; a cut never
 * leaves half of a UTF-8 character behind. */
#include "proto/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"

enum { CLOSEST_WORD_MAX = 64 };

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* text[size] is where a cut was made: how many bytes before it are whole characters. */
static size_t whole_characters(const char *text, size_t size)
{
    size_t start = size;
    while (start > 0 && size - start < 4 && ((uint8_t)text[start - 1] & 0xc0) == 0x80) {
        start--;
    }
    if (start == 0) {
        return size; /* continuation bytes alone: not UTF-8, nothing to protect */
    }
    uint8_t lead = (uint8_t)text[start - 1];
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return size - (start - 1) < length ? start - 1 : size;
}

bool text_copy(char *target, size_t size, const char *source)
{
    CHECK(size > 0);
    size_t length = strnlen(source, size);
    bool whole = length < size;
    if (!whole) {
        length = whole_characters(source, size - 1);
    }
    memmove(target, source, length); /* a text may be shortened in place */
    target[length] = '\0';
    return whole;
}

bool text_format(char *target, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = text_format_list(target, size, format, arguments);
    va_end(arguments);
    return whole;
}

bool text_format_list(char *target, size_t size, const char *format, va_list arguments)
{
    CHECK(size > 0);
    int length = vsnprintf(target, size, format, arguments);
    CHECK(length >= 0);
    if ((size_t)length < size) {
        return true;
    }
    target[whole_characters(target, size - 1)] = '\0';
    return false;
}

const char *text_plural(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

bool text_equal(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* Compares two runs of digits of any length by value and moves past both. */
static int order_numbers(const char **a, const char *a_end, const char **b, const char *b_end)
{
    while (*a < a_end && **a == '0') {
        (*a)++;
    }
    while (*b < b_end && **b == '0') {
        (*b)++;
    }
    int order = 0; /* of the first digits that differ: it counts when both are as long */
    while (*a < a_end && *b < b_end && is_digit(**a) && is_digit(**b)) {
        if (order == 0) {
            order = **a - **b;
        }
        (*a)++;
        (*b)++;
    }
    bool a_longer = *a < a_end && is_digit(**a);
    bool b_longer = *b < b_end && is_digit(**b);
    if (a_longer || b_longer) {
        return a_longer ? 1 : -1;
    }
    return order;
}

static int order_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    if (order == 0) {
        order = a_size < b_size ? -1 : a_size > b_size;
    }
    return order < 0 ? -1 : order > 0;
}

int text_order_parts(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const char *left = a;
    const char *right = b;
    const char *left_end = a + a_size;
    const char *right_end = b + b_size;
    while (left < left_end && right < right_end) {
        int order = 0;
        if (is_digit(*left) && is_digit(*right)) {
            order = order_numbers(&left, left_end, &right, right_end);
        } else {
            order = (uint8_t)*left - (uint8_t)*right;
            left++;
            right++;
        }
        if (order != 0) {
            return order < 0 ? -1 : 1;
        }
    }
    if (left < left_end || right < right_end) {
        return left < left_end ? 1 : -1;
    }
    return order_bytes(a, a_size, b, b_size); /* "7" and "07": a total order needs a winner */
}

int text_order(const char *a, const char *b)
{
    return text_order_parts(a, strlen(a), b, strlen(b));
}

bool text_is_name(const char *text, size_t size_max)
{
    CHECK(size_max > 0);
    size_t length = strnlen(text, size_max);
    if (length == 0 || length == size_max || !(is_letter(text[0]) || is_digit(text[0]))) {
        return false;
    }
    for (size_t index = 1; index < length; index++) {
        char byte = text[index];
        if (!is_letter(byte) && !is_digit(byte) && byte != '.' && byte != '_' && byte != '-') {
            return false;
        }
    }
    return true;
}

/* Length of the UTF-8 character at bytes, 0 when it is not one (overlong, surrogate, too large)
 * or a control character (C0 but tab and newline, DEL, C1). */
static size_t utf8_character(const uint8_t *bytes, size_t size)
{
    uint8_t lead = bytes[0];
    if (lead < 0x80) {
        return (lead >= 0x20 && lead != 0x7f) || lead == '\t' || lead == '\n';
    }
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > size) {
        return 0;
    }
    uint32_t code = lead & (0x7fu >> length);
    for (size_t index = 1; index < length; index++) {
        if ((bytes[index] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (bytes[index] & 0x3fu);
    }
    static const uint32_t smallest[] = {0, 0, 0xa0, 0x800, 0x10000};
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < smallest[length] || surrogate || code > 0x10ffff ? 0 : length;
}

/* true when all eight bytes are 0x20 … 0x7e. Job files are nearly all of this kind, and an order to
 * 2,048 nodes checks one for each: this is ten times as fast as one byte at a time. */
static bool is_plain_word(const uint8_t *bytes)
{
    static const uint64_t ones = 0x0101010101010101ull;
    static const uint64_t highs = 0x8080808080808080ull;
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    uint64_t deletes = word ^ (ones * 0x7f); /* zero bytes where there is a DEL */
    uint64_t low = (word - ones * 0x20) & ~word;
    return ((word | low | ((deletes - ones) & ~deletes)) & highs) == 0;
}

bool text_is_utf8(const char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t index = 0;
    while (index < size) {
        if (size - index >= sizeof(uint64_t) && is_plain_word(bytes + index)) {
            index += sizeof(uint64_t);
            continue;
        }
        size_t length = utf8_character(bytes + index, size - index);
        if (length == 0) {
            return false;
        }
        index += length;
    }
    return true;
}

void text_mend(char *text)
{
    size_t size = strlen(text);
    if (text_is_utf8(text, size)) {
        return;
    }
    size = whole_characters(text, size);
    text[size] = '\0';
    for (size_t index = 0; index < size;) {
        size_t length = utf8_character((const uint8_t *)text + index, size - index);
        if (length == 0) {
            text[index] = '?';
            length = 1;
        }
        index += length;
    }
}

bool text_sentence_list(char *target, size_t size, const char *format, va_list arguments)
{
    bool whole = text_format_list(target, size, format, arguments);
    text_mend(target);
    return whole;
}

bool text_sentence(char *target, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool whole = text_sentence_list(target, size, format, arguments);
    va_end(arguments);
    return whole;
}

int text_to_u64(const char *text, uint64_t max, uint64_t *ret_value)
{
    if (text[0] == '\0') {
        return -EINVAL;
    }
    uint64_t value = 0;
    bool too_large = false;
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (!is_digit(*digit)) {
            return -EINVAL;
        }
        too_large = too_large || __builtin_mul_overflow(value, 10u, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*digit - '0'), &value);
    }
    if (too_large || value > max) {
        return -ERANGE;
    }
    *ret_value = value;
    return 0;
}

int text_to_i64(const char *text, int64_t min, int64_t max, int64_t *ret_value)
{
    CHECK(min <= max);
    bool negative = text[0] == '-';
    uint64_t size = 0;
    uint64_t size_max = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    int result = text_to_u64(negative ? text + 1 : text, size_max, &size);
    if (result < 0) {
        return result;
    }
    /* -(INT64_MAX + 1) has no positive twin: negate one less. */
    int64_t value = (int64_t)size;
    if (negative) {
        value = size == 0 ? 0 : -(int64_t)(size - 1) - 1;
    }
    if (value < min || value > max) {
        return -ERANGE;
    }
    *ret_value = value;
    return 0;
}

static size_t smallest_of(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Edit distance with exchanged neighbours (optimal string alignment), three rows at a time. */
static size_t edit_distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t rows[3][CLOSEST_WORD_MAX + 1];
    for (size_t column = 0; column <= b_size; column++) {
        rows[0][column] = column;
    }
    for (size_t row = 1; row <= a_size; row++) {
        size_t *now = rows[row % 3];
        const size_t *last = rows[(row + 2) % 3];
        const size_t *before_last = rows[(row + 1) % 3];
        now[0] = row;
        for (size_t column = 1; column <= b_size; column++) {
            size_t replaced = last[column - 1] + (a[row - 1] != b[column - 1]);
            now[column] = smallest_of(replaced, last[column] + 1, now[column - 1] + 1);
            if (row > 1 && column > 1 && a[row - 1] == b[column - 2] &&
                a[row - 2] == b[column - 1] && before_last[column - 2] + 1 < now[column]) {
                now[column] = before_last[column - 2] + 1;
            }
        }
    }
    return rows[a_size % 3][b_size];
}

const char *text_closest(const char *word, const char *const *candidates, size_t count)
{
    size_t word_size = strnlen(word, CLOSEST_WORD_MAX + 1);
    const char *closest = NULL;
    if (word_size > CLOSEST_WORD_MAX) {
        return NULL;
    }
    size_t best = (word_size + 2) / 3 + 1; /* a third, rounded up, is still close */
    for (size_t index = 0; index < count; index++) {
        size_t size = strnlen(candidates[index], CLOSEST_WORD_MAX + 1);
        if (size > CLOSEST_WORD_MAX) {
            continue;
        }
        size_t distance = edit_distance(word, word_size, candidates[index], size);
        if (distance < best) {
            best = distance;
            closest = candidates[index];
        }
    }
    return closest;
}
