/* sql.c: opening connections the way we mean it, and turning SQLite's errors into ours. */
#include "db/sql.h"

#include <errno.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"

enum {
    URI_MAX = 16384,
    BUSY_WAIT_MS = 250, /* another program's lock; above us the commit is tried again anyway */
    WAL_FILE_KEEP = 64 * 1024 * 1024, /* the WAL file is cut back to this when it starts anew */
};

int sql_code(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return -EUCLEAN;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return -EEXIST;
    case SQLITE_INTERRUPT:
        return -ETIMEDOUT;
    case SQLITE_CANTOPEN:
        return -ENOENT;
    default:
        return -EIO;
    }
}

int sql_error(sqlite3 *db, int rc, struct err *err, const char *what)
{
    int code = sql_code(rc);
    CHECK(code < 0);
    const char *reason = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    int system = db != NULL && code != -EEXIST && code != -EUCLEAN ? sqlite3_system_errno(db) : 0;
    const char *detail = system > 0 ? strerrordesc_np(system) : NULL;
    if (detail != NULL) {
        return err_set(err, code, "%s: %s (%s)", what, reason, detail);
    }
    return err_set(err, code, "%s: %s", what, reason);
}

/* "file:/path?mode=ro…": characters that mean something in a URI go as %XX. */
static int uri_of(struct buf *uri, const char *path, enum sql_open_mode mode)
{
    static const char *const query[] = {
        [SQL_NEW] = "?mode=rw",
        [SQL_WRITER] = "?mode=rw",
        [SQL_READER] = "?mode=ro",
        [SQL_MENDER] = "?mode=rw",
        [SQL_IMMUTABLE] = "?mode=ro&immutable=1",
    };
    int code = buf_printf(uri, "file:");
    for (const char *at = path; *at != '\0' && code == 0; at++) {
        bool special = *at == '%' || *at == '?' || *at == '#';
        code =
            special ? buf_printf(uri, "%%%02X", (unsigned)(unsigned char)*at) : buf_put(uri, at, 1);
    }
    return code == 0 ? buf_printf(uri, "%s", query[mode]) : code;
}

static const char *settings_of(enum sql_open_mode mode)
{
    static const char *const settings[] = {
        [SQL_NEW] = "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL;",
        /* No checkpoint inside COMMIT: the commit thread does it after the commit is out. */
        [SQL_WRITER] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                       "PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=0;"
                       "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16384;",
        [SQL_READER] = "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY;",
        [SQL_MENDER] = "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY;",
        [SQL_IMMUTABLE] = "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY;",
    };
    return settings[mode];
}

static int configure(sqlite3 *db, enum sql_open_mode mode, struct err *err)
{
    (void)sqlite3_extended_result_codes(db, 1);   /* fails only on a closed connection */
    (void)sqlite3_busy_timeout(db, BUSY_WAIT_MS); /* same */
    /* Schema and functions of a file that somebody else may have touched are not trusted. */
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    int code = sql_exec(db, settings_of(mode), err);
    if (code == 0 && mode == SQL_WRITER) {
        int64_t kept = 0;
        code = sql_integer(db, "PRAGMA journal_size_limit=67108864", &kept, err);
        CHECK(code != 0 || kept == WAL_FILE_KEEP);
    }
    return code;
}

int sql_open(const char *path, enum sql_open_mode mode, const char *vfs, sqlite3 **ret_db,
             struct err *err)
{
    struct buf uri;
    buf_init(&uri, URI_MAX);
    if (uri_of(&uri, path, mode) < 0) {
        buf_done(&uri);
        return err_set(err, -ENAMETOOLONG, "the path '%.64s…' is too long", path);
    }
    int flags =
        mode == SQL_READER || mode == SQL_IMMUTABLE ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    sqlite3 *db = NULL;
    int rc =
        sqlite3_open_v2(buf_text(&uri), &db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, vfs);
    buf_done(&uri);
    int code = rc == SQLITE_OK ? configure(db, mode, err) : sql_error(db, rc, err, "opening it");
    if (code < 0) {
        (void)sql_close(db);
        return code;
    }
    *ret_db = db;
    return 0;
}

sqlite3 *sql_close(sqlite3 *db)
{
    int rc = sqlite3_close(db);
    CHECK(rc == SQLITE_OK); /* busy: a statement was not finalized, which is our mistake */
    return NULL;
}

int sql_exec(sqlite3 *db, const char *sql, struct err *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (rc != SQLITE_OK) {
        char what[64];
        (void)sqlite3_snprintf((int)sizeof(what), what, "%.40s", sql);
        return sql_error(db, rc, err, what);
    }
    return 0;
}

int sql_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement, struct err *err)
{
    int rc = sqlite3_prepare_v2(db, sql, -1, ret_statement, NULL);
    return rc == SQLITE_OK ? 0 : sql_error(db, rc, err, "preparing a statement");
}

int sql_run(sqlite3_stmt *statement, struct err *err)
{
    int rc = sqlite3_step(statement);
    int code = sql_code(rc);
    if (code < 0) {
        code = sql_error(sqlite3_db_handle(statement), rc, err, "writing");
    }
    (void)sqlite3_reset(statement); /* repeats the error of step */
    (void)sqlite3_clear_bindings(statement);
    return code;
}

int sql_integer(sqlite3 *db, const char *sql, int64_t *ret_value, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sql_prepare(db, sql, &statement, err);
    if (code < 0) {
        return code;
    }
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        *ret_value = sqlite3_column_int64(statement, 0);
    } else if (rc == SQLITE_DONE) {
        code = err_set(err, -ENODATA, "nothing found by: %.60s", sql);
    } else {
        code = sql_error(db, rc, err, "reading");
    }
    (void)sqlite3_finalize(statement); /* repeats the error of step */
    return code;
}

const char *sql_column_text(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text != NULL ? (const char *)text : "";
}
