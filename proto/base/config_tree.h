/* config_tree.h: what config_yaml.c and config_json.c hand to config.c: a document as nodes with
 * positions, before anybody has asked what the keys mean. Private to the config reader.
 *
 * Nodes live in one growing array and refer to each other by index; texts live in one buffer and
 * are referred to by offset. Nothing is freed before the whole tree is. */
#ifndef KEEPSTEP_BASE_CONFIG_TREE_H
#define KEEPSTEP_BASE_CONFIG_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/config.h"

enum {
    CONFIG_NODES_MAX = 65536,
    CONFIG_ENTRIES_MAX = 1024, /* entries of one map: duplicates are searched linearly */
    CONFIG_TEXTS_MAX = CONFIG_SIZE_MAX * 4, /* all texts with their NULs; escapes may grow */
};

#define CONFIG_NODE_NONE UINT32_MAX

enum config_node_kind { NODE_MAP, NODE_LIST, NODE_SCALAR };

/* What a scalar was in its document. YAML has words alone: their type comes from the key table. */
enum config_scalar_form {
    SCALAR_WORD,   /* YAML: anything; `plain` tells "" from nothing */
    SCALAR_STRING, /* JSON string */
    SCALAR_INTEGER,
    SCALAR_REAL,
    SCALAR_BOOLEAN,
    SCALAR_NULL,
};

struct config_node {
    enum config_node_kind kind;
    enum config_scalar_form form;
    bool plain;  /* YAML scalar without quotes */
    bool faulty; /* has been complained about; say no more */
    int line, column;
    int key_line, key_column; /* of the key in the parent map; else as line, column */
    uint32_t key;             /* offset of its text; 0 is the offset of "" */
    uint32_t text;
    uint32_t parent; /* CONFIG_NODE_NONE: the root, or cut off because it is faulty */
    uint32_t first_child, last_child, next;
    uint32_t child_count;
    int64_t integer; /* SCALAR_INTEGER, SCALAR_BOOLEAN */
    double real;     /* SCALAR_REAL */
};

struct config_tree {
    struct config_node *nodes; /* owned; nodes[0] is the root once there is one */
    uint32_t count;
    uint32_t capacity;
    struct buf texts;
    struct config_report *report; /* borrowed */
};

void config_tree_init(struct config_tree *tree, struct config_report *report);
void config_tree_done(struct config_tree *tree);

/* Copies a text into the tree. -EMSGSIZE when the texts are full; -EINVAL, reported at (line,
 * column), when it has control characters or is not UTF-8. */
MUST_CHECK int config_tree_add_text(struct config_tree *tree, const char *text, size_t size,
                                    int line, int column, uint32_t *ret_offset);
/* Adds a node as the last child of parent (CONFIG_NODE_NONE: on its own). -E2BIG, reported, when
 * there are too many nodes or entries. */
MUST_CHECK int config_tree_add(struct config_tree *tree, uint32_t parent,
                               const struct config_node *node, uint32_t *ret_index);
/* The child of a map with this key; CONFIG_NODE_NONE when there is none. */
uint32_t config_tree_child(const struct config_tree *tree, uint32_t map, const char *key,
                           size_t key_size);
/* The node at a dotted path from the root. */
uint32_t config_tree_find(const struct config_tree *tree, const char *path);
const char *config_tree_text(const struct config_tree *tree, uint32_t offset); /* borrowed */
/* "run.command[2]": the node's path, for people; a text that is too long is cut. */
void config_tree_path(const struct config_tree *tree, uint32_t index, char *target, size_t size);

/* Both fill the tree and report what is wrong with the form of the document. 0: the tree is whole
 * (faulty nodes are marked); -EINVAL: it is not and must not be looked at further. */
MUST_CHECK int config_yaml_read(struct config_tree *tree, const char *text, size_t size);
MUST_CHECK int config_json_read(struct config_tree *tree, const json_t *json);

/* One value by its key's type, from a document's node. On a fault: reported, NULL. */
json_t *config_value_of_node(const struct config_tree *tree, uint32_t index,
                             const struct config_key *key);
/* The value of key->default_text (not NULL). A default that does not fit is our own mistake. */
json_t *config_value_of_default(const struct config_key *key);

#endif
