/* cli_help.c: see cli_help.h. */
#include "tests/unit/cli/cli_help.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

/* Standard output or error into a file while `call` runs. */
static const char *captured(FILE *stream, int fd, void (*call)(void *context), void *context)
{
    static char text[65536];
    FILE *file = tmpfile();
    assert_non_null(file);
    (void)fflush(stream);
    int kept = dup(fd);
    assert_true(kept >= 0);
    assert_true(dup2(fileno(file), fd) >= 0);
    call(context);
    (void)fflush(stream);
    assert_true(dup2(kept, fd) >= 0);
    (void)close(kept);
    rewind(file);
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    text[size] = '\0';
    (void)fclose(file);
    return text;
}

const char *stdout_of(void (*call)(void *context), void *context)
{
    return captured(stdout, STDOUT_FILENO, call, context);
}

const char *stderr_of(void (*call)(void *context), void *context)
{
    return captured(stderr, STDERR_FILENO, call, context);
}

json_t *json_of(const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    return json;
}
