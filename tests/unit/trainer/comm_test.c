/* comm_test: coordinates and groups, the operations over real connections, and how it ends when a
 * rank dies, disagrees, is of another attempt or never comes. Each rank is a process of its own. */
#include "agent/trainer/comm_tcp.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/trainer/pace.h"
#include "agent/trainer/socket.h"
#include "tests/lib/test.h"
#include "tests/unit/trainer/trainer_rig.h"

static const struct comm_layout line_of_four = {1, 1, 1, 4};

/* ---- layout --------------------------------------------------------------------------------- */

static void coordinates_are_innermost_first(void **state)
{
    (void)state;
    const struct comm_layout layout = {.tensor = 2, .context = 1, .pipeline = 3, .data = 2};
    assert_int_equal(comm_layout_world(&layout), 12);
    const struct comm_layout place = comm_layout_place(&layout, 9); /* 9 = 1 + 2 * (1 + 3 * 1) */
    assert_int_equal(place.tensor, 1);
    assert_int_equal(place.context, 0);
    assert_int_equal(place.pipeline, 1);
    assert_int_equal(place.data, 1);
}

static void groups_differ_in_one_coordinate(void **state)
{
    (void)state;
    const struct comm_layout layout = {.tensor = 2, .context = 1, .pipeline = 3, .data = 2};
    struct comm comm;
    assert_int_equal(comm_init(&comm, &layout, 9), 0);
    const struct {
        enum comm_axis axis;
        uint32_t size, index;
        uint32_t members[3];
    } expected[] = {
        {COMM_TENSOR, 2, 1, {8, 9, 0}},
        {COMM_CONTEXT, 1, 0, {9, 0, 0}},
        {COMM_PIPELINE, 3, 1, {7, 9, 11}},
        {COMM_DATA, 2, 1, {3, 9, 0}},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const struct comm_group *group = comm_group(&comm, expected[i].axis);
        assert_int_equal(group->size, expected[i].size);
        assert_int_equal(group->index, expected[i].index);
        assert_memory_equal(group->members, expected[i].members,
                            group->size * sizeof(group->members[0]));
    }
    assert_int_equal(comm_group(&comm, COMM_WORLD)->size, 12);
    assert_int_equal(comm_group(&comm, COMM_WORLD)->index, 9);
    comm_done(&comm);
}

/* ---- operations ----------------------------------------------------------------------------- */

/* Numbers whose sum depends on the order of the additions. */
static float awkward(uint32_t rank, size_t i)
{
    static const float scales[] = {1e8f, -1e8f, 1.0f, 3.1415927f};
    return scales[(rank + i) % 4] * (1.0f + (float)i / 977.0f);
}

static float sum_in_rank_order(uint32_t world, size_t i)
{
    float sum = awkward(0, i);
    for (uint32_t rank = 1; rank < world; rank++) {
        sum += awkward(rank, i);
    }
    return sum;
}

/* One size below the border between the two ways to reduce, one above, one that does not divide. */
static int all_reduce_body(struct comm *comm)
{
    static const size_t counts[] = {1, 3, 1000, 1024, 1025, 50001};
    static float buffer[50001];
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (size_t i = 0; i < counts[c]; i++) {
            buffer[i] = awkward(comm->rank, i);
        }
        EXPECT(comm_all_reduce(comm_group(comm, COMM_WORLD), buffer, counts[c], COMM_F32,
                               COMM_SUM) == 0);
        for (size_t i = 0; i < counts[c]; i++) {
            EXPECT(buffer[i] == sum_in_rank_order(comm->world, i));
        }
    }
    int64_t largest[2] = {comm->rank, -(int64_t)comm->rank};
    EXPECT(comm_all_reduce(comm_group(comm, COMM_WORLD), largest, 2, COMM_I64, COMM_MAX) == 0);
    EXPECT(largest[0] == (int64_t)comm->world - 1 && largest[1] == 0);
    return 0;
}

static void all_reduce_sums_in_rank_order(void **state)
{
    (void)state;
    rig_run_world(&line_of_four, all_reduce_body, NULL);
}

static int scatter_and_gather_body(struct comm *comm)
{
    enum { COUNT = 3001, RANKS = 4 };
    static float input[COUNT * RANKS];
    static float output[COUNT * RANKS];
    struct comm_group *group = comm_group(comm, COMM_WORLD);
    for (size_t i = 0; i < COUNT * RANKS; i++) {
        input[i] = awkward(comm->rank, i);
    }
    EXPECT(comm_reduce_scatter(group, input, output + comm->rank * COUNT, COUNT, COMM_F32,
                               COMM_SUM) == 0);
    EXPECT(comm_all_gather(group, output + comm->rank * COUNT, output, COUNT, COMM_F32) == 0);
    for (size_t i = 0; i < COUNT * RANKS; i++) {
        EXPECT(output[i] == sum_in_rank_order(RANKS, i));
    }
    uint8_t own = (uint8_t)(comm->rank + 7);
    uint8_t all[RANKS] = {0};
    EXPECT(comm_all_gather(group, &own, all, 1, COMM_U8) == 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        EXPECT(all[rank] == rank + 7);
    }
    EXPECT(group->enqueued == 3 && group->completed == 3 && group->head == COMM_NONE);
    return 0;
}

static void scatter_then_gather_is_all_reduce(void **state)
{
    (void)state;
    rig_run_world(&line_of_four, scatter_and_gather_body, NULL);
}

/* A broadcast from every root, and a ring of sends that is larger than socket buffers. */
static int broadcast_and_pairs_body(struct comm *comm)
{
    enum { COUNT = 400000 };
    static double buffer[COUNT];
    struct comm_group *group = comm_group(comm, COMM_WORLD);
    for (uint32_t root = 0; root < comm->world; root++) {
        buffer[0] = comm->rank + 0.5;
        EXPECT(comm_broadcast(group, buffer, COUNT, COMM_F64, root) == 0);
        EXPECT(buffer[0] == root + 0.5);
    }
    const uint32_t next = (group->index + 1) % group->size;
    const uint32_t before = (group->index + group->size - 1) % group->size;
    buffer[COUNT - 1] = group->index;
    if (group->index == 0) { /* one must receive later, or a full ring waits for itself */
        EXPECT(comm_send(group, buffer, COUNT, COMM_F64, next) == 0);
        EXPECT(comm_receive(group, buffer, COUNT, COMM_F64, before) == 0);
    } else {
        static double other[COUNT];
        EXPECT(comm_receive(group, other, COUNT, COMM_F64, before) == 0);
        EXPECT(comm_send(group, buffer, COUNT, COMM_F64, next) == 0);
        EXPECT(other[COUNT - 1] == before);
        return comm_barrier(group) == 0 ? 0 : 2;
    }
    EXPECT(buffer[COUNT - 1] == before);
    return comm_barrier(group) == 0 ? 0 : 2;
}

static void broadcast_and_pairs_carry_the_bytes(void **state)
{
    (void)state;
    rig_run_world(&line_of_four, broadcast_and_pairs_body, NULL);
}

/* Every group of a 2 x 1 x 2 x 2 layout sums the ranks of its members. */
static int groups_body(struct comm *comm)
{
    for (int axis = 0; axis < COMM_AXES; axis++) {
        struct comm_group *group = comm_group(comm, (enum comm_axis)axis);
        double expected = 0.0;
        double sum = comm->rank;
        for (uint32_t member = 0; member < group->size; member++) {
            expected += group->members[member];
        }
        EXPECT(comm_all_reduce(group, &sum, 1, COMM_F64, COMM_SUM) == 0);
        EXPECT(sum == expected);
    }
    return comm_barrier(comm_group(comm, COMM_WORLD)) == 0 ? 0 : 2;
}

static void groups_do_not_mix(void **state)
{
    (void)state;
    const struct comm_layout cube = {.tensor = 2, .context = 1, .pipeline = 2, .data = 2};
    rig_run_world(&cube, groups_body, NULL);
}

/* Two neighbours send each other more than sockets hold, at once; and a send meets the receiving
 * half of both at once. */
static int both_ways_body(struct comm *comm)
{
    enum { COUNT = 400000 };
    static float output[COUNT];
    static float input[COUNT];
    struct comm_group *group = comm_group(comm, COMM_WORLD);
    const uint32_t pair = group->index ^ 1;
    output[COUNT - 1] = (float)group->index;
    const struct comm_transfer transfer = {output, COUNT, pair, input, COUNT, pair};
    EXPECT(comm_send_receive(group, &transfer, COMM_F32) == 0);
    EXPECT(input[COUNT - 1] == (float)pair);
    EXPECT(group->enqueued == 1 && group->completed == 1 && group->collectives == 0);
    const uint32_t next = (group->index + 1) % group->size;
    const uint32_t before = (group->index + group->size - 1) % group->size;
    if (group->index == 0) {
        EXPECT(comm_send(group, output, COUNT, COMM_F32, next) == 0);
        EXPECT(comm_receive(group, input, COUNT, COMM_F32, before) == 0);
    } else {
        const struct comm_transfer ring = {output, COUNT, next, input, COUNT, before};
        EXPECT(comm_send_receive(group, &ring, COMM_F32) == 0);
    }
    EXPECT(input[COUNT - 1] == (float)before);
    return comm_barrier(group) == 0 ? 0 : 2;
}

static void both_ways_at_once_never_wait_for_each_other(void **state)
{
    (void)state;
    rig_run_world(&line_of_four, both_ways_body, NULL);
}

/* A cut axis: every rank takes its own part for the whole; the other axes go on. */
static int cut_body(struct comm *comm)
{
    struct comm_group *group = comm_group(comm, COMM_DATA);
    const float own = (float)(comm->rank + 1);
    float sum = own;
    float parts[2] = {own, 10.0f * own};
    float part = 0.0f;
    float all[2] = {-1.0f, -1.0f};
    comm_cut(comm, COMM_DATA);
    EXPECT(comm_all_reduce(group, &sum, 1, COMM_F32, COMM_SUM) == 0 && sum == own);
    EXPECT(comm_reduce_scatter(group, parts, &part, 1, COMM_F32, COMM_SUM) == 0);
    EXPECT(part == parts[group->index]);
    EXPECT(comm_all_gather(group, &own, all, 1, COMM_F32) == 0);
    EXPECT(all[group->index] == own && all[1 - group->index] == -1.0f);
    EXPECT(comm_send(group, &own, 1, COMM_F32, 1 - group->index) == 0);
    EXPECT(comm_receive(group, &sum, 1, COMM_F32, 1 - group->index) == 0 && sum == own);
    EXPECT(group->enqueued == 0);
    EXPECT(comm_all_reduce(comm_group(comm, COMM_TENSOR), &sum, 1, COMM_F32, COMM_SUM) == 0);
    EXPECT(sum != own);
    return comm_barrier(comm_group(comm, COMM_WORLD)) == 0 ? 0 : 2;
}

static void a_cut_axis_exchanges_nothing(void **state)
{
    (void)state;
    const struct comm_layout square = {.tensor = 2, .context = 1, .pipeline = 1, .data = 2};
    rig_run_world(&square, cut_body, NULL);
}

/* What a watch sees of one operation: begun, then done. */
struct seen {
    uint32_t count;
    uint64_t ahead[2]; /* enqueued - completed */
    enum comm_operation head[2];
    int32_t peer[2];
};

static void note(const struct comm_group *group, void *context)
{
    struct seen *seen = context;
    const uint32_t at = seen->count++ % 2;
    seen->ahead[at] = group->enqueued - group->completed;
    seen->head[at] = group->head;
    seen->peer[at] = group->head_peer;
}

static int watch_body(struct comm *comm)
{
    struct seen seen = {0};
    struct comm_group *group = comm_group(comm, COMM_WORLD);
    const uint32_t pair = group->index ^ 1;
    comm->watch = note;
    comm->watch_context = &seen;
    EXPECT(comm_barrier(group) == 0);
    EXPECT(seen.count == 2 && seen.ahead[0] == 1 && seen.ahead[1] == 0);
    EXPECT(seen.head[0] == COMM_BARRIER && seen.head[1] == COMM_NONE && seen.peer[0] == -1);
    float word[2] = {1.0f, 2.0f};
    const struct comm_transfer transfer = {&word[0], 1, pair, &word[1], 1, pair};
    EXPECT(comm_send_receive(group, &transfer, COMM_F32) == 0);
    EXPECT(seen.count == 4 && seen.head[0] == COMM_SEND_RECEIVE);
    EXPECT(seen.peer[0] == (int32_t)pair && seen.peer[1] == -1);
    return 0;
}

static void operations_are_told_when_they_begin_and_end(void **state)
{
    (void)state;
    rig_run_world(&line_of_four, watch_body, NULL);
}

/* ---- failures ------------------------------------------------------------------------------- */

static int death_body(struct comm *comm)
{
    static float buffer[100000];
    struct comm_group *group = comm_group(comm, COMM_WORLD);
    if (comm->rank == 2) {
        _exit(0);
    }
    const uint64_t begun_us = pace_now_us();
    const int code = comm_all_reduce(group, buffer, 100000, COMM_F32, COMM_SUM);
    char text[FAIL_TEXT_SIZE];
    comm_explain(comm, text, sizeof(text));
    EXPECT(code == -ECONNRESET);
    EXPECT(pace_now_us() - begun_us < 2000000);
    EXPECT(strstr(text, "lost rank ") != NULL);
    EXPECT(group->enqueued == 1 && group->completed == 0 && group->head == COMM_ALL_REDUCE);
    /* Final: nothing works on it any more. */
    EXPECT(comm_barrier(group) < 0);
    return 5;
}

static void a_death_ends_the_operation_of_all(void **state)
{
    (void)state;
    const int expected[] = {5, 5, 0, 5};
    rig_run_world(&line_of_four, death_body, expected);
}

/* The survivors learn of it without being in an operation. */
static int async_body(struct comm *comm)
{
    EXPECT(comm_async_error(comm) == 0);
    EXPECT(comm_barrier(comm_group(comm, COMM_WORLD)) == 0);
    if (comm->rank == 1) {
        _exit(0);
    }
    for (int i = 0; i < 2000; i++) {
        if (comm_async_error(comm) < 0) {
            return 5;
        }
        const struct timespec wait = {.tv_nsec = 1000000};
        (void)nanosleep(&wait, NULL);
    }
    return 6;
}

static void a_death_shows_between_operations(void **state)
{
    (void)state;
    const int expected[] = {5, 0, 5, 5};
    rig_run_world(&line_of_four, async_body, expected);
}

static void *abort_later(void *argument)
{
    const struct timespec wait = {.tv_nsec = 50000000};
    (void)nanosleep(&wait, NULL);
    comm_abort(argument);
    return NULL;
}

/* Rank 0 waits for one that never sends, and another thread ends the wait. */
static int abort_body(struct comm *comm)
{
    float value = 0.0f;
    pthread_t thread;
    if (comm->rank != 0) {
        /* Until rank 0 is gone. */
        return comm_receive(comm_group(comm, COMM_WORLD), &value, 1, COMM_F32, 0) < 0 ? 5 : 6;
    }
    EXPECT(pthread_create(&thread, NULL, abort_later, comm) == 0);
    EXPECT(comm_receive(comm_group(comm, COMM_WORLD), &value, 1, COMM_F32, 1) == -ECANCELED);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(comm_async_error(comm) == -ECANCELED);
    return 5;
}

static void abort_ends_a_wait_from_another_thread(void **state)
{
    (void)state;
    const int expected[] = {5, 5, 5, 5};
    rig_run_world(&line_of_four, abort_body, expected);
}

/* Ranks that are in different operations, or in the same with another count, must not mix bytes. */
static int disagree_body(struct comm *comm)
{
    float buffer[8] = {0};
    const size_t count = comm->rank == 1 ? 4 : 8;
    const int code =
        comm_all_reduce(comm_group(comm, COMM_WORLD), buffer, count, COMM_F32, COMM_SUM);
    return code == -EPROTO ? 5 : code == -ECONNRESET ? 6 : 7;
}

static void disagreement_is_an_error(void **state)
{
    (void)state;
    const struct comm_layout pair = {1, 1, 1, 2};
    const uint16_t port = rig_free_port();
    pid_t children[2];
    int codes[2];
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct rendezvous who = rig_visitor(rank, 2, port);
        children[rank] = rig_start_rank(&who, &pair, disagree_body);
    }
    codes[0] = rig_wait(children[0]);
    codes[1] = rig_wait(children[1]);
    /* The first to look says so; the other may find it gone instead. */
    assert_true(codes[0] == 5 || codes[1] == 5);
    assert_true((codes[0] == 5 || codes[0] == 6) && (codes[1] == 5 || codes[1] == 6));
}

/* A wait costs no processor: 0.3 s of waiting for a peer uses next to nothing. */
static int idle_body(struct comm *comm)
{
    struct rusage before;
    struct rusage after;
    if (comm->rank == 0) {
        const struct timespec wait = {.tv_nsec = 300000000};
        (void)nanosleep(&wait, NULL);
    }
    (void)getrusage(RUSAGE_SELF, &before);
    EXPECT(comm_barrier(comm_group(comm, COMM_WORLD)) == 0);
    (void)getrusage(RUSAGE_SELF, &after);
    const long used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 +
                         after.ru_utime.tv_usec - before.ru_utime.tv_usec +
                         (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
                         after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    EXPECT(used_us < 30000);
    return 0;
}

static void waiting_costs_no_processor(void **state)
{
    (void)state;
    rig_run_world(&line_of_four, idle_body, NULL);
}

/* ---- rendezvous ----------------------------------------------------------------------------- */

static int barrier_body(struct comm *comm)
{
    return comm_barrier(comm_group(comm, COMM_WORLD)) == 0 ? 0 : 1;
}

static void one_of_another_attempt_is_refused(void **state)
{
    (void)state;
    const struct comm_layout pair = {1, 1, 1, 2};
    const uint16_t port = rig_free_port();
    const struct rendezvous master = rig_visitor(0, 2, port);
    struct rendezvous stale = rig_visitor(1, 2, port);
    struct rendezvous stranger = rig_visitor(1, 2, port);
    stale.attempt = 2;
    memcpy(stranger.job, "other", sizeof("other"));
    const pid_t first = rig_start_rank(&master, &pair, barrier_body);
    assert_int_equal(rig_wait(rig_start_rank(&stale, &pair, barrier_body)), EXIT_RENDEZVOUS);
    assert_int_equal(rig_wait(rig_start_rank(&stranger, &pair, barrier_body)), EXIT_RENDEZVOUS);
    const struct rendezvous right = rig_visitor(1, 2, port);
    assert_int_equal(rig_wait(rig_start_rank(&right, &pair, barrier_body)), 0);
    assert_int_equal(rig_wait(first), 0);
}

static void other_flags_end_the_attempt(void **state)
{
    (void)state;
    const struct comm_layout pair = {1, 1, 1, 2};
    const uint16_t port = rig_free_port();
    const struct rendezvous master = rig_visitor(0, 2, port);
    struct rendezvous other = rig_visitor(1, 2, port);
    other.program = 99;
    const pid_t first = rig_start_rank(&master, &pair, barrier_body);
    assert_int_equal(rig_wait(rig_start_rank(&other, &pair, barrier_body)), EXIT_BAD_CONFIG);
    assert_int_equal(rig_wait(first), EXIT_BAD_CONFIG);
}

static void another_text_ends_the_attempt(void **state)
{
    (void)state;
    const struct comm_layout pair = {1, 1, 1, 2};
    const uint16_t port = rig_free_port();
    const struct rendezvous master = rig_visitor(0, 2, port);
    struct rendezvous other = rig_visitor(1, 2, port);
    other.text = 99;
    const pid_t first = rig_start_rank(&master, &pair, barrier_body);
    assert_int_equal(rig_wait(rig_start_rank(&other, &pair, barrier_body)), EXIT_LOCAL);
    assert_int_equal(rig_wait(first), EXIT_LOCAL);
}

static void garbage_is_dropped(void **state)
{
    (void)state;
    const struct comm_layout pair = {1, 1, 1, 2};
    const uint16_t port = rig_free_port();
    const struct rendezvous master = rig_visitor(0, 2, port);
    const pid_t first = rig_start_rank(&master, &pair, barrier_body);
    struct socket_address address;
    char noise[4096];
    memset(noise, 'x', sizeof(noise));
    assert_int_equal(socket_resolve("127.0.0.1", port, &address), 0);
    const uint64_t deadline_ms = socket_now_ms() + 5000;
    int noisy = -1;
    while (socket_connect(&address, deadline_ms, &noisy) < 0) {
        assert_true(socket_left_ms(deadline_ms) > 0);
    }
    int silent = -1;
    assert_int_equal(socket_connect(&address, deadline_ms, &silent), 0);
    assert_int_equal(socket_send_all(noisy, noise, sizeof(noise), deadline_ms), 0);
    const struct rendezvous right = rig_visitor(1, 2, port);
    assert_int_equal(rig_wait(rig_start_rank(&right, &pair, barrier_body)), 0);
    assert_int_equal(rig_wait(first), 0);
    socket_close(&noisy);
    socket_close(&silent);
}

static void absentees_end_the_wait(void **state)
{
    (void)state;
    const struct comm_layout three = {1, 1, 1, 3};
    const uint16_t port = rig_free_port();
    struct rendezvous who[2] = {rig_visitor(0, 3, port), rig_visitor(2, 3, port)};
    struct fail fail;
    struct comm comm;
    who[0].timeout_ms = 700;
    who[1].timeout_ms = 5000;
    const pid_t other = rig_start_rank(&who[1], &three, barrier_body);
    assert_true(comm_tcp_create(&who[0], &three, NULL, &fail, &comm) < 0);
    assert_int_equal(fail.exit_code, EXIT_RENDEZVOUS);
    assert_non_null(strstr(fail.text, "rank 1"));
    assert_null(strstr(fail.text, "2"));
    const int code = rig_wait(other);
    assert_true(code == EXIT_PEER || code == EXIT_RENDEZVOUS);
}

static void a_port_in_use_is_named(void **state)
{
    (void)state;
    const struct comm_layout pair = {1, 1, 1, 2};
    struct socket_address address;
    struct fail fail;
    struct comm comm;
    int holder = -1;
    const struct rendezvous who = rig_visitor(0, 2, rig_free_port());
    assert_int_equal(socket_resolve("127.0.0.1", who.master_port, &address), 0);
    assert_int_equal(socket_listen(&address, 1, &holder), 0);
    assert_true(comm_tcp_create(&who, &pair, NULL, &fail, &comm) < 0);
    assert_int_equal(fail.exit_code, EXIT_RENDEZVOUS);
    assert_non_null(strstr(fail.text, "in use"));
    socket_close(&holder);
}

static void one_rank_needs_nobody(void **state)
{
    (void)state;
    const struct comm_layout single = {1, 1, 1, 1};
    const struct rendezvous who = {.world = 1, .job = "test"};
    struct fail fail;
    struct comm comm;
    float values[2] = {1.0f, 2.0f};
    float copy[2] = {0};
    assert_int_equal(comm_tcp_create(&who, &single, NULL, &fail, &comm), 0);
    struct comm_group *group = comm_group(&comm, COMM_WORLD);
    assert_int_equal(comm_all_reduce(group, values, 2, COMM_F32, COMM_SUM), 0);
    assert_int_equal(comm_reduce_scatter(group, values, copy, 2, COMM_F32, COMM_SUM), 0);
    assert_memory_equal(copy, values, sizeof(copy));
    assert_int_equal(comm_barrier(group), 0);
    assert_int_equal(comm_async_error(&comm), 0);
    comm_done(&comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coordinates_are_innermost_first),
        cmocka_unit_test(groups_differ_in_one_coordinate),
        cmocka_unit_test(all_reduce_sums_in_rank_order),
        cmocka_unit_test(scatter_then_gather_is_all_reduce),
        cmocka_unit_test(broadcast_and_pairs_carry_the_bytes),
        cmocka_unit_test(groups_do_not_mix),
        cmocka_unit_test(both_ways_at_once_never_wait_for_each_other),
        cmocka_unit_test(a_cut_axis_exchanges_nothing),
        cmocka_unit_test(operations_are_told_when_they_begin_and_end),
        cmocka_unit_test(a_death_ends_the_operation_of_all),
        cmocka_unit_test(a_death_shows_between_operations),
        cmocka_unit_test(abort_ends_a_wait_from_another_thread),
        cmocka_unit_test(disagreement_is_an_error),
        cmocka_unit_test(waiting_costs_no_processor),
        cmocka_unit_test(one_of_another_attempt_is_refused),
        cmocka_unit_test(other_flags_end_the_attempt),
        cmocka_unit_test(another_text_ends_the_attempt),
        cmocka_unit_test(garbage_is_dropped),
        cmocka_unit_test(absentees_end_the_wait),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(one_rank_needs_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
