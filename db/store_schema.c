/* store_schema.c: making a schema, moving an older one forward, folding the journal again. */
#include <errno.h>
#include <string.h>

#include "db/store_internal.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"

enum { SETTING_SIZE = 96, COPY_PATH_SIZE = 4200 };

static const char schema_text[] = {
#include "db/schema.sql.inc"
    0};

/* A migration to version N is db/NNN-what.sql, included as the schema is, and one row here. */
static const struct store_migration migrations[] = {
    {.version = 2, .sql = "", .refold = true}, /* interval_log, reserve_log, spares_log */
};
enum { MIGRATION_COUNT = sizeof(migrations) / sizeof(migrations[0]) };

/* Ends a transaction: COMMIT when all went well, else ROLLBACK; the first error stays. */
static int finish(sqlite3 *db, int code, struct err *err)
{
    if (code == 0) {
        code = sql_exec(db, "COMMIT", err);
    }
    if (code < 0 && sqlite3_get_autocommit(db) == 0) {
        int rolled = sql_exec(db, "ROLLBACK", NULL);
        (void)rolled; /* closing the connection does it otherwise */
    }
    return code;
}

static int set_version(sqlite3 *db, int64_t version, struct err *err)
{
    char sql[SETTING_SIZE];
    (void)sqlite3_snprintf((int)sizeof(sql), sql, "PRAGMA user_version=%lld", (long long)version);
    return sql_exec(db, sql, err);
}

int store_schema_create(sqlite3 *db, struct err *err)
{
    char sql[SETTING_SIZE];
    (void)sqlite3_snprintf((int)sizeof(sql), sql, "PRAGMA application_id=%d",
                           (int)STORE_APPLICATION_ID);
    int code = sql_exec(db, "BEGIN IMMEDIATE", err);
    if (code < 0) {
        return code;
    }
    code = sql_exec(db, sql, err);
    code = code == 0 ? set_version(db, STORE_SCHEMA_VERSION, err) : code;
    code = code == 0 ? sql_exec(db, schema_text, err) : code;
    code = code == 0 ? projection_reset(db, false, err) : code;
    return finish(db, code, err);
}

/* ---- folding again ------------------------------------------------------------------------- */

static int fold_rows(sqlite3 *db, struct projection *projection, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int code =
        sql_prepare(db, "SELECT " STORE_ROW_COLUMNS " FROM journal ORDER BY seq", &statement, err);
    if (code < 0) {
        return code;
    }
    struct record *record = mem_alloc(1, sizeof(*record));
    int rc;
    while (code == 0 && (rc = sqlite3_step(statement)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW) {
            code = sql_error(db, rc, err, "reading the journal");
        } else if (!store_row_is_mark(statement)) {
            struct store_row row;
            code = store_row_read(statement, record, err);
            if (code == -EINVAL) {
                code = 0; /* cannot be read: replay tells whoever must know */
                continue;
            }
            store_row_of(record, &row);
            code = code == 0 ? projection_apply(projection, &row, err) : code;
        }
    }
    (void)mem_free(record);
    (void)sqlite3_finalize(statement); /* repeats the error of step */
    return code;
}

static int refold(sqlite3 *db, bool damaged, struct err *err)
{
    struct projection *projection = NULL;
    int code = projection_reset(db, damaged, err);
    code = code == 0 ? projection_create(db, &projection, err) : code;
    code = code == 0 ? fold_rows(db, projection, err) : code;
    (void)projection_free(projection);
    return code;
}

static int refold_whole(sqlite3 *db, bool damaged, struct err *err)
{
    int code = sql_exec(db, "BEGIN IMMEDIATE", err);
    return code == 0 ? finish(db, refold(db, damaged, err), err) : code;
}

int store_schema_rebuild(sqlite3 *db, struct err *err)
{
    int code = refold_whole(db, false, err);
    if (code == -EUCLEAN) { /* the old tables are in pieces; the journal was found to be whole */
        code = refold_whole(db, true, err);
        code = code == 0 ? sql_exec(db, "VACUUM", err) : code;
    }
    return code < 0 ? err_wrap(err, "rebuilding the projections")
                    : sql_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", err);
}

/* ---- migrations ---------------------------------------------------------------------------- */

/* A whole, compact copy beside the file, for the way back. An older one of the same name is from
 * an attempt that did not come through, and SQLite refuses to write over it. */
static int copy_before(sqlite3 *db, const char *path, int64_t from, struct err *err)
{
    char copy[COPY_PATH_SIZE];
    (void)sqlite3_snprintf((int)sizeof(copy), copy, "%s.v%lld", path, (long long)from);
    sqlite3_stmt *statement = NULL;
    int code = sql_prepare(db, "VACUUM INTO ?1", &statement, err);
    if (code == 0) {
        int rc = sqlite3_bind_text(statement, 1, copy, -1, SQLITE_STATIC);
        CHECK(rc == SQLITE_OK);
        code = sql_run(statement, err);
        (void)sqlite3_finalize(statement); /* repeats the error of step */
    }
    return code < 0 ? err_wrap(err,
                               "copying the database to %s before its migration (if that file "
                               "is there already, move it away)",
                               copy)
                    : 0;
}

static int run_due(sqlite3 *db, int64_t from, const struct store_migration *steps, uint32_t count,
                   struct err *err)
{
    bool again = false;
    int64_t version = from;
    int code = 0;
    for (uint32_t i = 0; i < count && code == 0; i++) {
        if (steps[i].version <= from) {
            continue;
        }
        CHECK(steps[i].version == version + 1);
        version = steps[i].version;
        again = again || steps[i].refold;
        code = sql_exec(db, steps[i].sql, err);
    }
    code = code == 0 && again ? refold(db, false, err) : code;
    return code == 0 ? set_version(db, version, err) : code;
}

int store_schema_migrate(sqlite3 *db, const char *path, int64_t from,
                         const struct store_migration *steps, uint32_t count, struct err *err)
{
    if (count == 0 || steps[count - 1].version <= from) {
        return 0;
    }
    int code = copy_before(db, path, from, err);
    code = code == 0 ? sql_exec(db, "BEGIN IMMEDIATE", err) : code;
    if (code < 0) {
        return code;
    }
    code = finish(db, run_due(db, from, steps, count, err), err);
    return code < 0 ? err_wrap(err, "migrating %s (it is as it was)", path) : 0;
}

int store_schema_update(sqlite3 *db, const char *path, int64_t from, struct err *err)
{
    return store_schema_migrate(db, path, from, migrations, MIGRATION_COUNT, err);
}
