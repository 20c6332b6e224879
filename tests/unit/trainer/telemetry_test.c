/* telemetry_test: what the agent reads of a world of ranks: who waits for whom, whose work is slow,
 * which hash is whose. */
#include "agent/trainer/telemetry.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/rank/mailbox.h"
#include "agent/trainer/pace.h"
#include "tests/lib/test.h"
#include "tests/unit/trainer/agent_rig.h"
#include "tests/unit/trainer/trainer_rig.h"

enum { SLOW_MS = 150 };
static const struct comm_layout square = {.tensor = 2, .context = 1, .pipeline = 1, .data = 2};

static struct agent_rig agent; /* of the ranks: each reads its own mailbox, too */

static int attach(const struct comm *comm)
{
    agent_rig_show(&agent, comm->rank);
    EXPECT(keepstep_init() == 0 && keepstep_attached() == 1);
    return 0;
}

static int box_read(const struct comm *comm, struct mailbox_view *view)
{
    *view = (struct mailbox_view){0};
    EXPECT(mailbox_read(agent.fds[comm->rank], pace_now_us() / 1000 + 1, view) == 0);
    EXPECT(view->valid);
    return 0;
}

static const struct mailbox_communicator *named(const struct mailbox_view *view, const char *name)
{
    for (uint32_t i = 0; i < view->communicator_count; i++) {
        if (strcmp(view->communicators[i].name, name) == 0) {
            return &view->communicators[i];
        }
    }
    return NULL;
}

static float real_of(mailbox_real_bits bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void work(uint32_t ms)
{
    const uint64_t until_us = pace_now_us() + ms * 1000u;
    while (pace_now_us() < until_us) {
    }
}

/* ---- a step --------------------------------------------------------------------------------- */

/* Rank 1 works longer; its tensor peer waits for it, and that is no work of the peer's. */
static int step_body(struct comm *comm)
{
    struct telemetry telemetry;
    struct mailbox_view view;
    EXPECT(attach(comm) == 0);
    telemetry_start(&telemetry, comm);
    EXPECT(comm_barrier(comm_group(comm, COMM_WORLD)) == 0);
    const uint64_t begun_us = pace_now_us();
    telemetry_step_begin(&telemetry, comm, 1);
    work(comm->rank == 1 ? SLOW_MS : 1);
    EXPECT(comm_barrier(comm_group(comm, COMM_TENSOR)) == 0);
    telemetry_compute(&telemetry, comm, pace_now_us() - begun_us);
    telemetry_step_end(&telemetry, comm, 2.5, 0.75, 1000 + comm->rank);
    EXPECT(box_read(comm, &view) == 0);
    EXPECT(view.step == 1 && view.steps_held == 1);
    EXPECT(view.steps[0].compute_us == telemetry.compute_us);
    EXPECT(real_of(view.steps[0].loss) == 2.5f && real_of(view.steps[0].gradient_norm) == 0.75f);
    EXPECT(view.hashes_held == 1 && view.hashes[0].hash == 1000 + comm->rank);
    EXPECT(view.coordinates.tensor == comm->place.tensor);
    EXPECT(view.coordinates.data == comm->place.data);
    if (comm->rank == 1) {
        EXPECT(telemetry.compute_us >= SLOW_MS * 1000u);
    } else if (comm->rank == 0) {
        EXPECT(telemetry.wait_us > telemetry.compute_us);
    }
    /* A pipeline of one has no communicator; the others count on their own. */
    EXPECT(view.communicator_count == 3 && named(&view, "pipeline") == NULL);
    const struct mailbox_communicator *tensor = named(&view, "tensor");
    EXPECT(tensor != NULL && tensor->axis == MAILBOX_AXIS_TENSOR);
    EXPECT(tensor->enqueued == 1 && tensor->completed == 1);
    EXPECT(tensor->operation == MAILBOX_OPERATION_NONE && tensor->peer == -1);
    EXPECT(named(&view, "data")->enqueued == 0 && named(&view, "world")->completed == 1);
    telemetry_stop(comm);
    keepstep_finish();
    return comm_barrier(comm_group(comm, COMM_WORLD)) == 0 ? 0 : 2;
}

static void run_with_agent(rank_body body)
{
    agent_rig_begin(&agent, comm_layout_world(&square));
    rig_run_world(&square, body, NULL);
    agent_rig_end(&agent);
}

static void a_step_is_told(void **state)
{
    (void)state;
    run_with_agent(step_body);
}

/* ---- a hang --------------------------------------------------------------------------------- */

/* What the agent would see of the operation under way, noted when it begins. */
struct glimpse {
    comm_watch *watch;
    void *context;
    struct mailbox_view view;
    bool seen;
};

static void glimpse(const struct comm_group *group, void *context)
{
    struct glimpse *now = context;
    now->watch(group, now->context);
    if (group->head == COMM_REDUCE_SCATTER && !now->seen) {
        now->seen = box_read(group->comm, &now->view) == 0;
        comm_abort(group->comm); /* nobody else would end it */
    }
}

/* Rank 2 never comes to the exchange of gradients with rank 0, which has told where it waits before
 * it hangs. */
static int hang_body(struct comm *comm)
{
    static float input[20000];
    static float output[10000];
    struct telemetry telemetry;
    EXPECT(attach(comm) == 0);
    telemetry_start(&telemetry, comm);
    struct glimpse now = {.watch = comm->watch, .context = comm->watch_context};
    EXPECT(comm_barrier(comm_group(comm, COMM_WORLD)) == 0);
    if (comm->rank != 0) {
        int code = 0; /* until rank 0 is gone */
        while (code == 0) {
            const struct timespec wait = {.tv_nsec = 1000000};
            (void)nanosleep(&wait, NULL);
            code = comm_async_error(comm);
        }
        telemetry_stop(comm);
        keepstep_finish();
        return 0;
    }
    comm->watch = glimpse;
    comm->watch_context = &now;
    const int code =
        comm_reduce_scatter(comm_group(comm, COMM_DATA), input, output, 10000, COMM_F32, COMM_SUM);
    EXPECT(code == -ECANCELED);
    EXPECT(now.seen);
    const struct mailbox_communicator *data = named(&now.view, "data");
    EXPECT(data->enqueued == 1 && data->completed == 0);
    EXPECT(data->operation == MAILBOX_OPERATION_REDUCE_SCATTER);
    telemetry_stop(comm);
    keepstep_finish();
    return 0;
}

static void a_hang_is_told(void **state)
{
    (void)state;
    run_with_agent(hang_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_told),
        cmocka_unit_test(a_hang_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
