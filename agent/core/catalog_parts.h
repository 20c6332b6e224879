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

enum {
    CATALOG_ROWS_LIMIT = 16384, /* what limits.rows may be */
    CATALOG_MATCH_SIZE = 288,   /* of the column, with the NUL */
    CATALOG_CODE_ANY = -1,
    CATALOG_SLOTS_PER_ROW = 2,
    FILTER_CLASSES_MAX = 96, /* printable ASCII, and one class for all other bytes */
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

/* Aho and Corasick's automaton. Marks are numbers below mark_max; each key has one, and a mark may
 * have several keys. */
struct filter {
    uint32_t node_max;
    uint32_t mark_max;
    uint32_t node_count;
    uint32_t class_count;
    uint8_t classes[256]; /* of bytes; 0: in no key */
    uint16_t *next;  /* node_max x FILTER_CLASSES_MAX, of which node_count x class_count count */
    uint16_t *fail;  /* of each node: its longest end that is a node */
    uint16_t *queue; /* only while it is being built */
    uint16_t *found; /* of each node: the nearest of its ends that is a whole key; 0: none */
    uint16_t *first; /* of each node: the first key that ends there, from 1; 0: none */
    uint32_t key_count;
    uint16_t *marks; /* of each key */
    uint16_t *other; /* of each key: another one, from 1, that ends at the same node; 0: none */
};

void filter_create(struct filter *filter, uint32_t node_max, uint32_t mark_max);
void filter_free(struct filter *filter);
void filter_clear(struct filter *filter);
/* The caller has seen to it that all keys together have fewer bytes than there are nodes; they are
 * printable ASCII. */
void filter_add(struct filter *filter, const char *key, size_t size, uint32_t mark);
void filter_finish(struct filter *filter);
/* Sets a bit for each mark whose key is in the text. `bits` has room for mark_max of them and is
 * zero. Returns whether there is any. */
bool filter_run(const struct filter *filter, const char *text, size_t size, uint64_t *bits);

/* ---- the whole ------------------------------------------------------------------------------- */

struct catalog {
    struct catalog_limits limits;
    struct row *rows; /* limits.rows x 2: the second half is for a file that is being read */
    uint32_t count;
    uint32_t generations;
    char *text;
    uint32_t text_used;
    uint32_t nodes; /* of the filter, at most */
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
