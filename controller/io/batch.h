/* batch.h: what one turn of the loop made true, and what may be done once that is durable.
 *
 * Private to loop.c. A batch is filled by the steps of one turn, appended to the store once, and
 * held until the store's durable ticket reaches its own. It owns copies of everything. */
#ifndef KEEPSTEP_IO_BATCH_H
#define KEEPSTEP_IO_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/core/event.h"
#include "db/store.h"
#include "proto/base/err.h"

struct batch;

/* Oldest first: tickets only grow. */
struct batch_list {
    struct batch *first;
    struct batch *last;
    uint32_t count;
};

struct batch *batch_create(void);
bool batch_is_large(const struct batch *batch); /* it concerned a good part of a large fleet */
/* Empties it and keeps its memory for another turn; false: it has grown too large to be kept. */
bool batch_reuse(struct batch *batch);
struct batch *batch_free(struct batch *batch);

void batch_add(struct batch *batch, const struct core_output *output);
/* Calls back when the batch is released. */
void batch_wait(struct batch *batch, void (*callback)(void *context), void *context);
void batch_forget(struct batch *batch, const void *context); /* drops its callbacks */
bool batch_is_empty(const struct batch *batch);              /* nothing to store, do or say */
uint32_t batch_record_count(const struct batch *batch);

/* Hands the records to the store and frees them; the batch then has its ticket. A batch without
 * records rests on everything appended before it. */
MUST_CHECK int batch_append(struct batch *batch, struct store *store, struct err *err);

/* After the append. */
bool batch_holds(const struct batch *batch, uint64_t sequence); /* that record is one of its own */
uint32_t batch_action_count(const struct batch *batch);
const struct action *batch_action(const struct batch *batch, uint32_t index);
void batch_log_trace(const struct batch *batch);
void batch_call_back(struct batch *batch);

void batch_list_init(struct batch_list *list);
void batch_list_put(struct batch_list *list, struct batch *batch); /* takes it */
/* The oldest one whose ticket is durable, now the caller's; NULL when there is none. */
struct batch *batch_list_take(struct batch_list *list, uint64_t durable_ticket);
struct batch *batch_list_last(const struct batch_list *list);
uint32_t batch_list_count(const struct batch_list *list);
void batch_list_forget(struct batch_list *list, const void *context);

#endif
