/* err.c: error texts. Everything is formatted into a local buffer first, so that a text may quote
 * the error that it replaces: err_set(err, -EIO, "again: %s", err->text). */
#include "proto/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"

/* One sentence on one line: a trailing newline of a library's text goes. */
static void trim_newlines(char *text)
{
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r')) {
        size--;
        text[size] = '\0';
    }
}

int err_set(struct err *err, int code, const char *format, ...)
{
    CHECK(code < 0);
    if (err == NULL) {
        return code;
    }
    char text[ERR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments); /* cut is fine: texts are for people */
    va_end(arguments);
    trim_newlines(text);
    err->code = code;
    memcpy(err->text, text, sizeof(text));
    return code;
}

/* Puts prefix and ": " before text, cutting the end. Both have at least ERR_TEXT_SIZE bytes. */
static void prepend(char *text, const char *prefix)
{
    char joined[ERR_TEXT_SIZE];
    size_t used = 0;
    const char *parts[] = {prefix, ": ", text};
    for (size_t part = 0; part < ARRAY_SIZE(parts); part++) {
        size_t size = strlen(parts[part]);
        if (size > sizeof(joined) - 1 - used) {
            size = sizeof(joined) - 1 - used;
        }
        memcpy(joined + used, parts[part], size);
        used += size;
    }
    joined[used] = '\0';
    memcpy(text, joined, used + 1);
}

int err_wrap(struct err *err, const char *format, ...)
{
    if (err == NULL) {
        return -EINVAL; /* the code is unknown here, but a failure must stay a failure */
    }
    CHECK(err->code < 0);
    char prefix[ERR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(prefix, sizeof(prefix), format, arguments);
    va_end(arguments);
    trim_newlines(prefix);
    prepend(err->text, prefix);
    return err->code;
}
