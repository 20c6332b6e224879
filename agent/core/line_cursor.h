/* line_cursor.h: going over a line of text from its front, for the parsers of lines. Pure.
 *
 * A cursor borrows `size` bytes of anything; no terminating NUL is needed or looked for. Functions
 * that take something move behind it and say whether it was there; when it was not, the place of
 * the cursor is not to be used: copy the cursor before, where there is another way to go. */
#ifndef KEEPSTEP_AGENT_LINE_CURSOR_H
#define KEEPSTEP_AGENT_LINE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CURSOR_DIGITS_MAX = 18 };

struct line_cursor {
    const char *text;
    size_t size;
    size_t at; /* never beyond size */
};

bool line_is_digit(char byte);
bool line_is_blank(char byte);     /* blank, tab, newline, carriage return */
bool line_is_name_byte(char byte); /* letter, digit, - _ . */
int line_hex_of(char byte);        /* 0…15, -1 */

char cursor_here(const struct line_cursor *cursor); /* NUL at the end */
size_t cursor_left(const struct line_cursor *cursor);
bool cursor_take(struct line_cursor *cursor, const char *text);
bool cursor_take_byte(struct line_cursor *cursor, char byte);
bool cursor_take_blanks(struct line_cursor *cursor);              /* at least one; else it stays */
size_t cursor_take_name(struct line_cursor *cursor, size_t most); /* how many bytes; may be 0 */
/* Decimal digits, at most CURSOR_DIGITS_MAX of them. */
bool cursor_take_number(struct line_cursor *cursor, uint64_t *ret_value);
bool cursor_take_digits(struct line_cursor *cursor, size_t least, size_t most);
/* With 0x or without; of more than 32 bits the last ones count. */
bool cursor_take_hex(struct line_cursor *cursor, uint32_t *ret_value);
/* Goes behind the first `word` that is left. */
bool cursor_find(struct line_cursor *cursor, const char *word);
/* How many bytes there are up to one of `stops`, or to the end. */
size_t cursor_span(const struct line_cursor *cursor, const char *stops);

/* The first bytes of text that fit, terminated; control bytes and bytes beyond ASCII become '?'. */
void line_copy(char *target, size_t target_size, const char *text, size_t size);
bool line_equal(const char *text, size_t size, const char *word);
int32_t line_small(uint64_t value); /* INT32_MAX when it is more */

#endif
