/* say.c: what is said besides the answer itself, and which exit code a problem means. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { LINE = 1024 };

int say_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    return EXIT_USAGE;
}

void say_next(const struct cli *cli, const char *label, const char *format, ...)
{
    char command[LINE];
    va_list arguments;
    va_start(arguments, format);
    (void)text_format_list(command, sizeof command, format, arguments);
    va_end(arguments);
    if (!cli->quiet) {
        printf("%-13s %s\n", label, command);
    }
}

/* ---- problems -------------------------------------------------------------------------------- */

static const struct {
    const char *type;
    int code;
} codes[] = {
    {"invalid-request", EXIT_USAGE},     {"invalid-spec", EXIT_USAGE},
    {"too-large", EXIT_USAGE},           {"unauthenticated", EXIT_DENIED},
    {"forbidden", EXIT_DENIED},          {"not-found", EXIT_NO_SUCH},
    {"state-conflict", EXIT_CHANGED},    {"rate-limited", EXIT_UNREACHABLE},
    {"not-enough-spares", EXIT_REFUSED}, {"not-enough-nodes", EXIT_REFUSED},
    {"breaker-open", EXIT_REFUSED},      {"automation-paused", EXIT_REFUSED},
    {"revision-mismatch", EXIT_CHANGED}, {"revision-expired", EXIT_CHANGED},
    {"not-active", EXIT_UNREACHABLE},    {"store-unavailable", EXIT_UNREACHABLE},
};

static void say_error(const json_t *error, const char *file)
{
    char text[LINE];
    const char *path = member(error, "path");
    const char *detail = member(error, "detail");
    const char *hint = member(error, "hint");
    long long line = number(error, "line");
    long long column = number(error, "column");
    if (file != NULL) {
        fprintf(stderr, "%s:", file);
    }
    if (line > 0 && column > 0) {
        fprintf(stderr, "%lld:%lld:", line, column);
    } else if (line > 0) {
        fprintf(stderr, "%lld:", line);
    }
    fprintf(stderr, "%s%s%s%s", file != NULL || line > 0 ? " " : "", path,
            path[0] != '\0' ? ": " : "", harmless(detail, text, sizeof text));
    if (hint[0] != '\0' && strstr(detail, hint) == NULL) {
        fprintf(stderr, "; did you mean \"%s\"?", hint);
    }
    (void)fputc('\n', stderr);
}

/* What an error says when the body is not a problem of ours: a proxy's page, say. */
static void say_status(const struct answer *answer)
{
    char text[LINE];
    const char *detail = member(answer->json, "detail");
    const char *title = member(answer->json, "title");
    if (detail[0] != '\0' || title[0] != '\0') {
        fprintf(stderr, "%s\n", harmless(detail[0] != '\0' ? detail : title, text, sizeof text));
    } else {
        fprintf(stderr, "the answer was HTTP status %ld and no explanation\n", answer->status);
    }
}

int say_problem(const struct answer *answer, const char *file)
{
    char text[LINE];
    size_t index;
    json_t *one;
    const char *hint = member(answer->json, "hint");
    json_array_foreach(json_object_get(answer->json, "errors"), index, one)
    {
        say_error(one, file);
    }
    say_status(answer);
    if (hint[0] != '\0') {
        fprintf(stderr, "  try: %s\n", harmless(hint, text, sizeof text));
    }
    const char *last = strrchr(member(answer->json, "type"), '/');
    for (size_t i = 0; last != NULL && i < ARRAY_SIZE(codes); i++) {
        if (text_equal(last + 1, codes[i].type)) {
            return codes[i].code;
        }
    }
    return EXIT_FAILED;
}

/* ---- machines -------------------------------------------------------------------------------- */

static void print_line(const json_t *json)
{
    (void)json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15)); /* main looks at */
    (void)fputc('\n', stdout);                                              /* stdout's errors */
}

bool say_json(const struct cli *cli, const struct answer *answer)
{
    const json_t *items = json_object_get(answer->json, "items");
    size_t index;
    json_t *one;
    if (cli->output == OUTPUT_JSON) {
        (void)fwrite(answer->body.data, 1, answer->body.size, stdout); /* same */
    } else if (cli->output == OUTPUT_JSONL && !json_is_array(items)) {
        print_line(answer->json);
    } else if (cli->output == OUTPUT_JSONL) {
        json_array_foreach(items, index, one)
        {
            print_line(one);
        }
    }
    return cli->output == OUTPUT_JSON || cli->output == OUTPUT_JSONL;
}
