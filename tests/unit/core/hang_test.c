/* hang_test.c: who made a job stand still.
 *
 * The states that are judged come from a small machine that runs the programs of all ranks (1F1B
 * pipeline, tensor, data and world collectives; sends are buffered, all else blocks) until nothing
 * moves any more, with one fault in it. So the snapshot is what such a fault really leaves behind,
 * at 8 ranks as at 16,384, and the fault is known. A few states are written by hand. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/core/hang.h"
#include "controller/core/words.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/prng.h"
#include "proto/base/text.h"
#include "tests/lib/test.h"

enum {
    RANKS_MAX = 16384,
    MICROS = 8,
    STEPS = 3,
    OPERATIONS_MAX = 8 * MICROS + 8,
    ROUNDS_BIG = 3,
    ROUNDS_SMALL = 60
};
#define NOBODY UINT32_MAX

enum comm { TP, PP, DP, WORLD, COMMS };
static const uint16_t axes[COMMS] = {AXIS_TENSOR, AXIS_PIPELINE, AXIS_DATA, AXIS_WORLD};
static const char *const names[COMMS] = {"tp", "pp", "dp", "world"};

struct operation {
    uint8_t comm;
    uint16_t kind;   /* SEND, RECEIVE or ALL_REDUCE */
    uint8_t forward; /* of a send or receive: the stream of the forward pass */
};

/* What goes wrong. */
struct fault {
    uint32_t stop[2];               /* these ranks do nothing any more … */
    uint32_t stop_step, stop_at[2]; /* … from this operation of this step on */
    uint32_t slot;                  /* the ranks of this slot, the same; NOBODY */
    uint32_t lost_from, lost_to;    /* what this rank sends to that one never arrives */
    uint32_t lost_step;
    uint32_t broken; /* this rank's group of `broken_comm` completes nothing from there on */
    uint8_t broken_comm;
    uint32_t broken_step;
};

struct machine {
    struct layout_shape shape;
    uint32_t world;
    struct layout_coordinates at[RANKS_MAX];
    uint32_t step[RANKS_MAX];
    uint32_t next[RANKS_MAX];
    bool entered[RANKS_MAX];
    uint64_t enqueued[RANKS_MAX][COMMS];
    uint64_t completed[RANKS_MAX][COMMS];
    uint32_t arrived[RANKS_MAX][COMMS]; /* of the group that this rank leads */
    uint64_t group_done[RANKS_MAX][COMMS];
    uint32_t sent[RANKS_MAX][2]; /* by this rank, forward and backward */
    uint32_t taken[RANKS_MAX][2];
    struct operation program[OPERATIONS_MAX * 16]; /* of each stage */
    uint32_t length[16];
    struct fault fault;
    struct communicator_report reports[RANKS_MAX][COMMS];
    struct hang_scratch *scratch;
    struct hang_found found;
};

/* ---- programs ------------------------------------------------------------------------------- */

static void add(struct machine *m, uint32_t stage, enum comm comm, uint16_t kind, bool forward)
{
    assert_true(m->length[stage] < OPERATIONS_MAX);
    m->program[stage * OPERATIONS_MAX + m->length[stage]++] =
        (struct operation){.comm = (uint8_t)comm, .kind = kind, .forward = forward};
}

static void add_pass(struct machine *m, uint32_t stage, bool forward)
{
    bool first = forward ? stage == 0 : stage + 1 == m->shape.pipeline;
    bool last = forward ? stage + 1 == m->shape.pipeline : stage == 0;
    if (!first) {
        add(m, stage, PP, OPERATION_RECEIVE, forward);
    }
    if (m->shape.tensor > 1) {
        add(m, stage, TP, OPERATION_ALL_REDUCE, forward);
    }
    if (!last) {
        add(m, stage, PP, OPERATION_SEND, forward);
    }
}

static void write_programs(struct machine *m)
{
    for (uint32_t stage = 0; stage < m->shape.pipeline; stage++) {
        uint32_t ahead = m->shape.pipeline - 1 - stage;
        ahead = ahead < MICROS ? ahead : MICROS;
        for (uint32_t i = 0; i < ahead; i++) {
            add_pass(m, stage, true);
        }
        for (uint32_t i = ahead; i < MICROS; i++) {
            add_pass(m, stage, true);
            add_pass(m, stage, false);
        }
        for (uint32_t i = 0; i < ahead; i++) {
            add_pass(m, stage, false);
        }
        add(m, stage, DP, OPERATION_ALL_REDUCE, false);
        add(m, stage, WORLD, OPERATION_ALL_REDUCE, false);
    }
}

static struct machine *machine_create(uint32_t tensor, uint32_t pipeline, uint32_t data,
                                      uint32_t ranks_per_node, const char *order)
{
    struct machine *m = mem_alloc(1, sizeof *m);
    struct err err = {0};
    uint32_t slots = 0;
    m->shape = (struct layout_shape){.tensor = tensor,
                                     .context = 1,
                                     .pipeline = pipeline,
                                     .data = data,
                                     .ranks_per_node = ranks_per_node};
    text_copy(m->shape.order, sizeof m->shape.order, order);
    assert_int_equal(layout_check_shape(&m->shape, &m->world, &slots, &err), 0);
    assert_true(m->world <= RANKS_MAX && pipeline <= 16);
    for (uint32_t rank = 0; rank < m->world; rank++) {
        m->at[rank] = layout_of_rank(&m->shape, rank);
    }
    write_programs(m);
    m->scratch = hang_scratch_create(m->world);
    m->fault = (struct fault){.stop = {NOBODY, NOBODY},
                              .slot = NOBODY,
                              .lost_from = NOBODY,
                              .lost_to = NOBODY,
                              .broken = NOBODY};
    return m;
}

static void machine_free(struct machine *m)
{
    hang_scratch_free(m->scratch);
    mem_free(m);
}

/* ---- running -------------------------------------------------------------------------------- */

static uint32_t leader_of(const struct machine *m, uint32_t rank, uint8_t comm)
{
    struct layout_coordinates at = m->at[rank];
    if (comm == WORLD) {
        return 0;
    }
    at.tensor = comm == TP ? 0 : at.tensor;
    at.pipeline = comm == PP ? 0 : at.pipeline;
    at.data = comm == DP ? 0 : at.data;
    return layout_rank_of(&m->shape, at);
}

static uint32_t size_of(const struct machine *m, uint8_t comm)
{
    const uint32_t sizes[COMMS] = {m->shape.tensor, m->shape.pipeline, m->shape.data, m->world};
    return sizes[comm];
}

/* The other end of a send or receive. */
static uint32_t peer_of(const struct machine *m, uint32_t rank, const struct operation *operation)
{
    struct layout_coordinates at = m->at[rank];
    bool up = (operation->kind == OPERATION_SEND) == (operation->forward != 0);
    at.pipeline = up ? at.pipeline + 1 : at.pipeline - 1;
    return layout_rank_of(&m->shape, at);
}

static bool is_stopped(const struct machine *m, uint32_t rank)
{
    const struct fault *fault = &m->fault;
    for (uint32_t i = 0; i < 2; i++) {
        if ((fault->stop[i] == rank || rank / m->shape.ranks_per_node == fault->slot) &&
            m->step[rank] == fault->stop_step && m->next[rank] >= fault->stop_at[i] &&
            !m->entered[rank]) {
            return true;
        }
    }
    return false;
}

static bool group_is_broken(const struct machine *m, uint32_t leader, uint8_t comm, uint32_t step)
{
    const struct fault *fault = &m->fault;
    return fault->broken != NOBODY && fault->broken_comm == comm && step >= fault->broken_step &&
           leader_of(m, fault->broken, comm) == leader;
}

static void enter(struct machine *m, uint32_t rank, const struct operation *operation)
{
    const struct fault *fault = &m->fault;
    m->entered[rank] = true;
    m->enqueued[rank][operation->comm]++;
    if (operation->kind == OPERATION_ALL_REDUCE) {
        uint32_t leader = leader_of(m, rank, operation->comm);
        uint32_t *arrived = &m->arrived[leader][operation->comm];
        (*arrived)++;
        if (*arrived == size_of(m, operation->comm) &&
            !group_is_broken(m, leader, operation->comm, m->step[rank])) {
            *arrived = 0;
            m->group_done[leader][operation->comm]++;
        }
    } else if (operation->kind == OPERATION_SEND) {
        bool lost = fault->lost_from == rank && fault->lost_to == peer_of(m, rank, operation) &&
                    m->step[rank] >= fault->lost_step;
        m->sent[rank][operation->forward] += lost ? 0 : 1;
    }
}

/* Collectives of a group that mixes in sends have numbers of their own; here none does. */
static bool is_over(const struct machine *m, uint32_t rank, const struct operation *operation)
{
    if (operation->kind == OPERATION_SEND) {
        return true;
    }
    if (operation->kind == OPERATION_RECEIVE) {
        uint32_t from = peer_of(m, rank, operation);
        return m->sent[from][operation->forward] > m->taken[rank][operation->forward];
    }
    return m->group_done[leader_of(m, rank, operation->comm)][operation->comm] >
           m->completed[rank][operation->comm];
}

/* Lets one rank go on as far as it can; true: it moved. */
static bool advance(struct machine *m, uint32_t rank)
{
    const uint32_t stage = m->at[rank].pipeline;
    bool moved = false;
    while (m->step[rank] < STEPS && !is_stopped(m, rank)) {
        const struct operation *operation = &m->program[stage * OPERATIONS_MAX + m->next[rank]];
        if (!m->entered[rank]) {
            enter(m, rank, operation);
            moved = true;
        }
        if (!is_over(m, rank, operation)) {
            break;
        }
        m->taken[rank][operation->forward] += operation->kind == OPERATION_RECEIVE ? 1 : 0;
        m->completed[rank][operation->comm]++;
        m->entered[rank] = false;
        moved = true;
        if (++m->next[rank] == m->length[stage]) {
            m->next[rank] = 0;
            m->step[rank]++;
        }
    }
    return moved;
}

static void tell(struct machine *m, uint32_t rank)
{
    const uint32_t stage = m->at[rank].pipeline;
    const struct operation *operation = &m->program[stage * OPERATIONS_MAX + m->next[rank]];
    struct hang_rank *one = &m->scratch->ranks[rank];
    *one = (struct hang_rank){.step = m->step[rank],
                              .phase = PHASE_STEP,
                              .communicator_count = COMMS,
                              .communicators = m->reports[rank]};
    for (uint32_t comm = 0; comm < COMMS; comm++) {
        struct communicator_report *report = &m->reports[rank][comm];
        const bool in = m->entered[rank] && operation->comm == comm;
        *report = (struct communicator_report){.enqueued = m->enqueued[rank][comm],
                                               .completed = m->completed[rank][comm],
                                               .peer = -1,
                                               .axis = axes[comm]};
        text_copy(report->name, sizeof report->name, names[comm]);
        report->operation = in ? operation->kind : OPERATION_NONE;
        if (in && operation->kind != OPERATION_ALL_REDUCE) {
            report->peer = (int32_t)m->at[peer_of(m, rank, operation)].pipeline;
        }
    }
    if (rank / m->shape.ranks_per_node == m->fault.slot) {
        *one = (struct hang_rank){.silent = true, .step = m->step[rank]};
    }
}

/* Everybody goes on until nobody can; then they are asked. */
static void run(struct machine *m)
{
    bool moved = true;
    memset(m->step, 0, sizeof m->step);
    memset(m->next, 0, sizeof m->next);
    memset(m->entered, 0, sizeof m->entered);
    memset(m->enqueued, 0, sizeof m->enqueued);
    memset(m->completed, 0, sizeof m->completed);
    memset(m->arrived, 0, sizeof m->arrived);
    memset(m->group_done, 0, sizeof m->group_done);
    memset(m->sent, 0, sizeof m->sent);
    memset(m->taken, 0, sizeof m->taken);
    while (moved) {
        moved = false;
        for (uint32_t rank = 0; rank < m->world; rank++) {
            moved = advance(m, rank) || moved;
        }
    }
    for (uint32_t rank = 0; rank < m->world; rank++) {
        assert_true(m->step[rank] < STEPS); /* the fault stopped all of them */
        tell(m, rank);
    }
    hang_find(&m->shape, m->scratch, &m->found);
}

/* ---- the faults of the catalogue, at both sizes ---------------------------------------------- */

static struct machine *small(void)
{
    return machine_create(2, 2, 2, 2, "tp-cp-pp-dp");
}

static struct machine *big(void)
{
    return machine_create(8, 16, 128, 8, "tp-cp-pp-dp");
}

static uint32_t random_operation(struct machine *m, struct prng *prng, uint32_t rank)
{
    return (uint32_t)prng_below(prng, m->length[m->at[rank].pipeline]);
}

static void stop_before(struct machine *m, struct prng *prng)
{
    const uint32_t rank = (uint32_t)prng_below(prng, m->world);
    const uint32_t at = random_operation(m, prng, rank);
    m->fault.stop[0] = rank;
    m->fault.stop_step = 1;
    m->fault.stop_at[0] = at;
    run(m);
    const struct hang_root *root = &m->found.roots[0];
    const struct operation *missed = &m->program[m->at[rank].pipeline * OPERATIONS_MAX + at];
    assert_int_equal(m->found.root_count, 1);
    assert_int_equal(root->rank, rank);
    assert_int_equal(root->slot, rank / m->shape.ranks_per_node);
    assert_int_equal(root->kind, HANG_BEFORE);
    assert_int_equal(root->step, 1);
    assert_int_equal(m->found.waiting, m->world - 1);
    assert_int_equal(m->found.confidence, CONFIDENCE_HIGH);
    if (missed->kind == OPERATION_ALL_REDUCE) {
        assert_string_equal(root->name, names[missed->comm]);
        assert_int_equal(root->operation, OPERATION_ALL_REDUCE);
        assert_int_equal(root->sequence, m->completed[rank][missed->comm] + 1);
    }
}

static void host_hang(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 1);
    struct machine *m = small();
    for (uint32_t i = 0; i < ROUNDS_SMALL; i++) {
        stop_before(m, &prng);
    }
    machine_free(m);
    m = big();
    for (uint32_t i = 0; i < ROUNDS_BIG; i++) {
        stop_before(m, &prng);
    }
    machine_free(m);
}

/* Whoever is named is guilty; one may hide behind the other, which is found the next time. */
static void stop_two(struct machine *m, struct prng *prng, uint32_t *both)
{
    const uint32_t a = (uint32_t)prng_below(prng, m->world);
    const uint32_t b = (a + 1 + (uint32_t)prng_below(prng, m->world - 1)) % m->world;
    m->fault.stop[0] = a;
    m->fault.stop[1] = b;
    m->fault.stop_step = 1;
    m->fault.stop_at[0] = random_operation(m, prng, a);
    m->fault.stop_at[1] = random_operation(m, prng, b);
    run(m);
    assert_true(m->found.root_count == 1 || m->found.root_count == 2);
    for (uint32_t i = 0; i < m->found.named_count; i++) {
        assert_true(m->found.roots[i].rank == a || m->found.roots[i].rank == b);
        assert_int_equal(m->found.roots[i].kind, HANG_BEFORE);
    }
    *both += m->found.root_count == 2 ? 1 : 0;
    if (m->found.slot_count == 2) {
        const struct hang_root *roots = m->found.roots;
        assert_int_equal(m->found.confidence, CONFIDENCE_MEDIUM);
        assert_true(roots[0].sequence < roots[1].sequence ||
                    (roots[0].sequence == roots[1].sequence && roots[0].rank < roots[1].rank));
    }
}

static void two_host_hangs(void **state)
{
    (void)state;
    struct prng prng;
    uint32_t both_small = 0;
    uint32_t both_big = 0;
    prng_seed(&prng, 2);
    struct machine *m = small();
    for (uint32_t i = 0; i < ROUNDS_SMALL; i++) {
        stop_two(m, &prng, &both_small);
    }
    machine_free(m);
    m = big();
    for (uint32_t i = 0; i < ROUNDS_BIG; i++) {
        stop_two(m, &prng, &both_big);
    }
    machine_free(m);
    printf("two hangs, both named: %u of %d at 8 ranks, %u of %d at 16,384\n", both_small,
           ROUNDS_SMALL, both_big, ROUNDS_BIG);
    assert_true(both_small > ROUNDS_SMALL / 4 && both_big > 0);
}

static void silence_a_node(struct machine *m, struct prng *prng)
{
    const uint32_t slots = m->world / m->shape.ranks_per_node;
    const uint32_t slot = (uint32_t)prng_below(prng, slots);
    const uint32_t at = random_operation(m, prng, slot * m->shape.ranks_per_node);
    m->fault.slot = slot;
    m->fault.stop_step = 1;
    m->fault.stop_at[0] = at;
    m->fault.stop_at[1] = at;
    run(m);
    assert_int_equal(m->found.slot_count, 1);
    assert_int_equal(m->found.named_count, 1);
    assert_int_equal(m->found.roots[0].slot, slot);
    assert_int_equal(m->found.roots[0].kind, HANG_SILENT);
    assert_int_equal(m->found.roots[0].count, m->found.root_count);
    assert_int_equal(m->found.silent_count, m->shape.ranks_per_node);
    assert_int_equal(m->found.silent[0], slot * m->shape.ranks_per_node);
    assert_int_equal(m->found.waiting, m->world - m->shape.ranks_per_node);
    assert_int_equal(m->found.confidence, m->found.root_count == m->shape.ranks_per_node
                                              ? CONFIDENCE_HIGH
                                              : CONFIDENCE_MEDIUM);
}

static void silent_node(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 3);
    struct machine *m = small();
    for (uint32_t i = 0; i < ROUNDS_SMALL; i++) {
        silence_a_node(m, &prng);
    }
    machine_free(m);
    m = big();
    for (uint32_t i = 0; i < ROUNDS_BIG; i++) {
        silence_a_node(m, &prng);
    }
    machine_free(m);
}

static void break_path(struct machine *m, struct prng *prng)
{
    struct layout_coordinates at = m->at[prng_below(prng, m->world)];
    at.pipeline = (uint32_t)prng_below(prng, m->shape.pipeline - 1);
    const uint32_t low = layout_rank_of(&m->shape, at);
    at.pipeline++;
    const uint32_t high = layout_rank_of(&m->shape, at);
    const bool forward = prng_below(prng, 2) == 0;
    m->fault.lost_from = forward ? low : high;
    m->fault.lost_to = forward ? high : low;
    m->fault.lost_step = 1;
    run(m);
    assert_int_equal(m->found.root_count, 2);
    for (uint32_t i = 0; i < m->found.named_count; i++) {
        const struct hang_root *root = &m->found.roots[i];
        assert_true(root->rank == low || root->rank == high);
        assert_int_equal(root->peer, root->rank == low ? high : low);
        assert_int_equal(root->kind, HANG_PAIR);
        assert_int_equal(root->operation, OPERATION_RECEIVE);
        assert_string_equal(root->name, "pp");
    }
    assert_int_equal(m->found.confidence, CONFIDENCE_MEDIUM);
}

static void broken_path(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 4);
    struct machine *m = small();
    for (uint32_t i = 0; i < ROUNDS_SMALL; i++) {
        break_path(m, &prng);
    }
    machine_free(m);
    m = big();
    for (uint32_t i = 0; i < ROUNDS_BIG; i++) {
        break_path(m, &prng);
    }
    machine_free(m);
}

/* A ring of replicas across the network: all of it is suspect, nobody is named alone. */
static void break_group(struct machine *m, struct prng *prng, uint8_t comm)
{
    const uint32_t rank = (uint32_t)prng_below(prng, m->world);
    m->fault.broken = rank;
    m->fault.broken_comm = comm;
    m->fault.broken_step = 1;
    run(m);
    assert_int_equal(m->found.root_count, size_of(m, comm));
    assert_int_equal(m->found.roots[0].rank, leader_of(m, rank, comm));
    assert_int_equal(m->found.roots[0].kind, HANG_GROUP);
    assert_int_equal(m->found.roots[0].members, size_of(m, comm));
    assert_string_equal(m->found.roots[0].name, names[comm]);
    assert_int_equal(m->found.confidence, comm == TP ? CONFIDENCE_MEDIUM : CONFIDENCE_LOW);
}

static void broken_ring(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 5);
    struct machine *m = small();
    for (uint32_t i = 0; i < ROUNDS_SMALL; i++) {
        break_group(m, &prng, DP);
        break_group(m, &prng, TP); /* inside one node: it is the node */
    }
    machine_free(m);
    m = big();
    for (uint32_t i = 0; i < ROUNDS_BIG / 2; i++) {
        break_group(m, &prng, DP);
        break_group(m, &prng, TP);
    }
    assert_int_equal(m->found.slot_count, 1);
    machine_free(m);
}

/* The same with the numbering turned round: members follow from the layout and nothing else. */
static void another_order(void **state)
{
    (void)state;
    struct prng prng;
    prng_seed(&prng, 6);
    struct machine *m = machine_create(2, 3, 4, 2, "tp-dp-cp-pp");
    for (uint32_t i = 0; i < ROUNDS_SMALL; i++) {
        m->fault.broken = NOBODY;
        stop_before(m, &prng);
        m->fault.stop[0] = NOBODY;
        break_path(m, &prng);
        m->fault.lost_from = NOBODY;
        break_group(m, &prng, DP);
    }
    machine_free(m);
}

/* ---- by hand -------------------------------------------------------------------------------- */

/* Rank 5 has stopped before the all-reduce of its replicas, all others wait. */
static struct machine *one_stopped(void)
{
    struct machine *m = small();
    m->fault.stop[0] = 5;
    m->fault.stop_step = 1;
    m->fault.stop_at[0] = m->length[m->at[5].pipeline] - 2; /* then DP, then WORLD */
    run(m);
    assert_int_equal(m->found.roots[0].rank, 5);
    assert_string_equal(m->found.roots[0].name, "dp");
    assert_int_equal(m->found.roots[0].sequence, 2);
    assert_int_equal(m->found.waiting, 7);
    return m;
}

static void again(struct machine *m)
{
    hang_find(&m->shape, m->scratch, &m->found);
}

/* Who still moves is not blamed, and nobody is sure while somebody does. */
static void one_moves(void **state)
{
    (void)state;
    struct machine *m = one_stopped();
    m->scratch->ranks[5].moved = true;
    again(m);
    assert_int_equal(m->found.root_count, 0);
    assert_int_equal(m->found.moving, 1);
    assert_int_equal(m->found.confidence, CONFIDENCE_LOW);
    m->scratch->ranks[5].moved = false;
    m->scratch->ranks[2].moved = true;
    again(m);
    assert_int_equal(m->found.roots[0].rank, 5);
    assert_int_equal(m->found.confidence, CONFIDENCE_MEDIUM);
    machine_free(m);
}

/* A report that is too old to be believed is silence: here of a rank that only waits. */
static void a_waiting_one_is_silent(void **state)
{
    (void)state;
    struct machine *m = one_stopped();
    m->scratch->ranks[4] = (struct hang_rank){.silent = true, .step = 1};
    again(m);
    assert_int_equal(m->found.silent_count, 1);
    assert_int_equal(m->found.silent[0], 4);
    assert_int_equal(m->found.slot_count, 1); /* both are of slot 2 */
    assert_int_equal(m->found.root_count, 2);
    m->scratch->ranks[1] = (struct hang_rank){.silent = true, .step = 1};
    again(m); /* of two slots, and more than 2 %: the network, perhaps */
    assert_int_equal(m->found.root_count, 1);
    assert_int_equal(m->found.roots[0].rank, 5);
    assert_int_equal(m->found.silent_count, 2);
    assert_int_equal(m->found.confidence, CONFIDENCE_LOW);
    machine_free(m);
}

/* A rank that no longer tells of a communicator has not come to it, whatever it told before. */
static void one_tells_less_than_before(void **state)
{
    (void)state;
    struct machine *m = one_stopped();
    m->scratch->ranks[5].communicator_count = DP; /* those before it */
    again(m);
    assert_int_equal(m->found.root_count, 1);
    assert_int_equal(m->found.roots[0].rank, 5);
    assert_string_equal(m->found.roots[0].name, "dp");
    assert_int_equal(m->found.roots[0].kind, HANG_BEFORE);
    machine_free(m);
}

static void nobody_tells(void **state)
{
    (void)state;
    struct machine *m = one_stopped();
    for (uint32_t rank = 0; rank < m->world; rank++) {
        m->scratch->ranks[rank] =
            (struct hang_rank){.silent = true, .step = 9, .phase = PHASE_STEP};
    }
    again(m);
    assert_int_equal(m->found.root_count, 0);
    assert_int_equal(m->found.told, 0);
    assert_int_equal(m->found.silent_count, 8);
    m->scratch->ranks[6].step = 8; /* slot 3 is behind */
    m->scratch->ranks[7].step = 8;
    again(m);
    assert_int_equal(m->found.root_count, 2);
    assert_int_equal(m->found.roots[0].rank, 6);
    assert_int_equal(m->found.roots[0].count, 2);
    assert_int_equal(m->found.roots[0].kind, HANG_BEHIND);
    assert_int_equal(m->found.confidence, CONFIDENCE_LOW);
    m->scratch->ranks[0].step = 8; /* two slots are */
    again(m);
    assert_int_equal(m->found.root_count, 0);
    machine_free(m);
}

/* At one step, the slot that is in another phase. */
static void one_is_in_another_phase(void **state)
{
    (void)state;
    struct machine *m = one_stopped();
    for (uint32_t rank = 0; rank < m->world; rank++) {
        m->scratch->ranks[rank] =
            (struct hang_rank){.silent = true, .step = 9, .phase = PHASE_STEP};
    }
    m->scratch->ranks[3].phase = PHASE_CHECKPOINT;
    again(m);
    assert_int_equal(m->found.root_count, 1);
    assert_int_equal(m->found.roots[0].rank, 3);
    assert_int_equal(m->found.roots[0].phase, PHASE_CHECKPOINT);
    machine_free(m);
}

/* All others have completed what it is in, and wait for it in the next one. */
static void left_inside(void **state)
{
    (void)state;
    struct machine *m = one_stopped();
    for (uint32_t rank = 0; rank < m->world; rank++) {
        for (uint32_t comm = 0; comm < COMMS; comm++) {
            m->reports[rank][comm].completed = 40;
            m->reports[rank][comm].enqueued = 40;
        }
        m->reports[rank][WORLD].enqueued = 41;
        m->reports[rank][WORLD].operation = OPERATION_ALL_REDUCE;
    }
    m->reports[3][WORLD].completed = 39;
    m->reports[3][WORLD].enqueued = 40;
    m->reports[3][WORLD].operation = OPERATION_BROADCAST;
    again(m);
    assert_int_equal(m->found.root_count, 1);
    assert_int_equal(m->found.roots[0].rank, 3);
    assert_int_equal(m->found.roots[0].kind, HANG_INSIDE);
    assert_int_equal(m->found.roots[0].sequence, 40);
    assert_int_equal(m->found.roots[0].operation, OPERATION_BROADCAST);
    assert_int_equal(m->found.confidence, CONFIDENCE_HIGH);
    machine_free(m);
}

/* A ring of waits without an end: each of three stages waits for the one before it. The first has
 * done a step more than the second, so what the second waits for was sent and never came. */
static void who_is_a_step_further_sends_no_more(void **state)
{
    (void)state;
    struct machine *m = machine_create(1, 3, 1, 1, "tp-cp-pp-dp");
    for (uint32_t rank = 0; rank < m->world; rank++) {
        tell(m, rank);
        m->scratch->ranks[rank].communicator_count = 1;
        m->scratch->ranks[rank].step = 5;
        m->scratch->ranks[rank].communicators = &m->reports[rank][PP];
        m->reports[rank][PP].enqueued = 12;
        m->reports[rank][PP].completed = 11;
        m->reports[rank][PP].operation = OPERATION_RECEIVE;
        m->reports[rank][PP].peer = (int32_t)((rank + 2) % 3);
    }
    again(m);
    assert_int_equal(m->found.root_count, 0); /* nothing tells one from another */
    m->scratch->ranks[0].step = 6;
    again(m);
    assert_int_equal(m->found.root_count, 2);
    assert_int_equal(m->found.roots[0].rank, 1);
    assert_int_equal(m->found.roots[0].peer, 0);
    assert_int_equal(m->found.roots[1].rank, 0);
    assert_int_equal(m->found.roots[0].kind, HANG_PAIR);
    machine_free(m);
}

/* Communicators by name join whoever gives them that name; impossible numbers name nobody. */
static void other_communicators(void **state)
{
    (void)state;
    struct machine *m = one_stopped();
    for (uint32_t rank = 0; rank < m->world; rank++) {
        for (uint32_t comm = 0; comm < COMMS; comm++) {
            m->reports[rank][comm].axis = comm == 0 ? AXIS_OTHER : 77;
            m->reports[rank][comm].peer = INT32_MAX;
            m->reports[rank][comm].enqueued = 7;
            m->reports[rank][comm].completed = 7;
        }
        text_copy(m->reports[rank][0].name, COMMUNICATOR_NAME_SIZE, rank < 4 ? "experts" : "rest");
        m->reports[rank][0].enqueued = rank < 4 && rank != 2 ? 8 : 7;
        m->reports[rank][0].operation = OPERATION_ALL_TO_ALL;
    }
    again(m);
    assert_int_equal(m->found.root_count, 1);
    assert_int_equal(m->found.roots[0].rank, 2);
    assert_string_equal(m->found.roots[0].name, "experts");
    assert_int_equal(m->found.confidence, CONFIDENCE_MEDIUM); /* ranks 4..7 wait for nothing */
    for (uint32_t rank = 0; rank < m->world; rank++) {
        m->reports[rank][0].enqueued = 3; /* fewer than completed */
        m->reports[rank][1].axis = AXIS_PIPELINE;
        m->reports[rank][1].enqueued = UINT64_MAX;
        m->reports[rank][1].operation = OPERATION_SEND;
    }
    again(m);
    assert_int_equal(m->found.root_count, 0);
    machine_free(m);
}

/* More slots than are named: the most suspect of all of them are. */
static void the_first_are_named(void **state)
{
    (void)state;
    struct machine *m = machine_create(1, 1, 64, 2, "tp-cp-pp-dp");
    for (uint32_t rank = 0; rank < m->world; rank++) {
        tell(m, rank);
        m->scratch->ranks[rank].step = 100 - rank;
        m->reports[rank][DP].completed = 5;
        m->reports[rank][DP].enqueued = rank < 20 ? 6 : 5;
        m->reports[rank][DP].operation = OPERATION_ALL_REDUCE;
    }
    again(m);
    assert_int_equal(m->found.root_count, 44);
    assert_int_equal(m->found.slot_count, 22);
    assert_int_equal(m->found.named_count, HANG_ROOTS_MAX);
    assert_int_equal(m->found.roots[0].rank, 63);
    assert_int_equal(m->found.roots[HANG_ROOTS_MAX - 1].rank, 49);
    machine_free(m);
}

/* ---- work ----------------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* 16,384 ranks with 16 communicators each, in one world and each with names of its own: the time
 * is linear (a quadratic one would take minutes), and what has no room is left out and said. */
static void much_to_read(void **state)
{
    (void)state;
    enum { COUNT = COMMUNICATORS_MAX };
    struct machine *m = machine_create(8, 16, 128, 8, "tp-cp-pp-dp");
    struct communicator_report(*reports)[COUNT] = mem_alloc(m->world, sizeof *reports);
    for (uint32_t rank = 0; rank < m->world; rank++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            bool late = rank == 4711;
            reports[rank][i] =
                (struct communicator_report){.axis = axes[i % COMMS],
                                             .peer = -1,
                                             .operation = OPERATION_ALL_REDUCE,
                                             .completed = 9,
                                             .enqueued = late || i != COMMS - 1 ? 9 : 10};
            text_format(reports[rank][i].name, COMMUNICATOR_NAME_SIZE, "comm-%u", i);
        }
        m->scratch->ranks[rank] =
            (struct hang_rank){.communicator_count = COUNT, .communicators = reports[rank]};
    }
    double begun = seconds();
    again(m);
    double first = seconds() - begun;
    assert_int_equal(m->found.root_count, 1);
    assert_int_equal(m->found.roots[0].rank, 4711);
    assert_int_equal(m->found.confidence, CONFIDENCE_HIGH);
    for (uint32_t rank = 0; rank < m->world; rank++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            reports[rank][i].axis = AXIS_OTHER;
            text_format(reports[rank][i].name, COMMUNICATOR_NAME_SIZE, "%u-%u", rank, i);
        }
    }
    begun = seconds();
    again(m);
    double second = seconds() - begun;
    assert_true(m->found.cut_short);
    assert_int_equal(m->found.confidence, CONFIDENCE_LOW);
    for (uint32_t rank = 0; rank < m->world; rank++) { /* each said to be the whole world's */
        m->scratch->ranks[rank].communicator_count = 1;
        reports[rank][0].axis = AXIS_WORLD;
        reports[rank][0].enqueued = 10;
    }
    begun = seconds();
    again(m);
    double third = seconds() - begun;
    assert_true(m->found.cut_short);
    assert_int_equal(m->found.confidence, CONFIDENCE_LOW);
    printf("16,384 ranks x 16 communicators: %.1f ms; all with names of their own: %.1f ms; each "
           "of the world: %.1f ms\n",
           first * 1e3, second * 1e3, third * 1e3);
    assert_true(first < 10 && second < 10 && third < 10);
    mem_free(reports);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_hang),
        cmocka_unit_test(two_host_hangs),
        cmocka_unit_test(silent_node),
        cmocka_unit_test(broken_path),
        cmocka_unit_test(broken_ring),
        cmocka_unit_test(another_order),
        cmocka_unit_test(one_moves),
        cmocka_unit_test(a_waiting_one_is_silent),
        cmocka_unit_test(one_tells_less_than_before),
        cmocka_unit_test(nobody_tells),
        cmocka_unit_test(one_is_in_another_phase),
        cmocka_unit_test(left_inside),
        cmocka_unit_test(who_is_a_step_further_sends_no_more),
        cmocka_unit_test(other_communicators),
        cmocka_unit_test(the_first_are_named),
        cmocka_unit_test(much_to_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
