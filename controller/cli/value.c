/* value.c: members of answers as text for people. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/cli/cli.h"
#include "proto/base/duration.h"
#include "proto/base/text.h"

const char *member(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

long long number(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

bool truth(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

void count_format(uint64_t value, char *target, size_t size)
{
    char digits[24];
    text_format(digits, sizeof digits, "%llu", (unsigned long long)value);
    size_t length = strlen(digits);
    size_t at = 0;
    for (size_t i = 0; i < length && at + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            target[at++] = ',';
        }
        target[at++] = digits[i];
    }
    target[at] = '\0';
}

const char *plural(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

const char *harmless(const char *text, char *target, size_t size)
{
    text_copy(target, size, text);
    for (char *c = target; *c != '\0'; c++) {
        unsigned char byte = (unsigned char)*c;
        *c = byte < 0x20 || byte == 0x7f ? ' ' : *c;
    }
    return target;
}

const char *text_of(const json_t *object, const char *key, char *target, size_t size)
{
    const json_t *value = json_object_get(object, key);
    text_copy(target, size, "-");
    if (json_is_string(value) && json_string_length(value) > 0) {
        (void)harmless(json_string_value(value), target, size);
    } else if (json_is_integer(value)) {
        text_format(target, size, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        text_format(target, size, "%.3f", json_real_value(value));
    } else if (json_is_boolean(value)) {
        text_copy(target, size, json_is_true(value) ? "yes" : "no");
    }
    return target;
}

/* "2026-11-29T17:29:01.250Z" -> "2m28s", how long ago. */
const char *ago_of(const json_t *object, const char *key, char *target, size_t size)
{
    struct tm parts = {0};
    struct timespec now;
    char duration[DURATION_TEXT_SIZE];
    if (strptime(member(object, key), "%Y-%m-%dT%H:%M:%S", &parts) == NULL) {
        text_copy(target, size, "-");
        return target;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    int64_t seconds = (int64_t)now.tv_sec - (int64_t)timegm(&parts);
    duration_format(seconds > 0 ? (uint64_t)seconds * 1000 : 0, duration);
    text_copy(target, size, duration);
    return target;
}

const char *seconds_of(const json_t *object, const char *key, char *target, size_t size)
{
    double seconds = json_number_value(json_object_get(object, key));
    target[0] = '\0';
    if (seconds >= 60) {
        char duration[DURATION_TEXT_SIZE];
        duration_format((uint64_t)(seconds * 1000), duration);
        text_copy(target, size, duration);
    } else if (seconds >= 1) {
        text_format(target, size, "%.1f s", seconds);
    } else if (seconds > 0) {
        text_format(target, size, "%.0f ms", seconds * 1000);
    }
    return target;
}

void nodes_format(const char *folded, uint64_t count, char *target, size_t size)
{
    char counted[32];
    if (count == 1) {
        text_copy(target, size, folded);
    } else {
        count_format(count, counted, sizeof counted);
        text_format(target, size, "%s nodes (%s)", counted, folded);
    }
}
