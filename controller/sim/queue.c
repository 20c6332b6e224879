/* queue.c: what will happen, in virtual time. Equal times keep the order of insertion, so a run
 * repeats exactly. */
#include "controller/sim/world.h"
#include "proto/base/mem.h"

enum { QUEUE_CAPACITY = 1 << 17 };

void sim_queue_init(struct sim_queue *queue)
{
    queue->capacity = QUEUE_CAPACITY;
    queue->items = mem_alloc(QUEUE_CAPACITY, sizeof(queue->items[0]));
    queue->events = mem_alloc(QUEUE_CAPACITY, sizeof(queue->events[0]));
    queue->free = mem_alloc(QUEUE_CAPACITY, sizeof(queue->free[0]));
    heap_init(&queue->heap, queue->items, QUEUE_CAPACITY);
    for (uint32_t index = 0; index < QUEUE_CAPACITY; index++) {
        queue->free[index] = QUEUE_CAPACITY - 1 - index;
    }
    queue->free_count = QUEUE_CAPACITY;
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
