/* hostlist.c: folded sets of node names.
 *
 *   list    = element *( "," element )          an empty text is the empty list
 *   element = prefix [ "[" range *( "," range ) "]" suffix ]
 *   range   = digits [ "-" digits ]
 *
 * A number prints with at least as many digits as the first one of its range, so "[08-11]" keeps
 * its zero. One bracket an element. Every name that comes out must be a name (text_is_name). The
 * text is walked twice: once to check and once to visit, so that a fault visits nobody. */
#include "proto/base/hostlist.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum { DIGITS_MAX = 18 }; /* always fits 64 bits */

struct walk {
    const char *text;
    const char *cursor;
    size_t count;          /* names so far */
    hostlist_visit *visit; /* NULL while checking */
    void *context;
    struct err *err;
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static int fault(const struct walk *walk, const char *what)
{
    return err_set(walk->err, -EINVAL, "host list '%.64s', character %zu: %s", walk->text,
                   (size_t)(walk->cursor - walk->text) + 1, what);
}

static int emit(struct walk *walk, const char *name)
{
    if (!text_is_name(name, HOSTLIST_NAME_SIZE)) {
        return fault(walk, "a name has letters, digits, '.', '_' and '-', begins with a letter or "
                           "digit, and is under 64 characters long");
    }
    if (walk->count == HOSTLIST_NAMES_MAX) {
        return fault(walk, "more than 131072 names");
    }
    walk->count++;
    return walk->visit != NULL ? walk->visit(name, walk->context) : 0;
}

/* One piece of text between separators. */
struct part {
    const char *text;
    size_t size;
};

static int emit_joined(struct walk *walk, struct part prefix, struct part digits,
                       struct part suffix)
{
    char name[3 * HOSTLIST_NAME_SIZE];
    const struct part parts[] = {prefix, digits, suffix};
    size_t used = 0;
    for (size_t index = 0; index < ARRAY_SIZE(parts); index++) {
        if (parts[index].size >= HOSTLIST_NAME_SIZE) {
            return fault(walk, "a name has under 64 characters");
        }
        memcpy(name + used, parts[index].text, parts[index].size);
        used += parts[index].size;
    }
    name[used] = '\0';
    return emit(walk, name);
}

/* Moves over digits; their value and how many there are. */
static int read_digits(struct walk *walk, uint64_t *ret_value, size_t *ret_width)
{
    size_t width = 0;
    uint64_t value = 0;
    for (; is_digit(*walk->cursor); walk->cursor++) {
        if (width == DIGITS_MAX) {
            return fault(walk, "a number has at most 18 digits");
        }
        value = value * 10 + (uint64_t)(*walk->cursor - '0');
        width++;
    }
    if (width == 0) {
        return fault(walk, "a number is missing");
    }
    *ret_value = value;
    *ret_width = width;
    return 0;
}

static int walk_range(struct walk *walk, struct part prefix, struct part suffix)
{
    uint64_t low = 0;
    size_t width = 0;
    int result = read_digits(walk, &low, &width);
    if (result != 0) {
        return result;
    }
    uint64_t high = low;
    if (*walk->cursor == '-') {
        size_t high_width = 0;
        walk->cursor++;
        result = read_digits(walk, &high, &high_width);
        if (result != 0) {
            return result;
        }
        if (high < low || high_width < width) {
            return fault(walk, "a range ends before it begins");
        }
    }
    if (high - low >= HOSTLIST_NAMES_MAX) {
        return fault(walk, "more than 131072 names");
    }
    for (uint64_t number = low; number <= high && result == 0; number++) {
        char digits[DIGITS_MAX + 2];
        (void)text_format(digits, sizeof(digits), "%0*llu", (int)width, (unsigned long long)number);
        result = emit_joined(walk, prefix, (struct part){digits, strlen(digits)}, suffix);
    }
    return result;
}

/* The part up to a separator, which is not moved over. */
static struct part read_part(struct walk *walk)
{
    const char *first = walk->cursor;
    while (*walk->cursor != '\0' && *walk->cursor != ',' && *walk->cursor != '[' &&
           *walk->cursor != ']') {
        walk->cursor++;
    }
    return (struct part){first, (size_t)(walk->cursor - first)};
}

/* What follows the bracket that is open at walk->cursor; the cursor stays where it is. */
static int find_suffix(struct walk *walk, struct part *ret_suffix, const char **ret_end)
{
    const char *open = walk->cursor;
    while (*walk->cursor != '\0' && *walk->cursor != ']') {
        walk->cursor++;
    }
    if (*walk->cursor == '\0') {
        return fault(walk, "']' is missing");
    }
    walk->cursor++;
    struct part suffix = read_part(walk);
    if (*walk->cursor == '[' || *walk->cursor == ']') {
        return fault(walk, "only one pair of brackets in a name");
    }
    *ret_suffix = suffix;
    *ret_end = walk->cursor;
    walk->cursor = open;
    return 0;
}

static int walk_brackets(struct walk *walk, struct part prefix)
{
    struct part suffix;
    const char *end = NULL;
    int result = find_suffix(walk, &suffix, &end);
    if (result != 0) {
        return result;
    }
    do {
        walk->cursor++; /* over '[' or ',' */
        result = walk_range(walk, prefix, suffix);
    } while (result == 0 && *walk->cursor == ',');
    if (result != 0) {
        return result;
    }
    if (*walk->cursor != ']') {
        return fault(walk, "',' or ']' expected after a number");
    }
    walk->cursor = end;
    return 0;
}

static int walk_element(struct walk *walk)
{
    struct part prefix = read_part(walk);
    switch (*walk->cursor) {
    case '[':
        return walk_brackets(walk, prefix);
    case ']':
        return fault(walk, "']' without '['");
    default:
        if (prefix.size == 0) {
            return fault(walk, "a name is missing");
        }
        return emit_joined(walk, prefix, (struct part){"", 0}, (struct part){"", 0});
    }
}

static int walk_all(struct walk *walk)
{
    walk->cursor = walk->text;
    walk->count = 0;
    if (walk->text[0] == '\0') {
        return 0;
    }
    int result = walk_element(walk);
    while (result == 0 && *walk->cursor == ',') {
        walk->cursor++;
        result = walk_element(walk);
    }
    return result;
}

int hostlist_each(const char *text, hostlist_visit *visit, void *context, struct err *err)
{
    CHECK(visit != NULL);
    struct walk walk = {.text = text, .context = context, .err = err};
    int result = walk_all(&walk);
    if (result != 0) {
        return result;
    }
    walk.visit = visit;
    return walk_all(&walk);
}

/* ---- folding ----------------------------------------------------------------------------- */

/* A name around its last run of digits. Without digits all of it is prefix. */
struct split {
    struct part prefix;
    struct part digits;
    struct part suffix;
};

static struct split split_name(const char *name)
{
    size_t size = strlen(name);
    size_t end = size;
    while (end > 0 && !is_digit(name[end - 1])) {
        end--;
    }
    size_t first = end;
    while (first > 0 && is_digit(name[first - 1])) {
        first--;
    }
    if (first == end || end - first > DIGITS_MAX) {
        return (struct split){.prefix = {name, size}, .digits = {"", 0}, .suffix = {"", 0}};
    }
    return (struct split){.prefix = {name, first},
                          .digits = {name + first, end - first},
                          .suffix = {name + end, size - end}};
}

static int order_parts(struct part a, struct part b)
{
    return text_order_parts(a.text, a.size, b.text, b.size);
}

/* Total: names that agree in all three parts are the same text, unless one has no digits, and
 * then their prefixes differ. */
static int order_names(const void *a, const void *b, const void *context)
{
    (void)context;
    const char *const *left = a;
    const char *const *right = b;
    struct split left_split = split_name(*left);
    struct split right_split = split_name(*right);
    int order = order_parts(left_split.prefix, right_split.prefix);
    if (order == 0) {
        order = order_parts(left_split.suffix, right_split.suffix);
    }
    return order != 0 ? order : order_parts(left_split.digits, right_split.digits);
}

static bool same_part(struct part a, struct part b)
{
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

/* true when both may stand in one pair of brackets */
static bool same_group(const struct split *a, const struct split *b)
{
    return a->digits.size > 0 && b->digits.size > 0 && same_part(a->prefix, b->prefix) &&
           same_part(a->suffix, b->suffix);
}

static uint64_t digits_value(struct part digits)
{
    uint64_t value = 0;
    for (size_t index = 0; index < digits.size; index++) {
        value = value * 10 + (uint64_t)(digits.text[index] - '0');
    }
    return value;
}

/* true when next is what a range that began with `width` digits prints after `last` */
static bool follows(struct part last, struct part next, size_t width)
{
    char expected[DIGITS_MAX + 2];
    (void)text_format(expected, sizeof(expected), "%0*llu", (int)width,
                      (unsigned long long)digits_value(last) + 1);
    return same_part(next, (struct part){expected, strlen(expected)});
}

struct writer {
    char *target;
    size_t size;
    size_t length; /* of the whole text, written or not */
};

static void write_part(struct writer *writer, struct part part)
{
    for (size_t index = 0; index < part.size; index++) {
        if (writer->length + 1 < writer->size) {
            writer->target[writer->length] = part.text[index];
        }
        writer->length++;
    }
}

static void write_text(struct writer *writer, const char *text)
{
    write_part(writer, (struct part){text, strlen(text)});
}

static void finish(struct writer *writer)
{
    if (writer->size == 0) {
        return;
    }
    bool cut = writer->length >= writer->size;
    size_t end = cut ? writer->size - 1 : writer->length;
    writer->target[end] = '\0';
    for (size_t dot = 0; cut && dot < 3 && dot < end; dot++) {
        writer->target[end - 1 - dot] = '.';
    }
}

/* Writes the ranges of names[0..count), which are of one group, sorted and without duplicates. */
static void write_ranges(struct writer *writer, const char **names, size_t count)
{
    size_t first = 0;
    while (first < count) {
        struct part low = split_name(names[first]).digits;
        struct part high = low;
        size_t next = first + 1;
        while (next < count && follows(high, split_name(names[next]).digits, low.size)) {
            high = split_name(names[next]).digits;
            next++;
        }
        write_text(writer, first > 0 ? "," : "");
        write_part(writer, low);
        if (next - first > 1) {
            write_text(writer, "-");
            write_part(writer, high);
        }
        first = next;
    }
}

static size_t drop_duplicates(const char **names, size_t count)
{
    size_t kept = 0;
    for (size_t index = 0; index < count; index++) {
        if (kept == 0 || !text_equal(names[kept - 1], names[index])) {
            names[kept] = names[index];
            kept++;
        }
    }
    return kept;
}

size_t hostlist_fold(const char **names, size_t count, char *target, size_t size)
{
    CHECK(names != NULL || count == 0);
    sort_any(names, count, sizeof(names[0]), order_names, NULL);
    count = drop_duplicates(names, count);
    struct writer writer = {.target = target, .size = size};
    size_t first = 0;
    while (first < count) {
        struct split group = split_name(names[first]);
        size_t next = first + 1;
        for (; next < count; next++) {
            struct split other = split_name(names[next]);
            if (!same_group(&group, &other)) {
                break;
            }
        }
        write_text(&writer, first > 0 ? "," : "");
        if (next - first == 1) {
            write_text(&writer, names[first]);
        } else {
            write_part(&writer, group.prefix);
            write_text(&writer, "[");
            write_ranges(&writer, names + first, next - first);
            write_text(&writer, "]");
            write_part(&writer, group.suffix);
        }
        first = next;
    }
    finish(&writer);
    return writer.length;
}
