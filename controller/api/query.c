/* query.c: what a request says: its query and its JSON body, both known names alone. A name that
 * nobody reads is a spelling mistake, and guessing what was meant is how a dry run becomes a
 * drain. */
#include <string.h>

#include "controller/api/http.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { NAMES_MAX = 16, NAMES_TEXT_SIZE = 160, NAME_SEEN_MAX = 32 };

/* ---- names ----------------------------------------------------------------------------------- */

/* "a|b" as a list; buffer holds the texts. */
static size_t split_names(const char *names, char buffer[NAMES_TEXT_SIZE],
                          const char *list[NAMES_MAX])
{
    size_t count = 0;
    CHECK(text_copy(buffer, NAMES_TEXT_SIZE, names));
    for (char *name = buffer; *name != '\0';) {
        CHECK(count < NAMES_MAX);
        list[count++] = name;
        name += strcspn(name, "|");
        if (*name == '|') {
            *name++ = '\0';
        }
    }
    return count;
}

/* True when the name is one of "a|b"; else *ret_hint is the closest of them, or "". */
static bool is_known(const char *names, const char *name, char hint[NAMES_TEXT_SIZE])
{
    char buffer[NAMES_TEXT_SIZE];
    const char *list[NAMES_MAX];
    size_t count = split_names(names, buffer, list);
    for (size_t i = 0; i < count; i++) {
        if (text_equal(list[i], name)) {
            return true;
        }
    }
    const char *closest = text_closest(name, list, count);
    (void)text_copy(hint, NAMES_TEXT_SIZE, closest != NULL ? closest : "");
    return false;
}

static void refuse_name(struct http_request *request, const char *what, const char *name,
                        const char *names, const char *hint)
{
    if (hint[0] != '\0') {
        http_problem(request, 400, "invalid-request", "", "there is no %s %s; did you mean %s?",
                     what, name, hint);
    } else if (names[0] == '\0') {
        http_problem(request, 400, "invalid-request", "", "there is no %s %s: none is taken here",
                     what, name);
    } else {
        http_problem(request, 400, "invalid-request", "", "there is no %s %s: %s", what, name,
                     names);
    }
}

/* ---- the query ------------------------------------------------------------------------------- */

struct query_walk {
    struct http_request *request;
    const char *seen[NAME_SEEN_MAX];
    size_t count;
};

static enum MHD_Result query_cb(void *context, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    (void)kind;
    (void)value;
    struct query_walk *walk = context;
    struct http_request *request = walk->request;
    const char *names = request->route->queries;
    char hint[NAMES_TEXT_SIZE];
    if (!is_known(names, name, hint)) {
        refuse_name(request, "parameter", name, names, hint);
        return MHD_NO;
    }
    for (size_t i = 0; i < walk->count; i++) {
        if (text_equal(walk->seen[i], name)) {
            http_problem(request, 400, "invalid-request", "", "%s is there twice", name);
            return MHD_NO;
        }
    }
    CHECK(walk->count < NAME_SEEN_MAX); /* known names, each once */
    walk->seen[walk->count++] = name;
    return MHD_YES;
}

bool http_query_check(struct http_request *request)
{
    struct query_walk walk = {.request = request};
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, query_cb, &walk);
    return !request->answered;
}

/* False when the name is not there; *ret_value is NULL when it has no value ("?all"). */
static bool find_query(const struct http_request *request, const char *name, const char **ret_value)
{
    size_t size = 0;
    *ret_value = NULL;
    return MHD_lookup_connection_value_n(request->connection, MHD_GET_ARGUMENT_KIND, name,
                                         strlen(name), ret_value, &size) == MHD_YES;
}

const char *http_query(const struct http_request *request, const char *name)
{
    const char *value;
    return find_query(request, name, &value) && value != NULL ? value : "";
}

bool http_query_u64(struct http_request *request, const char *name, uint64_t fallback, uint64_t max,
                    uint64_t *ret_value)
{
    const char *value;
    *ret_value = fallback;
    if (!find_query(request, name, &value)) {
        return true;
    }
    if (value == NULL || text_to_u64(value, max, ret_value) < 0) {
        http_problem(request, 400, "invalid-request", "", "%s: not a number up to %llu", name,
                     (unsigned long long)max);
        return false;
    }
    return true;
}

bool http_query_bool(struct http_request *request, const char *name, bool *ret_value)
{
    const char *value;
    *ret_value = false;
    if (!find_query(request, name, &value)) {
        return true;
    }
    *ret_value =
        value == NULL || value[0] == '\0' || text_equal(value, "true") || text_equal(value, "1");
    if (!*ret_value && !text_equal(value, "false") && !text_equal(value, "0")) {
        http_problem(request, 400, "invalid-request", "", "%s: true or false, not %s", name, value);
        return false;
    }
    return true;
}

bool http_query_word(struct http_request *request, const char *name, const char *const *words,
                     size_t count, size_t absent, size_t *ret_index)
{
    const char *value = http_query(request, name);
    char list[256] = "";
    *ret_index = absent;
    if (value[0] == '\0') {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (text_equal(value, words[i])) {
            *ret_index = i;
            return true;
        }
        size_t used = strlen(list);
        (void)text_format(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", words[i]);
    }
    http_problem(request, 400, "invalid-request", "", "%s: one of %s; not %s", name, list, value);
    return false;
}

/* ---- the body -------------------------------------------------------------------------------- */

static bool members_known(struct http_request *request, const json_t *body)
{
    const char *names = request->route->members;
    char hint[NAMES_TEXT_SIZE];
    const char *name;
    json_t *value;
    if (names == NULL) {
        return true;
    }
    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        if (!is_known(names, name, hint)) {
            refuse_name(request, "member", name, names, hint);
            return false;
        }
    }
    return true;
}

json_t *http_body_json(struct http_request *request)
{
    if (request->body.size == 0) {
        return json_object();
    }
    json_error_t error;
    json_t *json = json_loadb((const char *)request->body.data, request->body.size,
                              JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        http_problem(request, 400, "invalid-request",
                     "YAML is taken with Content-Type: application/yaml, where it is a job file",
                     "the body is not JSON: line %d, column %d: %s", error.line, error.column,
                     error.text);
        return NULL;
    }
    if (!json_is_object(json)) {
        http_problem(request, 400, "invalid-request", "", "the body must be a JSON object");
    }
    if (request->answered || !members_known(request, json)) {
        json_decref(json);
        return NULL;
    }
    return json;
}

bool http_member_text(struct http_request *request, const json_t *body, const char *name,
                      char *target, size_t size)
{
    const json_t *value = json_object_get(body, name);
    target[0] = '\0';
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    if (!json_is_string(value)) {
        http_problem(request, 400, "invalid-request", "", "%s: a text is expected", name);
        return false;
    }
    const char *text = json_string_value(value);
    if (!text_is_utf8(text, strlen(text)) || strpbrk(text, "\n\t") != NULL) {
        http_problem(request, 400, "invalid-request", "", "%s: one line of plain text, please",
                     name); /* it will stand in tables and event streams */
        return false;
    }
    if (strlen(text) >= size) {
        http_problem(request, 400, "invalid-request", "", "%s: at most %zu bytes", name, size - 1);
        return false;
    }
    (void)text_copy(target, size, text);
    return true;
}

bool http_member_bool(struct http_request *request, const json_t *body, const char *name,
                      bool *ret_value)
{
    const json_t *value = json_object_get(body, name);
    *ret_value = json_is_true(value);
    if (value != NULL && !json_is_null(value) && !json_is_boolean(value)) {
        http_problem(request, 400, "invalid-request", "", "%s: true or false is expected", name);
        return false;
    }
    return true;
}
