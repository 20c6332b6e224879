/* power_test.c: the power goes at every change and every sync of the disk in turn, with what was
 * not synced kept, lost, torn or out of order. Each time a new controller finds every decision whose
 * commit had returned, whole commits and nothing else, and a state that is their fold.
 *
 * First it is shown that this can fail at all: the same life with synchronous=OFF must lose a
 * decision. */
#include "tests/fault/core_history.h"

#include <poll.h>
#include <sys/stat.h>

#include "proto/base/mem.h"
#include "tests/fault/crash_vfs.h"

enum { GO_ON_EVERY = 8, COPY_BACK_EVERY = 7, SEEDS = 3, NAMED_MAX = 64 };

static int history_up(void **state)
{
    *state = history_create();
    return 0;
}

static int history_down(void **state)
{
    (void)history_free(*state);
    return 0;
}

/* ---- one life ------------------------------------------------------------------------------ */

struct life {
    const struct history *history;
    struct folder folder;
    struct store *store; /* NULL: closed */
    bool synced;
    uint32_t acknowledged; /* commits */
};

static bool open_life(struct life *life)
{
    const struct store_options options = {.vfs = crash_vfs()};
    struct err err = {0};
    int code = store_open(life->folder.database, STORE_CREATE, &options, &life->store, &err);
    if (code < 0) {
        life->store = NULL;
        if (!crash_is_cut()) {
            fail_msg("%s", err.text);
        }
        return false;
    }
    /* The connection is the opener's until the first append. */
    return life->synced || sql_exec(life->store->db, "PRAGMA synchronous=OFF", NULL) == 0;
}

/* false: the power went. */
static bool close_life(struct life *life)
{
    bool cut = crash_is_cut();
    struct err err = {0};
    int code = store_close(life->store, cut ? 0 : HELP_WAIT_MS, &err);
    life->store = NULL;
    if (code < 0 && !crash_is_cut()) {
        fail_msg("%s", err.text);
    }
    return !crash_is_cut();
}

/* Until that batch is durable, or the store finds no disk any more: it tells of both. */
static bool wait_durable(struct store *store, uint64_t ticket)
{
    struct store_status status;
    for (store_status(store, &status); status.durable_ticket < ticket; store_poll(store, &status)) {
        if (status.condition != STORE_COMMITTING && crash_is_cut()) {
            return false;
        }
        struct pollfd wake = {.fd = store_wake_fd(store), .events = POLLIN};
        assert_int_equal(poll(&wake, 1, HELP_WAIT_MS), 1);
    }
    return true;
}

/* Copies the WAL back, as the store does with a long one, so that the next commit begins it anew. */
static bool copy_back(const struct life *life)
{
    sqlite3 *db = NULL;
    int code = sql_open(life->folder.database, SQL_WRITER, crash_vfs(), &db, NULL);
    code = code == 0 && !life->synced ? sql_exec(db, "PRAGMA synchronous=OFF", NULL) : code;
    code = code == 0 ? sql_exec(db, "PRAGMA wal_checkpoint(PASSIVE)", NULL) : code;
    (void)sql_close(db);
    assert_true(code == 0 || crash_is_cut());
    return code == 0;
}

/* Appends everything; now and then the WAL is copied back, half-way the controller ends and is
 * started again, later it takes a snapshot. Ends when the power goes. */
static void live(struct life *life)
{
    const struct history *history = life->history;
    bool alive = open_life(life);
    for (uint32_t commit = 0; commit < history->commits && alive; commit++) {
        uint64_t ticket = 0;
        if (commit == history->commits / 2) {
            alive = close_life(life) && open_life(life);
        }
        if (alive && commit == history->snapshot_at) {
            assert_int_equal(history_append_snapshot(history, life->store, &ticket, NULL), 0);
            alive = wait_durable(life->store, ticket);
        }
        if (alive) {
            assert_int_equal(history_append(history, life->store, commit, &ticket, NULL), 0);
            alive = wait_durable(life->store, ticket);
            life->acknowledged += alive ? 1 : 0;
        }
        if (alive && commit % COPY_BACK_EVERY == 0) {
            alive = copy_back(life);
        }
    }
    if (life->store != NULL) {
        (void)close_life(life);
    }
}

/* ---- lives that end ------------------------------------------------------------------------ */

struct tally {
    uint64_t lives;
    uint64_t before_the_first;
    uint64_t lost;
    struct crash_figures figures;
};

/* Lives with the power cut at operation n, and judges what is left; true when nothing was lost. */
static bool cut_at(const struct history *history, bool synced, uint64_t n, uint64_t seed,
                   struct tally *tally)
{
    struct life life = {.history = history, .synced = synced};
    struct folder left;
    folder_make_fast(&life.folder);
    folder_make_fast(&left);
    crash_begin(n);
    live(&life);
    crash_lay_out(left.path, seed, &tally->figures);
    crash_end();
    struct stat status;
    bool empty = stat(left.database, &status) != 0;
    uint32_t commits = 0;
    struct err reason = {0};
    const char *wrong = history_judge(history, &left, life.acknowledged, &commits, &reason);
    if (wrong != NULL && synced) {
        fail_msg("power cut at operation %llu, seed %llu, %u commits acknowledged: %s",
                 (unsigned long long)n, (unsigned long long)seed, life.acknowledged, wrong);
    }
    if (synced && tally->lives % GO_ON_EVERY == 0) {
        history_go_on(history, &left, commits);
    }
    tally->lives++;
    tally->before_the_first += empty || commits == 0 ? 1 : 0;
    tally->lost += wrong != NULL ? 1 : 0;
    folder_remove(&life.folder);
    folder_remove(&left);
    return wrong == NULL;
}

/* How many operations a life has that nobody cuts short, and which of them were on names: those are
 * few, and all visited. */
static uint64_t whole_life(const struct history *history, bool synced, uint64_t named[NAMED_MAX])
{
    struct life life = {.history = history, .synced = synced};
    folder_make_fast(&life.folder);
    crash_begin(0);
    live(&life);
    uint64_t operations = crash_operations();
    for (uint32_t i = 0; i < NAMED_MAX; i++) {
        named[i] = crash_name_operation(i);
    }
    crash_end();
    assert_int_equal(life.acknowledged, history->commits);
    uint32_t commits = 0;
    struct err reason = {0};
    assert_null(history_judge(history, &life.folder, history->commits, &commits, &reason));
    folder_remove(&life.folder);
    return operations;
}

static void say(const char *what, uint64_t operations, const struct tally *tally)
{
    print_message("%s: %llu of %llu operations, %llu times before the first commit, %llu lost; "
                  "changes kept %llu, dropped %llu, garbled %llu, names undone %llu\n",
                  what, (unsigned long long)tally->lives, (unsigned long long)operations,
                  (unsigned long long)tally->before_the_first, (unsigned long long)tally->lost,
                  (unsigned long long)tally->figures.kept,
                  (unsigned long long)tally->figures.dropped,
                  (unsigned long long)tally->figures.garbled,
                  (unsigned long long)tally->figures.names_undone);
}

/* A disk that is never told to sync loses decisions: else this test would prove nothing. */
static void without_syncs_decisions_are_lost(void **state)
{
    const struct history *history = *state;
    uint64_t named[NAMED_MAX];
    uint64_t operations = whole_life(history, false, named);
    struct tally tally = {0};
    for (uint64_t n = operations; n > operations / 2 && tally.lives < VISITS_SANITIZED;
         n -= history_stride(operations)) {
        (void)cut_at(history, false, n, n, &tally);
    }
    say("synchronous=OFF", operations, &tally);
    assert_true(tally.lost > 0);
}

static void nothing_is_lost(void **state)
{
    const struct history *history = *state;
    uint64_t named[NAMED_MAX];
    uint64_t operations = whole_life(history, true, named);
    uint64_t stride = history_stride(operations);
    struct tally tally = {0};
    for (uint64_t n = 1; n <= operations; n += stride) {
        for (uint64_t seed = 0; seed < (stride == 1 ? SEEDS : 1); seed++) {
            (void)cut_at(history, true, n, n * SEEDS + seed, &tally);
        }
    }
    for (uint32_t i = 0; i < NAMED_MAX && named[i] != 0 && stride > 1; i++) {
        (void)cut_at(history, true, named[i], i, &tally);
    }
    say("synchronous=FULL", operations, &tally);
    assert_int_equal(tally.lost, 0);
    assert_true(tally.before_the_first > 0 && tally.before_the_first < tally.lives);
    assert_true(tally.figures.kept > 0 && tally.figures.dropped > 0);
    assert_true(tally.figures.garbled > 0 && tally.figures.names_undone > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_syncs_decisions_are_lost),
        cmocka_unit_test(nothing_is_lost),
    };
    return cmocka_run_group_tests_name("power", tests, history_up, history_down);
}
