/* db_help.c: see the header. */
#include "tests/unit/db/db_help.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static void make_below(struct folder *folder, const char *place)
{
    assert_true(text_format(folder->path, sizeof(folder->path), "%s/keepstep-db.XXXXXX", place));
    assert_non_null(mkdtemp(folder->path));
    assert_true(
        text_format(folder->database, sizeof(folder->database), "%s/keepstep.db", folder->path));
}

void folder_make(struct folder *folder)
{
    make_below(folder, "/tmp");
}

void folder_make_fast(struct folder *folder)
{
    make_below(folder, access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *where)
{
    (void)status;
    (void)flag;
    (void)where;
    return remove(path);
}

void folder_remove(const struct folder *folder)
{
    assert_int_equal(nftw(folder->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

struct store *open_store(const struct folder *folder, enum store_mode mode,
                         const struct store_options *options)
{
    struct store *store = NULL;
    struct err err = {0};
    if (store_open(folder->database, mode, options, &store, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return store;
}

void close_store(struct store *store)
{
    struct err err = {0};
    if (store_close(store, HELP_WAIT_MS, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

struct record *records_take(struct record_random *world, uint32_t count)
{
    struct record *records = mem_alloc(count, sizeof(*records));
    for (uint32_t i = 0; i < count; i++) {
        record_random_next(world, &records[i]);
        if (records[i].text != NULL) {
            records[i].text = mem_strdup(records[i].text);
        }
    }
    return records;
}

void records_free(struct record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)mem_free((char *)(uintptr_t)records[i].text);
    }
    (void)mem_free(records);
}

void append_history(struct store *store, struct record_random *world, uint32_t count,
                    uint32_t batch_max)
{
    struct err err = {0};
    uint64_t ticket = 0;
    for (uint32_t done = 0; done < count;) {
        uint32_t size = (uint32_t)prng_between(&world->prng, 1, batch_max);
        size = size < count - done ? size : count - done;
        struct record *records = records_take(world, size);
        if (store_append(store, records, size, &ticket, NULL, &err) < 0) {
            fail_msg("%s", err.text);
        }
        records_free(records, size);
        done += size;
    }
    if (store_wait(store, ticket, HELP_WAIT_MS, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

struct record_random *world_new(uint64_t seed)
{
    struct record_random *world = mem_alloc(1, sizeof(*world));
    record_random_start(world, seed, HELP_WALL_MS);
    return world;
}

static sqlite3 *open_file(const struct folder *folder, enum sql_open_mode mode)
{
    sqlite3 *db = NULL;
    struct err err = {0};
    if (sql_open(folder->database, mode, NULL, &db, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return db;
}

int64_t number_of(const struct folder *folder, const char *sql)
{
    sqlite3 *db = open_file(folder, SQL_READER);
    struct err err = {0};
    int64_t value = 0;
    if (sql_integer(db, sql, &value, &err) < 0) {
        fail_msg("%s", err.text);
    }
    (void)sql_close(db);
    return value;
}

void change_file(const struct folder *folder, const char *sql)
{
    sqlite3 *db = open_file(folder, SQL_WRITER);
    struct err err = {0};
    if (sql_exec(db, sql, &err) < 0) {
        fail_msg("%s", err.text);
    }
    (void)sql_close(db);
}

static void dump_table(sqlite3 *db, const char *table, struct buf *out)
{
    char sql[128];
    (void)text_format(sql, sizeof(sql), "SELECT * FROM \"%s\"", table);
    sqlite3_stmt *rows = NULL;
    assert_int_equal(sql_prepare(db, sql, &rows, NULL), 0);
    assert_int_equal(buf_printf(out, "== %s\n", table), 0);
    while (sqlite3_step(rows) == SQLITE_ROW) {
        for (int column = 0; column < sqlite3_column_count(rows); column++) {
            const char *text = sqlite3_column_type(rows, column) == SQLITE_NULL
                                   ? "NULL"
                                   : sql_column_text(rows, column);
            assert_int_equal(buf_printf(out, "%s|", text), 0);
        }
        assert_int_equal(buf_put(out, "\n", 1), 0);
    }
    (void)sqlite3_finalize(rows);
}

char *dump_of(const struct folder *folder, const char *only_table)
{
    sqlite3 *db = open_file(folder, SQL_READER);
    struct buf out;
    buf_init(&out, 256u << 20);
    sqlite3_stmt *names = NULL;
    assert_int_equal(sql_prepare(db,
                                 "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT "
                                 "LIKE 'sqlite%' AND name NOT IN ('journal', 'writer') ORDER BY 1",
                                 &names, NULL),
                     0);
    while (sqlite3_step(names) == SQLITE_ROW) {
        const char *name = sql_column_text(names, 0);
        if (only_table == NULL || text_equal(name, only_table)) {
            dump_table(db, name, &out);
        }
    }
    (void)sqlite3_finalize(names);
    (void)sql_close(db);
    char *text = buf_take(&out, NULL);
    buf_done(&out);
    return text;
}

char *contents_of(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    char *text = mem_alloc(size + 1, 1);
    rewind(file);
    assert_int_equal(fread(text, 1, size, file), size);
    (void)fclose(file);
    *ret_size = size;
    return text;
}

uint64_t record_sum(uint64_t digest, const struct record *record)
{
    digest = record_digest(digest, record);
    digest = hash_text(digest, record->event.type);
    digest = hash_text(digest, record->event.message);
    digest = hash_u64(digest, record->event.severity);
    digest = hash_u64(digest, record->job);
    digest = hash_u64(digest, record->node);
    digest = hash_u64(digest, record->recovery);
    digest = hash_u64(digest, record->version);
    return record->text != NULL ? hash_bytes(digest, record->text, record->text_size) : digest;
}

static int sum_record(const struct record *record, void *context)
{
    struct replay_sum *sum = context;
    sum->digest = record_sum(sum->digest, record);
    sum->count++;
    sum->last = record->sequence;
    return 0;
}

static int sum_bad(const struct store_bad *bad, void *context)
{
    struct replay_sum *sum = context;
    sum->bad_sequence = bad->sequence;
    sum->bad_job = bad->job;
    (void)text_copy(sum->bad_reason, sizeof(sum->bad_reason), bad->reason);
    return 0;
}

void replay_into(struct store *store, uint64_t from, struct replay_sum *ret_sum)
{
    *ret_sum = (struct replay_sum){.digest = HASH_INIT};
    struct store_visitor visitor = {sum_record, sum_bad, ret_sum};
    struct err err = {0};
    if (store_replay(store, from, &visitor, &ret_sum->replayed, &err) < 0) {
        fail_msg("%s", err.text);
    }
}
