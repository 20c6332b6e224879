/* exchange_test: bytes of a group's first member reach the others, by an agent's keys and without
 * one; and how waiting for them ends when they never come. */
#include "agent/trainer/exchange.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "agent/trainer/pace.h"
#include "tests/unit/trainer/agent_rig.h"
#include "tests/unit/trainer/trainer_rig.h"

#include "tests/lib/test.h"

enum { ID_SIZE = 128, WAIT_MS = 20000 };

static const struct comm_layout square = {2, 1, 1, 2}; /* tensor 0 1, 2 3; data 0 2, 1 3 */
static const struct comm_layout pair = {1, 1, 1, 2};

/* Rank r of the world starts with mailboxes[r]; UINT32_MAX: none. */
static void run(struct agent_rig *rig, const struct comm_layout *layout, rank_body body,
                const uint32_t *mailboxes, int *ret_results)
{
    const uint32_t world = comm_layout_world(layout);
    const uint16_t port = rig_free_port();
    pid_t children[AGENT_RIG_RANKS];
    for (uint32_t rank = 0; rank < world; rank++) {
        const struct rendezvous who = rig_visitor(rank, world, port);
        agent_rig_show(rig, mailboxes[rank]);
        children[rank] = rig_start_rank(&who, layout, body);
    }
    agent_rig_serve(rig, children, world, ret_results);
}

/* Each group's first member makes an id of its own; everybody must have that of its own group. */
static int share_all(struct comm *comm, bool by_agent)
{
    for (int axis = COMM_TENSOR; axis < COMM_AXES; axis++) {
        struct comm_group *group = comm_group(comm, (enum comm_axis)axis);
        uint8_t id[ID_SIZE] = {0};
        uint8_t expected[ID_SIZE];
        memset(expected, 16 * axis + (int)group->members[0] + 1, sizeof(expected));
        if (group->index == 0) {
            memcpy(id, expected, sizeof(id));
        }
        EXPECT(exchange_bytes(group, "id", by_agent, id, sizeof(id), WAIT_MS) == 0);
        EXPECT(memcmp(id, expected, sizeof(id)) == 0);
    }
    return 0;
}

static int share_with_agents(struct comm *comm)
{
    bool by_agent = false;
    EXPECT(keepstep_init() == 0 && keepstep_attached() == 1);
    EXPECT(exchange_by_agent(comm, &by_agent) == 0 && by_agent);
    return share_all(comm, by_agent);
}

static int share_without(struct comm *comm)
{
    bool by_agent = true;
    EXPECT(keepstep_init() == 0);
    EXPECT(exchange_by_agent(comm, &by_agent) == 0 && !by_agent);
    return share_all(comm, by_agent);
}

static void keys_carry_it(void **state)
{
    (void)state;
    static struct agent_rig rig;
    static const uint32_t mailboxes[] = {0, 1, 2, 3};
    int results[4];
    agent_rig_begin(&rig, 4);
    run(&rig, &square, share_with_agents, mailboxes, results);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(results[i], 0);
    }
    assert_true(agent_rig_has(&rig, "id.tensor.0") && agent_rig_has(&rig, "id.tensor.2"));
    assert_true(agent_rig_has(&rig, "id.data.0") && agent_rig_has(&rig, "id.data.1"));
    agent_rig_end(&rig);
}

/* One rank without an agent is enough: no rank may wait for keys that another sends elsewhere. */
static void connections_carry_it_where_an_agent_is_missing(void **state)
{
    (void)state;
    static struct agent_rig rig;
    static const uint32_t mailboxes[2][4] = {{0, 1, 2, UINT32_MAX},
                                             {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}};
    for (size_t kind = 0; kind < 2; kind++) {
        int results[4];
        agent_rig_begin(&rig, 4);
        run(&rig, &square, share_without, mailboxes[kind], results);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(results[i], 0);
        }
        assert_int_equal(rig.put_count, 0);
        agent_rig_end(&rig);
    }
}

/* ---- what never comes ----------------------------------------------------------------------- */

static int leader_dies(struct comm *comm)
{
    uint8_t id[ID_SIZE];
    EXPECT(keepstep_init() == 0);
    if (comm->rank == 0) {
        return 0; /* leaves without a word */
    }
    const uint64_t begun_us = pace_now_us();
    EXPECT(exchange_bytes(comm_group(comm, COMM_DATA), "id", true, id, sizeof(id), WAIT_MS) ==
           -ECONNRESET);
    EXPECT(pace_now_us() - begun_us < (uint64_t)WAIT_MS * 500);
    return 0;
}

static int leader_forgets(struct comm *comm)
{
    uint8_t id[ID_SIZE];
    EXPECT(keepstep_init() == 0);
    if (comm->rank == 1) {
        EXPECT(exchange_bytes(comm_group(comm, COMM_DATA), "id", true, id, sizeof(id), 250) ==
               -ETIMEDOUT);
    }
    return comm_barrier(comm_group(comm, COMM_WORLD)) == 0 ? 0 : 1;
}

static void *abort_it(void *comm)
{
    comm_abort(comm);
    return NULL;
}

static int is_aborted(struct comm *comm)
{
    uint8_t id[ID_SIZE];
    pthread_t thread;
    EXPECT(keepstep_init() == 0);
    EXPECT(pthread_create(&thread, NULL, abort_it, comm) == 0);
    if (comm->rank == 1) {
        EXPECT(exchange_bytes(comm_group(comm, COMM_DATA), "id", true, id, sizeof(id), WAIT_MS) <
               0);
    }
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(comm_async_error(comm) < 0); /* -ECANCELED, or the other one was faster */
    return 0;
}

/* A value of another size is another program's. */
static int sizes_differ(struct comm *comm)
{
    uint8_t id[ID_SIZE] = {0};
    struct comm_group *group = comm_group(comm, COMM_DATA);
    EXPECT(keepstep_init() == 0);
    EXPECT(exchange_bytes(group, "id", true, id, comm->rank == 0 ? 64 : 128, WAIT_MS) ==
           (comm->rank == 0 ? 0 : -EPROTO));
    return comm_barrier(comm_group(comm, COMM_WORLD)) == 0 ? 0 : 1;
}

static void run_pair(rank_body body)
{
    static struct agent_rig rig;
    static const uint32_t mailboxes[] = {0, 1};
    int results[2];
    agent_rig_begin(&rig, 2);
    run(&rig, &pair, body, mailboxes, results);
    assert_int_equal(results[0], 0);
    assert_int_equal(results[1], 0);
    agent_rig_end(&rig);
}

static void waiting_ends(void **state)
{
    (void)state;
    run_pair(leader_dies);
    run_pair(leader_forgets);
    run_pair(is_aborted);
    run_pair(sizes_differ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_carry_it),
        cmocka_unit_test(connections_carry_it_where_an_agent_is_missing),
        cmocka_unit_test(waiting_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
