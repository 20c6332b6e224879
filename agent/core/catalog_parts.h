/* catalog_parts.h: what the files of the catalogue share; nobody else includes it.
 *
 *     catalog.c         memory, and how the rows of one more file join those that are there
 *     catalog_file.c    one line of a file -> one row, or what is wrong with it
 *     catalog_match.c   the column `match` -> what it asks for
 *     catalog_filter.c  which keys are in a line: one pass, whatever their number
 *     catalog_look.c    a line -> a signal */
#ifndef KEEPSTEP_AGENT_CATALOG_PARTS_H
#define KEEPSTEP_AGENT_CATALOG_PARTS_H

#include "agent/core/catalog.h"
#include "agent/core/line_pattern.h"

enum {
    CATALOG_ROWS_LIMIT = 16384, /* what limits.rows may be */
    CATALOG_MATCH_SIZE = 288,   /* of the column, with the NUL */
    CATALOG_CODE_ANY = -1,
    CATALOG_SLOTS_PER_ROW = 2,
    FILTER_HASH_BITS = 15,
    FILTER_HASHES = 1 << FILTER_HASH_BITS,
    NVLINK5_BITS = 32,
};

enum match_kind {
    MATCH_XID,
    MATCH_RECOVERY,
    MATCH_NVLINK5,
    MATCH_SXID,
    MATCH_COMPLETION,
    MATCH_WATCHDOG,
    MATCH_OOM,
    MATCH_KERNEL,
    MATCH_BOOT,
    MATCH_OUTPUT,
    MATCH_AGENT,
    MATCH_ANY,
};

/* How grave a line says it is; the variants of one code. */
enum match_variant { VARIANT_NONE, VARIANT_NONFATAL, VARIANT_FATAL, VARIANT_DIFFERS };
enum match_oom { OOM_EITHER, OOM_GROUP, OOM_NODE };

struct bits {
    uint32_t mask;
    uint32_t value;
};

struct match {
    uint8_t kind;    /* enum match_kind */
    uint8_t variant; /* enum match_variant; of oom enum match_oom */
    int32_t code;    /* CATALOG_CODE_ANY: * */
    struct bits before_r575;
    struct bits since_r575;
    bool has_status;
    uint32_t status;
    /* Pattern, or words of victims: a part of the column, borrowed. */
    const char *text;
    size_t text_size;
    struct line_pattern pattern; /* only of rows in the catalogue */
};

/* -EINVAL: err says what is wrong with it and what to write. */
MUST_CHECK int match_read(const char *column, size_t size, struct match *ret_match,
                          struct err *err);
bool match_is_pattern(const struct match *match);
/* Whether one of the words is the victim's. */
bool match_has_victim(const struct match *match, const char *victim);

struct row {
    char name[SIGNAL_NAME_SIZE];
    uint8_t label;
    uint8_t advice;
    uint8_t role;
    bool gone;           /* "off" */
    uint16_t generation; /* how many files were read before its own */
    struct match match;
    const char *column; /* of match, in the arena */
    const char *explain;
};

/* One line, neither empty nor a comment. -EINVAL with what is wrong, without origin and line. The
 * texts of the row are of the line. Of a row that is "off" only the name counts. */
struct file_row {
    struct row row;
    const char *column;
    size_t column_size;
    const char *explain;
    size_t explain_size;
};
MUST_CHECK int file_row_read(const char *line, size_t size, struct file_row *ret_row,
                             struct err *err);

/* ---- the filter ------------------------------------------------------------------------------ */

/* Keys that are looked for besides those of patterns, in the order of their marks. */
#define CATALOG_SPECIALS(X)                                                                        \
    X(SPECIAL_XID, "Xid (")                                                                        \
    X(SPECIAL_BUS, "fallen off the bus")                                                           \
    X(SPECIAL_CHANNELS, "RC all channels")                                                         \
    X(SPECIAL_COMPLETION, "Got completion ")                                                       \
    X(SPECIAL_WORK, "WorkNCCL(")                                                                   \
    X(SPECIAL_OOM, "oom-kill:constraint=")                                                         \
    X(SPECIAL_KILL, "of memory: Kill")
#define CATALOG_SPECIAL_ENUM(constant, key)  constant,
#define CATALOG_SPECIAL_COUNT(constant, key) +1
enum { CATALOG_SPECIALS(CATALOG_SPECIAL_ENUM) };
enum { SPECIAL_COUNT = 0 CATALOG_SPECIALS(CATALOG_SPECIAL_COUNT) };

/* Marks are numbers; each key has one, and a mark may have several keys. Texts of keys are borrowed
 * until the filter is cleared. */
struct filter_key {
    const char *text;
    uint8_t size;
    uint8_t offset; /* of the bytes by which it is found */
    uint16_t mark;
    uint16_t next; /* another key with the same hash, from 1; 0: none */
};

struct filter {
    uint32_t key_max;
    uint32_t key_count;
    uint64_t *bits;  /* FILTER_HASHES: is there a key with this hash? */
    uint16_t *first; /* of each hash: a key, from 1 */
    struct filter_key *keys;
};

void filter_create(struct filter *filter, uint32_t key_max);
void filter_free(struct filter *filter);
void filter_clear(struct filter *filter);
/* LINE_KEY_MIN to LINE_KEY_MAX bytes; the caller has seen to it that there are at most key_max. */
void filter_add(struct filter *filter, const char *key, size_t size, uint32_t mark);
/* Sets a bit for each mark whose key is in the text; `marks` is zero before. Returns whether there
 * is any. */
bool filter_run(const struct filter *filter, const char *text, size_t size, uint64_t *marks);

/* ---- the whole ------------------------------------------------------------------------------- */

struct catalog {
    struct catalog_limits limits;
    struct row *rows; /* limits.rows x 2: the second half is for a file that is being read */
    uint32_t count;
    uint32_t generations;
    char *text;
    uint32_t text_used;
    struct line_item *items; /* of patterns */
    uint32_t items_used;
    /* By what a row matches; made anew after each file. */
    uint16_t *slots; /* of codes: row + 1, open addressing */
    uint32_t slot_count;
    uint16_t *order; /* rows that are tried one after the other: patterns and oom */
    uint32_t order_count;
    uint16_t *nvlink5; /* rows */
    uint32_t nvlink5_count;
    struct filter filter;
};

/* The row for a code; NULL: there is none. */
const struct row *catalog_row_of_code(const struct catalog *catalog, uint8_t kind, uint8_t variant,
                                      int32_t code);

#endif
