/* memory_loop_test.c: one allocation of our own objects fails, the first, the second, … until a
 * run comes through with none left to fail; once, and for ever. A process either ends by mem.h's abort,
 * which says what it is, or goes on and says what is wrong; every decision that was acknowledged is
 * there afterwards. */
#include "tests/fault/core_history.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "controller/api/job_spec.h"
#include "proto/base/config.h"
#include "proto/base/mem.h"
#include "tests/fault/memory_wrap.h"

enum { COMMITS = 12, POINTS_OF_BODY = 14, POINTS_LEAST = 6, SAID_SIZE = 4096 };

struct body {
    const char *name;
    /* In a process of its own. Writes how many commits are durable to `report`; true when all went
     * well, else it has said why on stderr. */
    bool (*run)(const struct history *history, const struct folder *folder, int report);
    uint64_t points; /* about how many allocations it makes; the loop ends by itself */
    bool writes;     /* commits to the folder's database */
};

static bool give_up(const struct err *err)
{
    (void)dprintf(2, "%s\n", err->text);
    return false;
}

/* ---- what is run --------------------------------------------------------------------------- */

static bool run_store(const struct history *history, const struct folder *folder, int report)
{
    struct store *store = NULL;
    struct err err = {0};
    if (store_open(folder->database, STORE_CREATE, NULL, &store, &err) < 0) {
        return give_up(&err);
    }
    int code = 0;
    for (uint32_t commit = 0; commit < COMMITS && code == 0; commit++) {
        uint64_t ticket = 0;
        code = history_append(history, store, commit, &ticket, &err);
        code = code == 0 ? store_wait(store, ticket, HELP_WAIT_MS, &err) : code;
        uint32_t durable = commit + 1;
        if (code == 0 && write(report, &durable, sizeof(durable)) != sizeof(durable)) {
            code = err_set(&err, -EPIPE, "nobody reads the report");
        }
    }
    uint64_t digest = 0;
    uint64_t facts = 0;
    code = code == 0 ? history_fold(history, store, 0, &digest, &facts, &err) : code;
    struct err closing = {0};
    int closed = store_close(store, HELP_WAIT_MS, &closing);
    return code < 0 ? give_up(&err) : closed == 0 || give_up(&closing);
}

static bool run_questions(const struct history *history, const struct folder *folder, int report)
{
    (void)history;
    (void)report;
    struct err err = {0};
    struct store_reader *reader = NULL;
    const struct store_event_filter all = {0};
    json_t *rows = NULL;
    int code = store_reader_open(folder->database, &reader, &err);
    code = code == 0 ? store_events_last(reader, &all, COMMITS, &rows, &err) : code;
    bool whole = code < 0 || json_array_size(rows) > 0;
    json_decref(rows);
    (void)store_reader_close(reader);
    return code < 0 ? give_up(&err) : whole;
}

static bool run_job_file(const struct history *history, const struct folder *folder, int report)
{
    static const char text[] = "name: llama\n"
                               "run:\n"
                               "  command: [python3, train.py, --save, '{checkpoint.dir}']\n"
                               "  workdir: /shared\n"
                               "  user: train-a\n"
                               "  env: {OMP_NUM_THREADS: '4', WANDB_KEY: secret}\n"
                               "layout: {tensor: 8, pipeline: 2, data: 4, ranks_per_node: 8}\n"
                               "checkpoint: {dir: /shared/ckpt}\n";
    (void)history;
    (void)folder;
    (void)report;
    json_t *tree = NULL;
    struct job_spec *spec = mem_alloc(1, sizeof(*spec));
    struct config_report *problems = mem_alloc(1, sizeof(*problems));
    int code = job_spec_from_yaml(text, sizeof(text) - 1, "", &tree, spec, problems);
    bool good = code == 0 && json_object_size(tree) > 3 && spec->data == 4;
    struct err err = {0};
    if (code < 0) {
        (void)err_set(&err, code, "%s", problems->count > 0 ? problems->problems[0].text : "");
    }
    json_decref(tree);
    (void)mem_free(spec);
    (void)mem_free(problems);
    return code < 0 ? give_up(&err) : good;
}

static const struct body bodies[] = {
    {"store", run_store, 650, true},
    {"questions", run_questions, 600, false},
    {"job file", run_job_file, 250, false},
};

/* ---- one process that may end -------------------------------------------------------------- */

enum exit_code { DONE, DONE_THOUGH_STRUCK, REFUSED };

struct ending {
    int status;
    uint32_t durable;
    char said[SAID_SIZE];
};

/* Ends by exit(), so that a sanitizer looks for leaks. */
__attribute__((noreturn)) static void live(const struct history *history, const struct body *body,
                                           const struct folder *folder, uint64_t nth, bool ever,
                                           int report)
{
    memory_wrap_fail(nth, ever);
    bool good = body->run(history, folder, report);
    uint64_t hits = memory_wrap_hits();
    memory_wrap_fail(0, false);
    exit(!good ? REFUSED : hits > 0 ? DONE_THOUGH_STRUCK : DONE);
}

/* What the process said is in a file that nobody else has. */
static void read_said(FILE *said, struct ending *ending)
{
    rewind(said);
    size_t size = fread(ending->said, 1, sizeof(ending->said) - 1, said);
    ending->said[size] = '\0';
    (void)fclose(said);
}

static void run_apart(const struct history *history, const struct body *body,
                      const struct folder *folder, uint64_t nth, bool ever, struct ending *ending)
{
    int report[2];
    FILE *said = tmpfile();
    assert_non_null(said);
    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(report[0]);
        (void)dup2(fileno(said), 2);
        live(history, body, folder, nth, ever, report[1]);
    }
    (void)close(report[1]);
    *ending = (struct ending){0};
    uint32_t durable = 0;
    while (read(report[0], &durable, sizeof(durable)) == sizeof(durable)) {
        ending->durable = durable;
    }
    (void)close(report[0]);
    assert_int_equal(waitpid(child, &ending->status, 0), child);
    read_said(said, ending);
}

/* true: it was struck, and did what it may. */
static bool judge(const struct body *body, uint64_t nth, const struct ending *ending)
{
    int status = ending->status;
    bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
                   strstr(ending->said, "out of memory") != NULL;
    bool refused = WIFEXITED(status) && WEXITSTATUS(status) == REFUSED && ending->said[0] != '\0';
    bool done = WIFEXITED(status) && WEXITSTATUS(status) <= DONE_THOUGH_STRUCK;
    if (!aborted && !refused && !done) {
        fail_msg("%s, allocation %llu: status %#x: '%s'", body->name, (unsigned long long)nth,
                 (unsigned)status, ending->said);
    }
    return !done || WEXITSTATUS(status) == DONE_THOUGH_STRUCK;
}

/* A folder for a body: empty for one that writes, else with a history. */
static void prepare(const struct history *history, const struct body *body, struct folder *folder)
{
    folder_make_fast(folder);
    if (!body->writes) {
        struct store *store = open_store(folder, STORE_CREATE, NULL);
        for (uint32_t commit = 0; commit < COMMITS; commit++) {
            assert_int_equal(history_append(history, store, commit, NULL, NULL), 0);
        }
        close_store(store);
    }
}

static bool fail_at(const struct history *history, const struct body *body, uint64_t nth, bool ever)
{
    struct folder folder;
    struct ending ending;
    prepare(history, body, &folder);
    run_apart(history, body, &folder, nth, ever, &ending);
    bool struck = judge(body, nth, &ending);
    uint32_t commits = 0;
    struct err reason = {0};
    const char *wrong =
        history_judge(history, &folder, body->writes ? ending.durable : COMMITS, &commits, &reason);
    if (wrong != NULL) {
        fail_msg("%s, allocation %llu: %s", body->name, (unsigned long long)nth, wrong);
    }
    folder_remove(&folder);
    return struck;
}

/* ---- the loops ----------------------------------------------------------------------------- */

static void fail_each(const struct history *history, bool ever)
{
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        uint64_t stride = history_stride(bodies[i].points * VISITS / POINTS_OF_BODY);
        uint64_t most = bodies[i].points / POINTS_LEAST; /* with a sanitizer */
        stride = stride < most ? stride : most;
        uint64_t runs = 0;
        for (uint64_t nth = 1; fail_at(history, &bodies[i], nth, ever); nth += stride) {
            runs++;
        }
        print_message("%s, %s: %llu points, each %llu\n", bodies[i].name,
                      ever ? "for ever" : "once", (unsigned long long)runs,
                      (unsigned long long)stride);
        assert_true(runs > 1);
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
    config_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once),
        cmocka_unit_test(for_ever),
    };
    return cmocka_run_group_tests_name("memory_loop", tests, history_up, history_down);
}
