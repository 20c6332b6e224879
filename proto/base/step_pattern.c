/* step_pattern.c: translated into what regcomp() knows, character by character, and refused where
 * the two would not mean the same. regcomp() itself must not be given just anything: it writes
 * counted repeats out, and what stands before a + twice, so that each + around another one doubles
 * all that is within. Both are counted here before it is asked. */
#include "proto/base/step_pattern.h"

#include <assert.h>
#include <errno.h>
#include <regex.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    TRANSLATED_SIZE = 1024, /* "\w" makes 12 bytes of 2 */
    DEPTH_MAX = 16,
    NUMBER_SIZE = 32,
    WRITTEN_MAX = 1024, /* characters, once repeats are written out */
};
static_assert(TRANSLATED_SIZE > STEP_PATTERN_SIZE / 2 * 13, "every pattern fits");

struct step_pattern {
    regex_t regex;
    size_t group;
};

/* What a repeat would repeat. */
enum operand { NOTHING, CHARACTER, GROUP, THE_GROUP, REPEAT, BEYOND_ASCII };

struct translation {
    const char *at;
    char text[TRANSLATED_SIZE];
    size_t size;
    enum operand last;
    uint32_t repeats;
    uint32_t groups;      /* of both kinds, as regcomp() will count them */
    uint32_t group;       /* the one that holds the step; 0: none yet */
    uint32_t depth;       /* groups that are open */
    bool held[DEPTH_MAX]; /* … that one is this group, or lies in it */
    /* Characters as they will be written out: of all that came so far, of it when each open group
     * began, and of what a repeat would repeat. */
    uint32_t written;
    uint32_t begun[DEPTH_MAX];
    uint32_t operand;
    struct err *err;
};

static void put(struct translation *to, const char *text)
{
    const size_t size = strlen(text);
    CHECK(to->size + size < TRANSLATED_SIZE);
    memcpy(to->text + to->size, text, size + 1);
    to->size += size;
}

static void put_byte(struct translation *to, char byte)
{
    const char text[2] = {byte, '\0'};
    put(to, text);
}

static void one_character(struct translation *to)
{
    to->written++;
    to->operand = 1;
    to->last = CHARACTER;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static const char *class_of(char letter)
{
    switch (letter) {
    case 'd':
        return "[0-9]";
    case 's':
        return "[[:space:]]";
    case 'w':
        return "[[:alnum:]_]";
    case 'D':
        return "[^0-9]";
    case 'S':
        return "[^[:space:]]";
    case 'W':
        return "[^[:alnum:]_]";
    case 't':
        return "\t";
    default:
        return NULL;
    }
}

static int escape(struct translation *to)
{
    const char byte = to->at[1];
    const char *known = class_of(byte);
    if (byte == '\0') {
        return err_set(to->err, -EINVAL, "ends in a backslash");
    }
    if (is_digit(byte)) {
        return err_set(to->err, -EINVAL, "\\%c: there are no back references", byte);
    }
    if (is_letter(byte) && known == NULL) {
        return err_set(to->err, -EINVAL,
                       "\\%c is not known; \\d, \\s, \\w, \\D, \\S, \\W and \\t are", byte);
    }
    if ((unsigned char)byte <= ' ' || (unsigned char)byte >= 0x7f) {
        return err_set(to->err, -EINVAL, "a backslash stands before nothing that needs it");
    }
    if (known != NULL) {
        put(to, known);
    } else {
        if (strchr(".[()*+?{|^$\\", byte) != NULL) {
            put_byte(to, '\\');
        }
        put_byte(to, byte);
    }
    to->at += 2;
    one_character(to);
    return 0;
}

/* "[:alpha:]" within a bracket, or one of our own classes. */
static int bracket_class(struct translation *to)
{
    static const char *const ours[][2] = {
        {"\\d", "0-9"}, {"\\s", "[:space:]"}, {"\\w", "[:alnum:]_"}};
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
        if (strncmp(to->at, ours[i][0], 2) == 0) {
            put(to, ours[i][1]);
            to->at += 2;
            return 0;
        }
    }
    if (*to->at == '\\') {
        return err_set(to->err, -EINVAL, "in [ ] a backslash is for \\d, \\s and \\w alone");
    }
    const char *end = to->at[1] == ':' ? strstr(to->at + 2, ":]") : NULL;
    if (end == NULL) {
        return err_set(to->err, -EINVAL, "[%c in [ ]: of these only [:name:] is known", to->at[1]);
    }
    while (to->at < end + 2) {
        put_byte(to, *to->at++);
    }
    return 0;
}

static int bracket(struct translation *to)
{
    put_byte(to, *to->at++);
    if (*to->at == '^') {
        put_byte(to, *to->at++);
    }
    for (bool first = true; *to->at != ']' || first; first = false) {
        if (*to->at == '\0') {
            return err_set(to->err, -EINVAL, "a [ is not closed");
        }
        if ((unsigned char)*to->at >= 0x80) {
            return err_set(to->err, -EINVAL, "in [ ] there are only characters of ASCII");
        }
        const bool named = *to->at == '[' && to->at[1] != '\0' && strchr(":.=", to->at[1]) != NULL;
        if (*to->at == '\\' || named) {
            const int r = bracket_class(to);
            if (r != 0) {
                return r;
            }
        } else {
            put_byte(to, *to->at++);
        }
    }
    put_byte(to, *to->at++);
    one_character(to);
    return 0;
}

static int open_group(struct translation *to)
{
    const bool plain = to->at[1] != '?';
    if (!plain && to->at[2] != ':') {
        return err_set(to->err, -EINVAL, "(?%.1s: of the (?…) only (?:…) is known", to->at + 2);
    }
    if (to->depth == DEPTH_MAX) {
        return err_set(to->err, -EINVAL, "more than %d groups in each other", DEPTH_MAX);
    }
    to->groups++;
    to->begun[to->depth] = to->written;
    to->held[to->depth++] = plain;
    if (plain && to->group != 0) {
        return err_set(to->err, -EINVAL,
                       "has two groups, and one holds the step: write the other one (?:…)");
    }
    to->group = plain ? to->groups : to->group;
    put_byte(to, '(');
    to->at += plain ? 1 : 3;
    to->last = NOTHING;
    return 0;
}

static int close_group(struct translation *to)
{
    if (to->depth == 0) {
        return err_set(to->err, -EINVAL, "a ) closes nothing; write \\)");
    }
    const bool held = to->held[--to->depth];
    if (held && to->depth > 0) {
        to->held[to->depth - 1] = true;
    }
    put_byte(to, *to->at++);
    to->written++;
    to->operand = to->written - to->begun[to->depth];
    to->last = held ? THE_GROUP : GROUP;
    return 0;
}

static int may_repeat(struct translation *to)
{
    switch (to->last) {
    case NOTHING:
        return err_set(to->err, -EINVAL,
                       "%c stands behind nothing that it could repeat; write \\%c", *to->at,
                       *to->at);
    case REPEAT:
        return err_set(to->err, -EINVAL,
                       "%c behind a repeat: there are no lazy repeats and no repeats of repeats",
                       *to->at);
    case THE_GROUP:
        return err_set(to->err, -EINVAL,
                       "the group that holds the step is repeated: %c goes into it", *to->at);
    case BEYOND_ASCII:
        return err_set(to->err, -EINVAL, "%c behind a letter beyond ASCII: put that into (?:…)",
                       *to->at);
    case CHARACTER:
    case GROUP:
        break;
    }
    return 0;
}

/* What a repeat repeats is written so many times more. Neither factor is over a few thousand. */
static int write_out(struct translation *to, uint32_t more)
{
    to->written += more * to->operand;
    if (to->written > WRITTEN_MAX) {
        return err_set(to->err, -EINVAL,
                       "its repeats come to more than %d characters: a + around another one "
                       "doubles it; write * there, or fewer groups",
                       WRITTEN_MAX);
    }
    return 0;
}

static uint32_t count_at(const char **at)
{
    uint32_t count = 0;
    while (is_digit(**at)) {
        count = count > STEP_REPEATS_MAX ? count : 10 * count + (uint32_t)(**at - '0');
        (*at)++;
    }
    return count;
}

/* {n}, {n,}, {n,m} behind a character. */
static int counted_repeat(struct translation *to)
{
    const char *at = to->at + 1;
    const bool digits = is_digit(*at);
    const uint32_t least = count_at(&at);
    uint32_t most = least;
    if (*at == ',') {
        at++;
        most = is_digit(*at) ? count_at(&at) : least + 1;
    }
    if (!digits || *at != '}' || most < least) {
        return err_set(to->err, -EINVAL, "a { is not {n}, {n,} or {n,m}; write \\{");
    }
    if (to->last == GROUP) {
        return err_set(to->err, -EINVAL, "{n} behind a group: only * + and ? can stand there");
    }
    to->repeats += most;
    if (to->repeats > STEP_REPEATS_MAX) {
        return err_set(to->err, -EINVAL, "the counts in { } come to more than %d",
                       STEP_REPEATS_MAX);
    }
    while (to->at <= at) {
        put_byte(to, *to->at++);
    }
    to->last = REPEAT;
    return write_out(to, most);
}

static int repeat(struct translation *to)
{
    int r = may_repeat(to);
    if (r == 0 && *to->at == '{') {
        return counted_repeat(to);
    }
    if (r == 0) {
        const bool twice = *to->at == '+';
        put_byte(to, *to->at++);
        to->last = REPEAT;
        r = write_out(to, twice ? 1 : 0);
    }
    return r;
}

static int plain(struct translation *to)
{
    const char byte = *to->at;
    if (((unsigned char)byte < ' ' && byte != '\t') || byte == 0x7f) {
        return err_set(to->err, -EINVAL, "a control character stands in it");
    }
    const bool beyond = (unsigned char)byte >= 0x80;
    const bool anchor = byte == '^' || byte == '$' || byte == '|';
    one_character(to);
    to->last = anchor ? NOTHING : beyond ? BEYOND_ASCII : CHARACTER;
    put_byte(to, byte);
    to->at++;
    return 0;
}

static int translate(struct translation *to)
{
    int r = 0;
    while (r == 0 && *to->at != '\0') {
        switch (*to->at) {
        case '\\':
            r = escape(to);
            break;
        case '[':
            r = bracket(to);
            break;
        case '(':
            r = open_group(to);
            break;
        case ')':
            r = close_group(to);
            break;
        case '*':
        case '+':
        case '?':
        case '{':
            r = repeat(to);
            break;
        default:
            r = plain(to);
            break;
        }
    }
    if (r == 0 && to->depth > 0) {
        return err_set(to->err, -EINVAL, "a ( is not closed; write \\(");
    }
    if (r == 0 && to->group == 0) {
        return err_set(to->err, -EINVAL,
                       "has no group that holds the step: step (\\d+), for example");
    }
    return r;
}

int step_pattern_compile(const char *text, struct step_pattern **ret_pattern, struct err *err)
{
    struct translation to = {.at = text, .err = err};
    if (strlen(text) >= STEP_PATTERN_SIZE) {
        return err_set(err, -EINVAL, "at most %d bytes", STEP_PATTERN_SIZE - 1);
    }
    const int r = translate(&to);
    if (r != 0) {
        return r;
    }
    struct step_pattern *pattern = mem_alloc(1, sizeof(*pattern));
    const int code = regcomp(&pattern->regex, to.text, REG_EXTENDED);
    if (code != 0) {
        char reason[128];
        (void)regerror(code, &pattern->regex, reason, sizeof reason);
        mem_free(pattern);
        return err_set(err, code == REG_ESPACE ? -ENOMEM : -EINVAL, "%s", reason);
    }
    pattern->group = to.group;
    *ret_pattern = pattern;
    return 0;
}

struct step_pattern *step_pattern_free(struct step_pattern *pattern)
{
    if (pattern != NULL) {
        regfree(&pattern->regex);
    }
    return mem_free(pattern);
}

/* "1200", "1,200" */
static int number_of(const char *text, size_t size, uint64_t *ret_step)
{
    char digits[NUMBER_SIZE];
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == ',' && count > 0) {
            continue;
        }
        if (!is_digit(text[i]) || count + 1 == NUMBER_SIZE) {
            return 0;
        }
        digits[count++] = text[i];
    }
    digits[count] = '\0';
    return text_to_u64(digits, INT64_MAX, ret_step) == 0 ? 1 : 0;
}

int step_pattern_find(const struct step_pattern *pattern, const char *line, uint64_t *ret_step)
{
    regmatch_t found[DEPTH_MAX + STEP_PATTERN_SIZE / 2];
    CHECK(pattern->group < ARRAY_SIZE(found));
    const int code = regexec(&pattern->regex, line, pattern->group + 1, found, 0);
    if (code == REG_ESPACE) {
        return -ENOMEM;
    }
    const regmatch_t *group = &found[pattern->group];
    if (code != 0 || group->rm_so < 0) {
        return 0;
    }
    return number_of(line + group->rm_so, (size_t)(group->rm_eo - group->rm_so), ret_step);
}
