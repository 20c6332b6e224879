/* agent_random_test.c: a core in a small world that behaves at random, from seeds: orders of two
 * jobs in any order, stale ones, other clusters; shims that come, end and die; a driver that is
 * killed before, inside and after a commit. Judged after every step:
 *
 *   - every invariant, and that the records fold to the same durable state
 *   - a shim that has begun is never started again
 *   - nothing is told to end that no stop of this cluster covers
 *   - what was stopped never starts
 *   - no attempt starts while an older one of its job has a process left
 * and at the end: what is wanted runs, with nothing older beside it. */
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum {
    SEEDS = 60,
    STEPS = 3000,
    JOBS = 2,
    ATTEMPTS = 64,
    RECORDS_MAX = 1 << 16,
    LAST_STEPS = 400,
};

#define CLUSTER "0123456789abcdef0123456789abcdef"
#define OTHER   "ffffffffffffffffffffffffffffffff"

/* The truth about one attempt on this node. */
struct truth {
    bool begun; /* its shim has a first record: it may never begin again */
    bool shim;  /* lives */
    uint32_t processes;
    bool ended; /* the shim has recorded EMPTY */
    bool gone;  /* its folder was removed */
    bool asked; /* a sweep of it is to be answered */
};

struct world {
    struct prng prng;
    struct agent_limits limits;
    struct agent_identity identity;
    struct agent_core *core;
    struct agent_output *output;
    struct agent_record *records;
    uint32_t record_count;
    uint64_t now_ms;
    uint64_t term;
    uint64_t sequence;
    bool linked;
    uint32_t current[JOBS];    /* attempt that the controller is at */
    uint64_t believed[JOBS];   /* term of the last believed order, of this process */
    uint32_t stop_below[JOBS]; /* attempts that some believable order said to stop */
    bool scan[JOBS + 1];       /* to be answered, by job; 0 is all */
    bool restart;              /* the driver was killed */
    bool calm;                 /* no more faults */
    struct truth truth[JOBS][ATTEMPTS];
    uint32_t starts;
    uint32_t crashes;
    uint32_t kills;
};

static void step(struct world *world, struct agent_event *event);

static struct agent_shim_view view_of(const struct truth *truth, bool attached)
{
    struct agent_shim_view view = {.alive = truth->shim,
                                   .attached = attached,
                                   .started = true,
                                   .empty = truth->ended,
                                   .rank_count = 2};
    (void)text_copy(view.cluster_id, CLUSTER_ID_SIZE, CLUSTER);
    for (uint32_t i = 0; i < 2; i++) {
        const bool over = i >= truth->processes;
        view.ranks[i].state = !over ? RANK_RUNNING : RANK_SIGNALED;
        view.ranks[i].code = over ? 9 : 0;
        view.ranks[i].end_sequence = over ? i + 1 : 0;
    }
    return view;
}

static void tell_shim(struct world *world, uint32_t job, uint32_t attempt, bool attached)
{
    const struct truth *truth = &world->truth[job - 1][attempt];
    const struct agent_shim_view view = view_of(truth, attached);
    struct agent_event event = {
        .kind = AGENT_EVENT_SHIM, .job = job, .attempt = attempt, .shim = &view};
    step(world, &event);
    if (!world->restart && !truth->shim && !truth->ended) {
        struct agent_event lost = {.kind = AGENT_EVENT_SHIM_LOST, .job = job, .attempt = attempt};
        step(world, &lost);
    }
}

static void tell_orphans(struct world *world, uint32_t job, uint32_t attempt)
{
    const uint32_t count = world->truth[job - 1][attempt].processes;
    for (uint32_t i = count; i < 2; i++) {
        struct agent_event ended = {.kind = AGENT_EVENT_ORPHAN_ENDED,
                                    .job = job,
                                    .attempt = attempt,
                                    .local_rank = i,
                                    .ok = prng_chance_ppm(&world->prng, 500000)};
        step(world, &ended);
    }
    struct agent_event event = {.kind = AGENT_EVENT_ORPHANS,
                                .job = job,
                                .attempt = attempt,
                                .count = count,
                                .ok = count == 0};
    step(world, &event);
}

/* ---- what the driver does ------------------------------------------------------------------- */

static void start(struct world *world, uint32_t job, uint32_t attempt)
{
    struct truth *truth = &world->truth[job - 1][attempt];
    assert_false(truth->begun);
    assert_true(attempt >= world->stop_below[job - 1]);
    for (uint32_t older = 0; older < attempt; older++) {
        assert_int_equal(world->truth[job - 1][older].processes, 0);
    }
    *truth = (struct truth){.begun = true, .shim = true, .processes = 2};
    world->starts++;
}

static void end_processes(struct world *world, const struct agent_action *action)
{
    struct truth *truth = &world->truth[action->job - 1][action->attempt];
    assert_true(action->attempt < world->stop_below[action->job - 1]);
    world->kills++;
    truth->asked = action->kind == AGENT_ACTION_SWEEP;
    const bool obeys = action->kind != AGENT_ACTION_TERM || prng_chance_ppm(&world->prng, 500000);
    if (action->kind == AGENT_ACTION_SWEEP && truth->shim) {
        return; /* a living shim owns them */
    }
    if (obeys) {
        truth->processes = 0;
        truth->ended = truth->shim;
        truth->shim = false;
    }
}

static void act(struct world *world, const struct agent_action *action)
{
    switch (action->kind) {
    case AGENT_ACTION_START:
        start(world, action->job, action->attempt);
        break;
    case AGENT_ACTION_TERM:
    case AGENT_ACTION_KILL:
    case AGENT_ACTION_SWEEP:
        end_processes(world, action);
        break;
    case AGENT_ACTION_FORGET:
        assert_int_equal(world->truth[action->job - 1][action->attempt].processes, 0);
        world->truth[action->job - 1][action->attempt].gone = true;
        break;
    case AGENT_ACTION_SCAN:
        world->scan[action->job] = true;
        break;
    case AGENT_ACTION_HANG_UP:
        world->linked = false;
        break;
    default:
        break;
    }
}

static void judge(const struct world *world)
{
    struct agent_core *copy = NULL;
    agent_core_check(world->core);
    assert_int_equal(agent_core_create(&world->limits, 1, &world->identity, &copy), 0);
    for (uint32_t i = 0; i < world->record_count; i++) {
        assert_int_equal(agent_core_replay(copy, &world->records[i]), 0);
    }
    assert_true(agent_core_digest(copy) == agent_core_digest(world->core));
    (void)agent_core_free(copy);
}

/* Persist, then act; or be killed with a part of either done. */
static void step(struct world *world, struct agent_event *event)
{
    if (world->restart) {
        return;
    }
    event->now_ms = world->now_ms;
    event->wall_ms = 1700000000000 + world->now_ms;
    assert_int_equal(agent_core_step(world->core, event, world->output), 0);
    const struct agent_output *output = world->output;
    uint32_t records = output->record_count;
    uint32_t actions = output->action_count;
    if (!world->calm && (records > 0 || actions > 0) && prng_chance_ppm(&world->prng, 20000)) {
        world->restart = true;
        world->crashes++;
        records = (uint32_t)prng_between(&world->prng, 0, records);
        actions =
            records < output->record_count ? 0 : (uint32_t)prng_between(&world->prng, 0, actions);
    }
    for (uint32_t i = 0; i < records; i++) {
        assert_true(world->record_count < RECORDS_MAX);
        world->records[world->record_count++] = output->records[i];
    }
    for (uint32_t i = 0; i < actions; i++) {
        act(world, &output->actions[i]);
    }
    if (!world->restart && prng_chance_ppm(&world->prng, 50000)) {
        judge(world);
    }
}

static void answer_scan(struct world *world, uint32_t only)
{
    for (uint32_t job = 1; job <= JOBS; job++) {
        for (uint32_t attempt = 0; attempt < ATTEMPTS && (only == 0 || only == job); attempt++) {
            const struct truth *truth = &world->truth[job - 1][attempt];
            if (truth->begun && !truth->gone && (only == 0 || !truth->ended)) {
                tell_shim(world, job, attempt, true);
                if (!truth->shim && !truth->ended) {
                    tell_orphans(world, job, attempt);
                }
            }
        }
    }
    struct agent_event event = {.kind = AGENT_EVENT_SCANNED, .job = only};
    step(world, &event);
}

static void restart(struct world *world)
{
    (void)agent_core_free(world->core);
    world->restart = false;
    world->linked = false;
    memset(world->scan, 0, sizeof(world->scan));
    memset(world->believed, 0, sizeof(world->believed));
    world->identity.incarnation++;
    assert_int_equal(
        agent_core_create(&world->limits, prng_next(&world->prng), &world->identity, &world->core),
        0);
    for (uint32_t i = 0; i < world->record_count; i++) {
        assert_int_equal(agent_core_replay(world->core, &world->records[i]), 0);
    }
    struct agent_event event = {.kind = AGENT_EVENT_START};
    step(world, &event);
}

/* ---- what happens ------------------------------------------------------------------------------ */

static void welcome(struct world *world)
{
    struct agent_event up = {.kind = AGENT_EVENT_LINK_UP};
    step(world, &up);
    struct message *message = mem_alloc(1, sizeof(*message));
    message->kind = MSG_WELCOME;
    message->u.welcome.term = world->term;
    (void)text_copy(message->u.welcome.cluster_id, CLUSTER_ID_SIZE, CLUSTER);
    struct agent_event event = {.kind = AGENT_EVENT_MESSAGE, .message = message};
    step(world, &event);
    mem_free(message);
    if (!world->restart) { /* it may not have dialled at all */
        struct agent_view view;
        agent_core_view(world->core, &view);
        world->linked = view.session;
    }
}

static void send_order(struct world *world, uint32_t job, uint8_t mode, uint32_t attempt,
                       bool stale)
{
    struct message *message = mem_alloc(1, sizeof(*message));
    struct msg_desired *desired = &message->u.desired;
    message->kind = MSG_DESIRED;
    *desired = (struct msg_desired){.mode = mode,
                                    .job = job,
                                    .attempt = attempt,
                                    .term = world->term,
                                    .sequence = ++world->sequence,
                                    .rank_count = 2,
                                    .world = 2,
                                    .grace_ms = 1000,
                                    .start = true};
    (void)text_copy(desired->cluster_id, CLUSTER_ID_SIZE, CLUSTER);
    (void)text_format(desired->job_name, NAME_SIZE, "job-%u", job);
    desired->forget = mode == DESIRED_STOP && prng_chance_ppm(&world->prng, 200000);
    if (stale) {
        switch (prng_below(&world->prng, 3)) {
        case 0:
            desired->term--;
            break;
        case 1:
            (void)text_copy(desired->cluster_id, CLUSTER_ID_SIZE, OTHER);
            break;
        default: /* numbers count within a term only */
            desired->sequence = 0;
            desired->term = world->believed[job - 1] == world->term ? world->term : 1;
            break;
        }
    } else if (mode == DESIRED_STOP && attempt + 1 > world->stop_below[job - 1]) {
        world->stop_below[job - 1] = attempt + 1;
    } else if (mode == DESIRED_RUN && attempt > world->stop_below[job - 1]) {
        world->stop_below[job - 1] = attempt; /* a newer attempt says that much */
    }
    struct agent_event event = {.kind = AGENT_EVENT_MESSAGE, .message = message};
    step(world, &event);
    if (!stale && !world->restart) {
        world->believed[job - 1] = world->term;
    }
    mem_free(message);
}

static void some_order(struct world *world)
{
    const uint32_t job = 1 + (uint32_t)prng_below(&world->prng, JOBS);
    uint32_t *current = &world->current[job - 1];
    if (!world->linked) {
        return;
    }
    if (*current < world->stop_below[job - 1]) {
        *current = world->stop_below[job - 1]; /* no controller runs again what it stopped */
    }
    if (*current >= ATTEMPTS - 1) {
        return;
    }
    switch (prng_below(&world->prng, 8)) {
    case 0:
        send_order(world, job, DESIRED_STOP, *current, false);
        break;
    case 1:
        ++*current;
        send_order(world, job, DESIRED_RUN, *current, false);
        break;
    case 2:
        send_order(world, job, DESIRED_NONE, *current, false);
        break;
    case 3:
        world->term++;
        send_order(world, job, DESIRED_RUN, *current, false);
        break;
    case 4: /* an old RUN comes late: it must not start anything that was stopped */
        send_order(world, job, DESIRED_RUN, (uint32_t)prng_below(&world->prng, *current + 1u),
                   true);
        break;
    case 5:
        send_order(world, job, DESIRED_STOP, *current, true);
        break;
    default:
        send_order(world, job, DESIRED_RUN, *current, false);
        break;
    }
}

static void some_process(struct world *world)
{
    const uint32_t job = 1 + (uint32_t)prng_below(&world->prng, JOBS);
    for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct truth *truth = &world->truth[job - 1][attempt];
        if (truth->processes == 0 || !prng_chance_ppm(&world->prng, 300000)) {
            continue;
        }
        if (truth->shim && prng_chance_ppm(&world->prng, 300000)) {
            truth->shim = false; /* the shim is killed, its ranks live on */
        } else {
            truth->processes--;
            truth->ended = truth->shim && truth->processes == 0;
            truth->shim = truth->shim && truth->processes > 0;
        }
        tell_shim(world, job, attempt, false);
    }
}

/* What a real driver would have noticed by now. */
static void tell_all(struct world *world)
{
    for (uint32_t job = 1; job <= JOBS; job++) {
        for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
            struct truth *truth = &world->truth[job - 1][attempt];
            if (!truth->begun && truth->asked) { /* a launch is made impossible, then looked at */
                truth->asked = false;
                tell_orphans(world, job, attempt);
            }
            if (!truth->begun || truth->gone) {
                continue;
            }
            tell_shim(world, job, attempt, false);
            if (!truth->shim && !truth->ended) {
                tell_orphans(world, job, attempt);
            }
        }
    }
}

static void turn(struct world *world)
{
    if (world->restart) {
        restart(world);
        return;
    }
    for (uint32_t job = 0; job <= JOBS; job++) {
        if (world->scan[job]) {
            world->scan[job] = false;
            answer_scan(world, job);
            return;
        }
    }
    struct agent_view view;
    agent_core_view(world->core, &view);
    world->linked = view.session;
    if (!world->linked && prng_chance_ppm(&world->prng, 300000)) {
        welcome(world);
        return;
    }
    switch (prng_below(&world->prng, world->calm ? 2 : 6)) {
    case 0:
        tell_all(world);
        break;
    case 1: {
        struct agent_event event = {.kind = AGENT_EVENT_TICK};
        world->now_ms += prng_below(&world->prng, 800);
        step(world, &event);
        break;
    }
    case 2:
        some_process(world);
        break;
    case 3: {
        struct agent_event event = {.kind = AGENT_EVENT_LINK_DOWN};
        world->linked = prng_chance_ppm(&world->prng, 900000) && world->linked;
        if (!world->linked) {
            step(world, &event);
        }
        break;
    }
    default:
        some_order(world);
        break;
    }
}

static void live(uint64_t seed, uint32_t *ret_starts, uint32_t *ret_crashes, uint32_t *ret_kills)
{
    struct world *world = mem_alloc(1, sizeof(*world));
    prng_seed(&world->prng, seed);
    agent_limits_default(&world->limits);
    (void)text_copy(world->identity.node, NAME_SIZE, "n");
    (void)text_copy(world->identity.boot_id, BOOT_ID_SIZE, "boot");
    world->term = 2;
    world->now_ms = 1;
    world->records = mem_alloc(RECORDS_MAX, sizeof(world->records[0]));
    assert_int_equal(agent_output_create(&world->limits, &world->output), 0);
    assert_int_equal(agent_core_create(&world->limits, seed, &world->identity, &world->core), 0);
    struct agent_event event = {.kind = AGENT_EVENT_START};
    step(world, &event);
    for (uint32_t i = 0; i < STEPS; i++) {
        turn(world);
    }
    world->calm = true;
    for (uint32_t i = 0; i < LAST_STEPS; i++) {
        if (i % 20 == 10 && world->linked && !world->restart) {
            for (uint32_t job = 1; job <= JOBS; job++) {
                send_order(world, job, DESIRED_RUN, ATTEMPTS - 1, false);
            }
        }
        turn(world);
    }
    judge(world);
    for (uint32_t job = 0; job < JOBS; job++) {
        assert_true(world->truth[job][ATTEMPTS - 1].begun);
        for (uint32_t attempt = 0; attempt < ATTEMPTS - 1; attempt++) {
            assert_int_equal(world->truth[job][attempt].processes, 0);
        }
    }
    *ret_starts += world->starts;
    *ret_crashes += world->crashes;
    *ret_kills += world->kills;
    (void)agent_core_free(world->core);
    (void)agent_output_free(world->output);
    mem_free(world->records);
    mem_free(world);
}

static void test_random_lives(void **state)
{
    uint32_t starts = 0;
    uint32_t crashes = 0;
    uint32_t kills = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        live(seed, &starts, &crashes, &kills);
    }
    (void)printf("%u starts, %u crashes, %u orders to end\n", starts, crashes, kills);
    assert_true(starts > SEEDS * 10);
    assert_true(crashes > SEEDS * 5);
    assert_true(kills > SEEDS * 10);
}

/* The snapshot that a rewritten journal holds folds to the same state. */
static int replay_into(const struct agent_record *record, void *context)
{
    return agent_core_replay(context, record);
}

static void test_snapshot(void **state)
{
    struct agent_limits limits;
    struct agent_identity identity = {.node = "n", .boot_id = "boot"};
    struct agent_core *core = NULL;
    struct agent_core *copy = NULL;
    const struct agent_record records[] = {
        {.kind = AGENT_RECORD_LIFE, .number = 9, .name = "boot"},
        {.kind = AGENT_RECORD_CLUSTER, .name = CLUSTER},
        {.kind = AGENT_RECORD_TERM, .number = 4},
        {.kind = AGENT_RECORD_ORDER, .job = 3, .attempt = 1, .rank_count = 2, .name = "a"},
        {.kind = AGENT_RECORD_STOP, .job = 3, .attempt = 1, .number = 500, .name = "a"},
        {.kind = AGENT_RECORD_EMPTY, .job = 3, .attempt = 1},
        {.kind = AGENT_RECORD_ORDER, .job = 3, .attempt = 2, .rank_count = 2, .name = "a"},
        {.kind = AGENT_RECORD_REFUSED, .job = 3, .attempt = 2, .text = "no"},
        {.kind = AGENT_RECORD_ORDER, .job = 4, .attempt = 0, .rank_count = 1, .name = "b"},
        {.kind = AGENT_RECORD_PEER,
         .rank_count = 0,
         .number = 1,
         .name = "n-1",
         .text = "10.0.0.1"},
        {.kind = AGENT_RECORD_PEER, .rank_count = 1, .number = 65535, .name = "n-2", .text = "::1"},
        {.kind = AGENT_RECORD_STOP, .job = 5, .attempt = 0, .number = 500, .name = "c"},
        {.kind = AGENT_RECORD_FORGET, .job = 3, .attempt = 1},
        {.kind = AGENT_RECORD_GOODBYE, .number = 1},
    };
    (void)state;
    agent_limits_default(&limits);
    assert_int_equal(agent_core_create(&limits, 1, &identity, &core), 0);
    assert_int_equal(agent_core_create(&limits, 1, &identity, &copy), 0);
    for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
        const uint64_t before = agent_core_digest(core);
        assert_int_equal(agent_core_replay(core, &records[i]), 0);
        assert_true(agent_core_digest(core) != before); /* nothing is written for nothing */
    }
    assert_int_equal(agent_core_snapshot(core, replay_into, copy), 0);
    assert_true(agent_core_digest(core) == agent_core_digest(copy));
    (void)agent_core_free(core);
    (void)agent_core_free(copy);
}

/* What is left of an attempt that was forgotten is that nothing up to it runs again. */
static void test_what_a_forgotten_attempt_leaves(void **state)
{
    struct agent_limits limits;
    struct agent_identity identity = {.node = "n", .boot_id = "boot"};
    struct agent_core *core = NULL;
    struct agent_core *job = NULL;
    const struct agent_record records[] = {
        {.kind = AGENT_RECORD_ORDER, .job = 3, .attempt = 1, .rank_count = 2, .name = "a"},
        {.kind = AGENT_RECORD_STOP, .job = 3, .attempt = 1, .number = 500, .name = "a"},
        {.kind = AGENT_RECORD_EMPTY, .job = 3, .attempt = 1},
        {.kind = AGENT_RECORD_FORGET, .job = 3, .attempt = 1},
    };
    const struct agent_record left = {.kind = AGENT_RECORD_JOB,
                                      .job = 3,
                                      .attempt = 2, /* the floors: 2 is the next */
                                      .number = 2,
                                      .first_rank = 500,
                                      .rank_count = 2,
                                      .name = "a"};
    (void)state;
    agent_limits_default(&limits);
    assert_int_equal(agent_core_create(&limits, 1, &identity, &core), 0);
    assert_int_equal(agent_core_create(&limits, 1, &identity, &job), 0);
    for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
        assert_int_equal(agent_core_replay(core, &records[i]), 0);
    }
    assert_int_equal(agent_core_replay(job, &left), 0);
    assert_true(agent_core_digest(core) == agent_core_digest(job));
    (void)agent_core_free(core);
    (void)agent_core_free(job);
}

/* A list of peers is written from its beginning, and each has a port. */
static void test_peers_that_cannot_be(void **state)
{
    struct agent_limits limits;
    struct agent_identity identity = {.node = "n", .boot_id = "boot"};
    struct agent_core *core = NULL;
    (void)state;
    agent_limits_default(&limits);
    assert_int_equal(agent_core_create(&limits, 1, &identity, &core), 0);
    struct agent_record peer = {.kind = AGENT_RECORD_PEER, .number = 7445, .name = "n-1"};
    for (uint32_t i = 0; i < PEERS_KNOWN_MAX; i++) {
        peer.rank_count = i + 1;
        assert_true(agent_core_replay(core, &peer) < 0); /* one is left out */
        peer.rank_count = i;
        peer.number = 0;
        assert_true(agent_core_replay(core, &peer) < 0);
        peer.number = UINT16_MAX + 1;
        assert_true(agent_core_replay(core, &peer) < 0);
        peer.number = 7445;
        assert_int_equal(agent_core_replay(core, &peer), 0);
    }
    peer.rank_count = PEERS_KNOWN_MAX;
    assert_true(agent_core_replay(core, &peer) < 0);
    (void)agent_core_free(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_what_a_forgotten_attempt_leaves),
        cmocka_unit_test(test_peers_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
