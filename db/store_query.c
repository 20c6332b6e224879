/* store_query.c: read-only connections for REST and tools. A query that takes too long is
 * interrupted from inside SQLite, so that no question can hold a snapshot of the WAL for ever. */
#include <errno.h>
#include <string.h>

#include "db/journal_json.h"
#include "db/store_internal.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"

enum {
    PROGRESS_STEPS = 2000, /* of SQLite's machine between two looks at the clock: well under 1 ms */
};

struct store_reader {
    sqlite3 *db;
    uint32_t query_ms;
    uint64_t deadline_us;
};

static int check_clock(void *context)
{
    const struct store_reader *reader = context;
    return store_clock_us() >= reader->deadline_us ? 1 : 0;
}

int store_reader_open(const char *path, struct store_reader **ret_reader, struct err *err)
{
    sqlite3 *db = NULL;
    int code = sql_open(path, SQL_READER, NULL, &db, err);
    int64_t version = 0;
    code = code == 0 ? sql_integer(db, "PRAGMA user_version", &version, err) : code;
    if (code == 0 && version != STORE_SCHEMA_VERSION) {
        code = err_set(err, -EPROTONOSUPPORT, "its schema is %lld, this version reads %d",
                       (long long)version, STORE_SCHEMA_VERSION);
    }
    if (code < 0) {
        (void)sql_close(db);
        return err_wrap(err, "the database %s", path);
    }
    struct store_reader *reader = mem_alloc(1, sizeof(*reader));
    reader->db = db;
    reader->query_ms = STORE_QUERY_MS;
    sqlite3_progress_handler(db, PROGRESS_STEPS, check_clock, reader);
    *ret_reader = reader;
    return 0;
}

struct store_reader *store_reader_close(struct store_reader *reader)
{
    if (reader != NULL) {
        reader->db = sql_close(reader->db);
    }
    return mem_free(reader);
}

void store_reader_limit(struct store_reader *reader, uint32_t query_ms)
{
    reader->query_ms = query_ms;
}

/* ---- values -------------------------------------------------------------------------------- */

static int bind_value(sqlite3_stmt *statement, int at, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_INTEGER:
        return sqlite3_bind_int64(statement, at, json_integer_value(value));
    case JSON_STRING:
        return sqlite3_bind_text(statement, at, json_string_value(value),
                                 (int)json_string_length(value), SQLITE_STATIC);
    case JSON_TRUE:
    case JSON_FALSE:
        return sqlite3_bind_int64(statement, at, json_is_true(value) ? 1 : 0);
    case JSON_REAL:
        return sqlite3_bind_double(statement, at, json_real_value(value));
    case JSON_NULL:
        return sqlite3_bind_null(statement, at);
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    return SQLITE_MISMATCH;
}

static int bind_all(sqlite3_stmt *statement, const json_t *parameters, struct err *err)
{
    size_t count = json_array_size(parameters);
    if ((int)count != sqlite3_bind_parameter_count(statement)) {
        return err_set(err, -EINVAL, "the query takes %d parameters, %zu were given",
                       sqlite3_bind_parameter_count(statement), count);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = bind_value(statement, (int)i + 1, json_array_get(parameters, i));
        if (rc != SQLITE_OK) {
            return err_set(err, -EINVAL, "parameter %zu of the query cannot be used", i + 1);
        }
    }
    return 0;
}

static json_t *column_value(sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
        return json_real(sqlite3_column_double(statement, column));
    case SQLITE_NULL:
        return json_null();
    default: { /* SQLite's own constants; we store no blobs */
        const char *text = sql_column_text(statement, column);
        return journal_json_text(text, (size_t)sqlite3_column_bytes(statement, column));
    }
    }
}

static json_t *row_value(sqlite3_stmt *statement)
{
    json_t *row = json_object();
    for (int column = 0; column < sqlite3_column_count(statement); column++) {
        int failed = json_object_set_new(row, sqlite3_column_name(statement, column),
                                         column_value(statement, column));
        CHECK(failed == 0); /* names are ours, values were made valid */
    }
    return row;
}

/* ---- queries ------------------------------------------------------------------------------- */

static int step_rows(struct store_reader *reader, sqlite3_stmt *statement, uint32_t limit,
                     json_t *rows, bool *ret_more, struct err *err)
{
    int rc;
    *ret_more = false;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        if (json_array_size(rows) >= limit) {
            *ret_more = true;
            return 0;
        }
        int failed = json_array_append_new(rows, row_value(statement));
        CHECK(failed == 0);
    }
    if (rc == SQLITE_INTERRUPT) {
        return err_set(err, -ETIMEDOUT, "the question took more than %u ms: ask for less at a time",
                       reader->query_ms);
    }
    return rc == SQLITE_DONE ? 0 : sql_error(reader->db, rc, err, "reading");
}

int store_query_json(struct store_reader *reader, const char *sql, const json_t *parameters,
                     uint32_t limit, json_t **ret_rows, bool *ret_more, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    reader->deadline_us = store_clock_us() + (uint64_t)reader->query_ms * 1000;
    int code = sql_prepare(reader->db, sql, &statement, err);
    if (code < 0) {
        return code;
    }
    json_t *rows = json_array();
    bool more = false;
    code = bind_all(statement, parameters, err);
    if (code == 0) {
        uint32_t most = limit < STORE_QUERY_ROWS_MAX ? limit : STORE_QUERY_ROWS_MAX;
        code = step_rows(reader, statement, most, rows, &more, err);
    }
    (void)sqlite3_finalize(statement); /* repeats the error of step */
    if (code < 0) {
        json_decref(rows);
        return code;
    }
    *ret_rows = rows;
    if (ret_more != NULL) {
        *ret_more = more;
    }
    return 0;
}

/* ---- events -------------------------------------------------------------------------------- */

#define EVENT_COLUMNS                                                                              \
    "SELECT e.seq AS revision, e.wall_ms, e.type, e.severity, e.subject, j.name AS job, "          \
    "e.job AS job_id, n.name AS node, e.node AS node_id, e.recovery, "                             \
    "iif(json_valid(l.body), l.body ->> '$.attempt', NULL) AS attempt, "                           \
    "iif(json_valid(l.body), l.body ->> '$.actor', NULL) AS actor, e.message, l.kind, "            \
    "l.body AS data FROM events AS e JOIN journal AS l ON l.seq = e.seq "                          \
    "LEFT JOIN jobs AS j ON j.job = e.job LEFT JOIN nodes AS n ON n.node = e.node WHERE "

/* One filter that is set: a condition and its value. The conditions are ours, so the query has only
 * those that are needed and can use the index that fits. */
static void add_condition(struct buf *sql, json_t *parameters, const char *condition, json_t *value)
{
    int failed = json_array_append_new(parameters, value);
    int code = buf_printf(sql, "%s%s ?%zu", json_array_size(parameters) > 1 ? " AND " : "",
                          condition, json_array_size(parameters));
    CHECK(failed == 0 && code == 0); /* a handful of short texts */
}

static void add_id(struct buf *sql, json_t *parameters, const char *condition, uint64_t value)
{
    if (value > 0) {
        add_condition(sql, parameters, condition,
                      json_integer((json_int_t)(value & (uint64_t)INT64_MAX)));
    }
}

static void add_text(struct buf *sql, json_t *parameters, const char *condition, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        add_condition(sql, parameters, condition, journal_json_text(value, strlen(value)));
    }
}

static int query_events(struct store_reader *reader, const struct store_event_filter *filter,
                        const char *order, uint32_t limit, json_t **ret_rows, bool *ret_more,
                        struct err *err)
{
    struct buf sql;
    buf_init(&sql, 2048);
    json_t *parameters = json_array();
    int code = buf_printf(&sql, "%s", EVENT_COLUMNS);
    CHECK(code == 0);
    add_condition(&sql, parameters, "e.seq >",
                  json_integer((json_int_t)(filter->after & (uint64_t)INT64_MAX)));
    add_id(&sql, parameters, "e.seq <=", filter->until);
    add_id(&sql, parameters, "e.wall_ms >=", filter->wall_from_ms);
    add_id(&sql, parameters, "e.job =", filter->job);
    add_id(&sql, parameters, "e.node =", filter->node);
    add_id(&sql, parameters, "e.recovery =", filter->recovery);
    add_text(&sql, parameters, "e.type =", filter->type);
    add_text(&sql, parameters, "e.subject =", filter->subject);
    for (uint32_t i = 0; i < filter->severity_least && i < severity_count; i++) {
        add_text(&sql, parameters, "e.severity <>", severity_words[i]);
    }
    code = buf_printf(&sql, " ORDER BY e.seq %s", order);
    CHECK(code == 0);
    code = store_query_json(reader, buf_text(&sql), parameters, limit, ret_rows, ret_more, err);
    json_decref(parameters);
    buf_done(&sql);
    return code;
}

/* `data` is the record's body as text: make it the object that it is. */
static void parse_data(json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        json_t *data = json_loads(json_string_value(json_object_get(row, "data")), 0, NULL);
        int failed = json_object_set_new(row, "data", data != NULL ? data : json_null());
        CHECK(failed == 0);
    }
}

int store_events(struct store_reader *reader, const struct store_event_filter *filter,
                 uint32_t limit, json_t **ret_rows, bool *ret_more, struct err *err)
{
    int code = query_events(reader, filter, "ASC", limit, ret_rows, ret_more, err);
    if (code == 0) {
        parse_data(*ret_rows);
    }
    return code;
}

int store_events_last(struct store_reader *reader, const struct store_event_filter *filter,
                      uint32_t limit, json_t **ret_rows, struct err *err)
{
    json_t *newest_first = NULL;
    int code = query_events(reader, filter, "DESC", limit, &newest_first, NULL, err);
    if (code < 0) {
        return code;
    }
    json_t *rows = json_array();
    for (size_t i = json_array_size(newest_first); i-- > 0;) {
        int failed = json_array_append(rows, json_array_get(newest_first, i));
        CHECK(failed == 0);
    }
    json_decref(newest_first);
    parse_data(rows);
    *ret_rows = rows;
    return 0;
}

/* ---- job files ----------------------------------------------------------------------------- */

int store_spec_text(struct store_reader *reader, uint32_t job, uint32_t revision, char **ret_text,
                    size_t *ret_size, struct err *err)
{
    static const char sql[] = "SELECT text FROM job_specs WHERE job = ?1 AND (?2 = 0 OR "
                              "revision = ?2) ORDER BY revision DESC LIMIT 1";
    json_t *parameters = json_pack("[I, I]", (json_int_t)job, (json_int_t)revision);
    json_t *rows = NULL;
    int code = store_query_json(reader, sql, parameters, 1, &rows, NULL, err);
    json_decref(parameters);
    if (code < 0) {
        return code;
    }
    const json_t *text = json_object_get(json_array_get(rows, 0), "text");
    if (text == NULL) {
        json_decref(rows);
        return err_set(err, -ENOENT, "no file of job %u (revision %u) is stored", job, revision);
    }
    size_t size = json_string_length(text);
    *ret_text = mem_strdup(json_string_value(text));
    if (ret_size != NULL) {
        *ret_size = size;
    }
    json_decref(rows);
    return 0;
}
