/* config.c: a document's nodes against a table of keys.
 *
 * Two walks: over the nodes, to find keys that no table knows; over the table, to convert what is
 * there, fill in defaults and find what is missing. The tree comes out in the table's order. */
#include "proto/base/config.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/config_tree.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { PATH_TEXT_SIZE = sizeof(((struct config_problem *)NULL)->path), SIBLINGS_MAX = 256 };

static void give_back(void *memory)
{
    (void)mem_free(memory);
}

void config_memory(void)
{
    json_set_alloc_funcs(mem_block, give_back);
}

struct table {
    const struct config_key *keys;
    size_t count;
};

static const struct config_key *find_key(const struct table *table, const char *path)
{
    for (size_t index = 0; index < table->count; index++) {
        if (text_equal(table->keys[index].path, path)) {
            return &table->keys[index];
        }
    }
    return NULL;
}

/* true when path is a group: listed as one, or the beginning of a listed key */
static bool is_group(const struct table *table, const char *path)
{
    const struct config_key *key = find_key(table, path);
    if (key != NULL) {
        return key->type == CONFIG_GROUP;
    }
    size_t size = strlen(path);
    for (size_t index = 0; index < table->count; index++) {
        const char *other = table->keys[index].path;
        if (strncmp(other, path, size) == 0 && other[size] == '.') {
            return true;
        }
    }
    return false;
}

/* ---- unknown keys ------------------------------------------------------------------------ */

/* The last word of a path. */
static const char *last_word(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL ? dot + 1 : path;
}

/* true when path is a direct child of the group prefix ("" is the document) */
static bool is_child(const char *path, const char *prefix)
{
    size_t size = strlen(prefix);
    if (size == 0) {
        return strchr(path, '.') == NULL;
    }
    return strncmp(path, prefix, size) == 0 && path[size] == '.' &&
           strchr(path + size + 1, '.') == NULL;
}

/* A key beside this one that reads alike, or else the same word in another group. */
static void find_hint(const struct table *table, const char *prefix, const char *word, char *hint,
                      size_t size)
{
    const char *siblings[SIBLINGS_MAX];
    size_t count = 0;
    for (size_t index = 0; index < table->count && count < SIBLINGS_MAX; index++) {
        if (is_child(table->keys[index].path, prefix)) {
            siblings[count] = last_word(table->keys[index].path);
            count++;
        }
    }
    const char *closest = text_closest(word, siblings, count);
    for (size_t index = 0; closest == NULL && index < table->count; index++) {
        if (text_equal(last_word(table->keys[index].path), word)) {
            closest = table->keys[index].path;
        }
    }
    (void)text_copy(hint, size, closest != NULL ? closest : "");
}

static void report_unknown(const struct config_tree *tree, uint32_t index,
                           const struct table *table, const char *prefix)
{
    const struct config_node *node = &tree->nodes[index];
    char path[PATH_TEXT_SIZE];
    char hint[sizeof(((struct config_problem *)NULL)->hint)];
    if (tree->report->count == CONFIG_PROBLEMS_MAX) {
        tree->report->total++; /* nobody will read it: spare the search for a hint */
        return;
    }
    config_tree_path(tree, index, path, sizeof(path));
    find_hint(table, prefix, config_tree_text(tree, node->key), hint, sizeof(hint));
    if (hint[0] != '\0') {
        config_problem_add(tree->report, node->key_line, node->key_column, path, hint,
                           "no such key; did you mean %s?", hint);
    } else {
        config_problem_add(tree->report, node->key_line, node->key_column, path, "", "no such key");
    }
}

/* Reports the unknown children of one group. */
static void check_children(const struct config_tree *tree, uint32_t group,
                           const struct table *table, const char *prefix)
{
    for (uint32_t child = tree->nodes[group].first_child; child != CONFIG_NODE_NONE;
         child = tree->nodes[child].next) {
        const char *word = config_tree_text(tree, tree->nodes[child].key);
        char path[PATH_TEXT_SIZE];
        bool whole =
            text_format(path, sizeof(path), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", word);
        /* A dot in a word of the document is no path of the table. */
        if (!whole || strchr(word, '.') != NULL ||
            (find_key(table, path) == NULL && !is_group(table, path))) {
            report_unknown(tree, child, table, prefix);
        }
    }
}

static void report_not_group(const struct config_tree *tree, uint32_t index)
{
    const struct config_node *node = &tree->nodes[index];
    char path[PATH_TEXT_SIZE];
    config_tree_path(tree, index, path, sizeof(path));
    config_problem_add(tree->report, node->line, node->column, path, "",
                       "expects keys of its own below it, not %s",
                       node->kind == NODE_LIST ? "a list" : "one value");
}

static bool is_nothing(const struct config_tree *tree, uint32_t index)
{
    const struct config_node *node = &tree->nodes[index];
    return node->kind == NODE_SCALAR &&
           (node->form == SCALAR_NULL || (node->form == SCALAR_WORD && node->plain &&
                                          config_tree_text(tree, node->text)[0] == '\0'));
}

/* One group of the table, when the document has it. */
static void check_group(const struct config_tree *tree, const struct table *table, const char *path)
{
    uint32_t index = config_tree_find(tree, path);
    if (index == CONFIG_NODE_NONE || tree->nodes[index].faulty) {
        return;
    }
    if (tree->nodes[index].kind == NODE_MAP) {
        check_children(tree, index, table, path);
    } else if (!is_nothing(tree, index)) {
        report_not_group(tree, index);
    }
}

/* Every group of the table once: at its own row, or without one at its first key. */
static void check_groups(const struct config_tree *tree, const struct table *table)
{
    check_children(tree, 0, table, "");
    for (size_t index = 0; index < table->count; index++) {
        const char *path = table->keys[index].path;
        if (table->keys[index].type == CONFIG_GROUP) {
            check_group(tree, table, path);
        }
        const char *before = index > 0 ? table->keys[index - 1].path : "";
        for (const char *dot = strchr(path, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
            size_t size = (size_t)(dot - path);
            char group[PATH_TEXT_SIZE];
            CHECK(size < sizeof(group));
            /* Keys of a group stand together, so the one before tells whether it is new. */
            bool seen = strncmp(before, path, size) == 0 && before[size] == '.';
            memcpy(group, path, size);
            group[size] = '\0';
            if (!seen && find_key(table, group) == NULL) {
                check_group(tree, table, group);
            }
        }
    }
}

/* ---- values ------------------------------------------------------------------------------ */

/* Puts value at a dotted path, making groups on the way. Steals value. */
static void set_path(json_t *root, const char *path, json_t *value)
{
    json_t *object = root;
    for (;;) {
        size_t size = strcspn(path, ".");
        char word[PATH_TEXT_SIZE];
        CHECK(size < sizeof(word));
        memcpy(word, path, size);
        word[size] = '\0';
        if (path[size] == '\0') {
            int result = json_object_set_new(object, word, value);
            CHECK(result == 0);
            return;
        }
        json_t *group = json_object_get(object, word);
        if (group == NULL) {
            group = json_object();
            int result = json_object_set_new(object, word, group);
            CHECK(result == 0);
        }
        object = group;
        path += size + 1;
    }
}

/* The position that a missing key is reported at: its closest group that the document has. */
static const struct config_node *closest_group(const struct config_tree *tree, const char *path)
{
    const struct config_node *found = &tree->nodes[0];
    uint32_t index = 0;
    for (;;) {
        size_t size = strcspn(path, ".");
        index = config_tree_child(tree, index, path, size);
        if (index == CONFIG_NODE_NONE || path[size] == '\0') {
            return found;
        }
        found = &tree->nodes[index];
        path += size + 1;
    }
}

/* A required key of a group that is not there is not missed when the group itself is. */
static bool parent_is_missed(const struct config_tree *tree, const struct table *table,
                             const char *path)
{
    char parent[PATH_TEXT_SIZE];
    const char *dot = strrchr(path, '.');
    if (dot == NULL) {
        return false;
    }
    memcpy(parent, path, (size_t)(dot - path));
    parent[dot - path] = '\0';
    const struct config_key *group = find_key(table, parent);
    return group != NULL && group->required && config_tree_find(tree, parent) == CONFIG_NODE_NONE;
}

static void report_missing(const struct config_tree *tree, const struct table *table,
                           const struct config_key *key)
{
    if (parent_is_missed(tree, table, key->path)) {
        return;
    }
    const struct config_node *group = closest_group(tree, key->path);
    config_problem_add(tree->report, group->key_line, group->key_column, key->path, "",
                       "is missing: %s", key->doc != NULL ? key->doc : "this key is required");
}

static void take_key(const struct config_tree *tree, const struct table *table,
                     const struct config_key *key, json_t *root, json_t *lines)
{
    uint32_t index = config_tree_find(tree, key->path);
    if (index == CONFIG_NODE_NONE) {
        if (key->required) {
            report_missing(tree, table, key);
        } else if (key->default_text != NULL && key->type != CONFIG_GROUP) {
            set_path(root, key->path, config_value_of_default(key));
        }
        return;
    }
    const struct config_node *node = &tree->nodes[index];
    json_t *value = NULL;
    if (key->type != CONFIG_GROUP) {
        value = config_value_of_node(tree, index, key);
        if (value == NULL && key->default_text != NULL) {
            value = config_value_of_default(key); /* for those who go on checking */
        }
    } else if (config_get(root, key->path) == NULL) {
        value = json_object();
    }
    if (value != NULL) {
        set_path(root, key->path, value);
    }
    if (node->key_line > 0) {
        json_t *place = json_pack("[i, i]", node->key_line, node->key_column);
        int result = json_object_set_new(lines, key->path, place);
        CHECK(result == 0);
    }
}

/* Takes the document apart by the table. New. */
static json_t *take_tree(const struct config_tree *tree, const struct table *table)
{
    json_t *root = json_object();
    json_t *lines = json_object();
    CHECK(root != NULL && lines != NULL);
    check_groups(tree, table);
    for (size_t index = 0; index < table->count; index++) {
        take_key(tree, table, &table->keys[index], root, lines);
    }
    if (json_object_size(lines) > 0) {
        int result = json_object_set(root, CONFIG_LINES_KEY, lines);
        CHECK(result == 0);
    }
    json_decref(lines);
    return root;
}

/* What all readers share: the tree has been read with `result`. */
static int finish(struct config_tree *tree, int result, const struct config_key *keys,
                  size_t key_count, json_t **ret_tree)
{
    *ret_tree = NULL;
    const struct table table = {.keys = keys, .count = key_count};
    if (result == 0 && tree->count == 0) { /* an empty document is a map without keys */
        struct config_node root = {.kind = NODE_MAP, .line = 1, .column = 1};
        uint32_t index = 0;
        root.key_line = 1;
        root.key_column = 1;
        result = config_tree_add(tree, CONFIG_NODE_NONE, &root, &index);
    }
    if (result == 0 && tree->nodes[0].kind != NODE_MAP) {
        config_problem_add(tree->report, tree->nodes[0].line, tree->nodes[0].column, "", "",
                           "the document must be a map of keys");
        result = -EINVAL;
    }
    if (result == 0) {
        *ret_tree = take_tree(tree, &table);
        result = tree->report->total > 0 ? -EINVAL : 0;
    }
    config_tree_done(tree);
    return result;
}

int config_read_yaml(const char *text, size_t size, const struct config_key *keys, size_t key_count,
                     json_t **ret_tree, struct config_report *report)
{
    *report = (struct config_report){.count = 0};
    *ret_tree = NULL;
    if (size > CONFIG_SIZE_MAX) {
        config_problem_add(report, 1, 1, "", "", "the document has %zu bytes: at most %d are taken",
                           size, CONFIG_SIZE_MAX);
        return -E2BIG;
    }
    struct config_tree tree;
    config_tree_init(&tree, report);
    int result = config_yaml_read(&tree, text, size);
    return finish(&tree, result, keys, key_count, ret_tree);
}

int config_read_json(const json_t *json, const struct config_key *keys, size_t key_count,
                     json_t **ret_tree, struct config_report *report)
{
    *report = (struct config_report){.count = 0};
    struct config_tree tree;
    config_tree_init(&tree, report);
    int result = config_json_read(&tree, json);
    return finish(&tree, result, keys, key_count, ret_tree);
}

/* A tree with faults is for those who asked for it. */
static int all_or_nothing(int result, json_t *tree, json_t **ret_tree)
{
    if (result == 0) {
        *ret_tree = tree;
    } else {
        json_decref(tree);
    }
    return result;
}

int config_parse_yaml(const char *text, size_t size, const struct config_key *keys,
                      size_t key_count, json_t **ret_tree, struct config_report *report)
{
    json_t *tree = NULL;
    int result = config_read_yaml(text, size, keys, key_count, &tree, report);
    return all_or_nothing(result, tree, ret_tree);
}

int config_parse_json(const json_t *json, const struct config_key *keys, size_t key_count,
                      json_t **ret_tree, struct config_report *report)
{
    json_t *tree = NULL;
    int result = config_read_json(json, keys, key_count, &tree, report);
    return all_or_nothing(result, tree, ret_tree);
}

bool config_has_problem(const struct config_report *report, const char *path)
{
    size_t size = strlen(path);
    for (size_t index = 0; index < report->count; index++) {
        const char *other = report->problems[index].path;
        if (strncmp(other, path, size) == 0 &&
            (other[size] == '\0' || other[size] == '.' || other[size] == '[')) {
            return true;
        }
    }
    return false;
}

/* ---- access ------------------------------------------------------------------------------ */

const json_t *config_get(const json_t *tree, const char *path)
{
    const json_t *json = tree;
    while (json != NULL) {
        size_t size = strcspn(path, ".");
        char word[PATH_TEXT_SIZE];
        CHECK(size < sizeof(word));
        memcpy(word, path, size);
        word[size] = '\0';
        json = json_object_get(json, word);
        if (path[size] == '\0') {
            break;
        }
        path += size + 1;
    }
    return json;
}

static int place_of(const json_t *tree, const char *path, size_t which)
{
    const json_t *place = json_object_get(json_object_get(tree, CONFIG_LINES_KEY), path);
    return (int)json_integer_value(json_array_get(place, which));
}

int config_line(const json_t *tree, const char *path)
{
    return place_of(tree, path, 0);
}

int config_column(const json_t *tree, const char *path)
{
    return place_of(tree, path, 1);
}

void config_lines_drop(json_t *tree)
{
    (void)json_object_del(tree, CONFIG_LINES_KEY); /* -1: a tree from JSON has none */
}

int64_t config_int(const json_t *tree, const char *path)
{
    const json_t *json = config_get(tree, path);
    CHECK(json_is_integer(json));
    return json_integer_value(json);
}

const char *config_text(const json_t *tree, const char *path)
{
    const json_t *json = config_get(tree, path);
    CHECK(json == NULL || json_is_string(json));
    return json != NULL ? json_string_value(json) : "";
}

bool config_bool(const json_t *tree, const char *path)
{
    const json_t *json = config_get(tree, path);
    CHECK(json_is_boolean(json));
    return json_is_true(json);
}
