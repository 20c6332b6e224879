/* text.h: small text helpers without surprises. Pure: no locale, no allocation.
 * The text_copy family always terminates, cuts between characters and says when it cut; a "name" is
 * what nodes, jobs, racks and pools may be called: [A-Za-z0-9] first, then [A-Za-z0-9._-], at most
 * size-1 characters. */
#ifndef KEEPSTEP_BASE_TEXT_H
#define KEEPSTEP_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

bool text_copy(char *target, size_t size, const char *source); /* false when it had to cut */
bool text_format(char *target, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* false when it had to cut */
bool text_format_list(char *target, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0))); /* the same */
/* As text_format, for what people read: the result is UTF-8 whatever goes in. Half a character at
 * its end, which a precision (%.64s) may leave, is cut off; what else is none becomes '?'. Not for
 * paths, whose bytes must stay. */
bool text_sentence(char *target, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool text_sentence_list(char *target, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
void text_mend(char *text); /* what text_sentence does to its result */
bool text_equal(const char *a, const char *b);
/* The word that fits the number: text_plural(count, "node holds", "nodes hold"). */
const char *text_plural(uint64_t count, const char *one, const char *many);
int text_order(const char *a, const char *b); /* strcmp's sign; runs of digits by value */
int text_order_parts(const char *a, size_t a_size, const char *b, size_t b_size); /* same */
bool text_is_name(const char *text, size_t size_max);
bool text_is_utf8(const char *text,
                  size_t size); /* valid UTF-8 without NUL or control bytes but \t \n */
MUST_CHECK int text_to_u64(const char *text, uint64_t max,
                           uint64_t *ret_value); /* decimal only; -EINVAL, -ERANGE */
MUST_CHECK int text_to_i64(const char *text, int64_t min, int64_t max, int64_t *ret_value);
/* Edit distance for "did you mean": the closest candidate within a third of the length, or NULL. */
const char *text_closest(const char *word, const char *const *candidates, size_t count);

#endif
