/* fail.c: one sentence and one exit code; nothing here can fail itself. */
#include "agent/trainer/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail_set(struct fail *fail, int exit_code, int code, const char *format, ...)
{
    fail->exit_code = exit_code;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(fail->text, sizeof(fail->text), format,
                    arguments); /* a cut text is still one */
    va_end(arguments);
    return code;
}

const char *fail_errno_text(int code)
{
    const char *text = strerrordesc_np(-code);
    return text != NULL ? text : "unknown error";
}
