/* journal_json.c: bodies are written by hand, straight into a buffer (the owner of the store waits
 * for it), and read through jansson, which is strict. */
#include "db/journal_json.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

/* ---- writing ------------------------------------------------------------------------------- */

/* The buffer remembers that it overflowed; journal_encode looks once at the end. */
static void put(struct buf *out, const char *data, size_t size)
{
    int code = buf_put(out, data, size);
    (void)code;
}

static void put_text(struct buf *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_u64(struct buf *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        at--;
        digits[at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    put(out, digits + at, sizeof(digits) - at);
}

static void put_i64(struct buf *out, int64_t value)
{
    if (value < 0) {
        put(out, "-", 1);
    }
    put_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void put_wide(struct buf *out, uint64_t value)
{
    bool quoted = value > INT64_MAX;
    put(out, "\"", quoted ? 1 : 0);
    put_u64(out, value);
    put(out, "\"", quoted ? 1 : 0);
}

static bool continues(const unsigned char *text, size_t count)
{
    for (size_t i = 1; i <= count; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return false; /* the terminating NUL stops here too */
        }
    }
    return true;
}

size_t journal_utf8_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) {
        return 1;
    }
    if (at[0] >= 0xc2 && at[0] <= 0xdf) {
        return continues(at, 1) ? 2 : 0;
    }
    if (at[0] >= 0xe0 && at[0] <= 0xef && continues(at, 2)) {
        bool overlong = at[0] == 0xe0 && at[1] < 0xa0;
        bool surrogate = at[0] == 0xed && at[1] > 0x9f;
        bool ours = at[0] == 0xee && at[1] >= 0xbe;
        return overlong || surrogate || ours ? 0 : 3;
    }
    if (at[0] >= 0xf0 && at[0] <= 0xf4 && continues(at, 3)) {
        bool overlong = at[0] == 0xf0 && at[1] < 0x90;
        bool beyond = at[0] == 0xf4 && at[1] > 0x8f;
        return overlong || beyond ? 0 : 4;
    }
    return 0;
}

static void put_character(struct buf *out, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    if (byte == '"' || byte == '\\') {
        put(out, "\\", 1);
        put(out, (const char *)&byte, 1);
    } else if (byte == '\n') {
        put(out, "\\n", 2);
    } else {
        char escape[] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
        put(out, escape, sizeof(escape));
    }
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

static void put_string(struct buf *out, const char *text)
{
    put(out, "\"", 1);
    for (const char *at = text; *at != '\0';) {
        size_t run = 0;
        while (is_plain((unsigned char)at[run])) {
            run++;
        }
        put(out, at, run);
        at += run;
        if (*at == '\0') {
            break;
        }
        size_t length = journal_utf8_length(at);
        unsigned char byte = (unsigned char)*at;
        if (length == 1) {
            put_character(out, byte);
        } else if (length > 1) {
            put(out, at, length);
        } else { /* U+EF00 + byte: EE BE 80..BF, EE BF 80..BF */
            char private[] = {(char)0xee, (char)(byte < 0xc0 ? 0xbe : 0xbf),
                              (char)(0x80 | (byte & 0x3f))};
            put(out, private, sizeof(private));
        }
        at += length > 0 ? length : 1;
    }
    put(out, "\"", 1);
}

static bool all_zero(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool is_absent(const struct record_field *field, const void *at)
{
    switch (field->type) {
    case FIELD_TEXT:
        return *(const char *)at == '\0';
    case FIELD_I32S:
        return all_zero(at, field->size * sizeof(int32_t));
    case FIELD_U64S:
        return all_zero(at, field->size * sizeof(uint64_t));
    case FIELD_U32:
    case FIELD_I32:
    case FIELD_U64:
    case FIELD_BOOL:
    case FIELD_WORD:
        return false;
    }
    return false;
}

static void put_array(struct buf *out, const struct record_field *field, const void *at)
{
    put(out, "[", 1);
    for (uint32_t i = 0; i < field->size; i++) {
        put(out, ",", i > 0 ? 1 : 0);
        if (field->type == FIELD_I32S) {
            put_i64(out, ((const int32_t *)at)[i]);
        } else {
            put_wide(out, ((const uint64_t *)at)[i]);
        }
    }
    put(out, "]", 1);
}

static void put_value(struct buf *out, const struct record_field *field, const void *at)
{
    switch (field->type) {
    case FIELD_U32:
        put_u64(out, *(const uint32_t *)at);
        return;
    case FIELD_I32:
        put_i64(out, *(const int32_t *)at);
        return;
    case FIELD_U64:
        put_wide(out, *(const uint64_t *)at);
        return;
    case FIELD_BOOL:
        put_text(out, *(const bool *)at ? "true" : "false");
        return;
    case FIELD_WORD: {
        uint8_t value = *(const uint8_t *)at;
        CHECK(value < field->word_count); /* an enum of ours out of range is a mistake of ours */
        put_string(out, field->words[value]);
        return;
    }
    case FIELD_TEXT:
        put_string(out, at);
        return;
    case FIELD_I32S:
    case FIELD_U64S:
        put_array(out, field, at);
        return;
    }
}

int journal_encode(const struct record_table *table, const void *body, struct buf *out)
{
    bool first = true;
    put(out, "{", 1);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct record_field *field = &table->fields[i];
        const void *at = (const char *)body + field->offset;
        if (is_absent(field, at)) {
            continue;
        }
        put(out, first ? "\"" : ",\"", first ? 1 : 2);
        put_text(out, field->name);
        put(out, "\":", 2);
        put_value(out, field, at);
        first = false;
    }
    put(out, "}", 1);
    return out->overflow ? -EMSGSIZE : 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int wrong(struct err *err, const struct record_field *field, const char *what)
{
    return err_set(err, -EINVAL, "field '%s' %s", field->name, what);
}

static int take_u64(const struct record_field *field, const json_t *value, uint64_t max,
                    uint64_t *ret_value, struct err *err)
{
    uint64_t number = 0;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        number = (uint64_t)json_integer_value(value);
    } else if (!json_is_string(value) ||
               text_to_u64(json_string_value(value), UINT64_MAX, &number) < 0) {
        return wrong(err, field, "is not a number that is 0 or more");
    }
    if (number > max) {
        return wrong(err, field, "is too large");
    }
    *ret_value = number;
    return 0;
}

static int take_i32(const struct record_field *field, const json_t *value, int32_t *ret_value,
                    struct err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < INT32_MIN ||
        json_integer_value(value) > INT32_MAX) {
        return wrong(err, field, "is not an integer of 32 bits");
    }
    *ret_value = (int32_t)json_integer_value(value);
    return 0;
}

static int take_word(const struct record_field *field, const json_t *value, uint8_t *ret_value,
                     struct err *err)
{
    const char *word = json_string_value(value);
    for (uint32_t i = 0; word != NULL && i < field->word_count; i++) {
        if (text_equal(field->words[i], word)) {
            *ret_value = (uint8_t)i;
            return 0;
        }
    }
    return wrong(err, field, "has a word that this version does not know");
}

/* Undoes put_string's private characters. */
static int take_text(const struct record_field *field, const json_t *value, char *target,
                     struct err *err)
{
    if (!json_is_string(value)) {
        return wrong(err, field, "is not a text");
    }
    const unsigned char *at = (const unsigned char *)json_string_value(value);
    size_t used = 0;
    for (; *at != '\0' && used + 1 < field->size; used++) {
        if (at[0] == 0xee && at[1] >= 0xbe) {
            target[used] = (char)((at[1] == 0xbe ? 0x80 : 0xc0) | (at[2] & 0x3f));
            at += 3;
        } else {
            target[used] = (char)*at;
            at++;
        }
    }
    if (*at != '\0') {
        return wrong(err, field, "is too long");
    }
    target[used] = '\0';
    return 0;
}

static int take_array(const struct record_field *field, const json_t *value, void *at,
                      struct err *err)
{
    if (!json_is_array(value) || json_array_size(value) > field->size) {
        return wrong(err, field, "is not an array of the right length");
    }
    int code = 0;
    for (size_t i = 0; i < json_array_size(value) && code == 0; i++) {
        const json_t *element = json_array_get(value, i);
        if (field->type == FIELD_I32S) {
            code = take_i32(field, element, (int32_t *)at + i, err);
        } else {
            code = take_u64(field, element, UINT64_MAX, (uint64_t *)at + i, err);
        }
    }
    return code;
}

static int take_value(const struct record_field *field, const json_t *value, void *at,
                      struct err *err)
{
    uint64_t number = 0;
    int code = 0;
    switch (field->type) {
    case FIELD_U32:
        code = take_u64(field, value, UINT32_MAX, &number, err);
        *(uint32_t *)at = (uint32_t)number;
        return code;
    case FIELD_I32:
        return take_i32(field, value, at, err);
    case FIELD_U64:
        return take_u64(field, value, UINT64_MAX, at, err);
    case FIELD_BOOL:
        if (!json_is_boolean(value)) {
            return wrong(err, field, "is neither true nor false");
        }
        *(bool *)at = json_is_true(value);
        return 0;
    case FIELD_WORD:
        return take_word(field, value, at, err);
    case FIELD_TEXT:
        return take_text(field, value, at, err);
    case FIELD_I32S:
    case FIELD_U64S:
        return take_array(field, value, at, err);
    }
    return wrong(err, field, "has no type");
}

int journal_decode(const struct record_table *table, const char *json, size_t size, void *body,
                   struct err *err)
{
    json_error_t error;
    json_t *object = json_loadb(json, size, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return err_set(err, -EINVAL, "its body is not a JSON object");
    }
    memset(body, 0, table->size);
    int code = 0;
    for (uint32_t i = 0; i < table->count && code == 0; i++) {
        const struct record_field *field = &table->fields[i];
        const json_t *value = json_object_get(object, field->name);
        if (value != NULL) {
            code = take_value(field, value, (char *)body + field->offset, err);
        }
    }
    json_decref(object);
    return code;
}

/* ---- for people ---------------------------------------------------------------------------- */

json_t *journal_json_text(const char *text, size_t size)
{
    json_t *value = json_stringn(text, size);
    if (value != NULL) {
        return value;
    }
    struct buf clean;
    buf_init(&clean, size * 3);
    for (const char *at = text; at < text + size;) {
        size_t length = journal_utf8_length(at);
        if (length == 0) {
            put(&clean, "\xef\xbf\xbd", 3);
        } else {
            put(&clean, at, length);
        }
        at += length > 0 ? length : 1;
    }
    value = json_string(buf_text(&clean));
    buf_done(&clean);
    CHECK(value != NULL);
    return value;
}
