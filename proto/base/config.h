/* config.h: one reader for every file that people write: job files and the daemons' own files.
 *
 * YAML 1.1 read with libyaml (or JSON with jansson) against a table of keys into one JSON tree. A
 * scalar's type comes from the table, never from YAML's guessing. All problems are reported at
 * once, each with line, column, key path and hint. Refused: unknown and duplicate keys, aliases,
 * anchors, merge keys, tags, more than one document, documents over 1 MiB, nesting over 16. */
#ifndef KEEPSTEP_BASE_CONFIG_H
#define KEEPSTEP_BASE_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

enum config_type {
    CONFIG_BOOL,
    CONFIG_INT,           /* JSON integer */
    CONFIG_TEXT,          /* JSON string */
    CONFIG_NAME,          /* as text_is_name */
    CONFIG_ENUM,          /* one of the words in `words`, separated by '|' */
    CONFIG_DURATION,      /* stored as JSON integer milliseconds */
    CONFIG_SIZE,          /* stored as JSON integer bytes */
    CONFIG_RATIO,         /* decimal such as 1.10, stored as JSON integer parts per million */
    CONFIG_AUTO_DURATION, /* the word auto (stored as string "auto") or a duration */
    CONFIG_AUTO_INT,      /* the word auto or an integer */
    CONFIG_TEXT_LIST,     /* list of texts */
    CONFIG_INT_LIST,
    CONFIG_TEXT_MAP, /* map of free keys to texts */
    CONFIG_GROUP,    /* a map whose children are the keys "parent.child" of the table */
};

/* One key. Keys of a group are written "group.key" and stand together in the table; the group may
 * have a row of its own before them. Absent keys get default_text (NULL: left out; lists: "a,b",
 * "" is the empty list or map). A required key is missed even when its whole group is absent; when
 * the group's own row is required, only the group is missed. */
struct config_key {
    const char *path;
    enum config_type type;
    bool required;
    bool live; /* changeable while running (`keepstep set`) */
    const char *default_text;
    int64_t min; /* for INT, DURATION (ms), SIZE (bytes), RATIO (ppm), and list lengths; 0,0 = no
                    limit */
    int64_t max;
    const char *words; /* CONFIG_ENUM */
    const char *doc;   /* one line */
};

enum { CONFIG_PROBLEMS_MAX = 64, CONFIG_SIZE_MAX = 1 << 20, CONFIG_DEPTH_MAX = 16 };

struct config_problem {
    int line; /* 1-based, 0 when unknown (JSON input) */
    int column;
    char path[96];  /* dotted: checkpoint.interval */
    char text[192]; /* what is wrong and what to write instead */
    char hint[64];  /* the closest known key, or "" */
};

struct config_report {
    size_t count; /* problems kept */
    size_t total; /* problems found */
    struct config_problem problems[CONFIG_PROBLEMS_MAX];
};

/* From now on jansson's memory is mem.h's, in this process: what cannot be had ends it, instead of
 * leaving a member out of a tree. Before anything else is asked of jansson. */
void config_memory(void);

/* On success *ret_tree owns a new JSON object with every default filled in (json_decref it).
 * -EINVAL: report has every problem; -E2BIG: the document is too long (also reported). */
MUST_CHECK int config_parse_yaml(const char *text, size_t size, const struct config_key *keys,
                                 size_t key_count, json_t **ret_tree, struct config_report *report);
/* The same for a tree that came as JSON (REST). json is borrowed. Durations may be texts or
 * integer ms, sizes texts or integer bytes, ratios texts or reals or integer ppm: so the tree of
 * either reader, its lines dropped, reads back as itself. */
MUST_CHECK int config_parse_json(const json_t *json, const struct config_key *keys,
                                 size_t key_count, json_t **ret_tree, struct config_report *report);
/* The same two for a caller that checks more than a table can say, and wants to report that too:
 * with -EINVAL *ret_tree is given as well, keys that are faulty or missing at their defaults (left
 * out where they have none), or NULL when the document could not be read as a map of keys. */
MUST_CHECK int config_read_yaml(const char *text, size_t size, const struct config_key *keys,
                                size_t key_count, json_t **ret_tree, struct config_report *report);
MUST_CHECK int config_read_json(const json_t *json, const struct config_key *keys, size_t key_count,
                                json_t **ret_tree, struct config_report *report);
/* True when something was found at this key or below it: its value in the tree is a default then,
 * and what rests on it need not be checked. */
bool config_has_problem(const struct config_report *report, const char *path);
void config_problem_add(struct config_report *report, int line, int column, const char *path,
                        const char *hint, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* The tree from YAML carries one member more, the places of its keys: drop it before the tree is
 * stored, compared or sent. */
#define CONFIG_LINES_KEY "$lines"
void config_lines_drop(json_t *tree);
/* Where a key stands in the YAML text that produced this tree: 0 when unknown. For problems that
 * are found after parsing (a layout that does not multiply out), before config_lines_drop(). */
int config_line(const json_t *tree, const char *path);
int config_column(const json_t *tree, const char *path);
/* Typed access by dotted path; the key must exist with that type (CHECKed): tables guarantee it. */
int64_t config_int(const json_t *tree, const char *path);
const char *config_text(const json_t *tree, const char *path); /* borrowed; "" when absent */
bool config_bool(const json_t *tree, const char *path);
const json_t *config_get(const json_t *tree, const char *path); /* borrowed; NULL when absent */

#endif
