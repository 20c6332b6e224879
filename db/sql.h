/* sql.h: the little that we want from SQLite, with our errors. Internal to db/.
 *
 * Every function that fails gives -errno and, where err is not NULL, SQLite's own text:
 * -ENOSPC (disk full), -EBUSY (locked by another program), -EROFS, -EIO, -EUCLEAN (damaged),
 * -ENOMEM, -EEXIST (a constraint), -ETIMEDOUT (interrupted by its limit), -ENOENT (cannot open). */
#ifndef KEEPSTEP_DB_SQL_H
#define KEEPSTEP_DB_SQL_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "proto/base/err.h"

/* How a connection is opened. None creates a file but SQL_NEW. */
enum sql_open_mode {
    SQL_NEW,    /* the file must be there, empty; a rollback journal, no WAL */
    SQL_WRITER, /* WAL, synchronous=FULL, no checkpoint of its own accord */
    SQL_READER, /* read-only, follows a writer's WAL */
    SQL_MENDER, /* the same, but SQLite may roll back what a writer without a WAL left half-done */
    SQL_IMMUTABLE, /* read-only without a lock, a WAL or a -shm file: leaves no trace at all */
};

/* vfs: NULL for the system's. The connection is used by one thread at a time (NOMUTEX). */
MUST_CHECK int sql_open(const char *path, enum sql_open_mode mode, const char *vfs,
                        sqlite3 **ret_db, struct err *err);
sqlite3 *sql_close(sqlite3 *db); /* takes NULL, returns NULL; all statements are finalized first */

int sql_code(int rc); /* SQLite's result code -> -errno, 0 for OK, ROW and DONE */
/* Fills err with "what: reason" from the connection's last error; returns sql_code(rc). */
int sql_error(sqlite3 *db, int rc, struct err *err, const char *what);

MUST_CHECK int sql_exec(sqlite3 *db, const char *sql, struct err *err);
MUST_CHECK int sql_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement,
                           struct err *err);
/* Steps a statement that gives no rows, then resets it and forgets its values. */
MUST_CHECK int sql_run(sqlite3_stmt *statement, struct err *err);
/* The first column of the first row; -ENODATA when there is none. */
MUST_CHECK int sql_integer(sqlite3 *db, const char *sql, int64_t *ret_value, struct err *err);

/* Column text, "" for NULL; borrowed until the next step. */
const char *sql_column_text(sqlite3_stmt *statement, int column);

#endif
