/* order_test.c: what comes twice, late, or in another order than it happened comes to the same.
 *
 *   C4  a report that is older than what is known takes nothing back, and brings nothing back
 *   C5  what had its effect has none again, although the controller died before it could say so
 *   E5  things that happen at one moment come to one outcome, whatever is heard of first */
#include "tests/lib/test.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { ORDER_MAX = 5 };

/* The next order of the numbers below count, by Heap's algorithm; false: that was the last. */
struct orders {
    uint32_t count;
    uint32_t at[ORDER_MAX];
    uint32_t turns[ORDER_MAX];
    uint32_t index;
};

static void orders_begin(struct orders *orders, uint32_t count)
{
    assert_true(count <= ORDER_MAX);
    *orders = (struct orders){.count = count, .index = 1};
    for (uint32_t i = 0; i < count; i++) {
        orders->at[i] = i;
    }
}

static bool orders_next(struct orders *orders)
{
    while (orders->index < orders->count) {
        const uint32_t i = orders->index;
        if (orders->turns[i] >= i) {
            orders->turns[i] = 0;
            orders->index++;
            continue;
        }
        const uint32_t other = i % 2 == 0 ? 0 : orders->turns[i];
        const uint32_t kept = orders->at[i];
        orders->at[i] = orders->at[other];
        orders->at[other] = kept;
        orders->turns[i]++;
        orders->index = 1;
        return true;
    }
    return false;
}

static struct rig *running(uint32_t nodes, uint32_t *ret_job)
{
    struct rig *rig = rig_create_small(nodes, 1);
    rig_connect_all(rig);
    struct job_spec spec = rig_spec("demo", 4);
    *ret_job = rig_submit(rig, &spec);
    assert_true(rig_until(rig, *ret_job, JOB_RUNNING, 5000));
    return rig;
}

static struct message fatal_fact(uint64_t sequence, uint32_t job)
{
    struct message m = {.kind = MSG_FACT};
    m.u.fact.fact.source = FACT_PROBE;
    m.u.fact.fact.severity = 3;
    m.u.fact.fact.sequence = sequence;
    m.u.fact.fact.job = job;
    m.u.fact.fact.rank = -1;
    m.u.fact.fact.port = -1;
    m.u.fact.fact.code = 79;
    (void)text_copy(m.u.fact.fact.text, TEXT_SIZE, "xid 79");
    return m;
}

static bool is_marked(const struct rig *rig, uint32_t node)
{
    return core_mark_count(rig->core, node + 1) > 0;
}

static bool is_spare(const struct rig *rig, uint32_t node)
{
    return text_equal(core_node_role_word(rig->core, core_node(rig->core, node + 1)), "spare");
}

/* Somebody has repaired the node and takes away all its marks, each by its name. */
static void vouch(struct rig *rig, uint32_t node)
{
    const uint32_t id = node + 1;
    while (is_marked(rig, node)) {
        struct request request = {.verb = REQUEST_UNDRAIN, .nodes = &id, .node_count = 1};
        (void)text_copy(request.clear_code, NAME_SIZE, core_mark(rig->core, id, 0)->d.code);
        assert_int_equal(rig_request(rig, &request), 0);
    }
    rig_run(rig, 2500);
    assert_true(is_spare(rig, node));
}

/* ---- C4 ------------------------------------------------------------------------------------ */

/* Four beats, sent one after the other, heard in any order: the last one sent says how it is. */
static void the_newest_beat_stands(void **state)
{
    (void)state;
    for (uint32_t last_ok = 0; last_ok <= 1; last_ok++) {
        struct rig *rig = rig_create_small(2, 1);
        rig_connect_all(rig);
        struct orders orders;
        orders_begin(&orders, 4);
        do {
            rig_run(rig, 2500);
            assert_true(is_spare(rig, 0));
            struct rig_node *node = &rig->nodes[0];
            const uint64_t before = node->beat;
            node->beat += 4;
            for (uint32_t i = 0; i < 4; i++) {
                struct message beat = {.kind = MSG_BEAT};
                beat.u.beat.sequence = before + 1 + orders.at[i];
                beat.u.beat.sent_ms = rig->now_ms;
                beat.u.beat.checks_ok = orders.at[i] % 2 != last_ok;
                rig_send(rig, 0, &beat);
            }
            assert_int_equal(is_spare(rig, 0), last_ok == 0);
        } while (orders_next(&orders));
        rig_free(rig);
    }
}

/* A mark of health's is taken away by nothing that was said before it, nor by who takes his own
 * away; and when it is gone, nothing that was said before brings it back. */
static void older_news_change_no_mark(void **state)
{
    (void)state;
    struct rig *rig = rig_create_small(2, 1);
    rig_connect_all(rig);
    struct rig_node *node = &rig->nodes[0];
    struct message older = {.kind = MSG_BEAT};
    older.u.beat.sequence = node->beat;
    older.u.beat.checks_ok = true;
    struct message first = fatal_fact(7, 0);
    struct message second = fatal_fact(9, 0);
    rig_send(rig, 0, &first);
    rig_send(rig, 0, &second);
    rig_send(rig, 0, &older);
    rig_hello(rig, 0, 1000, node->incarnation - 1, node->boot_id); /* of an earlier life */
    rig_send(rig, 0, &older);
    assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, node->name, WHEN_NOW), 0);
    assert_int_equal(rig_nodes(rig, REQUEST_UNDRAIN, node->name, WHEN_NOW), 0);
    rig_run(rig, 2500);
    assert_int_equal(core_mark_count(rig->core, 1), 1);
    assert_string_equal(core_mark(rig->core, 1, 0)->d.code, "fatal-signal");
    vouch(rig, 0);
    rig_send(rig, 0, &second);
    rig_send(rig, 0, &first);
    rig_run(rig, 2500);
    assert_true(is_spare(rig, 0));
    struct message third = fatal_fact(10, 0);
    rig_send(rig, 0, &third);
    assert_true(is_marked(rig, 0));
    rig_free(rig);
}

/* Numbers begin anew with another boot: what it says is no older than what the last one said. */
static void another_boot_counts_anew(void **state)
{
    (void)state;
    struct rig *rig = rig_create_small(2, 1);
    rig_connect_all(rig);
    struct message fact = fatal_fact(1000, 0);
    rig_send(rig, 0, &fact);
    vouch(rig, 0);
    rig_boot(rig, 0, true);
    rig_run(rig, 2500);
    assert_true(is_spare(rig, 0));
    fact.u.fact.fact.sequence = 1;
    rig_send(rig, 0, &fact);
    assert_true(is_marked(rig, 0));
    rig_replay_check(rig);
    rig_free(rig);
}

/* ---- C5 ------------------------------------------------------------------------------------ */

/* Sends a fact whose effect is committed by a controller that dies before it acts: its agent has no
 * acknowledgement, and says the fact again when it likes. */
static void die_after_the_effect(struct rig *rig, uint32_t node, const struct message *fact,
                                 bool before_commit)
{
    rig->kill_at = rig->record_count + 1;
    rig->kill_before = before_commit;
    rig_send(rig, node, fact);
    assert_true(rig->dead);
    rig_run(rig, 0);
    assert_false(rig->dead);
}

static void a_spare_is_marked_once(void **state)
{
    (void)state;
    struct rig *rig = rig_create_small(2, 1);
    rig_connect_all(rig);
    struct message fact = fatal_fact(5, 0);
    die_after_the_effect(rig, 0, &fact, true);
    assert_false(is_marked(rig, 0)); /* nothing came of it: it is not lost, but said again */
    die_after_the_effect(rig, 0, &fact, false);
    assert_true(is_marked(rig, 0));
    vouch(rig, 0);
    rig_send(rig, 0, &fact);
    rig_run(rig, 2500);
    assert_true(is_spare(rig, 0));
    rig_restart(rig, 100);
    rig_send(rig, 0, &fact);
    rig_run(rig, 2500);
    assert_true(is_spare(rig, 0));
    rig_replay_check(rig);
    rig_free(rig);
}

/* The same of a node that holds a slot: it is evicted for it, once. */
static void a_holder_is_evicted_once(void **state)
{
    (void)state;
    uint32_t job;
    struct rig *rig = running(6, &job);
    rig_run(rig, 1000);
    const uint32_t node = rig_node_of(rig, job, 1);
    struct message fact = fatal_fact(5, job);
    die_after_the_effect(rig, node, &fact, false);
    assert_true(rig_until(rig, job, JOB_RECOVERING, 5000));
    assert_true(rig_until(rig, job, JOB_RUNNING, 20000));
    assert_int_not_equal(rig_node_of(rig, job, 1), node);
    assert_true(is_marked(rig, node));
    rig_run(rig, 1000);
    vouch(rig, node);
    rig_send(rig, node, &fact);
    rig_run(rig, 5000);
    assert_true(is_spare(rig, node));
    assert_int_equal(rig_count(rig, RECORD_incident_opened_kind), 1);
    assert_int_equal(core_job(rig->core, job)->d.attempt, 1);
    rig_replay_check(rig);
    rig_free(rig);
}

/* ---- E5 ------------------------------------------------------------------------------------ */

enum trigger { HOST_DIES, FATAL_SIGN, RANK_ENDS, DRAINED, CANCELLED };
enum { OUTCOME_SIZE = 2048 };

static void pull(struct rig *rig, uint32_t job, uint32_t trigger, uint32_t node)
{
    struct message fact = fatal_fact(5, job);
    switch ((enum trigger)trigger) {
    case HOST_DIES:
        rig_kill_node(rig, node, RIG_PEER_NOTHING);
        return;
    case FATAL_SIGN:
        rig_send(rig, node, &fact);
        return;
    case RANK_ENDS:
        rig_end_rank(rig, node, 0, RANK_EXITED, 1);
        return;
    case DRAINED:
        assert_int_equal(rig_nodes(rig, REQUEST_DRAIN, rig->nodes[node].name, WHEN_NOW), 0);
        return;
    case CANCELLED:
        assert_int_equal(rig_job(rig, REQUEST_CANCEL, job), 0);
        return;
    }
}

/* What must not depend on the order: how it ended, who holds what, who is marked and why. */
static void sum_up(const struct rig *rig, uint32_t job, char *text)
{
    const struct job *j = core_job(rig->core, job);
    size_t size = 0;
    (void)text_format(text, OUTCOME_SIZE, "%s, attempt %u:", WORD(job_state, j->d.state),
                      j->d.attempt);
    for (uint32_t id = 1; id <= core_node_count(rig->core); id++) {
        const struct node *node = core_node(rig->core, id);
        size = strlen(text);
        (void)text_format(text + size, OUTCOME_SIZE - size, " %u %s", id,
                          core_node_state_word(rig->core, node, NULL));
        if (node->d.job != 0) {
            size = strlen(text);
            (void)text_format(text + size, OUTCOME_SIZE - size, " slot %u", node->d.slot);
        }
        uint64_t marks = 0; /* in any order */
        for (uint32_t i = 0; i < core_mark_count(rig->core, id); i++) {
            const struct record_image_mark *d = &core_mark(rig->core, id, i)->d;
            marks += hash_u64(hash_text(HASH_INIT, d->code), d->owner * 4ull + d->level);
        }
        size = strlen(text);
        (void)text_format(text + size, OUTCOME_SIZE - size, " marks %llx",
                          (unsigned long long)marks);
    }
}

/* One order; before trigger number `death`, if that is not 0, the controller dies and is back at
 * once. first: what the first one came to, "" before that. */
static void one_order(const struct orders *orders, uint32_t death, uint8_t end, char *first)
{
    uint32_t job;
    struct rig *rig = running(10, &job);
    rig_save(rig, job, 5);
    rig_run(rig, 1000);
    uint32_t holders[ORDER_MAX] = {0}; /* each trigger has a slot of its own */
    for (uint32_t slot = 0; slot < 4; slot++) {
        holders[slot] = rig_node_of(rig, job, slot);
    }
    for (uint32_t i = 0; i < orders->count; i++) {
        if (death > 0 && death == i) {
            rig_restart(rig, 0);
        }
        pull(rig, job, orders->at[i], holders[orders->at[i]]);
    }
    rig_run(rig, 20000);
    assert_int_equal(core_job(rig->core, job)->d.state, end);
    assert_true(is_marked(rig, holders[FATAL_SIGN])); /* also where nobody judges any more */
    char outcome[OUTCOME_SIZE];
    sum_up(rig, job, outcome);
    if (first[0] == '\0') {
        (void)text_copy(first, OUTCOME_SIZE, outcome);
    }
    if (!text_equal(first, outcome)) {
        fail_msg("order %u %u %u %u %u, death before %u:\n  %s\n  %s", orders->at[0], orders->at[1],
                 orders->at[2], orders->at[3], orders->at[4], death, outcome, first);
    }
    rig_free(rig);
}

/* All orders of the first `count` triggers at one moment, each also with a death somewhere. */
static void one_outcome(uint32_t count, uint8_t end)
{
    char first[OUTCOME_SIZE] = "";
    struct orders orders;
    uint32_t turn = 0;
    orders_begin(&orders, count);
    do {
        one_order(&orders, 0, end, first);
        one_order(&orders, 1 + turn++ % (count - 1), end, first);
    } while (orders_next(&orders));
}

static void failures_come_to_one_outcome(void **state)
{
    (void)state;
    one_outcome(4, JOB_RUNNING);
}

/* The cancel wins wherever it stands among them. */
static void cancel_wins_in_any_order(void **state)
{
    (void)state;
    one_outcome(5, JOB_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_beat_stands),   cmocka_unit_test(older_news_change_no_mark),
        cmocka_unit_test(another_boot_counts_anew), cmocka_unit_test(a_spare_is_marked_once),
        cmocka_unit_test(a_holder_is_evicted_once), cmocka_unit_test(failures_come_to_one_outcome),
        cmocka_unit_test(cancel_wins_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
