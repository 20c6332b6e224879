/* agent_report_test.c: what an agent tells: ends, facts, health, goodbye, and the mail of its
 * ranks. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "proto/base/text.h"
#include "tests/lib/test.h"
#include "tests/unit/agent_core/core_rig.h"

/* ---- reports --------------------------------------------------------------------------------- */

static void test_ends_are_said_until_acknowledged(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_shim_view view = rig_view();
    view.attached = false;
    view.ranks[1].state = RANK_EXITED;
    view.ranks[1].code = 93;
    view.ranks[1].end_sequence = 3;
    view.ranks[1].end_ms = rig->now_ms;
    rig_shim(rig, 1, 0, &view);
    const struct message *ends = rig_sent(rig, MSG_RANK_ENDS);
    assert_non_null(ends); /* at once */
    assert_int_equal(ends->u.rank_ends.report.ranks[1].code, 93);
    const uint64_t sequence = ends->u.rank_ends.sequence;
    rig_tick(rig, 1000);
    assert_non_null(rig_sent(rig, MSG_RANK_ENDS)); /* with every beat */
    assert_int_equal(rig_sent(rig, MSG_RANK_ENDS)->u.rank_ends.report.ranks[1].phase_age_ms, 1000);
    struct message ack = {.kind = MSG_ACK};
    ack.u.ack.term = 1;
    ack.u.ack.ends_sequence = sequence - 1;
    rig_message(rig, &ack);
    rig_tick(rig, 1000);
    assert_non_null(rig_sent(rig, MSG_RANK_ENDS));
    ack.u.ack.ends_sequence = sequence;
    rig_message(rig, &ack);
    rig_tick(rig, 1000);
    assert_null(rig_sent(rig, MSG_RANK_ENDS));
}

static const struct msg_beat *next_beat(struct core_rig *rig)
{
    rig_tick(rig, 1000);
    const struct message *beat = rig_sent(rig, MSG_BEAT);
    assert_non_null(beat);
    return &beat->u.beat;
}

static void test_what_is_past_is_not_in_every_beat(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_ended(rig, 1, 0, RANK_EXITED, 1);
    const struct message *ends = rig_sent(rig, MSG_RANK_ENDS);
    assert_non_null(ends);
    struct message ack = {.kind = MSG_ACK};
    ack.u.ack.term = 1;
    ack.u.ack.ends_sequence = ends->u.rank_ends.sequence;
    rig_stop(rig, 1, 0);
    rig_running(rig, 1, 1);
    assert_int_equal(next_beat(rig)->attempt_count, 2); /* its end is not acknowledged */
    rig_message(rig, &ack);
    const struct msg_beat *beat = next_beat(rig);
    assert_int_equal(beat->attempt_count, 1);
    assert_int_equal(beat->attempts[0].attempt, 1);
    assert_int_equal(rig_state(rig, 1, 0, NULL), AGENT_ATTEMPT_EMPTY); /* and is still kept */
    rig_stop(rig, 1, 1);
    rig_ended(rig, 1, 1, RANK_EXITED, 0);
    beat = next_beat(rig);
    assert_int_equal(beat->attempt_count, 1); /* the last one is told until it may be forgotten */
    assert_true(beat->attempts[0].empty);
}

static void end_of(struct core_rig *rig, uint32_t job, uint32_t attempt, bool acknowledged)
{
    rig_running(rig, job, attempt);
    rig_ended(rig, job, attempt, RANK_EXITED, 1);
    const struct message *ends = rig_sent(rig, MSG_RANK_ENDS);
    assert_non_null(ends);
    struct message ack = {.kind = MSG_ACK};
    ack.u.ack.term = 1;
    ack.u.ack.ends_sequence = ends->u.rank_ends.sequence;
    if (acknowledged) {
        rig_message(rig, &ack);
    }
}

/* More attempts are kept than a beat has room for: it tells of the one whose end is news. */
static void test_news_goes_before_what_is_acknowledged(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    for (uint32_t job = 1; job <= ATTEMPTS_PER_NODE_MAX; job++) {
        end_of(rig, job, 5, true);
    }
    end_of(rig, 9, 0, false);
    const struct msg_beat *beat = next_beat(rig);
    assert_int_equal(beat->attempt_count, ATTEMPTS_PER_NODE_MAX);
    assert_int_equal(beat->attempts[0].job, 9);
}

static void test_ends_of_a_time_away(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_restart_unscanned(rig);
    struct agent_shim_view view = rig_view();
    view.alive = false;
    view.empty = true;
    view.ranks[0].state = RANK_EXITED;
    view.ranks[0].code = 75;
    view.ranks[0].end_sequence = 1;
    view.ranks[1].state = RANK_SIGNALED;
    view.ranks[1].code = SIGSEGV;
    view.ranks[1].end_sequence = 2;
    rig_shim(rig, 1, 0, &view);
    rig_scanned(rig, 0);
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    const struct attempt_report *report = &rig_sent(rig, MSG_HELLO)->u.hello.attempts[0];
    assert_int_equal(report->ranks[0].code, 75);
    assert_int_equal(report->ranks[1].code, SIGSEGV);
    assert_false(report->ranks[1].after_stop);
    assert_true(report->empty);
}

static void test_facts(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_tick(rig, 1000);
    const struct fact fact = {.source = FACT_PROBE, .code = 79, .rank = -1, .gpu = 3};
    struct agent_event event = {.kind = AGENT_EVENT_FACT, .fact = &fact};
    rig_step(rig, &event);
    rig_tick(rig, 50);
    const struct message *sent = rig_sent(rig, MSG_FACT);
    assert_non_null(sent);
    const uint64_t sequence = sent->u.fact.fact.sequence;
    rig_tick(rig, 1000);
    assert_non_null(rig_sent(rig, MSG_FACT));
    struct message ack = {.kind = MSG_ACK};
    ack.u.ack.term = 1;
    ack.u.ack.fact_sequence = sequence;
    rig_message(rig, &ack);
    rig_tick(rig, 1000);
    assert_null(rig_sent(rig, MSG_FACT));
    rig_restart(rig); /* numbers of a later life are larger */
    rig_connect(rig);
    rig_step(rig, &event);
    rig_tick(rig, 1000);
    assert_true(rig_sent(rig, MSG_FACT)->u.fact.fact.sequence > sequence);
}

/* After an outage facts go as fast as they are kept over there, not eight a second. */
static void test_facts_that_piled_up(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_tick(rig, 1000);
    for (uint32_t i = 0; i < 20; i++) {
        const struct fact fact = {.source = FACT_PROBE, .code = (int32_t)i, .rank = -1};
        struct agent_event event = {.kind = AGENT_EVENT_FACT, .fact = &fact};
        rig_step(rig, &event);
    }
    rig_tick(rig, 50);
    const uint64_t sequence = rig_sent(rig, MSG_FACT)->u.fact.fact.sequence;
    for (uint32_t i = 1; i < 3; i++) {
        struct message ack = {.kind = MSG_ACK};
        ack.u.ack.term = 1;
        ack.u.ack.fact_sequence = sequence + 8ull * i - 1;
        rig_message(rig, &ack);
        rig_tick(rig, 50);
        assert_int_equal(rig_sent(rig, MSG_FACT)->u.fact.fact.sequence, sequence + 8ull * i);
    }
}

/* What the controller does not acknowledge is kept, up to its limit, and then counted. */
static void test_facts_that_nobody_acknowledges(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    const uint32_t limit = rig->limits.facts;
    for (uint32_t i = 0; i < limit + 2; i++) {
        const struct fact fact = {.source = FACT_PROBE, .code = (int32_t)i, .rank = -1};
        struct agent_event event = {.kind = AGENT_EVENT_FACT, .fact = &fact};
        rig_step(rig, &event);
    }
    assert_int_equal(rig_counters(rig).too_many, 2);
}

static void test_health_is_told(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct agent_event event = {.kind = AGENT_EVENT_HEALTH, .text = "disk full"};
    rig_step(rig, &event);
    rig_tick(rig, 50);
    assert_false(rig_sent(rig, MSG_BEAT)->u.beat.checks_ok);
    assert_string_equal(rig_sent(rig, MSG_BEAT)->u.beat.checks_text, "disk full");
}

/* Two who may say so, and neither takes back what the other says. */
static void test_health_of_probes(void **state)
{
    struct core_rig *rig = *state;
    static const struct {
        bool by_probes;
        bool ok;
        const char *text;
        const char *told; /* NULL: well */
    } rows[] = {{true, false, "GPU lost", "GPU lost"}, {false, false, "disk full", "disk full"},
                {true, true, "", "disk full"},         {true, false, "GPU hot", "disk full"},
                {false, true, "", "GPU hot"},          {true, true, "", NULL}};
    rig_begin(rig);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct agent_event event = {.kind = AGENT_EVENT_HEALTH,
                                    .by_probes = rows[i].by_probes,
                                    .ok = rows[i].ok,
                                    .text = rows[i].text};
        rig_step(rig, &event); /* a moment after the last beat: not at once */
        rig_tick(rig, 50);
        assert_int_equal(rig_sent(rig, MSG_BEAT)->u.beat.checks_ok, rows[i].told == NULL);
        assert_string_equal(rig_sent(rig, MSG_BEAT)->u.beat.checks_text,
                            rows[i].told != NULL ? rows[i].told : "");
    }
}

static void test_goodbye(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_event event = {.kind = AGENT_EVENT_GOODBYE, .goodbye = GOODBYE_RESTART};
    rig_step(rig, &event);
    assert_true(rig_recorded(rig, AGENT_RECORD_GOODBYE));
    assert_non_null(rig_sent(rig, MSG_GOODBYE));
    assert_non_null(rig_action(rig, AGENT_ACTION_EXIT, 0));
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 0);
    (void)text_copy(rig->identity.boot_id, BOOT_ID_SIZE, "boot-2");
    rig_restart(rig);
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    assert_true(rig_sent(rig, MSG_HELLO)->u.hello.clean_boot);
    (void)text_copy(rig->identity.boot_id, BOOT_ID_SIZE, "boot-3"); /* without a goodbye */
    rig_restart(rig);
    rig_simple(rig, AGENT_EVENT_LINK_UP);
    assert_false(rig_sent(rig, MSG_HELLO)->u.hello.clean_boot);
}

/* ---- mail ------------------------------------------------------------------------------------- */

static void mail(struct core_rig *rig, const struct agent_mail *mail_now)
{
    struct agent_event event = {.kind = AGENT_EVENT_MAIL, .job = 1, .mail = mail_now};
    rig_step(rig, &event);
}

static void test_exchange(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mail put = {.kind = AGENT_MAIL_EXCHANGE, .local_rank = 0, .id = 1};
    put.u.exchange.kind = EXCHANGE_PUT;
    put.u.exchange.size = 3;
    memcpy(put.u.exchange.value, "abc", 3);
    (void)text_copy(put.u.exchange.key, EXCHANGE_KEY_SIZE, "nccl");
    mail(rig, &put);
    assert_non_null(rig_sent(rig, MSG_EXCHANGE));
    mail(rig, &put); /* seen at every scan of the mailbox */
    assert_null(rig_sent(rig, MSG_EXCHANGE));
    struct agent_mail get = {.kind = AGENT_MAIL_EXCHANGE, .local_rank = 1, .id = 1};
    get.u.exchange.kind = EXCHANGE_GET;
    (void)text_copy(get.u.exchange.key, EXCHANGE_KEY_SIZE, "nccl");
    mail(rig, &get); /* a local rank put it */
    assert_int_equal(rig_action(rig, AGENT_ACTION_MAIL_ANSWER, 0)->u.mail.size, 3);
    get.id = 2;
    (void)text_copy(get.u.exchange.key, EXCHANGE_KEY_SIZE, "other");
    mail(rig, &get);
    assert_int_equal(rig_sent(rig, MSG_EXCHANGE)->u.exchange.kind, EXCHANGE_GET);
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_pass(rig, 200);
    rig_connect(rig);
    uint32_t sent = 0;
    for (uint32_t i = 0; i < rig->output->action_count; i++) {
        sent += rig->output->actions[i].kind == AGENT_ACTION_SEND &&
                rig->output->actions[i].u.message.kind == MSG_EXCHANGE;
    }
    assert_int_equal(sent, 2); /* the put and the open get, anew in every session */
    struct message value = {.kind = MSG_EXCHANGE};
    value.u.exchange.kind = EXCHANGE_VALUE;
    value.u.exchange.job = 1;
    value.u.exchange.attempt = 1; /* of another attempt: unreadable */
    value.u.exchange.rank = 1;
    (void)text_copy(value.u.exchange.key, EXCHANGE_KEY_SIZE, "other");
    rig_message(rig, &value);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 0);
    value.u.exchange.attempt = 0;
    const uint64_t bad = rig_counters(rig).bad_message;
    value.u.exchange.size = EXCHANGE_VALUE_MAX + 1;
    rig_message(rig, &value);
    value.u.exchange.size = 0;
    value.u.exchange.kind = EXCHANGE_GET; /* nobody asks an agent */
    rig_message(rig, &value);
    assert_int_equal(rig_counters(rig).bad_message, bad + 2);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 0);
    value.u.exchange.kind = EXCHANGE_VALUE;
    rig_message(rig, &value);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 1);
}

/* As many keys as the limit says are kept; one more is counted, and takes no place of theirs. */
static void test_exchange_up_to_its_limit(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    const uint64_t refused = rig_counters(rig).too_many;
    struct agent_mail put = {.kind = AGENT_MAIL_EXCHANGE};
    put.u.exchange.kind = EXCHANGE_PUT;
    for (uint32_t i = 0; i <= rig->limits.exchange_keys; i++) {
        assert_int_equal(rig_counters(rig).too_many, refused);
        put.id = i + 1;
        (void)text_format(put.u.exchange.key, EXCHANGE_KEY_SIZE, "key-%u", i);
        mail(rig, &put);
    }
    assert_int_equal(rig_counters(rig).too_many, refused + 1);
    struct agent_mail get = {.kind = AGENT_MAIL_EXCHANGE, .local_rank = 1};
    get.u.exchange.kind = EXCHANGE_GET;
    for (uint32_t i = 0; i < rig->limits.exchange_keys; i++) { /* each is answered here */
        get.id = i + 1;
        (void)text_format(get.u.exchange.key, EXCHANGE_KEY_SIZE, "key-%u", i);
        mail(rig, &get);
        assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 1);
    }
}

/* What an attempt asked for is forgotten with it; what the next one asks for is not. */
static void test_exchange_ends_with_its_attempt(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mail get = {.kind = AGENT_MAIL_EXCHANGE, .local_rank = 1, .id = 1};
    get.u.exchange.kind = EXCHANGE_GET;
    (void)text_copy(get.u.exchange.key, EXCHANGE_KEY_SIZE, "other");
    mail(rig, &get);
    assert_non_null(rig_sent(rig, MSG_EXCHANGE));
    rig_stop(rig, 1, 0);
    rig_ended(rig, 1, 0, RANK_EXITED, 0);
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_pass(rig, 200);
    rig_connect(rig);
    assert_null(rig_sent(rig, MSG_EXCHANGE));
}

static void test_checkpoints(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mail commit = {.kind = AGENT_MAIL_CHECKPOINT, .local_rank = 0, .id = 9};
    commit.u.checkpoint.kind = CHECKPOINT_COMMIT;
    commit.u.checkpoint.step = 100;
    mail(rig, &commit);
    const struct message *sent = rig_sent(rig, MSG_CHECKPOINT);
    assert_non_null(sent);
    const uint64_t sequence = sent->u.checkpoint.sequence;
    rig_tick(rig, 5000);
    assert_int_equal(rig_sent(rig, MSG_CHECKPOINT)->u.checkpoint.sequence, sequence);
    struct message said = {.kind = MSG_CHECKPOINT_ANSWER};
    said.u.checkpoint_answer = (struct msg_checkpoint_answer){.sequence = sequence, .job = 1};
    (void)text_copy(said.u.checkpoint_answer.text, TEXT_SIZE, "attempt 0 is over");
    rig_message(rig, &said);
    const struct agent_action *answer = rig_action(rig, AGENT_ACTION_MAIL_ANSWER, 0);
    assert_non_null(answer);
    assert_int_equal(answer->u.mail.id, 9);
    assert_int_equal(answer->u.mail.status, -ESTALE);
    rig_tick(rig, 20000);
    assert_null(rig_sent(rig, MSG_CHECKPOINT));
}

/* What one attempt has saved is still told when another one is forgotten. */
static void test_checkpoints_of_others_stay(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 2, 0);
    rig_running(rig, 1, 0);
    struct agent_mail commit = {.kind = AGENT_MAIL_CHECKPOINT, .id = 9};
    commit.u.checkpoint.kind = CHECKPOINT_COMMIT;
    commit.u.checkpoint.step = 100;
    mail(rig, &commit);
    assert_non_null(rig_sent(rig, MSG_CHECKPOINT));
    struct msg_desired stop = rig_stop_order(rig, 2, 0);
    stop.forget = true;
    rig_order(rig, &stop);
    rig_ended(rig, 2, 0, RANK_EXITED, 0);
    assert_int_equal(rig_state(rig, 2, 0, NULL), AGENT_ATTEMPT_NONE);
    rig_tick(rig, 5000);
    assert_non_null(rig_sent(rig, MSG_CHECKPOINT));
}

static void test_mail_past_its_limit(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mail commit = {.kind = AGENT_MAIL_CHECKPOINT};
    for (uint32_t i = 0; i < rig->limits.checkpoints; i++) {
        commit.id = i + 1;
        mail(rig, &commit);
        assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ANSWER), 0);
    }
    commit.id = 1000;
    mail(rig, &commit);
    assert_int_equal(rig_action(rig, AGENT_ACTION_MAIL_ANSWER, 0)->u.mail.status, -ENOSPC);
}

static void test_save_request(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct msg_desired run = rig_run_order(rig, 1, 0);
    run.save_request = 1;
    run.stop_request = true;
    rig_order(rig, &run);
    const struct agent_action *action = rig_action(rig, AGENT_ACTION_MAIL_REQUEST, 0);
    assert_non_null(action);
    assert_int_equal(action->u.request.save_request, 1);
    assert_true(action->u.request.stop_request);
    rig_tick(rig, 1000);
    assert_null(rig_action(rig, AGENT_ACTION_MAIL_REQUEST, 0));
}

/* What a program says of itself is passed on with the names of its rank, in a session, and never of
 * ranks that are not here. */
static void test_detail(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_detail detail = {.local_rank = 1};
    detail.detail.rank = 77; /* the driver knows nothing of it */
    detail.detail.step_count = 1;
    detail.detail.steps[0].step = 5;
    struct agent_event event = {.kind = AGENT_EVENT_DETAIL, .job = 1, .detail = &detail};
    rig_step(rig, &event);
    const struct message *sent = rig_sent(rig, MSG_RANK_DETAIL);
    assert_non_null(sent);
    struct attempt_report report;
    (void)rig_state(rig, 1, 0, &report);
    assert_int_equal(sent->u.rank_detail.job, 1);
    assert_int_equal(sent->u.rank_detail.rank, report.first_rank + 1);
    assert_int_equal(sent->u.rank_detail.steps[0].step, 5);
    detail.local_rank = report.rank_count;
    rig_step(rig, &event);
    assert_null(rig_sent(rig, MSG_RANK_DETAIL));
    detail.local_rank = 0;
    event.attempt = 1;
    rig_step(rig, &event);
    assert_null(rig_sent(rig, MSG_RANK_DETAIL));
    event.attempt = 0;
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    rig_step(rig, &event);
    assert_null(rig_sent(rig, MSG_RANK_DETAIL));
}

/* A stop after a failure lets what hangs be aborted, once and before the ranks are told to end; a
 * stop that was planned does not. */
static void test_abort(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    rig_running(rig, 2, 0);
    rig_stop(rig, 2, 0);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ABORT), 0);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_TERM), 1);
    struct msg_desired stop = rig_stop_order(rig, 1, 0);
    stop.abort = true;
    rig_order(rig, &stop);
    const struct agent_action *action = rig_action(rig, AGENT_ACTION_MAIL_ABORT, 0);
    assert_non_null(action);
    assert_int_equal(action->job, 1);
    assert_int_equal(action->attempt, 0);
    assert_true(action < rig_action(rig, AGENT_ACTION_TERM, 0));
    stop.sequence++;
    rig_order(rig, &stop);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ABORT), 0);
    /* A new agent hears it again, in case the old one died before it was done. */
    rig_restart(rig);
    struct agent_shim_view view = rig_view();
    view.attached = true;
    rig_shim(rig, 1, 0, &view);
    rig_connect(rig);
    stop.sequence++;
    rig_order(rig, &stop);
    assert_int_equal(rig_actions(rig, AGENT_ACTION_MAIL_ABORT), 1);
}

static void test_check_is_passed_on(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    struct message check = {.kind = MSG_CHECK};
    check.u.check.nonce = 8;
    check.u.check.job = 1;
    check.u.check.port = 29500;
    rig_message(rig, &check);
    assert_int_equal(rig_action(rig, AGENT_ACTION_CHECK, 0)->u.check.port, 29500);
    rig_message(rig, &check);
    assert_null(rig_action(rig, AGENT_ACTION_CHECK, 0)); /* is under way */
    struct agent_event event = {
        .kind = AGENT_EVENT_CHECKED, .job = 1, .nonce = 8, .ok = true, .port_free = true};
    rig_step(rig, &event);
    assert_true(rig_sent(rig, MSG_CHECK_RESULT)->u.check_result.port_free);
}

static void validate(struct core_rig *rig, uint64_t nonce, uint8_t level)
{
    struct message ask = {.kind = MSG_VALIDATE};
    ask.u.validate = (struct msg_validate){.nonce = nonce, .level = level, .timeout_ms = 60000};
    rig_message(rig, &ask);
}

static void validated(struct core_rig *rig, uint64_t nonce, bool ok, const char *text)
{
    struct agent_event event = {
        .kind = AGENT_EVENT_VALIDATED, .nonce = nonce, .ok = ok, .text = text};
    rig_step(rig, &event);
}

static void test_validation_is_passed_on(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    validate(rig, 5, VALIDATE_FULL);
    assert_int_equal(rig_action(rig, AGENT_ACTION_VALIDATE, 0)->u.validate.level, VALIDATE_FULL);
    validate(rig, 5, VALIDATE_FULL);
    assert_null(rig_action(rig, AGENT_ACTION_VALIDATE, 0)); /* is under way */
    validate(rig, 6, VALIDATE_FULL);
    assert_null(rig_action(rig, AGENT_ACTION_VALIDATE, 0)); /* joins it */
    validated(rig, 4, true, NULL);
    assert_null(rig_sent(rig, MSG_VALIDATED)); /* of nothing that runs */
    validated(rig, 5, false, "GPU 3: ECC");
    assert_int_equal(rig_sent(rig, MSG_VALIDATED)->u.validated.nonce, 6);
    assert_false(rig_sent(rig, MSG_VALIDATED)->u.validated.ok);
    assert_string_equal(rig_sent(rig, MSG_VALIDATED)->u.validated.text, "GPU 3: ECC");
    validated(rig, 5, true, NULL);
    assert_null(rig_sent(rig, MSG_VALIDATED)); /* it has ended */
    validate(rig, 6, VALIDATE_FULL);
    assert_false(rig_sent(rig, MSG_VALIDATED)->u.validated.ok); /* said again */
    validate(rig, 7, VALIDATE_FULL);
    assert_int_equal(rig_action(rig, AGENT_ACTION_VALIDATE, 0)->u.validate.nonce, 7);
    validate(rig, 8, VALIDATE_QUICK); /* another level begins anew */
    assert_int_equal(rig_action(rig, AGENT_ACTION_VALIDATE, 0)->u.validate.nonce, 8);
    validated(rig, 7, true, NULL);
    assert_null(rig_sent(rig, MSG_VALIDATED));
    validated(rig, 8, true, NULL);
    assert_true(rig_sent(rig, MSG_VALIDATED)->u.validated.ok);
}

/* It ends while nobody hears it: the next session asks again, and is told. */
static void test_validation_over_sessions(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    validate(rig, 5, VALIDATE_QUICK);
    rig_simple(rig, AGENT_EVENT_LINK_DOWN);
    validated(rig, 5, true, "fine");
    assert_null(rig_sent(rig, MSG_VALIDATED));
    rig_pass(rig, 10000); /* it dials again */
    rig_connect(rig);
    validate(rig, 5, VALIDATE_QUICK);
    assert_true(rig_sent(rig, MSG_VALIDATED)->u.validated.ok);
    validate(rig, 9, VALIDATE_QUICK);
    assert_non_null(rig_action(rig, AGENT_ACTION_VALIDATE, 0));
}

/* That a rank has begun to train is told at once; each further step with the next regular beat. */
static void test_the_first_step_is_told_at_once(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct agent_mailbox_view view = {.valid = true, .phase = PHASE_STEP};
    struct agent_event event = {.kind = AGENT_EVENT_MAILBOX, .job = 1, .mailbox = &view};
    rig_step(rig, &event);
    rig_tick(rig, 1000);
    rig_tick(rig, 500); /* nothing is owed */
    assert_null(rig_sent(rig, MSG_BEAT));
    view.step = 1;
    rig_step(rig, &event);
    assert_non_null(rig_sent(rig, MSG_BEAT));
    assert_int_equal(rig_sent(rig, MSG_BEAT)->u.beat.attempts[0].ranks[0].step, 1);
    view.step = 2;
    rig_step(rig, &event);
    rig_tick(rig, 50);
    assert_null(rig_sent(rig, MSG_BEAT));
    view.phase = PHASE_CHECKPOINT;
    rig_step(rig, &event);
    assert_non_null(rig_sent(rig, MSG_BEAT));
}

/* A mailbox file is whatever its rank wrote: a rank that is not there is believed nothing. */
static void test_ranks_that_are_not_there(void **state)
{
    struct core_rig *rig = *state;
    rig_begin(rig);
    rig_running(rig, 1, 0);
    struct attempt_report before, after;
    (void)rig_state(rig, 1, 0, &before);
    const uint64_t digest = agent_core_digest(rig->core);
    const uint32_t ranks = before.rank_count;
    struct agent_mail commit = {.kind = AGENT_MAIL_CHECKPOINT, .local_rank = ranks, .id = 9};
    commit.u.checkpoint.kind = CHECKPOINT_BEGIN;
    mail(rig, &commit);
    assert_int_equal(rig_counters(rig).bad_message, 1);
    assert_null(rig_sent(rig, MSG_CHECKPOINT));
    struct agent_mailbox_view view = {.valid = true, .local_rank = ranks, .step = 50, .phase = 3};
    struct agent_event event = {.kind = AGENT_EVENT_MAILBOX, .job = 1, .mailbox = &view};
    rig_step(rig, &event);
    event.attempt = 7; /* nothing is known of that one */
    view.local_rank = 0;
    rig_step(rig, &event);
    event.attempt = 0;
    view.valid = false; /* it could not be read */
    rig_step(rig, &event);
    const struct agent_printed printed = {.local_rank = ranks, .step = 50};
    event = (struct agent_event){.kind = AGENT_EVENT_PRINTED, .job = 1, .printed = &printed};
    rig_step(rig, &event);
    const struct agent_detail detail = {.local_rank = ranks};
    event = (struct agent_event){.kind = AGENT_EVENT_DETAIL, .job = 1, .detail = &detail};
    rig_step(rig, &event);
    assert_null(rig_sent(rig, MSG_RANK_DETAIL));
    event = (struct agent_event){
        .kind = AGENT_EVENT_ORPHAN_ENDED, .job = 1, .local_rank = ranks, .ok = true};
    rig_step(rig, &event);
    (void)rig_state(rig, 1, 0, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(agent_core_digest(rig->core), digest);
    commit.local_rank = ranks - 1; /* the last one is there */
    mail(rig, &commit);
    assert_int_equal(rig_counters(rig).bad_message, 1);
    assert_non_null(rig_sent(rig, MSG_CHECKPOINT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_ends_are_said_until_acknowledged),
        RIG_TEST(test_what_is_past_is_not_in_every_beat),
        RIG_TEST(test_news_goes_before_what_is_acknowledged),
        RIG_TEST(test_ends_of_a_time_away),
        RIG_TEST(test_facts),
        RIG_TEST(test_facts_that_piled_up),
        RIG_TEST(test_facts_that_nobody_acknowledges),
        RIG_TEST(test_the_first_step_is_told_at_once),
        RIG_TEST(test_ranks_that_are_not_there),
        RIG_TEST(test_health_is_told),
        RIG_TEST(test_health_of_probes),
        RIG_TEST(test_goodbye),
        RIG_TEST(test_exchange),
        RIG_TEST(test_exchange_up_to_its_limit),
        RIG_TEST(test_exchange_ends_with_its_attempt),
        RIG_TEST(test_checkpoints),
        RIG_TEST(test_checkpoints_of_others_stay),
        RIG_TEST(test_mail_past_its_limit),
        RIG_TEST(test_save_request),
        RIG_TEST(test_detail),
        RIG_TEST(test_abort),
        RIG_TEST(test_check_is_passed_on),
        RIG_TEST(test_validation_is_passed_on),
        RIG_TEST(test_validation_over_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
