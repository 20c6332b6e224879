/* config_json.c: a JSON value to nodes. jansson has checked the syntax, duplicate keys and UTF-8;
 * this walk bounds depth and size, and remembers what each scalar was. */
#include "proto/base/config_tree.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"

struct open_json {
    uint32_t index;
    const json_t *json;
    void *iterator;  /* of an object */
    size_t position; /* in an array */
};

struct walker {
    struct config_tree *tree;
    struct open_json open[CONFIG_DEPTH_MAX];
    size_t depth;
};

static enum config_scalar_form form_of(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_STRING:
        return SCALAR_STRING;
    case JSON_INTEGER:
        return SCALAR_INTEGER;
    case JSON_REAL:
        return SCALAR_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return SCALAR_BOOLEAN;
    case JSON_NULL:
        return SCALAR_NULL;
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    CHECK(false);
    return SCALAR_NULL;
}

static int add_scalar(struct walker *walker, uint32_t parent, struct config_node *node,
                      const json_t *json)
{
    node->kind = NODE_SCALAR;
    node->form = form_of(json);
    node->integer = json_is_boolean(json) ? json_is_true(json) : json_integer_value(json);
    node->real = json_real_value(json);
    if (json_is_string(json)) {
        int result = config_tree_add_text(walker->tree, json_string_value(json),
                                          json_string_length(json), 0, 0, &node->text);
        if (result == -EINVAL) {
            node->faulty = true;
        } else if (result < 0) {
            return result;
        }
    }
    uint32_t index = 0;
    return config_tree_add(walker->tree, parent, node, &index);
}

static int add_value(struct walker *walker, uint32_t parent, const char *key, const json_t *json)
{
    struct config_node node = {.kind = json_is_object(json) ? NODE_MAP : NODE_LIST};
    if (key != NULL) {
        int result = config_tree_add_text(walker->tree, key, strlen(key), 0, 0, &node.key);
        if (result < 0) {
            return result == -EINVAL ? 0 : result; /* reported: leave the entry out */
        }
    }
    if (!json_is_object(json) && !json_is_array(json)) {
        return add_scalar(walker, parent, &node, json);
    }
    if (walker->depth == CONFIG_DEPTH_MAX) {
        config_problem_add(walker->tree->report, 0, 0, "", "",
                           "nested too deeply: at most %d levels", CONFIG_DEPTH_MAX);
        return -EINVAL;
    }
    uint32_t index = 0;
    int result = config_tree_add(walker->tree, parent, &node, &index);
    if (result < 0) {
        return result;
    }
    /* jansson's iterators take a non-const object and change nothing in it. */
    void *iterator = json_is_object(json) ? json_object_iter((json_t *)(uintptr_t)json) : NULL;
    walker->open[walker->depth] =
        (struct open_json){.index = index, .json = json, .iterator = iterator};
    walker->depth++;
    return 0;
}

/* Adds the next entry of the innermost container, or closes it. */
static int step(struct walker *walker)
{
    struct open_json *top = &walker->open[walker->depth - 1];
    if (json_is_object(top->json) && top->iterator != NULL) {
        void *iterator = top->iterator;
        top->iterator = json_object_iter_next((json_t *)(uintptr_t)top->json, iterator);
        return add_value(walker, top->index, json_object_iter_key(iterator),
                         json_object_iter_value(iterator));
    }
    if (json_is_array(top->json) && top->position < json_array_size(top->json)) {
        size_t position = top->position;
        top->position++;
        return add_value(walker, top->index, NULL, json_array_get(top->json, position));
    }
    walker->depth--;
    return 0;
}

int config_json_read(struct config_tree *tree, const json_t *json)
{
    struct walker walker = {.tree = tree};
    int result = add_value(&walker, CONFIG_NODE_NONE, NULL, json);
    while (result == 0 && walker.depth > 0) {
        result = step(&walker);
    }
    if (result == -EMSGSIZE) {
        config_problem_add(tree->report, 0, 0, "", "", "the document is too long");
    }
    return result < 0 ? -EINVAL : 0;
}
