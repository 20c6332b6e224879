/* store_loop_test.c: one call of SQLite's to its files or its allocator fails, the first, the
 * second, … until a run comes through with none left to fail; once, and for ever until it is
 * healed. Whatever fails says why, nothing that the disk or the memory did is taken for a damaged
 * record, the store goes on by itself, and in the end the journal is the whole history. */
#include "tests/fault/core_history.h"

#include <errno.h>
#include <poll.h>

#include "proto/base/mem.h"
#include "tests/fault/sqlite_memory.h"
#include "tests/unit/db/fault_vfs.h"

enum {
    COMMITS = 30, /* of the history, with a snapshot amid them */
    TRIES_BEFORE_HEALED = 2,
    POINTS_OF_KIND = 8,
    POINTS_LEAST = 4, /* with a sanitizer */
};

struct kind {
    const char *name;
    uint32_t classes; /* 0: SQLite's allocator */
    int rc;
    uint64_t points; /* about how many calls a run makes; the loop ends by itself */
};

static const struct kind kinds[] = {
    {"write full", FAULT_WRITE, SQLITE_FULL, 900},
    {"write error", FAULT_WRITE, SQLITE_IOERR_WRITE, 900},
    {"sync error", FAULT_SYNC, SQLITE_IOERR_FSYNC, 40},
    {"truncate or remove", FAULT_TRUNCATE | FAULT_DELETE, SQLITE_IOERR_TRUNCATE, 2},
    {"open", FAULT_OPEN, SQLITE_CANTOPEN, 8},
    {"read error", FAULT_READ, SQLITE_IOERR_READ, 400},
    {"lock error", FAULT_SHM_LOCK, SQLITE_IOERR_SHMLOCK, 300},
    {"map error", FAULT_SHM_MAP, SQLITE_IOERR_SHMMAP, 3},
    {"busy", FAULT_SHM_LOCK | FAULT_LOCK, SQLITE_BUSY, 1500}, /* SQLite waits at each */
    {"memory", 0, 0, 20000},
};

static void strike_at(const struct kind *kind, uint64_t nth, bool ever)
{
    if (kind->classes != 0) {
        fault_set(FAULT_FAIL, kind->classes, nth, !ever, kind->rc);
    } else {
        sqlite_memory_fail(nth, ever);
    }
}

static void heal(void)
{
    fault_heal();
    sqlite_memory_heal();
}

static uint64_t hits_of(const struct kind *kind)
{
    return kind->classes != 0 ? fault_hits() : sqlite_memory_hits();
}

/* ---- one run ------------------------------------------------------------------------------- */

struct run {
    const struct history *history;
    const struct kind *kind;
    uint64_t nth;
    bool ever;
    struct folder folder;
    struct store *store;
};

static void complain(const struct run *run, const char *what, const char *text)
{
    fail_msg("%s, call %llu, %s: %s: '%s'", run->kind->name, (unsigned long long)run->nth,
             run->ever ? "for ever" : "once", what, text);
}

/* What failed was struck, has a text, and is not taken for damage that somebody must mend. */
static void check_failure(const struct run *run, const char *what, int code, const struct err *err)
{
    if (hits_of(run->kind) == 0 || err->text[0] == '\0' || code == -EUCLEAN ||
        code == -EPROTONOSUPPORT || code == -EMEDIUMTYPE || code == -ESTALE) {
        complain(run, what, err->text);
    }
}

static void open_run(struct run *run)
{
    const struct store_options options = {.vfs = fault_vfs()};
    struct err err = {0};
    int code = store_open(run->folder.database, STORE_CREATE, &options, &run->store, &err);
    if (code < 0) {
        check_failure(run, "opening", code, &err);
        heal();
        code = store_open(run->folder.database, STORE_CREATE, &options, &run->store, &err);
    }
    if (code < 0) {
        complain(run, "opening again", err.text);
    }
}

/* Until that batch is durable; the disk heals when the store has tried for a while. */
static void wait_durable(struct run *run, uint64_t ticket)
{
    struct store_status status;
    for (store_status(run->store, &status); status.durable_ticket < ticket;
         store_poll(run->store, &status)) {
        if (status.condition == STORE_FENCED ||
            (status.condition == STORE_RETRYING && status.reason[0] == '\0')) {
            complain(run, "committing", status.reason);
        }
        if (run->ever && status.tries >= TRIES_BEFORE_HEALED) {
            heal();
        }
        struct pollfd wake = {.fd = store_wake_fd(run->store), .events = POLLIN};
        if (poll(&wake, 1, HELP_WAIT_MS) != 1) {
            complain(run, "committing: it stands still", status.reason);
        }
    }
}

static void write_run(struct run *run)
{
    struct err err = {0};
    for (uint32_t commit = 0; commit < COMMITS; commit++) {
        uint64_t ticket = 0;
        int code = history_append(run->history, run->store, commit, &ticket, &err);
        if (code == 0 && commit + 1 == run->history->snapshot_at) {
            code = history_append_snapshot(run->history, run->store, &ticket, &err);
        }
        if (code < 0) {
            complain(run, "appending", err.text);
        }
        wait_durable(run, ticket);
    }
}

static void question_run(struct run *run)
{
    struct err err = {0};
    struct store_reader *reader = NULL;
    const struct store_event_filter all = {0};
    json_t *rows = NULL;
    int code = store_reader_open(run->folder.database, &reader, &err);
    code = code == 0 ? store_events_last(reader, &all, COMMITS, &rows, &err) : code;
    if (code < 0) {
        check_failure(run, "a question", code, &err);
    } else {
        assert_true(json_array_size(rows) > 0);
    }
    json_decref(rows);
    (void)store_reader_close(reader);
}

static void read_run(struct run *run)
{
    struct err err = {0};
    uint64_t digest = 0;
    uint64_t facts = 0;
    int code = history_fold(run->history, run->store, 0, &digest, &facts, &err);
    if (code < 0) {
        check_failure(run, "replaying", code, &err);
    } else if (digest != run->history->digests[COMMITS]) {
        complain(run, "replaying", "another state");
    }
}

/* true: the run was struck. */
static bool run_once(const struct history *history, const struct kind *kind, uint64_t nth,
                     bool ever)
{
    struct run run = {.history = history, .kind = kind, .nth = nth, .ever = ever};
    int64_t held = sqlite_memory_held();
    folder_make_fast(&run.folder);
    strike_at(kind, nth, ever);
    open_run(&run);
    write_run(&run);
    read_run(&run);
    question_run(&run);
    bool struck = hits_of(kind) > 0;
    heal();
    close_store(run.store);
    if (sqlite_memory_held() != held) {
        complain(&run, "leaked", "blocks of SQLite's are still held");
    }
    uint32_t commits = 0;
    struct err reason = {0};
    const char *wrong = history_judge(history, &run.folder, COMMITS, &commits, &reason);
    if (wrong != NULL || commits != COMMITS) {
        complain(&run, "in the end", wrong != NULL ? wrong : "another number of commits");
    }
    folder_remove(&run.folder);
    return struck;
}

/* ---- the loops ----------------------------------------------------------------------------- */

static void fail_each(const struct history *history, bool ever)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint64_t stride = history_stride(kinds[i].points * VISITS / POINTS_OF_KIND);
        uint64_t most = kinds[i].points / POINTS_LEAST + 1;
        stride = stride < most ? stride : most;
        uint64_t runs = 0;
        for (uint64_t nth = 1; run_once(history, &kinds[i], nth, ever); nth += stride) {
            runs++;
        }
        print_message("%s, %s: %llu points, each %llu\n", kinds[i].name, ever ? "for ever" : "once",
                      (unsigned long long)runs, (unsigned long long)stride);
        assert_true(runs > 0);
    }
}

static void once(void **state)
{
    fail_each(*state, false);
}

static void for_ever(void **state)
{
    fail_each(*state, true);
}

static int history_up(void **state)
{
    struct history *history = history_create();
    history_snapshot_at(history, COMMITS / 2);
    assert_true(history->commits > COMMITS);
    *state = history;
    return 0;
}

static int history_down(void **state)
{
    (void)history_free(*state);
    return 0;
}

int main(void)
{
    sqlite_memory_install();
    (void)fault_vfs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once),
        cmocka_unit_test(for_ever),
    };
    return cmocka_run_group_tests_name("store_loop", tests, history_up, history_down);
}
