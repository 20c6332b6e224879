/* projection.h: from one record to the rows of the tables in projections.sql. Internal to db/.
 *
 * A projection is a table of SQL statements by record kind (projection_*.c). Their parameters are
 * bound by name, through the field tables of record.h, so that no kind needs code of its own:
 *
 *     :field    a field of the record's body; numbers above 2^53-1 (a peer may say anything) count
 *               as that, so that sums and STRICT columns hold them; enums as their words
 *     @field    a number as its decimal digits, all 64 bits: for hashes
 *     :r_seq :r_service :r_wall :r_subject :r_job :r_node :r_recovery :r_event :r_severity
 *     :r_message :r_text    what every record has
 *
 * A statement that a record breaks (a constraint) is passed over and counted: a mistake in a
 * projection must never hold up the journal. Errors of the disk are errors. */
#ifndef KEEPSTEP_DB_PROJECTION_H
#define KEEPSTEP_DB_PROJECTION_H

#include <stdint.h>

#include "controller/core/record.h"
#include "db/sql.h"

/* What is written of a record: borrowed pointers, so that both a queue's copy and a record that was
 * just decoded can be looked at. */
struct store_row {
    const struct record_table *table; /* NULL: a mark around a snapshot; nothing is projected */
    const char *kind;
    uint16_t version;
    uint8_t severity;
    uint32_t job;
    uint32_t node;
    uint32_t recovery;
    uint64_t sequence;
    uint64_t service_ms;
    uint64_t wall_ms;
    const char *subject;
    const char *event;
    const char *message;
    const char *text; /* NULL: none */
    size_t text_size;
    const void *body; /* the kind's struct */
};

struct projection_sql {
    uint16_t kind;
    const char *sql;
};

struct projection_table {
    const struct projection_sql *rows;
    uint32_t count;
};
extern const struct projection_table projection_cluster;  /* store, terms, automation, actions */
extern const struct projection_table projection_node;     /* nodes, marks, their log */
extern const struct projection_table projection_job;      /* jobs, specs, attempts, slots, time */
extern const struct projection_table projection_recovery; /* incidents, recoveries, checkpoints */

struct projection;

/* Prepares all statements for the connection, which must outlive it and have the tables. */
MUST_CHECK int projection_create(sqlite3 *db, struct projection **ret_projection, struct err *err);
struct projection *projection_free(struct projection *projection); /* takes NULL, returns NULL */

/* Folds one row inside the caller's transaction. After an error the transaction must be rolled
 * back. */
MUST_CHECK int projection_apply(struct projection *projection, const struct store_row *row,
                                struct err *err);

/* Statements that were passed over, and the first one's error (borrowed). */
uint64_t projection_faults(const struct projection *projection, const char **ret_text);

/* How many statements a kind has: a test wants at least one for each fact. */
uint32_t projection_statements(uint16_t kind);

/* Drops every table, view and index but the journal's own, and makes them anew, empty. damaged: the
 * old ones cannot be dropped; they are forgotten instead, and a VACUUM must follow the commit. */
MUST_CHECK int projection_reset(sqlite3 *db, bool damaged, struct err *err);

#endif
