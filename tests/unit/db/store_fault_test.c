/* store_fault_test.c: the disk fails: once, at each operation in turn; for a while, full; and in the
 * middle of a COMMIT, so that nobody knows. Nothing is lost, nothing is written twice, and all goes
 * on by itself. */
#include "tests/unit/db/fault_history.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"
#include "tests/unit/db/fault_vfs.h"

static int folder_up(void **state)
{
    struct folder *folder = mem_alloc(1, sizeof(*folder));
    folder_make_fast(folder);
    *state = folder;
    return 0;
}

static int folder_down(void **state)
{
    fault_heal();
    folder_remove(*state);
    (void)mem_free(*state);
    return 0;
}

/* ---- the disk fails once --------------------------------------------------------------------- */

/* A new store and its history with one failure at operation n; true when none was left to strike.
 * A store that could not be opened is opened again: nothing of the failure may be in the way. */
static bool write_with_one_failure(uint32_t classes, uint64_t n, int rc)
{
    struct folder folder;
    folder_make_fast(&folder);
    struct err err = {0};
    fault_set(FAULT_FAIL, classes, n, true, rc);
    int code = history_write(&folder, -1, &err);
    bool struck = fault_hits() > 0;
    if (code < 0 && !struck) {
        fail_msg("%s", err.text);
    }
    if (code < 0) {
        assert_true(err.text[0] != '\0');
        assert_int_equal(history_write(&folder, -1, &err), 0);
    }
    fault_heal();
    bool whole = false;
    uint64_t count = history_check(&folder, 0, n % HISTORY_REBUILD_EVERY == 0);
    (void)history_digest(count, &whole);
    uint64_t total = 0;
    for (uint32_t batch = 0; batch < HISTORY_BATCHES; batch++) {
        total += history_batch_size(batch);
    }
    assert_int_equal(count, total);
    folder_remove(&folder);
    return !struck;
}

static void one_failure_at_every_operation(void **state)
{
    static const struct {
        uint32_t classes;
        int rc;
    } kinds[] = {
        {FAULT_WRITE, SQLITE_FULL},
        {FAULT_WRITE, SQLITE_IOERR_WRITE},
        {FAULT_SYNC, SQLITE_IOERR_FSYNC},
        {FAULT_TRUNCATE | FAULT_DELETE, SQLITE_IOERR_TRUNCATE},
        {FAULT_OPEN, SQLITE_CANTOPEN},
        {FAULT_SHM_MAP, SQLITE_IOERR_SHMMAP},
        {FAULT_SHM_LOCK, SQLITE_IOERR_SHMLOCK},
    };
    (void)state;
    (void)fault_vfs();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint64_t n = 1;
        while (!write_with_one_failure(kinds[i].classes, n, kinds[i].rc)) {
            /* Page writes come in hundreds that are much alike. */
            n += kinds[i].classes == FAULT_WRITE ? 5 * HISTORY_STEP : 1;
            assert_true(n < HISTORY_POINTS_MAX);
        }
        print_message("classes %u, code %d: %llu points\n", kinds[i].classes, kinds[i].rc,
                      (unsigned long long)n - 1);
        assert_true(n > 1);
    }
}

/* ---- the disk is full for a while ----------------------------------------------------------- */

static void wait_for_condition(struct store *store, enum store_condition wanted,
                               struct store_status *ret_status)
{
    uint64_t end_us = store_clock_us() + UINT64_C(1000) * HELP_WAIT_MS;
    do {
        int never = store_wait(store, UINT64_MAX, 5, NULL); /* 5 ms on the store's condition */
        assert_int_equal(never, -ETIMEDOUT);
        store_poll(store, ret_status);
    } while (ret_status->condition != wanted && store_clock_us() < end_us);
    assert_int_equal(ret_status->condition, wanted);
}

static void a_full_disk_is_waited_for(void **state)
{
    const struct folder *folder = *state;
    const struct store_options options = {.vfs = fault_vfs()};
    fault_heal();
    struct store *store = open_store(folder, STORE_CREATE, &options);
    struct record_random *world = world_new(5);
    append_history(store, world, 200, 20);
    fault_set(FAULT_FAIL, FAULT_WRITE, 1, false, SQLITE_FULL);
    struct record *records = records_take(world, 900);
    uint64_t digest = HASH_INIT;
    uint64_t ticket = 0;
    for (uint32_t i = 0; i < 900; i += 9) {
        assert_int_equal(store_append(store, &records[i], 9, &ticket, NULL, NULL), 0);
    }
    struct store_status status;
    wait_for_condition(store, STORE_RETRYING, &status);
    assert_non_null(strstr(status.reason, "full"));
    assert_int_equal(status.pending_records, 900);
    assert_int_equal(status.durable_sequence, 200);
    struct err err = {0};
    assert_int_equal(store_wait(store, ticket, 300, &err), -ETIMEDOUT);
    store_status(store, &status);
    assert_true(status.tries >= 2);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 200); /* readers go on */
    fault_heal();
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, &err), 0);
    store_status(store, &status);
    assert_int_equal(status.condition, STORE_COMMITTING);
    assert_string_equal(status.reason, "");
    assert_int_equal(status.durable_sequence, 1100);
    struct replay_sum sum;
    replay_into(store, 201, &sum);
    for (uint32_t i = 0; i < 900; i++) {
        digest = record_sum(digest, &records[i]);
    }
    assert_int_equal(sum.count, 900);
    assert_true(sum.digest == digest);
    records_free(records, 900);
    (void)mem_free(world);
    close_store(store);
}

/* ---- nobody knows whether it was committed --------------------------------------------------- */

struct saboteur {
    struct store *_Atomic store;
    _Atomic bool armed;
    bool block_reading;
};

/* Commits behind the store's back, so that its own COMMIT fails although the records are there. */
static void commit_first(enum store_stage stage, uint64_t first, uint64_t last, void *context)
{
    (void)first;
    (void)last;
    struct saboteur *saboteur = context;
    if (stage != STORE_BEFORE_COMMIT || !saboteur->armed) {
        return;
    }
    saboteur->armed = false;
    struct store *store = saboteur->store;
    assert_int_equal(sql_exec(store->db, "COMMIT", NULL), 0);
    if (saboteur->block_reading) {
        fault_set(FAULT_FAIL, FAULT_SHM_LOCK, 1, false, SQLITE_IOERR_SHMLOCK);
    }
}

static void an_unknown_commit_is_looked_up(void **state)
{
    const struct folder *folder = *state;
    struct saboteur saboteur = {.store = NULL};
    const struct store_options options = {
        .vfs = fault_vfs(), .hook = commit_first, .hook_context = &saboteur};
    fault_heal();
    struct store *store = open_store(folder, STORE_CREATE, &options);
    saboteur.store = store;
    struct record_random *world = world_new(5);
    append_history(store, world, 30, 20);
    saboteur.armed = true;
    append_history(store, world, 10, 10); /* found at once */
    struct store_status status;
    store_status(store, &status);
    assert_int_equal(status.durable_sequence, 40);
    assert_int_equal(status.tries, 0);

    saboteur.block_reading = true;
    saboteur.armed = true;
    struct record *records = records_take(world, 7);
    uint64_t ticket = 0;
    assert_int_equal(store_append(store, records, 7, &ticket, NULL, NULL), 0);
    wait_for_condition(store, STORE_RETRYING, &status);
    assert_int_equal(status.pending_records, 7); /* not said to be durable before it is known */
    fault_heal();
    assert_int_equal(store_wait(store, ticket, HELP_WAIT_MS, NULL), 0);
    records_free(records, 7);
    append_history(store, world, 10, 10);
    close_store(store);
    assert_int_equal(number_of(folder, "SELECT count(*) FROM journal"), 57);
    (void)mem_free(world);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_up, folder_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_at_every_operation),
        IN_A_FOLDER(a_full_disk_is_waited_for),
        IN_A_FOLDER(an_unknown_commit_is_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
