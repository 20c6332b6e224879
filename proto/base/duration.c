/* duration.c: times and sizes. Both are sums of (number, unit) with the units growing smaller; a
 * fraction is taken only when it comes out whole, so nothing is ever rounded in silence. */
#include "proto/base/duration.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

enum { FRACTION_DIGITS_MAX = 6 };

static const uint64_t second_ms = 1000;
static const uint64_t minute_ms = 60000;
static const uint64_t hour_ms = 3600000;
static const uint64_t day_ms = 86400000;
static const uint64_t century_ms = 100ull * 36525 / 100 * 86400000;

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: a duration must name its units in this order. */
static const struct unit time_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};

static const struct unit size_units[] = {
    {"PiB", 1ull << 50},      {"TiB", 1ull << 40},   {"GiB", 1ull << 30},
    {"MiB", 1ull << 20},      {"KiB", 1ull << 10},   {"PB", 1000000000000000ull},
    {"TB", 1000000000000ull}, {"GB", 1000000000ull}, {"MB", 1000000ull},
    {"kB", 1000ull},          {"KB", 1000ull},       {"B", 1ull},
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* A number as written: whole + fraction / scale. */
struct number {
    uint64_t whole;
    uint64_t fraction;
    uint64_t scale;
};

/* Reads digits with an optional fraction. -EINVAL: none there; -ERANGE: too many. */
static int read_number(const char **text, struct number *ret_number)
{
    const char *cursor = *text;
    struct number number = {.whole = 0, .fraction = 0, .scale = 1};
    if (!is_digit(*cursor)) {
        return -EINVAL;
    }
    for (; is_digit(*cursor); cursor++) {
        if (__builtin_mul_overflow(number.whole, 10u, &number.whole) ||
            __builtin_add_overflow(number.whole, (uint64_t)(*cursor - '0'), &number.whole)) {
            return -ERANGE;
        }
    }
    if (*cursor == '.') {
        const char *first = ++cursor;
        for (; is_digit(*cursor); cursor++) {
            if (cursor - first >= FRACTION_DIGITS_MAX) {
                return -ERANGE;
            }
            number.fraction = number.fraction * 10 + (uint64_t)(*cursor - '0');
            number.scale *= 10;
        }
        if (cursor == first) {
            return -EINVAL;
        }
    }
    *text = cursor;
    *ret_number = number;
    return 0;
}

/* Index of the unit at *text, which is moved past it; count when it is none of them. */
static size_t read_unit(const char **text, const struct unit *units, size_t count)
{
    size_t length = 0;
    while (is_letter((*text)[length])) {
        length++;
    }
    for (size_t index = 0; index < count; index++) {
        if (length == strlen(units[index].name) && memcmp(*text, units[index].name, length) == 0) {
            *text += length;
            return index;
        }
    }
    return count;
}

/* number * factor, when that is a whole number below 2^64. */
static int scale_number(const struct number *number, uint64_t factor, uint64_t *ret_value)
{
    uint64_t whole = 0;
    if (__builtin_mul_overflow(number->whole, factor, &whole)) {
        return -ERANGE;
    }
    /* fraction < 10^6 and factor <= 2^50: the product stays below 2^70, so divide first. */
    uint64_t rest = number->fraction * (factor % number->scale);
    if (rest % number->scale != 0) {
        return -EINVAL;
    }
    uint64_t part = number->fraction * (factor / number->scale) + rest / number->scale;
    return __builtin_add_overflow(whole, part, ret_value) ? -ERANGE : 0;
}

static int duration_error(struct err *err, int code, const char *text)
{
    if (code == -ERANGE) {
        return err_set(err, code, "'%.64s' is too long a time: at most 100 years", text);
    }
    return err_set(err, code,
                   "'%.64s' is not a duration: write a number and a unit (ms, s, m, h, d), as in "
                   "90s, 10m or 1h30m",
                   text);
}

int duration_parse(const char *text, uint64_t *ret_ms, struct err *err)
{
    if (text_equal(text, "0")) {
        *ret_ms = 0;
        return 0;
    }
    const char *cursor = text;
    uint64_t total_ms = 0;
    size_t next_unit = 0; /* units before it may not follow any more */
    do {
        struct number number;
        int result = read_number(&cursor, &number);
        if (result < 0) {
            return duration_error(err, result, text);
        }
        size_t unit = read_unit(&cursor, time_units, ARRAY_SIZE(time_units));
        if (unit < next_unit || unit == ARRAY_SIZE(time_units)) {
            return duration_error(err, -EINVAL, text);
        }
        next_unit = unit + 1;
        uint64_t part_ms = 0;
        result = scale_number(&number, time_units[unit].factor, &part_ms);
        if (result < 0) {
            return duration_error(err, result, text);
        }
        if (part_ms > century_ms || part_ms > century_ms - total_ms) {
            return duration_error(err, -ERANGE, text);
        }
        total_ms += part_ms;
    } while (*cursor != '\0');
    *ret_ms = total_ms;
    return 0;
}

static int size_error(struct err *err, int code, const char *text)
{
    if (code == -ERANGE) {
        return err_set(err, code, "'%.64s' is too large a size", text);
    }
    return err_set(err, code,
                   "'%.64s' is not a size: write bytes or a unit (KiB, MiB, GiB, TiB, kB, MB, GB), "
                   "as in 64KiB or 1GiB",
                   text);
}

int size_parse(const char *text, uint64_t *ret_bytes, struct err *err)
{
    const char *cursor = text;
    struct number number;
    int result = read_number(&cursor, &number);
    if (result < 0) {
        return size_error(err, result, text);
    }
    uint64_t factor = 1;
    if (*cursor != '\0') {
        size_t unit = read_unit(&cursor, size_units, ARRAY_SIZE(size_units));
        if (unit == ARRAY_SIZE(size_units) || *cursor != '\0') {
            return size_error(err, -EINVAL, text);
        }
        factor = size_units[unit].factor;
    }
    uint64_t bytes = 0;
    result = scale_number(&number, factor, &bytes);
    if (result < 0) {
        return size_error(err, result, text);
    }
    *ret_bytes = bytes;
    return 0;
}

/* "2m28s", "8m03s", "2m": the second unit has two digits and is left out when it is zero. */
static void format_two(char *target, uint64_t ms, uint64_t large_ms, const char *large,
                       uint64_t small_ms, const char *small)
{
    uint64_t first = ms / large_ms;
    uint64_t second = ms % large_ms / small_ms;
    if (second == 0) {
        (void)text_format(target, DURATION_TEXT_SIZE, "%llu%s", (unsigned long long)first, large);
    } else {
        (void)text_format(target, DURATION_TEXT_SIZE, "%llu%s%02llu%s", (unsigned long long)first,
                          large, (unsigned long long)second, small);
    }
}

void duration_format(uint64_t ms, char target[DURATION_TEXT_SIZE])
{
    if (ms >= day_ms) {
        format_two(target, ms, day_ms, "d", hour_ms, "h");
    } else if (ms >= hour_ms) {
        format_two(target, ms, hour_ms, "h", minute_ms, "m");
    } else if (ms >= minute_ms) {
        format_two(target, ms, minute_ms, "m", second_ms, "s");
    } else if (ms >= second_ms && ms % second_ms / 100 > 0) {
        (void)text_format(target, DURATION_TEXT_SIZE, "%u.%us", (unsigned)(ms / second_ms),
                          (unsigned)(ms % second_ms / 100));
    } else if (ms >= second_ms || ms == 0) {
        (void)text_format(target, DURATION_TEXT_SIZE, "%us", (unsigned)(ms / second_ms));
    } else {
        (void)text_format(target, DURATION_TEXT_SIZE, "%ums", (unsigned)ms);
    }
}

struct date {
    uint64_t year;
    unsigned month;
    unsigned day;
};

/* Days since 1970 to a date. Years are counted from 1 March of year 0, so that the leap day is
 * the last of its year; 400 years ("an era") have 146097 days. */
static struct date date_of_days(uint64_t days)
{
    uint64_t shifted = days + 719468; /* from 0000-03-01 to 1970-01-01 */
    uint64_t era = shifted / 146097;
    uint64_t day_of_era = shifted % 146097;
    uint64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t month = (5 * day_of_year + 2) / 153; /* 0 = March */
    struct date date;
    date.day = (unsigned)(day_of_year - (153 * month + 2) / 5 + 1);
    date.month = (unsigned)(month < 10 ? month + 3 : month - 9);
    date.year = era * 400 + year_of_era + (date.month <= 2);
    return date;
}

void time_format(uint64_t wall_ms, char target[TIME_TEXT_SIZE])
{
    struct date date = date_of_days(wall_ms / day_ms);
    unsigned ms = (unsigned)(wall_ms % day_ms);
    (void)text_format(target, TIME_TEXT_SIZE, "%04llu-%02u-%02uT%02u:%02u:%02u.%03uZ",
                      (unsigned long long)date.year, date.month, date.day, ms / (unsigned)hour_ms,
                      ms / (unsigned)minute_ms % 60, ms / (unsigned)second_ms % 60,
                      ms % (unsigned)second_ms);
}
