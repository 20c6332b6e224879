/* hang.c: the wait-for rule.
 *
 * No graph is built. All reports of one communicator are first summed up in a group: who is
 * furthest, who least far, how many are in an operation. A rank is waited for when it has not
 * reached the furthest operation of one of its groups; that says it without looking at pairs of
 * ranks. Groups are found through a hash table; each rank remembers the groups of its own. */
#include "controller/core/hang.h"

#include <string.h>

#include "controller/core/words.h"
#include "proto/base/check.h"
#include "proto/base/hash.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

#define NONE UINT32_MAX

struct hang_group {
    const struct communicator_report *first; /* NULL: this place is free */
    uint32_t leader;                         /* its lowest rank, but for AXIS_OTHER */
    uint32_t stride;                         /* from one member to the next */
    uint32_t size;                           /* members; of AXIS_OTHER: those that told */
    uint32_t told;
    uint32_t pairwise;    /* members in a send or receive */
    uint32_t collective;  /* members in anything else */
    uint64_t head_max;    /* of these: the furthest operation that a member is in … */
    uint64_t head_min;    /* … and the least far */
    uint16_t operation;   /* … which is this one */
    uint64_t done_min;    /* least number of completed ones … */
    uint32_t at_done_min; /* … and how many have only those */
};

/* What is found out about one rank. */
struct hang_note {
    uint32_t group;  /* where it is waited for: the innermost such group; NONE */
    uint32_t waiter; /* who waits for a send or receive of it: rank x COMMUNICATORS_MAX + index */
    bool awaited;
    bool root;
    uint8_t kind;
};

struct search {
    const struct layout_shape *shape;
    struct hang_scratch *scratch;
    struct hang_found *found;
    uint32_t world;
    uint32_t places; /* of the hash table, a power of two */
    uint32_t group_count;
    uint32_t axis_size[AXIS_DATA + 1];
    uint32_t axis_stride[AXIS_DATA + 1];
    uint32_t silent_slots;
};

static uint32_t groups_of(uint32_t ranks)
{
    return ranks > HANG_GROUPS_LEAST ? ranks : HANG_GROUPS_LEAST;
}

static uint32_t places_of(uint32_t ranks)
{
    uint32_t places = 1;
    while (places < 2 * groups_of(ranks)) { /* half full at most */
        places *= 2;
    }
    return places;
}

struct hang_scratch *hang_scratch_create(uint32_t rank_max)
{
    struct hang_scratch *scratch = mem_alloc(1, sizeof *scratch);
    scratch->rank_max = rank_max;
    scratch->ranks = mem_alloc(rank_max, sizeof *scratch->ranks);
    scratch->notes = mem_alloc(rank_max, sizeof *scratch->notes);
    scratch->groups = mem_alloc(places_of(rank_max), sizeof *scratch->groups);
    scratch->group_of = mem_alloc((size_t)rank_max * COMMUNICATORS_MAX, sizeof *scratch->group_of);
    return scratch;
}

struct hang_scratch *hang_scratch_free(struct hang_scratch *scratch)
{
    if (scratch != NULL) {
        mem_free(scratch->ranks);
        mem_free(scratch->notes);
        mem_free(scratch->groups);
        mem_free(scratch->group_of);
    }
    return mem_free(scratch);
}

/* ---- one report ----------------------------------------------------------------------------- */

static bool is_in_operation(const struct communicator_report *one)
{
    return one->enqueued > one->completed;
}

static bool is_pairwise(const struct communicator_report *one)
{
    return one->operation == OPERATION_SEND || one->operation == OPERATION_RECEIVE;
}

static uint64_t sequence_of(const struct communicator_report *one)
{
    return one->completed + 1;
}

static bool is_anywhere_in_operation(const struct hang_rank *rank)
{
    for (uint32_t i = 0; !rank->silent && i < rank->communicator_count; i++) {
        if (is_in_operation(&rank->communicators[i])) {
            return true;
        }
    }
    return false;
}

/* ---- groups --------------------------------------------------------------------------------- */

/* Along an axis ranks are a fixed number apart: the numbering has mixed digits. */
static void measure_axes(struct search *search)
{
    const struct layout_shape *shape = search->shape;
    const struct layout_coordinates next[] = {
        [AXIS_TENSOR] = {.tensor = 1},
        [AXIS_CONTEXT] = {.context = 1},
        [AXIS_PIPELINE] = {.pipeline = 1},
        [AXIS_DATA] = {.data = 1},
    };
    search->axis_size[AXIS_WORLD] = search->world;
    search->axis_stride[AXIS_WORLD] = 1;
    search->axis_size[AXIS_TENSOR] = shape->tensor;
    search->axis_size[AXIS_CONTEXT] = shape->context;
    search->axis_size[AXIS_PIPELINE] = shape->pipeline;
    search->axis_size[AXIS_DATA] = shape->data;
    for (uint32_t axis = AXIS_TENSOR; axis <= AXIS_DATA; axis++) {
        search->axis_stride[axis] =
            search->axis_size[axis] > 1 ? layout_rank_of(shape, next[axis]) : 1;
    }
}

static uint32_t index_along(const struct search *search, uint32_t axis, uint32_t rank)
{
    return rank / search->axis_stride[axis] % search->axis_size[axis];
}

static uint32_t axis_of(const struct communicator_report *one)
{
    return one->axis <= AXIS_DATA ? one->axis : AXIS_OTHER;
}

static uint32_t leader_of(const struct search *search, uint32_t axis, uint32_t rank)
{
    return axis == AXIS_OTHER ? 0
                              : rank - index_along(search, axis, rank) * search->axis_stride[axis];
}

/* The member with this index, NONE where that cannot be known. */
static uint32_t member_of(const struct hang_group *group, int32_t index)
{
    bool known = axis_of(group->first) != AXIS_OTHER && index >= 0;
    return known && (uint32_t)index < group->size ? group->leader + (uint32_t)index * group->stride
                                                  : NONE;
}

/* The place of the group that this report is about, which it makes; NONE: there is no room. */
static uint32_t group_find(struct search *search, uint32_t rank,
                           const struct communicator_report *one)
{
    const uint32_t axis = axis_of(one);
    const uint32_t leader = leader_of(search, axis, rank);
    uint64_t hash = hash_u64(hash_u64(HASH_INIT, axis), leader);
    uint32_t place = (uint32_t)hash_text(hash, one->name) & (search->places - 1);
    struct hang_group *group = &search->scratch->groups[place];
    while (group->first != NULL) {
        if (axis_of(group->first) == axis && group->leader == leader &&
            text_equal(group->first->name, one->name)) {
            return place;
        }
        place = (place + 1) & (search->places - 1);
        group = &search->scratch->groups[place];
    }
    if (search->group_count == groups_of(search->world)) {
        search->found->cut_short = true;
        return NONE;
    }
    search->group_count++;
    *group = (struct hang_group){.first = one,
                                 .leader = leader,
                                 .stride = axis == AXIS_OTHER ? 0 : search->axis_stride[axis],
                                 .size = axis == AXIS_OTHER ? 0 : search->axis_size[axis],
                                 .head_min = UINT64_MAX,
                                 .done_min = UINT64_MAX};
    return place;
}

static void group_add(struct hang_group *group, const struct communicator_report *one)
{
    group->told++;
    group->size += axis_of(one) == AXIS_OTHER ? 1 : 0;
    if (one->completed < group->done_min) {
        group->done_min = one->completed;
        group->at_done_min = 0;
    }
    group->at_done_min += one->completed == group->done_min ? 1 : 0;
    if (!is_in_operation(one)) {
        return;
    }
    if (is_pairwise(one)) {
        group->pairwise++;
        return;
    }
    group->collective++;
    group->head_max = sequence_of(one) > group->head_max ? sequence_of(one) : group->head_max;
    if (sequence_of(one) < group->head_min) {
        group->head_min = sequence_of(one);
        group->operation = one->operation;
    }
}

static struct hang_group *group_at(const struct search *search, uint32_t rank, uint32_t index)
{
    uint32_t place = search->scratch->group_of[(size_t)rank * COMMUNICATORS_MAX + index];
    return place == NONE ? NULL : &search->scratch->groups[place];
}

/* What the rank told of this group, NULL: nothing. */
static const struct communicator_report *report_of(const struct search *search, uint32_t rank,
                                                   const struct hang_group *group)
{
    const struct hang_rank *one = &search->scratch->ranks[rank];
    for (uint32_t i = 0; !one->silent && i < one->communicator_count; i++) {
        if (group_at(search, rank, i) == group) {
            return &one->communicators[i];
        }
    }
    return NULL;
}

/* It has not come to the furthest operation of the group. */
static bool is_short_of(const struct communicator_report *one, const struct hang_group *group)
{
    if (group->collective == 0 || one->completed >= group->head_max) {
        return false;
    }
    return !is_in_operation(one) || is_pairwise(one) || sequence_of(one) != group->head_max;
}

static void collect(struct search *search)
{
    struct hang_found *found = search->found;
    struct hang_scratch *scratch = search->scratch;
    uint32_t slot_of_silence = NONE;
    memset(scratch->groups, 0, search->places * sizeof *scratch->groups);
    for (uint32_t rank = 0; rank < search->world; rank++) {
        const struct hang_rank *one = &scratch->ranks[rank];
        CHECK(one->communicator_count <= COMMUNICATORS_MAX);
        scratch->notes[rank] = (struct hang_note){.group = NONE, .waiter = NONE};
        found->moving += one->moved ? 1 : 0;
        if (one->silent) {
            uint32_t slot = rank / search->shape->ranks_per_node;
            search->silent_slots += slot != slot_of_silence ? 1 : 0;
            slot_of_silence = slot;
            if (found->silent_count < HANG_SILENT_MAX) {
                found->silent[found->silent_count] = rank;
            }
            found->silent_count++;
            continue;
        }
        found->told += one->communicator_count > 0 ? 1 : 0;
        found->waiting += is_anywhere_in_operation(one) ? 1 : 0;
        for (uint32_t i = 0; i < one->communicator_count; i++) {
            uint32_t place = group_find(search, rank, &one->communicators[i]);
            scratch->group_of[(size_t)rank * COMMUNICATORS_MAX + i] = place;
            if (place != NONE) {
                group_add(&scratch->groups[place], &one->communicators[i]);
            }
        }
    }
}

/* ---- who is waited for ---------------------------------------------------------------------- */

/* Loops of a program nest in this order: what is further in comes first. */
static uint32_t nesting_of(const struct hang_group *group)
{
    static const uint8_t order[] = {
        [AXIS_TENSOR] = 0, [AXIS_CONTEXT] = 1, [AXIS_PIPELINE] = 2,
        [AXIS_DATA] = 3,   [AXIS_OTHER] = 4,   [AXIS_WORLD] = 5,
    };
    return order[axis_of(group->first)];
}

static void await(struct search *search, uint32_t rank, const struct hang_group *group)
{
    struct hang_note *note = &search->scratch->notes[rank];
    const struct hang_group *groups = search->scratch->groups;
    note->awaited = true;
    if (note->group == NONE || nesting_of(group) < nesting_of(&groups[note->group])) {
        note->group = (uint32_t)(group - groups);
    }
}

/* Members that tell of the group and are short of its furthest operation. */
static void await_late(struct search *search, uint32_t rank)
{
    const struct hang_rank *one = &search->scratch->ranks[rank];
    for (uint32_t i = 0; i < one->communicator_count; i++) {
        const struct hang_group *group = group_at(search, rank, i);
        if (group != NULL && is_short_of(&one->communicators[i], group)) {
            await(search, rank, group);
        }
    }
}

/* Members that tell nothing of the group, although others are in an operation of it. No rank is a
 * member of more groups than it may tell of; where names make more of them, each known to few, the
 * rest is left out, since looking at all their members would take the square of the ranks. */
static void await_absent(struct search *search)
{
    uint64_t left = (uint64_t)search->world * COMMUNICATORS_MAX;
    for (uint32_t place = 0; place < search->places; place++) {
        const struct hang_group *group = &search->scratch->groups[place];
        if (group->first == NULL || group->collective == 0) {
            continue;
        }
        if (group->told < group->size && group->size > left) {
            search->found->cut_short = true;
            return;
        }
        left -= group->told < group->size ? group->size : 0;
        for (uint32_t i = 0; group->told < group->size && i < group->size; i++) {
            uint32_t rank = group->leader + i * group->stride;
            if (report_of(search, rank, group) == NULL) {
                await(search, rank, group);
            }
        }
    }
}

/* The other end of the send or receive that the rank is in; NONE: in none, or it is not known. */
static uint32_t other_end(const struct search *search, uint32_t rank, uint32_t index)
{
    const struct communicator_report *one = &search->scratch->ranks[rank].communicators[index];
    const struct hang_group *group = group_at(search, rank, index);
    if (group == NULL || !is_in_operation(one) || !is_pairwise(one)) {
        return NONE;
    }
    uint32_t peer = member_of(group, one->peer);
    return peer == rank ? NONE : peer;
}

/* In this group `rank` is in a send or receive with `peer`; which, NULL: it is not. */
static const struct communicator_report *turned_to(const struct search *search, uint32_t rank,
                                                   uint32_t peer, const struct hang_group *group)
{
    const struct communicator_report *one = report_of(search, rank, group);
    bool turned = one != NULL && is_in_operation(one) && is_pairwise(one) &&
                  member_of(group, one->peer) == peer;
    return turned ? one : NULL;
}

/* Both ends are there: a send and its receive. */
static bool is_met(const struct search *search, uint32_t rank, uint32_t index, uint32_t peer)
{
    const struct communicator_report *own = &search->scratch->ranks[rank].communicators[index];
    const struct communicator_report *other =
        turned_to(search, peer, rank, group_at(search, rank, index));
    return other != NULL && other->operation != own->operation;
}

static void await_other_ends(struct search *search, uint32_t rank)
{
    const struct hang_rank *one = &search->scratch->ranks[rank];
    for (uint32_t i = 0; i < one->communicator_count; i++) {
        uint32_t peer = other_end(search, rank, i);
        if (peer != NONE && !is_met(search, rank, i, peer)) {
            struct hang_note *note = &search->scratch->notes[peer];
            note->awaited = true;
            note->waiter = note->waiter == NONE ? rank * COMMUNICATORS_MAX + i : note->waiter;
        }
    }
}

static void find_awaited(struct search *search)
{
    for (uint32_t rank = 0; rank < search->world; rank++) {
        if (!search->scratch->ranks[rank].silent) {
            await_late(search, rank);
            await_other_ends(search, rank);
        }
    }
    await_absent(search);
}

/* ---- roots ---------------------------------------------------------------------------------- */

static void mark_root(struct search *search, uint32_t rank, uint8_t kind)
{
    struct hang_note *note = &search->scratch->notes[rank];
    search->found->root_count += note->root ? 0 : 1;
    note->root = true;
    note->kind = kind;
}

/* Whatever it is in, all the others have completed. */
static bool is_left_inside(const struct search *search, uint32_t rank)
{
    const struct hang_rank *one = &search->scratch->ranks[rank];
    for (uint32_t i = 0; i < one->communicator_count; i++) {
        const struct communicator_report *report = &one->communicators[i];
        const struct hang_group *group = group_at(search, rank, i);
        if (!is_in_operation(report)) {
            continue;
        }
        if (group == NULL || is_pairwise(report) || group->told < group->size || group->size < 2 ||
            report->completed != group->done_min || group->at_done_min != 1) {
            return false;
        }
    }
    return true;
}

static bool is_much_silence(const struct search *search)
{
    return search->silent_slots > 1 && (uint64_t)search->found->silent_count * 100 >
                                           (uint64_t)search->world * HANG_SILENT_PERCENT;
}

static void find_roots(struct search *search)
{
    const bool much = is_much_silence(search);
    for (uint32_t rank = 0; rank < search->world; rank++) {
        const struct hang_rank *one = &search->scratch->ranks[rank];
        if (!search->scratch->notes[rank].awaited || one->moved || (one->silent && much)) {
            continue;
        }
        if (one->silent) {
            mark_root(search, rank, HANG_SILENT);
        } else if (!is_anywhere_in_operation(one)) {
            mark_root(search, rank, HANG_BEFORE);
        } else if (is_left_inside(search, rank)) {
            mark_root(search, rank, HANG_INSIDE);
        }
    }
}

/* `other` has come further than `rank`: in steps, or in a collective of both. */
static bool is_ahead(const struct search *search, uint32_t other, uint32_t rank)
{
    const struct hang_rank *a = &search->scratch->ranks[other];
    const struct hang_rank *b = &search->scratch->ranks[rank];
    if (a->silent || a->step != b->step) {
        return !a->silent && a->step > b->step;
    }
    for (uint32_t i = 0; i < b->communicator_count; i++) {
        const struct hang_group *group = group_at(search, rank, i);
        const struct communicator_report *report =
            group == NULL ? NULL : report_of(search, other, group);
        if (report != NULL && is_short_of(&b->communicators[i], group) &&
            !is_short_of(report, group)) {
            return true;
        }
    }
    return false;
}

/* Sends and receives that will never be met: the other end is past them, or waits for this one. */
static void find_pairs(struct search *search)
{
    for (uint32_t rank = 0; rank < search->world; rank++) {
        const struct hang_rank *one = &search->scratch->ranks[rank];
        for (uint32_t i = 0; !one->silent && !one->moved && i < one->communicator_count; i++) {
            uint32_t peer = other_end(search, rank, i);
            if (peer == NONE || search->scratch->ranks[peer].moved) {
                continue;
            }
            bool mutual = turned_to(search, peer, rank, group_at(search, rank, i)) != NULL;
            if (mutual || is_ahead(search, peer, rank)) {
                uint32_t waiter = rank * COMMUNICATORS_MAX + i;
                search->scratch->notes[rank].waiter = waiter;
                search->scratch->notes[peer].waiter = waiter;
                mark_root(search, rank, HANG_PAIR);
                mark_root(search, peer, HANG_PAIR);
            }
        }
    }
}

/* The collective that all have reached and none has completed: the innermost, then the first. */
static void find_group(struct search *search)
{
    const struct hang_group *best = NULL;
    for (uint32_t place = 0; place < search->places; place++) {
        const struct hang_group *group = &search->scratch->groups[place];
        bool complete = group->first != NULL && group->size > 1 &&
                        group->collective == group->size && group->head_min == group->head_max;
        bool better =
            complete && (best == NULL || nesting_of(group) < nesting_of(best) ||
                         (nesting_of(group) == nesting_of(best) &&
                          (group->head_min < best->head_min ||
                           (group->head_min == best->head_min && group->leader < best->leader))));
        best = better ? group : best;
    }
    for (uint32_t rank = 0; best != NULL && rank < search->world; rank++) {
        if (report_of(search, rank, best) != NULL) {
            search->scratch->notes[rank].group = (uint32_t)(best - search->scratch->groups);
            mark_root(search, rank, HANG_GROUP);
        }
    }
}

/* Below all others in (step, then another phase than `step`). */
static bool is_below(const struct hang_rank *a, const struct hang_rank *b)
{
    return a->step != b->step ? a->step < b->step
                              : a->phase != PHASE_STEP && b->phase == PHASE_STEP;
}

static void find_behind(struct search *search)
{
    const struct hang_rank *ranks = search->scratch->ranks;
    uint32_t least = 0;
    uint32_t slot = NONE;
    for (uint32_t rank = 1; rank < search->world; rank++) {
        least = is_below(&ranks[rank], &ranks[least]) ? rank : least;
    }
    for (uint32_t rank = 0; rank < search->world; rank++) {
        if (is_below(&ranks[least], &ranks[rank])) {
            continue;
        }
        if (slot != NONE && slot != rank / search->shape->ranks_per_node) {
            return; /* of several slots: nobody is behind alone */
        }
        slot = rank / search->shape->ranks_per_node;
    }
    for (uint32_t rank = 0; rank < search->world; rank++) {
        bool behind = rank / search->shape->ranks_per_node == slot &&
                      !is_below(&ranks[least], &ranks[rank]) && !ranks[rank].moved;
        if (behind && search->world > search->shape->ranks_per_node) {
            mark_root(search, rank, HANG_BEHIND);
        }
    }
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void say_operation(struct hang_root *root, const struct communicator_report *one,
                          uint16_t operation, uint64_t sequence)
{
    (void)text_copy(root->name, sizeof root->name, one->name);
    root->operation = operation;
    root->sequence = sequence;
}

/* What it is in; it is in something. */
static void say_inside(const struct search *search, struct hang_root *root)
{
    const struct hang_rank *one = &search->scratch->ranks[root->rank];
    for (uint32_t i = one->communicator_count; i-- > 0;) {
        const struct communicator_report *report = &one->communicators[i];
        if (is_in_operation(report)) {
            say_operation(root, report, report->operation, sequence_of(report));
        }
    }
}

/* What it has not reached. */
static void say_missed(const struct search *search, const struct hang_note *note,
                       struct hang_root *root)
{
    if (note->group != NONE) {
        const struct hang_group *group = &search->scratch->groups[note->group];
        const struct communicator_report *own = report_of(search, root->rank, group);
        uint64_t sequence = own != NULL ? sequence_of(own) : group->head_min;
        say_operation(root, group->first,
                      sequence == group->head_min ? group->operation : OPERATION_OTHER, sequence);
    } else if (note->waiter != NONE) {
        uint32_t waiter = note->waiter / COMMUNICATORS_MAX;
        const struct communicator_report *one =
            &search->scratch->ranks[waiter].communicators[note->waiter % COMMUNICATORS_MAX];
        say_operation(root, one, one->operation, sequence_of(one));
        root->peer = waiter;
    }
}

static void say_pair(const struct search *search, const struct hang_note *note,
                     struct hang_root *root)
{
    uint32_t waiter = note->waiter / COMMUNICATORS_MAX;
    uint32_t index = note->waiter % COMMUNICATORS_MAX;
    const struct communicator_report *one = &search->scratch->ranks[waiter].communicators[index];
    say_operation(root, one, one->operation, sequence_of(one));
    root->peer = waiter == root->rank ? other_end(search, waiter, index) : waiter;
}

static struct hang_root root_of(const struct search *search, uint32_t rank)
{
    const struct hang_note *note = &search->scratch->notes[rank];
    const struct hang_rank *one = &search->scratch->ranks[rank];
    struct hang_root root = {.rank = rank,
                             .slot = rank / search->shape->ranks_per_node,
                             .count = 1,
                             .kind = note->kind,
                             .phase = one->phase,
                             .step = one->step,
                             .peer = HANG_NO_RANK};
    switch ((enum hang_kind)note->kind) {
    case HANG_SILENT:
    case HANG_BEFORE:
        say_missed(search, note, &root);
        break;
    case HANG_INSIDE:
        say_inside(search, &root);
        break;
    case HANG_PAIR:
        say_pair(search, note, &root);
        break;
    case HANG_GROUP:
        say_missed(search, note, &root);
        root.members = search->scratch->groups[note->group].size;
        break;
    case HANG_BEHIND:
        break;
    }
    return root;
}

static bool comes_before(const struct hang_root *a, const struct hang_root *b)
{
    if (a->step != b->step) {
        return a->step < b->step;
    }
    return a->sequence != b->sequence ? a->sequence < b->sequence : a->rank < b->rank;
}

/* Keeps the list of the most suspect slots in order. */
static void name_root(struct hang_found *found, const struct hang_root *root)
{
    uint32_t place = found->named_count;
    while (place > 0 && comes_before(root, &found->roots[place - 1])) {
        place--;
    }
    if (place == HANG_ROOTS_MAX) {
        return;
    }
    found->named_count += found->named_count < HANG_ROOTS_MAX ? 1 : 0;
    memmove(&found->roots[place + 1], &found->roots[place],
            (found->named_count - 1 - place) * sizeof found->roots[0]);
    found->roots[place] = *root;
}

static void name_roots(struct search *search)
{
    struct hang_root slot = {.count = 0};
    for (uint32_t rank = 0; rank < search->world; rank++) {
        if (!search->scratch->notes[rank].root) {
            continue;
        }
        struct hang_root root = root_of(search, rank);
        search->found->waiting -= is_anywhere_in_operation(&search->scratch->ranks[rank]) ? 1 : 0;
        if (slot.count > 0 && slot.slot != root.slot) {
            name_root(search->found, &slot);
            slot.count = 0;
        }
        search->found->slot_count += slot.count == 0 ? 1 : 0;
        uint32_t count = slot.count + 1;
        slot = slot.count == 0 || comes_before(&root, &slot) ? root : slot;
        slot.count = count;
    }
    if (slot.count > 0) {
        name_root(search->found, &slot);
    }
}

static uint8_t confidence_of(const struct search *search)
{
    const struct hang_found *found = search->found;
    if (found->root_count == 0 || found->cut_short || is_much_silence(search)) {
        return CONFIDENCE_LOW;
    }
    bool all_wait = found->waiting + found->root_count == search->world && found->moving == 0;
    switch ((enum hang_kind)found->roots[0].kind) {
    case HANG_SILENT:
    case HANG_BEFORE:
    case HANG_INSIDE:
        return found->slot_count == 1 && all_wait ? CONFIDENCE_HIGH : CONFIDENCE_MEDIUM;
    case HANG_PAIR:
        return found->root_count == 2 ? CONFIDENCE_MEDIUM : CONFIDENCE_LOW;
    case HANG_GROUP:
        return found->slot_count == 1 ? CONFIDENCE_MEDIUM : CONFIDENCE_LOW;
    case HANG_BEHIND:
        break;
    }
    return CONFIDENCE_LOW;
}

void hang_find(const struct layout_shape *shape, struct hang_scratch *scratch,
               struct hang_found *ret_found)
{
    struct search search = {.shape = shape,
                            .scratch = scratch,
                            .found = ret_found,
                            .world =
                                shape->tensor * shape->context * shape->pipeline * shape->data};
    CHECK(search.world > 0 && search.world <= scratch->rank_max);
    CHECK(shape->ranks_per_node > 0);
    *ret_found = (struct hang_found){0};
    search.places = places_of(search.world);
    measure_axes(&search);
    collect(&search);
    if (ret_found->told > 0) {
        find_awaited(&search);
        find_roots(&search);
    }
    void (*const weaker[])(struct search *) = {find_pairs, find_group, find_behind};
    for (size_t i = 0; i < ARRAY_SIZE(weaker) && ret_found->root_count == 0; i++) {
        weaker[i](&search);
    }
    name_roots(&search);
    ret_found->confidence = confidence_of(&search);
}
