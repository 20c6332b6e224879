/* config_yaml.c: YAML text to nodes, with libyaml's event parser.
 *
 * The open containers form a stack of at most CONFIG_DEPTH_MAX; the nesting of the input never
 * becomes ours. A fault of form that leaves the structure clear (an anchor, a tag, a key twice) is
 * reported and reading goes on; after a syntax error nothing that follows can be trusted. */
#include "proto/base/config_tree.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

struct open_node {
    uint32_t index;
    bool is_map;
    bool has_key; /* map: a key was read and its value comes next */
    bool is_key;  /* this container stands where a key should: its content is dropped */
    bool bad_key; /* the value that comes next has no usable key: it is cut off */
    uint32_t key; /* text offset */
    int key_line, key_column;
};

struct reader {
    struct config_tree *tree;
    struct open_node open[CONFIG_DEPTH_MAX];
    size_t depth;
    unsigned documents;
    bool done;
};

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static int column_of(const yaml_event_t *event)
{
    return (int)event->start_mark.column + 1;
}

/* The path of what is being read, for a problem. */
static void path_here(const struct reader *reader, char *target, size_t size)
{
    target[0] = '\0';
    if (reader->depth == 0) {
        return;
    }
    const struct open_node *top = &reader->open[reader->depth - 1];
    config_tree_path(reader->tree, top->index, target, size);
    size_t used = strlen(target);
    if (top->is_map && top->has_key && !top->bad_key) {
        (void)text_format(target + used, size - used, "%s%s", used > 0 ? "." : "",
                          config_tree_text(reader->tree, top->key));
    }
}

static void complain(const struct reader *reader, const yaml_event_t *event, const char *text)
{
    char path[sizeof(((struct config_problem *)NULL)->path)];
    path_here(reader, path, sizeof(path));
    config_problem_add(reader->tree->report, line_of(event), column_of(event), path, "", "%s",
                       text);
}

static void complain_of_anchor(const struct reader *reader, const yaml_event_t *event,
                               const yaml_char_t *anchor)
{
    if (anchor != NULL) {
        complain(reader, event, "anchors (&name) are not taken: write the value out");
    }
}

static void complain_of_tag(const struct reader *reader, const yaml_event_t *event,
                            const yaml_char_t *tag)
{
    if (tag != NULL) {
        complain(reader, event, "tags (!type) are not taken: the key says what its value is");
    }
}

/* Tells the innermost map that its value is complete. */
static void value_done(struct reader *reader)
{
    if (reader->depth > 0) {
        struct open_node *top = &reader->open[reader->depth - 1];
        top->has_key = false;
        top->bad_key = false;
    }
}

static bool expects_key(const struct reader *reader)
{
    if (reader->depth == 0) {
        return false;
    }
    const struct open_node *top = &reader->open[reader->depth - 1];
    return top->is_map && !top->has_key;
}

static void fill_key(const struct reader *reader, const yaml_event_t *event,
                     struct config_node *node, uint32_t *ret_parent)
{
    node->line = line_of(event);
    node->column = column_of(event);
    node->key_line = node->line;
    node->key_column = node->column;
    *ret_parent = CONFIG_NODE_NONE;
    if (reader->depth == 0) {
        return;
    }
    const struct open_node *top = &reader->open[reader->depth - 1];
    if (top->is_map && top->has_key && !top->bad_key) {
        node->key = top->key;
        node->key_line = top->key_line;
        node->key_column = top->key_column;
    }
    if (!top->bad_key && !(top->is_map && !top->has_key)) {
        *ret_parent = top->index;
    }
}

/* A scalar where a key is expected. */
static int read_key(struct reader *reader, const yaml_event_t *event)
{
    struct open_node *top = &reader->open[reader->depth - 1];
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    complain_of_anchor(reader, event, event->data.scalar.anchor);
    complain_of_tag(reader, event, event->data.scalar.tag);
    top->has_key = true;
    top->key_line = line_of(event);
    top->key_column = column_of(event);
    top->bad_key = true;
    if (size == 2 && memcmp(text, "<<", 2) == 0) {
        complain(reader, event, "merge keys (<<) are not taken: write the values out");
        return 0;
    }
    int result =
        config_tree_add_text(reader->tree, text, size, top->key_line, top->key_column, &top->key);
    if (result != 0) {
        return result == -EINVAL ? 0 : result;
    }
    uint32_t twin = config_tree_child(reader->tree, top->index, text, size);
    top->bad_key = false;
    if (twin != CONFIG_NODE_NONE) {
        char path[sizeof(((struct config_problem *)NULL)->path)];
        path_here(reader, path, sizeof(path));
        config_problem_add(reader->tree->report, top->key_line, top->key_column, path, "",
                           "this key is here twice: the first is in line %d",
                           reader->tree->nodes[twin].key_line);
        top->bad_key = true;
    }
    return 0;
}

static int read_scalar(struct reader *reader, const yaml_event_t *event)
{
    if (expects_key(reader)) {
        return read_key(reader, event);
    }
    complain_of_anchor(reader, event, event->data.scalar.anchor);
    complain_of_tag(reader, event, event->data.scalar.tag);
    uint32_t parent = CONFIG_NODE_NONE;
    struct config_node node = {.kind = NODE_SCALAR, .form = SCALAR_WORD};
    fill_key(reader, event, &node, &parent);
    node.plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    int result =
        config_tree_add_text(reader->tree, (const char *)event->data.scalar.value,
                             event->data.scalar.length, node.line, node.column, &node.text);
    if (result == -EINVAL) {
        node.faulty = true;
    } else if (result < 0) {
        return result;
    }
    uint32_t index = 0;
    result = config_tree_add(reader->tree, parent, &node, &index);
    value_done(reader);
    return result;
}

static int open_container(struct reader *reader, const yaml_event_t *event,
                          enum config_node_kind kind)
{
    if (reader->depth == CONFIG_DEPTH_MAX) {
        complain(reader, event, "nested too deeply: at most 16 levels");
        return -EINVAL;
    }
    bool is_key = expects_key(reader);
    if (is_key) {
        complain(reader, event, "a key must be a plain word");
    }
    uint32_t parent = CONFIG_NODE_NONE;
    struct config_node node = {.kind = kind};
    fill_key(reader, event, &node, &parent);
    uint32_t index = 0;
    int result = config_tree_add(reader->tree, parent, &node, &index);
    if (result < 0) {
        return result;
    }
    reader->open[reader->depth] =
        (struct open_node){.index = index, .is_map = kind == NODE_MAP, .is_key = is_key};
    reader->depth++;
    return 0;
}

static void close_container(struct reader *reader)
{
    CHECK(reader->depth > 0);
    reader->depth--;
    if (!reader->open[reader->depth].is_key) {
        value_done(reader);
        return;
    }
    CHECK(reader->depth > 0);
    struct open_node *top = &reader->open[reader->depth - 1];
    top->has_key = true;
    top->bad_key = true;
}

static int read_alias(struct reader *reader, const yaml_event_t *event)
{
    complain(reader, event, "aliases (*name) are not taken: write the value out");
    if (expects_key(reader)) {
        struct open_node *top = &reader->open[reader->depth - 1];
        top->has_key = true;
        top->bad_key = true;
        return 0;
    }
    uint32_t parent = CONFIG_NODE_NONE;
    struct config_node node = {.kind = NODE_SCALAR, .form = SCALAR_WORD, .faulty = true};
    fill_key(reader, event, &node, &parent);
    uint32_t index = 0;
    int result = config_tree_add(reader->tree, parent, &node, &index);
    value_done(reader);
    return result;
}

static int read_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    case YAML_STREAM_END_EVENT:
        reader->done = true;
        return 0;
    case YAML_DOCUMENT_START_EVENT:
        reader->documents++;
        if (reader->documents > 1) {
            complain(reader, event, "a second document begins here: only one is taken");
            reader->done = true; /* the first one is whole and still worth checking */
        }
        return 0;
    case YAML_ALIAS_EVENT:
        return read_alias(reader, event);
    case YAML_SCALAR_EVENT:
        return read_scalar(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        complain_of_anchor(reader, event, event->data.sequence_start.anchor);
        complain_of_tag(reader, event, event->data.sequence_start.tag);
        return open_container(reader, event, NODE_LIST);
    case YAML_MAPPING_START_EVENT:
        complain_of_anchor(reader, event, event->data.mapping_start.anchor);
        complain_of_tag(reader, event, event->data.mapping_start.tag);
        return open_container(reader, event, NODE_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_container(reader);
        return 0;
    }
    CHECK(false);
    return -EINVAL;
}

/* The reader of bytes knows an offset only; the line is counted here. */
static int line_of_offset(const char *text, size_t size, size_t offset)
{
    int line = 1;
    for (size_t index = 0; index < size && index < offset; index++) {
        line += text[index] == '\n';
    }
    return line;
}

static void syntax_error(const yaml_parser_t *parser, struct config_tree *tree, const char *text,
                         size_t size)
{
    const char *problem = parser->problem != NULL ? parser->problem : "out of memory";
    if (parser->error == YAML_READER_ERROR) {
        config_problem_add(tree->report, line_of_offset(text, size, parser->problem_offset), 1, "",
                           "", "not readable as UTF-8 text: %s", problem);
        return;
    }
    config_problem_add(tree->report, (int)parser->problem_mark.line + 1,
                       (int)parser->problem_mark.column + 1, "", "", "not YAML: %s%s%s", problem,
                       parser->context != NULL ? ", " : "",
                       parser->context != NULL ? parser->context : "");
}

static int read_all(struct reader *reader, yaml_parser_t *parser, const char *text, size_t size)
{
    while (!reader->done) {
        yaml_event_t event;
        if (yaml_parser_parse(parser, &event) == 0) {
            syntax_error(parser, reader->tree, text, size);
            return -EINVAL;
        }
        int result = read_event(reader, &event);
        yaml_event_delete(&event);
        if (result == -EMSGSIZE) {
            config_problem_add(reader->tree->report, 0, 0, "", "", "the document is too long");
        }
        if (result < 0) {
            return -EINVAL;
        }
    }
    return 0;
}

int config_yaml_read(struct config_tree *tree, const char *text, size_t size)
{
    yaml_parser_t parser;
    if (yaml_parser_initialize(&parser) == 0) {
        config_problem_add(tree->report, 0, 0, "", "", "out of memory");
        return -EINVAL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    struct reader reader = {.tree = tree};
    int result = read_all(&reader, &parser, text, size);
    yaml_parser_delete(&parser);
    return result;
}
