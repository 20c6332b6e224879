/* catalog_match.c: one word says what kind of match it is; each kind reads its own rest. */
#include <errno.h>
#include <string.h>

#include "agent/core/catalog_parts.h"
#include "agent/core/line_cursor.h"
#include "agent/core/line_pattern.h"
#include "agent/core/nvidia_line.h"
#include "proto/base/check.h"

enum { CODE_MAX = 999999, RECOVERY_MAX = 15, SHOWN_MAX = 32 };

/* How much of a word a message shows. */
static int shown(size_t size)
{
    return (int)(size < SHOWN_MAX ? size : SHOWN_MAX);
}

typedef int rest_read(struct line_cursor *rest, struct match *match, struct err *err);

/* A word without blanks; 0: nothing is left. */
static size_t take_word(struct line_cursor *cursor, const char **ret_word)
{
    (void)cursor_take_blanks(cursor);
    const size_t size = cursor_span(cursor, " ");
    *ret_word = cursor->text + cursor->at;
    cursor->at += size;
    return size;
}

/* "79" or "*" */
static int read_code(struct line_cursor *rest, struct match *match, struct err *err)
{
    const char *word;
    uint64_t code = 0;
    const size_t size = take_word(rest, &word);
    struct line_cursor number = {.text = word, .size = size};
    match->code = CATALOG_CODE_ANY;
    if (line_equal(word, size, "*")) {
        return 0;
    }
    if (!cursor_take_number(&number, &code) || number.at != size || code > CODE_MAX) {
        return err_set(err, -EINVAL, "'%.*s' is no code: a number up to %d, or *", shown(size),
                       word, CODE_MAX);
    }
    match->code = (int32_t)code;
    return 0;
}

/* Nothing, "fatal" or "nonfatal". */
static int read_severity(struct line_cursor *rest, struct match *match, struct err *err)
{
    const char *word;
    const size_t size = take_word(rest, &word);
    if (line_equal(word, size, "fatal")) {
        match->variant = VARIANT_FATAL;
    } else if (line_equal(word, size, "nonfatal")) {
        match->variant = VARIANT_NONFATAL;
    } else if (size > 0) {
        return err_set(err, -EINVAL, "'%.*s': behind the code stands fatal, nonfatal or nothing",
                       shown(size), word);
    }
    return 0;
}

static int read_xid(struct line_cursor *rest, struct match *match, struct err *err)
{
    const int r = read_code(rest, match, err);
    return r == 0 ? read_severity(rest, match, err) : r;
}

static int read_recovery(struct line_cursor *rest, struct match *match, struct err *err)
{
    const int r = read_code(rest, match, err);
    if (r == 0 && match->code > RECOVERY_MAX) {
        return err_set(err, -EINVAL, "a recovery action is a number up to %d, not %d", RECOVERY_MAX,
                       match->code);
    }
    return r;
}

static int read_bits(struct line_cursor *rest, struct bits *bits, struct err *err)
{
    const char *word;
    const size_t size = take_word(rest, &word);
    *bits = (struct bits){0};
    for (size_t i = 0; i < size && size == NVLINK5_BITS; i++) {
        const uint32_t bit = 1u << (NVLINK5_BITS - 1 - i);
        if (word[i] != '0' && word[i] != '1' && word[i] != '-') {
            return err_set(err, -EINVAL, "the bits of an interrupt are 0, 1 and -, not '%c'",
                           word[i] >= ' ' && word[i] <= '~' ? word[i] : '?');
        }
        bits->mask |= word[i] == '-' ? 0 : bit;
        bits->value |= word[i] == '1' ? bit : 0;
    }
    return size == NVLINK5_BITS ? 0
                                : err_set(err, -EINVAL, "an interrupt has %d bits, here stand %zu",
                                          NVLINK5_BITS, size);
}

static int read_nvlink5(struct line_cursor *rest, struct match *match, struct err *err)
{
    const char *word;
    int r = read_code(rest, match, err);
    r = r == 0 ? read_bits(rest, &match->before_r575, err) : r;
    r = r == 0 ? read_bits(rest, &match->since_r575, err) : r;
    if (r != 0) {
        return r;
    }
    if (match->code < NVLINK5_FIRST || match->code > NVLINK5_LAST) {
        return err_set(err, -EINVAL, "nvlink5 is for Xids %d to %d", NVLINK5_FIRST, NVLINK5_LAST);
    }
    const size_t size = take_word(rest, &word);
    struct line_cursor status = {.text = word, .size = size};
    match->has_status = !line_equal(word, size, "*");
    if (match->has_status && (!cursor_take_hex(&status, &match->status) || status.at != size)) {
        return err_set(err, -EINVAL, "behind the bits stands the error status in hex, or *");
    }
    return 0;
}

static int read_watchdog(struct line_cursor *rest, struct match *match, struct err *err)
{
    const char *word;
    const size_t size = take_word(rest, &word);
    if (line_equal(word, size, "differs")) {
        match->variant = VARIANT_DIFFERS;
    } else if (size > 0) {
        return err_set(err, -EINVAL, "behind watchdog stands differs or nothing");
    }
    return 0;
}

static int read_oom(struct line_cursor *rest, struct match *match, struct err *err)
{
    const char *word;
    const size_t size = take_word(rest, &word);
    if (line_equal(word, size, "group")) {
        match->variant = OOM_GROUP;
    } else if (line_equal(word, size, "node")) {
        match->variant = OOM_NODE;
    } else if (!line_equal(word, size, "*")) {
        return err_set(err, -EINVAL, "behind oom stands group, node or *");
    }
    (void)cursor_take_blanks(rest);
    match->text = rest->text + rest->at;
    match->text_size = cursor_left(rest);
    rest->at = rest->size;
    return match->text_size > 0
               ? 0
               : err_set(err, -EINVAL, "which victims? Words with blanks between them, or *");
}

static int read_pattern(struct line_cursor *rest, struct match *match, struct err *err)
{
    if (!cursor_take(rest, " ") || cursor_left(rest) == 0) {
        return err_set(err, -EINVAL, "has no pattern");
    }
    match->text = rest->text + rest->at;
    match->text_size = cursor_left(rest);
    rest->at = rest->size;
    struct line_item items[LINE_ITEMS_MAX];
    size_t count = 0;
    const int r = line_pattern_read(match->text, match->text_size, items, &count, err);
    return r == 0 ? 0 : err_wrap(err, "its pattern");
}

static const struct {
    const char *word;
    rest_read *read;
} kinds[] = {
    [MATCH_XID] = {"xid", read_xid},
    [MATCH_RECOVERY] = {"recovery", read_recovery},
    [MATCH_NVLINK5] = {"nvlink5", read_nvlink5},
    [MATCH_SXID] = {"sxid", read_xid},
    [MATCH_COMPLETION] = {"completion", read_code},
    [MATCH_WATCHDOG] = {"watchdog", read_watchdog},
    [MATCH_OOM] = {"oom", read_oom},
    [MATCH_KERNEL] = {"kernel", read_pattern},
    [MATCH_BOOT] = {"boot", read_pattern},
    [MATCH_OUTPUT] = {"output", read_pattern},
    [MATCH_AGENT] = {"agent", read_pattern},
    [MATCH_ANY] = {"any", read_pattern},
};

int match_read(const char *column, size_t size, struct match *ret_match, struct err *err)
{
    struct line_cursor rest = {.text = column, .size = size};
    const char *word;
    const size_t word_size = take_word(&rest, &word);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (!line_equal(word, word_size, kinds[i].word)) {
            continue;
        }
        struct match match = {.kind = (uint8_t)i};
        const int r = kinds[i].read(&rest, &match, err);
        if (r != 0) {
            return r;
        }
        (void)cursor_take_blanks(&rest);
        if (cursor_left(&rest) > 0) {
            return err_set(err, -EINVAL, "'%.*s' is too much behind %s", shown(cursor_left(&rest)),
                           rest.text + rest.at, kinds[i].word);
        }
        *ret_match = match;
        return 0;
    }
    return err_set(err, -EINVAL,
                   "'%.*s' is no kind of match; xid, recovery, nvlink5, sxid, completion, "
                   "watchdog, oom, kernel, boot, output, agent and any are",
                   shown(word_size), word);
}

bool match_is_pattern(const struct match *match)
{
    return match->kind >= MATCH_KERNEL;
}

bool match_has_victim(const struct match *match, const char *victim)
{
    struct line_cursor words = {.text = match->text, .size = match->text_size};
    const size_t victim_size = strlen(victim);
    const char *word;
    for (size_t size = take_word(&words, &word); size > 0; size = take_word(&words, &word)) {
        const bool open = word[size - 1] == '*';
        const size_t wanted = open ? size - 1 : size;
        if (victim_size >= wanted && (open || victim_size == wanted) &&
            memcmp(victim, word, wanted) == 0) {
            return true;
        }
    }
    return false;
}
