/* projection.c: binds the records' fields to the statements' parameters and runs them.
 *
 * Each parameter's name is looked up once, when its statement is prepared; folding a record is then
 * a walk over a few arrays. */
#include "db/projection.h"

#include <errno.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    PARAMETERS_MAX = 40,
    NUMBER_MAX_BITS = 53, /* what a double holds exactly, and JSON readers with it */
    DROP_MAX = 16384,     /* bytes of the statements that drop everything */
};

enum source {
    FROM_FIELD,
    FROM_DIGITS, /* a field's number as text */
    FROM_SEQ,
    FROM_SERVICE,
    FROM_WALL,
    FROM_SUBJECT,
    FROM_JOB,
    FROM_NODE,
    FROM_RECOVERY,
    FROM_EVENT,
    FROM_SEVERITY,
    FROM_MESSAGE,
    FROM_TEXT,
};

struct parameter {
    enum source source;
    const struct record_field *field; /* of FROM_FIELD and FROM_DIGITS */
};

struct statement {
    sqlite3_stmt *prepared;
    uint32_t parameter_count;
    struct parameter parameters[PARAMETERS_MAX]; /* [i] is parameter i + 1 */
};

struct projection {
    sqlite3 *db;
    struct statement *statements; /* sorted by kind; [0] is the one for events */
    uint32_t count;
    uint32_t first[RECORD_KIND_MAX + 2]; /* statements of kind k: first[k] .. first[k + 1] */
    uint64_t faults;
    struct err fault;
};

static const char schema_text[] = {
#include "db/projections.sql.inc"
    0};

static const char event_sql[] = "INSERT OR REPLACE INTO events VALUES (:r_seq, :r_wall, :r_event, "
                                ":r_severity, :r_subject, :r_job, :r_node, :r_recovery, "
                                ":r_message)";

static const struct projection_table *const tables[] = {
    &projection_cluster,
    &projection_node,
    &projection_job,
    &projection_recovery,
};

/* ---- preparing ----------------------------------------------------------------------------- */

static bool find_common(const char *name, enum source *ret_source)
{
    static const struct {
        const char *name;
        enum source source;
    } common[] = {
        {":r_seq", FROM_SEQ},           {":r_service", FROM_SERVICE},
        {":r_wall", FROM_WALL},         {":r_subject", FROM_SUBJECT},
        {":r_job", FROM_JOB},           {":r_node", FROM_NODE},
        {":r_recovery", FROM_RECOVERY}, {":r_event", FROM_EVENT},
        {":r_severity", FROM_SEVERITY}, {":r_message", FROM_MESSAGE},
        {":r_text", FROM_TEXT},
    };
    for (size_t i = 0; i < ARRAY_SIZE(common); i++) {
        if (text_equal(common[i].name, name)) {
            *ret_source = common[i].source;
            return true;
        }
    }
    return false;
}

static const struct record_field *find_field(const struct record_table *table, const char *name)
{
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        if (text_equal(table->fields[i].name, name)) {
            return &table->fields[i];
        }
    }
    return NULL;
}

static int plan(struct statement *statement, const struct record_table *table, struct err *err)
{
    int count = sqlite3_bind_parameter_count(statement->prepared);
    CHECK(count <= PARAMETERS_MAX);
    statement->parameter_count = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        const char *name = sqlite3_bind_parameter_name(statement->prepared, i + 1);
        struct parameter *parameter = &statement->parameters[i];
        CHECK(name != NULL);
        if (find_common(name, &parameter->source)) {
            continue;
        }
        parameter->source = name[0] == '@' ? FROM_DIGITS : FROM_FIELD;
        parameter->field = find_field(table, name + 1);
        if (parameter->field == NULL) {
            return err_set(err, -EINVAL, "a projection of %s names '%s', which it does not have",
                           table != NULL ? table->name : "events", name);
        }
    }
    return 0;
}

static int add(struct projection *projection, const char *sql, const struct record_table *table,
               struct err *err)
{
    struct statement *statement = &projection->statements[projection->count];
    int code = sql_prepare(projection->db, sql, &statement->prepared, err);
    if (code < 0) {
        return table != NULL ? err_wrap(err, "projection of %s", table->name) : code;
    }
    projection->count++;
    return plan(statement, table, err);
}

static int add_kind(struct projection *projection, uint16_t kind, struct err *err)
{
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const struct projection_sql *row = &tables[t]->rows[i];
            int code = row->kind == kind ? add(projection, row->sql, record_table(kind), err) : 0;
            if (code < 0) {
                return code;
            }
        }
    }
    return 0;
}

uint32_t projection_statements(uint16_t kind)
{
    uint32_t count = 0;
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            count += tables[t]->rows[i].kind == kind ? 1 : 0;
        }
    }
    return count;
}

int projection_create(sqlite3 *db, struct projection **ret_projection, struct err *err)
{
    uint32_t total = 1;
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        total += tables[t]->count;
    }
    struct projection *projection = mem_alloc(1, sizeof(*projection));
    projection->db = db;
    projection->statements = mem_alloc(total, sizeof(*projection->statements));
    int code = add(projection, event_sql, NULL, err);
    for (uint16_t kind = 0; kind <= RECORD_KIND_MAX && code == 0; kind++) {
        projection->first[kind] = projection->count;
        code = add_kind(projection, kind, err);
    }
    if (code < 0) {
        (void)projection_free(projection);
        return code;
    }
    projection->first[RECORD_KIND_MAX + 1] = projection->count;
    CHECK(projection->count == total); /* no statement of a kind that does not exist */
    *ret_projection = projection;
    return 0;
}

struct projection *projection_free(struct projection *projection)
{
    if (projection == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < projection->count; i++) {
        (void)sqlite3_finalize(projection->statements[i].prepared); /* repeats old errors */
    }
    (void)mem_free(projection->statements);
    return mem_free(projection);
}

/* ---- binding ------------------------------------------------------------------------------- */

static int bind_number(sqlite3_stmt *statement, int at, uint64_t value)
{
    const uint64_t max = (UINT64_C(1) << NUMBER_MAX_BITS) - 1;
    return sqlite3_bind_int64(statement, at, (int64_t)(value < max ? value : max));
}

static int bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static uint64_t number_of(const struct record_field *field, const void *at)
{
    CHECK(field->type == FIELD_U32 || field->type == FIELD_U64);
    return field->type == FIELD_U32 ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static int bind_digits(sqlite3_stmt *statement, int at, uint64_t value)
{
    char digits[24];
    (void)text_format(digits, sizeof(digits), "%llu", (unsigned long long)value); /* it fits */
    return sqlite3_bind_text(statement, at, digits, -1, SQLITE_TRANSIENT);
}

static int bind_field(sqlite3_stmt *statement, int at, const struct record_field *field,
                      const void *value)
{
    switch (field->type) {
    case FIELD_U32:
    case FIELD_U64:
        return bind_number(statement, at, number_of(field, value));
    case FIELD_I32:
        return sqlite3_bind_int64(statement, at, *(const int32_t *)value);
    case FIELD_BOOL:
        return sqlite3_bind_int64(statement, at, *(const bool *)value ? 1 : 0);
    case FIELD_WORD:
        return bind_text(statement, at,
                         word_of(field->words, field->word_count, *(const uint8_t *)value));
    case FIELD_TEXT:
        return bind_text(statement, at, value);
    case FIELD_I32S:
    case FIELD_U64S:
        break; /* arrays are for images and for the core; no column holds one */
    }
    return SQLITE_MISMATCH;
}

static int bind(sqlite3_stmt *statement, int at, const struct parameter *parameter,
                const struct store_row *row)
{
    const struct record_field *field = parameter->field;
    const void *value = field != NULL ? (const char *)row->body + field->offset : NULL;
    switch (parameter->source) {
    case FROM_FIELD:
        return bind_field(statement, at, field, value);
    case FROM_DIGITS:
        return bind_digits(statement, at, number_of(field, value));
    case FROM_SEQ:
        return bind_number(statement, at, row->sequence);
    case FROM_SERVICE:
        return bind_number(statement, at, row->service_ms);
    case FROM_WALL:
        return bind_number(statement, at, row->wall_ms);
    case FROM_SUBJECT:
        return bind_text(statement, at, row->subject);
    case FROM_JOB:
        return bind_number(statement, at, row->job);
    case FROM_NODE:
        return bind_number(statement, at, row->node);
    case FROM_RECOVERY:
        return bind_number(statement, at, row->recovery);
    case FROM_EVENT:
        return bind_text(statement, at, row->event);
    case FROM_SEVERITY:
        return bind_text(statement, at, WORD(severity, row->severity));
    case FROM_MESSAGE:
        return bind_text(statement, at, row->message);
    case FROM_TEXT:
        return row->text == NULL ? sqlite3_bind_null(statement, at)
                                 : sqlite3_bind_text(statement, at, row->text, (int)row->text_size,
                                                     SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

/* ---- folding ------------------------------------------------------------------------------- */

static int run(struct projection *projection, struct statement *statement,
               const struct store_row *row, struct err *err)
{
    for (uint32_t i = 0; i < statement->parameter_count; i++) {
        int rc = bind(statement->prepared, (int)i + 1, &statement->parameters[i], row);
        if (rc != SQLITE_OK) {
            return sql_error(NULL, rc, err, "binding");
        }
    }
    struct err reason = {0};
    int code = sql_run(statement->prepared, &reason);
    if (code == -EEXIST) {
        if (projection->faults == 0) {
            (void)err_set(&projection->fault, code, "record %llu (%s): %s",
                          (unsigned long long)row->sequence, row->kind, reason.text);
        }
        projection->faults++;
        return 0;
    }
    return code < 0 ? err_set(err, code, "%s", reason.text) : 0;
}

int projection_apply(struct projection *projection, const struct store_row *row, struct err *err)
{
    if (row->table == NULL) {
        return 0;
    }
    uint16_t kind = row->table->kind;
    CHECK(kind <= RECORD_KIND_MAX);
    int code = row->event[0] != '\0' ? run(projection, &projection->statements[0], row, err) : 0;
    for (uint32_t i = projection->first[kind]; i < projection->first[kind + 1] && code == 0; i++) {
        code = run(projection, &projection->statements[i], row, err);
    }
    return code;
}

uint64_t projection_faults(const struct projection *projection, const char **ret_text)
{
    *ret_text = projection->fault.text;
    return projection->faults;
}

/* ---- beginning anew ------------------------------------------------------------------------ */

/* "DROP VIEW a;DROP TABLE b;…" for everything that is not the journal's. Views go first. */
static int drop_statements(sqlite3 *db, struct buf *drops, struct err *err)
{
    static const char list[] =
        "SELECT type, name FROM sqlite_schema WHERE type IN ('table', "
        "'view') AND name NOT IN ('journal', 'writer') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type DESC, name";
    sqlite3_stmt *statement = NULL;
    int code = sql_prepare(db, list, &statement, err);
    if (code < 0) {
        return code;
    }
    int rc;
    while (code == 0 && (rc = sqlite3_step(statement)) != SQLITE_DONE) {
        code = rc == SQLITE_ROW
                   ? buf_printf(drops, "DROP %s \"%s\";", sql_column_text(statement, 0),
                                sql_column_text(statement, 1))
                   : sql_error(db, rc, err, "reading the schema");
    }
    (void)sqlite3_finalize(statement); /* repeats the error of step */
    return code == -EMSGSIZE ? err_set(err, code, "there are too many foreign tables") : code;
}

static int drop_all(sqlite3 *db, struct err *err)
{
    struct buf drops;
    buf_init(&drops, DROP_MAX);
    int code = drop_statements(db, &drops, err);
    code = code == 0 ? sql_exec(db, buf_text(&drops), err) : code;
    buf_done(&drops);
    return code;
}

/* Without looking at their pages, which may be damaged and are lost until the next VACUUM. */
static int forget_all(sqlite3 *db, struct err *err)
{
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    int code = sql_exec(db,
                        "PRAGMA writable_schema=ON;"
                        "DELETE FROM sqlite_schema WHERE tbl_name NOT IN ('journal', 'writer', "
                        "'sqlite_sequence');"
                        "PRAGMA writable_schema=RESET",
                        err);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return code;
}

int projection_reset(sqlite3 *db, bool damaged, struct err *err)
{
    int code = damaged ? forget_all(db, err) : drop_all(db, err);
    return code == 0 ? sql_exec(db, schema_text, err) : code;
}
