/* rules.c: see rules.h. */
#include "proto/wire/rules.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"
#include "proto/wire/member.h"

static bool is_word(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

static bool is_hex(const char *text, size_t length)
{
    return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

static bool is_address(const char *text, size_t size)
{
    char bare[128];
    uint8_t parsed[16];
    CHECK(size <= sizeof bare);
    (void)text_copy(bare, sizeof bare, text); /* fits: text is shorter than size */
    char *zone = strchr(bare, '%');
    if (zone != NULL) {
        *zone = '\0';
        return text_is_name(zone + 1, sizeof bare) && inet_pton(AF_INET6, bare, parsed) == 1;
    }
    return inet_pton(AF_INET, bare, parsed) == 1 || inet_pton(AF_INET6, bare, parsed) == 1;
}

static bool is_line(const char *text)
{
    return text_is_utf8(text, strlen(text)) && strpbrk(text, "\t\n") == NULL;
}

/* What is wrong with a terminated text, or NULL. */
static const char *text_fault(enum text_rule rule, const char *text, size_t size)
{
    bool empty = text[0] == '\0';
    switch (rule) {
    case TEXT_SENTENCE:
        return NULL; /* its bytes are looked at where it is copied */
    case TEXT_NAME:
        return text_is_name(text, size) ? NULL : "is not a name";
    case TEXT_NAME_OPT:
        return empty || text_is_name(text, size) ? NULL : "is not a name";
    case TEXT_WORD:
        return !empty && is_word(text) ? NULL : "is not a word of printable ASCII";
    case TEXT_WORD_OPT:
        return is_word(text) ? NULL : "is not a word of printable ASCII";
    case TEXT_HEX_OPT:
        return empty || is_hex(text, size - 1) ? NULL : "does not have its number of hex digits";
    case TEXT_ADDRESS_OPT:
        return empty || is_address(text, size) ? NULL : "is not a numeric address";
    case TEXT_LINE:
        return !empty && is_line(text) ? NULL : "is not one line of UTF-8";
    case TEXT_LINE_OPT:
        return is_line(text) ? NULL : "is not one line of UTF-8";
    }
    return "has an unknown rule";
}

static int check_texts(int code, const struct field *field, const uint8_t *plain, struct err *err)
{
    uint32_t count = field->type == FIELD_TEXTS ? member_load_count(field, plain) : 1;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = (const char *)plain + field->at + (size_t)i * field->size;
        const char *fault = strnlen(text, field->size) == field->size
                                ? "is not terminated"
                                : text_fault((enum text_rule)field->rule, text, field->size);
        if (fault != NULL) {
            return err_set(err, code, "%s: the text %s", field->name, fault);
        }
    }
    return 0;
}

static int check_range(int code, const struct field *field, const uint8_t *plain, struct err *err)
{
    if (field->type == FIELD_INT) {
        int32_t value = member_load_i32(plain + field->at);
        if (value < field->min || value > (int64_t)field->max) {
            return err_set(err, code, "%s: %d is not within %d and %lld", field->name, value,
                           field->min, (long long)field->max);
        }
        return 0;
    }
    uint64_t value = member_load_uint(plain + field->at, field->size);
    if (value > field->max) {
        return err_set(err, code, "%s: %llu is above %llu", field->name, (unsigned long long)value,
                       (unsigned long long)field->max);
    }
    return 0;
}

static int check_count(int code, const struct field *field, const uint8_t *plain, struct err *err)
{
    uint32_t count = member_load_count(field, plain);
    if (count > field->max) {
        return err_set(err, code, "%s: %u of at most %llu", field->name, count,
                       (unsigned long long)field->max);
    }
    return 0;
}

static int check_blob(int code, const struct field *field, const uint8_t *plain, struct err *err)
{
    const char *text = member_load_pointer(plain + field->at);
    uint32_t size = member_load_count(field, plain);
    if (size > 0 && text == NULL) {
        return err_set(err, code, "%s: a size of %u but no text", field->name, size);
    }
    if (field->rule == BLOB_UTF8 && size > 0 && !text_is_utf8(text, size)) {
        return err_set(err, code, "%s: the text is not UTF-8", field->name);
    }
    return 0;
}

int rules_check(int code, const struct field *field, const uint8_t *plain, struct err *err)
{
    int r;
    switch (field->type) {
    case FIELD_UINT:
    case FIELD_INT:
    case FIELD_ENUM:
        return check_range(code, field, plain, err);
    case FIELD_TEXT:
        return check_texts(code, field, plain, err);
    case FIELD_TEXTS:
        r = check_count(code, field, plain, err);
        return r < 0 ? r : check_texts(code, field, plain, err);
    case FIELD_BLOB:
        r = check_count(code, field, plain, err);
        return r < 0 ? r : check_blob(code, field, plain, err);
    case FIELD_BYTES:
    case FIELD_MESSAGES:
        return check_count(code, field, plain, err);
    case FIELD_BOOL:
    case FIELD_MESSAGE:
        return 0;
    }
    return 0;
}
