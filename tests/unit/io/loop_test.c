/* loop_test.c: nothing leaves before it is durable, in whatever pace the disk has; requests get one
 * answer; what was durable comes back after a restart; orders carry the job's file; what passes
 * through reaches the right end. The disk's pace is set by the store's hook, which stands on the
 * commit thread until the test lets it go. */
#include "tests/unit/io/bench.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "controller/io/drill.h"
#include "controller/io/replay.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

#define BOOT_A "11111111-1111-1111-1111-111111111111"

/* ---- a disk that waits --------------------------------------------------------------------- */

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    bool shut;
};

static void gate_hook(enum store_stage stage, uint64_t first, uint64_t last, void *context)
{
    struct gate *gate = context;
    (void)first;
    (void)last;
    if (stage != STORE_BEFORE_COMMIT) {
        return;
    }
    assert_int_equal(pthread_mutex_lock(&gate->mutex), 0);
    while (gate->shut) {
        assert_int_equal(pthread_cond_wait(&gate->moved, &gate->mutex), 0);
    }
    assert_int_equal(pthread_mutex_unlock(&gate->mutex), 0);
}

static void gate_set(struct gate *gate, bool shut)
{
    assert_int_equal(pthread_mutex_lock(&gate->mutex), 0);
    gate->shut = shut;
    assert_int_equal(pthread_cond_broadcast(&gate->moved), 0);
    assert_int_equal(pthread_mutex_unlock(&gate->mutex), 0);
}

/* ---- requests ------------------------------------------------------------------------------ */

struct answers {
    uint32_t count;
    struct loop_answer last;
    char text[TEXT_SIZE];
};

static void reply_cb(void *context, const struct loop_answer *answer)
{
    struct answers *answers = context;
    answers->count++;
    answers->last = *answer;
    assert_true(text_copy(answers->text, sizeof(answers->text), answer->text));
}

static bool has_answer(void *context)
{
    return ((const struct answers *)context)->count > 0;
}

static void count_cb(void *context)
{
    (*(uint32_t *)context)++;
}

static bool has_count(void *context)
{
    return *(const uint32_t *)context > 0;
}

static bool has_revision(void *context)
{
    return loop_revision(context) > 0;
}

static struct request pause_request(void)
{
    struct request request = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_PAUSE};
    (void)text_copy(request.actor, sizeof(request.actor), "op");
    (void)text_copy(request.reason, sizeof(request.reason), "test");
    return request;
}

/* ---- durable, then act --------------------------------------------------------------------- */

static void test_held_until_durable(void **state)
{
    (void)state;
    static struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                               .moved = PTHREAD_COND_INITIALIZER};
    const struct bench_options options = {.hook = gate_hook, .hook_context = &gate};
    struct bench bench;
    static struct client client;
    bench_open(&bench, &options);
    assert_true(bench_until(&bench, has_revision, bench.loop, 5000)); /* the term is written */
    uint64_t revision = loop_revision(bench.loop);
    gate_set(&gate, true);
    client_open(&bench, &client);
    client_hello(&client, "gpu-0001", BOOT_A, 1);
    struct answers answers = {0};
    struct request request = pause_request();
    assert_int_equal(loop_request(bench.loop, &request, reply_cb, &answers), 0);
    bench_run(&bench, 200);
    /* The core knows both; nobody else does. */
    assert_int_equal(core_node_find(bench.core, "gpu-0001"), 1);
    assert_true(core_globals(bench.core)->paused);
    uint32_t durable = 0;
    loop_when_durable(bench.loop, count_cb, &durable);
    bench_run(&bench, 50);
    assert_int_equal(bench.carried, 0);
    assert_int_equal(answers.count, 0);
    assert_int_equal(durable, 0);
    assert_int_equal(loop_revision(bench.loop), revision);
    uint64_t shown = loop_core_revision(bench.loop); /* by loop_core(), not by what is durable */
    assert_true(shown > revision);
    gate_set(&gate, false);
    assert_int_equal(client_expect(&client, MSG_WELCOME)->u.welcome.result, HELLO_WELCOME);
    assert_true(bench_until(&bench, has_answer, &answers, 2000));
    assert_int_equal(answers.last.result, 0);
    assert_true(answers.last.revision > revision);
    assert_true(bench_until(&bench, has_count, &durable, 2000));
    assert_true(loop_revision(bench.loop) >= shown);
    /* With nothing in the way it is called at once. */
    bench_run(&bench, 50);
    uint32_t before = durable;
    loop_when_durable(bench.loop, count_cb, &durable);
    assert_int_equal(durable, before + 1);
    client_close(&client);
    bench_close(&bench);
}

static void test_one_answer_each(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, &(struct bench_options){0});
    static struct answers answers[LOOP_REQUESTS_MAX + 1];
    memset(answers, 0, sizeof(answers));
    struct request request = pause_request();
    for (int index = 0; index < LOOP_REQUESTS_MAX; index++) {
        request.automation = index % 2 == 0 ? AUTOMATION_PAUSE : AUTOMATION_RESUME;
        assert_int_equal(loop_request(bench.loop, &request, reply_cb, &answers[index]), 0);
    }
    assert_int_equal(loop_request(bench.loop, &request, reply_cb, &answers[LOOP_REQUESTS_MAX]),
                     -EAGAIN);
    assert_true(bench_until(&bench, has_answer, &answers[LOOP_REQUESTS_MAX - 1], 5000));
    bench_run(&bench, 20);
    for (int index = 0; index < LOOP_REQUESTS_MAX; index++) {
        assert_int_equal(answers[index].count, 1);
    }
    assert_int_equal(answers[LOOP_REQUESTS_MAX].count, 0);
    bench_close(&bench);
}

/* A client that went away gets no answer, and what it asked for still happens. */
static void test_forget(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, &(struct bench_options){0});
    struct answers gone = {0};
    struct answers stays = {0};
    uint32_t commits = 0;
    struct request request = pause_request();
    assert_int_equal(loop_on_commit(bench.loop, count_cb, &commits), 0);
    assert_int_equal(loop_request(bench.loop, &request, reply_cb, &gone), 0);
    assert_int_equal(loop_request(bench.loop, &request, reply_cb, &stays), 0);
    loop_forget(bench.loop, &gone);
    assert_true(bench_until(&bench, has_answer, &stays, 2000));
    assert_int_equal(gone.count, 0);
    assert_true(core_globals(bench.core)->paused);
    assert_true(commits > 0);
    loop_forget(bench.loop, &commits);
    uint32_t before = commits;
    request.automation = AUTOMATION_RESUME;
    stays = (struct answers){0};
    assert_int_equal(loop_request(bench.loop, &request, reply_cb, &stays), 0);
    assert_true(bench_until(&bench, has_answer, &stays, 2000));
    assert_int_equal(commits, before);
    bench_close(&bench);
}

/* ---- pauses in long work ------------------------------------------------------------------- */

struct leaver {
    struct loop *loop;
    uint32_t pauses;
    uint32_t durable;
};

static void leave_cb(void *context)
{
    struct leaver *leaver = context;
    leaver->pauses++;
    loop_forget(leaver->loop, &leaver->durable);
}

/* Who goes away while what he waited for is being let go of is not called back any more. */
static void test_leaving_in_a_pause(void **state)
{
    (void)state;
    static struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                               .moved = PTHREAD_COND_INITIALIZER};
    const struct bench_options options = {.hook = gate_hook, .hook_context = &gate};
    struct bench bench;
    bench_open(&bench, &options);
    assert_true(bench_until(&bench, has_revision, bench.loop, 5000));
    gate_set(&gate, true);
    struct leaver leaver = {.loop = bench.loop};
    struct answers answers = {0};
    struct request request = pause_request();
    assert_int_equal(loop_request(bench.loop, &request, reply_cb, &answers), 0);
    bench_run(&bench, 50);
    loop_when_durable(bench.loop, count_cb, &leaver.durable);
    assert_int_equal(leaver.durable, 0);
    loop_set_pause(bench.loop, leave_cb, &leaver);
    gate_set(&gate, false);
    assert_true(bench_until(&bench, has_answer, &answers, 2000));
    bench_run(&bench, 20);
    assert_true(leaver.pauses > 0);
    assert_int_equal(leaver.durable, 0);
    loop_forget(bench.loop, &leaver);
    uint32_t before = leaver.pauses;
    loop_may_pause(bench.loop);
    assert_int_equal(leaver.pauses, before);
    bench_close(&bench);
}

enum { SLOW_REPLIES = 8, SLOW_MS = 6 };

static void slow_reply_cb(void *context, const struct loop_answer *answer)
{
    uint64_t until_ms = loop_now_ms() + SLOW_MS;
    (void)answer;
    (*(uint32_t *)context)++;
    while (loop_now_ms() < until_ms) {
    }
}

static bool all_durable(void *context)
{
    struct store_status status;
    store_status(context, &status);
    return status.pending_records == 0;
}

/* What a pause lets go of can be long work itself: others have their turns within it as well. */
static void test_pauses_within_a_pause(void **state)
{
    (void)state;
    static struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                               .moved = PTHREAD_COND_INITIALIZER};
    const struct bench_options options = {.hook = gate_hook, .hook_context = &gate};
    struct bench bench;
    bench_open(&bench, &options);
    assert_true(bench_until(&bench, has_revision, bench.loop, 5000));
    bench_run(&bench, 50);
    gate_set(&gate, true);
    uint32_t replies = 0;
    uint32_t pauses = 0;
    struct request request = pause_request();
    for (int index = 0; index < SLOW_REPLIES; index++) {
        request.automation = index % 2 == 0 ? AUTOMATION_PAUSE : AUTOMATION_RESUME;
        assert_int_equal(loop_request(bench.loop, &request, slow_reply_cb, &replies), 0);
    }
    bench_run(&bench, 50);
    assert_int_equal(replies, 0);
    loop_set_pause(bench.loop, count_cb, &pauses);
    gate_set(&gate, false);
    while (!all_durable(bench.store)) { /* the loop does not run: it cannot let go of anything */
        assert_int_equal(sched_yield(), 0);
    }
    loop_may_pause(bench.loop);
    assert_int_equal(replies, SLOW_REPLIES);
    assert_true(pauses >= SLOW_REPLIES - 1);
    loop_forget(bench.loop, &pauses);
    bench_close(&bench);
}

/* ---- a disk that fails --------------------------------------------------------------------- */

static bool is_failing(void *context)
{
    char text[LOOP_READY_TEXT_SIZE];
    const struct bench *bench = context;
    return !loop_is_ready(bench->loop, text) && strstr(text, "journal cannot be written") != NULL;
}

static bool is_ready(void *context)
{
    char text[LOOP_READY_TEXT_SIZE];
    return loop_is_ready(((const struct bench *)context)->loop, text);
}

/* F11: no write gets through, as on a full disk: actions stay held, readiness says why, and
 * everything goes on by itself when there is room again. */
static void test_failing_disk(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    bench_open(&bench, &(struct bench_options){0});
    assert_true(bench_until(&bench, is_ready, &bench, 2000));
    struct rlimit room;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &room), 0);
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, room.rlim_max}), 0);
    client_open(&bench, &client);
    client_hello(&client, "gpu-0001", BOOT_A, 1);
    bool failing = bench_until(&bench, is_failing, &bench, 5000);
    bench_run(&bench, 100);
    uint32_t carried = bench.carried;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &room), 0); /* before any assertion may print */
    (void)signal(SIGXFSZ, before);
    assert_true(failing);
    assert_int_equal(carried, 0);
    assert_int_equal(client_expect(&client, MSG_WELCOME)->u.welcome.result, HELLO_WELCOME);
    assert_true(bench_until(&bench, is_ready, &bench, 5000));
    client_close(&client);
    bench_close(&bench);
}

/* ---- restart ------------------------------------------------------------------------------- */

static void test_replay_gives_the_same_state(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    struct err err = {0};
    bench_open(&bench, &(struct bench_options){0});
    client_open(&bench, &client);
    client_hello(&client, "gpu-0001", BOOT_A, 1);
    (void)client_expect(&client, MSG_WELCOME);
    struct answers answers = {0};
    struct request request = pause_request();
    assert_int_equal(loop_request(bench.loop, &request, reply_cb, &answers), 0);
    assert_true(bench_until(&bench, has_answer, &answers, 2000));
    bench_run(&bench, 100);
    uint64_t digest = core_digest(bench.core);
    struct core *fresh = NULL;
    struct replay_report report;
    assert_int_equal(core_create(&core_limits_default, core_config_of(bench.core), 9, &fresh), 0);
    assert_int_equal(replay_journal(bench.store, fresh, &report, &err), 0);
    assert_true(report.store.records > 3);
    assert_int_equal(core_digest(fresh), digest);
    assert_true(core_globals(fresh)->paused);
    assert_string_equal(core_node(fresh, 1)->d.name, "gpu-0001");
    (void)core_free(fresh);
    client_close(&client);
    bench_close(&bench);
}

/* ---- a job's file, its keys, its logs ------------------------------------------------------ */

enum { RANKS = 2 };
static const char job_text[] = "{\"name\":\"llama\",\"run\":{\"command\":[\"/bin/true\"]}}";

static struct job_spec one_node_spec(void)
{
    struct job_spec spec = {
        .revision = 1,
        .priority = 50,
        .tensor = 1,
        .context = 1,
        .pipeline = 1,
        .data = RANKS,
        .ranks_per_node = RANKS,
        .stop_grace_ms = 2000,
        .recovery_grace_ms = 2000,
        .retries_unknown = 3,
        .no_progress_limit = 3,
        .same_node_limit = 2,
        .start_timeout_ms = 60000,
        .init_timeout_ms = 60000,
        .first_step_ms = 60000,
    };
    (void)text_copy(spec.name, sizeof(spec.name), "llama");
    (void)text_copy(spec.user, sizeof(spec.user), "train");
    (void)text_copy(spec.order, sizeof(spec.order), "tp-cp-pp-dp");
    return spec;
}

/* One node joins, a job of one node is submitted; returns with the order to run in client. */
static void run_job(struct bench *bench, struct client *client)
{
    bench_open(bench, &(struct bench_options){0});
    client_open(bench, client);
    client_hello(client, "gpu-0001", BOOT_A, 1);
    (void)client_expect(client, MSG_WELCOME);
    struct message beat = {.kind = MSG_BEAT};
    beat.u.beat.sequence = 1;
    beat.u.beat.checks_ok = true;
    client_send(client, &beat);
    struct job_spec spec = one_node_spec();
    struct request request = {
        .verb = REQUEST_SUBMIT,
        .spec = &spec,
        .text = job_text,
        .text_size = sizeof(job_text) - 1,
    };
    (void)text_copy(request.actor, sizeof(request.actor), "train");
    struct answers answers = {0};
    assert_int_equal(loop_request(bench->loop, &request, reply_cb, &answers), 0);
    memset(&spec, 0xee, sizeof(spec)); /* the loop has its own copy */
    assert_true(bench_until(bench, has_answer, &answers, 2000));
    if (answers.last.result != 0) {
        fail_msg("%s", answers.text);
    }
    assert_int_equal(answers.last.job, 1);
    for (;;) {
        const struct message *message = client_take(client);
        assert_non_null(message);
        if (message->kind == MSG_CHECK) {
            struct message result = {.kind = MSG_CHECK_RESULT};
            result.u.check_result = (struct msg_check_result){
                .nonce = message->u.check.nonce, .job = 1, .ok = true, .port_free = true};
            assert_int_equal(message->u.check.spec_size, sizeof(job_text) - 1);
            client_send(client, &result);
        }
        if (message->kind == MSG_DESIRED && message->u.desired.mode == DESIRED_RUN &&
            message->u.desired.start) {
            return;
        }
    }
}

static void test_order_carries_the_file(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    run_job(&bench, &client);
    const struct msg_desired *desired = &client.message.u.desired;
    assert_int_equal(desired->rank_count, RANKS);
    assert_int_equal(desired->spec_size, sizeof(job_text) - 1);
    assert_memory_equal(desired->spec, job_text, desired->spec_size);
    assert_int_equal(agents_figures(bench.agents).encode_errors, 0);
    client_close(&client);
    bench_close(&bench);
}

static struct message exchange(int kind, uint32_t attempt, uint32_t rank, const char *value)
{
    struct message message = {.kind = MSG_EXCHANGE};
    struct msg_exchange *u = &message.u.exchange;
    u->kind = kind == EXCHANGE_PUT ? EXCHANGE_PUT : EXCHANGE_GET;
    u->job = 1;
    u->attempt = attempt;
    u->rank = rank;
    u->size = (uint32_t)strlen(value);
    memcpy(u->value, value, u->size);
    (void)text_copy(u->key, sizeof(u->key), "nccl/world");
    return message;
}

static void test_keys_of_the_current_attempt(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    run_job(&bench, &client);
    uint32_t attempt = client.message.u.desired.attempt;
    struct message message = exchange(EXCHANGE_GET, attempt, 1, "");
    client_send(&client, &message);
    message = exchange(EXCHANGE_PUT, attempt + 1, 0, "of another attempt");
    client_send(&client, &message);
    message = exchange(EXCHANGE_PUT, attempt, RANKS, "of another node's rank");
    client_send(&client, &message);
    bench_run(&bench, 50);
    assert_int_equal(relay_figures(bench.relay).stale, 2);
    assert_int_equal(relay_figures(bench.relay).exchange.waits, 1);
    message = exchange(EXCHANGE_PUT, attempt, 0, "the id");
    client_send(&client, &message);
    const struct msg_exchange *value = &client_expect(&client, MSG_EXCHANGE)->u.exchange;
    assert_int_equal(value->kind, EXCHANGE_VALUE);
    assert_int_equal(value->rank, 1);
    assert_int_equal(value->size, 6);
    assert_memory_equal(value->value, "the id", 6);
    client_close(&client);
    bench_close(&bench);
}

struct pieces {
    uint32_t count;
    int error;
    bool last;
    size_t size;
    char text[256];
};

static void piece_cb(void *context, const struct relay_piece *piece)
{
    struct pieces *pieces = context;
    assert_false(pieces->last); /* nothing comes after the last one */
    pieces->count++;
    pieces->error = piece->error;
    pieces->last = piece->last;
    assert_true(pieces->size + piece->size <= sizeof(pieces->text));
    if (piece->size > 0) {
        memcpy(pieces->text + pieces->size, piece->data, piece->size);
    }
    pieces->size += piece->size;
}

static bool is_last(void *context)
{
    return ((const struct pieces *)context)->last;
}

static void send_log(struct client *client, uint64_t nonce, const char *text, bool last)
{
    struct message message = {.kind = MSG_LOG_DATA};
    message.u.log_data = (struct msg_log_data){
        .nonce = nonce, .last = last, .text = text, .size = (uint32_t)strlen(text)};
    client_send(client, &message);
}

static void test_log_read(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    struct err err = {0};
    run_job(&bench, &client);
    uint32_t attempt = client.message.u.desired.attempt;
    struct pieces pieces = {0};
    assert_int_equal(relay_log_read(bench.relay, 9, attempt, 0, 0, 100, piece_cb, &pieces, &err),
                     -ENOENT);
    assert_int_equal(
        relay_log_read(bench.relay, 1, attempt, RANKS, 0, 100, piece_cb, &pieces, &err), -ERANGE);
    assert_int_equal(relay_log_read(bench.relay, 1, attempt, 1, 0, 100, piece_cb, &pieces, &err),
                     0);
    const struct msg_log_read *ask = &client_expect(&client, MSG_LOG_READ)->u.log_read;
    assert_int_equal(ask->rank, 1);
    assert_int_equal(ask->tail_bytes, 100);
    assert_string_equal(ask->job_name, "llama");
    uint64_t nonce = ask->nonce;
    send_log(&client, nonce + 1, "of nobody", true);
    send_log(&client, nonce, "step 1\n", false);
    send_log(&client, nonce, "step 2\n", true);
    send_log(&client, nonce, "too late", true);
    assert_true(bench_until(&bench, is_last, &pieces, 2000));
    bench_run(&bench, 50);
    assert_int_equal(pieces.count, 2);
    assert_int_equal(pieces.error, 0);
    assert_int_equal(pieces.size, 14);
    assert_memory_equal(pieces.text, "step 1\nstep 2\n", 14);
    /* The agent goes away: the reader is told, and not left waiting. */
    pieces = (struct pieces){0};
    assert_int_equal(relay_log_read(bench.relay, 1, attempt, 0, 0, 100, piece_cb, &pieces, &err),
                     0);
    client_close(&client);
    assert_true(bench_until(&bench, is_last, &pieces, 2000));
    assert_int_equal(pieces.error, -ENOTCONN);
    pieces = (struct pieces){0};
    assert_int_equal(relay_log_read(bench.relay, 1, attempt, 0, 0, 100, piece_cb, &pieces, &err),
                     -ENOTCONN);
    bench_close(&bench);
}

static void test_snapshot(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    struct err err = {0};
    run_job(&bench, &client);
    struct pieces pieces = {0};
    assert_int_equal(relay_snapshot(bench.relay, 1, client.message.u.desired.attempt, 1, piece_cb,
                                    &pieces, &err),
                     0);
    const struct msg_snapshot_ask *ask = &client_expect(&client, MSG_SNAPSHOT_ASK)->u.snapshot_ask;
    static const char text[] = "[{\"rank\":0,\"step\":5}]";
    struct message message = {.kind = MSG_SNAPSHOT_DATA};
    message.u.snapshot_data = (struct msg_snapshot_data){
        .nonce = ask->nonce, .job = 1, .text = text, .size = sizeof(text) - 1};
    client_send(&client, &message);
    assert_true(bench_until(&bench, is_last, &pieces, 2000));
    assert_memory_equal(pieces.text, text, sizeof(text) - 1);
    client_close(&client);
    bench_close(&bench);
}

/* ---- a journal with a bad record ------------------------------------------------------------ */

/* A record that no journal of ours could hold, of one job: that job is set aside, the rest of the
 * state is there, and the controller starts. The same of no job: it does not. */
static void test_bad_record(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    struct err err = {0};
    run_job(&bench, &client);
    bench_run(&bench, 100);
    static struct record bad;
    bad = (struct record){.kind = RECORD_slot_taken_kind, .version = RECORD_VERSION, .job = 1};
    (void)text_copy(bad.subject, sizeof(bad.subject), "job/llama");
    bad.u.slot_taken.job = 1;
    bad.u.slot_taken.slot = 7777;
    bad.u.slot_taken.node = 1;
    assert_int_equal(store_append_sync(bench.store, &bad, 1, 2000, &err), 0);
    struct core *fresh = NULL;
    struct replay_report report;
    assert_int_equal(core_create(&core_limits_default, core_config_of(bench.core), 9, &fresh), 0);
    assert_int_equal(replay_journal(bench.store, fresh, &report, &err), 0);
    assert_int_equal(report.jobs_quarantined, 1);
    assert_true(core_job(fresh, 1)->d.quarantined);
    assert_string_equal(core_node(fresh, 1)->d.name, "gpu-0001");
    fresh = core_free(fresh);
    bad = (struct record){.kind = RECORD_node_moved_kind, .version = RECORD_VERSION};
    bad.u.node_moved.node = 4242;
    assert_int_equal(store_append_sync(bench.store, &bad, 1, 2000, &err), 0);
    assert_int_equal(core_create(&core_limits_default, core_config_of(bench.core), 9, &fresh), 0);
    assert_int_equal(replay_journal(bench.store, fresh, &report, &err), -EUCLEAN);
    assert_non_null(strstr(err.text, "cannot be used"));
    (void)core_free(fresh);
    client_close(&client);
    bench_close(&bench);
}

/* The same of a node: it is set aside, and everything else goes on; a line of the audit log that
 * cannot be used is passed over. */
static void test_bad_node_record(void **state)
{
    (void)state;
    struct bench bench;
    static struct client client;
    struct err err = {0};
    run_job(&bench, &client);
    bench_run(&bench, 100);
    static struct record bad[2];
    bad[0] = (struct record){.kind = RECORD_node_moved_kind, .version = RECORD_VERSION, .node = 1};
    (void)text_copy(bad[0].subject, sizeof(bad[0].subject), "node/gpu-0001");
    bad[0].u.node_moved.node = 1;
    bad[0].u.node_moved.from = NODE_JOINING;
    bad[0].u.node_moved.to = NODE_ACTIVE;
    bad[1] = (struct record){.kind = RECORD_foreign_resolved_kind, .version = RECORD_VERSION};
    (void)text_copy(bad[1].subject, sizeof(bad[1].subject), "node/gpu-0001");
    bad[1].u.foreign_resolved.node = 77;
    assert_int_equal(store_append_sync(bench.store, bad, 2, 2000, &err), 0);
    struct core *fresh = NULL;
    struct replay_report report;
    assert_int_equal(core_create(&core_limits_default, core_config_of(bench.core), 9, &fresh), 0);
    assert_int_equal(replay_journal(bench.store, fresh, &report, &err), 0);
    assert_int_equal(report.nodes_quarantined, 1);
    assert_int_equal(report.jobs_quarantined, 0);
    assert_true(core_node(fresh, 1)->set_aside);
    assert_false(core_job(fresh, 1)->d.quarantined);
    (void)core_free(fresh);
    client_close(&client);
    bench_close(&bench);
}

/* ---- drills -------------------------------------------------------------------------------- */

static void test_drill_texts(void **state)
{
    (void)state;
    struct drill drill = {0};
    struct err err = {0};
    assert_int_equal(drill_parse("before:1", &drill, &err), 0);
    assert_int_equal(drill.at, DRILL_BEFORE);
    assert_int_equal(drill_parse("mid:77", &drill, &err), 0);
    assert_int_equal(drill.at, DRILL_MID);
    assert_int_equal(drill.record, 77);
    drill_arm(&drill, 1000);
    assert_int_equal(drill.sequence, 1077);
    static const char *const bad[] = {"",         "before", "before:",  "before:0",
                                      "after:-1", "mid:x",  "during:5", "after:99999999999"};
    for (size_t index = 0; index < sizeof(bad) / sizeof(bad[0]); index++) {
        assert_int_equal(drill_parse(bad[index], &drill, &err), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_until_durable),
        cmocka_unit_test(test_one_answer_each),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_leaving_in_a_pause),
        cmocka_unit_test(test_pauses_within_a_pause),
        cmocka_unit_test(test_failing_disk),
        cmocka_unit_test(test_replay_gives_the_same_state),
        cmocka_unit_test(test_order_carries_the_file),
        cmocka_unit_test(test_keys_of_the_current_attempt),
        cmocka_unit_test(test_log_read),
        cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_bad_record),
        cmocka_unit_test(test_bad_node_record),
        cmocka_unit_test(test_drill_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
