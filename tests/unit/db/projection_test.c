/* projection_test.c: what single records make of the tables, and that no fact is forgotten. */
#include "tests/unit/db/db_help.h"

#include <string.h>

#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { RECORDS_MAX = 64 };

struct rig {
    struct folder folder;
    struct store *store;
    struct record records[RECORDS_MAX];
    uint32_t count;
    uint64_t service_ms;
};

static int rig_up(void **state)
{
    struct rig *rig = mem_alloc(1, sizeof(*rig));
    folder_make_fast(&rig->folder);
    rig->store = open_store(&rig->folder, STORE_CREATE, NULL);
    rig->service_ms = 100000;
    *state = rig;
    return 0;
}

static int rig_down(void **state)
{
    struct rig *rig = *state;
    close_store(rig->store);
    folder_remove(&rig->folder);
    (void)mem_free(rig);
    return 0;
}

/* The next record, 1 s after the one before. */
static struct record *say(struct rig *rig, uint16_t kind)
{
    assert_true(rig->count < RECORDS_MAX);
    struct record *record = &rig->records[rig->count];
    rig->count++;
    memset(record, 0, sizeof(*record));
    rig->service_ms += 1000;
    record->kind = kind;
    record->version = RECORD_VERSION;
    record->service_ms = rig->service_ms;
    record->wall_ms = HELP_WALL_MS + rig->service_ms;
    return record;
}

static void write_all(struct rig *rig)
{
    struct err err = {0};
    if (store_append_sync(rig->store, rig->records, rig->count, HELP_WAIT_MS, &err) < 0) {
        fail_msg("%s", err.text);
    }
    struct store_status status;
    store_status(rig->store, &status);
    assert_string_equal(status.projection_fault, "");
    rig->count = 0;
}

/* "a|b|c" of the first row. */
static void expect(const struct rig *rig, const char *sql, const char *wanted)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    struct buf out;
    struct err err = {0};
    buf_init(&out, 4096);
    assert_int_equal(sql_open(rig->folder.database, SQL_READER, NULL, &db, NULL), 0);
    if (sql_prepare(db, sql, &statement, &err) < 0) {
        fail_msg("%s", err.text);
    }
    if (sqlite3_step(statement) == SQLITE_ROW) {
        for (int column = 0; column < sqlite3_column_count(statement); column++) {
            bool null = sqlite3_column_type(statement, column) == SQLITE_NULL;
            assert_int_equal(buf_printf(&out, "%s%s", column > 0 ? "|" : "",
                                        null ? "NULL" : sql_column_text(statement, column)),
                             0);
        }
    }
    assert_string_equal(buf_text(&out), wanted);
    buf_done(&out);
    (void)sqlite3_finalize(statement);
    (void)sql_close(db);
}

static void say_node(struct rig *rig, uint32_t node, const char *name)
{
    struct record *record = say(rig, RECORD_node_joined_kind);
    record->u.node_joined.node = node;
    (void)text_copy(record->u.node_joined.name, NAME_SIZE, name);
}

static void say_job(struct rig *rig, uint32_t job, const char *name)
{
    struct record *record = say(rig, RECORD_job_submitted_kind);
    record->u.job_submitted.job = job;
    record->u.job_submitted.revision = 1;
    (void)text_copy(record->u.job_submitted.name, NAME_SIZE, name);
    record->text = "{\"name\":\"llama\"}";
    record->text_size = (uint32_t)strlen(record->text);
}

static void take(struct rig *rig, uint32_t slot, uint32_t node, uint32_t from)
{
    struct record *record = say(rig, RECORD_slot_taken_kind);
    record->u.slot_taken = (struct record_slot_taken){
        .job = 1, .attempt = 0, .slot = slot, .node = node, .from_node = from, .why = "leaf"};
}

static void leave(struct rig *rig, uint32_t slot, uint32_t node)
{
    struct record *record = say(rig, RECORD_slot_left_kind);
    record->u.slot_left = (struct record_slot_left){.job = 1, .slot = slot, .node = node};
}

/* ---- tests --------------------------------------------------------------------------------- */

static void every_fact_is_projected(void **state)
{
    (void)state;
    for (uint16_t kind = 1; kind < RECORD_FIRST_IMAGE; kind++) {
        const struct record_table *table = record_table(kind);
        if (table != NULL && projection_statements(kind) == 0) {
            fail_msg("no table shows a %s", table->name);
        }
    }
}

static void the_cluster(void **state)
{
    struct rig *rig = *state;
    struct record *opened = say(rig, RECORD_store_opened_kind);
    (void)text_copy(opened->u.store_opened.cluster_id, CLUSTER_ID_SIZE, "c1");
    (void)text_copy(opened->u.store_opened.store_id, CLUSTER_ID_SIZE, "s1");
    say(rig, RECORD_term_began_kind)->u.term_began =
        (struct record_term_began){.term = 1, .away_ms = 0};
    say(rig, RECORD_term_began_kind)->u.term_began =
        (struct record_term_began){.term = 2, .away_ms = 5000};
    say(rig, RECORD_automation_kind)->u.automation =
        (struct record_automation){.paused = true, .cause = "by hand", .actor = "ada"};
    say(rig, RECORD_breaker_kind)->u.breaker =
        (struct record_breaker){.open = true, .suspects = 9, .limit = 4};
    write_all(rig);
    expect(rig,
           "SELECT cluster_id, store_id, term, paused, paused_cause, automation_actor, "
           "breaker_open, breaker_suspects, breaker_limit FROM cluster",
           "c1|s1|2|1|by hand|ada|1|9|4");
    expect(rig, "SELECT count(*), max(away_ms) FROM terms", "2|5000");
}

static void marks_come_and_go_and_stay_in_the_log(void **state)
{
    struct rig *rig = *state;
    say_node(rig, 1, "gpu-0001");
    struct record *set = say(rig, RECORD_mark_set_kind);
    set->u.mark_set = (struct record_mark_set){.node = 1,
                                               .owner = MARK_HEALTH,
                                               .code = "xid-79",
                                               .level = MARK_LEAVE,
                                               .actor = "judge",
                                               .text = "off the bus"};
    write_all(rig);
    expect(rig, "SELECT node, owner, code, level, text FROM marks",
           "1|health|xid-79|leave|off the bus");
    struct record *cleared = say(rig, RECORD_mark_cleared_kind);
    cleared->u.mark_cleared = (struct record_mark_cleared){
        .node = 1, .owner = MARK_HEALTH, .code = "xid-79", .actor = "ada", .text = "replaced"};
    write_all(rig);
    expect(rig, "SELECT count(*) FROM marks", "0");
    expect(rig,
           "SELECT group_concat(what || ': ' || detail || ' by ' || actor, '; ') FROM "
           "(SELECT * FROM node_history WHERE node = 'gpu-0001' AND what LIKE '%mark')",
           "mark: health/xid-79 (leave): off the bus by judge; "
           "unmark: health/xid-79: replaced by ada");
}

static void how_a_node_came_back(void **state)
{
    struct rig *rig = *state;
    say_node(rig, 1, "gpu-0001");
    say(rig, RECORD_repair_moved_kind)->u.repair_moved =
        (struct record_repair_moved){.node = 1,
                                     .repair = REPAIR_ORDERED,
                                     .repair_lane = LANE_GPU_RESET,
                                     .repair_incident = 42,
                                     .repair_text = "off the bus"};
    say(rig, RECORD_validation_set_kind)->u.validation_set = (struct record_validation_set){
        .node = 1, .must_pass = VALIDATION_FULL, .validate_text = "failed"};
    say(rig, RECORD_validation_set_kind)->u.validation_set =
        (struct record_validation_set){.node = 1, .validate_text = "passed"};
    write_all(rig);
    expect(rig,
           "SELECT group_concat(what || ': ' || detail || ' of ' || incident, '; ') FROM "
           "(SELECT * FROM node_log WHERE node = 1 AND what IN ('repair', 'validation') "
           "ORDER BY seq)",
           "repair: ordered, gpu-reset: off the bus of 42; validation: to pass: full, failed of 0; "
           "validation: passed of 0");
}

static void slots_over_time(void **state)
{
    struct rig *rig = *state;
    say_node(rig, 1, "gpu-0001");
    say_node(rig, 2, "gpu-0002");
    say_job(rig, 1, "llama");
    take(rig, 3, 1, 0);
    write_all(rig);
    uint64_t first = rig->service_ms;
    expect(rig, "SELECT job, slot, node FROM slots", "1|3|1");
    expect(rig, "SELECT job, slot FROM nodes WHERE node = 1", "1|3");
    leave(rig, 3, 1);
    take(rig, 3, 2, 1);
    write_all(rig);
    expect(rig, "SELECT slot, node, done FROM slots", "3|2|0");
    expect(rig, "SELECT job, slot FROM nodes WHERE node = 1", "0|0");
    char sql[320];
    char at[96];
    (void)text_format(at, sizeof(at), "datetime(%llu, 'unixepoch', 'localtime')",
                      (unsigned long long)(HELP_WALL_MS + first) / 1000);
    (void)text_format(sql, sizeof(sql),
                      "SELECT node, in_place_of FROM slot_holder WHERE job = 'llama' AND slot = 3 "
                      "AND since <= %s AND %s < until",
                      at, at);
    expect(rig, sql, "gpu-0001|NULL");
    expect(rig,
           "SELECT node, in_place_of, why FROM slot_holder WHERE slot = 3 AND "
           "'2100-01-01' BETWEEN since AND until",
           "gpu-0002|gpu-0001|leaf");
    expect(rig, "SELECT count(*) FROM slot_holder WHERE '2020-01-01' BETWEEN since AND until", "0");
    struct record *done = say(rig, RECORD_slot_done_kind);
    done->u.slot_done = (struct record_slot_done){.job = 1, .slot = 3};
    write_all(rig);
    expect(rig, "SELECT done FROM slots", "1");
    say(rig, RECORD_attempt_made_kind)->u.attempt_made =
        (struct record_attempt_made){.job = 1, .attempt = 1};
    write_all(rig);
    expect(rig, "SELECT done FROM slots", "0");
}

static void say_phase(struct rig *rig, uint8_t phase)
{
    say(rig, RECORD_recovery_phase_kind)->u.recovery_phase =
        (struct record_recovery_phase){.recovery = 7, .phase = phase};
}

static void phases_add_up(void **state)
{
    struct rig *rig = *state;
    say_job(rig, 1, "llama");
    struct record *opened = say(rig, RECORD_recovery_opened_kind);
    opened->u.recovery_opened = (struct record_recovery_opened){
        .recovery = 7, .job = 1, .attempt = 2, .incident = 5, .cause = CAUSE_PLANNED};
    opened->u.recovery_opened.since_service_ms = opened->service_ms - 700;
    say_phase(rig, PHASE_STOP);
    say_phase(rig, PHASE_PLAN);
    write_all(rig);
    expect(rig, "SELECT phase, ms FROM phases WHERE recovery = 7 AND phase = 'plan'", "plan|NULL");
    expect(rig, "SELECT outcome, phase, took_ms FROM recoveries", "open|plan|NULL");
    expect(rig, "SELECT recovery FROM jobs", "7");
    say_phase(rig, PHASE_LAUNCH);
    say(rig, RECORD_recovery_merged_kind)->u.recovery_merged =
        (struct record_recovery_merged){.recovery = 7, .incident = 6, .cause = CAUSE_NODE};
    say_phase(rig, PHASE_PLAN); /* again */
    say_phase(rig, PHASE_LAUNCH);
    say(rig, RECORD_recovery_plan_kind)->u.recovery_plan = (struct record_recovery_plan){
        .recovery = 7, .attempt = 3, .last_step = 90, .restore_step = 80, .lost_steps = 10};
    say(rig, RECORD_recovery_plan_kind)->u.recovery_plan = (struct record_recovery_plan){
        .recovery = 7, .attempt = 4, .last_step = 90, .restore_step = 80, .lost_steps = 2};
    say(rig, RECORD_recovery_closed_kind)->u.recovery_closed =
        (struct record_recovery_closed){.recovery = 7, .outcome = OUTCOME_RECOVERED};
    write_all(rig);
    expect(rig, "SELECT group_concat(phase || ' ' || ms || ' ' || entered) FROM recovery_phases",
           "detect 1700 1,stop 1000 1,plan 2000 2,launch 5000 2");
    expect(rig,
           "SELECT cause, outcome, merged, incident, lost_steps, attempt_new, took_ms = "
           "(SELECT sum(ms) FROM phases), opened_wall_ms FROM recoveries",
           "node|recovered|1|6|12|4|1|1772323301300");
    expect(rig, "SELECT recovery FROM jobs", "0");
}

/* The ranks of its peers ended first, but it was the node: so says the verdict. */
static void verdict_names_the_cause(void **state)
{
    struct rig *rig = *state;
    say_job(rig, 1, "llama");
    for (uint32_t i = 1; i <= 2; i++) {
        say(rig, RECORD_incident_opened_kind)->u.incident_opened =
            (struct record_incident_opened){.incident = i, .job = 1};
        say(rig, RECORD_recovery_opened_kind)->u.recovery_opened = (struct record_recovery_opened){
            .recovery = i, .job = 1, .incident = i, .cause = CAUSE_RANK};
        say(rig, RECORD_verdict_kind)->u.verdict =
            (struct record_verdict){.incident = i, .owner = OWNER_HARDWARE, .evict = i == 2};
        say(rig, RECORD_recovery_closed_kind)->u.recovery_closed =
            (struct record_recovery_closed){.recovery = i, .outcome = OUTCOME_RECOVERED};
    }
    write_all(rig);
    expect(rig, "SELECT group_concat(recovery || ' ' || cause) FROM recoveries", "1 rank,2 node");
}

static void where_the_time_went(void **state)
{
    struct rig *rig = *state;
    say_job(rig, 1, "llama");
    say(rig, RECORD_time_settled_kind)->u.time_settled =
        (struct record_time_settled){.job = 1, .kind = TIME_PRODUCTIVE, .ms = 7000};
    say(rig, RECORD_time_settled_kind)->u.time_settled =
        (struct record_time_settled){.job = 1, .kind = TIME_LOST_WORK, .ms = 1000};
    say(rig, RECORD_time_settled_kind)->u.time_settled =
        (struct record_time_settled){.job = 1, .kind = TIME_PRODUCTIVE, .ms = 2000};
    write_all(rig);
    expect(rig,
           "SELECT group_concat(kind || ' ' || ms || ' ' || percent) FROM job_time "
           "WHERE job = 'llama'",
           "productive 9000 90.0,lost_work 1000 10.0");
    /* However wrong a number is, the sum stays one. */
    for (int i = 0; i < 3; i++) {
        say(rig, RECORD_time_settled_kind)->u.time_settled =
            (struct record_time_settled){.job = 1, .kind = TIME_PRODUCTIVE, .ms = UINT64_MAX};
    }
    write_all(rig);
    expect(rig, "SELECT ms FROM job_times WHERE kind = 'productive'", "9007199254740991");
}

static void why_a_node_left(void **state)
{
    struct rig *rig = *state;
    say_node(rig, 1, "gpu-0001");
    say_job(rig, 1, "llama");
    say(rig, RECORD_incident_opened_kind)->u.incident_opened =
        (struct record_incident_opened){.incident = 5, .job = 1, .attempt = 2};
    say(rig, RECORD_fact_kept_kind)->u.fact_kept = (struct record_fact_kept){
        .incident = 5, .source = SOURCE_PROBE, .node = 1, .job = 1, .text = "NVRM: Xid 79"};
    say(rig, RECORD_verdict_kind)->u.verdict =
        (struct record_verdict){.incident = 5,
                                .owner = OWNER_HARDWARE,
                                .action = DO_EVICT,
                                .rule = "driver-verdict",
                                .signature = UINT64_MAX,
                                .why = "the GPU fell off the bus"};
    struct record *blamed = say(rig, RECORD_blamed_kind);
    blamed->job = 1;
    blamed->u.blamed = (struct record_blamed){.incident = 5, .node = 1, .slot = 3};
    say(rig, RECORD_node_moved_kind)->u.node_moved =
        (struct record_node_moved){.node = 1, .from = NODE_ACTIVE, .to = NODE_OUT};
    write_all(rig);
    expect(rig,
           "SELECT what, fault_owner, rule, verdict, incident, job, slot FROM node_history "
           "WHERE node = 'gpu-0001' AND what = 'blamed'",
           "blamed|hardware|driver-verdict|the GPU fell off the bus|5|llama|3");
    expect(rig, "SELECT group_concat(what) FROM node_history WHERE node = 'gpu-0001'",
           "joined,fact,blamed,moved");
    expect(rig, "SELECT signature FROM incidents", "18446744073709551615");
    expect(rig, "SELECT source, text FROM facts", "probe|NVRM: Xid 79");
}

static void jobs_and_their_attempts(void **state)
{
    struct rig *rig = *state;
    say_job(rig, 1, "llama");
    write_all(rig);
    expect(rig, "SELECT state, attempt, cancelled_by FROM jobs", "pending|NULL|NULL");
    expect(rig, "SELECT text FROM job_specs", "{\"name\":\"llama\"}");
    say(rig, RECORD_attempt_made_kind)->u.attempt_made =
        (struct record_attempt_made){.job = 1, .attempt = 0, .recovery = 4, .restore_step = 40};
    say(rig, RECORD_port_chosen_kind)->u.port_chosen =
        (struct record_port_chosen){.job = 1, .attempt = 0, .port = 29401, .address = "127.0.0.9"};
    say(rig, RECORD_launch_ordered_kind)->u.launch_ordered =
        (struct record_launch_ordered){.job = 1, .attempt = 0};
    say(rig, RECORD_attempt_ended_kind)->u.attempt_ended = (struct record_attempt_ended){
        .job = 1, .attempt = 0, .phase = PHASE_FIRST_STEP, .stepped = true, .step = 55};
    say(rig, RECORD_hold_asked_kind)->u.hold_asked =
        (struct record_hold_asked){.job = 1, .on = true, .actor = "ada"};
    say(rig, RECORD_cancel_asked_kind)->u.cancel_asked =
        (struct record_cancel_asked){.job = 1, .actor = "grace"};
    say(rig, RECORD_job_moved_kind)->u.job_moved = (struct record_job_moved){
        .job = 1, .from = JOB_STOPPING, .to = JOB_CANCELLED, .reason = "asked"};
    write_all(rig);
    expect(rig,
           "SELECT state, attempt, restore_step, stepped, cancelled_by, held_by, ended_wall_ms > 0 "
           "FROM jobs",
           "cancelled|0|40|1|grace|ada|1");
    expect(rig,
           "SELECT recovery, port, address, ended_phase, last_step, launched_wall_ms > 0 FROM "
           "attempts",
           "4|29401|127.0.0.9|first_step|55|1");
    expect(rig, "SELECT from_state, to_state, reason FROM job_log", "stopping|cancelled|asked");
}

static void what_was_chosen_for_a_job(void **state)
{
    struct rig *rig = *state;
    say_job(rig, 1, "llama");
    say(rig, RECORD_interval_chosen_kind)->u.interval_chosen =
        (struct record_interval_chosen){.job = 1,
                                        .interval_ms = 293815,
                                        .interval_saves = 1,
                                        .interval_stall_ms = 500,
                                        .interval_save_ms = 3000,
                                        .interval_failures = 2,
                                        .interval_span_ms = 120000,
                                        .interval_gap_ms = 86520000};
    say(rig, RECORD_reserve_chosen_kind)->u.reserve_chosen =
        (struct record_reserve_chosen){.job = 1,
                                       .reserve_wanted = 15,
                                       .reserve_losses = 3,
                                       .reserve_span_ms = 120000,
                                       .reserve_gap_ms = 22736842105,
                                       .reserve_away_ms = 86400000};
    say(rig, RECORD_spares_low_kind)->u.spares_low =
        (struct record_spares_low){.job = 1, .low = true, .ready = 3, .wanted = 4};
    write_all(rig);
    expect(rig,
           "SELECT job, interval_ms, saves, stall_ms, save_ms, failures, span_ms, gap_ms "
           "FROM interval_log",
           "1|293815|1|500|3000|2|120000|86520000");
    expect(rig, "SELECT job, wanted, losses, span_ms, gap_ms, away_ms FROM reserve_log",
           "1|15|3|120000|22736842105|86400000");
    expect(rig, "SELECT job, low, ready, wanted FROM spares_log", "1|1|3|4");
}

static void budgets_are_refilled_together(void **state)
{
    struct rig *rig = *state;
    say(rig, RECORD_budget_used_kind)->u.budget_used =
        (struct record_budget_used){.job = 1, .owner = OWNER_USER, .used = 2};
    say(rig, RECORD_budget_used_kind)->u.budget_used =
        (struct record_budget_used){.job = 1, .owner = OWNER_UNKNOWN, .used = 1};
    write_all(rig);
    expect(rig, "SELECT group_concat(owner || used) FROM budgets", "unknown1,user2");
    say(rig, RECORD_budget_used_kind)->u.budget_used =
        (struct record_budget_used){.job = 1, .owner = OWNER_UNKNOWN, .used = 0};
    write_all(rig);
    expect(rig, "SELECT group_concat(owner || used) FROM budgets", "unknown0,user0");
}

/* A statement that a record breaks is counted, and the rest of the record is there. */
static void a_broken_projection_does_not_hold_up_the_journal(void **state)
{
    struct rig *rig = *state;
    close_store(rig->store);
    change_file(&rig->folder, "DROP TABLE actions; CREATE TABLE actions (seq INTEGER, a, b, c, d, "
                              "e, f CHECK (f = 'never'))");
    rig->store = open_store(&rig->folder, STORE_READ_WRITE, NULL);
    struct record *acted = say(rig, RECORD_acted_kind);
    (void)text_copy(acted->event.type, sizeof(acted->event.type), "Acted");
    assert_int_equal(store_append_sync(rig->store, rig->records, 1, HELP_WAIT_MS, NULL), 0);
    struct store_status status;
    store_status(rig->store, &status);
    assert_int_equal(status.projection_faults, 1);
    assert_non_null(strstr(status.projection_fault, "acted"));
    expect(rig, "SELECT count(*) FROM journal", "1");
    expect(rig, "SELECT type FROM events", "Acted");
    close_store(rig->store);
    rig->store = open_store(&rig->folder, STORE_REBUILD, NULL);
    expect(rig, "SELECT count(*) FROM actions", "1");
}

static void last_night_is_since_yesterday_evening(void **state)
{
    struct rig *rig = *state;
    uint64_t now_ms = (uint64_t)number_of(&rig->folder, "SELECT 1000 * unixepoch()");
    static const uint64_t ages_ms[] = {0, 5 * 3600000ull, 31 * 3600000ull, 72 * 3600000ull};
    for (size_t i = 0; i < sizeof(ages_ms) / sizeof(ages_ms[0]); i++) {
        struct record *record = say(rig, RECORD_acted_kind);
        record->wall_ms = now_ms - ages_ms[i];
        (void)text_format(record->event.type, sizeof(record->event.type), "Age%zu", i);
    }
    write_all(rig);
    /* Yesterday 18:00 is 6 to 30 hours ago. */
    expect(rig, "SELECT group_concat(type) FROM last_night", "Age0,Age1");
}

#define WITH_A_STORE(test) cmocka_unit_test_setup_teardown(test, rig_up, rig_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fact_is_projected),
        WITH_A_STORE(the_cluster),
        WITH_A_STORE(marks_come_and_go_and_stay_in_the_log),
        WITH_A_STORE(how_a_node_came_back),
        WITH_A_STORE(slots_over_time),
        WITH_A_STORE(phases_add_up),
        WITH_A_STORE(verdict_names_the_cause),
        WITH_A_STORE(where_the_time_went),
        WITH_A_STORE(why_a_node_left),
        WITH_A_STORE(jobs_and_their_attempts),
        WITH_A_STORE(what_was_chosen_for_a_job),
        WITH_A_STORE(budgets_are_refilled_together),
        WITH_A_STORE(a_broken_projection_does_not_hold_up_the_journal),
        WITH_A_STORE(last_night_is_since_yesterday_evening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
