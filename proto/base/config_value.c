/* config_value.c: one value by the type that its key has. A YAML word and a JSON string are read
 * in the same way where a text is a natural form (a duration, a size); a JSON number is taken for
 * what config.h says the stored form is, so that a stored tree reads back as itself. */
#include "proto/base/config_tree.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/duration.h"
#include "proto/base/text.h"

enum { RATIO_DIGITS = 6, RATIO_ONE = 1000000, ENUM_WORDS_MAX = 32, ENUM_TEXT_SIZE = 256 };

/* What a scalar says, wherever it comes from. */
struct scalar {
    enum config_scalar_form form;
    bool plain;
    const char *text;
    int64_t integer;
    double real;
};

static bool is_text(const struct scalar *scalar)
{
    return scalar->form == SCALAR_WORD || scalar->form == SCALAR_STRING;
}

static bool same_word(const char *text, const char *word)
{
    size_t index = 0;
    for (; word[index] != '\0'; index++) {
        char byte = text[index];
        if (byte >= 'A' && byte <= 'Z') {
            byte = (char)(byte - 'A' + 'a');
        }
        if (byte != word[index]) {
            return false;
        }
    }
    return text[index] == '\0';
}

static int read_bool(const struct scalar *scalar, bool *ret_value, struct err *err)
{
    if (scalar->form == SCALAR_BOOLEAN) {
        *ret_value = scalar->integer != 0;
        return 0;
    }
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    for (size_t index = 0; scalar->form == SCALAR_WORD && index < ARRAY_SIZE(words); index++) {
        if (same_word(scalar->text, words[index])) {
            *ret_value = index % 2 == 1;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "expects true or false");
}

static int read_int(const struct scalar *scalar, int64_t *ret_value, struct err *err)
{
    if (scalar->form == SCALAR_INTEGER) {
        *ret_value = scalar->integer;
        return 0;
    }
    if (scalar->form != SCALAR_WORD) {
        return err_set(err, -EINVAL, "expects a whole number");
    }
    const char *digits = scalar->text + (scalar->text[0] == '-');
    if (digits[0] == '0' && digits[1] != '\0') {
        return err_set(err, -EINVAL, "expects a whole number without leading zeros, not '%.32s'",
                       scalar->text);
    }
    int result = text_to_i64(scalar->text, INT64_MIN, INT64_MAX, ret_value);
    if (result == -ERANGE) {
        return err_set(err, result, "the number '%.32s' is too large", scalar->text);
    }
    if (result < 0) {
        return err_set(err, result, "expects a whole number, not '%.32s'", scalar->text);
    }
    return 0;
}

static int read_duration(const struct scalar *scalar, int64_t *ret_ms, struct err *err)
{
    if (scalar->form == SCALAR_INTEGER && scalar->integer >= 0) {
        *ret_ms = scalar->integer;
        return 0;
    }
    if (!is_text(scalar)) {
        return err_set(err, -EINVAL, "expects a duration, as in 90s, 10m or 1h30m");
    }
    uint64_t ms = 0;
    int result = duration_parse(scalar->text, &ms, err);
    if (result == 0) {
        *ret_ms = (int64_t)ms; /* at most 100 years */
    }
    return result;
}

static int read_size(const struct scalar *scalar, int64_t *ret_bytes, struct err *err)
{
    if (scalar->form == SCALAR_INTEGER && scalar->integer >= 0) {
        *ret_bytes = scalar->integer;
        return 0;
    }
    if (!is_text(scalar)) {
        return err_set(err, -EINVAL, "expects a size, as in 64KiB or 1GiB");
    }
    uint64_t bytes = 0;
    int result = size_parse(scalar->text, &bytes, err);
    if (result == 0 && bytes > INT64_MAX) {
        return err_set(err, -ERANGE, "'%.32s' is too large a size", scalar->text);
    }
    if (result == 0) {
        *ret_bytes = (int64_t)bytes;
    }
    return result;
}

static int ratio_error(struct err *err, const char *text)
{
    return err_set(err, -EINVAL,
                   "expects a decimal number with at most %d places, as in 1.10, not '%.32s'",
                   RATIO_DIGITS, text);
}

/* "1.10" to 1100000, exactly. */
static int read_ratio_text(const char *text, int64_t *ret_ppm, struct err *err)
{
    const char *cursor = text + (text[0] == '-');
    int64_t ppm = 0;
    int places = -1; /* -1: no point yet */
    if (*cursor == '\0' || *cursor == '.') {
        return ratio_error(err, text);
    }
    for (; *cursor != '\0'; cursor++) {
        if (*cursor == '.' && places < 0 && cursor[1] != '\0') {
            places = 0;
            continue;
        }
        if (*cursor < '0' || *cursor > '9' || places == RATIO_DIGITS) {
            return ratio_error(err, text);
        }
        if (ppm > INT64_MAX / 10 / RATIO_ONE / 10) {
            return ratio_error(err, text);
        }
        ppm = ppm * 10 + (*cursor - '0');
        places += places >= 0;
    }
    for (int place = places < 0 ? 0 : places; place < RATIO_DIGITS; place++) {
        ppm *= 10;
    }
    *ret_ppm = text[0] == '-' ? -ppm : ppm;
    return 0;
}

static int read_ratio(const struct scalar *scalar, int64_t *ret_ppm, struct err *err)
{
    if (scalar->form == SCALAR_INTEGER) {
        *ret_ppm = scalar->integer;
        return 0;
    }
    if (scalar->form == SCALAR_REAL) {
        double ppm = scalar->real * RATIO_ONE;
        if (ppm > -1e15 && ppm < 1e15) {
            *ret_ppm = (int64_t)(ppm < 0 ? ppm - 0.5 : ppm + 0.5);
            return 0;
        }
        return err_set(err, -EINVAL, "the number is too large");
    }
    if (!is_text(scalar)) {
        return err_set(err, -EINVAL, "expects a decimal number, as in 1.10");
    }
    return read_ratio_text(scalar->text, ret_ppm, err);
}

/* ---- limits ------------------------------------------------------------------------------ */

/* A limit as a person would write it. */
static void show_limit(enum config_type type, int64_t value, char target[DURATION_TEXT_SIZE])
{
    switch (type) {
    case CONFIG_DURATION:
    case CONFIG_AUTO_DURATION:
        duration_format((uint64_t)value, target);
        return;
    case CONFIG_RATIO:
        (void)text_format(target, DURATION_TEXT_SIZE, "%s%lld.%06lld", value < 0 ? "-" : "",
                          (long long)(value < 0 ? -(value / RATIO_ONE) : value / RATIO_ONE),
                          (long long)(value < 0 ? -(value % RATIO_ONE) : value % RATIO_ONE));
        return;
    case CONFIG_SIZE:
        (void)text_format(target, DURATION_TEXT_SIZE, "%lld bytes", (long long)value);
        return;
    case CONFIG_BOOL:
    case CONFIG_INT:
    case CONFIG_TEXT:
    case CONFIG_NAME:
    case CONFIG_ENUM:
    case CONFIG_AUTO_INT:
    case CONFIG_TEXT_LIST:
    case CONFIG_INT_LIST:
    case CONFIG_TEXT_MAP:
    case CONFIG_GROUP:
        break;
    }
    (void)text_format(target, DURATION_TEXT_SIZE, "%lld", (long long)value);
}

static int check_limits(const struct config_key *key, int64_t value, const char *what,
                        struct err *err)
{
    if ((key->min == 0 && key->max == 0) || (value >= key->min && value <= key->max)) {
        return 0;
    }
    char low[DURATION_TEXT_SIZE];
    char high[DURATION_TEXT_SIZE];
    show_limit(key->type, key->min, low);
    show_limit(key->type, key->max, high);
    if (key->max == INT64_MAX) {
        return err_set(err, -ERANGE, "%s: at least %s is needed", what, low);
    }
    return err_set(err, -ERANGE, "%s: from %s to %s", what, low, high);
}

/* ---- words ------------------------------------------------------------------------------- */

/* Cuts "a|b|c" into words in a buffer. */
static size_t split_words(const char *words, char buffer[ENUM_TEXT_SIZE],
                          const char *list[ENUM_WORDS_MAX])
{
    bool whole = text_copy(buffer, ENUM_TEXT_SIZE, words);
    CHECK(whole);
    size_t count = 0;
    char *cursor = buffer;
    for (;;) {
        CHECK(count < ENUM_WORDS_MAX);
        list[count] = cursor;
        count++;
        size_t size = strcspn(cursor, "|");
        if (cursor[size] == '\0') {
            return count;
        }
        cursor[size] = '\0';
        cursor += size + 1;
    }
}

static int read_enum(const struct scalar *scalar, const struct config_key *key, struct err *err)
{
    char buffer[ENUM_TEXT_SIZE];
    const char *list[ENUM_WORDS_MAX];
    size_t count = split_words(key->words, buffer, list);
    for (size_t index = 0; is_text(scalar) && index < count; index++) {
        if (text_equal(scalar->text, list[index])) {
            return 0;
        }
    }
    return err_set(err, -EINVAL, "expects one of %s%s%.32s%s", key->words,
                   is_text(scalar) ? ", not '" : "", is_text(scalar) ? scalar->text : "",
                   is_text(scalar) ? "'" : "");
}

static void hint_enum(const struct config_key *key, const char *text, char *hint, size_t size)
{
    char buffer[ENUM_TEXT_SIZE];
    const char *list[ENUM_WORDS_MAX];
    size_t count = split_words(key->words, buffer, list);
    const char *closest = text_closest(text, list, count);
    (void)text_copy(hint, size, closest != NULL ? closest : "");
}

/* ---- one scalar -------------------------------------------------------------------------- */

/* A number in the unit that is stored. */
static json_t *number_value(const struct scalar *scalar, const struct config_key *key,
                            int (*read)(const struct scalar *, int64_t *, struct err *),
                            struct err *err)
{
    int64_t value = 0;
    if (read(scalar, &value, err) < 0 || check_limits(key, value, "out of range", err) < 0) {
        return NULL;
    }
    json_t *json = json_integer(value);
    CHECK(json != NULL);
    return json;
}

static json_t *text_value(const char *text)
{
    json_t *json = json_string(text);
    CHECK(json != NULL); /* texts of the tree are UTF-8 */
    return json;
}

static bool is_auto(const struct scalar *scalar)
{
    return is_text(scalar) && text_equal(scalar->text, "auto");
}

static json_t *plain_text_value(const struct scalar *scalar, struct err *err)
{
    if (!is_text(scalar)) {
        (void)err_set(err, -EINVAL, "expects a text");
        return NULL;
    }
    if (scalar->plain && scalar->text[0] == '\0') {
        (void)err_set(err, -EINVAL, "has no value: write \"\" for an empty text");
        return NULL;
    }
    return text_value(scalar->text);
}

static json_t *name_value(const struct scalar *scalar, struct err *err)
{
    if (!is_text(scalar) || !text_is_name(scalar->text, 64)) {
        (void)err_set(err, -EINVAL,
                      "expects a name: a letter or digit, then letters, digits, '.', '_', '-', "
                      "under 64 characters");
        return NULL;
    }
    return text_value(scalar->text);
}

static json_t *scalar_value(const struct scalar *scalar, const struct config_key *key,
                            struct err *err)
{
    bool truth = false;
    switch (key->type) {
    case CONFIG_BOOL:
        return read_bool(scalar, &truth, err) < 0 ? NULL : json_boolean(truth);
    case CONFIG_AUTO_INT:
        if (is_auto(scalar)) {
            return text_value("auto");
        }
        return number_value(scalar, key, read_int, err);
    case CONFIG_INT:
        return number_value(scalar, key, read_int, err);
    case CONFIG_AUTO_DURATION:
        if (is_auto(scalar)) {
            return text_value("auto");
        }
        return number_value(scalar, key, read_duration, err);
    case CONFIG_DURATION:
        return number_value(scalar, key, read_duration, err);
    case CONFIG_SIZE:
        return number_value(scalar, key, read_size, err);
    case CONFIG_RATIO:
        return number_value(scalar, key, read_ratio, err);
    case CONFIG_TEXT:
        return plain_text_value(scalar, err);
    case CONFIG_NAME:
        return name_value(scalar, err);
    case CONFIG_ENUM:
        return read_enum(scalar, key, err) < 0 ? NULL : text_value(scalar->text);
    case CONFIG_TEXT_LIST:
    case CONFIG_INT_LIST:
    case CONFIG_TEXT_MAP:
    case CONFIG_GROUP:
        break;
    }
    CHECK(false);
    return NULL;
}

/* ---- nodes ------------------------------------------------------------------------------- */

static struct scalar scalar_of_node(const struct config_tree *tree, const struct config_node *node)
{
    return (struct scalar){.form = node->form,
                           .plain = node->plain,
                           .text = config_tree_text(tree, node->text),
                           .integer = node->integer,
                           .real = node->real};
}

static bool is_empty_word(const struct config_tree *tree, const struct config_node *node)
{
    return node->kind == NODE_SCALAR &&
           (node->form == SCALAR_NULL || (node->form == SCALAR_WORD && node->plain &&
                                          config_tree_text(tree, node->text)[0] == '\0'));
}

static void report_node(const struct config_tree *tree, uint32_t index, const char *hint,
                        const char *text)
{
    const struct config_node *node = &tree->nodes[index];
    char path[sizeof(((struct config_problem *)NULL)->path)];
    config_tree_path(tree, index, path, sizeof(path));
    config_problem_add(tree->report, node->line, node->column, path, hint, "%s", text);
}

static json_t *scalar_of(const struct config_tree *tree, uint32_t index,
                         const struct config_key *key)
{
    const struct config_node *node = &tree->nodes[index];
    char hint[sizeof(((struct config_problem *)NULL)->hint)] = "";
    struct err err = {.code = 0};
    if (node->faulty) {
        return NULL;
    }
    if (node->kind != NODE_SCALAR) {
        report_node(tree, index, "",
                    node->kind == NODE_MAP ? "expects one value, not a map of keys"
                                           : "expects one value, not a list");
        return NULL;
    }
    const struct scalar scalar = scalar_of_node(tree, node);
    if (is_empty_word(tree, node)) {
        report_node(tree, index, "",
                    key->type == CONFIG_TEXT ? "has no value: write \"\" for an empty text"
                                             : "has no value");
        return NULL;
    }
    json_t *value = scalar_value(&scalar, key, &err);
    if (value == NULL) {
        if (key->type == CONFIG_ENUM && is_text(&scalar)) {
            hint_enum(key, scalar.text, hint, sizeof(hint));
        }
        report_node(tree, index, hint, err.text);
    }
    return value;
}

/* The type of a list's or map's elements. */
static struct config_key element_key(const struct config_key *key)
{
    return (struct config_key){.path = key->path,
                               .type = key->type == CONFIG_INT_LIST ? CONFIG_INT : CONFIG_TEXT};
}

/* All elements are looked at, so that all their faults are told. */
static json_t *children_of(const struct config_tree *tree, uint32_t index,
                           const struct config_key *key)
{
    bool is_map = key->type == CONFIG_TEXT_MAP;
    const struct config_key element = element_key(key);
    json_t *json = is_map ? json_object() : json_array();
    CHECK(json != NULL);
    bool faulty = false;
    for (uint32_t child = tree->nodes[index].first_child; child != CONFIG_NODE_NONE;
         child = tree->nodes[child].next) {
        json_t *value = scalar_of(tree, child, &element);
        int result = 0;
        if (value == NULL) {
            faulty = true;
        } else if (is_map) {
            result =
                json_object_set_new(json, config_tree_text(tree, tree->nodes[child].key), value);
        } else {
            result = json_array_append_new(json, value);
        }
        CHECK(result == 0);
    }
    struct err err = {.code = 0};
    if (!faulty && check_limits(key, tree->nodes[index].child_count,
                                is_map ? "number of entries" : "number of elements", &err) < 0) {
        report_node(tree, index, "", err.text);
        faulty = true;
    }
    if (faulty) {
        json_decref(json);
        return NULL;
    }
    return json;
}

json_t *config_value_of_node(const struct config_tree *tree, uint32_t index,
                             const struct config_key *key)
{
    const struct config_node *node = &tree->nodes[index];
    bool is_map = key->type == CONFIG_TEXT_MAP;
    bool is_list = key->type == CONFIG_TEXT_LIST || key->type == CONFIG_INT_LIST;
    CHECK(key->type != CONFIG_GROUP);
    if (!is_map && !is_list) {
        return scalar_of(tree, index, key);
    }
    if (node->faulty) {
        return NULL;
    }
    /* `env:` with nothing behind it is an empty map. */
    if (!is_empty_word(tree, node) && node->kind != (is_map ? NODE_MAP : NODE_LIST)) {
        report_node(tree, index, "",
                    is_map ? "expects a map, as in {KEY: value}" : "expects a list, as in [a, b]");
        return NULL;
    }
    return children_of(tree, index, key);
}

/* "" is the empty list or map, "a,b" a list of two. */
static json_t *default_list(const struct config_key *key)
{
    const struct config_key element = element_key(key);
    json_t *list = json_array();
    const char *cursor = key->default_text;
    CHECK(list != NULL);
    while (*cursor != '\0') {
        char text[ENUM_TEXT_SIZE];
        size_t size = strcspn(cursor, ",");
        CHECK(size < sizeof(text));
        memcpy(text, cursor, size);
        text[size] = '\0';
        const struct scalar scalar = {.form = SCALAR_WORD, .text = text};
        json_t *value = scalar_value(&scalar, &element, NULL);
        CHECK(value != NULL);
        int result = json_array_append_new(list, value);
        CHECK(result == 0);
        cursor += size + (cursor[size] == ',');
    }
    return list;
}

json_t *config_value_of_default(const struct config_key *key)
{
    json_t *value = NULL;
    if (key->type == CONFIG_TEXT_MAP) {
        CHECK(key->default_text[0] == '\0');
        value = json_object();
    } else if (key->type == CONFIG_TEXT_LIST || key->type == CONFIG_INT_LIST) {
        value = default_list(key);
    } else {
        const struct scalar scalar = {.form = SCALAR_WORD, .text = key->default_text};
        value = scalar_value(&scalar, key, NULL);
    }
    CHECK(value != NULL);
    return value;
}
