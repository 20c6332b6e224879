/* queue.c: what will happen, in virtual time. Equal times keep the order of insertion, so a run
 * repeats exactly. */
#include "controller/sim/world.h"
#include "proto/base/mem.h"

enum { CAPACITY_MIN = 1 << 17, EVENTS_PER_HOST = 96 };

void sim_queue_init(struct sim_queue *queue, uint32_t hosts)
{
    uint32_t wanted = hosts * EVENTS_PER_HOST;
    uint32_t capacity = wanted > CAPACITY_MIN ? wanted : CAPACITY_MIN;
    queue->capacity = capacity;
    queue->items = mem_alloc(capacity, sizeof(queue->items[0]));
    queue->events = mem_alloc(capacity, sizeof(queue->events[0]));
    queue->free = mem_alloc(capacity, sizeof(queue->free[0]));
    heap_init(&queue->heap, queue->items, capacity);
    for (uint32_t index = 0; index < capacity; index++) {
        queue->free[index] = capacity - 1 - index;
    }
    queue->free_count = capacity;
}

void sim_queue_done(struct sim_queue *queue)
{
    queue->items = mem_free(queue->items);
    queue->events = mem_free(queue->events);
    queue->free = mem_free(queue->free);
}

void sim_at(struct sim *sim, uint64_t at_ms, struct sim_event event)
{
    struct sim_queue *queue = &sim->queue;
    CHECK(queue->free_count > 0); /* a world that plans more than that runs away */
    uint32_t place = queue->free[--queue->free_count];
    queue->events[place] = event;
    uint64_t when = at_ms > sim->now_ms ? at_ms : sim->now_ms;
    int result = heap_push(&queue->heap, when, ++queue->tie, place);
    CHECK(result == 0);
}

bool sim_next(struct sim *sim, struct sim_event *ret_event)
{
    struct sim_queue *queue = &sim->queue;
    struct heap_item item;
    if (!heap_pop(&queue->heap, &item)) {
        return false;
    }
    CHECK(item.key >= sim->now_ms);
    sim->now_ms = item.key;
    *ret_event = queue->events[item.value];
    queue->free[queue->free_count++] = (uint32_t)item.value;
    return true;
}
