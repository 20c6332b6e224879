/* store_replay.c: reading the journal back. A row becomes a record again through the field tables;
 * a row that cannot is reported and passed over, so that its job can be set aside and everybody
 * else's goes on. A hole, or a kind that this version does not know, ends the replay: nobody can
 * say what was in it. */
#include <errno.h>
#include <string.h>

#include "db/journal_json.h"
#include "db/store_internal.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* The places of STORE_ROW_COLUMNS. */
enum {
    COLUMN_SEQ,
    COLUMN_SERVICE,
    COLUMN_WALL,
    COLUMN_KIND,
    COLUMN_VERSION,
    COLUMN_SUBJECT,
    COLUMN_JOB,
    COLUMN_NODE,
    COLUMN_RECOVERY,
    COLUMN_EVENT,
    COLUMN_SEVERITY,
    COLUMN_MESSAGE,
    COLUMN_BODY,
    COLUMN_TEXT,
};

/* ---- one row ------------------------------------------------------------------------------- */

static uint64_t column_u64(sqlite3_stmt *statement, int column)
{
    int64_t value = sqlite3_column_int64(statement, column);
    return value > 0 ? (uint64_t)value : 0;
}

static uint32_t column_u32(sqlite3_stmt *statement, int column)
{
    uint64_t value = column_u64(statement, column);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

bool store_row_is_mark(sqlite3_stmt *statement)
{
    const char *kind = sql_column_text(statement, COLUMN_KIND);
    return text_equal(kind, STORE_MARK_BEGIN) || text_equal(kind, STORE_MARK_END);
}

static int read_event(sqlite3_stmt *statement, struct record_event *ret_event, struct err *err)
{
    const char *severity = sql_column_text(statement, COLUMN_SEVERITY);
    uint32_t value = 0;
    while (value < severity_count && !text_equal(severity_words[value], severity)) {
        value++;
    }
    if (value == severity_count) {
        return err_set(err, -EINVAL, "its severity is '%.32s'", severity);
    }
    ret_event->severity = (uint8_t)value;
    if (!text_copy(ret_event->type, sizeof(ret_event->type),
                   sql_column_text(statement, COLUMN_EVENT)) ||
        !text_copy(ret_event->message, sizeof(ret_event->message),
                   sql_column_text(statement, COLUMN_MESSAGE))) {
        return err_set(err, -EINVAL, "its event or message is too long");
    }
    return 0;
}

static int find_table(sqlite3_stmt *statement, const struct record_table **ret_table,
                      struct err *err)
{
    const char *kind = sql_column_text(statement, COLUMN_KIND);
    int64_t version = sqlite3_column_int64(statement, COLUMN_VERSION);
    const struct record_table *table = record_table_by_name(kind);
    if (table == NULL || version > RECORD_VERSION) {
        return err_set(err, -EPROTONOSUPPORT,
                       "record %lld is of kind '%.32s' version %lld, which this version does not "
                       "know: install the newer keepstep again, or restore a copy",
                       (long long)sqlite3_column_int64(statement, COLUMN_SEQ), kind,
                       (long long)version);
    }
    *ret_table = table;
    return 0;
}

int store_row_read(sqlite3_stmt *statement, struct record *ret_record, struct err *err)
{
    const struct record_table *table = NULL;
    int code = find_table(statement, &table, err);
    if (code < 0) {
        return code;
    }
    struct record *record = ret_record;
    memset(record, 0, sizeof(*record));
    record->kind = table->kind;
    record->version = (uint16_t)column_u32(statement, COLUMN_VERSION);
    record->sequence = column_u64(statement, COLUMN_SEQ);
    record->service_ms = column_u64(statement, COLUMN_SERVICE);
    record->wall_ms = column_u64(statement, COLUMN_WALL);
    record->job = column_u32(statement, COLUMN_JOB);
    record->node = column_u32(statement, COLUMN_NODE);
    record->recovery = column_u32(statement, COLUMN_RECOVERY);
    if (!text_copy(record->subject, sizeof(record->subject),
                   sql_column_text(statement, COLUMN_SUBJECT))) {
        return err_set(err, -EINVAL, "its subject is too long");
    }
    code = read_event(statement, &record->event, err);
    if (code < 0) {
        return code;
    }
    if (sqlite3_column_type(statement, COLUMN_TEXT) != SQLITE_NULL) {
        record->text = sql_column_text(statement, COLUMN_TEXT);
        record->text_size = (uint32_t)sqlite3_column_bytes(statement, COLUMN_TEXT);
    }
    const char *body = sql_column_text(statement, COLUMN_BODY);
    return journal_decode(table, body, (size_t)sqlite3_column_bytes(statement, COLUMN_BODY),
                          &record->u, err);
}

void store_row_of(const struct record *record, struct store_row *ret_row)
{
    const struct record_table *table = record_table(record->kind);
    CHECK(table != NULL);
    *ret_row = (struct store_row){
        .table = table,
        .kind = table->name,
        .version = record->version,
        .severity = record->event.severity,
        .job = record->job,
        .node = record->node,
        .recovery = record->recovery,
        .sequence = record->sequence,
        .service_ms = record->service_ms,
        .wall_ms = record->wall_ms,
        .subject = record->subject,
        .event = record->event.type,
        .message = record->event.message,
        .text = record->text,
        .text_size = record->text != NULL ? record->text_size : 0,
        .body = &record->u,
    };
}

/* ---- a walk -------------------------------------------------------------------------------- */

struct walk {
    sqlite3_stmt *statement;
    struct record *record;
    const struct store_visitor *visitor; /* NULL: only look whether all can be read */
    bool images;                         /* visit images, else pass them over */
    uint64_t next;                       /* the sequence that must come; 0 = any */
    struct store_replayed *replayed;
};

static int report_bad(struct walk *walk, const char *reason)
{
    const struct store_bad bad = {
        .sequence = column_u64(walk->statement, COLUMN_SEQ),
        .job = column_u32(walk->statement, COLUMN_JOB),
        .node = column_u32(walk->statement, COLUMN_NODE),
        .kind = sql_column_text(walk->statement, COLUMN_KIND),
        .subject = sql_column_text(walk->statement, COLUMN_SUBJECT),
        .reason = reason,
    };
    walk->replayed->bad++;
    return walk->visitor->bad(&bad, walk->visitor->context);
}

static int visit_row(struct walk *walk, struct err *err)
{
    bool image = strncmp(sql_column_text(walk->statement, COLUMN_KIND), "image_", 6) == 0;
    if (store_row_is_mark(walk->statement) || image != walk->images) {
        return walk->visitor == NULL && !image ? err_set(err, -EINVAL, "a fact in a snapshot") : 0;
    }
    struct err reason = {0};
    int code = store_row_read(walk->statement, walk->record, &reason);
    if (code < 0 && walk->visitor != NULL && code == -EINVAL) {
        return report_bad(walk, reason.text);
    }
    if (code < 0) {
        return err_set(err, code, "%s", reason.text);
    }
    if (walk->visitor == NULL) {
        return 0;
    }
    walk->replayed->records++;
    return walk->visitor->record(walk->record, walk->visitor->context);
}

static int check_hole(struct walk *walk, uint64_t sequence, struct err *err)
{
    uint64_t expected = walk->next;
    walk->next = sequence + 1;
    if (expected != 0 && expected != sequence) {
        return err_set(err, -EUCLEAN,
                       "records %llu to %llu are missing in the journal: restore it from a copy",
                       (unsigned long long)expected, (unsigned long long)sequence - 1);
    }
    return 0;
}

/* Rows from..to, both included. */
static int walk_rows(sqlite3 *db, struct walk *walk, uint64_t from, uint64_t to, struct err *err)
{
    static const char sql[] =
        "SELECT " STORE_ROW_COLUMNS " FROM journal WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq";
    int code = sql_prepare(db, sql, &walk->statement, err);
    if (code < 0) {
        return code;
    }
    (void)sqlite3_bind_int64(walk->statement, 1, (int64_t)from); /* fails only on misuse */
    (void)sqlite3_bind_int64(walk->statement, 2, to > INT64_MAX ? INT64_MAX : (int64_t)to);
    int rc;
    while (code == 0 && (rc = sqlite3_step(walk->statement)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW) {
            code = sql_error(db, rc, err, "reading the journal");
            break;
        }
        uint64_t sequence = column_u64(walk->statement, COLUMN_SEQ);
        code = check_hole(walk, sequence, err);
        walk->replayed->last = sequence;
        walk->replayed->first = walk->replayed->first == 0 ? sequence : walk->replayed->first;
        code = code == 0 ? visit_row(walk, err) : code;
    }
    (void)sqlite3_finalize(walk->statement); /* repeats the error of step */
    walk->statement = NULL;
    return code;
}

/* ---- snapshots ----------------------------------------------------------------------------- */

/* The number of images that a mark speaks of, 0 when it is none. */
static uint64_t mark_records(sqlite3_stmt *statement, int column)
{
    json_t *body = json_loads(sql_column_text(statement, column), 0, NULL);
    json_int_t records = json_integer_value(json_object_get(body, "records"));
    json_decref(body);
    return records > 0 ? (uint64_t)records : 0;
}

/* Is there a whole snapshot that ends with this mark? Its first image, or 0. */
static int check_snapshot(sqlite3 *db, struct record *record, uint64_t end, uint64_t records,
                          uint64_t *ret_first, struct err *err)
{
    *ret_first = 0;
    if (records == 0 || records + 1 >= end) {
        return 0;
    }
    char sql[192];
    long long begin = (long long)(end - records - 1);
    (void)sqlite3_snprintf((int)sizeof(sql), sql,
                           "SELECT count(*) FROM journal WHERE seq BETWEEN %lld AND %lld AND "
                           "iif(seq = %lld, kind = '%s', kind LIKE 'image\\_%%' ESCAPE '\\')",
                           begin, (long long)end - 1, begin, STORE_MARK_BEGIN);
    int64_t found = 0;
    int code = sql_integer(db, sql, &found, err);
    if (code < 0 || (uint64_t)found != records + 1) {
        return code;
    }
    struct store_replayed ignored = {0};
    struct walk walk = {.record = record, .images = true, .replayed = &ignored};
    code = walk_rows(db, &walk, end - records, end - 1, err);
    if (code == 0) {
        *ret_first = end - records;
    }
    return code == -EINVAL ? 0 : code;
}

/* The newest snapshot that is whole and readable: its images are *ret_first .. *ret_end - 1; 0 when
 * there is none. */
static int find_snapshot(sqlite3 *db, struct record *record, uint64_t *ret_first, uint64_t *ret_end,
                         uint32_t *ret_broken, struct err *err)
{
    static const char sql[] = "SELECT seq, body FROM journal WHERE kind = 'snapshot_end' "
                              "ORDER BY seq DESC";
    sqlite3_stmt *statement = NULL;
    int code = sql_prepare(db, sql, &statement, err);
    if (code < 0) {
        return code;
    }
    *ret_first = 0;
    int rc;
    while (code == 0 && *ret_first == 0 && (rc = sqlite3_step(statement)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW) {
            code = sql_error(db, rc, err, "looking for a snapshot");
            break;
        }
        *ret_end = column_u64(statement, 0);
        code = check_snapshot(db, record, *ret_end, mark_records(statement, 1), ret_first, err);
        *ret_broken += code == 0 && *ret_first == 0 ? 1 : 0;
    }
    (void)sqlite3_finalize(statement); /* repeats the error of step */
    return code;
}

int store_last_snapshot(sqlite3 *db, uint64_t *ret_sequence, struct err *err)
{
    int64_t last = 0;
    int code = sql_integer(
        db, "SELECT coalesce(max(seq), 0) FROM journal WHERE kind = 'snapshot_end'", &last, err);
    if (code == 0) {
        *ret_sequence = (uint64_t)last;
    }
    return code;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int replay_fast(sqlite3 *db, struct walk *walk, struct err *err)
{
    uint64_t first = 0;
    uint64_t end = 0;
    int code =
        find_snapshot(db, walk->record, &first, &end, &walk->replayed->snapshots_broken, err);
    uint64_t from = 1;
    if (code == 0 && first > 0) {
        walk->replayed->from_snapshot = true;
        walk->images = true;
        code = walk_rows(db, walk, first, end, err);
        walk->images = false;
        from = end + 1;
    }
    return code == 0 ? walk_rows(db, walk, from, UINT64_MAX, err) : code;
}

int store_replay(struct store *store, uint64_t from, const struct store_visitor *visitor,
                 struct store_replayed *ret_replayed, struct err *err)
{
    sqlite3 *db = NULL;
    int code = sql_open(store->path, SQL_READER, store->options.vfs, &db, err);
    if (code < 0) {
        return err_wrap(err, "%s", store->path);
    }
    struct store_replayed replayed = {0};
    struct walk walk = {.visitor = visitor, .replayed = &replayed};
    walk.record = mem_alloc(1, sizeof(*walk.record));
    code = from == 0 ? replay_fast(db, &walk, err) : walk_rows(db, &walk, from, UINT64_MAX, err);
    (void)mem_free(walk.record);
    (void)sql_close(db);
    if (ret_replayed != NULL) {
        *ret_replayed = replayed; /* also after an error: how far it came */
    }
    return code;
}
