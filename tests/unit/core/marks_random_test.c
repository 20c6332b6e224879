/* marks_random_test.c: C13: whatever happens in whatever order, nobody's mark is taken away by
 * another. Nodes are drained, cordoned, removed, struck by faults, booted, silenced, fenced and
 * mended by hooks that work or do not, while a job runs on them and the controller dies now and then; after each act all records since
 * the last one are looked through. A mark goes only
 *
 *   by an operator's request that names its node, and either is for such a mark or names its code
 *   by automation, of those few that automation itself sets and can tell that they are over
 *   what a hook can mend: by automation when the node has passed its checks after that, and by an
 *   operator who gives a node back that waits for a person */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/core_rig.h"

enum { NODES = 8, SLOTS = 3, ACTS = 250, SEEDS = 40, MARKS_MAX = NODES * MARKS_PER_NODE };

struct known_mark {
    uint32_t node;
    uint8_t owner;
    char code[NAME_SIZE];
    bool mends; /* a lane mends it */
};

struct world {
    struct rig *rig;
    struct prng prng;
    uint32_t job;
    uint64_t facts;  /* sequence of the last one */
    uint32_t looked; /* records that were looked through */
    uint8_t verb;    /* enum request_verb of the request that runs; REQUEST_SUBMIT: none does */
    uint32_t asked;  /* … its node */
    char by_name[NAME_SIZE]; /* … the code that it names */
    uint32_t mark_count;
    struct known_mark marks[MARKS_MAX];
    uint8_t repair[NODES + 1]; /* enum repair_state_word, by node id */
};

struct counts {
    uint64_t records;
    uint64_t set;
    uint64_t by_operators;
    uint64_t by_automation;
    uint64_t repaired;
};

/* ---- the judge ----------------------------------------------------------------------------- */

static bool is_automations(const struct world *world, const struct record_mark_cleared *u,
                           const struct known_mark *mark)
{
    static const struct {
        uint8_t owner;
        const char *code;
    } own[] = {{MARK_RECOVERY, "unproven"},   {MARK_RECOVERY, "evicted"},
               {MARK_HEALTH, "agent-silent"}, {MARK_HEALTH, "inventory"},
               {MARK_HEALTH, "validation"},   {MARK_REPAIR, "goodbye"}};
    for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
        if (u->owner == own[i].owner && text_equal(u->code, own[i].code)) {
            return true;
        }
    }
    return mark->mends && world->repair[u->node] == REPAIR_VALIDATING;
}

static bool is_asked_for(const struct world *world, const struct record_mark_cleared *u,
                         const struct known_mark *mark)
{
    if (world->verb == REQUEST_SUBMIT || world->asked != u->node) {
        return false;
    }
    const bool own = u->owner == MARK_OPERATOR;
    switch (world->verb) {
    case REQUEST_UNCORDON:
        return own && text_equal(u->code, "cordon");
    case REQUEST_UNDRAIN:
        return (own && (text_equal(u->code, "cordon") || text_equal(u->code, "drain"))) ||
               text_equal(u->code, world->by_name) ||
               (mark->mends && world->repair[u->node] == REPAIR_PERSON);
    case REQUEST_REMOVE:
        return true;
    default:
        return false;
    }
}

static struct known_mark *find(struct world *world, uint32_t node, uint8_t owner, const char *code)
{
    for (uint32_t i = 0; i < world->mark_count; i++) {
        struct known_mark *mark = &world->marks[i];
        if (mark->node == node && mark->owner == owner && text_equal(mark->code, code)) {
            return mark;
        }
    }
    return NULL;
}

static void mark_is_set(struct world *world, const struct record_mark_set *u)
{
    if (find(world, u->node, u->owner, u->code) != NULL) {
        return;
    }
    assert_true(world->mark_count < MARKS_MAX);
    struct known_mark *mark = &world->marks[world->mark_count++];
    *mark = (struct known_mark){.node = u->node, .owner = u->owner};
    mark->mends = u->owner == MARK_HEALTH && u->lane != LANE_NONE;
    (void)text_copy(mark->code, NAME_SIZE, u->code);
}

static void mark_goes(struct world *world, const struct record_mark_cleared *u,
                      struct counts *counts)
{
    struct known_mark *mark = find(world, u->node, u->owner, u->code);
    const bool automation = text_equal(u->actor, "keepstep");
    assert_non_null(mark);
    if (automation ? !is_automations(world, u, mark) : !is_asked_for(world, u, mark)) {
        fail_msg("%s/%s of node %u is taken away by %s: %s", WORD(mark_owner, u->owner), u->code,
                 u->node, u->actor, u->text);
    }
    counts->by_automation += automation ? 1 : 0;
    counts->by_operators += automation ? 0 : 1;
    *mark = world->marks[--world->mark_count];
}

/* All records since the last look, and that the core holds the marks that they leave. */
static void look(struct world *world, struct counts *counts)
{
    const struct rig *rig = world->rig;
    for (; world->looked < rig->record_count; world->looked++) {
        const struct record *record = &rig->records[world->looked];
        counts->records++;
        if (record->kind == RECORD_mark_set_kind) {
            counts->set++;
            mark_is_set(world, &record->u.mark_set);
        } else if (record->kind == RECORD_mark_cleared_kind) {
            mark_goes(world, &record->u.mark_cleared, counts);
        } else if (record->kind == RECORD_repair_moved_kind) {
            world->repair[record->u.repair_moved.node] = record->u.repair_moved.repair;
            counts->repaired += record->u.repair_moved.repaired ? 1 : 0;
        } else if (record->kind == RECORD_node_removed_kind) {
            world->repair[record->u.node_removed.node] = REPAIR_NONE;
        }
    }
    uint32_t held = 0;
    for (uint32_t node = 1; node <= core_node_count(rig->core); node++) {
        held += core_mark_count(rig->core, node);
    }
    assert_int_equal(held, world->mark_count);
}

/* ---- what happens -------------------------------------------------------------------------- */

static void ask(struct world *world, uint8_t verb, uint32_t node, struct counts *counts)
{
    const uint32_t id = node + 1;
    struct request request = {.verb = verb, .nodes = &id, .node_count = 1};
    request.when = (uint8_t)prng_below(&world->prng, 3);
    if (verb == REQUEST_UNDRAIN && core_mark_count(world->rig->core, id) > 0 &&
        prng_below(&world->prng, 2) == 0) {
        const uint32_t count = core_mark_count(world->rig->core, id);
        const struct mark *mark =
            core_mark(world->rig->core, id, (uint32_t)prng_below(&world->prng, count));
        (void)text_copy(request.clear_code, NAME_SIZE, mark->d.code);
    }
    look(world, counts); /* what was before is not this request's doing */
    world->verb = verb;
    world->asked = id;
    (void)text_copy(world->by_name, NAME_SIZE, request.clear_code);
    (void)rig_request(world->rig, &request); /* a refusal is an answer too */
    look(world, counts);
    world->verb = REQUEST_SUBMIT;
}

static void say_fact(struct world *world, uint32_t node)
{
    struct message m = {.kind = MSG_FACT};
    m.u.fact.fact.source = FACT_PROBE;
    m.u.fact.fact.severity = (uint8_t)prng_between(&world->prng, 1, 3);
    m.u.fact.fact.sequence = ++world->facts;
    m.u.fact.fact.rank = -1;
    m.u.fact.fact.port = -1;
    m.u.fact.fact.code = 79;
    (void)text_copy(m.u.fact.fact.text, TEXT_SIZE, "xid 79");
    rig_send(world->rig, node, &m);
}

static void say_goodbye(struct world *world, uint32_t node)
{
    struct message m = {.kind = MSG_GOODBYE};
    m.u.goodbye.kind = (uint8_t)prng_below(&world->prng, 3);
    rig_send(world->rig, node, &m);
}

/* Whatever it was, it is over: the agent is back in this or in another life. */
static void come_back(struct world *world, uint32_t node)
{
    struct rig_node *one = &world->rig->nodes[node];
    if (!one->host_up) {
        rig_boot(world->rig, node, prng_below(&world->prng, 2) == 0);
        return;
    }
    one->incarnation++;
    rig_connect(world->rig, node);
}

static void strike(struct world *world, uint32_t node, uint32_t what)
{
    static const uint8_t peers[] = {RIG_PEER_OK, RIG_PEER_REFUSED, RIG_PEER_SILENT,
                                    RIG_PEER_NOTHING};
    struct rig *rig = world->rig;
    const uint8_t peer = peers[prng_below(&world->prng, ARRAY_SIZE(peers))];
    switch (what) {
    case 0:
        rig_kill_agent(rig, node, peer);
        return;
    case 1:
        rig_kill_node(rig, node, peer);
        return;
    case 2:
        rig_quiet(rig, node, peer);
        return;
    case 3:
        rig_boot(rig, node, prng_below(&world->prng, 2) == 0);
        return;
    case 4:
        rig_end_rank(rig, node, 0, RANK_SIGNALED, 9);
        return;
    case 5:
        rig->nodes[node].ignore_stop = !rig->nodes[node].ignore_stop;
        return;
    case 6:
        rig->nodes[node].check_fails = !rig->nodes[node].check_fails;
        return;
    case 7:
        say_goodbye(world, node);
        return;
    case 8:
        rig->hooks[1 + node % (repair_hook_count - 1)] = (uint8_t)prng_below(&world->prng, 2);
        rig->nodes[node].validation_fails = !rig->nodes[node].validation_fails;
        return;
    default:
        say_fact(world, node);
        return;
    }
}

static void submit(struct world *world)
{
    char name[NAME_SIZE];
    (void)text_format(name, sizeof(name), "job-%u", world->rig->record_count);
    struct job_spec spec = rig_spec(name, SLOTS);
    spec.retries_user = spec.retries_unknown = spec.no_progress_limit = 1000;
    const uint32_t job = rig_submit(world->rig, &spec);
    world->job = job != 0 ? job : world->job;
}

static void act(struct world *world, struct counts *counts)
{
    static const uint8_t verbs[] = {REQUEST_DRAIN,   REQUEST_UNDRAIN,  REQUEST_UNDRAIN,
                                    REQUEST_CORDON,  REQUEST_UNCORDON, REQUEST_DRAIN,
                                    REQUEST_UNDRAIN, REQUEST_REMOVE};
    const uint32_t node = (uint32_t)prng_below(&world->prng, NODES);
    const struct job *job = core_job(world->rig->core, world->job);
    struct request resume = {.verb = REQUEST_AUTOMATION, .automation = AUTOMATION_RESUME};
    switch (prng_below(&world->prng, 8)) {
    case 0:
    case 1:
    case 2:
        ask(world, verbs[prng_below(&world->prng, ARRAY_SIZE(verbs))], node, counts);
        break;
    case 3:
    case 4:
        strike(world, node, (uint32_t)prng_below(&world->prng, 11));
        break;
    case 5:
        come_back(world, node);
        break;
    case 6:
        if (core_held(world->rig->core)) { /* the breaker for evictions opens soon */
            (void)rig_request(world->rig, &resume);
        } else if (prng_below(&world->prng, 8) == 0) {
            rig_restart(world->rig, prng_below(&world->prng, 5000));
        }
        break;
    default:
        if (job == NULL || core_job_over(job)) {
            submit(world);
        } else if (job->d.state == JOB_HELD) {
            (void)rig_job(world->rig, REQUEST_RELEASE, world->job);
        }
        break;
    }
    const bool hooks = world->rig->config.repair_hooks[HOOK_REBOOT];
    rig_run(world->rig, hooks && prng_below(&world->prng, 12) == 0 ? 70000 /* a repair's turn */
                        : prng_below(&world->prng, 4) == 0         ? 3000
                                                           : 10 * prng_below(&world->prng, 30));
    look(world, counts);
}

/* Every other site has hooks. */
static struct rig *site(uint64_t seed)
{
    const struct core_limits limits = {.agents = NODES,
                                       .jobs = 16,
                                       .slots = 64,
                                       .incidents = 64,
                                       .facts = 512,
                                       .recoveries = 64,
                                       .checkpoints = 64,
                                       .foreign = 16,
                                       .pending_records = 100000};
    struct core_config config = {0};
    for (uint32_t i = HOOK_NONE + 1; i < repair_hook_count; i++) {
        config.repair_hooks[i] = seed % 2 == 0;
    }
    struct rig *rig = rig_create_with(NODES, seed, &limits, &config);
    rig->hook_ms = 2000;
    return rig;
}

static void nobody_takes_anothers_mark(void **state)
{
    (void)state;
    const char *all = getenv("KEEPSTEP_TEST_ALL"); /* a million records */
    struct counts counts = {0};
    struct world *world = mem_alloc(1, sizeof(*world));
    for (uint64_t seed = 1; seed <= (all != NULL ? 45u : 1u) * SEEDS; seed++) {
        memset(world, 0, sizeof(*world));
        world->verb = REQUEST_SUBMIT;
        prng_seed(&world->prng, seed);
        world->rig = site(seed);
        rig_connect_all(world->rig);
        submit(world);
        for (uint32_t i = 0; i < ACTS; i++) {
            act(world, &counts);
        }
        rig_replay_check(world->rig);
        rig_free(world->rig);
    }
    (void)mem_free(world);
    print_message("%llu records; marks set %llu times, taken away by operators %llu times and by "
                  "automation %llu times; %llu repairs\n",
                  (unsigned long long)counts.records, (unsigned long long)counts.set,
                  (unsigned long long)counts.by_operators, (unsigned long long)counts.by_automation,
                  (unsigned long long)counts.repaired);
    assert_true(counts.repaired > SEEDS);
    assert_true(counts.by_operators > 10 * SEEDS && counts.by_automation > 10 * SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_takes_anothers_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
