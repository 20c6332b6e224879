/* store_query_test.c: questions by read-only connections, beside a store that writes. */
#include "tests/unit/db/db_help.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

struct rig {
    struct folder folder;
    struct store *store;
    struct record_random *world;
    struct store_reader *reader;
};

static int rig_up(void **state)
{
    struct rig *rig = mem_alloc(1, sizeof(*rig));
    folder_make_fast(&rig->folder);
    rig->world = world_new(17);
    rig->store = open_store(&rig->folder, STORE_CREATE, NULL);
    append_history(rig->store, rig->world, 3000, 50);
    assert_int_equal(store_reader_open(rig->folder.database, &rig->reader, NULL), 0);
    *state = rig;
    return 0;
}

static int rig_down(void **state)
{
    struct rig *rig = *state;
    (void)store_reader_close(rig->reader);
    close_store(rig->store);
    folder_remove(&rig->folder);
    (void)mem_free(rig->world);
    (void)mem_free(rig);
    return 0;
}

static json_t *events(struct rig *rig, struct store_event_filter filter, uint32_t limit,
                      bool *ret_more)
{
    json_t *rows = NULL;
    struct err err = {0};
    if (store_events(rig->reader, &filter, limit, &rows, ret_more, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return rows;
}

static json_int_t number_in(const json_t *rows, size_t index, const char *key)
{
    return json_integer_value(json_object_get(json_array_get(rows, index), key));
}

static const char *text_in(const json_t *rows, size_t index, const char *key)
{
    return json_string_value(json_object_get(json_array_get(rows, index), key));
}

static void events_page_by_page(void **state)
{
    struct rig *rig = *state;
    int64_t total = number_of(&rig->folder, "SELECT count(*) FROM events");
    assert_true(total > 500);
    uint64_t after = 0;
    int64_t seen = 0;
    bool more = true;
    while (more) {
        json_t *rows = events(rig, (struct store_event_filter){.after = after}, 100, &more);
        assert_true(json_array_size(rows) == 100 || !more);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            assert_true((uint64_t)number_in(rows, i, "revision") > after);
            after = (uint64_t)number_in(rows, i, "revision");
            assert_true(text_in(rows, i, "type")[0] != '\0');
            assert_true(json_is_object(json_object_get(json_array_get(rows, i), "data")));
        }
        seen += (int64_t)json_array_size(rows);
        json_decref(rows);
    }
    assert_int_equal(seen, total);
}

static void event_has_names_and_ids(void **state)
{
    struct rig *rig = *state;
    json_t *rows = events(rig, (struct store_event_filter){.type = "SlotTaken"}, 1, NULL);
    assert_int_equal(json_array_size(rows), 1);
    char name[64];
    (void)text_format(name, sizeof(name), "job-%lld", (long long)number_in(rows, 0, "job_id"));
    assert_string_equal(text_in(rows, 0, "job"), name);
    (void)text_format(name, sizeof(name), "gpu-%04lld", (long long)number_in(rows, 0, "node_id"));
    assert_string_equal(text_in(rows, 0, "node"), name);
    assert_int_equal(number_in(rows, 0, "attempt"), 0);
    assert_string_equal(text_in(rows, 0, "kind"), "slot_taken");
    const json_t *data = json_object_get(json_array_get(rows, 0), "data");
    assert_int_equal(json_integer_value(json_object_get(data, "job")),
                     number_in(rows, 0, "job_id"));
    json_decref(rows);
    rows = events(rig, (struct store_event_filter){.type = "StoreOpened"}, 1, NULL);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "job")));
    assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "attempt")));
    json_decref(rows);
    rows = events(rig, (struct store_event_filter){.type = "Acted"}, 1, NULL);
    assert_string_equal(text_in(rows, 0, "actor"), "ada");
    json_decref(rows);
}

static void filters(void **state)
{
    static const struct {
        struct store_event_filter filter;
        const char *count;
    } cases[] = {
        {{.job = 2}, "SELECT count(*) FROM events WHERE job = 2"},
        {{.node = 7}, "SELECT count(*) FROM events WHERE node = 7"},
        {{.recovery = 3}, "SELECT count(*) FROM events WHERE recovery = 3"},
        {{.type = "NodeLost"}, "SELECT count(*) FROM events WHERE type = 'NodeLost'"},
        {{.subject = "job/job-2"}, "SELECT count(*) FROM events WHERE subject = 'job/job-2'"},
        {{.severity_least = SEVERITY_ERROR},
         "SELECT count(*) FROM events WHERE severity = 'error'"},
        {{.severity_least = SEVERITY_WARN, .job = 2, .after = 100},
         "SELECT count(*) FROM events WHERE severity IN ('warn', 'error') AND job = 2 AND seq > "
         "100"},
        {{.wall_from_ms = HELP_WALL_MS + 200000},
         "SELECT count(*) FROM events WHERE wall_ms >= 1772323400000"},
        {{.type = "x' OR 1 --"}, "SELECT 0"},
    };
    struct rig *rig = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *rows = events(rig, cases[i].filter, STORE_QUERY_ROWS_MAX, NULL);
        assert_int_equal(json_array_size(rows), number_of(&rig->folder, cases[i].count));
        assert_true(json_array_size(rows) > 0 || i == 8);
        json_decref(rows);
    }
}

static void the_newest_events(void **state)
{
    struct rig *rig = *state;
    json_t *rows = NULL;
    struct store_event_filter none = {0};
    assert_int_equal(store_events_last(rig->reader, &none, 10, &rows, NULL), 0);
    assert_int_equal(json_array_size(rows), 10);
    assert_int_equal(number_in(rows, 9, "revision"),
                     number_of(&rig->folder, "SELECT max(seq) FROM events"));
    assert_true(number_in(rows, 0, "revision") < number_in(rows, 9, "revision"));
    json_decref(rows);
}

static void a_row_in_pieces_is_still_an_event(void **state)
{
    struct rig *rig = *state;
    change_file(&rig->folder, "UPDATE journal SET body = '{' WHERE kind = 'store_opened'");
    json_t *rows = events(rig, (struct store_event_filter){.type = "StoreOpened"}, 5, NULL);
    assert_int_equal(json_array_size(rows), 1);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "data")));
    json_decref(rows);
}

static void values_of_every_type(void **state)
{
    struct rig *rig = *state;
    json_t *parameters = json_pack("[I, s, b, n, f]", (json_int_t)7, "it's", 1, 2.5);
    json_t *rows = NULL;
    bool more = true;
    assert_int_equal(store_query_json(rig->reader,
                                      "SELECT ?1 AS a, ?2 AS b, ?3 AS c, ?4 AS d, ?5 AS e, "
                                      "CAST(x'61ff' AS TEXT) AS f",
                                      parameters, 5, &rows, &more, NULL),
                     0);
    json_t *wanted = json_pack("[{s:I, s:s, s:i, s:n, s:f, s:s}]", "a", (json_int_t)7, "b", "it's",
                               "c", 1, "d", "e", 2.5, "f", "a\xef\xbf\xbd");
    assert_true(json_equal(rows, wanted));
    assert_false(more);
    json_decref(wanted);
    json_decref(rows);
    json_decref(parameters);
}

static void wrong_questions(void **state)
{
    struct rig *rig = *state;
    json_t *rows = NULL;
    struct err err = {0};
    assert_true(store_query_json(rig->reader, "SELECT nonsense", NULL, 5, &rows, NULL, &err) < 0);
    assert_non_null(strstr(err.text, "nonsense"));
    assert_int_equal(store_query_json(rig->reader, "SELECT ?1", NULL, 5, &rows, NULL, &err),
                     -EINVAL);
    json_t *parameters = json_pack("[[]]");
    assert_int_equal(store_query_json(rig->reader, "SELECT ?1", parameters, 5, &rows, NULL, &err),
                     -EINVAL);
    json_decref(parameters);
    assert_true(store_query_json(rig->reader, "DELETE FROM events", NULL, 5, &rows, NULL, &err) <
                0);
    assert_true(number_of(&rig->folder, "SELECT count(*) FROM events") > 0);
    assert_null(rows);
}

static void a_long_question_is_ended(void **state)
{
    struct rig *rig = *state;
    json_t *rows = NULL;
    struct err err = {0};
    store_reader_limit(rig->reader, 30);
    uint64_t began_us = store_clock_us();
    assert_int_equal(store_query_json(rig->reader,
                                      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                                      "FROM n) SELECT count(*) FROM n",
                                      NULL, 1, &rows, NULL, &err),
                     -ETIMEDOUT);
    assert_in_range(store_clock_us() - began_us, 30000, 2000000);
    assert_non_null(strstr(err.text, "30 ms"));
    assert_int_equal(store_query_json(rig->reader, "SELECT 1", NULL, 1, &rows, NULL, &err), 0);
    json_decref(rows);
}

static void rows_are_bounded(void **state)
{
    struct rig *rig = *state;
    json_t *rows = NULL;
    bool more = false;
    assert_int_equal(store_query_json(rig->reader,
                                      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                                      "FROM n) SELECT i FROM n",
                                      NULL, UINT32_MAX, &rows, &more, NULL),
                     0);
    assert_int_equal(json_array_size(rows), STORE_QUERY_ROWS_MAX);
    assert_true(more);
    json_decref(rows);
}

static void stored_job_files(void **state)
{
    struct rig *rig = *state;
    char *text = NULL;
    size_t size = 0;
    struct err err = {0};
    assert_int_equal(store_spec_text(rig->reader, 2, 0, &text, &size, &err), 0);
    assert_string_equal(text, "{\"name\":\"job-2\"}");
    assert_int_equal(size, strlen(text));
    (void)mem_free(text);
    assert_int_equal(store_spec_text(rig->reader, 2, 1, &text, NULL, &err), 0);
    (void)mem_free(text);
    assert_int_equal(store_spec_text(rig->reader, 2, 2, &text, NULL, &err), -ENOENT);
    assert_int_equal(store_spec_text(rig->reader, 999, 0, &text, NULL, &err), -ENOENT);
    assert_non_null(strstr(err.text, "999"));
}

static void readers_see_what_is_durable(void **state)
{
    struct rig *rig = *state;
    for (int i = 0; i < 20; i++) {
        append_history(rig->store, rig->world, 5, 5);
        struct store_status status;
        store_status(rig->store, &status);
        json_t *rows = NULL;
        assert_int_equal(store_query_json(rig->reader, "SELECT max(seq) AS last FROM journal", NULL,
                                          1, &rows, NULL, NULL),
                         0);
        assert_int_equal(number_in(rows, 0, "last"), status.durable_sequence);
        json_decref(rows);
    }
}

struct asking {
    const struct folder *folder;
    _Atomic bool stop;
    _Atomic uint64_t asked;
    _Atomic bool wrong;
};

/* One transaction of a reader is one moment: a slot never has two holders in it. */
static void *ask(void *context)
{
    struct asking *asking = context;
    struct store_reader *reader = NULL;
    asking->wrong = store_reader_open(asking->folder->database, &reader, NULL) < 0;
    while (!asking->stop && !asking->wrong) {
        json_t *rows = NULL;
        int code =
            store_query_json(reader,
                             "SELECT (SELECT count(*) FROM journal) = (SELECT max(seq) FROM "
                             "journal) AS whole, (SELECT seq FROM writer) = (SELECT max(seq) "
                             "FROM journal) AS ended, (SELECT count(*) FROM slot_log WHERE "
                             "to_seq IS NULL GROUP BY job, slot HAVING count(*) > 1) AS two",
                             NULL, 1, &rows, NULL, NULL);
        asking->wrong = code < 0 || number_in(rows, 0, "whole") != 1 ||
                        number_in(rows, 0, "ended") != 1 ||
                        !json_is_null(json_object_get(json_array_get(rows, 0), "two"));
        json_decref(rows);
        asking->asked++;
    }
    (void)store_reader_close(reader);
    return NULL;
}

static void many_readers_beside_the_writer(void **state)
{
    struct rig *rig = *state;
    struct asking asking = {.folder = &rig->folder};
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &asking), 0);
    }
    for (int i = 0; i < 500 && (i < 60 || asking.asked < 30); i++) {
        append_history(rig->store, rig->world, 50, 10);
    }
    asking.stop = true;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_false(asking.wrong);
    assert_true(asking.asked >= 30);
}

static void files_that_a_reader_refuses(void **state)
{
    struct rig *rig = *state;
    struct store_reader *reader = NULL;
    struct err err = {0};
    assert_int_equal(store_reader_open("/no/such/file.db", &reader, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/no/such/file.db"));
    change_file(&rig->folder, "PRAGMA user_version=9");
    assert_int_equal(store_reader_open(rig->folder.database, &reader, &err), -EPROTONOSUPPORT);
    change_file(&rig->folder, "PRAGMA user_version=2");
    assert_null(reader);
    assert_null(store_reader_close(NULL));
}

#define WITH_A_STORE(test) cmocka_unit_test_setup_teardown(test, rig_up, rig_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_STORE(events_page_by_page),
        WITH_A_STORE(event_has_names_and_ids),
        WITH_A_STORE(filters),
        WITH_A_STORE(the_newest_events),
        WITH_A_STORE(a_row_in_pieces_is_still_an_event),
        WITH_A_STORE(values_of_every_type),
        WITH_A_STORE(wrong_questions),
        WITH_A_STORE(a_long_question_is_ended),
        WITH_A_STORE(rows_are_bounded),
        WITH_A_STORE(stored_job_files),
        WITH_A_STORE(readers_see_what_is_durable),
        WITH_A_STORE(many_readers_beside_the_writer),
        WITH_A_STORE(files_that_a_reader_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
