/* config_tree.c: the nodes of a document, and the report that every part of the reader fills. */
#include "proto/base/config_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

void config_tree_init(struct config_tree *tree, struct config_report *report)
{
    *tree = (struct config_tree){.report = report};
    buf_init(&tree->texts, CONFIG_TEXTS_MAX);
    int result = buf_put(&tree->texts, "", 1); /* offset 0 is the empty text */
    CHECK(result == 0);
}

void config_tree_done(struct config_tree *tree)
{
    tree->nodes = mem_free(tree->nodes);
    buf_done(&tree->texts);
}

int config_tree_add_text(struct config_tree *tree, const char *text, size_t size, int line,
                         int column, uint32_t *ret_offset)
{
    if (!text_is_utf8(text, size)) {
        config_problem_add(tree->report, line, column, "", "",
                           "a text has control characters or is not UTF-8");
        return -EINVAL;
    }
    size_t offset = tree->texts.size;
    if (size >= CONFIG_TEXTS_MAX - offset) {
        return -EMSGSIZE;
    }
    int result = buf_put(&tree->texts, text, size);
    CHECK(result == 0);
    result = buf_put(&tree->texts, "", 1);
    CHECK(result == 0);
    *ret_offset = (uint32_t)offset;
    return 0;
}

static void link_child(struct config_tree *tree, uint32_t parent_index, uint32_t index)
{
    struct config_node *parent = &tree->nodes[parent_index];
    CHECK(parent->kind != NODE_SCALAR);
    if (parent->last_child == CONFIG_NODE_NONE) {
        parent->first_child = index;
    } else {
        tree->nodes[parent->last_child].next = index;
    }
    parent->last_child = index;
    parent->child_count++;
}

int config_tree_add(struct config_tree *tree, uint32_t parent, const struct config_node *node,
                    uint32_t *ret_index)
{
    if (tree->count == CONFIG_NODES_MAX) {
        config_problem_add(tree->report, node->line, node->column, "", "",
                           "the document has more than %d values", CONFIG_NODES_MAX);
        return -E2BIG;
    }
    if (parent != CONFIG_NODE_NONE && tree->nodes[parent].kind == NODE_MAP &&
        tree->nodes[parent].child_count == CONFIG_ENTRIES_MAX) {
        config_problem_add(tree->report, node->key_line, node->key_column, "", "",
                           "a map has more than %d entries", CONFIG_ENTRIES_MAX);
        return -E2BIG;
    }
    if (tree->count == tree->capacity) {
        tree->capacity = tree->capacity > 0 ? tree->capacity * 2 : 64;
        tree->nodes = mem_grow(tree->nodes, tree->capacity, sizeof(tree->nodes[0]));
    }
    uint32_t index = tree->count;
    tree->count++;
    tree->nodes[index] = *node;
    tree->nodes[index].parent = parent;
    tree->nodes[index].first_child = CONFIG_NODE_NONE;
    tree->nodes[index].last_child = CONFIG_NODE_NONE;
    tree->nodes[index].next = CONFIG_NODE_NONE;
    tree->nodes[index].child_count = 0;
    if (parent != CONFIG_NODE_NONE) {
        link_child(tree, parent, index);
    }
    *ret_index = index;
    return 0;
}

const char *config_tree_text(const struct config_tree *tree, uint32_t offset)
{
    CHECK(offset < tree->texts.size);
    return (const char *)tree->texts.data + offset;
}

uint32_t config_tree_child(const struct config_tree *tree, uint32_t map, const char *key,
                           size_t key_size)
{
    if (tree->nodes[map].kind != NODE_MAP) {
        return CONFIG_NODE_NONE;
    }
    uint32_t child = tree->nodes[map].first_child;
    while (child != CONFIG_NODE_NONE) {
        const char *name = config_tree_text(tree, tree->nodes[child].key);
        if (strlen(name) == key_size && memcmp(name, key, key_size) == 0) {
            return child;
        }
        child = tree->nodes[child].next;
    }
    return CONFIG_NODE_NONE;
}

uint32_t config_tree_find(const struct config_tree *tree, const char *path)
{
    uint32_t index = tree->count > 0 ? 0 : CONFIG_NODE_NONE;
    while (index != CONFIG_NODE_NONE) {
        size_t size = strcspn(path, ".");
        index = config_tree_child(tree, index, path, size);
        if (path[size] == '\0') {
            break;
        }
        path += size + 1;
    }
    return index;
}

static uint32_t position_in(const struct config_tree *tree, uint32_t list, uint32_t index)
{
    uint32_t position = 0;
    for (uint32_t child = tree->nodes[list].first_child; child != index;
         child = tree->nodes[child].next) {
        position++;
    }
    return position;
}

void config_tree_path(const struct config_tree *tree, uint32_t index, char *target, size_t size)
{
    uint32_t way[CONFIG_DEPTH_MAX + 2];
    size_t depth = 0;
    target[0] = '\0';
    if (tree->report->count == CONFIG_PROBLEMS_MAX) {
        return; /* nobody will read it, and a long list of faults would cost a square of time */
    }
    while (tree->nodes[index].parent != CONFIG_NODE_NONE && depth < ARRAY_SIZE(way)) {
        way[depth] = index;
        depth++;
        index = tree->nodes[index].parent;
    }
    size_t used = 0;
    for (; depth > 0; depth--) {
        const struct config_node *node = &tree->nodes[way[depth - 1]];
        bool whole = false;
        if (tree->nodes[node->parent].kind == NODE_LIST) {
            whole = text_format(target + used, size - used, "[%u]",
                                (unsigned)position_in(tree, node->parent, way[depth - 1]));
        } else {
            whole = text_format(target + used, size - used, "%s%s", used > 0 ? "." : "",
                                config_tree_text(tree, node->key));
        }
        if (!whole) {
            break;
        }
        used += strlen(target + used);
    }
}

/* What a document says may be shown on a terminal: no control characters, and UTF-8 or ASCII. */
static void make_harmless(char *text)
{
    bool plain = text_is_utf8(text, strlen(text));
    for (; *text != '\0'; text++) {
        uint8_t byte = (uint8_t)*text;
        if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !plain)) {
            *text = '?';
        }
    }
}

static bool stands_before(const struct config_problem *a, const struct config_problem *b)
{
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

void config_problem_add(struct config_report *report, int line, int column, const char *path,
                        const char *hint, const char *format, ...)
{
    report->total++;
    if (report->count == CONFIG_PROBLEMS_MAX) {
        return;
    }
    struct config_problem problem = {.line = line, .column = column};
    (void)text_copy(problem.path, sizeof(problem.path), path);
    (void)text_copy(problem.hint, sizeof(problem.hint), hint);
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(problem.text, sizeof(problem.text), format, arguments);
    va_end(arguments);
    make_harmless(problem.path);
    make_harmless(problem.hint);
    make_harmless(problem.text);
    /* In the order of the document; those of one place in the order in which they were found. */
    size_t place = report->count;
    while (place > 0 && stands_before(&problem, &report->problems[place - 1])) {
        report->problems[place] = report->problems[place - 1];
        place--;
    }
    report->problems[place] = problem;
    report->count++;
}
