/* incident_case.c: attempts, memory of earlier ones, and the judge. */
#include "controller/tools/incident_case.h"

#include <errno.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    RANKS_PER_NODE = 8,
    EVIDENCE_MS = 10000, /* what comes so soon after an end still belongs to that attempt */
};

int incident_case_create(const struct catalog *catalog, uint32_t tensor, uint32_t pipeline,
                         uint32_t data, incident_warn *warn, void *context,
                         struct incident_case **ret_case, struct err *err)
{
    struct layout_shape shape = {.tensor = tensor,
                                 .context = 1,
                                 .pipeline = pipeline,
                                 .data = data,
                                 .ranks_per_node = RANKS_PER_NODE,
                                 .order = "tp-cp-pp-dp"};
    uint32_t world;
    uint32_t slots;
    int code = layout_check_shape(&shape, &world, &slots, err);
    if (code < 0) {
        return code;
    }
    struct incident_case *one = mem_alloc(1, sizeof(*one));
    one->self = one;
    one->catalog = catalog;
    one->shape = shape;
    one->world = world;
    one->slots = slots;
    one->warn = warn;
    one->context = context;
    one->facts = mem_alloc(CASE_FACTS_MAX, sizeof(one->facts[0]));
    one->sorted = mem_alloc(CASE_FACTS_MAX, sizeof(one->sorted[0]));
    one->readings = mem_alloc(CASE_READINGS_MAX, sizeof(one->readings[0]));
    one->marks = mem_alloc(CASE_MARKS_MAX, sizeof(one->marks[0]));
    one->holder = mem_alloc(slots, sizeof(one->holder[0]));
    one->hang = hang_scratch_create(world);
    names_init(&one->nodes);
    names_init(&one->racks);
    names_init(&one->addresses);
    *ret_case = one;
    return 0;
}

struct incident_case *incident_case_free(struct incident_case *one)
{
    if (one != NULL) {
        names_done(&one->nodes);
        names_done(&one->racks);
        names_done(&one->addresses);
        mem_free(one->rack_of);
        mem_free(one->slot_of);
        mem_free(one->address_node);
        mem_free(one->holder);
        mem_free(one->facts);
        mem_free(one->sorted);
        mem_free(one->readings);
        mem_free(one->marks);
        hang_scratch_free(one->hang);
    }
    return mem_free(one);
}

static void begin(struct incident_case *one)
{
    names_done(&one->nodes);
    names_done(&one->racks);
    names_done(&one->addresses);
    names_init(&one->nodes);
    names_init(&one->racks);
    names_init(&one->addresses);
    one->rack_of = mem_free(one->rack_of);
    one->slot_of = mem_free(one->slot_of);
    one->address_node = mem_free(one->address_node);
    one->node_room = 0;
    one->address_room = 0;
    memset(one->holder, 0, one->slots * sizeof(one->holder[0]));
    one->fact_count = 0;
    one->too_many = false;
    one->ended_count = 0;
    one->reading_count = 0;
    one->job = 0;
    one->job_sure = 0;
    one->mark_count = 0;
    one->past_count = 0;
}

/* ---- what the judge asks ------------------------------------------------------------------ */

/* Everybody who is named is part of the job; those of no slot of the layout have one behind it. */
static int32_t slot_of(const void *context, uint32_t node)
{
    const struct incident_case *one = context;
    for (uint32_t slot = 0; node >= one->node_room || one->slot_of[node] < 0; slot++) {
        if (slot == one->slots) {
            return (int32_t)(one->slots + node);
        }
        if (node != 0 && one->holder[slot] == node) {
            return (int32_t)slot;
        }
    }
    return one->slot_of[node];
}

static uint32_t rack_of(const void *context, uint32_t node)
{
    const struct incident_case *one = context;
    return node < one->node_room ? one->rack_of[node] : 0;
}

static uint32_t peer_of(const void *context, const char *peer)
{
    const struct incident_case *one = context;
    return incident_peer(one->self,
                         peer); /* a name of the layout is taken up when it is heard of */
}

/* ---- attempts ----------------------------------------------------------------------------- */

/* Which attempt a moment belongs to: what comes soon after an end is part of that. */
static uint32_t attempt_at(const struct incident_case *one, uint64_t t_ms)
{
    uint32_t index = 0;
    while (index < one->ended_count && one->ended[index].t_ms + EVIDENCE_MS < t_ms) {
        index++;
    }
    return index;
}

/* Something that can have ended an attempt, or that somebody must look at. */
static bool is_event(const struct fact *fact)
{
    bool mere = fact->source == FACT_PROBE || fact->source == FACT_LOG;
    return !mere || fact->severity >= 1;
}

/* The attempt of each fact, from 0; what stands behind the last end and is no event joins it. */
static uint32_t mark_attempts(struct incident_case *one)
{
    uint32_t last = 0;
    for (uint32_t index = 0; index < one->fact_count; index++) {
        struct fact *fact = &one->facts[index];
        fact->attempt = attempt_at(one, fact->receive_ms);
        last = is_event(fact) && fact->attempt > last ? fact->attempt : last;
    }
    for (uint32_t index = 0; index < one->fact_count; index++) {
        struct fact *fact = &one->facts[index];
        fact->attempt = fact->attempt > last ? last : fact->attempt;
    }
    return last;
}

/* Ends are told by rank. One whose rank a line of its attempt shows on a spare was there. */
static void place_ends(struct incident_case *one)
{
    for (uint32_t index = 0; index < one->fact_count; index++) {
        const struct fact *seen = &one->facts[index];
        if (seen->source == FACT_RANK_END || seen->rank < 0 || seen->node == 0 ||
            one->slot_of[seen->node] >= 0) {
            continue;
        }
        for (uint32_t other = 0; other < one->fact_count; other++) {
            struct fact *end = &one->facts[other];
            if (end->source == FACT_RANK_END && end->attempt == seen->attempt &&
                end->rank / RANKS_PER_NODE == seen->rank / RANKS_PER_NODE && end->rank >= 0) {
                end->node = seen->node;
            }
        }
    }
}

/* A spare of which no line says what it stands for came for the node that was evicted last. */
static void place_spare(struct incident_case *one, uint32_t first, uint32_t end)
{
    uint32_t node = one->past_count > 0 ? one->past[one->past_count - 1].node : 0;
    int32_t slot = node != 0 && one->verdict.action == DO_EVICT ? slot_of(one, node) : -1;
    for (uint32_t index = first; slot >= 0 && slot < (int32_t)one->slots && index < end; index++) {
        uint32_t spare = one->facts[index].node;
        if (spare != 0 && one->slot_of[spare] < 0 && slot_of(one, spare) >= (int32_t)one->slots) {
            one->holder[slot] = spare;
            return;
        }
    }
}

/* Those of one attempt in a row, in the order in which they came. */
static void sort_by_attempt(struct incident_case *one, uint32_t last)
{
    uint32_t count = 0;
    for (uint32_t attempt = 0; attempt <= last; attempt++) {
        for (uint32_t index = 0; index < one->fact_count; index++) {
            if (one->facts[index].attempt == attempt) {
                one->sorted[count++] = one->facts[index];
            }
        }
    }
    CHECK(count == one->fact_count);
    struct fact *facts = one->facts;
    one->facts = one->sorted;
    one->sorted = facts;
}

static void remember(struct incident_case *one, uint32_t first, uint32_t end)
{
    const struct judge_verdict *v = &one->verdict;
    for (uint32_t index = first; index < end && one->mark_count < CASE_MARKS_MAX; index++) {
        const struct fact *fact = &one->facts[index];
        const struct judge_mark mark = {.what = judge_mark_of(fact),
                                        .is_value = judge_is_value(fact),
                                        .age_ms = fact->receive_ms, /* until it is asked for */
                                        .node = fact->node,
                                        .job = one->input.job};
        if (mark.what != 0) {
            one->marks[one->mark_count++] = mark;
        }
    }
    if (one->past_count == CASE_PAST_MAX) {
        return;
    }
    uint32_t node = v->blamed_count > 0 ? v->blamed[0] : 0;
    one->past[one->past_count++] = (struct judge_past){
        .signature = v->signature,
        .age_ms = one->facts[first].receive_ms,
        .job = one->input.job,
        .node = node,
        .slot = node != 0 ? slot_of(one, node) : -1,
        .moved = text_equal(v->rule, "other-gpu"),
    };
}

/* Turns moments into ages before the attempt that is judged now, and ages into moments. */
static void set_ages(struct incident_case *one, uint64_t now_ms)
{
    for (uint32_t index = 0; index < one->mark_count; index++) {
        one->marks[index].age_ms = now_ms - one->marks[index].age_ms;
    }
    for (uint32_t index = 0; index < one->past_count; index++) {
        one->past[index].age_ms = now_ms - one->past[index].age_ms;
    }
}

void incident_case_judge(struct incident_case *one, const struct incident_row *rows, uint32_t count)
{
    CHECK(count > 0);
    begin(one);
    incident_facts_read(one, rows, count);
    incident_hang_read(one);
    uint32_t last = mark_attempts(one);
    place_ends(one);
    sort_by_attempt(one, last);
    one->input = (struct judge_input){.job = one->job != 0 ? one->job : 1,
                                      .world = one->world,
                                      .slot_count = one->slots,
                                      .ranks_per_node = one->shape.ranks_per_node,
                                      .replicas = one->shape.data,
                                      .ever_stepped = true,
                                      .past = one->past,
                                      .marks = one->marks,
                                      .slot_of = slot_of,
                                      .rack_of = rack_of,
                                      .peer_of = peer_of,
                                      .context = one};
    uint32_t first = 0;
    for (uint32_t attempt = 0; attempt <= last; attempt++) {
        uint32_t end = first;
        while (end < one->fact_count && one->facts[end].attempt == attempt) {
            end++;
        }
        if (end == first && attempt < last) {
            continue;
        }
        place_spare(one, first, end);
        one->input.facts = &one->facts[first];
        one->input.fact_count = end - first;
        one->input.past_count = one->past_count;
        one->input.mark_count = one->mark_count;
        uint64_t now_ms = end > first ? one->facts[end - 1].receive_ms : 0;
        set_ages(one, now_ms);
        judge(&one->input, &one->verdict);
        set_ages(one, now_ms); /* and back */
        if (attempt < last) {
            remember(one, first, end);
        }
        first = end;
    }
}
