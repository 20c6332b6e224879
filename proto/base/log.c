/* log.c: one line an event, written with one write(2), so that lines of several threads and
 * processes on one descriptor do not mix. What does not fit is cut, value by value, so that a line
 * of JSON stays valid JSON. The static variables are set by log_init before any thread starts. */
#include "proto/base/log.h"

#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/base/duration.h"
#include "proto/base/text.h"

enum { LINE_SIZE = 8192, VALUE_SIZE_MAX = 1024, LINE_END_SIZE = 8 };

static const char *log_program = "keepstep";
static enum log_level log_level_min = LOG_INFO;
static bool log_json = true;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *program, enum log_level level)
{
    log_program = program;
    log_level_min = level;
    log_json = isatty(STDERR_FILENO) == 0;
}

void log_format_json(bool json)
{
    log_json = json;
}

static char upper(char byte)
{
    return byte >= 'a' && byte <= 'z' ? (char)(byte - 'a' + 'A') : byte;
}

static bool starts_with_word(const char *text, const char *word)
{
    size_t index = 0;
    while (word[index] != '\0' && upper(text[index]) == word[index]) {
        index++;
    }
    return word[index] == '\0';
}

bool log_is_secret(const char *key)
{
    static const char *const words[] = {"KEY", "TOKEN", "SECRET", "PASSWORD"};
    for (; *key != '\0'; key++) {
        for (size_t index = 0; index < ARRAY_SIZE(words); index++) {
            if (starts_with_word(key, words[index])) {
                return true;
            }
        }
    }
    return false;
}

struct line {
    char text[LINE_SIZE];
    size_t size;
};

static void line_put(struct line *line, const char *text, size_t size)
{
    if (size <= LINE_SIZE - line->size) {
        memcpy(line->text + line->size, text, size);
        line->size += size;
    }
}

static void line_text(struct line *line, const char *text)
{
    line_put(line, text, strlen(text));
}

/* One byte of a value as JSON writes it; hostile bytes never reach a terminal as they are. */
static void line_byte(struct line *line, char byte, bool plain, bool quoted)
{
    char escape[8];
    if (quoted && (byte == '"' || byte == '\\')) {
        (void)text_format(escape, sizeof(escape), "\\%c", byte);
        line_text(line, escape);
    } else if (byte == '\n') {
        line_text(line, "\\n");
    } else if ((uint8_t)byte < 0x20 || byte == 0x7f || (!plain && (uint8_t)byte >= 0x80)) {
        (void)text_format(escape, sizeof(escape), "\\u%04x", (unsigned)(uint8_t)byte);
        line_text(line, escape);
    } else {
        line_put(line, &byte, 1);
    }
}

/* How many bytes from here on are shown as they are, whatever the value is: most of them. */
static size_t harmless(const char *text)
{
    size_t size = 0;
    while (text[size] >= 0x20 && text[size] < 0x7f && text[size] != '"' && text[size] != '\\') {
        size++;
    }
    return size;
}

/* A value, cut at VALUE_SIZE_MAX bytes. Values come from anywhere: if one is not UTF-8, all its
 * bytes above ASCII are shown as escapes. */
static void line_value(struct line *line, const char *value, bool quoted)
{
    char cut[VALUE_SIZE_MAX + 1];
    bool whole = text_copy(cut, sizeof(cut), value);
    bool plain = text_is_utf8(cut, strlen(cut));
    line_text(line, quoted ? "\"" : "");
    for (const char *byte = cut; *byte != '\0';) {
        size_t run = harmless(byte);
        line_put(line, byte, run);
        byte += run;
        if (*byte != '\0') {
            line_byte(line, *byte, plain, quoted);
            byte++;
        }
    }
    line_text(line, whole ? "" : "...");
    line_text(line, quoted ? "\"" : "");
}

static void line_quoted(struct line *line, const char *value)
{
    line_value(line, value, true);
}

static void line_pair_json(struct line *line, const char *key, const char *value)
{
    line_text(line, line->size > 1 ? "," : "");
    line_quoted(line, key);
    line_text(line, ":");
    line_quoted(line, value);
}

static void line_pair_text(struct line *line, const char *key, const char *value)
{
    line_text(line, " ");
    line_text(line, key);
    line_text(line, "=");
    line_quoted(line, value);
}

static void line_head(struct line *line, enum log_level level, const char *event,
                      const char *message)
{
    struct timespec now;
    char stamp[TIME_TEXT_SIZE];
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    time_format((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, stamp);
    if (log_json) {
        line_text(line, "{");
        line_pair_json(line, "time", stamp);
        line_pair_json(line, "level", level_names[level]);
        line_pair_json(line, "program", log_program);
        line_pair_json(line, "event", event);
        line_pair_json(line, "message", message);
    } else {
        char head[64];
        (void)text_format(head, sizeof(head), "%s %-5s ", stamp, level_names[level]);
        line_text(line, head);
        line_value(line, message, false);
        line_pair_text(line, "event", event);
    }
}

void log_line(enum log_level level, const char *event, const char *message, ...)
{
    if (level < log_level_min) {
        return;
    }
    struct line line;
    line.size = 0;
    line_head(&line, level, event, message);
    va_list pairs;
    va_start(pairs, message);
    for (;;) {
        const char *key = va_arg(pairs, const char *);
        if (key == NULL) {
            break;
        }
        const char *value = va_arg(pairs, const char *);
        value = value == NULL ? "" : log_is_secret(key) ? "***" : value;
        /* Whole pairs only: an escaped value grows to six times its size at most. */
        size_t worst = strlen(key) + 6 * (strnlen(value, VALUE_SIZE_MAX) + 1) + LINE_END_SIZE;
        if (worst > LINE_SIZE - LINE_END_SIZE - line.size) {
            break;
        }
        if (log_json) {
            line_pair_json(&line, key, value);
        } else {
            line_pair_text(&line, key, value);
        }
    }
    va_end(pairs);
    line_text(&line, log_json ? "}\n" : "\n");
    (void)!write(STDERR_FILENO, line.text, line.size); /* nobody is left to tell */
}

/* ---- the end ----------------------------------------------------------------------------- */

/* abort() calls it in the thread that gave up, and ends the process when it returns. */
static void abort_cb(int number)
{
    (void)number;
    log_line(LOG_ERROR, "aborted",
             "we or a library gave up, see above if there is more; what was decided is recorded",
             NULL);
}

void log_last_words(void)
{
    const struct sigaction action = {.sa_handler = abort_cb, .sa_flags = (int)SA_RESETHAND};
    int rc = sigaction(SIGABRT, &action, NULL);
    CHECK(rc == 0); /* a signal that may be caught */
}
