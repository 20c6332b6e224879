/* line_pattern.h: patterns for lines of logs, in one small language. Pure.
 *
 * A pattern is text that stands somewhere in a line, with
 *
 *     *           any bytes, or none
 *     %d %x       a number, decimal or hexadecimal, with - or 0x or without
 *     %s          a word: bytes that are no blank, up to the byte that follows in the pattern
 *     %_          blanks, at least one
 *     %D %R %G    as %d, and it is the code, the rank, the index of a GPU
 *     %S          as %s, and it is the subject
 *     %P          a PCI address, and it is the device
 *     %>N         a number, with or without a fraction, that is at least N
 *     %&H         a hexadecimal number with at least one of the bits H
 *     {a|b|c}     one of these texts, the first that fits: longer ones first; an empty one fits
 *                 always
 *     ^ first     the message begins here, or one that was joined to it by "|" or a newline
 *     $ last      the line ends here
 *     %% %* %{ %^ %$   the character itself
 *
 * Everything takes what it can get at its place and never gives back, so that matching takes time
 * in proportion to the line, whatever both of them are. Each pattern has a key: at least
 * LINE_KEY_MIN bytes of printable ASCII in a row which stand in every line that matches, or a
 * choice of such. */
#ifndef KEEPSTEP_AGENT_LINE_PATTERN_H
#define KEEPSTEP_AGENT_LINE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

enum {
    LINE_PATTERN_MAX = 255, /* bytes of a pattern */
    LINE_ITEMS_MAX = 255,   /* one a byte, at most */
    LINE_WORD_MAX = 255,    /* of what %s takes */
    LINE_KEY_MIN = 3,
    LINE_KEY_MAX = 16,
};

/* What a pattern found in a line. Pieces are of the line: borrowed. */
struct line_found {
    const char *subject; /* NULL: the pattern asks for none */
    size_t subject_size;
    const char *pci;
    size_t pci_size;
    bool has_code;
    bool has_rank;
    bool has_gpu;
    int32_t code;
    int32_t rank;
    int32_t gpu;
};

/* One item of a pattern that has been read. */
struct line_item {
    char class;        /* ITEM_TEXT, '{', '*', '^', '$', or the letter behind % */
    uint8_t body_size; /* of the plain bytes, or of what stands between { and } */
    const char *body;  /* borrowed from the pattern */
    uint64_t limit;    /* of %> and %& */
};
#define ITEM_TEXT '\0'

/* Whoever has a pattern keeps its text and its items. */
struct line_pattern {
    const struct line_item *items;
    size_t count;
};

/* Writes the pattern's items, at most LINE_ITEMS_MAX. -EINVAL: no pattern; err says where and what
 * to write. */
MUST_CHECK int line_pattern_read(const char *text, size_t size, struct line_item *items,
                                 size_t *ret_count, struct err *err);

/* What every matching line has: one of the pieces, each of LINE_KEY_MIN to LINE_KEY_MAX bytes. */
struct line_key {
    const char *text; /* borrowed from the pattern */
    size_t size;
    bool is_choice; /* pieces are between its | */
};
struct line_key line_pattern_key(const struct line_pattern *pattern);
/* The next piece, from *at on, which begins at 0; false: there is none left. */
bool line_key_piece(const struct line_key *key, size_t *at, const char **ret_text,
                    size_t *ret_size);

/* Whether the pattern is in the line. `begin`: where the message begins behind its carrier. */
bool line_pattern_match(const struct line_pattern *pattern, const char *line, size_t size,
                        size_t begin, struct line_found *ret_found);

/* How many bytes of a PCI address stand at text, "0000:3b:00" or "3b:00.0" say; 0: none. */
size_t line_pci_size(const char *text, size_t size);

#endif
