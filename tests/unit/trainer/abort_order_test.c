/* abort_order_test: a rank that waits for another in an operation stops when the agent says that its
 * attempt is over, and a comm that has ended is not touched any more. */
#include "agent/trainer/abort_order.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "tests/unit/trainer/agent_rig.h"
#include "tests/unit/trainer/trainer_rig.h"

#include "tests/lib/test.h"

static const struct comm_layout two = {1, 1, 1, 2};

/* Shared with the ranks: rank 0 is about to wait. */
static atomic_int *waiting;

/* Rank 1 hangs, alive, and rank 0 waits for it. */
static int waits_for_ever(struct comm *comm)
{
    if (comm->rank == 1) {
        for (;;) {
            (void)pause();
        }
    }
    EXPECT(keepstep_init() == 0 && keepstep_attached() == 1);
    EXPECT(abort_order_begin(comm) == 0);
    atomic_store(waiting, 1);
    EXPECT(comm_barrier(comm_group(comm, COMM_WORLD)) == -ECANCELED);
    EXPECT(comm_async_error(comm) == -ECANCELED);
    abort_order_end();
    return 0;
}

static void an_order_ends_an_operation(void **state)
{
    (void)state;
    static struct agent_rig rig;
    const uint16_t port = rig_free_port();
    pid_t children[2];
    agent_rig_begin(&rig, 1);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct rendezvous who = rig_visitor(rank, 2, port);
        agent_rig_show(&rig, rank == 0 ? 0 : UINT32_MAX);
        children[rank] = rig_start_rank(&who, &two, waits_for_ever);
    }
    while (atomic_load(waiting) == 0) {
        (void)poll(NULL, 0, 1);
    }
    agent_rig_abort(&rig, 0);
    assert_int_equal(rig_wait(children[0]), 0);
    assert_int_equal(kill(children[1], SIGKILL), 0);
    assert_int_equal(rig_wait(children[1]), 128 + SIGKILL);
    agent_rig_end(&rig);
}

/* The order comes after the comm ended: nothing may happen, also not to the next one. */
static int ends_first(struct comm *comm)
{
    EXPECT(keepstep_init() == 0);
    EXPECT(abort_order_begin(comm) == 0);
    abort_order_end();
    atomic_fetch_add(waiting, 1);
    while (atomic_load(waiting) < 3) { /* the third is the test's: the order was given */
        (void)poll(NULL, 0, 1);
    }
    keepstep_finish(); /* waits for a callback under way */
    EXPECT(comm_barrier(comm_group(comm, COMM_WORLD)) == 0);
    return 0;
}

static void a_comm_that_ended_is_left_alone(void **state)
{
    (void)state;
    static struct agent_rig rig;
    const uint16_t port = rig_free_port();
    pid_t children[2];
    atomic_store(waiting, 0);
    agent_rig_begin(&rig, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct rendezvous who = rig_visitor(rank, 2, port);
        agent_rig_show(&rig, rank);
        children[rank] = rig_start_rank(&who, &two, ends_first);
    }
    while (atomic_load(waiting) < 2) {
        (void)poll(NULL, 0, 1);
    }
    agent_rig_abort(&rig, 0);
    agent_rig_abort(&rig, 1);
    atomic_fetch_add(waiting, 1);
    assert_int_equal(rig_wait(children[0]), 0);
    assert_int_equal(rig_wait(children[1]), 0);
    agent_rig_end(&rig);
}

/* Without an agent there is nobody who orders. */
static void without_an_agent_nothing_happens(void **state)
{
    (void)state;
    struct comm comm;
    assert_int_equal(rig_solo(&comm), 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(abort_order_begin(&comm), 0);
    abort_order_end();
    abort_order_end();
    comm_done(&comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_ends_an_operation),
        cmocka_unit_test(a_comm_that_ended_is_left_alone),
        cmocka_unit_test(without_an_agent_nothing_happens),
    };
    waiting =
        mmap(NULL, sizeof(*waiting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (waiting == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
