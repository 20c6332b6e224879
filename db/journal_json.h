/* journal_json.h: a record's body as the journal's JSON and back, driven by the field tables of
 * record.h alone: a field that is added there is read and written here at once. Internal to db/.
 *
 * The form: one object, a member a field, in the order of the table. Integers are JSON integers (a
 * uint64 above 2^63-1 is a string of its digits, since few readers hold it), enums are their words,
 * arrays are arrays. Empty texts and arrays of zeros are left out; what is absent is 0 or "".
 * Texts may hold any bytes (a sentence cut in the middle of a character, a program's own output):
 * a byte that is not UTF-8 is written as the private character U+EF00 + byte, and read back as that
 * byte; a genuine U+EF80..U+EFFF is taken apart the same way, so nothing is ever lost. */
#ifndef KEEPSTEP_DB_JOURNAL_JSON_H
#define KEEPSTEP_DB_JOURNAL_JSON_H

#include <jansson.h>

#include "controller/core/record.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

enum { JOURNAL_JSON_MAX = 65536 }; /* bytes of one body; no struct of ours can pass it */

/* Appends the body's JSON to out, whose maximum must leave room: -EMSGSIZE when it does not. */
MUST_CHECK int journal_encode(const struct record_table *table, const void *body, struct buf *out);

/* Fills the kind's struct (table->size bytes) from JSON text. -EINVAL with the field's name and
 * what is wrong; body is undefined then. Members that the table does not know are passed over. */
MUST_CHECK int journal_decode(const struct record_table *table, const char *json, size_t size,
                              void *body, struct err *err);

/* The length of the UTF-8 character at text, 0 when it is none or one of our private ones. */
size_t journal_utf8_length(const char *text);

/* A JSON string of any bytes, each that is not UTF-8 replaced by U+FFFD: for people and REST. */
json_t *journal_json_text(const char *text, size_t size);

#endif
