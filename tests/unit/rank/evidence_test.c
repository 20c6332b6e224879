/* evidence_test.c: numbers of steps, parameter hashes and communicators, from the program's call to
 * what the agent reads. */
#include "tests/lib/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "tests/unit/rank/rank_rig.h"

static void view_read(const struct rank_rig *rig, struct mailbox_view *ret_view)
{
    assert_int_equal(mailbox_read(rig->fd, rank_rig_now_ms(), ret_view), 0);
    assert_true(ret_view->valid);
    assert_false(ret_view->torn);
}

static void begin(struct rank_rig *rig)
{
    rank_rig_begin(rig, 0, 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_attached(), 1);
}

static float real(mailbox_real_bits bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void test_no_agent(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("KEEPSTEP_MAILBOX"), 0);
    assert_int_equal(keepstep_init(), 0);
    assert_int_equal(keepstep_loss(1, 2.5), 0);
    assert_int_equal(keepstep_gradient_norm(1, 2.5), 0);
    assert_int_equal(keepstep_parameter_hash(1, 7), 0);
    assert_int_equal(keepstep_communicator("tp", KEEPSTEP_AXIS_TENSOR), 0);
    assert_int_equal(keepstep_collective(0, 1, 0, KEEPSTEP_ALL_REDUCE, -1), 0);
}

/* A reader that looks once in 32 steps has seen every step, with its numbers. */
static void test_ring_loses_no_step(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    uint64_t seen = 0;
    (void)state;
    begin(&rig);
    for (uint64_t step = 1; step <= 4 * MAILBOX_STEPS; step++) {
        assert_int_equal(keepstep_step_begin(step), 0);
        assert_int_equal(keepstep_step_compute(1000 + step), 0);
        assert_int_equal(keepstep_loss(step, (double)step / 2), 0);
        assert_int_equal(keepstep_step_end(step), 0);
        if (step % MAILBOX_STEPS != 0) {
            continue;
        }
        view_read(&rig, &view);
        for (uint32_t i = 0; i < view.steps_held; i++) {
            const struct mailbox_step *entry = &view.steps[i];
            if (entry->step > seen) {
                assert_int_equal(entry->step, seen + 1);
                assert_int_equal(entry->compute_us, 1000 + entry->step);
                assert_true(real(entry->loss) == (float)entry->step / 2);
                seen = entry->step;
            }
        }
        assert_int_equal(seen, step);
    }
    rank_rig_end(&rig);
}

/* Values come before the end of their step or after it, and never on another step. */
static void test_values(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    (void)state;
    begin(&rig);
    assert_int_equal(keepstep_loss(0, 1), -EINVAL);
    assert_int_equal(keepstep_gradient_norm(UINT64_MAX, 1), -EINVAL);
    assert_int_equal(keepstep_loss(2, 5.5), 0); /* ahead of step 1's end */
    assert_int_equal(keepstep_step(1), 0);
    assert_int_equal(keepstep_step(2), 0);
    assert_int_equal(keepstep_step(3), 0);
    assert_int_equal(keepstep_gradient_norm(2, 0), 0); /* once the device has it */
    assert_int_equal(keepstep_loss(3, NAN), 0);
    assert_int_equal(keepstep_gradient_norm(3, 1e300), 0);
    view_read(&rig, &view);
    assert_int_equal(view.steps_held, 3);
    assert_int_equal(view.steps[0].loss, 0);
    assert_int_equal(view.steps[0].gradient_norm, 0);
    assert_true(real(view.steps[1].loss) == 5.5F);
    assert_int_not_equal(view.steps[1].gradient_norm, 0); /* a zero that was told */
    assert_true(real(view.steps[1].gradient_norm) == 0.0F);
    assert_true(isnan(real(view.steps[2].loss)));
    assert_true(isinf(real(view.steps[2].gradient_norm)));
    rank_rig_end(&rig);
}

static void test_hashes(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    (void)state;
    begin(&rig);
    assert_int_equal(keepstep_parameter_hash(0, 1), -EINVAL);
    for (uint64_t step = 10; step <= 110; step += 10) {
        assert_int_equal(keepstep_parameter_hash(step, UINT64_MAX - step), 0);
    }
    view_read(&rig, &view);
    assert_int_equal(view.hashes_held, MAILBOX_HASHES);
    for (uint32_t i = 0; i < MAILBOX_HASHES; i++) {
        assert_int_equal(view.hashes[i].step, 40 + 10 * i);
        assert_int_equal(view.hashes[i].hash, UINT64_MAX - view.hashes[i].step);
    }
    rank_rig_end(&rig);
}

static void test_communicators(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    char name[KEEPSTEP_COMMUNICATOR_NAME_SIZE];
    (void)state;
    begin(&rig);
    assert_int_equal(keepstep_communicator("", KEEPSTEP_AXIS_DATA), -EINVAL);
    assert_int_equal(keepstep_communicator("sixteen letters!", KEEPSTEP_AXIS_DATA), -EINVAL);
    assert_int_equal(keepstep_communicator("a\n", KEEPSTEP_AXIS_DATA), -EINVAL);
    assert_int_equal(keepstep_communicator("a\"b", KEEPSTEP_AXIS_DATA), -EINVAL);
    assert_int_equal(keepstep_communicator(NULL, KEEPSTEP_AXIS_DATA), -EINVAL);
    assert_int_equal(keepstep_communicator("dp", KEEPSTEP_AXIS_DATA + 1), -EINVAL);
    assert_int_equal(keepstep_collective(0, 0, 0, KEEPSTEP_OPERATION_NONE, -1), -EINVAL);

    assert_int_equal(keepstep_communicator("tp", KEEPSTEP_AXIS_TENSOR), 0);
    assert_int_equal(keepstep_communicator("pp-forward", KEEPSTEP_AXIS_PIPELINE), 1);
    assert_int_equal(keepstep_collective(1, 9, 7, KEEPSTEP_RECEIVE, 3), 0);
    assert_int_equal(keepstep_collective(0, 40, 40, KEEPSTEP_OPERATION_NONE, -1), 0);
    assert_int_equal(keepstep_collective(1, 7, 9, KEEPSTEP_RECEIVE, 3), -EINVAL);
    assert_int_equal(keepstep_collective(1, 9, 7, KEEPSTEP_BARRIER + 1, 3), -EINVAL);
    assert_int_equal(keepstep_collective(1, 9, 7, KEEPSTEP_RECEIVE, -2), -EINVAL);
    assert_int_equal(keepstep_collective(2, 9, 7, KEEPSTEP_RECEIVE, 3), -EINVAL);
    assert_int_equal(keepstep_collective(-1, 9, 7, KEEPSTEP_RECEIVE, 3), -EINVAL);
    view_read(&rig, &view);
    assert_int_equal(view.communicator_count, 2);
    assert_string_equal(view.communicators[0].name, "tp");
    assert_int_equal(view.communicators[0].axis, MAILBOX_AXIS_TENSOR);
    assert_int_equal(view.communicators[0].completed, 40);
    assert_string_equal(view.communicators[1].name, "pp-forward");
    assert_int_equal(view.communicators[1].enqueued, 9);
    assert_int_equal(view.communicators[1].completed, 7);
    assert_int_equal(view.communicators[1].operation, MAILBOX_OPERATION_RECEIVE);
    assert_int_equal(view.communicators[1].peer, 3);

    /* Made again, it begins again; there is a last one. */
    assert_int_equal(keepstep_communicator("tp", KEEPSTEP_AXIS_TENSOR), 0);
    view_read(&rig, &view);
    assert_int_equal(view.communicators[0].enqueued, 0);
    for (int i = 2; i < KEEPSTEP_COMMUNICATORS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "c%d", i);
        assert_int_equal(keepstep_communicator(name, KEEPSTEP_AXIS_OTHER), i);
    }
    assert_int_equal(keepstep_communicator("more", KEEPSTEP_AXIS_OTHER), -ENOSPC);
    rank_rig_end(&rig);
}

/* A new attempt has made no communicator yet, has come to no step and knows no coordinates. */
static void test_new_attempt(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    struct mailbox_order order;
    struct keepstep_restore restore;
    (void)state;
    begin(&rig);
    assert_int_equal(keepstep_communicator("dp", KEEPSTEP_AXIS_DATA), 0);
    assert_int_equal(keepstep_parameter_hash(5, 5), 0);
    assert_int_equal(keepstep_loss(6, 1), 0);
    assert_int_equal(keepstep_step_compute(1000), 0); /* of a step that never ends */
    assert_int_equal(keepstep_coordinates(1, 0, 1, 3), 0);
    rank_rig_order(&order, 0, 4);
    assert_int_equal(mailbox_order_write(rig.fd, &order), 0);
    assert_int_equal(keepstep_next_attempt(1000, &restore), 1);
    assert_int_equal(keepstep_collective(0, 1, 0, KEEPSTEP_ALL_REDUCE, -1), -EINVAL);
    assert_int_equal(keepstep_step(6), 0);
    view_read(&rig, &view);
    assert_int_equal(view.communicator_count, 0);
    assert_int_equal(view.hashes_held, 0);
    assert_int_equal(view.steps[0].loss, 0);
    assert_int_equal(view.steps[0].compute_us, 0);
    assert_false(view.has_coordinates); /* they may be others in this attempt */
    rank_rig_end(&rig);
}

/* What makes no sense is left out; the rest of what the rank says still counts. */
static void test_hostile(void **state)
{
    struct rank_rig rig;
    struct mailbox_view view = {0};
    struct mailbox_status status = {.communicator_count = UINT32_MAX, .hash_count = 3};
    const struct mailbox_communicator good = {.name = "dp", .peer = -1, .enqueued = 2};
    const size_t offset = offsetof(struct mailbox_file, status);
    (void)state;
    rank_rig_begin(&rig, 0, 0);
    for (uint32_t i = 0; i < MAILBOX_COMMUNICATORS; i++) {
        status.communicators[i] = good;
    }
    status.communicators[0].name[0] = '\0';
    memset(status.communicators[1].name, 'x', sizeof(good.name));
    status.communicators[2].name[1] = '\xff';
    status.communicators[3].axis = MAILBOX_AXIS_COUNT;
    status.communicators[4].operation = UINT32_MAX;
    status.communicators[5].peer = INT32_MIN;
    status.communicators[6].completed = 3;
    status.communicators[7].enqueued = UINT64_MAX;
    status.hashes[0] = (struct mailbox_hash){0, 1};
    status.hashes[1] = (struct mailbox_hash){UINT64_MAX, 1};
    status.hashes[2] = (struct mailbox_hash){8, 1};
    assert_int_equal(pwrite(rig.fd, &status, sizeof(status), (off_t)offset),
                     (ssize_t)sizeof(status));
    view_read(&rig, &view);
    assert_int_equal(view.communicator_count, MAILBOX_COMMUNICATORS - 8);
    for (uint32_t i = 0; i < view.communicator_count; i++) {
        assert_string_equal(view.communicators[i].name, "dp");
    }
    assert_int_equal(view.hashes_held, 1);
    assert_int_equal(view.hashes[0].step, 8);
    status.hash_count = UINT64_MAX;
    assert_int_equal(pwrite(rig.fd, &status, sizeof(status), (off_t)offset),
                     (ssize_t)sizeof(status));
    assert_int_equal(mailbox_read(rig.fd, 1, &view), -EBADMSG);
    rank_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_agent),      cmocka_unit_test(test_ring_loses_no_step),
        cmocka_unit_test(test_values),        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_communicators), cmocka_unit_test(test_new_attempt),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
