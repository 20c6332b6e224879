/* store_cut_test.c: two things that a cut of the power may leave, made by hand (tests/fault makes
 * all of them): a first page that was torn while the WAL was copied back, and the change to a WAL
 * that was not finished. SQLite mends both; nobody may refuse the file before it has. */
#include "tests/unit/db/db_help.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { RECORDS = 300, SECTOR = 512 };

struct cut {
    struct folder now;  /* of the controller that lives */
    struct folder left; /* what is there after the cut */
};

static int cut_up(void **state)
{
    struct cut *cut = mem_alloc(1, sizeof(*cut));
    folder_make_fast(&cut->now);
    folder_make_fast(&cut->left);
    *state = cut;
    return 0;
}

static int cut_down(void **state)
{
    struct cut *cut = *state;
    folder_remove(&cut->now);
    folder_remove(&cut->left);
    (void)mem_free(cut);
    return 0;
}

/* The file of this ending as it is now, `torn` bytes of its beginning overwritten. */
static void leave(const struct cut *cut, const char *ending, size_t torn)
{
    char path[HELP_PATH_SIZE + 16];
    size_t size = 0;
    assert_true(text_format(path, sizeof(path), "%s%s", cut->now.database, ending));
    char *bytes = contents_of(path, &size);
    assert_true(size > torn);
    memset(bytes, 0xa5, torn);
    assert_true(text_format(path, sizeof(path), "%s%s", cut->left.database, ending));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    (void)mem_free(bytes);
}

/* Its name is there, and nothing in it yet. */
static void begin_wal(const struct folder *folder)
{
    char path[HELP_PATH_SIZE + 16];
    assert_true(text_format(path, sizeof(path), "%s-wal", folder->database));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static struct replay_sum sum_of(const struct folder *folder)
{
    struct replay_sum sum;
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    replay_into(store, 0, &sum);
    close_store(store);
    return sum;
}

static void append_all(struct store *store)
{
    struct record_random *world = world_new(3);
    append_history(store, world, RECORDS, 40);
    (void)mem_free(world);
}

static void expect_all(const struct cut *cut)
{
    struct replay_sum wanted = sum_of(&cut->now);
    struct replay_sum found = sum_of(&cut->left);
    assert_int_equal(wanted.count, RECORDS);
    assert_int_equal(found.count, RECORDS);
    assert_true(found.digest == wanted.digest);
}

static void a_torn_first_page_is_in_the_wal(void **state)
{
    const struct cut *cut = *state;
    struct store *store = open_store(&cut->now, STORE_CREATE, NULL);
    append_all(store);
    leave(cut, "", SECTOR);
    leave(cut, "-wal", 0);
    close_store(store);
    expect_all(cut);
}

static void a_change_without_a_wal_is_rolled_back(void **state)
{
    const struct cut *cut = *state;
    struct store *store = open_store(&cut->now, STORE_CREATE, NULL);
    append_all(store);
    close_store(store);
    sqlite3 *db = NULL;
    assert_int_equal(sql_open(cut->now.database, SQL_NEW, NULL, &db, NULL), 0);
    /* More than its cache holds, so that some of it is written before its end; first page too. */
    assert_int_equal(sql_exec(db,
                              "PRAGMA cache_size=2; BEGIN IMMEDIATE; PRAGMA user_version=2;"
                              "UPDATE journal SET body = '{}', message = 'half of it'",
                              NULL),
                     0);
    leave(cut, "", SECTOR);
    leave(cut, "-journal", 0);
    begin_wal(&cut->left);
    assert_int_equal(sql_exec(db, "ROLLBACK", NULL), 0);
    (void)sql_close(db);
    expect_all(cut);
}

#define AFTER_A_CUT(test) cmocka_unit_test_setup_teardown(test, cut_up, cut_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AFTER_A_CUT(a_torn_first_page_is_in_the_wal),
        AFTER_A_CUT(a_change_without_a_wal_is_rolled_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
