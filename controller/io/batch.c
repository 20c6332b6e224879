/* batch.c: growing arrays of one turn. Records leave for the store as soon as the turn is over;
 * actions, callbacks and trace lines stay until the commit. */
#include "controller/io/batch.h"

#include <string.h>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum { KEPT_ACTIONS_MAX = 256 }; /* of a batch that is used again */

struct waiter {
    void (*callback)(void *context); /* NULL: forgotten */
    void *context;
};

struct batch {
    struct batch *next;
    uint64_t ticket;
    uint64_t first_sequence;
    uint64_t last_sequence; /* 0: no records */
    struct record *records; /* until the append; texts are owned */
    uint32_t record_count;
    uint32_t record_capacity;
    struct action *actions;
    uint32_t action_count;
    uint32_t action_capacity;
    struct waiter *waiters;
    uint32_t waiter_count;
    uint32_t waiter_capacity;
    char *trace;
    size_t trace_size;
};

struct batch *batch_create(void)
{
    return mem_alloc(1, sizeof(struct batch));
}

static void free_records(struct batch *batch)
{
    for (uint32_t index = 0; index < batch->record_count; index++) {
        (void)mem_free((void *)(uintptr_t)batch->records[index].text);
    }
    batch->records = mem_free(batch->records);
    batch->record_count = 0;
    batch->record_capacity = 0;
}

struct batch *batch_free(struct batch *batch)
{
    if (batch == NULL) {
        return NULL;
    }
    free_records(batch);
    (void)mem_free(batch->actions);
    (void)mem_free(batch->waiters);
    (void)mem_free(batch->trace);
    return mem_free(batch);
}

bool batch_is_large(const struct batch *batch)
{
    return batch->action_count > KEPT_ACTIONS_MAX ||
           (batch->last_sequence != 0 &&
            batch->last_sequence - batch->first_sequence >= KEPT_ACTIONS_MAX);
}

bool batch_reuse(struct batch *batch)
{
    if (batch->action_capacity > KEPT_ACTIONS_MAX || batch->waiter_capacity > KEPT_ACTIONS_MAX ||
        batch->trace != NULL) {
        return false;
    }
    free_records(batch);
    batch->next = NULL;
    batch->ticket = 0;
    batch->first_sequence = 0;
    batch->last_sequence = 0;
    batch->action_count = 0;
    batch->waiter_count = 0;
    return true;
}

/* Room for `more` further elements of an array; doubles, so that adding is cheap. */
static void *make_room(void *array, uint32_t count, uint32_t more, uint32_t *capacity, size_t size)
{
    if (count + more <= *capacity) {
        return array;
    }
    uint32_t wanted = *capacity < 8 ? 8 : *capacity * 2;
    while (wanted < count + more) {
        wanted *= 2;
    }
    *capacity = wanted;
    return mem_grow(array, wanted, size);
}

static void add_records(struct batch *batch, const struct record *records, uint32_t count)
{
    if (count == 0) {
        return;
    }
    batch->records = make_room(batch->records, batch->record_count, count, &batch->record_capacity,
                               sizeof(*batch->records));
    memcpy(&batch->records[batch->record_count], records, count * sizeof(*records));
    for (uint32_t index = batch->record_count; index < batch->record_count + count; index++) {
        struct record *record = &batch->records[index];
        if (record->text != NULL) {
            char *text = mem_alloc(1, (size_t)record->text_size + 1);
            memcpy(text, record->text, record->text_size);
            record->text = text;
        }
    }
    batch->record_count += count;
}

static void add_actions(struct batch *batch, const struct action *actions, uint32_t count)
{
    if (count == 0) {
        return;
    }
    batch->actions = make_room(batch->actions, batch->action_count, count, &batch->action_capacity,
                               sizeof(*batch->actions));
    memcpy(&batch->actions[batch->action_count], actions, count * sizeof(*actions));
    batch->action_count += count;
}

static void add_trace(struct batch *batch, const char *trace)
{
    size_t size = trace != NULL ? strlen(trace) : 0;
    if (size == 0) {
        return;
    }
    batch->trace = mem_grow(batch->trace, batch->trace_size + size + 1, 1);
    memcpy(batch->trace + batch->trace_size, trace, size + 1);
    batch->trace_size += size;
}

void batch_add(struct batch *batch, const struct core_output *output)
{
    add_records(batch, output->records, output->record_count);
    add_actions(batch, output->actions, output->action_count);
    add_trace(batch, output->trace);
}

void batch_wait(struct batch *batch, void (*callback)(void *context), void *context)
{
    batch->waiters = make_room(batch->waiters, batch->waiter_count, 1, &batch->waiter_capacity,
                               sizeof(*batch->waiters));
    batch->waiters[batch->waiter_count] = (struct waiter){callback, context};
    batch->waiter_count++;
}

void batch_forget(struct batch *batch, const void *context)
{
    for (uint32_t index = 0; index < batch->waiter_count; index++) {
        if (batch->waiters[index].context == context) {
            batch->waiters[index].callback = NULL;
        }
    }
}

bool batch_is_empty(const struct batch *batch)
{
    return batch->record_count == 0 && batch->action_count == 0 && batch->waiter_count == 0 &&
           batch->trace_size == 0;
}

uint32_t batch_record_count(const struct batch *batch)
{
    return batch->record_count;
}

int batch_append(struct batch *batch, struct store *store, struct err *err)
{
    uint64_t sequence = 0;
    int result =
        store_append(store, batch->records, batch->record_count, &batch->ticket, &sequence, err);
    if (result < 0) {
        return result;
    }
    if (batch->record_count > 0) {
        batch->first_sequence = sequence;
        batch->last_sequence = sequence + batch->record_count - 1;
    }
    free_records(batch);
    return 0;
}

bool batch_holds(const struct batch *batch, uint64_t sequence)
{
    return batch->last_sequence > 0 && sequence >= batch->first_sequence &&
           sequence <= batch->last_sequence;
}

uint32_t batch_action_count(const struct batch *batch)
{
    return batch->action_count;
}

const struct action *batch_action(const struct batch *batch, uint32_t index)
{
    CHECK(index < batch->action_count);
    return &batch->actions[index];
}

void batch_log_trace(const struct batch *batch)
{
    const char *line = batch->trace;
    while (line != NULL && *line != '\0') {
        const char *end = strchr(line, '\n');
        size_t size = end != NULL ? (size_t)(end - line) : strlen(line);
        char text[512];
        size_t kept = size < sizeof(text) ? size : sizeof(text) - 1;
        memcpy(text, line, kept);
        text[kept] = '\0';
        log_line(LOG_INFO, "trace", text, NULL);
        line = end != NULL ? end + 1 : NULL;
    }
}

void batch_call_back(struct batch *batch)
{
    /* A callback may forget another one, but the batch is no longer in any list: no new ones. */
    for (uint32_t index = 0; index < batch->waiter_count; index++) {
        if (batch->waiters[index].callback != NULL) {
            batch->waiters[index].callback(batch->waiters[index].context);
        }
    }
}

/* ---- lists --------------------------------------------------------------------------------- */

void batch_list_init(struct batch_list *list)
{
    *list = (struct batch_list){.count = 0};
}

void batch_list_put(struct batch_list *list, struct batch *batch)
{
    CHECK(list->last == NULL || batch->ticket >= list->last->ticket);
    batch->next = NULL;
    if (list->last != NULL) {
        list->last->next = batch;
    } else {
        list->first = batch;
    }
    list->last = batch;
    list->count++;
}

struct batch *batch_list_take(struct batch_list *list, uint64_t durable_ticket)
{
    struct batch *batch = list->first;
    if (batch == NULL || batch->ticket > durable_ticket) {
        return NULL;
    }
    list->first = batch->next;
    if (list->first == NULL) {
        list->last = NULL;
    }
    list->count--;
    batch->next = NULL;
    return batch;
}

struct batch *batch_list_last(const struct batch_list *list)
{
    return list->last;
}

uint32_t batch_list_count(const struct batch_list *list)
{
    return list->count;
}

void batch_list_forget(struct batch_list *list, const void *context)
{
    for (struct batch *batch = list->first; batch != NULL; batch = batch->next) {
        batch_forget(batch, context);
    }
}
