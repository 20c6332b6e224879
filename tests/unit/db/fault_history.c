/* fault_history.c: see the header. */
#include "tests/unit/db/fault_history.h"

#include <errno.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "tests/unit/db/fault_vfs.h"

enum { BATCH_RECORDS_MAX = 40 };

uint32_t history_batch_size(uint32_t batch)
{
    return 1 + (batch * 13) % BATCH_RECORDS_MAX;
}

uint64_t history_digest(uint64_t count, bool *ret_whole)
{
    struct record_random *world = world_new(21);
    struct record *record = mem_alloc(1, sizeof(*record));
    uint64_t digest = HASH_INIT;
    uint64_t end = 0;
    for (uint32_t batch = 0; end < count; batch++) {
        end += history_batch_size(batch);
    }
    *ret_whole = end == count;
    for (uint64_t i = 0; i < count; i++) {
        record_random_next(world, record);
        digest = record_sum(digest, record);
    }
    (void)mem_free(record);
    (void)mem_free(world);
    return digest;
}

int history_write(const struct folder *folder, int report, struct err *err)
{
    const struct store_options options = {.vfs = fault_vfs()};
    struct store *store = NULL;
    int code = store_open(folder->database, STORE_CREATE, &options, &store, err);
    if (code < 0) {
        return code;
    }
    struct record_random *world = world_new(21);
    uint64_t durable = 0;
    for (uint32_t batch = 0; batch < HISTORY_BATCHES && code == 0; batch++) {
        struct record *records = records_take(world, history_batch_size(batch));
        code = store_append_sync(store, records, history_batch_size(batch), HELP_WAIT_MS, err);
        records_free(records, history_batch_size(batch));
        durable += history_batch_size(batch);
        if (code == 0 && report >= 0 &&
            write(report, &durable, sizeof(durable)) != sizeof(durable)) {
            code = -EPIPE;
        }
    }
    (void)mem_free(world);
    int closed = store_close(store, HELP_WAIT_MS, code == 0 ? err : NULL);
    return code == 0 ? closed : code;
}

uint64_t history_check(const struct folder *folder, uint64_t least, bool rebuild)
{
    struct store *store = open_store(folder, STORE_CREATE, NULL);
    struct replay_sum sum;
    replay_into(store, 0, &sum);
    bool whole = false;
    uint64_t digest = history_digest(sum.count, &whole);
    assert_true(sum.count >= least);
    assert_true(whole);
    assert_true(sum.digest == digest);
    assert_int_equal(sum.replayed.bad, 0);
    close_store(store);
    if (rebuild && sum.count > 0) {
        char *before = dump_of(folder, NULL);
        close_store(open_store(folder, STORE_REBUILD, NULL));
        char *after = dump_of(folder, NULL);
        assert_string_equal(after, before);
        (void)mem_free(before);
        (void)mem_free(after);
    }
    return sum.count;
}
