/* err.c: error texts. Everything is formatted into a local buffer first, so that a text may quote
 * the error that it replaces: err_set(err, -EIO, "again: %s", err->text). */
#include "proto/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

static void say(char text[ERR_TEXT_SIZE], const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* One sentence on one line: a trailing newline of a library's text goes. A cut one will do. */
static void say(char text[ERR_TEXT_SIZE], const char *format, va_list arguments)
{
    (void)text_format_list(text, ERR_TEXT_SIZE, format, arguments);
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r')) {
        size--;
        text[size] = '\0';
    }
    text_mend(text);
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
    say(text, format, arguments);
    va_end(arguments);
    err->code = code;
    memcpy(err->text, text, sizeof(text));
    return code;
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
    say(prefix, format, arguments);
    va_end(arguments);
    char joined[ERR_TEXT_SIZE];
    (void)text_sentence(joined, sizeof(joined), "%s: %s", prefix, err->text); /* the end is cut */
    memcpy(err->text, joined, sizeof(joined));
    return err->code;
}
