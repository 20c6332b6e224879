/* simulate_trace.c: failures that are given, one a line: the day since the start (a fraction is
 * allowed), the node's number, the kind of failure. Lines that begin with # say nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/tools/simulate.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { LINE_SIZE = 256, DAY_MS = 86400000, DIGITS = 6 };

/* "12" or "12.25", exactly: no more than six digits behind the point. */
static int read_day(const char *text, uint64_t *ret_ms)
{
    char whole[16];
    uint64_t day = 0;
    uint64_t part = 0;
    const char *point = strchr(text, '.');
    size_t size = point != NULL ? (size_t)(point - text) : strlen(text);
    if (size >= sizeof(whole)) {
        return -EINVAL;
    }
    memcpy(whole, text, size);
    whole[size] = '\0';
    if (text_to_u64(whole, GOODPUT_DAYS_MAX, &day) < 0) {
        return -EINVAL;
    }
    if (point != NULL) {
        size_t digits = strlen(point + 1);
        if (digits == 0 || digits > DIGITS || text_to_u64(point + 1, 999999, &part) < 0) {
            return -EINVAL;
        }
        for (; digits < DIGITS; digits++) {
            part *= 10;
        }
    }
    *ret_ms = day * DAY_MS + part * DAY_MS / 1000000;
    return 0;
}

static int find_category(const struct goodput_options *options, const char *word,
                         uint32_t *ret_index)
{
    for (uint32_t index = 0; index < options->category_count; index++) {
        const struct goodput_category *category = &options->category[index];
        if (text_equal(category->word, word) && category->how != GOODPUT_PLANNED) {
            *ret_index = index;
            return 0;
        }
    }
    return -EINVAL;
}

static int read_line(char *line, const struct goodput_options *options, uint64_t after_ms,
                     struct goodput_given *ret_given, struct err *err)
{
    char *node_text = strchr(line, ',');
    char *word = node_text != NULL ? strchr(node_text + 1, ',') : NULL;
    uint64_t node = 0;
    if (word == NULL) {
        return err_set(err, -EINVAL, "a line is day,node,kind");
    }
    *node_text++ = '\0';
    *word++ = '\0';
    if (read_day(line, &ret_given->at_ms) < 0) {
        return err_set(err, -EINVAL, "'%.40s' is no day such as 12.5, up to %d", line,
                       GOODPUT_DAYS_MAX);
    }
    if (ret_given->at_ms < after_ms) {
        return err_set(err, -EINVAL, "day %.40s is before the line above it", line);
    }
    if (text_to_u64(node_text, options->nodes - 1, &node) < 0) {
        return err_set(err, -EINVAL, "'%.40s' is no node of 0 to %u", node_text,
                       options->nodes - 1);
    }
    ret_given->node = (uint32_t)node;
    if (find_category(options, word, &ret_given->category) < 0) {
        return err_set(err, -EINVAL, "'%.40s' is no kind of failure of this preset", word);
    }
    return 0;
}

static int read_lines(FILE *file, const char *path, const struct goodput_options *options,
                      struct goodput_given *given, uint32_t *ret_count, struct err *err)
{
    char line[LINE_SIZE];
    uint32_t number = 0;
    uint64_t after_ms = 0;
    *ret_count = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        size_t size = strcspn(line, "\r\n");
        number++;
        if (line[size] == '\0' && !feof(file)) {
            return err_set(err, -EINVAL, "%.80s, line %u: longer than %d bytes", path, number,
                           LINE_SIZE - 2);
        }
        line[size] = '\0';
        if (size == 0 || line[0] == '#') {
            continue;
        }
        if (*ret_count == GOODPUT_TRACE_MAX) {
            return err_set(err, -E2BIG, "%.80s has more than %d failures", path, GOODPUT_TRACE_MAX);
        }
        if (read_line(line, options, after_ms, &given[*ret_count], err) < 0) {
            return err_wrap(err, "%.80s, line %u", path, number);
        }
        after_ms = given[(*ret_count)++].at_ms;
    }
    if (ferror(file)) {
        return err_set(err, -EIO, "--trace %.120s cannot be read: %s", path, strerror(errno));
    }
    return *ret_count > 0 ? 0 : err_set(err, -EINVAL, "%.80s has no failures", path);
}

int simulate_read_trace(const char *path, const struct goodput_options *options,
                        struct goodput_given **ret_given, uint32_t *ret_count, struct err *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return err_set(err, -errno, "--trace %.120s cannot be read: %s", path, strerror(errno));
    }
    struct goodput_given *given = mem_alloc(GOODPUT_TRACE_MAX, sizeof(given[0]));
    int code = read_lines(file, path, options, given, ret_count, err);
    (void)fclose(file);
    if (code < 0) {
        mem_free(given);
        return code;
    }
    *ret_given = given;
    return 0;
}
